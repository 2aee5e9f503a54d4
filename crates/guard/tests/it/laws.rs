//! Do the laws hold for sixteen cores, in groups, with large budgets, whatever comes after what?

use memtint_guard::{
    Action, Config, Event, Ewma, Group, Guard, Kind, LastValue, Linear, Prediction, Reservation, Sharing,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::witness::{Step, Witness};

const CORES: usize = 16;

fn reservation() -> impl Strategy<Value = Reservation> {
    (1..200u32, prop_oneof![Just(Kind::Hard), Just(Kind::Soft)]).prop_map(|(budget, kind)| Reservation { budget, kind })
}

/// Consecutive cores, in groups of one to three; some cores are in none.
fn system() -> impl Strategy<Value = Config> {
    let group = (1..4usize, reservation(), 8..40u32, 0..10u32, any::<bool>());
    let sharing = prop_oneof![Just(Sharing::Off), Just(Sharing::Spare), Just(Sharing::Proportional)];
    (prop::collection::vec(group, 1..CORES), 1..8u32, sharing).prop_map(|(parts, reclaim_step, sharing)| {
        let mut next = 0;
        let mut groups = Vec::new();
        for (size, reservation, quantum, skid, regulated) in parts {
            let cores: Vec<usize> = (next..CORES.min(next + size)).collect();
            next += cores.len();
            if regulated && !cores.is_empty() {
                groups.push(Group { cores, reservation, quantum, skid });
            }
        }
        Config { cores: CORES, groups, guaranteed: 1 << 20, reclaim_step, sharing }
    })
}

fn predictor() -> impl Strategy<Value = Prediction> {
    prop_oneof![
        Just(Prediction::LastValue(LastValue::default())),
        (1..5u32).prop_map(|shift| Prediction::Ewma(Ewma::new(shift))),
        Just(Prediction::Linear(Linear::default())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sixteen_cores_in_any_order(
        config in system(),
        predictor in predictor(),
        reads_counters in any::<bool>(),
        choices in prop::collection::vec((0..100u32, any::<Index>(), reservation()), 1..600),
    ) {
        let groups = config.groups.len();
        let mut witness = Witness::new(config, |_| predictor).expect("a sound system");
        witness.reads_counters = reads_counters;
        // All begin busy and in period 1: the first steps would be little else.
        for core in 0..CORES {
            witness.take(Step::On(Event::Busy { core }));
            witness.take(Step::On(Event::PeriodStart { core, period: 1, unused: 0 }));
        }
        for (kind, index, reservation) in choices {
            let core = index.index(CORES);
            let step = match kind {
                0 if groups > 0 => Step::Reserve(index.index(groups), reservation),
                1 if witness.guard.config().groups.iter().any(|group| group.cores.contains(&core)) => {
                    witness.regulation(core)
                }
                _ => {
                    let mut possible = witness.possible(u32::MAX - 1);
                    // Mostly, grants are consumed.
                    let consumes = |step: &Step| matches!(step, Step::On(Event::Consumed { .. }));
                    if kind > 20 && possible.iter().any(consumes) {
                        possible.retain(consumes);
                    }
                    possible[index.index(possible.len())]
                }
            };
            witness.take(step);
        }
    }

    /// The bound of the reservation rule, in events that the core really uses between two period boundaries: each overflow is
    /// served late, by up to the skid, and a boundary too, but before the grant is consumed.
    #[test]
    fn a_core_uses_at_most_b_and_q_and_s_in_a_period(
        budget in 1..300u32,
        quantum in 1..100u32,
        skid in 0..20u32,
        periods in prop::collection::vec((any::<Index>(), 0..600u32, any::<Index>()), 1..50),
    ) {
        let group = Group { cores: vec![0], reservation: Reservation { budget, kind: Kind::Hard }, quantum, skid };
        let guaranteed = budget + quantum + skid;
        let config = Config { cores: 1, groups: vec![group], guaranteed, reclaim_step: 1, sharing: Sharing::Off };
        let mut guard = Guard::new(config, |_| LastValue::default()).expect("a sound system");
        let mut actions = Vec::new();
        guard.on(Event::Busy { core: 0 }, &mut actions);
        // The core's grant, and how much it has used when that is consumed; none while it is throttled.
        let mut granted: Option<(u32, u32)> = None;
        let mut used = 0;
        for (period, (late, wanted, slow)) in (1..).zip(periods) {
            // Use is counted from the boundary on.
            let left = granted.map_or(0, |(_, end)| end.saturating_sub(used));
            used = late.index(left as usize + 1) as u32;
            guard.on(Event::PeriodStart { core: 0, period, unused: left - used }, &mut actions);
            let mut end = used;
            loop {
                for action in actions.drain(..) {
                    granted = match action {
                        Action::Grant { grant, events, .. } => Some((grant, end + events)),
                        _ => None,
                    };
                }
                let Some((grant, granted_end)) = granted else { break };
                end = granted_end;
                if end > wanted {
                    used = used.max(wanted);
                    break;
                }
                used = used.max(end + slow.index(skid as usize + 1) as u32);
                guard.on(Event::Consumed { core: 0, grant }, &mut actions);
            }
            prop_assert!(used <= guaranteed, "{used} in period {period}");
        }
    }
}

/// A group that is expected to use nothing keeps one event: its first access alone does not take its donation back.
#[test]
fn an_idle_group_keeps_one_event() {
    let group =
        Group { cores: vec![0], reservation: Reservation { budget: 10, kind: Kind::Soft }, quantum: 5, skid: 0 };
    let config = Config { cores: 1, groups: vec![group], guaranteed: 15, reclaim_step: 1, sharing: Sharing::Off };
    let mut guard = Guard::new(config, |_| LastValue::default()).expect("a sound system");
    let mut actions = Vec::new();
    for period in 1..3 {
        guard.on(Event::PeriodStart { core: 0, period, unused: 0 }, &mut actions);
    }
    assert_eq!((guard.used(0).donated, guard.shared().pool(2)), (9, 9));
    guard.on(Event::Busy { core: 0 }, &mut actions);
    assert_eq!(guard.shared().pool(2), 9);
    guard.on(Event::Consumed { core: 0, grant: 1 }, &mut actions);
    assert_eq!(guard.shared().pool(2), 0);
}
