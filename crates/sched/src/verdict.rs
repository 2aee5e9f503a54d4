//! The three answers of an analysis, and the evidence for each.

use crate::check::Violation;
use crate::task::{TaskIndex, TaskSet};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_rational::Ratio;

/// An answer: yes with its witness, no with the demand that exceeds the supply, or that this analysis cannot decide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unread verdict protects nothing"]
pub enum Verdict<W> {
    /// Every job meets its deadline.
    Schedulable(W),
    /// A job can miss its deadline: which one, and why.
    Unschedulable(Overload),
    /// This analysis does not answer for this set; this implies nothing about the set.
    Unsupported(Unsupported),
}

impl<W> Verdict<W> {
    /// Returns whether the answer is yes.
    pub fn is_schedulable(&self) -> bool {
        matches!(self, Verdict::Schedulable(_))
    }

    /// Returns whether the answer is no.
    pub fn is_unschedulable(&self) -> bool {
        matches!(self, Verdict::Unschedulable(_))
    }

    /// Replaces the witness of a yes.
    pub fn map<V>(self, witness: impl FnOnce(W) -> V) -> Verdict<V> {
        match self {
            Verdict::Schedulable(found) => Verdict::Schedulable(witness(found)),
            Verdict::Unschedulable(overload) => Verdict::Unschedulable(overload),
            Verdict::Unsupported(reason) => Verdict::Unsupported(reason),
        }
    }
}

/// A window whose demand exceeds its supply.
///
/// The window begins at a critical instant and is as long as the processor has time; `demand_ps` is the work that must
/// be complete at its end for the job to meet its deadline. It is more than `window_ps` or, if the processor is not
/// always available, more than the supply in [`Cause::Supply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Index of the task that misses, from 0; when a whole set is too much, the one whose deadline ends the window.
    pub task: TaskIndex,
    /// The job that misses, from 0, counted from the beginning of the window.
    pub job: BigUint,
    /// Length of the window in picoseconds.
    pub window_ps: BigUint,
    /// Work due in the window in picoseconds.
    pub demand_ps: BigUint,
    /// Why.
    pub cause: Cause,
}

/// Why a window is overloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The window ends at the deadline of the job.
    Deadline,
    /// The window ends where the job, which cannot be preempted, would have to start; the demand is the work that
    /// precedes it.
    Start,
    /// The window ends at the deadline of the job, and a resource supplies no more than this in it, in picoseconds.
    Supply(Ratio<BigUint>),
    /// The window ends at the deadline of the job; the demand includes the rest of a job of this task, which has begun
    /// 1 ps before the window and cannot be preempted.
    Begun(TaskIndex),
    /// The utilization of the tasks that count is above 1, so that response times are unbounded; the window is one of
    /// those that show it.
    Utilization(Ratio<BigUint>),
}

/// Why an analysis does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// With the worst phases a job misses its deadline, but the phases differ, and this analysis does not use them.
    Phases(Box<Overload>),
    /// More steps would be needed than allowed.
    Effort {
        /// Index of the task at which it ended, from 0.
        task: TaskIndex,
        /// The steps allowed.
        steps_max: u64,
    },
    /// The window has grown beyond the longest that fits.
    Window {
        /// Index of the task, from 0.
        task: TaskIndex,
        /// The longest window that fits, in picoseconds.
        window_ps_max: u64,
    },
    /// The theorem does not cover such a task.
    Precondition {
        /// Index of the task, from 0.
        task: TaskIndex,
        /// The theorem's requirement.
        needs: &'static str,
    },
    /// The analysis does not cover such a platform.
    Platform {
        /// The analysis's requirement.
        needs: &'static str,
    },
    /// With bounds of interference that may not be reached, a job misses its deadline.
    Bound(Box<Overload>),
    /// With bounds of interference that may not be reached, this is the utilization, which is not below 1.
    Load(Ratio<BigUint>),
    /// The schedule repeats only after more jobs than allowed, and none of those tested is late.
    Horizon {
        /// The hyperperiod in picoseconds.
        hyperperiod_ps: BigUint,
        /// The jobs allowed.
        jobs_max: u64,
    },
    /// The checker refuses the schedule of a set that the analysis accepts: a defect of one of them.
    Contradiction(Box<Violation>),
    /// A test that is only sufficient does not accept.
    Inconclusive {
        /// The value that the test compares, exact.
        found: Ratio<BigUint>,
        /// The bound that it would have to keep below, exact.
        most: Ratio<BigUint>,
    },
}

/// How much work an analysis may put into one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Evaluations of a demand function, for each task or test.
    pub steps_max: u64,
}

impl Default for Effort {
    /// Ten million, a few seconds.
    fn default() -> Effort {
        Effort { steps_max: 10_000_000 }
    }
}

/// How much work one question may take, in all its parts. Every verb that asks for a verdict uses this type and its
/// default, so that none answers *unsupported* where another answers. It does not limit how much of a witness is
/// printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalysisLimits {
    /// Evaluations of demand functions.
    pub effort: Effort,
    /// Jobs of a schedule that decides, and events of a timeline that decides: arrivals, replenishments, refreshes.
    pub events_max: u64,
    /// Nodes of a search for a table of frames and colors.
    pub nodes_max: u64,
    /// Events of the timelines that prove a candidate during a search for servers. The servers found are judged with
    /// [`events_max`](Self::events_max).
    pub candidate_events_max: u64,
}

impl AnalysisLimits {
    /// The most events, whatever the request: a schedule keeps each.
    pub const EVENTS_MAX: u64 = 10_000_000;

    /// Gives the default limits, or the same number of steps for each part.
    ///
    /// ```
    /// use memtint_sched::AnalysisLimits;
    ///
    /// assert_eq!(AnalysisLimits::of_steps(None), AnalysisLimits::default());
    /// assert_eq!(AnalysisLimits::of_steps(Some(50)).events_max, 50);
    /// ```
    #[must_use]
    pub fn of_steps(steps: Option<u64>) -> AnalysisLimits {
        let default = AnalysisLimits::default();
        let Some(steps) = steps else { return default };
        let events_max = steps.min(Self::EVENTS_MAX);
        AnalysisLimits {
            effort: Effort { steps_max: steps },
            events_max,
            nodes_max: steps,
            candidate_events_max: events_max.min(default.candidate_events_max),
        }
    }
}

impl Default for AnalysisLimits {
    /// Ten million evaluations, 200 thousand events, 100 thousand nodes: seconds each.
    fn default() -> AnalysisLimits {
        let effort = Effort::default();
        AnalysisLimits { effort, events_max: 200_000, nodes_max: 100_000, candidate_events_max: 10_000 }
    }
}

/// Counts down the steps of an [`Effort`].
#[derive(Debug)]
pub struct Steps {
    task: TaskIndex,
    steps_max: u64,
    left: u64,
}

impl Steps {
    /// Begins to count for a task, of this index.
    #[must_use]
    pub fn new(task: TaskIndex, effort: Effort) -> Steps {
        Steps { task, steps_max: effort.steps_max, left: effort.steps_max }
    }

    /// The limit of a slow method that a fast one is compared with in debug builds.
    pub(crate) fn compared() -> Steps {
        Steps::new(TaskIndex(0), Effort { steps_max: 1000 })
    }

    /// Takes one step.
    ///
    /// # Errors
    ///
    /// [`Unsupported::Effort`] when none is left.
    pub fn step(&mut self) -> Result<(), Unsupported> {
        if self.left == 0 {
            return Err(Unsupported::Effort { task: self.task, steps_max: self.steps_max });
        }
        self.left -= 1;
        Ok(())
    }
}

/// The longest window that is analyzed, 2^62 ps: with a jitter added it still fits 64 bits.
pub const WINDOW_MAX: u64 = 1 << 62;

/// Narrows a demand to a window's type.
///
/// # Errors
///
/// [`Unsupported::Window`] when it is longer than [`WINDOW_MAX`].
pub fn window(demand_ps: u128, task: TaskIndex) -> Result<u64, Unsupported> {
    match u64::try_from(demand_ps) {
        Ok(fits) if fits <= WINDOW_MAX => Ok(fits),
        _ => Err(Unsupported::Window { task, window_ps_max: WINDOW_MAX }),
    }
}

/// The worst response time of a task, and where it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Index of the task, from 0.
    pub task: TaskIndex,
    /// Longest time from arrival to completion.
    pub response: Picoseconds,
    /// The job of the critical window that has it, from 0 for the first whose release is in it.
    pub job: u64,
    /// Time from the beginning of the critical window to the completion of that job.
    pub window: Picoseconds,
    /// Jobs of the task that were tested.
    pub jobs: u64,
}

impl Response {
    /// Gives the slack: the time from the latest completion to the deadline; `None` when the completion is later.
    ///
    /// How much longer jobs may execute is another question, because that delays others too: see
    /// [`Scaling`](crate::Scaling).
    ///
    /// # Panics
    ///
    /// When the set has no task of this index.
    #[must_use]
    pub fn slack(&self, set: &TaskSet) -> Option<Picoseconds> {
        set[self.task].deadline().0.checked_sub(self.response.0).map(Picoseconds)
    }
}
