//! An independent checker of cyclic executives.
//!
//! It shares no code with their construction. It reads the tasks, the memory, the footprints and the table, counts time
//! instead of frames, and computes the ranks of each instance's data itself. An accepted table repeats for ever without
//! a deadline miss, and without a request to a rank during its frame of refresh.

use crate::cyclic::problem::{JobId, Problem, Sharing};
use crate::cyclic::table::{Executive, Slot};
use memtint_sched::TaskIndex;
use memtint_units::Picoseconds;

/// Statistics of an accepted table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Jobs in a cycle; each runs in full in its window.
    pub jobs: u64,
    /// Slices beyond the first of each job.
    pub extra_slices: u64,
    /// Jobs that another instance executes than the job before.
    pub switches: u64,
    /// Instances beyond the first of each task.
    pub copies: u32,
    /// The longest time from the beginning of one refresh of a rank to the beginning of its next.
    pub refresh_gap: Picoseconds,
    /// Time in a cycle for which nothing runs.
    pub idle: Picoseconds,
}

/// Why a table is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The cycle is not a multiple of each period, of the retention time, and of the frames.
    #[error("cycle: {found} found; accepted is a multiple of {of}")]
    Cycle {
        /// The cycle found.
        found: Picoseconds,
        /// The length that must divide it.
        of: Picoseconds,
    },
    /// A slot is empty, before the end of the one before, over the end of its frame or the cycle, or of no task or instance.
    #[error(
        "slot {slot}: from {start} to {end} found; accepted is a slot after the one before, within one frame, of a task and an instance of it"
    )]
    Slot {
        /// Index of the slot, from 0.
        slot: usize,
        /// Its beginning.
        start: Picoseconds,
        /// Its end.
        end: Picoseconds,
    },
    /// Instances are not as many, or not of as many ranks, as needed, or have a color that does not exist.
    #[error(
        "task {task}: instances of {ranks:?} ranks found; accepted are one or more, each of {needed} ranks or more, in colors that exist"
    )]
    Instances {
        /// The task.
        task: TaskIndex,
        /// Ranks of each instance.
        ranks: Vec<u32>,
        /// What it needs.
        needed: u32,
    },
    /// Two instances have a rank in common, and should not.
    #[error("task {task}: rank {rank} belongs to task {other} too")]
    Shared {
        /// The task.
        task: TaskIndex,
        /// The one that has it too; may be the same.
        other: TaskIndex,
        /// The rank.
        rank: u32,
    },
    /// A slice runs before the release or after the deadline of its job, or while an earlier one has not ended.
    #[error("slot {slot}: task {}, job {} runs outside of its window, or out of order", id.task, id.job)]
    Outside {
        /// Index of the slot, from 0.
        slot: usize,
        /// The job.
        id: JobId,
    },
    /// The slices of a job are not numbered 0, 1, 2 and so on, or not all of one instance.
    #[error("task {}, job {}: slices are not numbered in order, or change the instance", id.task, id.job)]
    Slices {
        /// The job.
        id: JobId,
    },
    /// A job does not get its WCET plus the cost of its slices and its copy.
    #[error("task {}, job {}: {} found; accepted is {} or more", id.task, id.job, found, needed)]
    Short {
        /// The job.
        id: JobId,
        /// The time that it gets.
        found: Picoseconds,
        /// What it needs.
        needed: Picoseconds,
    },
    /// A job has another instance than the one before, and there is no moment to copy: not at the end of the job before, in whose
    /// last frame a rank of the one is refreshed, and not at its own beginning; or it would have to copy at both ends.
    #[error("task {}, job {}: no moment to copy its data, in which neither instance is refreshed", id.task, id.job)]
    Copy {
        /// The job.
        id: JobId,
    },
    /// A slice runs in a frame in which a rank that has its data is refreshed.
    #[error("slot {slot}: runs in a frame in which its rank {rank} is refreshed")]
    Refreshed {
        /// Index of the slot, from 0.
        slot: usize,
        /// The rank.
        rank: u32,
    },
    /// A rank is not refreshed in full within the retention time.
    #[error("rank {rank}: {found} from one refresh to the next, or one not in full; accepted is at most {most}")]
    Retention {
        /// The rank.
        rank: u32,
        /// The gap.
        found: Picoseconds,
        /// The retention time.
        most: Picoseconds,
    },
    /// The table's number of switches is wrong.
    #[error("switches: {found} found; accepted is {counted}, which the table has")]
    Switches {
        /// The number stated.
        found: u64,
        /// The actual number.
        counted: u64,
    },
}

/// Replays an executive against the problem that it should solve.
///
/// # Errors
///
/// The first [`Fault`] found.
pub fn check_executive(problem: &Problem, table: &Executive) -> Result<Checked, Fault> {
    lengths(problem, table)?;
    let ranks = instances(problem, table)?;
    slots(problem, table)?;
    let refresh_gap = retention(problem, table)?;
    refreshed(table, &ranks)?;
    let (jobs, switches) = jobs(problem, table, &ranks)?;
    if switches != table.switches {
        return Err(Fault::Switches { found: table.switches, counted: switches });
    }
    let busy: u64 = table.slots.iter().map(|slot| slot.end.0 - slot.start.0).sum();
    Ok(Checked {
        jobs,
        extra_slices: table.slots.len() as u64 - jobs,
        switches,
        copies: table.instances.iter().map(|own| own.len() as u32 - 1).sum(),
        refresh_gap,
        idle: Picoseconds(table.cycle.0 - busy),
    })
}

fn lengths(problem: &Problem, table: &Executive) -> Result<(), Fault> {
    let mut of: Vec<Picoseconds> = problem.set().tasks().iter().map(|own| own.period()).collect();
    of.extend([problem.memory().retention(), table.frames.size, table.frames.color]);
    match of.into_iter().find(|of| of.0 == 0 || table.cycle.0 == 0 || !table.cycle.0.is_multiple_of(of.0)) {
        Some(of) => Err(Fault::Cycle { found: table.cycle, of }),
        None => Ok(()),
    }
}

/// The ranks of each instance, as bits.
fn instances(problem: &Problem, table: &Executive) -> Result<Vec<Vec<Vec<u32>>>, Fault> {
    let all = problem.memory().ranks();
    let colors = problem.memory().retention().0 / table.frames.color.0;
    let each = u64::from(all) / colors.max(1);
    let mut owners: Vec<Option<TaskIndex>> = vec![None; all as usize];
    let mut found = Vec::new();
    for (task, own) in (0..).map(TaskIndex).zip(&table.instances) {
        let needed = problem.footprints.get(task.index()).map_or(1, |own| own.ranks);
        let exist = |color: &u32| u64::from(*color) < colors;
        let ranks: Vec<Vec<u32>> = own
            .iter()
            .map(|one| {
                let colors = one.colors.colors().into_iter().filter(exist).map(u64::from);
                colors.flat_map(|color| color * each..(color + 1) * each).map(|rank| rank as u32).collect()
            })
            .collect();
        let counts: Vec<u32> = ranks.iter().map(|own| own.len() as u32).collect();
        let strange = own.iter().any(|one| !one.colors.colors().iter().all(exist));
        if own.is_empty() || strange || counts.iter().any(|&count| count < needed) {
            return Err(Fault::Instances { task, ranks: counts, needed });
        }
        if problem.sharing == Sharing::Private {
            for &rank in ranks.iter().flatten() {
                if let Some(other) = owners[rank as usize].replace(task) {
                    return Err(Fault::Shared { task, other, rank });
                }
            }
        }
        found.push(ranks);
    }
    let tasks = problem.set().tasks().len();
    if found.len() != tasks {
        return Err(Fault::Instances { task: TaskIndex(found.len().min(tasks)), ranks: Vec::new(), needed: 1 });
    }
    Ok(found)
}

fn slots(problem: &Problem, table: &Executive) -> Result<(), Fault> {
    let mut free = 0;
    for (index, slot) in table.slots.iter().enumerate() {
        let (start, end, size) = (slot.start.0, slot.end.0, table.frames.size.0);
        let task = problem.set().tasks().get(slot.id.task.index());
        let exists = task.is_some_and(|own| slot.id.job < table.cycle.0 / own.period().0)
            && slot.instance < table.instances[slot.id.task.index()].len();
        if start < free || end <= start || end > table.cycle.0 || start / size != (end - 1) / size || !exists {
            return Err(Fault::Slot { slot: index, start: slot.start, end: slot.end });
        }
        free = end;
    }
    Ok(())
}

/// The longest gap between refreshes of a rank, round the cycle.
fn retention(problem: &Problem, table: &Executive) -> Result<Picoseconds, Fault> {
    let most = problem.memory().retention();
    let mut longest = Picoseconds(0);
    for rank in 0..problem.memory().ranks() {
        let own: Vec<_> = table.refreshes.iter().filter(|refresh| refresh.ranks.contains(&rank)).collect();
        let mut starts: Vec<u64> = Vec::new();
        for refresh in own {
            let needed = problem.memory().burst(refresh.ranks.len() as u32);
            let frame_end = (refresh.start.0 / table.frames.color.0 + 1) * table.frames.color.0;
            if refresh.end.0 < refresh.start.0 + needed.0 || refresh.end.0 > frame_end.min(table.cycle.0) {
                let found = Picoseconds(refresh.end.0.saturating_sub(refresh.start.0));
                return Err(Fault::Retention { rank, found, most });
            }
            starts.push(refresh.start.0);
        }
        starts.sort_unstable();
        let round = starts.iter().skip(1).copied().chain(starts.first().map(|first| first + table.cycle.0));
        let gap = starts.iter().zip(round).map(|(start, next)| next - start).max();
        let found = Picoseconds(gap.unwrap_or(u64::MAX));
        if found > most {
            return Err(Fault::Retention { rank, found, most });
        }
        longest = longest.max(found);
    }
    Ok(longest)
}

/// The ranks that are refreshed in each colored frame.
fn refreshed_in(table: &Executive) -> Vec<Vec<u32>> {
    let color = table.frames.color.0;
    let mut in_frame: Vec<Vec<u32>> = vec![Vec::new(); (table.cycle.0 / color) as usize];
    for refresh in &table.refreshes {
        if let Some(ranks) = in_frame.get_mut((refresh.start.0 / color) as usize) {
            ranks.extend(refresh.ranks.clone());
        }
    }
    in_frame
}

/// Checks that no task runs in a colored frame in which a rank of its instance is refreshed.
fn refreshed(table: &Executive, ranks: &[Vec<Vec<u32>>]) -> Result<(), Fault> {
    let (color, in_frame) = (table.frames.color.0, refreshed_in(table));
    for (index, slot) in table.slots.iter().enumerate() {
        let own = &ranks[slot.id.task.index()][slot.instance];
        if let Some(&rank) = in_frame[(slot.start.0 / color) as usize].iter().find(|rank| own.contains(rank)) {
            return Err(Fault::Refreshed { slot: index, rank });
        }
    }
    Ok(())
}

/// Every job of a cycle: how many there are, and how many change the instance.
fn jobs(problem: &Problem, table: &Executive, ranks: &[Vec<Vec<u32>>]) -> Result<(u64, u64), Fault> {
    let frames = refreshed_in(table);
    let (mut count, mut switches) = (0, 0);
    for (task, own) in problem.set().indexed() {
        let mut slots: Vec<Vec<(usize, &Slot)>> = vec![Vec::new(); (table.cycle.0 / own.period().0) as usize];
        for found in table.slots.iter().enumerate().filter(|(_, slot)| slot.id.task == task) {
            slots[found.1.id.job as usize].push(found);
        }
        let copy = problem.footprints[task.index()].copy.0;
        let copies = copies(&slots, &ranks[task.index()], &frames, table, copy > 0)
            .map_err(|job| Fault::Copy { id: JobId { task, job: job as u64 } })?;
        let instance = |job: usize| slots[job].first().map(|(_, slot)| slot.instance);
        for job in 0..slots.len() {
            let id = JobId { task, job: job as u64 };
            let before = instance(job.checked_sub(1).unwrap_or(slots.len() - 1));
            one_job(problem, table, id, &slots[job], copy * copies[job])?;
            switches += u64::from(instance(job) != before);
            count += 1;
        }
    }
    Ok((count, switches))
}

/// How often each job of a task copies data, 0 or 1: for the next job at its end, if no rank of the next one's instance is refreshed in
/// its last frame, or for itself at its beginning, if none of the instance before is in its first. The job for which
/// neither can be where that is not so, or where one would copy twice.
fn copies(
    slots: &[Vec<(usize, &Slot)>],
    ranks: &[Vec<u32>],
    frames: &[Vec<u32>],
    table: &Executive,
    data: bool,
) -> Result<Vec<u64>, usize> {
    let mut copies = vec![0; slots.len()];
    let ends = |job: usize| {
        let own = || slots[job].iter().map(|(_, slot)| *slot);
        own().min_by_key(|slot| slot.slice).zip(own().max_by_key(|slot| slot.slice))
    };
    for job in 0..slots.len() {
        let before = job.checked_sub(1).unwrap_or(slots.len() - 1);
        let Some(((_, last), (first, _))) = ends(before).zip(ends(job)) else { continue };
        if last.instance == first.instance || !data {
            continue;
        }
        let meets = |slot: &Slot, instance: usize| {
            frames[(slot.start.0 / table.frames.color.0) as usize].iter().any(|rank| ranks[instance].contains(rank))
        };
        let who = match (meets(last, first.instance), meets(first, last.instance)) {
            (false, _) => before,
            (_, false) => job,
            _ => return Err(job),
        };
        copies[who] += 1;
        if copies[who] > 1 {
            return Err(job);
        }
    }
    Ok(copies)
}

fn one_job(problem: &Problem, table: &Executive, id: JobId, slots: &[(usize, &Slot)], copy: u64) -> Result<(), Fault> {
    let own = &problem.set()[id.task];
    let arrival = own.phase().0 + id.job * own.period().0;
    let (release, due) = (arrival + own.jitter().0, arrival + own.deadline().0);
    // The table's time names a point of each cycle; the first at or after the arrival is meant.
    let unroll = |time: u64| arrival + (time % table.cycle.0 + table.cycle.0 - arrival % table.cycle.0) % table.cycle.0;
    let mut sorted: Vec<(usize, &Slot)> = slots.to_vec();
    sorted.sort_by_key(|(_, slot)| slot.slice);
    let (mut found, mut free) = (0, release);
    for (number, &(index, slot)) in sorted.iter().enumerate() {
        if slot.slice as usize != number || slot.instance != sorted[0].1.instance {
            return Err(Fault::Slices { id });
        }
        let time = slot.end.0 - slot.start.0;
        let start = unroll(slot.start.0);
        if start < free || start + time > due {
            return Err(Fault::Outside { slot: index, id });
        }
        free = start + time;
        found += time;
    }
    let again = sorted.len().saturating_sub(1) as u64;
    let needed = own.wcet().0 + copy + again * problem.slice.0;
    if found < needed {
        return Err(Fault::Short { id, found: Picoseconds(found), needed: Picoseconds(needed) });
    }
    Ok(())
}
