//! Why a regulator does not start.

use std::io;
use std::path::PathBuf;

use memtint_guard::GuardError;
use thiserror::Error;

/// Why a regulator does not start, or was refused by its self-test.
#[derive(Debug, Error)]
pub enum RegulatorError {
    /// A setting outside its range.
    #[error("{field} is {found}; accepted is {accepted}")]
    Settings {
        /// The setting.
        field: String,
        /// The value found.
        found: String,
        /// Values accepted.
        accepted: String,
    },
    /// The reservation rule, or a range of the state machine.
    #[error(transparent)]
    Rule(#[from] GuardError),
    /// The list of CPUs.
    #[error("cannot find out which CPUs are online: {reason}")]
    Cpus {
        /// Why.
        reason: String,
    },
    /// cgroup v2 is not mounted.
    #[error(
        "cgroup v2 is not mounted as a whole; mount it (mount -t cgroup2 none /sys/fs/cgroup/unified), or regulate CPUs (--core)"
    )]
    NoCgroups {
        /// The mounts cannot be read.
        #[source]
        cause: Option<io::Error>,
    },
    /// A group's name.
    #[error("group {name:?} is {found}; accepted is {accepted}")]
    Group {
        /// Its name.
        name: String,
        /// The defect of the name.
        found: String,
        /// What is accepted.
        accepted: String,
    },
    /// A file of a cgroup.
    #[error("{}: {cause}", path.display())]
    Cgroup {
        /// The file or folder.
        path: PathBuf,
        /// The error from the kernel.
        #[source]
        cause: io::Error,
    },
    /// A performance event that cannot be counted.
    #[error("cannot count {event:?}: {reason}; accepted is {accepted}")]
    Event {
        /// The event.
        event: String,
        /// Why.
        reason: String,
        /// What is accepted.
        accepted: String,
    },
    /// A counter that cannot be opened.
    #[error(
        "cannot open a pinned counter on CPU {cpu}: {cause} (needs CAP_PERFMON, or CAP_SYS_ADMIN where kernel.perf_event_paranoid is 3, \
         and an event that this CPU counts)"
    )]
    Counter {
        /// The CPU.
        cpu: usize,
        /// The error from the kernel.
        #[source]
        cause: io::Error,
    },
    /// A cgroup without the kernel's perf_event controller.
    #[error(
        "the kernel cannot count for one cgroup on CPU {cpu}: groups get that when any controller is enabled in the cgroup.subtree_control of the \
         hierarchy's root, as systemd does"
    )]
    NoController {
        /// The CPU.
        cpu: usize,
    },
    /// A thread that does not start.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// Real-time priority is refused.
    #[error(
        "cannot run at real-time priority on the CPU to regulate: {0} (needs CAP_SYS_NICE, and a cpu cgroup with real-time runtime)"
    )]
    Priority(#[source] io::Error),
    /// Memory cannot be locked.
    #[error("cannot lock memory: {0} (needs CAP_IPC_LOCK)")]
    Lock(#[source] io::Error),
    /// Another regulator runs.
    #[error("another regulator runs{}; accepted is one per machine", .process.map_or(String::new(), |process| format!(" (process {process})")))]
    Another {
        /// Its process.
        process: Option<u32>,
    },
    /// The file that keeps others away.
    #[error("{}: {cause}", path.display())]
    LockFile {
        /// The file.
        path: PathBuf,
        /// The error from the kernel.
        #[source]
        cause: io::Error,
    },
    /// A helper process.
    #[error("the {what} process failed: {reason}")]
    Process {
        /// Its task.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The kernel cannot decide.
    #[error("cannot decide in the kernel: {what}: {reason} (needs CAP_BPF and CAP_PERFMON, Linux 6.7 or newer)")]
    Bpf {
        /// The action that failed.
        what: &'static str,
        /// Why it has failed.
        reason: String,
    },
    /// The kernel module, or its device.
    #[error("{device}: {reason}")]
    Module {
        /// The device.
        device: &'static str,
        /// The refused request, or why it cannot be used.
        reason: String,
    },
    /// A group that would be stopped for longer than the kernel allows.
    #[error(
        "{group} may have to be stopped for {percent:.0} % of the time by occupying CPU {cpu}, and {reason} lets other tasks run beyond {limit_percent:.0} %; accepted is a cgroup (--group), which is frozen instead, or a budget that stops the group for at most {limit_percent:.0} % of the time (--peak sets the most that the CPU can cause)"
    )]
    Occupation {
        /// The group.
        group: String,
        /// The CPU.
        cpu: usize,
        /// Share of the time, in percent.
        percent: f64,
        /// Largest share accepted, in percent.
        limit_percent: f64,
        /// The limit.
        reason: String,
    },
    /// The self-test has failed.
    #[error("refused by the self-test: {group} on CPU {cpu}: {reason}")]
    SelfTest {
        /// The group.
        group: String,
        /// The CPU.
        cpu: usize,
        /// The observation.
        reason: String,
    },
}
