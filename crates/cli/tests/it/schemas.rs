//! Every form of JSON that verbs print has a schema, and is as it says.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::shared::{check, form_of, forms};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// Forms of what depends on the machine, or takes time: the tests of these verbs hold it against its schema. Only `bench-guard-live`
/// has no test that runs it, because that takes more than a minute; `memtint-benchmarks` makes its schema.
const ELSEWHERE: [&str; 26] = [
    "bench-frames",
    "bench-guard",
    "bench-guard-live",
    "bench-probe",
    "bench-probe-ablation",
    "bench-run",
    "bench-sched",
    "bench-sim",
    "doctor",
    "error",
    "guard",
    "guard-dry-run",
    "guard-list-events",
    "guard-predict",
    "guard-status",
    "inspect",
    "inspect-others",
    "inspect-system",
    "platform-detect",
    "platform-detect-functions-of",
    "probe-bpm",
    "probe-palloc",
    "probe-self-test",
    "progress",
    "run",
    "run-dry-run",
];

#[test]
fn golden_json_is_as_its_schema_says() {
    let cases = std::fs::read_to_string(format!("{GOLDEN}/cases")).expect("it is there");
    let mut seen = BTreeSet::new();
    for line in cases.lines().filter(|line| line.contains("--format json")) {
        let words = shlex::split(line).unwrap_or_else(|| panic!("{line}: quotes"));
        let form = form_of(&words[2..]);
        let text = std::fs::read_to_string(format!("{GOLDEN}/{}.out", words[0])).expect("a case has an output");
        check(&form, &serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}")));
        seen.insert(form);
    }
    let forms = forms();
    let unseen: Vec<&String> = forms.difference(&seen).collect();
    assert_eq!(unseen, ELSEWHERE, "each form has a golden case, or another test that is named here");
}

#[test]
fn a_property_that_no_schema_names_is_refused() {
    let mut document = serde_json::json!({"schema": 1, "report": "map", "functions": [[6, 13]]});
    check("platform-export", &document);
    document["more"] = Value::from(1);
    assert!(std::panic::catch_unwind(|| check("platform-export", &document)).is_err());
}
