//! Fixed priorities and EDF with preemption, under each refresh scheme.

use super::machine::{Dispatch, Hardware, Scheme, Seen, is_late_by, run, words};
use super::sets::{Own, Shape, analysed, draw, shuffled};
use super::tally::Tally;
use memtint_sched::{
    Effort, Preemption, Priorities, Task, TaskIndex, TaskSet, TaskSpec, Unsupported, Verdict, WorstCase,
    fixed_priority_with, quick_processor_demand_with, worst_response_edf_with, worst_response_with,
};
use memtint_sim::Scenario;
use memtint_units::{Picoseconds, Random};

/// Sets of each combination.
const SETS: u64 = 300;
const EFFORT: Effort = Effort { steps_max: 20_000 };
/// How much later than its deadline EDF must make a job, by the analysis, for that to be asked of the simulation: a refresh in its last
/// two references may come too late to hold it up.
const MARGIN_REFERENCES: u64 = 2;
/// A run for a bound is no longer than so many of the longest periods; one for a late job is as long as it takes.
const PERIODS_MAX: u64 = 30;

/// How priorities are given, or that there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    RateMonotonic,
    DeadlineMonotonic,
    Given,
    Edf,
}

/// A set with its analysis.
struct Case<'a> {
    machine: &'a Hardware,
    tasks: Vec<Own>,
    /// `None` under EDF.
    priorities: Option<Priorities>,
    dispatch: Dispatch,
    grid: bool,
}

impl Case<'_> {
    fn draw<'a>(random: &mut Random, machine: &'a Hardware, order: Order, grid: bool) -> Case<'a> {
        let periods = match machine.scheme {
            Scheme::None => (8, 128),
            Scheme::Burst => (256, 2048),
            Scheme::Locks | Scheme::Colors | Scheme::OneColor => (128, 2048),
            _ => (12, 384),
        };
        let deadline_halves = match order {
            Order::DeadlineMonotonic => 2 + random.within(0, 1) * 2 - 1 + random.within(0, 1),
            _ => 2 + random.within(0, 2),
        };
        let jitter = !grid && random.within(0, 2) == 0;
        let mut tasks = draw(random, machine, Shape { grid, jitter, deadline_halves, periods });
        let set = analysed(&tasks, machine, |_| 0, 0);
        let mut priorities = match order {
            Order::RateMonotonic => Some(Priorities::rate_monotonic(&set)),
            Order::DeadlineMonotonic => Some(Priorities::deadline_monotonic(&set)),
            Order::Given => Some(Priorities::given(&set, shuffled(random, tasks.len())).unwrap()),
            Order::Edf => None,
        };
        if let Some(order) = &priorities {
            // In their order: the simulator prefers the first of equal deadlines, and of equal priorities.
            tasks = order.order().iter().map(|&task| tasks[task.index()].clone()).collect();
            let set = analysed(&tasks, machine, |_| 0, 0);
            priorities = Some(Priorities::given(&set, set.indices().collect()).unwrap());
        }
        let dispatch = match priorities {
            Some(_) => Dispatch::Priorities((0..tasks.len()).collect()),
            None => Dispatch::Deadlines,
        };
        Case { machine, tasks, priorities, dispatch, grid }
    }

    /// The set with every cost: what a less urgent job keeps the core for blocks those that there is a less urgent one for.
    fn upper(&self) -> TaskSet {
        let last = self.tasks.len() - 1;
        let latest = self.tasks.iter().map(|task| task.deadline).max();
        let blocks = |task: usize| match self.priorities {
            _ if self.grid => false,
            Some(_) => task < last,
            None => Some(self.tasks[task].deadline) < latest,
        };
        analysed(&self.tasks, self.machine, |task| u64::from(blocks(task)) * self.machine.blocking(), 0)
    }

    /// Finds a task that is late in the worst phases with nothing but what certainly happens, and a window that shows it.
    fn late(&self) -> Option<(usize, u64)> {
        let reference = self.machine.reference;
        if self.priorities.is_none() {
            // A refresh in the last references of a window may come too late to hold them up.
            let later = if self.machine.scheme == Scheme::None { 0 } else { MARGIN_REFERENCES * reference };
            let set = analysed(&self.tasks, self.machine, |_| 0, later);
            let terms = self.machine.terms(false);
            return match quick_processor_demand_with(&set, &terms, EFFORT) {
                Verdict::Unschedulable(late) => {
                    Some((late.task.index(), u64::try_from(&late.window_ps).unwrap_or(u64::MAX)))
                }
                _ => None,
            };
        }
        // What comes while a job executes its last reference comes too late to hold it up: the analysis is asked of one
        // reference less, for one reference earlier.
        let less = if self.grid { 0 } else { reference };
        let late = |task: usize| {
            let level = shorter(&analysed(&self.tasks[..=task], self.machine, |_| 0, 0), less);
            let order = Priorities::given(&level, level.indices().collect()).unwrap();
            let terms = self.machine.terms(false);
            match worst_response_with(&level, &order, Preemption::Full, TaskIndex(task), &terms, EFFORT) {
                Ok(WorstCase::Bounded(worst)) => {
                    (worst.response.0 + less > self.tasks[task].deadline).then_some((task, worst.window.0))
                }
                _ => None,
            }
        };
        (0..self.tasks.len()).find_map(late)
    }

    fn worst(&self, set: &TaskSet, task: usize, longest: bool) -> Result<WorstCase, Unsupported> {
        let terms = self.machine.terms(longest);
        match &self.priorities {
            Some(order) => worst_response_with(set, order, Preemption::Full, TaskIndex(task), &terms, EFFORT),
            None => worst_response_edf_with(set, TaskIndex(task), &terms, EFFORT),
        }
    }

    fn verdict(&self, set: &TaskSet, longest: bool) -> Verdict<()> {
        let terms = self.machine.terms(longest);
        match &self.priorities {
            Some(order) => fixed_priority_with(set, order, Preemption::Full, &terms, EFFORT).map(drop),
            None => quick_processor_demand_with(set, &terms, EFFORT).map(drop),
        }
    }

    /// Runs it, and holds every response against its bound; a yes, against misses.
    fn simulate(&self, phases: &[u64], end: u64, bounds: &[Option<u64>], yes: bool) -> (Vec<Seen>, Scenario) {
        let scenario = self.machine.scenario(&self.tasks, phases, &self.dispatch, |_| {});
        let seen = run(&scenario, end);
        for (index, (task, bound)) in seen.iter().zip(bounds).enumerate() {
            if let Some(bound) = bound {
                let words = || words(&scenario, end);
                assert!(task.worst <= *bound, "t{index}: {} cycles, bound {bound}, of\n{}", task.worst, words());
            }
            assert!(
                !yes || task.misses == 0,
                "t{index} misses {} deadlines of\n{}",
                task.misses,
                words(&scenario, end)
            );
        }
        (seen, scenario)
    }

    fn confront(mut self, random: &mut Random, tally: &mut Tally) {
        let count = self.tasks.len();
        // The last is the one whose critical window is looked for under EDF: it loses ties.
        let last = count - 1;
        if self.priorities.is_none() {
            let chosen = random.within(0, last as u64) as usize;
            self.tasks.swap(chosen, last);
        }
        let upper = self.upper();
        let worst: Vec<_> = (0..count).map(|task| self.worst(&upper, task, true)).collect();
        let bounds: Vec<Option<u64>> = worst.iter().map(bounded).collect();
        let yes = self.verdict(&upper, true).is_schedulable();
        let longest = self.tasks.iter().map(|task| task.period).max().unwrap_or(1);

        // Any phases.
        let unit = if self.grid { self.machine.reference } else { 1 };
        let phases: Vec<u64> = self.tasks.iter().map(|task| random.within(0, task.period / unit) * unit).collect();
        self.simulate(&phases, 5 * longest, &bounds, yes);

        // The worst phases: all together, as a refresh falls due.
        let due = self.machine.due(self.tasks[0].rank);
        let exact = self.machine.scheme.is_exact() && self.tasks.iter().all(|task| task.jitter == 0);
        let late = if exact { self.late() } else { None };
        let window = |case: &Result<WorstCase, _>| match case {
            Ok(WorstCase::Bounded(response)) => response.window.0,
            _ => 0,
        };
        let limit = PERIODS_MAX * longest;
        let needed = worst.iter().map(window).max().unwrap_or(0);
        let end = due + needed.clamp(longest, limit) + longest;
        let (seen, scenario) = self.simulate(&vec![due; count], end, &bounds, yes);
        if let Some((task, overfull)) = late {
            // Under EDF anybody can be late for it.
            let wanted = |other| self.priorities.is_none() || other == task;
            let end = due + overfull + longest;
            let found = seen.iter().enumerate().any(|(task, seen)| wanted(task) && seen.misses > 0);
            let found = found || is_late_by(&scenario, end, longest, wanted);
            assert!(found, "t{task} is not late in\n{}", words(&scenario, end));
            tally.witnesses += 1;
        }
        tally.verdict(yes, late.is_some());
        if !exact {
            return;
        }
        if self.priorities.is_some() {
            for ((task, bound), window) in seen.iter().zip(&bounds).zip(worst.iter().map(window)) {
                if let Some(bound) = bound.filter(|_| window <= limit) {
                    tally.compare(task.worst, bound);
                    let equal = !self.grid || task.worst == bound;
                    let words = || words(&scenario, end);
                    assert!(equal, "{} cycles, exactly {bound} were expected, of\n{}", task.worst, words());
                }
            }
        } else if let Ok(WorstCase::Bounded(response)) = &worst[last] {
            // Spuri: the job that is late is released so long after all others.
            let begins = response.window.0.saturating_sub(response.response.0);
            let mut phases = vec![due; count];
            phases[last] += begins % self.tasks[last].period;
            if response.window.0 <= limit {
                let end = due + response.window.0 + longest;
                let (seen, scenario) = self.simulate(&phases, end, &bounds, yes);
                let bound = response.response.0;
                tally.compare(seen[last].worst, bound);
                let equal = !self.grid || seen[last].worst == bound;
                let (worst, words) = (seen[last].worst, || words(&scenario, end));
                assert!(equal, "{worst} cycles, exactly {bound} were expected, of\n{}", words());
            }
        }
    }
}

/// The set with jobs of the last task that are so much shorter, but not nothing.
fn shorter(set: &TaskSet, by: u64) -> TaskSet {
    let mut specs: Vec<TaskSpec> = set.tasks().iter().map(Task::spec).collect();
    let last = specs.last_mut().unwrap();
    last.wcet = Picoseconds(last.wcet.0.saturating_sub(by).max(1));
    TaskSet::new(specs).unwrap()
}

fn bounded(case: &Result<WorstCase, Unsupported>) -> Option<u64> {
    match case {
        Ok(WorstCase::Bounded(response)) => Some(response.response.0),
        _ => None,
    }
}

#[track_caller]
fn confront(order: Order, scheme: Scheme, densities: &[u32], grid: bool) -> Tally {
    let machines: Vec<Hardware> = densities.iter().map(|&density| Hardware::new(scheme, density)).collect();
    let mut tally = Tally::default();
    for round in 0..SETS {
        let mut random = Random::new(0x5eed_0000 + round + 1000 * scheme as u64 + 100_000 * order as u64);
        let machine = &machines[round as usize % machines.len()];
        Case::draw(&mut random, machine, order, grid).confront(&mut random, &mut tally);
    }
    println!("{order:?}, {scheme:?}{}: {tally}", if grid { ", whole references" } else { "" });
    tally
}

/// Densities whose tRFC is longer than a few references.
const DENSITIES: [u32; 3] = [2, 4, 8];

macro_rules! confrontations {
    ($($name:ident: $scheme:ident, $densities:expr, $grid:literal, $tight:expr;)*) => {$(
        #[test]
        fn $name() {
            for order in [Order::RateMonotonic, Order::DeadlineMonotonic, Order::Given, Order::Edf] {
                let tally = confront(order, Scheme::$scheme, &$densities, $grid);
                assert!(tally.yes >= 10, "{order:?}: {tally}");
                assert!(!Scheme::$scheme.is_exact() || tally.no >= 5, "{order:?}: {tally}");
                assert_eq!(tally.witnesses, tally.no, "{order:?}: a no without its late job");
                assert!(tally.largest_permille >= $tight.unwrap_or_default(), "{order:?}: {tally}");
            }
        }
    )*};
}

confrontations! {
    whole_references_without_refresh_respond_exactly_as_analysed: None, [8], true, Some(1000);
    without_refresh_no_response_exceeds_its_bound: None, [8], false, Some(980);
    under_all_bank_refresh_no_response_exceeds_its_bound: AllBank, DENSITIES, false, Some(980);
    under_staggered_refresh_no_response_exceeds_its_bound: Staggered, DENSITIES, false, Some(980);
    under_refresh_of_half_the_granularity_no_response_exceeds_its_bound: Fgr2, DENSITIES, false, Some(980);
    under_refresh_of_a_quarter_of_the_granularity_no_response_exceeds_its_bound: Fgr4, DENSITIES, false, Some(980);
    under_bursts_no_response_exceeds_its_bound: Burst, [1, 2], false, Some(980);
    under_locks_no_response_exceeds_its_bound: Locks, [1, 2], false, Some(980);
    whole_references_under_locks_of_one_color_respond_exactly_as_analysed: OneColor, [1, 2], true, Some(1000);
    under_locks_of_one_color_no_response_exceeds_its_bound: OneColor, [1, 2], false, Some(980);
    under_locks_of_colors_no_response_exceeds_its_bound: Colors, [1, 2], false, None;
}
