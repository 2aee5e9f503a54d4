//! Do utilization bounds accept only what is schedulable, and say no more than they know?

mod common;

use common::{Random, Shape, random_set};
use memtint_sched::{
    Effort, Preemption, Priorities, TaskSet, TaskSpec, Unsupported, Verdict, edf_density, fixed_priority, hyperbolic,
    liu_layland, quick_processor_demand,
};
use memtint_units::Picoseconds as Ps;
use num_rational::Ratio;

fn set(tasks: &[(u64, u64)]) -> TaskSet {
    let spec =
        |(index, &(period, wcet)): (usize, &(u64, u64))| TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet));
    TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap()
}

#[test]
fn liu_and_layland_to_the_last_digit() {
    // 2 (sqrt 2 - 1) = 0.82842712474619009760...
    let half = 4_142_135_623_730_950;
    let scale = 10_000_000_000_000_000;
    assert!(liu_layland(&set(&[(scale, half), (scale, half)])).is_schedulable());
    assert!(!liu_layland(&set(&[(scale, half + 1), (scale, half)])).is_schedulable());
    // One task may use everything.
    assert!(liu_layland(&set(&[(7, 7)])).is_schedulable());
}

#[test]
fn the_hyperbolic_bound_is_met_with_equality() {
    // (1 + 1/2) (1 + 1/3) = 2, while U = 0.8333 is above 0.8284.
    let edge = set(&[(6, 3), (9, 3)]);
    assert!(hyperbolic(&edge).is_schedulable());
    let Verdict::Unsupported(Unsupported::Inconclusive { found, most }) = liu_layland(&edge) else {
        panic!("above the bound, which is no reason to say no")
    };
    assert_eq!((found, most), (Ratio::new(289u16.into(), 144u8.into()), Ratio::from_integer(2u8.into())));
}

#[test]
fn preconditions_are_checked() {
    // A defect seen elsewhere: two tasks (T 10, C 2, D 2), of which the second misses, accepted.
    let constrained = TaskSet::new(["a", "b"].map(|name| TaskSpec::new(name, Ps(10), Ps(2)).deadline(Ps(2)))).unwrap();
    for verdict in [liu_layland(&constrained), hyperbolic(&constrained)] {
        assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Precondition { task: 0, .. })));
    }
    assert!(matches!(edf_density(&constrained), Verdict::Unsupported(Unsupported::Inconclusive { .. })));
    let blocked = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(2)).blocking(Ps(1))]).unwrap();
    let late = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(2)).jitter(Ps(10))]).unwrap();
    for verdict in [liu_layland(&blocked), hyperbolic(&late), edf_density(&blocked), edf_density(&late)] {
        assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Precondition { .. })));
    }
}

#[test]
fn what_a_bound_accepts_the_exact_tests_accept() {
    let mut random = Random(21);
    let (mut plain, mut product, mut dense) = (0, 0, 0);
    for round in 0..20_000 {
        let set = random_set(&mut random, Shape { tasks: 4, period: 20, jitter: round % 3, blocking: 0, deadline: 3 });
        let order = Priorities::rate_monotonic(&set);
        let exact = || fixed_priority(&set, &order, Preemption::Full, Effort::default()).is_schedulable();
        if liu_layland(&set).is_schedulable() {
            plain += 1;
            assert!(hyperbolic(&set).is_schedulable(), "round {round}: {set:?}");
        }
        if hyperbolic(&set).is_schedulable() {
            product += 1;
            assert!(exact(), "round {round}: {set:?}");
        }
        if edf_density(&set).is_schedulable() {
            dense += 1;
            assert!(quick_processor_demand(&set, Effort::default()).is_schedulable(), "round {round}: {set:?}");
        }
    }
    assert!(plain > 300 && product > plain && dense > 1000, "{plain}, {product}, {dense}");
}
