//! aarch64: the virtual counter (Arm ARM, DC CIVAC, CNTVCT_EL0), which every program may read on Linux. It ticks 20 to
//! 1000 times per microsecond, more slowly than the processor's clock. The cycle counter would be better, but is not
//! available to programs.

use core::arch::asm;

pub(crate) fn missing() -> Option<&'static str> {
    None
}

pub(crate) fn now() -> u64 {
    let clock: u64;
    // SAFETY: reads a counter and touches no memory. isb orders it against the instructions before and after.
    unsafe { asm!("isb", "mrs {clock}, cntvct_el0", "isb", clock = out(reg) clock, options(nostack, preserves_flags)) };
    clock
}

/// # Safety
/// `line` is the address of a byte that may be read.
pub(crate) unsafe fn read(line: *const u8) -> u32 {
    let (from, to): (u64, u64);
    // The first dsb waits for flushes, the second for the read; isb keeps the clock's readings between them.
    // SAFETY: reads one byte, which the caller guarantees to be readable, and a counter. All clobbered registers are
    // declared.
    unsafe {
        asm!(
            "dsb sy",
            "isb",
            "mrs {from}, cntvct_el0",
            "isb",
            "ldrb {byte:w}, [{line}]",
            "dsb ld",
            "isb",
            "mrs {to}, cntvct_el0",
            "isb",
            line = in(reg) line,
            byte = out(reg) _,
            from = out(reg) from,
            to = out(reg) to,
            options(nostack, preserves_flags)
        );
    }
    u32::try_from(to - from).unwrap_or(u32::MAX)
}

/// # Safety
/// `line` is the address of a byte that may be read.
pub(crate) unsafe fn flush(line: *const u8) {
    // SAFETY: as a read of a byte that the caller guarantees to be readable.
    unsafe { asm!("dc civac, {line}", line = in(reg) line, options(nostack, preserves_flags)) };
}

pub(crate) fn settle() {
    // SAFETY: touches no memory. dsb waits for reads and flushes; isb holds back later instructions.
    unsafe { asm!("dsb sy", "isb", options(nostack, preserves_flags)) };
}
