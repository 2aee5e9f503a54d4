//! Copies of this process, their ends, and what a copy gives up.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::{Pid, check, is_readable, open_process};

/// Starts a copy of this process. Where it has other threads (the supervisor's), the child must not need what they may hold.
pub(crate) fn fork() -> io::Result<Pid> {
    // SAFETY: with one thread (documented on `crate::run`) the child may do anything. The supervisor's others hold no lock that a
    // child takes: the listener's are its own, and the C library puts those of its allocator right.
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

/// A child that has ended and whose end has not been taken note of.
pub(crate) fn ended_child() -> Option<Pid> {
    let (child, _) = change_of(libc::P_ALL, 0, libc::WEXITED | libc::WNOWAIT)?;
    Some(child)
}

/// Whether a child has ended. Its end is not taken note of.
pub(crate) fn has_ended(child: Pid) -> bool {
    change_of(libc::P_PID, child.unsigned_abs(), libc::WEXITED | libc::WNOWAIT).is_some()
}

/// The signal by which a child has been stopped since the last call.
pub(crate) fn stopping_signal(child: Pid) -> Option<i32> {
    let (_, signal) = change_of(libc::P_PID, child.unsigned_abs(), libc::WSTOPPED)?;
    Some(signal)
}

/// A child, and its status or signal, of which one of these changes is to be told.
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

/// Kills all children of this process, and takes note of their ends.
pub(crate) fn end_children() {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
        // SAFETY: takes numbers; a child's number is its own until its end has been taken note of.
        unsafe { libc::kill(child, libc::SIGKILL) };
        wait_for_end(child);
    }
}

/// Keeps the pages that this process has in memory, and those that it will yet touch.
pub(crate) fn keep_memory() -> io::Result<()> {
    // SAFETY: takes numbers.
    check(i64::from(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) })).map(|_| ())
}

/// Begins a session: no terminal sends signals to this process any more.
pub(crate) fn leave_session() {
    // SAFETY: takes no arguments.
    unsafe { libc::setsid() };
}

/// Closes every descriptor of this process but one. For a process that has just been forked and uses no other.
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

/// How soon the kernel may end this process when memory runs out, before or after others: 1000 is first, -1000 never.
/// Where this is not permitted, the process is as likely to go as others.
pub(crate) fn be_killed_for_memory(score: i32) {
    let _ = std::fs::write("/proc/self/oom_score_adj", score.to_string());
}

/// Asks the kernel to kill this process when its parent ends.
pub(crate) fn die_with_parent() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}
