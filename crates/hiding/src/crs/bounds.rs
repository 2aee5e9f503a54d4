//! Periodic capacity bound and utilization bound of a server (Pan 2018, 5.3.7).

use memtint_sched::parts::{Demand, Steps, window};
use memtint_sched::{
    Effort, Form, PeriodicResource, Policy, Preemption, Priorities, Supply, TIME_MAX, TaskIndex, TaskSet, Unsupported,
    Verdict, resource_bound, smallest_budget,
};
use memtint_units::Picoseconds;
use num_bigint::{BigInt, BigUint};
use num_rational::Ratio;

/// How the tasks of a server are scheduled, for formulas that know only two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inner {
    /// Earliest deadline first.
    Edf,
    /// Rate monotonic, preemptive.
    RateMonotonic,
}

impl Inner {
    /// Gives the policy for a set.
    #[must_use]
    pub fn policy(self, set: &TaskSet) -> Policy {
        match self {
            Inner::Edf => Policy::Edf,
            Inner::RateMonotonic => Policy::FixedPriority(Priorities::rate_monotonic(set), Preemption::Full),
        }
    }
}

/// Gives the least budget `PCB p_s` that the periodic capacity bound of 5.3.7 asks for with a server period, in picoseconds.
///
/// Corrected, it is the smallest whole budget with which the linear supply bound holds each demand ([`smallest_budget`] with
/// [`Supply::Linear`]). As printed:
///
/// - EDF: `dbf(t) <= lsbf(t)` for *all* `0 < t <= H`, and `lsbf` is negative before `2 (p - e)`, so that `t -> 0` asks
///   for the whole period; the value is the larger of the period and the requirement of the deadlines, and may exceed
///   the period;
/// - RM: response times on a whole processor, with `floor`, put into `ltbf(r) <= p_i`: both unsafe.
///
/// Roots are rounded up. Deadlines are the periods in the formulas; other deadlines are a
/// [`Unsupported::Precondition`] as printed.
pub fn periodic_capacity_bound(
    set: &TaskSet,
    inner: Inner,
    period: Picoseconds,
    form: Form,
    effort: Effort,
) -> Verdict<Picoseconds> {
    if form == Form::Corrected {
        let budget = smallest_budget(set, &inner.policy(set), period, Supply::Linear, effort);
        return budget.map(|budget| Picoseconds(u64::try_from(budget.budget_ps.to_integer()).unwrap_or(u64::MAX)));
    }
    let found = implicit(set).and_then(|()| {
        if !(1..=TIME_MAX.0).contains(&period.0) {
            let needs = "a server period of 1 ps to 2^60 ps";
            return Err(Unsupported::Precondition { task: TaskIndex(0), needs });
        }
        match inner {
            Inner::Edf => printed_edf(set, period.0, effort),
            Inner::RateMonotonic => printed_rate_monotonic(set, period.0, effort),
        }
    });
    match found {
        Ok(budget) => Verdict::Schedulable(Picoseconds(budget)),
        Err(reason) => Verdict::Unsupported(reason),
    }
}

fn implicit(set: &TaskSet) -> Result<(), Unsupported> {
    let other =
        |task: &memtint_sched::Task| task.deadline() != task.period() || task.jitter().0 > 0 || task.blocking().0 > 0;
    match set.tasks().iter().position(other) {
        Some(task) => {
            let needs = "a deadline that is the period, no jitter, no blocking";
            Err(Unsupported::Precondition { task: TaskIndex(task), needs })
        }
        None => Ok(()),
    }
}

/// The smallest whole `e` of `e >= (sqrt((t - 2 p)^2 + 8 p d) - (t - 2 p)) / 4`, that is `e (t - 2 (p - e)) >= p d`.
fn root(length: u64, demand: u128, period: u64) -> u64 {
    let (length, period) = (i128::from(length), i128::from(period));
    let demand = i128::try_from(demand.min(1 << 62)).expect("62 bits");
    let enough = |budget: i128| 2 * budget * budget + budget * (length - 2 * period) >= period * demand;
    let (mut short, mut reaches) = (-1i128, 1 << 62);
    // The parabola falls before its vertex, at (2 p - t) / 4; roots looked for are to the right of it.
    short = short.max((2 * period - length).div_euclid(4) - 1);
    while reaches - short > 1 {
        let middle = short + (reaches - short) / 2;
        if enough(middle) { reaches = middle } else { short = middle }
    }
    reaches as u64
}

fn printed_edf(set: &TaskSet, period: u64, effort: Effort) -> Result<u64, Unsupported> {
    let demand = Demand::new(set);
    let end = window(u128::try_from(set.hyperperiod()).unwrap_or(u128::MAX), TaskIndex(0))?;
    let mut steps = Steps::new(TaskIndex(0), effort);
    let (mut budget, mut length) = (period, demand.next_deadline(0));
    while length <= end {
        steps.step()?;
        budget = budget.max(root(length, demand.work(length), period));
        length = demand.next_deadline(length);
    }
    Ok(budget)
}

fn printed_rate_monotonic(set: &TaskSet, period: u64, effort: Effort) -> Result<u64, Unsupported> {
    let order = Priorities::rate_monotonic(set);
    let mut budget = 0;
    for (rank, &index) in order.order().iter().enumerate() {
        let (task, mut steps) = (&set[index], Steps::new(index, effort));
        let mut reached = task.wcet().0;
        loop {
            steps.step()?;
            let jobs = |&other: &TaskIndex| {
                let other = &set[other];
                u128::from(reached / other.period().0) * u128::from(other.wcet().0)
            };
            let next = u128::from(task.wcet().0) + order.order()[..rank].iter().map(jobs).sum::<u128>();
            let next = window(next, index)?;
            if next == reached {
                break;
            }
            reached = next;
        }
        budget = budget.max(root(task.period().0, reached.into(), period));
    }
    Ok(budget)
}

/// The comparison of a utilization bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UtilizationBound {
    /// Utilization of the set, exact.
    pub found: Ratio<BigUint>,
    /// The bound, exact; 0 where it would be negative. With `ln 2` in it, it is less by at most 10^-18.
    pub most: Ratio<BigUint>,
}

/// Gives the utilization bound of 5.3.7 as printed: EDF `(e / p) (1 - 2 (p - e) / p')`, which is sound, and RM
/// `(e / p) (ln 2 - (p - e) / p')`, which is not; `p'` is the shortest period of the set.
///
/// The corrected bound for RM is a product and has no such closed rational form: [`within_utilization_bound`].
#[must_use]
pub fn utilization_bound(set: &TaskSet, inner: Inner, resource: &PeriodicResource) -> UtilizationBound {
    let shortest = BigInt::from(set.tasks().iter().map(|task| task.period().0).min().unwrap_or(1));
    let signed =
        |value: &Ratio<BigUint>| Ratio::new(BigInt::from(value.numer().clone()), BigInt::from(value.denom().clone()));
    let budget = signed(resource.budget());
    let gap = Ratio::from_integer(BigInt::from(resource.period().0)) - budget;
    let bandwidth = signed(&resource.bandwidth());
    let most = match inner {
        Inner::Edf => bandwidth * (Ratio::from_integer(BigInt::from(1)) - gap * BigInt::from(2) / shortest),
        Inner::RateMonotonic => bandwidth * (ln_2() - gap / shortest),
    };
    let (numerator, denominator) = most.into_raw();
    let most = match numerator.to_biguint() {
        Some(natural) => Ratio::new(natural, denominator.to_biguint().expect("positive")),
        None => Ratio::from_integer(BigUint::ZERO),
    };
    UtilizationBound { found: set.utilization(), most }
}

/// The natural logarithm of 2, rounded down after 18 digits.
fn ln_2() -> Ratio<BigInt> {
    Ratio::new(BigInt::from(693_147_180_559_945_309u64), BigInt::from(1_000_000_000_000_000_000u64))
}

/// Tests whether a set is within the utilization bound of a resource: yes, or [`Unsupported::Inconclusive`], never no.
///
/// Deadlines must be the periods. EDF: as in [`utilization_bound`]. RM corrected (Shin and Lee 2008, TECS): with `k`
/// the largest whole number such that `(k + 1) p - e < p'`, and `G = e / p`, the bound of `n` tasks is
/// `G n (((2 k + 2 (1 - G)) / (k + 2 (1 - G)))^(1/n) - 1)`, compared without roots: `(U / (G n) + 1)^n <= ...`. The
/// bound requires `k >= 1`; see [`resource_bound`]. The printed form has no such condition, and accepts sets that miss
/// deadlines.
pub fn within_utilization_bound(
    set: &TaskSet,
    inner: Inner,
    resource: &PeriodicResource,
    form: Form,
) -> Verdict<UtilizationBound> {
    if let Err(reason) = implicit(set) {
        return Verdict::Unsupported(reason);
    }
    let bound = utilization_bound(set, inner, resource);
    if inner == Inner::Edf || form == Form::AsPrinted {
        return match bound.found <= bound.most {
            true => Verdict::Schedulable(bound),
            false => Verdict::Unsupported(Unsupported::Inconclusive { found: bound.found, most: bound.most }),
        };
    }
    resource_bound(set, &inner.policy(set), resource).map(|_| bound)
}
