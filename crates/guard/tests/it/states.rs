//! Do the laws hold in every state that can be reached, whatever comes after what?
//!
//! Each event is one step; what happens between the exchanges within a step is in `orders`.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use memtint_guard::{Config, Group, Kind, LastValue, Reservation, Sharing};

use crate::witness::{Step, Witness};

/// What changes besides the course of events.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Whether core 0 is regulated.
    Regulated,
    /// Whether the first group is hard or soft.
    Kind,
    /// Nothing.
    None,
}

#[derive(Default)]
struct Found {
    states: usize,
    underruns: usize,
    shared: usize,
}

impl Found {
    fn print(&self) {
        let Found { states, shared, underruns } = self;
        println!(
            "{states} distinct states, {shared} of them in best-effort sharing; {underruns} steps with an underrun"
        );
    }
}

/// Two independent hashes: two of 10^8 states are taken for one with a probability of 10^-22.
fn fingerprint(state: &impl Hash) -> [u64; 2] {
    [0u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        (salt, state).hash(&mut hasher);
        hasher.finish()
    })
}

/// Visits every state of a system within two periods.
fn visit(config: &Config, change: Change, found: &mut Found) {
    let start = Witness::new(config.clone(), |_| LastValue::default()).expect("a sound system");
    let mut seen = HashSet::from([fingerprint(&start)]);
    let mut left = vec![start];
    while let Some(state) = left.pop() {
        let mut steps = state.possible(2);
        match change {
            Change::Regulated => steps.push(state.regulation(0)),
            Change::Kind => {
                let budget = config.groups[0].reservation.budget;
                steps.extend([Kind::Hard, Kind::Soft].map(|kind| Step::Reserve(0, Reservation { budget, kind })));
            }
            Change::None => {}
        }
        for step in steps {
            let mut next = state.clone();
            next.take(step);
            found.underruns += usize::from(next.underruns > 0);
            if seen.insert(fingerprint(&next)) {
                found.shared += usize::from((0..config.cores).any(|core| next.guard.core(core).is_sharing()));
                left.push(next);
            }
        }
    }
    found.states += seen.len();
}

/// Groups by their cores, with budgets in quanta of one event.
fn system(groups: &[(&[usize], u32, Kind)], sharing: Sharing) -> Config {
    let group = |&(cores, budget, kind): &(&[usize], u32, Kind)| Group {
        cores: cores.to_vec(),
        reservation: Reservation { budget, kind },
        quantum: 1,
        skid: 0,
    };
    Config { cores: 3, groups: groups.iter().map(group).collect(), guaranteed: 100, reclaim_step: 1, sharing }
}

fn visit_all(systems: impl IntoIterator<Item = (Config, Change)>) -> Found {
    let mut found = Found::default();
    for (config, change) in systems {
        visit(&config, change, &mut found);
    }
    found.print();
    found
}

const SINGLE: [&[usize]; 3] = [&[0], &[1], &[2]];

#[test]
fn three_cores_in_any_order() {
    use Kind::{Hard, Soft};
    let of = |budgets: [u32; 3], kinds: [Kind; 3], sharing| {
        let groups: Vec<_> = (0..3).map(|core| (SINGLE[core], budgets[core], kinds[core])).collect();
        system(&groups, sharing)
    };
    let found = visit_all([
        (of([3, 2, 1], [Soft, Soft, Soft], Sharing::Spare), Change::None),
        (of([2, 2, 1], [Soft, Soft, Hard], Sharing::Spare), Change::Regulated),
        (of([2, 1, 1], [Soft, Soft, Soft], Sharing::Spare), Change::Kind),
        (of([3, 3, 3], [Soft, Hard, Soft], Sharing::Off), Change::None),
        (of([2, 2, 2], [Hard, Soft, Soft], Sharing::Proportional), Change::None),
        (system(&[(&[0, 1], 3, Soft), (&[2], 2, Soft)], Sharing::Spare), Change::None),
    ]);
    assert!(found.states >= 1_000_000, "{}", found.states);
    assert!(found.underruns > 0 && found.shared > 0, "nothing was shown");
}

/// Budgets of one to three quanta, hard or soft, each way of sharing, each change. What differs only in the order of cores 1
/// and 2 is visited once.
#[test]
#[ignore = "takes long: make prove"]
fn every_system_of_three_cores_in_any_order() {
    let reservation = |index: usize| (1 + index as u32 % 3, if index < 3 { Kind::Soft } else { Kind::Hard });
    let mut found = Found::default();
    for (first, second) in (0..6).flat_map(|first| (0..6).map(move |second| (first, second))) {
        for third in second..6 {
            let groups = [first, second, third].map(reservation);
            let groups: Vec<_> = (0..3).map(|core| (SINGLE[core], groups[core].0, groups[core].1)).collect();
            for sharing in [Sharing::Off, Sharing::Spare, Sharing::Proportional] {
                for change in [Change::None, Change::Regulated, Change::Kind] {
                    visit(&system(&groups, sharing), change, &mut found);
                }
            }
        }
        println!("{} distinct states so far", found.states);
    }
    found.print();
    assert!(found.underruns > 0 && found.shared > 0, "nothing was shown");
}
