//! Refresh by software: memory, cyclic executive, colors and servers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{Count, Text, Time};

/// Memory parameters that determine refresh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryEntry {
    /// Number of ranks. Required.
    pub ranks: Option<Count<1, 64>>,
    /// Gigabits of a chip: 1, 2, 4, 8, 16, 32 or 64. Either this or `t_rfc`.
    pub density: Option<Count<1, 64>>,
    /// Time of one refresh command.
    pub t_rfc: Option<Time>,
    /// Time within which each row must be refreshed (tRET); default 64 ms.
    pub retention: Option<Time>,
    /// How the ranks of a color are refreshed; default parallel.
    pub bursts: Option<BurstOrder>,
    /// Time of a refresh lock task; default 0.
    pub lock: Option<Time>,
    /// Time of a refresh unlock task; default 0.
    pub unlock: Option<Time>,
}

/// How the ranks of a color are refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BurstOrder {
    /// All at the same time.
    Parallel,
    /// One after the other.
    Serial,
}

/// A cyclic executive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CyclicEntry {
    /// Length of a frame.
    pub frame: Option<Time>,
    /// Length of a colored frame; default: the length of a frame.
    pub color_frame: Option<Time>,
    /// Whether tasks may have data in one color; default private.
    pub sharing: Option<ColorSharing>,
    /// How jobs may be cut; default free.
    pub slicing: Option<JobSlicing>,
    /// Cost of each slice of a job after the first; default 0.
    pub slice_cost: Option<Time>,
    /// Most copy tasks that are tried.
    pub copies_max: Option<Count<0, { u32::MAX as u64 }>>,
}

/// Whether tasks may have data in one color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColorSharing {
    /// They may not.
    Private,
    /// They may.
    Shared,
}

/// How jobs may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobSlicing {
    /// Anywhere.
    Free,
    /// Where frames end.
    WholeFrames,
}

/// Ranks that are locked and refreshed together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColorEntry {
    /// Unique name. Required.
    pub name: Option<Text>,
    /// The ranks, such as 0-3. Required.
    pub ranks: Option<Text>,
    /// Time of the first lock; default 0.
    pub phase: Option<Time>,
}

/// A Colored Refresh Server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// Unique name. Required.
    pub name: Option<Text>,
    /// Name of its color. Required.
    pub color: Option<Text>,
    /// Its core; default 0.
    pub core: Option<Count<0, 1023>>,
    /// Its period. Required.
    pub period: Option<Time>,
    /// Its budget in each period. Required.
    pub budget: Option<Time>,
    /// What happens to the budget while no task is ready; default deferrable.
    pub kind: Option<ServerKind>,
    /// Scheduling policy of its tasks; default edf.
    pub scheduling: Option<ServerPolicy>,
}

/// What happens to a server's budget while no task is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// It stays until the end of the period.
    Deferrable,
    /// The server holds the processor and consumes it.
    IdleConsuming,
}

/// Scheduling policy of a server's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerPolicy {
    /// The earliest deadline first.
    Edf,
    /// Rate monotonic: the shorter period first.
    Rm,
    /// Deadline monotonic: the shorter relative deadline first.
    Dm,
    /// Fixed priorities as given.
    Fp,
}
