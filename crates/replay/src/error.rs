//! Why a replay is refused.

use std::io;
use std::path::PathBuf;

use memtint_dram::DramError;
use memtint_map::PlatformError;

/// Everything that prevents the replay of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The mapping's platform.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The platform's channel.
    #[error(transparent)]
    Dram(#[from] DramError),
    /// The mapping has no such channel.
    #[error("--channel is {found}; accepted {accepted}")]
    Channel {
        /// The channel.
        found: u32,
        /// The channels that exist.
        accepted: String,
    },
    /// The platform has another number of ranks.
    #[error("--ranks is {found}; accepted with --mapping {mapping} is {accepted}")]
    Ranks {
        /// The requested number.
        found: u32,
        /// The mapping.
        mapping: String,
        /// Ranks of its channel.
        accepted: u32,
    },
    /// The trace file cannot be read.
    #[error("{path:?}: cannot be read: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A line of the trace file is malformed.
    #[error("trace {path:?}: line {line}: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The value found, and the accepted values.
        problem: String,
    },
    /// A synthetic trace leaves memory.
    #[error("{0}")]
    Outside(String),
    /// A trace without a request for the channel, of which no command can be checked.
    #[error("trace {path:?}: it has no request for this channel; accepted with --check is one with at least one")]
    NoRequest {
        /// The trace.
        path: PathBuf,
    },
    /// A file of commands without one.
    #[error("command trace {path:?}: it has no command; accepted is one with at least one")]
    NoCommand {
        /// The file.
        path: PathBuf,
    },
}
