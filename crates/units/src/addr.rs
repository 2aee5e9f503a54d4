//! Physical addresses and page frame numbers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Base-two logarithm of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = 12;
/// Size in bytes of the page that a [`Pfn`] counts: 4 KiB, whatever the base page of the kernel is.
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;

/// Names a byte of physical memory, as the processor sends it out (before any offset a memory controller subtracts).
///
/// Domain: all of `u64`; a platform's regions define which addresses are memory. Displayed in hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PhysAddr(pub u64);

/// Counts 4 KiB page frames from physical address zero.
///
/// Domain: `0..2^52`; a larger number has no byte address, see [`Pfn::addr`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pfn(pub u64);

impl PhysAddr {
    /// Gives the frame that holds this byte (rounds down).
    #[inline]
    #[must_use]
    pub const fn pfn(self) -> Pfn {
        Pfn(self.0 >> PAGE_SHIFT)
    }

    /// Gives the distance in bytes from the start of the frame, in `0..PAGE_SIZE`.
    #[inline]
    #[must_use]
    pub const fn page_offset(self) -> u64 {
        self.0 & (PAGE_SIZE - 1)
    }

    /// Gives the start of the aligned block of `1 << shift` bytes that holds this byte (rounds down).
    ///
    /// A `shift` of 64 or more gives zero: the block is then the whole address space.
    #[inline]
    #[must_use]
    pub const fn align_down(self, shift: u32) -> PhysAddr {
        if shift >= 64 { PhysAddr(0) } else { PhysAddr(self.0 >> shift << shift) }
    }

    /// Adds a byte count; `None` when the sum does not fit 64 bits.
    #[inline]
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<PhysAddr> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(PhysAddr(sum)),
            None => None,
        }
    }
}

impl Pfn {
    /// Gives the address of the first byte of the frame.
    ///
    /// The upper 12 bits of a number of `2^52` or more are lost: no such frame exists on any architecture.
    #[inline]
    #[must_use]
    pub const fn addr(self) -> PhysAddr {
        PhysAddr(self.0 << PAGE_SHIFT)
    }

    /// Gives the frame `pages` further on, saturating at the largest number.
    #[inline]
    #[must_use]
    pub const fn offset(self, pages: u64) -> Pfn {
        Pfn(self.0.saturating_add(pages))
    }
}

impl fmt::Display for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_frame_convert_both_ways() {
        let addr = PhysAddr(0x1_2345_6789);
        assert_eq!(addr.pfn(), Pfn(0x12_3456));
        assert_eq!(addr.page_offset(), 0x789);
        assert_eq!(addr.pfn().addr(), PhysAddr(0x1_2345_6000));
        assert_eq!(addr.align_down(21), PhysAddr(0x1_2340_0000));
        assert_eq!(addr.align_down(64), PhysAddr(0));
        assert_eq!(addr.to_string(), "0x123456789");
    }

    #[test]
    fn sums_that_do_not_fit_are_noticed() {
        assert_eq!(PhysAddr(u64::MAX).checked_add(1), None);
        assert_eq!(Pfn(u64::MAX).offset(1), Pfn(u64::MAX));
    }
}
