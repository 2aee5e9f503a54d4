//! Real-time analysis: whether every job meets its deadline, and why.
//!
//! This crate judges task sets on one processor exactly. All arithmetic is on integers and exact rationals; no
//! floating-point number takes part in a verdict. A [`Verdict`] is yes with its evidence, no with the task, the window
//! and the demand that exceeds it, or *unsupported* with the reason, which is never reported as a no.
//!
//! It deliberately uses no simulation, neither memtint's nor that of its tests, which exist to contradict it; it reads
//! no files and prints nothing. Context switches cost nothing here.
//!
//! Arrivals: tasks are sporadic, that is, periods are least distances, and any phases can happen. Where phases are given
//! and differ, a yes still holds, and a no becomes [`Unsupported::Phases`]; [`judge_phases`] is for exactly those phases.
//!
//! Types to know: [`TaskSpec`] and [`TaskSet`] (what to judge), [`Verdict`]. Start at [`judge`](judge()), which
//! adds to each yes a schedule that an independent [checker](check()) has replayed.
//!
//! ```
//! use memtint_sched::{Effort, Preemption, Priorities, TaskSet, TaskSpec, Verdict, fixed_priority};
//! use memtint_units::Picoseconds;
//!
//! let ms = |value: u64| Picoseconds::from_ns(value * 1_000_000);
//! let set = TaskSet::new([TaskSpec::new("control", ms(5), ms(2)), TaskSpec::new("vision", ms(7), ms(4))])?;
//! let order = Priorities::rate_monotonic(&set);
//! let Verdict::Unschedulable(late) = fixed_priority(&set, &order, Preemption::Full, Effort::default()) else {
//!     panic!("vision would need 8 ms")
//! };
//! assert_eq!(set[late.task].name(), "vision");
//! assert!(late.demand_ps > late.window_ps);
//! # Ok::<(), memtint_sched::SchedError>(())
//! ```
#![forbid(unsafe_code)]

mod banks;
mod bounds;
mod check;
mod coincidence;
mod edf;
mod error;
mod fixed;
mod form;
mod interference;
mod judge;
mod nonpreemptive_edf;
mod phased;
mod predicted;
mod ranks;
mod regulator;
mod resource;
mod schedule;
mod sensitivity;
mod task;
mod verdict;

pub use banks::{HitCap, ParallelBanks, ParallelNeighbour, RowDelays, RowTimings, SharedBanks, WriteBuffer};
pub use bounds::{Within, edf_density, hyperbolic, liu_layland, resource_bound};
pub use check::{Accepted, Violation, check};
pub use edf::{
    DemandTest, processor_demand, quick_processor_demand, quick_processor_demand_with, worst_response_edf,
    worst_response_edf_with,
};
pub use error::SchedError;
pub use fixed::{
    Preemption, Priorities, WorstCase, fixed_priority, fixed_priority_with, worst_response, worst_response_with,
};
pub use form::Form;
pub use interference::{
    BankTimings, Banks, Granularity, Interference, MOVED_MAX, Neighbour, Refresh, burst_length, padded, printed_padding,
};
pub use judge::{Evidence, Witness, judge};
pub use nonpreemptive_edf::{nonpreemptive_edf, worst_response_nonpreemptive_edf};
pub use phased::judge_phases;
pub use predicted::{Stretch, predicted_run_time};
pub use ranks::{Density, REF_COMMANDS, RankOrder};
pub use regulator::{Regulator, reservations_fit, reserved};
pub use resource::{Budget, PeriodicResource, Supply, budget_curve, schedulable_on, smallest_budget};
pub use schedule::{Coverage, Policy, Run, Schedule, schedule};
pub use sensitivity::{Limit, Scaled, Scaling, edf_scaling, fixed_priority_scaling};
pub use task::{TIME_MAX, Task, TaskIndex, TaskSet, TaskSpec};
pub use verdict::{AnalysisLimits, Cause, Effort, Overload, Response, Unsupported, Verdict};

/// Parts for analyses of other crates: demand in windows, and the count of steps.
pub mod parts {
    pub use crate::edf::Demand;
    pub use crate::task::utilization;
    pub use crate::verdict::{Steps, WINDOW_MAX, window};
}
