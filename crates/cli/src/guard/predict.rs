//! `memtint guard predict`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_sched::{Regulator, Stretch, predicted_run_time};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Ending;
use crate::output::{Failure, Format, print, print_json};

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

/// The part of a report that is a profile; anything else in it is left alone.
#[derive(Deserialize)]
struct Profile {
    simulated_ns: f64,
    bandwidth: Option<Bandwidth>,
}

#[derive(Deserialize)]
struct Bandwidth {
    counters: Vec<Counter>,
    regulators: Vec<Named>,
    #[serde(default)]
    history: Vec<Period>,
}

#[derive(Deserialize)]
struct Counter {
    counts: String,
    event_bytes: u64,
}

#[derive(Deserialize)]
struct Named {
    subject: String,
}

#[derive(Deserialize)]
struct Period {
    subject: String,
    began_ns: f64,
    events: u64,
    throttled: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Prediction {
    schema: u32,
    report: &'static str,
    subject: String,
    counts: String,
    stretches: usize,
    events: u64,
    alone_ns: f64,
    period_ns: f64,
    budget: u64,
    predicted_ns: f64,
    slowdown: f64,
}

pub(super) fn main(arguments: &PredictArguments, format: Format) -> Ending {
    let path = &arguments.report;
    let text =
        std::fs::read_to_string(path).map_err(|cause| Failure::File { path: path.clone(), done: "read", cause })?;
    let profile: Profile =
        serde_json::from_str(&text).map_err(|error| of_file(path, &format!("no report of memtint sim: {error}")))?;
    let prediction = predict(arguments, &profile).map_err(|sentence| of_file(path, &sentence))?;
    match format {
        Format::Json => print_json(&prediction)?,
        Format::Text => print(&text_of(&prediction))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn of_file(path: &Path, sentence: &str) -> Failure {
    Failure::Sentence(format!("{}: {sentence}", path.display()))
}

fn predict(arguments: &PredictArguments, profile: &Profile) -> Result<Prediction, String> {
    let bandwidth = profile
        .bandwidth
        .as_ref()
        .ok_or("bandwidth is missing; accepted is a report of a system file with [bandwidth]")?;
    let [counter] = &bandwidth.counters[..] else {
        return Err(format!("bandwidth has {} counters; accepted is one", bandwidth.counters.len()));
    };
    if bandwidth.history.is_empty() {
        return Err(
            "bandwidth.history is missing; accepted is a report of a system file with history = true in [simulation.bandwidth]"
                .to_owned(),
        );
    }
    let subject = subject(arguments, bandwidth)?;
    let periods: Vec<&Period> = bandwidth.history.iter().filter(|period| period.subject == subject).collect();
    if let Some(period) = periods.iter().find(|period| period.throttled) {
        return Err(format!(
            "{subject} was throttled in the period from {} ns on; accepted is a profile with a budget that is never used up",
            period.began_ns
        ));
    }
    let stretches = stretches(&periods, profile.simulated_ns)?;
    let budget = u128::from(arguments.mb_per_s) * 1_000_000 * u128::from(arguments.period.0)
        / (u128::from(counter.event_bytes.max(1)) * 1_000_000_000_000);
    let budget = u64::try_from(budget).unwrap_or(u64::MAX);
    let regulator = Regulator::new(arguments.period, budget, Picoseconds(0))
        .and_then(|own| own.counting(arguments.quantum, 0)?.overhead(arguments.overhead))
        .map_err(|error| error.to_string())?;
    let predicted = predicted_run_time(&stretches, &regulator)
        .ok_or("interrupts that take a whole period leave no time; accepted is a shorter --overhead")?;
    Ok(Prediction {
        schema: 1,
        report: "guard-predict",
        counts: counter.counts.clone(),
        stretches: stretches.len(),
        events: stretches.iter().map(|stretch| stretch.lines).sum(),
        alone_ns: profile.simulated_ns,
        period_ns: arguments.period.as_ns(),
        budget,
        predicted_ns: predicted.as_ns(),
        slowdown: predicted.as_ns() / profile.simulated_ns,
        subject,
    })
}

fn subject(arguments: &PredictArguments, bandwidth: &Bandwidth) -> Result<String, String> {
    let names: Vec<&str> = bandwidth.regulators.iter().map(|regulator| regulator.subject.as_str()).collect();
    match (&arguments.subject, &names[..]) {
        (None, [only]) => Ok((*only).to_owned()),
        (Some(name), _) if names.contains(&name.as_str()) => Ok(name.clone()),
        (found, _) => {
            let found = found.as_ref().map_or("missing".to_owned(), |name| format!("{name:?}"));
            Err(format!("--subject is {found}; accepted is one of {names:?}"))
        }
    }
}

/// The times between the beginnings of periods, and to the end of the run.
fn stretches(periods: &[&Period], end_ns: f64) -> Result<Vec<Stretch>, String> {
    let ends = periods.iter().skip(1).map(|period| period.began_ns).chain([end_ns]);
    let stretch = |(period, end): (&&Period, f64)| {
        let ps = (end - period.began_ns) * 1000.0;
        // Less than a day; a number that is none fails, too.
        if !(0.0..1e17).contains(&ps) {
            return Err(format!(
                "bandwidth.history: a period from {} to {end} ns; accepted are ascending times",
                period.began_ns
            ));
        }
        Ok(Stretch { time: Picoseconds(ps.round() as u64), lines: period.events })
    };
    periods.iter().zip(ends).map(stretch).collect()
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
