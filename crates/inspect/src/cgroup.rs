//! The processes of a cgroup.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::InspectError;

/// Usual mount points of cgroups: version 2, then the controllers of version 1 that concern memory.
const MOUNTS: [&str; 4] =
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpuset"];

/// Lists the processes of a cgroup and of those below it, ascending.
///
/// The path is a directory (`/sys/fs/cgroup/memory/rt`), or the cgroup's name (`/rt`, as `/proc/PID/cgroup` shows it). Both
/// versions of cgroups are read alike, by their file `cgroup.procs`.
///
/// # Errors
///
/// [`InspectError::NotACgroup`] when no such cgroup is found.
pub fn cgroup_pids(path: &Path) -> Result<Vec<u32>, InspectError> {
    let directory = locate(path)?;
    let mut pids = Vec::new();
    collect(&directory, &mut pids)
        .map_err(|cause| InspectError::NotACgroup { path: directory.display().to_string(), cause })?;
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

fn locate(path: &Path) -> Result<PathBuf, InspectError> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let mounted = MOUNTS.iter().map(|mount| Path::new(mount).join(relative));
    let found =
        std::iter::once(path.to_owned()).chain(mounted).find(|candidate| candidate.join("cgroup.procs").is_file());
    found.ok_or_else(|| InspectError::NotACgroup {
        path: path.display().to_string(),
        cause: io::Error::from(io::ErrorKind::NotFound),
    })
}

fn collect(directory: &Path, pids: &mut Vec<u32>) -> io::Result<()> {
    match std::fs::read_to_string(directory.join("cgroup.procs")) {
        Ok(text) => pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|&pid| pid != 0)),
        // A threaded cgroup of version 2 refuses to list processes; its domain, further up, has them.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
        Err(error) => return Err(error),
    }
    for entry in std::fs::read_dir(directory)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A child that is removed meanwhile has no processes any more.
            let _ = collect(&entry.path(), pids);
        }
    }
    Ok(())
}
