//! The result of an analysis, in the form for programs.
//!
//! `memtint analyze --format json` prints an [`AnalysisReport`], and its [`JsonSchema`] is the schema of that output. Names of times end
//! in their unit. A string of digits holds a whole number that may exceed 64 bits, or an exact fraction. A field is `null` where there is
//! no such value, and absent where the scheduler has no such field.

use memtint_sched::{Coverage, TaskSet};
use memtint_units::Picoseconds;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::ask::Scheduler;
use crate::report::{Answer, Band, Chart, Lane, Report, Row, Run};

/// Version of the form.
const SCHEMA: u32 = 1;

/// The answer to whether a task set meets its deadlines.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AnalysisReport {
    /// Version of the form of this report.
    pub schema: u32,
    /// Which report it is.
    #[schemars(extend("const" = "analyze"))]
    pub report: &'static str,
    /// Fields of the system file, and tasks, that the analysis does not consider.
    pub not_considered: Vec<String>,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Whether every job meets its deadline; null where the analysis gives no answer.
    pub schedulable: Option<bool>,
    /// Why the analysis gives no answer.
    pub unsupported: Option<String>,
    /// The theorem, with its source.
    pub theorem: String,
    /// Assumptions of the answer.
    pub assumptions: Vec<String>,
    /// The overload that refutes the task set, where schedulable is false.
    pub overload: Option<Overload>,
    /// Utilization of all tasks, exact.
    pub utilization: String,
    /// The tasks.
    pub tasks: Vec<TaskReport>,
    /// A schedule that the independent checker has accepted.
    pub witness: Option<WitnessReport>,
    /// Why there is no such schedule.
    pub witness_absent: Option<String>,
    /// Results that only some schedulers have.
    #[serde(flatten)]
    pub facts: Facts,
}

impl AnalysisReport {
    /// Leaves out the runs of the witness, which may be a hundred thousand.
    #[must_use]
    pub fn without_runs(mut self) -> AnalysisReport {
        if let Some(witness) = &mut self.witness {
            (witness.lanes, witness.colors) = (None, None);
        }
        self
    }
}

impl From<&Report> for AnalysisReport {
    fn from(report: &Report) -> AnalysisReport {
        let (schedulable, overload, unsupported) = match &report.answer {
            Answer::Yes => (Some(true), None, None),
            Answer::No(refusal) => (Some(false), Some(refusal.overload.clone()), None),
            Answer::Unsupported(reason) => (None, None, Some(reason.clone())),
        };
        let rows = report.rows.iter().enumerate();
        AnalysisReport {
            schema: SCHEMA,
            report: "analyze",
            not_considered: report.not_considered.clone(),
            scheduler: report.scheduler,
            schedulable,
            unsupported,
            theorem: report.theorem.clone(),
            assumptions: report.assumptions.clone(),
            overload,
            utilization: report.set.utilization().to_string(),
            tasks: rows.map(|(index, row)| TaskReport::new(&report.set, index, row)).collect(),
            witness: report.witness.as_ref().ok().map(WitnessReport::from),
            witness_absent: report.witness.as_ref().err().cloned(),
            facts: report.findings.facts.clone(),
        }
    }
}

/// Results for a system that only some schedulers have.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Facts {
    /// Refresh that was derived from `[memory]`, because the file has no `[refresh]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_derived: Option<DerivedRefresh>,
    /// The largest factor on all WCETs together, exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wcet_factor_max_of_all: Option<String>,
    /// The examined part of the one schedule of the given phases: the last phase and two hyperperiods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases_window_ps: Option<String>,
    /// Length of a frame of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_ps: Option<u64>,
    /// Length of the table, after which it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle_ps: Option<u64>,
    /// Slices in a cycle beyond one for each job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices_extra: Option<u64>,
    /// No table with as many copies has fewer such slices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices_extra_least: Option<u64>,
    /// Nodes of the search for the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// Length of a colored frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color_frame_ps: Option<u64>,
    /// How many colors there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color_count: Option<u32>,
    /// How long the refresh of a color takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_ps: Option<u64>,
    /// Tasks with two instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// No table has fewer of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_least: Option<u32>,
    /// Jobs in a cycle that another instance executes than the job before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_switches: Option<u64>,
    /// Cost of the extra slices of a cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_cost_of_a_cycle_ps: Option<u64>,
    /// Refresh that delays no task: of a table in a cycle, with servers in the witness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_refresh_ps: Option<u64>,
    /// Refresh that tasks wait for: of a table in a cycle, with servers in the witness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhidden_refresh_ps: Option<u64>,
    /// The longest time from one refresh of a rank to its next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_refresh_gap_ps: Option<u64>,
    /// Notes of the rules for frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Vec<String>>,
    /// Refresh beside servers that always have something to do, core by core; null where that takes too long to find out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_with_busy_servers: Option<Vec<Option<BusyRefresh>>>,
    /// Utilization of each core by budgets and refresh tasks, exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_utilization_of_cores: Option<Vec<String>>,
    /// How long the refresh of each color takes, in the order of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts_ps: Option<Vec<u64>>,
    /// How servers that the file does not give were chosen.
    #[serde(flatten)]
    pub choice: Option<ServerChoice>,
    /// Frames that were tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameRows>,
    /// The servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<ServerReport>>,
    /// The servers by the formulas as printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_printed: Option<Vec<PrintedServer>>,
    /// Both instances of each copied task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_tasks: Option<Vec<CopiedInstance>>,
}

/// Refresh that was derived from `[memory]`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DerivedRefresh {
    /// Its origin.
    #[schemars(extend("const" = "memory"))]
    pub from: &'static str,
    /// The refresh mode.
    #[schemars(extend("const" = "auto"))]
    pub mode: &'static str,
    /// From one refresh to the next.
    pub interval_ps: u64,
    /// Time of one refresh command (tRFC).
    pub duration_ps: u64,
    /// Time for which a refresh delays the core.
    pub stall_ps: u64,
}

/// Refresh beside servers that always have something to do.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BusyRefresh {
    /// Refresh that delays no server.
    pub hidden_ps: u64,
    /// Refresh that a server waits for.
    pub unhidden_ps: u64,
    /// The time in which this refresh takes place.
    pub window_ps: u64,
}

/// How servers were chosen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ServerChoice {
    /// Of which servers, periods, budgets and phases they are the best.
    pub space: String,
    /// When a choice counts.
    pub admitted_if: AdmittedIf,
    /// Refresh that is not hidden, as a part of the time of one core, with servers that always have something to do; exact.
    pub unhidden_part: String,
    /// Whether no choice of the space leaves less.
    pub proved_best: bool,
}

/// When a choice of servers counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdmittedIf {
    /// The supply of each server is enough, whatever the phases of refresh.
    Supply,
    /// The analysis proves each server.
    Proof,
}

/// A task and its worst response.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// Its place in the order of priorities, from 1, the highest.
    pub priority: Option<usize>,
    /// Its period.
    pub period_ps: u64,
    /// Its WCET.
    pub wcet_ps: u64,
    /// Its relative deadline.
    pub deadline_ps: u64,
    /// Its worst response time.
    pub wcrt_ns: Option<Ns>,
    /// Its worst response time.
    pub wcrt_ps: Option<u64>,
    /// From the latest completion to the deadline; null where it is late.
    pub slack_ns: Option<Ns>,
    /// Whether its worst response is in time.
    pub meets_deadline: Option<bool>,
    /// The job that has it, from 0 for the first of the critical window.
    pub critical_job: Option<u64>,
    /// From the beginning of the critical window to the completion of that job.
    pub critical_window_ps: Option<u64>,
    /// Jobs that were tested.
    pub jobs_looked_at: Option<u64>,
    /// Why there is no worst response time.
    pub no_wcrt_because: Option<String>,
    /// The largest factor on its WCET alone, exact.
    pub wcet_factor_max: Option<String>,
    /// Results that only some schedulers have.
    #[serde(flatten)]
    pub facts: TaskFacts,
}

impl TaskReport {
    fn new(set: &TaskSet, index: usize, row: &Row) -> TaskReport {
        let (task, worst) = (&set.tasks()[index], row.worst.as_ref());
        TaskReport {
            name: task.name().to_owned(),
            priority: row.priority,
            period_ps: task.period().0,
            wcet_ps: task.wcet().0,
            deadline_ps: task.deadline().0,
            wcrt_ns: worst.map(|worst| Ns(worst.response)),
            wcrt_ps: worst.map(|worst| worst.response.0),
            slack_ns: worst.and_then(|worst| worst.slack(set)).map(Ns),
            meets_deadline: worst.map(|worst| worst.response <= task.deadline()),
            critical_job: worst.map(|worst| worst.job),
            critical_window_ps: worst.map(|worst| worst.window.0),
            jobs_looked_at: worst.map(|worst| worst.jobs),
            no_wcrt_because: row.unbounded.clone(),
            wcet_factor_max: row.scaling.clone(),
            facts: row.findings.facts.clone(),
        }
    }
}

/// Results for a task that only some schedulers have.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TaskFacts {
    /// Its WCET with the refreshes that can meet it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padded_wcet_ns: Option<Ns>,
    /// The most slices of one of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices_most: Option<u32>,
    /// Colors of each of its instances, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colors: Option<Vec<Vec<u32>>>,
    /// Ranks of each of its instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Vec<Vec<u32>>>,
    /// Time to bring its globals to another instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_ns: Option<Ns>,
    /// Properties that make its colors hard to find.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Vec<TaskClass>>,
    /// Its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Option<String>>,
    /// The server of its other instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_server: Option<Option<String>>,
    /// The longest response in the witness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_seen_ns: Option<Option<Ns>>,
}

/// A property of a task that makes its colors hard to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskClass {
    /// It has data in so large a part of the ranks that each frame refreshes some of it.
    Huge,
    /// There is hardly a frame in which it does not run.
    Long,
    /// Its period is shorter than two colored frames.
    Short,
}

impl TaskClass {
    /// Gives the name, as in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TaskClass::Huge => "huge",
            TaskClass::Long => "long",
            TaskClass::Short => "short",
        }
    }
}

/// An overload: more work than there is time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Overload {
    /// For the frames of a table; the first, because it has all that the other has.
    Frames(Box<FramesOverload>),
    /// For a window of time.
    Window(WindowOverload),
}

/// More work than a window of time has room for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WindowOverload {
    /// The task that is late; null where it is refresh.
    pub task: Option<String>,
    /// Its job, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Length of the window.
    pub window_ps: String,
    /// The work that is due in it.
    pub demand_ps: String,
    /// Why the work must be done in this window.
    pub because: String,
}

/// More work than the frames of a table have room for, with each length of frames that was tried; one example.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FramesOverload {
    /// Jobs and frames that show it; where colors were chosen, with the first choice.
    #[serde(flatten)]
    pub cut: Option<FrameCut>,
    /// Choices that are refuted, the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuted: Option<Vec<RefutedChoice>>,
    /// How many choices are refuted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuted_choices: Option<usize>,
    /// How many lengths of frames are refuted.
    pub frames_refuted: usize,
}

/// Jobs that may run in some frames only, and need more time than these have.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FrameCut {
    /// The task of the first job.
    pub task: Option<String>,
    /// The number of the first job, from 0.
    pub job: Option<String>,
    /// The jobs.
    pub jobs: Vec<JobName>,
    /// The frames, from 0, ascending.
    pub frames: Vec<u64>,
    /// Length of a frame.
    pub frame_ps: u64,
    /// Length of the frames together.
    pub window_ps: String,
    /// Total demand of the jobs.
    pub demand_ps: String,
    /// Total supply of the frames.
    pub supply_ps: String,
    /// Why the work must be done in these frames.
    pub because: &'static str,
}

/// A job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JobName {
    /// Its task.
    pub task: String,
    /// Its number, from 0.
    pub job: u64,
}

/// A choice of colors with which jobs do not fit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RefutedChoice {
    /// The colors of some tasks.
    pub colors: Vec<TaskColors>,
    /// Jobs and frames that show it.
    pub cut: FrameCut,
}

/// The colors of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskColors {
    /// The task.
    pub task: String,
    /// Colors of each of its instances, from 0.
    pub colors: Vec<Vec<u32>>,
}

/// Frames that were tried.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FrameRows {
    /// By search.
    Tried(Vec<TriedFrame>),
    /// By the rules as printed.
    Printed(Vec<PrintedFrame>),
}

/// A length of frames that was tried.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TriedFrame {
    /// Length of a frame.
    pub frame_ps: u64,
    /// Length of a colored frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color_frame_ps: Option<u64>,
    /// How many colors there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colors: Option<u32>,
    /// Whether a table has been found; null where the search could not say.
    pub schedulable: Option<bool>,
    /// The finding.
    pub said: String,
}

/// A length of frames, by the rules as printed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PrintedFrame {
    /// Length of a frame.
    pub frame_ps: u64,
    /// Whether no rule refuses it.
    pub accepted: bool,
    /// The rules that refuse it, and the tasks that they are about.
    pub refused: Vec<String>,
    /// The colors that are left for each task once jobs are placed, and tasks that are copied.
    pub colors: String,
}

/// A server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// The color in which its tasks have their data.
    pub color: String,
    /// The ranks of that color.
    pub ranks: Vec<u32>,
    /// Its period.
    pub period_ps: u64,
    /// Its budget in each period.
    pub budget_ps: String,
    /// Budget by period, exact.
    pub bandwidth: String,
    /// The smallest budget without refresh, exact.
    pub smallest_budget_ps: Option<String>,
    /// Why there is no smallest budget.
    pub no_smallest_budget_because: Option<String>,
    /// A budget with which its tasks still have their proof, with refresh, all else equal.
    pub enough_budget_ps: Option<String>,
    /// How much less than its budget that is.
    pub slack_ps: Option<String>,
    /// Its worst response time.
    pub response_ns: Option<Ns>,
    /// Guaranteed long-run supply, as a share of one processor, exact.
    pub supply_rate: String,
    /// Whether its tasks are proved to meet their deadlines.
    pub proved: bool,
    /// Its tasks.
    pub tasks: Vec<String>,
}

/// A server by the formulas as printed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PrintedServer {
    /// Its name.
    pub name: String,
    /// Its budget in each period.
    pub budget_ps: String,
    /// The periodic capacity bound, for all times.
    pub capacity_bound_ps: Option<String>,
    /// The periodic capacity bound at deadlines only.
    pub capacity_bound_at_deadlines_ps: Option<String>,
    /// Utilization of its tasks, exact.
    pub utilization: Option<String>,
    /// The utilization bound, exact.
    pub utilization_bound: Option<String>,
    /// Whether utilization is within that bound.
    pub within_utilization_bound: bool,
    /// Its response time.
    pub response_ns: Option<Ns>,
    /// Utilization of its core by budgets and refresh tasks, exact.
    pub total_utilization_of_core: String,
    /// Whether all tests pass.
    pub accepted: bool,
}

/// An instance of a copied task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CopiedInstance {
    /// The instance.
    pub task: String,
    /// Its server.
    pub server: String,
    /// The color of its data.
    pub color: String,
    /// WCET of a job and of copying its data.
    pub wcet_with_copy_ps: u64,
    /// How long its color is locked.
    pub locked_ps: u64,
    /// By how much longer a deadline is that the lock meets.
    pub lengthening_ps: u64,
    /// From the end of one lock to the beginning of the other, at least.
    pub locks_apart_ps: u64,
    /// The least that a copied task needs of that.
    pub locks_apart_needed_ps: u64,
    /// Its worst response time.
    pub wcrt_ns: Option<Ns>,
    /// The longest response in the witness.
    pub longest_seen_ns: Option<Ns>,
    /// Its jobs in the witness.
    pub jobs_in_witness: Option<usize>,
}

/// A schedule that the independent checker has accepted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WitnessReport {
    /// How long it is.
    pub window_ps: u64,
    /// Whether it shows all, or a part.
    pub coverage: CoverageReport,
    /// The hyperperiod, of which it shows a part.
    pub hyperperiod_ps: Option<String>,
    /// Jobs whose deadline is in the window; all are met.
    pub accepted_jobs: u64,
    /// Time for which no lane runs, on all cores together.
    pub idle_ps: u64,
    /// The scope of the schedule.
    pub remark: String,
    /// Lane of each task, or instance of a task, and of other activities; with --witness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<Vec<LaneReport>>,
    /// Ranks that are refreshed together; with --witness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colors: Option<Vec<ColorReport>>,
}

impl From<&Chart> for WitnessReport {
    fn from(chart: &Chart) -> WitnessReport {
        let (coverage, hyperperiod_ps) = match &chart.coverage {
            Coverage::Hyperperiod => (CoverageReport::Hyperperiod, None),
            Coverage::Phases => (CoverageReport::Phases, None),
            Coverage::Part(whole) => (CoverageReport::Part, Some(whole.to_string())),
        };
        WitnessReport {
            window_ps: chart.window.0,
            coverage,
            hyperperiod_ps,
            accepted_jobs: chart.jobs,
            idle_ps: chart.idle.0,
            remark: chart.remark.clone(),
            lanes: Some(chart.lanes.iter().map(LaneReport::from).collect()),
            colors: Some(chart.bands.iter().map(ColorReport::from).collect()),
        }
    }
}

/// Whether a schedule shows all, or a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoverageReport {
    /// One hyperperiod, after which everything repeats.
    Hyperperiod,
    /// All phases and two hyperperiods, after which everything repeats.
    #[serde(rename = "phases and two hyperperiods")]
    Phases,
    /// A part of a hyperperiod.
    Part,
}

/// The runs in one lane of a schedule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LaneReport {
    /// Its name.
    pub name: String,
    /// The runs, in order.
    pub runs: Vec<RunReport>,
}

impl From<&Lane> for LaneReport {
    fn from(lane: &Lane) -> LaneReport {
        LaneReport { name: lane.name.clone(), runs: lane.runs.iter().map(RunReport::from).collect() }
    }
}

/// A time in which one job runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunReport {
    /// The job, from 0.
    pub job: u64,
    /// When it begins.
    pub start_ps: u64,
    /// When it ends.
    pub end_ps: u64,
    /// Which slice of its job it is, from 0; of tables only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<u32>,
    /// On which instance of its task, from 0; of tables only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<usize>,
}

impl From<&Run> for RunReport {
    fn from(run: &Run) -> RunReport {
        let (slice, instance) = run.part.unzip();
        RunReport { job: run.job, start_ps: run.start.0, end_ps: run.end.0, slice, instance }
    }
}

/// Ranks that are refreshed together, and when.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ColorReport {
    /// Its name.
    pub color: String,
    /// The ranks.
    pub ranks: Vec<u32>,
    /// When they are refreshed.
    pub refreshes: Vec<RefreshReport>,
}

impl From<&Band> for ColorReport {
    fn from(band: &Band) -> ColorReport {
        let refreshes = band.spans.iter().map(|(start, end)| RefreshReport { start_ps: start.0, end_ps: end.0 });
        ColorReport { color: band.name.clone(), ranks: band.ranks.clone(), refreshes: refreshes.collect() }
    }
}

/// When a refresh begins and ends.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RefreshReport {
    /// When it begins.
    pub start_ps: u64,
    /// When it ends.
    pub end_ps: u64,
}

/// A span as a number of nanoseconds, whole where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ns(pub Picoseconds);

impl Serialize for Ns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.0.is_multiple_of(1000) {
            true => serializer.serialize_u64(self.0.0 / 1000),
            false => serializer.serialize_f64(self.0.as_ns()),
        }
    }
}

impl JsonSchema for Ns {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Ns".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0})
    }
}
