//! The budgets of a system file's tasks.

use std::path::{Path, PathBuf};

use memtint_guard::Kind;
use memtint_regulator::{CgroupRoot, GroupSettings, Place, RegulatorError, Sensor, online_cpus};
use memtint_system::{AssignedTask, Assignment, BandwidthEntry, BudgetKind, SystemError, Verb, left_out};
use memtint_units::{ByteSize, Picoseconds};
use thiserror::Error;

/// The usual period: 1 ms.
pub const PERIOD: Picoseconds = Picoseconds(1_000_000_000);

/// The budgets of a system file's tasks.
#[derive(Debug)]
pub struct Budgets {
    file: PathBuf,
    period: Picoseconds,
    tasks: Vec<(AssignedTask, BandwidthEntry)>,
    left_out: Vec<String>,
}

/// Why the budgets of a system file cannot be regulated.
#[derive(Debug, Error)]
pub enum BudgetsError {
    /// The file is no system file.
    #[error(transparent)]
    System(#[from] SystemError),
    /// It has a fault.
    #[error("{file:?}: {fault}")]
    Fault {
        /// The file.
        file: PathBuf,
        /// Its fault.
        fault: BudgetsFault,
    },
}

/// A fault of budgets.
#[derive(Debug, Error)]
pub enum BudgetsFault {
    /// No task has a budget.
    #[error(
        "bandwidth is given for no task; accepted is at least one task with bandwidth = {{ budget = SIZE, period = TIME }}"
    )]
    None,
    /// A period has a fraction of a nanosecond.
    #[error("bandwidth.period is {period}; accepted is a period of whole nanoseconds")]
    Period {
        /// The period.
        period: Picoseconds,
    },
    /// Two tasks have different periods.
    #[error(
        "task {task:?}: bandwidth.period is {found}; accepted is {period}, as of the tasks before it: a regulator has one period"
    )]
    Periods {
        /// The second task.
        task: String,
        /// Its period.
        found: Picoseconds,
        /// The first task's.
        period: Picoseconds,
    },
    /// An event of the sensor moves no known number of bytes.
    #[error(
        "task {task:?}: bandwidth.budget is in bytes, and an event of {event} is no transfer; accepted is an event of known bytes: --event, or \
         --event-bytes"
    )]
    NoTransfer {
        /// The task.
        task: String,
        /// The event.
        event: String,
    },
    /// A budget is less than an event, or more events than can be counted.
    #[error("task {task:?}: bandwidth.budget is {found}; accepted is {least} to {most} bytes")]
    Budget {
        /// The task.
        task: String,
        /// Its budget.
        found: ByteSize,
        /// Smallest budget.
        least: u32,
        /// Largest budget.
        most: u64,
    },
    /// The machine refuses it.
    #[error(transparent)]
    Regulator(#[from] RegulatorError),
}

impl Budgets {
    /// Reads the budgets of a system file, of which there must be one, with one period.
    ///
    /// # Errors
    /// [`BudgetsError`].
    pub fn load(file: &Path) -> Result<Budgets, BudgetsError> {
        let plan = Assignment::load(file)?;
        let budget = |task: &AssignedTask| task.bandwidth().map(|bandwidth| (task.clone(), bandwidth));
        let tasks: Vec<(AssignedTask, BandwidthEntry)> = plan.tasks().iter().filter_map(budget).collect();
        let without = plan.tasks().iter().filter(|task| task.bandwidth().is_none());
        let without: Vec<&str> = without.map(AssignedTask::name).collect();
        let mut left_out: Vec<String> = left_out(plan.file(), Verb::Guard).into_iter().map(str::to_owned).collect();
        if !without.is_empty() {
            left_out.push(format!("tasks of the system file that have no budget: {}", without.join(", ")));
        }
        let period = tasks.first().map_or(PERIOD, |(_, bandwidth)| bandwidth.period.0);
        let budgets = Budgets { file: file.to_owned(), period, tasks, left_out };
        match budgets.check() {
            Ok(()) => Ok(budgets),
            Err(fault) => Err(budgets.fault(fault)),
        }
    }

    fn check(&self) -> Result<(), BudgetsFault> {
        let period = self.period;
        if self.tasks.is_empty() {
            return Err(BudgetsFault::None);
        }
        if !period.0.is_multiple_of(1000) {
            return Err(BudgetsFault::Period { period });
        }
        match self.tasks.iter().find(|(_, other)| other.period.0 != period) {
            None => Ok(()),
            Some((task, other)) => {
                Err(BudgetsFault::Periods { task: task.name().to_owned(), found: other.period.0, period })
            }
        }
    }

    /// Gives the period.
    pub fn period(&self) -> Picoseconds {
        self.period
    }

    /// Gives what of the system file is not regulated.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Names the file in a fault.
    pub fn fault(&self, fault: impl Into<BudgetsFault>) -> BudgetsError {
        BudgetsError::Fault { file: self.file.clone(), fault: fault.into() }
    }

    /// Gives a group for each task, on its cores. `quantum` is that of all groups; `None`: a quarter of each budget.
    ///
    /// # Errors
    /// [`BudgetsError::Fault`] for a budget that is no number of events.
    pub fn groups(&self, sensor: &Sensor, quantum: Option<u32>) -> Result<Vec<GroupSettings>, BudgetsError> {
        let group = |(task, bandwidth): &(AssignedTask, BandwidthEntry)| group(task, *bandwidth, sensor, quantum);
        self.tasks.iter().map(|budget| group(budget).map_err(|fault| self.fault(fault))).collect()
    }
}

fn group(
    task: &AssignedTask,
    bandwidth: BandwidthEntry,
    sensor: &Sensor,
    quantum: Option<u32>,
) -> Result<GroupSettings, BudgetsFault> {
    let name = task.name().to_owned();
    let Some(bytes) = sensor.bytes else {
        return Err(BudgetsFault::NoTransfer { task: name, event: sensor.name.clone() });
    };
    let Some(budget) = events_of(bandwidth, bytes) else {
        let most = u64::from(bytes) * i32::MAX as u64;
        return Err(BudgetsFault::Budget { task: name, found: bandwidth.budget, least: bytes, most });
    };
    let cgroup = CgroupRoot::find()?.group(&name)?;
    let cpus = match task.cores() {
        Some(cores) => cores.iter().map(|&core| core as usize).collect(),
        None => online_cpus()?,
    };
    let kind = match bandwidth.kind {
        BudgetKind::Hard => Kind::Hard,
        BudgetKind::Soft => Kind::Soft,
    };
    let quantum = quantum.unwrap_or_else(|| usual_quantum(budget));
    Ok(GroupSettings { name, place: Place::Cgroup(cgroup), cpus, budget, kind, quantum })
}

/// Gives the usual quantum of a budget: a quarter, rounded up.
pub fn usual_quantum(budget: u32) -> u32 {
    budget.div_ceil(4)
}

/// Gives the events per period that a budget of a task is, for events of `bytes`; `None` for less than one.
pub(crate) fn events_of(bandwidth: BandwidthEntry, bytes: u32) -> Option<u32> {
    let events = bandwidth.budget.bytes() / u64::from(bytes);
    u32::try_from(events).ok().filter(|events| (1..=i32::MAX as u32).contains(events))
}
