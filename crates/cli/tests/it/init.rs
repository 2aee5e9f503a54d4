//! Does a first system file divide a platform among tasks, and is it taken by the verbs that it names?
//!
//! `cargo test -p memtint-cli --test it init::`

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use memtint_system::{Assignment, colors_in_common};

use crate::scratch::Scratch;

const CONTROL: &str = "control period=20ms wcet=3ms -- ./control --fast";

fn init(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.arg("init").args(arguments).env_remove("MEMTINT_PLATFORM");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("cargo builds it");
    // A refusal may come before the input is read.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it is waited for once")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn memtint(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memtint")).args(arguments).output().expect("cargo builds it")
}

#[test]
fn the_commands_in_the_new_file_succeed() {
    let scratch = Scratch::new("init");
    let file = scratch.path("flight.toml");
    let arguments = [
        &file,
        "--platform",
        "skl-e3-1220v5-4x4g",
        "--device",
        "ddr4-2400",
        "--cpus",
        "2-3",
        "--task",
        CONTROL,
        "--task",
        "camera -- ./camera",
    ];
    let output = init(&arguments, "");
    assert!(output.status.success(), "{output:?}");

    let text = std::fs::read_to_string(&file).unwrap();
    let assignment = Assignment::parse(&text, "f").unwrap();
    let [control, camera] = assignment.tasks() else { panic!("{text}") };
    assert_eq!((control.cores(), camera.cores()), (Some(&[2][..]), Some(&[3][..])));
    assert_eq!(colors_in_common(control.selection(), camera.selection()), None);
    assert_eq!(control.command(), ["./control", "--fast"]);

    let advised: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#     memtint ")).collect();
    let verbs: Vec<&str> = advised.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(verbs, ["system", "analyze", "run", "inspect"]);
    assert!(text.contains("each wcet must include the delay by their requests"), "{text}");
    for line in &advised[..2] {
        let output = memtint(&line.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {output:?}");
    }

    let before = std::fs::read(&file).unwrap();
    let again = init(&arguments, "");
    assert!(
        again.status.code() == Some(2) && said(&again).contains("exists; accepted is another FILE, or --force"),
        "{again:?}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert!(init(&[&arguments[..], &["--force"]].concat(), "").status.success());
}

/// JESD79-4: tREFI of 7.8 us, tRFC of 350 ns for 8 Gb.
#[test]
fn refresh_is_that_of_the_standard() {
    let output = init(
        &["-", "--platform", "skl-e3-1220v5-4x4g", "--device", "ddr4-2400", "--density", "8", "--task", CONTROL],
        "",
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("interval = \"7.8 us\"\nduration = \"350 ns\"\n"), "{text}");
    let without = init(&["-", "--platform", "jetson-nano", "--task", CONTROL], "");
    assert!(said(&without).contains("without a table [refresh], analyze assumes that refresh delays nothing"));
    let text = String::from_utf8(without.stdout).unwrap();
    let scratch = Scratch::new("init-refresh");
    let analyzed = memtint(&["analyze", &scratch.file("f.toml", &text)]);
    let report = String::from_utf8(analyzed.stdout).unwrap();
    assert!(
        report.contains("assumes: refresh of memory delays nothing: the file has neither [refresh] nor [memory]"),
        "{report}"
    );
}

#[test]
fn answers_make_the_same_file_as_options() {
    let platform = ["-", "--platform", "jetson-nano"];
    let asked =
        init(&[&platform[..], &["--ask"]].concat(), "control\n./control --fast\n20 ms\n3ms\n\ncamera\n\n\n1\n\n");
    let named = init(&[&platform[..], &["--task", CONTROL, "--task", "camera cores=1"]].concat(), "");
    assert!(named.status.success(), "{named:?}");
    assert_eq!(String::from_utf8_lossy(&asked.stdout), String::from_utf8_lossy(&named.stdout), "{asked:?}");
}

#[test]
fn this_machine_is_described_beside_the_file_or_not_at_all() {
    let scratch = Scratch::new("init-machine");
    let file = scratch.path("new.toml");
    let machine = ["--functions-of", "skl-e3-1220v5-4x4g", "--task", "a", "--task"];
    let wrong = init(&[&[file.as_str()], &machine[..], &["b cores=9999"]].concat(), "");
    if said(&wrong).contains("needs CAP_SYS_ADMIN") {
        memtint_testing::skip("CAP_SYS_ADMIN to see physical addresses");
        return;
    }
    assert!(wrong.status.code() == Some(2) && said(&wrong).contains("task \"b\": cores is \"9999\""), "{wrong:?}");
    assert_eq!(std::fs::read_dir(scratch.folder()).unwrap().count(), 0);
    let output = init(&[&[file.as_str()], &machine[..], &["b"]].concat(), "");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("platform = \"new.platform.toml\""), "{text}");
    assert!(memtint(&["palette", &scratch.path("new.platform.toml")]).status.success());
    assert!(Assignment::load(file.as_ref()).is_ok());
}

#[test]
fn what_is_not_said_is_asked_for() {
    let scratch = Scratch::new("init-wrong");
    let file = scratch.path("new.toml");
    let platform = ["--platform", "jetson-nano"];
    let cases: [(&[&str], &str, &str); 9] = [
        (&[], "", "--task is missing; accepted is \"NAME FIELD=VALUE... -- COMMAND\""),
        (&["--task", "a perod=1ms"], "", "\"perod\" is no field; the nearest is \"period\""),
        (&["--task", "a", "--task", "a"], "", "name of task is \"a\" twice; accepted is each name once"),
        (&["--task", "a", "--cpus", "!0"], "", "--cpus: \"!0\" is not plain; accepted is a plain list"),
        (&["--ask"], "control\n./control\n", "standard input ended; accepted are answers to all questions, or --task"),
        (&["--ask"], "a\n\n20 ms\n\n", "task \"a\": wcet is missing; accepted is a time"),
        (
            &["--task", "a", "--device", "ddr4-2400"],
            "",
            "of DDR4; accepted is a standard of the platform's memory, LPDDR4",
        ),
        (
            &["--task", "a bandwidth=1MiB/1ms", "--task", "b bandwidth=1MiB/2ms"],
            "",
            "task \"b\": bandwidth.period is 2 ms; accepted is 1 ms",
        ),
        (&["--ask"], "a\n\n20 d\n1 ms\n\n", "period is \"20 d\"; accepted is a text with a number"),
    ];
    for (arguments, input, expected) in cases {
        let output = init(&[&[file.as_str()], &platform[..], arguments].concat(), input);
        assert!(output.status.code() == Some(2) && said(&output).contains(expected), "{arguments:?}: {output:?}");
    }
    assert_eq!(std::fs::read_dir(scratch.folder()).unwrap().count(), 0);
}

/// An analysis that the file names takes it; where none would, none is named.
#[test]
fn no_command_is_named_that_refuses_the_file() {
    let scratch = Scratch::new("init-advice");
    let timed = "a period=10ms wcet=1ms -- true";
    let cases: [(&[&str], Option<&str>); 7] = [
        (&[timed], Some("analyze F")),
        (&[timed, "b -- true"], None),
        (&[timed, "b period=20ms wcet=2ms"], Some("analyze F")),
        (&["a cores=0-1 period=10ms wcet=1ms"], None),
        (&["a cores=0 period=10ms wcet=1ms", "b cores=0"], None),
        (&["a cores=0", "b cores=1 period=10ms wcet=1ms"], Some("analyze F --core 1 --ignore other-cores")),
        (&["a cores=0 period=10ms wcet=1ms bandwidth=1MiB/1ms"], None),
    ];
    for (tasks, expected) in cases {
        let file = scratch.path("f.toml");
        let mut arguments = vec![file.as_str(), "--force", "--platform", "skl-e3-1220v5-4x4g"];
        arguments.extend(tasks.iter().flat_map(|task| ["--task", *task]));
        let output = init(&arguments, "");
        assert!(output.status.success(), "{output:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("#     memtint "));
        let advised = lines.find(|line| line.starts_with("analyze"));
        assert_eq!(advised.map(|line| line.replace(&file, "F")).as_deref(), expected, "{text}");
        if let Some(line) = advised {
            let analyzed = memtint(&line.split(' ').collect::<Vec<_>>());
            assert!(analyzed.status.success(), "{line}: {analyzed:?}");
        }
    }
}

#[test]
fn links_stay_and_what_they_name_is_replaced_only_when_forced() {
    let scratch = Scratch::new("init-links");
    let (link, target) = (scratch.path("link.toml"), scratch.path("target.toml"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let arguments = [&link, "--platform", "jetson-nano", "--task", "a"];
    let dangling = init(&arguments, "");
    assert!(dangling.status.code() == Some(2) && said(&dangling).contains("exists; accepted is"), "{dangling:?}");
    std::fs::write(&target, "old").unwrap();
    assert!(init(&[&arguments[..], &["--force"]].concat(), "").status.success());
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(Assignment::load(target.as_ref()).is_ok());
}
