//! Random task sets.

use super::machine::{Hardware, Scheme};
use memtint_sched::TaskIndex;
use memtint_sched::{TaskSet, TaskSpec};
use memtint_units::{Picoseconds, Random};

pub(crate) fn shuffled(random: &mut Random, count: usize) -> Vec<TaskIndex> {
    let mut all: Vec<TaskIndex> = (0..count).map(TaskIndex).collect();
    for last in (1..count).rev() {
        all.swap(last, random.within(0, last as u64) as usize);
    }
    all
}

/// A task: times in cycles.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) period: u64,
    pub(crate) deadline: u64,
    pub(crate) jitter: u64,
    /// What a job executes.
    pub(crate) references: u64,
    pub(crate) rank: u64,
}

/// What sets are drawn from.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// All times are whole references, and so is what a job has to wait for: nothing is left to margins.
    pub(crate) grid: bool,
    pub(crate) jitter: bool,
    /// Deadlines up to this many halves of the period; 2 for deadlines that are the periods.
    pub(crate) deadline_halves: u64,
    /// Shortest and longest period in references.
    pub(crate) periods: (u64, u64),
}

/// Draws a set of 2 to 6 tasks with a utilization of 0.3 to 0.99, beside refresh.
pub(crate) fn draw(random: &mut Random, machine: &Hardware, shape: Shape) -> Vec<Own> {
    let reference = machine.reference;
    let count = random.within(2, 6);
    let mut left = random.within(30, 99);
    let rank = random.within(0, 1);
    let (least, most) = shape.periods;
    (0..count)
        .map(|index| {
            // The less there is of an octave, the more probable is a number: near enough to log-uniform.
            let octave = random.within(0, u64::from((most / least).ilog2()));
            let low = least << octave;
            let mut period = random.within(low, (2 * low).min(most)) * reference;
            if !shape.grid {
                period += random.within(0, reference - 1);
            }
            let percent =
                if index + 1 == count { left } else { random.within(0, 2 * left / (count - index)).min(left) };
            left -= percent;
            let references = (period * percent / 100 / reference).max(1);
            let wcet = references * reference;
            let deadline = match shape.deadline_halves {
                2 => period,
                halves => random.within(wcet.min(period), (period * halves / 2).max(wcet)),
            };
            let deadline = if shape.grid { deadline / reference * reference } else { deadline };
            let jitter = if shape.jitter { random.within(0, period / 4) } else { 0 };
            let rank = match machine.scheme {
                Scheme::Staggered | Scheme::OneColor => rank,
                _ => random.within(0, 1),
            };
            Own { period, deadline, jitter, references, rank }
        })
        .collect()
}

/// The set as the analysis sees it, a cycle being a picosecond: with the blocking of each task, and deadlines that are so much
/// later.
pub(crate) fn analysed(tasks: &[Own], machine: &Hardware, blocking: impl Fn(usize) -> u64, later: u64) -> TaskSet {
    let specs = tasks.iter().enumerate().map(|(index, task)| {
        let ps = Picoseconds;
        TaskSpec::new(format!("t{index}"), ps(task.period), ps(task.references * machine.reference))
            .deadline(ps(task.deadline + later))
            .jitter(ps(task.jitter))
            .blocking(ps(blocking(index)))
    });
    TaskSet::new(specs.collect::<Vec<_>>()).unwrap()
}
