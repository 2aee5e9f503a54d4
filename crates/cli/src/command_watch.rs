//! What the verbs that simulate do with DRAM commands: keep them, and hold them against the standard.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use memtint_dram::{CheckOptions, Checker, Command, CommandSink, Device, RefreshCheck, Violation};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::Failure;

/// What commands are held against.
pub(crate) struct Rules {
    checker: Checker,
    /// The standard's limits of postponed refresh, where the duty does not ask for them.
    pace: Option<Checker>,
    by_design: Option<ByDesign>,
}

/// REF commands that a refresh engine postpones, whatever the trace shows of it, and how many the standard accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByDesign {
    postponed: u32,
    accepted: u32,
}

impl ByDesign {
    /// Of the engine of this name.
    pub(crate) fn of(engine: &str, device: &Device) -> Option<ByDesign> {
        let (postponed, accepted) = (device.refresh.commands - 1, device.refresh.postponed_max);
        (engine == "burst").then_some(ByDesign { postponed, accepted })
    }
}

impl Rules {
    /// `engine` names the refresh that was simulated; `None` for a trace, of which only what it shows is known.
    pub(crate) fn new(device: &Device, duty: Option<RefreshCheck>, engine: Option<&str>) -> Rules {
        let checker = |refresh| Checker::new(&device.geometry, &device.timing, CheckOptions { refresh });
        let beyond = duty.and_then(|duty| duty.beyond(device));
        let by_design = engine.and_then(|engine| ByDesign::of(engine, device));
        Rules { checker: checker(duty), pace: beyond.map(|beyond| checker(Some(beyond))), by_design }
    }

    /// Sees a command; what it breaks. Nothing is seen after the first violation of each.
    pub(crate) fn see(&mut self, command: Command, found: &mut Violations) {
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

/// The first of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Violations {
    /// A command that is not legal.
    pub(crate) violation: Option<Violation>,
    /// A refresh that is postponed or pulled in beyond the standard's limit.
    pub(crate) postponed: Option<Violation>,
    /// The same, of an engine that does it by design.
    pub(crate) by_design: Option<ByDesign>,
}

impl Violations {
    /// Whether all commands are legal, refresh included.
    pub(crate) fn is_legal(&self) -> bool {
        self.violation.is_none() && self.postponed().is_none()
    }

    /// How refresh leaves the standard's limits, in words.
    pub(crate) fn postponed(&self) -> Option<String> {
        let by_design = |ByDesign { postponed, accepted }| {
            format!("this engine postpones up to {postponed} REF commands; accepted are {accepted}")
        };
        self.postponed.map(|shown| shown.to_string()).or_else(|| self.by_design.map(by_design))
    }

    /// The same for programs; null within the limits.
    pub(crate) fn postponed_report(&self) -> Option<PostponedReport> {
        match (self.postponed, self.by_design) {
            (Some(shown), _) => Some(PostponedReport::Shown(ViolationReport::of(&shown))),
            (None, Some(own)) => {
                Some(PostponedReport::ByDesign { postponed_commands: own.postponed, accepted_commands: own.accepted })
            }
            (None, None) => None,
        }
    }

    /// The same in words, for the end of a line; `refresh_checked` is whether refresh that never comes would have been found.
    pub(crate) fn text(&self, refresh_checked: bool) -> String {
        match (self.violation, self.postponed()) {
            (None, None) if refresh_checked => "all legal".to_owned(),
            (None, None) => "all legal between commands; whether rows are refreshed is not checked".to_owned(),
            (None, Some(postponed)) => format!(
                "not all legal: timings are kept, but JEDEC limits how many REF commands are postponed or pulled in: {postponed}"
            ),
            _ => "not all legal".to_owned(),
        }
    }
}

/// Writes the commands of one channel to a file, and has them checked.
pub(crate) struct CommandWatch {
    out: Option<(PathBuf, BufWriter<File>)>,
    rules: Option<Rules>,
    commands: u64,
    found: Violations,
    failure: Option<std::io::Error>,
}

impl CommandWatch {
    pub(crate) fn new(file: Option<&Path>, rules: Option<Rules>) -> Result<CommandWatch, Failure> {
        let create = |path: &Path| match File::create(path) {
            Ok(file) => Ok((path.to_owned(), BufWriter::new(file))),
            Err(cause) => Err(Failure::File { path: path.to_owned(), done: "written", cause }),
        };
        Ok(CommandWatch {
            out: file.map(create).transpose()?,
            found: Violations { by_design: rules.as_ref().and_then(|rules| rules.by_design), ..Violations::default() },
            rules,
            commands: 0,
            failure: None,
        })
    }

    /// Commands seen, and the first violations.
    pub(crate) fn finish(mut self) -> Result<(u64, Violations), Failure> {
        if let Some((path, out)) = &mut self.out
            && let Some(cause) = self.failure.take().or_else(|| out.flush().err())
        {
            return Err(Failure::File { path: path.clone(), done: "written", cause });
        }
        Ok((self.commands, self.found))
    }
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
pub(crate) struct ViolationReport {
    /// What is violated, by JEDEC's name where it has one.
    constraint: &'static str,
    /// The command, as command files write it.
    command: String,
    /// The command that it comes too soon after, where there is one.
    earlier_command: Option<String>,
    /// Cycles that the rule asks for after the earlier command; of tREFI and retention, the most that are allowed without a refresh; 0
    /// for rules without a time.
    needed_cycles: u64,
    /// Cycles that there are instead.
    found_cycles: u64,
}

impl ViolationReport {
    pub(crate) fn of(violation: &Violation) -> ViolationReport {
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
pub(crate) enum PostponedReport {
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
