//! Tasks and sets of tasks.
//!
//! Time is [`Picoseconds`] throughout, the type that the rest of memtint uses. A tick type of this crate's own was the
//! alternative; it would save factors of a thousand that cost nothing in 64 bits, and would need a conversion, with a
//! rounding to be argued about, at each border. Nothing here depends on the size of the unit: a textbook's task set in
//! "ticks" is the same set in picoseconds.

use crate::error::SchedError;
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer;
use num_rational::Ratio;
use std::fmt;
use std::ops::Index;

/// The longest period, execution time, deadline, jitter, blocking or phase of a task: 2^60 ps, 13 days.
///
/// The bound keeps sums of a window and a jitter within 64 bits.
pub const TIME_MAX: Picoseconds = Picoseconds(1 << 60);

/// A description of a task, not yet checked: [`TaskSet::new`] does that.
///
/// A task releases jobs, each of which executes for at most `wcet`. The job numbered `k` (from 0) *arrives* at
/// `phase + k * period` or, for a sporadic task, at least `period` after the one before; it is *released*, that is,
/// ready to run, at most `jitter` after it arrived; it must be complete `deadline` after it arrived. Response times are
/// counted from the arrival too, and so contain the jitter (as in Tindell, Burns, Wellings 1994, and Davis et al. 2007).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Its name, not empty, unlike that of any other task of the set.
    pub name: String,
    /// Arrival of the first job, 0 to [`TIME_MAX`]. Every analysis here assumes the worst phases; see
    /// [`TaskSet::synchronous`].
    pub phase: Picoseconds,
    /// Least time between two arrivals `T`, 1 ps to [`TIME_MAX`].
    pub period: Picoseconds,
    /// Longest execution of one job `C`, 1 ps to [`TIME_MAX`].
    pub wcet: Picoseconds,
    /// Time from arrival to completion allowed `D`, 1 ps to [`TIME_MAX`]; the period when absent. May exceed the period.
    pub deadline: Option<Picoseconds>,
    /// Longest time from arrival to release `J`, 0 to [`TIME_MAX`].
    pub jitter: Picoseconds,
    /// Longest time for which the task can be held up, once in each busy window, by activity that has no higher
    /// priority: locks, disabled interrupts. Blocking by jobs that cannot be preempted is computed, and is not part of
    /// it. 0 to [`TIME_MAX`].
    pub blocking: Picoseconds,
    /// Cache lines that one job moves from or to memory, at most; 0 when it is unknown. See
    /// [`Interference`](crate::Interference).
    pub lines: u64,
}

impl TaskSpec {
    /// Describes a task with an implicit deadline, no phase, jitter, blocking or memory demand.
    #[must_use]
    pub fn new(name: impl Into<String>, period: Picoseconds, wcet: Picoseconds) -> TaskSpec {
        let zero = Picoseconds(0);
        let (phase, jitter, blocking) = (zero, zero, zero);
        TaskSpec { name: name.into(), phase, period, wcet, deadline: None, jitter, blocking, lines: 0 }
    }

    /// Gives it a deadline, from the arrival.
    #[must_use]
    pub fn deadline(mut self, deadline: Picoseconds) -> TaskSpec {
        self.deadline = Some(deadline);
        self
    }

    /// Gives it a release jitter.
    #[must_use]
    pub fn jitter(mut self, jitter: Picoseconds) -> TaskSpec {
        self.jitter = jitter;
        self
    }

    /// Gives it a blocking time.
    #[must_use]
    pub fn blocking(mut self, blocking: Picoseconds) -> TaskSpec {
        self.blocking = blocking;
        self
    }

    /// Sets the number of cache lines that one job moves.
    #[must_use]
    pub fn lines(mut self, lines: u64) -> TaskSpec {
        self.lines = lines;
        self
    }

    /// Lets its first job arrive later.
    #[must_use]
    pub fn phase(mut self, phase: Picoseconds) -> TaskSpec {
        self.phase = phase;
        self
    }

    fn check(self) -> Result<Task, SchedError> {
        let deadline = self.deadline.unwrap_or(self.period);
        let fields = [
            ("period", self.period, 1),
            ("wcet", self.wcet, 1),
            ("deadline", deadline, 1),
            ("phase", self.phase, 0),
            ("jitter", self.jitter, 0),
            ("blocking", self.blocking, 0),
        ];
        for (field, found, least) in fields {
            if !(least..=TIME_MAX.0).contains(&found.0) {
                return Err(SchedError::Field { task: self.name, field, found, least, most: TIME_MAX.0 });
            }
        }
        let TaskSpec { name, phase, period, wcet, jitter, blocking, lines, .. } = self;
        Ok(Task { name, phase, period, wcet, deadline, jitter, blocking, lines })
    }
}

/// A task of a [`TaskSet`]: the fields of [`TaskSpec`], within their ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    name: String,
    phase: Picoseconds,
    period: Picoseconds,
    wcet: Picoseconds,
    deadline: Picoseconds,
    jitter: Picoseconds,
    blocking: Picoseconds,
    lines: u64,
}

impl Task {
    /// Gives the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the arrival of the first job.
    #[must_use]
    pub fn phase(&self) -> Picoseconds {
        self.phase
    }

    /// Gives the least time between arrivals `T`.
    #[must_use]
    pub fn period(&self) -> Picoseconds {
        self.period
    }

    /// Gives the longest execution of one job `C`.
    #[must_use]
    pub fn wcet(&self) -> Picoseconds {
        self.wcet
    }

    /// Gives the deadline `D`, from the arrival.
    #[must_use]
    pub fn deadline(&self) -> Picoseconds {
        self.deadline
    }

    /// Gives the release jitter `J`.
    #[must_use]
    pub fn jitter(&self) -> Picoseconds {
        self.jitter
    }

    /// Gives the blocking time `B`.
    #[must_use]
    pub fn blocking(&self) -> Picoseconds {
        self.blocking
    }

    /// Gives the cache lines that one job moves.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Gives the utilization `C / T`, exact.
    #[must_use]
    pub fn utilization(&self) -> Ratio<BigUint> {
        Ratio::new(self.wcet.0.into(), self.period.0.into())
    }

    /// Gives the description that would make this task again.
    #[must_use]
    pub fn spec(&self) -> TaskSpec {
        TaskSpec {
            name: self.name.clone(),
            phase: self.phase,
            period: self.period,
            wcet: self.wcet,
            deadline: Some(self.deadline),
            jitter: self.jitter,
            blocking: self.blocking,
            lines: self.lines,
        }
    }
}

/// Position of a task in its [`TaskSet`], from 0. It means nothing in another set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TaskIndex(pub usize);

impl TaskIndex {
    /// Gives the place in a table that has an entry for each task of the set.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

impl fmt::Debug for TaskIndex {
    /// Writes the number alone: messages print answers without specific wording in this form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TaskIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One or more checked tasks, in the order given; a task is named by its [`TaskIndex`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSet {
    tasks: Vec<Task>,
}

impl TaskSet {
    /// Checks descriptions and makes a set of them.
    ///
    /// # Errors
    ///
    /// [`SchedError::Empty`], [`SchedError::Nameless`], [`SchedError::Twice`], and [`SchedError::Field`] for a time out of
    /// its range.
    pub fn new(specs: impl IntoIterator<Item = TaskSpec>) -> Result<TaskSet, SchedError> {
        let mut tasks: Vec<Task> = Vec::new();
        for (index, spec) in (0..).map(TaskIndex).zip(specs) {
            if spec.name.is_empty() {
                return Err(SchedError::Nameless { index });
            }
            if let Some(first) = tasks.iter().position(|task| task.name == spec.name) {
                return Err(SchedError::Twice { task: spec.name, first: TaskIndex(first) });
            }
            tasks.push(spec.check()?);
        }
        if tasks.is_empty() { Err(SchedError::Empty) } else { Ok(TaskSet { tasks }) }
    }

    /// Gives the tasks; never empty.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Gives the position of each task, in order.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = TaskIndex> + ExactSizeIterator + Clone + use<> {
        (0..self.tasks.len()).map(TaskIndex)
    }

    /// Gives each task with its position, in order.
    pub fn indexed(&self) -> impl Iterator<Item = (TaskIndex, &Task)> + Clone {
        self.indices().zip(&self.tasks)
    }

    /// Gives the least common multiple of all periods in picoseconds, exact, of whatever size.
    #[must_use]
    pub fn hyperperiod(&self) -> BigUint {
        self.tasks.iter().fold(BigUint::from(1u8), |multiple, task| multiple.lcm(&BigUint::from(task.period.0)))
    }

    /// Gives the hyperperiod where it is needed as a time.
    ///
    /// # Errors
    ///
    /// [`SchedError::Hyperperiod`], with the number, when it exceeds [`TIME_MAX`].
    pub fn hyperperiod_time(&self) -> Result<Picoseconds, SchedError> {
        let exact = self.hyperperiod();
        match u64::try_from(&exact) {
            Ok(fits) if fits <= TIME_MAX.0 => Ok(Picoseconds(fits)),
            _ => Err(SchedError::Hyperperiod { found: exact.to_string(), most: TIME_MAX.0 }),
        }
    }

    /// Gives the sum of all `C / T`, exact.
    #[must_use]
    pub fn utilization(&self) -> Ratio<BigUint> {
        utilization(self.tasks.iter())
    }

    /// Returns whether all phases are equal, so that all tasks arrive together once.
    ///
    /// Every analysis of this crate holds for any phases, and for sporadic arrivals. When phases differ, a set that it
    /// refuses may still be fine with just these phases, so the answer is then "unsupported" and not "no".
    #[must_use]
    pub fn synchronous(&self) -> bool {
        self.tasks.iter().all(|task| task.phase == self.tasks[0].phase)
    }
}

impl Index<TaskIndex> for TaskSet {
    type Output = Task;

    /// Gives a task.
    ///
    /// # Panics
    ///
    /// When the set has no task of this index.
    #[inline]
    fn index(&self, task: TaskIndex) -> &Task {
        &self.tasks[task.0]
    }
}

/// Sums `C / T` of some tasks, exactly.
pub fn utilization<'a>(tasks: impl Iterator<Item = &'a Task>) -> Ratio<BigUint> {
    tasks.fold(Ratio::from_integer(BigUint::from(0u8)), |sum, task| sum + task.utilization())
}

/// Compares the sum of `C / T` of some tasks with 1, exactly, and quickly when it is not very near.
pub(crate) fn load<'a>(tasks: impl Iterator<Item = &'a Task> + Clone) -> std::cmp::Ordering {
    let found = quick_load(tasks.clone());
    debug_assert_eq!(found, utilization(tasks).cmp(&Ratio::from_integer(BigUint::from(1u8))), "a load in 64 bits");
    found
}

fn quick_load<'a>(tasks: impl Iterator<Item = &'a Task> + Clone) -> std::cmp::Ordering {
    // In 64 bits first: each quotient is short of the truth by less than one part in 2^shift.
    let shift = tasks.clone().map(|task| task.wcet().0.leading_zeros()).min().unwrap_or(0).min(40);
    let (mut parts, mut terms) = (0u64, 0u64);
    for task in tasks.clone() {
        parts = parts.saturating_add((task.wcet().0 << shift) / task.period().0);
        terms += 1;
    }
    if parts > 1 << shift {
        return std::cmp::Ordering::Greater;
    }
    if parts + terms <= 1 << shift {
        return std::cmp::Ordering::Less;
    }
    // Each quotient is short of the truth by less than one part in 2^64.
    let (mut parts, mut terms) = (0u128, 0u128);
    for task in tasks.clone() {
        parts += (u128::from(task.wcet.0) << 64) / u128::from(task.period.0);
        terms += 1;
        if parts > 1 << 64 {
            return std::cmp::Ordering::Greater;
        }
    }
    if parts + terms <= 1 << 64 {
        return std::cmp::Ordering::Less;
    }
    utilization(tasks).cmp(&Ratio::from_integer(BigUint::from(1u8)))
}
