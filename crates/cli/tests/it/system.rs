//! Is one file taken by every verb, and is each field of it either used or named?
//!
//! `cargo test -p memtint-cli --test it system::`

use std::collections::BTreeMap;
use std::process::{Command, Output};

use memtint_system::{SystemFile, Verb, decisive, fields, left_out, used};
use serde_json::{Value, json};

use crate::fields::{BASE, with};
use crate::scratch::Scratch;

fn memtint(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memtint")).args(arguments).output().expect("cargo builds it")
}

fn json_of(arguments: &[&str]) -> Value {
    let output = memtint(&[&["--format", "json"], arguments].concat());
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"));
    if !arguments.contains(&"schema") {
        crate::shared::check_printed(arguments, &report);
    }
    report
}

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/control-and-streams.toml");

#[test]
fn the_example_has_one_verdict_by_analysis_and_in_simulation() {
    let analyzed = json_of(&["analyze", EXAMPLE, "--core", "0", "--ignore", "other-cores"]);
    assert_eq!((&analyzed["schedulable"], analyzed["tasks"].as_array().unwrap().len()), (&json!(true), 1));
    let left_out = json!(["platform", "task.banks", "tasks of other cores (stream-1, stream-2, stream-3)"]);
    assert_eq!(analyzed["not_considered"], left_out);
    let text = std::fs::read_to_string(EXAMPLE).unwrap();
    let short = text.replace("\"20 ms\"", "\"6 ms\"").replace("alone = true", "alone = false");
    let simulated = json_of(&["sim", &Scratch::new("example").file("short.toml", &short)]);
    let control = &simulated["tasks"][0];
    assert_eq!((&control["jobs"], &control["deadline_misses"]), (&json!(3), &json!(0)), "{control}");
    // Each is in its colors, as it is on a real machine (`live/examples.rs`).
    for task in simulated["tasks"].as_array().unwrap() {
        assert_eq!(task["frames_out_of_color"], json!(0), "{task}");
    }
    // One job takes longer than a third of a period allows.
    let late = short.replace("deadline = \"1.8 ms\"", "deadline = \"600 us\"");
    let scratch = Scratch::new("late");
    let late = scratch.file("late.toml", &late);
    let analyze = memtint(&["analyze", &late, "--core", "0", "--ignore", "other-cores"]);
    assert_eq!(analyze.status.code(), Some(1));
    assert_eq!(json_of(&["sim", &late])["tasks"][0]["deadline_misses"], json!(3));
}

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Deadlines missed in a simulation, of each task that has jobs.
fn misses(report: &Value, field: &str) -> Vec<u64> {
    let tasks = report["tasks"].as_array().unwrap().iter();
    tasks.filter(|task| task[field] != 0).map(|task| task["deadline_misses"].as_u64().unwrap()).collect()
}

#[test]
fn copy_tasks_have_one_verdict_on_three_roads() {
    let file = example("crs-machine");
    let analyzed = json_of(&["analyze", &file, "--scheduler", "crs"]);
    assert_eq!((&analyzed["schedulable"], &analyzed["not_considered"]), (&json!(true), &json!(["platform"])));
    let simulated = json_of(&["sim", &file]);
    assert_eq!(simulated["not_considered"], json!(["task.wcet", "task.lines"]));
    assert_eq!(misses(&simulated, "jobs"), [0; 6], "{simulated}");
    let refreshed = json_of(&["refresh", "simulate", &file, "--scheme", "crs"]);
    assert_eq!(misses(&refreshed, "name"), [0; 4], "{refreshed}");
    // With one instance each, the lock of their color makes jobs late.
    let text = std::fs::read_to_string(&file).unwrap().replace("copy_server = \"S2\"\n", "");
    let scratch = Scratch::new("one-instance");
    let alone = scratch.file("alone.toml", &text);
    assert_eq!(json_of(&["analyze", &alone, "--scheduler", "crs"])["schedulable"], json!(false));
    let late = misses(&json_of(&["sim", &alone]), "jobs");
    assert!(late[0] > 0 && late[1] > 0 && late[2..] == [0, 0], "{late:?}");
}

#[test]
fn each_example_has_its_verdict_and_is_a_machine_if_it_says_so() {
    let verdicts = [
        ("flight-control", &[][..], 0),
        ("regulated", &[], 0),
        ("colored-refresh", &["--scheduler", "colored-refresh"], 0),
        ("crs", &["--scheduler", "crs"], 0),
        ("crs-copies", &["--scheduler", "crs"], 0),
        ("five-programs", &["--scheduler", "crs"], 0),
        // It does not pass, and no job is late in the one timeline that is tried.
        ("crs-published", &["--scheduler", "crs"], 3),
    ];
    for (name, arguments, code) in verdicts {
        let output = memtint(&[&["analyze", &example(name)], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{name}: {output:?}");
    }
    let mut machines = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).unwrap() {
        let path = entry.unwrap().path();
        let file = SystemFile::load(&path).unwrap_or_else(|error| panic!("{error}"));
        if file.simulation.is_some() {
            let output = memtint(&["sim", path.to_str().unwrap(), "--print-config"]);
            assert!(output.status.success(), "{path:?}: {output:?}");
            machines += 1;
        }
    }
    assert_eq!(machines, 4);
}

#[test]
fn tasks_of_several_cores_are_analyzed_core_by_core() {
    let refused = |core: &[&str], words: &str| {
        let output = memtint(&[&["analyze", EXAMPLE], core].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(words), "{message}");
    };
    refused(&[], "--core is missing; accepted is one of the cores that have tasks: 0, 1, 2, 3");
    refused(&["--core", "4"], "--core is 4; accepted is a core that has tasks: 0, 1, 2, 3");
    refused(
        &["--core", "0"],
        "tasks of other cores (stream-1, stream-2, stream-3) delay control by their requests, and period of task \"stream-1\" is missing",
    );
    refused(
        &["--core", "1", "--ignore", "other-cores"],
        "task \"stream-1\": missing: period (a time such as \"20 ms\"), wcet",
    );
}

#[test]
fn check_and_schema_describe_the_format() {
    let checked = json_of(&["system", "check", EXAMPLE]);
    let run = checked["verbs"].as_array().unwrap().iter().find(|verb| verb["verb"] == "run").unwrap();
    assert_eq!(run["not_considered"], json!(["task.period", "task.wcet", "task.deadline"]));
    let schema = json_of(&["system", "schema"]);
    let minimum = &schema["$defs"]["TaskEntry"]["properties"]["lines"]["minimum"];
    assert_eq!((&schema["additionalProperties"], minimum), (&json!(false), &json!(1)));
}

/// What a command answers.
#[derive(PartialEq)]
struct Answer {
    status: Option<i32>,
    /// Without the list of what it does not consider.
    report: Value,
    /// Why there is none; progress, which depends on the machine, is left out.
    refusal: String,
    not_considered: Vec<String>,
}

impl Answer {
    fn is_as(&self, other: &Answer) -> bool {
        (self.status, &self.report, &self.refusal) == (other.status, &other.report, &other.refusal)
    }
}

fn answers(scratch: &Scratch, text: &str, commands: &[&str]) -> Vec<Answer> {
    let file = scratch.file("tasks.toml", text);
    let answer = |command: &&str| {
        let words: Vec<&str> = command.split(' ').map(|word| if word == "FILE" { &file } else { word }).collect();
        let output = memtint(&[&["--format", "json"], &words[..]].concat());
        let mut report = crate::shared::report_of(&output.stdout);
        if !report.is_null() {
            crate::shared::check_printed(&words, &report);
        }
        let listed = report.as_object_mut().and_then(|report| {
            // A planned file has all fields of its file.
            report.remove("plan");
            report.remove("not_considered")
        });
        let named = listed.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        let refusal =
            if report.is_null() { String::from_utf8_lossy(&output.stderr).into_owned() } else { String::new() };
        let not_considered = named.map(str::to_owned).collect();
        Answer { status: output.status.code(), report, refusal, not_considered }
    };
    commands.iter().map(answer).collect()
}

/// Fields that the verbs use to refuse a file, by the values here.
const REFUSED: [&str; 7] =
    ["platform", "granule", "task.cores", "task.node", "task.ranks", "task.shared", "task.copy_of"];

/// The promise of every report: what is not used is named, what is neither changes nothing. `variant` gives a file with the field,
/// and one that differs from it in this field alone.
fn each_field_is_used_or_named(verb: Verb, commands: &[&str], variant: impl Fn(&str) -> (String, String)) {
    let scratch = Scratch::new("fields");
    let (mut broken, mut bases) = (Vec::new(), BTreeMap::new());
    for field in fields() {
        let (text, base) = variant(field);
        let file = SystemFile::parse(&text, field).unwrap_or_else(|error| panic!("{error}"));
        let found = answers(&scratch, &text, commands);
        // Most fields have the same base.
        let base = &*bases.entry(base).or_insert_with_key(|base| answers(&scratch, base, commands));
        let is_in = |fields: Vec<&str>| fields.contains(&field);
        let pairs = || found.iter().zip(base);
        let is_named = |answer: &Answer| answer.not_considered.iter().any(|named| named == field);
        let is_same = pairs().all(|(found, base)| found.is_as(base));
        let kept = if is_in(decisive(&file, verb)) {
            let words = format!("does not consider {field}");
            found.iter().all(|answer| answer.status == Some(2) && answer.refusal.contains(&words))
        } else if is_in(left_out(&file, verb)) {
            is_same && found.iter().all(is_named)
        } else if is_in(used(&file, verb)) {
            let changes = |(found, base): (&Answer, &Answer)| {
                !found.is_as(base) && !is_named(found) && (!found.report.is_null() || REFUSED.contains(&field))
            };
            // The only version changes no answer.
            field == "schema"
                || (pairs().any(changes) && pairs().all(|(found, base)| found.is_as(base) || !is_named(found)))
        } else {
            is_same && !found.iter().any(is_named)
        };
        if !kept {
            let told = |answer: &Answer| format!("{:?} {:?} {}", answer.status, answer.not_considered, answer.refusal);
            let told: Vec<String> = found.iter().map(told).collect();
            broken.push(format!("{field}, as before {is_same}: {told:?}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// With the field, and without.
fn beside_base(field: &str) -> (String, String) {
    let without = match field {
        "task.globals" => BASE.replacen("name = \"a\"\n", "name = \"a\"\ncopy = \"1 ms\"\n", 1),
        "task.copy_server" => BASE.replace("copy_server = \"S2\"\n", ""),
        _ => BASE.to_owned(),
    };
    (with(field), without)
}

/// As `beside_base`, where lines are for a regulator to count.
fn regulated(field: &str) -> (String, String) {
    let regulated = |text: String| text + "\n[regulator]\nperiod = \"1 ms\"\nlines = 800\n";
    let (text, base) = beside_base(field);
    if field == "task.lines" { (regulated(text), regulated(base)) } else { (text, base) }
}

#[test]
fn analyze_uses_each_field_or_names_it() {
    let commands = ["rm", "fp", "cyclic", "colored-refresh", "crs"]
        .map(|scheduler| format!("analyze FILE --scheduler {scheduler} --jobs 100"));
    each_field_is_used_or_named(Verb::Analyze, &commands.each_ref().map(String::as_str), regulated);
}

#[test]
fn refresh_plan_uses_each_field_or_names_it() {
    let commands = ["refresh plan FILE --scheme colored-refresh", "refresh plan FILE --scheme crs"];
    each_field_is_used_or_named(Verb::RefreshPlan, &commands, beside_base);
}

#[test]
fn refresh_simulate_uses_each_field_or_names_it() {
    let schemes = ["auto --scheduler rm", "auto --scheduler fp", "burst", "colored-refresh", "crs"];
    let commands = schemes.map(|scheme| format!("refresh simulate FILE --scheme {scheme}"));
    each_field_is_used_or_named(Verb::RefreshSimulate, &commands.each_ref().map(String::as_str), beside_base);
}

/// What an analysis leaves out must not make a no a yes.
#[test]
fn an_analysis_that_leaves_out_a_delay_is_refused() {
    let scratch = Scratch::new("decisive");
    let task = "[[task]]\nname = \"a\"\nperiod = \"10 ms\"\nwcet = \"1 ms\"\nlines = 1000\n";
    let budget = "bandwidth = { budget = \"64000 B\", period = \"1 ms\" }\n";
    let regulator = |lines: u32, rest: &str| format!("[regulator]\nperiod = \"1 ms\"\nlines = {lines}\n{rest}");
    let ending = |text: String, verb: &[&str]| {
        let output = memtint(&[verb, &[&scratch.file("tasks.toml", &text)]].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let within = ending(format!("{task}{budget}{}", regulator(1000, "")), &["analyze"]);
    assert!(within.0 == Some(0) && within.1.starts_with("not considered: task.bandwidth\n"), "{within:?}");
    for more in [regulator(1001, ""), regulator(1000, "kind = \"soft\"\n"), String::new()] {
        let (code, _, message) = ending(format!("{task}{budget}{more}"), &["analyze"]);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains("no more lines (of 64 bytes) than task.bandwidth"), "{message}");
    }
    // Priorities that the policy does not use are named, and fields of other cores' tasks that bound no requests refused.
    let (_, text, _) = ending(format!("{task}priority = 1\n"), &["analyze"]);
    assert!(text.starts_with("not considered: task.priority\n"), "{text}");
    let banks = "[banks]\nrequest_delay = \"40 ns\"\nprivate_banks = true\nrequests_at_once_max = 1\n[[banks.core]]\n\
        [[banks.core.task]]\nname = \"b\"\nperiod = \"10 ms\"\nwcet = \"1 ms\"\nlines = 10\n";
    assert_eq!(ending(format!("{task}{banks}"), &["analyze"]).0, Some(0));
    for more in [budget, "server = \"S\"\n", "command = [\"true\"]\n"] {
        let (code, _, message) = ending(format!("{task}{banks}{more}"), &["analyze"]);
        assert!(code == Some(2) && message.contains("of a task of another core"), "{message}");
    }
    // Which ranks a task has is the analysis's choice, so a file that has chosen gets no answer.
    let (code, _, message) = ending(
        BASE.replacen("name = \"a\"\n", "name = \"a\"\nranks = \"2-3\"\n", 1),
        &["analyze", "--scheduler", "crs"],
    );
    assert!(code == Some(2) && message.contains("task \"a\": ranks is \"2-3\"; accepted is the number"), "{message}");
    // A core that a table has is considered.
    let two = format!("{task}cores = \"0\"\n{}cores = \"1\"\n", task.replace("\"a\"", "\"b\""));
    let one = ["analyze", "--core", "0"];
    assert_eq!(ending(two.clone(), &one).0, Some(2));
    assert_eq!(ending(format!("{two}{banks}"), &one).0, Some(0));
    // A table without cores takes them from the tasks: the answer is that of a table with the same tasks in it.
    let table = banks.split("[[banks.core]]").next().unwrap();
    let placed =
        |name: &str, banks: &str| [format!("name = {name:?}\n"), format!("name = {name:?}\nbanks = {banks:?}\n")];
    let at = |text: &str, [from, to]: [String; 2]| text.replacen(&from, &to, 1);
    let apart = at(&at(&two, placed("a", "0-3")), placed("b", "4-7"));
    let taken = ending(format!("{apart}{table}"), &one);
    let listed = ending(format!("{task}{}", banks.replace("lines = 10\n", "lines = 1000\n")), &["analyze"]);
    let named = "assumes: requests of other cores are those of their tasks (b)\n";
    assert!(taken.0 == Some(0) && taken.1.contains(named), "{taken:?}");
    let rows =
        |text: &str| text.lines().skip_while(|line| !line.starts_with("task ")).take(2).collect::<Vec<_>>().join("\n");
    assert_eq!(rows(&taken.1), rows(&listed.1), "{taken:?}");
    for (text, words) in [
        (two.clone(), "private_banks is true, and tasks \"a\" and \"b\" may have banks in common"),
        (at(&at(&two, placed("a", "0-3")), placed("b", "3-7")), "may have banks in common"),
        (apart.replacen("lines = 1000\ncores = \"1\"", "cores = \"1\"", 1), "lines of task \"b\" is missing"),
    ] {
        let (code, _, message) = ending(format!("{text}{table}"), &one);
        assert!(code == Some(2) && message.contains(words), "{message}");
    }
    // A simulation does not drop what belongs to jobs, nor one of two periods of a budget.
    let example = std::fs::read_to_string(EXAMPLE).unwrap();
    let (code, _, message) = ending(example.replace("period = \"2 ms\"\n", ""), &["sim", "--print-config"]);
    assert!(
        code == Some(2) && message.contains("task \"control\": period is missing; accepted is a time"),
        "{message}"
    );
    let text = example.replacen("cores = \"1\"", &format!("{budget}cores = \"1\""), 1)
        + "\n[simulation.bandwidth]\nperiod = \"2 ms\"\n";
    let (code, _, message) = ending(text, &["sim", "--print-config"]);
    assert!(code == Some(2) && message.contains("bandwidth.period is 1 ms; accepted is 2 ms"), "{message}");
}

/// Times that no memory has once ended in an overflow and in a division by zero.
#[test]
fn extreme_times_of_a_memory_are_refused() {
    let scratch = Scratch::new("extreme");
    let task = "[[task]]\nname = \"a\"\nperiod = \"10 ms\"\nwcet = \"1 ms\"\n";
    let long = "[memory]\nranks = 64\nt_rfc = \"1 ms\"\nlock = \"18446744 s\"\nunlock = \"18446744 s\"\n";
    let short = "server = \"S1\"\ncopy_server = \"S2\"\n[memory]\nranks = 2\nt_rfc = \"0 ns\"\nretention = \"100 ps\"\n\
        [[color]]\nname = \"c1\"\nranks = \"0\"\nphase = \"50 ps\"\n[[color]]\nname = \"c2\"\nranks = \"1\"\n\
        [[server]]\nname = \"S1\"\ncolor = \"c1\"\nperiod = \"10 ps\"\nbudget = \"5 ps\"\n\
        [[server]]\nname = \"S2\"\ncolor = \"c2\"\nperiod = \"10 ps\"\nbudget = \"5 ps\"\n";
    let (analyze, plan) = (["analyze", "--scheduler"].as_slice(), ["refresh", "plan", "--scheme"].as_slice());
    // Between the locks of the second there is no time to copy: the search ends without a plan.
    let statuses = [(long, analyze, 2), (long, plan, 2), (short, analyze, 2), (short, plan, 3)];
    for (memory, verb, status) in statuses {
        let file = scratch.file("tasks.toml", &format!("{task}{memory}"));
        let output = memtint(&[verb, &["crs", &file]].concat());
        assert_eq!(output.status.code(), Some(status), "{output:?}");
    }
}

/// A machine with a task that has jobs and two that have none.
const MACHINE: &str = "platform = \"skl-e3-1220v5-4x4g\"\n\n\
    [[task]]\nname = \"a\"\nperiod = \"200 us\"\nreferences = 300\ncores = \"0\"\nbanks = \"0-3\"\n\
    workload = { kind = \"latency\", size = \"1 MiB\" }\n\n\
    [[task]]\nname = \"b\"\ncores = \"1\"\nbanks = \"4-7\"\nworkload = { kind = \"bandwidth\", size = \"4 MiB\" }\n\n\
    [[task]]\nname = \"c\"\ncores = \"2\"\nbanks = \"8-11\"\nworkload = { kind = \"bandwidth\", size = \"4 MiB\" }\n\n\
    [simulation]\ndevice = \"ddr4-2400\"\nduration = \"600 us\"\ncores = { count = 4, mhz = 3000 }\n\
    system = { allocator = \"tinted\", fault = \"0 ns\" }\n\n\
    [simulation.caches]\nl1 = { size = \"32 KiB\", ways = 8 }\nl2 = { size = \"256 KiB\", ways = 4 }\n\
    latency_cycles = [4, 12, 42, 60, 120]\n";

/// A file for `sim` with a field, and one that differs from it in this field alone.
fn simulated(field: &str) -> (String, String) {
    let replaced = |base: &str, from: &str, to: &str| {
        assert!(base.contains(from), "{field}: {from}");
        (base.replace(from, to), base.to_owned())
    };
    let changed = |from: &str, to: &str| replaced(MACHINE, from, to);
    let task = |line: &str| changed("name = \"a\"\n", &format!("name = \"a\"\n{line}\n"));
    let top = |line: &str| (format!("{line}\n{MACHINE}"), MACHINE.to_owned());
    let below = |text: &str| (format!("{MACHINE}\n{text}\n"), MACHINE.to_owned());
    let servers = std::fs::read_to_string(example("crs-machine")).unwrap().replace("\"130 ms\"", "\"70 ms\"");
    let in_server = |from: &str, to: &str| replaced(&servers, from, to);
    match field {
        "platform" => changed("skl-e3-1220v5-4x4g", "cfl-1ch1r"),
        "granule" => top("granule = \"64K\""),
        "group" => below("[[group]]\nname = \"g\"\ntasks = [\"b\"]\nmb_per_s = 100"),
        "simulation" => changed("[simulation]\n", "[simulation]\nseed = 2\n"),
        "refresh" | "regulator" | "banks" | "shared_banks" | "parallel_banks" | "cyclic" => {
            (with(field).replace(BASE, MACHINE), MACHINE.to_owned())
        }
        "memory" => in_server("density = 8", "density = 4"),
        "color" => in_server("phase = \"32 ms\"", "phase = \"16 ms\""),
        "server" => in_server("budget = \"200 us\"", "budget = \"300 us\""),
        "task.name" => changed("name = \"a\"", "name = \"x\""),
        "task.program" => changed("workload = { kind = \"latency\", size = \"1 MiB\" }", "program = \"refresh/lms\""),
        "task.workload" => changed("kind = \"latency\"", "kind = \"bandwidth\""),
        "task.references" => changed("references = 300", "references = 200"),
        "task.barrier" => changed(
            "kind = \"bandwidth\", size = \"4 MiB\" }\n",
            "kind = \"bandwidth\", size = \"4 MiB\" }\nbarrier = { group = 1, every = 100 }\n",
        ),
        "task.late" => {
            let (text, base) = (MACHINE.replace("references = 300", "references = 3000"), "period = \"200 us\"\n");
            replaced(&text, base, &format!("{base}late = \"give-up\"\n"))
        }
        "task.period" => changed("period = \"200 us\"", "period = \"250 us\""),
        "task.wcet" => task("wcet = \"100 us\""),
        "task.deadline" => task("deadline = \"20 us\""),
        "task.priority" => {
            let text = MACHINE.replace("cores = \"0\"\n", "cores = \"0\"\npriority = 2\n");
            let text =
                text.replace("cores = \"1\"\n", "cores = \"0\"\npriority = 1\nperiod = \"200 us\"\nreferences = 400\n");
            let text =
                text.replace("cores = \"2\"\n", "cores = \"0\"\npriority = 3\nperiod = \"200 us\"\nreferences = 400\n");
            let text = text.replace("fault =", "scheduling = \"fixed-priority\", fault =");
            replaced(&text, "priority = 2", "priority = 4")
        }
        "task.cores" => changed("cores = \"1\"", "cores = \"3\""),
        "task.banks" => changed("banks = \"0-3\"", "banks = \"0\""),
        "task.sets" => {
            let sets = [("0-3", "0-15"), ("4-7", "16-31"), ("8-11", "32-47")];
            let base = sets.iter().fold(MACHINE.to_owned(), |text, (banks, sets)| {
                text.replace(&format!("banks = \"{banks}\""), &format!("banks = \"{banks}\"\nsets = \"{sets}\""))
            });
            replaced(&base, "sets = \"0-15\"", "sets = \"0-7\"")
        }
        "task.ways" => task("ways = \"0\""),
        "task.node" => task("node = \"1\""),
        "task.huge_pages" => {
            let plain = ["0-3", "4-7", "8-11"].iter().fold(MACHINE.replace("tinted", "buddy"), |text, banks| {
                text.replace(&format!("banks = \"{banks}\"\n"), "")
            });
            replaced(&plain, "name = \"a\"\n", "name = \"a\"\nhuge_pages = true\n")
        }
        "task.mode" => {
            // A task alone, with more memory than its colors have.
            let (first, rest) = MACHINE.split_once("[[task]]\nname = \"b\"").unwrap();
            let alone = first.to_owned() + &rest[rest.find("[simulation]").unwrap()..];
            let small = alone.replace("banks = \"0-3\"\n", "banks = \"0\"\nsets = \"0\"\n").replace("1 MiB", "16 MiB");
            replaced(
                &small.replace("references = 300", "references = 3000"),
                "name = \"a\"\n",
                "name = \"a\"\nmode = \"soft\"\n",
            )
        }
        "task.shared" => {
            let both = MACHINE.replace("4-7", "0-3").replace("name = \"b\"\n", "name = \"b\"\nshared = true\n");
            replaced(&both, "name = \"a\"\n", "name = \"a\"\nshared = true\n")
        }
        "task.ranks" => in_server("name = \"gyro\"\n", "name = \"gyro\"\nranks = \"3\"\n"),
        "task.copy" => in_server("copy = \"20 us\"", "copy = \"40 us\""),
        "task.globals" => in_server("copy = \"20 us\"", "copy = \"20 us\"\nglobals = \"256 B\""),
        "task.server" => in_server(
            "server = \"S1\"\n\n[[task]]\nname = \"camera\"",
            "server = \"S2\"\n\n[[task]]\nname = \"camera\"",
        ),
        "task.copy_server" => {
            in_server("server = \"S2\"\n\n[memory]", "server = \"S2\"\ncopy_server = \"S1\"\n\n[memory]")
        }
        "task.copy_of" => changed("name = \"b\"\n", "name = \"b\"\ncopy_of = \"a\"\n"),
        "task.jitter" => task("jitter = \"20 us\""),
        other => {
            let line = with(other);
            let added = line.lines().find(|line| !BASE.contains(line)).unwrap_or_else(|| panic!("{other} has no line"));
            if other.starts_with("task.") { task(added) } else { top(added) }
        }
    }
}

#[test]
fn sim_uses_each_field_or_names_it() {
    each_field_is_used_or_named(Verb::Sim, &["sim FILE"], simulated);
}
