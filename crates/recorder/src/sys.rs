//! All system calls that need `unsafe`: shared memory, memory files, signals.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use crate::wire::{SHARED_BYTES, SLOTS, Shared, Slot};

/// Creates a file in memory that exists while a process has it open; other processes reach it by [`path_of`].
pub(crate) fn memory_file(name: &std::ffi::CStr) -> io::Result<File> {
    // SAFETY: the name ends with a nul; the descriptor is new and has no other owner.
    unsafe {
        match libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(File::from_raw_fd(fd)),
        }
    }
}

/// The path by which another process can open a file of this process while it is open here.
pub(crate) fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// The memory that recorder and plugin share.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: *mut libc::c_void,
}

impl Mapping {
    /// Sets the length of the file, and maps it.
    pub(crate) fn new(file: &File) -> io::Result<Mapping> {
        file.set_len(SHARED_BYTES as u64)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the system chooses the place; the file has this length.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), SHARED_BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Mapping { address }) }
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the mapping begins with it, is aligned to pages as it is, lives as long as `self`; all its fields are
        // atomic, and every bit pattern is a value of theirs.
        unsafe { &*self.address.cast::<Shared>() }
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        // SAFETY: as above; the mapping holds this many behind the first page.
        unsafe { std::slice::from_raw_parts(self.address.cast::<Shared>().add(1).cast::<Slot>(), SLOTS) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.address, SHARED_BYTES) };
    }
}

/// Signals that this thread blocks during a recording, so that a signal from the keyboard does not prevent completion
/// of the file. Dropping it restores the old mask.
pub(crate) struct Signals {
    old: libc::sigset_t,
    kept: libc::sigset_t,
}

impl Signals {
    const KEPT: [libc::c_int; 5] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD];

    pub(crate) fn keep() -> io::Result<Signals> {
        // SAFETY: both sets are filled before they are read.
        unsafe {
            let mut kept: libc::sigset_t = std::mem::zeroed();
            let mut old: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut kept);
            for signal in Signals::KEPT {
                libc::sigaddset(&mut kept, signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &kept, &mut old) {
                0 => Ok(Signals { old, kept }),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Restores the previous mask in the program before it starts.
    pub(crate) fn restore_in(&self, command: &mut Command) {
        let old = self.old;
        // SAFETY: between fork and exec the closure calls one function, which is async-signal-safe.
        unsafe {
            command.pre_exec(move || match libc::sigprocmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }

    /// Waits for a signal, at most for `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Option<libc::c_int> {
        let time = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        };
        // SAFETY: reads a set and a time, writes nothing.
        let signal = unsafe { libc::sigtimedwait(&self.kept, std::ptr::null_mut(), &time) };
        (signal > 0).then_some(signal)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the system.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.old, std::ptr::null_mut()) };
    }
}

/// Forwards a signal to a child that has not been waited for.
pub(crate) fn send(child: u32, signal: libc::c_int) {
    // SAFETY: takes numbers; the child's id is not used again before it is waited for.
    unsafe { libc::kill(child as libc::pid_t, signal) };
}

/// Returns whether a signal comes from the keyboard, and so reaches the program as well.
pub(crate) const fn from_keyboard(signal: libc::c_int) -> bool {
    matches!(signal, libc::SIGINT | libc::SIGQUIT)
}

/// Returns whether a signal only reports that a child has ended or stopped.
pub(crate) const fn of_child(signal: libc::c_int) -> bool {
    signal == libc::SIGCHLD
}
