//! The report of a simulation.

mod summary;

pub(crate) use self::summary::report;

use crate::histogram::Histogram;
use memtint_dram::Energy;
use schemars::JsonSchema;
use serde::Serialize;

/// Version of the report's form.
pub const SCHEMA: u32 = 1;

/// The results of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Version of the form.
    pub schema: u32,
    /// File of the scenario.
    pub scenario: String,
    /// Platform.
    pub platform: String,
    /// Devices on each channel.
    pub device: String,
    /// Allocator; several, with commas between them, where tasks have different ones.
    pub allocator: String,
    /// Seed.
    pub seed: u64,
    /// Values that the platform file leaves open and memtint has assumed.
    pub assumed: Vec<String>,
    /// Simulated time.
    pub simulated_ns: f64,
    /// False when the simulation was stopped before its end; everything below is as of then.
    pub complete: bool,
    /// The tasks, in the scenario's order.
    pub tasks: Vec<TaskReport>,
    /// Sum over tasks of speed together by speed alone; with `alone` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighted_speedup: Option<f64>,
    /// Greatest speed alone by speed together; with `alone` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_slowdown: Option<f64>,
    /// Share of time that each core had a task.
    pub core_utilization: Vec<f64>,
    /// Each bank that was used.
    pub banks: Vec<BankReport>,
    /// Each rank.
    pub ranks: Vec<RankReport>,
    /// Requests that met a refresh of their rank: under a timetable that arrived while it was locked, or still waited when
    /// its burst began; else that arrived while their bank was refreshed, or waited when its refresh fell due.
    pub requests_that_met_a_refresh: u64,
    /// Refresh by software; with a timetable only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<LockReport>,
    /// The servers, in the scenario's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerReport>,
    /// The cyclic executive; with a table only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableReport>,
    /// Regulated bandwidth; with budgets only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BandwidthReport>,
}

/// Results of bandwidth budgets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BandwidthReport {
    /// Between two budgets.
    pub period_ns: f64,
    /// Periods that have begun.
    pub periods: u64,
    /// Guaranteed bandwidth of each class of banks, in megabytes a second.
    pub guaranteed_mb_per_s: f64,
    /// Interrupts, of counters, timers and other cores.
    pub interrupts: u64,
    /// Their time on all cores.
    pub overhead_ns: f64,
    /// Tasks that used memory without a budget of the task or of all cores it may run on: the guarantee holds only
    /// without them.
    pub unregulated: Vec<String>,
    /// Lines, read or written, that are not counted: the guarantee holds only without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<&'static str>,
    /// Counted events, by class of banks.
    pub counters: Vec<CounterReport>,
    /// Of each counter, each core and task with a budget.
    pub regulators: Vec<RegulatorReport>,
    /// Of each of these, each period, where the scenario keeps them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PeriodReport>,
}

/// A period of a core or task with a budget, at one counter; numbers of events but where they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PeriodReport {
    /// `core 0`, or `task` and its name.
    pub subject: String,
    /// The kind of event.
    pub counts: String,
    /// Bank classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub banks: Option<String>,
    /// Number of the period, from 1.
    pub period: u32,
    /// When it began.
    pub began_ns: f64,
    /// All.
    pub events: u64,
    /// Of these, in best-effort sharing.
    pub shared: u64,
    /// Granted of the budget.
    pub reserved: u32,
    /// Donated for the group.
    pub donated: u32,
    /// Granted of the group's donation, taken back.
    pub returned: u32,
    /// Granted of the donations of others.
    pub reclaimed: u32,
    /// Donated events that were missing when it was the first of its group to need them.
    pub shortfall: u32,
    /// It was throttled.
    pub throttled: bool,
}

/// Events that are counted together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CounterReport {
    /// The kind of event.
    pub counts: String,
    /// Bank classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub banks: Option<String>,
    /// Bytes of one.
    pub event_bytes: u64,
    /// Guaranteed in a period.
    pub guaranteed: u64,
    /// Most of all cores and tasks in a period, but for those of sharing.
    pub most_in_a_period: u64,
}

/// A core or task with a budget, at one counter; numbers of events but where they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RegulatorReport {
    /// Its group.
    pub group: String,
    /// `core 0`, or `task` and its name.
    pub subject: String,
    /// The kind of event.
    pub counts: String,
    /// Bank classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub banks: Option<String>,
    /// The group's budget in a period (B).
    pub budget: u32,
    /// Most granted at a time (q).
    pub quantum: u32,
    /// Most beyond a grant, as the sum of all budgets assumes (s).
    pub skid: u32,
    /// Most events beyond a grant.
    pub longest_skid: u64,
    /// All.
    pub events: u64,
    /// The same as a bandwidth.
    pub bytes_per_second: f64,
    /// Of these, in best-effort sharing.
    pub shared: u64,
    /// Most in a period, but for those of sharing.
    pub most_in_a_period: u64,
    /// Periods that it began.
    pub periods: u64,
    /// Granted of the budget.
    pub reserved: u64,
    /// Donated for the group.
    pub donated: u64,
    /// Granted of the group's donation, taken back.
    pub returned: u64,
    /// Granted of the donations of others.
    pub reclaimed: u64,
    /// Periods in which donated events were missing when it was the first of its group to need them.
    pub underruns: u64,
    /// Those events.
    pub shortfall: u64,
    /// Periods in which it was throttled.
    pub throttled_periods: u64,
    /// Time in which it was throttled, by any counter.
    pub throttled_ns: f64,
}

impl BandwidthReport {
    /// Returns the assumption of the budgets that did not hold, which voids the guarantee.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        let skid = self.regulators.iter().find(|regulator| regulator.longest_skid > u64::from(regulator.skid));
        let skid = skid.map(|regulator| {
            format!(
                "{} sent {} {} beyond a grant, and the budgets assume at most {} (bandwidth.skid_events)",
                regulator.subject, regulator.longest_skid, regulator.counts, regulator.skid
            )
        });
        let most = self.counters.iter().find(|counter| counter.most_in_a_period > counter.guaranteed);
        let most = most.map(|counter| {
            format!(
                "{} {} in a period, and guaranteed are {}",
                counter.most_in_a_period, counter.counts, counter.guaranteed
            )
        });
        skid.or(most)
    }
}

/// Results of a cyclic executive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TableReport {
    /// Slots that have begun.
    pub slots: u64,
    /// Jobs that were not complete when the last of their slots had ended that begins before their deadline.
    pub jobs_beyond_slots: u64,
    /// The greatest share of a slot's length that its task has used, of all slots; above 1 when it had the core beyond it.
    pub longest_use: f64,
    /// The longest that a task had the core after the end of its slot: it is stopped after the reference that it executes, once
    /// its loads have ended.
    pub longest_overrun_ps: u64,
    /// Each slot of a cycle, by core and start.
    pub slot: Vec<SlotReport>,
}

/// Results of a slot.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SlotReport {
    /// Its task.
    pub task: String,
    /// Its core.
    pub core: usize,
    /// When it begins, from the beginning of a cycle.
    pub start_ns: f64,
    /// How long it is.
    pub length_ns: f64,
    /// The longest time that its task had the core in it.
    pub longest_use_ns: f64,
}

/// Results of a server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// Budgets that it was given.
    pub replenishments: u64,
    /// Time that it had its core, overruns included.
    pub consumed_ns: f64,
    /// The most that it had of its core in a period beyond its budget: it is stopped after the reference that it executes, once
    /// its loads have ended.
    pub longest_overrun_ps: u64,
    /// Time in which locks kept it from running although it had budget and a task was ready.
    pub held_up_ns: f64,
    /// Of that, while nothing else had the core: refresh that is not hidden.
    pub unhidden_ns: f64,
}

/// Results of refresh by software.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LockReport {
    /// Time in which some rank was locked.
    pub locked_ns: f64,
    /// Of that, for each core: time in which it ran something, or had nothing to run.
    pub hidden_ns: Vec<f64>,
    /// Of that, for each core: it was idle because tasks that were ready could not run for the locks.
    pub unhidden_ns: Vec<f64>,
    /// Total time of lock and unlock tasks on their cores.
    pub tasks_ns: f64,
    /// Lock tasks that ran, each once for each of their cores.
    pub locks: u64,
    /// Lines that they wrote back.
    pub cleaned_lines: u64,
    /// Jobs that went over to another instance of their task.
    pub copies: u64,
    /// Lines of data that were brought to it.
    pub copied_lines: u64,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The simulation was over before the task was.
    Running,
    /// It executed all it had to.
    Completed,
    /// There was no frame for it: its numbers are of a part of its work.
    OutOfMemory,
    /// Its trace file ended early: its numbers are of a part of its work.
    Failed,
}

/// Results of a task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// Its core, or those it may run on, as a list.
    pub cores: String,
    /// The allocator of its frames.
    pub allocator: String,
    /// `running`, `completed`, or why it ended.
    pub ending: String,
    /// The same as a kind.
    #[serde(skip)]
    pub end: End,
    /// When it completed; `None` also for a task that ended before its work was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_ns: Option<f64>,
    /// Instructions executed.
    pub instructions: u64,
    /// Memory references executed.
    pub references: u64,
    /// Instructions in a cycle, over the cycles in which it had its core.
    pub ipc: f64,
    /// Accesses answered by the first level.
    pub l1_hits: u64,
    /// Accesses answered by the second level.
    pub l2_hits: u64,
    /// Accesses answered by the last level.
    pub llc_hits: u64,
    /// Accesses answered by another core's cache.
    pub peer_hits: u64,
    /// Accesses answered by memory.
    pub llc_misses: u64,
    /// The same by thousand instructions.
    pub llc_misses_per_kilo_instruction: f64,
    /// Its lines that other tasks displaced from the last level.
    pub llc_displaced_by_others: u64,
    /// Read from memory, prefetches included.
    pub read_bytes_per_second: f64,
    /// Written to memory.
    pub write_bytes_per_second: f64,
    /// Reads that met their row open.
    pub row_hits: u64,
    /// Reads that met the bank closed.
    pub row_misses: u64,
    /// Reads that met another row open.
    pub row_conflicts: u64,
    /// From access to data of demand reads of memory.
    pub read_latency_ns: Distribution,
    /// Its requests that met a refresh of their rank, lines written back on its behalf included.
    pub met_refresh: u64,
    /// First touches.
    pub page_faults: u64,
    /// Frames it has.
    pub frames: u64,
    /// Of these, frames out of its colors: given in soft mode, by allocators that know no colors, or in blocks of huge pages.
    pub frames_out_of_color: u64,
    /// Jobs finished.
    pub jobs: u64,
    /// Jobs that were late.
    pub deadline_misses: u64,
    /// Jobs that were given up at their deadline; they are among the late ones.
    pub jobs_given_up: u64,
    /// Under a table, jobs that were not complete when the last of their slots had ended that begins before their deadline.
    pub jobs_beyond_slots: u64,
    /// Between two of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<f64>,
    /// The task that it is another instance of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// From release to end of each job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_ns: Option<Distribution>,
    /// How long each job had its core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_ns: Option<Distribution>,
    /// Times it lost its core before it had to stop.
    pub preemptions: u64,
    /// Times it went on on another core.
    pub migrations: u64,
    /// Jobs that it took over from another instance of the task.
    pub taken_over: u64,
    /// Waited at barriers.
    pub barrier_idle_ns: f64,
    /// Instructions a second, over all the time until it completed or the simulation ended.
    pub instructions_per_second: f64,
    /// Speed alone by speed together; with `alone` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// Its results alone; with `alone` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone: Option<AloneReport>,
}

/// Results of a task alone on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AloneReport {
    /// Instructions a second, over all the time until it completed or the simulation ended.
    pub instructions_per_second: f64,
    /// Read from memory, prefetches included.
    pub read_bytes_per_second: f64,
    /// Written to memory.
    pub write_bytes_per_second: f64,
    /// Reads that met their row open.
    pub row_hits: u64,
    /// Reads that met the bank closed.
    pub row_misses: u64,
    /// Reads that met another row open.
    pub row_conflicts: u64,
}

/// A distribution of times; quantiles are up to 3.2 % high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation, as of a sample.
    pub deviation: f64,
    /// Least.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Greatest.
    pub max: f64,
}

/// Statistics of a bank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BankReport {
    /// Channel.
    pub channel: u32,
    /// Bank of the channel.
    pub bank: u32,
    /// Requests that met their row open.
    pub row_hits: u64,
    /// Requests that met the bank closed.
    pub row_misses: u64,
    /// Requests that met another row open.
    pub row_conflicts: u64,
    /// Read and written.
    pub bytes_per_second: f64,
    /// From the arrival of a read at the channel to its data.
    pub read_latency_ns: Distribution,
}

/// Statistics of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RankReport {
    /// Channel.
    pub channel: u32,
    /// Rank of the channel.
    pub rank: u32,
    /// ACT commands.
    pub activates: u64,
    /// RD commands.
    pub reads: u64,
    /// WR commands.
    pub writes: u64,
    /// REF, REFpb and REFsb commands.
    pub refreshes: u64,
    /// Requests that met an ordinary refresh.
    pub met_refresh: u64,
    /// Requests that arrived while software had locked the rank.
    pub met_lock: u64,
    /// Requests that arrived before that and still waited when the burst began.
    pub caught_by_lock: u64,
    /// Energy, where the devices' currents are published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_pj: Option<EnergyReport>,
}

/// Energy in picojoules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EnergyReport {
    /// Opening and closing rows.
    pub activate: f64,
    /// Reading.
    pub read: f64,
    /// Writing.
    pub write: f64,
    /// Refreshing.
    pub refresh: f64,
    /// Standing by.
    pub background: f64,
    /// All of it.
    pub total: f64,
}

impl Report {
    /// Returns the task that ended before its work was done, and the reason: out of color, out of memory, a trace that
    /// ends early. The numbers of such a run cover a part of the work.
    #[must_use]
    pub fn unfinished(&self) -> Option<String> {
        let mut tasks = self.tasks.iter().filter(|task| matches!(task.end, End::OutOfMemory | End::Failed));
        tasks.next().map(|task| format!("task {:?} ended before its work was done: {}", task.name, task.ending))
    }
}

impl Distribution {
    /// Summarises picoseconds in nanoseconds.
    #[must_use]
    pub fn of_ps(histogram: &Histogram) -> Distribution {
        Distribution::of(histogram, 1e-3)
    }

    /// Summarises values in units of `ns_of_one` nanoseconds.
    fn of(histogram: &Histogram, ns_of_one: f64) -> Distribution {
        let ns = |value: u64| value as f64 * ns_of_one;
        let quantile = |share| ns(histogram.quantile(share));
        Distribution {
            count: histogram.count(),
            mean: histogram.mean() * ns_of_one,
            deviation: histogram.deviation() * ns_of_one,
            min: ns(histogram.min()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: ns(histogram.max()),
        }
    }
}

impl From<Energy> for EnergyReport {
    fn from(energy: Energy) -> EnergyReport {
        EnergyReport {
            activate: energy.activate_pj as f64,
            read: energy.read_pj as f64,
            write: energy.write_pj as f64,
            refresh: energy.refresh_pj as f64,
            background: energy.background_pj as f64,
            total: energy.total_pj() as f64,
        }
    }
}
