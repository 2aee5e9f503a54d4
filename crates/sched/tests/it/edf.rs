//! Do the tests and response times of EDF match the literature, each other, and a simulation tick by tick?

use crate::common::{Job, Shape, arrivals, longest, ps, random_set, simulate};
use memtint_sched::{
    Cause, Effort, TaskIndex, TaskSet, TaskSpec, Unsupported, Verdict, WorstCase, processor_demand,
    quick_processor_demand, worst_response_edf,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;

fn set(tasks: &[(u64, u64, u64)]) -> TaskSet {
    let spec = |(index, &(period, wcet, deadline)): (usize, &(u64, u64, u64))| {
        TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet)).deadline(Ps(deadline))
    };
    TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap()
}

fn both(set: &TaskSet) -> bool {
    let plain = processor_demand(set, Effort::default());
    let quick = quick_processor_demand(set, Effort::default());
    for verdict in [&plain, &quick] {
        match verdict {
            Verdict::Unschedulable(late) => assert!(late.demand_ps > late.window_ps, "{late:?} {set:?}"),
            Verdict::Unsupported(reason) => panic!("{reason:?} {set:?}"),
            Verdict::Schedulable(_) => {}
        }
    }
    assert_eq!(plain.is_schedulable(), quick.is_schedulable(), "{set:?}");
    plain.is_schedulable()
}

fn response(set: &TaskSet, task: usize) -> u64 {
    match worst_response_edf(set, TaskIndex(task), Effort::default()).unwrap() {
        WorstCase::Bounded(worst) => worst.response.0,
        WorstCase::Unbounded(found) => panic!("{found}"),
    }
}

#[test]
fn full_utilization_is_enough() {
    assert!(both(&set(&[(4, 2, 4), (6, 3, 6)])));
    assert!(both(&set(&[(2, 1, 2), (4, 1, 4), (8, 2, 8)])));
    assert!(!both(&set(&[(4, 2, 4), (6, 4, 6)])));
    assert!(!both(&set(&[(4, 2, 3), (6, 3, 4)])), "a defect seen elsewhere: yes from U <= 1 though D < T");
}

#[test]
fn the_shortest_overloaded_window_is_named() {
    let Verdict::Unschedulable(late) = processor_demand(&set(&[(4, 2, 3), (6, 3, 4)]), Effort::default()) else {
        panic!("5 due at 4")
    };
    assert_eq!((late.task, late.window_ps, late.demand_ps), (TaskIndex(1), 4u8.into(), 5u8.into()));
    assert_eq!(late.cause, Cause::Deadline);
}

#[test]
fn a_utilization_above_one_ends_no_loop() {
    let long = 1 << 60;
    let near = set(&[(long, long / 2, long), (long - 1, long / 2, long)]);
    assert!(!both(&near));
    assert!(matches!(worst_response_edf(&near, TaskIndex(0), Effort::default()), Ok(WorstCase::Unbounded(_))));
}

#[test]
fn phases_make_a_no_unsupported() {
    let phased = TaskSet::new([
        TaskSpec::new("a", Ps(4), Ps(2)).deadline(Ps(2)),
        TaskSpec::new("b", Ps(4), Ps(2)).deadline(Ps(2)).phase(Ps(2)),
    ])
    .unwrap();
    for verdict in [processor_demand(&phased, Effort::default()), quick_processor_demand(&phased, Effort::default())] {
        assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Phases(_))));
    }
}

/// The worst pattern for a task under EDF, simulated: the others from tick 0 with their jitter used up, it from any offset.
fn worst_simulated(set: &TaskSet, task: usize, ticks: i64) -> i64 {
    let own = &set.tasks()[task];
    let offsets = 0..own.period().0 as i64;
    let simulated = offsets.map(|offset| {
        let all = (0..set.tasks().len()).flat_map(|other| {
            let deadline = set.tasks()[other].deadline().0 as i64;
            let begin = if other == task { offset } else { 0 };
            arrivals(set, other, begin, ticks, move |arrival| 2 * (arrival + deadline) + i64::from(other == task))
        });
        let mut jobs: Vec<Job> = all.collect();
        simulate(&mut jobs, true, ticks);
        let complete: Vec<Job> = jobs.into_iter().filter(|job| job.completion.is_some()).collect();
        longest(&complete, task, ticks)
    });
    simulated.max().unwrap().max((own.jitter().0 + own.wcet().0) as i64)
}

#[test]
fn spuri_1996_four_tasks() {
    // As the examples of pycpa give it; the values compared are the simulation's. (C, D, T) = (1, 4, 4), (2, 9, 6), (2, 6, 8), (2, 12, 16), U = 23/24.
    let four = set(&[(4, 1, 4), (6, 2, 9), (8, 2, 6), (16, 2, 12)]);
    assert!(both(&four));
    for task in 0..4 {
        assert_eq!(response(&four, task) as i64, worst_simulated(&four, task, 200), "task {task}");
    }
}

#[test]
fn responses_are_reached_exactly_on_random_sets() {
    let mut random = Random::new(11);
    let mut bounded = 0;
    for round in 0..1500 {
        let set =
            random_set(&mut random, Shape { tasks: 4, period: 8, jitter: round % 3 * 3, blocking: 0, deadline: 2 });
        let WorstCase::Bounded(_) = worst_response_edf(&set, TaskIndex(0), Effort::default()).unwrap() else {
            continue;
        };
        let horizon = set.hyperperiod_time().unwrap().0 as i64;
        if horizon > 120 {
            continue;
        }
        for task in 0..set.tasks().len() {
            bounded += 1;
            let seen = worst_simulated(&set, task, 2 * horizon + 60);
            assert_eq!(ps(response(&set, task) as i64), ps(seen), "round {round}, task {task}: {set:?}");
        }
    }
    assert!(bounded > 300, "{bounded} bounds");
}

#[test]
fn demand_and_response_times_agree() {
    let mut random = Random::new(12);
    let (mut yes, mut no) = (0, 0);
    for round in 0..6000 {
        let set = random_set(&mut random, Shape { tasks: 4, period: 12, jitter: round % 4, blocking: 0, deadline: 2 });
        let fits = |task: usize| match worst_response_edf(&set, TaskIndex(task), Effort::default()).unwrap() {
            WorstCase::Bounded(worst) => worst.response <= set.tasks()[task].deadline(),
            WorstCase::Unbounded(_) => false,
        };
        let every = (0..set.tasks().len()).all(fits);
        assert_eq!(both(&set), every, "round {round}: {set:?}");
        if every { yes += 1 } else { no += 1 }
    }
    assert!(yes > 1000 && no > 1000, "{yes} yes, {no} no");
}

#[test]
fn with_blocking_a_yes_of_either_test_is_a_yes_of_the_responses() {
    let mut random = Random::new(13);
    let mut yes = 0;
    for round in 0..4000 {
        let set = random_set(&mut random, Shape { tasks: 4, period: 12, jitter: 2, blocking: 4, deadline: 2 });
        if both(&set) {
            yes += 1;
            for (task, own) in set.tasks().iter().enumerate() {
                assert!(response(&set, task) <= own.deadline().0, "round {round}, task {task}: {set:?}");
            }
        }
    }
    assert!(yes > 300, "{yes} yes");
}
