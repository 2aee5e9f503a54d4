//! Why a dump is refused.

use std::path::PathBuf;

use memtint_map::PlatformError;

/// Tells why no mapping follows from a dump. Every message names the dump, the place, what was found and what is
/// accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A file or folder cannot be read.
    #[error("{path:?} cannot be read: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A line is not of the dump's form.
    #[error("dump {origin:?}: line {line} is {found:?}; accepted is {accepted}")]
    Line {
        /// The dump.
        origin: String,
        /// Line of the text, from 1.
        line: usize,
        /// The line, or the part that is at fault.
        found: String,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// A register that decides about the mapping is not in the dump.
    #[error("dump {origin:?}: {register} is missing; {reason}")]
    Missing {
        /// The dump.
        origin: String,
        /// The register.
        register: String,
        /// What it is needed for, or why it may be missing.
        reason: &'static str,
    },
    /// A register holds a value from which no exact platform file follows.
    #[error("dump {origin:?}: {register} is {found}; accepted is {accepted}")]
    Refused {
        /// The dump.
        origin: String,
        /// The register and its bits, or what several registers say together.
        register: String,
        /// The value found.
        found: String,
        /// What would be accepted.
        accepted: String,
    },
    /// The dump holds nothing that is known here.
    #[error("dump {origin:?}: no memory controller that is known here: {found}; accepted are {accepted}")]
    Unknown {
        /// The dump.
        origin: String,
        /// What was found.
        found: String,
        /// The controllers that are known.
        accepted: &'static str,
    },
    /// A folder of configuration space, for a controller whose registers are not there.
    #[error("{origin}: registers of Zen are not in configuration space; accepted is a list of them in a file")]
    Folder {
        /// The folder.
        origin: String,
    },
    /// The registers contradict each other.
    #[error("the registers make no platform: {0}")]
    Platform(#[from] Box<PlatformError>),
}

/// Where messages say a dump comes from, and the making of them.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a>(pub(crate) &'a str);

impl Origin<'_> {
    pub(crate) fn line<T>(self, line: usize, found: &str, accepted: &'static str) -> Result<T, RegisterError> {
        let found = found.chars().take(80).collect();
        Err(RegisterError::Line { origin: self.0.to_owned(), line, found, accepted })
    }

    pub(crate) fn missing(self, register: impl Into<String>, reason: &'static str) -> RegisterError {
        RegisterError::Missing { origin: self.0.to_owned(), register: register.into(), reason }
    }

    pub(crate) fn refuse<T>(
        self,
        register: impl Into<String>,
        found: impl ToString,
        accepted: impl Into<String>,
    ) -> Result<T, RegisterError> {
        Err(RegisterError::Refused {
            origin: self.0.to_owned(),
            register: register.into(),
            found: found.to_string(),
            accepted: accepted.into(),
        })
    }
}
