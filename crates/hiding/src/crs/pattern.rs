//! Exact supplies of servers whose times are known.
//!
//! A server that consumes its budget while idle, below none but such servers, runs at times that no job changes: server
//! periods begin at 0, refresh has its phases, and all of it repeats with the least common multiple `P` of its period,
//! those above and the retention time. The same holds for one that is never out of budget, whatever its kind. A
//! deferrable one below such servers has at any time no less budget left than if it had always had work, so that it
//! supplies no less than that: there the tests below are sufficient. The supply of a server in a window from `t` on is
//! then known, and is least from the end of one of its runs on. With sporadic tasks any job can arrive at that time, so
//! these tests are exact: EDF, `dbf(t) <= ` the supply for all windows from each such time on; fixed priorities, for
//! each of them a `t` up to the deadline with `rbf(t) <= ` the supply.
//!
//! Shorter jobs do not change these times, and leave less work in them: no job finishes later. Below a deferrable
//! server this fails: a shorter job leaves budget to the next job, which then runs when it would have waited (see
//! tests/it/crs_simulation.rs). So following the schedule of longest executions does not decide such systems.
//!
//! *Below deferrable servers* only the periods in which they run are known, not the times. Let `A(x, y)` be the time
//! from `x` to `y` in which no lock keeps the server from running, and `F(x, y)` the rest of it when each server above
//! takes its whole budget in each of its periods, if it can run there. From the beginning `s` of one of its periods to
//! `y` the server is supplied `min(e, F(s, y))` at least when it has work; when it has work from `x` on only, its
//! budget has shrunk by `A(s, x)` at most, and `F(x, y) >= F(s, y) - A(s, x)`. So `min(e, F(s, y)) - A(s, x)` is
//! supplied from `x` to `y`: the budget as late as it can come, less the budget as early. Summed over periods, that is
//! the difference of two patterns of equal totals, late until `y` less early until `x`, and least where an early run
//! ends. A server that is never out of budget has no natural periods: any are valid, and those of the servers above are
//! tried.

use crate::crs::model::{Kind, Refresh};
use crate::crs::supply::Plain;
use memtint_sched::parts::{Demand, Steps, utilization};
use memtint_sched::{Policy, Priorities, TaskIndex, TaskSet, Unsupported};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer;
use num_rational::Ratio;

/// When a server runs, from 0 to `period` and again.
pub(super) struct Pattern {
    period: u64,
    /// The earliest runs; they determine the supply before a window.
    early: Runs,
    /// The latest runs; equal to the earliest when its times are known.
    late: Runs,
    /// Whether it runs at exactly these times, and does not only supply as much.
    exact: bool,
}

/// Stretches of a period in which something is supplied.
#[derive(Clone, Default)]
struct Runs {
    /// Beginnings and ends, in order.
    runs: Vec<(u64, u64)>,
    /// The supply before each run.
    before: Vec<u64>,
    total: u64,
}

impl Runs {
    fn push(&mut self, from: u64, to: u64) {
        match self.runs.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => {
                self.runs.push((from, to));
                self.before.push(self.total);
            }
        }
        self.total += to - from;
    }

    /// Supply from 0 to a time.
    fn until(&self, time: u64, period: u64) -> u64 {
        let (cycles, rest) = (time / period, time % period);
        let run = self.runs.partition_point(|run| run.0 < rest);
        let within = match run.checked_sub(1) {
            Some(last) => self.before[last] + rest.min(self.runs[last].1) - self.runs[last].0,
            None => 0,
        };
        cycles * self.total + within
    }
}

/// The servers that refresh allows to run, and until when.
struct Gate {
    busy: bool,
    locked: Vec<bool>,
    until: u64,
}

impl Gate {
    fn at(refresh: &Refresh, now: u64) -> Gate {
        let (mut busy, mut locked, mut until) = (false, vec![false; refresh.groups.len()], u64::MAX);
        for (group, locked) in refresh.groups.iter().zip(&mut locked) {
            // A locked window ends before the retention time does, so that it is as if there had been one before.
            let since = (now + refresh.retention.0 - group.phase.0) % refresh.retention.0;
            let ends =
                [refresh.lock.0, refresh.lock.0 + group.burst.0, refresh.lock.0 + group.burst.0 + refresh.unlock.0];
            *locked = since < ends[2];
            busy |= since < ends[0] || (ends[1]..ends[2]).contains(&since);
            let end = ends.into_iter().chain([refresh.retention.0]).find(|&end| since < end);
            until = until.min(now + end.unwrap_or(refresh.retention.0) - since);
        }
        Gate { busy, locked, until }
    }

    /// The same gate, or the next one.
    fn after(self, refresh: &Refresh, now: u64) -> Gate {
        if now < self.until { self } else { Gate::at(refresh, now) }
    }

    fn open(&self, group: usize) -> bool {
        !self.busy && !self.locked[group]
    }
}

/// A window that does not fit: task, job, length, demand, supply.
pub(super) struct Short {
    pub(super) task: TaskIndex,
    pub(super) job: u64,
    pub(super) length: u64,
    pub(super) demand: u128,
    pub(super) supplied: u64,
}

/// The result of an exact test.
pub(super) enum Exact {
    /// Every job is in time; bounds of the responses.
    Fits(Vec<Picoseconds>),
    /// One need not be.
    Late(Short),
}

impl Pattern {
    /// Finds the pattern of a server, or some that bound its supply from below: any pattern that fits its tasks proves
    /// them. Omits patterns with more than about `events_max` events.
    pub(super) fn of(servers: &[Plain], refresh: &Refresh, index: usize, events_max: u64) -> Vec<Pattern> {
        let servers = &servers[..=index];
        let own = &servers[index];
        let known = |server: &Plain| server.kind == Kind::IdleConsuming;
        let cycle = |period: Option<u64>| {
            let periods = || servers.iter().map(|server| server.period).chain(period);
            let cycle = periods().try_fold(refresh.retention.0, |lcm, period| {
                u64::try_from(u128::from(lcm).lcm(&u128::from(period))).ok().filter(|&lcm| lcm < 1 << 60)
            })?;
            let windows = cycle / refresh.retention.0 * 4 * refresh.groups.len() as u64;
            let events = periods().fold(windows, |sum, period| sum.saturating_add(2 * (cycle / period)));
            (events <= events_max).then_some(cycle)
        };
        if servers[..index].iter().all(known) {
            let exact = known(own) || own.budget == own.period;
            return cycle(None).map(|cycle| Pattern::follow(servers, refresh, 0, cycle, exact)).into_iter().collect();
        }
        let mut periods = vec![own.period];
        if own.budget == own.period {
            periods.extend(servers[..index].iter().map(|server| server.period));
        }
        let bounded = |&period: &u64| Some(Pattern::bound(servers, refresh, period, 0, cycle(Some(period))?));
        periods.iter().filter_map(bounded).collect()
    }

    /// Follows a second server around a time, as [`Pattern::of`] would, from the beginning of the period before that of
    /// `at` up to `until`. It does not include other times.
    pub(super) fn around(servers: &[Plain; 2], refresh: &Refresh, at: u64, until: u64) -> Vec<Pattern> {
        let [above, own] = servers;
        let begins = |period: u64| (at / period * period).saturating_sub(period);
        let part = |pattern: Pattern| Pattern { period: u64::MAX, ..pattern };
        if above.kind == Kind::IdleConsuming {
            let from = begins(own.period) / above.period * above.period;
            return vec![part(Pattern::follow(servers, refresh, from, until, false))];
        }
        let mut periods = vec![own.period];
        if own.budget == own.period {
            periods.push(above.period);
        }
        let bound = |period: u64| Pattern::bound(servers, refresh, period, begins(period), until);
        periods.into_iter().map(|period| part(bound(period))).collect()
    }

    fn follow(servers: &[Plain], refresh: &Refresh, from: u64, period: u64, exact: bool) -> Pattern {
        let mut budgets = vec![0; servers.len()];
        let mut runs = Runs::default();
        let mut now = from;
        let mut gate = Gate::at(refresh, now);
        while now < period {
            gate = gate.after(refresh, now);
            let mut next = period.min(gate.until);
            for (budget, server) in budgets.iter_mut().zip(servers) {
                if now.is_multiple_of(server.period) {
                    *budget = server.budget;
                }
                next = next.min((now / server.period + 1) * server.period);
            }
            let runs_now = (0..servers.len()).find(|&one| budgets[one] > 0 && gate.open(servers[one].group));
            if let Some(one) = runs_now {
                next = next.min(now + budgets[one]);
                budgets[one] -= next - now;
                if one + 1 == servers.len() {
                    runs.push(now, next);
                }
            }
            now = next;
        }
        Pattern { period, early: runs.clone(), late: runs, exact }
    }

    /// Bounds the last of the servers, in its periods, or in any periods when it is never out of budget.
    fn bound(servers: &[Plain], refresh: &Refresh, own: u64, from: u64, cycle: u64) -> Pattern {
        let (last, above) = servers.split_last().expect("a server");
        // One that is never out of budget has as much as there is time.
        let budget = if last.budget == last.period { own } else { last.budget };
        let (mut early, mut late) = (Runs::default(), Runs::default());
        let mut now = from;
        let mut gate = Gate::at(refresh, now);
        while now < cycle {
            let end = now + own;
            let mut open = Runs::default();
            let mut left: Vec<u64> = above.iter().map(|server| server.budget).collect();
            // How far the time left over is below its maximum so far, or below 0.
            let (mut short, mut supplied) = (0, 0);
            while now < end {
                gate = gate.after(refresh, now);
                let mut next = end.min(gate.until);
                for (left, server) in left.iter_mut().zip(above) {
                    if now.is_multiple_of(server.period) {
                        *left = server.budget;
                    }
                    next = next.min((now / server.period + 1) * server.period);
                }
                if gate.open(last.group) {
                    let takes = |one: &usize| left[*one] > 0 && gate.open(above[*one].group);
                    let takers: Vec<usize> = (0..above.len()).filter(takes).collect();
                    next = takers.iter().fold(next, |next, &one| next.min(now + left[one]));
                    if takers.is_empty() {
                        let room = if short > 0 { short } else { budget - supplied };
                        next = if room > 0 { next.min(now + room) } else { next };
                    }
                    let time = next - now;
                    takers.iter().for_each(|&one| left[one] -= time);
                    match takers.len() as u64 {
                        0 if short > 0 => short -= time,
                        0 if supplied < budget => {
                            supplied += time;
                            late.push(now, next);
                        }
                        0 => {}
                        count => short += (count - 1) * time,
                    }
                    open.push(now, next);
                }
                now = next;
            }
            for (from, to) in open.runs {
                let time = supplied.min(to - from);
                if time > 0 {
                    early.push(from, from + time);
                }
                supplied -= time;
            }
        }
        Pattern { period: cycle, early, late, exact: false }
    }

    /// The least supply in any window of a length.
    pub(super) fn least(&self, length: u64) -> u64 {
        self.early.runs.iter().map(|run| self.supplied(run.1, length)).min().unwrap_or(0)
    }

    /// Returns whether the supply is below some demand in a window of its length that ends by `until`.
    pub(super) fn short(&self, mut demands: impl Iterator<Item = (u64, u128)>, until: u64) -> bool {
        demands.any(|(length, demand)| {
            let froms = self.early.runs.iter().map(|run| run.1).take_while(|from| from + length <= until);
            froms.into_iter().any(|from| u128::from(self.supplied(from, length)) < demand)
        })
    }

    /// The least supply from a time on.
    fn supplied(&self, from: u64, length: u64) -> u64 {
        self.late.until(from + length, self.period).saturating_sub(self.early.until(from, self.period))
    }

    /// Decides for tasks on it; `None` when it cannot say.
    pub(super) fn decide(&self, set: &TaskSet, policy: &Policy, steps: &mut Steps) -> Option<Exact> {
        self.compare(set, policy, steps).filter(|found| self.exact || matches!(found, Exact::Fits(_)))
    }

    /// Compares demand with its supply: a job is late if it would be with no more supply than this.
    pub(super) fn compare(&self, set: &TaskSet, policy: &Policy, steps: &mut Steps) -> Option<Exact> {
        let plain = set.tasks().iter().all(|task| task.blocking().0 == 0 && task.jitter().0 == 0);
        let rate = Ratio::new(BigUint::from(self.late.total), BigUint::from(self.period));
        let load = utilization(set.tasks().iter());
        if !plain || load >= rate {
            return None;
        }
        let found = match policy {
            Policy::Edf | Policy::NonPreemptiveEdf => self.edf(set, rate, load, steps),
            Policy::FixedPriority(priorities, _) => self.fixed(set, priorities, steps),
        };
        found.ok().flatten()
    }

    /// The most by which a supply is behind its rate, in any window: rounded up.
    fn behind(&self) -> u64 {
        let ahead = |runs: &Runs, time: u64| {
            i128::from(runs.until(time, self.period)) * i128::from(self.period)
                - i128::from(time) * i128::from(runs.total)
        };
        let most = self.early.runs.iter().map(|run| ahead(&self.early, run.1)).max().unwrap_or(0);
        let least = self.late.runs.iter().map(|run| ahead(&self.late, run.0)).min().unwrap_or(0);
        u64::try_from((most - least) / i128::from(self.period) + 1).unwrap_or(u64::MAX)
    }

    /// Demand is at most `U t + sum U (T - D)`, and supply at least the rate less its lag.
    fn edf(
        &self,
        set: &TaskSet,
        rate: Ratio<BigUint>,
        load: Ratio<BigUint>,
        steps: &mut Steps,
    ) -> Result<Option<Exact>, Unsupported> {
        let ahead = |task: &memtint_sched::Task| {
            task.utilization() * BigUint::from(task.period().0.saturating_sub(task.deadline().0))
        };
        let apart = set.tasks().iter().map(ahead).sum::<Ratio<BigUint>>() + BigUint::from(self.behind());
        let first = set.tasks().iter().map(|task| task.deadline().0).max().unwrap_or(0);
        let last = u64::try_from((apart / (rate - load)).ceil().to_integer()).unwrap_or(u64::MAX);
        if last > 1 << 60 {
            return Ok(None);
        }
        let demand = Demand::new(set);
        let mut length = demand.next_deadline(0);
        while length <= last.max(first) {
            let work = demand.work(length);
            for &(_, from) in &self.early.runs {
                steps.step()?;
                let supplied = self.supplied(from, length);
                if work > u128::from(supplied) {
                    let (task, job) = demand.ends(length);
                    return Ok(Some(Exact::Late(Short { task, job, length, demand: work, supplied })));
                }
            }
            length = demand.next_deadline(length);
        }
        Ok(Some(Exact::Fits(set.tasks().iter().map(memtint_sched::Task::deadline).collect())))
    }

    fn fixed(&self, set: &TaskSet, priorities: &Priorities, steps: &mut Steps) -> Result<Option<Exact>, Unsupported> {
        let mut responses = vec![Picoseconds(0); set.tasks().len()];
        for (rank, &index) in priorities.order().iter().enumerate() {
            let task = &set[index];
            if task.deadline() > task.period() {
                return Ok(None);
            }
            let work = |length: u64| {
                let jobs = |&other: &TaskIndex| {
                    let other = &set[other];
                    u128::from(length.div_ceil(other.period().0)) * u128::from(other.wcet().0)
                };
                priorities.order()[..rank].iter().map(jobs).sum::<u128>() + u128::from(task.wcet().0)
            };
            for &(_, from) in &self.early.runs {
                let mut reached = 0;
                loop {
                    steps.step()?;
                    let needed = work(reached);
                    let next = self.completion(from, needed).max(reached);
                    if next > task.deadline().0 {
                        let (job, length) = (0, task.deadline().0);
                        let supplied = self.supplied(from, length);
                        let demand = work(length);
                        return Ok(Some(Exact::Late(Short { task: index, job, length, demand, supplied })));
                    }
                    if next == reached {
                        break;
                    }
                    reached = next;
                }
                responses[index.index()] = responses[index.index()].max(Picoseconds(reached));
            }
        }
        Ok(Some(Exact::Fits(responses)))
    }

    /// The shortest window from a time on that is supplied this demand.
    fn completion(&self, from: u64, demand: u128) -> u64 {
        let late = &self.late;
        let target = u128::from(self.early.until(from, self.period)) + demand;
        let cycles = (target - 1) / u128::from(late.total);
        let rest = (target - cycles * u128::from(late.total)) as u64;
        let run = late.before.partition_point(|&before| before < rest) - 1;
        let end = cycles * u128::from(self.period) + u128::from(late.runs[run].0 + rest - late.before[run]);
        u64::try_from(end).unwrap_or(u64::MAX).saturating_sub(from)
    }
}
