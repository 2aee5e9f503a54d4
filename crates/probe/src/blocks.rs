//! Relations between aligned blocks of memory, where no linear mapping holds for physical addresses.
//!
//! Memory hidden by the hole for devices is remapped: by a subtraction above 4 GiB (AMD), or by moving the highest
//! memory into the hole (Intel). Within aligned blocks that stay contiguous, the functions apply to physical addresses.
//! Between two blocks, the upper bits of the functions differ by one value, which is found by trial. Each assumption on
//! the remapping makes these values linear or not, so it is judged without further measurements.

use crate::pool::Pool;
use crate::view::{Part, View};
use memtint_units::PhysAddr;

/// Where addresses above the hole begin.
const ABOVE: u64 = 1 << 32;
/// Sizes of memory, and thus the beginning of memory that is moved down, are multiples of this.
const TOP_STEP: u64 = 1 << 29;

/// Number of pieces in which memory that may be moved is examined; at least a third of the moved memory contradicts any
/// linear mapping.
const TOP_PARTS: u64 = 12;

/// Memory that may be moved into the hole below 4 GiB, in parts: as much as the hole's size, from the top.
pub(crate) fn top(pool: &Pool) -> Vec<Pool> {
    let end = pool.envelope().end.0;
    let low = pool.within(&(PhysAddr(0)..PhysAddr(ABOVE)));
    let hole = ABOVE - low.map_or(0, |low| low.envelope().end.0);
    let base = end.saturating_sub(hole).max(ABOVE);
    pool.within(&(PhysAddr(base)..PhysAddr(end))).map_or_else(Vec::new, |top| top.parts(TOP_PARTS))
}

/// A linear map of upper address bits, known on the span of the added vectors.
#[derive(Clone, Debug, Default)]
struct Linear(Vec<(u64, u64)>);

impl Linear {
    /// The value, if it follows from the added vectors, else the remainders of vector and value.
    fn value(&self, mut vector: u64) -> Result<u64, (u64, u64)> {
        let mut value = 0;
        for &(known, of_known) in &self.0 {
            if vector ^ known < vector {
                (vector, value) = (vector ^ known, value ^ of_known);
            }
        }
        if vector == 0 { Ok(value) } else { Err((vector, value)) }
    }

    /// Adds a vector with its value; false if a different value follows from the others.
    fn add(&mut self, vector: u64, value: u64) -> bool {
        match self.value(vector) {
            Ok(known) => known == value,
            Err((rest, of_rest)) => {
                self.0.push((rest, value ^ of_rest));
                self.0.sort_by_key(|&(known, _)| std::cmp::Reverse(known));
                true
            }
        }
    }
}

/// An assumption on the remapping of memory, and its consequences for the upper bits of functions.
#[derive(Clone, Debug)]
pub(crate) struct Assumption {
    /// Description.
    pub(crate) words: String,
    /// The view of addresses under this assumption.
    pub(crate) view: View,
    upper: Linear,
}

impl Assumption {
    /// The difference of two blocks in inner addresses; `None` where the assumption has no memory.
    fn difference(&self, blocks: [u64; 2], bits: u32) -> Option<u64> {
        let [one, other] = blocks.map(|block| self.view.inward(PhysAddr(block << bits)));
        Some((one?.address ^ other?.address) >> bits)
    }

    /// The value that follows for two blocks, if any.
    pub(crate) fn value(&self, blocks: [u64; 2], bits: u32) -> Option<u64> {
        self.upper.value(self.difference(blocks, bits)?).ok()
    }

    /// Adds the value by which two blocks differ; false if it contradicts the assumption.
    pub(crate) fn learn(&mut self, blocks: [u64; 2], bits: u32, value: u64) -> bool {
        self.difference(blocks, bits).is_some_and(|difference| self.upper.add(difference, value))
    }
}

/// All assumptions for a pool whose blocks of `2^bits` bytes stay contiguous, the simplest first.
pub(crate) fn assumptions(pool: &Pool, bits: u32) -> Vec<Assumption> {
    let block = 1u64 << bits;
    let (start, end) = (pool.envelope().start.0 & !(block - 1), pool.envelope().end.0.next_multiple_of(block));
    // The end of memory below the hole, as visible in the pool.
    let low = pool.within(&(PhysAddr(0)..PhysAddr(ABOVE)));
    let low_end = low.as_ref().map_or(0, |low| low.envelope().end.0.next_multiple_of(block));
    let mut found: Vec<Assumption> = Vec::new();
    let mut add = |words: String, parts: Vec<Part>| {
        found.push(Assumption { words, view: View::of_parts(parts), upper: Linear::default() });
    };
    let part = |base: u64, end: u64, inside: u64| Part { base, size: end - base, inside, interleave: None };
    add("addresses as they are".to_owned(), vec![part(0, end, 0)]);
    for low_base in if start == 0 { vec![0] } else { vec![0, start] } {
        if low_base != 0 {
            add(format!("memory that begins at {low_base:#x}"), vec![part(low_base, end, 0)]);
        }
        if end <= ABOVE {
            continue;
        }
        let below = (low_end > low_base).then(|| part(low_base, low_end, 0));
        let least = low_end.saturating_sub(low_base);
        // A hole is at most as large as the memory below.
        for inside in (least..ABOVE).step_by(1 << bits) {
            let words = format!("addresses above 4 GiB less {:#x}", ABOVE - inside);
            add(words, below.iter().cloned().chain([part(ABOVE, end, inside)]).collect());
        }
        if low_base == 0 && low_end != 0 {
            let step = TOP_STEP.max(block);
            for top in (ABOVE + step..end).step_by(step as usize) {
                for hole in (low_end..=ABOVE.saturating_sub(end - top)).step_by(1 << bits) {
                    let words = format!("addresses above {top:#x} where the hole from {hole:#x} is");
                    add(words, vec![part(0, low_end, 0), part(ABOVE, top, ABOVE), part(top, end, hole)]);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtint_units::Random;

    #[test]
    fn linear_maps_are_known_from_their_values() {
        let mut random = Random::new(3);
        let columns: Vec<u64> = (0..10).map(|_| random.below(32)).collect();
        let map = |vector: u64| (0..10).filter(|at| vector >> at & 1 == 1).fold(0, |sum, at: usize| sum ^ columns[at]);
        let mut linear = Linear::default();
        for _ in 0..40 {
            let vector = random.below(1 << 10);
            assert!(linear.add(vector, map(vector)));
            let other = random.below(1 << 10);
            assert!(linear.value(other).is_err() || linear.value(other) == Ok(map(other)));
        }
        assert!(!linear.add(0x155, map(0x155) ^ 1));
        assert_eq!(linear.value(0x2aa), Ok(map(0x2aa)));
    }

    #[test]
    fn assumptions_put_no_two_bytes_in_one_place() {
        let pool = Pool::new([PhysAddr(0)..PhysAddr(3 << 30), PhysAddr(4 << 30)..PhysAddr((8 << 30) + (1 << 29))], 64);
        let pool = pool.unwrap();
        let all = assumptions(&pool, 28);
        assert!(all.iter().any(|one| one.words == "addresses above 4 GiB less 0x40000000"));
        assert!(all.iter().any(|one| one.words == "addresses above 0x200000000 where the hole from 0xc0000000 is"));
        for assumption in &all {
            let mut taken: Vec<(u64, u64)> =
                assumption.view.parts().iter().map(|part| (part.inside, part.inside + part.size)).collect();
            taken.sort_unstable();
            assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{assumption:?}");
        }
    }
}
