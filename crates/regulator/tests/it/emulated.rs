//! Does the regulator stop a group in time by hardware's counters, whose interrupts come late, on other architectures?
//!
//! Boots a stock Debian kernel in an emulated machine whose counters interrupt when they overflow (`kernel/qemu/foreign.sh`), and runs the
//! example `regulate` there, compiled for it, with each backend; the module (`kernel/modules/memguard`) is compiled for that kernel. A
//! riscv64 machine counts misses of its TLB, an arm64 one cycles: nanoseconds of a clock that counts its one CPU's instructions. Neither is
//! a transfer, and both interrupt at once: what is shown is that the regulation holds with such counters, not how late those of a real
//! processor are.
//!
//! `cargo test -p memtint-regulator --test it` when something has changed since it passed; MEMTINT_REGULATED_SECONDS is the time of each
//! case in the guest (5).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use memtint_testing::{due, skip, version};

const BACKENDS: [&str; 3] = ["threads", "bpf", "kernel"];

/// A processor that QEMU emulates with its counters.
struct Processor {
    /// Debian's name of the architecture.
    name: &'static str,
    /// Rust's.
    target: &'static str,
    compiler: &'static str,
    emulator: &'static str,
    cpus: usize,
    /// What an instruction takes, as a power of two in nanoseconds; `None` where time is that of the host.
    instruction: Option<u32>,
}

/// What is regulated in the guest.
struct Case {
    event: &'static str,
    backend: &'static str,
    budget: u64,
    period_us: u64,
    skid: u64,
    seconds: u64,
    /// No period has more than this beyond its budget; the aim was 120.
    beyond: u64,
}

/// What a case has printed: words with their numbers, and all lines.
#[derive(Default)]
struct Told {
    numbers: BTreeMap<String, u64>,
    lines: Vec<String>,
}

impl Told {
    fn number(&self, word: &str) -> u64 {
        *self.numbers.get(word).unwrap_or_else(|| panic!("no {word}: {:#?}", self.lines))
    }
}

impl Case {
    fn name(&self) -> String {
        format!("{} {} {}", self.event, self.backend, self.budget)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn seconds() -> u64 {
    std::env::var("MEMTINT_REGULATED_SECONDS").map_or(5, |text| text.parse().expect("a number of seconds"))
}

fn has_target(target: &str) -> bool {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    output.is_ok_and(|output| {
        Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib").join(target).is_dir()
    })
}

impl Processor {
    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.name)
    }

    /// The example, for the guest: without libraries.
    fn regulate(&self) -> PathBuf {
        let linker = format!("CARGO_TARGET_{}_LINKER", self.target.to_uppercase().replace('-', "_"));
        let output = Command::new(env!("CARGO"))
            .args(["build", "--release", "--package", "memtint-regulator", "--example", "regulate"])
            .args(["--target", self.target, "--target-dir"])
            .arg(self.folder())
            .current_dir(root())
            .env(linker, self.compiler)
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .output()
            .expect("cargo runs this test");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.folder().join(self.target).join("release/examples/regulate")
    }

    /// The module for that kernel.
    fn module(&self) -> PathBuf {
        let scripts = root().join("kernel/modules/memguard");
        let run = |command: &mut Command| {
            let output = command.output().expect("the module is part of the project");
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let stock = run(Command::new(scripts.join("stock.sh")).arg(self.name));
        let (_, headers) = stock.split_once(' ').expect("a kernel and headers");
        let out = self.folder().join("memguard");
        // What an earlier run has left may be of another kernel.
        let _ = std::fs::remove_dir_all(&out);
        let mut build = Command::new(scripts.join("build.sh"));
        run(build.arg(headers).arg(out).env("CC", self.compiler)).into()
    }

    /// Regulates in each case, and compares what came of it with the aim.
    fn regulates(&self, cases: &[Case]) {
        let harness = root().join("kernel/qemu/foreign.sh");
        let fetched =
            Command::new(&harness).args([self.name, "headers"]).output().expect("the harness is part of the project");
        if !fetched.status.success() || !has_target(self.target) {
            eprint!("{}", String::from_utf8_lossy(&fetched.stderr));
            skip(&format!("a kernel and the Rust target for {}", self.name));
            return;
        }
        let files = [
            "Cargo.lock",
            "Cargo.toml",
            "crates/guard",
            "crates/regulator",
            "crates/units",
            "kernel/modules",
            "kernel/package.sh",
            "kernel/qemu/foreign.sh",
        ]
        .map(|file| root().join(file));
        // The path of the headers has the kernel's version.
        let kernel = String::from_utf8_lossy(&fetched.stdout).into_owned();
        let versions =
            [version(self.emulator), version(self.compiler), version("clang"), kernel, seconds().to_string()];
        let Some(due) = due(&format!("emulated-{}", self.name), &files, &versions) else { return };
        let (program, module) = (self.regulate(), self.module());
        let (list, cpu, mut text) = (self.folder().join("cases"), self.cpus - 1, String::new());
        for Case { event, backend, budget, period_us, skid, seconds, .. } in cases {
            writeln!(text, "{event} {backend} {cpu} {budget} {period_us} {skid} {seconds}")
                .expect("a string takes all");
        }
        std::fs::write(&list, text).expect("cargo made the directory");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/emulated.sh");
        let mut command = Command::new(&harness);
        let longest = cases.iter().map(|case| 200 + 50 * case.seconds).sum::<u64>().to_string();
        command.args([self.name, "run"]).args([&script, &program, &list, &module]).env("SECONDS_MAX", &longest);
        command.env("CPUS", self.cpus.to_string());
        command.envs(self.instruction.map(|instruction| ("COUNT", instruction.to_string())));
        let output = command.output().expect("the harness is part of the project");
        let text = String::from_utf8_lossy(&output.stdout);
        let everything = || format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("guest ended with 0"), "{}, at most {longest} s: {}", output.status, everything());
        let told = told(&text);
        for case in cases {
            let name = case.name();
            let told = told.get(&name).unwrap_or_else(|| panic!("{name} is missing: {}", everything()));
            let complaint = told.lines.iter().find(|line| line.starts_with("error") || line.starts_with("incident"));
            println!("{name}: {:?}", told.numbers);
            assert_eq!(complaint, None, "{name}: {:#?}", told.lines);
            // That it is throttled with a small budget, the self-test has seen. A slow machine may leave it too little time for this one.
            assert!(told.number("used") > 0, "{name}: {:#?}", told.lines);
            assert!(told.number("most") <= case.budget + case.beyond, "{name}: {:#?}", told.lines);
            assert_eq!(told.number("broken"), 0, "{name}: {:#?}", told.lines);
        }
        due.passed();
    }
}

/// What the guest has said, by the case's name.
fn told(output: &str) -> BTreeMap<String, Told> {
    let mut cases: Vec<(String, Told)> = Vec::new();
    for line in output.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("begin ") {
            cases.push((name.to_owned(), Told::default()));
        } else if let Some((_, case)) = cases.last_mut() {
            case.lines.push(line.to_owned());
            let number = line.split_once(' ').and_then(|(word, number)| Some((word.to_owned(), number.parse().ok()?)));
            case.numbers.extend(number);
        }
    }
    cases.into_iter().collect()
}

#[test]
fn a_group_is_stopped_within_its_bound_by_misses_of_an_emulated_tlb() {
    let processor = Processor {
        name: "riscv64",
        target: "riscv64gc-unknown-linux-gnu",
        compiler: "riscv64-linux-gnu-gcc",
        emulator: "qemu-system-riscv64",
        cpus: 2,
        instruction: None,
    };
    let mut cases = Vec::new();
    for backend in BACKENDS {
        for (event, budget, period_us) in
            [("dtlb-misses", 1000, 10_000), ("dtlb-misses", 200, 2000), ("page-faults", 100, 10_000)]
        {
            // The self-test's load must reach one event more than the skid in each period. The counters are exact.
            let (skid, seconds) = if event == "page-faults" { (0, 2) } else { (20, seconds()) };
            // Threads that wake up for each quantum may need all of 2 ms here.
            let period_us = if backend == "threads" { period_us.max(5000) } else { period_us };
            // Programs see a used-up budget at the next multiple of the quantum.
            let beyond = if backend == "bpf" { budget / 10 + skid } else { skid };
            cases.push(Case { event, backend, budget, period_us, skid, seconds, beyond });
        }
    }
    processor.regulates(&cases);
}

#[test]
fn a_group_is_stopped_within_its_bound_by_cycles_of_an_emulated_processor() {
    let processor = Processor {
        name: "arm64",
        target: "aarch64-unknown-linux-gnu",
        compiler: "aarch64-linux-gnu-gcc",
        emulator: "qemu-system-aarch64",
        cpus: 1,
        instruction: Some(3),
    };
    let mut cases = Vec::new();
    for backend in BACKENDS {
        for budget in [3_000_000, 1_000_000] {
            let beyond = if backend == "bpf" { budget / 10 } else { 1000 };
            // Of the group itself: what stops it takes cycles, too. An emulated second takes several.
            let (event, seconds) = ("r11:u", seconds().min(10).div_ceil(2));
            cases.push(Case { event, backend, budget, period_us: 10_000, skid: 20_000, seconds, beyond });
        }
    }
    processor.regulates(&cases);
}
