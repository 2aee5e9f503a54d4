//! Does the controller that jumps from command to command do what one does that looks at everything in every cycle?

use memtint_dram::reference::{self, Reference};
use memtint_dram::replay::replay;
use memtint_dram::{
    BankIndex, Command, Controller, ControllerConfig, DeviceChoice, Geometry, PagePolicy, RefreshKind, Request,
    RowIndex, Scheduler, Standard, Timing,
};
use memtint_units::random::at;
use proptest::prelude::*;

/// What a run depends on.
#[derive(Clone, Debug)]
struct Case {
    standard: &'static str,
    ranks: u32,
    config: ControllerConfig,
    requests: u64,
    period: u64,
    seed: u64,
    /// Requests go to so many banks, rows and columns.
    spread: (u32, u32, u32),
    write_percent: u64,
    /// tREFI in percent of the standard's, so that short runs meet refreshes.
    refresh_interval_percent: u32,
}

impl Case {
    fn device(&self) -> (Geometry, Timing) {
        let standard = Standard::load(self.standard).unwrap();
        let device = standard.device(DeviceChoice { ranks: self.ranks, ..DeviceChoice::default() }).unwrap();
        let refi = (device.timing.refi * self.refresh_interval_percent / 100).max(2 * device.timing.rfc);
        (device.geometry, Timing { refi, ..device.timing })
    }

    fn requests(&self, geometry: Geometry) -> impl Iterator<Item = Request> {
        let (seed, write_percent, (banks, rows, columns)) = (self.seed, self.write_percent, self.spread);
        (0..self.requests).map(move |id| {
            let random = at(seed, id);
            // Banks far apart, so that few banks are in several ranks and groups.
            let bank = (random % u64::from(banks)) as u32 * 5 % geometry.banks();
            Request {
                id,
                source: 0,
                write: random >> 40 & 0xffff < write_percent * 65536 / 100,
                bank: BankIndex(bank),
                row: RowIndex((random >> 8) as u32 % rows),
                column: (random >> 24) as u32 % columns.min(geometry.bursts_per_row()),
            }
        })
    }

    fn check(&self) {
        let (geometry, timing) = self.device();
        let mut fast = Controller::with_sink(geometry, timing, self.config, Vec::<Command>::new()).unwrap();
        let mut slow = Reference::new(geometry, timing, self.config, Vec::<Command>::new()).unwrap();
        let fast_stats = replay(&mut fast, self.requests(geometry), self.period);
        let slow_stats = reference::replay(&mut slow, self.requests(geometry), self.period);
        let (fast, slow) = (fast.into_sink(), slow.into_sink());
        if let Some(at) = (0..fast.len().max(slow.len())).find(|&at| fast.get(at) != slow.get(at)) {
            let around = |commands: &[Command]| {
                let near = &commands[at.saturating_sub(8).min(commands.len())..(at + 3).min(commands.len())];
                near.iter().map(|command| format!("\n  {command}")).collect::<String>()
            };
            panic!("command {at} differs\nController:{}\nReference:{}", around(&fast), around(&slow));
        }
        assert_eq!(fast_stats, slow_stats);
        assert_eq!(fast_stats.requests, self.requests);
    }
}

fn schedulers() -> impl Strategy<Value = Scheduler> {
    prop_oneof![
        Just(Scheduler::Fcfs),
        Just(Scheduler::FrFcfs { cap: None }),
        (1u32..20).prop_map(|cap| Scheduler::FrFcfs { cap: Some(cap) }),
    ]
}

fn page_policies() -> impl Strategy<Value = PagePolicy> {
    prop_oneof![
        2 => Just(PagePolicy::Open),
        1 => Just(PagePolicy::Closed),
        1 => (0u32..300).prop_map(PagePolicy::Timeout),
    ]
}

fn configs() -> impl Strategy<Value = ControllerConfig> {
    let refresh = prop_oneof![
        1 => Just(RefreshKind::None),
        3 => any::<bool>().prop_map(|staggered| RefreshKind::AllBank { staggered }),
    ];
    let queues = (1u32..40, 1u32..40, 0u32..100, 0u32..100);
    (queues, schedulers(), page_policies(), refresh).prop_map(
        |((read_queue, write_queue, at, to), scheduler, page_policy, refresh)| {
            let drain_at = 1 + (write_queue - 1) * at / 100;
            let drain_to = drain_at * to / 100;
            ControllerConfig {
                read_queue,
                write_queue,
                drain_at,
                drain_to,
                scheduler,
                page_policy,
                refresh,
                ..ControllerConfig::default()
            }
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let standards =
        prop_oneof![Just("ddr3-1600"), Just("ddr4-2400"), Just("ddr4-3200"), Just("ddr2-800"), Just("ddr3-1066")];
    let period = prop_oneof![2 => Just(0u64), 1 => 1u64..12, 1 => 12u64..200];
    let spread = (1u32..33, 1u32..12, 1u32..128);
    (standards, 1u32..=2, configs(), 1u64..600, period, any::<u64>(), spread, 0u64..=100, 10u32..=100).prop_map(
        |(standard, ranks, config, requests, period, seed, spread, write_percent, refresh_interval_percent)| Case {
            standard,
            ranks,
            config,
            requests,
            period,
            seed,
            spread,
            write_percent,
            refresh_interval_percent,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn both_send_the_same_commands(case in cases()) {
        case.check();
    }
}

/// The traces that simulators are compared with, saturated.
#[test]
fn the_shared_traces_give_the_same_commands() {
    for (standard, ranks, write_percent) in [("ddr3-1600", 1, 0), ("ddr4-2400", 1, 33), ("ddr4-2400", 2, 33)] {
        let case = Case {
            standard,
            ranks,
            config: ControllerConfig::default(),
            requests: 20_000,
            period: 0,
            seed: 0x5EED_0000_0000_00A1,
            spread: (32, 65_536, 128),
            write_percent,
            refresh_interval_percent: 100,
        };
        case.check();
    }
}
