//! From a scenario to a system file.

use super::{Check, Late, Scenario, ScenarioServer, ScenarioTask, SchedulingName, Workload};
use crate::error::SimError;
use crate::machine::{ServerKind, ServerScheduling};
use memtint_map::Palette;
use memtint_system::{
    BarrierEntry, ColorEntry, Count, LateJobs, Mode, Place, Ranks, ServerEntry, ServerPolicy, SimulationEntry,
    SystemFile, TaskEntry, Text, WorkloadEntry, WorkloadKind, colors_in_common, select,
};
use memtint_units::IndexList;

impl Scenario {
    /// Gives the system file of this scenario, as it was understood: [`Scenario::of_system`] of it is the same simulation.
    ///
    /// # Errors
    ///
    /// [`SimError::Field`] for phase and priority of a server, which a system file does not have.
    pub fn to_system(&self) -> Result<SystemFile, SimError> {
        let spec = &self.spec;
        let simulation = SimulationEntry {
            device: Text::new(spec.device.clone()),
            density_gbit: spec.density_gbit,
            device_bits: spec.device_bits,
            duration: spec.duration,
            seed: Some(self.seed),
            alone: Some(spec.alone),
            cores: spec.cores.clone(),
            caches: spec.caches.clone(),
            controller: spec.controller.clone(),
            numa: spec.numa.clone(),
            system: spec.system.clone(),
            timetable: spec.timetable.clone(),
            bandwidth: spec.bandwidth.clone(),
            table: spec.table.clone(),
        };
        let mut system = SystemFile {
            description: (!spec.description.is_empty()).then(|| spec.description.clone()),
            platform: Some(Text::new(spec.platform.clone())),
            granule: spec.granule,
            groups: spec.groups.clone(),
            simulation: Some(simulation),
            tasks: spec.tasks.iter().map(|task| self.entry(task)).collect::<Result<_, _>>()?,
            colors: self.colors(),
            servers: spec.servers.iter().map(|server| self.server_entry(server)).collect::<Result<_, _>>()?,
            ..SystemFile::default()
        };
        self.allow_common_colors(&mut system)?;
        Ok(system)
    }

    fn check(&self) -> Check<'_> {
        Check { origin: &self.origin }
    }

    fn entry(&self, task: &ScenarioTask) -> Result<TaskEntry, SimError> {
        let list = |field: &str, text: &Option<String>| -> Result<Option<IndexList>, SimError> {
            let refuse =
                |error| self.check().refuse(&format!("task {:?}: {field}", task.name), format!("{text:?}"), error);
            text.as_ref().map(|text| text.parse()).transpose().map_err(refuse)
        };
        let by_priority = match self.server_of(task)? {
            Some((_, server)) => server.scheduling == ServerScheduling::FixedPriority,
            None => self.spec.system.scheduling == SchedulingName::FixedPriority,
        };
        // A system file has priorities from 1.
        let first = self.spec.tasks.iter().map(|task| task.priority).min().unwrap_or(0);
        let priority = u64::from(task.priority) + u64::from(first == 0);
        let job = task.job.as_ref();
        let program = match &task.workload {
            Workload::Program { model } => Some(Text::new(model.clone())),
            _ => None,
        };
        let entry = TaskEntry {
            name: Some(Text::new(task.name.clone())),
            program,
            workload: kernel(&task.workload),
            references: job.map(|job| job.references).or(task.references).map(Count::new),
            uncounted: job.filter(|job| job.uncounted > 0).map(|job| Count::new(job.uncounted)),
            barrier: task.barrier.as_ref().map(|own| BarrierEntry { group: own.group, every: Count::new(own.every) }),
            late: job.filter(|job| job.late == Late::GiveUp).map(|_| LateJobs::GiveUp),
            period: job.map(|job| job.period),
            deadline: job.and_then(|job| job.deadline),
            phase: job.and_then(|job| job.phase),
            jitter: job.map(|job| job.jitter).filter(|jitter| jitter.0.0 > 0),
            priority: by_priority.then(|| Count::new(priority)),
            cores: task.core.map(|core| IndexList::Only(vec![(core, core)])).or(list("cores", &task.cores)?),
            banks: list("banks", &task.banks)?,
            sets: list("sets", &task.sets)?,
            node: list("node", &task.nodes)?,
            ways: list("ways", &task.ways)?,
            ranks: list("ranks", &task.ranks)?.map(Ranks::List),
            allocator: task.allocator,
            huge_pages: task.huge_pages.then_some(true),
            mode: task.soft.then_some(Mode::Soft),
            copy: Some(task.copy).filter(|copy| copy.0.0 > 0),
            globals: Some(task.globals).filter(|globals| globals.0 > 0),
            copy_of: task.copy_of.clone().map(Text::new),
            server: task.server.clone().map(Text::new),
            ..TaskEntry::default()
        };
        entry.checked_name(&Place::new(&format!("{:?}", self.origin)).item("task", 0, Some(&task.name)))?;
        Ok(entry)
    }

    fn server_entry(&self, server: &ScenarioServer) -> Result<ServerEntry, SimError> {
        let of = |field: &str| format!("server {:?}: {field}", server.name);
        self.check().that(&of("phase"), server.phase.0.0 == 0, server.phase.0, "0 ps, in a system file")?;
        self.check().that(&of("priority"), server.priority.is_none(), "given", "none, in a system file")?;
        Ok(ServerEntry {
            name: Some(Text::new(server.name.clone())),
            color: self.first_of_color(server).map(|first| Text::new(first.name.clone())),
            core: Some(Count::new(server.core.into())),
            period: Some(server.period),
            budget: Some(server.budget),
            kind: (server.kind == ServerKind::IdleConsuming).then_some(memtint_system::ServerKind::IdleConsuming),
            scheduling: (server.scheduling == ServerScheduling::FixedPriority).then_some(ServerPolicy::Fp),
        })
    }

    /// The first server with the ranks of another, after which their color is called.
    fn first_of_color(&self, server: &ScenarioServer) -> Option<&ScenarioServer> {
        self.spec.servers.iter().find(|other| other.ranks.is_some() && other.ranks == server.ranks)
    }

    /// The ranks of servers, each list once.
    fn colors(&self) -> Vec<ColorEntry> {
        let servers = self.spec.servers.iter();
        let firsts =
            servers.filter(|server| self.first_of_color(server).is_some_and(|first| first.name == server.name));
        firsts.filter_map(color).collect()
    }

    /// Marks tasks with colors in common as intended.
    fn allow_common_colors(&self, system: &mut SystemFile) -> Result<(), SimError> {
        let palette = Palette::new(&self.platform, self.granule())?;
        let refuse = |error| self.check().refuse("task: colors", error, "colors of the platform");
        let chosen = |task: &TaskEntry| task.banks.is_some() || task.sets.is_some() || task.node.is_some();
        let own = |task: &TaskEntry| select(&palette, task.banks.as_ref(), task.sets.as_ref(), task.node.as_ref());
        let selections = system.tasks.iter().map(own).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
        for second in 0..selections.len() {
            for first in 0..second {
                let both = chosen(&system.tasks[first]) && chosen(&system.tasks[second]);
                if both && colors_in_common(&selections[first], &selections[second]).is_some() {
                    system.tasks[first].shared = Some(true);
                    system.tasks[second].shared = Some(true);
                }
            }
        }
        Ok(())
    }
}

/// The ranks of a server, as a color of its name.
fn color(server: &ScenarioServer) -> Option<ColorEntry> {
    let ranks = server.ranks.clone()?;
    Some(ColorEntry { name: Some(Text::new(server.name.clone())), ranks: Some(Text::new(ranks)), phase: None })
}

/// The table of a workload that is no program of the catalogue.
fn kernel(workload: &Workload) -> Option<WorkloadEntry> {
    let of = |kind: WorkloadKind| WorkloadEntry {
        kind,
        size: None,
        gap: None,
        step: None,
        write: None,
        read: None,
        writes_per_1024: None,
        file: None,
        thread: None,
    };
    Some(match *workload {
        Workload::Program { .. } => return None,
        Workload::Latency { size, gap } => {
            WorkloadEntry { size: Some(size), gap: Some(gap), ..of(WorkloadKind::Latency) }
        }
        Workload::Bandwidth { size, step, write, gap } => {
            let (step, write, gap) = (Some(step), Some(write), Some(gap));
            WorkloadEntry { size: Some(size), step, write, gap, ..of(WorkloadKind::Bandwidth) }
        }
        Workload::Stream { size } => WorkloadEntry { size: Some(size), ..of(WorkloadKind::Stream) },
        Workload::Strides { size, step, read } => {
            WorkloadEntry { size: Some(size), step: Some(step), read: Some(read), ..of(WorkloadKind::Strides) }
        }
        Workload::Uniform { size, writes_per_1024, gap } => {
            let writes_per_1024 = Some(Count::new(writes_per_1024.into()));
            WorkloadEntry { size: Some(size), writes_per_1024, gap: Some(gap), ..of(WorkloadKind::Uniform) }
        }
        Workload::Trace { ref file, thread } => {
            WorkloadEntry { file: Some(file.clone()), thread: Some(thread), ..of(WorkloadKind::Trace) }
        }
    })
}
