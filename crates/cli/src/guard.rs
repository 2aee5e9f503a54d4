//! `memtint guard`: regulated memory bandwidth.

mod asked;
mod predict;
mod regulate;
mod report;
mod status;

use std::fmt::Write as _;
use std::process::ExitCode;

use memtint_dram::replay::replay;
use memtint_dram::{
    Controller, ControllerConfig, Device, DeviceChoice, RefreshPlan, Request, Standard, WorstCase, cycles_of_slides,
};
use memtint_map::Platform;
use memtint_regulator::{DryRun, Line, SensorReport, Status};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use regulate::programs;

use crate::Ending;
use crate::output::{Failure, Format, JsonForm, print, print_json, table};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<Line<'static>>("guard"),
    JsonForm::of::<DryRun>("guard-dry-run"),
    JsonForm::of::<Vec<SensorReport>>("guard-list-events"),
    JsonForm::of::<predict::Prediction>("guard-predict"),
    JsonForm::of::<Report>("guard-rmin"),
    JsonForm::of::<Status>("guard-status"),
];

/// Arguments of `memtint guard`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
A budget is a bandwidth (500MB/s, 1.2GB/s) or a number of events per period (100ev). A self-test runs first: a load in each group, on \
each of its CPUs, must be stopped in time. Regulation needs CAP_PERFMON, CAP_SYS_NICE and CAP_IPC_LOCK, and cgroup v2 for --group.\n\
Exit status: 0 kept, every period was within its bound; 1 broken, with the cause of each; 2 failure, or refused by the self-test.\n\
Example: memtint guard --event page-faults --group web=100ev --seconds 10"
)]
pub(crate) struct GuardArguments {
    #[command(flatten)]
    regulate: regulate::RegulateArguments,
    #[command(subcommand)]
    verb: Option<GuardVerb>,
}

#[derive(Debug, clap::Subcommand)]
enum GuardVerb {
    /// Calculates the bandwidth that memory serves in the worst case, r_min, and simulates that case.
    #[command(after_help = "\
All lines lie in one bank of one channel, each in another row. A line read takes max(tRC, tRCD + tRTP + tRP), a line written \
max(tRC, tRCD + CWL + BL/2 + tWR + tRP); reads and writes of open rows by turns are looked at too. Each refresh takes tRFC and a row \
that it finds open and unused. What is guaranteed in a period has one line less, and a refresh that begins with the period.\n\
Not in it: errors that are corrected, thermal throttling, calibration, and modules that are slower than their standard.\n\
Exit status: 0 the simulated channel serves at least what was calculated, 1 it does not, 2 failure.\n\
Example: memtint guard rmin --platform core2quad-8400 --device ddr2-800")]
    Rmin(RminArguments),
    /// Predicts how long a program takes under a budget, from its profile.
    #[command(after_help = "\
The profile is the JSON of memtint sim (report.json of --out) for a scenario in which the program runs alone, with a budget that it \
never uses up, short periods, and history = true in [simulation.bandwidth]: each period is a stretch of it. The program is taken to go on as \
it did there, and to stand still from the last line of its budget to the end of the period. Not in it: what other cores delay.\n\
It is no bound: memtint analyze has one.\n\
Exit status: 0, or 2 failure.\n\
Example: memtint guard predict report.json --subject \"core 0\" --mb-per-s 200")]
    Predict(predict::PredictArguments),
    /// Shows what the running regulator has done so far (as root).
    #[command(after_help = "\
Exit status: 0 kept so far, 1 broken, 2 failure, or no memtint guard runs.\n\
Example: memtint guard status")]
    Status,
    /// Serve the numbers of a regulator, which come on standard input.
    #[command(hide = true)]
    Metrics(regulate::MetricsArguments),
    /// Thaw and remove the groups of a regulator when it has ended.
    #[command(hide = true)]
    Guardian,
    /// Cause events for the self-test.
    #[command(hide = true)]
    Load(regulate::LoadArguments),
}

/// Options of `memtint guard rmin`.
#[derive(Debug, clap::Args)]
struct RminArguments {
    /// Platform: its line size, and its DRAM standard without --device; a name of the catalogue, or a file.
    #[arg(long, value_name = "PLATFORM")]
    platform: String,
    /// Standard (see memtint dram list), or a file. Default: of the standards of the platform's family, the one that serves least.
    #[arg(long, value_name = "STANDARD")]
    device: Option<String>,
    /// Density of one device in gibibits; default: the standard's.
    #[arg(long, value_name = "GBIT")]
    density: Option<u32>,
    /// Refresh: none, all-bank, staggered, fgr2, fgr4, per-bank, same-bank, burst or elastic, as the standard has them.
    #[arg(long, value_name = "ENGINE", default_value = "staggered")]
    refresh: String,
    /// Period of regulation, for what is guaranteed in each.
    #[arg(long, value_name = "TIME", default_value = "1 ms")]
    period: Picoseconds,
}

/// Requests of a simulated pattern.
const REQUESTS: u64 = 200_000;
/// Bytes of a line where the platform does not say.
const LINE_BYTES: u64 = 64;

/// What was found out.
#[derive(Serialize, JsonSchema)]
struct Report {
    schema: u32,
    report: &'static str,
    platform: String,
    device: String,
    /// The device was not named.
    assumed_device: bool,
    refresh: String,
    line_bytes: u64,
    /// In megabytes a second, refresh included.
    r_min_mb_per_s: f64,
    patterns: Vec<Pattern>,
    period: PeriodReport,
    slides: Slides,
}

/// A pattern of requests.
#[derive(Serialize, JsonSchema)]
struct Pattern {
    name: &'static str,
    /// A line, without refresh.
    line_ns: f64,
    calculated_mb_per_s: f64,
    simulated_mb_per_s: f64,
}

/// What is guaranteed in a period.
#[derive(Serialize, JsonSchema)]
struct PeriodReport {
    ns: f64,
    lines: u64,
    mb_per_s: f64,
}

/// The sum of the slides of MemGuard.
#[derive(Serialize, JsonSchema)]
struct Slides {
    line_ns: f64,
    mb_per_s: f64,
}

pub(crate) fn main(arguments: &GuardArguments, format: Format) -> Ending {
    match &arguments.verb {
        None => regulate::main(&arguments.regulate, format),
        Some(GuardVerb::Rmin(rmin)) => run_rmin(rmin, format),
        Some(GuardVerb::Predict(arguments)) => predict::main(arguments, format),
        Some(GuardVerb::Status) => status::main(format),
        Some(GuardVerb::Metrics(arguments)) => regulate::metrics(arguments),
        Some(GuardVerb::Guardian) => regulate::guardian(),
        Some(GuardVerb::Load(arguments)) => regulate::load(arguments),
    }
}

fn run_rmin(arguments: &RminArguments, format: Format) -> Ending {
    if arguments.period.0 == 0 {
        return Err(Failure::Sentence("--period is 0; accepted is more".to_owned()));
    }
    let platform = Platform::load(&arguments.platform)?;
    let line_bytes = platform.llc().map_or(LINE_BYTES, |llc| llc.line.bytes());
    let (device, refresh) = match &arguments.device {
        Some(name) => refreshed(arguments, &Standard::load(name)?)?,
        None => slowest(arguments, &platform, line_bytes)?,
    };
    let worst = WorstCase::of(&device, refresh.kind, line_bytes);
    let mb = |cycles| worst.bytes_per_second(cycles) / 1e6;
    let ns = |cycles: u64| device.clock.period_ps() * cycles as f64 / 1e3;
    let all = [
        ("reads of one bank, each of another row", worst.read_cycles, Traffic::Reads),
        ("writes of one bank, each of another row", worst.write_cycles, Traffic::Writes),
        ("reads and writes of open rows by turns", worst.turnaround_cycles, Traffic::ByTurns),
    ];
    let mut patterns = Vec::new();
    for (name, cycles, traffic) in all {
        let simulated = simulate(&device, &refresh, line_bytes, traffic)?;
        let (line_ns, calculated_mb_per_s) = (ns(cycles), mb(cycles));
        patterns.push(Pattern { name, line_ns, calculated_mb_per_s, simulated_mb_per_s: simulated / 1e6 });
    }
    let lines = worst.lines_in(arguments.period);
    let slides = cycles_of_slides(&device.timing);
    let report = Report {
        schema: 1,
        report: "guard rmin",
        platform: platform.id().to_owned(),
        device: device.name.clone(),
        assumed_device: arguments.device.is_none(),
        refresh: arguments.refresh.clone(),
        line_bytes,
        r_min_mb_per_s: mb(worst.line_cycles()),
        patterns,
        period: PeriodReport {
            ns: arguments.period.as_ns(),
            lines,
            mb_per_s: memtint_guard::bandwidth(lines, line_bytes, arguments.period) as f64 / 1e6,
        },
        slides: Slides { line_ns: ns(slides), mb_per_s: line_bytes as f64 / ns(slides) * 1e3 },
    };
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&report.text())?,
    }
    let served = report.patterns.iter().all(|pattern| pattern.simulated_mb_per_s >= report.r_min_mb_per_s);
    Ok(ExitCode::from(u8::from(!served)))
}

/// A standard's device, with its refresh.
fn refreshed(arguments: &RminArguments, standard: &Standard) -> Result<(Device, RefreshPlan), Failure> {
    let choice = DeviceChoice { density_gbit: arguments.density, ..DeviceChoice::default() };
    let device = standard.device(choice)?;
    let refresh = RefreshPlan::named(&arguments.refresh, &device)?;
    Ok((Device { timing: refresh.timing, ..device }, refresh))
}

/// Of the standards of the platform's family the device that serves least.
fn slowest(arguments: &RminArguments, platform: &Platform, line_bytes: u64) -> Result<(Device, RefreshPlan), Failure> {
    let family = &platform.dram().standard;
    let mut found: Option<(f64, (Device, RefreshPlan))> = None;
    let mut known = Vec::new();
    for name in Standard::names() {
        let standard = Standard::load(name)?;
        if !standard.family().eq_ignore_ascii_case(family) {
            known.push(standard.family().to_owned());
            continue;
        }
        let (device, refresh) = refreshed(arguments, &standard)?;
        let worst = WorstCase::of(&device, refresh.kind, line_bytes);
        let rate = worst.bytes_per_second(worst.line_cycles());
        if found.as_ref().is_none_or(|(least, _)| rate < *least) {
            found = Some((rate, (device, refresh)));
        }
    }
    known.dedup();
    let none = || {
        Failure::Sentence(format!(
            "platform {:?}: its memory is {family}, and the standards here are {}; accepted is one of these, or --device",
            platform.id(),
            known.join(", ")
        ))
    };
    found.map(|(_, found)| found).ok_or_else(none)
}

/// What a simulated channel is asked for.
#[derive(Clone, Copy)]
enum Traffic {
    Reads,
    Writes,
    ByTurns,
}

/// Bytes a second that the channel serves when requests wait all the time.
fn simulate(device: &Device, refresh: &RefreshPlan, line_bytes: u64, traffic: Traffic) -> Result<f64, Failure> {
    let config = ControllerConfig { refresh: refresh.kind, ..ControllerConfig::default() };
    let mut controller = Controller::new(device.geometry, device.timing, config)?;
    let burst_bytes = u64::from(device.geometry.burst_bytes());
    let bursts = line_bytes.div_ceil(burst_bytes);
    let (rows, columns) = (u64::from(device.geometry.rows), u64::from(device.geometry.bursts_per_row()));
    let request = |id: u64| {
        let line = id / bursts;
        // A bank for reads and one for writes, whose rows stay open.
        let (bank, row) = match traffic {
            Traffic::Reads | Traffic::Writes => (0, line % rows),
            Traffic::ByTurns => (line % 2, 0),
        };
        Request {
            id,
            source: 0,
            write: match traffic {
                Traffic::Reads => false,
                Traffic::Writes => true,
                Traffic::ByTurns => line % 2 == 1,
            },
            bank: bank as u32,
            row: row as u32,
            column: (id % columns) as u32,
        }
    };
    let stats = replay(&mut controller, (0..REQUESTS).map(request), 0);
    let seconds = device.clock.start(stats.cycles).as_seconds();
    Ok((REQUESTS * burst_bytes) as f64 / seconds)
}

impl Report {
    fn text(&self) -> String {
        let assumed = if self.assumed_device { " (the slowest of its family, as --device is not given)" } else { "" };
        let mut text = format!(
            "r_min      {:.0} MB/s\nplatform   {}, {}{assumed}, refresh {}, lines of {} B\nguaranteed {} lines in each period of {:.3} ms, \
             {:.0} MB/s\n\n",
            self.r_min_mb_per_s,
            self.platform,
            self.device,
            self.refresh,
            self.line_bytes,
            self.period.lines,
            self.period.ns / 1e6,
            self.period.mb_per_s
        );
        let rows: Vec<Vec<String>> = self.patterns.iter().map(Pattern::row).collect();
        text += &table(&["pattern", "ns a line", "MB/s calculated", "MB/s simulated"], &[1, 2, 3], &rows);
        let _ = writeln!(
            text,
            "\nA controller that collects writes turns the bus round less often than by turns.\n\
             PRE + ACT + RD + transfer, as MemGuard's slides add them up, are {:.1} ns a line and {:.0} MB/s, {:.0} % more. That is no worst case: a \
             bank opens again only after tRC, a row that was written recovers first, and refresh is not in it. A measured bandwidth above \
             r_min is none either, unless the modules are faster than their standard: the measurement has not met the pattern.",
            self.slides.line_ns,
            self.slides.mb_per_s,
            (self.slides.mb_per_s / self.r_min_mb_per_s - 1.0) * 100.0
        );
        text
    }
}

impl Pattern {
    fn row(&self) -> Vec<String> {
        vec![
            self.name.to_owned(),
            format!("{:.1}", self.line_ns),
            format!("{:.0}", self.calculated_mb_per_s),
            format!("{:.0}", self.simulated_mb_per_s),
        ]
    }
}
