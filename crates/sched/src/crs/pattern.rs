//! Servers whose times are known: what they supply, exactly.
//!
//! A server that consumes its budget while idle, below none but such servers, runs at times that no job changes: server periods
//! begin at 0, refresh has its phases, and all of it repeats with the least common multiple `P` of its period, those above and the
//! retention time. The same holds for one that is never out of budget, whatever its kind. A deferrable one below such servers has at
//! any time no less budget left than if it had always had work, so that it supplies no less than that: there the tests below
//! are sufficient. What a server supplies in a window from `t` on is then known, and
//! least from the end of one of its runs on. With sporadic tasks any job can arrive then, so that these tests are exact: EDF, `dbf(t) <= ` the
//! supply for all windows from each such time on; fixed priorities, for each of them a `t` up to the deadline with `rbf(t) <= ` the supply.
//!
//! Shorter jobs change nothing of the times, and leave less to do in them: no job is later for it. Below a deferrable server that is not so: a
//! shorter job leaves budget to the next, which then runs when it would have waited (see tests/crs_simulation.rs). So such systems are not decided by
//! following the schedule in which all takes its longest.

use crate::crs::model::{Core, Kind, Refresh, Server};
use crate::edf::Demand;
use crate::fixed::Priorities;
use crate::schedule::Policy;
use crate::task::{TaskSet, utilization};
use crate::verdict::{Steps, Unsupported};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer;
use num_rational::Ratio;

/// When a server runs, from 0 to `period` and again.
pub(super) struct Pattern {
    period: u64,
    /// Beginnings and ends, in order.
    runs: Vec<(u64, u64)>,
    /// What is supplied before each run.
    before: Vec<u64>,
    total: u64,
    /// It runs just then, and not only supplies as much.
    exact: bool,
}

/// A window that does not fit: task, job, length, demand, supply.
pub(super) struct Short {
    pub(super) task: usize,
    pub(super) job: u64,
    pub(super) length: u64,
    pub(super) demand: u128,
    pub(super) supplied: u64,
}

/// What an exact test finds.
pub(super) enum Exact {
    /// Every job is in time; bounds of the responses.
    Fits(Vec<Picoseconds>),
    /// One need not be.
    Late(Short),
}

impl Pattern {
    /// Finds the pattern of a server; `None` when its times are not known, or it has more than about so many events.
    pub(super) fn of(core: &Core, refresh: &Refresh, index: usize, events_max: u64) -> Option<Pattern> {
        let servers = &core.servers[..=index];
        let own = &servers[index];
        let known = |server: &Server| server.kind == Kind::IdleConsuming;
        if !servers[..index].iter().all(known) {
            return None;
        }
        let exact = known(own) || own.budget == own.period;
        let period = servers.iter().try_fold(refresh.retention.0, |lcm, server| {
            u64::try_from(u128::from(lcm).lcm(&u128::from(server.period.0))).ok().filter(|&lcm| lcm < 1 << 60)
        })?;
        let windows = period / refresh.retention.0 * 4 * refresh.groups.len() as u64;
        let events = servers.iter().fold(windows, |sum, server| sum.saturating_add(2 * (period / server.period.0)));
        (events <= events_max).then(|| Pattern::follow(servers, refresh, period, exact))
    }

    fn follow(servers: &[Server], refresh: &Refresh, period: u64, exact: bool) -> Pattern {
        let mut budgets = vec![0; servers.len()];
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut now = 0;
        while now < period {
            let mut next = period;
            for (budget, server) in budgets.iter_mut().zip(servers) {
                if now.is_multiple_of(server.period.0) {
                    *budget = server.budget.0;
                }
                next = next.min((now / server.period.0 + 1) * server.period.0);
            }
            let (mut busy, mut locked) = (false, vec![false; refresh.groups.len()]);
            for (group, locked) in refresh.groups.iter().zip(&mut locked) {
                // A locked window ends before the retention time does, so that it is as if there had been one before.
                let since = (now + refresh.retention.0 - group.phase.0) % refresh.retention.0;
                let ends =
                    [refresh.lock.0, refresh.lock.0 + group.burst.0, refresh.lock.0 + group.burst.0 + refresh.unlock.0];
                *locked = since < ends[2];
                busy |= since < ends[0] || (ends[1]..ends[2]).contains(&since);
                let end = ends.into_iter().chain([refresh.retention.0]).find(|&end| since < end);
                next = next.min(now + end.unwrap_or(refresh.retention.0) - since);
            }
            let runs_now = (0..servers.len()).find(|&one| !busy && budgets[one] > 0 && !locked[servers[one].group]);
            if let Some(one) = runs_now {
                next = next.min(now + budgets[one]);
                budgets[one] -= next - now;
                if one + 1 == servers.len() {
                    match runs.last_mut() {
                        Some(last) if last.1 == now => last.1 = next,
                        _ => runs.push((now, next)),
                    }
                }
            }
            now = next;
        }
        let (mut total, mut before) = (0, Vec::new());
        for run in &runs {
            before.push(total);
            total += run.1 - run.0;
        }
        Pattern { period, runs, before, total, exact }
    }

    /// Supply from 0 to a time.
    fn until(&self, time: u64) -> u64 {
        let (cycles, rest) = (time / self.period, time % self.period);
        let run = self.runs.partition_point(|run| run.0 < rest);
        let within = match run.checked_sub(1) {
            Some(last) => self.before[last] + rest.min(self.runs[last].1) - self.runs[last].0,
            None => 0,
        };
        cycles * self.total + within
    }

    /// Decides for tasks on it; `None` when it cannot say.
    pub(super) fn decide(&self, set: &TaskSet, policy: &Policy, steps: &mut Steps) -> Option<Exact> {
        let plain = set.tasks().iter().all(|task| task.blocking().0 == 0 && task.jitter().0 == 0);
        let rate = Ratio::new(BigUint::from(self.total), BigUint::from(self.period));
        let load = utilization(set.tasks().iter());
        if !plain || load >= rate {
            return None;
        }
        let found = match policy {
            Policy::Edf | Policy::NonPreemptiveEdf => self.edf(set, rate, load, steps),
            Policy::FixedPriority(priorities, _) => self.fixed(set, priorities, steps),
        };
        found.ok().flatten().filter(|found| self.exact || matches!(found, Exact::Fits(_)))
    }

    /// The most by which a supply is behind its rate, in any window: rounded up.
    fn behind(&self) -> u64 {
        let ahead = |time: u64| {
            i128::from(self.until(time)) * i128::from(self.period) - i128::from(time) * i128::from(self.total)
        };
        let most = self.runs.iter().map(|run| ahead(run.1)).max().unwrap_or(0);
        let least = self.runs.iter().map(|run| ahead(run.0)).min().unwrap_or(0);
        u64::try_from((most - least) / i128::from(self.period) + 1).unwrap_or(u64::MAX)
    }

    /// Demand is at most `U t + sum U (T - D)`, and supply at least the rate less what it is behind.
    fn edf(
        &self,
        set: &TaskSet,
        rate: Ratio<BigUint>,
        load: Ratio<BigUint>,
        steps: &mut Steps,
    ) -> Result<Option<Exact>, Unsupported> {
        let ahead = |task: &crate::task::Task| {
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
            for &(_, from) in &self.runs {
                steps.step()?;
                let supplied = self.until(from + length) - self.until(from);
                if work > u128::from(supplied) {
                    let (task, job) = demand.ends(length);
                    return Ok(Some(Exact::Late(Short { task, job, length, demand: work, supplied })));
                }
            }
            length = demand.next_deadline(length);
        }
        Ok(Some(Exact::Fits(set.tasks().iter().map(crate::task::Task::deadline).collect())))
    }

    fn fixed(&self, set: &TaskSet, priorities: &Priorities, steps: &mut Steps) -> Result<Option<Exact>, Unsupported> {
        let mut responses = vec![Picoseconds(0); set.tasks().len()];
        for (rank, &index) in priorities.order().iter().enumerate() {
            let task = &set.tasks()[index];
            if task.deadline() > task.period() {
                return Ok(None);
            }
            let work = |length: u64| {
                let jobs = |&other: &usize| {
                    let other = &set.tasks()[other];
                    u128::from(length.div_ceil(other.period().0)) * u128::from(other.wcet().0)
                };
                priorities.order()[..rank].iter().map(jobs).sum::<u128>() + u128::from(task.wcet().0)
            };
            for &(_, from) in &self.runs {
                let mut reached = 0;
                loop {
                    steps.step()?;
                    let needed = work(reached);
                    let next = self.completion(from, needed).max(reached);
                    if next > task.deadline().0 {
                        let (job, length) = (0, task.deadline().0);
                        let supplied = self.until(from + length) - self.until(from);
                        let demand = work(length);
                        return Ok(Some(Exact::Late(Short { task: index, job, length, demand, supplied })));
                    }
                    if next == reached {
                        break;
                    }
                    reached = next;
                }
                responses[index] = responses[index].max(Picoseconds(reached));
            }
        }
        Ok(Some(Exact::Fits(responses)))
    }

    /// The shortest window from a time on that is supplied this demand.
    fn completion(&self, from: u64, demand: u128) -> u64 {
        let target = u128::from(self.until(from)) + demand;
        let cycles = (target - 1) / u128::from(self.total);
        let rest = (target - cycles * u128::from(self.total)) as u64;
        let run = self.before.partition_point(|&before| before < rest) - 1;
        let end = cycles * u128::from(self.period) + u128::from(self.runs[run].0 + rest - self.before[run]);
        u64::try_from(end).unwrap_or(u64::MAX).saturating_sub(from)
    }
}
