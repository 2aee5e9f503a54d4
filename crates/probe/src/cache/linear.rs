//! Derives functions from congruent lines: the combinations of address bits that preserve set and slice.

use crate::cache::prober::{Answer, Asked, CacheProber, EvictionSet};
use crate::oracle::OracleError;
use memtint_map::gf2::{self, Basis};

/// The most functions: 2^17 sets, all slices together.
const FUNCTIONS_MAX: usize = 17;
/// Number of fresh differences that are predicted to be congruent, and of those predicted not to be.
const VERIFIED: u32 = 40;
/// Bits that may stay undecided: a prefetcher of neighboring lines confuses the lowest ones.
const UNDECIDED_MAX: usize = 2;
/// Number of places to which the set is moved, to check whether it still evicts.
const MOVES: u32 = 24;

/// Functions that select set and slice, and their verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Congruence {
    /// Examined address bits, as a mask. Bits that never differ alone in the pool are examined together, as the highest
    /// of them.
    pub covered: u64,
    /// Undecided bits; the functions do not contain them.
    pub undecided: Vec<u32>,
    /// Lines are congruent exactly if all of these are 0 on their difference: the canonical basis of the span. The
    /// hardware's functions are some basis of it; which one is not observable.
    pub functions: Basis,
    /// Number of correct predictions about fresh pairs: congruent ones, and others. All predictions were correct.
    pub verified: [u32; 2],
}

/// Why there are no functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLinear {
    /// Lines of one set leave the set when the same bits of all change.
    Moves {
        /// Reloads that showed an eviction, with moved lines.
        elsewhere: u32,
        /// Reloads that showed an eviction with the original lines, in as many attempts.
        at_home: u32,
    },
    /// Tests of these bits were inconclusive.
    Undecided(Vec<u32>),
    /// More functions than possible.
    TooMany,
    /// A fresh pair that should be congruent is not, or the other way round.
    Contradicted,
}

/// Finds the functions of set and slice, given lines of one set.
///
/// Bits are examined from the highest down. Either a bit is a combination of earlier independent bits: then one of all
/// such lines, accessed together, evicts, and bisection finds it. Or the bit is independent, and none evicts. The
/// result is verified on fresh random differences, each at another place.
///
/// # Errors
/// Those of the oracle.
pub(crate) fn congruence(
    prober: &mut CacheProber<'_>,
    set: &EvictionSet,
) -> Result<Result<Congruence, NotLinear>, OracleError> {
    let lowest = prober.facts().line.trailing_zeros();
    let bits = prober.pool().bits();
    if let Some([elsewhere, at_home]) = prober.moves(set, MOVES)?
        && 3 * elsewhere < 2 * at_home
    {
        return Ok(Err(NotLinear::Moves { elsewhere, at_home }));
    }
    let mut nulls = Basis::default();
    let mut independent: Vec<u64> = Vec::new();
    let (mut covered, mut undecided) = (0, Vec::new());
    for bit in (lowest..bits).rev() {
        let Some(difference) = of_bit(prober, bit, lowest) else { continue };
        let sums: Vec<u64> =
            (0..1u64 << independent.len()).map(|choice| difference ^ gf2::sum(&independent, choice)).collect();
        match prober.find(set, &sums, &nulls)? {
            Err(()) if undecided.len() == UNDECIDED_MAX => {
                undecided.push(bit);
                return Ok(Err(NotLinear::Undecided(undecided)));
            }
            Err(()) => {
                undecided.push(bit);
                continue;
            }
            Ok(Some(null)) => {
                nulls.insert(null);
            }
            Ok(None) if independent.len() == FUNCTIONS_MAX => return Ok(Err(NotLinear::TooMany)),
            Ok(None) => independent.push(difference),
        }
        covered |= 1 << bit;
    }
    let functions = vanishing(&nulls, covered);
    for &member in &set.members {
        let difference = member.0 ^ set.target.0;
        let undecided = undecided.iter().any(|bit| difference >> bit & 1 == 1);
        let seen = prober.pool().comparable(member, set.target) && !undecided;
        if seen && gf2::evaluate(functions.vectors(), difference) != 0 {
            return Ok(Err(NotLinear::Contradicted));
        }
    }
    let mut verified = [0; 2];
    for turn in 0..2 * VERIFIED {
        let apart = turn % 2 == 1 && !independent.is_empty();
        let difference = if apart { independent[turn as usize / 2 % independent.len()] } else { 0 };
        // Each test adds a random sum of differences that preserve the set.
        let expected = if apart { Answer::Apart } else { Answer::Congruent };
        match prober.decide(set, Asked::Differences(&[difference], &nulls))? {
            Answer::Unknown => {}
            answer if answer == expected => verified[usize::from(apart)] += 1,
            _ => return Ok(Err(NotLinear::Contradicted)),
        }
    }
    if verified.iter().any(|&count| count < VERIFIED / 2) {
        return Ok(Err(NotLinear::Undecided(undecided)));
    }
    Ok(Ok(Congruence { covered, undecided, functions, verified }))
}

/// A difference with this highest bit for which the pool has lines: the bit alone, or with one below it.
fn of_bit(prober: &mut CacheProber<'_>, bit: u32, lowest: u32) -> Option<u64> {
    let beside = (lowest..bit).rev().map(|low| 1u64 << low);
    std::iter::once(0).chain(beside).map(|low| 1 << bit | low).find(|&both| prober.has(both))
}

/// Masks of some bits that are 0 on all of some vectors.
fn vanishing(vectors: &Basis, covered: u64) -> Basis {
    // Each vector of the basis has a pivot that no other has.
    let pivot = |vector: u64| 1u64 << (63 - vector.leading_zeros());
    let with = |bit: u32| {
        let own = vectors.vectors().iter().filter(|&&vector| vector >> bit & 1 == 1);
        own.fold(1 << bit, |mask, &vector| mask | pivot(vector))
    };
    Basis::spanning(gf2::bits(covered & !vectors.pivots()).map(with))
}
