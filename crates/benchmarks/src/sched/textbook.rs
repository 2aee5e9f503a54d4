//! The analyses as in textbooks, as a baseline for the library. Only for tasks without jitter and blocking.

use memtint_sched::{Run, TaskIndex, TaskSet};
use memtint_units::Picoseconds;

use super::{Answers, JOBS, RESOURCE_PERIOD, digest};

/// Period (and deadline), execution time.
type Plain = (u64, u64);

fn plain(set: &TaskSet) -> Vec<Plain> {
    set.tasks().iter().map(|task| (task.period().0, task.wcet().0)).collect()
}

/// The tasks, shortest period first, and the position of each task of the set in that order.
fn by_period(set: &TaskSet) -> (Vec<Plain>, Vec<usize>) {
    let tasks = plain(set);
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&task| tasks[task].0);
    (order.iter().map(|&task| tasks[task]).collect(), order)
}

/// Computes every job of the busy window, each from scratch (Lehoczky 1990).
fn response(sorted: &[Plain], rank: usize) -> u64 {
    let (period, wcet) = sorted[rank];
    let mut worst = 0;
    for job in 0.. {
        let mut window = (job + 1) * wcet;
        loop {
            let higher = sorted[..rank].iter().map(|&(period, wcet)| window.div_ceil(period) * wcet).sum::<u64>();
            let next = (job + 1) * wcet + higher;
            if next == window {
                break;
            }
            window = next;
        }
        worst = worst.max(window - job * period);
        if window <= (job + 1) * period {
            break;
        }
    }
    worst
}

pub(super) fn fixed_responses(set: &TaskSet) -> Answers {
    let (sorted, order) = by_period(set);
    let mut answers = vec![None; order.len()];
    for (rank, &task) in order.iter().enumerate() {
        answers[task] = Some(response(&sorted, rank));
    }
    answers
}

pub(super) fn fixed_decision(set: &TaskSet) -> Answers {
    let (sorted, _) = by_period(set);
    let fits = (0..sorted.len()).all(|rank| response(&sorted, rank) <= sorted[rank].0);
    vec![Some(u64::from(fits))]
}

fn busy_window(tasks: &[Plain]) -> u64 {
    let mut window = tasks.iter().map(|task| task.1).sum();
    loop {
        let next = tasks.iter().map(|&(period, wcet)| u64::div_ceil(window, period) * wcet).sum();
        if next == window {
            return window;
        }
        window = next;
    }
}

/// Every offset at which a deadline coincides with another (Spuri 1996).
pub(super) fn edf_responses(set: &TaskSet) -> Answers {
    let tasks = plain(set);
    let busy = busy_window(&tasks);
    let one = |index: usize| {
        let (own_period, own_wcet) = tasks[index];
        let mut offsets = Vec::new();
        for &(period, _) in &tasks {
            // k T + D - D_i is at least 0.
            let mut deadline = period;
            while deadline < own_period {
                deadline += period;
            }
            while deadline - own_period < busy {
                offsets.push(deadline - own_period);
                deadline += period;
            }
        }
        offsets.extend((0..).map(|job| job * own_period).take_while(|&offset| offset < busy));
        offsets.sort_unstable();
        offsets.dedup();
        let mut worst = own_wcet;
        for offset in offsets {
            let own = (offset / own_period + 1) * own_wcet;
            let deadline = offset + own_period;
            let mut window = own;
            loop {
                let mut next = own;
                for (other, &(period, wcet)) in tasks.iter().enumerate() {
                    if other != index && period <= deadline {
                        next += window.div_ceil(period).min((deadline - period) / period + 1) * wcet;
                    }
                }
                if next == window {
                    break;
                }
                window = next;
            }
            worst = worst.max(window.saturating_sub(offset));
        }
        Some(worst)
    };
    (0..tasks.len()).map(one).collect()
}

fn demand(tasks: &[Plain], window: u64) -> u64 {
    tasks.iter().map(|&(period, wcet)| window / period * wcet).sum()
}

/// Every deadline up to a point.
fn deadlines(tasks: &[Plain], until: u64) -> Vec<u64> {
    let mut all: Vec<u64> = tasks
        .iter()
        .flat_map(|&(period, _)| (1..).map(move |job| job * period).take_while(|&deadline| deadline <= until))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The demand at every deadline of the busy window (Baruah, Rosier and Howell 1990).
pub(super) fn edf_decision(set: &TaskSet) -> Answers {
    let tasks = plain(set);
    let all = deadlines(&tasks, busy_window(&tasks));
    vec![Some(u64::from(all.into_iter().all(|deadline| demand(&tasks, deadline) <= deadline)))]
}

/// Supply of a resource (Shin and Lee 2003).
fn supply(period: u64, budget: u64, window: u64) -> u64 {
    let gap = period - budget;
    if window <= gap {
        return 0;
    }
    let budgets = (window - gap) / period;
    budgets * budget + (window - gap).saturating_sub(budgets * period + gap)
}

/// The smallest whole budget that a test accepts, by halving.
fn smallest(accepts: impl Fn(u64) -> bool) -> Answers {
    let (mut short, mut enough) = (0, RESOURCE_PERIOD.0);
    if !accepts(enough) {
        return vec![None];
    }
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        if accepts(middle) { enough = middle } else { short = middle }
    }
    vec![Some(enough)]
}

/// The longest window examined; where a longer one is needed, there is no answer.
const WINDOW_MAX: u64 = 1 << 34;

pub(super) fn edf_budget(set: &TaskSet) -> Answers {
    let tasks = plain(set);
    let period = RESOURCE_PERIOD.0;
    let cut = std::cell::Cell::new(false);
    let found = smallest(|budget| {
        // Beyond this, U t is below the linear supply: U t <= (B / P) (t - 2 (P - B)).
        let (wide, gap) = (u128::from(period), 2 * u128::from(period - budget));
        let scale = 1u128 << 40;
        let load: u128 = tasks.iter().map(|&(period, wcet)| (u128::from(wcet) * scale).div_ceil(period.into())).sum();
        let bandwidth = u128::from(budget) * scale / wide;
        if bandwidth <= load {
            return false;
        }
        let until = bandwidth * gap / (bandwidth - load);
        let window = u64::try_from(until).unwrap_or(u64::MAX).min(WINDOW_MAX);
        let fits = deadlines(&tasks, window).into_iter().all(|end| demand(&tasks, end) <= supply(period, budget, end));
        cut.set(cut.get() || fits && until > WINDOW_MAX.into());
        fits
    });
    if cut.get() { vec![None] } else { found }
}

pub(super) fn fixed_budget(set: &TaskSet) -> Answers {
    let (sorted, _) = by_period(set);
    smallest(|budget| {
        (0..sorted.len()).all(|rank| {
            let (deadline, wcet) = sorted[rank];
            let mut ends = deadlines(&sorted[..rank], deadline - 1);
            ends.push(deadline);
            ends.into_iter().any(|end| {
                let higher = sorted[..rank].iter().map(|&(period, wcet)| end.div_ceil(period) * wcet).sum::<u64>();
                wcet + higher <= supply(RESOURCE_PERIOD.0, budget, end)
            })
        })
    })
}

/// Computes a schedule; examines all tasks at each release and each completion.
fn schedule(tasks: &[Plain], end: u64, urgency: impl Fn(usize, u64) -> u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    // For each task: jobs released, jobs finished, and the time that the first unfinished job has had.
    let mut jobs = vec![(0, 0, 0); tasks.len()];
    let mut now = 0;
    while now < end {
        let mut next = end;
        for ((released, ..), &(period, _)) in jobs.iter_mut().zip(tasks) {
            while *released * period <= now {
                *released += 1;
            }
            next = next.min(*released * period);
        }
        let ready = (0..tasks.len()).filter(|&task| jobs[task].1 < jobs[task].0);
        let Some(task) = ready.min_by_key(|&task| (urgency(task, jobs[task].1), task)) else {
            now = next;
            continue;
        };
        let (_, job, had) = &mut jobs[task];
        let until = next.min(now + tasks[task].1 - *had);
        match runs.last_mut() {
            Some(last) if (last.task, last.job, last.end.0) == (TaskIndex(task), *job, now) => last.end.0 = until,
            _ => runs.push(Run { task: TaskIndex(task), job: *job, start: Picoseconds(now), end: Picoseconds(until) }),
        }
        *had += until - now;
        if *had == tasks[task].1 {
            (*job, *had) = (*job + 1, 0);
        }
        now = until;
    }
    runs
}

/// The longest window with at most [`JOBS`] arrivals.
fn window(tasks: &[Plain]) -> u64 {
    let jobs = |end: u64| tasks.iter().map(|&(period, _)| end.div_ceil(period)).sum::<u64>();
    let (mut fits, mut exceeds) = (1, 1 << 62);
    while exceeds - fits > 1 {
        let middle = fits + (exceeds - fits) / 2;
        if jobs(middle) <= JOBS { fits = middle } else { exceeds = middle }
    }
    fits
}

pub(super) fn fixed_schedule(set: &TaskSet) -> Answers {
    let (tasks, (_, order)) = (plain(set), by_period(set));
    let mut ranks = vec![0; order.len()];
    (0..).zip(order).for_each(|(rank, task)| ranks[task] = rank);
    digest(&schedule(&tasks, window(&tasks), |task, _| ranks[task]))
}

pub(super) fn edf_schedule(set: &TaskSet) -> Answers {
    let tasks = plain(set);
    digest(&schedule(&tasks, window(&tasks), |task, job| (job + 1) * tasks[task].0))
}
