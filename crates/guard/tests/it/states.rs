//! Do the laws hold in every state that can be reached, whatever comes after what?
//!
//! Each event is one step; what happens between the exchanges within a step is in `orders`.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use memtint_guard::{Config, Group, Kind, LastValue, Reservation, Sharing};
use twox_hash::XxHash3_128;

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

/// What a state hashes.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        unreachable!("bytes are collected here, and hashed elsewhere")
    }
}

impl Bytes {
    /// 128 bits: two of 10^9 states are taken for one with a probability of 10^-21.
    fn fingerprint(&mut self, state: &impl Hash) -> u128 {
        self.0.clear();
        state.hash(self);
        XxHash3_128::oneshot(&self.0)
    }
}

/// A fingerprint needs no further hashing.
#[derive(Default)]
struct Low(u64);

impl Hasher for Low {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are looked up");
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Visits every state of a system within two periods.
fn visit(config: &Config, change: Change) -> Found {
    let (mut found, mut bytes) = (Found::default(), Bytes::default());
    let start = Witness::new(config.clone(), |_| LastValue::default()).expect("a sound system");
    let mut seen: HashSet<u128, BuildHasherDefault<Low>> = HashSet::default();
    seen.insert(bytes.fingerprint(&start));
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
            if seen.insert(bytes.fingerprint(&next)) {
                found.shared += usize::from((0..config.cores).any(|core| next.guard.core(core).is_sharing()));
                left.push(next);
            }
        }
    }
    found.states = seen.len();
    found
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

/// Visits several, on all CPUs.
fn visit_all(systems: &[(Config, Change)]) -> Found {
    let (next, all) = (AtomicUsize::new(0), Mutex::new((0, Found::default())));
    let work = || {
        while let Some((config, change)) = systems.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = visit(config, *change);
            let mut all = all.lock().expect("no other has failed");
            let (done, sum) = &mut *all;
            *done += 1;
            sum.states += found.states;
            sum.shared += found.shared;
            sum.underruns += found.underruns;
            if *done % 50 == 0 {
                println!("{done} of {} systems, {} distinct states", systems.len(), sum.states);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (_, found) = all.into_inner().expect("none has failed");
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
    let found = visit_all(&[
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

/// Budgets of one to three quanta, hard or soft, each way of sharing, each change. What differs only in the order of cores that
/// are alike is visited once: of cores 1 and 2, and of all three where nothing changes besides. 606,368,273 states.
#[test]
#[ignore = "takes long: make prove"]
fn every_system_of_three_cores_in_any_order() {
    let reservation = |index: usize| (1 + index as u32 % 3, if index < 3 { Kind::Soft } else { Kind::Hard });
    let mut systems = Vec::new();
    for (first, second) in (0..6).flat_map(|first| (0..6).map(move |second| (first, second))) {
        for third in second..6 {
            let groups = [first, second, third].map(reservation);
            let groups: Vec<_> = (0..3).map(|core| (SINGLE[core], groups[core].0, groups[core].1)).collect();
            for sharing in [Sharing::Off, Sharing::Spare, Sharing::Proportional] {
                let system = system(&groups, sharing);
                systems.extend([Change::Regulated, Change::Kind].map(|change| (system.clone(), change)));
                if first <= second {
                    systems.push((system, Change::None));
                }
            }
        }
    }
    let found = visit_all(&systems);
    assert!(found.underruns > 0 && found.shared > 0, "nothing was shown");
}
