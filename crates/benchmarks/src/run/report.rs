//! The report of programs with and without colors, and whether the targets are met.

use memtint_bench::{Disturbance, Host, Interval, Mishap, Results, SeriesReport, Spread};
use schemars::JsonSchema;
use serde::Serialize;

use super::groups::MemoryAsFound;
use super::programs::{PROGRAMS, STEADY, STEADY_CPU};
use crate::Benchmark;
use crate::words::words;

/// Schema version of the report.
pub(super) const SCHEMA: u32 = 1;

/// The report of the benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunReport {
    /// Schema version of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "run"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine of the measurement.
    pub machine: Host,
    /// Name of the platform.
    pub platform: String,
    /// Its granule.
    pub granule_bytes: u64,
    /// The colors as text.
    pub colors: String,
    /// Share of all frames that are in these colors.
    pub share_of_frames: f64,
    /// Seed of inputs and orders.
    pub seed: u64,
    /// Runs of each kind on each side; start-up is measured three times as often.
    pub repeat: usize,
    /// Whether the benchmark ran with `--quick`.
    pub quick: bool,
    /// Time of the whole benchmark, in seconds.
    pub duration_s: f64,
    /// Conditions of the measurement.
    pub context: Context,
    /// The figures.
    pub series: Vec<SeriesReport>,
    /// The steady part of each program.
    pub steady_parts: Vec<SteadyPart>,
    /// Programs whose outputs were compared.
    pub outputs: Vec<OutputReport>,
    /// Runs without figures.
    pub failures: Vec<Mishap>,
    /// Measurements that are impossible here, with the reason.
    pub skipped: Vec<String>,
    /// Targets and their results.
    pub targets: Vec<TargetReport>,
}

/// Conditions of a measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Context {
    /// State of memory at the start of the benchmark; null where it could not be touched.
    pub memory_as_found: Option<MemoryAsFound>,
    /// Other load on the machine during the benchmark; null where the kernel does not report it.
    pub disturbance: Option<Disturbance>,
    /// Cost of touching memory for the scrambling, run by run; null where nothing was scrambled.
    pub scramble_touch_ns_per_page: Option<Sampled>,
    /// Share of touched pages in the chosen colors, of native runs; null where no run was inspected.
    pub native_share_in_color: Option<Sampled>,
    /// The same, of colored runs.
    pub colored_share_in_color: Option<Sampled>,
    /// Pages of colored runs that are out of color.
    pub pages_out_of_color: u64,
    /// Pages refused to strict runs.
    pub pages_refused: u64,
    /// Messages of the runtime about pages that it could not color, without duplicates.
    pub problems: Vec<String>,
}

impl Context {
    pub(super) fn new(
        memory_as_found: Option<MemoryAsFound>,
        disturbance: Option<Disturbance>,
        results: &Results,
    ) -> Context {
        Context {
            memory_as_found,
            disturbance,
            scramble_touch_ns_per_page: Sampled::of(&results.scramble_touch_ns_per_page),
            native_share_in_color: Sampled::of(&results.native_share_in_color),
            colored_share_in_color: Sampled::of(&results.colored_share_in_color),
            pages_out_of_color: results.pages_out_of_color,
            pages_refused: results.pages_refused,
            problems: results.problems.clone(),
        }
    }
}

/// Samples with median, minimum and maximum.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sampled {
    /// Median, minimum and maximum.
    #[serde(flatten)]
    pub spread: Spread,
    /// All of them, run by run.
    pub samples: Vec<f64>,
}

impl Sampled {
    fn of(samples: &[f64]) -> Option<Sampled> {
        Some(Sampled { spread: Spread::of(samples)?, samples: samples.to_vec() })
    }
}

/// The steady part of a program.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SteadyPart {
    /// The program.
    pub program: &'static str,
    /// Description of its steady part.
    pub is: &'static str,
}

pub(super) fn steady_parts() -> Vec<SteadyPart> {
    PROGRAMS.map(|(program, is)| SteadyPart { program, is }).to_vec()
}

/// A program whose outputs were compared.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OutputReport {
    /// The program.
    pub program: &'static str,
    /// Whether all outputs were equal.
    pub equal: bool,
}

words! {
    /// Name of a target.
    TargetName {
        /// The steady parts of real programs.
        SteadyState = "steady_state",
        /// Memory prefaulted in bulk.
        BulkPrefault = "bulk_prefault",
        /// Memory touched page by page for the first time.
        SequentialFirstTouch = "sequential_first_touch",
    }
}

words! {
    /// Whether a target is reached.
    Verdict {
        /// All parts are within the limit.
        Met = "met",
        /// All parts are within the limit, at least one perhaps by chance.
        MetByChance = "met, by chance perhaps",
        /// A part is beyond the limit.
        NotMet = "not met",
        /// A part is beyond the limit; each such part perhaps by chance.
        NotMetByChance = "not met, by chance perhaps",
        /// No part is measured.
        NotMeasured = "not measured",
        /// All measured parts are within the limit, and some parts are not measured.
        NotWhollyMeasured = "not wholly measured",
    }
}

/// A target and its result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TargetReport {
    /// Its name.
    pub name: TargetName,
    /// Description of the target.
    pub text: &'static str,
    /// The limit of every part.
    #[serde(flatten)]
    pub limit: Limit,
    /// Parts that the target requires.
    pub parts_wanted: usize,
    /// Parts that were measured.
    pub parts: Vec<PartReport>,
    /// Whether all parts are within the limit; null if parts are missing and the others are within it.
    pub met: Option<bool>,
    /// Whether the target is reached.
    pub verdict: Verdict,
}

/// A limit; the unit ends the name of its field.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Limit {
    /// Ratio of colored to native.
    Ratio {
        /// The limit of every part.
        limit_ratio: f64,
    },
    /// Time for each page.
    NanosecondsPerPage {
        /// The limit of every part, in nanoseconds for each page.
        limit_ns_per_page: f64,
    },
}

impl Limit {
    /// Gives the number alone.
    #[must_use]
    pub fn number(self) -> f64 {
        match self {
            Limit::Ratio { limit_ratio: limit } | Limit::NanosecondsPerPage { limit_ns_per_page: limit } => limit,
        }
    }
}

/// One figure of a target.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PartReport {
    /// Name of the figure.
    pub part: String,
    /// The figure.
    #[serde(flatten)]
    pub value: Value,
    /// Whether it is within the limit.
    pub met: bool,
    /// Whether its interval at 95 % confidence lies on one side of the limit.
    pub certain: bool,
    /// Its components; null except for the steady parts of real programs.
    pub made_of: Option<MadeOf>,
}

/// A figure with its interval; the unit ends the names of the fields.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// Ratio of colored to native.
    Ratio {
        /// The median of all rounds.
        value_ratio: f64,
        /// Ends of its interval at 95 % confidence; null below three rounds.
        value_95_ratio: Option<[f64; 2]>,
    },
    /// Time for each page.
    NanosecondsPerPage {
        /// The median of all rounds, in nanoseconds for each page.
        value_ns_per_page: f64,
        /// Ends of its interval at 95 % confidence, in nanoseconds for each page; null below three rounds.
        value_95_ns_per_page: Option<[f64; 2]>,
    },
}

impl Value {
    /// Gives the median and the ends of its interval alone.
    #[must_use]
    pub fn numbers(self) -> (f64, Option<[f64; 2]>) {
        match self {
            Value::Ratio { value_ratio: value, value_95_ratio: ends }
            | Value::NanosecondsPerPage { value_ns_per_page: value, value_95_ns_per_page: ends } => (value, ends),
        }
    }
}

/// Components of the ratio of a steady part.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct MadeOf {
    /// The ratio of two native runs in the same slices of time.
    pub control_ratio: f64,
    /// Ends of its interval at 95 % confidence; null below three rounds.
    pub control_ratio_95: Option<[f64; 2]>,
    /// Ratio of the CPU times of the programs themselves.
    pub cpu_ratio: f64,
    /// Ends of its interval at 95 % confidence; null below three rounds.
    pub cpu_ratio_95: Option<[f64; 2]>,
    /// Share of the steady part for which the native program did not run.
    pub native_waiting_share: f64,
    /// The same share of the colored program, while memtint served it or others ran.
    pub colored_waiting_share: f64,
}

/// Unit of a target.
#[derive(Clone, Copy, Debug)]
enum TargetUnit {
    Ratio,
    NanosecondsPerPage,
}

/// A target.
pub(super) struct Target {
    name: TargetName,
    /// Description of the target.
    text: &'static str,
    unit: TargetUnit,
    limit: f64,
    /// Measured figures; empty = not measured.
    parts: Vec<Part>,
    /// Parts that the target requires.
    wanted: usize,
}

/// One figure of a target.
struct Part {
    name: String,
    value: f64,
    interval: Option<Interval>,
    /// Its components; only for the steady parts of real programs.
    made_of: Option<MadeOf>,
}

impl MadeOf {
    fn of(results: &Results, program: &str) -> Option<MadeOf> {
        let (wall, cpu) = (results.find("programs", program, STEADY)?, results.find("programs", program, STEADY_CPU)?);
        let waiting = |wall: &[f64], cpu: &[f64]| {
            let shares: Vec<f64> = wall.iter().zip(cpu).map(|(wall, cpu)| 1.0 - cpu / wall).collect();
            Some(Spread::of(&shares)?.median)
        };
        let (control_ratio, control_interval) = wall.control_ratio()?;
        Some(MadeOf {
            control_ratio,
            control_ratio_95: control_interval.map(Interval::ends),
            cpu_ratio: cpu.ratio()?,
            cpu_ratio_95: cpu.ratio_interval().map(Interval::ends),
            native_waiting_share: waiting(&wall.native, &cpu.native)?,
            colored_waiting_share: waiting(&wall.colored, &cpu.colored)?,
        })
    }
}

impl Part {
    fn within(&self, limit: f64) -> bool {
        self.value <= limit
    }

    /// Whether chance may have put the figure on this side of the limit; always true with too few runs.
    fn uncertain(&self, limit: f64) -> bool {
        self.interval.is_none_or(|interval| interval.low <= limit && limit < interval.high)
    }

    fn report(&self, unit: TargetUnit, limit: f64) -> PartReport {
        let (value, ends) = (self.value, self.interval.map(Interval::ends));
        let value = match unit {
            TargetUnit::Ratio => Value::Ratio { value_ratio: value, value_95_ratio: ends },
            TargetUnit::NanosecondsPerPage => {
                Value::NanosecondsPerPage { value_ns_per_page: value, value_95_ns_per_page: ends }
            }
        };
        PartReport {
            part: self.name.clone(),
            value,
            met: self.within(limit),
            certain: !self.uncertain(limit),
            made_of: self.made_of,
        }
    }
}

impl Target {
    /// `None`: parts are missing and the others are within the limit.
    fn met(&self) -> Option<bool> {
        let reached = self.parts.iter().all(|part| part.within(self.limit));
        (!reached || self.parts.len() == self.wanted).then_some(reached)
    }

    fn verdict(&self) -> Verdict {
        let missed = |part: &&Part| !part.within(self.limit);
        match self.met() {
            Some(true) if self.parts.iter().any(|part| part.uncertain(self.limit)) => Verdict::MetByChance,
            Some(true) => Verdict::Met,
            Some(false) if self.parts.iter().filter(missed).all(|part| part.uncertain(self.limit)) => {
                Verdict::NotMetByChance
            }
            Some(false) => Verdict::NotMet,
            None if self.parts.is_empty() => Verdict::NotMeasured,
            None => Verdict::NotWhollyMeasured,
        }
    }

    pub(super) fn report(&self) -> TargetReport {
        let limit = match self.unit {
            TargetUnit::Ratio => Limit::Ratio { limit_ratio: self.limit },
            TargetUnit::NanosecondsPerPage => Limit::NanosecondsPerPage { limit_ns_per_page: self.limit },
        };
        TargetReport {
            name: self.name,
            text: self.text,
            limit,
            parts_wanted: self.wanted,
            parts: self.parts.iter().map(|part| part.report(self.unit, self.limit)).collect(),
            met: self.met(),
            verdict: self.verdict(),
        }
    }
}

pub(super) fn targets(results: &Results) -> [Target; 3] {
    let ratio = |group: &str, subject: &str, measure: &str| {
        let series = results.find(group, subject, measure)?;
        let (value, interval) = (series.ratio()?, series.ratio_interval());
        let name = if group == "programs" { subject.to_owned() } else { format!("{subject}: {measure}") };
        Some(Part { name, value, interval, made_of: MadeOf::of(results, subject) })
    };
    let colored = |subject: &str, measure: &str| {
        let samples = &results.find("touch", subject, measure)?.colored;
        let (value, interval) = (Spread::of(samples)?.median, Interval::of_median(samples));
        Some(Part { name: format!("{subject}: {measure}"), value, interval, made_of: None })
    };
    let warm = "map and touch, warm";
    [
        Target {
            name: TargetName::SteadyState,
            text: "steady part of each of five real programs within 2 % of native",
            unit: TargetUnit::Ratio,
            limit: 1.02,
            parts: PROGRAMS.iter().filter_map(|(name, _)| ratio("programs", name, STEADY)).collect(),
            wanted: PROGRAMS.len(),
        },
        Target {
            name: TargetName::BulkPrefault,
            text: "at most 250 ns a page when prefaulted in bulk (--prefault; MAP_POPULATE from a warm pool)",
            unit: TargetUnit::NanosecondsPerPage,
            limit: 250.0,
            parts: [colored("prefault", "map and touch"), colored("populate", warm)].into_iter().flatten().collect(),
            wanted: 2,
        },
        Target {
            name: TargetName::SequentialFirstTouch,
            text: "sequential first touch no slower than native once the pool is warm",
            unit: TargetUnit::Ratio,
            limit: 1.0,
            parts: ratio("touch", "sequential", warm).into_iter().collect(),
            wanted: 1,
        },
    ]
}

#[cfg(test)]
mod tests {
    use memtint_bench::{Side, Unit};

    use super::*;

    /// Five rounds in which the native side varies by `spread`.
    fn results(ratios: &[f64], spread: f64) -> Results {
        let mut results = Results::default();
        for ((name, _), ratio) in PROGRAMS.iter().zip(ratios) {
            for round in [0.0, 1.0, -1.0, 0.5, -0.5] {
                let native = 100.0 * (1.0 + spread * round);
                results.add("programs", name, (STEADY, Unit::Milliseconds), Side::Native, native);
                results.add("programs", name, (STEADY, Unit::Milliseconds), Side::Colored, 100.0 * ratio);
            }
        }
        results
    }

    #[test]
    fn a_target_is_met_only_when_all_parts_are_measured() {
        let verdict = |ratios: &[f64], spread| targets(&results(ratios, spread))[0].verdict().name();
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.0], 0.0), "met");
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.0], 0.1), "met, by chance perhaps");
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.03], 0.0), "not met");
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.03], 0.1), "not met, by chance perhaps");
        assert_eq!(verdict(&[1.0, 1.5], 0.1), "not met");
        assert_eq!(verdict(&[1.0, 1.0], 0.0), "not wholly measured");
        assert_eq!(verdict(&[], 0.0), "not measured");
    }

    #[test]
    fn the_unit_ends_the_names_of_fields() {
        let json = serde_json::to_value(targets(&results(&[1.0], 0.0))[0].report()).unwrap();
        assert_eq!((&json["limit_ratio"], &json["parts"][0]["value_ratio"]), (&1.02.into(), &1.0.into()));
        assert!(json["parts"][0]["value_95_ratio"].is_array() && json["met"].is_null());
    }
}
