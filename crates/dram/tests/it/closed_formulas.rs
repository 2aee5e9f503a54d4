//! Is the simulated channel as fast as arithmetic says?

use memtint_dram::replay::{ReplayStats, replay};
use memtint_dram::{
    BankIndex, Controller, ControllerConfig, Cycle, Device, DeviceChoice, NEVER, PagePolicy, RefreshKind, Request,
    RowIndex, Scheduler, Standard, Timing,
};
use memtint_units::random::at;

/// DDR4-2400 (17-17-17), 8 Gb x8, four groups of four banks.
fn device() -> Device {
    Standard::load("ddr4-2400").unwrap().device(DeviceChoice::default()).unwrap()
}

fn timing() -> Timing {
    device().timing
}

fn config() -> ControllerConfig {
    ControllerConfig { refresh: RefreshKind::None, ..ControllerConfig::default() }
}

fn read(id: u64, bank: u32, row: u32, column: u32) -> Request {
    Request { id, source: 0, write: false, bank: BankIndex(bank), row: RowIndex(row), column }
}

fn run(config: ControllerConfig, period: u64, requests: impl IntoIterator<Item = Request>) -> ReplayStats {
    let mut controller = Controller::new(device().geometry, timing(), config).unwrap();
    replay(&mut controller, requests, period)
}

fn assert_within_a_percent(name: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{name}: {found}, the formula says {expected}");
}

#[test]
fn a_lone_request_takes_cl_rcd_rp() {
    let t = timing();
    let first = run(config(), 1000, [read(0, 3, 7, 0)]);
    assert_eq!(first.latency.max(), u64::from(t.rcd + t.cl + t.burst), "closed bank");
    let hit = run(config(), 1000, [read(0, 3, 7, 0), read(1, 3, 7, 9)]);
    assert_eq!(hit.latency.min(), u64::from(t.cl + t.burst), "row hit");
    let conflict = run(config(), 1000, [read(0, 3, 7, 0), read(1, 3, 8, 0)]);
    assert_eq!(conflict.latency.max(), u64::from(t.rp + t.rcd + t.cl + t.burst), "row conflict");
    let closed = ControllerConfig { page_policy: PagePolicy::Closed, ..config() };
    let after = run(closed, 1000, [read(0, 3, 7, 0), read(1, 3, 8, 0)]);
    assert_eq!((after.latency.min(), after.conflicts), (u64::from(t.rcd + t.cl + t.burst), 0), "closed page");
    let timeout = ControllerConfig { page_policy: PagePolicy::Timeout(100), ..config() };
    let after = run(timeout, 1000, [read(0, 3, 7, 0), read(1, 3, 7, 1)]);
    assert_eq!((after.latency.min(), after.misses), (u64::from(t.rcd + t.cl + t.burst), 2), "timeout");
    let soon = run(timeout, 90, [read(0, 3, 7, 0), read(1, 3, 7, 1)]);
    assert_eq!((soon.hits, soon.misses), (1, 1), "before the timeout");
}

#[test]
fn row_hits_over_all_groups_fill_the_bus() {
    const COUNT: u64 = 100_000;
    let requests = (0..COUNT).map(|index| read(index, (index % 4 * 4) as u32, 0, (index / 4 % 128) as u32));
    let stats = run(config(), 0, requests);
    assert_within_a_percent("cycles", stats.cycles as f64, (COUNT * u64::from(timing().burst)) as f64);
}

#[test]
fn row_hits_in_one_group_are_ccd_l_apart() {
    const COUNT: u64 = 100_000;
    let stats = run(config(), 0, (0..COUNT).map(|index| read(index, 0, 0, (index % 128) as u32)));
    assert_within_a_percent("cycles", stats.cycles as f64, (COUNT * u64::from(timing().ccd_l)) as f64);
}

#[test]
fn conflicts_in_one_bank_are_rc_apart() {
    const COUNT: u64 = 20_000;
    let stats = run(config(), 0, (0..COUNT).map(|index| read(index, 5, (index % 60_000) as u32, 0)));
    assert_within_a_percent("cycles", stats.cycles as f64, (COUNT * u64::from(timing().rc)) as f64);
    assert_eq!(stats.conflicts, COUNT - 1);
}

/// With a queue deep enough that every bank always has work, random rows are bound by tFAW alone. Rows close themselves:
/// an explicit PRE now and then takes the cycle in which an ACT was due, which costs another percent.
#[test]
fn random_banks_are_bound_by_the_activate_window() {
    const COUNT: u64 = 200_000;
    let deep = ControllerConfig { read_queue: 512, page_policy: PagePolicy::Closed, ..config() };
    let request = |index| {
        let random = at(1, index);
        read(index, (random % 16) as u32, (random >> 8 & 0xffff) as u32, 0)
    };
    let stats = run(deep, 0, (0..COUNT).map(request));
    assert_within_a_percent("cycles", stats.cycles as f64, COUNT as f64 * f64::from(timing().faw) / 4.0);
}

/// A stream loses tRP + tRFC and the reopening of its row of every tREFI.
#[test]
fn refresh_takes_its_share_of_the_bandwidth() {
    const COUNT: u64 = 400_000;
    let t = timing();
    let requests = || (0..COUNT).map(|index| read(index, (index % 4 * 4) as u32, 0, (index / 4 % 128) as u32));
    let refreshed = ControllerConfig { refresh: RefreshKind::AllBank { staggered: false }, ..config() };
    let (with, without) = (run(refreshed, 0, requests()), run(config(), 0, requests()));
    // From the last read before PREA to the first after REF, instead of one burst.
    let lost = f64::from(t.rtp + t.rp + t.rfc + t.rcd);
    let expected = without.cycles as f64 / (1.0 - lost / f64::from(t.refi));
    assert_within_a_percent("cycles", with.cycles as f64, expected);
}

#[test]
fn a_cap_lets_conflicts_through() {
    // One requester hits a row for ever, another wants a different row once.
    let hits = |count: u64| (0..count).map(|index| read(index, 0, 1, (index % 128) as u32));
    let victim = read(9999, 0, 2, 0);
    let requests = || hits(8).chain([victim]).chain(hits(200));
    let served_at = |scheduler| {
        let mut controller =
            Controller::new(device().geometry, timing(), ControllerConfig { scheduler, ..config() }).unwrap();
        let mut order = Vec::new();
        let mut cycle = Cycle::ZERO;
        for request in requests() {
            while !controller.has_room(false, BankIndex(0)) {
                if let memtint_dram::Step::Done(done) = controller.step(NEVER) {
                    order.push(done.id);
                    cycle = done.issued + 1;
                }
            }
            controller.offer(cycle, request);
        }
        while controller.waiting()[0] > 0 {
            if let memtint_dram::Step::Done(done) = controller.step(NEVER) {
                order.push(done.id);
            }
        }
        order.iter().position(|&id| id == 9999).unwrap()
    };
    assert_eq!(served_at(Scheduler::Fcfs), 8);
    assert_eq!(served_at(Scheduler::FrFcfs { cap: Some(16) }), 16);
    assert_eq!(served_at(Scheduler::FrFcfs { cap: None }), 208);
}

/// Whoever writes as fast as writes are drained must not stop those who read.
#[test]
fn writes_without_end_do_not_stop_reads() {
    let mut controller = Controller::new(device().geometry, timing(), config()).unwrap();
    let (mut cycle, mut next_write, mut longest) = (Cycle::ZERO, 0u32, 0);
    for id in 0..100 {
        controller.offer(cycle, read(id, 15, id as u32, 0));
        loop {
            // Every free entry is taken by a write to a row of its own.
            while controller.has_room(true, BankIndex(next_write % 8)) {
                let (bank, row) = (next_write % 8, next_write / 8 % 60_000);
                controller.offer(cycle, Request { write: true, ..read(u64::from(next_write), bank, row, 0) });
                next_write += 1;
            }
            if let memtint_dram::Step::Done(done) = controller.step(NEVER) {
                cycle = done.issued + 1;
                if !done.write {
                    longest = longest.max(done.done - done.arrival);
                    break;
                }
            }
        }
    }
    // A batch of 26 writes, each its own row of one of eight banks, and then some.
    assert!(longest < 26 * u64::from(timing().rc), "a read waited {longest} cycles");
}
