//! Why a source, a trace file or a program model is refused.

/// Tells what is wrong, where, and what would be accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
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
