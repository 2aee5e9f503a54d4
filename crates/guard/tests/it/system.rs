//! Cores that use memory under a regulator, one event at a time.

use memtint_guard::{Action, Config, Event, Guard, Predictor, ThrottleReason};

/// Carries out the actions of a [`Guard`] as hardware would: counters that count down, and cores that stop.
pub(crate) struct System<P> {
    pub(crate) guard: Guard<P>,
    /// Events until the counter of each core overflows, and the grant it is armed for; `None`: not counted.
    counters: Vec<Option<(u32, u32)>>,
    stopped: Vec<bool>,
    period: u32,
    /// Actions since it was last drained.
    pub(crate) log: Vec<Action>,
}

impl<P: Predictor> System<P> {
    /// Starts with all cores busy, in period 1.
    pub(crate) fn new(config: Config, predictor: impl Fn(usize) -> P) -> System<P> {
        let cores = config.cores;
        let guard = Guard::new(config, predictor).expect("a sound system");
        let mut system =
            System { guard, counters: vec![None; cores], stopped: vec![false; cores], period: 0, log: Vec::new() };
        (0..cores).for_each(|core| system.on(Event::Busy { core }));
        system.period_starts();
        system
    }

    pub(crate) fn period_starts(&mut self) {
        self.period += 1;
        let period = self.period;
        for core in 0..self.counters.len() {
            let unused = self.counters[core].map_or(0, |(left, _)| left);
            self.on(Event::PeriodStart { core, period, unused });
        }
    }

    /// A core would use memory: `true` if it does, `false` if it stands still.
    pub(crate) fn access(&mut self, core: usize) -> bool {
        if self.stopped[core] {
            return false;
        }
        if let Some((left, grant)) = &mut self.counters[core] {
            *left -= 1;
            if *left == 0 {
                let grant = *grant;
                self.counters[core] = None;
                self.on(Event::Consumed { core, grant });
            }
        }
        true
    }

    /// Uses memory until the core is throttled or has used `most` events; returns the number used.
    pub(crate) fn use_up_to(&mut self, core: usize, most: u32) -> u32 {
        (0..most).take_while(|_| self.access(core)).count() as u32
    }

    pub(crate) fn is_stopped(&self, core: usize) -> bool {
        self.stopped[core]
    }

    /// Shortfalls of drained actions.
    pub(crate) fn shortfalls(&mut self) -> Vec<(usize, u32)> {
        let shortfall = |action| match action {
            Action::Throttle { core, reason: ThrottleReason::Exhausted { shortfall: shortfall @ 1.. } } => {
                Some((core, shortfall))
            }
            _ => None,
        };
        self.log.drain(..).filter_map(shortfall).collect()
    }

    pub(crate) fn on(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.guard.on(event, &mut actions);
        actions.into_iter().for_each(|action| self.carry_out(action));
    }

    pub(crate) fn carry_out(&mut self, action: Action) {
        self.log.push(action);
        match action {
            Action::Grant { core, grant, events, .. } => self.counters[core] = Some((events, grant)),
            Action::Throttle { core, .. } => self.stopped[core] = true,
            Action::Release { core, .. } => (self.stopped[core], self.counters[core]) = (false, None),
            Action::NextPeriod { .. } => self.period_starts(),
        }
    }
}
