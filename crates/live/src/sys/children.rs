//! Copies of this process: their start, their end, and the resources that a copy gives up.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::{Pid, check, is_readable, open_process};

/// Starts a copy of this process. If there are other threads (the supervisor's), the child must not need locks that they may hold.
pub(crate) fn fork() -> io::Result<Pid> {
    // SAFETY: with one thread (documented on `crate::run`) the child may do anything. The supervisor's other threads hold no lock that a
    // child takes: the listener has private locks, and the C library resets those of its allocator.
    check(i64::from(unsafe { libc::fork() })).map(|pid| pid as Pid)
}

/// Starts a copy of this process as a child of its parent. The same holds as for [`fork`].
pub(crate) fn fork_sibling() -> io::Result<Pid> {
    // SAFETY: as for `fork`; no new stack is asked for.
    check(unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, 0, 0, 0, 0) })
        .map(|pid| pid as Pid)
}

/// Waits until a child of this process has ended.
pub(crate) fn wait_for_end(child: Pid) {
    // SAFETY: the status is not asked for.
    let wait = || unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
    while wait() < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {}
}

/// Makes this process the parent of descendants whose parents have ended.
pub(crate) fn adopt_orphans() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// A child that has ended and has not been reaped.
pub(crate) fn ended_child() -> Option<Pid> {
    let (child, _) = change_of(libc::P_ALL, 0, libc::WEXITED | libc::WNOWAIT)?;
    Some(child)
}

/// Whether a child has ended. Does not reap it.
pub(crate) fn has_ended(child: Pid) -> bool {
    change_of(libc::P_PID, child.unsigned_abs(), libc::WEXITED | libc::WNOWAIT).is_some()
}

/// The signal by which a child has been stopped since the last call.
pub(crate) fn stopping_signal(child: Pid) -> Option<i32> {
    let (_, signal) = change_of(libc::P_PID, child.unsigned_abs(), libc::WSTOPPED)?;
    Some(signal)
}

/// The next child with one of these changes, and its status or signal.
fn change_of(kind: libc::idtype_t, child: libc::id_t, changes: i32) -> Option<(Pid, i32)> {
    // SAFETY: all-zero is valid for this plain structure, which the call fills; without a child it stays so.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        let done = libc::waitid(kind, child, &raw mut found, changes | libc::WNOHANG | libc::__WALL) == 0;
        (done && found.si_pid() != 0).then(|| (found.si_pid(), found.si_status()))
    }
}

/// Waits for a child's end for some time.
pub(crate) fn await_child(child: Pid, timeout: Duration) {
    let ended = open_process(child).is_ok_and(|process| is_readable(&process, timeout.as_millis() as i32));
    if ended {
        wait_for_end(child);
    }
}

/// Kills all children of this process, and reaps them.
pub(crate) fn end_children() {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
        // SAFETY: takes numbers; a child's number is not reused before it is reaped.
        unsafe { libc::kill(child, libc::SIGKILL) };
        wait_for_end(child);
    }
}

/// Locks the pages of this process in memory, present and future ones.
pub(crate) fn keep_memory() -> io::Result<()> {
    // SAFETY: takes numbers.
    check(i64::from(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) })).map(|_| ())
}

/// Starts a session: no terminal sends signals to this process any more.
pub(crate) fn leave_session() {
    // SAFETY: takes no arguments.
    unsafe { libc::setsid() };
}

/// Closes every descriptor of this process except one. For a process that has just been forked and uses no other.
pub(crate) fn close_all_but(kept: &OwnedFd) {
    let kept = kept.as_raw_fd() as u32;
    // SAFETY: takes numbers; the caller gives up all other descriptors.
    unsafe {
        if kept > 0 {
            libc::syscall(libc::SYS_close_range, 0, kept - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
    }
}

/// Sets the order in which the kernel kills this process when memory runs out: 1000 is first, -1000 never. Without
/// permission for a score, the process keeps the usual one.
pub(crate) fn be_killed_for_memory(score: i32) {
    let _ = std::fs::write("/proc/self/oom_score_adj", score.to_string());
}

/// Asks the kernel to kill this process when its parent ends.
pub(crate) fn die_with_parent() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}
