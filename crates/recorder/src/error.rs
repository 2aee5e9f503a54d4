//! Why a program is not recorded.

use std::io;
use std::path::PathBuf;

/// Tells why there is no recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// QEMU's user mode is not installed.
    #[error("qemu-x86_64 is not in PATH; install it (Debian: apt-get install qemu-user)")]
    NoQemu,
    /// There is no such program.
    #[error("{program:?} is not a file and not in PATH")]
    NoProgram {
        /// What was asked for.
        program: String,
    },
    /// The file is there, but cannot be recorded.
    #[error("{path:?} cannot be recorded: {problem}")]
    NotRecordable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what would be accepted.
        problem: String,
    },
    /// QEMU ended before the plugin was loaded; what it had to say is on standard error.
    #[error("{qemu:?} ended with {status} before it loaded the plugin; accepted are QEMU 5.1 to 8.2 with plugins")]
    NotLoaded {
        /// The file.
        qemu: PathBuf,
        /// How it ended.
        status: String,
    },
    /// Windows that cannot be.
    #[error("sampling: {field} is {found}; accepted is {accepted}")]
    Sampling {
        /// The parameter.
        field: &'static str,
        /// The value found.
        found: u64,
        /// What would be accepted.
        accepted: String,
    },
    /// The system refused something.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the operating system said.
        cause: io::Error,
    },
    /// The trace file cannot be written.
    #[error(transparent)]
    Trace(#[from] memtint_workload::WorkloadError),
}
