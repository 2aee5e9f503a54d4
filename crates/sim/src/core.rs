//! A core: the instructions of a program that can be under way at once.
//!
//! Time inside a core is counted in *slots*: a core of issue width `w` has `w` of them in a clock cycle, and every
//! instruction takes one. Two models: *in order* waits for every load before it goes on; *windowed* lets up to a window
//! of instructions follow an unfinished load, as long as there are miss registers and nothing depends on it. Stores
//! never hold anything up but for the miss register they take.

use crate::refresh::RankMask;
use memtint_units::{Clock, Picoseconds};
use std::collections::VecDeque;

/// Not known yet.
pub(crate) const PENDING: u64 = u64::MAX;
/// No register.
pub(crate) const NO_REGISTER: u16 = u16::MAX;

/// How a core executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreModel {
    /// One load at a time.
    InOrder,
    /// Up to `window` instructions after an unfinished load.
    Windowed {
        /// Instructions (reorder buffer entries).
        window: u32,
    },
}

/// Parameters of the cores, which are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreConfig {
    /// Clock of the cores.
    pub clock: Clock,
    /// Instructions that a core can issue in a cycle.
    pub width: u32,
    /// How it executes.
    pub model: CoreModel,
    /// Misses it can have under way.
    pub mshrs: u32,
}

/// When a value is available.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// Slot, or [`PENDING`].
    pub(crate) slot: u64,
    /// Miss register that holds it, while it is pending.
    pub(crate) register: u16,
}

pub(crate) const AT_ONCE: Ready = Ready { slot: 0, register: NO_REGISTER };

/// A line on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) line: u64,
    pub(crate) taken: bool,
    /// When its line has arrived and there is room for the lines it displaced; [`PENDING`] before that is known.
    pub(crate) ready: u64,
    /// When the access began, for statistics.
    pub(crate) issued: Picoseconds,
    /// It counts as a demand read in the statistics.
    pub(crate) demand: bool,
    /// Lines to be written that the controller has not taken in yet.
    pub(crate) writebacks: u8,
}

/// A load that is not finished, in program order.
#[derive(Clone, Copy, Debug)]
struct Load {
    index: u64,
    ready: Ready,
}

/// The event that a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// It can go on.
    Nothing,
    /// The line of this register.
    Register(u16),
    /// Any register.
    AnyRegister,
}

/// State of one core.
pub(crate) struct Core {
    pub(crate) node: u32,
    /// Now.
    pub(crate) slot: u64,
    /// Instructions so far.
    pub(crate) index: u64,
    pub(crate) registers: Vec<Register>,
    pub(crate) taken: u32,
    pub(crate) block: Block,
    /// Nothing begins before this slot.
    pub(crate) wake: u64,
    pub(crate) last_load: Ready,
    pub(crate) last_fetch: Ready,
    loads: VecDeque<Load>,
    slots: Clock,
    /// The latest answer of [`Core::next`]: slot and time.
    time: (u64, Picoseconds),
    window: u64,
    in_order: bool,
    // --- what it runs ---
    pub(crate) task: Option<usize>,
    /// The task that it ran last, if it is idle now.
    pub(crate) last_task: Option<usize>,
    /// Those that may run on it.
    pub(crate) tasks: Vec<usize>,
    /// Its servers, the most urgent first.
    pub(crate) servers: Vec<usize>,
    /// The server that has it.
    pub(crate) serving: Option<usize>,
    /// Ranks whose locks concern its tasks and servers.
    pub(crate) ranks: RankMask,
    /// The ranks that are locked, up to a time.
    pub(crate) locked: (RankMask, Picoseconds),
    /// When the locks of its ranks change next; refreshed from then on.
    pub(crate) locks_change: Picoseconds,
    /// Task and number of the job that it has begun.
    pub(crate) begun: Option<(usize, u64)>,
    /// The quantum of its task ends at this slot ...
    pub(crate) quantum_end: u64,
    /// ... which it was given in this turn.
    pub(crate) turn: u64,
    /// The scheduler looks again at this slot.
    pub(crate) look_at: u64,
    /// All loads must be finished before the scheduler can act.
    pub(crate) draining: bool,
    pub(crate) busy_slots: u64,
}

impl Core {
    pub(crate) fn new(config: &CoreConfig, node: u32) -> Core {
        let empty =
            Register { line: 0, taken: false, ready: PENDING, issued: Picoseconds(0), demand: false, writebacks: 0 };
        let (numerator, denominator) = config.clock.period();
        let slots = Clock::new(numerator, denominator * u64::from(config.width)).expect("neither is zero");
        let (window, in_order) = match config.model {
            CoreModel::InOrder => (0, true),
            CoreModel::Windowed { window } => (u64::from(window), false),
        };
        Core {
            node,
            slot: 0,
            index: 0,
            registers: vec![empty; config.mshrs as usize],
            taken: 0,
            block: Block::Nothing,
            wake: 0,
            last_load: AT_ONCE,
            last_fetch: AT_ONCE,
            loads: VecDeque::new(),
            slots,
            time: (0, Picoseconds(0)),
            window,
            in_order,
            task: None,
            last_task: None,
            tasks: Vec::new(),
            servers: Vec::new(),
            serving: None,
            ranks: 0,
            locked: (0, Picoseconds(0)),
            locks_change: Picoseconds(0),
            begun: None,
            quantum_end: 0,
            turn: 0,
            look_at: 0,
            draining: false,
            busy_slots: 0,
        }
    }

    /// The time of a slot.
    #[inline]
    pub(crate) fn time_of(&self, slot: u64) -> Picoseconds {
        self.slots.start(slot)
    }

    /// The first slot at or after a time.
    #[inline]
    pub(crate) fn slot_of(&self, time: Picoseconds) -> u64 {
        self.slots.cycles_covering(time)
    }

    /// When the core does something next; the end of time while it is blocked.
    #[inline]
    pub(crate) fn next(&mut self) -> Picoseconds {
        if self.block != Block::Nothing {
            return Picoseconds(u64::MAX);
        }
        let slot = self.slot.max(self.wake);
        if self.time.0 != slot {
            self.time = (slot, self.slots.start(slot));
        }
        self.time.1
    }

    /// The earliest slot at which the instruction with this index can be under way, if it is known, given the slot at
    /// which it could start otherwise; and the register whose line it must also wait for. The first instruction beyond
    /// a load's window waits for the load, and all instructions from that one to this one follow it. Completed loads
    /// are removed.
    #[inline]
    pub(crate) fn enter_window(&mut self, index: u64, mut slot: u64) -> (u64, Option<u16>) {
        while let Some(load) = self.loads.front() {
            let Some(beyond) = index.checked_sub(load.index + self.window) else { break };
            if load.ready.slot == PENDING {
                return (slot, Some(load.ready.register));
            }
            slot = slot.max(load.ready.slot + beyond);
            self.loads.pop_front();
        }
        (slot, None)
    }

    /// Remembers a load that takes longer than a first-level hit.
    #[inline]
    pub(crate) fn remember(&mut self, index: u64, ready: Ready) {
        self.loads.push_back(Load { index, ready });
    }

    /// Waits for all loads; the slot at which the last is finished, or the register of one that is not.
    pub(crate) fn drain(&mut self) -> Result<u64, u16> {
        if let Some(load) = self.loads.iter().find(|load| load.ready.slot == PENDING) {
            return Err(load.ready.register);
        }
        Ok(self.loads.drain(..).map(|load| load.ready.slot).fold(self.slot, u64::max))
    }

    /// When a line that is on its way in a slot arrives; `None` when it is not on its way.
    #[inline]
    pub(crate) fn under_way(&self, line: u64, slot: u64) -> Option<Ready> {
        if self.taken == 0 {
            return None;
        }
        let is = |register: &Register| register.taken && register.line == line && register.ready > slot;
        let at = self.registers.iter().position(is)?;
        Some(Ready { slot: self.registers[at].ready, register: at as u16 })
    }

    /// Frees registers whose line has arrived; returns the number of free ones.
    pub(crate) fn free_registers(&mut self, slot: u64) -> usize {
        for register in &mut self.registers {
            if register.taken && register.ready <= slot && register.writebacks == 0 {
                register.taken = false;
                self.taken -= 1;
            }
        }
        self.registers.len() - self.taken as usize
    }

    /// The first slot in which a register becomes free, of those that are known.
    pub(crate) fn next_free(&self) -> Option<u64> {
        let known = |register: &&Register| register.ready != PENDING && register.writebacks == 0;
        self.registers.iter().filter(known).map(|register| register.ready).min()
    }

    pub(crate) fn take_register(&mut self, line: u64, issued: Picoseconds, demand: bool) -> u16 {
        let at = self.registers.iter().position(|register| !register.taken).expect("asked before");
        self.registers[at] = Register { line, taken: true, ready: PENDING, issued, demand, writebacks: 0 };
        self.taken += 1;
        at as u16
    }

    /// A line arrives at a time that may lie ahead.
    pub(crate) fn arrive(&mut self, at: u16, time: Picoseconds) -> Register {
        let slot = self.slot_of(time);
        self.registers[usize::from(at)].ready = slot;
        let known = Ready { slot, register: NO_REGISTER };
        let waits = |ready: &Ready| ready.slot == PENDING && ready.register == at;
        self.loads.iter_mut().map(|load| &mut load.ready).filter(|ready| waits(ready)).for_each(|ready| *ready = known);
        for ready in [&mut self.last_load, &mut self.last_fetch] {
            if waits(ready) {
                *ready = known;
            }
        }
        if self.block == Block::Register(at) || self.block == Block::AnyRegister {
            self.unblock(time);
            if self.in_order {
                self.slot = self.slot.max(slot);
            }
        }
        self.registers[usize::from(at)]
    }

    /// The controller takes in a line that a miss displaced.
    pub(crate) fn written(&mut self, at: u16, time: Picoseconds) {
        let slot = self.slot_of(time);
        let register = &mut self.registers[usize::from(at)];
        register.writebacks -= 1;
        if register.ready != PENDING {
            register.ready = register.ready.max(slot);
        }
        if self.block == Block::AnyRegister && self.next_free().is_some() {
            self.unblock(time);
        }
    }

    fn unblock(&mut self, time: Picoseconds) {
        self.block = Block::Nothing;
        self.wake = self.wake.max(self.slot_of(time));
    }
}
