//! Servers for the tasks of a file.

use memtint_analysis::output::{AdmittedIf, ServerChoice};
use memtint_analysis::{Color, Inside, Line, MemorySpec, ServerSpec, TaskSystem};
use memtint_hiding::HidingError;
use memtint_hiding::crs::{
    Admission, Choice, Inner, Kind, PartitionLimits, Partitioned, RankGroup, Refresh, Space, System, judge, optimize,
    partition, server_proofs,
};
use memtint_sched::{AnalysisLimits, Effort, TaskIndex, Unsupported};
use memtint_units::Picoseconds;

use crate::error::{NoServers, PlanError, cores_of};
use crate::{Plan, ServersWhy, Why, copies};

/// Requirements on the servers.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Unit of periods and budgets, and the longest period; parts of the retention time when absent.
    pub grid: Option<(Picoseconds, Picoseconds)>,
    /// How tasks are scheduled in their servers.
    pub inner: Inner,
    /// The most cores; each gets two servers.
    pub cores: usize,
    /// When a choice on one core counts.
    pub admission: Admission,
}

impl Default for Wanted {
    /// One core, earliest deadline first, and a supply that suffices whatever the refresh phases.
    fn default() -> Wanted {
        Wanted { grid: None, inner: Inner::Edf, cores: 1, admission: Admission::Supply }
    }
}

/// Grids that are tried, as (unit, longest period): parts of the retention time per unit, and units in the longest
/// period. For 64 ms: 4 ms by 100 us, 1 ms by 20 us and 400 us by 10 us.
const GRIDS: [(u64, u64); 3] = [(640, 40), (3200, 50), (6400, 40)];
/// Number of parts of the retention time; multiples of one part are tried as the distance between the two refreshes.
const DISTANCES: u64 = 16;

/// Finds two servers on each core for the tasks of a file, and refresh phases, that leave the least refresh unhidden.
/// The inner error is the reason why none was found. Servers in the file are ignored.
///
/// `at` receives the space being searched.
///
/// # Errors
///
/// [`PlanError`] when the file has no memory, the number of its colors is not two, or the space is refused.
pub fn find_servers(
    file: &TaskSystem,
    wanted: &Wanted,
    limits: AnalysisLimits,
    at: &dyn Fn(String),
) -> Result<Result<Plan, NoServers>, PlanError> {
    let effort = limits.effort;
    let memory = *file.memory_given()?;
    let colors = two_colors(file, &memory)?;
    for (index, task) in file.set.indices().zip(&file.tasks) {
        let most = colors.iter().map(|color| color.ranks.len()).min().unwrap_or(0);
        if task.ranks as usize > most {
            let name = file.set[index].name().to_owned();
            return Ok(Err(NoServers::Ranks { task: name, ranks: task.ranks, most }));
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
        let locked = [refresh.locked(0), refresh.locked(1)];
        return Ok(Err(NoServers::Locked { locked, retention: memory.retention }));
    }
    let part = |&(parts, steps): &(u64, u64)| {
        // The space refuses units below one picosecond.
        let unit = (memory.retention.0 / parts).max(1);
        // Copied tasks have short periods, and so do the servers that hold them.
        let twice = file.set.tasks().iter().zip(&copied).filter(|&(_, &copied)| copied);
        let steps = twice.map(|(task, _)| (task.deadline().0 / unit).max(1)).fold(steps, u64::min);
        (Picoseconds(unit), Picoseconds(unit * steps))
    };
    let grids = wanted.grid.map_or_else(|| GRIDS.iter().map(part).collect(), |grid| vec![grid]);
    if copies {
        let mut tasks = file.set.tasks().iter().zip(&copied);
        if let Some((late, _)) = tasks.find(|&(task, &copied)| copied && task.deadline() > task.period()) {
            return Ok(Err(NoServers::Deadline { task: late.name().to_owned() }));
        }
        let twice = file.set.tasks().iter().zip(&copied).filter(|&(_, &copied)| copied);
        let needed = twice.map(|(task, _)| task.period() + task.deadline()).max().unwrap_or_default();
        phases.retain(|&[one, two]| {
            let mut phased = refresh.clone();
            (phased.groups[0].phase, phased.groups[1].phase) = (one, two);
            phased.apart_for_copies([0, 1]) >= needed
        });
        if phases.is_empty() {
            return Ok(Err(NoServers::Apart { needed }));
        }
    }
    // All cores share the phases. Each pair of phases costs one more search; with copy tasks, so does each assignment.
    if wanted.cores > 1 || copies {
        phases.truncate(1);
    }
    // A copied task has both its servers on one core.
    let wanted = &Wanted { cores: if copies { 1 } else { wanted.cores }, ..*wanted };
    let inner = if copies { Inner::Edf } else { wanted.inner };
    let mut searched = Vec::new();
    for (unit, longest) in grids {
        let space = Space::new(memory.ranks, refresh.clone(), phases.clone(), unit, longest, Kind::Deferrable, inner);
        let space = space.map_err(|source| PlanError::Space { file: file.name.clone(), source })?;
        searched.push(format!("multiples of {unit} up to {longest}"));
        at(format!("periods and budgets in {}", searched.join(", then ")));
        let plan_of = |best: &Best| servers_of(file, colors.clone(), best, wanted, &searched, phases.len());
        let passes = |best: &Best| {
            let Ok(system) = plan_of(best).file.system() else { return Ok(false) };
            Ok(judge(&system, effort, limits.candidate_events_max)?.is_schedulable())
        };
        let found = match copies {
            true => copies::best(file, &copied, &space, effort, &passes).map(|found| {
                found.map(|best| {
                    let system = plan_of(&best).file.system();
                    supplied(best, system.ok().as_ref(), wanted.inner, limits)
                })
            }),
            false => best_of(file, &space, wanted, effort).map_err(End::Limit),
        };
        match found {
            Ok(Some(best)) => {
                let plan = plan_of(&best);
                // The caller analyzes the plan again in any case.
                if cfg!(debug_assertions) {
                    assert_holds(&plan, effort, limits.candidate_events_max)?;
                }
                return Ok(Ok(plan));
            }
            Ok(None) => {}
            Err(End::Limit(Unsupported::Precondition { needs, .. })) => {
                return Ok(Err(NoServers::Precondition { needs }));
            }
            Err(End::Limit(why)) => return Ok(Err(NoServers::Limit(why))),
            Err(End::Defect(error)) => return Err(error.into()),
        }
    }
    Ok(Err(NoServers::Nowhere { cores: wanted.cores, searched }))
}

/// Asserts that the plan gives each task a server and that no job is late in a timeline. The analysis may reach its
/// limits, but never rejects a plan that the search admits. A file that describes no system, because a task names
/// another core, is refused later.
fn assert_holds(plan: &Plan, effort: Effort, events_max: u64) -> Result<(), PlanError> {
    assert!(plan.file.tasks.iter().all(|task| task.server.is_some()), "a plan that leaves a task without a server");
    let Ok(system) = plan.file.system() else { return Ok(()) };
    assert!(!judge(&system, effort, events_max)?.is_unschedulable(), "a plan in which a job can be late");
    Ok(())
}

/// Determines why servers with copied tasks, accepted by the analysis, are admitted: by their supply alone, or also by
/// known times. The bound that proves them best is only valid for supplies and for earliest deadline first.
fn supplied(best: Best, system: Option<&System>, inner: Inner, limits: AnalysisLimits) -> Best {
    let of = |system: &System| server_proofs(system, limits.effort, 0).iter().flatten().all(Result::is_ok);
    let admission = match system.is_some_and(of) {
        true => Admission::Supply,
        false => Admission::Proof { events_max: limits.candidate_events_max },
    };
    Best { proved: best.proved && admission == Admission::Supply && inner == Inner::Edf, admission, ..best }
}

/// The reason why a search ends early.
pub(crate) enum End {
    /// It reached a limit.
    Limit(Unsupported),
    /// The checker refuses what the analysis accepts.
    Defect(HidingError),
}

impl From<Unsupported> for End {
    fn from(why: Unsupported) -> End {
        End::Limit(why)
    }
}

impl From<HidingError> for End {
    fn from(error: HidingError) -> End {
        End::Defect(error)
    }
}

/// Servers that were found: the tasks of each core and their servers.
pub(crate) struct Best {
    pub(crate) cores: Vec<(Vec<TaskIndex>, Choice)>,
    /// Tasks with an instance in each of the two servers of the first core.
    pub(crate) copied: Vec<TaskIndex>,
    /// Unhidden refresh, as a fraction of one core's time.
    pub(crate) unhidden: String,
    pub(crate) proved: bool,
    /// The admission rule of the choices compared.
    pub(crate) admission: Admission,
    /// The proof, or the bounds proved so far.
    pub(crate) why: String,
    /// The assignments of tasks that were compared.
    pub(crate) assignments: &'static str,
}

const EVERY: &str = "every assignment of tasks";

fn best_of(file: &TaskSystem, space: &Space, wanted: &Wanted, effort: Effort) -> Result<Option<Best>, Unsupported> {
    let cores = wanted.cores;
    if cores == 1 {
        let (found, admission) = match optimize(&file.set, None, space, wanted.admission, effort) {
            Err(Unsupported::Effort { .. }) if wanted.admission != Admission::Supply => {
                (optimize(&file.set, None, space, Admission::Supply, effort)?, Admission::Supply)
            }
            found => (found?, wanted.admission),
        };
        let all = file.set.indices().collect();
        return Ok(found.map(|best| Best {
            unhidden: best.unhidden.to_string(),
            proved: true,
            admission,
            why: format!("proved by branch and bound; {} choices were computed in full or in part", best.costed),
            cores: vec![(all, best.choice)],
            copied: Vec::new(),
            assignments: EVERY,
        }));
    }
    let limits = PartitionLimits { cores_max: cores, nodes_max: 100_000, optimized_max: 200 };
    let Partitioned::Found(best) = partition(&file.set, space, limits, effort)? else { return Ok(None) };
    let why = match best.is_optimal() {
        true => "and no fewer cores will do: proved by branch and bound over cores".to_owned(),
        false => format!(
            "among the choices tried; proved: fewer than {} cores, and less than {}, are impossible",
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
        assignments: EVERY,
    }))
}

/// The colors of the file, or two halves of the ranks.
fn two_colors(file: &TaskSystem, memory: &MemorySpec) -> Result<Vec<Color>, PlanError> {
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
        0 => Err(PlanError::Ranks { file: file.name.clone(), found: memory.ranks }),
        found => Err(PlanError::Colors { file: file.name.clone(), found }),
    }
}

/// Pairs of phases whose locked windows do not overlap, those of the file first.
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
    wanted: &Wanted,
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
            file.tasks[task.index()].server = Some(before + usize::from(second));
        }
    }
    for &task in &best.copied {
        let more = &mut file.tasks[task.index()];
        (more.server, more.copy_server) = (Some(0), Some(1));
    }
    let last = searched.last().cloned().unwrap_or_default();
    let before = match searched.len() {
        0 | 1 => String::new(),
        count => format!("; nothing found in {}", searched[..count - 1].join(", then ")),
    };
    let cores = cores_of(wanted.cores);
    let pairs = if phases == 1 { "one pair".to_owned() } else { format!("{phases} pairs") };
    let space = format!(
        "two deferrable servers on {cores}, periods and budgets in {last}, {pairs} of refresh phases, {}{before}",
        best.assignments
    );
    let why = format!(
        "no choice in that space that is so admitted leaves less than {} of the time to refresh that is not hidden, with servers that \
         always have something to do, {}",
        best.unhidden, best.why
    );
    let (admitted_if, admitted) = match best.admission {
        Admission::Supply => {
            let supply = "what each server surely supplies, whatever the phases of refresh, holds its tasks";
            (AdmittedIf::Supply, supply.to_owned())
        }
        Admission::Proof { events_max } => {
            let known = format!("by the known times of servers and refreshes, of up to {events_max} events");
            (
                AdmittedIf::Proof,
                format!("memtint analyze proves each server, whatever the phases of refresh or {known}"),
            )
        }
    };
    let copied: Vec<String> = best.copied.iter().map(|&task| file.set[task].name().to_owned()).collect();
    let mut lines = vec![
        Line { label: "space", text: space.clone() },
        Line { label: "admitted if", text: admitted },
        Line { label: "unhidden part", text: best.unhidden.clone() },
        Line { label: "proved best", text: why },
    ];
    if !copied.is_empty() {
        lines.push(Line { label: "copied tasks", text: format!("{}, in both servers", copied.join(", ")) });
    }
    let choice = ServerChoice { space, admitted_if, unhidden_part: best.unhidden.clone(), proved_best: best.proved };
    let copied_tasks = (!copied.is_empty()).then_some(copied);
    Plan { file, why: Why::Servers(ServersWhy { choice, copied_tasks }), lines }
}
