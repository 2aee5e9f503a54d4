//! Do utilization bounds accept only what is schedulable, and say no more than they know?

use crate::common::{Shape, random_set};
use memtint_sched::{
    Effort, PeriodicResource, Policy, Preemption, Priorities, Supply, TaskIndex, TaskSet, TaskSpec, Unsupported,
    Verdict, edf_density, fixed_priority, hyperbolic, liu_layland, quick_processor_demand, resource_bound,
    schedulable_on, smallest_budget,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
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
        assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Precondition { task: TaskIndex(0), .. })));
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
    let mut random = Random::new(21);
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

fn resource(period: u64, budget: u64) -> PeriodicResource {
    PeriodicResource::new(Ps(period), Ratio::from_integer(budget.into())).unwrap()
}

#[test]
fn preconditions_of_bounds_on_resources_are_checked() {
    let plain = set(&[(40, 2), (60, 3)]);
    let half = resource(10, 5);
    let order = |order: [usize; 2]| Priorities::given(&plain, order.map(TaskIndex).to_vec()).unwrap();
    let fixed = |order, preemption| Policy::FixedPriority(order, preemption);
    let monotonic = fixed(order([0, 1]), Preemption::Full);
    for policy in [&Policy::Edf, &monotonic] {
        assert!(resource_bound(&plain, policy, &half).is_schedulable());
    }
    let reversed = fixed(order([1, 0]), Preemption::Full);
    for policy in [reversed, fixed(order([0, 1]), Preemption::None), Policy::NonPreemptiveEdf] {
        let verdict = resource_bound(&plain, &policy, &half);
        assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Platform { .. })), "{verdict:?}");
    }
    let spec = || TaskSpec::new("c", Ps(90), Ps(1));
    for spec in [spec().jitter(Ps(1)), spec().blocking(Ps(1)), spec().deadline(Ps(89))] {
        let set = TaskSet::new([TaskSpec::new("a", Ps(40), Ps(2)), spec]).unwrap();
        let verdict = resource_bound(&set, &Policy::Edf, &half);
        assert!(
            matches!(verdict, Verdict::Unsupported(Unsupported::Precondition { task: TaskIndex(1), .. })),
            "{verdict:?}"
        );
    }
    // The first whole budget before a gap: from 2 P - 4 B / 3 = 12 on for EDF, after 2 P - B = 14 for priorities.
    let six = resource(10, 6);
    let short = |period| set(&[(50, 1), (period, 1)]);
    let refused = |set: &TaskSet, policy: &Policy| {
        matches!(
            resource_bound(set, policy, &six),
            Verdict::Unsupported(Unsupported::Precondition { task: TaskIndex(1), .. })
        )
    };
    let monotonic = |set: &TaskSet| fixed(Priorities::rate_monotonic(set), Preemption::Full);
    assert!(refused(&short(11), &Policy::Edf) && !refused(&short(12), &Policy::Edf));
    assert!(refused(&short(14), &monotonic(&short(14))) && !refused(&short(15), &monotonic(&short(15))));
}

#[test]
fn the_bound_of_edf_on_a_resource_is_reached() {
    // A period that ends with a gap: the bound is what is supplied by then.
    for period in 1..=9u64 {
        for budget in 1..=period {
            for k in 1..=5u64 {
                let one = |wcet| set(&[((k + 2) * period - 2 * budget, wcet)]);
                let given = resource(period, budget);
                let most = k * budget;
                assert!(resource_bound(&one(most), &Policy::Edf, &given).is_schedulable(), "{budget} of {period}, {k}");
                let more = schedulable_on(&one(most + 1), &Policy::Edf, &given, Supply::Exact, Effort::default());
                assert!(more.is_unschedulable(), "{budget} of {period}, {k}");
            }
        }
    }
}

#[test]
fn what_a_bound_accepts_on_a_resource_has_the_budget() {
    let mut random = Random::new(23);
    let mut accepted = [0, 0];
    let (mut late, mut short) = (0, 0);
    for round in 0..4000 {
        let count = random.within(1, 4);
        let specs = (0..count).map(|index| {
            let period = random.within(2, 60);
            TaskSpec::new(format!("t{index}"), Ps(period), Ps(random.within(1, (period / (count + 1)).max(1))))
        });
        let set = TaskSet::new(specs.collect::<Vec<_>>()).unwrap();
        let period = random.within(1, 20);
        let given = resource(period, random.within(1, period));
        let monotonic = Policy::FixedPriority(Priorities::rate_monotonic(&set), Preemption::Full);
        for (policy, accepted) in [Policy::Edf, monotonic].iter().zip(&mut accepted) {
            let exact = || schedulable_on(&set, policy, &given, Supply::Exact, Effort::default());
            match resource_bound(&set, policy, &given) {
                Verdict::Schedulable(within) => {
                    *accepted += 1;
                    assert!(within.found <= within.most);
                    assert!(exact().is_schedulable(), "round {round}: {policy:?} {given:?} {set:?}");
                    let least = smallest_budget(&set, policy, Ps(period), Supply::Exact, Effort::default());
                    let Verdict::Schedulable(least) = least else { panic!("round {round}: {least:?}") };
                    assert!(least.budget_ps <= *given.budget(), "round {round}: {policy:?} {given:?} {set:?}");
                }
                Verdict::Unsupported(Unsupported::Inconclusive { found, most }) => {
                    assert!(found > most);
                    late += u32::from(exact().is_unschedulable());
                }
                Verdict::Unsupported(reason) => {
                    assert!(matches!(reason, Unsupported::Precondition { .. }), "{reason:?}");
                    short += 1;
                }
                Verdict::Unschedulable(_) => panic!("a bound never says no"),
            }
        }
    }
    let [edf, monotonic] = accepted;
    assert!(
        edf > 400 && monotonic > 400 && late > 400 && short > 400,
        "{edf} and {monotonic} accepted, {late} of the others are late, {short} with a period too short"
    );
}
