//! Does the machine as a whole do what arithmetic says of its parts?

use crate::common::{DESKTOP, Machine, parse, refused, run};
use memtint_sim::report::BankReport;
use memtint_sim::{Report, Scenario, simulate};

/// Latencies of 4, 14, 40, 60 and 120 cycles at 3 GHz; one task.
fn scenario(cores: &str, controller: &str, task: &str) -> String {
    scenario_on(DESKTOP, cores, controller, task)
}

/// On a machine that differs from that.
fn scenario_on(machine: Machine, cores: &str, controller: &str, task: &str) -> String {
    let tables = format!("[simulation.controller]\n{controller}\n{}", machine.tables);
    let one = format!("[[task]]\nname = \"one\"\ncores = \"0\"\n{task}\n");
    Machine { cores, tables: &tables, ..machine }.text(&[one])
}

const BY_PRIORITY: Machine = Machine { system: "scheduling = \"fixed-priority\"", ..DESKTOP };

fn assert_within_a_percent(name: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{name}: {found}, the formula says {expected}");
}

/// tCK of DDR4-2400 in nanoseconds.
const CLOCK: f64 = 2.5 / 3.0;

/// A pointer chase through far more memory than caches and open rows: every load misses everything, and its row.
#[test]
fn an_unloaded_miss_takes_the_way_and_a_row_conflict() {
    let task = "workload = { kind = \"latency\", size = \"128 MiB\" }\nreferences = 200000";
    let report = run(&scenario("window = 128", "refresh = \"none\"", task));
    let one = &report.tasks[0];
    let conflict = 120.0 / 3.0 + f64::from(17 + 17 + 17 + 4) * CLOCK;
    let hit = 120.0 / 3.0 + f64::from(17 + 4) * CLOCK;
    // Half a clock more on average: cores and channels have clocks of their own. Some loads meet their row.
    let share = one.row_hits as f64 / (one.row_hits + one.row_conflicts + one.row_misses) as f64;
    let expected = conflict * (1.0 - share) + hit * share + CLOCK / 2.0;
    assert!(share < 0.2, "{share} of the loads meet their row");
    assert_within_a_percent("mean latency", one.read_latency_ns.mean, expected);
    // What the banks saw is the same without the way.
    let of_banks = |field: fn(&BankReport) -> f64| report.banks.iter().map(field).sum::<f64>();
    let reads = of_banks(|bank| bank.read_latency_ns.count as f64);
    assert_eq!(reads as u64, one.read_latency_ns.count);
    let mean = of_banks(|bank| bank.read_latency_ns.mean * bank.read_latency_ns.count as f64) / reads;
    assert_within_a_percent("mean latency of banks", mean, expected - 120.0 / 3.0);
    assert_within_a_percent("bandwidth of banks", of_banks(|bank| bank.bytes_per_second), one.read_bytes_per_second);
    // With two more instructions for each load, four wide; the time of one load after the other.
    let per_load = one.completed_ns.unwrap() / one.references as f64;
    assert_within_a_percent("time for each load", per_load, expected);
}

/// Independent reads of random lines with ten misses under way: Little's law.
#[test]
fn misses_under_way_are_bandwidth_times_latency() {
    let task = "workload = { kind = \"uniform\", size = \"1 GiB\" }\nreferences = 300000";
    let report = run(&scenario("window = 1024\nmshrs = 10", "refresh = \"none\"", task));
    let one = &report.tasks[0];
    let rate = one.llc_misses as f64 / one.completed_ns.unwrap();
    assert_within_a_percent("misses under way", rate * one.read_latency_ns.mean, 10.0);
}

/// Of the instructions after a load, a window full can be under way before its line is there; all others come after it, however
/// far the next reference is.
#[test]
fn what_is_beyond_the_window_waits_for_the_load() {
    let time = |window: u64, gap: u64| {
        let task = format!("workload = {{ kind = \"uniform\", size = \"1 GiB\", gap = {gap} }}\nreferences = 4000");
        let report = run(&scenario(&format!("window = {window}\nwidth = 1"), "refresh = \"none\"", &task));
        let one = &report.tasks[0];
        // In slots, one in a cycle.
        let slots = |ns: f64| ns * 3.0;
        (slots(one.completed_ns.unwrap() / one.references as f64), slots(one.read_latency_ns.mean))
    };
    for gap in [300, 999, 5000] {
        for window in [0, 16, 64, 150] {
            let (found, latency) = time(window, gap);
            assert!(latency > window as f64, "{latency}");
            let expected = (gap + 1) as f64 + latency - window as f64;
            assert_within_a_percent(&format!("gap {gap}, window {window}"), found, expected);
        }
        let (found, _) = time(4096, gap);
        assert_within_a_percent(&format!("gap {gap}, a window for all"), found, (gap + 1) as f64);
    }
}

/// The same for what the second level answers: a core without window waits for each, and begins the next instruction then.
#[test]
fn a_core_without_window_waits_for_hits_too() {
    for gap in [0, 20, 300] {
        let task =
            format!("workload = {{ kind = \"bandwidth\", size = \"128 KiB\", gap = {gap} }}\nreferences = 100000");
        let report = run(&scenario("window = 0\nwidth = 1", "refresh = \"none\"", &task));
        let one = &report.tasks[0];
        let share = one.llc_misses as f64 / one.references as f64;
        assert!(share < 0.03, "{share} of the loads miss");
        let expected = f64::from(gap + 1) + share * one.read_latency_ns.mean * 3.0 + (1.0 - share) * 14.0;
        let found = one.completed_ns.unwrap() * 3.0 / one.references as f64;
        assert_within_a_percent(&format!("gap {gap}"), found, expected);
    }
}

/// A page fault takes its time too when the reference behind it finds no miss register free.
#[test]
fn a_page_fault_is_paid_for_when_no_register_is_free() {
    let stores = "workload = { kind = \"uniform\", size = \"1 GiB\", writes_per_1024 = 1024 }\nreferences = 1000";
    let machine = Machine { fault: "10 us", ..DESKTOP };
    let report = run(&scenario_on(machine, "width = 1\nmshrs = 1", "refresh = \"none\"", stores));
    let one = &report.tasks[0];
    assert!(one.page_faults > 990, "{} of 1000 references to a page of their own", one.page_faults);
    assert_within_a_percent("completed", one.completed_ns.unwrap(), one.page_faults as f64 * 10_000.0);
}

/// A stream over both channels, with enough misses under way, fills the buses but for the refresh.
#[test]
fn a_stream_has_the_peak_bandwidth() {
    let task = "workload = { kind = \"bandwidth\", size = \"256 MiB\", gap = 0 }\nreferences = 1000000";
    let report = run(&scenario("window = 4096\nmshrs = 64\nwidth = 8", "refresh = \"none\"", task));
    // Two channels of eight bytes at 2400 million transfers a second. Bank groups change with address bit 7, so that
    // neighbouring lines alternate between groups.
    let peak = 2.0 * 8.0 * 2400e6;
    let found = report.tasks[0].read_bytes_per_second;
    assert!(found > 0.9 * peak && found <= peak * 1.001, "{found} bytes a second, the peak is {peak}");
}

/// A node's channels are as many hops away as the scenario says, there and back.
#[test]
fn every_hop_takes_its_time() {
    let text = |hops: &str, banks: &str| {
        let task =
            format!("banks = \"{banks}\"\nworkload = {{ kind = \"latency\", size = \"64 MiB\" }}\nreferences = 20000");
        let numa = format!("[simulation.numa]\nhop = \"20 ns\"\n{hops}\n");
        let machine = Machine { platform: "opteron-6128-camc", device: "ddr3-1333", tables: &numa, ..DESKTOP };
        scenario_on(machine, "window = 0", "refresh = \"none\"", &task)
    };
    let hops = "hops = [[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 2, 1, 0]]";
    let latency = |banks: &str| run(&text(hops, banks)).tasks[0].read_latency_ns.mean;
    let local = latency("0-7");
    // The two bursts of a line come from two channels at once, but over a link one after the other: 64 bytes at 12.8 GB/s.
    for (banks, hops) in [("8-15", 1.0), ("16-23", 2.0), ("24-31", 2.0)] {
        assert_within_a_percent(banks, latency(banks), local + 2.0 * 20.0 * hops + 5.0);
    }
    for wrong in ["hops = [[0, 1], [1, 0]]", "hops = [[0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]"] {
        refused(&text(wrong, "0"), &["numa.hops"]);
    }
}

/// An in-order core executes what fits the first level at one instruction a slot.
#[test]
fn first_level_hits_cost_nothing_but_their_slot() {
    let task = "workload = { kind = \"bandwidth\", size = \"16 KiB\", gap = 3 }\nreferences = 10000000";
    let report = run(&scenario("window = 0\nwidth = 2", "", task));
    assert_within_a_percent("instructions a cycle", report.tasks[0].ipc, 2.0);
}

#[test]
fn equal_seeds_give_equal_results_on_any_number_of_threads() {
    let machine = Machine { simulation: "alone = true", ..DESKTOP };
    let reader = "workload = { kind = \"uniform\", size = \"64 MiB\" }\nreferences = 50000";
    let mut text = scenario_on(machine, "window = 64", "", reader);
    for core in 1..4 {
        text += &format!(
            "[[task]]\nname = \"t{core}\"\ncores = \"{core}\"\nreferences = 50000\n\
             workload = {{ kind = \"uniform\", size = \"64 MiB\", writes_per_1024 = 300 }}\n"
        );
    }
    let scenario = parse(&text).unwrap();
    let results = [1, 2, 3].map(|threads| simulate(&scenario, threads, &|_: f64| true).unwrap());
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
    assert!(results[0].maximum_slowdown.unwrap() > 1.0);
    let other = simulate(&scenario.with_seed(2), 1, &|_: f64| true).unwrap();
    assert_ne!(results[0].tasks, other.tasks);
}

/// Frames of every task are of its colors: no two tasks meet in a bank.
#[test]
fn tasks_in_disjoint_classes_never_meet_in_a_bank() {
    let text = |banks: [&str; 2]| {
        let mut text = scenario(
            "window = 64",
            "",
            &format!(
                "banks = \"{}\"\nshared = true\nworkload = {{ kind = \"uniform\", size = \"64 MiB\" }}\nreferences = 100000",
                banks[0]
            ),
        );
        text += &format!(
            "[[task]]\nname = \"two\"\ncores = \"1\"\nbanks = \"{}\"\nshared = true\nreferences = 100000\n\
             workload = {{ kind = \"uniform\", size = \"64 MiB\" }}\n",
            banks[1]
        );
        text
    };
    let used = |report: &Report| report.banks.iter().map(|bank| (bank.channel, bank.bank)).collect::<Vec<_>>();
    let low = used(&run(&text(["0-3", "0-3"])));
    let high = used(&run(&text(["8-11", "8-11"])));
    let both = used(&run(&text(["0-3", "8-11"])));
    assert_eq!((low.len(), high.len(), both.len()), (16, 16, 32), "four classes of four banks each");
    assert!(low.iter().all(|bank| !high.contains(bank)));
}

#[test]
fn jobs_are_released_and_judged() {
    let text = scenario(
        "window = 0",
        "refresh = \"none\"",
        "workload = { kind = \"latency\", size = \"64 MiB\" }\nperiod = \"1 ms\"\nreferences = 5000",
    );
    let report = run(&text);
    let one = &report.tasks[0];
    // 5000 loads of about 86 ns.
    assert_eq!((one.jobs, one.deadline_misses), (20, 0));
    let response = one.response_ns.unwrap();
    assert!((400_000.0..480_000.0).contains(&response.max), "{response:?}");
    let late = run(&text.replace("references = 5000", "references = 20000"));
    assert!(late.tasks[0].jobs < 20 && late.tasks[0].deadline_misses >= late.tasks[0].jobs);
}

/// Two chases with jobs on one core, the second of them urgent; without it, one.
fn jobs(job: &str, urgent: Option<&str>) -> String {
    let chase = |priority: u32, job: &str| {
        format!("priority = {priority}\nworkload = {{ kind = \"latency\", size = \"64 MiB\" }}\n{job}\n")
    };
    let text = scenario_on(BY_PRIORITY, "window = 0", "refresh = \"none\"", &chase(2, job));
    let urgent = urgent.map(|job| format!("[[task]]\nname = \"urgent\"\ncores = \"0\"\n{}", chase(1, job)));
    text + &urgent.unwrap_or_default()
}

#[test]
fn late_jobs_are_given_up_at_their_deadline() {
    let report = run(&jobs("period = \"1 ms\"\nreferences = 20000\nlate = \"give-up\"", None));
    let one = &report.tasks[0];
    // 20000 loads of about 86 ns take 1.7 ms. The last job is given up when the simulation ends, or is not yet.
    assert_eq!(one.jobs, 0);
    assert!((19..=20).contains(&one.jobs_given_up), "{}", one.jobs_given_up);
    assert_eq!(one.deadline_misses, one.jobs_given_up);
    assert!(report.core_utilization[0] > 0.99, "it runs all the time: {:?}", report.core_utilization);
    // A job that is preempted is given up as well, and leaves nothing to the one after it.
    let late = "period = \"1 ms\"\nreferences = 10000\nlate = \"give-up\"";
    let text = |more: &str| jobs(&format!("{late}{more}"), Some("period = \"2 ms\"\nreferences = 9000"));
    let report = run(&text(""));
    // Every second job has what 0.77 ms of 1 ms leave, less than the 0.86 ms that it needs.
    let jobs = (report.tasks[0].jobs, report.tasks[0].jobs_given_up);
    assert_eq!((jobs, report.tasks[1].deadline_misses), ((10, 10), 0));
    // The first is left out when the scenario says so.
    let later = run(&text("\nuncounted = 1"));
    assert_eq!(later.tasks[0].jobs + later.tasks[0].jobs_given_up, 19);
    let execution = report.tasks[0].execution_ns.unwrap();
    let response = report.tasks[0].response_ns.unwrap();
    assert!((execution.mean - response.mean).abs() < 0.01 * response.mean, "{execution:?} {response:?}");
}

#[test]
fn execution_is_response_without_preemption() {
    let urgent = "period = \"1 ms\"\nreferences = 2000";
    let report = run(&jobs("period = \"2 ms\"\nreferences = 10000", Some(urgent)));
    let [slow, urgent] = &report.tasks[..] else { panic!("two tasks") };
    let (execution, response) = (slow.execution_ns.unwrap(), slow.response_ns.unwrap());
    let other = urgent.execution_ns.unwrap();
    // One job of the urgent task comes first, and in the longest another in the middle.
    let expected = execution.max + 2.0 * other.max;
    assert!((response.max - expected).abs() < 0.01 * expected, "{execution:?} {response:?} {other:?}");
    assert!((execution.mean - 5.0 * other.mean).abs() < 0.1 * execution.mean, "{execution:?} {other:?}");
}

#[test]
fn tasks_of_a_group_wait_for_each_other() {
    let mut text = scenario(
        "window = 0",
        "",
        "workload = { kind = \"latency\", size = \"64 MiB\" }\nbarrier = { group = 1, every = 1000 }\nreferences = 10000",
    );
    text += "[[task]]\nname = \"two\"\ncores = \"1\"\nworkload = { kind = \"latency\", size = \"16 KiB\" }\n\
             barrier = { group = 1, every = 1000 }\nreferences = 10000\n";
    let report = run(&text);
    let [slow, fast] = &report.tasks[..] else { panic!("two tasks") };
    assert!(fast.barrier_idle_ns > 0.8 * slow.completed_ns.unwrap(), "{}", fast.barrier_idle_ns);
    assert!(slow.barrier_idle_ns < 0.01 * slow.completed_ns.unwrap(), "{}", slow.barrier_idle_ns);
    let apart = (slow.completed_ns.unwrap() - fast.completed_ns.unwrap()).abs();
    assert!(apart < 0.2 * slow.completed_ns.unwrap(), "both end with the slower: {apart} ns apart");
}

#[test]
fn priorities_preempt() {
    let endless = "workload = { kind = \"bandwidth\", size = \"16 KiB\" }\npriority = 9";
    let urgent = "[[task]]\nname = \"urgent\"\ncores = \"0\"\npriority = 1\n\
                  workload = { kind = \"bandwidth\", size = \"16 KiB\" }\nperiod = \"100 us\"\nreferences = 20000\n";
    let text = scenario_on(BY_PRIORITY, "window = 0", "", endless) + urgent;
    let report = run(&text);
    let urgent = &report.tasks[1];
    // 20000 references of three instructions, four in a cycle, at 3 GHz: 5 us of each 100.
    assert_eq!((urgent.jobs, urgent.deadline_misses), (200, 0));
    assert!(urgent.response_ns.unwrap().p99 < 6_000.0, "{:?}", urgent.response_ns);
    assert!((report.core_utilization[0] - 1.0).abs() < 0.01, "the other has the rest: {:?}", report.core_utilization);
}

/// A program with one miss at a time takes, for each, the instructions between and the way to memory.
#[test]
fn a_program_model_executes_its_published_statistics() {
    let task = "program = \"bpm/456.hmmer\"\nreferences = 20000";
    let one = &run(&scenario("window = 128", "refresh = \"none\"", task)).tasks[0];
    assert_within_a_percent("misses", one.llc_misses_per_kilo_instruction, 5.7);
    refused(&scenario("", "", &task.replace("456.hmmer", "456.hmmr")), &["456.hmmr", "bpm/456.hmmer"]);
}

/// Requests reach every channel in time, whatever the other channels do: nobody waits for more than a few refreshes.
#[test]
fn no_channel_runs_ahead_of_the_cores() {
    let chase = "banks = \"0-3\"\nworkload = { kind = \"latency\", size = \"32 MiB\" }";
    let mut text = scenario_on(Machine { duration: "2 ms", ..DESKTOP }, "window = 224", "", chase);
    let workloads = [
        "bandwidth\", size = \"32 MiB\"",
        "bandwidth\", size = \"32 MiB\", write = true",
        "stream\", size = \"96 MiB\"",
    ];
    for (core, workload) in (1..).zip(workloads) {
        text += &format!("[[task]]\nname = \"t{core}\"\ncores = \"{core}\"\nworkload = {{ kind = \"{workload} }}\n");
    }
    for task in run(&text).tasks {
        assert!(task.read_latency_ns.max < 3_000.0, "{}: {:?}", task.name, task.read_latency_ns);
    }
}

/// A recorded program ends by itself, and the simulation with it, however long its neighbours could go on.
#[test]
fn the_end_of_a_recording_is_the_end() {
    use memtint_workload::{Reference, TraceHeader, TraceWriter};
    let folder = std::env::temp_dir().join(format!("memtint-sim-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut writer = TraceWriter::create(&folder.join("t.trace"), &TraceHeader::named("test")).unwrap();
    for index in 0..5000u64 {
        writer.push(0, &Reference::read(index * 64, 8, 1)).unwrap();
    }
    writer.finish(None, Vec::new()).unwrap();
    let mut text = scenario("window = 0", "", "workload = { kind = \"trace\", file = \"t.trace\" }");
    text += "[[task]]\nname = \"endless\"\ncores = \"1\"\nworkload = { kind = \"uniform\", size = \"16 MiB\" }\n";
    let scenario = Scenario::parse(&text, &folder.join("test")).unwrap();
    let report = simulate(&scenario, 1, &|_: f64| true).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((report.tasks[0].references, report.tasks[0].ending.as_str()), (5000, "completed"));
    assert!(report.simulated_ns < 2_000_000.0, "{} ns", report.simulated_ns);
    assert!(report.tasks[1].references > 1000 && report.tasks[1].ending == "running");
}
