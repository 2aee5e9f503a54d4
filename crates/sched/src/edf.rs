//! Earliest deadline first, preemptive: the processor demand criterion, its quick form, and worst-case response times.
//!
//! A job that arrives at `a` has the absolute deadline `a + D`; because it may be released `J` later, the most work meets
//! the shortest time to its deadline when first jobs are released together, each after its full jitter: then deadlines of
//! a task are at `k T + D - J`. Criterion: Baruah, Rosier and Howell 1990; with deadlines beyond periods and jitter, Spuri
//! 1996 (INRIA RR-2873), who also gives the response times; quick form (QPA): Zhang and Burns 2009, theorem 5.
//!
//! Blocking: a job of a task with blocking `B` can be held up for `B` by one of a later deadline. In a window that ends at
//! `t` this happens to one task whose deadline fits the window, so the largest `B` of those is added (what Zhang and
//! Burns 2013 do for the stack resource policy, from whose blocking times a sharper value could be had).
//!
//! Without blocking everything here is exact for sporadic tasks.

use crate::fixed::WorstCase;
use crate::interference::{self, Interference};
use crate::task::{Task, TaskIndex, TaskSet, load};
use crate::verdict::{Cause, Effort, Overload, Response, Steps, Unsupported, Verdict, window};
use memtint_units::Picoseconds;
use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_rational::Ratio;
use std::cmp::Ordering;

/// The extent of a demand test that answered yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandTest {
    /// No window longer than this can be the first that is overloaded.
    pub window: Picoseconds,
    /// Windows whose demand was computed.
    pub windows: u64,
}

/// Decides by the processor demand criterion: at every deadline of the longest busy window, the work due fits. A no names the
/// shortest window that is overloaded.
///
/// When phases differ, a no becomes [`Unsupported::Phases`], unless it is the utilization's.
pub fn processor_demand(set: &TaskSet, effort: Effort) -> Verdict<DemandTest> {
    Demand::new(set).decide(effort, Demand::each_deadline)
}

/// Decides the same as [`processor_demand`] in far fewer steps, backwards from the end of the busy window (QPA). A no names an
/// overloaded window, not the shortest.
///
/// ```
/// use memtint_sched::{Effort, TaskSet, TaskSpec, quick_processor_demand};
/// use memtint_units::Picoseconds as Ps;
///
/// let set = TaskSet::new([TaskSpec::new("a", Ps(4), Ps(2)), TaskSpec::new("b", Ps(6), Ps(3))])?;
/// assert!(quick_processor_demand(&set, Effort::default()).is_schedulable(), "U = 1 is enough for EDF");
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn quick_processor_demand(set: &TaskSet, effort: Effort) -> Verdict<DemandTest> {
    quick_processor_demand_with(set, &[], effort)
}

/// Decides as [`quick_processor_demand`] does, with delays beside the tasks.
///
/// With refresh alone, no command moved, it is exact for sporadic tasks without blocking on a core that needs the memory all
/// the time. Otherwise a no becomes [`Unsupported::Bound`] or [`Unsupported::Load`].
pub fn quick_processor_demand_with(set: &TaskSet, terms: &[Interference], effort: Effort) -> Verdict<DemandTest> {
    if let Some(reason) = interference::refused(terms, set, true) {
        return Verdict::Unsupported(reason);
    }
    Demand::with(set, terms).decide(effort, Demand::backwards)
}

/// Finds the worst response time of one task under EDF, regardless of its deadline. Phases are not used.
///
/// Jobs with equal deadlines go in the order that is worst for this task.
///
/// # Errors
///
/// [`Unsupported::Effort`] and [`Unsupported::Window`] when the busy window is too long to be searched.
///
/// # Panics
///
/// When the set has no task of this index.
pub fn worst_response_edf(set: &TaskSet, task: TaskIndex, effort: Effort) -> Result<WorstCase, Unsupported> {
    worst_response_edf_with(set, task, &[], effort)
}

/// Finds the worst response time as [`worst_response_edf`] does, with delays beside the tasks.
///
/// # Errors
///
/// As [`worst_response_edf`]; [`Unsupported::Precondition`] and [`Unsupported::Platform`] when a term's theorem is not about the
/// set or the platform; [`Unsupported::Load`] when bounds of interference leave no time.
///
/// # Panics
///
/// When the set has no task of this index.
pub fn worst_response_edf_with(
    set: &TaskSet,
    task: TaskIndex,
    terms: &[Interference],
    effort: Effort,
) -> Result<WorstCase, Unsupported> {
    if let Some(reason) = interference::refused(terms, set, true) {
        return Err(reason);
    }
    let demand = Demand::with(set, terms);
    if let Some(reason) = demand.overestimated() {
        return Err(reason);
    }
    if demand.load() == Ordering::Greater {
        return Ok(WorstCase::Unbounded(demand.utilization()));
    }
    let mut steps = Steps::new(task, effort);
    let last = demand.horizon(&mut steps)?;
    demand.worst_response(task, last, &mut steps).map(WorstCase::Bounded)
}

/// The demand of a whole set, for windows that begin at a critical instant.
#[derive(Debug)]
pub struct Demand<'a> {
    set: &'a TaskSet,
    terms: &'a [Interference],
    /// No task has a blocking time.
    unblocked: bool,
}

/// A window that does not fit, by its length.
type Overfull = Option<u64>;

impl<'a> Demand<'a> {
    /// Takes a set, without delays beside the tasks.
    #[must_use]
    pub fn new(set: &'a TaskSet) -> Demand<'a> {
        Demand::with(set, &[])
    }

    fn with(set: &'a TaskSet, terms: &'a [Interference]) -> Demand<'a> {
        Demand { set, terms, unblocked: set.tasks().iter().all(|task| task.blocking().0 == 0) }
    }

    fn load(&self) -> Ordering {
        if self.terms.is_empty() {
            return load(self.tasks().iter());
        }
        self.utilization().cmp(&Ratio::from_integer(BigUint::from(1u8)))
    }

    /// Long-run utilization of the tasks and the terms.
    fn utilization(&self) -> Ratio<BigUint> {
        let lines = || interference::line_rate(self.tasks().iter());
        self.terms.iter().map(|term| term.rate(&lines())).fold(self.set.utilization(), |sum, rate| sum + rate)
    }

    /// With terms that are only bounds, a load that is not below 1 is inconclusive.
    fn overestimated(&self) -> Option<Unsupported> {
        if self.terms.iter().all(Interference::regular) || self.load() == Ordering::Less {
            return None;
        }
        Some(Unsupported::Load(self.utilization()))
    }

    /// Delays by the end of a window in which `jobs` jobs of each task count.
    fn delays(&self, length: u64, jobs: impl Fn(&Task) -> u64) -> u128 {
        if self.terms.is_empty() {
            return 0;
        }
        let lines = self.tasks().iter().map(|task| u128::from(jobs(task)) * u128::from(task.lines()));
        let lines = lines.fold(0, u128::saturating_add);
        self.terms.iter().map(|term| term.within(length, lines)).fold(0, u128::saturating_add)
    }

    fn tasks(&self) -> &'a [Task] {
        self.set.tasks()
    }

    /// Deadline of the first job, from the beginning of the window; `None` when it is before the release.
    #[must_use]
    pub fn first(task: &Task) -> Option<u64> {
        task.deadline().0.checked_sub(task.jitter().0)
    }

    /// Jobs whose deadline is before or at the end of a window; one that ends before it begins can have some too, when a
    /// deadline is shorter than the jitter.
    #[must_use]
    pub fn due(task: &Task, end: i64) -> u64 {
        match u64::try_from(end + task.jitter().0 as i64 - task.deadline().0 as i64) {
            Ok(rest) => rest / task.period().0 + 1,
            Err(_) => 0,
        }
    }

    /// The longest blocking time of a task that has a deadline before or at the end of a window, in picoseconds.
    #[must_use]
    pub fn blocking(&self, window: i64) -> u64 {
        if self.unblocked {
            return 0;
        }
        self.tasks()
            .iter()
            .filter(|task| Demand::due(task, window) > 0)
            .map(|task| task.blocking().0)
            .max()
            .unwrap_or(0)
    }

    /// Work that must be complete at the end of a window, and the blocking that may come first.
    #[must_use]
    pub fn work(&self, window: u64) -> u128 {
        let end = window as i64;
        let due = self.tasks().iter().map(|task| u128::from(Demand::due(task, end)) * u128::from(task.wcet().0));
        let delays = self.delays(window, |task| Demand::due(task, end));
        due.fold(delays.saturating_add(self.blocking(end).into()), u128::saturating_add)
    }

    /// Last deadline at or before a point; `None` when there is none.
    #[must_use]
    pub fn last_deadline(&self, until: u64) -> Option<u64> {
        let last = |task: &Task| {
            let first = Demand::first(task)?;
            Some(first + until.checked_sub(first)? / task.period().0 * task.period().0)
        };
        self.tasks().iter().filter_map(last).max()
    }

    /// First deadline after a point.
    ///
    /// # Panics
    ///
    /// Never: a set has a task.
    #[must_use]
    pub fn next_deadline(&self, after: u64) -> u64 {
        let next = |task: &Task| {
            let first = Demand::first(task).unwrap_or(0);
            match after.checked_sub(first) {
                Some(rest) => first + (rest / task.period().0 + 1) * task.period().0,
                None => first,
            }
        };
        self.tasks().iter().map(next).min().expect("a set has a task")
    }

    /// A task with a deadline at this point, and its job.
    ///
    /// # Panics
    ///
    /// When no task has a deadline there.
    #[must_use]
    pub fn ends(&self, point: u64) -> (TaskIndex, u64) {
        let job = |task: &Task| {
            let rest = point.checked_sub(Demand::first(task)?)?;
            (rest % task.period().0 == 0).then_some(rest / task.period().0)
        };
        let mut found = self.set.indexed().filter_map(|(index, task)| Some((index, job(task)?)));
        found.next().expect("a deadline")
    }

    /// No first overload is beyond this, and no response is longer after it than before.
    ///
    /// Below a utilization of 1 it is the longest busy window. At 1 with jitter or blocking that window never ends; then
    /// demand and responses repeat with the hyperperiod once each task has a deadline behind it.
    pub(crate) fn horizon(&self, steps: &mut Steps) -> Result<u64, Unsupported> {
        let quiet = self.tasks().iter().all(|task| task.jitter().0 == 0 && task.blocking().0 == 0);
        if !quiet && self.load() == Ordering::Equal {
            let first = self.tasks().iter().filter_map(Demand::first).max().unwrap_or(0);
            let periods = self.terms.iter().map(Interference::repeats);
            let end = periods.fold(self.set.hyperperiod(), |lcm, period| lcm.lcm(&period.into())) + first;
            return window(u128::try_from(end).unwrap_or(u128::MAX), TaskIndex(0));
        }
        let blocking = self.tasks().iter().map(|task| task.blocking().0).max().unwrap_or(0);
        let work = |length: u64| {
            let jobs = |task: &Task| (length + task.jitter().0).div_ceil(task.period().0).max(1);
            let work = self.tasks().iter().map(|task| u128::from(jobs(task)) * u128::from(task.wcet().0));
            let delays = match self.terms {
                [] => 0,
                terms => {
                    let lines = self.tasks().iter().map(|task| u128::from(jobs(task)) * u128::from(task.lines()));
                    let lines = lines.fold(0, u128::saturating_add);
                    terms.iter().map(|term| term.delay(Picoseconds(length), lines)).fold(0, u128::saturating_add)
                }
            };
            work.fold(delays.saturating_add(blocking.into()), u128::saturating_add)
        };
        let mut length = 0;
        loop {
            steps.step()?;
            let next = window(work(length), TaskIndex(0))?;
            if next == length {
                return Ok(length);
            }
            length = next;
        }
    }

    fn decide(
        &self,
        effort: Effort,
        search: impl Fn(&Self, u64, &mut Steps, &mut u64) -> Result<Overfull, Unsupported>,
    ) -> Verdict<DemandTest> {
        if let Some(task) = self.tasks().iter().position(|task| Demand::first(task).is_none()) {
            // Released, at the latest, after its deadline, whatever the phases.
            let demand_ps = self.tasks()[task].wcet().0.into();
            let (job, window_ps, cause) = (0u8.into(), 0u8.into(), Cause::Deadline);
            return Verdict::Unschedulable(Overload { task: TaskIndex(task), job, window_ps, demand_ps, cause });
        }
        if let Some(reason) = self.overestimated() {
            return Verdict::Unsupported(reason);
        }
        if self.load() == Ordering::Greater {
            return Verdict::Unschedulable(self.overrun());
        }
        let mut steps = Steps::new(TaskIndex(0), effort);
        let mut windows = 0;
        let searched = self
            .horizon(&mut steps)
            .and_then(|last| search(self, last, &mut steps, &mut windows).map(|overfull| (last, overfull)));
        match searched {
            Ok((_, Some(length))) => self.no(self.overload(&length.into(), Cause::Deadline)),
            Ok((last, None)) => Verdict::Schedulable(DemandTest { window: Picoseconds(last), windows }),
            Err(reason) => Verdict::Unsupported(reason),
        }
    }

    fn no(&self, late: Overload) -> Verdict<DemandTest> {
        if !self.terms.iter().all(Interference::regular) {
            Verdict::Unsupported(Unsupported::Bound(Box::new(late)))
        } else if self.set.synchronous() {
            Verdict::Unschedulable(late)
        } else {
            Verdict::Unsupported(Unsupported::Phases(Box::new(late)))
        }
    }

    fn each_deadline(&self, last: u64, steps: &mut Steps, windows: &mut u64) -> Result<Overfull, Unsupported> {
        // A deadline at 0 leaves no time for its job.
        let mut length = self.last_deadline(0).unwrap_or_else(|| self.next_deadline(0));
        while length <= last {
            steps.step()?;
            *windows += 1;
            if self.work(length) > u128::from(length) {
                return Ok(Some(length));
            }
            length = self.next_deadline(length);
        }
        Ok(None)
    }

    fn backwards(&self, last: u64, steps: &mut Steps, windows: &mut u64) -> Result<Overfull, Unsupported> {
        let found = self.quick_search(last, steps, windows)?;
        debug_assert!(self.each_deadline_agrees(last, found), "QPA contradicts the test of each deadline");
        Ok(found)
    }

    /// Whether the test of each deadline agrees, if deadlines are few.
    fn each_deadline_agrees(&self, last: u64, quick: Overfull) -> bool {
        let found = self.each_deadline(last, &mut Steps::compared(), &mut 0);
        found.map_or(true, |found| found.is_some() == quick.is_some())
    }

    fn quick_search(&self, last: u64, steps: &mut Steps, windows: &mut u64) -> Result<Overfull, Unsupported> {
        let shortest = self.tasks().iter().filter_map(Demand::first).min().unwrap_or(0);
        let Some(mut length) = self.last_deadline(last) else { return Ok(None) };
        loop {
            steps.step()?;
            *windows += 1;
            let work = self.work(length);
            match work.cmp(&u128::from(length)) {
                Ordering::Greater => return Ok(self.last_deadline(length)),
                _ if work <= u128::from(shortest) => return Ok(None),
                // The work due in any window between the two is at most the length of the shorter one.
                Ordering::Less => length = work as u64,
                Ordering::Equal => match self.last_deadline(length - 1) {
                    Some(before) => length = before,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Finds a window that shows a utilization above 1: the demand is more than `U t` less the sum of `(D - J) C / T`.
    pub(crate) fn overrun(&self) -> Overload {
        let utilization = self.utilization();
        let first = |task: &Task| Demand::first(task).unwrap_or(0);
        // Refresh takes no less than its rate of any window, of the last one only what is over at the end.
        let behind: Ratio<BigUint> =
            self.tasks().iter().map(|task| task.utilization() * BigUint::from(first(task))).sum();
        let excess = &utilization - Ratio::from_integer(BigUint::from(1u8));
        let shows = (behind / excess).ceil().to_integer();
        let all = self.tasks().iter().map(first).max().unwrap_or(0);
        self.overload(&shows.max(all.into()), Cause::Utilization(utilization))
    }

    /// Describes the window that ends at the last deadline at or before this length.
    pub(crate) fn overload(&self, length: &BigUint, cause: Cause) -> Overload {
        let due = |task: &Task| {
            let rest = BigInt::from(length.clone()) - Demand::first(task).unwrap_or(0);
            rest.to_biguint().map(|rest| rest / task.period().0 + 1u8)
        };
        let jobs: Vec<Option<BigUint>> = self.tasks().iter().map(due).collect();
        let end = |(task, jobs): (usize, &Option<BigUint>)| {
            let own = &self.tasks()[task];
            let job = jobs.as_ref()? - 1u8;
            Some((&job * own.period().0 + Demand::first(own).unwrap_or(0), task, job))
        };
        let ends = jobs.iter().enumerate().filter_map(end);
        let (window_ps, task, job) = ends.max_by(|a, b| a.0.cmp(&b.0)).expect("a deadline in the window");
        let pairs = || self.tasks().iter().zip(&jobs).filter_map(|(task, jobs)| Some((task, jobs.as_ref()?)));
        let blocking = pairs().map(|(task, _)| task.blocking().0).max().unwrap_or(0);
        let lines = pairs().map(|(task, jobs)| jobs * task.lines()).sum::<BigUint>();
        let delays = self.terms.iter().map(|term| term.within_exact(&window_ps, &lines)).sum::<BigUint>();
        let demand_ps = pairs().map(|(task, jobs)| jobs * task.wcet().0).sum::<BigUint>() + blocking + delays;
        debug_assert!(demand_ps > window_ps || matches!(cause, Cause::Supply(_)), "an overload that is none");
        Overload { task: TaskIndex(task), job, window_ps, demand_ps, cause }
    }

    /// Tests every job of the task whose deadline coincides with one of the others' or that is released at a multiple
    /// of its period after the beginning: between those the interference is the same and the response shorter (Spuri
    /// 1996, lemma 4.1 and theorem 4.1).
    ///
    /// From one to the next, jobs due only become more, so that the completion before is where the next search begins.
    fn worst_response(&self, index: TaskIndex, last: u64, steps: &mut Steps) -> Result<Response, Unsupported> {
        let task = &self.set[index];
        let jitter = task.jitter().0;
        let alone = Picoseconds(jitter + task.wcet().0);
        let mut worst = Response { task: index, response: alone, job: 0, window: Picoseconds(task.wcet().0), jobs: 0 };
        let first = |task: &Task| task.deadline().0 as i64 - task.jitter().0 as i64;
        // The next release at which some task's deadline coincides with the job's: x = released - J + D.
        let next = |other: &Task| {
            let (first, period) = (first(other) - first(task), other.period().0);
            match u64::try_from(first) {
                Ok(first) if first > 0 => first,
                _ => period - first.unsigned_abs() % period,
            }
        };
        let mut next: Vec<u64> = self.tasks().iter().map(next).collect();
        let mut due: Vec<u64> = self.tasks().iter().map(|other| Demand::due(other, first(task))).collect();
        let (mut released, mut reached) = (0, 0);
        while released <= last {
            debug_assert!(
                self.tasks()
                    .iter()
                    .zip(&due)
                    .all(|(other, &due)| due == Demand::due(other, released as i64 + first(task))),
                "jobs due, counted one by one"
            );
            let from = reached;
            reached = self.completion(index, released, from, &due, steps)?;
            debug_assert!(
                from == 0
                    || self
                        .completion(index, released, 0, &due, &mut Steps::compared())
                        .map_or(true, |least| least == reached),
                "a completion that is not the first, from that of the job before"
            );
            let response = Picoseconds((reached + jitter).saturating_sub(released));
            worst.jobs += 1;
            if response > worst.response {
                worst = Response { response, job: released / task.period().0, window: Picoseconds(reached), ..worst };
            }
            released = next.iter().copied().min().expect("a set has a task");
            for ((other, next), due) in self.tasks().iter().zip(&mut next).zip(&mut due) {
                if *next == released {
                    *next += other.period().0;
                    *due += 1;
                }
            }
        }
        Ok(worst)
    }

    /// Completion, in the window, of the job that may be released at `released`, its jitter used up, when `jobs` jobs
    /// of each task are due with it. `from` is at most the completion.
    fn completion(
        &self,
        index: TaskIndex,
        released: u64,
        from: u64,
        due: &[u64],
        steps: &mut Steps,
    ) -> Result<u64, Unsupported> {
        let task = &self.set[index];
        let job = released / task.period().0;
        let end = released as i64 + task.deadline().0 as i64 - task.jitter().0 as i64;
        let own = (u128::from(job) + 1) * u128::from(task.wcet().0) + u128::from(self.blocking(end));
        let others = || {
            self.set.indexed().zip(due).filter(|((other, _), _)| *other != index).map(|((_, task), due)| (task, due))
        };
        let mut reached = from;
        loop {
            steps.step()?;
            let jobs = |(other, due): (&Task, &u64)| {
                // No division when all that are due have been released.
                let reach = u128::from(reached + other.jitter().0);
                if u128::from(due.saturating_sub(1)) * u128::from(other.period().0) < reach {
                    return *due;
                }
                (reach as u64).div_ceil(other.period().0).max(1).min(*due)
            };
            let work = others().map(|one| u128::from(jobs(one)) * u128::from(one.0.wcet().0));
            let delays = match self.terms {
                [] => 0,
                terms => {
                    let lines = others().map(|one| u128::from(jobs(one)) * u128::from(one.0.lines()));
                    let lines = lines.fold((u128::from(job) + 1) * u128::from(task.lines()), u128::saturating_add);
                    terms.iter().map(|term| term.delay(Picoseconds(reached), lines)).fold(0, u128::saturating_add)
                }
            };
            let next = window(work.fold(own.saturating_add(delays), u128::saturating_add), index)?;
            debug_assert!(next >= reached, "a completion before one that comes earlier");
            if next == reached {
                return Ok(reached);
            }
            reached = next;
        }
    }
}
