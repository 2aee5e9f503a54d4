//! Does a mapping predict what fresh pairs do, everywhere in the pool?

use crate::oracle::OracleError;
use crate::pool::Pool;
use crate::solve::{Solution, Unsolved};
use crate::tester::{Decision, Levels, Tester};
use crate::view::View;
use memtint_map::gf2::{self, Basis};

/// Parts of the pool that are looked at on their own: what holds for most of a pool may not hold for the rest.
const PARTS: u64 = 32;
/// Predicted conflicts in each part.
const CONFLICTS: usize = 2;
/// Differences for each function that change it alone.
const NEAR_MISSES: usize = 4;
/// Samples of each prediction at least.
const SAMPLES: u32 = 4;
/// Random differences.
const RANDOM: usize = 24;

/// How often pairs did what was predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Predictions that were tried.
    pub tried: u32,
    /// Those that came true.
    pub hits: u32,
}

/// What came of predictions. All of them come true, or the mapping is not given; what could not be decided is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Differences that leave the bank as it is and change the row, in all parts of the pool: slow.
    pub conflicts: Rate,
    /// For each function, differences that change it and no other: fast.
    pub near_misses: Vec<Rate>,
    /// Differences that leave the row, and such that change it and nothing else.
    pub rows: Rate,
    /// Differences drawn at random.
    pub random: Rate,
    /// Predictions that could not be decided.
    pub undecided: u32,
}

impl Verification {
    /// Gives all predictions together.
    #[must_use]
    pub fn all(&self) -> Rate {
        let sum = |sum: Rate, rate: &Rate| Rate { tried: sum.tried + rate.tried, hits: sum.hits + rate.hits };
        self.near_misses.iter().chain([&self.conflicts, &self.rows, &self.random]).fold(Rate::default(), sum)
    }
}

impl Rate {
    /// Gives the probability of a hit that is exceeded with a confidence of 95 % after this many hits out of as many tries: the
    /// lower bound of Clopper and Pearson (1934); `None` after a miss or no try.
    #[must_use]
    pub fn at_least(&self) -> Option<f64> {
        (self.tried > 0 && self.hits == self.tried).then(|| 0.05_f64.powf(1.0 / f64::from(self.tried)))
    }
}

struct Verifier<'t, 'a> {
    tester: &'t mut Tester<'a>,
    view: &'t View,
    levels: &'t Levels,
    undecided: u32,
}

/// Tries what a solution predicts on fresh pairs; the first prediction that fails ends it.
///
/// # Errors
/// Those of the oracle.
pub fn verify(
    tester: &mut Tester<'_>,
    pool: &Pool,
    view: &View,
    levels: &Levels,
    solution: &Solution,
) -> Result<Result<Verification, Unsolved>, OracleError> {
    let mut verifier = Verifier { tester, view, levels, undecided: 0 };
    let mut verification = Verification::default();
    let columns = Basis::spanning(solution.same_row.iter().copied());
    for part in pool.parts(PARTS) {
        verifier.tester.draw_from(Some(part));
        for _ in 0..CONFLICTS {
            let Some(difference) = verifier.tester.drawn(view, 0, &solution.same_bank, |sum| !columns.contains(sum))
            else {
                continue;
            };
            match verifier.rate(&mut verification.conflicts, difference, true)? {
                Ok(()) => {}
                Err(unsolved) => return Ok(Err(unsolved)),
            }
        }
    }
    verifier.tester.draw_from(Some(pool.clone()));
    for change in solution.changes() {
        let mut rate = Rate::default();
        for _ in 0..NEAR_MISSES {
            let Some(difference) = verifier.tester.drawn(view, change, &solution.same_bank, |_| true) else { continue };
            if let Err(unsolved) = verifier.rate(&mut rate, difference, false)? {
                return Ok(Err(unsolved));
            }
        }
        verification.near_misses.push(rate);
    }
    // Each difference that leaves the row, and each that is said to change it, alone.
    let mut rows = columns.clone();
    let alone = solution.same_row.iter().map(|&column| (column, false));
    let changing: Vec<u64> = solution.same_bank.iter().copied().filter(|&member| rows.insert(member)).collect();
    for (difference, slow) in alone.chain(changing.into_iter().map(|row| (row, true))) {
        let drawn = verifier.tester.drawn(view, difference, &solution.same_row, |sum| sum != 0);
        let Some(difference) = drawn else { continue };
        if let Err(unsolved) = verifier.rate(&mut verification.rows, difference, slow)? {
            return Ok(Err(unsolved));
        }
    }
    for _ in 0..RANDOM {
        let mask = solution.covered;
        let difference = verifier.tester.random().bits() & mask;
        let slow = gf2::evaluate(&solution.functions, difference) == 0 && !columns.contains(difference);
        if let Err(unsolved) = verifier.rate(&mut verification.random, difference, slow)? {
            return Ok(Err(unsolved));
        }
    }
    verification.undecided = verifier.undecided;
    let all = verification.all();
    if verification.undecided * 10 > all.tried || verification.conflicts.tried == 0 {
        return Ok(Err(Unsolved::Unverified));
    }
    Ok(Ok(verification))
}

impl Verifier<'_, '_> {
    fn rate(&mut self, rate: &mut Rate, difference: u64, slow: bool) -> Result<Result<(), Unsolved>, OracleError> {
        if self.tester.pair(self.view, difference).is_none() {
            return Ok(Ok(()));
        }
        let expected = if slow { Decision::Conflict } else { Decision::None };
        let decision = self.tester.decide(self.view, difference, self.levels, SAMPLES)?;
        if decision == Decision::Mixed {
            return Ok(Err(Unsolved::Mixed(difference)));
        }
        if decision == Decision::Unknown {
            self.undecided += 1;
            return Ok(Ok(()));
        }
        rate.tried += 1;
        rate.hits += u32::from(decision == expected);
        Ok(if decision == expected { Ok(()) } else { Err(Unsolved::Contradicted(difference)) })
    }
}
