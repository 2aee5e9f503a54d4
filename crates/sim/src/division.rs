//! Benefit and cost of memory partitioning for tasks.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::SimError;
use crate::report::{End, Report};
use crate::scenario::{Scenario, ScenarioTask};
use crate::simulate::{Watch, simulate};

/// A scenario beside the same tasks with access to all bank classes, ranks, set colors, nodes and ways.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DivisionReport {
    /// The tasks without jobs, in the order of the scenario.
    pub tasks: Vec<TaskDivision>,
    /// Tasks with jobs: their releases, not the memory, bound how many instructions they execute.
    pub not_compared: Vec<String>,
    /// Tasks that did not do all of their work, with the reason: slowdowns of these simulations mean nothing.
    pub failures: Vec<String>,
    /// Whether every simulation came to its end.
    pub complete: bool,
}

/// How a task fares. Slowdowns are against the same task alone on the undivided machine: its speed there, by the speed in question, in
/// instructions a second. Absent where the task executed nothing.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TaskDivision {
    /// Its name.
    pub task: String,
    /// Alone, with all of the memory.
    pub alone_instructions_per_second: f64,
    /// Alone in its part: the cost of the division.
    pub alone_in_part_slowdown: Option<f64>,
    /// Beside the other tasks, all of them with all of the memory.
    pub shared_slowdown: Option<f64>,
    /// Beside the other tasks, each in its part.
    pub divided_slowdown: Option<f64>,
}

impl DivisionReport {
    fn of(divided: &Report, undivided: &Report) -> DivisionReport {
        let (periodic, others): (Vec<_>, Vec<_>) =
            divided.tasks.iter().zip(&undivided.tasks).partition(|(own, _)| own.period_ns.is_some());
        let failed = |side: &'static str, report: &Report| {
            let failed = report.tasks.iter().filter(|task| matches!(task.end, End::OutOfMemory | End::Failed));
            failed.map(|task| format!("{side}: task {}: {}", task.name, task.ending)).collect::<Vec<_>>()
        };
        let rows = others.into_iter().map(|(own, shared)| {
            let alone = shared.alone.map_or(0.0, |alone| alone.instructions_per_second);
            let slowdown = |speed: f64| (speed > 0.0 && alone > 0.0).then(|| alone / speed);
            TaskDivision {
                task: own.name.clone(),
                alone_instructions_per_second: alone,
                alone_in_part_slowdown: slowdown(own.alone.map_or(0.0, |alone| alone.instructions_per_second)),
                shared_slowdown: slowdown(shared.instructions_per_second),
                divided_slowdown: slowdown(own.instructions_per_second),
            }
        });
        DivisionReport {
            tasks: rows.collect(),
            not_compared: periodic.into_iter().map(|(own, _)| own.name.clone()).collect(),
            failures: [failed("divided", divided), failed("undivided", undivided)].concat(),
            complete: divided.complete && undivided.complete,
        }
    }

    /// Gives the greatest slowdown of any task, as selected by `which`; `None` if one is unknown.
    #[must_use]
    pub fn greatest(&self, which: impl Fn(&TaskDivision) -> Option<f64>) -> Option<f64> {
        self.tasks.iter().map(which).try_fold(0.0, |most: f64, slowdown| Some(most.max(slowdown?)))
    }
}

/// Simulates a scenario and the same without its division, each task also alone, on up to `threads` threads: the report
/// of the scenario, and the comparison. The watch receives the progress of both as one.
///
/// # Errors
/// [`SimError`] when no task of the scenario has a part, when it has bandwidth budgets, servers or a timetable of refresh, and the refusals of [`simulate`].
pub fn simulate_division(
    scenario: &Scenario,
    threads: usize,
    watch: &dyn Watch,
) -> Result<(Report, DivisionReport), SimError> {
    comparable(scenario)?;
    let undivided = scenario.undivided()?.changed(|spec| spec.alone = true)?;
    let divided = scenario.changed(|spec| spec.alone = true)?;
    let own = simulate(&divided, threads, &|share: f64| watch.go_on(share / 2.0))?;
    let shared = simulate(&undivided, threads, &|share: f64| watch.go_on(0.5 + share / 2.0))?;
    let comparison = DivisionReport::of(&own, &shared);
    Ok((own, comparison))
}

/// Refuses scenarios whose parts belong to something else than their division, or that have nothing to compare.
fn comparable(scenario: &Scenario) -> Result<(), SimError> {
    let spec = scenario.spec();
    let refuse = |field: &str, found: &str, accepted: &str| {
        let [field, found, accepted] = [field, found, accepted].map(str::to_owned);
        Err(SimError::Field { origin: scenario.origin().to_owned(), field, found, accepted })
    };
    if !spec.groups.is_empty() {
        return refuse("bandwidth", "budgeted", "no budget for a comparison of divisions (--ignore bandwidth)");
    }
    if !spec.servers.is_empty() || spec.timetable.is_some() || spec.table.is_some() {
        return refuse("server", "a schedule around refresh", "none for a comparison: it needs the ranks of its tasks");
    }
    match spec.tasks.iter().all(|task| task.job.is_some()) {
        true => refuse("period", "given for every task", "a task without period, whose speed shows what it waits for"),
        false => Ok(()),
    }
}

/// Whether a task may have a part only of the memory or of the last-level cache.
fn has_part(task: &ScenarioTask) -> bool {
    [&task.banks, &task.ranks, &task.sets, &task.nodes, &task.ways].into_iter().any(Option::is_some)
}

impl Scenario {
    /// The same, in which every task may have all of the memory and of the last-level cache.
    ///
    /// # Errors
    /// [`SimError`] when every task may already.
    pub fn undivided(&self) -> Result<Scenario, SimError> {
        if !self.spec().tasks.iter().any(has_part) {
            return Err(SimError::Field {
                origin: self.origin().to_owned(),
                field: "banks, ranks, sets, node or ways of a task".to_owned(),
                found: "given for none".to_owned(),
                accepted: "one of them for one task or more, or there is no division to compare".to_owned(),
            });
        }
        self.changed(|spec| {
            for task in &mut spec.tasks {
                (task.banks, task.ranks, task.sets, task.nodes, task.ways) = (None, None, None, None, None);
            }
        })
    }
}
