//! Results of an analysis.

use memtint_sched::{Coverage, Refresh, Response, Task, TaskSet};
use memtint_units::Picoseconds;

use crate::ask::Scheduler;
use crate::output::{DerivedRefresh, Facts, Overload, TaskFacts};
use crate::words::{span, time};

/// The result of an analysis; [`AnalysisReport`](crate::AnalysisReport) is the same for programs.
#[derive(Clone, Debug)]
pub struct Report {
    /// Fields of the system file, and tasks, that the analysis does not consider.
    pub not_considered: Vec<String>,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The theorem, with its source.
    pub theorem: String,
    /// Assumptions of the answer.
    pub assumptions: Vec<String>,
    /// Whether every job meets its deadline.
    pub answer: Answer,
    /// The tasks.
    pub set: TaskSet,
    /// For each task of the set.
    pub rows: Vec<Row>,
    /// Results that only some schedulers have.
    pub findings: Findings<Facts>,
    /// A sentence on refresh that was derived from `[memory]`, in a file without `[refresh]`.
    pub derived: Option<String>,
    /// Further tables for people: servers, frames.
    pub sections: Vec<Section>,
    /// A schedule that the independent checker has accepted, or why there is none.
    pub witness: Result<Chart, String>,
}

/// Facts for programs, and lines for people in the order in which they are printed. Some facts have no line.
#[derive(Clone, Debug, Default)]
pub struct Findings<F> {
    /// For programs.
    pub facts: F,
    /// For people.
    pub lines: Vec<Line>,
}

/// A fact for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its label.
    pub label: &'static str,
    /// Its text.
    pub text: String,
}

impl<F> Findings<F> {
    /// Adds a line for people, and gives the facts, to set the same one for programs.
    ///
    /// ```
    /// let mut findings = memtint_analysis::Findings::<memtint_analysis::output::Facts>::default();
    /// findings.line("frame", "8 ms").frame_ps = Some(8_000_000_000);
    /// ```
    pub fn line(&mut self, label: &'static str, text: impl Into<String>) -> &mut F {
        self.lines.push(Line { label, text: text.into() });
        &mut self.facts
    }
}

/// A table for people, beside that of the tasks.
#[derive(Clone, Debug)]
pub struct Section {
    /// Heads of its columns.
    pub heads: Vec<&'static str>,
    /// Columns of numbers, from 0.
    pub right: Vec<usize>,
    /// Cells, row by row, as many as there are heads.
    pub rows: Vec<Vec<String>>,
}

/// Whether every job meets its deadline.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Every job does.
    Yes,
    /// A job can miss its deadline.
    No(Box<Refusal>),
    /// The analysis cannot decide, for this reason.
    Unsupported(String),
}

/// A no: a sentence for people, and the task, the window and the demand for programs.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// For people.
    pub sentence: String,
    /// For programs.
    pub overload: Overload,
}

/// Results for one task.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its place in the order of priorities, from 1, the highest.
    pub priority: Option<usize>,
    /// Its worst response.
    pub worst: Option<Response>,
    /// Why there is no worst response time.
    pub unbounded: Option<String>,
    /// The largest factor on its WCET alone, exact.
    pub scaling: Option<String>,
    /// Results that only some schedulers have; the same lines in each row.
    pub findings: Findings<TaskFacts>,
}

/// A witness: lanes of runs, and below them the refreshed ranks. The lanes may be more than the tasks of the set.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Tasks, or instances of tasks, and other lanes.
    pub lanes: Vec<Lane>,
    /// Ranks that are refreshed together.
    pub bands: Vec<Band>,
    /// How long it is.
    pub window: Picoseconds,
    /// Coverage: all, or a part.
    pub coverage: Coverage,
    /// Jobs whose deadline is in the window; all are met.
    pub jobs: u64,
    /// Time for which no lane runs, on all cores together.
    pub idle: Picoseconds,
    /// The scope of the schedule.
    pub remark: String,
}

/// The runs in one lane of a witness.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// Of what arrives; of a copied task all is with its first instance.
    pub arrivals: Option<Arrivals>,
    /// Whether its runs are of jobs.
    pub has_jobs: bool,
    /// The runs, in order.
    pub runs: Vec<Run>,
}

/// When jobs arrive, and are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// When the first arrives.
    pub phase: Picoseconds,
    /// From one to the next.
    pub period: Picoseconds,
    /// From a job's arrival to when it is due.
    pub deadline: Picoseconds,
}

/// A time in which one job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The job, from 0.
    pub job: u64,
    /// When it begins.
    pub start: Picoseconds,
    /// When it ends.
    pub end: Picoseconds,
    /// Which slice of its job on which instance of its task, where there are several.
    pub part: Option<(u32, usize)>,
}

/// Ranks that are refreshed together, and when.
#[derive(Clone, Debug)]
pub struct Band {
    /// Its name.
    pub name: String,
    /// The ranks.
    pub ranks: Vec<u32>,
    /// When each refresh begins and ends.
    pub spans: Vec<(Picoseconds, Picoseconds)>,
}

impl Report {
    /// Notes that refresh was derived from `[memory]`.
    pub(crate) fn refresh_from_memory(&mut self, refresh: &Refresh, t_rfc: Picoseconds) {
        let (period, duration) = (refresh.period(), t_rfc);
        let stall = refresh.stall();
        self.derived = Some(format!(
            "refresh: derived from [memory], because there is no [refresh]: a stall of {} each {}, all ranks together (tRFC {})",
            time(stall),
            time(period),
            time(duration)
        ));
        self.findings.facts.refresh_derived = Some(DerivedRefresh {
            from: "memory",
            mode: "auto",
            interval_ps: period.0,
            duration_ps: duration.0,
            stall_ps: stall.0,
        });
        self.assumptions.push(
            "the controller refreshes all ranks at the same time; for ranks in turn see memtint refresh simulate --scheme auto"
                .to_owned(),
        );
    }
}

impl Chart {
    /// Summarizes its content in a line.
    #[must_use]
    pub fn summary(&self) -> String {
        let coverage = match &self.coverage {
            Coverage::Hyperperiod => "one hyperperiod".to_owned(),
            Coverage::Phases => "all phases and two hyperperiods".to_owned(),
            Coverage::Part(whole) => format!("a part of the hyperperiod of {}", span(whole)),
        };
        let (window, idle) = (time(self.window), time(self.idle));
        format!("{window}, {coverage}; {} jobs accepted by the checker, {idle} idle; {}", self.jobs, self.remark)
    }
}

/// When jobs of a task arrive, and are due.
pub(crate) fn arrivals(task: &Task) -> Option<Arrivals> {
    Some(Arrivals { phase: task.phase(), period: task.period(), deadline: task.deadline() })
}
