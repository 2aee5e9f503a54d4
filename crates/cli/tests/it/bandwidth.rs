//! Budgets of memory bandwidth: `memtint sim` of a scenario with them, and `memtint guard rmin`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::scratch::Scratch;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command.output().expect("the binary was built for this test")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[&["--format", "json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn scenario() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bandwidth.toml");
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_scenario_with_budgets_is_regulated_and_can_be_simulated_without() {
    let scratch = Scratch::new("budgets");
    let file = scratch.file("scenario.toml", &scenario());
    let out = scratch.path("results");
    let regulated = json(&["sim", &file, "--out", &out]);
    let rates = regulated["bandwidth"]["regulators"].as_array().unwrap().iter();
    let rates: Vec<f64> = rates.map(|regulator| regulator["bytes_per_second"].as_f64().unwrap()).collect();
    for (rate, weight) in rates.iter().zip([8.0, 4.0, 2.0, 1.0]) {
        let share = rate / rates.iter().sum::<f64>() * 15.0 / weight;
        assert!((share - 1.0).abs() < 0.02, "{rates:?}");
    }
    let slowdown = |report: &Value| report["tasks"][0]["slowdown"].as_f64().unwrap();
    assert!(slowdown(&regulated) < 1.03, "{}", slowdown(&regulated));
    let free = json(&["sim", &file, "--ignore", "bandwidth"]);
    assert!(slowdown(&free) > 5.0 && free.get("bandwidth").is_none(), "{}", slowdown(&free));
    let table = std::fs::read(Path::new(&out).join("regulators.parquet")).unwrap();
    assert!(table.starts_with(b"PAR1"));
    let columns = ["budget", "donated", "reclaimed", "underruns", "throttled_ns"];
    let has = |name: &str| table.windows(name.len()).any(|window| window == name.as_bytes());
    assert!(columns.into_iter().all(has));
    let text = String::from_utf8(run(&["sim", &file]).stdout).unwrap();
    assert!(text.contains("1040 MB/s guaranteed, 50 periods of 1.000 ms"), "{text}");
    assert!(text.contains("core 0     foreground  lines   all      8056"), "{text}");
}

#[test]
fn a_promise_that_is_not_kept_is_a_no_and_budgets_that_cannot_be_are_refused() {
    let scratch = Scratch::new("no-budgets");
    let late = scenario().replace("sharing = \"off\"", "skid = \"1 us\"\nskid_events = 1");
    let output = run(&["sim", &scratch.file("late.toml", &late)]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("bandwidth is not guaranteed: core 0 sent"), "{message}");
    let much = scenario().replace("weight = 8", "weight = 8\nmb_per_s = 9");
    let without = scenario().replace("[bandwidth]", "[bandwith]").replace("[[bandwidth", "[[bandwith");
    for (text, words) in [
        (much, "bandwidth.group \"foreground\": mb_per_s is given beside another budget; accepted is one of mb_per_s"),
        (without, "unknown field `bandwith`"),
    ] {
        let output = run(&["sim", &scratch.file("wrong.toml", &text)]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(words), "{message}");
    }
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/two-allocators.toml");
    let output = run(&["sim", "--ignore", "bandwidth", other.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("--ignore bandwidth is given, and there is no bandwidth"), "{message}");
}

/// PC6400, the modules of the slides.
#[test]
fn the_worst_case_of_a_device_is_calculated_and_simulated() {
    let slides = json(&["guard", "rmin", "--platform", "core2quad-8400", "--device", "ddr2-800"]);
    let number = |value: &Value| value.as_f64().unwrap();
    assert!((number(&slides["r_min_mb_per_s"]) - 1041.0).abs() < 1.0, "{slides}");
    assert_eq!((number(&slides["slides"]["line_ns"]), &slides["period"]["lines"]), (47.5, &Value::from(16257)));
    let patterns = slides["patterns"].as_array().unwrap();
    assert_eq!(patterns.iter().map(|pattern| number(&pattern["line_ns"])).collect::<Vec<_>>(), [57.5, 60.0, 22.5]);
    for pattern in &patterns[..2] {
        let ratio = number(&pattern["simulated_mb_per_s"]) / number(&pattern["calculated_mb_per_s"]);
        assert!((1.0..1.02).contains(&ratio), "{pattern}");
    }
    let text = run(&["guard", "rmin", "--platform", "core2quad-8400"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("the slowest of its family") && text.contains("29 % more"), "{text}");
    for (arguments, words) in [
        (&["--platform", "rpi-zero2"][..], "its memory is LPDDR2"),
        (&["--platform", "nothing"], "nothing"),
        (&["--platform", "p4080", "--device", "ddr9"], "ddr9"),
        (&["--platform", "p4080", "--refresh", "fgr4"], "fgr4"),
        (&["--platform", "p4080", "--period", "0 ns"], "--period"),
    ] {
        let output = run(&[&["guard", "rmin"], arguments].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
}
