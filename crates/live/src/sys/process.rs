//! Other processes: their descriptors, limits, capabilities and memory.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::{Pid, check, is_readable};

/// A descriptor for a process; readable once the process is gone.
pub(crate) fn open_process(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// A copy of another process's descriptor.
pub(crate) fn descriptor_of(process: &OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })?;
    // SAFETY: a new descriptor without another owner.
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
    // SAFETY: takes numbers and a null pointer. The process may be gone already, which is fine.
    let _ = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, none, 0) };
}

/// Whether a process has been killed, or has ended. If all processes that share its address space have been killed, frees it now instead of
/// waiting for them.
fn free_memory_of_killed(process: &OwnedFd) -> bool {
    // SAFETY: takes numbers.
    let freed = unsafe { libc::syscall(libc::SYS_process_mrelease, process.as_raw_fd(), 0) };
    freed == 0 || matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ESRCH | libc::EAGAIN))
}

/// How long a killed process may take to return its memory.
const GIVES_BACK_MS: i32 = 1000;

/// Waits for the end of a process if it has been killed, and frees its memory.
pub(crate) fn await_killed(process: &OwnedFd) {
    if free_memory_of_killed(process) {
        is_readable(process, GIVES_BACK_MS);
    }
}

/// Whether two tasks share one address space.
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
        // Another user's process, without CAP_SYS_RESOURCE: its file may still be readable.
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

/// A process's soft limit on a resource; `None` if unlimited, or if the process is gone.
pub(crate) fn limit(resource: u32, pid: Pid) -> Option<u64> {
    limits(resource, pid).ok().map(|limits| limits.rlim_cur).filter(|&limit| limit != libc::RLIM64_INFINITY)
}

/// Sets a process's limits on a resource.
pub(crate) fn set_limits(resource: u32, pid: Pid, limits: libc::rlimit64) -> io::Result<()> {
    // SAFETY: the structure is valid for the call.
    check(i64::from(unsafe { libc::prlimit64(pid, resource, &raw const limits, std::ptr::null_mut()) })).map(|_| ())
}

/// Raises this process's limit on descriptors to its hard limit: each process of a run takes some.
pub(crate) fn allow_most_descriptors() {
    if let Ok(limits) = limits(libc::RLIMIT_NOFILE, 0) {
        let _ = set_limits(libc::RLIMIT_NOFILE, 0, libc::rlimit64 { rlim_cur: limits.rlim_max, ..limits });
    }
}

/// Most descriptors that a process can be allowed.
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
/// Number of the capability to read frame numbers.
pub(crate) const CAP_SYS_ADMIN: u32 = 21;

/// A process's `status` file; empty when it is gone.
pub(crate) struct Status(String);

impl Status {
    /// Of a process or thread; 0 = this process.
    pub(crate) fn of(pid: Pid) -> Status {
        let name = if pid == 0 { "self".to_owned() } else { pid.to_string() };
        Status(std::fs::read_to_string(format!("/proc/{name}/status")).unwrap_or_default())
    }

    /// The text after a name.
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

/// Whether a process has at least the privileges of this one: the same users, groups and user namespace, and all its
/// capabilities.
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

/// Work done by a process so far, and whether it waits for a device: a change means that it is active.
pub(crate) fn activity(pid: Pid) -> (u64, bool) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
    // Fields 3, 14 and 15, of which the third is the first here.
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12), fields.first() == Some(&"D"))
}

/// Whether a process is ending: killed, exiting, or gone.
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
