//! Which accesses make the slides' "Reclaim Example" come true? (Yun et al., 2012, "MemGuard", slide "Reclaim Example")
//!
//! Its picture is lost. The text: both cores have a budget of 3. Budgets are decremented at 3 and 4. At 10 (period 1), predictive
//! donation, 4 in all. Core 1 reclaims at 12 and 15, core 0 at 16. At 17, core 1 has no budget left. At 20 (period 2), core 0
//! donates 2, and core 1 nothing.
//!
//! Every sequence of accesses is tried in which at most one core uses memory at a time, the first period has the accesses
//! at 3 and 4 and no other, and the second any at 11 to 19.

use memtint_guard::{Action, Config, Ewma, Group, Kind, LastValue, Linear, Prediction, Reservation, Sharing, Source};

use crate::system::System;

const BUDGET: u32 = 3;
/// The core that uses memory at each time, if any.
type Accesses = [Option<usize>; 20];

fn system(predictor: Prediction, reclaim_step: u32) -> System<Prediction> {
    let group = |core| Group {
        cores: vec![core],
        reservation: Reservation { budget: BUDGET, kind: Kind::Soft },
        quantum: reclaim_step,
        skid: 0,
    };
    let config =
        Config { cores: 2, groups: vec![group(0), group(1)], guaranteed: 100, reclaim_step, sharing: Sharing::Off };
    System::new(config, |_| predictor)
}

/// What the text names, with its time.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    Donates(usize, usize, u32),
    Reclaims(usize, usize),
    Stops(usize, usize),
}

/// Runs a sequence. An access of a core that stands still does not happen: the sequence is another one, `None`.
fn run(accesses: &Accesses, predictor: Prediction, reclaim_step: u32) -> Option<Vec<Named>> {
    let mut system = system(predictor, reclaim_step);
    let mut named = Vec::new();
    let begin = |system: &mut System<Prediction>, time, named: &mut Vec<Named>| {
        system.period_starts();
        named.extend([0, 1].map(|core| Named::Donates(time, core, system.guard.used(core).donated)));
        system.log.clear();
    };
    system.log.clear();
    for (time, &access) in accesses.iter().enumerate() {
        if time == 10 {
            begin(&mut system, time, &mut named);
        }
        let Some(core) = access else { continue };
        if !system.access(core) {
            return None;
        }
        for action in system.log.drain(..) {
            match action {
                Action::Grant { core, source: Source::Pool, .. } => named.push(Named::Reclaims(time, core)),
                // What comes back is granted in quanta: the first is the reclaim.
                Action::Grant { core, source: Source::Donation, events, .. }
                    if system.guard.used(core).returned == events =>
                {
                    named.push(Named::Reclaims(time, core));
                }
                Action::Throttle { core, .. } => named.push(Named::Stops(time, core)),
                _ => {}
            }
        }
    }
    begin(&mut system, 20, &mut named);
    Some(named)
}

fn fits(named: &[Named]) -> bool {
    let donated = |at: usize| {
        [0, 1].map(|of| {
            named.iter().find_map(|named| match *named {
                Named::Donates(time, core, events) if (time, core) == (at, of) => Some(events),
                _ => None,
            })
        })
    };
    let others: Vec<&Named> = named.iter().filter(|named| !matches!(named, Named::Donates(..))).collect();
    let [Some(first), Some(second)] = donated(10) else { return false };
    first + second == 4
        && others == [&Named::Reclaims(12, 1), &Named::Reclaims(15, 1), &Named::Reclaims(16, 0), &Named::Stops(17, 1)]
        && donated(20) == [Some(2), Some(0)]
}

/// All sequences with the accesses at 3 and 4, and any at 11 to 19.
fn sequences() -> impl Iterator<Item = Accesses> {
    (0..4 * 3usize.pow(9)).map(|mut number| {
        let mut accesses = [None; 20];
        for time in [3, 4] {
            accesses[time] = Some(number % 2);
            number /= 2;
        }
        for access in &mut accesses[11..] {
            *access = [None, Some(0), Some(1)][number % 3];
            number /= 3;
        }
        accesses
    })
}

fn fitting(predictor: Prediction, reclaim_step: u32) -> Vec<Accesses> {
    sequences().filter(|accesses| run(accesses, predictor, reclaim_step).is_some_and(|named| fits(&named))).collect()
}

fn predictors() -> [Prediction; 3] {
    [Prediction::LastValue(LastValue::default()), Prediction::Ewma(Ewma::new(1)), Prediction::Linear(Linear::default())]
}

/// Four of 78,732 sequences fit, the same for each predictor, and only if a core reclaims one event at a time: either core may
/// come first at 3 and 4, and core 1 may use the second event of its donation at 13 or at 14.
#[test]
fn four_sequences_fit() {
    assert_eq!(sequences().count(), 78_732);
    let listed = |accesses: &Accesses| {
        let accesses = accesses.iter().enumerate();
        accesses.filter_map(|(time, core)| core.map(|core| (time, core))).collect::<Vec<_>>()
    };
    for predictor in predictors() {
        let mut found: Vec<_> = fitting(predictor, 1).iter().map(listed).collect();
        found.sort();
        let rest = |second| [(12, 1), (second, 1), (15, 1), (16, 0), (17, 1)];
        let with = |first: [(usize, usize); 2], second| [first.to_vec(), rest(second).to_vec()].concat();
        let (zero, one) = ([(3, 0), (4, 1)], [(3, 1), (4, 0)]);
        assert_eq!(found, [with(zero, 13), with(zero, 14), with(one, 13), with(one, 14)], "{predictor:?}");
        for step in [2, 3] {
            assert_eq!(fitting(predictor, step), [[None; 20]; 0], "{predictor:?}");
        }
    }
}

/// One of them, step by step.
#[test]
fn the_example_goes_as_the_slide_has_it() {
    use memtint_guard::ThrottleReason::Exhausted;
    for predictor in predictors() {
        let mut system = system(predictor, 1);
        let grant = |core, source| (core, Some(source));
        let throttle = |core| (core, None);
        // What a core gets, an event at a time; nothing when it is throttled without an underrun.
        let log = |system: &mut System<Prediction>| -> Vec<(usize, Option<Source>)> {
            let short = |action| match action {
                Action::Grant { core, events: 1, source, .. } => (core, Some(source)),
                Action::Throttle { core, reason: Exhausted { shortfall: 0 } } => (core, None),
                other => panic!("{other:?}"),
            };
            system.log.drain(..).map(short).collect()
        };
        let happens = |system: &mut System<Prediction>, core, expected: &[(usize, Option<Source>)]| {
            assert!(system.access(core));
            assert_eq!(log(system), expected);
        };
        // Time 0: budgets of 3, of which the first event is granted.
        assert_eq!(log(&mut system), [0, 1].map(|core| grant(core, Source::Reservation)));
        // 3, 4
        happens(&mut system, 0, &[grant(0, Source::Reservation)]);
        happens(&mut system, 1, &[grant(1, Source::Reservation)]);
        // 10: each has used 1 of 3.
        system.period_starts();
        assert_eq!([0, 1].map(|core| system.guard.used(core).donated), [2, 2]);
        assert_eq!(system.guard.shared().pool(2), 4);
        system.log.clear();
        // 12: core 1 takes its donation back; 13: and uses it; 15: it takes one of core 0's.
        happens(&mut system, 1, &[grant(1, Source::Donation)]);
        assert_eq!(system.guard.shared().pool(2), 2);
        happens(&mut system, 1, &[grant(1, Source::Donation)]);
        happens(&mut system, 1, &[grant(1, Source::Pool)]);
        // 16: core 0 takes back what is left.
        happens(&mut system, 0, &[grant(0, Source::Donation)]);
        assert_eq!(system.guard.shared().pool(2), 0);
        // 17: nothing is left. Core 1 has had more than its budget: no underrun.
        happens(&mut system, 1, &[throttle(1)]);
        assert!(!system.access(1));
        // 20
        system.period_starts();
        assert_eq!([0, 1].map(|core| system.guard.used(core).donated), [2, 0]);
    }
}
