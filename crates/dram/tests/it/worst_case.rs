//! The least that a channel serves: does it serve as much, and hardly more, when every line is in the same bank and another row?

use memtint_dram::replay::replay;
use memtint_dram::{
    BankIndex, Command, Controller, ControllerConfig, Device, DeviceChoice, Kind, RefreshKind, RefreshPlan, Request,
    RowIndex, Standard, WorstCase, cycles_of_slides,
};
use memtint_units::Picoseconds;

fn device(standard: &str) -> Device {
    Standard::load(standard).unwrap().device(DeviceChoice::default()).unwrap()
}

/// Cycles of the reads and writes when the queues are full all the time, each request for another row of the same bank.
fn served(device: &Device, refresh: RefreshKind, write: impl Fn(u64) -> bool) -> Vec<u64> {
    const REQUESTS: u64 = 20_000;
    let config = ControllerConfig { refresh, ..ControllerConfig::default() };
    let mut controller = Controller::with_sink(device.geometry, device.timing, config, Vec::new()).unwrap();
    let rows = device.geometry.rows;
    let request = |id: u64| Request {
        id,
        source: 0,
        write: write(id),
        bank: BankIndex(0),
        row: RowIndex((id % u64::from(rows)) as u32),
        column: 0,
    };
    replay(&mut controller, (0..REQUESTS).map(request), 0);
    let is_data =
        |command: &&Command| matches!(command.kind, Kind::Read | Kind::ReadAuto | Kind::Write | Kind::WriteAuto);
    controller.into_sink().iter().filter(is_data).map(|command| command.cycle.0).collect()
}

/// Every standard, with and without refresh; not in bursts, which take the memory for longer than these runs last.
fn each(mut assert: impl FnMut(&Device, RefreshKind, &WorstCase)) {
    for name in Standard::names() {
        for refresh in RefreshPlan::NAMES {
            let device = device(name);
            // A device does not have each of them.
            let Ok(plan) = RefreshPlan::named(refresh, &device) else { continue };
            if matches!(plan.kind, RefreshKind::Burst { .. }) {
                continue;
            }
            let device = Device { timing: plan.timing, ..device };
            let worst = WorstCase::of(&device, plan.kind, u64::from(device.geometry.burst_bytes()));
            assert(&device, plan.kind, &worst);
        }
    }
}

#[test]
fn a_bank_serves_as_many_lines_as_the_worst_case_says_and_hardly_more() {
    each(|device, refresh, worst| {
        let is_even = |id: u64| id.is_multiple_of(2);
        let patterns: [(&dyn Fn(u64) -> bool, u64); 3] =
            [(&|_| false, worst.read_cycles), (&|_| true, worst.write_cycles), (&is_even, worst.line_cycles())];
        for (write, cycles) in patterns {
            let served = served(device, refresh, write);
            // The queue is full from the beginning up to the last of its entries.
            let served = &served[..served.len() - 64];
            let found = (served[served.len() - 1] - served[0]) as f64 / (served.len() - 1) as f64;
            let share = worst.refresh.map_or(1.0, |refresh| 1.0 - refresh.cycles as f64 / refresh.interval as f64);
            let (least, name) = (cycles as f64 / share, &device.name);
            assert!(found <= least, "{name} {refresh:?}: {found} cycles a line, not {least}");
            assert!(write(0) != write(1) || found >= least * 0.9, "{name} {refresh:?}: {found} cycles, not {least}");
        }
    });
}

/// Wherever a period begins, and whatever refresh falls into it.
#[test]
fn each_stretch_of_time_has_the_lines_of_the_worst_case() {
    each(|device, refresh, worst| {
        let served = served(device, refresh, |_| true);
        for stretch_us in [20, 50, 200] {
            let (stretch, least) =
                (Picoseconds(stretch_us * 1_000_000), worst.lines_in(Picoseconds(stretch_us * 1_000_000)));
            let cycles = device.clock.cycles_within(stretch) as usize;
            let lines = |first: u64| served.partition_point(|&at| at < first + cycles as u64);
            let starts =
                served.iter().enumerate().take_while(|(_, at)| **at + (cycles as u64) < served[served.len() - 64]);
            // The stretch begins right after a line, with the wait for the next.
            let fewest = starts.map(|(index, &at)| lines(at + 1) - index - 1).min().unwrap() as u64;
            assert!(fewest >= least, "{} {refresh:?}: {fewest} lines in {stretch_us} us, not {least}", device.name);
            assert!(least * 100 >= fewest * 70, "{} {refresh:?}: {least} of {fewest} lines are told", device.name);
        }
    });
}

/// PC6400, DDR2-800: the slides calculate 47.5 ns a line, 1.3 GB/s.
#[test]
fn the_slides_leave_out_what_a_bank_needs_beside() {
    let device = device("ddr2-800");
    assert_eq!(cycles_of_slides(&device.timing) * 2500, 47_500);
    let worst = WorstCase::of(&device, RefreshKind::AllBank { staggered: false }, 64);
    assert_eq!((worst.read_cycles * 2500, worst.write_cycles * 2500), (57_500, 60_000));
    let gigabytes = |cycles| worst.bytes_per_second(cycles) / 1e9;
    // Measured: 1.093 and 1.047 GB/s.
    assert!((gigabytes(worst.read_cycles) - 1.086).abs() < 0.001, "{}", gigabytes(worst.read_cycles));
    assert!((gigabytes(worst.write_cycles) - 1.041).abs() < 0.001, "{}", gigabytes(worst.write_cycles));
}
