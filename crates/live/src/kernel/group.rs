//! A cgroup of version 2 made for one run: its files `memory.colors.*` set the colors of its members.

use super::{KernelOptions, counters, refused};
use crate::RunError;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The cgroup of a run, removed with it.
pub(super) struct Group {
    folder: PathBuf,
}

impl Group {
    /// Makes one below the caller's, so that the limits of that one apply. `None` if the caller's cgroup does not delegate the memory
    /// controller or may not be changed, or if the kernel has no such files.
    pub(super) fn below(parent: &Path, asked: &KernelOptions, strict: bool) -> Result<Option<Group>, RunError> {
        let passed_on = std::fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        if !passed_on.split_whitespace().any(|controller| controller == "memory") {
            return Ok(None);
        }
        let folder = parent.join(format!("memtint-{}", std::process::id()));
        if std::fs::create_dir(&folder).is_err() {
            return Ok(None);
        }
        let group = Group { folder };
        if !group.file("memory.colors.bank").exists() {
            return Ok(None);
        }
        group.set("memory.colors.mode", if strict { "strict" } else { "soft" })?;
        // Unwritten files inherit from the caller's cgroup.
        for (file, list) in [("memory.colors.set", &asked.sets), ("memory.colors.bank", &asked.banks)] {
            list.as_deref().map_or(Ok(()), |list| group.set(file, list))?;
        }
        Ok(Some(group))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn set(&self, name: &str, text: &str) -> Result<(), RunError> {
        let file = self.file(name);
        std::fs::write(&file, text).map_err(|cause| refused(&file, text, cause))
    }

    /// Moves this process into it.
    pub(super) fn join(&self) -> io::Result<()> {
        let file = self.file("cgroup.procs");
        std::fs::write(&file, "0").map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
    }

    /// The kernel's counters of it.
    pub(super) fn counters(&self) -> Option<BTreeMap<String, u64>> {
        counters(&std::fs::read_to_string(self.file("memory.colors.stat")).ok()?)
    }

    /// Number of member processes.
    pub(super) fn members(&self) -> Option<usize> {
        Some(std::fs::read_to_string(self.file("cgroup.procs")).ok()?.lines().count())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A cgroup with members remains, and they keep their colors.
        let _ = std::fs::remove_dir(&self.folder);
    }
}
