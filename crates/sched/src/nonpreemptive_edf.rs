//! Earliest deadline first without preemption: a job that has begun is not interrupted, and the processor never idles while
//! one waits.
//!
//! Jeffay, Stanat and Martel 1991 (theorem 4.1) for deadlines at the ends of periods; George, Rivierre and Spuri 1996 (INRIA
//! RR-2966) for any deadlines: a sporadic set is schedulable exactly when every window `t` that ends at a deadline holds the
//! work due in it, `h(t) <= t`, and, for each task with `D_i > t`, what is left of its job that began 1 ps before as well:
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

use crate::edf::{Demand, DemandTest, quick_processor_demand};
use crate::task::{Task, TaskSet, load};
use crate::verdict::{Cause, Effort, Overload, Steps, Unsupported, Verdict, window};
use num_bigint::BigUint;
use std::cmp::Ordering;

/// Decides whether every job meets its deadline under EDF without preemption, for deadlines below, at and above the period.
///
/// Exact for sporadic tasks. Needs no blocking and jitters not beyond periods. A no whose cause is [`Cause::Begun`] names the
/// task of the job that began 1 ps before the window. When phases differ, a no becomes [`Unsupported::Phases`], unless
/// it is the utilization's.
///
/// ```
/// use memtint_sched::{Cause, Effort, TaskSet, TaskSpec, Verdict, nonpreemptive_edf};
/// use memtint_units::Picoseconds as Ps;
///
/// let set = |long| TaskSet::new([TaskSpec::new("a", Ps(4), Ps(2)), TaskSpec::new("b", Ps(12), Ps(long))]);
/// assert!(nonpreemptive_edf(&set(3)?, Effort::default()).is_schedulable(), "2 left of b, and 2 of a, in 4");
/// let Verdict::Unschedulable(late) = nonpreemptive_edf(&set(4)?, Effort::default()) else { panic!("3 left of b") };
/// assert_eq!((late.task, late.window_ps, late.demand_ps, late.cause), (0, 4u8.into(), 5u8.into(), Cause::Begun(1)));
/// # Ok::<(), memtint_sched::SchedError>(())
/// ```
pub fn nonpreemptive_edf(set: &TaskSet, effort: Effort) -> Verdict<DemandTest> {
    let needs = |task: &Task| {
        let blocked = (task.blocking().0 > 0).then_some("no blocking, for EDF without preemption");
        let late = "a jitter not beyond the period, for EDF without preemption";
        blocked.or((task.jitter() > task.period()).then_some(late))
    };
    let refuse = |(task, own)| needs(own).map(|needs| Unsupported::Precondition { task, needs });
    if let Some(reason) = set.tasks().iter().enumerate().find_map(refuse) {
        return Verdict::Unsupported(reason);
    }
    let interrupted = match quick_processor_demand(set, effort) {
        Verdict::Schedulable(test) => test,
        // No policy does what this one cannot.
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

/// Windows before which a job has begun.
struct Blocked<'a> {
    set: &'a TaskSet,
    demand: Demand<'a>,
    /// A window that is overloaded and not shorter than this has one that is, too.
    end: u64,
}

impl<'a> Blocked<'a> {
    /// Until the deadline of a job that is late, the processor works without a pause at what is left of one that began before and at
    /// what is released in the window: such a window is shorter than the first that is long enough for both.
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
        let mut steps = Steps::new(0, effort);
        let mut length = 0;
        while blocked.end != length {
            steps.step()?;
            blocked.end = length;
            length = window(work(length), 0)?;
        }
        Ok(blocked)
    }

    fn search(&self, effort: Effort, windows: &mut u64) -> Result<Option<Overload>, Unsupported> {
        for (begun, own) in self.set.tasks().iter().enumerate() {
            let mut steps = Steps::new(begun, effort);
            let last = self.end.min(own.deadline().0) - 1;
            if let Some(length) = self.backwards(begun, last, &mut steps, windows)? {
                return Ok(Some(self.overload(begun, length)));
            }
        }
        Ok(None)
    }

    fn others(&self, begun: usize) -> impl Iterator<Item = (usize, &'a Task)> {
        self.set.tasks().iter().enumerate().filter(move |&(task, _)| task != begun)
    }

    /// Work of the others due in a window.
    fn due(&self, begun: usize, length: u64) -> u128 {
        let work = |(_, task): (usize, &Task)| u128::from(Demand::due(task, length as i64)) * u128::from(task.wcet().0);
        self.others(begun).map(work).fold(0, u128::saturating_add)
    }

    /// Finds an overloaded window no longer than `last`, from there backwards as in Zhang and Burns 2009: what is due in any window
    /// between the work of one and its length is no more than that work.
    fn backwards(
        &self,
        begun: usize,
        last: u64,
        steps: &mut Steps,
        windows: &mut u64,
    ) -> Result<Option<u64>, Unsupported> {
        let left = u128::from(self.set.tasks()[begun].wcet().0 - 1);
        let mut length = last;
        loop {
            steps.step()?;
            *windows += 1;
            let due = self.due(begun, length);
            if due == 0 {
                return Ok(None); // Nobody can be late.
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
    fn overload(&self, begun: usize, length: u64) -> Overload {
        let end = |(index, task): (usize, &Task)| {
            let first = Demand::first(task)?;
            let job = length.checked_sub(first)? / task.period().0;
            Some((first + job * task.period().0, index, job))
        };
        let ends = self.others(begun).filter_map(end);
        let (end, task, job) = ends.max_by_key(|&(end, ..)| end).expect("work of the others that is due");
        let demand = self.due(begun, end) + u128::from(self.set.tasks()[begun].wcet().0 - 1);
        debug_assert!(demand > u128::from(end), "an overload that is none");
        let (window_ps, demand_ps) = (BigUint::from(end), BigUint::from(demand));
        Overload { task, job: job.into(), window_ps, demand_ps, cause: Cause::Begun(begun) }
    }
}
