//! Utilization bounds: quick, sufficient, and only for the tasks their theorems are about.
//!
//! None of them says no. A set outside of the preconditions is [`Unsupported::Precondition`], one above the bound
//! [`Unsupported::Inconclusive`]; ask [`fixed_priority`](crate::fixed_priority) or
//! [`quick_processor_demand`](crate::quick_processor_demand) then. All comparisons are of exact rationals.

use crate::task::{Task, TaskSet};
use crate::verdict::{Unsupported, Verdict};
use num_bigint::BigUint;
use num_rational::Ratio;

/// The two numbers that a bound compared: `found` is at most `most`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    /// What was computed from the tasks, exact.
    pub found: Ratio<BigUint>,
    /// What it may be at most, exact.
    pub most: Ratio<BigUint>,
}

/// Applies the bound of Liu and Layland 1973 (theorem 5) to preemptive rate-monotonic priorities: `U <= n (2^(1/n) - 1)`,
/// compared as `(1 + U / n)^n <= 2`, which has no root in it.
///
/// Needs deadlines not before the next arrival, no jitter, no blocking. Another tool checked for constrained deadlines where
/// implicit ones were meant, and accepted sets that miss.
///
/// ```
/// use memtint_sched::{TaskSet, TaskSpec, liu_layland};
/// use memtint_units::Picoseconds as Ps;
///
/// let set = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(4)), TaskSpec::new("b", Ps(20), Ps(8))])?;
/// assert!(liu_layland(&set).is_schedulable(), "0.8 is below 0.828");
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn liu_layland(set: &TaskSet) -> Verdict<Within> {
    if let Some(reason) = not_plain(set) {
        return Verdict::Unsupported(reason);
    }
    let count = set.tasks().len();
    let mean = one() + set.utilization() / BigUint::from(count);
    within((0..count).fold(one(), |power, _| power * &mean), one() + one())
}

/// Applies the hyperbolic bound of Bini, Buttazzo and Buttazzo 2003 (theorem 1) to preemptive rate-monotonic priorities:
/// the product of all `1 + C / T` is at most 2. It accepts whatever [`liu_layland`] accepts, and needs the same.
pub fn hyperbolic(set: &TaskSet) -> Verdict<Within> {
    if let Some(reason) = not_plain(set) {
        return Verdict::Unsupported(reason);
    }
    within(set.tasks().iter().fold(one(), |product, task| product * (one() + task.utilization())), one() + one())
}

/// Applies the density bound to preemptive EDF: the sum of all `C / min(D - J, T)` is at most 1.
///
/// Needs deadlines after the latest release, and no blocking. A task's demand in a window `t` is at most `t` times its
/// density, because `floor((t - d) / T) + 1 <= t / min(d, T)`.
pub fn edf_density(set: &TaskSet) -> Verdict<Within> {
    let density = |task: &Task| {
        let shortest = task.deadline().0.saturating_sub(task.jitter().0).min(task.period().0);
        Ratio::new(BigUint::from(task.wcet().0), shortest.into())
    };
    let needs = |task: &Task| {
        let blocked = (task.blocking().0 > 0).then_some("no blocking");
        blocked.or((task.deadline() <= task.jitter()).then_some("a deadline after the latest release"))
    };
    match refused(set, needs) {
        Some(reason) => Verdict::Unsupported(reason),
        None => within(set.tasks().iter().map(density).sum(), one()),
    }
}

fn one() -> Ratio<BigUint> {
    Ratio::from_integer(BigUint::from(1u8))
}

fn not_plain(set: &TaskSet) -> Option<Unsupported> {
    refused(set, |task| {
        let early = (task.deadline() < task.period()).then_some("a deadline not before the end of the period");
        let late = (task.jitter().0 > 0).then_some("no jitter");
        early.or(late).or((task.blocking().0 > 0).then_some("no blocking"))
    })
}

fn refused(set: &TaskSet, needs: impl Fn(&Task) -> Option<&'static str>) -> Option<Unsupported> {
    let refuse = |(task, own)| needs(own).map(|needs| Unsupported::Precondition { task, needs });
    set.tasks().iter().enumerate().find_map(refuse)
}

fn within(found: Ratio<BigUint>, most: Ratio<BigUint>) -> Verdict<Within> {
    if found <= most {
        Verdict::Schedulable(Within { found, most })
    } else {
        Verdict::Unsupported(Unsupported::Inconclusive { found, most })
    }
}
