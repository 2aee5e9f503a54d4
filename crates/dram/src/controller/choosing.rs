//! Selection of the next command.

use super::{
    ACT, AHEAD_MAX, CLOSED, Candidate, Chosen, CommandSink, Controller, IDLE, List, NONE, Next, PRE, PagePolicy, READ,
    SECOND, Scheduler, Slot,
};
use crate::command::Kind;
use crate::index::Cycle;
use crate::refresh::NEVER;

impl<S: CommandSink> Controller<S> {
    #[inline]
    pub(super) fn next_command(&mut self) -> Chosen {
        if let Some(chosen) = self.chosen {
            return chosen;
        }
        let chosen = self.choose();
        self.chosen = Some(chosen);
        chosen
    }

    /// Computes the candidate of a bank.
    pub(super) fn renew_bank(&mut self, bank: usize) {
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
    fn propose(&mut self, bank: usize, ready: Cycle, kind: usize, urgency: u64, slot: u16) {
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

    /// Urgency of a request, below 2^40: smaller goes first.
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
            // Commands with a fixed cycle go first: the PREA before such a REF can wait.
            let urgency = u64::from(refresh.earliest > Cycle::ZERO && kind == Kind::PrechargeAll);
            if cycle < chosen.cycle || cycle == chosen.cycle && urgency < chosen.urgency {
                chosen = Chosen { cycle, urgency, next: Next::Refresh(index) };
            }
        }
        chosen
    }

    /// Cycle, urgency and bank of each candidate are packed into one number, so that the minimum is found without
    /// branches.
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

    /// The same for candidates far ahead.
    #[cold]
    fn choose_far_bank(&self) -> Chosen {
        let active = |bank: &usize| self.active[bank / 64] & 1 << (bank % 64) != 0;
        let key = |bank: usize| (self.ready_cycle(bank), self.candidates[bank].key >> 8, bank);
        match (0..self.banks.len()).filter(active).map(key).min() {
            Some((cycle, urgency, bank)) => Chosen { cycle, urgency, next: Next::Bank(bank) },
            None => Chosen { cycle: NEVER, urgency: u64::MAX, next: Next::Bank(0) },
        }
    }

    /// Marks the oldest reads of every requester and bank, and ranks the requesters: first the one whose most loaded
    /// bank has the fewest marked requests, then the one with the fewest in total.
    pub(super) fn form_batch(&mut self, cap: u32) {
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
}
