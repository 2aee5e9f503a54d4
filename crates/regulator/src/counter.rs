//! A performance counter of one group on one CPU.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::RegulatorError;
use crate::sys::{self, EventCode, FAR, Reading, Ring};

/// The counter is in the error state: it could not be scheduled, and counts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterError;

/// A pinned counter.
#[derive(Debug)]
pub(crate) struct Counter {
    // Unmapped before the descriptor is closed.
    ring: Ring,
    fd: OwnedFd,
    last: Reading,
    multiplexed: bool,
}

impl Counter {
    /// Opens and starts a counter on a CPU, from a thread that runs on this CPU.
    pub(crate) fn open(code: EventCode, cpu: usize, cgroup: Option<BorrowedFd<'_>>) -> Result<Counter, RegulatorError> {
        let failed = |cause| RegulatorError::Counter { cpu, cause };
        let fd = sys::open_counter(code, cpu, cgroup).map_err(failed)?;
        let ring = Ring::map(fd.as_fd()).map_err(failed)?;
        let counter = Counter { ring, fd, last: Reading::default(), multiplexed: false };
        sys::enable_counter(counter.fd.as_fd(), true).map_err(failed)?;
        Ok(counter)
    }

    /// Sets the overflow `events` from now; 0 counts as 1.
    pub(crate) fn arm(&self, events: u64) -> std::io::Result<()> {
        // A running software counter takes a new period only when it is started again.
        sys::enable_counter(self.fd.as_fd(), false)?;
        sys::set_counter_period(self.fd.as_fd(), events.max(1))?;
        sys::enable_counter(self.fd.as_fd(), true)
    }

    /// Counts on without overflows.
    pub(crate) fn disarm(&self) -> std::io::Result<()> {
        self.arm(FAR)
    }

    /// Events since it was opened.
    pub(crate) fn read(&mut self) -> Result<u64, CounterError> {
        let reading = sys::read_counter(self.fd.as_fd()).ok().flatten().ok_or(CounterError)?;
        let before = std::mem::replace(&mut self.last, reading);
        self.multiplexed |= reading.running_ns - before.running_ns < reading.enabled_ns - before.enabled_ns;
        Ok(reading.events)
    }

    /// Whether it has counted part of the time only, since this was asked last.
    pub(crate) fn take_multiplexed(&mut self) -> bool {
        std::mem::take(&mut self.multiplexed)
    }

    /// Discards the records of overflows; whether the kernel has suspended them since.
    pub(crate) fn drain(&mut self) -> bool {
        self.ring.drain()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
