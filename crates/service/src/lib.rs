//! The regulator as a service: the budgets of a system file, and reports for people, programs and monitoring.
//!
//! [`Budgets`] are those of a system file's tasks. [`Watch`] reports on a running [`Regulator`](memtint_regulator::Regulator) until it
//! ends, line by line, and writes its [`Status`]. A [`Member`], a program that runs in one of the groups, reads that status. An
//! [`Exporter`] serves it as OpenMetrics over HTTP, from an unprivileged process. [`DryRun`] lists the writes of a regulator.
//!
//! What it deliberately does not do: regulate; that is `memtint_regulator`.
#![cfg(target_os = "linux")]

mod amount;
mod budgets;
mod error;
mod member;
mod metrics;
mod report;
mod status;
mod watch;

pub use amount::{AmountError, events_of};
pub use budgets::{Budgets, BudgetsError, BudgetsFault, PERIOD, usual_quantum};
pub use error::ServiceError;
pub use member::{Member, MemberError, Regulation, RegulationSums, RegulationVerdict};
pub use metrics::{Address, Exporter, serve_metrics};
pub use report::{DryRun, GroupReport, Regulated, Row, SensorReport};
pub use status::{Status, Verdict};
pub use watch::{Line, Problem, TrafficRow, Watch, Watcher, WorkRow};
