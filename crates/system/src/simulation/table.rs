//! Cyclic executives of a simulation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Time;

/// Slots in which tasks have a core, with `scheduling = "table"` of the operating system.
///
/// ```toml
/// [simulation.system]
/// scheduling = "table"
///
/// [simulation.table]
/// cycle = "320 ms"
/// slot = [
///     { task = "lms", start = "0 ms", length = "1.6 ms" },
///     { task = "st", start = "1.6 ms", length = "2 ms" },
/// ]
/// ```
///
/// A task runs in its slots only; a job that is incomplete at the end of a slot continues in the next one. With several
/// instances of a task (copy tasks), a job runs in the instance whose slot is the first after its release; an instance
/// that is late with the previous job takes this one as well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSection {
    /// Time after which all slots come again, more than 0.
    pub cycle: Time,
    /// Core of the slots that say nothing else; default 0.
    #[serde(default)]
    pub core: u32,
    /// The slots. Those of a core do not overlap; every task has one or more, all on one core.
    pub slot: Vec<SlotSection>,
}

/// A stretch of each cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotSection {
    /// Name of the task.
    pub task: String,
    /// When it begins, from the beginning of a cycle.
    pub start: Time,
    /// How long it is, more than 0; it ends within the cycle.
    pub length: Time,
    /// Core; default: that of the table.
    #[serde(default)]
    pub core: Option<u32>,
}

impl TableSection {
    /// The core of a slot.
    #[must_use]
    pub fn core_of(&self, slot: &SlotSection) -> u32 {
        slot.core.unwrap_or(self.core)
    }

    /// The cores of all slots, one for each slot.
    pub fn cores(&self) -> impl Iterator<Item = u32> + '_ {
        self.slot.iter().map(|slot| self.core_of(slot))
    }
}
