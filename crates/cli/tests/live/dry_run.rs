//! Does `memtint run --dry-run` list the writes of a run, and make none?
//!
//! `cargo test -p memtint-cli --test live live::dry_run::`, as root.

use std::process::Command;

use serde_json::Value;

use crate::common::{Machine, registry, scratch};
use crate::shared::check;

#[test]
fn a_dry_run_lists_the_writes_and_makes_none() {
    let Some(machine) = Machine::take(&["strace"]) else { return };
    let place = scratch("dry-run");
    std::fs::create_dir_all(&place).expect("it is writable");
    let file = |name: &str| place.join(name).to_str().expect("text").to_owned();
    let (trace, report, pid, touched) = (file("trace"), file("report.json"), file("pid"), file("touched"));
    let mut command = Command::new("strace");
    command.args(["-f", "-o", &trace, "-e", "trace=open,openat,creat,rename,renameat2,mkdir,mkdirat,unlink,unlinkat"]);
    command.arg(env!("CARGO_BIN_EXE_memtint")).args(["--format", "json", "run", "--dry-run", "--floor", "user"]);
    command.arg("--platform").arg(&machine.platform).args(["--banks", "0-3", "--cores", "+0"]);
    command.args(["--report", &report, "--pid-file", &pid, "--", "touch", &touched]);
    let output = command.env("MEMTINT_REGISTRY", registry()).output().expect("strace is there");
    assert!(output.status.success(), "{output:?}");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    check("run-dry-run", &plan);
    assert_eq!((&plan["backend"], &plan["banks"]), (&"user".into(), &"0-3".into()), "{plan}");
    assert_eq!(plan["command"], serde_json::json!(["touch", touched]));
    assert_eq!(plan["cores"].as_array().map(Vec::len), Some(1), "{plan}");
    let writes: Vec<&str> = plan["writes"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    for place in [registry().to_str().unwrap(), &report, &pid] {
        assert!(writes.iter().any(|line| line.starts_with(place)), "{place}: {writes:#?}");
    }
    let setting = "/proc/sys/vm/compaction_proactiveness";
    let is_set = std::fs::read_to_string(setting).is_ok_and(|value| value.trim() != "0");
    assert_eq!(writes.iter().any(|line| line.starts_with(setting)), is_set, "{writes:#?}");
    for place in [&report, &pid, &touched] {
        assert!(!std::fs::exists(place).unwrap(), "{place}");
    }
    let calls = std::fs::read_to_string(&trace).expect("strace has written it");
    let is_write = |call: &str| {
        let opens = call.contains("O_WRONLY") || call.contains("O_RDWR") || call.contains("O_CREAT");
        opens && !call.contains("\"/dev/") || !call.contains("open")
    };
    let is_call = |line: &&str| line.contains('(');
    let made: Vec<&str> = calls.lines().filter(is_call).filter(|call| is_write(call)).collect();
    assert!(calls.lines().filter(is_call).count() > 5, "{calls}");
    assert_eq!(made, Vec::<&str>::new());
}
