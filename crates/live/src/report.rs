//! What a run reports about itself.

use crate::wire::Counters;
use serde::{Deserialize, Serialize};

/// One address space of the run: one program image from its start to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AddressSpaceReport {
    /// Process id it began with.
    pub pid: i32,
    /// Program file.
    pub program: String,
    /// How it began: `exec` or `fork`.
    pub began: String,
    /// Page faults served.
    pub faults: u64,
    /// Pages given in color (first touches, fills, copies).
    pub pages_in_color: u64,
    /// Pages the kernel chose because the pool was dry (soft mode).
    pub pages_out_of_color: u64,
    /// Pages refused because the pool was dry (strict mode).
    pub pages_refused: u64,
    /// Fresh pages looked at to build the pool.
    pub scanned_pages: u64,
    /// Pages kept of these.
    pub kept_pages: u64,
    /// Pages taken back from areas the program gave up.
    pub recycled_pages: u64,
    /// Pages that were there before the program got control and were put in color.
    pub recolored_pages: u64,
    /// Pages of text and data copied into color.
    pub copied_pages: u64,
    /// Mappings the kernel would not let memtint watch.
    pub register_refused: u64,
    /// Pages the kernel would not move.
    pub move_refused: u64,
    /// Pages shared with a forked child when it began: the first to write gets a frame of the kernel's choice.
    pub pages_shared_by_fork: u64,
    /// Nanoseconds spent building the pool.
    pub pool_build_ns: u64,
}

impl AddressSpaceReport {
    pub(crate) fn new(pid: i32, program: &str, began: &str, shared: u64, counters: &Counters) -> Self {
        AddressSpaceReport {
            pid,
            program: program.to_owned(),
            began: began.to_owned(),
            faults: counters.faults,
            pages_in_color: counters.pages_in_color,
            pages_out_of_color: counters.pages_out_of_color,
            pages_refused: counters.pages_refused,
            scanned_pages: counters.scanned_pages,
            kept_pages: counters.kept_pages,
            recycled_pages: counters.recycled_pages,
            recolored_pages: counters.recolored_pages,
            copied_pages: counters.copied_pages,
            register_refused: counters.register_refused,
            move_refused: counters.move_refused,
            pages_shared_by_fork: shared,
            pool_build_ns: counters.grow_ns,
        }
    }
}

/// A whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// Every address space that has ended, in order, and those alive when the program ended.
    pub address_spaces: Vec<AddressSpaceReport>,
    /// What could not be colored, in words.
    pub problems: Vec<String>,
    /// Processes of the run that outlive the program.
    pub still_running: usize,
}
