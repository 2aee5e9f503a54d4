//! Running scenarios, and what is told of them.

use crate::error::SimError;
use crate::histogram::Histogram;
use crate::machine::{
    CounterConfig, Machine, Outcome, PeriodUse, RegulationCounts, ServerCounts, Subject, Table, TableCounts,
};
use crate::refresh::LockCounts;
use crate::scenario::{Regulators, Scenario, ServerSpec};
use crate::task::{Ending, TaskCounts};
use memtint_dram::{CommandSink, Device, Energy, EnergyCounts, EnergyMeter, RefreshMet};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Version of the report's form.
pub const SCHEMA: u32 = 1;
/// A simulation asks at least so often whether to go on ...
const STEPS: u64 = 500;
/// ... and after so much simulated time, in picoseconds, which is a fraction of a second to wait for.
const STEP_MAX: u64 = 1_000_000_000;
const PS_PER_SECOND: f64 = 1e12;

/// What a scenario came to.
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
    /// What the platform file leaves open, and was filled in.
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

/// What became of budgets of bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BandwidthReport {
    /// Between two budgets.
    pub period_ns: f64,
    /// Periods that have begun.
    pub periods: u64,
    /// What the memory guarantees to each class of banks, in megabytes a second.
    pub guaranteed_mb_per_s: f64,
    /// Interrupts, of counters, timers and other cores.
    pub interrupts: u64,
    /// What they took of all cores.
    pub overhead_ns: f64,
    /// Tasks that used memory and have no budget, nor have all cores they may run on: what is guaranteed holds without them only.
    pub unregulated: Vec<String>,
    /// Lines that are not counted, read or written: what is guaranteed holds without them only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<&'static str>,
    /// What is counted, by class of banks.
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
    /// What is counted.
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
    /// What they are.
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
    /// What is counted.
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
    /// Most beyond a grant that there were.
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
    /// Tells which assumption of the budgets did not hold: what is guaranteed then is not.
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

/// What became of a cyclic executive.
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

/// What became of a slot.
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

/// What became of a server.
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

/// What refresh by software came to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LockReport {
    /// Time in which some rank was locked.
    pub locked_ns: f64,
    /// Of that, for each core: time in which it ran something, or had nothing to run.
    pub hidden_ns: Vec<f64>,
    /// Of that, for each core: it was idle because tasks that were ready could not run for the locks.
    pub unhidden_ns: Vec<f64>,
    /// What lock and unlock tasks took of their cores, all together.
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

/// What became of a task.
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
    /// What it did alone; with `alone` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone: Option<AloneReport>,
}

/// What a task does on the machine alone.
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

/// What a bank did.
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

/// What a rank did.
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
    /// Tells which task ended before its work was done, and why: out of color, out of memory, a trace that ends early. Numbers of
    /// such a run are of a part of the work.
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

    /// Summarises values of so many nanoseconds each.
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

/// Hears how far simulations are, from 0 to 1 of all there is to do, and says whether to go on.
pub trait Watch: Sync {
    /// Called now and then, from any thread.
    fn go_on(&self, share_done: f64) -> bool;
}

impl<F: Fn(f64) -> bool + Sync> Watch for F {
    fn go_on(&self, share_done: f64) -> bool {
        self(share_done)
    }
}

/// One simulation's result.
struct Run {
    outcome: Outcome,
    complete: bool,
    assumed: Vec<String>,
    allocator: String,
}

/// Simulates a scenario, and each of its tasks alone if it says so, on up to `threads` threads. The result does not
/// depend on their number.
///
/// # Errors
///
/// What the scenario's parts refuse.
pub fn simulate(scenario: &Scenario, threads: usize, watch: &dyn Watch) -> Result<Report, SimError> {
    let sinks = vec![(); scenario.channels()?.count];
    Ok(simulate_watched(scenario, threads, watch, sinks)?.0)
}

/// As [`simulate`], with a sink for the commands of each channel of [`Scenario::channels`]; they see all tasks together, not
/// those that are simulated alone, and come back in order.
///
/// # Errors
///
/// As [`simulate`].
///
/// # Panics
///
/// When there is not one sink for each channel.
pub fn simulate_watched<S: CommandSink + Send>(
    scenario: &Scenario,
    threads: usize,
    watch: &dyn Watch,
    sinks: Vec<S>,
) -> Result<(Report, Vec<S>), SimError> {
    let alone = if scenario.spec().alone { scenario.spec().tasks.len() } else { 0 };
    let jobs = 1 + alone;
    let shares: Mutex<Vec<f64>> = Mutex::new(vec![0.0; jobs]);
    let runs: Vec<Mutex<Option<Result<Run, SimError>>>> = (0..jobs).map(|_| Mutex::new(None)).collect();
    let sinks = Mutex::new(sinks);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return;
            }
            let told = |share: f64| {
                let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
                shares[job] = share;
                watch.go_on(shares.iter().sum::<f64>() / jobs as f64)
            };
            let done = if job == 0 {
                let mut sinks = sinks.lock().unwrap_or_else(PoisonError::into_inner);
                let machine = scenario.watched_machine(std::mem::take(&mut *sinks));
                machine.map(|machine| run(scenario, machine, &told)).map(|(run, seen)| {
                    *sinks = seen;
                    run
                })
            } else {
                let scenario = scenario.alone(job - 1);
                scenario.machine().map(|machine| run(&scenario, machine, &told).0)
            };
            *runs[job].lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs) {
            scope.spawn(work);
        }
        work();
    });
    let mut runs = runs.into_iter().map(|run| {
        run.into_inner().unwrap_or_else(PoisonError::into_inner).expect("every job was done by some thread")
    });
    let together = runs.next().expect("there is one")?;
    let alone = runs.collect::<Result<Vec<Run>, SimError>>()?;
    Ok((report(scenario, &together, &alone), sinks.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

fn run<S: CommandSink>(scenario: &Scenario, mut machine: Machine<S>, go_on: &dyn Fn(f64) -> bool) -> (Run, Vec<S>) {
    let duration = scenario.spec().duration.0.0;
    let references: u64 = scenario.spec().tasks.iter().filter_map(|task| task.references).sum();
    let mut complete = true;
    let step = duration.div_ceil(STEPS).min(STEP_MAX);
    let mut end = 0;
    while end < duration {
        end = (end + step).min(duration);
        if !machine.run_until(Picoseconds(end)) {
            break;
        }
        let by_time = end as f64 / duration as f64;
        let by_work = if references == 0 { 0.0 } else { machine.references_done() as f64 / references as f64 };
        if !go_on(by_time.max(by_work)) && end < duration {
            complete = false;
            break;
        }
    }
    go_on(1.0);
    let run = Run {
        outcome: machine.outcome(),
        complete,
        assumed: machine.assumed().to_vec(),
        allocator: machine.allocators().systems().map(|system| system.name()).collect::<Vec<_>>().join(", "),
    };
    (run, machine.into_sinks())
}

fn report(scenario: &Scenario, together: &Run, alone: &[Run]) -> Report {
    let outcome = &together.outcome;
    let duration = outcome.duration;
    let speeds: Vec<f64> = outcome.tasks.iter().map(|task| speed(task, duration)).collect();
    let slowdowns: Vec<Option<f64>> = speeds
        .iter()
        .enumerate()
        .map(|(index, &together)| {
            let run = alone.get(index)?;
            (together > 0.0).then(|| speed(&run.outcome.tasks[0], run.outcome.duration) / together)
        })
        .collect();
    let tasks = (0..outcome.tasks.len()).map(|index| TaskReport {
        slowdown: slowdowns[index],
        alone: alone.get(index).map(|run| alone_report(&run.outcome)),
        ..task_report(scenario, outcome, index)
    });
    let known = !alone.is_empty() && slowdowns.iter().all(Option::is_some);
    let all = || slowdowns.iter().flatten().copied();
    let width = f64::from(scenario.spec().cores.width);
    let slots = duration.0 as f64 / 1e6 * f64::from(scenario.spec().cores.mhz) * width;
    Report {
        schema: SCHEMA,
        scenario: scenario.origin().to_owned(),
        platform: scenario.platform().id().to_owned(),
        device: scenario.device().name.clone(),
        allocator: together.allocator.clone(),
        seed: scenario.seed(),
        assumed: together.assumed.clone(),
        simulated_ns: duration.as_ns(),
        complete: together.complete && alone.iter().all(|run| run.complete),
        tasks: tasks.collect(),
        weighted_speedup: known.then(|| all().map(|slowdown| 1.0 / slowdown).sum()),
        maximum_slowdown: known.then(|| all().fold(0.0, f64::max)),
        core_utilization: outcome.core_slots.iter().map(|&busy| (busy as f64 / slots).min(1.0)).collect(),
        banks: banks(scenario, outcome),
        ranks: ranks(scenario, outcome),
        requests_that_met_a_refresh: outcome.refresh_met.iter().flatten().map(all_met).sum(),
        locks: outcome.locks.as_ref().map(lock_report),
        servers: scenario.spec().servers.iter().zip(&outcome.servers).map(server_report).collect(),
        table: scenario
            .table()
            .zip(outcome.table.as_ref())
            .map(|(table, counts)| table_report(scenario, outcome, &table, counts)),
        bandwidth: outcome.regulation.as_ref().and_then(|counts| {
            // It was found sound when the machine was built.
            let regulators = scenario.regulators_of_machine().ok().flatten()?;
            Some(bandwidth_report(scenario, outcome, &regulators, counts))
        }),
    }
}

fn bandwidth_report(
    scenario: &Scenario,
    outcome: &Outcome,
    regulators: &Regulators,
    counts: &RegulationCounts,
) -> BandwidthReport {
    let ns = |ps: u64| ps as f64 / 1000.0;
    let seconds = outcome.duration.as_seconds();
    let config = &regulators.config;
    let counters = regulators.counters.iter().zip(&config.counters).zip(&counts.most_in_a_period);
    let counters = counters.map(|(((name, banks, event_bytes), counter), &most_in_a_period)| CounterReport {
        counts: (*name).to_owned(),
        banks: banks.clone(),
        event_bytes: *event_bytes,
        guaranteed: u64::from(counter.guard.guaranteed),
        most_in_a_period,
    });
    let counters: Vec<CounterReport> = counters.collect();
    let regulator = |(subject, place): (usize, &Subject)| {
        let of_counter = move |(index, counter): (usize, &CounterReport)| {
            let seen = &counts.subjects[subject].meters[index];
            let groups = &config.counters[index].guard.groups;
            let group = groups.iter().position(|group| group.cores.contains(&subject)).expect("each is in one");
            RegulatorReport {
                group: regulators.groups[group].clone(),
                subject: subject_name(scenario, *place),
                counts: counter.counts.clone(),
                banks: counter.banks.clone(),
                budget: groups[group].reservation.budget,
                quantum: groups[group].quantum,
                skid: groups[group].skid,
                longest_skid: seen.longest_skid,
                events: seen.events,
                bytes_per_second: if seconds > 0.0 {
                    (seen.events * counter.event_bytes) as f64 / seconds
                } else {
                    0.0
                },
                shared: seen.shared,
                most_in_a_period: seen.most_in_a_period,
                periods: seen.periods,
                reserved: seen.reserved,
                donated: seen.donated,
                returned: seen.returned,
                reclaimed: seen.reclaimed,
                underruns: seen.underruns,
                shortfall: seen.shortfall,
                throttled_periods: seen.throttled,
                throttled_ns: ns(counts.subjects[subject].throttled_ps),
            }
        };
        counters.iter().enumerate().map(of_counter).collect::<Vec<_>>()
    };
    let history = config.subjects.iter().zip(&counts.subjects).flat_map(|(&place, seen)| {
        let of_counter = move |(counter, periods): (&CounterReport, &Vec<PeriodUse>)| {
            let of_period = |period: &PeriodUse| period_report(subject_name(scenario, place), counter, period);
            periods.iter().map(of_period).collect::<Vec<_>>()
        };
        counters.iter().zip(&seen.history).flat_map(of_counter).collect::<Vec<_>>()
    });
    let history = history.collect();
    let is_regulated = |task: usize| {
        let cores = scenario.cores_of(&scenario.spec().tasks[task]).ok();
        let has = |core: u32| config.subjects.contains(&Subject::Core(core as usize));
        config.subjects.contains(&Subject::Task(task)) || cores.is_some_and(|cores| cores.iter().all(has))
    };
    let used_memory = |task: &usize| outcome.tasks[*task].lines_read + outcome.tasks[*task].lines_written > 0;
    let unregulated = (0..outcome.tasks.len()).filter(|&task| !is_regulated(task)).filter(used_memory);
    let counted = |events: fn(&CounterConfig) -> u32| config.counters.iter().any(|counter| events(counter) > 0);
    let (reads, writes) = (counted(|counter| counter.read_events), counted(|counter| counter.write_events));
    BandwidthReport {
        unregulated: unregulated.map(|task| scenario.spec().tasks[task].name.clone()).collect(),
        uncounted: match (reads, writes) {
            (true, false) => Some("lines written"),
            (false, true) => Some("lines read"),
            _ => None,
        },
        period_ns: config.period.as_ns(),
        periods: counts.periods,
        guaranteed_mb_per_s: regulators.guaranteed_mb_per_s,
        interrupts: counts.interrupts,
        overhead_ns: ns(counts.overhead_ps),
        regulators: config.subjects.iter().enumerate().flat_map(regulator).collect(),
        counters,
        history,
    }
}

fn subject_name(scenario: &Scenario, place: Subject) -> String {
    match place {
        Subject::Core(core) => format!("core {core}"),
        Subject::Task(task) => format!("task {}", scenario.spec().tasks[task].name),
    }
}

fn period_report(subject: String, counter: &CounterReport, period: &PeriodUse) -> PeriodReport {
    PeriodReport {
        subject,
        counts: counter.counts.clone(),
        banks: counter.banks.clone(),
        period: period.period,
        began_ns: period.began.as_ns(),
        events: period.events,
        shared: period.shared,
        reserved: period.used.reserved,
        donated: period.used.donated,
        returned: period.used.returned,
        reclaimed: period.used.reclaimed,
        shortfall: period.used.shortfall,
        throttled: period.used.throttled,
    }
}

fn table_report(scenario: &Scenario, outcome: &Outcome, table: &Table, counts: &TableCounts) -> TableReport {
    let ns = |ps: u64| ps as f64 / 1000.0;
    let slots = table.slots.iter().zip(&counts.longest_use_ps);
    let slot = slots.map(|(slot, &used)| SlotReport {
        task: scenario.spec().tasks[slot.task].name.clone(),
        core: slot.core,
        start_ns: ns(slot.start.0),
        length_ns: ns((slot.end - slot.start).0),
        longest_use_ns: ns(used),
    });
    let slot: Vec<SlotReport> = slot.collect();
    TableReport {
        slots: table
            .slots
            .iter()
            .map(|slot| outcome.duration.saturating_sub(slot.start).0.div_ceil(table.cycle.0))
            .sum(),
        jobs_beyond_slots: outcome.tasks.iter().map(|task| task.jobs_beyond_slots).sum(),
        longest_use: slot.iter().map(|slot| slot.longest_use_ns / slot.length_ns).fold(0.0, f64::max),
        longest_overrun_ps: counts.longest_overrun_ps,
        slot,
    }
}

fn server_report((section, counts): (&ServerSpec, &ServerCounts)) -> ServerReport {
    let ns = |ps: u64| ps as f64 / 1000.0;
    ServerReport {
        name: section.name.clone(),
        core: section.core,
        replenishments: counts.replenishments,
        consumed_ns: ns(counts.consumed_ps),
        longest_overrun_ps: counts.longest_overrun_ps,
        held_up_ns: ns(counts.held_up_ps),
        unhidden_ns: ns(counts.unhidden_ps),
    }
}

fn all_met(met: &RefreshMet) -> u64 {
    met.ordinary + met.locked + met.caught
}

fn lock_report(counts: &LockCounts) -> LockReport {
    let ns = |ps: u64| ps as f64 / 1000.0;
    LockReport {
        locked_ns: ns(counts.locked_ps),
        hidden_ns: counts.unhidden_ps.iter().map(|&unhidden| ns(counts.locked_ps.saturating_sub(unhidden))).collect(),
        unhidden_ns: counts.unhidden_ps.iter().map(|&unhidden| ns(unhidden)).collect(),
        tasks_ns: ns(counts.tasks_ps),
        locks: counts.locks,
        cleaned_lines: counts.cleaned_lines,
        copies: counts.copies,
        copied_lines: counts.copied_lines,
    }
}

/// Instructions a picosecond.
fn speed(task: &TaskCounts, duration: Picoseconds) -> f64 {
    let time = task.completed_at.unwrap_or(duration).0;
    if time == 0 { 0.0 } else { task.instructions as f64 / time as f64 }
}

/// Bytes a second that so many lines of a task are.
fn rate(outcome: &Outcome, task: &TaskCounts, lines: u64) -> f64 {
    let seconds = task.completed_at.unwrap_or(outcome.duration).as_seconds();
    if seconds > 0.0 { (lines * outcome.line_bytes) as f64 / seconds } else { 0.0 }
}

fn alone_report(outcome: &Outcome) -> AloneReport {
    let counts = &outcome.tasks[0];
    AloneReport {
        instructions_per_second: speed(counts, outcome.duration) * PS_PER_SECOND,
        read_bytes_per_second: rate(outcome, counts, counts.lines_read),
        write_bytes_per_second: rate(outcome, counts, counts.lines_written),
        row_hits: counts.rows[0],
        row_misses: counts.rows[1],
        row_conflicts: counts.rows[2],
    }
}

fn task_report(scenario: &Scenario, outcome: &Outcome, index: usize) -> TaskReport {
    let section = &scenario.spec().tasks[index];
    let has_jobs = scenario.job_of(section).is_some();
    let counts = &outcome.tasks[index];
    let rate = |lines: u64| rate(outcome, counts, lines);
    let per = |count: u64, of: f64| if of > 0.0 { count as f64 / of } else { 0.0 };
    let cycles = counts.slots as f64 / f64::from(scenario.spec().cores.width);
    let slot_ns = 1000.0 / f64::from(scenario.spec().cores.mhz * scenario.spec().cores.width);
    let end = match &outcome.endings[index] {
        Ending::Running => End::Running,
        Ending::Completed => End::Completed,
        Ending::OutOfMemory(_) => End::OutOfMemory,
        Ending::Failed(_) => End::Failed,
    };
    let is_whole = matches!(end, End::Running | End::Completed);
    TaskReport {
        name: section.name.clone(),
        cores: scenario.cores_of(section).map_or_else(|_| String::new(), |cores| cores.to_string()),
        allocator: scenario.allocator_of(section).name().to_owned(),
        ending: match &outcome.endings[index] {
            Ending::Running => "running".to_owned(),
            Ending::Completed => "completed".to_owned(),
            Ending::OutOfMemory(reason) | Ending::Failed(reason) => reason.clone(),
        },
        end,
        completed_ns: counts.completed_at.filter(|_| is_whole).map(Picoseconds::as_ns),
        instructions: counts.instructions,
        references: counts.references,
        ipc: per(counts.instructions, cycles),
        l1_hits: counts.answered[0],
        l2_hits: counts.answered[1],
        llc_hits: counts.answered[2],
        peer_hits: counts.answered[3],
        llc_misses: counts.answered[4],
        llc_misses_per_kilo_instruction: per(counts.answered[4], counts.instructions as f64 / 1000.0),
        llc_displaced_by_others: outcome.displaced_by_others[index],
        read_bytes_per_second: rate(counts.lines_read),
        write_bytes_per_second: rate(counts.lines_written),
        row_hits: counts.rows[0],
        row_misses: counts.rows[1],
        row_conflicts: counts.rows[2],
        read_latency_ns: Distribution::of_ps(&counts.latency_ps),
        met_refresh: outcome.refresh_met_by_task[index],
        page_faults: counts.page_faults,
        frames: counts.frames,
        frames_out_of_color: counts.frames_out_of_color,
        jobs: counts.jobs,
        deadline_misses: counts.deadline_misses,
        jobs_given_up: counts.jobs_given_up,
        jobs_beyond_slots: counts.jobs_beyond_slots,
        period_ns: scenario.job_of(section).map(|job| job.period.0.as_ns()),
        copy_of: section.copy_of.clone(),
        response_ns: has_jobs.then(|| Distribution::of_ps(&counts.response_ps)),
        execution_ns: has_jobs.then(|| Distribution::of(&counts.execution_slots, slot_ns)),
        preemptions: counts.preemptions,
        migrations: counts.migrations,
        taken_over: counts.taken_over,
        barrier_idle_ns: counts.barrier_ps as f64 / 1000.0,
        instructions_per_second: speed(counts, outcome.duration) * PS_PER_SECOND,
        slowdown: None,
        alone: None,
    }
}

fn banks(scenario: &Scenario, outcome: &Outcome) -> Vec<BankReport> {
    let burst_bytes = f64::from(scenario.device().geometry.burst_bytes());
    let seconds = outcome.duration.as_seconds();
    let mut used = Vec::new();
    for (channel, (banks, latencies)) in (0..).zip(outcome.banks.iter().zip(&outcome.bank_latencies_ps)) {
        for (bank, (counts, latency)) in (0..).zip(banks.iter().zip(latencies)) {
            let bursts = counts.hits + counts.misses + counts.conflicts;
            if bursts > 0 {
                used.push(BankReport {
                    channel,
                    bank,
                    row_hits: counts.hits,
                    row_misses: counts.misses,
                    row_conflicts: counts.conflicts,
                    bytes_per_second: if seconds > 0.0 { bursts as f64 * burst_bytes / seconds } else { 0.0 },
                    read_latency_ns: Distribution::of_ps(latency),
                });
            }
        }
    }
    used
}

fn ranks(scenario: &Scenario, outcome: &Outcome) -> Vec<RankReport> {
    // A finer granularity has a tRFC of its own.
    let timing = scenario.channels().map_or(scenario.device().timing, |channels| channels.timing);
    let device = &Device { timing, ..scenario.device().clone() };
    let meter = EnergyMeter::of(device);
    let cycles = device.clock.cycles_covering(outcome.duration);
    let channels = outcome.ranks.iter().zip(&outcome.refresh_met);
    let all = (0..).zip(channels).flat_map(|(channel, (ranks, met))| {
        (0..).zip(ranks.iter().zip(met)).map(move |(rank, (counts, met))| {
            // The formula of a REF counts from the current with open rows upwards.
            let refreshing = counts.refreshes * u64::from(device.timing.rfc);
            let open = (counts.cycles_open + refreshing).min(cycles);
            let energy = meter.map(|meter| {
                meter.energy(&EnergyCounts {
                    activates: counts.activates,
                    reads: counts.reads,
                    writes: counts.writes,
                    refreshes: counts.refreshes,
                    bank_refreshes: counts.bank_refreshes,
                    cycles_open: open,
                    cycles_closed: cycles - open,
                })
            });
            RankReport {
                channel,
                rank,
                activates: counts.activates,
                reads: counts.reads,
                writes: counts.writes,
                refreshes: counts.refreshes + counts.bank_refreshes,
                met_refresh: met.ordinary,
                met_lock: met.locked,
                caught_by_lock: met.caught,
                energy_pj: energy.map(EnergyReport::from),
            }
        })
    });
    all.collect()
}
