//! An independent checker of command traces.
//!
//! It is written from the rules of JEDEC's standards (JESD79-2, -3, -4, -5, JESD209-4) and knows nothing of any
//! controller: it remembers when each bank, bank group and rank last saw each kind of command, and holds every new
//! command against one table of rules.
//!
//! What it checks: every constraint of [`Timing`]; that ACT finds the bank closed, reads and writes find it open, REF
//! finds all banks closed; that the command bus carries one command a cycle and the data bus one burst at a time; and,
//! if asked, that refreshes come often enough and reach every row.
//!
//! What it does not: commands that take several cycles on the command bus (DDR5, LPDDR4) count as one; power-down,
//! self refresh, mode registers, calibration, interrupted and masked bursts do not exist. The longest time that a row
//! may stay open (tRAS max, nine tREFI) is not checked on its own: REF closes all rows in time.

use crate::command::{Command, Kind};
use crate::error::DramError;
use crate::standard::Device;
use crate::timing::{Geometry, Timing};
use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, Read as _};
use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;

/// What a command can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// ACT to read or write.
    Rcd,
    /// PRE to ACT or refresh of the bank.
    Rp,
    /// PREA to ACT or refresh.
    RpAb,
    /// ACT to PRE.
    Ras,
    /// ACT to ACT or refresh of the bank.
    Rc,
    /// Read to read, other bank group.
    CcdS,
    /// Read to read, same bank group.
    CcdL,
    /// Write to write, other bank group.
    CcdSWr,
    /// Write to write, same bank group.
    CcdLWr,
    /// ACT to ACT, other bank group.
    RrdS,
    /// ACT to ACT, same bank group.
    RrdL,
    /// ACT to the fourth ACT after it.
    Faw,
    /// Write to PRE.
    Wr,
    /// Write to read, other bank group.
    WtrS,
    /// Write to read, same bank group.
    WtrL,
    /// Read to PRE.
    Rtp,
    /// Read or write with auto precharge to ACT or refresh: the precharge starts when tRTP or tWR, and tRAS, allow it.
    AutoPrecharge,
    /// Read to write of a rank.
    Rtw,
    /// Idle cycles of the data bus between ranks.
    Rtrs,
    /// PRE to PRE.
    Ppd,
    /// REF to anything.
    Rfc,
    /// REFpb or REFsb to a command to the same bank.
    RfcPb,
    /// REFpb or REFsb to another of the rank.
    Pbr2Pbr,
    /// REFpb or REFsb to ACT of another bank.
    Pbr2Act,
    /// Two bursts on the data bus at once.
    DataBus,
    /// Two commands in one cycle.
    CommandBus,
    /// A command of an earlier cycle after one of a later.
    Order,
    /// ACT or refresh of an open bank.
    BankOpen,
    /// Read or write of a closed bank.
    BankClosed,
    /// A rank, bank, row or column that does not exist, or one where the command has none.
    Place,
    /// More refreshes put off than allowed.
    Refi,
    /// Rows left without refresh for longer than the retention window.
    Retention,
}

impl Constraint {
    /// Gives the name, JEDEC's where there is one.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Constraint::Rcd => "tRCD",
            Constraint::Rp => "tRP",
            Constraint::RpAb => "tRPab",
            Constraint::Ras => "tRAS",
            Constraint::Rc => "tRC",
            Constraint::CcdS => "tCCD_S",
            Constraint::CcdL => "tCCD_L",
            Constraint::CcdSWr => "tCCD_S_WR",
            Constraint::CcdLWr => "tCCD_L_WR",
            Constraint::RrdS => "tRRD_S",
            Constraint::RrdL => "tRRD_L",
            Constraint::Faw => "tFAW",
            Constraint::Wr => "tWR",
            Constraint::WtrS => "tWTR_S",
            Constraint::WtrL => "tWTR_L",
            Constraint::Rtp => "tRTP",
            Constraint::AutoPrecharge => "auto precharge",
            Constraint::Rtw => "tRTW",
            Constraint::Rtrs => "tRTRS",
            Constraint::Ppd => "tPPD",
            Constraint::Rfc => "tRFC",
            Constraint::RfcPb => "tRFCpb",
            Constraint::Pbr2Pbr => "tpbR2pbR",
            Constraint::Pbr2Act => "tpbR2act",
            Constraint::DataBus => "data bus",
            Constraint::CommandBus => "command bus",
            Constraint::Order => "order",
            Constraint::BankOpen => "bank is open",
            Constraint::BankClosed => "bank is closed",
            Constraint::Place => "no such place",
            Constraint::Refi => "tREFI",
            Constraint::Retention => "retention",
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Tells which rule a command breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Violation {
    /// The rule.
    pub constraint: Constraint,
    /// The command that breaks it; for a refresh that never came, the first command after its last moment.
    pub command: Command,
    /// The earlier command that it must keep its distance from; `None` where the rule is about the bank's state, the
    /// place, or a refresh that never came.
    pub earlier: Option<Command>,
    /// Cycles needed since the earlier command (or, for a refresh, allowed since the start or the last one); for
    /// rules without a time, 0.
    pub needed: u64,
    /// Cycles found instead.
    pub found: u64,
}

impl Violation {
    fn text(&self) -> String {
        let Violation { constraint, command, earlier, needed, found } = self;
        match (constraint, earlier) {
            (Constraint::Refi | Constraint::Retention, _) => {
                format!(
                    "{constraint}: at command {command}, {found} cycles without a refresh; at most {needed} are allowed"
                )
            }
            (Constraint::Order, Some(earlier)) => {
                format!("{constraint}: command {command} stands after command {earlier}, which is of a later cycle")
            }
            (_, Some(earlier)) => format!(
                "{constraint}: command {command} comes {found} cycles after command {earlier}; at least {needed} are needed"
            ),
            (_, None) => format!("{constraint}: command {command}"),
        }
    }

    /// First cycle at which this rule would have allowed the command.
    fn allowed_from(&self) -> u64 {
        self.earlier.map_or(u64::MAX, |earlier| earlier.cycle.saturating_add(self.needed))
    }
}

/// What the checker holds a trace against, beyond timing and state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Refresh duty; `None` to ask for no refresh at all.
    pub refresh: Option<RefreshCheck>,
}

/// How often each bank must be refreshed, by whichever command.
///
/// A device counts the refreshes of a bank and refreshes the next rows at each: `commands` of them in a row reach
/// every row. So no refresh of a bank may come later than `window + slack` after the one `commands` before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshCheck {
    /// Refreshes of a bank that reach all its rows.
    pub commands: u32,
    /// Retention window in cycles.
    pub window: u64,
    /// Cycles by which the standard lets a refresh come later, because others were put off.
    pub slack: u64,
    /// The rule on putting refreshes off; `None` where only the window counts, as for burst refresh.
    pub pace: Option<RefreshPace>,
}

/// How far refreshes may stray from one each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshPace {
    /// Average interval between two refreshes of a bank, in cycles: tREFI.
    pub interval: u32,
    /// Refreshes that may be put off (8 for DDR2 to DDR4 and LPDDR4, 4 for DDR5; in finer granularities as many times
    /// more): the next must then come within the interval.
    pub postponed_max: u32,
    /// Refreshes that count when they come ahead of their time; further ones are allowed and count for nothing.
    pub pulled_in_max: u32,
}

impl RefreshCheck {
    /// All-bank refresh at its ordinary granularity.
    #[must_use]
    pub fn all_bank(device: &Device) -> RefreshCheck {
        let refresh = &device.refresh;
        RefreshCheck::paced(device, refresh.commands, refresh.interval, 1)
    }

    /// Fine granularity refresh; `None` when the device has no such factor. The [`Timing`] given to the checker must
    /// hold the shorter tRFC.
    #[must_use]
    pub fn fine(device: &Device, factor: u32) -> Option<RefreshCheck> {
        let fine = device.refresh.fine.iter().find(|fine| fine.factor == factor)?;
        Some(RefreshCheck::paced(device, device.refresh.commands * factor, fine.interval, factor))
    }

    /// Refresh of single banks; `None` when the device has none.
    #[must_use]
    pub fn single_banks(device: &Device) -> Option<RefreshCheck> {
        let bank = device.refresh.bank?;
        let factor = (bank.commands / device.refresh.commands).max(1);
        Some(RefreshCheck::paced(device, bank.commands, bank.interval, factor))
    }

    /// Gives what the standard demands beyond this duty: its limits of REF commands that are postponed or pulled in, where this duty
    /// asks only that each row is refreshed within the window (one burst, a timetable of software). `None` where it has them.
    #[must_use]
    pub fn beyond(&self, device: &Device) -> Option<RefreshCheck> {
        self.pace.is_none().then(|| RefreshCheck::all_bank(device))
    }

    /// Only the window counts, as for burst refresh (JEDEC's standards forbid that, devices do it).
    #[must_use]
    pub fn window_only(device: &Device, slack: u64) -> RefreshCheck {
        let refresh = &device.refresh;
        RefreshCheck { commands: refresh.commands, window: refresh.window_cycles, slack, pace: None }
    }

    fn paced(device: &Device, commands: u32, interval: u32, factor: u32) -> RefreshCheck {
        let refresh = &device.refresh;
        let (postponed_max, pulled_in_max) = (refresh.postponed_max * factor, refresh.pulled_in_max * factor);
        let slack = u64::from(postponed_max + pulled_in_max + 1) * u64::from(interval);
        let pace = RefreshPace { interval, postponed_max, pulled_in_max };
        RefreshCheck { commands, window: refresh.window_cycles, slack, pace: Some(pace) }
    }
}

/// A set of kinds, one bit each.
#[derive(Clone, Copy)]
struct Kinds(u16);

impl Kinds {
    const EVERY: Kinds = Kinds((1 << Kind::ALL.len()) - 1);

    fn of(kinds: &[Kind]) -> Kinds {
        Kinds(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u16))
    }

    fn contains(self, kind: Kind) -> bool {
        self.0 >> kind as u16 & 1 == 1
    }
}

/// Between which commands a rule holds.
#[derive(Clone, Copy)]
enum Reach {
    /// Both touch the same bank.
    Bank,
    /// Both touch the same bank group.
    Group,
    /// They touch different groups of a rank.
    OtherGroup,
    /// Both go to the same rank.
    Rank,
}

/// `before` must come at least `wait` cycles after `after`.
struct Rule {
    constraint: Constraint,
    after: Kinds,
    before: Kinds,
    reach: Reach,
    wait: u64,
}

/// JEDEC's command-to-command rules, but for tFAW, auto precharge and the buses, which are not between two commands.
fn rules(t: &Timing) -> Vec<Rule> {
    use Kind::{
        Activate, Precharge, PrechargeAll, Read, ReadAuto, Refresh, RefreshBank, RefreshSameBank, Write, WriteAuto,
    };
    let act = Kinds::of(&[Activate]);
    let reads = Kinds::of(&[Read, ReadAuto]);
    let writes = Kinds::of(&[Write, WriteAuto]);
    let column = Kinds::of(&[Read, ReadAuto, Write, WriteAuto]);
    let pre = Kinds::of(&[Precharge]);
    let prea = Kinds::of(&[PrechargeAll]);
    let any_pre = Kinds::of(&[Precharge, PrechargeAll]);
    let refresh = Kinds::of(&[Refresh]);
    let single = Kinds::of(&[RefreshBank, RefreshSameBank]);
    // What needs a bank at rest: ACT, and every refresh.
    let fresh = Kinds::of(&[Activate, Refresh, RefreshBank, RefreshSameBank]);
    let data = t.cwl + t.burst;
    [
        (Constraint::Rcd, act, column, Reach::Bank, t.rcd),
        (Constraint::Ras, act, any_pre, Reach::Bank, t.ras),
        (Constraint::Rc, act, fresh, Reach::Bank, t.rc),
        (Constraint::Rp, pre, fresh, Reach::Bank, t.rp),
        (Constraint::RpAb, prea, fresh, Reach::Bank, t.rp_ab),
        (Constraint::Rtp, reads, any_pre, Reach::Bank, t.rtp),
        (Constraint::Wr, writes, any_pre, Reach::Bank, data + t.wr),
        (Constraint::CcdS, reads, reads, Reach::OtherGroup, t.ccd_s),
        (Constraint::CcdL, reads, reads, Reach::Group, t.ccd_l),
        (Constraint::CcdSWr, writes, writes, Reach::OtherGroup, t.ccd_s_wr),
        (Constraint::CcdLWr, writes, writes, Reach::Group, t.ccd_l_wr),
        (Constraint::Rtw, reads, writes, Reach::Rank, t.rtw),
        (Constraint::WtrS, writes, reads, Reach::OtherGroup, data + t.wtr_s),
        (Constraint::WtrL, writes, reads, Reach::Group, data + t.wtr_l),
        (Constraint::RrdS, act, act, Reach::OtherGroup, t.rrd_s),
        (Constraint::RrdL, act, act, Reach::Group, t.rrd_l),
        (Constraint::Ppd, any_pre, any_pre, Reach::Rank, t.ppd),
        (Constraint::Rfc, refresh, Kinds::EVERY, Reach::Rank, t.rfc),
        (Constraint::RfcPb, single, Kinds::EVERY, Reach::Bank, t.rfc_pb),
        (Constraint::Pbr2Pbr, single, single, Reach::Rank, t.pbr2pbr),
        (Constraint::Pbr2Act, single, act, Reach::Rank, t.pbr2act),
        // A refresh opens rows of its bank, so it keeps the distance of an ACT (JESD209-4 and JESD79-5, refresh
        // command scheduling separation).
        (Constraint::RrdS, act, single, Reach::OtherGroup, t.rrd_s),
        (Constraint::RrdL, act, single, Reach::Group, t.rrd_l),
    ]
    .into_iter()
    .map(|(constraint, after, before, reach, wait)| Rule { constraint, after, before, reach, wait: u64::from(wait) })
    .collect()
}

fn rules_before(kind: Kind, timing: &Timing) -> Vec<Rule> {
    rules(timing).into_iter().filter(|rule| rule.before.contains(kind)).collect()
}

/// When each kind of command came last.
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
    open_row: Option<u32>,
    /// A read or write with auto precharge, and the cycle in which the bank begins to close.
    closing: Option<(Command, u64)>,
    /// Cycles of the last refreshes, as many as reach every row.
    refreshed: VecDeque<u64>,
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
    start: u64,
    end: u64,
    command: Command,
}

/// Checks the commands of one channel, in the order of their cycles.
///
/// ```
/// use memtint_dram::{CheckOptions, Checker, Command, DeviceChoice, Kind, Standard};
///
/// let device = Standard::load("ddr3-1600")?.device(DeviceChoice::default())?;
/// let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions::default());
/// let command = |cycle, kind| Command { cycle, kind, rank: 0, bank: 3, place: 7 };
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
    /// The last cycle at which some bank's next refresh is still in time; `u64::MAX` without a pace.
    refresh_deadline: u64,
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
            refresh_deadline: u64::MAX,
        };
        checker.renew_deadline();
        checker
    }

    /// Takes a command, or refuses it; a refused one leaves no trace in the checker.
    ///
    /// # Errors
    /// Of all rules it breaks, the one that would have held it back longest.
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

    /// Gives every rule that a command would break, without taking it.
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
    pub fn finish(&self, cycle: u64) -> Result<(), Violation> {
        let end = Command { cycle, kind: Kind::Refresh, rank: 0, bank: 0, place: 0 };
        let mut first = None;
        self.judge_pace(end, &mut |violation| first = first.or(Some(violation)));
        for bank in self.ranks.iter().flat_map(|rank| &rank.banks) {
            self.judge_retention(end, bank, &mut |violation| first = first.or(Some(violation)));
        }
        first.map_or(Ok(()), Err)
    }

    /// Gives the open row of a bank: what a read or write now would move. `None` when closed, or there is no such bank.
    #[must_use]
    pub fn open_row(&self, rank: u32, bank: u32) -> Option<u32> {
        self.ranks.get(rank as usize)?.banks.get(bank as usize)?.open_row
    }

    /// The banks of the rank that a command touches.
    fn touched(&self, command: &Command) -> StepBy<Range<usize>> {
        let banks = self.geometry.banks_per_rank() as usize;
        let bank = command.bank as usize;
        match command.kind {
            Kind::PrechargeAll | Kind::Refresh => (0..banks).step_by(1),
            Kind::RefreshSameBank => (bank..banks).step_by(self.geometry.banks_per_group as usize),
            _ => (bank..bank + 1).step_by(1),
        }
    }

    /// The bank groups that a command touches: one or all.
    fn groups(&self, command: &Command) -> Range<usize> {
        let group = (command.bank / self.geometry.banks_per_group) as usize;
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
        // Distances to commands that come later mean nothing.
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
                self.judge_retention(command, &self.ranks[command.rank as usize].banks[bank], report);
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
        known && command.rank < geometry.ranks && command.bank < banks && command.place < places
    }

    fn judge_state(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        let banks = &self.ranks[command.rank as usize].banks;
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
            // Allowed on a closed bank: it then does nothing but start tRP again (JESD79-3F, precharge command).
            Kind::Precharge | Kind::PrechargeAll => {}
        }
    }

    fn judge_rules(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        let rank = &self.ranks[command.rank as usize];
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
        let activates = &self.ranks[command.rank as usize].activates;
        if command.kind == Kind::Activate && activates.len() == 4 {
            apart(Constraint::Faw, activates[0], command, u64::from(self.timing.faw), report);
        }
    }

    fn judge_auto_precharge(&self, command: Command, report: &mut dyn FnMut(Violation)) {
        if command.kind != Kind::Activate && !is_refresh(command.kind) {
            return;
        }
        let banks = &self.ranks[command.rank as usize].banks;
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
            // A write may be sent after a read and yet move its data before it, because CWL is the shorter.
            if burst.start < other.end + gap && other.start < burst.end + gap {
                let found = command.cycle.saturating_sub(other.command.cycle);
                let needed = (found + other.end + gap).saturating_sub(burst.start);
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
            let (needed, found) = (self.refresh_deadline, command.cycle);
            report(Violation { constraint: Constraint::Refi, command, earlier: None, needed, found });
        }
    }

    /// The rows that come next were refreshed `commands` refreshes ago.
    fn judge_retention(&self, command: Command, bank: &Bank, report: &mut dyn FnMut(Violation)) {
        let Some(duty) = self.options.refresh else { return };
        let since = if bank.refreshed.len() == duty.commands as usize { bank.refreshed[0] } else { 0 };
        let (needed, found) = (duty.window.saturating_add(duty.slack), command.cycle.saturating_sub(since));
        if found > needed {
            report(Violation { constraint: Constraint::Retention, command, earlier: None, needed, found });
        }
    }

    fn record(&mut self, command: Command) {
        let burst = self.burst(command);
        let (touched, groups) = (self.touched(&command), self.groups(&command));
        let timing = self.timing;
        let rank = &mut self.ranks[command.rank as usize];
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
        self.refresh_deadline = turns.saturating_mul(u64::from(pace.interval));
    }
}

impl Bank {
    fn see(&mut self, command: Command, timing: &Timing, duty: Option<RefreshCheck>) {
        match command.kind {
            Kind::Activate => (self.open_row, self.closing) = (Some(command.place), None),
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
        let opened = self.latest.of(Kinds::of(&[Kind::Activate])).map_or(0, |activate| activate.cycle);
        let start = (command.cycle + u64::from(cycles)).max(opened + u64::from(timing.ras));
        (self.open_row, self.closing) = (None, Some((command, start)));
    }

    fn refresh(&mut self, cycle: u64, duty: Option<RefreshCheck>) {
        let Some(duty) = duty else { return };
        if self.refreshed.len() == duty.commands as usize {
            self.refreshed.pop_front();
        }
        self.refreshed.push_back(cycle);
        if let Some(pace) = duty.pace {
            let ahead = cycle / u64::from(pace.interval.max(1)) + u64::from(pace.pulled_in_max);
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
    let found = command.cycle.saturating_sub(earlier.cycle);
    if found < needed {
        report(Violation { constraint, command, earlier: Some(earlier), needed, found });
    }
}

fn stateless(constraint: Constraint, command: Command) -> Violation {
    Violation { constraint, command, earlier: None, needed: 0, found: 0 }
}

/// No line of a trace is longer.
const LINE_BYTES_MAX: u64 = 200;

/// Reads a command trace, one command a line as [`Command`] is displayed: cycle, command, rank, bank, row or column,
/// with spaces between. Empty lines and lines that begin with `#` are passed over. Nothing is kept of what was read.
#[derive(Debug)]
pub struct CommandReader<R> {
    reader: R,
    origin: String,
    line: u64,
    /// A line that could not be read: where the next one begins is unknown.
    lost: bool,
}

impl<R: BufRead> CommandReader<R> {
    /// Reads from `reader`; `origin` names it in messages.
    pub fn new(reader: R, origin: &str) -> CommandReader<R> {
        CommandReader { reader, origin: origin.to_owned(), line: 0, lost: false }
    }

    /// Gives the number of the line read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn refuse(&self, field: &'static str, found: impl Into<String>, accepted: &str) -> DramError {
        let (origin, found, accepted) = (self.origin.clone(), found.into(), accepted.to_owned());
        DramError::Trace { origin, line: self.line, field, found, accepted }
    }

    fn next_line(&mut self) -> Result<Option<String>, DramError> {
        let mut bytes = Vec::new();
        self.line += 1;
        let read = self.reader.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
        if let Err(error) = read {
            return Err(self.refuse("line", format!("unreadable ({error})"), "text"));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() as u64 > LINE_BYTES_MAX {
            return Err(self.refuse("line", format!("more than {LINE_BYTES_MAX} bytes"), "a shorter one"));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| self.refuse("line", "not UTF-8", "text"))
    }

    fn command(&self, line: &str) -> Result<Command, DramError> {
        const SHAPE: &str = "cycle, command, rank, bank, row or column";
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[cycle, kind, rank, bank, place] = words.as_slice() else {
            return Err(self.refuse("line", format!("of {} words", words.len()), &format!("five: {SHAPE}")));
        };
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            self.refuse("command", format!("{kind:?}"), &names)
        })?;
        Ok(Command {
            cycle: self.number("cycle", cycle)?,
            kind,
            rank: self.number("rank", rank)?,
            bank: self.number("bank", bank)?,
            place: self.number("row or column", place)?,
        })
    }

    fn number<T: std::str::FromStr>(&self, field: &'static str, word: &str) -> Result<T, DramError> {
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse().ok().filter(|_| digits).ok_or_else(|| {
            let bits = 8 * size_of::<T>();
            self.refuse(field, format!("{word:?}"), &format!("a whole number below 2^{bits}"))
        })
    }
}

impl<R: BufRead> Iterator for CommandReader<R> {
    type Item = Result<Command, DramError>;

    /// The next command. After a line that is no command the next one is tried; after one that cannot be read at all,
    /// the trace ends.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.lost {
            let line = match self.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(error) => {
                    self.lost = true;
                    return Some(Err(error));
                }
            };
            let text = line.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Some(self.command(text));
            }
        }
        None
    }
}
