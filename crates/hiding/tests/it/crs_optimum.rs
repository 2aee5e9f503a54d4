//! Is what the optimizer finds the best of all that the judge proves, refresh phases included?

use memtint_hiding::crs::{
    Admission, Inner, Kind, Optimum, Refresh, Space, exhaustive, judge, optimize, saturated_hiding, server_proofs,
};
use memtint_sched::{Effort, TaskSet, TaskSpec, Verdict};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;
use num_bigint::BigUint;
use num_rational::Ratio;

const EVENTS_MAX: u64 = 10_000;
const PROOF: Admission = Admission::Proof { events_max: EVENTS_MAX };

fn random_tasks(random: &mut Random, round: u64) -> TaskSet {
    let count = random.within(2, 3);
    let heavy = random.within(5, 10);
    let tasks = (0..count).map(|index| {
        let period = random.within(6, 30);
        let wcet = random.within(1, (period * heavy / (10 * count)).max(1));
        let mut spec = TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet))
            .deadline(Ps(random.within(wcet.max(period * 2 / 3), period)));
        // Patterns say nothing of these.
        if round.is_multiple_of(7) && index == 0 {
            spec.jitter = Ps(1);
        }
        spec
    });
    TaskSet::new(tasks.collect::<Vec<_>>()).unwrap()
}

fn random_space(random: &mut Random, round: u64) -> Space {
    let retention = [24, 32, 48][random.within(0, 2) as usize];
    let burst = Ps(random.within(1, 4));
    let (lock, unlock) = (Ps(random.within(0, 1)), Ps(random.within(0, 1)));
    let refresh = Refresh { lock, unlock, ..Refresh::two_colors(2, Ps(retention), burst) };
    let phases = vec![
        [Ps(retention / 2), Ps(0)],
        [Ps(random.within(6, 9)), Ps(0)],
        [Ps(random.within(0, 2)), Ps(random.within(8, 14))],
    ];
    let inner = if round.is_multiple_of(2) { Inner::Edf } else { Inner::RateMonotonic };
    let kind = if round % 4 < 2 { Kind::Deferrable } else { Kind::IdleConsuming };
    Space::new(2, refresh, phases, Ps(1), Ps(random.within(3, 5)), kind, inner).unwrap()
}

fn cost(found: Option<&Optimum>) -> Option<&Ratio<BigUint>> {
    found.map(|best| &best.unhidden)
}

#[test]
fn nothing_that_is_proved_costs_less() {
    let mut random = Random::new(4);
    // By inner scheduler and kind of server.
    let (mut cheaper, mut only, mut same, mut none) = ([0; 4], [0; 4], [0; 4], [0; 4]);
    for round in 0..80 {
        let (tasks, space) = (random_tasks(&mut random, round), random_space(&mut random, round));
        let way = (round % 4) as usize;
        let given: Vec<bool> = (0..tasks.tasks().len()).map(|task| task % 2 == 1).collect();
        let second = (round % 3 == 0).then_some(&given[..]);
        let all = exhaustive(&tasks, second, &space, PROOF, Effort::default()).unwrap();
        let quick = optimize(&tasks, second, &space, PROOF, Effort::default()).unwrap();
        assert_eq!(cost(quick.as_ref()), cost(all.as_ref()), "round {round}: {tasks:?} {space:?}\n{quick:?}\n{all:?}");
        let by_supply = optimize(&tasks, second, &space, Admission::Supply, Effort::default()).unwrap();
        let Some(best) = quick else {
            none[way] += 1;
            assert!(by_supply.is_none());
            continue;
        };
        let system = space.system(&tasks, &best.choice).unwrap();
        assert!(server_proofs(&system, Effort::default(), EVENTS_MAX).iter().flatten().all(Result::is_ok));
        let verdict = judge(&system, Effort::default(), EVENTS_MAX).unwrap();
        assert!(matches!(verdict, Verdict::Schedulable(_)), "round {round}: {tasks:?} {space:?} {verdict:?}");
        let (hiding, span) = saturated_hiding(&system, 0, 10_000).unwrap();
        let lost = hiding.iter().map(|own| BigUint::from(own.unhidden.0)).sum::<BigUint>();
        assert_eq!(best.unhidden, Ratio::new(lost, span.0.into()));
        match cost(by_supply.as_ref()) {
            None => only[way] += 1,
            Some(supply) if best.unhidden < *supply => cheaper[way] += 1,
            Some(supply) => {
                assert_eq!(best.unhidden, *supply);
                same[way] += 1;
            }
        }
    }
    println!("cheaper {cheaper:?}, only {only:?}, same {same:?}, none {none:?}");
    for way in 0..4 {
        assert!(cheaper[way] > 0 && only[way] > 0 && same[way] > 0 && none[way] > 0, "way {way}");
    }
}
