//! What can be wrong with what this crate is given.

use std::path::PathBuf;

use crate::index::RankIndex;

/// Tells why a device, a controller or a trace is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DramError {
    /// A parameter of the controller is out of range.
    #[error("controller: {field} is {found}; accepted is {least} to {most}")]
    Config {
        /// Name of the field.
        field: &'static str,
        /// Value found.
        found: u32,
        /// Least value accepted.
        least: u32,
        /// Greatest value accepted.
        most: u32,
    },
    /// A platform's addresses cannot be decoded.
    #[error("platform {platform}: {reason}")]
    Mapping {
        /// Its name.
        platform: String,
        /// What is wrong, and what would be accepted.
        reason: String,
    },
    /// Neither a standard that comes with memtint nor a path.
    #[error(
        "standard {spec:?} is not known; accepted are {known}, a path with a slash in it, or a name that ends in .toml"
    )]
    UnknownStandard {
        /// What was asked for.
        spec: String,
        /// The names there are.
        known: String,
    },
    /// A file cannot be read.
    #[error("file {path:?} cannot be read: {reason}")]
    Read {
        /// The file.
        path: String,
        /// What the operating system said.
        reason: String,
    },
    /// A file of commands cannot be written.
    #[error("{path:?}: cannot be written: {reason}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// The text is not TOML, has an unknown key, lacks one, or has a value of the wrong kind.
    #[error("standard {origin:?}: line {line}: {message}")]
    Syntax {
        /// The file.
        origin: String,
        /// Line of the text, from 1.
        line: usize,
        /// What the TOML reader said.
        message: String,
    },
    /// A field of a standard holds a value that is not accepted.
    #[error("standard {origin:?}: {field} is {found}; accepted is {accepted}")]
    Field {
        /// The file.
        origin: String,
        /// The field.
        field: String,
        /// The value found.
        found: String,
        /// What would be accepted.
        accepted: String,
    },
    /// A standard has no device of this density and width.
    #[error("standard {standard:?} has no device {density_gbit}Gb x{device_bits}; accepted are {accepted}")]
    NoDevice {
        /// Name of the standard.
        standard: String,
        /// Density asked for.
        density_gbit: u32,
        /// Width asked for.
        device_bits: u32,
        /// The devices there are.
        accepted: String,
    },
    /// A line of a command trace is not a command.
    #[error("command trace {origin:?}: line {line}: {field} is {found}; accepted is {accepted}")]
    Trace {
        /// The file.
        origin: String,
        /// Line, from 1.
        line: u64,
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What would be accepted.
        accepted: String,
    },
    /// A refresh timetable that cannot be kept, or that loses rows.
    #[error("refresh timetable: rank {rank}{}: {what} is {found}; needed is {needed}", .window.map(|window| format!(", window {window}")).unwrap_or_default())]
    Timetable {
        /// The rank.
        rank: RankIndex,
        /// The window, from 0, in the order of their starts; `None` where it is about the rank as a whole.
        window: Option<usize>,
        /// What is wrong.
        what: &'static str,
        /// What was found.
        found: String,
        /// What is needed.
        needed: String,
    },
}
