//! Does EDF without preemption answer as a simulation tick by tick does, in both directions?

use crate::common::{Job, Shape, arrivals, longest, random_set, simulate};
use memtint_sched::{
    Cause, Coverage, Effort, Overload, Policy, Run, TaskIndex, TaskSet, TaskSpec, Unsupported, Verdict, Violation,
    WorstCase, check, judge, nonpreemptive_edf, quick_processor_demand, worst_response_nonpreemptive_edf,
};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;

fn set(tasks: &[(u64, u64, u64)]) -> TaskSet {
    let spec = |(index, &(period, wcet, deadline)): (usize, &(u64, u64, u64))| {
        TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet)).deadline(Ps(deadline))
    };
    TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap()
}

fn yes(set: &TaskSet) -> bool {
    nonpreemptive_edf(set, Effort::default()).is_schedulable()
}

/// Whether a job whose deadline is in the simulation is late.
fn misses(set: &TaskSet, mut jobs: Vec<Job>, ticks: i64) -> bool {
    simulate(&mut jobs, false, ticks);
    let due = |job: &Job| job.arrival + set.tasks()[job.task].deadline().0 as i64;
    jobs.iter().any(|job| due(job) <= ticks && job.completion.is_none_or(|end| end > due(job)))
}

fn deadline(set: &TaskSet, task: usize) -> i64 {
    set.tasks()[task].deadline().0 as i64
}

/// The pattern that a no promises: the job that has begun at tick 0, all that have a deadline in the window from tick 1.
fn shown(set: &TaskSet, late: &Overload) -> Option<bool> {
    let window = i64::try_from(late.window_ps.clone()).ok().filter(|&window| window < 5000)?;
    let begun = match late.cause {
        Cause::Begun(task) => Some(task.index()),
        _ => None,
    };
    let mut jobs: Vec<Job> = Vec::new();
    for (task, own) in set.tasks().iter().enumerate() {
        if Some(task) == begun {
            let (work, urgency) = (own.wcet().0, deadline(set, task));
            jobs.push(Job { task, arrival: 0, release: 0, work, urgency, completion: None });
        } else if deadline(set, task) - own.jitter().0 as i64 <= window {
            jobs.extend(arrivals(set, task, 1, window + 1, |arrival| arrival + deadline(set, task)));
        }
    }
    Some(misses(set, jobs, window + 1))
}

/// Sporadic arrivals: any first one, then the period and, sometimes, more; any release within the jitter, any execution.
fn sporadic(set: &TaskSet, random: &mut Random, ticks: i64, full: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (task, own) in set.tasks().iter().enumerate() {
        let mut arrival = random.within(0, own.period().0) as i64;
        while arrival < ticks {
            let release = arrival + random.within(0, own.jitter().0) as i64;
            let work = if full { own.wcet().0 } else { random.within(1, own.wcet().0) };
            let urgency = arrival + deadline(set, task);
            jobs.push(Job { task, arrival, release, work, urgency, completion: None });
            let more = if random.within(0, 3) == 0 { random.within(0, 5) } else { 0 };
            arrival += (own.period().0 + more) as i64;
        }
    }
    jobs
}

/// One task first, at tick 0, all others together at tick 1 with their jitter used up.
fn after(set: &TaskSet, first: usize, ticks: i64) -> Vec<Job> {
    let all = (0..set.tasks().len()).flat_map(|task| {
        let offset = i64::from(task != first);
        arrivals(set, task, offset, ticks, move |arrival| arrival + deadline(set, task))
    });
    all.collect()
}

#[test]
fn a_long_job_is_what_preemption_would_have_helped_against() {
    // Jeffay, Stanat and Martel 1991: not the utilization, here 0.28, but one long job settles it.
    let blocked = set(&[(5, 1, 5), (100, 6, 100)]);
    assert!(quick_processor_demand(&blocked, Effort::default()).is_schedulable());
    let Verdict::Unschedulable(late) = nonpreemptive_edf(&blocked, Effort::default()) else { panic!("5 left, and 1") };
    assert_eq!((late.task, late.window_ps.clone(), late.demand_ps.clone()), (TaskIndex(0), 5u8.into(), 6u8.into()));
    assert_eq!((late.cause.clone(), shown(&blocked, &late)), (Cause::Begun(TaskIndex(1)), Some(true)));
    assert!(yes(&set(&[(5, 1, 5), (100, 5, 100)])));
    // With full utilization, and deadlines above and below periods.
    assert!(yes(&set(&[(4, 2, 4), (8, 3, 8), (8, 1, 8)])));
    assert!(!yes(&set(&[(4, 2, 4), (8, 4, 8)])), "3 left, and 2, in 4");
    assert!(yes(&set(&[(4, 2, 5), (8, 4, 8)])) && !yes(&set(&[(4, 2, 3), (16, 3, 40)])));
}

#[test]
fn answers_are_those_of_simulations() {
    let mut random = Random::new(91);
    let (mut accepted, mut refused, mut begun, mut jittered) = (0, 0, 0, 0);
    for round in 0..6000 {
        let jitter = round % 3;
        let set = random_set(&mut random, Shape { tasks: 4, period: 12, jitter, blocking: 0, deadline: 1 + round % 2 });
        match nonpreemptive_edf(&set, Effort::default()) {
            Verdict::Schedulable(_) => {
                accepted += 1;
                jittered += u32::from(jitter > 0);
                for first in 0..set.tasks().len() {
                    assert!(!misses(&set, after(&set, first, 150), 150), "round {round}, {first} first: {set:?}");
                }
                for pattern in 0..20 {
                    let jobs = sporadic(&set, &mut random, 150, pattern % 2 == 0);
                    assert!(!misses(&set, jobs, 150), "round {round}: {set:?}");
                }
            }
            Verdict::Unschedulable(late) => {
                refused += 1;
                begun += u32::from(matches!(late.cause, Cause::Begun(_)));
                assert!(late.demand_ps > late.window_ps, "round {round}: {late:?} {set:?}");
                assert_ne!(shown(&set, &late), Some(false), "round {round}: {late:?} {set:?}");
                // Below a utilization of 1 windows are short enough to be shown.
                let long = matches!(late.cause, Cause::Utilization(_));
                assert!(long || shown(&set, &late).is_some(), "round {round}: {late:?} {set:?}");
            }
            Verdict::Unsupported(reason) => panic!("round {round}: {reason:?} {set:?}"),
        }
    }
    assert!(
        accepted > 1000 && jittered > 500 && refused > 2000 && begun > 200,
        "{accepted} yes, {jittered} of them with jitter, {refused} no, {begun} by a job that had begun"
    );
}

#[test]
fn the_quick_search_finds_what_all_windows_show() {
    let mut random = Random::new(92);
    let mut blocked = 0;
    for round in 0..20_000 {
        let shape = Shape { tasks: 5, period: 40, jitter: round % 4 * 2, blocking: 0, deadline: 1 + round % 3 };
        let set = random_set(&mut random, shape);
        if set.tasks().iter().any(|task| task.jitter() > task.period())
            || !quick_processor_demand(&set, Effort::default()).is_schedulable()
        {
            continue;
        }
        let due = |task: usize, window: i64| {
            let own = &set.tasks()[task];
            let rest = window + own.jitter().0 as i64 - deadline(&set, task);
            if rest < 0 { 0 } else { (rest / own.period().0 as i64 + 1) * own.wcet().0 as i64 }
        };
        let overloaded = |begun: usize, window: i64| {
            let others =
                (0..set.tasks().len()).filter(|&task| task != begun).map(|task| due(task, window)).sum::<i64>();
            others > 0 && others + set.tasks()[begun].wcet().0 as i64 - 1 > window
        };
        let found =
            (0..set.tasks().len()).any(|begun| (0..deadline(&set, begun)).any(|window| overloaded(begun, window)));
        blocked += u32::from(found);
        assert_eq!(yes(&set), !found, "round {round}: {set:?}");
    }
    assert!(blocked > 1000, "{blocked} blocked");
}

#[test]
fn a_yes_has_a_schedule_without_interruptions() {
    let set = set(&[(4, 2, 4), (8, 3, 8), (8, 1, 8)]);
    let Verdict::Schedulable(witness) = judge(&set, &Policy::NonPreemptiveEdf, Effort::default(), 100) else {
        panic!("a yes above")
    };
    assert_eq!((witness.schedule.coverage.clone(), witness.schedule.runs.len()), (Coverage::Hyperperiod, 4));
    let second = witness.schedule.runs[1];
    assert_eq!((second.task, second.start, second.end), (TaskIndex(1), Ps(2), Ps(5)), "across the arrival at 4");
    // The job that arrives at 4 gets to run at once: what was begun is interrupted.
    let mut interrupted = witness.schedule;
    interrupted.runs[1].end = Ps(4);
    interrupted.runs[2] = Run { start: Ps(4), end: Ps(6), ..interrupted.runs[2] };
    interrupted.runs.insert(3, Run { start: Ps(6), end: Ps(7), ..second });
    assert!(matches!(check(&set, &interrupted), Err(Violation::Interrupted { run: 3, task: TaskIndex(1), job: 0 })));
}

#[test]
fn phases_make_a_no_unsupported_and_preconditions_are_named() {
    let specs = || [TaskSpec::new("a", Ps(5), Ps(1)), TaskSpec::new("b", Ps(100), Ps(6))];
    let [a, b] = specs();
    let phased = TaskSet::new([a, b.phase(Ps(1))]).unwrap();
    let verdict = nonpreemptive_edf(&phased, Effort::default());
    assert!(matches!(verdict, Verdict::Unsupported(Unsupported::Phases(_))), "{verdict:?}");
    let [a, b] = specs();
    for (spec, part) in [(a.clone().jitter(Ps(6)), "jitter"), (a.blocking(Ps(1)), "blocking")] {
        let verdict = nonpreemptive_edf(&TaskSet::new([b.clone(), spec]).unwrap(), Effort::default());
        let Verdict::Unsupported(Unsupported::Precondition { task: TaskIndex(1), needs }) = verdict else {
            panic!("{verdict:?}")
        };
        assert!(needs.contains(part), "{needs}");
    }
}

#[test]
fn the_longest_times_end_no_search_wrongly() {
    let long = 1 << 60;
    let wide = set(&[(long, long / 2, long), (long, long / 2, long)]);
    assert!(yes(&wide), "one after the other");
    let Verdict::Unschedulable(late) = nonpreemptive_edf(&set(&[(2, 1, 2), (long, long / 4, long)]), Effort::default())
    else {
        panic!("a quarter of the longest time is left")
    };
    assert_eq!(late.cause, Cause::Begun(TaskIndex(1)));
}

fn response(set: &TaskSet, task: usize) -> Option<u64> {
    match worst_response_nonpreemptive_edf(set, TaskIndex(task), Effort::default()) {
        Ok(WorstCase::Bounded(worst)) => Some(worst.response.0),
        Ok(WorstCase::Unbounded(load)) => {
            assert!(load > num_rational::Ratio::from_integer(1u8.into()));
            None
        }
        Err(reason) => panic!("{reason:?} {set:?}"),
    }
}

/// The longest response of a task when a job of `begun` has begun at tick 0, the others are released at tick 1, and one of its own
/// is released so much later; it comes last among those as urgent.
fn seen(set: &TaskSet, task: usize, begun: Option<usize>, released: i64, ticks: i64) -> i64 {
    let mut jobs: Vec<Job> = Vec::new();
    for (other, own) in set.tasks().iter().enumerate() {
        let urgency = |arrival: i64| 2 * (arrival + deadline(set, other)) + i64::from(other == task);
        if Some(other) == begun {
            let (work, urgency) = (own.wcet().0, urgency(0));
            jobs.push(Job { task: other, arrival: 0, release: 0, work, urgency, completion: None });
        } else {
            let offset = if other == task { 1 + released % own.period().0 as i64 } else { 1 };
            jobs.extend(arrivals(set, other, offset, ticks, urgency));
        }
    }
    simulate(&mut jobs, false, ticks);
    jobs.retain(|job| job.completion.is_some());
    longest(&jobs, task, ticks)
}

#[test]
fn response_times_are_reached_and_never_exceeded() {
    let mut random = Random::new(93);
    let (mut compared, mut blocked, mut late, mut jittered) = (0, 0, 0, 0);
    for round in 0..1500 {
        let jitter = round % 3;
        let set = random_set(&mut random, Shape { tasks: 3, period: 10, jitter, blocking: 0, deadline: 1 + round % 3 });
        for task in 0..set.tasks().len() {
            let Some(most) = response(&set, task) else { continue };
            if most > 60 {
                continue;
            }
            compared += 1;
            let (own, mut worst) = (&set.tasks()[task], 0);
            'patterns: for begun in [None].into_iter().chain((0..set.tasks().len()).filter(|&b| b != task).map(Some)) {
                for released in 0..own.period().0 as i64 {
                    worst = worst.max(seen(&set, task, begun, released, 160) as u64);
                    assert!(worst <= most, "round {round}: {worst} > {most} of {task}, {begun:?} {released}: {set:?}");
                    if worst == most {
                        blocked += u32::from(begun.is_some());
                        break 'patterns;
                    }
                }
            }
            assert_eq!(worst, most, "round {round}, task {task}: {set:?}");
            late += u32::from(most > own.period().0);
            jittered += u32::from(jitter > 0);
            for pattern in 0..4 {
                let mut jobs = sporadic(&set, &mut random, 120, pattern % 2 == 0);
                simulate(&mut jobs, false, 120);
                jobs.retain(|job| job.completion.is_some());
                let worst = longest(&jobs, task, 120) as u64;
                assert!(worst <= most, "round {round}: {worst} > {most} of {task}: {set:?}");
            }
        }
    }
    println!(
        "{compared} reached, {blocked} of them only after a job that had begun, {late} beyond the period, {jittered} with jitter"
    );
    assert!(compared > 1000 && blocked > 20 && late > 100 && jittered > 500);
}

#[test]
fn response_times_and_the_verdict_agree() {
    let mut random = Random::new(94);
    let (mut yes, mut no) = (0, 0);
    for round in 0..6000 {
        let shape = Shape { tasks: 5, period: 30, jitter: round % 4, blocking: 0, deadline: 1 + round % 3 };
        let set = random_set(&mut random, shape);
        if set.tasks().iter().any(|task| task.jitter() > task.period()) {
            continue;
        }
        let in_time = |task: usize| response(&set, task).is_some_and(|worst| worst <= set.tasks()[task].deadline().0);
        let every = (0..set.tasks().len()).all(in_time);
        match nonpreemptive_edf(&set, Effort::default()) {
            Verdict::Schedulable(_) => (yes, _) = (yes + 1, assert!(every, "round {round}: {set:?}")),
            Verdict::Unschedulable(_) => (no, _) = (no + 1, assert!(!every, "round {round}: {set:?}")),
            Verdict::Unsupported(reason) => panic!("round {round}: {reason:?} {set:?}"),
        }
    }
    assert!(yes > 500 && no > 2000, "{yes} yes, {no} no");
}

#[test]
fn response_times_by_hand_and_what_they_ask_for() {
    // The job that has begun counts for the first window and not for the later ones.
    let three = set(&[(10, 2, 4), (20, 3, 12), (40, 7, 40)]);
    assert_eq!([0, 1, 2].map(|task| response(&three, task)), [Some(8), Some(11), Some(12)]);
    // Full utilization: 2, 1 and 3; and 2, 3, the second of the first, as urgent, and 1.
    let full = set(&[(4, 2, 4), (8, 3, 8), (8, 1, 8)]);
    assert_eq!([0, 1, 2].map(|task| response(&full, task)), [Some(4), Some(6), Some(8)]);
    assert_eq!(response(&set(&[(4, 3, 4), (8, 3, 8)]), 0), None);
    let jitter = TaskSet::new([TaskSpec::new("a", Ps(5), Ps(1)).jitter(Ps(6))]).unwrap();
    let refused = worst_response_nonpreemptive_edf(&jitter, TaskIndex(0), Effort::default());
    assert!(matches!(refused, Err(Unsupported::Precondition { task: TaskIndex(0), .. })), "{refused:?}");
    let few = worst_response_nonpreemptive_edf(&three, TaskIndex(1), Effort { steps_max: 3 });
    assert!(matches!(few, Err(Unsupported::Effort { task: TaskIndex(1), steps_max: 3 })), "{few:?}");
}
