//! Is the largest scaling the largest: does it hold, and nothing above it?

use crate::common::{Shape, random_set};
use memtint_sched::{
    Effort, Limit, Preemption, Priorities, Scaled, Scaling, TaskIndex, TaskSet, TaskSpec, edf_scaling, fixed_priority,
    fixed_priority_scaling, quick_processor_demand,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use num_bigint::BigUint;
use num_rational::Ratio;

fn ratio(numerator: u64, denominator: u64) -> Ratio<BigUint> {
    Ratio::new(numerator.into(), denominator.into())
}

/// The set with all times multiplied by `unit`, so that scaled execution times are whole, and execution times by the factor
/// less or more `change` parts of a picosecond.
fn scaled(set: &TaskSet, which: Scaled, factor: &Ratio<BigUint>, unit: u64, change: i64) -> Option<TaskSet> {
    let specs = set.tasks().iter().enumerate().map(|(index, task)| {
        let mut spec = task.spec();
        for time in [&mut spec.period, &mut spec.jitter, &mut spec.blocking, &mut spec.wcet] {
            time.0 *= unit;
        }
        spec.deadline = Some(Ps(task.deadline().0 * unit));
        if which == Scaled::All || which == Scaled::One(TaskIndex(index)) {
            let exact = factor * BigUint::from(spec.wcet.0);
            assert!(exact.is_integer(), "the unit divides");
            spec.wcet.0 = u64::try_from(exact.to_integer()).unwrap().checked_add_signed(change).unwrap();
        }
        spec
    });
    TaskSet::new(specs.collect::<Vec<_>>()).ok()
}

fn is_largest(set: &TaskSet, which: Scaled, found: &Scaling, schedulable: impl Fn(&TaskSet) -> bool) {
    // Units of a picosecond fine enough that one more is a small change.
    let unit = u64::try_from(found.factor.denom()).unwrap() * 97;
    // No factor: nothing to run.
    if let Some(most) = scaled(set, which, &found.factor, unit, 0) {
        assert!(schedulable(&most), "{found:?} is too much for {set:?}");
    } else {
        assert_eq!(found.factor, ratio(0, 1));
    }
    let more = scaled(set, which, &found.factor, unit, 1).unwrap();
    assert!(!schedulable(&more), "{found:?} is not the most for {which:?} of {set:?}");
}

#[test]
fn by_hand() {
    let set = TaskSet::new([TaskSpec::new("a", Ps(5), Ps(2)), TaskSpec::new("b", Ps(7), Ps(4))]).unwrap();
    let order = Priorities::rate_monotonic(&set);
    let of = |which| fixed_priority_scaling(&set, &order, which, Effort::default()).unwrap().unwrap();
    // b: 5 >= 6 f or 7 >= 8 f.
    assert_eq!(of(Scaled::All).factor, ratio(7, 8));
    assert_eq!(of(Scaled::All).limit, Limit::Window { task: TaskIndex(1), job: 0, window: Ps(7) });
    // b alone: 5 >= 2 + 4 f or 7 >= 4 + 4 f; a alone: 5 >= 2 f + 4 or 7 >= 4 f + 4.
    assert_eq!(of(Scaled::One(TaskIndex(1))).factor, ratio(3, 4));
    assert_eq!(of(Scaled::One(TaskIndex(0))).factor, ratio(3, 4));
    assert_eq!(of(Scaled::One(TaskIndex(1))).wcet_max(&set.tasks()[1]), 3u8.into());
    // EDF can use all: 35 / 34.
    let edf = edf_scaling(&set, Scaled::All, Effort::default()).unwrap().unwrap();
    assert_eq!((edf.factor, edf.limit), (ratio(35, 34), Limit::Utilization));
}

#[test]
fn what_no_factor_helps_is_said() {
    let late = TaskSpec::new("a", Ps(10), Ps(5)).deadline(Ps(4));
    let set = TaskSet::new([late, TaskSpec::new("b", Ps(20), Ps(1))]).unwrap();
    let order = Priorities::rate_monotonic(&set);
    assert_eq!(fixed_priority_scaling(&set, &order, Scaled::One(TaskIndex(1)), Effort::default()), Ok(None));
    assert_eq!(edf_scaling(&set, Scaled::One(TaskIndex(1)), Effort::default()), Ok(None));
    let most = fixed_priority_scaling(&set, &order, Scaled::One(TaskIndex(0)), Effort::default()).unwrap().unwrap();
    assert_eq!(most.factor, ratio(4, 5));
}

#[test]
fn fixed_priority_scaling_is_the_largest_on_random_sets() {
    let mut random = Random::new(31);
    let (mut found, mut none, mut shrunk) = (0, 0, 0);
    for round in 0..700 {
        let shape = Shape { tasks: 4, period: 12, jitter: round % 3, blocking: round % 2 * 3, deadline: 2 };
        let set = random_set(&mut random, shape);
        let order = Priorities::deadline_monotonic(&set);
        let schedulable =
            |set: &TaskSet| fixed_priority(set, &order, Preemption::Full, Effort::default()).is_schedulable();
        for which in [Scaled::All, Scaled::One(TaskIndex(0)), Scaled::One(TaskIndex(set.tasks().len() - 1))] {
            match fixed_priority_scaling(&set, &order, which, Effort::default()).unwrap() {
                Some(scaling) => {
                    found += 1;
                    let one = ratio(1, 1);
                    assert_eq!(scaling.factor >= one, schedulable(&set), "round {round}: {scaling:?} {set:?}");
                    shrunk += u32::from(scaling.factor < one);
                    is_largest(&set, which, &scaling, schedulable);
                }
                None => {
                    none += 1;
                    assert!(!schedulable(&set), "round {round}: {set:?}");
                }
            }
        }
    }
    assert!(found > 1000 && none > 50 && shrunk > 200, "{found} found, {none} none, {shrunk} below 1");
}

#[test]
fn edf_scaling_is_the_largest_on_random_sets() {
    let mut random = Random::new(32);
    let (mut found, mut windows) = (0, 0);
    for round in 0..700 {
        let shape = Shape { tasks: 4, period: 12, jitter: round % 3, blocking: round % 2 * 3, deadline: 2 };
        let set = random_set(&mut random, shape);
        let schedulable = |set: &TaskSet| quick_processor_demand(set, Effort::default()).is_schedulable();
        for which in [Scaled::All, Scaled::One(TaskIndex(0)), Scaled::One(TaskIndex(set.tasks().len() - 1))] {
            match edf_scaling(&set, which, Effort::default()).unwrap() {
                Some(scaling) => {
                    found += 1;
                    windows += u32::from(scaling.limit != Limit::Utilization);
                    let one = ratio(1, 1);
                    assert_eq!(scaling.factor >= one, schedulable(&set), "round {round}: {scaling:?} {set:?}");
                    is_largest(&set, which, &scaling, schedulable);
                }
                None => assert!(!schedulable(&set), "round {round}: {set:?}"),
            }
        }
    }
    assert!(found > 1000 && windows > 500, "{found} found, {windows} by a window");
}
