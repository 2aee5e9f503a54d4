//! The description of the machine and its tasks; `system.rs` derives it from a system file.

use std::path::PathBuf;

use super::ScenarioServer;
use memtint_map::Granule;
use memtint_system::{
    AllocatorName, BandwidthSection, CacheSection, ControllerSection, CoreSection, GroupEntry, NumaSection,
    SystemSection, TableSection, Time, TimetableSection,
};
use memtint_units::ByteSize;

/// A scenario that is not verified yet. Lists of numbers are texts in the syntax of system files.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioSpec {
    /// Its subject.
    pub description: String,
    /// Platform: a name of the catalogue, or a file (relative to the scenario).
    pub platform: String,
    /// Block that is colored as a unit; default 4 KiB.
    pub granule: Option<Granule>,
    /// DRAM standard with its speed: a name of `memtint dram list`, or a file.
    pub device: String,
    /// Density of a device in gibibits; default: the standard's.
    pub density_gbit: Option<u32>,
    /// Width of a device in bits; default: the standard's.
    pub device_bits: Option<u32>,
    /// Longest simulated time. The simulation ends earlier when every task with `references` has executed them.
    pub duration: Time,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether each task is also simulated alone, for slowdowns.
    pub alone: bool,
    /// The cores.
    pub cores: CoreSection,
    /// The caches; where nothing is said, the platform's, with their usual latencies.
    pub caches: CacheSection,
    /// The memory controllers.
    pub controller: ControllerSection,
    /// The interconnect between nodes.
    pub numa: NumaSection,
    /// The operating system.
    pub system: SystemSection,
    /// When ranks are refreshed, with `refresh = "timetable"` of the controller.
    pub timetable: Option<TimetableSection>,
    /// Servers, whose budgets tasks run in.
    pub servers: Vec<ScenarioServer>,
    /// How bandwidth budgets are kept, where there are groups.
    pub bandwidth: Option<BandwidthSection>,
    /// Groups of cores or tasks with a bandwidth budget; all others are not regulated.
    pub groups: Vec<GroupEntry>,
    /// The table of slots, with `scheduling = "table"` of the system.
    pub table: Option<TableSection>,
    /// The tasks, 1 to 256.
    pub tasks: Vec<ScenarioTask>,
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioTask {
    /// Its name; unique.
    pub name: String,
    /// Core it is pinned to.
    pub core: Option<u32>,
    /// Or: cores it may run on, and move between; default: that of its server or of its slots in a table, or all.
    pub cores: Option<String>,
    /// Name of the server that it runs in, on its core and in its budget only. Default: none; on a core with servers it
    /// then runs in the background, while no server can.
    pub server: Option<String>,
    /// Its work.
    pub workload: Workload,
    /// The allocator of its frames, with the same names as `system.allocator`; default: that one. Allocators share the
    /// machine's free memory, but each manages only its tasks, and keeps the frames on its color lists.
    pub allocator: Option<AllocatorName>,
    /// Bank classes it may have; default: any. `camc` takes only their number and chooses by itself; it colors no task without.
    pub banks: Option<String>,
    /// Ranks it may have memory of, on every channel; default: any. Narrows `banks`.
    pub ranks: Option<String>,
    /// Name of a task before it that this is another instance of (a copy task): it has the same jobs, cores and
    /// workload, and separate memory; each job is of the instance that meets no lock.
    pub copy_of: Option<String>,
    /// Time to copy the data when a job goes over to this instance. Without `globals` it costs just this time and
    /// causes no traffic.
    pub copy: Time,
    /// Data that are copied when a job goes over to this instance: the lines of the other's memory are read and those of this one's
    /// written, through the caches. The instance that had the job before does it when that is complete in time, if it has not
    /// copied for it itself and no lock of either falls into the time `copy` from then on; otherwise this instance does it before
    /// it goes on, and waits while one of the two is locked.
    pub globals: ByteSize,
    /// Set colors it may have; default: any.
    pub sets: Option<String>,
    /// Nodes it may have memory of; default: any.
    pub nodes: Option<String>,
    /// Whether frames out of color are given when its colors are exhausted.
    pub soft: bool,
    /// Ways of the last-level cache it may fill; default: all.
    pub ways: Option<String>,
    /// 2 MiB pages.
    pub huge_pages: bool,
    /// Smaller is more urgent, for `fixed-priority`.
    pub priority: u32,
    /// References after which it is done; default: none.
    pub references: Option<u64>,
    /// Jobs, instead of one without end.
    pub job: Option<ScenarioJob>,
    /// Tasks of the same group wait for each other.
    pub barrier: Option<ScenarioBarrier>,
}

/// Periodic jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioJob {
    /// Between two releases.
    pub period: Time,
    /// From the release; default: the period.
    pub deadline: Option<Time>,
    /// Of the first release; default 0.
    pub phase: Option<Time>,
    /// How much later a job may be released, at random, at most the period. Deadline and response count from
    /// when it should have been.
    pub jitter: Time,
    /// The work of a job.
    pub references: u64,
    /// Jobs at the beginning that are left out of all counts of jobs, for caches to fill.
    pub uncounted: u64,
    /// Treatment of a job that is not complete by its deadline.
    pub late: Late,
}

/// Treatment of late jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// They are finished, and the next begins after them.
    #[default]
    Finish,
    /// They are given up at their deadline.
    GiveUp,
}

/// Barriers.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioBarrier {
    /// Group.
    pub group: u32,
    /// References between two barriers.
    pub every: u64,
}

/// The work of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// A pointer chase over a randomly shuffled list.
    Latency {
        /// The list.
        size: ByteSize,
        /// Instructions between two loads.
        gap: u32,
    },
    /// A walk through an array.
    Bandwidth {
        /// The array.
        size: ByteSize,
        /// Distance of two references.
        step: ByteSize,
        /// Writes instead of reads.
        write: bool,
        /// Instructions between two references.
        gap: u32,
    },
    /// Copy, scale, add and triad over three arrays.
    Stream {
        /// All three arrays.
        size: ByteSize,
    },
    /// Growing strides from both ends (CAMC, TintMalloc).
    Strides {
        /// The memory.
        size: ByteSize,
        /// By how much offsets grow.
        step: ByteSize,
        /// Reads instead of writes.
        read: bool,
    },
    /// Lines at random, that wait for nothing.
    Uniform {
        /// The memory.
        size: ByteSize,
        /// Writes among 1024 references.
        writes_per_1024: u32,
        /// Instructions between two references.
        gap: u32,
    },
    /// A program with published statistics.
    Program {
        /// `SET/NAME` of the catalogue, for instance `palloc/470.lbm`.
        model: String,
    },
    /// A recorded program.
    Trace {
        /// File of `memtint trace record`, relative to the scenario.
        file: PathBuf,
        /// Thread of it.
        thread: u32,
    },
}
