//! What the verbs that simulate do with DRAM commands: keep them, and hold them against the standard.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use memtint_dram::{Checker, Command, CommandSink, Violation};
use serde_json::{Value, json};

use crate::output::Failure;

/// Writes the commands of one channel to a file, and has them checked.
pub(crate) struct CommandWatch {
    out: Option<(PathBuf, BufWriter<File>)>,
    checker: Option<Checker>,
    commands: u64,
    violation: Option<Violation>,
    failure: Option<std::io::Error>,
}

impl CommandWatch {
    pub(crate) fn new(file: Option<&Path>, checker: Option<Checker>) -> Result<CommandWatch, Failure> {
        let create = |path: &Path| match File::create(path) {
            Ok(file) => Ok((path.to_owned(), BufWriter::new(file))),
            Err(cause) => Err(Failure::File { path: path.to_owned(), done: "written", cause }),
        };
        Ok(CommandWatch { out: file.map(create).transpose()?, checker, commands: 0, violation: None, failure: None })
    }

    /// Commands seen, and the first violation.
    pub(crate) fn finish(mut self) -> Result<(u64, Option<Violation>), Failure> {
        if let Some((path, out)) = &mut self.out
            && let Some(cause) = self.failure.take().or_else(|| out.flush().err())
        {
            return Err(Failure::File { path: path.clone(), done: "written", cause });
        }
        Ok((self.commands, self.violation))
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
        if let Some(checker) = &mut self.checker
            && self.violation.is_none()
        {
            self.violation = checker.see(command).err();
        }
    }
}

pub(crate) fn violation_json(violation: &Violation) -> Value {
    json!({
        "constraint": violation.constraint.name(),
        "command": violation.command.to_string(),
        "earlier_command": violation.earlier.map(|command| command.to_string()),
        "needed_cycles": violation.needed,
        "found_cycles": violation.found,
    })
}
