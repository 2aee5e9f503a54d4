//! Does the kernel module keep its budgets, on stock kernels (6.12, 6.1) and under PREEMPT_RT, against tasks of every scheduling policy?
//!
//! Builds `kernel/modules/memguard` against Debian's headers, boots the kernels in an emulated machine (`kernel/qemu`) and lets
//! `guest/memguard_module.sh` regulate loads of page faults there: this machine has no counters to emulate. An event in software stops at
//! once, so that budgets are kept to the event; how late the interrupt of a real counter is, this does not show.
//!
//! `cargo test -p memtint-cli --test it memguard_module::`, when something has changed since it passed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use memtint_testing::{due, version};
use serde_json::Value;

/// Runs a script with its arguments; its output, which must not be an error.
fn output(script: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let mut command = Command::new(script);
    let output = command.args(arguments).envs(variables.iter().copied()).output();
    let output = output.unwrap_or_else(|error| panic!("{script:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{script:?} {}: {stderr}\n{stdout}", output.status);
    (stdout, stderr)
}

fn kernel_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel").join(name)
}

/// Paths of a stock kernel and of its headers, which have its version.
fn stock(flavor: &str) -> String {
    output(&kernel_file("modules/memguard/stock.sh"), &[flavor], &[]).0.trim().to_owned()
}

/// A stock kernel and the module for it.
fn module(flavor: &str) -> (String, String) {
    let stock = stock(flavor);
    let (kernel, headers) = stock.split_once(' ').expect("two paths");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memguard-{flavor}"));
    // What an earlier run has left may be of another kernel.
    let _ = std::fs::remove_dir_all(&out);
    let (built, _) = output(&kernel_file("modules/memguard/build.sh"), &[headers, out.to_str().expect("text")], &[]);
    (kernel.to_owned(), built.trim().to_owned())
}

static ONE_GUEST: Mutex<()> = Mutex::new(());

/// What a guest has said: lines `CASE WORD VALUE`.
struct Guest {
    lines: Vec<String>,
    console: String,
}

impl Guest {
    fn run(flavor: &str) -> Guest {
        let (kernel, module) = module(flavor);
        let image = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memguard-{flavor}.img"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/memguard_module.sh");
        let (image, script) = (image.to_str().expect("text"), script.to_str().expect("text"));
        let files = [image, script, env!("CARGO_BIN_EXE_memtint"), "/usr/bin/chrt", &module];
        output(&kernel_file("qemu/initramfs.sh"), &files, &[]);
        let machine = [("NODES", "1"), ("NODE_CPUS", "2"), ("SECONDS_MAX", "900")];
        let (said, console) = output(&kernel_file("qemu/boot.sh"), &[&kernel, image], &machine);
        Guest { lines: said.lines().map(str::to_owned).collect(), console }
    }

    fn values(&self, case: &str, word: &str) -> Vec<&str> {
        let prefix = format!("{case} {word} ");
        self.lines.iter().filter_map(|line| line.strip_prefix(&prefix)).collect()
    }

    fn value(&self, case: &str, word: &str) -> &str {
        let values = self.values(case, word);
        assert_eq!(values.len(), 1, "{case} {word}; {self}");
        values[0]
    }

    fn number(&self, case: &str, word: &str) -> u64 {
        self.value(case, word).parse().unwrap_or_else(|error| panic!("{case} {word}: {error}; {self}"))
    }

    /// The module's numbers of each core, the CPU that is regulated among them.
    fn cores(&self, case: &str) -> Vec<Core> {
        let cores: Vec<Core> = self.values(case, "core").into_iter().map(Core::new).collect();
        assert!(!cores.is_empty(), "{case}; {self}");
        cores
    }

    /// Whether the module counted a period beyond its bound, in any case.
    fn beyond_a_bound(&self) -> bool {
        let cores = self.lines.iter().filter_map(|line| line.split_once(" core "));
        cores.map(|(_, line)| Core::new(line)).any(|core| core.0.get("broken_beyond").is_some_and(|count| *count > 0))
    }

    /// No period of any core went beyond its bound, and no counter failed.
    fn kept(&self, case: &str) -> Vec<Core> {
        let cores = self.cores(case);
        for core in &cores {
            let broken = ["broken_beyond", "broken_late", "broken_counter"].map(|cause| core[cause]);
            assert_eq!(broken, [0, 0, 0], "{case}; {self}");
        }
        cores
    }
}

impl std::fmt::Display for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the guest said:\n{}\nits console:\n{}", self.lines.join("\n"), self.console)
    }
}

/// Numbers of a core by their names.
struct Core(BTreeMap<String, u64>);

impl Core {
    fn new(line: &str) -> Core {
        let words: Vec<&str> = line.split(' ').collect();
        let pair = |pair: &[&str]| Some(((*pair.first()?).to_owned(), pair.get(1)?.parse().ok()?));
        Core(words.chunks(2).filter_map(pair).collect())
    }
}

impl std::ops::Index<&str> for Core {
    type Output = u64;

    fn index(&self, name: &str) -> &u64 {
        self.0.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.0))
    }
}

/// Requests that the module refuses: what the guest calls them, the line, if it is one's, and words of the reason.
const REFUSED: [(&str, &str, &str); 10] = [
    ("period", "line 2: ", "100000 to 1000000000"),
    ("sharing", "line 6: ", "sharing none, or sharing spare"),
    ("budget", "line 7: ", "the budget is not 1 to"),
    ("twice", "line 7: ", "a CPU has two budgets"),
    ("sum", "line 8: ", "add up to more than"),
    ("absent", "", "a CPU is not online"),
    ("clock", "", "the event does not exist"),
    ("counter", "", "the event does not exist"),
    ("torn", "line 8: ", "neither a group nor the end"),
    ("more", "line 9: ", "something follows the end"),
];

fn judge(guest: &Guest) {
    assert_eq!(guest.value("guest", "ended"), "with 0", "{guest}");
    assert_eq!(guest.values("guest", "complaint"), Vec::<&str>::new(), "{guest}");
    let complaint = guest.console.lines().find(|line| line.contains("WARNING") || line.contains("BUG"));
    assert_eq!(complaint, None, "{guest}");
    let absent = guest.value("guest", "absent");
    assert!(absent.contains("/dev/memtint-guard") && absent.contains("is not loaded"), "{absent}");
    assert_eq!((guest.value("guest", "insmod"), guest.value("guest", "rmmod")), ("0", "0"), "{guest}");

    assert_eq!(guest.value("deadline", "partition"), "root", "{guest}");
    for policy in ["other", "fifo", "deadline"] {
        let core = &guest.kept(policy)[0];
        // The kernel finishes what it does for a task before it lets it be stopped.
        assert!(core["used_max"] <= 25, "{policy}; {guest}");
        assert!(core["throttled_periods"] > 10 && core["throttled_ns"] > 100_000_000, "{policy}; {guest}");
        // The load's own count, of which the budget allows 20 in 20 ms.
        let caused = guest.number(policy, "caused");
        assert!(caused > 0 && core["used"] >= caused && core["used"] <= 25 * core["periods"], "{policy}; {guest}");
    }
    let one = &guest.kept("one")[0];
    assert!(one["used_max"] <= 2 && one["throttled_periods"] > 20, "{guest}");
    let second = guest.value("second", "status");
    assert!(second.contains("busy"), "{second}");
    assert_eq!((guest.value("second", "running"), guest.value("ended", "running")), ("running 1", "running 0"));
    // Nothing regulates: there is more in 300 ms than in all of the seconds before.
    assert!(guest.number("ended", "caused") > guest.number("one", "caused"), "{guest}");

    let changes = ["changed", "soft", "absent"].map(|word| guest.value("reserve", word));
    assert_eq!(changes, ["accepted", "refused", "refused"], "{guest}");
    let reserved = &guest.kept("reserve")[0];
    assert!(reserved["used_max"] > 15 && reserved["used_max"] <= 45, "{guest}");

    let soft = guest.kept("soft");
    assert!(soft[0]["donated"] > 0 && soft[1]["reclaimed"] > 0, "{guest}");
    for cores in [&soft, &guest.kept("both")] {
        // What is reclaimed is donated: the budgets of both are never exceeded.
        assert!(cores.iter().all(|core| core["used_max"] <= 100), "{guest}");
        let used = cores[0]["used"] + cores[1]["used"];
        assert!(used <= 100 * cores[0]["periods"].max(cores[1]["periods"]), "{guest}");
    }
    let spare = &guest.kept("spare")[1];
    assert!(spare["used"] > 20 * spare["periods"], "an idle CPU keeps the other throttled; {guest}");

    assert_eq!(guest.value("hotplug", "offline"), "0");
    let hotplug = &guest.kept("hotplug")[0];
    assert_eq!((hotplug["online"], hotplug["broken_offline"]), (1, 1), "{guest}");
    assert!(hotplug["throttled_periods"] > 10 && hotplug["used_max"] <= 25, "{guest}");

    assert_eq!(guest.number("storm", "rounds"), 60);

    let [all, user] = ["all", "user"].map(|whose| guest.kept(&format!("kernel-{whose}"))[0]["used"]);
    assert!(all >= user + 900, "dd reads into 1024 pages: {all}, without the kernel's {user}; {guest}");
    assert_eq!(guest.value("killed", "running"), "running 0");
    for (case, line, words) in REFUSED {
        let case = format!("refuse-{case}");
        assert_ne!(guest.value(&case, "status"), "0", "{case}; {guest}");
        let reason = guest.value(&case, "reason");
        assert!(reason.starts_with(line) && reason.contains(words), "{case}: {reason}");
    }
    judge_command_line(guest);
}

fn judge_command_line(guest: &Guest) {
    let json = |word: &str| -> Value {
        let value = guest.value("guard", word);
        serde_json::from_str(value).unwrap_or_else(|error| panic!("{word}: {error}: {value:?}; {guest}"))
    };
    let (started, ended) = (json("started"), json("report"));
    assert_eq!(started["backend"], "kernel");
    assert_eq!(started["groups"][0]["stopped_by"], "halting its CPUs");
    let tested = &started["self_test"][0]["least_budget"];
    assert!(tested["throttled_periods"].as_u64() > Some(0) && tested["budget"] == 1, "{started}");
    let row = &ended["groups"][0];
    assert!(row["throttled_periods"].as_u64() > Some(10) && row["used_max"].as_u64() <= Some(25), "{ended}");
    assert!(guest.number("guard", "caused") > 0, "{guest}");
    assert_eq!((&ended["verdict"], guest.value("guard", "status")), (&"kept".into(), "0"), "{guest}");
    assert_eq!(guest.value("group", "status"), "2");
    let told = guest.value("group", "told");
    assert!(told.contains("web") && told.contains("the kernel module stops whole CPUs"), "{told}");
}

fn keeps_budgets(flavor: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = [
        "Cargo.lock",
        "Cargo.toml",
        "crates/cli/Cargo.toml",
        "crates/cli/src/guard",
        "crates/cli/src/guard.rs",
        "crates/cli/src/main.rs",
        "crates/cli/src/output.rs",
        "crates/cli/src/system.rs",
        "crates/cli/tests/guest/memguard_module.sh",
        "crates/cli/tests/it/memguard_module.rs",
        "crates/embed",
        "crates/guard",
        "crates/input",
        "crates/map",
        "crates/registry",
        "crates/regulator",
        "crates/sched",
        "crates/service",
        "crates/system",
        "crates/units",
        "kernel/modules",
        "kernel/package.sh",
        "kernel/qemu/boot.sh",
        "kernel/qemu/init",
        "kernel/qemu/initramfs.sh",
    ];
    let versions = ["qemu-system-x86_64", "gcc", "clang"].map(version).into_iter().chain([stock(flavor)]);
    let name = format!("memguard-{flavor}");
    let Some(due) = due(&name, &files.map(|file| root.join(file)), &versions.collect::<Vec<_>>()) else { return };
    // A period is late where the machine has no time for the guest: one guest at a time.
    let alone = ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner);
    judge_one_of(ATTEMPTS, || {
        let guest = Guest::run(flavor);
        let broken = guest.beyond_a_bound();
        (broken, std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge(&guest))))
    });
    drop(alone);
    due.passed();
}

/// The guest's clock is the host's: where other work keeps its CPUs waiting, the module rightly reports late periods, and RCU a stall.
const ATTEMPTS: usize = 3;

/// Tries a guest until it passes, a limited number of times: each gives whether a budget was exceeded, which is never forgiven, and the
/// judgment. Each failure is printed by its panic.
fn judge_one_of(attempts: usize, attempt: impl Fn() -> (bool, std::thread::Result<()>)) {
    for number in 1..=attempts {
        let (is_broken, judgment) = attempt();
        let Err(cause) = judgment else { return };
        eprintln!("guest {number} of {attempts} failed{}", if is_broken { ": a budget was exceeded" } else { "" });
        if is_broken || number == attempts {
            std::panic::resume_unwind(cause);
        }
    }
}

#[test]
fn a_guest_that_fails_once_is_tried_again_unless_a_budget_was_exceeded() {
    let tries = std::cell::Cell::new(0);
    let failing = |failures: u32, is_broken: bool| {
        tries.set(0);
        let attempt = || {
            tries.set(tries.get() + 1);
            let failed = tries.get() <= failures;
            (failed && is_broken, if failed { Err(Box::new("late") as Box<dyn std::any::Any + Send>) } else { Ok(()) })
        };
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge_one_of(3, attempt))).is_ok();
        (passed, tries.get())
    };
    assert_eq!((failing(0, false), failing(1, false), failing(3, false)), ((true, 1), (true, 2), (false, 3)));
    assert_eq!(failing(1, true), (false, 1));
}

#[test]
fn a_stock_kernel_keeps_budgets_by_the_module() {
    keeps_budgets("cloud");
}

#[test]
fn so_does_preempt_rt() {
    keeps_budgets("rt");
}

#[test]
fn so_does_the_kernel_of_debian_12() {
    keeps_budgets("old");
}
