//! The listener of the system-call filter.
//!
//! A stopped call waits here for its answer. Until it is *taken*, a signal ends the wait, and if its handler was installed without
//! SA_RESTART the call returns EINTR: even a `fork` or `mmap`, for which programs do not expect it. Once it is taken, only a fatal signal
//! ends the wait. So a mostly idle thread takes calls at once, at real-time priority if allowed, and the supervisor serves them later.

use crate::credit::Urgency;
use crate::inject;
use crate::sys::{self, Notification, Pid};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The listener of the filter, and the notifications that have been taken but not served.
pub(crate) struct Listener {
    shared: Arc<Shared>,
    /// Readable while notifications wait to be served.
    bell: UnixStream,
}

struct Shared {
    fd: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
    /// Rings the bell.
    rope: UnixStream,
}

struct State {
    taken: VecDeque<Notification>,
    turn: Turn,
}

/// The side that takes notifications.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The thread.
    Thread,
    /// A helper, to which the descriptor is lent.
    Helper,
    /// Neither, from now on.
    Over,
}

impl Listener {
    /// Takes charge of the descriptor, and begins to take notifications.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Listener> {
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let state = Mutex::new(State { taken: VecDeque::new(), turn: Turn::Thread });
        let shared = Arc::new(Shared { fd, state, changed: Condvar::new(), rope });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().spawn(move || of_thread.take())?;
        Ok(Listener { shared, bell })
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.shared.fd
    }

    /// Readable while notifications wait to be served.
    pub(crate) fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// The notifications taken so far.
    pub(crate) fn taken(&self) -> VecDeque<Notification> {
        let mut state = self.shared.lock();
        while matches!((&self.bell).read(&mut [0; 64]), Ok(rung) if rung > 0) {}
        std::mem::take(&mut state.taken)
    }

    /// Stores a notification that was taken elsewhere.
    pub(crate) fn keep(&self, notification: Notification) {
        self.shared.push(&mut self.shared.lock(), notification);
    }

    /// From now on only a helper takes notifications; refused while some wait to be served.
    pub(crate) fn lend(&self) -> bool {
        let mut state = self.shared.lock();
        let may = state.taken.is_empty();
        if may {
            state.turn = Turn::Helper;
        }
        may
    }

    /// Ends the helper's turn: it has closed the descriptor, or has ended.
    pub(crate) fn take_back(&self) {
        self.shared.lock().turn = Turn::Thread;
        self.shared.changed.notify_all();
    }

    /// The request of a thread under injection, if it comes within a moment.
    pub(crate) fn question_of(&self, pid: Pid) -> Option<Notification> {
        const MOMENT: Duration = Duration::from_millis(20);
        let until = Instant::now() + MOMENT;
        let mut state = self.shared.lock();
        loop {
            // A previous thread with the same id may have sent a request, and ended.
            let asks = |found: &Notification| {
                found.thread as Pid == pid && inject::is_question(found) && sys::is_pending(&self.shared.fd, found.id)
            };
            if let Some(place) = state.taken.iter().position(asks) {
                return state.taken.remove(place);
            }
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(|poison| poison.into_inner()).0;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.lock().turn = Turn::Over;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn push(&self, state: &mut State, notification: Notification) {
        state.taken.push_back(notification);
        // When it is full, the bell rings anyway.
        let _ = (&self.rope).write(&[0]);
        self.changed.notify_all();
    }

    /// Waits until it is the thread's turn; false when there is nothing more to take.
    fn is_my_turn(&self) -> bool {
        let mut state = self.lock();
        while state.turn == Turn::Helper {
            state = self.changed.wait(state).unwrap_or_else(|poison| poison.into_inner());
        }
        state.turn == Turn::Thread
    }

    /// Body of the thread: takes notifications whenever it is its turn, until no process has the filter. Each step is short, regardless of
    /// the program.
    fn take(&self) {
        const LOOK_MS: i32 = 1000;
        let mut urgency = Urgency::new();
        while self.is_my_turn() {
            urgency.keep();
            let found = sys::polled(&self.fd, LOOK_MS);
            if found & libc::POLLIN == 0 {
                if found & (libc::POLLHUP | libc::POLLERR) != 0 {
                    return;
                }
                continue;
            }
            // The lock is held from the second look on, so that there is one reader: a helper that waits for a call serves nothing.
            let mut state = self.lock();
            if state.turn == Turn::Thread
                && sys::is_readable(&self.fd, 0)
                && let Ok(found) = sys::receive_notification(&self.fd)
            {
                self.push(&mut state, found);
            }
        }
    }
}
