//! Does the regulator stop a group in time by hardware's counters, whose interrupts come late, on another architecture?
//!
//! Boots Debian 13's stock kernel in an emulated riscv64 machine, which counts misses of its TLB and interrupts when a counter overflows
//! (`kernel/qemu/riscv64.sh`), and runs the example `regulate` there, compiled for it, with each backend; the module
//! (`kernel/modules/memguard`) is compiled for that kernel. A miss in the emulator is no transfer, and stops
//! at once: what is shown is that the regulation holds with such counters, not how late those of a real processor are.
//!
//! `cargo test -p memtint-regulator --test it`; MEMTINT_REGULATED_SECONDS is the time of each case in the guest (5).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use memtint_testing::skip;

const TARGET: &str = "riscv64gc-unknown-linux-gnu";
/// The aim: no period has more than this beyond its budget.
const BEYOND: u64 = 120;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn has_target() -> bool {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    output.is_ok_and(|output| {
        Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib").join(TARGET).is_dir()
    })
}

/// The example, for the guest: without libraries.
fn regulate() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("riscv64");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "memtint-regulator", "--example", "regulate", "--target", TARGET])
        .arg("--target-dir")
        .arg(&folder)
        .current_dir(root())
        .env("CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER", "riscv64-linux-gnu-gcc")
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .output()
        .expect("cargo runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join(TARGET).join("release/examples/regulate")
}

/// The module for that kernel.
fn module() -> PathBuf {
    let scripts = root().join("kernel/modules/memguard");
    let run = |command: &mut Command| {
        let output = command.output().expect("the module is part of the project");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let stock = run(Command::new(scripts.join("stock.sh")).arg("riscv64"));
    let (_, headers) = stock.split_once(' ').expect("a kernel and headers");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memguard-riscv64");
    // What an earlier run has left may be of another kernel.
    let _ = std::fs::remove_dir_all(&out);
    let mut build = Command::new(scripts.join("build.sh"));
    run(build.arg(headers).arg(out).env("CC", "riscv64-linux-gnu-gcc")).into()
}

/// What a case has printed: words with their numbers, and all lines.
struct Case {
    numbers: BTreeMap<String, u64>,
    lines: Vec<String>,
}

impl Case {
    fn number(&self, word: &str) -> u64 {
        *self.numbers.get(word).unwrap_or_else(|| panic!("no {word}: {:#?}", self.lines))
    }
}

/// Cases by their name: `EVENT BACKEND BUDGET`.
fn cases(output: &str) -> BTreeMap<String, Case> {
    let mut cases: Vec<(String, Case)> = Vec::new();
    for line in output.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("begin ") {
            cases.push((name.to_owned(), Case { numbers: BTreeMap::new(), lines: Vec::new() }));
        } else if let Some((_, case)) = cases.last_mut() {
            case.lines.push(line.to_owned());
            let number = line.split_once(' ').and_then(|(word, number)| Some((word.to_owned(), number.parse().ok()?)));
            case.numbers.extend(number);
        }
    }
    cases.into_iter().collect()
}

#[test]
fn a_group_is_stopped_within_its_bound_by_counters_of_an_emulated_processor() {
    let harness = root().join("kernel/qemu/riscv64.sh");
    let fetched = Command::new(&harness).arg("fetch").output().expect("the harness is part of the project");
    if !fetched.status.success() || !has_target() {
        eprint!("{}", String::from_utf8_lossy(&fetched.stderr));
        skip("a kernel and the Rust target for riscv64");
        return;
    }
    let seconds = std::env::var("MEMTINT_REGULATED_SECONDS").unwrap_or_else(|_| "5".to_owned());
    let program = regulate();
    let file = program.with_file_name("seconds");
    std::fs::write(&file, &seconds).expect("cargo made the directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/riscv64.sh");
    let mut command = Command::new(&harness);
    let output = command.arg("run").args([&script, &program, &file, &module()]).env("SECONDS_MAX", "900").output();
    let output = output.expect("the harness is part of the project");
    let text = String::from_utf8_lossy(&output.stdout);
    let told = || format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("guest ended with 0"), "{}", told());
    let cases = cases(&text);
    for backend in ["threads", "bpf", "kernel"] {
        for (event, budget) in [("dtlb-misses", 1000), ("dtlb-misses", 200), ("page-faults", 100)] {
            let name = format!("{event} {backend} {budget}");
            let case = cases.get(&name).unwrap_or_else(|| panic!("{name} is missing: {}", told()));
            let complaint = case.lines.iter().find(|line| line.starts_with("error") || line.starts_with("incident"));
            assert_eq!(complaint, None, "{name}: {:#?}", case.lines);
            // That it is throttled with a small budget, the self-test has seen. A busy host may leave it too little time for this one.
            assert!(case.number("used") > 0, "{name}: {:#?}", case.lines);
            assert!(case.number("most") <= budget + BEYOND, "{name}: {:#?}", case.lines);
            assert_eq!(case.number("broken"), 0, "{name}: {:#?}", case.lines);
        }
    }
    for (name, case) in &cases {
        println!("{name}: {:?}", case.numbers);
    }
}
