//! What was measured: series of samples, failures, and what they come to.

use serde_json::{Map, Value, json};

/// Unit of a series; the names of JSON fields end in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    NanosecondsPerPage,
    MicrosecondsPerRequest,
    Mebibytes,
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
    pub(super) fn label(self) -> &'static str {
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
pub(super) enum Side {
    Native,
    Colored,
}

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::Native, Side::Colored];

    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Native => "native",
            Side::Colored => "colored",
        }
    }
}

/// One figure of one program, measured several times on both sides.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) group: &'static str,
    pub(super) subject: String,
    pub(super) measure: &'static str,
    pub(super) unit: Unit,
    pub(super) native: Vec<f64>,
    pub(super) colored: Vec<f64>,
}

impl Series {
    /// Median of the colored samples over that of the native ones; `None` when either is missing or native is 0.
    pub(super) fn ratio(&self) -> Option<f64> {
        let (native, colored) = (Spread::of(&self.native)?, Spread::of(&self.colored)?);
        (native.median > 0.0).then(|| colored.median / native.median)
    }

    /// As [`Series::ratio`], of the smallest samples: what other programs disturb least.
    pub(super) fn ratio_of_min(&self) -> Option<f64> {
        let (native, colored) = (Spread::of(&self.native)?, Spread::of(&self.colored)?);
        (native.min > 0.0).then(|| colored.min / native.min)
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "group": self.group,
            "subject": self.subject,
            "measure": self.measure,
            "native": side_json(&self.native, self.unit),
            "colored": side_json(&self.colored, self.unit),
            "ratio": self.ratio(),
            "ratio_of_min": self.ratio_of_min(),
        })
    }
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
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// `None` when there are no samples; the median of an even number is the mean of the middle two.
    pub(super) fn of(samples: &[f64]) -> Option<Spread> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let median = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        Some(Spread { median, min, max })
    }
}

/// A run that gave no figures, or whose output was not that of the native run.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Mishap {
    pub(super) group: &'static str,
    pub(super) subject: String,
    /// `native` or `colored`.
    pub(super) side: &'static str,
    pub(super) reason: String,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) series: Vec<Series>,
    pub(super) failures: Vec<Mishap>,
    /// What could not be measured here, and why.
    pub(super) skipped: Vec<String>,
    /// Share of pages in the chosen colors, one sample for each run that was looked into.
    pub(super) native_share_in_color: Vec<f64>,
    pub(super) colored_share_in_color: Vec<f64>,
    /// What touching memory for the scrambling cost, run by run.
    pub(super) scramble_touch_ns_per_page: Vec<f64>,
    /// Programs whose outputs were compared, and whether all were equal.
    pub(super) outputs: Vec<(&'static str, bool)>,
    /// Pages that colored runs got out of color, or were refused.
    pub(super) pages_out_of_color: u64,
    pub(super) pages_refused: u64,
    /// What the runtime could not color, in its own words, each once.
    pub(super) problems: Vec<String>,
}

impl Results {
    /// Adds a sample to its series.
    pub(super) fn add(
        &mut self,
        group: &'static str,
        subject: &str,
        measure: (&'static str, Unit),
        side: Side,
        value: f64,
    ) {
        let (measure, unit) = measure;
        let place = self.series.iter().position(|series| {
            series.group == group && series.subject == subject && series.measure == measure && series.unit == unit
        });
        let place = place.unwrap_or_else(|| {
            let (native, colored) = (Vec::new(), Vec::new());
            self.series.push(Series { group, subject: subject.to_owned(), measure, unit, native, colored });
            self.series.len() - 1
        });
        match side {
            Side::Native => self.series[place].native.push(value),
            Side::Colored => self.series[place].colored.push(value),
        }
    }

    /// The series of this name.
    pub(super) fn find(&self, group: &str, subject: &str, measure: &str) -> Option<&Series> {
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
