//! Copy tasks of servers: a short task has an instance in each of two servers of a core, in different groups, and each
//! of its jobs is executed by an instance whose lock does not overlap it (5.3.6).
//!
//! A job stays with the instance of the previous job, unless the group of that instance is locked at any time between
//! the job's arrival and deadline. Then the other instance executes it, and the data are copied at the end of the
//! previous job, as a part of it. The dissertation copies at the beginning of the job ("once one instance starts, its
//! data is forwarded"), when the ranks that it reads may be under refresh. The dissertation has no analysis of copy
//! tasks; the following is ours. Every instance is assumed to execute all jobs that its lock does not overlap.
//!
//! *Two supplies.* Let `L` be the length of the server's own locked window, `S'` its supply, and `S` its supply in
//! windows that do not overlap its own lock. A lock takes at most the server's use of a window of length `L`, so that
//! `S'(t) = 0` up to `L`, and `S(t) >= S'(t + L)`: the supply guaranteed in a window with a lock is also guaranteed in
//! a window that is shorter by the lock and has none.
//!
//! *Copied jobs around a lock.* Let a copied task have jobs before a lock (deadline at its beginning or earlier) and
//! after it (arrival at its end or later), all of them in a window of length `y` that contains the lock. The last job
//! before and the first job after arrive at least `L + D` apart, instead of `T`. So their number is at most that in a
//! window shorter by `c = max(0, L + D - T)`, which is at most `L`; if all are on one side of the lock, at most that in
//! a window shorter by `L`.
//!
//! Consider the first late job of the core, due at `d`, and the busy period of its urgency, from `b` on. Until `d`, all
//! jobs are in time.
//!
//! *Earliest deadlines.*
//!
//! - No ordinary job is due in `[b, d]`. All pending jobs are copied, and a job that is pending when a lock begins is
//!   due before it or late: no lock is in the window. This case is impossible when the copied tasks alone fit `S` in
//!   each window.
//! - Some ordinary jobs are, so that `d - b >= min (D - J)` of the ordinary tasks. If `b` or `d` is in a lock, extend
//!   the window to the beginning or the end of that lock: its length `y` is not less, and its supply is not more. With
//!   a lock in it, demand is at most that of the ordinary tasks in `y`, and of each copied one in `y - c`; and `S'(y)`
//!   is supplied. Without one, the same holds for `y + L`, because `S(y) >= S'(y + L)` and `y + L - c >= y`. This case
//!   is impossible when the tasks fit `S'` in windows from `min (D - J)` on, with the deadlines of copied tasks
//!   extended by `c`.
//!
//! Response times are those of the same two tests (Spuri 1996 on a supply), the second less `c` for a copied task.
//!
//! *Fixed priorities.* Below copied tasks only, a copied task waits for no lock, for the same reason: its response time
//! follows from `S`. Otherwise the busy period may begin before or in a lock; stretched as above, it is complete within
//! `y`, `S'(y)` being the requests in `y`, those of copied tasks above in `y - c`. That bounds an ordinary task. A
//! copied job in a window with a lock has arrived `L` after its beginning or later, and in one without, the response is
//! at most `y - L`, because `S(y - L) >= S'(y)`: `y - L` bounds it.

use crate::crs::decide;
use crate::crs::model::{Server, System, refuse};
use crate::crs::supply::{ServerSupply, inconclusive};
use crate::error::HidingError;
use memtint_sched::parts::{Demand, WINDOW_MAX};
use memtint_sched::{Effort, Policy, Priorities, SchedError, Task, TaskIndex, TaskSet, Unsupported};
use memtint_units::Picoseconds;

/// A task with two instances: server and task of each, on a core. Both are tasks of the system, with all that a job takes,
/// a copy included. Its jobs arrive at its phase and once each period, no later: whether there is time to copy depends on when the
/// job before arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The core, from 0.
    pub core: usize,
    /// Servers of the core, from 0, and tasks of these. The first instance has the first job if it can; nothing
    /// is copied for that.
    pub instances: [(usize, TaskIndex); 2],
}

impl Copied {
    /// Gives the server and task of the other instance; `None` when this is none.
    pub(super) fn other(&self, core: usize, instance: (usize, TaskIndex)) -> Option<(usize, TaskIndex)> {
        let [first, second] = self.instances;
        match (self.core == core, instance == first, instance == second) {
            (true, true, _) => Some(second),
            (true, _, true) => Some(first),
            _ => None,
        }
    }

    /// Checks that two tasks of a system may be instances of one.
    pub(super) fn accepted(&self, system: &System) -> Result<(), HidingError> {
        let find = |(server, task): (usize, TaskIndex)| {
            let server = system.cores().get(self.core)?.servers.get(server)?;
            Some((server.group, server.tasks.tasks().get(task.index())?))
        };
        let what = format!("copied task of core {}", self.core);
        let [Some((first, own)), Some((second, other))] = self.instances.map(find) else {
            let accepted = "servers and tasks of the core".to_owned();
            return refuse(what, "instances", format!("{:?}", self.instances), accepted);
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
        let (period, deadline) = (own.period(), own.deadline());
        if deadline > period {
            return refuse(what, "deadline", deadline.to_string(), format!("at most the period, {period}"));
        }
        let apart = system.refresh().apart_for_copies([first, second]);
        if apart < period + deadline {
            let accepted = format!("a period and a deadline, {}, or more", period + deadline);
            return refuse(what, "time between the locks of its groups", apart.to_string(), accepted);
        }
        Ok(())
    }
}

/// Bounds the response times of the tasks of a server with some copied tasks, or returns the reason why it cannot;
/// indices are those of its tasks.
pub(super) fn responses(
    server: &Server,
    is_copied: &[bool],
    locked: u64,
    supply: &ServerSupply,
    effort: Effort,
) -> Result<Vec<Picoseconds>, Unsupported> {
    let own = Copies { set: &server.tasks, is_copied, locked, supply };
    match &server.policy {
        Policy::Edf | Policy::NonPreemptiveEdf => own.edf(effort),
        Policy::FixedPriority(priorities, _) => own.fixed(priorities),
    }
}

/// The tasks of a server.
struct Copies<'a> {
    set: &'a TaskSet,
    is_copied: &'a [bool],
    /// `L`.
    locked: u64,
    /// `S'`.
    supply: &'a ServerSupply,
}

impl Copies<'_> {
    /// `c`: by how much windows with a lock are shorter for a task; 0 for one that is not copied.
    fn shorter(&self, index: TaskIndex) -> u64 {
        let task = &self.set[index];
        if self.is_copied[index.index()] {
            (self.locked + task.deadline().0).saturating_sub(task.period().0)
        } else {
            0
        }
    }

    fn edf(&self, effort: Effort) -> Result<Vec<Picoseconds>, Unsupported> {
        let tasks = self.set.tasks();
        let (copied, ordinary): (Vec<TaskIndex>, Vec<TaskIndex>) =
            self.set.indices().partition(|&index| self.is_copied[index.index()]);
        let whole = |_: SchedError| Unsupported::Window { task: TaskIndex(0), window_ps_max: WINDOW_MAX };
        let alone = TaskSet::new(copied.iter().map(|&index| self.set[index].spec())).map_err(whole)?;
        let unlocked = self.supply.without_own_lock();
        decide::edf(&alone, &unlocked, 0, effort)?;
        let mut responses = vec![Picoseconds(0); tasks.len()];
        for (place, &index) in copied.iter().enumerate() {
            responses[index.index()] = decide::edf_response(&alone, TaskIndex(place), &unlocked, 0, effort);
        }
        let first = |&index: &TaskIndex| Demand::first(&self.set[index]).unwrap_or(0);
        let Some(first) = ordinary.iter().map(first).min() else { return Ok(responses) };
        let longer = self.set.indexed().map(|(index, task)| {
            let spec = task.spec();
            spec.deadline(task.deadline() + Picoseconds(self.shorter(index)))
        });
        let longer = TaskSet::new(longer).map_err(whole)?;
        decide::edf(&longer, self.supply, first, effort)?;
        for (index, response) in self.set.indices().zip(&mut responses) {
            let found = decide::edf_response(&longer, index, self.supply, first, effort);
            *response = Picoseconds(found.0.saturating_sub(self.shorter(index))).max(*response);
        }
        Ok(responses)
    }

    fn fixed(&self, priorities: &Priorities) -> Result<Vec<Picoseconds>, Unsupported> {
        let tasks = self.set.tasks();
        let mut responses = vec![Picoseconds(0); tasks.len()];
        let unlocked = self.supply.without_own_lock();
        for (rank, &index) in priorities.order().iter().enumerate() {
            let (task, higher) = (&self.set[index], &priorities.order()[..rank]);
            if task.deadline() > task.period() {
                let needs = "a deadline not beyond the period, for fixed priorities in a server";
                return Err(Unsupported::Precondition { task: index, needs });
            }
            let waits = !self.is_copied[index.index()] || higher.iter().any(|&other| !self.is_copied[other.index()]);
            let work = |length: u64| {
                let jobs = |&other: &TaskIndex| {
                    let (task, shorter) = (&self.set[other], if waits { self.shorter(other) } else { 0 });
                    let jobs = (length + task.jitter().0).saturating_sub(shorter).div_ceil(task.period().0);
                    u128::from(jobs) * u128::from(task.wcet().0)
                };
                let own = u128::from(task.wcet().0) + u128::from(task.blocking().0);
                higher.iter().map(jobs).fold(own, u128::saturating_add)
            };
            let supply = if waits { self.supply } else { &unlocked };
            let spared = if waits && self.is_copied[index.index()] { self.locked } else { 0 };
            let limit = Demand::first(task).unwrap_or(0) + spared;
            match supply.completion_from(work, 0, limit) {
                Some(found) => responses[index.index()] = Picoseconds(found - spared) + task.jitter(),
                None => return Err(inconclusive(work(limit), supply.supply(Picoseconds(limit)))),
            }
        }
        Ok(responses)
    }
}
