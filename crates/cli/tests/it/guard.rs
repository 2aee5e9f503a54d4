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
        "perf_event_open: page-faults, pinned, on CPU 0",
        "SCHED_FIFO thread of priority 98 on CPU 0",
    ] {
        assert!(text.contains(words), "{words:?}: {text}");
    }
}

#[test]
fn every_sensor_of_this_machine_is_listed_with_its_source() {
    let text = String::from_utf8(run(&["--list-events"]).stdout).expect("text");
    for sensor in ["page-faults: ", "context-switches: ", "dtlb-misses: "] {
        assert!(text.contains(sensor), "{text}");
    }
    assert_eq!(text.matches("  source: ").count(), text.matches("  not counted: ").count());
}
