//! A program of `memtint run` in the group that a running regulator keeps for its task.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memtint_regulator::{CgroupRoot, Snapshot, online_cpus};
use memtint_system::{AssignedTask, BandwidthEntry, BudgetKind};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::Serialize;

use super::asked::events_of;
use super::report::GroupReport;
use super::status::{Status, now_ns};
use crate::output::Failure;

/// A place in a group, from before the program starts.
#[derive(Debug)]
pub(crate) struct Member {
    group: GroupReport,
    cgroup: PathBuf,
    /// When the program began, or else before that.
    before: Status,
    /// Whether the program was in the group when it ended.
    ended_there: bool,
}

/// What the report of a run says of it. Numbers are of all tasks in the group, from the program's start to some periods after its end.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Regulation {
    group: String,
    cgroup: PathBuf,
    event: String,
    period_ns: u64,
    /// CPUs on which the group is regulated.
    cpus: Vec<usize>,
    /// What the verdict leaves out.
    not_considered: Vec<String>,
    /// In events per period; so is the bound.
    budget: u32,
    soft: bool,
    bound: u64,
    backend: String,
    /// kept, broken, or unknown.
    verdict: &'static str,
    /// Why it is not kept.
    reason: Option<String>,
    /// `None` if they are not known.
    sums: Option<Vec<Sums>>,
}

/// Of the group on a CPU, in events, or periods where they say so.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Sums {
    cpu: usize,
    periods: u64,
    used: u64,
    granted: u64,
    donated: u64,
    returned: u64,
    reclaimed: u64,
    throttled_periods: u64,
    throttled_ns: u64,
    underruns: u64,
    shortfall: u64,
    broken: u64,
}

impl Sums {
    fn new(sums: &Snapshot) -> Sums {
        Sums {
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
    /// For people, unless the budget was kept.
    pub(crate) fn problem(&self) -> Option<String> {
        self.reason.as_ref().map(|reason| format!("bandwidth of the task: {}: {reason}", self.verdict))
    }
}

/// How long a regulator on a busy machine may take to report.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Member {
    /// Finds the group of a task, which must have the task's budget on all CPUs that the program may run on (`None`: all).
    ///
    /// # Errors
    /// Why the budget would not be kept, and what would be accepted, for a sentence that names the task.
    pub(crate) fn find(
        task: &AssignedTask,
        bandwidth: BandwidthEntry,
        cores: Option<&[u32]>,
    ) -> Result<Member, Failure> {
        let refused = |text: String| Failure::Sentence(text);
        let name = task.name();
        let Some(before) = Status::read()? else { return Err(refused("no memtint guard runs".to_owned())) };
        let pid = before.pid();
        let groups = &before.regulated.groups;
        let group = groups.iter().find(|group| group.name == name).cloned();
        let with_cgroup = group.and_then(|group| group.cgroup.clone().map(|cgroup| (PathBuf::from(cgroup), group)));
        let Some((cgroup, group)) = with_cgroup else {
            return Err(refused(format!("the running memtint guard (process {pid}) has no group of this name")));
        };
        let bytes = before.regulated.sensor.event_bytes;
        let asked = (bytes.and_then(|bytes| events_of(bandwidth, bytes)), bandwidth.kind == BudgetKind::Soft);
        let period = Picoseconds(before.regulated.period_ns.saturating_mul(1000));
        if asked != (Some(group.budget), group.soft) || bandwidth.period.0 != period {
            let kind = |soft: bool| if soft { "soft" } else { "hard" };
            let each = bytes.map_or(String::new(), |bytes| format!(" of {bytes} bytes"));
            return Err(refused(format!(
                "the task's budget is {} in {}, {}, and its group's in the running memtint guard (process {pid}) is {} events{each} in {period}, {}",
                bandwidth.budget,
                bandwidth.period.0,
                kind(asked.1),
                group.budget,
                kind(group.soft)
            )));
        }
        let cpus = match cores {
            Some(cores) => cores.iter().map(|&core| core as usize).collect(),
            None => online_cpus()?,
        };
        if let Some(cpu) = cpus.iter().find(|cpu| !group.cpus.contains(cpu)) {
            return Err(refused(format!(
                "the program may run on CPU {cpu}, and its group in the running memtint guard (process {pid}) is regulated on CPUs {:?}",
                group.cpus
            )));
        }
        Ok(Member { group, cgroup, before, ended_there: false })
    }

    /// The program begins: what was before is not its.
    pub(crate) fn begin(&mut self) {
        // Without it, the account begins earlier.
        if let Ok(Some(status)) = Status::read()
            && self.before.is_of_the_same(&status)
        {
            self.before = status;
        }
    }

    /// The program has ended, and its process id is still its own.
    pub(crate) fn see_end(&mut self, program: i32) {
        let groups = std::fs::read_to_string(format!("/proc/{program}/cgroup")).unwrap_or_default();
        let path = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        let root = CgroupRoot::find().map(|root| root.path().to_owned());
        self.ended_there = matches!((path, root), (Some(path), Ok(root)) if root.join(path).starts_with(&self.cgroup));
    }

    /// The group's folder.
    pub(crate) fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// The program has ended: waits until the regulator has accounted for its last period.
    pub(crate) fn end(self) -> Regulation {
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
            Err(reason) => ("unknown", Some(reason), None),
            Ok(sums) => match sums.iter().map(|sums| sums.broken).sum::<u64>() {
                0 => ("kept", None, Some(sums)),
                broken => ("broken", Some(format!("{broken} times, as memtint guard has told")), Some(sums)),
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
    fn sums(&self, now: &Status) -> Vec<Sums> {
        let both = now.sums.iter().zip(&self.before.sums).filter(|(row, _)| row.name == self.group.name);
        both.map(|(row, before)| Sums::new(&row.sums.since(&before.sums))).collect()
    }
}
