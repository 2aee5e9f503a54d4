//! Refresh by software: do tasks keep off the ranks that are refreshed, and what does it cost them?

use crate::common::{
    Machine, SIMPLESCALAR, assert_near, burst_ns, computing, computing_on, named, refused, refused_changed, run,
    run_safely, text, text_of_cores, timetable, two_colors, writer, writer_of_any_core,
};
use memtint_sim::Report;

/// Two tasks of different colors that always want the core: whichever is locked out, the other runs.
#[test]
fn refresh_is_hidden_and_met_by_no_request_at_any_density() {
    let tasks = |ranks: [&str; 2]| [writer("one", ranks[0], ""), writer("two", ranks[1], "")];
    let system = "quantum = \"500 us\"";
    let work = |report: &Report| report.tasks.iter().map(|task| task.instructions).sum::<u64>() as f64;
    let none = run(&text(1, &named("none"), 70, system, &tasks(["0-3", "4-7"])));
    for density in [1, 2, 4, 8, 16, 32, 64] {
        let colored = run_safely(&text(density, &two_colors(""), 70, system, &tasks(["0-3", "4-7"])));
        assert_eq!(colored.requests_that_met_a_refresh, 0, "{density} Gb: {:?}", colored.ranks);
        let locks = colored.locks.clone().unwrap();
        assert_eq!((locks.unhidden_ns[0], locks.locks), (0.0, 3));
        // Three bursts have begun, at 0, 32 and 64 ms; the last is cut off at 70 ms.
        let expected = 2.0 * burst_ns(density) + burst_ns(density).min(6e6) + 3.0 * 20_000.0;
        assert_near("locked", locks.locked_ns, expected, 0.01);
        assert_near("hidden", locks.hidden_ns[0], expected, 0.01);
        assert!(colored.tasks.iter().all(|task| task.ending == "running"));
        // The same without refresh: what is lost are the lock tasks; what is gained, that caches stay warm while tasks do not
        // take turns.
        assert_near("work", work(&colored) / work(&none), 1.0 - locks.tasks_ns / 70e6, 0.02);
        // Auto-refresh is met, the more the longer it takes.
        let auto = run_safely(&text(density, &named("all-bank"), 70, system, &tasks(["0-3", "4-7"])));
        assert!(auto.requests_that_met_a_refresh > 500, "{}", auto.requests_that_met_a_refresh);
        let of_tasks: Vec<u64> = auto.tasks.iter().map(|task| task.met_refresh).collect();
        assert_eq!(of_tasks.iter().sum::<u64>(), auto.requests_that_met_a_refresh, "each is of a task");
        assert!(of_tasks.iter().all(|&met| met > 100), "{of_tasks:?}");
        assert!(colored.tasks.iter().all(|task| task.met_refresh == 0));
        if density >= 4 {
            assert!(work(&auto) < work(&colored), "{density} Gb: {} {}", work(&auto), work(&colored));
        }
    }
}

/// What no other task can use is lost: a closed formula.
#[test]
fn refresh_that_nobody_hides_costs_its_length() {
    // A task that has memory of the first four ranks, or of all: which windows keep it from running.
    type Windows = [(&'static str, u64, &'static str)];
    let windows: [(u32, &Windows); 3] = [
        (8, &[("0-3", 10, ""), ("4-7", 40, "")]),
        (8, &[("0", 3, ""), ("1", 8, ""), ("2", 13, ""), ("3", 18, ""), ("4-7", 40, "")]),
        (2, &[("0-1", 3, ""), ("2-7", 30, "")]),
    ];
    for (density, windows) in windows {
        for (ranks, count) in [("0-3", windows.iter().filter(|window| window.0 < "3-").count()), ("0-7", windows.len())]
        {
            let refresh = timetable("lock = \"50 us\"\nunlock = \"10 us\"", windows);
            let report = run_safely(&text(density, &refresh, 64, "", &[writer("one", ranks, "")]));
            let locks = report.locks.unwrap();
            let expected = count as f64 * burst_ns(density);
            assert_near("unhidden", locks.unhidden_ns[0], expected, 0.01);
            assert_near("locked", locks.locked_ns, windows.len() as f64 * (burst_ns(density) + 50_000.0), 0.01);
            assert_eq!(report.requests_that_met_a_refresh, 0);
            let none = run(&text(density, &named("none"), 64, "", &[writer("one", ranks, "")]));
            let share = report.tasks[0].instructions as f64 / none.tasks[0].instructions as f64;
            assert_near("work", share, 1.0 - (expected + locks.tasks_ns) / 64e6, 0.002);
        }
    }
}

/// What the paper does not say: caches write back lines of a color while another color's tasks run. Where lock tasks leave
/// them there, they meet the refresh; and when as many wait as the controller drains at a time, so do all reads.
#[test]
fn dirty_lines_meet_the_refresh_unless_the_lock_task_cleans_them() {
    let tasks = [writer("one", "0-3", ""), writer("two", "4-7", "")];
    let run = |clean: bool| {
        let refresh = two_colors(&format!("clean = {clean}"));
        run_safely(&text(8, &refresh, 70, "quantum = \"500 us\"", &tasks))
    };
    let (cleaned, left) = (run(true), run(false));
    assert_eq!(cleaned.requests_that_met_a_refresh, 0);
    assert!(cleaned.locks.as_ref().unwrap().cleaned_lines > 500);
    let met: u64 = left.ranks.iter().map(|rank| rank.met_lock).sum();
    assert!(met > 0, "{:?}", left.ranks);
    let work = |report: &Report| report.tasks.iter().map(|task| task.instructions).sum::<u64>() as f64;
    assert!(work(&left) < 0.97 * work(&cleaned), "{} {}", work(&left), work(&cleaned));
    assert_eq!((left.requests_that_met_a_refresh, left.locks.unwrap().cleaned_lines), (met, 0));
}

/// A task whose period is shorter than a burst (2.87 ms at 8 Gb) is late in each, unless another instance takes its place.
#[test]
fn copy_tasks_keep_short_tasks_in_time() {
    let short = computing("short", "0-3", 200, 1000, "");
    let copy = "[[task]]\nname = \"copy\"\ncopy_of = \"short\"\ncopy = \"5 us\"\nranks = \"4-7\"\ncores = \"0\"\n\
                workload = { kind = \"bandwidth\", size = \"4 KiB\", gap = 99 }\n";
    let system = "scheduling = \"fixed-priority\"";
    let alone = run_safely(&text(8, &two_colors(""), 192, system, std::slice::from_ref(&short)));
    assert_eq!(alone.tasks[0].deadline_misses, 9, "three in each of three bursts: {:?}", alone.tasks[0]);
    assert!(alone.locks.unwrap().unhidden_ns[0] > 3.0 * 2.8e6);
    let both = run_safely(&text(8, &two_colors(""), 192, system, &[short, copy.to_owned()]));
    let locks = both.locks.clone().unwrap();
    let [original, copied] = &both.tasks[..] else { panic!("two instances") };
    assert_eq!((original.deadline_misses, copied.deadline_misses), (0, 0), "{both:?}");
    assert_eq!(original.jobs + copied.jobs, 192, "each job once");
    // At 0 ranks 4-7 are locked: the original begins. It gives way at 32 ms, and so on.
    assert_eq!((locks.copies, copied.taken_over, original.taken_over), (5, 3, 2));
    assert_eq!((original.jobs, copied.jobs), (96, 96));
    assert_eq!((original.copy_of.as_deref(), copied.copy_of.as_deref()), (None, Some("short")));
    assert_eq!((original.period_ns, copied.period_ns), (Some(1e6), Some(1e6)), "an instance has the jobs of its task");
    assert_eq!(locks.unhidden_ns[0], 0.0);
    assert_near("response", copied.response_ns.unwrap().max / 1000.0, 205.0 + 20.0, 0.03);
}

/// The task of the test above with 16 KiB of data that its instances copy; `lines` are of both.
fn copying(windows: &[(&str, u64, &str)], time: &str, globals: &str) -> Report {
    let lines = format!("copy = \"{time}\"\nglobals = \"{globals}\"\n");
    let short = computing("short", "0-3", 200, 1000, &lines);
    let copy = format!(
        "[[task]]\nname = \"copy\"\ncopy_of = \"short\"\nranks = \"4-7\"\ncores = \"0\"\n\
         workload = {{ kind = \"bandwidth\", size = \"4 KiB\", gap = 99 }}\n{lines}"
    );
    run_safely(&text(8, &timetable("", windows), 192, "scheduling = \"fixed-priority\"", &[short, copy]))
}

/// Data go from rank to rank in reads and writes, and meet no refresh: who has had the job copies, before its own ranks are locked.
#[test]
fn copies_read_and_write_each_line_and_meet_no_refresh() {
    let windows = [("4-7", 0, ""), ("0-3", 32, "")];
    let (with, without) = (copying(&windows, "200 us", "16 KiB"), copying(&windows, "0 us", "0"));
    let locks = with.locks.as_ref().unwrap();
    // Data for the job after the last are copied when that is complete.
    assert_eq!(locks.copies, without.locks.as_ref().unwrap().copies + 1, "the same jobs go over");
    assert_eq!(locks.copied_lines, locks.copies * (16 << 10) / 64, "bytes copied are the footprint");
    assert_eq!(with.requests_that_met_a_refresh, 0);
    assert!(with.tasks.iter().all(|task| task.deadline_misses == 0), "{:?}", with.tasks);
    assert_eq!(with.tasks[0].jobs + with.tasks[1].jobs, 192);
    // The 4 KiB that jobs read are the first of the data.
    for ranks in [0..4, 4..8] {
        let requests = |report: &Report| {
            let ranks = &report.ranks[ranks.clone()];
            (ranks.iter().map(|rank| rank.reads).sum::<u64>(), ranks.iter().map(|rank| rank.writes).sum::<u64>())
        };
        assert_eq!(requests(&without), (64, 0));
        let (reads, writes) = requests(&with);
        assert!(reads >= 256, "each line of an instance is fetched: {:?}", with.ranks);
        assert!(writes >= 256, "and written back before its ranks are refreshed: {:?}", with.ranks);
    }
    let instructions = |report: &Report| report.tasks.iter().map(|task| task.instructions).sum::<u64>();
    assert_eq!(instructions(&with) - instructions(&without), 16 * locks.copied_lines, "8 loads and 8 stores a line");
}

/// Both instances hold what the first job begins with, so that it copies nothing out of ranks that are locked.
#[test]
fn the_first_job_begins_with_either_instance() {
    let report = copying(&[("0-3", 0, ""), ("4-7", 32, "")], "200 us", "16 KiB");
    let locks = report.locks.as_ref().unwrap();
    assert!(report.tasks.iter().all(|task| task.deadline_misses == 0), "{:?}", report.tasks);
    // Of six windows all but the first, and what the job after the last finds.
    assert_eq!((locks.copies, locks.copied_lines), (6, 6 * 256));
}

/// One color is locked as the other is unlocked: there is no moment to copy, and the job waits for one.
#[test]
fn a_copy_waits_while_one_of_the_two_is_locked() {
    // A burst takes 2.87 ms.
    let windows = [("4-7", 0, ""), ("0-3", 3, "")];
    let report = copying(&windows, "200 us", "16 KiB");
    let locks = report.locks.as_ref().unwrap();
    assert_eq!((report.requests_that_met_a_refresh, locks.copied_lines), (0, locks.copies * 256));
    // The jobs of 3, 4 and 5 ms wait for the unlock at 5.89 ms, in each of three retention times.
    assert_eq!(report.tasks[1].deadline_misses, 9, "{:?}", report.tasks);
    let without = copying(&windows, "5 us", "0");
    assert_eq!(without.tasks[1].deadline_misses, 0, "a copy without traffic does not see that");
}

/// Ranks of a window take turns: each is refreshed in full, in a window that is as many bursts long.
#[test]
fn bursts_in_turn_take_as_many_times_as_long() {
    for (turns, ranks) in [(4, "0-3"), (2, "0-3"), (4, "0-7")] {
        let in_turn = format!("turns = {turns}");
        let windows = [(ranks, 10, in_turn.as_str()), ("4-7", 40, "")];
        let refresh = timetable("lock = \"50 us\"", &windows[..if ranks == "0-7" { 1 } else { 2 }]);
        let report = run_safely(&text(2, &refresh, 64, "", &[writer("one", "0", "")]));
        let locks = report.locks.unwrap();
        assert_near("unhidden", locks.unhidden_ns[0], f64::from(turns) * burst_ns(2), 0.01);
        assert_eq!(report.requests_that_met_a_refresh, 0);
        assert!(report.ranks.iter().all(|rank| rank.refreshes == 8192), "{:?}", report.ranks);
    }
    let five = timetable("", &[("0-3", 0, "turns = 5"), ("4-7", 32, "")]);
    refused(&text(2, &five, 64, "", &[writer("one", "0", "")]), &["timetable.window", "turns", "1 to 4"]);
}

#[test]
fn jobs_are_released_with_jitter_and_phase() {
    let system = "scheduling = \"fixed-priority\"";
    let with = |lines: &str, seed: u64| {
        let task = computing("task", "0-7", 100, 1000, lines);
        let simulation = format!("density_gbit = 1\nseed = {seed}");
        let tables = named("none");
        let machine = Machine { duration: "50 ms", simulation: &simulation, system, tables: &tables, ..SIMPLESCALAR };
        run(&machine.text(&[task]))
    };
    let punctual = with("phase = \"300 us\"", 1);
    let response = punctual.tasks[0].response_ns.unwrap();
    assert_eq!((punctual.tasks[0].jobs, response.count), (50, 50));
    assert!(response.max < 105_000.0, "{response:?}");
    let late = with("jitter = \"400 us\"", 1);
    let response = late.tasks[0].response_ns.unwrap();
    // Uniform between 0 and 400 us, counted from when the job should have been released.
    assert!((470_000.0..503_000.0).contains(&response.max), "{response:?}");
    assert!((101_000.0..130_000.0).contains(&response.min), "{response:?}");
    assert_near("mean", response.mean, 300_000.0, 0.1);
    assert_eq!((late.tasks[0].deadline_misses, late.tasks[0].jobs), (0, 50));
    assert_eq!(late, with("jitter = \"400 us\"", 1));
    assert_ne!(late.tasks[0].response_ns, with("jitter = \"400 us\"", 2).tasks[0].response_ns);
    let missed = with("jitter = \"400 us\"\ndeadline = \"300 us\"", 1).tasks[0].deadline_misses;
    assert!((15..35).contains(&missed), "half of the jobs: {missed}");
}

/// Bursts that begin late at random, within a period that leaves time for it.
#[test]
fn bursts_with_jitter_are_met_by_no_request() {
    let tasks = [writer("one", "0-3", ""), writer("two", "4-7", "")];
    let refresh = two_colors("jitter = \"300 us\"").replace("\"64 ms\"", "\"63 ms\"");
    let report = run_safely(&text(8, &refresh, 130, "quantum = \"500 us\"", &tasks));
    assert_eq!(report.requests_that_met_a_refresh, 0);
    assert_eq!(report, run_safely(&text(8, &refresh, 130, "quantum = \"500 us\"", &tasks)));
}

#[test]
fn what_cannot_be_is_refused() {
    let task = [writer("one", "0-3", "")];
    let with = |refresh: &str| text(8, refresh, 64, "", &task);
    let without = with("[simulation.controller]\nrefresh = \"timetable\"");
    refused(&without, &["missing: memory", "color", "or simulation.timetable"]);
    refused_changed(&with(&two_colors("")), |spec| spec.timetable = None, &["simulation.timetable is absent"]);
    refused(&with(&two_colors("").replace("\"timetable\"", "\"burst\"")), &["timetable is given"]);
    refused(&with(&two_colors("").replace("64 ms", "65 ms")), &["rank 0, window 0", "52000000", "51200000 (tRET)"]);
    refused(&with(&two_colors("jitter = \"10 us\"")), &["51208064", "51200000 (tRET)"]);
    refused(&with(&timetable("", &[("0-6", 0, "")])), &["rank 7: the number of REF commands in a period is 0"]);
    refused(&with(&timetable("", &[("0-8", 0, "")])), &["timetable.window 0: ranks"]);
    refused(&with(&timetable("", &[("0-7", 63, "")])), &["timetable.window 0: length"]);
    refused(&with(&timetable("", &[("0-7", 0, "length = \"2 ms\"")])), &["rank 0, window 0: its length in cycles"]);
    refused(&with(&timetable("", &[("0-7", 0, "commands = 4096")])), &["rank 0, window 0", "(tRET)"]);
    refused(&with(&timetable("cores = \"1\"", &[("0-7", 0, "")])), &["timetable.cores is 1"]);
    refused(&with(&timetable("cores = \"\"", &[("0-7", 0, "")])), &["timetable.cores"]);
    refused(&with(&two_colors("").replace("64 ms", "64000000001 ps")), &["timetable.period", "whole cycles"]);
    refused(&text(8, &named("sometimes"), 64, "", &task), &["controller.refresh", "timetable"]);
    let copy = |lines: &str| with(&two_colors("")) + &writer("two", "4-7", lines);
    refused(&copy("copy_of = \"one\""), &["task \"two\": copy_of", "has jobs"]);
    refused(&copy("copy_of = \"three\""), &["task \"two\": copy_of", "three"]);
    let banks = [writer("one", "0-3", "banks = \"5\"")];
    refused(&text(8, &two_colors(""), 64, "", &banks), &["task \"one\": ranks", "bank classes"]);
}

/// The task set of Table 5.2 with models of its programs, the servers' tasks in colors of their own, by earliest deadline. (Not
/// in servers: a task may run whenever its color is not locked.)
#[test]
fn the_task_set_of_chapter_5_meets_no_refresh_and_its_deadlines_while_bursts_are_short() {
    // Execution times in microseconds; a reference is a miss, and takes so many nanoseconds on the simulated core.
    let tasks: Vec<String> = [
        ("cnt", "0-3", 3000, 20, 223),
        ("lms", "0-3", 1600, 10, 3966),
        ("st", "0-3", 2000, 8, 107),
        ("compress", "4-7", 1200, 10, 100),
        ("matmult", "4-7", 10_000, 40, 142),
    ]
    .iter()
    .map(|(name, ranks, execution_us, period_ms, reference_ns)| {
        format!(
            "[[task]]\nname = \"{name}\"\nranks = \"{ranks}\"\ncores = \"0\"\nprogram = \"refresh/{name}\"\n\
             period = \"{period_ms} ms\"\nreferences = {}\n",
            execution_us * 1000 / reference_ns
        )
    })
    .collect();
    let system = "scheduling = \"edf\"";
    for density in [1, 8, 64] {
        let colored = run_safely(&text(density, &two_colors(""), 128, system, &tasks));
        assert_eq!(colored.requests_that_met_a_refresh, 0, "{density} Gb: {:?}", colored.ranks);
        let locks = colored.locks.clone().unwrap();
        let misses: u64 = colored.tasks.iter().map(|task| task.deadline_misses).sum();
        if density == 64 {
            // A burst is 16.4 ms long, and st has a period of 8 ms.
            assert!(misses > 0 && locks.unhidden_ns[0] > 0.0, "{locks:?}");
        } else {
            assert_eq!(misses, 0, "{density} Gb: {locks:?}");
        }
        let auto = run_safely(&text(density, &named("all-bank"), 128, system, &tasks));
        assert!(auto.requests_that_met_a_refresh > 1000, "{}", auto.requests_that_met_a_refresh);
        assert!(auto.tasks.iter().all(|task| task.execution_ns.unwrap().count > 0));
    }
}

/// Locks hold for all cores, and for tasks that move between them, whether the lock tasks run on one or on both.
#[test]
fn two_cores_keep_off_the_same_locked_ranks() {
    let tasks = |place: [&str; 2]| {
        [("a", "0-1", 0), ("b", "4-5", 0), ("c", "2-3", 1), ("d", "6-7", 1)]
            .map(|(name, ranks, core)| writer_of_any_core(name, ranks, place[core]))
    };
    let (own, moving) = (tasks(["cores = \"0\"", "cores = \"1\""]), tasks([""; 2]));
    let cases = [(&own, "0", 3), (&moving, "0", 3), (&own, "0-1", 6), (&moving, "1", 3), (&moving, "0-1", 6)];
    for (tasks, cores, count) in cases {
        let refresh = two_colors(&format!("cores = \"{cores}\""));
        let report = run_safely(&text_of_cores(2, 8, &refresh, 70, "quantum = \"500 us\"", tasks));
        assert_eq!(report.requests_that_met_a_refresh, 0, "{:?}", report.ranks);
        let locks = report.locks.unwrap();
        assert_eq!((locks.locks, locks.unhidden_ns.len()), (count, 2));
        // Each core has, or finds, a task of the other color within the drain of its loads.
        assert!(locks.unhidden_ns.iter().all(|&unhidden| unhidden < 1000.0), "{locks:?}");
        assert!(report.tasks.iter().all(|task| task.instructions > 1_000_000), "{:?}", report.tasks);
    }
}

/// A lock task takes the same time of each core that runs it, and none of others.
#[test]
fn lock_tasks_delay_the_cores_that_run_them() {
    let at = |core: u32| computing_on(core, "task", "0-3", 1000, 64_000, "");
    for (cores, delayed) in [("0", [true, false]), ("1", [false, true]), ("0-1", [true, true])] {
        for (core, delayed) in [0, 1].into_iter().zip(delayed) {
            let refresh = two_colors(&format!("lock = \"300 us\"\ncores = \"{cores}\""));
            let report = run_safely(&text_of_cores(2, 1, &refresh, 120, "", &[at(core)]));
            // Ranks 4-7 are locked at 0 and 64 ms; the task's own are not while it runs. The unlock task comes in time, too.
            let expected = 1_000_000.0 + if delayed { 301_000.0 } else { 0.0 };
            assert_near(cores, report.tasks[0].response_ns.unwrap().min, expected, 0.001);
            let locks = report.locks.unwrap();
            let runs = cores.len().div_ceil(2) as f64;
            assert_eq!((locks.locks, locks.tasks_ns), (4 * runs as u64, runs * 4.0 * 301_000.0));
        }
    }
}
