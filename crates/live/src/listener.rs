//! The listener of the system-call filter.

use crate::inject;
use crate::sys::{self, Notification, Pid};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// The listener of the filter, with notifications that came while waiting for another.
pub(crate) struct Listener {
    fd: OwnedFd,
    /// Taken by somebody who waited for another.
    pub(crate) early: VecDeque<Notification>,
}

impl Listener {
    /// Takes charge of the descriptor.
    pub(crate) fn new(fd: OwnedFd) -> Listener {
        Listener { fd, early: VecDeque::new() }
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The next notification, if there is one now.
    ///
    /// Asked first: taking one would wait, and the one that was announced may have been taken since, or its thread
    /// killed.
    pub(crate) fn take(&self) -> Option<Notification> {
        if !sys::is_readable(&self.fd, 0) {
            return None;
        }
        sys::receive_notification(&self.fd).ok()
    }

    /// The question of a thread under injection, if it comes within a moment; others are kept for later.
    pub(crate) fn question_of(&mut self, pid: Pid) -> Option<Notification> {
        const MOMENT_MS: i32 = 20;
        while sys::is_readable(&self.fd, MOMENT_MS) {
            match sys::receive_notification(&self.fd) {
                Ok(found) if found.thread as Pid == pid && inject::is_question(&found) => return Some(found),
                Ok(found) => self.early.push_back(found),
                Err(_) => return None,
            }
        }
        None
    }
}
