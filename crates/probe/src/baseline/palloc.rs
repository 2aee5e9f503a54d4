//! PALLOC's detector: two pointer chases on two cores, which slow each other down in one bank.
//!
//! Yun, Mancuso, Wu, Pellizzoni: *PALLOC: DRAM Bank-Aware Memory Allocator for Performance Isolation on Multicore
//! Platforms*, RTAS 2014, section IV-B; the step for pairs is from the README of its detector
//! (github.com/heechul/palloc).

use super::{Found, LOWEST, Meter, Outcome, Stopped, mask_of, two_groups};
use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use memtint_units::PhysAddr;

/// PALLOC's detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Palloc {
    /// Banks of the machine, 1 or more, from the specification of its memory.
    pub banks: u32,
    /// Timed accesses for each bit or pair of bits, 1 or more; rounded up to whole lists.
    pub accesses: u32,
    /// Entries of a list: twice the ways of the last-level cache, so that all of them miss it.
    pub entries: u32,
    /// Binary logarithm of the distance of two entries in bytes; only lower bits are examined.
    pub distance_bits: u32,
}

impl Palloc {
    /// The detector as published: nine million accesses (its script), 32 entries (section IV-B), 16 MiB apart (the program;
    /// section IV-B has 8 MiB).
    #[must_use]
    pub fn published(banks: u32) -> Palloc {
        Palloc { banks, accesses: 9_000_000, entries: 32, distance_bits: 24 }
    }

    /// Searches for bank bits.
    ///
    /// One core walks a list with entries so far apart that all are in one bank. The other walks the same list, shifted
    /// by `1 << bit`: in the same bank, it is slow. Bits that make it fast select banks. If their number is the one
    /// needed for the banks, they are the functions. If there are more, pairs of them are combined: a pair that is slow
    /// again is a function.
    ///
    /// The program leaves the separation into two groups to the reader of its table. Here it is the widest gap, and the
    /// same threshold applies to bits and pairs.
    ///
    /// # Errors
    /// Those of the oracle.
    pub fn run(&self, oracle: &mut dyn Oracle, seed: u64) -> Result<Outcome, OracleError> {
        let mut meter = Meter::new(oracle, seed);
        let result = self.search(&mut meter)?;
        Ok(meter.outcome(result))
    }

    fn search(&self, meter: &mut Meter<'_>) -> Result<Result<Found, Stopped>, OracleError> {
        let Some(base) = self.base(meter.oracle.pool()) else { return Ok(Err(Stopped::NoMemory)) };
        let mut latencies = Vec::new();
        for bit in LOWEST..self.distance_bits {
            let Some(latency) = self.latency(meter, base, 1 << bit)? else { return Ok(Err(Stopped::NoOtherCore)) };
            latencies.push((bit, latency));
        }
        let Some(line) = two_groups(latencies.iter().map(|&(_, latency)| latency)) else {
            return Ok(Err(Stopped::NoFunction));
        };
        let fast: Vec<u32> = latencies.iter().filter(|&&(_, latency)| latency < line).map(|&(bit, _)| bit).collect();
        let mut functions: Vec<u64> = Vec::new();
        let needed = self.banks.ilog2();
        if fast.len() > needed as usize {
            for (at, &one) in fast.iter().enumerate() {
                for &other in &fast[at + 1..] {
                    let both = mask_of([one, other]);
                    if self.latency(meter, base, both)?.is_some_and(|latency| latency >= line) {
                        functions.push(both);
                    }
                }
            }
        }
        let paired = functions.iter().fold(0, |all, pair| all | pair);
        functions.extend(fast.iter().map(|bit| 1 << bit).filter(|bit| paired & bit == 0));
        if functions.len() != needed as usize {
            return Ok(Err(Stopped::Functions(functions.len() as u32, needed)));
        }
        functions.sort_unstable();
        Ok(Ok(Found { functions, ..Found::default() }))
    }

    /// The base of a list that is in the pool, as are its copies shifted by any offset.
    fn base(&self, pool: &Pool) -> Option<u64> {
        let (distance, bytes) = (1u64 << self.distance_bits, u64::from(self.entries) << self.distance_bits);
        let fits = |piece: std::ops::Range<PhysAddr>| {
            let base = piece.start.0.next_multiple_of(distance);
            (base + bytes <= piece.end.0 && pool.comparable(PhysAddr(base), PhysAddr(base + bytes - 1))).then_some(base)
        };
        pool.pieces().find_map(fits)
    }

    /// Ticks of an access to the shifted list, while another core walks the original. The two cores are at different
    /// entries: the program starts one long before the other.
    fn latency(&self, meter: &mut Meter<'_>, base: u64, offset: u64) -> Result<Option<f64>, OracleError> {
        let list = |offset: u64, first: u64| -> Vec<PhysAddr> {
            let entries = u64::from(self.entries);
            let at = |entry| base + offset + (((first + entry) % entries) << self.distance_bits);
            (0..entries).map(|entry| PhysAddr(at(entry))).collect()
        };
        let rounds = self.accesses.div_ceil(self.entries);
        let ticks = meter.ticks_beside(&list(offset, 0), &list(0, 1), rounds)?;
        Ok(ticks.map(|ticks| ticks as f64 / f64::from(rounds * self.entries)))
    }
}
