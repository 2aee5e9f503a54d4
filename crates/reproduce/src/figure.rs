//! The data files: a figure or table of a paper, its statements, and the simulations that test them.

use crate::expand::named;
use schemars::JsonSchema;
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
    /// The expected verdict of the comparison; none where nothing is regenerated yet.
    #[serde(default)]
    pub expects: Option<Expectation>,
    /// Greatest distance of a simulated value from its published one, in percent of it, for the verdict `within`.
    #[serde(default = "ten")]
    pub tolerance_percent: f64,
    /// Processor seconds that a regeneration takes, roughly; 0 where nothing is regenerated.
    #[serde(default)]
    pub seconds: u32,
    /// Why the results differ, if they do and the reason is understood; only for the names in `because_of`.
    #[serde(default)]
    pub because: Option<String>,
    /// The names that `because` explains: of values and rows, and words of claims.
    #[serde(default)]
    pub because_of: Vec<String>,
    /// Parts of the paper's setup that the scenarios omit.
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
    /// The common part of the system files (`memtint-system`) of all runs, laid over the machine's.
    #[serde(default)]
    pub system: Table,
    /// Tasks of system files by name, for runs to use.
    #[serde(default)]
    pub task: BTreeMap<String, Table>,
    /// Simulations.
    #[serde(default)]
    pub run: Vec<Run>,
    /// Allocations without a simulation.
    #[serde(default)]
    pub allocation: Vec<Allocation>,
    /// Task sets by name, for analyses to judge: each a system file (`memtint-system`).
    #[serde(default)]
    pub taskset: BTreeMap<String, Table>,
    /// Analyses.
    #[serde(default)]
    pub analysis: Vec<Analysis>,
    /// Values.
    #[serde(default)]
    pub point: Vec<Point>,
    /// Values that are lists.
    #[serde(default)]
    pub row: Vec<Row>,
    /// Claims.
    #[serde(default)]
    pub claim: Vec<Claim>,
    /// Published values that cannot be right.
    #[serde(default)]
    pub erratum: Vec<Erratum>,
}

/// Whether the paper prints numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// It does.
    Values,
    /// There is a graph whose values the text does not give; a bound is derived from the statement of the text about
    /// it.
    Claim,
}

/// An expected verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expectation {
    /// Same order and trend.
    Trend,
    /// Every published value within the tolerance.
    Within,
    /// Published values that cannot be right, and all others within the tolerance or of the same order and trend.
    Errata,
}

/// A parameter that no source gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The parameter.
    pub parameter: String,
    /// Its value.
    pub value: String,
    /// The criterion of its choice.
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
    /// Laid over the figure's system file.
    #[serde(default)]
    pub system: Table,
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
    /// Percentage of all frames that are free at the beginning, chosen at random; the rest is held by others; default:
    /// all.
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
    /// The published value.
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
    /// The measure; absent if nothing is measured.
    #[serde(default)]
    pub of: Option<Measured>,
    /// Instead: a number that an analysis finds.
    #[serde(default)]
    pub answer: Option<Answered>,
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
    /// For `rank_correlation_of`: the items in the order of the second point, divided into this number of groups of
    /// neighbours of nearly the same size, each of which counts with its means; default: every item for itself.
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
    /// The quantity.
    pub measure: Measure,
    /// For `weighted-speedup` and `maximum-slowdown`: the run whose tasks alone, by their names, are the reference; default:
    /// the run itself, in which a task alone keeps its colors.
    #[serde(default)]
    pub alone_in: Option<String>,
}

/// A measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Mean time from access to data of demand reads of memory, in nanoseconds.
    ReadLatencyNs,
    /// Time for each reference of a task, in nanoseconds.
    ReferenceNs,
    /// Instructions in a cycle, over the cycles in which the task had its core.
    Ipc,
    /// Instructions a second in 10^6, over all the time: that in which its core stood still counts.
    Mips,
    /// Bytes read and written a second, in 10^6.
    BandwidthMbPerS,
    /// Periods in which donated bandwidth was missing when it was needed, in percent, of the group of regulated cores that has the
    /// task's name.
    UnderrunPercent,
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
    /// The slowest thread between barriers: its time without waiting, in milliseconds.
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
    /// Mean execution time of a job by its period, summed over all tasks with jobs, instances of one task (copy tasks)
    /// taken together; 1 fills a core. It can be more: the time of jobs that never ended is not counted, but the need
    /// of one is.
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

/// An analysis of a task set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Analysis {
    /// Name; with `{each}` when it is repeated.
    pub name: String,
    /// List it is repeated for. Each `{each}` in its texts stands for the item; `density = "{each}"` of `[memory]` takes
    /// numbers.
    #[serde(default)]
    pub each: Option<String>,
    /// The task set: a name of `taskset`. None where the method asks nothing of tasks.
    #[serde(default)]
    pub taskset: Option<String>,
    /// Laid over the task set.
    #[serde(default)]
    pub over: Table,
    /// The question.
    pub method: Method,
    /// In which form formulas, rules and algorithms are used.
    #[serde(default)]
    pub form: PrintedForm,
    /// Parameters of the method besides the task set.
    #[serde(default)]
    pub with: Table,
}

/// In which form formulas, rules and algorithms are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrintedForm {
    /// With their mistakes corrected.
    #[default]
    Corrected,
    /// Literally.
    AsPrinted,
}

/// A question about a task set. `S` stands for the name of a server, `T` for that of a task, `N` for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Its own numbers: `utilization`, `hyperperiod ms`; with `[memory]` `cycle ms` (common multiple with the retention time),
    /// `ranks`, `rank turn ms` (retention by ranks), `burst ms` of one rank. With `costs` (a list of `count`, `time`)
    /// `overhead percent` of the cycle; with `t_refi` the `padded utilization` under auto-refresh.
    TaskSet,
    /// Rules (1) to (5) of Colored Refresh for `cyclic.frame`: `rule N`, `accepted`, the list `longer than a frame`; corrected
    /// also `rule 6`: the burst fits. As printed `accepted` asks for all rules, corrected not for (1) and (5), which copies and
    /// slices mend.
    FrameRules,
    /// The same for each multiple of `step` that divides the retention time: lists `rule N`, `rules 1 to 4` and
    /// `accepted`, in milliseconds.
    Frames,
    /// Jobs into frames by maximum flow, in the frames of the colors of `occupied` (a list for each task, `f1` is the frame in
    /// which the first color is refreshed) and with the instances of `colors` (a list for each task; `c1+c2` is one instance
    /// with two colors): `feasible`, `demand ms`, `placed ms`, lists `occupied T`, `available T`, `milliseconds of T` (those of
    /// its slices, in order), and `checked`: whether there is an executive that the independent checker accepts. For the times
    /// of `at`: `T may run at TIME`.
    Place,
    /// The fewest slices with `occupied`: `feasible`, `extra slices`, `extra slices least`, `extra slices of T`.
    FewestSlices,
    /// Colors and frames at once: `schedulable`, `copies`, `copies least`, `extra slices`, `extra slices least`, `idle ms`,
    /// `switches`, `refresh gap ms`, lists `colors T`.
    Color,
    /// First frames, then the colors that are left, as printed: `feasible`, `copies`, lists `occupied T`, `available T`, `copied`.
    PlaceThenAvoid,
    /// A schedule of one hyperperiod over and over: `colors met least`, the fewest colors that are refreshed in the rounds of
    /// one of its frames.
    Repeat,
    /// Servers against 5.3.7 and 5.3.8: for each `S utilization`, `S bandwidth`, `S exact` and `S linear` (whether its tasks are
    /// schedulable on the exact and the linear supply of a periodic resource), `S exact budget ms`, `S linear budget ms`
    /// (the smallest), `S pcb ms`, `S bound` (the utilization bound), `S within bound`, `S response ms`; when overloaded
    /// `S window ms`, `S demand ms`, `S supply ms`; and `total utilization`, `requirement 2`, `exact budgets by period`, `linear
    /// budgets by period`.
    Servers,
    /// The whole system, with its refresh: `schedulable` for all phases; of the schedule with those of the file `late`,
    /// `checked`, `T response ms`, `C unhidden ms a refresh` for a color `C`, `C burst ms`; for the times of `at` the lists
    /// `runs at TIME` with the task and its server.
    Crs,
    /// Algorithm 8 over all periods of the two servers: `S values` (how many have one), `S overhead ms` (their sum).
    #[serde(rename = "algorithm-8")]
    Algorithm8,
    /// The guaranteed bandwidth of devices, without a task set. `with` has `device`, `refresh` and `line_bytes`; `X ns`
    /// of a line and `X MB/s` for the row cycle that MemGuard's slides add up (`slides`), and for `reads` and `writes`
    /// of one bank, each of another row, all without refresh; `guaranteed MB/s` with it.
    GuaranteedBandwidth,
    /// Whether the guaranteed bandwidth covers the budgets of cores, without a task set. `with` has `budgets_mb_per_s`
    /// (one of each core), `guaranteed_mb_per_s`, `quantum` and `skid` in lines, `period_us` and `line_bytes`: `cores`,
    /// `terms of a sum from 0 to their number`, `budgets MB/s`, `budgets, quanta and skids MB/s`; whether the budgets
    /// are `below` and `at most` the guaranteed; whether the regulator's rule accepts the system (`accepted`), and
    /// would accept it with a guarantee of exactly budgets, quanta and skids (`accepted at equality`), and with an
    /// event less (`accepted below equality`).
    ReservationRule,
    /// Servers that cost least, periods to `period_max`, all multiples of `unit`, tasks assigned as in the file: `found`, for each
    /// `S period ms`, `S budget ms`; `unhidden percent` of all time.
    Optimize,
}

/// A result of an analysis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// The analysis, by its name.
    pub analysis: String,
    /// Which of its results.
    pub result: String,
}

impl Answered {
    /// For an item of the list that it is repeated for.
    pub(crate) fn of(&self, item: &str) -> Answered {
        Answered { analysis: named(&self.analysis, item), result: named(&self.result, item) }
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Is {
    /// Yes.
    Yes,
    /// No, proved.
    No,
    /// The analysis does not decide.
    Open,
}

impl Is {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Is::Yes => "yes",
            Is::No => "no",
            Is::Open => "no answer",
        }
    }
}

/// A value that is a list: a cell of a table with frames or colors.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Name; with `{each}` when it is repeated.
    pub name: String,
    /// List it is repeated for.
    #[serde(default)]
    pub each: Option<String>,
    /// The published list, in any order.
    #[serde(default)]
    pub published: Option<Vec<String>>,
    /// The same for each item of the list.
    #[serde(default)]
    pub published_each: BTreeMap<String, Vec<String>>,
    /// Where, beyond the figure's source.
    #[serde(default)]
    pub source: Option<String>,
    /// A list that an analysis finds.
    pub answer: Answered,
}

/// A published value that cannot be right.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erratum {
    /// Its number in the list of errata, or where of it.
    pub number: String,
    /// Where it is printed.
    pub source: String,
    /// The printed value.
    pub printed: String,
    /// Why that cannot be right.
    pub why: String,
    /// The correct value.
    pub correct: String,
    /// The names in this file that deviate because of it: of points and rows (without `{each}`), words of claims.
    #[serde(default)]
    pub explains: Vec<String>,
    /// The evidence: all of it must hold.
    pub shown: Vec<Shown>,
}

/// A result of an analysis, and its expected value: one of `is`, `exactly`, `equals`, or bounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// The result.
    pub answer: Answered,
    /// An answer.
    #[serde(default)]
    pub is: Option<Is>,
    /// A number: a text with a whole number, a decimal number or a fraction.
    #[serde(default)]
    pub exactly: Option<String>,
    /// A list, in whatever order.
    #[serde(default)]
    pub equals: Option<Vec<String>>,
    /// At least this.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// At most this.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// A statement of the paper about the values.
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
    /// ... each at least this many times the next; default 1.
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
    /// Or: a result of an analysis, held to `at_least` and `at_most`, or ...
    #[serde(default)]
    pub answer: Option<Answered>,
    /// ... to an answer ...
    #[serde(default)]
    pub is: Option<Is>,
    /// ... or to a number: a text with a whole number, a decimal number or a fraction ...
    #[serde(default)]
    pub exactly: Option<String>,
    /// ... or to a list, in whatever order.
    #[serde(default)]
    pub equals: Option<Vec<String>>,
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
    /// Returns whether the short form equals the whole form: nothing is simulated, and no list is cut.
    #[must_use]
    pub fn short_is_whole(&self) -> bool {
        self.run.is_empty() && self.short.is_empty()
    }

    /// Whether there is something to simulate, to allocate or to analyse.
    #[must_use]
    pub fn is_regenerated(&self) -> bool {
        !self.run.is_empty() || !self.allocation.is_empty() || !self.analysis.is_empty()
    }
}

/// A machine of a paper: the part of a system file that belongs to it, and where each parameter is from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// Version of the format; 1.
    pub schema: u32,
    /// Part of a system file.
    pub system: Table,
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
    /// ... or the criterion of its choice.
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
