//! A regulated system and a witness, which keeps its own books from events and actions alone and checks the laws after each step.

use std::hash::Hash;

use memtint_guard::{
    Action, Config, Event, Guard, GuardError, Kind, Predictor, ReleaseReason, Reservation, Sharing, Source,
    ThrottleReason,
};

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    On(Event),
    Regulate(usize, bool),
    Reserve(usize, Reservation),
}

/// What a core does, by the actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Run {
    Uncounted,
    Granted(u32),
    Stopped,
}

/// Books on one core in its current period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Books {
    reserved: u32,
    returned: u32,
    reclaimed: u32,
}

impl Books {
    fn own(&self) -> u32 {
        self.reserved + self.returned
    }
}

/// The system, and the witness's books.
#[derive(Clone, Debug)]
pub(crate) struct Witness<P> {
    pub(crate) guard: Guard<P>,
    /// The backend can tell what a core has left of its grant: all of it, in these proofs.
    pub(crate) reads_counters: bool,
    run: Vec<Run>,
    books: Vec<Books>,
    busy: Vec<bool>,
    regulated: Vec<bool>,
    period: Vec<u32>,
    /// Reservations by period, of the latest two periods and the next: a change binds from the next on.
    reservations: Vec<[(u32, Reservation); 3]>,
    /// Underruns seen in this step.
    pub(crate) underruns: u32,
}

impl<P: Hash> Hash for Witness<P> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.guard.hash(state);
        (&self.run, &self.books, &self.busy, &self.regulated, &self.period, &self.reservations).hash(state);
    }
}

impl<P: Predictor + Clone + std::fmt::Debug> Witness<P> {
    pub(crate) fn new(config: Config, predictor: impl Fn(usize) -> P) -> Result<Witness<P>, GuardError> {
        let cores = config.cores;
        let regulated = (0..cores).map(|core| config.groups.iter().any(|group| group.cores.contains(&core)));
        let reservations = config.groups.iter().map(|group| [0, 1, 2].map(|period| (period, group.reservation)));
        Ok(Witness {
            reads_counters: true,
            run: vec![Run::Uncounted; cores],
            books: vec![Books::default(); cores],
            busy: vec![false; cores],
            regulated: regulated.collect(),
            period: vec![0; cores],
            reservations: reservations.collect(),
            underruns: 0,
            guard: Guard::new(config, predictor)?,
        })
    }

    fn latest(&self) -> u32 {
        self.period.iter().copied().max().unwrap_or(0)
    }

    fn reservation(&self, group: usize, period: u32) -> Reservation {
        self.reservations[group].iter().find(|(of, _)| *of == period).expect("of the latest periods").1
    }

    /// The steps that are possible now, without changes of reservations. No core is more than one period ahead of another.
    pub(crate) fn possible(&self, last_period: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let earliest = self.period.iter().copied().min().unwrap_or(0);
        for core in 0..self.run.len() {
            let next = self.period[core] + 1;
            if next <= last_period && next <= earliest + 1 {
                let most = if let Run::Granted(events) = self.run[core] { events } else { 0 };
                let unused = if self.reads_counters { most } else { 0 };
                steps.push(Step::On(Event::PeriodStart { core, period: next, unused }));
            }
            if self.busy[core] {
                steps.push(Step::On(Event::Idle { core }));
                if matches!(self.run[core], Run::Granted(_)) {
                    steps.push(Step::On(Event::Consumed { core }));
                }
            } else {
                steps.push(Step::On(Event::Busy { core }));
            }
        }
        steps
    }

    pub(crate) fn is_regulated(&self, core: usize) -> bool {
        self.regulated[core]
    }

    /// Takes a step, keeps the books, and checks every law.
    pub(crate) fn take(&mut self, step: Step) {
        let mut actions = Vec::new();
        self.underruns = 0;
        match step {
            Step::On(event) => {
                match event {
                    Event::PeriodStart { core, period, .. } => self.begin(core, period),
                    Event::Idle { core } => self.busy[core] = false,
                    Event::Busy { core } => self.busy[core] = true,
                    Event::Consumed { .. } => {}
                }
                self.guard.on(event, &mut actions);
            }
            Step::Regulate(core, regulated) => {
                self.regulated[core] = regulated;
                self.guard.set_regulated(core, regulated, &mut actions);
            }
            Step::Reserve(group, reservation) => {
                if self.guard.set_reservation(group, reservation).is_ok() {
                    let latest = self.latest();
                    let later = self.reservations[group].iter_mut().filter(|(period, _)| *period > latest);
                    later.for_each(|(_, of)| *of = reservation);
                }
            }
        }
        actions.iter().for_each(|&action| self.enter(action));
        self.check();
    }

    fn begin(&mut self, core: usize, period: u32) {
        if period > self.latest() {
            for of in &mut self.reservations {
                let [_, (_, current), (latest, next)] = *of;
                *of = [(latest - 1, current), (latest, next), (latest + 1, next)];
                if latest != period {
                    *of = [(period - 1, current), (period, next), (period + 1, next)];
                }
            }
        }
        self.period[core] = period;
        self.books[core] = Books::default();
    }

    fn enter(&mut self, action: Action) {
        match action {
            Action::Grant { core, events, source } => {
                let group = self.group_of(core);
                assert!((1..=self.guard.config().groups[group].quantum).contains(&events), "{action:?}");
                let books = &mut self.books[core];
                match source {
                    Source::Reservation => books.reserved += events,
                    Source::Donation => books.returned += events,
                    Source::Pool => books.reclaimed += events,
                }
                self.run[core] = Run::Granted(events);
            }
            Action::Throttle { core, reason } => {
                assert_ne!(self.run[core], Run::Stopped, "{action:?}");
                self.run[core] = Run::Stopped;
                if let ThrottleReason::Exhausted { shortfall } = reason {
                    self.check_exhausted(core, shortfall);
                }
            }
            Action::Release { core, reason } => {
                assert!(self.run[core] == Run::Stopped || reason != ReleaseReason::PeriodStart, "{action:?}");
                self.run[core] = Run::Uncounted;
            }
            Action::NextPeriod { period } => assert_eq!(period, self.latest() + 1),
        }
    }

    fn group_of(&self, core: usize) -> usize {
        self.guard.config().groups.iter().position(|group| group.cores.contains(&core)).expect("a regulated core")
    }

    /// Members of a group that are in a period.
    fn members(&self, group: usize, period: u32) -> impl Iterator<Item = usize> + '_ {
        let members = self.guard.config().groups[group].cores.iter().copied();
        members.filter(move |&core| self.period[core] == period)
    }

    fn own(&self, group: usize, period: u32) -> u32 {
        self.members(group, period).map(|core| self.books[core].own()).sum()
    }

    /// A core stands still: its group has had all of its budget, but for what others have taken of its donation.
    fn check_exhausted(&mut self, core: usize, shortfall: u32) {
        let (group, period) = (self.group_of(core), self.period[core]);
        if period != self.latest() {
            // It is about to begin the period that others are in.
            return;
        }
        let Reservation { budget, kind } = self.reservation(group, period);
        let members = &self.guard.config().groups[group].cores;
        if members.iter().all(|&core| self.period[core] == period) {
            assert_eq!(self.own(group, period) + shortfall, budget, "core {core} of {self:?}");
        }
        match kind {
            Kind::Hard => assert_eq!(shortfall, 0, "core {core} of {self:?}"),
            Kind::Soft => assert_eq!(self.guard.shared().pool(period), 0, "core {core} of {self:?}"),
        }
        self.underruns += u32::from(shortfall > 0);
    }

    fn check(&self) {
        let latest = self.latest();
        self.check_sums(latest);
        for core in 0..self.run.len() {
            let seen = self.guard.core(core);
            assert_eq!(seen.is_throttled(), self.run[core] == Run::Stopped, "core {core} of {self:?}");
            let active = self.regulated[core] && self.busy[core] && self.period[core] > 0;
            // A regulated core runs uncounted only in best-effort sharing.
            assert!(!active || seen.is_sharing() || self.run[core] != Run::Uncounted, "core {core} of {self:?}");
            assert!(!seen.is_sharing() || self.run[core] == Run::Uncounted, "core {core} of {self:?}");
            assert!(self.regulated[core] || self.run[core] == Run::Uncounted, "core {core} of {self:?}");
        }
        self.check_sharing(latest);
    }

    /// Grants never exceed reservations and donations.
    fn check_sums(&self, latest: u32) {
        for period in [latest, latest.saturating_sub(1)] {
            let (mut granted, mut budgets, mut donated, mut from_donations) = (0, 0, 0, 0);
            for (group, of) in self.guard.config().groups.iter().enumerate() {
                let Reservation { budget, kind } = self.reservation(group, period);
                budgets += budget;
                let mut given = 0;
                for core in self.members(group, period) {
                    let books = self.books[core];
                    granted += books.own() + books.reclaimed;
                    from_donations += books.returned + books.reclaimed;
                    given += self.guard.used(core).donated;
                    assert!(kind == Kind::Soft || books.reclaimed + books.returned == 0, "{self:?}");
                }
                assert!(kind == Kind::Soft || given == 0, "{self:?}");
                donated += given;
                if of.cores.iter().all(|&core| self.period[core] == period) {
                    assert!(self.own(group, period) <= budget, "{self:?}");
                }
            }
            assert!(granted <= budgets, "period {period} of {self:?}");
            if self.period.iter().all(|&at| at == period) {
                assert!(from_donations <= donated, "period {period} of {self:?}");
            }
        }
    }

    /// Best-effort sharing is on exactly while every active core has used its guarantee. Idle cores do not block it.
    fn check_sharing(&self, latest: u32) {
        let active = || (0..self.run.len()).filter(|&core| self.regulated[core] && self.busy[core]);
        let here = |core: usize| self.period[core] == latest;
        let all_exhausted = active().all(|core| {
            let seen = self.guard.core(core);
            here(core) && (seen.is_throttled() || seen.is_sharing())
        });
        let shares = self.guard.config().sharing == Sharing::Spare;
        for core in active() {
            let seen = self.guard.core(core);
            assert!(shares || !seen.is_sharing(), "{self:?}");
            if shares && latest > 0 && all_exhausted {
                assert!(
                    !seen.is_throttled(),
                    "core {core} is throttled although all have used their guarantee: {self:?}"
                );
            }
            if here(core) && seen.is_sharing() {
                assert!(all_exhausted, "core {core} shares although another has guarantee left: {self:?}");
            }
        }
    }
}
