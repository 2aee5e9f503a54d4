//! A process that thaws all groups when the regulator has ended, however it ended.
//!
//! It reads a pipe, whose writing end the kernel closes with the thread that has it: a thread of real-time priority, which SIGKILL ends
//! at once, however busy the CPUs are. Until then the guardian receives a heartbeat, and keeps the groups thawed while that is missing.
//! After it, the guardian thaws until the regulator's other threads have ended, too: one of them may be about to freeze.

use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cgroup::{Cgroup, CgroupRoot};
use crate::error::RegulatorError;
use crate::freezer::STACK_BYTES;
use crate::sys;

/// The running guardian. It acts when this is dropped, too.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    groups: Vec<Cgroup>,
    /// Sends a heartbeat through the pipe; closes the pipe when the sender is dropped.
    pulse: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Heartbeat interval. When the guardian has waited in vain for as many heartbeats as this, one after the other, it assumes that the
/// regulator is stopped, and thaws. A machine that has stood still for a second is no such silence: one wait ends with it.
const PULSE: Duration = Duration::from_millis(100);
const WAITS: u32 = 10;

impl Guardian {
    /// Starts `command`, which calls [`guard`], and waits until it has read which groups there are. It keeps `lock` open, so that no
    /// other regulator begins before it has ended.
    pub(crate) fn start(
        mut command: Command,
        root: Option<&CgroupRoot>,
        groups: &[&Cgroup],
        lock: &File,
    ) -> Result<Guardian, RegulatorError> {
        let failed = |reason: String| RegulatorError::Process { what: "guardian", reason };
        let mut list = format!("regulator {}\n", std::process::id());
        list += &root.map_or(String::new(), |root| format!("root {}\n", root.path().display()));
        for group in groups {
            let Some(path) = group.path().to_str() else {
                return Err(failed(format!("{} is not UTF-8", group.path().display())));
            };
            list += &format!("{} {path}\n", if group.is_own() { "own" } else { "other" });
        }
        let inherited = sys::inheritable(lock.as_fd()).map_err(|error| failed(error.to_string()))?;
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("{}: {error}", command.get_program().display())))?;
        drop(inherited);
        let (Some(mut input), Some(mut output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("it has no pipes".to_owned()));
        };
        let mut answer = String::new();
        input
            .write_all(format!("{list}\n").as_bytes())
            .and_then(|()| output.read_to_string(&mut answer))
            .map_err(|error| failed(error.to_string()))?;
        if answer != READY {
            return Err(failed(format!("it has answered {answer:?}")));
        }
        let number = input.as_raw_fd();
        let (end, ended) = mpsc::channel();
        let (sender, is_alone) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("pulse".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // Where that is refused, the last thread closes the pipe.
                let _ = sender.send(sys::keep_only(input.as_fd()).is_ok());
                pulse(input, &ended);
            })
            .map_err(RegulatorError::Thread)?;
        if is_alone.recv() == Ok(true) {
            // SAFETY: the owner of this number is the thread, which has its own table.
            unsafe { sys::close_number(number) };
        }
        let groups = groups.iter().map(|&group| group.clone()).collect();
        Ok(Guardian { process, groups, pulse: Some((end, thread)) })
    }

    /// Whether it runs still.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

/// Time between two thaws while a regulator that was killed has threads left.
const THAWS: Duration = Duration::from_millis(2);
/// All freezers have ended.
const FINISHED: &[u8] = b"!";

fn pulse(mut input: ChildStdin, ended: &Receiver<()>) {
    // Busy CPUs must not look like a regulator that is stopped. Without the priority that is only less likely.
    let _ = sys::set_fifo(PRIORITY);
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(PULSE) {
        if input.write_all(b".").is_err() {
            return;
        }
    }
    // The guardian may have ended.
    let _ = input.write_all(FINISHED);
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.pulse.take() {
            drop(end);
            if thread.join().is_err() {
                // The guardian would wait for the end of this process.
                let _ = self.process.kill();
            }
        }
        // It ends by itself. If it was ended, its work is done here.
        if !self.process.wait().is_ok_and(|status| status.success()) {
            self.groups.iter().for_each(Cgroup::leave);
        }
    }
}

const READY: &str = "ready\n";

/// Reads a list of groups from standard input, answers, and waits until standard input ends. Then it leaves all groups: thaws them, and
/// removes those that the regulator has created. While the regulator is stopped, it keeps them thawed. Signals of a terminal do not
/// end it.
///
/// # Errors
/// An invalid list, and errors of the kernel before the answer.
pub fn guard() -> io::Result<()> {
    sys::leave_terminal();
    // Without these it is slower, or ends with its service, not wrong.
    let _ = sys::lock_memory();
    let _ = sys::set_fifo(PRIORITY);
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let mut input = io::stdin().lock();
    let (mut groups, mut regulator) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the list of groups is cut short"));
        }
        match line.trim_end_matches('\n').split_once(' ') {
            None if line == "\n" => break,
            // A signal to the regulator's group does not kill the guardian.
            Some(("root", path)) => drop(std::fs::write(PathBuf::from(path).join("cgroup.procs"), "0")),
            Some(("regulator", number)) => regulator = number.parse().map_err(io::Error::other)?,
            Some((kind @ ("own" | "other"), path)) => groups.push(Cgroup::at(PathBuf::from(path), kind == "own")),
            _ => return Err(io::Error::other(format!("{line:?} is no group"))),
        }
    }
    io::stdout().write_all(READY.as_bytes())?;
    sys::close_output();
    drop(input);
    let stdin = io::stdin();
    let (mut is_finished, mut silent) = (false, 0);
    loop {
        let mut words = Vec::new();
        match sys::read_some(stdin.as_fd(), PULSE, &mut words) {
            Ok(Some(0)) | Err(_) => break,
            Ok(Some(_)) => {
                silent = 0;
                is_finished |= words.ends_with(FINISHED);
            }
            Ok(None) if silent < WAITS => silent += 1,
            Ok(None) => groups.iter().for_each(Cgroup::thaw),
        }
    }
    // Nothing waits for the removal of another group.
    groups.iter().for_each(Cgroup::thaw);
    while !is_finished && sys::parent() == regulator {
        std::thread::sleep(THAWS);
        groups.iter().for_each(Cgroup::thaw);
    }
    groups.iter().for_each(Cgroup::leave);
    Ok(())
}

const PRIORITY: i32 = 99;
