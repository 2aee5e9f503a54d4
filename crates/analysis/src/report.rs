//! What an analysis found, as values and as JSON.

use memtint_sched::{Coverage, Refresh, Response, Task, TaskSet};
use memtint_units::Picoseconds;
use serde_json::{Value, json};

use crate::words::{span, time};

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// What an analysis found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Fields of the system file, and tasks, that the analysis does not consider.
    pub not_considered: Vec<String>,
    /// The scheduler's name as on the command line.
    pub scheduler: &'static str,
    /// The theorem, with its source.
    pub theorem: String,
    /// What must hold for the answer to.
    pub assumptions: Vec<String>,
    /// Whether every job meets its deadline.
    pub answer: Answer,
    /// The tasks.
    pub set: TaskSet,
    /// For each task of the set.
    pub rows: Vec<Row>,
    /// Further numbers.
    pub numbers: Vec<Number>,
    /// Refresh that was derived from the file's memory.
    pub derived: Option<Derived>,
    /// Further tables: servers, frames.
    pub sections: Vec<Section>,
    /// A schedule that the independent checker has accepted, or why there is none.
    pub witness: Result<Chart, String>,
}

/// Name, value for programs, value for people. What is for programs only has no text.
pub type Number = (&'static str, Value, String);

/// A table beside that of the tasks.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name; for programs the key of a list.
    pub name: &'static str,
    /// Heads of its columns.
    pub heads: Vec<&'static str>,
    /// Columns of numbers, from 0.
    pub right: Vec<usize>,
    /// Cells, row by row, as many as there are heads.
    pub rows: Vec<Vec<String>>,
    /// The rows for programs.
    pub json: Vec<Value>,
}

/// What `[memory]` says of refresh, in a file without `[refresh]`.
#[derive(Clone, Debug)]
pub struct Derived {
    /// For people.
    pub text: String,
    json: Value,
}

/// Whether every job meets its deadline.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Every job does.
    Yes,
    /// A job can miss its deadline.
    No(Box<Refusal>),
    /// The analysis cannot say, and why.
    Unsupported(String),
}

/// A no: a sentence for people, and the task, the window and the demand for programs.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// For people.
    pub sentence: String,
    /// For programs.
    pub overload: Value,
}

/// What is known of one task.
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
    /// What only some schedulers know; the same names in each row.
    pub more: Vec<Number>,
}

/// A witness: lanes of runs, and below them what is refreshed. The lanes may be more than the tasks of the set.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Tasks, or instances of tasks, and what else runs.
    pub lanes: Vec<Lane>,
    /// Ranks that are refreshed together.
    pub bands: Vec<Band>,
    /// How long it is.
    pub window: Picoseconds,
    /// Of what it shows all, or a part.
    pub coverage: Coverage,
    /// Jobs whose deadline is in the window; all are met.
    pub jobs: u64,
    /// Time for which no lane runs, on all cores together.
    pub idle: Picoseconds,
    /// What the schedule shows and what it does not.
    pub remark: String,
}

/// What runs in one lane of a witness.
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
        self.derived = Some(Derived {
            text: format!(
                "refresh: derived from [memory], because there is no [refresh]: a stall of {} each {}, all ranks together (tRFC {})",
                time(stall),
                time(period),
                time(duration)
            ),
            json: json!({
                "from": "memory", "mode": "auto", "interval_ps": period.0, "duration_ps": duration.0, "stall_ps": stall.0
            }),
        });
        self.assumptions.push(
            "the controller refreshes all ranks at the same time; for ranks in turn see memtint refresh simulate --scheme auto"
                .to_owned(),
        );
    }

    /// Gives the form for programs: what `memtint analyze --format json` prints.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (schedulable, overload, unsupported) = match &self.answer {
            Answer::Yes => (json!(true), Value::Null, Value::Null),
            Answer::No(refusal) => (json!(false), refusal.overload.clone(), Value::Null),
            Answer::Unsupported(reason) => (Value::Null, Value::Null, json!(reason)),
        };
        let mut all = json!({
            "schema": SCHEMA,
            "report": "analyze",
            "not_considered": self.not_considered,
            "scheduler": self.scheduler,
            "schedulable": schedulable,
            "unsupported": unsupported,
            "theorem": self.theorem,
            "assumptions": self.assumptions,
            "overload": overload,
            "tasks": self.rows.iter().enumerate().map(|(index, row)| self.task(index, row)).collect::<Vec<_>>(),
            "witness": self.witness.as_ref().map_or(Value::Null, Chart::to_json),
            "witness_absent": self.witness.as_ref().err(),
        });
        if let Some(derived) = &self.derived {
            all["refresh_derived"] = derived.json.clone();
        }
        for (name, value, _) in &self.numbers {
            all[name] = value.clone();
        }
        for section in &self.sections {
            all[section.name] = json!(section.json);
        }
        all
    }

    fn task(&self, index: usize, row: &Row) -> Value {
        let task = &self.set.tasks()[index];
        let worst = row.worst.as_ref();
        let mut all = json!({
            "name": task.name(),
            "priority": row.priority,
            "period_ps": task.period().0,
            "wcet_ps": task.wcet().0,
            "deadline_ps": task.deadline().0,
            "wcrt_ns": worst.map(|worst| ns(worst.response)),
            "wcrt_ps": worst.map(|worst| worst.response.0),
            "slack_ns": worst.and_then(|worst| worst.slack(&self.set)).map(ns),
            "meets_deadline": worst.map(|worst| worst.response <= task.deadline()),
            "critical_job": worst.map(|worst| worst.job),
            "critical_window_ps": worst.map(|worst| worst.window.0),
            "jobs_looked_at": worst.map(|worst| worst.jobs),
            "no_wcrt_because": row.unbounded,
            "wcet_factor_max": row.scaling,
        });
        for (name, value, _) in &row.more {
            all[name] = value.clone();
        }
        all
    }
}

impl Chart {
    fn to_json(&self) -> Value {
        let run = |run: &Run| {
            let mut all = json!({"job": run.job, "start_ps": run.start.0, "end_ps": run.end.0});
            if let Some((slice, instance)) = run.part {
                all["slice"] = json!(slice);
                all["instance"] = json!(instance);
            }
            all
        };
        let lane = |lane: &Lane| json!({"name": lane.name, "runs": lane.runs.iter().map(run).collect::<Vec<_>>()});
        let span = |span: &(Picoseconds, Picoseconds)| json!({"start_ps": span.0.0, "end_ps": span.1.0});
        let band = |band: &Band| {
            let spans: Vec<Value> = band.spans.iter().map(span).collect();
            json!({"color": band.name, "ranks": band.ranks, "refreshes": spans})
        };
        let coverage = match self.coverage {
            Coverage::Hyperperiod => "hyperperiod",
            Coverage::Phases => "phases and two hyperperiods",
            Coverage::Part(_) => "part",
        };
        let hyperperiod = match &self.coverage {
            Coverage::Part(whole) => Some(whole.to_string()),
            _ => None,
        };
        json!({
            "window_ps": self.window.0,
            "coverage": coverage,
            "hyperperiod_ps": hyperperiod,
            "accepted_jobs": self.jobs,
            "idle_ps": self.idle.0,
            "remark": self.remark,
            "lanes": self.lanes.iter().map(lane).collect::<Vec<_>>(),
            "colors": self.bands.iter().map(band).collect::<Vec<_>>(),
        })
    }

    /// Says in a line what it shows.
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

/// Nanoseconds: a whole number where it is one.
pub(crate) fn ns(span: Picoseconds) -> Value {
    if span.0.is_multiple_of(1000) { json!(span.0 / 1000) } else { json!(span.as_ns()) }
}
