//! Does `memtint trace` record real programs without changing what they do, and convert what others recorded?

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn memtint() -> Command {
    Command::new(env!("CARGO_BIN_EXE_memtint"))
}

/// A directory of this test's own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("cargo made the directory above");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tells whether a program is there; a skipped test says what it needs.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !there {
        memtint_testing::skip(&format!("the program {program}"));
    }
    there
}

/// Runs a command with an input.
fn with_input(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program need not read all of it.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

fn info(trace: &Path) -> Value {
    let output = memtint().args(["--format", "json", "trace", "info"]).arg(trace).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report = serde_json::from_slice(&output.stdout).unwrap();
    crate::shared::check("trace-info", &report);
    report
}

#[test]
fn sort_and_gzip_do_under_the_recorder_what_they_do_alone() {
    if !(has("qemu-x86_64") && has("sort") && has("gzip")) {
        return;
    }
    let directory = Directory::new("real");
    let text: String = (0..3000u64).map(|index| format!("line {}\n", index * 7919 % 3001)).collect();
    for program in [&["sort", "-k2n"][..], &["gzip", "-nc"]] {
        let trace = directory.file(program[0]);
        let native = with_input(Command::new(program[0]).args(&program[1..]), text.as_bytes());
        let mut command = memtint();
        command.args(["trace", "record", "-o"]).arg(&trace).arg("--").args(program);
        let recorded = with_input(&mut command, text.as_bytes());
        assert!(recorded.status.success(), "{recorded:?}");
        assert_eq!(recorded.stdout, native.stdout, "{program:?}");
        let info = info(&trace);
        assert_eq!(info["header"]["program"], program[0]);
        assert_eq!(info["ending"]["exit"], "status 0");
        let (references, instructions) = (info["references"].as_u64().unwrap(), info["instructions"].as_u64().unwrap());
        assert!(references > 100_000 && instructions > references, "{info}");
        // The text itself is read and written.
        assert!(info["analysis"]["footprint_bytes"].as_u64().unwrap() > text.len() as u64, "{info}");
        let count = |kind: &str| info["analysis"][kind].as_u64().unwrap();
        assert_eq!(count("reads") + count("writes"), references);
    }
}

#[test]
fn the_status_is_that_of_the_program() {
    if !has("qemu-x86_64") {
        return;
    }
    let directory = Directory::new("status");
    let trace = directory.file("trace");
    let status = |command: &[&str]| {
        let output = memtint().args(["trace", "record", "-o"]).arg(&trace).arg("--").args(command).output().unwrap();
        (output.status, String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(status(&["sh", "-c", "exit 77"]).0.code(), Some(77));
    assert_eq!(info(&trace)["ending"]["exit"], "status 77");
    let (killed, text) = status(&["sh", "-c", "kill -TERM $$"]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed), Some(15));
    assert!(text.contains("ended by signal 15"), "{text}");
    assert_eq!(info(&trace)["ending"]["exit"], "signal 15");
    std::fs::remove_file(&trace).unwrap();
    let (status_absent, text) = status(&["no-such-program-anywhere"]);
    assert!(status_absent.code() == Some(127) && text.contains("no-such-program-anywhere"), "{text}");
    let (status_data, text) = status(&["/etc/passwd"]);
    assert!(status_data.code() == Some(126) && text.contains("/etc/passwd"), "{text}");
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 0, "no recording, no file");
}

#[test]
fn without_qemu_one_sentence_says_what_to_install() {
    let directory = Directory::new("without");
    let mut command = memtint();
    command.args(["trace", "record", "-o"]).arg(directory.file("trace")).args(["--", "/bin/true"]);
    let output = command.env("PATH", &directory.0).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.lines().count() == 1 && text.contains("qemu-user"), "{text}");
}

#[test]
fn a_qemu_that_does_not_load_the_plugin_is_named() {
    let directory = Directory::new("unloaded");
    let qemu = directory.file("qemu-x86_64");
    std::fs::write(&qemu, "#!/bin/sh\nexit 3\n").unwrap();
    std::fs::set_permissions(&qemu, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = memtint();
    command.args(["trace", "record", "-o"]).arg(directory.file("trace")).args(["--", "/bin/true"]);
    let output = command.env("PATH", &directory.0).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(125) && text.contains("exit status: 3"), "{text}");
    assert!(text.contains(qemu.to_str().unwrap()) && text.contains("QEMU 5.1 to 8.2"), "{text}");
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 1, "no recording, no file");
}

#[test]
fn a_signal_ends_the_program_and_not_the_file() {
    if !has("qemu-x86_64") {
        return;
    }
    let directory = Directory::new("signal");
    let trace = directory.file("trace");
    let mut command = memtint();
    command.args(["trace", "record", "-o"]).arg(&trace).args(["--", "sh", "-c", "echo up; read line"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Waiting for a child closes its input, and the program would end by itself.
    let _input = child.stdin.take();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    // The keyboard's signal reaches the program by itself; sent to the recorder alone, it changes nothing.
    for signal in ["-INT", "-TERM"] {
        // The shell's own: Debian's minimal system has no such program.
        let script = format!("kill {signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    let info = info(&trace);
    assert_eq!(info["ending"]["exit"], "signal 15");
    assert!(info["references"].as_u64().unwrap() > 10_000, "{info}");
}

#[test]
fn samples_are_windows_of_the_program() {
    if !has("qemu-x86_64") {
        return;
    }
    let directory = Directory::new("samples");
    let trace = directory.file("trace");
    let mut command = memtint();
    command.args(["trace", "record", "--skip", "10k", "--sample", "1k", "--period", "20k", "-o"]).arg(&trace);
    let output = command.args(["--", "sh", "-c", "exit 0"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let info = info(&trace);
    assert_eq!(info["header"]["sampling"]["period_instructions"], 20_000);
    let stream = &info["ending"]["streams"][0];
    let executed = stream["executed_instructions"].as_u64().unwrap();
    assert_eq!(stream["windows"].as_u64(), Some((executed - 10_000).div_ceil(20_000)), "{stream}");
    assert!(stream["instructions"].as_u64().unwrap() < executed / 15, "{stream}");
}

#[test]
fn conversions_there_and_back() {
    let directory = Directory::new("convert");
    let (input, trace, back) = (directory.file("in"), directory.file("trace"), directory.file("back"));
    for (format, text, references) in [
        ("dramsim3", "0x40 READ 3\n0x80 WRITE 3\n0xfc0 READ 10\n", 3),
        ("ramulator2", "LD 0x40\nST 0x1000\n", 2),
        ("ramulator2-cpu", "3 64\n0 128 4096\n", 3),
    ] {
        std::fs::write(&input, text).unwrap();
        let convert = |option: &str, from: &Path, to: &Path| {
            let mut command = memtint();
            command.args(["trace", "convert", option, format]).arg(from).arg("-o").arg(to);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        convert("--from", &input, &trace);
        assert_eq!(info(&trace)["references"], references);
        convert("--to", &trace, &back);
        assert_eq!(std::fs::read_to_string(&back).unwrap(), text, "{format}");
    }
    std::fs::write(&input, "0x40 READ 3\n0x80 COPY 4\n").unwrap();
    std::fs::remove_file(&trace).unwrap();
    let mut command = memtint();
    command.args(["trace", "convert", "--from", "dramsim3"]).arg(&input).arg("-o").arg(&trace);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && text.contains("line 2") && text.contains("COPY"), "{text}");
    assert!(!trace.exists() && std::fs::read_dir(&directory.0).unwrap().count() == 2);
}

#[test]
fn a_damaged_trace_is_refused_with_its_place() {
    let directory = Directory::new("damaged");
    let (input, trace) = (directory.file("in"), directory.file("trace"));
    std::fs::write(&input, "LD 0x40\n".repeat(1000)).unwrap();
    let mut command = memtint();
    command.args(["trace", "convert", "--from", "ramulator2"]).arg(&input).arg("-o").arg(&trace);
    assert!(command.status().unwrap().success());
    let mut bytes = std::fs::read(&trace).unwrap();
    let block = bytes.windows(4).position(|four| four == b"BLCK").unwrap();
    bytes[block + 50] ^= 1;
    std::fs::write(&trace, &bytes).unwrap();
    let output = memtint().args(["trace", "info"]).arg(&trace).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && text.contains(&format!("byte {block}: ")), "{text}");
}
