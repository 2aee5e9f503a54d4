//! Does `memtint doctor` say of this machine what a run finds, for root and for a user without privileges?
//!
//! `cargo test -p memtint-cli --test live live::doctor::`, as root.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{Machine, scratch};
use crate::shared::check;

const NOBODY: u32 = 65534;

/// Runs a copy of memtint that any user may execute, as root or as uid 65534.
fn memtint(machine: &Machine, user: u32, arguments: &[&str]) -> Output {
    // The build directory may be closed to other users; the temporary directory is not.
    let copy = std::env::temp_dir().join(format!("memtint-doctor-{}", std::process::id()));
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_memtint")).arg(&copy).status();
    assert!(copied.expect("cp is everywhere").success());
    let platform = std::env::temp_dir().join(format!("memtint-doctor-{}.toml", std::process::id()));
    std::fs::copy(&machine.platform, &platform).expect("the temporary directory is writable");
    let mut command = Command::new(&copy);
    command.args(arguments).env("MEMTINT_PLATFORM", &platform).env("MEMTINT_REGISTRY", scratch("doctor-registry"));
    let output = command.uid(user).gid(user).current_dir("/").output().expect("the copy can be executed");
    for file in [copy, platform] {
        std::fs::remove_file(file).expect("it is this test's");
    }
    output
}

fn report(machine: &Machine, user: u32) -> Value {
    let output = memtint(machine, user, &["--format", "json", "doctor", "--for", "color"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    check("doctor", &report);
    let possible = report["purposes"][0]["answer"] != "no";
    assert_eq!(output.status.code(), Some(i32::from(!possible)), "{report:#}");
    report
}

#[test]
fn its_answer_is_what_a_run_finds() {
    let Some(machine) = Machine::take(&[]) else { return };
    for (user, expected) in [(0, true), (NOBODY, false)] {
        let report = report(&machine, user);
        let possible = report["purposes"][0]["answer"] != "no";
        let run = memtint(&machine, user, &["run", "--banks", "0-3", "--", "/bin/true"]);
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!((possible, run.status.success()), (expected, expected), "user {user}: {said}\n{report:#}");
    }
}

#[test]
fn what_it_says_of_this_machine_is_complete() {
    let Some(machine) = Machine::take(&[]) else { return };
    let report = report(&machine, 0);
    let checks = report["checks"].as_array().expect("a list");
    let ids: Vec<&str> = checks.iter().filter_map(|check| check["id"].as_str()).collect();
    for id in ["kernel-version", "userfaultfd", "platform", "clock", "cpus", "bpf", "cgroup-v2", "fair-server"] {
        assert!(ids.contains(&id), "{id} is not among {ids:?}");
    }
    let page = memtint(&machine, 0, &["doctor"]);
    let page = String::from_utf8(page.stdout).expect("text");
    assert!(ids.iter().all(|id| page.contains(id)) && page.starts_with("color "), "{page}");
    let problems = memtint(&machine, 0, &["doctor", "--problems"]);
    assert!(!String::from_utf8_lossy(&problems.stdout).contains("\nok "), "{problems:?}");
}
