//! Refresh commands, as the engine requests them.

use super::{ACT, CLOSED, CommandSink, Controller, NONE, PRE, count_source};
use crate::command::Kind;
use crate::index::Cycle;
use crate::refresh::{Refresh, Scope, Traffic};
use crate::timing::Geometry;

impl<S: CommandSink> Controller<S> {
    /// Counts a request that arrives while its bank is refreshed or its rank locked.
    pub(super) fn meets_refresh(&mut self, cycle: Cycle, bank: usize) -> bool {
        let rank = self.places[bank].rank;
        let (state, met) = (&self.banks[bank], &mut self.met[rank.index()]);
        match self.engine.locks() {
            Some(timetable) if timetable.is_locked(rank, cycle) => met.locked += 1,
            None if state.blocked || cycle < state.refreshed_at => met.ordinary += 1,
            _ => return false,
        }
        true
    }

    /// Counts the requests that wait for banks whose refresh has fallen due.
    fn count_caught(&mut self, refresh: Refresh) {
        if self.waiting_in_rank[refresh.rank.index()] == 0 {
            return;
        }
        let met = &mut self.met[refresh.rank.index()];
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

    /// Polls the engine at its wake-up.
    pub(super) fn ask_engine(&mut self) {
        let now = self.wakeup;
        self.free_at = self.free_at.max(now);
        self.chosen = None;
        let traffic = Traffic { waiting: &self.waiting_in_rank, last_access: &self.last_access };
        while let Some(refresh) = self.engine.poll(now, traffic) {
            assert!(
                refresh.rank.0 < self.geometry.ranks,
                "engine {:?} refreshes rank {} of {}",
                self.engine.name(),
                refresh.rank,
                self.geometry.ranks
            );
            self.due.push(refresh);
        }
        self.wakeup = self.engine.wakeup();
        assert!(
            self.wakeup > now,
            "engine {:?} has nothing due at {now}, and wants to be asked then",
            self.engine.name()
        );
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
    pub(super) fn refresh_step(&self, refresh: &Refresh) -> (Kind, Cycle, usize) {
        let groups = self.geometry.bank_groups as usize;
        let first_group = refresh.rank.index() * groups;
        let open = |bank: &usize| self.banks[*bank].open_row != CLOSED;
        let mut banks = refresh.banks(&self.geometry);
        let first = refresh.rank.index() * self.geometry.banks_per_rank() as usize;
        let limit = self.limits[first_group][PRE];
        if refresh.scope == Scope::AllBanks {
            if banks.clone().any(|bank| open(&bank)) {
                // Auto-precharges of these banks must have begun.
                let ready = banks.map(|bank| self.banks[bank].ready[PRE]).max().unwrap_or_default();
                return (Kind::PrechargeAll, ready.max(limit), first);
            }
            let ready = banks.map(|bank| self.banks[bank].ready[ACT]).max().unwrap_or_default();
            let ready = ready.max(self.ranks[refresh.rank.index()].bank_refresh_ready);
            return (Kind::Refresh, ready.max(refresh.earliest), first);
        }
        if let Some(bank) = banks.clone().find(open) {
            return (Kind::Precharge, self.banks[bank].ready[PRE].max(limit), bank);
        }
        let place = banks.clone().next().unwrap_or(first);
        let ready = banks.by_ref().map(|bank| self.banks[bank].ready[ACT]).max().unwrap_or_default();
        // A bank refresh opens a row: distances between ACT hold for it as well.
        let limit =
            self.limits[first_group..first_group + groups].iter().map(|limits| limits[ACT]).max().unwrap_or_default();
        let kind = if matches!(refresh.scope, Scope::Bank(_)) { Kind::RefreshBank } else { Kind::RefreshSameBank };
        let ready = ready.max(limit).max(self.ranks[refresh.rank.index()].bank_refresh_ready);
        (kind, ready.max(refresh.earliest), place)
    }

    pub(super) fn advance_refresh(&mut self, cycle: Cycle, index: usize) {
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

    fn refresh_sent(&mut self, cycle: Cycle, index: usize) {
        let refresh = self.due.remove(index);
        let over = cycle + u64::from(refresh.duration);
        let closed = |bank: usize| self.banks[bank].open_row == CLOSED && self.banks[bank].ready[ACT] <= cycle;
        debug_assert!(
            refresh.banks(&self.geometry).all(closed),
            "a refresh of rank {} at {cycle} meets an open bank, or one that is not at rest",
            refresh.rank
        );
        debug_assert!(cycle >= refresh.earliest, "a refresh at {cycle}, before its time {}", refresh.earliest);
        for bank in refresh.banks(&self.geometry) {
            let state = &mut self.banks[bank];
            state.ready[ACT] = state.ready[ACT].max(over);
            state.refreshed_at = over;
        }
        let rank = &mut self.ranks[refresh.rank.index()];
        if refresh.scope == Scope::AllBanks {
            rank.counts.refreshes += 1;
            rank.bank_refresh_ready = over;
        } else {
            rank.counts.bank_refreshes += 1;
            rank.bank_refresh_ready = cycle + u64::from(self.timing.pbr2pbr.max(1));
            let groups = self.geometry.bank_groups as usize;
            for limits in &mut self.limits[refresh.rank.index() * groups..][..groups] {
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
    pub(super) fn banks(&self, geometry: &Geometry) -> impl Iterator<Item = usize> + Clone + use<> {
        let per_rank = geometry.banks_per_rank() as usize;
        let first = self.rank.index() * per_rank;
        let (start, end, step) = match self.scope {
            Scope::AllBanks => (0, per_rank, 1),
            Scope::Bank(bank) => (bank.index(), bank.index() + 1, 1),
            Scope::SameBank(bank) => (bank as usize, per_rank, geometry.banks_per_group as usize),
        };
        (first + start..first + end).step_by(step)
    }
}
