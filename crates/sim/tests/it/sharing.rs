//! Nodes, ways and huge pages: does the machine give what a scenario asks for, at the price that arithmetic says?

use crate::common::{DESKTOP, DESKTOP_WITH_LAST_LEVEL, Machine, OPTERON, run};
use memtint_sim::Report;
use memtint_sim::report::TaskReport;

/// Four nodes; a way to another node takes 40 ns, a link carries 6400 MB a second.
fn nodes(window: u32, tasks: &[String]) -> Report {
    let machine = Machine {
        cores: &format!("window = {window}\nmshrs = 48"),
        tables: "[simulation.controller]\nrefresh = \"none\"\n\
                 [simulation.numa]\nhop = \"40 ns\"\nlink_mb_per_s = 6400\n",
        ..OPTERON
    };
    run(&machine.text(tasks))
}

fn on(name: &str, core: u32, node: u32, workload: &str) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\ncores = \"{core}\"\nnode = \"{node}\"\nshared = true\nreferences = 60000\n\
         workload = {workload}\n"
    )
}

#[track_caller]
fn assert_within_a_percent(name: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{name}: {found}, expected {expected}");
}

#[test]
fn memory_of_another_node_is_two_hops_further() {
    let chase = "{ kind = \"latency\", size = \"64 MiB\" }";
    let latency = |node| nodes(0, &[on("one", 0, node, chase)]).tasks[0].read_latency_ns.mean;
    let local = latency(0);
    for node in 1..4 {
        // A chase keeps step with the memory's clock of 1.5 ns.
        let remote = latency(node);
        assert!((remote - local - 80.0).abs() < 2.0, "{remote} {local}");
    }
}

#[test]
fn a_link_carries_what_it_can_and_others_go_beside_it() {
    // One write in two lines crosses a link the other way.
    let lines = "{ kind = \"uniform\", size = \"64 MiB\" }";
    let rates = |tasks: &[String]| -> Vec<f64> {
        nodes(1024, tasks).tasks.iter().map(|task| task.read_bytes_per_second).collect()
    };
    let total = |tasks: &[String]| rates(tasks).iter().sum::<f64>();
    let link = 6400e6;
    let one = total(&[on("a", 0, 1, lines)]);
    assert_within_a_percent("one reader", one, link);
    let shared = total(&[on("a", 0, 1, lines), on("b", 1, 1, lines)]);
    assert_within_a_percent("two readers over one link", shared, link);
    // From nodes of their own, over two links, the memory of node 1 gives more.
    let apart = total(&[on("a", 0, 1, lines), on("b", 8, 1, lines)]);
    assert!(apart > 1.5 * link && apart <= 2.01 * link, "{apart}");
    assert!(rates(&[on("a", 0, 0, lines)])[0] > 1.05 * link, "no link to one's own node");
}

/// A desktop with a last level of 8 MiB and 16 ways.
fn desktop(tasks: &[String]) -> Report {
    run(&DESKTOP_WITH_LAST_LEVEL.text(tasks))
}

#[test]
fn ways_limit_what_a_task_fills_and_protect_what_others_have() {
    let reader = |ways: &str| {
        format!(
            "[[task]]\nname = \"reader\"\ncores = \"0\"\n{ways}\nreferences = 600000\n\
             workload = {{ kind = \"uniform\", size = \"6 MiB\" }}\n"
        )
    };
    let stream = |ways: &str| {
        format!(
            "[[task]]\nname = \"stream\"\ncores = \"1\"\n{ways}\n\
             workload = {{ kind = \"bandwidth\", size = \"64 MiB\", gap = 0 }}\n"
        )
    };
    let misses = |tasks: &[String]| desktop(tasks).tasks[0].llc_misses;
    // 6 MiB are 98304 lines, each missed once; in four of 16 ways a third of them have room.
    let alone = misses(&[reader("")]);
    assert!((97_000..103_000).contains(&alone), "{alone}");
    let confined = misses(&[reader("ways = \"0-3\"")]);
    assert!(confined > 2 * alone, "{confined}");
    let beside = misses(&[reader(""), stream("")]);
    let protected = misses(&[reader("ways = \"2-15\""), stream("ways = \"0-1\"")]);
    assert!(beside > alone * 5 / 4, "{beside} {alone}");
    assert!(protected < alone * 21 / 20, "{protected} {alone}");
}

#[test]
fn huge_pages_fault_once_in_two_megabytes() {
    let task = |huge: bool| {
        format!(
            "[[task]]\nname = \"one\"\ncores = \"0\"\nhuge_pages = {huge}\nreferences = 600000\n\
             workload = {{ kind = \"bandwidth\", size = \"32 MiB\" }}\n"
        )
    };
    let faults = |huge| {
        let TaskReport { page_faults, frames, .. } = desktop(&[task(huge)]).tasks.remove(0);
        (page_faults, frames)
    };
    assert_eq!(faults(false), (8192, 8192));
    assert_eq!(faults(true), (16, 8192));
}

/// The time of a first touch belongs to whoever touches.
#[test]
fn a_first_touch_takes_its_time() {
    let machine = Machine {
        duration: "50 ms",
        count: 1,
        cores: "window = 0",
        caches: "latency_cycles = [4, 14, 40, 60, 120]\nl1 = { size = \"32 KiB\", ways = 8 }",
        ..DESKTOP
    };
    let task = "[[task]]\nname = \"one\"\ncores = \"0\"\nreferences = 4096\n\
                workload = { kind = \"bandwidth\", size = \"16 MiB\", step = \"4 KiB\" }\n"
        .to_owned();
    let text = |fault: &str| Machine { fault, ..machine }.text(std::slice::from_ref(&task));
    let time = |fault: &str| run(&text(fault)).tasks[0].completed_ns.unwrap();
    assert_within_a_percent("4096 first touches", time("2 us") - time("0 ns"), 4096.0 * 2000.0);
}

/// The Opteron of the theses has lines of 128 bytes: two bursts of DDR3, of which the second waits for the bus.
#[test]
fn a_line_of_two_bursts_takes_both() {
    let chase = "{ kind = \"latency\", size = \"64 MiB\" }";
    let report = nodes(0, &[on("one", 0, 0, chase)]);
    let one = &report.tasks[0];
    let reads = report.ranks.iter().map(|rank| rank.reads).sum::<u64>();
    assert_eq!(reads, 2 * one.llc_misses, "{one:?}");
    // DDR3-1333: 9-9-9, four clocks of 1.5 ns for a burst, 40 ns the way; half a clock more, as cores have their own.
    let hit = 40.0 + 1.5 * (f64::from(9 + 4 + 4) + 0.5);
    let (rows, opened) = (1.5 * 9.0, one.row_hits + one.row_misses + one.row_conflicts);
    let share = |count: u64| count as f64 / opened as f64;
    let expected = hit + share(one.row_misses) * rows + share(one.row_conflicts) * 2.0 * rows;
    assert_within_a_percent("latency", one.read_latency_ns.mean, expected);
    // Both bursts count as what was read.
    let bytes = one.read_bytes_per_second * one.completed_ns.unwrap() / 1e9;
    assert_within_a_percent("bytes", bytes, 128.0 * one.llc_misses as f64);
}

#[test]
fn last_levels_of_their_own_keep_sockets_apart() {
    let misses = |llc: &str, core: u32| {
        let task =
            |name: &str, core: u32, rest: &str| format!("[[task]]\nname = \"{name}\"\ncores = \"{core}\"\n{rest}\n");
        let reader = "references = 400000\nworkload = { kind = \"uniform\", size = \"1536 KiB\" }";
        let stream = "workload = { kind = \"bandwidth\", size = \"64 MiB\", gap = 0 }";
        let caches = format!(
            "latency_cycles = [3, 12, 40, 60, 80]\nline = \"64\"\nl1 = {{ size = \"64 KiB\", ways = 2 }}\n\
             l2 = {{ size = \"128 KiB\", ways = 16 }}\nllc = {llc}\n"
        );
        let text =
            Machine { caches: &caches, ..OPTERON }.text(&[task("reader", 0, reader), task("stream", core, stream)]);
        run(&text).tasks[0].llc_misses
    };
    let (one, two) = ("{ size = \"2 MiB\", ways = 16 }", "{ size = \"2 MiB\", ways = 16, instances = 2 }");
    // 24576 lines, each missed once where nobody displaces them.
    let apart = misses(two, 8);
    assert!((24_000..25_500).contains(&apart), "{apart}");
    for (llc, core) in [(one, 8), (two, 1)] {
        let together = misses(llc, core);
        assert!(together > apart * 5 / 4, "{llc}, core {core}: {together} {apart}");
    }
}
