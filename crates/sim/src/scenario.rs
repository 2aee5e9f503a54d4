//! Scenario files: a machine, its tasks, and what is to be found out.

mod bandwidth;
mod server;
mod system;
mod table;
mod timetable;
mod written;

pub(crate) use self::bandwidth::Regulators;
pub use self::server::ServerSection;
pub use memtint_system::{
    AllocatorName, BandwidthSection, BudgetKind, CacheSection, CacheSize, ControllerSection, CoreSection, Counted,
    GroupEntry, Inclusion, LastLevelSize, NumaSection, PageName, PredictorName, Replacement, SchedulerName,
    SchedulingName, SharingName, SlotSection, SystemSection, TableSection, Time, TimetableSection, WindowSection,
};

use crate::core::{CoreConfig, CoreModel};
use crate::error::SimError;
use crate::machine::{Machine, MachineConfig, Scheduling, TaskConfig};
use crate::memory::NumaConfig;
use crate::task::{Barrier, Release};
use memtint_cache::{CacheConfig, HierarchyConfig, Latencies, LlcConfig, PrefetchConfig, StrideConfig, WayMask};
use memtint_dram::{
    CommandSink, ControllerConfig, Decoder, Device, DeviceChoice, DramError, Geometry, PagePolicy, QueueSharing,
    RefreshCheck, RefreshKind, RefreshPlan, Scheduler, Standard, Timing,
};
use memtint_frames::{
    Bpm, Buddy, Camc, Form, FrameAllocator, FrameError, Hybrid, MemIds, Memory as FrameMemory, Mode, Palloc, PerCpu,
    Pick, Policy, Profile, Shared, Tenant, TintMalloc, Tinted,
};
use memtint_map::{Granule, Palette, Platform};
use memtint_units::{ByteSize, Clock, IndexSet, Picoseconds};
use memtint_workload::{
    Bandwidth, BandwidthParameters, Kind, Latency, LatencyParameters, Region, Source, Stream, StreamParameters,
    Strides, StridesParameters, TraceFile, Uniform, UniformParameters, catalogue,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of the scenario format.
pub const SCHEMA: u32 = 1;
/// At most this many cores.
pub const CORES_MAX: u32 = 1024;
const SECOND: Picoseconds = Picoseconds(1_000_000_000_000);
/// At most this many hops between two nodes.
const HOPS_MAX: u32 = 16;
/// User of the tasks with bank classes, whom CAMC colors, and of all others.
const COLORED_USER: u32 = 1;
const PLAIN_USER: u32 = 0;

/// A scenario as it stands in its file.
///
/// Times are texts of a number and a unit, `ps`, `ns`, `us`, `ms` or `s`; sizes as everywhere (`64K`, `8 MiB`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// Version of the format; 1.
    pub schema: u32,
    /// What it is about.
    #[serde(default)]
    pub description: String,
    /// Platform: a name of the catalogue, or a file (relative to the scenario).
    pub platform: String,
    /// Block that is colored as a unit; default 4 KiB.
    #[serde(default)]
    pub granule: Option<Granule>,
    /// DRAM standard with its speed: a name of `memtint dram list`, or a file.
    pub device: String,
    /// Density of a device in gibibits; default: the standard's.
    #[serde(default)]
    pub density_gbit: Option<u32>,
    /// Width of a device in bits; default: the standard's.
    #[serde(default)]
    pub device_bits: Option<u32>,
    /// Longest simulated time. The simulation ends earlier when every task with `references` has executed them.
    pub duration: Time,
    /// Seed of everything random; default 1. The option `--seed` comes before it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Whether each task is also simulated alone, for slowdowns; default false.
    #[serde(default)]
    pub alone: bool,
    /// The cores.
    pub cores: CoreSection,
    /// The caches; default: the platform's, with their usual latencies.
    #[serde(default)]
    pub caches: CacheSection,
    /// The memory controllers.
    #[serde(default)]
    pub controller: ControllerSection,
    /// The interconnect between nodes.
    #[serde(default)]
    pub numa: NumaSection,
    /// The operating system.
    #[serde(default)]
    pub system: SystemSection,
    /// When ranks are refreshed, with `refresh = "timetable"` of the controller.
    #[serde(default)]
    pub timetable: Option<TimetableSection>,
    /// Servers, whose budgets tasks run in.
    #[serde(default, rename = "server", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerSection>,
    /// How bandwidth budgets are kept, where there are groups.
    #[serde(default)]
    pub bandwidth: Option<BandwidthSection>,
    /// Groups of cores or tasks with a bandwidth budget; all others are not regulated.
    #[serde(default, rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupEntry>,
    /// Who has a core when, with `scheduling = "table"` of the system.
    #[serde(default)]
    pub table: Option<TableSection>,
    /// The tasks, 1 to 256.
    #[serde(rename = "task")]
    pub tasks: Vec<TaskSection>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSection {
    /// Its name; unique.
    pub name: String,
    /// Core it is pinned to.
    #[serde(default)]
    pub core: Option<u32>,
    /// Or: cores it may run on, and move between; default: that of its server or of its slots in a table, or all.
    #[serde(default)]
    pub cores: Option<String>,
    /// Name of the server that it runs in, on its core and in its budget only. Default: none; on a core with servers it
    /// then runs in the background, while no server can.
    #[serde(default)]
    pub server: Option<String>,
    /// What it executes.
    pub workload: Workload,
    /// Who hands out its frames, of the same names as `system.allocator`; default: that one. Allocators share the machine's
    /// free memory, but know nothing of each other's tasks, and keep what is on their color lists.
    #[serde(default)]
    pub allocator: Option<AllocatorName>,
    /// Bank classes it may have; default: any. `camc` takes only their number and chooses by itself; it colors no task without.
    #[serde(default)]
    pub banks: Option<String>,
    /// Ranks it may have memory of, on every channel; default: any. Narrows `banks`.
    #[serde(default)]
    pub ranks: Option<String>,
    /// Name of a task before it that this is another instance of (a copy task): it has the same jobs, cores and workload, and
    /// memory of its own; each job is of the instance that meets no lock.
    #[serde(default)]
    pub copy_of: Option<String>,
    /// What it takes to copy the data when a job goes over to this instance; default 0. Without `globals` it costs just this time and
    /// causes no traffic.
    #[serde(default)]
    pub copy: Time,
    /// Data that are copied when a job goes over to this instance: the lines of the other's memory are read and those of this one's
    /// written, through the caches. The instance that had the job before does it when that is complete in time, if it has not
    /// copied for it itself and no lock of either falls into the time `copy` from then on; otherwise this instance does it before
    /// it goes on, and waits while one of the two is locked. Default 0.
    #[serde(default)]
    pub globals: ByteSize,
    /// Set colors it may have; default: any.
    #[serde(default)]
    pub sets: Option<String>,
    /// Nodes it may have memory of; default: any.
    #[serde(default)]
    pub nodes: Option<String>,
    /// Whether frames out of color are given when its colors are exhausted; default false.
    #[serde(default)]
    pub soft: bool,
    /// Ways of the last-level cache it may fill; default: all.
    #[serde(default)]
    pub ways: Option<String>,
    /// 2 MiB pages; default false.
    #[serde(default)]
    pub huge_pages: bool,
    /// Smaller is more urgent, for `fixed-priority`; default 0.
    #[serde(default)]
    pub priority: u32,
    /// References after which it is done; default: none.
    #[serde(default)]
    pub references: Option<u64>,
    /// Jobs, instead of one without end.
    #[serde(default)]
    pub job: Option<JobSection>,
    /// Tasks of the same group wait for each other.
    #[serde(default)]
    pub barrier: Option<BarrierSection>,
}

/// Periodic jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSection {
    /// Between two releases.
    pub period: Time,
    /// From the release; default: the period.
    #[serde(default)]
    pub deadline: Option<Time>,
    /// Of the first release; default 0.
    #[serde(default)]
    pub phase: Option<Time>,
    /// How much later a job may be released, at random, at most the period; default 0. Deadline and response count from
    /// when it should have been.
    #[serde(default)]
    pub jitter: Time,
    /// What a job executes.
    pub references: u64,
    /// Jobs at the beginning that are left out of all counts of jobs, for caches to fill; default 0.
    #[serde(default)]
    pub uncounted: u64,
    /// What becomes of a job that is not done by its deadline; default `finish`.
    #[serde(default)]
    pub late: Late,
}

/// What becomes of late jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// They are finished, and the next begins after them.
    #[default]
    Finish,
    /// They are given up at their deadline.
    GiveUp,
}

/// Barriers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarrierSection {
    /// Group.
    pub group: u32,
    /// References between two barriers.
    pub every: u64,
}

/// What a task executes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// A pointer chase over a randomly shuffled list.
    Latency {
        /// The list.
        size: ByteSize,
        /// Instructions between two loads; default 2.
        #[serde(default = "two")]
        gap: u32,
    },
    /// A walk through an array.
    Bandwidth {
        /// The array.
        size: ByteSize,
        /// Distance of two references; default 64.
        #[serde(default = "line")]
        step: ByteSize,
        /// Writes instead of reads; default false.
        #[serde(default)]
        write: bool,
        /// Instructions between two references; default 2.
        #[serde(default = "two")]
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
        /// By how much offsets grow; default 64.
        #[serde(default = "line")]
        step: ByteSize,
        /// Reads instead of writes; default false.
        #[serde(default)]
        read: bool,
    },
    /// Lines at random, that wait for nothing.
    Uniform {
        /// The memory.
        size: ByteSize,
        /// Of 1024 references, so many are writes; default 0.
        #[serde(default)]
        writes_per_1024: u32,
        /// Instructions between two references; default 2.
        #[serde(default = "two")]
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
        /// Thread of it; default 0.
        #[serde(default)]
        thread: u32,
    },
}

fn one() -> u64 {
    1
}
fn two() -> u32 {
    2
}
/// The most data that instances of a task copy.
const GLOBALS_MAX: ByteSize = ByteSize(1 << 30);

fn line() -> ByteSize {
    ByteSize(64)
}

/// Makes page frames, all or enough to verify.
type MakeFrames = fn(&Palette, &[u32]) -> Result<Arc<FrameMemory>, FrameError>;

/// What the channels of a machine have in common.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// How many there are.
    pub count: usize,
    /// Ranks, banks and rows of each.
    pub geometry: Geometry,
    /// Their timing.
    pub timing: Timing,
    /// The refresh that a checker can hold them to.
    pub duty: Option<RefreshCheck>,
}

/// A verified scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    file: ScenarioFile,
    origin: String,
    /// Directory that file names are relative to.
    base: PathBuf,
    platform: Platform,
    device: Device,
    seed: u64,
}

impl Scenario {
    /// Reads a scenario from a file.
    ///
    /// # Errors
    ///
    /// [`SimError`], with the file, the field, the value and what would be accepted.
    pub fn load(path: &Path) -> Result<Scenario, SimError> {
        let origin = path.display().to_string();
        let text = memtint_input::text(path, memtint_input::CONFIGURATION_BYTES_MAX)
            .map_err(|reason| SimError::Unreadable { origin: origin.clone(), reason })?;
        Scenario::parse(&text, &origin, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a scenario from text; names of files in it are relative to `base`.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn parse(text: &str, origin: &str, base: &Path) -> Result<Scenario, SimError> {
        let syntax =
            |reason: toml::de::Error| SimError::Syntax { origin: origin.to_owned(), reason: reason.to_string() };
        let file: ScenarioFile = toml::from_str(text).map_err(syntax)?;
        Scenario::from_file(file, origin, base)
    }

    /// Verifies a scenario.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn from_file(file: ScenarioFile, origin: &str, base: &Path) -> Result<Scenario, SimError> {
        let platform = if is_path(&file.platform) {
            Platform::load(&base.join(&file.platform).display().to_string())?
        } else {
            Platform::load(&file.platform)?
        };
        let standard = if is_path(&file.device) {
            Standard::load(&base.join(&file.device).display().to_string())?
        } else {
            Standard::load(&file.device)?
        };
        Scenario::on(file, platform, &standard, origin, base)
    }

    /// Verifies a scenario on a platform and with a standard that are at hand already; what the file calls them is not looked at.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn on(
        file: ScenarioFile,
        platform: Platform,
        standard: &Standard,
        origin: &str,
        base: &Path,
    ) -> Result<Scenario, SimError> {
        Check { origin }.that("schema", file.schema == SCHEMA, file.schema, "1")?;
        let choice = DeviceChoice { density_gbit: file.density_gbit, device_bits: file.device_bits, ranks: 1 };
        let device = standard.device(choice)?;
        let seed = file.seed;
        let scenario = Scenario { file, origin: origin.to_owned(), base: base.to_owned(), platform, device, seed };
        scenario.verify()?;
        Ok(scenario)
    }

    /// The same with changes to its file, verified again. Platform and device are read again only where the file then names
    /// others: for those who run many small scenarios that differ in their tasks.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn changed(&self, change: impl FnOnce(&mut ScenarioFile)) -> Result<Scenario, SimError> {
        let mut file = self.file.clone();
        change(&mut file);
        let read = |file: &ScenarioFile| {
            (file.schema, file.platform.clone(), file.device.clone(), file.density_gbit, file.device_bits)
        };
        if read(&file) != read(&self.file) {
            return Scenario::from_file(file, &self.origin, &self.base);
        }
        let seed = if file.seed == self.file.seed { self.seed } else { file.seed };
        let scenario = Scenario { file, seed, ..self.clone() };
        scenario.verify()?;
        Ok(scenario)
    }

    /// The same without bandwidth budgets.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn unregulated(&self) -> Result<Scenario, SimError> {
        self.changed(|file| {
            file.bandwidth = None;
            file.groups.clear();
        })
    }

    /// The file it came from.
    #[must_use]
    pub fn file(&self) -> &ScenarioFile {
        &self.file
    }

    /// Name of its file.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The devices on its channels.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The platform.
    #[must_use]
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Seed of everything random.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Scenario {
        self.seed = seed;
        self
    }

    /// The same with one task only, without barriers, servers and table; with its budget of bandwidth, and without
    /// sharing.
    #[must_use]
    pub fn alone(&self, task: usize) -> Scenario {
        let mut alone = self.clone();
        (alone.file.bandwidth, alone.file.groups) = self.bandwidth_alone(task);
        let section = &self.file.tasks[task];
        let job = self.job_of(section).cloned();
        alone.file.tasks = vec![TaskSection { barrier: None, copy_of: None, server: None, job, ..section.clone() }];
        alone.file.servers = Vec::new();
        if alone.file.table.take().is_some() {
            alone.file.system.scheduling = SchedulingName::default();
        }
        alone
    }

    /// The task that another is an instance of.
    fn original(&self, task: &TaskSection) -> Option<(usize, &TaskSection)> {
        let name = task.copy_of.as_ref()?;
        self.file.tasks.iter().enumerate().find(|(_, other)| other.name == *name)
    }

    /// The jobs of a task, which for another instance are those of the first.
    pub(crate) fn job_of<'a>(&'a self, task: &'a TaskSection) -> Option<&'a JobSection> {
        self.original(task).map_or(task, |(_, original)| original).job.as_ref()
    }

    fn cores(&self) -> u32 {
        let of_platform = self.platform.cores().map(|cores| cores.count);
        let of_servers = self.file.servers.iter().map(|server| server.core);
        let of_slots = self.file.table.iter().flat_map(TableSection::cores);
        let named = self.file.tasks.iter().filter_map(|task| task.core).chain(of_servers).chain(of_slots);
        self.file.cores.count.or(of_platform).unwrap_or(named.max().map_or(1, |last| last.saturating_add(1)))
    }

    /// The cores a task may run on.
    pub(crate) fn cores_of(&self, task: &TaskSection) -> Result<IndexSet, SimError> {
        let check = Check { origin: &self.origin };
        let refuse = |found: &str, error: &dyn std::fmt::Display| {
            check.refuse(&format!("task {:?}: cores", task.name), found, error.to_string())
        };
        let all = self.cores();
        let of_server = self.server_of(task)?.map(|(_, server)| server.core);
        let set = match (task.core.or(of_server).or(self.core_in_table(task)), &task.cores) {
            (Some(core), _) => {
                IndexSet::from_indices([core], all).map_err(|error| refuse(&core.to_string(), &error))?
            }
            (None, None) => IndexSet::all(all),
            (None, Some(text)) => IndexSet::parse(text, all).map_err(|error| refuse(text, &error))?,
        };
        if set.is_empty() { Err(refuse("no core", &format!("one or more of 0 to {}", all - 1))) } else { Ok(set) }
    }

    fn verify(&self) -> Result<(), SimError> {
        let check = Check { origin: &self.origin };
        let file = &self.file;
        check.that("duration", file.duration.0.0 > 0, file.duration.0, "more than 0 ns")?;
        check.that("cores.mhz", (1..=20_000).contains(&file.cores.mhz), file.cores.mhz, "1 to 20000")?;
        let counted = file.cores.count.unwrap_or(1);
        check.that("cores.count", (1..=CORES_MAX).contains(&counted), counted, format!("1 to {CORES_MAX}"))?;
        check.that("cores.width", (1..=16).contains(&file.cores.width), file.cores.width, "1 to 16")?;
        check.that("cores.window", file.cores.window <= 4096, file.cores.window, "0 to 4096")?;
        check.that("cores.mshrs", (1..=64).contains(&file.cores.mshrs), file.cores.mshrs, "1 to 64")?;
        check.that(
            "system.taken_per_1024",
            file.system.taken_per_1024 < 1024,
            file.system.taken_per_1024,
            "0 to 1023",
        )?;
        let gives_way = file.system.preemption
            || matches!(file.system.scheduling, SchedulingName::FixedPriority | SchedulingName::Edf)
                && file.servers.is_empty();
        let accepted = "true, unless system.scheduling is fixed-priority or edf and there is no server";
        check.that("system.preemption", gives_way, false, accepted)?;
        check.that("system.quantum", file.system.quantum.0.0 > 0, file.system.quantum.0, "more than 0 ns")?;
        let hop = file.numa.hop.map_or(Picoseconds(0), |hop| hop.0);
        check.that("numa.hop", hop <= SECOND, hop, "at most 1 s")?;
        check.that("system.fault", file.system.fault.0 <= SECOND, file.system.fault.0, "at most 1 s")?;
        check.that("numa.link_mb_per_s", file.numa.link_mb_per_s != Some(0), 0, "1 or more")?;
        let count = file.tasks.len();
        check.that("task", (1..=256).contains(&count), format!("a list of {count}"), "1 to 256 tasks")?;
        check.that("system.switch", file.system.switch.0 <= SECOND, file.system.switch.0, "at most 1 s")?;
        for task in &file.tasks {
            let field = format!("task {:?}: core", task.name);
            let core = task.core.unwrap_or(0);
            check.that(&field, core < CORES_MAX, core, format!("0 to {}", CORES_MAX - 1))?;
            check.that(&field, task.core.is_none() || task.cores.is_none(), "given beside cores", "one of the two")?;
        }
        for server in &file.servers {
            let accepted = format!("0 to {}", CORES_MAX - 1);
            check.that(&format!("server {:?}: core", server.name), server.core < CORES_MAX, server.core, accepted)?;
        }
        self.verify_table()?;
        let cores = self.cores();
        for (index, task) in file.tasks.iter().enumerate() {
            let of = |field: &str| format!("task {:?}: {field}", task.name);
            let first = file.tasks.iter().position(|other| other.name == task.name);
            check.that(&of("name"), first == Some(index), "used twice", "a name of its own")?;
            let core = task.core.unwrap_or(0);
            check.that(&of("core"), core < cores, core, format!("0 to {}", cores - 1))?;
            check.that(&of("references"), task.references != Some(0), 0, "1 or more")?;
            if let Some(barrier) = &task.barrier {
                check.that(&of("barrier.every"), barrier.every > 0, 0, "1 or more")?;
                check.that(&of("barrier"), task.job.is_none(), "given beside a job", "one of the two")?;
            }
            if let Some(job) = &task.job {
                check.that(&of("job.references"), job.references > 0, 0, "1 or more")?;
                check.that(&of("job.period"), job.period.0.0 > 0, job.period.0, "more than 0 ns")?;
                check.that(&of("job.jitter"), job.jitter.0 <= job.period.0, job.jitter.0, "at most the period")?;
                let deadline = job.deadline.unwrap_or(job.period).0;
                check.that(&of("job.deadline"), deadline.0 > 0, deadline, "more than 0 ns")?;
            }
        }
        self.verify_servers(cores)?;
        for (index, task) in file.tasks.iter().enumerate() {
            let Some(name) = &task.copy_of else { continue };
            let of = |field: &str| format!("task {:?}: {field}", task.name);
            let original = self.original(task).filter(|&(at, other)| at < index && other.copy_of.is_none());
            let Some((_, original)) = original.filter(|(_, other)| other.job.is_some()) else {
                let accepted = "a task before it that has jobs and is no copy itself";
                return Err(check.refuse(&of("copy_of"), format!("{name:?}"), accepted));
            };
            for section in [original, task] {
                let field = format!("task {:?}: globals", section.name);
                check.that(
                    &field,
                    section.globals <= GLOBALS_MAX,
                    section.globals,
                    format!("at most {GLOBALS_MAX}"),
                )?;
            }
            check.that(&of("job"), task.job.is_none(), "given beside copy_of", "one of the two")?;
            let same = self.cores_of(original)?.iter().eq(self.cores_of(task)?.iter());
            check.that(&of("cores"), same, "not those of the original", "the same cores")?;
        }
        // Everything else is refused by the part it concerns; page frames need not be as many for that.
        let sinks = vec![(); Decoder::new(&self.platform, &self.device.geometry)?.node_of_channel().len()];
        self.build(sinks, FrameMemory::sketch_of_palette).map(|_| ())
    }

    /// The machine's channels, for those who watch their commands.
    ///
    /// # Errors
    ///
    /// What the platform's mapping or the devices refuse.
    pub fn channels(&self) -> Result<Channels, SimError> {
        let decoder = Decoder::new(&self.platform, &self.device.geometry)?;
        let refresh = self.refresh()?;
        Ok(Channels {
            count: decoder.node_of_channel().len(),
            geometry: decoder.geometry(&self.device.geometry),
            timing: refresh.timing,
            duty: refresh.duty,
        })
    }

    /// Builds the machine with its tasks; nobody sees the commands.
    ///
    /// # Errors
    ///
    /// What a part refuses: a damaged trace file, say.
    pub fn machine(&self) -> Result<Machine, SimError> {
        let channels = Decoder::new(&self.platform, &self.device.geometry)?.node_of_channel().len();
        self.watched_machine(vec![(); channels])
    }

    /// Builds the machine with its tasks, and sinks for the commands of its [`Scenario::channels`].
    ///
    /// # Errors
    ///
    /// As [`Scenario::machine`].
    ///
    /// # Panics
    ///
    /// When there is not one sink for each channel.
    pub fn watched_machine<S: CommandSink>(&self, sinks: Vec<S>) -> Result<Machine<S>, SimError> {
        self.build(sinks, FrameMemory::of_palette)
    }

    fn build<S: CommandSink>(&self, sinks: Vec<S>, frames: MakeFrames) -> Result<Machine<S>, SimError> {
        let file = &self.file;
        let check = Check { origin: &self.origin };
        let cores = self.cores();
        let decoder = Decoder::new(&self.platform, &self.device.geometry)?;
        let nodes = decoder.node_of_channel().iter().max().map_or(1, |&last| last + 1);
        let core_nodes = match &file.numa.core_nodes {
            Some(list) => list.clone(),
            None => (0..cores).map(|core| core * nodes / cores).collect(),
        };
        check.that(
            "numa.core_nodes",
            core_nodes.len() == cores as usize,
            core_nodes.len(),
            format!("a list of {cores}"),
        )?;
        if let Some(&bad) = core_nodes.iter().find(|&&node| node >= nodes) {
            return check.that("numa.core_nodes", false, bad, format!("0 to {}", nodes - 1)).map(|()| unreachable!());
        }
        let one_apart = (0..nodes).map(|from| (0..nodes).map(|to| u32::from(from != to)).collect()).collect();
        let hops: Vec<Vec<u32>> = file.numa.hops.clone().unwrap_or(one_apart);
        let square = hops.len() == nodes as usize && hops.iter().all(|row| row.len() == nodes as usize);
        let sound = square
            && (0..)
                .zip(&hops)
                .all(|(from, row)| (0..).zip(row).all(|(to, &hops)| (hops == 0) == (from == to) && hops <= HOPS_MAX));
        let accepted = format!("{nodes} lists of {nodes} numbers, 0 for itself, 1 to {HOPS_MAX} for others");
        check.that("numa.hops", sound, format!("{hops:?}"), accepted)?;
        let palette = Palette::new(&self.platform, self.granule())?;
        let names = self.allocators();
        let memory = frames(&palette, &core_nodes)?;
        let systems = names.iter().map(|&name| self.system(name, &memory)).collect::<Result<_, _>>()?;
        let mut allocators = Shared::new(systems)?;
        // The machine's is the first where frames are taken.
        take_some(&mut allocators.member(0), file.system.taken_per_1024, self.seed)?;
        let megahertz = u64::from(file.cores.mhz);
        let tasks = file.tasks.iter().enumerate();
        let tasks = tasks
            .map(|(index, task)| self.task(index, task, &palette, &decoder))
            .collect::<Result<Vec<_>, SimError>>()?;
        let (controller, device) = self.controller()?;
        let ranks = decoder.geometry(&device.geometry).ranks;
        let soft_refresh = self.soft_refresh(ranks)?;
        let link = u64::from(file.numa.link_mb_per_s.unwrap_or(12_800));
        let burst_bytes = u64::from(decoder.geometry(&device.geometry).burst_bytes());
        let caches = self.caches(cores)?;
        let regulators = self.regulators(&palette, caches.line.bytes())?;
        let machine = Machine::new(
            MachineConfig {
                controller,
                caches,
                core: CoreConfig {
                    clock: Clock::from_khz(megahertz * 1000).expect("checked above"),
                    width: file.cores.width,
                    model: match file.cores.window {
                        0 => CoreModel::InOrder,
                        window => CoreModel::Windowed { window },
                    },
                    mshrs: file.cores.mshrs,
                },
                core_nodes,
                numa: NumaConfig {
                    hop: file.numa.hop.map_or(Picoseconds::from_ns(50), |hop| hop.0),
                    hops: hops.into_iter().flatten().collect(),
                    // Bytes over megabytes a second are microseconds.
                    burst_time: Picoseconds((burst_bytes * 1_000_000).div_ceil(link)),
                },
                allocators,
                fault: file.system.fault.0,
                switch: file.system.switch.0,
                preemption: file.system.preemption,
                soft_refresh,
                servers: self.servers(ranks)?,
                table: self.table(),
                regulation: regulators.map(|regulators| regulators.config),
                scheduling: match file.system.scheduling {
                    SchedulingName::FixedPriority => Scheduling::FixedPriority,
                    SchedulingName::Edf => Scheduling::EarliestDeadline,
                    SchedulingName::Table => Scheduling::Table,
                    SchedulingName::RoundRobin => Scheduling::RoundRobin { quantum: file.system.quantum.0 },
                },
                decoder,
                device,
            },
            tasks,
            sinks,
        );
        machine.map_err(|error| match error {
            SimError::Policy { task, reason } => self.refused(self.allocator_of(&file.tasks[task]), Some(task), reason),
            other => other,
        })
    }

    fn granule(&self) -> Granule {
        self.file.granule.unwrap_or_default()
    }

    fn caches(&self, cores: u32) -> Result<HierarchyConfig, SimError> {
        let file = &self.file;
        let check = Check { origin: &self.origin };
        if let Some(line) = file.caches.line.filter(|_| file.caches.l1.is_none() || file.caches.llc.is_none()) {
            return Err(check.refuse("caches.line", line, "nothing, unless caches.l1 and caches.llc are given"));
        }
        let mut caches = match &file.caches.l1 {
            None => HierarchyConfig::from_platform(&self.platform, cores)?,
            Some(l1) => self.caches_of_scenario(l1, cores)?,
        };
        caches.classes = file.tasks.len() as u32;
        caches.seed = self.seed;
        let replacement = replacement(file.caches.replacement);
        caches.l1_data.replacement = replacement;
        caches.llc.cache.replacement = replacement;
        for cache in [&mut caches.l1_instruction, &mut caches.l2].into_iter().flatten() {
            cache.replacement = replacement;
        }
        caches.prefetch.next_line = file.caches.next_line;
        caches.prefetch.stride = file.caches.stride.then_some(StrideConfig { streams: 16, confidence: 2, degree: 2 });
        if let Some([l1, l2, llc, peer, memory]) = file.caches.latency_cycles {
            let latencies = &mut caches.latencies;
            (latencies.l1_cycles, latencies.l2_cycles, latencies.llc_cycles) = (l1, l2, llc);
            (latencies.peer_cycles, latencies.memory_cycles) = (peer, memory);
            latencies.source = format!("scenario {:?}", self.origin);
        }
        if file.tasks.iter().any(|task| task.ways.is_some()) {
            let ways = caches.llc.cache.ways;
            let mask = |task: &TaskSection| -> Result<WayMask, SimError> {
                let text = task.ways.as_deref().unwrap_or("all");
                let set = IndexSet::parse(text, ways)
                    .map_err(|error| check.refuse(&format!("task {:?}: ways", task.name), text, error))?;
                Ok(WayMask((0..ways).filter(|&way| set.contains(way)).fold(0, |mask, way| mask | 1 << way)))
            };
            caches.llc.way_masks = file.tasks.iter().map(mask).collect::<Result<_, _>>()?;
        }
        Ok(caches)
    }

    /// Private caches that the scenario describes, and the last level of the scenario or the platform.
    fn caches_of_scenario(&self, l1: &CacheSize, cores: u32) -> Result<HierarchyConfig, SimError> {
        let section = &self.file.caches;
        let cache = |size: &CacheSize| CacheConfig {
            size: size.size,
            ways: size.ways,
            set_bits: Vec::new(),
            replacement: replacement(section.replacement),
            mshrs: self.file.cores.mshrs,
        };
        let llc = match &section.llc {
            None => LlcConfig::from_platform(&self.platform)?,
            Some(size) => LlcConfig {
                cache: cache(&CacheSize { size: size.size, ways: size.ways }),
                slice_functions: Vec::new(),
                instances: size.instances,
                inclusion: match size.inclusion {
                    Inclusion::Inclusive => memtint_cache::Inclusion::Inclusive,
                    Inclusion::NonInclusive => memtint_cache::Inclusion::NonInclusive,
                    Inclusion::Exclusive => memtint_cache::Inclusion::Exclusive,
                },
                inclusion_source: format!("scenario {:?}", self.origin),
                way_masks: Vec::new(),
            },
        };
        let check = Check { origin: &self.origin };
        let Some([l1_cycles, l2_cycles, llc_cycles, peer_cycles, memory_cycles]) = section.latency_cycles else {
            return Err(check.refuse("caches.latency_cycles", "absent", "five numbers, as caches.l1 is given"));
        };
        Ok(HierarchyConfig {
            line: section.line.unwrap_or(self.platform.llc().map_or(ByteSize(64), |llc| llc.line)),
            cores,
            classes: 1,
            l1_data: cache(l1),
            l1_instruction: None,
            l2: section.l2.as_ref().map(cache),
            llc,
            coherent: true,
            prefetch: PrefetchConfig::default(),
            latencies: Latencies {
                l1_cycles,
                l2_cycles,
                llc_cycles,
                peer_cycles,
                memory_cycles,
                source: format!("scenario {:?}", self.origin),
            },
            address_end: self.platform.regions().iter().map(|region| region.end().0).max().unwrap_or_default(),
            seed: self.seed,
        })
    }

    fn refresh(&self) -> Result<RefreshPlan, SimError> {
        let check = Check { origin: &self.origin };
        let name = self.file.controller.refresh.as_deref().unwrap_or("staggered");
        if name == "timetable" {
            let duty = Some(RefreshCheck::window_only(&self.device, 0));
            return Ok(RefreshPlan { kind: RefreshKind::None, timing: self.device.timing, duty });
        }
        RefreshPlan::named(name, &self.device).map_err(|error| match error {
            DramError::Field { found, accepted, .. } => {
                check.refuse("controller.refresh", found, accepted + ", timetable")
            }
            other => other.into(),
        })
    }

    /// The ranks that the granules of each bank class lie in, one bit each.
    fn ranks_of_classes(&self, palette: &Palette, decoder: &Decoder) -> Vec<u64> {
        let geometry = decoder.geometry(&self.device.geometry);
        let mut ranks = vec![0u64; palette.bank_classes() as usize];
        let mut left = palette.granules_of_bank_classes().iter().filter(|&&granules| granules > 0).count();

        // A class touches the same banks in each of its granules: one of them tells.
        for region in self.platform.regions() {
            let (mut at, step) = (region.base.0, palette.granule().bytes());
            while at < region.end().0 && left > 0 {
                let addr = memtint_units::PhysAddr(at);
                if let Some(mask) = palette.bank_class(addr).map(|class| &mut ranks[class as usize])
                    && *mask == 0
                {
                    let bursts = (at..at + step).step_by(geometry.burst_bytes() as usize);
                    let places = bursts.filter_map(|addr| decoder.place(memtint_units::PhysAddr(addr)));
                    *mask = places.fold(0, |mask, place| mask | 1 << (place.bank / geometry.banks_per_rank()));
                    left -= usize::from(*mask != 0);
                }
                at += step;
            }
        }
        ranks
    }

    /// The controllers, and the devices with the timing that goes with their refresh.
    fn controller(&self) -> Result<(ControllerConfig, Device), SimError> {
        let section = &self.file.controller;
        let plan = self.refresh()?;
        let device = Device { timing: plan.timing, ..self.device.clone() };
        let default = ControllerConfig::default();
        let write_queue = section.write_queue.unwrap_or(default.write_queue);
        let config = ControllerConfig {
            read_queue: section.read_queue.unwrap_or(default.read_queue),
            write_queue,
            sharing: if section.queue_per_bank { QueueSharing::PerBank } else { QueueSharing::Shared },
            drain_at: section.drain_at.unwrap_or((write_queue - write_queue / 5).max(1)),
            drain_to: section.drain_to.unwrap_or(write_queue / 5),
            scheduler: match section.scheduler.unwrap_or(SchedulerName::FrFcfs) {
                SchedulerName::Fcfs => Scheduler::Fcfs,
                SchedulerName::FrFcfs => Scheduler::FrFcfs { cap: Some(section.cap.unwrap_or(16)) },
                SchedulerName::ParBs => Scheduler::ParBs { marking_cap: section.cap.unwrap_or(5) },
            },
            page_policy: match section.page.unwrap_or(PageName::Open) {
                PageName::Open => PagePolicy::Open,
                PageName::Closed => PagePolicy::Closed,
                PageName::Timeout => PagePolicy::Timeout(section.timeout_cycles.unwrap_or(100)),
            },
            refresh: plan.kind,
        };
        Ok((config, device))
    }

    /// Who hands out a task's frames.
    pub(crate) fn allocator_of(&self, task: &TaskSection) -> AllocatorName {
        task.allocator.unwrap_or(self.file.system.allocator)
    }

    /// The allocators that somebody has frames of: the machine's, if so, and those of tasks in the order of the tasks.
    fn allocators(&self) -> Vec<AllocatorName> {
        let of_machine = self.file.system.allocator;
        let of_tasks = self.file.tasks.iter().map(|task| self.allocator_of(task));
        let used = self.file.system.taken_per_1024 > 0 || of_tasks.clone().any(|name| name == of_machine);
        let mut names = if used { vec![of_machine] } else { Vec::new() };
        for name in of_tasks {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// What an allocator refuses, with the field that names it: of a task, or of the first that has it.
    fn refused(&self, name: AllocatorName, task: Option<usize>, reason: FrameError) -> SimError {
        let mut tasks = self.file.tasks.iter();
        let task = match task {
            Some(index) => self.file.tasks.get(index),
            None => tasks.find(|task| task.allocator == Some(name)).filter(|_| name != self.file.system.allocator),
        };
        let field = task.map_or("system.allocator".to_owned(), |task| format!("task {:?}: allocator", task.name));
        SimError::Allocator { origin: self.origin.clone(), field, allocator: name.name(), reason: Box::new(reason) }
    }

    fn system(&self, name: AllocatorName, memory: &Arc<FrameMemory>) -> Result<Box<dyn Tenant>, SimError> {
        let per_cpu = Some(PerCpu::LINUX_3_6);
        let refuse = |reason| self.refused(name, None, reason);
        Ok(match name {
            AllocatorName::Buddy => Box::new(Buddy::new(memory, per_cpu)),
            AllocatorName::Palloc => Box::new(Palloc::new(memory, per_cpu, Pick::default())),
            AllocatorName::Bpm => Box::new(Bpm::new(memory).map_err(refuse)?),
            AllocatorName::Camc => {
                let mut camc = Camc::new(memory, per_cpu, Form::default());
                camc.register_user(COLORED_USER);
                camc.add_pattern("*");
                Box::new(camc)
            }
            AllocatorName::Tintmalloc => {
                Box::new(TintMalloc::new(memory, MemIds::dense(memory), Form::default()).map_err(refuse)?)
            }
            AllocatorName::Hybrid => Box::new(Hybrid::new(memory, per_cpu)),
            AllocatorName::Tinted => Box::new(Tinted::new(memory)),
        })
    }

    fn task(
        &self,
        index: usize,
        task: &TaskSection,
        palette: &Palette,
        decoder: &Decoder,
    ) -> Result<TaskConfig, SimError> {
        let check = Check { origin: &self.origin };
        let list = |field: &str, text: &Option<String>, count: u32| {
            let parse = |text: &String| {
                IndexSet::parse(text, count)
                    .map_err(|error| check.refuse(&format!("task {:?}: {field}", task.name), text, error))
            };
            text.as_ref().map(parse).transpose()
        };
        let nodes = self.platform.domains().iter().map(|domain| domain.node + 1).max().unwrap_or(1);
        let mut banks = list("banks", &task.banks, palette.bank_classes())?;
        let mut ranks = u64::MAX;
        let ranks_end = decoder.geometry(&self.device.geometry).ranks;
        let server = self.server_of(task)?;
        let of_server = server.map(|(_, server)| self.ranks_of_server(server, ranks_end)).transpose()?.flatten();
        if self.file.timetable.is_some() || task.ranks.is_some() || of_server.is_some() {
            let of_classes = self.ranks_of_classes(palette, decoder);
            if let Some(wanted) = list("ranks", &task.ranks, ranks_end)? {
                let wanted = wanted.iter().fold(0, |mask, rank| mask | 1u64 << rank);
                let lies = |&class: &u32| {
                    let ranks = of_classes[class as usize];
                    ranks != 0 && ranks & !wanted == 0 && banks.as_ref().is_none_or(|banks| banks.contains(class))
                };
                let classes = (0..palette.bank_classes()).filter(lies);
                let narrowed = IndexSet::from_indices(classes, palette.bank_classes())
                    .map_err(|error| check.refuse(&format!("task {:?}: ranks", task.name), "unusable", error))?;
                if narrowed.is_empty() {
                    let accepted = "ranks that some of the task's bank classes lie in and no other rank";
                    return Err(check.refuse(
                        &format!("task {:?}: ranks", task.name),
                        format!("{:?}", task.ranks),
                        accepted,
                    ));
                }
                banks = Some(narrowed);
            }
            let has = |class: u32| banks.as_ref().is_none_or(|banks| banks.contains(class));
            ranks = (0..).zip(&of_classes).filter(|&(class, _)| has(class)).fold(0, |mask, (_, ranks)| mask | ranks);
        }
        if let Some((_, server)) = server.filter(|_| ranks & !of_server.unwrap_or(u64::MAX) != 0) {
            let (found, accepted) = (task.ranks.as_deref().unwrap_or("any"), server.ranks.as_deref().unwrap_or("any"));
            let accepted = format!("some of {accepted}, those of its server {:?}", server.name);
            return Err(check.refuse(&format!("task {:?}: ranks", task.name), found, accepted));
        }
        let policy = Policy {
            banks,
            sets: list("sets", &task.sets, palette.set_colors())?,
            nodes: list("nodes", &task.nodes, nodes)?,
            mode: if task.soft { Mode::Soft } else { Mode::Strict },
        };
        let allocator = self.allocator_of(task);
        let user = if task.banks.is_some() || task.ranks.is_some() { COLORED_USER } else { PLAIN_USER };
        let original = self.original(task).map_or(index, |(original, _)| original);
        Ok(TaskConfig {
            cores: self.cores_of(task)?.iter().map(|core| core as usize).collect(),
            allocator: self.allocators().iter().position(|&name| name == allocator).expect("it has a task"),
            profile: Profile { policy, user, path: task.name.clone(), ..Profile::default() },
            priority: task.priority,
            release: self.job_of(task).map(|job| Release {
                phase: job.phase.map_or(Picoseconds(0), |phase| phase.0),
                period: job.period.0,
                deadline: job.deadline.unwrap_or(job.period).0,
                references_per_job: job.references,
                gives_up: job.late == Late::GiveUp,
                uncounted: job.uncounted,
                jitter: job.jitter.0,
                seed: self.seed.wrapping_add(original as u64),
            }),
            ranks,
            server: server.map(|(index, _)| index),
            copy_of: task.copy_of.as_ref().map(|_| original),
            copy: task.copy.0,
            globals: task.globals,
            barrier: task.barrier.as_ref().map(|barrier| Barrier { group: barrier.group, every: barrier.every }),
            references: task.references,
            huge_pages: task.huge_pages,
            source: self.source(&task.workload, self.seed.wrapping_add(original as u64))?,
        })
    }

    fn source(&self, workload: &Workload, seed: u64) -> Result<Box<dyn Source>, SimError> {
        let kind = |write: bool| if write { Kind::Write } else { Kind::Read };
        Ok(match *workload {
            Workload::Latency { size, gap } => {
                Box::new(Latency::new(&LatencyParameters { region: Region::of(size), gap, seed })?)
            }
            Workload::Bandwidth { size, step, write, gap } => Box::new(Bandwidth::new(&BandwidthParameters {
                region: Region::of(size),
                step_bytes: step.bytes(),
                kind: kind(write),
                gap,
            })?),
            Workload::Stream { size } => {
                let parameters =
                    StreamParameters { region: Region::of(size), ..StreamParameters::for_cache(ByteSize(1)) };
                Box::new(Stream::new(&parameters)?)
            }
            Workload::Strides { size, step, read } => Box::new(Strides::new(&StridesParameters {
                region: Region::of(size),
                step_bytes: step.bytes(),
                kind: kind(!read),
                ..StridesParameters::camc()
            })?),
            Workload::Uniform { size, writes_per_1024, gap } => {
                Box::new(Uniform::new(&UniformParameters { region: Region::of(size), writes_per_1024, gap, seed })?)
            }
            Workload::Program { ref model } => catalogue::find(model)?.source(seed)?,
            Workload::Trace { ref file, thread } => Box::new(TraceFile::open(&self.base.join(file))?.source(thread)),
        })
    }
}

fn replacement(name: Replacement) -> memtint_cache::Replacement {
    match name {
        Replacement::Lru => memtint_cache::Replacement::Lru,
        Replacement::TreePlru => memtint_cache::Replacement::TreePlru,
        Replacement::Random => memtint_cache::Replacement::Random,
    }
}

/// A name with a slash, or one that ends in .toml, is a file.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// Others have some of the memory already.
fn take_some(allocator: &mut dyn FrameAllocator, per_1024: u32, seed: u64) -> Result<(), SimError> {
    if per_1024 == 0 {
        return Ok(());
    }
    let others =
        allocator.enter(&Profile { policy: Policy::any(), path: "others".to_owned(), ..Profile::default() })?;
    let caller = memtint_frames::Caller { task: others, cpu: 0 };
    let frames = allocator.counts().frames;
    // All frames, in the allocator's order, and all but some of them back: what is kept is spread evenly.
    let mut kept = Vec::new();
    for index in 0..frames {
        let Ok(frame) = allocator.allocate(caller) else { break };
        kept.push((memtint_units::random::at(seed, index) % 1024, frame));
    }
    for (draw, frame) in kept {
        if draw >= u64::from(per_1024) {
            allocator.free(caller, frame)?;
        }
    }
    allocator.flush();
    Ok(())
}

/// Refuses with the name of the file.
struct Check<'a> {
    origin: &'a str,
}

impl Check<'_> {
    fn that(&self, field: &str, holds: bool, found: impl ToString, accepted: impl ToString) -> Result<(), SimError> {
        if holds { Ok(()) } else { Err(self.refuse(field, found, accepted)) }
    }

    fn refuse(&self, field: &str, found: impl ToString, accepted: impl ToString) -> SimError {
        SimError::Field {
            origin: self.origin.to_owned(),
            field: field.to_owned(),
            found: found.to_string(),
            accepted: accepted.to_string(),
        }
    }
}
