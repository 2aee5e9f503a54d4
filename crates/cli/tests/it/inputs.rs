//! Is every file that a user names read within bounds, and is what cannot be read refused by its name?
//!
//! `cargo test -p memtint-cli --test it inputs::`

use std::process::{Command, Output, Stdio};

use crate::scratch::Scratch;

/// Bytes of address space that a refusal may take: far more than the limit of any file, far less than the machine has.
const ADDRESS_SPACE_KIB: u64 = 2 << 20;

/// Every verb that reads a file, with `FILE` in its place.
const READERS: &[&str] = &[
    "draw FILE",
    "palette FILE",
    "platform show FILE",
    "platform decode FILE",
    "platform import FILE --id x --size 16GiB",
    "probe --replay FILE",
    "probe --simulate FILE",
    "analyze FILE",
    "refresh plan FILE --scheme crs",
    "refresh simulate FILE --scheme auto",
    "refresh compare FILE",
    "sim FILE",
    "reproduce FILE",
    "dram show FILE",
    "dram check FILE --device ddr4-2400",
    "dram replay --device ddr4-2400 --trace FILE",
    "dram replay --device FILE --trace stream",
    "trace info FILE",
    "trace convert --from dramsim3 FILE -o OUT",
    "trace convert --to dramsim3 FILE -o OUT",
    "inspect --system FILE --task x 1",
];

/// Runs memtint with a limit of its address space.
fn run(verb: &str, file: &str, out: &str) -> Output {
    let words: Vec<&str> = verb.split(' ').map(|word| if word == "OUT" { out } else { word }).collect();
    let words = words.iter().map(|&word| if word == "FILE" { file } else { word });
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_memtint")]);
    command.args(words).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command.output().expect("there is a shell")
}

/// The message of a refusal, which names the file and ends with status 2.
#[track_caller]
fn refused(verb: &str, file: &str, out: &str) -> String {
    let output = run(verb, file, out);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{verb} {file}: {error}");
    assert!(error.contains(file) && error.contains("accepted"), "{verb}: {error}");
    error
}

#[test]
fn an_endless_file_is_refused_by_every_verb() {
    let scratch = Scratch::new("endless");
    let out = scratch.path("out");
    for verb in READERS {
        refused(verb, "/dev/zero", &out);
    }
    for (verb, limit) in [
        ("analyze FILE", "more than 4 MiB; accepted are at most 4 MiB"),
        ("draw FILE", "more than 64 MiB; accepted are at most 64 MiB"),
        ("platform decode FILE", "more than 64 MiB; accepted are at most 64 MiB"),
        ("probe --replay FILE", "more than 16 MiB; accepted are at most 16 MiB a line"),
    ] {
        let error = refused(verb, "/dev/zero", &out);
        assert!(error.contains(limit), "{verb}: {error}");
    }
}

#[test]
fn a_directory_is_named_by_every_verb() {
    let scratch = Scratch::new("directory");
    let (folder, out) = (scratch.path("folder/"), scratch.path("out"));
    std::fs::create_dir_all(&folder).expect("the temporary directory is writable");
    // A dump may be a directory, in the layout of /sys/bus/pci/devices.
    for verb in READERS.iter().filter(|verb| !verb.starts_with("platform decode")) {
        let error = refused(verb, &folder, &out);
        assert!(error.contains("it is a directory; accepted is a"), "{verb}: {error}");
    }
}

/// A pipe is read to its end; one that nothing writes to is refused, not waited for.
#[test]
fn a_pipe_needs_a_writer() {
    let scratch = Scratch::new("pipe");
    let (pipe, out) = (scratch.path("pipe.toml"), scratch.path("out"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo").success());
    let error = refused("analyze FILE", &pipe, &out);
    assert!(error.contains("it is a pipe that no process has opened for writing in 5 s"), "{error}");
    let error = refused("trace info FILE", &pipe, &out);
    assert!(error.contains("it is a pipe; accepted is a regular file"), "{error}");
    let tasks = "[[task]]\nname = \"one\"\nperiod = \"2 ms\"\nwcet = \"1 ms\"\n";
    assert_eq!(run("analyze FILE", &scratch.file("tasks.toml", tasks), &out).status.code(), Some(0));
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        // Opening it waits for the reader.
        move || std::fs::write(pipe, tasks)
    });
    let output = run("analyze FILE", &pipe, &out);
    writer.join().expect("it does not panic").expect("it was read");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
