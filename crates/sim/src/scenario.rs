//! Scenarios: the machine, the tasks and the measurements that a system file describes.

mod bandwidth;
mod build;
mod server;
mod spec;
mod system;
mod table;
mod timetable;
mod written;

pub(crate) use self::bandwidth::Regulators;
use self::build::is_path;
pub use self::server::ScenarioServer;
pub use self::spec::{Late, ScenarioBarrier, ScenarioJob, ScenarioSpec, ScenarioTask, Workload};
pub use memtint_system::{
    AllocatorName, BandwidthSection, BudgetKind, CacheSection, CacheSize, ControllerSection, CoreSection, Counted,
    GroupEntry, Inclusion, LastLevelSize, NumaSection, PageName, PredictorName, Replacement, SchedulerName,
    SchedulingName, SharingName, SlotSection, SystemSection, TableSection, Time, TimetableSection, WindowSection,
};

use crate::error::SimError;
use memtint_dram::{Decoder, Device, DeviceChoice, Geometry, RefreshCheck, Standard, Timing};
use memtint_frames::FrameMemory;
use memtint_map::Platform;
use memtint_system::SystemFile;
use memtint_units::{ByteSize, IndexSet, Picoseconds};
use std::path::{Path, PathBuf};

/// At most this many cores.
pub const CORES_MAX: u32 = 1024;
const SECOND: Picoseconds = Picoseconds(1_000_000_000_000);
/// At most this many hops between two nodes.
const HOPS_MAX: u32 = 16;
/// User of the tasks with bank classes, which CAMC colors, and user of all others.
const COLORED_USER: u32 = 1;
const PLAIN_USER: u32 = 0;

/// The most data that instances of a task copy.
const GLOBALS_MAX: ByteSize = ByteSize(1 << 30);

/// Common properties of the channels of a machine.
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
    spec: ScenarioSpec,
    origin: String,
    /// Directory that file names are relative to.
    base: PathBuf,
    platform: Platform,
    device: Device,
    seed: u64,
}

impl Scenario {
    /// Reads the scenario of a system file.
    ///
    /// # Errors
    ///
    /// [`SimError`], with the file, the field, the value found and the values accepted.
    pub fn load(path: &Path) -> Result<Scenario, SimError> {
        Scenario::of_system(&SystemFile::load(path)?, path)
    }

    /// Reads the scenario of a system file's text; names of files in it are relative to the folder of `path`.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Scenario, SimError> {
        Scenario::of_system(&SystemFile::parse(text, &format!("{path:?}"))?, path)
    }

    /// Verifies a scenario; names of files in it are relative to `base`.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn of_spec(spec: ScenarioSpec, origin: &str, base: &Path) -> Result<Scenario, SimError> {
        let named = |name: &str| if is_path(name) { base.join(name).display().to_string() } else { name.to_owned() };
        let platform = Platform::load(&named(&spec.platform))?;
        let standard = Standard::load(&named(&spec.device))?;
        Scenario::on(spec, platform, &standard, origin, base)
    }

    /// Verifies a scenario with a given platform and standard; their names in it are ignored.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn on(
        spec: ScenarioSpec,
        platform: Platform,
        standard: &Standard,
        origin: &str,
        base: &Path,
    ) -> Result<Scenario, SimError> {
        let choice = DeviceChoice { density_gbit: spec.density_gbit, device_bits: spec.device_bits, ranks: 1 };
        let device = standard.device(choice)?;
        let seed = spec.seed;
        let scenario = Scenario { spec, origin: origin.to_owned(), base: base.to_owned(), platform, device, seed };
        scenario.verify()?;
        Ok(scenario)
    }

    /// The same with changes, verified again. Platform and device are read again only where they have other names then: for
    /// many small scenarios that differ in their tasks.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn changed(&self, change: impl FnOnce(&mut ScenarioSpec)) -> Result<Scenario, SimError> {
        let mut spec = self.spec.clone();
        change(&mut spec);
        let read =
            |spec: &ScenarioSpec| (spec.platform.clone(), spec.device.clone(), spec.density_gbit, spec.device_bits);
        if read(&spec) != read(&self.spec) {
            return Scenario::of_spec(spec, &self.origin, &self.base);
        }
        let seed = if spec.seed == self.spec.seed { self.seed } else { spec.seed };
        let scenario = Scenario { spec, seed, ..self.clone() };
        scenario.verify()?;
        Ok(scenario)
    }

    /// The same without bandwidth budgets.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`].
    pub fn unregulated(&self) -> Result<Scenario, SimError> {
        self.changed(|spec| {
            spec.bandwidth = None;
            spec.groups.clear();
        })
    }

    /// The verified description.
    #[must_use]
    pub fn spec(&self) -> &ScenarioSpec {
        &self.spec
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
        (alone.spec.bandwidth, alone.spec.groups) = self.bandwidth_alone(task);
        let section = &self.spec.tasks[task];
        let job = self.job_of(section).cloned();
        alone.spec.tasks = vec![ScenarioTask { barrier: None, copy_of: None, server: None, job, ..section.clone() }];
        alone.spec.servers = Vec::new();
        if alone.spec.table.take().is_some() {
            alone.spec.system.scheduling = SchedulingName::default();
        }
        alone
    }

    /// The task that another is an instance of.
    fn original(&self, task: &ScenarioTask) -> Option<(usize, &ScenarioTask)> {
        let name = task.copy_of.as_ref()?;
        self.spec.tasks.iter().enumerate().find(|(_, other)| other.name == *name)
    }

    /// The jobs of a task, which for another instance are those of the first.
    pub(crate) fn job_of<'a>(&'a self, task: &'a ScenarioTask) -> Option<&'a ScenarioJob> {
        self.original(task).map_or(task, |(_, original)| original).job.as_ref()
    }

    fn cores(&self) -> u32 {
        let of_platform = self.platform.cores().map(|cores| cores.count);
        let of_servers = self.spec.servers.iter().map(|server| server.core);
        let of_slots = self.spec.table.iter().flat_map(TableSection::cores);
        let named = self.spec.tasks.iter().filter_map(|task| task.core).chain(of_servers).chain(of_slots);
        self.spec.cores.count.or(of_platform).unwrap_or(named.max().map_or(1, |last| last.saturating_add(1)))
    }

    /// The cores a task may run on.
    pub(crate) fn cores_of(&self, task: &ScenarioTask) -> Result<IndexSet, SimError> {
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
        let spec = &self.spec;
        check.that("simulation.duration", spec.duration.0.0 > 0, spec.duration.0, "more than 0 ns")?;
        check.that("simulation.cores.mhz", (1..=20_000).contains(&spec.cores.mhz), spec.cores.mhz, "1 to 20000")?;
        let counted = spec.cores.count.unwrap_or(1);
        check.that(
            "simulation.cores.count",
            (1..=CORES_MAX).contains(&counted),
            counted,
            format!("1 to {CORES_MAX}"),
        )?;
        check.that("simulation.cores.width", (1..=16).contains(&spec.cores.width), spec.cores.width, "1 to 16")?;
        check.that("simulation.cores.window", spec.cores.window <= 4096, spec.cores.window, "0 to 4096")?;
        check.that("simulation.cores.mshrs", (1..=64).contains(&spec.cores.mshrs), spec.cores.mshrs, "1 to 64")?;
        check.that(
            "simulation.system.taken_per_1024",
            spec.system.taken_per_1024 < 1024,
            spec.system.taken_per_1024,
            "0 to 1023",
        )?;
        let gives_way = spec.system.preemption
            || matches!(spec.system.scheduling, SchedulingName::FixedPriority | SchedulingName::Edf)
                && spec.servers.is_empty();
        let accepted = "true, unless simulation.system.scheduling is fixed-priority or edf and there is no server";
        check.that("simulation.system.preemption", gives_way, false, accepted)?;
        check.that(
            "simulation.system.quantum",
            spec.system.quantum.0.0 > 0,
            spec.system.quantum.0,
            "more than 0 ns",
        )?;
        let hop = spec.numa.hop.map_or(Picoseconds(0), |hop| hop.0);
        check.that("simulation.numa.hop", hop <= SECOND, hop, "at most 1 s")?;
        check.that("simulation.system.fault", spec.system.fault.0 <= SECOND, spec.system.fault.0, "at most 1 s")?;
        check.that("simulation.numa.link_mb_per_s", spec.numa.link_mb_per_s != Some(0), 0, "1 or more")?;
        let count = spec.tasks.len();
        check.that("task", (1..=256).contains(&count), format!("a list of {count}"), "1 to 256 tasks")?;
        check.that("simulation.system.switch", spec.system.switch.0 <= SECOND, spec.system.switch.0, "at most 1 s")?;
        for task in &spec.tasks {
            let field = format!("task {:?}: cores", task.name);
            let core = task.core.unwrap_or(0);
            check.that(&field, core < CORES_MAX, core, format!("0 to {}", CORES_MAX - 1))?;
            check.that(&field, task.core.is_none() || task.cores.is_none(), "both core and cores", "one of the two")?;
        }
        for server in &spec.servers {
            let accepted = format!("0 to {}", CORES_MAX - 1);
            check.that(&format!("server {:?}: core", server.name), server.core < CORES_MAX, server.core, accepted)?;
        }
        self.verify_table()?;
        let cores = self.cores();
        for (index, task) in spec.tasks.iter().enumerate() {
            let of = |field: &str| format!("task {:?}: {field}", task.name);
            let first = spec.tasks.iter().position(|other| other.name == task.name);
            check.that(&of("name"), first == Some(index), "used twice", "a unique name")?;
            let core = task.core.unwrap_or(0);
            check.that(&of("cores"), core < cores, core, format!("0 to {}", cores - 1))?;
            check.that(&of("references"), task.references != Some(0), 0, "1 or more")?;
            if let Some(barrier) = &task.barrier {
                check.that(&of("barrier.every"), barrier.every > 0, 0, "1 or more")?;
                check.that(&of("barrier"), task.job.is_none(), "given beside a job", "one of the two")?;
            }
            if let Some(job) = &task.job {
                check.that(&of("references"), job.references > 0, 0, "1 or more")?;
                check.that(&of("period"), job.period.0.0 > 0, job.period.0, "more than 0 ns")?;
                check.that(&of("jitter"), job.jitter.0 <= job.period.0, job.jitter.0, "at most the period")?;
                let deadline = job.deadline.unwrap_or(job.period).0;
                check.that(&of("deadline"), deadline.0 > 0, deadline, "more than 0 ns")?;
            }
        }
        self.verify_servers(cores)?;
        for (index, task) in spec.tasks.iter().enumerate() {
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
