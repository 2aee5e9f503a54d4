//! Are the answers for given phases those of a simulation that goes on for much longer?

use crate::common::{Job, Shape, arrivals, random_set, simulate};
use memtint_sched::{
    Cause, Coverage, Effort, Policy, Preemption, Priorities, TaskIndex, TaskSet, TaskSpec, Unsupported, Verdict, judge,
    judge_phases,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use num_bigint::BigUint;

/// Whether a job is late in a simulation of so many ticks.
fn late(set: &TaskSet, order: Option<&Priorities>, ticks: i64) -> bool {
    let mut jobs: Vec<Job> = (0..set.tasks().len())
        .flat_map(|task| {
            let own = &set.tasks()[task];
            let place =
                order.map(|order| order.order().iter().position(|&other| other == TaskIndex(task)).unwrap() as i64);
            let deadline = own.deadline().0 as i64;
            arrivals(set, task, own.phase().0 as i64, ticks, move |arrival| place.unwrap_or(arrival + deadline))
        })
        .collect();
    simulate(&mut jobs, true, ticks);
    let due = |job: &Job| job.arrival + set.tasks()[job.task].deadline().0 as i64;
    jobs.iter().any(|job| due(job) <= ticks && job.completion.is_none_or(|end| end > due(job)))
}

#[test]
fn answers_are_those_of_a_longer_simulation() {
    let mut random = Random::new(81);
    let (mut yes, mut no, mut gained, mut unseen) = (0, 0, 0, 0);
    for round in 0..1500 {
        let plain = random_set(&mut random, Shape { tasks: 3, period: 8, jitter: 0, blocking: 0, deadline: 1 });
        let specs = plain.tasks().iter().map(|task| task.spec().phase(Ps(random.within(0, 9))));
        let set = TaskSet::new(specs.collect::<Vec<_>>()).unwrap();
        let hyperperiod = set.hyperperiod_time().unwrap().0 as i64;
        let order = Priorities::deadline_monotonic(&set);
        let fixed = Policy::FixedPriority(order.clone(), Preemption::Full);
        for (policy, order) in [(fixed, Some(&order)), (Policy::Edf, None)] {
            let seen = late(&set, order, 20 + 4 * hyperperiod);
            match judge_phases(&set, &policy, 100_000) {
                Verdict::Schedulable(schedule) => {
                    yes += 1;
                    assert!(!seen, "round {round}: {policy:?} {set:?}");
                    assert_ne!(schedule.coverage, Coverage::Part(BigUint::from(0u8)));
                    let any = judge(&set, &policy, Effort::default(), 1000);
                    gained += u32::from(matches!(any, Verdict::Unsupported(Unsupported::Phases(_))));
                }
                Verdict::Unschedulable(found) => {
                    no += 1;
                    // A utilization above 1 can take any number of hyperperiods to show.
                    let certain = matches!(found.cause, Cause::Utilization(_));
                    assert!(seen || certain, "round {round}: {policy:?} {set:?}");
                    unseen += u32::from(!seen);
                    assert!(found.demand_ps > found.window_ps, "round {round}: {found:?}");
                }
                Verdict::Unsupported(reason) => panic!("round {round}: {reason:?}"),
            }
        }
    }
    assert!(
        yes > 400 && no > 400 && gained > 15 && unseen < 100,
        "{yes} yes, {no} no, {gained} not schedulable with any phases"
    );
}

#[test]
fn what_is_beyond_the_theorem_or_the_limit_is_unsupported() {
    let set = |spec: TaskSpec| TaskSet::new([spec, TaskSpec::new("b", Ps(7), Ps(1)).phase(Ps(1))]).unwrap();
    let plain = TaskSpec::new("a", Ps(5), Ps(1));
    for spec in [plain.clone().jitter(Ps(1)), plain.clone().blocking(Ps(1)), plain.clone().deadline(Ps(6))] {
        let verdict = judge_phases(&set(spec), &Policy::Edf, 100);
        assert!(
            matches!(verdict, Verdict::Unsupported(Unsupported::Precondition { task: TaskIndex(0), .. })),
            "{verdict:?}"
        );
    }
    // Two hyperperiods of 35 hold 14 and 10 jobs, and some more for the phase.
    assert!(judge_phases(&set(plain.clone()), &Policy::Edf, 30).is_schedulable());
    let verdict = judge_phases(&set(plain), &Policy::Edf, 20);
    let hyperperiod_ps = BigUint::from(35u8);
    assert_eq!(verdict, Verdict::Unsupported(Unsupported::Horizon { hyperperiod_ps, jobs_max: 20 }));
}
