//! Distributions of times in constant memory.

/// Counts values in buckets whose width grows with the value: exact below 64, then 32 buckets for each doubling, so a
/// quantile is at most 3.2 % above the true one (it rounds up).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    squares: u128,
    min: u64,
    max: u64,
}

const EXACT: u64 = 64;
const PER_DOUBLING_LOG2: u32 = 5;

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bucket = bucket_of(value);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.squares = self.squares.saturating_add(u128::from(value) * u128::from(value));
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Their mean; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Their standard deviation, as of a sample (divisor one less than their number); 0 of fewer than two.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let count = u128::from(self.count);
        // In integers while they last: the difference of two large sums would lose its digits.
        let squares = match (self.squares.checked_mul(count), self.sum.checked_mul(self.sum)) {
            (Some(more), Some(less)) => more.saturating_sub(less) as f64,
            _ => (self.squares as f64 * count as f64 - (self.sum as f64).powi(2)).max(0.0),
        };
        (squares / (count as f64 * (self.count - 1) as f64)).sqrt()
    }

    /// The least; 0 of none.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The greatest; 0 of none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// A value that at least `share` (0 to 1) of all do not exceed, at most 3.2 % above the least such; 0 of none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return last_of(bucket).min(self.max);
            }
        }
        0
    }
}

fn bucket_of(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let shift = value.ilog2() - PER_DOUBLING_LOG2;
    (EXACT + u64::from(shift - 1) * (1 << PER_DOUBLING_LOG2) + (value >> shift) - (1 << PER_DOUBLING_LOG2)) as usize
}

/// The greatest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (doubling, within) = ((bucket - EXACT) >> PER_DOUBLING_LOG2, (bucket - EXACT) & ((1 << PER_DOUBLING_LOG2) - 1));
    let shift = doubling + 1;
    (((1 << PER_DOUBLING_LOG2) + within) << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for bucket in 0..1000 {
            assert_eq!(bucket_of(last_of(bucket)), bucket);
            assert_eq!(bucket_of(last_of(bucket) + 1), bucket + 1);
        }
    }

    #[test]
    fn quantiles_are_near_and_never_below() {
        let mut histogram = Histogram::default();
        (1..=10_000).for_each(|value| histogram.add(value * 37));
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let exact = (share * 10_000.0_f64).ceil() as u64 * 37;
            let found = histogram.quantile(share);
            assert!(found >= exact && found as f64 <= exact as f64 * 1.032, "{share}: {found}, exactly {exact}");
        }
        assert_eq!((histogram.min(), histogram.max(), histogram.count()), (37, 370_000, 10_000));
    }

    #[test]
    fn deviations_are_those_of_a_sample() {
        let deviation = |values: &[u64]| {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(value));
            histogram.deviation()
        };
        assert_eq!(deviation(&[]), 0.0);
        assert_eq!(deviation(&[7]), 0.0);
        // Squared distances from 5: 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32, by 7.
        assert!((deviation(&[2, 4, 4, 4, 5, 5, 7, 9]) - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        // A small spread on large values.
        let second = 1_000_000_000_000;
        assert!((deviation(&[second, second + 2]) - 2.0_f64.sqrt()).abs() < 1e-9);
    }
}
