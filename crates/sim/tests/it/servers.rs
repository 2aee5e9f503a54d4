//! Servers with budgets: do tasks get what closed formulas, and an ideal schedule, say?

use crate::common::{
    assert_us, burst_ns, longest, named, parse, plain, plain_changed, refused, refused_changed, run, run_safely, task,
    text, text_of_cores, timetable, two_colors, writer,
};
use memtint_sim::Report;
use memtint_sim::report::ServerReport;
use memtint_sim::scenario::{ScenarioSpec, Time};
use memtint_units::Picoseconds;

/// One with jobs; cost, period and phase in microseconds.
fn periodic(name: &str, server: &str, [cost, period, phase]: [u64; 3], lines: &str) -> String {
    let job = format!("period = \"{period} us\"\nphase = \"{phase} us\"\nreferences = {}", cost * 10);
    task(name, &format!("server = \"{server}\"\n{job}\n{lines}"))
}

/// A server of core 0; period and budget in microseconds.
fn server(name: &str, period: u64, budget: u64, lines: &str) -> String {
    format!("[[server]]\nname = \"{name}\"\nperiod = \"{period} us\"\nbudget = \"{budget} us\"\n{lines}\n")
}

/// The ranks whose lock suspends the servers of a color.
fn color(name: &str, ranks: &str) -> String {
    format!("[[color]]\nname = \"{name}\"\nranks = \"{ranks}\"\n")
}

/// The two of CRS, of S1 and S2.
fn two_groups() -> [String; 2] {
    [color("c1", "0-3"), color("c2", "4-7")]
}

/// When the first period of each server begins, in microseconds.
fn begin(phases: &[u64]) -> impl FnOnce(&mut ScenarioSpec) {
    move |spec| {
        assert_eq!(spec.servers.len(), phases.len());
        for (server, phase) in spec.servers.iter_mut().zip(phases) {
            server.phase = Time(Picoseconds(phase * 1_000_000));
        }
    }
}

#[track_caller]
fn assert_budgets(server: &ServerReport, consumed_us: f64, replenishments: u64) {
    assert_us(&server.name, server.consumed_ns / 1000.0, consumed_us);
    assert_eq!(server.replenishments, replenishments, "{server:?}");
}

/// E29 of the errata, S1 = (10, 5) and S2 = (12, 4): a deferrable S1 runs at the end of one period and at the beginning of the
/// next, and leaves S2 two of its four in [24, 36). As a periodic task S1 would leave it all four: that holds, for
/// whoever comes just then, when S1 consumes its budget while it is idle. (Ten microseconds less than two budgets: the
/// first access to a line takes a little more.)
#[test]
fn a_deferrable_server_runs_back_to_back_and_an_idle_consuming_one_does_not() {
    let of_kind = |kind: &str| {
        let parts = [
            server("S1", 10_000, 5_000, kind),
            server("S2", 12_000, 4_000, kind),
            periodic("first", "S1", [9_990, 100_000, 25_000], ""),
            periodic("second", "S2", [4_000, 100_000, 24_000], ""),
        ];
        plain(59, "", &parts)
    };
    let deferrable = of_kind("");
    assert_us("first, [25, 35)", longest(&deferrable, 0), 9_990.0);
    assert_us("second, [24, 25), [35, 36), [36, 38)", longest(&deferrable, 1), 13_990.0);
    assert_budgets(&deferrable.servers[0], 9_990.0, 6);
    assert_budgets(&deferrable.servers[1], 4_000.0, 5);
    let consuming = of_kind("kind = \"idle-consuming\"");
    assert_us("first, [30, 35), [40, 45)", longest(&consuming, 0), 19_990.0);
    assert_us("second, [25, 29)", longest(&consuming, 1), 5_000.0);
    assert_budgets(&consuming.servers[0], 30_000.0, 6);
    // Of the last period, from 48 ms, S1 leaves it the time from 55 to 59 ms.
    assert_budgets(&consuming.servers[1], 20_000.0, 5);
    for server in deferrable.servers.iter().chain(&consuming.servers) {
        assert!(server.longest_overrun_ps <= 100_000 + 100_000, "a reference, and the first of them: {server:?}");
        assert_eq!((server.held_up_ns, server.unhidden_ns), (0.0, 0.0));
    }
}

/// Who is idle and holds the core, who has no server, and when the first period begins.
#[test]
fn what_a_server_does_not_take_is_left_to_others_of_its_core() {
    let background = |kind: &str, phase: u64| {
        let parts =
            [server("S", 10_000, 4_000, kind), task("background", "cores = \"0\""), task("inside", "server = \"S\"")];
        [&parts[..], &parts[..2]].map(|parts| plain_changed(100, "", parts, begin(&[phase])))
    };
    let tenth = |report: &Report, task: usize| report.tasks[task].references as f64 / 10.0;
    let [deferrable, empty] = background("", 0);
    assert_us("a busy server", tenth(&deferrable, 1), 40_000.0);
    assert_us("the others", tenth(&deferrable, 0), 60_000.0);
    assert_us("beside an idle one", tenth(&empty, 0), 100_000.0);
    let [_, held] = background("kind = \"idle-consuming\"", 0);
    assert_us("beside one that holds the core", tenth(&held, 0), 60_000.0);
    assert!((held.core_utilization[0] - 0.6).abs() < 0.001, "{:?}", held.core_utilization);
    assert_budgets(&held.servers[0], 40_000.0, 11);
    let [_, late] = background("kind = \"idle-consuming\"", 25_000);
    assert_us("from 25 ms on", tenth(&late, 0), 100_000.0 - 8.0 * 4_000.0);
}

/// Another core is not concerned, and a task that may move finds it.
#[test]
fn servers_are_those_of_one_core() {
    let parts = [
        server("S", 10_000, 9_000, "kind = \"idle-consuming\"\ncore = 1"),
        task("inside", "server = \"S\""),
        task("other", "cores = \"0\"\npriority = 1"),
        task("mover", "references = 9900\npriority = 1"),
    ];
    let two = |parts: &[String], system: &str| run(&text_of_cores(2, 1, &named("none"), 20, system, parts));
    let report = two(&parts[..3], "");
    let references = |task: usize| report.tasks[task].references as f64 / 10.0;
    assert_us("in its server", references(0), 18_000.0);
    assert_us("elsewhere", references(1), 20_000.0);
    for system in ["scheduling = \"fixed-priority\"", "scheduling = \"edf\"", "quantum = \"100 us\""] {
        // A millisecond of work: in the background of core 1, from 9 ms on, or in turn with the other on core 0.
        let report = two(&parts, system);
        let ended = report.tasks[2].completed_ns.unwrap() / 1000.0;
        let expected = if system.starts_with("quantum") { 2_000.0 } else { 10_000.0 };
        assert!((ended - expected).abs() < 110.0, "{system}: {ended}");
        let in_server = (report.simulated_ns / 1000.0).min(9_000.0);
        assert_us("in its server", report.tasks[0].references as f64 / 10.0, in_server);
    }
}

#[test]
fn the_order_of_servers_and_of_their_tasks_is_as_they_say() {
    let tasks = [
        periodic("long", "A", [1_000, 40_000, 0], "priority = 1"),
        periodic("short", "A", [1_000, 20_000, 0], "priority = 2"),
    ];
    let with = |scheduling: &str, priorities: [Option<u32>; 2]| {
        let servers = [server("A", 20_000, 5_000, scheduling), server("B", 20_000, 5_000, "")];
        let parts = [&servers[..], &tasks, &[periodic("other", "B", [1_000, 20_000, 0], "")]].concat();
        let change = |spec: &mut ScenarioSpec| {
            for (server, priority) in spec.servers.iter_mut().zip(priorities) {
                server.priority = priority;
            }
        };
        let report = plain_changed(40, "", &parts, change);
        [0, 1, 2].map(|task| longest(&report, task).round() / 1000.0)
    };
    let near = |found: [f64; 3], expected: [f64; 3]| {
        assert!(
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.002),
            "{found:?}, {expected:?}"
        );
    };
    near(with("", [None; 2]), [2.0, 1.0, 3.0]);
    near(with("scheduling = \"fp\"", [None; 2]), [1.0, 2.0, 3.0]);
    near(with("", [Some(5), Some(4)]), [3.0, 2.0, 1.0]);
    near(with("scheduling = \"fp\"", [Some(5), Some(4)]), [2.0, 3.0, 1.0]);
}

/// The example of 5.3.5, which the paper shows in figure 5.5: S2 runs at 32 ms, as the ranks of S1 are locked, and S1
/// preempts it once they are not. T2 then completes 7.31 ms after its release (E31), and not 6.
#[test]
fn the_example_of_5_3_5_runs_as_in_figure_5_5() {
    let servers = [
        server("S1", 16_000, 6_000, "color = \"c1\"\nscheduling = \"fp\""),
        server("S2", 16_000, 6_000, "color = \"c2\"\nscheduling = \"fp\""),
    ];
    let tasks = [
        periodic("T1", "S1", [4_000, 16_000, 0], "ranks = \"0-3\"\npriority = 1"),
        periodic("T2", "S1", [1_990, 16_000, 0], "ranks = \"0-3\"\npriority = 2"),
        periodic("T3", "S2", [8_000, 32_000, 0], "ranks = \"4-7\"\npriority = 1"),
        periodic("T4", "S2", [7_990, 64_000, 0], "ranks = \"4-7\"\npriority = 2"),
    ];
    let parts = [&two_groups()[..], &servers, &tasks].concat();
    let report = run_safely(&text(2, &two_colors("unlock = \"10 us\""), 127, "", &parts));
    // The lock task, and the burst; then the unlock task has the core.
    let (lock, unlock, burst) = (20.0, 10.0, burst_ns(2) / 1000.0);
    let locked = lock + burst;
    assert_us("T1", longest(&report, 0), locked + unlock + 4_000.0);
    assert_us("T2", longest(&report, 1), locked + unlock + 5_990.0);
    // T3: [6, 12) and [22, 24), a lock task later; T4 follows until 28, and from 56 to 60. T2 and T4 take ten microseconds
    // less than printed, so that a first access to a line is no reason for another budget.
    assert_us("T3", longest(&report, 2), 23_990.0);
    assert_us("T4", longest(&report, 3), 59_980.0);
    assert_us("T4", report.tasks[3].response_ns.unwrap().min / 1000.0, 59_980.0);
    assert_eq!((report.requests_that_met_a_refresh, report.locks.as_ref().unwrap().unhidden_ns[0]), (0, 0.0));
    // Twice at 32 and 96 ms, and at 0 and 64 ms; each time the other runs.
    for server in &report.servers {
        assert_us("held up", server.held_up_ns / 1000.0, 2.0 * burst);
        assert_eq!((server.unhidden_ns, server.replenishments), (0.0, 8), "{server:?}");
    }
    assert_budgets(&report.servers[0], 8.0 * 5_990.0, 8);
    assert_budgets(&report.servers[1], 2.0 * (2.0 * 8_000.0 + 7_990.0), 8);
}

/// The same servers with tasks that read and write: no request meets a refresh, though what a core has begun it finishes.
#[test]
fn requests_of_servers_keep_off_the_ranks_that_are_refreshed() {
    let servers = [
        server("S1", 4_000, 2_400, "color = \"c1\""),
        server("S2", 4_000, 1_600, "color = \"c2\"\nkind = \"idle-consuming\""),
    ];
    let inside = |name: &str, ranks: &str, server: &str| {
        writer(name, ranks, &format!("server = \"{server}\"\nperiod = \"8 ms\"\nreferences = 4000"))
    };
    let tasks =
        [inside("a", "0-1", "S1"), inside("b", "2-3", "S1"), inside("c", "4-7", "S2"), writer("idle", "0-7", "")];
    let parts = [&two_groups()[..], &servers, &tasks].concat();
    for density in [1, 8, 32] {
        let report = run_safely(&text(density, &two_colors(""), 140, "", &parts));
        assert_eq!(report.requests_that_met_a_refresh, 0, "{density} Gb: {:?}", report.ranks);
        assert!(report.tasks.iter().all(|task| task.references > 10_000), "{report:?}");
        // A reference with its 400 cycles, a line read and one written back.
        assert!((1..600_000).contains(&report.servers[0].longest_overrun_ps), "{:?}", report.servers);
    }
}

/// A server alone: what of its budget falls into the locked window is lost, and is counted.
#[test]
fn a_locked_server_does_not_run_and_says_so() {
    let parts = |lines: &str| {
        let inside = task("inside", "server = \"S\"\nranks = \"0-3\"");
        [color("c", "0-3"), server("S", 4_000, 2_400, lines), inside]
    };
    let windows = timetable("unlock = \"10 us\"", &[("0-3", 10, ""), ("4-7", 40, "")]);
    // From 10 to 12.9 ms it is locked. In [8, 12) it has run for 2 ms then; in [12, 16) there is time for all of its budget.
    let held = burst_ns(8) / 1000.0;
    // Suspended by its own ranks or because its task is: no difference.
    for lines in ["color = \"c\"", ""] {
        let report = run_safely(&text(8, &windows, 39, "", &parts(lines)));
        assert_budgets(&report.servers[0], 10.0 * 2_400.0 - 400.0, 10);
        assert_us("held up", report.servers[0].held_up_ns / 1000.0, held);
        assert_us("unhidden", report.servers[0].unhidden_ns / 1000.0, held);
        assert_us("unhidden", report.locks.unwrap().unhidden_ns[0] / 1000.0, held);
    }
    // One that consumes its budget has the core all the same while only its task is locked out.
    let report = run_safely(&text(8, &windows, 39, "", &parts("kind = \"idle-consuming\"")));
    assert_budgets(&report.servers[0], 10.0 * 2_400.0, 10);
    assert_eq!(report.servers[0].unhidden_ns, 0.0);
}

/// A tick-by-tick schedule of two servers and a lock. Times in tenths of a microsecond.
struct Ideal {
    servers: Vec<[u64; 3]>,
    consuming: Vec<bool>,
    /// Server, cost, period, phase.
    tasks: Vec<[u64; 4]>,
}

impl Ideal {
    /// Longest response of each task's finished jobs, and what each server consumed, in `end` ticks; each job takes so
    /// much longer than its cost.
    fn play(&self, end: u64, longer: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut left, mut consumed) = (vec![0; self.servers.len()], vec![0; self.servers.len()]);
        let (mut todo, mut released, mut longest) =
            (vec![0; self.tasks.len()], vec![0; self.tasks.len()], vec![0; self.tasks.len()]);
        for (task, &[.., phase]) in self.tasks.iter().enumerate() {
            (todo[task], released[task]) = (self.tasks[task][1] + longer, phase);
        }
        for now in 0..end {
            for (server, &[period, budget, phase]) in self.servers.iter().enumerate() {
                if now >= phase && (now - phase).is_multiple_of(period) {
                    left[server] = budget;
                }
            }
            for server in 0..self.servers.len() {
                let ready =
                    (0..self.tasks.len()).filter(|&task| self.tasks[task][0] == server as u64 && released[task] <= now);
                let first = ready.min_by_key(|&task| (released[task] + self.tasks[task][2], task));
                if left[server] == 0 || (first.is_none() && !self.consuming[server]) {
                    continue;
                }
                left[server] -= 1;
                consumed[server] += 1;
                if let Some(task) = first {
                    todo[task] -= 1;
                    if todo[task] == 0 {
                        longest[task] = longest[task].max(now + 1 - released[task]);
                        todo[task] = self.tasks[task][1] + longer;
                        released[task] += self.tasks[task][2];
                    }
                }
                break;
            }
        }
        (longest, consumed)
    }
}

#[test]
fn random_servers_run_as_in_the_ideal_schedule() {
    const END_MS: u64 = 20;
    let mut state = 11u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut compared = 0;
    for round in 0..40 {
        let mut ideal = Ideal { servers: Vec::new(), consuming: Vec::new(), tasks: Vec::new() };
        let (mut parts, mut phases) = (Vec::new(), Vec::new());
        for index in 0..2 {
            let period = 400 + 10 * below(60);
            let budget = period * (30 + below(25)) / 100;
            let (phase, consuming) = (10 * below(30), below(2) == 0);
            ideal.servers.push([period * 10, budget * 10, phase * 10]);
            ideal.consuming.push(consuming);
            let kind = if consuming { "idle-consuming" } else { "deferrable" };
            parts.push(server(&format!("S{index}"), period, budget, &format!("kind = \"{kind}\"")));
            phases.push(phase);
        }
        for index in 0..4 {
            let (server, period) = (index % 2, 1000 + below(3000));
            let (cost, phase) = (period * (8 + below(12)) / 100, below(1000));
            ideal.tasks.push([server, cost * 10, period * 10, phase * 10]);
            parts.push(periodic(&format!("t{index}"), &format!("S{server}"), [cost, period, phase], ""));
        }
        let end = END_MS * 10_000;
        let (expected, consumed) = ideal.play(end, 0);
        let near = |found: u64, expected: u64, ticks: u64| found.abs_diff(expected) <= ticks;
        // Where a little more makes a job end in the next period of its server there is nothing to compare.
        let moved = |longer| {
            ideal.play(end, longer).0.iter().zip(&expected).any(|(&later, &expected)| !near(later, expected, 100))
        };
        if [1, 3, 6].into_iter().any(moved) {
            continue;
        }
        compared += 1;
        let report = plain_changed(END_MS, "", &parts, begin(&phases));
        for (task, &expected) in expected.iter().enumerate() {
            let found = (longest(&report, task) * 10.0).round() as u64;
            assert!(near(found, expected, 60), "round {round}, task {task}: {found} and ideally {expected} ticks");
        }
        for (server, &consumed) in report.servers.iter().zip(&consumed) {
            let found = (server.consumed_ns / 100.0).round() as u64;
            assert!(near(found, consumed, 100), "round {round}, {server:?}: ideally {consumed} ticks");
        }
    }
    assert!(compared >= 15, "{compared} sets were compared");
}

#[test]
fn what_cannot_be_is_refused() {
    let with = |color: &str, server: &str, lines: &str| {
        let parts = [color.to_owned(), server.to_owned(), task("one", lines)];
        text_of_cores(2, 8, &two_colors(""), 64, "", &parts)
    };
    let (own, good) = (color("c", "0-3"), server("S", 4_000, 2_400, "color = \"c\""));
    let inside = "server = \"S\"\nranks = \"0-1\"";
    parse(&with(&own, &good, inside)).unwrap();
    let changed = |from: &str, to: &str| with(&own, &good.replace(from, to), inside);
    refused(&changed("4000 us", "0 us"), &["server \"S\": period", "more than 0 ns"]);
    refused(&changed("2400 us", "4001 us"), &["server \"S\": budget", "at most the period"]);
    refused(&changed("2400 us", "0 us"), &["server \"S\": budget"]);
    refused(&changed("color = \"c\"", "core = 2"), &["server \"S\": core is 2", "0 to 1"]);
    refused(&with(&color("c", "0-8"), &good, inside), &["server \"S\": ranks", "0-8"]);
    refused(&with(&color("c", "1-3"), &good, inside), &["task \"one\": ranks is 0-1", "some of 1-3", "\"S\""]);
    refused(&changed("color", "cores"), &["server \"S\": \"cores\" is no field"]);
    refused(&changed("color", "phase = \"1 ms\"\ncolor"), &["server \"S\": \"phase\" is no field"]);
    refused(&changed("color", "kind = \"polling\"\ncolor"), &["polling", "idle-consuming"]);
    refused(&with(&own, &format!("{good}{good}"), inside), &["server \"S\": name", "used twice"]);
    refused(&with(&own, &good, "server = \"T\""), &["task \"one\": server is T", "S"]);
    refused(&with("", "", "server = \"T\""), &["no server"]);
    let cores = |list: &str| with(&own, &good, &format!("{inside}\ncores = \"{list}\""));
    refused(&cores("1"), &["task \"one\": cores is 1", "that of its server"]);
    refused(&cores("0-1"), &["task \"one\": cores", "beside server"]);
    // A file's task has memory in the ranks of its server, unless it says others; in memory it has to say so.
    let silent = with(&own, &good, "server = \"S\"");
    assert_eq!(parse(&silent).unwrap().spec().tasks[0].ranks.as_deref(), Some("0-3"));
    refused_changed(&silent, |spec| spec.tasks[0].ranks = None, &["task \"one\": ranks is any", "some of 0-3"]);
}
