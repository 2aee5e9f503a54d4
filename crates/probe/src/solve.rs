//! From conflicts to functions: which combinations of address bits leave the bank as it is.

use crate::oracle::OracleError;
use crate::report::Step;
use crate::tester::{CLEAR, Decision, Levels, Tester};
use crate::view::View;
use memtint_map::gf2::{self, Basis};
use memtint_units::PhysAddr;

/// The most functions: 4096 banks.
const FUNCTIONS_MAX: usize = 12;
/// The smallest blocks, in address bits, that what is moved may not tear apart.
pub(crate) const BLOCK_BITS_MIN: u32 = 24;
/// The base-two logarithm of the most lines in a row: 8 KiB, twice that in lockstep.
const ROW_LINES_MAX: usize = 8;
/// Samples of each set of banks that is said to be another: one conflict among them would show that it is not.
const COSET_SAMPLES: u32 = 8;
/// Blocks from which each function of upper bits alone is tried.
const BLOCKS: usize = 2;
/// Sums of what leaves the bank that are tried in the end.
const VERIFIED: u32 = 40;

/// Bank functions and the spaces that belong to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Address bits that were looked at, as a mask; what the others do is not known, but for those within a line.
    pub covered: u64,
    /// Differences that were looked at, one for each of these bits, which is its highest.
    pub tried: Vec<u64>,
    /// Bank functions, as masks; a basis of their span.
    pub functions: Vec<u64>,
    /// Differences that leave the bank as it is: a basis.
    pub same_bank: Vec<u64>,
    /// Of these, differences that leave the row as it is too: a basis.
    pub same_row: Vec<u64>,
}

impl Solution {
    /// Gives the functions of address bits that tell rows of a bank apart, of as many high bits as can be. They are known up to
    /// sums with bank functions.
    #[must_use]
    pub fn rows(&self) -> Vec<u64> {
        let mut found = Basis::spanning(self.functions.iter().copied());
        // Functions that are 0 within a row, those of the highest bits first.
        let mut all = vanishing(&self.same_row, self.covered);
        all.sort_by_key(|mask| std::cmp::Reverse(mask.trailing_zeros()));
        all.into_iter().filter(|&mask| found.insert(mask)).collect()
    }

    /// Gives a difference for each function that changes its value and no other's.
    #[must_use]
    pub fn changes(&self) -> Vec<u64> {
        let own = |at: usize| {
            let others = self.functions.iter().enumerate().filter(|&(other, _)| other != at);
            self.functions[at] & !others.fold(0, |all, (_, mask)| all | mask)
        };
        (0..self.functions.len()).map(|at| 1 << own(at).trailing_zeros()).collect()
    }
}

/// Why there is no solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsolved {
    /// No difference conflicts.
    #[error("no difference of addresses makes a conflict")]
    NoConflict,
    /// A test came to nothing.
    #[error("pairs with the difference {0:#x} are neither clearly slow nor clearly fast")]
    Undecided(u64),
    /// The difference does not decide: addresses are not what the view says.
    #[error("of pairs with the difference {0:#x} some conflict and some do not")]
    Mixed(u64),
    /// Predicted conflicts are not all as slow.
    #[error("predicted conflicts are slower with one value of address bit {0} than with the other")]
    Uneven(u32),
    /// Some predicted conflicts seem to be none.
    #[error("the times of predicted conflicts are spread wider than those of other pairs")]
    Scattered,
    /// More functions than there can be.
    #[error("more than 12 functions")]
    TooMany,
    /// A difference that should conflict does not, or the other way round.
    #[error("pairs with the difference {0:#x} contradict what was found from others")]
    Contradicted(u64),
    /// It would take more accesses than are allowed.
    #[error("the accesses that are allowed are used up")]
    TooLong,
    /// Too few predictions could be tried, or too many of them not be decided.
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
/// A difference `x` leaves the bank as it is exactly if `x` or `x + d` conflicts, where `d` conflicts. Bits are taken one by
/// one; each is either a combination of the ones that were independent so far, which is found by trying all combinations, those of
/// few bits first, or independent of them. What is found is verified: all combinations of independent bits change the bank, and
/// random sums of those that should not do not.
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
        // What is known to be in another bank is asked again when all is predicted.
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

    /// Does this difference leave the bank as it is? Differences that are known to may be added, where the pool has no pair
    /// without.
    fn same_bank(&mut self, difference: u64) -> Stage<bool> {
        let with = self.available(difference ^ self.conflict);
        if known!(self.conflicts(with)) {
            return Ok(Ok(true));
        }
        let alone = self.available(difference);
        if alone == with { Ok(Ok(false)) } else { self.conflicts(alone) }
    }

    /// The difference, if the pool has it, or one that is the same but for known ones.
    fn available(&mut self, difference: u64) -> u64 {
        if self.tester.pair(self.view, difference).is_some() {
            return difference;
        }
        let members = self.members.clone();
        self.tester.drawn(self.view, difference, &members, |_| true).unwrap_or(difference)
    }

    /// The difference with some of the independent bits that leaves the bank as it is, if there is one.
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

    /// Of the differences that leave the bank as it is, those that leave the row too: they form a space, whose sums with what
    /// changes the row are tried.
    fn same_row(&mut self, same_bank: &[u64]) -> Stage<Vec<u64>> {
        let mut rows: Vec<u64> = Vec::new();
        let mut columns: Vec<u64> = Vec::new();
        for &member in same_bank.iter().rev() {
            if !known!(self.conflicts(member)) {
                columns.push(member);
                continue;
            }
            // A single row bit that is in a function too may come with a column bit; sums of two are what maps have.
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

    /// Where single pairs show nothing, a function of upper bits alone may be a mixture that a moved address makes: some pairs
    /// conflict with one combination of the other functions, some with another. From one block to another it is the same
    /// combination for all pairs, so that it shows.
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

    /// No combination of changes with a certain one of them leaves the bank as it is.
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

    /// Tries what the solution says: no combination of independent bits leaves the bank as it is, and sums of what does conflict
    /// unless they are in the row.
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

/// Masks of some bits that are 0 on all of some vectors: a basis.
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

/// What no memory looks like.
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
