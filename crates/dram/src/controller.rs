//! The memory controller of one channel: queues, scheduling, page policy, refresh, and the timing of every command.
//!
//! Time jumps from command to command. Each bank has a candidate: the command that its best request needs next, with
//! the earliest cycle that the bank allows. Limits of ranks and of the bus are kept for each bank group. The next
//! command of the channel is the earliest candidate; among those ready in the same cycle, the one that the scheduler
//! prefers. A controller that examines all its requests in every cycle would send exactly the same commands.

mod choosing;
mod config;
mod counts;
mod refreshing;
mod serving;

pub use self::config::{ControllerConfig, PagePolicy, QueueSharing, Scheduler};
use self::counts::count_source;
pub use self::counts::{BankCounts, RankCounts, RefreshMet};
use crate::command::{Command, Kind};
use crate::error::DramError;
use crate::index::{BankInRank, BankIndex, Cycle, RankIndex, RowIndex};
use crate::refresh::{NEVER, Refresh, RefreshEngine};
use crate::timing::{Geometry, Timing};

/// A burst to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Returned with the completion.
    pub id: u64,
    /// The requester, for scheduling and statistics: `0..` and dense.
    pub source: u16,
    /// It is a write.
    pub write: bool,
    /// Bank of the channel.
    pub bank: BankIndex,
    /// Row of the bank.
    pub row: RowIndex,
    /// Column of the row, in bursts.
    pub column: u32,
}

/// Result of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It waits; a write counts as done for its requester.
    Queued,
    /// A waiting write supplies the data (to a read, in the next cycle), or absorbed this write.
    Forwarded,
    /// No entry is free for it.
    Full,
}

/// State of the row buffer when a request was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOutcome {
    /// Its row.
    Hit,
    /// Nothing: the bank was closed.
    Miss,
    /// Another row, which had to be closed.
    Conflict,
}

/// A read or write command that served a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of the request.
    pub id: u64,
    /// Of the request.
    pub source: u16,
    /// Of the request.
    pub write: bool,
    /// Of the request.
    pub bank: BankIndex,
    /// Cycle in which the request was accepted.
    pub arrival: Cycle,
    /// Cycle of the read or write command: its queue entry is free in the next one.
    pub issued: Cycle,
    /// First cycle after the last transfer of its data.
    pub done: Cycle,
    /// State of the row buffer.
    pub outcome: RowOutcome,
}

/// Result of one [`Controller::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A command that completes no request, or a refresh fell due.
    Working,
    /// A request was sent to its bank.
    Done(Completion),
    /// Nothing happens before the limit.
    Quiet,
}

/// Receives every command that a controller sends. `()` ignores them at no cost.
pub trait CommandSink {
    /// Receives the next command; cycles increase strictly.
    fn see(&mut self, command: Command);
}

impl CommandSink for () {
    #[inline(always)]
    fn see(&mut self, _: Command) {}
}

impl CommandSink for Vec<Command> {
    fn see(&mut self, command: Command) {
        self.push(command);
    }
}

/// Above the orders of arrival in an urgency: requests without a row hit come after all that have one. Orders repeat
/// after 2^38 requests; then one request may be mistaken for an older one.
const SECOND: u64 = 1 << 38;
/// Less urgent than any request.
const IDLE: u64 = (1 << 40) - 1;
/// Most banks on a channel: a bank is eight bits of a candidate's key.
const BANKS_MAX: u32 = 256;
/// Cycles ahead that a candidate's key can represent.
const AHEAD_MAX: u64 = (1 << 16) - 1;

const NONE: u16 = u16::MAX;
const CLOSED: u32 = u32::MAX;

/// Commands that wait for limits; the index into them.
const ACT: usize = 0;
const PRE: usize = 1;
const READ: usize = 2;
const WRITE: usize = 3;

/// Earliest cycles of ACT, PRE, read and write.
type Limits = [Cycle; 4];

#[derive(Clone, Copy, Debug)]
struct Slot {
    id: u64,
    arrival: Cycle,
    /// Requests in the order of arrival.
    sequence: u64,
    row: u32,
    column: u32,
    bank: u16,
    source: u16,
    next: u16,
    previous: u16,
    write: bool,
    outcome: RowOutcome,
    /// Belongs to the present batch.
    marked: bool,
    /// Has been counted as a request that met a refresh.
    met: bool,
}

/// Requests of one bank and direction, oldest first.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u16,
    tail: u16,
    length: u16,
}

const EMPTY: List = List { head: NONE, tail: NONE, length: 0 };

#[derive(Clone, Copy, Debug)]
struct Bank {
    /// Limits of the bank itself.
    ready: Limits,
    open_row: u32,
    /// Reads and writes since the row was opened.
    served: u32,
    last_access: Cycle,
    /// A refresh is due: nothing else starts.
    blocked: bool,
    /// First cycle after the latest refresh.
    refreshed_at: Cycle,
}

/// Position of a bank, stored to save divisions.
#[derive(Clone, Copy, Debug)]
struct Place {
    rank: RankIndex,
    bank: BankInRank,
    /// Bank group of the channel.
    group: u32,
    /// First bank group of its rank.
    first_group: u32,
}

/// The next command of a bank.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Earliest cycle that the bank allows.
    ready: Cycle,
    /// Its urgency (smaller goes first) above the eight bits of the bank's number.
    key: u64,
    /// Index of the limit that applies: four times the bank group, plus ACT, PRE, READ or WRITE.
    limit_at: u32,
    /// The request it serves, or [`NONE`] for closing an idle row.
    slot: u16,
}

impl Candidate {
    fn kind(&self) -> usize {
        self.limit_at as usize % 4
    }
}

#[derive(Debug)]
struct Rank {
    counts: RankCounts,
    /// The latest four ACT, oldest first.
    activates: [Cycle; 4],
    activate_count: u64,
    open_banks: u32,
    /// Start of the time with an open row; meaningful with open banks.
    open_since: Cycle,
    /// Latest start of the time with all rows closed; may lie ahead with auto-precharge.
    closed_at: Cycle,
    /// Earliest next REFpb.
    bank_refresh_ready: Cycle,
}

/// The memory controller of one channel.
///
/// Requests are [offered](Controller::offer) in the order of their cycles; [`Controller::step`] carries out the next
/// action. `S` receives the commands.
pub struct Controller<S = ()> {
    geometry: Geometry,
    timing: Timing,
    config: ControllerConfig,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Reads, then writes, of each bank.
    lists: Vec<[List; 2]>,
    /// Waiting reads and writes.
    waiting: [u32; 2],
    waiting_in_rank: Vec<u32>,
    last_access: Vec<Cycle>,
    writing: bool,
    /// Requests of the present direction that precede those of the other, however many of these wait.
    batch_left: u32,
    sequence: u64,
    banks: Vec<Bank>,
    candidates: Vec<Candidate>,
    /// Banks with a candidate, as bits.
    active: Vec<u64>,
    places: Vec<Place>,
    limits: Vec<Limits>,
    ranks: Vec<Rank>,
    engine: Box<dyn RefreshEngine>,
    wakeup: Cycle,
    due: Vec<Refresh>,
    /// The command bus is free from here on.
    free_at: Cycle,
    /// Result of [`Controller::choose`], as long as nothing has changed.
    chosen: Option<Chosen>,
    bank_counts: Vec<BankCounts>,
    met: Vec<RefreshMet>,
    /// The same by source.
    met_by_source: Vec<u64>,
    batch: Batch,
    sink: S,
}

/// State of batch scheduling.
#[derive(Debug, Default)]
struct Batch {
    marked_waiting: u32,
    /// Place of each requester in the present batch, 0 first.
    places: Vec<u16>,
}

/// The next command.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    cycle: Cycle,
    urgency: u64,
    next: Next,
}

/// Purpose of a command.
#[derive(Clone, Copy, Debug)]
enum Next {
    Bank(usize),
    Refresh(usize),
}

impl Controller<()> {
    /// Makes an idle controller whose commands are discarded.
    ///
    /// # Errors
    ///
    /// As [`Controller::with_sink`].
    pub fn new(geometry: Geometry, timing: Timing, config: ControllerConfig) -> Result<Controller, DramError> {
        Controller::with_sink(geometry, timing, config, ())
    }
}

impl<S: CommandSink> Controller<S> {
    /// Makes an idle controller at cycle 0, all banks closed.
    ///
    /// # Errors
    ///
    /// A queue without entries or with more than 30 000, more than 256 banks, watermarks in the wrong order, or fewer
    /// entries than banks when each bank has separate ones.
    pub fn with_sink(
        geometry: Geometry,
        timing: Timing,
        config: ControllerConfig,
        sink: S,
    ) -> Result<Controller<S>, DramError> {
        let engine = config.refresh.engine(&geometry, &timing);
        Controller::with_engine(geometry, timing, config, engine, sink)
    }

    /// As [`Controller::with_sink`], with a given refresh engine instead of the one that the configuration names: a
    /// [timetable](crate::Timetable), for instance.
    ///
    /// # Errors
    ///
    /// As [`Controller::with_sink`].
    pub fn with_engine(
        geometry: Geometry,
        timing: Timing,
        config: ControllerConfig,
        engine: Box<dyn RefreshEngine>,
        sink: S,
    ) -> Result<Controller<S>, DramError> {
        config.check(&geometry)?;
        let (banks, ranks) = (geometry.banks() as usize, geometry.ranks as usize);
        let places = (0..geometry.banks()).map(BankIndex).map(|bank| {
            let (rank, bank) = (geometry.rank_of(bank), geometry.bank_in_rank(bank));
            let first_group = rank.0 * geometry.bank_groups;
            Place { rank, bank, group: first_group + bank.0 / geometry.banks_per_group, first_group }
        });
        let slots = (config.read_queue + config.write_queue) as usize;
        let empty_slot = Slot {
            id: 0,
            arrival: Cycle::ZERO,
            sequence: 0,
            row: 0,
            column: 0,
            bank: 0,
            source: 0,
            next: NONE,
            previous: NONE,
            write: false,
            outcome: RowOutcome::Hit,
            marked: false,
            met: false,
        };
        let closed = Bank {
            ready: [Cycle::ZERO; 4],
            open_row: CLOSED,
            served: 0,
            last_access: Cycle::ZERO,
            blocked: false,
            refreshed_at: Cycle::ZERO,
        };
        let idle_rank = || Rank {
            counts: RankCounts::default(),
            activates: [Cycle::ZERO; 4],
            activate_count: 0,
            open_banks: 0,
            open_since: Cycle::ZERO,
            closed_at: Cycle::ZERO,
            bank_refresh_ready: Cycle::ZERO,
        };
        Ok(Controller {
            slots: vec![empty_slot; slots],
            free: (0..slots as u16).rev().collect(),
            lists: vec![[EMPTY; 2]; banks],
            waiting: [0; 2],
            waiting_in_rank: vec![0; ranks],
            last_access: vec![Cycle::ZERO; ranks],
            writing: false,
            batch_left: 0,
            sequence: 0,
            banks: vec![closed; banks],
            candidates: vec![Candidate { ready: NEVER, key: 0, limit_at: 0, slot: NONE }; banks],
            active: vec![0; banks.div_ceil(64)],
            places: places.collect(),
            limits: vec![[Cycle::ZERO; 4]; ranks * geometry.bank_groups as usize],
            ranks: (0..ranks).map(|_| idle_rank()).collect(),
            wakeup: engine.wakeup(),
            engine,
            due: Vec::new(),
            free_at: Cycle::ZERO,
            chosen: None,
            bank_counts: vec![BankCounts::default(); banks],
            met: vec![RefreshMet::default(); ranks],
            met_by_source: Vec::new(),
            batch: Batch::default(),
            geometry,
            timing,
            config,
            sink,
        })
    }

    /// Whether an entry is free for a read (or write) to a bank.
    #[inline]
    #[must_use]
    pub fn has_room(&self, write: bool, bank: BankIndex) -> bool {
        let queue = if write { self.config.write_queue } else { self.config.read_queue };
        match self.config.sharing {
            QueueSharing::Shared => self.waiting[usize::from(write)] < queue,
            QueueSharing::PerBank => {
                u32::from(self.lists[bank.index()][usize::from(write)].length) < queue / self.geometry.banks()
            }
        }
    }

    /// Offers a request in a cycle that is not before the last command's.
    ///
    /// Panics when bank, row or column do not exist.
    pub fn offer(&mut self, cycle: Cycle, request: Request) -> Offer {
        let Request { bank, row: RowIndex(row), column, write, .. } = request;
        assert!(bank.0 < self.geometry.banks(), "bank {bank} of {}", self.geometry.banks());
        assert!(row < self.geometry.rows, "row {row} of {}", self.geometry.rows);
        assert!(
            column < self.geometry.bursts_per_row(),
            "column {column} of {}, in bursts",
            self.geometry.bursts_per_row()
        );
        let direction = usize::from(write);
        let waiting_writes = self.lists[bank.index()][1];
        if waiting_writes.length > 0 && self.is_waiting_to_be_written(waiting_writes, row, column) {
            return Offer::Forwarded;
        }
        if !self.has_room(write, bank) {
            return Offer::Full;
        }
        let bank = bank.index();
        // Commands that could be sent before this cycle have been sent.
        self.not_before(cycle);
        let at = self.free.pop().expect("there are as many slots as entries");
        self.sequence += 1;
        let met = self.meets_refresh(cycle, bank);
        if met {
            count_source(&mut self.met_by_source, request.source);
        }
        let tail = self.lists[bank][direction].tail;
        self.slots[at as usize] = Slot {
            id: request.id,
            arrival: cycle,
            sequence: self.sequence,
            row,
            column,
            bank: bank as u16,
            source: request.source,
            next: NONE,
            previous: tail,
            write,
            outcome: RowOutcome::Hit,
            marked: false,
            met,
        };
        let list = &mut self.lists[bank][direction];
        list.tail = at;
        list.length += 1;
        if tail == NONE {
            list.head = at;
        } else {
            self.slots[tail as usize].next = at;
        }
        self.waiting[direction] += 1;
        self.waiting_in_rank[self.places[bank].rank.index()] += 1;
        if !self.turn_direction() && self.writing == write && self.note_arrival(bank, at) {
            self.reconsider(bank);
        }
        Offer::Queued
    }

    /// Carries out the next action, if it comes before `limit`.
    ///
    /// All requests that arrive in or before the cycle of the next command, [`Controller::next_cycle`], must have been
    /// offered.
    pub fn step(&mut self, limit: Cycle) -> Step {
        let Chosen { cycle, next, .. } = self.next_command();
        if self.wakeup <= cycle {
            if self.wakeup >= limit {
                return Step::Quiet;
            }
            self.ask_engine();
            return Step::Working;
        }
        if cycle >= limit {
            return Step::Quiet;
        }
        self.chosen = None;
        match next {
            Next::Bank(bank) => self.serve(cycle, bank),
            Next::Refresh(index) => {
                self.advance_refresh(cycle, index);
                Step::Working
            }
        }
    }

    /// Gives the cycle of the next command or due refresh, given the present requests; [`NEVER`] if there is none.
    pub fn next_cycle(&mut self) -> Cycle {
        self.next_command().cycle.min(self.wakeup)
    }

    /// Requests that wait: reads and writes.
    #[must_use]
    pub fn waiting(&self) -> [u32; 2] {
        self.waiting
    }

    /// Counts of each bank of the channel.
    #[must_use]
    pub fn bank_counts(&self) -> &[BankCounts] {
        &self.bank_counts
    }

    /// Counts of each rank, as of a cycle that is not before the last command.
    #[must_use]
    pub fn rank_counts(&self, now: Cycle) -> Vec<RankCounts> {
        let counts = |rank: &Rank| {
            let open = if rank.open_banks > 0 { now.since(rank.open_since) } else { 0 };
            RankCounts { cycles_open: rank.counts.cycles_open + open, ..rank.counts }
        };
        self.ranks.iter().map(counts).collect()
    }

    /// Requests of each rank that met a refresh.
    #[must_use]
    pub fn refresh_met(&self) -> &[RefreshMet] {
        &self.met
    }

    /// The same requests by their source, all ranks and kinds together; trailing sources without any may be missing.
    #[must_use]
    pub fn refresh_met_by_source(&self) -> &[u64] {
        &self.met_by_source
    }

    /// Name of the refresh engine.
    #[must_use]
    pub fn refresh_name(&self) -> &'static str {
        self.engine.name()
    }

    /// The devices' organisation.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The devices' timing.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Gives back the sink.
    #[must_use]
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// The sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    // --- requests ---

    fn is_waiting_to_be_written(&self, writes: List, row: u32, column: u32) -> bool {
        let mut at = writes.head;
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.row == row && slot.column == column {
                return true;
            }
            at = slot.next;
        }
        false
    }

    fn unlink(&mut self, at: u16) {
        let Slot { next, previous, bank, write, .. } = self.slots[at as usize];
        let direction = usize::from(write);
        let list = &mut self.lists[bank as usize][direction];
        list.length -= 1;
        if previous == NONE {
            list.head = next;
        }
        if next == NONE {
            list.tail = previous;
        }
        if previous != NONE {
            self.slots[previous as usize].next = next;
        }
        if next != NONE {
            self.slots[next as usize].previous = previous;
        }
        self.free.push(at);
        self.waiting[direction] -= 1;
        self.waiting_in_rank[self.places[usize::from(bank)].rank.index()] -= 1;
    }

    /// Switches between reading and writing when it is time; every bank then has another candidate.
    ///
    /// A turn lasts for as many requests as waited when it began (writes: down to the watermark) while the other
    /// direction waits as well: otherwise a requester that writes as fast as writes are drained would stop all reads.
    #[inline]
    fn turn_direction(&mut self) -> bool {
        let [reads, writes] = self.waiting;
        let turn = if self.writing {
            writes == 0 || (reads > 0 && (writes <= self.config.drain_to || self.batch_left == 0))
        } else {
            writes > 0 && (reads == 0 || (writes >= self.config.drain_at && self.batch_left == 0))
        };
        if turn {
            self.writing = !self.writing;
            self.batch_left = if self.writing { writes.saturating_sub(self.config.drain_to).max(1) } else { reads };
            self.renew(0..self.banks.len());
            self.chosen = None;
        }
        turn
    }

    // --- candidates ---

    fn renew(&mut self, banks: std::ops::Range<usize>) {
        for bank in banks {
            self.renew_bank(bank);
        }
    }

    /// Updates the candidate of a bank for a new request; returns false if it stays.
    #[inline]
    fn note_arrival(&mut self, bank: usize, at: u16) -> bool {
        // The candidate remains if it is an older row hit, or opens the bank for an older request.
        let idle = self.active[bank / 64] & 1 << (bank % 64) == 0;
        let candidate = self.candidates[bank];
        let simple = !matches!(self.config.scheduler, Scheduler::ParBs { .. });
        if simple && !idle && candidate.slot != NONE {
            let hit = self.slots[at as usize].row == self.banks[bank].open_row;
            if candidate.kind() != PRE || !hit {
                return false;
            }
        }
        self.renew_bank(bank);
        true
    }

    /// Nothing is sent before this cycle.
    fn not_before(&mut self, cycle: Cycle) {
        if cycle > self.free_at {
            self.free_at = cycle;
            // Candidates that could have been sent earlier are now ready together.
            if self.chosen.is_some_and(|chosen| chosen.cycle < cycle) {
                self.chosen = None;
            }
        }
    }

    /// Updates the choice after the candidate of a bank has changed.
    fn reconsider(&mut self, bank: usize) {
        let Some(chosen) = self.chosen else { return };
        if matches!(chosen.next, Next::Bank(other) if other == bank) {
            self.chosen = None;
        } else if self.active[bank / 64] & 1 << (bank % 64) != 0 {
            let cycle = self.ready_cycle(bank);
            let urgency = self.candidates[bank].key >> 8;
            if (cycle, urgency) < (chosen.cycle, chosen.urgency) {
                self.chosen = Some(Chosen { cycle, urgency, next: Next::Bank(bank) });
            }
        }
    }

    /// Earliest cycle for the candidate of a bank.
    #[inline]
    fn ready_cycle(&self, bank: usize) -> Cycle {
        let candidate = &self.candidates[bank];
        let limit = self.limits.as_flattened()[candidate.limit_at as usize];
        candidate.ready.max(limit).max(self.free_at)
    }

    // --- commands ---

    fn send(&mut self, cycle: Cycle, kind: Kind, bank: usize, place: u32) {
        debug_assert!(cycle >= self.free_at, "{kind} at {cycle}, and the command bus is taken until {}", self.free_at);
        let Place { rank, bank, .. } = self.places[bank];
        self.free_at = cycle + 1;
        self.sink.see(Command { cycle, kind, rank, bank, place });
    }
}
