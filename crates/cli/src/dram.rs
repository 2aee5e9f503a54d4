//! `memtint dram`: one channel, command by command.

mod options;
mod report;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use memtint_dram::replay::{ReplayStats, replay_timed};
use memtint_dram::{
    CommandReader, Controller, Cycle, Device, DeviceChoice, Geometry, RefreshCheck, RefreshPlan, RetentionMonitor,
    Standard,
};

use memtint_replay::{Feed, Mapping, Pace, Shape, Trace, TraceFile};

use self::options::{DeviceArguments, MappingArguments, ReplayArguments, SizeArguments};
use self::report::ReplayReport;
use crate::command_watch::{CommandWatch, Rules, Violations};
use crate::output::{Ending, Failure, Format, JsonForm, done, done_json, open_log, print, print_json, table};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<report::StandardsReport>("dram-list"),
    JsonForm::of::<report::DeviceReport>("dram-show"),
    JsonForm::of::<report::ReplayJson>("dram-replay"),
    JsonForm::of::<report::CheckReport>("dram-check"),
];

/// Arguments of `memtint dram`.
#[derive(Debug, clap::Args)]
pub(crate) struct DramArguments {
    #[command(subcommand)]
    verb: DramVerb,
}

#[derive(Debug, clap::Subcommand)]
enum DramVerb {
    /// Lists the standards and the devices of each.
    List,
    /// Shows organisation, timing and refresh of a device, with their sources.
    Show {
        /// Standard, or a file (a path with a slash or ending in .toml).
        #[arg(value_name = "STANDARD")]
        standard: String,
        #[command(flatten)]
        size: SizeArguments,
    },
    /// Replays independent requests against one channel.
    Replay(Box<ReplayArguments>),
    /// Checks a command trace against the standard.
    #[command(
        after_help = "Exit status: 0 legal, 1 a command breaks a rule, a row is lost, or refresh is postponed beyond the standard's limit, \
        2 failure.\n\
        A line of the trace: cycle, command, rank, bank, row or column; as memtint dram replay --commands writes it."
    )]
    Check {
        /// The command trace.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        device: DeviceArguments,
        #[command(flatten)]
        mapping: MappingArguments,
        /// Refresh that the device must get: all-bank, fgr2, ...; with none, only what is there is checked.
        #[arg(long, value_name = "ENGINE", default_value = "none")]
        refresh: String,
    },
}

pub(crate) fn main(arguments: &DramArguments, format: Format) -> Ending {
    match &arguments.verb {
        DramVerb::List => list(format),
        DramVerb::Show { standard, size } => show(&size.device(standard)?, format),
        DramVerb::Replay(replay) => run_replay(replay, format),
        DramVerb::Check { file, device, mapping, refresh } => check(file, device, mapping, refresh, format),
    }
}

fn list(format: Format) -> Ending {
    let standards: Vec<Standard> = Standard::names().map(Standard::load).collect::<Result<_, _>>()?;
    let devices = |standard: &Standard| standard.devices().map(|(gbit, bits)| format!("{gbit}Gb x{bits}")).collect();
    if format == Format::Json {
        return done_json(&report::StandardsReport::of(&standards));
    }
    let rows: Vec<Vec<String>> = standards
        .iter()
        .map(|standard| {
            let devices: Vec<String> = devices(standard);
            vec![standard.name().to_owned(), standard.speed_bin().to_owned(), devices.join(", ")]
        })
        .collect();
    done(&table(&["standard", "speed bin", "devices"], &[], &rows))
}

fn show(device: &Device, format: Format) -> Ending {
    match format {
        Format::Json => done_json(&report::DeviceReport::of(device)),
        Format::Text => done(&report::device_text(device)),
    }
}

impl SizeArguments {
    fn device(&self, standard: &str) -> Result<Device, Failure> {
        let choice =
            DeviceChoice { density_gbit: self.density, device_bits: self.width, ranks: self.ranks.unwrap_or(1) };
        Ok(Standard::load(standard)?.device(choice)?)
    }
}

impl DeviceArguments {
    /// The device with the geometry and timing that mapping and refresh give it.
    fn prepare(&self, mapping: &MappingArguments, refresh: &str) -> Result<(Device, Mapping, RefreshPlan), Failure> {
        let mut device = self.size.device(&self.device)?;
        let plan = RefreshPlan::named(refresh, &device)?;
        let (mapping, geometry) = Mapping::named(&mapping.mapping, mapping.channel, self.size.ranks, &device)?;
        (device.geometry, device.timing) = (geometry, plan.timing);
        Ok((device, mapping, plan))
    }
}

// --- replay ---

fn run_replay(arguments: &ReplayArguments, format: Format) -> Ending {
    let refresh = if arguments.no_refresh { "none" } else { &arguments.refresh };
    let (device, mapping, plan) = arguments.device.prepare(&arguments.mapping, refresh)?;
    let config = arguments.controller.config(plan.kind);
    let (trace, pace) = trace(arguments, &mapping, &device.geometry)?;
    let (mut feed, mut told) = (Feed::new(trace, &mapping, pace), Told(Instant::now()));
    let mut requests = std::iter::from_fn(|| {
        told.tell(feed.requests());
        feed.next()
    });
    let watched = arguments.check || arguments.commands.is_some();
    let (stats, ranks, engine, watch) = if watched {
        let rules = || Rules::new(&device, plan.duty, Some(refresh));
        let watch = CommandWatch::new(arguments.commands.as_deref(), arguments.check.then(rules))?;
        let mut controller = Controller::with_sink(device.geometry, device.timing, config, watch)?;
        let stats = replay_timed(&mut controller, requests.by_ref());
        let (ranks, engine) = (controller.rank_counts(Cycle(stats.cycles)), controller.refresh_name());
        (stats, ranks, engine, Some(controller.into_sink()))
    } else {
        let mut controller = Controller::new(device.geometry, device.timing, config)?;
        let stats = replay_timed(&mut controller, requests.by_ref());
        let (ranks, engine) = (controller.rank_counts(Cycle(stats.cycles)), controller.refresh_name());
        (stats, ranks, engine, None)
    };
    if let Some(failure) = feed.take_failure() {
        return Err(failure.into());
    }
    if arguments.check && stats.requests == 0 {
        let trace = &arguments.trace;
        let message = format!(
            "trace {trace:?}: it has no request for this channel; accepted with --check is one with at least one"
        );
        return Err(Failure::Sentence(message));
    }
    let (commands, found) = watch.map(CommandWatch::finish).transpose()?.unzip();
    let found = found.unwrap_or_default();
    let report = ReplayReport {
        arguments,
        device: &device,
        mapping: &mapping,
        config: &config,
        engine,
        stats: &stats,
        ranks: &ranks,
        other_channels: feed.other_channels(),
        timed: feed.is_timed(),
        commands: commands.filter(|_| arguments.check),
        found,
    };
    match format {
        Format::Json => print_json(&report.to_json())?,
        Format::Text => print(&report.to_text())?,
    }
    if let Some(violation) = found.violation {
        eprintln!("memtint: dram: {violation}");
    }
    Ok(ExitCode::from(u8::from(!found.is_legal())))
}

/// The trace that the options name, and how it is offered.
fn trace(arguments: &ReplayArguments, mapping: &Mapping, geometry: &Geometry) -> Result<(Trace, Pace), Failure> {
    const DEFAULT_REQUESTS: u64 = 100_000;
    let shape = Shape::ALL.into_iter().find(|shape| arguments.trace == Path::new(shape.name()));
    let (trace, default) = match shape {
        Some(shape) => {
            let writes = arguments.writes.into();
            (Trace::synthetic(shape, arguments.seed, writes, mapping, geometry), Some(DEFAULT_REQUESTS))
        }
        None => (Trace::File(Box::new(TraceFile::open(&arguments.trace)?)), None),
    };
    Ok((trace, Pace { requests: arguments.requests.or(default), period: arguments.period }))
}

/// Prints on a terminal how far a replay is.
struct Told(Instant);

impl Told {
    fn tell(&mut self, requests: u64) {
        const EACH: Duration = Duration::from_secs(5);
        if requests.is_multiple_of(1 << 20) && self.0.elapsed() > EACH && std::io::stderr().is_terminal() {
            eprintln!("memtint: dram: {requests} requests");
            self.0 = Instant::now();
        }
    }
}

// --- check ---

fn check(path: &Path, device: &DeviceArguments, mapping: &MappingArguments, refresh: &str, format: Format) -> Ending {
    let (device, _, plan) = device.prepare(mapping, refresh)?;
    let file = open_log(path)?;
    let mut rules = Rules::new(&device, plan.duty, None);
    // What the standard lets come late, it lets.
    let leeway = |duty: RefreshCheck| RefreshCheck { window: duty.window + duty.slack, ..duty };
    let mut monitor = plan.duty.map(|duty| RetentionMonitor::new(&device.geometry, &leeway(duty)));
    let mut reader = CommandReader::new(file, &path.display().to_string());
    let (mut commands, mut found, mut line, mut end) = (0u64, Violations::default(), None, Cycle::ZERO);
    while let Some(command) = reader.next() {
        let command = command?;
        rules.see(command, &mut found);
        // The line of what is reported: a command that is not legal, or else the first refresh beyond the limits.
        if found.violation.is_some() {
            line = Some(reader.line());
            break;
        }
        line = line.or_else(|| found.postponed.map(|_| reader.line()));
        if let Some(monitor) = &mut monitor {
            monitor.watch(command);
        }
        (commands, end) = (commands + 1, command.cycle);
    }
    if commands == 0 && found.is_legal() {
        return Err(Failure::Sentence(format!(
            "command trace {path:?}: it has no command; accepted is one with at least one"
        )));
    }
    let retention = monitor.map(|monitor| monitor.finish(end)).filter(|_| found.violation.is_none());
    let lost = retention.as_ref().is_some_and(|retention| retention.losses > 0);
    match format {
        Format::Json => {
            print_json(&report::CheckReport::of(path, &device, commands, (line, &found), retention.as_ref()))?;
        }
        Format::Text => {
            print(&report::check_text(&device, commands, (line, &found), plan.duty.is_some(), retention.as_ref()))?;
        }
    }
    Ok(ExitCode::from(u8::from(!found.is_legal() || lost)))
}

/// Bytes that were moved, and the time it took: bytes a second.
fn bandwidth(stats: &ReplayStats, device: &Device) -> f64 {
    let moved = (stats.hits + stats.misses + stats.conflicts) * u64::from(device.geometry.burst_bytes());
    let seconds = device.clock.start(stats.cycles).as_seconds();
    if seconds > 0.0 { moved as f64 / seconds } else { 0.0 }
}
