//! The plan file as written.

use memtint_map::Granule;
use memtint_units::{ByteSize, IndexList};
use serde::{Deserialize, Serialize};

use crate::error::PlanError;

/// The version of the plan file format that this crate reads and writes.
pub const PLAN_SCHEMA: u32 = 1;

/// Linux on x86-64 can be built for so many CPUs and no more (`NR_CPUS`).
const CORES_MAX: u32 = 8192;

/// A plan file as written: the form is right, the colors are not yet checked against the platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Version of the format; must be [`PLAN_SCHEMA`].
    pub schema: u32,
    /// Catalogue name, or path of a platform file (with a slash or ending in `.toml`), relative to the plan file.
    pub platform: String,
    /// Block that is colored as a unit; the numbers of classes and colors below are those at this granule. Default 4 KiB.
    #[serde(default)]
    pub granule: Granule,
    /// The tasks; at least one.
    #[serde(default, rename = "task")]
    pub tasks: Vec<TaskEntry>,
}

/// One `[[task]]` of a plan file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskEntry {
    /// Unique name: 1 to 64 letters, digits, dots, dashes, underscores.
    pub name: String,
    /// Bank classes; default: banks are not restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banks: Option<IndexList>,
    /// Set colors; default: cache sets are not restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sets: Option<IndexList>,
    /// NUMA nodes; default: nodes are not restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<IndexList>,
    /// Cores the task may run on, by Linux's CPU numbers; default: cores are not restricted. `all` and `!` are not accepted
    /// here, because a plan cannot know how many cores there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<IndexList>,
    /// What happens to an allocation that cannot be honored. Default strict.
    #[serde(default)]
    pub mode: Mode,
    /// Whether this task may have colors in common with other tasks that say so too. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Memory bandwidth budget, which `memtint guard --plan` keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BandwidthEntry>,
    /// Refresh partitions. Reserved: read and checked, not enforced by this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<IndexList>,
}

/// Bytes that a task may move between last-level cache and memory in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandwidthEntry {
    /// Budget in each period, above 0, for instance "1 MiB".
    pub budget: ByteSize,
    /// Length of the period in microseconds, above 0.
    pub period_us: u64,
    /// What becomes of a budget that is not used. Default hard.
    #[serde(default, skip_serializing_if = "BudgetKind::is_hard")]
    pub kind: BudgetKind,
}

/// What becomes of a budget that is not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetKind {
    /// It stays the task's.
    #[default]
    Hard,
    /// What the task is not expected to use is donated to other soft tasks, and it may use what they have donated.
    Soft,
}

impl BudgetKind {
    fn is_hard(&self) -> bool {
        *self == BudgetKind::Hard
    }
}

/// What happens to an allocation that cannot be honored in its colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It fails.
    #[default]
    Strict,
    /// It is given any frame, and counted as a violation.
    Soft,
}

impl PlanFile {
    /// Reads a plan file's text; `origin` names it in messages.
    ///
    /// # Errors
    ///
    /// [`PlanError::Syntax`] for text that is not a plan file, [`PlanError::Field`] for values that no platform could
    /// accept.
    pub fn parse(text: &str, origin: &str) -> Result<Self, PlanError> {
        let file: Self = toml::from_str(text)
            .map_err(|error| PlanError::Syntax { file: origin.to_owned(), message: one_line(text, &error) })?;
        file.check(origin)?;
        Ok(file)
    }

    /// Writes the file's text; reading it again gives an equal value.
    pub fn to_text(&self) -> String {
        // Every field is a string, a number, a boolean or a table of these, which TOML can hold.
        toml::to_string(self).expect("a plan file has only values that TOML can hold")
    }

    fn check(&self, origin: &str) -> Result<(), PlanError> {
        let refuse = |field: String, found: String, accepted: &str| {
            Err(PlanError::Field { file: origin.to_owned(), field, found, accepted: accepted.to_owned() })
        };
        if self.schema != PLAN_SCHEMA {
            return refuse("schema".to_owned(), self.schema.to_string(), "1");
        }
        if self.tasks.is_empty() {
            return refuse("task".to_owned(), "no task".to_owned(), "at least one [[task]]");
        }
        for (index, task) in self.tasks.iter().enumerate() {
            if !is_name(&task.name) {
                let accepted = "1 to 64 letters, digits, dots, dashes or underscores";
                return refuse(format!("name of task number {}", index + 1), format!("{:?}", task.name), accepted);
            }
            if self.tasks[..index].iter().any(|earlier| earlier.name == task.name) {
                return refuse("name of task".to_owned(), format!("{:?} twice", task.name), "each name once");
            }
            if let Some((field, found, accepted)) = task.fault() {
                return refuse(format!("{field} of task {:?}", task.name), found, accepted);
            }
        }
        Ok(())
    }
}

impl TaskEntry {
    /// Field, found, accepted.
    fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        const PLAIN: &str = "a plain list such as 0-3,8, of numbers below 8192";
        for (field, list) in [("cores", &self.cores), ("refresh", &self.refresh)] {
            match list {
                Some(IndexList::Only(ranges)) if ranges.last().is_some_and(|&(_, last)| last >= CORES_MAX) => {
                    return Some((field, IndexList::Only(ranges.clone()).to_string(), PLAIN));
                }
                Some(IndexList::Only(ranges)) if ranges.is_empty() => return Some((field, "none".to_owned(), PLAIN)),
                None | Some(IndexList::Only(_)) => {}
                Some(other) => return Some((field, format!("{:?}", other.to_string()), PLAIN)),
            }
        }
        let bandwidth = self.bandwidth?;
        if bandwidth.budget.bytes() == 0 {
            return Some(("bandwidth.budget", "0".to_owned(), "a size above 0, such as \"1 MiB\""));
        }
        if bandwidth.period_us == 0 {
            return Some(("bandwidth.period_us", "0".to_owned(), "a number of microseconds above 0"));
        }
        None
    }
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// TOML's messages draw a picture of several lines; ours are one line.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    match error.span() {
        Some(span) => {
            let line = 1 + text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count();
            format!("line {line}: {message}")
        }
        None => message,
    }
}
