//! Reasons why a dump is refused.

use std::path::PathBuf;

use memtint_map::PlatformError;

/// The reason why no mapping follows from a dump. Every message names the dump, the place, the value found and the
/// values accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A file or folder cannot be read.
    #[error("{path:?} cannot be read: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A line is not of the dump's form.
    #[error("dump {origin:?}: line {line} is {found:?}; accepted is {accepted}")]
    Line {
        /// The dump.
        origin: String,
        /// Line of the text, from 1.
        line: usize,
        /// The line, or the faulty part.
        found: String,
        /// The form accepted.
        accepted: &'static str,
    },
    /// The dump lacks a register that affects the mapping.
    #[error("dump {origin:?}: {register} is missing; {reason}")]
    Missing {
        /// The dump.
        origin: String,
        /// The register.
        register: String,
        /// The purpose of the register, or why it may be missing.
        reason: &'static str,
    },
    /// A register holds a value from which no exact platform file follows.
    #[error("dump {origin:?}: {register} is {found}; accepted is {accepted}")]
    Refused {
        /// The dump.
        origin: String,
        /// The register and its bits, or a combination of several registers.
        register: String,
        /// The value found.
        found: String,
        /// The values accepted.
        accepted: String,
    },
    /// The dump contains no supported memory controller.
    #[error("dump {origin:?}: no memory controller that is known here: {found}; accepted are {accepted}")]
    Unknown {
        /// The dump.
        origin: String,
        /// The functions found.
        found: String,
        /// The supported controllers.
        accepted: &'static str,
    },
    /// A folder of configuration space, for a controller whose registers are elsewhere.
    #[error("{origin}: registers of Zen are not in configuration space; accepted is a list of them in a file")]
    Folder {
        /// The folder.
        origin: String,
    },
    /// The registers contradict each other.
    #[error("the registers make no platform: {0}")]
    Platform(#[from] Box<PlatformError>),
}

/// The name of a dump in messages; creates the errors.
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
