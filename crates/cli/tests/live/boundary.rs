//! Is `memtint run --user` at least as strong as `setpriv`? A program, or another process of its user, attacks what serves
//! it; nothing beyond its own address space may come of it. `docs/security.md` says what is promised.
//!
//! `cargo test -p memtint-cli --test live live::boundary::`, as root. The fuzzer sends MEMTINT_FUZZ_MESSAGES messages, or 100000.

use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{Ended, Launch, Machine, Process, PublicProgram, Run, assert_held, within};

const NOBODY: u32 = 65534;

/// The attacking program.
struct Attacker(PublicProgram);

impl Attacker {
    fn new(machine: &Machine) -> Attacker {
        Attacker(PublicProgram::compile(machine, "boundary"))
    }

    fn launch<'a>(&self, machine: &'a Machine, check: &str) -> Launch<'a> {
        self.0.launch(machine, check)
    }

    fn colored<'a>(&self, machine: &'a Machine, check: &str) -> Run<'a> {
        self.launch(machine, check).options(&["--user", "nobody"]).interactive().colored()
    }

    /// Sends messages in the name of the helper of `program`, from a process of its user outside of the run; returns how
    /// many were taken.
    fn send(&self, program: u32, messages: u64, victim: u32) -> u64 {
        let words =
            ["says_anything".to_owned(), program.to_string(), messages.to_string(), "42".into(), victim.to_string()];
        let output = Command::new(&self.0.0).args(words).uid(NOBODY).gid(NOBODY).output().expect("it was compiled");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let sent = text.trim().strip_prefix("sent ").and_then(|count| count.parse().ok());
        sent.unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// A process of root that has nothing to do with any of this.
struct Bystander(Child);

impl Bystander {
    fn start() -> Bystander {
        Bystander(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("everybody has sleep"))
    }

    /// What must not change: tracer, pending signals, scheduling, CPUs and limits.
    fn state(&self) -> String {
        let pid = self.0.id();
        let text = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("it runs");
        let kept =
            |line: &&str| ["TracerPid", "Cpus_allowed:", "SigPnd", "ShdPnd"].iter().any(|name| line.starts_with(name));
        let status = text("status");
        // SAFETY: takes a number.
        let policy = unsafe { libc::sched_getscheduler(pid as libc::pid_t) };
        format!("{}\n{}{policy}", status.lines().filter(kept).collect::<Vec<_>>().join("\n"), text("limits"))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(pid: u32) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    text.lines().filter_map(field).collect()
}

/// The children of a run's front with this name: its one supervisor, or its helpers.
fn children(run: &Run, name: &str) -> Vec<u32> {
    let is = |process: &Process| process.parent == run.front() && process.name == name;
    crate::common::alive().into_iter().filter(is).map(|process| process.pid).collect()
}

fn supervisor(run: &Run) -> u32 {
    let [supervisor] = children(run, "memtint")[..] else { panic!("one supervisor: {:?}", crate::common::alive()) };
    supervisor
}

/// The attack ends well for the program, or with the program alone.
fn attack(check: &str) -> Option<Ended> {
    let machine = Machine::take(&["cc"])?;
    let attacker = Attacker::new(&machine);
    Some(attacker.colored(&machine, check).end())
}

#[test]
fn descriptors_of_the_helper_cannot_be_taken() {
    if let Some(ended) = attack("takes_descriptors") {
        ended.assert_success();
        assert!(ended.problems().iter().any(|problem| problem.contains("pidfd_getfd")), "{}", ended.report);
    }
}

#[test]
fn nor_from_the_helpers_own_code() {
    if let Some(ended) = attack("jumps_into_the_helper") {
        ended.assert_success();
    }
}

#[test]
fn a_stopped_helper_goes_on() {
    if let Some(ended) = attack("stops_the_helper") {
        ended.assert_success();
        ended.assert_clean_report();
    }
}

#[test]
fn a_killed_helper_ends_its_program() {
    if let Some(ended) = attack("kills_the_helper") {
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{}", ended.stderr);
        assert!(ended.problems().iter().any(|problem| problem.contains("helper is lost")), "{}", ended.report);
    }
}

/// Whatever becomes of the program: signals reach it, and memtint ends with it.
#[test]
fn a_trampled_control_area_harms_the_program_alone() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let attacker = Attacker::new(&machine);
    let bystander = Bystander::start();
    let before = bystander.state();
    let run = attacker.colored(&machine, "tramples_on_the_control_area");
    std::thread::sleep(Duration::from_secs(1));
    run.signal(run.front(), libc::SIGTERM);
    assert_eq!(bystander.state(), before);
    drop(bystander);
    let ended = run.end();
    assert!(ended.status.signal().is_some() || ended.status.success(), "{:?}: {}", ended.status, ended.stderr);
}

#[test]
fn privileges_given_up_are_not_in_the_helper() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let attacker = Attacker::new(&machine);
    attacker.launch(&machine, "gives_up_privileges").colored().end().assert_success();
}

#[test]
fn the_helper_is_confined_and_held_by_the_supervisor() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let attacker = Attacker::new(&machine);
    for user in ["nobody", "root"] {
        let mut run = attacker.launch(&machine, "waits").options(&["--user", user]).interactive().colored();
        let program = run.ready();
        let [helper] = children(&run, "memtint-helper")[..] else { panic!("one helper") };
        let (own, programs) = (status(helper), status(program));
        let filters = |status: &BTreeMap<String, String>| status["Seccomp_filters"].parse::<u32>().expect("a number");
        assert_eq!(own["NoNewPrivs"], "1");
        assert_eq!(filters(&own), filters(&programs) + 1);
        let capabilities = u64::from_str_radix(&own["CapPrm"], 16).expect("a set");
        // CAP_KILL, CAP_IPC_LOCK, CAP_SYS_PTRACE.
        assert_eq!(capabilities & !(1 << 5 | 1 << 14 | 1 << 19), 0, "{user}");
        assert_eq!(own["TracerPid"], supervisor(&run).to_string(), "{user}");
        let descriptors = std::fs::read_dir(format!("/proc/{helper}/fd")).expect("it runs");
        let mut names: Vec<String> = descriptors
            .map(|entry| std::fs::read_link(entry.expect("an entry").path()).expect("a link").display().to_string())
            .map(|name| name.split('[').next().expect("text").to_owned())
            .collect();
        names.sort();
        assert_eq!(names, ["anon_inode:", "socket:"], "{user}");
        // What the program began with, it has again.
        let dumpable = std::fs::metadata(format!("/proc/{program}/environ")).expect("it runs");
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&dumpable), if user == "root" { 0 } else { NOBODY });
        run.say("x");
        run.end().assert_success();
    }
}

/// Every message of the right form, from another process: the run goes on, and nobody else notices.
#[test]
fn messages_of_any_content_have_no_effect_elsewhere() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let attacker = Attacker::new(&machine);
    let bystander = Bystander::start();
    let before = bystander.state();
    let mut other = attacker.colored(&machine, "waits");
    let neighbour = other.ready();
    let launch = attacker.launch(&machine, "waits").options(&["--user", "nobody"]).interactive();
    let mut run = launch.colored();
    let program = run.ready();
    let descriptors_of = supervisor(&run);
    let count = || std::fs::read_dir(format!("/proc/{descriptors_of}/fd")).map_or(0, Iterator::count);
    let descriptors = count();
    let messages = std::env::var("MEMTINT_FUZZ_MESSAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    assert_eq!(attacker.send(program, messages, 0), messages);
    assert!(crate::common::is_alive(program), "what is of the right form is served");
    assert!(count() <= descriptors + 1, "{} descriptors, {descriptors} before", count());
    assert_eq!(bystander.state(), before);
    assert_held(&other.colors.inspect(neighbour));
    // A call passed on by a helper that was never asked to: the end of its program, and no more.
    assert_eq!(attacker.send(program, 0, bystander.0.id()), 0);
    assert!(within(Duration::from_secs(60), || !crate::common::is_alive(program)), "it has lied");
    assert_eq!(bystander.state(), before);
    drop(bystander);
    other.say("x");
    other.end_with_survivors().assert_success();
    let ended = run.end();
    assert!(ended.problems().len() < 100, "{} problems", ended.problems().len());
}

#[test]
fn another_user_gets_that_users_environment() {
    let Some(machine) = Machine::take(&["setpriv"]) else { return };
    let launch =
        |command: &[&str]| Launch::new(&machine, command).environment("SECRET", "of root").environment("TERM", "vt");
    let sorted = |ended: Ended| {
        ended.assert_success();
        let mut lines: Vec<String> = ended.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let words = ["--reuid", "nobody", "--regid", "nogroup", "--init-groups", "--reset-env", "env"];
    let expected = sorted(launch(&[&["setpriv"], &words[..]].concat()).native().end());
    let found = sorted(launch(&["env"]).options(&["--user", "nobody"]).colored().end());
    assert_eq!(found, expected);
    assert!(found.contains(&"USER=nobody".to_owned()));
}

#[test]
fn a_service_manager_talks_to_the_program() {
    const PRINT: &str = "env | grep -E '^(NOTIFY|WATCHDOG|LISTEN)_' | sort";
    let Some(machine) = Machine::take(&[]) else { return };
    let variables = [("LISTEN_FDS", "1"), ("NOTIFY_SOCKET", "/run/socket"), ("WATCHDOG_PID", "1")];
    for user in [&[][..], &["--user", "nobody"]] {
        let launch = Launch::new(&machine, &["sh", "-c", PRINT]).options(user);
        let launch = variables.iter().fold(launch, |launch, (name, value)| launch.environment(name, value));
        let ended = launch.colored().end();
        ended.assert_success();
        assert_eq!(ended.stdout, "LISTEN_FDS=1\nNOTIFY_SOCKET=/run/socket\nWATCHDOG_PID=1\n", "{user:?}");
    }
}
