//! Speed of the state machine of bandwidth regulation.
//!
//! The events of a system are drawn once, together with the responses of the regulator, and replayed. The baseline,
//! textbook budgets, gets the same events: one number for each core, no donation, no sharing, no state that other cores
//! change. Time is CPU time of this thread; all kinds are measured in turn, repeatedly.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use memtint_bench::{Beside, Disturbance, Host, Spread, cpu_seconds};
use memtint_guard::{Action, Config, Event, Ewma, Group, Guard, Kind, LastValue, Reservation, Sharing, parts};
use memtint_units::Random;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Benchmark;
use crate::words::words;

/// Schema version of the report.
const SCHEMA: u32 = 1;
/// Target for the time of an event, in nanoseconds.
const TARGET_NS: f64 = 20.0;
/// Approximate number of events of a core between two periods.
const EVENTS_PER_PERIOD: usize = 40;
/// Grants of a budget.
const GRANTS: u32 = 24;
const QUANTUM: u32 = 64;
/// States visited in the second measurement; a tenth with --quick.
const STATES: usize = 400_000;

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Events of each system, at least one.
    pub events: u32,
    /// Runs of each kind, at least one.
    pub repeat: usize,
    /// Whether only a tenth of the states is visited.
    pub quick: bool,
    /// Seed of the events.
    pub seed: u64,
}

words! {
    /// How the cores of a regulated system share budgets.
    System {
        /// Hard reservations: a core that has used its budget stops until the next period.
        Hard = "hard",
        /// Soft reservations with donated budgets; once all are used, all cores run unregulated until the period is over.
        SpareSharing = "soft, spare sharing",
        /// Soft reservations with donated budgets; once all are used, the next period begins at once.
        ProportionalSharing = "soft, proportional sharing",
    }
}

/// The report of the benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GuardReport {
    /// Schema version of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "guard"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine of the measurement.
    pub machine: Host,
    /// Other load on the machine during the benchmark; null where the kernel does not report it.
    pub disturbance: Option<Disturbance>,
    /// Seed of the events.
    pub seed: u64,
    /// Runs of each kind.
    pub repeat: usize,
    /// Whether the benchmark ran with `--quick`.
    pub quick: bool,
    /// Measuring threads.
    pub threads: u32,
    /// One system each.
    pub rows: Vec<GuardRow>,
    /// Rate of states visited when all orders of events are tried.
    pub states_per_second: StateRate,
    /// Whether each row reaches its target.
    pub target_met: bool,
}

/// The events of one system.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GuardRow {
    /// How its cores share budgets.
    pub system: System,
    /// Its cores.
    pub cores: usize,
    /// Events of a run.
    pub events: usize,
    /// Nanoseconds of CPU time for each event.
    pub cpu_ns: Sides,
    /// The state machine's median divided by that of the textbook.
    pub guard_by_textbook: f64,
    /// Target for the median of the state machine, in nanoseconds.
    pub target_ns: f64,
    /// Whether the target is met.
    pub target_met: bool,
}

/// The compared implementations.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Sides {
    /// The state machine of all cores.
    pub guard: Times,
    /// Its parts, one for each core, with shared atomic words.
    pub shared_words: Times,
    /// Budgets only: one number for each core that no other core changes.
    pub textbook: Times,
}

/// Times of one side for each event, over all runs.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Times {
    /// Median, minimum and maximum, in nanoseconds.
    #[serde(flatten)]
    pub ns: Spread,
    /// Actions in response to all events of a run.
    pub actions: u64,
}

/// Rate of visited states.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StateRate {
    /// Median, minimum and maximum, for each second of CPU time.
    #[serde(flatten)]
    pub rate: Spread,
    /// Distinct states visited in a run.
    pub states: usize,
}

/// A regulated system and its events.
struct Course {
    system: System,
    config: Config,
    events: Vec<Event>,
    /// Nanoseconds per event, run by run: the guard, its parts with shared words, the textbook.
    times: [Vec<f64>; 3],
    /// Actions of the guard, of its parts, and of the textbook.
    actions: [u64; 3],
}

fn system(cores: usize, kind: Kind, sharing: Sharing) -> Config {
    let group = |core| Group {
        cores: vec![core],
        reservation: Reservation { budget: GRANTS * QUANTUM, kind },
        quantum: QUANTUM,
        skid: 0,
    };
    let guaranteed = cores as u32 * (GRANTS + 1) * QUANTUM;
    Config { cores, groups: (0..cores).map(group).collect(), guaranteed, reclaim_step: QUANTUM, sharing }
}

impl Course {
    /// Draws events: mostly consumed grants, sometimes a core that becomes idle or busy, and periods.
    fn draw(system: System, config: Config, count: usize, random: &mut Random) -> Course {
        let cores = config.cores;
        let mut guard = Guard::new(config.clone(), |_| Ewma::new(1)).expect("a sound system");
        let (mut events, mut actions, mut period) = (Vec::with_capacity(count), Vec::new(), 0);
        let mut armed: Vec<Option<u32>> = vec![None; cores];
        let mut pending: Vec<Event> = Vec::new();
        let mut busy = vec![false; cores];
        while events.len() < count {
            let event = pending.pop().unwrap_or_else(|| {
                let core = random.index(cores);
                match armed[core] {
                    _ if random.index(EVENTS_PER_PERIOD * cores) == 0 || period == 0 => {
                        period += 1;
                        pending.extend((1..cores).map(|core| Event::PeriodStart { core, period, unused: 0 }));
                        Event::PeriodStart { core: 0, period, unused: 0 }
                    }
                    _ if !busy[core] => {
                        busy[core] = true;
                        Event::Busy { core }
                    }
                    Some(grant) if random.index(16) > 0 => Event::Consumed { core, grant },
                    _ => {
                        busy[core] = false;
                        Event::Idle { core, unused: 1 }
                    }
                }
            });
            guard.on(event, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Grant { core, grant, .. } => armed[core] = Some(grant),
                    Action::Throttle { core, .. } | Action::Release { core, .. } => armed[core] = None,
                    Action::NextPeriod { period: next } => {
                        period = next;
                        pending.extend((0..cores).map(|core| Event::PeriodStart { core, period, unused: 0 }));
                    }
                }
            }
            events.push(event);
        }
        Course { system, config, events, times: Default::default(), actions: [0; 3] }
    }

    fn measure(&mut self) {
        for side in 0..self.times.len() {
            let (seconds, actions) = match side {
                0 => self.of_guard(),
                1 => self.of_shared_words(),
                _ => self.of_textbook(),
            };
            self.times[side].push(seconds * 1e9 / self.events.len() as f64);
            self.actions[side] = actions;
        }
    }

    fn of_guard(&self) -> (f64, u64) {
        let mut guard = Guard::new(self.config.clone(), |_| Ewma::new(1)).expect("a sound system");
        let (mut actions, mut count) = (Vec::with_capacity(64), 0);
        let began = cpu_seconds();
        for &event in &self.events {
            guard.on(black_box(event), &mut actions);
            count += actions.len() as u64;
            black_box(&mut actions).clear();
        }
        (cpu_seconds() - began, count)
    }

    /// Runs the parts as a backend with a thread for each CPU does, but on one thread, so no core waits for another.
    fn of_shared_words(&self) -> (f64, u64) {
        let (shared, mut cores) = parts::<AtomicU64, _>(&self.config, |_| Ewma::new(1)).expect("a sound system");
        let (mut actions, mut count) = (Vec::with_capacity(64), 0);
        let began = cpu_seconds();
        for &event in &self.events {
            let signal = match black_box(event) {
                Event::PeriodStart { core, period, unused } => {
                    cores[core].period_start(&shared, period, unused, &mut actions)
                }
                Event::Consumed { core, grant } => cores[core].consumed(&shared, grant, &mut actions),
                Event::Idle { core, unused } => cores[core].idle(&shared, unused, &mut actions),
                Event::Busy { core } => cores[core].busy(&shared, &mut actions),
            };
            let mut signal = signal;
            while signal == memtint_guard::Signal::Look {
                signal = memtint_guard::Signal::None;
                for core in &mut cores {
                    if core.look(&shared, &mut actions) == memtint_guard::Signal::Look {
                        signal = memtint_guard::Signal::Look;
                    }
                }
            }
            count += actions.len() as u64;
            black_box(&mut actions).clear();
        }
        (cpu_seconds() - began, count)
    }

    fn of_textbook(&self) -> (f64, u64) {
        let budget = GRANTS * QUANTUM;
        let mut cores = vec![Textbook { left: 0, throttled: false }; self.config.cores];
        let (mut actions, mut count) = (Vec::with_capacity(64), 0);
        let began = cpu_seconds();
        for &event in &self.events {
            match black_box(event) {
                Event::PeriodStart { core, .. } => {
                    let core = &mut cores[core];
                    if core.throttled {
                        actions.push(core.left);
                    }
                    *core = Textbook { left: budget, throttled: false };
                }
                Event::Consumed { core, .. } => {
                    let core = &mut cores[core];
                    core.left = core.left.saturating_sub(QUANTUM);
                    core.throttled = core.left == 0;
                    actions.push(core.left);
                }
                Event::Idle { .. } | Event::Busy { .. } => {}
            }
            count += actions.len() as u64;
            black_box(&mut actions).clear();
        }
        (cpu_seconds() - began, count)
    }

    fn row(&self) -> GuardRow {
        let [guard, shared_words, textbook] = [0, 1, 2].map(|side: usize| Times {
            ns: Spread::of(&self.times[side]).expect("each is measured at least once"),
            actions: self.actions[side],
        });
        GuardRow {
            system: self.system,
            cores: self.config.cores,
            events: self.events.len(),
            cpu_ns: Sides { guard, shared_words, textbook },
            guard_by_textbook: guard.ns.median / textbook.ns.median,
            target_ns: TARGET_NS,
            target_met: guard.ns.median <= TARGET_NS,
        }
    }
}

/// A core's budget in the textbook implementation.
#[derive(Clone, Copy)]
struct Textbook {
    left: u32,
    throttled: bool,
}

/// A state of three cores, and the possible next events.
#[derive(Clone, Hash)]
struct State {
    guard: Guard<LastValue>,
    /// Whether each counter is armed with a grant. States that differ only in the grant's number are equal.
    armed: [bool; 3],
    period: u32,
}

/// Returns states visited per second, and their number: tries every order of events of three cores for four periods,
/// until `most` states are seen.
fn visit(most: usize) -> (f64, usize) {
    let group = |core, budget| Group {
        cores: vec![core],
        reservation: Reservation { budget, kind: Kind::Soft },
        quantum: 1,
        skid: 0,
    };
    let groups = vec![group(0, 3), group(1, 3), group(2, 2)];
    let config = Config { cores: 3, groups, guaranteed: 100, reclaim_step: 1, sharing: Sharing::Spare };
    let guard = Guard::new(config, |_| LastValue::default()).expect("a sound system");
    let fingerprint = |state: &State| {
        [0u8, 1].map(|salt| {
            let mut hasher = DefaultHasher::new();
            (salt, state).hash(&mut hasher);
            hasher.finish()
        })
    };
    let start = State { guard, armed: [false; 3], period: 0 };
    let began = cpu_seconds();
    let mut grants = vec![[0u32; 3]];
    let mut seen = HashSet::from([fingerprint(&start)]);
    let mut left = vec![start];
    let mut actions = Vec::new();
    while let Some(state) = left.pop()
        && seen.len() < most
    {
        let numbers = grants.pop().expect("as many as states");
        let events = (0..3).flat_map(|core| {
            let next = Event::PeriodStart { core, period: state.guard.core(core).period() + 1, unused: 0 };
            let consumed = Event::Consumed { core, grant: numbers[core] };
            let turn =
                if state.guard.core(core).is_busy() { Event::Idle { core, unused: 0 } } else { Event::Busy { core } };
            let begins = state.guard.core(core).period() < 4;
            [begins.then_some(next), state.armed[core].then_some(consumed), Some(turn)]
        });
        for event in events.flatten() {
            let (mut next, mut numbers) = (state.clone(), numbers);
            next.guard.on(event, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Grant { core, grant, .. } => (next.armed[core], numbers[core]) = (true, grant),
                    Action::Throttle { core, .. } | Action::Release { core, .. } => next.armed[core] = false,
                    Action::NextPeriod { period } => next.period = period,
                }
            }
            if seen.insert(fingerprint(&next)) {
                left.push(next);
                grants.push(numbers);
            }
        }
    }
    (seen.len() as f64 / (cpu_seconds() - began), seen.len())
}

/// Measures the time of the state machine for an event.
pub fn measure(asked: &Asked, tell: fn(&str)) -> GuardReport {
    let (machine, beside) = (Host::read(), Beside::since_now());
    let most = if asked.quick { STATES / 10 } else { STATES };
    let mut random = Random::new(asked.seed);
    let mut course = |system, config| Course::draw(system, config, asked.events as usize, &mut random);
    let mut courses = [
        course(System::Hard, system(4, Kind::Hard, Sharing::Off)),
        course(System::SpareSharing, system(4, Kind::Soft, Sharing::Spare)),
        course(System::ProportionalSharing, system(4, Kind::Soft, Sharing::Proportional)),
        course(System::SpareSharing, system(16, Kind::Soft, Sharing::Spare)),
    ];
    let mut rates = Vec::new();
    let mut states = 0;
    let began = cpu_seconds();
    for round in 1..=asked.repeat {
        tell(&format!("guard {round}/{}", asked.repeat));
        courses.iter_mut().for_each(Course::measure);
        let (rate, seen) = visit(most);
        rates.push(rate);
        states = seen;
    }
    let own = Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let rows: Vec<GuardRow> = courses.iter().map(Course::row).collect();
    GuardReport {
        schema: SCHEMA,
        bench: Benchmark::Guard,
        version: env!("CARGO_PKG_VERSION"),
        machine,
        disturbance,
        seed: asked.seed,
        repeat: asked.repeat,
        quick: asked.quick,
        threads: 1,
        target_met: rows.iter().all(|row| row.target_met),
        rows,
        states_per_second: StateRate { rate: Spread::of(&rates).expect("measured at least once"), states },
    }
}
