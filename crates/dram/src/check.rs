//! An independent checker of command traces.
//!
//! It is written from the rules of JEDEC's standards (JESD79-2, -3, -4, -5, JESD209-4) and is independent of any
//! controller: it records the latest command of each kind of each bank, bank group and rank, and holds every new
//! command against one table of rules.
//!
//! What it checks: every constraint of [`Timing`]; that ACT finds the bank closed, reads and writes find it open, REF
//! finds all banks closed; that the command bus carries one command a cycle and the data bus one burst at a time; and,
//! on request, that refreshes come often enough and reach every row.
//!
//! What it leaves out: commands that take several cycles on the command bus (DDR5, LPDDR4) count as one; power-down,
//! self refresh, mode registers, calibration, interrupted and masked bursts do not exist. The longest time that a row
//! may stay open (tRAS max, nine tREFI) is not checked separately: REF closes all rows in time.

mod reader;
mod refresh;
mod rules;
mod violation;

pub use self::reader::CommandReader;
pub use self::refresh::{RefreshCheck, RefreshPace};
use self::rules::{Kinds, Reach, Rule, rules_before};
pub use self::violation::{Constraint, Violation};
use crate::command::{Command, Kind};
use crate::index::{BankInRank, Cycle, RankIndex, RowIndex};
use crate::refresh::NEVER;
use crate::timing::{Geometry, Timing};
use std::collections::VecDeque;
use std::fmt;
use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;

/// Optional checks, beyond timing and state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Refresh duty; `None` to require no refresh.
    pub refresh: Option<RefreshCheck>,
}

/// Latest command of each kind.
#[derive(Clone, Default)]
struct Latest([Option<Command>; Kind::ALL.len()]);

impl Latest {
    fn of(&self, kinds: Kinds) -> Option<Command> {
        let (mut left, mut found): (u16, Option<Command>) = (kinds.0, None);
        while left != 0 {
            let kind = left.trailing_zeros() as usize;
            left &= left - 1;
            found = later(found, self.0[kind]);
        }
        found
    }

    fn put(&mut self, command: Command) {
        self.0[command.kind as usize] = Some(command);
    }
}

#[derive(Clone, Default)]
struct Bank {
    latest: Latest,
    open_row: Option<RowIndex>,
    /// A read or write with auto precharge, and the cycle in which the bank begins to close.
    closing: Option<(Command, Cycle)>,
    /// Cycles of the last refreshes, as many as needed to reach every row.
    refreshed: VecDeque<Cycle>,
    /// Refreshes that count against the pace.
    credited: u64,
}

#[derive(Clone, Default)]
struct Rank {
    latest: Latest,
    groups: Vec<Latest>,
    banks: Vec<Bank>,
    /// The last four ACT, oldest first.
    activates: VecDeque<Command>,
}

/// A burst on the data bus.
#[derive(Clone, Copy)]
struct Burst {
    start: Cycle,
    end: Cycle,
    command: Command,
}

/// Checks the commands of one channel, in the order of their cycles.
///
/// ```
/// use memtint_dram::{BankInRank, CheckOptions, Checker, Command, Cycle, DeviceChoice, Kind, RankIndex, Standard};
///
/// let device = Standard::load("ddr3-1600")?.device(DeviceChoice::default())?;
/// let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions::default());
/// let (rank, bank) = (RankIndex(0), BankInRank(3));
/// let command = |cycle, kind| Command { cycle: Cycle(cycle), kind, rank, bank, place: 7 };
/// checker.see(command(0, Kind::Activate)).unwrap();
/// let early = checker.see(command(10, Kind::Read)).unwrap_err();
/// assert_eq!((early.constraint.name(), early.needed, early.found), ("tRCD", 11, 10));
/// checker.see(command(11, Kind::Read)).unwrap();
/// # Ok::<(), memtint_dram::DramError>(())
/// ```
#[derive(Clone)]
pub struct Checker {
    geometry: Geometry,
    timing: Timing,
    options: CheckOptions,
    /// By the kind of the later command.
    rules: Arc<[Vec<Rule>; Kind::ALL.len()]>,
    ranks: Vec<Rank>,
    bursts: VecDeque<Burst>,
    last: Option<Command>,
    /// The last cycle at which some bank's next refresh is still in time; [`NEVER`] without a pace.
    refresh_deadline: Cycle,
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Checker");
        text.field("geometry", &self.geometry).field("timing", &self.timing).field("options", &self.options);
        text.field("last", &self.last).finish_non_exhaustive()
    }
}

impl Checker {
    /// Starts at cycle 0 with every bank closed and freshly refreshed, and no command before.
    #[must_use]
    pub fn new(geometry: &Geometry, timing: &Timing, options: CheckOptions) -> Checker {
        let rank = Rank {
            groups: vec![Latest::default(); geometry.bank_groups as usize],
            banks: vec![Bank::default(); geometry.banks_per_rank() as usize],
            ..Rank::default()
        };
        let mut checker = Checker {
            geometry: *geometry,
            timing: *timing,
            options,
            rules: Arc::new(Kind::ALL.map(|kind| rules_before(kind, timing))),
            ranks: vec![rank; geometry.ranks as usize],
            bursts: VecDeque::new(),
            last: None,
            refresh_deadline: NEVER,
        };
        checker.renew_deadline();
        checker
    }

    /// Accepts a command, or refuses it; a refused command does not change the checker.
    ///
    /// # Errors
    /// Of all violated rules, the one that would have delayed the command longest.
    pub fn see(&mut self, command: Command) -> Result<(), Violation> {
        let mut worst: Option<Violation> = None;
        self.judge(command, &mut |violation: Violation| {
            if worst.is_none_or(|known| violation.allowed_from() > known.allowed_from()) {
                worst = Some(violation);
            }
        });
        match worst {
            Some(violation) => Err(violation),
            None => {
                self.record(command);
                Ok(())
            }
        }
    }

    /// Gives every rule that a command would break, without accepting it.
    #[must_use]
    pub fn violations(&self, command: Command) -> Vec<Violation> {
        let mut found = Vec::new();
        self.judge(command, &mut |violation| found.push(violation));
        found
    }

    /// Ends the trace: checks that up to `cycle` no refresh was missing.
    ///
    /// # Errors
    /// [`Constraint::Refi`] or [`Constraint::Retention`], with a command that stands for the end.
    pub fn finish(&self, cycle: Cycle) -> Result<(), Violation> {
        let end = Command { cycle, kind: Kind::Refresh, rank: RankIndex(0), bank: BankInRank(0), place: 0 };
        let mut first = None;
        self.judge_pace(end, &mut |violation| first = first.or(Some(violation)));
        for bank in self.ranks.iter().flat_map(|rank| &rank.banks) {
            self.judge_retention(end, bank, &mut |violation| first = first.or(Some(violation)));
        }
        first.map_or(Ok(()), Err)
    }

    /// Gives the open row of a bank, which a read or write would access now. `None` if it is closed, or does not exist.
    #[must_use]
    pub fn open_row(&self, rank: RankIndex, bank: BankInRank) -> Option<RowIndex> {
        self.ranks.get(rank.index())?.banks.get(bank.index())?.open_row
    }

    /// The banks of the rank that a command touches.
    fn touched(&self, command: &Command) -> StepBy<Range<usize>> {
        let banks = self.geometry.banks_per_rank() as usize;
        let bank = command.bank.index();
        match command.kind {
            Kind::PrechargeAll | Kind::Refresh => (0..banks).step_by(1),
            Kind::RefreshSameBank => (bank..banks).step_by(self.geometry.banks_per_group as usize),
            _ => (bank..bank + 1).step_by(1),
        }
    }

    /// The bank groups that a command touches: one or all.
    fn groups(&self, command: &Command) -> Range<usize> {
        let group = (command.bank.0 / self.geometry.banks_per_group) as usize;
        match command.kind {
            Kind::PrechargeAll | Kind::Refresh | Kind::RefreshSameBank => 0..self.geometry.bank_groups as usize,
            _ => group..group + 1,
        }
    }

    fn judge(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        if !self.exists(&command) {
            report(stateless(Constraint::Place, command));
            return;
        }
        // Distances to later commands are meaningless.
        if let Some(last) = self.last.filter(|last| command.cycle < last.cycle) {
            report(Violation { constraint: Constraint::Order, command, earlier: Some(last), needed: 1, found: 0 });
            return;
        }
        if let Some(last) = self.last {
            apart(Constraint::CommandBus, last, command, 1, report);
        }
        self.judge_state(command, report);
        self.judge_rules(command, report);
        self.judge_four_activates(command, report);
        self.judge_auto_precharge(command, report);
        self.judge_data_bus(command, report);
        self.judge_pace(command, report);
        if is_refresh(command.kind) {
            for bank in self.touched(&command) {
                self.judge_retention(command, &self.ranks[command.rank.index()].banks[bank], report);
            }
        }
    }

    fn exists(&self, command: &Command) -> bool {
        let geometry = &self.geometry;
        let (banks, places) = match command.kind {
            Kind::Activate => (geometry.banks_per_rank(), geometry.rows),
            Kind::Read | Kind::ReadAuto | Kind::Write | Kind::WriteAuto => {
                (geometry.banks_per_rank(), geometry.bursts_per_row())
            }
            Kind::Precharge | Kind::RefreshBank => (geometry.banks_per_rank(), 1),
            Kind::RefreshSameBank => (geometry.banks_per_group, 1),
            Kind::PrechargeAll | Kind::Refresh => (1, 1),
        };
        // Some standards have no refresh of single banks.
        let known = self.timing.rfc_pb > 0 || !matches!(command.kind, Kind::RefreshBank | Kind::RefreshSameBank);
        known && command.rank.0 < geometry.ranks && command.bank.0 < banks && command.place < places
    }

    fn judge_state(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        let banks = &self.ranks[command.rank.index()].banks;
        let mut touched = self.touched(&command);
        let open = |bank: usize| banks[bank].open_row.is_some();
        match command.kind {
            Kind::Activate | Kind::Refresh | Kind::RefreshBank | Kind::RefreshSameBank => {
                if touched.any(open) {
                    report(stateless(Constraint::BankOpen, command));
                }
            }
            Kind::Read | Kind::ReadAuto | Kind::Write | Kind::WriteAuto => {
                if !touched.all(open) {
                    report(stateless(Constraint::BankClosed, command));
                }
            }
            // Allowed on a closed bank: it only starts tRP again (JESD79-3F, precharge command).
            Kind::Precharge | Kind::PrechargeAll => {}
        }
    }

    fn judge_rules(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        let rank = &self.ranks[command.rank.index()];
        let (touched, mine) = (self.touched(&command), self.groups(&command));
        for rule in &self.rules[command.kind as usize] {
            let of_group = |group: usize| rank.groups[group].of(rule.after);
            let earlier = match rule.reach {
                Reach::Rank => rank.latest.of(rule.after),
                Reach::Bank => touched.clone().map(|bank| rank.banks[bank].latest.of(rule.after)).fold(None, later),
                Reach::Group => mine.clone().map(of_group).fold(None, later),
                Reach::OtherGroup => (0..mine.start).chain(mine.end..rank.groups.len()).map(of_group).fold(None, later),
            };
            if let Some(earlier) = earlier {
                apart(rule.constraint, earlier, command, rule.wait, report);
            }
        }
    }

    fn judge_four_activates(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        let activates = &self.ranks[command.rank.index()].activates;
        if command.kind == Kind::Activate && activates.len() == 4 {
            apart(Constraint::Faw, activates[0], command, u64::from(self.timing.faw), report);
        }
    }

    fn judge_auto_precharge(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        if command.kind != Kind::Activate && !is_refresh(command.kind) {
            return;
        }
        let banks = &self.ranks[command.rank.index()].banks;
        for bank in self.touched(&command) {
            if let Some((earlier, start)) = banks[bank].closing {
                let needed = start - earlier.cycle + u64::from(self.timing.rp);
                apart(Constraint::AutoPrecharge, earlier, command, needed, report);
            }
        }
    }

    fn judge_data_bus(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        let Some(burst) = self.burst(command) else { return };
        for other in &self.bursts {
            let same_rank = other.command.rank == command.rank;
            let gap = if same_rank { 0 } else { u64::from(self.timing.rtrs) };
            let constraint = if same_rank { Constraint::DataBus } else { Constraint::Rtrs };
            // A write may be sent after a read and yet move its data before it, because CWL is shorter.
            if burst.start < other.end + gap && other.start < burst.end + gap {
                let found = command.cycle.since(other.command.cycle);
                let needed = (other.end + found + gap).since(burst.start);
                report(Violation { constraint, command, earlier: Some(other.command), needed, found });
            }
        }
    }

    fn burst(&self, command: Command) -> Option<Burst> {
        let latency = match command.kind {
            Kind::Read | Kind::ReadAuto => self.timing.cl,
            Kind::Write | Kind::WriteAuto => self.timing.cwl,
            _ => return None,
        };
        let start = command.cycle.saturating_add(u64::from(latency));
        Some(Burst { start, end: start.saturating_add(u64::from(self.timing.burst)), command })
    }

    fn judge_pace(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        if command.cycle > self.refresh_deadline {
            let (needed, found) = (self.refresh_deadline.0, command.cycle.0);
            report(Violation { constraint: Constraint::Refi, command, earlier: None, needed, found });
        }
    }

    /// The next rows were refreshed `commands` refreshes ago.
    fn judge_retention(&self, command: Command, bank: &Bank, report: &mut dyn FnMut(Violation)) {
        let Some(duty) = self.options.refresh else { return };
        let since = if bank.refreshed.len() == duty.commands as usize { bank.refreshed[0] } else { Cycle::ZERO };
        let (needed, found) = (duty.window.saturating_add(duty.slack), command.cycle.since(since));
        if found > needed {
            report(Violation { constraint: Constraint::Retention, command, earlier: None, needed, found });
        }
    }

    fn record(&mut self, command: Command) {
        let burst = self.burst(command);
        let (touched, groups) = (self.touched(&command), self.groups(&command));
        let timing = self.timing;
        let rank = &mut self.ranks[command.rank.index()];
        rank.latest.put(command);
        for latest in &mut rank.groups[groups] {
            latest.put(command);
        }
        for bank in touched {
            rank.banks[bank].see(command, &timing, self.options.refresh);
        }
        if command.kind == Kind::Activate {
            rank.activates.push_back(command);
            if rank.activates.len() > 4 {
                rank.activates.pop_front();
            }
        }
        if is_refresh(command.kind) {
            self.renew_deadline();
        }
        // No later command moves data before its own cycle.
        let gone = command.cycle.saturating_sub(u64::from(timing.rtrs));
        self.bursts.retain(|burst| burst.end > gone);
        self.bursts.extend(burst);
        self.last = Some(command);
    }

    fn renew_deadline(&mut self) {
        let Some(pace) = self.options.refresh.and_then(|duty| duty.pace) else { return };
        let banks = self.ranks.iter().flat_map(|rank| &rank.banks);
        let least = banks.map(|bank| bank.credited).min().unwrap_or(u64::MAX);
        let turns = least.saturating_add(u64::from(pace.postponed_max) + 1);
        self.refresh_deadline = Cycle(turns.saturating_mul(u64::from(pace.interval)));
    }
}

impl Bank {
    fn see(&mut self, command: Command, timing: &Timing, duty: Option<RefreshCheck>) {
        match command.kind {
            Kind::Activate => (self.open_row, self.closing) = (Some(RowIndex(command.place)), None),
            Kind::Precharge | Kind::PrechargeAll => self.open_row = None,
            Kind::Read | Kind::Write => {}
            Kind::ReadAuto => self.close_after(command, timing.rtp, timing),
            Kind::WriteAuto => self.close_after(command, timing.cwl + timing.burst + timing.wr, timing),
            Kind::Refresh | Kind::RefreshBank | Kind::RefreshSameBank => self.refresh(command.cycle, duty),
        }
        self.latest.put(command);
    }

    /// JESD79-3F, read and write with auto precharge: the precharge waits for tRTP or tWR, and for tRAS.
    fn close_after(&mut self, command: Command, cycles: u32, timing: &Timing) {
        let opened = self.latest.of(Kinds::of(&[Kind::Activate])).map_or(Cycle::ZERO, |activate| activate.cycle);
        let start = (command.cycle + u64::from(cycles)).max(opened + u64::from(timing.ras));
        (self.open_row, self.closing) = (None, Some((command, start)));
    }

    fn refresh(&mut self, cycle: Cycle, duty: Option<RefreshCheck>) {
        let Some(duty) = duty else { return };
        if self.refreshed.len() == duty.commands as usize {
            self.refreshed.pop_front();
        }
        self.refreshed.push_back(cycle);
        if let Some(pace) = duty.pace {
            let ahead = cycle.0 / u64::from(pace.interval.max(1)) + u64::from(pace.pulled_in_max);
            self.credited = (self.credited + 1).min(ahead);
        }
    }
}

fn is_refresh(kind: Kind) -> bool {
    matches!(kind, Kind::Refresh | Kind::RefreshBank | Kind::RefreshSameBank)
}

fn later(one: Option<Command>, other: Option<Command>) -> Option<Command> {
    match (one, other) {
        (Some(a), Some(b)) => Some(if b.cycle >= a.cycle { b } else { a }),
        (one, other) => one.or(other),
    }
}

fn apart(constraint: Constraint, earlier: Command, command: Command, needed: u64, report: &mut dyn FnMut(Violation)) {
    let found = command.cycle.since(earlier.cycle);
    if found < needed {
        report(Violation { constraint, command, earlier: Some(earlier), needed, found });
    }
}

fn stateless(constraint: Constraint, command: Command) -> Violation {
    Violation { constraint, command, earlier: None, needed: 0, found: 0 }
}
