//! What the tests of all crates share. A development dependency only: no program contains it.
//!
//! A test that cannot run here calls [`skip`] and returns. A live test, one that reads frame numbers or times memory, holds
//! [`alone`] while it runs.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// The environment variable that names the file to which [`skip`] appends.
pub const SKIPS: &str = "MEMTINT_SKIPS";

/// Reports that the running test checks nothing, because this machine lacks `needed`.
///
/// `needed` completes the sentence "needs ..." and is the same on every machine: `scripts/test.sh` counts skipped tests by
/// it and compares with `scripts/skips.txt`. The line goes to standard error, past libtest's capture, and to the file that
/// [`SKIPS`] names, if it is set.
///
/// # Panics
///
/// When the file cannot be written: a skip that is not counted is a test that silently checks nothing.
pub fn skip(needed: &str) {
    // Standard error may be closed, and then has no reader.
    let _ = writeln!(std::io::stderr(), "skipped: needs {needed}");
    if let Some(path) = std::env::var_os(SKIPS) {
        record(Path::new(&path), needed).unwrap_or_else(|error| panic!("{SKIPS}: {}: {error}", path.display()));
    }
}

/// One write of one line: test programs may share the file.
fn record(path: &Path, needed: &str) -> std::io::Result<()> {
    assert!(!needed.contains('\n'), "{needed:?} is more than one line");
    File::options().create(true).append(true).open(path)?.write_all(format!("needs {needed}\n").as_bytes())
}

/// Exclusive use of the machine among live tests, until it is dropped.
#[derive(Debug)]
#[must_use = "the next live test starts when it is dropped"]
pub struct Alone {
    /// The kernel releases the lock with the last descriptor of the open file.
    _lock: File,
}

/// Waits until no other live test runs, in any thread, process or checkout, and keeps others waiting.
///
/// # Panics
///
/// When the temporary directory cannot be written, or has no file locks.
pub fn alone() -> Alone {
    let lock = File::create(std::env::temp_dir().join("memtint-live-tests.lock")).expect("a writable directory");
    lock.lock().expect("locks work on the temporary directory");
    Alone { _lock: lock }
}

/// Drops the page cache and compacts memory if less than an eighth of it is in free blocks of 2 MiB or more.
///
/// Builds and earlier tests leave free memory in small pieces, in which a search for frames makes little progress. Without
/// privileges nothing changes.
///
/// # Panics
///
/// When `/proc` is not mounted.
pub fn make_room() {
    const BLOCK_ORDER: usize = 9;
    const PAGE_KIB: u64 = 4;
    let buddyinfo = std::fs::read_to_string("/proc/buddyinfo").expect("every kernel has it");
    let in_blocks = |line: &str| -> u64 {
        let counts = line.split_whitespace().skip(4).map(|count| count.parse::<u64>().expect("a number"));
        counts.enumerate().skip(BLOCK_ORDER).map(|(order, count)| count << order).sum()
    };
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("every kernel has it");
    let total_kib =
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB")?.trim().parse().ok());
    let pages: u64 = total_kib.unwrap_or(0) / PAGE_KIB;
    // Zones are listed from the lowest on, and a search gets memory of the highest of its node.
    let node = |line: &str| line.split(',').next().map(str::to_owned);
    let highest: BTreeMap<_, _> = buddyinfo.lines().map(|line| (node(line), in_blocks(line))).collect();
    if highest.values().sum::<u64>() < pages / 8 {
        let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
        let _ = std::fs::write("/proc/sys/vm/compact_memory", "1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_a_line_of_its_own() {
        let path = std::env::temp_dir().join(format!("memtint-testing-{}", std::process::id()));
        record(&path, "the program node").expect("the temporary directory is writable");
        record(&path, "two CPUs").expect("the temporary directory is writable");
        let text = std::fs::read_to_string(&path).expect("it was written");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(text, "needs the program node\nneeds two CPUs\n");
    }

    #[test]
    fn a_live_test_waits_for_the_one_that_runs() {
        let held = alone();
        let again = File::create(std::env::temp_dir().join("memtint-live-tests.lock")).expect("a writable directory");
        assert!(again.try_lock().is_err(), "two have the machine");
        drop(held);
    }
}
