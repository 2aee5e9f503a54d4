//! Code shared by the tests of all crates. A development dependency only: no program contains it.
//!
//! A test that cannot run here calls [`skip`] and returns. A live test, one that reads frame numbers or times memory,
//! holds [`alone`] while it runs. A test that takes minutes runs only when one of its dependencies has changed
//! ([`due`]). JSON output is validated against its [`StrictSchema`].

#![forbid(unsafe_code)]

mod schema;

pub use schema::StrictSchema;

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The environment variable with which every test is [`due`].
pub const FULL: &str = "MEMTINT_TEST_FULL";

/// A long test that is to run.
#[derive(Debug)]
#[must_use = "the test runs again next time unless it has passed"]
pub struct Due {
    name: String,
    files: Vec<PathBuf>,
    versions: Vec<String>,
    stamp: PathBuf,
}

impl Due {
    fn new(name: &str, files: &[PathBuf], versions: &[String]) -> Due {
        let mut hasher = DefaultHasher::new();
        (versions, version("rustc")).hash(&mut hasher);
        files.iter().for_each(|file| hash(file, &mut hasher));
        let stamp = cache().join(format!("stamps/{name}-{:016x}", hasher.finish()));
        Due { name: name.to_owned(), files: files.to_owned(), versions: versions.to_owned(), stamp }
    }

    /// The test has passed: with the same files, it is not due again on this machine. If they have changed meanwhile,
    /// it is unknown which version ran.
    ///
    /// # Panics
    ///
    /// When the user's cache cannot be written, or a file cannot be read.
    pub fn passed(self) {
        if Due::new(&self.name, &self.files, &self.versions).stamp == self.stamp {
            std::fs::create_dir_all(self.stamp.parent().expect("a folder")).expect("a writable cache");
            std::fs::write(&self.stamp, "").expect("a writable cache");
        }
    }
}

/// Whether the test `name` must run. `None`, with a note on standard error, if it has passed on this machine with the
/// same compiler, the same content of `files` (folders with everything below them) and the same `versions`, its other
/// dependencies. Always due with [`FULL`].
///
/// # Panics
///
/// When a file cannot be read.
pub fn due(name: &str, files: &[PathBuf], versions: &[String]) -> Option<Due> {
    let due = Due::new(name, files, versions);
    if due.stamp.exists() && !is_full() {
        // Standard error may be closed, and then has no reader.
        let _ = writeln!(std::io::stderr(), "unchanged: {name} has passed with these files; {FULL}=1 runs it");
        return None;
    }
    Some(due)
}

fn is_full() -> bool {
    std::env::var_os(FULL).is_some_and(|text| !text.is_empty() && text != "0")
}

/// The first line of a program's `--version`; empty if there is no such program.
pub fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).lines().take(1).collect())
}

/// The folder of memtint in the user's cache.
fn cache() -> PathBuf {
    let folder = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = folder.or_else(|| Some(std::env::home_dir()?.join(".cache"))).unwrap_or_else(std::env::temp_dir);
    folder.join("memtint")
}

/// A file with its name, or a folder with all that is in it.
fn hash(file: &Path, hasher: &mut DefaultHasher) {
    let readable = |error: std::io::Error| -> ! { panic!("{}: {error}", file.display()) };
    file.file_name().hash(hasher);
    if file.is_dir() {
        let entries = std::fs::read_dir(file).unwrap_or_else(|error| readable(error));
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
        entries.sort();
        entries.len().hash(hasher);
        entries.iter().for_each(|entry| hash(entry, hasher));
    } else {
        let bytes = std::fs::read(file).unwrap_or_else(|error| readable(error));
        match file.file_name().and_then(|name| name.to_str()) {
            Some("Cargo.lock") => packages(&String::from_utf8_lossy(&bytes)).hash(hasher),
            Some("Cargo.toml") => settings(&String::from_utf8_lossy(&bytes)).hash(hasher),
            _ => bytes.hash(hasher),
        }
    }
}

/// The packages of a lock file that come from elsewhere: those of the workspace count as the folders that they are.
fn packages(lock: &str) -> Vec<&str> {
    lock.split("\n\n").filter(|package| package.contains("\nsource = ")).collect()
}

/// The lines of a manifest but for those that say where crates of the workspace are.
fn settings(manifest: &str) -> Vec<&str> {
    manifest.lines().filter(|line| !(line.starts_with("memtint-") && line.contains("path ="))).collect()
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
        std::fs::remove_file(&path).expect("it was written");
        assert_eq!(text, "needs the program node\nneeds two CPUs\n");
    }

    #[test]
    fn of_a_lock_file_only_what_comes_from_elsewhere_counts() {
        let (own, other) = ("[[package]]\nname = \"own\"", "[[package]]\nname = \"other\"\nsource = \"registry\"");
        assert_eq!(packages(&format!("version = 4\n\n{own}\n\n{other}\n")), [format!("{other}\n")]);
    }

    #[test]
    fn of_a_manifest_a_new_crate_does_not_count_and_all_else_does() {
        let text = "memtint-new = { path = \"crates/new\" }\nserde = \"1\"\n[profile.dev.package.memtint-guard]\n";
        assert_eq!(settings(text), ["serde = \"1\"", "[profile.dev.package.memtint-guard]"]);
    }

    #[test]
    fn a_live_test_waits_for_the_one_that_runs() {
        let held = alone();
        let again = File::create(std::env::temp_dir().join("memtint-live-tests.lock")).expect("a writable directory");
        assert!(again.try_lock().is_err(), "two have the machine");
        drop(held);
    }

    #[test]
    fn a_test_is_due_until_it_has_passed_with_the_same_files() {
        let folder = std::env::temp_dir().join(format!("memtint-due-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        let file = folder.join("inner/file");
        std::fs::write(&file, "one").unwrap();
        let name = format!("due-of-{}", std::process::id());
        let due = |version: &str| super::due(&name, std::slice::from_ref(&folder), &[version.to_owned()]);
        assert!(due("1").is_some());
        due("1").expect("a test that has not passed is due").passed();
        assert_eq!(due("1").is_some(), is_full());
        let stamp = due("2").expect("another version").stamp;
        std::fs::write(&file, "two").unwrap();
        assert!(due("1").is_some());
        std::fs::write(&file, "one").unwrap();
        std::fs::write(folder.join("inner/new"), "").unwrap();
        let changing = due("1").expect("a new file");
        std::fs::write(&file, "two").unwrap();
        changing.passed();
        std::fs::write(&file, "one").unwrap();
        assert!(due("1").is_some(), "the files have changed while the test ran");
        for left in std::fs::read_dir(stamp.parent().unwrap()).unwrap().flatten() {
            if left.file_name().to_string_lossy().starts_with(&name) {
                std::fs::remove_file(left.path()).unwrap();
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
