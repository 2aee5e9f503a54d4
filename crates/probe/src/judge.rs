//! Checks an answer against a machine with a known mapping.

use crate::report::{Answer, Area, Mapping};
use crate::simulated::SimulatedMachine;
use memtint_map::gf2::{self, Basis};
use memtint_units::Random;

/// Number of pairs that are predicted to be in one bank.
const SAME: u32 = 1000;
/// Number of pairs for each change that is predicted to lead to another bank.
const OTHER: u32 = 3;
/// The most draws for a pair with a difference.
const DRAWS: u32 = 200;

/// Correctness of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The machine's mapping.
    Right,
    /// A correct part of the machine's mapping.
    Partial,
    /// No mapping.
    Refused,
    /// A mapping that is not the machine's.
    Wrong,
}

/// Compares an answer with a machine's mapping. Its predictions for pairs count, not the choice of functions.
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
