//! What is regulated, and what each group has done, in text and in JSON.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use memtint_guard::{Kind, bandwidth};
use memtint_regulator::{
    Backend, GroupSettings, Incident, Place, Reading, Sensor, Settings, Snapshot, Tested, Traffic, online_cpus,
};
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::output::{Failure, table};

/// What is counted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SensorReport {
    pub(crate) name: String,
    event: String,
    pub(crate) event_bytes: Option<u32>,
    skid: u32,
    not_counted: Vec<String>,
    source: String,
}

impl SensorReport {
    pub(super) fn new(sensor: &Sensor) -> SensorReport {
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
pub(crate) struct GroupReport {
    pub(crate) name: String,
    pub(crate) cgroup: Option<String>,
    pub(crate) cpus: Vec<usize>,
    pub(crate) budget: u32,
    pub(crate) soft: bool,
    quantum: u32,
    /// Most events of a period on all of its CPUs: B and, for each CPU, q + s.
    pub(crate) bound: u64,
    stopped_by: String,
}

/// What is regulated.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Regulated {
    /// The system file that has some of the groups.
    system: Option<String>,
    pub(crate) period_ns: u64,
    pub(crate) sensor: SensorReport,
    guaranteed: Option<u32>,
    /// What the promise leaves out.
    not_considered: Vec<String>,
    pub(crate) groups: Vec<GroupReport>,
}

impl Regulated {
    /// `left_out` is what of the system file is not regulated.
    pub(super) fn new(settings: &Settings, system: Option<&Path>, left_out: &[String]) -> Result<Regulated, Failure> {
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
        let group = |group: &GroupSettings| GroupReport {
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
        };
        Ok(Regulated {
            system: system.map(|file| file.display().to_string()),
            period_ns: settings.period.as_nanos() as u64,
            sensor: SensorReport::new(&settings.sensor),
            guaranteed: settings.guaranteed,
            not_considered,
            groups: settings.groups.iter().map(group).collect(),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let sensor = &self.sensor;
        // Writing into text cannot fail.
        let _ = writeln!(text, "not counted: {}", sensor.not_counted.join("; "));
        for what in &self.not_considered {
            let _ = writeln!(text, "not considered: {what}");
        }
        let period_us = self.period_ns as f64 / 1e3;
        let _ = writeln!(text, "event {}, period {period_us} us", sensor.name);
        for group in &self.groups {
            let kind = if group.soft { "soft" } else { "hard" };
            let rate = sensor.event_bytes.map_or(String::new(), |bytes| {
                let bytes = bandwidth(group.budget.into(), bytes.into(), Picoseconds(self.period_ns * 1000));
                format!(" ({:.1} MB/s)", bytes as f64 / 1e6)
            });
            let _ = writeln!(
                text,
                "{} on CPUs {:?}: {} events per period{rate}, {kind}, at most {}; stopped by {}",
                group.name, group.cpus, group.budget, group.bound, group.stopped_by
            );
        }
        text
    }
}

/// What a dry run prints as JSON.
#[derive(Serialize, JsonSchema)]
pub(super) struct DryRun {
    pub(super) schema: u32,
    pub(super) report: &'static str,
    #[serde(flatten)]
    pub(super) regulated: Regulated,
    /// Each write that there would be, in words.
    pub(super) writes: Vec<String>,
}

/// Each line that `memtint guard` prints is one of these.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "report")]
pub(super) enum Line<'a> {
    #[serde(rename = "guard-started")]
    Started {
        schema: u32,
        #[serde(flatten)]
        regulated: &'a Regulated,
        /// Where it is decided: bpf, threads or kernel.
        backend: &'static str,
        /// Why not in the kernel, if that was tried.
        not_in_kernel: Option<&'a str>,
        self_test: &'a [Tested],
    },
    #[serde(rename = "guard-interval")]
    Interval {
        schema: u32,
        seconds: f64,
        groups: &'a [Row],
        /// What resctrl has monitored in the interval, where it does.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        monitored: Vec<TrafficRow>,
    },
    #[serde(rename = "guard-incident")]
    Incident {
        schema: u32,
        name: &'a str,
        #[serde(flatten)]
        incident: Incident,
        reason: String,
    },
    #[serde(rename = "guard-ended")]
    Ended { schema: u32, verdict: &'static str, seconds: f64, groups: &'a [Row], regulators: Vec<WorkRow> },
}

/// A group on a CPU.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Row {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) sums: Snapshot,
}

/// Memory traffic of all tasks through an L3 cache.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct TrafficRow {
    /// The cache's domain in resctrl.
    l3: String,
    total_bytes: Option<u64>,
    local_bytes: Option<u64>,
}

/// What has passed in an interval.
pub(super) fn traffic_rows(before: &Reading, after: &Reading) -> Vec<TrafficRow> {
    let row = |(l3, Traffic { total_bytes, local_bytes })| TrafficRow { l3, total_bytes, local_bytes };
    after.since(before).into_iter().map(row).collect()
}

/// A line for each.
pub(super) fn text_of_traffic(rows: &[TrafficRow], seconds: f64) -> String {
    let rate = |bytes: Option<u64>| {
        bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} MB/s", bytes as f64 / 1e6 / seconds.max(1e-9)))
    };
    let line = |row: &TrafficRow| {
        let (total, local) = (rate(row.total_bytes), rate(row.local_bytes));
        format!("resctrl, all tasks, L3 {}: {total} in all, {local} from local memory\n", row.l3)
    };
    rows.iter().map(line).collect()
}

/// The regulator of a CPU.
#[derive(Serialize, JsonSchema)]
pub(super) struct WorkRow {
    pub(super) cpu: usize,
    /// Of one CPU's time.
    pub(super) busy_percent: f64,
    pub(super) occupied_percent: f64,
}

pub(super) fn work_row(
    &(cpu, total_before, occupied_before): &(usize, Duration, Duration),
    &(_, total, occupied): &(usize, Duration, Duration),
    seconds: f64,
) -> WorkRow {
    let percent = |time: Duration| time.as_secs_f64() / seconds.max(1e-9) * 100.0;
    WorkRow {
        cpu,
        busy_percent: percent(total.saturating_sub(total_before)),
        occupied_percent: percent(occupied.saturating_sub(occupied_before)),
    }
}

pub(super) fn rows(regulated: &Regulated, before: &[Snapshot], after: &[Snapshot]) -> Vec<Row> {
    let row = |(before, after): (&Snapshot, &Snapshot)| Row {
        name: regulated.groups[after.group].name.clone(),
        sums: after.since(before),
    };
    before.iter().zip(after).map(row).collect()
}

pub(super) fn text_of(rows: &[Row]) -> String {
    let heads = [
        "group",
        "CPU",
        "periods",
        "events",
        "most so far",
        "throttled",
        "throttled ms",
        "donated",
        "taken back",
        "reclaimed",
        "underruns",
        "broken",
    ];
    let cells = |row: &Row| {
        let sums = &row.sums;
        let mut cells = vec![row.name.clone(), sums.cpu.to_string()];
        cells.extend([sums.periods, sums.used, sums.used_max, sums.throttled_periods].map(|number| number.to_string()));
        cells.push(format!("{:.1}", sums.throttled_ns as f64 / 1e6));
        let more = [sums.donated, sums.returned, sums.reclaimed, sums.underruns, sums.broken];
        cells.extend(more.map(|number| number.to_string()));
        cells
    };
    let right: Vec<usize> = (1..heads.len()).collect();
    table(&heads, &right, &rows.iter().map(cells).collect::<Vec<_>>())
}
