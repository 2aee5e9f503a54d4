//! `memtint refresh plan`: the best plan for a file that names tasks and memory.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use memtint_analysis::{Line, MemorySpec, Scheduler, TaskSystem};
use memtint_hiding::BEYOND_STANDARD;
use memtint_hiding::crs::{Admission, Inner};
use memtint_planner::{FramePlan, FrameTried, Plan, PlanReport, Wanted, best_frames, find_servers};
use memtint_sched::{AnalysisLimits, Density};
use memtint_system::{Reading, Verb};
use memtint_units::Picoseconds;

use crate::analyze::{SpanArguments, judge_plan};
use crate::output::{Ending, Failure, Format, print, print_json, write_file};
use crate::progress::Progress;
use crate::system::first_line;

/// Arguments of `memtint refresh plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 there is a plan, 1 there is none, 2 failure, 3 the search cannot say.\n\
    \n\
    A file holds [[task]] tables and [memory] (ranks, density or t_rfc; retention, bursts, lock, unlock). colored-refresh takes \
    [cyclic] too: a frame there, or sharing, slicing, slice_cost, copies_max, is a wish that is kept; of all frames the one with \
    the fewest copy tasks, then the fewest slices, then the longest wins. crs places tasks in two servers on a core, one for \
    each of two colors ([[color]], or the ranks in halves); of all servers of a space (--unit, --period-max) whose supply \
    is enough whatever the phases of refresh, those that leave the least refresh unhidden win; with --admit proof, and on one \
    core, of all that memtint analyze proves, unless that search ends at its limit. The plan says which. A task with copy_server, or a \
    deadline that is not beyond the lock of either color, gets an instance in both (a copy task).\n\
    \n\
    memtint analyze judges the output of --out again, from the start.\n\
    \n\
    Example: memtint refresh plan tasks.toml --scheme colored-refresh --density 16 --out planned.toml --svg schedule.svg")]
pub(crate) struct PlanArguments {
    /// System file with the tasks and a table memory.
    #[arg(value_name = "SYSTEM")]
    system: PathBuf,
    /// How memory is to be refreshed.
    #[arg(long, value_enum)]
    scheme: Scheme,
    /// Gigabits of a chip, in place of those of the file: 1, 2, 4, 8, 16, 32 or 64.
    #[arg(long, value_name = "N", value_parser = density)]
    density: Option<Density>,
    /// File for the system with the plan in it, which memtint analyze takes.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// File for a picture of the schedule.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    span: SpanArguments,
    /// Include every run of the witness in the JSON report.
    #[arg(long)]
    witness: bool,
    /// Maximum effort of one search [default: 10 million steps, 100 thousand nodes of a search for colors, as of memtint analyze].
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// For crs: of what periods and budgets are multiples, such as "100 us"; default: coarse to fine, the first that will do.
    #[arg(long, value_name = "TIME", requires = "period_max")]
    unit: Option<Picoseconds>,
    /// For crs: the longest server period, such as "4 ms".
    #[arg(long, value_name = "TIME", requires = "unit")]
    period_max: Option<Picoseconds>,
    /// For crs: how tasks are scheduled in their servers.
    #[arg(long, value_enum, default_value_t = Within::Edf)]
    inside: Within,
    /// For crs, on one core: which servers count.
    #[arg(long, value_enum, default_value_t = Admit::Supply)]
    admit: Admit,
    /// For crs: the most cores, on each of which two servers are made; as few as will do are used.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    cores: u32,
}

/// How memory is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scheme {
    /// A cyclic executive around the bursts of colors.
    ColoredRefresh,
    /// Colored Refresh Servers.
    Crs,
}

/// How tasks are scheduled in a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Within {
    /// The earliest deadline.
    Edf,
    /// Rate monotonic.
    Rm,
}

/// Which servers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Admit {
    /// Those that the analysis proves, with the phases of refresh: slower, most of all where there are none.
    Proof,
    /// Those whose least supply is enough, whatever these phases.
    Supply,
}

fn density(text: &str) -> Result<Density, String> {
    let found = Density::ALL.into_iter().find(|density| density.gigabits().to_string() == text);
    found.ok_or_else(|| "accepted is 1, 2, 4, 8, 16, 32 or 64".to_owned())
}

/// A plan; none, and why; or no answer.
enum Found {
    Plan(Box<Plan>),
    None(String),
    Open(String),
}

pub(super) fn main(arguments: &PlanArguments, format: Format) -> Ending {
    arguments.span.check()?;
    let Reading { file, not_considered } = Reading::new(&arguments.system, Verb::RefreshPlan)?;
    let mut file = TaskSystem::of(&file, &format!("{:?}", arguments.system))?;
    file.memory_given()?;
    if let (Some(density), Some(memory)) = (arguments.density, file.memory) {
        file.memory = Some(MemorySpec { density: Some(density), t_rfc: density.t_rfc(), ..memory });
    }
    let (found, scheduler) = match arguments.scheme {
        Scheme::ColoredRefresh => (frames(&file, arguments)?, Scheduler::ColoredRefresh),
        Scheme::Crs => (servers(file, arguments)?, Scheduler::Crs),
    };
    match found {
        Found::Plan(plan) => tell(arguments, &plan, scheduler, not_considered, format),
        Found::None(why) => {
            match format {
                Format::Json => print_json(&PlanReport::none(why, not_considered))?,
                Format::Text => print(&format!("{}no plan: {why}\n", first_line(&not_considered)))?,
            }
            Ok(ExitCode::from(1))
        }
        Found::Open(why) => Err(Failure::CannotSay(format!("no plan was found: {why}"))),
    }
}

fn frames(file: &TaskSystem, arguments: &PlanArguments) -> Result<Found, Failure> {
    let (limits, searching) = (AnalysisLimits::of_steps(arguments.steps), Progress::of_search());
    let listed = |tried: Vec<FrameTried>| tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Ok(match best_frames(file, limits.nodes_max, &|what| searching.step(what))? {
        FramePlan::Found(plan) => Found::Plan(plan),
        FramePlan::Refuted(tried) => Found::None(format!("with none of these frames all jobs fit: {}", listed(tried))),
        FramePlan::NoFrame => {
            Found::Open("no frame is accepted by the rules; memtint analyze gives the reason".to_owned())
        }
        FramePlan::Open(tried) => Found::Open(listed(tried)),
    })
}

fn servers(mut file: TaskSystem, arguments: &PlanArguments) -> Result<Found, Failure> {
    let (limits, searching) = (AnalysisLimits::of_steps(arguments.steps), Progress::of_search());
    let wanted = Wanted {
        grid: arguments.unit.zip(arguments.period_max),
        inner: match arguments.inside {
            Within::Edf => Inner::Edf,
            Within::Rm => Inner::RateMonotonic,
        },
        cores: arguments.cores as usize,
        admission: match arguments.admit {
            Admit::Proof => Admission::Proof { events_max: limits.candidate_events_max },
            Admit::Supply => Admission::Supply,
        },
    };
    file.servers.clear();
    file.tasks.iter_mut().for_each(|task| task.server = None);
    Ok(match find_servers(&file, &wanted, limits, &|what| searching.step(what))? {
        Ok(plan) => Found::Plan(Box::new(plan)),
        Err(why) => Found::Open(why.to_string()),
    })
}

fn tell(
    arguments: &PlanArguments,
    plan: &Plan,
    scheduler: Scheduler,
    not_considered: Vec<String>,
    format: Format,
) -> Ending {
    let judged = judge_plan(
        &plan.file,
        scheduler,
        AnalysisLimits::of_steps(arguments.steps),
        arguments.span,
        arguments.witness,
    )?;
    if !judged.yes {
        return Err(Failure::Sentence(format!(
            "a defect of memtint: the analysis does not accept the plan: {}",
            judged.text
        )));
    }
    if let Some(path) = &arguments.out {
        let mut text = format!("# Written by memtint refresh plan from {}.\n", plan.file.name);
        for Line { label, text: found } in &plan.lines {
            let _ = writeln!(text, "# {label}: {found}");
        }
        write_file(path, &format!("{text}\n{}", plan.file.to_string().trim_start()))?;
    }
    match format {
        Format::Json => print_json(&PlanReport::found(plan, judged.json, not_considered))?,
        Format::Text => {
            let mut text = first_line(&not_considered);
            for Line { label, text: found } in &plan.lines {
                let _ = writeln!(text, "{label}: {found}");
            }
            let _ = writeln!(text, "standard: not kept: {BEYOND_STANDARD}");
            print(&format!("{text}\n{}", judged.text))?;
        }
    }
    // The plan stands where its picture cannot be drawn.
    if let Some(path) = &arguments.svg
        && let Some(svg) = judged.svg?
    {
        write_file(path, &svg)?;
    }
    Ok(ExitCode::SUCCESS)
}
