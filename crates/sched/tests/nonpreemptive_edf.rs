//! Does EDF without preemption answer as a simulation tick by tick does, in both directions?

mod common;

use common::{Job, Random, Shape, arrivals, random_set, simulate};
use memtint_sched::{
    Cause, Coverage, Effort, Overload, Policy, Run, TaskSet, TaskSpec, Unsupported, Verdict, Violation, check, judge,
    nonpreemptive_edf, quick_processor_demand,
};
use memtint_units::Picoseconds as Ps;

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
        Cause::Begun(task) => Some(task),
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
    assert_eq!((late.task, late.window_ps.clone(), late.demand_ps.clone()), (0, 5u8.into(), 6u8.into()));
    assert_eq!((late.cause.clone(), shown(&blocked, &late)), (Cause::Begun(1), Some(true)));
    assert!(yes(&set(&[(5, 1, 5), (100, 5, 100)])));
    // With full utilization, and deadlines above and below periods.
    assert!(yes(&set(&[(4, 2, 4), (8, 3, 8), (8, 1, 8)])));
    assert!(!yes(&set(&[(4, 2, 4), (8, 4, 8)])), "3 left, and 2, in 4");
    assert!(yes(&set(&[(4, 2, 5), (8, 4, 8)])) && !yes(&set(&[(4, 2, 3), (16, 3, 40)])));
}

#[test]
fn answers_are_those_of_simulations() {
    let mut random = Random(91);
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
    let mut random = Random(92);
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
    assert_eq!((second.task, second.start, second.end), (1, Ps(2), Ps(5)), "across the arrival at 4");
    // The job that arrives at 4 gets to run at once: what was begun is interrupted.
    let mut interrupted = witness.schedule;
    interrupted.runs[1].end = Ps(4);
    interrupted.runs[2] = Run { start: Ps(4), end: Ps(6), ..interrupted.runs[2] };
    interrupted.runs.insert(3, Run { start: Ps(6), end: Ps(7), ..second });
    assert!(matches!(check(&set, &interrupted), Err(Violation::Interrupted { run: 3, task: 1, job: 0 })));
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
        let Verdict::Unsupported(Unsupported::Precondition { task: 1, needs }) = verdict else { panic!("{verdict:?}") };
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
    assert_eq!(late.cause, Cause::Begun(1));
}
