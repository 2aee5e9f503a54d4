//! Derives functions from conflicts: the combinations of address bits that preserve the bank.

use crate::oracle::OracleError;
use crate::report::Step;
use crate::tester::{CLEAR, Decision, Levels, Tester};
use crate::view::View;
use memtint_map::gf2::{self, Basis};
use memtint_units::PhysAddr;

/// The most functions: 4096 banks.
const FUNCTIONS_MAX: usize = 12;
/// The smallest blocks, in address bits, that remapping must keep contiguous.
pub(crate) const BLOCK_BITS_MIN: u32 = 24;
/// The base-two logarithm of the most lines in a row: 8 KiB, twice that in lockstep.
const ROW_LINES_MAX: usize = 8;
/// Samples of each change that should lead to another bank; a single conflict contradicts it.
const COSET_SAMPLES: u32 = 8;
/// Number of blocks in which each function of upper bits alone is tested.
const BLOCKS: usize = 2;
/// Number of sums of bank-preserving differences that are tested at the end.
const VERIFIED: u32 = 40;

/// Bank functions and their spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Examined address bits, as a mask; the effect of others is unknown, except for those within a line.
    pub covered: u64,
    /// Examined differences, one for each of these bits, which is its highest.
    pub tried: Vec<u64>,
    /// Bank functions, as masks; a basis of their span.
    pub functions: Vec<u64>,
    /// Differences that preserve the bank: a basis.
    pub same_bank: Vec<u64>,
    /// Differences that preserve bank and row: a basis.
    pub same_row: Vec<u64>,
}

impl Solution {
    /// Returns functions of address bits that distinguish the rows of a bank, with the highest possible bits. They are
    /// known up to sums with bank functions.
    #[must_use]
    pub fn rows(&self) -> Vec<u64> {
        let mut found = Basis::spanning(self.functions.iter().copied());
        // Functions that are 0 within a row, those of the highest bits first.
        let mut all = vanishing(&self.same_row, self.covered);
        all.sort_by_key(|mask| std::cmp::Reverse(mask.trailing_zeros()));
        all.into_iter().filter(|&mask| found.insert(mask)).collect()
    }

    /// Returns, for each function, a difference that changes only its value.
    #[must_use]
    pub fn changes(&self) -> Vec<u64> {
        let own = |at: usize| {
            let others = self.functions.iter().enumerate().filter(|&(other, _)| other != at);
            self.functions[at] & !others.fold(0, |all, (_, mask)| all | mask)
        };
        (0..self.functions.len()).map(|at| 1 << own(at).trailing_zeros()).collect()
    }
}

/// The reason why there is no solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsolved {
    /// No difference conflicts.
    #[error("no difference of addresses makes a conflict")]
    NoConflict,
    /// A test is undecided.
    #[error("pairs with the difference {0:#x} are neither clearly slow nor clearly fast")]
    Undecided(u64),
    /// The difference does not determine a conflict: the view of addresses is wrong.
    #[error("of pairs with the difference {0:#x} some conflict and some do not")]
    Mixed(u64),
    /// Predicted conflicts are not equally slow.
    #[error("predicted conflicts are slower with one value of address bit {0} than with the other")]
    Uneven(u32),
    /// Some predicted conflicts do not seem to conflict.
    #[error("the times of predicted conflicts are spread wider than those of other pairs")]
    Scattered,
    /// More functions than possible.
    #[error("more than 12 functions")]
    TooMany,
    /// A difference that should conflict does not, or the other way round.
    #[error("pairs with the difference {0:#x} contradict the results from others")]
    Contradicted(u64),
    /// The limit of accesses is reached.
    #[error("the accesses that are allowed are used up")]
    TooLong,
    /// Too few predictions could be tested, or too many stayed undecided.
    #[error("too few predictions could be tried")]
    Unverified,
    /// The spaces are not those of a memory.
    #[error("{0}, which is no memory")]
    Impossible(&'static str),
}

struct Solver<'t, 'a> {
    tester: &'t mut Tester<'a>,
    view: &'t View,
    levels: Levels,
    /// A difference that conflicts.
    conflict: u64,
    /// Differences that leave the bank as it is.
    members: Vec<u64>,
}

type Stage<T> = Result<Result<T, Unsolved>, OracleError>;

macro_rules! known {
    ($stage:expr) => {
        match $stage? {
            Ok(value) => value,
            Err(unsolved) => return Ok(Err(unsolved)),
        }
    };
}

/// Finds the functions under a view, given differences that seem to conflict.
///
/// A difference `x` preserves the bank exactly if `x` or `x + d` conflicts, where `d` conflicts. Bits are examined one
/// by one. Each is either a combination of earlier independent bits, which is found by trying all combinations, those
/// of few bits first, or independent of them. The result is verified: all combinations of independent bits change the
/// bank, and random sums of bank-preserving differences do not.
///
/// # Errors
/// Those of the oracle.
pub fn solve(
    tester: &mut Tester<'_>,
    view: &View,
    levels: Levels,
    slow: &[u64],
    lowest: u32,
    bits: u32,
) -> Stage<Solution> {
    let Some(&conflict) = slow.first() else { return Ok(Err(Unsolved::NoConflict)) };
    let mut solver = Solver { tester, view, levels, conflict, members: vec![conflict] };
    if !known!(solver.conflicts(conflict)) {
        return Ok(Err(Unsolved::Contradicted(conflict)));
    }
    let mut same_bank = Vec::new();
    let mut independent: Vec<u64> = Vec::new();
    let (mut covered, mut tried) = (0, Vec::new());
    for bit in lowest..bits {
        let Some(difference) = solver.tester.of_bit(view, bit, lowest) else { continue };
        covered |= 1 << bit;
        tried.push(difference);
        match known!(solver.combination(difference, &independent)) {
            Some(member) => {
                same_bank.push(member);
                solver.members.push(member);
            }
            None if independent.len() == FUNCTIONS_MAX => return Ok(Err(Unsolved::TooMany)),
            None => independent.push(difference),
        }
    }
    let functions = vanishing(&same_bank, covered);
    let same_row = known!(solver.same_row(&same_bank));
    let solution = Solution { covered, tried, functions, same_bank, same_row };
    if let Some(unsolved) = impossible(&solution).filter(|_| !solver.tester.is_without(Step::Sanity)) {
        return Ok(Err(unsolved));
    }
    if !solver.tester.is_without(Step::Predictions) {
        if solver.tester.uses_controls() || levels.separation() < CLEAR {
            known!(solver.try_blocks(&solution));
        }
        known!(solver.verify(&solution, &independent));
    }
    Ok(Ok(solution))
}

impl Solver<'_, '_> {
    fn conflicts(&mut self, difference: u64) -> Stage<bool> {
        self.conflicts_from(difference, 1)
    }

    fn conflicts_from(&mut self, difference: u64, samples: u32) -> Stage<bool> {
        // Differences that are known to lead to another bank are tested again during verification.
        if difference == 0 || self.levels.is_other_bank(difference) {
            return Ok(Ok(false));
        }
        Ok(match self.tester.decide(self.view, difference, &self.levels, samples)? {
            Decision::Conflict => Ok(true),
            Decision::None => Ok(false),
            Decision::Mixed => Err(Unsolved::Mixed(difference)),
            Decision::Unknown => Err(Unsolved::Undecided(difference)),
        })
    }

    /// Returns whether this difference preserves the bank. Known bank-preserving differences are added where the pool
    /// has no pair with the difference itself.
    fn same_bank(&mut self, difference: u64) -> Stage<bool> {
        let with = self.available(difference ^ self.conflict);
        if known!(self.conflicts(with)) {
            return Ok(Ok(true));
        }
        let alone = self.available(difference);
        if alone == with { Ok(Ok(false)) } else { self.conflicts(alone) }
    }

    /// The difference, if the pool has a pair for it, or one that is equal up to known bank-preserving differences.
    fn available(&mut self, difference: u64) -> u64 {
        if self.tester.pair(self.view, difference).is_some() {
            return difference;
        }
        let members = self.members.clone();
        self.tester.drawn(self.view, difference, &members, |_| true).unwrap_or(difference)
    }

    /// A sum of the difference and some of the independent bits that preserves the bank, if there is one.
    fn combination(&mut self, difference: u64, independent: &[u64]) -> Stage<Option<u64>> {
        let mut all: Vec<u64> = (0..1 << independent.len()).collect();
        all.sort_by_key(|choice| choice.count_ones());
        for choice in all {
            let sum = difference ^ gf2::sum(independent, choice);
            if known!(self.same_bank(sum)) {
                return Ok(Ok(Some(sum)));
            }
        }
        Ok(Ok(None))
    }

    /// Finds, among bank-preserving differences, those that also preserve the row. They form a space; sums with
    /// differences that change the row are tested.
    fn same_row(&mut self, same_bank: &[u64]) -> Stage<Vec<u64>> {
        let mut rows: Vec<u64> = Vec::new();
        let mut columns: Vec<u64> = Vec::new();
        for &member in same_bank.iter().rev() {
            if !known!(self.conflicts(member)) {
                columns.push(member);
                continue;
            }
            // A row bit that is also in a function may be combined with a column bit; in real mappings, sums of two
            // suffice.
            let mut partner = None;
            for &row in &rows {
                let there = self.tester.pair(self.view, member ^ row).is_some();
                if there && !known!(self.conflicts(member ^ row)) {
                    partner = Some(member ^ row);
                    break;
                }
            }
            match partner {
                Some(column) => columns.push(column),
                None => rows.push(member),
            }
        }
        Ok(Ok(columns))
    }

    /// Where single pairs show nothing, a function of upper bits alone may be an artifact of remapped addresses: some
    /// pairs conflict with one combination of the other functions, some with another. Between two blocks, the
    /// combination is the same for all pairs, which makes it visible.
    fn try_blocks(&mut self, solution: &Solution) -> Stage<()> {
        let (pool, changes) = (self.tester.pool().clone(), solution.changes());
        let inside: Vec<u64> =
            solution.same_bank.iter().copied().filter(|member| member >> BLOCK_BITS_MIN == 0).collect();
        let upper = (0..changes.len()).filter(|&at| solution.functions[at].trailing_zeros() >= BLOCK_BITS_MIN);
        for at in upper.flat_map(|at| [at; BLOCKS]) {
            let base = self.tester.any().0 >> BLOCK_BITS_MIN << BLOCK_BITS_MIN;
            let block = pool.within(&(PhysAddr(base)..PhysAddr(base + (1 << BLOCK_BITS_MIN))));
            let whole = self.tester.draw_from(block);
            let tried = self.try_values(&changes, at, &inside);
            self.tester.draw_from(whole);
            known!(tried);
        }
        Ok(Ok(()))
    }

    /// Checks that no combination of changes that contains a given one preserves the bank.
    fn try_values(&mut self, changes: &[u64], with: usize, inside: &[u64]) -> Stage<()> {
        for value in (0..1u64 << changes.len()).filter(|value| value >> with & 1 == 1) {
            let change = gf2::sum(changes, value);
            let Some(difference) = self.tester.drawn(self.view, change, inside, |_| true) else { continue };
            if known!(self.conflicts_from(difference, COSET_SAMPLES)) {
                return Ok(Err(Unsolved::Mixed(difference)));
            }
        }
        Ok(Ok(()))
    }

    /// Tests the predictions of the solution: no combination of independent bits preserves the bank, and sums of
    /// bank-preserving differences conflict unless they preserve the row.
    fn verify(&mut self, solution: &Solution, independent: &[u64]) -> Stage<()> {
        let rows = Basis::spanning(solution.same_row.iter().copied());
        for choice in 1..1 << independent.len() {
            let sum = gf2::sum(independent, choice);
            let Some(difference) = self.tester.drawn(self.view, sum, &solution.same_bank, |_| true) else { continue };
            if known!(self.conflicts_from(difference, COSET_SAMPLES)) {
                return Ok(Err(Unsolved::Contradicted(difference)));
            }
        }
        for _ in 0..VERIFIED {
            let Some(difference) = self.tester.drawn(self.view, 0, &solution.same_bank, |_| true) else { continue };
            if known!(self.conflicts(difference)) == rows.contains(difference) {
                return Ok(Err(Unsolved::Contradicted(difference)));
            }
        }
        Ok(Ok(()))
    }
}

/// A basis of the masks of some bits that are 0 on all given vectors.
fn vanishing(vectors: &[u64], covered: u64) -> Vec<u64> {
    let basis = Basis::spanning(vectors.iter().copied());
    // Each vector of the basis has a pivot that no other has.
    let pivot = |vector: u64| 1u64 << (63 - vector.leading_zeros());
    let with = |bit: u32| {
        let own = basis.vectors().iter().filter(|&&vector| vector >> bit & 1 == 1);
        own.fold(1 << bit, |mask, &vector| mask | pivot(vector))
    };
    gf2::bits(covered & !basis.pivots()).map(with).collect()
}

/// Solutions that no memory has.
fn impossible(solution: &Solution) -> Option<Unsolved> {
    if solution.functions.len() < 2 {
        return Some(Unsolved::Impossible("fewer than four banks"));
    }
    if solution.same_row.len() < 3 {
        return Some(Unsolved::Impossible("rows of fewer than eight lines"));
    }
    if solution.same_row.len() > ROW_LINES_MAX {
        return Some(Unsolved::Impossible("rows of more than 16 KiB"));
    }
    debug_assert!(
        solution.same_bank.iter().all(|&member| gf2::evaluate(&solution.functions, member) == 0),
        "functions are 0 on what leaves the bank"
    );
    (solution.same_row.len() == solution.same_bank.len()).then_some(Unsolved::Impossible("one row"))
}
