//! What was measured: series of samples, failures, and what they come to.

use serde_json::{Map, Value, json};

use memtint_units::Random;

/// Unit of a series; the names of JSON fields end in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Nanoseconds for each page.
    NanosecondsPerPage,
    /// Microseconds for each request.
    MicrosecondsPerRequest,
    /// MiB.
    Mebibytes,
    /// Pages for each page that is used.
    PagesPerPage,
}

impl Unit {
    /// End of field names.
    fn suffix(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::NanosecondsPerPage => "ns_per_page",
            Unit::MicrosecondsPerRequest => "us_per_request",
            Unit::Mebibytes => "mib",
            Unit::PagesPerPage => "pages_per_page",
        }
    }

    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::NanosecondsPerPage => "ns/page",
            Unit::MicrosecondsPerRequest => "us/request",
            Unit::Mebibytes => "MiB",
            Unit::PagesPerPage => "pages/page",
        }
    }
}

/// A run without memtint, or one under `memtint run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Without memtint.
    Native,
    /// Under `memtint run`.
    Colored,
    /// A second run without memtint beside the first: what chance makes of two equal runs.
    Control,
}

impl Side {
    /// Native and colored.
    pub const BOTH: [Side; 2] = [Side::Native, Side::Colored];
    /// All three.
    pub const ALL: [Side; 3] = [Side::Native, Side::Colored, Side::Control];

    /// Gives its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Side::Native => "native",
            Side::Colored => "colored",
            Side::Control => "control",
        }
    }
}

/// One figure of one program, measured several times on both sides.
#[derive(Debug)]
pub struct Series {
    /// What was measured: start-up, touching, programs.
    pub group: &'static str,
    /// The program, or what was asked of it.
    pub subject: String,
    /// Which of its figures.
    pub measure: &'static str,
    /// Unit of all samples.
    pub unit: Unit,
    /// Samples without memtint, one a round.
    pub native: Vec<f64>,
    /// Samples in color.
    pub colored: Vec<f64>,
    /// Empty where native runs have no other beside them.
    pub control: Vec<f64>,
}

impl Series {
    /// Colored by native sample, or the mean of both native ones, round by round: what slows the machine down for a while,
    /// and with it all sides, cancels.
    fn ratios(&self) -> Vec<f64> {
        if self.control.len() == self.native.len() {
            let means = self.native.iter().zip(&self.control).map(|(native, control)| f64::midpoint(*native, *control));
            return quotients(&self.colored, means);
        }
        quotients(&self.colored, self.native.iter().copied())
    }

    /// What [`Series::ratio`] would be of a second native run in the place of the colored one, and where it lies: the
    /// share of chance. `None` without a control.
    pub fn control_ratio(&self) -> Option<(f64, Option<Interval>)> {
        let ratios = quotients(&self.control, self.native.iter().copied());
        Some((Spread::of(&ratios)?.median, Interval::of_median(&ratios)))
    }

    /// Median of the ratios of all rounds; `None` when a side is missing or native is 0.
    pub fn ratio(&self) -> Option<f64> {
        Some(Spread::of(&self.ratios())?.median)
    }

    /// Where [`Series::ratio`] lies.
    pub fn ratio_interval(&self) -> Option<Interval> {
        Interval::of_median(&self.ratios())
    }

    /// Smallest colored sample by the smallest native one: what other programs disturb least.
    pub fn ratio_of_min(&self) -> Option<f64> {
        let (native, colored) = (Spread::of(&self.native)?, Spread::of(&self.colored)?);
        (native.min > 0.0).then(|| colored.min / native.min)
    }

    /// Gives all sides and ratios, with units in the names.
    pub fn to_json(&self) -> Value {
        json!({
            "group": self.group,
            "subject": self.subject,
            "measure": self.measure,
            "native": side_json(&self.native, self.unit),
            "colored": side_json(&self.colored, self.unit),
            "control": side_json(&self.control, self.unit),
            "ratio": self.ratio(),
            "ratio_95": self.ratio_interval().map(|interval| [interval.low, interval.high]),
            "ratio_of_min": self.ratio_of_min(),
            "control_ratio": self.control_ratio().map(|(ratio, _)| ratio),
            "control_ratio_95": self.control_ratio().and_then(|(_, at)| at).map(|at| [at.low, at.high]),
        })
    }
}

/// Round by round.
fn quotients(samples: &[f64], by: impl Iterator<Item = f64>) -> Vec<f64> {
    by.zip(samples).filter(|(by, _)| *by > 0.0).map(|(by, sample)| sample / by).collect()
}

fn side_json(samples: &[f64], unit: Unit) -> Value {
    let Some(spread) = Spread::of(samples) else { return Value::Null };
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| map.insert(format!("{name}_{}", unit.suffix()), value);
    put("median", json!(spread.median));
    put("min", json!(spread.min));
    put("max", json!(spread.max));
    put("samples", json!(samples));
    Value::Object(map)
}

/// Middle and ends of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// `None` when there are no samples; the median of an even number is the mean of the middle two.
    pub fn of(samples: &[f64]) -> Option<Spread> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let median = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        Some(Spread { median, min, max })
    }
}

/// Where a figure lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Of the median of samples, by the percentile bootstrap (Efron and Tibshirani: An introduction to the bootstrap, 1993,
    /// chapter 13): medians of as many samples as there are, drawn with replacement. `None` below three samples.
    pub fn of_median(samples: &[f64]) -> Option<Interval> {
        const RESAMPLES: usize = 2000;
        if samples.len() < 3 {
            return None;
        }
        let mut random = Random::new(0);
        let mut drawn = vec![0.0; samples.len()];
        let mut medians: Vec<f64> = std::iter::repeat_with(|| {
            drawn.fill_with(|| samples[random.index(samples.len())]);
            Spread::of(&drawn).map_or(f64::NAN, |spread| spread.median)
        })
        .take(RESAMPLES)
        .collect();
        medians.sort_by(f64::total_cmp);
        Some(Interval { low: medians[RESAMPLES / 40], high: medians[RESAMPLES - 1 - RESAMPLES / 40] })
    }
}

/// A run that gave no figures, or whose output was not that of the native run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Mishap {
    /// What was measured: start-up, touching, programs.
    pub group: &'static str,
    /// The program, or what was asked of it.
    pub subject: String,
    /// `native` or `colored`.
    pub side: &'static str,
    /// Why.
    pub reason: String,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Results {
    /// The figures.
    pub series: Vec<Series>,
    /// Runs without figures.
    pub failures: Vec<Mishap>,
    /// What could not be measured here, and why.
    pub skipped: Vec<String>,
    /// Share of pages in the chosen colors, one sample for each run that was looked into.
    pub native_share_in_color: Vec<f64>,
    /// The same, of colored runs.
    pub colored_share_in_color: Vec<f64>,
    /// What touching memory for the scrambling cost, run by run.
    pub scramble_touch_ns_per_page: Vec<f64>,
    /// Programs whose outputs were compared, and whether all were equal.
    pub outputs: Vec<(&'static str, bool)>,
    /// Pages that colored runs got out of color, or were refused.
    pub pages_out_of_color: u64,
    /// Pages that a strict run was refused.
    pub pages_refused: u64,
    /// What the runtime could not color, in its own words, each once.
    pub problems: Vec<String>,
}

impl Results {
    /// Adds a sample to its series.
    pub fn add(&mut self, group: &'static str, subject: &str, measure: (&'static str, Unit), side: Side, value: f64) {
        let (measure, unit) = measure;
        let place = self.series.iter().position(|series| {
            series.group == group && series.subject == subject && series.measure == measure && series.unit == unit
        });
        let place = place.unwrap_or_else(|| {
            let (native, colored, control) = (Vec::new(), Vec::new(), Vec::new());
            self.series.push(Series { group, subject: subject.to_owned(), measure, unit, native, colored, control });
            self.series.len() - 1
        });
        match side {
            Side::Native => self.series[place].native.push(value),
            Side::Colored => self.series[place].colored.push(value),
            Side::Control => self.series[place].control.push(value),
        }
    }

    /// The series of this name.
    pub fn find(&self, group: &str, subject: &str, measure: &str) -> Option<&Series> {
        self.series.iter().find(|s| s.group == group && s.subject == subject && s.measure == measure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0]).unwrap().median, 2.5);
    }

    #[test]
    fn an_interval_narrows_with_rounds_and_a_slow_machine_cancels() {
        let series = |rounds: usize| {
            let mut random = Random::new(3);
            let native: Vec<f64> = (0..rounds).map(|_| 100.0 + random.index(1000) as f64).collect();
            let colored = native.iter().map(|sample| sample * 1.1).collect();
            let (subject, unit) = ("x".to_owned(), Unit::Milliseconds);
            Series { group: "g", subject, measure: "m", unit, native, colored, control: Vec::new() }
        };
        assert_eq!(series(2).ratio_interval(), None);
        let cancelled = series(15).ratio_interval().unwrap();
        assert!((cancelled.low - 1.1).abs() < 1e-9 && (cancelled.high - 1.1).abs() < 1e-9, "{cancelled:?}");
        let width =
            |rounds| Interval::of_median(&series(rounds).native).map(|i| (i.high - i.low, i.low, i.high)).unwrap();
        let (few, many) = (width(9), width(900));
        assert!(many.0 < few.0 / 3.0, "{few:?} {many:?}");
        // The middle of even numbers from 100 to 1099.
        assert!(many.1 < 600.0 && 600.0 < many.2, "{many:?}");
    }

    #[test]
    fn a_control_is_a_second_native_side() {
        let mut results = Results::default();
        for (side, value) in [(Side::Native, 1.0), (Side::Control, 3.0), (Side::Colored, 3.0)] {
            results.add("g", "x", ("m", Unit::Milliseconds), side, value);
        }
        let series = &results.series[0];
        assert_eq!((series.ratio(), series.control_ratio()), (Some(1.5), Some((3.0, None))));
    }

    #[test]
    fn fields_carry_their_unit_and_absence_is_null() {
        let mut results = Results::default();
        results.add("touch", "random", ("first touch", Unit::NanosecondsPerPage), Side::Colored, 2.0);
        let json = results.series[0].to_json();
        assert_eq!(json["colored"]["median_ns_per_page"], 2.0);
        assert!(json["native"].is_null() && json["ratio"].is_null());
        results.add("touch", "random", ("first touch", Unit::NanosecondsPerPage), Side::Native, 4.0);
        assert_eq!(results.series[0].to_json()["ratio"], 0.5);
    }
}
