//! One core's part of the algorithm, and the words that the cores share.
//!
//! Within a period, every event that may be used is in one of four places: a group's account, the pool, a grant, or a core's past
//! use. A period begins with each budget in its account, and events move from place to place by compare-and-exchange only;
//! so grants never add up to more than the budgets.

use std::hash::{Hash, Hasher};

use crate::predict::Predictor;
use crate::rule::{Config, Kind, Reservation, Sharing};
use crate::word::{Roll, Tally, Turn, Word, is_later};

/// What a backend does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Let the core run, and report when it has used this many events, counted from now.
    Grant {
        /// The core.
        core: usize,
        /// Events; at least 1.
        events: u32,
        /// Where they come from.
        source: Source,
    },
    /// Stop the core.
    Throttle {
        /// The core.
        core: usize,
        /// Why.
        reason: ThrottleReason,
    },
    /// Let the core run again. Unless a grant follows, do not count.
    Release {
        /// The core.
        core: usize,
        /// Why.
        reason: ReleaseReason,
    },
    /// Begin this period on all cores now, and restart the period timer.
    NextPeriod {
        /// Its number.
        period: u32,
    },
}

/// Where granted events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The group's budget.
    Reservation,
    /// What the group had donated, and has taken back.
    Donation,
    /// What other groups have donated.
    Pool,
}

/// Why a core is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThrottleReason {
    /// Its budget is used, and it may not reclaim, or there is nothing to reclaim.
    Exhausted {
        /// Donated events of its budget that it could not take back, since others have used them. Not 0: an underrun.
        shortfall: u32,
    },
    /// Best-effort sharing has ended before the period has: another core has budget left.
    SharingEnded,
}

/// Why a core runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseReason {
    /// A period has begun.
    PeriodStart,
    /// Every active core has used its guarantee: best-effort sharing.
    Sharing,
    /// The core is no longer regulated.
    Unregulated,
}

/// What the other cores have to do after an event on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "other cores may have to be released or throttled"]
pub enum Signal {
    /// Nothing.
    None,
    /// Each core, this one included, calls [`Core::look`].
    Look,
    /// Each core begins this period now.
    NextPeriod(u32),
}

impl Signal {
    fn and(self, next: Signal) -> Signal {
        if next == Signal::None { self } else { next }
    }
}

/// What the cores share. All methods of [`Core`] may run at the same time on different cores; exchanges order them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared<W> {
    pool: Tally<W>,
    roll: Roll<W>,
    groups: Vec<SharedGroup<W>>,
    reclaim_step: u32,
    sharing: Sharing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SharedGroup<W> {
    /// Events of the budget that can be granted.
    account: Tally<W>,
    /// Donated events that were not taken back.
    owed: Tally<W>,
    /// By the parity of the period: what happened in the previous one remains.
    demands: [Demand<W>; 2],
    quantum: u32,
    reservation: Reservation,
    /// The reservation from a period on.
    next: Option<(u32, Reservation)>,
}

/// What a group asked for in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Demand<W> {
    /// Events granted.
    granted: Tally<W>,
    /// Events of its budget that were not there when a core needed them.
    short: Tally<W>,
}

impl<W: Word> Shared<W> {
    /// Creates the words of a system that has been checked.
    pub(crate) fn new(config: &Config) -> Shared<W> {
        let group = |group: &crate::Group| SharedGroup {
            account: Tally::new(),
            owed: Tally::new(),
            demands: [0, 1].map(|_| Demand { granted: Tally::new(), short: Tally::new() }),
            quantum: group.quantum,
            reservation: group.reservation,
            next: None,
        };
        Shared {
            pool: Tally::new(),
            roll: Roll::new(),
            groups: config.groups.iter().map(group).collect(),
            reclaim_step: config.reclaim_step,
            sharing: config.sharing,
        }
    }

    /// Gives a group another reservation from the next period on. The caller has checked the rule.
    pub(crate) fn set_reservation(&mut self, group: usize, reservation: Reservation) {
        let latest = self.roll.period();
        let group = &mut self.groups[group];
        group.reservation = group.reservation_in(latest);
        group.next = Some((latest.wrapping_add(1), reservation));
    }

    /// The latest period that has begun on any core; 0 before the first.
    pub fn period(&self) -> u32 {
        self.roll.period()
    }

    /// Donated events that can still be taken in a period.
    pub fn pool(&self, period: u32) -> u32 {
        self.pool.of(period).unwrap_or(0)
    }

    /// Whether every active core has used its guarantee of the latest period.
    pub fn all_exhausted(&self) -> bool {
        self.roll.all_exhausted(self.roll.period()) == Some(true)
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        let of_group = |group: &SharedGroup<W>| {
            let [even, odd] = group.demands.each_ref().map(|demand| [demand.granted.raw(), demand.short.raw()]);
            [[group.account.raw(), group.owed.raw()], even, odd].concat()
        };
        [self.pool.raw(), self.roll.raw()].into_iter().chain(self.groups.iter().flat_map(of_group))
    }
}

impl<W: Word> Hash for Shared<W> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words().for_each(|word| word.hash(state));
        self.groups.iter().for_each(|group| (group.reservation, group.next).hash(state));
    }
}

impl<W: Word> SharedGroup<W> {
    fn reservation_in(&self, period: u32) -> Reservation {
        match self.next {
            Some((from, reservation)) if !is_later(from, period) => reservation,
            _ => self.reservation,
        }
    }

    fn demand(&self, period: u32) -> &Demand<W> {
        &self.demands[(period & 1) as usize]
    }

    fn open(&self, period: u32) {
        self.demand(period).granted.open(period, 0);
        self.demand(period).short.open(period, 0);
        self.owed.open(period, 0);
        self.account.open(period, self.reservation_in(period).budget);
    }
}

/// What a core does with its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// It has no grant, and needs one before it runs.
    Bare,
    /// Its counter is armed with a grant.
    Granted,
    /// It stands still.
    Throttled,
    /// It runs, and nothing is counted.
    Sharing,
}

/// What a core has been granted in its current period, in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Use {
    /// Of the group's budget.
    pub reserved: u32,
    /// Of the group's donation, taken back.
    pub returned: u32,
    /// Of the donations of other groups.
    pub reclaimed: u32,
    /// Donated on behalf of the group at the start of the period.
    pub donated: u32,
    /// Donated events of the group's budget that were not there when this core needed them. An underrun if not 0.
    pub shortfall: u32,
    /// The core was throttled.
    pub throttled: bool,
    /// The core ran in best-effort sharing.
    pub shared: bool,
}

impl Use {
    /// Events granted in all.
    pub fn granted(&self) -> u32 {
        self.reserved + self.returned + self.reclaimed
    }
}

/// One core's own part. Its methods are called on that core, or for it, one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Core<P> {
    index: usize,
    group: Option<usize>,
    /// Donates for its group.
    donates: bool,
    regulated: bool,
    busy: bool,
    /// A period has begun; before the first, nothing is counted.
    started: bool,
    period: u32,
    phase: Phase,
    /// The rest of the account is a donation that was taken back.
    returned: bool,
    used: Use,
    predictor: P,
}

impl<P: Predictor> Core<P> {
    /// Creates an idle core. The first core of a group donates for it.
    pub(crate) fn new(config: &Config, index: usize, predictor: P) -> Core<P> {
        let group = config.groups.iter().position(|group| group.cores.contains(&index));
        Core {
            index,
            group,
            donates: group.is_some_and(|group| config.groups[group].cores[0] == index),
            regulated: group.is_some(),
            busy: false,
            started: false,
            period: 0,
            phase: Phase::Bare,
            returned: false,
            used: Use::default(),
            predictor,
        }
    }

    /// What the core has been granted since its current period began.
    pub fn used(&self) -> Use {
        self.used
    }

    /// Whether the core stands still.
    pub fn is_throttled(&self) -> bool {
        self.phase == Phase::Throttled
    }

    /// Whether the core runs in best-effort sharing.
    pub fn is_sharing(&self) -> bool {
        self.phase == Phase::Sharing
    }

    /// Whether the core has work.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether the core has a budget that binds it.
    pub fn is_regulated(&self) -> bool {
        self.regulated
    }

    /// Its latest period; 0 before the first.
    pub fn period(&self) -> u32 {
        self.period
    }

    fn exhausted(&self) -> bool {
        matches!(self.phase, Phase::Throttled | Phase::Sharing)
    }

    fn active_group<'s, W>(&self, shared: &'s Shared<W>) -> Option<&'s SharedGroup<W>> {
        self.group.filter(|_| self.regulated).map(|group| &shared.groups[group])
    }

    /// Begins a period. One that is not later than the current one is ignored. `unused`: events of the last grant that the
    /// core has not used, by its counter; 0 if unknown. They lapse, and do not count as used in the prediction.
    pub fn period_start<W: Word>(
        &mut self,
        shared: &Shared<W>,
        period: u32,
        unused: u32,
        out: &mut Vec<Action>,
    ) -> Signal {
        if !is_later(period, self.period) {
            return Signal::None;
        }
        if let (Phase::Granted, Some(group)) = (self.phase, self.active_group(shared)) {
            group.demand(self.period).granted.take(self.period, unused);
        }
        shared.roll.open(period);
        shared.pool.open(period, 0);
        self.period = period;
        let first = !std::mem::replace(&mut self.started, true);
        (self.used, self.returned) = (Use::default(), false);
        let before = std::mem::replace(&mut self.phase, Phase::Bare);
        let Some(group) = self.active_group(shared) else { return Signal::None };
        group.open(period);
        if self.donates && !first {
            self.donate(shared, group);
        }
        if before == Phase::Throttled {
            out.push(Action::Release { core: self.index, reason: ReleaseReason::PeriodStart });
        }
        if self.busy { self.next_grant(shared, out) } else { Signal::None }
    }

    /// Puts into the pool what the group is not expected to use; at least one event stays, so that a counter can be armed.
    /// After an underrun nothing is donated: the prediction was too low, and how much was wanted is not known.
    fn donate<W: Word>(&mut self, shared: &Shared<W>, group: &SharedGroup<W>) {
        let before = self.period.wrapping_sub(1);
        // A period that this core has missed says nothing about the next.
        let demand = group.demand(before);
        let (Some(granted), Some(short)) = (demand.granted.of(before), demand.short.of(before)) else { return };
        self.predictor.observe(u64::from(granted) + u64::from(short));
        if short > 0 {
            return;
        }
        let Reservation { budget, kind } = group.reservation_in(self.period);
        let (Kind::Soft, Some(expected)) = (kind, self.predictor.predict()) else { return };
        let surplus = u64::from(budget).saturating_sub(expected.max(1)) as u32;
        let donated = group.account.take(self.period, surplus);
        shared.pool.add(self.period, donated);
        group.owed.add(self.period, donated);
        self.used.donated = donated;
    }

    /// The core's grant is consumed. Ignored when the core has none: an interrupt that was under way.
    pub fn consumed<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> Signal {
        if self.phase != Phase::Granted || !self.regulated {
            return Signal::None;
        }
        self.phase = Phase::Bare;
        self.next_grant(shared, out)
    }

    /// The core has no work, or has work again.
    pub fn set_busy<W: Word>(&mut self, shared: &Shared<W>, busy: bool, out: &mut Vec<Action>) -> Signal {
        if std::mem::replace(&mut self.busy, busy) == busy || !self.regulated {
            return Signal::None;
        }
        self.change_activity(shared, busy, out)
    }

    /// The core is regulated from now on, or no longer. A core without a group never is.
    pub(crate) fn set_regulated<W: Word>(
        &mut self,
        shared: &Shared<W>,
        regulated: bool,
        out: &mut Vec<Action>,
    ) -> Signal {
        if self.group.is_none() || self.regulated == regulated {
            return Signal::None;
        }
        let mut signal = Signal::None;
        if !regulated {
            if self.busy {
                signal = self.change_activity(shared, false, out);
            }
            self.phase = Phase::Bare;
            out.push(Action::Release { core: self.index, reason: ReleaseReason::Unregulated });
        }
        self.regulated = regulated;
        if let Some(group) = self.active_group(shared) {
            group.open(self.period);
            if self.busy {
                signal = self.change_activity(shared, true, out);
            }
        }
        signal
    }

    pub(crate) fn set_donates(&mut self, donates: bool) {
        self.donates = donates;
    }

    /// Becomes active, or is no longer.
    fn change_activity<W: Word>(&mut self, shared: &Shared<W>, active: bool, out: &mut Vec<Action>) -> Signal {
        let exhausted = self.exhausted();
        if !active {
            return signal_of(shared, shared.roll.leave(self.period, exhausted));
        }
        let signal = signal_of(shared, shared.roll.enter(self.period, exhausted));
        if self.phase == Phase::Bare && self.started {
            return signal.and(self.next_grant(shared, out));
        }
        signal
    }

    /// Looks whether best-effort sharing has begun or ended.
    pub fn look<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) {
        if shared.sharing != Sharing::Spare || !self.regulated {
            return;
        }
        match (self.phase, shared.roll.all_exhausted(self.period)) {
            (Phase::Throttled, Some(true)) => self.share(out),
            (Phase::Sharing, Some(false)) => {
                self.phase = Phase::Throttled;
                self.used.throttled = true;
                out.push(Action::Throttle { core: self.index, reason: ThrottleReason::SharingEnded });
            }
            // In a later period that has not begun here, the core waits for its own start.
            _ => {}
        }
    }

    fn share(&mut self, out: &mut Vec<Action>) {
        self.phase = Phase::Sharing;
        self.used.shared = true;
        out.push(Action::Release { core: self.index, reason: ReleaseReason::Sharing });
    }

    fn next_grant<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> Signal {
        let Some(group) = self.active_group(shared) else { return Signal::None };
        match self.find_events(shared, group) {
            Some((events, source)) => {
                let place = match source {
                    Source::Reservation => &mut self.used.reserved,
                    Source::Donation => &mut self.used.returned,
                    Source::Pool => &mut self.used.reclaimed,
                };
                *place += events;
                group.demand(self.period).granted.add(self.period, events);
                self.phase = Phase::Granted;
                out.push(Action::Grant { core: self.index, events, source });
                Signal::None
            }
            None => self.exhaust(shared, group, out),
        }
    }

    /// Events for the next grant: of the budget, of the group's own donation, of the pool, in this order.
    fn find_events<W: Word>(&mut self, shared: &Shared<W>, group: &SharedGroup<W>) -> Option<(u32, Source)> {
        let soft = group.reservation_in(self.period).kind == Kind::Soft;
        loop {
            let own = group.account.take(self.period, group.quantum);
            if own > 0 {
                return Some((own, if self.returned { Source::Donation } else { Source::Reservation }));
            }
            if !soft {
                return None;
            }
            // All of it at once: what stays in the pool may be gone when it is needed.
            let owed = group.owed.take(self.period, u32::MAX);
            let back = shared.pool.take(self.period, owed);
            group.owed.add(self.period, owed - back);
            if back == 0 {
                break;
            }
            group.account.add(self.period, back);
            self.returned = true;
        }
        let more = shared.pool.take(self.period, shared.reclaim_step);
        (more > 0).then_some((more, Source::Pool))
    }

    fn exhaust<W: Word>(&mut self, shared: &Shared<W>, group: &SharedGroup<W>, out: &mut Vec<Action>) -> Signal {
        self.phase = Phase::Throttled;
        let signal = signal_of(shared, shared.roll.exhaust(self.period));
        if signal == Signal::Look {
            self.share(out);
            return signal;
        }
        let shortfall = group.owed.of(self.period).unwrap_or(0);
        group.demand(self.period).short.raise(self.period, shortfall);
        (self.used.throttled, self.used.shortfall) = (true, shortfall);
        out.push(Action::Throttle { core: self.index, reason: ThrottleReason::Exhausted { shortfall } });
        signal
    }
}

/// What a turn asks of the cores.
fn signal_of<W>(shared: &Shared<W>, turn: Turn) -> Signal {
    match (shared.sharing, turn) {
        (Sharing::Off, _) | (_, Turn::None) | (Sharing::Proportional, Turn::NotAllExhausted) => Signal::None,
        (Sharing::Spare, _) => Signal::Look,
        (Sharing::Proportional, Turn::AllExhausted(period)) => Signal::NextPeriod(period.wrapping_add(1)),
    }
}
