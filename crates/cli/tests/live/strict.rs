//! What happens when no frame of the color is left: is a strict program refused with the reason, and does a soft one go
//! on with every violation counted?
//!
//! The color is made scarce by a platform file with so many bank classes that one of them has less memory than the
//! programs want, and by showing the run a machine that has little to give: how far it looks for frames depends on that.
//!
//! `cargo test -p memtint-cli --test live live::strict::`, as root.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Ended, Launch, Machine, scratch};
use memtint_inspect::Verdict;

/// Each of these address bits chooses a bank, together with one further up: a class has frames in blocks of every kind.
const BANK_BITS: std::ops::Range<i64> = 12..20;
/// What the machine is said to have left.
const AVAILABLE_KIB: u64 = 2 << 20;
/// Pages that each program wants.
const WANTED: u64 = 25_600;
/// Pages that are found in any case, for what the program has besides.
const FOUND: u64 = 300;

/// The machine's platform file with other bank functions.
fn scarce(machine: &Machine) -> PathBuf {
    let text = std::fs::read_to_string(&machine.platform).expect("it was written");
    let mut platform: toml::Table = text.parse().expect("a platform file is TOML");
    let function = |bit| {
        let mut function = toml::Table::new();
        function.insert("role".into(), "bank".into());
        function.insert("bits".into(), vec![bit, bit + 10].into());
        function.insert("assumed".into(), true.into());
        toml::Value::from(function)
    };
    let dram = platform["dram"].as_table_mut().expect("a section");
    dram.insert("functions".into(), BANK_BITS.map(function).collect::<Vec<_>>().into());
    dram.insert("complete".into(), false.into());
    let file = scratch("scarce.toml");
    std::fs::write(&file, platform.to_string()).expect("cargo made the directory");
    file
}

/// A class that no run has used lately.
///
/// The kernel gives again what it was given back last: a run would look at the memory that the one before it looked at,
/// and from which that one has taken all frames of its class.
fn class() -> String {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let classes = 1 << BANK_BITS.count();
    ((std::process::id() + RUNS.fetch_add(97, Ordering::Relaxed)) % classes).to_string()
}

fn launch<'a>(machine: &'a Machine, check: &str, mode: &str) -> Launch<'a> {
    let program = machine.compile("scarce", &["-static"]);
    let command = [program.to_str().expect("text"), check];
    let launch = Launch::new(machine, &command).platform(&scarce(machine)).banks(&class()).options(&[mode]);
    launch.interactive().available(AVAILABLE_KIB)
}

/// The message of a refusal names the color and how much is missing; the report has it too.
fn assert_explained(ended: &Ended) {
    // A search that takes long says how far it is.
    let mut lines = ended.stderr.lines().filter(|line| !line.starts_with("memtint: looking for frames in "));
    let first =
        lines.next().and_then(|line| line.strip_prefix("memtint: ")).unwrap_or_else(|| panic!("{:?}", ended.stderr));
    assert!(first.contains("bank classes ") && first.contains("missing"), "{first:?}");
    assert!(ended.problems().contains(&first), "{first:?} is not in {}", ended.report);
}

#[test]
fn a_strict_program_that_touches_too_much_gets_sigbus() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = launch(&machine, "touches", "--strict").colored().end();
    assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{}", ended.stderr);
    assert_explained(&ended);
    assert!(ended.total("pages_refused") > 0, "{}", ended.report);
    assert_eq!(ended.total("pages_out_of_color"), 0, "{}", ended.report);
    assert_eq!((&ended.report["floor"], &ended.report["verdict"]), (&"user".into(), &"refused".into()));
    assert_eq!(ended.report["pages_refused"], ended.total("pages_refused"));
}

#[test]
fn a_strict_program_has_had_what_there_was() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = launch(&machine, "touches_until_refused", "--strict").colored().end();
    ended.assert_success();
    let page = ended.stdout.trim().strip_prefix("signal 7 at page ").and_then(|page| page.parse::<u64>().ok());
    let page = page.unwrap_or_else(|| panic!("{:?}; {}", ended.stdout, ended.stderr));
    assert!((FOUND..WANTED).contains(&page), "refused at page {page}");
    assert_explained(&ended);
}

#[test]
fn a_strict_program_that_asks_for_too_much_gets_enomem() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let mut run = launch(&machine, "asks", "--strict").colored();
    let pid = run.ready();
    let report = run.colors.inspect(pid);
    assert_eq!(report.verdict, Some(Verdict::Held), "{}", crate::common::listing(&report));
    run.say("x");
    let ended = run.end();
    ended.assert_success();
    assert_explained(&ended);
}

#[test]
fn what_a_process_had_that_has_ended_is_there_for_the_others() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let mut run = launch(&machine, "inherits", "--strict").colored();
    run.ready();
    run.say("x");
    let ended = run.end();
    ended.assert_success();
    assert_explained(&ended);
}

#[test]
fn a_strict_program_that_cannot_have_what_is_to_be_prefaulted_does_not_begin() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = launch(&machine, "begins", "--strict").options(&["--prefault", "100M"]).colored().end();
    assert_eq!(ended.stdout, "");
    // Not 137: nobody has killed it while it ran.
    assert_eq!(ended.status.code(), Some(125), "{}", ended.stderr);
    assert!(ended.stderr.contains("the program did not begin"), "{}", ended.stderr);
    assert_explained(&ended);
    // What the kernel had laid down for it is nobody's memory.
    assert_eq!(ended.report["verdict"], "refused", "{}", ended.report);
}

/// Of the 2048 frames of the class that are in the memory it may look at, it gets most: half of that memory would not do.
#[test]
fn a_strict_program_gets_a_rare_color_as_long_as_there_is_any() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let mut run = launch(&machine, "touches_little", "--strict").colored();
    let pid = run.ready();
    let report = run.colors.inspect(pid);
    assert_eq!(report.verdict, Some(Verdict::Held), "{}", crate::common::listing(&report));
    assert!(report.private.pages > 1250, "{}", report.private.pages);
    run.say("x");
    let ended = run.end();
    ended.assert_success();
    ended.assert_clean_report();
}

/// Four programs at the same time, each in a quarter of the colors, want an eighth of what is there.
#[test]
fn strict_programs_side_by_side_are_not_refused_while_memory_is_free() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("scarce", &["-static"]);
    let command = [program.to_str().expect("text"), "touches_200_mib"];
    for _ in 0..2 {
        let launch =
            |banks| Launch::new(&machine, &command).banks(banks).options(&["--strict"]).interactive().colored();
        let mut runs = ["0-3", "4-7", "8-11", "12-15"].map(launch);
        for run in &mut runs {
            run.ready();
        }
        runs.iter_mut().for_each(|run| run.say("x"));
        for run in runs {
            let ended = run.end_with_survivors();
            ended.assert_success();
            ended.assert_clean_report();
        }
    }
}

/// What a search holds beside what it has found; without the limit it would be a gigabyte.
#[test]
fn a_search_holds_no_more_than_it_may() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let mut run = launch(&machine, "touches", "--soft").options(&["--search-memory", "64M"]).colored();
    run.ready();
    let (own, _) = run.members();
    let peak = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    let most = own.iter().map(|process| peak(process.pid)).max().expect("it has processes");
    assert!((64 << 10..256 << 10).contains(&most), "{most} KiB");
    run.say("x");
    run.end().assert_success();
}

#[test]
fn a_color_that_is_too_small_is_named_as_the_cause() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let ended = launch(&machine, "touches", "--strict").colored().end();
    assert_explained(&ended);
    assert!(ended.stderr.contains("these colors hold ") && ended.stderr.contains(" MiB in all"), "{}", ended.stderr);
}

#[test]
fn a_soft_program_goes_on_and_every_page_out_of_color_is_counted() {
    const CLASSES_MAX: u32 = 8;
    let Some(machine) = Machine::take(&["cc"]) else { return };
    // Others may hold all frames of a class in the memory that is searched.
    let mut tried = 0;
    let (mut run, report) = loop {
        let mut run = launch(&machine, "touches", "--soft").colored();
        let pid = run.ready();
        let report = run.colors.inspect(pid);
        assert_eq!(report.verdict, Some(Verdict::Violated));
        if report.private.in_color_pages > FOUND {
            break (run, report);
        }
        run.say("x");
        run.end().assert_success();
        tried += 1;
        assert!(tried < CLASSES_MAX, "{}", crate::common::listing(&report));
    };
    assert!(report.private.pages > WANTED, "{}", crate::common::listing(&report));
    run.say("x");
    let ended = run.end();
    ended.assert_success();
    let (counted, seen) = (ended.total("pages_out_of_color"), report.private.out_of_color_pages);
    assert!(counted >= seen, "{counted} counted, {}", crate::common::listing(&report));
    assert_eq!(ended.total("pages_refused"), 0);
    assert_eq!(ended.report["verdict"], "violated");
}

#[test]
fn a_soft_program_that_asks_for_much_gets_it() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let mut run = launch(&machine, "asks_softly", "--soft").colored();
    let pid = run.ready();
    let report = run.colors.inspect(pid);
    assert!(report.private.pages > 2 * WANTED, "{}", crate::common::listing(&report));
    run.say("x");
    let ended = run.end();
    ended.assert_success();
    let (counted, seen) = (ended.total("pages_out_of_color"), report.private.out_of_color_pages);
    assert!(counted >= seen, "{counted} counted, {}", crate::common::listing(&report));
}
