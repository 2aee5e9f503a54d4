//! Does each step of the search do something, and do those that answers rest on do what they are there for?

use memtint_map::Platform;
use memtint_probe::{Noise, Pool, Settings, SimulatedMachine, Step, Verdict, judge, probe};

const BIASED: Noise = Noise { bias: 15.0, ..Noise::QUIET };
const CLOSED: Noise = Noise { gap: 0.0, level: 60.0, ..Noise::QUIET };

fn probed(id: &str, noise: Noise, seed: u64, without: Option<Step>) -> (Verdict, u64) {
    let platform = Platform::load(id).unwrap();
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
    // Pairs that are not in one bank are slower by chance than others that are.
    let noise = Noise { bias: 40.0, ..Noise::QUIET };
    let wrong = |without| {
        let wrong = |&seed: &u64| probed("haswell-e3-1230", noise, seed, without).0 == Verdict::Wrong;
        (1..=8).filter(wrong).count()
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
            Step::Turns | Step::Patience | Step::Retry => ("skx-open-3ch1r", Noise::QUIET),
            Step::Sanity => ("haswell-e3-1230", CLOSED),
            Step::Baseline | Step::Doubt | Step::Settling | Step::Predictions | Step::Everywhere => noisy,
        };
        let differs = |seed| probed(id, noise, seed, Some(step)) != probed(id, noise, seed, None);
        assert!((1..=3).any(differs), "{step:?}");
    }
}
