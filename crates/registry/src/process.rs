//! Processes, for certain.

use std::fs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process, for certain: numbers are given anew, start times with them are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// In clock ticks since the machine was started.
    pub start: u64,
}

impl ProcessId {
    /// Gives a process by its number; `None` when there is no such process, or it has ended.
    pub fn of(pid: u32) -> Option<ProcessId> {
        process_start(pid).map(|start| ProcessId { pid, start })
    }

    /// Tells whether it has not ended.
    pub fn is_alive(self) -> bool {
        ProcessId::of(self.pid) == Some(self)
    }
}

/// When a process was started, in clock ticks since the machine was; `None` if it has ended. See proc_pid_stat(5).
fn process_start(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name before the last bracket may itself hold blanks and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(start)
}
