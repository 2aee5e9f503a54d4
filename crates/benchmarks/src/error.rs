//! Why a benchmark gave no figures.

use std::io;
use std::path::PathBuf;

/// Why a benchmark gave no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// A file or folder cannot be used.
    #[error("{path:?}: cannot be {done}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried: created, written.
        done: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
    /// Memory cannot be mapped, or its frames cannot be read.
    #[error("{0}")]
    Memory(io::Error),
    /// A platform cannot be read.
    #[error(transparent)]
    Platform(#[from] memtint_map::PlatformError),
    /// A platform has no colors.
    #[error(transparent)]
    Palette(#[from] memtint_map::PaletteError),
    /// The bank classes of a task are not those of the platform.
    #[error("bank classes: {0}")]
    Banks(memtint_units::ListError),
    /// The simulated memory refuses what is asked of it.
    #[error(transparent)]
    Frames(#[from] memtint_frames::FrameError),
    /// An allocator refuses what it has promised.
    #[error("{system}: {cause}")]
    System {
        /// The allocator.
        system: &'static str,
        /// What it says.
        cause: memtint_frames::FrameError,
    },
    /// A task's colors hold too few pages.
    #[error("the colors hold {pages} pages in the fragmented state, needed are {needed}")]
    Room {
        /// Pages that they hold.
        pages: usize,
        /// Pages of the smallest size.
        needed: usize,
    },
    /// The regulator cannot be started, or this machine has none of what it needs.
    #[error(transparent)]
    Regulator(#[from] memtint_regulator::RegulatorError),
    /// There is no CPU to regulate.
    #[error("no CPU is online")]
    NoCpu,
    /// A load does not answer as expected.
    #[error("a load: {what}")]
    Load {
        /// What is wrong.
        what: String,
    },
    /// A regulator cannot be killed while its group is frozen.
    #[error("a regulator to kill: {what}")]
    RegulatorToKill {
        /// What is wrong.
        what: String,
    },
    /// The regulator has missed that a process has left its group.
    #[error("a process has left its group, and nothing says so")]
    NotReported,
    /// A simulated machine cannot be made, or gives no times.
    #[error(transparent)]
    Oracle(#[from] memtint_probe::OracleError),
    /// The memory of a platform makes no pool of addresses.
    #[error("{platform}: {cause}")]
    Pool {
        /// The platform.
        platform: String,
        /// What is wrong with its memory.
        cause: memtint_probe::PoolError,
    },
    /// A DRAM standard or device is not accepted.
    #[error(transparent)]
    Dram(#[from] memtint_dram::DramError),
    /// A scenario is refused, or cannot be simulated.
    #[error(transparent)]
    Sim(#[from] memtint_sim::SimError),
    /// Two simulations of the same requests came to different results.
    #[error("two runs of {device} {trace} differ")]
    Differ {
        /// Name of the DRAM standard.
        device: &'static str,
        /// Name of the trace.
        trace: &'static str,
    },
    /// The reference has no such controller.
    #[error("the reference does not know this controller")]
    NoReference,
}
