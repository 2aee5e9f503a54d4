//! What dividing the memory buys tasks, and what it costs them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::SimError;
use crate::report::Report;
use crate::scenario::{Scenario, ScenarioTask};
use crate::simulate::{Watch, simulate};

/// A scenario beside the same tasks with access to all bank classes, ranks, set colors, nodes and ways.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DivisionReport {
    /// The tasks, in the order of the scenario.
    pub tasks: Vec<TaskDivision>,
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
        let rows = divided.tasks.iter().zip(&undivided.tasks).map(|(own, shared)| {
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
        DivisionReport { tasks: rows.collect(), complete: divided.complete && undivided.complete }
    }

    /// Gives the greatest slowdown of any task, by what `which` takes of each; `None` if one is unknown.
    #[must_use]
    pub fn greatest(&self, which: impl Fn(&TaskDivision) -> Option<f64>) -> Option<f64> {
        self.tasks.iter().map(which).try_fold(0.0, |most: f64, slowdown| Some(most.max(slowdown?)))
    }
}

/// Simulates a scenario and the same without its division, each task also alone, on up to `threads` threads: the report of the
/// scenario, and the comparison. The watch hears of both as one.
///
/// # Errors
/// [`SimError`] when no task of the scenario has a part, and the refusals of [`simulate`].
pub fn simulate_division(
    scenario: &Scenario,
    threads: usize,
    watch: &dyn Watch,
) -> Result<(Report, DivisionReport), SimError> {
    let undivided = scenario.undivided()?.changed(|spec| spec.alone = true)?;
    let divided = scenario.changed(|spec| spec.alone = true)?;
    let own = simulate(&divided, threads, &|share: f64| watch.go_on(share / 2.0))?;
    let shared = simulate(&undivided, threads, &|share: f64| watch.go_on(0.5 + share / 2.0))?;
    let comparison = DivisionReport::of(&own, &shared);
    Ok((own, comparison))
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
