//! `memtint sim`: a machine and its tasks, before there is one.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memtint_sim::report::TaskReport;
use memtint_sim::{Report, Scenario, Watch, simulate};

use crate::Ending;
use crate::output::{Failure, Format, print, print_json, table, write_file};
use crate::parquet;

/// Options of `memtint sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArguments {
    /// Scenario: machine, tasks, allocator and policy of each, duration (TOML; see scenarios/ for examples).
    scenario: PathBuf,
    /// Seed of everything random. Default: the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads, for simulations that do not depend on each other; results are the same with any number. Default: the
    /// CPUs of this machine.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Directory for report.json, tasks.parquet, banks.parquet and ranks.parquet; made when it is missing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the scenario as it was understood, with all defaults, instead of simulating it.
    #[arg(long)]
    print_config: bool,
}

pub(crate) fn main(arguments: &SimArguments, format: Format) -> Ending {
    let mut scenario = Scenario::load(&arguments.scenario)?;
    if let Some(seed) = arguments.seed {
        scenario = scenario.with_seed(seed);
    }
    if arguments.print_config {
        return print_config(&scenario, format);
    }
    // Not after minutes of work.
    if let Some(directory) = &arguments.out {
        std::fs::create_dir_all(directory).map_err(|cause| Failure::File {
            path: directory.clone(),
            done: "made",
            cause,
        })?;
    }
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or_else(cpus, usize::from);
    let progress = Progress::new()?;
    let report = simulate(&scenario, threads, &progress)?;
    progress.end();
    if !report.complete {
        eprintln!("memtint: stopped; what follows is as of {:.3} ms", report.simulated_ns / 1e6);
    }
    if let Some(directory) = &arguments.out {
        let json = serde_json::to_string_pretty(&report).map_err(|error| Failure::Output(error.into()))?;
        write_file(&directory.join("report.json"), &(json + "\n"))?;
        parquet::write(&directory.join("tasks.parquet"), &report.tasks)?;
        parquet::write(&directory.join("banks.parquet"), &report.banks)?;
        parquet::write(&directory.join("ranks.parquet"), &report.ranks)?;
    }
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&text(&report))?,
    }
    Ok(std::process::ExitCode::SUCCESS)
}

fn print_config(scenario: &Scenario, format: Format) -> Ending {
    match format {
        Format::Json => print_json(scenario.file())?,
        Format::Text => {
            let text = toml::to_string_pretty(scenario.file());
            print(&text.map_err(|error| Failure::Sentence(error.to_string()))?)?;
        }
    }
    Ok(std::process::ExitCode::SUCCESS)
}

/// How far it is, on standard error; and Ctrl-C.
pub(crate) struct Progress {
    interrupted: Arc<AtomicBool>,
    started: Instant,
    told: Mutex<Instant>,
    terminal: bool,
}

/// Between two lines of progress on a terminal, and elsewhere.
const OFTEN: Duration = Duration::from_millis(200);
const SELDOM: Duration = Duration::from_secs(10);

impl Progress {
    pub(crate) fn new() -> Result<Progress, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // The second one ends the program at once.
        let flag = |flag: &Arc<AtomicBool>| {
            signal_hook::flag::register_conditional_default(libc::SIGINT, Arc::clone(flag))?;
            signal_hook::flag::register(libc::SIGINT, Arc::clone(flag))
        };
        flag(&interrupted).map_err(|error| Failure::Sentence(format!("Ctrl-C cannot be caught: {error}")))?;
        let now = Instant::now();
        Ok(Progress { interrupted, started: now, told: Mutex::new(now), terminal: std::io::stderr().is_terminal() })
    }

    pub(crate) fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

impl Watch for Progress {
    fn go_on(&self, share_done: f64) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() >= if self.terminal { OFTEN } else { SELDOM } {
            *told = Instant::now();
            let elapsed = self.started.elapsed().as_secs_f64();
            let left = if share_done > 0.0 { elapsed / share_done - elapsed } else { f64::INFINITY };
            let line = format!("simulating: {:.0} %, about {left:.0} s left", share_done * 100.0);
            let mut err = std::io::stderr().lock();
            // Progress that cannot be shown is no reason to stop.
            let _ = if self.terminal { write!(err, "\r{line}\x1b[K") } else { writeln!(err, "{line}") };
        }
        !self.interrupted.load(Ordering::Relaxed)
    }
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "scenario   {} (seed {})\nmachine    {}, {} on each channel, allocator {}\nsimulated  {:.3} ms\n",
        report.scenario,
        report.seed,
        report.platform,
        report.device,
        report.allocator,
        report.simulated_ns / 1e6
    );
    for assumed in &report.assumed {
        let _ = writeln!(text, "assumed    {assumed}");
    }
    let heads = [
        "task", "cores", "IPC", "LLC MPKI", "MB/s", "row hits", "ns mean", "ns p99", "ns max", "jobs", "late",
        "slowdown",
    ];
    let rows: Vec<Vec<String>> = report.tasks.iter().map(task_row).collect();
    let right: Vec<usize> = (1..heads.len()).collect();
    let _ = write!(text, "\n{}", table(&heads, &right, &rows));
    for task in report.tasks.iter().filter(|task| task.ending != "running" && task.ending != "completed") {
        let _ = writeln!(text, "task {}: {}", task.name, task.ending);
    }
    if let (Some(speedup), Some(slowdown)) = (report.weighted_speedup, report.maximum_slowdown) {
        let _ = writeln!(text, "\nweighted speedup {speedup:.3}, maximum slowdown {slowdown:.3}");
    }
    let energy: Vec<f64> = report.ranks.iter().filter_map(|rank| Some(rank.energy_pj?.total)).collect();
    if !energy.is_empty() {
        let _ = writeln!(text, "DRAM energy {:.3} mJ", energy.iter().sum::<f64>() / 1e9);
    }
    text
}

fn task_row(task: &TaskReport) -> Vec<String> {
    let rows = task.row_hits + task.row_misses + task.row_conflicts;
    let share = if rows == 0 { "-".to_owned() } else { format!("{:.1} %", task.row_hits as f64 * 100.0 / rows as f64) };
    let jobs = task.response_ns.is_some();
    vec![
        task.name.clone(),
        task.cores.clone(),
        format!("{:.3}", task.ipc),
        format!("{:.2}", task.llc_misses_per_kilo_instruction),
        format!("{:.0}", (task.read_bytes_per_second + task.write_bytes_per_second) / 1e6),
        share,
        format!("{:.1}", task.read_latency_ns.mean),
        format!("{:.1}", task.read_latency_ns.p99),
        format!("{:.1}", task.read_latency_ns.max),
        if jobs { task.jobs.to_string() } else { "-".to_owned() },
        if jobs { task.deadline_misses.to_string() } else { "-".to_owned() },
        task.slowdown.map_or("-".to_owned(), |slowdown| format!("{slowdown:.3}")),
    ]
}
