//! Huge, long and short tasks, and the cost of copies: sections 4.3.3, 4.3.7 and 4.3.8.

use crate::cyclic::frames::RefreshedMemory;
use memtint_sched::{Form, Task};
use memtint_units::{ByteSize, Picoseconds};
use num_bigint::BigUint;
use num_rational::Ratio;

/// The class of a task in section 4.3.7 (and 4.3.3 for huge tasks); a task can be in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Needs more than `K - 1` ranks, so that no frame leaves all its data alone; one such task can be accounted for by a
    /// burst as blocking, which [`color`](crate::cyclic::color()) does not do: it answers *unsupported*.
    pub huge: bool,
    /// Has a period of at least `R`, and `p - e < R / K`: hardly a frame in which it does not run.
    pub long: bool,
    /// Has a period below `2 R / K`. (Section 5.3.6 calls another thing short: a period below the length of a burst.)
    pub short: bool,
}

/// Classifies a task that needs `ranks` ranks.
#[must_use]
pub fn class(task: &Task, memory: &RefreshedMemory, ranks: u32) -> Class {
    let (period, grain) = (task.period().0, memory.grain().0);
    Class {
        huge: ranks > memory.ranks() - 1,
        long: period >= memory.retention().0 && period.saturating_sub(task.wcet().0) < grain,
        short: period < 2 * grain,
    }
}

/// Gives the ranks that an allocation needs, `ceil(memAllocSize / rankSize)` (4.3.7), at least 1.
///
/// # Panics
///
/// When a rank has no bytes.
#[must_use]
pub fn rank_need(allocation: ByteSize, rank: ByteSize) -> u64 {
    allocation.0.div_ceil(rank.0).max(1)
}

/// Gives the utilization that a long task may have, `1 - tRFC / tREFI * rankReq / K` (4.3.7), exact; zero when refresh takes all.
///
/// It is necessary, not sufficient: it accepts loads, and guarantees no deadline.
///
/// # Panics
///
/// When `t_refi` is zero.
#[must_use]
pub fn long_task_bound(memory: &RefreshedMemory, t_refi: Picoseconds, ranks: u32) -> Ratio<BigUint> {
    let (whole, all) = (u128::from(t_refi.0), u128::from(memory.ranks()));
    let lost = u128::from(memory.t_rfc().0) * u128::from(ranks);
    Ratio::new(BigUint::from((whole * all).saturating_sub(lost)), BigUint::from(whole * all))
}

/// Gives how long it takes to bring a task's globals from one instance to another, rounded up to a picosecond.
///
/// As printed (4.3.8) it is `globalMem / bandwidth`; corrected, each byte is read and written, and counts twice where
/// `bytes_per_second` is the bandwidth of both directions together. (Sections 5.3.6 and 5.3.8 print a product instead.)
///
/// # Panics
///
/// When the bandwidth is zero, or the time exceeds 64 bits.
#[must_use]
pub fn copy_time(globals: ByteSize, bytes_per_second: u64, form: Form) -> Picoseconds {
    let moved = u128::from(globals.0) * if form == Form::Corrected { 2 } else { 1 };
    let time = (moved * 1_000_000_000_000).div_ceil(u128::from(bytes_per_second));
    Picoseconds(u64::try_from(time).expect("a copy of months"))
}

/// Gives the blocking by auto-refresh that a job is spared when it never meets one (4.3.8), in picoseconds, exact.
///
/// As printed `tRFC / tREFI * e`; corrected `ceil(e / tREFI) * tRFC`, because refreshes come whole.
///
/// # Panics
///
/// When `t_refi` is zero.
#[must_use]
pub fn refresh_gain(wcet: Picoseconds, t_rfc: Picoseconds, t_refi: Picoseconds, form: Form) -> Ratio<BigUint> {
    match form {
        Form::AsPrinted => Ratio::new(BigUint::from(t_rfc.0) * wcet.0, t_refi.0.into()),
        Form::Corrected => Ratio::from_integer(BigUint::from(wcet.0.div_ceil(t_refi.0)) * t_rfc.0),
    }
}

/// Returns whether a copy takes at most the time that it saves (4.3.8).
#[must_use]
pub fn copy_pays(copy: Picoseconds, gain: &Ratio<BigUint>) -> bool {
    Ratio::from_integer(BigUint::from(copy.0)) <= *gain
}

/// Gives the most bytes of globals whose copy still pays, by [`copy_time`] and [`refresh_gain`] of one form.
///
/// The example of 4.3.8 (1 ms, 350 ns, 7.8 us, 10 GB/s) prints 0.5 MB for 448 717 B.
///
/// # Panics
///
/// When `t_refi` is zero, or the bytes exceed 64 bits.
#[must_use]
pub fn break_even_bytes(
    wcet: Picoseconds,
    t_rfc: Picoseconds,
    t_refi: Picoseconds,
    bytes_per_second: u64,
    form: Form,
) -> ByteSize {
    let ways = if form == Form::Corrected { 2u64 } else { 1 };
    let bytes = refresh_gain(wcet, t_rfc, t_refi, form) * BigUint::from(bytes_per_second)
        / BigUint::from(ways * 1_000_000_000_000);
    ByteSize(u64::try_from(bytes.to_integer()).expect("more bytes than there are"))
}
