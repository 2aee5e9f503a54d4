//! Does it work on a stock distribution kernel, with cgroups of version 2 and more than one NUMA node?
//!
//! Boots Debian's 6.12 in an emulated machine of two nodes (`kernel/qemu`) and lets `guest/stock_kernel.sh` run programs
//! there, in color and with budgets; what the guest says comes out over a serial line, and is judged here. No privileges are needed outside.
//!
//! `cargo test -p memtint-cli --test it stock_kernel::`; what is missing, the kernel too, installs `scripts/setup.sh`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Programs that the guest gets, by where they are here.
const PROGRAMS: [&str; 3] = [env!("CARGO_BIN_EXE_memtint"), "/usr/bin/sqlite3", "/usr/bin/sort"];
/// Cases in which a database is looked at while it runs, and the node that all of its pages are on, if it is one.
const DATABASES: [(&str, Option<usize>); 7] = [
    ("banks", Some(0)),
    ("node0", Some(0)),
    ("node1", Some(1)),
    ("spanning", None),
    ("balanced", Some(0)),
    ("cgroup", Some(1)),
    ("confined", Some(0)),
];
/// Private pages that the database has at least.
const PAGES: u64 = 1200;

/// What the guest said: lines `CASE WORD VALUE`.
struct Guest {
    lines: Vec<String>,
    console: String,
}

impl Guest {
    /// Boots the machine and waits for its end.
    fn run() -> Guest {
        let kernel = text(&harness("kernel.sh", &[]).stdout).trim().to_owned();
        let image = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stock_kernel.img");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/stock_kernel.sh");
        let (image, script) = (image.to_str().expect("text"), script.to_str().expect("text"));
        harness("initramfs.sh", &[&[image, script], PROGRAMS.as_slice()].concat());
        let output = harness("boot.sh", &[&kernel, image]);
        let lines = text(&output.stdout).lines().map(str::to_owned).collect();
        Guest { lines, console: text(&output.stderr) }
    }

    /// The one value of a case under a word.
    fn value(&self, case: &str, word: &str) -> &str {
        let prefix = format!("{case} {word} ");
        let mut found = self.lines.iter().filter_map(|line| line.strip_prefix(&prefix));
        let value = found.next().unwrap_or_else(|| panic!("no {prefix:?} from the guest; {self}"));
        assert_eq!(found.next(), None, "{prefix:?} comes once");
        value
    }

    fn json(&self, case: &str, word: &str) -> Value {
        let value = self.value(case, word);
        serde_json::from_str(value).unwrap_or_else(|error| panic!("{case} {word}: {error}: {value:?}; {self}"))
    }

    /// The run's own report: nothing out of color, nothing refused, no problem.
    fn assert_all_in_color(&self, case: &str) {
        let report = self.json(case, "report");
        assert_eq!(report["problems"], Value::Array(Vec::new()), "{case}: {report}");
        assert_eq!(report["mode"], "strict");
        let spaces = report["address_spaces"].as_array().expect("a list");
        assert!(!spaces.is_empty(), "{case}: {report}");
        for space in spaces {
            for zero in ["pages_out_of_color", "pages_refused", "move_refused", "pages_out_of_color_at_end"] {
                assert_eq!(space[zero], 0, "{case}, {zero}: {report}");
            }
            // The free list of the right node is where the frames are: chance would give an eighth.
            let (kept, scanned) = (space["kept_pages"].as_u64(), space["scanned_pages"].as_u64());
            assert!(kept.expect("a count") * 4 > scanned.expect("a count") * 3, "{case}: {report}");
        }
    }

    /// What `inspect` saw while the program ran.
    fn assert_held(&self, case: &str) {
        let seen = self.json(case, "inspect");
        assert_eq!(seen["verdict"], "held", "{case}: {seen}");
        assert!(seen["private"]["pages"].as_u64().is_some_and(|pages| pages > PAGES), "{case}: {seen}");
        assert_eq!(seen["private"]["in_color_pages"], seen["private"]["pages"], "{case}: {seen}");
        // Nobody merges pages in this guest, whatever its kernel says of them.
        assert_eq!(seen["private"]["ksm_pages"], 0, "{case}: {seen}");
        let processes = seen["processes"].as_array().expect("a list");
        assert!(processes.iter().all(|process| process["comm"] == "sqlite3"), "{case}: {seen}");
    }

    /// The kernel's own count of pages by node.
    fn assert_on_node(&self, case: &str, node: Option<usize>) {
        let counts = self.value(case, "pages");
        let pages: Vec<u64> = counts.split(' ').map(|count| count.parse().expect("a count")).collect();
        assert!(pages.iter().sum::<u64>() > PAGES, "{case}: {counts}");
        match node {
            Some(node) => assert_eq!(pages[1 - node], 0, "{case}: {counts}"),
            None => assert_eq!(pages.len(), 2, "{case}: {counts}"),
        }
    }
}

impl std::fmt::Display for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |line: &String| line.chars().take(200).collect::<String>();
        let lines: Vec<String> = self.lines.iter().map(cut).collect();
        write!(f, "the guest said:\n{}\nits console:\n{}", lines.join("\n"), self.console)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a script of `kernel/qemu`, which limit their own time; fails with its words when it fails.
fn harness(script: &str, arguments: &[&str]) -> Output {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/qemu").join(script);
    let mut command = Command::new(&path);
    // The machine is up and off within a minute where nothing else runs.
    command.args(arguments).env("SECONDS_MAX", "3600");
    let output = command.output().unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{script} {}: {stderr}\n{stdout}", output.status);
    output
}

#[test]
fn programs_keep_to_their_colors_and_nodes_on_a_stock_kernel() {
    let guest = Guest::run();
    assert_eq!(guest.value("guest", "ended"), "with 0", "{guest}");
    let release = guest.value("guest", "kernel");
    assert!(!release.is_empty() && release != text(&std::fs::read("/proc/sys/kernel/osrelease").unwrap()).trim());
    assert_eq!(guest.value("guest", "nodes"), "0-1", "two nodes are what it is about");
    assert_eq!(guest.value("guest", "balancing"), "1", "what memtint has to keep off must be on");
    for (case, node) in DATABASES {
        assert_eq!(guest.value(case, "status"), "0", "{case}; {guest}");
        assert_eq!(guest.value(case, "output"), guest.value("native", "output"), "{case}");
        guest.assert_held(case);
        guest.assert_on_node(case, node);
        guest.assert_all_in_color(case);
    }
    assert_eq!(guest.value("outside", "status"), "125");
    let refusal = guest.value("outside", "refusal");
    assert!(refusal.contains("NUMA nodes [1]") && refusal.contains("nodes [0] only"), "{refusal}");
    assert_eq!(guest.value("threads", "sorted"), guest.value("native", "sorted"));
    guest.assert_all_in_color("threads");
    for backend in ["bpf", "threads"] {
        let case = &format!("guard-{backend}");
        assert_eq!(guest.value(case, "status"), "0", "{}; {guest}", guest.value(case, "refusal"));
        let (started, ended) = (guest.json(case, "started"), guest.json(case, "report"));
        assert_eq!((&started["backend"], &ended["verdict"]), (&backend.into(), &"kept".into()), "{ended}");
        let number = |field: &str| ended["groups"][0][field].as_u64().expect("a count");
        let caused = guest.value(case, "caused").parse::<u64>().expect("a count");
        // 50, and a quantum of 13.
        assert!(number("throttled_periods") > 0 && number("used_max") <= 63 && number("used") >= caused, "{ended}");
    }
    assert_eq!((guest.value("guest", "killed"), guest.value("cgroup", "killed")), ("0", "0"), "{guest}");
    let charged = guest.value("cgroup", "peak").parse::<u64>().expect("bytes");
    assert!(charged > PAGES * 4096, "{charged} bytes charged to the cgroup: the program was not in it");
}
