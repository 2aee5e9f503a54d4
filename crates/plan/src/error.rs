//! Why a plan file is refused.

use memtint_map::{PaletteError, PlatformError, SelectionError};

/// Everything that can be wrong with a plan file. Each message names the file, the field, what was found and what would
/// have been accepted.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file could not be read.
    #[error("plan {file:?}: cannot be read: {cause}")]
    Read {
        /// The path.
        file: String,
        /// The system's answer.
        #[source]
        cause: std::io::Error,
    },
    /// Not TOML, a key that does not exist, a value of the wrong type.
    #[error("plan {file:?}: {message}")]
    Syntax {
        /// The path.
        file: String,
        /// Line, found and accepted, on one line.
        message: String,
    },
    /// A field whose value is not accepted.
    #[error("plan {file:?}: {field}: found {found}, accepted is {accepted}")]
    Field {
        /// The path.
        file: String,
        /// Which field of which task.
        field: String,
        /// Its value.
        found: String,
        /// What would have been accepted.
        accepted: String,
    },
    /// The platform does not exist or is wrong.
    #[error("plan {file:?}: platform: {cause}")]
    Platform {
        /// The path of the plan.
        file: String,
        /// What is wrong with the platform.
        #[source]
        cause: Box<PlatformError>,
    },
    /// The platform has no palette at this granule.
    #[error("plan {file:?}: granule: {cause}")]
    Palette {
        /// The path.
        file: String,
        /// Why not.
        #[source]
        cause: Box<PaletteError>,
    },
    /// A task asks for colors that the platform does not have.
    #[error("plan {file:?}: task {task:?}: {cause}")]
    Selection {
        /// The path.
        file: String,
        /// The task's name.
        task: String,
        /// Which color, and which there are.
        #[source]
        cause: Box<SelectionError>,
    },
    /// Two tasks get the same colors and do not both say that they mean it.
    #[error(
        "plan {file:?}: tasks {first:?} and {second:?} both get {colors}; give them different ones, or write shared = true \
         in both if that is meant"
    )]
    Overlap {
        /// The path.
        file: String,
        /// A task.
        first: String,
        /// A later task.
        second: String,
        /// What both get, for instance "bank classes 2-3".
        colors: String,
    },
    /// No task has this name.
    #[error("plan {file:?}: has no task {name:?}, its tasks are {known}")]
    NoSuchTask {
        /// The path.
        file: String,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}
