//! Errors of figure files.

use memtint_frames::FrameError;
use memtint_hiding::HidingError;
use memtint_map::{PaletteError, PlatformError};
use memtint_sim::SimError;
use memtint_system::SystemError;

/// Reasons why a figure cannot be regenerated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// There is no such figure.
    #[error("figure {id:?} is not known; nearest: {nearest}")]
    Unknown {
        /// The requested id.
        id: String,
        /// Similar ids.
        nearest: String,
    },
    /// The file is no TOML, or has an unknown field.
    #[error("figure {id:?}: {reason}")]
    Syntax {
        /// The file.
        id: String,
        /// The place and the defect.
        reason: String,
    },
    /// The value of a field is invalid.
    #[error("figure {id:?}: {field} is {found}; accepted is {accepted}")]
    Field {
        /// The file.
        id: String,
        /// The field.
        field: String,
        /// Value found.
        found: String,
        /// Value accepted.
        accepted: String,
    },
    /// A scenario is refused, or its simulation failed.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A task set is refused.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A task set cannot be analysed.
    #[error("analysis {analysis:?}: {error}")]
    Analysis {
        /// The figure and the analysis.
        analysis: String,
        /// Why.
        error: HidingError,
    },
    /// A platform is refused.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// A platform has no colors.
    #[error(transparent)]
    Palette(#[from] PaletteError),
    /// An allocator refuses.
    #[error(transparent)]
    Frames(#[from] FrameError),
}

/// Refuses a field of a file.
pub(crate) fn refuse(
    id: &str,
    field: impl Into<String>,
    found: impl ToString,
    accepted: impl ToString,
) -> ReproduceError {
    ReproduceError::Field {
        id: id.to_owned(),
        field: field.into(),
        found: found.to_string(),
        accepted: accepted.to_string(),
    }
}
