//! The map from line numbers to set numbers.

use crate::error::{CacheError, refuse};
use memtint_map::gf2;

/// At most this many bits of set number (slice and set together).
const INDEX_BITS_MAX: usize = 24;
const CHUNK_BITS: u32 = 8;
const CHUNK_ENTRIES: usize = 1 << CHUNK_BITS;

/// A linear map over GF(2) from line numbers to set numbers.
///
/// Set number bit `j`, for `j < low_bits`, is line bit `j`; so `line >> low_bits` and the set number determine the
/// line. The other bits are XOR functions, looked up a byte of the line at a time.
#[derive(Clone, Debug)]
pub(crate) struct SetIndex {
    low_bits: u32,
    bits: u32,
    first_shift: u32,
    tables: Vec<[u32; CHUNK_ENTRIES]>,
}

impl SetIndex {
    /// Makes the map from XOR functions of *line number* bits, in any order; `field` names them in messages.
    ///
    /// # Errors
    /// When the functions are dependent (some set would never be used) or too many.
    pub(crate) fn new(masks: &[u64], field: &str) -> Result<SetIndex, CacheError> {
        if masks.len() > INDEX_BITS_MAX {
            return refuse(field, format!("{} functions", masks.len()), format!("at most {INDEX_BITS_MAX}"));
        }
        if gf2::Basis::spanning(masks.iter().copied()).vectors().len() != masks.len() {
            return refuse(
                field,
                "a list with dependent functions",
                "set bits and slice functions that are independent",
            );
        }
        let low_bits = (0..64).take_while(|bit| masks.contains(&(1u64 << bit))).count() as u32;
        let single = |mask: u64| mask.is_power_of_two() && mask.trailing_zeros() < low_bits;
        let hashed: Vec<u64> = masks.iter().copied().filter(|&mask| !single(mask)).collect();
        let used = hashed.iter().fold(0, |used, mask| used | mask);
        let (first, end) = match used {
            0 => (0, 0),
            _ => (used.trailing_zeros() / CHUNK_BITS, (64 - used.leading_zeros()).div_ceil(CHUNK_BITS)),
        };
        let tables = (first..end).map(|chunk| table(&hashed, chunk * CHUNK_BITS, low_bits)).collect();
        Ok(SetIndex { low_bits, bits: masks.len() as u32, first_shift: first * CHUNK_BITS, tables })
    }

    /// Counts the sets.
    pub(crate) fn sets(&self) -> usize {
        1 << self.bits
    }

    /// Returns the number of lowest line bits that are set number bits.
    pub(crate) fn low_bits(&self) -> u32 {
        self.low_bits
    }

    /// Gives the set of a line.
    #[inline(always)]
    pub(crate) fn set(&self, line: u64) -> usize {
        let mut set = line as u32 & ((1 << self.low_bits) - 1);
        let mut rest = line >> self.first_shift;
        for table in &self.tables {
            set ^= table[rest as usize % CHUNK_ENTRIES];
            rest >>= CHUNK_BITS;
        }
        set as usize
    }
}

fn table(hashed: &[u64], shift: u32, low_bits: u32) -> [u32; CHUNK_ENTRIES] {
    let value = |line: u64| {
        let bit = |(row, mask): (usize, &u64)| ((line & mask).count_ones() & 1) << (row as u32 + low_bits);
        hashed.iter().enumerate().map(bit).fold(0, |set, bit| set | bit)
    };
    std::array::from_fn(|byte| value((byte as u64) << shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_agree_with_the_functions_bit_by_bit() {
        // Slice bit from line bit 0, set bits above it (P4080), and a hash over the whole word.
        for masks in [vec![0b1, 0b10, 0b100], vec![0b10, 0b100, 0b1], vec![1, 2, 1 << 40 | 1 << 17 | 8, 1 << 9 | 16]] {
            let index = SetIndex::new(&masks, "set_bits").unwrap();
            let mut line = 0x9e37_79b9_7f4a_7c15u64;
            let mut values = std::collections::BTreeMap::new();
            for _ in 0..2000 {
                line = line.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x14057b7e_f767814f);
                let vector: Vec<u32> = masks.iter().map(|mask| (line & mask).count_ones() & 1).collect();
                assert_eq!(*values.entry(vector).or_insert(index.set(line)), index.set(line));
                let low = (1 << index.low_bits()) - 1;
                assert_eq!(index.set(line) as u64 & low, line & low);
            }
            assert_eq!(values.len(), index.sets());
        }
    }

    #[test]
    fn dependent_functions_are_refused() {
        assert!(SetIndex::new(&[1, 2, 3], "llc.slice_functions").is_err());
    }
}
