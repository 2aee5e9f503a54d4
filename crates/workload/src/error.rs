//! Why a source, a trace file or a program model is refused.

use std::path::PathBuf;
use std::sync::Arc;

/// Tells what is wrong, where, and what would be accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A file cannot be opened, read or written.
    #[error("{path:?}: cannot be {done}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as a participle.
        done: &'static str,
        /// What the operating system said.
        cause: std::io::Error,
    },
    /// A trace file is not one, is truncated or damaged.
    #[error("trace {origin:?}: byte {offset}: {problem}")]
    Damaged {
        /// The file.
        origin: String,
        /// Where in the file the damaged piece begins.
        offset: u64,
        /// What was found there, and what would be accepted.
        problem: String,
    },
    /// A line, or a record, of another tool's trace is not one.
    #[error("{origin:?}: {unit} {number}: {problem}")]
    Foreign {
        /// The file.
        origin: String,
        /// `line` or `record`.
        unit: &'static str,
        /// Which one, from 1.
        number: u64,
        /// What was found, and what would be accepted.
        problem: String,
    },
    /// A parameter of a source has a value that is not accepted.
    #[error("{source_name}: {field} is {found}; accepted is {accepted}")]
    Parameter {
        /// The kind of source, or the program model.
        source_name: String,
        /// The parameter.
        field: &'static str,
        /// The value found.
        found: String,
        /// What would be accepted.
        accepted: String,
    },
    /// A source that reads a file has ended before its time.
    #[error(transparent)]
    Ended(Arc<WorkloadError>),
}

impl WorkloadError {
    pub(crate) fn parameter(
        source_name: &str,
        field: &'static str,
        found: impl ToString,
        accepted: impl ToString,
    ) -> WorkloadError {
        WorkloadError::Parameter {
            source_name: source_name.to_owned(),
            field,
            found: found.to_string(),
            accepted: accepted.to_string(),
        }
    }
}
