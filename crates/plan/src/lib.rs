//! Plan files: which task gets which colors of which machine.
//!
//! A plan file is TOML. [`PlanFile`] is what was written, [`Plan`] what it means on its platform; only the second is
//! trusted by those who enforce it. This crate does not invent plans and enforces nothing.
//!
//! ```
//! let text = r#"
//!     schema = 1
//!     platform = "nehalem-w3530"      # a catalogue name, or a file relative to the plan
//!     granule = "4K"
//!
//!     [[task]]
//!     name = "control"
//!     banks = "0-3"                   # bank classes; sets = "..." for set colors, node = "..." for NUMA nodes
//!     cores = "2"
//!     mode = "strict"                 # or "soft"
//!
//!     [[task]]
//!     name = "logging"
//!     banks = "4-7"
//! "#;
//! let plan = memtint_plan::Plan::parse(text, "example.toml")?;
//! assert_eq!(plan.task("control")?.selection().banks.as_ref().map(|banks| banks.len()), Some(4));
//! # Ok::<(), memtint_plan::PlanError>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod file;
mod plan;
mod select;

pub use error::PlanError;
pub use file::{BandwidthEntry, BudgetKind, Mode, PLAN_SCHEMA, PlanFile, TaskEntry};
pub use plan::{Plan, Task, colors_in_common};
pub use select::select;
