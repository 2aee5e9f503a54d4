//! Why a source, a trace file or a program model is refused.

use std::path::PathBuf;
use std::sync::Arc;

/// The defect, its place, and the accepted values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A file cannot be opened, read or written.
    #[error("{path:?}: cannot be {done}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation that failed, as a participle.
        done: &'static str,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// A trace file is not one, or is truncated or damaged.
    #[error("trace {origin:?}: byte {offset}: {problem}")]
    Damaged {
        /// The file.
        origin: String,
        /// Offset of the damaged part.
        offset: u64,
        /// What the part contains, and the accepted content.
        problem: String,
    },
    /// A line, or a record, of another tool's trace is malformed.
    #[error("{origin:?}: {unit} {number}: {problem}")]
    Foreign {
        /// The file.
        origin: String,
        /// `line` or `record`.
        unit: &'static str,
        /// Its number, from 1.
        number: u64,
        /// The value found, and the accepted values.
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
        /// The accepted values.
        accepted: String,
    },
    /// A source that reads a file has ended early.
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
