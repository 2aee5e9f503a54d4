//! A regulated system and a witness, which keeps separate books from events and actions, and checks the laws after each step.
//! It asks the system only for donations and for what is left in accounts and pool, of which no action tells.

use std::hash::Hash;

use memtint_guard::{
    Action, Config, Event, Guard, GuardError, Kind, Predictor, ReleaseReason, Reservation, Sharing, Source,
    ThrottleReason,
};

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    On(Event),
    Regulate(usize),
    Exempt(usize, u32),
    Reserve(usize, Reservation),
}

impl Step {
    fn core(self) -> Option<usize> {
        match self {
            Step::On(Event::PeriodStart { core, .. } | Event::Consumed { core, .. }) => Some(core),
            Step::On(Event::Idle { core, .. } | Event::Busy { core }) => Some(core),
            Step::Regulate(core) | Step::Exempt(core, _) => Some(core),
            Step::Reserve(..) => None,
        }
    }
}

/// Number of a grant: states that differ in it only are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number(u32);

impl Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// What a core does, by the actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Run {
    /// Nothing is counted: it is not regulated, or idle without a grant.
    Uncounted,
    Granted {
        grant: Number,
        events: u32,
        source: Source,
    },
    Stopped,
    Shared,
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
    /// The backend can tell what a core has left of its grant: all of it, in `states`.
    pub(crate) reads_counters: bool,
    /// The period that was to begin early.
    announced: u32,
    run: Vec<Run>,
    books: Vec<Books>,
    busy: Vec<bool>,
    regulated: Vec<bool>,
    period: Vec<u32>,
    /// Reservations by period, of the latest two periods and the next: a change binds from the next on.
    reservations: Vec<[(u32, Reservation); 3]>,
    /// Shortfalls reported of each group in the latest period.
    short: Vec<u32>,
    /// Other cores have begun a period in this step.
    may_have_donated_later: bool,
    /// Underruns seen in this step.
    pub(crate) underruns: u32,
}

impl<P: Hash> Hash for Witness<P> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.guard.hash(state);
        (
            self.announced,
            &self.run,
            &self.books,
            &self.busy,
            &self.regulated,
            &self.period,
            &self.reservations,
            &self.short,
        )
            .hash(state);
    }
}

impl<P: Predictor + Clone + std::fmt::Debug> Witness<P> {
    pub(crate) fn new(config: Config, predictor: impl Fn(usize) -> P) -> Result<Witness<P>, GuardError> {
        let cores = config.cores;
        let regulated = (0..cores).map(|core| config.groups.iter().any(|group| group.cores.contains(&core)));
        let reservations = config.groups.iter().map(|group| [0, 1, 2].map(|period| (period, group.reservation)));
        Ok(Witness {
            reads_counters: true,
            announced: 0,
            run: vec![Run::Uncounted; cores],
            books: vec![Books::default(); cores],
            busy: vec![false; cores],
            regulated: regulated.collect(),
            period: vec![0; cores],
            reservations: reservations.collect(),
            short: vec![0; config.groups.len()],
            may_have_donated_later: false,
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

    fn left(&self, core: usize) -> u32 {
        if let Run::Granted { events, .. } = self.run[core] { events } else { 0 }
    }

    /// The steps that are possible now, without changes of regulation and reservations. A core's start may be late by any time.
    pub(crate) fn possible(&self, last_period: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        for core in 0..self.run.len() {
            let unused = if self.reads_counters { self.left(core) } else { 0 };
            let next = self.period[core] + 1;
            if next <= last_period {
                steps.push(Step::On(Event::PeriodStart { core, period: next, unused }));
            }
            if let Run::Granted { grant: Number(grant), .. } = self.run[core] {
                // The second is of a counter that was armed anew.
                steps.extend([grant, grant.wrapping_sub(1)].map(|grant| Step::On(Event::Consumed { core, grant })));
            }
            steps.push(Step::On(match self.busy[core] {
                true => Event::Idle { core, unused },
                false => Event::Busy { core },
            }));
        }
        steps
    }

    pub(crate) fn regulation(&self, core: usize) -> Step {
        let unused = if self.reads_counters { self.left(core) } else { 0 };
        if self.regulated[core] { Step::Exempt(core, unused) } else { Step::Regulate(core) }
    }

    /// Takes a step, keeps the books, and checks every law.
    pub(crate) fn take(&mut self, step: Step) {
        let mut actions = Vec::new();
        self.underruns = 0;
        match step {
            Step::On(event) => {
                let before = step.core().map_or(Run::Uncounted, |core| self.run[core]);
                match event {
                    Event::Idle { core, unused } => {
                        self.give_back(core, unused);
                        self.busy[core] = false;
                    }
                    Event::Busy { core } => self.busy[core] = true,
                    Event::PeriodStart { .. } | Event::Consumed { .. } => {}
                }
                self.guard.on(event, &mut actions);
                if let (Event::Consumed { core, grant }, Run::Granted { grant: Number(latest), .. }) = (event, before) {
                    assert!(grant == latest || actions.is_empty(), "core {core}: {actions:?}");
                }
            }
            Step::Regulate(core) => {
                self.regulated[core] = true;
                self.guard.regulate(core, &mut actions);
            }
            Step::Exempt(core, unused) => {
                self.give_back(core, unused);
                self.regulated[core] = false;
                self.guard.exempt(core, unused, &mut actions);
            }
            Step::Reserve(group, reservation) => {
                if self.guard.set_reservation(group, reservation).is_ok() {
                    let latest = self.latest();
                    let later = self.reservations[group].iter_mut().filter(|(period, _)| *period > latest);
                    later.for_each(|(_, of)| *of = reservation);
                }
            }
        }
        self.may_have_donated_later = false;
        for core in 0..self.run.len() {
            let period = self.guard.core(core).period();
            if period != self.period[core] {
                self.begin(core, period);
                self.may_have_donated_later |= step.core() != Some(core);
            }
        }
        actions.iter().for_each(|&action| self.enter(action));
        self.check();
    }

    fn place(&mut self, core: usize, source: Source) -> &mut u32 {
        let books = &mut self.books[core];
        match source {
            Source::Reservation => &mut books.reserved,
            Source::Donation => &mut books.returned,
            Source::Pool => &mut books.reclaimed,
        }
    }

    fn give_back(&mut self, core: usize, unused: u32) {
        if let (Run::Granted { source, .. }, 1..) = (self.run[core], unused) {
            *self.place(core, source) -= unused;
            self.run[core] = Run::Uncounted;
        }
    }

    fn begin(&mut self, core: usize, period: u32) {
        let latest = self.latest();
        if period > latest {
            assert!(period <= latest + 2, "steps of `possible`");
            for of in &mut self.reservations {
                let in_force =
                    |at: u32| of.iter().rev().find(|(from, _)| *from <= at).expect("of the latest periods").1;
                *of = [period - 1, period, period + 1].map(|at| (at, in_force(at)));
            }
            self.short.fill(0);
        }
        self.period[core] = period;
        self.books[core] = Books::default();
        if let Run::Granted { .. } | Run::Shared = self.run[core] {
            self.run[core] = Run::Uncounted;
        }
    }

    fn enter(&mut self, action: Action) {
        match action {
            Action::Grant { core, grant, events, source } => {
                let group = self.group_of(core);
                assert!((1..=self.guard.config().groups[group].quantum).contains(&events), "{action:?}");
                assert!(self.busy[core] && self.run[core] != Run::Stopped, "{action:?}");
                *self.place(core, source) += events;
                self.run[core] = Run::Granted { grant: Number(grant), events, source };
            }
            Action::Throttle { core, reason } => {
                assert_ne!(self.run[core], Run::Stopped, "{action:?}");
                self.run[core] = Run::Stopped;
                if let ThrottleReason::Exhausted { shortfall } = reason {
                    self.check_exhausted(core, shortfall);
                }
            }
            Action::Release { core, reason } => {
                assert!(self.run[core] == Run::Stopped || reason == ReleaseReason::Unregulated, "{action:?}");
                self.run[core] = if reason == ReleaseReason::Sharing { Run::Shared } else { Run::Uncounted };
            }
            Action::NextPeriod { period } => {
                assert_eq!(period, self.latest() + 1);
                self.announced = period;
            }
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

    /// A core is throttled: its group has had all of its budget, but for what others have of its donation.
    fn check_exhausted(&mut self, core: usize, shortfall: u32) {
        let (group, period) = (self.group_of(core), self.period[core]);
        assert_eq!(period, self.latest(), "core {core} of {self:?}");
        let Reservation { budget, kind } = self.reservation(group, period);
        self.short[group] += shortfall;
        let members = &self.guard.config().groups[group].cores;
        if members.iter().all(|&core| self.period[core] == period) {
            let own = self.own(group, period);
            assert!(own <= budget && own + self.short[group] >= budget, "core {core} of {self:?}");
        }
        match kind {
            Kind::Hard => assert_eq!(shortfall, 0, "core {core} of {self:?}"),
            Kind::Soft if self.may_have_donated_later => {}
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
            assert_eq!(seen.is_sharing(), self.run[core] == Run::Shared, "core {core} of {self:?}");
            let active = self.regulated[core] && self.busy[core] && self.period[core] > 0;
            assert!(!active || self.run[core] != Run::Uncounted, "core {core} is not counted: {self:?}");
            assert!(self.regulated[core] || self.run[core] == Run::Uncounted, "core {core} of {self:?}");
            if active && self.period[core] == latest && self.run[core] == Run::Stopped {
                assert_eq!(self.guard.shared().left(self.group_of(core), latest), 0, "core {core} of {self:?}");
            }
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
                    // In larger groups, what another core has returned counts as donation, too.
                    from_donations += books.reclaimed + if of.cores.len() == 1 { books.returned } else { 0 };
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
        let is_exhausted =
            |core: usize| self.period[core] == latest && matches!(self.run[core], Run::Stopped | Run::Shared);
        let all_exhausted = latest > 0 && active().next().is_some() && active().all(is_exhausted);
        let sharing = self.guard.config().sharing;
        for core in 0..self.run.len() {
            let shares = self.run[core] == Run::Shared;
            assert!(!shares || sharing == Sharing::Spare && self.period[core] == latest, "core {core} of {self:?}");
            if shares && active().next().is_some() {
                assert!(all_exhausted, "core {core} shares although another has guarantee left: {self:?}");
            }
        }
        if all_exhausted {
            let left_out = |core: usize| self.run[core] == Run::Stopped;
            assert!(sharing != Sharing::Spare || !active().any(left_out), "all have used their guarantee: {self:?}");
            assert!(sharing != Sharing::Proportional || self.announced == latest + 1, "no period begins: {self:?}");
        }
    }
}
