//! The commands of a machine's channels: written to files, checked against the standard, and reported.

use std::path::Path;

use memtint_dram::{CommandWatch, Device, PostponedReport, Rules, ViolationReport, Violations};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::SimError;
use crate::report::Report;
use crate::scenario::Scenario;
use crate::simulate::{Watch, simulate, simulate_watched};

/// The commands of the channels of a simulation.
#[derive(Debug)]
pub struct ChannelCommands {
    /// Commands of all channels.
    pub commands: u64,
    /// Whether all are legal; `None` when they were not checked.
    pub legal: Option<bool>,
    /// Whether refresh that never comes would have been found: not in a scenario without refresh.
    pub refresh_checked: bool,
    /// The first violations of each channel.
    pub found: Vec<Violations>,
}

/// Simulates as [`simulate`] does. Where `folder` or `check` asks for it, the commands of each channel are written to
/// `channel-0.commands` and so on, or checked against the standard.
///
/// # Errors
/// As [`simulate`]; and [`SimError::Dram`] for a file of commands that cannot be written.
pub fn simulate_commands(
    scenario: &Scenario,
    threads: usize,
    watch: &dyn Watch,
    folder: Option<&Path>,
    check: bool,
) -> Result<(Report, Option<ChannelCommands>), SimError> {
    if folder.is_none() && !check {
        return Ok((simulate(scenario, threads, watch)?, None));
    }
    let channels = scenario.channels()?;
    let device = Device { geometry: channels.geometry, timing: channels.timing, ..scenario.device().clone() };
    let rules = || Rules::new(&device, channels.duty, scenario.spec().controller.refresh.as_deref());
    let file = |channel| folder.map(|folder| folder.join(format!("channel-{channel}.commands")));
    let sink = |channel| CommandWatch::new(file(channel).as_deref(), check.then(rules));
    let sinks = (0..channels.count).map(sink).collect::<Result<Vec<_>, _>>()?;
    let (report, sinks) = simulate_watched(scenario, threads, watch, sinks)?;
    let finished = sinks.into_iter().map(CommandWatch::finish).collect::<Result<Vec<_>, _>>()?;
    let (commands, found): (Vec<u64>, Vec<Violations>) = finished.into_iter().unzip();
    let commands = ChannelCommands {
        commands: commands.iter().sum(),
        legal: check.then(|| found.iter().all(Violations::is_legal)),
        refresh_checked: check && channels.duty.is_some(),
        found,
    };
    Ok((report, Some(commands)))
}

/// The output of `memtint sim`: the report, and the fields of the file that it does not consider.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SystemReport<'a> {
    /// Fields of the system file that the simulation does not consider.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_considered: Vec<String>,
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Commands>,
}

/// Of all channels.
#[derive(Debug, Serialize, JsonSchema)]
struct Commands {
    channels: usize,
    commands: u64,
    /// Absent when they were not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    legal: Option<bool>,
    /// Whether refresh that never comes would have been found: not in a scenario without refresh.
    refresh_checked: bool,
    /// The first of each channel that has one.
    violations: Vec<ChannelViolation>,
    /// Refresh that is postponed or pulled in beyond the standard's limits, the first of each channel that has one.
    postponed_beyond_standard: Vec<ChannelPostponed>,
}

/// A command of a channel that is not legal.
#[derive(Debug, Serialize, JsonSchema)]
struct ChannelViolation {
    channel: usize,
    /// In words.
    text: String,
    violation: ViolationReport,
}

/// Refresh of a channel that leaves the standard's limits.
#[derive(Debug, Serialize, JsonSchema)]
struct ChannelPostponed {
    channel: usize,
    /// In words.
    text: String,
    found: PostponedReport,
}

impl<'a> SystemReport<'a> {
    /// Makes the report of a system file's simulation.
    #[must_use]
    pub fn new(
        report: &'a Report,
        not_considered: Vec<String>,
        commands: Option<&ChannelCommands>,
    ) -> SystemReport<'a> {
        SystemReport { not_considered, report, commands: commands.map(Commands::of) }
    }
}

impl Commands {
    fn of(sent: &ChannelCommands) -> Commands {
        let violation = |(channel, found): (usize, &Violations)| {
            let violation = found.violation?;
            Some(ChannelViolation { channel, text: violation.to_string(), violation: ViolationReport::of(&violation) })
        };
        let postponed = |(channel, found): (usize, &Violations)| {
            Some(ChannelPostponed { channel, text: found.postponed()?, found: found.postponed_report()? })
        };
        Commands {
            channels: sent.found.len(),
            commands: sent.commands,
            legal: sent.legal,
            refresh_checked: sent.refresh_checked,
            violations: sent.found.iter().enumerate().filter_map(violation).collect(),
            postponed_beyond_standard: sent.found.iter().enumerate().filter_map(postponed).collect(),
        }
    }
}
