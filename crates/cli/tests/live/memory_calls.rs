//! Do all calls that create, move, protect, lock and give up memory mean in color what they mean natively, with every
//! page in color? Each check of the programs looks at its own contents and stops once or more to be looked at.
//!
//! `cargo test -p memtint-cli --test live live::memory_calls::`, as root.

use std::os::unix::process::ExitStatusExt as _;

use crate::common::{Ended, Launch, Machine, Run, assert_held};
use memtint_inspect::{OutMapping, Report, SegmentKind};

/// One check of a program.
struct Check<'a> {
    machine: &'a Machine,
    command: [String; 2],
}

impl<'a> Check<'a> {
    fn new(machine: &'a Machine, program: &str, check: &str, compiler: &[&str]) -> Check<'a> {
        let file = machine.compile(program, compiler).to_str().expect("text").to_owned();
        Check { machine, command: [file, check.to_owned()] }
    }

    fn launch(&self) -> Launch<'a> {
        Launch::new(self.machine, &self.command).interactive()
    }

    fn native(&self) {
        let ended = run_through(self.launch().native(), |_| {});
        ended.assert_success();
    }

    fn colored(&self, options: &[&str]) -> Ended {
        let mut looks = 0;
        let ended = run_through(self.launch().options(options).colored(), |report| {
            assert_held(report);
            looks += 1;
        });
        ended.assert_success();
        ended.assert_clean_report();
        assert!(looks > 0, "it was never looked at");
        ended
    }
}

/// Lets a program run, looking at it wherever it stops for that; its last word is OK.
fn run_through(mut run: Run, mut look: impl FnMut(&Report)) -> Ended {
    loop {
        let Some(line) = run.line_or_end() else { return run.end() };
        if line == "OK" {
            continue;
        }
        let pid = line.strip_prefix("READY ").and_then(|pid| pid.parse().ok());
        look(&run.colors.inspect(pid.unwrap_or_else(|| panic!("{line:?}"))));
        run.say("x");
    }
}

/// Runs a check natively and in color.
fn hold(program: &str, check: &str, compiler: &[&str]) {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let check = Check::new(&machine, program, check, compiler);
    check.native();
    check.colored(&[]);
}

macro_rules! checks {
    ($program:literal: $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                hold($program, stringify!($check), &[]);
            }
        )*
    };
}

checks!("memory":
    brk_grows_and_shrinks
    brk_stays_where_it_cannot_go
    recycled_memory_is_zero
    fixed_maps_replace_what_was_there
    mmap_fails_as_ever
    ten_thousand_small_maps
    sparse_touch_of_64_gib
    populated_memory_takes_no_faults
    mremap_grows_moves_and_shrinks
    mremap_to_a_fixed_place
    mremap_leaves_the_old_place_mapped
    mremap_of_what_is_not_there_yet
    dontneed_reads_zero_afterwards
    freed_pages_hold_old_data_or_zero
    huge_pages_are_asked_for_and_not_given
    data_of_a_library_is_changed_for_oneself_only
    library_is_made_writable_later
    data_is_mapped_beside_code
    dev_zero_is_plain_memory
    beyond_the_end_of_a_file_is_sigbus
    shared_memory_is_left_alone
    kernel_writes_into_fresh_memory
);

checks!("locking":
    mlock_brings_in_and_holds
    mlock_on_fault_brings_in_nothing
    map_locked_brings_in
    mlockall_is_all_and_for_ever
    locked_memory_grows_locked
    mlocked_memory_grows
    all_locked_memory_grows
    locked_on_fault_it_grows
    locked_memory_can_be_released_and_taken_again
    locked_memory_is_not_given_up
    untouched_read_only_memory_is_brought_in
    populating_goes_on_while_others_give_up
    limits_of_locked_memory_hold
);

checks!("protection":
    reservation_is_opened_piece_by_piece
    code_is_written_and_run
    read_first_and_written_later
    stack_grows_to_4_mib
    guard_pages_guard
);

checks!("threads":
    threads_race_for_the_same_pages
    thread_stacks_and_arenas
    threads_map_and_unmap_together
    given_up_while_others_read
    library_comes_late
);

#[test]
fn static_programs_hold_too() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let cases = [
        ("memory", "brk_grows_and_shrinks"),
        ("memory", "recycled_memory_is_zero"),
        ("memory", "mremap_grows_moves_and_shrinks"),
        ("locking", "mlockall_is_all_and_for_ever"),
        ("protection", "stack_grows_to_4_mib"),
    ];
    for (program, check) in cases {
        for linkage in ["-static", "-static-pie"] {
            Check::new(&machine, program, check, &[linkage]).colored(&[]);
        }
    }
}

/// What grows is brought in, and nothing is had ready for what was there before.
#[test]
fn locked_memory_grows_page_by_page() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let check = Check::new(&machine, "locking", "locked_memory_grows_page_by_page", &[]);
    check.native();
    let kept = check.colored(&[]).total("kept_pages");
    assert!(kept < 30_000, "{kept} frames for 20200 pages");
}

/// Mappings that are too large, or not part of a library, are not copied: the run and `inspect` report their size.
#[test]
fn large_private_files_are_listed() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let check = Check::new(&machine, "memory", "large_private_files", &[]);
    let ended = run_through(check.launch().colored(), |report| {
        // How many of the pages the kernel happens to put in color depends on what was freed last.
        let large = |mapping: &&OutMapping| mapping.end - mapping.start == 300 << 20;
        let listed: Vec<_> = report.out_of_color.mappings.iter().filter(large).collect();
        assert!(!listed.is_empty(), "{}", crate::common::listing(report));
        assert!(listed.iter().all(|mapping| mapping.kind == SegmentKind::Data && !mapping.name.is_empty()));
        // Nothing else is out of color.
        let pages: u64 = listed.iter().map(|mapping| mapping.pages).sum();
        assert_eq!(pages, report.out_of_color.pages, "{}", crate::common::listing(report));
    });
    ended.assert_success();
    assert_eq!((ended.total("file_mappings_not_copied"), ended.total("file_bytes_not_copied")), (2, 600 << 20));
    let told = |line: &&str| line.contains("has 300 MiB") && line.contains("not in color");
    assert_eq!(ended.problems().iter().filter(|line| told(line)).count(), 2, "{}", ended.report);
    assert_eq!(ended.stderr.lines().filter(told).count(), 2, "{}", ended.stderr);
    assert!(ended.report.to_string().contains("private file mapping"), "{}", ended.report);
}

/// A copy would show stale bytes: such mappings are not copied, and the run reports them.
#[test]
fn private_files_follow_their_files() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let check = Check::new(&machine, "memory", "private_files_follow_their_files", &[]);
    check.native();
    let ended = run_through(check.launch().colored(), |report| {
        // Only pages of the file may be out of color; some are in color by chance.
        let data = |mapping: &OutMapping| mapping.kind == SegmentKind::Data && mapping.name.contains("memory-");
        assert!(report.out_of_color.mappings.iter().all(data), "{}", crate::common::listing(report));
    });
    ended.assert_success();
    assert_eq!((ended.total("file_mappings_not_copied"), ended.total("file_bytes_not_copied")), (2, 100 << 12));
    let told = |line: &&str| line.contains("must follow the file") && line.contains("not in color");
    assert_eq!(ended.problems().iter().filter(|line| told(line)).count(), 1, "{}", ended.report);
}

/// Natively it would get them.
#[test]
fn no_huge_pages_in_color() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let check = Check::new(&machine, "memory", "no_huge_pages", &[]);
    let ended = run_through(check.launch().colored(), |report| {
        assert_held(report);
        assert_eq!(report.private.thp_pages, 0);
    });
    ended.assert_success();
}

#[test]
fn an_endless_recursion_is_a_segmentation_fault() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let check = Check::new(&machine, "protection", "endless", &[]);
    for run in [check.launch().native(), check.launch().colored()] {
        assert_eq!(run.end().status.signal(), Some(libc::SIGSEGV));
    }
}

/// What is prefaulted is there before the program begins: its first touches fault no more.
#[test]
fn prefaulted_memory_takes_no_faults() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let check = Check::new(&machine, "locking", "mlock_on_fault_brings_in_nothing", &[]);
    check.colored(&["--prefault", "1M"]);
    let check = Check::new(&machine, "memory", "counts_first_touches", &[]);
    let faults = |options: &[&str]| {
        let mut run = check.launch().options(options).colored();
        let faults: u64 = run.line().strip_prefix("faults ").and_then(|count| count.parse().ok()).expect("a number");
        let pid = run.ready();
        assert_held(&run.colors.inspect(pid));
        run.say("x");
        let ended = run.end();
        ended.assert_success();
        ended.assert_clean_report();
        faults
    };
    let (without, with) = (faults(&[]), faults(&["--prefault", "32M"]));
    assert!(with < 20 && without > 50, "{with} faults with --prefault, {without} without");
}

/// Otherwise every heap that breathes would have its frames looked for again and again.
#[test]
fn a_heap_that_shrinks_gives_its_pages_to_the_pool() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let check = Check::new(&machine, "memory", "brk_grows_and_shrinks", &[]);
    let ended = run_through(check.launch().colored(), |_| {});
    ended.assert_success();
    let heaps: u64 = (0..20).map(|round| 1 + 97 * round % 512).sum();
    let recycled = ended.total("recycled_pages");
    assert!(recycled * 100 >= heaps * 95, "{recycled} of {heaps} pages");
}
