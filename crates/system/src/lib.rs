//! System files: the tasks of a machine, once, for every verb.
//!
//! `analyze`, `refresh`, `run`, `inspect`, `guard` and `sim` read the same file. [`SystemFile`] is the file as written,
//! with values of valid form. A consumer turns it into its own input and checks what it needs: [`Assignment`] is that
//! of the verbs that color memory; crate `analysis` makes that of the analyses. [`left_out`] names the fields of a file
//! that a verb does not consider.
//!
//! This crate enforces nothing and answers no questions; only `load` opens a file.
//!
//! ```
//! use memtint_system::{Assignment, SystemFile, Verb, left_out};
//!
//! let text = r#"
//!     platform = "nehalem-w3530"      # a catalogue name, or a platform file relative to this one
//!     granule = "4K"
//!
//!     [[task]]
//!     name = "control"
//!     command = ["./control", "--rate", "50"]
//!     period = "20 ms"                # times carry their unit
//!     wcet = "4.5 ms"
//!     banks = "0-3"                   # bank classes; sets = "..." for set colors, node = "..." for NUMA nodes
//!     cores = "2"
//!     mode = "strict"                 # or "soft"
//!
//!     [[task]]
//!     name = "logging"
//!     banks = "4-7"
//! "#;
//! let assignment = Assignment::parse(text, "example.toml")?;
//! assert_eq!(assignment.task("control")?.selection().banks.as_ref().map(|banks| banks.len()), Some(4));
//! let file = SystemFile::parse(text, "example.toml")?;
//! assert_eq!(left_out(&file, Verb::Run), ["task.period", "task.wcet"]);
//! # Ok::<(), memtint_system::SystemError>(())
//! ```
#![forbid(unsafe_code)]

mod assignment;
mod considered;
mod delays;
mod error;
mod file;
mod place;
mod quantity;
mod read;
mod reading;
mod select;
mod servers;
mod simulation;
mod texts;
mod workload;

pub use assignment::{AssignedTask, Assignment, colors_in_common};
pub use considered::{Use, Verb, decisive, fields, left_out, used};
pub use delays::{
    AtOnce, BanksEntry, OtherCoreEntry, ParallelBanksEntry, RefreshEntry, RefreshMode, RegulatorEntry,
    SharedBanksEntry, SharingMode,
};
pub use error::SystemError;
pub use file::{
    BandwidthEntry, BarrierEntry, BudgetKind, GroupEntry, LateJobs, Mode, SYSTEM_SCHEMA, SystemFile, TaskEntry,
};
pub use place::Place;
pub use quantity::{Count, Ranks, TIME, Text, Time};
pub use reading::{CheckReport, Reading, refused_because_of};
pub use select::select;
pub use servers::{
    BurstOrder, ColorEntry, ColorSharing, CyclicEntry, JobSlicing, MemoryEntry, ServerEntry, ServerKind, ServerPolicy,
};

pub use simulation::{
    AllocatorName, BandwidthSection, CacheSection, CacheSize, ControllerSection, CoreSection, Counted, Inclusion,
    LastLevelSize, NumaSection, PageName, PredictorName, Replacement, SchedulerName, SchedulingName, SharingName,
    SimulationEntry, SlotSection, SystemSection, TableSection, TimetableSection, WindowSection,
};
pub use workload::{WorkloadEntry, WorkloadKind};

/// The JSON Schema of a system file, from the documentation of its fields.
#[must_use]
pub fn json_schema() -> schemars::Schema {
    schemars::schema_for!(SystemFile)
}
