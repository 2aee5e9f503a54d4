//! The block size that is colored as a unit.

use memtint_units::{ByteSize, PAGE_SHIFT, PhysAddr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Names the size of the contiguous, aligned block that is colored as a unit: a power of two from 4 KiB to 2 MiB.
///
/// Text form as of [`ByteSize`]: `4K`, `64 KiB`, `2M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Granule {
    /// Between [`Granule::MIN`]'s and [`Granule::MAX`]'s, both included.
    shift: u32,
}

/// A size that is not a granule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("granule {text:?} is not accepted: accepted are 4K, 8K, 16K, 32K, 64K, 128K, 256K, 512K, 1M and 2M")]
pub struct GranuleError {
    text: String,
}

impl Granule {
    /// The smallest granule: 4 KiB, the page of the tables that hold the colors.
    pub const MIN: Granule = Granule { shift: PAGE_SHIFT };
    /// The granule of an ordinary page, 4 KiB.
    pub const PAGE: Granule = Granule::MIN;
    /// The largest granule: 2 MiB, a huge page of most architectures.
    pub const MAX: Granule = Granule { shift: 21 };

    /// Accepts a size that is a power of two from 4 KiB to 2 MiB.
    ///
    /// # Errors
    /// [`GranuleError`] for any other size.
    pub fn from_bytes(bytes: u64) -> Result<Granule, GranuleError> {
        let shift = bytes.trailing_zeros();
        let accepted = bytes.is_power_of_two() && (Self::MIN.shift..=Self::MAX.shift).contains(&shift);
        if accepted { Ok(Granule { shift }) } else { Err(GranuleError { text: ByteSize(bytes).to_string() }) }
    }

    /// Gives every granule, ascending.
    pub fn every() -> impl Iterator<Item = Granule> {
        (Self::MIN.shift..=Self::MAX.shift).map(|shift| Granule { shift })
    }

    /// Gives the number of address bits inside the granule: 12 for 4 KiB.
    #[inline]
    #[must_use]
    pub const fn shift(self) -> u32 {
        self.shift
    }

    /// Gives the size in bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.shift
    }

    /// Gives the number of 4 KiB pages in a granule, at least 1.
    #[inline]
    #[must_use]
    pub const fn pages(self) -> u64 {
        1 << (self.shift - PAGE_SHIFT)
    }

    /// Gives the start of the granule that holds the address.
    #[inline]
    #[must_use]
    pub const fn base_of(self, addr: PhysAddr) -> PhysAddr {
        addr.align_down(self.shift)
    }
}

impl Default for Granule {
    fn default() -> Self {
        Granule::PAGE
    }
}

impl FromStr for Granule {
    type Err = GranuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || GranuleError { text: text.to_owned() };
        let size: ByteSize = text.parse().map_err(|_| refused())?;
        Granule::from_bytes(size.bytes()).map_err(|_| refused())
    }
}

impl fmt::Display for Granule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteSize(self.bytes()).fmt(f)
    }
}

impl Serialize for Granule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Granule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let size = ByteSize::deserialize(deserializer)?;
        Granule::from_bytes(size.bytes()).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_between_a_page_and_a_huge_page_are_read() {
        assert_eq!("64K".parse::<Granule>().unwrap().shift(), 16);
        assert_eq!("2 MiB".parse::<Granule>().unwrap(), Granule::MAX);
        assert_eq!(Granule::every().map(Granule::pages).sum::<u64>(), 1023);
        assert_eq!(Granule::MAX.base_of(PhysAddr(0x3f_ffff)), PhysAddr(0x20_0000));
        for text in ["2K", "4M", "5000", "x", ""] {
            let message = text.parse::<Granule>().unwrap_err().to_string();
            assert!(message.contains(&format!("{text:?}")) && message.contains("64K"), "{message}");
        }
    }
}
