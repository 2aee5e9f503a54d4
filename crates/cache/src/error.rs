//! Reasons why a cache hierarchy is refused.

/// The reason why a hierarchy cannot be built. Every message names the field, the value found and the values accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// A platform file lacks a fact about its caches, or has one that is not modelled.
    #[error("platform {platform:?}: {field} is {found}; accepted is {accepted}")]
    Platform {
        /// The platform's id.
        platform: String,
        /// The field, as a path from the root of the file; list entries are counted from 0.
        field: String,
        /// The value found.
        found: String,
        /// The values accepted.
        accepted: String,
    },
    /// A field of a [`HierarchyConfig`](crate::HierarchyConfig) holds a value that is not accepted.
    #[error("cache configuration: {field} is {found}; accepted is {accepted}")]
    Config {
        /// The field, as a path from the root of the configuration.
        field: String,
        /// The value found.
        found: String,
        /// The values accepted.
        accepted: String,
    },
}

/// Refuses a field of the configuration.
pub(crate) fn refuse<T>(
    field: impl Into<String>,
    found: impl ToString,
    accepted: impl Into<String>,
) -> Result<T, CacheError> {
    Err(CacheError::Config { field: field.into(), found: found.to_string(), accepted: accepted.into() })
}
