//! A private policy of the program: the file `task` in debugfs, which always concerns the process that reads or writes
//! it.

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

/// Gives the policy to this process and its future children.
pub(super) fn take(task: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(task)?.write_all(text.as_bytes())
}

/// Leaves a process behind that shares this one's policy. It becomes a sibling of this process, so that the program,
/// which this process is about to become, has no unexpected child.
pub(super) fn leave_keeper(task: &Path, socket: &OwnedFd) -> io::Result<()> {
    if sys::fork_sibling()? == 0 {
        // No process reads its error messages.
        let code = i32::from(keep(task, socket).is_err());
        std::process::exit(code);
    }
    Ok(())
}

/// Sends the counters, once at first and then for each request, until the front closes the socket.
///
/// The program may use up its colors, which are the keeper's as well. After the first answer, the keeper has all the memory it needs for
/// the next, and locks it.
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
            // Without permission to lock memory, the kernel may reclaim it in between, which is rare.
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
    /// Waits for its first answer; `None` if the program ended before.
    pub(super) fn hear(socket: OwnedFd) -> Option<Keeper> {
        let message = sys::receive_message(&socket, &mut [0; READ_MAX], true).ok()?;
        let process = message.sender.filter(|_| message.length > 0)?;
        Some(Keeper { socket, process })
    }

    /// Requests the counters, and ends the keeper; the policy ends with its last holder.
    pub(super) fn end(self) -> Option<BTreeMap<String, u64>> {
        let mut text = [0u8; READ_MAX];
        let asked = sys::send_message(&self.socket, b"?", None);
        let heard = asked.and_then(|()| sys::receive_message(&self.socket, &mut text, true));
        drop(self.socket);
        sys::wait_for_end(self.process);
        counters(&String::from_utf8_lossy(&text[..heard.ok()?.length]))
    }
}
