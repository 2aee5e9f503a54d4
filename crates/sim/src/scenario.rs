//! Scenario files: a machine, its tasks, and what is to be found out.

mod bandwidth;
mod build;
mod file;
mod server;
mod system;
mod table;
mod timetable;
mod written;

pub(crate) use self::bandwidth::Regulators;
use self::build::is_path;
pub use self::file::{BarrierSection, JobSection, Late, ScenarioFile, TaskSection, Workload};
pub use self::server::ServerSection;
pub use memtint_system::{
    AllocatorName, BandwidthSection, BudgetKind, CacheSection, CacheSize, ControllerSection, CoreSection, Counted,
    GroupEntry, Inclusion, LastLevelSize, NumaSection, PageName, PredictorName, Replacement, SchedulerName,
    SchedulingName, SharingName, SlotSection, SystemSection, TableSection, Time, TimetableSection, WindowSection,
};

use crate::error::SimError;
use memtint_dram::{Decoder, Device, DeviceChoice, Geometry, RefreshCheck, Standard, Timing};
use memtint_frames::FrameMemory;
use memtint_map::Platform;
use memtint_units::{ByteSize, IndexSet, Picoseconds};
use std::path::{Path, PathBuf};

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

/// The most data that instances of a task copy.
const GLOBALS_MAX: ByteSize = ByteSize(1 << 30);

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
