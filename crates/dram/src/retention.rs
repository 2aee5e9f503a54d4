//! An independent monitor of retention: is each row of each bank refreshed within tRET, at every moment?
//!
//! It sees commands only, and shares no code with the engines that decide on refreshes, nor with the
//! [checker](crate::Checker), which applies the standard's rules with their leeway. This monitor allows none.
//!
//! A device counts the refreshes of a bank: each refreshes the next rows, a *bin* of them, and
//! [`RefreshCheck::commands`] refreshes reach all rows. The monitor keeps the cycle in which each bin was refreshed
//! last.

use crate::check::RefreshCheck;
use crate::command::{Command, Kind};
use crate::controller::CommandSink;
use crate::index::{BankInRank, BankIndex, Cycle, RankIndex};
use crate::timing::Geometry;
use std::fmt;

/// Rows that were not refreshed in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionLoss {
    /// Rank.
    pub rank: RankIndex,
    /// Bank of the rank.
    pub bank: BankInRank,
    /// The bin of the rows.
    pub bin: u32,
    /// Bins of a bank.
    pub bins: u32,
    /// Cycle of their latest refresh; 0 if there was none.
    pub since: Cycle,
    /// Cycles without a refresh, within the trace.
    pub found: u64,
    /// Cycles allowed: tRET.
    pub needed: u64,
}

impl fmt::Display for RetentionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RetentionLoss { rank, bank, bin, bins, since, found, needed } = self;
        write!(
            f,
            "rank {rank}, bank {bank}: the rows of bin {bin} of {bins} go {found} cycles without a refresh from cycle {since} \
             on; at most {needed} are allowed"
        )
    }
}

/// The result of a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The longest time in cycles that rows of each rank went without a refresh.
    pub longest: Vec<u64>,
    /// Refreshes that came too late for the rows of their bank, and bins whose refresh was overdue at the end.
    pub losses: u64,
    /// The first of them in the order of the trace.
    pub first: Option<RetentionLoss>,
}

/// Monitors the commands of one channel, from power-up with all rows fresh.
///
/// ```
/// use memtint_dram::{BankInRank, Command, Cycle, DeviceChoice, Kind, RankIndex, RefreshCheck, RetentionMonitor, Standard};
///
/// let device = Standard::load("ddr3-1600")?.device(DeviceChoice::default())?;
/// let mut monitor = RetentionMonitor::new(&device.geometry, &RefreshCheck::all_bank(&device));
/// for index in 0..8191 {
///     let cycle = Cycle(6240 * (index + 1));
///     monitor.watch(Command { cycle, kind: Kind::Refresh, rank: RankIndex(0), bank: BankInRank(0), place: 0 });
/// }
/// let found = monitor.finish(Cycle(51_200_001));
/// assert_eq!(found.losses, 8, "the last bin of each bank");
/// # Ok::<(), memtint_dram::DramError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetentionMonitor {
    geometry: Geometry,
    bins: u32,
    allowed: u64,
    /// Rank by rank.
    banks: Vec<Rows>,
    found: Retention,
}

/// The rows of one bank.
#[derive(Clone, Debug)]
struct Rows {
    /// The next bin.
    next: u32,
    /// Cycle in which each bin was refreshed.
    refreshed: Vec<Cycle>,
}

impl RetentionMonitor {
    /// Monitors a channel. Uses two values of the duty: the refreshes that reach all rows of a bank, and the window,
    /// which is tRET; ignores the standard's leeway.
    #[must_use]
    pub fn new(geometry: &Geometry, duty: &RefreshCheck) -> RetentionMonitor {
        let bins = duty.commands.max(1);
        let rows = Rows { next: 0, refreshed: vec![Cycle::ZERO; bins as usize] };
        RetentionMonitor {
            geometry: *geometry,
            bins,
            allowed: duty.window,
            banks: vec![rows; geometry.banks() as usize],
            found: Retention { longest: vec![0; geometry.ranks as usize], losses: 0, first: None },
        }
    }

    /// Takes the next command; cycles do not decrease. Commands to places that do not exist refresh nothing.
    pub fn watch(&mut self, command: Command) {
        let Command { rank, bank: BankInRank(bank), .. } = command;
        let per_rank = self.geometry.banks_per_rank();
        let (from, to, step) = match command.kind {
            Kind::Refresh => (0, per_rank, 1),
            Kind::RefreshBank => (bank, bank.saturating_add(1), 1),
            Kind::RefreshSameBank => (bank, per_rank, self.geometry.banks_per_group),
            _ => return,
        };
        if rank.0 >= self.geometry.ranks || to > per_rank {
            return;
        }
        for bank in (from..to).step_by(step as usize).map(BankInRank) {
            let rows = &mut self.banks[self.geometry.bank(rank, bank).index()];
            let bin = rows.next;
            let since = std::mem::replace(&mut rows.refreshed[bin as usize], command.cycle);
            rows.next = if bin + 1 == self.bins { 0 } else { bin + 1 };
            self.judge(rank, bank, bin, since, command.cycle);
        }
    }

    /// Ends the trace at a cycle: rows whose refresh is overdue by then are lost.
    #[must_use]
    pub fn finish(mut self, end: Cycle) -> Retention {
        let banks = std::mem::take(&mut self.banks);
        for (index, rows) in (0..).map(BankIndex).zip(&banks) {
            for (bin, &since) in (0..).zip(&rows.refreshed) {
                self.judge(self.geometry.rank_of(index), self.geometry.bank_in_rank(index), bin, since, end);
            }
        }
        self.found
    }

    fn judge(&mut self, rank: RankIndex, bank: BankInRank, bin: u32, since: Cycle, now: Cycle) {
        let found = now.since(since);
        let longest = &mut self.found.longest[rank.index()];
        *longest = (*longest).max(found);
        if found > self.allowed {
            self.found.losses += 1;
            let loss = RetentionLoss { rank, bank, bin, bins: self.bins, since, found, needed: self.allowed };
            self.found.first.get_or_insert(loss);
        }
    }
}

impl CommandSink for RetentionMonitor {
    fn see(&mut self, command: Command) {
        self.watch(command);
    }
}
