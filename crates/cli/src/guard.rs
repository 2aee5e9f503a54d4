//! `memtint guard`: regulated memory bandwidth.

mod asked;
mod predict;
mod regulate;
mod report;
mod status;

use std::fmt::Write as _;
use std::process::ExitCode;

use memtint_bandwidth::{Channel, GuaranteeReport, PatternReport, Prediction, guarantee};
use memtint_map::Platform;
use memtint_service::{DryRun, Line, SensorReport, Status};
use memtint_units::Picoseconds;

pub(crate) use memtint_service::{Member, Regulation};
pub(crate) use regulate::programs;

use crate::output::{Ending, Failure, Format, JsonForm, print, print_json, table};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<Line<'static>>("guard"),
    JsonForm::of::<DryRun>("guard-dry-run"),
    JsonForm::of::<Vec<SensorReport>>("guard-list-events"),
    JsonForm::of::<Prediction>("guard-predict"),
    JsonForm::of::<GuaranteeReport>("guard-rmin"),
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
    /// Calculate the bandwidth that memory serves in the worst case, r_min, and simulate that case.
    #[command(after_help = "\
All lines lie in one bank of one channel, each in another row. A line read takes max(tRC, tRCD + tRTP + tRP), a line written \
max(tRC, tRCD + CWL + BL/2 + tWR + tRP); alternating reads and writes of open rows are considered too. Each refresh takes tRFC and a row \
that it finds open and unused. The guarantee for a period has one line less, and a refresh that begins with the period.\n\
Not in it: errors that are corrected, thermal throttling, calibration, and modules that are slower than their standard.\n\
Exit status: 0 the simulated channel serves at least what was calculated, 1 it does not, 2 failure.\n\
Example: memtint guard rmin --platform core2quad-8400 --device ddr2-800")]
    Rmin(RminArguments),
    /// Predict how long a program takes under a budget, from its profile.
    #[command(after_help = "\
The profile is the JSON of memtint sim (report.json of --out) for a scenario in which the program runs alone, with a budget that it \
never uses up, short periods, and history = true in [simulation.bandwidth]: each period is a stretch of it. The program is taken to go on as \
it did there, and to stand still from the last line of its budget to the end of the period. Not in it: what other cores delay.\n\
It is no bound: memtint analyze has one.\n\
Exit status: 0, or 2 failure.\n\
Example: memtint guard predict report.json --subject \"core 0\" --mb-per-s 200")]
    Predict(predict::PredictArguments),
    /// Show the counts of the running regulator (as root).
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
    #[arg(short, long, value_name = "PLATFORM")]
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
    let channel = Channel {
        device: arguments.device.clone(),
        density_gbit: arguments.density,
        refresh: arguments.refresh.clone(),
    };
    let report = guarantee(&platform, &channel, arguments.period)?;
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&rmin_text(&report))?,
    }
    Ok(ExitCode::from(u8::from(!report.is_served())))
}

fn rmin_text(report: &GuaranteeReport) -> String {
    let assumed = if report.assumed_device { " (the slowest of its family, as --device is not given)" } else { "" };
    let mut text = format!(
        "r_min      {:.0} MB/s\nplatform   {}, {}{assumed}, refresh {}, lines of {} B\nguaranteed {} lines in each period of {:.3} ms, \
         {:.0} MB/s\n\n",
        report.r_min_mb_per_s,
        report.platform,
        report.device,
        report.refresh,
        report.line_bytes,
        report.period.lines,
        report.period.ns / 1e6,
        report.period.mb_per_s
    );
    let rows: Vec<Vec<String>> = report.patterns.iter().map(pattern_row).collect();
    text += &table(&["pattern", "ns a line", "MB/s calculated", "MB/s simulated"], &[1, 2, 3], &rows);
    let _ = writeln!(
        text,
        "\nA controller that collects writes turns the bus round less often than by turns.\n\
         PRE + ACT + RD + transfer, as MemGuard's slides add them up, are {:.1} ns a line and {:.0} MB/s, {:.0} % more. That is no worst case: a \
         bank opens again only after tRC, a row that was written recovers first, and refresh is not in it. A measured bandwidth above \
         r_min is none either, unless the modules are faster than their standard: the measurement has not met the pattern.",
        report.slides.line_ns,
        report.slides.mb_per_s,
        (report.slides.mb_per_s / report.r_min_mb_per_s - 1.0) * 100.0
    );
    text
}

fn pattern_row(pattern: &PatternReport) -> Vec<String> {
    vec![
        pattern.name.to_owned(),
        format!("{:.1}", pattern.line_ns),
        format!("{:.0}", pattern.calculated_mb_per_s),
        format!("{:.0}", pattern.simulated_mb_per_s),
    ]
}
