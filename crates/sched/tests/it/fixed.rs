//! Do response times under fixed priority match the literature, and a simulation tick by tick?
//!
//! The examples of books and papers are quoted from memory: none of those texts was at hand. Their numbers do not stand
//! alone: the random tests below find the same function in a simulation.

use crate::common::{Job, Shape, arrivals, longest, ps, random_set, simulate};
use memtint_sched::{
    Cause, Effort, Overload, Preemption, Priorities, SchedError, TIME_MAX, Task, TaskIndex, TaskSet, TaskSpec,
    Unsupported, Verdict, WorstCase, fixed_priority, worst_response,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use num_bigint::BigUint;
use num_rational::Ratio;

fn set(tasks: &[(u64, u64, u64)]) -> TaskSet {
    let spec = |(index, &(period, wcet, deadline)): (usize, &(u64, u64, u64))| {
        TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet)).deadline(Ps(deadline))
    };
    TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap()
}

fn in_order(set: &TaskSet) -> Priorities {
    Priorities::given(set, set.indices().collect()).unwrap()
}

fn responses(set: &TaskSet, preemption: Preemption) -> Vec<(u64, u64)> {
    let order = in_order(set);
    let one = |task| match worst_response(set, &order, preemption, task, Effort::default()).unwrap() {
        WorstCase::Bounded(worst) => (worst.response.0, worst.job),
        WorstCase::Unbounded(found) => panic!("task {task} is unbounded: {found}"),
    };
    set.indices().map(one).collect()
}

/// Every job of the busy window, from the recurrence written down once more.
fn every_response(set: &TaskSet, task: usize) -> Vec<u64> {
    let own = &set.tasks()[task];
    let mut all = Vec::new();
    for q in 0.. {
        let mut window = 0;
        loop {
            let higher =
                set.tasks()[..task].iter().map(|t| window_jobs(window, t.period().0) * t.wcet().0).sum::<u64>();
            let next = (q + 1) * own.wcet().0 + higher;
            if next == window {
                break;
            }
            window = next;
        }
        all.push(window - q * own.period().0);
        if window <= (q + 1) * own.period().0 {
            return all;
        }
    }
    unreachable!()
}

fn window_jobs(window: u64, period: u64) -> u64 {
    window.div_ceil(period)
}

#[test]
fn joseph_and_pandya_burns_and_wellings_textbook_set() {
    // Burns and Wellings, Real-Time Systems and Programming Languages, 3rd edition, table 13.5: R = 3, 6, 20.
    let set = set(&[(7, 3, 7), (12, 3, 12), (20, 5, 20)]);
    assert_eq!(responses(&set, Preemption::Full), [(3, 0), (6, 0), (20, 0)]);
    assert!(fixed_priority(&set, &in_order(&set), Preemption::Full, Effort::default()).is_schedulable());
}

#[test]
fn lehoczky_sha_ding_1989_response_times() {
    // Example of the exact characterization: (40, 100), (40, 150), (100, 350), U = 0.953, above the Liu-Layland bound.
    let set = set(&[(100, 40, 100), (150, 40, 150), (350, 100, 350)]);
    assert_eq!(responses(&set, Preemption::Full), [(40, 0), (80, 0), (300, 0)]);
}

#[test]
fn lehoczky_1990_the_worst_job_is_not_the_first() {
    let set = set(&[(70, 26, 70), (100, 62, 118)]);
    assert_eq!(every_response(&set, 1), [114, 102, 116, 104, 118, 106, 94]);
}

#[test]
fn davis_2007_the_first_job_is_not_the_worst_even_with_short_deadlines() {
    // Table 2 of "CAN schedulability analysis: refuted, revisited and revised", in microseconds.
    let set = set(&[(2500, 1000, 2500), (3500, 1000, 3250), (3500, 1000, 3250)]);
    let order = in_order(&set);
    // Published: 2, 3, 3.5 ms; the two first are blocked by what began 1 tick before.
    assert_eq!(responses(&set, Preemption::None), [(1999, 0), (2999, 0), (3500, 1)]);
    let Verdict::Unschedulable(late) = fixed_priority(&set, &order, Preemption::None, Effort::default()) else {
        panic!("the second job of C misses 3.25 ms")
    };
    assert_eq!((late.task, late.job, late.cause), (TaskIndex(2), 1u8.into(), Cause::Start));
    // It would have to start at 3.5 + 3.25 - 1 = 5.75 ms; 3 of A, 2 of B and 1 of C go first.
    assert_eq!((late.window_ps, late.demand_ps), (5750u32.into(), 6000u32.into()));
}

#[test]
fn jitter_and_blocking_by_hand() {
    // Tindell, Burns, Wellings 1994: w = B + C + sum of ceil((w + J) / T) C, R = w + J.
    let with = |jitter| {
        TaskSet::new([
            TaskSpec::new("high", Ps(10), Ps(3)).jitter(Ps(jitter)),
            TaskSpec::new("low", Ps(40), Ps(9)).blocking(Ps(2)).jitter(Ps(5)),
        ])
        .unwrap()
    };
    // 2 + 9 + 2 * 3 = 17; a jitter of 3 still lets two jobs in ([0, 17 + 3] holds two), 4 lets in a third.
    assert_eq!(responses(&with(3), Preemption::Full)[1], (22, 0));
    assert_eq!(responses(&with(4), Preemption::Full)[1], (25, 0));
}

#[test]
fn full_utilization_is_no_obstacle() {
    // A defect seen elsewhere: (1, 2), (1, 4), (2, 8) refused because U = 1.
    let harmonic = set(&[(2, 1, 2), (4, 1, 4), (8, 2, 8)]);
    assert_eq!(responses(&harmonic, Preemption::Full), [(1, 0), (2, 0), (8, 0)]);
    // With blocking the busy window never ends; one hyperperiod of jobs is looked at.
    let blocked = TaskSet::new([
        TaskSpec::new("a", Ps(4), Ps(2)),
        TaskSpec::new("b", Ps(6), Ps(3)).blocking(Ps(5)).deadline(Ps(100)),
    ])
    .unwrap();
    let order = in_order(&blocked);
    for preemption in [Preemption::Full, Preemption::None] {
        let WorstCase::Bounded(worst) =
            worst_response(&blocked, &order, preemption, TaskIndex(1), Effort::default()).unwrap()
        else {
            panic!("bounded, though never idle")
        };
        assert_eq!(worst.jobs, 2, "a hyperperiod of 12 holds two");
    }
}

#[test]
fn above_full_utilization_the_answer_is_no_and_names_a_window() {
    let over = set(&[(4, 2, 4), (6, 4, 1_000_000)]);
    let order = in_order(&over);
    let Verdict::Unschedulable(late) = fixed_priority(&over, &order, Preemption::Full, Effort::default()) else {
        panic!("7/6 of a processor")
    };
    assert_eq!(late.cause, Cause::Utilization(Ratio::new(7u8.into(), 6u8.into())));
    assert!(late.demand_ps > late.window_ps);
    let unbounded = worst_response(&over, &order, Preemption::Full, TaskIndex(1), Effort::default()).unwrap();
    assert_eq!(unbounded, WorstCase::Unbounded(Ratio::new(7u8.into(), 6u8.into())));
    // So near to 1 that no floating-point number would tell, and no loop would end.
    let (long, half) = (TIME_MAX.0, TIME_MAX.0 / 2);
    let near = set(&[(long, half, long), (long - 1, half, long)]);
    assert!(fixed_priority(&near, &in_order(&near), Preemption::Full, Effort::default()).is_unschedulable());
    assert!(fixed_priority(&near, &in_order(&near), Preemption::None, Effort::default()).is_unschedulable());
}

#[test]
fn what_cannot_be_said_is_not_a_no() {
    let phased = TaskSet::new([
        TaskSpec::new("a", Ps(4), Ps(2)).deadline(Ps(2)),
        TaskSpec::new("b", Ps(4), Ps(2)).deadline(Ps(2)).phase(Ps(2)),
    ])
    .unwrap();
    let verdict = fixed_priority(&phased, &in_order(&phased), Preemption::Full, Effort::default());
    assert!(
        matches!(verdict, Verdict::Unsupported(Unsupported::Phases(late)) if late.task == TaskIndex(1)),
        "they alternate"
    );
    let tight = set(&[(1000, 999, 1000), (1_000_000_007, 1_000_000, 1_000_000_007)]);
    let verdict = fixed_priority(&tight, &in_order(&tight), Preemption::Full, Effort { steps_max: 10 });
    assert_eq!(verdict, Verdict::Unsupported(Unsupported::Effort { task: TaskIndex(1), steps_max: 10 }));
}

#[test]
fn a_release_after_the_deadline_is_a_no() {
    for preemption in [Preemption::Full, Preemption::None] {
        let late = TaskSet::new([TaskSpec::new("a", Ps(10), Ps(1)).deadline(Ps(3)).jitter(Ps(5))]).unwrap();
        assert!(fixed_priority(&late, &in_order(&late), preemption, Effort::default()).is_unschedulable());
    }
}

#[test]
fn input_is_refused_by_name() {
    let message = |specs: Vec<TaskSpec>| TaskSet::new(specs).unwrap_err().to_string();
    assert_eq!(
        message(vec![TaskSpec::new("a", Ps(0), Ps(1))]),
        "task \"a\": period is 0 ps; accepted is 1 ps to 1152921.504606846976 s"
    );
    assert_eq!(
        message(vec![TaskSpec::new("a", Ps(1), Ps(1)).jitter(Ps(1 << 61))]),
        "task \"a\": jitter is 2305843.009213693952 s; accepted is 0 ps to 1152921.504606846976 s"
    );
    assert!(message(vec![TaskSpec::new("a", Ps(1), Ps(1)); 2]).contains("task \"a\""));
    assert_eq!(TaskSet::new([]), Err(SchedError::Empty));
    let pair = set(&[(2, 1, 2), (3, 1, 3)]);
    assert_eq!(
        Priorities::given(&pair, vec![TaskIndex(0), TaskIndex(0)]),
        Err(SchedError::Order { found: vec![TaskIndex(0), TaskIndex(0)], last: TaskIndex(1) })
    );
}

#[test]
fn hyperperiods_are_exact_and_refused_with_the_number() {
    let primes = [1_000_000_007, 1_000_000_009, 998_244_353].map(|period| (period, 1, period));
    let large = set(&primes);
    let exact = BigUint::from(1_000_000_007u64) * 1_000_000_009u64 * 998_244_353u64;
    assert_eq!(large.hyperperiod(), exact);
    assert_eq!(large.hyperperiod_time(), Err(SchedError::Hyperperiod { found: exact.to_string(), most: TIME_MAX.0 }));
    assert_eq!(set(&[(4, 1, 4), (6, 1, 6)]).hyperperiod_time(), Ok(Ps(12)));
}

/// The critical window of a task, simulated: everybody's first release at `begin`, jitter used up, after something that
/// holds the processor until then.
fn critical(set: &TaskSet, task: usize, preemption: Preemption, ticks: i64) -> i64 {
    let begun = match preemption {
        Preemption::Full => 0,
        Preemption::None => set.tasks()[task + 1..].iter().map(|t| t.wcet().0 - 1).max().unwrap_or(0),
    };
    let hold = begun + set.tasks()[task].blocking().0;
    let mut jobs: Vec<Job> = (0..=task).flat_map(|other| arrivals(set, other, 0, ticks, |_| other as i64)).collect();
    if hold > 0 {
        jobs.push(Job { task: usize::MAX, arrival: 0, release: 0, work: hold, urgency: -1, completion: None });
    }
    simulate(&mut jobs, preemption == Preemption::Full, ticks);
    let seen: Vec<Job> = jobs.into_iter().filter(|job| job.completion.is_some()).collect();
    longest(&seen, task, ticks)
}

#[test]
fn the_critical_window_is_reached_exactly_on_random_sets() {
    let mut random = Random::new(1);
    let (mut bounded, mut later) = (0, 0);
    for round in 0..3000 {
        let shape = Shape { tasks: 4, period: 9, jitter: round % 3 * 4, blocking: round % 2 * 5, deadline: 3 };
        let set = random_set(&mut random, shape);
        for preemption in [Preemption::Full, Preemption::None] {
            for task in 0..set.tasks().len() {
                let found =
                    worst_response(&set, &in_order(&set), preemption, TaskIndex(task), Effort::default()).unwrap();
                if let WorstCase::Bounded(worst) = found
                    && worst.window.0 < 300
                {
                    bounded += 1;
                    later += u32::from(worst.job > 0);
                    // Beyond the critical window, nothing longer comes either.
                    let seen = critical(&set, task, preemption, 400);
                    assert_eq!(worst.response, ps(seen), "round {round}, task {task}, {preemption:?}: {set:?}");
                }
            }
        }
    }
    assert!(bounded > 5000 && later > 200, "{bounded} windows, {later} with a later job as the worst");
}

#[test]
fn no_phases_exceed_the_bound_and_some_reach_it() {
    // Without preemption, blocking comes from phases: try all.
    let mut random = Random::new(2);
    for round in 0..60 {
        let set = random_set(&mut random, Shape { tasks: 3, period: 6, jitter: 0, blocking: 0, deadline: 2 });
        for preemption in [Preemption::Full, Preemption::None] {
            let order = in_order(&set);
            let last = set.tasks().len() - 1;
            if !matches!(
                worst_response(&set, &order, preemption, TaskIndex(last), Effort::default()).unwrap(),
                WorstCase::Bounded(_)
            ) {
                continue;
            }
            let mut seen = vec![0; set.tasks().len()];
            let periods: Vec<u64> = set.tasks().iter().map(|task| task.period().0).collect();
            for combination in 0..periods.iter().product::<u64>() {
                let mut rest = combination;
                let mut jobs = Vec::new();
                for (task, period) in periods.iter().enumerate() {
                    let offset = (rest % period) as i64;
                    rest /= period;
                    jobs.extend(arrivals(&set, task, offset, 130, |_| task as i64));
                }
                simulate(&mut jobs, preemption == Preemption::Full, 130);
                for (task, seen) in seen.iter_mut().enumerate() {
                    let complete: Vec<Job> = jobs.iter().filter(|job| job.completion.is_some()).cloned().collect();
                    *seen = longest(&complete, task, 130).max(*seen);
                }
            }
            let bounds: Vec<i64> = responses(&set, preemption).iter().map(|bound| bound.0 as i64).collect();
            assert_eq!(bounds, seen, "round {round}, {preemption:?}: {set:?}");
        }
    }
}

/// The work that goes before the end of a window of an overload, from the task set alone.
fn demand(set: &TaskSet, order: &Priorities, preemption: Preemption, late: &Overload) -> u64 {
    let own = &set[late.task];
    let (window, job) = (u64::try_from(&late.window_ps).unwrap(), u64::try_from(&late.job).unwrap());
    let rank = order.order().iter().position(|&task| task == late.task).unwrap();
    let tasks = |order: &[TaskIndex]| order.iter().map(|&task| set[task].clone()).collect::<Vec<_>>();
    let (higher, lower) = (tasks(&order.order()[..rank]), tasks(&order.order()[rank + 1..]));
    let begun = lower.iter().map(|task| task.wcet().0 - 1).max().unwrap_or(0);
    let arrivals = |task: &Task, last: u64| {
        // Released at max(0, k T - J), counted one by one.
        (0..).map(|k| (k * task.period().0).saturating_sub(task.jitter().0)).take_while(|&at| at <= last).count() as u64
    };
    let interference = |last: u64| higher.iter().map(|task| arrivals(task, last) * task.wcet().0).sum::<u64>();
    match preemption {
        Preemption::Full => own.blocking().0 + (job + 1) * own.wcet().0 + interference(window - 1),
        Preemption::None => own.blocking().0 + begun + job * own.wcet().0 + interference(window),
    }
}

#[test]
fn slack_is_what_is_left() {
    let set = set(&[(7, 3, 7), (12, 3, 12), (20, 5, 20)]);
    let Verdict::Schedulable(all) = fixed_priority(&set, &in_order(&set), Preemption::Full, Effort::default()) else {
        panic!("Burns and Wellings")
    };
    assert_eq!(all.iter().map(|one| one.slack(&set)).collect::<Vec<_>>(), [4, 6, 0].map(|slack| Some(Ps(slack))));
}

#[test]
fn verdicts_agree_with_response_times() {
    let mut random = Random::new(3);
    let (mut yes, mut no) = (0, 0);
    for round in 0..4000 {
        let set = random_set(&mut random, Shape { tasks: 4, period: 12, jitter: 3, blocking: 2, deadline: 2 });
        for preemption in [Preemption::Full, Preemption::None] {
            let order = Priorities::deadline_monotonic(&set);
            let fits = |task| match worst_response(&set, &order, preemption, task, Effort::default()).unwrap() {
                WorstCase::Bounded(worst) => worst.response <= set[task].deadline(),
                WorstCase::Unbounded(_) => false,
            };
            match fixed_priority(&set, &order, preemption, Effort::default()) {
                Verdict::Schedulable(responses) => {
                    yes += 1;
                    assert_eq!(responses.len(), set.tasks().len());
                    assert!(set.indices().all(fits), "round {round}: {set:?}");
                }
                Verdict::Unschedulable(late) => {
                    no += 1;
                    assert!(!fits(late.task), "round {round}: {set:?}");
                    assert!(late.demand_ps > late.window_ps, "round {round}: {late:?} {set:?}");
                    let alone = late.cause == Cause::Deadline && preemption == Preemption::None;
                    if late.window_ps > BigUint::ZERO && !alone {
                        let counted = BigUint::from(demand(&set, &order, preemption, &late));
                        assert_eq!(late.demand_ps, counted, "round {round}: {late:?} {set:?}");
                    }
                }
                Verdict::Unsupported(reason) => panic!("round {round}: {reason:?}"),
            }
        }
    }
    assert!(yes > 500 && no > 500, "{yes} yes, {no} no");
}
