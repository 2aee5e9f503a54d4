//! Fixed priorities and EDF without preemption. A job is not interrupted by others, so that there is nothing to block for but whole
//! jobs; without refresh everything happens to the cycle.

use super::machine::{Dispatch, Hardware, Scheme, Seen, is_late_by, run, words};
use super::sets::{Own, Shape, analysed, draw};
use super::tally::Tally;
use memtint_sched::{
    Cause, Effort, Preemption, Priorities, TaskIndex, TaskSet, Unsupported, Verdict, WorstCase, fixed_priority_with,
    nonpreemptive_edf, worst_response_nonpreemptive_edf, worst_response_with,
};
use memtint_sim::Scenario;
use memtint_units::Random;

const SETS: u64 = 300;
const EFFORT: Effort = Effort { steps_max: 20_000 };
/// A run for a bound is no longer than so many of the longest periods; one for a late job is as long as it takes.
const PERIODS_MAX: u64 = 30;

struct Case<'a> {
    machine: &'a Hardware,
    tasks: Vec<Own>,
    edf: bool,
}

impl Case<'_> {
    fn draw<'a>(random: &mut Random, machine: &'a Hardware, edf: bool) -> Case<'a> {
        let (jitter, deadline_halves) = (random.within(0, 3) == 0, 2 + random.within(0, 2));
        let periods = if machine.scheme == Scheme::None { (8, 128) } else { (24, 384) };
        let mut tasks = draw(random, machine, Shape { grid: false, jitter, deadline_halves, periods });
        if !edf {
            tasks.sort_by_key(|task| task.deadline);
        }
        Case { machine, tasks, edf }
    }

    fn set(&self) -> TaskSet {
        analysed(&self.tasks, self.machine, |_| 0, 0)
    }

    fn order(&self, set: &TaskSet) -> Priorities {
        Priorities::given(set, set.indices().collect()).unwrap()
    }

    fn worst(&self, set: &TaskSet, task: usize) -> Option<(u64, u64)> {
        let found: Result<WorstCase, Unsupported> = if self.edf {
            worst_response_nonpreemptive_edf(set, TaskIndex(task), EFFORT)
        } else {
            let terms = self.machine.terms(true);
            worst_response_with(set, &self.order(set), Preemption::None, TaskIndex(task), &terms, EFFORT)
        };
        match found {
            Ok(WorstCase::Bounded(worst)) => Some((worst.response.0, worst.window.0)),
            _ => None,
        }
    }

    fn verdict(&self, set: &TaskSet) -> Verdict<()> {
        if self.edf {
            return nonpreemptive_edf(set, EFFORT).map(drop);
        }
        let terms = self.machine.terms(true);
        fixed_priority_with(set, &self.order(set), Preemption::None, &terms, EFFORT).map(drop)
    }

    fn scenario(&self, phases: &[u64]) -> Scenario {
        let dispatch = match self.edf {
            true => Dispatch::Deadlines,
            false => Dispatch::Priorities((0..self.tasks.len()).collect()),
        };
        self.machine.scenario(&self.tasks, phases, &dispatch, |spec| spec.system.preemption = false)
    }

    fn simulate(&self, phases: &[u64], end: u64, bounds: &[Option<u64>], yes: bool) -> (Vec<Seen>, Scenario) {
        let scenario = self.scenario(phases);
        let seen = run(&scenario, end);
        for (index, (task, bound)) in seen.iter().zip(bounds).enumerate() {
            let words = || words(&scenario, end);
            if let Some(bound) = bound {
                assert!(task.worst <= *bound, "t{index}: {} cycles, bound {bound}, of\n{}", task.worst, words());
            }
            assert!(!yes || task.misses == 0, "t{index} misses {} deadlines of\n{}", task.misses, words());
        }
        (seen, scenario)
    }

    /// All arrive together, but for one that has come a cycle before.
    fn after(&self, begun: Option<usize>) -> Vec<u64> {
        let due = self.machine.due(self.tasks[0].rank);
        (0..self.tasks.len()).map(|task| due + u64::from(begun.is_some_and(|begun| begun != task))).collect()
    }

    fn longest(&self, of: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.tasks.len()).filter(|&task| of(task)).max_by_key(|&task| self.tasks[task].references)
    }

    fn confront(mut self, random: &mut Random, tally: &mut Tally) {
        let last = self.tasks.len() - 1;
        let mut chosen = random.within(0, last as u64) as usize;
        if self.edf {
            // It loses ties.
            self.tasks.swap(chosen, last);
            chosen = last;
        }
        let set = self.set();
        let worst: Vec<_> = (0..=last).map(|task| self.worst(&set, task)).collect();
        let bounds: Vec<Option<u64>> = worst.iter().map(|worst| worst.map(|(response, _)| response)).collect();
        let verdict = self.verdict(&set);
        let yes = verdict.is_schedulable();
        let longest = self.tasks.iter().map(|task| task.period).max().unwrap_or(1);
        let phases: Vec<u64> = self.tasks.iter().map(|task| random.within(0, task.period)).collect();
        self.simulate(&phases, 5 * longest, &bounds, yes);

        let due = self.machine.due(self.tasks[0].rank);
        let limit = PERIODS_MAX * longest;
        let exact = self.tasks.iter().all(|task| task.jitter == 0);
        let no = match verdict {
            Verdict::Unschedulable(late) if exact && self.machine.scheme == Scheme::None => Some(late),
            _ => None,
        };
        tally.verdict(yes, no.is_some());
        if !exact {
            return;
        }
        if let Some(late) = no {
            let begun = match late.cause {
                Cause::Begun(task) => Some(task.index()),
                _ if self.edf => None,
                _ => self.longest(|task| task > late.task.index()),
            };
            let window = u64::try_from(&late.window_ps).unwrap();
            let end = due + window + 2 * longest;
            let scenario = self.scenario(&self.after(begun));
            let found = is_late_by(&scenario, end, longest, |task| self.edf || task == late.task.index());
            assert!(found, "no witness of {late:?} in\n{}", words(&scenario, end));
            tally.witnesses += 1;
        }
        let Some((response, window)) = worst[chosen].filter(|&(_, window)| window <= limit) else { return };
        let released = window.saturating_sub(response);
        let begun = match self.edf {
            true => self.longest(|task| self.tasks[task].deadline > released + self.tasks[chosen].deadline + 1),
            false => self.longest(|task| task > chosen),
        };
        let mut phases = self.after(begun);
        if self.edf {
            phases[chosen] += released % self.tasks[chosen].period;
        }
        let end = due + window + 2 * longest;
        let (seen, scenario) = self.simulate(&phases, end, &bounds, yes);
        tally.compare(seen[chosen].worst, response);
        if !self.edf && self.machine.scheme == Scheme::None {
            let words = || words(&scenario, end);
            assert_eq!(seen[chosen].worst, response, "t{chosen}: cycles, and exactly expected, of\n{}", words());
        }
    }
}

#[test]
fn without_preemption_no_response_exceeds_its_bound() {
    let fixed = [Scheme::None, Scheme::AllBank, Scheme::Staggered, Scheme::Fgr2, Scheme::Fgr4].map(|one| (one, false));
    for (scheme, edf) in fixed.into_iter().chain([(Scheme::None, true)]) {
        let machines = [4, 8].map(|density| Hardware::new(scheme, density));
        let mut tally = Tally::default();
        for round in 0..SETS {
            let mut random = Random::new(0x2047_0000 + round + 1000 * scheme as u64 + 100_000 * u64::from(edf));
            let machine = &machines[round as usize % machines.len()];
            Case::draw(&mut random, machine, edf).confront(&mut random, &mut tally);
        }
        println!("without preemption, {}, {scheme:?}: {tally}", if edf { "EDF" } else { "deadline monotonic" });
        assert!(tally.yes >= 10 && tally.largest_permille >= 980, "{scheme:?}: {tally}");
        assert!(scheme != Scheme::None || tally.no >= 5, "{scheme:?}: {tally}");
        assert_eq!(tally.witnesses, tally.no, "{scheme:?}: a no without its late job");
    }
}
