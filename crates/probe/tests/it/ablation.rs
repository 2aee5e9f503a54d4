//! Does each step of the search do something, and do those that answers rest on do what they are there for?

use memtint_map::file::RegionSection;
use memtint_map::{Platform, mapfile};
use memtint_probe::{Noise, Pool, Settings, SimulatedMachine, Step, Verdict, judge, probe};
use memtint_units::ByteSize;

const BIASED: Noise = Noise { bias: 15.0, ..Noise::QUIET };
const CLOSED: Noise = Noise { gap: 0.0, level: 60.0, ..Noise::QUIET };

/// So many bytes, of which those that the hole hides are above the others.
fn moved(bytes: u64, hole: u64) -> Platform {
    let four = 4 << 30;
    let functions: Vec<u64> =
        (14..18).map(|bit| 1 << bit | 1 << (bit + 4)).map(|mask: u64| mask | mask << 11).collect();
    let mut file = mapfile::to_platform_file("moved", &functions, bytes, "a test");
    let region = |base, size, inside| RegionSection {
        base: ByteSize(base),
        size: ByteSize(size),
        node: 0,
        dram_base: Some(ByteSize(inside)),
        interleave: None,
        assumed: true,
        source: "a test".to_owned(),
    };
    file.region = vec![region(0, four - hole, 0), region(four, bytes - four, four), region(bytes, hole, four - hole)];
    Platform::from_file(file, "moved").unwrap()
}

fn probed(id: &str, noise: Noise, seed: u64, without: Option<Step>) -> (Verdict, u64) {
    probed_of(Platform::load(id).unwrap(), noise, seed, without)
}

fn probed_of(platform: Platform, noise: Noise, seed: u64, without: Option<Step>) -> (Verdict, u64) {
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64).unwrap();
    let mut machine = SimulatedMachine::new(platform, pool, noise, !seed).unwrap();
    let report = probe(&mut machine, &Settings { seed, without, ..Settings::default() }, &mut |_| {}).unwrap();
    (judge(&machine, &report.answer), report.effort.accesses)
}

#[test]
fn a_bias_of_pairs_is_found_through_elsewhere() {
    for seed in 1..=3 {
        let of = |without| probed("haswell-e3-1230", BIASED, seed, without).0;
        assert_eq!((of(None), of(Some(Step::Translations))), (Verdict::Right, Verdict::Refused), "{seed}");
    }
}

#[test]
fn moved_memory_and_channels_in_turn_need_steps_of_their_own() {
    for (id, step) in [("zen3-ddr4-2r-full", Step::Blocks), ("skx-open-3ch1r", Step::Turns)] {
        let of = |without| probed(id, Noise::QUIET, 1, without).0;
        assert_eq!((of(None), of(Some(step))), (Verdict::Right, Verdict::Refused), "{id}");
    }
}

#[test]
fn what_is_no_memory_is_told_by_sanity_alone() {
    for seed in 1..=3 {
        let of = |without| probed("haswell-e3-1230", CLOSED, seed, without).0;
        assert_eq!((of(None), of(Some(Step::Sanity))), (Verdict::Refused, Verdict::Wrong), "{seed}");
    }
}

#[test]
fn without_predictions_answers_are_wrong() {
    // A fortieth of memory is moved into the hole below 4 GiB, and a third of that is where no linear mapping has it.
    let moved = moved(32 << 30, 0x3000_0000);
    let wrong = |without| {
        let wrong = |&seed: &u64| probed_of(moved.clone(), Noise::TYPICAL, seed, without).0 == Verdict::Wrong;
        (1..=4).filter(wrong).count()
    };
    assert_eq!(wrong(None), 0);
    assert!(wrong(Some(Step::Predictions)) > 0);
    assert!(wrong(Some(Step::Everywhere)) > 0);
}

#[test]
fn each_step_that_is_left_out_is_left_out() {
    let noisy = ("haswell-e3-1230", Noise::NOISY);
    let moved = ("zen3-ddr4-2r-full", Noise::QUIET);
    for step in Step::ALL {
        let (id, noise) = match step {
            Step::Translations => ("haswell-e3-1230", BIASED),
            Step::Contrary | Step::Splits | Step::Blocks => moved,
            Step::Turns | Step::Retry => ("skx-open-3ch1r", Noise::QUIET),
            Step::Sanity => ("haswell-e3-1230", CLOSED),
            Step::Baseline | Step::Doubt | Step::Controls | Step::Predictions | Step::Everywhere => noisy,
        };
        let differs = |seed| probed(id, noise, seed, Some(step)) != probed(id, noise, seed, None);
        assert!((1..=3).any(differs), "{step:?}");
    }
}
