//! Sensitivity: by how much execution times can grow before a deadline is missed, exact.
//!
//! With all execution times in question multiplied by a factor `f`, a job meets its deadline if the work that goes before its
//! completion fits some window up to the deadline (fixed priority) or if all due in each window fits it (EDF). Each such
//! condition is linear in `f`. Starting from the `f` at which the utilization is 1, the first condition that fails is
//! solved for `f`, until none fails: every step goes to a value above which that condition fails, so the end is the
//! largest factor, not an approximation from a bisection (Lehoczky, Sha and Ding 1989 for the first job; Zhang, Burns and
//! Baruah 2010 for EDF).
//!
//! Phases are not used: when they differ, larger factors may do. Only preemptive scheduling: without preemption, blocking
//! changes with the execution times too, by whole ticks.

use crate::edf::Demand;
use crate::fixed::Priorities;
use crate::task::{Task, TaskIndex, TaskSet, utilization};
use crate::verdict::{Effort, Steps, Unsupported, window};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer;
use num_rational::Ratio;

/// The tasks whose execution times are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaled {
    /// Those of all tasks, by one factor.
    All,
    /// That of the task with this index, from 0.
    One(TaskIndex),
}

impl Scaled {
    fn holds(self, index: TaskIndex) -> bool {
        match self {
            Scaled::All => true,
            Scaled::One(one) => one == index,
        }
    }
}

/// The largest factor, and its limiting factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// The factor, exact. Below 1 when execution times must shrink; 0 when they must vanish.
    pub factor: Ratio<BigUint>,
    /// The limiting factor.
    pub limit: Limit,
}

impl Scaling {
    /// Gives the longest execution time that the factor allows a task (rounds down).
    #[must_use]
    pub fn wcet_max(&self, task: &Task) -> BigUint {
        (&self.factor * BigUint::from(task.wcet().0)).to_integer()
    }
}

/// The limit of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The whole processor would be in use.
    Utilization,
    /// A window would be full to its end.
    Window {
        /// The task that would miss.
        task: TaskIndex,
        /// Its job, from 0, counted from the beginning of the window.
        job: u64,
        /// The length of the window.
        window: Picoseconds,
    },
}

/// Finds the largest factor at which every job meets its deadline under preemptive fixed priority; `None` when other tasks or
/// blocking miss deadlines even at a factor of 0.
///
/// # Errors
///
/// [`Unsupported::Effort`] and [`Unsupported::Window`] when the busy windows are too long to be searched.
///
/// # Panics
///
/// When `priorities` are those of another set.
///
/// ```
/// use memtint_sched::{Effort, Priorities, Scaled, TaskIndex, TaskSet, TaskSpec, fixed_priority_scaling};
/// use memtint_units::Picoseconds as Ps;
/// use num_rational::Ratio;
///
/// let set = TaskSet::new([TaskSpec::new("a", Ps(5), Ps(2)), TaskSpec::new("b", Ps(7), Ps(2))])?;
/// let order = Priorities::rate_monotonic(&set);
/// let most = fixed_priority_scaling(&set, &order, Scaled::One(TaskIndex(1)), Effort::default()).unwrap().unwrap();
/// assert_eq!(most.factor, Ratio::new(3u8.into(), 2u8.into()), "b may take 3, all of the first 5");
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn fixed_priority_scaling(
    set: &TaskSet,
    priorities: &Priorities,
    scaled: Scaled,
    effort: Effort,
) -> Result<Option<Scaling>, Unsupported> {
    assert_eq!(priorities.order().len(), set.tasks().len(), "priorities of another task set");
    let Some(factor) = capacity(set, scaled) else { return Ok(None) };
    let mut found = Scaling { factor, limit: Limit::Utilization };
    for rank in 0..priorities.order().len() {
        let level = Level::new(set, &priorities.order()[..=rank], scaled);
        let mut steps = Steps::new(level.index, effort);
        while let Some(job) = level.first_late(&found.factor, &mut steps)? {
            match level.largest(job, &mut steps)? {
                Some(scaling) => found = scaling,
                None => return Ok(None),
            }
        }
    }
    Ok(Some(found))
}

/// Finds the largest factor at which every job meets its deadline under EDF; `None` when other tasks or blocking miss deadlines
/// even at a factor of 0.
///
/// # Errors
///
/// [`Unsupported::Effort`] and [`Unsupported::Window`] when the busy windows are too long to be searched.
pub fn edf_scaling(set: &TaskSet, scaled: Scaled, effort: Effort) -> Result<Option<Scaling>, Unsupported> {
    let Some(factor) = capacity(set, scaled) else { return Ok(None) };
    let mut found = Scaling { factor, limit: Limit::Utilization };
    let demand = Demand::new(set);
    if set.tasks().iter().any(|task| Demand::first(task).is_none()) {
        return Ok(None);
    }
    let easy = |task: &Task| task.blocking().0 == 0 && Demand::first(task) >= Some(task.period().0);
    if set.tasks().iter().all(easy) {
        return Ok(Some(found)); // The demand in any window is at most the utilization times the window.
    }
    let mut steps = Steps::new(TaskIndex(0), effort);
    let mut last = horizon(set, scaled, &found.factor, &mut steps)?;
    let mut length = demand.last_deadline(0).unwrap_or_else(|| demand.next_deadline(0));
    while length <= last {
        steps.step()?;
        let work = due(set, scaled, length);
        if work.at(&found.factor) > BigUint::from(length) {
            let Some(factor) = work.factor(length) else { return Ok(None) };
            let (task, job) = demand.ends(length);
            found = Scaling { factor, limit: Limit::Window { task, job, window: Picoseconds(length) } };
            last = horizon(set, scaled, &found.factor, &mut steps)?;
        }
        length = demand.next_deadline(length);
    }
    Ok(Some(found))
}

/// Work of which a part is multiplied.
#[derive(Clone, Copy)]
struct Work {
    fixed: u128,
    scaled: u128,
}

impl Work {
    fn sum(blocking: u64, jobs: impl Iterator<Item = (u64, u64, bool)>) -> Work {
        let start = Work { fixed: blocking.into(), scaled: 0 };
        jobs.fold(start, |sum, (count, wcet, scaled)| {
            let work = u128::from(count) * u128::from(wcet);
            match scaled {
                true => Work { scaled: sum.scaled.saturating_add(work), ..sum },
                false => Work { fixed: sum.fixed.saturating_add(work), ..sum },
            }
        })
    }

    /// The work at a factor, up to the next whole picosecond: a window in whole picoseconds holds it exactly when it holds that.
    fn at(self, factor: &Ratio<BigUint>) -> BigUint {
        (BigUint::from(self.scaled) * factor.numer()).div_ceil(factor.denom()) + self.fixed
    }

    /// The largest factor at which a window holds the work; `None` when it never does. There must be something to scale in
    /// a window that overflowed at some factor and can be made to hold.
    fn factor(self, length: u64) -> Option<Ratio<BigUint>> {
        let room = u128::from(length).checked_sub(self.fixed)?;
        (self.scaled > 0).then(|| Ratio::new(room.into(), self.scaled.into()))
    }
}

/// The factor at which the utilization is 1; `None` when that of the others is above.
fn capacity(set: &TaskSet, scaled: Scaled) -> Option<Ratio<BigUint>> {
    let part = |inside: bool| {
        let tasks = set.indexed();
        utilization(tasks.filter(move |&(index, _)| scaled.holds(index) == inside).map(|(_, task)| task))
    };
    let (scaled, rest) = (part(true), part(false));
    let one = Ratio::from_integer(BigUint::from(1u8));
    (rest <= one).then(|| (one - rest) / scaled)
}

/// The utilization of some tasks at a factor.
fn load_at<'a>(
    tasks: impl Iterator<Item = (TaskIndex, &'a Task)>,
    scaled: Scaled,
    factor: &Ratio<BigUint>,
) -> Ratio<BigUint> {
    let own = |(index, task): (TaskIndex, &Task)| match scaled.holds(index) {
        true => task.utilization() * factor,
        false => task.utilization(),
    };
    tasks.map(own).sum()
}

fn due(set: &TaskSet, scaled: Scaled, length: u64) -> Work {
    let jobs = set.indexed();
    let jobs = jobs.map(|(index, task)| (Demand::due(task, length as i64), task.wcet().0, scaled.holds(index)));
    Work::sum(Demand::new(set).blocking(length as i64), jobs)
}

/// No first overload under EDF is beyond this, at a factor; see `Demand::horizon`.
fn horizon(set: &TaskSet, scaled: Scaled, factor: &Ratio<BigUint>, steps: &mut Steps) -> Result<u64, Unsupported> {
    let tasks = set.tasks();
    let quiet = tasks.iter().all(|task| task.jitter().0 == 0 && task.blocking().0 == 0);
    let full = load_at(set.indexed(), scaled, factor) == Ratio::from_integer(BigUint::from(1u8));
    if full && !quiet {
        let first = tasks.iter().filter_map(Demand::first).max().unwrap_or(0);
        return window(u128::try_from(set.hyperperiod() + first).unwrap_or(u128::MAX), TaskIndex(0));
    }
    let blocking = tasks.iter().map(|task| task.blocking().0).max().unwrap_or(0);
    let mut length = 0;
    loop {
        steps.step()?;
        let jobs = set.indexed().map(|(index, task)| {
            let count = (length + task.jitter().0).div_ceil(task.period().0).max(1);
            (count, task.wcet().0, scaled.holds(index))
        });
        let work = Work::sum(blocking, jobs).at(factor);
        let next = window(u128::try_from(work).unwrap_or(u128::MAX), TaskIndex(0))?;
        if next <= length {
            return Ok(length);
        }
        length = next;
    }
}

/// A task with those of higher priority, as in `fixed`, with a part of the work multiplied.
struct Level<'a> {
    index: TaskIndex,
    task: &'a Task,
    higher: Vec<(TaskIndex, &'a Task)>,
    scaled: Scaled,
}

impl<'a> Level<'a> {
    fn new(set: &'a TaskSet, order: &[TaskIndex], scaled: Scaled) -> Level<'a> {
        let (&index, higher) = order.split_last().expect("a level has a task");
        let higher = higher.iter().map(|&index| (index, &set[index])).collect();
        Level { index, task: &set[index], higher, scaled }
    }

    fn work(&self, job: u64, window: u64) -> Work {
        let own = (job + 1, self.task.wcet().0, self.scaled.holds(self.index));
        let higher = self.higher.iter().map(|&(index, task)| {
            let jobs = (window + task.jitter().0).div_ceil(task.period().0);
            (jobs, task.wcet().0, self.scaled.holds(index))
        });
        Work::sum(self.task.blocking().0, higher.chain([own]))
    }

    /// Deadline of a job from the beginning of the window; `None` when it is before the release.
    fn deadline(&self, job: u64) -> Result<Option<u64>, Unsupported> {
        let end = u128::from(job) * u128::from(self.task.period().0) + u128::from(self.task.deadline().0);
        end.checked_sub(self.task.jitter().0.into()).map(|end| window(end, self.index)).transpose()
    }

    /// The first job that misses at a factor at which the utilization is at most 1.
    fn first_late(&self, factor: &Ratio<BigUint>, steps: &mut Steps) -> Result<Option<u64>, Unsupported> {
        let period = self.task.period().0;
        let jobs = self.jobs(factor);
        let (mut job, mut reached) = (0, 0);
        loop {
            let Some(deadline) = self.deadline(job)? else { return Ok(Some(job)) };
            loop {
                steps.step()?;
                // At a factor of 0 there may be no work at all.
                let next = self.work(job, reached).at(factor);
                if next > BigUint::from(deadline) {
                    return Ok(Some(job));
                }
                let next = u64::try_from(next).expect("no more than the deadline");
                if next <= reached {
                    break;
                }
                reached = next;
            }
            job += 1;
            let released = u128::from(job) * u128::from(period);
            if u128::from(reached) + u128::from(self.task.jitter().0) <= released || job >= jobs {
                return Ok(None);
            }
        }
    }

    /// How many jobs tell everything; see `jobs` in `fixed`.
    fn jobs(&self, factor: &Ratio<BigUint>) -> u64 {
        let members = || self.higher.iter().copied().chain([(self.index, self.task)]);
        if load_at(members(), self.scaled, factor) != Ratio::from_integer(BigUint::from(1u8)) {
            return u64::MAX;
        }
        let hyperperiod = members().fold(BigUint::from(1u8), |lcm, (_, task)| lcm.lcm(&task.period().0.into()));
        u64::try_from(hyperperiod / self.task.period().0).unwrap_or(u64::MAX)
    }

    /// The largest factor at which a job meets its deadline: of all windows that end where a job of higher priority arrives,
    /// or at the deadline, the one that allows most. Between those the work is the same and the window shorter.
    fn largest(&self, job: u64, steps: &mut Steps) -> Result<Option<Scaling>, Unsupported> {
        let Some(deadline) = self.deadline(job)? else { return Ok(None) };
        let mut best: Option<Scaling> = None;
        let mut consider = |length: u64| {
            if let Some(factor) = self.work(job, length).factor(length)
                && best.as_ref().is_none_or(|best| factor > best.factor)
            {
                let limit = Limit::Window { task: self.index, job, window: Picoseconds(length) };
                best = Some(Scaling { factor, limit });
            }
        };
        consider(deadline);
        for (_, task) in &self.higher {
            let (period, jitter) = (task.period().0, task.jitter().0);
            let mut arrival = (jitter / period + 1) * period - jitter;
            while arrival < deadline {
                steps.step()?;
                consider(arrival);
                arrival += period;
            }
        }
        Ok(best)
    }
}
