//! Reports of simulations and comparisons.

use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bound, Cell, Comparison, Executed, Locked, Met, Outcome, Scheme, Spread, TaskOutcome, gigabits};

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// The result of a task set on a machine whose memory is refreshed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimulateReport {
    /// Version of the form of this report.
    pub schema: u32,
    /// Which report it is.
    #[schemars(extend("const" = "refresh simulate"))]
    pub report: &'static str,
    /// Fields of the system file that the simulation does not consider.
    pub not_considered: Vec<String>,
    /// How memory was refreshed.
    pub scheme: Scheme,
    /// Time of one refresh command (tRFC).
    pub t_rfc_ps: u64,
    /// Simulated time.
    pub simulated_ps: u64,
    /// The hyperperiod; null if it was not simulated in full.
    pub hyperperiod_ps: Option<u64>,
    /// Whether the scheme keeps its guarantees.
    pub holds: bool,
    /// Why it does not.
    pub complaints: Vec<String>,
    /// The analysis that bounds are from.
    pub analysis: String,
    /// The requirement of the scheme on memory beyond the standard.
    pub beyond_standard: Option<&'static str>,
    /// The tasks.
    pub tasks: Vec<TaskReport>,
    /// Time that each core had a task, of those that have tasks.
    pub core_busy_ps: Vec<u64>,
    /// How many requests met a refresh of their rank.
    pub requests_that_met_a_refresh: u64,
    /// These requests, rank by rank.
    pub met: Vec<MetReport>,
    /// Whether rows kept their data; null without refresh.
    pub retention: Option<RetentionReport>,
    /// Cost of locks of ranks; null without locks.
    pub locks: Option<LocksReport>,
    /// Mean latency of all reads of memory, rounded down.
    pub latency_mean_ps: u64,
}

impl SimulateReport {
    /// Puts it together.
    #[must_use]
    pub fn new(outcome: &Outcome, not_considered: Vec<String>) -> SimulateReport {
        SimulateReport {
            schema: SCHEMA,
            report: "refresh simulate",
            not_considered,
            scheme: outcome.scheme,
            t_rfc_ps: outcome.t_rfc.0,
            simulated_ps: outcome.duration.0,
            hyperperiod_ps: outcome.hyperperiod.map(|one| one.0),
            holds: outcome.holds(),
            complaints: outcome.complaints(),
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

/// The result of a task, over all of its instances.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// Its server.
    pub server: Option<String>,
    /// Ranks that hold its data, of each instance.
    pub ranks: Vec<Vec<u32>>,
    /// Its period.
    pub period_ps: u64,
    /// Its WCET.
    pub wcet_ps: u64,
    /// Its relative deadline.
    pub deadline_ps: u64,
    /// References of a job.
    pub references_of_a_job: u64,
    /// The work of its jobs.
    pub workload: Executed,
    /// Execution time of its longest job alone, without refresh.
    pub alone_max_ps: u64,
    /// Execution time of its shortest job alone, without refresh.
    pub alone_min_ps: u64,
    /// Jobs that were late, those at the end of the simulation included.
    pub deadline_misses: u64,
    /// From arrival to end of each finished job.
    pub response_ps: SpreadReport,
    /// How long each finished job had its core.
    pub execution_ps: SpreadReport,
    /// From access to data of each read of memory.
    pub latency_ps: SpreadReport,
    /// Times it lost its core before it was done.
    pub preemptions: u64,
    /// Jobs that went over to another instance.
    pub copies: u64,
    /// No response is longer, by the analysis.
    pub bound_ps: Option<u64>,
    /// Why there is no bound.
    pub no_bound_because: Option<String>,
    /// Whether every response is within the bound.
    pub within_bound: Option<bool>,
    /// Why the task ended, if it did.
    pub ended: Option<String>,
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
            workload: task.job.workload.clone(),
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

/// A distribution of times.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SpreadReport {
    /// How many.
    pub count: u64,
    /// The least; 0 of none.
    pub min: u64,
    /// The mean, rounded down; 0 of none.
    pub mean: u64,
    /// The greatest; 0 of none.
    pub max: u64,
}

impl From<&Spread> for SpreadReport {
    fn from(spread: &Spread) -> SpreadReport {
        SpreadReport { count: spread.count, min: spread.min.0, mean: spread.mean().0, max: spread.max.0 }
    }
}

/// Requests that met a refresh of a rank.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MetReport {
    /// The rank.
    pub rank: u32,
    /// How many.
    pub requests: u64,
    /// The tasks with data there.
    pub tasks: Vec<String>,
}

impl From<&Met> for MetReport {
    fn from(met: &Met) -> MetReport {
        MetReport { rank: met.rank, requests: met.requests, tasks: met.tasks.clone() }
    }
}

/// Whether rows kept their data.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RetentionReport {
    /// Refreshes that came too late.
    pub losses: u64,
    /// The longest time in which a rank's rows went without refresh.
    pub longest_ps: Option<u64>,
    /// The first refresh that came too late.
    pub first: Option<String>,
}

/// Cost of locks of ranks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LocksReport {
    /// Time in which some rank was locked.
    pub locked_ps: u64,
    /// Of that, for each core: it was idle because ready tasks could not run for the locks.
    pub unhidden_ps: Vec<u64>,
    /// The rest, for each core.
    pub hidden_ps: Vec<u64>,
    /// Processor time of lock and unlock tasks on all cores.
    pub lock_tasks_ps: u64,
    /// Least processor time of a lock task.
    pub lock_task_ps: u64,
    /// Processor time of an unlock task.
    pub unlock_task_ps: u64,
    /// Whether these are assumed, because the system file does not give them.
    pub lock_assumed: bool,
    /// Lock tasks that ran.
    pub locks: u64,
    /// Dirty lines that they wrote back.
    pub cleaned_lines: u64,
    /// Jobs that went over to another instance.
    pub copies: u64,
    /// Lines of data that were copied for that.
    pub copied_lines: u64,
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

/// Schemes beside each other, at several densities.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompareReport {
    /// Version of the form of this report.
    pub schema: u32,
    /// Which report it is.
    #[schemars(extend("const" = "refresh compare"))]
    pub report: &'static str,
    /// Fields of the system file that no simulation considers.
    pub not_considered: Vec<String>,
    /// Mean latency of all reads of memory without refresh, rounded down.
    pub latency_mean_none_ps: u64,
    /// Density by density, scheme by scheme.
    pub cells: Vec<CellReport>,
}

impl CompareReport {
    /// Puts it together.
    #[must_use]
    pub fn new(found: &Comparison, not_considered: Vec<String>) -> CompareReport {
        CompareReport {
            schema: SCHEMA,
            report: "refresh compare",
            not_considered,
            latency_mean_none_ps: found.none.latency().0,
            cells: found.cells.iter().map(|cell| CellReport::new(found, cell)).collect(),
        }
    }
}

/// A scheme at a density.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellReport {
    /// How memory was refreshed.
    pub scheme: Scheme,
    /// Gigabits of a chip.
    pub density_gbit: u32,
    /// The result; absent if the scheme has no schedule.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Whether the scheme keeps its guarantees.
    pub holds: bool,
    /// Why it does not, or has no schedule.
    pub complaints: Vec<String>,
}

impl CellReport {
    fn new(found: &Comparison, cell: &Cell) -> CellReport {
        let (scheme, density_gbit) = (cell.scheme, gigabits(cell.density));
        let (figures, holds, complaints) = match &cell.outcome {
            Ok(outcome) => (Some(Figures::new(found, outcome)), outcome.holds(), outcome.complaints()),
            Err(error) => (None, false, vec![error.to_string()]),
        };
        CellReport { scheme, density_gbit, figures, holds, complaints }
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// Mean share of the time that cores had a task.
    pub utilization: f64,
    /// Mean latency of all reads of memory, rounded down.
    pub latency_mean_ps: u64,
    /// The same, by that without refresh.
    pub latency_over_none: f64,
    /// The longest response of any task, by its deadline.
    pub response_over_deadline_max: f64,
    /// Jobs that were late.
    pub deadline_misses: u64,
    /// How many requests met a refresh of their rank.
    pub requests_that_met_a_refresh: u64,
    /// Time in which cores stood idle only because of locks, all cores together; null without locks.
    pub unhidden_ps: Option<u64>,
    /// Refreshes that came too late.
    pub retention_losses: u64,
    /// Whether every response is within its bound; null where a task has none and no other is beyond its own.
    pub within_bounds: Option<bool>,
    /// The requirement of the scheme on memory beyond the standard.
    pub beyond_standard: Option<&'static str>,
}

impl Figures {
    fn new(found: &Comparison, outcome: &Outcome) -> Figures {
        Figures {
            utilization: outcome.utilization(),
            latency_mean_ps: outcome.latency().0,
            latency_over_none: found.latency_over_none(outcome),
            response_over_deadline_max: outcome.response_over_deadline(),
            deadline_misses: outcome.misses(),
            requests_that_met_a_refresh: outcome.requests_met(),
            unhidden_ps: outcome.unhidden().map(|time| time.0),
            retention_losses: outcome.losses(),
            within_bounds: outcome.within_bounds(),
            beyond_standard: outcome.scheme.beyond_standard(),
        }
    }
}

/// A time to three decimals of the unit that reads best.
#[must_use]
pub fn short(span: Picoseconds) -> String {
    let ps = span.0 as f64;
    match span.0 {
        0 => "0".to_owned(),
        1..1_000_000 => format!("{:.1} ns", ps / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} us", ps / 1e6),
        _ => format!("{:.3} ms", ps / 1e9),
    }
}
