//! Does the state machine in C, for use in the kernel, decide as this crate does? `kernel/modules/memguard/guard.h` is built for user
//! space with sanitizers, and replays logs of random events.
//!
//! `cargo test -p memtint-guard --test it in_c::`. Needs make and gcc.

use std::cell::Cell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use memtint_guard::{
    Action, Config, Core, Ewma, Group, Kind, ReleaseReason, Reservation, Shared, Sharing, Signal, Source,
    ThrottleReason, parts,
};

/// Systems that are compared, and events on each.
const SYSTEMS: u64 = 400;
const EVENTS: usize = 1500;

/// Builds the C programs, once, and gives the folder they are in.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memguard-unit");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/modules/memguard/unit");
        let build = format!("BUILD={}", folder.display());
        let make = Command::new("make").arg("-C").arg(source).args(["--no-print-directory", &build]).output();
        let output = make.expect("make is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder
    })
}

/// Runs a program with this input, which is written while its answer is read.
fn answer(name: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(programs().join(name));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it has been built");
    let mut stdin = child.stdin.take().expect("it is piped");
    let output = std::thread::scope(|scope| {
        // It may end without reading.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("it was started")
    });
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % u64::from(most)) as u32
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
struct Log {
    shared: Shared<Cell<u64>>,
    cores: Vec<Core<Ewma>>,
    config: Config,
    told: Vec<u32>,
    answers: Vec<Vec<u32>>,
    /// The latest grant of each core, and its events.
    grants: Vec<(u32, u32)>,
}

fn kind(kind: Kind) -> u32 {
    u32::from(kind == Kind::Soft)
}

impl Log {
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
    fn step(&mut self, random: &mut Random) {
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

#[test]
fn it_decides_as_this_crate_does_on_random_events() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..SYSTEMS {
        let mut random = Random(seed);
        let config = random.system();
        let mut log = Log::new(config, 1 + random.below(4));
        (0..EVENTS).for_each(|_| log.step(&mut random));
        let told: Vec<u8> = log.told.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let found = answer("replay", &[], &told);
        let found: Vec<u32> = found.chunks_exact(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap())).collect();
        let mut rest = found.as_slice();
        for (event, expected) in log.answers.iter().enumerate() {
            let first = log.told.len() - 4 * (EVENTS - event);
            let (found, after) = rest.split_at(rest.len().min(expected.len()));
            assert_eq!(found, expected, "seed {seed}, event {event}: {:?}", &log.told[first..first + 4]);
            rest = after;
            let actions = expected[3..3 + 4 * expected[2] as usize].chunks(4);
            kinds.extend(actions.map(|action| (action[0], action[1])));
            kinds.insert((3, expected[0]));
        }
        assert!(rest.is_empty(), "seed {seed}: {} numbers more", rest.len());
    }
    // All kinds of actions and signals have occurred.
    let all = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 2), (2, 3), (2, 4), (2, 5), (3, 0), (3, 1), (3, 2)];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn cores_that_run_at_the_same_time_get_no_more_than_all_budgets() {
    let text = String::from_utf8(answer("race", &["20000", "1"], &[])).expect("text");
    // However the threads are scheduled, one of them uses all of the least budget once.
    let most = text.split(" at most ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(most.is_some_and(|most: u32| (30..=130).contains(&most)), "{text}");
}
