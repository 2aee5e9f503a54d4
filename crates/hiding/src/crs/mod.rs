//! The Colored Refresh Server: tasks and the refresh of their memory, scheduled so that they do not meet.
//!
//! Pan 2018 (dissertation, NCSU), chapter 5. Ranks of DRAM are put in groups ("colors"). A task uses memory of one
//! group only, and runs in a server of that group, which has a budget in each period. Every retention time, a *refresh
//! lock* task suspends the servers of a group and starts the refresh of its ranks in one burst; a *refresh unlock* task
//! resumes them. In between, servers of the other groups run: the refresh is hidden while they have work.
//!
//! ```text
//!   k tRET + phase                                             + burst
//!        | lock |  burst: ranks of the group are refreshed      | unlock |
//!        |<---------------- no server of the group runs ---------------->|
//!        |  cpu |       servers of the other groups run         |  cpu   |
//! ```
//!
//! The burst begins when the lock task is complete; the two tasks take their time each on every core. The locked
//! windows of different groups must not overlap (the dissertation requires this by using the burst as the deadline of
//! these tasks).
//!
//! # Several cores
//!
//! The dissertation leaves them as future work. The model here: tasks are partitioned to cores and never move. All
//! cores share the ranks. When a group is locked, no core runs a task of it, and the locked windows are the same on all
//! cores: lock and unlock run on each core at the same time (an interrupt to all; its time, and waiting for the last
//! core, is part of the lock's execution time). Each core has separate server priorities and clocks. Banks of different
//! cores are disjoint, so that a core's tasks never wait for another core's row buffer; execution times must include
//! the effect of the remaining shared resources (bus, command queue, a bank group's timing). Under these assumptions
//! only the locked windows of other cores affect a core's servers, and these do not depend on the activity of any core.
//! So each core is analysed alone with all windows, and the system is schedulable if each core is. One core is the
//! dissertation's case. [`partition()`] finds the cores of tasks.
//!
//! # What is proved
//!
//! [`judge`] bounds the supply of each server in any window, whatever the phases of tasks and servers, by
//! [`ServerSupply`], and tests the demand of its tasks against it. If that fails and the times of a server are known,
//! because no server above it defers a budget, it tests against the exact supply; below a server that defers, against
//! the rest of each known period when the servers above take all of their budgets. With deferrable servers the tests
//! are only sufficient: without a yes, the answer is a no only if a schedule is found in which a job is late, and
//! *inconclusive* otherwise. A yes comes with a [`Timeline`] that [`check_timeline`] has replayed. Formulas 5.3.7 and
//! 5.3.8 themselves, in both [`Form`]s, are [`periodic_capacity_bound`], [`utilization_bound`], [`server_responses`],
//! [`printed_responses`], [`algorithm_7`] and [`algorithm_8`].
//!
//! [`optimize`] finds the best servers of all that [`judge`] proves ([`Admission::Proof`]), or of those whose supply is
//! enough whatever the phases ([`Admission::Supply`]); [`partition()`] and [`algorithm_7`] support only the latter.
//!
//! Tasks may have another instance in a second server (copy tasks, 5.3.6; [`System::with_copies`]): no job of theirs
//! waits for a lock. The tests of such servers are only sufficient; timelines and their checker record the instance of
//! each job.
//!
//! Hidden and unhidden refresh ([`Hiding`]) describe throughput: the part of the bursts that costs processor time. They
//! are separate from response times, which a lock delays whether or not another server can use the processor.

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
