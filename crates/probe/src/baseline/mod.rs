//! Published detectors of bank functions, for comparison.
//!
//! Each detector has a separate file. It takes the inputs of its program or paper (number of banks, sets or rows), uses
//! any [`Oracle`], and returns its result, or the reason why it stopped. The detectors reimplement the papers and the
//! released programs, rule by rule with sources; none of their code is used. Repetition is a parameter because the
//! number of accesses is proportional to it; `published` sets the published number.
//!
//! No detector verifies its result. Steps that a program leaves to its user, such as reading two groups off a table,
//! are done here in the way that favors it most.
//!
//! | detector | finds | cannot find |
//! |---|---|---|
//! | [`Palloc`] | bank bits, pairs of bits | functions of more bits, bits above the distance of its entries |
//! | [`Bpm`] | row, column and bank bits, pairs with a row bit | wider functions, pairs without a row bit, maps all of whose row bits select banks too |
//! | [`Drama`] | functions of up to seven bits | wider ones, rows and columns |
//! | [`DramDig`] | functions, of which one of three to seven bits, rows, columns | others; anything when the geometry is wrong |

mod bpm;
mod drama;
mod dramdig;
mod palloc;

pub use bpm::Bpm;
pub use drama::{Drama, SetLimit};
pub use dramdig::DramDig;
pub use palloc::Palloc;

use crate::oracle::{Oracle, OracleError};
use crate::simulated::SimulatedMachine;
use memtint_map::gf2::{self, Basis};
use memtint_units::PhysAddr;
use memtint_units::Random;
use std::collections::BTreeMap;
use std::ops::Range;

/// The lowest address bit that distinguishes two lines.
const LOWEST: u32 = 6;
/// The most draws for a pair with a difference.
const DRAWS: u32 = 1000;
/// Number of pairs to judge functions by.
const JUDGED: u32 = 4000;
/// The most rounds of one oracle call; longer measurements use several calls.
const ROUNDS_MAX: u32 = 10_000;

/// The result of a detector, and its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its result.
    pub result: Result<Found, Stopped>,
    /// Accesses that were timed.
    pub accesses: u64,
}

/// The mapping that a detector reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Bank functions as masks.
    pub functions: Vec<u64>,
    /// Address bits that select the row, as a mask; `None` from a detector that does not search for them.
    pub row_bits: Option<u64>,
    /// Address bits that select the column, as a mask, including those within a line; `None` likewise.
    pub column_bits: Option<u64>,
}

impl Found {
    /// Returns whether the functions are those of a machine with a known mapping: whether they are right about random
    /// pairs, and about pairs that they put into one bank.
    #[must_use]
    pub fn is_of(&self, machine: &SimulatedMachine) -> bool {
        let (pool, mut random) = (machine.pool(), Random::new(0x1d_6e));
        let right = |one: PhysAddr, other: PhysAddr| {
            (gf2::evaluate(&self.functions, one.0 ^ other.0) == 0) == machine.same_bank(one, other)
        };
        let basis = Basis::spanning(self.functions.iter().copied());
        (0..JUDGED).all(|_| {
            let [one, other] = [0, 1].map(|_| pool.any(&mut random));
            // Each function has a bit that no other has; flipping it corrects the function's value.
            let wrong = basis.vectors().iter().filter(|&&mask| gf2::parity(one.0 ^ other.0, mask) == 1);
            let partner = PhysAddr(wrong.fold(other.0, |addr, mask| addr ^ 1 << mask.ilog2()));
            right(one, other) && (!pool.contains(partner) || right(one, partner))
        })
    }
}

/// Why a detector gives no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The machine has no other core.
    NoOtherCore,
    /// The pool lacks the required addresses.
    NoMemory,
    /// Flipping one bit never makes a row conflict.
    NoRowBit,
    /// No addresses stand out as slow.
    NoSet,
    /// No function remains.
    NoFunction,
    /// The functions do not give the number of banks: functions found, and functions needed.
    Functions(u32, u32),
    /// The number of row bits is not the given one: row bits found, and row bits needed.
    RowBits(u32, u32),
    /// The published program would not terminate, or take extremely long.
    Endless,
}

/// Uses an oracle, and counts accesses.
struct Meter<'a> {
    oracle: &'a mut dyn Oracle,
    random: Random,
    accesses: u64,
}

impl<'a> Meter<'a> {
    fn new(oracle: &'a mut dyn Oracle, seed: u64) -> Meter<'a> {
        Meter { oracle, random: Random::new(seed), accesses: 0 }
    }

    fn outcome(self, result: Result<Found, Stopped>) -> Outcome {
        Outcome { result, accesses: self.accesses }
    }

    /// Accesses addresses in turn and returns the sum of all readings.
    fn ticks(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<u64, OracleError> {
        let mut sum = 0;
        for rounds in chunks(rounds) {
            sum += total(&self.oracle.time(addresses, rounds)?);
        }
        self.accesses += addresses.len() as u64 * u64::from(rounds);
        Ok(sum)
    }

    /// The same while another core accesses others; `None` without one.
    fn ticks_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<u64>, OracleError> {
        let mut sum = 0;
        for rounds in chunks(rounds) {
            let Some(readings) = self.oracle.time_beside(addresses, others, rounds)? else { return Ok(None) };
            sum += total(&readings);
        }
        self.accesses += addresses.len() as u64 * u64::from(rounds);
        Ok(Some(sum))
    }

    /// Draws two addresses of the pool with this difference.
    fn pair(&mut self, difference: u64) -> Option<[PhysAddr; 2]> {
        let pool = self.oracle.pool();
        (0..DRAWS).find_map(|_| {
            let one = pool.any(&mut self.random);
            let other = PhysAddr(one.0 ^ difference);
            (pool.contains(other) && pool.comparable(one, other)).then_some([one, other])
        })
    }
}

fn chunks(rounds: u32) -> impl Iterator<Item = u32> {
    let whole = std::iter::repeat_n(ROUNDS_MAX, (rounds / ROUNDS_MAX) as usize);
    whole.chain(Some(rounds % ROUNDS_MAX).filter(|&rest| rest > 0))
}

fn total(readings: &[u32]) -> u64 {
    readings.iter().map(|&reading| u64::from(reading)).sum()
}

/// The threshold between two groups of values: the middle of the widest gap; `None` when all are equal.
fn two_groups(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let widest = values.windows(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0])))?;
    (widest[0] < widest[1]).then(|| f64::midpoint(widest[0], widest[1]))
}

/// Returns the first and last time of the rightmost group of a histogram with bins of one tick.
///
/// Bins with at most one time count as empty, and are dropped at both ends. The search goes from the right for a run of
/// `width` empty bins. The group above it is the result if it begins within `accepted`; if it begins above, the search
/// continues; if below, there is none.
fn slow_group(times: impl IntoIterator<Item = u64>, width: u64, accepted: &Range<u64>) -> Option<[u64; 2]> {
    let mut histogram: BTreeMap<u64, u32> = BTreeMap::new();
    for time in times {
        *histogram.entry(time).or_default() += 1;
    }
    histogram.retain(|_, count| *count > 1);
    let [min, max] = [*histogram.first_key_value()?.0, *histogram.last_key_value()?.0];
    let mut empty = 0;
    for bin in (min..=max).rev() {
        empty = if histogram.contains_key(&bin) { 0 } else { empty + 1 };
        if empty == width {
            let begin = bin + empty;
            if begin < accepted.end {
                return accepted.contains(&begin).then_some([begin, max]);
            }
            empty = 0;
        }
    }
    None
}

/// Returns all masks of one to `most` of some bits that are constant on each set, except for up to `spared` of its
/// addresses: masks of few bits first, those of equally many bits in order.
fn constant_masks(sets: &[Vec<u64>], bits: &[u32], most: u32, spared: fn(usize) -> usize) -> Vec<u64> {
    let gather = |addr: &u64| bits.iter().enumerate().fold(0, |value, (at, bit)| value | (addr >> bit & 1) << at);
    let sets: Vec<Vec<u64>> = sets.iter().map(|set| set.iter().map(gather).collect()).collect();
    let constant = |set: &Vec<u64>, mask: u64| {
        let spared = spared(set.len());
        let mut counts = [0; 2];
        set.iter().all(|&value| {
            counts[gf2::parity(value, mask) as usize] += 1;
            counts[0].min(counts[1]) <= spared
        })
    };
    let mut found = Vec::new();
    for count in 1..=most.min(bits.len() as u32) {
        let mut mask = (1u64 << count) - 1;
        while mask >> bits.len() == 0 {
            if sets.iter().all(|set| constant(set, mask)) {
                found.push(gf2::bits(mask).map(|at| 1 << bits[at as usize]).sum());
            }
            mask = next_of_as_many(mask);
        }
    }
    found
}

/// The next larger number with the same number of bits set.
fn next_of_as_many(mask: u64) -> u64 {
    let lowest = mask & mask.wrapping_neg();
    let carried = mask + lowest;
    carried | (((mask ^ carried) / lowest) >> 2)
}

/// Returns the masks that are not a sum of earlier masks, without those that are equal on nearly all sets or contain
/// such a mask.
fn independent(masks: &[u64], sets: &[Vec<u64>]) -> Vec<u64> {
    let unbalanced = |mask: &&u64| {
        let ones = sets.iter().filter(|set| gf2::parity(set[0], **mask) == 1).count();
        let share = ones as f64 / sets.len() as f64;
        share <= 0.01 || share >= 0.99
    };
    let unbalanced: Vec<u64> = masks.iter().filter(unbalanced).copied().collect();
    let mut basis = Basis::default();
    let kept = masks.iter().copied().filter(|&mask| basis.insert(mask));
    kept.filter(|mask| !unbalanced.iter().any(|part| mask & part == *part)).collect()
}

fn mask_of(bits: impl IntoIterator<Item = u32>) -> u64 {
    bits.into_iter().fold(0, |mask, bit| mask | 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_gap_makes_two_groups() {
        assert_eq!(two_groups([1.0, 9.0, 2.0, 8.0]), Some(5.0));
        assert_eq!(two_groups([3.0, 3.0]), None);
        assert_eq!(two_groups([]), None);
    }

    #[test]
    fn the_group_on_the_right_begins_above_empty_bins() {
        let times = [10, 10, 12, 12, 20, 20, 21, 21, 40];
        // The 40 is alone in its bin, so it is no group.
        assert_eq!(slow_group(times, 5, &(0..100)), Some([20, 21]));
        assert_eq!(slow_group(times, 8, &(0..100)), None);
        assert_eq!(slow_group(times, 5, &(30..100)), None);
        // A group that begins too high is skipped, and the search continues in the empty bins below it.
        assert_eq!(slow_group([10, 10, 50, 50], 5, &(0..48)), Some([45, 50]));
        assert_eq!(slow_group([7, 7], 1, &(0..100)), None);
    }

    #[test]
    fn all_masks_are_tried_and_few_stay() {
        let mut random = Random::new(1);
        // Bits 1 and 3 are equal within a set, 4 is constant there.
        let set = |fixed: u64| -> Vec<u64> {
            let drawn = (0..40).map(|_| random.bits() & 0b10_0111);
            drawn.map(|low| low | (low >> 1 & 1 ^ fixed & 1) << 3 | (fixed >> 1 & 1) << 4).collect()
        };
        let sets: Vec<Vec<u64>> = [0, 1, 2, 3].map(set).into();
        let bits = [0, 1, 2, 3, 4, 5];
        assert_eq!(constant_masks(&sets, &bits, 6, |_| 0), [1 << 4, 0b1010, 0b1_1010]);
        assert_eq!(constant_masks(&sets, &bits, 1, |_| 0), [1 << 4]);
        assert_eq!(independent(&constant_masks(&sets, &bits, 6, |_| 0), &sets), [1 << 4, 0b1010]);
        // In half of the sets, bit 4 is always 0: it carries no information, and all masks that contain it are dropped.
        assert_eq!(independent(&[1 << 4, 0b1010, 0b1_1010], &sets[..2]), [0b1010]);
        let mut wrong = sets.clone();
        wrong[2][7] ^= 1 << 4;
        assert_eq!(constant_masks(&wrong, &bits, 6, |_| 0), [0b1010]);
        assert_eq!(constant_masks(&wrong, &bits, 6, |of| of / 40), [1 << 4, 0b1010, 0b1_1010]);
    }

    #[test]
    fn long_measurements_are_made_of_several() {
        assert_eq!(chunks(25_000).collect::<Vec<_>>(), [10_000, 10_000, 5_000]);
        assert_eq!(chunks(7).collect::<Vec<_>>(), [7]);
        assert_eq!(chunks(10_000).collect::<Vec<_>>(), [10_000]);
    }
}
