//! Translation between physical addresses and the inner addresses of functions.

use crate::pool::Pool;
use memtint_map::{Interleave, Platform, Region};
use memtint_units::PhysAddr;
use memtint_units::Random;
use std::ops::Range;

/// A piece of physical memory, and the inner address of its first byte in the memory system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// First physical address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Inner address of the first byte.
    pub inside: u64,
    /// Interleave of channels whose number is not a power of two; functions then apply to the address within a channel.
    pub interleave: Option<Interleave>,
}

/// An assumption on the translation of physical addresses before functions apply: a list of parts, each with an offset
/// and an optional interleave over channels.
///
/// Under the right view a mapping is linear: whether two addresses conflict depends only on their difference, so a
/// measurement can be repeated at another place. Under a wrong view it is not linear, which measurements show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    parts: Vec<Part>,
}

/// An inner address of the memory system. Addresses of different channels of an interleave have no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Channel of an interleave, else 0.
    pub channel: u32,
    /// The address that functions are applied to.
    pub address: u64,
}

impl View {
    /// Takes physical addresses as they are.
    #[must_use]
    pub fn plain() -> View {
        View { parts: vec![Part { base: 0, size: 1 << 62, inside: 0, interleave: None }] }
    }

    /// Takes parts, which do not overlap.
    #[must_use]
    pub fn of_parts(mut parts: Vec<Part>) -> View {
        parts.sort_by_key(|part| part.base);
        View { parts }
    }

    /// Takes the regions of a platform file.
    #[must_use]
    pub fn of_platform(platform: &Platform) -> View {
        let part = |region: &Region| Part {
            base: region.base.0,
            size: region.size_bytes,
            inside: region.dram_base,
            interleave: region.interleave,
        };
        View::of_parts(platform.regions().iter().map(part).collect())
    }

    /// Gives the parts, in order of their bases.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the inner address; `None` outside all parts.
    #[must_use]
    pub fn inward(&self, addr: PhysAddr) -> Option<Inside> {
        let after = self.parts.partition_point(|part| part.base <= addr.0);
        let part = self.parts[..after].last().filter(|part| addr.0 - part.base < part.size)?;
        let linear = addr.0 - part.base + part.inside;
        let (channel, address) = part.interleave.map_or((0, linear), |interleave| interleave.split(linear));
        Some(Inside { channel, address })
    }

    /// Returns the physical address; `None` outside all parts.
    #[must_use]
    pub fn outward(&self, inside: Inside) -> Option<PhysAddr> {
        self.parts.iter().find_map(|part| {
            let linear = match part.interleave {
                None => (inside.channel == 0).then_some(inside.address)?,
                Some(interleave) => interleave.join(inside.channel, inside.address),
            };
            let at = linear.checked_sub(part.inside).filter(|&at| at < part.size)?;
            Some(PhysAddr(part.base + at))
        })
    }

    /// Returns the number of bits of differences between inner addresses of a pool.
    #[must_use]
    pub fn bits(&self, pool: &Pool) -> u32 {
        let last = |part: &Part| {
            let last = part.inside + part.size - 1;
            part.interleave.map_or(last, |interleave| interleave.split(last).1)
        };
        let cut = self.cut(&pool.envelope());
        let most = cut.iter().map(last).max().unwrap_or(0);
        (64 - most.leading_zeros()).min(pool.known_bits())
    }

    /// Returns the parts that overlap a range, cut to it.
    #[must_use]
    pub fn cut(&self, range: &Range<PhysAddr>) -> Vec<Part> {
        let cut = |part: &Part| {
            let (base, end) = (part.base.max(range.start.0), (part.base + part.size).min(range.end.0));
            (base < end).then(|| Part {
                base,
                size: end - base,
                inside: part.inside + (base - part.base),
                ..part.clone()
            })
        };
        self.parts.iter().filter_map(cut).collect()
    }

    /// Draws a pair of the pool with a difference, one of the two from a part of it; `None` when a thousand draws find none.
    pub fn pair(&self, pool: &Pool, part: &Pool, difference: u64, random: &mut Random) -> Option<[PhysAddr; 2]> {
        (0..1000).find_map(|_| {
            let one = part.any(random);
            self.partner(pool, one, difference).map(|other| [one, other])
        })
    }

    /// Returns the address of the pool with this difference from another, if there is one and the difference is known.
    #[must_use]
    pub fn partner(&self, pool: &Pool, one: PhysAddr, difference: u64) -> Option<PhysAddr> {
        let inside = self.inward(one)?;
        let other = self.outward(Inside { address: inside.address ^ difference, ..inside })?;
        (pool.contains(other) && pool.comparable(one, other)).then_some(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_again() {
        let hole = View::of_parts(vec![
            Part { base: 1 << 32, size: 1 << 30, inside: 3 << 30, interleave: None },
            Part { base: 0, size: 3 << 30, inside: 0, interleave: None },
        ]);
        let three = Interleave { ways: 3, shift: 8 };
        let three = View::of_parts(vec![Part { base: 0, size: 3 << 20, inside: 0, interleave: Some(three) }]);
        let mut random = Random::new(5);
        for view in [View::plain(), hole.clone(), three] {
            for _ in 0..1000 {
                let addr = PhysAddr(random.below((1 << 32) + (1 << 30)));
                match view.inward(addr) {
                    Some(inside) => assert_eq!(view.outward(inside), Some(addr), "{view:?}"),
                    None => assert_ne!(view, View::plain()),
                }
            }
        }
        assert_eq!(hole.inward(PhysAddr((1 << 32) + 64)), Some(Inside { channel: 0, address: (3 << 30) + 64 }));
        assert_eq!(hole.inward(PhysAddr(3 << 30)), None);
    }

    #[test]
    fn pairs_have_the_difference_inside() {
        let pool = Pool::new([PhysAddr(0)..PhysAddr(3 << 20)], 64).unwrap();
        let interleave = Some(Interleave { ways: 3, shift: 8 });
        let view = View::of_parts(vec![Part { base: 0, size: 3 << 20, inside: 0, interleave }]);
        let mut random = Random::new(7);
        for difference in [64, 0x1_0040, 0xf_ffc0] {
            let [one, other] = view.pair(&pool, &pool, difference, &mut random).expect("there are many");
            let [one, other] = [one, other].map(|addr| view.inward(addr).unwrap());
            assert_eq!((one.channel, one.address ^ other.address), (other.channel, difference));
        }
        assert_eq!(view.pair(&pool, &pool, 1 << 20, &mut random), None);
    }
}
