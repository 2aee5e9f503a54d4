//! A group on a CPU: its part of the state machine, and its counter.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use memtint_guard::{Action, Core, Ewma, ReleaseReason, Shared, Signal, Source, Use};

use crate::counter::{Counter, CounterError};
use crate::freezer::{Freezer, Request};
use crate::promise::{Cause, Incident, Sums};
use crate::sys;

/// State shared by all threads of a regulator.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) shared: Shared<AtomicU64>,
    pub(crate) period_ns: u64,
    /// When period 1 begins, on the monotonic clock.
    pub(crate) start_ns: AtomicU64,
    /// For each group; `None` if it is stopped by occupying its CPUs.
    pub(crate) freezers: Vec<Option<Freezer>>,
    /// For each seat.
    pub(crate) sums: Vec<Sums>,
    /// One for each regulator thread.
    pub(crate) bells: Vec<Bell>,
    /// The latest incidents, and a descriptor that can be read when there is one.
    pub(crate) incidents: Mutex<VecDeque<Incident>>,
    /// Those of processes that have left, which no regulator thread reports: its lock may be waited for.
    pub(crate) left: Mutex<VecDeque<Incident>>,
    pub(crate) alarm: OwnedFd,
    pub(crate) stop: AtomicBool,
    /// Can be read when the regulation is to end.
    pub(crate) ended: OwnedFd,
    /// Regulator threads that have begun their first period.
    pub(crate) begun: AtomicUsize,
}

/// Makes a regulator thread check for changes by other threads.
#[derive(Debug)]
pub(crate) struct Bell {
    pub(crate) rung: AtomicBool,
    pub(crate) fd: OwnedFd,
}

/// Most incidents that are kept until they are read; all are counted.
const INCIDENTS_MAX: usize = 256;

impl Common {
    /// Makes all regulator threads check.
    pub(crate) fn ring(&self) {
        for bell in &self.bells {
            bell.rung.store(true, Ordering::Release);
            sys::notify(bell.fd.as_fd());
        }
    }

    /// Records an incident. A regulator thread never waits for the reader: if that holds the list, the incident is only counted.
    pub(crate) fn report(&self, seat: usize, incident: Incident) {
        self.sums[seat].broken.fetch_add(1, Ordering::Relaxed);
        let mut list = match self.incidents.try_lock() {
            Ok(list) => list,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        keep(&mut list, incident);
        drop(list);
        sys::notify(self.alarm.as_fd());
    }

    /// Records that a process has left. Not for regulator threads: the caller may have to wait for the reader.
    pub(crate) fn report_left(&self, seat: usize, incident: Incident) {
        self.sums[seat].broken.fetch_add(1, Ordering::Relaxed);
        keep(&mut self.left.lock().unwrap_or_else(PoisonError::into_inner), incident);
        sys::notify(self.alarm.as_fd());
    }
}

/// Adds an incident, in place of the first one if there are too many.
fn keep(list: &mut VecDeque<Incident>, incident: Incident) {
    if list.len() == INCIDENTS_MAX {
        list.pop_front();
    }
    list.push_back(incident);
}

/// Observations in a period that explain events beyond its bound, the likeliest cause first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    pub(crate) late: bool,
    pub(crate) freeze_failed: bool,
    pub(crate) freezer_late: bool,
    pub(crate) preempted: bool,
    pub(crate) suspended: bool,
    /// The group used memory while it was throttled.
    pub(crate) leaked: bool,
}

impl Troubles {
    pub(crate) fn cause(self) -> Cause {
        match self {
            Troubles { freeze_failed: true, .. } => Cause::FreezeFailed,
            Troubles { preempted: true, .. } => Cause::Preempted,
            Troubles { freezer_late: true, .. } => Cause::FreezerLate,
            Troubles { leaked: true, .. } => Cause::InKernel,
            Troubles { suspended: true, .. } => Cause::OverflowsSuspended,
            Troubles { late: true, .. } => Cause::Late,
            _ => Cause::Skid,
        }
    }
}

/// A group on a CPU. Its methods run on the regulator thread of this CPU, so that the group does not run meanwhile.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) index: usize,
    pub(crate) group: usize,
    pub(crate) cpu: usize,
    core: Core<Ewma>,
    counter: Counter,
    common: Arc<Common>,
    /// q.
    quantum: u64,
    /// s.
    skid: u64,
    /// The counter now: the group does not run while the regulator thread does.
    count: u64,
    /// The count at which the counter overflows next, and at which it shall; [`NEVER`].
    armed: Option<u64>,
    wanted: u64,
    /// The counter when the period began.
    base: u64,
    /// The grant that is armed, and the count at which it is consumed.
    grant: Option<(u32, u64)>,
    /// The count at which the last grant was consumed; `None` if the next one counts from the present.
    consumed_at: Option<u64>,
    throttled_since_ns: Option<u64>,
    /// The count beyond which a throttled group uses more than its skid.
    stopped_at: u64,
    /// The request that stops the group, until it is done.
    pub(crate) pending: Option<Pending>,
    pub(crate) troubles: Troubles,
    actions: Vec<Action>,
}

/// No overflow.
const NEVER: u64 = u64::MAX;

/// The event that an occupied CPU waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// The group is frozen.
    Frozen(Request),
    /// The next period.
    Period,
}

impl Seat {
    pub(crate) fn new(
        index: usize,
        (group, cpu): (usize, usize),
        core: Core<Ewma>,
        counter: Counter,
        (quantum, skid): (u64, u64),
        common: Arc<Common>,
    ) -> Seat {
        let skid = skid + counter.coarseness();
        Seat {
            index,
            group,
            cpu,
            core,
            counter,
            common,
            quantum,
            skid,
            count: 0,
            armed: None,
            wanted: NEVER,
            base: 0,
            grant: None,
            consumed_at: None,
            throttled_since_ns: None,
            stopped_at: 0,
            pending: None,
            troubles: Troubles::default(),
            actions: Vec::with_capacity(8),
        }
    }

    pub(crate) fn counter(&self) -> &Counter {
        &self.counter
    }

    /// The group takes part from now on.
    pub(crate) fn begin(&mut self) {
        self.call(|core, shared, actions| core.busy(shared, actions));
    }

    /// Reads the counter. All steps until [`Seat::settle`] refer to this moment.
    pub(crate) fn refresh(&mut self) -> Result<(), CounterError> {
        self.troubles.suspended |= self.counter.drain();
        self.count = self.counter.read()?;
        if self.armed.is_some_and(|armed| self.count >= armed) {
            // It goes on with the period it had.
            self.armed = None;
        }
        Ok(())
    }

    /// Arms the counter as the state machine wants it.
    pub(crate) fn settle(&mut self) -> Result<(), CounterError> {
        if self.throttled_since_ns.is_some() {
            self.wanted = self.leak_at().max(self.count + 1);
        } else if !self.core.is_busy() && self.consumed_at.is_none() {
            // The first event of an idle group is the first of its next grant.
            (self.consumed_at, self.wanted) = (Some(self.count), self.count + 1);
        }
        if self.armed == Some(self.wanted) {
            return Ok(());
        }
        let armed = match self.wanted {
            NEVER => self.counter.disarm(),
            wanted => self.counter.arm(wanted.saturating_sub(self.count)),
        };
        self.armed = Some(self.wanted);
        armed.map_err(|_| CounterError)
    }

    /// Begins a period, unless the state machine has done so already, because another CPU had begun it.
    pub(crate) fn begin_period(&mut self, period: u32) {
        if self.core.period() == period {
            return;
        }
        let left = self.grant.map_or(0, |(_, end)| end.saturating_sub(self.count));
        let unused = u32::try_from(left).unwrap_or(u32::MAX);
        if self.count == self.base && self.core.is_busy() && self.throttled_since_ns.is_none() {
            self.call(|core, shared, actions| core.idle(shared, 0, actions));
        }
        self.call(|core, shared, actions| core.period_start(shared, period, unused, actions));
    }

    /// Lets the state machine act. It begins a period with whatever it does next, when another CPU has begun that.
    fn call(&mut self, act: impl FnOnce(&mut Core<Ewma>, &Shared<AtomicU64>, &mut Vec<Action>) -> Signal) {
        let (period, granted) = (self.core.period(), self.core.used());
        let signal = act(&mut self.core, &self.common.shared, &mut self.actions);
        if self.core.period() != period {
            self.close(period, granted);
        }
        if signal != Signal::None {
            self.common.ring();
        }
        let mut actions = std::mem::take(&mut self.actions);
        actions.drain(..).for_each(|action| self.carry_out(action));
        self.actions = actions;
    }

    /// Ends the accounts of a period. The rest of its last grant lapses.
    fn close(&mut self, period: u32, granted: Use) {
        if period > 0 {
            self.judge(period, granted);
        }
        (self.base, self.grant, self.troubles) = (self.count, None, Troubles::default());
    }

    /// Ends the accounts of the last period, which is cut short.
    pub(crate) fn finish(&mut self) {
        self.close(self.core.period(), self.core.used());
    }

    fn sums(&self) -> &Sums {
        &self.common.sums[self.index]
    }

    fn judge(&mut self, period: u32, granted_for: Use) {
        let used = self.count - self.base;
        let granted = u64::from(granted_for.granted());
        let sums = &self.common.sums[self.index];
        for (sum, number) in [
            (&sums.periods, 1),
            (&sums.used, used),
            (&sums.granted, granted),
            (&sums.donated, granted_for.donated.into()),
            (&sums.returned, granted_for.returned.into()),
            (&sums.reclaimed, granted_for.reclaimed.into()),
            (&sums.throttled, granted_for.throttled.into()),
            (&sums.underruns, (granted_for.shortfall > 0).into()),
            (&sums.shortfall, granted_for.shortfall.into()),
        ] {
            Sums::add(sum, number);
        }
        sums.used_max.fetch_max(used, Ordering::Relaxed);
        if granted_for.throttled {
            sums.beyond_max.fetch_max(used.saturating_sub(granted), Ordering::Relaxed);
        }
        if let Some(since) = self.throttled_since_ns.as_mut() {
            let now_ns = sys::now_ns();
            let passed = now_ns.saturating_sub(std::mem::replace(since, now_ns));
            Sums::add(&sums.throttled_ns, passed);
        }
        let allowed = granted + self.quantum + self.skid;
        if self.counter.take_multiplexed() {
            self.report(period, used, allowed, Cause::Multiplexed);
        } else if self.troubles.suspended && !self.counter.is_exact() {
            // The hardware's counter stood still meanwhile.
            self.report(period, used, allowed, Cause::OverflowsSuspended);
        } else if used > allowed {
            self.report(period, used, allowed, self.troubles.cause());
        }
    }

    fn report(&self, period: u32, used: u64, allowed: u64, cause: Cause) {
        let (group, cpu) = (self.group, self.cpu);
        self.common.report(self.index, Incident { period, group, cpu, used, allowed, cause, process: None });
    }

    /// Reports a period whose figures prove nothing.
    pub(crate) fn report_cause(&self, cause: Cause) {
        self.report(self.core.period(), 0, 0, cause);
    }

    /// Takes note of grants that are consumed, and of use without one.
    pub(crate) fn check(&mut self) {
        if self.throttled_since_ns.is_some() {
            self.check_throttled();
        }
        while self.throttled_since_ns.is_none() {
            match self.grant {
                Some((grant, end)) if self.count >= end => {
                    (self.grant, self.consumed_at) = (None, Some(end));
                    self.call(|core, shared, actions| core.consumed(shared, grant, actions));
                }
                None if !self.core.is_busy() && self.consumed_at.is_some_and(|at| self.count > at) => {
                    self.call(|core, shared, actions| core.busy(shared, actions));
                }
                _ => return,
            }
        }
    }

    /// A group that is throttled uses more than its skid: one of its tasks is in a system call, or something else has thawed it. Then its
    /// CPU is occupied until the period is over.
    fn check_throttled(&mut self) {
        // Until it is frozen, its CPU is occupied in any case.
        if self.count >= self.leak_at() && self.pending.is_none() {
            self.troubles.leaked = true;
            self.pending = Some(Pending::Period);
        }
    }

    /// The first count beyond its use or grant at the time of throttling, plus the skid.
    fn leak_at(&self) -> u64 {
        self.stopped_at + self.skid + 1
    }

    /// Checks for changes by other threads.
    pub(crate) fn look(&mut self) {
        self.call(|core, shared, actions| core.look(shared, actions));
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Grant { grant, events, source, .. } => {
                if source != Source::Reservation {
                    Sums::add(&self.sums().reclaims, 1);
                    Sums::add(&self.sums().reclaims_woken, 1);
                }
                let end = self.consumed_at.take().unwrap_or(self.count) + u64::from(events);
                (self.grant, self.wanted) = (Some((grant, end)), end);
            }
            Action::Throttle { .. } => {
                self.grant = None;
                self.stopped_at = self.count.max(self.base + u64::from(self.core.used().granted()));
                self.throttled_since_ns = Some(sys::now_ns());
                self.pending = Some(match &self.common.freezers[self.group] {
                    Some(freezer) => Pending::Frozen(freezer.hold()),
                    None => Pending::Period,
                });
            }
            Action::Release { reason, .. } => {
                (self.grant, self.pending, self.wanted) = (None, None, NEVER);
                // Within a period, use beyond a grant counts for the next one.
                if reason != ReleaseReason::Returned {
                    self.consumed_at = None;
                }
                if let Some(since) = self.throttled_since_ns.take() {
                    Sums::add(&self.sums().throttled_ns, sys::now_ns().saturating_sub(since));
                    if let Some(freezer) = &self.common.freezers[self.group] {
                        freezer.release();
                    }
                }
            }
            // Of proportional sharing, which is not offered.
            Action::NextPeriod { .. } => {}
        }
    }

    /// Records problems while the CPU was occupied: something else ran, or the period is over.
    pub(crate) fn note(&mut self, preempted: bool, over: bool) {
        self.troubles.preempted |= preempted;
        let freezer = &self.common.freezers[self.group];
        if over && let (Some(Pending::Frozen(_)), Some(freezer)) = (self.pending, freezer) {
            self.troubles.freezer_late = true;
            self.troubles.freeze_failed |= freezer.failures() > 0;
        }
    }

    /// Whether the group has stopped, or may run.
    pub(crate) fn is_settled(&mut self) -> bool {
        match self.pending {
            None => true,
            Some(Pending::Period) => false,
            Some(Pending::Frozen(request)) => {
                let done = self.common.freezers[self.group].as_ref().is_some_and(|freezer| freezer.has_done(request));
                if done {
                    self.pending = None;
                }
                done
            }
        }
    }
}

impl Drop for Seat {
    /// The group runs again, however regulation ends.
    fn drop(&mut self) {
        if let (Some(_), Some(freezer)) = (self.throttled_since_ns.take(), &self.common.freezers[self.group]) {
            freezer.release();
        }
    }
}
