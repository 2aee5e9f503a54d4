//! Monitors the commands of a running channel: writes them to a file, and checks them against the standard.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::check::{CheckOptions, Checker, RefreshCheck, Violation};
use crate::command::Command;
use crate::controller::CommandSink;
use crate::error::DramError;
use crate::standard::Device;

/// The rules for commands: the standard's timing, the duty to refresh, and the standard's limits of postponed refresh.
#[derive(Debug)]
pub struct Rules {
    checker: Checker,
    /// The standard's limits of postponed refresh, if the duty does not include them.
    pace: Option<Checker>,
    by_design: Option<ByDesign>,
}

/// REF commands that a refresh engine postpones, whether or not the trace shows it, and the number that the standard
/// accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByDesign {
    postponed: u32,
    accepted: u32,
}

impl ByDesign {
    /// The numbers of the engine with this name.
    fn of(engine: &str, device: &Device) -> Option<ByDesign> {
        let (postponed, accepted) = (device.refresh.commands - 1, device.refresh.postponed_max);
        (engine == "burst").then_some(ByDesign { postponed, accepted })
    }
}

impl Rules {
    /// Makes the rules of a device. `engine` names the simulated refresh engine; `None` for a trace, whose engine is unknown.
    #[must_use]
    pub fn new(device: &Device, duty: Option<RefreshCheck>, engine: Option<&str>) -> Rules {
        let checker = |refresh| Checker::new(&device.geometry, &device.timing, CheckOptions { refresh });
        let beyond = duty.and_then(|duty| duty.beyond(device));
        let by_design = engine.and_then(|engine| ByDesign::of(engine, device));
        Rules { checker: checker(duty), pace: beyond.map(|beyond| checker(Some(beyond))), by_design }
    }

    /// Checks a command, and adds its violations to `found`. Nothing is checked after the first violation of each kind.
    pub fn see(&mut self, command: Command, found: &mut Violations) {
        if found.violation.is_none() {
            found.violation = self.checker.see(command).err();
        }
        if let Some(pace) = &mut self.pace
            && found.postponed.is_none()
            && found.violation.is_none()
        {
            found.postponed = pace.see(command).err();
        }
    }
}

/// The first violation of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Violations {
    /// A command that is not legal.
    pub violation: Option<Violation>,
    /// A refresh that is postponed or pulled in beyond the standard's limit.
    pub postponed: Option<Violation>,
    /// The same, of an engine that does it by design.
    by_design: Option<ByDesign>,
}

impl Violations {
    /// Returns whether all commands are legal, refresh included.
    #[must_use]
    pub fn is_legal(&self) -> bool {
        self.violation.is_none() && self.postponed().is_none()
    }

    /// Describes how refresh exceeds the standard's limits, in words.
    #[must_use]
    pub fn postponed(&self) -> Option<String> {
        let by_design = |ByDesign { postponed, accepted }| {
            format!("this engine postpones up to {postponed} REF commands; accepted are {accepted}")
        };
        self.postponed.map(|shown| shown.to_string()).or_else(|| self.by_design.map(by_design))
    }

    /// Gives the same for programs; `None` within the limits.
    #[must_use]
    pub fn postponed_report(&self) -> Option<PostponedReport> {
        match (self.postponed, self.by_design) {
            (Some(shown), _) => Some(PostponedReport::Shown(ViolationReport::of(&shown))),
            (None, Some(own)) => {
                Some(PostponedReport::ByDesign { postponed_commands: own.postponed, accepted_commands: own.accepted })
            }
            (None, None) => None,
        }
    }
}

/// Writes the commands of one channel to a file, and checks them.
#[derive(Debug)]
pub struct CommandWatch {
    out: Option<(PathBuf, BufWriter<File>)>,
    rules: Option<Rules>,
    commands: u64,
    found: Violations,
    failure: Option<std::io::Error>,
}

impl CommandWatch {
    /// Makes a watch that writes commands to `file` and checks them against `rules`, if these are given.
    ///
    /// # Errors
    /// [`DramError::Write`] for a file that cannot be created.
    pub fn new(file: Option<&Path>, rules: Option<Rules>) -> Result<CommandWatch, DramError> {
        let create = |path: &Path| match File::create(path) {
            Ok(file) => Ok((path.to_owned(), BufWriter::new(file))),
            Err(cause) => Err(unwritten(path, &cause)),
        };
        Ok(CommandWatch {
            out: file.map(create).transpose()?,
            found: Violations { by_design: rules.as_ref().and_then(|rules| rules.by_design), ..Violations::default() },
            rules,
            commands: 0,
            failure: None,
        })
    }

    /// Gives the number of commands, and the first violations.
    ///
    /// # Errors
    /// [`DramError::Write`] where a command could not be written.
    pub fn finish(mut self) -> Result<(u64, Violations), DramError> {
        if let Some((path, out)) = &mut self.out
            && let Some(cause) = self.failure.take().or_else(|| out.flush().err())
        {
            return Err(unwritten(path, &cause));
        }
        Ok((self.commands, self.found))
    }
}

fn unwritten(path: &Path, cause: &std::io::Error) -> DramError {
    DramError::Write { path: path.to_owned(), reason: cause.to_string() }
}

impl CommandSink for CommandWatch {
    fn see(&mut self, command: Command) {
        self.commands += 1;
        if let Some((_, out)) = &mut self.out
            && self.failure.is_none()
        {
            self.failure = writeln!(out, "{command}").err();
        }
        if let Some(rules) = &mut self.rules {
            rules.see(command, &mut self.found);
        }
    }
}

/// A command that is not legal, in JSON.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ViolationReport {
    /// The violated rule, by JEDEC's name if it has one.
    constraint: &'static str,
    /// The command, as command files write it.
    command: String,
    /// The command that it is too close to, if there is one.
    earlier_command: Option<String>,
    /// Cycles that the rule requires after the earlier command; for tREFI and retention, the most that are allowed without a refresh; 0 for
    /// rules without a time.
    needed_cycles: u64,
    /// Cycles found instead.
    found_cycles: u64,
}

impl ViolationReport {
    /// Makes the report of a violation.
    #[must_use]
    pub fn of(violation: &Violation) -> ViolationReport {
        ViolationReport {
            constraint: violation.constraint.name(),
            command: violation.command.to_string(),
            earlier_command: violation.earlier.map(|command| command.to_string()),
            needed_cycles: violation.needed,
            found_cycles: violation.found,
        }
    }
}

/// Refresh that is postponed or pulled in beyond the standard's limit, in JSON.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PostponedReport {
    /// Seen in the commands.
    Shown(ViolationReport),
    /// The engine does it by design.
    ByDesign {
        /// REF commands that the engine postpones.
        postponed_commands: u32,
        /// REF commands that the standard lets it postpone.
        accepted_commands: u32,
    },
}
