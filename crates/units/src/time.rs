//! Time: picoseconds, and the clock that counts cycles in them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// Counts picoseconds: a point in simulated time, or a span.
///
/// 64 bits last for 213 days. Arithmetic panics on overflow in debug builds, like that of the integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Picoseconds(pub u64);

impl Picoseconds {
    /// Counts whole nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Picoseconds {
        Picoseconds(ns * 1000)
    }

    /// Gives the span in nanoseconds, as a decimal for people.
    #[must_use]
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Gives the span in seconds, as a decimal for people.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Subtracts, zero where the result would be negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Picoseconds) -> Picoseconds {
        Picoseconds(self.0.saturating_sub(other.0))
    }
}

impl Add for Picoseconds {
    type Output = Picoseconds;

    fn add(self, other: Picoseconds) -> Picoseconds {
        Picoseconds(self.0 + other.0)
    }
}

impl AddAssign for Picoseconds {
    fn add_assign(&mut self, other: Picoseconds) {
        self.0 += other.0;
    }
}

impl Sub for Picoseconds {
    type Output = Picoseconds;

    fn sub(self, other: Picoseconds) -> Picoseconds {
        Picoseconds(self.0 - other.0)
    }
}

/// Writes the span exactly, in the largest unit of which it is at least one. Parsing the text gives the same span.
///
/// ```
/// use memtint_units::Picoseconds;
///
/// assert_eq!(Picoseconds(7_800_000).to_string(), "7.8 us");
/// ```
impl fmt::Display for Picoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&spell_picoseconds(&self.0.to_string()))
    }
}

/// Writes picoseconds, a whole number of any length in decimal digits, as [`Picoseconds`] are written.
///
/// ```
/// assert_eq!(memtint_units::spell_picoseconds("123456789012345678901500000000"), "123456789012345678.9015 s");
/// ```
#[must_use]
pub fn spell_picoseconds(ps: &str) -> String {
    let units = [("s", 12usize), ("ms", 9), ("us", 6), ("ns", 3)];
    let Some((unit, digits)) = units.into_iter().find(|&(_, digits)| ps.len() > digits) else {
        return format!("{ps} ps");
    };
    let (whole, part) = ps.split_at(ps.len() - digits);
    let part = part.trim_end_matches('0');
    if part.is_empty() { format!("{whole} {unit}") } else { format!("{whole}.{part} {unit}") }
}

/// The text is not a time span.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "time {found:?}; accepted is a number with ps, ns, us, ms or s, in whole picoseconds, such as \"10 ms\" or \"7.8 us\""
)]
pub struct TimeError {
    /// The text.
    pub found: String,
}

impl FromStr for Picoseconds {
    type Err = TimeError;

    /// Reads a decimal number and its unit exactly; refuses a value that would need rounding.
    fn from_str(text: &str) -> Result<Picoseconds, TimeError> {
        exact(text).ok_or_else(|| TimeError { found: text.to_owned() })
    }
}

fn exact(text: &str) -> Option<Picoseconds> {
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let digits = match text[split..].trim() {
        "ps" => 0,
        "ns" => 3,
        "us" => 6,
        "ms" => 9,
        "s" => 12,
        _ => return None,
    };
    let (whole, part) = text[..split].split_once('.').unwrap_or((&text[..split], ""));
    let part = part.trim_end_matches('0');
    if whole.is_empty() || part.len() > digits || text[..split].ends_with('.') || part.contains('.') {
        return None;
    }
    format!("{whole}{part:0<digits$}").parse().ok().map(Picoseconds)
}

/// A clock: cycle `k` begins at `k` times the period. The period is an exact ratio of picoseconds, so that a clock of
/// 1200 MHz (2500/3 ps) does not drift, however long it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    numerator_ps: u64,
    denominator: u64,
}

impl Clock {
    /// Makes a clock with a period of `numerator_ps / denominator` picoseconds; `None` when either is zero.
    #[must_use]
    pub const fn new(numerator_ps: u64, denominator: u64) -> Option<Clock> {
        if numerator_ps == 0 || denominator == 0 {
            return None;
        }
        let divisor = gcd(numerator_ps, denominator);
        Some(Clock { numerator_ps: numerator_ps / divisor, denominator: denominator / divisor })
    }

    /// Makes the clock of a frequency in kilohertz; `None` for zero.
    #[must_use]
    pub const fn from_khz(khz: u64) -> Option<Clock> {
        Clock::new(1_000_000_000, khz)
    }

    /// Gives the period as numerator (picoseconds) and denominator, without a common divisor.
    #[must_use]
    pub const fn period(self) -> (u64, u64) {
        (self.numerator_ps, self.denominator)
    }

    /// Gives the period in picoseconds, as a decimal for people.
    #[must_use]
    pub fn period_ps(self) -> f64 {
        self.numerator_ps as f64 / self.denominator as f64
    }

    /// Gives the first whole picosecond at or after the beginning of a cycle (rounds up).
    #[inline]
    #[must_use]
    pub const fn start(self, cycle: u64) -> Picoseconds {
        // The narrow division is many times faster, and the same.
        if let Some(product) = cycle.checked_mul(self.numerator_ps) {
            return Picoseconds(product.div_ceil(self.denominator));
        }
        let product = cycle as u128 * self.numerator_ps as u128;
        Picoseconds(product.div_ceil(self.denominator as u128) as u64)
    }

    /// Gives the first cycle that begins at or after a point in time (rounds up): also the cycles that a span takes.
    #[inline]
    #[must_use]
    pub const fn cycles_covering(self, time: Picoseconds) -> u64 {
        if let Some(product) = time.0.checked_mul(self.denominator) {
            return product.div_ceil(self.numerator_ps);
        }
        let product = time.0 as u128 * self.denominator as u128;
        product.div_ceil(self.numerator_ps as u128) as u64
    }

    /// Gives the cycle that a point in time lies in (rounds down): also the whole cycles that fit a span.
    #[inline]
    #[must_use]
    pub const fn cycles_within(self, time: Picoseconds) -> u64 {
        let product = time.0 as u128 * self.denominator as u128;
        (product / self.numerator_ps as u128) as u64
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_or_refused() {
        let ps = |text: &str| text.parse::<Picoseconds>().ok().map(|time| time.0);
        assert_eq!((ps("20 ms"), ps("7.8 us"), ps("0.001ns")), (Some(20_000_000_000), Some(7_800_000), Some(1)));
        assert_eq!((ps("1.50 ns"), ps("0 s"), ps("1.0 ps")), (Some(1500), Some(0), Some(1)));
        let wrong = ["20", "ms", "0.5 ps", "1.2.3 us", "-1 ms", "1e3 us", "20 m", "", ". us", "1. us", ".5 us"];
        for text in wrong.into_iter().chain(["99999999999 s"]) {
            assert_eq!(ps(text), None, "{text}");
        }
    }
    use proptest::prelude::*;

    #[test]
    fn a_clock_with_a_broken_period_does_not_drift() {
        let ddr4_2400 = Clock::new(2500, 3).unwrap();
        assert_eq!(ddr4_2400, Clock::from_khz(1_200_000).unwrap());
        assert_eq!(ddr4_2400.start(3), Picoseconds(2500));
        assert_eq!(ddr4_2400.start(1), Picoseconds(834));
        assert_eq!(ddr4_2400.start(1_200_000_000_000), Picoseconds(1_000_000_000_000_000));
        assert_eq!(ddr4_2400.cycles_covering(Picoseconds::from_ns(350)), 420);
        assert_eq!(ddr4_2400.cycles_within(Picoseconds(833)), 0);
        assert_eq!(Clock::new(0, 1), None);
        assert_eq!(Clock::new(1, 0), None);
    }

    proptest! {
        #[test]
        fn cycles_and_time_convert_back(numerator in 1u64..1_000_000, denominator in 1u64..1000, cycle in 0u64..1 << 40) {
            let clock = Clock::new(numerator, denominator).unwrap();
            prop_assert_eq!(clock.cycles_within(clock.start(cycle)), cycle.max(clock.cycles_within(clock.start(cycle))));
            prop_assert!(clock.cycles_covering(clock.start(cycle)) >= cycle);
            prop_assert!(clock.start(clock.cycles_covering(clock.start(cycle))) >= clock.start(cycle));
            prop_assert!(clock.cycles_within(Picoseconds(cycle)) <= clock.cycles_covering(Picoseconds(cycle)));
        }
    }
}
