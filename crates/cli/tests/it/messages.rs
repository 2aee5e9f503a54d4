//! What goes to standard error: notes, warnings, details and progress; and colors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::scratch::Scratch;

/// More simulation than any machine does within an hour.
const ENDLESS: &str = r#"
platform = "skl-e3-1220v5-4x4g"
[[task]]
name = "reader"
cores = "0"
workload = { kind = "latency", size = "16 MiB" }
[simulation]
device = "ddr4-2400"
duration = "1000 s"
cores = { count = 1, mhz = 3000 }
[simulation.caches]
l1 = { size = "32 KiB", ways = 8 }
l2 = { size = "256 KiB", ways = 4 }
latency_cycles = [4, 12, 42, 60, 120]
"#;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["MEMTINT_PLATFORM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn quiet_drops_notes_and_keeps_warnings_and_errors() {
    let scratch = Scratch::new("quiet");
    let out = scratch.path("first.toml");
    let init = ["init", "-p", "skl-e3-1220v5-4x4g", "--task", "a period=10ms wcet=1ms", &out];
    let normal = run(&init);
    assert!(text(&normal.stderr).contains("memtint: no --device is given"), "{normal:?}");
    std::fs::remove_file(&out).unwrap();
    let quiet = run(&[&["-q"], init.as_slice()].concat());
    assert_eq!((quiet.status.code(), text(&quiet.stderr)), (Some(0), ""), "{quiet:?}");
    let failed = run(&["sim", "--quiet", "nowhere.toml"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("nowhere.toml"), "{failed:?}");
    let both = run(&["-q", "-v", "platform", "list"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}

#[test]
fn verbose_gives_the_platform_and_the_time() {
    let output = run(&["-v", "inspect", "--platform", "skl-e3-1220v5-4x4g", "--platform-assumed", "1"]);
    let said = text(&output.stderr);
    assert!(said.contains("memtint: platform skl-e3-1220v5-4x4g from \"skl-e3-1220v5-4x4g\""), "{said}");
    assert!(said.lines().any(|line| line.starts_with("memtint: took ") && line.ends_with(" s")), "{said}");
}

/// An endless simulation, and its end.
struct Endless(Child);

impl Endless {
    fn start(scratch: &Scratch, progress: &str) -> Endless {
        let system = scratch.file("endless.toml", ENDLESS);
        let mut command = command(&["sim", &system, "--progress", progress]);
        Endless(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn progress_for_programs_is_json_on_lines() {
    let scratch = Scratch::new("progress-json");
    let mut running = Endless::start(&scratch, "json");
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let mut last = -1.0;
    for _ in 0..2 {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        crate::shared::check("progress", &line);
        assert_eq!(line["activity"], "simulating");
        let elapsed = line["elapsed_seconds"].as_f64().unwrap();
        assert!(elapsed >= last + 0.9, "{line}");
        assert!(line["done"].as_f64().is_some_and(|done| done < 0.5), "{line}");
        last = elapsed;
    }
}

/// A command on a terminal, by script(1) of util-linux, whose input and output are those of the terminal.
fn on_a_terminal(words: &[&str]) -> Child {
    Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command", &format!("exec {}", words.join(" ")), "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux is part of every Debian")
}

#[test]
fn a_terminal_shows_a_bar_and_is_left_clean() {
    let scratch = Scratch::new("progress-bar");
    let system = scratch.file("endless.toml", ENDLESS);
    let words = [env!("CARGO_BIN_EXE_memtint"), "sim", &system, "--format", "json"];
    let mut script = on_a_terminal(&words);
    let (mut seen, mut keys) = (Vec::new(), script.stdin.take().unwrap());
    let mut screen = script.stdout.take().unwrap();
    let mut byte = [0];
    while !String::from_utf8_lossy(&seen).contains(" %, ") {
        assert_eq!(screen.read(&mut byte).unwrap(), 1, "no bar: {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    assert!(String::from_utf8_lossy(&seen).contains("simulating ["), "{}", String::from_utf8_lossy(&seen));
    // Ctrl-C.
    keys.write_all(&[3]).unwrap();
    let mut rest = Vec::new();
    screen.read_to_end(&mut rest).unwrap();
    script.wait().unwrap();
    let rest = String::from_utf8_lossy(&rest);
    let (bar, report) = rest.split_once("memtint: stopped;").unwrap_or_else(|| panic!("no note: {rest}"));
    assert!(bar.ends_with("\x1b[2K"), "the bar is cleared before anything else is written: {bar:?}");
    assert!(!report.contains("simulating ["), "nothing after the end: {report:?}");
}

#[test]
fn a_recording_on_a_terminal_has_one_thread() {
    // Another one would take signals that the recorder waits for, and end it before the trace is complete.
    let scratch = Scratch::new("progress-recording");
    let trace = scratch.path("sleep.trace");
    let words = [env!("CARGO_BIN_EXE_memtint"), "trace", "record", "-o", &trace, "--", "sleep", "1000"];
    let mut script = on_a_terminal(&words);
    let mut screen = script.stdout.take().unwrap();
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&seen).contains("recording: ") {
        assert_eq!(screen.read(&mut byte).unwrap(), 1, "no progress: {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", script.id())).unwrap();
    let recorder: i32 = children.trim().parse().expect("one child");
    assert_eq!(std::fs::read_dir(format!("/proc/{recorder}/task")).unwrap().count(), 1);
    // SAFETY: plain system call; the recorder lives, because its program sleeps.
    assert_eq!(unsafe { libc::kill(recorder, libc::SIGTERM) }, 0);
    screen.read_to_end(&mut seen).unwrap();
    drop(script.stdin.take());
    script.wait().unwrap();
    let info = run(&["trace", "info", &trace]);
    assert!(info.status.success() && text(&info.stdout).contains("signal 15"), "{info:?}");
}

#[test]
fn verdicts_have_colors_where_they_are_wanted() {
    let system = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/flight-control.toml");
    let first_line = |command: &mut Command| {
        let output = command.output().unwrap();
        text(&output.stdout).lines().next().expect("a verdict").to_owned()
    };
    let plain = first_line(&mut command(&["analyze", system]));
    assert!(plain.starts_with("schedulable: "), "a pipe has no colors: {plain:?}");
    let colored = first_line(&mut command(&["analyze", system, "--color", "always"]));
    assert!(colored.starts_with("\x1b[1m\x1b[32mschedulable\x1b[0m: "), "{colored:?}");
    let never = first_line(command(&["analyze", system, "--color", "never"]).env("CLICOLOR_FORCE", "1"));
    assert_eq!(never, plain);
    let json = run(&["analyze", system, "--color", "always", "--format", "json"]);
    assert!(!json.stdout.contains(&0x1b));
    let help = |color: &str| run(&["--help", "--color", color]).stdout.contains(&0x1b);
    assert!(help("always") && !help("auto"));
}
