//! One question, one answer: a policy decided, with a witness schedule that the checker has accepted.

use crate::check::{Accepted, check};
use crate::edf::{DemandTest, quick_processor_demand};
use crate::fixed::fixed_priority;
use crate::nonpreemptive_edf::nonpreemptive_edf;
use crate::schedule::{Policy, Schedule, schedule};
use crate::task::TaskSet;
use crate::verdict::{Effort, Response, Unsupported, Verdict};

/// The evidence for a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The result of the analysis.
    pub evidence: Evidence,
    /// A schedule of the policy, over a hyperperiod or the window it states.
    pub schedule: Schedule,
    /// The independent checker's findings in it.
    pub accepted: Accepted,
}

/// The result of an analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The worst response time of each task, in the set's order.
    Responses(Vec<Response>),
    /// The windows that all hold their demand.
    Demand(DemandTest),
}

/// Decides whether every job meets its deadline under a policy; a yes comes with a schedule that an independent checker
/// has replayed and accepted. The schedule has at most `jobs_max` jobs, and states its window.
///
/// If the checker refuses the schedule of an accepted set, the answer is [`Unsupported::Contradiction`]: one of the two
/// is wrong, and neither is trusted.
///
/// # Panics
///
/// When the priorities are those of another set.
///
/// ```
/// use memtint_sched::{Coverage, Effort, Policy, TaskSet, TaskSpec, Verdict, judge};
/// use memtint_units::Picoseconds as Ps;
///
/// let set = TaskSet::new([TaskSpec::new("a", Ps(4), Ps(2)), TaskSpec::new("b", Ps(6), Ps(3))])?;
/// let Verdict::Schedulable(witness) = judge(&set, &Policy::Edf, Effort::default(), 1000) else { panic!("U = 1") };
/// assert_eq!((witness.schedule.window, witness.schedule.coverage), (Ps(12), Coverage::Hyperperiod));
/// assert_eq!((witness.accepted.jobs, witness.accepted.idle), (5, Ps(0)));
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn judge(set: &TaskSet, policy: &Policy, effort: Effort, jobs_max: u64) -> Verdict<Witness> {
    let verdict = match policy {
        Policy::FixedPriority(priorities, preemption) => {
            fixed_priority(set, priorities, *preemption, effort).map(Evidence::Responses)
        }
        Policy::Edf => quick_processor_demand(set, effort).map(Evidence::Demand),
        Policy::NonPreemptiveEdf => nonpreemptive_edf(set, effort).map(Evidence::Demand),
    };
    match verdict {
        Verdict::Schedulable(evidence) => witness(set, policy, evidence, jobs_max),
        Verdict::Unschedulable(late) => Verdict::Unschedulable(late),
        Verdict::Unsupported(reason) => Verdict::Unsupported(reason),
    }
}

fn witness(set: &TaskSet, policy: &Policy, evidence: Evidence, jobs_max: u64) -> Verdict<Witness> {
    let schedule = schedule(set, policy, jobs_max);
    match check(set, &schedule) {
        Ok(accepted) => {
            assert_bounded(set, &evidence, &accepted);
            Verdict::Schedulable(Witness { evidence, schedule, accepted })
        }
        Err(violation) => Verdict::Unsupported(Unsupported::Contradiction(Box::new(violation))),
    }
}

/// The schedule is one that can happen, so no response in it is above the bound.
fn assert_bounded(set: &TaskSet, evidence: &Evidence, accepted: &Accepted) {
    let Evidence::Responses(bounds) = evidence else { return };
    for ((own, bound), seen) in set.tasks().iter().zip(bounds).zip(&accepted.responses) {
        assert!(*seen <= Some(bound.response), "a schedule in which {:?} takes longer than its bound", own.name());
    }
}
