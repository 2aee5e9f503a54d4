//! DRAM channels, command by command.
//!
//! What it is for: a channel with its devices, its controller and its refresh, right to the clock cycle.
//!
//! What it deliberately does not do: it has no cores, caches or page tables. Time inside a channel is counted in cycles
//! of the channel's clock; only the caller turns them into [picoseconds](memtint_units::Picoseconds).
#![forbid(unsafe_code)]

mod check;
mod command;
mod controller;
mod decode;
mod energy;
mod error;
mod index;
pub mod reference;
mod refresh;
mod refresh_plan;
pub mod replay;
mod report;
mod retention;
mod standard;
mod timetable;
mod timing;
mod watch;
mod worst_case;

pub use check::{CheckOptions, Checker, CommandReader, Constraint, RefreshCheck, RefreshPace, Violation};
pub use command::{Command, Kind};
pub use controller::{
    BankCounts, CommandSink, Completion, Controller, ControllerConfig, Offer, PagePolicy, QueueSharing, RankCounts,
    RefreshMet, Request, RowOutcome, Scheduler, Step,
};
pub use decode::{Decoder, Place};
pub use energy::{Energy, EnergyCounts, EnergyMeter};
pub use error::DramError;
pub use index::{BankInRank, BankIndex, Cycle, RankIndex, RowIndex};
pub use refresh::{NEVER, Refresh, RefreshEngine, RefreshKind, Scope, Traffic};
pub use refresh_plan::RefreshPlan;
pub use report::{DeviceReport, StandardsReport};
pub use retention::{Retention, RetentionLoss, RetentionMonitor};
pub use standard::{BankRefresh, Currents, Device, DeviceChoice, FineRefresh, RefreshTimes, Standard};
pub use timetable::{RankTimetable, RefreshWindow, Timetable};
pub use timing::{Geometry, Timing};
pub use watch::{CommandWatch, PostponedReport, Rules, ViolationReport, Violations};
pub use worst_case::{RefreshShare, WorstCase, cycles_of_slides};
