//! The regulator thread of a CPU.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::counter::CounterError;
use crate::promise::Cause;
use crate::seat::{Common, Seat};
use crate::sys;

/// A pause of the occupying thread that means that something else ran, in nanoseconds: well above an interrupt handler.
pub(crate) const PAUSE_NS: u64 = 200_000;

/// Processor time of a regulator thread.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) total_ns: AtomicU64,
    /// From waking up, because of a budget that is used up, until the group is frozen or the period is over.
    pub(crate) occupied_ns: AtomicU64,
    /// How many times it has read all counters.
    pub(crate) looks: AtomicU64,
    /// When the last of these looks began: sums have all periods that had ended by then.
    pub(crate) looked_ns: AtomicU64,
}

/// The regulator of one CPU, on a thread that is pinned there.
#[derive(Debug)]
pub(crate) struct CpuRegulator {
    pub(crate) cpu: usize,
    /// Index of its bell.
    pub(crate) bell: usize,
    pub(crate) seats: Vec<Seat>,
    pub(crate) common: Arc<Common>,
    pub(crate) work: Arc<Work>,
    /// Fires when a period begins. It is armed once: arming takes microseconds on a virtual machine.
    timer: OwnedFd,
    period: u64,
    /// Suspended time at the last period start.
    suspended_ns: u64,
}

impl CpuRegulator {
    pub(crate) fn new(
        cpu: usize,
        bell: usize,
        seats: Vec<Seat>,
        common: Arc<Common>,
        work: Arc<Work>,
        timer: OwnedFd,
    ) -> CpuRegulator {
        CpuRegulator { cpu, bell, seats, common, work, timer, period: 0, suspended_ns: suspended_ns() }
    }

    /// Regulates until `stop` is set. A counter that has failed, or a CPU that is offline, ends the regulation of all
    /// CPUs: the last incident has the cause.
    pub(crate) fn run(mut self) {
        self.seats.iter_mut().for_each(Seat::begin);
        if let Err(CounterError) = self.regulate() {
            self.end(Cause::CounterError);
        }
        self.work.total_ns.store(sys::thread_time_ns(), Ordering::Relaxed);
    }

    fn end(&self, cause: Cause) {
        self.seats.iter().for_each(|seat| seat.report_cause(cause));
    }

    fn regulate(&mut self) -> Result<(), CounterError> {
        sys::arm_timer(self.timer.as_fd(), self.boundary_ns(), self.common.period_ns);
        let mut fds = self.fds();
        while !self.common.stop.load(Ordering::Acquire) {
            // Check everything, whether interrupted or not.
            let _ = sys::wait_readable(&mut fds, None);
            if fds[0].revents != 0 {
                sys::clear(self.timer.as_fd());
            }
            if fds[1].revents != 0 {
                sys::clear(self.common.bells[self.bell].fd.as_fd());
            }
            if sys::current_cpu() != self.cpu {
                self.end(Cause::CpuOffline);
                return Ok(());
            }
            let begin_ns = sys::now_ns();
            self.step()?;
            self.occupy(begin_ns)?;
            self.work.total_ns.store(sys::thread_time_ns(), Ordering::Relaxed);
            self.work.looked_ns.store(begin_ns, Ordering::Release);
            self.work.looks.fetch_add(1, Ordering::Release);
        }
        self.seats.iter_mut().try_for_each(Seat::refresh)?;
        self.seats.iter_mut().for_each(Seat::finish);
        Ok(())
    }

    fn fds(&self) -> Vec<libc::pollfd> {
        let own = [self.timer.as_fd(), self.common.bells[self.bell].fd.as_fd()];
        let fds = own.into_iter().chain(self.seats.iter().map(|seat| seat.counter().fd()));
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect()
    }

    /// When the current period ends.
    fn boundary_ns(&self) -> u64 {
        self.common.start_ns.load(Ordering::Relaxed) + self.period * self.common.period_ns
    }

    /// Carries out due actions.
    fn step(&mut self) -> Result<(), CounterError> {
        self.seats.iter_mut().try_for_each(Seat::refresh)?;
        let now_ns = sys::now_ns();
        if now_ns >= self.boundary_ns() {
            self.begin_period(now_ns);
        }
        if self.common.bells[self.bell].rung.swap(false, Ordering::AcqRel) {
            self.seats.iter_mut().for_each(Seat::look);
        }
        self.seats.iter_mut().for_each(Seat::check);
        self.seats.iter_mut().try_for_each(Seat::settle)
    }

    fn begin_period(&mut self, now_ns: u64) {
        let start_ns = self.common.start_ns.load(Ordering::Relaxed);
        let period = now_ns.saturating_sub(start_ns) / self.common.period_ns + 1;
        let (first, late) = (self.period == 0, self.period > 0 && period > self.period + 1);
        self.period = period;
        let suspended_ns = suspended_ns();
        // Both clocks are read one after the other.
        if suspended_ns > self.suspended_ns + 1_000_000 {
            self.seats.iter().for_each(|seat| seat.report_cause(Cause::ClockStep));
        }
        self.suspended_ns = suspended_ns;
        for seat in &mut self.seats {
            seat.troubles.late |= late;
            // Periods are compared by distance, because their numbers may wrap.
            seat.begin_period(period as u32);
        }
        if first {
            self.common.begun.fetch_add(1, Ordering::Release);
        }
    }

    /// Occupies the CPU until each throttled group of it is frozen, or the period is over. The thread has woken up at `begin_ns`.
    fn occupy(&mut self, begin_ns: u64) -> Result<(), CounterError> {
        if self.seats.iter().all(|seat| seat.pending.is_none()) {
            return Ok(());
        }
        let mut before_ns = sys::now_ns();
        while self.seats.iter_mut().any(|seat| !seat.is_settled()) && !self.common.stop.load(Ordering::Acquire) {
            let now_ns = sys::now_ns();
            let paused = now_ns - before_ns > PAUSE_NS;
            before_ns = now_ns;
            let over = now_ns >= self.boundary_ns();
            if paused || over {
                self.seats.iter_mut().for_each(|seat| seat.note(paused, over));
            }
            if over || self.common.bells[self.bell].rung.load(Ordering::Acquire) {
                self.step()?;
            }
            std::hint::spin_loop();
        }
        self.work.occupied_ns.fetch_add(sys::now_ns() - begin_ns, Ordering::Relaxed);
        Ok(())
    }
}

/// How long the machine was suspended since it started.
pub(crate) fn suspended_ns() -> u64 {
    sys::now_with_suspend_ns().saturating_sub(sys::now_ns())
}
