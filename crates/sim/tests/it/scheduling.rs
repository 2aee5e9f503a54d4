//! Do tasks get the cores that partitioned and global scheduling promise them?

use crate::common::{DESKTOP, Machine, longest, refused, refused_changed, run};

/// References of a loop in the first level that take a microsecond: thirty instructions each, four in a cycle, at 3 GHz.
const PER_MICROSECOND: u64 = 400;

fn text(count: u32, system: &str, duration_us: u64, tasks: &[String]) -> String {
    let duration = format!("{duration_us} us");
    Machine { count, duration: &duration, cores: "window = 0", system, ..DESKTOP }.text(tasks)
}

/// A task that computes, with further lines.
fn task(name: &str, lines: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\nworkload = {{ kind = \"bandwidth\", size = \"128\", gap = 29 }}\n{lines}\n")
}

/// One with jobs, in microseconds.
fn periodic(name: &str, lines: &str, cost_us: u64, period_us: u64) -> String {
    let references = cost_us * PER_MICROSECOND;
    task(name, &format!("{lines}\nperiod = \"{period_us} us\"\nreferences = {references}"))
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{found}, expected {expected}");
}

/// S. K. Dhall and C. L. Liu: On a real-time scheduling problem, Operations Research 26(1), 1978: global EDF misses deadlines
/// at a utilization that partitions meet.
#[test]
fn the_effect_of_dhall_and_liu_appears_in_global_scheduling_only() {
    let tasks = |light: &str, heavy: &str| {
        [periodic("light1", light, 40, 200), periodic("light2", light, 40, 200), periodic("heavy", heavy, 195, 210)]
    };
    let edf = "scheduling = \"edf\"";
    let global = run(&text(2, edf, 1050, &tasks("", "")));
    assert!(global.tasks[2].deadline_misses > 0, "{:?}", global.tasks[2]);
    assert!(longest(&global, 2) > 230.0, "{:?}", global.tasks[2]);
    let partitioned = run(&text(2, edf, 1050, &tasks("cores = \"0\"", "cores = \"1\"")));
    assert!(partitioned.tasks.iter().all(|task| task.deadline_misses == 0 && task.migrations == 0));
    // Deadlines of the light ones are the same as under EDF, but the heavy one comes first.
    let tasks = tasks("priority = 2", "priority = 1");
    let priority = run(&text(2, "scheduling = \"fixed-priority\"", 1050, &tasks));
    assert!(priority.tasks.iter().all(|task| task.deadline_misses == 0), "{:?}", priority.tasks);
}

/// Two cores, three tasks released together: the third begins when the first two are done.
#[test]
fn global_priorities_give_the_response_times_of_the_schedule() {
    let system = "scheduling = \"fixed-priority\"";
    let tasks = [
        periodic("first", "priority = 1", 50, 100),
        periodic("second", "priority = 2", 30, 100),
        periodic("third", "priority = 3", 40, 100),
    ];
    let report = run(&text(2, system, 1000, &tasks));
    for (task, response) in [(0, 50.0), (1, 30.0), (2, 70.0)] {
        assert_near(longest(&report, task), response);
        assert_eq!((report.tasks[task].jobs, report.tasks[task].deadline_misses), (10, 0));
    }
}

#[test]
fn who_is_least_urgent_gives_way() {
    let system = "scheduling = \"fixed-priority\"";
    let tasks = [
        task("urgent", "priority = 1"),
        task("background", "priority = 9"),
        periodic("between", "priority = 5", 20, 100),
    ];
    let report = run(&text(2, system, 990, &tasks));
    let [urgent, background, between] = &report.tasks[..] else { panic!("three tasks") };
    assert_eq!((urgent.preemptions, between.preemptions, between.deadline_misses), (0, 0, 0));
    // At the first release nothing ran yet.
    assert_eq!((between.jobs, background.preemptions), (10, 9));
    assert_near(longest(&report, 2), 20.0);
    assert_near(background.instructions as f64, 0.8 * urgent.instructions as f64);
}

#[test]
fn no_core_is_idle_while_a_task_waits() {
    let work = format!("references = {}", 600 * PER_MICROSECOND);
    let system = "quantum = \"20 us\"";
    let tasks = ["one", "two", "three"].map(|name| task(name, &work));
    let report = run(&text(2, system, 5000, &tasks));
    // Three times 600 us on two cores.
    for task in &report.tasks {
        assert!((850.0..925.0).contains(&(task.completed_ns.unwrap() / 1000.0)), "{task:?}");
        assert!(task.migrations > 0 && task.preemptions > 0, "{task:?}");
    }
    assert!(report.core_utilization.iter().all(|&busy| busy > 0.95), "{:?}", report.core_utilization);
}

#[test]
fn tasks_stay_on_the_cores_they_are_given() {
    let tasks = ["a", "b", "c"].map(|name| task(name, "cores = \"1-2\""));
    let report = run(&text(4, "quantum = \"20 us\"", 400, &tasks));
    assert_eq!(report.tasks[0].cores, "1-2");
    let [unused, one, two, last] = report.core_utilization[..] else { panic!("four cores") };
    assert_eq!((unused, last), (0.0, 0.0));
    assert!(one > 0.99 && two > 0.99, "{one} {two}");
}

#[test]
fn a_switch_takes_its_time() {
    let work = format!("cores = \"0\"\nreferences = {}", 390 * PER_MICROSECOND);
    let tasks = [task("one", &work), task("two", &work)];
    let ended = |system: &str| {
        let report = run(&text(1, system, 5000, &tasks));
        report.tasks.iter().map(|task| task.completed_ns.unwrap() / 1000.0).fold(0.0, f64::max)
    };
    assert_near(ended("quantum = \"50 us\""), 780.0);
    // Every quantum begins with a switch, eight of each task; the first two as well.
    assert_near(ended("quantum = \"50 us\"\nswitch = \"5 us\""), 780.0 + 16.0 * 5.0);
}

#[test]
fn cores_that_contradict_each_other_are_refused() {
    let with = |lines: &str| text(2, "", 100, &[task("one", lines)]);
    refused(&with("core = 0"), &["task \"one\": \"core\" is no field; the nearest is \"cores\""]);
    refused(&with("cores = \"0-2\""), &["cores"]);
    refused(&with("cores = \"\""), &["cores"]);
    refused(&with("cores = \"2\""), &["0 to 1"]);
    refused_changed(&with("cores = \"0-1\""), |spec| spec.tasks[0].core = Some(0), &["cores", "one of the two"]);
}

/// Who has begun is not stopped: whoever is more urgent waits for the end of the job, and for no more.
#[test]
fn without_preemption_a_job_that_has_begun_is_completed() {
    let urgent = "cores = \"0\"\npriority = 1\nperiod = \"100 us\"\nphase = \"10 us\"\nreferences = 4000";
    let tasks = [task("urgent", urgent), periodic("slow", "cores = \"0\"\npriority = 2", 50, 200)];
    for scheduling in ["fixed-priority", "edf"] {
        let of = |preemption: bool| {
            let system = format!("scheduling = \"{scheduling}\"\npreemption = {preemption}");
            run(&text(1, &system, 995, &tasks))
        };
        let (preemptive, other) = (of(true), of(false));
        assert_near(preemptive.tasks[0].response_ns.unwrap().min / 1000.0, 10.0);
        assert!(longest(&preemptive, 0) < 10.5, "{:?}", preemptive.tasks[0]);
        assert_near(longest(&preemptive, 1), 60.0);
        // Released at 10, the other complete at 50; every second job finds the core free.
        assert_near(longest(&other, 0), 50.0);
        assert_near(other.tasks[0].response_ns.unwrap().min / 1000.0, 10.0);
        assert_near(longest(&other, 1), 50.0);
        assert_eq!((other.tasks[1].preemptions, preemptive.tasks[1].preemptions), (0, 5));
    }
    // Jobs that follow one another give way in between: the slow one is behind by more than a period at 10 us.
    let behind = [periodic("slow", "cores = \"0\"\npriority = 2", 50, 50), task("urgent", urgent)];
    let report = run(&text(1, "scheduling = \"fixed-priority\"\npreemption = false", 995, &behind));
    assert_near(longest(&report, 1), 50.0);
    assert_eq!(report.tasks[1].jobs, 10);
}

#[test]
fn preemption_is_a_matter_of_priorities_and_deadlines() {
    let with = |system: &str, parts: &[String]| text(1, system, 100, parts);
    refused(&with("preemption = false", &[task("one", "")]), &["system.preemption"]);
    let server = "[[server]]\nname = \"S\"\nperiod = \"1 ms\"\nbudget = \"1 ms\"\n".to_owned();
    let beside_server = with("scheduling = \"edf\"\npreemption = false", &[server, task("one", "")]);
    refused(&beside_server, &["system.preemption", "no server"]);
}

/// A task of the ideal schedule: cost, period and priority, in tenths of microseconds where they are times.
struct Ideal {
    cost: u64,
    period: u64,
    priority: u64,
}

/// How they are scheduled.
#[derive(Clone, Copy)]
struct Order {
    cores: usize,
    earliest_deadline: bool,
    preemption: bool,
}

/// Longest responses when, in every tenth of a microsecond, the most urgent ready jobs have the cores, or those that have begun;
/// nothing costs time but what each job takes longer. Jobs released by the end count once they are finished.
fn ideal(tasks: &[Ideal], longer: &[u64], order: Order, end: u64) -> Vec<u64> {
    let cost = |task: usize| tasks[task].cost + longer[task];
    let mut released = vec![0; tasks.len()];
    let mut left: Vec<u64> = (0..tasks.len()).map(cost).collect();
    let mut longest = vec![0; tasks.len()];
    for now in 0..end {
        let mut ready: Vec<usize> = (0..tasks.len()).filter(|&task| released[task] <= now).collect();
        let urgency = |task: usize| {
            let stays = !order.preemption && left[task] < cost(task);
            let first =
                if order.earliest_deadline { released[task] + tasks[task].period } else { tasks[task].priority };
            (!stays, first, task)
        };
        ready.sort_by_key(|&task| urgency(task));
        for task in ready.into_iter().take(order.cores) {
            left[task] -= 1;
            if left[task] == 0 {
                longest[task] = longest[task].max(now + 1 - released[task]);
                released[task] += tasks[task].period;
                left[task] = cost(task);
            }
        }
    }
    longest
}

#[test]
fn random_task_sets_respond_as_in_the_ideal_schedule() {
    const END_US: u64 = 3000;
    let mut state = 7u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut compared = 0;
    let mut without = 0;
    for round in 0..32 {
        let (cores, edf, preemption) = (1 + round % 3, round % 2 == 0, round % 4 < 2);
        let order = Order { cores, earliest_deadline: edf, preemption };
        let count = cores + 2 + below(2) as usize;
        let tasks: Vec<Ideal> = (0..count as u64)
            .map(|task| {
                let period = 1000 + below(3000);
                // Together they need nine tenths of the cores.
                let cost = period * cores as u64 * 9 / 10 / count as u64 * (80 + below(41)) / 100;
                Ideal { cost, period, priority: 1 + (task * 7 + 3) % 11 }
            })
            .collect();
        let sections: Vec<String> = (0..)
            .zip(&tasks)
            .map(|(index, Ideal { cost, period, priority })| {
                let (references, period) = (cost * PER_MICROSECOND / 10, period * 100);
                let job = format!("period = \"{period} ns\"\nreferences = {references}");
                task(&format!("t{index}"), &format!("priority = {priority}\n{job}"))
            })
            .collect();
        let system = if edf { "scheduling = \"edf\"" } else { "scheduling = \"fixed-priority\"" };
        let system = format!("{system}\npreemption = {preemption}");
        let near = |found: u64, expected: u64, tenths: u64| found.abs_diff(expected) < tenths + expected / 100;
        let ideal = |longer: &[u64]| ideal(&tasks, longer, order, END_US * 10);
        let expected = ideal(&vec![0; count]);
        // Where a job ends just before another is released, a little more makes it end much later: nothing to compare.
        let moved =
            |longer: &[u64]| ideal(longer).iter().zip(&expected).any(|(&later, &expected)| !near(later, expected, 50));
        let one = |task: usize, ticks: u64| (0..count).map(|other| if other == task { ticks } else { 0 }).collect();
        let ones = (0..count).map(|task| one(task, 2));
        if (1..=6).map(|ticks| vec![ticks; count]).chain(ones).any(|longer: Vec<u64>| moved(&longer)) {
            continue;
        }
        compared += 1;
        without += usize::from(!preemption);
        let report = run(&text(cores as u32, &system, END_US, &sections));
        for (task, &expected) in expected.iter().enumerate() {
            let found = longest(&report, task);
            let tenths = (found * 10.0).round() as u64;
            assert!(
                near(tenths, expected, 10),
                "round {round}, {cores} cores, task {task}: {found} us, ideally {expected} / 10"
            );
        }
    }
    assert!(compared >= 10 && without >= 4, "{compared} sets were compared, {without} of them without preemption");
}
