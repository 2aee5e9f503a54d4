//! DRAMA: collects sets of addresses that conflict with a base, and all masks of few bits that are constant on them.
//!
//! Pessl, Gruss, Maurice, Schwarz, Mangard: *DRAMA: Exploiting DRAM Addressing for Cross-CPU Attacks*, USENIX Security
//! 2016, and its released program (github.com/isec-tugraz/drama, `re/measure.cpp`).

use super::{Found, LOWEST, Meter, Outcome, Stopped, constant_masks, independent, slow_group};
use crate::oracle::{Oracle, OracleError};
use memtint_units::PhysAddr;
use std::collections::BTreeSet;

/// Addresses of the pool for each set, and measurements of each base.
const ADDRESSES_PER_SET: usize = 125;
/// Number of measurements of a pair, of which the minimum counts.
const REPEATS: u32 = 4;
/// Number of empty histogram bins below a set.
const EMPTY: u64 = 5;
/// Number of attempts to find a set.
const TRIES: u32 = 10;
/// The most bits of a function.
const BITS_MAX: u32 = 7;

/// The most addresses that a set may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetLimit {
    /// Its share of the remaining addresses, as published. The number of measurements does not depend on the number of
    /// addresses, so after some sets no further one is small enough, and the search ends early.
    Left,
    /// Twice its share of all measurements, as in DRAMA++ (github.com/CSL-KU/drama-pp).
    TwiceMeasured,
}

/// DRAMA's reverse engineering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drama {
    /// Number of sets to find: the number of banks.
    pub sets: u32,
    /// Reads of each address in one measurement, 1 or more.
    pub reads: u32,
    /// Addresses are multiples of this, a power of two of at least 64; the effect of lower bits is not visible.
    pub step_bytes: u64,
    /// The most addresses that a set may have.
    pub limit: SetLimit,
}

impl Drama {
    /// The program as published: 5000 reads, every other line.
    #[must_use]
    pub fn published(sets: u32) -> Drama {
        Drama { sets, reads: 5000, step_bytes: 128, limit: SetLimit::Left }
    }

    /// Searches for bank functions.
    ///
    /// A base is measured with random addresses of a pool. Those above a gap in the histogram of times form a set,
    /// which is removed from the pool; the next base comes from the remaining addresses. All masks of up to seven bits
    /// that are constant on each set are functions, except masks with the same value on all sets and sums of other
    /// functions. When no further set is found, the result is the functions of the sets so far.
    ///
    /// The released program intersects a set with itself, so only its first set counts; here all sets count, as the
    /// paper describes. Its masks have 32 bits; here they have all bits of the pool.
    ///
    /// # Errors
    /// Those of the oracle.
    pub fn run(&self, oracle: &mut dyn Oracle, seed: u64) -> Result<Outcome, OracleError> {
        let mut meter = Meter::new(oracle, seed);
        let result = self.search(&mut meter)?;
        Ok(meter.outcome(result))
    }

    fn search(&self, meter: &mut Meter<'_>) -> Result<Result<Found, Stopped>, OracleError> {
        let wanted = self.sets as usize * ADDRESSES_PER_SET;
        if meter.oracle.pool().bytes() / self.step_bytes < 2 * wanted as u64 {
            return Ok(Err(Stopped::NoMemory));
        }
        let mut base = self.address(meter);
        let mut left = BTreeSet::new();
        while left.len() < wanted {
            left.insert(self.address(meter));
        }
        let mut left: Vec<u64> = left.into_iter().collect();
        let mut sets: Vec<Vec<u64>> = Vec::new();
        while sets.len() < self.sets as usize && !left.is_empty() {
            let Some(set) = self.set(meter, base, &left)? else { break };
            let found: BTreeSet<u64> = set.iter().copied().collect();
            left.retain(|addr| !found.contains(addr));
            sets.push(set);
            if !left.is_empty() {
                base = left[meter.random.below(left.len() as u64) as usize];
            }
        }
        if sets.is_empty() {
            return Ok(Err(Stopped::NoSet));
        }
        let bits: Vec<u32> = (LOWEST..meter.oracle.pool().bits()).collect();
        let functions = independent(&constant_masks(&sets, &bits, BITS_MAX, |_| 0), &sets);
        Ok(if functions.is_empty() { Err(Stopped::NoFunction) } else { Ok(Found { functions, ..Found::default() }) })
    }

    fn address(&self, meter: &mut Meter<'_>) -> u64 {
        let pool = meter.oracle.pool();
        loop {
            let addr = pool.any(&mut meter.random).0 & !(self.step_bytes - 1);
            if pool.contains(PhysAddr(addr)) {
                return addr;
            }
        }
    }

    /// Addresses that conflict with the base; `None` when they cannot be separated.
    fn set(&self, meter: &mut Meter<'_>, base: u64, left: &[u64]) -> Result<Option<Vec<u64>>, OracleError> {
        let sets = self.sets as usize;
        let most = match self.limit {
            SetLimit::Left => left.len() / sets,
            SetLimit::TwiceMeasured => 2 * ADDRESSES_PER_SET,
        };
        for _ in 0..TRIES {
            let mut times = Vec::new();
            for _ in 1..sets * ADDRESSES_PER_SET {
                let addr = left[meter.random.below(left.len() as u64) as usize];
                times.push((self.time(meter, base, addr)?, addr));
            }
            let Some([first, last]) = slow_group(times.iter().map(|&(time, _)| time), EMPTY, &(0..u64::MAX)) else {
                continue;
            };
            let slow = times.iter().filter(|(time, _)| (first..=last).contains(time));
            let set: Vec<u64> = slow.map(|&(_, addr)| addr).collect();
            if set.len() > 1 && set.len() <= most {
                return Ok(Some(set));
            }
        }
        Ok(None)
    }

    /// The minimum of four mean times to read both, in whole ticks.
    fn time(&self, meter: &mut Meter<'_>, base: u64, addr: u64) -> Result<u64, OracleError> {
        let mut least = u64::MAX;
        for _ in 0..REPEATS {
            let ticks = meter.ticks(&[PhysAddr(base), PhysAddr(addr)], self.reads)?;
            least = least.min(ticks / u64::from(self.reads));
        }
        Ok(least)
    }
}
