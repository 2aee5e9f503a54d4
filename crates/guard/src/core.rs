//! One core's part of the algorithm, and the words that the cores share.
//!
//! Within a period, every event that may be used is in one of four places: a group's account, the pool, a grant, or a
//! core's past use. A period begins with each budget in its account, and events move from place to place by
//! compare-and-exchange only; so grants never add up to more than the budgets. A core whose start is late begins the
//! period with its next action.

use std::hash::{Hash, Hasher};

use crate::predict::Predictor;
use crate::rule::{Config, Kind, Reservation, Sharing};
use crate::word::{Lock, Promise, Roll, Tally, Turn, Word, is_later};

/// A command to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Let the core run, and report when it has used this many events: counted from the end of its previous grant if that was
    /// consumed, so that what it has used beyond is not counted twice, and from now otherwise.
    Grant {
        /// The core.
        core: usize,
        /// Number of the grant, which [`Core::consumed`] takes. It distinguishes an overflow of this grant from one that was
        /// pending when the counter was armed again.
        grant: u32,
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
    /// The group's own donation, taken back, and events that another of its cores has returned since then.
    Donation,
    /// Donations of other groups.
    Pool,
}

/// Why a core is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThrottleReason {
    /// Its budget is used, and it may not reclaim, or there is nothing to reclaim. A release follows at once if all others have
    /// used theirs.
    Exhausted {
        /// Donated events of its group's budget that could not be taken back, since others have them; 0 if this has been
        /// reported for the group in this period. Not 0: an underrun.
        shortfall: u32,
    },
    /// Best-effort sharing has ended before the period has: a core that was idle is active.
    SharingEnded,
}

/// Why a core runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseReason {
    /// A period has begun.
    PeriodStart,
    /// Every active core has used its guarantee: best-effort sharing.
    Sharing,
    /// Another core of the group has returned events that it does not use.
    Returned,
    /// The core is no longer regulated.
    Unregulated,
}

/// The action required of other cores after an event on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "other cores may have to be released or throttled"]
pub enum Signal {
    /// Nothing.
    None,
    /// Each core, this one and idle ones included, calls [`Core::look`].
    Look,
    /// Each core begins this period now.
    NextPeriod(u32),
}

impl Signal {
    /// Both. Looking comes first, and finds out whether the next period still begins.
    pub(crate) fn and(self, next: Signal) -> Signal {
        match (self, next) {
            (Signal::Look, _) | (_, Signal::Look) => Signal::Look,
            (Signal::None, other) | (other, _) => other,
        }
    }
}

/// State shared by the cores. All methods of [`Core`] may run at the same time on different cores; exchanges order
/// them.
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
    /// Held while events move between account and pool.
    moving: Lock<W>,
    /// By the parity of the period: what happened in the previous one remains.
    demands: [Demand<W>; 2],
    quantum: u32,
    /// It has one core.
    is_single: bool,
    promise: Promise<W>,
}

/// Demand of a group in a period.
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
            moving: Lock::new(),
            demands: [0, 1].map(|_| Demand { granted: Tally::new(), short: Tally::new() }),
            quantum: group.quantum,
            is_single: group.cores.len() == 1,
            promise: Promise::new(group.reservation),
        };
        Shared {
            pool: Tally::new(),
            roll: Roll::new(),
            groups: config.groups.iter().map(group).collect(),
            reclaim_step: config.reclaim_step,
            sharing: config.sharing,
        }
    }

    /// Gives a group another reservation from a period on, which has not begun. Calls must not overlap, and the caller has
    /// checked the rule. Changes that belong together must all be made before that period begins.
    ///
    /// # Panics
    /// When there is no such group, or when the period has begun.
    pub fn set_reservation(&self, group: usize, from: u32, reservation: Reservation) {
        let latest = self.roll.period();
        assert!(is_later(from, latest), "period {from} has begun: {latest} is the latest");
        self.groups[group].promise.set(latest, from, reservation);
    }

    /// The latest period that has begun on any core; 0 before the first.
    pub fn period(&self) -> u32 {
        self.roll.period()
    }

    /// Donated events that can still be taken in a period.
    pub fn pool(&self, period: u32) -> u32 {
        self.pool.of(period).unwrap_or(0)
    }

    /// Events of a group's budget that can still be granted in a period, without donated events that were not taken
    /// back.
    ///
    /// # Panics
    /// When there is no such group.
    pub fn left(&self, group: usize, period: u32) -> u32 {
        self.groups[group].account.of(period).unwrap_or(0)
    }

    /// Events that a group has donated in a period and not taken back, whether or not they can still be.
    ///
    /// # Panics
    /// When there is no such group.
    pub fn owed(&self, group: usize, period: u32) -> u32 {
        self.groups[group].owed.of(period).unwrap_or(0)
    }

    /// Whether every active core has used its guarantee of the latest period. Without active cores, the latest answer stays.
    pub fn all_exhausted(&self) -> bool {
        self.roll.all_exhausted(self.roll.period()) == Some(true)
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        let of_group = |group: &SharedGroup<W>| {
            let [even, odd] = group.demands.each_ref().map(|demand| [demand.granted.raw(), demand.short.raw()]);
            [[group.account.raw(), group.owed.raw()], group.promise.raw(), even, odd].concat()
        };
        [self.pool.raw(), self.roll.raw()].into_iter().chain(self.groups.iter().flat_map(of_group))
    }
}

impl<W: Word> Hash for Shared<W> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words().for_each(|word| word.hash(state));
    }
}

impl<W: Word> SharedGroup<W> {
    fn demand(&self, period: u32) -> &Demand<W> {
        &self.demands[(period & 1) as usize]
    }

    fn open(&self, period: u32) {
        self.demand(period).granted.open(period, 0);
        self.demand(period).short.open(period, 0);
        self.owed.open(period, 0);
        self.promise.renew(period);
        self.account.open(period, self.promise.of(period).budget);
    }
}

/// State of a core's counter.
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

/// Events granted to a core in its current period.
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
    /// Donated events of the group's budget that were not there when this core was the first to need them. An underrun if not 0.
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

/// Number of the latest grant. It only distinguishes grants: states that differ in nothing else are equal and have
/// equal hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number(u32);

impl Hash for Number {
    fn hash<H: Hasher>(&self, _: &mut H) {}
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
    grant: Number,
    /// Where the latest grant came from.
    source: Source,
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
            grant: Number(0),
            source: Source::Reservation,
            returned: false,
            used: Use::default(),
            predictor,
        }
    }

    /// Events granted to the core since its current period began.
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

    fn group<'s, W>(&self, shared: &'s Shared<W>) -> Option<&'s SharedGroup<W>> {
        self.group.map(|group| &shared.groups[group])
    }

    /// Begins a period, on idle and unregulated cores as well; a later one if that has begun elsewhere. One that is not later
    /// than the current one is ignored.
    ///
    /// `unused`: events of the last grant that the core has not used, by its counter; 0 if unknown. They lapse, and do not
    /// count as used in the prediction, unless another core donates for the group and has begun its period before.
    pub fn period_start<W: Word>(
        &mut self,
        shared: &Shared<W>,
        period: u32,
        unused: u32,
        out: &mut Vec<Action>,
    ) -> Signal {
        let latest = shared.roll.period();
        let period = if is_later(latest, period) { latest } else { period };
        if !is_later(period, self.period) {
            return Signal::None;
        }
        if let (Phase::Granted, Some(group)) = (self.phase, self.group(shared)) {
            group.demand(self.period).granted.take(self.period, unused);
        }
        let signal = signal_of(shared, shared.roll.open(period));
        shared.pool.open(period, 0);
        self.period = period;
        let first = !std::mem::replace(&mut self.started, true);
        (self.used, self.returned) = (Use::default(), false);
        let before = std::mem::replace(&mut self.phase, Phase::Bare);
        let Some(group) = self.group(shared) else { return signal };
        group.open(period);
        if !self.regulated {
            return signal;
        }
        if self.donates && !first {
            self.donate(shared, group);
        }
        if before == Phase::Throttled {
            out.push(Action::Release { core: self.index, reason: ReleaseReason::PeriodStart });
        }
        if self.busy { signal.and(self.next_grant(shared, out)) } else { signal }
    }

    /// Begins the period that others have begun, if this core's start is late.
    fn catch_up<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> Signal {
        if self.started { self.period_start(shared, shared.roll.period(), 0, out) } else { Signal::None }
    }

    /// Puts the events that the group is not expected to use into the pool; at least one event stays, so that a counter
    /// can be armed. After an underrun nothing is donated: the prediction was too low, and the actual demand is
    /// unknown.
    fn donate<W: Word>(&mut self, shared: &Shared<W>, group: &SharedGroup<W>) {
        let before = self.period.wrapping_sub(1);
        // A period that this core has missed does not predict the next.
        let demand = group.demand(before);
        let (Some(granted), Some(short)) = (demand.granted.of(before), demand.short.of(before)) else { return };
        self.predictor.observe(u64::from(granted) + u64::from(short));
        let (Kind::Soft, Some(expected)) = (group.promise.of(self.period).kind, self.predictor.predict()) else {
            return;
        };
        if short > 0 {
            return;
        }
        let kept = u32::try_from(expected.max(1)).unwrap_or(u32::MAX);
        self.used.donated = group.moving.hold(|| {
            let donated = group.account.take_above(self.period, kept);
            shared.pool.add(self.period, donated);
            group.owed.add(self.period, donated);
            donated
        });
    }

    /// A grant is consumed. Ignored unless it is the core's latest: the overflow was under way when another was given.
    pub fn consumed<W: Word>(&mut self, shared: &Shared<W>, grant: u32, out: &mut Vec<Action>) -> Signal {
        if self.phase != Phase::Granted || self.grant != Number(grant) {
            return Signal::None;
        }
        self.phase = Phase::Bare;
        let signal = self.catch_up(shared, out);
        // An idle core asks again when it is busy.
        if self.phase == Phase::Bare && self.busy { signal.and(self.next_grant(shared, out)) } else { signal }
    }

    /// The core has no work. `unused`: events of its grant that it has not used, by its counter, which stops; they go back where they
    /// came from. 0 if unknown: the counter stays armed.
    pub fn idle<W: Word>(&mut self, shared: &Shared<W>, unused: u32, out: &mut Vec<Action>) -> Signal {
        if !self.busy {
            return Signal::None;
        }
        self.busy = false;
        let mut signal = Signal::None;
        if self.regulated {
            signal = self.give_back(shared, unused);
            signal = signal_of(shared, shared.roll.leave(self.period, self.exhausted())).and(signal);
        }
        signal.and(self.catch_up(shared, out))
    }

    /// The core has work.
    pub fn busy<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> Signal {
        let signal = self.catch_up(shared, out);
        if std::mem::replace(&mut self.busy, true) || !self.regulated {
            return signal;
        }
        signal.and(self.enter(shared, out))
    }

    /// The core is regulated from now on. A core without a group never is.
    pub fn regulate<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> Signal {
        let signal = self.catch_up(shared, out);
        if self.group.is_none() || std::mem::replace(&mut self.regulated, true) || !self.busy {
            return signal;
        }
        signal.and(self.enter(shared, out))
    }

    /// The core is no longer regulated. `unused`: as for [`Core::idle`].
    pub fn exempt<W: Word>(&mut self, shared: &Shared<W>, unused: u32, out: &mut Vec<Action>) -> Signal {
        if !self.regulated {
            return Signal::None;
        }
        let signal = self.give_back(shared, unused);
        let turn = if self.busy { shared.roll.leave(self.period, self.exhausted()) } else { Turn::None };
        (self.regulated, self.phase) = (false, Phase::Bare);
        out.push(Action::Release { core: self.index, reason: ReleaseReason::Unregulated });
        signal_of(shared, turn).and(signal).and(self.catch_up(shared, out))
    }

    /// Makes this core donate for its group, or no longer: at most one core of a group does. Takes effect with the next period.
    pub fn set_donates(&mut self, donates: bool) {
        self.donates = donates;
    }

    /// Becomes active.
    fn enter<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> Signal {
        self.end_throttle_for_returned(shared, out);
        let signal = signal_of(shared, shared.roll.enter(self.period, self.exhausted()));
        // Before the first period nothing is counted.
        if self.phase == Phase::Bare && self.started {
            return signal.and(self.next_grant(shared, out));
        }
        signal
    }

    /// Releases the core if it is throttled and another core of its group has returned events.
    fn end_throttle_for_returned<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> bool {
        let has_left = |group: &SharedGroup<W>| group.account.of(self.period).is_some_and(|left| left > 0);
        if self.phase != Phase::Throttled || !self.group(shared).is_some_and(has_left) {
            return false;
        }
        self.phase = Phase::Bare;
        out.push(Action::Release { core: self.index, reason: ReleaseReason::Returned });
        true
    }

    /// Returns events of a grant that the core does not use now. Another core of its group may have been throttled for want of
    /// them.
    fn give_back<W: Word>(&mut self, shared: &Shared<W>, unused: u32) -> Signal {
        let (Phase::Granted, Some(group)) = (self.phase, self.group(shared)) else { return Signal::None };
        if unused == 0 {
            return Signal::None;
        }
        self.phase = Phase::Bare;
        let (place, origin) = match self.source {
            Source::Reservation => (&mut self.used.reserved, &group.account),
            Source::Donation => (&mut self.used.returned, &group.account),
            Source::Pool => (&mut self.used.reclaimed, &shared.pool),
        };
        let unused = unused.min(*place);
        *place -= unused;
        group.demand(self.period).granted.take(self.period, unused);
        origin.add(self.period, unused);
        if group.is_single { Signal::None } else { Signal::Look }
    }

    /// Checks for changes by other cores: whether a period has begun, whether best-effort sharing has begun or ended,
    /// whether a core of the group has returned events.
    pub fn look<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> Signal {
        let signal = self.catch_up(shared, out);
        if !self.regulated {
            return signal;
        }
        if self.busy && self.end_throttle_for_returned(shared, out) {
            let resumed = signal_of(shared, shared.roll.resume(self.period));
            return signal.and(resumed).and(self.next_grant(shared, out));
        }
        let all_exhausted = shared.roll.all_exhausted(self.period);
        match (shared.sharing, self.phase, all_exhausted) {
            (Sharing::Spare, Phase::Throttled, Some(true)) => self.share(out),
            (Sharing::Spare, Phase::Sharing, Some(false)) => {
                self.phase = Phase::Throttled;
                self.used.throttled = true;
                out.push(Action::Throttle { core: self.index, reason: ThrottleReason::SharingEnded });
            }
            (Sharing::Proportional, Phase::Throttled, Some(true)) => {
                return signal.and(Signal::NextPeriod(self.period.wrapping_add(1)));
            }
            _ => {}
        }
        signal
    }

    fn share(&mut self, out: &mut Vec<Action>) {
        self.phase = Phase::Sharing;
        self.used.shared = true;
        out.push(Action::Release { core: self.index, reason: ReleaseReason::Sharing });
    }

    fn next_grant<W: Word>(&mut self, shared: &Shared<W>, out: &mut Vec<Action>) -> Signal {
        let Some(group) = self.group(shared).filter(|_| self.regulated) else { return Signal::None };
        let (events, source, signal) = match self.find_events(shared, group) {
            Ok(found) => found,
            Err(shortfall) => return self.exhaust(shared, group, shortfall, out),
        };
        let place = match source {
            Source::Reservation => &mut self.used.reserved,
            Source::Donation => &mut self.used.returned,
            Source::Pool => &mut self.used.reclaimed,
        };
        *place += events;
        group.demand(self.period).granted.add(self.period, events);
        self.phase = Phase::Granted;
        (self.grant, self.source) = (Number(self.grant.0.wrapping_add(1)), source);
        out.push(Action::Grant { core: self.index, grant: self.grant.0, events, source });
        signal
    }

    /// Events for the next grant: of the budget, of the group's own donation, of the pool, in this order. If there are none, the
    /// donated events that could not be taken back.
    fn find_events<W: Word>(
        &mut self,
        shared: &Shared<W>,
        group: &SharedGroup<W>,
    ) -> Result<(u32, Source, Signal), u32> {
        let own = |returned| {
            let events = group.account.take(self.period, group.quantum);
            (events > 0).then_some((events, if returned { Source::Donation } else { Source::Reservation }))
        };
        if let Some((events, source)) = own(self.returned) {
            return Ok((events, source, Signal::None));
        }
        if group.promise.of(self.period).kind == Kind::Hard {
            return Err(0);
        }
        let (back, found) = group.moving.hold(|| {
            if let Some(found) = own(self.returned) {
                return (0, Ok(found));
            }
            // All of it at once: events left in the pool may be gone when they are needed.
            let owed = group.owed.take(self.period, u32::MAX);
            let back = shared.pool.take(self.period, owed);
            group.owed.add(self.period, owed - back);
            group.account.add(self.period, back);
            let found = own(true).or_else(|| {
                let more = shared.pool.take(self.period, shared.reclaim_step);
                (more > 0).then_some((more, Source::Pool))
            });
            (back, found.ok_or(owed - back))
        });
        self.returned |= back > 0;
        let (events, source) = found?;
        // Another core of the group may have been throttled before there was anything to take back.
        let signal = if back > events && !group.is_single { Signal::Look } else { Signal::None };
        Ok((events, source, signal))
    }

    fn exhaust<W: Word>(
        &mut self,
        shared: &Shared<W>,
        group: &SharedGroup<W>,
        shortfall: u32,
        out: &mut Vec<Action>,
    ) -> Signal {
        let shortfall = group.demand(self.period).short.raise(self.period, shortfall);
        (self.used.throttled, self.used.shortfall) = (true, self.used.shortfall + shortfall);
        self.phase = Phase::Throttled;
        out.push(Action::Throttle { core: self.index, reason: ThrottleReason::Exhausted { shortfall } });
        let signal = signal_of(shared, shared.roll.exhaust(self.period));
        if signal == Signal::Look {
            self.share(out);
        }
        signal
    }
}

/// The action that a turn requires of the cores.
fn signal_of<W>(shared: &Shared<W>, turn: Turn) -> Signal {
    match (shared.sharing, turn) {
        (Sharing::Off, _) | (_, Turn::None) | (Sharing::Proportional, Turn::NotAllExhausted) => Signal::None,
        (Sharing::Spare, _) => Signal::Look,
        (Sharing::Proportional, Turn::AllExhausted(period)) => Signal::NextPeriod(period.wrapping_add(1)),
    }
}
