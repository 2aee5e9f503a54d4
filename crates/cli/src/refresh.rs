//! `memtint refresh`: memory whose refresh software schedules, so that tasks do not meet it.
//!
//! A verb of its own is a variant of [`Verb`] and a module below.

pub(crate) mod plan;

use crate::Ending;
use crate::output::Format;

/// Arguments of `memtint refresh`.
#[derive(Debug, clap::Args)]
pub(crate) struct RefreshArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Finds the best plan for a task set: frames, colors and copies, or colors and servers.
    Plan(plan::PlanArguments),
}

pub(crate) fn main(arguments: &RefreshArguments, format: Format) -> Ending {
    match &arguments.verb {
        Verb::Plan(plan) => plan::main(plan, format),
    }
}
