//! Waiting for several things at once.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::{Pid, check};

/// Whether a descriptor becomes readable within `timeout_ms`.
pub(crate) fn is_readable(fd: &OwnedFd, timeout_ms: i32) -> bool {
    polled(fd, timeout_ms) & libc::POLLIN != 0
}

/// The events among POLLIN, POLLHUP and POLLERR that a descriptor reports within `timeout_ms`.
pub(crate) fn polled(fd: &OwnedFd, timeout_ms: i32) -> i16 {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure.
    if unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } == 1 { poll.revents } else { 0 }
}

/// An epoll instance whose entries carry numbers.
pub(crate) struct Poller(OwnedFd);

impl Poller {
    /// An empty one.
    pub(crate) fn new() -> io::Result<Poller> {
        // SAFETY: takes numbers.
        let fd = check(i64::from(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }))?;
        // SAFETY: a new descriptor without another owner.
        Ok(Poller(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Reports `token` while `fd` is readable.
    pub(crate) fn add(&self, fd: &impl AsRawFd, token: u64) -> io::Result<()> {
        self.add_events(fd, libc::EPOLLIN as u32, token)
    }

    /// Reports the hang-up of `fd` as `token`, and nothing else.
    pub(crate) fn add_for_end(&self, fd: &impl AsRawFd, token: u64) -> io::Result<()> {
        self.add_events(fd, 0, token)
    }

    fn add_events(&self, fd: &impl AsRawFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        let (this, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: `event` is valid for the call.
        check(i64::from(unsafe { libc::epoll_ctl(this, libc::EPOLL_CTL_ADD, fd, &raw mut event) })).map(|_| ())
    }

    /// Stops reporting `fd`.
    pub(crate) fn remove(&self, fd: &OwnedFd) {
        // SAFETY: takes numbers; the event may be null for this operation.
        unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_raw_fd(), std::ptr::null_mut()) };
    }

    /// Waits up to `timeout_ms` (-1 = for ever) and returns the tokens that are ready, with hang-up flags.
    pub(crate) fn wait(&self, timeout_ms: i32) -> Vec<(u64, bool)> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        // SAFETY: `events` has room for 16.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 16, timeout_ms) };
        let hung = |event: &libc::epoll_event| event.events & libc::EPOLLIN as u32 == 0;
        events[..count.max(0) as usize].iter().map(|event| (event.u64, hung(event))).collect()
    }
}

/// Blocks the signals in this thread; returns a descriptor that is readable when one is pending, and the previous mask.
pub(crate) fn signals_as_file(signals: &[i32]) -> io::Result<(OwnedFd, libc::sigset_t)> {
    // SAFETY: the set is initialised by sigemptyset before use, and the one before by sigprocmask.
    unsafe {
        let (mut set, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        check(i64::from(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before)))?;
        let fd = check(i64::from(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)))?;
        Ok((OwnedFd::from_raw_fd(fd as RawFd), before))
    }
}

/// Blocks these signals in this thread and no others.
pub(crate) fn set_signal_mask(set: &libc::sigset_t) {
    // SAFETY: a set that a call has filled. SIG_SETMASK is a valid operation, so the call cannot fail.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) };
}

/// Takes one pending signal from such a descriptor, with its sender; None when the kernel itself sent it, as a terminal
/// does.
pub(crate) fn next_signal(file: &OwnedFd) -> Option<(i32, Option<Pid>)> {
    const SI_KERNEL: i32 = 0x80;
    // SAFETY: all-zero is valid for this plain structure.
    let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: `info` has the size that is read.
    let read = unsafe { libc::read(file.as_raw_fd(), (&raw mut info).cast(), size) };
    let sender = (info.ssi_code != SI_KERNEL).then_some(info.ssi_pid as Pid);
    (read == size as isize).then_some((info.ssi_signo as i32, sender))
}
