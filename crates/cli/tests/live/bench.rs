//! Does the bench say what it promises? Its form, never its times: those are the machine's.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use memtint_testing::{alone, skip};
use serde_json::Value;

fn memtint(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command
}

/// The JSON that a call prints, which is as its schema says.
fn printed(arguments: &[&str], text: &str) -> Value {
    let json = serde_json::from_str(text).expect("the output is JSON");
    crate::shared::check_printed(arguments, &json);
    json
}

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(3600);

/// Standard output of a call that must succeed.
fn output(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary was built for this test");
    let mut stdout = child.stdout.take().expect("it was asked for");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            break status;
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            panic!("not done after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = reader.join().expect("the reader does not panic").expect("output is UTF-8");
    assert!(status.success(), "{status}: {text}");
    text
}

/// A platform file of this machine, removed at the end.
struct PlatformFile(PathBuf);

impl PlatformFile {
    fn new() -> Self {
        let detect = memtint(&["platform", "detect", "--functions-of", "skl-e3-1220v5-4x4g"]);
        let text = output(detect);
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("memtint-bench-test-{}-{number}.toml", std::process::id()));
        std::fs::write(&path, text).expect("the temporary directory is writable");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("the temporary directory's name is text")
    }
}

impl Drop for PlatformFile {
    fn drop(&mut self) {
        // What is left behind in the temporary directory does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn privileged() -> bool {
    // SAFETY: takes no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skip("root (CAP_SYS_ADMIN and CAP_SYS_PTRACE)");
    }
    root
}

/// One side of a series: as many samples as runs, and a median among them.
fn check_side(series: &Value, side: &str, unit: &str, runs: usize) {
    let side = &series[side];
    let samples = side[format!("samples_{unit}")].as_array().unwrap_or_else(|| panic!("no samples: {series}"));
    assert_eq!(samples.len(), runs, "{series}");
    let number = |name: &str| side[format!("{name}_{unit}")].as_f64().unwrap_or_else(|| panic!("no {name}: {series}"));
    let (median, min, max) = (number("median"), number("min"), number("max"));
    assert!(0.0 <= min && min <= median && median <= max, "{series}");
    assert!(samples.iter().all(|sample| sample.as_f64().is_some_and(|sample| min <= sample && sample <= max)));
}

fn unit_of(series: &Value) -> &'static str {
    match series["measure"].as_str() {
        Some("wall") => "ms",
        Some(cpu) if cpu.ends_with("CPU") => "ms",
        Some("program, peak resident") => "mib",
        _ => "ns_per_page",
    }
}

#[test]
fn the_bench_measures_both_sides_and_judges_its_targets() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let platform = PlatformFile::new();
    let arguments = ["--format", "json", "bench", "run", "--quick", "--repeat", "2", "--only", "startup,touch"];
    let mut command = memtint(&arguments);
    command.args(["--seed", "7", "--platform", platform.path()]);
    let json = printed(&arguments, &output(command));
    assert_eq!((&json["schema"], &json["seed"], &json["repeat"]), (&1.into(), &7.into(), &2.into()));
    assert!(json["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0));
    assert!(json["colors"].as_str().is_some_and(|colors| colors.starts_with("bank classes 0-")));
    assert_eq!(json["failures"], Value::Array(Vec::new()));
    let series = json["series"].as_array().expect("series are a list");
    for one in series {
        let runs = if one["group"] == "touch" { 2 } else { 6 };
        if one["measure"] == "memtint's processes, CPU" {
            check_side(one, "colored", unit_of(one), runs);
            assert!(one["native"].is_null() && one["ratio"].is_null(), "{one}");
            continue;
        }
        for side in ["native", "colored"] {
            check_side(one, side, unit_of(one), runs);
        }
        // Of a program that does nothing the kernel may count no time at all.
        let counted = !one["measure"].as_str().is_some_and(|measure| measure.ends_with("CPU"));
        assert!(!counted || one["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{one}");
    }
    for subject in ["sequential", "random", "single", "populate", "prefault"] {
        assert!(series.iter().any(|one| one["subject"] == subject), "no {subject}");
    }
    let shares = &json["context"]["colored_share_in_color"]["samples"];
    assert!(shares.as_array().is_some_and(|shares| shares.len() == 2), "{shares}");
    let targets = json["targets"].as_array().expect("targets are a list");
    assert_eq!(targets.len(), 3);
    assert_eq!(targets[0]["verdict"], "not measured");
    assert!(targets[1..].iter().all(|target| target["met"].is_boolean()), "{targets:?}");
    // Two rounds tell nothing from chance.
    let parts = targets.iter().flat_map(|target| target["parts"].as_array().expect("parts are a list"));
    assert!(parts.into_iter().all(|part| part["certain"] == false), "{targets:?}");
}

/// Of the programs those that are installed; with what two native runs differ by.
#[test]
fn steady_parts_are_measured_side_by_side_with_a_control() {
    let _alone = alone();
    if !privileged() {
        return;
    }
    let platform = PlatformFile::new();
    let arguments = ["--format", "json", "bench", "run", "--quick", "--repeat", "1", "--only", "programs"];
    let mut command = memtint(&arguments);
    command.args(["--platform", platform.path()]);
    let json = printed(&arguments, &output(command));
    assert_eq!(json["failures"], Value::Array(Vec::new()));
    let outputs = json["outputs"].as_array().expect("outputs are a list");
    assert!(outputs.iter().all(|output| output["equal"] == true), "{outputs:?}");
    let parts = json["targets"][0]["parts"].as_array().expect("parts are a list");
    assert_eq!(parts.len(), outputs.len());
    for part in parts {
        let (value, made_of) = (part["value_ratio"].as_f64(), &part["made_of"]);
        assert!(value.is_some_and(|ratio| ratio > 0.0), "{part}");
        for field in ["control_ratio", "cpu_ratio"] {
            assert!(made_of[field].as_f64().is_some_and(|ratio| ratio > 0.0), "{part}");
        }
        for field in ["native_waiting_share", "colored_waiting_share"] {
            // What several threads ran may be more than the time.
            assert!(made_of[field].as_f64().is_some_and(|share| share < 1.0), "{part}");
        }
    }
    let steady = json["series"].as_array().expect("series are a list").iter();
    for series in steady.filter(|series| series["measure"].as_str().is_some_and(|name| name.starts_with("steady"))) {
        let unit = if series["subject"] == "redis-server" { "us_per_request" } else { "ms" };
        for side in ["native", "control", "colored"] {
            check_side(series, side, unit, 1);
        }
    }
}

#[test]
fn allocators_are_compared_page_by_page_and_equal_seeds_take_equal_steps() {
    let _alone = alone();
    let run = |seed: &str| -> Value {
        let arguments = ["--format", "json", "bench", "frames", "--quick", "--repeat", "2", "--seed", seed];
        printed(&arguments, &output(memtint(&arguments)))
    };
    let (json, again) = (run("5"), run("5"));
    assert_eq!((&json["schema"], &json["bench"], &json["seed"]), (&1.into(), &"frames".into(), &5.into()));
    assert_eq!((&json["banks"], &json["bank_classes"]), (&"0-3".into(), &16.into()));
    assert_eq!(json["published"]["rows"].as_array().map(Vec::len), Some(10));
    let rows = json["rows"].as_array().expect("rows are a list");
    assert_eq!(rows.len(), 3 * 7 * 4, "states, systems, sizes of 1 to 8 MiB");
    for (row, other) in rows.iter().zip(again["rows"].as_array().expect("rows are a list")) {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name}: {row}"));
        assert!(number("average_ns_min") <= number("average_ns_median"), "{row}");
        assert!(number("average_ns_median") <= number("average_ns_max") && number("average_ns_min") > 0.0, "{row}");
        assert!(number("p999_ns") <= number("max_ns") && number("max_ns") <= number("max_of_any_repeat_ns"), "{row}");
        assert!(number("steps_average") >= 1.0 && number("steps_average") <= number("steps_max"), "{row}");
        for exact in ["system", "state", "pages", "steps_average", "steps_max"] {
            assert_eq!(row[exact], other[exact], "{exact}");
        }
    }
    let steps_max = |system: &str, state: &str| {
        let of = rows.iter().filter(|row| row["system"] == system && row["state"] == state);
        of.filter_map(|row| row["steps_max"].as_u64()).max().expect("there are rows")
    };
    // At most ten splits, two moves each, and a few words of the bitmap; PALLOC breaks a block of 1024 frames.
    assert!(["fresh", "fragmented", "adverse"].iter().all(|state| steps_max("tinted", state) < 64));
    assert!(steps_max("palloc", "fresh") > 1024);
    // 60 % of 16384 frames are free, three quarters of them in the way.
    assert!(steps_max("palloc", "adverse") > 7_000);
    let systems = json["systems"].as_array().expect("systems are a list");
    assert!(systems.iter().all(|system| system["pages_out_of_color"] == 0), "{systems:?}");
    let text = output(memtint(&["bench", "frames", "--quick", "--repeat", "1"]));
    assert!(text.contains("palloc*") && text.contains("published: Yun") && text.contains("11764"), "{text}");
}

#[test]
fn analyses_are_measured_beside_their_textbook() {
    let _alone = alone();
    let arguments = ["--format", "json", "bench", "sched", "--quick", "--sets", "1", "--repeat", "1"];
    let json = printed(&arguments, &output(memtint(&arguments)));
    let rows = json["rows"].as_array().expect("rows are a list");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["same_answers"] == true), "{json}");
}

#[test]
fn equal_seeds_ask_equal_questions_of_simulated_machines() {
    let _alone = alone();
    let arguments = ["bench", "probe", "--platforms", "haswell-e3-1230,zen2-ddr4-1r", "--noise", "none", "--repeat"];
    let run = |repeat, format| {
        let arguments = [&["--format", format][..], &arguments, &[repeat, "--accesses-max", "2000000"]].concat();
        output(memtint(&arguments))
    };
    let json = |repeat| printed(&arguments, &run(repeat, "json"));
    let (one, two) = (json("1"), json("2"));
    assert_eq!((&two["schema"], &two["bench"], &two["seed"]), (&1.into(), &"probe".into(), &1.into()));
    let [haswell, zen] = [0, 1].map(|row| &two["rows"][row]);
    assert_eq!((&haswell["platform"], &haswell["noise"]), (&"haswell-e3-1230".into(), &"none".into()));
    for method in ["memtint", "DRAMA", "DRAMDig"] {
        assert_eq!(haswell[method]["verdicts"], serde_json::json!(["right", "right"]), "{method}");
        let of = |json: &Value, field: &str| json[method]["accesses"][field].as_f64().expect("a number");
        let first = of(&one["rows"][0], "median");
        assert!(of(haswell, "min") <= first && first <= of(haswell, "max"), "{method}: {two}");
        let ratio = of(haswell, "median") / haswell["memtint"]["accesses"]["median"].as_f64().expect("a number");
        let printed = haswell[method]["memtint_by_this"].as_f64();
        assert!(printed.is_none_or(|printed| (printed * ratio - 1.0).abs() < 1e-9), "{method}: {two}");
        assert_eq!(printed.is_some(), method != "memtint");
    }
    // A function of eleven bits: none of the others, however often it reads, and no ratio.
    assert_eq!(zen["memtint"]["verdicts"], serde_json::json!(["right", "right"]));
    for method in ["DRAMA", "DRAMDig"] {
        assert_eq!(zen[method]["memtint_by_this"], Value::Null);
        assert!(!zen[method]["verdicts"].as_array().expect("a list").contains(&"right".into()), "{zen}");
    }
    let text = run("1", "text");
    assert!(text.contains("zen2-ddr4-1r") && text.contains("in which both are always right"), "{text}");
}

#[test]
fn an_ablation_says_what_answers_rest_on() {
    let _alone = alone();
    // Nothing is to be found on this machine, and only one step knows.
    let asked =
        ["bench", "probe", "--ablation", "--platforms", "haswell-e3-1230", "--noise", "closed", "--repeat", "2"];
    let run = |format| output(memtint(&[&["--format", format][..], &asked].concat()));
    let json = printed(&asked, &run("json"));
    let rows = json["rows"].as_array().expect("a list");
    let of = |without: Value| rows.iter().find(|row| row["without"] == without).expect("a row for each step");
    let (whole, sanity) = (of(Value::Null), of("sanity".into()));
    assert_eq!((&whole["refused"], &whole["wrong"]), (&2.into(), &0.into()), "{json}");
    assert_eq!((&sanity["refused"], &sanity["wrong"]), (&0.into(), &2.into()), "{json}");
    assert_eq!(whole["by_whole"], serde_json::json!({"median": 1.0, "min": 1.0, "max": 1.0}));
    assert_eq!(sanity["by_whole"], Value::Null);
    for row in rows {
        let counts = ["right", "partial", "refused", "wrong"].map(|verdict| row[verdict].as_u64().expect("a number"));
        assert_eq!(counts.iter().sum::<u64>(), 2, "{row}");
        assert_eq!(row["accesses"].as_array().expect("a list").len(), 2);
    }
    let text = run("text");
    assert!(
        text.lines().any(|line| line.split_whitespace().take(6).eq(["closed", "sanity", "0", "0", "0", "2"])),
        "{text}"
    );
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_runs() {
    let _alone = alone();
    let refused = |arguments: &[&str]| {
        let output = memtint(arguments).output().expect("the binary was built for this test");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).expect("messages are UTF-8")
    };
    assert!(refused(&["bench", "run", "--platform", "nowhere"]).contains("nowhere"));
    assert!(refused(&["bench", "run", "--platform", "skl-e3-1220v5-4x4g", "--banks", "99"]).contains("99"));
    assert!(refused(&["bench", "run", "--only", "nothing"]).contains("startup"));
    assert!(refused(&["bench", "probe", "--platforms", "rpi4-2g,nowhere"]).contains("nowhere"));
    assert!(refused(&["bench", "probe", "--ablation", "--platforms", "nowhere"]).contains("nowhere"));
    assert!(refused(&["bench", "probe", "--ablation", "--published"]).contains("--published"));
}
