//! What an analysis found, for people and for programs.

use std::fmt::Write as _;

use memtint_sched::{Cause, Coverage, Overload, Refresh, Response, Task, TaskSet, Unsupported, Violation};
use memtint_units::{Picoseconds, spell_picoseconds};
use num_bigint::BigUint;
use num_integer::Integer;
use num_rational::Ratio;
use serde_json::{Value, json};

use crate::output::table;
pub(super) use crate::output::time;
use crate::system::first_line;
use memtint_picture::gantt::Arrivals;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// What an analysis found.
pub(super) struct Outcome {
    /// Fields of the system file, and tasks, that the analysis does not consider.
    pub(super) not_considered: Vec<String>,
    /// The scheduler's name as on the command line.
    pub(super) scheduler: &'static str,
    /// The theorem, with its source.
    pub(super) theorem: String,
    /// What must hold for the answer to.
    pub(super) assumptions: Vec<String>,
    pub(super) answer: Answer,
    pub(super) set: TaskSet,
    /// For each task of the set.
    pub(super) rows: Vec<Row>,
    /// Further numbers: name, value for programs, value for people.
    pub(super) numbers: Vec<Number>,
    /// Refresh that was derived from the file's memory; printed below the verdict.
    pub(super) derived: Option<Derived>,
    /// Further tables: servers, frames.
    pub(super) sections: Vec<Section>,
    /// A schedule that the independent checker has accepted, or why there is none.
    pub(super) witness: Result<Chart, String>,
}

/// Name, value for programs, value for people.
pub(crate) type Number = (&'static str, Value, String);

/// A table beside that of the tasks.
pub(super) struct Section {
    /// Its name; for programs the key of a list.
    pub(super) name: &'static str,
    pub(super) heads: Vec<&'static str>,
    /// Columns of numbers.
    pub(super) right: Vec<usize>,
    pub(super) rows: Vec<Vec<String>>,
    /// The rows for programs.
    pub(super) json: Vec<Value>,
}

/// What `[memory]` says of refresh, in a file without `[refresh]`.
pub(super) struct Derived {
    text: String,
    json: Value,
}

pub(super) enum Answer {
    Yes,
    No(Box<Refusal>),
    Unsupported(String),
}

/// A no: a sentence for people, and the task, the window and the demand for programs.
pub(super) struct Refusal {
    pub(super) sentence: String,
    pub(super) overload: Value,
}

/// What is known of one task.
#[derive(Default)]
pub(super) struct Row {
    /// Its place in the order of priorities, from 1, the highest.
    pub(super) priority: Option<usize>,
    pub(super) worst: Option<Response>,
    /// Why there is no worst response time.
    pub(super) unbounded: Option<String>,
    /// The largest factor on its WCET alone, exact.
    pub(super) scaling: Option<String>,
    /// What only some schedulers know; the same names in each row.
    pub(super) more: Vec<Number>,
}

/// A witness: lanes of runs, and below them what is refreshed. The lanes may be more than the tasks of the set.
pub(super) struct Chart {
    pub(super) lanes: Vec<Lane>,
    pub(super) bands: Vec<Band>,
    pub(super) window: Picoseconds,
    pub(super) coverage: Coverage,
    /// Jobs whose deadline is in the window; all are met.
    pub(super) jobs: u64,
    /// Time for which no lane runs, on all cores together.
    pub(super) idle: Picoseconds,
    /// What the schedule shows and what it does not.
    pub(super) remark: String,
}

pub(super) struct Lane {
    pub(super) name: String,
    /// Of what arrives; of a copied task all is drawn with its first instance.
    pub(super) arrivals: Option<Arrivals>,
    /// Whether its runs are of jobs.
    pub(super) has_jobs: bool,
    pub(super) runs: Vec<Run>,
}

pub(super) struct Run {
    pub(super) job: u64,
    pub(super) start: Picoseconds,
    pub(super) end: Picoseconds,
    /// Which slice of its job on which instance of its task, where there are several.
    pub(super) part: Option<(u32, usize)>,
}

/// Ranks that are refreshed together, and when.
pub(super) struct Band {
    pub(super) name: String,
    pub(super) ranks: Vec<u32>,
    pub(super) spans: Vec<(Picoseconds, Picoseconds)>,
}

impl Outcome {
    /// Notes that refresh was derived from `[memory]`.
    pub(super) fn refresh_from_memory(&mut self, refresh: &Refresh, t_rfc: Picoseconds) {
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

    pub(super) fn to_json(&self) -> Value {
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

    pub(super) fn to_text(&self) -> String {
        let mut text = first_line(&self.not_considered);
        let verdict = match &self.answer {
            Answer::Yes => "schedulable: every job meets its deadline".to_owned(),
            Answer::No(refusal) => format!("not schedulable: {}", refusal.sentence),
            Answer::Unsupported(reason) => format!("unsupported: {reason}"),
        };
        let _ = writeln!(text, "{} ({})", verdict, self.scheduler);
        if let Some(derived) = &self.derived {
            let _ = writeln!(text, "{}", derived.text);
        }
        text.push('\n');
        text.push_str(&self.task_table());
        for section in &self.sections {
            let _ = writeln!(text, "\n{}", table(&section.heads, &section.right, &section.rows).trim_end());
        }
        let _ = writeln!(text, "\ntheorem: {}", self.theorem);
        // What is for programs only has no text.
        for (name, _, value) in self.numbers.iter().filter(|(_, _, value)| !value.is_empty()) {
            let _ = writeln!(text, "{}: {value}", name.trim_end_matches("_ps").replace('_', " "));
        }
        for assumption in &self.assumptions {
            let _ = writeln!(text, "assumes: {assumption}");
        }
        let _ = match &self.witness {
            Ok(chart) => writeln!(text, "witness: {}", chart.summary()),
            Err(reason) => writeln!(text, "witness: none, {reason}"),
        };
        text
    }

    /// The tasks; columns in which nothing is known of any are left out.
    fn task_table(&self) -> String {
        let mut heads: Vec<String> =
            ["task", "priority", "period", "wcet", "deadline", "worst response", "slack", "in job", "wcet factor"]
                .map(str::to_owned)
                .to_vec();
        let words = |(name, _, _): &Number| name.trim_end_matches("_ns").replace('_', " ");
        heads.extend(self.rows.iter().take(1).flat_map(|row| row.more.iter().map(words)));
        let rows: Vec<Vec<String>> = self.rows.iter().enumerate().map(|(index, row)| self.cells(index, row)).collect();
        let known: Vec<usize> = (0..heads.len()).filter(|&column| rows.iter().any(|row| row[column] != "-")).collect();
        let right: Vec<usize> = (0..known.len()).filter(|&column| (1..8).contains(&known[column])).collect();
        let heads: Vec<&str> = known.iter().map(|&column| heads[column].as_str()).collect();
        let pick = |row: Vec<String>| known.iter().map(|&column| row[column].clone()).collect();
        table(&heads, &right, &rows.into_iter().map(pick).collect::<Vec<_>>())
    }

    fn cells(&self, index: usize, row: &Row) -> Vec<String> {
        let task = &self.set.tasks()[index];
        let dash = || "-".to_owned();
        let worst = row.worst.as_ref();
        let response = worst.map(|worst| time(worst.response)).or(row.unbounded.as_ref().map(|_| "unknown".to_owned()));
        let slack = worst.map(|worst| worst.slack(&self.set).map_or("late".to_owned(), time));
        let mut cells = vec![
            task.name().to_owned(),
            row.priority.map_or_else(dash, |rank| rank.to_string()),
            time(task.period()),
            time(task.wcet()),
            time(task.deadline()),
            response.unwrap_or_else(dash),
            slack.unwrap_or_else(dash),
            worst.map_or_else(dash, |worst| worst.job.to_string()),
            row.scaling.clone().unwrap_or_else(dash),
        ];
        cells.extend(row.more.iter().map(|(_, _, text)| text.clone()));
        cells
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

    pub(super) fn summary(&self) -> String {
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
pub(super) fn arrivals(task: &Task) -> Option<Arrivals> {
    Some(Arrivals { phase: task.phase(), period: task.period(), deadline: task.deadline() })
}

/// Nanoseconds: a whole number where it is one.
pub(super) fn ns(span: Picoseconds) -> Value {
    if span.0.is_multiple_of(1000) { json!(span.0 / 1000) } else { json!(span.as_ns()) }
}

fn because(set: &TaskSet, cause: &Cause) -> String {
    match cause {
        Cause::Deadline => "the window ends at the deadline of the job".to_owned(),
        Cause::Start => "the window ends where the job would have to start".to_owned(),
        Cause::Begun(task) => format!(
            "the window ends at the deadline of the job, and a job of task {:?} has begun 1 ps before the window",
            set.tasks()[*task].name()
        ),
        Cause::Supply(most) => format!("the window is supplied no more than {}", exact_span(most)),
        Cause::Utilization(found) => format!("the part of the processor needed is {found}, more than 1"),
        other => format!("{other:?}"),
    }
}

/// A no by an overload after a critical instant, or another beginning.
pub(super) fn refusal(set: &TaskSet, late: &Overload, after: &str) -> Answer {
    let overload = json!({
        "task": set.tasks()[late.task].name(),
        "job": late.job.to_string(),
        "window_ps": late.window_ps.to_string(),
        "demand_ps": late.demand_ps.to_string(),
        "because": because(set, &late.cause),
    });
    Answer::No(Box::new(Refusal { sentence: late_in(set, late, after), overload }))
}

/// What the window of an overload begins with, unless said.
pub(super) const CRITICAL: &str = "a critical instant";

/// A sentence for an overload.
fn overloaded(set: &TaskSet, late: &Overload) -> String {
    late_in(set, late, CRITICAL)
}

fn late_in(set: &TaskSet, late: &Overload, after: &str) -> String {
    let (name, job) = (set.tasks()[late.task].name(), &late.job);
    format!(
        "task {name:?}, job {job} (from 0, after {after}): {} of work are due in a window of {}; {}",
        span(&late.demand_ps),
        span(&late.window_ps),
        because(set, &late.cause)
    )
}

/// A span in whole picoseconds that may be too long for 64 bits.
pub(super) fn span(ps: &(impl Integer + ToString)) -> String {
    spell_picoseconds(&ps.to_string())
}

/// A span that may be a fraction of a picosecond: rounded down to whole ones, and the exact value.
pub(super) fn exact_span(ps: &Ratio<BigUint>) -> String {
    match ps.is_integer() {
        true => span(ps.numer()),
        false => format!("{} (exactly {ps} ps)", span(&ps.to_integer())),
    }
}

/// A sentence for what is not supported.
pub(super) fn reason(set: &TaskSet, reason: &Unsupported) -> String {
    let name = |task: &usize| format!("{:?}", set.tasks()[*task].name());
    match reason {
        Unsupported::Phases(late) => {
            format!("the phases differ and are not used; with the worst phases, {}", overloaded(set, late))
        }
        Unsupported::Effort { task, steps_max } => {
            format!("task {}: more than {steps_max} steps would be needed; see --steps", name(task))
        }
        Unsupported::Window { task, window_ps_max } => {
            format!("task {}: a window of more than {}", name(task), span(window_ps_max))
        }
        Unsupported::Precondition { task, needs } => format!("task {}: the theorem needs {needs}", name(task)),
        Unsupported::Platform { needs } => format!("the theorem needs {needs}"),
        Unsupported::Bound(late) => {
            format!("with bounds of interference that may never be reached, {}", overloaded(set, late))
        }
        Unsupported::Load(found) => {
            format!("with bounds of interference that may never be reached, the part needed is {found}, not below 1")
        }
        Unsupported::Horizon { hyperperiod_ps, jobs_max } => format!(
            "with a hyperperiod of {} the schedule repeats only after more than {jobs_max} jobs; see --steps",
            span(hyperperiod_ps)
        ),
        Unsupported::Contradiction(violation) => contradiction(violation),
        Unsupported::Inconclusive { found, most } => format!("a sufficient test does not say yes: {found} > {most}"),
        other => format!("{other:?}"),
    }
}

fn contradiction(violation: &Violation) -> String {
    format!("a defect of memtint: the analysis says yes, and the checker refuses the schedule: {violation}")
}
