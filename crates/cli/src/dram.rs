//! `memtint dram`: one channel, command by command.

mod options;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_dram::{Device, DeviceReport, Standard, StandardsReport};
use memtint_replay::{ChannelRequest, CheckReport, ReplayReport, check};

use self::options::{DeviceArguments, MappingArguments, ReplayArguments, SizeArguments};
use crate::output::{Ending, Format, JsonForm, done, done_json, print, print_json, table, warn};
use crate::progress::Progress;

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<StandardsReport>("dram-list"),
    JsonForm::of::<DeviceReport>("dram-show"),
    JsonForm::of::<ReplayReport>("dram-replay"),
    JsonForm::of::<CheckReport>("dram-check"),
];

/// Arguments of `memtint dram`.
#[derive(Debug, clap::Args)]
pub(crate) struct DramArguments {
    #[command(subcommand)]
    verb: DramVerb,
}

#[derive(Debug, clap::Subcommand)]
enum DramVerb {
    /// List the standards and the devices of each.
    List,
    /// Show organisation, timing and refresh of a device, with their sources.
    Show {
        /// Standard, or a file (a path with a slash or ending in .toml).
        #[arg(value_name = "STANDARD")]
        standard: String,
        #[command(flatten)]
        size: SizeArguments,
    },
    /// Replay independent requests against one channel.
    Replay(Box<ReplayArguments>),
    /// Check a command trace against the standard.
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
        /// Refresh that the device must get: all-bank, fgr2, ...; with none, only the refresh in the trace is checked.
        #[arg(long, value_name = "ENGINE", default_value = "none")]
        refresh: String,
    },
}

pub(crate) fn main(arguments: &DramArguments, format: Format) -> Ending {
    match &arguments.verb {
        DramVerb::List => list(format),
        DramVerb::Show { standard, size } => show(&size.device(standard)?, format),
        DramVerb::Replay(replay) => run_replay(replay, format),
        DramVerb::Check { file, device, mapping, refresh } => {
            check_commands(file, &device.channel(mapping, refresh), format)
        }
    }
}

fn list(format: Format) -> Ending {
    let standards: Vec<Standard> = Standard::names().map(Standard::load).collect::<Result<_, _>>()?;
    let devices = |standard: &Standard| standard.devices().map(|(gbit, bits)| format!("{gbit}Gb x{bits}")).collect();
    if format == Format::Json {
        return done_json(&StandardsReport::of(&standards));
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
        Format::Json => done_json(&DeviceReport::of(device)),
        Format::Text => done(&report::device_text(device)),
    }
}

fn run_replay(arguments: &ReplayArguments, format: Format) -> Ending {
    let progress = Progress::of_steps("replaying");
    let replayed = arguments.request().run(&mut |requests| {
        // Each step takes a lock.
        if requests.is_multiple_of(1 << 20) {
            progress.step(format!("{requests} requests"));
        }
    })?;
    drop(progress);
    match format {
        Format::Json => print_json(&replayed.report())?,
        Format::Text => print(&report::replay_text(&replayed))?,
    }
    if let Some(violation) = replayed.found.violation {
        warn(&format!("dram: {violation}"));
    }
    Ok(ExitCode::from(u8::from(!replayed.found.is_legal())))
}

fn check_commands(path: &Path, channel: &ChannelRequest, format: Format) -> Ending {
    let checked = check(path, channel)?;
    match format {
        Format::Json => print_json(&checked.report())?,
        Format::Text => print(&report::check_text(&checked))?,
    }
    Ok(ExitCode::from(u8::from(!checked.is_kept())))
}
