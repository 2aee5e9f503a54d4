//! Does the checker accept what is right, and refuse everything that is not? Does each yes hold in it?

use crate::common::{Job, Shape, arrivals, random_set, simulate};
use memtint_sched::{
    Coverage, Effort, Evidence, Policy, Preemption, Priorities, Run, Schedule, TaskIndex, TaskSet, TaskSpec,
    Unsupported, Verdict, Violation, check, judge, schedule,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;

fn set(tasks: &[(u64, u64)]) -> TaskSet {
    let spec =
        |(index, &(period, wcet)): (usize, &(u64, u64))| TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet));
    TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap()
}

fn run(task: usize, job: u64, start: u64, end: u64) -> Run {
    Run { task: TaskIndex(task), job, start: Ps(start), end: Ps(end) }
}

/// Two tasks (T 4, C 1) and (T 6, C 3), rate monotonic, over their hyperperiod, by hand.
fn by_hand() -> (TaskSet, Schedule) {
    let set = set(&[(4, 1), (6, 3)]);
    let policy = Policy::FixedPriority(Priorities::rate_monotonic(&set), Preemption::Full);
    let runs =
        vec![run(0, 0, 0, 1), run(1, 0, 1, 4), run(0, 1, 4, 5), run(1, 1, 6, 8), run(0, 2, 8, 9), run(1, 1, 9, 10)];
    (set, Schedule { policy, window: Ps(12), coverage: Coverage::Hyperperiod, runs })
}

#[test]
fn a_schedule_by_hand_is_accepted_and_generated() {
    let (set, expected) = by_hand();
    assert_eq!(schedule(&set, &expected.policy, 100), expected);
    let accepted = check(&set, &expected).unwrap();
    assert_eq!((accepted.jobs, accepted.idle), (5, Ps(3)));
    assert_eq!(accepted.responses, [Some(Ps(1)), Some(Ps(4))]);
}

#[test]
fn every_way_to_be_wrong_is_refused_by_its_name() {
    let (set, right) = by_hand();
    let refused = |change: &dyn Fn(&mut Schedule)| {
        let mut wrong = right.clone();
        change(&mut wrong);
        check(&set, &wrong).unwrap_err()
    };
    assert!(matches!(refused(&|s| s.runs[3] = run(1, 1, 5, 7)), Violation::NotArrived { run: 3, .. }));
    assert!(matches!(refused(&|s| s.runs[3] = run(7, 0, 6, 8)), Violation::NotArrived { task: TaskIndex(7), .. }));
    assert!(matches!(refused(&|s| s.runs[1].start = Ps(0)), Violation::Overlap { run: 1, .. }));
    assert!(matches!(refused(&|s| s.runs[1].end = Ps(1)), Violation::Overlap { run: 1, .. }));
    assert!(matches!(refused(&|s| s.runs[5].end = Ps(13)), Violation::Overlap { run: 5, .. }));
    assert!(matches!(refused(&|s| s.runs[5].end = Ps(11)), Violation::TooMuch { run: 5, .. }));
    assert!(matches!(refused(&|s| s.runs.truncate(5)), Violation::Late { task: TaskIndex(1), job: 1, .. }));
    assert!(matches!(
        refused(&|s| s.runs[5] = run(1, 1, 10, 11)),
        Violation::Idle { task: TaskIndex(1), job: 1, at: Ps(9) }
    ));
    assert!(matches!(refused(&|s| s.runs[2].job = 2), Violation::NotArrived { run: 2, .. }));
    assert!(matches!(
        refused(&|s| s.runs.splice(3.., [run(1, 1, 6, 9), run(0, 2, 9, 10)]).for_each(drop)),
        Violation::Overtaken { run: 3, task: TaskIndex(0), job: 2, at: Ps(8) }
    ));
    assert!(matches!(
        refused(&|s| s.runs.retain(|run| run.job != 1 || run.task != TaskIndex(0))),
        Violation::OutOfOrder { task: TaskIndex(0), job: 2, earlier: 1, .. }
    ));
    assert!(matches!(
        refused(&|s| s.policy = Policy::FixedPriority(Priorities::rate_monotonic(&set), Preemption::None)),
        Violation::Interrupted { run: 5, .. }
    ));
    assert!(matches!(refused(&|s| s.window = Ps(11)), Violation::Window { .. }));
    assert!(matches!(refused(&|s| s.coverage = Coverage::Phases), Violation::Window { .. }));
    let other = Priorities::rate_monotonic(&self::set(&[(4, 1)]));
    assert!(matches!(
        refused(&|s| s.policy = Policy::FixedPriority(other.clone(), Preemption::Full)),
        Violation::Priorities { found: 1, tasks: 2 }
    ));
}

#[test]
fn priorities_and_deadlines_are_told_apart() {
    let (set, right) = by_hand();
    // Under EDF the second job of task 1 (deadline 12) and the third of task 0 (12) are equals: both orders are right.
    let mut edf = Schedule { policy: Policy::Edf, ..right.clone() };
    assert!(check(&set, &edf).is_ok());
    edf.runs.splice(3.., [run(1, 1, 6, 9), run(0, 2, 9, 10)]).for_each(drop);
    assert!(check(&set, &edf).is_ok());
    // The other way round task 1 goes first, and task 0 is overtaken.
    let given = Priorities::given(&set, vec![TaskIndex(1), TaskIndex(0)]).unwrap();
    let reversed = Schedule { policy: Policy::FixedPriority(given, Preemption::Full), ..right };
    assert!(matches!(check(&set, &reversed), Err(Violation::Overtaken { run: 0, task: TaskIndex(1), .. })));
}

fn policies(set: &TaskSet) -> [Policy; 4] {
    let order = Priorities::deadline_monotonic(set);
    [
        Policy::FixedPriority(order.clone(), Preemption::Full),
        Policy::FixedPriority(order, Preemption::None),
        Policy::Edf,
        Policy::NonPreemptiveEdf,
    ]
}

#[test]
fn every_yes_has_a_witness_within_its_bounds() {
    let mut random = Random::new(41);
    let (mut yes, mut phased) = (0, 0);
    for round in 0..3000 {
        let shape = Shape { tasks: 4, period: 12, jitter: round % 2 * 2, blocking: round % 3, deadline: 2 };
        let mut set = random_set(&mut random, shape);
        if round % 4 == 0 {
            let specs = set.tasks().iter().map(|task| task.spec().phase(Ps(random.within(0, 9)))).collect::<Vec<_>>();
            set = TaskSet::new(specs).unwrap();
        }
        for policy in policies(&set) {
            match judge(&set, &policy, Effort::default(), 100_000) {
                Verdict::Schedulable(witness) => {
                    yes += 1;
                    phased += u32::from(witness.schedule.coverage == Coverage::Phases);
                    if let Evidence::Responses(bounds) = &witness.evidence {
                        for (bound, seen) in bounds.iter().zip(&witness.accepted.responses) {
                            assert!(seen.unwrap() <= bound.response, "round {round}: {set:?}");
                        }
                    }
                }
                Verdict::Unschedulable(late) => assert!(late.demand_ps > late.window_ps),
                Verdict::Unsupported(Unsupported::Precondition { needs, .. }) => {
                    assert!(policy == Policy::NonPreemptiveEdf && needs.contains("blocking"), "{needs} {set:?}");
                }
                Verdict::Unsupported(reason) => assert!(matches!(reason, Unsupported::Phases(_)), "{reason:?} {set:?}"),
            }
        }
    }
    assert!(yes > 2000 && phased > 200, "{yes} yes, {phased} with phases");
}

#[test]
fn schedules_are_what_a_simulation_tick_by_tick_does() {
    let mut random = Random::new(42);
    for round in 0..300 {
        let set = random_set(&mut random, Shape { tasks: 4, period: 8, jitter: 0, blocking: 0, deadline: 2 });
        for policy in policies(&set) {
            let found = schedule(&set, &policy, 100_000);
            let end = found.window.0 as i64;
            let order = Priorities::deadline_monotonic(&set);
            let place = |task: usize| order.order().iter().position(|&other| other == TaskIndex(task)).unwrap() as i64;
            let mut jobs: Vec<Job> = (0..set.tasks().len())
                .flat_map(|task| {
                    let deadline = set.tasks()[task].deadline().0 as i64;
                    let urgency = |arrival: i64| match policy {
                        // Among equal deadlines, the first task of the set.
                        Policy::Edf | Policy::NonPreemptiveEdf => (arrival + deadline) * 8 + task as i64,
                        Policy::FixedPriority(..) => place(task),
                    };
                    arrivals(&set, task, 0, end, urgency)
                })
                .collect();
            let preemptive = policy.preemption() == Preemption::Full;
            simulate(&mut jobs, preemptive, end);
            for job in jobs.iter().filter(|job| job.completion.is_some()) {
                let number = job.arrival as u64 / set.tasks()[job.task].period().0;
                let last =
                    found.runs.iter().rev().find(|run| (run.task, run.job) == (TaskIndex(job.task), number)).unwrap();
                assert_eq!(last.end.0 as i64, job.completion.unwrap(), "round {round}: {policy:?} {set:?}");
            }
        }
    }
}

#[test]
fn damaged_schedules_are_refused() {
    // Any run moved, lengthened, shortened, dropped or given to another task makes a schedule of one that is not.
    let mut random = Random::new(43);
    let mut refused = 0;
    for _ in 0..500 {
        let set = random_set(&mut random, Shape { tasks: 4, period: 8, jitter: 0, blocking: 0, deadline: 1 });
        for policy in policies(&set) {
            let Verdict::Schedulable(witness) = judge(&set, &policy, Effort::default(), 100_000) else { continue };
            let mut wrong = witness.schedule;
            let at = random.within(0, wrong.runs.len() as u64 - 1) as usize;
            match random.within(0, 4) {
                0 => wrong.runs[at].end.0 += 1,
                1 => wrong.runs[at].end.0 -= 1,
                2 => _ = wrong.runs.remove(at),
                3 => wrong.runs[at].job += 1,
                _ => {
                    wrong.runs[at].start.0 += 1;
                    wrong.runs[at].end.0 += 1;
                }
            }
            refused += 1;
            assert!(check(&set, &wrong).is_err(), "accepted: {wrong:?} of {set:?}");
        }
    }
    assert!(refused > 200, "{refused} schedules");
}

#[test]
fn a_window_that_is_too_long_is_cut_and_says_so() {
    let set = set(&[(1_000_003, 10), (999_983, 10), (1_000_000_007, 10)]);
    let Verdict::Schedulable(witness) = judge(&set, &Policy::Edf, Effort::default(), 1000) else {
        panic!("hardly used")
    };
    assert_eq!(witness.schedule.coverage, Coverage::Part(set.hyperperiod()));
    assert!(witness.accepted.jobs >= 990 && witness.accepted.jobs <= 1000, "{} jobs", witness.accepted.jobs);
}
