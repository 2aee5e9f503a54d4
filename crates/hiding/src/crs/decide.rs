//! Whether every job of a system meets its deadline.

use crate::crs::copies;
use crate::crs::model::{Server, System};
use crate::crs::pattern::{Exact, Pattern, Short};
use crate::crs::supply::{ServerSupply, inconclusive, plain, server_responses, supplies};
use crate::crs::timeline::{Record, Timeline, What, record};
use crate::crs::timeline_check::{TimelineAccepted, check_timeline};
use crate::error::HidingError;
use memtint_sched::parts::{Demand, Steps, WINDOW_MAX, utilization, window};
use memtint_sched::{Cause, Effort, Overload, Policy, Priorities, Task, TaskIndex, TaskSet, Unsupported, Verdict};
use memtint_units::Picoseconds;
use num_bigint::{BigInt, BigUint};
use num_rational::Ratio;
use std::collections::HashSet;

/// Why the tasks of a server meet their deadlines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProof {
    /// Response time of the server itself ([`server_responses`]); above its period, part of a budget may be lost.
    pub response: Option<Picoseconds>,
    /// Its least supply, whatever the phases of refresh; the proof of its tasks may need its exact supply.
    pub supply: ServerSupply,
    /// A bound of the response time of each task. Under EDF it is the deadline if a busy period may be too long to be
    /// searched.
    pub responses: Vec<Picoseconds>,
}

/// Why all tasks meet their deadlines, by core and server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The servers of each core.
    pub cores: Vec<Vec<ServerProof>>,
}

/// The evidence for a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The result of the analysis.
    pub proof: Proof,
    /// The timeline in which every job arrives on time and takes its WCET.
    pub timeline: Timeline,
    /// The independent checker's findings in that timeline.
    pub accepted: TimelineAccepted,
}

/// Decides whether every job meets its deadline, whatever the phases of tasks and servers, with sporadic arrivals and jobs
/// shorter than their WCET.
///
/// Yes: the demand of the tasks of each server is at most its [`ServerSupply`] in each window (EDF) or in one up to
/// each deadline (fixed priority; deadlines at most the period). Where no server above defers its budget and the server
/// itself does not, or is never out of it, its exact supply decides, both ways, for tasks without jitter and blocking;
/// below a server that defers its budget, a bound by the known beginnings of periods and refreshes can still prove a
/// yes for these. Any other no comes from a timeline in which a job is late. It names the window since the server last
/// had no work of its urgency, the work due in it, and the server's supply in it; its task is counted over all cores
/// and servers, in order. A no by exact supply is about arrivals at the worst time; where the phases of the server's
/// tasks differ, it becomes [`Unsupported::Phases`]. If neither a proof nor a late job is found, the answer is
/// [`Unsupported::Inconclusive`]. Timelines hold at most about `events_max` events.
///
/// # Errors
///
/// [`HidingError::Contradiction`] when the checker refuses the timeline of a yes, which is a defect of one of the two.
///
/// ```
/// use memtint_hiding::crs::{Core, Density, Form, Inner, Kind, RankOrder, Refresh, Server, System, burst, judge};
/// use memtint_sched::{Effort, TaskSet, TaskSpec};
/// use memtint_units::Picoseconds;
///
/// let us = |value: u64| Picoseconds::from_ns(value * 1000);
/// let first = TaskSet::new([TaskSpec::new("one", us(16_000), us(4000)), TaskSpec::new("two", us(16_000), us(2000))])?;
/// let second = TaskSet::new([TaskSpec::new("three", us(32_000), us(8000)), TaskSpec::new("four", us(64_000), us(8000))])?;
/// let length = burst(Density::Gb2, 4, 8, RankOrder::Parallel, Form::Corrected);
/// let refresh = Refresh::two_colors(8, us(64_000), length);
/// let server = |group, budget, tasks: TaskSet| {
///     let policy = Inner::RateMonotonic.policy(&tasks);
///     Server { group, period: us(4000), budget, kind: Kind::Deferrable, tasks, policy }
/// };
/// let servers = vec![server(0, us(2000), first), server(1, us(4000), second)];
/// let system = System::new(8, refresh, vec![Core { servers }])?;
/// assert!(judge(&system, Effort::default(), 100_000)?.is_schedulable());
/// # Ok::<(), memtint_hiding::HidingError>(())
/// ```
pub fn judge(system: &System, effort: Effort, events_max: u64) -> Result<Verdict<Witness>, HidingError> {
    Ok(match prove(system, effort, events_max) {
        Ok(proof) => {
            let (timeline, _) = record(system, events_max);
            match check_timeline(system, &timeline) {
                Ok(accepted) => {
                    assert_bounded(&proof, &accepted);
                    Verdict::Schedulable(Witness { proof, timeline, accepted })
                }
                Err(violation) => return Err(HidingError::Contradiction(Box::new(violation))),
            }
        }
        Err(unproved) => match (late(system, events_max), unproved) {
            (Some(late), _) => Verdict::Unschedulable(late),
            (None, Unproved::Late(late)) => Verdict::Unschedulable(*late),
            (None, Unproved::Unknown(reason)) => Verdict::Unsupported(reason),
        },
    })
}

/// The timeline is one that can happen, so no response in it is above the bound.
fn assert_bounded(proof: &Proof, accepted: &TimelineAccepted) {
    for (core, (bounds, seen)) in proof.cores.iter().zip(&accepted.responses).enumerate() {
        for (server, (bounds, seen)) in bounds.iter().zip(seen).enumerate() {
            assert_eq!(bounds.responses.len(), seen.len(), "bounds and tasks of server {server} of core {core}");
            let bounded = bounds.responses.iter().zip(seen).all(|(&bound, &seen)| seen <= Some(bound));
            assert!(
                bounded,
                "a timeline in which a task of server {server} of core {core} takes longer than its bound"
            );
        }
    }
}

/// Why there is no proof for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unproved {
    /// With some arrivals a job is late.
    Late(Box<Overload>),
    /// The tests are inconclusive.
    Unknown(Unsupported),
}

/// Proves the tasks of each server in isolation, by core and server; tasks in reasons are counted over all cores and
/// servers, in order. [`judge`] answers yes when each server has its proof; the proof of a server with copied tasks
/// assumes that the other instances are in time too. Patterns for exact supplies have at most about `events_max`
/// events.
#[must_use]
pub fn server_proofs(system: &System, effort: Effort, events_max: u64) -> Vec<Vec<Result<ServerProof, Unproved>>> {
    let mut before = 0;
    let mut cores = Vec::new();
    for (core, own) in system.cores().iter().enumerate() {
        let mut servers = Vec::new();
        let responses = server_responses(system, core);
        for (index, (supply, response)) in supplies(system, core).into_iter().zip(responses).enumerate() {
            let server = &own.servers[index];
            let bounds = match &system.is_copied(core, index)[..] {
                is_copied if is_copied.contains(&true) => {
                    let locked = system.refresh().locked(server.group).0;
                    let found = copies::responses(server, is_copied, locked, &supply, effort);
                    // A result that holds with all jobs of an instance holds with some of them; a late job need not be
                    // one of them.
                    let all = |reason| match with_all_jobs(system, (core, index), &supply, effort, events_max) {
                        Ok(bounds) => Ok(bounds),
                        Err(_) => Err(Unproved::Unknown(shifted(reason, before))),
                    };
                    found.or_else(all)
                }
                _ => with_all_jobs(system, (core, index), &supply, effort, events_max).map_err(|short| match short {
                    Ok(short) => {
                        let late = Box::new(overload(&short, before));
                        match server.tasks.synchronous() {
                            true => Unproved::Late(late),
                            false => Unproved::Unknown(Unsupported::Phases(late)),
                        }
                    }
                    Err(reason) => Unproved::Unknown(shifted(reason, before)),
                }),
            };
            servers.push(bounds.map(|responses| ServerProof { response, supply, responses }));
            before += server.tasks.tasks().len();
        }
        cores.push(servers);
    }
    cores
}

/// Bounds the responses of a server's tasks, of which it has all jobs; or finds a window in which one is late, or why there is
/// neither.
fn with_all_jobs(
    system: &System,
    (core, index): (usize, usize),
    supply: &ServerSupply,
    effort: Effort,
    events_max: u64,
) -> Result<Vec<Picoseconds>, Result<Short, Unsupported>> {
    let server = &system.cores()[core].servers[index];
    match fits(&server.tasks, &server.policy, supply, effort) {
        Ok(bounds) if server.policy != Policy::Edf => Ok(bounds),
        Ok(_) => {
            let tasks = 0..server.tasks.tasks().len();
            Ok(tasks.map(|task| edf_response(&server.tasks, TaskIndex(task), supply, 0, effort)).collect())
        }
        Err(reason) => match exact(system, core, index, effort, events_max) {
            Some(Exact::Fits(bounds)) => Ok(bounds),
            Some(Exact::Late(short)) => Err(Ok(short)),
            None => Err(Err(reason)),
        },
    }
}

fn prove(system: &System, effort: Effort, events_max: u64) -> Result<Proof, Unproved> {
    let all = server_proofs(system, effort, events_max);
    // Where one server is not proved, another may still show a no.
    let late = |found: &&Result<ServerProof, Unproved>| matches!(found, Err(Unproved::Late(_)));
    if let Some(Err(late)) = all.iter().flatten().find(late) {
        return Err(late.clone());
    }
    let cores = all.into_iter().map(|core| core.into_iter().collect());
    Ok(Proof { cores: cores.collect::<Result<_, _>>()? })
}

fn exact(system: &System, core: usize, index: usize, effort: Effort, events_max: u64) -> Option<Exact> {
    let (own, server) = (&system.cores()[core], &system.cores()[core].servers[index]);
    let patterns = Pattern::of(&plain(own), system.refresh(), index, events_max);
    patterns
        .iter()
        .find_map(|pattern| pattern.decide(&server.tasks, &server.policy, &mut Steps::new(TaskIndex(0), effort)))
}

/// Returns whether a set has a proof, by the supply of its server or by one of its patterns, as in [`server_proofs`].
pub(super) fn proved(
    set: &TaskSet,
    policy: &Policy,
    supply: &ServerSupply,
    patterns: &[Pattern],
    effort: Effort,
) -> bool {
    let decided = |pattern: &Pattern| pattern.decide(set, policy, &mut Steps::new(TaskIndex(0), effort));
    fits(set, policy, supply, effort).is_ok()
        || patterns.iter().any(|pattern| matches!(decided(pattern), Some(Exact::Fits(_))))
}

fn overload(short: &Short, before: usize) -> Overload {
    Overload {
        task: TaskIndex(before + short.task.0),
        job: short.job.into(),
        window_ps: short.length.into(),
        demand_ps: short.demand.into(),
        cause: Cause::Supply(Ratio::from_integer(short.supplied.into())),
    }
}

fn shifted(reason: Unsupported, by: usize) -> Unsupported {
    match reason {
        Unsupported::Effort { task, steps_max } => Unsupported::Effort { task: TaskIndex(task.0 + by), steps_max },
        Unsupported::Window { task, window_ps_max } => {
            Unsupported::Window { task: TaskIndex(task.0 + by), window_ps_max }
        }
        Unsupported::Precondition { task, needs } => Unsupported::Precondition { task: TaskIndex(task.0 + by), needs },
        other => other,
    }
}

/// Bounds the response times of a set on a supply, or returns the reason why it cannot.
pub(super) fn fits(
    set: &TaskSet,
    policy: &Policy,
    supply: &ServerSupply,
    effort: Effort,
) -> Result<Vec<Picoseconds>, Unsupported> {
    match policy {
        // A system refuses servers that do not preempt.
        Policy::Edf | Policy::NonPreemptiveEdf => {
            edf(set, supply, 0, effort)?;
            Ok(set.tasks().iter().map(Task::deadline).collect())
        }
        Policy::FixedPriority(priorities, _) => fixed(set, priorities, supply),
    }
}

/// Tests the demand of a set in all windows of a length and longer.
pub(super) fn edf(set: &TaskSet, supply: &ServerSupply, from: u64, effort: Effort) -> Result<(), Unsupported> {
    let demand = Demand::new(set);
    if let Some(task) = set.tasks().iter().position(|task| Demand::first(task).is_none()) {
        return Err(inconclusive(set.tasks()[task].wcet().0.into(), Picoseconds(0)));
    }
    let mut steps = Steps::new(TaskIndex(0), effort);
    let mut check = |length: u64| {
        steps.step()?;
        let work = demand.work(length);
        match supply.completion_of(work, length) {
            Some(_) => Ok(demand.next_deadline(length)),
            None => Err(inconclusive(work, supply.supply(Picoseconds(length)))),
        }
    };
    let mut length = demand.last_deadline(from).map_or_else(|| demand.next_deadline(from), |_| from);
    // Most sets that do not fit show it in the shortest windows, which costs less than the horizon.
    for _ in 0..4 {
        length = check(length)?;
    }
    let last = horizon(set, supply)?;
    while length <= last {
        length = check(length)?;
    }
    Ok(())
}

/// Bounds the response time of a task of a set that fits under EDF, for jobs whose window ends so long after its beginning or later;
/// by its deadline where the search is too long.
pub(super) fn edf_response(
    set: &TaskSet,
    index: TaskIndex,
    supply: &ServerSupply,
    from: u64,
    effort: Effort,
) -> Picoseconds {
    searched_response(set, index, supply, from, effort).unwrap_or(set[index].deadline())
}

/// Bounds the response time of a task of a set that fits, after Spuri 1996 ([`worst_response_edf`](memtint_sched::worst_response_edf())):
/// the job whose release is somewhere in a busy period of the server, all others as early as they can be, on the least supply instead of
/// a whole processor. `None` when the busy period, or the search, is too long.
fn searched_response(
    set: &TaskSet,
    index: TaskIndex,
    supply: &ServerSupply,
    from: u64,
    effort: Effort,
) -> Option<Picoseconds> {
    let (demand, task) = (Demand::new(set), &set[index]);
    let (tasks, jitter) = (set.tasks(), task.jitter().0);
    let jobs = |other: &Task, length: u64| {
        (u128::from(length) + u128::from(other.jitter().0)).div_ceil(other.period().0.into())
    };
    let blocking = tasks.iter().map(|other| other.blocking().0).max().unwrap_or(0);
    let all = |length: u64| {
        let work = tasks.iter().map(|other| jobs(other, length) * u128::from(other.wcet().0));
        work.fold(u128::from(blocking), u128::saturating_add)
    };
    let busy = supply.completion_from(all, 1, WINDOW_MAX)?;
    let first = |other: &Task| other.deadline().0 as i64 - other.jitter().0 as i64;
    // The releases at which some task's deadline coincides with the job's: the work due is constant between two of
    // them.
    let next = |other: &Task, released: u64| {
        let (period, apart) = (other.period().0, released as i64 + first(task) - first(other));
        if apart < 0 { apart.unsigned_abs() } else { period - apart.unsigned_abs() % period }
    };
    let mut steps = Steps::new(index, effort);
    let (mut released, mut worst) = (from.saturating_add_signed(-first(task)), 0);
    while released <= busy {
        steps.step().ok()?;
        let end = released as i64 + first(task);
        let own = u128::from(released / task.period().0 + 1) * u128::from(task.wcet().0);
        let own = own + u128::from(demand.blocking(end));
        let others = || set.indexed().filter(|&(other, _)| other != index).map(|(_, other)| other);
        let work = |length: u64| {
            let due = |other: &Task| jobs(other, length).min(Demand::due(other, end).into());
            others().fold(own, |work, other| work.saturating_add(due(other) * u128::from(other.wcet().0)))
        };
        let completion = supply.completion_from(work, 0, WINDOW_MAX)?;
        worst = worst.max((completion + jitter).saturating_sub(released));
        released += tasks.iter().map(|other| next(other, released)).min()?;
    }
    Some(Picoseconds(worst).min(task.deadline()))
}

/// No window longer than this is the first that is overloaded: demand is at most `U t` and `sum U (T - D + J)` and the blocking,
/// and supply at least the line below it.
fn horizon(set: &TaskSet, supply: &ServerSupply) -> Result<u64, Unsupported> {
    let signed = |ratio: Ratio<BigUint>| {
        let (numerator, denominator) = ratio.into_raw();
        Ratio::new(BigInt::from(numerator), BigInt::from(denominator))
    };
    let (rate, behind) = supply.line();
    let load = utilization(set.tasks().iter());
    let own = signed(load.clone());
    if rate <= own {
        let most = rate.numer().to_biguint().map_or(Ratio::from_integer(BigUint::ZERO), |numerator| {
            Ratio::new(numerator, rate.denom().to_biguint().unwrap_or_default())
        });
        return Err(Unsupported::Inconclusive { found: load, most });
    }
    let ahead = |task: &Task| {
        let room = BigInt::from(task.period().0) + task.jitter().0 - task.deadline().0;
        signed(task.utilization()) * room.max(BigInt::ZERO)
    };
    let blocking = set.tasks().iter().map(|task| task.blocking().0).max().unwrap_or(0);
    let apart = set.tasks().iter().map(ahead).sum::<Ratio<BigInt>>() + BigInt::from(blocking) + behind;
    let meet = (apart / (rate - own)).ceil().to_integer().to_biguint().unwrap_or_default();
    let first = set.tasks().iter().filter_map(Demand::first).max().unwrap_or(0);
    window(u128::try_from(meet).unwrap_or(u128::MAX).max(first.into()), TaskIndex(0))
}

fn fixed(set: &TaskSet, priorities: &Priorities, supply: &ServerSupply) -> Result<Vec<Picoseconds>, Unsupported> {
    let mut responses = vec![Picoseconds(0); set.tasks().len()];
    for (rank, &index) in priorities.order().iter().enumerate() {
        let task = &set[index];
        if task.deadline() > task.period() {
            let needs = "a deadline not beyond the period, for fixed priorities in a server";
            return Err(Unsupported::Precondition { task: index, needs });
        }
        let work = |length: u64| {
            let jobs = |&other: &TaskIndex| {
                let other = &set[other];
                u128::from((length + other.jitter().0).div_ceil(other.period().0)) * u128::from(other.wcet().0)
            };
            let own = u128::from(task.wcet().0) + u128::from(task.blocking().0);
            priorities.order()[..rank].iter().map(jobs).fold(own, u128::saturating_add)
        };
        let limit = Demand::first(task).unwrap_or(0);
        match supply.completion_from(work, 0, limit) {
            Some(completion) => responses[index.index()] = Picoseconds(completion + task.jitter().0),
            None => return Err(inconclusive(work(limit), supply.supply(Picoseconds(limit)))),
        }
    }
    Ok(responses)
}

/// A job that is late in the timeline, with the window that shows it.
fn late(system: &System, events_max: u64) -> Option<Overload> {
    let (timeline, records) = record(system, events_max);
    let end = timeline.window.0;
    let missed = |job: &&Record| job.deadline <= end && job.completion.is_none_or(|done| done > job.deadline);
    let missed = records.iter().filter(missed).min_by_key(|job| job.deadline)?;
    let server = &system.cores()[missed.core].servers[missed.server];
    let before = |job: &Record| match &server.policy {
        Policy::Edf | Policy::NonPreemptiveEdf => job.deadline <= missed.deadline,
        Policy::FixedPriority(priorities, _) => {
            let rank = |task| priorities.order().iter().position(|&other| other == task);
            rank(job.task) < rank(missed.task) || (job.task == missed.task && job.job <= missed.job)
        }
    };
    let relevant: Vec<&Record> =
        records.iter().filter(|job| (job.core, job.server) == (missed.core, missed.server) && before(job)).collect();
    let mut start = missed.arrival;
    while let Some(pending) = relevant
        .iter()
        .filter(|job| job.arrival < start && job.completion.is_none_or(|done| done > start))
        .map(|job| job.arrival)
        .min()
    {
        start = pending;
    }
    let due = |job: &&&Record| job.arrival >= start && job.arrival < missed.deadline;
    let demand: BigUint = relevant.iter().filter(due).map(|job| BigUint::from(wcet(server, job))).sum();
    let counted: HashSet<(TaskIndex, u64)> = relevant.iter().map(|job| (job.task, job.job)).collect();
    let supplied: u64 = timeline
        .runs
        .iter()
        .filter(|run| match run.what {
            What::Job { server, task, job } => {
                (run.core, server) == (missed.core, missed.server) && counted.contains(&(task, job))
            }
            _ => false,
        })
        .map(|run| run.end.0.min(missed.deadline).saturating_sub(run.start.0.max(start)))
        .sum();
    let servers = system.cores()[..missed.core].iter().flat_map(|core| &core.servers);
    let servers = servers.chain(&system.cores()[missed.core].servers[..missed.server]);
    let task = servers.map(|server| server.tasks.tasks().len()).sum::<usize>() + missed.task.0;
    let first = relevant.iter().filter(|job| job.task == missed.task && job.arrival >= start).map(|job| job.job).min();
    Some(Overload {
        task: TaskIndex(task),
        job: BigUint::from(missed.job - first.unwrap_or(0)),
        window_ps: BigUint::from(missed.deadline - start),
        demand_ps: demand,
        cause: Cause::Supply(Ratio::from_integer(supplied.into())),
    })
}

fn wcet(server: &Server, job: &Record) -> u64 {
    server.tasks[job.task].wcet().0
}
