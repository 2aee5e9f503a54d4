//! Are the processes that a program starts in color too, however it starts them, and do they compute what they should?
//!
//! `cargo test -p memtint-cli --test live live::processes::`, as root.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{
    BANKS, Colors, Ended, Launch, Machine, Run, alive, assert_held, is_alive, sampled_until, scratch, within,
};
use memtint_inspect::Report;

/// A check of `programs/processes.c`.
fn launch<'a>(machine: &'a Machine, check: &str) -> Launch<'a> {
    let program = machine.compile("processes", &[]);
    Launch::new(machine, &[program.to_str().expect("text"), check]).interactive()
}

/// Lets a program and its children run, looking at each of them where it stops for that.
fn run_through(mut run: Run, mut look: impl FnMut(&Report)) -> Ended {
    while let Some(line) = run.line_or_end() {
        if let Some(pid) = line.strip_prefix("READY ") {
            look(&run.colors.inspect(pid.parse().expect("a number")));
            run.say("x");
        } else {
            assert_eq!(line, "OK");
        }
    }
    run.end()
}

/// Runs a check natively and in color, where everybody who stops must be held.
fn hold(machine: &Machine, check: &str) -> Ended {
    run_through(launch(machine, check).native(), |_| {}).assert_success();
    let mut looks = 0;
    let ended = run_through(launch(machine, check).colored(), |report| {
        assert_held(report);
        looks += 1;
    });
    assert!(looks > 0, "{check} was never looked at");
    ended.assert_success();
    assert_eq!(ended.problems(), [""; 0]);
    ended
}

/// How often an address space of the report began in this way.
fn began(ended: &Ended, how: &str) -> usize {
    let spaces = ended.report["address_spaces"].as_array().expect("a report");
    spaces.iter().filter(|space| space["began"] == how).count()
}

/// What is shared after a fork is left to the kernel's copy-on-write: it is counted, and nothing else is out of color.
#[test]
fn forked_memory_has_the_right_contents_and_is_counted() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    run_through(launch(&machine, "fork_copies").native(), |_| {}).assert_success();
    let mut looks = 0;
    let ended = run_through(launch(&machine, "fork_copies").colored(), |report| {
        // 300 pages of the check, and what else was written before.
        assert!(report.private.out_of_color_pages < 800, "{}", crate::common::listing(report));
        assert!(report.private.in_color_pages >= 300, "{}", crate::common::listing(report));
        looks += 1;
    });
    assert_eq!(looks, 2);
    ended.assert_success();
    assert_eq!(began(&ended, "fork"), 1);
    assert!(ended.total("pages_shared_by_fork") >= 300, "{}", ended.report);
    // The child has shared pages too, with its parent. All copies may happen to be in color, and then there is no cause.
    for space in ended.report["address_spaces"].as_array().expect("a report") {
        let causes = space["causes"].as_array().expect("a list");
        assert_eq!(causes.is_empty(), space["pages_out_of_color_at_end"] == 0, "{space}");
        assert!(causes.iter().all(|cause| cause == "copy-on-write after fork"), "{space}");
    }
}

#[test]
fn memory_that_a_child_maps_is_in_color() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = run_through(launch(&machine, "fresh_memory_of_a_child").colored(), |report| {
        assert!(report.private.in_color_pages >= 6000, "{}", crate::common::listing(report));
        let mapped = report.out_of_color.mappings.iter().filter(|mapping| mapping.pages > 1000);
        assert_eq!(mapped.count(), 0, "{}", crate::common::listing(report));
    });
    ended.assert_success();
    assert_eq!(began(&ended, "fork"), 1);
}

#[test]
fn a_storm_of_forks_loses_no_contents() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = run_through(launch(&machine, "fork_storm").colored(), |_| {});
    ended.assert_success();
    assert_eq!(ended.problems(), [""; 0]);
    assert_eq!(began(&ended, "fork"), 8 * 12);
}

#[test]
fn threads_fork_at_the_same_time() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = run_through(launch(&machine, "fork_from_threads").colored(), |_| {});
    ended.assert_success();
    assert_eq!(ended.problems(), [""; 0]);
    assert_eq!(began(&ended, "fork"), 40);
}

#[test]
fn vfork_and_exec() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = hold(&machine, "vfork_and_exec");
    assert_eq!(began(&ended, "exec"), 2);
}

#[test]
fn posix_spawn_system_and_popen() {
    let Some(machine) = Machine::take(&["cc", "sh"]) else { return };
    let ended = hold(&machine, "spawns");
    assert!(began(&ended, "exec") >= 6, "{}", ended.report);
}

#[test]
fn a_process_that_shares_memory_without_being_a_thread() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    hold(&machine, "clone_with_the_same_memory");
}

#[test]
fn a_chain_of_programs() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = hold(&machine, "exec_chain");
    assert_eq!(began(&ended, "exec"), 7);
}

#[test]
fn exec_from_another_thread_than_the_first() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = hold(&machine, "exec_from_another_thread");
    assert_eq!(began(&ended, "exec"), 2);
}

#[test]
fn a_program_goes_on_after_an_exec_that_fails() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    run_through(launch(&machine, "exec_that_fails").native(), |_| {}).assert_success();
    let ended = run_through(launch(&machine, "exec_that_fails").colored(), |_| {});
    ended.assert_success();
    assert_eq!(ended.problems(), [""; 0]);
    assert_eq!((began(&ended, "exec"), began(&ended, "fork")), (1, 1));
}

#[test]
fn a_program_goes_on_after_a_fork_that_fails() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    hold(&machine, "fork_that_fails");
}

#[test]
fn scripts_and_their_children_are_colored() {
    let Some(machine) = Machine::take(&["bash", "env"]) else { return };
    let script = "i=0; for f in a b c; do /usr/bin/env true && i=$((i + 1)); done; echo $(echo $i); exec sleep 0.5";
    let native = Launch::new(&machine, &["bash", "-c", script]).native().end();
    let mut ended = sampled_until(|seen| seen.count >= 4, || Launch::new(&machine, &["bash", "-c", script]));
    ended.assert_success();
    ended.assert_said_the_same_as(&native);
    ended.samples.violations.retain(|report| report.processes[0].comm != "bash");
    ended.assert_held(4);
    assert!(began(&ended, "exec") >= 8, "{}", ended.report);
}

#[test]
fn a_child_outlives_the_program_in_color_and_then_nothing_is_left() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let mark = scratch("daemon.pid");
    // A run that was killed may have left it.
    let _ = std::fs::remove_file(&mark);
    let run = launch(&machine, "daemonises").environment("MARK", mark.to_str().expect("text")).colored();
    let ended = run.end_with_survivors();
    ended.assert_success();
    assert_eq!(ended.report["still_running"], 1);
    let pid = || std::fs::read_to_string(&mark).ok()?.trim().parse::<u32>().ok();
    assert!(within(Duration::from_secs(300), || pid().is_some()), "the child does not say its number");
    let pid = pid().expect("it was there");
    let colors = Colors::new(&machine.platform, BANKS);
    for _ in 0..5 {
        assert!(is_alive(pid), "the child ended with its parent");
        let report = colors.inspect(pid);
        assert!(report.private.in_color_pages >= 6000, "{}", crate::common::listing(&report));
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_file(&mark).expect("the child has made it");
    assert!(within(Duration::from_secs(300), || alive().is_empty()), "left behind: {:?}", alive());
}

/// An uncolored process inherits the system-call filter, and has no helper: its calls are answered while a colored program's
/// helper answers that program's own.
#[test]
fn children_without_colors_work_beside_the_program() {
    let Some(machine) = Machine::take(&["sh", "seq", "sort", "tail"]) else { return };
    let script = "sleep 0.3; for i in 1 2 3; do seq 1000 | sort -n | tail -n 1; done";
    let ended = Launch::new(&machine, &["sh", "-c", script]).options(&["--no-children"]).colored().end();
    ended.assert_success();
    assert_eq!(ended.stdout, "1000\n".repeat(3));
}

/// A stopped call that a signal interrupts before it is taken ends with EINTR, a fork as well: it is taken at once.
#[test]
fn a_signal_does_not_end_a_fork() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("processes", &[]);
    let command = [program.to_str().expect("text"), "forks_among_signals"];
    Launch::new(&machine, &command).options(&["--no-children"]).colored().end().assert_success();
}

/// Nor are its calls lost when the last colored process ends.
#[test]
fn a_child_without_colors_outlives_the_run() {
    let Some(machine) = Machine::take(&["sh", "sort"]) else { return };
    let (early, mark) = (scratch("early.txt"), scratch("late.txt"));
    let _ = std::fs::remove_file(&mark);
    std::fs::write(&early, "late\n").expect("a writable directory");
    let script = format!(
        "(while kill -0 $$; do sleep 0.1; done; sort '{}' >'{}'; :) 2>&- >&- & exit 0",
        early.display(),
        mark.display()
    );
    let ended =
        Launch::new(&machine, &["sh", "-c", &script]).options(&["--no-children"]).colored().end_with_survivors();
    ended.assert_success();
    let written = || std::fs::read_to_string(&mark).is_ok_and(|text| text == "late\n");
    assert!(within(Duration::from_secs(300), written), "the child could not do its work");
    std::fs::remove_file(&mark).expect("the child has made it");
    assert!(within(Duration::from_secs(300), || alive().is_empty()), "left behind: {:?}", alive());
}

/// Two cannot trace one process: what a traced program starts is not colored, and that is said.
#[test]
fn a_traced_program_is_reported() {
    let Some(machine) = Machine::take(&["strace", "sh"]) else { return };
    let log = scratch("strace.log");
    let command = ["strace", "-f", "-o", log.to_str().expect("text"), "sh", "-c", "true; /bin/true; echo done"];
    let soft = Launch::new(&machine, &command).options(&["--soft"]).colored().end();
    soft.assert_success();
    assert_eq!(soft.stdout, "done\n");
    assert!(soft.problems().iter().any(|problem| problem.contains("traced")), "{}", soft.report);
    assert!(soft.stderr.contains("traced"), "{}", soft.stderr);
    let strict = Launch::new(&machine, &command).options(&["--strict"]).colored().end();
    assert!(!strict.status.success() && !strict.stdout.contains("done"), "{}{}", strict.stdout, strict.stderr);
    assert!(strict.stderr.contains("traced"), "{}", strict.stderr);
}

/// The smallest 32-bit program that says something: it writes a line, 32, and exits with status 7.
fn program_of_32_bits() -> PathBuf {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    const CODE: [u8; 34] = [
        0xb8, 4, 0, 0, 0, 0xbb, 1, 0, 0, 0, 0xb9, 0x76, 0x80, 4, 8, 0xba, 3, 0, 0, 0, 0xcd,
        0x80, // write(1, text, 3)
        0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80, // exit(7)
    ];
    let text_at = BASE + HEADERS + CODE.len() as u32;
    assert_eq!(CODE[11..15], text_at.to_le_bytes());
    let size = HEADERS + CODE.len() as u32 + 3;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // Executable, for the 80386, version 1.
    file.extend([2, 0, 3, 0, 1, 0, 0, 0]);
    // Entry, where the program header is, no sections, no flags.
    file.extend([BASE + HEADERS, 52, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    // Sizes and numbers of headers.
    file.extend([52u16, 32, 1, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    // To be loaded: all of the file, readable and executable.
    file.extend([1, 0, BASE, BASE, size, size, 5, 0x1000].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(CODE);
    file.extend(b"32\n");
    let place = scratch("of-32-bits");
    std::fs::write(&place, file).expect("cargo made the directory");
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    place
}

/// It cannot be colored: strict, it does not run; soft, it runs as it is. Neither goes without a word.
#[test]
fn a_32_bit_program_is_reported() {
    let Some(machine) = Machine::take(&["sh"]) else { return };
    let program = program_of_32_bits();
    let native = std::process::Command::new(&program).output();
    if !native.is_ok_and(|output| output.status.code() == Some(7) && output.stdout == b"32\n") {
        return crate::common::skip("a kernel that runs 32-bit programs");
    }
    let program = program.to_str().expect("text");
    let script = format!("{program}; echo $?");
    for (command, soft_says) in [(vec![program], "32\n"), (vec!["sh", "-c", &script], "32\n7\n")] {
        let soft = Launch::new(&machine, &command).options(&["--soft"]).colored().end();
        assert_eq!(soft.stdout, soft_says, "{}", soft.stderr);
        assert!(soft.stderr.contains("is not colored: it is a 32-bit program"), "{}", soft.stderr);
        assert_eq!(soft.problems().len(), 1, "{}", soft.report);
        let strict = Launch::new(&machine, &command).options(&["--strict"]).colored().end();
        assert!(!strict.stdout.contains("32"), "{}", strict.stdout);
        assert!(strict.stderr.contains("is not colored: it is a 32-bit program"), "{}", strict.stderr);
        assert_eq!(strict.problems().len(), 1, "{}", strict.report);
    }
}

/// A debugger that attaches while the program runs reads it and calls its functions, and leaves its colors alone.
#[test]
fn a_debugger_looks_at_a_colored_program() {
    let Some(machine) = Machine::take(&["gdb", "cc"]) else { return };
    let debugged = |pid: u32, print: &str| {
        let mut gdb = std::process::Command::new(crate::common::find_program("gdb").expect("found above"));
        gdb.args(["--batch", "--nx", "-p", &pid.to_string(), "-ex", print, "-ex", "detach"]);
        String::from_utf8_lossy(&crate::common::pipe(&mut gdb, b"")).into_owned()
    };
    const CALL: &str = "print (int)getpid()";
    // gdb 13 calls no function where registers are as large as those of AMX, and spoils them when it tries.
    let mut native = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep is everywhere");
    let calls = debugged(native.id(), CALL).contains(&format!("= {}\n", native.id()));
    // The debugger may have ended it.
    let _ = native.kill();
    native.wait().expect("it is a child");
    let mut run = launch(&machine, "is_a_child").colored();
    let pid = run.ready();
    let said = debugged(pid, "print $pc");
    assert!(said.contains("$1 = (void (*)()) 0x"), "{said}");
    if calls {
        let said = debugged(pid, CALL);
        assert!(said.contains(&format!("= {pid}\n")), "{said}");
    }
    assert_held(&run.colors.inspect(pid));
    run.say("x");
    run.end().assert_success();
}
