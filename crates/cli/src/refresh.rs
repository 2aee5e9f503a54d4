//! `memtint refresh`: memory whose refresh software schedules, so that tasks do not meet it.
//!
//! Each verb is a variant of [`Verb`] and a module below.

mod chart;
mod compare;
mod plan;
mod report;
mod setting;
mod simulate;

use crate::output::{Ending, Format, JsonForm};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<memtint_planner::PlanReport>("refresh-plan"),
    JsonForm::of::<memtint_refresh::SimulateReport>("refresh-simulate"),
    JsonForm::of::<memtint_refresh::CompareReport>("refresh-compare"),
];

/// Arguments of `memtint refresh`.
#[derive(Debug, clap::Args)]
pub(crate) struct RefreshArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Find the best plan for a task set: frames, colors and copies, or colors and servers.
    Plan(plan::PlanArguments),
    /// Simulate a task set while its memory is refreshed, and hold every response against its bound.
    Simulate(simulate::SimulateArguments),
    /// Simulate several ways to refresh at several densities of memory, side by side.
    Compare(compare::CompareArguments),
}

pub(crate) fn main(arguments: &RefreshArguments, format: Format) -> Ending {
    match &arguments.verb {
        Verb::Plan(plan) => plan::main(plan, format),
        Verb::Simulate(simulate) => simulate::main(simulate, format),
        Verb::Compare(compare) => compare::main(compare, format),
    }
}
