//! When software refreshes the ranks of a simulation.

use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Time;

/// Refresh by software, as Colored Refresh and CRS do it: ranks are locked, refreshed in a burst, and unlocked.
///
/// ```toml
/// [simulation]
/// controller = { refresh = "timetable" }
/// timetable = { period = "64 ms", window = [
///     { ranks = "4-7", start = "0 ms", length = "3 ms" },
///     { ranks = "0-3", start = "32 ms", length = "3 ms" },
/// ] }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimetableSection {
    /// Time after which all windows come again: whole cycles of the device's clock, and at most tRET.
    pub period: Time,
    /// The windows of a period.
    pub window: Vec<WindowSection>,
    /// How much later in its window a burst may begin, at random; default 0.
    #[serde(default)]
    pub jitter: Time,
    /// Least time of a lock task on each of its cores, in which requests end and dirty lines are written back. The
    /// burst begins when it has passed. Default 20 us.
    #[serde(default = "lock")]
    pub lock: Time,
    /// Time of an unlock task on each of its cores; default 1 us.
    #[serde(default = "microsecond")]
    pub unlock: Time,
    /// The cores that run lock and unlock tasks, each of them all, at the same time; default `0`. Others see a lock when they
    /// look, and it takes none of their time.
    #[serde(default = "first_core")]
    pub cores: String,
    /// Whether the lock task writes back the dirty lines of the ranks that it locks, the first of several cores all of them; default
    /// true.
    #[serde(default = "yes")]
    pub clean: bool,
}

/// Time in which ranks are locked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowSection {
    /// The ranks, of every channel.
    pub ranks: String,
    /// When their lock task is released, from the start of the period.
    pub start: Time,
    /// From then to the unlock task; default: until the burst is over.
    #[serde(default)]
    pub length: Option<Time>,
    /// REF commands to each; default: all that the device needs within tRET.
    #[serde(default)]
    pub commands: Option<u32>,
    /// How many bursts there are, one after the other: the first rank is refreshed in the first of them, the next in the second, and
    /// so on, beginning again with the first. Default 1: all ranks together.
    #[serde(default = "together")]
    pub turns: u32,
}

fn lock() -> Time {
    Time(Picoseconds(20_000_000))
}
fn together() -> u32 {
    1
}
fn first_core() -> String {
    "0".to_owned()
}
fn microsecond() -> Time {
    Time(Picoseconds(1_000_000))
}
fn yes() -> bool {
    true
}
