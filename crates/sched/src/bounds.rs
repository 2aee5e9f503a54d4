//! Utilization bounds: quick, sufficient, and only for the tasks that their theorems cover.
//!
//! None of them answers no. A set outside of the preconditions is [`Unsupported::Precondition`], one above the bound
//! [`Unsupported::Inconclusive`]; ask [`fixed_priority`](crate::fixed_priority) or
//! [`quick_processor_demand`](crate::quick_processor_demand) then. All comparisons are of exact rationals.

use crate::fixed::Preemption;
use crate::resource::PeriodicResource;
use crate::schedule::Policy;
use crate::task::{Task, TaskIndex, TaskSet};
use crate::verdict::{Unsupported, Verdict};
use num_bigint::BigUint;
use num_rational::Ratio;

/// The two numbers that a bound compared: `found` is at most `most`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    /// The value computed from the tasks, exact.
    pub found: Ratio<BigUint>,
    /// Its largest accepted value, exact.
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

/// Applies the utilization bounds of Shin and Lee (RTSS 2003, in the form of TECS 2008) to a set on a periodic resource: for
/// preemptive EDF, and for preemptive rate-monotonic priorities.
///
/// With `P` and `B` the resource's period and budget, `G = B / P` and `T` the shortest period of the set:
///
/// - EDF: `U <= k G / (k + 2 (1 - G))`, the least of `sbf(t) / t` for `t >= T`. It is taken where a gap ends, at
///   `(k + 2) P - 2 B`; `k` is the largest with `(k + 1) P - B - k B / (k + 2) <= T`, from where on `sbf(t) / t` is no less.
/// - Rate monotonic, `n` tasks: `U <= G n (((2 k + 2 (1 - G)) / (k + 2 (1 - G)))^(1/n) - 1)`, compared without its root;
///   `k` is the largest with `(k + 1) P - B < T`.
///
/// Needs `k >= 1` where the budget is not the whole period, deadlines not before the next arrival, no jitter and no blocking.
/// [`schedulable_on`](crate::schedulable_on) is exact.
///
/// ```
/// use memtint_sched::{PeriodicResource, Policy, TaskSet, TaskSpec, resource_bound};
/// use memtint_units::Picoseconds as Ps;
/// use num_rational::Ratio;
///
/// // 4 of each 10: a window of 32 is supplied no less than 8, and a longer one no smaller part.
/// let resource = PeriodicResource::new(Ps(10), Ratio::from_integer(4u8.into()))?;
/// let set = |wcet| TaskSet::new([TaskSpec::new("a", Ps(32), Ps(wcet))]);
/// assert!(resource_bound(&set(8)?, &Policy::Edf, &resource).is_schedulable());
/// assert!(!resource_bound(&set(9)?, &Policy::Edf, &resource).is_schedulable());
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn resource_bound(set: &TaskSet, policy: &Policy, resource: &PeriodicResource) -> Verdict<Within> {
    let monotonic = match policy {
        Policy::Edf => false,
        Policy::FixedPriority(order, Preemption::Full)
            if order.order().is_sorted_by_key(|&task| set[task].period()) =>
        {
            true
        }
        _ => {
            let needs = "preemptive EDF or preemptive rate-monotonic priorities";
            return Verdict::Unsupported(Unsupported::Platform { needs });
        }
    };
    if let Some(reason) = not_plain(set) {
        return Verdict::Unsupported(reason);
    }
    let (shortest, short) = set.tasks().iter().map(Task::period).zip(0..).min().expect("a set has a task");
    let (shortest, period) = (whole(shortest.0), whole(resource.period().0));
    let whole_period = *resource.budget() == period;
    // Whether windows as long as the shortest period hold k whole budgets before a gap.
    let holds = |k: u64| match monotonic {
        true => whole(k + 1) * &period < &shortest + resource.budget(),
        false => whole(k + 1) * &period <= &shortest + resource.budget() * whole(2 * (k + 1)) / whole(k + 2),
    };
    // Beyond this, k - 1 periods alone are longer.
    let mut beyond = set.tasks()[short].period().0 / resource.period().0 + 3;
    let mut k = 0;
    while beyond - k > 1 {
        let middle = k + (beyond - k) / 2;
        if holds(middle) { k = middle } else { beyond = middle }
    }
    if k == 0 && !whole_period {
        let needs = match monotonic {
            true => "a shortest period of more than 2 P - B of the resource",
            false => "a shortest period of at least 2 P - 4 B / 3 of the resource",
        };
        return Verdict::Unsupported(Unsupported::Precondition { task: TaskIndex(short), needs });
    }
    // On a whole processor k cancels.
    let k = whole(k.max(1));
    let bandwidth = resource.bandwidth();
    let gaps = (one() - &bandwidth) * whole(2);
    if !monotonic {
        return within(set.utilization(), &k * bandwidth / (k + gaps));
    }
    let count = set.tasks().len();
    let mean = one() + set.utilization() / (bandwidth * BigUint::from(count));
    let most = (&k * whole(2) + &gaps) / (k + gaps);
    within((0..count).fold(one(), |power, _| power * &mean), most)
}

fn whole(value: u64) -> Ratio<BigUint> {
    Ratio::from_integer(BigUint::from(value))
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
    set.indexed().find_map(refuse)
}

fn within(found: Ratio<BigUint>, most: Ratio<BigUint>) -> Verdict<Within> {
    if found <= most {
        Verdict::Schedulable(Within { found, most })
    } else {
        Verdict::Unsupported(Unsupported::Inconclusive { found, most })
    }
}
