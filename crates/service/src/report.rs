//! Reports: the settings of a regulator, and the sums of each group.

use std::path::Path;

use memtint_guard::Kind;
use memtint_regulator::{
    Backend, CgroupRoot, GroupSettings, Place, RegulatorError, Sensor, Settings, Snapshot, online_cpus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metrics::{self, Address};
use crate::status::STATUS_FILE;

/// Version of the form of reports.
pub(crate) const SCHEMA: u32 = 1;

/// What is counted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SensorReport {
    /// Name of the sensor or event.
    pub name: String,
    /// Type and configuration, as perf_event_open(2) takes them.
    pub event: String,
    /// What an event moves; null where that is not known.
    pub event_bytes: Option<u32>,
    /// Most events between an overflow and the answer.
    pub skid: u32,
    /// What the event leaves out.
    pub not_counted: Vec<String>,
    /// Source of these facts.
    pub source: String,
}

impl SensorReport {
    /// Describes a sensor.
    pub fn new(sensor: &Sensor) -> SensorReport {
        let [config, config1, config2] = sensor.event.config;
        SensorReport {
            name: sensor.name.clone(),
            event: format!("type {} config {config:#x} {config1:#x} {config2:#x}", sensor.event.kind),
            event_bytes: sensor.bytes,
            skid: sensor.skid,
            not_counted: sensor.blind.clone(),
            source: sensor.source.clone(),
        }
    }
}

/// A group with its budget, in events per period.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// Its folder; null where CPUs are regulated.
    pub cgroup: Option<String>,
    /// CPUs on which it is regulated.
    pub cpus: Vec<usize>,
    /// Budget B, on all of its CPUs together.
    pub budget: u32,
    /// Whether it donates and reclaims.
    pub soft: bool,
    /// Most events granted at a time.
    pub quantum: u32,
    /// Most events of a period on all of its CPUs: B and, for each CPU, q + s.
    pub bound: u64,
    /// How it is stopped.
    pub stopped_by: String,
}

/// What is regulated.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Regulated {
    /// The system file that has some of the groups.
    pub system: Option<String>,
    /// Length of a period.
    pub period_ns: u64,
    /// What is counted.
    pub sensor: SensorReport,
    /// Guaranteed bandwidth, in events per period; null where none is given.
    pub guaranteed: Option<u32>,
    /// What the promise leaves out.
    pub not_considered: Vec<String>,
    /// The groups.
    pub groups: Vec<GroupReport>,
}

impl Regulated {
    /// Describes settings. `left_out` lists what of the system file is not regulated.
    ///
    /// # Errors
    /// [`RegulatorError::Cpus`].
    pub fn new(settings: &Settings, system: Option<&Path>, left_out: &[String]) -> Result<Regulated, RegulatorError> {
        let online = online_cpus()?;
        let mut not_considered = vec![match settings.guaranteed {
            None => "whether the memory can serve these budgets (--guaranteed)".to_owned(),
            Some(_) => "tasks outside of these groups, which no budget binds".to_owned(),
        }];
        not_considered.extend_from_slice(left_out);
        if settings.backend == Backend::Kernel {
            not_considered.push(
                "interrupts, and system calls that the kernel does not preempt: their events count, and nothing stops them"
                    .to_owned(),
            );
        }
        for group in settings.groups.iter().filter(|group| group.place != Place::Cpus) {
            let others: Vec<usize> = online.iter().copied().filter(|cpu| !group.cpus.contains(cpu)).collect();
            if !others.is_empty() {
                not_considered.push(format!("what {} does on CPUs {others:?}: keep its tasks off these", group.name));
            }
        }
        Ok(Regulated {
            system: system.map(|file| file.display().to_string()),
            period_ns: settings.period.as_nanos() as u64,
            sensor: SensorReport::new(&settings.sensor),
            guaranteed: settings.guaranteed,
            not_considered,
            groups: settings.groups.iter().map(|group| GroupReport::new(group, settings)).collect(),
        })
    }

    /// Gives what each group has done on each CPU between two snapshots.
    pub fn rows(&self, before: &[Snapshot], after: &[Snapshot]) -> Vec<Row> {
        let row = |(before, after): (&Snapshot, &Snapshot)| Row {
            name: self.groups[after.group].name.clone(),
            sums: after.since(before),
        };
        before.iter().zip(after).map(row).collect()
    }
}

impl GroupReport {
    fn new(group: &GroupSettings, settings: &Settings) -> GroupReport {
        GroupReport {
            name: group.name.clone(),
            cgroup: match &group.place {
                Place::Cgroup(cgroup) => Some(cgroup.path().display().to_string()),
                Place::Cpus => None,
            },
            cpus: group.cpus.clone(),
            budget: group.budget,
            soft: group.kind == Kind::Soft,
            quantum: group.quantum,
            bound: u64::from(group.budget)
                + group.cpus.len() as u64 * (u64::from(group.quantum) + u64::from(settings.sensor.skid)),
            stopped_by: match group.place {
                Place::Cgroup(_) => "freezing its cgroup".to_owned(),
                Place::Cpus if settings.backend == Backend::Kernel => "halting its CPUs".to_owned(),
                Place::Cpus => "occupying its CPUs".to_owned(),
            },
        }
    }
}

/// A group on a CPU.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Name of the group.
    pub name: String,
    /// What it has done.
    #[serde(flatten)]
    pub sums: Snapshot,
}

/// What a regulator would do to the machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DryRun {
    /// Version of the form of this report.
    pub schema: u32,
    /// `guard-dry-run`.
    #[schemars(extend("const" = "guard-dry-run"))]
    pub report: &'static str,
    /// What would be regulated.
    #[serde(flatten)]
    pub regulated: Regulated,
    /// Each write that there would be, in words.
    pub writes: Vec<String>,
}

impl DryRun {
    /// Lists the writes of a regulator with these settings, and of its exporter of metrics, if there is to be one.
    pub fn new(regulated: Regulated, settings: &Settings, metrics: Option<&Address>) -> DryRun {
        let mut writes = writes(settings);
        if let Some(address) = metrics {
            writes.push(format!("{address}: a socket of a process that runs as user {}", metrics::USER));
        }
        DryRun { schema: SCHEMA, report: "guard-dry-run", regulated, writes }
    }
}

fn writes(settings: &Settings) -> Vec<String> {
    let by_module = settings.backend == Backend::Kernel;
    let mut writes = vec![
        "/run/memtint/guard.lock: the number of this process".to_owned(),
        format!("{STATUS_FILE}: what each group has done, several times a second"),
    ];
    if by_module {
        writes.extend(settings.request().lines().map(|line| format!("/dev/memtint-guard: {line}")));
    } else {
        writes.push("/proc/self/oom_score_adj of the guardian: -1000".to_owned());
    }
    if let Ok(root) = CgroupRoot::find() {
        let root = root.path().display();
        writes.push(format!("groups in {root}/memtint-guard that an earlier regulator has left: emptied and removed"));
        if !by_module {
            writes.push(format!("{root}/cgroup.procs: the guardian, of priority 99"));
        }
    }
    for group in &settings.groups {
        if let Place::Cgroup(cgroup) = &group.place {
            let path = cgroup.path().display();
            if cgroup.is_own() {
                writes.push(format!(
                    "mkdir {path}; when it ends, its tasks to the root group, and rmdir {path} with what is in it"
                ));
            }
            writes.push(format!("{path}/cgroup.procs: a load for the self-test"));
            writes.push(format!("{path}/cgroup.freeze: 0, at the start and at the end"));
            writes.push(format!(
                "{path}/cgroup.freeze: 1 when the budget is used, 0 when the next period begins, by a SCHED_FIFO thread of \
                 priority 99 on CPUs {:?}",
                group.cpus
            ));
        }
        for cpu in group.cpus.iter().filter(|_| !by_module) {
            writes.push(format!("perf_event_open: {}, pinned, on CPU {cpu}, for {}", settings.sensor.name, group.name));
        }
    }
    let mut cpus: Vec<usize> = settings.groups.iter().flat_map(|group| group.cpus.clone()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    writes.extend(cpus.iter().map(|cpu| match by_module {
        true => format!("a thread of the module on CPU {cpu}, above all deadlines"),
        false => format!("a SCHED_FIFO thread of priority 98 on CPU {cpu}"),
    }));
    writes
}
