//! Why a task set cannot be simulated.

use memtint_dram::DramError;
use memtint_hiding::HidingError;
use memtint_map::PlatformError;
use memtint_sched::SchedError;
use memtint_sim::SimError;
use memtint_system::SystemError;
use memtint_workload::WorkloadError;

/// Reasons why a task set cannot be simulated.
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
    /// The task set is incomplete or inconsistent.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A value of the task set, or its absence, is incompatible with the request.
    #[error("{file}: {field} is {found}; accepted is {accepted}")]
    Field {
        /// The file.
        file: String,
        /// The table and the field.
        field: String,
        /// The value found.
        found: String,
        /// The values accepted.
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
    /// The caller has cancelled the simulation.
    #[error("stopped before the end of the simulation")]
    Stopped,
}
