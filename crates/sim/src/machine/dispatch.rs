//! Which task runs on which core: releases, jobs, barriers, preemption, migration.
//!
//! A core makes a decision when its task stops, at releases of tasks that may run on it, at the end of a quantum, and
//! when another core notifies it. Pinned tasks are scheduled core by core (partitioned). A task that may run on several
//! cores goes to an idle one or, by priority or deadline, to the one with the least urgent task (global). The cores'
//! clocks, and thus the order of their decisions, differ by less than the time to reach memory. On a core with
//! [servers](super::server) tasks of servers come first while one of these has budget; tasks without server run in the
//! background.

use super::server::Choice;
use super::{END_OF_TIME, Machine, Scheduling};
use crate::core::{Block, NO_REGISTER, PENDING};
use crate::memory::Ticket;
use crate::refresh::{RankMask, RefreshTask};
use crate::runs::Ran;
use crate::task::{Copying, Ending, State, Task};
use memtint_dram::CommandSink;
use memtint_units::Picoseconds;

/// Smaller is more urgent; no two tasks have the same.
type Urgency = (u64, usize);

impl<S: CommandSink> Machine<S> {
    /// Decides what a core runs; returns false when it has to wait first.
    pub(super) fn schedule(&mut self, at: usize) -> bool {
        self.end_stall(at);
        self.serve_interrupts(at);
        self.clean_what_was_written_since(at);
        self.look_up_locks(at);
        let core = &self.cores[at];
        if !core.draining && core.task.is_some() && !self.is_refresh_task_due(at) {
            // Without a change there is no need to wait for loads.
            self.release_what_is_due(at);
            self.account_servers(at);
            let choice = self.choice(at);
            if choice.task == self.cores[at].task {
                self.serve(at, choice);
                self.use_slot(at, choice.task);
                self.look_again(at);
                self.call_others(at);
                return true;
            }
        }
        // The previous task completes its loads first.
        let core = &mut self.cores[at];
        match core.drain() {
            Ok(slot) => {
                if let Some(task) = core.task {
                    self.tasks[task].counts.slots += slot - core.slot;
                    core.busy_slots += slot - core.slot;
                }
                core.slot = slot;
                core.draining = false;
            }
            Err(register) => {
                core.draining = true;
                core.block = Block::Register(register);
                return false;
            }
        }
        if let Some(task) = core.task {
            let now = core.time_of(core.slot);
            if let Some(log) = &mut self.log {
                log.end(at, now);
            }
            self.stop_where_it_has_to(task, now);
        }
        self.suspend_servers(at);
        self.suspend_slot(at);
        self.run_refresh_tasks(at);
        self.look_up_locks(at);
        self.release_what_is_due(at);
        self.account_servers(at);
        let choice = self.choice(at);
        self.serve(at, choice);
        self.use_slot(at, choice.task);
        self.run(at, choice.task);
        self.log_what_runs(at);
        self.begin_stall(at);
        self.look_again(at);
        self.call_others(at);
        true
    }

    /// Records the task that a core switches to.
    fn log_what_runs(&mut self, at: usize) {
        let core = &self.cores[at];
        if let (Some(log), Some(task)) = (&mut self.log, core.task) {
            log.begin(at, Ran::Job { task, job: self.tasks[task].job }, core.time_of(core.slot));
        }
    }

    // --- refresh by software ---

    fn is_refresh_task_due(&self, at: usize) -> bool {
        let core = &self.cores[at];
        self.refresh_task_at[at] <= core.time_of(core.slot)
    }

    /// Runs the lock and unlock tasks that have been released, before anything else on their cores.
    fn run_refresh_tasks(&mut self, at: usize) {
        while self.is_refresh_task_due(at) {
            let Some(soft) = &self.soft_refresh else { return };
            let due = soft.next_task(self.refresh_task_at[at]);
            let all: Vec<RefreshTask> = soft.tasks_at(due.at).collect();
            self.refresh_task_at[at] = soft.next_task(due.at + Picoseconds(1)).at;
            let (lock, unlock, clean) = (soft.lock, soft.unlock, soft.clean);
            let begin = self.cores[at].slot;
            for task in all {
                let before = self.cores[at].slot;
                // Lines are written back within the time of the lock task, if that is enough.
                let done = self.cores[at].slot + self.cores[at].slot_of(if task.locks { lock } else { unlock });
                if task.locks {
                    self.locks.locks += 1;
                    if clean {
                        self.clean(at, task.ranks);
                    }
                }
                let core = &mut self.cores[at];
                let from = core.time_of(before);
                core.slot = core.slot.max(done);
                if let Some(log) = &mut self.log {
                    let ran =
                        if task.locks { Ran::Lock { ranks: task.ranks } } else { Ran::Unlock { ranks: task.ranks } };
                    log.begin(at, ran, from);
                    log.end(at, core.time_of(core.slot));
                }
            }
            let core = &mut self.cores[at];
            core.wake = core.wake.max(core.slot);
            self.locks.tasks_ps += (core.time_of(core.slot) - core.time_of(begin)).0;
        }
    }

    /// Cores that run no lock task may have written to the ranks until they see the lock: they write these lines back.
    fn clean_what_was_written_since(&mut self, at: usize) {
        let Some(soft) = self.soft_refresh.as_ref().filter(|soft| soft.clean && !soft.cores.contains(&at)) else {
            return;
        };
        let core = &self.cores[at];
        let locked = soft.locked(core.time_of(core.slot));
        let fresh = locked & !self.locks_seen[at];
        self.locks_seen[at] = locked;
        if fresh != 0 {
            self.clean(at, fresh);
        }
    }

    /// Writes back the dirty lines of some ranks, at the pace of the bus.
    fn clean(&mut self, at: usize, ranks: RankMask) {
        let memory = &self.memory;
        let lines = self.hierarchy.clean(|line| memory.rank(line).is_some_and(|rank| ranks >> rank.0 & 1 == 1));
        let step = self.cores[at].slot_of(self.memory.line_time());
        let task = self.cores[at].last_task.unwrap_or_default() as u16;
        for line in lines {
            let core = &mut self.cores[at];
            let sent = core.time_of(core.slot) + self.reach;
            core.slot += step;
            let ticket = Ticket { core: at as u16, register: NO_REGISTER, task };
            self.memory.send(sent, self.cores[at].node, ticket, line, true);
            self.locks.cleaned_lines += 1;
        }
    }

    /// Updates a core's view of the current locks and of their next change, unless it is valid.
    fn look_up_locks(&mut self, at: usize) {
        let Some(soft) = &self.soft_refresh else { return };
        let core = &mut self.cores[at];
        let now = core.time_of(core.slot);
        if now >= core.locked.1 {
            core.locked = (soft.locked(now), soft.next_change(RankMask::MAX, now));
        }
        if now >= core.locks_change {
            core.locks_change = soft.next_change(core.ranks, now);
        }
    }

    /// The ranks that are locked at a core's current time.
    pub(super) fn locked(&self, at: usize) -> RankMask {
        let Some(soft) = &self.soft_refresh else { return 0 };
        let core = &self.cores[at];
        let now = core.time_of(core.slot);
        // The cached value dates from the last update.
        if now < core.locked.1 { core.locked.0 } else { soft.locked(now) }
    }

    /// Whether a task may not run on a core now, because its memory is being refreshed.
    fn is_locked_out(&self, index: usize, at: usize) -> bool {
        self.ranks_needed(index) & self.locked(at) != 0
    }

    /// The ranks that a task uses next: its own, and for a copy those of the other instance.
    pub(super) fn ranks_needed(&self, index: usize) -> RankMask {
        let task = &self.tasks[index];
        let brings = task.takes_over.filter(|_| self.copy_times[index].1 > 0);
        let other = task.copying.map(|copying| if copying.to == index { copying.from } else { copying.to }).or(brings);
        task.ranks | other.map_or(0, |other| self.tasks[other].ranks)
    }

    /// Counts the idle time of a core with tasks that only locks keep from running.
    fn begin_stall(&mut self, at: usize) {
        if self.soft_refresh.is_none() || self.cores[at].task.is_some() || self.cores[at].serving.is_some() {
            return;
        }
        let waits = |&&index: &&usize| {
            let task = &self.tasks[index];
            let may_run = task.server.is_none_or(|server| self.servers[server].left > 0);
            let may_run = may_run && self.owner(at).is_none_or(|owner| owner == Some(index));
            task.state == State::Ready && task.running_on.is_none() && may_run && self.is_locked_out(index, at)
        };
        if self.cores[at].tasks.iter().any(|index| waits(&index)) {
            self.stalled[at] = Some(self.cores[at].slot);
        }
    }

    fn end_stall(&mut self, at: usize) {
        if let Some(since) = self.stalled[at].take() {
            let core = &self.cores[at];
            self.locks.unhidden_ps[at] += (core.time_of(core.slot).saturating_sub(core.time_of(since))).0;
        }
    }

    /// The instance that executes a job of a task with several instances: under a table, the one whose slot comes
    /// first. Otherwise the instance of the previous job, if no lock meets it up to the deadline; else the first other
    /// without such a lock; else one that is not locked now. `complete` is the instance that has just completed the
    /// previous job.
    fn instance(&mut self, group: usize, job: u64, released: Picoseconds, complete: Option<usize>) -> usize {
        let copies = &self.copies[group];
        if let Some((_, instance)) = copies.decided.filter(|&(decided, _)| decided == job) {
            return instance;
        }
        let latest = copies.latest;
        let first = std::iter::once(latest);
        let order: Vec<usize> = first.chain(copies.members.iter().copied().filter(|&task| task != latest)).collect();
        let is_busy = |&task: &usize| Some(task) != complete && self.tasks[task].state == State::Ready;
        let busy = order.iter().copied().find(is_busy);
        let soft = self.soft_refresh.as_ref();
        let deadline =
            |task: usize| released + self.tasks[task].release.map_or(Picoseconds(0), |release| release.deadline);
        let free = |&task: &usize| {
            soft.is_none_or(|soft| !soft.is_locked_within(self.tasks[task].ranks, released, deadline(task)))
        };
        let unlocked = |&task: &usize| soft.is_none_or(|soft| !soft.is_locked(self.tasks[task].ranks, released));
        // A late job uses the data where they are.
        let chosen = busy
            .or_else(|| self.next_in_table(&order, released))
            .or_else(|| order.iter().copied().find(free))
            .or_else(|| order.iter().copied().find(unlocked))
            .unwrap_or(latest);
        let copies = &mut self.copies[group];
        // Both instances hold the initial data of the first job.
        let is_first = copies.decided.replace((job, chosen)).is_none();
        copies.latest = chosen;
        if chosen != latest && !is_first {
            self.tasks[chosen].takes_over = Some(latest);
            self.locks.copies += 1;
        }
        chosen
    }

    /// Begins to copy data for the instance of the next job, as a part of the otherwise complete job, if the next job
    /// has not arrived yet and neither instance is locked meanwhile. Otherwise the other instance copies before its job
    /// begins.
    fn hands_over(&mut self, index: usize, now: Picoseconds) -> bool {
        let task = &self.tasks[index];
        let (Some(group), Some(release)) = (task.copies, task.release) else { return false };
        if task.has_copied || self.copies[group].members.iter().all(|&member| self.copy_times[member].1 == 0) {
            return false;
        }
        let job = task.job + 1;
        if release.at(job) <= now {
            return false;
        }
        let chosen = self.instance(group, job, release.at(job), Some(index));
        let (time, lines) = self.copy_times[chosen];
        if self.tasks[chosen].takes_over != Some(index) || lines == 0 {
            return false;
        }
        let ranks = self.tasks[index].ranks | self.tasks[chosen].ranks;
        if self.soft_refresh.as_ref().is_some_and(|soft| soft.is_locked_within(ranks, now, now + time)) {
            return false;
        }
        self.tasks[chosen].takes_over = None;
        self.tasks[chosen].counts.taken_over += 1;
        self.tasks[index].copying = Some(Copying::new(index, chosen, lines, self.line_bytes()));
        true
    }

    /// Ends the job, waits at the barrier, or ends the task.
    fn stop_where_it_has_to(&mut self, index: usize, now: Picoseconds) {
        let task = &mut self.tasks[index];
        if task.state != State::Ready || task.copying.is_some() {
            return;
        }
        if task.left == 0 || task.peek().is_none() {
            task.ending = task.failure().map_or(Ending::Completed, Ending::Failed);
            if task.release.is_some() && task.job_left == 0 {
                task.end_job(now);
            }
            self.finish(index, now);
        } else if task.job_left == 0 {
            match task.barrier {
                Some(barrier) => {
                    task.state = State::AtBarrier(now);
                    self.try_barrier(barrier.group);
                }
                None => {
                    if !self.hands_over(index, now) {
                        self.tasks[index].end_job(now);
                    }
                }
            }
        }
    }

    pub(super) fn finish(&mut self, index: usize, now: Picoseconds) {
        let task = &mut self.tasks[index];
        if task.state == State::Finished {
            return;
        }
        task.state = State::Finished;
        task.counts.completed_at = Some(now);
        self.finite_left -= usize::from(task.is_finite);
        self.running -= 1;
        if let Some(barrier) = task.barrier {
            self.try_barrier(barrier.group);
        }
    }

    /// Releases the tasks of a group from a barrier when all of them have arrived.
    fn try_barrier(&mut self, group: u32) {
        let of_group = |task: usize| self.tasks[task].barrier.is_some_and(|barrier| barrier.group == group);
        let members: Vec<usize> = (0..self.tasks.len()).filter(|&task| of_group(task)).collect();
        let mut latest = Picoseconds(0);
        for &member in &members {
            match self.tasks[member].state {
                State::AtBarrier(arrived) => latest = latest.max(arrived),
                State::Finished => {}
                _ => return,
            }
        }
        for member in members {
            let task = &mut self.tasks[member];
            let State::AtBarrier(arrived) = task.state else { continue };
            task.pass_barrier(arrived, latest);
            self.turns += 1;
            self.tasks[member].turn = self.turns;
            for place in 0..self.tasks[member].cores.len() {
                let core = self.tasks[member].cores[place];
                self.call(core, latest);
            }
        }
    }

    /// Gives up late jobs and releases due ones, of tasks that may run on a core.
    fn release_what_is_due(&mut self, at: usize) {
        let core = &self.cores[at];
        let now = core.time_of(core.slot);
        for place in 0..core.tasks.len() {
            let task = &mut self.tasks[self.cores[at].tasks[place]];
            let is_elsewhere = task.running_on.is_some_and(|core| core != at);
            if !is_elsewhere && task.gives_up_at().is_some_and(|deadline| deadline <= now) {
                task.give_up_job();
                // An incomplete copy is repeated.
                if let Some(copying) = task.copying.take() {
                    self.tasks[copying.to].takes_over = Some(copying.from);
                }
            }
            let index = self.cores[at].tasks[place];
            while let State::Waiting(release) = self.tasks[index].state
                && release <= now
            {
                let (group, job) = (self.tasks[index].copies, self.tasks[index].job);
                if group.is_some_and(|group| self.instance(group, job, release, None) != index) {
                    self.tasks[index].leave_job();
                    continue;
                }
                self.turns += 1;
                let task = &mut self.tasks[index];
                task.release_at(release);
                task.turn = self.turns;
                self.tasks[index].slots_end = self.last_slot_end(index, self.tasks[index].deadline);
            }
        }
    }

    fn urgency(&self, index: usize) -> Urgency {
        let task = &self.tasks[index];
        let first = match self.scheduling {
            Scheduling::FixedPriority => u64::from(task.priority),
            Scheduling::EarliestDeadline => task.deadline.0,
            Scheduling::RoundRobin { .. } => task.turn,
            Scheduling::Table => 0,
        };
        (first, index)
    }

    /// The current task of a core, if it is still ready and not locked out.
    fn current(&self, at: usize) -> Option<usize> {
        self.cores[at].task.filter(|&task| self.may_run(task, at))
    }

    /// Whether a task has work that neither a lock nor a bandwidth budget prevents.
    fn may_run(&self, index: usize, at: usize) -> bool {
        self.tasks[index].state == State::Ready && !self.is_locked_out(index, at) && !self.is_throttled(index)
    }

    /// The choice of a core for now.
    fn choice(&mut self, at: usize) -> Choice {
        self.note_demand_of_tasks(at);
        let choice = self.choice_without_budgets(at);
        self.regulated(at, choice)
    }

    /// The choice of a core for now if its bandwidth is not regulated.
    fn choice_without_budgets(&mut self, at: usize) -> Choice {
        if !self.cores[at].servers.is_empty()
            && let Some(choice) = self.choice_of_servers(at, self.locked(at))
        {
            return choice;
        }
        if let Some(owner) = self.owner(at) {
            let runs = |&task: &usize| self.may_run(task, at);
            return Choice { task: owner.filter(runs), server: None };
        }
        Choice { task: self.choice_without_server(at), server: None }
    }

    /// The choice of a core among the tasks without server.
    fn choice_without_server(&mut self, at: usize) -> Option<usize> {
        let current = self.current(at).filter(|&task| self.tasks[task].server.is_none());
        let begun = self.cores[at].begun;
        let has_begun = |task: usize| begun == Some((task, self.tasks[task].job));
        if !self.preemption && current.is_some_and(has_begun) {
            return current;
        }
        // Without preemption the task's next job has no claim to the core, and none of another core's gives way to it.
        let current = current.filter(|_| self.preemption);
        let in_turn = matches!(self.scheduling, Scheduling::RoundRobin { .. });
        if let Some(task) = current.filter(|_| in_turn) {
            if self.cores[at].slot < self.cores[at].quantum_end {
                return current;
            }
            // To the end of the queue; only once, although the decision may be repeated after its loads.
            if self.tasks[task].turn <= self.cores[at].turn {
                self.turns += 1;
                self.tasks[task].turn = self.turns;
            }
        }
        let free = |task: usize| self.tasks[task].running_on.is_none_or(|core| core == at);
        let locked = self.locked(at);
        let wants = |&task: &usize| {
            let Task { state, server, .. } = self.tasks[task];
            state == State::Ready
                && server.is_none()
                && free(task)
                && self.ranks_needed(task) & locked == 0
                && !self.is_throttled(task)
        };
        let ready = self.cores[at].tasks.iter().copied().filter(wants);
        if !self.migratory {
            return ready.min_by_key(|&task| self.urgency(task));
        }
        let mut ready: Vec<usize> = ready.collect();
        ready.sort_by_key(|&task| self.urgency(task));
        for task in ready {
            if Some(task) == current || in_turn {
                return Some(task);
            }
            // It is more urgent than the task here. If another core runs an even less urgent task, that one yields.
            match current.and_then(|current| self.least_urgent(task, Some(at), self.urgency(current))) {
                Some(other) => self.call(other, self.cores[at].time_of(self.cores[at].slot)),
                None => return Some(task),
            }
        }
        None
    }

    /// The idle core among a task's cores, or the one whose task is the least urgent and less urgent than this; without
    /// cores that a server has or that are throttled.
    fn least_urgent(&self, task: usize, but: Option<usize>, than: Urgency) -> Option<usize> {
        let idle = (u64::MAX, usize::MAX);
        let others = self.tasks[task].cores.iter().copied().filter(|&core| Some(core) != but);
        let urgency = |core: usize| match self.cores[core].serving {
            Some(_) => (0, 0),
            None if self.is_core_throttled(core) => (0, 0),
            None => self.current(core).map_or(idle, |task| self.urgency(task)),
        };
        let urgencies = others.map(|core| (urgency(core), core));
        let (urgency, core) = urgencies.max_by_key(|&(urgency, core)| (urgency, std::cmp::Reverse(core)))?;
        (urgency > than).then_some(core)
    }

    /// Puts a task on a core that has finished its loads, or nothing.
    fn run(&mut self, at: usize, chosen: Option<usize>) {
        let line_bytes = self.line_bytes();
        let core = &mut self.cores[at];
        let before = core.task;
        if before == chosen && chosen.is_some() {
            return;
        }
        if let Some(before) = before {
            let now = core.time_of(core.slot);
            let task = &mut self.tasks[before];
            task.running_on = None;
            if task.state == State::Ready {
                task.ready_since = now;
                task.counts.preemptions += 1;
            }
        }
        core.task = chosen;
        let Some(chosen) = chosen else { return };
        let task = &mut self.tasks[chosen];
        core.slot = core.slot.max(core.slot_of(task.ready_since));
        if core.last_task != Some(chosen) {
            core.slot += self.switch_slots;
        }
        core.last_task = Some(chosen);
        if let Some(from) = task.takes_over.take() {
            task.counts.taken_over += 1;
            match self.copy_times[chosen] {
                (time, 0) => core.slot += core.slot_of(time),
                (_, lines) => {
                    (task.copying, task.has_copied) = (Some(Copying::new(from, chosen, lines, line_bytes)), true);
                }
            }
        }
        core.wake = core.wake.max(core.slot);
        core.quantum_end = core.slot + self.quantum_slots;
        core.turn = task.turn;
        task.counts.migrations += u64::from(task.last_core.is_some_and(|last| last != at));
        task.last_core = Some(at);
        task.running_on = Some(at);
        task.table.run_on(at as u32);
    }

    /// Sets when a core must decide again; an idle one sleeps until then.
    fn look_again(&mut self, at: usize) {
        let core = &mut self.cores[at];
        core.begun = core.task.map(|task| (task, self.tasks[task].job));
        let core = &self.cores[at];
        let releases = core.tasks.iter().filter_map(|&index| match self.tasks[index].state {
            State::Waiting(release) => Some(release),
            _ => None,
        });
        let given_up = core.tasks.iter().filter_map(|&index| self.tasks[index].gives_up_at());
        // A job that runs elsewhere is given up there; here it would cause repeated checks after its deadline.
        let here = given_up.filter(|&deadline| deadline > core.time_of(core.slot));
        let locks = self.next_change_of_locks(at);
        let budgets = self.next_change_of_budgets(at);
        let slots = self.next_change_of_slots(at);
        let interrupts = self.next_interrupt(at);
        let next = releases.chain(here).chain(locks).chain(budgets).chain(slots).chain(interrupts).min();
        let next_release = next.map_or(PENDING, |time| core.slot_of(time));
        let others = core.tasks.len() > 1;
        let core = &mut self.cores[at];
        core.look_at = match (core.task, self.scheduling) {
            (Some(task), Scheduling::RoundRobin { .. }) if others && core.serving.is_none() => {
                if core.quantum_end <= core.slot {
                    core.quantum_end = core.slot + self.quantum_slots;
                    core.turn = self.tasks[task].turn;
                }
                next_release.min(core.quantum_end)
            }
            _ => next_release,
        };
        if core.task.is_none() {
            if next_release == PENDING {
                // Nothing to do until another core or channel wakes it.
                core.block = Block::Register(NO_REGISTER);
            } else {
                core.wake = core.slot.max(next_release);
            }
        }
    }

    /// When a lock is next set or lifted that concerns a core.
    fn next_change_of_locks(&self, at: usize) -> Option<Picoseconds> {
        self.soft_refresh.as_ref()?;
        let core = &self.cores[at];
        // A change during a context switch is due already, and handled at once.
        let change = core.locks_change;
        // The end of time is in no slot.
        Some(change.min(self.refresh_task_at[at])).filter(|&change| change < END_OF_TIME)
    }

    /// Makes a core decide again, no earlier than a time.
    pub(super) fn call(&mut self, at: usize, time: Picoseconds) {
        let core = &mut self.cores[at];
        core.look_at = 0;
        if core.task.is_none() {
            core.block = Block::Nothing;
            core.slot = core.slot.max(core.slot_of(time));
            core.wake = core.slot;
        }
    }

    /// Notifies the cores that should run a task without a core: a waiting task, or one that lost its core here.
    fn call_others(&mut self, at: usize) {
        if !self.migratory {
            return;
        }
        let waits = |&index: &usize| {
            let task = &self.tasks[index];
            task.running_on.is_none() && task.cores.len() > 1 && self.may_run(index, at)
        };
        let waiting: Vec<usize> = self.cores[at].tasks.iter().copied().filter(waits).collect();
        let now = self.cores[at].time_of(self.cores[at].slot);
        for task in waiting {
            let than = match self.scheduling {
                // No task is preempted, or not before the end of a quantum.
                Scheduling::RoundRobin { .. } => (u64::MAX, usize::MAX - 1),
                _ if !self.preemption => (u64::MAX, usize::MAX - 1),
                _ => self.urgency(task),
            };
            if let Some(core) = self.least_urgent(task, None, than).filter(|&core| core != at) {
                self.call(core, now);
            }
        }
    }
}
