//! A program of `memtint run` in the group that a running regulator keeps for its task.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memtint_regulator::{Backend, CgroupRoot, RegulatorError, Snapshot, now_ns, online_cpus};
use memtint_system::{AssignedTask, BandwidthEntry, BudgetKind};
use memtint_units::{ByteSize, Picoseconds};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use crate::budgets::events_of;
use crate::error::ServiceError;
use crate::report::GroupReport;
use crate::status::Status;

/// A place in a group, from before the program starts.
#[derive(Debug)]
pub struct Member {
    group: GroupReport,
    cgroup: PathBuf,
    /// The status at the start of the program, or an earlier one.
    before: Status,
    /// Whether the program was in the group when it ended.
    ended_there: bool,
}

/// Why a task's budget would not be kept.
#[derive(Debug, Error)]
pub enum MemberError {
    /// The status cannot be read.
    #[error(transparent)]
    Status(#[from] ServiceError),
    /// The list of CPUs.
    #[error(transparent)]
    Regulator(#[from] RegulatorError),
    /// There is no regulator.
    #[error("no memtint guard runs")]
    NoGuard,
    /// The regulator has no group for the task.
    #[error("the running memtint guard (process {process}) has no group of this name")]
    NoGroup {
        /// The regulator's process.
        process: u32,
    },
    /// The group has another budget.
    #[error(
        "the task's budget is {budget} in {period}, {}, and its group's in the running memtint guard (process {process}) is {} events{} in \
         {regulated_period}, {}",
        kind_name(*.soft), .group.budget, .event_bytes.map_or(String::new(), |bytes| format!(" of {bytes} bytes")), kind_name(.group.soft)
    )]
    Budget {
        /// The task's.
        budget: ByteSize,
        /// The task's.
        period: Picoseconds,
        /// The task's.
        soft: bool,
        /// The regulator's process.
        process: u32,
        /// The regulator's group.
        group: Box<GroupReport>,
        /// The regulator's.
        event_bytes: Option<u32>,
        /// The regulator's.
        regulated_period: Picoseconds,
    },
    /// The group is not regulated on all CPUs of the task.
    #[error(
        "the program may run on CPU {cpu}, and its group in the running memtint guard (process {process}) is regulated on CPUs {cpus:?}"
    )]
    Cpu {
        /// One of the task's.
        cpu: usize,
        /// The regulator's process.
        process: u32,
        /// The group's.
        cpus: Vec<usize>,
    },
}

fn kind_name(soft: bool) -> &'static str {
    if soft { "soft" } else { "hard" }
}

/// Whether the budget of a program was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegulationVerdict {
    /// Every period was within its bound.
    Kept,
    /// One was not, or does not show that it was.
    Broken,
    /// There is no evidence.
    Unknown,
}

impl RegulationVerdict {
    /// Gives its name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            RegulationVerdict::Kept => "kept",
            RegulationVerdict::Broken => "broken",
            RegulationVerdict::Unknown => "unknown",
        }
    }
}

/// How the program's group was regulated. Numbers are of all tasks in the group, from the program's start to some periods after its end.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Regulation {
    /// Name of the group.
    pub group: String,
    /// Its folder.
    pub cgroup: PathBuf,
    /// What is counted.
    pub event: String,
    /// Length of a period.
    pub period_ns: u64,
    /// CPUs on which the group is regulated.
    pub cpus: Vec<usize>,
    /// What the verdict leaves out.
    pub not_considered: Vec<String>,
    /// In events per period; so is the bound.
    pub budget: u32,
    /// Whether it donates and reclaims.
    pub soft: bool,
    /// Most events of a period on all of its CPUs.
    pub bound: u64,
    /// Where it is decided: never `auto`.
    pub backend: Backend,
    /// Whether the budget was kept.
    pub verdict: RegulationVerdict,
    /// Why it is not kept.
    pub reason: Option<String>,
    /// `None` if they are not known.
    pub sums: Option<Vec<RegulationSums>>,
}

/// Of the group on a CPU, in events, or periods where they say so.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RegulationSums {
    /// The CPU.
    pub cpu: usize,
    /// Periods that have ended.
    pub periods: u64,
    /// Events used.
    pub used: u64,
    /// Events granted.
    pub granted: u64,
    /// Events donated to others.
    pub donated: u64,
    /// Donated events that the group has taken back.
    pub returned: u64,
    /// Events that others had donated.
    pub reclaimed: u64,
    /// Periods in which the group was stopped.
    pub throttled_periods: u64,
    /// Time for which the group was stopped.
    pub throttled_ns: u64,
    /// Periods in which the group could not take back all that it had donated.
    pub underruns: u64,
    /// Events that were missing in them.
    pub shortfall: u64,
    /// Periods that do not show that the bound was kept.
    pub broken: u64,
}

impl RegulationSums {
    fn new(sums: &Snapshot) -> RegulationSums {
        RegulationSums {
            cpu: sums.cpu,
            periods: sums.periods,
            used: sums.used,
            granted: sums.granted,
            donated: sums.donated,
            returned: sums.returned,
            reclaimed: sums.reclaimed,
            throttled_periods: sums.throttled_periods,
            throttled_ns: sums.throttled_ns,
            underruns: sums.underruns,
            shortfall: sums.shortfall,
            broken: sums.broken,
        }
    }
}

impl Regulation {
    /// Gives a sentence about the verdict, unless the budget was kept.
    pub fn problem(&self) -> Option<String> {
        self.reason.as_ref().map(|reason| format!("bandwidth of the task: {}: {reason}", self.verdict.name()))
    }
}

/// How long a regulator on a busy machine may take to report.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Member {
    /// Finds the group of a task, which must have the task's budget on all CPUs that the program may run on (`None`: all).
    ///
    /// # Errors
    /// [`MemberError`]: why the budget would not be kept.
    pub fn find(task: &AssignedTask, bandwidth: BandwidthEntry, cores: Option<&[u32]>) -> Result<Member, MemberError> {
        let name = task.name();
        let before = Status::read()?.ok_or(MemberError::NoGuard)?;
        let process = before.process.pid;
        let group = before.regulated.groups.iter().find(|group| group.name == name).cloned();
        let with_cgroup = group.and_then(|group| group.cgroup.clone().map(|cgroup| (PathBuf::from(cgroup), group)));
        let (cgroup, group) = with_cgroup.ok_or(MemberError::NoGroup { process })?;
        let event_bytes = before.regulated.sensor.event_bytes;
        let soft = bandwidth.kind == BudgetKind::Soft;
        let events = event_bytes.and_then(|bytes| events_of(bandwidth, bytes));
        let regulated_period = Picoseconds(before.regulated.period_ns.saturating_mul(1000));
        let (budget, period) = (bandwidth.budget, bandwidth.period.0);
        if (events, soft) != (Some(group.budget), group.soft) || period != regulated_period {
            let group = Box::new(group);
            return Err(MemberError::Budget { budget, period, soft, process, group, event_bytes, regulated_period });
        }
        let cpus = match cores {
            Some(cores) => cores.iter().map(|&core| core as usize).collect(),
            None => online_cpus()?,
        };
        if let Some(&cpu) = cpus.iter().find(|cpu| !group.cpus.contains(cpu)) {
            return Err(MemberError::Cpu { cpu, process, cpus: group.cpus });
        }
        Ok(Member { group, cgroup, before, ended_there: false })
    }

    /// Marks the start of the program: earlier sums do not count.
    pub fn begin(&mut self) {
        // If the status cannot be read, the account begins earlier.
        if let Ok(Some(status)) = Status::read()
            && self.before.is_of_the_same(&status)
        {
            self.before = status;
        }
    }

    /// Marks the end of the program, before its process id can be reused.
    pub fn see_end(&mut self, program: i32) {
        let groups = std::fs::read_to_string(format!("/proc/{program}/cgroup")).unwrap_or_default();
        let path = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        let root = CgroupRoot::find().map(|root| root.path().to_owned());
        self.ended_there = matches!((path, root), (Some(path), Ok(root)) if root.join(path).starts_with(&self.cgroup));
    }

    /// The group's folder.
    pub fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// The program has ended: waits until the regulator has accounted for its last period.
    pub fn end(self) -> Regulation {
        // The period under way has ended by then.
        let ended_ns = now_ns() + self.before.regulated.period_ns;
        let timeout = TIMEOUT + Duration::from_nanos(3 * self.before.regulated.period_ns);
        let begin = Instant::now();
        let mut last = Err("the regulator has not reported since the program ended".to_owned());
        while begin.elapsed() < timeout {
            match Status::read() {
                Ok(Some(status)) if !self.before.is_of_the_same(&status) => {
                    last = Err("another regulator has begun meanwhile".to_owned());
                    break;
                }
                Ok(None) => {
                    last = Err("the regulator has ended before the program".to_owned());
                    break;
                }
                Ok(Some(status)) if status.accounted_ns > ended_ns => {
                    last = Ok(self.sums(&status));
                    break;
                }
                Ok(Some(_)) => {}
                Err(error) => last = Err(error.to_string()),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if last.is_ok() && !self.ended_there {
            last = Err("the program was not in its group when it ended".to_owned());
        }
        let (verdict, reason, sums) = match last {
            Err(reason) => (RegulationVerdict::Unknown, Some(reason), None),
            Ok(sums) => match sums.iter().map(|sums| sums.broken).sum::<u64>() {
                0 => (RegulationVerdict::Kept, None, Some(sums)),
                broken => {
                    (RegulationVerdict::Broken, Some(format!("{broken} times, as memtint guard has told")), Some(sums))
                }
            },
        };
        let GroupReport { name, cpus, budget, soft, bound, .. } = self.group;
        let online = online_cpus().unwrap_or_default();
        let others: Vec<usize> = online.into_iter().filter(|cpu| !cpus.contains(cpu)).collect();
        let not_considered = match others.is_empty() {
            true => Vec::new(),
            false => vec![format!("what the program did on CPUs {others:?}, if it has let itself run there")],
        };
        let Status { regulated, backend, .. } = self.before;
        Regulation {
            group: name,
            cgroup: self.cgroup,
            event: regulated.sensor.name,
            period_ns: regulated.period_ns,
            cpus,
            not_considered,
            budget,
            soft,
            bound,
            backend,
            verdict,
            reason,
            sums,
        }
    }

    /// What the group has done since the program began.
    fn sums(&self, now: &Status) -> Vec<RegulationSums> {
        let both = now.sums.iter().zip(&self.before.sums).filter(|(row, _)| row.name == self.group.name);
        both.map(|(row, before)| RegulationSums::new(&row.sums.since(&before.sums))).collect()
    }
}
