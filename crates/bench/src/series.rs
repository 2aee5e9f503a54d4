//! Results: series of samples, failures, and their evaluation.

use memtint_units::Random;
use schemars::JsonSchema;
use serde::Serialize;

/// Unit of a series; the fields of [`SideReport`] end in it.
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
    /// Returns its label in text.
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
    /// A second run without memtint: shows the difference that chance makes between equal runs.
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
    /// Group of measurements: start-up, touching, programs.
    pub group: &'static str,
    /// The program, or its task.
    pub subject: String,
    /// Name of the figure.
    pub measure: &'static str,
    /// Unit of all samples.
    pub unit: Unit,
    /// Samples without memtint, one a round.
    pub native: Vec<f64>,
    /// Samples in color.
    pub colored: Vec<f64>,
    /// Samples of the second native run; empty without one.
    pub control: Vec<f64>,
}

impl Series {
    /// Ratios of the colored sample to the native one, or to the mean of both native ones, round by round. A temporary
    /// slowdown of the machine affects all sides and cancels.
    fn ratios(&self) -> Vec<f64> {
        if self.control.len() == self.native.len() {
            let means = self.native.iter().zip(&self.control).map(|(native, control)| f64::midpoint(*native, *control));
            return quotients(&self.colored, means);
        }
        quotients(&self.colored, self.native.iter().copied())
    }

    /// [`Series::ratio`] of the second native run in place of the colored one, and its interval: the influence of
    /// chance. `None` without a control.
    pub fn control_ratio(&self) -> Option<(f64, Option<Interval>)> {
        let ratios = quotients(&self.control, self.native.iter().copied());
        Some((Spread::of(&ratios)?.median, Interval::of_median(&ratios)))
    }

    /// Median of the ratios of all rounds; `None` when a side is missing or native is 0.
    pub fn ratio(&self) -> Option<f64> {
        Some(Spread::of(&self.ratios())?.median)
    }

    /// Interval of [`Series::ratio`].
    pub fn ratio_interval(&self) -> Option<Interval> {
        Interval::of_median(&self.ratios())
    }

    /// Ratio of the smallest colored sample to the smallest native one, which other programs disturb least.
    pub fn ratio_of_min(&self) -> Option<f64> {
        let (native, colored) = (Spread::of(&self.native)?, Spread::of(&self.colored)?);
        (native.min > 0.0).then(|| colored.min / native.min)
    }

    /// Gives all sides and ratios, with units in the names.
    pub fn report(&self) -> SeriesReport {
        let control = self.control_ratio();
        SeriesReport {
            group: self.group,
            subject: self.subject.clone(),
            measure: self.measure,
            native: SideReport::of(&self.native, self.unit),
            colored: SideReport::of(&self.colored, self.unit),
            control: SideReport::of(&self.control, self.unit),
            ratio: self.ratio(),
            ratio_95: self.ratio_interval().map(Interval::ends),
            ratio_of_min: self.ratio_of_min(),
            control_ratio: control.map(|(ratio, _)| ratio),
            control_ratio_95: control.and_then(|(_, at)| at).map(Interval::ends),
        }
    }
}

/// Round by round.
fn quotients(samples: &[f64], by: impl Iterator<Item = f64>) -> Vec<f64> {
    by.zip(samples).filter(|(by, _)| *by > 0.0).map(|(by, sample)| sample / by).collect()
}

/// One figure of one program, in the format of reports.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SeriesReport {
    /// Group of measurements: start-up, touching, programs.
    pub group: &'static str,
    /// The program, or its task.
    pub subject: String,
    /// Name of the figure.
    pub measure: &'static str,
    /// Samples without memtint; null without samples.
    pub native: Option<SideReport>,
    /// Samples in color; null without samples.
    pub colored: Option<SideReport>,
    /// Samples of a second native run; null without samples.
    pub control: Option<SideReport>,
    /// Median of the ratios of all rounds, colored by native; null where a side is missing or native is 0.
    pub ratio: Option<f64>,
    /// Ends of its interval at 95 % confidence; null below three rounds.
    pub ratio_95: Option<[f64; 2]>,
    /// The smallest colored sample by the smallest native one; null where a side is missing or native is 0.
    pub ratio_of_min: Option<f64>,
    /// Median of the ratios of all rounds, control by native; null without a control.
    pub control_ratio: Option<f64>,
    /// Ends of its interval at 95 % confidence; null without a control, and below three rounds.
    pub control_ratio_95: Option<[f64; 2]>,
}

/// The samples of one side of a series, with median, minimum and maximum. The unit ends the names of the fields.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SideReport {
    /// In milliseconds.
    Milliseconds {
        /// The middle.
        median_ms: f64,
        /// The smallest.
        min_ms: f64,
        /// The largest.
        max_ms: f64,
        /// All of them, in the order of rounds.
        samples_ms: Vec<f64>,
    },
    /// In nanoseconds for each page.
    NanosecondsPerPage {
        /// The middle.
        median_ns_per_page: f64,
        /// The smallest.
        min_ns_per_page: f64,
        /// The largest.
        max_ns_per_page: f64,
        /// All of them, in the order of rounds.
        samples_ns_per_page: Vec<f64>,
    },
    /// In microseconds for each request.
    MicrosecondsPerRequest {
        /// The middle.
        median_us_per_request: f64,
        /// The smallest.
        min_us_per_request: f64,
        /// The largest.
        max_us_per_request: f64,
        /// All of them, in the order of rounds.
        samples_us_per_request: Vec<f64>,
    },
    /// In MiB.
    Mebibytes {
        /// The middle.
        median_mib: f64,
        /// The smallest.
        min_mib: f64,
        /// The largest.
        max_mib: f64,
        /// All of them, in the order of rounds.
        samples_mib: Vec<f64>,
    },
    /// In pages for each page that is used.
    PagesPerPage {
        /// The middle.
        median_pages_per_page: f64,
        /// The smallest.
        min_pages_per_page: f64,
        /// The largest.
        max_pages_per_page: f64,
        /// All of them, in the order of rounds.
        samples_pages_per_page: Vec<f64>,
    },
}

impl SeriesReport {
    /// Gives the unit of all samples; `None` where there are none.
    pub fn unit(&self) -> Option<Unit> {
        [&self.native, &self.colored, &self.control].into_iter().flatten().next().map(SideReport::unit)
    }
}

impl SideReport {
    /// Gives the unit of all samples.
    pub fn unit(&self) -> Unit {
        match self {
            SideReport::Milliseconds { .. } => Unit::Milliseconds,
            SideReport::NanosecondsPerPage { .. } => Unit::NanosecondsPerPage,
            SideReport::MicrosecondsPerRequest { .. } => Unit::MicrosecondsPerRequest,
            SideReport::Mebibytes { .. } => Unit::Mebibytes,
            SideReport::PagesPerPage { .. } => Unit::PagesPerPage,
        }
    }

    /// Returns median, minimum and maximum.
    pub fn spread(&self) -> Spread {
        let (&median, &min, &max) = match self {
            SideReport::Milliseconds { median_ms: median, min_ms: min, max_ms: max, .. } => (median, min, max),
            SideReport::NanosecondsPerPage {
                median_ns_per_page: median,
                min_ns_per_page: min,
                max_ns_per_page: max,
                ..
            } => (median, min, max),
            SideReport::MicrosecondsPerRequest {
                median_us_per_request: median,
                min_us_per_request: min,
                max_us_per_request: max,
                ..
            } => (median, min, max),
            SideReport::Mebibytes { median_mib: median, min_mib: min, max_mib: max, .. } => (median, min, max),
            SideReport::PagesPerPage {
                median_pages_per_page: median,
                min_pages_per_page: min,
                max_pages_per_page: max,
                ..
            } => (median, min, max),
        };
        Spread { median, min, max }
    }

    /// `None` when there are no samples.
    fn of(samples: &[f64], unit: Unit) -> Option<SideReport> {
        let Spread { median, min, max } = Spread::of(samples)?;
        let samples = samples.to_vec();
        Some(match unit {
            Unit::Milliseconds => {
                SideReport::Milliseconds { median_ms: median, min_ms: min, max_ms: max, samples_ms: samples }
            }
            Unit::NanosecondsPerPage => SideReport::NanosecondsPerPage {
                median_ns_per_page: median,
                min_ns_per_page: min,
                max_ns_per_page: max,
                samples_ns_per_page: samples,
            },
            Unit::MicrosecondsPerRequest => SideReport::MicrosecondsPerRequest {
                median_us_per_request: median,
                min_us_per_request: min,
                max_us_per_request: max,
                samples_us_per_request: samples,
            },
            Unit::Mebibytes => {
                SideReport::Mebibytes { median_mib: median, min_mib: min, max_mib: max, samples_mib: samples }
            }
            Unit::PagesPerPage => SideReport::PagesPerPage {
                median_pages_per_page: median,
                min_pages_per_page: min,
                max_pages_per_page: max,
                samples_pages_per_page: samples,
            },
        })
    }
}

/// Median, minimum and maximum of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
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

/// A 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Returns both ends, in the format of reports.
    pub fn ends(self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// The interval of the median of samples, by the percentile bootstrap (Efron and Tibshirani: An introduction to the
    /// bootstrap, 1993, chapter 13): medians of equally many samples, drawn with replacement. `None` below three
    /// samples.
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

/// The runs of a round: those of one side, or of all sides at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Runs {
    /// Without memtint.
    #[serde(rename = "native")]
    Native,
    /// Under `memtint run`.
    #[serde(rename = "colored")]
    Colored,
    /// A second run without memtint.
    #[serde(rename = "control")]
    Control,
    /// All sides at the same time.
    #[serde(rename = "side by side")]
    SideBySide,
}

impl Runs {
    /// Gives their name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Runs::Native => Side::Native.name(),
            Runs::Colored => Side::Colored.name(),
            Runs::Control => Side::Control.name(),
            Runs::SideBySide => "side by side",
        }
    }
}

impl From<Side> for Runs {
    fn from(side: Side) -> Runs {
        match side {
            Side::Native => Runs::Native,
            Side::Colored => Runs::Colored,
            Side::Control => Runs::Control,
        }
    }
}

/// A run that gave no figures, or whose output differed from the native run's.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Mishap {
    /// Group of measurements: start-up, touching, programs.
    pub group: &'static str,
    /// The program, or its task.
    pub subject: String,
    /// Its side, or all of them.
    pub side: Runs,
    /// Why.
    pub reason: String,
}

/// All results.
#[derive(Debug, Default)]
pub struct Results {
    /// The figures.
    pub series: Vec<Series>,
    /// Runs without figures.
    pub failures: Vec<Mishap>,
    /// Measurements that are impossible here, with the reason.
    pub skipped: Vec<String>,
    /// Share of pages in the chosen colors, one sample for each inspected run.
    pub native_share_in_color: Vec<f64>,
    /// The same, of colored runs.
    pub colored_share_in_color: Vec<f64>,
    /// Cost of touching memory for the scrambling, run by run.
    pub scramble_touch_ns_per_page: Vec<f64>,
    /// Programs whose outputs were compared, and whether all were equal.
    pub outputs: Vec<(&'static str, bool)>,
    /// Pages of colored runs that are out of color or were refused.
    pub pages_out_of_color: u64,
    /// Pages refused to strict runs.
    pub pages_refused: u64,
    /// Messages of the runtime about pages that it could not color, without duplicates.
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
        let json = |series: &Series| serde_json::to_value(series.report()).unwrap();
        let first = json(&results.series[0]);
        assert_eq!(first["colored"]["median_ns_per_page"], 2.0);
        assert!(first["native"].is_null() && first["ratio"].is_null());
        results.add("touch", "random", ("first touch", Unit::NanosecondsPerPage), Side::Native, 4.0);
        assert_eq!(json(&results.series[0])["ratio"], 0.5);
    }
}
