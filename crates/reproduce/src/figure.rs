//! The data files: a figure or table of a paper, what it says, and what to simulate to see whether that comes out.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Version of the format of the files.
pub const SCHEMA: u32 = 1;

/// A figure or table, as it stands in its file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Version of the format; 1.
    pub schema: u32,
    /// Its name here; that of its file.
    pub id: String,
    /// The paper: authors, short title, place, year.
    pub paper: String,
    /// What it shows.
    pub title: String,
    /// Figure or table, section, and lines of the text the values were read from.
    pub source: String,
    /// Whether the paper prints numbers.
    pub kind: FigureKind,
    /// What the comparison is expected to come to; none where nothing is regenerated yet.
    #[serde(default)]
    pub expects: Option<Expectation>,
    /// Greatest distance of a simulated value from its published one, in percent of it, for the verdict `within`.
    #[serde(default = "ten")]
    pub tolerance_percent: f64,
    /// Processor seconds that a regeneration takes, roughly; 0 where nothing is regenerated.
    #[serde(default)]
    pub seconds: u32,
    /// Why the results differ, where they do and it has been understood.
    #[serde(default)]
    pub because: Option<String>,
    /// What the scenarios leave out of the paper's setup.
    #[serde(default)]
    pub simplified: Vec<String>,
    /// Parameters of these scenarios that no source gives.
    #[serde(default, rename = "fitted")]
    pub fitted: Vec<Fitted>,
    /// Machine: a file of `machines`.
    #[serde(default)]
    pub machine: Option<String>,
    /// Lists that runs, points and claims are repeated for.
    #[serde(default)]
    pub lists: BTreeMap<String, Vec<String>>,
    /// Of these lists, the items of the short form; default: all.
    #[serde(default)]
    pub short: BTreeMap<String, Vec<String>>,
    /// What all scenarios share, laid over the machine's.
    #[serde(default)]
    pub scenario: Table,
    /// Tasks by name, for runs to use.
    #[serde(default)]
    pub task: BTreeMap<String, Table>,
    /// Simulations.
    #[serde(default)]
    pub run: Vec<Run>,
    /// Allocations without a simulation.
    #[serde(default)]
    pub allocation: Vec<Allocation>,
    /// Values.
    #[serde(default)]
    pub point: Vec<Point>,
    /// Claims.
    #[serde(default)]
    pub claim: Vec<Claim>,
}

/// Whether the paper prints numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// It does.
    Values,
    /// There is a graph whose values the text does not give; what the text says of it is held to a bound.
    Claim,
}

/// What a comparison can be expected to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expectation {
    /// Same order and trend.
    Trend,
    /// Every published value within the tolerance.
    Within,
}

/// A parameter that no source gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The parameter.
    pub parameter: String,
    /// Its value.
    pub value: String,
    /// What it was chosen by.
    pub how: String,
}

/// A simulation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Name; with `{each}` when it is repeated.
    pub name: String,
    /// List it is repeated for. Each `{each}` in its texts stands for the item; `seed = "{each}"` and
    /// `density_gbit = "{each}"` take numbers.
    #[serde(default)]
    pub each: Option<String>,
    /// Laid over the figure's scenario.
    #[serde(default)]
    pub scenario: Table,
    /// Tasks: each a table laid over the task that its `use` names.
    pub tasks: Vec<Table>,
}

/// Frames handed out one after the other, and the allocator's steps counted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocation {
    /// Name.
    pub name: String,
    /// Platform.
    pub platform: String,
    /// `buddy` or `palloc`.
    pub allocator: String,
    /// Bank classes; all where absent.
    #[serde(default)]
    pub banks: Option<String>,
    /// Frames.
    pub frames: u32,
    /// Of all frames, so many in percent are free at the beginning, chosen at random, the rest held by others; default: all.
    #[serde(default)]
    pub free_percent: Option<u32>,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Name; with `{each}` when it is repeated.
    pub name: String,
    /// List it is repeated for.
    #[serde(default)]
    pub each: Option<String>,
    /// Its unit.
    pub unit: String,
    /// What the paper says.
    #[serde(default)]
    pub published: Option<f64>,
    /// The same for each item of the list.
    #[serde(default)]
    pub published_each: BTreeMap<String, f64>,
    /// Where, beyond the figure's source.
    #[serde(default)]
    pub source: Option<String>,
    /// Whether it takes part in the comparison within a tolerance; a value that a parameter was fitted to does not.
    #[serde(default = "yes")]
    pub compared: bool,
    /// What is measured; absent where nothing is.
    #[serde(default)]
    pub of: Option<Measured>,
    /// Divided by this.
    #[serde(default)]
    pub over: Option<Measured>,
    /// Instead: mean of a repeated point, by its name with `{each}`.
    #[serde(default)]
    pub mean_of: Option<String>,
    /// Or: standard deviation (as of a sample) of a repeated point, by its name with `{each}`.
    #[serde(default)]
    pub deviation_of: Option<String>,
    /// Or: rank correlation (Spearman) of two repeated points of the same list, by their names with `{each}`.
    #[serde(default)]
    pub rank_correlation_of: Option<[String; 2]>,
    /// For `rank_correlation_of`: the items in the order of the second point, cut into so many groups of neighbours of
    /// nearly the same size, each of which counts with its means; default: every item for itself.
    #[serde(default)]
    pub groups: Option<u32>,
    /// Subtracted from the value; default 0.
    #[serde(default)]
    pub less: f64,
    /// The value is multiplied by this; default 1.
    #[serde(default = "unit")]
    pub times: f64,
}

/// A measure of a task of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Run or allocation.
    pub run: String,
    /// Task; absent for measures of the whole.
    #[serde(default)]
    pub task: Option<String>,
    /// What.
    pub measure: Measure,
    /// For `weighted-speedup` and `maximum-slowdown`: the run whose tasks alone, by their names, are the reference; default:
    /// the run itself, in which a task alone keeps its colors.
    #[serde(default)]
    pub alone_in: Option<String>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Mean time from access to data of demand reads of memory, in nanoseconds.
    ReadLatencyNs,
    /// Time for each reference of a task, in nanoseconds.
    ReferenceNs,
    /// Instructions in a cycle.
    Ipc,
    /// Bytes read and written a second, in 10^6.
    BandwidthMbPerS,
    /// Bytes written to memory by bytes read from it.
    WriteShare,
    /// Last-level misses by thousand instructions.
    LlcMpki,
    /// Last-level misses by accesses of the last level, in percent.
    LlcMissPercent,
    /// Misses of the last level.
    LlcMisses,
    /// Reads that did not meet their row open, in percent; of the task, or of all banks.
    RowMissPercent,
    /// Mean response of jobs, in milliseconds.
    ResponseMeanMs,
    /// 99th percentile of responses, in milliseconds.
    ResponseP99Ms,
    /// Longest response, in milliseconds.
    ResponseMaxMs,
    /// Standard deviation of responses, in milliseconds.
    ResponseDeviationMs,
    /// Mean time that jobs had their core, in milliseconds.
    ExecutionMeanMs,
    /// Shortest time that a job had its core, in milliseconds.
    ExecutionMinMs,
    /// Longest time that a job had its core, in milliseconds.
    ExecutionMaxMs,
    /// Standard deviation of the times that jobs had their core, in milliseconds.
    ExecutionDeviationMs,
    /// Longest less shortest response by the mean, in percent.
    ResponseSpreadPercent,
    /// Jobs that were late, in percent of those finished or given up.
    DeadlineMissPercent,
    /// When the task was done, in milliseconds.
    CompletedMs,
    /// When the last of all tasks was done, in milliseconds.
    AllCompletedMs,
    /// Waited at barriers, all tasks together, in milliseconds.
    BarrierIdleMs,
    /// The slowest thread between barriers: its time without what it waited, in milliseconds.
    ThreadsSlowestMs,
    /// The slowest thread less the fastest, in milliseconds.
    ThreadsSpreadMs,
    /// Waited at barriers and, at the end, for the last thread: all threads together, in milliseconds.
    ThreadsIdleMs,
    /// The same of the thread that waited longest, in milliseconds.
    ThreadsIdleLongestMs,
    /// Sum of relative speeds.
    WeightedSpeedup,
    /// Slowdown of the task that suffers most.
    MaximumSlowdown,
    /// Bytes read and written a second by each task alone, in 10^6, all together.
    AloneBandwidthMbPerS,
    /// Row hits of the tasks alone in percent: their mean, weighted with the bandwidth of each alone (BPM, section 5.3).
    AloneRowHitPercent,
    /// The same: weighted standard deviation.
    AloneRowHitDeviationPercent,
    /// `alone-bandwidth-mb-per-s` times `alone-row-hit-deviation-percent`.
    AloneBandwidthTimesDeviation,
    /// Requests that met a refresh; of the task, or of all.
    RequestsThatMetARefresh,
    /// Mean execution time of a job by its period, summed over all tasks with jobs, instances of one task (copy tasks) taken
    /// together; 1 fills a core. It can be more: what jobs that never ended had is not counted, but what one needs is.
    Utilization,
    /// Jobs that were late, of all tasks.
    DeadlineMisses,
    /// Of the time in which some rank was locked, that in which a core was idle because tasks that were ready could not run
    /// for the locks, all cores together, in milliseconds.
    UnhiddenMs,
    /// Energy of all ranks a byte read or written, in picojoules.
    EnergyPjPerByte,
    /// Mean steps of an allocation.
    AllocationStepsMean,
    /// Most steps of an allocation.
    AllocationStepsMax,
}

/// Something the paper says of the values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// In words.
    pub say: String,
    /// Where.
    pub source: String,
    /// Values from the greatest to the smallest...
    #[serde(default)]
    pub falling: Vec<String>,
    /// ... each at least so many times the next; default 1.
    #[serde(default = "unit")]
    pub by: f64,
    /// Or: one value ...
    #[serde(default)]
    pub point: Option<String>,
    /// ... of at least this ...
    #[serde(default)]
    pub at_least: Option<f64>,
    /// ... and at most that.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Or: a repeated point whose values are in the order of the published ones, with at least this rank correlation
    /// (Spearman).
    #[serde(default)]
    pub rank: Option<f64>,
}

fn ten() -> f64 {
    10.0
}
fn yes() -> bool {
    true
}
fn unit() -> f64 {
    1.0
}

impl Figure {
    /// Whether there is something to simulate.
    #[must_use]
    pub fn is_regenerated(&self) -> bool {
        !self.run.is_empty() || !self.allocation.is_empty()
    }
}

/// A machine of a paper: the part of a scenario that belongs to it, and where each parameter is from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// Version of the format; 1.
    pub schema: u32,
    /// Part of a scenario.
    pub scenario: Table,
    /// Where each of its fields is from.
    pub parameter: Vec<Parameter>,
}

/// Where a parameter is from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The field, with dots.
    pub field: String,
    /// A source ...
    #[serde(default)]
    pub source: Option<String>,
    /// ... or what it was chosen by.
    #[serde(default)]
    pub fitted: Option<String>,
}

/// Lays a table over another: tables are merged, everything else is replaced.
pub(crate) fn lay(over: &Table, base: &mut Table) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay(above, below),
            _ => drop(base.insert(key.clone(), value.clone())),
        }
    }
}

/// Walks the fields of a table that hold no table, with dots.
pub(crate) fn leaves(table: &Table) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                found.extend(leaves(inner).into_iter().map(|(name, value)| (format!("{key}.{name}"), value)));
            }
            _ => found.push((key.clone(), value)),
        }
    }
    found
}
