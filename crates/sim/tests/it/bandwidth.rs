//! Regulated bandwidth: does each have its budget and no more, whatever the others do, and do donations, sharing, classes of banks and
//! counters work as they say?

use crate::common::{CORE_2_QUAD, DESKTOP, Machine, parse, refused, refused_changed, run};
use memtint_sim::report::{BandwidthReport, RegulatorReport};
use memtint_sim::scenario::ScenarioSpec;
use memtint_sim::{Report, Scenario};
use proptest::prelude::*;
use std::path::Path;

/// Four cores of a Core 2 Quad; a pair has a cache, of which each task has a part.
fn machine(duration_ms: u64, bandwidth: &str, tasks: &[String]) -> String {
    machine_with("", duration_ms, bandwidth, tasks)
}

/// With further lines of the operating system.
fn machine_with(system: &str, duration_ms: u64, bandwidth: &str, tasks: &[String]) -> String {
    let duration = format!("{duration_ms} ms");
    Machine { duration: &duration, system, tables: bandwidth, ..CORE_2_QUAD }.text(tasks)
}

fn bandwidth(lines: &str, groups: &[(&str, &str)]) -> String {
    let group = |(name, lines): &(&str, &str)| format!("[[group]]\nname = \"{name}\"\n{lines}\n");
    format!("[simulation.bandwidth]\n{lines}\n{}", groups.iter().map(group).collect::<String>())
}

/// A task that goes through memory; it has a half of its cache. The same set colors are of two caches.
fn walker(name: &str, core: u32, workload: &str) -> String {
    let sets = if core.is_multiple_of(2) { "0-31" } else { "32-63" };
    format!(
        "[[task]]\nname = \"{name}\"\ncores = \"{core}\"\nsets = \"{sets}\"\nshared = true\n\
         workload = {{ kind = \"bandwidth\", size = \"16 MiB\", {workload} }}\n"
    )
}

fn budgets(report: &Report) -> &BandwidthReport {
    report.bandwidth.as_ref().expect("there are budgets")
}

fn regulator<'a>(report: &'a Report, subject: &str, counts: &str) -> &'a RegulatorReport {
    let is = |regulator: &&RegulatorReport| regulator.subject == subject && regulator.counts == counts;
    budgets(report).regulators.iter().find(is).unwrap_or_else(|| panic!("{subject} {counts}"))
}

/// What each has per period, as a share of its budget.
fn shares(report: &Report) -> Vec<f64> {
    let share = |regulator: &RegulatorReport| {
        regulator.events as f64 / budgets(report).periods as f64 / f64::from(regulator.budget)
    };
    budgets(report).regulators.iter().map(share).collect()
}

fn of_file(regulated: bool) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bandwidth-shares.toml");
    let scenario = Scenario::load(&path).unwrap();
    let scenario = if regulated { scenario } else { scenario.unregulated().unwrap() };
    memtint_sim::simulate(&scenario, 2, &|_: f64| true).unwrap()
}

#[test]
fn weights_divide_bandwidth_and_hogs_cost_a_foreground_nothing() {
    let report = of_file(true);
    let rates: Vec<f64> = budgets(&report).regulators.iter().map(|regulator| regulator.bytes_per_second).collect();
    for (rate, weight) in rates.iter().zip([8.0, 4.0, 2.0, 1.0]) {
        let expected = rates.iter().sum::<f64>() * weight / 15.0;
        assert!((rate / expected - 1.0).abs() < 0.02, "{rates:?}");
    }
    assert!(report.tasks[0].slowdown.unwrap() < 1.03, "{:?}", report.tasks[0].slowdown);
    assert_eq!(budgets(&report).broken(), None);
    let unregulated = of_file(false);
    assert!(unregulated.tasks[0].slowdown.unwrap() > 5.0, "{:?}", unregulated.tasks[0].slowdown);
    assert_eq!(unregulated.bandwidth, None);
}

/// Beside hogs that have three times what is guaranteed to them, if nobody stops them.
#[test]
fn a_core_without_a_budget_is_not_regulated_and_one_without_work_is_not_throttled() {
    let groups = [("all", "cores = \"0-1\"\nmb_per_s = 300")];
    let tasks = [walker("a", 0, "gap = 2"), walker("free", 2, "gap = 2")];
    let report = run(&machine(10, &bandwidth("", &groups), &tasks));
    let (busy, idle) = (regulator(&report, "core 0", "lines"), regulator(&report, "core 1", "lines"));
    assert_eq!((idle.events, idle.throttled_periods, idle.periods), (0, 0, 10));
    assert!((busy.bytes_per_second / 300e6 - 1.0).abs() < 0.01, "{busy:?}");
    assert!(report.tasks[1].read_bytes_per_second > 2e9, "{:?}", report.tasks[1]);
    assert_eq!((&budgets(&report).unregulated[..], budgets(&report).uncounted), (&["free".to_owned()][..], None));
}

#[test]
fn a_throttled_task_leaves_its_core_to_others_and_a_throttled_core_stands_still() {
    let tasks = [walker("hog", 0, "gap = 2") + "priority = 1\n", walker("other", 0, "gap = 2") + "priority = 2\n"];
    let system = "scheduling = \"fixed-priority\"";
    let regulated = |group: (&str, &str)| run(&machine_with(system, 20, &bandwidth("", &[group]), &tasks));
    let of_task = regulated(("hog", "tasks = [\"hog\"]\nmb_per_s = 100"));
    let hog = regulator(&of_task, "task hog", "lines");
    assert!((hog.bytes_per_second / 100e6 - 1.0).abs() < 0.05, "{hog:?}");
    assert!(of_task.core_utilization[0] > 0.99, "{:?}", of_task.core_utilization);
    assert!(of_task.tasks[1].read_bytes_per_second > 2e9, "{:?}", of_task.tasks[1]);
    let of_core = regulated(("core", "cores = \"0\"\nmb_per_s = 100"));
    assert!(of_core.core_utilization[0] < 0.1, "{:?}", of_core.core_utilization);
    let core = regulator(&of_core, "core 0", "lines");
    let standing = core.throttled_ns / of_core.simulated_ns;
    assert!((standing + of_core.core_utilization[0] - 1.0).abs() < 0.01, "{standing} {:?}", of_core.core_utilization);
}

/// A task that may run on two cores goes where it is not throttled.
#[test]
fn a_task_that_may_move_leaves_a_throttled_core() {
    let task = "[[task]]\nname = \"moves\"\ncores = \"0-1\"\nworkload = { kind = \"bandwidth\", size = \"16 MiB\" }\n";
    let groups = [("first", "cores = \"0\"\nmb_per_s = 100")];
    let report = run(&machine(5, &bandwidth("", &groups), &[task.to_owned()]));
    assert!(report.tasks[0].migrations > 0 && report.tasks[0].read_bytes_per_second > 1.5e9, "{:?}", report.tasks[0]);
    let held = regulator(&report, "core 0", "lines");
    assert!(held.most_in_a_period <= u64::from(held.budget + held.quantum + held.skid), "{held:?}");
}

#[test]
fn what_an_idle_core_donates_is_used_by_those_who_need_it_and_taken_back() {
    // It computes for 10 ms, and then lives from memory for 10 ms.
    let by_turns = "[[task]]\nname = \"by-turns\"\ncores = \"0\"\nsets = \"0-31\"\nshared = true\n\
        workload = { kind = \"bandwidth\", size = \"16 MiB\", gap = 2 }\nperiod = \"20 ms\"\nreferences = 40000\n";
    let hog = walker("hog", 2, "gap = 2");
    let with = |kind: &str| {
        let lines = [
            format!("cores = \"0\"\nmb_per_s = 500\nkind = \"{kind}\""),
            format!("cores = \"2\"\nmb_per_s = 200\nkind = \"{kind}\""),
        ];
        let groups = [("by-turns", lines[0].as_str()), ("hog", lines[1].as_str())];
        run(&machine(100, &bandwidth("", &groups), &[by_turns.to_owned(), hog.clone()]))
    };
    let (hard, soft) = (with("hard"), with("soft"));
    let rate = |report: &Report| regulator(report, "core 2", "lines").bytes_per_second;
    assert!((rate(&hard) / 200e6 - 1.0).abs() < 0.02, "{}", rate(&hard));
    assert!(rate(&soft) > 450e6, "{}", rate(&soft));
    let (donor, user) = (regulator(&soft, "core 0", "lines"), regulator(&soft, "core 2", "lines"));
    assert!(donor.donated > 0 && donor.returned > 0 && user.reclaimed > 0, "{donor:?} {user:?}");
    assert!(donor.reserved + donor.returned + donor.reclaimed >= donor.events.saturating_sub(300), "{donor:?}");
    assert!(donor.underruns > 0, "it needs its budget again, and others have a part of it: {donor:?}");
    assert!(budgets(&soft).counters[0].most_in_a_period <= budgets(&soft).counters[0].guaranteed);
    // Hard, nothing is given away, and nobody loses anything.
    let whole = regulator(&hard, "core 0", "lines");
    assert_eq!((whole.donated, whole.underruns, whole.reclaimed), (0, 0, 0));
}

#[test]
fn when_all_have_used_their_budgets_the_rest_of_the_period_is_shared() {
    let tasks: Vec<String> = (0..4).map(|core| walker(&format!("t{core}"), core, "gap = 2")).collect();
    let groups: Vec<(String, String)> =
        (0..4).map(|core| (format!("g{core}"), format!("cores = \"{core}\"\nweight = {}", 1 << core))).collect();
    let groups: Vec<(&str, &str)> = groups.iter().map(|(name, lines)| (name.as_str(), lines.as_str())).collect();
    let with = |sharing: &str| run(&machine(20, &bandwidth(&format!("sharing = \"{sharing}\""), &groups), &tasks));
    let total = |report: &Report| budgets(report).regulators.iter().map(|core| core.bytes_per_second).sum::<f64>();
    let (off, spare, proportional) = (with("off"), with("spare"), with("proportional"));
    for share in shares(&off).into_iter().chain(shares(&proportional)) {
        assert!((share - 1.0).abs() < 0.02, "{share}");
    }
    assert!(total(&spare) > 2.0 * total(&off) && total(&proportional) > 2.0 * total(&off));
    assert!(budgets(&spare).regulators.iter().all(|core| core.shared > 0 && core.throttled_periods > 0));
    assert!(budgets(&off).regulators.iter().all(|core| core.shared == 0));
    assert!(budgets(&proportional).periods > 2 * budgets(&off).periods, "{}", budgets(&proportional).periods);
    for report in [&off, &spare, &proportional] {
        assert_eq!(budgets(report).broken(), None);
    }
}

#[test]
fn each_class_of_banks_has_a_budget_of_its_own() {
    let with = |lines: &str, banks: &str| {
        let machine = Machine {
            duration: "5 ms",
            count: 2,
            caches: "latency_cycles = [4, 12, 42, 60, 120]\nl1 = { size = \"32 KiB\", ways = 8 }",
            tables: &bandwidth(lines, &[("core", "cores = \"0\"\nmb_per_s = 200")]),
            ..DESKTOP
        };
        machine.text(&[format!(
            "[[task]]\nname = \"both\"\ncores = \"0\"\nbanks = \"{banks}\"\n\
             workload = {{ kind = \"uniform\", size = \"32 MiB\" }}\n"
        )])
    };
    let file = |classes: &str, banks: &str| with(&format!("guaranteed_mb_per_s = 1000\n{classes}"), banks);
    let rate = |text: &str| run(text).tasks[0].read_bytes_per_second;
    let one = rate(&file("", "0-15"));
    let classes = "classes = [\"0-7\", \"8-15\"]";
    let (both, first) = (rate(&file(classes, "0-15")), rate(&file(classes, "0-7")));
    assert!((one / 200e6 - 1.0).abs() < 0.02, "{one}");
    assert!((first / 200e6 - 1.0).abs() < 0.02, "{first}");
    // Until one of them is used up.
    assert!((350e6..=402e6).contains(&both), "{both}");
    let report = run(&file(classes, "8-15"));
    let regulators = &budgets(&report).regulators;
    assert_eq!(regulators.iter().map(|class| class.banks.as_deref().unwrap()).collect::<Vec<_>>(), ["0-7", "8-15"]);
    assert!(regulators[0].events == 0 && regulators[1].events > 0, "{regulators:?}");
    refused(&file("classes = [\"0-7\", \"7-15\"]", "0-15"), &["bandwidth.classes", "7 in two", "in one of the lists"]);
    refused(&file("classes = [\"0-7\", \"9-15\"]", "0-15"), &["bandwidth.classes", "without 8"]);
    refused(&with(classes, "0-15"), &["bandwidth.guaranteed_mb_per_s", "absent", "each class"]);
}

#[test]
fn lines_read_and_written_are_counted_as_it_is_said() {
    let with = |lines: &str, budget: &str, workload: &str| {
        let groups = [("core", budget)];
        // Long enough that the cache, from which nothing is written until it is full, makes no difference.
        run(&machine(150, &bandwidth(lines, &groups), &[walker("t", 0, workload)]))
    };
    let of =
        |report: &Report| (report.tasks[0].read_bytes_per_second / 1e6, report.tasks[0].write_bytes_per_second / 1e6);
    let budget = "cores = \"0\"\nmb_per_s = 300";
    let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.03, "{found} {expected}");
    let misses = with("counts = \"misses\"", budget, "write = true");
    near(of(&misses).0, 300.0);
    assert_eq!((&budgets(&misses).unregulated[..], budgets(&misses).uncounted), (&[][..], Some("lines written")));
    let (read, written) = of(&with("counts = \"lines\"", budget, "write = true"));
    near(read + written, 300.0);
    let (read, written) = of(&with("write_cost = 4", budget, "write = true"));
    near(read + 4.0 * written, 300.0);
    let (_, written) = of(&with("counts = \"write-backs\"", budget, "write = true"));
    near(written, 300.0);
    let (read, written) = of(&with("counts = \"bursts\"", budget, "write = true"));
    near(read + written, 300.0);
    // Whichever is used up first.
    let apart = "cores = \"0\"\nmb_per_s = 400\nwrite_mb_per_s = 100";
    let report = with("counts = \"reads-and-writes\"", apart, "write = true");
    near(of(&report).1, 100.0);
    assert_eq!(regulator(&report, "core 0", "lines read").budget, 6250);
    let report = with("counts = \"reads-and-writes\"", apart, "gap = 2");
    near(of(&report).0, 400.0);
    assert_eq!(regulator(&report, "core 0", "lines written").events, 0);
}

#[test]
fn what_interrupts_take_is_told_and_a_skid_beyond_what_was_assumed_too() {
    let with = |lines: &str| {
        let groups = [("core", "cores = \"0\"\nmb_per_s = 400")];
        run(&machine(10, &bandwidth(lines, &groups), &[walker("t", 0, "gap = 2")]))
    };
    let free = with("");
    assert_eq!(budgets(&free).overhead_ns, 0.0);
    // 6250 lines in grants of 256, and the beginning of each period.
    let interrupts = budgets(&free).interrupts;
    assert!((250..=270).contains(&interrupts), "{interrupts}");
    let costly = with("overhead = \"10 us\"");
    let told = budgets(&costly);
    assert!((told.overhead_ns / told.interrupts as f64 / 10_000.0 - 1.0).abs() < 1e-9, "{told:?}");
    // 26 interrupts a period, of which those of the beginning and the end are of a core that stands still.
    let (before, after) = (&budgets(&free).regulators[0], &told.regulators[0]);
    let used = (before.throttled_ns - after.throttled_ns) / told.overhead_ns;
    assert!((0.9..=1.1).contains(&used), "{used}");
    assert_eq!((budgets(&free).broken(), told.broken()), (None, None));
    let late = with("skid = \"1 us\"\nskid_events = 8");
    let broken = budgets(&late).broken().expect("more than eight lines in a microsecond");
    assert!(broken.contains("core 0") && broken.contains("skid_events"), "{broken}");
    let skid = budgets(&late).regulators[0].longest_skid;
    let fits = with(&format!("skid = \"1 us\"\nskid_events = {skid}"));
    assert_eq!(budgets(&fits).broken(), None);
}

#[test]
fn budgets_that_cannot_be_are_refused() {
    let with =
        |lines: &str, groups: &[(&str, &str)]| machine(1, &bandwidth(lines, groups), &[walker("t", 0, "gap = 2")]);
    let one = |lines: &str| with("", &[("g", lines)]);
    refused(&one("cores = \"0\"\nmb_per_s = 1100"), &["the sum of all budgets", "MB/s", "which the memory guarantees"]);
    let exact = |guaranteed: u32| {
        with(
            &format!("guaranteed_mb_per_s = {guaranteed}\nquantum = 100\nskid_events = 25"),
            &[("g", "cores = \"0\"\nbudget = 91968")],
        )
    };
    // 1437 + 100 + 25 of 100 MB/s, which are 1562 lines: equality is enough.
    assert!(parse(&exact(100)).is_ok());
    refused(&exact(99), &["1562 events", "up to 1546"]);
    refused(&one("cores = \"0\""), &["\"g\": the amount is missing", "one of mb_per_s, budget and weight"]);
    refused(&one("cores = \"0\"\nmb_per_s = 1\nweight = 1"), &["\"g\": the amount is given 2 times"]);
    refused(&one("mb_per_s = 1"), &["\"g\": cores, tasks is missing", "one of the two"]);
    refused(&one("cores = \"0-4\"\nmb_per_s = 1"), &["\"g\": cores", "0-4"]);
    refused(&one("tasks = [\"x\"]\nmb_per_s = 1"), &["\"g\": tasks is \"x\"; accepted is names of tasks"]);
    refused(&one("cores = \"0\"\nmb_per_s = 0"), &["\"g\": mb_per_s is 0", "a whole number, 1 to 4294967295"]);
    refused(&one("cores = \"0\"\nmb_per_s = 9\nwrite_mb_per_s = 1"), &["write_mb_per_s", "reads-and-writes"]);
    let two = |second: &str| with("", &[("g", "cores = \"0\"\nmb_per_s = 1"), ("h", second)]);
    refused(&two("cores = \"0-1\"\nmb_per_s = 1"), &["\"h\": cores is core 0", "it is in \"g\""]);
    refused(&two("tasks = [\"t\"]\nmb_per_s = 1"), &["\"h\": tasks", "core 0, which has a budget itself"]);
    refused(&two("cores = \"1\"\nweight = 1"), &["weight", "of each group, or of none"]);
    let named_twice = with("", &[("g", "cores = \"0\"\nmb_per_s = 1"), ("g", "cores = \"1\"\nmb_per_s = 1")]);
    refused(&named_twice, &["name of group is \"g\" twice"]);
    let lines = |lines: &str| with(lines, &[("g", "cores = \"0\"\nmb_per_s = 9")]);
    refused(&lines("period = \"0 ns\""), &["bandwidth.period is 0 ps"]);
    refused(&lines("quantum = 0"), &["bandwidth.quantum is 0"]);
    refused(&lines("reclaim_step = 257"), &["bandwidth.reclaim_step is 257", "1 to 256"]);
    refused(&lines("skid = \"2 ms\""), &["bandwidth.skid"]);
    refused(&lines("counts = \"misses\"\nwrite_cost = 2"), &["bandwidth.write_cost", "unless counts is lines"]);
    refused(&lines("guaranteed_mb_per_s = 0"), &["bandwidth.guaranteed_mb_per_s is 0"]);
    refused(&lines("sharing = \"some\""), &["sharing"]);
    // What refresh in one burst leaves of a millisecond in the worst case.
    let burst = "[simulation.controller]\nrefresh = \"burst\"\n".to_owned();
    let burst = burst + &bandwidth("", &[("g", "cores = \"0\"\nmb_per_s = 9")]);
    refused(
        &machine(1, &burst, &[walker("t", 0, "gap = 2")]),
        &["bandwidth.guaranteed_mb_per_s is absent", "refresh leaves nothing"],
    );
}

/// What reading a file refuses before, of groups that come from elsewhere.
#[test]
fn budgets_of_a_scenario_in_memory_are_refused_too() {
    let groups = [("g", "cores = \"0\"\nmb_per_s = 1"), ("h", "cores = \"1\"\nmb_per_s = 1")];
    let text = machine(1, &bandwidth("", &groups), &[walker("t", 0, "gap = 2")]);
    let refused = |change: fn(&mut ScenarioSpec), words: &[&str]| refused_changed(&text, change, words);
    refused(
        |spec| spec.groups[0].mb_per_s = None,
        &["\"g\": mb_per_s", "absent", "one of mb_per_s, budget and weight"],
    );
    refused(
        |spec| spec.groups[0].weight = spec.groups[0].mb_per_s,
        &["\"g\": mb_per_s", "given beside another budget"],
    );
    refused(|spec| spec.groups[0].cores = None, &["\"g\": cores", "either cores or tasks"]);
    let of_task = |spec: &mut ScenarioSpec| {
        (spec.groups[0].cores, spec.groups[0].tasks) = (None, vec![memtint_system::Text::new("x")]);
    };
    refused(of_task, &["\"g\": tasks is x; accepted is t"]);
    refused(|spec| spec.groups[1].name = spec.groups[0].name.clone(), &["\"g\": name", "used twice"]);
}

/// What a task does: lines at random, in order, written, seldom; with jobs or without.
fn any_task(core: u32) -> impl Strategy<Value = String> {
    let workload = prop_oneof![
        (0u32..1025, 1u32..60).prop_map(|(writes, gap)| {
            format!("kind = \"uniform\", size = \"4 MiB\", writes_per_1024 = {writes}, gap = {gap}")
        }),
        (any::<bool>(), 1u32..60)
            .prop_map(|(write, gap)| format!("kind = \"bandwidth\", size = \"4 MiB\", write = {write}, gap = {gap}")),
        Just("kind = \"latency\", size = \"4 MiB\"".to_owned()),
    ];
    let job = prop_oneof![
        Just(String::new()),
        (100u64..1500, 50u64..4000)
            .prop_map(|(period, references)| format!("period = \"{period} us\"\nreferences = {references}\n")),
    ];
    (workload, job, any::<bool>()).prop_map(move |(workload, job, huge)| {
        let sets = if huge { String::new() } else { format!("sets = \"{}-{}\"\n", 16 * core, 16 * core + 15) };
        format!("[[task]]\nname = \"t{core}\"\ncores = \"{core}\"\n{sets}workload = {{ {workload} }}\n{job}")
    })
}

fn any_system() -> impl Strategy<Value = String> {
    let tasks = (any_task(0), any_task(1), any_task(2), any_task(3));
    let sharing = prop_oneof![Just("off"), Just("spare"), Just("proportional")];
    let counts = prop_oneof![Just("lines"), Just("misses"), Just("bursts")];
    let predictor = prop_oneof![Just("ewma"), Just("last-value"), Just("linear")];
    let grants = (1u32..300, 1u32..300);
    let soft = proptest::collection::vec(any::<bool>(), 4);
    let weights = proptest::collection::vec(1u32..9, 4);
    let is_of_tasks = any::<bool>();
    (tasks, sharing, counts, predictor, grants, soft, weights, is_of_tasks, 100u64..1000, 0u64..300).prop_map(
        |(tasks, sharing, counts, predictor, (quantum, step), soft, weights, of_tasks, period, overhead)| {
            let groups: Vec<(String, String)> = (0..4)
                .map(|core| {
                    let kind = if soft[core] { "soft" } else { "hard" };
                    let place =
                        if of_tasks { format!("tasks = [\"t{core}\"]") } else { format!("cores = \"{core}\"") };
                    (format!("g{core}"), format!("{place}\nweight = {}\nkind = \"{kind}\"", weights[core]))
                })
                .collect();
            let groups: Vec<(&str, &str)> = groups.iter().map(|(name, lines)| (name.as_str(), lines.as_str())).collect();
            let lines = format!(
                "guaranteed_mb_per_s = 2000\nperiod = \"{period} us\"\nquantum = {quantum}\nreclaim_step = {}\nskid_events = 64\n\
                 sharing = \"{sharing}\"\ncounts = \"{counts}\"\npredictor = \"{predictor}\"\noverhead = \"{overhead} ns\"",
                step.min(quantum)
            );
            machine(3, &bandwidth(&lines, &groups), &[tasks.0, tasks.1, tasks.2, tasks.3])
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever they do: never more than B + q + s and what is reclaimed, never more than is guaranteed, never more granted than
    /// there is, and who was throttled has had its budget.
    #[test]
    fn any_system_keeps_its_budgets(text in any_system()) {
        // Too small for four quanta.
        let Ok(scenario) = parse(&text) else { return Ok(()) };
        let report = memtint_sim::simulate(&scenario, 1, &|_: f64| true).unwrap();
        let budgets = budgets(&report);
        prop_assert_eq!(budgets.broken(), None);
        for regulator in &budgets.regulators {
            let own = u64::from(regulator.budget + regulator.quantum + regulator.skid);
            if regulator.reclaimed == 0 {
                prop_assert!(regulator.most_in_a_period <= own, "{:?}", regulator);
            }
            let budget = u64::from(regulator.budget) * regulator.periods;
            prop_assert!(regulator.reserved + regulator.returned <= budget, "{:?}", regulator);
            prop_assert!(regulator.returned <= regulator.donated, "{:?}", regulator);
            prop_assert!(regulator.underruns <= regulator.throttled_periods, "{:?}", regulator);
            let throttled_used = u64::from(regulator.budget) * regulator.throttled_periods;
            let had = regulator.reserved + regulator.returned + regulator.shortfall;
            prop_assert!(had >= throttled_used, "{:?}", regulator);
        }
        let sum = |part: &dyn Fn(&RegulatorReport) -> u64| budgets.regulators.iter().map(part).sum::<u64>();
        prop_assert!(sum(&|core| core.reclaimed + core.returned) <= sum(&|core| core.donated));
    }
}
