//! Logs of random events of random systems, with what the state machine answers: what an implementation in another language is held
//! against. `kernel/modules/memguard/unit/replay.c` says what the numbers are.

use memtint_units::Random;
use std::cell::Cell;

use memtint_guard::{
    Action, Config, Core, Ewma, Group, Kind, ReleaseReason, Reservation, Shared, Sharing, Signal, Source,
    ThrottleReason, parts,
};

/// Systems that are compared, and events on each.
pub(crate) const SYSTEMS: u64 = 400;
pub(crate) const EVENTS: usize = 1500;

/// Draws systems and events.
struct Drawn(Random);

impl Drawn {
    fn below(&mut self, most: u32) -> u32 {
        self.0.within(0, u64::from(most) - 1) as u32
    }

    fn reservation(&mut self) -> Reservation {
        // Some of no use, and some large.
        let budget = [1, 3, 50, 200, 1 << 20][self.below(5) as usize];
        let kind = if self.below(3) > 0 { Kind::Soft } else { Kind::Hard };
        Reservation { budget: 1 + self.below(budget), kind }
    }

    /// Groups of one to three of up to eight cores; some cores are in none.
    fn system(&mut self) -> Config {
        let cores = 1 + self.below(8) as usize;
        let (mut groups, mut first) = (Vec::new(), 0);
        while first < cores {
            let end = cores.min(first + 1 + self.below(3) as usize);
            if self.below(5) > 0 {
                let (reservation, quantum) = (self.reservation(), 8 + self.below(30));
                groups.push(Group { cores: (first..end).collect(), reservation, quantum, skid: 0 });
            }
            first = end;
        }
        let sharing = [Sharing::Off, Sharing::Spare, Sharing::Proportional][self.below(3) as usize];
        Config { cores, groups, guaranteed: 1 << 30, reclaim_step: 1 + self.below(8), sharing }
    }
}

/// A system of this crate, with input and expected output of the program in C.
pub(crate) struct Log {
    shared: Shared<Cell<u64>>,
    cores: Vec<Core<Ewma>>,
    pub(crate) config: Config,
    /// The system, and four numbers for each event.
    pub(crate) told: Vec<u32>,
    /// For each event.
    pub(crate) answers: Vec<Vec<u32>>,
    /// The latest grant of each core, and its events.
    grants: Vec<(u32, u32)>,
}

fn kind(kind: Kind) -> u32 {
    u32::from(kind == Kind::Soft)
}

impl Log {
    /// The log of a seed, with all of its events.
    pub(crate) fn of_seed(seed: u64) -> Log {
        let mut random = Drawn(Random::new(seed));
        let config = random.system();
        let mut log = Log::new(config, 1 + random.below(4));
        (0..EVENTS).for_each(|_| log.step(&mut random));
        log
    }

    fn new(config: Config, shift: u32) -> Log {
        let (shared, cores) = parts(&config, |_| Ewma::new(shift)).expect("a sound system");
        let mut told = vec![config.cores as u32, config.groups.len() as u32, EVENTS as u32, config.reclaim_step];
        told.extend([config.sharing as u32, shift]);
        for group in &config.groups {
            let Reservation { budget, kind: of } = group.reservation;
            told.extend([budget, kind(of), group.quantum, u32::from(group.cores.len() == 1)]);
        }
        for core in 0..config.cores {
            let group = config.groups.iter().position(|group| group.cores.contains(&core));
            let donates = group.is_some_and(|group| config.groups[group].cores[0] == core);
            told.extend([group.map_or(0, |group| group as u32 + 1), u32::from(donates)]);
        }
        let grants = vec![(0, 0); config.cores];
        Log { shared, cores, config, told, answers: Vec::new(), grants }
    }

    /// Takes any event on any core, mostly those that make sense there.
    fn step(&mut self, random: &mut Drawn) {
        let index = random.below(self.config.cores as u32) as usize;
        let (core, shared, mut out) = (&mut self.cores[index], &self.shared, Vec::new());
        let (grant, events) = self.grants[index];
        let unused = random.below(events + 2) * random.below(2);
        let (what, first, second, signal) = match random.below(100) {
            0..20 => {
                // Period numbers wrap around in some systems.
                let ahead = [0, 1, 1, 1, 1, 1, 1, 1, 2, 1 << 29][random.below(10) as usize];
                let period = core.period().wrapping_add(if random.below(10) > 0 { ahead.min(2) } else { ahead });
                (0, period, unused, core.period_start(shared, period, unused, &mut out))
            }
            20..75 => {
                let grant = grant.wrapping_sub(u32::from(random.below(20) == 0));
                (1, grant, 0, core.consumed(shared, grant, &mut out))
            }
            75..80 => (2, unused, 0, core.idle(shared, unused, &mut out)),
            80..88 => (3, 0, 0, core.busy(shared, &mut out)),
            88..90 => (4, 0, 0, core.regulate(shared, &mut out)),
            90..91 => (5, unused, 0, core.exempt(shared, unused, &mut out)),
            91..99 => (6, 0, 0, core.look(shared, &mut out)),
            _ => {
                let reservation = random.reservation();
                let from = shared.period().wrapping_add(1 + random.below(2));
                if let Some(group) = self.config.groups.iter().position(|group| group.cores.contains(&index)) {
                    shared.set_reservation(group, from, reservation);
                }
                (7, from, kind(reservation.kind) << 31 | reservation.budget, Signal::None)
            }
        };
        self.told.extend([what, index as u32, first, second]);
        for action in &out {
            if let Action::Grant { core, grant, events, .. } = *action {
                self.grants[core] = (grant, events);
            }
        }
        let answer = self.answer(index, signal, &out);
        self.answers.push(answer);
    }

    /// Expected output for an event.
    fn answer(&self, index: usize, signal: Signal, out: &[Action]) -> Vec<u32> {
        let signal = match signal {
            Signal::None => [0, 0],
            Signal::Look => [1, 0],
            Signal::NextPeriod(period) => [2, period],
        };
        let mut answer = signal.to_vec();
        answer.push(out.len() as u32);
        out.iter().for_each(|action| answer.extend(numbers(action)));
        let (core, shared) = (&self.cores[index], &self.shared);
        let used = core.used();
        answer.extend([used.reserved, used.returned, used.reclaimed, used.donated, used.shortfall]);
        answer.extend([used.throttled, used.shared, core.is_throttled(), core.is_sharing()].map(u32::from));
        answer.extend([core.period(), core.is_busy().into(), core.is_regulated().into()]);
        answer.extend([shared.period(), shared.all_exhausted().into(), shared.pool(shared.period())]);
        let group = self.config.groups.iter().position(|group| group.cores.contains(&index));
        let of = |left: fn(&Shared<Cell<u64>>, usize, u32) -> u32| {
            group.map_or(0, |group| left(shared, group, core.period()))
        };
        answer.extend([of(Shared::left), of(Shared::owed)]);
        answer
    }
}

/// What, why, number of the grant, events.
fn numbers(action: &Action) -> [u32; 4] {
    match *action {
        Action::Grant { grant, events, source, .. } => {
            let why = match source {
                Source::Reservation => 0,
                Source::Donation => 1,
                Source::Pool => 2,
            };
            [0, why, grant, events]
        }
        Action::Throttle { reason: ThrottleReason::Exhausted { shortfall }, .. } => [1, 0, 0, shortfall],
        Action::Throttle { reason: ThrottleReason::SharingEnded, .. } => [1, 1, 0, 0],
        Action::Release { reason, .. } => {
            let why = match reason {
                ReleaseReason::PeriodStart => 2,
                ReleaseReason::Sharing => 3,
                ReleaseReason::Returned => 4,
                ReleaseReason::Unregulated => 5,
            };
            [2, why, 0, 0]
        }
        Action::NextPeriod { .. } => unreachable!("only a whole system gives it"),
    }
}
