//! Groups of tasks that can be frozen: cgroup v2.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::error::RegulatorError;

/// Folder below the root for the groups that the regulator creates.
const OWN: &str = "memtint-guard";

/// The mounted cgroup v2 hierarchy.
#[derive(Clone, Debug)]
pub struct CgroupRoot(PathBuf);

impl CgroupRoot {
    /// Finds where cgroup v2 is mounted.
    ///
    /// # Errors
    /// [`RegulatorError::NoCgroups`] if it is not.
    pub fn find() -> Result<CgroupRoot, RegulatorError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")
            .map_err(|cause| RegulatorError::NoCgroups { cause: Some(cause) })?;
        mount_point(&mounts).map(CgroupRoot).ok_or(RegulatorError::NoCgroups { cause: None })
    }

    /// Its mount point.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes leftovers of a regulator that was killed together with its guardian. For the only regulator of the
    /// machine.
    pub(crate) fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(self.0.join(OWN)) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            Cgroup { path: entry.path(), is_own: true }.leave();
        }
    }

    /// A group that exists, by its path from the root (`/system.slice/web.service`), or one to create, by a plain name.
    ///
    /// # Errors
    /// [`RegulatorError::Group`]: a name that is neither, a group that does not exist, the root, one that is frozen already, or one
    /// that the regulator itself belongs to.
    pub fn group(&self, name: &str) -> Result<Cgroup, RegulatorError> {
        let refused = |found: String, accepted: &str| {
            Err(RegulatorError::Group { name: name.to_owned(), found, accepted: accepted.to_owned() })
        };
        let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
        let strange = |part: &&str| *part == "." || *part == ".." || part.chars().any(char::is_control);
        if parts.is_empty() || parts.iter().any(strange) {
            return refused("no name of a group".to_owned(), "a plain name, or the path of a cgroup below the root");
        }
        if !name.starts_with('/') {
            if parts.len() > 1 || parts[0].starts_with("cgroup.") {
                return refused(
                    "neither a plain name nor a path".to_owned(),
                    "web for a new group, /web for one that exists",
                );
            }
            return Ok(Cgroup { path: self.0.join(OWN).join(parts[0]), is_own: true });
        }
        let path = parts.iter().fold(self.0.clone(), |path, part| path.join(part));
        if !path.join("cgroup.freeze").exists() {
            return refused("no such cgroup".to_owned(), "the path of a cgroup below the root");
        }
        let has = |file: &str, text: &str| {
            fs::read_to_string(path.join(file)).is_ok_and(|state| state.lines().any(|line| line == text))
        };
        // A group above it may be frozen.
        if has("cgroup.freeze", "1") || has("cgroup.events", "frozen 1") {
            return refused("frozen already".to_owned(), "a group that runs (echo 0 to its cgroup.freeze thaws it)");
        }
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        if self.0.join(own).starts_with(&path) {
            return refused("the group of this program".to_owned(), "a group that the regulator does not belong to");
        }
        Ok(Cgroup { path, is_own: false })
    }
}

/// The first mount of type cgroup2. Fields of mountinfo: see proc(5).
fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        // A mount of another root is a part of the hierarchy only.
        let whole = file_system.starts_with("cgroup2 ") && fields.next()? == "/";
        fields.next().filter(|_| whole).map(|path| PathBuf::from(unescaped(path)))
    })
}

/// Replaces the octal escapes of mountinfo.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A group of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    path: PathBuf,
    is_own: bool,
}

impl Cgroup {
    /// A group by its folder; `is_own` if the regulator creates and removes it.
    pub(crate) fn at(path: PathBuf, is_own: bool) -> Cgroup {
        Cgroup { path, is_own }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// CPUs that its tasks may run on; `None` if it has no cpuset.
    pub fn cpus(&self) -> Option<String> {
        fs::read_to_string(self.path.join("cpuset.cpus.effective")).ok().map(|text| text.trim().to_owned())
    }

    /// The inode number, which distinguishes it from a later group of this name; `None` when it was removed.
    pub(crate) fn inode(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(&self.path).ok().map(|data| data.ino())
    }

    /// Whether the regulator creates and removes it.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Creates it if it is the regulator's own.
    ///
    /// # Errors
    /// [`RegulatorError::Cgroup`], also if it exists: it may contain tasks of another program.
    pub(crate) fn create(&self) -> Result<(), RegulatorError> {
        let failed = |path: &Path, cause| RegulatorError::Cgroup { path: path.to_owned(), cause };
        let Some(parent) = self.path.parent().filter(|_| self.is_own) else { return Ok(()) };
        fs::create_dir_all(parent).map_err(|cause| failed(parent, cause))?;
        fs::create_dir(&self.path).map_err(|cause| failed(&self.path, cause))
    }

    /// Thaws it. Does as much as possible.
    pub(crate) fn thaw(&self) {
        let _ = self.freezer_file().and_then(|file| write_state(&file, false));
    }

    /// Thaws it. If it is the regulator's own, moves its tasks to the root, and removes it with the groups that its tasks have made in it.
    /// Does as much as possible.
    pub(crate) fn leave(&self) {
        self.thaw();
        let Some(parent) = self.path.parent().filter(|_| self.is_own) else { return };
        let root = parent.parent().unwrap_or(parent).join("cgroup.procs");
        empty(&self.path, &root);
        // Fails while another group is in it.
        let _ = fs::remove_dir(parent);
    }

    /// Moves a process into it.
    pub(crate) fn add(&self, process: u32) -> Result<(), RegulatorError> {
        let path = self.path.join("cgroup.procs");
        File::options()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(process.to_string().as_bytes()))
            .map_err(|cause| RegulatorError::Cgroup { path, cause })
    }

    /// The folder, for a counter.
    pub(crate) fn open(&self) -> Result<File, RegulatorError> {
        File::open(&self.path).map_err(|cause| RegulatorError::Cgroup { path: self.path.clone(), cause })
    }

    pub(crate) fn freezer_file(&self) -> io::Result<File> {
        File::options().write(true).open(self.path.join("cgroup.freeze"))
    }
}

/// Empties and removes a group, those in it first.
fn empty(group: &Path, root: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            empty(&entry.path(), root);
        }
    }
    let state = group.join("cgroup.freeze");
    for pass in 0..MOVES {
        let tasks = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        if tasks.is_empty() {
            break;
        }
        // Tasks that start others faster than they are moved start none while they are frozen. They run again in the root group.
        if pass == QUIET_MOVES {
            let _ = fs::write(&state, "1");
        }
        for task in tasks.lines() {
            let _ = fs::write(root, task);
        }
    }
    let _ = fs::write(&state, "0");
    // A task that has ended may be in it for a moment.
    for _ in 0..100 {
        if fs::remove_dir(group).is_ok() || !group.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Rounds in which tasks are moved; the first ones without freezing them.
const MOVES: usize = 10;
const QUIET_MOVES: usize = 3;

/// Freezes or thaws by a `cgroup.freeze` file.
pub(crate) fn write_state(file: &File, frozen: bool) -> io::Result<()> {
    file.write_all_at(if frozen { b"1" } else { b"0" }, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_hierarchy_is_found() {
        let mounts = "\
24 30 0:22 / /proc rw,nosuid - proc proc rw
31 30 0:27 /part /mnt/part rw - cgroup2 cgroup2 rw
32 30 0:27 / /sys/fs/cgroup/a\\040b rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
33 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu";
        assert_eq!(mount_point(mounts), Some(PathBuf::from("/sys/fs/cgroup/a b")));
        assert_eq!(mount_point("33 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
    }

    #[test]
    fn names_are_plain_or_paths() {
        let root = CgroupRoot(PathBuf::from("/nowhere"));
        let web = root.group("web").unwrap();
        assert_eq!((web.path(), web.is_own()), (Path::new("/nowhere/memtint-guard/web"), true));
        for (name, word) in [
            ("", "no name"),
            ("/", "no name"),
            ("..", "no name"),
            ("/a/../b", "no name"),
            ("a\nb", "no name"),
            ("a/b", "/web for one that exists"),
            ("cgroup.procs", "neither"),
            ("/absent", "no such cgroup"),
        ] {
            let error = root.group(name).unwrap_err().to_string();
            assert!(error.contains(word), "{name:?}: {error}");
        }
    }
}
