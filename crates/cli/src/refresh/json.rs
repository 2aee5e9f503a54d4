//! What a simulation came to, for programs.

use memtint_refresh::{Bound, Locked, Met, Outcome, Scheme, Spread, TaskOutcome};
use memtint_sim::scenario::Workload;
use memtint_units::ByteSize;
use schemars::JsonSchema;
use serde::Serialize;

use super::report::complaints;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// What became of a task set on a machine whose memory is refreshed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct SimulateReport {
    /// Version of the form of this report.
    schema: u32,
    /// Which report it is.
    #[schemars(extend("const" = "refresh simulate"))]
    report: &'static str,
    /// Fields of the system file that the simulation does not consider.
    not_considered: Vec<String>,
    /// How memory was refreshed.
    scheme: Scheme,
    /// Time of one refresh command (tRFC).
    t_rfc_ps: u64,
    /// Simulated time.
    simulated_ps: u64,
    /// What everything repeats after; null where it was not simulated in full.
    hyperperiod_ps: Option<u64>,
    /// Whether the scheme keeps what it promises.
    holds: bool,
    /// Why it does not.
    complaints: Vec<String>,
    /// The analysis that bounds are from.
    analysis: String,
    /// What the scheme asks of memory that the standard does not give.
    beyond_standard: Option<&'static str>,
    /// The tasks.
    tasks: Vec<TaskReport>,
    /// Time that each core had a task, of those that have tasks.
    core_busy_ps: Vec<u64>,
    /// How many requests met a refresh of their rank.
    requests_that_met_a_refresh: u64,
    /// These requests, rank by rank.
    met: Vec<MetReport>,
    /// Whether rows kept their data; null without refresh.
    retention: Option<RetentionReport>,
    /// What locks of ranks cost; null without locks.
    locks: Option<LocksReport>,
    /// Mean latency of all reads of memory, rounded down.
    latency_mean_ps: u64,
}

impl SimulateReport {
    pub(super) fn new(outcome: &Outcome, not_considered: Vec<String>) -> SimulateReport {
        SimulateReport {
            schema: SCHEMA,
            report: "refresh simulate",
            not_considered,
            scheme: outcome.scheme,
            t_rfc_ps: outcome.t_rfc.0,
            simulated_ps: outcome.duration.0,
            hyperperiod_ps: outcome.hyperperiod.map(|one| one.0),
            holds: outcome.holds(),
            complaints: complaints(outcome),
            analysis: outcome.analysis.clone(),
            beyond_standard: outcome.scheme.beyond_standard(),
            tasks: outcome.tasks.iter().map(TaskReport::from).collect(),
            core_busy_ps: outcome.busy.iter().map(|busy| busy.0).collect(),
            requests_that_met_a_refresh: outcome.requests_met(),
            met: outcome.met.iter().map(MetReport::from).collect(),
            retention: outcome.retention.as_ref().map(|found| RetentionReport {
                losses: found.losses,
                longest_ps: outcome.refresh_gap.map(|gap| gap.0),
                first: found.first.as_ref().map(ToString::to_string),
            }),
            locks: outcome.locked.as_ref().map(LocksReport::from),
            latency_mean_ps: outcome.latency().0,
        }
    }
}

/// What became of a task, over all of its instances.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TaskReport {
    /// Its name.
    name: String,
    /// Its core.
    core: u32,
    /// Its server.
    server: Option<String>,
    /// Ranks that hold its data, of each instance.
    ranks: Vec<Vec<u32>>,
    /// Its period.
    period_ps: u64,
    /// Its WCET.
    wcet_ps: u64,
    /// Its relative deadline.
    deadline_ps: u64,
    /// References of a job.
    references_of_a_job: u64,
    /// What its jobs execute.
    workload: Executed,
    /// What its longest job takes alone, without refresh.
    alone_max_ps: u64,
    /// What its shortest job takes alone, without refresh.
    alone_min_ps: u64,
    /// Jobs that were late, those at the end of the simulation included.
    deadline_misses: u64,
    /// From arrival to end of each finished job.
    response_ps: SpreadReport,
    /// How long each finished job had its core.
    execution_ps: SpreadReport,
    /// From access to data of each read of memory.
    latency_ps: SpreadReport,
    /// Times it lost its core before it was done.
    preemptions: u64,
    /// Jobs that went over to another instance.
    copies: u64,
    /// No response is longer, by the analysis.
    bound_ps: Option<u64>,
    /// Why there is no bound.
    no_bound_because: Option<String>,
    /// Whether every response is within the bound.
    within_bound: Option<bool>,
    /// Why the task ended, if it did.
    ended: Option<String>,
}

impl From<&TaskOutcome> for TaskReport {
    fn from(task: &TaskOutcome) -> TaskReport {
        let (bound_ps, no_bound_because) = match &task.bound {
            Bound::Within(bound) => (Some(bound.0), None),
            Bound::Unbounded => (None, Some("unbounded".to_owned())),
            Bound::Unknown(reason) => (None, Some(reason.clone())),
        };
        TaskReport {
            name: task.name.clone(),
            core: task.core,
            server: task.server.clone(),
            ranks: task.ranks.clone(),
            period_ps: task.period.0,
            wcet_ps: task.wcet.0,
            deadline_ps: task.deadline.0,
            references_of_a_job: task.job.references,
            workload: Executed::of(&task.job.workload),
            alone_max_ps: task.job.alone.0,
            alone_min_ps: task.job.alone_least.0,
            deadline_misses: task.misses,
            response_ps: SpreadReport::from(&task.response),
            execution_ps: SpreadReport::from(&task.execution),
            latency_ps: SpreadReport::from(&task.latency),
            preemptions: task.preemptions,
            copies: task.copies,
            bound_ps,
            no_bound_because,
            within_bound: task.within(),
            ended: task.ended.clone(),
        }
    }
}

/// What jobs execute.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Executed {
    /// Reads of lines, one after the other.
    Bandwidth {
        /// The memory that they are in, such as "1 MiB".
        #[schemars(with = "String")]
        size: ByteSize,
        /// Distance of two references, such as "64 B".
        #[schemars(with = "String")]
        step: ByteSize,
        /// Whether they are writes.
        write: bool,
        /// Instructions between two references.
        gap: u32,
    },
    /// A program with published statistics.
    Program {
        /// Its model, `SET/NAME` of the catalogue.
        model: String,
    },
}

impl Executed {
    fn of(workload: &Workload) -> Executed {
        match *workload {
            Workload::Program { ref model } => Executed::Program { model: model.clone() },
            Workload::Bandwidth { size, step, write, gap } => Executed::Bandwidth { size, step, write, gap },
            ref other => unreachable!("jobs are models or read lines, not {other:?}"),
        }
    }
}

/// A distribution of times.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SpreadReport {
    /// How many.
    count: u64,
    /// The least; 0 of none.
    min: u64,
    /// The mean, rounded down; 0 of none.
    mean: u64,
    /// The greatest; 0 of none.
    max: u64,
}

impl From<&Spread> for SpreadReport {
    fn from(spread: &Spread) -> SpreadReport {
        SpreadReport { count: spread.count, min: spread.min.0, mean: spread.mean().0, max: spread.max.0 }
    }
}

/// Requests that met a refresh of a rank.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct MetReport {
    /// The rank.
    rank: u32,
    /// How many.
    requests: u64,
    /// The tasks with data there.
    tasks: Vec<String>,
}

impl From<&Met> for MetReport {
    fn from(met: &Met) -> MetReport {
        MetReport { rank: met.rank, requests: met.requests, tasks: met.tasks.clone() }
    }
}

/// Whether rows kept their data.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RetentionReport {
    /// Refreshes that came too late.
    losses: u64,
    /// The longest time in which a rank's rows went without refresh.
    longest_ps: Option<u64>,
    /// The first refresh that came too late.
    first: Option<String>,
}

/// What locks of ranks cost.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LocksReport {
    /// Time in which some rank was locked.
    locked_ps: u64,
    /// Of that, for each core: it was idle because ready tasks could not run for the locks.
    unhidden_ps: Vec<u64>,
    /// The rest, for each core.
    hidden_ps: Vec<u64>,
    /// What lock and unlock tasks took of all cores.
    lock_tasks_ps: u64,
    /// What a lock task takes of a core, at least.
    lock_task_ps: u64,
    /// What an unlock task takes of a core.
    unlock_task_ps: u64,
    /// Whether these are assumed, because the system file does not give them.
    lock_assumed: bool,
    /// Lock tasks that ran.
    locks: u64,
    /// Dirty lines that they wrote back.
    cleaned_lines: u64,
    /// Jobs that went over to another instance.
    copies: u64,
    /// Lines of data that were copied for that.
    copied_lines: u64,
}

impl From<&Locked> for LocksReport {
    fn from(locked: &Locked) -> LocksReport {
        LocksReport {
            locked_ps: locked.locked.0,
            unhidden_ps: locked.unhidden.iter().map(|time| time.0).collect(),
            hidden_ps: locked.unhidden.iter().map(|time| locked.locked.0.saturating_sub(time.0)).collect(),
            lock_tasks_ps: locked.tasks.0,
            lock_task_ps: locked.lock_task.0,
            unlock_task_ps: locked.unlock_task.0,
            lock_assumed: locked.assumed,
            locks: locked.locks,
            cleaned_lines: locked.cleaned_lines,
            copies: locked.copies,
            copied_lines: locked.copied_lines,
        }
    }
}
