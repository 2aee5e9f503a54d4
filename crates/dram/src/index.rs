//! Ranks, banks, rows and cycles: one type each, so that none of them passes for another.
//!
//! A bank has two numbers: over all ranks of its channel ([`BankIndex`]), and inside its rank ([`BankInRank`]). They are equal
//! on a channel of one rank, so a mistake shows on machines with two only. [`Geometry`](crate::Geometry) turns one into the other.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Rank of a channel, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RankIndex(pub u32);

/// Bank of a channel, over all its ranks: `rank * banks_per_rank + bank in rank`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BankIndex(pub u32);

/// Bank inside its rank: `group * banks_per_group + bank in group`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BankInRank(pub u32);

/// Row of a bank, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RowIndex(pub u32);

/// A point in time: clock cycles of a channel since the start of its simulation. Distances between two are plain `u64`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cycle(pub u64);

macro_rules! position {
    ($($kind:ty),*) => {$(
        impl $kind {
            /// Gives the place in a table that has an entry for each.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

position!(RankIndex, BankIndex, BankInRank, RowIndex);

impl Cycle {
    /// Start of the simulation.
    pub const ZERO: Cycle = Cycle(0);

    /// Counts the cycles since an earlier one; 0 if that one is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Cycle) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Goes back in time, at most to the start.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, cycles: u64) -> Cycle {
        Cycle(self.0.saturating_sub(cycles))
    }

    /// Goes ahead in time, at most to [`NEVER`](crate::NEVER).
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, cycles: u64) -> Cycle {
        Cycle(self.0.saturating_add(cycles))
    }
}

impl Add<u64> for Cycle {
    type Output = Cycle;

    #[inline]
    fn add(self, cycles: u64) -> Cycle {
        Cycle(self.0 + cycles)
    }
}

impl AddAssign<u64> for Cycle {
    #[inline]
    fn add_assign(&mut self, cycles: u64) {
        self.0 += cycles;
    }
}

impl Sub for Cycle {
    type Output = u64;

    /// The cycles since `earlier`, which must not be later.
    #[inline]
    fn sub(self, earlier: Cycle) -> u64 {
        self.0 - earlier.0
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
