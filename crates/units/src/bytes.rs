//! Byte counts with binary units.

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Counts bytes.
///
/// Text form: a decimal or `0x` number, then an optional unit `B`, `K`/`KiB`, `M`/`MiB`, `G`/`GiB`, `T`/`TiB` in any
/// letter case, with or without a space between; every unit is a power of 1024. `KB`, `MB` and so on are refused
/// because half of their users mean 1000. [`Display`](fmt::Display) writes the largest unit that divides exactly, so
/// printing and parsing again gives the same count. In files both the text and a plain integer are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// The reason why a text is not a byte count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ByteSizeError {
    /// The text does not start with a number, or the number does not fit 64 bits.
    #[error(
        "size {text:?} does not start with a whole number below 2^64; accepted is for example 65536, 64K or 64 KiB"
    )]
    Number {
        /// The whole text.
        text: String,
    },
    /// What follows the number is not a unit.
    #[error(
        "size {text:?} has the unit {unit:?}; accepted are B, K or KiB, M or MiB, G or GiB, T or TiB (powers of 1024)"
    )]
    Unit {
        /// The whole text.
        text: String,
        /// The part after the number.
        unit: String,
    },
    /// Number times unit does not fit 64 bits.
    #[error("size {text:?} is 2^64 bytes or more; accepted is anything below 16777216 TiB")]
    TooLarge {
        /// The whole text.
        text: String,
    },
}

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl ByteSize {
    /// Counts `count` times 1024 bytes; panics when the product does not fit 64 bits.
    #[must_use]
    pub const fn kib(count: u64) -> ByteSize {
        ByteSize(count * (1 << 10))
    }

    /// Counts `count` times 1024² bytes; panics when the product does not fit 64 bits.
    #[must_use]
    pub const fn mib(count: u64) -> ByteSize {
        ByteSize(count * (1 << 20))
    }

    /// Counts `count` times 1024³ bytes; panics when the product does not fit 64 bits.
    #[must_use]
    pub const fn gib(count: u64) -> ByteSize {
        ByteSize(count * (1 << 30))
    }

    /// Gives the plain count of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Gives the number of 4 KiB pages needed to hold this many bytes (rounds up).
    #[must_use]
    pub const fn pages_up(self) -> u64 {
        self.0.div_ceil(crate::PAGE_SIZE)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |&&(_, shift): &&(&str, u32)| self.0 != 0 && self.0.trailing_zeros() >= shift;
        let (unit, shift) = UNITS.iter().find(exact).unwrap_or(&("B", 0));
        write!(f, "{} {unit}", self.0 >> shift)
    }
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let owned = || text.to_owned();
        let body = text.trim();
        let (digits, radix) = match body.strip_prefix("0x") {
            Some(hex) => (hex, 16),
            None => (body, 10),
        };
        // In "0x1B" the letter is a digit: a hexadecimal number takes its unit after a space or not at all.
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let (number, unit) = digits.split_at(end);
        let count = u64::from_str_radix(number, radix).map_err(|_| ByteSizeError::Number { text: owned() })?;
        let unit = unit.trim();
        let shift = unit_shift(unit).ok_or_else(|| ByteSizeError::Unit { text: owned(), unit: unit.to_owned() })?;
        let bytes = count.checked_mul(1 << shift).ok_or_else(|| ByteSizeError::TooLarge { text: owned() })?;
        Ok(ByteSize(bytes))
    }
}

fn unit_shift(unit: &str) -> Option<u32> {
    let lower = unit.to_ascii_lowercase();
    match lower.as_str() {
        "" | "b" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        "t" | "tib" => Some(40),
        _ => None,
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a byte count such as 65536, \"64K\" or \"64 KiB\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(count))
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<ByteSize, E> {
                u64::try_from(count).map(ByteSize).map_err(|_| E::invalid_value(de::Unexpected::Signed(count), &self))
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_spelling_is_read() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65536),
            ("64k", 65536),
            ("64 KiB", 65536),
            ("2M", 2 << 20),
            ("1 GiB", 1 << 30),
            (" 3T ", 3 << 40),
            ("0x1000", 4096),
            ("12 B", 12),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn refusals_name_what_is_accepted() {
        for (text, part) in
            [("", "number"), ("K", "number"), ("-1", "number"), ("64KB", "KiB"), ("1.5G", "KiB"), ("99999999T", "2^64")]
        {
            let message = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
            assert!(message.contains(&format!("{text:?}")), "{text:?}: {message}");
        }
    }

    #[test]
    fn display_is_exact() {
        assert_eq!(ByteSize(0).to_string(), "0 B");
        assert_eq!(ByteSize(1536).to_string(), "1536 B");
        assert_eq!(ByteSize::kib(1536).to_string(), "1536 KiB");
        assert_eq!(ByteSize::mib(2).to_string(), "2 MiB");
        assert_eq!(ByteSize::gib(16).to_string(), "16 GiB");
        assert_eq!(ByteSize(4097).pages_up(), 2);
    }
}
