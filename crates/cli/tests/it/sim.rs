//! Does `memtint sim` say what it promises, keep what is done when it is interrupted, and refuse what is wrong?

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::scratch::Scratch;

impl Scratch {
    fn scenario(&self, text: &str) -> String {
        self.file("system.toml", text)
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary was built for this test")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[&["--format", "json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    crate::shared::check_printed(arguments, &report);
    report
}

const SYSTEM: &str = r#"
schema = 1
platform = "skl-e3-1220v5-4x4g"

[[task]]
name = "reader"
cores = "0"
banks = "0-3"
workload = { kind = "latency", size = "16 MiB" }
period = "50 us"
references = 200

[[task]]
name = "writer"
cores = "1"
banks = "4-7"
workload = { kind = "bandwidth", size = "16 MiB", write = true }

[simulation]
device = "ddr4-2400"
duration = "200 us"
alone = true

[simulation.cores]
count = 4
mhz = 3000

[simulation.caches]
l1 = { size = "32 KiB", ways = 8 }
l2 = { size = "256 KiB", ways = 4 }
latency_cycles = [4, 12, 42, 60, 120]

[simulation.system]
fault = "0 ns"
"#;

#[test]
fn results_do_not_depend_on_threads_and_are_the_same_in_all_forms() {
    let scratch = Scratch::new("forms");
    let scenario = scratch.scenario(SYSTEM);
    let out = PathBuf::from(scratch.path("results"));
    let one = json(&["sim", &scenario, "--threads", "1", "--out", out.to_str().unwrap()]);
    assert_eq!(one, json(&["sim", &scenario, "--threads", "3"]));
    assert_ne!(one["tasks"], json(&["sim", &scenario, "--seed", "7"])["tasks"]);
    assert_eq!((&one["schema"], &one["complete"]), (&Value::from(1), &Value::from(true)));
    let reader = &one["tasks"][0];
    assert_eq!((reader["name"].as_str(), reader["jobs"].as_u64()), (Some("reader"), Some(4)));
    assert!(reader["read_latency_ns"]["mean"].as_f64().unwrap() > 50.0);
    assert!(one["maximum_slowdown"].as_f64().unwrap() >= 1.0);
    let stored: Value = serde_json::from_reader(File::open(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(stored, one);
    for name in ["tasks", "banks", "ranks"] {
        let table = std::fs::read(out.join(format!("{name}.parquet"))).unwrap();
        assert!(table.starts_with(b"PAR1") && table.ends_with(b"PAR1"), "{name}");
    }
    let text = String::from_utf8(run(&["sim", &scenario]).stdout).unwrap();
    assert!(text.contains("reader") && text.contains("maximum slowdown"), "{text}");
}

#[test]
fn the_scenario_is_printed_with_its_defaults_and_means_the_same() {
    let scratch = Scratch::new("config");
    let scenario = scratch.scenario(SYSTEM);
    let printed = String::from_utf8(run(&["sim", &scenario, "--print-config"]).stdout).unwrap();
    assert!(printed.contains("window = 128"), "{printed}");
    let mut first = json(&["sim", &scenario]);
    let mut second = json(&["sim", &scratch.scenario(&printed)]);
    for report in [&mut first, &mut second] {
        report["scenario"] = Value::Null;
    }
    assert_eq!(first, second);
}

fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the child has not been waited for");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("the kernel says it").trim(), 16).expect("a number");
    caught & (1 << (libc::SIGINT - 1)) != 0
}

/// Of the first thread.
fn processor_time(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("the child has not been waited for");
    Duration::from_nanos(text.split(' ').next().and_then(|time| time.parse().ok()).expect("a number"))
}

#[test]
fn an_interrupted_simulation_keeps_what_is_done() {
    let scratch = Scratch::new("interrupted");
    let endless = SYSTEM.replace("200 us", "100 s").replace("alone = true", "alone = false");
    let scenario = scratch.scenario(&endless);
    let mut running = command(&["--format", "json", "sim", &scenario]).stdout(Stdio::piped()).spawn().unwrap();
    // On a busy machine it may take a while until it listens and has come somewhere.
    while !catches_interrupts(running.id()) || processor_time(running.id()) < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: plain system call; the child is ours and has not been waited for.
    assert_eq!(unsafe { libc::kill(running.id() as i32, libc::SIGINT) }, 0);
    let asked = Instant::now();
    while running.try_wait().unwrap().is_none() {
        if asked.elapsed() > Duration::from_secs(300) {
            running.kill().unwrap();
            panic!("it did not stop");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = running.wait_with_output().unwrap();
    // Half a simulation is no answer, although what is done is printed.
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::shared::check("sim", &report);
    assert_eq!(report["complete"], Value::from(false));
    assert!(report["tasks"][1]["references"].as_u64().unwrap() > 1000, "{report}");
}

#[test]
fn what_is_wrong_is_refused_with_the_field() {
    let cases = [
        ("schema = 1", "schema = 2", "schema is 2; accepted is a whole number, 1 to 1"),
        ("duration", "durations", "simulation: \"durations\" is no field; the nearest is \"duration\""),
        ("\"200 us\"", "\"200 weeks\"", "simulation: duration is \"200 weeks\""),
        ("skl-e3-1220v5-4x4g", "skl-e3", "skl-e3"),
        ("ddr4-2400", "ddr4-9999", "ddr4-9999"),
        ("banks = \"0-3\"", "banks = \"16\"", "task \"reader\": banks"),
        (
            "banks = \"4-7\"",
            "allocator = \"slub\"",
            "task \"writer\": allocator is \"slub\"; accepted is one of \"buddy\"",
        ),
        ("banks = \"4-7\"", "allocator = \"bpm\"\nsets = \"0\"", "task \"writer\": allocator is bpm; bpm cannot honor"),
        ("cores = \"1\"", "cores = \"4\"", "task \"writer\": cores is 4; accepted is 0 to 3"),
        ("name = \"writer\"", "name = \"reader\"", "name of task is \"reader\" twice"),
        ("references = 200", "references = 0", "task \"reader\": references is 0"),
        ("references = 200", "", "task \"reader\": references is missing"),
        ("mhz = 3000", "mhz = 0", "simulation.cores.mhz is 0"),
        ("mhz = 3000", "", "simulation: cores: missing: mhz (Clock in megahertz)"),
        ("device = \"ddr4-2400\"\n", "", "simulation: missing: device ("),
        ("l2 = { size = \"256 KiB\", ways = 4 }", "l2 = { size = \"255 KiB\", ways = 4 }", "255 KiB"),
        ("kind = \"latency\"", "kind = \"latencies\"", "task \"reader\": workload.kind is \"latencies\""),
        ("\"16 MiB\" }\nperiod", "\"16 TiB\" }\nperiod", "16 TiB"),
        ("alone = true", "task = 1", "simulation: \"task\" is no field"),
        ("mhz = 3000", "mhz = \"3\"", "simulation: cores.mhz is \"3\"; accepted is a whole number, 0 to 4294967295"),
    ];
    let scratch = Scratch::new("refused");
    for (from, to, expected) in cases {
        assert!(SYSTEM.contains(from), "{from}");
        let output = run(&["sim", &scratch.scenario(&SYSTEM.replacen(from, to, 1))]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{to}: {message}");
        assert!(message.contains(expected), "{to}: {message}");
    }
    let missing = run(&["sim", "/nonexistent/scenario.toml"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn tasks_with_allocators_of_their_own_are_told_apart() {
    let scratch = Scratch::new("allocators");
    let blind = SYSTEM.replacen("banks = \"4-7\"", "allocator = \"buddy\"\nbanks = \"4-7\"", 1);
    let scenario = scratch.scenario(&blind);
    let report = json(&["sim", &scenario]);
    let of = |task: usize| {
        (report["tasks"][task]["allocator"].clone(), report["tasks"][task]["frames_out_of_color"].clone())
    };
    assert_eq!(report["allocator"], "tinted, buddy");
    assert_eq!(of(0), ("tinted".into(), 0.into()));
    let (allocator, frames) = of(1);
    assert!(allocator == "buddy" && frames.as_u64().unwrap() > 0, "{frames}");
    let text = String::from_utf8(run(&["sim", &scenario]).stdout).unwrap();
    let said = format!("task writer: {frames} of ");
    assert!(text.contains("allocator tinted, buddy") && text.contains(&said), "{text}");
}

/// A task of 16 MiB in colors that hold 8 MiB: its numbers are of a part of its work, and the status says so.
#[test]
fn a_task_that_gets_no_more_frames_is_a_no() {
    let scratch = Scratch::new("out-of-color");
    let small = SYSTEM.replace("alone = true", "").replace(
        "banks = \"0-3\"\nworkload = { kind = \"latency\", size = \"16 MiB\" }\nperiod = \"50 us\"\nreferences = 200",
        "banks = \"0\"\nsets = \"0\"\nshared = true\nworkload = { kind = \"bandwidth\", size = \"16 MiB\", step = \"4 KiB\" }\nreferences = 4096",
    );
    let small = small.replace("duration = \"200 us\"", "duration = \"20 ms\"");
    let small = small.replace("banks = \"4-7\"", "banks = \"4-7\"\nshared = true");
    let scenario = scratch.scenario(&small);
    let output = run(&["--format", "json", "sim", &scenario]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::shared::check("sim", &report);
    let reader = &report["tasks"][0];
    assert!(reader["ending"].as_str().unwrap().contains("color"), "{reader}");
    assert_eq!((output.status.code(), &reader["completed_ns"]), (Some(1), &Value::Null), "{reader}");
    let scenario = scratch.scenario(&small.replace("sets = \"0\"", "sets = \"0-3\""));
    let output = run(&["--format", "json", "sim", &scenario]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::shared::check("sim", &report);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report["tasks"][0]["completed_ns"].is_f64(), "{report}");
}

/// Refresh in bursts by software keeps all timings, and is not what the standard accepts.
#[test]
fn a_burst_of_refreshes_is_not_all_legal() {
    let scratch = Scratch::new("burst");
    let scenario = scratch.scenario(&(SYSTEM.to_owned() + "\n[simulation.controller]\nrefresh = \"burst\"\n"));
    let output = run(&["--format", "json", "sim", "--check", &scenario]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::shared::check("sim", &report);
    let commands = &report["commands"];
    assert_eq!((output.status.code(), &commands["legal"]), (Some(1), &false.into()), "{commands}");
    assert_eq!(commands["violations"].as_array().unwrap().len(), 0, "{commands}");
    assert_eq!(commands["postponed_beyond_standard"].as_array().unwrap().len(), 2, "both channels: {commands}");
}

#[test]
fn commands_are_kept_and_legal() {
    let scratch = Scratch::new("commands");
    let scenario = scratch.scenario(SYSTEM);
    let folder = PathBuf::from(scratch.path("commands"));
    let plain = json(&["sim", &scenario]);
    let watched = json(&["sim", "--check", "--commands", folder.to_str().unwrap(), &scenario]);
    let found = &watched["commands"];
    assert_eq!((&found["channels"], &found["legal"]), (&2.into(), &true.into()), "{found}");
    // Watching changes nothing.
    assert_eq!((&plain["tasks"], &plain["banks"]), (&watched["tasks"], &watched["banks"]));
    let mut lines = 0;
    for channel in 0..2 {
        let file = folder.join(format!("channel-{channel}.commands"));
        let text = std::fs::read_to_string(&file).expect("every channel has a file");
        lines += text.lines().count() as u64;
        // The checker that reads files is of the same mind, and not about a slower device.
        let check = |device: &str| {
            let mapping = ["--mapping", "skl-e3-1220v5-4x4g", "--channel", "0", "--refresh", "staggered"];
            let file = file.to_str().unwrap();
            run(&[&["dram", "check", "--device", device], &mapping[..], &[file]].concat()).status.code()
        };
        assert_eq!((check("ddr4-2400"), check("ddr4-3200")), (Some(0), Some(1)));
    }
    assert_eq!(found["commands"], lines);
    let text = String::from_utf8(run(&["sim", "--check", &scenario]).stdout).unwrap();
    assert!(text.contains(&format!("commands   {lines} on 2 channels, all legal")), "{text}");
}
