//! What the tests of all crates share. A development dependency only: no program contains it.
//!
//! A test that cannot run here calls [`skip`] and returns. A live test, one that reads frame numbers or times memory, holds
//! [`alone`] while it runs.

#![forbid(unsafe_code)]

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
