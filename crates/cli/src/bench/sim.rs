//! `memtint bench sim`: how fast the simulated DRAM channel is.
//!
//! Requests for each second of this thread's processor time, the making of the requests included; each kind of run is
//! measured in turn with all others, over and over. The baseline is the reference controller of the same crate, which
//! looks at everything in every cycle and must give the same answer.

use memtint_bench::{Beside, Machine, Spread, cpu_seconds};
use std::fmt::Write as _;

use memtint_dram::reference::{self, Reference};
use memtint_dram::replay::{ReplayStats, replay};
use memtint_dram::{Controller, ControllerConfig, Device, DeviceChoice, RefreshKind, Request, Scheduler, Standard};
use serde_json::{Value, json};

use crate::Ending;
use crate::dram::{Matched, SEED, Shape, Synthetic};
use crate::output::{Failure, Format, done, done_json, table};

/// Arguments of `memtint bench sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured, 2 failure.\nExample: memtint bench sim --format json > sim.json")]
pub(super) struct SimArguments {
    /// Requests of each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    requests: Option<u64>,
    /// Runs of each kind. Default: 5, with --quick 2.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// A tenth of the requests: for tests and a first impression.
    #[arg(long)]
    quick: bool,
    /// Seed of the random addresses.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

/// Devices and traces of the six runs that are compared with other simulators.
const DEVICES: [&str; 2] = ["ddr3-1600", "ddr4-2400"];
const WRITE_PERCENT: u64 = 33;
/// The reference replays one request of so many: it is that much slower.
const REFERENCE_SHARE: u64 = 20;
/// What the six runs are to reach.
const TARGET_REQUESTS_PER_CPU_SECOND: f64 = 2e6;

/// One kind of run.
#[derive(Clone, Debug)]
struct Run {
    /// What is varied, and its value; `None` in the six runs.
    varied: Option<(&'static str, u64)>,
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

pub(super) fn bench_sim(arguments: &SimArguments, format: Format) -> Ending {
    let (machine, beside) = (Machine::read(), Beside::since_now());
    let scale = if arguments.quick { 10 } else { 1 };
    let requests = arguments.requests.unwrap_or(2_000_000 / scale);
    let repeat = arguments.repeat.map_or(if arguments.quick { 2 } else { 5 }, usize::from);
    let mut runs = kinds(requests, arguments.seed);
    let began = cpu_seconds();
    for round in 1..=repeat {
        eprintln!("memtint: bench: sim {round}/{repeat}");
        for run in &mut runs {
            run.measure()?;
        }
    }
    let own = std::time::Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let published: Value = serde_json::from_str(include_str!("simulators.json"))
        .map_err(|error| Failure::Sentence(format!("bench sim: the table of published rates: {error}")))?;
    match format {
        Format::Json => {
            let of = |wanted: fn(&Run) -> bool| -> Vec<Value> {
                runs.iter().filter(|run| wanted(run)).map(|run| run.to_json(&runs)).collect()
            };
            done_json(&json!({
                "schema": 1,
                "bench": "sim",
                "version": env!("CARGO_PKG_VERSION"),
                "machine": machine,
                "disturbance": disturbance,
                "seed": arguments.seed,
                "repeat": repeat,
                "quick": arguments.quick,
                "threads": 1,
                "write_percent_of_mixed": WRITE_PERCENT,
                "rows": of(|run| run.varied.is_none() && !run.tick_by_tick),
                "scaling": of(|run| run.varied.is_some()),
                "published": published,
                "target_requests_per_cpu_second": TARGET_REQUESTS_PER_CPU_SECOND,
                "target_met": target_met(&runs),
            }))
        }
        Format::Text => done(&text(&runs, &machine, &published, repeat)),
    }
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
    runs.extend([1, 2, 4].map(|ranks| Run { varied: Some(("banks", u64::from(ranks) * 16)), ranks, ..random.clone() }));
    runs.extend([1, 4, 16].map(|sources| Run {
        varied: Some(("sources", u64::from(sources))),
        sources,
        scheduler: Scheduler::ParBs { marking_cap: 5 },
        ..random.clone()
    }));
    let lengths = [requests / 4, requests, requests * 4];
    runs.extend(lengths.map(|requests| Run { varied: Some(("requests", requests)), requests, ..random.clone() }));
    runs
}

impl Run {
    fn device(&self) -> Result<Device, Failure> {
        let choice = DeviceChoice { ranks: self.ranks, ..DeviceChoice::default() };
        Ok(Standard::load(self.device)?.device(choice)?)
    }

    fn config(&self) -> ControllerConfig {
        let refresh = RefreshKind::AllBank { staggered: false };
        ControllerConfig { scheduler: self.scheduler, refresh, ..ControllerConfig::default() }
    }

    fn measure(&mut self) -> Result<(), Failure> {
        let device = self.device()?;
        forget_peak();
        let before = cpu_seconds();
        let stats = self.replay(&device, self.requests, self.tick_by_tick)?;
        let seconds = cpu_seconds() - before;
        self.peak_bytes = self.peak_bytes.max(peak_bytes());
        if !self.rates.is_empty() && stats != self.stats {
            return Err(Failure::Sentence(format!(
                "bench sim: two runs of {} {} differ",
                self.device,
                self.shape.name()
            )));
        }
        self.rates.push(self.requests as f64 / seconds.max(1e-9));
        self.stats = stats;
        Ok(())
    }

    fn replay(&self, device: &Device, requests: u64, tick_by_tick: bool) -> Result<ReplayStats, Failure> {
        let (geometry, timing) = (device.geometry, device.timing);
        let burst_bytes = u64::from(geometry.burst_bytes());
        let (seed, bursts) = (self.seed, geometry.bytes() / burst_bytes);
        let trace = Synthetic { shape: self.shape, seed, write_percent: WRITE_PERCENT, bursts, burst_bytes };
        let mapping = Matched::new(geometry);
        let requests = (0..requests).map_while(|id| {
            let access = trace.access(id);
            let spot = mapping.spot(access.addr)?;
            let source = if self.sources == 1 { 0 } else { (id % u64::from(self.sources)) as u16 };
            Some(Request { id, source, write: access.write, bank: spot.bank, row: spot.row, column: spot.column })
        });
        if tick_by_tick {
            let unknown = || Failure::Sentence("bench sim: the reference does not know this controller".to_owned());
            let mut slow = Reference::new(geometry, timing, self.config(), ()).ok_or_else(unknown)?;
            return Ok(reference::replay(&mut slow, requests, 0));
        }
        Ok(replay(&mut Controller::new(geometry, timing, self.config())?, requests, 0))
    }

    fn spread(&self) -> (f64, f64, f64) {
        Spread::of(&self.rates).map_or((0.0, 0.0, 0.0), |spread| (spread.median, spread.min, spread.max))
    }

    /// The run of the reference on the same device and trace, and whether both agree on as many requests.
    fn baseline<'a>(&self, runs: &'a [Run]) -> Option<(&'a Run, bool)> {
        let same = |run: &&Run| run.tick_by_tick && (run.device, run.shape) == (self.device, self.shape);
        let reference = runs.iter().find(same).filter(|_| self.varied.is_none())?;
        let device = self.device().ok()?;
        let agrees = self.replay(&device, reference.requests, false).ok()? == reference.stats;
        Some((reference, agrees))
    }

    fn to_json(&self, runs: &[Run]) -> Value {
        let (median, min, max) = self.spread();
        let baseline = self.baseline(runs).map(|(reference, agrees)| {
            let (slow, slow_min, slow_max) = reference.spread();
            json!({
                "name": "reference, tick by tick",
                "requests": reference.requests,
                "requests_per_cpu_second": slow,
                "requests_per_cpu_second_min": slow_min,
                "requests_per_cpu_second_max": slow_max,
                "ratio": median / slow,
                "result_hash": hash(&reference.stats),
                "same_result": agrees,
            })
        });
        let mut row = json!({
            "device": self.device,
            "trace": self.shape.name(),
            "requests": self.requests,
            "ranks": self.ranks,
            "sources": self.sources,
            "requests_per_cpu_second": median,
            "requests_per_cpu_second_min": min,
            "requests_per_cpu_second_max": max,
            "requests_per_cpu_second_samples": self.rates,
            "cycles": self.stats.cycles,
            "row_hits": self.stats.hits,
            "result_hash": hash(&self.stats),
            "peak_resident_bytes": self.peak_bytes,
            "baseline": baseline,
        });
        if let Some((what, value)) = self.varied {
            row["varied"] = json!(what);
            row["value"] = json!(value);
        }
        row
    }
}

fn target_met(runs: &[Run]) -> bool {
    let six = runs.iter().filter(|run| run.varied.is_none() && !run.tick_by_tick);
    six.into_iter().all(|run| run.spread().0 >= TARGET_REQUESTS_PER_CPU_SECOND)
}

fn hash(stats: &ReplayStats) -> String {
    format!("{:016x}", stats.hash())
}

fn text(runs: &[Run], machine: &Machine, published: &Value, repeat: usize) -> String {
    let millions = |rate: f64| format!("{:.3}", rate / 1e6);
    let mebibytes =
        |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1048576.0));
    let mut text = format!(
        "machine   {}, {} CPUs; one thread, {repeat} runs of each kind, all in turn\n\nmillion requests a CPU second (median, least, most)\n",
        machine.cpu.as_deref().unwrap_or("unknown"),
        machine.cores
    );
    let six = runs.iter().filter(|run| run.varied.is_none() && !run.tick_by_tick);
    let row = |run: &Run| {
        let (median, min, max) = run.spread();
        let baseline = run.baseline(runs);
        let slow = baseline.map_or("-".to_owned(), |(reference, _)| millions(reference.spread().0));
        let ratio = baseline.map_or("-".to_owned(), |(reference, _)| format!("{:.0}", median / reference.spread().0));
        let agrees = baseline.map_or("-", |(_, agrees)| if agrees { "yes" } else { "NO" });
        let mut cells = vec![run.device.to_owned(), run.shape.name().to_owned(), run.requests.to_string()];
        cells.extend([millions(median), millions(min), millions(max), slow, ratio, agrees.to_owned()]);
        cells.extend([mebibytes(run.peak_bytes), hash(&run.stats)]);
        cells
    };
    let heads =
        ["device", "trace", "requests", "median", "least", "most", "tick by tick", "ratio", "same", "MiB", "result"];
    text.push_str(&table(&heads, &[2, 3, 4, 5, 6, 7, 9], &six.map(row).collect::<Vec<_>>()));
    text.push_str("\nhow it grows (ddr4-2400, random; with several sources par-bs)\n");
    let growing = runs.iter().filter_map(|run| {
        let ((what, value), (median, min, max)) = (run.varied?, run.spread());
        let rates = [median, min, max].map(millions);
        let [median, min, max] = rates;
        Some(vec![
            what.to_owned(),
            value.to_string(),
            run.requests.to_string(),
            median,
            min,
            max,
            mebibytes(run.peak_bytes),
        ])
    });
    let heads = ["varied", "value", "requests", "median", "least", "most", "MiB"];
    text.push_str(&table(&heads, &[1, 2, 3, 4, 5, 6], &growing.collect::<Vec<_>>()));
    let _ = writeln!(text, "\npublished, not measured here ({})", published["remark"].as_str().unwrap_or_default());
    let rates = published["rates"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cell = |rate: &Value, key: &str| rate[key].as_str().unwrap_or_default().to_owned();
    let row = |rate: &Value| {
        let figure = millions(rate["requests_per_cpu_second"].as_f64().unwrap_or(0.0));
        vec![cell(rate, "simulator"), cell(rate, "device"), cell(rate, "trace"), figure]
    };
    let rows: Vec<Vec<String>> = rates.iter().map(row).collect();
    text.push_str(&table(&["simulator", "device", "trace", "million a CPU second"], &[3], &rows));
    let met = if target_met(runs) { "met" } else { "not met" };
    let _ = writeln!(
        text,
        "\ntarget: {} million a CPU second on each of the six: {met}",
        TARGET_REQUESTS_PER_CPU_SECOND / 1e6
    );
    text
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
