//! The memory controller of one channel: queues, scheduling, page policy, refresh, and the timing of every command.
//!
//! Time jumps from command to command. For each bank the command that its best request needs next is known, with the
//! earliest cycle the bank allows; limits that a rank or the bus imposes are kept for each bank group. The next command
//! of the channel is the earliest of these candidates, and among those that are ready in the same cycle the one the
//! scheduler likes best: exactly what a controller that looks at all its requests in every cycle would send.

use crate::command::{Command, Kind};
use crate::error::DramError;
use crate::refresh::{NEVER, Refresh, RefreshEngine, RefreshKind, Scope, Traffic};
use crate::timing::{Geometry, Timing};

/// How the next request is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// First come, first served: a bank serves its requests in the order of arrival; banks work side by side, and of
    /// two commands that are ready together the one of the older request goes first.
    Fcfs,
    /// First ready (Rixner et al., ISCA 2000): row hits first, then the oldest. With a cap, a bank serves at most so
    /// many row hits while an older request waits for another row.
    FrFcfs {
        /// Row hits in a row over an older request; `None` for no limit.
        cap: Option<u32>,
    },
    /// Parallelism-aware batch scheduling (Mutlu and Moscibroda, ISCA 2008): the oldest requests of every requester and
    /// bank form a batch that is served before all others; inside it row hits first, then the requester with the least
    /// waiting for any bank, then the oldest.
    ParBs {
        /// Requests of one requester to one bank that a batch takes; the paper's Marking-Cap is 5.
        marking_cap: u32,
    },
}

/// When a row is closed that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePolicy {
    /// Not before another row of the bank is wanted.
    Open,
    /// With the last waiting request for it (auto-precharge).
    Closed,
    /// When it has not been used for so many cycles.
    Timeout(u32),
}

/// What the queues share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSharing {
    /// One read and one write queue, whose entries any bank may take: one busy bank can fill them.
    Shared,
    /// The entries are divided evenly among the banks.
    PerBank,
}

/// Parameters of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// Entries for reads.
    pub read_queue: u32,
    /// Entries for writes.
    pub write_queue: u32,
    /// Who may take them.
    pub sharing: QueueSharing,
    /// Waiting writes at which writes are drained although reads wait.
    pub drain_at: u32,
    /// Waiting writes down to which they are drained then.
    pub drain_to: u32,
    /// Order of service.
    pub scheduler: Scheduler,
    /// When rows are closed.
    pub page_policy: PagePolicy,
    /// When rows are refreshed.
    pub refresh: RefreshKind,
}

impl Default for ControllerConfig {
    /// A controller as in today's simulators: 32 + 32 entries, writes drained from four fifths to one fifth,
    /// row hits first with a cap of 16, open rows, all-bank refresh.
    fn default() -> ControllerConfig {
        ControllerConfig {
            read_queue: 32,
            write_queue: 32,
            sharing: QueueSharing::Shared,
            drain_at: 26,
            drain_to: 6,
            scheduler: Scheduler::FrFcfs { cap: Some(16) },
            page_policy: PagePolicy::Open,
            refresh: RefreshKind::AllBank { staggered: true },
        }
    }
}

/// A burst that somebody wants to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back with the completion.
    pub id: u64,
    /// Who wants it, for scheduling and statistics: `0..` and dense.
    pub source: u16,
    /// It is a write.
    pub write: bool,
    /// Bank of the channel: `rank * banks_per_rank + bank in rank`.
    pub bank: u32,
    /// Row of the bank.
    pub row: u32,
    /// Column of the row, in bursts.
    pub column: u32,
}

/// What became of an offered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It waits; writes are done for their requester.
    Queued,
    /// A waiting write has the data (for a read: there in the next cycle), or took this write in.
    Forwarded,
    /// There is no entry for it.
    Full,
}

/// What the row buffer held for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOutcome {
    /// Its row.
    Hit,
    /// Nothing: the bank was closed.
    Miss,
    /// Another row, which had to be closed.
    Conflict,
}

/// A read or write that was sent to its bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of the request.
    pub id: u64,
    /// Of the request.
    pub source: u16,
    /// Of the request.
    pub write: bool,
    /// Of the request.
    pub bank: u32,
    /// Cycle in which the request was accepted.
    pub arrival: u64,
    /// Cycle of the read or write command: its queue entry is free in the next one.
    pub issued: u64,
    /// First cycle after the last transfer of its data.
    pub done: u64,
    /// What it met.
    pub outcome: RowOutcome,
}

/// What one [`Controller::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A command that completes no request, or a refresh fell due.
    Working,
    /// A request was sent to its bank.
    Done(Completion),
    /// Nothing is to be done before the limit.
    Quiet,
}

/// Sees every command that a controller sends. `()` sees nothing and costs nothing.
pub trait CommandSink {
    /// Takes the next command; cycles increase strictly.
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

/// Counts of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// ACT commands.
    pub activates: u64,
    /// RD and RDA commands.
    pub reads: u64,
    /// WR and WRA commands.
    pub writes: u64,
    /// REF commands.
    pub refreshes: u64,
    /// REFpb and REFsb commands.
    pub bank_refreshes: u64,
    /// Cycles with a row open in at least one bank.
    pub cycles_open: u64,
}

/// Requests of one rank that met a refresh, each counted once and in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshMet {
    /// Requests whose bank was being refreshed, or closed for it, when they arrived, or that waited when its refresh fell
    /// due: what refresh holds up that nobody works around.
    pub ordinary: u64,
    /// Requests that arrived while software had locked the rank (see [`Timetable`](crate::Timetable)): none, if it keeps
    /// what it promises.
    pub locked: u64,
    /// Requests that had arrived before the rank was locked, and still waited when its burst began.
    pub caught: u64,
}

/// Counts of one bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankCounts {
    /// Requests that found their row open.
    pub hits: u64,
    /// Requests that found the bank closed.
    pub misses: u64,
    /// Requests that found another row open.
    pub conflicts: u64,
}

/// Counts one more of a source.
fn count_source(counts: &mut Vec<u64>, source: u16) {
    let source = usize::from(source);
    if counts.len() <= source {
        counts.resize(source + 1, 0);
    }
    counts[source] += 1;
}

/// Above the orders of arrival in an urgency: what is not a row hit comes after all that are. Orders repeat after 2^38
/// requests, when one request may once be taken for older than it is.
const SECOND: u64 = 1 << 38;
/// Less urgent than any request.
const IDLE: u64 = (1 << 40) - 1;
/// Banks on a channel at most: a bank is eight bits of a candidate's key.
const BANKS_MAX: u32 = 256;
/// Cycles ahead that a candidate's key tells apart.
const AHEAD_MAX: u64 = (1 << 16) - 1;

const NONE: u16 = u16::MAX;
const CLOSED: u32 = u32::MAX;

/// Commands that wait for limits; the index into them.
const ACT: usize = 0;
const PRE: usize = 1;
const READ: usize = 2;
const WRITE: usize = 3;

/// Earliest cycles of ACT, PRE, read and write.
type Limits = [u64; 4];

#[derive(Clone, Copy, Debug)]
struct Slot {
    id: u64,
    arrival: u64,
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
    /// Has been counted as one that met a refresh.
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
    /// What the bank itself allows.
    ready: Limits,
    open_row: u32,
    /// Reads and writes since the row was opened.
    served: u32,
    last_access: u64,
    /// A refresh is due: nothing else starts.
    blocked: bool,
    /// First cycle after the latest refresh.
    refreshed_at: u64,
}

/// Where a bank is, so that nobody has to divide.
#[derive(Clone, Copy, Debug)]
struct Place {
    rank: u32,
    /// Bank inside the rank.
    bank: u32,
    /// Bank group of the channel.
    group: u32,
    /// First bank group of its rank.
    first_group: u32,
}

/// The command that a bank wants next.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Earliest cycle that the bank allows.
    ready: u64,
    /// Its urgency (smaller goes first) above the eight bits of the bank's number.
    key: u64,
    /// Where the limit stands that holds for it: four times the bank group, plus ACT, PRE, READ or WRITE.
    limit_at: u32,
    /// The request it serves, or [`NONE`] for closing a row nobody wants.
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
    activates: [u64; 4],
    activate_count: u64,
    open_banks: u32,
    /// Since when a row is open; meaningful with open banks.
    open_since: u64,
    /// Since when all rows are closed, at most this late; may lie ahead with auto-precharge.
    closed_at: u64,
    /// Earliest next REFpb.
    bank_refresh_ready: u64,
}

/// The memory controller of one channel.
///
/// Requests are [offered](Controller::offer) in the order of their cycles; [`Controller::step`] carries out what comes
/// next. `S` sees the commands.
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
    last_access: Vec<u64>,
    writing: bool,
    /// Requests of the present direction that go before those of the other, however many of these wait.
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
    wakeup: u64,
    due: Vec<Refresh>,
    /// The command bus is free from here on.
    free_at: u64,
    /// What [`Controller::choose`] would say, as long as nothing has changed.
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
    cycle: u64,
    urgency: u64,
    next: Next,
}

/// What it is for.
#[derive(Clone, Copy, Debug)]
enum Next {
    Bank(usize),
    Refresh(usize),
}

impl Controller<()> {
    /// Makes an idle controller whose commands nobody watches.
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
    /// entries than banks when each bank is to have its own.
    pub fn with_sink(
        geometry: Geometry,
        timing: Timing,
        config: ControllerConfig,
        sink: S,
    ) -> Result<Controller<S>, DramError> {
        let engine = config.refresh.engine(&geometry, &timing);
        Controller::with_engine(geometry, timing, config, engine, sink)
    }

    /// As [`Controller::with_sink`], with a refresh engine of one's own instead of the one that the configuration names: a
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
        let per_rank = geometry.banks_per_rank();
        let places = (0..geometry.banks()).map(|bank| {
            let (rank, bank) = (bank / per_rank, bank % per_rank);
            let first_group = rank * geometry.bank_groups;
            Place { rank, bank, group: first_group + bank / geometry.banks_per_group, first_group }
        });
        let slots = (config.read_queue + config.write_queue) as usize;
        let empty_slot = Slot {
            id: 0,
            arrival: 0,
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
        let closed =
            Bank { ready: [0; 4], open_row: CLOSED, served: 0, last_access: 0, blocked: false, refreshed_at: 0 };
        let idle_rank = || Rank {
            counts: RankCounts::default(),
            activates: [0; 4],
            activate_count: 0,
            open_banks: 0,
            open_since: 0,
            closed_at: 0,
            bank_refresh_ready: 0,
        };
        Ok(Controller {
            slots: vec![empty_slot; slots],
            free: (0..slots as u16).rev().collect(),
            lists: vec![[EMPTY; 2]; banks],
            waiting: [0; 2],
            waiting_in_rank: vec![0; ranks],
            last_access: vec![0; ranks],
            writing: false,
            batch_left: 0,
            sequence: 0,
            banks: vec![closed; banks],
            candidates: vec![Candidate { ready: NEVER, key: 0, limit_at: 0, slot: NONE }; banks],
            active: vec![0; banks.div_ceil(64)],
            places: places.collect(),
            limits: vec![[0; 4]; ranks * geometry.bank_groups as usize],
            ranks: (0..ranks).map(|_| idle_rank()).collect(),
            wakeup: engine.wakeup(),
            engine,
            due: Vec::new(),
            free_at: 0,
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
    pub fn has_room(&self, write: bool, bank: u32) -> bool {
        let queue = if write { self.config.write_queue } else { self.config.read_queue };
        match self.config.sharing {
            QueueSharing::Shared => self.waiting[usize::from(write)] < queue,
            QueueSharing::PerBank => {
                u32::from(self.lists[bank as usize][usize::from(write)].length) < queue / self.geometry.banks()
            }
        }
    }

    /// Offers a request in a cycle that is not before the last command's.
    ///
    /// Panics when bank, row or column do not exist.
    pub fn offer(&mut self, cycle: u64, request: Request) -> Offer {
        let Request { bank, row, column, write, .. } = request;
        assert!(row < self.geometry.rows, "row {row} of {}", self.geometry.rows);
        debug_assert!(column < self.geometry.bursts_per_row(), "column {column}");
        let direction = usize::from(write);
        let waiting_writes = self.lists[bank as usize][1];
        if waiting_writes.length > 0 && self.is_waiting_to_be_written(waiting_writes, row, column) {
            return Offer::Forwarded;
        }
        if !self.has_room(write, bank) {
            return Offer::Full;
        }
        // What could be sent before this cycle has been.
        self.not_before(cycle);
        let at = self.free.pop().expect("there are as many slots as entries");
        self.sequence += 1;
        let met = self.meets_refresh(cycle, bank as usize);
        if met {
            count_source(&mut self.met_by_source, request.source);
        }
        let tail = self.lists[bank as usize][direction].tail;
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
        let list = &mut self.lists[bank as usize][direction];
        list.tail = at;
        list.length += 1;
        if tail == NONE {
            list.head = at;
        } else {
            self.slots[tail as usize].next = at;
        }
        self.waiting[direction] += 1;
        self.waiting_in_rank[self.places[bank as usize].rank as usize] += 1;
        if !self.turn_direction() && self.writing == write && self.note_arrival(bank as usize, at) {
            self.reconsider(bank as usize);
        }
        Offer::Queued
    }

    /// Carries out what comes next, if it comes before `limit`.
    ///
    /// All requests that arrive in or before the cycle of the next command must have been offered:
    /// [`Controller::next_cycle`] tells it.
    pub fn step(&mut self, limit: u64) -> Step {
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

    /// The cycle of the next command or refresh that falls due, with the requests there are; [`NEVER`] when there is
    /// none.
    pub fn next_cycle(&mut self) -> u64 {
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
    pub fn rank_counts(&self, now: u64) -> Vec<RankCounts> {
        let counts = |rank: &Rank| {
            let open = if rank.open_banks > 0 { now.saturating_sub(rank.open_since) } else { 0 };
            RankCounts { cycles_open: rank.counts.cycles_open + open, ..rank.counts }
        };
        self.ranks.iter().map(counts).collect()
    }

    /// Requests of each rank that met a refresh.
    #[must_use]
    pub fn refresh_met(&self) -> &[RefreshMet] {
        &self.met
    }

    /// The same requests by their source, all ranks and kinds together; shorter than there are sources where the last of them
    /// met none.
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

    /// Gives back what saw the commands.
    #[must_use]
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// What saw the commands so far.
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
        self.waiting_in_rank[self.places[usize::from(bank)].rank as usize] -= 1;
    }

    /// Turns between reading and writing when it is time; every bank then has another candidate.
    ///
    /// A turn lasts for as many requests as waited when it began (writes: down to the watermark) and no more while the
    /// other direction waits as well: otherwise a requester that writes as fast as writes are drained would stop all
    /// reads.
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

    /// Looks whether a new request changes what its bank wants.
    #[inline]
    fn note_arrival(&mut self, bank: usize, at: u16) -> bool {
        // An older row hit, and a bank that is to be opened for an older request, stay as they are.
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

    /// Nothing is sent before a cycle.
    fn not_before(&mut self, cycle: u64) {
        if cycle > self.free_at {
            self.free_at = cycle;
            // Candidates that could have been sent earlier are now ready together.
            if self.chosen.is_some_and(|chosen| chosen.cycle < cycle) {
                self.chosen = None;
            }
        }
    }

    /// A bank wants something else than before.
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

    /// When the candidate of a bank can be sent.
    #[inline]
    fn ready_cycle(&self, bank: usize) -> u64 {
        let candidate = &self.candidates[bank];
        let limit = self.limits.as_flattened()[candidate.limit_at as usize];
        candidate.ready.max(limit).max(self.free_at)
    }

    #[inline]
    fn next_command(&mut self) -> Chosen {
        if let Some(chosen) = self.chosen {
            return chosen;
        }
        let chosen = self.choose();
        self.chosen = Some(chosen);
        chosen
    }

    /// Finds what a bank wants next.
    fn renew_bank(&mut self, bank: usize) {
        let state = &self.banks[bank];
        let list = self.lists[bank][usize::from(self.writing)];
        let bit = 1u64 << (bank % 64);
        let word = bank / 64;
        if state.blocked {
            self.active[word] &= !bit;
            return;
        }
        if list.head == NONE {
            return match self.config.page_policy {
                PagePolicy::Timeout(cycles) if state.open_row != CLOSED => {
                    let ready = state.ready[PRE].max(state.last_access + u64::from(cycles));
                    self.propose(bank, ready, PRE, IDLE, NONE);
                    self.active[word] |= bit;
                }
                _ => self.active[word] &= !bit,
            };
        }
        let slot = self.best(bank, list);
        let request = &self.slots[slot as usize];
        let kind = match self.banks[bank].open_row {
            CLOSED => ACT,
            row if row == request.row => READ + usize::from(request.write),
            _ => PRE,
        };
        let urgency = self.urgency(request, kind >= READ);
        self.propose(bank, self.banks[bank].ready[kind], kind, urgency, slot);
        self.active[word] |= bit;
    }

    #[inline]
    fn propose(&mut self, bank: usize, ready: u64, kind: usize, urgency: u64, slot: u16) {
        let limit_at = self.places[bank].group * 4 + kind as u32;
        self.candidates[bank] = Candidate { ready, key: urgency << 8 | bank as u64, limit_at, slot };
    }

    /// The request that a bank serves next.
    #[inline]
    fn best(&self, bank: usize, list: List) -> u16 {
        let state = &self.banks[bank];
        match self.config.scheduler {
            Scheduler::Fcfs => list.head,
            Scheduler::FrFcfs { cap } => {
                if state.open_row == CLOSED || cap.is_some_and(|cap| state.served >= cap) {
                    return list.head;
                }
                let mut at = list.head;
                while at != NONE {
                    let slot = &self.slots[at as usize];
                    if slot.row == state.open_row {
                        return at;
                    }
                    at = slot.next;
                }
                list.head
            }
            Scheduler::ParBs { .. } => {
                let (mut best, mut least) = (list.head, u64::MAX);
                let mut at = list.head;
                while at != NONE {
                    let slot = &self.slots[at as usize];
                    let urgency = self.urgency(slot, slot.row == state.open_row);
                    if urgency < least {
                        (best, least) = (at, urgency);
                    }
                    at = slot.next;
                }
                best
            }
        }
    }

    /// How urgent a request is, below 2^40: smaller goes first.
    #[inline]
    fn urgency(&self, request: &Slot, hit: bool) -> u64 {
        match self.config.scheduler {
            Scheduler::Fcfs => request.sequence & (SECOND - 1),
            Scheduler::FrFcfs { .. } => request.sequence & (SECOND - 1) | if hit { 0 } else { SECOND },
            Scheduler::ParBs { .. } => {
                const PLACE_SHIFT: u32 = 32;
                let last = (SECOND >> PLACE_SHIFT) - 1;
                let place = self.batch.places.get(usize::from(request.source)).map_or(last, |&place| u64::from(place));
                (if request.marked { 0 } else { SECOND << 1 })
                    | if hit { 0 } else { SECOND }
                    | place.min(last) << PLACE_SHIFT
                    | request.sequence & ((1 << PLACE_SHIFT) - 1)
            }
        }
    }

    /// The earliest candidate, the most urgent of those that are ready together.
    #[inline]
    fn choose(&self) -> Chosen {
        let mut chosen = self.choose_bank();
        for (index, refresh) in self.due.iter().enumerate() {
            let (kind, ready, _) = self.refresh_step(refresh);
            let cycle = ready.max(self.free_at);
            // What has a cycle of its own to be sent in goes before what has until then.
            let urgency = u64::from(refresh.earliest > 0 && kind == Kind::PrechargeAll);
            if cycle < chosen.cycle || cycle == chosen.cycle && urgency < chosen.urgency {
                chosen = Chosen { cycle, urgency, next: Next::Refresh(index) };
            }
        }
        chosen
    }

    /// Cycle, urgency and bank of each candidate are put into one number, so that the least is found without branches.
    #[inline]
    fn choose_bank(&self) -> Chosen {
        let mut least = u64::MAX;
        for (word, &bits) in self.active.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let bank = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let ahead = (self.ready_cycle(bank) - self.free_at).min(AHEAD_MAX);
                least = least.min(ahead << 48 | self.candidates[bank].key);
            }
        }
        if least >= AHEAD_MAX << 48 {
            return self.choose_far_bank();
        }
        Chosen {
            cycle: self.free_at + (least >> 48),
            urgency: least >> 8 & IDLE,
            next: Next::Bank((least & 0xff) as usize),
        }
    }

    /// The same for candidates that lie far ahead.
    #[cold]
    fn choose_far_bank(&self) -> Chosen {
        let active = |bank: &usize| self.active[bank / 64] & 1 << (bank % 64) != 0;
        let key = |bank: usize| (self.ready_cycle(bank), self.candidates[bank].key >> 8, bank);
        match (0..self.banks.len()).filter(active).map(key).min() {
            Some((cycle, urgency, bank)) => Chosen { cycle, urgency, next: Next::Bank(bank) },
            None => Chosen { cycle: NEVER, urgency: u64::MAX, next: Next::Bank(0) },
        }
    }

    // --- commands ---

    fn send(&mut self, cycle: u64, kind: Kind, bank: usize, place: u32) {
        let Place { rank, bank, .. } = self.places[bank];
        self.free_at = cycle + 1;
        self.sink.see(Command { cycle, kind, rank, bank, place });
    }

    /// Sends the candidate of a bank.
    fn serve(&mut self, cycle: u64, bank: usize) -> Step {
        let slot = self.candidates[bank].slot;
        match self.candidates[bank].kind() {
            ACT => {
                self.activate(cycle, bank, slot);
                self.renew_bank(bank);
                Step::Working
            }
            PRE => {
                if slot != NONE {
                    self.slots[slot as usize].outcome = RowOutcome::Conflict;
                }
                self.send(cycle, Kind::Precharge, bank, 0);
                self.precharge(cycle, bank, self.timing.rp);
                self.limit_precharges(cycle, bank);
                self.renew_bank(bank);
                Step::Working
            }
            _ => Step::Done(self.access(cycle, bank, slot)),
        }
    }

    fn activate(&mut self, cycle: u64, bank: usize, slot: u16) {
        let request = &mut self.slots[slot as usize];
        if request.outcome == RowOutcome::Hit {
            request.outcome = RowOutcome::Miss;
        }
        let row = request.row;
        self.send(cycle, Kind::Activate, bank, row);
        let t = self.timing;
        let state = &mut self.banks[bank];
        state.open_row = row;
        state.served = 0;
        // A row opened just now has not gone unused for long, should the bus turn before its first access.
        state.last_access = cycle;
        state.ready =
            [cycle + u64::from(t.rc), cycle + u64::from(t.ras), cycle + u64::from(t.rcd), cycle + u64::from(t.rcd)];
        let place = self.places[bank];
        let rank = &mut self.ranks[place.rank as usize];
        rank.activates.rotate_left(1);
        rank.activates[3] = cycle;
        rank.activate_count += 1;
        rank.counts.activates += 1;
        if rank.open_banks == 0 {
            rank.open_since = cycle.max(rank.closed_at);
        }
        rank.open_banks += 1;
        let window = if rank.activate_count >= 4 { rank.activates[0] + u64::from(t.faw) } else { 0 };
        for (group, limits) in self.limits_of_rank(place) {
            let distance = if group == place.group { t.rrd_l } else { t.rrd_s };
            limits[ACT] = limits[ACT].max(cycle + u64::from(distance)).max(window);
        }
    }

    /// Closes a bank's row at a cycle that may lie ahead (auto-precharge).
    fn precharge(&mut self, cycle: u64, bank: usize, rp: u32) {
        let state = &mut self.banks[bank];
        let was_open = state.open_row != CLOSED;
        state.open_row = CLOSED;
        state.ready[ACT] = state.ready[ACT].max(cycle + u64::from(rp));
        if was_open {
            let rank = &mut self.ranks[self.places[bank].rank as usize];
            rank.open_banks -= 1;
            rank.closed_at = rank.closed_at.max(cycle);
            if rank.open_banks == 0 {
                rank.counts.cycles_open += rank.closed_at.saturating_sub(rank.open_since);
            }
        }
    }

    /// tPPD, where it is more than the command bus asks for anyway.
    fn limit_precharges(&mut self, cycle: u64, bank: usize) {
        if self.timing.ppd > 1 {
            let next = cycle + u64::from(self.timing.ppd);
            for (_, limits) in self.limits_of_rank(self.places[bank]) {
                limits[PRE] = limits[PRE].max(next);
            }
        }
    }

    /// Reads or writes.
    fn access(&mut self, cycle: u64, bank: usize, at: u16) -> Completion {
        let slot = self.slots[at as usize];
        self.unlink(at);
        let close = self.config.page_policy == PagePolicy::Closed && !self.is_row_wanted(bank, slot.row);
        let kind = match (slot.write, close) {
            (false, false) => Kind::Read,
            (false, true) => Kind::ReadAuto,
            (true, false) => Kind::Write,
            (true, true) => Kind::WriteAuto,
        };
        self.send(cycle, kind, bank, slot.column);
        let rank_at = self.places[bank].rank as usize;
        let counts = &mut self.ranks[rank_at].counts;
        let done = if slot.write {
            counts.writes += 1;
            self.limit_after_write(cycle, bank);
            cycle + u64::from(self.timing.cwl + self.timing.burst)
        } else {
            counts.reads += 1;
            self.limit_after_read(cycle, bank);
            cycle + u64::from(self.timing.read_latency())
        };
        self.batch_left = self.batch_left.saturating_sub(1);
        let state = &mut self.banks[bank];
        state.served += 1;
        state.last_access = cycle;
        self.last_access[rank_at] = cycle;
        if close {
            self.precharge(self.banks[bank].ready[PRE], bank, self.timing.rp);
        }
        let counts = &mut self.bank_counts[bank];
        match slot.outcome {
            RowOutcome::Hit => counts.hits += 1,
            RowOutcome::Miss => counts.misses += 1,
            RowOutcome::Conflict => counts.conflicts += 1,
        }
        if let Scheduler::ParBs { marking_cap } = self.config.scheduler {
            self.batch.marked_waiting -= u32::from(slot.marked);
            if self.batch.marked_waiting == 0 {
                self.form_batch(marking_cap);
            }
        }
        if !self.turn_direction() {
            self.renew_bank(bank);
        }
        Completion {
            id: slot.id,
            source: slot.source,
            write: slot.write,
            bank: bank as u32,
            arrival: slot.arrival,
            issued: cycle,
            done,
            outcome: slot.outcome,
        }
    }

    fn is_row_wanted(&self, bank: usize, row: u32) -> bool {
        self.lists[bank].iter().any(|list| {
            let mut at = list.head;
            while at != NONE {
                if self.slots[at as usize].row == row {
                    return true;
                }
                at = self.slots[at as usize].next;
            }
            false
        })
    }

    fn limit_after_read(&mut self, cycle: u64, bank: usize) {
        let t = self.timing;
        let pre = &mut self.banks[bank].ready[PRE];
        *pre = (*pre).max(cycle + u64::from(t.rtp));
        let place = self.places[bank];
        if self.geometry.ranks > 1 {
            // The data of both directions share the bus.
            let write = (cycle + u64::from(t.cl + t.burst + t.rtrs)).saturating_sub(u64::from(t.cwl));
            self.limit_accesses(cycle + u64::from(t.burst + t.rtrs), write, place);
        }
        let write = cycle + u64::from(t.rtw);
        for (group, limits) in self.limits_of_rank(place) {
            let ccd = if group == place.group { t.ccd_l } else { t.ccd_s };
            limits[READ] = limits[READ].max(cycle + u64::from(ccd.max(t.burst)));
            limits[WRITE] = limits[WRITE].max(write);
        }
    }

    fn limit_after_write(&mut self, cycle: u64, bank: usize) {
        let t = self.timing;
        let pre = &mut self.banks[bank].ready[PRE];
        *pre = (*pre).max(cycle + u64::from(t.write_to_precharge()));
        let place = self.places[bank];
        let data_end = cycle + u64::from(t.cwl + t.burst);
        if self.geometry.ranks > 1 {
            let read = (data_end + u64::from(t.rtrs)).saturating_sub(u64::from(t.cl));
            self.limit_accesses(read, cycle + u64::from(t.burst + t.rtrs), place);
        }
        for (group, limits) in self.limits_of_rank(place) {
            let (ccd, wtr) = if group == place.group { (t.ccd_l_wr, t.wtr_l) } else { (t.ccd_s_wr, t.wtr_s) };
            limits[READ] = limits[READ].max(data_end + u64::from(wtr));
            limits[WRITE] = limits[WRITE].max(cycle + u64::from(ccd.max(t.burst)));
        }
    }

    /// Limits reads and writes of all ranks but that of `place`.
    fn limit_accesses(&mut self, read: u64, write: u64, place: Place) {
        let own = place.first_group..place.first_group + self.geometry.bank_groups;
        for (group, limits) in (0..).zip(&mut self.limits) {
            if !own.contains(&group) {
                limits[READ] = limits[READ].max(read);
                limits[WRITE] = limits[WRITE].max(write);
            }
        }
    }

    /// The bank groups of a bank's rank, with their limits.
    fn limits_of_rank(&mut self, place: Place) -> impl Iterator<Item = (u32, &mut Limits)> {
        let first = place.first_group as usize;
        (place.first_group..).zip(&mut self.limits[first..first + self.geometry.bank_groups as usize])
    }

    // --- batches ---

    /// Marks the oldest reads of every requester and bank, and gives every requester its place: the one whose most
    /// loaded bank has the fewest marked requests first, then the one with the fewest in all.
    fn form_batch(&mut self, cap: u32) {
        let mut loads: Vec<(u32, u32)> = Vec::new();
        let mut marked = 0;
        for bank in 0..self.banks.len() {
            let mut taken: Vec<u32> = Vec::new();
            let mut at = self.lists[bank][0].head;
            while at != NONE {
                let slot = &mut self.slots[at as usize];
                let source = usize::from(slot.source);
                if taken.len() <= source {
                    taken.resize(source + 1, 0);
                }
                if taken[source] < cap {
                    taken[source] += 1;
                    slot.marked = true;
                    marked += 1;
                }
                at = slot.next;
            }
            if loads.len() < taken.len() {
                loads.resize(taken.len(), (0, 0));
            }
            for (load, &taken) in loads.iter_mut().zip(&taken) {
                *load = (load.0.max(taken), load.1 + taken);
            }
        }
        let mut order: Vec<usize> = (0..loads.len()).collect();
        order.sort_by_key(|&source| (loads[source], source));
        self.batch.marked_waiting = marked;
        self.batch.places.clear();
        self.batch.places.resize(loads.len(), 0);
        for (place, &source) in order.iter().enumerate() {
            self.batch.places[source] = place as u16;
        }
        self.renew(0..self.banks.len());
    }

    // --- refresh ---

    /// Counts a request that arrives while its bank is refreshed or its rank locked.
    fn meets_refresh(&mut self, cycle: u64, bank: usize) -> bool {
        let rank = self.places[bank].rank;
        let (state, met) = (&self.banks[bank], &mut self.met[rank as usize]);
        match self.engine.locks() {
            Some(timetable) if timetable.is_locked(rank, cycle) => met.locked += 1,
            None if state.blocked || cycle < state.refreshed_at => met.ordinary += 1,
            _ => return false,
        }
        true
    }

    /// Counts the requests that wait for banks whose refresh has fallen due.
    fn count_caught(&mut self, refresh: Refresh) {
        if self.waiting_in_rank[refresh.rank as usize] == 0 {
            return;
        }
        let met = &mut self.met[refresh.rank as usize];
        let count = if self.engine.locks().is_some() { &mut met.caught } else { &mut met.ordinary };
        for bank in refresh.banks(&self.geometry) {
            for list in self.lists[bank] {
                let mut at = list.head;
                while at != NONE {
                    let slot = &mut self.slots[at as usize];
                    if !slot.met {
                        slot.met = true;
                        *count += 1;
                        count_source(&mut self.met_by_source, slot.source);
                    }
                    at = slot.next;
                }
            }
        }
    }

    /// The time has come that the engine named.
    fn ask_engine(&mut self) {
        let now = self.wakeup;
        self.free_at = self.free_at.max(now);
        self.chosen = None;
        let traffic = Traffic { waiting: &self.waiting_in_rank, last_access: &self.last_access };
        while let Some(refresh) = self.engine.poll(now, traffic) {
            self.due.push(refresh);
        }
        self.wakeup = self.engine.wakeup();
        for index in 0..self.due.len() {
            self.count_caught(self.due[index]);
            self.set_blocked(self.due[index], true);
        }
    }

    fn set_blocked(&mut self, refresh: Refresh, blocked: bool) {
        for bank in refresh.banks(&self.geometry) {
            self.banks[bank].blocked = blocked;
            self.renew_bank(bank);
        }
    }

    /// The command that a due refresh needs next, its earliest cycle, and the bank it is for.
    fn refresh_step(&self, refresh: &Refresh) -> (Kind, u64, usize) {
        let groups = self.geometry.bank_groups as usize;
        let first_group = refresh.rank as usize * groups;
        let open = |bank: &usize| self.banks[*bank].open_row != CLOSED;
        let mut banks = refresh.banks(&self.geometry);
        let first = refresh.rank as usize * self.geometry.banks_per_rank() as usize;
        let limit = self.limits[first_group][PRE];
        if refresh.scope == Scope::AllBanks {
            if banks.clone().any(|bank| open(&bank)) {
                // Banks that are about to close by themselves must have begun to.
                let ready = banks.map(|bank| self.banks[bank].ready[PRE]).max().unwrap_or(0);
                return (Kind::PrechargeAll, ready.max(limit), first);
            }
            let ready = banks.map(|bank| self.banks[bank].ready[ACT]).max().unwrap_or(0);
            let ready = ready.max(self.ranks[refresh.rank as usize].bank_refresh_ready);
            return (Kind::Refresh, ready.max(refresh.earliest), first);
        }
        if let Some(bank) = banks.clone().find(open) {
            return (Kind::Precharge, self.banks[bank].ready[PRE].max(limit), bank);
        }
        let place = banks.clone().next().unwrap_or(first);
        let ready = banks.by_ref().map(|bank| self.banks[bank].ready[ACT]).max().unwrap_or(0);
        // A bank refresh opens a row: distances between ACT hold for it as well.
        let limit = self.limits[first_group..first_group + groups].iter().map(|limits| limits[ACT]).max().unwrap_or(0);
        let kind = if matches!(refresh.scope, Scope::Bank(_)) { Kind::RefreshBank } else { Kind::RefreshSameBank };
        let ready = ready.max(limit).max(self.ranks[refresh.rank as usize].bank_refresh_ready);
        (kind, ready.max(refresh.earliest), place)
    }

    fn advance_refresh(&mut self, cycle: u64, index: usize) {
        let refresh = self.due[index];
        let (kind, _, bank) = self.refresh_step(&refresh);
        self.send(cycle, kind, bank, 0);
        match kind {
            Kind::Precharge => {
                self.precharge(cycle, bank, self.timing.rp);
                self.limit_precharges(cycle, bank);
            }
            Kind::PrechargeAll => {
                for bank in refresh.banks(&self.geometry) {
                    self.precharge(cycle, bank, self.timing.rp_ab);
                }
                self.limit_precharges(cycle, bank);
            }
            _ => self.refresh_sent(cycle, index),
        }
    }

    fn refresh_sent(&mut self, cycle: u64, index: usize) {
        let refresh = self.due.remove(index);
        let over = cycle + u64::from(refresh.duration);
        for bank in refresh.banks(&self.geometry) {
            let state = &mut self.banks[bank];
            state.ready[ACT] = state.ready[ACT].max(over);
            state.refreshed_at = over;
        }
        let rank = &mut self.ranks[refresh.rank as usize];
        if refresh.scope == Scope::AllBanks {
            rank.counts.refreshes += 1;
            rank.bank_refresh_ready = over;
        } else {
            rank.counts.bank_refreshes += 1;
            rank.bank_refresh_ready = cycle + u64::from(self.timing.pbr2pbr.max(1));
            let groups = self.geometry.bank_groups as usize;
            for limits in &mut self.limits[refresh.rank as usize * groups..][..groups] {
                limits[ACT] = limits[ACT].max(cycle + u64::from(self.timing.pbr2act.max(self.timing.rrd_l)));
            }
        }
        self.set_blocked(refresh, false);
        // Another refresh of the same banks may be due already.
        for index in 0..self.due.len() {
            self.set_blocked(self.due[index], true);
        }
    }
}

impl Refresh {
    /// Banks of the channel that the refresh closes.
    fn banks(&self, geometry: &Geometry) -> impl Iterator<Item = usize> + Clone + use<> {
        let per_rank = geometry.banks_per_rank() as usize;
        let first = self.rank as usize * per_rank;
        let (start, end, step) = match self.scope {
            Scope::AllBanks => (0, per_rank, 1),
            Scope::Bank(bank) => (bank as usize, bank as usize + 1, 1),
            Scope::SameBank(bank) => (bank as usize, per_rank, geometry.banks_per_group as usize),
        };
        (first + start..first + end).step_by(step)
    }
}

impl ControllerConfig {
    fn check(&self, geometry: &Geometry) -> Result<(), DramError> {
        let between = |field: &'static str, found: u32, least: u32, most: u32| {
            let fits = (least..=most).contains(&found);
            fits.then_some(()).ok_or(DramError::Config { field, found, least, most })
        };
        const MOST: u32 = 30_000;
        between("banks on the channel", geometry.banks(), 1, BANKS_MAX)?;
        let least = if self.sharing == QueueSharing::PerBank { geometry.banks() } else { 1 };
        between("read_queue", self.read_queue, least, MOST)?;
        between("write_queue", self.write_queue, least, MOST)?;
        between("drain_at", self.drain_at, 1, self.write_queue)?;
        between("drain_to", self.drain_to, 0, self.drain_at - 1)
    }
}
