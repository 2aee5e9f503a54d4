//! A performance counter of one group on one CPU.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::RegulatorError;
use crate::sensor::Sensor;
use crate::sys::{self, EventCode, FAR, Reading, Ring};

/// The counter is in the error state: it could not be scheduled, and counts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterError;

/// Some processors refuse periods below 32.
const LEAST_TRIES: u32 = 10;
/// Of linux/perf_event.h.
const PERF_TYPE_SOFTWARE: u32 = 1;

fn failure(code: EventCode, cpu: usize, is_of_group: bool, cause: std::io::Error) -> RegulatorError {
    match cause.raw_os_error() {
        // Else there is no such event.
        Some(libc::ENOENT) if is_of_group && sys::open_counter(code, cpu, None, FAR).is_ok() => {
            RegulatorError::NoController { cpu }
        }
        _ => RegulatorError::Counter { cpu, cause },
    }
}

/// Checks that a CPU has a counter for a sensor that this process may open.
///
/// # Errors
/// [`RegulatorError::Counter`].
pub fn check_counter(sensor: &Sensor, cpu: usize) -> Result<(), RegulatorError> {
    let opened = sys::open_counter(sensor.code(), cpu, None, FAR);
    opened.map(drop).map_err(|cause| failure(sensor.code(), cpu, false, cause))
}

/// A pinned counter.
#[derive(Debug)]
pub(crate) struct Counter {
    // Unmapped before the descriptor is closed.
    ring: Ring,
    fd: OwnedFd,
    /// Only while tasks of its group run.
    is_of_group: bool,
    /// Counted by the kernel itself: nothing goes uncounted when overflows are suspended.
    is_exact: bool,
    /// The least period that the hardware takes.
    least: u64,
    last: Reading,
    multiplexed: bool,
}

impl Counter {
    /// Opens and starts a counter on a CPU, from a thread that runs on this CPU.
    pub(crate) fn open(code: EventCode, cpu: usize, cgroup: Option<BorrowedFd<'_>>) -> Result<Counter, RegulatorError> {
        let failed = |cause| failure(code, cpu, cgroup.is_some(), cause);
        let fd = sys::open_counter(code, cpu, cgroup, FAR).map_err(failed)?;
        let ring = Ring::map(fd.as_fd()).map_err(failed)?;
        let is_exact = code.kind == PERF_TYPE_SOFTWARE;
        let least = (0..LEAST_TRIES)
            .map(|power| 1 << power)
            .find(|&events| sys::set_counter_period(fd.as_fd(), events).is_ok());
        let Some(least) = least else { return Err(failed(std::io::Error::last_os_error())) };
        let (is_of_group, last) = (cgroup.is_some(), Reading::default());
        let counter = Counter { ring, fd, is_of_group, is_exact, least, last, multiplexed: false };
        counter.disarm().and_then(|()| sys::enable_counter(counter.fd.as_fd(), true)).map_err(failed)?;
        Ok(counter)
    }

    /// Opens a counter that overflows whenever it has counted `every` events, or the least number beyond that the hardware takes; it
    /// counts when it is enabled.
    pub(crate) fn sampling(
        code: EventCode,
        cpu: usize,
        cgroup: Option<BorrowedFd<'_>>,
        every: u64,
    ) -> Result<Counter, RegulatorError> {
        let failed = |cause| failure(code, cpu, cgroup.is_some(), cause);
        let open = |power| sys::open_counter(code, cpu, cgroup, every << power).map(|fd| (fd, every << power));
        let refused = |opened: &std::io::Result<_>| {
            opened.as_ref().is_err_and(|error: &std::io::Error| error.raw_os_error() == Some(libc::EINVAL))
        };
        let opened = (0..LEAST_TRIES).map(open).find(|opened| !refused(opened)).unwrap_or_else(|| open(0));
        let (fd, period) = opened.map_err(failed)?;
        let ring = Ring::map(fd.as_fd()).map_err(failed)?;
        let is_exact = code.kind == PERF_TYPE_SOFTWARE;
        let (is_of_group, least, last) = (cgroup.is_some(), period - every + 1, Reading::default());
        Ok(Counter { ring, fd, is_of_group, is_exact, least, last, multiplexed: false })
    }

    /// Has the next overflow of a running clock come `every` nanoseconds from now, and the others as far apart.
    pub(crate) fn restart(&self, every: u64) -> std::io::Result<()> {
        sys::set_counter_period(self.fd.as_fd(), every)
    }

    /// Lets it count.
    pub(crate) fn enable(&self) -> std::io::Result<()> {
        sys::enable_counter(self.fd.as_fd(), true)
    }

    /// Events that a grant may be exceeded by, since the hardware takes no smaller period.
    pub(crate) fn coarseness(&self) -> u64 {
        self.least - 1
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Sets the overflow `events` from now; 0 counts as 1. From the regulator thread of its CPU.
    pub(crate) fn arm(&self, events: u64) -> std::io::Result<()> {
        let (fd, events) = (self.fd.as_fd(), events.max(self.least));
        // The counter of a group stands still while the regulator thread runs, which belongs to none.
        if self.is_of_group {
            return sys::set_counter_period(fd, events);
        }
        // A running software counter takes a new period only when it is started again.
        sys::enable_counter(fd, false)?;
        sys::set_counter_period(fd, events)?;
        sys::enable_counter(fd, true)
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
