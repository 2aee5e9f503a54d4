//! BPM's Algorithm 1: rows from single bits, columns from pairs, banks from the remaining bits, XOR functions from
//! pairs of these.
//!
//! Liu, Cui, Xing, Bao, Chen, Wu: *A Software Memory Partition Approach for Eliminating Bank-level Interference in Multicore
//! Systems*, PACT 2012, section 3.3.

use super::{Found, LOWEST, Meter, Outcome, Stopped, mask_of, two_groups};
use crate::oracle::{Oracle, OracleError};

/// BPM's Algorithm 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bpm {
    /// Number of alternating accesses to two addresses, 1 or more.
    pub repeats: u32,
}

impl Bpm {
    /// The algorithm as published: at least ten million times.
    #[must_use]
    pub fn published() -> Bpm {
        Bpm { repeats: 10_000_000 }
    }

    /// Searches for row, column and bank bits.
    ///
    /// According to the paper, latencies fall into two groups *easily*; it does not describe how to separate them. Here
    /// the threshold is the middle of the widest gap in step 1. The other steps use the same threshold, so they find
    /// one group or two. Bits within a line, which the paper does not mention, are columns.
    ///
    /// # Errors
    /// Those of the oracle.
    pub fn run(&self, oracle: &mut dyn Oracle, seed: u64) -> Result<Outcome, OracleError> {
        let mut meter = Meter::new(oracle, seed);
        let result = self.search(&mut meter)?;
        Ok(meter.outcome(result))
    }

    fn search(&self, meter: &mut Meter<'_>) -> Result<Result<Found, Stopped>, OracleError> {
        // Step 1: a bit that conflicts alone is a row bit.
        let mut latencies = Vec::new();
        for bit in LOWEST..meter.oracle.pool().bits() {
            if let Some(latency) = self.latency(meter, 1 << bit)? {
                latencies.push((bit, latency));
            }
        }
        let Some(line) = two_groups(latencies.iter().map(|&(_, latency)| latency)) else {
            return Ok(Err(Stopped::NoRowBit));
        };
        let (rows, remain): (Vec<(u32, f64)>, Vec<_>) = latencies.iter().partition(|&&(_, latency)| latency >= line);
        let (rows, remain) = (rows.iter().map(|row| row.0), remain.iter().map(|rest| rest.0));
        let row = rows.clone().next().expect("two groups have a slower one");
        // Step 2: a bit that conflicts together with a row bit is a column bit.
        let (mut columns, mut left) = ((0..LOWEST).collect::<Vec<u32>>(), Vec::new());
        for bit in remain {
            let column = self.conflicts(meter, mask_of([row, bit]), line)?;
            if column { columns.push(bit) } else { left.push(bit) }
        }
        // Step 3: two bits that conflict together form a function.
        let mut functions: Vec<u64> = Vec::new();
        for (at, &one) in left.iter().enumerate() {
            for &other in &left[at + 1..] {
                let both = mask_of([one, other]);
                if self.conflicts(meter, both, line)? {
                    functions.push(both);
                }
            }
        }
        let paired = functions.iter().fold(0, |all, pair| all | pair);
        functions.extend(left.iter().map(|bit| 1 << bit).filter(|bit| paired & bit == 0));
        if functions.is_empty() {
            return Ok(Err(Stopped::NoFunction));
        }
        functions.sort_unstable();
        Ok(Ok(Found { functions, row_bits: Some(mask_of(rows)), column_bits: Some(mask_of(columns)) }))
    }

    fn conflicts(&self, meter: &mut Meter<'_>, difference: u64, line: f64) -> Result<bool, OracleError> {
        Ok(self.latency(meter, difference)?.is_some_and(|latency| latency >= line))
    }

    /// Ticks of alternating accesses to two addresses with this difference; `None` when the pool has none.
    fn latency(&self, meter: &mut Meter<'_>, difference: u64) -> Result<Option<f64>, OracleError> {
        let Some(pair) = meter.pair(difference) else { return Ok(None) };
        let ticks = meter.ticks(&pair, self.repeats)?;
        Ok(Some(ticks as f64 / (2.0 * f64::from(self.repeats))))
    }
}
