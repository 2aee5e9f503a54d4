//! DRAMDig: knowledge of the memory's geometry narrows down the bits that may select banks.
//!
//! Wang, Zhang, Cheng, Nepal: *DRAMDig: A Knowledge-assisted Tool to Uncover DRAM Address Mapping*, DAC 2020, and its
//! released program (github.com/dramdig/DRAMDig).

use super::{Found, LOWEST, Meter, Outcome, Stopped, constant_masks, independent, mask_of, slow_group};
use crate::oracle::{Oracle, OracleError};
use memtint_map::gf2;
use memtint_units::PhysAddr;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Number of measurements of a pair.
const ROUNDS: u32 = 6;
/// Pairs for each bit, and the factor of their reads over other pairs.
const PAIRS: u32 = 10;
const LONGER: u32 = 5;
/// The fewest addresses to sort into banks.
const ADDRESSES_MIN: usize = 5000;
/// Number of empty histogram bins below a set, and the farthest distance of its beginning from the threshold.
const EMPTY: u64 = 10;
const ABOVE_MAX: u64 = 100;
/// The most bits of a function.
const BITS_MAX: u32 = 7;

/// DRAMDig with its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DramDig {
    /// Total number of banks, from the modules' SPD.
    pub banks: u32,
    /// Number of address bits that select a row, from the SPD.
    pub row_bits: u32,
    /// Number of address bits that select a column, from the SPD, including the three bits of a word.
    pub column_bits: u32,
    /// Number of address bits, from the size of memory.
    pub address_bits: u32,
    /// Reads of each address in one round of a measurement, 1 or more.
    pub reads: u32,
    /// The most addresses to sort into banks. The program has no such bound, and may take extremely long.
    pub addresses_max: usize,
    /// The most bases tried for each bank. The program has no such bound, and may not terminate.
    pub bases_max: u32,
}

impl DramDig {
    /// The program as published: 2000 reads.
    #[must_use]
    pub fn published(banks: u32, row_bits: u32, column_bits: u32, address_bits: u32) -> DramDig {
        let (addresses_max, bases_max) = (1 << 16, 2);
        DramDig { banks, row_bits, column_bits, address_bits, reads: 2000, addresses_max, bases_max }
    }

    /// Searches for bank functions, row bits and column bits.
    ///
    /// 1. Bits that conflict alone are row bits. Row bits that also select banks do not conflict alone, so the
    ///    threshold is in the widest gap among the slowest latencies, as many as there are row bits.
    /// 2. Bits that conflict together with a row bit are column bits. All other bits may select banks.
    /// 3. Addresses with all combinations of these bits are sorted into banks, by measurement with a base.
    /// 4. Masks of up to seven of those bits that agree in 98 of 100 addresses of each bank are functions, except masks
    ///    with the same value on all banks and sums of other functions. One mask with more than two bits is kept: the
    ///    first with which the functions number all banks.
    /// 5. The higher bit of a function of two bits is a row bit if the two conflict together. The lowest remaining bits
    ///    are columns, except the lowest bit of the widest function.
    ///
    /// The released program also measures bits within a line; here these are columns without measurement. It intersects
    /// a bank with itself, so only its first bank counts; here all banks count. After it has found all banks, it
    /// continues with the remaining addresses. When only the last bank remains and no address is fast, it never
    /// terminates; here the remaining addresses form the last bank.
    ///
    /// # Errors
    /// Those of the oracle.
    pub fn run(&self, oracle: &mut dyn Oracle, seed: u64) -> Result<Outcome, OracleError> {
        let mut meter = Meter::new(oracle, seed);
        let result = self.search(&mut meter)?;
        Ok(meter.outcome(result))
    }

    fn search(&self, meter: &mut Meter<'_>) -> Result<Result<Found, Stopped>, OracleError> {
        let mut latencies = Vec::new();
        for bit in LOWEST..self.address_bits {
            latencies.push((bit, self.latency(meter, 1 << bit)?));
        }
        let Some(line) = self.line(&latencies) else { return Ok(Err(Stopped::NoRowBit)) };
        let slow = latencies.iter().filter(|&&(_, latency)| latency >= line);
        let mut rows: Vec<u32> = slow.map(|&(bit, _)| bit).collect();
        let row = rows[rows.len() / 2];
        let mut columns: Vec<u32> = (0..LOWEST).collect();
        let mut rest: Vec<u32> = Vec::new();
        for bit in (LOWEST..self.address_bits).filter(|bit| !rows.contains(bit)) {
            let column = self.latency(meter, mask_of([row, bit]))? >= line;
            if column { columns.push(bit) } else { rest.push(bit) }
        }
        let addresses = match self.addresses(meter, &rest) {
            Ok(addresses) => addresses,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let Some(sets) = self.sets(meter, addresses, line as u64)? else { return Ok(Err(Stopped::Endless)) };
        let mut masks = constant_masks(&sets, &rest, BITS_MAX, |of| of.saturating_sub(1) / 50);
        // Masks of few bits first, and among equal numbers of bits from the highest down: of a sum, the last mask is
        // dropped.
        masks.sort_by_key(|mask| (mask.count_ones(), Reverse(*mask)));
        let functions = independent(&masks, &sets);
        let kept = self.numbering(&functions, &sets);
        if kept.is_empty() {
            return Ok(Err(Stopped::NoFunction));
        }
        if let Err(stopped) = self.more_rows(meter, &functions, line, &mut rows)? {
            return Ok(Err(stopped));
        }
        self.more_columns(&functions, &mut columns);
        Ok(Ok(Found { functions: kept, row_bits: Some(mask_of(rows)), column_bits: Some(mask_of(columns)) }))
    }

    /// The mean time over all rounds to read both addresses of a pair, in whole ticks.
    fn time(meter: &mut Meter<'_>, pair: [PhysAddr; 2], reads: u32) -> Result<u64, OracleError> {
        let mut sum = 0;
        for _ in 0..ROUNDS {
            sum += meter.ticks(&pair, reads)? / u64::from(reads);
        }
        Ok(sum / u64::from(ROUNDS))
    }

    /// The mean time of pairs with this difference; 0 when the pool has none.
    fn latency(&self, meter: &mut Meter<'_>, difference: u64) -> Result<f64, OracleError> {
        let mut sum = 0;
        for _ in 0..PAIRS {
            if let Some(pair) = meter.pair(difference) {
                sum += DramDig::time(meter, pair, LONGER * self.reads)?;
            }
        }
        Ok(sum as f64 / f64::from(PAIRS))
    }

    /// The threshold above which latencies are conflicts.
    fn line(&self, latencies: &[(u32, f64)]) -> Option<f64> {
        let mut sorted: Vec<f64> = latencies.iter().map(|&(_, latency)| latency).collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        sorted.truncate(self.row_bits as usize);
        let gap = |at: &usize| sorted[*at] - sorted[at + 1];
        // The first of equal gaps.
        let widest = (0..sorted.len().saturating_sub(1)).rev().max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
        (gap(&widest) > 0.0).then(|| f64::midpoint(sorted[widest], sorted[widest + 1]).floor())
    }

    /// Addresses with all combinations of some bits and equal other bits below the highest, in as many aligned blocks
    /// as needed for enough addresses.
    fn addresses(&self, meter: &mut Meter<'_>, bits: &[u32]) -> Result<Vec<u64>, Stopped> {
        let [Some(&first), Some(&last)] = [bits.first(), bits.last()] else { return Err(Stopped::NoFunction) };
        if bits.len() >= 64 || 1usize << bits.len() > self.addresses_max {
            return Err(Stopped::Endless);
        }
        let others = mask_of((first..last).filter(|bit| !bits.contains(bit)));
        let size = 2u64 << last;
        let pieces = meter.oracle.pool().pieces();
        let aligned = pieces.flat_map(|piece| {
            let begin = piece.start.0.next_multiple_of(size);
            (0..piece.end.0.saturating_sub(begin) / size).map(move |block| begin + block * size)
        });
        let mut blocks: Vec<u64> = aligned.collect();
        let mut addresses = Vec::new();
        while addresses.len() < ADDRESSES_MIN && !blocks.is_empty() {
            let block = blocks.swap_remove(meter.random.below(blocks.len() as u64) as usize);
            let all = (0..1u64 << bits.len())
                .map(|choice| gf2::bits(choice).fold(block | others, |addr, at| addr | 1 << bits[at as usize]));
            addresses.extend(all);
        }
        if addresses.is_empty() { Err(Stopped::NoMemory) } else { Ok(addresses) }
    }

    /// Sorts addresses into banks; `None` when that does not terminate.
    fn sets(&self, meter: &mut Meter<'_>, mut left: Vec<u64>, line: u64) -> Result<Option<Vec<Vec<u64>>>, OracleError> {
        let (all, banks) = (left.len(), self.banks as usize);
        let mut sets: Vec<Vec<u64>> = Vec::new();
        // A bank has its share of all addresses, plus or minus a quarter.
        let sane = |size: usize| (3 * all..=5 * all).contains(&(4 * size * banks));
        for _ in 0..self.bases_max * self.banks {
            if left.is_empty() {
                break;
            }
            let base = left.swap_remove(meter.random.below(left.len() as u64) as usize);
            let mut times = Vec::new();
            for &addr in &left {
                times.push((DramDig::time(meter, [PhysAddr(base), PhysAddr(addr)], self.reads)?, addr));
            }
            let group = slow_group(times.iter().map(|&(time, _)| time), EMPTY, &(line + 1..line + ABOVE_MAX));
            let last_bank = sets.len() + 1 == banks && times.iter().all(|&(time, _)| time > line);
            let [first, last] = group.unwrap_or(if last_bank { [line, u64::MAX] } else { [u64::MAX, 0] });
            let slow = times.iter().filter(|(time, _)| (first..=last).contains(time));
            let mut set: BTreeSet<u64> = slow.map(|&(_, addr)| addr).collect();
            if sane(set.len()) {
                left.retain(|addr| !set.contains(addr));
                set.insert(base);
                sets.push(set.into_iter().collect());
                if sets.len() == banks {
                    return Ok(Some(sets));
                }
            } else {
                left.push(base);
            }
        }
        Ok(None)
    }

    /// Functions of one or two bits, and the first wider one with which they give each bank a distinct number.
    fn numbering(&self, functions: &[u64], sets: &[Vec<u64>]) -> Vec<u64> {
        let (mut kept, wide): (Vec<u64>, Vec<u64>) = functions.iter().partition(|mask| mask.count_ones() <= 2);
        if 1u64.checked_shl(kept.len() as u32) == Some(u64::from(self.banks)) {
            return kept;
        }
        let numbers_all = |mask: &u64| {
            let with: Vec<u64> = kept.iter().copied().chain([*mask]).collect();
            let numbers: BTreeSet<u64> = sets.iter().map(|set| gf2::evaluate(&with, set[0])).collect();
            numbers.len() == self.banks as usize
        };
        let fits = wide.into_iter().find(numbers_all);
        kept.extend(fits);
        kept
    }

    /// Adds row bits that also select banks.
    fn more_rows(
        &self,
        meter: &mut Meter<'_>,
        functions: &[u64],
        line: f64,
        rows: &mut Vec<u32>,
    ) -> Result<Result<(), Stopped>, OracleError> {
        if rows.len() >= self.row_bits as usize {
            return Ok(Ok(()));
        }
        for &two in functions.iter().filter(|mask| mask.count_ones() == 2) {
            let row = two.ilog2();
            // Also flip the lowest bit of wider functions with that bit, so that their values stay constant.
            let wider = functions.iter().filter(|mask| mask.count_ones() > 2 && *mask >> row & 1 == 1);
            let difference = wider.fold(two, |sum, mask| sum ^ 1 << mask.trailing_zeros());
            if self.latency(meter, difference)? > line && !rows.contains(&row) {
                rows.push(row);
            }
        }
        let found = rows.len() as u32;
        Ok(if found == self.row_bits { Ok(()) } else { Err(Stopped::RowBits(found, self.row_bits)) })
    }

    /// Adds the lowest bits to the columns until there are enough.
    fn more_columns(&self, functions: &[u64], columns: &mut Vec<u32>) {
        let widest = functions.iter().rev().max_by_key(|mask| mask.count_ones());
        let spared = widest.filter(|mask| mask.count_ones() > 2).map(|mask| mask.trailing_zeros());
        for bit in 0..self.address_bits {
            if columns.len() < self.column_bits as usize && !columns.contains(&bit) && Some(bit) != spared {
                columns.push(bit);
            }
        }
    }
}
