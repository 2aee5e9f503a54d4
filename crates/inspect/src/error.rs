//! Errors of an inspection.

use std::io;

/// Everything that prevents a verdict.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The kernel hides frame numbers from this caller.
    #[error(
        "the kernel hides physical frame numbers from this user ({what}): inspecting needs CAP_SYS_ADMIN in the first user \
         namespace, for instance as root outside of containers"
    )]
    NotPrivileged {
        /// What was refused or read as zero.
        what: String,
    },
    /// The kernel does not let this caller inspect the process.
    #[error(
        "process {pid} cannot be inspected ({path}: {cause}): inspecting needs CAP_SYS_PTRACE, and a process in another \
         namespace or confined by a security module can still refuse"
    )]
    Forbidden {
        /// The process id.
        pid: u32,
        /// The file that was refused.
        path: String,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// There is no such process, or it ended while it was read.
    #[error("process {pid} {what}")]
    NoProcess {
        /// The process id asked for.
        pid: u32,
        /// What happened, for instance "does not exist".
        what: &'static str,
    },
    /// A file of the kernel could not be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// The cgroup holds no process.
    #[error("cgroup {path} holds no process with user memory: nothing to inspect")]
    EmptyCgroup {
        /// The directory that was read.
        path: String,
    },
    /// The path is not a cgroup.
    #[error("{path} is not a cgroup: it has no file cgroup.procs ({cause})")]
    NotACgroup {
        /// The directory that was tried.
        path: String,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// A search of other processes needs colors, and none are named.
    #[error("no colors are named: name bank classes, set colors or nodes to search other processes in")]
    NoColors,
    /// The selection does not fit the palette.
    #[error(transparent)]
    Selection(#[from] memtint_map::SelectionError),
}
