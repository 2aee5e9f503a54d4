//! `memtint refresh plan`: the best plan for a file that names tasks and memory.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use memtint_analysis::{Color, Inside, Memory, ServerSpec, TaskSystem};
use memtint_hiding::crs::{
    Admission, Choice, Inner, Kind, PartitionLimits, Partitioned, RankGroup, Refresh, Space, judge, optimize, partition,
};
use memtint_hiding::cyclic::{Answer, Frames, Solution};
use memtint_refresh::BEYOND_STANDARD;
use memtint_sched::{AnalysisLimits, Density, Effort, Unsupported};
use memtint_system::{SystemError, Verb};
use memtint_units::Picoseconds;
use serde_json::{Value, json};

use super::copies;
use crate::Ending;
use crate::analyze::cyclic::{limits, try_frames, unanswered};
use crate::analyze::outcome::Number;
use crate::analyze::{Planned, judge_plan};
use crate::output::{Failure, Format, print, print_json, time, write_file};
use crate::searching::Searching;
use crate::system::{Reading, first_line};

/// Arguments of `memtint refresh plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 there is a plan, 1 there is none, 2 failure, or the search cannot say.\n\
    \n\
    A file holds [[task]] tables and [memory] (ranks, density or t_rfc; retention, bursts, lock, unlock). colored-refresh takes \
    [cyclic] too: a frame there, or sharing, slicing, slice_cost, copies_max, is a wish that is kept; of all frames the one with \
    the fewest copy tasks, then the fewest slices, then the longest wins. crs places tasks in two servers on a core, one for \
    each of two colors ([[color]], or the ranks in halves); of all servers of a space (--unit, --period-max) whose supply \
    is enough whatever the phases of refresh, those that leave the least refresh unhidden win; with --admit proof, and on one \
    core, of all that memtint analyze proves, unless that search ends at its limit. The plan says which. A task with copy_server, or a \
    deadline that is not beyond the lock of either color, gets an instance in both (a copy task).\n\
    \n\
    What is written with --out, memtint analyze judges again, from the start.\n\
    \n\
    Example: memtint refresh plan tasks.toml --scheme colored-refresh --density 16 --out planned.toml --svg schedule.svg")]
pub(crate) struct PlanArguments {
    /// System file with the tasks and a table memory.
    #[arg(value_name = "SYSTEM")]
    system: PathBuf,
    /// How memory is to be refreshed.
    #[arg(long, value_enum)]
    scheme: Scheme,
    /// Gigabits of a chip, in place of what the file says: 1, 2, 4, 8, 16, 32 or 64.
    #[arg(long, value_name = "N", value_parser = density)]
    density: Option<Density>,
    /// File for the system with the plan in it, which memtint analyze takes.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// File for a picture of the schedule.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
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

/// A plan: the file with it, and why it is the best.
pub(crate) struct Plan {
    pub(crate) file: TaskSystem,
    pub(crate) numbers: Vec<Number>,
}

/// A plan; none, and why; or no answer.
enum Outcome {
    Found(Box<Plan>),
    None(String),
    Open(String),
}

pub(super) fn main(arguments: &PlanArguments, format: Format) -> Ending {
    let Reading { file, not_considered } = Reading::new(&arguments.system, Verb::RefreshPlan)?;
    let mut file = TaskSystem::of(&file, &format!("{:?}", arguments.system))?;
    file.memory_given().map_err(sentence)?;
    if let (Some(density), Some(memory)) = (arguments.density, file.memory) {
        file.memory = Some(Memory { density: Some(density), t_rfc: density.t_rfc(), ..memory });
    }
    let limits_of_all = AnalysisLimits::of_steps(arguments.steps);
    let (outcome, planned) = match arguments.scheme {
        Scheme::ColoredRefresh => (best_frames(&file, limits_of_all.nodes_max)?, Planned::ColoredRefresh),
        Scheme::Crs => {
            let inner = match arguments.inside {
                Within::Edf => Inner::Edf,
                Within::Rm => Inner::RateMonotonic,
            };
            let grid = arguments.unit.zip(arguments.period_max);
            let admission = match arguments.admit {
                Admit::Proof => Admission::Proof { events_max: limits_of_all.candidate_events_max },
                Admit::Supply => Admission::Supply,
            };
            let wanted = Servers { grid, inner, cores: arguments.cores as usize, admission };
            file.servers.clear();
            file.tasks.iter_mut().for_each(|task| task.server = None);
            let found = match find_servers(&file, &wanted, limits_of_all)? {
                Ok(plan) => Outcome::Found(Box::new(plan)),
                Err(why) => Outcome::Open(why),
            };
            (found, Planned::Crs)
        }
    };
    match outcome {
        Outcome::Found(plan) => tell(arguments, &plan, planned, &not_considered, format),
        Outcome::None(why) => {
            match format {
                Format::Json => {
                    print_json(
                        &json!({"schema": SCHEMA, "report": "refresh plan", "not_considered": not_considered, "plan": null, "because": why}),
                    )?;
                }
                Format::Text => print(&format!("{}no plan: {why}\n", first_line(&not_considered)))?,
            }
            Ok(ExitCode::from(1))
        }
        Outcome::Open(why) => Err(Failure::Sentence(format!("no plan was found: {why}"))),
    }
}

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

fn sentence(error: SystemError) -> Failure {
    Failure::Sentence(error.to_string())
}

fn tell(arguments: &PlanArguments, plan: &Plan, planned: Planned, not_considered: &[String], format: Format) -> Ending {
    let judged = judge_plan(&plan.file, planned, arguments.steps)?;
    if !judged.yes {
        return Err(Failure::Sentence(format!(
            "a defect of memtint: the analysis does not accept the plan: {}",
            judged.text
        )));
    }
    if let Some(path) = &arguments.out {
        let mut text = format!("# Written by memtint refresh plan from {}.\n", plan.file.name);
        for (name, _, why) in &plan.numbers {
            let _ = writeln!(text, "# {}: {why}", name.replace('_', " "));
        }
        write_file(path, &format!("{text}\n{}", plan.file.to_string().trim_start()))?;
    }
    if let (Some(path), Some(svg)) = (&arguments.svg, &judged.svg) {
        write_file(path, svg)?;
    }
    match format {
        Format::Json => {
            let why: serde_json::Map<String, Value> =
                plan.numbers.iter().map(|(name, value, _)| ((*name).to_owned(), value.clone())).collect();
            let (toml, report) = (plan.file.to_string(), "refresh plan");
            print_json(&json!({
                "schema": SCHEMA, "report": report, "not_considered": not_considered, "plan": toml, "why": why, "beyond_standard": BEYOND_STANDARD,
                "analysis": judged.json
            }))?;
        }
        Format::Text => {
            let mut text = first_line(not_considered);
            for (name, _, why) in &plan.numbers {
                let _ = writeln!(text, "{}: {why}", name.replace('_', " "));
            }
            let _ = writeln!(text, "standard: not kept: {BEYOND_STANDARD}");
            print(&format!("{text}\n{}", judged.text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How good a table is: fewest copies, then slices, then the longest frame, then the most colors.
fn badness(frames: Frames, solution: &Solution) -> (u32, u64, Reverse<u64>, u64) {
    let executive = &solution.executive;
    (executive.copies(), executive.extra_slices(), Reverse(frames.size.0), frames.color.0)
}

fn best_frames(file: &TaskSystem, nodes_max: u64) -> Result<Outcome, Failure> {
    let choices = file.frame_choices().map_err(sentence)?;
    let (mut tried, searching) = (Vec::new(), Searching::new());
    for (index, &frames) in choices.iter().enumerate() {
        let (size, color) = (time(frames.size), time(frames.color));
        searching.at(format!("frames of {size} colored by {color}, {} of {}", index + 1, choices.len()));
        tried.extend(try_frames(&[frames], |frames| file.problem(frames).map_err(sentence), limits(file, nodes_max))?);
    }
    drop(searching);
    let mut best: Option<(Frames, &Solution)> = None;
    let (mut open, mut least, mut said) = (0, true, Vec::new());
    for one in &tried {
        let name = match one.frames.size == one.frames.color {
            true => time(one.frames.size),
            false => format!("{} colored by {}", time(one.frames.size), time(one.frames.color)),
        };
        said.push(match &one.found {
            Answer::Schedulable(solution) => {
                let executive = &solution.executive;
                let (copies, slices) = (executive.copies(), executive.extra_slices());
                least &= copies == solution.copies_least && slices == solution.extra_slices_least;
                if best.is_none_or(|(frames, other)| badness(one.frames, solution) < badness(frames, other)) {
                    best = Some((one.frames, solution));
                }
                format!("{name}: {copies} copies, {slices} extra slices")
            }
            Answer::Unschedulable(_) => format!("{name}: refuted"),
            Answer::Unsupported(why) => {
                open += 1;
                format!("{name}: {}", unanswered(&file.set, why))
            }
        });
    }
    let said = said.join("; ");
    let Some((frames, solution)) = best else {
        return Ok(match (choices.len(), open) {
            (0, _) => Outcome::Open("no frame is accepted by the rules; memtint analyze says why".to_owned()),
            (_, 0) => Outcome::None(format!("with none of these frames all jobs fit: {said}")),
            _ => Outcome::Open(said),
        });
    };
    let mut file = file.clone();
    file.cyclic.frame = Some(frames.size);
    file.cyclic.color_frame = Some(frames.color).filter(|&color| color != frames.size);
    file.cyclic.copies_max = Some(solution.executive.copies());
    let colors = solution.executive.instances.iter().enumerate().map(|(task, own)| {
        let texts: Vec<String> = own.iter().map(|one| one.colors.to_string()).collect();
        format!("{} {}", file.set.tasks()[task].name(), texts.join(" and "))
    });
    let colors = colors.collect::<Vec<_>>().join(", ");
    let proved = least && open == 0;
    let why = match proved {
        true => {
            "no frame that was tried has fewer copy tasks, or as few and fewer slices: proved by exhaustive search with bounds"
        }
        false => "the best that was found; a search ended at its limit, so there may be a better one",
    };
    let numbers = vec![
        (
            "plan",
            json!("colored-refresh"),
            format!("frames of {}, colored by {}", time(frames.size), time(frames.color)),
        ),
        ("task_colors", json!(colors), format!("{colors} (from 0)")),
        ("proved_best", json!(proved), why.to_owned()),
        ("frames_tried", json!(said), said.clone()),
    ];
    Ok(Outcome::Found(Box::new(Plan { file, numbers })))
}

/// What is wanted of servers.
#[derive(Clone, Copy)]
pub(crate) struct Servers {
    /// Unit of periods and budgets, and the longest period; parts of the retention time when absent.
    pub(crate) grid: Option<(Picoseconds, Picoseconds)>,
    pub(crate) inner: Inner,
    /// The most cores.
    pub(crate) cores: usize,
    /// When a choice on one core counts.
    pub(crate) admission: Admission,
}

impl Default for Servers {
    fn default() -> Servers {
        Servers { grid: None, inner: Inner::Edf, cores: 1, admission: Admission::Supply }
    }
}

/// Units that are tried, as parts of the retention time, and how many of them the longest period is: 4 ms by 100 us, 1 ms by 20 us
/// and 400 us by 10 us where it is 64 ms.
const GRIDS: [(u64, u64); 3] = [(640, 40), (3200, 50), (6400, 40)];
/// Parts of the retention time that are tried as distance of the two refreshes.
const DISTANCES: u64 = 16;

/// Finds two servers on one core for the tasks of a file, and refresh phases, that leave the least refresh unhidden; the inner
/// result is why none was found.
pub(crate) fn find_servers(
    file: &TaskSystem,
    wanted: &Servers,
    limits: AnalysisLimits,
) -> Result<Result<Plan, String>, Failure> {
    let effort = limits.effort;
    let memory = *file.memory_given().map_err(sentence)?;
    let colors = two_colors(file, &memory)?;
    for (index, task) in file.tasks.iter().enumerate() {
        let most = colors.iter().map(|color| color.ranks.len()).min().unwrap_or(0);
        if task.ranks as usize > most {
            let name = file.set.tasks()[index].name();
            return Ok(Err(format!("task {name:?} needs {} ranks, and a color has {most}", task.ranks)));
        }
    }
    let group = |color: &Color| RankGroup {
        ranks: color.ranks.clone(),
        phase: color.phase,
        burst: memory.burst(color.ranks.len() as u32),
    };
    let refresh = Refresh {
        retention: memory.retention,
        lock: memory.lock,
        unlock: memory.unlock,
        groups: colors.iter().map(group).collect(),
    };
    let copied = copies::copied(file, &refresh);
    let copies = copied.contains(&true);
    let mut phases = phases(&refresh, [colors[0].phase, colors[1].phase]);
    if phases.is_empty() {
        let (one, two) = (time(refresh.locked(0)), time(refresh.locked(1)));
        return Ok(Err(format!("colors locked for {one} and {two} do not both fit into {}", time(memory.retention))));
    }
    let part = |&(parts, steps): &(u64, u64)| {
        // Of less than a picosecond the space is refused.
        let unit = (memory.retention.0 / parts).max(1);
        // Copied tasks are short, and so are the periods of servers that hold them.
        let twice = file.set.tasks().iter().zip(&copied).filter(|&(_, &copied)| copied);
        let steps = twice.map(|(task, _)| (task.deadline().0 / unit).max(1)).fold(steps, u64::min);
        (Picoseconds(unit), Picoseconds(unit * steps))
    };
    let grids = wanted.grid.map_or_else(|| GRIDS.iter().map(part).collect(), |grid| vec![grid]);
    if copies {
        let mut tasks = file.set.tasks().iter().zip(&copied);
        if let Some((late, _)) = tasks.find(|&(task, &copied)| copied && task.deadline() > task.period()) {
            return Ok(Err(format!("task {:?} needs a deadline within its period, to be a copy task", late.name())));
        }
        let twice = file.set.tasks().iter().zip(&copied).filter(|&(_, &copied)| copied);
        let needed = twice.map(|(task, _)| task.period() + task.deadline()).max().unwrap_or_default();
        phases.retain(|&[one, two]| {
            let mut phased = refresh.clone();
            (phased.groups[0].phase, phased.groups[1].phase) = (one, two);
            phased.apart_for_copies([0, 1]) >= needed
        });
        if phases.is_empty() {
            let needed = time(needed);
            return Ok(Err(format!(
                "copy tasks need {needed} between the locks of both colors, which no phases leave"
            )));
        }
    }
    // All cores share the phases, and each pair is a search of its own; with copy tasks each assignment is one too.
    if wanted.cores > 1 || copies {
        phases.truncate(1);
    }
    // A copied task has both its servers on one core.
    let wanted = &Servers { cores: if copies { 1 } else { wanted.cores }, ..*wanted };
    let inner = if copies { Inner::Edf } else { wanted.inner };
    let (mut searched, searching) = (Vec::new(), Searching::new());
    for (unit, longest) in grids {
        let space = Space::new(memory.ranks, refresh.clone(), phases.clone(), unit, longest, Kind::Deferrable, inner);
        let space = space.map_err(|error| Failure::Sentence(format!("{}: {error}", file.name)))?;
        searched.push(format!("multiples of {} up to {}", time(unit), time(longest)));
        searching.at(format!("periods and budgets in {}", searched.join(", then ")));
        let plan_of = |best: &Best| servers_of(file, colors.clone(), best, wanted, &searched, phases.len());
        let passes = |best: &Best| {
            let system = plan_of(best).file.system();
            let verdict = system.map(|system| judge(&system, effort, limits.candidate_events_max));
            verdict.is_ok_and(|verdict| verdict.is_ok_and(|verdict| verdict.is_schedulable()))
        };
        let found = match copies {
            true => copies::best(file, &copied, &space, effort, &passes),
            false => best_of(file, &space, wanted, effort),
        };
        match found {
            Ok(Some(best)) => return Ok(Ok(plan_of(&best))),
            Ok(None) => {}
            Err(Unsupported::Precondition { needs, .. }) => return Ok(Err(format!("the search needs {needs}"))),
            Err(why) => return Ok(Err(format!("the search for servers ended at its limit, see --steps: {why:?}"))),
        }
    }
    let cores = if wanted.cores == 1 { "one core".to_owned() } else { format!("each of up to {} cores", wanted.cores) };
    Ok(Err(format!(
        "no two servers on {cores}, with periods and budgets in {}, have been found that are proved to hold all tasks; there may be \
         others",
        searched.join(", then ")
    )))
}

/// Servers that were found: for each core its tasks and their servers.
pub(super) struct Best {
    pub(super) cores: Vec<(Vec<usize>, Choice)>,
    /// Tasks with an instance in each of the two servers of the first core.
    pub(super) copied: Vec<usize>,
    /// What is lost, in parts of the time of one core.
    pub(super) unhidden: String,
    pub(super) proved: bool,
    /// Of which choices it is the best.
    pub(super) admission: Admission,
    /// How it was proved, or what is known.
    pub(super) why: String,
}

fn best_of(file: &TaskSystem, space: &Space, wanted: &Servers, effort: Effort) -> Result<Option<Best>, Unsupported> {
    let cores = wanted.cores;
    if cores == 1 {
        let (found, admission) = match optimize(&file.set, None, space, wanted.admission, effort) {
            Err(Unsupported::Effort { .. }) if wanted.admission != Admission::Supply => {
                (optimize(&file.set, None, space, Admission::Supply, effort)?, Admission::Supply)
            }
            found => (found?, wanted.admission),
        };
        let all = (0..file.tasks.len()).collect();
        return Ok(found.map(|best| Best {
            unhidden: best.unhidden.to_string(),
            proved: true,
            admission,
            why: format!("proved by branch and bound; {} choices were computed in full or in part", best.costed),
            cores: vec![(all, best.choice)],
            copied: Vec::new(),
        }));
    }
    let limits = PartitionLimits { cores_max: cores, nodes_max: 100_000, optimized_max: 200 };
    let Partitioned::Found(best) = partition(&file.set, space, limits, effort)? else { return Ok(None) };
    let why = match best.is_optimal() {
        true => "and no fewer cores will do: proved by branch and bound over cores".to_owned(),
        false => format!(
            "as far as was searched; proved is that fewer than {} cores, and less than {}, are out of reach",
            best.cores_min, best.unhidden_min
        ),
    };
    Ok(Some(Best {
        copied: Vec::new(),
        unhidden: best.unhidden.to_string(),
        proved: best.is_optimal(),
        admission: Admission::Supply,
        why,
        cores: best.cores.into_iter().map(|share| (share.tasks, share.choice)).collect(),
    }))
}

/// The colors of the file, or the ranks in halves.
fn two_colors(file: &TaskSystem, memory: &Memory) -> Result<Vec<Color>, Failure> {
    let refuse = |found: usize| {
        let message =
            format!("{}: tables [[color]] are {found}; accepted for a search of servers are 2, or none", file.name);
        Failure::Sentence(message)
    };
    match file.colors.len() {
        2 => Ok(file.colors.clone()),
        0 if memory.ranks >= 2 => {
            let half = memory.ranks / 2;
            let color = |name: &str, ranks: std::ops::Range<u32>, phase| Color {
                name: name.to_owned(),
                ranks: ranks.collect(),
                phase,
            };
            Ok(vec![
                color("c1", 0..half, Picoseconds(memory.retention.0 / 2)),
                color("c2", half..memory.ranks, Picoseconds(0)),
            ])
        }
        0 => Err(Failure::Sentence(format!(
            "{}: memory: ranks is {}; accepted for two colors is 2 or more",
            file.name, memory.ranks
        ))),
        found => Err(refuse(found)),
    }
}

/// Pairs of phases at which locked windows do not meet, those of the file first.
fn phases(refresh: &Refresh, given: [Picoseconds; 2]) -> Vec<[Picoseconds; 2]> {
    let retention = refresh.retention.0;
    let locked = [refresh.locked(0).0, refresh.locked(1).0];
    let apart = |pair: &[Picoseconds; 2]| {
        let order = if pair[0] < pair[1] { [0, 1] } else { [1, 0] };
        let [early, late] = order.map(|group| (pair[group].0, locked[group]));
        early.0 + early.1 <= late.0 && late.0 + late.1 <= retention
    };
    let distance = |part: u64| Picoseconds(retention / DISTANCES * part);
    let ways = (1..DISTANCES).flat_map(|part| [[distance(part), Picoseconds(0)], [Picoseconds(0), distance(part)]]);
    let mut all = vec![given];
    all.extend(ways.filter(|pair| *pair != given));
    all.retain(apart);
    all
}

fn servers_of(
    file: &TaskSystem,
    mut colors: Vec<Color>,
    best: &Best,
    wanted: &Servers,
    searched: &[String],
    phases: usize,
) -> Plan {
    let mut file = file.clone();
    let chosen = best.cores.first().map(|(_, choice)| choice.phases);
    for (color, phase) in colors.iter_mut().zip(chosen.into_iter().flatten()) {
        color.phase = phase;
    }
    let inside = match wanted.inner {
        Inner::Edf => Inside::Edf,
        Inner::RateMonotonic => Inside::RateMonotonic,
    };
    file.colors = colors;
    file.servers.clear();
    for (core, (tasks, choice)) in best.cores.iter().enumerate() {
        let before = file.servers.len();
        file.servers.extend((0..2).map(|index| ServerSpec {
            name: format!("S{}", before + index + 1),
            color: index,
            core: core as u32,
            period: choice.periods[index],
            budget: choice.budgets[index],
            kind: Kind::Deferrable,
            inside,
        }));
        for (&task, &second) in tasks.iter().zip(&choice.second) {
            file.tasks[task].server = Some(before + usize::from(second));
        }
    }
    for &task in &best.copied {
        (file.tasks[task].server, file.tasks[task].copy_server) = (Some(0), Some(1));
    }
    let last = searched.last().cloned().unwrap_or_default();
    let before = match searched.len() {
        0 | 1 => String::new(),
        count => format!("; nothing in {}", searched[..count - 1].join(", then ")),
    };
    let cores = if wanted.cores == 1 { "one core".to_owned() } else { format!("each of up to {} cores", wanted.cores) };
    let pairs = if phases == 1 { "one pair".to_owned() } else { format!("{phases} pairs") };
    let space = format!(
        "two deferrable servers on {cores}, periods and budgets in {last}, {pairs} of refresh phases, every assignment of tasks{before}"
    );
    let why = format!(
        "no choice in that space that is so admitted leaves less than {} of the time to refresh that is not hidden, with servers that \
         always have something to do, {}",
        best.unhidden, best.why
    );
    let (admission, admitted) = match best.admission {
        Admission::Supply => {
            ("supply", "what each server surely supplies, whatever the phases of refresh, holds its tasks".to_owned())
        }
        Admission::Proof { events_max } => {
            let known = format!("by the known times of servers and refreshes, of up to {events_max} events");
            ("proof", format!("memtint analyze proves each server, whatever the phases of refresh or {known}"))
        }
    };
    let mut numbers = vec![
        ("space", json!(space), space.clone()),
        ("admitted_if", json!(admission), admitted),
        ("unhidden_part", json!(best.unhidden), best.unhidden.clone()),
        ("proved_best", json!(best.proved), why),
    ];
    if !best.copied.is_empty() {
        let names: Vec<&str> = best.copied.iter().map(|&task| file.set.tasks()[task].name()).collect();
        numbers.push(("copied_tasks", json!(names), format!("{}, in both servers", names.join(", "))));
    }
    Plan { file, numbers }
}
