//! Results of a simulation.

use memtint_dram::Retention;
use memtint_sim::{Histogram, Runs};
use memtint_units::Picoseconds;

use crate::bound::Bound;
use crate::output::short;
use crate::watch::Refreshed;
use crate::{Job, Scheme};

/// A distribution of times, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// The least; 0 of none.
    pub min: Picoseconds,
    /// The greatest; 0 of none.
    pub max: Picoseconds,
    /// Their sum in picoseconds.
    pub sum_ps: u128,
}

impl Spread {
    /// Adds a histogram whose values are multiples of `unit_ps` picoseconds.
    pub(crate) fn add(&mut self, values: &Histogram, unit_ps: u64) {
        if values.count() == 0 {
            return;
        }
        let (min, max) = (Picoseconds(values.min() * unit_ps), Picoseconds(values.max() * unit_ps));
        self.min = if self.count == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(max);
        self.count += values.count();
        self.sum_ps += values.sum() * u128::from(unit_ps);
    }

    /// Gives the mean, rounded down; 0 of none.
    #[must_use]
    pub fn mean(&self) -> Picoseconds {
        Picoseconds(u64::try_from(self.sum_ps / u128::from(self.count.max(1))).unwrap_or(u64::MAX))
    }
}

/// The result of a task, over all of its instances.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutcome {
    /// Its name.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// Its server, if it runs in one.
    pub server: Option<String>,
    /// Ranks that hold its data, of each instance.
    pub ranks: Vec<Vec<u32>>,
    /// The work of its jobs.
    pub job: Job,
    /// WCET of the task set.
    pub wcet: Picoseconds,
    /// Relative deadline.
    pub deadline: Picoseconds,
    /// Period.
    pub period: Picoseconds,
    /// Phase.
    pub phase: Picoseconds,
    /// Jobs that were late, those at the end of the simulation included.
    pub misses: u64,
    /// From arrival to end of each finished job.
    pub response: Spread,
    /// How long each finished job had its core.
    pub execution: Spread,
    /// From access to data of each read of memory.
    pub latency: Spread,
    /// Times it lost its core before it was done.
    pub preemptions: u64,
    /// Jobs that went over to another instance.
    pub copies: u64,
    /// Why it ended, if it did.
    pub ended: Option<String>,
    /// The result of the analysis.
    pub bound: Bound,
}

impl TaskOutcome {
    /// Returns whether every response is within the bound; `None` without a bound.
    #[must_use]
    pub fn within(&self) -> Option<bool> {
        match self.bound {
            Bound::Within(bound) => Some(self.response.max <= bound),
            _ => None,
        }
    }
}

/// Results of refresh by software.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locked {
    /// Time in which some rank was locked.
    pub locked: Picoseconds,
    /// Of that, for each core: it was idle because tasks that were ready could not run for the locks.
    pub unhidden: Vec<Picoseconds>,
    /// Least processor time of a lock task.
    pub lock_task: Picoseconds,
    /// Processor time of an unlock task.
    pub unlock_task: Picoseconds,
    /// Whether these times are defaults, since the task set has none.
    pub assumed: bool,
    /// Processor time of lock and unlock tasks on all cores.
    pub tasks: Picoseconds,
    /// Lock tasks that ran.
    pub locks: u64,
    /// Dirty lines that they wrote back.
    pub cleaned_lines: u64,
    /// Jobs that went over to another instance.
    pub copies: u64,
    /// Lines of data that were read and written for that.
    pub copied_lines: u64,
}

/// Requests that met a refresh of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// The rank.
    pub rank: u32,
    /// How many.
    pub requests: u64,
    /// Names of the tasks with data there.
    pub tasks: Vec<String>,
}

/// The result of a task set.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The scheme.
    pub scheme: Scheme,
    /// Simulated time.
    pub duration: Picoseconds,
    /// The hyperperiod, if it was simulated in full.
    pub hyperperiod: Option<Picoseconds>,
    /// Time of one REF.
    pub t_rfc: Picoseconds,
    /// The tasks, in the order of the set.
    pub tasks: Vec<TaskOutcome>,
    /// The analysis that bounds are from.
    pub analysis: String,
    /// Time that each core had a task, of those that have tasks.
    pub busy: Vec<Picoseconds>,
    /// Ranks at which requests met a refresh.
    pub met: Vec<Met>,
    /// Findings of the retention monitor; `None` without refresh.
    pub retention: Option<Retention>,
    /// The longest time in which a rank's rows went without refresh.
    pub refresh_gap: Option<Picoseconds>,
    /// Locks; under refresh by software only.
    pub locked: Option<Locked>,
    /// The runs; indices of tasks are those of `instances`.
    pub runs: Runs,
    /// Of each instance that runs are of, the task.
    pub instances: Vec<usize>,
    /// When ranks were refreshed.
    pub refreshed: Vec<Refreshed>,
    /// Up to when these are all kept.
    pub refreshed_until: Picoseconds,
}

impl Outcome {
    /// Counts late jobs.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.tasks.iter().map(|task| task.misses).sum()
    }

    /// Counts requests that met a refresh of their rank.
    #[must_use]
    pub fn requests_met(&self) -> u64 {
        self.met.iter().map(|met| met.requests).sum()
    }

    /// Counts refreshes that came too late for the rows of a bank.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.retention.as_ref().map_or(0, |retention| retention.losses)
    }

    /// Lists tasks with a response beyond its bound: a job took longer than its WCET, or the analysis is wrong.
    #[must_use]
    pub fn beyond(&self) -> Vec<&TaskOutcome> {
        self.tasks.iter().filter(|task| task.within() == Some(false)).collect()
    }

    /// Lists tasks whose responses the analysis finds unbounded: a job is late sooner or later, if not in the simulated time.
    #[must_use]
    pub fn unbounded(&self) -> Vec<&TaskOutcome> {
        self.tasks.iter().filter(|task| task.bound == Bound::Unbounded).collect()
    }

    /// Returns whether the scheme has kept its guarantees: no job late, no row lost, under locks no request that meets
    /// a refresh, no task that ended, and none whose responses are unbounded by the analysis.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.complaints().is_empty()
    }

    /// Lists violations of these guarantees, each with its task, rank or row.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut found = Vec::new();
        for task in self.tasks.iter().filter(|task| task.misses > 0) {
            let (name, misses, longest) = (&task.name, task.misses, short(task.response.max));
            found.push(format!(
                "task {name:?} misses {misses} deadlines of {}; its longest response is {longest}",
                task.deadline
            ));
        }
        for task in self.unbounded().into_iter().filter(|task| task.misses == 0) {
            found.push(format!(
                "task {:?} is unbounded: by the analysis its responses grow without bound, though no job was late in the simulated {}",
                task.name,
                self.duration
            ));
        }
        for task in &self.tasks {
            if let Some(reason) = &task.ended {
                found.push(format!("task {:?} ended: {reason}", task.name));
            }
        }
        if self.scheme.locks() {
            for met in &self.met {
                let hint = self.locked.as_ref().map_or(String::new(), |locked| {
                    let lock = locked.lock_task;
                    format!(
                        "; a lock task takes {lock}, in which requests under way must end and dirty lines be written back"
                    )
                });
                let tasks = met.tasks.join(", ");
                found.push(format!("{} requests met a refresh of rank {}, of {tasks}{hint}", met.requests, met.rank));
            }
        }
        if let Some(loss) = self.retention.as_ref().and_then(|retention| retention.first.as_ref()) {
            found.push(format!("{} refreshes came too late: {loss}", self.losses()));
        }
        found
    }

    /// Share of the time that a core had a task.
    ///
    /// # Panics
    ///
    /// When the core has no task.
    #[must_use]
    pub fn busy_share(&self, core: usize) -> f64 {
        self.busy[core].0 as f64 / self.duration.0.max(1) as f64
    }

    /// Mean share of the time that cores had a task.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        (0..self.busy.len()).map(|core| self.busy_share(core)).sum::<f64>() / self.busy.len().max(1) as f64
    }

    /// The longest response of any task, by its deadline.
    #[must_use]
    pub fn response_over_deadline(&self) -> f64 {
        self.tasks.iter().map(|task| task.response.max.0 as f64 / task.deadline.0 as f64).fold(0.0, f64::max)
    }

    /// Whether every response is within its bound; `None` where a task has none and no other is beyond its own.
    #[must_use]
    pub fn within_bounds(&self) -> Option<bool> {
        match (self.beyond().is_empty(), self.tasks.iter().all(|task| task.within().is_some())) {
            (false, _) => Some(false),
            (true, true) => Some(true),
            (true, false) => None,
        }
    }

    /// Gives the mean latency of all reads of memory, rounded down.
    #[must_use]
    pub fn latency(&self) -> Picoseconds {
        let (count, sum) = self
            .tasks
            .iter()
            .fold((0, 0), |(count, sum), task| (count + task.latency.count, sum + task.latency.sum_ps));
        Picoseconds(u64::try_from(sum / u128::from(u64::max(count, 1))).unwrap_or(u64::MAX))
    }

    /// Gives the time in which cores stood idle only because of locks, all cores together; `None` without locks.
    #[must_use]
    pub fn unhidden(&self) -> Option<Picoseconds> {
        let locked = self.locked.as_ref()?;
        Some(Picoseconds(locked.unhidden.iter().map(|time| time.0).sum()))
    }
}
