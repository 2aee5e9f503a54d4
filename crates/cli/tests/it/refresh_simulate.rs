//! Do `memtint refresh simulate` and `compare` say what came out, in text, JSON and pictures, with the exit status that goes with it?

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::scratch::Scratch;

impl Scratch {
    fn run(&self, text: &str, verb: &str, arguments: &[&str]) -> Output {
        let path = self.file("tasks.toml", text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
        command.args(["refresh", verb, &path]).args(arguments).stdin(Stdio::null());
        command.output().expect("the binary was built for this test")
    }

    fn answer(&self, text: &str, verb: &str, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.run(text, verb, &[&["--format", "json"], arguments].concat());
        let value = serde_json::from_slice(&output.stdout);
        let value = value.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"));
        crate::shared::check(&format!("refresh-{verb}"), &value);
        (output.status.code(), value)
    }
}

/// Two servers of a task each, in colors of their own.
const SET: &str = r#"
[memory]
ranks = 8
density = 2
lock = "20 us"
unlock = "1 us"
[[task]]
name = "control"
period = "16 ms"
wcet = "4 ms"
lines = 1000
server = "S1"
[[task]]
name = "vision"
period = "64 ms"
wcet = "16 ms"
lines = 2000
ranks = 2
server = "S2"
[[color]]
name = "c1"
ranks = "0-3"
phase = "32 ms"
[[color]]
name = "c2"
ranks = "4-7"
[[server]]
name = "S1"
color = "c1"
period = "4 ms"
budget = "2 ms"
[[server]]
name = "S2"
color = "c2"
period = "4 ms"
budget = "4 ms"
"#;

#[test]
fn a_scheme_that_holds_ends_with_zero() {
    let scratch = Scratch::new("holds");
    let picture = scratch.path("runs.svg");
    let (status, found) = scratch.answer(SET, "simulate", &["--scheme", "crs", "--svg", &picture]);
    assert_eq!(status, Some(0), "{found}");
    assert_eq!((&found["schema"], &found["report"]), (&json!(1), &json!("refresh simulate")));
    assert_eq!((&found["holds"], &found["requests_that_met_a_refresh"]), (&json!(true), &json!(0)));
    assert!(found["beyond_standard"].as_str().unwrap().contains("JEDEC accepts at most 8 postponed"), "{found}");
    let control = &found["tasks"][0];
    assert_eq!((&control["name"], &control["response_ps"]["count"]), (&json!("control"), &json!(4)));
    assert_eq!((&control["within_bound"], &control["deadline_misses"]), (&json!(true), &json!(0)));
    assert!(control["alone_max_ps"].as_u64().unwrap() <= 4_000_000_000);
    assert_eq!(found["retention"]["losses"], json!(0));
    let picture = std::fs::read_to_string(&picture).unwrap();
    assert!(picture.contains("rank 7 is refreshed") && picture.contains("control, job 3") && picture.contains("lock"));
    assert!(
        picture.contains("<title>every deadline is met in the simulated ") && !picture.contains("all but"),
        "{picture}"
    );
    let part = scratch.path("part.svg");
    let span = ["--scheme", "crs", "--svg", &part, "--from", "1ms", "--to", "3 ms"];
    assert_eq!(scratch.run(SET, "simulate", &span).status.code(), Some(0));
    assert!(std::fs::read_to_string(&part).unwrap().contains("not drawn: all but 1 ms to 3 ms of "));
    let text = String::from_utf8(scratch.run(SET, "simulate", &["--scheme", "crs"]).stdout).unwrap();
    assert!(text.contains("standard: not kept: all 8192 REF commands"), "{text}");
    assert!(text.ends_with("holds: every deadline is met\n"), "{text}");
}

#[test]
fn a_scheme_that_does_not_hold_says_why_and_ends_with_one() {
    let scratch = Scratch::new("fails");
    let output = scratch.run(SET, "simulate", &["--scheme", "crs", "--density", "64"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("fails: task \"control\" misses"), "{text}");
    let (status, found) = scratch.answer(
        &SET.replace("\"20 us\"", "\"1 ns\"").replace("lines = 1000", "program = \"refresh/lms\""),
        "simulate",
        &["--scheme", "crs"],
    );
    assert_eq!(status, Some(1));
    let complaint = found["complaints"][0].as_str().unwrap();
    assert!(complaint.contains("met a refresh of rank 0, of control; a lock task takes 1 ns"), "{complaint}");
}

/// A simulation of tasks that touch no memory shows nothing of refresh.
#[test]
fn a_task_that_moves_no_lines_is_refused() {
    let scratch = Scratch::new("silent");
    for verb in [&["simulate", "--scheme", "auto"][..], &["simulate", "--scheme", "crs"], &["compare"]] {
        let output = scratch.run(&SET.replace("lines = 2000\n", ""), verb[0], &verb[1..]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{verb:?}: {error}");
        let wanted =
            "task \"vision\": lines is not given; accepted is lines, the cache lines that a job moves, or program";
        assert!(error.contains(wanted), "{error}");
    }
}

/// Utilization with refresh is above 1: the simulated hyperperiod may show no late job, and the analysis says there is one.
#[test]
fn what_is_unbounded_does_not_hold() {
    let scratch = Scratch::new("unbounded");
    let text = "[memory]\nranks = 2\ndensity = 8\n[[task]]\nname = \"full\"\nperiod = \"8 ms\"\nwcet = \"7.95 ms\"\nlines = 2000\n";
    let arguments = ["--scheme", "auto", "--spared", "300"];
    let (status, found) = scratch.answer(text, "simulate", &arguments);
    assert_eq!(
        (&found["tasks"][0]["no_bound_because"], &found["tasks"][0]["deadline_misses"]),
        (&json!("unbounded"), &json!(0))
    );
    assert_eq!((status, &found["holds"]), (Some(1), &json!(false)), "{found}");
    let text = String::from_utf8(scratch.run(text, "simulate", &arguments).stdout).unwrap();
    assert!(text.contains("fails: task \"full\" is unbounded") && !text.contains("holds"), "{text}");
}

/// Both verbs answer about the same policy where the user names none, and say so.
#[test]
fn analysis_and_simulation_have_the_same_default_policy() {
    let scratch = Scratch::new("default");
    let help = |verb: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
        let output = command.args(verb).arg("--help").output().expect("the binary was built for this test");
        String::from_utf8(output.stdout).unwrap()
    };
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(help(&["analyze"])).contains("[default: rm, as of memtint refresh simulate]"));
    for verb in ["simulate", "compare"] {
        assert!(words(help(&["refresh", verb])).contains("[default: rm, as of memtint analyze]"), "{verb}");
    }
    let text = SET.replace("server = \"S1\"\n", "").replace("server = \"S2\"\n", "");
    let (_, found) = scratch.answer(&text, "simulate", &["--scheme", "fgr1"]);
    assert!(found["analysis"].as_str().unwrap().contains("rate monotonic"), "{found}");
}

#[test]
fn a_comparison_has_a_cell_for_each_scheme_and_density() {
    let scratch = Scratch::new("compare");
    let picture = scratch.path("lines.svg");
    let arguments = ["--schemes", "auto,crs", "--densities", "1,32", "--svg", &picture];
    let (status, found) = scratch.answer(SET, "compare", &arguments);
    let cells = found["cells"].as_array().unwrap();
    let of = |scheme: &str, density: u32| {
        let is = |cell: &&Value| cell["scheme"] == json!(scheme) && cell["density_gbit"] == json!(density);
        cells.iter().find(is).unwrap_or_else(|| panic!("{scheme} {density}"))
    };
    assert_eq!(cells.len(), 4);
    let all = cells.iter().all(|cell| cell["holds"] == json!(true));
    assert_eq!(status, Some(i32::from(!all)));
    let latency = |scheme, density| of(scheme, density)["latency_over_none"].as_f64().unwrap();
    assert!(latency("auto", 32) > latency("auto", 1) && (latency("crs", 1) - 1.0).abs() < 0.002);
    assert_eq!(of("crs", 1)["requests_that_met_a_refresh"], json!(0));
    assert!(of("crs", 1)["beyond_standard"].is_string() && of("auto", 1)["beyond_standard"].is_null());
    let one = scratch.answer(SET, "compare", &[&arguments[..], &["--threads", "1"]].concat()).1;
    assert_eq!(one, found, "threads change nothing");
    let picture = std::fs::read_to_string(&picture).unwrap();
    assert!(picture.contains("auto, 32 Gb") && picture.contains("longest response"));
    let text =
        String::from_utf8(scratch.run(SET, "compare", &["--schemes", "fgr2", "--densities", "8"]).stdout).unwrap();
    assert!(text.starts_with("not considered: color, server, task.server\nscheme"), "{text}");
    assert!(text.contains("fgr2") && text.lines().count() == 3, "{text}");
}

#[test]
fn what_is_wrong_is_refused_by_its_name() {
    let scratch = Scratch::new("refused");
    for (text, arguments, words) in [
        (SET.to_owned(), &["--scheme", "sometimes"][..], "sometimes"),
        (SET.to_owned(), &["--scheme", "crs", "--density", "12"], "12"),
        (SET.replace("ranks = 8", "ranks = 65"), &["--scheme", "none"], "memory: ranks is 65"),
        (SET.replace("server = \"S2\"\n", ""), &["--scheme", "crs"], "vision"),
    ] {
        let output = scratch.run(&text, "simulate", arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(words), "{arguments:?}: {error}");
    }
}
