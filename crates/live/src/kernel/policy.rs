//! A policy of the program's own: the file `task` in debugfs, which speaks of the process that reads or writes it.

use super::{KernelOptions, counters};
use crate::RunError;
use crate::sys::{self, Pid};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The kernel takes at most this many bytes of text.
const TEXT_MAX: usize = 511;
/// The file is shorter than this.
const READ_MAX: usize = 4096;

/// Writes the policy in the kernel's words.
pub(super) fn text(asked: &KernelOptions, strict: bool) -> Result<String, RunError> {
    let mode = if strict { "strict" } else { "soft" };
    let text = match (&asked.banks, &asked.sets) {
        (None, None) => format!("{mode} *"),
        (Some(banks), None) => format!("{mode} {banks}"),
        (banks, Some(sets)) => format!("{mode} {} {sets}", banks.as_deref().unwrap_or("*")),
    };
    if text.len() > TEXT_MAX { Err(RunError::ListTooLong { text, accepted: TEXT_MAX }) } else { Ok(text) }
}

/// Gives this process the policy, and what it will start.
pub(super) fn take(task: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(task)?.write_all(text.as_bytes())
}

/// Leaves a process behind that shares this one's policy. Its parent is this one's, so that the program, which this
/// process is about to become, has no child that it does not know.
pub(super) fn leave_keeper(task: &Path, socket: &OwnedFd) -> io::Result<()> {
    if sys::fork_sibling()? == 0 {
        // Nobody reads its words.
        let code = i32::from(keep(task, socket).is_err());
        std::process::exit(code);
    }
    Ok(())
}

/// Says what was counted, once at first and then for each question, until nobody asks any more.
///
/// The program may use up its colors, which are the keeper's as well: after the first answer, it has all the memory that
/// it needs for the next, and keeps it.
fn keep(task: &Path, socket: &OwnedFd) -> io::Result<()> {
    sys::die_with_parent();
    sys::leave_session();
    sys::close_all_but(socket);
    let task = File::open(task)?;
    let mut text = [0u8; READ_MAX];
    let mut question = [0u8; 1];
    for turn in 0.. {
        let length = task.read_at(&mut text, 0)?;
        sys::send_message(socket, &text[..length], None)?;
        if turn == 0 {
            // Without the right to it, the kernel may take that memory in between: most often it does not.
            let _ = sys::keep_memory();
        }
        if sys::receive_message(socket, &mut question, true)?.length == 0 {
            break;
        }
    }
    Ok(())
}

/// The keeper, as the front sees it.
pub(super) struct Keeper {
    socket: OwnedFd,
    process: Pid,
}

impl Keeper {
    /// Waits until it has spoken; `None` when the program has ended before.
    pub(super) fn hear(socket: OwnedFd) -> Option<Keeper> {
        let message = sys::receive_message(&socket, &mut [0; READ_MAX], true).ok()?;
        let process = message.sender.filter(|_| message.length > 0)?;
        Some(Keeper { socket, process })
    }

    /// Asks it what was counted, and ends it; with it goes the policy, if nobody else has it.
    pub(super) fn end(self) -> Option<BTreeMap<String, u64>> {
        let mut text = [0u8; READ_MAX];
        let asked = sys::send_message(&self.socket, b"?", None);
        let heard = asked.and_then(|()| sys::receive_message(&self.socket, &mut text, true));
        drop(self.socket);
        sys::wait_for_end(self.process);
        counters(&String::from_utf8_lossy(&text[..heard.ok()?.length]))
    }
}
