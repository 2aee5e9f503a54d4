//! An independent checker of timelines.
//!
//! It reads a system and a timeline, and shares no code with the analysis and the generator of timelines. An accepted
//! timeline proves for its window: no core runs a task of a group while the group is locked and its ranks are
//! refreshed. Every rank is refreshed in full, again within tRET each time, and first at its phase (time 0 is in the
//! middle of operation: the refresh before it was a retention time earlier). Each refresh has its lock and unlock tasks
//! on each core. No server exceeds its budget in a period. Every job runs after its arrival, after the previous job of
//! its task, on its core, for exactly its WCET and within its deadline. Each job of a copied task is of one instance
//! alone; when the next job is of the other instance, that instance's group is not locked while the job runs, so that
//! it can copy.

use crate::crs::model::System;
use crate::crs::timeline::{Timeline, TimelineRun, What};
use memtint_sched::TaskIndex;
use memtint_units::Picoseconds;
use std::collections::HashMap;

/// Statistics of an accepted timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineAccepted {
    /// Jobs whose deadline is in the window; all were met.
    pub jobs: u64,
    /// Refreshes of each rank that are complete in the window.
    pub refreshes: Vec<u64>,
    /// The longest response seen, by core, server and task, of complete jobs.
    pub responses: Vec<Vec<Vec<Option<Picoseconds>>>>,
}

/// Why a timeline is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimelineViolation {
    /// A run is empty, out of order, after the window, or names an object that does not exist.
    #[error(
        "run {run}: found from {start} to {end} on core {core}; accepted is a run of something that exists, after the one before it, in the window"
    )]
    Run {
        /// Index of the run, from 0.
        run: usize,
        /// Its core.
        core: usize,
        /// Its beginning.
        start: Picoseconds,
        /// Its end.
        end: Picoseconds,
    },
    /// A task runs while its ranks are locked for refresh.
    #[error("run {run}: a task of rank group {group} runs at {at}, while the group is locked")]
    Locked {
        /// Index of the run, from 0.
        run: usize,
        /// The group.
        group: usize,
        /// When.
        at: Picoseconds,
    },
    /// A rank is not refreshed in full within the retention time.
    #[error("rank {rank}: not refreshed in full within the retention time after {since}")]
    Retention {
        /// The rank.
        rank: u32,
        /// The last refresh that is right, or 0.
        since: Picoseconds,
    },
    /// A refresh has no lock or unlock task on a core, or one of another length.
    #[error("core {core}: the lock or unlock task of the refresh of group {group} at {at} is not there")]
    RefreshTask {
        /// The core.
        core: usize,
        /// The group.
        group: usize,
        /// Beginning of the burst.
        at: Picoseconds,
    },
    /// A server uses more than its budget in a period.
    #[error("core {core}, server {server}: more than its budget used in the period that begins at {at}")]
    Budget {
        /// The core.
        core: usize,
        /// The server.
        server: usize,
        /// Beginning of the period.
        at: Picoseconds,
    },
    /// A job runs before its arrival, out of order or for too long.
    #[error("run {run}: job {job} of task {task} runs before its arrival, out of order or longer than its WCET")]
    Job {
        /// Index of the run, from 0.
        run: usize,
        /// The task of the server.
        task: TaskIndex,
        /// The job.
        job: u64,
    },
    /// A job of a copied task runs on both instances.
    #[error("run {run}: job {job} of task {task} of server {server} has begun on another instance")]
    Instances {
        /// Index of the run, from 0.
        run: usize,
        /// The server.
        server: usize,
        /// The task of the server.
        task: TaskIndex,
        /// The job.
        job: u64,
    },
    /// A job uses data that cannot have been copied, because its group was locked while the previous job ran.
    #[error(
        "run {run}: job {job} of task {task} of server {server} needs data that could not be copied: its group was locked at {at}"
    )]
    Copy {
        /// Index of the run, from 0.
        run: usize,
        /// The server.
        server: usize,
        /// The task of the server.
        task: TaskIndex,
        /// The job.
        job: u64,
        /// When.
        at: Picoseconds,
    },
    /// A job is not complete at its deadline.
    #[error("core {core}, server {server}, task {task}: job {job} is not complete at its deadline, {due}")]
    Late {
        /// The core.
        core: usize,
        /// The server.
        server: usize,
        /// The task of the server.
        task: TaskIndex,
        /// The job.
        job: u64,
        /// When it had to be complete.
        due: Picoseconds,
    },
}

/// Replays a timeline against its system.
///
/// # Errors
///
/// The first [`TimelineViolation`] found.
pub fn check_timeline(system: &System, timeline: &Timeline) -> Result<TimelineAccepted, TimelineViolation> {
    order(system, timeline)?;
    let refreshes = retention(system, timeline)?;
    refresh_tasks(system, timeline)?;
    locks(system, timeline)?;
    budgets(system, timeline)?;
    let (jobs, responses) = jobs(system, timeline)?;
    Ok(TimelineAccepted { jobs, refreshes, responses })
}

fn order(system: &System, timeline: &Timeline) -> Result<(), TimelineViolation> {
    let mut free = vec![0; system.cores().len()];
    for (run, found) in timeline.runs.iter().enumerate() {
        let &TimelineRun { core, what, start, end } = found;
        let server = |server: usize| system.cores()[core].servers.get(server);
        let exists = core < free.len()
            && match what {
                What::Lock { group } | What::Unlock { group } => group < system.refresh().groups.len(),
                What::Held { server: index } => server(index).is_some(),
                What::Job { server: index, task, .. } => {
                    server(index).is_some_and(|server| task.index() < server.tasks.tasks().len())
                }
            };
        if !exists || start.0 < free[core] || end <= start || end > timeline.window {
            return Err(TimelineViolation::Run { run, core, start, end });
        }
        free[core] = end.0;
    }
    Ok(())
}

fn retention(system: &System, timeline: &Timeline) -> Result<Vec<u64>, TimelineViolation> {
    let refresh = system.refresh();
    let mut counts = vec![0; system.ranks() as usize];
    for rank in 0..system.ranks() {
        // The row that is refreshed last in a burst was refreshed last in the one before: distances are those of beginnings.
        let own = refresh.groups.iter().find(|group| group.ranks.contains(&rank));
        let (mut last, mut limit) = (0, own.map_or(0, |group| group.phase.0) + refresh.lock.0);
        for burst in &timeline.bursts {
            let Some(group) = refresh.groups.get(burst.group) else {
                return Err(TimelineViolation::Retention { rank, since: burst.start });
            };
            if !group.ranks.contains(&rank) {
                continue;
            }
            let in_full = burst.end.0.checked_sub(burst.start.0) == Some(group.burst.0);
            if !in_full || burst.start.0 < last || burst.start.0 > limit {
                return Err(TimelineViolation::Retention { rank, since: Picoseconds(last) });
            }
            (last, limit) = (burst.start.0, burst.start.0 + refresh.retention.0);
            counts[rank as usize] += u64::from(burst.end <= timeline.window);
        }
        if limit < timeline.window.0 {
            return Err(TimelineViolation::Retention { rank, since: Picoseconds(last) });
        }
    }
    Ok(counts)
}

/// Lock and unlock tasks of each core lie around each burst, and nowhere else.
fn refresh_tasks(system: &System, timeline: &Timeline) -> Result<(), TimelineViolation> {
    let (refresh, window) = (system.refresh(), timeline.window.0);
    for core in 0..system.cores().len() {
        let own = |wanted: What| {
            let of = move |run: &&TimelineRun| run.core == core && run.what == wanted;
            timeline.runs.iter().filter(of).map(|run| (run.start.0, run.end.0)).collect::<Vec<_>>()
        };
        for group in 0..refresh.groups.len() {
            let bursts = || timeline.bursts.iter().filter(|burst| burst.group == group);
            let inside = |span: &(u64, u64)| span.0 < span.1.min(window);
            let cut = |span: (u64, u64)| (span.0, span.1.min(window));
            let locks = bursts().map(|burst| (burst.start.0 - refresh.lock.0, burst.start.0));
            let unlocks = bursts().map(|burst| (burst.end.0, burst.end.0 + refresh.unlock.0));
            let mut locks: Vec<_> = locks.filter(inside).map(cut).collect();
            let unlocks: Vec<_> = unlocks.filter(inside).map(cut).collect();
            let found = (own(What::Lock { group }), own(What::Unlock { group }));
            // The last lock may be cut off from its burst by the end of the window.
            if found.0.len() > locks.len()
                && let Some(&last) = found.0.last()
                && last.1 == window
                && last.0 + refresh.lock.0 >= window
            {
                locks.push(last);
            }
            if found != (locks, unlocks) {
                let at = bursts().next().map_or(Picoseconds(0), |burst| burst.start);
                return Err(TimelineViolation::RefreshTask { core, group, at });
            }
        }
    }
    Ok(())
}

fn locks(system: &System, timeline: &Timeline) -> Result<(), TimelineViolation> {
    let refresh = system.refresh();
    for group in 0..refresh.groups.len() {
        let windows: Vec<(u64, u64)> = timeline
            .bursts
            .iter()
            .filter(|burst| burst.group == group)
            .map(|burst| (burst.start.0 - refresh.lock.0, burst.end.0 + refresh.unlock.0))
            .collect();
        for (run, found) in timeline.runs.iter().enumerate() {
            let (What::Job { server, .. } | What::Held { server }) = found.what else { continue };
            if system.cores()[found.core].servers[server].group != group {
                continue;
            }
            let next = windows.partition_point(|window| window.1 <= found.start.0);
            if let Some(window) = windows.get(next)
                && window.0 < found.end.0
            {
                let at = Picoseconds(window.0.max(found.start.0));
                return Err(TimelineViolation::Locked { run, group, at });
            }
        }
    }
    Ok(())
}

fn budgets(system: &System, timeline: &Timeline) -> Result<(), TimelineViolation> {
    let mut used: HashMap<(usize, usize, u64), u64> = HashMap::new();
    for found in &timeline.runs {
        let (What::Job { server, .. } | What::Held { server }) = found.what else { continue };
        let own = &system.cores()[found.core].servers[server];
        let mut from = found.start.0;
        while from < found.end.0 {
            let period = from / own.period.0;
            let to = found.end.0.min((period + 1) * own.period.0);
            let sum = used.entry((found.core, server, period)).or_default();
            *sum += to - from;
            if *sum > own.budget.0 {
                let at = Picoseconds(period * own.period.0);
                return Err(TimelineViolation::Budget { core: found.core, server, at });
            }
            from = to;
        }
    }
    Ok(())
}

type Responses = Vec<Vec<Vec<Option<Picoseconds>>>>;

/// Core, server and task.
type Place = (usize, usize, TaskIndex);

/// The progress of a task.
#[derive(Default)]
struct Ran {
    /// How long the job that runs, or comes next, has run.
    so_far: u64,
    /// The instance that has this job, and that had the one before.
    instance: Option<Place>,
    before: Option<Place>,
    /// When the job before ran, and this one has.
    spans: [Vec<(u64, u64)>; 2],
    /// Ends of complete jobs, and whose they were.
    ends: Vec<(u64, Place)>,
}

/// The task of which jobs are counted: of a copied one the first instance.
fn counted(system: &System, place: Place) -> Place {
    let (core, server, task) = place;
    let own = system.copied().iter().find(|own| own.core == core && own.instances[1] == (server, task));
    own.map_or(place, |own| (core, own.instances[0].0, own.instances[0].1))
}

fn jobs(system: &System, timeline: &Timeline) -> Result<(u64, Responses), TimelineViolation> {
    let mut all: HashMap<Place, Ran> = HashMap::new();
    for (run, found) in timeline.runs.iter().enumerate() {
        let What::Job { server, task, job } = found.what else { continue };
        let place = (found.core, server, task);
        let own = &system.cores()[found.core].servers[server].tasks[task];
        let ran = all.entry(counted(system, place)).or_default();
        let arrival = u128::from(own.phase().0) + u128::from(job) * u128::from(own.period().0);
        ran.so_far += found.end.0 - found.start.0;
        let wrong = job != ran.ends.len() as u64 || arrival > u128::from(found.start.0) || ran.so_far > own.wcet().0;
        if wrong {
            return Err(TimelineViolation::Job { run, task, job });
        }
        if *ran.instance.get_or_insert(place) != place {
            return Err(TimelineViolation::Instances { run, server, task, job });
        }
        if ran.before.is_some_and(|before| before != place)
            && let Some(at) = locked_in(system, timeline, place, &ran.spans[0])
        {
            return Err(TimelineViolation::Copy { run, server, task, job, at });
        }
        ran.spans[1].push((found.start.0, found.end.0));
        if ran.so_far == own.wcet().0 {
            ran.so_far = 0;
            ran.ends.push((found.end.0, place));
            ran.before = ran.instance.take();
            ran.spans = [std::mem::take(&mut ran.spans[1]), Vec::new()];
        }
    }
    let mut met = 0;
    let mut responses: Responses = Vec::new();
    for core in system.cores() {
        responses.push(core.servers.iter().map(|server| vec![None; server.tasks.tasks().len()]).collect());
    }
    for (core, own) in system.cores().iter().enumerate() {
        for (server, own) in own.servers.iter().enumerate() {
            for (task, own) in own.tasks.indexed() {
                if counted(system, (core, server, task)) != (core, server, task) {
                    continue;
                }
                let complete = all.get(&(core, server, task)).map_or(&[][..], |ran| &ran.ends[..]);
                for job in 0.. {
                    let arrival = own.phase().0 + job * own.period().0;
                    let due = arrival + own.deadline().0;
                    let end = complete.get(job as usize).copied();
                    if arrival >= timeline.window.0 {
                        break;
                    }
                    if let Some((end, (core, server, task))) = end {
                        let longest = &mut responses[core][server][task.index()];
                        *longest = (*longest).max(Some(Picoseconds(end - arrival)));
                    }
                    if due <= timeline.window.0 {
                        met += 1;
                        if end.is_none_or(|(end, _)| end > due) {
                            return Err(TimelineViolation::Late { core, server, task, job, due: Picoseconds(due) });
                        }
                    }
                }
            }
        }
    }
    Ok((met, responses))
}

/// When the group of an instance is locked in one of these spans.
fn locked_in(system: &System, timeline: &Timeline, place: Place, spans: &[(u64, u64)]) -> Option<Picoseconds> {
    let (refresh, group) = (system.refresh(), system.cores()[place.0].servers[place.1].group);
    let windows = timeline.bursts.iter().filter(|burst| burst.group == group);
    let mut windows = windows.map(|burst| (burst.start.0 - refresh.lock.0, burst.end.0 + refresh.unlock.0));
    let met = windows.find(|window| spans.iter().any(|span| span.0 < window.1 && window.0 < span.1));
    met.map(|window| Picoseconds(window.0))
}
