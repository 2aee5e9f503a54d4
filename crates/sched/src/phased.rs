//! Exact answers for the phases that are given, by following the one schedule that happens until it repeats.
//!
//! Periodic tasks, that is, with arrivals at `phase + k period` and no later, without jitter and blocking: then a preemptive policy
//! makes one schedule, and shorter executions make no job of it later (preemptive fixed priorities and EDF are
//! sustainable in execution times: Baruah and Burns 2006). It is enough to look at `[0, last phase + 2 H)`, with `H` the
//! hyperperiod, when the utilization is at most 1: Leung and Merrill 1980 for EDF; for fixed priorities, with deadlines not beyond periods, the schedule repeats
//! from `last phase + H` on at the latest (Leung and Whitehead 1982; Goossens and Devillers 1997 give an earlier point).
//!
//! For sporadic tasks and for sets without phases, ask [`judge`](crate::judge()).

use crate::check::{Violation, check};
use crate::edf::Demand;
use crate::fixed::Preemption;
use crate::schedule::{Coverage, Policy, Schedule, schedule};
use crate::task::{Task, TaskIndex, TaskSet, load};
use crate::verdict::{Cause, Overload, Unsupported, Verdict};
use num_bigint::BigUint;
use std::cmp::Ordering;

/// Decides whether every job meets its deadline with just these phases; a yes comes with the schedule, which the independent
/// checker has accepted.
///
/// Needs preemption, deadlines not beyond periods, no jitter and no blocking, and at most `jobs_max` jobs until the schedule
/// repeats; [`Unsupported::Horizon`] otherwise. A no names a job by its number from 0, and a window that ends at its
/// deadline, except that a utilization above 1 is shown by a window of the worst phases.
///
/// # Panics
///
/// When the priorities are those of another set.
///
/// ```
/// use memtint_sched::{Policy, TaskSet, TaskSpec, Verdict, judge_phases};
/// use memtint_units::Picoseconds as Ps;
///
/// let half = |name, phase| TaskSpec::new(name, Ps(4), Ps(2)).deadline(Ps(2)).phase(Ps(phase));
/// let apart = TaskSet::new([half("a", 0), half("b", 2)])?;
/// assert!(judge_phases(&apart, &Policy::Edf, 100).is_schedulable());
/// let together = TaskSet::new([half("a", 0), half("b", 1)])?;
/// let Verdict::Unschedulable(late) = judge_phases(&together, &Policy::Edf, 100) else { panic!("4 are due at 3") };
/// assert_eq!((late.window_ps, late.demand_ps), (3u8.into(), 4u8.into()));
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn judge_phases(set: &TaskSet, policy: &Policy, jobs_max: u64) -> Verdict<Schedule> {
    if policy.preemption() == Preemption::None {
        return Verdict::Unsupported(Unsupported::Platform { needs: "jobs that can be preempted, to use phases" });
    }
    let needs = |task: &Task| {
        let late = (task.deadline() > task.period()).then_some("a deadline not beyond the period, to use phases");
        let jitter = (task.jitter().0 > 0).then_some("no jitter, to use phases");
        late.or(jitter).or((task.blocking().0 > 0).then_some("no blocking, to use phases"))
    };
    let refuse = |(task, own)| needs(own).map(|needs| Unsupported::Precondition { task, needs });
    if let Some(reason) = set.indexed().find_map(refuse) {
        return Verdict::Unsupported(reason);
    }
    if load(set.tasks().iter()) == Ordering::Greater {
        // Each hyperperiod leaves more work over than the one before: at the end of the horizon possibly no job is late
        // yet.
        return Verdict::Unschedulable(Demand::new(set).overrun());
    }
    let found = schedule(set, policy, jobs_max);
    match check(set, &found) {
        // A job that is late is so whatever else the window does not hold.
        Err(Violation::Late { task, job, .. }) => no(set, policy, task, job),
        Err(violation) => Verdict::Unsupported(Unsupported::Contradiction(Box::new(violation))),
        Ok(_) => match &found.coverage {
            Coverage::Part(hyperperiod) => {
                Verdict::Unsupported(Unsupported::Horizon { hyperperiod_ps: hyperperiod.clone(), jobs_max })
            }
            _ => Verdict::Schedulable(found),
        },
    }
}

/// Finds the window that ends at the deadline of a late job and is overloaded: it begins where one of the jobs that go before
/// it, or it itself, arrives.
fn no(set: &TaskSet, policy: &Policy, task: TaskIndex, job: u64) -> Verdict<Schedule> {
    let own = &set[task];
    let due = |other: &Task, job: u64| other.phase().0 + job * other.period().0 + other.deadline().0;
    let end = due(own, job);
    let mut before: Vec<(u64, u64)> = Vec::new();
    for (index, other) in set.indexed() {
        let first = match policy {
            Policy::Edf | Policy::NonPreemptiveEdf => true,
            Policy::FixedPriority(order, _) => {
                let place = |task| order.order().iter().position(|&other| other == task);
                place(index) <= place(task)
            }
        };
        let mut number = 0;
        let mut arrival = other.phase().0;
        while first && arrival < end {
            let counts = match policy {
                Policy::Edf | Policy::NonPreemptiveEdf => due(other, number) <= end,
                Policy::FixedPriority(..) => index != task || number <= job,
            };
            if counts {
                before.push((arrival, other.wcet().0));
            }
            number += 1;
            arrival += other.period().0;
        }
    }
    before.sort_unstable();
    let mut demand = 0u128;
    for (arrival, wcet) in before.into_iter().rev() {
        demand += u128::from(wcet);
        if demand > u128::from(end - arrival) {
            let (window_ps, demand_ps) = (BigUint::from(end - arrival), BigUint::from(demand));
            let job = BigUint::from(job);
            return Verdict::Unschedulable(Overload { task, job, window_ps, demand_ps, cause: Cause::Deadline });
        }
    }
    // A job that is late has such a window; that there is none is a defect of the schedule.
    let found = memtint_units::Picoseconds(end);
    let accepted = "accepted is a window that is overloaded before a late job";
    Verdict::Unsupported(Unsupported::Contradiction(Box::new(Violation::Window { found, accepted })))
}
