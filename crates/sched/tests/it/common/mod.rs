//! A simulator that moves tick by tick, and random task sets for it. It knows nothing of the analyses.
use memtint_sched::{TaskSet, TaskSpec};
use memtint_units::Picoseconds as Ps;
use memtint_units::Random;

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) task: usize,
    pub(crate) arrival: i64,
    pub(crate) release: i64,
    pub(crate) work: u64,
    /// Least goes first; then the smaller release.
    pub(crate) urgency: i64,
    pub(crate) completion: Option<i64>,
}

/// Runs jobs from tick 0, one processor, the most urgent first, for `ticks`.
pub(crate) fn simulate(jobs: &mut [Job], preemptive: bool, ticks: i64) {
    let mut left: Vec<u64> = jobs.iter().map(|job| job.work).collect();
    let mut held: Option<usize> = None;
    for now in 0..ticks {
        if preemptive || held.is_none() {
            held = (0..jobs.len())
                .filter(|&j| jobs[j].release <= now && left[j] > 0)
                .min_by_key(|&j| (jobs[j].urgency, jobs[j].release, j));
        }
        if let Some(j) = held {
            left[j] -= 1;
            if left[j] == 0 {
                jobs[j].completion = Some(now + 1);
                held = None;
            }
        }
    }
}

/// Jobs of a task whose first release is at `offset`, having arrived its jitter before; later ones are released as soon as
/// they arrive, but not before the first.
pub(crate) fn arrivals(set: &TaskSet, task: usize, offset: i64, ticks: i64, urgency: impl Fn(i64) -> i64) -> Vec<Job> {
    let own = &set.tasks()[task];
    let (period, jitter) = (own.period().0 as i64, own.jitter().0 as i64);
    let mut jobs = Vec::new();
    let mut arrival = offset - jitter;
    while arrival < ticks {
        let (release, work) = (arrival.max(offset), own.wcet().0);
        jobs.push(Job { task, arrival, release, work, urgency: urgency(arrival), completion: None });
        arrival += period;
    }
    jobs
}

/// The longest response of a task; jobs not complete count as if they would complete at the end.
pub(crate) fn longest(jobs: &[Job], task: usize, ticks: i64) -> i64 {
    let of_task = jobs.iter().filter(|job| job.task == task);
    of_task.map(|job| job.completion.unwrap_or(ticks) - job.arrival).max().unwrap_or(0)
}

pub(crate) fn ps(value: i64) -> Ps {
    Ps(u64::try_from(value).unwrap())
}

/// What a random task set may hold.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) tasks: u64,
    pub(crate) period: u64,
    pub(crate) jitter: u64,
    pub(crate) blocking: u64,
    /// Deadlines up to this many times the period.
    pub(crate) deadline: u64,
}

pub(crate) fn random_set(random: &mut Random, shape: Shape) -> TaskSet {
    let count = random.within(1, shape.tasks);
    let specs = (0..count).map(|index| {
        let period = random.within(2, shape.period);
        let wcet = random.within(1, (period * 2 / count).clamp(1, period));
        TaskSpec::new(format!("t{index}"), Ps(period), Ps(wcet))
            .deadline(Ps(random.within(wcet, (period * shape.deadline).max(wcet))))
            .jitter(Ps(random.within(0, shape.jitter)))
            .blocking(Ps(random.within(0, shape.blocking)))
    });
    TaskSet::new(specs.collect::<Vec<_>>()).unwrap()
}
