//! Does `memtint probe` answer on this machine, whatever it is?

use std::process::{Command, Output, Stdio};

use memtint_testing::{alone, skip};
use serde_json::Value;

use crate::common::scratch;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command.output().expect("the binary was built for this test")
}

/// The report without the name of the oracle.
fn found(mut report: Value) -> Value {
    let removed = report.as_object_mut().and_then(|report| report.remove("oracle"));
    assert!(removed.is_some_and(|oracle| oracle["kind"].is_string()), "{report}");
    report
}

/// Whatever this machine is, the answer is honest.
#[test]
fn this_machine_gets_an_answer() {
    let _alone = alone();
    let [out, log] = ["probed.toml", "probed.log"].map(|name| scratch(name).to_str().expect("text").to_owned());
    // A run before this one may have left it.
    let _ = std::fs::remove_file(&out);
    let output = run(&["--format", "json", "probe", "--memory", "64M", "--out", &out, "--record", &log]);
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("hides physical addresses") || error.contains("lacks") {
        return skip("memory that can be timed");
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    crate::shared::check("probe", &report);
    let (status, written) = match report["answer"].as_str() {
        Some("mapping" | "partial") => (0, true),
        Some("no_bank_signal") => (1, false),
        other => panic!("{other:?}"),
    };
    assert_eq!((output.status.code(), std::fs::exists(&out).unwrap()), (Some(status), written), "{report}");
    assert_eq!(report["oracle"]["kind"], "machine");
    let cache = &report["llc"];
    assert!(["found", "partial", "no_signal"].contains(&cache["answer"].as_str().unwrap()), "{cache}");
    assert!(cache["answer"] == "found" || !cache["why"].as_str().unwrap().is_empty(), "{cache}");
    assert!(cache["levels"]["memory"].as_f64().unwrap() > 0.0 && cache["timed"].as_u64().unwrap() > 30, "{cache}");
    let nodes = &report["nodes"];
    assert!(["one", "ordered", "partly", "not_asked"].contains(&nodes["answer"].as_str().unwrap()), "{nodes}");
    assert!(report["effort"]["accesses"].as_u64().unwrap() > 100, "{report}");
    if written {
        assert!(run(&["palette", &out]).status.success());
    }
    let replayed = run(&["--format", "json", "probe", "--replay", &log]);
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(found(report), found(replayed));
}
