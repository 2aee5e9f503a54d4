//! Refresh engines. They are short, so all of them are in this file.
//!
//! An engine decides *when* a refresh is due; the controller closes the banks concerned, obeys the timing and sends the
//! command. Between two wake-ups an engine costs nothing.

use crate::index::{BankInRank, Cycle, RankIndex};
use crate::timetable::Timetable;
use crate::timing::{Geometry, Timing};

/// No wake-up planned.
pub const NEVER: Cycle = Cycle(u64::MAX);

/// The banks that one refresh covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All banks of the rank: REF.
    AllBanks,
    /// One bank of the rank: REFpb.
    Bank(BankInRank),
    /// The bank of this number in every bank group: REFsb.
    SameBank(u32),
}

/// A refresh that is due: no other command to the banks concerned starts before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refresh {
    /// Rank.
    pub rank: RankIndex,
    /// Banks of the rank.
    pub scope: Scope,
    /// Cycles until the next command to these banks (tRFC, tRFC2, tRFC4, tRFCpb, ...).
    pub duration: u32,
    /// First cycle of the command; until then the banks are only closed. 0 for as soon as they are closed.
    pub earliest: Cycle,
}

/// The traffic that an engine may consider.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// Requests waiting for each rank.
    pub waiting: &'a [u32],
    /// Cycle of the last read or write of each rank.
    pub last_access: &'a [Cycle],
}

/// Decides when refreshes are due.
///
/// The controller calls [`poll`](RefreshEngine::poll) at the cycle of [`wakeup`](RefreshEngine::wakeup), repeatedly until it returns
/// `None`; then the next wake-up must lie in the future. A software-scheduled engine [Pan18, chapters 4 and 5] fits the trait: it is
/// created with its schedule and wakes up at its slots.
pub trait RefreshEngine: Send {
    /// Name for reports.
    fn name(&self) -> &'static str;

    /// Cycle of the next poll; [`NEVER`] if there is none.
    fn wakeup(&self) -> Cycle;

    /// A refresh that is due at `now`; `None` when there is no further one.
    fn poll(&mut self, now: Cycle, traffic: Traffic<'_>) -> Option<Refresh>;

    /// The timetable by which software avoids the ranks under refresh; `None` without such software.
    fn locks(&self) -> Option<&Timetable> {
        None
    }
}

/// Choice of an engine, with its parameters, as in files and on command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshKind {
    /// No refresh: for comparisons with closed formulas only.
    None,
    /// One REF to every rank each tREFI; the ranks together, or evenly staggered.
    AllBank {
        /// Ranks at different times.
        staggered: bool,
    },
    /// Fine granularity refresh (DDR4): `factor` (1, 2 or 4) times as often, with its own tRFC.
    FineGranularity {
        /// Multiple of the rate of tREFI.
        factor: u32,
        /// tRFC1, tRFC2 or tRFC4 in cycles.
        rfc: u32,
    },
    /// One bank at a time, round robin: REFpb.
    PerBank {
        /// Cycles between two refreshes of the same bank: tREFI.
        interval: u32,
    },
    /// The same bank of every bank group at a time, round robin: REFsb.
    SameBank {
        /// Cycles between two refreshes of the same bank: tREFI2, half of tREFI (JESD79-5).
        interval: u32,
    },
    /// All refreshes of a retention window one after the other, at its start (Bhat and Mueller).
    Burst {
        /// REF commands per window and rank.
        commands: u32,
        /// Window in cycles.
        window: u64,
    },
    /// Elastic refresh (Stuecheli et al., MICRO 2010): REF are postponed until the rank has been idle for a delay,
    /// which shrinks with the number postponed. The published predictor of idle times is not modelled: the delay falls
    /// linearly from tRFC to zero.
    Elastic {
        /// REF that may be postponed, at least 1: eight, or four (JESD79-5).
        postponed_max: u32,
    },
}

impl RefreshKind {
    /// Makes the engine.
    #[must_use]
    pub fn engine(self, geometry: &Geometry, timing: &Timing) -> Box<dyn RefreshEngine> {
        let ranks = geometry.ranks;
        let refi = u64::from(timing.refi);
        match self {
            RefreshKind::None => Box::new(Periodic::none()),
            RefreshKind::AllBank { staggered } => {
                Box::new(Periodic::all_banks("all-bank", ranks, staggered, refi, timing.rfc))
            }
            RefreshKind::FineGranularity { factor, rfc } => {
                Box::new(Periodic::all_banks("fine granularity", ranks, false, refi / u64::from(factor), rfc))
            }
            RefreshKind::PerBank { interval } => {
                let banks = (ranks, geometry.banks_per_rank());
                Box::new(Periodic::banks("per-bank", banks, |bank| Scope::Bank(BankInRank(bank)), interval, timing))
            }
            RefreshKind::SameBank { interval } => {
                let banks = (ranks, geometry.banks_per_group);
                Box::new(Periodic::banks("same-bank", banks, Scope::SameBank, interval, timing))
            }
            RefreshKind::Burst { commands, window } => Box::new(Burst::new(ranks, commands, window, timing.rfc)),
            RefreshKind::Elastic { postponed_max } => Box::new(Elastic::new(ranks, postponed_max, timing)),
        }
    }
}

/// Refreshes at fixed times, round robin over the refreshes of a round.
#[derive(Debug)]
struct Periodic {
    name: &'static str,
    /// One of these at a time, in this order.
    rounds: Vec<Refresh>,
    /// Refreshes that are due together.
    together: usize,
    /// The period of a whole round; kept so that times never drift.
    round_cycles: u64,
    /// Groups of `together` issued so far.
    done: u64,
    /// Position inside the present group.
    within: usize,
}

impl Periodic {
    fn none() -> Periodic {
        Periodic { name: "none", rounds: Vec::new(), together: 1, round_cycles: 0, done: 0, within: 0 }
    }

    fn all_banks(name: &'static str, ranks: u32, staggered: bool, refi: u64, duration: u32) -> Periodic {
        let rounds: Vec<Refresh> = (0..ranks)
            .map(RankIndex)
            .map(|rank| Refresh { rank, scope: Scope::AllBanks, duration, earliest: Cycle::ZERO })
            .collect();
        let together = if staggered { 1 } else { rounds.len() };
        Periodic { name, rounds, together, round_cycles: refi, done: 0, within: 0 }
    }

    fn banks(
        name: &'static str,
        (ranks, banks): (u32, u32),
        scope: fn(u32) -> Scope,
        interval: u32,
        timing: &Timing,
    ) -> Periodic {
        let duration = timing.rfc_pb;
        let rounds: Vec<Refresh> = (0..banks)
            .flat_map(|bank| {
                (0..ranks).map(move |rank| Refresh {
                    rank: RankIndex(rank),
                    scope: scope(bank),
                    duration,
                    earliest: Cycle::ZERO,
                })
            })
            .collect();
        Periodic { name, together: ranks as usize, rounds, round_cycles: u64::from(interval), done: 0, within: 0 }
    }

    fn groups(&self) -> u64 {
        (self.rounds.len() / self.together) as u64
    }
}

impl RefreshEngine for Periodic {
    fn name(&self) -> &'static str {
        self.name
    }

    fn wakeup(&self) -> Cycle {
        // The first group is due one interval after the start.
        if self.rounds.is_empty() { NEVER } else { Cycle((self.done + 1) * self.round_cycles / self.groups()) }
    }

    fn poll(&mut self, now: Cycle, _: Traffic<'_>) -> Option<Refresh> {
        if now < self.wakeup() {
            return None;
        }
        let group = (self.done % self.groups()) as usize;
        let refresh = self.rounds[group * self.together + self.within];
        self.within += 1;
        if self.within == self.together {
            (self.within, self.done) = (0, self.done + 1);
        }
        Some(refresh)
    }
}

/// All refreshes of a window in a row, at its start.
#[derive(Debug)]
struct Burst {
    ranks: u32,
    commands: u32,
    window: u64,
    spacing: u64,
    duration: u32,
    windows_done: u64,
    commands_done: u32,
    within: u32,
}

impl Burst {
    fn new(ranks: u32, commands: u32, window: u64, rfc: u32) -> Burst {
        let spacing = u64::from(rfc);
        Burst { ranks, commands, window, spacing, duration: rfc, windows_done: 0, commands_done: 0, within: 0 }
    }
}

impl RefreshEngine for Burst {
    fn name(&self) -> &'static str {
        "burst"
    }

    fn wakeup(&self) -> Cycle {
        Cycle(self.windows_done * self.window + u64::from(self.commands_done) * self.spacing)
    }

    fn poll(&mut self, now: Cycle, _: Traffic<'_>) -> Option<Refresh> {
        if now < self.wakeup() {
            return None;
        }
        let refresh = Refresh {
            rank: RankIndex(self.within),
            scope: Scope::AllBanks,
            duration: self.duration,
            earliest: Cycle::ZERO,
        };
        self.within += 1;
        if self.within == self.ranks {
            (self.within, self.commands_done) = (0, self.commands_done + 1);
        }
        if self.commands_done == self.commands {
            (self.commands_done, self.windows_done) = (0, self.windows_done + 1);
        }
        Some(refresh)
    }
}

/// Refreshes postponed during traffic.
#[derive(Debug)]
struct Elastic {
    interval: u64,
    duration: u32,
    postponed_max: u64,
    /// Refreshes of each rank so far.
    done: Vec<u64>,
    wakeup: Cycle,
}

impl Elastic {
    fn new(ranks: u32, postponed_max: u32, timing: &Timing) -> Elastic {
        let (interval, postponed_max) = (u64::from(timing.refi), u64::from(postponed_max.max(1)));
        Elastic {
            interval,
            duration: timing.rfc,
            postponed_max,
            done: vec![0; ranks as usize],
            wakeup: Cycle(interval),
        }
    }

    /// Number of owed refreshes.
    fn debt(&self, rank: usize, now: Cycle) -> u64 {
        (now.0 / self.interval).saturating_sub(self.done[rank])
    }

    /// Required idle time of a rank.
    fn idle_needed(&self, debt: u64) -> u64 {
        u64::from(self.duration) * self.postponed_max.saturating_sub(debt) / self.postponed_max
    }

    /// Cycle at which a rank may be refreshed if nothing changes; for a busy rank, at the latest the next check.
    fn ripe(&self, rank: usize, now: Cycle, traffic: Traffic<'_>) -> Cycle {
        let debt = self.debt(rank, now);
        let next_interval = Cycle((now.0 / self.interval + 1) * self.interval);
        match debt {
            0 => next_interval,
            _ if debt >= self.postponed_max => now,
            _ if traffic.waiting[rank] > 0 => next_interval.min(now + self.interval / 32 + 1),
            _ => (traffic.last_access[rank] + self.idle_needed(debt)).max(now).min(next_interval),
        }
    }
}

impl RefreshEngine for Elastic {
    fn name(&self) -> &'static str {
        "elastic"
    }

    fn wakeup(&self) -> Cycle {
        self.wakeup
    }

    fn poll(&mut self, now: Cycle, traffic: Traffic<'_>) -> Option<Refresh> {
        if now < self.wakeup {
            return None;
        }
        let ripe = |engine: &Elastic, rank| engine.ripe(rank, now, traffic);
        let due = (0..self.done.len()).find(|&rank| self.debt(rank, now) > 0 && ripe(self, rank) <= now);
        if let Some(rank) = due {
            self.done[rank] += 1;
            debug_assert!(self.done[rank] <= now.0 / self.interval, "rank {rank} is refreshed before it is due");
            return Some(Refresh {
                rank: RankIndex(rank as u32),
                scope: Scope::AllBanks,
                duration: self.duration,
                earliest: Cycle::ZERO,
            });
        }
        self.wakeup = (0..self.done.len()).map(|rank| ripe(self, rank).max(now + 1)).min().unwrap_or(NEVER);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Traffic<'_> = Traffic { waiting: &[0, 0], last_access: &[Cycle::ZERO; 2] };

    /// Wake-up times of an engine, for a while.
    fn schedule(engine: &mut dyn RefreshEngine, until: u64) -> Vec<(u64, Refresh)> {
        let mut seen = Vec::new();
        while engine.wakeup() < Cycle(until) {
            let now = engine.wakeup();
            while let Some(refresh) = engine.poll(now, IDLE) {
                seen.push((now.0, refresh));
            }
            assert!(engine.wakeup() > now, "it would be asked for ever");
        }
        seen
    }

    #[test]
    fn staggered_ranks_take_turns_and_never_drift() {
        let mut engine = Periodic::all_banks("all-bank", 2, true, 101, 7);
        let times: Vec<_> = schedule(&mut engine, 310).into_iter().map(|(at, refresh)| (at, refresh.rank.0)).collect();
        assert_eq!(times, [(50, 0), (101, 1), (151, 0), (202, 1), (252, 0), (303, 1)]);
    }

    #[test]
    fn ranks_together_are_due_together() {
        let mut engine = Periodic::all_banks("all-bank", 2, false, 100, 7);
        let times: Vec<_> = schedule(&mut engine, 201).into_iter().map(|(at, refresh)| (at, refresh.rank.0)).collect();
        assert_eq!(times, [(100, 0), (100, 1), (200, 0), (200, 1)]);
    }

    #[test]
    fn a_burst_is_over_before_the_window_is() {
        let mut engine = Burst::new(1, 3, 1000, 50);
        let times: Vec<_> = schedule(&mut engine, 1101).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [0, 50, 100, 1000, 1050, 1100]);
    }
}
