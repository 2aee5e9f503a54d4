//! Why a plan is the best, as programs read it.

use memtint_analysis::output::ServerChoice;
use schemars::JsonSchema;
use serde::Serialize;

/// What space was searched for a plan, and what is proved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Why {
    /// Of the frames of a table.
    Frames(FramesWhy),
    /// Of servers.
    Servers(ServersWhy),
}

impl Why {
    /// Tells whether nothing in the space is better.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        match self {
            Why::Frames(own) => own.proved_best,
            Why::Servers(own) => own.choice.proved_best,
        }
    }
}

/// What space was searched for the frames of a table, and what is proved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FramesWhy {
    /// The scheduler.
    #[schemars(extend("const" = "colored-refresh"))]
    pub plan: &'static str,
    /// The colors of each task, from 0.
    pub task_colors: String,
    /// Whether no frames that were tried have fewer copy tasks, or as many and fewer slices.
    pub proved_best: bool,
    /// The frames that were tried, and what was found.
    pub frames_tried: String,
}

/// What space was searched for servers, and what is proved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ServersWhy {
    /// How the servers were chosen.
    #[serde(flatten)]
    pub choice: ServerChoice,
    /// Tasks with an instance in both servers, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_tasks: Option<Vec<String>>,
}
