//! Is a program where it was told to be, however the colors are named: set colors, pairs of both, larger granules, the
//! tasks of a plan? Judged by `memtint inspect` with the same words.
//!
//! `cargo test -p memtint-cli --test live live::selections::`, as root.

use std::path::Path;
use std::process::Command;

use crate::common::{Launch, Machine, Run, scratch};
use crate::shared::report_of;
use serde_json::Value;

/// Pages that the program of these tests has at least.
const PAGES: u64 = 10_000;

/// A program that has grown, in colors named by `colors`.
fn grown<'a>(machine: &'a Machine, colors: &[&str]) -> (Run<'a>, u32) {
    let program = machine.compile("memory", &[]);
    let command = [program.to_str().expect("text"), "grows_when_told"];
    let mut run = Launch::new(machine, &command).colors(colors).interactive().colored();
    run.ready();
    run.say("x");
    let pid = run.ready();
    (run, pid)
}

fn finish(mut run: Run) {
    run.say("x");
    let ended = run.end_with_survivors();
    ended.assert_success();
    ended.assert_clean_report();
}

/// What `memtint inspect` says of a process, and its exit status.
fn inspect(colors: &[&str], pid: u32) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(["inspect", "--format", "json"]).args(colors).arg(pid.to_string());
    command.env("MEMTINT_REGISTRY", crate::common::registry());
    let output = command.output().expect("it was built");
    let said = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}; {}", said()));
    crate::shared::check("inspect", &report);
    (output.status.code(), report)
}

fn assert_held(colors: &[&str], pid: u32) -> Value {
    let (status, report) = inspect(colors, pid);
    assert_eq!((status, &report["verdict"]), (Some(0), &"held".into()), "{colors:?}: {}", report["out_of_color"]);
    assert!(report["private"]["pages"].as_u64() > Some(PAGES), "{}", report["private"]);
    report
}

/// Every page of the program is out of these colors.
fn assert_violated(colors: &[&str], pid: u32) {
    let (status, report) = inspect(colors, pid);
    assert_eq!((status, &report["verdict"]), (Some(1), &"violated".into()), "{colors:?}: {}", report["private"]);
    assert_eq!(report["private"]["in_color_pages"], 0, "{colors:?}: {}", report["private"]);
}

/// The colors of a kind that hold pages.
fn used(report: &Value, kind: &str) -> Vec<u64> {
    let rows = report[kind].as_array().expect("a list");
    rows.iter().filter(|row| row["pages"] != 0).filter_map(|row| row["index"].as_u64()).collect()
}

fn text(file: &Path) -> &str {
    file.to_str().expect("paths here are text")
}

#[test]
fn set_colors_alone() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let platform = machine.platform_with_cache();
    let named = |sets| ["--platform", text(&platform), "--sets", sets];
    let (run, pid) = grown(&machine, &named("16-47"));
    let report = assert_held(&named("16-47"), pid);
    assert_eq!(used(&report, "set_colors"), (16..48).collect::<Vec<_>>());
    assert_eq!(used(&report, "bank_classes").len(), 16, "banks were not restricted");
    assert_violated(&named("!16-47"), pid);
    finish(run);
}

#[test]
fn bank_classes_and_set_colors_together() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let platform = machine.platform_with_cache();
    let named = |banks, sets| ["--platform", text(&platform), "--banks", banks, "--sets", sets];
    let (run, pid) = grown(&machine, &named("8-11", "0-31"));
    let report = assert_held(&named("8-11", "0-31"), pid);
    assert_eq!(used(&report, "set_colors"), (0..32).collect::<Vec<_>>());
    assert_eq!(used(&report, "bank_classes"), [8, 9, 10, 11]);
    for (banks, sets) in [("all", "0-31"), ("8-11", "all")] {
        assert_held(&named(banks, sets), pid);
    }
    for (banks, sets) in [("!8-11", "0-31"), ("8-11", "!0-31")] {
        assert_violated(&named(banks, sets), pid);
    }
    finish(run);
}

/// A larger granule has other classes; a page is in color when the granule around it is.
#[test]
fn larger_granules() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let platform = machine.platform_with_cache();
    for granule in ["16K", "64K"] {
        let named =
            |banks, sets| ["--platform", text(&platform), "--granule", granule, "--banks", banks, "--sets", sets];
        let (run, pid) = grown(&machine, &named("2-5", "0-3"));
        let report = assert_held(&named("2-5", "0-3"), pid);
        assert_eq!(used(&report, "bank_classes"), [2, 3, 4, 5], "{granule}");
        assert_eq!(used(&report, "set_colors"), [0, 1, 2, 3], "{granule}");
        assert_violated(&named("!2-5", "0-3"), pid);
        finish(run);
    }
}

/// Two tasks of one plan side by side: each is where the plan has it, and nowhere that the other is.
#[test]
fn two_tasks_of_a_plan() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let platform = machine.platform_with_cache();
    let file = scratch("two.toml");
    let tasks = "[[task]]\nname = \"left\"\nbanks = \"0-3\"\nsets = \"0-63\"\n\n\
                 [[task]]\nname = \"right\"\nbanks = \"4-7\"\nsets = \"64-127\"\nmode = \"soft\"\n";
    let plan = format!("schema = 1\nplatform = \"{}\"\n\n{tasks}", platform.display());
    std::fs::write(&file, plan).expect("cargo made the directory");
    let task = |name| ["--system", text(&file), "--task", name];
    let ((left, one), (right, other)) = (grown(&machine, &task("left")), grown(&machine, &task("right")));
    assert_held(&task("left"), one);
    assert_held(&task("right"), other);
    assert_violated(&task("right"), one);
    assert_violated(&task("left"), other);
    finish(left);
    // The end of one changes nothing for the other.
    assert_held(&task("right"), other);
    finish(right);
}

/// `memtint inspect` with these arguments: its status, what it prints, and what it says besides.
fn inspect_with(arguments: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(["inspect", "--format", "json"]).args(arguments).env("MEMTINT_REGISTRY", crate::common::registry());
    let output = command.output().expect("it was built");
    let value = report_of(&output.stdout);
    // "inspect", "inspect_others" or "inspect_system".
    if let Some(form) = value["report"].as_str() {
        crate::shared::check(&form.replace('_', "-"), &value);
    }
    (output.status.code(), value, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A plan of two tasks for this machine.
fn plan(machine: &Machine, name: &str, left: &str, right: &str) -> std::path::PathBuf {
    let file = scratch(name);
    let text = format!(
        "schema = 1\nplatform = \"{}\"\n[[task]]\nname = \"left\"\n{left}\n[[task]]\nname = \"right\"\n{right}\n",
        machine.platform.display()
    );
    std::fs::write(&file, text).expect("cargo made the directory");
    file
}

#[test]
fn all_tasks_of_a_plan_are_judged_at_once() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let file = plan(&machine, "all.toml", "banks = \"0-3\"", "banks = \"4-7\"");
    let (status, _, message) = inspect_with(&["--system", text(&file)]);
    assert!(status == Some(2) && message.contains("no task of system") && message.contains("left, right"), "{message}");
    let (run, pid) = grown(&machine, &["--system", text(&file), "--task", "left"]);
    let (status, report, message) = inspect_with(&["--system", text(&file)]);
    assert_eq!((status, &report["verdict"]), (Some(0), &"held".into()), "{message}");
    let [left, right] = [0, 1].map(|index| &report["tasks"][index]);
    assert_eq!((&left["name"], &left["programs"][0]), (&"left".into(), &pid.into()));
    assert!(left["report"]["private"]["pages"].as_u64() > Some(PAGES), "{left}");
    assert_eq!((&right["programs"], &right["report"]), (&serde_json::json!([]), &Value::Null));
    finish(run);
}

/// memtint's own processes hold pages of all colors: they are no program out of color.
#[test]
fn memtints_own_processes_name_the_program() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let platform = text(&machine.platform).to_owned();
    let (run, pid) = grown(&machine, &["--platform", &platform, "--banks", "0-3"]);
    let (own, _) = run.members();
    assert!(own.len() >= 3, "front, supervisor and broker: {own:?}");
    for process in own.iter().filter(|process| std::fs::read_link(format!("/proc/{}/exe", process.pid)).is_ok()) {
        let colors = ["--platform", &platform, "--banks", "0-3", &process.pid.to_string()];
        let (status, report, message) = inspect_with(&colors);
        if process.name == "memtint" {
            assert_eq!((status, &report), (Some(2), &Value::Null), "{message}");
            assert!(message.contains(&format!("is process {pid}:")), "{message}");
        }
    }
    let front = run.front().to_string();
    let (status, report, message) = inspect_with(&["--platform", &platform, "--banks", "0-3", "--children", &front]);
    assert_eq!((status, &report["verdict"]), (Some(0), &"held".into()), "{message}");
    assert_eq!(report["processes"][0]["pid"], pid);
    finish(run);
}

#[test]
fn other_programs_in_the_colors_are_listed() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let platform = text(&machine.platform).to_owned();
    let (run, pid) = grown(&machine, &["--platform", &platform, "--banks", "0-3"]);
    let listed = |banks: &str| {
        let (status, report, message) = inspect_with(&["--others", "--platform", &platform, "--banks", banks]);
        // The tests themselves have pages somewhere.
        assert!(matches!(status, Some(0 | 1)), "{message}");
        let processes = report["processes"].as_array().expect("a list").clone();
        processes.into_iter().find(|process| process["pid"] == pid)
    };
    let found = listed("0-3").expect("it is there");
    assert!(found["private_pages"].as_u64() > Some(PAGES), "{found}");
    assert_eq!(found["run"], run.front());
    let classes = found["bank_classes"].as_object().expect("a table");
    assert_eq!(classes.keys().map(String::as_str).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let elsewhere = listed("4-7").map_or(0, |process| process["private_pages"].as_u64().unwrap_or(u64::MAX));
    assert_eq!(elsewhere, 0);
    finish(run);
}

#[test]
fn two_runs_in_the_same_colors_are_told_unless_a_plan_allows_it() {
    let Some(machine) = Machine::take(&["cc", "true"]) else { return };
    let platform = text(&machine.platform).to_owned();
    let shared = plan(&machine, "shared.toml", "banks = \"0-3\"\nshared = true", "banks = \"2-5\"\nshared = true");
    let task = |name| ["--system", text(&shared), "--task", name];
    let (first, _) = grown(&machine, &task("left"));
    let beside = |colors: &[&str]| {
        let ended = Launch::new(&machine, &["true"]).colors(colors).colored().end_with_survivors();
        ended.assert_success();
        assert_eq!(ended.report["shared_with"].as_array().map_or(0, Vec::len), ended.stderr.lines().count());
        ended.stderr
    };
    assert_eq!(beside(&task("right")), "");
    assert_eq!(beside(&["--platform", &platform, "--banks", "4-7"]), "");
    let told = beside(&["--platform", &platform, "--banks", "3-6"]);
    assert!(
        told.contains("uses bank classes 3, too: only tasks of one system file may, with shared = true in both"),
        "{told}"
    );
    finish(first);
    assert_eq!(beside(&["--platform", &platform, "--banks", "3-6"]), "");
}

/// `held` would say that the budget was kept.
#[test]
fn what_a_plan_asks_for_and_nothing_enforces_is_refused() {
    let Some(machine) = Machine::take(&["true"]) else { return };
    let fields = "banks = \"0-3\"\nrefresh = \"0\"\nbandwidth = { budget = \"1 MiB\", period = \"1 ms\" }";
    let file = plan(&machine, "budget.toml", fields, "banks = \"4-7\"");
    let run = |ignored: &[&str]| {
        let colors = [&["--system", text(&file), "--task", "left"], ignored].concat();
        Launch::new(&machine, &["true"]).colors(&colors).colored().end()
    };
    for ignored in [&[][..], &["--ignore", "refresh"]] {
        let ended = run(ignored);
        assert_eq!(ended.status.code(), Some(125), "{}", ended.stderr);
        assert!(ended.stderr.contains("bandwidth of task \"left\""), "{}", ended.stderr);
        assert!(ended.stderr.contains("--ignore bandwidth,refresh"), "{}", ended.stderr);
    }
    let ended = run(&["--ignore", "bandwidth,refresh"]);
    ended.assert_success();
    assert_eq!(ended.problems().len(), 2, "{}", ended.report);
    assert_eq!(ended.report["not_enforced"], serde_json::json!(["bandwidth", "refresh"]));
    // The task beside it asks for nothing of the kind.
    let right = Launch::new(&machine, &["true"]).colors(&["--system", text(&file), "--task", "right"]).colored().end();
    right.assert_success();
    right.assert_clean_report();
}

/// The same file that the analysis takes: the program is the task's, and what a run does not do with a field is said.
#[test]
fn a_task_brings_its_program_and_its_timing_is_not_considered() {
    let Some(machine) = Machine::take(&["true"]) else { return };
    let fields = "banks = \"0-3\"\ncommand = [\"sh\", \"-c\", \"exit 7\"]\nperiod = \"20 ms\"\nwcet = \"1 ms\"";
    let file = plan(&machine, "command.toml", fields, "banks = \"4-7\"");
    let run = |task: &str| {
        Launch::new(&machine, &[] as &[&str]).colors(&["--system", text(&file), "--task", task]).colored().end()
    };
    let left = run("left");
    assert_eq!(left.status.code(), Some(7), "{}", left.stderr);
    assert!(left.stderr.contains("not considered: task.period, task.wcet\n"), "{}", left.stderr);
    assert_eq!(left.report["not_considered"], serde_json::json!(["task.period", "task.wcet"]));
    assert_eq!(left.report["command"], serde_json::json!(["sh", "-c", "exit 7"]));
    let right = run("right");
    assert_eq!(right.status.code(), Some(125), "{}", right.stderr);
    assert!(right.stderr.contains("accepted is -- COMMAND, or command = [\"PROGRAM\", ...] of task \"right\""));
}
