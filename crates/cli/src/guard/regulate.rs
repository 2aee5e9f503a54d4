//! `memtint guard`: regulates this machine.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memtint_guard::{Kind, bandwidth, events_per_period};
use memtint_regulator::{
    Backend, CgroupRoot, GroupSettings, Incident, Load, Place, Programs, Regulator, Sensor, Settings, Snapshot, Tested,
    online_cpus, run_guardian, run_load, self_test,
};
use memtint_units::{IndexSet, Picoseconds};
use serde::Serialize;

use crate::Ending;
use crate::output::{Failure, Format, print, print_json_line, say, table};

/// Options of `memtint guard`.
#[derive(Debug, clap::Args)]
pub(super) struct RegulateArguments {
    /// Regulate the tasks of a cgroup: NAME=BUDGET, with :soft to donate and reclaim, and with @CPUS for these CPUs only. A plain name is
    /// created; /PATH names a cgroup that exists.
    #[arg(long = "group", value_name = "NAME=BUDGET[:soft][@CPUS]")]
    groups: Vec<String>,
    /// Regulate a CPU: all that runs there stands still when the budget is used.
    #[arg(long = "core", value_name = "CPU=BUDGET[:soft]")]
    cores: Vec<String>,
    /// Performance event to count: a sensor (--list-events), a software event of perf, rHEX, or PMU/term=value,.../.
    #[arg(long, value_name = "EVENT", default_value = "llc-misses")]
    event: String,
    /// List the sensors of this machine, and exit.
    #[arg(long)]
    list_events: bool,
    /// Bytes that each event moves, for an event that is not in the list.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=4096))]
    event_bytes: Option<u32>,
    /// Length of a period; 100 us to 1 s.
    #[arg(long, value_name = "TIME", default_value = "1 ms")]
    period: Picoseconds,
    /// Most events granted at a time. Default: a quarter of each budget.
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u32).range(1..))]
    quantum: Option<u32>,
    /// Most events between an overflow and the answer. Default: the sensor's.
    #[arg(long, value_name = "EVENTS")]
    skid: Option<u32>,
    /// Bandwidth that the memory always serves (memtint guard rmin). Without it, budgets are limits and no guarantees.
    #[arg(long, value_name = "BUDGET")]
    guaranteed: Option<String>,
    /// Most that one CPU can cause; limits how long --core may occupy it.
    #[arg(long, value_name = "BUDGET")]
    peak: Option<String>,
    /// Where it is decided which group runs: in the kernel (bpf), which saves most wake-ups, or in threads. auto takes the kernel where it
    /// can be taken.
    #[arg(long, value_enum, default_value_t)]
    backend: BackendName,
    /// Stop after this time. Default: at SIGINT or SIGTERM.
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,
    /// Time between two reports.
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    interval: Picoseconds,
    /// Print what would be written and opened, and exit.
    #[arg(long)]
    dry_run: bool,
}

/// Where it is decided.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum BackendName {
    #[default]
    Auto,
    Bpf,
    Threads,
}

impl From<BackendName> for Backend {
    fn from(name: BackendName) -> Backend {
        match name {
            BackendName::Auto => Backend::Auto,
            BackendName::Bpf => Backend::Bpf,
            BackendName::Threads => Backend::Threads,
        }
    }
}

/// Options of the hidden `memtint guard load`.
#[derive(Debug, clap::Args)]
pub(super) struct LoadArguments {
    kind: String,
    cpu: usize,
    ms: u64,
}

pub(super) fn load(arguments: &LoadArguments) -> Ending {
    let known = Load::NAMES.iter().find(|(name, _)| *name == arguments.kind);
    let (_, load) = known.ok_or_else(|| Failure::Sentence(format!("{:?} is no load", arguments.kind)))?;
    run_load(*load, arguments.cpu, Duration::from_millis(arguments.ms)).map_err(Failure::Output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn guardian() -> Ending {
    run_guardian().map_err(|error| Failure::Sentence(format!("guardian: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn main(arguments: &RegulateArguments, format: Format) -> Ending {
    if arguments.list_events {
        return list_events(format);
    }
    if arguments.groups.is_empty() && arguments.cores.is_empty() {
        return Err(Failure::Sentence(
            "no budgets are given; accepted is --group, --core, or a verb (memtint guard --help)".to_owned(),
        ));
    }
    let settings = settings(arguments)?;
    settings.check()?;
    if arguments.dry_run {
        return dry_run(&settings, format);
    }
    let programs = programs()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::Sentence(format!("signal {signal}: {error}")))?;
    }
    let regulator = Regulator::start(settings, programs)?;
    let tested = self_test(&regulator, &|| stop.load(Ordering::Acquire))?;
    watch(regulator, &tested, arguments, &stop, format)
}

/// The helper processes are this program with hidden verbs.
pub(crate) fn programs() -> Result<Programs, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::Sentence(format!("own program: {error}")))?;
    let words = |words: [&str; 2]| words.map(OsString::from).to_vec();
    Ok(Programs { program, guardian: words(["guard", "guardian"]), load: words(["guard", "load"]) })
}

fn list_events(format: Format) -> Ending {
    let sensors = Sensor::names().iter().map(|name| Sensor::find(name)).collect::<Result<Vec<_>, _>>()?;
    if format == Format::Json {
        let list: Vec<SensorReport> = sensors.iter().map(SensorReport::new).collect();
        print_json_line(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for sensor in &sensors {
        let bytes = sensor.bytes.map_or("no transfer".to_owned(), |bytes| format!("{bytes} bytes each"));
        // Writing into text cannot fail.
        let _ = writeln!(text, "{}: {bytes}, skid at most {}", sensor.name, sensor.skid);
        let _ = writeln!(text, "  not counted: {}", sensor.blind.join("; "));
        let _ = writeln!(text, "  source: {}", sensor.source);
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

// --- what is asked for ---

fn settings(arguments: &RegulateArguments) -> Result<Settings, Failure> {
    let mut sensor = Sensor::find(&arguments.event)?;
    sensor.bytes = arguments.event_bytes.or(sensor.bytes);
    sensor.skid = arguments.skid.unwrap_or(sensor.skid);
    let reader = Reader { sensor: &sensor, period: arguments.period, quantum: arguments.quantum };
    let groups = arguments.groups.iter().map(|text| reader.group(text));
    let cores = arguments.cores.iter().map(|text| reader.core(text));
    let groups = groups.chain(cores).collect::<Result<Vec<_>, Failure>>()?;
    let events =
        |option: &str, text: &Option<String>| text.as_deref().map(|text| reader.events(option, text)).transpose();
    let guaranteed = events("--guaranteed", &arguments.guaranteed)?;
    Ok(Settings {
        period: Duration::from_nanos(arguments.period.0 / 1000),
        guaranteed: guaranteed.map(|events| u32::try_from(events).unwrap_or(u32::MAX)),
        peak: events("--peak", &arguments.peak)?,
        backend: arguments.backend.into(),
        sensor,
        groups,
    })
}

/// Reads groups and budgets.
struct Reader<'a> {
    sensor: &'a Sensor,
    period: Picoseconds,
    quantum: Option<u32>,
}

impl Reader<'_> {
    fn group(&self, text: &str) -> Result<GroupSettings, Failure> {
        let accepted = "NAME=BUDGET[:soft][@CPUS], for instance web=500MB/s:soft@0-1";
        let (name, budget) = pair("--group", text, accepted)?;
        // A group's name may have the sign, too.
        let (budget, cpus) = match budget.rsplit_once('@') {
            Some((budget, cpus)) => (budget, Some(cpus)),
            None => (budget, None),
        };
        let cgroup = CgroupRoot::find()?.group(name)?;
        let own = cgroup.cpus().filter(|list| !list.is_empty()).map(|list| cpu_list("the cpuset of the group", &list));
        let cpus = match (cpus, own) {
            (Some(cpus), own) => {
                let (cpus, own) = (cpu_list("--group", cpus)?, own.transpose()?);
                if let Some(cpu) = own.and_then(|own| cpus.iter().copied().find(|cpu| !own.contains(cpu))) {
                    return Err(refused("--group", &format!("{name} on CPU {cpu}"), "CPUs of the group's cpuset"));
                }
                cpus
            }
            (None, Some(own)) => own?,
            (None, None) => online_cpus()?,
        };
        self.settings("--group", name.to_owned(), Place::Cgroup(cgroup), cpus, budget)
    }

    fn core(&self, text: &str) -> Result<GroupSettings, Failure> {
        let (cpu, budget) = pair("--core", text, "CPU=BUDGET[:soft], for instance 2=1GB/s")?;
        let cpus = cpu_list("--core", cpu)?;
        self.settings("--core", format!("CPU {cpu}"), Place::Cpus, cpus, budget)
    }

    fn settings(
        &self,
        option: &str,
        name: String,
        place: Place,
        cpus: Vec<usize>,
        budget: &str,
    ) -> Result<GroupSettings, Failure> {
        let (budget, kind) = match budget.split_once(':') {
            None | Some((_, "hard")) => (budget.split(':').next().unwrap_or(budget), Kind::Hard),
            Some((budget, "soft")) => (budget, Kind::Soft),
            Some((_, kind)) => return Err(refused(option, kind, "soft, or hard")),
        };
        let events = self.events(option, budget)?;
        let events = u32::try_from(events).ok().filter(|events| *events > 0);
        let events = events.ok_or_else(|| refused(option, budget, "1 to 2147483647 events per period"))?;
        let quantum = self.quantum.unwrap_or_else(|| events.div_ceil(4));
        Ok(GroupSettings { name, place, cpus, budget: events, kind, quantum })
    }

    /// Events per period of `12ev`, `500MB/s` or `1.2 GB/s`.
    fn events(&self, option: &str, text: &str) -> Result<u64, Failure> {
        let accepted = "events per period (100ev), or a bandwidth (500MB/s, 1.2GB/s)";
        let digits = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim());
        let wrong = || refused(option, text, accepted);
        if unit == "ev" {
            return number.parse().map_err(|_| wrong());
        }
        let scale = match unit {
            "GB/s" => 9,
            "MB/s" => 6,
            "kB/s" => 3,
            _ => return Err(wrong()),
        };
        let bytes_per_second = decimal(number, scale).ok_or_else(wrong)?;
        let Some(bytes) = self.sensor.bytes else {
            let accepted =
                "events per period (100ev): an event of this sensor is no transfer, unless --event-bytes says so";
            return Err(refused(option, text, accepted));
        };
        Ok(events_per_period(bytes_per_second, bytes.into(), self.period))
    }
}

/// A decimal number times a power of ten, exactly; `None` if that is no whole number.
fn decimal(text: &str, power: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || part.len() > power {
        return None;
    }
    format!("{whole}{part:0<power$}").parse().ok()
}

fn refused(option: &str, found: &str, accepted: &str) -> Failure {
    Failure::Sentence(format!("{option} has {found:?}; accepted is {accepted}"))
}

fn pair<'a>(option: &str, text: &'a str, accepted: &str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| refused(option, text, accepted))
}

/// Largest number of CPUs that Linux has.
const CPUS_MAX: u32 = 8192;

fn cpu_list(option: &str, text: &str) -> Result<Vec<usize>, Failure> {
    let list =
        IndexSet::parse(text, CPUS_MAX).map_err(|error| refused(option, text, &format!("a list of CPUs: {error}")))?;
    Ok(list.iter().map(|cpu| cpu as usize).collect())
}

// --- what is done ---

#[derive(Serialize)]
struct SensorReport {
    name: String,
    event: String,
    event_bytes: Option<u32>,
    skid: u32,
    not_counted: Vec<String>,
    source: String,
}

impl SensorReport {
    fn new(sensor: &Sensor) -> SensorReport {
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

#[derive(Serialize)]
struct GroupReport {
    name: String,
    cgroup: Option<String>,
    cpus: Vec<usize>,
    budget: u32,
    soft: bool,
    quantum: u32,
    /// Most events of a period on all of its CPUs: B and, for each CPU, q + s.
    bound: u64,
    stopped_by: &'static str,
}

#[derive(Serialize)]
struct Plan {
    period_ns: u64,
    sensor: SensorReport,
    guaranteed: Option<u32>,
    /// What the promise leaves out.
    not_considered: Vec<String>,
    groups: Vec<GroupReport>,
}

impl Plan {
    fn new(settings: &Settings) -> Result<Plan, Failure> {
        let online = online_cpus()?;
        let mut not_considered = vec![match settings.guaranteed {
            None => "whether the memory can serve these budgets (--guaranteed)".to_owned(),
            Some(_) => "tasks outside of these groups, which no budget binds".to_owned(),
        }];
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
                Place::Cgroup(_) => "freezing its cgroup",
                Place::Cpus => "occupying its CPUs",
            },
        };
        Ok(Plan {
            period_ns: settings.period.as_nanos() as u64,
            sensor: SensorReport::new(&settings.sensor),
            guaranteed: settings.guaranteed,
            not_considered,
            groups: settings.groups.iter().map(group).collect(),
        })
    }

    fn text(&self) -> String {
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

fn dry_run(settings: &Settings, format: Format) -> Ending {
    let plan = Plan::new(settings)?;
    let mut writes = vec![
        "/run/memtint/guard.lock: the number of this process".to_owned(),
        "/proc/self/oom_score_adj of the guardian: -1000".to_owned(),
    ];
    if let Ok(root) = CgroupRoot::find() {
        let root = root.path().display();
        writes.push(format!("groups in {root}/memtint-guard that an earlier regulator has left: emptied and removed"));
        writes.push(format!("{root}/cgroup.procs: the guardian, of priority 99"));
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
        for cpu in &group.cpus {
            writes.push(format!("perf_event_open: {}, pinned, on CPU {cpu}, for {}", settings.sensor.name, group.name));
        }
    }
    let cpus: std::collections::BTreeSet<usize> = settings.groups.iter().flat_map(|group| group.cpus.clone()).collect();
    writes.extend(cpus.iter().map(|cpu| format!("a SCHED_FIFO thread of priority 98 on CPU {cpu}")));
    if format == Format::Json {
        #[derive(Serialize)]
        struct DryRun {
            schema: u32,
            report: &'static str,
            #[serde(flatten)]
            plan: Plan,
            writes: Vec<String>,
        }
        print_json_line(&DryRun { schema: 1, report: "guard-dry-run", plan, writes })?;
    } else {
        print(&format!(
            "{}would do:\n{}\n",
            plan.text(),
            writes.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
#[serde(tag = "report")]
enum Line<'a> {
    #[serde(rename = "guard-started")]
    Started {
        schema: u32,
        #[serde(flatten)]
        plan: &'a Plan,
        /// Where it is decided: bpf or threads.
        backend: &'static str,
        /// Why not in the kernel, if that was tried.
        not_in_kernel: Option<&'a str>,
        self_test: &'a [Tested],
    },
    #[serde(rename = "guard-interval")]
    Interval { seconds: f64, groups: &'a [Row] },
    #[serde(rename = "guard-incident")]
    Incident {
        name: &'a str,
        #[serde(flatten)]
        incident: Incident,
        reason: String,
    },
    #[serde(rename = "guard-ended")]
    Ended { verdict: &'static str, seconds: f64, groups: &'a [Row], regulators: Vec<WorkRow> },
}

/// A group on a CPU.
#[derive(Serialize)]
struct Row {
    name: String,
    #[serde(flatten)]
    sums: Snapshot,
}

#[derive(Serialize)]
struct WorkRow {
    cpu: usize,
    /// Of one CPU's time.
    busy_percent: f64,
    occupied_percent: f64,
}

fn watch(
    mut regulator: Regulator,
    tested: &[Tested],
    arguments: &RegulateArguments,
    stop: &AtomicBool,
    format: Format,
) -> Ending {
    let plan = Plan::new(regulator.settings())?;
    regulator.reset_maxima();
    let (begin, before, work) = (Instant::now(), regulator.snapshot(), regulator.work());
    let (backend, not_in_kernel) = match regulator.decides_in_kernel() {
        Ok(true) => ("bpf", None),
        Ok(false) => ("threads", None),
        Err(reason) => ("threads", Some(reason)),
    };
    if format == Format::Json {
        print_json_line(&Line::Started { schema: 1, plan: &plan, backend, not_in_kernel, self_test: tested })?;
    } else {
        let mut text = plan.text();
        let _ = match (backend, not_in_kernel) {
            (_, Some(reason)) => writeln!(text, "decided in threads: {reason}"),
            ("bpf", None) => writeln!(text, "decided in the kernel, by BPF programs"),
            _ => writeln!(text, "decided in threads"),
        };
        for one in tested {
            let own = match one.own_budget.throttled_periods {
                0 => "its own was not reached".to_owned(),
                throttled => format!("with its own in {throttled} of {}", one.own_budget.periods),
            };
            let _ = writeln!(
                text,
                "self-test of {} on CPU {}: with a budget of one event throttled in {} of {} periods, {own}; no period beyond its bound",
                one.group, one.cpu, one.least_budget.throttled_periods, one.least_budget.periods
            );
        }
        print(&text)?;
    }
    let interval = Duration::from_nanos(arguments.interval.0 / 1000).max(Duration::from_millis(10));
    let until = arguments.seconds.map(|seconds| begin + Duration::from_secs(seconds.into()));
    let (mut next, mut last, mut broken) = (begin + interval, before.clone(), false);
    while !stop.load(Ordering::Acquire) && until.is_none_or(|until| Instant::now() < until) {
        // Signals are noticed soon enough.
        let wait = next.min(until.unwrap_or(next)).saturating_duration_since(Instant::now());
        regulator.wait(wait.min(Duration::from_millis(100)));
        broken |= tell_incidents(&regulator, &plan, format)?;
        if regulator.has_ended() {
            say("regulation has ended by itself: the last incident has the cause, or the guardian was ended");
            broken = true;
            break;
        }
        if Instant::now() >= next {
            let now = regulator.snapshot();
            tell_interval(&plan, &last, &now, begin.elapsed(), format)?;
            (last, next) = (now, next + interval);
        }
    }
    regulator.finish();
    broken |= tell_incidents(&regulator, &plan, format)?;
    let (after, seconds) = (regulator.snapshot(), begin.elapsed().as_secs_f64());
    let rows = rows(&plan, &before, &after);
    broken |= rows.iter().any(|row| row.sums.broken > 0);
    let works = regulator.work();
    let regulators: Vec<WorkRow> =
        work.iter().zip(&works).map(|(before, after)| work_row(before, after, seconds)).collect();
    drop(regulator);
    let verdict = if broken { "broken" } else { "kept" };
    if format == Format::Json {
        print_json_line(&Line::Ended { verdict, seconds, groups: &rows, regulators })?;
    } else {
        let mut text = text_of(&rows);
        for row in &regulators {
            let _ = writeln!(
                text,
                "regulator of CPU {}: {:.1} % of its time, {:.1} % of it occupied",
                row.cpu, row.busy_percent, row.occupied_percent
            );
        }
        let _ = writeln!(text, "verdict: {verdict}");
        print(&text)?;
    }
    Ok(ExitCode::from(u8::from(broken)))
}

fn work_row(
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

fn tell_incidents(regulator: &Regulator, plan: &Plan, format: Format) -> Result<bool, Failure> {
    let incidents = regulator.take_incidents();
    for incident in &incidents {
        let name = plan.groups[incident.group].name.as_str();
        if format == Format::Json {
            print_json_line(&Line::Incident { name, incident: *incident, reason: incident.cause.to_string() })?;
        } else {
            let Incident { period, cpu, used, allowed, cause, .. } = incident;
            say(&format!(
                "broken: {name} on CPU {cpu}, period {period}: {used} events, and {allowed} are allowed: {cause}"
            ));
        }
    }
    Ok(!incidents.is_empty())
}

fn rows(plan: &Plan, before: &[Snapshot], after: &[Snapshot]) -> Vec<Row> {
    let row = |(before, after): (&Snapshot, &Snapshot)| Row {
        name: plan.groups[after.group].name.clone(),
        sums: after.since(before),
    };
    before.iter().zip(after).map(row).collect()
}

fn tell_interval(
    plan: &Plan,
    last: &[Snapshot],
    now: &[Snapshot],
    since: Duration,
    format: Format,
) -> Result<(), Failure> {
    let rows = rows(plan, last, now);
    if format == Format::Json {
        return print_json_line(&Line::Interval { seconds: since.as_secs_f64(), groups: &rows });
    }
    print(&format!("\n{:.1} s\n{}", since.as_secs_f64(), text_of(&rows)))
}

fn text_of(rows: &[Row]) -> String {
    let heads = [
        "group",
        "CPU",
        "periods",
        "events",
        "most",
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

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn bandwidths_are_exact() {
        assert_eq!(decimal("137.42", 6), Some(137_420_000));
        assert_eq!(decimal("1.2", 9), Some(1_200_000_000));
        assert_eq!(decimal("500", 6), Some(500_000_000));
        for text in ["", ".5", "1.2.3", "1.2345", "18446744073709551616"] {
            assert_eq!(decimal(text, 3), None, "{text}");
        }
    }
}
