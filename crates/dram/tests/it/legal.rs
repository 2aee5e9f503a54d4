//! Is every command that a controller sends legal? The checker shares no code with it.

use memtint_dram::replay::replay;
use memtint_dram::{
    BankIndex, CheckOptions, Checker, Command, Controller, ControllerConfig, Device, DeviceChoice, PagePolicy,
    QueueSharing, RefreshKind, RefreshPlan, Request, RowIndex, Scheduler, Standard,
};
use memtint_units::random::at;
use proptest::prelude::*;

/// What a run depends on.
#[derive(Clone, Debug)]
struct Case {
    standard: &'static str,
    ranks: u32,
    config: ControllerConfig,
    refresh: &'static str,
    requests: u64,
    period: u64,
    seed: u64,
    /// Requests come from so many sources, and go to so many banks, rows and columns.
    spread: (u16, u32, u32, u32),
    write_percent: u64,
}

impl Case {
    fn requests(&self, device: &Device) -> impl Iterator<Item = Request> + use<> {
        let (seed, write_percent, (sources, banks, rows, columns)) = (self.seed, self.write_percent, self.spread);
        let geometry = device.geometry;
        (0..self.requests).map(move |id| {
            let random = at(seed, id);
            // Banks far apart, so that few banks are in several ranks and groups.
            let bank = (random % u64::from(banks)) as u32 * 5 % geometry.banks();
            Request {
                id,
                source: (random >> 56) as u16 % sources,
                write: random >> 40 & 0xffff < write_percent * 65536 / 100,
                bank: BankIndex(bank),
                row: RowIndex((random >> 8) as u32 % rows),
                column: (random >> 24) as u32 % columns.min(geometry.bursts_per_row()),
            }
        })
    }

    /// Whether the standard has what the case asks for.
    fn check(&self) -> bool {
        let standard = Standard::load(self.standard).unwrap();
        let device = standard.device(DeviceChoice { ranks: self.ranks, ..DeviceChoice::default() }).unwrap();
        let Ok(RefreshPlan { kind, timing, duty }) = RefreshPlan::named(self.refresh, &device) else { return false };
        let mut config = ControllerConfig { refresh: kind, ..self.config };
        if config.sharing == QueueSharing::PerBank {
            config.read_queue *= device.geometry.banks();
            config.write_queue *= device.geometry.banks();
        }
        let controller = Controller::with_sink(device.geometry, timing, config, Vec::<Command>::new());
        let mut controller = controller.unwrap_or_else(|error| panic!("{error}"));
        let stats = replay(&mut controller, self.requests(&device), self.period);
        let mut checker = Checker::new(&device.geometry, &timing, CheckOptions { refresh: duty });
        let (mut activates, mut accesses) = (0, 0);
        for command in controller.sink() {
            checker.see(*command).unwrap_or_else(|violation| panic!("{violation}"));
            activates += u64::from(command.kind.name() == "ACT");
            accesses += u64::from(matches!(command.kind.name(), "RD" | "RDA" | "WR" | "WRA"));
        }
        assert_eq!(stats.hits + stats.misses + stats.conflicts, accesses, "requests and accesses");
        assert!(activates > 0 || accesses == 0);
        true
    }
}

fn configs() -> impl Strategy<Value = ControllerConfig> {
    let schedulers = prop_oneof![
        Just(Scheduler::Fcfs),
        Just(Scheduler::FrFcfs { cap: None }),
        (1u32..20).prop_map(|cap| Scheduler::FrFcfs { cap: Some(cap) }),
        (1u32..8).prop_map(|marking_cap| Scheduler::ParBs { marking_cap }),
    ];
    let page_policies =
        prop_oneof![Just(PagePolicy::Open), Just(PagePolicy::Closed), (0u32..300).prop_map(PagePolicy::Timeout)];
    let sharing = prop_oneof![3 => Just(QueueSharing::Shared), 1 => Just(QueueSharing::PerBank)];
    (1u32..40, 1u32..40, 0u32..100, 0u32..100, schedulers, page_policies, sharing).prop_map(
        |(read_queue, write_queue, at, to, scheduler, page_policy, sharing)| {
            let drain_at = 1 + (write_queue - 1) * at / 100;
            let drain_to = drain_at * to / 100;
            let refresh = RefreshKind::None;
            ControllerConfig { read_queue, write_queue, sharing, drain_at, drain_to, scheduler, page_policy, refresh }
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let names: Vec<&'static str> = Standard::names().collect();
    let period = prop_oneof![2 => Just(0u64), 1 => 1u64..12, 1 => 12u64..400];
    let spread = (1u16..5, 1u32..65, 1u32..12, 1u32..128);
    let what = (prop::sample::select(names), 1u32..=4, configs(), prop::sample::select(&RefreshPlan::NAMES[..]));
    (what, 1u64..3000, period, any::<u64>(), spread, 0u64..=100).prop_map(
        |((standard, ranks, config, refresh), requests, period, seed, spread, write_percent)| Case {
            standard,
            ranks,
            config,
            refresh,
            requests,
            period,
            seed,
            spread,
            write_percent,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_command_is_legal(case in cases()) {
        prop_assume!(case.check());
    }
}

/// Long enough for many refreshes, on every standard with every engine it has.
#[test]
fn refreshes_come_in_time() {
    let mut checked = 0;
    for standard in Standard::names() {
        for refresh in RefreshPlan::NAMES {
            for (period, write_percent) in [(0, 40), (90, 0)] {
                let case = Case {
                    standard,
                    ranks: 2,
                    config: ControllerConfig::default(),
                    refresh,
                    requests: 10_000,
                    period,
                    seed: 7,
                    spread: (1, 64, 4096, 64),
                    write_percent,
                };
                checked += u32::from(case.check());
            }
        }
    }
    // Five everywhere; finer granularities and single banks where the standard has them.
    assert!(checked > 2 * 5 * Standard::names().len() as u32, "{checked} combinations");
}
