//! How fast the simulated DRAM channel is.
//!
//! Requests for each second of this thread's processor time, the making of the requests included; each kind of run is
//! measured in turn with all others, over and over. The baseline is the reference controller of the same crate, which
//! looks at everything in every cycle and must give the same answer.

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

/// Number of the form of the report.
const SCHEMA: u32 = 1;
/// Devices and traces of the six runs that are compared with other simulators.
const DEVICES: [&str; 2] = ["ddr3-1600", "ddr4-2400"];
const WRITE_PERCENT: u64 = 33;
/// The reference replays one in this many requests: it is slower by about this factor.
const REFERENCE_SHARE: u64 = 20;
/// What the six runs are to reach.
const TARGET_REQUESTS_PER_CPU_SECOND: f64 = 2e6;
/// Rates of other simulators.
const PUBLISHED: &str = include_str!("sim/simulators.json");

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Requests of each run.
    pub requests: u64,
    /// Runs of each kind, at least one.
    pub repeat: usize,
    /// Whether less than usual is asked; for the report.
    pub quick: bool,
    /// Seed of the random addresses.
    pub seed: u64,
}

words! {
    /// Shape of a trace.
    Shape {
        /// Burst after burst, all read.
        Stream = "stream",
        /// Random bursts, all read.
        Random = "random",
        /// Random bursts, of which some are written.
        Mixed = "mixed",
    }
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 3] = [Shape::Stream, Shape::Random, Shape::Mixed];
}

words! {
    /// What is varied to show how time grows.
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
    /// Number of the form of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "sim"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine that measured.
    pub machine: Host,
    /// What else ran on the machine meanwhile; null where the kernel does not say.
    pub disturbance: Option<Disturbance>,
    /// Seed of the random addresses.
    pub seed: u64,
    /// Runs of each kind.
    pub repeat: usize,
    /// Whether less than usual was measured.
    pub quick: bool,
    /// Threads that simulate.
    pub threads: u32,
    /// Of a hundred requests of a mixed trace, those that write.
    pub write_percent_of_mixed: u64,
    /// Two devices, three traces each, beside the reference.
    pub rows: Vec<SimRow>,
    /// How time grows with banks, requesters and length.
    pub scaling: Vec<ScalingRow>,
    /// Rates of other simulators; not measured here.
    pub published: PublishedRates,
    /// What the median of each row is to reach.
    pub target_requests_per_cpu_second: f64,
    /// Whether each row reaches it.
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
    /// Requesters, in turn.
    pub sources: u16,
    /// Requests for each second of processor time: the median of all runs.
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
    /// The most memory that was resident; null where the kernel does not say.
    pub peak_resident_bytes: Option<u64>,
    /// The reference on the same device and trace; null where it is not run.
    pub baseline: Option<BaselineRow>,
}

/// A run in which something is varied.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScalingRow {
    /// The run.
    #[serde(flatten)]
    pub row: SimRow,
    /// What is varied.
    pub varied: Varied,
    /// How many of it there are.
    pub value: u64,
}

/// The reference beside a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BaselineRow {
    /// What it is.
    pub name: &'static str,
    /// Requests of one of its runs.
    pub requests: u64,
    /// Requests for each second of processor time: the median of all runs.
    pub requests_per_cpu_second: f64,
    /// The slowest run.
    pub requests_per_cpu_second_min: f64,
    /// The fastest run.
    pub requests_per_cpu_second_max: f64,
    /// The row's median rate by that of the reference.
    pub ratio: f64,
    /// Hash of all statistics of the reference.
    pub result_hash: String,
    /// Whether the controller gives the same statistics for as many requests.
    pub same_result: bool,
}

/// Rates of other simulators, as published.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRates {
    /// Where the rates are from.
    pub source: String,
    /// How far they can be compared.
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
    /// Requests for each second of processor time.
    pub requests_per_cpu_second: u64,
}

/// One kind of run.
#[derive(Clone, Debug)]
struct Run {
    /// What is varied, and its value; `None` in the six runs.
    varied: Option<(Varied, u64)>,
    device: &'static str,
    shape: Shape,
    requests: u64,
    ranks: u32,
    /// Requesters, in turn.
    sources: u16,
    scheduler: Scheduler,
    /// By the reference.
    tick_by_tick: bool,
    seed: u64,
    rates: Vec<f64>,
    stats: ReplayStats,
    peak_bytes: Option<u64>,
}

/// Measures how many requests the simulated channel serves; making the requests is part of what is measured.
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

    /// Requests of the run's trace on a channel, as `memtint dram replay` makes them.
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

    /// The run of the reference on the same device and trace, and whether both agree on as many requests.
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

/// Starts the peak of resident memory anew (proc(5), clear_refs 5); where that is not allowed it stays what it was.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that was resident since then.
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
