//! The thread of a CPU whose regulation is decided in the kernel. It sleeps until a group is to be stopped or to run again.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bpf::{self, Command, INCIDENTS_MAX, Kernel, SeatWords};
use crate::counter::{Counter, CounterError};
use crate::cpu::{PAUSE_NS, Work, suspended_ns};
use crate::promise::{Cause, Incident};
use crate::seat::{Common, Pending, Troubles};
use crate::sys;

/// Time between two looks at the counters when nothing happens, in nanoseconds.
const LOOK_NS: u64 = 10_000_000;
/// Time between waking up and the first period.
const WAKE_NS: u64 = 500_000;
/// Looks without a stopped group after which the timer is slow again.
const QUIET_LOOKS: u32 = 16;
/// Attempts to start the clock in step.
const START_TRIES: u32 = 100;

/// A group on a CPU, whose decisions are made in the kernel.
#[derive(Debug)]
pub(crate) struct Attended {
    index: usize,
    group: usize,
    counter: Counter,
    common: Arc<Common>,
    /// Whether it is throttled, as last observed by this thread.
    held: bool,
    pending: Option<Pending>,
    /// q, as the counter takes it.
    quantum: u64,
    period: u32,
    troubles: Troubles,
    /// Incidents that were reported.
    reported: u64,
}

impl Attended {
    pub(crate) fn new(index: usize, group: usize, quantum: u64, counter: Counter, common: Arc<Common>) -> Attended {
        let troubles = Troubles::default();
        Attended {
            index,
            group,
            counter,
            common,
            held: false,
            pending: None,
            quantum,
            period: 0,
            troubles,
            reported: 0,
        }
    }

    fn words<'k>(&self, kernel: &'k Kernel) -> &'k SeatWords {
        &kernel.words().seats[self.index]
    }

    fn is_throttled(&self, kernel: &Kernel) -> bool {
        self.words(kernel).core.phase.load(Ordering::Acquire) == bpf::THROTTLED
    }

    /// Begins a period whose start the kernel has lost, or will find begun.
    fn catch_up(&self, kernel: &Kernel, now_ns: u64) -> Result<(), CounterError> {
        let common = &self.common;
        let passed_ns = now_ns.saturating_sub(common.start_ns.load(Ordering::Relaxed));
        let period = (passed_ns / common.period_ns + 1) as u32;
        let behind = period.wrapping_sub(self.words(kernel).core.period.load(Ordering::Acquire));
        if behind == 0 || behind > u32::MAX / 2 {
            return Ok(());
        }
        command(kernel, self.index, Command::begin(period))
    }

    /// Stops the group, or lets it run.
    fn follow(&mut self, kernel: &Kernel) {
        let throttled = self.is_throttled(kernel);
        let freezer = &self.common.freezers[self.group];
        if throttled && !self.held {
            self.pending = Some(freezer.as_ref().map_or(Pending::Period, |freezer| Pending::Frozen(freezer.hold())));
        } else if !throttled && self.held {
            if let (Some(Pending::Frozen(_)), Some(freezer)) = (self.pending.take(), freezer) {
                self.troubles.freezer_late = true;
                self.troubles.freeze_failed |= freezer.failures() > 0;
            }
            if let Some(freezer) = freezer {
                freezer.release();
            }
        }
        self.held = throttled;
        // One of its tasks is in a system call, or something else has thawed it.
        if throttled && self.pending.is_none() && self.words(kernel).leaked.load(Ordering::Relaxed) != 0 {
            self.pending = Some(Pending::Period);
        }
    }

    /// Whether the group has stopped, or may run.
    fn is_settled(&mut self) -> bool {
        if let (Some(Pending::Frozen(request)), Some(freezer)) = (self.pending, &self.common.freezers[self.group])
            && freezer.has_done(request)
        {
            self.pending = None;
        }
        self.pending.is_none()
    }

    /// Passes the count to the kernel, which cannot read that of a group that does not run. Compensates for an overflow
    /// that the kernel has lost.
    fn refresh(&mut self, kernel: &Kernel) -> Result<(), CounterError> {
        self.troubles.suspended |= self.counter.drain();
        let (count, words) = (self.counter.read()?, self.words(kernel));
        words.count.fetch_max(count, Ordering::AcqRel);
        if self.counter.take_multiplexed() {
            words.multiplexed.store(1, Ordering::Release);
        }
        // Only from a quantum beyond the end on: the next overflow detects anything less.
        let end = match self.is_throttled(kernel) {
            true => &words.stopped_at,
            false => &words.grant_end,
        };
        if count >= end.load(Ordering::Acquire).saturating_add(self.quantum) {
            return command(kernel, self.index, Command::CHECK);
        }
        Ok(())
    }

    /// Reports the kernel's findings, and copies its sums.
    fn report(&mut self, kernel: &Kernel, cpu: usize) {
        let words = self.words(kernel);
        let found = words.nr_incidents.load(Ordering::Acquire);
        let lost = (found - self.reported).saturating_sub(INCIDENTS_MAX as u64);
        let sums = &self.common.sums[self.index];
        sums.broken.fetch_add(lost, Ordering::Relaxed);
        self.reported += lost;
        while self.reported < found {
            let one = &words.incidents[self.reported as usize % INCIDENTS_MAX];
            self.reported += 1;
            let mut troubles = self.troubles;
            let cause = match one.cause.load(Ordering::Relaxed) {
                bpf::MULTIPLEXED => Cause::Multiplexed,
                found => {
                    troubles.leaked |= found == bpf::IN_KERNEL;
                    troubles.late |= found == bpf::LATE;
                    troubles.cause()
                }
            };
            let (period, group) = (one.period.load(Ordering::Relaxed), self.group);
            let (used, allowed) = (one.used.load(Ordering::Relaxed), one.allowed.load(Ordering::Relaxed));
            self.common.report(self.index, Incident { period, group, cpu, used, allowed, cause, process: None });
        }
        let period = words.core.period.load(Ordering::Relaxed);
        if period != self.period {
            if self.troubles.suspended && !self.counter.is_exact() {
                // The hardware's counter stood still meanwhile.
                self.report_cause(cpu, Cause::OverflowsSuspended);
            }
            (self.period, self.troubles) = (period, Troubles::default());
        }
        sums.copy(&words.sums);
    }

    /// Reports a period whose figures prove nothing.
    fn report_cause(&self, cpu: usize, cause: Cause) {
        self.common.report(self.index, Incident::without_count(self.period, (self.group, cpu), cause));
    }
}

fn command(kernel: &Kernel, seat: usize, command: Command) -> Result<(), CounterError> {
    // It has been run before, so that it fails for want of memory only.
    kernel.command(seat, command).map(drop).map_err(|_| CounterError)
}

impl Drop for Attended {
    /// The group runs again, however regulation ends.
    fn drop(&mut self) {
        if let (true, Some(freezer)) = (self.held, &self.common.freezers[self.group]) {
            freezer.release();
        }
    }
}

/// The attendant of one CPU, on a thread that is pinned there.
#[derive(Debug)]
pub(crate) struct CpuAttendant {
    pub(crate) cpu: usize,
    /// Index of its bell.
    pub(crate) bell: usize,
    // Programs are detached before counters are closed.
    pub(crate) attached: Vec<OwnedFd>,
    pub(crate) seats: Vec<Attended>,
    /// Begins the periods.
    pub(crate) clock: Counter,
    pub(crate) timer: OwnedFd,
    /// The kernel has suspended the clock, which then goes on at another time of the period.
    pub(crate) is_clock_off: bool,
    /// Looks since a group was last stopped, or the clock suspended.
    pub(crate) quiet: u32,
    pub(crate) common: Arc<Common>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) work: Arc<Work>,
}

impl CpuAttendant {
    /// Regulates until `stop` is set. A counter that has failed, or a CPU that is offline, ends the regulation of all
    /// CPUs: the last incident has the cause.
    pub(crate) fn run(mut self) {
        if let Err(CounterError) = self.attend() {
            self.end(Cause::CounterError);
        }
        self.work.total_ns.store(sys::thread_time_ns(), Ordering::Relaxed);
    }

    fn end(&self, cause: Cause) {
        self.seats.iter().for_each(|seat| seat.report_cause(self.cpu, cause));
    }

    /// Has the state machine of each seat act.
    fn command(&self, command: Command) -> Result<(), CounterError> {
        self.seats.iter().try_for_each(|seat| self::command(&self.kernel, seat.index, command))
    }

    fn attend(&mut self) -> Result<(), CounterError> {
        self.command(Command::BUSY)?;
        self.begin()?;
        let mut fds = self.fds();
        let mut suspended_before_ns = suspended_ns();
        while !self.common.stop.load(Ordering::Acquire) {
            // Check everything, whether interrupted or not.
            let _ = sys::wait_readable(&mut fds, None);
            let begin_ns = sys::now_ns();
            if sys::current_cpu() != self.cpu {
                self.end(Cause::CpuOffline);
                return Ok(());
            }
            // Suspended on an idle CPU. Overflows and the timer replace it until it resumes in step.
            self.is_clock_off |= self.clock.drain();
            if fds[0].revents != 0 {
                sys::clear(self.timer.as_fd());
                self.restart_clock();
                let suspended_ns = suspended_ns();
                // Both clocks are read one after the other.
                if suspended_ns > suspended_before_ns + 1_000_000 {
                    self.end(Cause::ClockStep);
                }
                suspended_before_ns = suspended_ns;
            }
            if fds[1].revents != 0 {
                sys::clear(self.common.bells[self.bell].fd.as_fd());
            }
            self.refresh()?;
            self.catch_up(begin_ns)?;
            self.follow()?;
            self.occupy(begin_ns)?;
            self.report();
            self.set_timer();
            self.work.total_ns.store(sys::thread_time_ns(), Ordering::Relaxed);
            self.work.looked_ns.store(begin_ns, Ordering::Release);
            self.work.looks.fetch_add(1, Ordering::Release);
        }
        // The last period is cut short.
        self.attached.clear();
        self.refresh()?;
        let next = self.kernel.latest().wrapping_add(1);
        self.command(Command::period_start(next))?;
        self.report();
        Ok(())
    }

    /// Begins the first period, and has the clock begin the others in step with the time.
    fn begin(&mut self) -> Result<(), CounterError> {
        let (start_ns, period_ns) = (self.common.start_ns.load(Ordering::Relaxed), self.common.period_ns);
        sys::arm_timer(self.timer.as_fd(), start_ns.saturating_sub(WAKE_NS), LOOK_NS);
        let mut fds = self.fds();
        while sys::now_ns() + 2 * WAKE_NS < start_ns {
            // If interrupted, wait again.
            let _ = sys::wait_readable(&mut fds[..1], None);
        }
        let await_ns = |time_ns| {
            while sys::now_ns() < time_ns {
                std::hint::spin_loop();
            }
        };
        await_ns(start_ns);
        self.clock.enable().map_err(|_| CounterError)?;
        let late_ns = || (sys::now_ns() - start_ns) % period_ns;
        let mut late = late_ns();
        // Rarely more than once, unless a hypervisor has taken the CPU.
        for _ in 0..START_TRIES {
            if late <= period_ns / 4 {
                break;
            }
            await_ns(sys::now_ns() + period_ns - late_ns());
            self.clock.restart(period_ns).map_err(|_| CounterError)?;
            late = late_ns();
        }
        self.refresh()?;
        let period = (sys::now_ns() - start_ns) / period_ns + 1;
        self.command(Command::period_start(period as u32))?;
        self.common.begun.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Has a clock that was suspended go on in step with the time, at the begin of a period.
    fn restart_clock(&mut self) {
        let (start_ns, period_ns) = (self.common.start_ns.load(Ordering::Relaxed), self.common.period_ns);
        if self.is_clock_off && (sys::now_ns() - start_ns) % period_ns <= period_ns / 4 {
            // Tried again at the next look if it fails.
            self.is_clock_off = self.clock.restart(period_ns).is_err();
        }
    }

    /// While a group is stopped the CPU may be idle, and the kernel suspend the clock: then the timer begins periods.
    fn set_timer(&mut self) {
        let was_quiet = self.quiet >= QUIET_LOOKS;
        let is_needed = self.is_clock_off || self.seats.iter().any(|seat| seat.held);
        self.quiet = if is_needed { 0 } else { self.quiet.saturating_add(1) };
        let is_quiet = self.quiet >= QUIET_LOOKS;
        if is_quiet != was_quiet {
            let (start_ns, period_ns) = (self.common.start_ns.load(Ordering::Relaxed), self.common.period_ns);
            let next_ns = start_ns + ((sys::now_ns() - start_ns) / period_ns + 1) * period_ns;
            sys::arm_timer(self.timer.as_fd(), next_ns, if is_quiet { LOOK_NS.max(period_ns) } else { period_ns });
        }
    }

    fn catch_up(&self, now_ns: u64) -> Result<(), CounterError> {
        self.seats.iter().try_for_each(|seat| seat.catch_up(&self.kernel, now_ns))
    }

    fn fds(&self) -> Vec<libc::pollfd> {
        let own = [self.timer.as_fd(), self.common.bells[self.bell].fd.as_fd(), self.clock.fd()];
        let fds = own.into_iter().chain(self.seats.iter().map(|seat| seat.counter.fd()));
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect()
    }

    /// Stops groups and lets them run, as the kernel has decided.
    fn follow(&mut self) -> Result<(), CounterError> {
        let bell = &self.common.bells[self.bell];
        if bell.rung.swap(false, Ordering::AcqRel) {
            self.command(Command::LOOK)?;
        }
        for seat in &mut self.seats {
            seat.follow(&self.kernel);
        }
        let rings = self.seats.iter().filter(|seat| seat.words(&self.kernel).ring.swap(0, Ordering::AcqRel) != 0);
        if rings.count() > 0 {
            self.common.ring();
        }
        Ok(())
    }

    fn refresh(&mut self) -> Result<(), CounterError> {
        self.seats.iter_mut().try_for_each(|seat| seat.refresh(&self.kernel))
    }

    fn report(&mut self) {
        self.seats.iter_mut().for_each(|seat| seat.report(&self.kernel, self.cpu));
    }

    /// Occupies the CPU until each throttled group of it is frozen, or the period is over. The thread has woken up at `begin_ns`.
    fn occupy(&mut self, begin_ns: u64) -> Result<(), CounterError> {
        if self.seats.iter().all(|seat| seat.pending.is_none()) {
            return Ok(());
        }
        let mut before_ns = sys::now_ns();
        while self.seats.iter_mut().any(|seat| !seat.is_settled()) && !self.common.stop.load(Ordering::Acquire) {
            let now_ns = sys::now_ns();
            if now_ns - before_ns > PAUSE_NS {
                self.seats.iter_mut().for_each(|seat| seat.troubles.preempted = true);
            }
            before_ns = now_ns;
            self.catch_up(now_ns)?;
            let changed = self.seats.iter().any(|seat| seat.is_throttled(&self.kernel) != seat.held);
            if changed || self.common.bells[self.bell].rung.load(Ordering::Acquire) {
                self.follow()?;
            }
            std::hint::spin_loop();
        }
        self.work.occupied_ns.fetch_add(sys::now_ns() - begin_ns, Ordering::Relaxed);
        // Count the group's events until it was frozen.
        self.refresh()?;
        self.follow()?;
        self.occupy(sys::now_ns())
    }
}
