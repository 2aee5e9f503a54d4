//! Why a system file is refused.

use std::error::Error;
use std::path::PathBuf;

use memtint_map::{PaletteError, PlatformError, SelectionError};

/// Everything that can be wrong with a system file. Each message names the file, the place in it, the field, its value and the
/// accepted values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {cause}")]
    Read {
        /// The file.
        file: String,
        /// The system's answer.
        #[source]
        cause: std::io::Error,
    },
    /// The text is not TOML.
    #[error("{file}: line {line}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The syntax expected there.
        message: String,
    },
    /// A table has a key that the format does not have.
    #[error("{place}: {field:?} is no field{}; accepted are {accepted}", nearest.as_ref().map_or(String::new(), |near| format!("; the nearest is {near:?}")))]
    UnknownField {
        /// The file, and the table in it.
        place: String,
        /// The key.
        field: String,
        /// The accepted key that is most like it, if one is.
        nearest: Option<String>,
        /// All accepted keys.
        accepted: String,
    },
    /// A field is given twice.
    #[error("{place}: {field} is given twice; accepted is once")]
    Twice {
        /// Where.
        place: String,
        /// The field.
        field: String,
    },
    /// Required fields are absent: all of one table at once.
    #[error("{place}: missing: {fields}")]
    Missing {
        /// The file, and the table in it.
        place: String,
        /// Each field with the values that it accepts.
        fields: String,
    },
    /// A field holds a value that is not accepted.
    #[error("{place}: {field} is {found}; accepted is {accepted}")]
    Value {
        /// The file, and the table in it.
        place: String,
        /// The field.
        field: String,
        /// Its value.
        found: String,
        /// The values accepted.
        accepted: String,
    },
    /// A text is not of the form of its field.
    #[error("{place}: {field}: {message}")]
    Form {
        /// The file, and the table in it.
        place: String,
        /// The field.
        field: String,
        /// The text, its defect, and the values accepted.
        message: String,
    },
    /// Values are out of range, or contradict each other, by the rules of the crate that uses them.
    #[error("{place}: {cause}")]
    Range {
        /// The file, and the table in it.
        place: String,
        /// The rule that is broken.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The platform does not exist or is wrong.
    #[error("{file}: platform: {cause}")]
    Platform {
        /// The system file.
        file: String,
        /// The defect of the platform.
        #[source]
        cause: Box<PlatformError>,
    },
    /// The platform has no palette at this granule.
    #[error("{file}: granule: {cause}")]
    Palette {
        /// The system file.
        file: String,
        /// Why not.
        #[source]
        cause: Box<PaletteError>,
    },
    /// A task asks for colors that the platform does not have.
    #[error("{file}: task {task:?}: {cause}")]
    Selection {
        /// The system file.
        file: String,
        /// The task's name.
        task: String,
        /// Which color, and which exist.
        #[source]
        cause: Box<SelectionError>,
    },
    /// Two tasks get the same colors, and not both of them allow it.
    #[error(
        "{file}: tasks {first:?} and {second:?} both get {colors}; give them different ones, or write shared = true \
         in both if that is meant"
    )]
    Overlap {
        /// The system file.
        file: String,
        /// A task.
        first: String,
        /// A later task.
        second: String,
        /// The colors of both, for instance "bank classes 2-3".
        colors: String,
    },
    /// No task has this name.
    #[error("{file}: has no task {name:?}, its tasks are {known}")]
    NoSuchTask {
        /// The system file.
        file: String,
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A verb does not consider fields that it must not ignore.
    #[error(
        "{path:?}: {verb} does not consider {fields}, without which its answer could be yes where it is no; accepted is a system file \
         without{}",
        if *.or_regulator {
            ", or with [regulator] of the same period and kind and no more lines (of 64 bytes) than task.bandwidth"
        } else {
            ""
        }
    )]
    Decisive {
        /// The file.
        path: PathBuf,
        /// The verb.
        verb: &'static str,
        /// The fields.
        fields: String,
        /// Whether a `[regulator]` would do.
        or_regulator: bool,
    },
}
