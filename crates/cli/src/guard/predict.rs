//! `memtint guard predict`.

use std::path::PathBuf;
use std::process::ExitCode;

use memtint_bandwidth::{Budgeted, PredictError, Prediction, Profile};
use memtint_units::Picoseconds;

use crate::output::{Ending, Failure, Format, print, print_json};

/// Options of `memtint guard predict`.
#[derive(Debug, clap::Args)]
pub(super) struct PredictArguments {
    /// JSON of memtint sim.
    #[arg(value_name = "REPORT")]
    report: PathBuf,
    /// Core or task, as the report names it, for instance "core 0". Default: the only one.
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Budget in megabytes a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    mb_per_s: u64,
    /// Between two budgets.
    #[arg(long, value_name = "TIME", default_value = "1 ms")]
    period: Picoseconds,
    /// Most events of a grant, each of which ends with an interrupt; 0: one grant for each budget.
    #[arg(long, value_name = "N", default_value_t = 0)]
    quantum: u64,
    /// What an interrupt takes of the core.
    #[arg(long, value_name = "TIME", default_value = "0 ns")]
    overhead: Picoseconds,
}

pub(super) fn main(arguments: &PredictArguments, format: Format) -> Ending {
    let path = &arguments.report;
    let budgeted = Budgeted {
        subject: arguments.subject.clone(),
        mb_per_s: arguments.mb_per_s,
        period: arguments.period,
        quantum: arguments.quantum,
        overhead: arguments.overhead,
    };
    let text =
        std::fs::read_to_string(path).map_err(|cause| Failure::File { path: path.clone(), done: "read", cause })?;
    let of_file = |error: PredictError| Failure::Sentence(format!("{}: {error}", path.display()));
    let prediction = Profile::parse(&text).and_then(|profile| profile.predict(&budgeted)).map_err(of_file)?;
    match format {
        Format::Json => print_json(&prediction)?,
        Format::Text => print(&text_of(&prediction))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text_of(prediction: &Prediction) -> String {
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    format!(
        "{}: {} alone, {} {} in {} stretches\n\
         predicted: {} with {} in each {}, {:.3} times as long\n\
         not in it: what other cores delay; it is no bound\n",
        prediction.subject,
        ms(prediction.alone_ns),
        prediction.events,
        prediction.counts,
        prediction.stretches,
        ms(prediction.predicted_ns),
        prediction.budget,
        ms(prediction.period_ns),
        prediction.slowdown,
    )
}
