//! Does `memtint probe` repeat what was recorded, write files that others take, say how often it is wrong, and refuse what is wrong?

use std::process::{Command, Output, Stdio};

use memtint_map::{Platform, mapfile};
use memtint_probe::{Noise, Pool, Recorder, Settings, SimulatedMachine, begin_log, probe};
use memtint_units::{ByteSize, PhysAddr};
use serde_json::Value;

use crate::scratch::Scratch;

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
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    // A recording says which algorithm it is of.
    match report["algorithm"].as_str() {
        Some(published) => crate::shared::check(&format!("probe-{published}"), &report),
        None => crate::shared::check_printed(arguments, &report),
    }
    report
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
    let asked = ["probe", "--simulate", "haswell-e3-1230", "--noise", "typical", "--shift", "--seed", "4"];
    let asked = [&asked[..], &["--confidence", "0.9999", "--record", &log]].concat();
    let recorded = json(&[&asked[..], &["--out", &first, "--svg", &picture]].concat());
    // All that the report depends on is in the log.
    let replayed = json(&["probe", "--replay", &log, "--out", &again, "--svg", &repeated]);
    assert_eq!((&recorded["answer"], &recorded["llc"]["answer"]), (&Value::from("mapping"), &Value::from("found")));
    assert_eq!((&replayed["seed"], &replayed["confidence_wanted"]), (&Value::from(4), &Value::from(0.9999)));
    assert!(replayed["areas"][0]["shift"].is_object(), "{replayed}");
    assert_eq!(found(recorded), found(replayed));
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let recording = format!("the recording {log}");
    let simulated = "a simulated machine with the mapping of haswell-e3-1230, noise: typical";
    assert_eq!(read(&picture).replace(simulated, &recording), read(&repeated));
    assert_eq!(read(&first), read(&again));
    let report = text(&["probe", "--replay", &log]);
    assert!(report.ends_with(&format!("asked       {recording}\nrecorded    of {simulated}\n")), "{report}");
    // Options that say the same are accepted.
    let same = ["--seed", "4", "--confidence", "0.9999", "--shift", "--algorithm", "own", "--only", "nodes,llc,dram"];
    assert_eq!(text(&[&["probe", "--replay", &log], &same[..]].concat()), report);
    for (option, message) in [
        (&["--seed", "2"][..], "--seed: 2 found; LOG was recorded with --seed 4"),
        (&["--confidence", "0.99"], "--confidence: 0.99 found; LOG was recorded with --confidence 0.9999"),
        (&["--algorithm", "bpm"], "--algorithm: bpm found; LOG was recorded with --algorithm own"),
        (&["--only", "llc"], "--only: llc found; LOG was recorded with --only dram,llc,nodes"),
        (&["--banks", "8"], "--banks: 8 found; LOG was recorded with --banks none"),
        (&["--repeats", "8"], "--repeats: 8 found; LOG was recorded with --repeats none"),
    ] {
        let output = run(&[&["probe", "--replay", &log], option].concat());
        let error = String::from_utf8_lossy(&output.stderr).replace(&log, "LOG");
        assert_eq!(output.status.code(), Some(2), "{option:?}: {error}");
        assert!(error.contains(message), "{option:?}: {error}");
    }
}

#[test]
fn a_log_that_is_not_whole_is_refused() {
    let scratch = Scratch::new("broken");
    let log = scratch.path("log");
    text(&["probe", "--simulate", "rpi4-2g", "--only", "llc,nodes", "--record", &log]);
    let whole = std::fs::read_to_string(&log).unwrap();
    let part = whole.find("part nodes").expect("nodes were recorded");
    for (changed, message) in [
        (whole.replace("note seed 1\n", ""), "note seed stands there nowhere; accepted is once"),
        (whole.replace("note seed 1\n", "note seed 1\nnote seed 1\n"), "note seed stands there twice"),
        (whole.replace("note seed 1\n", "note seed x\n"), "note seed: \"x\" found; accepted is a number"),
        (whole.replace("note only llc,nodes", "note only l2"), "note only: \"l2\" found; accepted is dram, llc, nodes"),
        (whole.replace("note seed 1\n", "note seed 1\nnote age 7\n"), "note age: unknown to this version of memtint"),
        (whole.replace("note machine {", "note machine {\"color\":1,"), "note machine: unknown field `color`"),
        (whole.replace("note only llc,nodes", "note only llc"), "\"part nodes\" found; accepted is the end"),
        (whole.replace("note only llc,nodes", "note only dram,llc"), "\"part llc\" found; accepted is part dram"),
        (whole[..part].to_owned(), "\"the end\" found; accepted is part nodes"),
    ] {
        let broken = scratch.file("broken", &changed);
        let output = run(&["probe", "--replay", &broken]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}: {error}");
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn the_last_level_is_found_after_the_banks_and_before_the_nodes() {
    let scratch = Scratch::new("llc");
    let out = scratch.path("found.toml");
    let report = json(&["probe", "--simulate", "opteron-6128-camc", "--only", "llc,nodes"]);
    assert_eq!(report["parts"], serde_json::json!(["llc", "nodes"]));
    assert!(report["answer"].is_null() && report["areas"].is_null(), "banks were not looked for: {report}");
    let truth = Platform::load("opteron-6128-camc").unwrap();
    let llc = truth.llc().unwrap();
    let found = &report["llc"];
    assert_eq!((&found["answer"], &found["set_bits"]), (&Value::from("found"), &serde_json::json!(llc.set_bits)));
    assert_eq!((&found["ways"], &found["predicted"]), (&serde_json::json!(llc.ways), &serde_json::json!([40, 40])));
    assert!(found["confidence"].as_f64().unwrap() > 0.999, "{found}");
    let [near, hit, memory] = ["near", "hit", "memory"].map(|level| found["levels"][level].as_f64().unwrap());
    assert!(near < hit && hit < memory, "{found}");
    // Each node's own memory is the nearest of four.
    let nodes = &report["nodes"];
    assert_eq!(nodes["latencies"].as_array().unwrap().len(), 16, "{nodes}");
    let order = nodes["order"].as_array().unwrap();
    assert_eq!(order.len(), 4 * 6);
    for pair in order {
        let own = &pair["cores_of_node"];
        let is_own = pair["nodes"].as_array().unwrap().contains(own);
        assert!(!is_own || pair["nearer"] == *own, "{pair}");
    }
    let simulated = ["probe", "--simulate", "haswell-e3-1230", "--out", &out];
    let report = text(&simulated);
    let heads = ["answer  ", "\nlast level  found", "\nnodes  ", "\nasked  "].map(|head| report.find(head).unwrap());
    assert!(heads.is_sorted(), "{report}");
    let [truth, probed] = ["haswell-e3-1230", &out].map(|platform| Platform::load(platform).unwrap());
    assert_eq!(probed.llc().unwrap().size, truth.llc().unwrap().size);
    assert_eq!((probed.caches(), probed.cores()), (truth.caches(), truth.cores()));
    let [truth, probed] = ["haswell-e3-1230", &out].map(|platform| json(&["palette", platform]));
    assert_eq!(probed["set_colors"], truth["set_colors"]);
}

#[test]
fn what_cannot_be_asked_is_said() {
    // The file does not say how its last level is indexed.
    let unknown = "zen2-ddr4-1r";
    assert!(Platform::load(unknown).unwrap().set_masks().is_empty());
    let asked = ["--format", "json", "probe", "--simulate", unknown, "--only", "llc"];
    let output = run(&asked);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::shared::check("probe", &report);
    assert_eq!(report["llc"]["answer"], "not_asked");
    assert!(report["llc"]["why"].as_str().unwrap().starts_with("it is not simulated: "), "{report}");
}

#[test]
fn a_cache_alone_is_a_platform_without_banks() {
    let scratch = Scratch::new("llc-only");
    let out = scratch.path("cache.toml");
    text(&["probe", "--simulate", "haswell-e3-1230", "--only", "llc", "--out", &out]);
    let [truth, probed] = ["haswell-e3-1230", &out].map(|platform| json(&["palette", platform]));
    assert_eq!((&probed["set_colors"], &probed["banks"]), (&truth["set_colors"], &Value::from(1)));
    assert!(std::fs::read_to_string(&out).unwrap().contains("Of the last-level cache alone"));
}

/// Writes the beginning of a log as the program does.
fn begun(log: &str, only: &str) -> std::fs::File {
    let mut file = std::fs::File::create(log).unwrap();
    let machine = r#"{"name":"a machine of this test","memory":[],"llc":null,"caches":[],"cores":null,"groups":[0],"no_llc":null,"no_nodes":null}"#;
    let notes = [
        ("algorithm", "own"),
        ("only", only),
        ("seed", "1"),
        ("confidence", "0.999"),
        ("shift", "no"),
        ("banks", "none"),
        ("repeats", "none"),
        ("machine", machine),
    ];
    begin_log(&mut file, &notes.map(|(key, text)| (key, text.to_owned()))).unwrap();
    file
}

#[test]
fn parts_of_memory_with_functions_of_their_own_are_files_of_their_own() {
    let scratch = Scratch::new("areas");
    let (log, out, second) = (scratch.path("log"), scratch.path("found.toml"), scratch.path("found-2.toml"));
    // Both channels as far as both modules go, and one beyond.
    let (large, small) = (6 << 30, 1 << 30);
    let one = [1_u64 << 13 | 1 << 17, 1 << 14 | 1 << 18, 1 << 15 | 1 << 19, 1 << 16 | 1 << 20];
    let both: Vec<u64> = [1 << 6 | 1 << 13].into_iter().chain(one.map(|mask| mask << 1)).collect();
    let made = |functions: &[u64], base: u64, size: u64| {
        let mut file = mapfile::to_platform_file("made", functions, base + size, "made");
        (file.region[0].base, file.region[0].size) = (ByteSize(base), ByteSize(size));
        let platform = Platform::from_file(file, "made").unwrap();
        let pool = Pool::new([PhysAddr(base)..PhysAddr(base + size)], 64).unwrap();
        (platform, pool)
    };
    let ((first, pool), (second_part, other)) = (made(&both, 0, large), made(&one, large, small));
    let machine = SimulatedMachine::new(first, pool, Noise::QUIET, 2).unwrap().beside(second_part, other).unwrap();
    let mut recorder = Recorder::of_dram(machine, begun(&log, "dram")).unwrap();
    probe(&mut recorder, &Settings::default(), &mut |_| {}).unwrap();
    recorder.finish().unwrap();
    let report = json(&["probe", "--replay", &log, "--out", &out, "--id", "two"]);
    assert_eq!((&report["answer"], report["areas"].as_array().unwrap().len()), (&Value::from("partial"), 2));
    for (path, id, bytes) in [(&out, "two", large), (&second, "two-2", small)] {
        let platform = Platform::load(path).unwrap();
        assert_eq!((platform.id(), platform.size_bytes()), (id, bytes), "{path}");
        let palette = json(&["palette", path]);
        assert_eq!(palette["banks"], Value::from(platform.banks()), "{palette}");
        let notes = platform.file().notes.as_deref().unwrap();
        assert!(notes.contains("of 2 of the machine's memory"), "{notes}");
    }
}

#[test]
fn what_is_written_is_a_platform() {
    let scratch = Scratch::new("out");
    let out = scratch.path("found.toml");
    let report = text(&["probe", "--simulate", "rpi4-2g", "--only", "dram", "--out", &out, "--id", "my-board"]);
    assert!(report.starts_with("answer      a mapping, confidence at least 99."), "{report}");
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
    let simulated = ["probe", "--only", "dram", "--simulate", "haswell-e3-1230", "--noise"];
    let of = |arguments: &[&str]| json(&[&simulated, arguments].concat())["areas"][0]["shift"].clone();
    let shift = of(&["typical", "--shift"]);
    assert_eq!(shift["function"], serde_json::json!([13, 17]), "{shift}");
    let [ticks, error] = ["ticks", "error_ticks"].map(|field| shift[field].as_f64().expect("a number"));
    assert!((ticks - 10.0).abs() < error && error < 10.0, "{shift}");
    assert!(of(&["typical"]).is_null() && of(&["none", "--shift"]).is_null());
    let report = text(&[&simulated, &["quiet", "--shift"][..]].concat());
    let line = report.lines().find(|line| line.starts_with("shift ")).expect("a line says so");
    assert!(line.contains("13^17") && line.ends_with("a bank group, rank or channel"), "{line}");
    // Functions that nothing is known of are said to be so, beside the one that is.
    let scratch = Scratch::new("roles");
    let out = scratch.path("found.toml");
    let report = json(&[&simulated, &["quiet", "--shift", "--out", &out][..]].concat());
    let roles: Vec<(&Value, &str)> = report["areas"][0]["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|function| (&function["bits"], function["role"].as_str().unwrap()))
        .collect();
    let shifting = serde_json::json!([13, 17]);
    for (bits, role) in roles {
        assert_eq!(role, if *bits == shifting { "bank group, rank or channel" } else { "unknown" }, "{bits}");
    }
    let notes = Platform::load(&out).unwrap().file().notes.clone().unwrap();
    let known = "13^17 shifts the time of pairs that do not conflict: a bank group, rank or channel, and timing does not say which";
    assert!(notes.contains(known), "{notes}");
}

/// Records a probe of a machine of which not all is seen.
fn recorded(log: &str, known_bits: u32, noise: Noise) {
    let platform = Platform::load("rpi4-2g").unwrap();
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), known_bits).unwrap();
    let machine = SimulatedMachine::new(platform, pool, noise, 3).unwrap();
    let mut recorder = Recorder::of_dram(machine, begun(log, "dram")).unwrap();
    probe(&mut recorder, &Settings::default(), &mut |_| {}).unwrap();
    recorder.finish().unwrap();
}

#[test]
fn a_partial_mapping_says_what_it_leaves_open() {
    let scratch = Scratch::new("partial");
    let (log, out) = (scratch.path("log"), scratch.path("part.toml"));
    recorded(&log, 21, Noise::QUIET);
    let report = text(&["probe", "--replay", &log, "--out", &out]);
    assert!(report.starts_with("answer      a partial mapping, confidence at least "), "{report}");
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
    assert!(String::from_utf8_lossy(&output.stderr).contains("no mapping was found"));
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
    assert!(
        picture.matches("class=\"solid edge\"").count() > report["areas"][0]["functions"].as_array().unwrap().len()
    );
}

#[test]
fn published_algorithms_answer_beside() {
    let palloc = ["probe", "--simulate", "rpi4-2g", "--noise", "none", "--algorithm", "palloc", "--banks", "8"];
    let scratch = Scratch::new("published");
    let log = scratch.path("log");
    let found = json(&[&palloc[..], &["--repeats", "2000", "--record", &log]].concat());
    let again = json(&["probe", "--replay", &log]);
    assert_eq!((&again["functions"], &again["accesses"]), (&found["functions"], &found["accesses"]));
    assert_eq!((&found["functions"], &found["right"]), (&serde_json::json!([[12], [13], [14]]), &Value::from(true)));
    assert!(found["accesses"].as_u64().unwrap() >= 2000 * 18, "{found}");
    // Functions of six bits are not among what it looks for, and it does not notice.
    let bpm = ["probe", "--simulate", "skl-i5-6200u-xps13", "--noise", "none", "--algorithm", "bpm", "--repeats", "20"];
    assert_eq!(json(&bpm)["right"], Value::from(false));
    let report = text(&bpm);
    assert!(report.starts_with("answer      bpm found this mapping; it is not the machine's\n"), "{report}");
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
    let log = scratch.file("log", "memtint probe log 3\n");
    for (arguments, message) in [
        (&["--confidence", "1"][..], "accepted are numbers from 0.5 to 1 (excluded)"),
        (&["--confidence", "nan"], "accepted are numbers from 0.5 to 1"),
        (&["--memory", "1M"], "a pool of 1048576 bytes was asked for; accepted is 2097152 or more"),
        (&["--memory", "4X"], "unit \"X\""),
        (&["--replay", &missing], "cannot be read"),
        (&["--replay", &log], "line 1: \"memtint probe log 3\" found"),
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
        (
            &["--simulate", "rpi4-2g", "--algorithm", "bpm", "--only", "llc"],
            "--only: llc found; accepted with --algorithm bpm",
        ),
        (&["--simulate", "rpi4-2g", "--only", "l3"], "possible values: dram, llc, nodes"),
        (&["--simulate", "rpi4-2g", "--only", "nodes", "--out", &missing], "--out: found with --only nodes"),
        (&["--simulate", "rpi4-2g", "--only", "llc", "--svg", &missing], "--svg: found with --only llc"),
        (&["--self-test", "--only", "llc"], "cannot be used with"),
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

/// Functions of a Ryzen 9900X as published, without row bits: the rows that are assumed contradict them.
const WITHOUT_ROWS: &str = r#"
schema = 1
id = "without-rows"
name = "without rows"
[dram]
standard = "DDR5"
address_bits = 30
functions = [
    { role = "unknown", bits = [19] },
    { role = "unknown", bits = [11, 20, 25] },
    { role = "unknown", bits = [12, 21, 26] },
    { role = "unknown", bits = [13, 24, 29] },
    { role = "unknown", bits = [6, 9, 10, 11, 12, 13] },
]
complete = false
source = "none"
[[region]]
base = 0
size = "1 GiB"
source = "none"
"#;

#[test]
fn a_simulated_machine_without_row_bits_says_what_it_assumes() {
    let scratch = Scratch::new("rows");
    let without = scratch.file("without.toml", WITHOUT_ROWS);
    let output = run(&["--format", "json", "probe", "--only", "dram", "--simulate", &without]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    crate::shared::check("probe", &report);
    let advice = report["oracle"]["advice"][0].as_str().unwrap_or_default();
    assert!(advice.starts_with("row_bits of platform \"without-rows\" are not given"), "{report}");
    assert!(advice.contains("takes address bits 13 and up for rows"), "{report}");
    let with = WITHOUT_ROWS
        .replace("complete = false", "row_bits = [14, 15, 16, 17, 18, 20, 21, 24, 25, 26, 29]\ncomplete = false");
    let with = scratch.file("with.toml", &with);
    let output = run(&["--format", "json", "probe", "--only", "dram", "--simulate", &with]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    crate::shared::check("probe", &report);
    assert_eq!(report["oracle"]["advice"], Value::Null, "{report}");
}
