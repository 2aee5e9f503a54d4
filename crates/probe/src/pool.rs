//! Memory that a probe may access, and the known bits of its addresses.

use memtint_map::{ADDRESS_BITS_MAX, Platform};
use memtint_units::Random;
use memtint_units::{PAGE_SIZE, PhysAddr};
use std::ops::Range;

/// Bytes of a cache line.
pub const LINE: u64 = 64;

/// Memory that a probe may access: pieces of physical memory.
///
/// If only the lower bits of addresses are known (in huge pages whose physical addresses the kernel hides), addresses
/// are *comparable* only within blocks of that size: their differences are correct, but their upper bits are arbitrary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Sorted, not adjacent; start and excluded end in bytes.
    pieces: Vec<Range<u64>>,
    /// Bytes before each piece.
    before: Vec<u64>,
    bytes: u64,
    known_bits: u32,
}

/// The reason why pieces do not form a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// A piece is empty, not made of whole lines, or beyond the largest physical address.
    #[error(
        "piece {index} of the pool: {base:#x} to {end:#x} found; accepted are multiples of 64 up to 2^52, the end above \
         the base"
    )]
    Piece {
        /// Its index.
        index: usize,
        /// Its first byte.
        base: u64,
        /// The byte after its last.
        end: u64,
    },
    /// Two pieces have bytes in common.
    #[error(
        "pool: a piece begins at {base:#x}, and the one before it ends at {end:#x}; accepted are pieces that lie apart"
    )]
    Overlap {
        /// Beginning of the second.
        base: u64,
        /// End of the first.
        end: u64,
    },
    /// The pool has no pieces.
    #[error("pool: 0 bytes found; accepted is at least one piece")]
    Empty,
}

impl Pool {
    /// Makes a pool from pieces, in any order, whose address bits below `known_bits` are known.
    ///
    /// # Errors
    /// [`PoolError`] for pieces that are empty, not made of whole lines, beyond 2^52, or that overlap, and when there is none.
    pub fn new(pieces: impl IntoIterator<Item = Range<PhysAddr>>, known_bits: u32) -> Result<Pool, PoolError> {
        let mut pieces: Vec<Range<u64>> = pieces.into_iter().map(|piece| piece.start.0..piece.end.0).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let whole = piece.start.is_multiple_of(LINE) && piece.end.is_multiple_of(LINE);
            if piece.start >= piece.end || piece.end > 1 << ADDRESS_BITS_MAX || !whole {
                return Err(PoolError::Piece { index, base: piece.start, end: piece.end });
            }
        }
        pieces.sort_by_key(|piece| piece.start);
        if let Some(pair) = pieces.windows(2).find(|pair| pair[1].start < pair[0].end) {
            return Err(PoolError::Overlap { base: pair[1].start, end: pair[0].end });
        }
        let mut bytes = 0;
        let mut before = Vec::new();
        for piece in &pieces {
            before.push(bytes);
            bytes += piece.end - piece.start;
        }
        if bytes == 0 {
            return Err(PoolError::Empty);
        }
        Ok(Pool { pieces, before, bytes, known_bits: known_bits.min(64) })
    }

    /// Makes a pool from all memory of a platform.
    ///
    /// # Errors
    /// [`PoolError`] for memory that does not form a pool.
    pub fn of_platform(platform: &Platform) -> Result<Pool, PoolError> {
        Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64)
    }

    /// Marks address bits from this one on as unknown: addresses stay comparable within aligned blocks.
    #[must_use]
    pub fn in_blocks(&self, bits: u32) -> Pool {
        Pool { known_bits: self.known_bits.min(bits), ..self.clone() }
    }

    /// Gives its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the number of low address bits that are known.
    #[must_use]
    pub fn known_bits(&self) -> u32 {
        self.known_bits
    }

    /// Gives the pieces, in order.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = Range<PhysAddr>> {
        self.pieces.iter().map(|piece| PhysAddr(piece.start)..PhysAddr(piece.end))
    }

    /// Returns its part inside a range; `None` if there is none.
    #[must_use]
    pub fn within(&self, range: &Range<PhysAddr>) -> Option<Pool> {
        let cut = |piece: &Range<u64>| {
            let (base, end) =
                (piece.start.max(range.start.0).next_multiple_of(LINE), piece.end.min(range.end.0) & !(LINE - 1));
            (base < end).then_some(PhysAddr(base)..PhysAddr(end))
        };
        Pool::new(self.pieces.iter().filter_map(cut), self.known_bits).ok()
    }

    /// Splits it into `count` parts of about the same size, or as many as it has lines.
    #[must_use]
    pub fn parts(&self, count: u64) -> Vec<Pool> {
        let lines = self.bytes / LINE;
        let count = count.min(lines);
        let at = |line: u64| {
            let offset = line * LINE;
            let piece = self.before.partition_point(|&before| before <= offset) - 1;
            PhysAddr(self.pieces[piece].start + offset - self.before[piece])
        };
        let end = PhysAddr(self.pieces[self.pieces.len() - 1].end);
        let cut = |part: u64| if part == count { end } else { at(lines * part / count) };
        (0..count).filter_map(|part| self.within(&(cut(part)..cut(part + 1)))).collect()
    }

    /// Splits it at multiples of a power of two.
    #[must_use]
    pub fn aligned_parts(&self, step: u64) -> Vec<Pool> {
        let Range { start, end } = self.envelope();
        let cuts = (start.0 & !(step - 1)..end.0).step_by(step as usize);
        cuts.filter_map(|cut| self.within(&(PhysAddr(cut)..PhysAddr(cut + step)))).collect()
    }

    /// Returns whether an address is in it.
    #[must_use]
    pub fn contains(&self, addr: PhysAddr) -> bool {
        let after = self.pieces.partition_point(|piece| piece.start <= addr.0);
        after > 0 && addr.0 < self.pieces[after - 1].end
    }

    /// Gives the range from its first byte to its last, in whole pages.
    #[must_use]
    pub fn envelope(&self) -> Range<PhysAddr> {
        let page = PAGE_SIZE - 1;
        PhysAddr(self.pieces[0].start & !page)..PhysAddr((self.pieces[self.pieces.len() - 1].end + page) & !page)
    }

    /// Returns whether the difference of two addresses is known.
    #[must_use]
    pub fn comparable(&self, a: PhysAddr, b: PhysAddr) -> bool {
        (a.0 ^ b.0).checked_shr(self.known_bits).unwrap_or(0) == 0
    }

    /// Draws a line, all equally likely.
    pub fn any(&self, random: &mut Random) -> PhysAddr {
        let at = random.below(self.bytes / LINE) * LINE;
        let piece = self.before.partition_point(|&before| before <= at) - 1;
        PhysAddr(self.pieces[piece].start + at - self.before[piece])
    }

    /// Gives the number of address bits that a difference of comparable addresses can have.
    #[must_use]
    pub fn bits(&self) -> u32 {
        let last = self.pieces[self.pieces.len() - 1].end - 1;
        (64 - last.leading_zeros()).min(self.known_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(pieces: &[(u64, u64)], known_bits: u32) -> Result<Pool, PoolError> {
        Pool::new(pieces.iter().map(|&(base, end)| PhysAddr(base)..PhysAddr(end)), known_bits)
    }

    #[test]
    fn every_line_is_drawn_and_no_other() {
        let pool = pool(&[(0x4000, 0x4100), (0x1000, 0x1080)], 64).unwrap();
        let mut random = Random::new(1);
        let mut drawn: Vec<u64> = (0..500).map(|_| pool.any(&mut random).0).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, [0x1000, 0x1040, 0x4000, 0x4040, 0x4080, 0x40c0]);
        let inside =
            [0xfff, 0x1000, 0x107f, 0x1080, 0x3fff, 0x4000, 0x40ff, 0x4100].map(|at| pool.contains(PhysAddr(at)));
        assert_eq!(inside, [false, true, true, false, false, true, true, false]);
        assert_eq!((pool.bytes(), pool.bits()), (0x180, 15));
    }

    #[test]
    fn addresses_are_comparable_as_far_as_they_are_known() {
        let known = pool(&[(0, 1 << 22)], 64).unwrap();
        let huge = pool(&[(0, 1 << 22)], 21).unwrap();
        let (a, b, c) = (PhysAddr(0x40), PhysAddr(0x1f_ffc0), PhysAddr(0x20_0040));
        assert!(known.comparable(a, c) && huge.comparable(a, b) && !huge.comparable(a, c));
        assert_eq!((known.bits(), huge.bits()), (22, 21));
    }

    #[test]
    fn parts_are_the_whole() {
        let pool = pool(&[(0x1000, 0x1080), (0x4000, 0x4100), (0x1_0000, 0x2_0000)], 64).unwrap();
        for count in [1, 2, 3, 7, 100_000] {
            let parts = pool.parts(count);
            assert_eq!(parts.len() as u64, count.min(pool.bytes() / LINE));
            assert_eq!(parts.iter().map(Pool::bytes).sum::<u64>(), pool.bytes());
            let (least, most) = (parts.iter().map(Pool::bytes).min(), parts.iter().map(Pool::bytes).max());
            assert!(most.unwrap() - least.unwrap() <= LINE, "{count}");
        }
        let aligned = pool.aligned_parts(0x4000);
        assert_eq!(aligned.iter().map(Pool::bytes).collect::<Vec<_>>(), [0x80, 0x100, 0x4000, 0x4000, 0x4000, 0x4000]);
        let range = |base, end| PhysAddr(base)..PhysAddr(end);
        assert_eq!(pool.within(&range(0x1001, 0x40c1)).map(|part| part.bytes()), Some(0x40 + 0xc0));
        assert_eq!(pool.within(&range(0x2000, 0x3000)), None);
    }

    #[test]
    fn wrong_pieces_are_named() {
        let message = |pieces: &[(u64, u64)]| pool(pieces, 64).unwrap_err().to_string();
        assert!(message(&[(0, 64), (10, 74)]).starts_with("piece 1 of the pool: 0xa to 0x4a found"));
        assert!(message(&[(64, 64)]).starts_with("piece 0"));
        assert!(message(&[(64, (1 << 52) + 64)]).starts_with("piece 0"));
        assert!(message(&[(128, 256), (0, 192)]).contains("begins at 0x80, and the one before it ends at 0xc0"));
        assert!(message(&[]).starts_with("pool: 0 bytes"));
    }
}
