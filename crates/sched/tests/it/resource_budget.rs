//! Is the smallest budget under EDF that of all windows, also of those far away?
//!
//! Compared with a walk from deadline to deadline that shares no code with the library: supply and need of a window are taken
//! from their definitions, and the walk ends where the linear supply has overtaken the demand.

use memtint_sched::{
    Budget, Effort, Limit, PeriodicResource, Policy, Supply, Task, TaskSet, TaskSpec, Unsupported, Verdict,
    smallest_budget,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use num_bigint::{BigInt, BigUint};
use num_rational::Ratio;
use std::cmp::Ordering;

/// `None` where there is no budget, or where few steps do not find it.
fn smallest(set: &TaskSet, period: u64, supply: Supply) -> Option<Budget> {
    match smallest_budget(set, &Policy::Edf, Ps(period), supply, Effort { steps_max: 3000 }) {
        Verdict::Schedulable(found) => Some(found),
        Verdict::Unschedulable(_) | Verdict::Unsupported(Unsupported::Effort { .. }) => None,
        Verdict::Unsupported(reason) => panic!("{reason:?} for {set:?}"),
    }
}

/// A fraction, not reduced.
#[derive(Clone, Copy, Debug)]
struct Fraction(i128, i128);

impl Fraction {
    fn compare(self, other: Fraction) -> Ordering {
        (self.0 * other.1).cmp(&(other.0 * self.1))
    }

    fn max(self, other: Fraction) -> Fraction {
        if self.compare(other) == Ordering::Less { other } else { self }
    }

    fn ratio(self) -> Ratio<BigInt> {
        Ratio::new(self.0.into(), self.1.into())
    }
}

/// Whether a budget supplies a demand.
fn supplied(budget: Fraction, period: i128, supply: Supply, window: i128, demand: i128) -> bool {
    // All in parts of the denominator.
    let (part, period) = (budget.1, period * budget.1);
    let (budget, window, demand) = (budget.0, window * part, demand * part);
    let gap = period - budget;
    match supply {
        Supply::Exact if window <= gap => demand <= 0,
        Supply::Exact => {
            let budgets = (window - gap) / period;
            demand <= budgets * budget + (window - 2 * gap - budgets * period).max(0)
        }
        Supply::Linear => demand * period <= budget * (window - 2 * gap),
    }
}

/// The smallest budget that supplies a demand.
fn needed(period: i128, supply: Supply, window: i128, demand: i128) -> Fraction {
    match supply {
        // Whatever the number of budgets used before the last, it is enough to have them all, and their gaps.
        Supply::Exact => (0..=window / period + 1)
            .map(|k| Fraction(period * (k + 2) - (window - demand), k + 2).max(Fraction(demand, k + 1)))
            .min_by(|a, b| a.compare(*b))
            .unwrap(),
        Supply::Linear => {
            let enough = |&budget: &i128| supplied(Fraction(budget, 1), period, supply, window, demand);
            Fraction((0..=period).find(enough).unwrap(), 1)
        }
    }
}

/// `D - J`: the deadline of the first job when each is released late.
fn first(task: &Task) -> u64 {
    task.deadline().0 - task.jitter().0
}

/// The budget that all windows need, and the number of windows; `None` when they are more than allowed.
fn walked(set: &TaskSet, period: u64, supply: Supply, most: u64) -> Option<(Ratio<BigInt>, u64)> {
    let tasks = set.tasks();
    let big = |value: u64| Ratio::from_integer(BigInt::from(value));
    let load = |task: &Task| Ratio::new(BigInt::from(task.wcet().0), task.period().0.into());
    let utilization: Ratio<BigInt> = tasks.iter().map(load).sum();
    let ahead: Ratio<BigInt> = tasks.iter().map(|task| load(task) * (big(task.period().0) - big(first(task)))).sum();
    let ahead = ahead + big(tasks.iter().map(|task| task.blocking().0).max().unwrap());
    let all_due = tasks.iter().map(first).max().unwrap();
    let mut best = &utilization * big(period);
    if supply == Supply::Linear {
        best = best.ceil();
    }
    let part = |value: &BigInt| i128::try_from(value.clone()).unwrap();
    let mut fraction = Fraction(part(best.numer()), part(best.denom()));
    let (mut next, mut jobs) = (tasks.iter().map(first).collect::<Vec<_>>(), vec![0; tasks.len()]);
    let (mut until, mut windows) = (None, 0);
    loop {
        let window = *next.iter().min().unwrap();
        if until.as_ref().is_some_and(|until| window > all_due && big(window) > *until) {
            return Some((best, windows));
        }
        if windows == most {
            return None;
        }
        windows += 1;
        for (task, (next, jobs)) in tasks.iter().zip(next.iter_mut().zip(&mut jobs)) {
            if *next == window {
                (*next, *jobs) = (*next + task.period().0, *jobs + 1);
            }
        }
        let due = || tasks.iter().zip(&jobs).filter(|(_, jobs)| **jobs > 0);
        let blocking = due().map(|(task, _)| task.blocking().0).max().unwrap();
        let demand = due().map(|(task, jobs)| task.wcet().0 * jobs).sum::<u64>() + blocking;
        let (window, demand, period) = (i128::from(window), i128::from(demand), i128::from(period));
        if supplied(fraction, period, supply, window, demand) {
            continue;
        }
        let need = needed(period, supply, window, demand);
        if need.ratio() > best {
            (best, fraction) = (need.ratio(), need);
            let bandwidth = &best / BigInt::from(period);
            let gaps = (big(period as u64) - &best) * BigInt::from(2) * &bandwidth;
            until = Some((&ahead + gaps) / (bandwidth - &utilization));
        }
    }
}

/// Tasks whose periods have little in common, and a resource of a short one.
fn draw(random: &mut Random) -> (TaskSet, u64) {
    let (count, percent, shape) = (random.within(2, 6), random.within(50, 98), random.within(0, 3));
    let mut left = 1000 * percent;
    let spec = |index: u64| {
        let period = random.within(60, 4000);
        let share = if index + 1 == count { left } else { random.within(1, 2 * left / (count - index)).min(left) };
        left -= share;
        let spec = TaskSpec::new(format!("t{index}"), Ps(period), Ps((period * share / 100_000).max(1)));
        match shape {
            0 => spec,
            1 => spec.deadline(Ps(random.within(period * 9 / 10, period))).jitter(Ps(random.within(0, period / 20))),
            2 => spec.blocking(Ps(random.within(0, 20))),
            _ => spec.deadline(Ps(random.within(period, period * 5 / 4))),
        }
    };
    let specs: Vec<TaskSpec> = (0..count).map(spec).collect();
    (TaskSet::new(specs).unwrap(), random.within(20, 100))
}

#[test]
fn no_window_needs_more_and_one_needs_as_much() {
    let seed = 53;
    let mut random = Random::new(seed);
    let (mut compared, mut far) = (0, 0);
    for round in 0..250 {
        let (set, period) = draw(&mut random);
        for supply in [Supply::Exact, Supply::Linear] {
            let Some(found) = smallest(&set, period, supply) else { continue };
            let Some((budget, windows)) = walked(&set, period, supply, 4000) else { continue };
            compared += 1;
            // The library walks through 64 windows at least, and six tasks of such periods have no more before all have had one.
            far += u32::from(windows > 500);
            let (numerator, denominator) = found.budget_ps.into_raw();
            let found = Ratio::new(BigInt::from(numerator), denominator.into());
            assert_eq!(
                found, budget,
                "seed {seed}, round {round}: {supply:?}, period {period}, {windows} windows, {set:?}"
            );
        }
    }
    assert!(compared > 80 && far > 10, "{compared} compared, {far} of them far");
}

/// Five tasks with a load of 0.9 and periods of 10 us to 1 ms in whole nanoseconds, log-uniform by halves.
fn coprime(random: &mut Random) -> TaskSet {
    let spec = |index| {
        let octave = 10_000 << random.within(0, 5);
        let period = random.within(octave, 2 * octave);
        TaskSpec::new(format!("t{index}"), Ps::from_ns(period), Ps::from_ns(period * random.within(170, 179) / 1000))
    };
    let specs: Vec<TaskSpec> = (0..5).map(spec).collect();
    TaskSet::new(specs).unwrap()
}

#[test]
fn windows_after_millions_of_jobs_are_found() {
    let period = 10_000_000;
    let mut random = Random::new(54);
    let mut far = 0;
    for round in 0..40 {
        let set = coprime(&mut random);
        let found = smallest(&set, period, Supply::Exact).expect("a load below 1");
        let Limit::Window { task, job, window } = found.limit else { panic!("deadlines coincide after all") };
        let (end, own) = (window.0, &set[task]);
        assert_eq!(end, (job + 1) * own.period().0, "round {round}: the window ends at the deadline of the job");
        let demand = |end: u64| -> u64 { set.tasks().iter().map(|task| end / task.period().0 * task.wcet().0).sum() };
        let supply = |budget: &Ratio<BigUint>, end: u64| {
            PeriodicResource::new(Ps(period), budget.clone()).unwrap().supply(&end.into())
        };
        let due = |end: u64| Ratio::from_integer(BigUint::from(demand(end)));
        assert_eq!(supply(&found.budget_ps, end), due(end), "round {round}: the budget is what the window needs");
        let less = &found.budget_ps * Ratio::new(BigUint::from(u64::MAX), BigUint::from(u64::MAX) + 1u8);
        assert!(supply(&less, end) < due(end), "round {round}: less is not");
        let jobs: u64 = set.tasks().iter().map(|task| end / task.period().0).sum();
        far += u32::from(jobs > 1_000_000);
        for task in set.tasks() {
            // Beside the window, before it, and from the beginning.
            let near = [end / 2, end].map(|near| near / task.period().0).into_iter();
            for job in near.flat_map(|job| job.saturating_sub(20)..job + 20).chain(0..100) {
                let end = (job + 1) * task.period().0;
                assert!(due(end) <= supply(&found.budget_ps, end), "round {round}: {end} ps need more, {set:?}");
            }
        }
    }
    assert!(far > 5, "{far} windows of more than a million jobs");
}
