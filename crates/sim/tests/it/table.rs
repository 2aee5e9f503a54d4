//! Cyclic executives: do tasks run in their slots, and only there?

use crate::common::{
    assert_us, burst_ns, longest, named, parse, plain, refused, run, run_safely, task, text, text_of_cores, two_colors,
};
use memtint_sim::Report;

const SYSTEM: &str = "scheduling = \"table\"";

/// A task with jobs; cost and period in microseconds.
fn periodic(name: &str, cost: u64, period: u64, lines: &str) -> String {
    task(name, &format!("{lines}\nperiod = \"{period} us\"\nreferences = {}", cost * 10))
}

/// A table with slots of a task, start and length; all in microseconds.
fn table(cycle: u64, slots: &[(&str, u64, u64)]) -> String {
    let slot = |(task, start, length): &(&str, u64, u64)| {
        format!("{{ task = \"{task}\", start = \"{start} us\", length = \"{length} us\" }}")
    };
    let slots: Vec<String> = slots.iter().map(slot).collect();
    format!("[simulation.table]\ncycle = \"{cycle} us\"\nslot = [ {} ]\n", slots.join(", "))
}

/// A job in two slices, around another's slot.
fn split(cost: u64, more: &str) -> Report {
    let table = table(10_000, &[("split", 0, 2_000), ("whole", 2_000, 4_000), ("split", 6_000, 1_100)]);
    plain(100, SYSTEM, &[table, periodic("split", cost, 10_000, more), periodic("whole", 3_900, 10_000, "")])
}

#[test]
fn a_job_goes_on_in_the_next_slot_of_its_task() {
    let report = split(3_000, "");
    // [0, 2) and [6, 7); the other has [2, 6).
    assert_us("split", longest(&report, 0), 7_000.0);
    assert_us("split", report.tasks[0].response_ns.unwrap().min / 1000.0, 7_000.0);
    assert_us("whole", longest(&report, 1), 5_900.0);
    assert_eq!((report.tasks[0].preemptions, report.tasks[1].preemptions), (10, 0));
    let table = report.table.as_ref().unwrap();
    assert_eq!((table.slots, table.jobs_beyond_slots), (30, 0));
    assert!((1.0..1.0002).contains(&table.longest_use) && table.longest_overrun_ps <= 200_000, "{table:?}");
    let used = |slot: usize| table.slot[slot].longest_use_ns / 1000.0;
    assert_us("all of the first", used(0), 2_000.0);
    assert_us("the other's", used(1), 3_900.0);
    assert_us("the rest", used(2), 1_000.0);
    // One at a time: what is not somebody's slot, or not needed, is idle.
    assert!((report.core_utilization[0] - 0.69).abs() < 0.0001, "{:?}", report.core_utilization);
}

/// A tenth of a millisecond more than the slots have: each job is complete a cycle later, a bit later each time.
#[test]
fn jobs_that_do_not_fit_their_slots_are_counted() {
    let report = split(3_200, "");
    assert_us("first", report.tasks[0].response_ns.unwrap().min / 1000.0, 10_100.0);
    assert_us("ninth", longest(&report, 0), 10_900.0);
    // The tenth is not late yet, but its slots are over.
    let counts = |report: &Report| {
        let task = &report.tasks[0];
        (task.jobs, task.deadline_misses, task.jobs_given_up, task.jobs_beyond_slots)
    };
    assert_eq!(counts(&report), (9, 9, 0, 10));
    assert_eq!(report.table.as_ref().unwrap().jobs_beyond_slots, 10);
    assert_us("whole", longest(&report, 1), 5_900.0);
    let report = split(3_200, "late = \"give-up\"");
    assert_eq!((counts(&report).0, counts(&report).3), (0, 10));
    assert!(counts(&report).2 >= 9, "{:?}", report.tasks[0]);
}

/// Slots that follow one another are one stretch, and turns of the cycle as well.
#[test]
fn nothing_is_interrupted_between_slots_of_one_task() {
    let slots = table(3_000, &[("one", 0, 1_000), ("one", 1_000, 1_000), ("one", 2_000, 1_000)]);
    let report = plain(30, &format!("{SYSTEM}\nswitch = \"100 us\""), &[slots, task("one", "")]);
    assert_us("all but one switch", report.tasks[0].references as f64 / 10.0, 29_900.0);
    assert_eq!(report.tasks[0].preemptions, 0);
    let table = report.table.unwrap();
    assert_eq!((table.slots, table.longest_overrun_ps), (30, 0));
    assert!(table.slot.iter().all(|slot| slot.longest_use_ns == 1_000_000.0), "{table:?}");
}

/// Eight jobs in a cycle, the first four of the original and the others of the copy.
fn with_copy(refresh: &str, copies: u64) -> Report {
    let slots: Vec<(&str, u64, u64)> =
        (0..8).map(|job| (if job < copies { "original" } else { "copy" }, job * 8_000, 2_000)).collect();
    let parts = [
        table(64_000, &slots),
        periodic("original", 1_000, 8_000, "ranks = \"0-3\""),
        task("copy", "ranks = \"4-7\"\ncopy_of = \"original\"\ncopy = \"5 us\""),
    ];
    run_safely(&text(8, refresh, 128, SYSTEM, &parts[..if copies < 8 { 3 } else { 2 }]))
}

#[test]
fn the_table_says_which_instance_has_a_job() {
    let report = with_copy(&two_colors(""), 4);
    assert_eq!((report.tasks[0].jobs, report.tasks[1].jobs), (8, 8));
    assert_eq!((report.tasks[0].taken_over, report.tasks[1].taken_over), (1, 2));
    let locks = report.locks.as_ref().unwrap();
    assert_eq!((locks.copies, locks.unhidden_ns[0], report.requests_that_met_a_refresh), (3, 0.0, 0));
    // The lock task at 0 and 32 ms, and then what the second instance says that it takes to copy the data.
    assert_us("original", longest(&report, 0), 1_020.0);
    assert_us("copy", longest(&report, 1), 1_025.0);
    assert_eq!(report.table.unwrap().jobs_beyond_slots, 0);
    // The other half, against the locks: what is locked in its slot waits for the next.
    let report = with_copy(&two_colors(""), 8);
    assert_eq!((report.tasks[0].jobs, report.tasks[0].deadline_misses), (16, 2));
    assert_us("from 32 to 41 ms", longest(&report, 0), 9_000.0);
    let locks = report.locks.unwrap();
    assert_us("its slots, while they are locked", locks.unhidden_ns[0] / 1000.0, 2.0 * (2_000.0 - 20.0));
    assert!(burst_ns(8) > 2_000_000.0);
    assert_eq!(report.table.unwrap().jobs_beyond_slots, 2);
}

#[test]
fn cores_have_slots_of_their_own() {
    let slot = |task: &str, start: u64, core: u32| {
        format!("{{ task = \"{task}\", start = \"{start} us\", length = \"500 us\", core = {core} }}")
    };
    let slots = [slot("a", 0, 0), slot("b", 250, 1), slot("a", 500, 0)].join(", ");
    let table = format!("[simulation.table]\ncycle = \"1 ms\"\nslot = [ {slots} ]\n");
    let parts = [table, task("a", ""), periodic("b", 400, 1_000, "")];
    let report = run(&text_of_cores(2, 1, &named("none"), 10, SYSTEM, &parts));
    assert_eq!((report.tasks[0].cores.as_str(), report.tasks[1].cores.as_str()), ("0", "1"));
    assert_us("a", report.tasks[0].references as f64 / 10.0, 10_000.0);
    assert_us("b", longest(&report, 1), 650.0);
    assert_eq!(report.table.unwrap().slots, 30);
}

#[test]
fn what_cannot_be_is_refused() {
    let tasks = [task("a", ""), task("b", "")];
    let with = |system: &str, table: &str, tasks: &[String]| {
        let parts = [&[table.to_owned()], tasks].concat();
        text_of_cores(2, 8, &named("none"), 64, system, &parts)
    };
    let slots = |slots: &[(&str, u64, u64)]| with(SYSTEM, &table(10, slots), &tasks);
    let good = [("a", 0, 5), ("b", 5, 5)];
    parse(&slots(&good)).unwrap();
    refused(&slots(&[good[0], ("b", 4, 5)]), &["table.slot 1: start", "when table.slot 0 of the core ends"]);
    refused(&slots(&[good[1], ("a", 0, 6)]), &["table.slot 0: start", "when table.slot 1 of the core ends"]);
    refused(&slots(&[good[0], ("b", 6, 5)]), &["table.slot 1: length", "within the cycle"]);
    refused(&slots(&[good[0], ("b", 6, 0)]), &["table.slot 1: length", "more than 0"]);
    refused(&slots(&[good[0], ("c", 6, 1)]), &["table.slot 1: task is c", "a, b"]);
    refused(&slots(&good[..1]), &["task \"b\": slots is none"]);
    refused(&slots(&good).replace("cycle = \"10 us\"", "cycle = \"0 us\""), &["table.cycle"]);
    let second = |core: u32| slots(&good).replace("start = \"5 us\"", &format!("start = \"5 us\", core = {core}"));
    parse(&second(1)).unwrap();
    refused(&second(2), &["0 to 1"]);
    refused(&second(9999), &["table.slot 1: core is 9999"]);
    let apart = [("a", 0, 2), ("a", 5, 2), ("b", 7, 1)];
    refused(
        &slots(&apart).replace("start = \"5 us\"", "start = \"5 us\", core = 1"),
        &["table.slot 1: core is 1", "first slot"],
    );
    refused(&with("", &table(10, &good), &tasks), &["table is given", "system.scheduling"]);
    refused(&with(SYSTEM, "", &tasks), &["table is absent"]);
    let pinned = |lines: &str| with(SYSTEM, &table(10, &good), &[task("a", lines), task("b", "")]);
    refused(&pinned("cores = \"1\""), &["table.slot 0: core is 0", "1, that of its task"]);
    refused(&pinned("cores = \"0-1\""), &["task \"a\": cores"]);
    let server = "[[server]]\nname = \"S\"\nperiod = \"1 ms\"\nbudget = \"1 ms\"\n";
    refused(&with(SYSTEM, &(table(10, &good) + server), &tasks), &["server is given beside a table"]);
}
