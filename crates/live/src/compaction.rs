//! Stops the kernel's proactive compaction during a run: `vm.compaction_proactiveness` (Linux 5.9) is 0 meanwhile.
//!
//! A kernel thread compacts memory whenever free memory is in small blocks, for example after other programs took most of it, or after only
//! frames of some colors were taken. It ignores colors: thousands of pages leave theirs within seconds. Requests for large blocks can still
//! cause pages to move, as can a write to `vm.compact_memory`.
//!
//! The setting is machine-wide, and runs overlap. Its previous value is kept in a file on which each run holds a shared lock. A run that
//! gets the exclusive lock at its end is the last one, and restores the setting. If that run is killed, the end of the next run restores
//! it.

use crate::report::CompactionReport;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const SETTING: &str = "/proc/sys/vm/compaction_proactiveness";
const KEPT: &str = "/run/memtint-compaction";

/// While this exists, the kernel does not compact memory on its own initiative.
pub(crate) struct Pause {
    setting: PathBuf,
    kept: File,
    before: u64,
}

impl Pause {
    /// `None` if there is nothing to pause: there is no such setting, or it is 0 and no run has set it. Also returns the part of the report
    /// about it.
    pub(crate) fn begin() -> (Option<Pause>, CompactionReport) {
        match Pause::with(Path::new(SETTING), Path::new(KEPT)) {
            Ok(pause) => {
                let proactiveness = pause.as_ref().map(|pause| pause.before);
                (pause, CompactionReport { proactiveness, goes_on: None })
            }
            Err(error) => (
                None,
                CompactionReport { proactiveness: read(Path::new(SETTING)).ok(), goes_on: Some(error.to_string()) },
            ),
        }
    }

    fn with(setting: &Path, kept: &Path) -> io::Result<Option<Pause>> {
        if !setting.exists() || (read(setting)? == 0 && !kept.exists()) {
            return Ok(None);
        }
        let mut kept = open(kept)?;
        // Wait while another process restores the setting: it has the exclusive lock.
        kept.lock_shared()?;
        let before = match read(setting)? {
            0 => number(&read_all(&mut kept)?).ok(),
            now => {
                // Save the old value first: a process killed in between has changed nothing.
                write_all(&mut kept, &now.to_string())?;
                // Without permission to set it, nothing has changed either.
                fs::write(setting, "0").or_else(|error| kept.set_len(0).and(Err(error)))?;
                Some(now)
            }
        };
        Ok(before.map(|before| Pause { setting: setting.to_owned(), kept, before }))
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let _ = self.kept.unlock();
        let _ = put_back(&self.setting, &mut self.kept);
    }
}

/// The writes of [`Pause::begin`] on this machine.
pub(crate) fn writes() -> Vec<String> {
    match read(Path::new(SETTING)) {
        Ok(now) if now > 0 => vec![
            format!("{KEPT}: {now}, the value to restore"),
            format!("{SETTING}: 0 until the last colored program has ended"),
        ],
        // There is no such setting, or it is 0 already; another run may then have to restore it.
        _ if Path::new(KEPT).exists() => vec![format!("{KEPT}: a lock, so that the last run restores {SETTING}")],
        _ => Vec::new(),
    }
}

/// Does the work of a last run that was killed.
pub(crate) fn clean_up() {
    let _ = File::options().read(true).write(true).open(KEPT).map(|mut kept| put_back(Path::new(SETTING), &mut kept));
}

/// Restores the setting, unless other runs are active. A value that another process has set since is kept.
fn put_back(setting: &Path, kept: &mut File) -> io::Result<()> {
    if kept.try_lock().is_err() {
        return Ok(());
    }
    if let Ok(before) = number(&read_all(kept)?)
        && read(setting)? == 0
    {
        fs::write(setting, before.to_string())?;
    }
    kept.set_len(0)
}

fn read(setting: &Path) -> io::Result<u64> {
    number(&fs::read_to_string(setting)?)
}

fn open(kept: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW).open(kept)
}

fn read_all(file: &mut File) -> io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn write_all(file: &mut File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

fn number(text: &str) -> io::Result<u64> {
    text.trim().parse().map_err(|_| io::Error::other(format!("{text:?} is no number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting in a temporary directory, and the file beside it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str, value: u64) -> Place {
            let folder = std::env::temp_dir().join(format!("memtint-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            let place = Place(folder);
            place.set(value);
            place
        }

        fn pause(&self) -> Option<Pause> {
            Pause::with(&self.0.join("setting"), &self.0.join("kept")).unwrap()
        }

        fn set(&self, value: u64) {
            fs::write(self.0.join("setting"), format!("{value}\n")).unwrap();
        }

        fn value(&self) -> u64 {
            read(&self.0.join("setting")).unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_last_run_puts_the_setting_back() {
        let place = Place::new("last-run", 20);
        let first = place.pause().unwrap();
        let second = place.pause().unwrap();
        assert_eq!((place.value(), first.before, second.before), (0, 20, 20));
        drop(first);
        assert_eq!(place.value(), 0, "another run goes on");
        drop(second);
        assert_eq!(place.value(), 20);
        assert_eq!(place.pause().unwrap().before, 20, "once more");
        assert_eq!(place.value(), 20);
    }

    #[test]
    fn after_a_killed_run_the_next_one_does() {
        let place = Place::new("killed-run", 0);
        // The file that a killed run leaves.
        fs::write(place.0.join("kept"), "35").unwrap();
        let next = place.pause().unwrap();
        assert_eq!((place.value(), next.before), (0, 35));
        drop(next);
        assert_eq!(place.value(), 35);
    }

    #[test]
    fn what_others_have_set_stays() {
        let place = Place::new("others", 20);
        let pause = place.pause().unwrap();
        place.set(50);
        drop(pause);
        assert_eq!(place.value(), 50);
        place.set(0);
        assert!(place.pause().is_none(), "it was 0 before any run");
        assert_eq!(place.value(), 0);
        let missing = Pause::with(&place.0.join("missing"), &place.0.join("kept")).unwrap();
        assert!(missing.is_none(), "a kernel without it");
    }
}
