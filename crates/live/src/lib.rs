//! The colored runtime: runs unmodified programs with every private page in frames of chosen colors, on a stock kernel. A kernel that can
//! color does the work itself (module `kernel`); the rest of this page is about the runtime.
//!
//! Three processes carry a run (the program sees none of them):
//!
//! ```text
//! front       what the user's shell waits for: passes on status and signals          (module front)
//! supervisor  decides: answers stopped system calls, injects helpers, reads frame
//!             numbers; the only one with privileges while the program runs          (modules supervisor, inject)
//! helper      one per address space, sharing the program's memory: owns the frame
//!             pool, serves page faults with UFFDIO_MOVE, carries out the program's
//!             own mmap, brk, mremap ... and watches the result                      (folder helper/)
//! ```
//!
//! It deliberately does not interpret DRAM mappings: the caller's [`FrameChoice`] decides whether a frame is in color.
//! Pages that a `fork` makes shared are left to the kernel's copy-on-write and counted; they are not brought back in
//! color yet.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod areas;
mod broker;
mod compaction;
#[allow(dead_code, unreachable_pub, reason = "shared with the helper, which uses it; here for its tests")]
mod confinement;
mod credit;
mod filter;
mod front;
mod inject;
mod kernel;
mod listener;
mod memory;
mod report;
mod service_manager;
mod space;
mod supervisor;
mod sys;
#[allow(dead_code, unreachable_pub, reason = "shared with the helper, which uses the rest")]
mod wire;
mod writes;

/// The beginning of the lines about a search for frames that takes long; other lines of a run are warnings.
pub const SEARCHING: &str = "looking for frames";

pub use front::{Floor, RunOptions, RunStatus, check_privileges, check_userfaultfd, run};
pub use kernel::{KernelFloor, KernelOptions};
pub use report::{AddressSpaceReport, CompactionReport, FloorName, KernelReport, RunReport, RunVerdict};
pub use writes::writes;

use std::io;
use std::path::PathBuf;

use memtint_units::Pfn;

/// Gives the pages of memory that the kernel manages; 0 if unknown.
#[must_use]
pub fn machine_pages() -> u64 {
    sys::machine_pages()
}

/// Gives the CPUs that the kernel has configured, 1 or more.
#[must_use]
pub fn configured_cpus() -> u32 {
    sys::configured_cpus()
}

/// Gives the bytes of memory available to new programs, as the kernel estimates it; 0 if unknown.
#[must_use]
pub fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Page frames that a program may use.
pub trait FrameChoice: Send {
    /// Whether this frame is in color.
    fn contains(&self, frame: Pfn) -> bool;
    /// Average number of frames to examine per frame in color: 1 when all are in color. Never below 1.
    fn looks_per_page(&self) -> f64;
    /// The colors in words, for messages: `bank classes 0-3`.
    fn label(&self) -> String;
    /// Number of frames of this machine that are in color, approximately; `None` if unknown.
    fn frames(&self) -> Option<u64> {
        None
    }
    /// NUMA nodes, by Linux's numbers, that have frames in color. Empty if the machine has only one node, or if
    /// unknown.
    fn nodes(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// Why a run could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Not enough privileges.
    #[error(
        "reading frame numbers and stopping system calls needs CAP_SYS_ADMIN and CAP_SYS_PTRACE: run memtint as root, \
         and the program as another user with --user"
    )]
    Privileges,
    /// The kernel has no userfaultfd, or one without UFFDIO_MOVE.
    #[error("userfaultfd with UFFDIO_MOVE is needed (Linux 6.8 or newer, CONFIG_USERFAULTFD): {0}")]
    Userfaultfd(io::Error),
    /// No vDSO to make system calls at.
    #[error("the program has no vDSO (kernel started with vdso=0?)")]
    NoVdso,
    /// A 32-bit program.
    #[error("it is a 32-bit program; only x86-64 programs, and what they start, can be colored")]
    NotX86_64,
    /// The addresses that memtint uses are taken.
    #[error("the program has mapped addresses that memtint uses (from {:#x})", wire::BLOB_BASE)]
    AddressTaken,
    /// The helper ended or sent an invalid message.
    #[error("the helper in the program's address space is lost")]
    HelperLost,
    /// The helper has stopped responding to requests.
    #[error("the helper in the program's address space has not answered for {0} seconds")]
    HelperSilent(u64),
    /// The limit on processes of the program's user or cgroup leaves no room for a helper.
    #[error(
        "cannot create its helper: the limit on processes (RLIMIT_NPROC of the user, or pids.max of the cgroup) is reached; \
         the helper of each process counts"
    )]
    TooManyProcesses,
    /// The program ended while it was being prepared.
    #[error("the program ended while it was being prepared")]
    ProgramGone,
    /// Strict: there are not enough frames in color for the program's start.
    #[error("no frame in {colors} was found{limit}, {missing} missing for what the program begins with (strict)")]
    Exhausted {
        /// The colors in words.
        colors: String,
        /// The limit that is reached, in words and in brackets; or empty.
        limit: String,
        /// Pages that could not be had.
        missing: u64,
    },
    /// The memory in color is on nodes that this process may not use.
    #[error(
        "{colors}: all of it is on NUMA nodes {nodes:?}, and this process may use memory of nodes {allowed:?} only \
         (cpuset.mems, or numactl)"
    )]
    NodesOutOfBounds {
        /// The colors in words.
        colors: String,
        /// Nodes that have frames in color.
        nodes: Vec<u32>,
        /// Nodes that the caller's cpuset and memory policy leave.
        allowed: Vec<u32>,
    },
    /// The kernel has loaded a mapping in which the colors have other numbers.
    #[error(
        "the kernel has another mapping than that of platform {platform:?}: {difference} ({}); {use_of_it}", file.display()
    )]
    OtherMapping {
        /// The platform asked for.
        platform: String,
        /// The kernel's file.
        file: PathBuf,
        /// The first line that differs, in words.
        difference: String,
        /// Whether its colors are in use, in words.
        use_of_it: &'static str,
    },
    /// The kernel refuses the mapping.
    #[error("the kernel refuses the mapping of platform {platform:?}: {fault}")]
    MappingRefused {
        /// The platform.
        platform: String,
        /// The kernel's reason.
        fault: String,
    },
    /// A list of colors has too many ranges for the kernel.
    #[error("the kernel takes lists of colors of up to {accepted} bytes, found {} ({text:?})", text.len())]
    ListTooLong {
        /// The policy as it would be written.
        text: String,
        /// Bytes.
        accepted: usize,
    },
    /// A file of the kernel backend could not be read.
    #[error("{} could not be read: {cause}", file.display())]
    KernelFile {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// A file of the kernel backend refused a text.
    #[error("{} did not take {text:?}: {cause}{meaning}", file.display())]
    KernelRefuses {
        /// The file.
        file: PathBuf,
        /// The text.
        text: String,
        /// The system's answer.
        #[source]
        cause: io::Error,
        /// The kernel's reason, in brackets, or empty.
        meaning: &'static str,
    },
    /// No such user.
    #[error("there is no user {0:?}")]
    NoUser(String),
    /// A system call failed.
    #[error("system call failed: {0}")]
    Io(#[from] io::Error),
}
