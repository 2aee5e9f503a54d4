//! A process that thaws all groups when the regulator has ended, however it ended.
//!
//! It holds the reading end of a pipe, and has nothing else to do until the kernel closes the writing end with the regulator's last
//! thread.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::cgroup::Cgroup;
use crate::error::RegulatorError;
use crate::sys;

/// The running guardian. It acts when this is dropped, too.
#[derive(Debug)]
pub(crate) struct Guardian {
    input: Option<ChildStdin>,
    process: Child,
    groups: Vec<Cgroup>,
}

impl Guardian {
    /// Starts `command`, which calls [`guard`], and waits until it has read which groups there are.
    pub(crate) fn start(mut command: Command, groups: &[&Cgroup]) -> Result<Guardian, RegulatorError> {
        let failed = |reason: String| RegulatorError::Process { what: "guardian", reason };
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("{}: {error}", command.get_program().display())))?;
        let (Some(mut input), Some(mut output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("it has no pipes".to_owned()));
        };
        let mut list = String::new();
        for group in groups {
            let Some(path) = group.path().to_str() else {
                return Err(failed(format!("{} is not UTF-8", group.path().display())));
            };
            list += &format!("{} {path}\n", if group.is_own() { "own" } else { "other" });
        }
        let mut answer = String::new();
        input
            .write_all(format!("{list}\n").as_bytes())
            .and_then(|()| output.read_to_string(&mut answer))
            .map_err(|error| failed(error.to_string()))?;
        if answer != READY {
            return Err(failed(format!("it has answered {answer:?}")));
        }
        let groups = groups.iter().map(|&group| group.clone()).collect();
        Ok(Guardian { input: Some(input), process, groups })
    }

    /// Whether it runs still.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself. If it was ended, its work is done here.
        if !self.process.wait().is_ok_and(|status| status.success()) {
            self.groups.iter().for_each(Cgroup::leave);
        }
    }
}

const READY: &str = "ready\n";

/// Reads a list of groups from standard input, answers, waits until standard input ends, and leaves all groups: thaws them, and
/// removes those that the regulator has created. Signals of a terminal do not end it.
///
/// # Errors
/// A list that is not one, and what the kernel refuses before the answer.
pub fn guard() -> io::Result<()> {
    sys::leave_terminal();
    // Without these it is slower, not wrong.
    let _ = sys::lock_memory();
    let _ = sys::set_fifo(PRIORITY);
    let mut input = io::stdin().lock();
    let mut groups = Vec::new();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the list of groups is cut short"));
        }
        match line.trim_end_matches('\n').split_once(' ') {
            None if line == "\n" => break,
            Some((kind @ ("own" | "other"), path)) => groups.push(Cgroup::at(PathBuf::from(path), kind == "own")),
            _ => return Err(io::Error::other(format!("{line:?} is no group"))),
        }
    }
    io::stdout().write_all(READY.as_bytes())?;
    sys::close_output();
    // Ends with the regulator.
    let mut rest = Vec::new();
    let _ = input.read_to_end(&mut rest);
    groups.iter().for_each(Cgroup::leave);
    Ok(())
}

const PRIORITY: i32 = 99;
