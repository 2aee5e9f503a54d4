//! Does any way of refreshing lose rows? The monitor shares no code with the engines.

use memtint_dram::{
    BankInRank, BankIndex, Command, Controller, ControllerConfig, Cycle, Device, DeviceChoice, Kind, RankIndex,
    RefreshCheck, RefreshPlan, Request, Retention, RetentionMonitor, RowIndex, Standard,
};
use memtint_units::random::at;

fn device(standard: &str, density_gbit: Option<u32>) -> Device {
    let choice = DeviceChoice { ranks: 2, density_gbit, ..DeviceChoice::default() };
    Standard::load(standard).unwrap().device(choice).unwrap()
}

/// A bit more than two retention windows, in each thousandth of which a few requests come close together.
fn watched(device: &Device, refresh: &str) -> Retention {
    let plan = RefreshPlan::named(refresh, device).unwrap();
    let duty = plan.duty.unwrap_or_else(|| RefreshCheck::all_bank(device));
    let config = ControllerConfig { refresh: plan.kind, ..ControllerConfig::default() };
    let monitor = RetentionMonitor::new(&device.geometry, &duty);
    let mut controller = Controller::with_sink(device.geometry, plan.timing, config, monitor).unwrap();
    let end = device.refresh.window_cycles * 22 / 10;
    for round in 0..2200 {
        for index in 0..20 {
            let random = at(round, index);
            let cycle = Cycle(end / 2200 * round + random % 2000 / 20 + index * 100);
            while controller.next_cycle() < cycle {
                controller.step(cycle);
            }
            let bank = (random >> 16) as u32 % device.geometry.banks();
            let (row, column) = ((random >> 32) as u32 % device.geometry.rows, 0);
            controller.offer(
                cycle,
                Request { id: 0, source: 0, write: random & 1 == 1, bank: BankIndex(bank), row: RowIndex(row), column },
            );
        }
    }
    while controller.next_cycle() < Cycle(end) {
        controller.step(Cycle(end));
    }
    controller.into_sink().finish(Cycle(end))
}

#[test]
fn no_engine_loses_a_row_but_the_one_that_refreshes_none() {
    for standard in ["ddr2-800", "ddr3-1600", "ddr4-2400", "ddr5-4800", "lpddr4-3200"] {
        let device = device(standard, None);
        let mut engines = 0;
        for name in RefreshPlan::NAMES {
            if RefreshPlan::named(name, &device).is_err() {
                continue;
            }
            engines += 1;
            let Retention { longest, losses, first } = watched(&device, name);
            if name == "none" {
                let first = first.expect("rows are lost");
                assert_eq!((first.since, first.needed), (Cycle::ZERO, device.refresh.window_cycles), "{first}");
                let bins = u64::from(device.geometry.banks() * device.refresh.commands);
                assert_eq!(losses, bins, "{standard}: every bin of every bank");
            } else {
                assert_eq!((losses, first), (0, None), "{standard}, {name}");
                // Nor is the window wasted: what is refreshed far too often costs more than it has to.
                assert!(
                    longest.iter().all(|&cycles| cycles > device.refresh.window_cycles * 98 / 100),
                    "{name}: {longest:?}"
                );
            }
        }
        assert!(engines >= 5, "{standard}");
    }
}

fn refresh(cycle: u64) -> Command {
    Command { cycle: Cycle(cycle), kind: Kind::Refresh, rank: RankIndex(0), bank: BankInRank(0), place: 0 }
}

/// One REF too late, one left out, and one that is only late for the standard, not for the rows.
#[test]
fn the_monitor_sees_one_refresh_that_comes_a_cycle_late() {
    let device = Standard::load("ddr3-1600").unwrap().device(DeviceChoice::default()).unwrap();
    let (interval, commands) = (u64::from(device.refresh.interval), u64::from(device.refresh.commands));
    let allowed = device.refresh.window_cycles;
    let duty = RefreshCheck::all_bank(&device);
    let losses = |change: &dyn Fn(u64) -> Option<u64>| {
        let mut monitor = RetentionMonitor::new(&device.geometry, &duty);
        let times = (0..3 * commands).filter_map(|index| change(index).map(|late| (index + 1) * interval + late));
        times.for_each(|cycle| monitor.watch(refresh(cycle)));
        monitor.finish(Cycle(3 * commands * interval))
    };
    let spare = allowed - commands * interval;
    assert_eq!(losses(&|_| Some(0)).losses, 0);
    assert_eq!(losses(&|index| Some(if index == 9000 { spare } else { 0 })).losses, 0, "as late as can be");
    let late = losses(&|index| Some(if index == 9000 { spare + 1 } else { 0 }));
    let first = late.first.unwrap();
    assert_eq!((late.losses, first.bin, first.found, first.needed), (8, 9000 - 8192, allowed + 1, allowed));
    // One that is left out shifts all bins after it: the rows are refreshed an interval later than they would have been.
    let left_out = losses(&|index| (index != 9000).then_some(0));
    assert_eq!(left_out.losses, 0, "an interval is less than what 8192 of them leave of 64 ms");
    let many = losses(&|index| (!(9000..9014).contains(&index)).then_some(0));
    assert!(many.losses > 8 * 8000, "{many:?}");
}
