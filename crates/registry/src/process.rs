//! Unambiguous process ids.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An unambiguous process id: process numbers are reused, but not together with a start time.
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
        memtint_regulator::process_start(pid).map(|start| ProcessId { pid, start })
    }

    /// Returns whether the process has not ended.
    pub fn is_alive(self) -> bool {
        ProcessId::of(self.pid) == Some(self)
    }
}
