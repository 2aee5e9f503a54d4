//! Speed of the simulated DRAM channel.
//!
//! Requests for each second of CPU time of this thread, including the generation of requests; all kinds of runs are
//! measured in turn, repeatedly. The baseline is the reference controller of the same crate, which evaluates the full
//! state in every cycle and must give the same result.

use std::time::Duration;

use memtint_bench::{Beside, Disturbance, Host, Spread, cpu_seconds};
use memtint_dram::reference::{self, Reference};
use memtint_dram::replay::{ReplayStats, replay};
use memtint_dram::{
    Controller, ControllerConfig, Device, DeviceChoice, Geometry, RefreshKind, Request, Scheduler, Standard,
};
use memtint_replay::{Matched, Synthetic};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;
use crate::{Benchmark, BenchmarkError};

/// Schema version of the report.
const SCHEMA: u32 = 1;
/// Devices of the six runs that are compared with other simulators.
const DEVICES: [&str; 2] = ["ddr3-1600", "ddr4-2400"];
const WRITE_PERCENT: u64 = 33;
/// The reference replays one in this many requests: it is slower by about this factor.
const REFERENCE_SHARE: u64 = 20;
/// Target for the six runs.
const TARGET_REQUESTS_PER_CPU_SECOND: f64 = 2e6;
/// Rates of other simulators.
const PUBLISHED: &str = include_str!("sim/simulators.json");

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Requests of each run.
    pub requests: u64,
    /// Runs of each kind, at least one.
    pub repeat: usize,
    /// Whether the benchmark runs with `--quick`; for the report.
    pub quick: bool,
    /// Seed of the random addresses.
    pub seed: u64,
}

words! {
    /// Shape of a trace.
    Shape {
        /// Consecutive bursts, all reads.
        Stream = "stream",
        /// Random bursts, all reads.
        Random = "random",
        /// Random bursts, some of them writes.
        Mixed = "mixed",
    }
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 3] = [Shape::Stream, Shape::Random, Shape::Mixed];
}

words! {
    /// The parameter that is varied to show how time grows.
    Varied {
        /// Banks of the channel.
        Banks = "banks",
        /// Requesters.
        Sources = "sources",
        /// Length of the trace.
        Requests = "requests",
    }
}

/// The report of the benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimReport {
    /// Schema version of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "sim"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine of the measurement.
    pub machine: Host,
    /// Other load on the machine during the benchmark; null where the kernel does not report it.
    pub disturbance: Option<Disturbance>,
    /// Seed of the random addresses.
    pub seed: u64,
    /// Runs of each kind.
    pub repeat: usize,
    /// Whether the benchmark ran with `--quick`.
    pub quick: bool,
    /// Simulating threads.
    pub threads: u32,
    /// Percentage of writes in a mixed trace.
    pub write_percent_of_mixed: u64,
    /// Two devices, three traces each, compared with the reference.
    pub rows: Vec<SimRow>,
    /// How time grows with banks, requesters and length.
    pub scaling: Vec<ScalingRow>,
    /// Rates of other simulators; not measured here.
    pub published: PublishedRates,
    /// Target for the median of each row.
    pub target_requests_per_cpu_second: f64,
    /// Whether each row reaches the target.
    pub target_met: bool,
}

/// One kind of run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimRow {
    /// The DRAM standard.
    pub device: &'static str,
    /// Shape of the trace.
    pub trace: Shape,
    /// Requests of a run.
    pub requests: u64,
    /// Ranks of the channel.
    pub ranks: u32,
    /// Requesters, which take turns.
    pub sources: u16,
    /// Requests for each second of CPU time: the median of all runs.
    pub requests_per_cpu_second: f64,
    /// The slowest run.
    pub requests_per_cpu_second_min: f64,
    /// The fastest run.
    pub requests_per_cpu_second_max: f64,
    /// Each run.
    pub requests_per_cpu_second_samples: Vec<f64>,
    /// Simulated cycles of the channel's clock.
    pub cycles: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Hash of all statistics of the simulation, 16 hexadecimal digits: equal where the simulated channel did the same.
    pub result_hash: String,
    /// Peak resident memory; null where the kernel does not report it.
    pub peak_resident_bytes: Option<u64>,
    /// The reference on the same device and trace; null where it is not run.
    pub baseline: Option<BaselineRow>,
}

/// A run with a varied parameter.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScalingRow {
    /// The run.
    #[serde(flatten)]
    pub row: SimRow,
    /// The varied parameter.
    pub varied: Varied,
    /// Its value.
    pub value: u64,
}

/// The run of the reference for comparison.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BaselineRow {
    /// Name of the reference.
    pub name: &'static str,
    /// Requests of one of its runs.
    pub requests: u64,
    /// Requests for each second of CPU time: the median of all runs.
    pub requests_per_cpu_second: f64,
    /// The slowest run.
    pub requests_per_cpu_second_min: f64,
    /// The fastest run.
    pub requests_per_cpu_second_max: f64,
    /// The row's median rate divided by that of the reference.
    pub ratio: f64,
    /// Hash of all statistics of the reference.
    pub result_hash: String,
    /// Whether the controller gives the same statistics for the same number of requests.
    pub same_result: bool,
}

/// Rates of other simulators, as published.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRates {
    /// Source of the rates.
    pub source: String,
    /// Limits of the comparison.
    pub remark: String,
    /// The rates.
    pub rates: Vec<PublishedRate>,
}

/// The rate of another simulator.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRate {
    /// Its name and version.
    pub simulator: String,
    /// The DRAM standard.
    pub device: String,
    /// Shape of the trace.
    pub trace: Shape,
    /// Requests for each second of CPU time.
    pub requests_per_cpu_second: u64,
}

/// One kind of run.
#[derive(Clone, Debug)]
struct Run {
    /// The varied parameter and its value; `None` in the six runs.
    varied: Option<(Varied, u64)>,
    device: &'static str,
    shape: Shape,
    requests: u64,
    ranks: u32,
    /// Requesters, which take turns.
    sources: u16,
    scheduler: Scheduler,
    /// Whether the reference runs.
    tick_by_tick: bool,
    seed: u64,
    rates: Vec<f64>,
    stats: ReplayStats,
    peak_bytes: Option<u64>,
}

/// Measures how many requests the simulated channel serves, including the generation of requests.
///
/// # Errors
///
/// When two runs of the same requests differ.
pub fn measure(asked: &Asked, tell: fn(&str)) -> Result<SimReport, BenchmarkError> {
    let (machine, beside) = (Host::read(), Beside::since_now());
    let mut runs = kinds(asked.requests, asked.seed);
    let began = cpu_seconds();
    for round in 1..=asked.repeat {
        tell(&format!("sim {round}/{}", asked.repeat));
        for run in &mut runs {
            run.measure()?;
        }
    }
    let own = Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let (rows, scaling): (Vec<&Run>, Vec<&Run>) =
        runs.iter().filter(|run| !run.tick_by_tick).partition(|run| run.varied.is_none());
    let rows: Vec<SimRow> = rows.into_iter().map(|run| run.row(run.baseline(&runs))).collect();
    let scaling = scaling.into_iter().filter_map(|run| {
        let (varied, value) = run.varied?;
        Some(ScalingRow { row: run.row(None), varied, value })
    });
    Ok(SimReport {
        schema: SCHEMA,
        bench: Benchmark::Sim,
        version: env!("CARGO_PKG_VERSION"),
        machine,
        disturbance,
        seed: asked.seed,
        repeat: asked.repeat,
        quick: asked.quick,
        threads: 1,
        write_percent_of_mixed: WRITE_PERCENT,
        target_met: rows.iter().all(|row| row.requests_per_cpu_second >= TARGET_REQUESTS_PER_CPU_SECOND),
        rows,
        scaling: scaling.collect(),
        published: published(),
        target_requests_per_cpu_second: TARGET_REQUESTS_PER_CPU_SECOND,
    })
}

fn published() -> PublishedRates {
    serde_json::from_str(PUBLISHED).expect("the table is part of the program, and a test reads it")
}

/// The six runs, the reference's, and those that show how time grows.
fn kinds(requests: u64, seed: u64) -> Vec<Run> {
    let plain = |device, shape| Run {
        varied: None,
        device,
        shape,
        requests,
        ranks: 1,
        sources: 1,
        scheduler: ControllerConfig::default().scheduler,
        tick_by_tick: false,
        seed,
        rates: Vec::new(),
        stats: ReplayStats::default(),
        peak_bytes: None,
    };
    let six = DEVICES.into_iter().flat_map(|device| Shape::ALL.into_iter().map(move |shape| (device, shape)));
    let mut runs: Vec<Run> = six.clone().map(|(device, shape)| plain(device, shape)).collect();
    runs.extend(six.map(|(device, shape)| {
        let requests = (requests / REFERENCE_SHARE).max(1);
        Run { tick_by_tick: true, requests, ..plain(device, shape) }
    }));
    let random = plain("ddr4-2400", Shape::Random);
    runs.extend([1, 2, 4].map(|ranks| Run {
        varied: Some((Varied::Banks, u64::from(ranks) * 16)),
        ranks,
        ..random.clone()
    }));
    runs.extend([1, 4, 16].map(|sources| Run {
        varied: Some((Varied::Sources, u64::from(sources))),
        sources,
        scheduler: Scheduler::ParBs { marking_cap: 5 },
        ..random.clone()
    }));
    let lengths = [requests / 4, requests, requests * 4];
    runs.extend(lengths.map(|requests| Run { varied: Some((Varied::Requests, requests)), requests, ..random.clone() }));
    runs
}

impl Run {
    fn device(&self) -> Result<Device, BenchmarkError> {
        let choice = DeviceChoice { ranks: self.ranks, ..DeviceChoice::default() };
        Ok(Standard::load(self.device)?.device(choice)?)
    }

    fn config(&self) -> ControllerConfig {
        let refresh = RefreshKind::AllBank { staggered: false };
        ControllerConfig { scheduler: self.scheduler, refresh, ..ControllerConfig::default() }
    }

    fn measure(&mut self) -> Result<(), BenchmarkError> {
        let device = self.device()?;
        forget_peak();
        let before = cpu_seconds();
        let stats = self.replay(&device, self.requests, self.tick_by_tick)?;
        let seconds = cpu_seconds() - before;
        self.peak_bytes = self.peak_bytes.max(peak_bytes());
        if !self.rates.is_empty() && stats != self.stats {
            return Err(BenchmarkError::Differ { device: self.device, trace: self.shape.name() });
        }
        self.rates.push(self.requests as f64 / seconds.max(1e-9));
        self.stats = stats;
        Ok(())
    }

    /// Requests of the run's trace on a channel, as `memtint dram replay` generates them.
    fn requests(&self, count: u64, geometry: Geometry) -> impl Iterator<Item = Request> {
        let burst_bytes = u64::from(geometry.burst_bytes());
        let shape = match self.shape {
            Shape::Stream => memtint_replay::Shape::Stream,
            Shape::Random => memtint_replay::Shape::Random,
            Shape::Mixed => memtint_replay::Shape::Mixed,
        };
        let bursts = geometry.bytes() / burst_bytes;
        let trace = Synthetic { shape, seed: self.seed, write_percent: WRITE_PERCENT, bursts, burst_bytes };
        let (mapping, sources) = (Matched::new(geometry), self.sources);
        (0..count).map_while(move |id| {
            let access = trace.access(id);
            let spot = mapping.spot(access.addr)?;
            let source = if sources == 1 { 0 } else { (id % u64::from(sources)) as u16 };
            Some(Request { id, source, write: access.write, bank: spot.bank, row: spot.row, column: spot.column })
        })
    }

    fn replay(&self, device: &Device, requests: u64, tick_by_tick: bool) -> Result<ReplayStats, BenchmarkError> {
        let (geometry, timing) = (device.geometry, device.timing);
        let requests = self.requests(requests, geometry);
        if tick_by_tick {
            let mut slow = Reference::new(geometry, timing, self.config(), ()).ok_or(BenchmarkError::NoReference)?;
            return Ok(reference::replay(&mut slow, requests, 0));
        }
        Ok(replay(&mut Controller::new(geometry, timing, self.config())?, requests, 0))
    }

    fn spread(&self) -> Spread {
        Spread::of(&self.rates).unwrap_or(Spread { median: 0.0, min: 0.0, max: 0.0 })
    }

    /// The run of the reference on the same device and trace, and whether both agree on the same number of requests.
    fn baseline(&self, runs: &[Run]) -> Option<BaselineRow> {
        let same = |run: &&Run| run.tick_by_tick && (run.device, run.shape) == (self.device, self.shape);
        let reference = runs.iter().find(same)?;
        let device = self.device().ok()?;
        let agrees = self.replay(&device, reference.requests, false).ok()? == reference.stats;
        let slow = reference.spread();
        Some(BaselineRow {
            name: "reference, tick by tick",
            requests: reference.requests,
            requests_per_cpu_second: slow.median,
            requests_per_cpu_second_min: slow.min,
            requests_per_cpu_second_max: slow.max,
            ratio: self.spread().median / slow.median,
            result_hash: hash(&reference.stats),
            same_result: agrees,
        })
    }

    fn row(&self, baseline: Option<BaselineRow>) -> SimRow {
        let rate = self.spread();
        SimRow {
            device: self.device,
            trace: self.shape,
            requests: self.requests,
            ranks: self.ranks,
            sources: self.sources,
            requests_per_cpu_second: rate.median,
            requests_per_cpu_second_min: rate.min,
            requests_per_cpu_second_max: rate.max,
            requests_per_cpu_second_samples: self.rates.clone(),
            cycles: self.stats.cycles,
            row_hits: self.stats.hits,
            result_hash: hash(&self.stats),
            peak_resident_bytes: self.peak_bytes,
            baseline,
        }
    }
}

fn hash(stats: &ReplayStats) -> String {
    format!("{:016x}", stats.hash())
}

/// Resets the peak of resident memory (proc(5), clear_refs 5); has no effect where that is not permitted.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Peak resident memory since the reset.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_rates_are_whole() {
        let rates = published().rates;
        assert_eq!(rates.len(), 16);
        assert!(rates.iter().all(|rate| DEVICES.contains(&rate.device.as_str())));
    }
}
