//! The result of an inspection of all tasks of a system.

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Report, Verdict};

/// All tasks of a system, as JSON.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SystemReport {
    schema: u32,
    report: &'static str,
    system: String,
    /// Violated if that of a task is.
    verdict: Verdict,
    tasks: Vec<TaskReport>,
}

/// A task of a system.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TaskReport {
    name: String,
    /// Running programs that `memtint run` has started with this task.
    programs: Vec<u32>,
    /// All of these and their descendants, together; null when none runs.
    report: Option<Report>,
}

impl TaskReport {
    /// Makes the report of a task: its programs, and the report on them; `None` if none runs.
    #[must_use]
    pub fn new(name: &str, programs: Vec<u32>, report: Option<Report>) -> TaskReport {
        TaskReport { name: name.to_owned(), programs, report }
    }
}

impl SystemReport {
    /// Makes the report of a system's tasks; `None` if none of them was judged.
    #[must_use]
    pub fn new(system: String, tasks: Vec<TaskReport>) -> Option<SystemReport> {
        let verdicts: Vec<Verdict> = tasks.iter().filter_map(|task| task.report.as_ref()?.verdict).collect();
        let violated = verdicts.contains(&Verdict::Violated);
        let verdict = if violated { Verdict::Violated } else { Verdict::Held };
        let report = || SystemReport { schema: 1, report: "inspect_system", system, verdict, tasks };
        (!verdicts.is_empty()).then(report)
    }

    /// Gives the verdict on all tasks.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Gives the reports of the tasks that run.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.tasks.iter().filter_map(|task| task.report.as_ref())
    }

    /// Writes the report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for task in &self.tasks {
            text.push_str(&format!("task {}\n", task.name));
            match &task.report {
                Some(report) => text.push_str(&report.to_text()),
                None => text.push_str("does not run\n"),
            }
            text.push('\n');
        }
        let violated =
            |task: &&TaskReport| task.report.as_ref().is_some_and(|report| report.verdict == Some(Verdict::Violated));
        let (count, of) = (
            self.tasks.iter().filter(violated).count(),
            self.tasks.iter().filter(|task| task.report.is_some()).count(),
        );
        text.push_str(&format!("{} of {of} tasks that run: violated; {} do not run\n", count, self.tasks.len() - of));
        text
    }
}
