//! Tasks that leave a regulated group: from then on, no budget binds them.
//!
//! Each look lists the groups' processes. Looks are periodic and, if the kernel reports moves, follow each move of a
//! process of this machine into another group. A process that has started and left between two looks is missed.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::bpf::{Kernel, Moves};
use crate::cgroup::{Cgroup, CgroupRoot};
use crate::promise::{Cause, Incident};
use crate::seat::Common;
use crate::sys;

/// Time between two looks, whatever happens.
const LOOK: Duration = Duration::from_millis(50);
/// The pause between two looks is at least this many times the duration of a look.
const REST: u32 = 10;
/// Above ordinary tasks, below every other real-time thread.
const PRIORITY: i32 = 1;
/// Since then a ring can be written where preemption is off, also with PREEMPT_RT.
const LEAST_REALTIME_KERNEL: (u32, u32) = (6, 12);

/// The thread that reports processes that have left their groups.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Of each group with a cgroup: the index of its first seat, that seat, a group and a CPU, and its processes.
    pub(crate) members: Vec<(usize, (usize, usize), Members)>,
    pub(crate) common: Arc<Common>,
    /// Where the kernel decides.
    pub(crate) kernel: Option<Arc<Kernel>>,
}

impl Watch {
    /// Looks until the regulation ends, and once more then.
    pub(crate) fn run(mut self) {
        // Without the priority it is later on a busy machine.
        let _ = sys::set_fifo(PRIORITY);
        let mut moves = self.kernel.as_deref().filter(|_| may_trace()).and_then(Kernel::watch_moves);
        loop {
            let begin = Instant::now();
            self.look();
            if self.common.stop.load(Ordering::Acquire) {
                return;
            }
            // Limits a storm of moves to two looks a period.
            let rest = Duration::from_nanos(self.common.period_ns / 2).min(LOOK).max(begin.elapsed() * REST);
            self.wait(None, rest);
            self.wait(moves.as_ref(), LOOK);
            // Before the look, which finds all that has moved by then.
            moves.iter_mut().for_each(Moves::take);
        }
    }

    /// Waits until a process has come into another group or the regulation is to end, at most for `time`.
    fn wait(&self, moves: Option<&Moves>, time: Duration) {
        let fds = [Some(self.common.ended.as_fd()), moves.map(Moves::fd)].into_iter().flatten();
        let fds = fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // Too early is as good as in time.
        let _ = sys::wait_readable(&mut fds.collect::<Vec<_>>(), Some(time));
    }

    fn look(&mut self) {
        let period = match &self.kernel {
            Some(kernel) => kernel.latest(),
            None => self.common.shared.period(),
        };
        for (seat, place, members) in &mut self.members {
            for process in members.look() {
                let incident = Incident::without_count(period, *place, Cause::TaskLeft);
                self.common.report_left(*seat, Incident { process: Some(process), ..incident });
            }
        }
    }
}

/// Whether the kernel accepts the program that reports moves.
fn may_trace() -> bool {
    let is_realtime = fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    !is_realtime || sys::kernel_release() >= LEAST_REALTIME_KERNEL
}

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
        let here = self.list();
        let before = std::mem::replace(&mut self.seen, here);
        let is_left =
            |&(process, start): &(u32, u64)| !self.seen.contains_key(&process) && self.has_left(process, start);
        before.into_iter().filter(is_left).map(|(process, _)| process).collect()
    }

    /// Processes of the group and of all groups in it, with their start times.
    fn list(&self) -> BTreeMap<u32, u64> {
        let mut here = BTreeMap::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for process in listed.lines().filter_map(|line| line.parse().ok()) {
                // Processes of other namespaces are listed as 0.
                if let Some(start) = self.seen.get(&process).copied().or_else(|| process_start(process)) {
                    here.insert(process, start);
                }
            }
            let inner = fs::read_dir(folder).into_iter().flatten().flatten();
            let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            folders.extend(inner.filter(is_folder).map(|entry| entry.path()));
        }
        here
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
