//! From a system file to a scenario.

use super::{
    AllocatorName, Check, GroupEntry, Late, Scenario, ScenarioBarrier, ScenarioJob, ScenarioServer, ScenarioSpec,
    ScenarioTask, SchedulingName, Time, TimetableSection, WindowSection, Workload,
};
use crate::error::SimError;
use crate::machine::{ServerKind, ServerScheduling};
use memtint_dram::Decoder;
use memtint_map::{Palette, Selection};
use memtint_system::{
    BurstOrder, ColorEntry, LateJobs, MemoryEntry, Mode, Place, Ranks, ServerEntry, ServerPolicy, SimulationEntry,
    SystemFile, TIME, TaskEntry, Text, WorkloadEntry, WorkloadKind, colors_in_common, select,
};
use memtint_units::{ByteSize, IndexList, IndexSet, Picoseconds};
use std::path::Path;

/// Time within which each row must be refreshed, where `[memory]` does not say it.
const RETENTION: Time = Time(Picoseconds(64_000_000_000));

/// A channel has at most this many ranks.
const RANKS_MAX: u32 = 64;

impl Scenario {
    /// Makes the scenario of a system file: `[simulation]` is the machine, each `[[task]]` a task on it; `path` is the file's.
    ///
    /// A task with a period has jobs of `references` memory references each. A `bandwidth` is a budget of the task, as that of a
    /// group with this task alone. With fixed-priority scheduling, tasks without any priority are ordered by their periods (rate
    /// monotonic). A task with a `copy_server` has a second instance, which is called `NAME.2`. With
    /// `controller = { refresh = "timetable" }` and no timetable, colors are locked and refreshed at their phases in each retention
    /// time.
    ///
    /// # Errors
    ///
    /// As [`Scenario::load`]: fields of the file that are missing or wrong for a simulation.
    pub fn of_system(file: &SystemFile, path: &Path) -> Result<Scenario, SimError> {
        Scenario::of_named_system(file, &path.display().to_string(), path.parent().unwrap_or(Path::new("")))
    }

    /// The same of a system that is no file: messages call it `origin`, and names of files in it are relative to `base`.
    ///
    /// # Errors
    ///
    /// As [`Scenario::of_system`].
    pub fn of_named_system(file: &SystemFile, origin: &str, base: &Path) -> Result<Scenario, SimError> {
        let reader = Reader { file, check: Check { origin }, place: Place::new(&format!("{origin:?}")) };
        reader.colors_apart()?;
        let scenario = Scenario::of_spec(reader.spec()?, origin, base)?;
        reader.apart(&scenario)?;
        reader.same_ranks(&scenario)?;
        Ok(scenario)
    }
}

/// Requirements of a file's parts on each other.
struct Reader<'a> {
    file: &'a SystemFile,
    check: Check<'a>,
    place: Place,
}

fn name_of(entry: &TaskEntry) -> &str {
    entry.name.as_ref().map_or("", Text::as_str)
}

/// The name of a task's second instance.
fn second(name: &str) -> String {
    format!("{name}.2")
}

impl Reader<'_> {
    fn refuse(&self, task: &TaskEntry, field: &str, found: impl ToString, accepted: impl ToString) -> SimError {
        self.check.refuse(&format!("task {:?}: {field}", name_of(task)), found, accepted)
    }

    fn spec(&self) -> Result<ScenarioSpec, SimError> {
        let file = self.file;
        self.place.need(&[
            ("platform", file.platform.is_some(), "a name of the catalogue, or a platform file"),
            ("simulation", file.simulation.is_some(), "a table with device, duration and cores"),
        ])?;
        let (Some(platform), Some(simulation)) = (&file.platform, &file.simulation) else {
            unreachable!("checked above")
        };
        let originals = file.tasks.iter().map(|entry| self.task(entry));
        let copies = file.tasks.iter().filter(|entry| entry.copy_server.is_some()).map(|entry| self.copy(entry));
        let mut tasks = originals.chain(copies).collect::<Result<Vec<_>, _>>()?;
        self.priorities(simulation, &mut tasks)?;
        let mut scenario = ScenarioSpec {
            description: file.description.clone().unwrap_or_default(),
            platform: platform.as_str().to_owned(),
            granule: file.granule,
            device: simulation.device.as_str().to_owned(),
            density_gbit: simulation.density_gbit,
            device_bits: simulation.device_bits,
            duration: simulation.duration,
            seed: simulation.seed.unwrap_or(1),
            alone: simulation.alone.unwrap_or(false),
            cores: simulation.cores.clone(),
            caches: simulation.caches.clone(),
            controller: simulation.controller.clone(),
            numa: simulation.numa.clone(),
            system: simulation.system.clone(),
            timetable: simulation.timetable.clone(),
            servers: file.servers.iter().enumerate().map(|own| self.server(own)).collect::<Result<_, _>>()?,
            bandwidth: simulation.bandwidth.clone(),
            groups: file.groups.clone(),
            table: simulation.table.clone(),
            tasks,
        };
        if simulation.timetable.is_none() && simulation.controller.is_by_timetable() {
            self.software_refresh(&mut scenario)?;
        }
        self.budgets(&mut scenario)?;
        Ok(scenario)
    }

    /// Refuses colors in common of two tasks that name colors, unless both allow it: other verbs refuse them, too.
    fn apart(&self, scenario: &Scenario) -> Result<(), SimError> {
        let palette = Palette::new(&scenario.platform, scenario.granule())?;
        let mut before: Vec<(&TaskEntry, Selection)> = Vec::new();
        for (entry, section) in self.file.tasks.iter().zip(&scenario.spec.tasks) {
            // CAMC takes the number of classes only.
            let chooses = scenario.allocator_of(section) == AllocatorName::Camc;
            if chooses || (entry.banks.is_none() && entry.sets.is_none() && entry.node.is_none()) {
                continue;
            }
            let own = select(&palette, entry.banks.as_ref(), entry.sets.as_ref(), entry.node.as_ref())
                .map_err(|error| self.refuse(entry, "colors", error, "colors of the platform"))?;
            let shared = |task: &TaskEntry| task.shared == Some(true);
            for (other, theirs) in before.iter().filter(|(other, _)| !(shared(entry) && shared(other))) {
                if let Some(colors) = colors_in_common(&own, theirs) {
                    let found = format!("{colors}, which task {:?} has, too", name_of(other));
                    let accepted = "different colors, or shared = true in both";
                    return Err(self.refuse(entry, "colors", found, accepted));
                }
            }
            before.push((entry, own));
        }
        Ok(())
    }

    /// Refuses two colors of one name, and ranks of two colors: the analyses refuse them, too.
    fn colors_apart(&self) -> Result<(), SimError> {
        let ranks = |color: &ColorEntry| IndexSet::parse(color.ranks.as_ref().map_or("", Text::as_str), RANKS_MAX).ok();
        for (index, color) in self.file.colors.iter().enumerate() {
            for earlier in &self.file.colors[..index] {
                let of = |field: &str| format!("color {:?}: {field}", color.name.as_ref().map_or("", Text::as_str));
                self.check.that(&of("name"), color.name != earlier.name, "used twice", "each name once")?;
                let common = ranks(color).zip(ranks(earlier)).map(|(own, other)| own.intersection(&other));
                let common = common.filter(|common| !common.is_empty());
                let accepted = "ranks that no other color has";
                self.check.that(
                    &of("ranks"),
                    common.is_none(),
                    common.map_or(String::new(), |both| both.to_string()),
                    accepted,
                )?;
            }
        }
        Ok(())
    }

    /// Refuses a `[memory]` of other ranks than the machine has, where ranks are locked.
    fn same_ranks(&self, scenario: &Scenario) -> Result<(), SimError> {
        let given = self.file.memory.as_ref().and_then(|memory| memory.ranks);
        let Some(given) = given.filter(|_| scenario.spec.timetable.is_some()) else { return Ok(()) };
        let ranks =
            Decoder::new(&scenario.platform, &scenario.device.geometry)?.geometry(&scenario.device.geometry).ranks;
        let accepted = format!("{ranks}, as of each channel of the simulated machine");
        self.check.that("memory.ranks", given.get() == u64::from(ranks), given.get(), accepted)
    }

    fn task(&self, entry: &TaskEntry) -> Result<ScenarioTask, SimError> {
        let text = |list: &Option<IndexList>| list.as_ref().map(ToString::to_string);
        let core = match &entry.cores {
            Some(IndexList::Only(ranges)) if matches!(ranges[..], [(first, last)] if first == last) => {
                Some(ranges[0].0)
            }
            _ => None,
        };
        self.is_like_its_original(entry)?;
        let (job, name) = (self.job(entry)?, entry.name.as_ref());
        let has_copy = |task: &TaskEntry| name.is_some() && task.copy_of.as_ref() == name;
        let copied = entry.copy_server.is_some() || entry.copy_of.is_some() || self.file.tasks.iter().any(has_copy);
        Ok(ScenarioTask {
            name: name_of(entry).to_owned(),
            core,
            cores: text(&entry.cores).filter(|_| core.is_none()),
            server: entry.server.as_ref().map(|name| name.as_str().to_owned()),
            workload: self.workload(entry)?,
            allocator: entry.allocator,
            banks: text(&entry.banks),
            ranks: match &entry.ranks {
                Some(Ranks::List(list)) => Some(list.to_string()),
                _ => self.ranks_of(entry.server.as_ref())?,
            },
            copy_of: entry.copy_of.as_ref().map(|name| name.as_str().to_owned()),
            copy: if copied { entry.copy.unwrap_or_default() } else { Time::default() },
            globals: entry.globals.filter(|_| copied).unwrap_or_default(),
            sets: text(&entry.sets),
            nodes: text(&entry.node),
            soft: entry.mode == Some(Mode::Soft),
            ways: text(&entry.ways),
            huge_pages: entry.huge_pages.unwrap_or(false),
            priority: 0,
            references: entry.references.map(|references| references.get()).filter(|_| job.is_none()),
            job,
            barrier: entry.barrier.map(|barrier| ScenarioBarrier { group: barrier.group, every: barrier.every.get() }),
        })
    }

    /// The second instance of a task.
    fn copy(&self, entry: &TaskEntry) -> Result<ScenarioTask, SimError> {
        let original = self.task(entry)?;
        Ok(ScenarioTask {
            name: second(&original.name),
            copy_of: Some(original.name.clone()),
            server: entry.copy_server.as_ref().map(|name| name.as_str().to_owned()),
            ranks: self.ranks_of(entry.copy_server.as_ref())?,
            job: None,
            ..original
        })
    }

    /// The task that an entry with `copy_of` is another instance of, unless that is an instance itself.
    fn original(&self, entry: &TaskEntry) -> Option<&TaskEntry> {
        let named = entry.copy_of.as_ref()?;
        self.file.tasks.iter().find(|other| other.name.as_ref() == Some(named) && other.copy_of.is_none())
    }

    /// Another instance of a task has the jobs and the workload of the first: its entry has no fields of jobs, and no workload or the same.
    fn is_like_its_original(&self, entry: &TaskEntry) -> Result<(), SimError> {
        let Some(original) = self.original(entry) else { return Ok(()) };
        let of_jobs = [
            ("references", entry.references.is_some()),
            ("barrier", entry.barrier.is_some()),
            ("period", entry.period.is_some()),
            ("deadline", entry.deadline.is_some()),
            ("phase", entry.phase.is_some()),
            ("jitter", entry.jitter.is_some()),
            ("uncounted", entry.uncounted.is_some()),
            ("late", entry.late.is_some()),
        ];
        let accepted = format!("none, as that of task {:?} is meant", name_of(original));
        if let Some((field, _)) = of_jobs.into_iter().find(|&(_, given)| given) {
            return Err(self.refuse(entry, field, "given beside copy_of", accepted));
        }
        let none = entry.workload.is_none() && entry.program.is_none();
        let same = entry.workload == original.workload && entry.program == original.program;
        if none || same { Ok(()) } else { Err(self.refuse(entry, "workload", "not that of copy_of", accepted)) }
    }

    fn job(&self, entry: &TaskEntry) -> Result<Option<ScenarioJob>, SimError> {
        let Some(period) = entry.period else {
            let of_jobs = [
                ("deadline", entry.deadline.is_some()),
                ("phase", entry.phase.is_some()),
                ("jitter", entry.jitter.is_some()),
                ("uncounted", entry.uncounted.is_some()),
                ("late", entry.late.is_some()),
            ];
            return match of_jobs.into_iter().find(|&(_, given)| given) {
                Some((field, _)) => {
                    let accepted = format!("{TIME}, as {field} is given: it is of jobs");
                    Err(self.refuse(entry, "period", "missing", accepted))
                }
                None => Ok(None),
            };
        };
        let references = entry.references.ok_or_else(|| {
            self.refuse(entry, "references", "missing", "the memory references of a job, a whole number from 1 on")
        })?;
        Ok(Some(ScenarioJob {
            period,
            deadline: entry.deadline,
            phase: entry.phase,
            jitter: entry.jitter.unwrap_or_default(),
            references: references.get(),
            uncounted: entry.uncounted.map_or(0, |jobs| jobs.get()),
            late: match entry.late {
                None | Some(LateJobs::Finish) => Late::Finish,
                Some(LateJobs::GiveUp) => Late::GiveUp,
            },
        }))
    }

    fn workload(&self, entry: &TaskEntry) -> Result<Workload, SimError> {
        if let Some(original) = self.original(entry) {
            return self.workload(original);
        }
        match (&entry.workload, &entry.program) {
            (Some(workload), None) => Ok(of_entry(workload)),
            (None, Some(model)) => Ok(Workload::Program { model: model.as_str().to_owned() }),
            (None, None) => Err(self.refuse(entry, "workload", "missing", "workload, or program")),
            (Some(_), Some(_)) => Err(self.refuse(entry, "workload", "given beside program", "one of the two")),
        }
    }

    /// Of each task under fixed priorities: as given, or by period or deadline, where the policy is that, or no task has a priority.
    fn priorities(&self, simulation: &SimulationEntry, tasks: &mut [ScenarioTask]) -> Result<(), SimError> {
        let entries = &self.file.tasks;
        let any = entries.iter().any(|entry| entry.priority.is_some());
        let of_core = match simulation.system.scheduling {
            SchedulingName::FixedPriority if any => ServerPolicy::Fp,
            SchedulingName::FixedPriority => ServerPolicy::Rm,
            _ => ServerPolicy::Edf,
        };
        let place = |own: usize, key: &dyn Fn(&TaskEntry) -> (bool, Option<Time>)| {
            let before = |other: &usize| (key(&entries[*other]), *other) < (key(&entries[own]), own);
            1 + (0..entries.len()).filter(before).count() as u32
        };
        for task in tasks {
            let name = task.copy_of.as_ref().unwrap_or(&task.name);
            let own = entries.iter().position(|entry| name_of(entry) == name).unwrap_or_default();
            let server = self.file.servers.iter().find(|server| name_is(server, task.server.as_deref()));
            let policy = server.map_or(of_core, |server| server.scheduling.unwrap_or(ServerPolicy::Edf));
            task.priority = match policy {
                ServerPolicy::Edf => 0,
                ServerPolicy::Rm => place(own, &|entry| (entry.period.is_none(), entry.period)),
                ServerPolicy::Dm => place(own, &|entry| {
                    let deadline = entry.deadline.or(entry.period);
                    (deadline.is_none(), deadline)
                }),
                ServerPolicy::Fp => {
                    let by_name = entries.iter().find(|entry| name_of(entry) == task.name);
                    let entry = by_name.filter(|entry| entry.priority.is_some()).unwrap_or(&entries[own]);
                    let accepted = "a whole number from 1, the highest, on, as tasks are ordered by priorities";
                    let given =
                        entry.priority.ok_or_else(|| self.refuse(entry, "priority", "missing", accepted))?.get();
                    u32::try_from(given).map_err(|_| self.refuse(entry, "priority", given, "less than 2^32"))?
                }
            };
        }
        Ok(())
    }

    fn server(&self, (index, entry): (usize, &ServerEntry)) -> Result<ScenarioServer, SimError> {
        self.place.item("server", index, entry.name.as_ref().map(Text::as_str)).need(&[
            ("name", entry.name.is_some(), "a text that is not empty"),
            ("period", entry.period.is_some(), TIME),
            ("budget", entry.budget.is_some(), TIME),
        ])?;
        let name = entry.name.as_ref().map_or("", Text::as_str);
        Ok(ScenarioServer {
            name: name.to_owned(),
            core: entry.core.map_or(0, |core| core.get() as u32),
            period: entry.period.unwrap_or_default(),
            budget: entry.budget.unwrap_or_default(),
            phase: Time::default(),
            priority: None,
            kind: match entry.kind {
                None | Some(memtint_system::ServerKind::Deferrable) => ServerKind::Deferrable,
                Some(memtint_system::ServerKind::IdleConsuming) => ServerKind::IdleConsuming,
            },
            scheduling: match entry.scheduling {
                None | Some(ServerPolicy::Edf) => ServerScheduling::Edf,
                Some(_) => ServerScheduling::FixedPriority,
            },
            ranks: self.ranks_of(entry.name.as_ref())?,
        })
    }

    /// The ranks of a server's color: its tasks have memory there, and a lock of them suspends it.
    fn ranks_of(&self, server: Option<&Text>) -> Result<Option<String>, SimError> {
        let named = self.file.servers.iter().find(|other| server.is_some() && other.name.as_ref() == server);
        let Some(color) = named.and_then(|server| server.color.as_ref()) else { return Ok(None) };
        let found = self.file.colors.iter().find(|other| other.name.as_ref() == Some(color));
        let ranks = found.and_then(|color| color.ranks.as_ref()).ok_or_else(|| {
            let field = format!("server {:?}: color", server.map_or("", Text::as_str));
            self.check.refuse(&field, format!("{:?}", color.as_str()), "the name of a table [[color]] with ranks")
        })?;
        Ok(Some(ranks.as_str().to_owned()))
    }

    /// The timetable of `[memory]` and the colors: each is refreshed at its phase in each retention time.
    fn software_refresh(&self, scenario: &mut ScenarioSpec) -> Result<(), SimError> {
        let file = self.file;
        self.place.need(&[
            ("memory", file.memory.is_some(), "the memory whose ranks are refreshed, or simulation.timetable"),
            ("color", !file.colors.is_empty(), "tables [[color]], or simulation.timetable"),
        ])?;
        let memory = file.memory.clone().unwrap_or_default();
        self.density(&memory, scenario)?;
        let mut window = Vec::new();
        for (index, color) in file.colors.iter().enumerate() {
            let place = self.place.item("color", index, color.name.as_ref().map(Text::as_str));
            place.need(&[("ranks", color.ranks.is_some(), "a list of ranks, such as \"0-3\"")])?;
            window.push(WindowSection {
                ranks: color.ranks.as_ref().map_or("", Text::as_str).to_owned(),
                start: color.phase.unwrap_or_default(),
                length: None,
                commands: None,
                turns: if memory.bursts == Some(BurstOrder::Serial) { self.count(color) } else { 1 },
            });
        }
        let mut cores: Vec<u32> = scenario.servers.iter().map(|server| server.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        scenario.timetable = Some(TimetableSection {
            period: memory.retention.unwrap_or(RETENTION),
            window,
            jitter: Time::default(),
            lock: memory.lock.unwrap_or_default(),
            unlock: memory.unlock.unwrap_or_default(),
            cores: if cores.is_empty() { "0".to_owned() } else { cores.join(",") },
            clean: true,
        });
        Ok(())
    }

    /// How many ranks a color has.
    fn count(&self, color: &ColorEntry) -> u32 {
        let all =
            self.file.memory.as_ref().and_then(|memory| memory.ranks).map_or(RANKS_MAX, |ranks| ranks.get() as u32);
        // A list that is wrong is refused where its window is made.
        IndexSet::parse(color.ranks.as_ref().map_or("", Text::as_str), all).map_or(1, |ranks| ranks.len())
    }

    /// The simulated devices have the density of `[memory]`.
    fn density(&self, memory: &MemoryEntry, scenario: &mut ScenarioSpec) -> Result<(), SimError> {
        if let Some(time) = memory.t_rfc {
            let accepted = "density, as a simulated device has the time of its density";
            return Err(self.check.refuse("memory.t_rfc", time.0, accepted));
        }
        let Some(density) = memory.density.map(|density| density.get() as u32) else { return Ok(()) };
        let own = *scenario.density_gbit.get_or_insert(density);
        let accepted = format!("{own}, which is simulation.density_gbit");
        self.check.that("memory.density", own == density, density, accepted)
    }

    /// A group for each task with a budget; all periods are the same.
    fn budgets(&self, scenario: &mut ScenarioSpec) -> Result<(), SimError> {
        let given = self.file.simulation.as_ref().and_then(|own| own.bandwidth.as_ref()).and_then(|own| own.period);
        let mut period = given;
        let of_groups = self.file.groups.iter().filter_map(|group| {
            group.period.map(|period| (format!("group {:?}: period", group.name.as_str()), period))
        });
        let of_tasks = self.file.tasks.iter().filter_map(|entry| {
            entry.bandwidth.map(|own| (format!("task {:?}: bandwidth.period", name_of(entry)), own.period))
        });
        for (field, own) in of_groups.chain(of_tasks) {
            let first = *period.get_or_insert(own);
            let accepted = format!("{}, as of the budgets before it: a simulation has one period", first.0);
            self.check.that(&field, own == first, own.0, accepted)?;
        }
        // A budget of a task is one of all its instances.
        for group in &mut scenario.groups {
            let copied = |entry: &&TaskEntry| {
                entry.copy_server.is_some() && group.tasks.iter().any(|own| own.as_str() == name_of(entry))
            };
            let seconds: Vec<Text> =
                self.file.tasks.iter().filter(copied).map(|entry| Text::new(second(name_of(entry)))).collect();
            group.tasks.extend(seconds);
        }
        for entry in &self.file.tasks {
            let Some(bandwidth) = entry.bandwidth else { continue };
            let name = Text::new(name_of(entry));
            let mut tasks = vec![name.clone()];
            if entry.copy_server.is_some() {
                tasks.push(Text::new(second(name_of(entry))));
            }
            scenario.groups.push(GroupEntry {
                name,
                cores: None,
                tasks,
                mb_per_s: None,
                write_mb_per_s: None,
                budget: Some(bandwidth.budget),
                weight: None,
                period: None,
                kind: bandwidth.kind,
            });
        }
        if let Some(period) = period.filter(|_| !scenario.groups.is_empty()) {
            scenario.bandwidth.get_or_insert_default().period = Some(period);
        }
        Ok(())
    }
}

fn name_is(server: &ServerEntry, name: Option<&str>) -> bool {
    name.is_some() && server.name.as_ref().map(Text::as_str) == name
}

/// The kernel or trace of an entry, which has the fields of its kind.
fn of_entry(entry: &WorkloadEntry) -> Workload {
    let size = entry.size.unwrap_or_default();
    let (gap, step) = (entry.gap.unwrap_or(2), entry.step.unwrap_or(ByteSize(64)));
    match entry.kind {
        WorkloadKind::Latency => Workload::Latency { size, gap },
        WorkloadKind::Bandwidth => Workload::Bandwidth { size, step, write: entry.write.unwrap_or(false), gap },
        WorkloadKind::Stream => Workload::Stream { size },
        WorkloadKind::Strides => Workload::Strides { size, step, read: entry.read.unwrap_or(false) },
        WorkloadKind::Uniform => {
            let writes_per_1024 = entry.writes_per_1024.map_or(0, |writes| writes.get() as u32);
            Workload::Uniform { size, writes_per_1024, gap }
        }
        WorkloadKind::Trace => {
            Workload::Trace { file: entry.file.clone().unwrap_or_default(), thread: entry.thread.unwrap_or(0) }
        }
    }
}
