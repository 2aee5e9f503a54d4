//! Why a task set, a priority order or a resource is refused.

use crate::task::TaskIndex;
use memtint_units::{Picoseconds, spell_picoseconds};

/// Reasons why input is refused. Every message names the task, the field, the value found and the values accepted.
///
/// A task set that is valid but cannot be scheduled is no error: see [`Verdict`](crate::Verdict).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedError {
    /// A field of a task holds a time outside its range.
    #[error("task {task:?}: {field} is {found}; accepted is {} to {}", Picoseconds(*least), Picoseconds(*most))]
    Field {
        /// The task.
        task: String,
        /// The field.
        field: &'static str,
        /// What it holds.
        found: Picoseconds,
        /// The smallest value accepted, in picoseconds.
        least: u64,
        /// The largest value accepted, in picoseconds.
        most: u64,
    },
    /// A task has no name.
    #[error("task {index} (counted from 0): name is \"\"; accepted is a unique name for each task")]
    Nameless {
        /// Its index in the set, from 0.
        index: TaskIndex,
    },
    /// Two tasks have one name.
    #[error(
        "task {task:?}: name is that of task {first} (counted from 0) too; accepted is a unique name for each task"
    )]
    Twice {
        /// The name.
        task: String,
        /// Index of the first that has it, from 0.
        first: TaskIndex,
    },
    /// There is no task.
    #[error("task set: tasks found are 0; accepted are 1 or more")]
    Empty,
    /// A priority order does not name each task once.
    #[error(
        "priority order: {found:?} found; accepted is each index from 0 to {last} once, the highest priority first"
    )]
    Order {
        /// The order given.
        found: Vec<TaskIndex>,
        /// The last index of the set.
        last: TaskIndex,
    },
    /// A periodic resource has a period or a budget outside its range.
    #[error("periodic resource: {field} is {found} ps; accepted is {accepted}")]
    Resource {
        /// The field.
        field: &'static str,
        /// What it holds, exact.
        found: String,
        /// What would be accepted.
        accepted: String,
    },
    /// A cause of interference has a field outside its range.
    #[error("{what}: {field} is {found}; accepted is {accepted}")]
    Interference {
        /// The cause.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What would be accepted.
        accepted: String,
    },
    /// A number of the hyperperiod's size is needed, and it does not fit.
    #[error("task set: hyperperiod is {}; accepted where it is needed is at most {}", spell_picoseconds(found), Picoseconds(*most))]
    Hyperperiod {
        /// The hyperperiod in picoseconds, exact, as a decimal number.
        found: String,
        /// The largest that fits, in picoseconds.
        most: u64,
    },
}
