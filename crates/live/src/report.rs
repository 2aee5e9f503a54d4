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
    /// Error number of the last such refusal, 0 = none.
    pub last_move_error: u64,
    /// Pages that forks made shared: the first to write one gets a frame of the kernel's choice.
    pub pages_shared_by_fork: u64,
    /// Private file mappings, of code or to be written, that were too large to be copied into color.
    pub file_mappings_not_copied: u64,
    /// Their bytes.
    pub file_bytes_not_copied: u64,
    /// Private pages in color at the end.
    pub pages_in_color_at_end: u64,
    /// Private pages out of color at the end.
    pub pages_out_of_color_at_end: u64,
    /// Why pages are out of color, as far as is known: `pool dry`, `copy-on-write after fork`,
    /// `large private file mapping`, `moved by the kernel`.
    pub causes: Vec<String>,
    /// Nanoseconds spent building the pool.
    pub pool_build_ns: u64,
}

/// Causes of pages out of color, in words.
pub(crate) fn causes(counters: &Counters, shared_by_fork: u64, not_copied: u64, out_of_color: u64) -> Vec<String> {
    if out_of_color == 0 && counters.pages_out_of_color == 0 {
        return Vec::new();
    }
    let mut causes = Vec::new();
    if counters.pages_out_of_color > 0 {
        causes.push("pool dry".to_owned());
    }
    if shared_by_fork > 0 {
        causes.push("copy-on-write after fork".to_owned());
    }
    if not_copied > 0 {
        causes.push("large private file mapping".to_owned());
    }
    if counters.register_refused > 0 || counters.move_refused > 0 {
        causes.push("not watched: the kernel refused".to_owned());
    }
    if causes.is_empty() {
        causes.push("moved by the kernel".to_owned());
    }
    causes
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
