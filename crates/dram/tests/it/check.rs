//! Is the gate tight? Every constraint is refused one cycle early and accepted on time; and the checker agrees with a
//! second one that compares all pairs of commands.

use memtint_dram::{
    BankInRank, CheckOptions, Checker, Command, CommandReader, Constraint, Cycle, Device, DeviceChoice, Geometry, Kind,
    RankIndex, RefreshCheck, RowIndex, Standard, Timing, Violation,
};
use memtint_units::Random;
use proptest::prelude::*;
use std::collections::HashSet;

const STANDARDS: [&str; 6] = ["ddr2-800", "ddr3-1600", "ddr4-2400", "ddr4-3200", "ddr5-4800", "lpddr4-3200"];
/// Longer than any constraint but those of refresh.
const FAR: u64 = 2000;

fn device(standard: &str) -> Device {
    Standard::load(standard).unwrap().device(DeviceChoice { ranks: 2, ..DeviceChoice::default() }).unwrap()
}

/// What must hold between the last command and those before.
struct Scenario {
    constraint: Constraint,
    before: Vec<Command>,
    /// On time.
    last: Command,
    /// No other rule can be as strict, whatever the timing.
    alone: bool,
}

/// Writes scenarios down.
struct Scenarios {
    all: Vec<Scenario>,
    /// A bank in the group of bank 0.
    same: u32,
    /// A bank of another group; bank 0's own where there are none.
    other: u32,
}

fn at(cycle: u64, kind: Kind, bank: u32) -> Command {
    Command { cycle: Cycle(cycle), kind, rank: RankIndex(0), bank: BankInRank(bank), place: 0 }
}

fn in_rank(rank: u32, command: Command) -> Command {
    Command { rank: RankIndex(rank), ..command }
}

impl Scenarios {
    fn add(&mut self, constraint: Constraint, before: &[Command], last: Command) {
        self.all.push(Scenario { constraint, before: before.to_vec(), last, alone: true });
    }

    /// Two commands at a distance after the banks 0, `same` and `other` of both ranks have been opened.
    fn pair(&mut self, constraint: Constraint, first: Command, distance: u32, last: Command) {
        let mut before = Vec::new();
        for rank in 0..2 {
            for (place, bank) in [0, self.same, self.other].into_iter().enumerate() {
                let cycle = FAR * (1 + place as u64 + 3 * u64::from(rank));
                before.push(in_rank(rank, at(cycle, Kind::Activate, bank)));
            }
        }
        before.push(Command { cycle: Cycle(8 * FAR), ..first });
        self.add(constraint, &before, Command { cycle: Cycle(8 * FAR + u64::from(distance)), ..last });
    }
}

fn scenarios(device: &Device, t: &Timing) -> Vec<Scenario> {
    use Kind::{
        Activate, Precharge, PrechargeAll, Read, ReadAuto, Refresh, RefreshBank, RefreshSameBank, Write, WriteAuto,
    };
    let geometry = &device.geometry;
    let groups = geometry.bank_groups > 1;
    let other = if groups { geometry.banks_per_group } else { 2 };
    let mut list = Scenarios { all: Vec::new(), same: 1, other };
    let same = 1;
    let single = device.refresh.bank.map(|bank| if bank.same_bank { RefreshSameBank } else { RefreshBank });
    let opened = at(0, Activate, 0);

    for column in [Read, ReadAuto, Write, WriteAuto] {
        list.add(Constraint::Rcd, &[opened], at(u64::from(t.rcd), column, 0));
    }
    for close in [Precharge, PrechargeAll] {
        list.add(Constraint::Ras, &[opened], at(u64::from(t.ras), close, 0));
        for read in [Read, ReadAuto] {
            list.add(Constraint::Rtp, &[opened, at(FAR, read, 0)], at(FAR + u64::from(t.rtp), close, 0));
        }
        for write in [Write, WriteAuto] {
            let due = FAR + u64::from(t.write_to_precharge());
            list.add(Constraint::Wr, &[opened, at(FAR, write, 0)], at(due, close, 0));
        }
        for again in [Precharge, PrechargeAll] {
            let bank = if again == Precharge { same } else { 0 };
            list.add(Constraint::Ppd, &[at(FAR, close, 0)], at(FAR + u64::from(t.ppd), again, bank));
        }
        let (constraint, wait) = if close == Precharge { (Constraint::Rp, t.rp) } else { (Constraint::RpAb, t.rp_ab) };
        for next in [Some(Activate), Some(Refresh), single].into_iter().flatten() {
            list.add(constraint, &[opened, at(FAR, close, 0)], at(FAR + u64::from(wait), next, 0));
        }
    }
    let closed = at(u64::from(t.ras), Precharge, 0);
    for next in [Some(Activate), Some(Refresh), single].into_iter().flatten() {
        list.add(Constraint::Rc, &[opened, closed], at(u64::from(t.rc), next, 0));
        for (column, wait) in [(ReadAuto, t.rtp), (WriteAuto, t.write_to_precharge())] {
            let due = at(FAR + u64::from(wait + t.rp), next, 0);
            list.add(Constraint::AutoPrecharge, &[opened, at(FAR, column, 0)], due);
            // As early as it can be, tRAS holds the precharge back, and tRC says the same.
            let start = (t.rcd + wait).max(t.ras);
            let due = at(u64::from((start + t.rp).max(t.rc)), next, 0);
            let before = vec![opened, at(u64::from(t.rcd), column, 0)];
            list.all.push(Scenario { constraint: Constraint::AutoPrecharge, before, last: due, alone: false });
        }
    }

    list.add(Constraint::RrdL, &[opened], at(u64::from(t.rrd_l), Activate, same));
    if groups {
        list.add(Constraint::RrdS, &[opened], at(u64::from(t.rrd_s), Activate, other));
    }
    let bank = |n: u32| n % geometry.bank_groups * geometry.banks_per_group + n / geometry.bank_groups;
    let four: Vec<Command> = (0..4).map(|n| at(u64::from(n * t.rrd_s), Activate, bank(n))).collect();
    list.add(Constraint::Faw, &four, at(u64::from(t.faw), Activate, bank(4)));

    for (first, second) in [(Read, Read), (Read, ReadAuto), (ReadAuto, Read)] {
        let here = if first == Read { 0 } else { same };
        list.pair(Constraint::CcdL, at(0, first, 0), t.ccd_l, at(0, second, here));
        if groups {
            list.pair(Constraint::CcdS, at(0, first, 0), t.ccd_s, at(0, second, other));
        }
    }
    for (first, second) in [(Write, Write), (Write, WriteAuto), (WriteAuto, Write)] {
        let here = if first == Write { 0 } else { same };
        list.pair(Constraint::CcdLWr, at(0, first, 0), t.ccd_l_wr, at(0, second, here));
        if groups {
            list.pair(Constraint::CcdSWr, at(0, first, 0), t.ccd_s_wr, at(0, second, other));
        }
    }
    for (read, write) in [(Read, Write), (ReadAuto, WriteAuto)] {
        list.pair(Constraint::Rtw, at(0, read, 0), t.rtw, at(0, write, same));
        list.pair(Constraint::Rtw, at(0, read, 0), t.rtw, at(0, write, other));
        list.pair(Constraint::WtrL, at(0, write, 0), t.cwl + t.burst + t.wtr_l, at(0, read, same));
        if groups {
            list.pair(Constraint::WtrS, at(0, write, 0), t.cwl + t.burst + t.wtr_s, at(0, read, other));
        }
    }
    for (first, second) in [(Read, Read), (Write, Write), (Read, Write), (Write, Read)] {
        let latency = |kind| if kind == Read { t.cl } else { t.cwl };
        let distance = (latency(first) + t.burst + t.rtrs).saturating_sub(latency(second));
        // LPDDR4 writes move their data so early that a read of another rank can follow at once.
        if distance > 1 {
            list.pair(Constraint::Rtrs, at(0, first, 0), distance, in_rank(1, at(0, second, 0)));
        }
    }

    for next in [Some(Activate), Some(Refresh), Some(Precharge), Some(PrechargeAll), single].into_iter().flatten() {
        list.add(Constraint::Rfc, &[at(0, Refresh, 0)], at(u64::from(t.rfc), next, 0));
    }
    if let Some(single) = single {
        for next in [Activate, Precharge, PrechargeAll, Refresh] {
            list.add(Constraint::RfcPb, &[at(0, single, 0)], at(u64::from(t.rfc_pb), next, 0));
        }
        list.add(Constraint::Pbr2Pbr, &[at(0, single, 0)], at(u64::from(t.pbr2pbr), single, 1));
        list.add(Constraint::Pbr2Act, &[at(0, single, 0)], at(u64::from(t.pbr2act), Activate, 1));
        list.add(Constraint::RrdL, &[at(0, Activate, same)], at(u64::from(t.rrd_l), single, 0));
    }
    list.add(Constraint::CommandBus, &[opened], in_rank(1, at(1, Activate, 0)));
    list.all
}

fn prepared(device: &Device, t: &Timing, scenario: &Scenario) -> Checker {
    let mut checker = Checker::new(&device.geometry, t, CheckOptions::default());
    for &command in &scenario.before {
        checker.see(command).unwrap_or_else(|violation| panic!("{}: before: {violation}", scenario.constraint));
    }
    checker
}

fn constraints(violations: &[Violation]) -> HashSet<Constraint> {
    violations.iter().map(|violation| violation.constraint).collect()
}

/// One cycle early refused, naming the constraint and the cycles; on time accepted.
fn assert_tight(device: &Device, t: &Timing, scenario: &Scenario) {
    let Scenario { constraint, last, .. } = scenario;
    let mut checker = prepared(device, t, scenario);
    let early = Command { cycle: last.cycle.saturating_sub(1), ..*last };
    let broken = checker.violations(early);
    let named = broken.iter().find(|violation| violation.constraint == *constraint);
    let named = named.unwrap_or_else(|| panic!("{}: {constraint} is not tight at {early}: {broken:?}", device.name));
    assert_eq!(named.found + 1, named.needed, "{constraint}");
    assert_eq!(named.earlier.unwrap().cycle + named.needed, last.cycle, "{constraint}");
    assert!(broken.contains(&checker.see(early).unwrap_err()), "{constraint}");
    assert_eq!(checker.violations(*last), [], "{}: {constraint} at {last}", device.name);
    checker.see(*last).unwrap();
}

#[test]
fn every_constraint_is_refused_early_and_accepted_on_time() {
    for standard in STANDARDS {
        let device = device(standard);
        let mut seen = HashSet::new();
        for scenario in scenarios(&device, &device.timing) {
            assert_tight(&device, &device.timing, &scenario);
            seen.insert(scenario.constraint);
        }
        let groups = if device.geometry.bank_groups > 1 { 4 } else { 0 };
        let single = if device.refresh.bank.is_some() { 3 } else { 0 };
        assert_eq!(seen.len(), 18 + groups + single, "{standard}: a constraint has no scenario");
    }
}

/// In the standards many constraints fall on the same cycle (tRC = tRAS + tRP). Here each is made longer in turn, so
/// that nothing else can be what refuses the early command.
#[test]
fn every_constraint_is_refused_on_its_own() {
    for standard in STANDARDS {
        let device = device(standard);
        let kinds: HashSet<Constraint> = scenarios(&device, &device.timing).iter().map(|s| s.constraint).collect();
        for constraint in kinds {
            let Some(longer) = lengthened(&device.timing, constraint) else { continue };
            for scenario in scenarios(&device, &longer) {
                if scenario.constraint == constraint && scenario.alone {
                    assert_tight(&device, &longer, &scenario);
                    let early = Command { cycle: scenario.last.cycle.saturating_sub(1), ..scenario.last };
                    let broken = prepared(&device, &longer, &scenario).violations(early);
                    assert_eq!(constraints(&broken), HashSet::from([constraint]), "{standard}");
                }
            }
        }
    }
}

fn lengthened(timing: &Timing, constraint: Constraint) -> Option<Timing> {
    let mut t = *timing;
    let field = match constraint {
        Constraint::Rcd => &mut t.rcd,
        Constraint::Rp => &mut t.rp,
        Constraint::RpAb => &mut t.rp_ab,
        Constraint::Ras => &mut t.ras,
        Constraint::Rc => &mut t.rc,
        Constraint::CcdS => &mut t.ccd_s,
        Constraint::CcdL => &mut t.ccd_l,
        Constraint::CcdSWr => &mut t.ccd_s_wr,
        Constraint::CcdLWr => &mut t.ccd_l_wr,
        Constraint::RrdS => &mut t.rrd_s,
        Constraint::RrdL => &mut t.rrd_l,
        Constraint::Faw => &mut t.faw,
        Constraint::Wr => &mut t.wr,
        Constraint::WtrS => &mut t.wtr_s,
        Constraint::WtrL => &mut t.wtr_l,
        Constraint::Rtp => &mut t.rtp,
        Constraint::Rtw => &mut t.rtw,
        Constraint::Rtrs => &mut t.rtrs,
        Constraint::Ppd => &mut t.ppd,
        Constraint::Rfc => &mut t.rfc,
        Constraint::RfcPb => &mut t.rfc_pb,
        Constraint::Pbr2Pbr => &mut t.pbr2pbr,
        Constraint::Pbr2Act => &mut t.pbr2act,
        _ => return None,
    };
    *field += 50;
    Some(t)
}

/// tCCD covers the burst in every standard; with a shorter one the data bus itself refuses.
#[test]
fn bursts_never_overlap() {
    let device = device("ddr4-2400");
    let mut t = device.timing;
    (t.ccd_s, t.ccd_l) = (1, 1);
    let before = vec![at(0, Kind::Activate, 0), at(FAR, Kind::Read, 0)];
    let last = at(FAR + u64::from(t.burst), Kind::Read, 0);
    assert_tight(&device, &t, &Scenario { constraint: Constraint::DataBus, before, last, alone: true });
}

/// A write sent after a read of another rank may move its data before the read does: there is room for it or not.
#[test]
fn a_write_slips_in_before_the_data_of_a_read() {
    let device = device("lpddr4-3200");
    let t = device.timing;
    let mut checker = Checker::new(&device.geometry, &t, CheckOptions::default());
    for rank in 0..2 {
        checker.see(in_rank(rank, at(FAR * u64::from(rank), Kind::Activate, 0))).unwrap();
    }
    checker.see(at(9 * FAR, Kind::Read, 0)).unwrap();
    // Data of the write ends, and two cycles later that of the read begins: 28 - 14 - 8 - 2 = 4 cycles after the read.
    let write = |after| in_rank(1, at(9 * FAR + after, Kind::Write, 0));
    assert_eq!(constraints(&checker.violations(write(5))), HashSet::from([Constraint::Rtrs]));
    checker.see(write(4)).unwrap();
}

fn refused(device: &Device, commands: &[Command]) -> Constraint {
    let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions::default());
    let (last, before) = commands.split_last().unwrap();
    for &command in before {
        checker.see(command).unwrap();
    }
    checker.see(*last).unwrap_err().constraint
}

#[test]
fn what_the_banks_state_forbids() {
    use Kind::{Activate, Precharge, PrechargeAll, Read, ReadAuto, Refresh, RefreshBank, RefreshSameBank, Write};
    let ddr4 = device("ddr4-2400");
    let open = at(0, Activate, 0);
    assert_eq!(refused(&ddr4, &[open, at(FAR, Activate, 0)]), Constraint::BankOpen);
    assert_eq!(refused(&ddr4, &[open, at(FAR, Refresh, 0)]), Constraint::BankOpen);
    assert_eq!(refused(&ddr4, &[at(0, Read, 0)]), Constraint::BankClosed);
    assert_eq!(refused(&ddr4, &[open, at(FAR, Write, 1)]), Constraint::BankClosed);
    assert_eq!(refused(&ddr4, &[open, at(FAR, ReadAuto, 0), at(2 * FAR, Read, 0)]), Constraint::BankClosed);
    assert_eq!(refused(&ddr4, &[open, at(FAR, Precharge, 0), at(2 * FAR, Read, 0)]), Constraint::BankClosed);
    assert_eq!(refused(&ddr4, &[open, at(FAR, PrechargeAll, 0), at(2 * FAR, Read, 0)]), Constraint::BankClosed);
    assert_eq!(refused(&ddr4, &[open, in_rank(1, at(FAR, Read, 0))]), Constraint::BankClosed);
    assert_eq!(refused(&ddr4, &[at(FAR, Activate, 0), at(FAR - 1, Activate, 4)]), Constraint::Order);
    // DDR4 refreshes no single banks.
    assert_eq!(refused(&ddr4, &[at(0, RefreshBank, 0)]), Constraint::Place);
    let ddr5 = device("ddr5-4800");
    // Bank 4 * 3 + 1 is the one of number 1 in the fourth group.
    assert_eq!(refused(&ddr5, &[at(0, Activate, 13), at(FAR, RefreshSameBank, 1)]), Constraint::BankOpen);
    let mut checker = Checker::new(&ddr5.geometry, &ddr5.timing, CheckOptions::default());
    checker.see(at(0, Activate, 13)).unwrap();
    checker.see(at(FAR, RefreshSameBank, 2)).unwrap();
    assert_eq!(checker.open_row(RankIndex(0), BankInRank(13)), Some(RowIndex(0)));
    assert_eq!(checker.open_row(RankIndex(0), BankInRank(14)), None);
    assert_eq!(checker.open_row(RankIndex(9), BankInRank(99)), None);
}

#[test]
fn places_that_do_not_exist() {
    let ddr3 = device("ddr3-1600");
    let g = ddr3.geometry;
    let open = at(0, Kind::Activate, 0);
    for wrong in [
        in_rank(2, open),
        at(0, Kind::Activate, 8),
        Command { place: g.rows, ..open },
        at(0, Kind::Refresh, 1),
        Command { place: 1, ..at(0, Kind::Precharge, 0) },
    ] {
        assert_eq!(refused(&ddr3, &[wrong]), Constraint::Place, "{wrong}");
    }
    let read = |place| Command { place, ..at(FAR, Kind::Read, 0) };
    assert_eq!(refused(&ddr3, &[open, read(g.bursts_per_row())]), Constraint::Place);
    let mut checker = Checker::new(&g, &ddr3.timing, CheckOptions::default());
    checker.see(Command { place: g.rows - 1, ..open }).unwrap();
    checker.see(read(g.bursts_per_row() - 1)).unwrap();
}

/// A checker for a device whose window is made short, so that tests need few commands.
fn with_refresh(device: &Device, duty: RefreshCheck) -> Checker {
    Checker::new(&device.geometry, &device.timing, CheckOptions { refresh: Some(duty) })
}

fn refresh_both(checker: &mut Checker, cycle: u64) -> Result<(), Violation> {
    checker.see(at(cycle, Kind::Refresh, 0))?;
    checker.see(in_rank(1, at(cycle + 1, Kind::Refresh, 0)))
}

#[test]
fn refreshes_can_be_put_off_so_far_and_no_further() {
    for (standard, postponed) in [("ddr2-800", 8), ("ddr3-1600", 8), ("ddr4-2400", 8), ("ddr5-4800", 4)] {
        let device = device(standard);
        let duty = RefreshCheck::all_bank(&device);
        let refi = u64::from(device.timing.refi);
        let last_moment = refi * (postponed + 1);
        with_refresh(&device, duty).finish(Cycle(last_moment)).unwrap();
        let late = with_refresh(&device, duty).see(at(last_moment + 1, Kind::Activate, 0)).unwrap_err();
        assert_eq!((late.constraint, late.needed, late.found), (Constraint::Refi, last_moment, last_moment + 1));

        // Both ranks refreshed once: one interval more.
        let mut checker = with_refresh(&device, duty);
        refresh_both(&mut checker, last_moment - 1).unwrap();
        assert_eq!(
            checker.finish(Cycle(last_moment + refi + 1)).unwrap_err().constraint,
            Constraint::Refi,
            "{standard}"
        );
        checker.see(at(last_moment + refi, Kind::Refresh, 0)).unwrap();
        // Rank 1 has waited too long now, whatever rank 0 does.
        let late = checker.see(at(last_moment + refi + FAR, Kind::Refresh, 0)).unwrap_err();
        assert_eq!(late.constraint, Constraint::Refi, "{standard}");

        // Pulled in: as many as can be put off count, the next do not.
        let mut checker = with_refresh(&device, duty);
        for n in 0..postponed + 5 {
            refresh_both(&mut checker, 1 + n * u64::from(device.timing.rfc + 1)).unwrap();
        }
        let intervals = (postponed + 5) * u64::from(device.timing.rfc + 1) / refi;
        checker.finish(Cycle(refi * (2 * postponed + 1))).unwrap();
        let end = checker.finish(Cycle(refi * (2 * postponed + 2 + intervals) + 1)).unwrap_err();
        assert_eq!(end.constraint, Constraint::Refi, "{standard}");
    }
}

/// DDR4 in its 4x mode may put off 32 refreshes, each of a quarter of the interval.
#[test]
fn finer_refreshes_can_be_put_off_as_many_times_more() {
    let device = device("ddr4-2400");
    let duty = RefreshCheck::fine(&device, 4).unwrap();
    let pace = duty.pace.unwrap();
    assert_eq!((duty.commands, pace.interval, pace.postponed_max), (32768, 2340, 32));
    with_refresh(&device, duty).finish(Cycle(33 * 2340)).unwrap();
    with_refresh(&device, duty).finish(Cycle(33 * 2340 + 1)).unwrap_err();
    assert_eq!(RefreshCheck::fine(&device, 3), None);
}

/// Each bank has its own duty: leaving out one of eight is noticed, and so is doing all but one.
#[test]
fn a_bank_left_out_is_noticed() {
    let device = device("lpddr4-3200");
    let duty = RefreshCheck::single_banks(&device).unwrap();
    let interval = u64::from(duty.pace.unwrap().interval);
    for left_out in [None, Some(3)] {
        let mut checker = with_refresh(&device, duty);
        let mut outcome = Ok(());
        for round in 0..20 {
            for bank in (0..8).filter(|&bank| Some(bank) != left_out) {
                for rank in 0..2 {
                    let cycle = round * interval + u64::from(bank) * (interval / 8) + u64::from(rank);
                    outcome = outcome.and_then(|()| checker.see(in_rank(rank, at(cycle, Kind::RefreshBank, bank))));
                }
            }
        }
        assert_eq!(outcome.err().map(|violation| violation.constraint), left_out.map(|_| Constraint::Refi));
    }
    // REFab serves all banks as well.
    let mut checker = with_refresh(&device, duty);
    for round in 0..20 {
        refresh_both(&mut checker, round * interval).unwrap();
    }
    checker.finish(Cycle(20 * interval)).unwrap();
}

/// Every row is reached by `commands` refreshes in a row: they must lie within a window, wherever it begins.
#[test]
fn rows_are_never_older_than_the_window() {
    let device = device("ddr3-1600");
    let duty = RefreshCheck { commands: 3, window: 30_000, slack: 0, pace: None };
    let mut checker = with_refresh(&device, duty);
    for cycle in [5_000, 5_300, 5_600, 35_000] {
        refresh_both(&mut checker, cycle).unwrap();
    }
    checker.finish(Cycle(35_300)).unwrap();
    assert_eq!(checker.finish(Cycle(35_302)).unwrap_err().constraint, Constraint::Retention);
    // Rows of the second refresh, at 5300, are due again at 35300.
    assert_eq!(checker.clone().see(at(35_301, Kind::Refresh, 0)).unwrap_err().constraint, Constraint::Retention);
    checker.see(at(35_300, Kind::Refresh, 0)).unwrap();
    // Rows never refreshed at all.
    assert_eq!(with_refresh(&device, duty).finish(Cycle(30_001)).unwrap_err().constraint, Constraint::Retention);
    let mut checker = with_refresh(&device, duty);
    refresh_both(&mut checker, 10_000).unwrap();
    refresh_both(&mut checker, 20_000).unwrap();
    checker.finish(Cycle(30_000)).unwrap();
    checker.finish(Cycle(30_002)).unwrap_err();
}

/// Draws commands.
struct Drawn(Random);

impl Drawn {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.within(0, limit - 1)
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Any command, mostly to the few banks that get in each other's way; it need not be legal.
    fn command(&mut self, device: &Device, cycle: u64) -> Command {
        use Kind::{
            Activate, Precharge, PrechargeAll, Read, ReadAuto, Refresh, RefreshBank, RefreshSameBank, Write, WriteAuto,
        };
        let single = match device.refresh.bank {
            None => Refresh,
            Some(bank) if bank.same_bank => RefreshSameBank,
            Some(_) => RefreshBank,
        };
        let kind = self.of(&[
            Activate,
            Activate,
            Activate,
            Read,
            Read,
            Write,
            Write,
            ReadAuto,
            WriteAuto,
            Precharge,
            PrechargeAll,
            Refresh,
            single,
        ]);
        let g = &device.geometry;
        let bank = match kind {
            PrechargeAll | Refresh => 0,
            RefreshSameBank => self.below(u64::from(g.banks_per_group)) as u32,
            _ => (self.below(3) as u32 % g.bank_groups) * g.banks_per_group + self.below(2) as u32,
        };
        let place = match kind {
            Activate => self.below(u64::from(g.rows)) as u32,
            Read | ReadAuto | Write | WriteAuto => self.below(u64::from(g.bursts_per_row())) as u32,
            _ => 0,
        };
        Command { cycle: Cycle(cycle), kind, rank: RankIndex(self.below(2) as u32), bank: BankInRank(bank), place }
    }
}

/// A legal sequence, each command in the first cycle that the checker allows; and whether it had to wait for it.
fn earliest_sequence(device: &Device, seed: u64, length: usize) -> Vec<(Command, bool)> {
    let mut random = Drawn(Random::new(seed));
    let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions::default());
    let (mut sequence, mut now) = (Vec::new(), 0);
    while sequence.len() < length {
        let mut command = random.command(device, now);
        let mut waited = false;
        let taken = loop {
            match checker.see(command) {
                Ok(()) => break true,
                Err(violation) if violation.earlier.is_none() => break false,
                Err(_) => (command.cycle, waited) = (command.cycle + 1, true),
            }
        };
        if taken {
            now = command.cycle.0 + 1;
            sequence.push((command, waited));
        }
    }
    sequence
}

fn replay(device: &Device, commands: impl IntoIterator<Item = Command>) -> Result<(), Violation> {
    let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions::default());
    commands.into_iter().try_for_each(|command| checker.see(command))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_legal_sequence_stays_legal_and_a_tight_command_cannot_move(seed: u64, which in 0..STANDARDS.len()) {
        let device = device(STANDARDS[which]);
        let sequence = earliest_sequence(&device, seed, 120);
        prop_assert_eq!(replay(&device, sequence.iter().map(|&(command, _)| command)), Ok(()));
        prop_assert!(sequence.iter().filter(|&&(_, waited)| waited).count() > 20);
        for (index, &(tight, waited)) in sequence.iter().enumerate() {
            if waited && index % 4 == (seed % 4) as usize {
                let early = Command { cycle: tight.cycle.saturating_sub(1), ..tight };
                let before = sequence[..index].iter().map(|&(command, _)| command);
                let refusal = replay(&device, before.chain([early])).unwrap_err();
                prop_assert_eq!(refusal.command, early);
                prop_assert_eq!(refusal.needed, refusal.found + 1);
            }
        }
    }

    /// The second opinion: all pairs of commands, with no memory but the list itself.
    #[test]
    fn it_agrees_with_a_comparison_of_all_pairs(seed: u64, which in 0..STANDARDS.len()) {
        let device = device(STANDARDS[which]);
        let mut random = Drawn(Random::new(seed));
        let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions::default());
        let mut history: Vec<Command> = Vec::new();
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..1500 {
            let stride = random.of(&[2, 12, 60, 900]);
            let now = history.last().map_or(0, |last| last.cycle.0);
            let cycle = now + random.below(stride);
            let command = random.command(&device, cycle);
            let taken = checker.see(command);
            let opinion = pairs::legal(&history, command, &device.geometry, &device.timing);
            prop_assert_eq!(taken.is_ok(), opinion, "{} after {:?}: {:?}", command, history.iter().rev().take(6), taken);
            if taken.is_ok() {
                history.push(command);
                accepted += 1;
            } else {
                refused += 1;
            }
        }
        prop_assert!(accepted > 100 && refused > 100, "{} {}", accepted, refused);
    }

    #[test]
    fn what_is_printed_is_read(seed: u64) {
        let device = device("ddr5-4800");
        let sequence: Vec<Command> = earliest_sequence(&device, seed, 30).into_iter().map(|(command, _)| command).collect();
        let text: String = sequence.iter().map(|command| format!("{command}\n")).collect();
        let read: Result<Vec<Command>, _> = CommandReader::new(text.as_bytes(), "test").collect();
        prop_assert_eq!(read, Ok(sequence));
    }
}

mod pairs {
    //! Distances between two commands, in the words of the standards, for every pair of a trace.
    use super::{Command, Cycle, Geometry, Kind, RankIndex, Timing};

    fn reads(kind: Kind) -> bool {
        kind == Kind::Read || kind == Kind::ReadAuto
    }

    fn writes(kind: Kind) -> bool {
        kind == Kind::Write || kind == Kind::WriteAuto
    }

    fn closes(kind: Kind) -> bool {
        kind == Kind::Precharge || kind == Kind::PrechargeAll
    }

    fn refreshes_some(kind: Kind) -> bool {
        kind == Kind::RefreshBank || kind == Kind::RefreshSameBank
    }

    fn touches(command: Command, bank: u32, g: &Geometry) -> bool {
        match command.kind {
            Kind::Refresh | Kind::PrechargeAll => true,
            Kind::RefreshSameBank => bank % g.banks_per_group == command.bank.0,
            _ => bank == command.bank.0,
        }
    }

    fn share_a_bank(a: Command, b: Command, g: &Geometry) -> bool {
        (0..g.banks_per_rank()).any(|bank| touches(a, bank, g) && touches(b, bank, g))
    }

    fn share_a_group(a: Command, b: Command, g: &Geometry) -> bool {
        let group = |bank: u32| bank / g.banks_per_group;
        let touched =
            |command, wanted| (0..g.banks_per_rank()).any(|bank| touches(command, bank, g) && group(bank) == wanted);
        (0..g.bank_groups).any(|wanted| touched(a, wanted) && touched(b, wanted))
    }

    /// Cycles that `b` must come after `a`.
    fn distance(a: Command, b: Command, g: &Geometry, t: &Timing) -> u32 {
        if a.rank != b.rank {
            return 1;
        }
        let (bank, group) = (share_a_bank(a, b, g), share_a_group(a, b, g));
        let by_group = |l: u32, s: u32| if group { l } else { s };
        let (ka, kb) = (a.kind, b.kind);
        let opens = kb == Kind::Activate || kb == Kind::Refresh || refreshes_some(kb);
        let mut cycles = 1;
        let mut need = |wanted: u32| cycles = cycles.max(wanted);
        if ka == Kind::Refresh {
            need(t.rfc);
        }
        if refreshes_some(ka) {
            if bank {
                need(t.rfc_pb);
            }
            if refreshes_some(kb) {
                need(t.pbr2pbr);
            }
            if kb == Kind::Activate {
                need(t.pbr2act);
            }
        }
        if ka == Kind::Activate {
            if bank && (reads(kb) || writes(kb)) {
                need(t.rcd);
            }
            if bank && closes(kb) {
                need(t.ras);
            }
            if bank && opens {
                need(t.rc);
            }
            if kb == Kind::Activate || refreshes_some(kb) {
                need(by_group(t.rrd_l, t.rrd_s));
            }
        }
        if closes(ka) {
            if bank && opens {
                need(if ka == Kind::Precharge { t.rp } else { t.rp_ab });
            }
            if closes(kb) {
                need(t.ppd);
            }
        }
        if reads(ka) {
            if reads(kb) {
                need(by_group(t.ccd_l, t.ccd_s));
            }
            if writes(kb) {
                need(t.rtw);
            }
            if bank && closes(kb) {
                need(t.rtp);
            }
        }
        if writes(ka) {
            if writes(kb) {
                need(by_group(t.ccd_l_wr, t.ccd_s_wr));
            }
            if reads(kb) {
                need(t.cwl + t.burst + by_group(t.wtr_l, t.wtr_s));
            }
            if bank && closes(kb) {
                need(t.write_to_precharge());
            }
        }
        cycles
    }

    fn data(command: Command, t: &Timing) -> Option<std::ops::Range<Cycle>> {
        let latency = if reads(command.kind) { t.cl } else { t.cwl };
        let start = command.cycle + u64::from(latency);
        (reads(command.kind) || writes(command.kind)).then(|| start..start + u64::from(t.burst))
    }

    fn collide(a: Command, b: Command, t: &Timing) -> bool {
        let (Some(x), Some(y)) = (data(a, t), data(b, t)) else { return false };
        let gap = if a.rank == b.rank { 0 } else { u64::from(t.rtrs) };
        x.start < y.end + gap && y.start < x.end + gap
    }

    /// Is the bank open just before `index`, and if closed by auto precharge, when may it be opened?
    fn state(history: &[Command], rank: RankIndex, bank: u32, g: &Geometry, t: &Timing) -> (bool, Cycle) {
        let (mut open, mut opened, mut ready) = (false, Cycle::ZERO, Cycle::ZERO);
        for &command in history.iter().filter(|command| command.rank == rank && touches(**command, bank, g)) {
            let mut close = |cycles: u32| {
                open = false;
                ready = (command.cycle + u64::from(cycles)).max(opened + u64::from(t.ras)) + u64::from(t.rp);
            };
            match command.kind {
                Kind::Activate => (open, opened) = (true, command.cycle),
                Kind::ReadAuto => close(t.rtp),
                Kind::WriteAuto => close(t.write_to_precharge()),
                kind if closes(kind) => open = false,
                _ => {}
            }
        }
        (open, ready)
    }

    pub(super) fn legal(history: &[Command], command: Command, g: &Geometry, t: &Timing) -> bool {
        let far_enough = |&earlier: &Command| {
            command.cycle >= earlier.cycle + u64::from(distance(earlier, command, g, t))
                && !collide(earlier, command, t)
        };
        let wants_open = reads(command.kind) || writes(command.kind);
        let fits = |bank: u32| {
            let (open, ready) = state(history, command.rank, bank, g, t);
            if wants_open { open } else { closes(command.kind) || (!open && command.cycle >= ready) }
        };
        let same_rank = |&&earlier: &&Command| earlier.kind == Kind::Activate && earlier.rank == command.rank;
        let fourth = history.iter().rev().filter(same_rank).nth(3);
        let four = command.kind != Kind::Activate
            || fourth.is_none_or(|fourth| command.cycle >= fourth.cycle + u64::from(t.faw));
        let mut banks = (0..g.banks_per_rank()).filter(|&bank| touches(command, bank, g));
        history.iter().all(far_enough) && banks.all(fits) && four
    }
}

#[test]
fn lines_that_are_no_commands() {
    let read = |text: &str| CommandReader::new(text.as_bytes(), "run.trace").collect::<Result<Vec<_>, _>>();
    assert_eq!(
        read("# cycles of 1.25 ns\n\n5 ACT 0 3 77\n").unwrap(),
        [Command { place: 77, ..at(5, Kind::Activate, 3) }]
    );
    let long = format!("{} ACT 0 0 0", "1".repeat(300));
    for (text, parts) in [
        ("5 ACT 0 3", &["line 1", "4 words", "five"][..]),
        ("\n5 act 0 3 7", &["line 2", "command", "\"act\"", "REFsb"]),
        ("-5 ACT 0 3 7", &["cycle", "\"-5\"", "2^64"]),
        ("+5 ACT 0 3 7", &["cycle", "\"+5\""]),
        ("5 ACT 0 4294967296 7", &["bank", "4294967296", "2^32"]),
        ("5 ACT x 3 7", &["rank", "\"x\""]),
        ("5 ACT 0 3 7.5", &["row or column", "7.5"]),
        (&long, &["more than 200 bytes"]),
    ] {
        let message = read(text).unwrap_err().to_string();
        for part in ["run.trace"].iter().chain(parts) {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
    // After a line that is no command the next one is read; a line without an end ends the trace.
    let mut reader = CommandReader::new("x\n5 REF 0 0 0\n".as_bytes(), "t");
    assert!(reader.next().unwrap().is_err());
    assert_eq!(reader.next().unwrap().unwrap().kind, Kind::Refresh);
    assert_eq!((reader.line(), reader.next()), (2, None));
    let endless = std::io::BufReader::new(std::fs::File::open("/dev/zero").unwrap());
    assert_eq!(CommandReader::new(endless, "t").filter(Result::is_err).count(), 1);
}
