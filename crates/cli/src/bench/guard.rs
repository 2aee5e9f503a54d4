//! `memtint bench guard`: how fast the state machine of bandwidth regulation is.
//!
//! The events of a system are drawn once, with the answers of the regulator, and replayed. Beside it, budgets as the textbook has them get
//! the same events: a number for each core, no donation, no sharing, nothing that others change. Time is this thread's processor time; each kind is
//! measured in turn with all others, over and over.

use memtint_bench::{Beside, Machine, Spread, cpu_seconds};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use memtint_guard::{Action, Config, Event, Ewma, Group, Guard, Kind, LastValue, Reservation, Sharing, parts};
use serde_json::{Value, json};

use crate::Ending;
use crate::output::{Format, done, done_json, table};
use memtint_units::Random;

/// Arguments of `memtint bench guard`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured (whether or not targets are met: the last lines say so), 2 failure.\n\
    Example: memtint bench guard --format json > guard.json")]
pub(super) struct GuardArguments {
    /// Events of each system. Default: 2000000, with --quick 50000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    events: Option<u32>,
    /// Runs of each kind. Default: 7, with --quick 2.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// Few events: for tests and a first impression.
    #[arg(long)]
    pub(super) quick: bool,
    /// Seed of the events.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Measure the regulator on this machine instead (as root): page faults of a load, unregulated, occupied and frozen.
    #[arg(long, conflicts_with_all = ["events", "repeat", "seed"])]
    live: bool,
    /// With --live: time of each run. Default: 10, with --quick 1.
    #[arg(long, value_name = "N", requires = "live", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) seconds: Option<u64>,
}

/// What an event is to take at most, in nanoseconds.
const TARGET_NS: f64 = 20.0;
/// Events of a core between two periods, roughly.
const EVENTS_PER_PERIOD: usize = 40;
/// Grants of a budget.
const GRANTS: u32 = 24;
const QUANTUM: u32 = 64;
/// States that are visited for the second measurement, with --quick a tenth.
const STATES: usize = 400_000;

/// A regulated system, and what happens in it.
struct Course {
    name: &'static str,
    config: Config,
    events: Vec<Event>,
    /// Nanoseconds an event, run by run: the guard, its parts with words that threads share, the textbook.
    times: [Vec<f64>; 3],
    /// Actions of the first two, and of the textbook.
    actions: [u64; 3],
}

const SIDES: [&str; 3] = ["guard", "shared_words", "textbook"];

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
    /// Draws events: mostly consumed grants, now and then a core that goes idle or has work again, and periods.
    fn draw(name: &'static str, config: Config, count: usize, random: &mut Random) -> Course {
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
        Course { name, config, events, times: Default::default(), actions: [0; 3] }
    }

    fn measure(&mut self) {
        for side in 0..SIDES.len() {
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

    /// As a backend with a thread for each CPU has it, here on one thread: no core waits for another one's word.
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

    fn spreads(&self) -> [Spread; 3] {
        [0, 1, 2].map(|side: usize| Spread::of(&self.times[side]).expect("each is measured at least once"))
    }

    fn met(&self) -> bool {
        self.spreads()[0].median <= TARGET_NS
    }

    fn to_json(&self) -> Value {
        let sides = SIDES.iter().zip(self.spreads()).zip(self.actions);
        let sides = sides.map(|((name, spread), actions)| {
            let times = json!({"median": spread.median, "min": spread.min, "max": spread.max, "actions": actions});
            ((*name).to_owned(), times)
        });
        let [guard, _, textbook] = self.spreads();
        json!({
            "system": self.name,
            "cores": self.config.cores,
            "events": self.events.len(),
            "cpu_ns": sides.collect::<serde_json::Map<_, _>>(),
            "guard_by_textbook": guard.median / textbook.median,
            "target_ns": TARGET_NS,
            "target_met": self.met(),
        })
    }

    fn cells(&self) -> Vec<String> {
        let [guard, shared, textbook] = self.spreads();
        let ns = |value: f64| format!("{value:.1}");
        let mut cells = vec![self.name.to_owned(), self.config.cores.to_string()];
        cells.extend([guard.median, guard.min, guard.max, shared.median, textbook.median].map(ns));
        cells.push(ns(guard.median / textbook.median));
        cells.extend([ns(TARGET_NS), if self.met() { "met" } else { "not met" }.to_owned()]);
        cells
    }
}

/// A core's budget as the textbook has it.
#[derive(Clone, Copy)]
struct Textbook {
    left: u32,
    throttled: bool,
}

/// A state of three cores, and what can happen next.
#[derive(Clone, Hash)]
struct State {
    guard: Guard<LastValue>,
    /// The grant that each counter is armed with. States that differ in its number only are alike.
    armed: [bool; 3],
    period: u32,
}

/// States visited a second, and their number: every order of events of three cores for four periods, until `most` states are seen.
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

pub(super) fn bench_guard(arguments: &GuardArguments, format: Format) -> Ending {
    if arguments.live {
        return super::guard_live::bench_live(arguments, format);
    }
    let (machine, beside) = (Machine::read(), Beside::since_now());
    let count = arguments.events.unwrap_or(if arguments.quick { 50_000 } else { 2_000_000 });
    let repeat = arguments.repeat.map_or(if arguments.quick { 2 } else { 7 }, usize::from);
    let most = if arguments.quick { STATES / 10 } else { STATES };
    let mut random = Random::new(arguments.seed);
    let mut course = |name, config| Course::draw(name, config, count as usize, &mut random);
    let mut courses = [
        course("hard", system(4, Kind::Hard, Sharing::Off)),
        course("soft, spare sharing", system(4, Kind::Soft, Sharing::Spare)),
        course("soft, proportional sharing", system(4, Kind::Soft, Sharing::Proportional)),
        course("soft, spare sharing", system(16, Kind::Soft, Sharing::Spare)),
    ];
    let mut rates = Vec::new();
    let mut states = 0;
    let began = cpu_seconds();
    for round in 1..=repeat {
        eprintln!("memtint: bench: guard {round}/{repeat}");
        courses.iter_mut().for_each(Course::measure);
        let (rate, seen) = visit(most);
        rates.push(rate);
        states = seen;
    }
    let own = std::time::Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let rate = Spread::of(&rates).expect("measured at least once");
    let met = courses.iter().all(Course::met);
    match format {
        Format::Json => done_json(&json!({
            "schema": 1,
            "bench": "guard",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine,
            "disturbance": disturbance,
            "seed": arguments.seed,
            "repeat": repeat,
            "quick": arguments.quick,
            "threads": 1,
            "rows": courses.iter().map(Course::to_json).collect::<Vec<_>>(),
            "states_per_second": {"median": rate.median, "min": rate.min, "max": rate.max, "states": states},
            "target_met": met,
        })),
        Format::Text => {
            let mut text = String::new();
            let cpu = machine.cpu.as_deref().unwrap_or("unknown CPU");
            let _ = writeln!(
                text,
                "nanoseconds of processor time for each event ({cpu}; {repeat} runs over {count} events, seed {}; textbook: budgets only, \
                 nothing that others change)\n",
                arguments.seed
            );
            let heads =
                ["system", "cores", "median", "least", "most", "shared words", "textbook", "ratio", "target", ""];
            let rows = courses.iter().map(Course::cells).collect::<Vec<_>>();
            text.push_str(&table(&heads, &[1, 2, 3, 4, 5, 6, 7, 8], &rows));
            let _ = writeln!(
                text,
                "\n{states} distinct states of three cores, {:.0} a second ({:.0} to {:.0})\ntarget {}",
                rate.median,
                rate.min,
                rate.max,
                if met { "met" } else { "not met" }
            );
            done(&text)
        }
    }
}
