//! Algorithms 7 and 8 of Pan 2018, 5.3.8, as printed and corrected. They enumerate; [`optimize`](super::optimize()) does not.

use crate::crs::bounds::{Inner, periodic_capacity_bound, utilization_bound};
use crate::crs::model::refuse;
use crate::crs::optimum::{Admission, Optimum, Space, exhaustive};
use crate::error::HidingError;
use memtint_sched::{Effort, Form, PeriodicResource, SchedError, TaskSet, Verdict};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer;
use num_rational::Ratio;

/// The most configurations that an enumeration goes through.
pub const CONFIGURATIONS_MAX: u128 = 100_000_000;

/// Two servers and the refresh of their memory, as Algorithm 8 takes them, in any unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerPair {
    /// Periods, 1 or more.
    pub periods: [u64; 2],
    /// Response times of the servers, by response time analysis.
    pub responses: [u64; 2],
    /// Retention time, 1 or more.
    pub retention: u64,
    /// First refresh of each server's color; not used as printed.
    pub phases: [u64; 2],
    /// Lengths of the bursts `e_r1`, `e_r2`.
    pub bursts: [u64; 2],
}

/// Gives the refresh overhead of a job of a server (index 0 or 1) that is not hidden: Algorithm 8. `span` is `L`.
///
/// As printed: phases are not used, refreshes at the boundary of a server period are missed, both servers get the
/// condition of the first, the search ends at the first refresh found, and without one there is no value (`None`).
/// Corrected: the sum over all refreshes of the server's color that are released in its period `[i p, (i + 1) p)` while
/// it is unfinished and the other is finished; each counts with its whole burst, as in the formula
/// ([`saturated_hiding`](super::saturated_hiding()) gives the part that is really lost). For all jobs of a server,
/// `span` must then be a multiple of both periods and the retention time.
///
/// # Panics
///
/// When the index is neither 0 nor 1, or a period or the retention time is 0.
#[must_use]
pub fn algorithm_8(form: Form, index: usize, job: u64, pair: &ServerPair, span: u64) -> Option<u64> {
    assert!(index < 2, "two servers");
    let (p, r, own) = (pair.periods, pair.responses, job);
    if form == Form::Corrected {
        let refreshes = (0..span / pair.retention).map(|k| pair.phases[index] + k * pair.retention);
        let unhidden = |release: &u64| {
            let other = 1 - index;
            release / p[index] == own && release % p[index] < r[index] && release % p[other] >= r[other]
        };
        return Some(refreshes.filter(unhidden).count() as u64 * pair.bursts[index]);
    }
    for k in 0..=span / pair.retention {
        let release = pair.retention * k;
        for other in 0..=span / p[1 - index] {
            let (m, n) = if index == 0 { (own, other) } else { (other, own) };
            let inside = |job: u64, period: u64| (job + 1) * period > release && release > job * period;
            if inside(m, p[0]) && inside(n, p[1]) {
                let unhidden = release - p[0] * m <= r[0] && release - p[1] * n >= r[1];
                return Some(if unhidden { pair.bursts[index] } else { 0 });
            }
        }
    }
    None
}

/// The result of Algorithm 7.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm7 {
    /// As printed: two budgets, without the periods they are for.
    Budgets {
        /// The budgets, and the periods they belong to, which the algorithm does not return.
        found: Option<([Picoseconds; 2], [Picoseconds; 2])>,
        /// Configurations that passed line 7.
        passed: u64,
    },
    /// Corrected: the best configuration, `None` when none is admitted.
    Best(Option<Optimum>),
}

/// Runs Algorithm 7 on two given workloads, with all times multiples of the unit of the space: `second` states for each
/// task whether it is in the second.
///
/// As printed, costs are never reset, a configuration with a late server is compared with its cost so far, and the
/// filters of lines 4, 5 and 7 are the printed bounds; the server periods end with the hyperperiods of the workloads.
/// The lowest cost is infinite at first, and a call of Algorithm 8 without a value counts 0: the text specifies
/// neither.
///
/// Corrected, it is [`exhaustive`] for these workloads: periods to the longest of the space, budgets from the need of a
/// workload's load, the servers' supply as the test instead of the bounds, the cost as a part of time so that different
/// hyperperiods compare, over `lcm(p_1, p_2, tRET)`, and periods and phases returned.
///
/// # Errors
///
/// [`HidingError::Server`] with the number of configurations when it is more than [`CONFIGURATIONS_MAX`], and when a workload is
/// empty or a hyperperiod is not a multiple of the unit.
///
/// # Panics
///
/// When `second` is not as long as the set.
pub fn algorithm_7(
    set: &TaskSet,
    second: &[bool],
    space: &Space,
    form: Form,
    effort: Effort,
) -> Result<Algorithm7, HidingError> {
    if form == Form::Corrected {
        return exhaustive(set, Some(second), space, Admission::Supply, effort).map(Algorithm7::Best);
    }
    assert_eq!(second.len(), set.tasks().len(), "a server for each task");
    let workload = |server: bool| {
        let own = set.tasks().iter().zip(second).filter(|&(_, &second)| second == server);
        TaskSet::new(own.map(|(task, _)| task.spec()))
    };
    let workloads = [workload(false)?, workload(true)?];
    let unit = space.unit().0;
    let hyperperiod = |set: &TaskSet| set.hyperperiod_time().map(|time| time.0);
    let ends = [hyperperiod(&workloads[0])?, hyperperiod(&workloads[1])?];
    let retention = space.refresh().retention.0;
    let span = set.hyperperiod().lcm(&BigUint::from(retention));
    let Ok(span) = u64::try_from(&span) else {
        return Err(SchedError::Hyperperiod { found: span.to_string(), most: u64::MAX }.into());
    };
    let steps = ends.map(|end| u128::from(end / unit));
    let count = steps.iter().map(|steps| steps * (steps + 1) / 2).product::<u128>();
    if count > CONFIGURATIONS_MAX {
        let accepted = format!("at most {CONFIGURATIONS_MAX}");
        return refuse("algorithm 7".into(), "number of configurations", count.to_string(), accepted);
    }
    Ok(Printed { workloads: &workloads, space, span, effort }.run(ends))
}

struct Printed<'a> {
    workloads: &'a [TaskSet; 2],
    space: &'a Space,
    span: u64,
    effort: Effort,
}

impl Printed<'_> {
    fn run(&self, ends: [u64; 2]) -> Algorithm7 {
        let unit = self.space.unit().0;
        let (mut total, mut least) = (0u128, u128::MAX);
        let (mut found, mut passed) = (None, 0);
        let periods = |end: u64| (1..=end / unit).map(move |step| step * unit);
        for p1 in periods(ends[0]) {
            for p2 in periods(ends[1]) {
                let pairs = [p1, p2];
                let (Some(low1), Some(low2)) = (self.bound(0, p1), self.bound(1, p2)) else { continue };
                for e1 in (low1.div_ceil(unit).max(1)..=p1 / unit).map(|step| step * unit) {
                    for e2 in (low2.div_ceil(unit).max(1)..=p2 / unit).map(|step| step * unit) {
                        if !self.within(0, p1, e1) || !self.within(1, p2, e2) {
                            continue;
                        }
                        passed += 1;
                        total += self.cost(0, pairs, [e1, e2]) + self.cost(1, pairs, [e1, e2]);
                        if total < least {
                            found = Some(([Picoseconds(e1), Picoseconds(e2)], [Picoseconds(p1), Picoseconds(p2)]));
                            least = total;
                        }
                    }
                }
            }
        }
        Algorithm7::Budgets { found, passed }
    }

    fn bound(&self, server: usize, period: u64) -> Option<u64> {
        let (set, inner) = (&self.workloads[server], self.space.inner());
        match periodic_capacity_bound(set, inner, Picoseconds(period), Form::AsPrinted, self.effort) {
            Verdict::Schedulable(budget) => Some(budget.0),
            _ => None,
        }
    }

    fn within(&self, server: usize, period: u64, budget: u64) -> bool {
        let budget = Ratio::from_integer(BigUint::from(budget));
        let inner: Inner = self.space.inner();
        PeriodicResource::new(Picoseconds(period), budget).is_ok_and(|resource| {
            let bound = utilization_bound(&self.workloads[server], inner, &resource);
            bound.found <= bound.most
        })
    }

    /// Lines 8 to 15 or 16 to 23.
    fn cost(&self, server: usize, periods: [u64; 2], budgets: [u64; 2]) -> u128 {
        let refresh = self.space.refresh();
        let retention = refresh.retention.0;
        let phases = [refresh.groups[0].phase.0, refresh.groups[1].phase.0];
        let bursts = [refresh.groups[0].burst.0, refresh.groups[1].burst.0];
        let responses = [budgets[0], below(periods[0], budgets).unwrap_or(u64::MAX)];
        let pair = ServerPair { periods, responses, retention, phases, bursts };
        let tasks = 2 * (refresh.lock.0 + refresh.unlock.0);
        let mut cost = 0;
        for job in 0..=self.span / periods[server] {
            let overhead = algorithm_8(Form::AsPrinted, server, job, &pair, self.span).unwrap_or(0);
            let mut response = budgets[server] + overhead;
            let response = loop {
                let above = if server == 1 { response / periods[0] * budgets[0] } else { 0 };
                let next = budgets[server] + overhead + above + response / retention * tasks;
                if next == response || next >= periods[server] {
                    break next;
                }
                response = next;
            };
            if response >= periods[server] {
                break;
            }
            cost += u128::from(overhead);
        }
        cost
    }
}

/// Response time of the lower server by response time analysis; `None` when the two need more than the processor.
fn below(period: u64, budgets: [u64; 2]) -> Option<u64> {
    if budgets[0] >= period {
        return None;
    }
    let mut reached = budgets[1];
    loop {
        let next = budgets[1] + reached.div_ceil(period) * budgets[0];
        if next == reached {
            return Some(reached);
        }
        reached = next;
    }
}
