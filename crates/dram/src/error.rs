//! Errors of devices, controllers and traces.

use std::path::PathBuf;

use crate::index::RankIndex;

/// Why a device, a controller or a trace is refused.
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
        /// The defect, and the accepted form.
        reason: String,
    },
    /// Neither a standard that comes with memtint nor a path.
    #[error(
        "standard {spec:?} is not known; accepted are {known}, a path with a slash in it, or a name that ends in .toml"
    )]
    UnknownStandard {
        /// The requested name or path.
        spec: String,
        /// The known names.
        known: String,
    },
    /// A file cannot be read.
    #[error("file {path:?} cannot be read: {reason}")]
    Read {
        /// The file.
        path: String,
        /// The error of the operating system.
        reason: String,
    },
    /// A file of commands cannot be written.
    #[error("{path:?}: cannot be written: {reason}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
    /// The text is not TOML, has an unknown key, lacks one, or has a value of the wrong kind.
    #[error("standard {origin:?}: line {line}: {message}")]
    Syntax {
        /// The file.
        origin: String,
        /// Line of the text, from 1.
        line: usize,
        /// The error of the TOML reader.
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
        /// The accepted values.
        accepted: String,
    },
    /// A standard has no device of this density and width.
    #[error("standard {standard:?} has no device {density_gbit}Gb x{device_bits}; accepted are {accepted}")]
    NoDevice {
        /// Name of the standard.
        standard: String,
        /// Requested density.
        density_gbit: u32,
        /// Requested width.
        device_bits: u32,
        /// The existing devices.
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
        /// The text found.
        found: String,
        /// The accepted values.
        accepted: String,
    },
    /// A refresh timetable that cannot be kept, or that loses rows.
    #[error("refresh timetable: rank {rank}{}: {what} is {found}; needed is {needed}", .window.map(|window| format!(", window {window}")).unwrap_or_default())]
    Timetable {
        /// The rank.
        rank: RankIndex,
        /// The window, from 0, in the order of their starts; `None` where it is about the rank as a whole.
        window: Option<usize>,
        /// The violated requirement.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value required.
        needed: String,
    },
}
