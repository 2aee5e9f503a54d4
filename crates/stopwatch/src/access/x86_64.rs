//! x86-64: the time stamp counter (Intel SDM volume 2, RDTSC, RDTSCP, CLFLUSH, LFENCE, MFENCE).

use core::arch::asm;
use core::arch::x86_64::__cpuid;

/// `rdtscp` is bit 27 of EDX of CPUID 80000001H; every x86-64 processor has `clflush`.
pub(crate) fn missing() -> Option<&'static str> {
    #[allow(unused_unsafe, reason = "a safe function in later compilers than the oldest that is supported")]
    // SAFETY: every x86-64 processor has the instruction, which writes no memory.
    let leaf = |leaf: u32| unsafe { __cpuid(leaf) };
    let known = leaf(0x8000_0000).eax >= 0x8000_0001 && leaf(0x8000_0001).edx >> 27 & 1 == 1;
    (!known).then_some("rdtscp")
}

pub(crate) fn now() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter and touches no memory; `missing` has found rdtscp, which waits for earlier instructions;
    // lfence holds back later ones.
    unsafe { asm!("rdtscp", "lfence", out("eax") low, out("edx") high, out("ecx") _, options(nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// # Safety
/// `line` is the address of a byte that may be read.
pub(crate) unsafe fn read(line: *const u8) -> u32 {
    let (from_low, from_high, to_low, to_high): (u32, u32, u32, u32);
    // mfence waits for flushes, lfence for everything before the clock and keeps the read behind it; rdtscp waits for the read.
    // SAFETY: reads one byte, which the caller guarantees to be readable, and two counters; `missing` has found rdtscp.
    // All clobbered registers are declared.
    unsafe {
        asm!(
            "mfence",
            "lfence",
            "rdtsc",
            "lfence",
            "mov {from_low:e}, eax",
            "mov {from_high:e}, edx",
            "mov {byte}, byte ptr [{line}]",
            "rdtscp",
            "lfence",
            line = in(reg) line,
            byte = out(reg_byte) _,
            from_low = out(reg) from_low,
            from_high = out(reg) from_high,
            out("eax") to_low,
            out("edx") to_high,
            out("ecx") _,
            options(nostack)
        );
    }
    let clock = |high, low| u64::from(high) << 32 | u64::from(low);
    let ticks: u64 = clock(to_high, to_low) - clock(from_high, from_low);
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// `clflush` and not `clflushopt`: every processor has it, and one line is no faster with the other.
///
/// # Safety
/// `line` is the address of a byte that may be read.
pub(crate) unsafe fn flush(line: *const u8) {
    // SAFETY: as a read of a byte that the caller guarantees to be readable.
    unsafe { asm!("clflush [{line}]", line = in(reg) line, options(nostack, preserves_flags)) };
}

pub(crate) fn settle() {
    // SAFETY: touches no memory. mfence waits for flushes, lfence for reads and everything else.
    unsafe { asm!("mfence", "lfence", options(nostack, preserves_flags)) };
}
