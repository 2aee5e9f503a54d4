//! Freezes and thaws a group from a separate thread.
//!
//! A write to `cgroup.freeze` takes a mutex of the kernel, so it may sleep for milliseconds. A regulator thread that slept would let its
//! group run: it occupies the CPU instead, until this thread has written. Both run on the same CPU, this thread with higher priority:
//! it preempts the regulator thread at once, without an interrupt to another CPU, and mostly has written after a few microseconds.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cgroup::{Cgroup, write_state};
use crate::error::RegulatorError;
use crate::sys;

/// A request: its number, and whether the group is to be frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request(u64);

impl Request {
    fn next(self, frozen: bool) -> Request {
        Request(((self.0 >> 1) + 1) << 1 | u64::from(frozen))
    }

    fn is_frozen(self) -> bool {
        self.0 & 1 == 1
    }
}

/// State shared by regulator threads and the freezer.
#[derive(Debug, Default)]
struct Words {
    wanted: AtomicU64,
    /// The last request that was carried out.
    done: AtomicU64,
    failures: AtomicU64,
    slowest_ns: AtomicU64,
    /// Processor time of the thread.
    time_ns: AtomicU64,
    stop: AtomicBool,
}

/// A group, its tasks, and the thread that stops them. The group is frozen while any of its CPUs is throttled.
#[derive(Debug)]
pub(crate) struct Freezer {
    words: Arc<Words>,
    /// CPUs of the group that are throttled. Held for a few instructions, by regulator threads only.
    throttled: Mutex<u32>,
    thread: Option<JoinHandle<()>>,
}

impl Freezer {
    /// Starts the thread, on the CPUs of the group, and waits until it has thawed the group for the first time.
    pub(crate) fn start(group: &Cgroup, cpus: &[usize], priority: i32) -> Result<Freezer, RegulatorError> {
        let failed = |cause| RegulatorError::Cgroup { path: group.path().join("cgroup.freeze"), cause };
        let file = group.freezer_file().map_err(failed)?;
        write_state(&file, false).map_err(failed)?;
        let words = Arc::new(Words::default());
        let (ready, started) = std::sync::mpsc::channel();
        let (shared, cpus) = (Arc::clone(&words), cpus.to_vec());
        let thread = std::thread::Builder::new()
            .name("freezer".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let prepared = sys::pin(&cpus).and_then(|()| sys::set_fifo(priority));
                let failed = prepared.is_err();
                // The starter waits for it.
                let _ = ready.send(prepared);
                if !failed {
                    serve(&shared, &file);
                }
            })
            .map_err(RegulatorError::Thread)?;
        started
            .recv()
            .map_err(|_| RegulatorError::Thread(std::io::Error::other("the thread has ended")))?
            .map_err(RegulatorError::Priority)?;
        Ok(Freezer { words, throttled: Mutex::new(0), thread: Some(thread) })
    }

    /// Another CPU of the group is throttled. Returns the request that stops the group.
    pub(crate) fn hold(&self) -> Request {
        self.change(|throttled| {
            *throttled += 1;
            (*throttled == 1).then_some(true)
        })
    }

    /// A CPU of the group is throttled no longer.
    pub(crate) fn release(&self) {
        self.change(|throttled| {
            *throttled -= 1;
            (*throttled == 0).then_some(false)
        });
    }

    /// Changes the number of throttled CPUs, and requests the resulting state. Returns the request in force.
    fn change(&self, change: impl FnOnce(&mut u32) -> Option<bool>) -> Request {
        // A regulator thread never sleeps: its CPU would be free for the group.
        let mut throttled = loop {
            match self.throttled.try_lock() {
                Ok(throttled) => break throttled,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        };
        let in_force = Request(self.words.wanted.load(Ordering::Relaxed));
        let Some(frozen) = change(&mut throttled) else { return in_force };
        let next = in_force.next(frozen);
        self.words.wanted.store(next.0, Ordering::Release);
        // The thread may preempt this one at once.
        drop(throttled);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        next
    }

    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Whether a request has been carried out.
    pub(crate) fn has_done(&self, request: Request) -> bool {
        self.words.done.load(Ordering::Acquire) >= request.0
    }

    /// Writes that have failed.
    pub(crate) fn failures(&self) -> u64 {
        self.words.failures.load(Ordering::Relaxed)
    }

    /// Cost of the writes.
    pub(crate) fn cost(&self) -> FreezerCost {
        let of = |word: &AtomicU64| Duration::from_nanos(word.load(Ordering::Relaxed));
        FreezerCost { slowest: of(&self.words.slowest_ns), processor: of(&self.words.time_ns) }
    }
}

/// Cost of the writes to a group's `cgroup.freeze`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreezerCost {
    /// The longest one, from begin to end.
    pub slowest: Duration,
    /// Processor time of all, with that of waking and sleeping.
    pub processor: Duration,
}

/// Stack of a thread, which is locked in memory.
pub(crate) const STACK_BYTES: usize = 128 << 10;

fn serve(words: &Words, file: &File) {
    let mut done = Request(0);
    while !words.stop.load(Ordering::Acquire) {
        let wanted = Request(words.wanted.load(Ordering::Acquire));
        if wanted == done {
            std::thread::park();
            continue;
        }
        let begin = sys::now_ns();
        match write_state(file, wanted.is_frozen()) {
            Ok(()) => {
                done = wanted;
                words.done.store(done.0, Ordering::Release);
            }
            // The group was removed, with its tasks.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
            // The request is not done, so the regulator thread goes on occupying its CPU.
            Err(_) => {
                words.failures.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        words.slowest_ns.fetch_max(sys::now_ns() - begin, Ordering::Relaxed);
        words.time_ns.store(sys::thread_time_ns(), Ordering::Relaxed);
    }
    // Thaw a group that is still frozen; an error here means that the group was removed.
    let _ = write_state(file, false);
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.words.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}
