//! Does `memtint run` behave like the program it runs? Statuses, signals, input and output, users and limits; and does
//! nothing stay behind, whoever is killed?
//!
//! `cargo test -p memtint-cli --test live live::manners::`, as root.

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{BANKS, Colors, Launch, Machine, Process, Run, alive, assert_held, is_alive, within};

const SOON: Duration = Duration::from_secs(300);

/// A program that waits, in color.
fn waiting<'a>(machine: &'a Machine, check: &str) -> (Run<'a>, u32) {
    let program = machine.compile("manners", &[]);
    let mut run = Launch::new(machine, &[program.to_str().expect("text"), check]).interactive().colored();
    let pid = run.ready();
    (run, pid)
}

fn shell<'a>(machine: &'a Machine, script: &str) -> Launch<'a> {
    Launch::new(machine, &["sh", "-c", script])
}

#[test]
fn the_status_is_the_programs() {
    let Some(machine) = Machine::take(&["sh"]) else { return };
    for code in [0, 1, 3, 125, 255] {
        let ended = shell(&machine, &format!("exit {code}")).colored().end();
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(code), ""));
        assert_eq!(ended.report["exit_status"], code);
    }
}

#[test]
fn death_by_a_signal_is_mirrored() {
    let Some(machine) = Machine::take(&["sh"]) else { return };
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGABRT, libc::SIGPIPE, libc::SIGUSR1] {
        let ended = shell(&machine, &format!("kill -{signal} $$")).colored().end();
        assert_eq!(ended.status.signal(), Some(signal), "{}", ended.stderr);
        assert_eq!(ended.report["signal"], signal);
        assert_eq!(ended.report["exit_status"], 128 + signal);
    }
}

/// A shell says "core dumped" when there is a core file: natively and in color alike, and there is one in color too.
#[test]
fn a_core_file_is_the_programs() {
    let Some(machine) = Machine::take(&["sh"]) else { return };
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim() != "core" {
        return crate::common::skip("core files that the kernel writes where the program is");
    }
    let place = crate::common::scratch("cores");
    std::fs::create_dir_all(&place).expect("cargo made the directory");
    for signal in [libc::SIGSEGV, libc::SIGABRT] {
        for limit in ["unlimited", "0"] {
            let script = format!("ulimit -c {limit}; kill -{signal} $$");
            let dumped = [false, true].map(|colored| {
                let launch = shell(&machine, &script).directory(&place);
                let ended = if colored { launch.colored() } else { launch.native() }.end();
                assert_eq!(ended.status.signal(), Some(signal), "{}", ended.stderr);
                let files = std::fs::read_dir(&place).expect("it was made").flatten().map(|entry| entry.path());
                let sizes: Vec<u64> = files
                    .map(|file| {
                        let size = file.metadata().expect("it is there").len();
                        std::fs::remove_file(&file).expect("it is this test's own");
                        size
                    })
                    .collect();
                // What memtint writes of itself would be smaller.
                assert!(sizes.iter().all(|size| *size > 1 << 16), "{sizes:?}");
                (ended.status.core_dumped(), sizes.len())
            });
            assert_eq!(dumped[0], (limit != "0", usize::from(limit != "0")), "signal {signal}, limit {limit}");
            assert_eq!(dumped[1], dumped[0], "signal {signal}, limit {limit}");
        }
    }
}

#[test]
fn signals_to_memtint_reach_the_program() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let (mut run, _) = waiting(&machine, "listens");
    let signals = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT];
    for signal in signals {
        run.signal(run.front(), signal);
        assert_eq!(run.line(), format!("signal {signal:02}"));
    }
    run.say("x");
    let ended = run.end();
    ended.assert_success();
    assert_eq!(ended.stdout, "OK\n");
}

#[test]
fn an_interrupted_program_ends_memtint_the_same_way() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let (run, _) = waiting(&machine, "stays");
        run.signal(run.front(), signal);
        let ended = run.end();
        assert_eq!(ended.status.signal(), Some(signal), "{}; {}", ended.status, ended.stderr);
    }
}

#[test]
fn input_reaches_the_program_and_its_end_too() {
    let Some(machine) = Machine::take(&["cat", "wc"]) else { return };
    let text: Vec<u8> = (0..1_000_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let ended = Launch::new(&machine, &["cat"]).input(&text).colored().end();
    ended.assert_success();
    assert!(ended.stdout.as_bytes() == text, "{} bytes came back", ended.stdout.len());
}

#[test]
fn standard_error_is_the_programs_alone() {
    let Some(machine) = Machine::take(&["sh"]) else { return };
    let ended = shell(&machine, "echo out; echo err >&2").colored().end();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("out\n", "err\n"));
}

/// What the colors rest on, and how much memory is in them: said once, before the program begins, and in the report.
#[test]
fn a_run_begins_with_what_is_assumed_and_what_its_colors_hold() {
    let Some(machine) = Machine::take(&["sh"]) else { return };
    let ended = shell(&machine, "true").colored().end();
    let lines: Vec<&str> = ended.beginning.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ended.beginning);
    // On some machines the index of the last-level cache is assumed too.
    let assumed = [": bank functions assumed, ", ": bank functions and cache index assumed, "];
    assert!(assumed.iter().any(|words| lines[0].contains(words)), "{}", lines[0]);
    assert!(lines[0].contains(" assumed, not measured on this machine"), "{}", lines[0]);
    assert!(lines[1].starts_with("memtint: bank classes 0-3 hold ") && lines[1].contains("free"), "{}", lines[1]);
    let fit = &ended.report["platform_fit"];
    assert_eq!((&fit["assumed"][0], &fit["contradictions"]), (&"bank functions".into(), &serde_json::json!([])));
    assert_eq!(fit["hypervisor"].is_string(), lines[0].contains("virtual machine"), "{fit}");
    let bytes = |name: &str| ended.report[name].as_u64().expect("a number");
    assert!(bytes("colors_bytes") > bytes("colors_free_bytes") && bytes("colors_free_bytes") > 0, "{}", ended.report);
}

/// A catalogue name of another machine: `held` would be a verdict about nothing.
#[test]
fn a_platform_of_another_machine_is_refused() {
    let Some(machine) = Machine::take(&["sh"]) else { return };
    let refused = |options: &[&str]| {
        let ended = shell(&machine, "echo ran").colors(options).colored().end();
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(125), ""), "{}", ended.stderr);
        ended.beginning + &ended.stderr
    };
    // 4 GiB, of a processor that has no KVM guests any more.
    let message = refused(&["--platform", "nehalem-w3530", "--banks", "0-3"]);
    assert!(message.contains("is not this machine's") && message.contains("--platform-assumed"), "{message}");
    // Borrowed functions, and half of the memory.
    let text = std::fs::read_to_string(&machine.platform).expect("it was written");
    let mut half: toml::Table = text.parse().expect("a platform file is TOML");
    half["region"].as_array_mut().expect("regions").truncate(1);
    let file = crate::common::scratch("half.toml");
    std::fs::write(&file, half.to_string()).expect("cargo made the directory");
    let file = file.to_str().expect("text");
    let message = refused(&["--platform", file, "--banks", "0-3"]);
    assert!(message.contains("its regions hold ") && message.contains("of this machine's"), "{message}");
}

#[test]
fn an_option_that_does_not_exist_is_no_program() {
    let Some(machine) = Machine::take(&["echo"]) else { return };
    for (option, nearest) in [("--loud", "-- --loud"), ("--bank", "'--banks'"), ("--reprt=x", "'--report'")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
        command.args(["run", "--platform"]).arg(&machine.platform).args([option, "echo"]);
        let output = command.output().expect("it was built");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{message}");
        assert!(message.contains(nearest), "{option}: {message}");
    }
    // Behind the program's name, options are the program's.
    let ended = Launch::new(&machine, &["echo", "--quiet", "-n"]).colored().end();
    assert_eq!(ended.stdout, "--quiet -n\n");
}

#[test]
fn the_pid_file_names_the_program_while_it_runs() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("manners", &[]);
    let file = crate::common::scratch("program.pid");
    let options = ["--pid-file", file.to_str().expect("text")];
    let launch = Launch::new(&machine, &[program.to_str().expect("text"), "stays"]).options(&options);
    let mut run = launch.interactive().colored();
    let pid = run.ready();
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), format!("{pid}\n"));
    run.signal(pid, libc::SIGTERM);
    run.end();
    assert!(!file.exists());
}

#[test]
fn a_closed_pipe_is_not_an_error_of_memtint() {
    let Some(machine) = Machine::take(&["yes"]) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(["run", "--floor", "user", "--platform"]).arg(&machine.platform).args(["--banks", BANKS, "--", "yes"]);
    command.env("MEMTINT_REGISTRY", crate::common::registry());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
    let mut some = [0; 100];
    child.stdout.take().expect("piped").read_exact(&mut some).expect("yes says a lot");
    assert!(within(SOON, || !is_alive(child.id())), "yes goes on without a reader");
    let output = child.wait_with_output().expect("a child can be waited for");
    let (_, rest) = crate::common::beginning(&String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.signal(), rest.as_str()), (Some(libc::SIGPIPE), ""));
}

#[test]
fn a_program_that_cannot_be_started_ends_with_126_or_127() {
    let Some(machine) = Machine::take(&[]) else { return };
    for (program, code) in [("/etc/passwd", 126), ("/", 126), ("/no/such/program", 127), ("no-such-program", 127)] {
        let ended = Launch::new(&machine, &[program]).colored().end();
        assert_eq!(ended.status.code(), Some(code), "{program}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("memtint: ") && ended.stderr.contains(program), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn another_user_has_the_program_in_color_and_no_frame_numbers() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("manners", &[]);
    // Another user may not enter the directories that lead to the build.
    let copy = std::env::temp_dir().join(format!("memtint-manners-{}", std::process::id()));
    std::fs::copy(&program, &copy).expect("a writable directory");
    let command = [copy.to_str().expect("text"), "knows_no_frames"];
    let mut run = Launch::new(&machine, &command).options(&["--user", "nobody"]).interactive().colored();
    let pid = run.ready();
    assert_held(&run.colors.inspect(pid));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).expect("a field").to_owned();
    assert!(!field("Uid:").split_whitespace().any(|user| user == "0"), "{status}");
    assert_eq!(u64::from_str_radix(field("CapEff:").trim(), 16), Ok(0));
    run.say("x");
    let ended = run.end();
    // It was this test's own.
    let _ = std::fs::remove_file(&copy);
    ended.assert_success();
    let unknown = Launch::new(&machine, &["true"]).options(&["--user", "nobody-at-all"]).colored().end();
    assert_eq!(unknown.status.code(), Some(125));
    assert!(unknown.stderr.contains("nobody-at-all"), "{}", unknown.stderr);
}

#[test]
fn without_privileges_one_sentence_says_what_is_needed() {
    let Some(machine) = Machine::take(&[]) else { return };
    let mut command = Command::new("/proc/self/fd/9");
    let binary = std::fs::File::open(env!("CARGO_BIN_EXE_memtint")).expect("it was built");
    let platform = std::env::temp_dir().join(format!("memtint-here-{}.toml", std::process::id()));
    std::fs::copy(&machine.platform, &platform).expect("a writable directory");
    command.args(["run", "--floor", "user", "--platform"]).arg(&platform).args(["--banks", BANKS, "--", "true"]);
    // The build may lie where another user may not go: the binary is passed as a descriptor.
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&binary);
    // SAFETY: only calls that are allowed between fork and exec, with numbers.
    unsafe {
        command.pre_exec(move || {
            let done = libc::dup2(descriptor, 9) == 9 && libc::setgid(65534) == 0 && libc::setuid(65534) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    let output = command.current_dir("/").output().expect("it starts");
    // It was this test's own.
    let _ = std::fs::remove_file(&platform);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{message}");
    assert!(message.contains("CAP_SYS_ADMIN") && message.contains("--user"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn the_program_runs_on_the_cores_it_was_given() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("manners", &[]);
    let command = [program.to_str().expect("text"), "says_its_cores"];
    let native = Launch::new(&machine, &command).native().end();
    let colored = Launch::new(&machine, &command).colored().end();
    assert_eq!(colored.stdout, native.stdout);
    let one = Launch::new(&machine, &command).options(&["--cores", "0"]).colored().end();
    assert_eq!(one.stdout, "core 0\nOK\n");
    let none = Launch::new(&machine, &command).options(&["--cores", "4000"]).colored().end();
    assert_eq!(none.status.code(), Some(125), "{}", none.stderr);
}

#[test]
fn a_limit_of_address_space_makes_allocations_fail_and_nothing_else() {
    let Some(machine) = Machine::take(&["cc", "sh"]) else { return };
    for linkage in [&[][..], &["-static"]] {
        let program = machine.compile("manners", linkage);
        let script = format!("ulimit -v 65536; exec {} limited", program.display());
        shell(&machine, &script).native().end().assert_success();
        let ended = shell(&machine, &script).colored().end();
        ended.assert_success();
        ended.assert_clean_report();
    }
}

#[test]
fn a_killed_program_leaves_nothing_behind() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    for check in ["stays", "spins"] {
        let (run, pid) = waiting(&machine, check);
        run.signal(pid, libc::SIGKILL);
        let ended = run.end();
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{}", ended.stderr);
        assert_eq!(ended.report["signal"], libc::SIGKILL);
    }
}

#[test]
fn a_killed_front_leaves_nothing_behind() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    for check in ["stays", "spins"] {
        let (run, pid) = waiting(&machine, check);
        run.signal(run.front(), libc::SIGKILL);
        assert!(within(SOON, || !is_alive(pid)), "the program goes on: {:?}", alive());
        assert_eq!(run.end().status.signal(), Some(libc::SIGKILL));
    }
}

#[test]
fn a_front_killed_while_it_starts_the_program_leaves_nothing_behind() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("manners", &[]);
    for delay_ms in [0, 1, 2, 5, 10, 20, 30, 40, 60] {
        let run = Launch::new(&machine, &[program.to_str().expect("text"), "spins"]).colored();
        std::thread::sleep(Duration::from_millis(delay_ms));
        run.signal(run.front(), libc::SIGKILL);
        run.end();
    }
}

/// Kills each of memtint's processes in turn: the program ends, the front says so, nothing is left.
#[test]
fn the_program_does_not_outlive_those_who_serve_it() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let role = |process: &Process, front: u32, own: &[Process]| {
        let parent = own.iter().find(|other| other.pid == process.parent);
        match parent {
            _ if process.name == "memtint-helper" => "helper",
            Some(parent) if parent.pid == front => "supervisor",
            Some(_) => "broker",
            None => "front",
        }
    };
    for victim in ["supervisor", "helper"] {
        for check in ["stays", "spins"] {
            let (run, pid) = waiting(&machine, check);
            let (own, _) = run.members();
            let found = own.iter().find(|process| role(process, run.front(), &own) == victim);
            let found = found.unwrap_or_else(|| panic!("no {victim} in {own:?}"));
            run.signal(found.pid, libc::SIGKILL);
            assert!(within(SOON, || !is_alive(pid)), "{victim} killed, the program goes on: {:?}", alive());
            let ended = run.end();
            assert!(!ended.status.success(), "{victim} killed, and the run succeeded");
            assert!(ended.stderr.starts_with("memtint: "), "{victim} killed: {:?}", ended.stderr);
        }
    }
}

/// The kernel moves no pages together while there are runs, and goes on when the last one has ended, however that was.
#[test]
fn compaction_pauses_for_as_long_as_runs_last() {
    const SETTING: &str = "/proc/sys/vm/compaction_proactiveness";
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let setting = || std::fs::read_to_string(SETTING).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let before = setting();
    if before.is_none_or(|value| value == 0) || std::fs::write(SETTING, before.unwrap_or(0).to_string()).is_err() {
        return crate::common::skip("vm.compaction_proactiveness that is not 0 and can be set");
    }
    let ((mut first, _), (mut second, _)) = (waiting(&machine, "stays"), waiting(&machine, "stays"));
    assert_eq!(setting(), Some(0));
    first.say("x");
    let first = first.end_with_survivors();
    first.assert_success();
    assert_eq!((&first.report["compaction"]["proactiveness"], setting()), (&serde_json::json!(before), Some(0)));
    second.say("x");
    second.end().assert_success();
    assert!(within(SOON, || setting() == before), "{:?} after the last run, {before:?} before", setting());
    let (run, _) = waiting(&machine, "stays");
    let (own, _) = run.members();
    let supervisor = own.iter().find(|process| process.parent == run.front()).expect("a supervisor");
    run.signal(supervisor.pid, libc::SIGKILL);
    run.end();
    assert!(within(SOON, || setting() == before), "{:?} after a killed run, {before:?} before", setting());
}

#[test]
fn without_its_broker_a_run_goes_on_in_color() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("memory", &[]);
    let command = [program.to_str().expect("text"), "grows_when_told"];
    let mut run = Launch::new(&machine, &command).interactive().colored();
    let pid = run.ready();
    let (own, _) = run.members();
    let supervisor = own.iter().find(|process| process.parent == run.front()).expect("a supervisor");
    let broker = own.iter().find(|process| process.parent == supervisor.pid).expect("a broker");
    run.signal(broker.pid, libc::SIGKILL);
    run.say("x");
    assert_eq!(run.ready(), pid);
    assert_held(&run.colors.inspect(pid));
    run.say("x");
    let ended = run.end();
    ended.assert_success();
    ended.assert_clean_report();
}

#[test]
fn two_runs_in_disjoint_classes_are_both_held() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("memory", &[]);
    let command = [program.to_str().expect("text"), "grows_when_told"];
    let launch = |banks: &str| Launch::new(&machine, &command).banks(banks).interactive().colored();
    let (mut low, mut high) = (launch("0-3"), launch("4-7"));
    let (one, other) = (low.ready(), high.ready());
    low.say("x");
    high.say("x");
    low.ready();
    high.ready();
    for (banks, pid) in [("0-3", one), ("4-7", other)] {
        assert_held(&Colors::new(&machine.platform, banks).inspect(pid));
    }
    low.say("x");
    low.end_with_survivors().assert_success();
    assert_held(&high.colors.inspect(other));
    high.say("x");
    high.end().assert_success();
}

#[test]
fn a_stopped_program_goes_on_where_it_was() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let (mut run, pid) = waiting(&machine, "stays");
    let all = |wanted: char| {
        let both = [pid, run.front()];
        alive().iter().filter(|process| both.contains(&process.pid)).all(|process| process.state == wanted)
    };
    run.signal(pid, libc::SIGSTOP);
    assert!(within(SOON, || all('T')), "program and front do not stop: {:?}", alive());
    assert_held(&run.colors.inspect(pid));
    run.signal(run.front(), libc::SIGCONT);
    assert!(within(SOON, || all('S')), "program and front do not go on: {:?}", alive());
    run.say("x");
    let ended = run.end();
    ended.assert_success();
    assert_eq!(ended.stdout, "OK\n");
}

#[test]
fn a_program_stopped_for_long_is_killed_like_any_other() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let (run, pid) = waiting(&machine, "spins");
    run.signal(pid, libc::SIGSTOP);
    assert!(within(SOON, || alive().iter().any(|process| process.pid == pid && process.state == 'T')));
    run.signal(run.front(), libc::SIGKILL);
    run.end();
}
