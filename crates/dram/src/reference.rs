//! A controller that examines everything in every cycle: the reference for [`Controller`](crate::Controller).
//!
//! It has the same policies, keeps the cycle of the latest command of every kind, and evaluates every constraint anew
//! in every cycle. It keeps no derived state that could be wrong, and skips nothing: that makes it slow and easy to
//! read. It must send the same commands as [`Controller`](crate::Controller), one by one; `memtint bench sim` measures
//! how much longer it takes.
//!
//! What it leaves out: batch scheduling, queues divided among banks, and refresh other than none and all-bank.

use crate::command::{Command, Kind};
use crate::controller::{
    CommandSink, Completion, ControllerConfig, Offer, PagePolicy, QueueSharing, Request, RowOutcome, Scheduler,
};
use crate::index::{BankIndex, Cycle, RowIndex};
use crate::refresh::RefreshKind;
use crate::replay::ReplayStats;
use crate::timing::{Geometry, Timing};

/// Latest cycles of commands; `None` before the first.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    activate: Option<Cycle>,
    read: Option<Cycle>,
    write: Option<Cycle>,
}

#[derive(Clone, Debug, Default)]
struct Bank {
    latest: Latest,
    /// Start of the latest PRE, explicit or automatic; the latter may lie ahead.
    precharge: Option<Cycle>,
    precharge_all: Option<Cycle>,
    open_row: Option<RowIndex>,
    /// Reads and writes since the row was opened.
    served: u32,
    /// Latest ACT, read or write.
    used: Cycle,
}

#[derive(Clone, Debug, Default)]
struct Rank {
    /// Of each bank group.
    groups: Vec<Latest>,
    precharge: Option<Cycle>,
    refresh: Option<Cycle>,
    refreshes: u64,
    /// Oldest first, four at most.
    activates: Vec<Cycle>,
    refresh_due: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    arrival: Cycle,
    outcome: RowOutcome,
}

/// See [the module](self).
#[derive(Debug)]
pub struct Reference<S = ()> {
    geometry: Geometry,
    timing: Timing,
    config: ControllerConfig,
    cap: Option<u32>,
    row_hits_first: bool,
    /// All waiting requests, oldest first.
    waiting: Vec<Waiting>,
    writing: bool,
    /// Requests that the present direction may still send while the other waits.
    batch_left: u32,
    banks: Vec<Bank>,
    ranks: Vec<Rank>,
    /// Ranks to be refreshed, the longest due first.
    due: Vec<usize>,
    sink: S,
}

impl<S: CommandSink> Reference<S> {
    /// Makes an idle controller at cycle 0, all banks closed; `None` if it does not support the configuration (see [the
    /// module](self)).
    pub fn new(geometry: Geometry, timing: Timing, config: ControllerConfig, sink: S) -> Option<Reference<S>> {
        let (row_hits_first, cap) = match config.scheduler {
            Scheduler::Fcfs => (false, None),
            Scheduler::FrFcfs { cap } => (true, cap),
            Scheduler::ParBs { .. } => return None,
        };
        let known = config.sharing == QueueSharing::Shared
            && matches!(config.refresh, RefreshKind::None | RefreshKind::AllBank { .. });
        let rank = Rank { groups: vec![Latest::default(); geometry.bank_groups as usize], ..Rank::default() };
        known.then(|| Reference {
            waiting: Vec::new(),
            writing: false,
            batch_left: 0,
            banks: vec![Bank::default(); geometry.banks() as usize],
            ranks: vec![rank; geometry.ranks as usize],
            due: Vec::new(),
            geometry,
            timing,
            config,
            cap,
            row_hits_first,
            sink,
        })
    }

    /// Requests that wait, of one direction.
    fn count(&self, write: bool) -> u32 {
        self.waiting.iter().filter(|waiting| waiting.request.write == write).count() as u32
    }

    /// Offers a request before [`Reference::tick`] of the same cycle.
    pub fn offer(&mut self, cycle: Cycle, request: Request) -> Offer {
        let place = |request: &Request| (request.bank, request.row, request.column);
        if self.waiting.iter().any(|known| known.request.write && place(&known.request) == place(&request)) {
            return Offer::Forwarded;
        }
        let entries = if request.write { self.config.write_queue } else { self.config.read_queue };
        if self.count(request.write) == entries {
            return Offer::Full;
        }
        self.waiting.push(Waiting { request, arrival: cycle, outcome: RowOutcome::Hit });
        self.turn_direction();
        Offer::Queued
    }

    /// Sends at most one command: of those allowed in this cycle, the preferred one.
    pub fn tick(&mut self, now: Cycle) -> Option<Completion> {
        self.note_refreshes(now);
        if self.refresh(now) {
            return None;
        }
        let ready = self.candidates().into_iter().filter(|&(bank, kind, _)| self.is_allowed(now, kind, bank));
        // Row hits first (if configured), then the oldest; idle rows are closed last.
        let liked = ready.min_by_key(|&(bank, kind, at)| {
            let is_access = matches!(kind, Kind::Read | Kind::Write);
            (self.row_hits_first && !is_access, at.unwrap_or(usize::MAX), bank)
        });
        let (bank, kind, at) = liked?;
        match (kind, at) {
            (Kind::Activate, Some(at)) => self.activate(now, bank, at),
            (Kind::Precharge, _) => self.precharge(now, bank, at),
            (_, Some(at)) => return Some(self.access(now, bank, at)),
            (_, None) => {}
        }
        None
    }

    /// Switches between reading and writing, whenever a request has come or gone.
    fn turn_direction(&mut self) {
        let (reads, writes) = (self.count(false), self.count(true));
        let spent = self.batch_left == 0;
        let leave = match (self.writing, reads, writes) {
            (true, _, 0) => true,
            (true, 0, _) => false,
            (true, ..) => spent || writes <= self.config.drain_to,
            (false, _, 0) => false,
            (false, 0, _) => true,
            (false, ..) => spent && writes >= self.config.drain_at,
        };
        if leave {
            self.writing = !self.writing;
            self.batch_left = match self.writing {
                true if writes > self.config.drain_to => writes - self.config.drain_to,
                true => 1,
                false => reads,
            };
        }
    }

    // --- candidates ---

    /// For each bank without a pending refresh: the command that its next request needs.
    fn candidates(&self) -> Vec<(usize, Kind, Option<usize>)> {
        let mut best: Vec<Option<usize>> = vec![None; self.banks.len()];
        for (at, waiting) in self.waiting.iter().enumerate() {
            let Request { bank, write, .. } = waiting.request;
            if write == self.writing {
                let best = &mut best[bank.index()];
                let better =
                    |known: usize| self.is_preferred_hit(waiting) && !self.is_preferred_hit(&self.waiting[known]);
                if best.is_none_or(better) {
                    *best = Some(at);
                }
            }
        }
        let unblocked = best.into_iter().enumerate().filter(|&(bank, _)| !self.ranks[self.rank_of(bank)].refresh_due);
        unblocked.filter_map(|(bank, at)| Some((bank, self.kind_for(bank, at)?, at))).collect()
    }

    /// It would be served before older requests of its bank.
    fn is_preferred_hit(&self, waiting: &Waiting) -> bool {
        let bank = &self.banks[waiting.request.bank.index()];
        let below_cap = self.cap.is_none_or(|cap| bank.served < cap);
        self.row_hits_first && below_cap && bank.open_row == Some(waiting.request.row)
    }

    fn kind_for(&self, bank: usize, at: Option<usize>) -> Option<Kind> {
        let open_row = self.banks[bank].open_row;
        match at {
            Some(at) => {
                let request = self.waiting[at].request;
                Some(match open_row {
                    None => Kind::Activate,
                    Some(row) if row != request.row => Kind::Precharge,
                    Some(_) if request.write => Kind::Write,
                    Some(_) => Kind::Read,
                })
            }
            None if matches!(self.config.page_policy, PagePolicy::Timeout(_)) => open_row.map(|_| Kind::Precharge),
            None => None,
        }
    }

    // --- constraints ---

    fn is_allowed(&self, now: Cycle, kind: Kind, bank: usize) -> bool {
        match kind {
            Kind::Activate => self.may_activate(now, bank),
            Kind::Precharge => self.may_precharge(now, bank) && self.may_time_out(now, bank),
            _ => self.may_access(now, bank, kind == Kind::Write),
        }
    }

    fn is_at_rest(&self, now: Cycle, bank: usize) -> bool {
        let (t, bank) = (&self.timing, &self.banks[bank]);
        past(now, bank.latest.activate, t.rc)
            && past(now, bank.precharge, t.rp)
            && past(now, bank.precharge_all, t.rp_ab)
    }

    fn may_activate(&self, now: Cycle, bank: usize) -> bool {
        let (t, rank) = (&self.timing, &self.ranks[self.rank_of(bank)]);
        let own = self.group_of(bank);
        let apart = |(group, latest): (usize, &Latest)| {
            past(now, latest.activate, if group == own { t.rrd_l } else { t.rrd_s })
        };
        let fourth = if rank.activates.len() == 4 { Some(rank.activates[0]) } else { None };
        self.is_at_rest(now, bank)
            && past(now, rank.refresh, t.rfc)
            && past(now, fourth, t.faw)
            && rank.groups.iter().enumerate().all(apart)
    }

    fn may_precharge(&self, now: Cycle, bank: usize) -> bool {
        let (t, latest) = (&self.timing, &self.banks[bank].latest);
        past(now, latest.activate, t.ras)
            && past(now, latest.read, t.rtp)
            && past(now, latest.write, t.cwl + t.burst + t.wr)
            && past(now, self.ranks[self.rank_of(bank)].precharge, t.ppd)
    }

    /// Whether a row may be closed: for a request, or because it has been idle for long.
    fn may_time_out(&self, now: Cycle, bank: usize) -> bool {
        let wanted = |waiting: &Waiting| waiting.request.bank.index() == bank && waiting.request.write == self.writing;
        match self.config.page_policy {
            PagePolicy::Timeout(cycles) if !self.waiting.iter().any(wanted) => {
                now >= self.banks[bank].used + u64::from(cycles)
            }
            _ => true,
        }
    }

    fn may_access(&self, now: Cycle, bank: usize, write: bool) -> bool {
        let t = &self.timing;
        let (own_rank, own_group) = (self.rank_of(bank), self.group_of(bank));
        past(now, self.banks[bank].latest.activate, t.rcd)
            && self.ranks.iter().enumerate().all(|(rank, state)| {
                state.groups.iter().enumerate().all(|(group, latest)| {
                    let near = match (rank == own_rank, group == own_group) {
                        (true, true) => Some((t.ccd_l, t.ccd_l_wr, t.wtr_l)),
                        (true, false) => Some((t.ccd_s, t.ccd_s_wr, t.wtr_s)),
                        (false, _) => None,
                    };
                    let (after_read, after_write) = match (near, write) {
                        (Some((ccd, _, wtr)), false) => (ccd.max(t.burst), t.cwl + t.burst + wtr),
                        (Some((_, ccd, _)), true) => (t.rtw, ccd.max(t.burst)),
                        // Another rank: the data must be apart by tRTRS.
                        (None, false) => (t.burst + t.rtrs, (t.cwl + t.burst + t.rtrs).saturating_sub(t.cl)),
                        (None, true) => ((t.cl + t.burst + t.rtrs).saturating_sub(t.cwl), t.burst + t.rtrs),
                    };
                    past(now, latest.read, after_read) && past(now, latest.write, after_write)
                })
            })
    }

    // --- commands ---

    fn send(&mut self, cycle: Cycle, kind: Kind, bank: usize, place: u32) {
        let bank = BankIndex(bank as u32);
        let (rank, bank) = (self.geometry.rank_of(bank), self.geometry.bank_in_rank(bank));
        self.sink.see(Command { cycle, kind, rank, bank, place });
    }

    fn latest_of(&mut self, bank: usize) -> [&mut Latest; 2] {
        let (rank, group) = (self.rank_of(bank), self.group_of(bank));
        [&mut self.banks[bank].latest, &mut self.ranks[rank].groups[group]]
    }

    fn activate(&mut self, now: Cycle, bank: usize, at: usize) {
        let waiting = &mut self.waiting[at];
        if waiting.outcome == RowOutcome::Hit {
            waiting.outcome = RowOutcome::Miss;
        }
        let row = waiting.request.row;
        self.send(now, Kind::Activate, bank, row.0);
        for latest in self.latest_of(bank) {
            latest.activate = Some(now);
        }
        let state = &mut self.banks[bank];
        (state.open_row, state.served, state.used) = (Some(row), 0, now);
        let rank = self.rank_of(bank);
        let activates = &mut self.ranks[rank].activates;
        activates.push(now);
        if activates.len() > 4 {
            activates.remove(0);
        }
    }

    fn precharge(&mut self, now: Cycle, bank: usize, at: Option<usize>) {
        if let Some(at) = at {
            self.waiting[at].outcome = RowOutcome::Conflict;
        }
        self.send(now, Kind::Precharge, bank, 0);
        let rank = self.rank_of(bank);
        self.ranks[rank].precharge = Some(now);
        let state = &mut self.banks[bank];
        (state.open_row, state.precharge) = (None, Some(now));
    }

    fn access(&mut self, now: Cycle, bank: usize, at: usize) -> Completion {
        let Waiting { request, arrival, outcome } = self.waiting.remove(at);
        self.batch_left = self.batch_left.saturating_sub(1);
        self.turn_direction();
        let same_row = |waiting: &Waiting| (waiting.request.bank, waiting.request.row) == (request.bank, request.row);
        let close = self.config.page_policy == PagePolicy::Closed && !self.waiting.iter().any(same_row);
        let kind = match (request.write, close) {
            (false, false) => Kind::Read,
            (false, true) => Kind::ReadAuto,
            (true, false) => Kind::Write,
            (true, true) => Kind::WriteAuto,
        };
        self.send(now, kind, bank, request.column);
        for latest in self.latest_of(bank) {
            let field = if request.write { &mut latest.write } else { &mut latest.read };
            *field = Some(now);
        }
        let t = self.timing;
        let state = &mut self.banks[bank];
        state.used = now;
        state.served += 1;
        if close {
            let after_access = now + u64::from(if request.write { t.cwl + t.burst + t.wr } else { t.rtp });
            // An earlier write of this row may hold the bank open for longer than its last read.
            let after_write = state.latest.write.map_or(Cycle::ZERO, |cycle| cycle + u64::from(t.cwl + t.burst + t.wr));
            let after_activate = state.latest.activate.map_or(Cycle::ZERO, |cycle| cycle + u64::from(t.ras));
            (state.open_row, state.precharge) = (None, Some(after_access.max(after_write).max(after_activate)));
        }
        let latency = if request.write { t.cwl } else { t.cl };
        Completion {
            id: request.id,
            source: request.source,
            write: request.write,
            bank: request.bank,
            arrival,
            issued: now,
            done: now + u64::from(latency + t.burst),
            outcome,
        }
    }

    // --- refresh ---

    /// Requests a refresh of all ranks each tREFI, together or evenly staggered.
    fn note_refreshes(&mut self, now: Cycle) {
        let RefreshKind::AllBank { staggered } = self.config.refresh else { return };
        let (refi, ranks) = (u64::from(self.timing.refi), self.ranks.len() as u64);
        for (index, rank) in self.ranks.iter_mut().enumerate() {
            let turns = rank.refreshes + u64::from(rank.refresh_due);
            let due_at = if staggered { (turns * ranks + index as u64 + 1) * refi / ranks } else { (turns + 1) * refi };
            if now >= Cycle(due_at) && !rank.refresh_due {
                rank.refresh_due = true;
                self.due.push(index);
            }
        }
    }

    /// Sends the command that a due refresh needs, if it is allowed.
    fn refresh(&mut self, now: Cycle) -> bool {
        let per_rank = self.geometry.banks_per_rank() as usize;
        for index in 0..self.due.len() {
            let rank = self.due[index];
            let banks = rank * per_rank..(rank + 1) * per_rank;
            if banks.clone().any(|bank| self.banks[bank].open_row.is_some()) {
                // Auto-precharges of these banks must have begun.
                if banks.clone().all(|bank| self.may_precharge(now, bank)) {
                    self.precharge_all(now, rank, banks);
                    return true;
                }
            } else if banks.clone().all(|bank| self.is_at_rest(now, bank))
                && past(now, self.ranks[rank].refresh, self.timing.rfc)
            {
                self.send(now, Kind::Refresh, banks.start, 0);
                let state = &mut self.ranks[rank];
                (state.refresh, state.refresh_due) = (Some(now), false);
                state.refreshes += 1;
                self.due.remove(index);
                return true;
            }
        }
        false
    }

    fn precharge_all(&mut self, now: Cycle, rank: usize, banks: std::ops::Range<usize>) {
        self.send(now, Kind::PrechargeAll, banks.start, 0);
        self.ranks[rank].precharge = Some(now);
        for bank in &mut self.banks[banks] {
            (bank.open_row, bank.precharge_all) = (None, Some(now));
        }
    }

    fn rank_of(&self, bank: usize) -> usize {
        bank / self.geometry.banks_per_rank() as usize
    }

    /// Inside its rank.
    fn group_of(&self, bank: usize) -> usize {
        bank % self.geometry.banks_per_rank() as usize / self.geometry.banks_per_group as usize
    }

    /// Gives back the sink.
    #[must_use]
    pub fn into_sink(self) -> S {
        self.sink
    }
}

/// Whether this many cycles have passed since then.
fn past(now: Cycle, then: Option<Cycle>, cycles: u32) -> bool {
    then.is_none_or(|then| now >= then + u64::from(cycles))
}

/// Replays requests by the rule of [`replay`](mod@crate::replay), cycle by cycle.
pub fn replay<S: CommandSink>(
    reference: &mut Reference<S>,
    requests: impl IntoIterator<Item = Request>,
    period: u64,
) -> ReplayStats {
    let mut stats = ReplayStats::default();
    let mut requests = requests.into_iter().peekable();
    for now in (0..).map(Cycle) {
        if let Some(&request) = requests.peek()
            && now >= Cycle(stats.requests * period)
        {
            let offer = reference.offer(now, request);
            if offer != Offer::Full {
                requests.next();
                stats.note_accepted(&request, now, offer);
            }
        }
        if requests.peek().is_none() && reference.count(false) == 0 {
            break;
        }
        if let Some(completion) = reference.tick(now) {
            stats.note(&completion);
        }
    }
    stats
}
