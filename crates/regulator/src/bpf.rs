//! The state machine in the kernel: programs of `kernel/modules/memguard/bpf`, and the memory that they share with this process.
//!
//! The types are those of `regulate.bpf.c` and `guard.h`, field by field.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use aya::maps::{Map, MapData, RingBuf};
use aya::programs::Program;
use aya::{Ebpf, EbpfLoader};
use memtint_guard::{Config, Kind, Reservation};

use crate::error::RegulatorError;
use crate::sys::{self, Shared};

/// Most groups, and most pairs of a group and a CPU.
pub(crate) const SEATS_MAX: usize = 64;
/// Most groups on a CPU.
pub(crate) const SLOTS: usize = 8;
/// Latest incidents that a seat keeps.
pub(crate) const INCIDENTS_MAX: usize = 8;
/// Of a seat: no group.
const NONE: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;
/// Since then a switch between groups leaves other counters of a CPU alone (perf_cgroup_switch).
const LEAST_KERNEL: (u32, u32) = (6, 7);

/// `struct guard_shared`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SharedWords {
    pub(crate) pool: AtomicU64,
    /// period << 32 | met << 31 | exhausted << 16 | active.
    pub(crate) roll: AtomicU64,
    reclaim_step: AtomicU32,
    sharing: AtomicU32,
}

/// `struct guard_group`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct GroupWords {
    pub(crate) account: AtomicU64,
    pub(crate) owed: AtomicU64,
    moving: AtomicU64,
    demands: [[AtomicU64; 2]; 2],
    before: AtomicU64,
    after: AtomicU64,
    quantum: AtomicU32,
    is_single: AtomicU32,
}

/// `struct guard_use`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct UseWords {
    pub(crate) reserved: AtomicU32,
    pub(crate) returned: AtomicU32,
    pub(crate) reclaimed: AtomicU32,
    pub(crate) donated: AtomicU32,
    pub(crate) shortfall: AtomicU32,
    pub(crate) throttled: AtomicU32,
    pub(crate) shared: AtomicU32,
}

/// `struct guard_core`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CoreWords {
    pub(crate) phase: AtomicU32,
    pub(crate) period: AtomicU32,
    grant: AtomicU32,
    source: AtomicU32,
    shift: AtomicU32,
    observed: AtomicU32,
    mean: AtomicU64,
    pub(crate) used: UseWords,
    donates: AtomicU32,
    pub(crate) regulated: AtomicU32,
    pub(crate) busy: AtomicU32,
    started: AtomicU32,
    returned: AtomicU32,
    pub(crate) nr_actions: AtomicU32,
    /// Action, reason, number of the grant, events.
    pub(crate) actions: [[AtomicU32; 4]; 8],
}

/// `enum guard_phase`.
pub(crate) const THROTTLED: u32 = 2;

/// `struct sums`: those of [`crate::promise::Sums`], in that order, and two more.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SumWords {
    pub(crate) periods: AtomicU64,
    pub(crate) used: AtomicU64,
    pub(crate) used_max: AtomicU64,
    pub(crate) beyond_max: AtomicU64,
    pub(crate) granted: AtomicU64,
    pub(crate) donated: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) reclaimed: AtomicU64,
    pub(crate) throttled: AtomicU64,
    pub(crate) throttled_ns: AtomicU64,
    pub(crate) underruns: AtomicU64,
    pub(crate) shortfall: AtomicU64,
    pub(crate) broken: AtomicU64,
    /// Grants out of donated events, and those that woke the thread.
    pub(crate) reclaims: AtomicU64,
    pub(crate) reclaims_woken: AtomicU64,
}

/// `struct incident`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct IncidentWords {
    pub(crate) used: AtomicU64,
    pub(crate) allowed: AtomicU64,
    pub(crate) period: AtomicU32,
    pub(crate) cause: AtomicU32,
}

/// `enum cause`.
pub(crate) const MULTIPLEXED: u32 = 1;
pub(crate) const IN_KERNEL: u32 = 2;
pub(crate) const LATE: u32 = 3;

/// `struct seat`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SeatWords {
    pub(crate) core: CoreWords,
    group: AtomicU32,
    cpu: AtomicU32,
    skid: AtomicU64,
    pub(crate) count: AtomicU64,
    base: AtomicU64,
    pub(crate) grant_end: AtomicU64,
    consumed_at: AtomicU64,
    pub(crate) stopped_at: AtomicU64,
    throttled_since: AtomicU64,
    signal: AtomicU64,
    enabled: AtomicU64,
    running: AtomicU64,
    pub(crate) multiplexed: AtomicU32,
    late: AtomicU32,
    pub(crate) leaked: AtomicU32,
    unread: AtomicU32,
    pub(crate) ring: AtomicU32,
    entered: AtomicU32,
    missed: AtomicU32,
    slot: AtomicU32,
    reading: [AtomicU64; 3],
    used: UseWords,
    unused: AtomicU32,
    pub(crate) sums: SumWords,
    pub(crate) nr_incidents: AtomicU64,
    pub(crate) incidents: [IncidentWords; INCIDENTS_MAX],
}

/// `struct machine`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MachineWords {
    pub(crate) shared: SharedWords,
    start_ns: AtomicU64,
    period_ns: AtomicU64,
    pub(crate) groups: [GroupWords; SEATS_MAX],
    pub(crate) seats: [SeatWords; SEATS_MAX],
}

// As in the C file. Atomic words may have any content, so that they can be mapped.
const _: () = assert!(size_of::<SeatWords>() == 712);

/// A command to the state machine of a seat: its number in the C file, and two arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command([u32; 3]);

impl Command {
    pub(crate) const BUSY: Command = Command([3, 0, 0]);
    pub(crate) const LOOK: Command = Command([6, 0, 0]);
    /// The count may be beyond the grant.
    pub(crate) const CHECK: Command = Command([8, 0, 0]);

    /// Begins a period, as an expiry of the clock does.
    pub(crate) fn begin(period: u32) -> Command {
        Command([9, period, 0])
    }

    pub(crate) fn period_start(period: u32) -> Command {
        Command([0, period, 0])
    }

    /// The group of the seat gets this reservation from a period on.
    pub(crate) fn reserve(from: u32, reservation: Reservation) -> Command {
        Command([RESERVE, from, reservation_word(reservation)])
    }
}

const RESERVE: u32 = 7;

/// soft << 31 | budget.
fn reservation_word(reservation: Reservation) -> u32 {
    u32::from(reservation.kind == Kind::Soft) << 31 | reservation.budget
}

/// The loaded programs.
#[derive(Debug)]
pub(crate) struct Kernel {
    memory: Shared<MachineWords>,
    overflow: OwnedFd,
    period: OwnedFd,
    command: OwnedFd,
    moved: OwnedFd,
    /// Until it is watched.
    moves: Mutex<Option<Ring>>,
    counters: [OwnedFd; SLOTS],
}

struct Ring(RingBuf<MapData>);

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Ring")
    }
}

/// Reports moves of processes between cgroups of this machine until it is dropped.
#[derive(Debug)]
pub(crate) struct Moves {
    ring: Ring,
    _link: OwnedFd,
}

impl Moves {
    /// Becomes readable when a process has moved since [`Moves::take`].
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.ring.0.as_fd()
    }

    /// Discards all records, so that the next one can be waited for.
    pub(crate) fn take(&mut self) {
        while self.ring.0.next().is_some() {}
    }
}

/// Compiled by the build script; empty if it found no compiler.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/regulate.o"));

fn failed(what: &'static str) -> impl Fn(&dyn std::error::Error) -> RegulatorError {
    move |error| {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            reason = format!("{reason}: {cause}");
            source = cause.source();
        }
        RegulatorError::Bpf { what, reason }
    }
}

impl Kernel {
    /// Loads the programs.
    pub(crate) fn load() -> Result<Kernel, RegulatorError> {
        let refused = |reason: &str| RegulatorError::Bpf { what: "loading programs", reason: reason.to_owned() };
        if OBJECT.is_empty() {
            return Err(refused("this memtint was compiled without clang"));
        }
        if sys::kernel_release() < LEAST_KERNEL {
            return Err(refused(
                "this kernel starts clocks anew when it switches between groups; accepted is Linux 6.7 or newer",
            ));
        }
        let failed = failed("loading programs");
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| failed(&error))?;
        let overflow = load(&mut object, "regulate_overflow")?;
        let period = load(&mut object, "regulate_period")?;
        let command = load(&mut object, "regulate_command")?;
        let moved = load(&mut object, "regulate_moved")?;
        let moves = object.take_map("moves").ok_or_else(|| refused("a map is missing"))?;
        let moves = Mutex::new(Some(Ring(RingBuf::try_from(moves).map_err(|error| failed(&error))?)));
        let map = |name: &str| match object.map(name) {
            Some(Map::Array(data) | Map::PerfEventArray(data)) => {
                data.fd().as_fd().try_clone_to_owned().map_err(|error| failed(&error))
            }
            _ => Err(refused("a map is missing")),
        };
        let memory = Shared::map(map("machines")?.as_fd()).map_err(|error| failed(&error))?;
        let counters: Vec<OwnedFd> =
            (0..SLOTS).map(|slot| map(&format!("counters_{slot}"))).collect::<Result<_, _>>()?;
        let counters = counters.try_into().expect("as many as were asked for");
        Ok(Kernel { memory, overflow, period, command, moved, moves, counters })
    }

    pub(crate) fn words(&self) -> &MachineWords {
        self.memory.get()
    }

    /// Sets up a system that has not begun.
    pub(crate) fn set_up(&self, config: &Config, shift: u32) -> Result<(), RegulatorError> {
        if config.cores > SEATS_MAX {
            let reason = format!("{} groups on CPUs; accepted are up to {SEATS_MAX}", config.cores);
            return Err(RegulatorError::Bpf { what: "setting up", reason });
        }
        let words = self.words();
        let set = |word: &AtomicU32, value: u32| word.store(value, Ordering::Relaxed);
        set(&words.shared.reclaim_step, config.reclaim_step);
        set(&words.shared.sharing, config.sharing as u32);
        for (group, at) in config.groups.iter().zip(&words.groups) {
            let reservation = reservation_word(group.reservation).into();
            at.before.store(reservation, Ordering::Relaxed);
            at.after.store(reservation, Ordering::Relaxed);
            set(&at.quantum, group.quantum);
            set(&at.is_single, u32::from(group.cores.len() == 1));
        }
        for (core, seat) in words.seats.iter().enumerate().take(config.cores) {
            let group = config.groups.iter().position(|group| group.cores.contains(&core));
            set(&seat.group, group.map_or(NONE, |group| group as u32));
            seat.grant_end.store(NEVER, Ordering::Relaxed);
            seat.consumed_at.store(NEVER, Ordering::Relaxed);
            set(&seat.core.shift, shift);
            set(&seat.core.donates, u32::from(group.is_some_and(|group| config.groups[group].cores[0] == core)));
            set(&seat.core.regulated, group.is_some().into());
        }
        Ok(())
    }

    /// Sets the CPU of a seat, the events between two overflows of its counter, and its largest skid in events.
    pub(crate) fn place(&self, seat: usize, cpu: usize, (quantum, skid): (u32, u64)) {
        let words = self.words();
        let seat = &words.seats[seat];
        seat.cpu.store(cpu as u32, Ordering::Relaxed);
        seat.skid.store(skid, Ordering::Relaxed);
        if let Some(group) = words.groups.get(seat.group.load(Ordering::Relaxed) as usize) {
            group.quantum.fetch_max(quantum, Ordering::Relaxed);
        }
        // An overflow detects that a grant is consumed: a grant equals the distance between two overflows.
        words.shared.reclaim_step.fetch_max(quantum, Ordering::Relaxed);
    }

    /// How long the programs have run in interrupts, on all CPUs, while statistics were on.
    pub(crate) fn time_ns(&self) -> u64 {
        let programs = [&self.overflow, &self.period];
        programs.iter().map(|program| sys::program_time_ns(program.as_fd()).unwrap_or(0)).sum()
    }

    /// Begins a new account of greatest values.
    pub(crate) fn reset_maxima(&self) {
        for seat in &self.words().seats {
            seat.sums.used_max.store(0, Ordering::Relaxed);
            seat.sums.beyond_max.store(0, Ordering::Relaxed);
        }
    }

    /// Sets the start and the length of periods. The programs do nothing before that.
    pub(crate) fn set_clock(&self, start_ns: u64, period_ns: u64) {
        self.words().start_ns.store(start_ns, Ordering::Relaxed);
        self.words().period_ns.store(period_ns, Ordering::Release);
    }

    /// The latest period.
    pub(crate) fn latest(&self) -> u32 {
        (self.words().shared.roll.load(Ordering::Acquire) >> 32) as u32
    }

    /// Has the state machine of a seat act, on the CPU of the calling thread. Returns its signal: 0, or the action
    /// required of others; the signal of [`Command::reserve`], which any CPU may call, has no meaning.
    pub(crate) fn command(&self, seat: usize, command: Command) -> Result<u64, RegulatorError> {
        let Command([what, first, second]) = command;
        let arguments = [seat as u64, what.into(), first.into(), second.into()];
        match sys::run_program(self.command.as_fd(), &arguments) {
            Ok(0) => Ok(self.words().seats[seat].signal.load(Ordering::Acquire)),
            Ok(2) => Err(RegulatorError::Bpf { what: "a command", reason: "the period has begun".to_owned() }),
            Ok(_) => Err(RegulatorError::Bpf { what: "a command", reason: "another one runs on its CPU".to_owned() }),
            Err(error) => Err(failed("a command")(&error)),
        }
    }

    /// Has a counter's overflows decided for a seat, which is a CPU's group of this number, as long as the descriptor is open.
    pub(crate) fn attach_counter(
        &self,
        seat: usize,
        (cpu, slot): (usize, usize),
        counter: BorrowedFd<'_>,
    ) -> Result<OwnedFd, RegulatorError> {
        let failed = failed("attaching to a counter");
        let Some(counters) = self.counters.get(slot) else {
            let reason = format!("{} groups on CPU {cpu}; accepted are up to {SLOTS}", slot + 1);
            return Err(RegulatorError::Bpf { what: "attaching to a counter", reason });
        };
        self.words().seats[seat].slot.store(slot as u32, Ordering::Relaxed);
        sys::set_array_entry(counters.as_fd(), cpu as u32, counter.as_raw_fd() as u32)
            .and_then(|()| sys::attach_program(self.overflow.as_fd(), counter, seat as u64))
            .map_err(|error| failed(&error))
    }

    /// Watches which processes come into cgroups; `None` if they are watched already, or where the kernel has no such tracepoint.
    pub(crate) fn watch_moves(&self) -> Option<Moves> {
        let ring = self.moves.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let link = sys::attach_to_tracepoint(self.moved.as_fd(), c"cgroup_attach_task").ok()?;
        Some(Moves { ring, _link: link })
    }

    /// Has a clock begin the periods of a CPU, as long as the descriptor is open.
    pub(crate) fn attach_clock(&self, cpu: usize, clock: BorrowedFd<'_>) -> Result<OwnedFd, RegulatorError> {
        sys::attach_program(self.period.as_fd(), clock, cpu as u64)
            .map_err(|error| failed("attaching to a clock")(&error))
    }
}

fn load(object: &mut Ebpf, name: &str) -> Result<OwnedFd, RegulatorError> {
    let failed = failed("loading programs");
    let program = match object.program_mut(name) {
        Some(Program::PerfEvent(program)) => program.load().and_then(|()| program.fd()),
        Some(Program::RawTracePoint(program)) => program.load().and_then(|()| program.fd()),
        _ => {
            return Err(RegulatorError::Bpf { what: "loading programs", reason: format!("{name} is missing") });
        }
    };
    let program = program.map_err(|error| failed(&error))?;
    program.as_fd().try_clone_to_owned().map_err(|error| failed(&error))
}

#[cfg(test)]
#[path = "../../guard/tests/it/log.rs"]
mod log;

#[cfg(test)]
mod live {
    use super::log::{EVENTS, Log, SYSTEMS};
    use super::*;

    /// The output of `unit/replay.c`.
    fn answer(kernel: &Kernel, index: usize, command: Command) -> Vec<u32> {
        let words = kernel.words();
        let seat = &words.seats[index];
        seat.core.nr_actions.store(0, Ordering::Relaxed);
        let is_in_a_group = (seat.group.load(Ordering::Relaxed) as usize) < SEATS_MAX;
        let signal = match kernel.command(index, command) {
            // No seat needs a reservation.
            Err(_) if command.0[0] == RESERVE && !is_in_a_group => 0,
            other => other.unwrap(),
        };
        let get = |word: &AtomicU32| word.load(Ordering::Relaxed);
        let signal = if command.0[0] == RESERVE { 0 } else { signal };
        let mut answer = vec![(signal >> 32) as u32, signal as u32, get(&seat.core.nr_actions)];
        for action in &seat.core.actions[..get(&seat.core.nr_actions) as usize] {
            answer.extend(action.iter().map(get));
        }
        let used = &seat.core.used;
        answer.extend([&used.reserved, &used.returned, &used.reclaimed, &used.donated, &used.shortfall].map(get));
        answer.extend([get(&used.throttled), get(&used.shared)]);
        let phase = get(&seat.core.phase);
        answer.extend([u32::from(phase == THROTTLED), u32::from(phase == 3)]);
        answer.extend([&seat.core.period, &seat.core.busy, &seat.core.regulated].map(get));
        let roll = words.shared.roll.load(Ordering::Relaxed);
        let of = |tally: &AtomicU64, period: u32| {
            let tally = tally.load(Ordering::Relaxed);
            if (tally >> 32) as u32 == period { tally as u32 } else { 0 }
        };
        let (latest, period) = ((roll >> 32) as u32, get(&seat.core.period));
        answer.extend([latest, roll as u32 >> 31, of(&words.shared.pool, latest)]);
        let group = words.groups.get(get(&seat.group) as usize);
        answer.extend([
            group.map_or(0, |group| of(&group.account, period)),
            group.map_or(0, |group| of(&group.owed, period)),
        ]);
        answer
    }

    #[test]
    fn the_kernel_decides_as_memtint_guard_does_on_random_events() {
        let _alone = memtint_testing::alone();
        match Kernel::load() {
            // A refusal by the verifier is a failure.
            Err(error) if OBJECT.is_empty() || error.to_string().contains("not permitted") => {
                memtint_testing::skip("BPF");
                return;
            }
            other => drop(other.unwrap()),
        }
        for seed in 0..SYSTEMS / 4 {
            let log = Log::of_seed(seed);
            let kernel = Kernel::load().unwrap();
            kernel.set_up(&log.config, log.told[5]).unwrap();
            for (event, expected) in log.answers.iter().enumerate() {
                let first = log.told.len() - 4 * (EVENTS - event);
                let [what, index, one, other] = log.told[first..first + 4] else { unreachable!("four numbers") };
                let found = answer(&kernel, index as usize, Command([what, one, other]));
                assert_eq!(found, *expected, "seed {seed}, event {event}: {what} on {index} with {one}, {other}");
            }
        }
    }
}
