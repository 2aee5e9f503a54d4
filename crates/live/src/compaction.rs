//! Keeps the kernel from moving the pages of a run together: `vm.compaction_proactiveness` (Linux 5.9) is 0 meanwhile.
//!
//! A kernel thread does that whenever free memory is in small blocks, as it is where others have most of it, or where only
//! frames of some colors have been taken. It knows no colors: thousands of pages leave theirs within seconds. What asks for
//! large blocks may still have pages moved, and whoever writes to `vm.compact_memory`.
//!
//! The setting is the machine's, and runs come and go side by side. What it was is in a file that each of them holds a
//! shared lock on; who can have it alone when its run ends is the last one, and puts the setting back. If that one is
//! killed, the next run's end does.

use crate::report::CompactionReport;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const SETTING: &str = "/proc/sys/vm/compaction_proactiveness";
const KEPT: &str = "/run/memtint-compaction";

/// As long as it is there, the kernel moves no pages together that nobody has asked it to.
pub(crate) struct Pause {
    setting: PathBuf,
    kept: File,
    before: u64,
}

impl Pause {
    /// None where there is nothing to pause: no such setting, or it is 0 and no run has set it so. What is reported of it
    /// comes with it.
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
        // Waits for who puts it back at this moment: that one has the file alone.
        kept.lock_shared()?;
        let before = match read(setting)? {
            0 => number(&read_all(&mut kept)?).ok(),
            now => {
                // First what it was: whoever is killed in between has changed nothing.
                write_all(&mut kept, &now.to_string())?;
                // Nor has who may not set it.
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

/// What the last run would have done, had it not been killed.
pub(crate) fn clean_up() {
    let _ = File::options().read(true).write(true).open(KEPT).map(|mut kept| put_back(Path::new(SETTING), &mut kept));
}

/// Puts the setting back, unless there are other runs. Who has set it since knows better.
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

    /// A setting of its own, and the file beside it.
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
        // What it leaves.
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
        assert!(place.pause().is_none(), "it is 0 by somebody's choice");
        assert_eq!(place.value(), 0);
        let missing = Pause::with(&place.0.join("missing"), &place.0.join("kept")).unwrap();
        assert!(missing.is_none(), "a kernel without it");
    }
}
