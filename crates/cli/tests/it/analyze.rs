//! Does `memtint analyze` answer yes, no and unsupported as it should, and refuse what is wrong by its name?

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::scratch::Scratch;

impl Scratch {
    /// What `memtint analyze` makes of a file with this text.
    fn analyze(&self, text: &str, arguments: &[&str]) -> Output {
        let path = self.file("tasks.toml", text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
        command.args(["analyze", &path]).args(arguments).stdin(Stdio::null());
        command.output().expect("the binary was built for this test")
    }

    fn json(&self, text: &str, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.analyze(text, &[&["--format", "json", "--witness"], arguments].concat());
        let value = serde_json::from_slice(&output.stdout);
        let value = value.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"));
        crate::shared::check("analyze", &value);
        (output.status.code(), value)
    }
}

fn task(name: &str, rest: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\n{rest}\n")
}

/// Burns and Wellings' (7, 3), (12, 3), (20, 5): response times 3, 6 and 20.
fn burns_wellings() -> String {
    let tasks = [("a", 7, 3, 1), ("b", 12, 3, 2), ("c", 20, 5, 3)];
    let one = |(name, period, wcet, priority)| {
        task(name, &format!("period = \"{period} ms\"\nwcet = \"{wcet} ms\"\npriority = {priority}"))
    };
    tasks.map(one).concat()
}

#[test]
fn a_yes_has_response_times_and_a_witness() {
    let scratch = Scratch::new("yes");
    for scheduler in ["rm", "dm", "fp"] {
        let (code, found) = scratch.json(&burns_wellings(), &["--scheduler", scheduler]);
        assert_eq!((code, &found["schedulable"], &found["schema"]), (Some(0), &json!(true), &json!(1)));
        let responses: Vec<&Value> = (0..3).map(|task| &found["tasks"][task]["wcrt_ns"]).collect();
        assert_eq!(responses, [3_000_000, 6_000_000, 20_000_000]);
        assert_eq!(found["tasks"][2]["slack_ns"], 0);
        // c may not grow at all, a and b not either: c is full to its deadline.
        assert_eq!(found["wcet_factor_max_of_all"], "1");
        let witness = &found["witness"];
        assert_eq!((&witness["window_ps"], &witness["coverage"]), (&json!(420_000_000_000u64), &json!("hyperperiod")));
        assert_eq!(witness["accepted_jobs"], 420 / 7 + 420 / 12 + 420 / 20);
        let busy: u64 = witness["lanes"][0]["runs"]
            .as_array()
            .expect("runs are a list")
            .iter()
            .map(|run| run["end_ps"].as_u64().unwrap() - run["start_ps"].as_u64().unwrap())
            .sum();
        assert_eq!(busy, 60 * 3_000_000_000);
    }
}

#[test]
fn a_no_ends_with_1_and_names_task_window_and_demand() {
    let scratch = Scratch::new("no");
    let tasks =
        task("control", "period = \"5 ms\"\nwcet = \"2 ms\"") + &task("vision", "period = \"7 ms\"\nwcet = \"4 ms\"");
    let (code, found) = scratch.json(&tasks, &[]);
    assert_eq!((code, &found["schedulable"], &found["witness"]), (Some(1), &json!(false), &Value::Null));
    assert_eq!(found["overload"]["task"], "vision");
    let number = |key: &str| found["overload"][key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(number("demand_ps") > number("window_ps"));
    // What rate monotonic priorities cannot do, EDF can: U = 34/35.
    let (code, found) = scratch.json(&tasks, &["--scheduler", "edf"]);
    assert_eq!((code, &found["utilization"]), (Some(0), &json!("34/35")));
    let text = String::from_utf8(scratch.analyze(&tasks, &[]).stdout).unwrap();
    assert!(text.starts_with("not schedulable: task \"vision\", job 0"), "{text}");
    assert!(text.contains("are due in a window of 7 ms"), "{text}");
    assert!(text.contains("theorem: ") && text.contains("assumes: "), "{text}");
}

#[test]
fn tables_that_a_scheduler_does_not_look_at_are_named() {
    let scratch = Scratch::new("unused");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crs.toml")).unwrap();
    for (scheduler, unused) in [
        ("rm", json!(["color", "server", "task.server"])),
        ("colored-refresh", json!(["color", "server", "task.server"])),
        ("crs", json!([])),
    ] {
        let (_, found) = scratch.json(&text, &["--scheduler", scheduler]);
        assert_eq!(found["not_considered"], unused, "{scheduler}");
    }
    let (_, found) = scratch.json(&burns_wellings(), &[]);
    assert_eq!(found["not_considered"], json!(["task.priority"]));
    let (_, found) = scratch.json(&burns_wellings(), &["--scheduler", "fp"]);
    assert_eq!(found["not_considered"], json!([]));
}

/// Two tasks that each need half of the processor at once.
fn apart(phase: &str, rest: &str) -> String {
    let half = "period = \"4 ms\"\nwcet = \"2 ms\"\ndeadline = \"2 ms\"\npriority";
    task("a", &format!("{half} = 1{rest}")) + &task("b", &format!("{half} = 2\nphase = \"{phase}\""))
}

#[test]
fn phases_that_differ_are_used() {
    let scratch = Scratch::new("phases");
    for scheduler in ["rm", "dm", "fp", "edf"] {
        let (code, found) = scratch.json(&apart("2 ms", ""), &["--scheduler", scheduler]);
        assert_eq!((code, &found["schedulable"]), (Some(0), &json!(true)), "{found}");
        assert!(found["theorem"].as_str().unwrap().contains("Leung and Merrill 1980"), "{found}");
        // The last phase and two hyperperiods.
        assert_eq!(
            (&found["phases_window_ps"], &found["witness"]["window_ps"]),
            (&json!("10000000000"), &json!(10_000_000_000u64))
        );
        assert_eq!(
            (&found["tasks"][0]["wcrt_ns"], &found["tasks"][1]["wcrt_ns"]),
            (&json!(2_000_000), &json!(2_000_000))
        );
        let assumptions = found["assumptions"].to_string();
        assert!(assumptions.contains("once each period, no later") && !assumptions.contains("worst ones"), "{found}");
        let (code, found) = scratch.json(&apart("1 ms", ""), &["--scheduler", scheduler]);
        assert_eq!(
            (code, &found["schedulable"], &found["tasks"][1]["wcrt_ns"]),
            (Some(1), &json!(false), &Value::Null)
        );
        assert_eq!((&found["overload"]["window_ps"], &found["overload"]["task"]), (&json!("3000000000"), &json!("b")));
    }
    let text = String::from_utf8(scratch.analyze(&apart("1 ms", ""), &[]).stdout).unwrap();
    assert!(text.contains("\nnot schedulable: task \"b\", job 0 (from 0, after its phase)"), "{text}");
    // What does with any phases keeps the stronger theorem.
    let (code, found) = scratch.json(&(burns_wellings() + "phase = \"1 ms\"\n"), &[]);
    assert_eq!((code, &found["tasks"][2]["wcrt_ns"]), (Some(0), &json!(20_000_000)));
    assert!(found["theorem"].as_str().unwrap().contains("Lehoczky 1990"), "{found}");
}

#[test]
fn edf_without_preemption_names_the_job_that_has_begun() {
    let scratch = Scratch::new("nonpreemptive");
    let tasks = |long: &str| {
        task("short", "period = \"5 ms\"\nwcet = \"1 ms\"")
            + &task("long", &format!("period = \"100 ms\"\nwcet = \"{long}\""))
    };
    let arguments = ["--scheduler", "edf", "--nonpreemptive"];
    let (code, found) = scratch.json(&tasks("4 ms"), &arguments);
    assert_eq!(
        (code, &found["schedulable"], &found["witness"]["coverage"]),
        (Some(0), &json!(true), &json!("hyperperiod"))
    );
    // All but 1 ps of the long job, and 1 ms; 1 ms, and the long job.
    assert_eq!(
        (&found["tasks"][0]["wcrt_ns"], &found["tasks"][1]["wcrt_ns"]),
        (&json!(4_999_999.999), &json!(5_000_000))
    );
    let runs = found["witness"]["lanes"][1]["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["start_ps"]), (1, &json!(1_000_000_000)));
    assert!(found["theorem"].as_str().unwrap().contains("Jeffay, Stanat and Martel 1991"), "{found}");
    let (code, found) = scratch.json(&tasks("4.000000002 ms"), &arguments);
    assert_eq!((code, &found["overload"]["demand_ps"]), (Some(1), &json!("5000000001")));
    assert!(found["overload"]["because"].as_str().unwrap().contains("a job of task \"long\" has begun"), "{found}");
    let refresh = "[refresh]\nmode = \"auto\"\ninterval = \"7.8 us\"\nduration = \"350 ns\"\nreopen = \"28 ns\"\n";
    let (code, found) = scratch.json(&(tasks("1 ms") + refresh), &arguments);
    assert_eq!((code, &found["schedulable"]), (Some(3), &Value::Null));
    assert!(found["unsupported"].as_str().unwrap().contains("no refresh"), "{found}");
}

/// The printed witness is cut at any number of jobs, and the verdict stays; --steps is what a verdict may cost.
#[test]
fn a_printing_limit_decides_no_verdict() {
    let scratch = Scratch::new("limits");
    for scheduler in ["rm", "dm", "fp", "edf"] {
        for jobs in ["1", "3", "200"] {
            let (code, found) = scratch.json(&apart("2 ms", ""), &["--scheduler", scheduler, "--jobs", jobs]);
            assert_eq!((code, &found["schedulable"]), (Some(0), &json!(true)), "{scheduler}, {jobs}: {found}");
            assert!(found["witness"]["accepted_jobs"].as_u64().unwrap() <= jobs.parse().unwrap(), "{found}");
        }
    }
    let servers = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crs.toml")).unwrap();
    let of = |jobs: &str| scratch.json(&servers, &["--scheduler", "crs", "--jobs", jobs]);
    let ((few, shown), (many, whole)) = (of("50"), of("100000"));
    assert_eq!((few, many), (Some(0), Some(0)), "{shown}");
    for task in 0..5 {
        assert_eq!(
            shown["tasks"][task]["wcrt_ps"], whole["tasks"][task]["wcrt_ps"],
            "bounds are no part of the witness"
        );
    }
    let window = |found: &Value| found["witness"]["window_ps"].as_u64().unwrap();
    assert!(window(&shown) < window(&whole), "{shown}");
}

/// What the file says of its memory is part of the answer: without [refresh], its refresh follows from the density.
#[test]
fn refresh_follows_from_the_memory_where_the_file_has_no_refresh() {
    let scratch = Scratch::new("derived");
    // 99.5 % of the processor: enough without refresh, not enough with 415 ns each 7.8 us.
    let tasks = task("a", "period = \"10 ms\"\nwcet = \"9.95 ms\"");
    let memory = "[memory]\nranks = 2\ndensity = 8\n";
    assert_eq!(scratch.analyze(&tasks, &[]).status.code(), Some(0));
    for scheduler in ["rm", "dm", "edf", "cyclic"] {
        let (code, found) = scratch.json(&(tasks.clone() + memory), &["--scheduler", scheduler]);
        assert_ne!(code, Some(0), "{scheduler}: {found}");
        let derived = &found["refresh_derived"];
        assert_eq!((&derived["from"], &derived["interval_ps"]), (&json!("memory"), &json!(7_800_000)), "{scheduler}");
        assert_eq!(derived["duration_ps"], json!(350_000));
        assert_eq!(found["not_considered"], json!([]), "{scheduler}");
    }
    let text = String::from_utf8(scratch.analyze(&(tasks.clone() + memory), &[]).stdout).unwrap();
    let second = text.lines().nth(1).unwrap();
    assert!(text.starts_with("not schedulable: "), "{text}");
    assert!(second.starts_with("refresh: derived from [memory], because there is no [refresh]: a stall of"), "{text}");
    // The same stall by a table of the file; where there is one, nothing is derived.
    let stall = scratch.json(&(tasks.clone() + memory), &[]).1["refresh_derived"]["stall_ps"].as_u64().unwrap();
    let refresh = format!(
        "[refresh]\nmode = \"auto\"\ninterval = \"7.8 us\"\nduration = \"350 ns\"\nreopen = \"{} ps\"\n",
        stall - 350_000
    );
    let half = task("a", "period = \"10 ms\"\nwcet = \"5 ms\"");
    let (_, given) = scratch.json(&(half.clone() + memory + &refresh), &[]);
    let (_, derived) = scratch.json(&(half + memory), &[]);
    assert_eq!(given["tasks"], derived["tasks"]);
    assert_eq!((&given["refresh_derived"], &given["not_considered"]), (&Value::Null, &json!(["memory"])));
}

#[test]
fn what_is_unsupported_is_no_no() {
    let scratch = Scratch::new("unsupported");
    for (rest, arguments, part) in [
        ("", &["--nonpreemptive"][..], "the phases differ and are not used"),
        ("", &["--steps", "3"], "more than 3 jobs; see --steps"),
        ("\njitter = \"1 us\"", &[], "no jitter, to use phases"),
    ] {
        let (code, found) = scratch.json(&apart("2 ms", rest), arguments);
        assert_eq!((code, &found["schedulable"]), (Some(3), &Value::Null));
        assert!(found["unsupported"].as_str().unwrap().contains(part), "{found}");
    }
    let shared =
        burns_wellings() + "[banks]\nrequest_delay = \"37.5 ns\"\nprivate_banks = false\nrequests_at_once_max = 1\n";
    let output = scratch.analyze(&shared, &[]);
    assert_eq!(output.status.code(), Some(3));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("unsupported") && words.contains("banks that no other core uses"), "{words}");
}

#[test]
fn refresh_is_a_term_and_a_lane() {
    let scratch = Scratch::new("refresh");
    let tasks =
        task("a", "period = \"100 us\"\nwcet = \"30 us\"") + &task("b", "period = \"200 us\"\nwcet = \"80 us\"");
    let refresh = "[refresh]\nmode = \"auto\"\ninterval = \"7.8 us\"\nduration = \"350 ns\"\nreopen = \"28 ns\"\n";
    let (code, found) = scratch.json(&(tasks.clone() + refresh), &[]);
    assert_eq!(code, Some(0));
    // 140 us of work, and 19 refreshes of 378 ns.
    assert_eq!(found["tasks"][1]["wcrt_ns"], 140_000 + 19 * 378);
    let lanes = found["witness"]["lanes"].as_array().unwrap();
    assert_eq!((lanes.len(), &lanes[2]["name"]), (3, &json!("(refresh)")));
    assert!(found["theorem"].as_str().unwrap().contains("378 ns each 7.8 us"), "{found}");
    let (code, found) = scratch.json(&(tasks + refresh), &["--scheduler", "edf"]);
    assert_eq!((code, &found["witness"]), (Some(0), &Value::Null));
    assert!(found["witness_absent"].is_string());
}

#[test]
fn regulators_and_rivals_lengthen_responses() {
    let scratch = Scratch::new("memory");
    let tasks = task("a", "period = \"100 us\"\nwcet = \"30 us\"\nlines = 100");
    let wcrt = |text: &str| scratch.json(text, &[]).1["tasks"][0]["wcrt_ns"].as_f64().unwrap();
    assert_eq!(wcrt(&tasks), 30_000.0);
    let banks = "[banks]\nrequest_delay = \"40 ns\"\nprivate_banks = true\nrequests_at_once_max = 1\n[[banks.core]]\n";
    // One core of which nothing is known: each of 101 requests waits for one of its.
    assert_eq!(wcrt(&(tasks.clone() + banks)), 34_040.0);
    let known = "[[banks.core.task]]\nname = \"other\"\nperiod = \"1 ms\"\nwcet = \"1 us\"\nlines = 7\n";
    // 14 lines of two jobs in any 34 us.
    assert_eq!(wcrt(&(tasks.clone() + banks + known)), 30_560.0);
    let regulator = "[regulator]\nperiod = \"10 us\"\nlines = 60\n";
    // Once for what was before, once for 60 of 100 lines.
    assert_eq!(wcrt(&(tasks + regulator)), 50_000.0);
}

/// What a core donates may be gone when it needs it, and what others reclaim is no more than that.
#[test]
fn a_core_that_reclaims_has_a_longer_bound_than_one_that_does_not() {
    const FILE: &str = include_str!("../../../../examples/regulated.toml");
    let scratch = Scratch::new("reclaims");
    let (code, hard) = scratch.json(FILE, &[]);
    assert_eq!(code, Some(0), "{hard}");
    // With donations, each line can be the end of a grant: their interrupts alone would be too much.
    let soft = FILE.replacen("guaranteed", "kind = \"soft\"\nguaranteed", 1);
    assert_eq!(scratch.json(&soft, &[]).0, Some(3));
    let (code, soft) = scratch.json(&soft.replace("overhead = \"2 us\"\n", ""), &[]);
    assert_eq!(code, Some(3), "{soft}");
    let control = |found: &Value| found["tasks"][0]["wcrt_ns"].as_f64().expect("a bound");
    assert!(control(&soft) > 2.0 * control(&hard), "{} {}", control(&soft), control(&hard));
    let assumes = |found: &Value, words: &str| found["assumptions"].to_string().contains(words);
    assert!(
        assumes(&hard, "the memory always serves 16265 lines in 1 ms, within which all reservations are"),
        "{hard}"
    );
    let (_, unchecked) = scratch.json(&FILE.replace("guaranteed = 16265", ""), &[]);
    assert!(assumes(&unchecked, "not checked, since [regulator] has no guaranteed"), "{unchecked}");
    let wrong = scratch.analyze(&FILE.replace("guaranteed = 16265", "guaranteed = 16151"), &[]);
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(said.contains("regulator: guaranteed is 16151; accepted is 16152 or more"), "{said}");
}

#[test]
fn the_picture_shows_the_span_that_was_asked_for() {
    let scratch = Scratch::new("span");
    let picture = scratch.path("schedule.svg");
    let flight = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/flight-control.toml"));
    let flight = flight.unwrap();
    let of = |span: &[&str]| scratch.analyze(&flight, &[&["--svg", &picture], span].concat());
    let drawn = |span: &[&str]| {
        let output = of(span);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        std::fs::read_to_string(&picture).unwrap()
    };
    let all = drawn(&[]);
    assert!(
        all.contains("<title>all 4 tasks meet their deadlines; least slack 3.843678 ms (rate-loop)</title>"),
        "{all}"
    );
    assert!(
        !all.contains("all but") && all.contains("telemetry job 0: ") && all.contains("rate-loop job 15: 75 ms to ")
    );
    let part = drawn(&["--from", "0", "--to", "20ms"]);
    assert!(
        part.contains("not drawn: all but 0 to 20 ms of 77.7894 ms") && !part.contains("rate-loop job 4: "),
        "{part}"
    );
    std::fs::remove_file(&picture).unwrap();
    let refused = |span: &[&str], sentence: &str| {
        let output = of(span);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(sentence), "{said}");
    };
    refused(
        &["--to", "90ms"],
        "--to: found 90 ms, what can be drawn ends at 77.7894 ms (a schedule that --jobs cuts ends there); accepted is more than 0 to 77.7894 ms",
    );
    refused(
        &["--from", "90ms"],
        "--from: found 90 ms, what can be drawn ends at 77.7894 ms (a schedule that --jobs cuts ends there); accepted is 0 to less than 77.7894 ms",
    );
    // The answer stands all the same.
    assert!(String::from_utf8(of(&["--from", "90ms"]).stdout).unwrap().starts_with("schedulable: "));
    refused(&["--from", "9"], "accepted is 0, or a number with ps, ns, us, ms or s, such as 20ms");
    let alone = scratch.analyze(&flight, &["--from", "0"]);
    assert!(!PathBuf::from(&picture).exists() && String::from_utf8(alone.stderr).unwrap().contains("--svg <FILE>"));
}

#[test]
fn the_picture_is_written_and_shows_every_lane() {
    let scratch = Scratch::new("svg");
    let picture = scratch.path("schedule.svg");
    let output = scratch.analyze(&burns_wellings(), &["--svg", &picture]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("a job 0: 0 ps to 3 ms") && svg.contains("c job 20: "), "{svg}");
    let servers =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crs-copies.toml")).unwrap();
    let named = servers.replace("\"c1\"", "\"c<&\\\"\"");
    assert_eq!(scratch.analyze(&named, &["--scheduler", "crs", "--svg", &picture]).status.code(), Some(0));
    assert!(std::fs::read_to_string(&picture).unwrap().contains("c&lt;&amp;&quot;"));
    std::fs::remove_file(&picture).unwrap();
    let late = burns_wellings().replace("5 ms", "6 ms");
    let output = scratch.analyze(&late, &["--svg", &picture]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no witness"));
    assert!(!PathBuf::from(&picture).exists());
}

#[test]
fn what_is_wrong_is_named() {
    let scratch = Scratch::new("wrong");
    let refused = |text: &str, arguments: &[&str], parts: &[&str]| {
        let output = scratch.analyze(text, arguments);
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}: {words}");
        assert!(output.stdout.is_empty(), "{text}");
        for part in parts.iter().chain(&["tasks.toml"]) {
            assert!(words.contains(part), "{part:?} is not in {words:?}");
        }
    };
    let right = task("a", "period = \"20 ms\"\nwcet = \"1 ms\"");
    let unit = ["task \"a\": period is 20", "accepted is a text with a number and its unit"];
    refused(&task("a", "period = 20\nwcet = \"1 ms\""), &[], &unit);
    refused(&task("a", "period = \"20\"\nwcet = \"1 ms\""), &[], &["task \"a\": period is \"20\""]);
    refused(&task("a", "period = \"20 ms\""), &[], &["task \"a\": missing: wcet (a time such as \"20 ms\")"]);
    refused(&task("a", "period = \"20 ms\"\nwcet = \"0.5 ps\""), &[], &["wcet is \"0.5 ps\""]);
    refused(&task("a", "period = \"20 ms\"\nwcet = \"0 ms\""), &[], &["task \"a\": wcet is 0 ps; accepted is 1 ps to"]);
    refused("[[task]]\nperiod = \"20 ms\"\nwcet = \"1 ms\"", &[], &["task 0 (counted from 0): missing: name"]);
    refused(&(right.clone() + &right), &[], &["name of task is \"a\" twice; accepted is each name once"]);
    refused("", &[], &["tasks found are 0"]);
    refused(&(right.clone() + "period_us = 3"), &[], &["period_us", "the nearest is \"period\"", "accepted are"]);
    refused(&(right.clone() + "[servers]"), &[], &["servers"]);
    refused(&right, &["--scheduler", "fp"], &["task \"a\": priority is missing", "1 for the highest"]);
    let twice = right.clone() + "priority = 2\n" + &right.replace("\"a\"", "\"b\"") + "priority = 2\n";
    refused(&twice, &["--scheduler", "fp"], &["priority is 2, which is that of task \"a\" too"]);
    refused(&(right.clone() + "priority = 0\n"), &[], &["priority is 0; accepted is a whole number from 1"]);
    let refresh =
        |mode: &str| format!("{right}[refresh]\nmode = \"{mode}\"\ninterval = \"7.8 us\"\nduration = \"350 ns\"\n");
    refused(&refresh("auto"), &[], &["refresh: missing: reopen (a time such as \"20 ms\")"]);
    refused(&(refresh("none") + "reopen = \"0 ns\""), &[], &["refresh: mode is \"none\"", "\"burst\""]);
    refused(&(refresh("auto") + "reopen = \"0 ns\"\nmoved = 17"), &[], &["commands moved is 17; accepted is 0 to 16"]);
}

#[test]
fn other_cores_in_shared_banks_and_with_several_requests_are_named_and_counted() {
    let scratch = Scratch::new("banks");
    let own = task("a", "period = \"1 ms\"\nwcet = \"100 us\"\nlines = 100");
    // Longer alone than with others by what each of 101 requests waits for: see `SharedBanks` and `ParallelBanks`.
    let shared = "[shared_banks]\nrequest_delay = \"40 ns\"\nhit = \"10 ns\"\nconflict = \"60 ns\"\n\
        overtaking_each_request = 4\nrequests_at_once_max = 1\nsharer = [{}]\n";
    let (code, found) = scratch.json(&(own.clone() + shared), &[]);
    let wait = 60 + 60 + 4 * 10 + 40;
    assert_eq!((code, &found["tasks"][0]["wcrt_ns"]), (Some(0), &json!(100_000 + 101 * wait)), "{found}");
    assert!(found["theorem"].as_str().unwrap().contains("a request waits for 200 ns at most"), "{found}");
    let parallel = "[parallel_banks]\nread_delay = \"40 ns\"\nwrite_delay = \"30 ns\"\nturn = \"20 ns\"\n\
        write_entries = 32\ndrain_at = 26\ndrain_to = 6\nrequests_at_once_max = 1\nprivate_banks = true\n\
        write_back = true\ncore = [{ requests_at_once_max = 2 }]\n";
    let (code, found) = scratch.json(&(own.clone() + parallel), &[]);
    let wait = 2 * 40 + (32 - 6 + 1 + 2 + 1) * 30 + 2 * 20;
    assert_eq!((code, &found["tasks"][0]["wcrt_ns"]), (Some(0), &json!(100_000 + 101 * wait)), "{found}");
    // Without a limit to what overtakes there is no bound, which is not a no.
    let (code, found) = scratch.json(&(own + &shared.replace("overtaking_each_request = 4\n", "")), &[]);
    assert_eq!((code, &found["schedulable"]), (Some(3), &Value::Null), "{found}");
    assert!(found["unsupported"].as_str().unwrap().contains("a limit to the row hits that overtake"), "{found}");
}
