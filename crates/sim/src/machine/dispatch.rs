//! Which task runs on which core: releases, jobs, barriers, preemption, migration.
//!
//! A core decides when it looks: when its task stops, at releases of tasks that may run on it, at the end of a quantum, and
//! when another core calls it. Tasks that are pinned are scheduled core by core (partitioned); tasks that may run on several
//! cores go to one that is idle, or, by priority or deadline, to the one of theirs whose task is least urgent (global). The
//! cores' clocks differ by less than it takes to reach memory, and so may the order in which they notice.

use super::{Machine, Scheduling};
use crate::core::{Block, NO_REGISTER, PENDING};
use crate::task::{Ending, State};
use memtint_dram::CommandSink;
use memtint_units::Picoseconds;

/// Smaller is more urgent; no two tasks have the same.
type Urgency = (u64, usize);

impl<S: CommandSink> Machine<S> {
    /// Decides what a core runs; false when it has to wait for that.
    pub(super) fn schedule(&mut self, at: usize) -> bool {
        let core = &self.cores[at];
        if !core.draining && core.task.is_some() {
            // Nobody has to wait for loads when nothing changes.
            self.release_what_is_due(at);
            if self.choice(at) == self.cores[at].task {
                self.look_again(at);
                self.call_others(at);
                return true;
            }
        }
        // What it has been running ends its loads first.
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
            self.stop_where_it_has_to(task, now);
        }
        self.release_what_is_due(at);
        let chosen = self.choice(at);
        self.run(at, chosen);
        self.look_again(at);
        self.call_others(at);
        true
    }

    /// Ends the job, waits at the barrier, or ends the task.
    fn stop_where_it_has_to(&mut self, index: usize, now: Picoseconds) {
        let task = &mut self.tasks[index];
        if task.state != State::Ready {
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
                None => task.end_job(now),
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

    /// Lets the tasks of a group go on when all of them have arrived.
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

    /// Gives up the jobs whose time is over, and releases those whose time has come, of tasks that may run on a core.
    fn release_what_is_due(&mut self, at: usize) {
        let core = &self.cores[at];
        let now = core.time_of(core.slot);
        for place in 0..core.tasks.len() {
            let task = &mut self.tasks[self.cores[at].tasks[place]];
            let is_elsewhere = task.running_on.is_some_and(|core| core != at);
            if !is_elsewhere && task.gives_up_at().is_some_and(|deadline| deadline <= now) {
                task.give_up_job();
            }
            if let State::Waiting(release) = task.state
                && release <= now
            {
                task.release_at(release);
                self.turns += 1;
                task.turn = self.turns;
            }
        }
    }

    fn urgency(&self, index: usize) -> Urgency {
        let task = &self.tasks[index];
        let first = match self.scheduling {
            Scheduling::FixedPriority => u64::from(task.priority),
            Scheduling::EarliestDeadline => task.deadline.0,
            Scheduling::RoundRobin { .. } => task.turn,
        };
        (first, index)
    }

    /// What a core runs, still ready.
    fn current(&self, at: usize) -> Option<usize> {
        self.cores[at].task.filter(|&task| self.tasks[task].state == State::Ready)
    }

    /// What a core should run now.
    fn choice(&mut self, at: usize) -> Option<usize> {
        let current = self.current(at);
        let in_turn = matches!(self.scheduling, Scheduling::RoundRobin { .. });
        if let Some(task) = current.filter(|_| in_turn) {
            if self.cores[at].slot < self.cores[at].quantum_end {
                return current;
            }
            // To the end of the queue; once, though the answer may be asked for again after its loads.
            if self.tasks[task].turn <= self.cores[at].turn {
                self.turns += 1;
                self.tasks[task].turn = self.turns;
            }
        }
        let free = |task: usize| self.tasks[task].running_on.is_none_or(|core| core == at);
        let wants = |task: &usize| self.tasks[*task].state == State::Ready && free(*task);
        let mut ready: Vec<usize> = self.cores[at].tasks.iter().copied().filter(wants).collect();
        if !self.migratory {
            return ready.into_iter().min_by_key(|&task| self.urgency(task));
        }
        ready.sort_by_key(|&task| self.urgency(task));
        for task in ready {
            if Some(task) == current || in_turn {
                return Some(task);
            }
            // It is more urgent than what runs here. If another core runs something less urgent still, that one gives way.
            match current.and_then(|current| self.least_urgent(task, Some(at), self.urgency(current))) {
                Some(other) => self.call(other, self.cores[at].time_of(self.cores[at].slot)),
                None => return Some(task),
            }
        }
        None
    }

    /// Of a task's cores the one that is idle, or whose task is the least urgent and less so than this.
    fn least_urgent(&self, task: usize, but: Option<usize>, than: Urgency) -> Option<usize> {
        let idle = (u64::MAX, usize::MAX);
        let others = self.tasks[task].cores.iter().copied().filter(|&core| Some(core) != but);
        let urgencies = others.map(|core| (self.current(core).map_or(idle, |task| self.urgency(task)), core));
        let (urgency, core) = urgencies.max_by_key(|&(urgency, core)| (urgency, std::cmp::Reverse(core)))?;
        (urgency > than).then_some(core)
    }

    /// Puts a task on a core that has finished its loads, or nothing.
    fn run(&mut self, at: usize, chosen: Option<usize>) {
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
        core.wake = core.wake.max(core.slot);
        core.quantum_end = core.slot + self.quantum_slots;
        core.turn = task.turn;
        task.counts.migrations += u64::from(task.last_core.is_some_and(|last| last != at));
        task.last_core = Some(at);
        task.running_on = Some(at);
        task.table.run_on(at as u32);
    }

    /// When a core has to decide again; an idle one sleeps until then.
    fn look_again(&mut self, at: usize) {
        let core = &self.cores[at];
        let releases = core.tasks.iter().filter_map(|&index| match self.tasks[index].state {
            State::Waiting(release) => Some(release),
            _ => None,
        });
        let given_up = core.tasks.iter().filter_map(|&index| self.tasks[index].gives_up_at());
        // What runs elsewhere is given up there; here it would be looked at again and again once its time is over.
        let here = given_up.filter(|&deadline| deadline > core.time_of(core.slot));
        let next_release = releases.chain(here).min().map_or(PENDING, |time| core.slot_of(time));
        let others = core.tasks.len() > 1;
        let core = &mut self.cores[at];
        core.look_at = match (core.task, self.scheduling) {
            (Some(task), Scheduling::RoundRobin { .. }) if others => {
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
                // Nothing to do until somebody else says so.
                core.block = Block::Register(NO_REGISTER);
            } else {
                core.wake = core.slot.max(next_release);
            }
        }
    }

    /// Makes a core decide again, no earlier than a time.
    fn call(&mut self, at: usize, time: Picoseconds) {
        let core = &mut self.cores[at];
        core.look_at = 0;
        if core.task.is_none() {
            core.block = Block::Nothing;
            core.slot = core.slot.max(core.slot_of(time));
            core.wake = core.slot;
        }
    }

    /// Calls the cores that should run a task which none has taken: those that wait, and those that lost their core here.
    fn call_others(&mut self, at: usize) {
        if !self.migratory {
            return;
        }
        let waits = |task: &usize| {
            let task = &self.tasks[*task];
            task.state == State::Ready && task.running_on.is_none() && task.cores.len() > 1
        };
        let waiting: Vec<usize> = self.cores[at].tasks.iter().copied().filter(waits).collect();
        let now = self.cores[at].time_of(self.cores[at].slot);
        for task in waiting {
            let than = match self.scheduling {
                // Nobody is preempted before the end of a quantum.
                Scheduling::RoundRobin { .. } => (u64::MAX, usize::MAX - 1),
                _ => self.urgency(task),
            };
            if let Some(core) = self.least_urgent(task, None, than).filter(|&core| core != at) {
                self.call(core, now);
            }
        }
    }
}
