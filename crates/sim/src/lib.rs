//! The machine put together: cores, caches, interconnect, controllers and DRAM, page tables, allocators and tasks.
//!
//! The simulator shows the effect of a plan on the tasks that share a memory, before the machine exists or without
//! touching it.
//!
//! It deliberately interprets no instructions. Tasks are [sources of references](memtint_workload::Source). Translation
//! caches and branch prediction cost nothing, page-table walks cause no traffic, and a cache's tags change at the time
//! of an access, not when the line arrives.
#![forbid(unsafe_code)]

mod commands;
mod core;
mod division;
mod error;
mod histogram;
mod machine;
mod memory;
mod page_table;
mod refresh;
pub mod report;
mod runs;
pub mod scenario;
mod simulate;
mod task;

pub use crate::core::{CoreConfig, CoreModel};
pub use commands::{ChannelCommands, SystemReport, simulate_commands};
pub use division::{DivisionReport, TaskDivision, simulate_division};
pub use error::SimError;
pub use histogram::Histogram;
pub use machine::{
    CounterConfig, Machine, MachineConfig, MeterCounts, Outcome, PeriodUse, RegulationConfig, RegulationCounts,
    Scheduling, ServerConfig, ServerCounts, ServerKind, ServerScheduling, Slot, Subject, SubjectCounts, Table,
    TableCounts, TaskConfig,
};
pub use memory::NumaConfig;
pub use refresh::{LockCounts, LockWindow, SoftRefresh};
pub use report::Report;
pub use runs::{Ran, Run, Runs};
pub use scenario::{Channels, Scenario};
pub use simulate::{Watch, simulate, simulate_watched};
pub use task::{Barrier, Ending, Release, TaskCounts};
