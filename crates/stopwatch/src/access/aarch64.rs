//! aarch64: the virtual counter (Arm ARM, DC CIVAC, CNTVCT_EL0), which Linux lets every program use. It ticks more slowly than the
//! processor's clock, 20 to 1000 times a microsecond; the cycle counter, which would be better, Linux keeps to itself.

use core::arch::asm;

pub(crate) fn missing() -> Option<&'static str> {
    None
}

pub(crate) fn now() -> u64 {
    let clock: u64;
    // SAFETY: reads a counter and touches no memory. isb keeps what is before and after it where it is.
    unsafe { asm!("isb", "mrs {clock}, cntvct_el0", "isb", clock = out(reg) clock, options(nostack, preserves_flags)) };
    clock
}

/// # Safety
/// `line` is the address of a byte that may be read.
pub(crate) unsafe fn read(line: *const u8) -> u32 {
    let (from, to): (u64, u64);
    // The first dsb waits for flushes, the second for the read; isb keeps the clock's readings between them.
    // SAFETY: reads one byte, which the caller says may be read, and a counter. All registers that change are named.
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
    // SAFETY: as a read of a byte that the caller says may be read.
    unsafe { asm!("dc civac, {line}", line = in(reg) line, options(nostack, preserves_flags)) };
}

pub(crate) fn settle() {
    // SAFETY: touches no memory. dsb waits for reads and flushes, isb keeps what is after it behind.
    unsafe { asm!("dsb sy", "isb", options(nostack, preserves_flags)) };
}
