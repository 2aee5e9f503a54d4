//! Delays of a core besides its tasks: refresh by the controller, its own budget, and the requests of other cores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::TaskEntry;
use crate::quantity::{Count, Time};

/// Requests that are under way at once.
pub type AtOnce = Count<1, { u32::MAX as u64 }>;

/// Refresh by the memory controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefreshEntry {
    /// How the controller refreshes. Required.
    pub mode: Option<RefreshMode>,
    /// Time between two refresh commands (tREFI). Required.
    pub interval: Option<Time>,
    /// Time of a refresh command (tRFC). Required.
    pub duration: Option<Time>,
    /// Time to open a row again (tRP + tRCD). Required.
    pub reopen: Option<Time>,
    /// Refresh commands that the controller may move; default 0.
    pub moved: Option<Count<0>>,
}

/// How the controller refreshes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RefreshMode {
    /// One command each interval.
    Auto,
    /// Fine granularity: twice as often, shorter.
    Fgr2,
    /// Fine granularity: four times as often, shorter.
    Fgr4,
    /// All commands at once.
    Burst,
}

/// A bandwidth budget, in cache lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegulatorEntry {
    /// Length of a period, P. Required.
    pub period: Option<Time>,
    /// Budget of a period that the core has for itself, B. Required.
    pub lines: Option<Count<1>>,
    /// Shortest time from one line to the next; default 0.
    pub line_min: Option<Time>,
    /// Most lines of a grant, q; default 0: one grant that ends with the period.
    pub quantum: Option<Count<0>>,
    /// Most lines beyond a grant until the core stands still, s; default 0.
    pub skid_events: Option<Count<0>>,
    /// Time that an interrupt takes of the core; default 0.
    pub overhead: Option<Time>,
    /// Whether unused budget is donated; default hard.
    pub kind: Option<crate::BudgetKind>,
    /// What happens when all cores have used their budgets; default off.
    pub sharing: Option<SharingMode>,
    /// Lines that the memory serves in every period: B + q + s of all cores must be within it.
    pub guaranteed: Option<Count<1>>,
}

/// What happens when all cores have used their budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SharingMode {
    /// They wait for the end of the period.
    Off,
    /// All run.
    Spare,
}

/// Other cores, with one request at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BanksEntry {
    /// Longest delay by one request of another core. Required.
    pub request_delay: Option<Time>,
    /// Whether the analyzed core has banks for itself. Required.
    pub private_banks: Option<bool>,
    /// Requests that another core may have under way at once. Required.
    pub requests_at_once_max: Option<AtOnce>,
    /// The other cores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core: Vec<OtherCoreEntry>,
}

/// Other cores, some of which use the same banks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedBanksEntry {
    /// Longest delay by one request to another bank. Required.
    pub request_delay: Option<Time>,
    /// Longest delay by a row hit in the same bank. Required.
    pub hit: Option<Time>,
    /// Longest delay by a row conflict in the same bank. Required.
    pub conflict: Option<Time>,
    /// Row hits that overtake each request at most.
    pub overtaking_each_request: Option<Count<0>>,
    /// Row hits that overtake while a row is open at most. At most one of the two.
    pub overtaking_each_row: Option<Count<0>>,
    /// Requests that another core may have under way at once. Required.
    pub requests_at_once_max: Option<AtOnce>,
    /// Cores that use the same banks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharer: Vec<OtherCoreEntry>,
    /// Cores that use other banks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core: Vec<OtherCoreEntry>,
}

/// Other cores, with several requests at a time and writes in batches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelBanksEntry {
    /// Longest delay by one read of another core. Required.
    pub read_delay: Option<Time>,
    /// Longest delay by one write of another core. Required.
    pub write_delay: Option<Time>,
    /// Time to turn the bus around. Required.
    pub turn: Option<Time>,
    /// Entries of the write queue. Required.
    pub write_entries: Option<Count<1>>,
    /// Waiting writes at which a batch begins. Required.
    pub drain_at: Option<Count<1>>,
    /// Waiting writes at which a batch ends. Required.
    pub drain_to: Option<Count<0>>,
    /// Requests that the analyzed core may have under way at once. Required.
    pub requests_at_once_max: Option<AtOnce>,
    /// Whether the analyzed core has banks for itself. Required.
    pub private_banks: Option<bool>,
    /// Whether caches write dirty lines back. Required.
    pub write_back: Option<bool>,
    /// The other cores, each with its own `requests_at_once_max`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core: Vec<OtherCoreEntry>,
}

/// Another core: unbounded requests where it has neither tasks nor a budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherCoreEntry {
    /// Its tasks.
    #[serde(default, rename = "task", skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskEntry>,
    /// Its bandwidth budget.
    pub regulator: Option<RegulatorEntry>,
    /// Requests that it may have under way at once; of `parallel_banks` only, where it is required.
    pub requests_at_once_max: Option<AtOnce>,
}
