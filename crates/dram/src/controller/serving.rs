//! Commands that serve requests, and the limits that they set.

use super::{
    ACT, CLOSED, CommandSink, Completion, Controller, Limits, NONE, PRE, PagePolicy, Place, READ, RowOutcome,
    Scheduler, Step, WRITE,
};
use crate::command::Kind;
use crate::index::{BankIndex, Cycle};

impl<S: CommandSink> Controller<S> {
    /// Sends the candidate of a bank.
    pub(super) fn serve(&mut self, cycle: Cycle, bank: usize) -> Step {
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

    fn activate(&mut self, cycle: Cycle, bank: usize, slot: u16) {
        let request = &mut self.slots[slot as usize];
        if request.outcome == RowOutcome::Hit {
            request.outcome = RowOutcome::Miss;
        }
        let row = request.row;
        debug_assert_eq!(self.banks[bank].open_row, CLOSED, "ACT of bank {bank} at {cycle}, which has a row open");
        debug_assert!(
            cycle >= self.banks[bank].ready[ACT] && !self.banks[bank].blocked,
            "ACT of bank {bank} at {cycle}, which is not at rest, or is to be refreshed"
        );
        self.send(cycle, Kind::Activate, bank, row);
        let t = self.timing;
        let state = &mut self.banks[bank];
        state.open_row = row;
        state.served = 0;
        // A row opened just now is not idle, even if the bus turns before its first access.
        state.last_access = cycle;
        state.ready =
            [cycle + u64::from(t.rc), cycle + u64::from(t.ras), cycle + u64::from(t.rcd), cycle + u64::from(t.rcd)];
        let place = self.places[bank];
        let rank = &mut self.ranks[place.rank.index()];
        rank.activates.rotate_left(1);
        rank.activates[3] = cycle;
        rank.activate_count += 1;
        rank.counts.activates += 1;
        if rank.open_banks == 0 {
            rank.open_since = cycle.max(rank.closed_at);
        }
        rank.open_banks += 1;
        let window = if rank.activate_count >= 4 { rank.activates[0] + u64::from(t.faw) } else { Cycle::ZERO };
        for (group, limits) in self.limits_of_rank(place) {
            let distance = if group == place.group { t.rrd_l } else { t.rrd_s };
            limits[ACT] = limits[ACT].max(cycle + u64::from(distance)).max(window);
        }
    }

    /// Closes a bank's row at a cycle that may lie ahead (auto-precharge).
    pub(super) fn precharge(&mut self, cycle: Cycle, bank: usize, rp: u32) {
        let state = &mut self.banks[bank];
        let was_open = state.open_row != CLOSED;
        state.open_row = CLOSED;
        state.ready[ACT] = state.ready[ACT].max(cycle + u64::from(rp));
        if was_open {
            let rank = &mut self.ranks[self.places[bank].rank.index()];
            rank.open_banks -= 1;
            rank.closed_at = rank.closed_at.max(cycle);
            if rank.open_banks == 0 {
                rank.counts.cycles_open += rank.closed_at.since(rank.open_since);
            }
        }
    }

    /// tPPD, if it exceeds the limit of the command bus.
    pub(super) fn limit_precharges(&mut self, cycle: Cycle, bank: usize) {
        if self.timing.ppd > 1 {
            let next = cycle + u64::from(self.timing.ppd);
            for (_, limits) in self.limits_of_rank(self.places[bank]) {
                limits[PRE] = limits[PRE].max(next);
            }
        }
    }

    /// Reads or writes.
    fn access(&mut self, cycle: Cycle, bank: usize, at: u16) -> Completion {
        let slot = self.slots[at as usize];
        debug_assert_eq!(
            slot.row, self.banks[bank].open_row,
            "a read or write of bank {bank} at {cycle} misses its row"
        );
        debug_assert!(
            cycle >= self.banks[bank].ready[if slot.write { WRITE } else { READ }],
            "a read or write of bank {bank} at {cycle}, before it may be"
        );
        self.unlink(at);
        let close = self.config.page_policy == PagePolicy::Closed && !self.is_row_wanted(bank, slot.row);
        let kind = match (slot.write, close) {
            (false, false) => Kind::Read,
            (false, true) => Kind::ReadAuto,
            (true, false) => Kind::Write,
            (true, true) => Kind::WriteAuto,
        };
        self.send(cycle, kind, bank, slot.column);
        let rank_at = self.places[bank].rank.index();
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
            bank: BankIndex(bank as u32),
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

    fn limit_after_read(&mut self, cycle: Cycle, bank: usize) {
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

    fn limit_after_write(&mut self, cycle: Cycle, bank: usize) {
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

    /// Limits reads and writes of all ranks except that of `place`.
    fn limit_accesses(&mut self, read: Cycle, write: Cycle, place: Place) {
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
}
