//! Are ranks refreshed by the timetable, and is a timetable refused that loses rows?

use memtint_dram::{
    BankIndex, CheckOptions, Checker, Command, Controller, ControllerConfig, Cycle, Device, DeviceChoice, DramError,
    Kind, RankIndex, RankTimetable, RefreshCheck, RefreshMet, RefreshWindow, Request, RetentionMonitor, RowIndex,
    Standard, Timetable,
};
use memtint_units::random::at;
use proptest::prelude::*;

/// Chip densities of Table 4.1 with tRFC in nanoseconds; 32 and 64 Gb are lower bounds there.
const TABLE_4_1: [(u32, u64); 7] = [(1, 110), (2, 160), (4, 260), (8, 350), (16, 550), (32, 1000), (64, 2000)];

fn device(density_gbit: u32, ranks: u32) -> Device {
    let choice = DeviceChoice { density_gbit: Some(density_gbit), ranks, ..DeviceChoice::default() };
    Standard::load("ddr3-1600").unwrap().device(choice).unwrap()
}

/// One window of all REF a period for each rank, `turns` windows evenly spread over the period; ranks with the same turn are
/// refreshed in parallel.
fn rotation(device: &Device, turns: u32, jitter: u64, period: u64) -> Vec<RankTimetable> {
    let (ranks, commands) = (device.geometry.ranks, device.refresh.commands);
    let length = Timetable::burst_cycles(device, ranks, commands, jitter);
    let entry = |rank: u32| RankTimetable {
        period,
        phase: period / u64::from(turns) * u64::from(rank * turns / ranks),
        jitter,
        windows: vec![RefreshWindow { start: 0, end: length, commands }],
    };
    (0..ranks).map(entry).collect()
}

/// Runs for some cycles with requests, and gives the commands.
fn run(
    device: &Device,
    timetable: &Timetable,
    end: u64,
    requests: &[(Cycle, Request)],
) -> (Vec<Command>, Vec<RefreshMet>) {
    // No request waits for an entry.
    let config = ControllerConfig { read_queue: 20_000, ..ControllerConfig::default() };
    let engine = timetable.engine();
    let mut controller = Controller::with_engine(device.geometry, device.timing, config, engine, Vec::new()).unwrap();
    for &(cycle, request) in requests {
        while controller.next_cycle() < cycle {
            controller.step(cycle);
        }
        controller.offer(cycle, request);
    }
    while controller.next_cycle() < Cycle(end) {
        controller.step(Cycle(end));
    }
    let met = controller.refresh_met().to_vec();
    (controller.into_sink(), met)
}

fn read(bank: u32, row: u32) -> Request {
    Request { id: 0, source: 0, write: false, bank: BankIndex(bank), row: RowIndex(row), column: 0 }
}

/// Legal by the checker, no row lost by the monitor, every REF within a window of its rank.
fn judge(device: &Device, timetable: &Timetable, commands: &[Command], end: u64) {
    let mut checker = Checker::new(&device.geometry, &device.timing, CheckOptions::default());
    let mut monitor = RetentionMonitor::new(&device.geometry, &RefreshCheck::all_bank(device));
    for &command in commands {
        checker.see(command).unwrap_or_else(|violation| panic!("{violation}"));
        monitor.watch(command);
        if command.kind == Kind::Refresh {
            let over = command.cycle + (u64::from(device.timing.rfc) - 1);
            assert!(timetable.is_locked(command.rank, command.cycle), "{command} outside of its window");
            assert!(timetable.is_locked(command.rank, over), "{command} is not over by the end of its window");
        }
    }
    let found = monitor.finish(Cycle(end));
    assert_eq!(found.losses, 0, "{:?}", found.first);
}

#[test]
fn densities_have_the_refresh_times_of_table_4_1() {
    for (gbit, nanoseconds) in TABLE_4_1 {
        let device = device(gbit, 8);
        assert_eq!(u64::from(device.timing.rfc) * 1250 / 1000, nanoseconds, "{gbit} Gb");
        assert_eq!((device.refresh.commands, device.refresh.window_cycles), (8192, 51_200_000));
    }
}

/// Two colors (CRS), half of tRET apart, with a period of exactly tRET: each density of the table, two periods and a bit.
#[test]
fn both_colors_of_a_refresh_server_are_refreshed_in_full_at_every_density() {
    for (gbit, _) in TABLE_4_1 {
        let device = device(gbit, 8);
        let period = device.refresh.window_cycles;
        let timetable = Timetable::new(&rotation(&device, 2, 0, period), &device, 1).unwrap();
        let end = period * 21 / 10;
        let requests: Vec<(Cycle, Request)> = (0..20_000u64)
            .map(|index| {
                let cycle = Cycle(end / 20_000 * index);
                let color =
                    if timetable.is_locked(RankIndex(0), cycle + 2000) || timetable.is_locked(RankIndex(0), cycle) {
                        1
                    } else {
                        0
                    };
                (cycle, read(color * 32 + at(gbit.into(), index) as u32 % 32, index as u32 % 1000))
            })
            .collect();
        let (commands, met) = run(&device, &timetable, end, &requests);
        judge(&device, &timetable, &commands, end);
        let refreshes = commands.iter().filter(|command| command.kind == Kind::Refresh).count() as u32;
        // Two bursts of each rank; the third of the first color has begun at 2.0 and is over, or not.
        assert!((16 * 8192..=20 * 8192).contains(&refreshes), "{refreshes}");
        assert!(met.iter().all(|&met| met == RefreshMet::default()), "{gbit} Gb: {met:?}");
    }
}

/// Chapter 4: eight colors take turns, a frame of 8 ms each, which at 32 and 64 Gb is too short for a burst (E4 of the
/// errata: 8.19 and 16.38 ms).
#[test]
fn eight_colors_fit_their_frames_up_to_16_gb() {
    for (gbit, _) in TABLE_4_1 {
        let device = device(gbit, 8);
        let period = device.refresh.window_cycles;
        let frame = |rank: u64| RankTimetable {
            period,
            phase: rank * period / 8,
            jitter: 0,
            windows: vec![RefreshWindow { start: 0, end: period / 8, commands: 8192 }],
        };
        let timetable = Timetable::new(&(0..8).map(frame).collect::<Vec<_>>(), &device, 1);
        if gbit >= 32 {
            let error = timetable.unwrap_err();
            let DramError::Timetable { rank: RankIndex(0), window: Some(0), found, needed, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(found, "6400000");
            let closed: u64 = needed.split(' ').next().unwrap().parse().unwrap();
            assert!(
                closed > 8192 * u64::from(device.timing.rfc) && closed < 8193 * u64::from(device.timing.rfc),
                "{error}"
            );
        } else {
            let timetable = timetable.unwrap();
            let end = period * 2;
            let (commands, _) = run(&device, &timetable, end, &[]);
            judge(&device, &timetable, &commands, end);
        }
    }
}

#[track_caller]
fn refused(device: &Device, entries: &[RankTimetable]) -> String {
    Timetable::new(entries, device, 1).unwrap_err().to_string()
}

#[test]
fn a_timetable_that_loses_rows_is_refused_with_rank_window_found_and_needed() {
    let device = device(8, 2);
    let period = device.refresh.window_cycles;
    let good = rotation(&device, 2, 0, period);
    Timetable::new(&good, &device, 1).unwrap();
    let change = |change: &dyn Fn(&mut RankTimetable)| {
        let mut entries = good.clone();
        change(&mut entries[1]);
        entries
    };
    // A burst more than tRET apart by one cycle. The other rank is as it was, but bursts no longer repeat exactly.
    let late = refused(&device, &change(&|rank| rank.period += 1));
    assert!(late.contains("rank 0, window 0: the longest time") && late.contains("at most 51200000 (tRET)"), "{late}");
    let one_less = change(&|rank| rank.windows[0].commands -= 1);
    let lost = refused(&device, &one_less);
    assert!(lost.contains("rank 1, window 0") && lost.contains("51200000"), "{lost}");
    let jitter = change(&|rank| (rank.jitter, rank.windows[0].end) = (5, rank.windows[0].end + 5));
    assert!(
        refused(&device, &jitter).contains("is 51200004; needed is at most 51200000"),
        "{}",
        refused(&device, &jitter)
    );
    let none = refused(&device, &change(&|rank| rank.windows.clear()));
    assert!(none.contains("rank 1: the number of REF commands in a period is 0; needed is 1 or more"), "{none}");
    let short = refused(&device, &change(&|rank| rank.windows[0].end -= 1));
    assert!(short.contains("rank 1, window 0: its length in cycles"), "{short}");
    let across = refused(&device, &change(&|rank| rank.phase = rank.period - 10));
    assert!(across.contains("rank 1, window 0: its place in cycles"), "{across}");
    let twice = refused(&device, &change(&|rank| rank.windows.push(rank.windows[0])));
    assert!(twice.contains("rank 1, window 1: its start in cycles"), "{twice}");
}

/// A shorter period leaves room for jitter, and the windows of a rank may share its commands.
#[test]
fn jitter_and_divided_bursts_lose_nothing() {
    let device = device(4, 4);
    let allowed = device.refresh.window_cycles;
    let jitter = 40_000;
    let period = allowed - 50_000;
    let commands = device.refresh.commands / 4;
    let length = Timetable::burst_cycles(&device, 4, commands, jitter);
    let entry = |rank: u64| RankTimetable {
        period,
        phase: rank * length,
        jitter,
        windows: (0..4)
            .map(|turn| turn * (period / 4))
            .map(|start| RefreshWindow { start, end: start + length, commands })
            .collect(),
    };
    let entries: Vec<RankTimetable> = (0..4).map(entry).collect();
    let timetable = Timetable::new(&entries, &device, 7).unwrap();
    let end = period * 3;
    let (commands, _) = run(&device, &timetable, end, &[]);
    judge(&device, &timetable, &commands, end);
    let first = |period_at: u64| {
        commands.iter().find(|command| command.rank == RankIndex(2) && command.cycle >= Cycle(period_at * period))
    };
    let late: Vec<u64> = (0..3).map(|at| first(at).unwrap().cycle - Cycle(at * period)).collect();
    assert!(late[0] != late[1] || late[1] != late[2], "bursts begin at times of their own: {late:?}");
    assert_eq!(commands, run(&device, &Timetable::new(&entries, &device, 7).unwrap(), end, &[]).0, "the same again");
    assert_ne!(commands, run(&device, &Timetable::new(&entries, &device, 8).unwrap(), end, &[]).0);
}

/// Requests to a locked rank are counted, each in one place; those of other ranks do not notice.
#[test]
fn requests_that_meet_a_refresh_are_counted() {
    let device = device(8, 2);
    let period = device.refresh.window_cycles;
    let entries = rotation(&device, 2, 0, period);
    let timetable = Timetable::new(&entries, &device, 1).unwrap();
    let length = entries[0].windows[0].end;
    // Rank 0 is locked from 0; rank 1 from the middle of the period on.
    let middle = period / 2;
    let mut requests: Vec<(Cycle, Request)> =
        (0..10u64).map(|index| (Cycle(1000 + 100 * index), read(8 + index as u32 % 8, 5))).collect();
    requests.extend((0..5u64).map(|index| (Cycle(length - 500 + index), read(index as u32, 5))));
    // As many as a bank cannot serve in time.
    requests.extend((0..12u64).map(|index| (Cycle(middle - 12 + index), read(8, 100 + index as u32))));
    requests.push((Cycle(middle + 3), read(9, 1)));
    let (_, met) = run(&device, &timetable, period, &requests);
    assert_eq!(met[0], RefreshMet { ordinary: 0, locked: 5, caught: 0 });
    assert_eq!((met[1].ordinary, met[1].locked), (0, 1));
    assert!((10..=12).contains(&met[1].caught), "{met:?}");
}

/// The closed formula of chapter 4: n ranks that are refreshed one after the other hold up 1/n of requests that are spread
/// evenly over the ranks, for the share of time that bursts take; nobody is held up who keeps away.
#[test]
fn the_share_of_requests_that_meet_a_burst_is_what_the_timetable_says() {
    for (gbit, turns) in [(2, 4), (8, 4), (8, 2), (8, 1)] {
        let device = device(gbit, 4);
        let period = device.refresh.window_cycles;
        let entries = rotation(&device, turns, 0, period);
        let timetable = Timetable::new(&entries, &device, 1).unwrap();
        let share = entries[0].windows[0].end as f64 / period as f64;
        let count = 40_000u64;
        let requests: Vec<(Cycle, Request)> = (0..count)
            .map(|index| {
                // Low discrepancy in time and rank.
                let cycle = Cycle(period / count * index);
                (cycle, read(index as u32 * 5 % 4 * 8 + index as u32 / 4 % 8, index as u32 % 100))
            })
            .collect();
        let (_, met) = run(&device, &timetable, period, &requests);
        let locked: u64 = met.iter().map(|met| met.locked).sum();
        let expected = share * count as f64;
        assert!((locked as f64 / expected - 1.0).abs() < 0.01, "{gbit} Gb, {turns}: {locked}, expected {expected}");
        // What keeps away from locked ranks meets none.
        let keeps_away = |(cycle, request): &(Cycle, Request)| {
            let rank = RankIndex(request.bank.0 / 8);
            !timetable.is_locked(rank, *cycle) && !timetable.is_locked(rank, *cycle + 4000)
        };
        let away: Vec<(Cycle, Request)> = requests.into_iter().filter(keeps_away).collect();
        let (_, met) = run(&device, &timetable, period, &away);
        assert!(met.iter().all(|&met| met == RefreshMet::default()), "{met:?}");
        assert!(away.len() as f64 > (1.0 - share) * count as f64 * 0.98);
    }
}

/// One refresh each tREFI holds up the requests that arrive while it lasts: their share is (tRFC + tRP) / tREFI, and a
/// request whose row was just being opened besides.
#[test]
fn ordinary_refresh_is_met_by_the_share_that_it_takes() {
    for (gbit, _) in TABLE_4_1 {
        let device = device(gbit, 1);
        let t = device.timing;
        let mut controller = Controller::new(device.geometry, t, ControllerConfig::default()).unwrap();
        let count = 30_000u64;
        for index in 0..count {
            let cycle = Cycle(index * 2003);
            while controller.next_cycle() < cycle {
                controller.step(cycle);
            }
            // Of three sources, one in three steps.
            let request = Request { source: (index % 3) as u16, ..read(index as u32 % 8, index as u32 % 1000) };
            controller.offer(cycle, request);
        }
        let met = controller.refresh_met()[0];
        assert_eq!((met.locked, met.caught), (0, 0));
        let sources = controller.refresh_met_by_source();
        assert_eq!((sources.len(), sources.iter().sum::<u64>()), (3, met.ordinary), "{sources:?}");
        let third = met.ordinary as f64 / 3.0;
        assert!(sources.iter().all(|&met| (met as f64 / third - 1.0).abs() < 0.2), "{gbit} Gb: {sources:?}");
        let waits = f64::from(t.rp + t.rcd);
        let expected = (f64::from(t.rfc + t.rp) + waits) / f64::from(t.refi) * count as f64;
        let found = met.ordinary as f64;
        assert!((found / expected - 1.0).abs() < 0.1, "{gbit} Gb: {found}, expected {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the traffic, and whoever ignores the locks: every timetable that is accepted refreshes every row in time.
    #[test]
    fn no_timetable_that_is_accepted_loses_a_row(
        gbit in prop::sample::select(vec![1u32, 4, 8, 16]),
        ranks in 1u32..5,
        phases in prop::collection::vec(0u64..40_000_000, 4),
        windows in 1u64..5,
        spare in 0u64..200_000,
        jitter in 0u64..100_000,
        seed: u64,
    ) {
        let device = device(gbit, ranks);
        let period = device.refresh.window_cycles - spare;
        let commands = device.refresh.commands.div_ceil(windows as u32);
        let length = Timetable::burst_cycles(&device, ranks, commands, jitter);
        let entries: Vec<RankTimetable> = (0..ranks as usize).map(|rank| RankTimetable {
            period,
            phase: phases[rank],
            jitter,
            windows: (0..windows).map(|at| RefreshWindow { start: at * length, end: (at + 1) * length, commands }).collect(),
        }).collect();
        let Ok(timetable) = Timetable::new(&entries, &device, seed) else { return Ok(()) };
        let end = period * 5 / 2;
        let requests: Vec<(Cycle, Request)> = (0..6000u64).map(|index| {
            let random = at(seed, index);
            let write = random & 3 == 0;
            let bank = (random >> 8) as u32 % device.geometry.banks();
            (Cycle(end / 6000 * index + random % 97), Request { write, ..read(bank, (random >> 32) as u32 % 2000) })
        }).collect();
        let (commands, _) = run(&device, &timetable, end, &requests);
        judge(&device, &timetable, &commands, end);
    }
}
