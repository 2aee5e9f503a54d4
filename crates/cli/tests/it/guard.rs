//! What `memtint guard` takes, as far as that needs no privileges.

use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.arg("guard").args(arguments).stdin(Stdio::null());
    command.output().expect("the binary was built for this test")
}

#[test]
fn budgets_that_are_none_are_refused_with_what_is_accepted() {
    for (arguments, words) in [
        (&[][..], &["no budgets", "--group", "--core"][..]),
        (&["--core", "0"], &["--core has \"0\"", "CPU=BUDGET"]),
        (&["--core", "x=10ev"], &["--core has \"x\"", "a list of CPUs"]),
        (&["--core", "0=ten"], &["--core has \"ten\"", "100ev", "500MB/s"]),
        (&["--core", "0=7ev 200"], &["--core has \"7ev 200\""]),
        (&["--core", "0=7ev\n0"], &["--core has \"7ev\\n0\""]),
        (&["--core", "0=0ev"], &["--core has \"0ev\"", "1 to 2147483647"]),
        (&["--core", "0=10ev:firm"], &["--core has \"firm\"", "soft, or hard"]),
        (&["--core", "0=10MB/s"], &["10MB/s", "no transfer", "--event-bytes"]),
        (&["--core", "0=10ev", "--guaranteed", "much"], &["--guaranteed has \"much\""]),
        (&["--core", "0=10ev", "--period", "2 s"], &["period is 2s", "100 us to 1 s"]),
        (&["--core", "0=10ev", "--guaranteed", "12ev"], &["add up to 13", "guaranteed 12"]),
        (&["--core", "0=10ev", "rmin"], &["cannot be used with"]),
    ] {
        let output = run(&[&["--event", "page-faults"], arguments].concat());
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{arguments:?}: {error}");
    }
    let error = String::from_utf8(run(&["--event", "no-event", "--core", "0=1ev"]).stderr).expect("text");
    assert!(error.contains("\"no-event\"") && error.contains("page-faults"), "{error}");
}

/// A system file with these tasks, in a folder of the test's own.
fn plan(name: &str, tasks: &[&str]) -> std::path::PathBuf {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let entries = tasks.iter().enumerate();
    let entries: Vec<String> =
        entries.map(|(index, rest)| format!("[[task]]\nname = \"t{index}\"\nbanks = \"{index}\"\n{rest}\n")).collect();
    let text = format!("schema = 1\nplatform = \"nehalem-w3530\"\n{}", entries.concat());
    std::fs::write(&file, text).expect("cargo made the directory");
    file
}

#[test]
fn plans_that_cannot_be_kept_are_refused_with_what_is_accepted() {
    const BUDGET: &str = "bandwidth = { budget = \"1 MiB\", period = \"1 ms\" }";
    let slow = "bandwidth = { budget = \"1 MiB\", period = \"2 ms\" }";
    let small = "bandwidth = { budget = 63, period = \"1 ms\" }";
    let odd = "bandwidth = { budget = 64, period = \"1 ms\", kind = \"firm\" }";
    let bytes: &[&str] = &["--event-bytes", "64"];
    for (name, tasks, options, words) in [
        ("none.toml", &[""][..], bytes, &["bandwidth is given for no task", "at least one task"][..]),
        ("two.toml", &[BUDGET, slow], bytes, &["task \"t1\": bandwidth.period is 2 ms", "accepted is 1 ms"]),
        ("events.toml", &[BUDGET], &[], &["task \"t0\"", "page-faults is no transfer", "--event-bytes"]),
        ("small.toml", &[small], bytes, &["task \"t0\": bandwidth.budget is 63 B", "accepted is 64 to"]),
        ("odd.toml", &[odd], bytes, &["firm", "hard", "soft"]),
        (
            "period.toml",
            &[BUDGET],
            &["--event-bytes", "64", "--period", "2 ms"],
            &["--period has \"2 ms\"", "as of the system file"],
        ),
    ] {
        let file = plan(name, tasks);
        let path = file.to_str().expect("text");
        let output = run(&[&["--event", "page-faults", "--system", path], options].concat());
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{name}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{name}: {error}");
        assert!(error.contains(name) || name == "period.toml", "{name}: {error}");
    }
}

/// The unit for systemd with this program and this plan in it.
fn unit(plan: &std::path::Path) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd/memtint-guard.service");
    let text = std::fs::read_to_string(file).expect("it is part of the project");
    text.replace("/usr/local/bin/memtint", env!("CARGO_BIN_EXE_memtint"))
        .replace("/etc/memtint/system.toml", plan.to_str().expect("text"))
}

#[test]
fn the_unit_for_systemd_says_what_systemd_and_memtint_understand() {
    let plan = plan("unit.toml", &["bandwidth = { budget = \"1 MiB\", period = \"1 ms\" }"]);
    let unit = unit(&plan);
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let script = format!("{line} --event page-faults --event-bytes 64 --dry-run");
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || error.contains("cgroup v2 is not mounted"), "{error}");
    let file = plan.with_file_name("memtint-guard.service");
    std::fs::write(&file, unit).expect("cargo made the directory");
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => memtint_testing::skip("systemd-analyze"),
        output => {
            let output = output.expect("it can be started");
            let said = String::from_utf8_lossy(&output.stderr);
            // Other units of the machine are none of ours.
            let faults: Vec<&str> = said.lines().filter(|line| line.contains("memtint-guard")).collect();
            assert!(output.status.success() && faults.is_empty(), "{said}");
        }
    }
}

#[test]
fn a_dry_run_shows_every_write_and_what_is_not_considered() {
    let budget =
        ["--event", "page-faults", "--event-bytes", "64", "--core", "0=600kB/s", "--peak", "1MB/s", "--dry-run"];
    let text = String::from_utf8(run(&budget).stdout).expect("text");
    for words in [
        "not counted: ",
        "not considered: whether the memory can serve these budgets",
        // 600,000 bytes a second are 9.375 lines a millisecond.
        "CPU 0 on CPUs [0]: 9 events per period (0.6 MB/s), hard, at most 12; stopped by occupying its CPUs",
        "/run/memtint/guard.lock",
        "/run/memtint/guard.status",
        "perf_event_open: page-faults, pinned, on CPU 0",
        "SCHED_FIFO thread of priority 98 on CPU 0",
    ] {
        assert!(text.contains(words), "{words:?}: {text}");
    }
    let json = run(&[&["--format", "json"][..], &budget].concat()).stdout;
    crate::shared::check("guard-dry-run", &serde_json::from_slice(&json).expect("JSON"));
}

#[test]
fn every_sensor_of_this_machine_is_listed_with_its_source() {
    let text = String::from_utf8(run(&["--list-events"]).stdout).expect("text");
    for sensor in ["page-faults: ", "context-switches: ", "dtlb-misses: "] {
        assert!(text.contains(sensor), "{text}");
    }
    assert_eq!(text.matches("  source: ").count(), text.matches("  not counted: ").count());
    let json = run(&["--list-events", "--format", "json"]).stdout;
    crate::shared::check("guard-list-events", &serde_json::from_slice(&json).expect("JSON"));
}
