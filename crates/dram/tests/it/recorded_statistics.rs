//! Do we agree with the simulators that researchers use today, where they agree with each other?
//!
//! The recorded statistics are those of Ramulator 2.1 (commit c5b1c3a) and DRAMsim3 (2981759) on the same device, address
//! mapping and replay rule: DDR3-1600 (11-11-11), 4 Gb x8, one rank, eight banks, row above bank above column.
//! What is compared: single requests without refresh to the cycle; with refresh on average; saturated in total.
//! DRAMsim3's latencies hold one cycle more, in which a request moves to its bank's queue.

use memtint_dram::replay::{ReplayStats, replay};
use memtint_dram::{BankIndex, Controller, ControllerConfig, DeviceChoice, RefreshKind, Request, RowIndex, Standard};
use memtint_units::random::at;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Trace {
    Stream,
    Random,
}

fn run(trace: Trace, requests: u64, period: u64, refresh: bool) -> ReplayStats {
    let refresh = if refresh { RefreshKind::AllBank { staggered: false } } else { RefreshKind::None };
    let config = ControllerConfig { refresh, ..ControllerConfig::default() };
    // `standards.rs` holds this device to the recorded configuration.
    let choice = DeviceChoice { density_gbit: Some(4), device_bits: Some(8), ranks: 1 };
    let device = Standard::load("ddr3-1600").unwrap().device(choice).unwrap();
    let mut controller = Controller::new(device.geometry, device.timing, config).unwrap();
    let request = |index: u64| {
        let line = match trace {
            Trace::Stream => index,
            Trace::Random => at(0x5EED_0000_0000_00A1, index) % (1 << 26),
        };
        Request {
            id: index,
            source: 0,
            write: false,
            column: (line & 0x7f) as u32,
            bank: BankIndex((line >> 7 & 7) as u32),
            row: RowIndex((line >> 10 & 0xffff) as u32),
        }
    };
    replay(&mut controller, (0..requests).map(request), period)
}

/// Trace, requests, period; then of each peer: total cycles, average, minimum, median, 99th percentile, maximum.
type Row = (Trace, u64, u64, [f64; 6], [f64; 6]);

/// Latencies of DRAMsim3 without its extra cycle.
const PACED_WITHOUT_REFRESH: [Row; 4] = [
    (Trace::Random, 200_000, 20, [4_000_019., 40.71, 15., 37., 76., 169.], [4_000_018., 40.71, 15., 37., 75., 169.]),
    (Trace::Random, 50_000, 100, [4_999_939., 37.00, 15., 37., 37., 37.], [4_999_938., 37.00, 15., 37., 37., 37.]),
    (Trace::Stream, 200_000, 20, [3_999_997., 15.22, 15., 15., 21., 37.], [3_999_996., 15.22, 15., 15., 21., 37.]),
    (Trace::Stream, 50_000, 100, [4_999_917., 15.17, 15., 15., 15., 37.], [4_999_916., 15.17, 15., 15., 15., 37.]),
];

const PACED_WITH_REFRESH: [Row; 4] = [
    (Trace::Random, 200_000, 20, [4_000_199., 48.75, 15., 37., 268., 394.], [4_000_188., 47.39, 15., 37., 236., 324.]),
    (Trace::Random, 50_000, 100, [4_999_939., 41.22, 15., 37., 216., 294.], [4_999_938., 40.10, 15., 37., 184., 244.]),
    (Trace::Stream, 200_000, 20, [4_000_116., 20.82, 15., 15., 206., 254.], [4_000_113., 20.70, 15., 15., 196., 244.]),
    (Trace::Stream, 50_000, 100, [4_999_917., 19.79, 15., 15., 185., 245.], [4_999_916., 19.77, 15., 15., 184., 244.]),
];

#[test]
fn lone_requests_agree_to_the_cycle() {
    for (trace, requests, period, _, [cycles, mean, min, median, p99, max]) in PACED_WITHOUT_REFRESH {
        let stats = run(trace, requests, period, false);
        let name = format!("{trace:?}, one each {period} cycles");
        assert_eq!(stats.cycles, cycles as u64, "{name}: total");
        assert_eq!((stats.latency.mean() * 100.0).round() / 100.0, mean, "{name}: mean");
        assert_eq!(stats.latency.min(), min as u64, "{name}: least");
        assert_eq!(stats.latency.quantile(0.5), median as u64, "{name}: median");
        assert_eq!(stats.latency.quantile(0.99), p99 as u64, "{name}: 99th percentile");
        assert_eq!(stats.latency.max(), max as u64, "{name}: greatest");
    }
}

/// The peers differ by up to 3 % here (one closes banks one by one before a refresh, the other all at once but stalls
/// the whole channel): ours must lie between them, or within 2 % of the nearer.
#[test]
fn refresh_costs_what_it_costs_elsewhere() {
    for (trace, requests, period, first, second) in PACED_WITH_REFRESH {
        let stats = run(trace, requests, period, true);
        let name = format!("{trace:?}, one each {period} cycles");
        assert_near(&format!("{name}: mean"), stats.latency.mean(), first[1], second[1], 0.02);
        assert_near(&format!("{name}: total"), stats.cycles as f64, first[0], second[0], 0.0001);
        assert_eq!((stats.latency.min(), stats.latency.quantile(0.5)), (first[2] as u64, first[3] as u64), "{name}");
    }
}

#[test]
fn full_queues_take_as_long_as_elsewhere() {
    for (trace, first, second) in
        [(Trace::Stream, 8_314_620.0, 8_309_528.0), (Trace::Random, 12_634_020.0, 12_577_222.0)]
    {
        let stats = run(trace, 2_000_000, 0, true);
        assert_near(&format!("{trace:?}, saturated: total"), stats.cycles as f64, first, second, 0.0);
        assert_eq!(stats.hits + stats.misses + stats.conflicts, 2_000_000);
    }
}

/// Between two values, or within a share of the nearer.
fn assert_near(name: &str, found: f64, one: f64, other: f64, share: f64) {
    let (low, high) = (one.min(other) * (1.0 - share), one.max(other) * (1.0 + share));
    assert!((low..=high).contains(&found), "{name}: {found} is not within {low} to {high}");
}
