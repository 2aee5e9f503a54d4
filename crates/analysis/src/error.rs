//! Why a question cannot be answered.

use memtint_hiding::HidingError;
use memtint_sched::SchedError;
use memtint_system::SystemError;

/// Reasons why a question cannot be answered: data that the file lacks or has, or a defect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// The file is incomplete or inconsistent.
    #[error(transparent)]
    System(#[from] SystemError),
    /// Tasks are refused.
    #[error(transparent)]
    Tasks(#[from] SchedError),
    /// The controller refreshes the memory of the file, and the question does not specify how.
    #[error(
        "{file}: [memory] has refresh, and the question has derived none of it; accepted is refresh that is derived, or [refresh]"
    )]
    NoRefresh {
        /// The file.
        file: String,
    },
    /// Tasks of other cores would be omitted, which could turn a yes into a no.
    #[error(
        "{file}: tasks of other cores ({others}) delay {own} by their requests, and {reason}; accepted is [banks] or [shared_banks] that \
         lists no core, with period, wcet and lines of each of these tasks; [banks], [shared_banks] or [parallel_banks] with each of \
         these cores; or --ignore other-cores where WCETs include that delay"
    )]
    OtherCores {
        /// The file.
        file: String,
        /// Tasks of other cores.
        others: String,
        /// Tasks of the core.
        own: String,
        /// Why the others are not entered.
        reason: String,
    },
    /// Memory, frames or servers are refused, or a checker refuses a result that the analysis accepts.
    #[error(transparent)]
    Hiding(#[from] HidingError),
}
