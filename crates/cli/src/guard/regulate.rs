//! `memtint guard`: regulates this machine.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memtint_regulator::{Backend, Load, Monitor, Programs, Regulator, Sensor, run_guardian, run_load, self_test};
use memtint_service::{Address, DryRun, Exporter, Line, Problem, SensorReport, Verdict, Watch, Watcher, serve_metrics};
use memtint_units::Picoseconds;
use sd_notify::NotifyState;

use super::asked::Asked;
use super::report::{text_of, text_of_regulated, text_of_sensors, text_of_start, text_of_traffic, text_of_work};
use crate::output::{Ending, Failure, Format, print, print_json_line, warn};

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

/// Options of the hidden `memtint guard metrics`.
#[derive(Debug, clap::Args)]
pub(super) struct MetricsArguments {
    address: Address,
}

pub(super) fn metrics(arguments: &MetricsArguments) -> Ending {
    serve_metrics(&arguments.address)?;
    Ok(ExitCode::SUCCESS)
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
    let start = |address| Exporter::start(address, &programs.program, &["guard", "metrics"]);
    let exporter = arguments.metrics.as_ref().map(start).transpose()?;
    let regulated = asked.regulated()?;
    let regulator = Regulator::start(asked.settings, programs)?;
    let tested = self_test(&regulator, &|| stop.load(Ordering::Acquire))?;
    let watch = Watch {
        regulated,
        interval: Duration::from_nanos(arguments.interval.0 / 1000),
        duration: arguments.seconds.map(|seconds| Duration::from_secs(seconds.into())),
    };
    let verdict = watch.run(regulator, &tested, &stop, &mut Teller { exporter, format, drawn: 0 })?;
    Ok(ExitCode::from(u8::from(verdict == Verdict::Broken)))
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
    let monitor = match Monitor::find() {
        Some(monitor) => format!("all tasks' traffic by L3 cache, in each report ({})", monitor.path().display()),
        None => "nothing here: resctrl is not mounted, or the processor monitors no traffic".to_owned(),
    };
    print(&format!("{}monitored, not regulated: {monitor}\n", text_of_sensors(&sensors)))?;
    Ok(ExitCode::SUCCESS)
}

fn dry_run(asked: &Asked, arguments: &RegulateArguments, format: Format) -> Ending {
    let run = DryRun::new(asked.regulated()?, &asked.settings, arguments.metrics.as_ref());
    if format == Format::Json {
        print_json_line(&run)?;
    } else {
        let writes: String = run.writes.iter().map(|line| format!("  {line}\n")).collect();
        print(&format!("{}would do:\n{writes}", text_of_regulated(&run.regulated)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what a regulator does, until it ends.
struct Teller {
    exporter: Option<Exporter>,
    format: Format,
    /// Lines of the table on the terminal that the next one takes the place of.
    drawn: usize,
}

impl Watcher for Teller {
    type Error = Failure;

    fn line(&mut self, line: &Line<'_>) -> Result<(), Failure> {
        if self.format == Format::Json {
            return print_json_line(line);
        }
        match line {
            Line::Started { regulated, backend, not_in_kernel, self_test, .. } => {
                print(&text_of_start(regulated, *backend, *not_in_kernel, self_test))
            }
            Line::Incident { name, incident, .. } => {
                warn(&format!("broken: {name} {incident}"));
                // Below the table now.
                self.drawn = 0;
                Ok(())
            }
            Line::Interval { seconds, groups, monitored, monitored_time, .. } => {
                let traffic = text_of_traffic(monitored, monitored_time.as_secs_f64());
                self.draw(&format!("\n{seconds:.1} s\n{}{traffic}", text_of(groups)))
            }
            Line::Ended { verdict, groups, regulators, .. } => {
                print(&format!("{}{}verdict: {}\n", text_of(groups), text_of_work(regulators), verdict.name()))
            }
        }
    }

    fn problem(&mut self, problem: &Problem) {
        warn(&problem.to_string());
    }

    /// Regulation goes on without the numbers.
    fn status(&mut self, text: String) {
        if self.exporter.as_mut().is_some_and(|exporter| !exporter.send(text)) {
            warn("the process that serves --metrics has ended; regulation continues");
            self.exporter = None;
        }
    }

    fn ready(&mut self) {
        tell_service(NotifyState::Ready);
    }

    fn stopping(&mut self) {
        tell_service(NotifyState::Stopping);
    }
}

impl Teller {
    /// On a terminal, each table takes the place of the one before.
    fn draw(&mut self, text: &str) -> Result<(), Failure> {
        let is_terminal = std::io::stdout().is_terminal();
        let back = if is_terminal && self.drawn > 0 { format!("\x1b[{}A\x1b[J", self.drawn) } else { String::new() };
        self.drawn = text.lines().count();
        print(&(back + text))
    }
}

/// Notifies the service manager, if one has started this process.
fn tell_service(state: NotifyState<'_>) {
    // A manager that no longer listens is no failure.
    let _ = sd_notify::notify(&[state]);
}
