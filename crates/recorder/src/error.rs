//! Why a program is not recorded.

use std::io;
use std::path::PathBuf;

/// Why a program cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// QEMU's user mode is not installed.
    #[error("qemu-x86_64 is not in PATH; install it (Debian: apt-get install qemu-user)")]
    NoQemu,
    /// There is no such program.
    #[error("{program:?} is not a file and not in PATH")]
    NoProgram {
        /// The requested name.
        program: String,
    },
    /// The file exists but cannot be recorded.
    #[error("{path:?} cannot be recorded: {problem}")]
    NotRecordable {
        /// The file.
        path: PathBuf,
        /// The defect of the file, and the accepted value.
        problem: String,
    },
    /// QEMU ended before it loaded the plugin; its messages are on standard error.
    #[error("{qemu:?} ended with {status} before it loaded the plugin; accepted are QEMU 5.1 to 8.2 with plugins")]
    NotLoaded {
        /// The file.
        qemu: PathBuf,
        /// How it ended.
        status: String,
    },
    /// Impossible windows.
    #[error("sampling: {field} is {found}; accepted is {accepted}")]
    Sampling {
        /// The parameter.
        field: &'static str,
        /// The value found.
        found: u64,
        /// The accepted values.
        accepted: String,
    },
    /// The system refused something.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The trace file cannot be written.
    #[error(transparent)]
    Trace(#[from] memtint_workload::WorkloadError),
}
