//! Errors of scenarios.

use memtint_cache::CacheError;
use memtint_dram::DramError;
use memtint_frames::FrameError;
use memtint_guard::GuardError;
use memtint_map::{PaletteError, PlatformError};
use memtint_workload::WorkloadError;

/// Reasons why a scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The value of a field is invalid.
    #[error("{origin:?}: {field} is {found}; accepted is {accepted}")]
    Field {
        /// Name of the file.
        origin: String,
        /// The field, with its task.
        field: String,
        /// Value found.
        found: String,
        /// Value accepted.
        accepted: String,
    },
    /// A system file is refused.
    #[error(transparent)]
    System(#[from] memtint_system::SystemError),
    /// The platform is refused.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The platform has no colors at this granule.
    #[error(transparent)]
    Palette(#[from] PaletteError),
    /// Device or controller are refused.
    #[error(transparent)]
    Dram(#[from] DramError),
    /// The caches are refused.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The allocator refuses the memory.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// The allocator refuses the memory policy of a task.
    #[error("task {task}: {reason}")]
    Policy {
        /// Its place in the list of tasks.
        task: usize,
        /// The allocator's words.
        reason: FrameError,
    },
    /// An allocator refuses the memory, or the memory policy of a task.
    #[error("{origin:?}: {field} is {allocator}; {reason}")]
    Allocator {
        /// Name of the file.
        origin: String,
        /// Where the allocator is named: in the task, or for the machine.
        field: String,
        /// The allocator.
        allocator: &'static str,
        /// Its words.
        reason: Box<FrameError>,
    },
    /// Budgets of bandwidth are refused.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// A workload is refused.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}
