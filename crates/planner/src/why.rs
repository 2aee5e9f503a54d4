//! Why a plan is the best, in machine-readable form.

use memtint_analysis::output::ServerChoice;
use schemars::JsonSchema;
use serde::Serialize;

/// The space searched for a plan, and whether the plan is proved best.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Why {
    /// Frames of a table.
    Frames(FramesWhy),
    /// Servers.
    Servers(ServersWhy),
}

impl Why {
    /// Returns whether the plan is proved best in the space.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        match self {
            Why::Frames(own) => own.proved_best,
            Why::Servers(own) => own.choice.proved_best,
        }
    }
}

/// The space searched for the frames of a table, and whether the plan is proved best.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FramesWhy {
    /// The scheduler.
    #[schemars(extend("const" = "colored-refresh"))]
    pub plan: &'static str,
    /// The colors of each task, from 0.
    pub task_colors: String,
    /// Whether it is proved that no frames tried have fewer copy tasks, or equally many and fewer slices.
    pub proved_best: bool,
    /// The frames tried, with their results.
    pub frames_tried: String,
}

/// The space searched for servers, and whether the plan is proved best.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ServersWhy {
    /// How the servers were chosen.
    #[serde(flatten)]
    pub choice: ServerChoice,
    /// Tasks with an instance in both servers, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_tasks: Option<Vec<String>>,
}
