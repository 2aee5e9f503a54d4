//! Tests whether a mapping predicts the behavior of fresh pairs, everywhere in the pool.

use crate::blocks;
use crate::oracle::OracleError;
use crate::pool::Pool;
use crate::solve::{BLOCK_BITS_MIN, Solution, Unsolved};
use crate::tester::{CLEAR, Decision, Levels, Tester, spread};
use crate::view::View;
use memtint_map::gf2::{self, Basis};

/// Number of parts of the pool that are tested separately: a mapping of most of the pool may not hold for the rest.
const PARTS: u64 = 32;
/// Predicted conflicts in each part.
const CONFLICTS: usize = 2;
/// The same where each sample has a control; in that case, also the number of samples of all predicted conflicts
/// together.
const CONTROLLED_CONFLICTS: usize = 1;
const EVEN_SAMPLES: usize = 4000;
/// The largest difference by chance, in standard errors, between predicted conflicts with and without an address bit.
const EVEN: f64 = 4.5;
/// The largest spread of predicted conflicts relative to non-conflicting pairs: five standard errors of both.
const SPREAD_MAX: f64 = 1.15;
/// Number of differences for each function that change only this function.
const NEAR_MISSES: usize = 4;
/// The fewest samples of each prediction.
const SAMPLES: u32 = 4;
/// Number of random differences.
const RANDOM: usize = 24;

/// Numbers of tested and of correct predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Rate {
    /// Tested predictions.
    pub tried: u32,
    /// Correct predictions.
    pub hits: u32,
}

/// Results of predictions. A mapping with a wrong prediction is rejected; undecided predictions are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Differences that preserve the bank and change the row, in all parts of the pool: slow.
    pub conflicts: Rate,
    /// For each function, differences that change only this function: fast.
    pub near_misses: Vec<Rate>,
    /// Differences that preserve the row, and differences that change only the row.
    pub rows: Rate,
    /// Random differences.
    pub random: Rate,
    /// Undecided predictions.
    pub undecided: u32,
}

impl Verification {
    /// Returns the sum of all predictions.
    #[must_use]
    pub fn all(&self) -> Rate {
        let sum = |sum: Rate, rate: &Rate| Rate { tried: sum.tried + rate.tried, hits: sum.hits + rate.hits };
        self.near_misses.iter().chain([&self.conflicts, &self.rows, &self.random]).fold(Rate::default(), sum)
    }
}

impl Rate {
    /// Returns a lower bound of the probability of a hit at 95 % confidence, if all tries were hits: the bound of
    /// Clopper and Pearson (1934); `None` after a miss or without a try.
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

/// Tests the predictions of a solution on fresh pairs, up to the first failure.
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
    let conflicts = if verifier.tester.uses_controls() { CONTROLLED_CONFLICTS } else { CONFLICTS };
    let everywhere = pool.parts(PARTS).into_iter().map(|part| (part, conflicts));
    for (part, conflicts) in everywhere.chain(blocks::top(pool).into_iter().map(|part| (part, 1))) {
        verifier.tester.draw_from(Some(part));
        for _ in 0..conflicts {
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
    // Each difference that preserves the row, and each that should change it, separately.
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
    if verifier.tester.uses_controls()
        && let Some(unsolved) = verifier.mixed(solution, &columns)?
    {
        return Ok(Err(unsolved));
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
        // A predicted conflict may be in another bank that happens to be slow.
        let levels = if slow { self.levels.anywhere() } else { *self.levels };
        let decision = self.tester.decide(self.view, difference, &levels, SAMPLES)?;
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
    /// Tests many predicted conflicts together. A mixture of conflicting and other pairs may be slow enough for a
    /// conflict, but its spread is larger, or its time differs between the two values of an address bit.
    fn mixed(&mut self, solution: &Solution, columns: &Basis) -> Result<Option<Unsolved>, OracleError> {
        let mut samples = Vec::new();
        for _ in 0..EVEN_SAMPLES {
            let drawn = self.tester.drawn(self.view, 0, &solution.same_bank, |sum| !columns.contains(sum));
            let Some(difference) = drawn else { continue };
            let Some((pair, sample)) = self.tester.sample(self.view, difference.into())? else { continue };
            samples.push((difference, pair[0].0 >> BLOCK_BITS_MIN << BLOCK_BITS_MIN, sample));
        }
        let mut ticks: Vec<f64> = samples.iter().map(|&(.., sample)| sample).collect();
        // Where conflicts are clear, single pairs are tested instead, and occasional cache hits may spread conflicts.
        let hidden = self.levels.separation() < CLEAR;
        if ticks.is_empty() || (hidden && spread(&mut ticks) > SPREAD_MAX * self.levels.sigma) {
            return Ok(Some(Unsolved::Scattered));
        }
        let (low, high) = (self.levels.hit - self.levels.sigma, self.levels.conflict + self.levels.sigma);
        let differ = |on: &dyn Fn(&(u64, u64, f64)) -> bool| {
            let mut sides = [(0.0, 0.0, 0.0); 2];
            for sample in &samples {
                let (count, sum, squares) = &mut sides[usize::from(on(sample))];
                let ticks = sample.2.clamp(low, high);
                (*count, *sum, *squares) = (*count + 1.0, *sum + ticks, *squares + ticks * ticks);
            }
            let [one, other] = sides.map(|(count, sum, squares): (f64, f64, f64)| {
                let mean = sum / count;
                (mean, (squares / count - mean * mean) / count)
            });
            // Without samples on one side, the comparison with NaN is false.
            (one.0 - other.0).abs() > EVEN * (one.1 + other.1).sqrt()
        };
        let uneven = |bit: &u32| {
            differ(&|&(difference, ..)| difference >> bit & 1 == 1) || differ(&|&(_, base, _)| base >> bit & 1 == 1)
        };
        Ok((0..64).find(uneven).map(Unsolved::Uneven))
    }
}
