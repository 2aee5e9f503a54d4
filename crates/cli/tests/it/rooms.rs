//! Do the crates depend on each other as the table of docs/architecture.md says?
//!
//! `cargo test -p memtint-cli --test it rooms::`

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What every crate may use.
const EVERYWHERE: [&str; 3] = ["embed", "input", "units"];

type Names = BTreeSet<String>;

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Each crate of the table, in its order, with what it may use.
fn table() -> Vec<(String, Names)> {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/architecture.md")).expect("it is there");
    let mut rows: Vec<(String, Names)> = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `crates/")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let [folder, _, uses] = cells[..] else { panic!("a row has three cells: {line}") };
        let name = quoted(folder).next().and_then(|folder| folder.strip_prefix("crates/")).expect("it begins so");
        let before: BTreeMap<String, Names> = rows.iter().cloned().collect();
        let listed: Names = quoted(uses).map(str::to_owned).collect();
        let above = |names: &Names| {
            names.iter().flat_map(|own| before.get(own).cloned().unwrap_or_default()).collect::<Names>()
        };
        let mut allowed = match uses.trim() {
            "all above" => before.keys().cloned().collect(),
            uses if uses.ends_with("and what these may use") => &listed | &above(&listed),
            _ => listed,
        };
        assert!(allowed.iter().all(|own| before.contains_key(own)), "{name} may use what is not above it: {allowed:?}");
        allowed.extend(EVERYWHERE.map(str::to_owned));
        rows.push((name.to_owned(), allowed));
    }
    rows
}

/// Each crate of the workspace with the others that its program or its build uses; those of tests alone do not count.
fn crates() -> BTreeMap<String, Names> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(ROOT)
        .output()
        .expect("cargo runs this test");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let own = |value: &Value| value["name"].as_str().and_then(|name| name.strip_prefix("memtint-")).map(str::to_owned);
    let packages = metadata["packages"].as_array().expect("a list").iter();
    let uses = |package: &Value| -> Names {
        let all = package["dependencies"].as_array().expect("a list").iter();
        all.filter(|dependency| dependency["kind"] != "dev").filter_map(own).collect()
    };
    packages.filter_map(|package| Some((own(package)?, uses(package)))).collect()
}

#[test]
fn crates_use_what_the_table_of_rooms_allows() {
    let (table, crates) = (table(), crates());
    let listed: Names = table.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(listed, crates.keys().cloned().collect::<Names>(), "each crate has a row");
    for (name, allowed) in table {
        let beyond: Vec<&String> = crates[&name].difference(&allowed).collect();
        assert!(beyond.is_empty(), "{name} uses {beyond:?}; the table of docs/architecture.md allows {allowed:?}");
    }
}

/// The analysis and the simulation are each other's witness; the observer does not believe the runtime.
#[test]
fn witnesses_share_no_code() {
    let crates = crates();
    let reached = |name: &str| {
        let (mut reached, mut open) = (Names::new(), vec![name.to_owned()]);
        while let Some(next) = open.pop() {
            open.extend(crates[&next].iter().filter(|own| reached.insert((*own).clone())).cloned());
        }
        reached
    };
    for (one, other) in [
        ("sched", "sim"),
        ("hiding", "sim"),
        ("analysis", "sim"),
        ("sim", "sched"),
        ("sim", "hiding"),
        ("inspect", "live"),
        ("live", "inspect"),
    ] {
        assert!(!reached(one).contains(other), "{one} reaches {other}");
    }
}
