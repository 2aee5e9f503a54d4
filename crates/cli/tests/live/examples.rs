//! Do examples hold their colors in a run on this machine, and by the observer, as they do in simulation (`it/system.rs`)?
//!
//! `cargo test -p memtint-cli --test live live::examples::`, as root.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use memtint_system::SystemFile;
use serde_json::Value;

use crate::common::{Launch, Machine, registry, within};

/// How long a program may take until its memory is there, on a busy machine.
const BEGIN: Duration = Duration::from_secs(120);
/// Bytes of the buffer of each stream.
const BUFFER: u64 = 32 << 20;

/// The examples with a command, and the tasks that have one.
fn commanded() -> Vec<(PathBuf, Vec<String>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("it can be read").path();
        let file = SystemFile::load(&path).unwrap_or_else(|error| panic!("{error}"));
        let tasks = file.tasks.iter().filter(|task| !task.command.is_empty());
        let names: Vec<String> = tasks.filter_map(|task| Some(task.name.as_ref()?.as_str().to_owned())).collect();
        if !names.is_empty() {
            found.push((path, names));
        }
    }
    found
}

fn memtint(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(["--format", "json"]).args(arguments).env("MEMTINT_REGISTRY", registry());
    command.output().expect("it was built")
}

fn launch<'a>(machine: &'a Machine, file: &Path, task: &str) -> Launch<'a> {
    // The example's machine has more cores than this one may have.
    let options = ["--platform".as_ref(), machine.platform.as_os_str(), "--cores".as_ref(), "0".as_ref()];
    let colors = ["--system".as_ref(), file.as_os_str(), "--task".as_ref(), task.as_ref()];
    Launch::new::<&str>(machine, &[]).colors(&colors).options(&options)
}

#[test]
fn the_example_holds_its_colors_in_a_run_and_by_the_observer() {
    let Some(machine) = Machine::take(&["dd", "sort"]) else { return };
    let examples = commanded();
    let [(path, tasks)] = &examples[..] else {
        panic!("each example with commands needs a test like this one: {examples:?}")
    };
    assert_eq!(tasks[..], ["control", "stream-1", "stream-2", "stream-3"]);
    let (file, platform) = (path.to_str().expect("text"), machine.platform.to_str().expect("text"));

    let ended = launch(&machine, path, "control").colored().end();
    ended.assert_success();
    ended.assert_clean_report();
    assert_eq!(ended.stdout, Launch::new(&machine, &["sort", "/etc/services"]).native().end().stdout);

    let observe = || {
        let output = memtint(&["inspect", "--system", file, "--platform", platform]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output, report)
    };
    for task in &tasks[1..] {
        let run = launch(&machine, path, task).colored();
        let of_task = |report: &Value| {
            let tasks = report["tasks"].as_array();
            tasks.and_then(|tasks| tasks.iter().find(|own| own["name"] == **task).cloned()).unwrap_or_default()
        };
        let private = |report: &Value| of_task(report)["report"]["private"]["pages"].as_u64().unwrap_or_default();
        assert!(within(BEGIN, || private(&observe().1) * 4096 >= BUFFER), "{task}: {:?}", observe());
        let (output, report) = observe();
        assert_eq!((output.status.code(), &report["verdict"]), (Some(0), &Value::from("held")), "{task}: {report}");
        crate::shared::check("inspect-system", &report);
        // By the platform of the file, the same pages would be judged by other colors.
        let refused = memtint(&["inspect", "--system", file, "--platform-assumed"]);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{words}");
        assert!(words.contains("accepted is the platform of the run (--platform)"), "{words}");

        let program = of_task(&report)["programs"][0].as_u64().expect("one runs");
        run.signal(program as u32, libc::SIGTERM);
        run.end().assert_clean_report();
    }
}
