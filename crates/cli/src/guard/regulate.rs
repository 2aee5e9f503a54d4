//! `memtint guard`: regulates this machine.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memtint_regulator::{
    Backend, CgroupRoot, Load, Monitor, Place, Programs, Reading, Regulator, Sensor, Tested, run_guardian, run_load,
    self_test,
};
use memtint_units::Picoseconds;
use sd_notify::NotifyState;

use super::asked::Asked;
use super::metrics::{Address, Exporter};
use super::report::{
    DryRun, Line, Regulated, Row, SensorReport, TrafficRow, WorkRow, rows, text_of, text_of_traffic, traffic_rows,
    work_row,
};
use super::status::{Status, StatusFile, decided};
use crate::Ending;
use crate::output::{Failure, Format, print, print_json_line, say};

/// Options of `memtint guard`.
#[derive(Debug, clap::Args)]
pub(super) struct RegulateArguments {
    /// Regulate each task of a system file that has a bandwidth, on its cores: in a group of its name, into which memtint run --system puts it.
    #[arg(long, value_name = "FILE")]
    pub(super) system: Option<PathBuf>,
    /// Regulate the tasks of a cgroup: NAME=BUDGET, with :soft to donate and reclaim, and with @CPUS for these CPUs only. A plain name is
    /// created; /PATH names a cgroup that exists.
    #[arg(long = "group", value_name = "NAME=BUDGET[:soft][@CPUS]")]
    pub(super) groups: Vec<String>,
    /// Regulate a CPU: all that runs there stands still when the budget is used.
    #[arg(long = "core", value_name = "CPU=BUDGET[:soft]")]
    pub(super) cores: Vec<String>,
    /// Performance event to count: a sensor (--list-events), a software event of perf, rHEX, or PMU/term=value,.../; with :u
    /// (PMU/.../u), in user mode only.
    #[arg(long, value_name = "EVENT", default_value = "llc-misses")]
    pub(super) event: String,
    /// List the sensors of this machine, and exit.
    #[arg(long)]
    list_events: bool,
    /// Bytes that each event moves, for an event that is not in the list.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) event_bytes: Option<u32>,
    /// Length of a period; 100 us to 1 s. Default: the system file's, or else 1 ms.
    #[arg(long, value_name = "TIME")]
    pub(super) period: Option<Picoseconds>,
    /// Most events granted at a time. Default: a quarter of each budget.
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) quantum: Option<u32>,
    /// Most events between an overflow and the answer. Default: the sensor's.
    #[arg(long, value_name = "EVENTS")]
    pub(super) skid: Option<u32>,
    /// Bandwidth that the memory always serves (memtint guard rmin). Without it, budgets are limits and no guarantees.
    #[arg(long, value_name = "BUDGET")]
    pub(super) guaranteed: Option<String>,
    /// Most that one CPU can cause; limits how long --core may occupy it.
    #[arg(long, value_name = "BUDGET")]
    pub(super) peak: Option<String>,
    /// Where to decide which group runs: in BPF programs, which save most wake-ups; in threads; or in the kernel module memtint_guard, for
    /// whole CPUs (--core). auto takes BPF programs where the kernel takes them, else threads.
    #[arg(long, value_enum, default_value_t)]
    pub(super) backend: BackendName,
    /// Stop after this time. Default: at SIGINT or SIGTERM.
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,
    /// Time between two reports.
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    interval: Picoseconds,
    /// Serve the numbers as OpenMetrics over HTTP, at a loopback address (`127.0.0.1:9464`, `[::1]:9464`) or a Unix socket (an absolute path).
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<Address>,
    /// Print what would be written and opened, and exit.
    #[arg(long)]
    dry_run: bool,
}

/// Where it is decided.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(super) enum BackendName {
    #[default]
    Auto,
    Bpf,
    Threads,
    Kernel,
}

impl From<BackendName> for Backend {
    fn from(name: BackendName) -> Backend {
        match name {
            BackendName::Auto => Backend::Auto,
            BackendName::Bpf => Backend::Bpf,
            BackendName::Threads => Backend::Threads,
            BackendName::Kernel => Backend::Kernel,
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
    if arguments.groups.is_empty() && arguments.cores.is_empty() && arguments.system.is_none() {
        return Err(Failure::Sentence(
            "no budgets are given; accepted is --system, --group, --core, or a verb (memtint guard --help)".to_owned(),
        ));
    }
    let asked = Asked::new(arguments)?;
    if arguments.dry_run {
        return dry_run(&asked, arguments, format);
    }
    let programs = programs()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::Sentence(format!("signal {signal}: {error}")))?;
    }
    // An address that is taken is known before anything is regulated.
    let exporter = arguments.metrics.as_ref().map(Exporter::start).transpose()?;
    let regulated = asked.regulated()?;
    let regulator = Regulator::start(asked.settings, programs)?;
    let tested = self_test(&regulator, &|| stop.load(Ordering::Acquire))?;
    let watch = Watch { regulated, exporter, arguments, format, drawn: 0, monitor: Monitor::find() };
    watch.run(regulator, &tested, &stop)
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
    let monitor = match Monitor::find() {
        Some(monitor) => format!("all tasks' traffic by L3 cache, in each report ({})", monitor.path().display()),
        None => "nothing here: resctrl is not mounted, or the processor monitors no traffic".to_owned(),
    };
    let _ = writeln!(text, "monitored, not regulated: {monitor}");
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn dry_run(asked: &Asked, arguments: &RegulateArguments, format: Format) -> Ending {
    let (regulated, settings) = (asked.regulated()?, &asked.settings);
    let by_module = settings.backend == Backend::Kernel;
    let mut writes = vec![
        "/run/memtint/guard.lock: the number of this process".to_owned(),
        "/run/memtint/guard.status: what each group has done, several times a second".to_owned(),
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
    let cpus: std::collections::BTreeSet<usize> = settings.groups.iter().flat_map(|group| group.cpus.clone()).collect();
    writes.extend(cpus.iter().map(|cpu| match by_module {
        true => format!("a thread of the module on CPU {cpu}, above all deadlines"),
        false => format!("a SCHED_FIFO thread of priority 98 on CPU {cpu}"),
    }));
    if let Some(address) = &arguments.metrics {
        writes.push(format!("{address}: a socket of a process that runs as user {}", super::metrics::USER));
    }
    if format == Format::Json {
        print_json_line(&DryRun { schema: 1, report: "guard-dry-run", regulated, writes })?;
    } else {
        print(&format!(
            "{}would do:\n{}\n",
            regulated.text(),
            writes.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Time between two writes of the status. Each `memtint run` waits for one when its program has ended.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// Signals are noticed as soon as that.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Tells what a regulator does, until it ends.
struct Watch<'a> {
    regulated: Regulated,
    exporter: Option<Exporter>,
    arguments: &'a RegulateArguments,
    format: Format,
    /// Lines of the table on the terminal that the next one takes the place of.
    drawn: usize,
    monitor: Option<Monitor>,
}

impl Watch<'_> {
    fn run(mut self, mut regulator: Regulator, tested: &[Tested], stop: &AtomicBool) -> Ending {
        regulator.reset_maxima();
        let (begin, before, work) = (Instant::now(), regulator.snapshot(), regulator.work());
        let backend = match regulator.backend() {
            Backend::Bpf => "bpf",
            Backend::Kernel => "kernel",
            Backend::Auto | Backend::Threads => "threads",
        };
        let status = |regulated: &Regulated, regulator: &Regulator| {
            // Before the sums are read.
            let accounted = regulator.accounted();
            let sums = rows(regulated, &before, &regulator.snapshot());
            Status::new((backend, regulated), accounted, begin.elapsed().as_secs_f64(), sums)
                .map(|status| status.text())
        };
        let file = StatusFile::new(&status(&self.regulated, &regulator)?)?;
        self.tell_start(&regulator, backend, tested)?;
        tell_service(NotifyState::Ready);
        let interval = Duration::from_nanos(self.arguments.interval.0 / 1000).max(Duration::from_millis(10));
        let until = self.arguments.seconds.map(|seconds| begin + Duration::from_secs(seconds.into()));
        let (mut next, mut last, mut broken) = (begin + interval, before.clone(), false);
        let (mut monitored, mut told) = (self.monitored(), begin);
        let (mut next_status, mut is_written) = (begin, true);
        while !stop.load(Ordering::Acquire) && until.is_none_or(|until| Instant::now() < until) {
            let wait = next.min(next_status).min(until.unwrap_or(next)).saturating_duration_since(Instant::now());
            regulator.wait(wait.min(SIGNAL_INTERVAL));
            broken |= self.tell_incidents(&regulator)?;
            if regulator.has_ended() {
                say("regulation has ended by itself: the last incident has the cause, or the guardian was ended");
                broken = true;
                break;
            }
            if Instant::now() >= next_status {
                let text = status(&self.regulated, &regulator)?;
                let written = file.write(&text);
                if let (Err(failure), true) = (&written, is_written) {
                    say(&format!(
                        "{failure}; regulation goes on, and memtint run cannot tell whether budgets are kept"
                    ));
                }
                is_written = written.is_ok();
                self.export(text);
                next_status = Instant::now() + STATUS_INTERVAL;
            }
            if Instant::now() >= next {
                let (now, traffic, time) = (regulator.snapshot(), self.monitored(), Instant::now());
                let passed = (traffic_rows(&monitored, &traffic), time - told);
                self.tell_interval(&rows(&self.regulated, &last, &now), begin.elapsed(), passed)?;
                (last, next) = (now, next + interval);
                (monitored, told) = (traffic, time);
            }
        }
        tell_service(NotifyState::Stopping);
        regulator.finish();
        broken |= self.tell_incidents(&regulator)?;
        let (after, seconds) = (regulator.snapshot(), begin.elapsed().as_secs_f64());
        let rows = rows(&self.regulated, &before, &after);
        broken |= rows.iter().any(|row| row.sums.broken > 0);
        let works = regulator.work();
        let regulators: Vec<WorkRow> =
            work.iter().zip(&works).map(|(before, after)| work_row(before, after, seconds)).collect();
        drop((file, regulator));
        self.tell_end(broken, seconds, &rows, regulators)?;
        Ok(ExitCode::from(u8::from(broken)))
    }

    fn tell_start(&self, regulator: &Regulator, backend: &'static str, tested: &[Tested]) -> Result<(), Failure> {
        let not_in_kernel = regulator.not_in_kernel();
        let regulated = &self.regulated;
        if self.format == Format::Json {
            print_json_line(&Line::Started { schema: 1, regulated, backend, not_in_kernel, self_test: tested })?;
            return Ok(());
        }
        let mut text = regulated.text();
        // Writing into text cannot fail.
        let _ = match (backend, not_in_kernel) {
            (_, Some(reason)) => writeln!(text, "decided in threads: {reason}"),
            _ => writeln!(text, "decided {}", decided(backend)),
        };
        for one in tested {
            let own = match one.own_budget.throttled_periods {
                0 => "its own was not reached".to_owned(),
                throttled => format!("with its own in {throttled} of {}", one.own_budget.periods),
            };
            let _ = writeln!(
                text,
                "self-test of {} on CPU {}: with a budget of {} throttled in {} of {} periods, {own}; no period beyond its bound",
                one.group,
                one.cpu,
                match one.least_budget.budget {
                    1 => "one event".to_owned(),
                    budget => format!("{budget} events"),
                },
                one.least_budget.throttled_periods,
                one.least_budget.periods
            );
        }
        print(&text)
    }

    /// Whether there were any.
    fn tell_incidents(&mut self, regulator: &Regulator) -> Result<bool, Failure> {
        let incidents = regulator.take_incidents();
        for incident in &incidents {
            let name = self.regulated.groups[incident.group].name.as_str();
            if self.format == Format::Json {
                let reason = incident.cause.to_string();
                print_json_line(&Line::Incident { schema: 1, name, incident: *incident, reason })?;
            } else {
                say(&format!("broken: {name} {incident}"));
            }
        }
        if !incidents.is_empty() {
            // Below the table now.
            self.drawn = 0;
        }
        Ok(!incidents.is_empty())
    }

    fn monitored(&self) -> Reading {
        self.monitor.as_ref().map(Monitor::read).unwrap_or_default()
    }

    /// On a terminal, each table takes the place of the one before. `monitored` is traffic in the time since then.
    fn tell_interval(
        &mut self,
        rows: &[Row],
        since: Duration,
        (monitored, time): (Vec<TrafficRow>, Duration),
    ) -> Result<(), Failure> {
        if self.format == Format::Json {
            let seconds = since.as_secs_f64();
            return print_json_line(&Line::Interval { schema: 1, seconds, groups: rows, monitored });
        }
        let traffic = text_of_traffic(&monitored, time.as_secs_f64());
        let text = format!("\n{:.1} s\n{}{traffic}", since.as_secs_f64(), text_of(rows));
        let is_terminal = std::io::stdout().is_terminal();
        let back = if is_terminal && self.drawn > 0 { format!("\x1b[{}A\x1b[J", self.drawn) } else { String::new() };
        self.drawn = text.lines().count();
        print(&(back + &text))
    }

    fn tell_end(&self, broken: bool, seconds: f64, rows: &[Row], regulators: Vec<WorkRow>) -> Result<(), Failure> {
        let verdict = if broken { "broken" } else { "kept" };
        if self.format == Format::Json {
            return print_json_line(&Line::Ended { schema: 1, verdict, seconds, groups: rows, regulators });
        }
        let mut text = text_of(rows);
        for row in &regulators {
            let _ = writeln!(
                text,
                "regulator of CPU {}: {:.1} % of its time, {:.1} % of it occupied",
                row.cpu, row.busy_percent, row.occupied_percent
            );
        }
        let _ = writeln!(text, "verdict: {verdict}");
        print(&text)
    }

    /// Regulation goes on without the numbers.
    fn export(&mut self, status: String) {
        if self.exporter.as_mut().is_some_and(|exporter| !exporter.send(status)) {
            say("the process that serves --metrics has ended; regulation goes on");
            self.exporter = None;
        }
    }
}

/// Tells a service manager, if one has started this process.
fn tell_service(state: NotifyState<'_>) {
    // One that does not listen any more knows less.
    let _ = sd_notify::notify(&[state]);
}
