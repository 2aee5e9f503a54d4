//! `memtint analyze`: whether a task set meets its deadlines, by which theorem, and with which numbers.
//!
//! `memtint-analysis` answers; here are the arguments, what is refused before, and the words.

mod gantt;
mod span;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use memtint_analysis::{
    AnalysisReport, Answer, Question, Report, Scheduler as Analyzed, TaskSystem, WITNESS_JOBS_MAX, one_core,
};
use memtint_planner::answer;
use memtint_sched::{AnalysisLimits, Form, Refresh};
use memtint_system::{Reading, Verb, used};

pub(crate) use self::span::SpanArguments;
use crate::output::{CANNOT_SAY, Ending, Failure, Format, JsonForm, print, print_json, warn, write_file};
use crate::progress::Progress;

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<memtint_analysis::AnalysisReport>("analyze")];

/// Arguments of `memtint analyze`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 every deadline is met, 1 a deadline can be missed, 2 failure, 3 the analysis cannot say.\n\
    \n\
    Of a system file (memtint system schema lists all fields), [[task]] tables need name, period and wcet; deadline, phase, jitter, blocking, \
    priority (1 is the highest; for fp) and lines (cache lines that a job moves) are optional. Times carry a unit: \"20 ms\", \"7.8 us\". \
    Phases that differ count where the tasks fail with any phases: arrivals are periodic then. [refresh], [regulator], and one of \
    [banks], [shared_banks] and [parallel_banks] delay the core beside its tasks. With --core, requests of other cores are those of their \
    tasks (period, wcet, lines) where [banks] or [shared_banks] list no core; a yes then holds if the analysis of every core gives yes.\n\
    \n\
    cyclic, colored-refresh and crs take [memory]. The other schedulers derive [refresh] from [memory] where the file has no \
    [refresh]: mode auto, all ranks together. The analysis searches for frames that [cyclic] does not give, the longest first, and for two \
    servers where the file has none, as memtint refresh plan --scheme crs does. The printed form is for comparison only and gives no answer.\n\
    \n\
    Example: memtint analyze flight.toml --scheduler edf --svg schedule.svg --from 20ms --to 40ms"
)]
pub(crate) struct AnalyzeArguments {
    /// System file (memtint system check shows what is used of it).
    #[arg(value_name = "SYSTEM")]
    system: PathBuf,
    /// Scheduling policy [default: rm, as of memtint refresh simulate].
    #[arg(long, value_enum, default_value_t = Scheduler::Rm, hide_default_value = true)]
    scheduler: Scheduler,
    /// Core to analyze, where the file's tasks have several.
    #[arg(long, value_name = "CPU")]
    core: Option<u32>,
    /// Leave out a delay that could make a yes a no; the report states so.
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    ignore: Vec<Ignorable>,
    /// Do not preempt jobs that have begun.
    #[arg(long)]
    nonpreemptive: bool,
    /// File for a picture of the witness, a schedule.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    span: SpanArguments,
    /// Include every run of the witness in the JSON report.
    #[arg(long)]
    witness: bool,
    /// Maximum number of jobs (servers: events) in the printed witness. A longer schedule is cut, which the report states; the
    /// verdict does not depend on it.
    #[arg(long, value_name = "N", default_value_t = WITNESS_JOBS_MAX, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,
    /// Maximum effort of one verdict: evaluations of a demand function [default: 10 million], events of a schedule that decides
    /// [200 thousand], nodes of a search for colors [100 thousand]. The defaults are those of refresh and reproduce.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Formulas corrected, or as printed in the dissertation, which answers nothing: for comparison.
    #[arg(long, value_enum, default_value_t = FormChoice::Corrected)]
    form: FormChoice,
}

/// What can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Ignorable {
    /// Tasks of other cores: WCETs include the delay by their requests.
    OtherCores,
}

/// Which form of published formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FormChoice {
    /// With published errors corrected.
    Corrected,
    /// As printed, errors included; for colored-refresh and crs.
    AsPrinted,
}

/// The scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scheduler {
    /// Rate monotonic: the shorter period.
    Rm,
    /// Deadline monotonic: the shorter relative deadline.
    Dm,
    /// Fixed priorities as given, 1 is the highest.
    Fp,
    /// The earliest deadline.
    Edf,
    /// A cyclic executive: a table of frames; refresh by the controller as longer jobs.
    Cyclic,
    /// A cyclic executive around the refresh of colors (a table memory is needed).
    ColoredRefresh,
    /// Colored Refresh Servers; where the file has none, memtint searches for them (a table memory is needed).
    Crs,
}

impl Scheduler {
    fn analyzed(self) -> Analyzed {
        match self {
            Scheduler::Rm => Analyzed::RateMonotonic,
            Scheduler::Dm => Analyzed::DeadlineMonotonic,
            Scheduler::Fp => Analyzed::FixedPriority,
            Scheduler::Edf => Analyzed::Edf,
            Scheduler::Cyclic => Analyzed::Cyclic,
            Scheduler::ColoredRefresh => Analyzed::ColoredRefresh,
            Scheduler::Crs => Analyzed::Crs,
        }
    }
}

pub(crate) fn main(arguments: &AnalyzeArguments, format: Format) -> Ending {
    let Reading { file, mut not_considered } = Reading::new(&arguments.system, Verb::Analyze)?;
    let name = format!("{:?}", arguments.system);
    let given = used(&file, Verb::Analyze);
    let mut of_others = None;
    let file = match arguments.scheduler {
        // Servers have cores.
        Scheduler::Crs => file,
        _ => {
            let ignored = arguments.ignore.contains(&Ignorable::OtherCores);
            let own = one_core(&file, &name, arguments.core, ignored)?;
            not_considered.extend(own.not_considered);
            of_others = own.assumption;
            own.file
        }
    };
    let file = TaskSystem::of(&file, &name)?;
    let scheduler = arguments.scheduler.analyzed();
    let derived = derived_refresh(&file, scheduler)?;
    fitting(arguments)?;
    arguments.span.check()?;
    let searching = Progress::of_search();
    let mut report = answer(&Question {
        given: &given,
        nonpreemptive: arguments.nonpreemptive,
        form: match arguments.form {
            FormChoice::Corrected => Form::Corrected,
            FormChoice::AsPrinted => Form::AsPrinted,
        },
        limits: AnalysisLimits::of_steps(arguments.steps),
        witness_jobs_max: arguments.jobs,
        derived,
        at: &|what| searching.step(what),
        ..Question::new(&file, scheduler)
    })?;
    drop(searching);
    not_considered.append(&mut report.not_considered);
    report.not_considered = not_considered;
    report.assumptions.extend(of_others);
    match format {
        Format::Json => print_json(&json_of(&report, arguments.witness))?,
        Format::Text => print(&text::text(&report))?,
    }
    // The answer stands where a picture cannot be drawn.
    if let Some(path) = &arguments.svg {
        match &report.witness {
            Ok(witness) => write_file(path, &gantt::picture(&report, witness, arguments.span)?.svg())?,
            Err(reason) => warn(&format!("{path:?} is not written: there is no witness: {reason}")),
        }
    }
    ending(&report)
}

/// The report, with the runs of its witness only where they are asked for.
fn json_of(report: &Report, witness: bool) -> AnalysisReport {
    let json = AnalysisReport::from(report);
    if witness { json } else { json.without_runs() }
}

/// An answer about a plan, in all its forms.
pub(crate) struct Judged {
    pub(crate) yes: bool,
    pub(crate) json: AnalysisReport,
    pub(crate) text: String,
    /// The witness, drawn; a failure where the span is not of the schedule.
    pub(crate) svg: Result<Option<String>, Failure>,
}

/// Judges a file with a plan in it, as `memtint analyze` would; the witness is drawn for a span.
pub(crate) fn judge_plan(
    file: &TaskSystem,
    scheduler: Analyzed,
    limits: AnalysisLimits,
    span: SpanArguments,
    witness: bool,
) -> Result<Judged, Failure> {
    let searching = Progress::of_search();
    let at = |what| searching.step(what);
    let report = memtint_analysis::answer(&Question { limits, at: &at, ..Question::new(file, scheduler) })?;
    drop(searching);
    let svg = match &report.witness {
        Ok(witness) => gantt::picture(&report, witness, span).map(|picture| Some(picture.svg())),
        Err(_) => Ok(None),
    };
    let yes = matches!(report.answer, Answer::Yes);
    Ok(Judged { yes, json: json_of(&report, witness), text: text::text(&report), svg })
}

/// Gives the refresh of the memory of a file without `[refresh]`, for schedulers under which the controller refreshes.
///
/// An answer without refresh would say yes for sets that miss deadlines on the memory that the file describes.
fn derived_refresh(file: &TaskSystem, scheduler: Analyzed) -> Result<Option<Refresh>, Failure> {
    let memory = file.memory.filter(|_| !scheduler.refreshes() && file.refresh.is_none());
    Ok(memory.map(|memory| memtint_refresh::refresh_of(&file.name, &memory)).transpose()?)
}

/// Refuses options that mean nothing for a scheduler.
fn fitting(arguments: &AnalyzeArguments) -> Result<(), Failure> {
    if arguments.core.is_some() && arguments.scheduler == Scheduler::Crs {
        let message = "--core: is for one core; --scheduler crs analyzes all cores of the file's servers";
        return Err(Failure::Sentence(message.to_owned()));
    }
    let policy = arguments.scheduler.analyzed().is_policy();
    if arguments.nonpreemptive && !policy {
        let message =
            "--nonpreemptive: is for --scheduler rm, dm, fp or edf; a table and servers preempt where they say";
        return Err(Failure::Sentence(message.to_owned()));
    }
    if arguments.form == FormChoice::AsPrinted && (policy || arguments.scheduler == Scheduler::Cyclic) {
        let message = "--form as-printed: is for --scheduler colored-refresh or crs; of the others there is one form";
        return Err(Failure::Sentence(message.to_owned()));
    }
    Ok(())
}

fn ending(report: &Report) -> Ending {
    match &report.answer {
        Answer::Yes => Ok(ExitCode::SUCCESS),
        Answer::No(_) => Ok(ExitCode::from(1)),
        Answer::Unsupported(reason) => {
            warn(&format!("unsupported: {reason}"));
            Ok(ExitCode::from(CANNOT_SAY))
        }
    }
}
