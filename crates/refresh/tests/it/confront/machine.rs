//! The simulated machine on which analyses are confronted, and what its parts cost.
//!
//! Time is counted in *cycles*: the core and the memory have the same clock, so that nothing is rounded. The core executes
//! in order and waits for each load; its caches hold a line each, so that every reference of a task reads memory; rows are closed
//! at once. A reference therefore takes the same time whatever went before, as long as no refresh does:
//!
//! ```text
//! gap + 1 instructions | way to the channel | tRCD | CL | burst          = Hardware::reference
//! ```
//!
//! and a job of `n` references has a WCET of `n` times that, without refresh and without preemption. What else there is:
//!
//! - A reference that has begun is not interrupted: a more urgent job waits for up to a reference less a cycle. That is the
//!   blocking of [`Hardware::blocking`]; the end of a job, a switch and lost cache lines cost nothing on this machine.
//! - A refresh lets a reference wait for at most tRAS + tRP + tRFC: ACT has just been sent as it falls due, the bank is closed
//!   again, and after REF comes another ACT; and a cycle for each rank that is sent a REF before. See [`Hardware::stall`].

use super::sets::Own;
use memtint_dram::{DeviceChoice, RefreshPlan, Standard};
use memtint_sched::{Interference, Refresh};
use memtint_sim::Scenario;
use memtint_sim::scenario::{ScenarioServer, ScenarioSpec, ScenarioTask, SchedulingName, Time};
use memtint_units::Picoseconds;
use std::fmt::Write as _;
use std::path::Path;

/// Ranks of `platform.toml`.
const RANKS: u64 = 2;
/// From the core to the channel.
const WAY_CYCLES: u64 = 6;
const DEVICE: &str = "ddr4-3200";
/// Its clock.
pub(crate) const CYCLE_PS: u64 = 625;

/// What refreshes the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    None,
    AllBank,
    Staggered,
    Fgr2,
    Fgr4,
    Burst,
    /// Ranks locked by software; each task has memory of both, so that every lock concerns it.
    Locks,
    /// The same, and a task has memory of one rank: it runs while the other is locked. The term, in which every lock holds up every
    /// task, is only sufficient: which tasks a lock holds up depends on who is ready, and a lock of the one rank gives the
    /// others its time. Exact is what [`servers`](super::servers) and [`tables`](super::tables) are asked, and `OneColor`.
    Colors,
    /// All tasks have memory of the same rank, and lock tasks another core: the locks of the rank are all that holds them up, and the
    /// term is exact.
    OneColor,
    /// The colored frames of a cyclic executive: one rank is locked for the first half of tRET, the other for the second.
    Frames,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Scheme::None => "none",
            Scheme::AllBank => "all-bank",
            Scheme::Staggered => "staggered",
            Scheme::Fgr2 => "fgr2",
            Scheme::Fgr4 => "fgr4",
            Scheme::Burst => "burst",
            Scheme::Locks | Scheme::Colors | Scheme::OneColor | Scheme::Frames => "timetable",
        }
    }

    /// Whether all of what the term of the analysis stands for happens: then a no has a witness.
    pub(crate) fn is_exact(self) -> bool {
        self != Scheme::Colors
    }
}

/// Which task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dispatch {
    /// Places of the tasks, the most urgent has 0.
    Priorities(Vec<usize>),
    Deadlines,
}

/// Machine and refresh.
pub(crate) struct Hardware {
    pub(crate) scheme: Scheme,
    /// Cycles of a reference.
    pub(crate) reference: u64,
    /// tRFC in cycles.
    pub(crate) rfc: u64,
    pub(crate) locks: Locks,
    /// Cycles between refreshes, and when one is due.
    period: u64,
    due: [u64; RANKS as usize],
    /// The longest and the shortest time for which a refresh holds up what wants the memory all the time.
    stalls: [u64; 2],
    template: Scenario,
}

/// When ranks are locked, in cycles: each once in the period, evenly.
pub(crate) struct Locks {
    pub(crate) period: u64,
    /// REF in each window.
    commands: u64,
    /// From the release of the lock task to that of the unlock task.
    pub(crate) length: u64,
    pub(crate) lock: u64,
    pub(crate) unlock: u64,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) jobs: u64,
    pub(crate) misses: u64,
    /// Longest response in cycles, rounded up.
    pub(crate) worst: u64,
}

/// Lock windows: a rank each half of it, in cycles; a sixteenth of all REF in each, for they come 16 times in 64 ms.
const LOCKS_PERIOD: u64 = 6_400_000;
const LOCKS_COMMANDS: u64 = 512;
const LOCK_CYCLES: u64 = 6400;
const UNLOCK_CYCLES: u64 = 1600;

impl Hardware {
    pub(crate) fn new(scheme: Scheme, density_gbit: u32) -> Hardware {
        let choice = DeviceChoice { density_gbit: Some(density_gbit), ..DeviceChoice::default() };
        let device = Standard::load(DEVICE).unwrap().device(choice).unwrap();
        assert_eq!(device.clock.period(), (CYCLE_PS, 1));
        let name = if scheme.name() == "timetable" { "none" } else { scheme.name() };
        let timing = RefreshPlan::named(name, &device).unwrap().timing;
        let [rcd, cl, burst, ras, rp, rc, rfc, refi] =
            [timing.rcd, timing.cl, timing.burst, timing.ras, timing.rp, timing.rc, timing.rfc, timing.refi]
                .map(u64::from);
        // Bursts are long and come seldom: fewer and longer references last as long.
        let gap = match scheme {
            Scheme::Burst | Scheme::Frames => 15_945,
            Scheme::Locks | Scheme::Colors | Scheme::OneColor => 1545,
            _ => 25,
        };
        let reference = gap + 1 + WAY_CYCLES + rcd + cl + burst;
        assert!(reference >= rc, "one row after the other");
        let reopened = ras + rp + RANKS;
        let commands = u64::from(device.refresh.commands);
        let locked = LOCK_CYCLES + LOCKS_COMMANDS * rfc + reopened;
        let fine = |factor| ([refi / factor; 2], refi / factor, [rfc + reopened, rfc - reference]);
        let (due, period, stalls) = match scheme {
            Scheme::None => ([0; 2], 1, [0; 2]),
            Scheme::AllBank => fine(1),
            Scheme::Staggered => ([refi / 2, refi], refi, [rfc + reopened, rfc - reference]),
            Scheme::Fgr2 => fine(2),
            Scheme::Fgr4 => fine(4),
            Scheme::Burst => {
                let window = device.refresh.window_cycles - refi;
                ([window; 2], window, [commands * rfc + reopened, commands * rfc - reference])
            }
            Scheme::Locks | Scheme::Colors => {
                let window = locked.next_multiple_of(reference);
                // The lock task begins, and the unlock task ends, a reference late.
                ([LOCKS_PERIOD; 2], LOCKS_PERIOD / 2, [window + UNLOCK_CYCLES + reference, window + UNLOCK_CYCLES])
            }
            Scheme::OneColor => {
                let window = locked.next_multiple_of(reference);
                // A reference that has begun ends in the window.
                let stalls = [window, window - (reference - 1)];
                ([LOCKS_PERIOD, LOCKS_PERIOD + LOCKS_PERIOD / RANKS], LOCKS_PERIOD, stalls)
            }
            // In the slots of a table nothing is left to wait for.
            Scheme::Frames => ([0; 2], device.refresh.window_cycles, [0; 2]),
        };
        let locks = match scheme {
            Scheme::Frames => Locks { period, commands, length: period / RANKS, lock: 0, unlock: 0 },
            _ => {
                let length = locked.next_multiple_of(reference);
                let (lock, unlock) = (LOCK_CYCLES, UNLOCK_CYCLES);
                Locks { period: LOCKS_PERIOD, commands: LOCKS_COMMANDS, length, lock, unlock }
            }
        };
        let text = text(scheme, density_gbit, gap, &locks);
        let template = parse(&text);
        Hardware { scheme, reference, rfc, locks, period, due, stalls, template }
    }

    /// When a refresh of a rank falls due.
    pub(crate) fn due(&self, rank: u64) -> u64 {
        self.due[rank as usize]
    }

    /// The term of the analysis: with the longest stall, or the shortest.
    pub(crate) fn terms(&self, longest: bool) -> Vec<Interference> {
        if self.scheme == Scheme::None {
            return Vec::new();
        }
        let stall = self.stalls[usize::from(!longest)];
        vec![Interference::Refresh(
            Refresh::auto(Picoseconds(self.period), Picoseconds(stall), Picoseconds(0)).unwrap(),
        )]
    }

    /// For how long a job that is less urgent keeps the core, at most.
    pub(crate) fn blocking(&self) -> u64 {
        self.reference - 1
    }

    /// The scenario of some tasks.
    pub(crate) fn scenario(
        &self,
        tasks: &[Own],
        phases: &[u64],
        dispatch: &Dispatch,
        change: impl FnOnce(&mut ScenarioSpec),
    ) -> Scenario {
        let time = |cycles: u64| Time(Picoseconds(cycles * CYCLE_PS));
        let section = |(index, (task, &phase)): (usize, (&Own, &u64)), template: &ScenarioTask| {
            let mut section = template.clone();
            section.name = format!("t{index}");
            section.ranks = Some(if self.scheme == Scheme::Locks { "0-1".to_owned() } else { task.rank.to_string() });
            if let Dispatch::Priorities(places) = dispatch {
                section.priority = places[index] as u32;
            }
            let job = section.job.as_mut().unwrap();
            (job.period, job.jitter, job.references) = (time(task.period), time(task.jitter), task.references);
            (job.deadline, job.phase) = (Some(time(task.deadline)), Some(time(phase)));
            section
        };
        let changed = self.template.changed(|spec| {
            spec.tasks =
                tasks.iter().zip(phases).enumerate().map(|one| section(one, &self.template.spec().tasks[0])).collect();
            spec.system.scheduling = match dispatch {
                Dispatch::Priorities(_) => SchedulingName::FixedPriority,
                Dispatch::Deadlines => SchedulingName::Edf,
            };
            change(spec);
        });
        changed.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The machine with one task, as text of a system file.
fn text(scheme: Scheme, density_gbit: u32, gap: u64, locks: &Locks) -> String {
    let ps = |cycles: u64| format!("\"{} ps\"", cycles * CYCLE_PS);
    let mhz = 1_000_000 / CYCLE_PS;
    let lock_core = u32::from(scheme == Scheme::OneColor);
    let mut text = format!(
        "platform = \"platform.toml\"\n\
         [simulation]\ndevice = \"{DEVICE}\"\ndensity_gbit = {density_gbit}\nduration = \"1000 s\"\n\
         [simulation.cores]\ncount = {}\nmhz = {mhz}\nwidth = 1\nwindow = 0\n\
         [simulation.caches]\nlatency_cycles = [1, 1, 1, {WAY_CYCLES}, {WAY_CYCLES}]\nline = \"64\"\n\
         l1 = {{ size = \"64\", ways = 1 }}\nllc = {{ size = \"64\", ways = 1 }}\n\
         [simulation.controller]\npage = \"closed\"\nrefresh = \"{}\"\n\
         [simulation.system]\nfault = \"0 ns\"\n",
        1 + lock_core,
        scheme.name()
    );
    if scheme.name() == "timetable" {
        let [period, lock, unlock, length] = [locks.period, locks.lock, locks.unlock, locks.length].map(ps);
        let _ = writeln!(
            text,
            "[simulation.timetable]\nperiod = {period}\nlock = {lock}\nunlock = {unlock}\ncores = \"{lock_core}\""
        );
        for rank in 0..RANKS {
            let (start, commands) = (ps(rank * locks.period / RANKS), locks.commands);
            let _ = writeln!(
                text,
                "[[simulation.timetable.window]]\nranks = \"{rank}\"\nstart = {start}\nlength = {length}\n\
                 commands = {commands}"
            );
        }
    }
    let _ = write!(
        text,
        "[[task]]\nname = \"t\"\ncores = \"0\"\nranks = \"0\"\n\
         workload = {{ kind = \"bandwidth\", size = \"16K\", gap = {gap} }}\n\
         period = \"1 us\"\ndeadline = \"1 us\"\nphase = \"0 us\"\nreferences = 1\n"
    );
    text
}

/// Reads a file beside `platform.toml`.
pub(crate) fn parse(text: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/confront/template.toml");
    Scenario::parse(text, &path).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs a scenario up to a cycle. No request meets a lock.
pub(crate) fn run(scenario: &Scenario, end: u64) -> Vec<Seen> {
    let mut machine = scenario.machine().unwrap();
    machine.run_until(Picoseconds(end * CYCLE_PS));
    seen(&machine, || words(scenario, end))
}

/// Runs a scenario until somebody wanted is late, and no further than a cycle; whether that happened.
pub(crate) fn is_late_by(scenario: &Scenario, end: u64, step: u64, wanted: impl Fn(usize) -> bool) -> bool {
    let mut machine = scenario.machine().unwrap();
    let mut now = 0;
    while now < end {
        now = (now + step).min(end);
        machine.run_until(Picoseconds(now * CYCLE_PS));
        let seen = seen(&machine, || words(scenario, now));
        if seen.iter().enumerate().any(|(task, seen)| wanted(task) && seen.misses > 0) {
            return true;
        }
    }
    false
}

fn seen(machine: &memtint_sim::Machine, words: impl Fn() -> String) -> Vec<Seen> {
    let seen = |counts: memtint_sim::TaskCounts| Seen {
        jobs: counts.jobs,
        misses: counts.deadline_misses,
        worst: counts.response_ps.max().div_ceil(CYCLE_PS),
    };
    let outcome = machine.outcome();
    for met in outcome.refresh_met.iter().flatten() {
        assert_eq!((met.locked, met.caught), (0, 0), "requests met a lock in\n{}", words());
    }
    outcome.tasks.into_iter().map(seen).collect()
}

/// The scenario as a system file, to be run again by hand. A file has no phases of servers: they stand before it.
pub(crate) fn words(scenario: &Scenario, end: u64) -> String {
    let phase = |server: &ScenarioServer| format!("# server {:?} begins at {}\n", server.name, server.phase.0);
    let phases: String = scenario.spec().servers.iter().map(phase).collect();
    let scenario = scenario.changed(|spec| {
        spec.duration = Time(Picoseconds(end * CYCLE_PS));
        spec.servers.iter_mut().for_each(|server| server.phase = Time::default());
    });
    phases + &scenario.unwrap().to_system().unwrap().to_text()
}

/// The costs that the analysis is given are those of the machine.
#[test]
fn a_reference_takes_as_long_as_its_parts() {
    for scheme in [Scheme::None, Scheme::Burst, Scheme::Locks] {
        let machine = Hardware::new(scheme, 2);
        for references in [1, 7, 300] {
            let period = 400 * machine.reference;
            let own = Own { period, deadline: period, jitter: 0, references, rank: 1 };
            let quiet = |spec: &mut ScenarioSpec| {
                (spec.controller.refresh, spec.timetable) = (Some("none".to_owned()), None);
            };
            let scenario = machine.scenario(&[own], &[0], &Dispatch::Deadlines, quiet);
            let seen = run(&scenario, 10 * period)[0];
            assert_eq!((seen.worst, seen.jobs), (references * machine.reference, 10));
        }
    }
}
