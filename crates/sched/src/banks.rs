//! Other cores in the DRAM, where the bound of Kim et al. with banks of one's own and one request at a time is not
//! enough: banks that cores share, whose requests are reordered, and cores with several requests on their way.
//!
//! Both are derived here from properties of the controller, because the formulas of their papers cover one controller
//! each.

use crate::error::SchedError;
use crate::interference::{BankTimings, Neighbour, Rival, by_lines, in_range, rate_by_lines};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_rational::Ratio;

/// Timings of a row beside those of [`BankTimings`], in clock cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTimings {
    /// PRE to ACT.
    pub n_rp: u64,
    /// ACT to RD or WR.
    pub n_rcd: u64,
    /// ACT to PRE.
    pub n_ras: u64,
    /// RD to PRE.
    pub n_rtp: u64,
    /// End of written data to PRE.
    pub n_wr: u64,
    /// RD to RD, or WR to WR, of one bank.
    pub n_ccd: u64,
}

/// How long a bank takes from the RD or WR of one request to that of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDelays {
    /// The next is to the open row.
    pub hit: Picoseconds,
    /// The next is to another row; not less than `hit`.
    pub conflict: Picoseconds,
}

impl BankTimings {
    /// Gives the longest times between two requests of one bank: a hit `max(tCCD, WL + BL / 2 + tWTR, CL + BL / 2 + 2 - WL)`, a conflict
    /// `max(tRAS - tRCD, tRTP, WL + BL / 2 + tWR) + tRP + tRCD` or that of a hit.
    ///
    /// The first comes after an ACT by at least tRCD, so that tRAS is over after the first term of the maximum.
    ///
    /// # Errors
    ///
    /// As [`BankTimings::request_delay`], for cycles of `rows` too.
    pub fn row_delays(&self, rows: &RowTimings) -> Result<RowDelays, SchedError> {
        self.request_delay()?;
        let cycles = [
            ("n_rp", rows.n_rp),
            ("n_rcd", rows.n_rcd),
            ("n_ras", rows.n_ras),
            ("n_rtp", rows.n_rtp),
            ("n_wr", rows.n_wr),
            ("n_ccd", rows.n_ccd),
        ];
        for (field, found) in cycles {
            in_range("banks", field, found, 0, 1 << 20)?;
        }
        let half = self.bl.div_ceil(2);
        let hit = rows.n_ccd.max(self.turn());
        let closes = rows.n_ras.saturating_sub(rows.n_rcd).max(rows.n_rtp).max(self.n_wl + half + rows.n_wr);
        let conflict = hit.max(closes + rows.n_rp + rows.n_rcd);
        let time = |cycles: u64| Picoseconds(cycles * self.t_ck.0);
        Ok(RowDelays { hit: time(hit), conflict: time(conflict) })
    }
}

/// How far a controller that prefers row hits lets requests overtake an older one of the same bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitCap {
    /// The number of requests that overtake each request (N_cap of Kim et al. 2014).
    EachRequest(u64),
    /// The number of requests served from an open row while an older request waits for another row.
    EachRow(u64),
}

impl HitCap {
    /// The most requests that overtake one in a bank that `sharers` other cores use. Only a core without an older
    /// request can access the row that is open when the request comes. So the rows to count are at most the number of
    /// cores: that row and one opened by each of the others, or one opened by each.
    fn overtaking(self, sharers: u128) -> u128 {
        match self {
            HitCap::EachRequest(most) => most.into(),
            HitCap::EachRow(most) => u128::from(most).saturating_mul(sharers),
        }
    }
}

/// Interference in banks that cores share, served row hits first and then the oldest, after Kim et al. 2014 (RTAS): the lesser of a
/// bound by requests and a bound by the jobs of the others.
///
/// Each core has one request at a time. With `s` cores that use this core's banks, `n` other cores together and `N` requests that
/// overtake one, a request of this core waits for no more than
///
/// ```text
///   conflict  +  s (conflict + (n - 1) d)  +  N (hit + (n - 1) d)  +  n d
/// ```
///
/// longer than alone. Between its arrival and its RD or WR the bank serves, one after the other, at most the `s`
/// requests that are older, `N` that overtake it, all of them hits since only the oldest request opens a row, and
/// itself; the bank does not rest meanwhile, so that the time is at most the sum of the distances of those RD and WR,
/// the first of them counted from one before the arrival. To each of them every other core adds at most `d`, as in
/// [`Banks`](crate::Banks); a core may have moved on to another bank by then, so all cores are counted. The first
/// conflict is that of the request itself: others may have closed its row, and a WCET measured alone may rest on hits.
///
/// Bound by jobs: all that the others request in the window, each of a sharer `max(conflict, d)`, each of another core `d`, and
/// one's own conflicts.
///
/// Kim et al. have the same parts (L_conf for each sharer, a chain of N_cap hits, RD_inter). Not theirs: one's own conflict, hits
/// that are each bounded by the longest turn of the data bus instead of alternating turns, interference between banks at every request and not
/// only at some, and [`HitCap::EachRow`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBanks {
    /// Longest delay of one request by one to another bank: see [`BankTimings::request_delay`].
    pub request_delay: Picoseconds,
    /// Times of the bank itself.
    pub rows: RowDelays,
    /// How many requests overtake one; `None` for no limit, which has no bound.
    pub overtaking: Option<HitCap>,
    /// The cores that use a bank of this core.
    pub sharers: Vec<Neighbour>,
    /// The other cores.
    pub others: Vec<Neighbour>,
    /// The most requests that a core has on their way at once.
    pub requests_at_once_max: u32,
}

impl SharedBanks {
    /// Gives the longest delay of one request: see [`SharedBanks`]. Saturates.
    #[must_use]
    pub fn longest_wait(&self) -> u128 {
        self.own().saturating_add(self.by_others())
    }

    fn own(&self) -> u128 {
        if self.sharers.is_empty() { 0 } else { self.rows.conflict.0.into() }
    }

    fn by_others(&self) -> u128 {
        let (hit, conflict) = (u128::from(self.rows.hit.0), u128::from(self.rows.conflict.0));
        let (sharers, between) = (self.sharers.len() as u128, u128::from(self.request_delay.0));
        let all = sharers + self.others.len() as u128;
        let each = between.saturating_mul(all.saturating_sub(1));
        let overtaking = match self.overtaking {
            _ if sharers == 0 => 0,
            Some(cap) => cap.overtaking(sharers),
            None => u128::MAX,
        };
        let older = sharers.saturating_mul(conflict.saturating_add(each));
        let hits = overtaking.saturating_mul(hit.saturating_add(each));
        older.saturating_add(hits).saturating_add(all.saturating_mul(between))
    }

    /// Longest time of one request of a sharer.
    fn of_sharer(&self) -> u64 {
        self.rows.conflict.0.max(self.request_delay.0)
    }

    pub(crate) fn delay(&self, length: u64, lines: u128) -> u128 {
        let own = lines.saturating_add(1);
        let by_requests = own.saturating_mul(self.by_others());
        let by_lines = by_lines(&self.rivals(), length).unwrap_or(u128::MAX);
        own.saturating_mul(self.own()).saturating_add(by_requests.min(by_lines))
    }

    pub(crate) fn rate(&self, lines: &Ratio<BigUint>) -> Ratio<BigUint> {
        let by_requests = lines * BigUint::from(self.by_others());
        let by_others = match rate_by_lines(&self.rivals()) {
            Some(by_lines) => by_requests.min(by_lines),
            None => by_requests,
        };
        lines * BigUint::from(self.own()) + by_others
    }

    fn rivals(&self) -> Vec<Rival<'_>> {
        let sharers = self.sharers.iter().map(|core| Rival { core, at_once: 1, each: self.of_sharer() });
        let others = self.others.iter().map(|core| Rival { core, at_once: 1, each: self.request_delay.0 });
        sharers.chain(others).collect()
    }

    pub(crate) fn neighbours(&self) -> Vec<&Neighbour> {
        self.sharers.iter().chain(&self.others).collect()
    }

    /// What the platform does not have.
    pub(crate) fn needs(&self) -> Option<&'static str> {
        if self.requests_at_once_max != 1 {
            return Some("cores with one request to memory at a time");
        }
        if self.overtaking.is_none() && !self.sharers.is_empty() {
            return Some("a limit to the row hits that overtake an older request");
        }
        (self.rows.conflict < self.rows.hit).then_some("a row conflict that takes no less than a row hit")
    }
}

/// A buffer of writes that is drained in batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBuffer {
    entries: u64,
    drain_at: u64,
    drain_to: u64,
}

impl WriteBuffer {
    /// Makes a buffer of `entries` entries. From `drain_at` waiting writes on it is drained, even if reads wait, until
    /// at most `drain_to` remain.
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] unless `drain_to < drain_at <= entries <= 2^32`.
    pub fn new(entries: u64, drain_at: u64, drain_to: u64) -> Result<WriteBuffer, SchedError> {
        in_range("write buffer", "entries", entries, 1, 1 << 32)?;
        in_range("write buffer", "drain_at", drain_at, 1, entries)?;
        in_range("write buffer", "drain_to", drain_to, 0, drain_at - 1)?;
        Ok(WriteBuffer { entries, drain_at, drain_to })
    }

    /// Writes that must come between the beginnings of two batches.
    fn batch(&self) -> u64 {
        self.drain_at - self.drain_to
    }

    /// Writes that can have come before the window, and are written in it: a full buffer down to the mark, and one that was begun
    /// when no read waited.
    fn before(&self) -> u64 {
        self.entries - self.drain_to + 1
    }
}

/// Another core, with its requests at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelNeighbour {
    /// Its memory demand.
    pub core: Neighbour,
    /// The most reads that it has on their way at once: the number of its miss registers (MSHR).
    pub requests_at_once_max: u32,
}

/// Interference of cores that have several requests on their way, under a controller that serves reads before writes
/// and drains writes in batches, after Yun, Pellizzoni and Valsan 2015 (ECRTS): each core has private banks.
///
/// Between banks the oldest read goes first; a write waits in a buffer and is served when no read waits, or in a batch
/// ([`WriteBuffer`]). Each line that a core reads pushes at most one line out of its cache (write-back, write-allocate), and only
/// that is written. With `R` the reads that the other cores have on their way at once, a read of this core waits for at most
///
/// ```text
///   R read  +  (entries - drain_to + 1 + R + 1) write  +  (2 + floor(R / (drain_at - drain_to))) turn
/// ```
///
/// longer than alone. The terms are the older reads; the buffered writes above the mark, one write that was begun
/// without need, and the writes pushed out while it waits, since in that time a core neither completes nor begins more
/// reads than it may have on their way, and this core only the one. The batches are the one under way or the one write,
/// one that was almost due, and one for each later `drain_at - drain_to` writes. `k` reads together wait for at most
/// `k` times this; all other bounds follow from the lines of all cores in the window:
///
/// ```text
///   writes by jobs:  (entries - drain_to + 1 + own + others) write  +  (2 + floor((own + others) / batch)) turn
///   all by jobs:     others max(read, write) + (entries - drain_to + 1 + own) write + (2 + floor((own + others) / batch)) turn
/// ```
///
/// The delay is the least of reads and writes by requests, reads by requests with writes by jobs, and all by jobs. The
/// lines of this core include those on their way when a window begins.
///
/// The paper has the same causes (all older reads of the other cores, a batch of writes) and lets commands of other
/// banks overlap; our bound counts each request in full. It assumes that a core is delayed by at most the sum of the
/// delays of its reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelBanks {
    /// Longest delay of a read by one read to another bank: see [`BankTimings::request_delay`].
    pub read_delay: Picoseconds,
    /// Longest time that one write takes in a batch.
    pub write_delay: Picoseconds,
    /// Longest time, for a batch, to turn the data bus to writes and back.
    pub turn: Picoseconds,
    /// The buffer.
    pub writes: WriteBuffer,
    /// The most reads that this core has on their way at once.
    pub requests_at_once_max: u32,
    /// The other cores.
    pub neighbours: Vec<ParallelNeighbour>,
    /// Whether each core has banks that no other uses.
    pub private_banks: bool,
    /// Whether writes to memory are only lines that reads push out of the caches.
    pub write_back: bool,
}

impl ParallelBanks {
    /// Lines are counted, whatever each takes.
    fn rivals(&self) -> Vec<Rival<'_>> {
        fn rival(own: &ParallelNeighbour) -> Rival<'_> {
            Rival { core: &own.core, at_once: own.requests_at_once_max, each: 1 }
        }
        self.neighbours.iter().map(rival).collect()
    }

    fn others_at_once(&self) -> u128 {
        self.neighbours.iter().map(|own| u128::from(own.requests_at_once_max)).sum()
    }

    /// Gives the longest delay of one read: see [`ParallelBanks`]. Saturates.
    #[must_use]
    pub fn longest_wait(&self) -> u128 {
        let (reads, writes) = self.by_requests();
        reads.saturating_add(writes)
    }

    /// Delay of one read by reads, and by writes.
    fn by_requests(&self) -> (u128, u128) {
        if self.neighbours.is_empty() {
            return (0, 0); // What a core does to itself is in its WCETs.
        }
        let others = self.others_at_once();
        let writes = u128::from(self.writes.before()) + others + 1;
        let batches = 2 + others / u128::from(self.writes.batch());
        (others.saturating_mul(self.read_delay.0.into()), self.writing(writes, batches))
    }

    fn writing(&self, writes: u128, batches: u128) -> u128 {
        let (write, turn) = (u128::from(self.write_delay.0), u128::from(self.turn.0));
        writes.saturating_mul(write).saturating_add(batches.saturating_mul(turn))
    }

    pub(crate) fn delay(&self, length: u64, lines: u128) -> u128 {
        let own = lines.saturating_add(self.requests_at_once_max.into());
        let (reads, writes) = self.by_requests();
        let (reads, writes) = (own.saturating_mul(reads), own.saturating_mul(writes));
        let by_requests = reads.saturating_add(writes);
        let Some(others) = by_lines(&self.rivals(), length) else { return by_requests };
        let batches = 2 + own.saturating_add(others) / u128::from(self.writes.batch());
        let before = own.saturating_add(self.writes.before().into());
        let writes_by_jobs = self.writing(before.saturating_add(others), batches);
        let longer = u128::from(self.read_delay.0.max(self.write_delay.0));
        let by_jobs = others.saturating_mul(longer).saturating_add(self.writing(before, batches));
        by_requests.min(reads.saturating_add(writes_by_jobs)).min(by_jobs)
    }

    pub(crate) fn rate(&self, lines: &Ratio<BigUint>) -> Ratio<BigUint> {
        let (reads, writes) = self.by_requests();
        let reads = lines * BigUint::from(reads);
        let by_requests = &reads + lines * BigUint::from(writes);
        let Some(others) = rate_by_lines(&self.rivals()) else { return by_requests };
        let (write, turn) = (BigUint::from(self.write_delay.0), BigUint::from(self.turn.0));
        let turns = (lines + &others) * turn / BigUint::from(self.writes.batch());
        let writes_by_jobs = (lines + &others) * &write + &turns;
        let by_jobs = others * BigUint::from(self.read_delay.0.max(self.write_delay.0)) + lines * write + turns;
        by_requests.min(reads + writes_by_jobs).min(by_jobs)
    }

    /// What the platform does not have.
    pub(crate) fn needs(&self) -> Option<&'static str> {
        if !self.private_banks {
            return Some("banks that no other core uses");
        }
        if !self.write_back {
            return Some("caches that write to memory only what reads push out of them");
        }
        let none = self.requests_at_once_max == 0 || self.neighbours.iter().any(|own| own.requests_at_once_max == 0);
        none.then_some("one or more requests to memory at a time, for each core")
    }
}
