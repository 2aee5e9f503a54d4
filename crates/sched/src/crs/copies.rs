//! Copy tasks of servers: a short task has an instance in each of two servers of a core, in different groups, and each of its jobs is
//! executed by one that its lock does not meet (5.3.6).
//!
//! A job goes on with the instance that had the job before, unless that one's group is locked at any time from its arrival to its
//! deadline. Then the other has it, and the data are copied at the end of the job before, as a part of that: the dissertation
//! copies at the beginning of the job ("once one instance starts, its data is forwarded"), when the ranks it reads may be under refresh.
//!
//! A job never meets the lock of its own group, so that it does not wait for it. What it does wait for is work of higher priority that
//! has piled up behind that lock. Let a busy period of that priority begin at `b`, the locked window be `[s, s + L)`, and the job arrive at
//! `r`. For the supply `S` with the locks of other groups only, and `S'` with its own as well:
//!
//! - no lock between `b` and the end: `r = b` is the worst case, and the response is at most `x = B + C + sum ceil((x + J) / T) C`
//!   on `S`;
//! - `b` in the lock: work arrives from `b` on and is supplied from `s + L <= r` on, so the response is at most
//!   `x = B + C + sum ceil((x + L + J) / T) C` on `S`, where jobs of other copied tasks do not come in the lock and have no `L`;
//! - `b` before the lock: all is done by `b + y`, `y = B + C + sum ceil((y + J) / T) C` on `S'`, and `r >= b + L`: at most `y - L`.
//!
//! The second covers the first, and the third is no case without work that can pile up.

use crate::crs::model::{Server, System, refuse};
use crate::crs::supply::{ServerSupply, supplies};
use crate::error::SchedError;
use crate::fixed::Priorities;
use crate::schedule::Policy;
use crate::task::Task;
use crate::verdict::{Unsupported, WINDOW_MAX};
use memtint_units::Picoseconds;

/// A task with two instances: server and task of each, on a core. Both are tasks of the system, with all that a job takes,
/// a copy included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The core, from 0.
    pub core: usize,
    /// Servers of the core, from 0, and tasks of these.
    pub instances: [(usize, usize); 2],
}

/// Bounds the response times of all tasks of a system of which some are two instances of one, by core, server and task; both instances
/// of a copied task have a bound, and none is above a deadline.
///
/// Sufficient only, for servers with fixed priorities inside. Every task but the copied ones is taken to meet all jobs of each instance in
/// its server. Copied tasks must be periodic, since whether there is time to copy depends on when the job before arrives; other
/// tasks may be sporadic.
///
/// # Errors
///
/// [`SchedError::Crs`] for a server or task that does not exist, instances that differ or are of one group, a deadline beyond
/// the period, and locks of the two groups that are nearer to each other than a period and a deadline of the task: then a job may have to
/// copy while one of them is locked.
///
/// The inner result is [`Unsupported::Precondition`] for EDF in a server and deadlines beyond periods, and
/// [`Unsupported::Inconclusive`] where a bound is above a deadline; its tasks are counted over all cores and servers, in order.
///
/// ```
/// use memtint_sched::crs::{Copied, Core, Inner, Kind, RankGroup, Refresh, Server, System, copied_responses};
/// use memtint_sched::{Effort, TaskSet, TaskSpec};
/// use memtint_units::Picoseconds;
///
/// let us = |value: u64| Picoseconds::from_ns(value * 1000);
/// let server = |group, budget| {
///     // A period of 1 ms, where a burst takes 2.87 ms.
///     let tasks = TaskSet::new([TaskSpec::new("short", us(1000), us(100)), TaskSpec::new("long", us(64_000), us(6400))])?;
///     let policy = Inner::RateMonotonic.policy(&tasks);
///     Ok::<_, memtint_sched::SchedError>(Server { group, period: us(500), budget: us(budget), kind: Kind::Deferrable, tasks, policy })
/// };
/// let mut refresh = Refresh::two_colors(8, us(64_000), us(2870));
/// (refresh.lock, refresh.unlock) = (us(20), us(1));
/// let system = System::new(8, refresh, vec![Core { servers: vec![server(0, 150)?, server(1, 500)?] }])?;
/// let copied = [Copied { core: 0, instances: [(0, 0), (1, 0)] }];
/// let bounds = copied_responses(&system, &copied)?.expect("all are in time");
/// assert!(bounds[0][1][0] <= us(1000), "no job waits for the burst of 2.87 ms");
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
#[allow(clippy::type_complexity, reason = "by core, server and task")]
pub fn copied_responses(
    system: &System,
    copied: &[Copied],
) -> Result<Result<Vec<Vec<Vec<Picoseconds>>>, Unsupported>, SchedError> {
    for one in copied {
        accepted(system, one)?;
    }
    let mut before = 0;
    let mut cores = Vec::new();
    for (core, own) in system.cores().iter().enumerate() {
        let mut servers = Vec::new();
        for (index, (server, supply)) in own.servers.iter().zip(supplies(system, core)).enumerate() {
            let Policy::FixedPriority(priorities, _) = &server.policy else {
                let needs = "fixed priorities in servers with copied tasks";
                return Ok(Err(Unsupported::Precondition { task: before, needs }));
            };
            let is_copied =
                |task: usize| copied.iter().any(|one| one.core == core && one.instances.contains(&(index, task)));
            let level =
                Level { server, priorities, locked: system.refresh().locked(server.group).0, supply, is_copied };
            match level.responses(before) {
                Ok(responses) => servers.push(responses),
                Err(reason) => return Ok(Err(reason)),
            }
            before += server.tasks.tasks().len();
        }
        cores.push(servers);
    }
    Ok(Ok(cores))
}

fn accepted(system: &System, one: &Copied) -> Result<(), SchedError> {
    let find = |(server, task): (usize, usize)| {
        let server = system.cores().get(one.core)?.servers.get(server)?;
        Some((server.group, server.tasks.tasks().get(task)?))
    };
    let what = format!("copied task of core {}", one.core);
    let [Some((first, own)), Some((second, other))] = one.instances.map(find) else {
        let accepted = "servers and tasks of the core".to_owned();
        return refuse(what, "instances", format!("{:?}", one.instances), accepted);
    };
    let what = format!("copied task {:?}", own.name());
    let times =
        |task: &Task| [task.period(), task.wcet(), task.deadline(), task.jitter(), task.phase(), task.blocking()];
    if times(own) != times(other) {
        return refuse(what, "instances", "different".to_owned(), "two with the same times".to_owned());
    }
    if first == second {
        return refuse(what, "groups of its instances", format!("{first} twice"), "two groups".to_owned());
    }
    let (period, deadline) = (own.period().0, own.deadline().0);
    if deadline > period {
        return refuse(what, "deadline", format!("{deadline} ps"), format!("at most the period, {period} ps"));
    }
    let refresh = system.refresh();
    let apart = |from: usize, to: usize| {
        let end = refresh.groups[from].phase.0 + refresh.locked(from).0;
        (refresh.groups[to].phase.0 + 2 * refresh.retention.0 - end) % refresh.retention.0
    };
    let apart = apart(first, second).min(apart(second, first));
    if apart < period + deadline {
        let accepted = format!("a period and a deadline, {} ps, or more", period + deadline);
        return refuse(what, "time between the locks of its groups", format!("{apart} ps"), accepted);
    }
    Ok(())
}

/// The tasks of a server.
struct Level<'a, F> {
    server: &'a Server,
    priorities: &'a Priorities,
    locked: u64,
    supply: ServerSupply,
    is_copied: F,
}

impl<F: Fn(usize) -> bool> Level<'_, F> {
    fn responses(&self, before: usize) -> Result<Vec<Picoseconds>, Unsupported> {
        let tasks = self.server.tasks.tasks();
        let mut responses = vec![Picoseconds(0); tasks.len()];
        for (rank, &index) in self.priorities.order().iter().enumerate() {
            let (task, higher) = (&tasks[index], &self.priorities.order()[..rank]);
            if task.deadline() > task.period() {
                let needs = "a deadline not beyond the period, for fixed priorities in a server";
                return Err(Unsupported::Precondition { task: before + index, needs });
            }
            let found = match (self.is_copied)(index) {
                true => self.copied(index, higher),
                false => self.supply.completion_from(|length| self.work(index, higher, length, 0), 0, WINDOW_MAX),
            };
            let response = found.map_or(u64::MAX, |found| found + task.jitter().0);
            if response > task.deadline().0 {
                let limit = task.deadline();
                let (work, supplied) = (self.work(index, higher, limit.0, 0), self.supply.supply(limit));
                return Err(super::supply::inconclusive(work, supplied));
            }
            responses[index] = Picoseconds(response);
        }
        Ok(responses)
    }

    /// Work of a task and of those above it in a window; what is not copied has also come in so long before.
    fn work(&self, index: usize, higher: &[usize], length: u64, longer: u64) -> u128 {
        let tasks = self.server.tasks.tasks();
        let own = u128::from(tasks[index].wcet().0) + u128::from(tasks[index].blocking().0);
        let jobs = |&other: &usize| {
            let task = &tasks[other];
            let length = length + if (self.is_copied)(other) { 0 } else { longer };
            u128::from((length + task.jitter().0).div_ceil(task.period().0)) * u128::from(task.wcet().0)
        };
        higher.iter().map(jobs).fold(own, u128::saturating_add)
    }

    fn copied(&self, index: usize, higher: &[usize]) -> Option<u64> {
        let unlocked = self.supply.without_own_lock();
        let piled = higher.iter().any(|&other| !(self.is_copied)(other));
        if !piled {
            return unlocked.completion_from(|length| self.work(index, higher, length, 0), 0, WINDOW_MAX);
        }
        let behind = unlocked.completion_from(|length| self.work(index, higher, length, self.locked), 0, WINDOW_MAX)?;
        let around = self.supply.completion_from(|length| self.work(index, higher, length, 0), 0, WINDOW_MAX)?;
        Some(behind.max(around.saturating_sub(self.locked)))
    }
}
