//! Sockets that keep message boundaries.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::{Pid, check};

/// Two connected sockets that keep message boundaries.
pub(crate) fn message_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut pair = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `pair` takes two descriptors.
    check(i64::from(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }))?;
    // SAFETY: two new descriptors without another owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])) })
}

/// Requests that messages carry the sender's process id.
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

/// Sends one message; waits up to `timeout_ms` for room.
pub(crate) fn send_message_in_time(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptor: Option<&OwnedFd>,
    timeout_ms: i32,
) -> io::Result<()> {
    let send = || send_message(socket, bytes, descriptor.map(AsFd::as_fd));
    match send() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && timeout_ms > 0 => {
            let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
            // SAFETY: one valid structure.
            unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
            send()
        }
        sent => sent,
    }
}

/// A message and its ancillary data.
pub(crate) struct Message {
    /// Bytes received; 0 = the other side is gone.
    pub(crate) length: usize,
    /// Descriptor passed.
    pub(crate) descriptor: Option<OwnedFd>,
    /// Process id of the sender, when asked for.
    pub(crate) sender: Option<Pid>,
}

/// Receives one message without descriptors: the kernel drops any that were sent. With `block` off: an error of kind WouldBlock if there is
/// none.
pub(crate) fn receive_bytes(socket: &OwnedFd, bytes: &mut [u8], block: bool) -> io::Result<usize> {
    // The result is the length of the message, even if the buffer is shorter.
    let flags = libc::MSG_TRUNC | if block { 0 } else { libc::MSG_DONTWAIT };
    loop {
        // SAFETY: the buffer has this length.
        let read = unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags) };
        match check(read as i64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return Ok(read? as usize),
        }
    }
}

/// Receives one message and an attached descriptor from a process of memtint; with `block` off: an error of kind WouldBlock if there is
/// none.
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
