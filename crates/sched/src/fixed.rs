//! Fixed priority: worst-case response times, preemptive and not, for any deadlines.
//!
//! Preemptive: Joseph and Pandya 1986 for the first job, Lehoczky 1990 for deadlines beyond the period (every job of
//! the busy window is tested), Tindell, Burns and Wellings 1994 for release jitter and blocking. Not preemptive:
//! George, Rivierre and Spuri 1996, in the form of Davis, Burns, Bril and Lukkien 2007, who showed that testing the
//! first job alone, as was done for CAN from 1994 on, is wrong even when no deadline exceeds its period.
//!
//! Both are exact for sporadic tasks without blocking: a pattern of arrivals exists in which a job takes just as long.
//! Time is discrete, 1 ps: a job of lower priority that cannot be preempted has begun at least 1 ps before the critical
//! window, and so blocks for its `C` less 1 ps.

use crate::error::SchedError;
use crate::interference::{self, Interference};
use crate::task::{Task, TaskIndex, TaskSet, load, utilization};
use crate::verdict::{Cause, Effort, Overload, Response, Steps, Unsupported, Verdict, window};
use memtint_units::Picoseconds;
use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_rational::Ratio;
use std::cmp::Ordering;

/// An order of priorities: indices of tasks, the highest priority first, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priorities {
    order: Vec<TaskIndex>,
}

impl Priorities {
    /// Orders by period, shortest first; among equals, the first of the set (Liu and Layland 1973).
    #[must_use]
    pub fn rate_monotonic(set: &TaskSet) -> Priorities {
        Priorities::by(set, |task| task.period())
    }

    /// Orders by deadline, shortest first; among equals, the first of the set (Leung and Whitehead 1982).
    #[must_use]
    pub fn deadline_monotonic(set: &TaskSet) -> Priorities {
        Priorities::by(set, |task| task.deadline())
    }

    /// Takes an order as given, the highest priority first.
    ///
    /// # Errors
    ///
    /// [`SchedError::Order`] unless the order has each index of the set once.
    pub fn given(set: &TaskSet, order: Vec<TaskIndex>) -> Result<Priorities, SchedError> {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted.into_iter().eq(set.indices()) {
            Ok(Priorities { order })
        } else {
            Err(SchedError::Order { found: order, last: TaskIndex(set.tasks().len() - 1) })
        }
    }

    fn by(set: &TaskSet, key: impl Fn(&Task) -> Picoseconds) -> Priorities {
        let mut order: Vec<TaskIndex> = set.indices().collect();
        order.sort_by_key(|&index| key(&set[index]));
        Priorities { order }
    }

    /// Gives the indices, the highest priority first.
    #[must_use]
    pub fn order(&self) -> &[TaskIndex] {
        &self.order
    }
}

/// Whether a job that has begun can be interrupted by one of higher priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preemption {
    /// At any time, at no cost.
    Full,
    /// Never.
    None,
}

/// The worst response time of a task, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorstCase {
    /// No job takes longer.
    Bounded(Response),
    /// The utilization of the tasks of this and higher priority, above 1: response times are unbounded.
    Unbounded(Ratio<BigUint>),
}

/// Finds the worst response time of one task, whatever its deadline. Phases are not used.
///
/// # Errors
///
/// [`Unsupported::Effort`] and [`Unsupported::Window`] when the busy window is too long to be searched.
///
/// # Panics
///
/// When the set has no task of this index, or `priorities` are those of another set.
///
/// ```
/// use memtint_sched::{Effort, Preemption, Priorities, TaskIndex, TaskSet, TaskSpec, WorstCase, worst_response};
/// use memtint_units::Picoseconds as Ps;
///
/// // Lehoczky 1990: the first job of the second task takes 114, the worst is the fifth with 118.
/// let set = TaskSet::new([
///     TaskSpec::new("one", Ps(70), Ps(26)),
///     TaskSpec::new("two", Ps(100), Ps(62)).deadline(Ps(118)),
/// ])?;
/// let order = Priorities::rate_monotonic(&set);
/// let WorstCase::Bounded(worst) = worst_response(&set, &order, Preemption::Full, TaskIndex(1), Effort::default()).unwrap() else {
///     panic!("the utilization is below 1")
/// };
/// assert_eq!((worst.response, worst.job, worst.jobs), (Ps(118), 4, 7));
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn worst_response(
    set: &TaskSet,
    priorities: &Priorities,
    preemption: Preemption,
    task: TaskIndex,
    effort: Effort,
) -> Result<WorstCase, Unsupported> {
    worst_response_with(set, priorities, preemption, task, &[], effort)
}

/// Finds the worst response time of one task as [`worst_response`] does, with delays beside those of the tasks.
///
/// A job that cannot be preempted by others is still delayed by refresh, before it starts and while it runs.
///
/// # Errors
///
/// As [`worst_response`]; [`Unsupported::Precondition`] and [`Unsupported::Platform`] when a term's theorem is not about the set
/// or the platform; [`Unsupported::Load`] when bounds of interference leave no time.
///
/// # Panics
///
/// As [`worst_response`].
pub fn worst_response_with(
    set: &TaskSet,
    priorities: &Priorities,
    preemption: Preemption,
    task: TaskIndex,
    terms: &[Interference],
    effort: Effort,
) -> Result<WorstCase, Unsupported> {
    if let Some(reason) = interference::refused(terms, set, preemption == Preemption::Full) {
        return Err(reason);
    }
    let level = Level::new(set, priorities, preemption, task, terms);
    if let Some(reason) = level.overestimated() {
        return Err(reason);
    }
    if level.load() == Ordering::Greater {
        return Ok(WorstCase::Unbounded(level.utilization()));
    }
    let mut worst: Option<Response> = None;
    let jobs = level.each_job(effort, |job| {
        if worst.is_none_or(|worst| job.response > worst.response) {
            worst = Some(job);
        }
        true
    })?;
    let worst = worst.expect("a busy window holds a job");
    assert!(worst.response >= set[task].wcet(), "the worst response of {:?} is shorter than its job", set[task].name());
    Ok(WorstCase::Bounded(Response { jobs, ..worst }))
}

/// Decides whether every job meets its deadline; a yes comes with the worst response time of every task, in the set's order.
///
/// Exact for sporadic tasks without blocking; with blocking, a no means that the blocking given can make a job late, if it
/// really happens. When phases differ, a no becomes [`Unsupported::Phases`], unless it is the utilization's.
///
/// # Panics
///
/// When `priorities` are those of another set.
pub fn fixed_priority(
    set: &TaskSet,
    priorities: &Priorities,
    preemption: Preemption,
    effort: Effort,
) -> Verdict<Vec<Response>> {
    fixed_priority_with(set, priorities, preemption, &[], effort)
}

/// Decides as [`fixed_priority`] does, with delays beside those of the tasks.
///
/// With refresh alone and full preemption it is exact for sporadic tasks without blocking on a core that needs the memory all
/// the time. With other terms, or refresh without preemption, a no that is not the utilization's becomes [`Unsupported::Bound`] or [`Unsupported::Load`].
///
/// # Panics
///
/// As [`fixed_priority`].
///
/// ```
/// use memtint_sched::{
///     Effort, Interference, Preemption, Priorities, Refresh, TaskSet, TaskSpec, Verdict, fixed_priority_with,
/// };
/// use memtint_units::Picoseconds;
///
/// let ns = Picoseconds::from_ns;
/// let set = TaskSet::new([TaskSpec::new("a", ns(100_000), ns(30_000)), TaskSpec::new("b", ns(200_000), ns(80_000))])?;
/// let refresh = Refresh::auto(ns(7_800), ns(350), ns(28))?;
/// let order = Priorities::rate_monotonic(&set);
/// let terms = [Interference::Refresh(refresh)];
/// let Verdict::Schedulable(all) = fixed_priority_with(&set, &order, Preemption::Full, &terms, Effort::default()) else {
///     panic!("b is complete after its own 80 us, 2 times 30 us, and 19 refreshes")
/// };
/// assert_eq!(all[1].response, ns(140_000 + 19 * 378));
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn fixed_priority_with(
    set: &TaskSet,
    priorities: &Priorities,
    preemption: Preemption,
    terms: &[Interference],
    effort: Effort,
) -> Verdict<Vec<Response>> {
    if let Some(reason) = interference::refused(terms, set, preemption == Preemption::Full) {
        return Verdict::Unsupported(reason);
    }
    // Without preemption a job that is chosen during a refresh is counted 1 ps too long.
    let exact = terms.is_empty() || preemption == Preemption::Full && terms.iter().all(Interference::happens);
    let mut responses = vec![None; set.tasks().len()];
    let mut unanswered = None;
    for &task in priorities.order() {
        match Level::new(set, priorities, preemption, task, terms).decide(effort) {
            Verdict::Schedulable(response) => responses[task.index()] = Some(response),
            Verdict::Unschedulable(late) if !exact && !matches!(late.cause, Cause::Utilization(_)) => {
                unanswered = unanswered.or(Some(Unsupported::Bound(Box::new(late))));
            }
            Verdict::Unschedulable(late) if set.synchronous() || matches!(late.cause, Cause::Utilization(_)) => {
                return Verdict::Unschedulable(late);
            }
            Verdict::Unschedulable(late) => unanswered = unanswered.or(Some(Unsupported::Phases(Box::new(late)))),
            // A lower priority may still give a no, which is worth more than not to know.
            Verdict::Unsupported(reason) => unanswered = unanswered.or(Some(reason)),
        }
    }
    match unanswered {
        Some(reason) => Verdict::Unsupported(reason),
        None => {
            let responses: Vec<Response> = responses.into_iter().flatten().collect();
            assert_eq!(responses.len(), set.tasks().len(), "responses of a yes, and tasks");
            for (own, response) in set.tasks().iter().zip(&responses) {
                assert!(response.response <= own.deadline(), "a yes, and {:?} can be late", own.name());
            }
            Verdict::Schedulable(responses)
        }
    }
}

/// A task with those that interfere with it.
struct Level<'a> {
    index: TaskIndex,
    task: &'a Task,
    higher: Vec<&'a Task>,
    preemption: Preemption,
    /// The task's own blocking, and that by a job that cannot be preempted.
    blocking: u64,
    terms: &'a [Interference],
}

impl<'a> Level<'a> {
    fn new(
        set: &'a TaskSet,
        priorities: &Priorities,
        preemption: Preemption,
        index: TaskIndex,
        terms: &'a [Interference],
    ) -> Level<'a> {
        assert_eq!(priorities.order.len(), set.tasks().len(), "priorities of another task set");
        let rank = priorities.order.iter().position(|&other| other == index).expect("a task of this set");
        let tasks = |order: &[TaskIndex]| order.iter().map(|&other| &set[other]).collect::<Vec<_>>();
        let task = &set[index];
        let lower = || priorities.order[rank + 1..].iter().map(|&other| set[other].wcet().0);
        let begun = match preemption {
            Preemption::Full => 0,
            // While refresh holds the core, a job can be chosen that has not begun to execute.
            Preemption::None if !terms.is_empty() => lower().max().unwrap_or(0),
            Preemption::None => lower().max().map_or(0, |longest| longest - 1),
        };
        let higher = tasks(&priorities.order[..rank]);
        Level { index, task, higher, preemption, blocking: task.blocking().0 + begun, terms }
    }

    fn members(&self) -> impl Iterator<Item = &'a Task> + Clone {
        self.higher.iter().copied().chain([self.task])
    }

    fn load(&self) -> Ordering {
        if self.terms.is_empty() {
            return load(self.members());
        }
        self.utilization().cmp(&Ratio::from_integer(BigUint::from(1u8)))
    }

    /// Long-run utilization of the tasks and the terms.
    fn utilization(&self) -> Ratio<BigUint> {
        let lines = || interference::line_rate(self.members());
        self.terms.iter().map(|term| term.rate(&lines())).fold(utilization(self.members()), |sum, rate| sum + rate)
    }

    /// With terms that are only bounds, a load that is not below 1 is inconclusive.
    fn overestimated(&self) -> Option<Unsupported> {
        if self.terms.iter().all(Interference::happens) || self.load() == Ordering::Less {
            return None;
        }
        Some(Unsupported::Load(self.utilization()))
    }

    /// Delays in a window in which `own` own jobs count.
    fn delays(&self, own: u128, window: u64) -> u128 {
        if self.terms.is_empty() {
            return 0;
        }
        let higher = self.higher.iter().map(|task| {
            let jobs = (window + task.jitter().0).div_ceil(task.period().0);
            u128::from(jobs) * u128::from(task.lines())
        });
        let lines = higher.fold(own * u128::from(self.task.lines()), u128::saturating_add);
        let delays = self.terms.iter().map(|term| term.delay(Picoseconds(window), lines));
        delays.fold(0, u128::saturating_add)
    }

    /// Work of higher priority that arrives in a window of this length; its end is included when jobs cannot be
    /// preempted, because a job that arrives at the moment of the start precedes it.
    fn interference(&self, window: u64) -> u128 {
        let jobs = |task: &Task| {
            let reach = window + task.jitter().0;
            match self.preemption {
                Preemption::Full => reach.div_ceil(task.period().0),
                Preemption::None => reach / task.period().0 + 1,
            }
        };
        self.higher.iter().map(|task| u128::from(jobs(task)) * u128::from(task.wcet().0)).fold(0, u128::saturating_add)
    }

    /// Own work and blocking that must be served before job `q` is complete or, if it cannot be preempted, starts.
    fn own(&self, q: u64) -> u128 {
        let jobs = match self.preemption {
            Preemption::Full => u128::from(q) + 1,
            Preemption::None => u128::from(q),
        };
        u128::from(self.blocking) + jobs * u128::from(self.task.wcet().0)
    }

    /// Completion of job `q`, from the beginning of the window. `from` is at most the fixed point looked for.
    fn completion(&self, q: u64, from: u64, steps: &mut Steps) -> Result<(u64, u64), Unsupported> {
        let reached = self.fixed_point(q, from, steps)?;
        debug_assert!(
            from == 0 || self.fixed_point(q, 0, &mut Steps::compared()).map_or(true, |least| least == reached),
            "a fixed point that is not the least, from that of the job before"
        );
        match self.preemption {
            Preemption::Full => Ok((reached, reached)),
            Preemption::None => Ok((reached, self.end(q, reached, steps)?)),
        }
    }

    /// When job `q` is complete or, if it cannot be preempted, starts.
    fn fixed_point(&self, q: u64, from: u64, steps: &mut Steps) -> Result<u64, Unsupported> {
        let own = self.own(q);
        // The fixed point is no less than the own work.
        let mut reached = from.max(window(own, self.index)?);
        loop {
            steps.step()?;
            let delays = match self.preemption {
                Preemption::Full => self.delays(u128::from(q) + 1, reached),
                // A job that arrives at the moment of the start delays it.
                Preemption::None => self.delays(u128::from(q), reached + 1),
            };
            let next = window(own.saturating_add(self.interference(reached)).saturating_add(delays), self.index)?;
            debug_assert!(next >= reached, "a demand that shrinks as the window grows");
            if next == reached {
                return Ok(reached);
            }
            reached = next;
        }
    }

    /// Completion of job `q`, which cannot be preempted by other jobs and starts at `start`: terms go on.
    fn end(&self, q: u64, start: u64, steps: &mut Steps) -> Result<u64, Unsupported> {
        let before = self.delays(q.into(), start + 1);
        let mut end = window(u128::from(start) + u128::from(self.task.wcet().0), self.index)?;
        while !self.terms.is_empty() {
            steps.step()?;
            let more = self.delays(u128::from(q) + 1, end).saturating_sub(before);
            let next = u128::from(start) + u128::from(self.task.wcet().0) + more;
            let next = window(next, self.index)?;
            if next <= end {
                break;
            }
            end = next;
        }
        Ok(end)
    }

    /// Visits the jobs of the busy window in order, until the last or until `see` returns false; gives their number.
    fn each_job(&self, effort: Effort, mut see: impl FnMut(Response) -> bool) -> Result<u64, Unsupported> {
        let mut steps = Steps::new(self.index, effort);
        let jobs = self.jobs(&mut steps)?;
        let (period, jitter) = (self.task.period().0, self.task.jitter().0);
        let (mut q, mut from) = (0u64, 0u64);
        loop {
            let (fixed, completion) = self.completion(q, from, &mut steps)?;
            // Job q arrives at q T - J.
            let arrived = window(u128::from(q) * u128::from(period), self.index)?;
            let response = Picoseconds(completion + jitter - arrived);
            let job = Response { task: self.index, response, job: q, window: Picoseconds(completion), jobs: q + 1 };
            q += 1;
            let idle = self.preemption == Preemption::Full && completion + jitter <= arrived + period;
            if !see(job) || idle || q >= jobs {
                return Ok(q);
            }
            from = fixed;
        }
    }

    /// An upper limit of the jobs that need to be tested.
    ///
    /// With a utilization of 1 and any blocking or jitter the busy window never ends, but then
    /// `completion(q + H / T) = completion(q) + H`, with `H` the hyperperiod of the level, so one hyperperiod is all.
    fn jobs(&self, steps: &mut Steps) -> Result<u64, Unsupported> {
        if self.load() == Ordering::Equal {
            let periods =
                self.members().map(|task| task.period().0).chain(self.terms.iter().map(Interference::repeats));
            let hyperperiod = periods.fold(BigUint::from(1u8), |lcm, period| lcm.lcm(&period.into()));
            return Ok(u64::try_from(hyperperiod / self.task.period().0).unwrap_or(u64::MAX));
        }
        if self.preemption == Preemption::Full {
            return Ok(u64::MAX); // The end of the busy window shows.
        }
        let busy = self.busy_window(steps)?;
        Ok((busy + self.task.jitter().0).div_ceil(self.task.period().0))
    }

    /// Length of the longest window in which this and higher priorities leave no time (Davis et al. 2007, equation 9).
    fn busy_window(&self, steps: &mut Steps) -> Result<u64, Unsupported> {
        let work = |length: u64| {
            let jobs = |task: &Task| (length + task.jitter().0).div_ceil(task.period().0).max(1);
            let work = |task: &Task| u128::from(jobs(task)) * u128::from(task.wcet().0);
            let own = u128::from((length + self.task.jitter().0).div_ceil(self.task.period().0).max(1));
            let delays = self.delays(own, length).saturating_add(self.blocking.into());
            self.members().map(work).fold(delays, u128::saturating_add)
        };
        let mut length = 0;
        loop {
            steps.step()?;
            let next = window(work(length), self.index)?;
            if next == length {
                return Ok(length);
            }
            length = next;
        }
    }

    fn decide(&self, effort: Effort) -> Verdict<Response> {
        if let Some(reason) = self.overestimated() {
            return Verdict::Unsupported(reason);
        }
        if self.load() == Ordering::Greater {
            return Verdict::Unschedulable(self.overrun());
        }
        let (mut worst, mut late) = (None::<Response>, None);
        let seen = self.each_job(effort, |job| {
            if job.response > self.task.deadline() {
                late = Some(job);
            }
            if worst.is_none_or(|worst| job.response > worst.response) {
                worst = Some(job);
            }
            late.is_none()
        });
        match (seen, late, worst) {
            (Ok(_), Some(late), _) => Verdict::Unschedulable(self.lateness(late.job)),
            (Ok(jobs), None, Some(worst)) => Verdict::Schedulable(Response { jobs, ..worst }),
            (Ok(_), None, None) => unreachable!("a busy window holds a job"),
            (Err(reason), ..) => Verdict::Unsupported(reason),
        }
    }

    /// Describes the window in which job `q` comes too late.
    fn lateness(&self, q: u64) -> Overload {
        self.overload(BigUint::from(q), Cause::Deadline)
    }

    /// Finds a window that shows a utilization above 1.
    ///
    /// With `t = q T + D - J` the demand of a level is more than `U t + C (1 - (D - J) / T)` less rounding, so it exceeds
    /// `t` as soon as `(U - 1) t > C ((D - J) / T - 1)`; a job that cannot be preempted likewise, with `D - J - C` for `D - J`
    /// and nothing subtracted.
    fn overrun(&self) -> Overload {
        let utilization = self.utilization();
        let signed =
            |ratio: &Ratio<BigUint>| Ratio::new(BigInt::from(ratio.numer().clone()), ratio.denom().clone().into());
        let whole = |number: i128| Ratio::from_integer(BigInt::from(number));
        let period = whole(self.task.period().0.into());
        let slack = whole(self.slack());
        let excess = signed(&utilization) - whole(1);
        let own = match self.preemption {
            Preemption::Full => &slack / &period - whole(1),
            Preemption::None => &slack / &period,
        };
        let beyond = own * whole(self.task.wcet().0.into()) / excess;
        let q = ((beyond - slack) / period).floor() + whole(1);
        let q = q.to_integer().to_biguint().unwrap_or_default();
        self.overload(q, Cause::Utilization(utilization))
    }

    /// From the beginning of the window to where job 0 must be complete or, if it cannot be preempted, must have started.
    fn slack(&self) -> i128 {
        let rest = if self.preemption == Preemption::None { self.task.wcet().0 } else { 0 };
        i128::from(self.task.deadline().0) - i128::from(self.task.jitter().0) - i128::from(rest)
    }

    fn overload(&self, job: BigUint, cause: Cause) -> Overload {
        let end = BigInt::from(job.clone()) * self.task.period().0 + self.slack();
        let own = |count: BigUint| count * self.task.wcet().0 + self.blocking;
        let (window_ps, demand_ps, cause) = match end.to_biguint() {
            // Not even the job alone fits between its release and its deadline.
            None => (BigUint::from(self.alone()), BigUint::from(self.task.wcet().0), Cause::Deadline),
            Some(end) if self.preemption == Preemption::Full => {
                let demand = own(&job + 1u8) + self.interference_exact(&end) + self.delays_exact(&(&job + 1u8), &end);
                (end, demand, cause)
            }
            Some(end) if !self.terms.is_empty() => self.overload_with_terms(&job, end, cause),
            Some(end) => {
                let demand = own(job.clone()) + self.interference_exact(&end);
                let cause = if cause == Cause::Deadline { Cause::Start } else { cause };
                (end, demand, cause)
            }
        };
        debug_assert!(demand_ps > window_ps, "an overload that is none");
        Overload { task: self.index, job, window_ps, demand_ps, cause }
    }

    /// A job that cannot be preempted can start in time and be delayed then; the window reaches to its deadline, and the
    /// demand holds all of it and what goes before its start.
    fn overload_with_terms(&self, job: &BigUint, start: BigUint, cause: Cause) -> (BigUint, BigUint, Cause) {
        let before = job * self.task.wcet().0 + self.blocking + self.interference_exact(&start);
        let late = &before + self.delays_exact(job, &(&start + 1u8));
        if late > start {
            let cause = if cause == Cause::Deadline { Cause::Start } else { cause };
            return (start, late, cause);
        }
        let end = &start + self.task.wcet().0;
        let demand = before + self.task.wcet().0 + self.delays_exact(&(job + 1u8), &end);
        (end, demand, cause)
    }

    fn delays_exact(&self, own: &BigUint, window: &BigUint) -> BigUint {
        let jobs = |task: &Task| (window + task.jitter().0).div_ceil(&task.period().0.into());
        let higher = self.higher.iter().map(|task| jobs(task) * task.lines()).sum::<BigUint>();
        let lines = higher + own * self.task.lines();
        self.terms.iter().map(|term| term.delay_exact(window, &lines)).sum()
    }

    fn alone(&self) -> u64 {
        self.task.deadline().0.saturating_sub(self.task.jitter().0)
    }

    fn interference_exact(&self, window: &BigUint) -> BigUint {
        let jobs = |task: &Task| {
            let reach = window + task.jitter().0;
            match self.preemption {
                Preemption::Full => reach.div_ceil(&task.period().0.into()),
                Preemption::None => reach / task.period().0 + 1u8,
            }
        };
        self.higher.iter().map(|task| jobs(task) * task.wcet().0).sum()
    }
}
