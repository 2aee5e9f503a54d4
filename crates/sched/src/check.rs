//! An independent checker of schedules.
//!
//! It shares no code with the analyses and none with the generator of schedules; it reads a task set, a policy and a
//! list of runs, and nothing else. An accepted list is proved to be a schedule of this set in its window: every job
//! that arrives runs after its arrival, one at a time, for exactly its WCET, within its deadline; the processor is
//! never idle while a job waits; and no job runs while one of higher rank waits (or, without preemption, starts while
//! one does).

use crate::fixed::Preemption;
use crate::schedule::{Coverage, Policy, Run, Schedule};
use crate::task::{Task, TaskIndex, TaskSet};
use memtint_units::Picoseconds;

/// Statistics of an accepted schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Jobs whose deadline is in the window; all were met.
    pub jobs: u64,
    /// The longest response time seen for each task, of jobs that are complete, in the set's order.
    pub responses: Vec<Option<Picoseconds>>,
    /// Time for which nothing ran.
    pub idle: Picoseconds,
}

/// Why a schedule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A run names a task or a job that does not arrive in the window, or begins before the job has arrived.
    #[error("run {run}: task {task}, job {job} has not arrived at {at}")]
    NotArrived {
        /// Index of the run, from 0.
        run: usize,
        /// The task it names.
        task: TaskIndex,
        /// The job it names.
        job: u64,
        /// Its beginning.
        at: Picoseconds,
    },
    /// A run is empty, begins before the one before it ends, or ends after the window.
    #[error(
        "run {run}: found from {start} to {end}; accepted is a run that is not empty, after the run before it, in the window"
    )]
    Overlap {
        /// Index of the run, from 0.
        run: usize,
        /// Its beginning.
        start: Picoseconds,
        /// Its end.
        end: Picoseconds,
    },
    /// A job runs before an earlier one of its task is complete.
    #[error("run {run}: task {task}, job {job} runs before job {earlier} is complete")]
    OutOfOrder {
        /// Index of the run, from 0.
        run: usize,
        /// The task.
        task: TaskIndex,
        /// The job that runs.
        job: u64,
        /// The one that is not complete.
        earlier: u64,
    },
    /// A job gets more than its WCET.
    #[error("run {run}: task {task}, job {job} has run for {found}; accepted is at most {wcet}")]
    TooMuch {
        /// Index of the run, from 0.
        run: usize,
        /// The task.
        task: TaskIndex,
        /// The job.
        job: u64,
        /// How long it has run.
        found: Picoseconds,
        /// Its WCET.
        wcet: Picoseconds,
    },
    /// A job is not complete at its deadline or, where nothing may be left over, at the end of the window.
    #[error("task {task}, job {job}: {found} of {wcet} have run at {due}, when all must have")]
    Late {
        /// The task.
        task: TaskIndex,
        /// The job.
        job: u64,
        /// When it had to be complete.
        due: Picoseconds,
        /// How long it had run then.
        found: Picoseconds,
        /// How long it should have.
        wcet: Picoseconds,
    },
    /// Nothing runs although a job waits.
    #[error("task {task}, job {job} waits at {at}, and nothing runs")]
    Idle {
        /// The task that waits.
        task: TaskIndex,
        /// Its job.
        job: u64,
        /// When.
        at: Picoseconds,
    },
    /// A job runs although one of higher rank waits.
    #[error("run {run}: task {task}, job {job} waits at {at}, and should run")]
    Overtaken {
        /// Index of the run, from 0.
        run: usize,
        /// The task that waits.
        task: TaskIndex,
        /// Its job.
        job: u64,
        /// When.
        at: Picoseconds,
    },
    /// A job that cannot be preempted runs in more than one stretch.
    #[error("run {run}: task {task}, job {job} was interrupted, and cannot be preempted")]
    Interrupted {
        /// Index of the run, from 0, that continues the job.
        run: usize,
        /// The task.
        task: TaskIndex,
        /// The job.
        job: u64,
    },
    /// The window contradicts the schedule's statement about it.
    #[error("window: {found} found; {accepted}")]
    Window {
        /// The window found.
        found: Picoseconds,
        /// The values accepted.
        accepted: &'static str,
    },
    /// The priorities are those of another set.
    #[error("priorities: {found} found; accepted is one for each of {tasks} tasks")]
    Priorities {
        /// How many there are.
        found: usize,
        /// How many tasks there are.
        tasks: usize,
    },
}

/// Replays a schedule against its task set.
///
/// # Errors
///
/// The first [`Violation`] found.
pub fn check(set: &TaskSet, schedule: &Schedule) -> Result<Accepted, Violation> {
    let checker = Checker { set, schedule, window: schedule.window.0 };
    checker.extent()?;
    let histories = checker.histories()?;
    checker.deadlines(&histories)?;
    checker.gaps(&histories)?;
    checker.ranks(&histories)?;
    Ok(checker.accepted(&histories))
}

/// The progress of a job.
#[derive(Clone, Copy)]
struct History {
    ran: u64,
    /// End of its last run.
    end: u64,
}

struct Checker<'a> {
    set: &'a TaskSet,
    schedule: &'a Schedule,
    window: u64,
}

impl Checker<'_> {
    fn arrival(&self, task: TaskIndex, job: usize) -> u64 {
        self.set[task].phase().0 + job as u64 * self.set[task].period().0
    }

    fn extent(&self) -> Result<(), Violation> {
        let refuse = |accepted| Err(Violation::Window { found: self.schedule.window, accepted });
        let phases = || self.set.tasks().iter().map(|task| task.phase().0);
        let (least, last) = (phases().min().unwrap_or(0), phases().max().unwrap_or(0));
        // Divisible by each period is all that "hyperperiod" has to mean here: a multiple repeats as well.
        let whole = |span: Option<u64>, times: u64| {
            span.is_some_and(|span| {
                span > 0 && self.set.tasks().iter().all(|task| (span / times).is_multiple_of(task.period().0))
            })
        };
        let span = self.window.checked_sub(last);
        match self.schedule.coverage {
            Coverage::Hyperperiod if least != last || !whole(span, 1) => {
                refuse("accepted is the one phase of all tasks and a multiple of each period")
            }
            Coverage::Phases if !whole(span, 2) || span.is_none_or(|span| span % 2 != 0) => {
                refuse("accepted is the last phase and twice a multiple of each period")
            }
            _ => match &self.schedule.policy {
                Policy::FixedPriority(priorities, _) if priorities.order().len() != self.set.tasks().len() => {
                    Err(Violation::Priorities { found: priorities.order().len(), tasks: self.set.tasks().len() })
                }
                _ => Ok(()),
            },
        }
    }

    /// Goes through the runs in order, and records the progress of each job.
    fn histories(&self) -> Result<Vec<Vec<History>>, Violation> {
        let mut histories: Vec<Vec<History>> = vec![Vec::new(); self.set.tasks().len()];
        let mut free = 0;
        for (run, found) in self.schedule.runs.iter().enumerate() {
            let &Run { task, job, start, end } = found;
            if start.0 < free || end <= start || end.0 > self.window {
                return Err(Violation::Overlap { run, start, end });
            }
            free = end.0;
            let own = self.set.tasks().get(task.index()).ok_or(Violation::NotArrived { run, task, job, at: start })?;
            let arrival = u128::from(own.phase().0) + u128::from(job) * u128::from(own.period().0);
            if arrival > u128::from(start.0) {
                return Err(Violation::NotArrived { run, task, job, at: start });
            }
            let history = self.continued(&mut histories[task.index()], run, found, own)?;
            history.ran += end.0 - start.0;
            history.end = end.0;
            if history.ran > own.wcet().0 {
                let found = Picoseconds(history.ran);
                return Err(Violation::TooMuch { run, task, job, found, wcet: own.wcet() });
            }
        }
        Ok(histories)
    }

    /// The job that a run belongs to: the last of its task, or the one after that if it is complete.
    fn continued<'h>(
        &self,
        jobs: &'h mut Vec<History>,
        run: usize,
        found: &Run,
        own: &Task,
    ) -> Result<&'h mut History, Violation> {
        let &Run { task, job, start, .. } = found;
        let count = jobs.len() as u64;
        let open = jobs.last().is_some_and(|last| last.ran < own.wcet().0);
        let current = if open { count - 1 } else { count };
        if job != current {
            let earlier = current.min(job);
            return Err(Violation::OutOfOrder { run, task, job, earlier });
        }
        if !open {
            jobs.push(History { ran: 0, end: start.0 });
        } else if matches!(self.schedule.policy, Policy::FixedPriority(_, Preemption::None) | Policy::NonPreemptiveEdf)
            && jobs.last().is_some_and(|last| last.end != start.0)
        {
            return Err(Violation::Interrupted { run, task, job });
        }
        Ok(jobs.last_mut().expect("just made or open"))
    }

    /// When a job was complete; the end of the window when it was not.
    fn completion(&self, histories: &[Vec<History>], task: TaskIndex, job: usize) -> u64 {
        match histories[task.index()].get(job) {
            Some(history) if history.ran == self.set[task].wcet().0 => history.end,
            _ => self.window,
        }
    }

    fn deadlines(&self, histories: &[Vec<History>]) -> Result<(), Violation> {
        for (task, own) in self.set.indexed() {
            for job in 0.. {
                let arrival = self.arrival(task, job);
                if arrival >= self.window {
                    break;
                }
                let nothing = History { ran: 0, end: 0 };
                let history = histories[task.index()].get(job).copied().unwrap_or(nothing);
                let mut due = arrival + own.deadline().0;
                if self.schedule.coverage == Coverage::Hyperperiod {
                    due = due.min(self.window);
                }
                if due <= self.window && (history.ran < own.wcet().0 || history.end > due) {
                    let (due, found) = (Picoseconds(due), Picoseconds(history.ran));
                    return Err(Violation::Late { task, job: job as u64, due, found, wcet: own.wcet() });
                }
            }
        }
        Ok(())
    }

    /// The stretches between runs, and those before the first and after the last.
    fn idle(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = [0].into_iter().chain(self.schedule.runs.iter().map(|run| run.end.0));
        let starts = self.schedule.runs.iter().map(|run| run.start.0).chain([self.window]);
        ends.zip(starts).filter(|(end, start)| end < start)
    }

    fn gaps(&self, histories: &[Vec<History>]) -> Result<(), Violation> {
        for task in self.set.indices() {
            let mut job = 0;
            for (from, to) in self.idle() {
                while self.arrival(task, job) < self.window && self.completion(histories, task, job) <= from {
                    job += 1;
                }
                // Complete before the end of the gap is complete before its beginning, because nothing runs in it.
                let arrival = self.arrival(task, job);
                if arrival < to {
                    let at = Picoseconds(arrival.max(from));
                    return Err(Violation::Idle { task, job: job as u64, at });
                }
            }
        }
        Ok(())
    }

    fn ranks(&self, histories: &[Vec<History>]) -> Result<(), Violation> {
        let mut place = vec![0; self.set.tasks().len()];
        if let Policy::FixedPriority(priorities, _) = &self.schedule.policy {
            for (rank, &task) in priorities.order().iter().enumerate() {
                place[task.index()] = rank;
            }
        }
        for waiting in self.set.indices() {
            let mut job = 0;
            for (run, found) in self.schedule.runs.iter().enumerate() {
                while self.arrival(waiting, job) < self.window
                    && self.completion(histories, waiting, job) <= found.start.0
                {
                    job += 1;
                }
                let arrival = self.arrival(waiting, job);
                let deadline = |task: TaskIndex, job: usize| self.arrival(task, job) + self.set[task].deadline().0;
                let earlier = || deadline(waiting, job) < deadline(found.task, found.job as usize);
                let (before, first) = match self.schedule.policy {
                    Policy::FixedPriority(_, Preemption::Full) => {
                        (found.end.0, place[waiting.index()] < place[found.task.index()])
                    }
                    Policy::FixedPriority(_, Preemption::None) => {
                        (found.start.0 + 1, place[waiting.index()] < place[found.task.index()])
                    }
                    Policy::Edf => (found.end.0, earlier()),
                    Policy::NonPreemptiveEdf => (found.start.0 + 1, earlier()),
                };
                if waiting != found.task && first && arrival < before {
                    let at = Picoseconds(arrival.max(found.start.0));
                    return Err(Violation::Overtaken { run, task: waiting, job: job as u64, at });
                }
            }
        }
        Ok(())
    }

    fn accepted(&self, histories: &[Vec<History>]) -> Accepted {
        let mut jobs = 0;
        let mut responses = vec![None; self.set.tasks().len()];
        for (task, own) in self.set.indexed() {
            for (job, history) in histories[task.index()].iter().enumerate() {
                let arrival = self.arrival(task, job);
                jobs += u64::from(arrival + own.deadline().0 <= self.window);
                if history.ran == own.wcet().0 {
                    responses[task.index()] = responses[task.index()].max(Some(Picoseconds(history.end - arrival)));
                }
            }
        }
        let idle = self.idle().map(|(from, to)| to - from).sum::<u64>();
        let busy = self.schedule.runs.iter().map(|run| run.end.0 - run.start.0).sum::<u64>();
        assert_eq!(busy + idle, self.window, "time in which something runs and in which nothing does, and the window");
        Accepted { jobs, responses, idle: Picoseconds(idle) }
    }
}
