//! Does each field of a system file change what `memtint run`, `inspect` and `guard` do, or is it named as not considered?
//!
//! `cargo test -p memtint-cli --test live live::considered::`, as root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use memtint_system::{SystemFile, Verb, fields, left_out, used};
use serde_json::Value;

use super::guard;
use crate::common::{Launch, Machine, registry, scratch};
use crate::fields::{BASE, with};
use crate::shared::report_of;

/// What a verb makes of a file, without what differs from one run to the next.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    status: Option<i32>,
    /// Of the report.
    facts: Vec<Value>,
    /// What the program has printed, or why there is no report.
    text: String,
}

/// Fields that `run` and `inspect` use and that change nothing here: there is one version of the format, and one run at a time.
const UNSEEN: [&str; 2] = ["schema", "task.shared"];
/// Of `guard`, which checks colors on their platform and does nothing else with them.
const CHECKED: [&str; 3] = ["schema", "platform", "task.sets"];

/// The files of a test, on the platform of this machine.
struct Files {
    platform: PathBuf,
    /// Fields that the first task needs, each with its value.
    needs: Vec<(&'static str, String)>,
}

impl Files {
    /// The file with its platform, and with what the verb needs.
    fn live(&self, text: &str) -> String {
        // A table [banks] is not a task's.
        let is_table = |line: &str| line.starts_with("banks = {");
        let is_given = |key: &str| text.lines().any(|line| line.starts_with(&format!("{key} = ")) && !is_table(line));
        let own = self.needs.iter().filter(|(key, _)| !is_given(key));
        let own: String = own.map(|(key, value)| format!("{key} = {value}\n")).collect();
        // A task without colors has all of them.
        let text = text.replacen("name = \"b\"\n", "name = \"b\"\nbanks = \"8-11\"\n", 1);
        let text = text.replacen("wcet = ", &format!("{own}wcet = "), 1);
        if text.contains("platform = ") { text } else { format!("platform = {:?}\n{text}", self.platform) }
    }

    /// With the field, and without.
    fn pair(&self, field: &str) -> [String; 2] {
        let without = match field {
            "task.globals" => BASE.replacen("name = \"a\"\n", "name = \"a\"\ncopy = \"1 ms\"\n", 1),
            "task.copy_server" => BASE.replace("copy_server = \"S2\"\n", ""),
            _ => BASE.to_owned(),
        };
        [with(field), without].map(|text| self.live(&text))
    }
}

fn write(name: &str, text: &str) -> String {
    let file = scratch(name);
    std::fs::write(&file, text).expect("cargo made the directory");
    file.to_str().expect("paths here are text").to_owned()
}

fn facts(report: &Value, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| report[name].clone()).collect()
}

/// What is named as not considered, and the rest.
fn run(text: &str) -> (Vec<String>, Answer) {
    let (file, report) = (write("fields.toml", text), scratch("fields.json"));
    // A run that is refused writes none.
    let _ = std::fs::remove_file(&report);
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command
        .args(["run", "--system", &file, "--task", "a", "--report"])
        .arg(&report)
        .env("MEMTINT_REGISTRY", registry());
    let output = command.output().expect("it was built");
    let written = std::fs::read_to_string(&report).unwrap_or_default();
    let report: Value = serde_json::from_str(&written).unwrap_or_default();
    let named = report["not_considered"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names = ["command", "platform", "granule_bytes", "banks", "sets", "nodes", "mode", "not_enforced"];
    let said = if report.is_null() { output.stderr } else { output.stdout };
    let text = String::from_utf8(said).expect("text");
    (named.map(str::to_owned).collect(), Answer { status: output.status.code(), facts: facts(&report, &names), text })
}

fn inspect(text: &str, pid: u32) -> (Vec<String>, Answer) {
    let file = write("fields.toml", text);
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(["--format", "json", "inspect", "--system", &file, "--task", "a", &pid.to_string()]);
    let output = command.env("MEMTINT_REGISTRY", registry()).output().expect("it was built");
    let report = report_of(&output.stdout);
    let named = report["not_judged"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let named = named.map(|words| match words.strip_suffix(" of task a") {
        Some(own) if !own.contains('.') && fields().any(|field| field == format!("task.{own}")) => {
            format!("task.{own}")
        }
        Some(whole) => whole.to_owned(),
        None => words.to_owned(),
    });
    let text = if report.is_null() { String::from_utf8(output.stderr).expect("text") } else { String::new() };
    let facts = facts(&report, &["platform", "selection", "verdict"]);
    (named.collect(), Answer { status: output.status.code(), facts, text })
}

/// What is used changes the answer and is not named; what is left out is named, and it changes nothing; what is neither does neither.
fn each_field_is_used_or_named(
    verb: Verb,
    files: &Files,
    unseen: &[&str],
    ask: impl Fn(&str) -> (Vec<String>, Answer),
) {
    let (mut broken, mut bases) = (Vec::new(), BTreeMap::new());
    for field in fields().filter(|field| !unseen.contains(field)) {
        let [text, base] = files.pair(field);
        let file = SystemFile::parse(&text, field).unwrap_or_else(|error| panic!("{error}"));
        let (named, found) = ask(&text);
        let base = bases.entry(base).or_insert_with_key(|base| ask(base).1);
        let (is_named, is_same) = (named.iter().any(|own| own == field), found == *base);
        let wanted = match () {
            () if left_out(&file, verb).contains(&field) => (true, true),
            () if used(&file, verb).contains(&field) => (false, false),
            () => (false, true),
        };
        if (is_named, is_same) != wanted {
            broken.push(format!("{field}: named {is_named}, same {is_same}: {found:?} {named:?}; before {base:?}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn regulate(text: &str) -> (Vec<String>, Answer) {
    let file = write("fields.toml", text);
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(["--format", "json", "guard", "--event", "page-faults", "--event-bytes", "4096", "--dry-run"]);
    let output = command.args(["--system", &file]).output().expect("it was built");
    let report = report_of(&output.stdout);
    let named = report["not_considered"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let text = if report.is_null() { String::from_utf8(output.stderr).expect("text") } else { String::new() };
    let facts = facts(&report, &["groups", "period_ns", "writes"]);
    (named.map(str::to_owned).collect(), Answer { status: output.status.code(), facts, text })
}

#[test]
fn run_and_inspect_use_each_field_or_name_it() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let command = "[\"grep\", \"Cpus_allowed_list\", \"/proc/self/status\"]";
    let needs = vec![("command", command.to_owned()), ("banks", "\"4-7\"".to_owned())];
    let files = Files { platform: machine.platform_with_cache(), needs };
    each_field_is_used_or_named(Verb::Run, &files, &UNSEEN, run);
    let program = machine.compile("memory", &[]);
    let command = [program.to_str().expect("text"), "grows_when_told"];
    let file = write("inspected.toml", &files.live(BASE));
    let colors: [&Path; 4] = ["--system", &file, "--task", "a"].map(Path::new);
    let mut inspected = Launch::new(&machine, &command).colors(&colors).interactive().colored();
    inspected.ready();
    inspected.say("x");
    let pid = inspected.ready();
    each_field_is_used_or_named(Verb::Inspect, &files, &UNSEEN, |text| inspect(text, pid));
    inspected.say("x");
    inspected.end_with_survivors().assert_success();
}

#[test]
fn guard_uses_each_field_or_names_it() {
    let Some(taken) = Machine::take(&[]) else { return };
    let Some(machine) = guard::Machine::beside(&taken) else { return };
    let budget = "{ budget = \"400 KiB\", period = \"1 ms\" }".to_owned();
    let needs = vec![("cores", format!("{:?}", machine.cpu)), ("bandwidth", budget), ("banks", "\"4-7\"".to_owned())];
    let files = Files { platform: taken.platform_with_cache(), needs };
    each_field_is_used_or_named(Verb::Guard, &files, &CHECKED, regulate);
}
