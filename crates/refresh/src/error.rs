//! Why a task set cannot be simulated.

use memtint_dram::DramError;
use memtint_hiding::HidingError;
use memtint_map::PlatformError;
use memtint_sched::SchedError;
use memtint_sim::SimError;
use memtint_system::SystemError;
use memtint_workload::WorkloadError;

/// Tells why a task set cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// The simulator refuses something.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The device does not exist.
    #[error(transparent)]
    Dram(#[from] DramError),
    /// The platform does not exist.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// A program does not exist.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The analysis refuses something.
    #[error(transparent)]
    Sched(#[from] SchedError),
    /// The analysis of hidden refresh refuses something.
    #[error(transparent)]
    Hiding(#[from] HidingError),
    /// Something of the task set is missing, or does not go together.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A value of the task set, or its absence, does not go with what was asked for.
    #[error("{file}: {field} is {found}; accepted is {accepted}")]
    Field {
        /// The file.
        file: String,
        /// The table and the field.
        field: String,
        /// What it holds.
        found: String,
        /// What it could hold.
        accepted: String,
    },
    /// A scheme needs a schedule, and there is none.
    #[error("{file}: there is no schedule for {scheme}: {reason}")]
    NoSchedule {
        /// The file.
        file: String,
        /// The scheme.
        scheme: &'static str,
        /// Why.
        reason: String,
    },
    /// Somebody does not want to wait for the end.
    #[error("stopped before the end of the simulation")]
    Stopped,
}
