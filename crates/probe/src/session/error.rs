//! Reasons why a probe fails.

use crate::oracle::OracleError;
use crate::pool::PoolError;
use memtint_map::PlatformError;

/// The reason why a probe fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The machine or the log fails.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// The memory of a platform does not form a pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A platform file is refused.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// A note of a log has an unknown value.
    #[error("{log}: note {key}: {found:?} found; accepted is {accepted}")]
    Note {
        /// Name of the log.
        log: String,
        /// The note's key.
        key: &'static str,
        /// Its text.
        found: String,
        /// The values accepted.
        accepted: &'static str,
    },
    /// A note is missing, or two have the same key.
    #[error("{log}: note {key} stands there {}; accepted is once", if *.twice { "twice" } else { "nowhere" })]
    NoteCount {
        /// Name of the log.
        log: String,
        /// The note's key.
        key: &'static str,
        /// Whether there are two or more, instead of none.
        twice: bool,
    },
    /// A note from another version.
    #[error("{log}: note {key}: unknown to this version of memtint")]
    UnknownNote {
        /// Name of the log.
        log: String,
        /// The note's key.
        key: String,
    },
    /// The note about the machine is not readable.
    #[error("{log}: note {key}: {source}")]
    Facts {
        /// Name of the log.
        log: String,
        /// The note's key.
        key: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// A published algorithm needs the number of banks.
    #[error("number of banks: {} found; accepted with palloc is a power of two from 2 on", found.map_or("nothing".to_owned(), |banks| banks.to_string()))]
    Banks {
        /// The number given.
        found: Option<u32>,
    },
    /// The caller stopped a self-test.
    #[error("stopped; {done} of {count} probes were done")]
    Stopped {
        /// Completed probes.
        done: usize,
        /// All probes.
        count: usize,
    },
}
