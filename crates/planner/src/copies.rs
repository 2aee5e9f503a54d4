//! Servers for tasks of which some have an instance in both: what the optimizer of servers, which knows no copy tasks, is asked,
//! and what becomes of its answers.
//!
//! Each copied task counts in both servers, as an ordinary one whose deadline is long enough. Its jobs are due there at the earliest with those
//! of an ordinary task of the server and, as in a window with a lock, later by `c = max(0, L + D - T)`. What passes the analysis of copy tasks
//! holds such tasks, so that no choice that passes costs less than the best for them. If that passes, it is the best; otherwise deadlines
//! are shortened, down to `D + c`, with which whatever the optimizer admits passes.
//!
//! A server of copied tasks alone is an exception: it needs no time for those that its lock meets, and its supply without the lock may be
//! enough. So the bound, and with it what is proved, is about choices in which each server has a task that is not copied, too. A
//! cheaper choice without one is taken where it is found, and is never said to be the best.

use memtint_analysis::TaskSystem;
use memtint_hiding::HidingError;
use memtint_hiding::crs::{Admission, Choice, Optimum, Refresh, Space, optimize};
use memtint_sched::{Effort, TaskIndex, TaskSet, Unsupported};
use memtint_units::Picoseconds;

use crate::servers::{Best, End};

/// The most ordinary tasks whose every assignment is tried; more are assigned as without copies.
const ASSIGNED_MAX: usize = 6;
/// How far deadlines are shortened from what is needed to what is enough, in parts of this.
const STEPS: u64 = 2;

/// Tells which tasks have an instance in both servers: those of which the file says so, and those that neither can hold alone, because
/// the lock of its color is not shorter than their deadline.
pub(crate) fn copied(file: &TaskSystem, refresh: &Refresh) -> Vec<bool> {
    let locked = refresh.locked(0).min(refresh.locked(1));
    let tasks = file.set.tasks().iter().zip(&file.tasks);
    tasks
        .map(|(task, more)| more.copy_server.is_some() || task.deadline().0 <= locked.0.saturating_add(task.jitter().0))
        .collect()
}

/// Finds servers on one core that `passes` accepts.
pub(crate) fn best(
    file: &TaskSystem,
    copied: &[bool],
    space: &Space,
    effort: Effort,
    passes: &dyn Fn(&Best) -> Result<bool, HidingError>,
) -> Result<Option<Best>, End> {
    let (twice, once): (Vec<TaskIndex>, Vec<TaskIndex>) = file.set.indices().partition(|&task| copied[task.index()]);
    let all = once.len() <= ASSIGNED_MAX;
    let assignments = match all {
        true => (0..1u32 << once.len()).map(|mask| (0..once.len()).map(|bit| mask >> bit & 1 == 1).collect()).collect(),
        false => as_without_copies(file, &once, space, effort)?,
    };
    // Whether both servers have a task that is not copied: what the bound is about, if every assignment is tried.
    let counted = |second: &[bool]| all && [false, true].iter().all(|server| second.contains(server));
    let mut least = None;
    for step in 0..=STEPS {
        let mut found: Vec<(Optimum, &Vec<bool>)> = Vec::new();
        for second in &assignments {
            let (set, places) = counted_twice(file, &twice, (&once, second), space, step);
            if let Some(best) = optimize(&set, Some(&places), space, Admission::Supply, effort)? {
                found.push((best, second));
            }
        }
        // Of those that cost the same, the ones that the bound is about come first.
        found.sort_by(|one, other| one.0.unhidden.cmp(&other.0.unhidden).then(counted(other.1).cmp(&counted(one.1))));
        if step == 0 {
            if found.is_empty() {
                return Ok(None);
            }
            least = found.iter().find(|(_, second)| counted(second)).map(|(best, _)| best.unhidden.clone());
        }
        for (own, second) in found {
            let mut best = Best {
                cores: vec![(once.clone(), Choice { second: second.clone(), ..own.choice })],
                copied: twice.clone(),
                unhidden: own.unhidden.to_string(),
                proved: false,
                admission: Admission::Supply,
                why: String::new(),
                assignments: "",
            };
            if !passes(&best)? {
                continue;
            }
            best.proved = counted(second) && least.as_ref() == Some(&own.unhidden);
            best.assignments = match counted(second) {
                true => "every assignment of tasks that leaves each server one that is not copied",
                false if all => "every assignment of tasks",
                false => "the assignment of tasks that is best for those that are not copied",
            };
            best.why = match (&least, best.proved) {
                (_, true) => "proved by branch and bound, with copied tasks counted in both servers".to_owned(),
                (Some(least), _) if counted(second) => {
                    format!("as far as was searched; proved is that less than {least} is out of reach")
                }
                _ => "as far as was searched".to_owned(),
            };
            return Ok(Some(best));
        }
    }
    Ok(None)
}

/// The assignment of ordinary tasks that is best for them alone.
fn as_without_copies(
    file: &TaskSystem,
    once: &[TaskIndex],
    space: &Space,
    effort: Effort,
) -> Result<Vec<Vec<bool>>, Unsupported> {
    let set = TaskSet::new(once.iter().map(|&task| file.set[task].spec()));
    let set = set.expect("tasks of a set are one");
    Ok(optimize(&set, None, space, Admission::Supply, effort)?.into_iter().map(|best| best.choice.second).collect())
}

/// The set that the optimizer is asked about, and the server of each of its tasks.
fn counted_twice(
    file: &TaskSystem,
    twice: &[TaskIndex],
    (once, second): (&[TaskIndex], &[bool]),
    space: &Space,
    step: u64,
) -> (TaskSet, Vec<bool>) {
    let task = |index: TaskIndex| &file.set[index];
    let (mut specs, mut places) = (Vec::new(), Vec::new());
    for (&index, &second) in once.iter().zip(second) {
        specs.push(task(index).spec());
        places.push(second);
    }
    for server in [false, true] {
        let own = once.iter().zip(second).filter(|&(_, &second)| second == server);
        let first = own.map(|(&index, _)| task(index).deadline().saturating_sub(task(index).jitter())).min();
        let locked = space.refresh().locked(usize::from(server));
        for &index in twice {
            let mut spec = task(index).spec();
            spec.name = format!("{} in server {}", spec.name, usize::from(server));
            spec.wcet += file.tasks[index.index()].copy;
            let enough =
                task(index).deadline() + (locked + task(index).deadline()).saturating_sub(task(index).period());
            let needed = first.unwrap_or(space.refresh().retention) + task(index).jitter();
            let spared = needed.0.saturating_sub(enough.0);
            let deadline = enough + Picoseconds(spared - spared / STEPS * step.min(STEPS));
            specs.push(spec.deadline(if step == STEPS { enough } else { deadline }));
            places.push(server);
        }
    }
    (TaskSet::new(specs).expect("tasks of a set, with names of their own"), places)
}
