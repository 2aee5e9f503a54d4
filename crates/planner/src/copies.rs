//! Servers for task sets with copy tasks. The optimizer of servers does not support copy tasks; this module reduces the
//! problem to one without them.
//!
//! Each copied task counts in both servers, as an ordinary task with a deadline that is long enough. Its jobs are due
//! there at the earliest with those of an ordinary task of the server and, as in a window with a lock, later by `c =
//! max(0, L + D - T)`. Servers that pass the analysis of copy tasks also hold these ordinary tasks, so the optimum for
//! the ordinary tasks is a lower bound. If that optimum passes the analysis, it is the best choice. Otherwise,
//! deadlines are shortened, down to `D + c`; with these, every choice that the optimizer admits passes.
//!
//! A server that holds only copied tasks is an exception: it needs no time for jobs that its lock meets, and its supply
//! without the lock may suffice. The bound, and any proof from it, therefore covers only choices in which each server
//! also has a task that is not copied. A cheaper choice without such a task is taken when found, but never reported as
//! the best.

use memtint_analysis::TaskSystem;
use memtint_hiding::HidingError;
use memtint_hiding::crs::{Admission, Choice, Optimum, Refresh, Space, optimize};
use memtint_sched::{Effort, TaskIndex, TaskSet, Unsupported};
use memtint_units::Picoseconds;

use crate::servers::{Best, End};

/// The most ordinary tasks for which every assignment is tried. With more, they are assigned as if there were no copy
/// tasks.
const ASSIGNED_MAX: usize = 6;
/// Number of steps in which deadlines are shortened, from the necessary to the sufficient ones.
const STEPS: u64 = 2;

/// Returns which tasks have an instance in both servers: those that the file declares so, and those that neither server
/// can hold alone, because the lock of its color is not shorter than their deadline.
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
    // Whether both servers have a task that is not copied. If every assignment is tried, the bound holds for these.
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
        // Among equal costs, choices that the bound covers come first.
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
                    format!("among the choices tried; proved: less than {least} is impossible")
                }
                _ => "among the choices tried".to_owned(),
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

/// The task set for the optimizer, and the server of each task.
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
    (TaskSet::new(specs).expect("tasks of a set, with unique names"), places)
}
