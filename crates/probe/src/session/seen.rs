//! The times of all accesses of a probe, independent of its conclusions.

use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use memtint_units::PhysAddr;
use std::collections::BTreeMap;

/// Times of accesses. The time of a request is the median of its readings, the lower one of two.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests for two alternating addresses: ticks, and the number of requests with this time.
    pub pairs: BTreeMap<u32, u64>,
    /// The same for a single address, without conflicts.
    pub alone: BTreeMap<u32, u64>,
    /// Times of pairs by their difference, for differences of one or two address bits.
    pub differences: BTreeMap<u64, Vec<u32>>,
    /// Sum of all readings.
    pub ticks: u64,
}

/// Forwards requests, and records their times.
pub(super) struct Watched<'o> {
    oracle: &'o mut dyn Oracle,
    seen: Seen,
}

impl Watched<'_> {
    pub(super) fn new(oracle: &mut dyn Oracle) -> Watched<'_> {
        Watched { oracle, seen: Seen::default() }
    }

    pub(super) fn into_seen(self) -> Seen {
        self.seen
    }
}

impl Oracle for Watched<'_> {
    fn pool(&self) -> &Pool {
        self.oracle.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let readings = self.oracle.time(addresses, rounds)?;
        self.seen.take(addresses, &readings);
        Ok(readings)
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.oracle.time_beside(addresses, others, rounds)
    }

    fn readers(&self) -> u32 {
        self.oracle.readers()
    }

    fn together(&mut self, addresses: &[PhysAddr], readers: u32, rounds: u32) -> Result<Option<Vec<u32>>, OracleError> {
        let readings = self.oracle.together(addresses, readers, rounds)?;
        self.seen.ticks += readings.iter().flatten().map(|&reading| u64::from(reading)).sum::<u64>();
        Ok(readings)
    }
}

impl Seen {
    fn take(&mut self, addresses: &[PhysAddr], readings: &[u32]) {
        self.ticks += readings.iter().map(|&reading| u64::from(reading)).sum::<u64>();
        let Some(median) = median(readings) else { return };
        match addresses {
            [_] => *self.alone.entry(median).or_default() += 1,
            [one, other] => {
                *self.pairs.entry(median).or_default() += 1;
                let difference = one.0 ^ other.0;
                if (1..=2).contains(&difference.count_ones()) {
                    self.differences.entry(difference).or_default().push(median);
                }
            }
            _ => {}
        }
    }
}

/// Quartiles of some times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Quartiles {
    /// Number of times.
    pub count: u64,
    /// Lower quartile.
    pub lower_ticks: u32,
    /// Median.
    pub median_ticks: u32,
    /// Upper quartile.
    pub upper_ticks: u32,
}

impl Quartiles {
    /// Returns the quartiles of times, each given with its count; `None` when there are none.
    #[must_use]
    pub fn of(times: &BTreeMap<u32, u64>) -> Option<Quartiles> {
        let count: u64 = times.values().sum();
        let at = |quarter: u64| {
            let (mut before, wanted) = (0, (count * quarter).div_ceil(4).max(1));
            times.iter().find_map(|(&ticks, &count)| {
                before += count;
                (before >= wanted).then_some(ticks)
            })
        };
        Some(Quartiles { count, lower_ticks: at(1)?, median_ticks: at(2)?, upper_ticks: at(3)? })
    }
}

impl Seen {
    /// Returns the difference with the largest median time among those timed at least `often` times, and that median.
    #[must_use]
    pub fn slowest(&self, often: usize) -> Option<(u64, u32)> {
        let known = self.differences.iter().filter(|(_, ticks)| ticks.len() >= often);
        known.filter_map(|(&difference, ticks)| Some((difference, median(ticks)?))).max_by_key(|&(_, ticks)| ticks)
    }
}

/// Gives the median, the lower one of two; `None` without values.
#[must_use]
pub fn median(values: &[u32]) -> Option<u32> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len().max(1) - 1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_times() {
        assert_eq!(Quartiles::of(&BTreeMap::new()), None);
        let one = Quartiles { count: 1, lower_ticks: 7, median_ticks: 7, upper_ticks: 7 };
        assert_eq!(Quartiles::of(&BTreeMap::from([(7, 1)])), Some(one));
        let times: BTreeMap<u32, u64> = (1..=8).map(|ticks| (10 * ticks, 1)).collect();
        let found = Quartiles { count: 8, lower_ticks: 20, median_ticks: 40, upper_ticks: 60 };
        assert_eq!(Quartiles::of(&times), Some(found));
    }

    #[test]
    fn questions_are_counted_by_what_they_are_about() {
        let mut seen = Seen::default();
        let addresses = [0x1000, 0x1040, 0x3000, 0x7040].map(PhysAddr);
        seen.take(&addresses[..1], &[9, 5, 7]);
        seen.take(&addresses[..2], &[3, 4]);
        seen.take(&[addresses[0], addresses[2]], &[20, 22, 21]);
        seen.take(&[addresses[0], addresses[3]], &[90]);
        seen.take(&addresses[..1], &[]);
        assert_eq!(seen.alone, BTreeMap::from([(7, 1)]));
        assert_eq!(seen.pairs, BTreeMap::from([(3, 1), (21, 1), (90, 1)]));
        assert_eq!(seen.differences, BTreeMap::from([(0x40, vec![3]), (0x2000, vec![21])]));
        assert_eq!((seen.ticks, seen.slowest(1), seen.slowest(2)), (181, Some((0x2000, 21)), None));
    }
}
