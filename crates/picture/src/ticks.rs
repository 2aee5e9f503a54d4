//! Round ticks: multiples of 1, 2 or 5 times a power of ten, and the axes that they mark.

use std::fmt::{self, Write as _};

use memtint_units::Picoseconds;

use crate::canvas::{SMALL, TICK, text};

/// Of a step, how far a value may be beyond a tick that still covers it: decimals are not exact in binary.
const TOLERANCE: f64 = 1e-9;

/// Ticks at all multiples of a round step, from the last at or below a range to the first at or above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    first: i64,
    last: i64,
    mantissa: u32,
    exponent: i32,
}

impl Ticks {
    /// Covers the range from `least` to `most` with as many steps inside of it as fit, at most `steps_max`. Where both are the
    /// same, there is room for one step.
    pub(crate) fn covering(least: f64, most: f64, steps_max: u32) -> Ticks {
        let range = if most > least { most - least } else { least.abs().max(1.0) };
        let raw = range / f64::from(steps_max.max(1));
        let mut ticks = Ticks { first: 0, last: 1, mantissa: 1, exponent: raw.log10().floor() as i32 };
        while ticks.step() < raw * (1.0 - TOLERANCE) {
            ticks.coarser();
        }
        let step = ticks.step();
        ticks.first = (least / step + TOLERANCE).floor() as i64;
        ticks.last = ((most / step - TOLERANCE).ceil() as i64).max(ticks.first + 1);
        ticks
    }

    fn coarser(&mut self) {
        (self.mantissa, self.exponent) = match self.mantissa {
            1 => (2, self.exponent),
            2 => (5, self.exponent),
            _ => (1, self.exponent + 1),
        };
    }

    /// From one tick to the next.
    pub(crate) fn step(&self) -> f64 {
        self.value(1)
    }

    fn value(&self, index: i64) -> f64 {
        let digits = index as f64 * f64::from(self.mantissa);
        // Dividing by a power of ten rounds once, multiplying by its inverse twice.
        match self.exponent {
            0.. => digits * 10f64.powi(self.exponent),
            _ => digits / 10f64.powi(-self.exponent),
        }
    }

    pub(crate) fn least(&self) -> f64 {
        self.value(self.first)
    }

    pub(crate) fn most(&self) -> f64 {
        self.value(self.last)
    }

    /// Gives the value and the label of each tick.
    pub(crate) fn labeled(self) -> impl Iterator<Item = (f64, String)> {
        let decimals = (-self.exponent).max(0) as usize;
        (self.first..=self.last).map(move |index| {
            let value = self.value(index);
            (value, format!("{value:.decimals$}"))
        })
    }
}

/// An axis of values, from the bottom up, in front of lines or bars.
pub(crate) struct ValueAxis {
    pub(crate) ticks: Ticks,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl ValueAxis {
    pub(crate) fn y(&self, value: f64) -> f64 {
        let (least, most) = (self.ticks.least(), self.ticks.most());
        self.bottom - (self.bottom - self.top) * ((value - least) / (most - least)).clamp(0.0, 1.0)
    }

    /// Draws both axes, ticks with a suffix, and lines across. An axis that does not begin at zero is marked as broken.
    pub(crate) fn draw(&self, out: &mut String, suffix: &str) -> fmt::Result {
        let ValueAxis { left, right, top, bottom, .. } = self;
        for (value, label) in self.ticks.labeled() {
            let y = self.y(value);
            writeln!(out, r#"<path d="M{left} {y:.1}H{right}" class="grid" fill="none"/>"#)?;
            text(out, left - 8.0, y + 3.5, TICK.end(), &format!("{label}{suffix}"))?;
        }
        writeln!(out, r#"<path d="M{left} {top}V{bottom}H{right}" fill="none" class="edge"/>"#)?;
        if self.is_broken() { broken(out, *left, bottom - 9.0, true) } else { Ok(()) }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.ticks.least() > 0.0
    }
}

/// Marks an axis as broken: a zigzag across it.
pub(crate) fn broken(out: &mut String, x: f64, y: f64, upright: bool) -> fmt::Result {
    let d = match upright {
        true => format!("M{x} {:.1}l-5 2 l10 4 l-5 2", y - 4.0),
        false => format!("M{:.1} {y}l2 -5 l4 10 l2 -5", x - 4.0),
    };
    writeln!(out, r#"<path d="{d}" fill="none" class="gap" stroke-width="5"/>"#)?;
    writeln!(out, r#"<path d="{d}" fill="none" class="edge" stroke-width="1.5"/>"#)
}

/// An axis of times, from left to right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeAxis {
    /// The first time that is drawn, and the first that is not.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) left: f64,
    pub(crate) right: f64,
}

/// Units in which axes count, with their picoseconds.
const UNITS: [(&str, u64); 5] =
    [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1000), ("ps", 1)];
/// Steps below this part of a unit are written in a smaller one.
const STEP_MIN: f64 = 0.001;
const TIME_STEPS: u32 = 12;

impl TimeAxis {
    /// Gives the place of a time; times beyond the axis are at its ends.
    pub(crate) fn x(&self, at: Picoseconds) -> f64 {
        let (at, range) = (at.0.clamp(self.from, self.to) - self.from, (self.to - self.from).max(1));
        self.left + (self.right - self.left) * (at as f64 / range as f64)
    }

    /// Whether some of a span is on the axis.
    pub(crate) fn shows(&self, start: Picoseconds, end: Picoseconds) -> bool {
        start.0 < self.to && end.0 > self.from
    }

    /// Whether a point in time is on the axis.
    pub(crate) fn holds(&self, at: Picoseconds) -> bool {
        (self.from..=self.to).contains(&at.0)
    }

    /// How long a pixel is, rounded up to two digits.
    pub(crate) fn pixel(&self) -> u64 {
        let pixel = ((self.to - self.from) as f64 / (self.right - self.left)).ceil() as u64;
        pixel.next_multiple_of(10u64.pow(pixel.max(1).ilog10().saturating_sub(1)))
    }

    /// The largest unit that ends above 1 and in which steps have few decimals.
    fn unit(&self) -> (&'static str, u64, Ticks) {
        let counted = |&(name, unit): &(&'static str, u64)| {
            let ticks = Ticks::covering(self.from as f64 / unit as f64, self.to as f64 / unit as f64, TIME_STEPS);
            (name, unit, ticks)
        };
        let readable = |(_, unit, ticks): &(&str, u64, Ticks)| self.to >= *unit && ticks.step() >= STEP_MIN;
        UNITS.iter().map(counted).find(readable).unwrap_or_else(|| counted(&UNITS[4]))
    }

    /// The ticks on the axis: their places and labels.
    fn marks(&self) -> Vec<(f64, String)> {
        let (_, unit, ticks) = self.unit();
        let (from, to) = (self.from as f64 / unit as f64, self.to as f64 / unit as f64);
        let slack = ticks.step() * TOLERANCE;
        let inside = ticks.labeled().filter(|&(value, _)| value >= from - slack && value <= to + slack);
        let place =
            |value: f64| self.left + (self.right - self.left) * (value - from) / (to - from).max(f64::MIN_POSITIVE);
        inside.map(|(value, label)| (place(value).clamp(self.left, self.right), label)).collect()
    }

    /// Draws lines upwards to a top, which lie behind all that is drawn later.
    pub(crate) fn grid(&self, out: &mut String, top: f64, bottom: f64) -> fmt::Result {
        let mut lines = self.marks().into_iter();
        lines.try_for_each(|(x, _)| {
            writeln!(out, r#"<line x1="{x:.2}" y1="{top}" x2="{x:.2}" y2="{bottom}" class="grid"/>"#)
        })
    }

    /// Draws ticks and labels below a line, 32 pixels high.
    pub(crate) fn draw(&self, out: &mut String, y: f64) -> fmt::Result {
        writeln!(out, r#"<path d="M{} {y}H{}" fill="none" class="edge"/>"#, self.left, self.right)?;
        for (x, label) in self.marks() {
            writeln!(out, r#"<line x1="{x:.2}" y1="{y}" x2="{x:.2}" y2="{:.2}" class="edge"/>"#, y + 5.0)?;
            text(out, x, y + 16.0, TICK.middle(), &label)?;
        }
        text(out, (self.left + self.right) / 2.0, y + 30.0, SMALL.middle(), &format!("time in {}", self.unit().0))
    }
}

/// The longest round time that is at most so long: 1, 2 or 5 times a power of ten picoseconds.
pub(crate) fn rounds_down_to(time: u64) -> u64 {
    let power = 10u64.pow(time.max(1).ilog10());
    [5, 2].into_iter().filter_map(|factor| power.checked_mul(factor)).find(|&round| round <= time).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(ticks: Ticks) -> String {
        ticks.labeled().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_those_that_a_person_would_choose() {
        assert_eq!(labels(Ticks::covering(0.0, 0.353, 4)), "0.0 0.1 0.2 0.3 0.4");
        assert_eq!(labels(Ticks::covering(0.0, 1.1, 5)), "0.0 0.5 1.0 1.5");
        assert_eq!(labels(Ticks::covering(188.0, 297.0, 8)), "180 200 220 240 260 280 300");
        assert_eq!(labels(Ticks::covering(3.0, 3.0, 4)), "3 4");
    }

    #[test]
    fn times_are_counted_in_a_readable_unit() {
        let axis = |from, to| TimeAxis { from, to, left: 0.0, right: 100.0 };
        let marks = |from, to| axis(from, to).marks().into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ");
        assert_eq!(axis(0, 77_789_400_000).unit().0, "ms");
        assert_eq!(marks(0, 77_789_400_000), "0 10 20 30 40 50 60 70");
        assert_eq!((axis(0, 350_000).unit().0, marks(0, 350_000).as_str()), ("ns", "0 50 100 150 200 250 300 350"));
        // 20 ms to 20.05 ms.
        assert_eq!(
            marks(20_000_000_000, 20_050_000_000),
            "20.000 20.005 20.010 20.015 20.020 20.025 20.030 20.035 20.040 20.045 20.050"
        );
        assert_eq!((axis(7_000_000_000_000, 7_000_001_000_000).unit().0, axis(0, 1).unit().0), ("us", "ps"));
    }

    #[test]
    fn round_times_are_found_below_any_time() {
        let round = [1, 4, 5, 77_789_400_000, 200, u64::MAX].map(rounds_down_to);
        assert_eq!(round, [1, 2, 5, 50_000_000_000, 200, 10_000_000_000_000_000_000]);
    }

    #[test]
    fn a_pixel_is_rounded_up_to_two_digits() {
        let pixel = |range: u64| TimeAxis { from: 5, to: 5 + range, left: 0.0, right: 100.0 }.pixel();
        assert_eq!([1, 900, 1000, 12_345_600].map(pixel), [1, 9, 10, 130_000]);
    }

    proptest! {
        #[test]
        fn ticks_are_round_and_cover_the_range(
            least in -1e6..1e6f64,
            range in prop_oneof![1e-6..1.0f64, 1.0..1e9f64],
            steps_max in 2u32..20,
        ) {
            let (most, ticks) = (least + range, Ticks::covering(least, least + range, steps_max));
            // 1, 2 or 5 times a power of ten: the digits of the step say it.
            let digits: String = format!("{:e}", ticks.step());
            prop_assert!(["1e", "2e", "5e"].iter().any(|round| digits.starts_with(round)), "{digits}");
            let near = ticks.step() * 1e-6;
            prop_assert!(ticks.least() <= least + near && ticks.most() >= most - near, "{ticks:?}");
            // No tick is in vain, and there are neither more than wanted nor hardly any.
            prop_assert!(ticks.least() > least - ticks.step() - near && ticks.most() < most + ticks.step() + near, "{ticks:?}");
            prop_assert!(ticks.last - ticks.first <= i64::from(steps_max) + 1, "{ticks:?}");
            prop_assert!(range / ticks.step() * 2.5 >= f64::from(steps_max) * (1.0 - 1e-6), "{ticks:?}");
            let read: Vec<f64> = ticks.labeled().map(|(_, label)| label.parse().unwrap()).collect();
            prop_assert!(read.windows(2).all(|pair| (pair[1] - pair[0] - ticks.step()).abs() < near), "{read:?}");
        }

        #[test]
        fn marks_of_times_are_on_the_axis_and_in_order(from in 0u64..1 << 50, range in 1u64..1 << 50) {
            let axis = TimeAxis { from, to: from + range, left: 10.0, right: 1000.0 };
            let marks = axis.marks();
            prop_assert!(marks.len() <= TIME_STEPS as usize + 1 && (marks.len() >= 4 || range < 4), "{marks:?}");
            prop_assert!(marks.iter().all(|(x, _)| (10.0..=1000.0).contains(x)), "{marks:?}");
            prop_assert!(marks.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1), "{marks:?}");
        }
    }
}
