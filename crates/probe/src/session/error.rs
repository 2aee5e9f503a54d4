//! Why a probe does not come to its end.

use crate::oracle::OracleError;
use crate::pool::PoolError;
use memtint_map::PlatformError;

/// Everything that keeps a probe from its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The machine or the log does not answer.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// The memory of a platform is no pool.
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
        /// What it could be.
        accepted: &'static str,
    },
    /// A note is missing, or there are two with one key.
    #[error("{log}: note {key} stands there {}; accepted is once", if *.twice { "twice" } else { "nowhere" })]
    NoteCount {
        /// Name of the log.
        log: String,
        /// The note's key.
        key: &'static str,
        /// Two or more, and not none.
        twice: bool,
    },
    /// A note of another version.
    #[error("{log}: note {key}: this version of memtint does not know it")]
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
        /// Why it is not readable.
        source: serde_json::Error,
    },
    /// A published algorithm needs the number of banks.
    #[error("number of banks: {} found; accepted with palloc is a power of two from 2 on", found.map_or("nothing".to_owned(), |banks| banks.to_string()))]
    Banks {
        /// The number that was given.
        found: Option<u32>,
    },
    /// The caller stopped a self-test.
    #[error("stopped; {done} of {count} probes were done")]
    Stopped {
        /// Probes that have come to their end.
        done: usize,
        /// All of them.
        count: usize,
    },
}
