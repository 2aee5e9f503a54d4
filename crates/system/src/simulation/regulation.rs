//! How bandwidth budgets are kept in a simulation.

use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Time;

/// How a simulation keeps bandwidth budgets, as MemGuard does (Yun et al., 2012): those of `[[group]]`, and `task.bandwidth`.
///
/// ```toml
/// [simulation.bandwidth]
/// guaranteed_mb_per_s = 1000
/// sharing = "spare"
///
/// [[group]]
/// name = "foreground"
/// cores = "0"
/// mb_per_s = 600
/// ```
///
/// The sum of budget, quantum and skid of all cores and tasks that are regulated must not exceed the guaranteed
/// bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BandwidthSection {
    /// Between two budgets; default: that of the budgets that have one, else 1 ms.
    pub period: Option<Time>,
    /// Worst-case bandwidth of the memory, r_min, in megabytes a second; with `classes`, that of each class of banks.
    /// Default: that of one bank by the devices' timing, refresh included (`memtint guard rmin`); needed with
    /// `classes`.
    #[serde(default)]
    pub guaranteed_mb_per_s: Option<u32>,
    /// What is counted; default `lines`.
    #[serde(default)]
    pub counts: Counted,
    /// Events that a line written counts as, with `lines`; a line read is one. Default 1.
    #[serde(default)]
    pub write_cost: Option<u32>,
    /// Lists of bank classes, each class in one of them: each list has separate budgets. Default: one for all.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Most events granted at a time (q); default 256.
    #[serde(default = "quantum")]
    pub quantum: u32,
    /// Most events beyond a grant, until the core stands still (s), as the sum assumes them; the report has the most that there were. Default
    /// 32.
    #[serde(default = "skid_events")]
    pub skid_events: u32,
    /// Events taken of the donations of others at a time; default: the quantum.
    #[serde(default)]
    pub reclaim_step: Option<u32>,
    /// What happens when all have used their budgets: `off`, all stand still; `spare`, all run until the period is over;
    /// `proportional`, the next period begins. Default `off`.
    #[serde(default)]
    pub sharing: SharingName,
    /// How `soft` groups predict what they will use, and donate the rest: `ewma` (the mean of the latest use and the mean before),
    /// `last-value` or `linear`; default `ewma`.
    #[serde(default)]
    pub predictor: PredictorName,
    /// From the event that consumes a grant to the interrupt; default 0.
    #[serde(default)]
    pub skid: Time,
    /// Time of an interrupt on its core; default 0.
    #[serde(default)]
    pub overhead: Time,
    /// Whether results include the use of each core or task in each period; default no.
    #[serde(default)]
    pub history: bool,
}

impl BandwidthSection {
    /// Time between two budgets.
    #[must_use]
    pub fn period(&self) -> Picoseconds {
        self.period.map_or(Picoseconds(1_000_000_000), |period| period.0)
    }
}

impl Default for BandwidthSection {
    fn default() -> BandwidthSection {
        BandwidthSection {
            period: None,
            guaranteed_mb_per_s: None,
            counts: Counted::default(),
            write_cost: None,
            classes: Vec::new(),
            quantum: quantum(),
            skid_events: skid_events(),
            reclaim_step: None,
            sharing: SharingName::default(),
            predictor: PredictorName::default(),
            skid: Time::default(),
            overhead: Time::default(),
            history: false,
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// Lines read from memory (LLC misses), prefetches included, and lines written back.
    #[default]
    Lines,
    /// Lines read from memory. Lines written back come in addition, and the guarantee does not hold with them.
    Misses,
    /// Lines written back. Lines read come in addition.
    WriteBacks,
    /// Bursts on the data bus, of both.
    Bursts,
    /// Lines read and lines written by two counters, with a budget each.
    ReadsAndWrites,
}

/// Best-effort sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SharingName {
    /// None.
    #[default]
    Off,
    /// All run until the period is over.
    Spare,
    /// The next period begins.
    Proportional,
}

/// Predictors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorName {
    /// Moving average, as MemGuard's.
    #[default]
    Ewma,
    /// What was used last.
    LastValue,
    /// The line through the last four.
    Linear,
}

fn quantum() -> u32 {
    256
}
fn skid_events() -> u32 {
    32
}
