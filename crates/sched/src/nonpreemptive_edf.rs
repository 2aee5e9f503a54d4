//! Earliest deadline first without preemption: a job that has begun is not interrupted, and the processor never idles while
//! one waits.
//!
//! Jeffay, Stanat and Martel 1991 (theorem 4.1) for deadlines at the ends of periods; George, Rivierre and Spuri 1996
//! (INRIA RR-2966) for any deadlines: a sporadic set is schedulable exactly when every window `t` that ends at a
//! deadline holds the work due in it, `h(t) <= t`, and, for each task with `D_i > t`, also the rest of its job that
//! began 1 ps before:
//!
//! ```text
//!   h(t) + C_i - 1 <= t
//! ```
//!
//! The first is the criterion of preemptive EDF; the second is only about windows shorter than the longest deadline, so that
//! its search always ends.
//!
//! Jitter: deadlines of a task are at `k T + D - J` after a window's beginning, as in [`processor_demand`](crate::processor_demand).
//! A task can then have both a job that begins before the window with its deadline after it, and `D_i - J_i <= t`. If its jobs are
//! released in the order of their arrivals, which a jitter not beyond the period ensures, those due in the window were
//! released before the job that blocks, and thus are complete when it begins: `h` is taken of the other tasks. It stays exact:
//! that task arrives 1 ps before the window and the others are released together after their full jitter.
//!
//! Response times are those of George, Rivierre and Spuri too, see [`worst_response_nonpreemptive_edf`].

use crate::edf::{Demand, DemandTest, quick_processor_demand};
use crate::fixed::WorstCase;
use crate::task::{Task, TaskIndex, TaskSet, load, utilization};
use crate::verdict::{Cause, Effort, Overload, Response, Steps, Unsupported, Verdict, window};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use std::cmp::Ordering;

/// Decides whether every job meets its deadline under EDF without preemption, for deadlines below, at and above the period.
///
/// Exact for sporadic tasks. Needs no blocking and jitters not beyond periods. A no whose cause is [`Cause::Begun`] names the
/// task of the job that began 1 ps before the window. When phases differ, a no becomes [`Unsupported::Phases`], unless
/// it is the utilization's.
///
/// ```
/// use memtint_sched::{Cause, Effort, TaskIndex, TaskSet, TaskSpec, Verdict, nonpreemptive_edf};
/// use memtint_units::Picoseconds as Ps;
///
/// let set = |long| TaskSet::new([TaskSpec::new("a", Ps(4), Ps(2)), TaskSpec::new("b", Ps(12), Ps(long))]);
/// assert!(nonpreemptive_edf(&set(3)?, Effort::default()).is_schedulable(), "2 left of b, and 2 of a, in 4");
/// let Verdict::Unschedulable(late) = nonpreemptive_edf(&set(4)?, Effort::default()) else { panic!("3 left of b") };
/// assert_eq!((late.task, late.cause), (TaskIndex(0), Cause::Begun(TaskIndex(1))));
/// assert_eq!((late.window_ps, late.demand_ps), (4u8.into(), 5u8.into()));
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn nonpreemptive_edf(set: &TaskSet, effort: Effort) -> Verdict<DemandTest> {
    if let Some(reason) = refused(set) {
        return Verdict::Unsupported(reason);
    }
    let interrupted = match quick_processor_demand(set, effort) {
        Verdict::Schedulable(test) => test,
        // Preemptive EDF is optimal: its no is a no for every policy.
        no => return no,
    };
    let mut windows = interrupted.windows;
    let found = Blocked::new(set, effort).and_then(|blocked| blocked.search(effort, &mut windows));
    match found {
        Ok(None) => Verdict::Schedulable(DemandTest { windows, ..interrupted }),
        Ok(Some(late)) if set.synchronous() => Verdict::Unschedulable(late),
        Ok(Some(late)) => Verdict::Unsupported(Unsupported::Phases(Box::new(late))),
        Err(reason) => Verdict::Unsupported(reason),
    }
}

fn refused(set: &TaskSet) -> Option<Unsupported> {
    let needs = |task: &Task| {
        let blocked = (task.blocking().0 > 0).then_some("no blocking, for EDF without preemption");
        let late = "a jitter not beyond the period, for EDF without preemption";
        blocked.or((task.jitter() > task.period()).then_some(late))
    };
    let refuse = |(task, own)| needs(own).map(|needs| Unsupported::Precondition { task, needs });
    set.indexed().find_map(refuse)
}

/// Finds the worst response time of one task under EDF without preemption, regardless of its deadline. Phases are
/// not used.
///
/// Exact for sporadic tasks, under the preconditions of [`nonpreemptive_edf`]; jobs with equal deadlines go in the
/// order that is worst for this task. George, Rivierre and Spuri 1996 (INRIA RR-2966): all others are released
/// together, 1 ps after a job has begun whose deadline is later. The job that is released `x` after that starts at the
/// least
///
/// ```text
///   s = C_b - 1 + floor(x / T_i) C_i + sum over others of min(1 + floor((s + J) / T), jobs due by x - J_i + D_i) C
/// ```
///
/// which is computed for each `x` at which another job is due, until the end of the longest busy window; its response
/// is `s + C_i + J_i - x`. The term of the job that has begun, of any task `b` with `D_b > x - J_i + D_i`, is tried
/// with and without; jobs of `b` due by then have preceded it, as above, so that `b` is not among the others. Jitters
/// are ours, the paper has none.
///
/// # Errors
///
/// [`Unsupported::Precondition`] as [`nonpreemptive_edf`]; [`Unsupported::Effort`] and [`Unsupported::Window`] when the
/// busy window is too long to be searched.
///
/// # Panics
///
/// When the set has no task of this index.
///
/// ```
/// use memtint_sched::{Effort, TaskIndex, TaskSet, TaskSpec, WorstCase, worst_response_nonpreemptive_edf};
/// use memtint_units::Picoseconds as Ps;
///
/// let set = TaskSet::new([TaskSpec::new("a", Ps(4), Ps(2)), TaskSpec::new("b", Ps(12), Ps(4))])?;
/// let worst = |task| match worst_response_nonpreemptive_edf(&set, task, Effort::default()) {
///     Ok(WorstCase::Bounded(worst)) => worst.response,
///     other => panic!("{other:?}"),
/// };
/// assert_eq!([worst(TaskIndex(0)), worst(TaskIndex(1))], [Ps(5), Ps(6)], "3 left of b, and 2; 2 of a, and 4 without a pause");
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn worst_response_nonpreemptive_edf(
    set: &TaskSet,
    task: TaskIndex,
    effort: Effort,
) -> Result<WorstCase, Unsupported> {
    assert!(task.index() < set.tasks().len(), "task {task} of {}", set.tasks().len());
    if let Some(reason) = refused(set) {
        return Err(reason);
    }
    if load(set.tasks().iter()) == Ordering::Greater {
        return Ok(WorstCase::Unbounded(utilization(set.tasks().iter())));
    }
    let end = match load(set.tasks().iter()) {
        Ordering::Less => Blocked::new(set, effort)?.end,
        // From the longest deadline on all repeats with the hyperperiod, or is shorter.
        _ => {
            let own = &set[task];
            let longest = set.tasks().iter().map(|task| task.deadline().0).max().unwrap_or(0);
            let end = set.hyperperiod() + longest + own.jitter().0;
            window(u128::try_from(end).unwrap_or(u128::MAX), task)?
        }
    };
    let mut steps = Steps::new(task, effort);
    Starts { set, index: task, own: &set[task] }.worst(end, &mut steps).map(WorstCase::Bounded)
}

/// When jobs of one task start.
struct Starts<'a> {
    set: &'a TaskSet,
    index: TaskIndex,
    own: &'a Task,
}

impl Starts<'_> {
    fn worst(&self, end: u64, steps: &mut Steps) -> Result<Response, Unsupported> {
        let (own, tasks) = (self.own, self.set.tasks());
        let alone = own.wcet() + own.jitter();
        let mut worst = Response { task: self.index, response: alone, job: 0, window: own.wcet(), jobs: 0 };
        // The last start without a job that has begun, and with one of each task: they come later as more is due.
        let mut reached = vec![0; tasks.len() + 1];
        let mut released = 0;
        while released <= end {
            let due = self.due(released);
            let begun =
                self.set.indices().filter(|&other| other != self.index && self.set[other].deadline().0 as i64 > due);
            for begun in begun.map(Some).chain([None]) {
                let place = begun.map_or(tasks.len(), TaskIndex::index);
                let start = self.start(released, begun, reached[place], steps)?;
                reached[place] = start;
                let response = Picoseconds((start + alone.0).saturating_sub(released));
                if response > worst.response {
                    let (job, window) = (released / own.period().0, Picoseconds(start) + own.wcet());
                    worst = Response { response, job, window, ..worst };
                }
            }
            worst.jobs += 1;
            released = self.next(released);
        }
        Ok(worst)
    }

    /// Deadline of the job released at `released`, its jitter used up.
    fn due(&self, released: u64) -> i64 {
        released as i64 - self.own.jitter().0 as i64 + self.own.deadline().0 as i64
    }

    /// The next release at which one more job of any task is due, or has arrived before.
    fn next(&self, released: u64) -> u64 {
        let due = self.due(released);
        let more = |task: &Task| {
            let since = due + task.jitter().0 as i64 - task.deadline().0 as i64;
            let left = match u64::try_from(since) {
                Ok(since) => task.period().0 - since % task.period().0,
                Err(_) => since.unsigned_abs(),
            };
            released + left
        };
        let others = self.set.indexed().filter(|&(other, _)| other != self.index);
        let own = (released / self.own.period().0 + 1) * self.own.period().0;
        others.map(|(_, task)| more(task)).fold(own, u64::min)
    }

    /// The least start, from one that is not after it on.
    fn start(&self, released: u64, begun: Option<TaskIndex>, from: u64, steps: &mut Steps) -> Result<u64, Unsupported> {
        let due = self.due(released);
        let before = u128::from(released / self.own.period().0) * u128::from(self.own.wcet().0);
        let left = begun.map_or(0, |begun| u128::from(self.set[begun].wcet().0 - 1));
        let others = || self.set.indices().filter(|&other| other != self.index && Some(other) != begun);
        let mut start = from;
        loop {
            steps.step()?;
            let work = |other: TaskIndex| {
                let task = &self.set[other];
                let come = (start + task.jitter().0) / task.period().0 + 1;
                u128::from(come.min(Demand::due(task, due))) * u128::from(task.wcet().0)
            };
            let next = window(others().map(work).fold(before + left, u128::saturating_add), self.index)?;
            debug_assert!(next >= start, "a start before one of less work");
            if next == start {
                return Ok(start);
            }
            start = next;
        }
    }
}

/// Windows before which a job has begun.
struct Blocked<'a> {
    set: &'a TaskSet,
    demand: Demand<'a>,
    /// A window that is overloaded and not shorter than this has one that is, too.
    end: u64,
}

impl<'a> Blocked<'a> {
    /// Until the deadline of a late job, the processor works without a pause on the rest of a job that began before and
    /// on jobs released in the window: such a window is shorter than the first that is long enough for both.
    fn new(set: &'a TaskSet, effort: Effort) -> Result<Blocked<'a>, Unsupported> {
        let mut blocked = Blocked { set, demand: Demand::new(set), end: u64::MAX };
        if load(set.tasks().iter()) != Ordering::Less {
            // There need be none.
            return Ok(blocked);
        }
        let begun = set.tasks().iter().map(|task| task.wcet().0 - 1).max().unwrap_or(0);
        let work = |length: u64| {
            let jobs = |task: &Task| (length + task.jitter().0).div_ceil(task.period().0).max(1);
            let work = set.tasks().iter().map(|task| u128::from(jobs(task)) * u128::from(task.wcet().0));
            work.fold(begun.into(), u128::saturating_add)
        };
        let mut steps = Steps::new(TaskIndex(0), effort);
        let mut length = 0;
        while blocked.end != length {
            steps.step()?;
            blocked.end = length;
            length = window(work(length), TaskIndex(0))?;
        }
        Ok(blocked)
    }

    fn search(&self, effort: Effort, windows: &mut u64) -> Result<Option<Overload>, Unsupported> {
        for (begun, own) in self.set.indexed() {
            let mut steps = Steps::new(begun, effort);
            let last = self.end.min(own.deadline().0) - 1;
            if let Some(length) = self.backwards(begun, last, &mut steps, windows)? {
                return Ok(Some(self.overload(begun, length)));
            }
        }
        Ok(None)
    }

    fn others(&self, begun: TaskIndex) -> impl Iterator<Item = (TaskIndex, &'a Task)> {
        self.set.indexed().filter(move |&(task, _)| task != begun)
    }

    /// Work of the others due in a window.
    fn due(&self, begun: TaskIndex, length: u64) -> u128 {
        let work =
            |(_, task): (TaskIndex, &Task)| u128::from(Demand::due(task, length as i64)) * u128::from(task.wcet().0);
        self.others(begun).map(work).fold(0, u128::saturating_add)
    }

    /// Finds an overloaded window no longer than `last`, from there backwards as in Zhang and Burns 2009: the work due
    /// in any window between the work of one and its length is no more than that work.
    fn backwards(
        &self,
        begun: TaskIndex,
        last: u64,
        steps: &mut Steps,
        windows: &mut u64,
    ) -> Result<Option<u64>, Unsupported> {
        let left = u128::from(self.set[begun].wcet().0 - 1);
        let mut length = last;
        loop {
            steps.step()?;
            *windows += 1;
            let due = self.due(begun, length);
            if due == 0 {
                return Ok(None); // No job can be late.
            }
            let work = due.saturating_add(left);
            match work.cmp(&length.into()) {
                Ordering::Greater => return Ok(Some(length)),
                Ordering::Less => length = work as u64,
                Ordering::Equal => match self.demand.last_deadline(length - 1) {
                    Some(before) => length = before,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Describes the window that ends at the last deadline of the others at or before this length.
    fn overload(&self, begun: TaskIndex, length: u64) -> Overload {
        let end = |(index, task): (TaskIndex, &Task)| {
            let first = Demand::first(task)?;
            let job = length.checked_sub(first)? / task.period().0;
            Some((first + job * task.period().0, index, job))
        };
        let ends = self.others(begun).filter_map(end);
        let (end, task, job) = ends.max_by_key(|&(end, ..)| end).expect("work of the others that is due");
        let demand = self.due(begun, end) + u128::from(self.set[begun].wcet().0 - 1);
        debug_assert!(demand > u128::from(end), "an overload that is none");
        let (window_ps, demand_ps) = (BigUint::from(end), BigUint::from(demand));
        Overload { task, job: job.into(), window_ps, demand_ps, cause: Cause::Begun(begun) }
    }
}
