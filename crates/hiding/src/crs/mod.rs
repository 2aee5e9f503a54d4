//! The Colored Refresh Server: tasks and the refresh of their memory, scheduled so that they do not meet.
//!
//! Pan 2018 (dissertation, NCSU), chapter 5. Ranks of DRAM are put in groups ("colors"). A task uses memory of one group
//! only, and runs in a server of that group, which has a budget in each period. Every retention time, a *refresh lock*
//! task suspends the servers of a group and starts the refresh of its ranks in one burst; a *refresh unlock* task lets
//! them go on. In between, servers of the other groups run: the refresh is hidden as far as they have something to do.
//!
//! ```text
//!   k tRET + phase                                             + burst
//!        | lock |  burst: ranks of the group are refreshed      | unlock |
//!        |<---------------- no server of the group runs ---------------->|
//!        |  cpu |       servers of the other groups run         |  cpu   |
//! ```
//!
//! The burst begins when the lock task is complete; the two tasks take their time each on every core. The locked windows of
//! different groups must not meet (the dissertation asks for that by giving these tasks the burst as their deadline).
//!
//! # Several cores
//!
//! The dissertation leaves them as future work. The model here: tasks are partitioned to cores and never move. All cores
//! share the ranks. When a group is locked, no core runs a task of it, and the locked windows are the same on all cores:
//! lock and unlock run on each core at the same time (an interrupt to all; its time, and waiting for the last core, is part
//! of the lock's execution time). Servers of a core have priorities of their own and clocks of their own. Banks of
//! different cores are disjoint, so that a core's tasks never wait for another's row buffer; what still is shared (bus, command
//! queue, a bank group's timing) must be part of the execution times given. Under these assumptions a core's servers
//! see nothing of another core but the windows, which do not depend on what any core does, so each core is analysed alone
//! with all windows, and the system is schedulable if each core is. One core is the dissertation's case. [`partition()`] finds the
//! cores of tasks.
//!
//! # What is proved
//!
//! [`judge`] bounds what each server supplies in any window, whatever the phases of tasks and servers, by
//! [`ServerSupply`], and tests the demand of its tasks against it; where that is not enough and the times of a server are known, because
//! no server above it defers a budget, against what it supplies exactly; below one that does, against what is left in each known period when
//! those above take all they have. With deferrable servers it is sufficient only: where it does not say yes, the answer is
//! a no only if a schedule is found in which a job is late, and *inconclusive* otherwise. A yes comes with a
//! [`Timeline`] that [`check_timeline`] has replayed. Formulas 5.3.7 and 5.3.8 themselves, in both [`Form`]s, are [`periodic_capacity_bound`],
//! [`utilization_bound`], [`server_responses`], [`printed_responses`], [`algorithm_7`] and [`algorithm_8`].
//!
//! [`optimize`] finds the best servers of all that [`judge`] proves ([`Admission::Proof`]), or of those whose supply is enough whatever the phases
//! ([`Admission::Supply`]); [`partition()`] and [`algorithm_7`] know the latter only.
//!
//! Tasks may have another instance in a second server (copy tasks, 5.3.6; [`System::with_copies`]): no job of theirs waits for a
//! lock. The tests of such servers are sufficient only, and timelines and their checker know whose each job is.
//!
//! Hidden and unhidden refresh ([`Hiding`]) are statements about throughput: which part of the bursts cost processor time. They
//! are separate from response times, which a lock delays whether or not somebody else can use the processor.

mod bounds;
mod copies;
mod decide;
mod model;
mod optimum;
mod partition;
mod pattern;
mod proved;
mod search;
mod supply;
mod timeline;
mod timeline_check;

pub use bounds::{Inner, UtilizationBound, periodic_capacity_bound, utilization_bound, within_utilization_bound};
pub use copies::Copied;
pub use decide::{Proof, ServerProof, Unproved, Witness, judge, server_proofs};
pub use memtint_sched::Form;
pub use memtint_sched::{Density, RankOrder};
pub use model::{Core, Kind, RankGroup, Refresh, Server, System, burst};
pub use optimum::{Admission, Choice, Optimum, Space, exhaustive, optimize};
pub use partition::{CoreShare, Partition, PartitionLimits, Partitioned, partition};
pub use search::{Algorithm7, CONFIGURATIONS_MAX, ServerPair, algorithm_7, algorithm_8};
pub use supply::{
    ServerSupply, auto_refresh_response, printed_responses, server_responses, supplies, total_utilization,
};
pub use timeline::{Burst, Hiding, Timeline, TimelineRun, What, saturated_hiding, timeline};
pub use timeline_check::{TimelineAccepted, TimelineViolation, check_timeline};
