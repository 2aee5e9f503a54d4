//! Does `memtint dram` give the recorded numbers, say what it promises, and refuse what is wrong?

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn output(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command.output().expect("the binary was built for this test")
}

fn text(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text is UTF-8")
}

fn json(arguments: &[&str]) -> Value {
    let text = text(&[&["--format", "json"], arguments].concat());
    let report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    crate::shared::check_printed(arguments, &report);
    report
}

/// The message of a call that must fail with status 2.
fn refused(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("messages are UTF-8")
}

/// A file of this test's own, removed at the end.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("memtint-dram-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("the temporary directory is writable");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("the temporary directory's name is text")
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // What is left behind in the temporary directory does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn replay(device: &str, trace: &str, requests: u64, period: u64, options: &[&str]) -> Value {
    let (requests, period) = (requests.to_string(), period.to_string());
    let fixed = ["dram", "replay", "--device", device, "--trace", trace, "--requests", &requests, "--period", &period];
    json(&[&fixed, options].concat())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is a number"))
}

const DDR3: [&str; 4] = ["--density", "4", "--width", "8"];

/// DDR3-1600 without refresh: Ramulator 2.1's and DRAMsim3's cycles and latencies, which agree but for one cycle of
/// DRAMsim3's queue.
#[test]
fn lone_requests_take_the_recorded_time() {
    for (trace, requests, period, cycles, mean, min, p50, p99, max) in [
        ("random", 200_000, 20, 4_000_018, 40.71, 15, 37, 75, 169),
        ("random", 50_000, 100, 4_999_938, 37.00, 15, 37, 37, 37),
        ("stream", 200_000, 20, 3_999_996, 15.22, 15, 15, 21, 37),
        ("stream", 50_000, 100, 4_999_916, 15.17, 15, 15, 15, 37),
    ] {
        let report = replay("ddr3-1600", trace, requests, period, &[&DDR3[..], &["--no-refresh"]].concat());
        let latency = &report["latency_cycles"];
        assert_eq!(report["cycles"], cycles, "{report}");
        assert_eq!((number(&latency["mean"]) * 100.0).round() / 100.0, mean, "{report}");
        let found = [&latency["min"], &latency["p50"], &latency["p99"], &latency["max"]];
        assert_eq!(found, [min, p50, p99, max], "{report}");
        assert_eq!((&report["refreshes"], &report["row_conflicts"].is_u64()), (&0.into(), &true), "{report}");
    }
}

#[test]
fn refreshed_and_full_queues_are_near_the_recorded_ones() {
    for (trace, period, requests, mean, cycles) in [
        ("random", 100, 50_000, (40.10, 41.22), (4_999_938.0, 4_999_939.0)),
        ("stream", 100, 50_000, (19.77, 19.79), (4_999_916.0, 4_999_917.0)),
    ] {
        let report = replay("ddr3-1600", trace, requests, period, &DDR3);
        let (found, total) = (number(&report["latency_cycles"]["mean"]), number(&report["cycles"]));
        assert!((mean.0 * 0.98..=mean.1 * 1.02).contains(&found), "{report}");
        assert!((cycles.0 - 1.0..=cycles.1 + 1.0).contains(&total), "{report}");
        // One each tREFI of 6240 cycles, the first after one.
        assert_eq!(report["refreshes"], 801, "{report}");
    }
}

#[test]
fn a_replay_says_everything_with_its_units() {
    let report = replay("ddr4-2400", "mixed", 20_000, 0, &["--ranks", "2", "--check"]);
    let count = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("no {name}: {report}"));
    assert_eq!(count("requests"), 20_000);
    assert_eq!(count("reads") + count("writes"), 20_000);
    assert!((6_000..7_200).contains(&count("writes")), "a third writes: {report}");
    assert_eq!(report["device"], "ddr4-2400 8Gb x8");
    assert_eq!(report["banks"], 32);
    assert!(count("commands_checked") > 40_000 && report["violation"].is_null(), "{report}");
    let parts = ["activate", "read", "write", "refresh", "background"];
    let energy =
        |part: &str| report["energy_picojoules"][part].as_u64().unwrap_or_else(|| panic!("no {part}: {report}"));
    assert_eq!(parts.iter().map(|part| energy(part)).sum::<u64>(), energy("total"));
    assert!(parts.iter().all(|part| energy(part) > 0), "{report}");
    let seconds = number(&report["simulated_seconds"]);
    assert!((seconds - count("cycles") as f64 * 2.5e-9 / 3.0).abs() < 1e-11, "{report}");
    let served = count("row_hits") + count("row_misses") + count("row_conflicts");
    let rate = number(&report["bandwidth_bytes_per_second"]);
    assert!((rate * seconds / (served * 64) as f64 - 1.0).abs() < 1e-9, "{report}");
    assert!(rate < 19.2e9, "no faster than the bus: {report}");
    assert!(replay("lpddr4-3200", "random", 100, 0, &[])["energy_picojoules"].is_null(), "none are published");
    let again = replay("ddr4-2400", "mixed", 20_000, 0, &["--ranks", "2"]);
    assert_eq!(again["result_hash"], report["result_hash"], "checking changes nothing");
    let other = replay("ddr4-2400", "mixed", 20_000, 0, &["--ranks", "2", "--seed", "0x17"]);
    assert_ne!(other["result_hash"], report["result_hash"]);
}

#[test]
fn every_option_of_the_controller_runs_and_is_legal() {
    let options: [&[&str]; 9] = [
        &["--scheduler", "fcfs", "--page", "closed"],
        &["--scheduler", "fr-fcfs", "--cap", "4", "--page", "timeout:100"],
        &["--scheduler", "fr-fcfs", "--cap", "none", "--refresh", "staggered", "--ranks", "2"],
        &["--scheduler", "par-bs", "--cap", "3"],
        &["--queue", "64:16", "--watermarks", "12:2"],
        &["--queue", "128:64", "--sharing", "per-bank"],
        &["--refresh", "fgr2"],
        &["--refresh", "fgr4"],
        &["--refresh", "elastic", "--mapping", "skl-e3-1220v5-4x4g", "--channel", "1"],
    ];
    for options in options {
        let report = replay("ddr4-2400", "mixed", 3_000, 0, &[options, &["--check"]].concat());
        assert_eq!(report["requests"], 3_000, "{options:?}");
    }
    assert!(
        number(&replay("lpddr4-3200", "random", 3_000, 9, &["--refresh", "per-bank", "--check"])["bank_refreshes"])
            > 0.0
    );
    assert!(
        number(&replay("ddr5-4800", "random", 3_000, 9, &["--refresh", "same-bank", "--check"])["bank_refreshes"])
            > 0.0
    );
}

/// The same requests in three forms; those with times keep them.
#[test]
fn trace_files_of_three_forms() {
    let addresses: Vec<u64> = (0..300u64).map(|index| index * 7919 * 64 % (1 << 30)).collect();
    let lines = |line: &dyn Fn(usize, u64) -> String| {
        addresses.iter().enumerate().map(|(index, &addr)| line(index, addr)).collect::<String>()
    };
    let own = lines(&|index, addr| format!("{addr:#x} {} {}\n", if index % 5 == 0 { "W" } else { "R" }, index * 50));
    let dramsim = lines(&|index, addr| {
        format!("{addr:#X} {} {}\n", if index % 5 == 0 { "WRITE" } else { "READ" }, index * 50).replace("0X", "0x")
    });
    let ramulator = lines(&|index, addr| format!("{} {addr}\n", if index % 5 == 0 { "ST" } else { "LD" }));
    let replayed = |name: &str, content: &str, options: &[&str]| {
        let file = TemporaryFile::new(name, content);
        json(&[&["dram", "replay", "--trace", file.path(), "--check"], options].concat())
    };
    let (own_report, dramsim_report) = (replayed("own", &own, &[]), replayed("dramsim", &dramsim, &[]));
    let ramulator_report = replayed("ramulator", &ramulator, &["--period", "50"]);
    assert_eq!((&own_report["requests"], &own_report["writes"]), (&300.into(), &60.into()));
    assert_eq!(own_report["result_hash"], dramsim_report["result_hash"]);
    assert_eq!(own_report["result_hash"], ramulator_report["result_hash"]);
    assert!(number(&own_report["cycles"]) > 299.0 * 50.0);
    assert!(number(&replayed("fast", &own, &["--period", "0"])["cycles"]) < 299.0 * 50.0, "the option wins");
    assert_eq!(replayed("few", &own, &["--requests", "10"])["requests"], 10);
}

#[test]
fn a_command_trace_can_be_checked_apart() {
    let commands = TemporaryFile::new("commands", "");
    replay("ddr4-2400", "random", 2_000, 0, &["--commands", commands.path()]);
    let check = |file: &str| output(&["--format", "json", "dram", "check", file, "--device", "ddr4-2400"]);
    let legal = check(commands.path());
    assert_eq!(legal.status.code(), Some(0), "{legal:?}");
    let lines = std::fs::read_to_string(commands.path()).unwrap();
    // One ACT too early for its bank group or window breaks a rule that the report names with both commands.
    let first = lines.lines().next().unwrap();
    let broken = TemporaryFile::new("broken", &format!("{first}\n1 ACT 0 1 5\n{lines}"));
    let illegal = check(broken.path());
    assert_eq!(illegal.status.code(), Some(1), "{illegal:?}");
    let report: Value = serde_json::from_slice(&illegal.stdout).unwrap();
    crate::shared::check("dram-check", &report);
    assert_eq!((&report["legal"], &report["line"]), (&false.into(), &2.into()), "{report}");
    assert!(report["violation"]["constraint"].as_str().unwrap().starts_with("tRRD"), "{report}");
    assert_eq!(report["violation"]["command"], "1 ACT 0 1 5");
    assert_eq!(report["violation"]["earlier_command"], first);
    let nonsense = TemporaryFile::new("nonsense", "5 JUMP 0 0 0\n");
    let message = refused(&["dram", "check", nonsense.path(), "--device", "ddr4-2400"]);
    assert!(message.contains("line 1") && message.contains("REFpb"), "{message}");
}

/// Only what was checked is called legal: not an empty trace, and not refresh without a check of it.
#[test]
fn what_was_not_checked_is_not_called_legal() {
    let file = TemporaryFile::new("empty", "# nothing\n");
    let check = ["dram", "check", "--device", "ddr4-2400", file.path()];
    assert!(refused(&check).contains("it has no command; accepted is one with at least one"));
    let replay = ["dram", "replay", "--device", "ddr4-2400", "--check", "--trace"];
    assert!(refused(&[&replay[..], &[file.path()]].concat()).contains("it has no request for this channel"));
    let file = TemporaryFile::new("one", "100 ACT 0 0 5\n");
    let said = text(&["dram", "check", "--device", "ddr4-2400", file.path()]);
    assert!(
        said.contains("1 commands, all legal between commands; whether rows are refreshed is not checked"),
        "{said}"
    );
    let said = text(&[&replay[..], &["stream", "--requests", "10", "--no-refresh"]].concat());
    assert!(said.contains("all legal between commands; whether rows are refreshed is not checked"), "{said}");
}

/// A burst keeps every timing, and postpones REF beyond what JEDEC accepts: both are said, and the answer is no.
#[test]
fn a_burst_is_not_all_legal() {
    let fixed =
        ["dram", "replay", "--device", "ddr4-2400", "--trace", "mixed", "--requests", "3000", "--check", "--refresh"];
    for (refresh, status) in [("burst", 1), ("all-bank", 0), ("staggered", 0), ("elastic", 0)] {
        let arguments = [&fixed[..], &[refresh]].concat();
        let found = output(&[&["--format", "json"], &arguments[..]].concat());
        let report: Value = serde_json::from_slice(&found.stdout).unwrap();
        crate::shared::check("dram-replay", &report);
        assert_eq!((found.status.code(), &report["violation"]), (Some(status), &Value::Null), "{refresh}: {report}");
        assert_eq!(report["postponed_beyond_standard"].is_null(), status == 0, "{refresh}: {report}");
        let text = String::from_utf8(output(&arguments).stdout).unwrap();
        assert_eq!(text.contains("all legal\n"), status == 0, "{refresh}: {text}");
        let words =
            "not all legal: timings are kept, but JEDEC limits how many REF commands are postponed or pulled in";
        assert_eq!(text.contains(words), status == 1, "{refresh}: {text}");
    }
}

/// Refreshes that never come break no rule between two commands; the rows are lost all the same.
#[test]
fn rows_that_nobody_refreshes_are_found_in_a_trace() {
    let interval = 9360u64;
    let refreshed =
        |count: u64| -> String { (1..=count).map(|index| format!("{} REF 0 0 0\n", index * interval)).collect() };
    let check = |text: &str| {
        let file = TemporaryFile::new("refreshes", text);
        let options = ["--device", "ddr4-2400", "--refresh", "burst"];
        let found = output(&[&["--format", "json", "dram", "check", file.path()], &options[..]].concat());
        (found.status.code(), serde_json::from_slice::<Value>(&found.stdout).unwrap())
    };
    let (code, report) = check(&refreshed(16_400));
    assert_eq!((code, &report["lost_rows"]), (Some(0), &Value::Null), "{report}");
    assert_eq!(report["longest_without_refresh_cycles"], serde_json::json!([8192 * interval]));
    let (code, report) = check(&format!("{}76810000 ACT 0 0 5\n", refreshed(8191)));
    // What comes too late is beyond the limits of postponed REF commands too, and breaks no rule between two commands.
    assert_eq!((code, &report["legal"], &report["violation"]), (Some(1), &false.into(), &Value::Null), "{report}");
    assert!(report["lost_rows"].as_str().unwrap().contains("bin 8191 of 8192"), "{report}");
}

#[test]
fn what_is_wrong_is_refused_with_what_is_accepted() {
    for (options, accepted) in [
        (&["--device", "ddr9-1"][..], "ddr4-2400"),
        (&["--density", "3"], "4Gb x8"),
        (&["--ranks", "17"], "1 to 16"),
        (&["--refresh", "per-bank"], "all-bank, staggered"),
        (&["--refresh", "sometimes"], "elastic"),
        (&["--scheduler", "best"], "par-bs"),
        (&["--page", "timeout"], "timeout:CYCLES"),
        (&["--queue", "32"], "32:16"),
        (&["--queue", "0:32"], "1 to 30000"),
        (&["--watermarks", "4:9"], "0 to 3"),
        (&["--cap", "0"], "none"),
        (&["--writes", "101"], "0..=100"),
        (&["--seed", "0xZ"], "hexadecimal"),
        (&["--mapping", "no-such-machine"], "no-such-machine"),
        (&["--channel", "1"], "robabgracoch has one channel"),
        (&["--trace", "/nowhere/trace"], "/nowhere/trace"),
        (&["--no-refresh", "--refresh", "all-bank"], "cannot be used with"),
    ] {
        let message = refused(&[&["dram", "replay", "--requests", "10"], options].concat());
        assert!(message.contains(accepted), "{options:?}: {message}");
    }
    for (content, line, accepted) in [
        ("hello\n", 1, "0xADDRESS R|W [CYCLE]"),
        ("0x40 R\n\n# note\n0x80 X\n", 4, "0xADDRESS R|W [CYCLE]"),
        ("LD 64\nLD -1\n", 2, "below 2^64"),
        ("0x40 READ 9\n0x80 READ 8\n", 2, "at least 9"),
        ("0xffffffffffff R\n", 1, "outside"),
    ] {
        let file = TemporaryFile::new("wrong", content);
        let message = refused(&["dram", "replay", "--trace", file.path()]);
        assert!(message.contains(&format!("line {line}:")) && message.contains(accepted), "{content:?}: {message}");
        assert!(message.contains(file.path()), "{message}");
    }
}

#[test]
fn standards_are_listed_and_shown() {
    let list = json(&["dram", "list"]);
    let names: Vec<&str> =
        list["standards"].as_array().unwrap().iter().filter_map(|row| row["standard"].as_str()).collect();
    for name in ["ddr2-800", "ddr3-1600", "ddr4-2400", "ddr5-4800", "lpddr4-3200"] {
        assert!(names.contains(&name), "{names:?}");
        assert!(text(&["dram", "show", name]).contains("tRCD"), "{name}");
    }
    let shown = json(&["dram", "show", "ddr4-2400", "--density", "8", "--width", "8", "--ranks", "2"]);
    let timing = &shown["timing_cycles"];
    assert_eq!((&timing["CL"], &timing["tRFC"], &timing["tFAW"]), (&17.into(), &420.into(), &26.into()));
    assert!(shown["sources"].as_array().unwrap().len() > 20, "every constraint has its source");
}

/// Its form and its answers, never its times.
#[test]
fn bench_sim_repeats_its_answers() {
    let bench = || json(&["bench", "sim", "--requests", "4000", "--repeat", "2"]);
    let (one, other) = (bench(), bench());
    let rows = one["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for (row, again) in rows.iter().zip(other["rows"].as_array().unwrap()) {
        assert_eq!(row["requests"], 4000);
        let rate = |name: &str| number(&row[name]);
        let median = rate("requests_per_cpu_second");
        assert!(rate("requests_per_cpu_second_min") <= median && median <= rate("requests_per_cpu_second_max"));
        assert_eq!(row["baseline"]["same_result"], true, "{row}");
        for name in ["device", "trace", "cycles", "row_hits", "result_hash"] {
            assert!(!row[name].is_null(), "{name}");
            assert_eq!(row[name], again[name], "{name}");
        }
    }
    assert_eq!(one["scaling"].as_array().unwrap().len(), 9);
    assert!(one["published"]["rates"].as_array().unwrap().len() > 10);
    assert!(one["machine"]["cores"].is_u64() && one["seed"].is_u64());
}
