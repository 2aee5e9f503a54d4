//! The choice of server periods, budgets, refresh phases and of a server for each task that hides most of the refresh.
//!
//! The cost of a choice is the part of all time in which, with servers that always have something to do, the processor
//! idles in a burst while a server of the locked group has budget ([`saturated_hiding`](super::saturated_hiding())); it
//! depends on the servers and phases alone. [`Admission`] defines the admitted choices: those whose supply fits the
//! tasks whatever the phases of refresh, or all that [`judge`](super::judge()) can prove. An optimum is proved for the
//! requested admission, and for no other. [`optimize`] is a branch and bound over the former; for the latter, a second
//! one continues from its result (`proved.rs`). For the former,
//!
//! - the supply of the first server does not depend on the second, whose supply in a window is never more than the
//!   first can leave over: `t` less the most that the first uses (deferrable), or `(1 - e_1 / p_1) t`. A first server
//!   is left out when no assignment of tasks holds with that, whatever the second server;
//! - a second server is left out when, in some window, it cannot complete the work that the first cannot;
//! - the cost of a choice is added up burst by burst, and given up when it cannot be less than the best found;
//! - tasks are assigned one by one, and a partial assignment is given up when a server cannot hold its tasks.
//!
//! The first two rules are about supplies: known times may prove more. The search ends at a cost of 0, or when no
//! choice remains; [`exhaustive`] tries all choices.

use crate::crs::bounds::Inner;
use crate::crs::decide::{fits, server_proofs};
use crate::crs::model::{Core, Kind, Refresh, Server, System, refuse};
use crate::crs::proved::Proving;
use crate::crs::search::CONFIGURATIONS_MAX;
use crate::crs::supply::{Plain, PlainRefresh, ServerSupply, supply_of, used};
use crate::crs::timeline::Saturated;
use crate::error::HidingError;
use memtint_sched::parts::{Demand, Steps};
use memtint_sched::{Effort, Priorities, SchedError, Task, TaskIndex, TaskSet, Unsupported};
use memtint_units::{Picoseconds, spell_picoseconds};
use num_bigint::BigUint;
use num_rational::Ratio;

/// Steps of the longest server period at most.
const STEPS_MAX: u64 = 1000;
/// Windows in which partial assignments are tested.
const WINDOWS: usize = 48;
/// Assignments that are kept for a first server; when there are more, the search is repeated for each second server.
pub(super) const CANDIDATES: usize = 64;

/// The space of choices for two servers on one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    ranks: u32,
    refresh: Refresh,
    phases: Vec<[Picoseconds; 2]>,
    unit: Picoseconds,
    period_max: Picoseconds,
    kind: Kind,
    inner: Inner,
}

impl Space {
    /// Checks a space: server periods and budgets are multiples of `unit`, periods at most `period_max`; refresh phases are one of
    /// the pairs (first group, second group).
    ///
    /// # Errors
    ///
    /// [`HidingError::Server`] when there are not two groups, no phases or some at which locked windows meet, when the retention time
    /// is not a multiple of the unit, or the longest period not 1 to 1000 units.
    pub fn new(
        ranks: u32,
        refresh: Refresh,
        phases: Vec<[Picoseconds; 2]>,
        unit: Picoseconds,
        period_max: Picoseconds,
        kind: Kind,
        inner: Inner,
    ) -> Result<Space, HidingError> {
        let what = || "space of servers".to_owned();
        if refresh.groups.len() != 2 {
            return refuse(what(), "rank groups", refresh.groups.len().to_string(), "2".into());
        }
        if phases.is_empty() {
            return refuse(what(), "pairs of phases", "0".into(), "1 or more".into());
        }
        if unit.0 == 0 || !refresh.retention.0.is_multiple_of(unit.0) {
            let accepted = format!("a divisor of the retention time, {}", refresh.retention);
            return refuse(what(), "unit", unit.to_string(), accepted);
        }
        if !(1..=STEPS_MAX).contains(&(period_max.0 / unit.0)) {
            let accepted =
                format!("{unit} to {}", spell_picoseconds(&(u128::from(unit.0) * u128::from(STEPS_MAX)).to_string()));
            return refuse(what(), "longest period", period_max.to_string(), accepted);
        }
        let space = Space { ranks, refresh, phases, unit, period_max, kind, inner };
        for &pair in &space.phases {
            space.phased(pair).accepted(ranks)?;
        }
        Ok(space)
    }

    /// Gives the refresh, with the phases it was given.
    #[must_use]
    pub fn refresh(&self) -> &Refresh {
        &self.refresh
    }

    /// Gives the unit of periods and budgets.
    #[must_use]
    pub fn unit(&self) -> Picoseconds {
        self.unit
    }

    /// Gives how tasks are scheduled in the servers.
    #[must_use]
    pub fn inner(&self) -> Inner {
        self.inner
    }

    /// Gives the pairs of phases.
    #[must_use]
    pub fn phases(&self) -> &[[Picoseconds; 2]] {
        &self.phases
    }

    /// The same space with one pair of phases.
    pub(super) fn with_phases(&self, phases: [Picoseconds; 2]) -> Space {
        Space { phases: vec![phases], ..self.clone() }
    }

    /// Gives the number of ranks.
    pub(super) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Gives the system of a choice.
    ///
    /// # Errors
    ///
    /// Those of [`System::new`] and [`TaskSet::new`], for a choice that is not one of this space and set.
    pub fn system(&self, set: &TaskSet, choice: &Choice) -> Result<System, HidingError> {
        let mut servers = Vec::new();
        for group in 0..2 {
            let tasks = part(set, &choice.second, group == 1)?;
            let (period, budget) = (choice.periods[group], choice.budgets[group]);
            let policy = self.inner.policy(&tasks);
            servers.push(Server { group, period, budget, kind: self.kind, tasks, policy });
        }
        System::new(self.ranks, self.phased(choice.phases), vec![Core { servers }])
    }

    pub(super) fn phased(&self, phases: [Picoseconds; 2]) -> Refresh {
        let mut refresh = self.refresh.clone();
        for (group, phase) in refresh.groups.iter_mut().zip(phases) {
            group.phase = phase;
        }
        refresh
    }

    pub(super) fn steps(&self) -> u64 {
        self.period_max.0 / self.unit.0
    }

    pub(super) fn plain(&self, group: usize, period: u64, budget: u64) -> Plain {
        Plain { group, period: period * self.unit.0, budget: budget * self.unit.0, kind: self.kind }
    }

    pub(super) fn plain_refresh(&self) -> PlainRefresh {
        PlainRefresh {
            retention: self.refresh.retention.0,
            lock: self.refresh.lock.0,
            unlock: self.refresh.unlock.0,
            bursts: self.refresh.groups.iter().map(|group| group.burst.0).collect(),
        }
    }
}

pub(super) fn part(set: &TaskSet, second: &[bool], wanted: bool) -> Result<TaskSet, SchedError> {
    let own = set.tasks().iter().zip(second).filter(|&(_, &second)| second == wanted);
    TaskSet::new(own.map(|(task, _)| task.spec()))
}

/// When a choice is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// The supply of each server, whatever the phases of refresh ([`supplies`](super::supplies())), holds its tasks.
    Supply,
    /// [`judge`](super::judge()) has a proof, with the same effort and event limit: by that supply, or by the known
    /// times of servers and refreshes. More of either proves no less.
    Proof {
        /// As in [`judge`](super::judge()).
        events_max: u64,
    },
}

/// A point of a [`Space`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Periods of the two servers, the one of higher priority first; it has the first rank group.
    pub periods: [Picoseconds; 2],
    /// Their budgets.
    pub budgets: [Picoseconds; 2],
    /// First refreshes of the two rank groups.
    pub phases: [Picoseconds; 2],
    /// For each task, whether it is in the second server. Neither server is empty.
    pub second: Vec<bool>,
}

/// The best choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// The choice: one of those that cost least.
    pub choice: Choice,
    /// The part of all time that it loses to refresh that is not hidden, exact.
    pub unhidden: Ratio<BigUint>,
    /// Choices of servers whose cost was computed, at least in part.
    pub costed: u64,
}

/// Finds an admitted choice of least cost, or that none is admitted (`None`). With `second`, tasks have their servers already.
///
/// # Errors
///
/// [`Unsupported::Effort`] when assigning tasks takes more steps than allowed, for all choices of servers together, by supply or by proof;
/// [`Unsupported::Precondition`] for a set of fewer than two tasks, for tasks that fixed priorities in servers do not support, and
/// for a server without tasks.
///
/// # Panics
///
/// When `second` is not as long as the set.
pub fn optimize(
    set: &TaskSet,
    second: Option<&[bool]>,
    space: &Space,
    admission: Admission,
    effort: Effort,
) -> Result<Option<Optimum>, Unsupported> {
    let mut search = Search { space, refresh: space.plain_refresh(), best: None, costed: 0 };
    let mut assigner = Assigner::new(set, second, space, effort)?;
    search.by_supply(&mut assigner)?;
    if let Admission::Proof { events_max } = admission {
        Proving::new(set, second, space.inner, effort, events_max).run(&mut search)?;
    }
    Ok(search.finish())
}

/// Finds the same by trying everything: Algorithm 7 with its mistakes corrected, over all assignments of tasks if none is
/// given. Proofs are those of [`server_proofs`](super::server_proofs()).
///
/// # Errors
///
/// [`HidingError::Server`], with the number, when there are more than [`CONFIGURATIONS_MAX`] configurations.
///
/// # Panics
///
/// When `second` is not as long as the set.
pub fn exhaustive(
    set: &TaskSet,
    second: Option<&[bool]>,
    space: &Space,
    admission: Admission,
    effort: Effort,
) -> Result<Option<Optimum>, HidingError> {
    let steps = u128::from(space.steps());
    let pairs = steps * (steps + 1) / 2;
    let bits = set.tasks().len().min(100);
    let assignments = if second.is_some() { 1 } else { 1u128 << bits };
    let count = pairs.saturating_mul(pairs).saturating_mul(assignments).saturating_mul(space.phases.len() as u128);
    if count > CONFIGURATIONS_MAX {
        let accepted = format!("at most {CONFIGURATIONS_MAX}");
        return refuse("algorithm 7".into(), "number of configurations", count.to_string(), accepted);
    }
    let given = second.map(<[bool]>::to_vec);
    let all = (0..assignments).map(|mask| {
        given.clone().unwrap_or_else(|| (0..set.tasks().len()).map(|task| mask >> task & 1 == 1).collect())
    });
    let mut search = Search { space, refresh: space.plain_refresh(), best: None, costed: 0 };
    for second in all {
        assert_eq!(second.len(), set.tasks().len(), "a server for each task");
        let (Ok(one), Ok(two)) = (part(set, &second, false), part(set, &second, true)) else { continue };
        search.everything([&one, &two], &second, admission, effort);
    }
    Ok(search.finish())
}

/// A choice and its cost: `unhidden` of `bursts` retention times.
struct Best {
    periods: [u64; 2],
    budgets: [u64; 2],
    phases: [Picoseconds; 2],
    second: Vec<bool>,
    unhidden: u128,
    bursts: u64,
}

pub(super) struct Search<'a> {
    pub(super) space: &'a Space,
    pub(super) refresh: PlainRefresh,
    best: Option<Best>,
    costed: u64,
}

impl Search<'_> {
    fn by_supply(&mut self, assigner: &mut Assigner) -> Result<(), Unsupported> {
        for p1 in (1..=self.space.steps()).rev() {
            for e1 in 1..=p1 {
                if !assigner.first(self.space.plain(0, p1, e1), &self.refresh)? {
                    continue;
                }
                for p2 in (1..=self.space.steps()).rev() {
                    for e2 in (1..=p2).rev() {
                        self.visit(assigner, [p1, p2], [e1, e2])?;
                        if self.free() {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The best costs nothing.
    pub(super) fn free(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.unhidden == 0)
    }

    /// Takes a choice that costs less than the best.
    pub(super) fn better(
        &mut self,
        periods: [u64; 2],
        budgets: [u64; 2],
        phases: [Picoseconds; 2],
        second: Vec<bool>,
        (unhidden, bursts): (u128, u64),
    ) {
        self.best = Some(Best { periods, budgets, phases, second, unhidden, bursts });
    }

    fn servers(&self, periods: [u64; 2], budgets: [u64; 2]) -> [Plain; 2] {
        [0, 1].map(|server| self.space.plain(server, periods[server], budgets[server]))
    }

    /// The cost of a choice, if it is less than that of the best; to the end if `whole`.
    pub(super) fn cost(&mut self, servers: &[Plain; 2], phases: [Picoseconds; 2], whole: bool) -> Option<(u128, u64)> {
        self.costed += 1;
        let phases = phases.map(|phase| phase.0);
        let saturated =
            Saturated::new(&self.refresh, &phases, servers, u64::MAX).expect("at most 10^6 refreshes, see Space::new");
        let bursts = saturated.bursts;
        let least = self.best.as_ref().map(|best| (best.unhidden, best.bursts));
        let worse =
            |unhidden: u128| least.is_some_and(|(least, of)| unhidden * u128::from(of) >= least * u128::from(bursts));
        let mut unhidden = 0;
        for index in 0..bursts {
            for group in 0..2 {
                unhidden += u128::from(saturated.unhidden(group, index));
            }
            if !whole && worse(unhidden) {
                return None;
            }
        }
        (!worse(unhidden)).then_some((unhidden, bursts))
    }

    /// Returns true if a choice cannot cost less than the best: a second server that is never out of budget is delayed
    /// in each of its bursts while the first cannot run.
    pub(super) fn costly(&self, servers: &[Plain; 2]) -> bool {
        let (one, two, burst) = (&servers[0], &servers[1], self.refresh.bursts[1]);
        let least = u128::from(burst - used(one.period, one.budget, burst));
        let reached = |best: &Best| least * u128::from(best.bursts) >= best.unhidden;
        two.budget == two.period && self.best.as_ref().is_some_and(reached)
    }

    fn visit(&mut self, assigner: &mut Assigner, periods: [u64; 2], budgets: [u64; 2]) -> Result<(), Unsupported> {
        if u128::from(budgets[1]) << 64 < u128::from(periods[1]) * assigner.least {
            return Ok(());
        }
        let servers = self.servers(periods, budgets);
        if assigner.hopeless(&servers) || self.costly(&servers) {
            return Ok(());
        }
        let supply = supply_of(&servers, &self.refresh, 1);
        if !assigner.possible(&supply) {
            return Ok(());
        }
        let mut assignment = None;
        for &phases in &self.space.phases {
            // Without a best there is nothing to give up for, and most choices are not admitted.
            if self.best.is_none() && assignment.is_none() {
                assignment = assigner.assign(&supply)?;
                if assignment.is_none() {
                    return Ok(());
                }
            }
            let Some(cost) = self.cost(&servers, phases, false) else { continue };
            if assignment.is_none() {
                assignment = assigner.assign(&supply)?;
            }
            let Some(second) = assignment.clone() else { return Ok(()) };
            self.better(periods, budgets, phases, second, cost);
        }
        Ok(())
    }

    /// Lines 2 to 33 of Algorithm 7, corrected.
    fn everything(&mut self, sets: [&TaskSet; 2], second: &[bool], admission: Admission, effort: Effort) {
        let (steps, inner) = (self.space.steps(), self.space.inner);
        let policies = sets.map(|set| inner.policy(set));
        let enough = |set: &TaskSet, period: u64| {
            let least = (set.utilization() * BigUint::from(period)).ceil().to_integer();
            u64::try_from(least).unwrap_or(u64::MAX)
        };
        for p1 in 1..=steps {
            for p2 in 1..=steps {
                for e1 in enough(sets[0], p1)..=p1 {
                    for e2 in enough(sets[1], p2)..=p2 {
                        let (periods, budgets) = ([p1, p2], [e1, e2]);
                        let servers = self.servers(periods, budgets);
                        let held = |server: usize| {
                            let supply = supply_of(&servers, &self.refresh, server);
                            fits(sets[server], &policies[server], &supply, effort).is_ok()
                        };
                        if admission == Admission::Supply && !(held(0) && held(1)) {
                            continue;
                        }
                        for &phases in &self.space.phases {
                            let proved = match admission {
                                Admission::Supply => true,
                                Admission::Proof { events_max } => {
                                    self.proved(sets, &servers, phases, effort, events_max)
                                }
                            };
                            if proved && let Some(cost) = self.cost(&servers, phases, true) {
                                self.better(periods, budgets, phases, second.to_vec(), cost);
                            }
                        }
                    }
                }
            }
        }
    }

    fn proved(
        &self,
        sets: [&TaskSet; 2],
        servers: &[Plain; 2],
        phases: [Picoseconds; 2],
        effort: Effort,
        events_max: u64,
    ) -> bool {
        let inner = self.space.inner;
        let server = |(own, set): (&Plain, &TaskSet)| Server {
            group: own.group,
            period: Picoseconds(own.period),
            budget: Picoseconds(own.budget),
            kind: own.kind,
            tasks: set.clone(),
            policy: inner.policy(set),
        };
        let servers = servers.iter().zip(sets).map(server).collect();
        let system = System::new(self.space.ranks, self.space.phased(phases), vec![Core { servers }]);
        let system = system.expect("a choice of the space");
        server_proofs(&system, effort, events_max).iter().flatten().all(Result::is_ok)
    }

    fn finish(self) -> Option<Optimum> {
        let best = self.best?;
        let time = |steps: u64| Picoseconds(steps * self.space.unit.0);
        let choice = Choice {
            periods: best.periods.map(time),
            budgets: best.budgets.map(time),
            phases: best.phases,
            second: best.second,
        };
        for (budget, period) in choice.budgets.iter().zip(&choice.periods) {
            assert!(budget <= period, "a budget of {budget} in a period of {period}");
        }
        let span = BigUint::from(best.bursts) * self.refresh.retention;
        Some(Optimum { choice, unhidden: Ratio::new(best.unhidden.into(), span), costed: self.costed })
    }
}

/// Finds servers for tasks.
struct Assigner<'a> {
    set: &'a TaskSet,
    inner: Inner,
    kind: Kind,
    effort: Effort,
    /// Steps of all searches for an assignment.
    steps: Steps,
    /// The assignment asked for.
    given: Option<Candidate>,
    /// All assignments that fit the first server and the time it leaves over; `None` when there are too many.
    candidates: Option<Vec<Candidate>>,
    /// Order of assignment: by load, largest first (EDF), or by priority.
    order: Vec<usize>,
    /// Windows that end at deadlines, with the work of each task due in them (EDF; none for fixed priorities).
    windows: Vec<u64>,
    due: Vec<Vec<u128>>,
    /// The first server under consideration: its supply, and the most that it completes in each window.
    supply: Option<ServerSupply>,
    capacity: Vec<u128>,
    /// The work that the second must complete in each window, and the least rate that it needs, in parts of 2^64.
    needed: Vec<u128>,
    least: u128,
    /// The window that showed last that a second server is not enough.
    critical: usize,
    /// The assignment found last.
    last: Option<Vec<bool>>,
}

/// An assignment, and the requirements on its second server.
struct Candidate {
    second: Vec<bool>,
    parts: [TaskSet; 2],
    /// Work due in each window.
    needed: Vec<u128>,
    /// The window that showed last that a second server is not enough.
    critical: usize,
}

impl Candidate {
    /// Returns whether a second server may be enough for it.
    fn possible(&mut self, windows: &[u64], supply: &ServerSupply) -> bool {
        enough(&self.needed, windows, supply, &mut self.critical)
    }

    /// Returns true if a second server is not enough, with less arithmetic: below a server with this budget it waits
    /// for at least `p - e` and that budget, before its own comes in each period.
    fn hopeless(&self, windows: &[u64], above: u64, own: &Plain) -> bool {
        let Some(&length) = windows.get(self.critical) else { return false };
        let after = length.saturating_sub(own.period - own.budget + above);
        let most =
            u128::from(after / own.period) * u128::from(own.budget) + u128::from(own.budget.min(after % own.period));
        own.budget < own.period && most < self.needed[self.critical]
    }
}

/// Returns whether a supply completes the needed work in each window, and stores the index of a window in which it does
/// not.
fn enough(needed: &[u128], windows: &[u64], supply: &ServerSupply, critical: &mut usize) -> bool {
    let count = windows.len();
    let order = (0..count).map(|index| (index + *critical) % count);
    let mut open = order.filter(|&index| needed[index] > 0);
    match open.find(|&index| supply.completion_of(needed[index], windows[index]).is_none()) {
        Some(short) => {
            *critical = short;
            false
        }
        None => true,
    }
}

impl<'a> Assigner<'a> {
    fn new(
        set: &'a TaskSet,
        second: Option<&[bool]>,
        space: &Space,
        effort: Effort,
    ) -> Result<Assigner<'a>, Unsupported> {
        let inner = space.inner;
        let precondition = |task, needs| Err(Unsupported::Precondition { task, needs });
        if set.tasks().len() < 2 {
            return precondition(TaskIndex(0), "a task for each of two servers");
        }
        if inner == Inner::RateMonotonic
            && let Some(task) = set.tasks().iter().position(|task| task.deadline() > task.period())
        {
            return precondition(TaskIndex(task), "a deadline not beyond the period, for fixed priorities in a server");
        }
        let windows = if inner == Inner::Edf { windows(set) } else { Vec::new() };
        let work = |task: &Task| {
            let one = |&end: &u64| u128::from(Demand::due(task, end as i64)) * u128::from(task.wcet().0);
            windows.iter().map(one).collect()
        };
        let due = set.tasks().iter().map(work).collect();
        let mut order: Vec<usize> = (0..set.tasks().len()).collect();
        match inner {
            Inner::Edf => order.sort_by_key(|&task| std::cmp::Reverse(set.tasks()[task].utilization())),
            Inner::RateMonotonic => {
                order = Priorities::rate_monotonic(set).order().iter().map(|task| task.index()).collect();
            }
        }
        let steps = Steps::new(TaskIndex(0), effort);
        let (needed, capacity, kind) = (Vec::new(), Vec::new(), space.kind);
        let mut assigner = Assigner {
            set,
            inner,
            kind,
            effort,
            steps,
            given: None,
            candidates: None,
            order,
            windows,
            due,
            supply: None,
            capacity,
            needed,
            least: 0,
            critical: 0,
            last: None,
        };
        if let Some(second) = second {
            assert_eq!(second.len(), set.tasks().len(), "a server for each task");
            assigner.given = assigner.candidate(second);
            if assigner.given.is_none() {
                return precondition(TaskIndex(0), "a task for each of two servers");
            }
        }
        Ok(assigner)
    }

    fn candidate(&self, second: &[bool]) -> Option<Candidate> {
        let parts = [part(self.set, second, false).ok()?, part(self.set, second, true).ok()?];
        let work = |index: usize| {
            let own = self.due.iter().zip(second).filter(|&(_, &second)| second);
            own.map(|(due, _)| due[index]).sum::<u128>()
        };
        let needed = (0..self.windows.len()).map(work).collect();
        Some(Candidate { second: second.to_vec(), parts, needed, critical: 0 })
    }

    /// Sets the first server; returns whether it may be part of an admitted choice, whatever the second.
    fn first(&mut self, first: Plain, refresh: &PlainRefresh) -> Result<bool, Unsupported> {
        let supply = supply_of(&[first], refresh, 0);
        let rate = |set: &TaskSet| {
            let parts = |task: &Task| (u128::from(task.wcet().0) << 64) / u128::from(task.period().0);
            set.tasks().iter().map(parts).fold(0, u128::saturating_add)
        };
        // Utilization of a budget, rounded up.
        let of = |budget: u64| (u128::from(budget) << 64) / u128::from(first.period) + 1;
        self.least = match &self.given {
            Some(given) => rate(&given.parts[1]),
            None => rate(self.set).saturating_sub(of(first.budget)),
        };
        if self.least > of(first.period - first.budget) {
            return Ok(false);
        }
        let left = |&length: &u64| match self.kind {
            Kind::Deferrable => u128::from(length - used(first.period, first.budget, length)),
            Kind::IdleConsuming => {
                u128::from(length) * u128::from(first.period - first.budget) / u128::from(first.period)
            }
        };
        let relaxed: Vec<u128> = self.windows.iter().map(left).collect();
        if let Some(given) = &self.given {
            let fits_left = given.needed.iter().zip(&relaxed).all(|(needed, left)| needed <= left);
            let holds = fits_left && self.fits(&given.parts[0], &supply);
            self.supply = Some(supply);
            return Ok(holds);
        }
        self.capacity = capacities(&supply, &self.windows);
        let total = |index: usize| self.due.iter().map(|due| due[index]).sum::<u128>();
        let rest = |(index, capacity): (usize, &u128)| total(index).saturating_sub(*capacity);
        self.needed = self.capacity.iter().enumerate().map(rest).collect();
        if self.inner == Inner::RateMonotonic {
            self.supply = Some(supply);
            return Ok(true);
        }
        let mut found = Vec::new();
        self.branch(relaxed, &mut |_, second| {
            found.push(second.to_vec());
            found.len() > CANDIDATES
        })?;
        self.candidates = (found.len() <= CANDIDATES).then(|| {
            let candidates = found.iter().filter_map(|second| self.candidate(second));
            candidates.filter(|candidate| self.fits(&candidate.parts[0], &supply)).collect()
        });
        self.supply = Some(supply);
        Ok(self.candidates.as_ref().is_none_or(|candidates| !candidates.is_empty()))
    }

    /// Returns whether a second server may be enough.
    fn possible(&mut self, supply: &ServerSupply) -> bool {
        let windows = &self.windows;
        match (&mut self.given, &mut self.candidates) {
            (Some(given), _) => given.possible(windows, supply),
            (None, Some(candidates)) => candidates.iter_mut().any(|candidate| candidate.possible(windows, supply)),
            (None, None) => enough(&self.needed, windows, supply, &mut self.critical),
        }
    }

    /// Returns true if a second server is not enough, without computing its supply.
    fn hopeless(&self, servers: &[Plain; 2]) -> bool {
        let one = |candidate: &Candidate| candidate.hopeless(&self.windows, servers[0].budget, &servers[1]);
        match (&self.given, &self.candidates) {
            (Some(given), _) => one(given),
            (None, Some(candidates)) => candidates.iter().all(one),
            (None, None) => false,
        }
    }

    /// An assignment that the first server and this second one admit.
    fn assign(&mut self, second: &ServerSupply) -> Result<Option<Vec<bool>>, Unsupported> {
        if let Some(given) = &self.given {
            return Ok(self.fits(&given.parts[1], second).then(|| given.second.clone()));
        }
        if let Some(candidates) = &self.candidates {
            let found = candidates.iter().find(|candidate| self.fits(&candidate.parts[1], second));
            return Ok(found.map(|candidate| candidate.second.clone()));
        }
        let supplies = [self.supply.clone().expect("a first server was taken"), second.clone()];
        if let Some(last) = &self.last
            && self.holds(last, &supplies)
        {
            return Ok(Some(last.clone()));
        }
        let found = match self.inner {
            Inner::RateMonotonic => self.by_priority(&supplies, &mut Vec::new())?,
            Inner::Edf => {
                let capacity = capacities(second, &self.windows);
                self.branch(capacity, &mut |own, second| own.holds(second, &supplies))?
            }
        };
        if found.is_some() {
            self.last.clone_from(&found);
        }
        Ok(found)
    }

    fn fits(&self, part: &TaskSet, supply: &ServerSupply) -> bool {
        fits(part, &self.inner.policy(part), supply, self.effort).is_ok()
    }

    fn holds(&self, second: &[bool], supplies: &[ServerSupply; 2]) -> bool {
        match (part(self.set, second, false), part(self.set, second, true)) {
            (Ok(one), Ok(two)) => self.fits(&one, &supplies[0]) && self.fits(&two, &supplies[1]),
            _ => false,
        }
    }

    /// Assigns tasks so that the work due in each window is at most the capacity of the first server plus this capacity
    /// of the second, and `accept` returns true.
    fn branch(&mut self, second: Vec<u128>, accept: &mut Accept<'_, 'a>) -> Result<Option<Vec<bool>>, Unsupported> {
        let enough = self.needed.iter().zip(&second).all(|(needed, capacity)| needed <= capacity);
        if !enough {
            return Ok(None);
        }
        let mut left = [self.capacity.clone(), second];
        let mut assigned = vec![false; self.order.len()];
        let found = self.descend(0, &mut left, &mut assigned, accept)?;
        Ok(found.then_some(assigned))
    }

    fn descend(
        &mut self,
        depth: usize,
        left: &mut [Vec<u128>; 2],
        second: &mut Vec<bool>,
        accept: &mut Accept<'_, 'a>,
    ) -> Result<bool, Unsupported> {
        self.steps.step()?;
        let Some(&task) = self.order.get(depth) else { return Ok(accept(self, second)) };
        // First where more is left in the longest window: both servers stay as free as they can.
        let roomier = usize::from(left[1].last() > left[0].last());
        for server in [roomier, 1 - roomier] {
            let due = &self.due[task];
            if !due.iter().zip(&left[server]).all(|(due, left)| due <= left) {
                continue;
            }
            left[server].iter_mut().zip(due).for_each(|(left, due)| *left -= due);
            second[task] = server == 1;
            let found = self.descend(depth + 1, left, second, accept)?;
            left[server].iter_mut().zip(&self.due[task]).for_each(|(left, due)| *left += due);
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Assigns tasks in the order of their priorities: a task's response depends on those before it only.
    fn by_priority(
        &mut self,
        supplies: &[ServerSupply; 2],
        taken: &mut Vec<bool>,
    ) -> Result<Option<Vec<bool>>, Unsupported> {
        let depth = taken.len();
        let Some(&task) = self.order.get(depth) else {
            let mut second = vec![false; depth];
            for (&task, &server) in self.order.iter().zip(taken.iter()) {
                second[task] = server;
            }
            let used = |wanted: bool| second.contains(&wanted);
            return Ok((used(false) && used(true)).then_some(second));
        };
        for server in [false, true] {
            self.steps.step()?;
            let own = &self.set.tasks()[task];
            let work = |length: u64| {
                let higher = self.order[..depth].iter().zip(taken.iter()).filter(|&(_, &other)| other == server);
                let jobs = |(&other, _): (&usize, &bool)| {
                    let other = &self.set.tasks()[other];
                    u128::from((length + other.jitter().0).div_ceil(other.period().0)) * u128::from(other.wcet().0)
                };
                higher.map(jobs).fold(u128::from(own.wcet().0) + u128::from(own.blocking().0), u128::saturating_add)
            };
            let limit = Demand::first(own).unwrap_or(0);
            if supplies[usize::from(server)].completion_from(work, 0, limit).is_none() {
                continue;
            }
            taken.push(server);
            let found = self.by_priority(supplies, taken)?;
            taken.pop();
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Returns whether an assignment is acceptable.
type Accept<'f, 'a> = dyn FnMut(&Assigner<'a>, &[bool]) -> bool + 'f;

/// The shortest windows that end at a deadline.
pub(super) fn windows(set: &TaskSet) -> Vec<u64> {
    let demand = Demand::new(set);
    let mut windows = Vec::new();
    let mut length = demand.last_deadline(0).unwrap_or_else(|| demand.next_deadline(0));
    while windows.len() < WINDOWS {
        windows.push(length);
        length = demand.next_deadline(length);
    }
    windows
}

/// The most work that a supply completes in each window.
pub(super) fn capacities(supply: &ServerSupply, windows: &[u64]) -> Vec<u128> {
    let most = |&length: &u64| {
        let (mut fits, mut exceeds) = (0u128, u128::from(length) + 1);
        while exceeds - fits > 1 {
            let middle = fits + (exceeds - fits) / 2;
            if supply.completion_of(middle, length).is_some() { fits = middle } else { exceeds = middle }
        }
        fits
    };
    windows.iter().map(most).collect()
}
