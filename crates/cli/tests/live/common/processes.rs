//! The processes of a run: everything below this one.

use std::time::{Duration, Instant};

/// A process below this one.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// As in `/proc/PID/stat`: `Z` = dead, `t` = stopped by a tracer.
    pub(crate) state: char,
    pub(crate) name: String,
}

impl Process {
    fn read(pid: u32) -> Option<Process> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        Some(Process { pid, parent: fields.next()?.parse().ok()?, state, name: name.to_owned() })
    }

    /// Front, supervisor, broker and helpers.
    pub(crate) fn is_memtint(&self) -> bool {
        self.name.starts_with("memtint")
    }
}

/// Every process below one, dead ones too.
fn below(ancestor: u32) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<Process> = pids.filter_map(Process::read).collect();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// Every process below one that has not ended.
pub(crate) fn alive_below(ancestor: u32) -> Vec<Process> {
    below(ancestor).into_iter().filter(|process| !matches!(process.state, 'Z' | 'X')).collect()
}

/// Every process below this one that has not ended.
pub(crate) fn alive() -> Vec<Process> {
    alive_below(std::process::id())
}

pub(crate) fn is_alive(pid: u32) -> bool {
    Process::read(pid).is_some_and(|process| !matches!(process.state, 'Z' | 'X'))
}

/// Waits until something holds; false when it does not in time.
pub(crate) fn within(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Kills everything below this process, however often it multiplies.
pub(crate) fn kill_descendants() {
    let nothing_left = || {
        let left = alive();
        // SAFETY: takes numbers; these processes are below this one, so their ids are not anybody else's.
        left.iter().for_each(|process| unsafe {
            libc::kill(process.pid as i32, libc::SIGKILL);
        });
        left.is_empty()
    };
    within(Duration::from_secs(600), nothing_left);
}

/// Kills everything below this process and forgets the dead.
pub(crate) fn end_descendants() {
    kill_descendants();
    // SAFETY: takes numbers and a null pointer; no `Child` is waited for any more.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) } > 0 {}
}
