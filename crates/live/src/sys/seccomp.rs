//! System-call filters: a thread waits in a call, and its listener answers.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::{check, ioctl};

/// One notification: a thread waits in a system call. Layout of `struct seccomp_notif`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notification {
    /// Identifies this wait.
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
    /// From the words of the kernel's structure, as passed on by a helper: the supervisor must verify them with the kernel.
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
    // SAFETY: the call returned a new descriptor without another owner.
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
    // The waiting thread may have been killed meanwhile: then the answer has no receiver.
    let _ = ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SEND, (&raw mut answer).cast());
}

/// Whether the thread of a notification still waits in its call. While it does, its number is not reused: facts found by that number before
/// this call hold for that thread.
pub(crate) fn is_pending(listener: &OwnedFd, id: u64) -> bool {
    let mut id = id;
    ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()).is_ok()
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

/// Gives the waiting thread a copy of `source`; the call returns the descriptor's number in the thread.
pub(crate) fn conclude_with_descriptor(listener: &OwnedFd, id: u64, source: RawFd) -> io::Result<()> {
    const SECCOMP_ADDFD_FLAG_SEND: u32 = 2;
    let mut argument =
        AddDescriptor { id, flags: SECCOMP_ADDFD_FLAG_SEND, source: source as u32, target: 0, target_flags: 0 };
    ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ADDFD, (&raw mut argument).cast()).map(|_| ())
}
