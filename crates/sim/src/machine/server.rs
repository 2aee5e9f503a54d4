//! Servers: budgets of time on a core, for the tasks inside ([Pan18, §5.3.4 and 5.3.5]).
//!
//! A budget is set at the beginning of each period; the rest of the previous one is lost. It is consumed while a task
//! of the server has the core, from the switch to the task until its loads have completed, except for the time of lock
//! and unlock tasks in between. An idle-consuming server has the core, and consumes its budget, even without work.
//!
//! When a budget is exhausted, the core finishes the current reference and waits for its loads: this excess is counted
//! as an overrun. The next budget is not reduced by it.

use super::Machine;
use crate::refresh::RankMask;
use crate::task::State;
use memtint_dram::CommandSink;
use memtint_units::Picoseconds;

/// Treatment of a budget while a server has no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerKind {
    /// It stays until the end of the period.
    #[default]
    Deferrable,
    /// It is consumed: the server has the core, and no other server runs.
    IdleConsuming,
}

/// Which ready task of a server runs; preemptive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerScheduling {
    /// The one with the earliest deadline.
    #[default]
    Edf,
    /// The one with the smallest priority number.
    FixedPriority,
}

/// A server of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its core.
    pub core: usize,
    /// Between two budgets; 1 ps or more.
    pub period: Picoseconds,
    /// Its budget in a period, 1 ps to the period.
    pub budget: Picoseconds,
    /// When its first period begins; it has no budget before.
    pub phase: Picoseconds,
    /// Smaller is more urgent than other servers of the core; of equal ones the first in the list.
    pub priority: u32,
    /// Treatment of an unused budget.
    pub kind: ServerKind,
    /// Which of its tasks runs.
    pub scheduling: ServerScheduling,
    /// Ranks, one bit each: the server does not run while one of them is locked.
    pub ranks: u64,
}

/// Counts of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Time that it had its core, in picoseconds, overruns included.
    pub consumed_ps: u64,
    /// Budgets set.
    pub replenishments: u64,
    /// The most that it had of its core in a period beyond its budget, in picoseconds.
    pub longest_overrun_ps: u64,
    /// Time in which it did not run for a lock although it had budget and a task was ready, in picoseconds. What lock and
    /// unlock tasks themselves take of the core is not in it.
    pub held_up_ps: u64,
    /// Of that, while nothing else had the core, either.
    pub unhidden_ps: u64,
}

/// State of one server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) config: ServerConfig,
    pub(super) tasks: Vec<usize>,
    /// Of this period's budget, in picoseconds.
    pub(super) left: u64,
    /// Time beyond the budget since that was set.
    over: u64,
    /// When the budget is set next.
    replenished_at: Picoseconds,
    /// Everything up to this time is accounted for.
    since: Picoseconds,
    /// Between the latest two looks of its core a lock kept it from running.
    held_up: bool,
    counts: ServerCounts,
}

impl Server {
    pub(super) fn new(config: ServerConfig) -> Server {
        Server {
            config,
            tasks: Vec::new(),
            left: 0,
            over: 0,
            replenished_at: config.phase,
            since: Picoseconds(0),
            held_up: false,
            counts: ServerCounts::default(),
        }
    }

    /// Accounts for the time up to `now`, in which it had its core or not.
    fn account(&mut self, now: Picoseconds, serves: bool, idle: bool) {
        if self.held_up {
            let held_up = now.saturating_sub(self.since).0;
            self.counts.held_up_ps += held_up;
            self.counts.unhidden_ps += if idle { held_up } else { 0 };
        }
        while self.replenished_at <= now {
            if serves {
                self.consume(self.replenished_at);
            }
            (self.left, self.over) = (self.config.budget.0, 0);
            self.counts.replenishments += 1;
            self.replenished_at += self.config.period;
        }
        if serves {
            self.consume(now);
        }
        self.since = self.since.max(now);
    }

    fn consume(&mut self, until: Picoseconds) {
        let time = until.saturating_sub(self.since).0;
        self.since = self.since.max(until);
        self.counts.consumed_ps += time;
        self.over += time.saturating_sub(self.left);
        self.left = self.left.saturating_sub(time);
        self.counts.longest_overrun_ps = self.counts.longest_overrun_ps.max(self.over);
    }

    /// When the core has to look at it again, for its budget alone.
    fn next_change(&self, serves: bool) -> Option<Picoseconds> {
        match (serves, self.left) {
            (true, left) => Some(self.replenished_at.min(self.since + Picoseconds(left))),
            (false, 0) => Some(self.replenished_at),
            // More of a budget that it cannot use changes nothing.
            (false, _) => None,
        }
    }
}

/// The choice of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) task: Option<usize>,
    /// The server that has the core; without a task it has nothing to do and consumes its budget.
    pub(super) server: Option<usize>,
}

impl<S: CommandSink> Machine<S> {
    /// Consumes and sets the budgets of a core's servers up to now, according to its activity.
    pub(super) fn account_servers(&mut self, at: usize) {
        let core = &self.cores[at];
        if core.servers.is_empty() {
            return;
        }
        let now = core.time_of(core.slot);
        let idle = core.task.is_none() && core.serving.is_none();
        for &server in &core.servers {
            self.servers[server].account(now, core.serving == Some(server), idle);
        }
    }

    /// Accounts for the servers of a core that goes over to lock and unlock tasks.
    pub(super) fn suspend_servers(&mut self, at: usize) {
        self.account_servers(at);
        self.cores[at].serving = None;
        for &server in &self.cores[at].servers {
            self.servers[server].held_up = false;
        }
    }

    /// Gives a core to the server that has been chosen, if any.
    pub(super) fn serve(&mut self, at: usize, choice: Choice) {
        let core = &mut self.cores[at];
        if core.servers.is_empty() {
            return;
        }
        core.serving = choice.server;
        // A task that another core lets go on may not have begun yet.
        let begins = choice.task.filter(|&task| core.task != Some(task)).map(|task| self.tasks[task].ready_since);
        let now = core.time_of(core.slot);
        let locked = self.locked(at);
        for place in 0..self.cores[at].servers.len() {
            let index = self.cores[at].servers[place];
            let ready = |&&task: &&usize| self.tasks[task].state == State::Ready;
            let mut ready =
                self.servers[index].tasks.iter().filter(ready).map(|&task| self.ranks_needed(task)).peekable();
            let held_up = ready.peek().is_some() && ready.all(|ranks| ranks & locked != 0);
            let server = &mut self.servers[index];
            server.since = if choice.server == Some(index) { now.max(begins.unwrap_or(now)) } else { now };
            server.held_up = held_up && server.left > 0;
        }
    }

    /// The most urgent server of a core that has budget, no locked rank, and something to do or nothing to lose by waiting.
    pub(super) fn choice_of_servers(&self, at: usize, locked: RankMask) -> Option<Choice> {
        self.cores[at].servers.iter().find_map(|&index| {
            let server = &self.servers[index];
            if server.left == 0 || server.config.ranks & locked != 0 {
                return None;
            }
            let wants = |&&task: &&usize| {
                let locked_out = self.ranks_needed(task) & locked != 0;
                self.tasks[task].state == State::Ready && !locked_out && !self.is_throttled(task)
            };
            let task = server.tasks.iter().filter(wants).min_by_key(|&&task| match server.config.scheduling {
                ServerScheduling::Edf => (self.tasks[task].deadline.0, task),
                ServerScheduling::FixedPriority => (u64::from(self.tasks[task].priority), task),
            });
            let waits = server.config.kind == ServerKind::IdleConsuming;
            (task.is_some() || waits).then_some(Choice { task: task.copied(), server: Some(index) })
        })
    }

    /// When a change of budgets next affects the choice of a core.
    pub(super) fn next_change_of_budgets(&self, at: usize) -> Option<Picoseconds> {
        let core = &self.cores[at];
        core.servers.iter().filter_map(|&server| self.servers[server].next_change(core.serving == Some(server))).min()
    }

    /// Of each server, up to now.
    pub(super) fn server_counts(&self) -> Vec<ServerCounts> {
        let counts = |(index, server): (usize, &Server)| {
            let mut server = server.clone();
            let core = &self.cores[server.config.core];
            let idle = core.task.is_none() && core.serving.is_none();
            server.account(self.now, core.serving == Some(index), idle);
            server.counts
        };
        self.servers.iter().enumerate().map(counts).collect()
    }
}
