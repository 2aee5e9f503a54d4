//! Cyclic executives: the times of slices and refreshes; and the dissertation's order of construction.

use crate::cyclic::flow::{Cut, Placement, place};
use crate::cyclic::frames::Frames;
use crate::cyclic::problem::{ColorSet, JobId, Problem, Sharing, Unanswered};
use memtint_sched::TaskIndex;
use memtint_units::Picoseconds;
use std::ops::Range;

/// An instance of a task: the original, or a copy task (4.3.3) that does the same on data elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Colors that hold its data; its footprint is in ranks of these.
    pub colors: ColorSet,
}

/// A stretch in which a slice of a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The job.
    pub id: JobId,
    /// The slice, from 0, in the order in which they run.
    pub slice: u32,
    /// Index of the instance, from 0 for the original.
    pub instance: usize,
    /// When it begins, from the beginning of a cycle.
    pub start: Picoseconds,
    /// When it ends, excluded.
    pub end: Picoseconds,
}

/// A burst refresh, at the beginning of a colored frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// The color.
    pub color: u32,
    /// Its ranks.
    pub ranks: Range<u32>,
    /// When it begins, from the beginning of a cycle.
    pub start: Picoseconds,
    /// When all its ranks have been refreshed.
    pub end: Picoseconds,
}

/// A cyclic executive with colors: one cycle, which repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executive {
    /// The cycle `L`.
    pub cycle: Picoseconds,
    /// The frames it is made of.
    pub frames: Frames,
    /// The instances of each task, one or more.
    pub instances: Vec<Vec<Instance>>,
    /// All slices, in order of time.
    pub slots: Vec<Slot>,
    /// All refreshes, in order of time.
    pub refreshes: Vec<Refresh>,
    /// Jobs that another instance executes than the job before of the same task, so that globals are brought over.
    pub switches: u64,
}

impl Executive {
    /// Gives the number of a slot's frame, from the beginning of a cycle.
    #[must_use]
    pub fn frame(&self, slot: &Slot) -> u64 {
        slot.start.0 / self.frames.size.0
    }

    /// Counts the copy tasks.
    #[must_use]
    pub fn copies(&self) -> u32 {
        self.instances.iter().map(|own| own.len() as u32 - 1).sum()
    }

    /// Counts slices beyond the first of each job.
    #[must_use]
    pub fn extra_slices(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.slice > 0).count() as u64
    }
}

/// Makes the table of a placement; the portions of each job must leave one of its instances alone.
pub(crate) fn table(problem: &Problem, placement: &Placement, colors: &[Vec<ColorSet>]) -> Executive {
    let (chosen, switches) = choose_instances(problem, placement, colors);
    let size = problem.frames.size.0;
    let mut slots: Vec<Slot> = Vec::new();
    let mut before: Option<(JobId, u32)> = None;
    for portion in &placement.portions {
        let slice = before.filter(|&(id, _)| id == portion.id).map_or(0, |(_, slice)| slice + 1);
        before = Some((portion.id, slice));
        let instance = chosen[portion.id.task.index()][portion.id.job as usize];
        let start = Picoseconds(portion.frame * size);
        slots.push(Slot { id: portion.id, slice, instance, start, end: start + portion.time });
    }
    slots.sort_by_key(|slot| (slot.start, slot.id));
    let mut free = 0;
    for slot in &mut slots {
        let time = slot.end.0 - slot.start.0;
        slot.start.0 = slot.start.0.max(free);
        free = slot.start.0 + time;
        slot.end.0 = free;
    }
    let within = |slot: &Slot| slot.start.0 / size == (slot.end.0 - 1) / size;
    assert!(slots.iter().all(within), "a slot goes beyond its frame");
    assert!(slots.windows(2).all(|pair| pair[0].end <= pair[1].start), "two slots overlap");
    let instances = colors.iter().map(|own| own.iter().map(|&colors| Instance { colors }).collect()).collect();
    let (cycle, frames, refreshes) = (problem.cycle(), problem.frames, refreshes(problem));
    Executive { cycle, frames, instances, slots, refreshes, switches }
}

fn refreshes(problem: &Problem) -> Vec<Refresh> {
    let (each, long) = (problem.ranks_per_color(), problem.frames.color.0);
    let one = |number: u64| {
        let start = Picoseconds(number * long);
        let color = problem.color_of(start.0 / problem.frames.size.0);
        let ranks = color * each..(color + 1) * each;
        Refresh { color, ranks, start, end: start + problem.memory.burst(each) }
    };
    (0..problem.cycle / long).map(one).collect()
}

/// Where the jobs of a task run, seen from the colors that are refreshed: of each job all of them, the first and the last.
struct Met {
    colors: u64,
    first: u64,
    last: u64,
}

fn met(problem: &Problem, placement: &Placement, task: usize) -> Vec<Met> {
    let jobs = (problem.cycle().0 / problem.set.tasks()[task].period().0) as usize;
    let mut met: Vec<Met> = (0..jobs).map(|_| Met { colors: 0, first: 0, last: 0 }).collect();
    for portion in placement.portions.iter().filter(|portion| portion.id.task == TaskIndex(task)) {
        let (own, color) = (&mut met[portion.id.job as usize], 1 << problem.color_of(portion.frame));
        own.first = if own.colors == 0 { color } else { own.first };
        (own.colors, own.last) = (own.colors | color, color);
    }
    met
}

/// A change of instance without a moment to copy, beside which changes do not count.
const NO_MOMENT: u64 = 1 << 32;

/// Chooses the instance of each job so that the fewest jobs have another than the one before and no moment to copy, and then the
/// fewest have another; after the last comes the first.
fn choose_instances(problem: &Problem, placement: &Placement, colors: &[Vec<ColorSet>]) -> (Vec<Vec<usize>>, u64) {
    let mut switches = 0;
    let mut chosen = Vec::new();
    for (task, own) in colors.iter().enumerate() {
        let best = choose(problem, placement, task, own);
        let (instances, cost) = best.expect("an instance that each job leaves alone");
        switches += cost % NO_MOMENT;
        chosen.push(instances);
    }
    (chosen, switches)
}

/// Whether a task with instances of these colors can be placed so, with a moment for each copy in which neither of the two
/// instances is refreshed.
pub(crate) fn has_moments(problem: &Problem, placement: &Placement, task: usize, own: &[ColorSet]) -> bool {
    choose(problem, placement, task, own).is_some_and(|(_, cost)| cost < NO_MOMENT)
}

fn choose(problem: &Problem, placement: &Placement, task: usize, own: &[ColorSet]) -> Option<(Vec<usize>, u64)> {
    let met = met(problem, placement, task);
    let data = problem.footprints[task].copy.0 > 0;
    let firsts = (0..own.len()).filter(|&first| own[first].0 & met[0].colors == 0);
    firsts.filter_map(|first| sequence(own, &met, first, data)).min_by_key(|&(_, cost)| cost)
}

/// The cheapest sequence of instances when the first is given; the change back to it counts. `None` when a job has none.
fn sequence(own: &[ColorSet], met: &[Met], first: usize, data: bool) -> Option<(Vec<usize>, u64)> {
    const NEVER: u64 = u64::MAX / 2;
    // The one copies at the end of its job, or the other at the beginning of the next.
    let change = |job: usize, before: usize, after: usize| {
        let (last, next) = (met[(job + met.len() - 1) % met.len()].last, met[job].first);
        let moment = !data || last & own[after].0 == 0 || next & own[before].0 == 0;
        if before == after { 0 } else { 1 + if moment { 0 } else { NO_MOMENT } }
    };
    let mut costs: Vec<u64> = (0..own.len()).map(|instance| if instance == first { 0 } else { NEVER }).collect();
    let mut from = Vec::new();
    for (job, own_met) in met.iter().enumerate().skip(1) {
        let step = |instance: usize| {
            let cost = |before: usize| costs[before] + change(job, before, instance);
            let before = (0..own.len()).min_by_key(|&before| cost(before)).expect("an instance");
            if own[instance].0 & own_met.colors == 0 { (cost(before), before) } else { (NEVER, before) }
        };
        let steps: Vec<(u64, usize)> = (0..own.len()).map(step).collect();
        costs = steps.iter().map(|&(cost, _)| cost.min(NEVER)).collect();
        from.push(steps.iter().map(|&(_, before)| before).collect::<Vec<_>>());
    }
    let total = |last: usize| costs[last] + change(0, last, first);
    let mut last = (0..own.len()).min_by_key(|&last| total(last)).expect("an instance");
    let cost = total(last);
    let mut chosen = vec![last];
    for from in from.iter().rev() {
        last = from[last];
        chosen.push(last);
    }
    chosen.reverse();
    (cost < NEVER).then_some((chosen, cost))
}

/// Gives the colors that are left for a task that runs while these are refreshed: the last column of Tables 4.2, 4.3, 4.5.
#[must_use]
pub fn available_colors(occupied: ColorSet, colors: u32) -> ColorSet {
    let all = if colors >= 64 { u64::MAX } else { (1 << colors) - 1 };
    ColorSet(all & !occupied.0)
}

/// A placement made without regard to colors, and the colors that it happens to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThenAvoid {
    /// The placement.
    pub placement: Placement,
    /// Colors that are refreshed while each task runs.
    pub occupied: Vec<ColorSet>,
    /// Colors left for each task.
    pub available: Vec<ColorSet>,
    /// One color set for each task that finds enough colors, the first available, one task after another.
    pub chosen: Vec<Option<ColorSet>>,
}

impl ThenAvoid {
    /// Lists the tasks for which copy tasks would be made, because no colors are left for them.
    #[must_use]
    pub fn copied(&self) -> Vec<TaskIndex> {
        (0..self.chosen.len()).map(TaskIndex).filter(|task| self.chosen[task.index()].is_none()).collect()
    }
}

/// Places jobs by maximum flow and looks for colors afterwards, as in section 4.3.2 ("scans all frames within L and
/// enumerates on a per-task basis the available colors"): greedy, as printed, and no proof that copies are needed.
///
/// # Errors
///
/// As [`place`].
pub fn place_then_avoid(problem: &Problem) -> Result<Result<ThenAvoid, Cut>, Unanswered> {
    let nothing = vec![ColorSet::default(); problem.set.tasks().len()];
    Ok(place(problem, &nothing)?.map(|placement| {
        let occupied = placement.occupied(problem);
        let available: Vec<ColorSet> = occupied.iter().map(|&own| available_colors(own, problem.colors())).collect();
        let mut taken = 0;
        let chosen = available.iter().enumerate().map(|(task, own)| {
            let need = problem.colors_needed(TaskIndex(task)) as usize;
            let free = ColorSet(own.0 & !taken).colors();
            let colors = ColorSet::of(free.get(..need)?);
            if problem.sharing == Sharing::Private {
                taken |= colors.0;
            }
            Some(colors)
        });
        let chosen = chosen.collect();
        ThenAvoid { placement, occupied, available, chosen }
    }))
}
