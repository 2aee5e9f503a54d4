//! Do real programs in color compute what they compute natively, with every page in color while they run?
//!
//! `cargo test -p memtint-cli --test live live::real_programs::`, as root. Needs the programs that `scripts/setup.sh` installs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::{Launch, Machine, Samples, assert_held, find_program, sampled_until, scratch, within};

/// Looks at each program.
const SAMPLES: usize = 4;

/// Runs a program natively and in color; fails unless both say the same and every sample was in color.
fn compare<'a>(prepare: impl Fn() -> Launch<'a>) {
    compare_larger(0, prepare);
}

/// The same for a program that has more than so many pages when a sample is taken.
fn compare_larger<'a>(pages: u64, prepare: impl Fn() -> Launch<'a>) {
    let native = prepare().native().end();
    native.assert_success();
    let enough = |seen: &Samples| seen.count >= SAMPLES && seen.most_pages > pages;
    let colored = sampled_until(enough, prepare);
    colored.assert_success();
    colored.assert_said_the_same_as(&native);
    colored.assert_held(SAMPLES);
    colored.assert_clean_report();
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("paths here are text")
}

/// A file of lines in no order, always the same.
fn lines(count: u32) -> PathBuf {
    let file = scratch(&format!("lines-{count}"));
    let mut text = String::new();
    let mut state = 1u32;
    for line in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        writeln!(text, "{state:010} some words that repeat {} {line}", state % 97).expect("strings take everything");
    }
    std::fs::write(&file, text).expect("cargo made the directory");
    file
}

#[test]
fn sqlite3() {
    let Some(machine) = Machine::take(&["sqlite3"]) else { return };
    let script = std::fs::read(source("work.sql")).expect("it is part of the suite");
    compare(|| Launch::new(&machine, &["sqlite3", ":memory:"]).input(&script));
}

#[test]
fn python3() {
    let Some(machine) = Machine::take(&["python3"]) else { return };
    let script = source("work.py");
    compare(|| Launch::new(&machine, &["python3", text_of(&script)]));
}

#[test]
fn sort() {
    let Some(machine) = Machine::take(&["sort"]) else { return };
    let file = lines(800_000);
    let command = ["sort", "--parallel=2", "--buffer-size=64M", text_of(&file)];
    compare(|| Launch::new(&machine, &command).environment("LC_ALL", "C"));
}

#[test]
fn gzip() {
    let Some(machine) = Machine::take(&["gzip"]) else { return };
    let file = lines(400_000);
    compare(|| Launch::new(&machine, &["gzip", "--best", "--no-name", "--stdout", text_of(&file)]));
}

#[test]
fn static_busybox() {
    let Some(machine) = Machine::take(&["busybox"]) else { return };
    let file = lines(400_000);
    for applet in [&["sort"][..], &["awk", "{ sum[$7] += $1 % 1000 } END { for (i = 0; i < 97; i++) print i, sum[i] }"]]
    {
        let command = [&["busybox"], applet, &[text_of(&file)]].concat();
        compare(|| Launch::new(&machine, &command));
    }
}

#[test]
fn go() {
    let Some(machine) = Machine::take(&["go"]) else { return };
    let program = machine.make("work-go", &source("work.go"), |from, to| {
        let mut command = Command::new(find_program("go").expect("found above"));
        command.env("CGO_ENABLED", "0").args(["build", "-o"]).arg(to).arg(from);
        command
    });
    compare(|| Launch::new(&machine, &[&program]));
}

#[test]
fn java() {
    let Some(machine) = Machine::take(&["java", "javac"]) else { return };
    let class = machine.make("Work.class", &source("Work.java"), |from, to| {
        let mut command = Command::new(find_program("javac").expect("found above"));
        command.arg("-d").arg(to.parent().expect("it lies in a directory")).arg(from);
        command
    });
    let place = class.parent().expect("it lies in a directory");
    let command = ["java", "-Xmx256m", "-XX:-UsePerfData", "-cp", text_of(place), "Work"];
    // The JVM maps its class archive privately and writes to it.
    compare_larger(4000, || Launch::new(&machine, &command).options(&["--copy-files"]));
}

#[test]
fn node() {
    let Some(machine) = Machine::take(&["node"]) else { return };
    let script = source("work.js");
    compare_larger(4000, || Launch::new(&machine, &["node", text_of(&script)]));
}

/// The shell's own pages are shared with what it forks; those that it starts have theirs in color.
#[test]
fn a_pipeline_of_the_shell() {
    let Some(machine) = Machine::take(&["sh", "sort", "gzip", "sha256sum"]) else { return };
    let file = lines(400_000);
    let script = format!("sort '{}' | gzip -c | gzip -dc | sha256sum", file.display());
    let launch = || Launch::new(&machine, &["sh", "-c", &script]).environment("LC_ALL", "C");
    let native = launch().native().end();
    let mut colored = sampled_until(|seen| seen.count >= 3 * SAMPLES, launch);
    colored.assert_success();
    colored.assert_said_the_same_as(&native);
    colored.samples.violations.retain(|report| report.processes[0].comm != "sh");
    colored.assert_held(3 * SAMPLES);
    assert_eq!(colored.problems(), [""; 0]);
}

/// What redis says to the same questions, and the runs of its benchmark, while it is looked at.
#[test]
fn redis() {
    let Some(machine) = Machine::take(&["redis-server", "redis-cli", "redis-benchmark"]) else { return };
    // The path of a socket is short.
    let socket = std::env::temp_dir().join(format!("memtint-redis-{}", std::process::id()));
    let server = |machine| {
        let command =
            ["redis-server", "--port", "0", "--unixsocket", text_of(&socket), "--save", "", "--appendonly", "no"];
        Launch::new(machine, &command)
    };
    let client = |name: &str, arguments: &[&str], input: &str| {
        let mut command = Command::new(find_program(name).expect("found above"));
        command.args(["-s", text_of(&socket)]).args(arguments);
        crate::common::pipe(&mut command, input.as_bytes())
    };
    let mut questions: String = (0..20_000).map(|i| format!("SET key:{i} value:{}\n", i * 31)).collect();
    questions += "DBSIZE\nGET key:777\nLPUSH list a b c\nLRANGE list 0 -1\nFLUSHALL\nDBSIZE\n";
    let mut answers = Vec::new();
    for colored in [false, true] {
        let run = if colored { server(&machine).sampled().colored() } else { server(&machine).native() };
        assert!(within(Duration::from_secs(300), || socket.exists()), "redis does not listen");
        answers.push(client("redis-cli", &[], &questions));
        if colored {
            let load = ["-n", "60000", "-r", "20000", "-d", "400", "-P", "16", "-c", "20", "-t", "set,get,lpush", "-q"];
            client("redis-benchmark", &load, "");
            let (_, programs) = run.members();
            let pid = programs.iter().find(|process| process.name == "redis-server").expect("it runs").pid;
            let report = run.colors.inspect(pid);
            assert_held(&report);
            assert!(report.private.pages > 4000, "{} pages", report.private.pages);
        }
        if colored {
            run.is_sampled(SAMPLES);
        }
        client("redis-cli", &["SHUTDOWN", "NOSAVE"], "");
        let ended = run.end();
        ended.assert_success();
        if colored {
            ended.assert_held(SAMPLES);
            ended.assert_clean_report();
        }
    }
    assert!(answers[0] == answers[1], "redis answers differently in color");
}
