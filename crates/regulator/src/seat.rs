//! A group on a CPU: its part of the state machine, and its counter.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use memtint_guard::{Action, Core, Ewma, Shared, Signal, ThrottleReason};

use crate::counter::{Counter, CounterError};
use crate::freezer::{Freezer, Request};
use crate::promise::{Cause, Incident, Sums};
use crate::sys;

/// What all threads of a regulator share.
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
    pub(crate) alarm: OwnedFd,
    pub(crate) stop: AtomicBool,
    /// Regulator threads that have begun their first period.
    pub(crate) begun: AtomicUsize,
}

/// Tells a regulator thread to look at what others have changed.
#[derive(Debug)]
pub(crate) struct Bell {
    pub(crate) rung: AtomicBool,
    pub(crate) fd: OwnedFd,
}

/// Most incidents that are kept until they are read; all are counted.
const INCIDENTS_MAX: usize = 256;

impl Common {
    fn ring(&self) {
        for bell in &self.bells {
            bell.rung.store(true, Ordering::Release);
            sys::notify(bell.fd.as_fd());
        }
    }

    /// Records an incident. A regulator thread never waits for the reader: if that holds the list, the incident is only counted.
    fn report(&self, seat: usize, incident: Incident) {
        Sums::add(&self.sums[seat].broken, 1);
        let mut list = match self.incidents.try_lock() {
            Ok(list) => list,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if list.len() == INCIDENTS_MAX {
            list.pop_front();
        }
        list.push_back(incident);
        drop(list);
        sys::notify(self.alarm.as_fd());
    }
}

/// What a period has met that explains events beyond its bound, the likeliest cause first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    pub(crate) late: bool,
    pub(crate) freeze_failed: bool,
    pub(crate) freezer_late: bool,
    pub(crate) preempted: bool,
    pub(crate) suspended: bool,
}

impl Troubles {
    fn cause(self) -> Cause {
        match self {
            Troubles { freeze_failed: true, .. } => Cause::FreezeFailed,
            Troubles { preempted: true, .. } => Cause::Preempted,
            Troubles { freezer_late: true, .. } => Cause::FreezerLate,
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
    /// q + s.
    slack: u64,
    /// The counter when the period began.
    base: u64,
    /// The grant that is armed, and the count at which it is consumed.
    grant: Option<(u32, u64)>,
    /// The count at which the last grant was consumed; `None` if the next one counts from the present.
    consumed_at: Option<u64>,
    throttled_since_ns: Option<u64>,
    /// What stops the group, until that is done.
    pub(crate) pending: Option<Pending>,
    pub(crate) troubles: Troubles,
    actions: Vec<Action>,
}

/// What an occupied CPU waits for.
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
        slack: u64,
        common: Arc<Common>,
    ) -> Seat {
        Seat {
            index,
            group,
            cpu,
            core,
            counter,
            common,
            slack,
            base: 0,
            grant: None,
            consumed_at: None,
            throttled_since_ns: None,
            pending: None,
            troubles: Troubles::default(),
            actions: Vec::with_capacity(8),
        }
    }

    pub(crate) fn counter(&self) -> &Counter {
        &self.counter
    }

    /// The group takes part from now on.
    pub(crate) fn begin(&mut self) -> Result<(), CounterError> {
        let signal = self.core.busy(&self.common.shared, &mut self.actions);
        self.act(signal)
    }

    /// Judges the period that ends, and begins another.
    pub(crate) fn begin_period(&mut self, period: u32, now_ns: u64) -> Result<(), CounterError> {
        let suspended = self.counter.drain();
        self.troubles.suspended |= suspended;
        let count = self.counter.read()?;
        let used = count - self.base;
        self.judge(used, now_ns);
        let unused = self.grant.map_or(0, |(_, end)| u32::try_from(end.saturating_sub(count)).unwrap_or(u32::MAX));
        // What is left of the last grant lapses.
        (self.base, self.grant, self.troubles) = (count, None, Troubles::default());
        if used == 0 && self.core.is_busy() {
            let signal = self.core.idle(&self.common.shared, 0, &mut self.actions);
            self.act(signal)?;
        }
        let signal = self.core.period_start(&self.common.shared, period, unused, &mut self.actions);
        self.act(signal)?;
        Sums::add(&self.sums().donated, self.core.used().donated.into());
        // The first event of an idle group is the first of its next grant. It stays armed as long as there is none.
        if self.core.is_busy() || self.consumed_at == Some(count) {
            return Ok(());
        }
        self.consumed_at = Some(count);
        self.rearm(count + 1, count)
    }

    fn sums(&self) -> &Sums {
        &self.common.sums[self.index]
    }

    fn judge(&mut self, used: u64, now_ns: u64) {
        if self.core.period() == 0 {
            return;
        }
        let granted_for = self.core.used();
        let granted =
            u64::from(granted_for.reserved) + u64::from(granted_for.returned) + u64::from(granted_for.reclaimed);
        let sums = self.sums();
        for (sum, number) in [
            (&sums.periods, 1),
            (&sums.used, used),
            (&sums.granted, granted),
            (&sums.returned, granted_for.returned.into()),
            (&sums.reclaimed, granted_for.reclaimed.into()),
            (&sums.throttled, granted_for.throttled.into()),
            (&sums.underruns, (granted_for.shortfall > 0).into()),
            (&sums.shortfall, granted_for.shortfall.into()),
            (&sums.shared, granted_for.shared.into()),
        ] {
            Sums::add(sum, number);
        }
        sums.used_max.fetch_max(used, Ordering::Relaxed);
        if granted_for.throttled && !granted_for.shared {
            sums.beyond_max.fetch_max(used.saturating_sub(granted), Ordering::Relaxed);
        }
        if let Some(since) = self.throttled_since_ns.as_mut() {
            let passed = now_ns.saturating_sub(std::mem::replace(since, now_ns));
            Sums::add(&self.common.sums[self.index].throttled_ns, passed);
        }
        if self.counter.take_multiplexed() {
            self.report(used, granted + self.slack, Cause::Multiplexed);
            return;
        }
        let allowed = granted + self.slack;
        if !granted_for.shared && used > allowed {
            self.report(used, allowed, self.troubles.cause());
        }
    }

    fn report(&self, used: u64, allowed: u64, cause: Cause) {
        let (period, group, cpu) = (self.core.period(), self.group, self.cpu);
        self.common.report(self.index, Incident { period, group, cpu, used, allowed, cause });
    }

    /// A period that shows nothing.
    pub(crate) fn report_cause(&self, cause: Cause) {
        self.report(0, 0, cause);
    }

    /// Takes note of a grant that is consumed.
    pub(crate) fn check(&mut self) -> Result<(), CounterError> {
        if self.throttled_since_ns.is_some() {
            return Ok(());
        }
        self.troubles.suspended |= self.counter.drain();
        loop {
            let count = self.counter.read()?;
            let was_idle = !self.core.is_busy();
            if was_idle && self.grant.is_none() && self.consumed_at.is_some_and(|at| count > at) {
                let signal = self.core.busy(&self.common.shared, &mut self.actions);
                self.act(signal)?;
                continue;
            }
            match self.grant {
                Some((grant, end)) if count >= end => {
                    (self.grant, self.consumed_at) = (None, Some(end));
                    if was_idle {
                        let signal = self.core.busy(&self.common.shared, &mut self.actions);
                        self.act(signal)?;
                    }
                    let signal = self.core.consumed(&self.common.shared, grant, &mut self.actions);
                    self.act(signal)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Looks at what others have changed.
    pub(crate) fn look(&mut self) -> Result<(), CounterError> {
        let signal = self.core.look(&self.common.shared, &mut self.actions);
        self.act(signal)
    }

    fn act(&mut self, signal: Signal) -> Result<(), CounterError> {
        if signal != Signal::None {
            self.common.ring();
        }
        let mut actions = std::mem::take(&mut self.actions);
        let result = actions.drain(..).try_for_each(|action| self.carry_out(action));
        self.actions = actions;
        result
    }

    fn carry_out(&mut self, action: Action) -> Result<(), CounterError> {
        match action {
            Action::Grant { grant, events, .. } => {
                let count = self.counter.read()?;
                let end = self.consumed_at.take().unwrap_or(count) + u64::from(events);
                self.grant = Some((grant, end));
                self.rearm(end, count)
            }
            Action::Throttle { reason, .. } => {
                if let ThrottleReason::SharingEnded = reason {
                    self.consumed_at = None;
                }
                self.grant = None;
                self.throttled_since_ns = Some(sys::now_ns());
                self.pending = Some(match &self.common.freezers[self.group] {
                    Some(freezer) => Pending::Frozen(freezer.hold()),
                    None => Pending::Period,
                });
                Ok(())
            }
            Action::Release { .. } => {
                (self.grant, self.consumed_at, self.pending) = (None, None, None);
                if let Some(since) = self.throttled_since_ns.take() {
                    Sums::add(&self.sums().throttled_ns, sys::now_ns().saturating_sub(since));
                    if let Some(freezer) = &self.common.freezers[self.group] {
                        freezer.release();
                    }
                }
                self.counter.disarm().map_err(|_| CounterError)
            }
            // Of proportional sharing, which is not offered.
            Action::NextPeriod { .. } => Ok(()),
        }
    }

    fn rearm(&mut self, end: u64, count: u64) -> Result<(), CounterError> {
        self.counter.arm(end.saturating_sub(count)).map_err(|_| CounterError)
    }

    /// Takes note of what has gone wrong while the CPU was occupied: something else ran, or the period is over.
    pub(crate) fn note(&mut self, preempted: bool, over: bool) {
        self.troubles.preempted |= preempted;
        if over && let (Some(_), Some(freezer)) = (self.pending, &self.common.freezers[self.group]) {
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
