//! Is a mapping found behind controllers that send every command, and none where their page policy hides it?

use memtint_dram::{ControllerConfig, PagePolicy};
use memtint_map::Platform;
use memtint_map::gf2::Basis;
use memtint_probe::{Answer, ControllerMachine, Oracle, Pool, Report, Settings, Surroundings, probe};
use memtint_units::PhysAddr;
use memtint_units::Random;

/// Platforms, and the standard of their devices.
const MACHINES: [(&str, &str); 4] = [
    ("haswell-e3-1230", "ddr3-1600"),
    ("skl-e3-1220v5-4x4g", "ddr4-2133"),
    ("zen3-ddr4-2r", "ddr4-3200"),
    ("rpi4-2g", "lpddr4-3200"),
];
const BUSY: Surroundings = Surroundings { other_each: 400, other_lines: 8, leak: 0.01, sigma: 8.0, quantum: 1 };

fn machine(platform: &Platform, standard: &str, page_policy: PagePolicy, around: Surroundings) -> ControllerMachine {
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
    let config = ControllerConfig { page_policy, ..ControllerConfig::default() };
    ControllerMachine::new(platform, standard, config, pool, around, 1).unwrap()
}

fn ask(platform: &Platform, standard: &str, policy: PagePolicy, around: Surroundings) -> Report {
    probe(&mut machine(platform, standard, policy, around), &Settings::default(), &mut |_| {}).unwrap()
}

#[test]
fn conflicts_are_slow_where_rows_stay_open() {
    for (id, standard) in MACHINES {
        let platform = Platform::load(id).unwrap();
        for policy in [PagePolicy::Open, PagePolicy::Closed] {
            let mut machine = machine(&platform, standard, policy, Surroundings::IDLE);
            let mut random = Random::new(3);
            let mut medians = [Vec::new(), Vec::new()];
            for _ in 0..2000 {
                let one = machine.pool().any(&mut random);
                // Near enough to be in the bank now and then.
                let other = PhysAddr(one.0 ^ random.below(1 << 24) & !63);
                if one == other || !machine.pool().contains(other) {
                    continue;
                }
                let mut readings = machine.time(&[one, other], 4).unwrap();
                readings.sort_unstable();
                medians[usize::from(machine.conflicts(one, other))].push(readings[readings.len() / 2]);
            }
            let [apart, conflict] = medians.map(|mut medians| {
                medians.sort_unstable();
                medians[medians.len() / 2]
            });
            assert_eq!(conflict > apart + 40, policy == PagePolicy::Open, "{id}: {apart} and {conflict}");
        }
    }
}

#[test]
fn mappings_are_found_behind_controllers() {
    for (id, standard) in MACHINES {
        let platform = Platform::load(id).unwrap();
        for (around, name) in [(Surroundings::IDLE, "idle"), (BUSY, "busy")] {
            let report = ask(&platform, standard, PagePolicy::Open, around);
            let Answer::Mapping(mapping) = &report.answer else { panic!("{id}, {name}: {report:?}") };
            let [area] = &mapping.areas[..] else { panic!("{id}, {name}: {mapping:?}") };
            let truth = platform.function_masks().iter().map(|mask| mask & area.solution.covered);
            let found = area.solution.functions.iter().copied();
            assert_eq!(Basis::spanning(found), Basis::spanning(truth), "{id}, {name}");
        }
    }
}

#[test]
fn closed_rows_show_nothing() {
    for (id, standard) in MACHINES {
        let platform = Platform::load(id).unwrap();
        for around in [Surroundings::IDLE, BUSY] {
            let report = ask(&platform, standard, PagePolicy::Closed, around);
            assert!(matches!(report.answer, Answer::NoBankSignal(_)), "{id}, {around:?}: {report:?}");
        }
    }
}
