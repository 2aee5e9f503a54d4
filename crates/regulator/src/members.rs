//! Tasks that leave a regulated group: from then on, no budget binds them.
//!
//! The groups' processes are listed at each look. One that has begun and left between two looks is not seen.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup::{Cgroup, CgroupRoot};

/// Processes of a group and of the groups in it.
#[derive(Debug)]
pub(crate) struct Members {
    folder: PathBuf,
    /// From the root of the hierarchy, as `/proc/PID/cgroup` has it.
    path: PathBuf,
    /// Start times tell a process from a later one of its number.
    seen: BTreeMap<u32, u64>,
}

impl Members {
    pub(crate) fn of(group: &Cgroup, root: &CgroupRoot) -> Members {
        let folder = group.path().to_owned();
        let path = folder.strip_prefix(root.path()).map_or_else(|_| folder.clone(), |path| Path::new("/").join(path));
        Members { folder, path, seen: BTreeMap::new() }
    }

    /// Processes that were in the group at the look before, and are in another one now.
    pub(crate) fn look(&mut self) -> Vec<u32> {
        let mut here = BTreeMap::new();
        self.list(&self.folder.clone(), &mut here);
        let before = std::mem::take(&mut self.seen);
        self.seen = here;
        let is_left =
            |&(process, start): &(u32, u64)| !self.seen.contains_key(&process) && self.has_left(process, start);
        before.into_iter().filter(is_left).map(|(process, _)| process).collect()
    }

    fn list(&self, folder: &Path, here: &mut BTreeMap<u32, u64>) {
        let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        for process in listed.lines().filter_map(|line| line.parse().ok()) {
            // Processes of other namespaces are listed as 0.
            if let Some(start) = self.seen.get(&process).copied().or_else(|| process_start(process)) {
                here.insert(process, start);
            }
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.list(&entry.path(), here);
            }
        }
    }

    /// Whether the process lives, elsewhere.
    fn has_left(&self, process: u32, start: u64) -> bool {
        let Ok(groups) = fs::read_to_string(format!("/proc/{process}/cgroup")) else { return false };
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"));
        // One of the group may have been moved within it while it was listed.
        path.is_some_and(|path| !Path::new(path).starts_with(&self.path)) && process_start(process) == Some(start)
    }
}

/// When a process was started, in clock ticks since the machine was; `None` if it has ended. See proc_pid_stat(5).
pub fn process_start(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name before the last bracket may itself hold blanks and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(start)
}
