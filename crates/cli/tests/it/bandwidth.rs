//! Budgets of memory bandwidth: `memtint sim` of a scenario with them, and `memtint guard rmin`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::scratch::Scratch;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command.output().expect("the binary was built for this test")
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[&["--format", "json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    crate::shared::check_printed(arguments, &report);
    report
}

fn scenario() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bandwidth-shares.toml");
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_scenario_with_budgets_is_regulated_and_can_be_simulated_without() {
    let scratch = Scratch::new("budgets");
    let file = scratch.file("scenario.toml", &scenario());
    let out = scratch.path("results");
    let regulated = json(&["sim", &file, "--out", &out]);
    let rates = regulated["bandwidth"]["regulators"].as_array().unwrap().iter();
    let rates: Vec<f64> = rates.map(|regulator| regulator["bytes_per_second"].as_f64().unwrap()).collect();
    for (rate, weight) in rates.iter().zip([8.0, 4.0, 2.0, 1.0]) {
        let share = rate / rates.iter().sum::<f64>() * 15.0 / weight;
        assert!((share - 1.0).abs() < 0.02, "{rates:?}");
    }
    let slowdown = |report: &Value| report["tasks"][0]["slowdown"].as_f64().unwrap();
    assert!(slowdown(&regulated) < 1.03, "{}", slowdown(&regulated));
    let free = json(&["sim", &file, "--ignore", "bandwidth"]);
    assert!(slowdown(&free) > 5.0 && free.get("bandwidth").is_none(), "{}", slowdown(&free));
    let table = std::fs::read(Path::new(&out).join("regulators.parquet")).unwrap();
    assert!(table.starts_with(b"PAR1"));
    let columns = ["budget", "donated", "reclaimed", "underruns", "throttled_ns"];
    let has = |name: &str| table.windows(name.len()).any(|window| window == name.as_bytes());
    assert!(columns.into_iter().all(has));
    let text = String::from_utf8(run(&["sim", &file]).stdout).unwrap();
    assert!(text.contains("1040 MB/s guaranteed, 50 periods of 1.000 ms"), "{text}");
    assert!(text.contains("core 0     foreground  lines   all      8056"), "{text}");
}

#[test]
fn a_promise_that_is_not_kept_is_a_no_and_budgets_that_cannot_be_are_refused() {
    let scratch = Scratch::new("no-budgets");
    let late = scenario().replace("sharing = \"off\"", "skid = \"1 us\", skid_events = 1");
    let output = run(&["sim", &scratch.file("late.toml", &late)]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("bandwidth is not guaranteed: core 0 sent"), "{message}");
    let much = scenario().replace("weight = 8", "weight = 8\nmb_per_s = 9");
    let without = scenario().replace("bandwidth = {", "bandwith = {");
    for (text, words) in [
        (much, "group \"foreground\": the amount is given 2 times; accepted is one of mb_per_s, budget and weight"),
        (without, "simulation: \"bandwith\" is no field; the nearest is \"bandwidth\""),
    ] {
        let output = run(&["sim", &scratch.file("wrong.toml", &text)]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(words), "{message}");
    }
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/two-allocators.toml");
    let output = run(&["sim", "--ignore", "bandwidth", other.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("--ignore bandwidth is given, and no task or group has a bandwidth budget"), "{message}");
}

/// Colors and budgets of a system file, judged before anything enforces them.
#[test]
fn a_system_file_is_simulated_with_its_colors_and_bandwidth() {
    let system = |control: &str, video: &str| {
        format!(
            "platform = \"skl-e3-1220v5-4x4g\"\n\
             [simulation]\ndevice = \"ddr4-2400\"\nduration = \"4 ms\"\ncores = {{ count = 4, mhz = 3000 }}\n\
             caches = {{ l1 = {{ size = \"32 KiB\", ways = 8 }}, latency_cycles = [4, 12, 42, 60, 120] }}\n\
             system = {{ fault = \"0 ns\" }}\n\
             [[task]]\nname = \"control\"\nbanks = \"0-7\"\ncores = \"2\"\nwcet = \"1 ms\"\n\
             workload = {{ kind = \"bandwidth\", size = \"16 MiB\" }}\n{control}\n\
             [[task]]\nname = \"video\"\nbanks = \"8-15\"\ncores = \"1\"\n\
             workload = {{ kind = \"bandwidth\", size = \"16 MiB\" }}\n{video}\n"
        )
    };
    let scratch = Scratch::new("simulated");
    let budget = |size: &str, period: u32| format!("bandwidth = {{ budget = \"{size}\", period = \"{period} us\" }}");
    let sound = scratch.file("system.toml", &system(&budget("512 KiB", 1000), &budget("256 KiB", 1000)));
    let report = json(&["sim", &sound]);
    assert_eq!(report["not_considered"], serde_json::json!(["task.wcet"]));
    let regulators = report["bandwidth"]["regulators"].as_array().unwrap();
    let of = |name: &str| regulators.iter().map(|regulator| regulator[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("subject"), ["task control", "task video"]);
    assert_eq!((of("budget"), &report["tasks"][0]["cores"]), (vec![8192.into(), 4096.into()], &Value::from("2")));
    let rate = |task: usize| report["tasks"][task]["read_bytes_per_second"].as_f64().unwrap() / 1e6;
    assert!((rate(0) / 524.3 - 1.0).abs() < 0.02 && (rate(1) / 262.1 - 1.0).abs() < 0.02, "{} {}", rate(0), rate(1));
    let free = json(&["sim", &sound, "--ignore", "bandwidth"]);
    assert!(free.get("bandwidth").is_none() && free["tasks"][0]["read_bytes_per_second"].as_f64().unwrap() > 2e9);
    let printed = String::from_utf8(run(&["sim", &sound, "--print-config"]).stdout).unwrap();
    assert!(printed.contains("banks = \"8-15\"") && printed.contains("budget = "), "{printed}");
    for (control, video, words) in [
        (budget("512 KiB", 1000), budget("256 KiB", 500), "\"video\": bandwidth.period is 500 us; accepted is 1 ms"),
        (budget("900 KiB", 1000), budget("256 KiB", 1000), "the sum of all budgets"),
        (String::new(), "refresh = \"0\"".to_owned(), "sim does not consider task.refresh"),
        (String::new(), "period = \"1 ms\"".to_owned(), "task \"video\": references is missing"),
        (
            String::new(),
            "[[task]]\nname = \"other\"\nbanks = \"9\"\nworkload = { kind = \"stream\", size = \"3 MiB\" }".to_owned(),
            "task \"other\": colors is bank classes 9, which task \"video\" has, too",
        ),
    ] {
        let output = run(&["sim", &scratch.file("wrong.toml", &system(&control, &video))]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(words), "{message}");
    }
}

/// PC6400, the modules of the slides.
#[test]
fn the_worst_case_of_a_device_is_calculated_and_simulated() {
    let slides = json(&["guard", "rmin", "--platform", "core2quad-8400", "--device", "ddr2-800"]);
    let number = |value: &Value| value.as_f64().unwrap();
    assert!((number(&slides["r_min_mb_per_s"]) - 1041.0).abs() < 1.0, "{slides}");
    assert_eq!((number(&slides["slides"]["line_ns"]), &slides["period"]["lines"]), (47.5, &Value::from(16257)));
    let patterns = slides["patterns"].as_array().unwrap();
    assert_eq!(patterns.iter().map(|pattern| number(&pattern["line_ns"])).collect::<Vec<_>>(), [57.5, 60.0, 22.5]);
    for pattern in &patterns[..2] {
        let ratio = number(&pattern["simulated_mb_per_s"]) / number(&pattern["calculated_mb_per_s"]);
        assert!((1.0..1.02).contains(&ratio), "{pattern}");
    }
    let text = run(&["guard", "rmin", "--platform", "core2quad-8400"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("the slowest of its family") && text.contains("29 % more"), "{text}");
    for (arguments, words) in [
        (&["--platform", "rpi-zero2"][..], "its memory is LPDDR2"),
        (&["--platform", "nothing"], "nothing"),
        (&["--platform", "p4080", "--device", "ddr9"], "ddr9"),
        (&["--platform", "p4080", "--refresh", "fgr4"], "fgr4"),
        (&["--platform", "p4080", "--period", "0 ns"], "--period"),
    ] {
        let output = run(&[&["guard", "rmin"], arguments].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
}

#[test]
fn the_bench_says_what_an_event_takes_and_beside_what() {
    let bench = json(&["bench", "guard", "--quick", "--events", "1000"]);
    let rows = bench["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let actions = |side: &str| row["cpu_ns"][side]["actions"].as_u64().unwrap();
        assert!(actions("guard") > 0 && actions("textbook") > 0, "{row}");
        assert!(row["cpu_ns"]["guard"]["median"].as_f64().unwrap() > 0.0, "{row}");
    }
    // Without sharing, other cores have nothing to look at: both do the same.
    assert_eq!(rows[0]["cpu_ns"]["guard"]["actions"], rows[0]["cpu_ns"]["shared_words"]["actions"]);
    assert!(bench["states_per_second"]["states"].as_u64().unwrap() >= 40_000, "{bench}");
    assert_eq!((&bench["seed"], &bench["quick"]), (&Value::from(1), &Value::from(true)));
}

/// A program alone on a core with this budget and period, whose lines it keeps by period.
fn program_alone(trace: &str, mb_per_s: u64, period: &str) -> String {
    format!(
        "schema = 1\nplatform = \"core2quad-8400\"\n\
         [simulation]\ndevice = \"ddr2-800\"\nduration = \"1000 ms\"\ncores = {{ count = 1, mhz = 2660, window = 96 }}\n\
         system = {{ fault = \"0 ns\" }}\n\
         bandwidth = {{ period = \"{period}\", guaranteed_mb_per_s = 100000, quantum = 16, history = true }}\n\
         caches = {{ l1 = {{ size = \"32 KiB\", ways = 8 }}, llc = {{ size = \"64 KiB\", ways = 8 }}, latency_cycles = [3, 14, 14, 60, 150] }}\n\
         [[group]]\nname = \"program\"\ncores = \"0\"\nmb_per_s = {mb_per_s}\n\
         [[task]]\nname = \"program\"\ncores = \"0\"\nworkload = {{ kind = \"trace\", file = \"{trace}\" }}\n"
    )
}

#[test]
fn the_run_time_of_a_recorded_program_under_a_budget_is_predicted() {
    let scratch = Scratch::new("predicted");
    let input =
        scratch.file("input", &(0..2000u64).map(|index| format!("{}\n", index * 7919 % 2003)).collect::<String>());
    for program in ["sort", "gzip"] {
        let trace = scratch.path(program);
        let recorded = run(&[
            "trace",
            "record",
            "-o",
            &trace,
            "--",
            program,
            if program == "sort" { "-n" } else { "-nc" },
            &input,
        ]);
        assert!(recorded.status.success(), "{recorded:?}");
        let profile = scratch.path("profile");
        json(&["sim", &scratch.file("alone.toml", &program_alone(&trace, 20_000, "10 us")), "--out", &profile]);
        let table = std::fs::read(Path::new(&profile).join("periods.parquet")).unwrap();
        assert!(table.starts_with(b"PAR1"));
        let report = format!("{profile}/report.json");
        for budget in [50, 150, 400] {
            let text = program_alone(&trace, budget, "100 us");
            let regulated = json(&["sim", &scratch.file("regulated.toml", &text)])["simulated_ns"].as_f64().unwrap();
            let mb_per_s = budget.to_string();
            let predicted = json(&["guard", "predict", &report, "--mb-per-s", &mb_per_s, "--period", "100 us"]);
            let (time, slowdown) =
                (predicted["predicted_ns"].as_f64().unwrap(), predicted["slowdown"].as_f64().unwrap());
            println!(
                "{program} at {budget} MB/s: {slowdown:.2} times, error {:+.2} %",
                (time / regulated - 1.0) * 100.0
            );
            assert!(
                (time / regulated - 1.0).abs() < 0.05 && slowdown > 1.1,
                "{program}, {budget}: {predicted}, {regulated}"
            );
        }
    }
}

#[test]
fn what_is_no_profile_is_refused() {
    let scratch = Scratch::new("no-profile");
    let predict = |file: &str, more: &[&str]| {
        let output = run(&[&["guard", "predict", file, "--mb-per-s", "100"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let period = |began: i64, throttled: bool| {
        format!("{{\"subject\":\"core 0\",\"began_ns\":{began},\"events\":9,\"throttled\":{throttled}}}")
    };
    let report = |subjects: &str, history: &str| {
        let counters = "[{\"counts\":\"lines\",\"event_bytes\":64}]";
        scratch.file("report.json", &format!(
            "{{\"simulated_ns\":100,\"bandwidth\":{{\"counters\":{counters},\"regulators\":[{subjects}],\"history\":[{history}]}}}}"
        ))
    };
    let one = "{\"subject\":\"core 0\"}";
    let cases = [
        (scratch.file("other.json", "{\"simulated_ns\":1}"), &[][..], "bandwidth is missing; accepted is a report"),
        (scratch.file("text.json", "text"), &[], "no report of memtint sim"),
        (
            report(one, ""),
            &[],
            "bandwidth.history is missing; accepted is a report of a system file with history = true",
        ),
    ];
    for (file, more, message) in cases {
        assert!(predict(&file, more).contains(message), "{message}");
    }
    let throttled = predict(&report(one, &period(0, true)), &[]);
    assert!(throttled.contains("core 0 was throttled in the period from 0 ns on"), "{throttled}");
    let backwards = predict(&report(one, &format!("{},{}", period(50, false), period(0, false))), &[]);
    assert!(backwards.contains("accepted are ascending times"), "{backwards}");
    let two = predict(&report(&format!("{one},{{\"subject\":\"core 1\"}}"), &period(0, false)), &[]);
    assert!(two.contains("--subject is missing; accepted is one of [\"core 0\", \"core 1\"]"), "{two}");
    let slow = predict(&report(one, &period(0, false)), &["--period", "100 ns"]);
    assert!(slow.contains("regulator: lines is 0; accepted is 1"), "{slow}");
    let busy = predict(&report(one, &period(0, false)), &["--overhead", "1 ms"]);
    assert!(busy.contains("interrupts that take a whole period leave no time"), "{busy}");
}
