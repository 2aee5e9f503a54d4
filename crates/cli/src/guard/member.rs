//! A program of `memtint run` in the group that a running regulator keeps for its task.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memtint_plan::{BandwidthEntry, BudgetKind, Task};
use memtint_regulator::online_cpus;
use serde::Serialize;

use super::asked::events_of;
use super::report::{GroupReport, Row};
use super::status::{Status, now_ns};
use crate::output::Failure;

/// A place in a group, from before the program starts.
#[derive(Debug)]
pub(crate) struct Member {
    group: GroupReport,
    cgroup: PathBuf,
    before: Status,
}

/// What the report of a run says of it. Numbers are of all tasks in the group while the program ran.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Regulation {
    group: String,
    cgroup: PathBuf,
    event: String,
    period_ns: u64,
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
    sums: Option<Vec<Row>>,
}

impl Regulation {
    /// For people, unless the budget was kept.
    pub(crate) fn problem(&self) -> Option<String> {
        self.reason.as_ref().map(|reason| format!("bandwidth of the plan: {}: {reason}", self.verdict))
    }
}

/// How long a regulator on a busy machine may take to report.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between the end of a period and its account.
const ACCOUNT_NS: u64 = 50_000_000;

impl Member {
    /// Finds the group of a task, which must have the task's budget on all CPUs that the program may run on (`None`: all).
    ///
    /// # Errors
    /// Why the budget would not be kept, and what would be accepted, for a sentence that names the task.
    pub(crate) fn find(task: &Task, bandwidth: BandwidthEntry, cores: Option<&[u32]>) -> Result<Member, Failure> {
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
        let period_us = before.regulated.period_ns / 1000;
        if asked != (Some(group.budget), group.soft) || bandwidth.period_us != period_us {
            let kind = |soft: bool| if soft { "soft" } else { "hard" };
            let each = bytes.map_or(String::new(), |bytes| format!(" of {bytes} bytes"));
            return Err(refused(format!(
                "the task's budget is {} in {} us, {}, and its group's in the running memtint guard (process {pid}) is {} events{each} in {period_us} us, {}",
                bandwidth.budget,
                bandwidth.period_us,
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
        Ok(Member { group, cgroup, before })
    }

    /// The group's folder.
    pub(crate) fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// The program has ended: waits until the regulator has accounted for its last period.
    pub(crate) fn end(self) -> Regulation {
        let ended_ns = now_ns() + 2 * self.before.regulated.period_ns + ACCOUNT_NS;
        let patience = PATIENCE + Duration::from_nanos(3 * self.before.regulated.period_ns);
        let begin = Instant::now();
        let mut last = Err("the regulator has not reported since the program ended".to_owned());
        while begin.elapsed() < patience {
            match Status::read() {
                Ok(Some(status)) if !self.before.is_of_the_same(&status) => {
                    last = Err("another regulator has begun meanwhile".to_owned());
                    break;
                }
                Ok(None) => {
                    last = Err("the regulator has ended before the program".to_owned());
                    break;
                }
                Ok(Some(status)) if status.written_ns > ended_ns => {
                    last = Ok(self.sums(&status));
                    break;
                }
                // Being written.
                Ok(Some(_)) | Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        let (verdict, reason, sums) = match last {
            Err(reason) => ("unknown", Some(reason), None),
            Ok(sums) => match sums.iter().map(|row| row.sums.broken).sum::<u64>() {
                0 => ("kept", None, Some(sums)),
                broken => ("broken", Some(format!("in {broken} periods")), Some(sums)),
            },
        };
        let GroupReport { name, budget, soft, bound, .. } = self.group;
        let Status { regulated, backend, .. } = self.before;
        Regulation {
            group: name,
            cgroup: self.cgroup,
            event: regulated.sensor.name,
            period_ns: regulated.period_ns,
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
    fn sums(&self, now: &Status) -> Vec<Row> {
        let both = now.sums.iter().zip(&self.before.sums).filter(|(row, _)| row.name == self.group.name);
        both.map(|(row, before)| Row { name: row.name.clone(), sums: row.sums.since(&before.sums) }).collect()
    }
}
