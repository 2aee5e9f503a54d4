//! All contact with the machine: thin, safe-to-call wrappers of Linux interfaces.
//!
//! Preconditions shared by everything here: Linux 6.8 or newer on x86-64; the caller has CAP_SYS_ADMIN and
//! CAP_SYS_PTRACE (checked once by [`crate::run`]; what the kernel floor uses needs neither). Wrappers return the error
//! number as [`io::Error`].

use crate::wire::{self, Nodes};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{self, SendError};
use std::time::Duration;

/// Process or thread id.
pub(crate) type Pid = libc::pid_t;

/// Turns a C return value into a result.
fn check(value: i64) -> io::Result<i64> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

// --- the machine and this process ---

/// Pages of memory that the kernel manages; 0 when it does not say.
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

/// Ends this process by a signal, with a core file of no more bytes. Returns where that signal does not end it.
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

/// Has a core file of this process written into memory that goes with it. False when it would be seen: the kernel
/// writes it to a fixed place, or hands it to a program.
pub(crate) fn hide_core_files() -> bool {
    let pattern = std::fs::read("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.first().is_none_or(|first| b"|@".contains(first)) || pattern.contains(&b'/') {
        return false;
    }
    let (place, private) = (c"/proc".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: C strings that live as long as the program. What is mounted is seen by this process only, which is about
    // to end and opens no file there any more.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()) == 0
            && libc::mount(c"none".as_ptr(), place, c"tmpfs".as_ptr(), 0, std::ptr::null()) == 0
            && libc::chdir(place) == 0
    }
}

// --- seccomp ---

/// One notification: a thread waits in a system call. Layout of `struct seccomp_notif`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notification {
    /// Names this wait.
    pub(crate) id: u64,
    /// Thread id.
    pub(crate) thread: u32,
    flags: u32,
    /// System-call number.
    pub(crate) call: i32,
    arch: u32,
    instruction: u64,
    /// Arguments.
    pub(crate) args: [u64; 6],
}

impl Notification {
    /// From the words of the kernel's structure, as a helper passes it on: the helper's word, which the supervisor checks
    /// against the kernel's.
    pub(crate) fn from_words(words: [u64; 10]) -> Notification {
        let [id, thread_flags, call_arch, instruction, args @ ..] = words;
        Notification {
            id,
            thread: thread_flags as u32,
            flags: 0,
            call: call_arch as u32 as i32,
            arch: (call_arch >> 32) as u32,
            instruction,
            args,
        }
    }
}

#[repr(C)]
struct NotificationAnswer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct AddDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

const SECCOMP_IOCTL_NOTIF_RECV: u64 = 0xc050_2100;
const SECCOMP_IOCTL_NOTIF_SEND: u64 = 0xc018_2101;
const SECCOMP_IOCTL_NOTIF_ID_VALID: u64 = 0x4008_2102;
const SECCOMP_IOCTL_NOTIF_ADDFD: u64 = 0x4018_2103;
const SECCOMP_IOCTL_NOTIF_SET_FLAGS: u64 = 0x4008_2104;

fn ioctl(fd: RawFd, request: u64, argument: *mut libc::c_void) -> io::Result<i64> {
    // SAFETY: every caller in this module passes the structure that `request` names, alive across the call.
    check(i64::from(unsafe { libc::ioctl(fd, request, argument) }))
}

/// Installs a filter on this thread and returns its listener. Needs CAP_SYS_ADMIN (no_new_privs stays off).
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    const SECCOMP_FILTER_FLAG_NEW_LISTENER: u64 = 1 << 3;
    const SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV: u64 = 1 << 5;
    let flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let length = u16::try_from(program.len()).expect("the filter is shorter than 65536 instructions");
    let fprog = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: `fprog` names a valid program that the kernel only reads and copies.
    let fd =
        check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const fprog) })?;
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Asks the kernel to wake the listener on the CPU of the waiting thread, where it can (Linux 6.6).
pub(crate) fn prefer_same_cpu(listener: &OwnedFd) {
    // SAFETY: this request takes the flags by value.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, 1u64) };
}

/// Takes the next notification; waits when there is none.
pub(crate) fn receive_notification(listener: &OwnedFd) -> io::Result<Notification> {
    let mut notification = Notification::default();
    ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_RECV, (&raw mut notification).cast())?;
    Ok(notification)
}

fn answer(listener: &OwnedFd, mut answer: NotificationAnswer) {
    // The waiting thread may have been killed meanwhile; then there is nobody to tell.
    let _ = ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SEND, (&raw mut answer).cast());
}

/// Whether the thread of a notification still waits in its call. While it does, its number names no other thread: what was
/// found by that number before this call is true of that thread.
pub(crate) fn is_pending(listener: &OwnedFd, id: u64) -> bool {
    let mut id = id;
    ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()).is_ok()
}

/// Whether a descriptor becomes readable within `timeout_ms`.
pub(crate) fn is_readable(fd: &OwnedFd, timeout_ms: i32) -> bool {
    polled(fd, timeout_ms) & libc::POLLIN != 0
}

/// What a descriptor reports within `timeout_ms`, of POLLIN, POLLHUP and POLLERR.
pub(crate) fn polled(fd: &OwnedFd, timeout_ms: i32) -> i16 {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure.
    if unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } == 1 { poll.revents } else { 0 }
}

/// Lets the call proceed in the kernel.
pub(crate) fn proceed(listener: &OwnedFd, id: u64) {
    answer(listener, NotificationAnswer { id, value: 0, error: 0, flags: 1 });
}

/// Ends the call with a result: negative = error number.
pub(crate) fn conclude(listener: &OwnedFd, id: u64, value: i64) {
    let failed = (-4095..0).contains(&value);
    let (value, error) = if failed { (0, value as i32) } else { (value, 0) };
    answer(listener, NotificationAnswer { id, value, error, flags: 0 });
}

/// Gives the waiting thread a copy of `source`; the call returns its number there.
pub(crate) fn conclude_with_descriptor(listener: &OwnedFd, id: u64, source: RawFd) -> io::Result<()> {
    const SECCOMP_ADDFD_FLAG_SEND: u32 = 2;
    let mut argument =
        AddDescriptor { id, flags: SECCOMP_ADDFD_FLAG_SEND, source: source as u32, target: 0, target_flags: 0 };
    ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ADDFD, (&raw mut argument).cast()).map(|_| ())
}

// --- ptrace ---

fn ptrace(request: libc::c_uint, pid: Pid, address: u64, data: u64) -> io::Result<i64> {
    // SAFETY: the requests used here take numbers, or pointers to structures that the callers keep alive.
    check(unsafe { libc::ptrace(request, pid, address, data) })
}

/// The threads that this process traces.
pub(crate) fn own_tracees() -> Vec<Pid> {
    let own = u64::from(std::process::id());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid: &Pid| Status::of(pid).number("TracerPid") == Some(own)).collect()
}

/// Kills a process that this one traces, and takes note of its end.
pub(crate) fn kill_tracee(pid: Pid) {
    // SAFETY: takes numbers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    while let Ok(Some((_, change))) = wait(pid, true) {
        if change == Change::Gone {
            return;
        }
        let _ = resume(pid, 0);
    }
}

/// Becomes the tracer of a running thread without stopping it; it will stop at `execve` and when it creates a process.
pub(crate) fn seize(pid: Pid) -> io::Result<()> {
    let creations = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;
    ptrace(libc::PTRACE_SEIZE, pid, 0, (libc::PTRACE_O_TRACEEXEC | creations) as u64).map(|_| ())
}

/// Asks a seized thread to stop at the next chance.
pub(crate) fn interrupt(pid: Pid) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, pid, 0, 0).map(|_| ())
}

/// Lets a stopped thread go on.
pub(crate) fn resume(pid: Pid, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, pid, 0, signal as u64).map(|_| ())
}

/// Lets a stopped thread run one instruction.
pub(crate) fn step(pid: Pid) -> io::Result<()> {
    ptrace(libc::PTRACE_SINGLESTEP, pid, 0, 0).map(|_| ())
}

/// Stops being the tracer.
pub(crate) fn detach(pid: Pid, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, pid, 0, signal as u64).map(|_| ())
}

/// Changes what a traced thread stops at.
pub(crate) fn set_trace_options(pid: Pid, options: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as u64).map(|_| ())
}

/// Number that belongs to the current ptrace event (new process, former thread id).
pub(crate) fn event_message(pid: Pid) -> io::Result<Pid> {
    let mut message: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, pid, 0, &raw mut message as u64)?;
    Ok(message as Pid)
}

/// Registers of a stopped thread.
pub(crate) fn registers(pid: Pid) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers as u64)?;
    Ok(registers)
}

/// Sets the registers of a stopped thread.
pub(crate) fn set_registers(pid: Pid, registers: &libc::user_regs_struct) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, pid, 0, std::ptr::from_ref(registers) as u64).map(|_| ())
}

/// Replaces the signal mask of a stopped thread and returns the old one.
pub(crate) fn swap_signal_mask(pid: Pid, mask: u64) -> io::Result<u64> {
    const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
    const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
    let mut old = 0u64;
    ptrace(PTRACE_GETSIGMASK, pid, 8, &raw mut old as u64)?;
    ptrace(PTRACE_SETSIGMASK, pid, 8, &raw const mask as u64)?;
    Ok(old)
}

/// What a traced thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is gone.
    Gone,
    /// It stopped at a ptrace event (`PTRACE_EVENT_*`).
    Event(i32),
    /// It is about to receive a signal.
    Signal(i32),
}

/// Waits for one traced thread (or any, with -1); None with `block` off when nothing happened.
pub(crate) fn wait(pid: Pid, block: bool) -> io::Result<Option<(Pid, Change)>> {
    let mut status = 0;
    let options = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: `status` is valid for the call.
        let found = unsafe { libc::waitpid(pid, &raw mut status, options) };
        if found < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
            continue;
        }
        let found = check(i64::from(found))? as Pid;
        if found == 0 {
            return Ok(None);
        }
        let change = if !libc::WIFSTOPPED(status) {
            Change::Gone
        } else if status >> 16 != 0 {
            Change::Event(status >> 16)
        } else {
            Change::Signal(libc::WSTOPSIG(status))
        };
        return Ok(Some((found, change)));
    }
}

// --- processes ---

/// A descriptor for a process; readable once the process is gone.
pub(crate) fn open_process(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: a new descriptor nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// A copy of another process's descriptor.
pub(crate) fn descriptor_of(process: &OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })?;
    // SAFETY: a new descriptor nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Name and inode of an open file of a thread, as in `/proc/PID/maps`. Does not query the file system, which may be a FUSE
/// daemon of the program that never answers.
pub(crate) fn file_of(thread: Pid, number: RawFd) -> Option<(String, u64)> {
    let name = std::fs::read_link(format!("/proc/{thread}/fd/{number}")).ok()?;
    let info = std::fs::read_to_string(format!("/proc/{thread}/fdinfo/{number}")).ok()?;
    let inode = info.lines().find_map(|line| line.strip_prefix("ino:"))?.trim().parse().ok()?;
    Some((name.to_string_lossy().into_owned(), inode))
}

/// Whether a descriptor refers to the character device 1:5, `/dev/zero`.
pub(crate) fn is_dev_zero(file: &OwnedFd) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the path is empty, the buffer has the size of the result, and zero is a valid value of every field.
    let (result, found) = unsafe {
        let wanted = libc::STATX_TYPE;
        let result = libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, wanted, found.as_mut_ptr());
        (result, found.assume_init())
    };
    let character_device = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFCHR;
    result == 0 && character_device && (found.stx_rdev_major, found.stx_rdev_minor) == (1, 5)
}

/// Sends a signal to exactly the process that the descriptor names.
pub(crate) fn signal_process(process: &OwnedFd, signal: i32) {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: takes numbers and a null pointer. The process may be gone; that is what was wanted.
    let _ = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, none, 0) };
}

/// Whether a process has been killed, or has ended: its address space, once all that share it have been killed, is freed
/// now rather than when they come to it.
fn free_memory_of_killed(process: &OwnedFd) -> bool {
    // SAFETY: takes numbers.
    let freed = unsafe { libc::syscall(libc::SYS_process_mrelease, process.as_raw_fd(), 0) };
    freed == 0 || matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ESRCH | libc::EAGAIN))
}

/// How long those who were killed may take to give their memory back.
const GIVES_BACK_MS: i32 = 1000;

/// Waits for the end of a process if it has been killed, and has its memory freed.
pub(crate) fn await_killed(process: &OwnedFd) {
    if free_memory_of_killed(process) {
        is_readable(process, GIVES_BACK_MS);
    }
}

/// Do two tasks share one address space?
pub(crate) fn same_space(one: Pid, other: Pid) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: takes numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}

/// A process's soft and hard limit on a resource.
pub(crate) fn limits(resource: u32, pid: Pid) -> io::Result<libc::rlimit64> {
    let mut limits = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for the call.
    let answer = check(i64::from(unsafe { libc::prlimit64(pid, resource, std::ptr::null(), &raw mut limits) }));
    match answer {
        Ok(_) => Ok(limits),
        // Another user's process, without CAP_SYS_RESOURCE: its file may be read nevertheless.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => listed_limits(resource, pid),
        Err(error) => Err(error),
    }
}

fn listed_limits(resource: u32, pid: Pid) -> io::Result<libc::rlimit64> {
    let name = match resource {
        libc::RLIMIT_AS => "Max address space",
        libc::RLIMIT_DATA => "Max data size",
        libc::RLIMIT_MEMLOCK => "Max locked memory",
        libc::RLIMIT_NOFILE => "Max open files",
        libc::RLIMIT_NPROC => "Max processes",
        libc::RLIMIT_RTTIME => "Max realtime timeout",
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or(io::ErrorKind::NotFound)?;
    let number = |text: &str| text.parse().unwrap_or(libc::RLIM64_INFINITY);
    let mut numbers = line.split_whitespace().map(number);
    let (Some(rlim_cur), Some(rlim_max)) = (numbers.next(), numbers.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(libc::rlimit64 { rlim_cur, rlim_max })
}

/// A process's soft limit on a resource; None = unlimited, or gone.
pub(crate) fn limit(resource: u32, pid: Pid) -> Option<u64> {
    limits(resource, pid).ok().map(|limits| limits.rlim_cur).filter(|&limit| limit != libc::RLIM64_INFINITY)
}

/// Sets a process's limits on a resource.
pub(crate) fn set_limits(resource: u32, pid: Pid, limits: libc::rlimit64) -> io::Result<()> {
    // SAFETY: the structure is valid for the call.
    check(i64::from(unsafe { libc::prlimit64(pid, resource, &raw const limits, std::ptr::null_mut()) })).map(|_| ())
}

/// Lets this process have as many descriptors as its hard limit permits: each process of a run takes some.
pub(crate) fn allow_most_descriptors() {
    if let Ok(limits) = limits(libc::RLIMIT_NOFILE, 0) {
        let _ = set_limits(libc::RLIMIT_NOFILE, 0, libc::rlimit64 { rlim_cur: limits.rlim_max, ..limits });
    }
}

/// Descriptors that a process can be allowed at most.
pub(crate) fn descriptors_max() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/fs/nr_open").unwrap_or_default();
    text.trim().parse().unwrap_or(1 << 20)
}

/// Number of the capability to send signals to other users' processes.
pub(crate) const CAP_KILL: u32 = 5;
/// Number of the capability to lock memory beyond the limit.
pub(crate) const CAP_IPC_LOCK: u32 = 14;
/// Number of the capability to trace any process.
pub(crate) const CAP_SYS_PTRACE: u32 = 19;
/// Number of the capability that reading frame numbers needs.
pub(crate) const CAP_SYS_ADMIN: u32 = 21;

/// A process's `status` file; empty when it is gone.
pub(crate) struct Status(String);

impl Status {
    /// Of a process or thread; 0 = this process.
    pub(crate) fn of(pid: Pid) -> Status {
        let name = if pid == 0 { "self".to_owned() } else { pid.to_string() };
        Status(std::fs::read_to_string(format!("/proc/{name}/status")).unwrap_or_default())
    }

    /// The text behind a name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// A decimal number, in its file's unit.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.split_whitespace().next()?.parse().ok()
    }

    /// A set, as bits.
    pub(crate) fn bits(&self, name: &str) -> u64 {
        self.field(name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
    }

    /// The process id in its innermost namespace.
    pub(crate) fn innermost(&self) -> Option<Pid> {
        self.field("NSpid")?.split_whitespace().last()?.parse().ok()
    }
}

/// Whether a process has a capability in effect.
pub(crate) fn has_capability(pid: Pid, capability: u32) -> bool {
    Status::of(pid).bits("CapEff") >> capability & 1 == 1
}

/// Whether a process may do all that this one may: same users, groups and user namespace, no capability less.
pub(crate) fn is_as_privileged(pid: Pid) -> bool {
    let (own, other) = (Status::of(0), Status::of(pid));
    let same = |name| own.field(name).is_some() && own.field(name) == other.field(name);
    let covers = |name| own.bits(name) & !other.bits(name) == 0;
    let space = |name: &str| std::fs::read_link(format!("/proc/{name}/ns/user")).ok();
    ["Uid", "Gid", "Groups", "NoNewPrivs"].into_iter().all(same)
        && ["CapPrm", "CapEff", "CapBnd"].into_iter().all(covers)
        && space("self").is_some()
        && space("self") == space(&pid.to_string())
}

/// Whether a process holds the listener of a system-call filter.
pub(crate) fn holds_listener(pid: Pid) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let is_listener =
        |path: std::path::PathBuf| std::fs::read_link(path).is_ok_and(|to| to.ends_with("anon_inode:seccomp notify"));
    descriptors.flatten().any(|entry| is_listener(entry.path()))
}

/// What a process has done so far, and whether it waits for a device: a change means that it is at work.
pub(crate) fn activity(pid: Pid) -> (u64, bool) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
    // Fields 3, 14 and 15, of which the third is the first here.
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12), fields.first() == Some(&"D"))
}

/// Whether a process is on its way out: killed, exiting, or gone.
pub(crate) fn is_ending(pid: Pid) -> bool {
    const PF_EXITING: u64 = 4;
    const KILLED: u64 = 1 << (libc::SIGKILL - 1);
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, rest)) = text.rsplit_once(')') else { return true };
    // Field 9, of which the third is the first here.
    let flags: u64 = rest.split_whitespace().nth(6).and_then(|text| text.parse().ok()).unwrap_or(0);
    let status = Status::of(pid);
    flags & PF_EXITING != 0 || (status.bits("SigPnd") | status.bits("ShdPnd")) & KILLED != 0
}

/// Reads another process's memory; true when all of it could be read.
pub(crate) fn read_memory(pid: Pid, address: u64, into: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` names this slice; `remote` is only an address for the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    read == into.len() as isize
}

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
pub(crate) fn await_child(child: Pid, patience: Duration) {
    let ended = open_process(child).is_ok_and(|process| is_readable(&process, patience.as_millis() as i32));
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

/// Keeps a process (0 = this one) on one CPU; not being able to only makes steering of frames less exact.
pub(crate) fn pin_to_cpu(pid: Pid, cpu: u64) {
    let mut set = [0u64; 128];
    if let Some(word) = set.get_mut(cpu as usize / 64) {
        *word = 1 << (cpu % 64);
        set_affinity(pid, &set);
    }
}

/// CPUs a process may run on.
pub(crate) fn affinity(pid: Pid) -> [u64; 128] {
    let mut set = [0u64; 128];
    // SAFETY: the set is as large as said.
    unsafe { libc::sched_getaffinity(pid, size_of_val(&set), set.as_mut_ptr().cast()) };
    set
}

/// Sets the CPUs a process may run on.
pub(crate) fn set_affinity(pid: Pid, set: &[u64; 128]) {
    // SAFETY: the set is as large as said.
    unsafe { libc::sched_setaffinity(pid, size_of_val(set), set.as_ptr().cast()) };
}

/// Scheduling policy and priority of a process.
pub(crate) fn scheduling(pid: Pid) -> (i32, i32) {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is valid for the call.
    unsafe {
        libc::sched_getparam(pid, &raw mut parameters);
        (libc::sched_getscheduler(pid), parameters.sched_priority)
    }
}

/// Whether a process has a real-time policy.
pub(crate) fn is_realtime(pid: Pid) -> bool {
    matches!(scheduling(pid).0 & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// Sets scheduling policy and priority of a process.
pub(crate) fn set_scheduling(pid: Pid, (policy, priority): (i32, i32)) {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure is valid for the call.
    let set = |policy| unsafe { libc::sched_setscheduler(pid, policy, &raw const parameters) };
    // Where real-time priority came of a limit and not of CAP_SYS_NICE, the flag that came with it cannot be taken back.
    if set(policy) < 0 {
        set(policy | libc::SCHED_RESET_ON_FORK);
    }
}

/// Asks the kernel to let a process (0 = this one) run soon after it wakes, beside processes that compute: its slice is the
/// shortest there is. Its share stays the same. Before Linux 6.12 the kernel ignores this.
pub(crate) fn shorten_slice(pid: Pid) {
    const SHORTEST_NS: u64 = 100_000;
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes of the structure.
    let found = unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut attributes, size, 0) };
    if found < 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    (attributes.size, attributes.sched_runtime) = (size, SHORTEST_NS);
    // SAFETY: the kernel reads `size` bytes of the structure.
    unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &raw const attributes, 0) };
}

/// Puts a process (0 = this one) before all that are not real-time, or back among them. What it starts is not.
pub(crate) fn set_realtime(pid: Pid, on: bool) {
    set_scheduling(pid, if on { (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1) } else { (libc::SCHED_OTHER, 0) });
}

/// Processor time that the calling thread has used.
pub(crate) fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The CPU that a process runs on, or ran on last.
pub(crate) fn processor(pid: Pid) -> Option<u64> {
    // Field 39, of which the third is the first behind the name in brackets.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()?
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(36)?
        .parse()
        .ok()
}

/// The NUMA node of a CPU; 0 where the kernel names none.
pub(crate) fn node_of(cpu: u64) -> u64 {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).into_iter().flatten().flatten();
    let mut nodes = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok());
    nodes.next().unwrap_or(0)
}

/// NUMA nodes that this process may take memory from: what its cpuset and a binding policy leave.
pub(crate) fn allowed_nodes() -> Nodes {
    const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 1 << 2;
    let (mode, bound) = memory_policy(0);
    if mode == MPOL_BIND { bound } else { memory_policy(MPOL_F_MEMS_ALLOWED).1 }
}

const MPOL_DEFAULT: i32 = 0;
const MPOL_BIND: i32 = 2;
/// Linux 5.15.
const MPOL_PREFERRED_MANY: i32 = 5;

fn memory_policy(flags: libc::c_ulong) -> (i32, Nodes) {
    let (mut mode, mut nodes) = (MPOL_DEFAULT, Nodes::default());
    let no_address = 0;
    // SAFETY: both structures are valid for the call, and the mask has as many bits as said. A kernel without NUMA
    // refuses, and leaves them as they are.
    unsafe {
        let bits = 8 * size_of::<Nodes>();
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, nodes.as_mut_ptr(), bits, no_address, flags)
    };
    (mode, nodes)
}

fn set_memory_policy(mode: i32, nodes: &Nodes) {
    // The kernel takes the number of bits plus one.
    let bits = 8 * size_of::<Nodes>() + 1;
    // SAFETY: the mask is valid for the call and has as many bits as said. When the kernel refuses, frames come from
    // other nodes too, and are found to be of the wrong color.
    unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, nodes.as_ptr(), bits) };
}

/// Takes this process's memory from one NUMA node only, as long as it has any that could be freed.
pub(crate) fn take_memory_only_from(node: u32) {
    set_memory_policy(MPOL_BIND, &wire::one_node(node));
}

/// Lets the kernel take this process's memory from these NUMA nodes while they have any, unless a policy has been
/// chosen for it. Any policy at all also keeps the kernel from moving pages to the node that uses them most.
pub(crate) fn take_memory_first_from(nodes: &Nodes) {
    if memory_policy(0).0 == MPOL_DEFAULT {
        set_memory_policy(MPOL_PREFERRED_MANY, nodes);
    }
}

/// Maps `length` bytes of new memory, all present, without huge pages.
pub(crate) fn fresh_pages(length: u64) -> io::Result<u64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length as usize, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: advice about the mapping just made.
    let populated = unsafe {
        libc::madvise(start, length as usize, libc::MADV_NOHUGEPAGE);
        libc::madvise(start, length as usize, libc::MADV_POPULATE_WRITE)
    };
    if populated < 0 {
        let error = io::Error::last_os_error();
        unmap(start as u64, length);
        return Err(error);
    }
    Ok(start as u64)
}

/// The same with what `cpu` has to give; None when it has none, or does not let this process run within `patience`.
pub(crate) fn fresh_pages_on(cpu: u32, length: u64, patience: Duration) -> Option<u64> {
    let everywhere = affinity(0);
    let (names, name) = mpsc::channel();
    let (maps, mapped) = mpsc::channel();
    let looks = move || {
        // SAFETY: takes nothing.
        let thread = unsafe { libc::gettid() };
        let _ = names.send(thread);
        pin_to_cpu(thread, cpu.into());
        // Nobody waits any more: it was not needed.
        if let Err(SendError(Some(start))) = maps.send(fresh_pages(length).ok()) {
            unmap(start, length);
        }
    };
    std::thread::Builder::new().spawn(looks).ok()?;
    let thread = name.recv().ok()?;
    mapped.recv_timeout(patience).unwrap_or_else(|_| {
        // It ends where it may.
        set_affinity(thread, &everywhere);
        None
    })
}

/// Maps a block of 2 MiB of new memory, aligned, that the kernel has taken in one piece if it could, and splits it into
/// pages: each of them can be given up by itself from then on.
pub(crate) fn fresh_block() -> io::Result<u64> {
    const BLOCK: u64 = 2 << 20;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * BLOCK as usize, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let (start, block) = (start as u64, (start as u64).next_multiple_of(BLOCK));
    if start < block {
        unmap(start, block - start);
    }
    if block < start + BLOCK {
        unmap(block + BLOCK, start + BLOCK - block);
    }
    // SAFETY: advice about the mapping just made.
    let advise = |advice| unsafe { libc::madvise(block as *mut libc::c_void, BLOCK as usize, advice) };
    advise(libc::MADV_HUGEPAGE);
    let populated = advise(libc::MADV_POPULATE_WRITE);
    // What is left of it must not become huge again.
    advise(libc::MADV_NOHUGEPAGE);
    if populated < 0 {
        let error = io::Error::last_os_error();
        unmap(block, BLOCK);
        return Err(error);
    }
    for page in (block..block + BLOCK).step_by(4096) {
        // The kernel would not keep pages of zeroes when it splits.
        // SAFETY: inside the mapping just made, which nothing else uses.
        unsafe { (page as *mut u64).write_volatile(1) };
    }
    // Advice about a part of a huge page splits it; somebody may hold on to it for a moment.
    for _ in 0..3 {
        // SAFETY: as above.
        unsafe { libc::madvise(block as *mut libc::c_void, 4096, libc::MADV_COLD) };
    }
    Ok(block)
}

/// Unmaps memory that came from [`fresh_pages`].
fn unmap(start: u64, length: u64) {
    // SAFETY: the caller owns the range, and keeps no reference into it.
    unsafe { libc::munmap(start as *mut libc::c_void, length as usize) };
}

/// Gives the frames of memory from [`fresh_pages`] back to the kernel, on this CPU; the addresses stay mapped, because
/// unmapping single pages would split the mapping beyond the number the kernel allows.
pub(crate) fn give_up(start: u64, length: u64) {
    // SAFETY: the caller owns the range, and keeps no reference into it.
    unsafe { libc::madvise(start as *mut libc::c_void, length as usize, libc::MADV_DONTNEED) };
}

/// Leaves the memory in place until the kernel needs it: then these pages go before anything else does, and their contents
/// with them.
pub(crate) fn lend(start: u64, length: u64) {
    // SAFETY: the caller owns the range, and keeps no reference into it.
    unsafe { libc::madvise(start as *mut libc::c_void, length as usize, libc::MADV_FREE) };
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ScanRegion {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    returned: u64,
}

/// Ranges of present private pages (no file, not the shared zero page) between two addresses of the address space
/// behind a page map, however much of it is empty. Linux 6.7.
pub(crate) fn scan_private(page_map: &std::fs::File, start: u64, end: u64) -> io::Result<Vec<(u64, u64)>> {
    const PAGEMAP_SCAN: u64 = 0xc060_6610;
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const ZERO: u64 = 1 << 5;
    let mut found = Vec::new();
    let mut regions = vec![ScanRegion::default(); 1024];
    let mut from = start;
    while from < end {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start: from,
            end,
            regions: regions.as_mut_ptr() as u64,
            regions_length: regions.len() as u64,
            inverted: FILE | ZERO,
            mask: FILE | PRESENT | ZERO,
            returned: PRESENT,
            ..ScanArgument::default()
        };
        let count = ioctl(page_map.as_raw_fd(), PAGEMAP_SCAN, (&raw mut argument).cast())?;
        found.extend(regions[..count as usize].iter().map(|region| (region.start, region.end)));
        if argument.walk_end <= from {
            break;
        }
        from = argument.walk_end;
    }
    Ok(found)
}

// --- memory shared with a helper ---

/// An anonymous file.
pub(crate) fn memory_file(name: &str, length: u64) -> io::Result<OwnedFd> {
    let name = CString::new(name).expect("names given here have no zero byte");
    // SAFETY: `name` is a C string.
    let fd =
        check(i64::from(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) }))?;
    // SAFETY: a new descriptor nobody else owns.
    let file = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    // SAFETY: takes numbers.
    check(i64::from(unsafe { libc::ftruncate(file.as_raw_fd(), length as i64) }))?;
    Ok(file)
}

/// Makes the content of a memory file final.
pub(crate) fn seal(file: &OwnedFd) -> io::Result<()> {
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes numbers.
    check(i64::from(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })).map(|_| ())
}

/// A shared, writable mapping of a file, unmapped when dropped.
pub(crate) struct SharedMapping {
    start: *mut u8,
    length: usize,
}

impl SharedMapping {
    /// Maps the first `length` bytes.
    pub(crate) fn new(file: &OwnedFd, length: usize) -> io::Result<SharedMapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMapping { start: start.cast(), length })
    }

    /// Address `offset` bytes into the mapping, for a value of type `T`.
    ///
    /// Panics when it does not fit. The other side may write at any time: access is by volatile reads and writes.
    fn at<T>(&self, offset: usize) -> *mut T {
        assert!(offset + size_of::<T>() <= self.length && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: in bounds by the assertion.
        unsafe { self.start.add(offset).cast() }
    }

    /// Reads a plain value.
    pub(crate) fn get<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: `at` checked bounds and alignment; the values kept in control areas are plain integers.
        unsafe { self.at::<T>(offset).read_volatile() }
    }

    /// Writes a plain value.
    pub(crate) fn set<T: Copy>(&self, offset: usize, value: T) {
        // SAFETY: as for `get`.
        unsafe { self.at::<T>(offset).write_volatile(value) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of which no reference is ever given out.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

// --- sockets ---

/// Two connected sockets that keep message boundaries.
pub(crate) fn message_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut pair = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `pair` takes two descriptors.
    check(i64::from(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }))?;
    // SAFETY: two new descriptors nobody else owns.
    Ok(unsafe { (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])) })
}

/// Asks that messages carry the sender's process id.
pub(crate) fn want_credentials(socket: &OwnedFd) -> io::Result<()> {
    let on: i32 = 1;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PASSCRED);
    // SAFETY: `on` is an int, as the option wants.
    check(i64::from(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), 4) }))
        .map(|_| ())
}

/// Sends one message, with a descriptor if any. Does not wait.
pub(crate) fn send_message(socket: &OwnedFd, bytes: &[u8], descriptor: Option<BorrowedFd>) -> io::Result<()> {
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 3];
    // SAFETY: all-zero is a valid msghdr; the pointers set below stay valid across the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    if let Some(descriptor) = descriptor {
        control = [20, 1 << 32 | 1, descriptor.as_raw_fd() as u64];
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
    }
    let _ = &control;
    // SAFETY: as above.
    check(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) }
        as i64)
    .map(|_| ())
}

/// Sends one message; waits up to `patience_ms` for room.
pub(crate) fn send_message_in_time(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptor: Option<&OwnedFd>,
    patience_ms: i32,
) -> io::Result<()> {
    let send = || send_message(socket, bytes, descriptor.map(AsFd::as_fd));
    match send() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && patience_ms > 0 => {
            let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
            // SAFETY: one valid structure.
            unsafe { libc::poll(&raw mut poll, 1, patience_ms) };
            send()
        }
        sent => sent,
    }
}

/// A message with what came along.
pub(crate) struct Message {
    /// Bytes received; 0 = the other side is gone.
    pub(crate) length: usize,
    /// Descriptor passed.
    pub(crate) descriptor: Option<OwnedFd>,
    /// Process id of the sender, when asked for.
    pub(crate) sender: Option<Pid>,
}

/// Receives one message without descriptors: the kernel drops any that were sent. `block` off: an error of kind WouldBlock
/// when there is none.
pub(crate) fn receive_bytes(socket: &OwnedFd, bytes: &mut [u8], block: bool) -> io::Result<usize> {
    // The length is that of the message, also where the buffer is shorter.
    let flags = libc::MSG_TRUNC | if block { 0 } else { libc::MSG_DONTWAIT };
    loop {
        // SAFETY: the buffer is as long as said.
        let read = unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags) };
        match check(read as i64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return Ok(read? as usize),
        }
    }
}

/// Receives one message and the descriptor that may come along, from a process of memtint's own; `block` off: an error of
/// kind WouldBlock when there is none.
pub(crate) fn receive_message(socket: &OwnedFd, bytes: &mut [u8], block: bool) -> io::Result<Message> {
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 16];
    // SAFETY: all-zero is a valid msghdr; the pointers set below stay valid across the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_CMSG_CLOEXEC | if block { 0 } else { libc::MSG_DONTWAIT };
    let length = loop {
        // SAFETY: as above.
        let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        match check(read as i64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read? as usize,
        }
    };
    let mut found = Message { length, descriptor: None, sender: None };
    // SAFETY: the kernel filled the control buffer with well-formed headers; the macros walk them.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                found.descriptor = Some(OwnedFd::from_raw_fd(data.cast::<RawFd>().read_unaligned()));
            } else if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_CREDENTIALS {
                found.sender = Some(data.cast::<libc::ucred>().read_unaligned().pid);
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(found)
}

// --- waiting for many things ---

/// An epoll instance whose entries carry numbers.
pub(crate) struct Poller(OwnedFd);

impl Poller {
    /// An empty one.
    pub(crate) fn new() -> io::Result<Poller> {
        // SAFETY: takes numbers.
        let fd = check(i64::from(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }))?;
        // SAFETY: a new descriptor nobody else owns.
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

    /// Reports `fd` no longer.
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

/// Blocks the signals in this thread and returns a descriptor that is readable when one is pending, and what was blocked
/// before.
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
    // SAFETY: a set that a call has filled. It cannot fail with this word.
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
