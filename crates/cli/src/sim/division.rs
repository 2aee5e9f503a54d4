//! `memtint sim --compare`: what dividing the memory buys tasks, and what it costs them.

use std::path::Path;
use std::process::ExitCode;

use memtint_picture::bars::Bars;
use memtint_picture::plot::{Limit, Series};
use memtint_sim::{DivisionReport, Report, Scenario, TaskDivision, simulate_division};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Ending, Failure, Format, print, print_json, table, warn, write_file};
use crate::progress::Simulating;
use crate::system::first_line;

/// What is printed as JSON.
#[derive(Serialize, JsonSchema)]
pub(super) struct ComparisonReport {
    /// Version of this form.
    schema: u32,
    /// Which report it is: `sim-compare`.
    report: &'static str,
    /// Fields of the system file that the simulation does not consider.
    not_considered: Vec<String>,
    /// The file.
    scenario: String,
    /// The platform's name.
    platform: String,
    /// Seed of everything random.
    seed: u64,
    /// Assumptions about the platform where it is incomplete.
    assumed: Vec<String>,
    /// How long the tasks ran together, each in its part.
    simulated_ns: f64,
    #[serde(flatten)]
    division: DivisionReport,
}

/// Columns: a name, and the slowdown that it shows.
type Column = (&'static str, fn(&TaskDivision) -> Option<f64>);

const SHARED: Column = ("shared", |task| task.shared_slowdown);
const DIVIDED: Column = ("each in its part", |task| task.divided_slowdown);
const COST: Column = ("alone in its part", |task| task.alone_in_part_slowdown);

/// Simulates both sides and prints the comparison.
pub(super) fn main(
    scenario: &Scenario,
    not_considered: Vec<String>,
    threads: usize,
    svg: Option<&Path>,
    format: Format,
) -> Ending {
    let progress = Simulating::new()?;
    let (own, division) = simulate_division(scenario, threads, &progress)?;
    drop(progress);
    if !division.complete {
        return Err(Failure::Sentence("stopped before the end of the simulations".to_owned()));
    }
    let failures = division.failures.clone();
    if let Some(path) = svg {
        write_file(path, &picture(&own, &division).svg())?;
    }
    match format {
        Format::Text => print(&(first_line(&not_considered) + &text(&own, &division)))?,
        Format::Json => print_json(&ComparisonReport {
            schema: 1,
            report: "sim-compare",
            not_considered,
            scenario: own.scenario,
            platform: own.platform,
            seed: own.seed,
            assumed: own.assumed,
            simulated_ns: own.simulated_ns,
            division,
        })?,
    }
    for failure in &failures {
        warn(failure);
    }
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

fn text(own: &Report, division: &DivisionReport) -> String {
    let mut out = format!("{}\n\n", conclusion(division));
    let columns = [SHARED, DIVIDED, COST];
    let cell = |slowdown: Option<f64>| slowdown.map_or_else(|| "-".to_owned(), |slowdown| format!("{slowdown:.3}"));
    let row = |task: &TaskDivision| -> Vec<String> {
        std::iter::once(task.task.clone()).chain(columns.iter().map(|(_, of)| cell(of(task)))).collect()
    };
    let rows: Vec<Vec<String>> = division.tasks.iter().map(row).collect();
    out.push_str(&table(&["slowdown of", SHARED.0, DIVIDED.0, COST.0], &[1, 2, 3], &rows));
    out.push_str(&format!("\n{}\n", basis(own)));
    if !division.not_compared.is_empty() {
        out.push_str(&format!("not compared, having a period: {}\n", division.not_compared.join(", ")));
    }
    for assumed in &own.assumed {
        out.push_str(&format!("assumed: {assumed}\n"));
    }
    out
}

/// The baseline of the slowdowns.
fn basis(own: &Report) -> String {
    format!(
        "against each task alone with all of the memory; simulated on {}, seed {}, {:.3} ms",
        own.platform,
        own.seed,
        own.simulated_ns / 1e6
    )
}

/// Gain and cost of the division, in a sentence.
fn conclusion(division: &DivisionReport) -> String {
    if !division.failures.is_empty() {
        return "no comparison: a task did not do all of its work".to_owned();
    }
    let greatest = |column: Column| division.greatest(column.1);
    let (Some(shared), Some(divided), Some(cost)) = (greatest(SHARED), greatest(DIVIDED), greatest(COST)) else {
        return "a task executed nothing in one of the simulations".to_owned();
    };
    // Differences below a hundredth are beyond the accuracy of the model.
    let change = match divided / shared {
        ratio if ratio < 0.99 => format!("lowers the worst slowdown from {shared:.2} to {divided:.2}"),
        ratio if ratio > 1.01 => format!("raises the worst slowdown from {shared:.2} to {divided:.2}"),
        _ => format!("does not change the worst slowdown, {shared:.2}"),
    };
    let cost = match cost - 1.0 {
        part if part < 0.005 => "costs no task that is alone".to_owned(),
        part => format!("costs up to {:.1} % of a task's speed when it is alone", 100.0 * part / cost),
    };
    format!("the division {change}, and {cost}")
}

fn picture(own: &Report, division: &DivisionReport) -> Bars {
    let series = |(name, of): Column| Series { name, values: division.tasks.iter().map(of).collect() };
    Bars {
        title: conclusion(division),
        subtitle: basis(own),
        name: "slowdown",
        labels: division.tasks.iter().map(|task| task.task.clone()).collect(),
        limit: Limit { at: 1.0, name: "alone, undivided" },
        series: [SHARED, DIVIDED, COST].map(series).into(),
        missing: "executed nothing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(shared: f64, divided: f64, cost: f64) -> TaskDivision {
        TaskDivision {
            task: "a".to_owned(),
            alone_instructions_per_second: 1e9,
            alone_in_part_slowdown: Some(cost),
            shared_slowdown: Some(shared),
            divided_slowdown: Some(divided),
        }
    }

    fn said(tasks: Vec<TaskDivision>) -> String {
        conclusion(&DivisionReport { tasks, not_compared: Vec::new(), failures: Vec::new(), complete: true })
    }

    #[test]
    fn a_loss_is_said_as_plainly_as_a_gain() {
        let gain = said(vec![task(5.0, 1.25, 1.0), task(1.5, 1.5, 1.0)]);
        assert_eq!(gain, "the division lowers the worst slowdown from 5.00 to 1.50, and costs no task that is alone");
        let loss = said(vec![task(1.1, 1.4, 1.25)]);
        assert_eq!(
            loss,
            "the division raises the worst slowdown from 1.10 to 1.40, and costs up to 20.0 % of a task's speed when it is alone"
        );
        assert!(said(vec![task(1.5, 1.501, 1.0)]).contains("does not change the worst slowdown, 1.50"));
        let idle = TaskDivision { shared_slowdown: None, ..task(1.0, 1.0, 1.0) };
        assert_eq!(said(vec![idle]), "a task executed nothing in one of the simulations");
        let failures = vec!["divided: task a: out of color".to_owned()];
        let tasks = vec![task(5.0, 1.25, 1.0)];
        let failed = DivisionReport { tasks, not_compared: Vec::new(), failures, complete: true };
        assert_eq!(conclusion(&failed), "no comparison: a task did not do all of its work");
    }
}
