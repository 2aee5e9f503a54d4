//! Analysis of the same scheme: a bound of each task's response time, or the reason for its absence.

use memtint_analysis::{Color, Inside, TaskSystem};
use memtint_hiding::crs::{Proof, judge};
use memtint_sched::{
    AnalysisLimits, Granularity, Interference, Preemption, Refresh, TaskIndex, TaskSet, Unsupported, Verdict,
    WorstCase, worst_response_edf_with, worst_response_with,
};
use memtint_units::Picoseconds;

use crate::job::stretch;
use crate::scenario::Plan;
use crate::{RefreshError, Scheme};

/// The result of an analysis for the response time of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// None is longer.
    Within(Picoseconds),
    /// Response times are unbounded: the processor is overloaded.
    Unbounded,
    /// The analysis gives no answer, for this reason.
    Unknown(String),
}

/// Bounds of all tasks, and the analysis that yields them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Of each task, in the order of the set.
    pub(crate) tasks: Vec<Bound>,
    /// The analysis.
    pub(crate) analysis: String,
}

/// Bounds under fixed priorities or earliest deadlines, core by core, with refresh as a term.
pub(crate) fn of_priorities(plan: &Plan<'_>) -> Result<Bounds, RefreshError> {
    let effort = AnalysisLimits::default().effort;
    let mut tasks = vec![Bound::Unbounded; plan.file.set.tasks().len()];
    let mut cores: Vec<u32> = (0..tasks.len()).map(|task| plan.core(task)).collect();
    cores.sort_unstable();
    cores.dedup();
    for core in cores {
        let own: Vec<usize> = (0..tasks.len()).filter(|&task| plan.core(task) == core).collect();
        // A reference that has begun blocks tasks of higher priority.
        let blocking = stretch(plan.file, None)?;
        let specs = own.iter().map(|&task| {
            let mut spec = plan.file.set.tasks()[task].spec();
            spec.blocking += blocking;
            spec
        });
        let set = TaskSet::new(specs)?;
        let set = match plan.scheme {
            Scheme::Auto => match padded(plan, &set, &own)? {
                Some(set) => set,
                None => continue,
            },
            _ => set,
        };
        let terms: Vec<Interference> = term(plan)?.into_iter().map(Interference::Refresh).collect();
        for (place, &task) in own.iter().enumerate() {
            let found = if plan.order == Inside::Edf {
                worst_response_edf_with(&set, TaskIndex(place), &terms, effort)
            } else {
                let order = plan.order_among(&own, &set)?;
                worst_response_with(&set, &order, Preemption::Full, TaskIndex(place), &terms, effort)
            };
            tasks[task] = match found {
                Ok(WorstCase::Bounded(worst)) => Bound::Within(worst.response),
                Ok(WorstCase::Unbounded(_)) => Bound::Unbounded,
                Err(reason) => Bound::Unknown(said(&reason)),
            };
        }
    }
    let order = match plan.order {
        Inside::Edf => "earliest deadline first (Spuri 1996)",
        Inside::RateMonotonic => "rate monotonic (Lehoczky 1990)",
        Inside::DeadlineMonotonic => "deadline monotonic (Lehoczky 1990)",
        Inside::Given => "fixed priorities (Lehoczky 1990)",
    };
    let refresh = match plan.scheme {
        Scheme::None => String::new(),
        Scheme::Auto => {
            "; each WCET longer by the REF to its own ranks that its job, or one that it preempts, can meet".to_owned()
        }
        Scheme::Burst => "; a stall as long as a burst for each burst".to_owned(),
        _ => "; a stall for each REF, which all ranks have together".to_owned(),
    };
    Ok(Bounds { tasks, analysis: format!("worst response times, {order}{refresh}") })
}

/// The tasks with the refreshes of their ranks added to their WCETs; `None` where these leave no time.
///
/// Ranks are refreshed one after the other, so a core that switches to a task of other ranks can meet one refresh more
/// than fits into tREFI: one stall per tREFI is no bound. But a job is delayed only while it runs, and only by its `m`
/// ranks. Let its execution `x`, stalls included, be cut into `k` stretches by preemptions. In a stretch of length `l`
/// at most `ceil(l / tREFI)` REF of a rank begin, and one may be under way at its beginning: at most `x / tREFI + 2 k`
/// for each rank. `k` is one more than the number of preempting jobs, each of which preempts at most one job; so
///
/// ```text
/// x = e + m s (ceil(x / tREFI) + 2) + 2 M s       s = tRFC and reopening; M is the largest m of the others
/// ```
///
/// bounds the execution of a job, including the delay of the job that it preempts.
fn padded(plan: &Plan<'_>, set: &TaskSet, tasks: &[usize]) -> Result<Option<TaskSet>, RefreshError> {
    let device = &plan.machine.device;
    let interval = u128::from(device.clock.start(device.timing.refi.into()).0);
    let stall = u128::from(device.clock.start(device.timing.rfc.into()).0 + plan.machine.reopen().0);
    let ranks = |task: usize| u128::from(plan.file.tasks[task].ranks);
    let mut specs = Vec::new();
    for (place, &task) in tasks.iter().enumerate() {
        let mut spec = set.tasks()[place].spec();
        let others = tasks.iter().filter(|&&other| other != task).map(|&other| ranks(other)).max().unwrap_or(0);
        let fixed = u128::from(spec.wcet.0) + 2 * stall * (ranks(task) + others);
        let mut found = fixed;
        loop {
            let next = fixed + ranks(task) * stall * found.div_ceil(interval);
            if next == found {
                break;
            }
            // An execution longer than the period has no bound anyway.
            if next > u128::from(spec.period.0) {
                return Ok(None);
            }
            found = next;
        }
        spec.wcet = Picoseconds(u64::try_from(found).expect("at most the period"));
        specs.push(spec);
    }
    Ok(Some(TaskSet::new(specs)?))
}

/// Refresh of all ranks at once, as a term of the analysis.
fn term(plan: &Plan<'_>) -> Result<Option<Refresh>, RefreshError> {
    let (device, reopen) = (&plan.machine.device, plan.machine.reopen());
    let time = |cycles: u64| device.clock.start(cycles);
    let (interval, t_rfc) = (time(device.timing.refi.into()), time(device.timing.rfc.into()));
    let fine = |granularity: Granularity| {
        let commands = granularity.commands() as u32;
        let found = device.refresh.fine.iter().find(|fine| fine.factor == commands);
        found.map(|fine| Refresh::fine(granularity, interval, time(fine.rfc.into()), reopen)).transpose()
    };
    Ok(match plan.scheme {
        Scheme::None | Scheme::Auto | Scheme::ColoredRefresh | Scheme::Crs => None,
        Scheme::Fgr1 => Some(plan.machine.refresh()?),
        Scheme::Fgr2 => fine(Granularity::Two)?,
        Scheme::Fgr4 => fine(Granularity::Four)?,
        Scheme::Burst => {
            let window = time(device.refresh.window_cycles - u64::from(device.refresh.interval));
            let burst = Picoseconds(t_rfc.0 * u64::from(device.refresh.commands));
            Some(Refresh::burst(window, burst, reopen)?)
        }
    })
}

/// Bounds of the tasks of servers.
pub(crate) fn of_servers(plan: &Plan<'_>) -> Result<Bounds, RefreshError> {
    let file = &allowing_for_closing(plan);
    let system = file.system()?;
    let mut analysis = "the supply of each server, with locked windows and the deferral of servers above it".to_owned();
    if !system.copied().is_empty() {
        analysis += "; locks of its colors never delay a task with two instances";
    }
    let count = file.set.tasks().len();
    let limits = AnalysisLimits::default();
    let tasks = match judge(&system, limits.effort, limits.events_max)? {
        Verdict::Schedulable(witness) => of_proof(file, &witness.proof),
        Verdict::Unschedulable(_) => {
            let reason = "with every job at its WCET and on time, a job misses its deadline: no bound".to_owned();
            vec![Bound::Unknown(reason); count]
        }
        Verdict::Unsupported(reason) => vec![Bound::Unknown(said(&reason)); count],
    };
    Ok(Bounds { tasks, analysis })
}

/// Each simulated burst closes rows first and keeps the time of other ranks' commands on the bus: the lock of the analysis is longer
/// by that, for the color that takes the most of it, and by a cycle.
fn allowing_for_closing(plan: &Plan<'_>) -> TaskSystem {
    let mut file = plan.file.clone();
    let mut memory = *plan.memory;
    let cycle = plan.machine.device.clock.start(1) + Picoseconds(1);
    let beyond = |color: &Color| {
        let ranks = color.ranks.len() as u32;
        plan.machine.burst(ranks, memory.bursts).saturating_sub(memory.burst(ranks))
    };
    memory.lock += file.colors.iter().map(beyond).max().unwrap_or_default() + cycle;
    file.memory = Some(memory);
    file
}

/// Bounds of the tasks; for a task with two instances, the larger bound.
fn of_proof(file: &TaskSystem, proof: &Proof) -> Vec<Bound> {
    let mut tasks = vec![Bound::Unbounded; file.set.tasks().len()];
    for (servers, proofs) in file.servers_of_cores().iter().zip(&proof.cores) {
        for (&server, proof) in servers.iter().zip(proofs) {
            for (task, &bound) in file.tasks_of(server).into_iter().zip(&proof.responses) {
                tasks[task.index()] = match tasks[task.index()] {
                    Bound::Within(other) => Bound::Within(bound.max(other)),
                    _ => Bound::Within(bound),
                };
            }
        }
    }
    tasks
}

fn said(reason: &Unsupported) -> String {
    match reason {
        Unsupported::Inconclusive { .. } => "the analysis is only sufficient, and does not say yes".to_owned(),
        Unsupported::Effort { steps_max, .. } => format!("more than {steps_max} steps are needed"),
        Unsupported::Window { .. } => "the window to look at is too long".to_owned(),
        Unsupported::Precondition { needs, .. } | Unsupported::Platform { needs } => format!("it asks for {needs}"),
        Unsupported::Load(_) => "refresh leaves no time for the tasks".to_owned(),
        other => format!("{other:?}"),
    }
}
