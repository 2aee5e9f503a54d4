//! A plan's budgets: `memtint guard --system` keeps them, and `memtint run --system` puts programs under them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Guard, Machine, assert_kept};
use crate::common::{self, Launch, scratch, within};

/// 100 pages in each millisecond for the task `left`; `right` has no budget.
fn plan(machine: &common::Machine, cpu: &str, name: &str, budget: &str) -> PathBuf {
    let file = scratch(name);
    let text = format!(
        "schema = 1\nplatform = \"{}\"\n[[task]]\nname = \"left\"\nbanks = \"0-3\"\ncores = \"{cpu}\"\nbandwidth = {budget}\n\
         [[task]]\nname = \"right\"\nbanks = \"4-7\"\n",
        machine.platform.display()
    );
    std::fs::write(&file, text).expect("cargo made the directory");
    file
}

const BUDGET: &str = "{ budget = \"400 KiB\", period = \"1 ms\" }";
const PAGES: [&str; 2] = ["--event-bytes", "4096"];

fn text(file: &std::path::Path) -> &str {
    file.to_str().expect("paths here are text")
}

/// Causes page faults by starting programs.
fn program(count: u32) -> [String; 3] {
    ["sh", "-c", &format!("i=0; while [ $i -lt {count} ]; do i=$((i + 1)); /bin/true; done; echo $i")]
        .map(str::to_owned)
}

#[test]
fn a_program_of_a_plan_runs_within_its_budget() {
    let Some(taken) = common::Machine::take(&["true"]) else { return };
    let Some(machine) = Machine::beside(&taken) else { return };
    let file = plan(&taken, &machine.cpu, "regulated.toml", BUDGET);
    let guard = Guard::start(&[&PAGES[..], &["--system", text(&file)]].concat());
    let group = &guard.started["groups"][0];
    assert_eq!((group["name"].as_str(), group["budget"].as_u64()), (Some("left"), Some(100)));
    assert_eq!(guard.started["system"], text(&file));
    let considered = guard.started["not_considered"].to_string();
    assert!(considered.contains("tasks of the system file that have no budget: right"), "{considered}");
    let launch = |file: &std::path::Path, more: &[&str]| {
        let colors = [&["--system", text(file), "--task", "left"], more].concat();
        Launch::new(&taken, &program(100)).colors(&colors).colored().end_with_survivors()
    };
    let ended = launch(&file, &[]);
    ended.assert_success();
    ended.assert_clean_report();
    assert_eq!(ended.stdout, "100\n");
    let regulation = &ended.report["regulation"];
    assert_eq!((&regulation["verdict"], &regulation["reason"]), (&"kept".into(), &serde_json::Value::Null));
    let of = |field: &str| regulation["sums"][0][field].as_u64().unwrap_or_else(|| panic!("{field}: {regulation}"));
    // A program that is started has some dozens of pages.
    assert!(of("used") > 1000 && of("periods") > 10 && of("broken") == 0, "{regulation}");
    assert_eq!(ended.report["not_enforced"], serde_json::json!([]));
    let considered = regulation["not_considered"].to_string();
    assert!(considered.contains(&format!("CPUs [{}", machine.first)), "{regulation}");
    // What the plan says is not what is kept, or not everywhere.
    let other = plan(&taken, &machine.cpu, "other.toml", "{ budget = \"1 MiB\", period = \"1 ms\" }");
    let soft = plan(&taken, &machine.cpu, "soft.toml", "{ budget = \"400 KiB\", period = \"1 ms\", kind = \"soft\" }");
    let cores: &[&str] = &["--cores", &machine.first];
    for (file, more, words) in [
        (&other, &[][..], &["1 MiB in 1 ms, hard", "100 events of 4096 bytes in 1 ms, hard"][..]),
        (&soft, &[], &["400 KiB in 1 ms, soft", "1 ms, hard"]),
        (&file, cores, &[&format!("may run on CPU {}", machine.first)]),
    ] {
        let refused = launch(file, more);
        assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr);
        let words =
            words.iter().chain(&["bandwidth of task \"left\" is not enforced", "guard --system", "--ignore bandwidth"]);
        words.for_each(|word| assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr));
    }
    // Another task needs no group.
    let right = Launch::new(&taken, &["true"])
        .colors(&["--system", text(&file), "--task", "right"])
        .colored()
        .end_with_survivors();
    right.assert_success();
    assert_eq!(right.report["regulation"], serde_json::Value::Null);
    assert_kept(&guard.end());
}

#[test]
fn a_plan_that_no_regulator_can_keep_is_refused_by_its_name() {
    let Some(taken) = common::Machine::take(&[]) else { return };
    let Some(machine) = Machine::beside(&taken) else { return };
    let long = plan(&taken, &machine.cpu, "long.toml", "{ budget = \"1 MiB\", period = \"2 s\" }");
    let absent = plan(&taken, "8191", "absent.toml", BUDGET);
    let sound = plan(&taken, &machine.cpu, "sound.toml", BUDGET);
    for (file, more, words) in [
        (&long, &[][..], ["long.toml", "period is 2s", "100 us to 1 s"]),
        (&absent, &[], ["absent.toml", "CPUs of left is 8191", "CPUs that are online"]),
        (&sound, &["--guaranteed", "100ev"], ["sound.toml", "add up to 125", "guaranteed 100"]),
    ] {
        let error = super::refused(&[&PAGES[..], &["--system", text(file)], more].concat());
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

#[test]
fn a_program_that_outlives_the_regulator_says_so() {
    let Some(taken) = common::Machine::take(&["sed"]) else { return };
    let Some(machine) = Machine::beside(&taken) else { return };
    let file = plan(&taken, &machine.cpu, "outlived.toml", BUDGET);
    let guard = Guard::start(&[&PAGES[..], &["--system", text(&file)]].concat());
    let colors = ["--system", text(&file), "--task", "left"];
    let mut run = Launch::new(&taken, &["sed", "-u", "2q"]).colors(&colors).interactive().colored();
    run.say("here\n");
    assert_eq!(run.line(), "here");
    let tasks = machine.groups.join("left/cgroup.procs");
    assert!(!std::fs::read_to_string(tasks).expect("the regulator has made it").is_empty());
    assert_kept(&guard.end());
    assert!(within(Duration::from_secs(30), || !machine.groups.exists()));
    run.say("there\n");
    assert_eq!(run.line(), "there");
    let ended = run.end();
    ended.assert_success();
    assert_eq!(ended.report["regulation"]["verdict"], "unknown", "{}", ended.report);
    let problem = "bandwidth of the task: unknown: the regulator has ended before the program";
    assert_eq!(ended.problems(), [problem]);
    assert!(ended.stderr.contains(problem), "{}", ended.stderr);
}

#[test]
fn a_program_that_leaves_its_group_at_once_is_not_said_to_be_kept() {
    let Some(taken) = common::Machine::take(&["sh"]) else { return };
    let Some(machine) = Machine::beside(&taken) else { return };
    let file = plan(&taken, &machine.cpu, "left.toml", BUDGET);
    let guard = Guard::start(&[&PAGES[..], &["--system", text(&file)]].concat());
    let root = machine.groups.parent().expect("a mount").join("cgroup.procs");
    let leave = ["sh", "-c", &format!("echo 0 >{}", root.display())].map(str::to_owned);
    let colors = ["--system", text(&file), "--task", "left"];
    let ended = Launch::new(&taken, &leave).colors(&colors).colored().end_with_survivors();
    ended.assert_success();
    assert_eq!(ended.report["regulation"]["verdict"], "unknown", "{}", ended.report);
    assert_eq!(ended.problems(), ["bandwidth of the task: unknown: the program was not in its group when it ended"]);
    // It may have been listed before it left.
    let ((_, incidents), status) = guard.end_with_incidents();
    assert!(incidents.iter().all(|one| one["cause"] == "task-left"), "{incidents:?}");
    assert_eq!(status, i32::from(!incidents.is_empty()));
}

#[test]
fn a_running_regulator_can_be_asked() {
    let Some(machine) = Machine::take() else { return };
    let status = |format: &str| {
        let output = super::memtint(&["--format", format, "guard", "status"]).output().expect("it was built");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
        (output.status.code(), said)
    };
    assert!(
        matches!(status("text"), (Some(2), [out, error]) if out.is_empty() && error.contains("no memtint guard runs"))
    );
    let guard = Guard::start(&["--group", &machine.group("10ev")]);
    let (code, [text, _]) = status("text");
    let process = format!("process {}, ", guard.process.id());
    assert!(code == Some(0) && text.contains("so far: kept") && text.contains(&process), "{text}");
    let (code, [text, error]) = status("json");
    let report: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault}: {text}{error}"));
    crate::shared::check("guard-status", &report);
    assert_eq!((code, report["report"].as_str(), report["schema"].as_u64()), (Some(0), Some("guard-status"), Some(1)));
    assert_eq!((report["groups"][0]["budget"].as_u64(), report["sums"][0]["name"].as_str()), (Some(10), Some("test")));
    assert_kept(&guard.end());
    assert_eq!(status("json").0, Some(2));
    // Runs of programs are registered in the same folder, if only root may enter it.
    let mode = Command::new("stat").args(["-c", "%a", "/run/memtint"]).output().expect("coreutils");
    assert_eq!(String::from_utf8_lossy(&mode.stdout).trim(), "700");
}
