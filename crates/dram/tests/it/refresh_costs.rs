//! Does each way of refreshing cost what its formula says?

use memtint_dram::replay::{ReplayStats, replay, replay_timed};
use memtint_dram::{
    BankIndex, Controller, ControllerConfig, Cycle, Device, DeviceChoice, PagePolicy, RefreshKind, RefreshPlan,
    Request, RowIndex, Standard, Timing,
};

const DDR4: &str = "ddr4-2400";

fn device(standard: &str) -> Device {
    let choice = DeviceChoice::default();
    Standard::load(standard).unwrap().device(choice).unwrap()
}

fn controller(device: &Device, refresh: &str) -> Controller {
    let plan = RefreshPlan::named(refresh, device).unwrap();
    let config = ControllerConfig { refresh: plan.kind, ..ControllerConfig::default() };
    Controller::new(device.geometry, plan.timing, config).unwrap()
}

fn read(id: u64, bank: u32, row: u32, column: u32) -> Request {
    Request { id, source: 0, write: false, bank: BankIndex(bank), row: RowIndex(row), column }
}

/// Row hits over all bank groups of the first rank, as fast as they are taken.
fn stream(device: &Device, refresh: &str, count: u64) -> ReplayStats {
    let groups = u64::from(device.geometry.bank_groups);
    let step = u64::from(device.geometry.banks_per_group);
    let columns = u64::from(device.geometry.bursts_per_row());
    let request = |index: u64| read(index, (index % groups * step) as u32, 0, (index / groups % columns) as u32);
    replay(&mut controller(device, refresh), (0..count).map(request), 0)
}

/// One request at a time, each to a row of its own, so many cycles apart.
fn paced(device: &Device, refresh: &str, count: u64, period: u64) -> ReplayStats {
    let banks = u64::from(device.geometry.banks_per_rank());
    let request = |index: u64| read(index, (index * 5 % banks) as u32, (index % 1000) as u32, 0);
    replay(&mut controller(device, refresh), (0..count).map(request), period)
}

#[track_caller]
fn assert_near(name: &str, found: f64, expected: f64, percent: f64) {
    assert!((found / expected - 1.0).abs() * 100.0 < percent, "{name}: {found}, the formula says {expected}");
}

/// A stream loses, each time, what lies between the last read before PREA and the first after REF.
#[test]
fn finer_refreshes_cost_a_stream_their_trfc_more_often() {
    let device = device(DDR4);
    let without = stream(&device, "none", 400_000).cycles as f64;
    let share = |name: &str, factor: u32, rfc: u32| {
        let t = device.timing;
        let lost = f64::from(t.rtp + t.rp + rfc + t.rcd);
        let expected = without / (1.0 - lost * f64::from(factor) / f64::from(t.refi));
        let found = stream(&device, name, 400_000).cycles as f64;
        assert_near(name, found, expected, 1.0);
        found
    };
    let rfc = |factor| device.refresh.fine.iter().find(|fine| fine.factor == factor).unwrap().rfc;
    let (one, two, four) =
        (share("all-bank", 1, device.timing.rfc), share("fgr2", 2, rfc(2)), share("fgr4", 4, rfc(4)));
    assert!(one < two && two < four, "finer is dearer in all: {one} {two} {four}");
}

/// What a request waits for at most: the refresh, and its own row.
#[test]
fn finer_refreshes_hold_a_request_up_less() {
    let device = device(DDR4);
    let t = device.timing;
    let own = u64::from(t.rp + t.rcd + t.cl + t.burst);
    // An odd pace, so that requests come at all times within a refresh.
    let longest = |name: &str| paced(&device, name, 60_000, 157).latency.max();
    let bound = |rfc: u32| u64::from(t.rtp + t.rp + rfc) + own;
    let rfc = |factor| device.refresh.fine.iter().find(|fine| fine.factor == factor).unwrap().rfc;
    let found = [longest("all-bank"), longest("fgr2"), longest("fgr4")];
    for (found, rfc) in found.into_iter().zip([t.rfc, rfc(2), rfc(4)]) {
        // Those that wait stand in line afterwards: at most as many as came in the meantime.
        let queue = u64::from(rfc).div_ceil(157) * u64::from(t.rc);
        assert!(found > u64::from(rfc) && found <= bound(rfc) + queue, "{found}, tRFC is {rfc}");
    }
    assert!(found[0] > found[1] && found[1] > found[2], "{found:?}");
    assert_eq!(longest("none"), own, "without refresh");
}

/// Mean wait for refresh of requests that come so rarely that none waits for another, and whose rows close themselves.
fn mean_wait(device: &Device, refresh: &str) -> f64 {
    let mean = |name: &str| {
        let plan = RefreshPlan::named(name, device).unwrap();
        let config =
            ControllerConfig { refresh: plan.kind, page_policy: PagePolicy::Closed, ..ControllerConfig::default() };
        let mut controller = Controller::new(device.geometry, plan.timing, config).unwrap();
        let banks = u64::from(device.geometry.banks_per_rank());
        let request = |index: u64| read(index, (index * 5 % banks) as u32, (index % 1000) as u32, 0);
        replay(&mut controller, (0..60_000).map(request), 2003).latency.mean()
    };
    mean(refresh) - mean("none")
}

/// Once in `every` cycles a bank is closed for `duration`: a request that comes in the meantime waits for half of it on
/// average. One whose row has been opened, but not read, when the refresh falls due begins again after it.
fn expected_wait(t: &Timing, duration: u32, every: u32) -> f64 {
    let meantime = f64::from(duration).powi(2) / 2.0;
    let again = f64::from(t.rcd) * f64::from(t.ras + t.rp + duration);
    (meantime + again) / f64::from(every)
}

#[test]
fn refreshing_all_banks_holds_every_request_up() {
    for standard in [DDR4, "lpddr4-3200", "ddr5-4800"] {
        let device = device(standard);
        let t = device.timing;
        assert_near(standard, mean_wait(&device, "all-bank"), expected_wait(&t, t.rfc, t.refi), 5.0);
    }
}

/// LPDDR4: while one bank is refreshed the others work on. Every bank is refreshed once a tREFI.
#[test]
fn refreshing_bank_by_bank_holds_up_one_bank_only() {
    let device = device("lpddr4-3200");
    let t = device.timing;
    assert_near("wait", mean_wait(&device, "per-bank"), expected_wait(&t, t.rfc_pb, t.refi), 5.0);
    assert!(t.rfc_pb < t.rfc);
}

/// DDR5: REFsb refreshes the same bank of every group, every bank once a tREFI2.
#[test]
fn refreshing_the_same_bank_of_all_groups_lets_the_others_work() {
    let device = device("ddr5-4800");
    let t = device.timing;
    let RefreshKind::SameBank { interval } = RefreshPlan::named("same-bank", &device).unwrap().kind else {
        panic!("another engine");
    };
    assert_near("wait", mean_wait(&device, "same-bank"), expected_wait(&t, t.rfc_pb, interval), 15.0);
    assert!(mean_wait(&device, "same-bank") < mean_wait(&device, "all-bank"));
}

/// Bhat and Mueller: the whole window's refreshes one after the other, then none.
#[test]
fn a_burst_costs_as_much_and_holds_up_much_longer() {
    let device = device(DDR4);
    let RefreshKind::Burst { commands, window } = RefreshPlan::named("burst", &device).unwrap().kind else {
        panic!("another engine");
    };
    let length = u64::from(commands) * u64::from(device.timing.rfc);
    // Half a window of requests that all come after the burst, and one in its middle.
    let requests =
        (0..20_000u64).map(|index| (Cycle(length + 1000 + index * 300), read(index, (index % 16) as u32, 3, 0)));
    let after = replay_timed(&mut controller(&device, "burst"), requests);
    let undisturbed = paced(&device, "none", 20_000, 300).latency.max();
    assert!(after.latency.max() <= undisturbed, "{} {undisturbed}: no refresh is left", after.latency.max());
    let amid = replay_timed(&mut controller(&device, "burst"), [(Cycle(length / 2), read(0, 0, 3, 0))]);
    assert_near("wait in the middle of a burst", amid.latency.max() as f64, length as f64 / 2.0, 1.0);
    assert!(length < window / 4, "there is time for work");
}

/// Stuecheli et al., MICRO 2010: refreshes that are put off until nobody wants the rank hold nobody up.
#[test]
fn an_elastic_engine_refreshes_in_the_gaps() {
    let device = device(DDR4);
    let refi = u64::from(device.timing.refi);
    // Requests for nine tenths of the time of eight intervals, then a gap of as many refreshes.
    let requests = || {
        (0..12u64).flat_map(|round| {
            let start = round * 8 * refi + 100;
            (0..8 * refi * 6 / 10 / 150)
                .map(move |index| (Cycle(start + index * 150), read(index, (index % 16) as u32, index as u32, 0)))
        })
    };
    let slow = |name: &str| {
        let stats = replay_timed(&mut controller(&device, name), requests());
        (stats.latency.mean(), stats.latency.quantile(0.99))
    };
    let (periodic, elastic, none) = (slow("all-bank"), slow("elastic"), slow("none"));
    assert!(elastic.1 < periodic.1, "99th percentile: {elastic:?} {periodic:?}");
    assert!(elastic.0 - none.0 < 0.5 * (periodic.0 - none.0), "means: {elastic:?} {periodic:?} {none:?}");
    // Without gaps nothing can be put off for ever: it costs what the periodic one costs.
    let (busy, periodic) = (stream(&device, "elastic", 400_000), stream(&device, "all-bank", 400_000));
    assert_near("cycles of a stream", busy.cycles as f64, periodic.cycles as f64, 1.0);
}
