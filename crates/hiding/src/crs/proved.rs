//! Choices that [`judge`](super::judge()) proves by known times, and that cost less than the best choice admitted by
//! supplies.
//!
//! Refresh phases matter here, and the first server may leave more to the second than in the worst case. A proof by a
//! pattern (`pattern.rs`) compares demands with the least supply from any time `x` on; each single `x` bounds that
//! supply from above, and pruning uses such bounds. The supply of [`ServerSupply`] also bounds the supply from `x` on
//! from below, so a choice that it admits is not pruned either. Demands omit blocking. Below, `p` and `e` are period
//! and budget of the server in question.
//!
//! *Demands.* EDF: the work due in each of the shortest windows that end at deadlines. Fixed priorities: the completion of a task is
//! not before one job of it and of each task before it in its server, and so is the supply until its deadline.
//!
//! *First server.* No server is above it, so its pattern is known; in a period without locks it uses its budget at
//! once, and gets nothing for the following `p - e`.
//!
//! *Second server, whatever its period and budget*: the time in which it is not locked and the first does not run.
//!
//! - Idle-consuming: from the beginning of a period on, the first takes `floor(t / p) e + min(e, t mod p)` of a window
//!   `t` in which its group is not locked; there is one when its locks are `t + p` apart. From the lock of the second
//!   on, it takes from the time between that lock and its own next lock at least as much as from a window that begins
//!   with a gap of `p - e`.
//! - Deferrable: it may have its whole budget at any `x`, and take all it can from then on. A pattern,
//!   `late(x + t) - early(x)`, leaves no more than that to the second: in each period of the second, from its beginning
//!   `s` on, the first has a whole budget too; from `s` to `x` it takes at least as much as it then lacks at `x`; and
//!   if the second has been supplied its total before `x`, nothing more comes until its next period. `x = k p - e`
//!   gives [`used`]; `x` at the lock of the second gives `e` at its end and `e` in each period after that.
//!
//! Lock and unlock tasks take from the time of both, which does not increase the time left over.
//!
//! *Rates.* No supply has more than `e / p`, and the first loses no more than the time in which it cannot run.
//!
//! *Second server, by period and budget*: at most `e` in each period, so that from the beginning of one it is
//! `floor(t / p) e + min(e, t mod p)`. When deferrable, `early` is a whole budget at once in a period without locks,
//! and nothing comes for `p - e` after that. Then the pattern itself is computed around a few locks of its group.
//!
//! *A larger budget supplies no less* from any `x` on, so that if a pattern is short, those of smaller budgets are too.
//! Known times only gain by it. For a deferrable server, per period, a pattern is the beginning of the time left over,
//! up to the budget, less the beginning of the open time, up to the same total. A unit more before `x` is a unit more
//! of the total, which comes late by the end of the period; a window that ends in that period has nothing then, with
//! either budget. Supplies are checked separately.
//!
//! *Order.* Tests that a choice is not provable are cheapest, then its cost, then the whole pattern, which is followed
//! as in [`judge`](super::judge()): a choice admitted here has its proof there.

use crate::crs::bounds::Inner;
use crate::crs::decide::proved;
use crate::crs::model::{Kind, Refresh};
use crate::crs::optimum::{CANDIDATES, Search, capacities, part, windows};
use crate::crs::pattern::{Exact, Pattern};
use crate::crs::supply::{Plain, ServerSupply, supply_of, used};
use memtint_sched::parts::{Demand, Steps};
use memtint_sched::{Effort, Policy, Priorities, Task, TaskIndex, TaskSet, Unsupported};

/// Locks around which the pattern of a second server is checked, before the whole pattern is.
const PROBES: u64 = 8;
/// Windows that are checked there.
const SHORTEST: usize = 8;

/// A window, by its index, and the demand that must be supplied in it.
type Need = (usize, u128);

/// Demand of tasks, by window.
struct Needs<'a> {
    set: &'a TaskSet,
    inner: Inner,
    /// Order of assignment: by load, largest first (EDF), or by priority.
    order: Vec<usize>,
    /// Lengths: ending at deadlines (EDF), or the deadlines of the tasks in the order.
    windows: Vec<u64>,
    /// For each task, its work due in each window.
    due: Vec<Vec<u128>>,
}

impl<'a> Needs<'a> {
    fn new(set: &'a TaskSet, inner: Inner) -> Needs<'a> {
        let tasks = set.tasks();
        let wcet = |task: usize| u128::from(tasks[task].wcet().0);
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        let (windows, due) = match inner {
            Inner::Edf => {
                order.sort_by_key(|&task| std::cmp::Reverse(tasks[task].utilization()));
                let windows = windows(set);
                let one = |task, end: u64| u128::from(Demand::due(&tasks[task], end as i64)) * wcet(task);
                let due = |task| windows.iter().map(|&end| one(task, end)).collect();
                let due = (0..tasks.len()).map(due).collect();
                (windows, due)
            }
            Inner::RateMonotonic => {
                order = Priorities::rate_monotonic(set).order().iter().map(|task| task.index()).collect();
                let windows = order.iter().map(|&task| Demand::first(&tasks[task]).unwrap_or(0)).collect();
                let mut due = vec![vec![0; order.len()]; order.len()];
                for (place, &task) in order.iter().enumerate() {
                    due[task][place..].fill(wcet(task));
                }
                (windows, due)
            }
        };
        Needs { set, inner, order, windows, due }
    }

    /// Windows that bind a server when it gets the task of a place of the order.
    fn bound_by(&self, place: usize) -> std::ops::Range<usize> {
        match self.inner {
            Inner::Edf => 0..self.windows.len(),
            Inner::RateMonotonic => place..place + 1,
        }
    }

    /// The demand of a server's tasks.
    fn of(&self, second: &[bool], wanted: bool) -> Vec<Need> {
        let own = |&task: &usize| second[task] == wanted;
        let sum = |index: usize| (0..second.len()).filter(own).map(|task| self.due[task][index]).sum();
        let binding = |&index: &usize| self.inner == Inner::Edf || own(&self.order[index]);
        let needs = (0..self.windows.len()).filter(binding).map(|index| (index, sum(index)));
        needs.filter(|need| need.1 > 0).collect()
    }

    fn lengths(&self, most: impl Fn(u64) -> u64) -> Vec<u64> {
        self.windows.iter().map(|&length| most(length)).collect()
    }
}

fn met(needs: &[Need], most: &[u64]) -> bool {
    needs.iter().all(|&(index, due)| due <= u128::from(most[index]))
}

/// The tasks of both servers.
#[derive(Clone)]
struct Assigned {
    second: Vec<bool>,
    parts: [TaskSet; 2],
    policies: [Policy; 2],
    needs: [Vec<Need>; 2],
    loads: [u128; 2],
}

impl Assigned {
    /// `None` when a server has no tasks.
    fn new(needs: &Needs<'_>, second: &[bool]) -> Option<Assigned> {
        let parts = [part(needs.set, second, false).ok()?, part(needs.set, second, true).ok()?];
        let policies = [needs.inner.policy(&parts[0]), needs.inner.policy(&parts[1])];
        let loads = [load(&parts[0]), load(&parts[1])];
        let own = [needs.of(second, false), needs.of(second, true)];
        Some(Assigned { second: second.to_vec(), parts, policies, needs: own, loads })
    }

    fn proved(&self, server: usize, supply: &ServerSupply, patterns: &[Pattern], effort: Effort) -> bool {
        proved(&self.parts[server], &self.policies[server], supply, patterns, effort)
    }
}

/// The requirements on a second server.
struct Wanted {
    /// `None`: there are too many to keep, and `needs` has the least needs of all.
    tasks: Option<Assigned>,
    needs: Vec<Need>,
    /// The supply of the first server holds its tasks.
    by_supply: bool,
    /// The patterns of second servers of the period, with this budget or less, supply too little.
    short: bool,
}

/// Utilization in parts of 2^64, rounded down.
fn load_of(task: &Task) -> u128 {
    (u128::from(task.wcet().0) << 64) / u128::from(task.period().0)
}

fn load(set: &TaskSet) -> u128 {
    set.tasks().iter().map(load_of).fold(0, u128::saturating_add)
}

/// A part of time in parts of 2^64, rounded up.
fn share(time: u64, of: u64) -> u128 {
    (u128::from(time) << 64).div_ceil(u128::from(of))
}

/// A budget in each period, at its beginning.
fn regular(period: u64, budget: u64, length: u64) -> u64 {
    length / period * budget + budget.min(length % period)
}

/// Upper bound of a server's supply from some time on, by its own budget.
fn supplied(server: &Plain, at_once: bool, refresh: &Refresh, length: u64) -> u64 {
    // Between two locks lies a whole period, in which the budget is used at once.
    let free = (refresh.retention.0 - refresh.locked(0).0 - refresh.locked(1).0) / 2;
    let gap = if at_once && free >= 2 * server.period { server.period - server.budget } else { 0 };
    regular(server.period, server.budget, length.saturating_sub(gap))
}

/// The most time that a first server leaves over from some time on.
fn left_over(first: &Plain, refresh: &Refresh, length: u64) -> u64 {
    let (retention, locked) = (refresh.retention.0, [refresh.locked(0).0, refresh.locked(1).0]);
    let [one, two] = [0, 1].map(|group| refresh.groups[group].phase.0);
    let (period, budget) = (first.period, first.budget);
    let mut least = length;
    if length + period <= retention - locked[0] {
        least -= match first.kind {
            Kind::Deferrable => used(period, budget, length),
            Kind::IdleConsuming => regular(period, budget, length),
        };
    }
    if length <= (one + retention - two) % retention {
        let after = length.saturating_sub(locked[1]);
        let gap = match first.kind {
            Kind::Deferrable => 0,
            Kind::IdleConsuming => period - budget,
        };
        least = least.min(after - regular(period, budget, after.saturating_sub(gap)));
    }
    least
}

/// A first server with phases, and its known properties.
struct First<'a> {
    steps: [u64; 2],
    server: Plain,
    phases: usize,
    refresh: &'a Refresh,
    supply: &'a ServerSupply,
    patterns: Vec<Pattern>,
    /// Upper bounds of its supply and of the time it leaves over, in each window.
    most: [Vec<u64>; 2],
}

/// Looks for choices that cost less than the best found.
pub(super) struct Proving<'a> {
    needs: Needs<'a>,
    given: Option<Assigned>,
    effort: Effort,
    events_max: u64,
    steps: Steps,
    /// The lock around which a pattern was short last.
    critical: u64,
}

impl<'a> Proving<'a> {
    pub(super) fn new(
        set: &'a TaskSet,
        second: Option<&[bool]>,
        inner: Inner,
        effort: Effort,
        events_max: u64,
    ) -> Proving<'a> {
        let needs = Needs::new(set, inner);
        let given = second.and_then(|second| Assigned::new(&needs, second));
        Proving { needs, given, effort, events_max, steps: Steps::new(TaskIndex(0), effort), critical: 1 }
    }

    /// Looks at second servers of the longest period that are never out of budget, which often are the best, and then at all.
    pub(super) fn run(&mut self, search: &mut Search<'_>) -> Result<(), Unsupported> {
        let steps = search.space.steps();
        self.over(search, steps)?;
        self.over(search, 1)
    }

    /// Looks at second servers with at least such a period and budget.
    fn over(&mut self, search: &mut Search<'_>, least: u64) -> Result<(), Unsupported> {
        let space = search.space;
        let phased: Vec<Refresh> = space.phases().iter().map(|&phases| space.phased(phases)).collect();
        for p1 in (1..=space.steps()).rev() {
            for e1 in 1..=p1 {
                let server = space.plain(0, p1, e1);
                let supply = supply_of(&[server], &search.refresh, 0);
                for (phases, refresh) in phased.iter().enumerate() {
                    if search.free() {
                        return Ok(());
                    }
                    let own = self.needs.lengths(|length| supplied(&server, true, refresh, length));
                    let left = self.needs.lengths(|length| left_over(&server, refresh, length));
                    let (most, patterns) = ([own, left], Vec::new());
                    let mut first = First { steps: [p1, e1], server, phases, refresh, supply: &supply, patterns, most };
                    if !self.possible(&first) {
                        continue;
                    }
                    first.patterns = Pattern::of(&[server], refresh, 0, self.events_max);
                    if let [pattern] = &first.patterns[..] {
                        first.most[0] = self.needs.lengths(|length| pattern.least(length));
                    }
                    if self.possible(&first) {
                        self.seconds(search, &first, least)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether a first server can be part of an admitted choice.
    fn possible(&self, first: &First<'_>) -> bool {
        let Plain { period, budget, .. } = first.server;
        // It loses no more than the time in which it cannot run.
        let dark = first.refresh.locked(0) + first.refresh.lock + first.refresh.unlock;
        let left = share(period - budget, period) + share(dark.0, first.refresh.retention.0);
        match &self.given {
            Some(given) => {
                let loads = given.loads[0] <= share(budget, period) && given.loads[1] <= left;
                loads && (0..2).all(|server| met(&given.needs[server], &first.most[server]))
            }
            None if self.needs.inner == Inner::Edf => {
                self.rest(first).all(|(index, rest)| rest <= u128::from(first.most[1][index]))
            }
            None => true,
        }
    }

    /// The work that the second server must do in each window, because the first cannot.
    fn rest(&self, first: &First<'_>) -> impl Iterator<Item = Need> {
        let total = |index: usize| self.needs.due.iter().map(|due| due[index]).sum::<u128>();
        let rest = move |index: usize| (index, total(index).saturating_sub(first.most[0][index].into()));
        (0..self.needs.windows.len()).map(rest)
    }

    /// Goes through the second servers for a first.
    fn seconds(&mut self, search: &mut Search<'_>, first: &First<'_>, from: u64) -> Result<(), Unsupported> {
        let mut wanted = self.wanted(first)?;
        let least = |wanted: &Wanted| match &wanted.tasks {
            Some(tasks) => tasks.loads[1],
            None => load(self.needs.set).saturating_sub(share(first.server.budget, first.server.period)),
        };
        let Some(least) = wanted.iter().map(least).min() else { return Ok(()) };
        for p2 in (from..=search.space.steps()).rev() {
            wanted.iter_mut().for_each(|wanted| wanted.short = false);
            for e2 in (from..=p2).rev() {
                let second = search.space.plain(1, p2, e2);
                // Whatever is too little budget here, less of it is too.
                if share(e2, p2) < least
                    || !wanted.iter().any(|wanted| self.enough(&wanted.needs, &second, first.refresh))
                {
                    break;
                }
                self.visit(search, first, [p2, e2], &mut wanted)?;
                if search.free() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn enough(&self, needs: &[Need], second: &Plain, refresh: &Refresh) -> bool {
        let most = |index: usize| supplied(second, second.kind == Kind::Deferrable, refresh, self.needs.windows[index]);
        needs.iter().all(|&(index, due)| due <= u128::from(most(index)))
    }

    fn visit(
        &mut self,
        search: &mut Search<'_>,
        first: &First<'_>,
        [p2, e2]: [u64; 2],
        wanted: &mut [Wanted],
    ) -> Result<(), Unsupported> {
        let servers = [first.server, search.space.plain(1, p2, e2)];
        if search.costly(&servers) {
            return Ok(());
        }
        let critical = self.critical;
        for lock in std::iter::once(critical).chain((1..=PROBES).filter(|&lock| lock != critical)) {
            self.probe(&servers, first.refresh, lock, wanted);
        }
        let supply = supply_of(&servers, &search.refresh, 1);
        // Choices admitted by supplies have been considered, and the cost takes longest to compute.
        if wanted.iter().all(|wanted| wanted.short && !self.by_supply(wanted, &supply)) {
            return Ok(());
        }
        let phases = search.space.phases()[first.phases];
        let Some(cost) = search.cost(&servers, phases, false) else { return Ok(()) };
        let short = wanted.iter().all(|wanted| wanted.short);
        let patterns = if short { Vec::new() } else { Pattern::of(&servers, first.refresh, 1, self.events_max) };
        let mut found = None;
        for wanted in wanted.iter_mut() {
            found = match &wanted.tasks {
                Some(tasks) if self.by_supply(wanted, &supply) => Some(tasks.second.clone()),
                Some(tasks) => {
                    let found = self.compare(tasks, &patterns);
                    wanted.short |= found == Some(false);
                    (found == Some(true)).then(|| tasks.second.clone())
                }
                None => self.assign(first, &supply, &patterns)?,
            };
            if found.is_some() {
                break;
            }
        }
        if let Some(second) = found {
            search.better([first.steps[0], p2], [first.steps[1], e2], phases, second, cost);
        }
        Ok(())
    }

    /// Returns whether one of the patterns of a second server is enough, or that all are short.
    fn compare(&self, tasks: &Assigned, patterns: &[Pattern]) -> Option<bool> {
        let (set, policy) = (&tasks.parts[1], &tasks.policies[1]);
        let mut short = true;
        for pattern in patterns {
            match pattern.compare(set, policy, &mut Steps::new(TaskIndex(0), self.effort)) {
                Some(Exact::Fits(_)) => return Some(true),
                found => short &= found.is_some(),
            }
        }
        short.then_some(false)
    }

    /// Returns whether the supply of a second server may be enough below a first one that needs its pattern: the others
    /// have been considered.
    fn by_supply(&self, wanted: &Wanted, supply: &ServerSupply) -> bool {
        match &wanted.tasks {
            _ if wanted.by_supply => false,
            Some(tasks) => tasks.proved(1, supply, &[], self.effort),
            None => true,
        }
    }

    /// Checks the supply of second servers around a lock of their group.
    fn probe(&mut self, servers: &[Plain; 2], refresh: &Refresh, lock: u64, wanted: &mut [Wanted]) {
        if wanted.iter().all(|wanted| wanted.short) {
            return;
        }
        let from = refresh.groups[1].phase.0 + lock * refresh.retention.0;
        let longest = self.needs.windows.iter().take(SHORTEST).max().copied().unwrap_or(0);
        let until = from + refresh.locked(1).0 + longest;
        let patterns = Pattern::around(servers, refresh, from, until);
        for wanted in wanted.iter_mut().filter(|wanted| !wanted.short) {
            let needs = || wanted.needs.iter().map(|&(index, due)| (self.needs.windows[index], due));
            wanted.short = patterns.iter().all(|pattern| pattern.short(needs(), until));
            if wanted.short {
                self.critical = lock;
            }
        }
    }

    /// Finds the assignments that the first server holds, and that leave the second no more than there may be.
    fn wanted(&mut self, first: &First<'_>) -> Result<Vec<Wanted>, Unsupported> {
        let effort = self.effort;
        let one = |tasks: Assigned| {
            let by_supply = tasks.proved(0, first.supply, &[], effort);
            Wanted { needs: tasks.needs[1].clone(), tasks: Some(tasks), by_supply, short: false }
        };
        if let Some(given) = &self.given {
            let held = given.proved(0, first.supply, &first.patterns, self.effort);
            return Ok(held.then(|| one(given.clone())).into_iter().collect());
        }
        let mut found = Vec::new();
        self.branch(first, &first.most, &mut |tasks| {
            if tasks.proved(0, first.supply, &first.patterns, effort) {
                found.push(tasks);
            }
            found.len() > CANDIDATES
        })?;
        if found.len() <= CANDIDATES {
            return Ok(found.into_iter().map(one).collect());
        }
        let edf = self.needs.inner == Inner::Edf;
        let needs = if edf { self.rest(first).filter(|need| need.1 > 0).collect() } else { Vec::new() };
        Ok(vec![Wanted { tasks: None, needs, by_supply: false, short: false }])
    }

    /// Finds an assignment that both servers hold.
    fn assign(
        &mut self,
        first: &First<'_>,
        supply: &ServerSupply,
        patterns: &[Pattern],
    ) -> Result<Option<Vec<bool>>, Unsupported> {
        let supplied = capacities(supply, &self.needs.windows);
        let most = |(index, &length): (usize, &u64)| {
            let least = patterns.iter().map(|pattern| pattern.least(length)).max().unwrap_or(0);
            least.max(u64::try_from(supplied[index]).unwrap_or(u64::MAX))
        };
        let second = self.needs.windows.iter().enumerate().map(most).collect();
        let (mut found, effort) = (None, self.effort);
        self.branch(first, &[first.most[0].clone(), second], &mut |tasks| {
            let held = tasks.proved(0, first.supply, &first.patterns, effort);
            if held && tasks.proved(1, supply, patterns, effort) {
                found = Some(tasks.second);
            }
            found.is_some()
        })?;
        Ok(found)
    }

    /// Goes through the assignments that need no more than this, until one is accepted.
    fn branch(
        &mut self,
        first: &First<'_>,
        most: &[Vec<u64>; 2],
        accept: &mut dyn FnMut(Assigned) -> bool,
    ) -> Result<(), Unsupported> {
        let Plain { period, budget, .. } = first.server;
        let dark = first.refresh.locked(0) + first.refresh.lock + first.refresh.unlock;
        let Proving { needs, steps, .. } = self;
        let count = needs.windows.len();
        let mut branch = Branch {
            needs,
            steps,
            most,
            rates: [share(budget, period), share(period - budget, period) + share(dark.0, first.refresh.retention.0)],
            taken: [vec![0; count], vec![0; count]],
            loads: [0; 2],
            second: vec![false; needs.order.len()],
        };
        branch.descend(0, accept)?;
        Ok(())
    }
}

/// Tasks put into servers one by one.
struct Branch<'b, 'a> {
    needs: &'b Needs<'a>,
    steps: &'b mut Steps,
    /// Upper bounds of each server's supply in each window, and of its rate.
    most: &'b [Vec<u64>; 2],
    rates: [u128; 2],
    taken: [Vec<u128>; 2],
    loads: [u128; 2],
    second: Vec<bool>,
}

impl Branch<'_, '_> {
    /// Returns whether one was accepted.
    fn descend(&mut self, place: usize, accept: &mut dyn FnMut(Assigned) -> bool) -> Result<bool, Unsupported> {
        self.steps.step()?;
        let Some(&task) = self.needs.order.get(place) else {
            return Ok(Assigned::new(self.needs, &self.second).is_some_and(accept));
        };
        let own = load_of(&self.needs.set.tasks()[task]);
        let due = &self.needs.due[task];
        // First where more is left in the longest window: both servers stay as free as they can.
        let left = |server: usize| {
            let most = self.most[server].last().copied().map_or(0, u128::from);
            most.saturating_sub(self.taken[server].last().copied().unwrap_or(0))
        };
        let roomier = usize::from(left(1) > left(0));
        for server in [roomier, 1 - roomier] {
            let fits = |index: usize| self.taken[server][index] + due[index] <= u128::from(self.most[server][index]);
            if self.loads[server] + own > self.rates[server] || !self.needs.bound_by(place).all(fits) {
                continue;
            }
            self.taken[server].iter_mut().zip(due).for_each(|(taken, due)| *taken += due);
            self.loads[server] += own;
            self.second[task] = server == 1;
            let ended = self.descend(place + 1, accept)?;
            self.taken[server].iter_mut().zip(due).for_each(|(taken, due)| *taken -= due);
            self.loads[server] -= own;
            if ended {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
