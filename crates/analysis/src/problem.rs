//! From a file to the input of analyses.

use memtint_hiding::crs::{Copied, Core, RankGroup, Server, System};
use memtint_hiding::cyclic::{self, Footprint, Frames, Problem};
use memtint_sched::{Form, Policy, Preemption, Priorities, TaskIndex, TaskSet};
use memtint_system::{Place, SystemError};
use memtint_units::{IndexList, Picoseconds};
use num_integer::Integer;

use crate::refresh::{Inside, MemorySpec};
use crate::tasks::{TaskDetails, TaskSystem};

/// The most frames into which a search for frames divides a colored frame.
const FUSED_MAX: u64 = 256;

/// Where windows of a task begin and end: its period, first latest release and first deadline.
fn ends(own: &memtint_sched::Task) -> [u64; 3] {
    [own.period().0, own.phase().0 + own.jitter().0, own.phase().0 + own.deadline().0]
}

impl TaskSystem {
    fn place(&self) -> Place {
        Place::new(&self.name)
    }

    pub(crate) fn task_place(&self, task: TaskIndex) -> Place {
        self.place().item("task", task.index(), Some(self.set[task].name()))
    }

    /// Gives `[memory]`.
    ///
    /// # Errors
    ///
    /// [`SystemError`] when there is none.
    pub fn memory_given(&self) -> Result<&MemorySpec, SystemError> {
        let accepted = "a table [memory] with ranks, and density or t_rfc";
        self.memory.as_ref().ok_or_else(|| self.place().refuse("memory", None, accepted))
    }

    /// Gives the memory as [`memtint_hiding::cyclic`] takes it.
    ///
    /// # Errors
    ///
    /// [`SystemError`] when there is no `[memory]`, or its retention is no multiple of the ranks.
    pub fn cyclic_memory(&self) -> Result<cyclic::RefreshedMemory, SystemError> {
        let own = self.memory_given()?;
        let memory = cyclic::RefreshedMemory::new(own.retention, own.ranks, own.t_rfc, own.bursts);
        memory.map_err(|error| self.place().range(error))
    }

    /// Lists the frames to try for a cyclic executive around refresh, the cheapest first: the longest, and among equally long
    /// ones those with the most colors. Frames that the file gives are the only ones.
    ///
    /// Colored frames are `j R / K`, `j` a divisor of `K` below it, in which the burst of a color fits; frames are such
    /// a stretch or an equal part of it, one of 256 at most, that is a multiple of the greatest common divisor of
    /// `R / K`, all periods, releases and deadlines (the frame of Algorithm 6, corrected). Only those that no rule of
    /// [`judge_frame`](cyclic::judge_frame()) refuses are listed; it may be none.
    ///
    /// # Errors
    ///
    /// As [`cyclic_memory`](Self::cyclic_memory).
    pub fn frame_choices(&self) -> Result<Vec<Frames>, SystemError> {
        let memory = self.cyclic_memory()?;
        if let Some(size) = self.cyclic.frame {
            return Ok(vec![Frames { size, color: self.cyclic.color_frame.unwrap_or(size) }]);
        }
        let grain = memory.grain().0;
        let finest = self.set.tasks().iter().flat_map(ends).fold(grain, |finest, point| finest.gcd(&point));
        let stretches = (1..memory.ranks()).filter(|j| memory.ranks().is_multiple_of(*j)).map(|j| u64::from(j) * grain);
        let stretches = stretches.filter(|color| self.cyclic.color_frame.is_none_or(|given| given.0 == *color));
        let cut = |color: u64| {
            let sizes =
                (1..=FUSED_MAX).filter(move |parts| color.is_multiple_of(*parts)).map(move |parts| color / parts);
            let sizes = sizes.filter(move |size| u64::is_multiple_of(*size, finest));
            sizes.map(move |size| Frames { size: Picoseconds(size), color: Picoseconds(color) })
        };
        let accepted = |frames: &Frames| cyclic::judge_frame(&self.set, &memory, *frames, Form::Corrected).accepted();
        let mut choices: Vec<Frames> = stretches.flat_map(cut).filter(accepted).collect();
        choices.sort_by_key(|frames| (std::cmp::Reverse(frames.size), frames.color));
        Ok(choices)
    }

    /// Lists the frames to try for a cyclic executive without colors, the longest first: a period or an equal part of
    /// one, 256 parts at most, that is a multiple of the greatest common divisor of all periods, releases and
    /// deadlines, with a whole frame between each release and its deadline. A frame that the file gives is the only
    /// one. As colored frames they have the hyperperiod, as in [`Problem::textbook`].
    ///
    /// # Errors
    ///
    /// [`SystemError`] when the hyperperiod does not fit.
    pub fn plain_choices(&self) -> Result<Vec<Frames>, SystemError> {
        let cycle = self.set.hyperperiod_time().map_err(|error| self.place().range(error))?;
        let frames = |size: Picoseconds| Frames { size, color: cycle };
        if let Some(size) = self.cyclic.frame {
            return Ok(vec![frames(size)]);
        }
        let memory = cyclic::RefreshedMemory::new(cycle, 1, Picoseconds(1), memtint_sched::RankOrder::Parallel);
        let memory = memory.map_err(|error| self.place().range(error))?;
        let finest = self.set.tasks().iter().flat_map(ends).fold(cycle.0, |finest, point| finest.gcd(&point));
        let parts = |task: &memtint_sched::Task| {
            let period = task.period().0;
            (1..=FUSED_MAX).filter(move |parts| period.is_multiple_of(*parts)).map(move |parts| period / parts)
        };
        let mut sizes: Vec<u64> = self.set.tasks().iter().flat_map(parts).collect();
        sizes.retain(|&size| u64::is_multiple_of(size, finest));
        sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
        sizes.dedup();
        let whole = |own: &Frames| {
            let report = cyclic::judge_frame(&self.set, &memory, *own, Form::Corrected);
            !report.refused.iter().any(|refused| matches!(refused, cyclic::Refused::WholeFrame { .. }))
        };
        Ok(sizes.into_iter().map(|size| frames(Picoseconds(size))).filter(whole).collect())
    }

    /// Puts tasks, memory and frames together for [`cyclic::color`](cyclic::color()), with the slicing and sharing of
    /// `[cyclic]`.
    ///
    /// # Errors
    ///
    /// [`SystemError`] when there is no `[memory]`, and as [`Problem::new`].
    pub fn problem(&self, frames: Frames) -> Result<Problem, SystemError> {
        let memory = self.cyclic_memory()?;
        let footprints = self.tasks.iter().map(|task| Footprint { ranks: task.ranks, copy: task.copy });
        let problem = Problem::new(self.set.clone(), memory, frames, footprints.collect());
        let problem = problem.and_then(|problem| problem.slice_cost(self.cyclic.slice_cost));
        let problem = problem.map_err(|error| self.place().table("cyclic").range(error))?;
        Ok(problem.sharing(self.cyclic.sharing).slicing(self.cyclic.slicing))
    }

    /// Gives the refresh of the colors of the file: each has a burst as long as its density and ranks require.
    ///
    /// [`System::new`] checks that each rank has one color, and that locked windows do not overlap.
    ///
    /// # Errors
    ///
    /// [`SystemError`] when there is no `[memory]` or no `[[color]]`.
    pub fn color_refresh(&self) -> Result<memtint_hiding::crs::Refresh, SystemError> {
        let memory = self.memory_given()?;
        if self.colors.is_empty() {
            return Err(self.place().refuse("color", None, "tables [[color]] with name and ranks, for servers"));
        }
        let group = |color: &crate::Color| RankGroup {
            ranks: color.ranks.clone(),
            phase: color.phase,
            burst: memory.burst(color.ranks.len() as u32),
        };
        Ok(memtint_hiding::crs::Refresh {
            retention: memory.retention,
            lock: memory.lock,
            unlock: memory.unlock,
            groups: self.colors.iter().map(group).collect(),
        })
    }

    /// Gives the system of colors and servers for [`crs::judge`](memtint_hiding::crs::judge()): rank groups are the
    /// colors in the order of the file, and cores and servers are as from [`servers_of_cores`](Self::servers_of_cores)
    /// and [`tasks_of`](Self::tasks_of). A task with a `copy_server` has an instance in both servers, and its jobs take
    /// a copy longer.
    ///
    /// # Errors
    ///
    /// [`SystemError`] with the missing entry: `[memory]`, `[[color]]`, `[[server]]`, the server of a task, the task of
    /// a server, a priority if a server uses given ones; for a task that needs more ranks than its color has, and a
    /// `copy_server` that is not another server of the same core; and as [`System::new`] and [`System::with_copies`].
    pub fn system(&self) -> Result<System, SystemError> {
        let refresh = self.color_refresh()?;
        if self.servers.is_empty() {
            let accepted = "tables [[server]] with name, color, period and budget";
            return Err(self.place().refuse("server", None, accepted));
        }
        for (index, task) in self.set.indices().zip(&self.tasks) {
            let place = self.task_place(index);
            let server =
                task.server.ok_or_else(|| place.refuse("server", None, "the name of a server of this file"))?;
            let core = self.servers[server].core;
            let own = self.written.tasks.get(index.index()).and_then(|entry| entry.cores.as_ref());
            if let Some(cores) = own.filter(|cores| **cores != IndexList::Only(vec![(core, core)])) {
                let accepted = format!("{core}, the core of server {:?}", self.servers[server].name);
                return Err(place.refuse_text("cores", &cores.to_string(), &accepted));
            }
            for server in [Some(server), task.copy_server].into_iter().flatten() {
                let color = &self.colors[self.servers[server].color];
                if task.ranks as usize > color.ranks.len() {
                    let accepted = format!("at most the {} ranks of color {:?}", color.ranks.len(), color.name);
                    return Err(place.refuse("ranks", Some(&task.ranks), &accepted));
                }
            }
        }
        let (mut cores, mut copied) = (Vec::new(), Vec::new());
        for (number, core) in self.servers_of_cores().into_iter().enumerate() {
            let servers = core.iter().map(|&server| self.server(server));
            cores.push(Core { servers: servers.collect::<Result<_, _>>()? });
            for task in self.set.indices() {
                let of = |server: usize| {
                    let own = self.tasks_of(server).iter().position(|&own| own == task)?;
                    Some((core.iter().position(|&other| other == server)?, TaskIndex(own)))
                };
                let more = &self.tasks[task.index()];
                let (Some(server), Some(other)) = (more.server, more.copy_server) else { continue };
                let Some(first) = of(server) else { continue };
                let second = of(other).filter(|_| other != server).ok_or_else(|| {
                    let accepted = "another server of the core of its server";
                    self.task_place(task).refuse_text("copy_server", &self.servers[other].name, accepted)
                })?;
                copied.push(Copied { core: number, instances: [first, second] });
            }
        }
        let system = System::new(self.memory_given()?.ranks, refresh, cores);
        let system = system.and_then(|system| system.with_copies(copied));
        system.map_err(|error| self.place().range(error))
    }

    /// Lists the servers of each core, by their index in the file: cores in the order of their numbers, servers in that of the file,
    /// the first of a core with the highest priority.
    #[must_use]
    pub fn servers_of_cores(&self) -> Vec<Vec<usize>> {
        let mut numbers: Vec<u32> = self.servers.iter().map(|server| server.core).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let of = |core: u32| (0..self.servers.len()).filter(|&server| self.servers[server].core == core).collect();
        numbers.into_iter().map(of).collect()
    }

    /// Lists the tasks of a server, those that have another instance in it included, by their index in the file, ascending: the order
    /// that they have in the system.
    #[must_use]
    pub fn tasks_of(&self, server: usize) -> Vec<TaskIndex> {
        let is = |more: &TaskDetails| more.server == Some(server) || more.copy_server == Some(server);
        self.set.indices().filter(|task| is(&self.tasks[task.index()])).collect()
    }

    /// Gives the order of priorities of some tasks, by their index in the file; the set holds just these.
    ///
    /// # Errors
    ///
    /// [`SystemError`] for a task without priority, and for one that two tasks have.
    pub fn priorities(&self, tasks: &[TaskIndex], set: &TaskSet) -> Result<Priorities, SystemError> {
        let accepted = "a unique whole number, 1 for the highest";
        let mut places: Vec<(u64, TaskIndex)> = Vec::new();
        for (own, &task) in set.indices().zip(tasks) {
            let place = self.task_place(task);
            let priority = self.tasks[task.index()].priority.ok_or_else(|| place.refuse("priority", None, accepted))?;
            if let Some(&(_, first)) = places.iter().find(|(other, _)| *other == priority) {
                let found = format!("{priority}, which is that of task {:?} too", set[first].name());
                return Err(place.refuse("priority", Some(&found), accepted));
            }
            places.push((priority, own));
        }
        places.sort_unstable();
        let order = Priorities::given(set, places.into_iter().map(|(_, own)| own).collect());
        order.map_err(|error| self.place().range(error))
    }

    fn server(&self, index: usize) -> Result<Server, SystemError> {
        let (own, members) = (&self.servers[index], &self.tasks_of(index)[..]);
        let place = self.place().item("server", index, Some(&own.name));
        if members.is_empty() {
            return Err(place.refuse("tasks", None, "one or more tasks that name this server"));
        }
        let spec = |&task: &TaskIndex| {
            let mut spec = self.set[task].spec();
            if self.tasks[task.index()].copy_server.is_some() {
                spec.wcet += self.tasks[task.index()].copy;
            }
            spec
        };
        let tasks = TaskSet::new(members.iter().map(spec));
        let tasks = tasks.map_err(|error| place.range(error))?;
        let fixed = |order| Policy::FixedPriority(order, Preemption::Full);
        let policy = match own.inside {
            Inside::Edf => Policy::Edf,
            Inside::RateMonotonic => fixed(Priorities::rate_monotonic(&tasks)),
            Inside::DeadlineMonotonic => fixed(Priorities::deadline_monotonic(&tasks)),
            Inside::Given => fixed(self.priorities(members, &tasks)?),
        };
        Ok(Server { group: own.color, period: own.period, budget: own.budget, kind: own.kind, tasks, policy })
    }
}

impl MemorySpec {
    /// Gives the time to refresh `ranks` ranks of one color in full: [`REF_COMMANDS`](memtint_sched::REF_COMMANDS)
    /// commands, once, or once for each rank if these take turns. At most 2^64 - 1 ps, which every analysis refuses.
    #[must_use]
    pub fn burst(&self, ranks: u32) -> Picoseconds {
        Picoseconds(self.t_rfc.0.saturating_mul(self.bursts.commands(ranks)))
    }
}
