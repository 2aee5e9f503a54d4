//! From a task set and a scheme to a scenario of the simulator.
//!
//! In every scheme a task has memory of as many ranks as it asks for, so that the latency of its requests depends on
//! the scheme only through refresh: under servers ranks of its color, in a cyclic executive those of its instance, else
//! the next ones in turn.

use std::path::Path;

use memtint_analysis::{Inside, MemorySpec, TaskSystem};
use memtint_hiding::crs::Kind;
use memtint_sched::{Priorities, TaskIndex, TaskSet};
use memtint_sim::scenario::{
    CoreSection, Late, NumaSection, ScenarioJob, ScenarioServer, ScenarioSpec, ScenarioTask, SchedulingName,
    SystemSection, Time, TimetableSection, WindowSection, Workload,
};
use memtint_sim::{Scenario, ServerKind, ServerScheduling};
use memtint_units::{ByteSize, IndexSet, Picoseconds};

use crate::job::globals;
use crate::machine::{Hardware, MHZ, turns};
use crate::{Executed, Job, RefreshError, Scheme};

/// A moment beyond the last job, in which it can end.
const AFTER: Picoseconds = Picoseconds(1_000_000);

/// The time of this number of slots of a core.
pub(crate) fn of_slots(slots: u64) -> Picoseconds {
    Picoseconds(slots.saturating_mul(1_000_000 / u64::from(MHZ)))
}

/// The work of a job of a task.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) workload: Executed,
    pub(crate) references: u64,
}

/// An instance of a task, of which most have one only.
pub(crate) struct Instance {
    pub(crate) task: usize,
    /// Its server, under servers.
    pub(crate) server: Option<usize>,
    pub(crate) ranks: Vec<u32>,
}

/// The name of an instance in the simulator.
pub(crate) fn instance_name(task: &str, instance: usize) -> String {
    if instance == 0 { task.to_owned() } else { format!("{task} (instance {instance})") }
}

/// The input of a scenario.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) machine: &'a Hardware,
    pub(crate) file: &'a TaskSystem,
    pub(crate) memory: &'a MemorySpec,
    pub(crate) scheme: Scheme,
    /// How tasks are ordered where there are neither servers nor a table.
    pub(crate) order: Inside,
    pub(crate) jobs: &'a [Job],
    pub(crate) duration: Picoseconds,
    pub(crate) seed: u64,
    pub(crate) jitter: bool,
}

/// A task alone, without refresh, in as many ranks as it needs.
pub(crate) fn alone(
    machine: &Hardware,
    file: &TaskSystem,
    index: usize,
    placed: Placed,
    jobs: u64,
    seed: u64,
) -> Result<Scenario, RefreshError> {
    let (task, ranks) = (&file.set.tasks()[index], file.tasks[index].ranks);
    let job = ScenarioJob {
        period: Time(task.period()),
        deadline: None,
        phase: None,
        jitter: Time::default(),
        references: placed.references,
        uncounted: 0,
        late: Late::Finish,
    };
    let section = ScenarioTask {
        ranks: Some(list(&(0..ranks).collect::<Vec<_>>(), machine)?),
        core: Some(0),
        job: Some(job),
        ..section(task.name().to_owned(), placed.workload.workload())
    };
    let duration = Picoseconds(task.period().0 * jobs) + AFTER;
    // The references are those that it has among the others: the seed goes by its place there.
    let seed = seed.wrapping_add(index as u64);
    let scenario = empty(machine, Scheme::None, 1, duration, seed, vec![section]);
    Ok(on(machine, scenario, &file.name)?)
}

pub(crate) fn on(machine: &Hardware, file: ScenarioSpec, origin: &str) -> Result<Scenario, memtint_sim::SimError> {
    Scenario::on(file, machine.platform.clone(), &machine.standard, origin, Path::new(""))
}

pub(crate) fn empty(
    machine: &Hardware,
    scheme: Scheme,
    cores: u32,
    duration: Picoseconds,
    seed: u64,
    tasks: Vec<ScenarioTask>,
) -> ScenarioSpec {
    ScenarioSpec {
        description: String::new(),
        platform: machine.platform.id().to_owned(),
        granule: None,
        device: machine.device.name.clone(),
        density_gbit: Some(machine.gbit),
        device_bits: None,
        duration: Time(duration),
        seed,
        alone: false,
        cores: CoreSection { count: Some(cores), mhz: MHZ, width: 1, window: 0, mshrs: 10 },
        caches: machine.cache_section(cores),
        controller: machine.controller(scheme.engine()),
        numa: NumaSection::default(),
        system: SystemSection {
            scheduling: SchedulingName::FixedPriority,
            // Memory is populated before the first job.
            fault: Time::default(),
            ..SystemSection::default()
        },
        timetable: None,
        table: None,
        bandwidth: None,
        groups: Vec::new(),
        servers: Vec::new(),
        tasks,
    }
}

pub(crate) fn section(name: String, workload: Workload) -> ScenarioTask {
    ScenarioTask {
        name,
        core: None,
        cores: None,
        server: None,
        workload,
        allocator: None,
        banks: None,
        ranks: None,
        copy_of: None,
        copy: Time::default(),
        globals: ByteSize::default(),
        sets: None,
        nodes: None,
        soft: false,
        ways: None,
        huge_pages: false,
        priority: 0,
        references: None,
        job: None,
        barrier: None,
    }
}

/// Ranks as a list.
pub(crate) fn list(ranks: &[u32], machine: &Hardware) -> Result<String, RefreshError> {
    let set = IndexSet::from_indices(ranks.iter().copied(), machine.places());
    let set = set.map_err(|error| RefreshError::Field {
        file: "the simulated machine".to_owned(),
        field: "ranks".to_owned(),
        found: format!("{ranks:?}"),
        accepted: error.to_string(),
    })?;
    Ok(set.to_string())
}

impl Plan<'_> {
    /// The core of a task: that of its server.
    pub(crate) fn core(&self, task: usize) -> u32 {
        self.file.tasks[task].server.map_or(0, |server| self.file.servers[server].core)
    }

    fn cores(&self) -> u32 {
        let of_tasks = (0..self.file.tasks.len()).map(|task| self.core(task));
        let of_servers = self.file.servers.iter().filter(|_| self.scheme == Scheme::Crs).map(|server| server.core);
        of_tasks.chain(of_servers).max().unwrap_or(0) + 1
    }

    /// The scenario of a scheme that is no cyclic executive.
    pub(crate) fn scenario(&self) -> Result<Scenario, RefreshError> {
        let priorities = self.priorities()?;
        let mut tasks = Vec::new();
        for (place, Instance { task, server, ranks }) in self.instances()?.into_iter().enumerate() {
            let name = self.file.set.tasks()[task].name();
            // Originals come first.
            let copy = place >= self.jobs.len();
            let copied = server.is_some() && self.file.tasks[task].copy_server.is_some();
            tasks.push(ScenarioTask {
                core: Some(self.core(task)),
                server: server.map(|server| self.file.servers[server].name.clone()),
                ranks: Some(list(&ranks, self.machine)?),
                priority: priorities[task],
                job: (!copy).then(|| self.job(task)),
                copy_of: copy.then(|| name.to_owned()),
                copy: if copied { Time(self.file.tasks[task].copy) } else { Time::default() },
                globals: if copied { globals(self.file, task)? } else { ByteSize::default() },
                ..section(instance_name(name, usize::from(copy)), self.jobs[task].workload.workload())
            });
        }
        let mut file = empty(self.machine, self.scheme, self.cores(), self.duration, self.seed, tasks);
        file.system.scheduling =
            if self.order == Inside::Edf { SchedulingName::Edf } else { SchedulingName::FixedPriority };
        if self.scheme == Scheme::Crs {
            file.servers = self.servers()?;
            file.timetable = Some(self.timetable()?);
        }
        Ok(on(self.machine, file, &self.file.name)?)
    }

    pub(crate) fn job(&self, index: usize) -> ScenarioJob {
        let task = &self.file.set.tasks()[index];
        ScenarioJob {
            period: Time(task.period()),
            deadline: Some(Time(task.deadline())),
            phase: Some(Time(task.phase())),
            jitter: Time(if self.jitter { task.jitter() } else { Picoseconds(0) }),
            references: self.jobs[index].references,
            uncounted: 0,
            late: Late::Finish,
        }
    }

    /// The tasks, and under servers behind them other instances of those that have a `copy_server`.
    pub(crate) fn instances(&self) -> Result<Vec<Instance>, RefreshError> {
        let everything: Vec<u32> = (0..self.machine.ranks).collect();
        let mut next = vec![0; self.file.colors.len() + 1];
        let mut all = Vec::new();
        let crs = self.scheme == Scheme::Crs;
        let tasks = 0..self.file.tasks.len();
        let originals = tasks.clone().map(|task| (task, crs.then(|| self.server(task))));
        let copies =
            tasks.filter_map(|task| Some((task, Some(Ok(self.file.tasks[task].copy_server.filter(|_| crs)?)))));
        for (task, server) in originals.chain(copies) {
            let server = server.transpose()?;
            let (pool, place) = match server {
                Some(server) => {
                    let color = self.file.servers[server].color;
                    (&self.file.colors[color].ranks, color + 1)
                }
                None => (&everything, 0),
            };
            let ranks = self.file.tasks[task].ranks;
            if ranks as usize > pool.len() {
                return Err(self.refuse(task, "ranks", ranks, format!("at most {}", pool.len())));
            }
            let taken = next[place]..next[place] + ranks as usize;
            next[place] = taken.end;
            all.push(Instance { task, server, ranks: taken.map(|at| pool[at % pool.len()]).collect() });
        }
        Ok(all)
    }

    fn server(&self, task: usize) -> Result<usize, RefreshError> {
        let accepted = "the name of a server, as tasks of servers are simulated";
        self.file.tasks[task].server.ok_or_else(|| self.refuse(task, "server", "missing", accepted))
    }

    fn refuse(&self, task: usize, field: &str, found: impl ToString, accepted: impl ToString) -> RefreshError {
        RefreshError::Field {
            file: self.file.name.clone(),
            field: format!("task {:?}: {field}", self.file.set.tasks()[task].name()),
            found: found.to_string(),
            accepted: accepted.to_string(),
        }
    }

    /// How the tasks of a server, or all, are ordered.
    pub(crate) fn order_of(&self, task: usize) -> Inside {
        match self.file.tasks[task].server {
            Some(server) if self.scheme == Scheme::Crs => self.file.servers[server].inside,
            _ => self.order,
        }
    }

    /// Priorities for the simulator: smaller is more urgent. Those of a policy are the same in each part of a set.
    fn priorities(&self) -> Result<Vec<u32>, RefreshError> {
        let set = &self.file.set;
        let place =
            |order: &Priorities, task: usize| order.order().iter().position(|&own| own == TaskIndex(task)).unwrap_or(0);
        let (by_period, by_deadline) = (Priorities::rate_monotonic(set), Priorities::deadline_monotonic(set));
        let one = |task: usize| {
            Ok(match self.order_of(task) {
                Inside::Edf => 0,
                Inside::RateMonotonic => place(&by_period, task) as u32,
                Inside::DeadlineMonotonic => place(&by_deadline, task) as u32,
                Inside::Given => {
                    let given = self.file.tasks[task].priority;
                    let given = given.ok_or_else(|| self.refuse(task, "priority", "missing", "1 or more"))?;
                    u32::try_from(given).map_err(|_| self.refuse(task, "priority", given, "below 2^32"))?
                }
            })
        };
        (0..set.tasks().len()).map(one).collect()
    }

    /// The order of priorities of some tasks, which form a separate set.
    pub(crate) fn order_among(&self, tasks: &[usize], set: &TaskSet) -> Result<Priorities, RefreshError> {
        let priorities = self.priorities()?;
        let mut order: Vec<TaskIndex> = set.indices().collect();
        order.sort_by_key(|&own| (priorities[tasks[own.index()]], own));
        Ok(Priorities::given(set, order)?)
    }

    fn servers(&self) -> Result<Vec<ScenarioServer>, RefreshError> {
        let section = |server: &memtint_analysis::ServerSpec| {
            Ok(ScenarioServer {
                name: server.name.clone(),
                core: server.core,
                period: Time(server.period),
                budget: Time(server.budget),
                phase: Time::default(),
                priority: None,
                kind: match server.kind {
                    Kind::Deferrable => ServerKind::Deferrable,
                    Kind::IdleConsuming => ServerKind::IdleConsuming,
                },
                scheduling: match server.inside {
                    Inside::Edf => ServerScheduling::Edf,
                    _ => ServerScheduling::FixedPriority,
                },
                ranks: Some(list(&self.file.colors[server.color].ranks, self.machine)?),
            })
        };
        self.file.servers.iter().map(section).collect()
    }

    /// The locks of the colors.
    fn timetable(&self) -> Result<TimetableSection, RefreshError> {
        let window = |color: &memtint_analysis::Color| self.window(&color.ranks, color.phase);
        let windows = self.file.colors.iter().map(window).collect::<Result<_, RefreshError>>()?;
        // Each core is suspended: lock and unlock run on all that have servers.
        let mut cores: Vec<u32> = self.file.servers.iter().map(|server| server.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        Ok(self.locked(windows, cores.join(",")))
    }

    /// The window in which a color is refreshed; one with the last rank refreshes the places without memory too.
    pub(crate) fn window(&self, ranks: &[u32], start: Picoseconds) -> Result<WindowSection, RefreshError> {
        let turns = turns(ranks.len() as u32, self.memory.bursts);
        let (mut ranks, last) = (ranks.to_vec(), self.machine.ranks - 1);
        if ranks.contains(&last) {
            ranks.extend(last + 1..self.machine.places());
        }
        Ok(WindowSection {
            ranks: list(&ranks, self.machine)?,
            start: Time(start),
            length: None,
            commands: None,
            turns,
        })
    }

    /// Windows of the retention time, and the cores of their lock tasks.
    pub(crate) fn locked(&self, window: Vec<WindowSection>, cores: String) -> TimetableSection {
        TimetableSection {
            period: Time(self.memory.retention),
            window,
            jitter: Time::default(),
            lock: Time(self.memory.lock),
            unlock: Time(self.memory.unlock),
            cores,
            clean: true,
        }
    }
}
