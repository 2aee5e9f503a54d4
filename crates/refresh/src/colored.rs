//! Colored Refresh: a cyclic executive of the analysis becomes a table of the simulator.
//!
//! Triggering refreshes takes no processor time here, as in chapter 4 of \[Pan18\], where the memory controller does
//! it: lock tasks have a separate core. A color is locked from the beginning of its frame; its burst begins after the
//! lock time of the file, in which requests under way end and dirty lines are written back.

use memtint_hiding::cyclic::{Answer, Executive, Limits, Problem, color};
use memtint_sched::TaskIndex;
use memtint_sim::scenario::{ScenarioTask, SchedulingName, SlotSection, TableSection, Time};
use memtint_units::Picoseconds;

use crate::RefreshError;
use crate::bound::{Bound, Bounds};
use crate::job::globals;
use crate::scenario::{Plan, empty, instance_name, list, on, section};
use crate::simulate::Setup;

/// The core of lock tasks, behind those of the tasks.
const LOCK_CORE: u32 = 1;
/// The core of the tasks.
const CORE: u32 = 0;

/// The scenario of the best executive, and its bounds.
pub(crate) fn setup(plan: &Plan<'_>) -> Result<(Setup, Bounds), RefreshError> {
    let (problem, executive) = schedule(plan)?;
    let setup = of_executive(plan, &problem, &executive)?;
    Ok((setup, bounds(plan, &executive)))
}

fn no_schedule(plan: &Plan<'_>, reason: String) -> RefreshError {
    RefreshError::NoSchedule { file: plan.file.name.clone(), scheme: plan.scheme.name(), reason }
}

/// Of the frames to try, the first in which all jobs fit.
fn schedule(plan: &Plan<'_>) -> Result<(Problem, Executive), RefreshError> {
    let file = plan.file;
    let limits =
        Limits { copies_max: file.cyclic.copies_max.unwrap_or(Limits::default().copies_max), ..Limits::default() };
    let mut reason = "no frame fits the periods, deadlines and bursts".to_owned();
    for frames in file.frame_choices()? {
        let ranks =
            u128::from(frames.color.0) * u128::from(plan.memory.ranks) / u128::from(plan.memory.retention.0.max(1));
        let locked = plan.memory.lock + plan.machine.burst(ranks as u32, plan.memory.bursts);
        if locked > frames.color {
            reason = format!("lock and burst take {locked}, and a colored frame is {} long", frames.color);
            continue;
        }
        let problem = match file.problem(frames) {
            Ok(problem) => problem,
            Err(error) => {
                reason = error.to_string();
                continue;
            }
        };
        match color(&problem, limits) {
            Answer::Schedulable(solution) => return Ok((problem, solution.executive)),
            Answer::Unschedulable(_) => reason = format!("jobs do not fit into frames of {}", frames.size),
            Answer::Unsupported(found) => reason = format!("the search does not answer: {found:?}"),
        }
    }
    Err(no_schedule(plan, reason))
}

/// The scenario of an executive.
pub(crate) fn of_executive(plan: &Plan<'_>, problem: &Problem, table: &Executive) -> Result<Setup, RefreshError> {
    let each = problem.ranks_per_color();
    let name = |task: TaskIndex, instance: usize| instance_name(plan.file.set[task].name(), instance);
    let (mut tasks, mut instances) = (Vec::new(), Vec::new());
    // Originals come first: their places are those of the set.
    let most = table.instances.iter().map(Vec::len).max().unwrap_or(1);
    let all = (0..most).flat_map(|instance| (0..table.instances.len()).map(move |task| (task, instance)));
    for (task, instance) in all.filter(|&(task, instance)| instance < table.instances[task].len()) {
        let colors = table.instances[task][instance].colors.colors();
        let ranks = colors.into_iter().flat_map(|color| color * each..(color + 1) * each);
        let ranks: Vec<u32> = ranks.take(plan.file.tasks[task].ranks as usize).collect();
        tasks.push(ScenarioTask {
            core: Some(CORE),
            ranks: Some(list(&ranks, plan.machine)?),
            job: (instance == 0).then(|| plan.job(task)),
            copy_of: (instance > 0).then(|| name(TaskIndex(task), 0)),
            copy: Time(plan.file.tasks[task].copy),
            globals: globals(plan.file, task)?,
            ..section(name(TaskIndex(task), instance), plan.jobs[task].workload.workload())
        });
        instances.push((task, ranks));
    }
    let mut file = empty(plan.machine, plan.scheme, 2, plan.duration, plan.seed, tasks);
    file.system.scheduling = SchedulingName::Table;
    let slot = |slot: &memtint_hiding::cyclic::Slot| SlotSection {
        task: name(slot.id.task, slot.instance),
        start: Time(slot.start),
        length: Time(slot.end - slot.start),
        core: None,
    };
    let slots = table.slots.iter().map(slot).collect();
    file.table = Some(TableSection { cycle: Time(table.cycle), core: CORE, slot: slots });
    // They repeat each retention time.
    let refreshes = table.refreshes.iter().filter(|refresh| refresh.start < plan.memory.retention);
    let window = |refresh: &memtint_hiding::cyclic::Refresh| {
        plan.window(&refresh.ranks.clone().collect::<Vec<_>>(), refresh.start)
    };
    let windows = refreshes.map(window).collect::<Result<_, RefreshError>>()?;
    file.timetable = Some(plan.locked(windows, LOCK_CORE.to_string()));
    Ok(Setup { scenario: on(plan.machine, file, &plan.file.name)?, instances })
}

/// A job is complete when its last slot ends.
pub(crate) fn bounds(plan: &Plan<'_>, table: &Executive) -> Bounds {
    let cycle = table.cycle.0;
    let mut longest = vec![0; plan.file.set.tasks().len()];
    for slot in &table.slots {
        let task = &plan.file.set[slot.id.task];
        let arrival = (task.phase().0 + slot.id.job * task.period().0) % cycle;
        // A window at the end of a cycle continues at its beginning.
        let response = (slot.end.0 + cycle - arrival - 1) % cycle + 1;
        let own = &mut longest[slot.id.task.index()];
        *own = response.max(*own);
    }
    let (frame, color) = (table.frames.size, table.frames.color);
    Bounds {
        tasks: longest.into_iter().map(|response| Bound::Within(Picoseconds(response))).collect(),
        analysis: format!(
            "a cyclic executive with frames of {} ms, colored by {} ms: a job is complete when its last slot ends",
            frame.0 as f64 / 1e9,
            color.0 as f64 / 1e9
        ),
    }
}
