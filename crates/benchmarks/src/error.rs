//! Reasons why a benchmark gave no figures.

use std::io;
use std::path::PathBuf;

/// The reason why a benchmark gave no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// A file or folder cannot be used.
    #[error("{path:?}: cannot be {done}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// The attempted operation: created, written.
        done: &'static str,
        /// The cause.
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
    /// The simulated memory refuses a request.
    #[error(transparent)]
    Frames(#[from] memtint_frames::FrameError),
    /// An allocator refuses an allocation that it must grant.
    #[error("{system}: {cause}")]
    System {
        /// The allocator.
        system: &'static str,
        /// Its error.
        cause: memtint_frames::FrameError,
    },
    /// A task's colors hold too few pages.
    #[error("the colors hold {pages} pages in the fragmented state, needed are {needed}")]
    Room {
        /// Pages that they hold.
        pages: usize,
        /// Pages that the smallest size needs.
        needed: usize,
    },
    /// The regulator cannot be started, or this machine lacks a feature that it needs.
    #[error(transparent)]
    Regulator(#[from] memtint_regulator::RegulatorError),
    /// There is no CPU to regulate.
    #[error("no CPU is online")]
    NoCpu,
    /// A load does not respond as expected.
    #[error("a load: {what}")]
    Load {
        /// The problem.
        what: String,
    },
    /// A regulator cannot be killed while its group is frozen.
    #[error("a regulator to kill: {what}")]
    RegulatorToKill {
        /// The problem.
        what: String,
    },
    /// The regulator has not reported a process that left its group.
    #[error("a process has left its group, and the regulator has not reported it")]
    NotReported,
    /// A simulated machine cannot be made, or gives no times.
    #[error(transparent)]
    Oracle(#[from] memtint_probe::OracleError),
    /// The memory of a platform does not form a pool of addresses.
    #[error("{platform}: {cause}")]
    Pool {
        /// The platform.
        platform: String,
        /// The problem with its memory.
        cause: memtint_probe::PoolError,
    },
    /// A DRAM standard or device is not accepted.
    #[error(transparent)]
    Dram(#[from] memtint_dram::DramError),
    /// A scenario is refused, or cannot be simulated.
    #[error(transparent)]
    Sim(#[from] memtint_sim::SimError),
    /// Two simulations of the same requests gave different results.
    #[error("two runs of {device} {trace} differ")]
    Differ {
        /// Name of the DRAM standard.
        device: &'static str,
        /// Name of the trace.
        trace: &'static str,
    },
    /// The reference has no such controller.
    #[error("the reference does not support this controller")]
    NoReference,
}
