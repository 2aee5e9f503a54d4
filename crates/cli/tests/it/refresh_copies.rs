//! Do `memtint analyze --scheduler crs` and `memtint refresh plan` take copy tasks: bounds of both instances, a witness that shows
//! whose each job is, and servers in which they pass?

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::scratch::Scratch;

fn published() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crs-copies.toml");
    std::fs::read_to_string(path).expect("the file is in the repository")
}

fn memtint(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary was built for this test")
}

fn json_of(arguments: &[&str]) -> (Option<i32>, Value) {
    // Of these, analyze and plan have a witness.
    let witness: &[&str] = if arguments[0] == "analyze" || arguments[1] == "plan" { &["--witness"] } else { &[] };
    let output = memtint(&[&["--format", "json"], arguments, witness].concat());
    let value = serde_json::from_slice(&output.stdout);
    let value = value.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"));
    crate::shared::check_printed(arguments, &value);
    (output.status.code(), value)
}

fn without(text: &str, keys: &[&str]) -> String {
    let keeps = |line: &&str| !keys.iter().any(|key| line.starts_with(&format!("{key} = ")));
    text.lines().filter(keeps).map(|line| format!("{line}\n")).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn copy_tasks_have_bounds_and_a_witness() {
    let scratch = Scratch::new("copies");
    let picture = scratch.path("copies.svg");
    for inside in ["edf", "rm", "dm"] {
        let text = published().replace("[[server]]", &format!("[[server]]\nscheduling = \"{inside}\""));
        let path = scratch.file("tasks.toml", &text);
        let (code, found) = json_of(&["analyze", &path, "--scheduler", "crs", "--svg", &picture]);
        assert_eq!((code, &found["schedulable"]), (Some(0), &json!(true)), "{inside}: {found}");
        assert!(found["theorem"].as_str().unwrap().contains("copied tasks (5.3.6"), "{found}");
        assert!(found["assumptions"].to_string().contains("a copied task is periodic"), "{found}");
        for task in list(&found, "tasks") {
            let number = |key: &str| task[key].as_f64().unwrap_or_else(|| panic!("{key} in {task}"));
            assert!(number("longest_seen_ns") <= number("wcrt_ns") && task["meets_deadline"] == json!(true), "{task}");
        }
        assert_eq!(
            (&found["tasks"][0]["copy_server"], &found["tasks"][2]["copy_server"]),
            (&json!("S2"), &Value::Null)
        );
        let copies = list(&found, "copied_tasks");
        assert_eq!(copies.len(), 4);
        // Locks of 20 us, 8192 times 350 ns and 1 us; c is 1.5 - 2 ms less for the second, whose WCET is 100 and 20 us.
        let (gyro, motor) = (&copies[0], &copies[2]);
        assert_eq!((&motor["task"], &motor["server"]), (&json!("motor"), &json!("S1")));
        assert_eq!((&gyro["locked_ps"], &gyro["lengthening_ps"]), (&json!(2_888_200_000u64), &json!(2_888_200_000u64)));
        assert_eq!(
            (&motor["lengthening_ps"], &motor["wcet_with_copy_ps"]),
            (&json!(2_388_200_000u64), &json!(120_000_000))
        );
        assert_eq!(gyro["locks_apart_ps"], json!(32_000_000_000u64 - 2_888_200_000));
        // The longer bound is that of the task, and every job is of one instance: 160 in 160 ms.
        let bound = |copy: &Value| copy["wcrt_ns"].as_f64().unwrap();
        assert_eq!(bound(gyro).max(bound(&copies[1])), found["tasks"][0]["wcrt_ns"].as_f64().unwrap());
        let jobs = |copy: &Value| copy["jobs_in_witness"].as_u64().unwrap();
        let window = found["witness"]["window_ps"].as_u64().unwrap();
        assert_eq!(jobs(gyro) + jobs(&copies[1]), window / 1_000_000_000);
        assert!(jobs(gyro) > 0 && jobs(&copies[1]) > 0);
        assert_unmet(&found);
        let drawn = std::fs::read_to_string(&picture).unwrap();
        assert!(drawn.contains("gyro (S1) job 0: ") && drawn.contains("gyro (S2) job 32: "), "{inside}");
    }
    let text =
        String::from_utf8(memtint(&["analyze", &scratch.path("tasks.toml"), "--scheduler", "crs"]).stdout).unwrap();
    assert!(text.starts_with("schedulable") && text.contains("copied task") && text.contains("witness: "), "{text}");
    // Nobody's servers alone.
    let alone = scratch.file("alone.toml", &without(&published(), &["copy_server"]));
    let (code, found) = json_of(&["analyze", &alone, "--scheduler", "crs"]);
    assert_eq!((code, &found["overload"]["task"], &found["copied_tasks"]), (Some(1), &json!("gyro"), &Value::Null));
}

/// No run of a lane is in a refresh of the color of its server.
fn assert_unmet(found: &Value) {
    let colors = list(&found["witness"], "colors");
    let mut lanes = 0;
    for (server, color) in [("(S1)", &colors[0]), ("(S2)", &colors[1])] {
        let own =
            list(&found["witness"], "lanes").iter().filter(|lane| lane["name"].as_str().unwrap().ends_with(server));
        for run in own.flat_map(|lane| list(lane, "runs")) {
            let (from, to) = (run["start_ps"].as_u64().unwrap(), run["end_ps"].as_u64().unwrap());
            for refresh in list(color, "refreshes") {
                let (start, end) = (refresh["start_ps"].as_u64().unwrap(), refresh["end_ps"].as_u64().unwrap());
                assert!(to <= start || end <= from, "{server}: {run} meets {refresh}");
            }
            lanes += 1;
        }
    }
    assert!(lanes > 100);
}

/// A budget that is too small for both instances, and copies that nobody can make.
#[test]
fn what_copy_tasks_lack_is_said() {
    let scratch = Scratch::new("lack");
    let small = published().replace("budget = \"200 us\"", "budget = \"60 us\"");
    let (code, found) = json_of(&["analyze", &scratch.file("tasks.toml", &small), "--scheduler", "crs"]);
    assert_eq!((code, &found["witness"]), (Some(1), &Value::Null), "{found}");
    assert!(found["overload"]["task"].is_string() && list(&found, "copied_tasks").len() == 4, "{found}");
    let refused = |text: &str, words: &[&str]| {
        let output = memtint(&["analyze", &scratch.file("tasks.toml", text), "--scheduler", "crs"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    };
    let near = published().replace("phase = \"32 ms\"", "phase = \"4 ms\"");
    refused(&near, &["gyro", "between the locks of its groups", "a period and a deadline"]);
    let core = published().replace("name = \"S2\"\ncolor", "name = \"S2\"\ncore = 1\ncolor");
    refused(&core, &["task \"gyro\": copy_server", "another server of the core"]);
}

#[test]
fn a_plan_places_copy_tasks() {
    let scratch = Scratch::new("plan-copies");
    let out = scratch.path("planned.toml");
    let grid = ["--scheme", "crs", "--unit", "100 us", "--period-max", "500 us", "--out", &out];
    let plan = |text: &str| json_of(&[&["refresh", "plan", &scratch.file("tasks.toml", text)], &grid[..]].concat());
    let (code, found) = plan(&published());
    assert_eq!((code, &found["why"]["copied_tasks"]), (Some(0), &json!(["gyro", "motor"])), "{found}");
    let planned = std::fs::read_to_string(&out).unwrap();
    assert_eq!(planned.matches("copy_server = \"S2\"").count(), 2, "{planned}");
    let (code, again) = json_of(&["analyze", &out, "--scheduler", "crs"]);
    assert_eq!(
        (code, &again["schedulable"], &again["witness"]),
        (Some(0), &json!(true), &found["analysis"]["witness"])
    );
    // Where the file says nothing of servers, tasks that no server can hold alone are copied.
    let bare = without(&published(), &["copy_server", "server"]);
    let bare = &bare[..bare.find("[[server]]").unwrap()];
    let (code, same) = plan(bare);
    assert_eq!((code, &same["plan"], &same["why"]), (Some(0), &found["plan"], &found["why"]));
    // With one of two tasks in each server as well, and by priorities.
    let (code, found) =
        json_of(&[&["refresh", "plan", &scratch.file("tasks.toml", bare), "--inside", "rm"], &grid[..]].concat());
    assert_eq!((code, &found["analysis"]["schedulable"]), (Some(0), &json!(true)), "{found}");
    // A task that nobody can copy in time.
    let long = published().replace("server = \"S2\"\n\n[memory]", "server = \"S2\"\ncopy_server = \"S1\"\n\n[memory]");
    let output = memtint(&[&["refresh", "plan", &scratch.file("tasks.toml", &long)], &grid[..]].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(3) && error.contains("copy tasks need 64 ms between the locks"), "{error}");
}
