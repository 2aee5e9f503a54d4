//! The simulated machine: `[simulation]` and its tables.

mod machine;
mod regulation;
mod table;
mod timetable;

pub use machine::{
    AllocatorName, CacheSection, CacheSize, ControllerSection, CoreSection, Inclusion, LastLevelSize, NumaSection,
    PageName, Replacement, SchedulerName, SchedulingName, SystemSection,
};
pub use regulation::{BandwidthSection, Counted, PredictorName, SharingName};
pub use table::{SlotSection, TableSection};
pub use timetable::{TimetableSection, WindowSection};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{Text, Time};

/// A simulation: machine, duration, seed, and what is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulationEntry {
    /// DRAM standard with its speed: a name of the catalogue (memtint dram list), or a file relative to this one.
    pub device: Text,
    /// Density of a device in gibibits; default: the standard's.
    pub density_gbit: Option<u32>,
    /// Width of a device in bits; default: the standard's.
    pub device_bits: Option<u32>,
    /// Longest simulated time, such as "20 ms". A simulation ends earlier when each task has executed all its references.
    pub duration: Time,
    /// Seed of everything random; default 1. The option --seed comes before it.
    pub seed: Option<u64>,
    /// Whether each task is also simulated alone, for slowdowns; default false.
    pub alone: Option<bool>,
    /// The cores, such as { count = 4, mhz = 3000 }.
    pub cores: CoreSection,
    /// The caches; default: the platform's, with their usual latencies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub caches: CacheSection,
    /// The memory controllers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub controller: ControllerSection,
    /// The interconnect between nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub numa: NumaSection,
    /// The operating system.
    #[serde(default, skip_serializing_if = "is_default")]
    pub system: SystemSection,
    /// When ranks are refreshed, with `refresh = "timetable"` of the controller; default: by `[memory]` and the colors.
    pub timetable: Option<TimetableSection>,
    /// How bandwidth budgets are kept.
    pub bandwidth: Option<BandwidthSection>,
    /// Slots of tasks, with `scheduling = "table"` of the operating system.
    pub table: Option<TableSection>,
}

fn is_default<T: Default + PartialEq>(section: &T) -> bool {
    *section == T::default()
}
