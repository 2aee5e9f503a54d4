//! `memtint analyze`: whether a task set meets its deadlines, by which theorem, and with which numbers.
//!
//! A scheduler is a variant of [`Scheduler`] and a function that makes an [`Outcome`]; the rest prints any outcome.

mod gantt;
mod outcome;
mod priority;

use std::path::PathBuf;
use std::process::ExitCode;

use memtint_sched::Effort;
use memtint_taskset::TaskFile;

use self::outcome::{Answer, Outcome};
use crate::Ending;
use crate::output::{Failure, Format, print, print_json, read_file, write_file};

/// Arguments of `memtint analyze`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 every deadline is met, 1 a deadline can be missed, 2 failure, or the analysis cannot say.\n\
    \n\
    A file holds [[task]] tables with name, period, wcet and where needed deadline, phase, jitter, blocking, priority (1 is the\n\
    highest; for fp) and lines (cache lines that a job moves). Times carry a unit: \"20 ms\", \"7.8 us\". Phases that differ are\n\
    used where the tasks would not do with any: arrivals are then taken to be periodic. What delays the core beside its tasks\n\
    can be there too: [refresh] with mode (auto, fgr2, fgr4, burst), interval, duration, reopen, moved;\n\
    [regulator] with period, lines, line_min; [banks] with request_delay, private_banks, requests_at_once_max, and\n\
    [[banks.core]] with [[banks.core.task]] and [banks.core.regulator].\n\
    \n\
    Example: memtint analyze tasks.toml --scheduler edf --svg schedule.svg"
)]
pub(crate) struct AnalyzeArguments {
    /// File with the tasks.
    #[arg(value_name = "TASKSET")]
    tasks: PathBuf,
    /// Who goes first.
    #[arg(long, value_enum, default_value_t = Scheduler::Rm)]
    scheduler: Scheduler,
    /// Jobs that have begun are not interrupted by others.
    #[arg(long)]
    nonpreemptive: bool,
    /// File for a picture of the witness: who runs when.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The most jobs that a witness may hold; longer hyperperiods are cut, and that is said.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,
    /// The most steps that one answer may take.
    #[arg(long, value_name = "N", default_value_t = Effort::default().steps_max)]
    steps: u64,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scheduler {
    /// Rate monotonic: the shorter period.
    Rm,
    /// Deadline monotonic: the shorter relative deadline.
    Dm,
    /// Fixed priorities as given, 1 the highest.
    Fp,
    /// The earliest deadline.
    Edf,
}

/// What every scheduler's function may use.
struct Question<'a> {
    file: &'a TaskFile,
    nonpreemptive: bool,
    jobs_max: u64,
    effort: Effort,
}

pub(crate) fn main(arguments: &AnalyzeArguments, format: Format) -> Ending {
    let text = read_file(&arguments.tasks)?;
    let file = TaskFile::parse(&format!("{:?}", arguments.tasks), &text);
    let file = file.map_err(|error| Failure::Sentence(error.to_string()))?;
    let question = Question {
        file: &file,
        nonpreemptive: arguments.nonpreemptive,
        jobs_max: arguments.jobs,
        effort: Effort { steps_max: arguments.steps },
    };
    let outcome = match arguments.scheduler {
        Scheduler::Rm => priority::rate_monotonic(&question),
        Scheduler::Dm => priority::deadline_monotonic(&question),
        Scheduler::Fp => priority::given(&question)?,
        Scheduler::Edf => priority::edf(&question),
    };
    if let Some(path) = &arguments.svg {
        match &outcome.witness {
            Ok(witness) => write_file(path, &gantt::svg(witness, outcome.scheduler))?,
            Err(reason) => eprintln!("memtint: {path:?} is not written: there is no witness: {reason}"),
        }
    }
    match format {
        Format::Json => print_json(&outcome.to_json())?,
        Format::Text => print(&outcome.to_text())?,
    }
    ending(&outcome)
}

fn ending(outcome: &Outcome) -> Ending {
    match &outcome.answer {
        Answer::Yes => Ok(ExitCode::SUCCESS),
        Answer::No(_) => Ok(ExitCode::from(1)),
        Answer::Unsupported(reason) => Err(Failure::Sentence(format!("unsupported: {reason}"))),
    }
}
