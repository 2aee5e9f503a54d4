//! Witness schedules: which job runs when.

use crate::fixed::{Preemption, Priorities};
use crate::task::{Task, TaskIndex, TaskSet};
use crate::verdict::WINDOW_MAX;
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// By which rule the processor is given to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The task of the highest priority, interrupted or not.
    FixedPriority(Priorities, Preemption),
    /// The job with the earliest deadline, interrupted at any time.
    Edf,
    /// The job with the earliest deadline of those that wait when the processor becomes free; it is not interrupted.
    NonPreemptiveEdf,
}

impl Policy {
    /// Returns whether a job that has begun can be interrupted.
    #[must_use]
    pub fn preemption(&self) -> Preemption {
        match self {
            Policy::FixedPriority(_, preemption) => *preemption,
            Policy::Edf => Preemption::Full,
            Policy::NonPreemptiveEdf => Preemption::None,
        }
    }
}

/// A stretch of time in which one job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The task.
    pub task: TaskIndex,
    /// The job, from 0 for the one that arrives at the phase.
    pub job: u64,
    /// When it begins.
    pub start: Picoseconds,
    /// When it ends, excluded; later than `start`.
    pub end: Picoseconds,
}

/// The runs from time 0 to the end of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The rule it follows.
    pub policy: Policy,
    /// End of the window, excluded. Jobs that arrive before it are in the schedule, with their runs before it.
    pub window: Picoseconds,
    /// The part of all possible behaviour that the window covers.
    pub coverage: Coverage,
    /// All runs, in order.
    pub runs: Vec<Run>,
}

/// The part of all possible behaviour that a window covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// One hyperperiod from the phase that all tasks have. Nothing is left over at its end, so the schedule repeats.
    Hyperperiod,
    /// All phases and two hyperperiods, after which a schedule repeats (Leung and Merrill 1980).
    Phases,
    /// Less, because it would hold too many jobs. The hyperperiod in picoseconds is given.
    Part(BigUint),
}

/// Makes the schedule in which every job arrives on time, is released at once, takes its whole WCET and is never blocked.
///
/// It is one of many possible schedules: with jitter, blocking or sporadic arrivals it shows that the proven behaviour
/// exists, while the analysis covers the others. The window is one hyperperiod, or, where phases differ, the largest
/// phase and two hyperperiods; it is cut short, and marked so, when it would have more than `jobs_max` jobs.
///
/// # Panics
///
/// When the priorities are those of another set.
#[must_use]
pub fn schedule(set: &TaskSet, policy: &Policy, jobs_max: u64) -> Schedule {
    let (window, coverage) = extent(set, jobs_max);
    let runs = Generator::new(set, policy, window).run();
    Schedule { policy: policy.clone(), window: Picoseconds(window), coverage, runs }
}

fn extent(set: &TaskSet, jobs_max: u64) -> (u64, Coverage) {
    let last_phase = set.tasks().iter().map(|task| task.phase().0).max().unwrap_or(0);
    let hyperperiod = set.hyperperiod();
    let (whole, coverage) = match set.synchronous() {
        true => (&hyperperiod + last_phase, Coverage::Hyperperiod),
        false => (&hyperperiod * 2u8 + last_phase, Coverage::Phases),
    };
    match u64::try_from(whole) {
        Ok(window) if window <= WINDOW_MAX && jobs(set, window) <= u128::from(jobs_max) => (window, coverage),
        _ => (longest(set, jobs_max), Coverage::Part(hyperperiod)),
    }
}

/// Jobs that arrive before a point.
fn jobs(set: &TaskSet, end: u64) -> u128 {
    let own = |task: &Task| u128::from(end.saturating_sub(task.phase().0).div_ceil(task.period().0));
    set.tasks().iter().map(own).sum()
}

/// The longest window with at most `jobs_max` jobs, but at least the first picosecond.
fn longest(set: &TaskSet, jobs_max: u64) -> u64 {
    let (mut fits, mut exceeds) = (1, WINDOW_MAX);
    while exceeds - fits > 1 {
        let middle = fits + (exceeds - fits) / 2;
        if jobs(set, middle) <= u128::from(jobs_max) { fits = middle } else { exceeds = middle }
    }
    fits
}

/// A job that waits: its urgency (least first), its task, its number.
type Waiting = Reverse<(u64, TaskIndex, u64)>;

/// Goes from arrival to arrival.
struct Generator<'a> {
    set: &'a TaskSet,
    policy: &'a Policy,
    /// Rank of each task, when priorities are fixed.
    ranks: Vec<u64>,
    window: u64,
    arrivals: BinaryHeap<Reverse<(u64, TaskIndex, u64)>>,
    waiting: BinaryHeap<Waiting>,
    /// The rest of the job of a task that has begun and waits; jobs of one task run in order.
    left: Vec<Option<u64>>,
    runs: Vec<Run>,
}

impl<'a> Generator<'a> {
    fn new(set: &'a TaskSet, policy: &'a Policy, window: u64) -> Generator<'a> {
        let mut ranks = vec![0; set.tasks().len()];
        if let Policy::FixedPriority(priorities, _) = policy {
            assert_eq!(priorities.order().len(), ranks.len(), "priorities of another task set");
            for (rank, &task) in (0..).zip(priorities.order()) {
                ranks[task.index()] = rank;
            }
        }
        let first = set.indexed().map(|(index, task)| Reverse((task.phase().0, index, 0)));
        let (arrivals, left) = (first.collect(), vec![None; set.tasks().len()]);
        Generator { set, policy, ranks, window, arrivals, waiting: BinaryHeap::new(), left, runs: Vec::new() }
    }

    fn run(mut self) -> Vec<Run> {
        let mut now = 0;
        while now < self.window {
            self.admit(now);
            let next = self.arrivals.peek().map_or(self.window, |&Reverse((at, ..))| at.min(self.window));
            now = match self.waiting.pop() {
                Some(Reverse(first)) => self.serve(first, now, next),
                None => next,
            };
        }
        self.runs
    }

    /// Admits the jobs that have arrived.
    fn admit(&mut self, now: u64) {
        while let Some(&Reverse((at, index, job))) = self.arrivals.peek() {
            if at > now {
                return;
            }
            self.arrivals.pop();
            let task = &self.set[index];
            let urgency = match self.policy {
                Policy::FixedPriority(..) => self.ranks[index.index()],
                Policy::Edf | Policy::NonPreemptiveEdf => at + task.deadline().0,
            };
            self.waiting.push(Reverse((urgency, index, job)));
            self.arrivals.push(Reverse((at + task.period().0, index, job + 1)));
        }
    }

    /// Runs a job until it is complete or, if it can be interrupted, until a job arrives; gives the time then.
    fn serve(&mut self, (urgency, task, job): (u64, TaskIndex, u64), now: u64, next: u64) -> u64 {
        let left = self.left[task.index()].take().unwrap_or(self.set[task].wcet().0);
        let until = match self.policy.preemption() {
            Preemption::None => self.window,
            Preemption::Full => next,
        };
        let end = until.min(now + left);
        self.note(Run { task, job, start: Picoseconds(now), end: Picoseconds(end) });
        if end < now + left {
            self.left[task.index()] = Some(now + left - end);
            self.waiting.push(Reverse((urgency, task, job)));
        }
        end
    }

    /// Keeps a run, as one with the last if that was interrupted for nothing.
    fn note(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last) if (last.task, last.job, last.end) == (run.task, run.job, run.start) => last.end = run.end,
            last => {
                debug_assert!(run.start < run.end, "task {}, job {} runs for no time", run.task, run.job);
                debug_assert!(
                    last.is_none_or(|last| last.end <= run.start),
                    "task {}, job {} runs before the previous run has ended",
                    run.task,
                    run.job
                );
                self.runs.push(run);
            }
        }
    }
}
