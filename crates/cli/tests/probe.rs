//! Does `memtint probe` repeat what was recorded, write files that others take, say how often it is wrong, and refuse what is wrong?

mod scratch;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use memtint_map::Platform;
use memtint_probe::{Noise, Pool, Recorder, Settings, SimulatedMachine, probe};
use serde_json::Value;

use scratch::Scratch;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command.output().expect("the binary was built for this test")
}

fn text(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    let text = text(&[&["--format", "json"], arguments].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

/// The report without the name of the oracle.
fn found(mut report: Value) -> Value {
    let removed = report.as_object_mut().and_then(|report| report.remove("oracle"));
    assert!(removed.is_some_and(|oracle| oracle["kind"].is_string()), "{report}");
    report
}

#[test]
fn a_recording_gives_the_same_report() {
    let scratch = Scratch::new("replay");
    let (log, first, again) = (scratch.path("log"), scratch.path("first.toml"), scratch.path("again.toml"));
    let (picture, repeated) = (scratch.path("first.svg"), scratch.path("again.svg"));
    for seed in ["1", "4"] {
        let asked = ["probe", "--simulate", "haswell-e3-1230", "--noise", "typical", "--seed", seed, "--record", &log];
        let recorded = json(&[&asked[..], &["--out", &first, "--svg", &picture]].concat());
        let asked = ["probe", "--replay", &log, "--seed", seed];
        let replayed = json(&[&asked[..], &["--out", &again, "--svg", &repeated]].concat());
        assert_eq!(recorded["answer"], "mapping");
        assert_eq!(found(recorded), found(replayed));
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        let recording = format!("the recording {log}");
        let simulated = "a simulated machine with the mapping of haswell-e3-1230, noise: typical";
        assert_eq!(read(&picture).replace(simulated, &recording), read(&repeated));
        // Where memory is, a recording does not say.
        let functions = |path: &str| read(path).lines().filter(|line| line.starts_with("bits = ")).collect::<String>();
        assert_eq!(functions(&first), functions(&again));
        let report = text(&asked);
        assert!(report.ends_with(&format!("asked       {recording}\n")), "{report}");
    }
    let other = run(&["probe", "--replay", &log, "--seed", "2"]);
    let error = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{error}");
    assert!(error.contains("the probe asked for time "), "{error}");
}

#[test]
fn what_is_written_is_a_platform() {
    let scratch = Scratch::new("out");
    let out = scratch.path("found.toml");
    let report = text(&["probe", "--simulate", "rpi4-2g", "--out", &out, "--id", "my-board"]);
    assert!(report.starts_with("answer      a mapping, right with a probability of 99."), "{report}");
    let [truth, probed] = ["rpi4-2g", &out].map(|platform| json(&["palette", platform]));
    assert_eq!(probed["platform"], "my-board");
    for same in ["banks", "banks_per_granule", "isolation_classes"] {
        assert_eq!(probed[same], truth[same], "{same}");
    }
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 1, "nothing is left beside it");
    // Where nothing is found nothing is written, and what was there stays.
    let before = std::fs::read_to_string(&out).unwrap();
    let refused = run(&["probe", "--simulate", "no-such-platform", "--out", &out]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), before);
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 1);
}

#[test]
fn what_shifts_the_time_of_other_pairs_is_said_when_asked_for() {
    let simulated = ["probe", "--simulate", "haswell-e3-1230", "--noise"];
    let of = |arguments: &[&str]| json(&[&simulated, arguments].concat())["areas"][0]["shift"].clone();
    let shift = of(&["typical", "--shift"]);
    assert_eq!(shift["function"], serde_json::json!([13, 17]), "{shift}");
    let [ticks, error] = ["ticks", "error_ticks"].map(|field| shift[field].as_f64().expect("a number"));
    assert!((ticks - 10.0).abs() < error && error < 10.0, "{shift}");
    assert!(of(&["typical"]).is_null() && of(&["none", "--shift"]).is_null());
    let report = text(&[&simulated, &["quiet", "--shift"][..]].concat());
    let line = report.lines().find(|line| line.starts_with("shift ")).expect("a line says so");
    assert!(line.contains("13^17") && line.ends_with("a bank group or a channel"), "{line}");
}

/// Records a probe of a machine of which not all is seen.
fn recorded(log: &str, known_bits: u32, noise: Noise) {
    let platform = Platform::load("rpi4-2g").unwrap();
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), known_bits).unwrap();
    let machine = SimulatedMachine::new(platform, pool, noise, 3).unwrap();
    let mut recorder = Recorder::new(machine, std::fs::File::create(log).unwrap()).unwrap();
    probe(&mut recorder, &Settings::default(), &mut |_| {}).unwrap();
    recorder.finish().unwrap();
}

#[test]
fn a_partial_mapping_says_what_it_leaves_open() {
    let scratch = Scratch::new("partial");
    let (log, out) = (scratch.path("log"), scratch.path("part.toml"));
    recorded(&log, 21, Noise::QUIET);
    let report = text(&["probe", "--replay", &log, "--out", &out]);
    assert!(report.starts_with("answer      a partial mapping, right with a probability of "), "{report}");
    let open = "of addresses only bits 0 to 20 are known";
    assert!(report.lines().nth(1).is_some_and(|line| line == format!("not known   {open}")), "{report}");
    let report = json(&["probe", "--replay", &log]);
    assert_eq!((&report["answer"], &report["missing"][0]), (&Value::from("partial"), &Value::from(open)));
    assert_eq!(json(&["palette", &out])["banks"], 8);
    assert!(std::fs::read_to_string(&out).unwrap().contains(&format!("Not known: {open}.")));
}

#[test]
fn where_rows_are_closed_at_once_nothing_is_written() {
    let scratch = Scratch::new("closed");
    let (log, out, svg) = (scratch.path("log"), scratch.path("none.toml"), scratch.path("none.svg"));
    recorded(&log, 64, Noise { gap: 0.0, ..Noise::QUIET });
    let output = run(&["probe", "--replay", &log, "--out", &out, "--svg", &svg]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.starts_with("answer      no "), "{report}");
    assert!(report.contains("\npairs       20") && report.contains("\nalone       20"), "{report}");
    assert!(!std::fs::exists(&out).unwrap() && std::fs::exists(&svg).unwrap());
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no mapping to be written"));
}

#[test]
fn the_picture_shows_what_was_timed() {
    let scratch = Scratch::new("svg");
    let svg = scratch.path("picture.svg");
    let report = json(&["probe", "--simulate", "haswell-e3-1230", "--svg", &svg]);
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert_eq!(picture.matches("<title>").count(), picture.matches("</title>").count());
    for name in ["conflicts", "alone", "slowest others", "bits 6 and "] {
        assert!(picture.contains(name), "{name}");
    }
    // Every function was found from squares that conflict.
    assert!(picture.matches("fill=\"#1f5fa8\"").count() > report["areas"][0]["functions"].as_array().unwrap().len());
}

#[test]
fn published_algorithms_answer_beside() {
    let palloc = ["probe", "--simulate", "rpi4-2g", "--noise", "none", "--algorithm", "palloc", "--banks", "8"];
    let found = json(&[&palloc[..], &["--repeats", "2000"]].concat());
    assert_eq!((&found["functions"], &found["right"]), (&serde_json::json!([[12], [13], [14]]), &Value::from(true)));
    assert!(found["accesses"].as_u64().unwrap() >= 2000 * 18, "{found}");
    // Functions of six bits are not among what it looks for, and it does not notice.
    let bpm = ["probe", "--simulate", "skl-i5-6200u-xps13", "--noise", "none", "--algorithm", "bpm", "--repeats", "20"];
    let report = text(&bpm);
    assert!(report.starts_with("answer      bpm says that this is the mapping; it is not the machine's\n"), "{report}");
}

#[test]
fn a_self_test_counts_what_is_right() {
    let scratch = Scratch::new("self-test");
    for name in ["haswell-e3-1230", "rpi4-2g"] {
        scratch.file(&format!("{name}.toml"), &text(&["platform", "show", name, "--toml"]));
    }
    let directory = scratch.path("");
    let asked = ["probe", "--self-test", "--platforms", &directory, "--noise", "none,quiet", "--seeds", "2"];
    let report = json(&[&asked[..], &["--threads", "1"]].concat());
    assert_eq!(report, json(&[&asked[..], &["--threads", "2"]].concat()), "threads change nothing");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(
            ["probes", "right", "partial", "refused", "wrong"].map(|count| row[count].as_u64()),
            [2, 2, 0, 0, 0].map(Some)
        );
        assert!(
            row["accesses_median"].as_u64().unwrap() > 1000 && row["simulated_ms_median"].as_f64().unwrap() > 0.1,
            "{row}"
        );
    }
    let totals = report["totals"].as_array().unwrap();
    assert_eq!(totals.iter().map(|row| row["right"].as_u64().unwrap()).collect::<Vec<_>>(), [4, 4]);
    let table = text(&["probe", "--self-test", "--platforms", &directory, "--noise", "quiet"]);
    assert!(
        table.lines().count() == 4 && table.contains("rpi4-2g          quiet      1        0        0      0"),
        "{table}"
    );
}

#[test]
fn what_is_wrong_is_named() {
    let scratch = Scratch::new("wrong");
    let (no_platforms, missing) = (scratch.path(""), scratch.path("there/is/none"));
    let log = scratch.file("log", "memtint probe log 2\n");
    for (arguments, message) in [
        (&["--confidence", "1"][..], "accepted are numbers from 0.5 to 1 (excluded)"),
        (&["--confidence", "nan"], "accepted are numbers from 0.5 to 1"),
        (&["--memory", "1M"], "a pool of 1048576 bytes was asked for; accepted is 2097152 or more"),
        (&["--memory", "4X"], "unit \"X\""),
        (&["--replay", &missing], "cannot be read"),
        (&["--replay", &log], "line 1: \"memtint probe log 2\" found"),
        (&["--simulate", "nobody"], "nobody"),
        (&["--simulate", "rpi4-2g", "--out", &missing], "cannot be written"),
        (&["--simulate", "rpi4-2g", "--svg", &missing], "cannot be written"),
        (&["--simulate", "rpi4-2g", "--record", &missing], "cannot be written"),
        (&["--simulate", "rpi4-2g", "--id", "a b"], "a b"),
        (&["--simulate", "rpi4-2g", "--noise", "quiet,noisy"], "accepted with --simulate is one"),
        (&["--simulate", "rpi4-2g", "--replay", &log], "cannot be used with"),
        (&["--simulate", "rpi4-2g", "--algorithm", "palloc"], "--banks: nothing found"),
        (&["--simulate", "rpi4-2g", "--algorithm", "palloc", "--banks", "12"], "--banks: 12 found"),
        (&["--simulate", "rpi4-2g", "--algorithm", "bpm", "--out", &missing], "accepted with own"),
        (&["--self-test", "--algorithm", "bpm"], "cannot be used with"),
        (&["--self-test", "--platforms", &no_platforms], "accepted are files *.toml"),
        (&["--self-test", "--platforms", &missing], "cannot be read"),
        (&["--self-test", "--seeds", "0"], "0 is not in 1.."),
        (&["--platforms", &no_platforms], "--self-test"),
    ] {
        let output = run(&[&["probe"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

/// Whatever this machine is, the answer is honest and comes soon.
#[test]
fn this_machine_gets_an_answer() {
    let scratch = Scratch::new("machine");
    let (out, log) = (scratch.path("here.toml"), scratch.path("log"));
    let started = Instant::now();
    let output = run(&["--format", "json", "probe", "--memory", "64M", "--out", &out, "--record", &log]);
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("hides physical addresses") || error.contains("lacks") {
        eprintln!("skipped: {error}");
        return;
    }
    assert!(started.elapsed() < Duration::from_secs(120), "it took {:?}", started.elapsed());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let (status, written) = match report["answer"].as_str() {
        Some("mapping" | "partial") => (0, true),
        Some("no_bank_signal") => (1, false),
        other => panic!("{other:?}"),
    };
    assert_eq!((output.status.code(), std::fs::exists(&out).unwrap()), (Some(status), written), "{report}");
    assert_eq!(report["oracle"]["kind"], "machine");
    assert!(report["effort"]["accesses"].as_u64().unwrap() > 100, "{report}");
    if written {
        json(&["palette", &out]);
    }
    let replayed = run(&["--format", "json", "probe", "--replay", &log]);
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(found(report), found(replayed));
}
