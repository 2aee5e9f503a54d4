//! Is an answer right? Only a machine whose mapping is known can tell.

use crate::report::{Answer, Area, Mapping};
use crate::simulated::SimulatedMachine;
use memtint_map::gf2::{self, Basis};
use memtint_units::Random;

/// Pairs that are predicted to be in one bank.
const SAME: u32 = 1000;
/// Pairs of each set of banks that is predicted to be another.
const OTHER: u32 = 3;
/// Draws of a difference that the pool has a pair for.
const DRAWS: u32 = 200;

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A mapping, and it is the machine's.
    Right,
    /// A partial one, and it is the machine's as far as it goes.
    Partial,
    /// No mapping.
    Refused,
    /// A mapping that is not the machine's.
    Wrong,
}

/// Compares an answer with the mapping that a machine has: what it says of pairs, and not which functions it says it with.
#[must_use]
pub fn judge(machine: &SimulatedMachine, answer: &Answer) -> Verdict {
    let mut random = Random::new(0x1d_6e);
    let mut agrees = |mapping: &Mapping| mapping.areas.iter().all(|area| area_agrees(machine, area, &mut random));
    match answer {
        Answer::Mapping(mapping) if agrees(mapping) => Verdict::Right,
        Answer::Partial(mapping, _) if agrees(mapping) => Verdict::Partial,
        Answer::NoBankSignal(_) => Verdict::Refused,
        Answer::Mapping(_) | Answer::Partial(..) => Verdict::Wrong,
    }
}

fn area_agrees(machine: &SimulatedMachine, area: &Area, random: &mut Random) -> bool {
    let solution = &area.solution;
    let columns = Basis::spanning(solution.same_row.iter().copied());
    let mut draw = |change: u64| {
        (0..DRAWS).find_map(|_| {
            let difference = change ^ gf2::sum(&solution.same_bank, random.bits());
            let pair = area.view.pair(&area.pool, &area.pool, difference, random)?;
            Some((difference, pair))
        })
    };
    let same = (0..SAME).filter_map(|_| draw(0)).all(|(difference, [one, other])| {
        machine.same_bank(one, other) && machine.conflicts(one, other) != columns.contains(difference)
    });
    let changes = solution.changes();
    same && (1..1u64 << changes.len()).all(|choice| {
        (0..OTHER)
            .filter_map(|_| draw(gf2::sum(&changes, choice)))
            .all(|(_, [one, other])| !machine.same_bank(one, other))
    })
}
