//! Linear algebra over GF(2), on vectors of at most 64 coordinates held in a `u64`.
//!
//! Coordinate `i` is bit `i`; addition is XOR; every routine is exact.

/// Gives the parity of the bits that mask and value share: the value of an XOR function.
#[inline]
#[must_use]
pub fn parity(value: u64, mask: u64) -> u64 {
    u64::from((value & mask).count_ones() & 1)
}

/// Walks the positions of the set bits, ascending.
pub fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}

/// Sums the vectors whose index is a set bit of `choice`. There are at most 64 vectors; bits beyond the last are
/// ignored.
#[must_use]
pub fn sum(vectors: &[u64], choice: u64) -> u64 {
    let chosen = vectors.iter().enumerate().filter(|(number, _)| choice >> number & 1 == 1);
    chosen.fold(0, |sum, (_, vector)| sum ^ vector)
}

/// Holds the reduced row echelon basis of a span.
///
/// Invariants, which make it canonical (equal spans give equal bases): the *pivot* of a vector is its highest
/// coordinate; pivots differ; no other vector has a pivot's coordinate; vectors are sorted by pivot, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Basis {
    vectors: Vec<u64>,
}

impl Basis {
    /// Spans the given vectors, which may depend on each other.
    #[must_use]
    pub fn spanning(vectors: impl IntoIterator<Item = u64>) -> Basis {
        let mut basis = Basis::default();
        for vector in vectors {
            basis.insert(vector);
        }
        basis
    }

    /// Adds a vector to the span; `false` when it was in the span already.
    pub fn insert(&mut self, vector: u64) -> bool {
        let rest = self.reduce(vector);
        if rest == 0 {
            return false;
        }
        let pivot = pivot_mask(rest);
        for known in &mut self.vectors {
            if *known & pivot != 0 {
                *known ^= rest;
            }
        }
        let place = self.vectors.partition_point(|&known| pivot_mask(known) < pivot);
        self.vectors.insert(place, rest);
        true
    }

    /// Gives the one member of `vector + span` that has no pivot coordinate.
    #[must_use]
    pub fn reduce(&self, vector: u64) -> u64 {
        self.vectors.iter().fold(vector, |rest, &known| if rest & pivot_mask(known) != 0 { rest ^ known } else { rest })
    }

    /// Returns whether the vector is in the span.
    #[must_use]
    pub fn contains(&self, vector: u64) -> bool {
        self.reduce(vector) == 0
    }

    /// Gives the dimension of the span.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// Gives the vectors, sorted by pivot.
    #[must_use]
    pub fn vectors(&self) -> &[u64] {
        &self.vectors
    }

    /// Gives the pivots' coordinates as a mask.
    #[must_use]
    pub fn pivots(&self) -> u64 {
        self.vectors.iter().fold(0, |mask, &vector| mask | pivot_mask(vector))
    }

    /// Walks all `2^rank` vectors of the span; the rank must be below 64.
    pub fn span(&self) -> impl Iterator<Item = u64> + '_ {
        debug_assert!(self.rank() < 64);
        (0..1u64 << self.rank()).map(|choice| sum(&self.vectors, choice))
    }
}

fn pivot_mask(vector: u64) -> u64 {
    debug_assert!(vector != 0);
    1 << (63 - vector.leading_zeros())
}

/// Gives the indices of earlier functions whose XOR equals function `index`, or `None` when it is independent of them.
///
/// Complexity: quadratic in `index`. At most 64 functions.
#[must_use]
pub fn dependence(functions: &[u64], index: usize) -> Option<Vec<usize>> {
    // Each row holds its value and the set of functions that sum to it.
    let mut rows: Vec<(u64, u64)> = Vec::new();
    for (number, &function) in functions.iter().enumerate().take(index + 1) {
        let (mut value, mut origin) = (function, 1u64 << number);
        for &(known, known_origin) in &rows {
            if value & pivot_mask(known) != 0 {
                value ^= known;
                origin ^= known_origin;
            }
        }
        if value != 0 {
            rows.push((value, origin));
        } else if number == index {
            return Some(bits(origin & !(1 << index)).map(|bit| bit as usize).collect());
        }
    }
    None
}

/// Maps a vector of function values to the index of its coset modulo a subspace.
///
/// The index is canonical: the coset's reduced member (see [`Basis::reduce`]) with the pivot coordinates, which are zero
/// in it, squeezed out. Each of its bits is therefore an XOR of function values, and hence an XOR of address bits.
#[derive(Clone, Debug)]
pub struct Quotient {
    subspace: Basis,
    /// Coordinates that are no pivot, ascending; index bit `i` is coordinate `free[i]` of the reduced vector.
    free: Vec<u32>,
}

impl Quotient {
    /// Divides the space of `dimension` coordinates by the span of `vectors`.
    #[must_use]
    pub fn new(dimension: u32, vectors: impl IntoIterator<Item = u64>) -> Quotient {
        let subspace = Basis::spanning(vectors);
        let pivots = subspace.pivots();
        let free = (0..dimension).filter(|&coordinate| pivots >> coordinate & 1 == 0).collect();
        Quotient { subspace, free }
    }

    /// Gives the number of index bits; there are `2^index_bits` cosets.
    #[must_use]
    pub fn index_bits(&self) -> u32 {
        self.free.len() as u32
    }

    /// Gives the subspace that was divided by.
    #[must_use]
    pub fn subspace(&self) -> &Basis {
        &self.subspace
    }

    /// Gives the index of the vector's coset, in `0..2^index_bits`.
    #[must_use]
    pub fn index(&self, vector: u64) -> u64 {
        let reduced = self.subspace.reduce(vector);
        self.free.iter().enumerate().fold(0, |index, (bit, &coordinate)| index | (reduced >> coordinate & 1) << bit)
    }

    /// Gives the reduced member of the coset with this index, which must be below `2^index_bits`.
    #[must_use]
    pub fn member(&self, index: u64) -> u64 {
        bits(index).fold(0, |vector, bit| vector | 1 << self.free[bit as usize])
    }

    /// Walks the members of the coset with this index, `2^dim(subspace)` of them, unsorted.
    pub fn members(&self, index: u64) -> impl Iterator<Item = u64> + '_ {
        let first = self.member(index);
        self.subspace.span().map(move |vector| vector ^ first)
    }
}

/// Gives for each address bit below `address_bits` the vector of function values that this bit alone produces.
#[must_use]
pub fn columns(functions: &[u64], address_bits: u32) -> Vec<u64> {
    let column = |bit: u32| {
        functions.iter().enumerate().fold(0, |vector, (row, function)| vector | (function >> bit & 1) << row)
    };
    (0..address_bits).map(column).collect()
}

/// Gives the vector of function values at an address: bit `i` is function `i`.
#[must_use]
pub fn evaluate(functions: &[u64], address: u64) -> u64 {
    functions.iter().enumerate().fold(0, |vector, (row, &function)| vector | parity(address, function) << row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_canonical() {
        let a = Basis::spanning([0b110, 0b011, 0b101]);
        let b = Basis::spanning([0b101, 0b110]);
        assert_eq!(a, b);
        assert_eq!(a.rank(), 2);
        assert!(a.contains(0b011) && !a.contains(0b001));
        let mut span: Vec<u64> = a.span().collect();
        span.sort_unstable();
        assert_eq!(span, [0b000, 0b011, 0b101, 0b110]);
    }

    #[test]
    fn dependence_names_the_summands() {
        let functions = [0b0011, 0b0110, 0b1000, 0b0101];
        assert_eq!(dependence(&functions, 2), None);
        assert_eq!(dependence(&functions, 3), Some(vec![0, 1]));
        assert_eq!(dependence(&[0], 0), Some(vec![]));
    }

    #[test]
    fn quotient_indices_are_dense_and_constant_on_cosets() {
        let quotient = Quotient::new(4, [0b0110, 0b1001]);
        assert_eq!(quotient.index_bits(), 2);
        for index in 0..4 {
            let members: Vec<u64> = quotient.members(index).collect();
            assert_eq!(members.len(), 4);
            assert!(members.iter().all(|&member| quotient.index(member) == index));
        }
    }
}
