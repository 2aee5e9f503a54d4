//! Do supply bounds, verdicts and smallest budgets of periodic resources match the literature and a simulation?
//!
//! The tasks of the dissertation are compared with its text (5.3.5, Table 5.2), the budgets with values computed elsewhere
//! by exact arithmetic; what is said of Shin and Lee is from memory and from another tool's output.

use crate::common::{Job, Shape, arrivals, random_set};
use memtint_sched::{
    Cause, Effort, Limit, PeriodicResource, Policy, Preemption, Priorities, SchedError, Supply, TaskIndex, TaskSet,
    TaskSpec, Unsupported, Verdict, budget_curve, schedulable_on, smallest_budget,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use num_bigint::BigUint;
use num_rational::Ratio;

fn set(tasks: &[(u64, u64)]) -> TaskSet {
    let spec =
        |(index, &(period, wcet)): (usize, &(u64, u64))| TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet));
    TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap()
}

fn ratio(numerator: u64, denominator: u64) -> Ratio<BigUint> {
    Ratio::new(numerator.into(), denominator.into())
}

fn resource(period: u64, budget: Ratio<BigUint>) -> PeriodicResource {
    PeriodicResource::new(Ps(period), budget).unwrap()
}

fn monotonic(set: &TaskSet) -> Policy {
    Policy::FixedPriority(Priorities::deadline_monotonic(set), Preemption::Full)
}

fn smallest(set: &TaskSet, policy: &Policy, period: u64, supply: Supply) -> Ratio<BigUint> {
    match smallest_budget(set, policy, Ps(period), supply, Effort::default()) {
        Verdict::Schedulable(found) => found.budget_ps,
        other => panic!("{other:?}"),
    }
}

#[test]
fn supply_is_never_negative_and_grows_as_drawn() {
    // A defect seen elsewhere: -4, -3, -2, -1 for windows of 0 to 3.
    let six = resource(10, ratio(6, 1));
    let exact: Vec<_> = (0..=24u64).map(|t| six.supply(&t.into())).collect();
    let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 7, 8, 9, 10, 11, 12];
    assert_eq!(exact, expected.map(|value| ratio(value, 1)));
    for t in 0..200u64 {
        let t = BigUint::from(t);
        assert!(six.linear_supply(&t) <= six.supply(&t), "the bound from below at {t}");
    }
    assert_eq!(six.linear_supply(&BigUint::from(14u8)), ratio(18, 5));
    assert_eq!(resource(10, ratio(10, 1)).supply(&7u8.into()), ratio(7, 1));
    assert_eq!(resource(10, ratio(5, 2)).supply(&26u8.into()), ratio(7, 2), "2.5 from 15 to 17.5, then from 25");
}

#[test]
fn resources_are_refused_by_field() {
    let refused = |period, budget| PeriodicResource::new(Ps(period), budget).unwrap_err();
    assert!(matches!(refused(0, ratio(1, 1)), SchedError::Resource { field: "period", .. }));
    assert_eq!(
        refused(4, ratio(9, 2)).to_string(),
        "periodic resource: budget is 9/2 ps; accepted is more than 0 ps, at most the period, 4 ps"
    );
    assert!(matches!(refused(4, ratio(0, 1)), SchedError::Resource { field: "budget", .. }));
}

#[test]
fn the_workload_of_shin_and_lee() {
    let exact = set(&[(50, 7), (75, 9)]);
    // 2.7857..., where an implementation without the clamp said 10.
    assert_eq!(smallest(&exact, &Policy::Edf, 10, Supply::Exact), ratio(39, 14));
    // Rate monotonic with the linear bound: 3.687 of 10, here in thousandths, rounded up.
    let fine = set(&[(50_000, 7000), (75_000, 9000)]);
    assert_eq!(smallest(&fine, &monotonic(&fine), 10_000, Supply::Linear), ratio(3688, 1));
}

#[test]
fn the_servers_of_a_dissertation_do_not_pass_its_analysis() {
    // Pan 2018, example of 5.3.5: two servers of 6 in 16, rate monotonic; the smallest that do are 11 and 8.
    let (first, second) = (set(&[(16, 4), (16, 2)]), set(&[(32, 8), (64, 8)]));
    for (tasks, exact, linear) in [(&first, 11, 12), (&second, 8, 8)] {
        assert_eq!(smallest(tasks, &monotonic(tasks), 16, Supply::Exact), ratio(exact, 1));
        assert_eq!(smallest(tasks, &monotonic(tasks), 16, Supply::Linear), ratio(linear, 1));
        let six = resource(16, ratio(6, 1));
        let verdict = schedulable_on(tasks, &monotonic(tasks), &six, Supply::Exact, Effort::default());
        let Verdict::Unschedulable(late) = verdict else { panic!("6 of 16 is too little") };
        let Cause::Supply(supplied) = late.cause else { panic!("the supply is what lacks") };
        assert!(Ratio::from_integer(late.demand_ps) > supplied);
    }
    // 5.3.7 for rate monotonic takes the response on a whole processor: a budget of 1 in 2, where 6/5 are needed.
    let small = set(&[(4, 1), (8, 2)]);
    assert_eq!(smallest(&small, &monotonic(&small), 2, Supply::Exact), ratio(6, 5));
}

#[test]
fn the_servers_of_table_5_2_ask_for_more_than_a_processor() {
    // In microseconds: 2.4 and 1.6 ms of 4 ms were configured.
    let first = set(&[(20_000, 3000), (10_000, 1600), (8000, 2000)]);
    let second = set(&[(10_000, 1200), (40_000, 10_000)]);
    assert_eq!(smallest(&first, &Policy::Edf, 4000, Supply::Exact), ratio(2400, 1));
    assert_eq!(smallest(&second, &Policy::Edf, 4000, Supply::Exact), ratio(14_800, 9));
    assert_eq!(smallest(&first, &monotonic(&first), 4000, Supply::Exact), ratio(2700, 1));
    assert_eq!(smallest(&second, &monotonic(&second), 4000, Supply::Exact), ratio(14_800, 9));
    assert_eq!(smallest(&first, &Policy::Edf, 4000, Supply::Linear), ratio(2431, 1));
    assert_eq!(smallest(&second, &Policy::Edf, 4000, Supply::Linear), ratio(1675, 1));
    let sixteen = resource(4000, ratio(1600, 1));
    let Verdict::Unschedulable(late) =
        schedulable_on(&second, &Policy::Edf, &sixteen, Supply::Exact, Effort::default())
    else {
        panic!("14.8 ms due in 40 ms, 14.4 supplied")
    };
    assert_eq!((late.window_ps, late.demand_ps), (40_000u32.into(), 14_800u32.into()));
    assert_eq!(late.cause, Cause::Supply(ratio(14_400, 1)));
}

#[test]
fn what_is_not_covered_is_unsupported() {
    let beyond = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(2)).deadline(Ps(11))]).unwrap();
    let half = resource(10, ratio(5, 1));
    let order = Priorities::rate_monotonic(&beyond);
    for preemption in [Preemption::Full, Preemption::None] {
        let policy = Policy::FixedPriority(order.clone(), preemption);
        let verdict = schedulable_on(&beyond, &policy, &half, Supply::Exact, Effort::default());
        assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Precondition { .. })));
    }
    // Enough with the exact supply; the linear one cannot tell.
    let tight = set(&[(50, 7), (75, 9)]);
    let enough = resource(10, ratio(39, 14));
    let verdict = schedulable_on(&tight, &Policy::Edf, &enough, Supply::Linear, Effort::default());
    assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Inconclusive { .. })));
    // Less than the utilization is a no with either.
    let little = resource(10, ratio(1, 1));
    for supply in [Supply::Exact, Supply::Linear] {
        let verdict = schedulable_on(&tight, &Policy::Edf, &little, supply, Effort::default());
        assert!(matches!(verdict, Verdict::Unschedulable(_)));
    }
}

#[test]
fn a_set_that_fails_on_a_whole_processor_has_no_budget() {
    let over = set(&[(4, 3), (6, 3)]);
    for policy in [Policy::Edf, monotonic(&over)] {
        let verdict = smallest_budget(&over, &policy, Ps(3), Supply::Exact, Effort::default());
        assert!(verdict.is_unschedulable());
    }
    let full = set(&[(4, 2), (6, 3)]);
    assert_eq!(smallest(&full, &Policy::Edf, 5, Supply::Exact), ratio(5, 1));
}

#[test]
fn short_periods_need_less() {
    let tasks = set(&[(20, 3), (50, 9)]);
    let periods = || (1..=20).map(Ps);
    let curve = budget_curve(&tasks, &Policy::Edf, periods(), Supply::Exact, Effort::default());
    let bandwidth = |(period, verdict): &(Ps, Verdict<_>)| match verdict {
        Verdict::Schedulable(memtint_sched::Budget { budget_ps, limit }) => {
            assert!(matches!(limit, Limit::Window { .. }));
            budget_ps / BigUint::from(period.0)
        }
        other => panic!("{other:?}"),
    };
    let bandwidths: Vec<_> = curve.iter().map(bandwidth).collect();
    assert_eq!(curve.iter().map(|point| point.0).collect::<Vec<_>>(), periods().collect::<Vec<_>>());
    assert!(bandwidths[0] < bandwidths[4] && bandwidths[4] < bandwidths[19]);
    assert!(bandwidths.iter().all(|bandwidth| *bandwidth > tasks.utilization()));
}

/// Whether a deadline is missed on the worst supply, tick by tick: nothing for twice the gap, then the budget first.
fn misses(set: &TaskSet, policy: &Policy, period: u64, budget: u64, ticks: i64) -> bool {
    let place = |task: usize| match policy {
        Policy::FixedPriority(order, _) => {
            order.order().iter().position(|&other| other == TaskIndex(task)).unwrap() as i64
        }
        Policy::Edf | Policy::NonPreemptiveEdf => 0,
    };
    let mut jobs: Vec<Job> = (0..set.tasks().len())
        .flat_map(|task| {
            let deadline = set.tasks()[task].deadline().0 as i64;
            arrivals(
                set,
                task,
                0,
                ticks,
                |arrival| if *policy == Policy::Edf { arrival + deadline } else { place(task) },
            )
        })
        .collect();
    let due = |job: &Job| job.arrival + set.tasks()[job.task].deadline().0 as i64;
    // A job counts from its release, or from its deadline if that is earlier.
    jobs.sort_by_key(|job| -job.release.min(due(job)));
    let dark = 2 * (period - budget) as i64;
    let mut active: Vec<Job> = Vec::new();
    for now in 0..=ticks {
        while let Some(job) = jobs.pop_if(|job| job.release.min(due(job)) <= now) {
            active.push(job);
        }
        if active.iter().any(|job| due(job) <= now) {
            return true;
        }
        if now >= dark && (now - dark) % (period as i64) < budget as i64 {
            let ready = active.iter_mut().filter(|job| job.release <= now);
            if let Some(job) = ready.min_by_key(|job| (job.urgency, job.release)) {
                job.work -= 1;
            }
        }
        active.retain(|job| job.work > 0);
    }
    false
}

#[test]
fn verdicts_agree_with_a_simulation_of_the_worst_supply() {
    let mut random = Random::new(51);
    let (mut yes, mut no) = (0, 0);
    for round in 0..500 {
        let deadline = 1 + round % 2;
        let set = random_set(&mut random, Shape { tasks: 3, period: 12, jitter: round % 3, blocking: 0, deadline });
        let period = random.within(1, 7);
        let ticks = 2 * set.hyperperiod_time().unwrap().0 as i64 * period as i64 + 100;
        if ticks > 2500 {
            continue;
        }
        for policy in [Policy::Edf, monotonic(&set)] {
            for budget in 1..=period {
                let given = resource(period, ratio(budget, 1));
                match schedulable_on(&set, &policy, &given, Supply::Exact, Effort::default()) {
                    Verdict::Schedulable(_) => {
                        yes += 1;
                        assert!(!misses(&set, &policy, period, budget, ticks), "round {round}: {given:?} {set:?}");
                    }
                    Verdict::Unschedulable(late) => {
                        no += 1;
                        let until = i64::try_from(late.window_ps.clone()).unwrap().max(ticks);
                        assert!(
                            misses(&set, &policy, period, budget, until),
                            "round {round}: {late:?} {given:?} {set:?}"
                        );
                    }
                    Verdict::Unsupported(reason) => assert!(matches!(reason, Unsupported::Precondition { .. })),
                }
            }
        }
    }
    assert!(yes > 150 && no > 500, "{yes} yes, {no} no");
}

#[test]
fn smallest_budgets_are_smallest() {
    let mut random = Random::new(52);
    let (mut found, mut broken) = (0, 0);
    for round in 0..1500 {
        let shape = Shape { tasks: 3, period: 30, jitter: round % 3, blocking: round % 2 * 2, deadline: 1 };
        let set = random_set(&mut random, shape);
        let period = random.within(1, 12);
        for policy in [Policy::Edf, monotonic(&set)] {
            for supply in [Supply::Exact, Supply::Linear] {
                let budget = match smallest_budget(&set, &policy, Ps(period), supply, Effort::default()) {
                    Verdict::Schedulable(budget) => budget.budget_ps,
                    Verdict::Unschedulable(_) => continue,
                    Verdict::Unsupported(reason) => panic!("{reason:?} {set:?}"),
                };
                found += 1;
                broken += u32::from(!budget.is_integer());
                let accepts = |budget: Ratio<BigUint>| {
                    let given = resource(period, budget);
                    schedulable_on(&set, &policy, &given, supply, Effort::default()).is_schedulable()
                };
                assert!(accepts(budget.clone()), "round {round}: {budget} of {period} is too little for {set:?}");
                let less = match supply {
                    Supply::Exact => budget * ratio(999_999, 1_000_000),
                    Supply::Linear if budget <= ratio(1, 1) => continue,
                    Supply::Linear => budget - ratio(1, 1),
                };
                assert!(!accepts(less.clone()), "round {round}: {less} of {period} would do for {set:?}");
            }
        }
    }
    assert!(found > 1000 && broken > 100, "{found} budgets, {broken} of them fractions");
}
