//! Does the observer see what is there? Processes made for the purpose, compared with a slow and simple reading of the
//! same tables. Needs CAP_SYS_ADMIN for frame numbers; without it each test says so and checks nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use memtint_inspect::{InspectError, Inspector, POOL_ADDRESSES, Report, SegmentKind, Verdict};
use memtint_map::{Granule, Palette, Platform, Selection};
use memtint_units::{IndexSet, Pfn};

/// Two plain bits and one XOR function above the page: 8 classes; a TiB, so that no machine's memory ends outside.
const PLATFORM: &str = r#"
schema = 1
id = "observer-test"
name = "Machine of the observer's tests"
[dram]
standard = "DDR4"
address_bits = 40
functions = [ { role = "bank", bits = [12] }, { role = "bank", bits = [13] }, { role = "rank", bits = [14, 18] } ]
source = "made up"
[[region]]
base = 0
size = "1 TiB"
source = "made up"
"#;

const PAGE: usize = 4096;

fn palette() -> Palette {
    let platform = Platform::parse(PLATFORM, "observer-test").unwrap_or_else(|error| panic!("{error}"));
    Palette::new(&platform, Granule::PAGE).unwrap_or_else(|error| panic!("{error}"))
}

fn banks(list: &str) -> Option<Selection> {
    let set = IndexSet::parse(list, 8).expect("a list below 8");
    Some(Selection { banks: Some(set), ..Selection::default() })
}

fn inspector(selection: Option<Selection>) -> Inspector {
    Inspector::new(palette(), selection).unwrap_or_else(|error| panic!("{error}"))
}

/// Frame numbers are visible.
fn privileged() -> bool {
    let here = Box::new(1u8);
    let address = &raw const *here as u64;
    let entry = one_entry("/proc/self/pagemap", address / PAGE as u64);
    let visible = entry & ((1 << 55) - 1) != 0;
    if !visible {
        memtint_testing::skip("CAP_SYS_ADMIN to see frame numbers");
    }
    visible
}

fn one_entry(path: &str, index: u64) -> u64 {
    let mut bytes = [0; 8];
    match File::open(path).and_then(|file| file.read_exact_at(&mut bytes, index * 8)) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => 0,
    }
}

/// A forked child that runs `work`, then stops itself until it is killed.
struct Stopped(libc::pid_t);

impl Stopped {
    /// `work` runs in a copy of a process with other threads: it may only make system calls and touch memory.
    fn fork(work: impl FnOnce()) -> Self {
        // SAFETY: the child calls only `work`, which by the contract above takes no lock, then system calls.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork fails");
        if pid == 0 {
            work();
            // SAFETY: kill and getpid take numbers; the loop keeps the child from returning into the test harness.
            unsafe {
                loop {
                    libc::kill(libc::getpid(), libc::SIGSTOP);
                }
            }
        }
        let child = Self(pid);
        child.wait_until_stopped();
        child
    }

    fn pid(&self) -> u32 {
        self.0 as u32
    }

    fn wait_until_stopped(&self) {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the result, the child is ours.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, libc::WUNTRACED) };
        assert!(waited == self.0 && libc::WIFSTOPPED(status), "the child died instead of stopping: {status:#x}");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: numbers only; the child is ours and has not been waited for to its end.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Maps memory; only a system call, so also for children.
fn map(address: u64, pages: usize, protection: i32, flags: i32) -> *mut u8 {
    // SAFETY: a new mapping at an address that the kernel chooses, or at one the test has to itself (MAP_FIXED).
    let start = unsafe { libc::mmap(address as *mut _, pages * PAGE, protection, flags, -1, 0) };
    assert!(start != libc::MAP_FAILED, "mmap fails");
    start.cast()
}

/// Writes one byte to each page.
fn touch(start: *mut u8, pages: impl Iterator<Item = usize>) {
    for page in pages {
        // SAFETY: callers pass pages of a writable mapping that lives on.
        unsafe { start.add(page * PAGE).write_volatile(1) };
    }
}

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

/// Private pages by address with their frames, one page at a time and by the definition: present, anonymous, not the zero
/// page, not hugetlb.
fn by_brute_force(pid: u32) -> BTreeMap<u64, u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("the child lives");
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).expect("the child lives");
    let mut found = BTreeMap::new();
    for line in maps.lines() {
        let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a line of maps");
        let number = |text| u64::from_str_radix(text, 16).expect("a hexadecimal address");
        let (start, end) = (number(start), number(end));
        if end - start > 1 << 32 {
            continue; // The reservation of a test: nothing is in it.
        }
        for address in (start..end).step_by(PAGE) {
            let mut bytes = [0; 8];
            if pagemap.read_exact_at(&mut bytes, address / PAGE as u64 * 8).is_err() {
                continue;
            }
            let entry = u64::from_ne_bytes(bytes);
            let pfn = entry & ((1 << 55) - 1);
            if entry >> 63 & 1 == 0 || entry >> 61 & 1 == 1 {
                continue;
            }
            let flags = one_entry("/proc/kpageflags", pfn);
            let (anonymous, hugetlb, zero) = (flags >> 12 & 1, flags >> 17 & 1, flags >> 24 & 1);
            if (anonymous, hugetlb, zero) == (1, 0, 0) {
                found.insert(address, pfn);
            }
        }
    }
    found
}

fn segment(report: &Report, kind: SegmentKind) -> u64 {
    report.segments.iter().find(|row| row.kind == kind).map_or(0, |row| row.private_pages)
}

fn assert_identities(report: &Report) {
    let private = &report.private;
    let outside_pool = report.segments.iter().filter(|row| row.kind != SegmentKind::MemtintPool);
    assert_eq!(private.pages, outside_pool.map(|row| row.private_pages).sum::<u64>());
    assert_eq!(private.pages, private.in_color_pages + private.out_of_color_pages);
    let in_classes: u64 = report.bank_classes.iter().map(|row| row.tally.pages).sum();
    assert_eq!(private.pages, in_classes + private.outside_platform_pages);
    for row in &report.bank_classes {
        let pairs = report.color_pairs.iter().filter(|((class, _), _)| *class == row.index);
        assert_eq!(row.tally.pages, pairs.map(|(_, tally)| tally.pages).sum::<u64>(), "class {}", row.index);
    }
    for row in &report.set_colors {
        let pairs = report.color_pairs.iter().filter(|((_, color), _)| *color == row.index);
        let out_of_color = pairs.map(|(_, tally)| tally.out_of_color_pages).sum::<u64>();
        assert_eq!(row.tally.out_of_color_pages, out_of_color, "set color {}", row.index);
    }
    let causes = &report.out_of_color.causes;
    let caused = causes.outside_platform_pages + causes.ksm_pages + causes.shared_after_fork_pages + causes.thp_pages;
    assert_eq!(report.out_of_color.pages, caused + causes.unknown_pages);
    assert_eq!(report.out_of_color.pages, private.out_of_color_pages);
}

#[test]
fn fast_and_slow_reading_agree_page_by_page() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let child = Stopped::fork(|| {
        touch(map(0, 300, READ_WRITE, PRIVATE), (0..300).step_by(3));
        touch(map(0, 64, READ_WRITE, SHARED), 0..64);
        let zeroes = map(0, 16, READ_WRITE, PRIVATE);
        for page in 0..16 {
            // SAFETY: inside the mapping made above.
            unsafe { zeroes.add(page * PAGE).read_volatile() };
        }
    });
    let slow = by_brute_force(child.pid());
    let report = inspector(banks("0-3")).inspect_pid(child.pid()).unwrap_or_else(|error| panic!("{error}"));
    assert_identities(&report);
    assert_eq!(report.private.pages, slow.len() as u64);
    let palette = palette();
    let class = |pfn: u64| palette.color_of_frame(Pfn(pfn)).expect("a TiB holds all frames").bank_class;
    for row in &report.bank_classes {
        let pages = slow.values().filter(|&&pfn| class(pfn) == row.index).count() as u64;
        assert_eq!(row.tally.pages, pages, "class {}", row.index);
        assert_eq!(row.selected, row.index < 4);
    }
    let out: Vec<u64> = slow.iter().filter(|&(_, &pfn)| class(pfn) > 3).map(|(&address, _)| address).collect();
    assert_eq!(report.private.out_of_color_pages, out.len() as u64);
    assert_eq!(report.verdict, Some(if out.is_empty() { Verdict::Held } else { Verdict::Violated }));
    for mapping in &report.out_of_color.mappings {
        let inside = out.iter().filter(|&&address| (mapping.start..mapping.end).contains(&address));
        assert_eq!(mapping.pages, inside.clone().count() as u64);
        let first: Vec<u64> = inside.take(16).copied().collect();
        assert_eq!(mapping.addresses.iter().map(|page| page.address).collect::<Vec<_>>(), first);
    }
    let zero: u64 = report.segments.iter().map(|row| row.zero_pages).sum();
    assert!(zero >= 16, "pages that were only read are the zero page: {zero}");
    let shared = report.segments.iter().find(|row| row.kind == SegmentKind::SharedMemory).expect("was mapped");
    assert!(shared.file_or_shared_pages >= 64 && shared.private_pages == 0, "{shared:?}");
}

#[test]
fn the_verdict_is_about_every_private_page() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let child = Stopped::fork(|| touch(map(0, 64, READ_WRITE, PRIVATE), 0..64));
    let verdict = |selection| inspector(selection).inspect_pid(child.pid()).unwrap_or_else(|e| panic!("{e}")).verdict;
    assert_eq!(verdict(None), None);
    assert_eq!(verdict(banks("all")), Some(Verdict::Held));
    assert_eq!(verdict(banks("0")), Some(Verdict::Violated));
}

#[test]
fn pages_shared_after_a_fork_name_the_other_process() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let start = map(0, 100, READ_WRITE, PRIVATE);
    touch(start, 0..100);
    let address = start as u64;
    let child = Stopped::fork(|| touch(address as *mut u8, 0..30));
    let report = inspector(banks("0")).inspect_pid(child.pid()).unwrap_or_else(|error| panic!("{error}"));
    assert_identities(&report);
    assert!(report.sharing.pages >= 70, "{:?}", report.sharing);
    let parent = report.sharing.with.iter().find(|with| with.pid == std::process::id()).expect("the parent shares");
    assert!(parent.pages >= 70 && parent.cause == "shared after fork", "{parent:?}");
    assert!(report.out_of_color.causes.shared_after_fork_pages > 0);
    let quick =
        inspector(None).search_sharers(false).inspect_pid(child.pid()).unwrap_or_else(|error| panic!("{error}"));
    assert!(!quick.sharing.searched && quick.sharing.with.is_empty() && quick.sharing.pages >= 70);
}

#[test]
fn memtints_own_pages_are_counted_apart() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let child = Stopped::fork(|| {
        let fixed = PRIVATE | libc::MAP_FIXED_NOREPLACE;
        touch(map(POOL_ADDRESSES.start, 50, READ_WRITE, fixed), 0..50);
    });
    let report = inspector(banks("0-6")).inspect_pid(child.pid()).unwrap_or_else(|error| panic!("{error}"));
    assert_identities(&report);
    assert_eq!(report.pool.pages, 50);
    assert_eq!(segment(&report, SegmentKind::MemtintPool), 50);
    assert_eq!(report.pool.in_color_pages + report.pool.out_of_color_pages, 50);
    assert_eq!(report.private.pages + 50, by_brute_force(child.pid()).len() as u64);
}

#[test]
fn terabytes_of_reserved_addresses_cost_nothing() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let child = Stopped::fork(|| {
        let pages = (4usize << 40) / PAGE;
        map(0, pages, libc::PROT_NONE, PRIVATE | libc::MAP_NORESERVE);
        let spread = map(0, pages, READ_WRITE, PRIVATE | libc::MAP_NORESERVE);
        touch(spread, (0..pages).step_by(pages / 64));
    });
    let before = bytes_read();
    let report =
        inspector(None).search_sharers(false).inspect_pid(child.pid()).unwrap_or_else(|error| panic!("{error}"));
    let read = bytes_read() - before;
    // An entry of 8 bytes for each of these pages would be 16 GiB.
    assert!(read < 64 << 20, "{read} bytes were read");
    assert!(segment(&report, SegmentKind::Anonymous) >= 64);
}

#[test]
fn a_program_that_changes_its_memory_all_the_time_is_read_without_fault() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    // SAFETY: the child makes only system calls and touches memory it has just mapped, until it is killed below.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork fails");
    if pid == 0 {
        loop {
            let start = map(0, 256, READ_WRITE, PRIVATE);
            touch(start, 0..256);
            // SAFETY: the mapping made above, used no more.
            unsafe { libc::munmap(start.cast(), 256 * PAGE) };
        }
    }
    let child = Stopped(pid);
    let inspector = inspector(None).search_sharers(false);
    for _ in 0..100 {
        let report = inspector.inspect_pid(child.pid()).unwrap_or_else(|error| panic!("{error}"));
        assert_identities(&report);
        let special = |kind| report.segments.iter().filter(move |row| row.kind == kind).map(|row| row.special_pages);
        assert_eq!(special(SegmentKind::Anonymous).sum::<u64>(), 0, "anonymous memory has no device pages");
    }
}

#[test]
fn threads_and_their_stacks_are_seen() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let (started, wait) = (std::sync::Barrier::new(4), std::sync::Barrier::new(4));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                std::hint::black_box([1u8; 64 * 1024]);
                started.wait();
                wait.wait();
            });
        }
        started.wait();
        let report = inspector(None).search_sharers(false).inspect_pid(std::process::id());
        wait.wait();
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        assert!(report.processes[0].threads >= 4);
        let stacks = report.segments.iter().find(|row| row.kind == SegmentKind::ThreadStack).expect("three at least");
        assert!(stacks.mappings >= 3 && stacks.private_pages >= 3 * 16, "{stacks:?}");
        assert!(segment(&report, SegmentKind::Stack) > 0 && segment(&report, SegmentKind::Heap) > 0);
    });
}

/// Bytes that this thread has had from `read` and its like.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").expect("the kernel accounts for input");
    let bytes = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    bytes.and_then(|bytes| bytes.parse().ok()).expect("a number")
}

/// Name and state of a process.
fn state(pid: u32) -> Option<(String, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    Some((head.split_once('(')?.1.to_owned(), tail.trim_start().chars().next()?))
}

fn wait_for_state(pid: u32, name: &str, wanted: char) {
    let until = Instant::now() + Duration::from_secs(600);
    while state(pid) != Some((name.to_owned(), wanted)) {
        assert!(Instant::now() < until, "{name}: {:?}", state(pid));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that has begun to sleep.
fn sleeper() -> Child {
    let child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().expect("sleep is everywhere");
    wait_for_state(child.id(), "sleep", 'S');
    child
}

#[test]
fn reports_of_several_processes_add_up() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let mut children = [sleeper(), sleeper()];
    let inspector = inspector(banks("0-3"));
    let pids: Vec<u32> = children.iter().map(Child::id).collect();
    let parts: Vec<Report> =
        pids.iter().map(|&pid| inspector.inspect_pid(pid).unwrap_or_else(|error| panic!("{error}"))).collect();
    // The same process twice, and one that does not exist: counted once, and not at all.
    let sum = inspector.inspect_pids(&[pids[0], pids[1], pids[1], u32::MAX / 2]);
    for child in &mut children {
        child.kill().and_then(|()| child.wait()).expect("the child is ours");
    }
    let sum = sum.unwrap_or_else(|error| panic!("{error}")).expect("two live processes");
    assert_eq!(sum.processes.len(), 2);
    assert_eq!(sum.private.pages, parts.iter().map(|part| part.private.pages).sum::<u64>());
    assert_identities(&sum);
    assert!(sum.not_colorable.len() >= 2, "page cache and page tables at least: {:?}", sum.not_colorable);
}

#[test]
fn processes_on_one_address_space_are_counted_once() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    extern "C" fn pause(_: *mut libc::c_void) -> libc::c_int {
        // SAFETY: takes nothing, returns only when a signal is handled, and none is.
        unsafe { libc::pause() }
    }
    let stack_pages = 16;
    let stack = map(0, stack_pages, READ_WRITE, PRIVATE);
    // SAFETY: the child runs `pause` on a stack of its own, which is mapped until this process ends, and touches nothing.
    let child = unsafe {
        libc::clone(pause, stack.add(stack_pages * PAGE).cast(), libc::CLONE_VM | libc::SIGCHLD, std::ptr::null_mut())
    };
    assert!(child > 0, "clone fails");
    let helper = Stopped(child);
    let inspector = inspector(None);
    let report = inspector.inspect_pids(&[std::process::id(), helper.pid()]);
    let report = report.unwrap_or_else(|error| panic!("{error}")).expect("this process has memory");
    assert_eq!(report.processes.len(), 1);
    assert!(report.sharing.with.iter().all(|with| with.pid != helper.pid()), "{:?}", report.sharing);
}

#[test]
fn huge_pages_are_counted_and_judged_page_by_page() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    const HUGE: usize = 2 << 20;
    let child = Stopped::fork(|| {
        let start = map(0, 4 * HUGE / PAGE, READ_WRITE, PRIVATE);
        let aligned = (start as usize).next_multiple_of(HUGE) as *mut u8;
        // SAFETY: three aligned huge pages lie inside the mapping made above.
        unsafe { libc::madvise(aligned.cast(), 3 * HUGE, libc::MADV_HUGEPAGE) };
        touch(aligned, 0..3 * HUGE / PAGE);
    });
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", child.pid())).expect("the child lives");
    let huge_kib = smaps.lines().find_map(|line| line.strip_prefix("AnonHugePages:")?.split_whitespace().next());
    let huge_pages = huge_kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 4;
    if huge_pages == 0 {
        memtint_testing::skip("transparent huge pages");
        return;
    }
    let report = inspector(banks("0-3")).inspect_pid(child.pid()).unwrap_or_else(|error| panic!("{error}"));
    assert_identities(&report);
    assert!(report.private.thp_pages >= huge_pages, "{} of {huge_pages}", report.private.thp_pages);
    assert!(report.out_of_color.causes.thp_pages >= huge_pages / 2, "half of each huge page is in classes 4-7");
    assert_eq!(report.private.pages, by_brute_force(child.pid()).len() as u64);
}

#[test]
fn what_is_not_a_program_is_refused() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let inspector = inspector(None);
    let refused = |pid| match inspector.inspect_pid(pid) {
        Err(InspectError::NoProcess { pid: named, what }) => {
            assert_eq!(named, pid);
            what
        }
        other => panic!("process {pid}: {other:?}"),
    };
    assert!(refused(u32::MAX / 2).contains("does not exist"));
    // kthreadd, unless a container hides it.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd") {
        assert!(refused(2).contains("no user memory"));
    }
    let mut dead = Command::new("true").spawn().expect("true is everywhere");
    wait_for_state(dead.id(), "true", 'Z');
    assert!(refused(dead.id()).contains("ended"));
    dead.wait().expect("the child is ours");
}

#[test]
fn the_forms_of_a_report_tell_the_same() {
    let _alone = memtint_testing::alone();
    if !privileged() {
        return;
    }
    let mut child = sleeper();
    let report = inspector(banks("0-3")).inspect_pid(child.id());
    child.kill().and_then(|()| child.wait()).expect("the child is ours");
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let json = serde_json::to_value(&report).expect("a report has a JSON form");
    assert_eq!((&json["schema"], &json["report"]), (&1.into(), &"inspect".into()));
    assert_eq!(json["private"]["pages"], report.private.pages);
    assert_eq!(json["bank_classes"].as_array().map(Vec::len), Some(8));
    assert_eq!(json["bank_classes"][0]["pages"], report.bank_classes[0].tally.pages);
    let again: Report = serde_json::from_value(json.clone()).expect("what was written can be read");
    assert_eq!(serde_json::to_value(&again).expect("a report has a JSON form"), json);
    let text = report.to_text();
    assert!(text.contains("verdict: violated") && text.contains(&format!("of {} private pages", report.private.pages)));
    let headline = report.headline();
    assert!(headline.starts_with("sleep (") && headline.ends_with("in color: violated"), "{headline}");
    let platform = report.platform.sentence();
    assert!(platform.contains("observer-test"), "{platform}");
}

#[test]
fn this_process_is_in_its_cgroup() {
    let _alone = memtint_testing::alone();
    let membership = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Version 2, or any hierarchy of version 1 that is mounted where it usually is.
    let found = membership.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let mount =
            if controllers.is_empty() { "/sys/fs/cgroup".to_owned() } else { format!("/sys/fs/cgroup/{controllers}") };
        memtint_inspect::cgroup_pids(std::path::Path::new(&format!("{mount}{path}"))).ok()
    });
    let lists: Vec<Vec<u32>> = found.collect();
    if lists.is_empty() {
        memtint_testing::skip("a mounted cgroup file system");
        return;
    }
    assert!(lists.iter().any(|pids| pids.contains(&std::process::id())), "{lists:?}");
    let error = memtint_inspect::cgroup_pids(std::path::Path::new("/no/such/group")).expect_err("there is none");
    assert!(error.to_string().contains("/no/such/group is not a cgroup"), "{error}");
}
