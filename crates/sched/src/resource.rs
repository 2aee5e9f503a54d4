//! The periodic resource model: a processor that is available for a budget in each period, and schedulability on it.
//!
//! Shin and Lee 2003 (RTSS), 2008 (TECS). In every period `P`, the resource supplies its budget `B` at an unknown time. The
//! least that a window of length `t` gets is its supply bound: nothing for `2 (P - B)`, then `B` in each period:
//!
//! ```text
//!         2 (P - B)          B    P - B    B
//!   |------------------|=========|-----|=========|-----  window begins just after a budget that came as early as possible
//! ```
//!
//! `sbf(t) = k B + max(0, t - 2 (P - B) - k P)` with `k = floor((t - (P - B)) / P)`, and 0 for `t <= P - B`; its linear bound
//! from below is `lsbf(t) = max(0, (B / P) (t - 2 (P - B)))`. The first case and the maximum matter: an implementation that
//! left them out refused every budget below the period.
//!
//! A set is schedulable on the resource if the demand of each window (EDF), or of one window up to the deadline of each task
//! (fixed priority), is at most the supply. Demand and supply are those of the worst alignment, which can happen, so with
//! `sbf` the tests are exact for sporadic tasks without blocking.
//!
//! Smallest budgets are exact rationals: the supply reaches a demand `d` within `t` exactly when
//! `(k + 2) (P - B) + d <= t`, where `k` is the number of whole budgets used before the last, `k B < d <= (k + 1) B`. For a
//! fixed `k` that is linear in `B`.

use crate::coincidence::Coincidences;
use crate::edf::{Demand, quick_processor_demand};
use crate::error::SchedError;
use crate::fixed::{Preemption, Priorities, fixed_priority};
use crate::schedule::Policy;
use crate::sensitivity::Limit;
use crate::task::{TIME_MAX, Task, TaskIndex, TaskSet};
use crate::verdict::{Cause, Effort, Overload, Steps, Unsupported, Verdict, window};
use memtint_units::Picoseconds;
use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_rational::Ratio;

/// A processor that is available for a budget in each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodicResource {
    period: Picoseconds,
    budget: Ratio<BigUint>,
}

impl PeriodicResource {
    /// Makes a resource with a period and a budget in picoseconds, which may be a fraction.
    ///
    /// # Errors
    ///
    /// [`SchedError::Resource`] unless the period is 1 ps to [`TIME_MAX`] and the budget more than 0 and at most the period.
    pub fn new(period: Picoseconds, budget: Ratio<BigUint>) -> Result<PeriodicResource, SchedError> {
        let refuse = |field, found, accepted| Err(SchedError::Resource { field, found, accepted });
        if !(1..=TIME_MAX.0).contains(&period.0) {
            return refuse("period", period.0.to_string(), format!("1 ps to {TIME_MAX}"));
        }
        if *budget.numer() == BigUint::ZERO || budget > whole(period.0) {
            return refuse("budget", budget.to_string(), format!("more than 0 ps, at most the period, {period}"));
        }
        Ok(PeriodicResource { period, budget })
    }

    /// Gives the period.
    #[must_use]
    pub fn period(&self) -> Picoseconds {
        self.period
    }

    /// Gives the budget in picoseconds.
    #[must_use]
    pub fn budget(&self) -> &Ratio<BigUint> {
        &self.budget
    }

    /// Gives the bandwidth: budget by period.
    #[must_use]
    pub fn bandwidth(&self) -> Ratio<BigUint> {
        &self.budget / BigUint::from(self.period.0)
    }

    /// Gives the least that a window of this length is supplied, in picoseconds, exact.
    #[must_use]
    pub fn supply(&self, window_ps: &BigUint) -> Ratio<BigUint> {
        let (length, period) = (signed(&Ratio::from_integer(window_ps.clone())), signed(&whole(self.period.0)));
        let budget = signed(&self.budget);
        let gap = &period - &budget;
        if length <= gap {
            return whole(0);
        }
        let budgets = ((&length - &gap) / &period).floor();
        let begun = length - gap * BigInt::from(2) - &budgets * period;
        unsigned(budgets * budget + begun.max(Ratio::from_integer(BigInt::ZERO)))
    }

    /// Gives the linear bound from below of [`PeriodicResource::supply`].
    #[must_use]
    pub fn linear_supply(&self, window_ps: &BigUint) -> Ratio<BigUint> {
        let gap = (whole(self.period.0) - &self.budget) * BigUint::from(2u8);
        let length = Ratio::from_integer(window_ps.clone());
        if length <= gap { whole(0) } else { self.bandwidth() * (length - gap) }
    }
}

/// Which bound of the supply is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Supply {
    /// [`PeriodicResource::supply`].
    Exact,
    /// [`PeriodicResource::linear_supply`], which requires slightly more.
    Linear,
}

/// The smallest budget, and its limiting factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The budget in picoseconds: exact for [`Supply::Exact`], rounded up to whole picoseconds for [`Supply::Linear`], where
    /// it is a root.
    pub budget_ps: Ratio<BigUint>,
    /// The limiting factor.
    pub limit: Limit,
}

/// Decides whether a set meets all deadlines under a policy on a resource. A yes carries the number of windows tested.
///
/// The policy must be preemptive, and with fixed priorities no deadline beyond the period. With [`Supply::Linear`] a set that is not
/// accepted is [`Unsupported::Inconclusive`] (demand and supply of a window) where the exact supply may do. When phases
/// differ, a no becomes [`Unsupported::Phases`].
///
/// # Panics
///
/// When the priorities are those of another set.
///
/// ```
/// use memtint_sched::{Effort, PeriodicResource, Policy, Supply, TaskSet, TaskSpec, schedulable_on};
/// use memtint_units::Picoseconds as Ps;
/// use num_rational::Ratio;
///
/// // Shin and Lee 2003: tasks (50, 7) and (75, 9) on a resource of period 10.
/// let set = TaskSet::new([TaskSpec::new("a", Ps(50), Ps(7)), TaskSpec::new("b", Ps(75), Ps(9))])?;
/// let resource = PeriodicResource::new(Ps(10), Ratio::new(39u8.into(), 14u8.into()))?;
/// assert!(schedulable_on(&set, &Policy::Edf, &resource, Supply::Exact, Effort::default()).is_schedulable());
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn schedulable_on(
    set: &TaskSet,
    policy: &Policy,
    resource: &PeriodicResource,
    supply: Supply,
    effort: Effort,
) -> Verdict<u64> {
    if let Some(reason) = refused(set, policy) {
        return Verdict::Unsupported(reason);
    }
    let question = Question { set, period: resource.period.0, supply };
    // Under EDF every window counts, so one that exceeds the exact supply settles it.
    let hopeless = |late: &Overload| match &late.cause {
        Cause::Supply(supplied) => *policy == Policy::Edf && Ratio::from_integer(late.demand_ps.clone()) > *supplied,
        _ => true,
    };
    let found = match policy {
        Policy::FixedPriority(priorities, _) => question.fixed_priority_on(priorities, resource, effort),
        Policy::Edf | Policy::NonPreemptiveEdf => question.edf_on(resource, effort),
    };
    match found {
        Ok(Found::Windows(windows)) => Verdict::Schedulable(windows),
        Ok(Found::Overload(late)) if supply == Supply::Linear && !hopeless(&late) => {
            let most = resource.linear_supply(&late.window_ps);
            Verdict::Unsupported(Unsupported::Inconclusive { found: Ratio::from_integer(late.demand_ps), most })
        }
        Ok(Found::Overload(late)) if !set.synchronous() => Verdict::Unsupported(Unsupported::Phases(Box::new(late))),
        Ok(Found::Overload(late)) => Verdict::Unschedulable(late),
        Err(reason) => Verdict::Unsupported(reason),
    }
}

/// Finds the smallest budget with which a resource of a period schedules a set; a set that is not schedulable on a
/// dedicated processor gets the answer for that processor. When phases differ, a smaller budget may be enough.
///
/// Under EDF a window after millions of jobs can decide; when it may be one of more than 2^62 ps, there is no answer
/// ([`Unsupported::Window`]).
///
/// # Panics
///
/// When the priorities are those of another set.
pub fn smallest_budget(
    set: &TaskSet,
    policy: &Policy,
    period: Picoseconds,
    supply: Supply,
    effort: Effort,
) -> Verdict<Budget> {
    if let Some(reason) = refused(set, policy) {
        return Verdict::Unsupported(reason);
    }
    if !(1..=TIME_MAX.0).contains(&period.0) {
        return Verdict::Unsupported(Unsupported::Precondition {
            task: TaskIndex(0),
            needs: "a resource period of 1 ps to 2^60 ps",
        });
    }
    let question = Question { set, period: period.0, supply };
    let alone = match policy {
        Policy::FixedPriority(priorities, preemption) => fixed_priority(set, priorities, *preemption, effort).map(drop),
        Policy::Edf | Policy::NonPreemptiveEdf => quick_processor_demand(set, effort).map(drop),
    };
    match alone {
        Verdict::Unschedulable(late) => return Verdict::Unschedulable(late),
        Verdict::Unsupported(reason) => return Verdict::Unsupported(reason),
        Verdict::Schedulable(()) => {}
    }
    let found = match policy {
        Policy::FixedPriority(priorities, _) => question.fixed_priority_budget(priorities, effort),
        Policy::Edf | Policy::NonPreemptiveEdf => question.edf_budget(effort),
    };
    match found {
        Ok(budget) => Verdict::Schedulable(budget),
        Err(reason) => Verdict::Unsupported(reason),
    }
}

/// Finds the smallest budget for each of several periods, in their order.
pub fn budget_curve(
    set: &TaskSet,
    policy: &Policy,
    periods: impl IntoIterator<Item = Picoseconds>,
    supply: Supply,
    effort: Effort,
) -> Vec<(Picoseconds, Verdict<Budget>)> {
    periods.into_iter().map(|period| (period, smallest_budget(set, policy, period, supply, effort))).collect()
}

fn refused(set: &TaskSet, policy: &Policy) -> Option<Unsupported> {
    match policy {
        Policy::Edf => None,
        Policy::FixedPriority(_, Preemption::None) | Policy::NonPreemptiveEdf => {
            Some(Unsupported::Precondition { task: TaskIndex(0), needs: "preemption on a periodic resource" })
        }
        Policy::FixedPriority(..) => {
            let beyond = |task: &Task| task.deadline() > task.period();
            let needs = "a deadline not beyond the period, for fixed priorities on a periodic resource";
            set.tasks().iter().position(beyond).map(|task| Unsupported::Precondition { task: TaskIndex(task), needs })
        }
    }
}

enum Found {
    Windows(u64),
    Overload(Overload),
}

/// Windows that are tested one after the other before the search for those that can matter.
const WALK: u64 = 64;
/// The number of windows in the first search, by an estimate. With fewer, the first that matters may be missed, and the
/// search begins again; with more, there are more to test.
const POINTS: u128 = 4;

/// A set and a period; the budget is given or searched for.
struct Question<'a> {
    set: &'a TaskSet,
    period: u64,
    supply: Supply,
}

impl Question<'_> {
    fn holds(&self, resource: &PeriodicResource, demand: u128, length: u64) -> bool {
        let supplied = match self.supply {
            Supply::Exact => resource.supply(&length.into()),
            Supply::Linear => resource.linear_supply(&length.into()),
        };
        Ratio::from_integer(demand.into()) <= supplied
    }

    fn edf_on(&self, resource: &PeriodicResource, effort: Effort) -> Result<Found, Unsupported> {
        let demand = Demand::new(self.set);
        if let Some(task) = self.set.tasks().iter().position(|task| Demand::first(task).is_none()) {
            return Ok(Found::Overload(self.released_late(TaskIndex(task))));
        }
        let utilization = self.set.utilization();
        if utilization > resource.bandwidth() {
            return Ok(Found::Overload(self.overrun(&demand, resource, &utilization)));
        }
        let mut steps = Steps::new(TaskIndex(0), effort);
        let last = self.horizon(&resource.budget, &utilization, &mut steps)?;
        let mut windows = 0;
        let mut length = demand.last_deadline(0).unwrap_or_else(|| demand.next_deadline(0));
        while length <= last {
            steps.step()?;
            windows += 1;
            if !self.holds(resource, demand.work(length), length) {
                let end = BigUint::from(length);
                return Ok(Found::Overload(demand.overload(&end, Cause::Supply(resource.supply(&end)))));
            }
            length = demand.next_deadline(length);
        }
        Ok(Found::Windows(windows))
    }

    fn released_late(&self, task: TaskIndex) -> Overload {
        let demand_ps = self.set[task].wcet().0.into();
        let (job, window_ps, cause) = (0u8.into(), 0u8.into(), Cause::Deadline);
        Overload { task, job, window_ps, demand_ps, cause }
    }

    /// A window that shows a utilization above the bandwidth: demand is more than `U t` less the sum of `(D - J) C / T`, and
    /// supply at most `B t / P`.
    fn overrun(&self, demand: &Demand, resource: &PeriodicResource, utilization: &Ratio<BigUint>) -> Overload {
        let first = |task: &Task| Demand::first(task).unwrap_or(0);
        let tasks = || self.set.tasks().iter();
        let behind: Ratio<BigUint> = tasks().map(|task| task.utilization() * BigUint::from(first(task))).sum();
        let shows = (behind / (utilization - resource.bandwidth())).ceil().to_integer();
        let all = BigUint::from(tasks().map(first).max().unwrap_or(0));
        let mut late = demand.overload(&shows.max(all), Cause::Supply(whole(0)));
        late.cause = Cause::Supply(resource.supply(&late.window_ps));
        late
    }

    /// No first overload under EDF is beyond this.
    ///
    /// From the largest `D - J` on, demand is at most `U t` and the sum of `U (T - D + J)` and the blocking, and supply at
    /// least `(B / P) (t - 2 (P - B))`; where the second line has overtaken the first, nothing more happens. If they are
    /// parallel, all repeats with the common multiple of all periods.
    fn horizon(
        &self,
        budget: &Ratio<BigUint>,
        utilization: &Ratio<BigUint>,
        steps: &mut Steps,
    ) -> Result<u64, Unsupported> {
        if *budget == whole(self.period) {
            return Demand::new(self.set).horizon(steps);
        }
        let tasks = || self.set.tasks().iter();
        let first = tasks().filter_map(Demand::first).max().unwrap_or(0);
        let bandwidth = budget / BigUint::from(self.period);
        if bandwidth == *utilization {
            let repeats = self.set.hyperperiod().lcm(&self.period.into());
            let end = repeats + BigUint::from(first).max(BigUint::from(self.period) * 2u8);
            return window(u128::try_from(end).unwrap_or(u128::MAX), TaskIndex(0));
        }
        let ahead = |task: &Task| {
            let room = BigInt::from(task.period().0) - Demand::first(task).unwrap_or(0);
            signed(&task.utilization()) * room
        };
        let gap = (whole(self.period) - budget) * BigUint::from(2u8);
        let blocking = tasks().map(|task| task.blocking().0).max().unwrap_or(0);
        let apart = tasks().map(ahead).sum::<Ratio<BigInt>>() + BigInt::from(blocking) + signed(&(gap * &bandwidth));
        let meet = (apart / signed(&(bandwidth - utilization))).floor().to_integer();
        let meet = meet.to_biguint().unwrap_or_default().max(first.into());
        window(u128::try_from(meet).unwrap_or(u128::MAX), TaskIndex(0))
    }

    /// An upper limit of [`Question::horizon`] without large numbers; `None` where load and bandwidth are too near each other.
    fn near_horizon(&self, whole: u64) -> Option<u64> {
        const SHIFT: u32 = 40;
        let tasks = || self.set.tasks().iter();
        let (period, gap) = (u128::from(self.period), u128::from(2 * (self.period - whole)));
        // The load is rounded up, the bandwidth down, and the budget is less than 1 ps above `whole`.
        let load: u128 =
            tasks().map(|task| (u128::from(task.wcet().0) << SHIFT).div_ceil(task.period().0.into())).sum();
        let apart = (u128::from(whole) << SHIFT) / period;
        let apart = apart.checked_sub(load).filter(|&apart| apart > 0)?;
        let ahead = |task: &Task| {
            let room = task.period().0.saturating_sub(Demand::first(task).unwrap_or(0));
            u128::from(room) * u128::from(task.wcet().0) / u128::from(task.period().0) + 1
        };
        let blocking = tasks().map(|task| task.blocking().0).max().unwrap_or(0);
        let behind =
            tasks().map(ahead).sum::<u128>() + u128::from(blocking) + gap * (u128::from(whole) + 1) / period + 1;
        let first = tasks().filter_map(Demand::first).max().unwrap_or(0);
        let meet = behind.checked_mul(1 << SHIFT)? / apart + 1;
        window(meet.max(first.into()), TaskIndex(0)).ok()
    }

    fn edf_budget(&self, effort: Effort) -> Result<Budget, Unsupported> {
        let mut steps = Steps::new(TaskIndex(0), effort);
        let mut search = Search::new(self, &mut steps);
        if !search.walk(WALK, &mut steps)? && !search.jump(&mut steps)? {
            search.walk(u64::MAX, &mut steps)?;
        }
        debug_assert!(self.walk_agrees(&search.found), "a budget that is not that of all windows");
        Ok(search.found)
    }

    /// Whether looking at each deadline gives the same budget, where they are few.
    fn walk_agrees(&self, found: &Budget) -> bool {
        let mut steps = Steps::compared();
        let mut search = Search::new(self, &mut steps);
        search.walk(u64::MAX, &mut steps).map_or(true, |_| search.found.budget_ps == found.budget_ps)
    }

    /// No window beyond this needs more than a budget found, of which `whole` is the integer part.
    fn last(&self, budget: &Ratio<BigUint>, whole: u64, steps: &mut Steps) -> Result<u64, Unsupported> {
        let near = self.near_horizon(whole);
        // With the whole period the other is the busy window, which may be longer than it need be.
        debug_assert!(
            *budget == self::whole(self.period)
                || !matches!(
                    (near, self.horizon(budget, &self.set.utilization(), &mut Steps::compared())),
                    (Some(near), Ok(exact)) if near < exact
                ),
            "a horizon found too near in 64 bits"
        );
        near.map_or_else(|| self.horizon(budget, &self.set.utilization(), steps), Ok)
    }

    /// Windows that end where a job of higher priority arrives, or at the deadline, with their demand.
    fn windows(&self, order: &[TaskIndex], steps: &mut Steps) -> Result<Vec<(u64, u128)>, Unsupported> {
        let (&index, higher) = order.split_last().expect("a level has a task");
        let task = &self.set[index];
        let Some(deadline) = Demand::first(task) else { return Ok(Vec::new()) };
        let mut ends = vec![deadline];
        for other in higher.iter().map(|&other| &self.set[other]) {
            let (period, jitter) = (other.period().0, other.jitter().0);
            let mut arrival = (jitter / period + 1) * period - jitter;
            while arrival < deadline {
                steps.step()?;
                ends.push(arrival);
                arrival += period;
            }
        }
        let demand = |end: u64| {
            let jobs = |other: &Task| u128::from((end + other.jitter().0).div_ceil(other.period().0));
            let work =
                higher.iter().map(|&other| &self.set[other]).map(|other| jobs(other) * u128::from(other.wcet().0));
            work.fold(u128::from(task.blocking().0) + u128::from(task.wcet().0), u128::saturating_add)
        };
        Ok(ends.into_iter().map(|end| (end, demand(end))).collect())
    }

    fn fixed_priority_on(
        &self,
        priorities: &Priorities,
        resource: &PeriodicResource,
        effort: Effort,
    ) -> Result<Found, Unsupported> {
        assert_eq!(priorities.order().len(), self.set.tasks().len(), "priorities of another task set");
        let mut seen = 0;
        for rank in 0..priorities.order().len() {
            let order = &priorities.order()[..=rank];
            let task = order[rank];
            let mut steps = Steps::new(task, effort);
            let windows = self.windows(order, &mut steps)?;
            let Some(&(end, demand)) = windows.first() else { return Ok(Found::Overload(self.released_late(task))) };
            seen += windows.len() as u64;
            if !windows.iter().any(|&(end, demand)| self.holds(resource, demand, end)) {
                let (window_ps, demand_ps) = (BigUint::from(end), BigUint::from(demand));
                let cause = Cause::Supply(resource.supply(&window_ps));
                return Ok(Found::Overload(Overload { task, job: BigUint::ZERO, window_ps, demand_ps, cause }));
            }
        }
        Ok(Found::Windows(seen))
    }

    fn fixed_priority_budget(&self, priorities: &Priorities, effort: Effort) -> Result<Budget, Unsupported> {
        let mut found = Budget { budget_ps: whole(0), limit: Limit::Utilization };
        for rank in 0..priorities.order().len() {
            let order = &priorities.order()[..=rank];
            let task = order[rank];
            let windows = self.windows(order, &mut Steps::new(task, effort))?;
            let enough = below(&found.budget_ps);
            let needed = || {
                let fits = windows.iter().filter(|(end, demand)| *demand <= u128::from(*end));
                fits.map(|&(end, demand)| (self.needed(demand, end), end)).min()
            };
            if windows.iter().any(|&(end, demand)| self.supplies(enough, demand, end)) {
                debug_assert!(
                    needed().is_some_and(|(budget, _)| budget <= found.budget_ps),
                    "a budget found too small in 64 bits"
                );
                continue;
            }
            let needed = needed();
            let (budget_ps, end) = needed.expect("schedulable on a whole processor");
            if budget_ps > found.budget_ps {
                found = Budget { budget_ps, limit: Limit::Window { task, job: 0, window: Picoseconds(end) } };
            }
        }
        Ok(found)
    }

    /// Tests quickly whether a whole budget supplies a demand in a window; a no may be wrong.
    fn supplies(&self, budget: u64, demand: u128, length: u64) -> bool {
        let gap = self.period - budget;
        if self.supply == Supply::Linear || length <= gap {
            return false;
        }
        let budgets = (length - gap) / self.period;
        let begun = (length - gap - budgets * self.period).saturating_sub(gap);
        u128::from(budgets) * u128::from(budget) + u128::from(begun) >= demand
    }

    /// The smallest budget with which a window is supplied a demand that is more than 0 and at most its length.
    fn needed(&self, demand: u128, length: u64) -> Ratio<BigUint> {
        let demand = u64::try_from(demand).expect("at most the window");
        match self.supply {
            Supply::Exact => exact(self.period, length, demand),
            Supply::Linear => whole(linear(self.period, length, demand)),
        }
    }
}

/// The search for a budget under EDF.
struct Search<'a> {
    question: &'a Question<'a>,
    demand: Demand<'a>,
    /// The next deadline of each task, and the work due at those before.
    next: Vec<u64>,
    due: u128,
    blocking: u64,
    found: Budget,
    /// The largest whole budget that is no more than the one found.
    whole: u64,
    /// No window beyond this needs more than the budget found, if it fits.
    last: Result<u64, Unsupported>,
}

impl<'a> Search<'a> {
    fn new(question: &'a Question<'a>, steps: &mut Steps) -> Search<'a> {
        let utilization = question.set.utilization();
        let least = &utilization * BigUint::from(question.period);
        let least = if question.supply == Supply::Linear { least.ceil() } else { least };
        let last = question.horizon(&least, &utilization, steps);
        let (whole, found) = (below(&least), Budget { budget_ps: least, limit: Limit::Utilization });
        let next = question.set.tasks().iter().map(|task| Demand::first(task).unwrap_or(0)).collect();
        Search { question, demand: Demand::new(question.set), next, due: 0, blocking: 0, found, whole, last }
    }

    /// Goes from deadline to deadline, for at least `windows` windows and until each task has had a deadline; returns
    /// whether that was enough.
    fn walk(&mut self, windows: u64, steps: &mut Steps) -> Result<bool, Unsupported> {
        let tasks = self.question.set.tasks();
        let all = tasks.iter().filter_map(Demand::first).max().unwrap_or(0);
        let mut seen = 0;
        while seen < windows || self.next.iter().any(|&next| next <= all) {
            seen += 1;
            let length = window(self.next.iter().copied().min().expect("a set has a task").into(), TaskIndex(0))?;
            // A horizon that does not fit yet may, once the budget has grown.
            if self.last.as_ref().is_ok_and(|last| length > *last) {
                return Ok(true);
            }
            steps.step()?;
            for (task, next) in tasks.iter().zip(&mut self.next).filter(|(_, next)| **next == length) {
                *next += task.period().0;
                self.due += u128::from(task.wcet().0);
                self.blocking = self.blocking.max(task.blocking().0);
            }
            let work = self.due + u128::from(self.blocking);
            debug_assert_eq!(work, self.demand.work(length), "work due, counted one by one");
            if self.consider(length, work) {
                self.last = self.question.last(&self.found.budget_ps, self.whole, steps);
            }
        }
        Ok(false)
    }

    /// Whether a window needs more than the budget found, which is then raised to that need.
    fn consider(&mut self, length: u64, work: u128) -> bool {
        if self.question.supplies(self.whole, work, length) {
            debug_assert!(
                self.question.needed(work, length) <= self.found.budget_ps,
                "a budget found too small in 64 bits"
            );
            return false;
        }
        let budget_ps = self.question.needed(work, length);
        if budget_ps <= self.found.budget_ps {
            return false;
        }
        let (task, job) = self.demand.ends(length);
        self.whole = below(&budget_ps);
        self.found = Budget { budget_ps, limit: Limit::Window { task, job, window: Picoseconds(length) } };
        true
    }

    /// Tests only windows at which deadlines nearly coincide; returns whether that was enough. For use after a walk.
    ///
    /// A window that needs more than `v P` is one in which a resource of bandwidth `v` falls short. So once all of
    /// those have been tested, and a budget of `v P` or more was found, none needs more than it. Until then `v` is
    /// lowered.
    fn jump(&mut self, steps: &mut Steps) -> Result<bool, Unsupported> {
        let tasks = self.question.set.tasks();
        let Some(mut coincidences) = Coincidences::new(tasks, self.question.period) else { return Ok(false) };
        let from = *self.next.iter().min().expect("a set has a task") - 1;
        let Some(mut excess) = coincidences.excess_of(POINTS) else { return Ok(false) };
        loop {
            excess = excess.max(coincidences.excess_below(&self.found.budget_ps));
            let fits = coincidences.each(excess, from, steps, &mut |length| {
                self.consider(length, self.demand.work(length));
            })?;
            if !fits {
                return Ok(false);
            }
            let all = excess <= coincidences.excess_below(&self.found.budget_ps);
            if all || self.last.as_ref().is_ok_and(|&last| last <= coincidences.longest(excess).unwrap_or(0)) {
                return Ok(true);
            }
            excess /= 4;
        }
    }
}

/// The smallest budget whose exact supply in a window is at least a demand.
fn exact(period: u64, length: u64, demand: u64) -> Ratio<BigUint> {
    let (period, length, demand) = (i128::from(period), i128::from(length), i128::from(demand));
    // With k whole budgets before the last: B >= P - (t - d) / (k + 2) and d / (k + 1) <= B < d / k.
    let rest = |k: i128| period * (k + 2) - (length - demand);
    let possible = |k: i128| k == 0 || k * rest(k) < demand * (k + 2);
    // The more budgets, the smaller they are; beyond t / P there is no time for them.
    let (mut k, mut beyond) = (0, length / period + 1);
    while beyond - k > 1 {
        let middle = k + (beyond - k) / 2;
        if possible(middle) { k = middle } else { beyond = middle }
    }
    let natural = |value: i128| BigUint::from(value.max(0) as u128);
    let by_time = Ratio::new(natural(rest(k)), natural(k + 2));
    by_time.max(Ratio::new(natural(demand), natural(k + 1)))
}

/// The smallest whole budget whose linear supply in a window is at least a demand: `B (t - 2 (P - B)) >= d P`.
fn linear(period: u64, length: u64, demand: u64) -> u64 {
    let enough = |budget: u64| {
        let (budget, period) = (i128::from(budget), i128::from(period));
        budget * (i128::from(length) - 2 * (period - budget)) >= i128::from(demand) * period
    };
    let (mut short, mut reaches) = (0, period);
    while reaches - short > 1 {
        let middle = short + (reaches - short) / 2;
        if enough(middle) { reaches = middle } else { short = middle }
    }
    reaches
}

/// The largest whole budget that is no more than one.
fn below(budget: &Ratio<BigUint>) -> u64 {
    u64::try_from(budget.to_integer()).expect("at most the period")
}

fn whole(value: u64) -> Ratio<BigUint> {
    Ratio::from_integer(value.into())
}

fn signed(ratio: &Ratio<BigUint>) -> Ratio<BigInt> {
    Ratio::new(ratio.numer().clone().into(), ratio.denom().clone().into())
}

fn unsigned(ratio: Ratio<BigInt>) -> Ratio<BigUint> {
    let (numerator, denominator) = ratio.into_raw();
    let natural = |value: BigInt| value.to_biguint().expect("not negative");
    Ratio::new(natural(numerator), natural(denominator))
}
