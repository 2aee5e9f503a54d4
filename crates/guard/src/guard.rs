//! A whole system, regulated from one thread.

use std::cell::Cell;

use crate::core::{Action, Core, Shared, Signal, Use};
use crate::predict::Predictor;
use crate::rule::{Config, GuardError, Reservation};
use crate::word::Word;

/// A report of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A period begins on a core. Numbers begin at 1 and are the same for all cores.
    PeriodStart {
        /// The core.
        core: usize,
        /// Number of the period. One that is not later than the core's current one is ignored.
        period: u32,
        /// Events of the core's last grant that it has not used, by its counter; 0 if unknown. They lapse.
        unused: u32,
    },
    /// A core has used all events of a grant.
    Consumed {
        /// The core.
        core: usize,
        /// Number of the grant. One that is not the core's latest is ignored.
        grant: u32,
    },
    /// A core has no work left. All cores are idle at first.
    Idle {
        /// The core.
        core: usize,
        /// Events of its grant that it has not used, by its counter, which stops: they go back where they came from. 0 if
        /// unknown: the counter stays armed.
        unused: u32,
    },
    /// A core has work.
    Busy {
        /// The core.
        core: usize,
    },
}

/// The regulators of all cores of a system.
///
/// ```text
/// Event (period start, grant consumed, idle, busy) --> Guard --> Actions (grant, throttle, release)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard<P> {
    config: Config,
    shared: Shared<Cell<u64>>,
    cores: Vec<Core<P>>,
}

impl<P: std::hash::Hash> std::hash::Hash for Guard<P> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // The configuration changes only with the reservations, which are shared.
        self.shared.hash(state);
        self.cores.hash(state);
    }
}

/// Creates the parts of a regulator, all cores idle, for a backend in which each CPU has its own core and the words are shared.
/// `predictor` gives each core its own, by the index of the core; the first regulated core of a group uses it.
///
/// # Errors
/// See [`Config::check`].
pub fn parts<W: Word, P: Predictor>(
    config: &Config,
    predictor: impl Fn(usize) -> P,
) -> Result<(Shared<W>, Vec<Core<P>>), GuardError> {
    config.check()?;
    let cores = (0..config.cores).map(|core| Core::new(config, core, predictor(core))).collect();
    Ok((Shared::new(config), cores))
}

impl<P: Predictor> Guard<P> {
    /// Creates the regulators of a system with all cores idle. `predictor` gives each core its own, by the core's index; the first
    /// regulated core of a group uses it.
    ///
    /// # Errors
    /// See [`Config::check`].
    pub fn new(config: Config, predictor: impl Fn(usize) -> P) -> Result<Guard<P>, GuardError> {
        let (shared, cores) = parts(&config, predictor)?;
        Ok(Guard { config, shared, cores })
    }

    /// The system as it is configured; a changed reservation is in it at once, though it binds from the next period on.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A core.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn core(&self, core: usize) -> &Core<P> {
        &self.cores[core]
    }

    /// Events granted to a core since its current period began. Read it before the next begins.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn used(&self, core: usize) -> Use {
        self.cores[core].used()
    }

    /// The state shared by the cores.
    pub fn shared(&self) -> &Shared<Cell<u64>> {
        &self.shared
    }

    /// Takes an event, and appends the required actions to `out`.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn on(&mut self, event: Event, out: &mut Vec<Action>) {
        let shared = &self.shared;
        let signal = match event {
            Event::PeriodStart { core, period, unused } => self.cores[core].period_start(shared, period, unused, out),
            Event::Consumed { core, grant } => self.cores[core].consumed(shared, grant, out),
            Event::Idle { core, unused } => self.cores[core].idle(shared, unused, out),
            Event::Busy { core } => self.cores[core].busy(shared, out),
        };
        self.carry_out(signal, out);
    }

    /// Regulates a core from now on. Cores without a group never are.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn regulate(&mut self, core: usize, out: &mut Vec<Action>) {
        let signal = self.cores[core].regulate(&self.shared, out);
        self.choose_donors();
        self.carry_out(signal, out);
    }

    /// Regulates a core no longer. `unused`: as for [`Event::Idle`].
    ///
    /// # Panics
    /// When there is no such core.
    pub fn exempt(&mut self, core: usize, unused: u32, out: &mut Vec<Action>) {
        let signal = self.cores[core].exempt(&self.shared, unused, out);
        self.choose_donors();
        self.carry_out(signal, out);
    }

    fn choose_donors(&mut self) {
        for group in &self.config.groups {
            let first = group.cores.iter().copied().find(|&core| self.cores[core].is_regulated());
            group.cores.iter().for_each(|&core| self.cores[core].set_donates(Some(core) == first));
        }
    }

    /// Gives a group another budget or kind, from the next period on.
    ///
    /// # Errors
    /// See [`Config::check`]; then nothing has changed.
    pub fn set_reservation(&mut self, group: usize, reservation: Reservation) -> Result<(), GuardError> {
        let mut config = self.config.clone();
        let groups = config.groups.len();
        config.groups.get_mut(group).ok_or(GuardError::NoGroup { group, groups })?.reservation = reservation;
        config.check()?;
        self.config = config;
        self.shared.set_reservation(group, self.shared.period().wrapping_add(1), reservation);
        Ok(())
    }

    fn carry_out(&mut self, mut signal: Signal, out: &mut Vec<Action>) {
        while signal == Signal::Look {
            // A core that begins a late period, or gets returned events, may have to signal in turn.
            let looks = self.cores.iter_mut().map(|core| core.look(&self.shared, out));
            signal = looks.fold(Signal::None, Signal::and);
        }
        // The core that asked for it may have looked before another one got returned events.
        if let Signal::NextPeriod(period) = signal
            && self.shared.all_exhausted()
        {
            out.push(Action::NextPeriod { period });
        }
    }
}
