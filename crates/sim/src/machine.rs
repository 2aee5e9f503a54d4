//! The machine put together, and its main loop.
//!
//! Cores and channels each have their own time. The one that is behind advances, up to the time at which another could
//! influence it: an action of a core reaches a channel no earlier than [`Machine::reach`] later, so channels see all
//! requests in the order of time. Cores are kept within the same distance of each other; the tags of a shared cache are
//! therefore touched in an order that may differ from that of time by less than it takes to reach memory.

mod dispatch;
mod regulator;
mod server;
mod table;

use crate::core::{AT_ONCE, Block, Core, CoreConfig, NO_REGISTER, PENDING, Ready};
use crate::memory::{MemorySystem, Notice, NumaConfig, Ticket};
use crate::refresh::{LockCounts, SoftRefresh};
use crate::runs::{RunLog, Runs};
use crate::task::{Barrier, Ending, Release, State, Task, TaskCounts};
use crate::{Histogram, SimError, page_table::PageTable};
use memtint_cache::{AccessKind, Hierarchy, HierarchyConfig, Level, TaskClass};
use memtint_dram::{BankCounts, CommandSink, ControllerConfig, Decoder, Device, RankCounts, RefreshMet, RowOutcome};
use memtint_frames::{Caller, FrameAllocator as _, Profile, Shared};
use memtint_units::{ByteSize, PhysAddr, Picoseconds};
use memtint_workload::{Kind, Reference, Source};
use regulator::Regulation;
pub use regulator::{
    CounterConfig, MeterCounts, PeriodUse, RegulationConfig, RegulationCounts, Subject, SubjectCounts,
};
use server::Server;
pub use server::{ServerConfig, ServerCounts, ServerKind, ServerScheduling};
use table::Executive;
pub use table::{Slot, Table, TableCounts};

/// Which ready tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Those with the smallest priority numbers.
    FixedPriority,
    /// Those with the earliest deadlines.
    EarliestDeadline,
    /// First come, first served, each for a quantum.
    RoundRobin {
        /// Time that a task keeps the core while others are ready.
        quantum: Picoseconds,
    },
    /// Those whose slot it is in the machine's [`Table`].
    Table,
}

/// Hardware and operating system.
pub struct MachineConfig {
    /// The content of the channels.
    pub device: Device,
    /// Where addresses lie.
    pub decoder: Decoder,
    /// Every channel's controller.
    pub controller: ControllerConfig,
    /// The caches, with as many cores as the machine has and a class for each task.
    pub caches: HierarchyConfig,
    /// Every core.
    pub core: CoreConfig,
    /// Node of each core.
    pub core_nodes: Vec<u32>,
    /// Between nodes.
    pub numa: NumaConfig,
    /// The frame allocators: one, or several that share the memory.
    pub allocators: Shared,
    /// Cost of a first touch, beyond the references of the program: time in the kernel.
    pub fault: Picoseconds,
    /// Time it takes a core to go over to another task.
    pub switch: Picoseconds,
    /// Order in which tasks run.
    pub scheduling: Scheduling,
    /// Whether a job gives way to more urgent ones once it has begun, by priority or deadline. If not, it has its core until it is
    /// complete, waits at a barrier, is given up, or a lock keeps it from running; lock and unlock tasks go before it
    /// all the same.
    pub preemption: bool,
    /// Refresh by software, instead of the controller's own.
    pub soft_refresh: Option<SoftRefresh>,
    /// Servers.
    pub servers: Vec<ServerConfig>,
    /// The slots of all tasks, for [`Scheduling::Table`] and no other.
    pub table: Option<Table>,
    /// Budgets of memory bandwidth.
    pub regulation: Option<RegulationConfig>,
}

/// A task of a simulation.
pub struct TaskConfig {
    /// Cores it may run on: one, and it is pinned; several, and it goes where its turn comes first. Not empty; ascending.
    pub cores: Vec<usize>,
    /// Which of the machine's allocators hands out its frames.
    pub allocator: usize,
    /// Its memory policy.
    pub profile: Profile,
    /// Smaller is more urgent, for [`Scheduling::FixedPriority`].
    pub priority: u32,
    /// When its jobs are released; `None`: one job without end.
    pub release: Option<Release>,
    /// Where it waits for others.
    pub barrier: Option<Barrier>,
    /// References after which it is done.
    pub references: Option<u64>,
    /// 2 MiB pages.
    pub huge_pages: bool,
    /// Ranks that it may have memory of, one bit each: it does not run while one of them is locked.
    pub ranks: u64,
    /// The server whose budget it runs in, by its index; of the one core that it may run on. Without, on a core with
    /// servers, it runs while none of them can.
    pub server: Option<usize>,
    /// The task it is another instance of (a copy task), by its index. They have the same releases; each job is of the
    /// instance that can run without meeting a lock.
    pub copy_of: Option<usize>,
    /// Time it takes to copy the data of another instance, when a job goes over to this one; with `globals` the time in which
    /// no lock may fall if the other instance is to copy.
    pub copy: Picoseconds,
    /// The data, whose lines are read and written; of none, the copy takes its time and causes no traffic.
    pub globals: ByteSize,
    /// Its references.
    pub source: Box<dyn Source>,
}

/// Results of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Simulated time.
    pub duration: Picoseconds,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Of each task, in order.
    pub tasks: Vec<TaskCounts>,
    /// How each task ended.
    pub endings: Vec<Ending>,
    /// Slots in which each core had a task.
    pub core_slots: Vec<u64>,
    /// Of each channel and bank.
    pub banks: Vec<Vec<BankCounts>>,
    /// Of each channel and bank: from the arrival of a read at the channel to its data, in picoseconds.
    pub bank_latencies_ps: Vec<Vec<Histogram>>,
    /// Of each channel and rank.
    pub ranks: Vec<Vec<RankCounts>>,
    /// Lines that tasks of another class displaced from the last level, of each task.
    pub displaced_by_others: Vec<u64>,
    /// Requests that met a refresh, of each channel and rank.
    pub refresh_met: Vec<Vec<RefreshMet>>,
    /// The same requests of each task: on its behalf, written-back lines included.
    pub refresh_met_by_task: Vec<u64>,
    /// Locks, under refresh by software.
    pub locks: Option<LockCounts>,
    /// Of each server, in order.
    pub servers: Vec<ServerCounts>,
    /// Statistics of slots, under a table.
    pub table: Option<TableCounts>,
    /// Statistics of bandwidth budgets, if there are any.
    pub regulation: Option<RegulationCounts>,
}

/// Instances of one task.
struct Copies {
    members: Vec<usize>,
    /// The one that had the job before.
    latest: usize,
    /// The instance chosen for the latest decided job.
    decided: Option<(u64, usize)>,
}

/// A machine in the middle of a simulation; every channel's commands go to a sink.
pub struct Machine<S = ()> {
    cores: Vec<Core>,
    tasks: Vec<Task>,
    hierarchy: Hierarchy,
    memory: MemorySystem<S>,
    allocators: Shared,
    scheduling: Scheduling,
    preemption: bool,
    /// Slots of the latencies of first level, second level, last level, another core's cache.
    latency_slots: [u64; 4],
    fault_slots: u64,
    quantum_slots: u64,
    switch_slots: u64,
    soft_refresh: Option<SoftRefresh>,
    /// When the next lock or unlock task is released, on each core; never on those that run none.
    refresh_task_at: Vec<Picoseconds>,
    locks: LockCounts,
    /// The log of runs, if requested.
    log: Option<RunLog>,
    /// Since when each core is idle because of locks.
    stalled: Vec<Option<u64>>,
    /// Ranks that each core has seen locked.
    locks_seen: Vec<u64>,
    servers: Vec<Server>,
    executive: Option<Executive>,
    regulation: Option<Box<Regulation>>,
    copies: Vec<Copies>,
    /// Time of a copy to each task, and its lines.
    copy_times: Vec<(Picoseconds, u64)>,
    /// Turns given out, for [`Scheduling::RoundRobin`].
    turns: u64,
    /// Some task may run on several cores.
    migratory: bool,
    line_mask: u64,
    reach: Picoseconds,
    now: Picoseconds,
    notices: Vec<Notice>,
    /// Tasks with an end that have not reached it.
    finite_left: usize,
    any_finite: bool,
    /// Tasks that have not ended.
    running: usize,
}

const END_OF_TIME: Picoseconds = Picoseconds(u64::MAX);

impl<S: CommandSink> Machine<S> {
    /// Builds the machine and admits the tasks; `sinks` has one for each channel.
    ///
    /// # Errors
    ///
    /// The error of any part; [`SimError::Policy`] when a task's allocator refuses its memory policy.
    ///
    /// # Panics
    ///
    /// When a core of the lock tasks, a core, the server or the allocator of a task, a class for each task, or a sink for each channel does not exist: scenarios check that.
    pub fn new(config: MachineConfig, tasks: Vec<TaskConfig>, sinks: Vec<S>) -> Result<Machine<S>, SimError> {
        let MachineConfig { device, decoder, controller, caches, core, core_nodes, numa, mut allocators, .. } = config;
        let line_bytes = caches.line.bytes();
        let latencies = caches.latencies.clone();
        let slots = |cycles: u32| u64::from(cycles) * u64::from(core.width);
        let mut cores: Vec<Core> = core_nodes.iter().map(|&node| Core::new(&core, node)).collect();
        let mut servers: Vec<Server> = config.servers.into_iter().map(Server::new).collect();
        let (mut built, mut copy_times, mut copies) = (Vec::<Task>::new(), Vec::new(), Vec::<Copies>::new());
        for (index, task) in tasks.into_iter().enumerate() {
            let TaskConfig { cores: affinity, allocator, profile, priority, release, .. } = task;
            let TaskConfig { barrier, references, huge_pages, ranks, server, copy_of, copy, globals, source, .. } =
                task;
            copy_times.push((copy, globals.0.div_ceil(line_bytes)));
            let cpu = affinity[0] as u32;
            let id = allocators.member(allocator).enter(&Profile { cpu, ..profile });
            let id = id.map_err(|reason| SimError::Policy { task: index, reason })?;
            let table = PageTable::new(Caller { task: id, cpu }, allocator, huge_pages);
            let class = TaskClass(u8::try_from(index).expect("at most 256 tasks"));
            let ranks = ranks | server.map_or(0, |server| servers[server].config.ranks);
            for &core in &affinity {
                cores[core].tasks.push(index);
                cores[core].ranks |= ranks;
            }
            if let Some(server) = server {
                assert_eq!(affinity, [servers[server].config.core], "a task runs where its server does");
                servers[server].tasks.push(index);
            }
            let turn = index as u64;
            let mut task = Task::new(class, affinity, priority, turn, release, barrier, references, table, source);
            (task.ranks, task.server) = (ranks, server);
            if let Some(original) = copy_of {
                let group = built[original].copies.unwrap_or_else(|| {
                    copies.push(Copies { members: vec![original], latest: original, decided: None });
                    copies.len() - 1
                });
                (built[original].copies, task.copies) = (Some(group), Some(group));
                copies[group].members.push(index);
            }
            built.push(task);
        }
        for (index, server) in servers.iter().enumerate() {
            let core = &mut cores[server.config.core];
            core.ranks |= server.config.ranks;
            core.servers.push(index);
            core.servers.sort_by_key(|&index| servers[index].config.priority);
        }
        let first = &cores[0];
        let quantum = match config.scheduling {
            Scheduling::RoundRobin { quantum } => first.slot_of(quantum).max(1),
            _ => 0,
        };
        let soft_refresh = config.soft_refresh;
        let timetable = soft_refresh.as_ref().map(|soft| &soft.timetable);
        let mut refresh_task_at = vec![END_OF_TIME; cores.len()];
        if let Some(soft) = &soft_refresh {
            soft.cores.iter().for_each(|&core| refresh_task_at[core] = soft.next_task(Picoseconds(0)).at);
        }
        let regulation = config.regulation.map(|regulation| Regulation::new(regulation, cores.len(), built.len()));
        let regulation = regulation.transpose()?;
        let finite_left = built.iter().filter(|task| task.is_finite).count();
        Ok(Machine {
            latency_slots: [latencies.l1_cycles, latencies.l2_cycles, latencies.llc_cycles, latencies.peer_cycles]
                .map(slots),
            fault_slots: first.slot_of(config.fault),
            quantum_slots: quantum,
            switch_slots: first.slot_of(config.switch),
            refresh_task_at,
            locks: LockCounts { unhidden_ps: vec![0; cores.len()], ..LockCounts::default() },
            log: None,
            stalled: vec![None; cores.len()],
            locks_seen: vec![0; cores.len()],
            servers,
            executive: config.table.map(|table| Executive::new(table, cores.len())),
            regulation: regulation.map(Box::new),
            copies,
            copy_times,
            turns: built.len() as u64,
            migratory: built.iter().any(|task| task.cores.len() > 1),
            reach: first.time_of(slots(latencies.memory_cycles)).max(Picoseconds(1)),
            cores,
            running: built.len(),
            tasks: built,
            hierarchy: Hierarchy::new(&caches)?,
            memory: MemorySystem::new(decoder, &device, controller, timetable, numa, line_bytes, sinks)?,
            soft_refresh,
            allocators,
            scheduling: config.scheduling,
            preemption: config.preemption,
            line_mask: !(line_bytes - 1),
            now: Picoseconds(0),
            notices: Vec::new(),
            finite_left,
            any_finite: finite_left > 0,
        })
    }

    /// How long a miss takes from a core to the channels of its node.
    #[must_use]
    pub fn reach(&self) -> Picoseconds {
        self.reach
    }

    /// Logs from now on which job ran where and when, up to `runs_max` runs.
    pub fn log_runs(&mut self, runs_max: usize) {
        self.log = Some(RunLog::new(self.cores.len(), runs_max));
    }

    /// The runs since [`Machine::log_runs`]; none without that call.
    #[must_use]
    pub fn runs(&self) -> Runs {
        self.log.as_ref().map_or_else(Runs::default, |log| log.runs(self.now))
    }

    /// Simulated time so far.
    #[must_use]
    pub fn now(&self) -> Picoseconds {
        self.now
    }

    /// Whether every task that has an end has reached it, or every task has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        (self.any_finite && self.finite_left == 0) || self.running == 0
    }

    /// Goes on until a time, or until every task that has an end has reached it; false when it is over.
    pub fn run_until(&mut self, end: Picoseconds) -> bool {
        while !self.is_done() {
            let (core, first, second) = self.behind();
            let channel = self.memory.next();
            if first.min(channel) >= end {
                self.now = end;
                return true;
            }
            let horizon = first.0.saturating_add(self.reach.0).min(end.0);
            if channel.0 < horizon {
                self.now = self.now.max(channel.min(first));
                self.memory.advance(Picoseconds(horizon), self.reach, &mut self.notices);
                self.hear();
            } else {
                // Others may be reached from here on.
                let limit =
                    second.0.saturating_add(self.reach.0).min(channel.0.saturating_sub(self.reach.0).max(first.0));
                self.now = self.now.max(first);
                self.run_core(core, Picoseconds(limit).min(end));
            }
        }
        false
    }

    /// The core that is behind all others, its time, and that of the next.
    fn behind(&mut self) -> (usize, Picoseconds, Picoseconds) {
        let (mut at, mut first, mut second) = (0, END_OF_TIME, END_OF_TIME);
        for (index, core) in self.cores.iter_mut().enumerate() {
            let time = core.next();
            if time < first {
                (at, first, second) = (index, time, first);
            } else {
                second = second.min(time);
            }
        }
        (at, first, second)
    }

    /// Passes on the notices of the channels.
    fn hear(&mut self) {
        let mut notices = std::mem::take(&mut self.notices);
        for notice in notices.drain(..) {
            match notice {
                Notice::Written { ticket, at } => {
                    if ticket.register != NO_REGISTER {
                        self.cores[usize::from(ticket.core)].written(ticket.register, at);
                    }
                }
                Notice::Read { ticket, at, completion } => {
                    let core = &mut self.cores[usize::from(ticket.core)];
                    let blocked_at = core.slot;
                    let register = core.arrive(ticket.register, at);
                    // An in-order core has stalled for it: this time counts as time of its task, too.
                    let waited = core.slot - blocked_at;
                    if let Some(task) = core.task {
                        core.busy_slots += waited;
                        self.tasks[task].counts.slots += waited;
                    }
                    let counts = &mut self.tasks[usize::from(ticket.task)].counts;
                    counts.lines_read += 1;
                    if let Some(completion) = completion {
                        counts.rows[match completion.outcome {
                            RowOutcome::Hit => 0,
                            RowOutcome::Miss => 1,
                            RowOutcome::Conflict => 2,
                        }] += 1;
                    }
                    if register.demand {
                        counts.latency_ps.add((at - register.issued).0);
                    }
                }
            }
        }
        self.notices = notices;
    }

    // --- cores ---

    /// Lets a core execute up to a time.
    fn run_core(&mut self, core: usize, limit: Picoseconds) {
        let idle = &mut self.cores[core];
        if idle.task.is_none() {
            idle.slot = idle.slot.max(idle.wake);
        }
        let limit_slot = self.cores[core].slot_of(limit).max(self.cores[core].slot);
        loop {
            if self.cores[core].draining || self.cores[core].slot >= self.cores[core].look_at {
                if !self.schedule(core) {
                    return;
                }
                if self.cores[core].slot > limit_slot {
                    return;
                }
            }
            let Some(task) = self.cores[core].task else { return };
            if !self.execute(core, task, limit_slot) {
                return;
            }
        }
    }

    /// Executes one reference of a task, if it begins by a slot; false when the core has to wait.
    #[inline]
    fn execute(&mut self, at: usize, index: usize, limit: u64) -> bool {
        let Some((owner, reference)) = self.tasks[index].next(index) else {
            self.cores[at].draining = true;
            return true;
        };
        let Some(slot) = self.when(at, &reference) else { return false };
        if slot > limit {
            let core = &mut self.cores[at];
            core.wake = core.wake.max(slot);
            return false;
        }
        let (addr, first) = match self.tasks[owner].table.translate(reference.addr, &mut self.allocators) {
            Ok(found) => found,
            Err(error) => {
                self.tasks[index].ending = Ending::OutOfMemory(error.to_string());
                self.finish(index, self.cores[at].time_of(slot));
                self.cores[at].draining = true;
                return true;
            }
        };
        let slot = slot + if first { self.fault_slots } else { 0 };
        if !self.access(at, index, &reference, addr, slot) {
            // As above: the loads that it has waited for are forgotten.
            let core = &mut self.cores[at];
            core.wake = core.wake.max(slot);
            return false;
        }
        let task = &mut self.tasks[index];
        let core = &mut self.cores[at];
        let instructions = reference.instructions();
        task.counts.references += 1;
        task.counts.instructions += instructions;
        task.counts.slots += slot - core.slot;
        core.busy_slots += slot - core.slot;
        core.index += instructions;
        core.slot = slot;
        self.locks.copied_lines += u64::from(task.advance());
        true
    }

    /// The slot in which the core can begin a reference; `None`, and the core is blocked, when that is not known yet.
    #[inline]
    fn when(&mut self, at: usize, reference: &Reference) -> Option<u64> {
        let core = &mut self.cores[at];
        let instructions = reference.instructions();
        let slot = (core.slot + instructions).max(core.wake);
        let (mut slot, mut register) = core.enter_window(core.index + instructions, slot);
        let dependence = if reference.depends { core.last_load } else { AT_ONCE };
        for ready in [core.last_fetch, dependence] {
            if ready.slot == PENDING {
                register = Some(ready.register);
            } else {
                slot = slot.max(ready.slot);
            }
        }
        if let Some(register) = register {
            core.block = Block::Register(register);
            // The loads that it has waited for so far are forgotten.
            core.wake = core.wake.max(slot);
            return None;
        }
        Some(slot)
    }

    /// Accesses the caches and the memory behind them; returns false, with the core blocked, when it has no register
    /// for it.
    #[inline]
    fn access(&mut self, at: usize, index: usize, reference: &Reference, addr: PhysAddr, slot: u64) -> bool {
        let line = addr.0 & self.line_mask;
        let kind = match reference.kind {
            Kind::Read => AccessKind::Read,
            Kind::Write => AccessKind::Write,
            Kind::Fetch => AccessKind::Fetch,
        };
        let core = &mut self.cores[at];
        let under_way = core.under_way(line, slot);
        if under_way.is_none()
            && core.taken as usize == core.registers.len()
            && core.free_registers(slot) == 0
            && !self.is_near(at, kind, addr)
        {
            let core = &mut self.cores[at];
            match core.next_free() {
                Some(free) => core.wake = core.wake.max(free),
                None => core.block = Block::AnyRegister,
            }
            return false;
        }
        let class = self.tasks[index].class;
        let outcome = self.hierarchy.access(at, class, addr, kind);
        self.tasks[index].counts.answered[level_index(outcome.level)] += 1;
        let ready = match (under_way, outcome.level) {
            (Some(ready), _) => ready,
            (None, Level::Memory) => {
                let register = self.miss(at, index, line, slot, kind == AccessKind::Read);
                Ready { slot: PENDING, register }
            }
            (None, level) => Ready { slot: slot + self.latency_slots[level_index(level)], register: NO_REGISTER },
        };
        let owner = if ready.slot == PENDING && under_way.is_none() { ready.register } else { NO_REGISTER };
        for &victim in outcome.writebacks.as_slice() {
            self.write_back(at, index, owner, victim, slot);
        }
        let core = &mut self.cores[at];
        match reference.kind {
            Kind::Read => {
                core.last_load = ready;
                if outcome.level != Level::L1 || under_way.is_some() {
                    core.remember(core.index + reference.instructions(), ready);
                }
            }
            Kind::Write => {}
            Kind::Fetch if outcome.level == Level::L1 && under_way.is_none() => {}
            Kind::Fetch => core.last_fetch = ready,
        }
        for &line in outcome.prefetches.as_slice() {
            self.prefetch(at, index, line, slot);
        }
        true
    }

    /// Whether a line is in a private cache of the core.
    fn is_near(&self, core: usize, kind: AccessKind, addr: PhysAddr) -> bool {
        use memtint_cache::CacheId;
        let first = if kind == AccessKind::Fetch { CacheId::L1Instruction(core) } else { CacheId::L1Data(core) };
        self.hierarchy.holds(first, addr) || self.hierarchy.holds(CacheId::L2(core), addr)
    }

    /// Fetches a line from memory.
    fn miss(&mut self, at: usize, index: usize, line: u64, slot: u64, demand: bool) -> u16 {
        let core = &mut self.cores[at];
        let issued = core.time_of(slot);
        let register = core.take_register(line, issued, demand);
        let ticket = Ticket { core: at as u16, register, task: index as u16 };
        self.memory.send(issued + self.reach, core.node, ticket, PhysAddr(line), false);
        self.count_line(at, index, line, false, slot);
        register
    }

    /// Writes a displaced line; the miss that displaced it keeps its register until the controller has taken it in.
    fn write_back(&mut self, at: usize, index: usize, register: u16, line: PhysAddr, slot: u64) {
        let core = &mut self.cores[at];
        if register != NO_REGISTER {
            core.registers[usize::from(register)].writebacks += 1;
        }
        let ticket = Ticket { core: at as u16, register, task: index as u16 };
        self.tasks[index].counts.lines_written += 1;
        let line = PhysAddr(line.0 & self.line_mask);
        self.memory.send(core.time_of(slot) + self.reach, core.node, ticket, line, true);
        self.count_line(at, index, line.0, true, slot);
    }

    /// Fetches a line ahead of its use, while half of the registers are free.
    fn prefetch(&mut self, at: usize, index: usize, line: PhysAddr, slot: u64) {
        let core = &mut self.cores[at];
        let half = core.registers.len() / 2;
        if core.free_registers(slot) <= half || core.under_way(line.0 & self.line_mask, slot).is_some() {
            return;
        }
        let outcome = self.hierarchy.prefetch(at, self.tasks[index].class, line);
        let mut owner = NO_REGISTER;
        if outcome.level == Level::Memory {
            owner = self.miss(at, index, line.0 & self.line_mask, slot, false);
        }
        for &victim in outcome.writebacks.as_slice() {
            self.write_back(at, index, owner, victim, slot);
        }
    }

    fn line_bytes(&self) -> u64 {
        self.line_mask.wrapping_neg()
    }

    // --- results ---

    /// Gives the results so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let tasks = self.tasks.iter().map(|task| {
            let mut counts = task.counts.clone();
            counts.page_faults = task.table.faults;
            counts.frames = task.table.frames;
            let allocator = self.allocators.systems().nth(task.table.allocator);
            let usage = allocator.and_then(|allocator| allocator.usage(task.table.caller.task).ok());
            counts.frames_out_of_color = usage.map_or(0, |usage| usage.out_of_color);
            counts.deadline_misses += u64::from(task.state == State::Ready && self.now > task.deadline);
            counts.jobs_beyond_slots += u64::from(task.state == State::Ready && self.now > task.slots_end);
            if let State::AtBarrier(since) = task.state {
                counts.barrier_ps += self.now.saturating_sub(since).0;
            }
            counts
        });
        Outcome {
            duration: self.now,
            line_bytes: self.line_bytes(),
            tasks: tasks.collect(),
            endings: self.tasks.iter().map(|task| task.ending.clone()).collect(),
            core_slots: self.cores.iter().map(|core| core.busy_slots).collect(),
            banks: self.memory.bank_counts().map(<[BankCounts]>::to_vec).collect(),
            bank_latencies_ps: self.memory.bank_latencies().map(<[Histogram]>::to_vec).collect(),
            ranks: self.memory.rank_counts(self.now).collect(),
            displaced_by_others: self
                .tasks
                .iter()
                .map(|task| self.hierarchy.llc_counts().evictions_by_others(task.class))
                .collect(),
            refresh_met: self.memory.refresh_met().map(<[RefreshMet]>::to_vec).collect(),
            refresh_met_by_task: (0..self.tasks.len()).map(|task| self.memory.refresh_met_by_task(task)).collect(),
            locks: self.soft_refresh.as_ref().map(|soft| self.lock_counts(soft)),
            servers: self.server_counts(),
            table: self.table_counts(),
            regulation: self.regulation_counts(),
        }
    }

    fn lock_counts(&self, soft: &SoftRefresh) -> LockCounts {
        let mut counts = self.locks.clone();
        counts.locked_ps = soft.locked_time(self.now);
        for (core, since) in self.stalled.iter().enumerate() {
            let since = since.map_or(self.now, |slot| self.cores[core].time_of(slot));
            counts.unhidden_ps[core] += self.now.saturating_sub(since).0;
        }
        counts
    }

    /// References executed so far by tasks that have an end.
    #[must_use]
    pub fn references_done(&self) -> u64 {
        self.tasks.iter().filter(|task| task.is_finite).map(|task| task.counts.references).sum()
    }

    /// The allocators, for their counts.
    #[must_use]
    pub fn allocators(&self) -> &Shared {
        &self.allocators
    }

    /// The caches, for their counts.
    #[must_use]
    pub fn caches(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// Ends the simulation and gives the sinks back, channel by channel.
    #[must_use]
    pub fn into_sinks(self) -> Vec<S> {
        self.memory.into_sinks()
    }

    /// The assumptions about the address mapping.
    #[must_use]
    pub fn assumed(&self) -> &[String] {
        self.memory.decoder().assumed()
    }
}

/// Levels in the order of [`TaskCounts::answered`].
#[inline]
fn level_index(level: Level) -> usize {
    match level {
        Level::L1 => 0,
        Level::L2 => 1,
        Level::Llc => 2,
        Level::Peer => 3,
        Level::Memory => 4,
    }
}
