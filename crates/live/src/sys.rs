//! All contact with the machine: thin, safe-to-call wrappers of Linux interfaces.
//!
//! Preconditions shared by everything here: Linux 6.8 or newer on x86-64; the caller has CAP_SYS_ADMIN and
//! CAP_SYS_PTRACE (checked once by [`crate::run`]; the kernel backend needs neither). Wrappers return the error number
//! as [`io::Error`].

mod children;
mod memory;
mod poll;
mod process;
mod ptrace;
mod scheduling;
mod seccomp;
mod shared;
mod socket;

use std::io;
use std::os::fd::RawFd;

pub(crate) use self::children::*;
pub(crate) use self::memory::*;
pub(crate) use self::poll::*;
pub(crate) use self::process::*;
pub(crate) use self::ptrace::*;
pub(crate) use self::scheduling::*;
pub(crate) use self::seccomp::*;
pub(crate) use self::shared::*;
pub(crate) use self::socket::*;

/// Process or thread id.
pub(crate) type Pid = libc::pid_t;

/// Turns a C return value into a result.
fn check(value: i64) -> io::Result<i64> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

fn ioctl(fd: RawFd, request: u64, argument: *mut libc::c_void) -> io::Result<i64> {
    // SAFETY: every caller passes the structure that `request` names, alive across the call.
    check(i64::from(unsafe { libc::ioctl(fd, request, argument) }))
}

/// Pages of memory that the kernel manages; 0 if unknown.
pub(crate) fn machine_pages() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }).unwrap_or(0)
}

/// CPUs that the kernel has configured, 1 or more.
pub(crate) fn configured_cpus() -> u32 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(configured).unwrap_or(1).max(1)
}

/// Ends this process by a signal, with a core file of at most `core_bytes`. Returns if the signal does not end it.
pub(crate) fn end_by(signal: i32, core_bytes: u64) {
    // SAFETY: numbers and valid structures.
    unsafe {
        let limit = libc::rlimit { rlim_cur: core_bytes, rlim_max: core_bytes };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const limit);
        let mut open = std::mem::zeroed();
        libc::sigemptyset(&raw mut open);
        libc::sigaddset(&raw mut open, signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const open, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Makes the kernel write a core file of this process into memory that vanishes with it. False if the core file would
/// be visible: the kernel writes it to a fixed path, or pipes it to a program.
pub(crate) fn hide_core_files() -> bool {
    let pattern = std::fs::read("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.first().is_none_or(|first| b"|@".contains(first)) || pattern.contains(&b'/') {
        return false;
    }
    let (place, private) = (c"/proc".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: C strings that live as long as the program. The mounts are visible to this process only, which is about
    // to end and opens no more files.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()) == 0
            && libc::mount(c"none".as_ptr(), place, c"tmpfs".as_ptr(), 0, std::ptr::null()) == 0
            && libc::chdir(place) == 0
    }
}
