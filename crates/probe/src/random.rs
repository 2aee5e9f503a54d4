//! Random numbers, equal for equal seeds.

/// SplitMix64 (Steele, Lea and Flood 2014): good enough to draw addresses with, and small.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Draws 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// Draws a number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Draws from 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws from a distribution with mean 0 and deviation 1 that is nearly normal up to four deviations and ends at six: a sum of
    /// twelve numbers, the same on every machine.
    pub fn normal(&mut self) -> f64 {
        (0..6)
            .map(|_| {
                let bits = self.bits();
                (f64::from((bits >> 32) as u32) + f64::from(bits as u32)) / 4_294_967_296.0
            })
            .sum::<f64>()
            - 6.0
    }
}

/// Spreads a number over all bits, one to one.
pub(crate) fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
