//! Does a run keep within the memory limit of its cgroup? Looking for frames takes memory for a while, and a program must
//! not be killed for what memtint has looked at.
//!
//! `cargo test -p memtint-cli --test live live::limits::`, as root.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use crate::common::{Launch, Machine, Run, assert_held, skip};

/// Where distributions mount the memory controller, and how the file with its limit is called: version 1, version 2.
const CONTROLLERS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A cgroup with a memory limit of its own.
struct Group(PathBuf);

impl Group {
    /// `None`, with a line that says why, where no such cgroup can be made.
    fn new(limit_mib: u64) -> Option<Group> {
        for (mount, limit) in CONTROLLERS {
            let directory = Path::new(mount).join(format!("memtint-test-{}", std::process::id()));
            if std::fs::create_dir(&directory).is_err() {
                continue;
            }
            let group = Group(directory);
            if std::fs::write(group.0.join(limit), (limit_mib << 20).to_string()).is_ok() {
                return Some(group);
            }
        }
        skip("a memory cgroup of its own");
        None
    }

    /// How many processes had to go because the limit was reached.
    fn kills(&self) -> u64 {
        let of = |file| std::fs::read_to_string(self.0.join(file)).unwrap_or_default();
        let text = of("memory.oom_control") + &of("memory.events");
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.parse().ok()).expect("the kernel counts them")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It is this test's own, and the processes in it have ended.
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn start<'a>(machine: &'a Machine, group: &Group, check: &str, mode: &str) -> Run<'a> {
    let program = machine.compile("scarce", &["-static"]);
    // Whose group first reads memtint's own code pays for it. In one at its limit the kernel drops and reads that code again
    // and again, for up to minutes, before it kills; this is about what comes then.
    for file in [Path::new(env!("CARGO_BIN_EXE_memtint")), &program] {
        std::fs::read(file).expect("it has been built");
    }
    let launch = Launch::new(machine, &[program.to_str().expect("text"), check]).options(&[mode]);
    launch.interactive().group(&group.0).colored()
}

/// Holding what is of the wrong color, as a search does, would take 800 MiB.
#[test]
fn a_program_that_fits_its_limit_is_colored_within_it() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let Some(group) = Group::new(600) else { return };
    for mode in ["--strict", "--soft"] {
        let mut run = start(&machine, &group, "touches_200_mib", mode);
        let pid = run.ready();
        assert_held(&run.colors.inspect(pid));
        // The kernel may choose the program as it may choose others; memtint's processes are exempt, and it is not.
        let choice = |process: &str| std::fs::read_to_string(format!("/proc/{process}/oom_score_adj")).expect("exists");
        assert_eq!(choice(&pid.to_string()), choice("self"));
        run.say("x");
        let ended = run.end();
        ended.assert_success();
        ended.assert_clean_report();
        assert_eq!(group.kills(), 0, "{mode}");
    }
}

#[test]
fn a_strict_program_beyond_its_limit_is_told_of_it() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let Some(group) = Group::new(150) else { return };
    let ended = start(&machine, &group, "touches_200_mib", "--strict").end();
    assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{}", ended.stderr);
    let name = group.0.file_name().and_then(|name| name.to_str()).expect("text");
    let message = format!("the memory limit of cgroup /{name} is 150 MiB");
    assert!(ended.stderr.contains(&message) && ended.stderr.contains("missing"), "{}", ended.stderr);
    assert!(ended.problems().iter().any(|problem| problem.contains(&message)), "{}", ended.report);
    assert_eq!(group.kills(), 0);
}

/// It is killed, as it would be natively, and told why: the kernel says no more than that.
#[test]
fn a_soft_program_beyond_its_limit_ends() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let Some(group) = Group::new(150) else { return };
    let ended = start(&machine, &group, "touches_200_mib", "--soft").end();
    assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{}", ended.stderr);
    let name = group.0.file_name().and_then(|name| name.to_str()).expect("text");
    let message = format!("for want of memory (the memory limit of cgroup /{name} is 150 MiB)");
    assert!(ended.stderr.contains(&message), "{}", ended.stderr);
    assert!(ended.problems().iter().any(|problem| problem.contains(&message)), "{}", ended.report);
}
