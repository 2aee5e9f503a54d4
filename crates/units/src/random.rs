//! Pseudo-random numbers by splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014): equal for
//! equal seeds, on every machine. Good enough to draw addresses and task sets with; no secret may depend on them.

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Scrambles 64 bits; a bijection.
#[inline]
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Gives number `index` of the sequence of a seed without the ones before it.
#[inline]
#[must_use]
pub const fn at(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
}

/// A sequence of pseudo-random numbers; number `i` is [`at`]`(seed, i)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// Begins the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Draws 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Draws a number below `limit`, which must not be zero. The bias is below `limit` / 2^64.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        debug_assert!(limit > 0, "there is no number below 0");
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Draws an index of a list of `len` items, which must not be empty.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Draws a number from `least` to `most`, both included and fewer than all 64 bits. The bias is below their number / 2^64.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.bits() % (most - least + 1)
    }

    /// Draws from 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws from a distribution with mean 0 and deviation 1 that is nearly normal up to four deviations and ends at six: a sum of
    /// twelve numbers, the same on every machine.
    pub fn normal(&mut self) -> f64 {
        let halves = |bits: u64| (f64::from((bits >> 32) as u32) + f64::from(bits as u32)) / 4_294_967_296.0;
        (0..6).map(|_| halves(self.bits())).sum::<f64>() - 6.0
    }

    /// Puts items in random order (Fisher and Yates, from the last).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // First numbers of seed 1234567, as every splitmix64 gives them.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
        assert_eq!(at(1_234_567, 1), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_in_their_ranges_and_reach_both_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.below(7)).collect();
        assert!((0..7).all(|number| drawn.contains(&number)) && drawn.iter().all(|number| *number < 7));
        let drawn: Vec<u64> = (0..1000).map(|_| random.within(3, 5)).collect();
        assert!((3..=5).all(|number| drawn.contains(&number)) && drawn.iter().all(|number| (3..=5).contains(number)));
        assert!((0..1000).map(|_| random.unit()).all(|number| (0.0..1.0).contains(&number)));
        let normal: Vec<f64> = (0..10_000).map(|_| random.normal()).collect();
        let mean = normal.iter().sum::<f64>() / 1e4;
        let deviation = (normal.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 1e4).sqrt();
        assert!(mean.abs() < 0.05 && (deviation - 1.0).abs() < 0.05, "{mean} {deviation}");
    }

    #[test]
    fn a_shuffle_keeps_everything_and_follows_its_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..1000).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(shuffled(7), shuffled(7));
        assert_ne!(shuffled(7), shuffled(8));
        let mut sorted = shuffled(7);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
    }
}
