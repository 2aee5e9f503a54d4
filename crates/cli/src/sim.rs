//! `memtint sim`: a machine and its tasks, before there is one.

mod division;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_sim::report::{BandwidthReport, End, RegulatorReport, ServerReport, TaskReport};
use memtint_sim::{ChannelCommands, Report, Scenario, SystemReport, simulate_commands};
use memtint_system::{Reading, Verb};
use serde::Serialize;

use crate::output::{
    Ending, Failure, Format, JsonForm, done, done_json, note, print, print_json, table, warn, write_file,
};
use crate::progress::Simulating;
use crate::system::first_line;

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<SystemReport>("sim"),
    JsonForm::of::<division::ComparisonReport>("sim-compare"),
    JsonForm::of::<memtint_system::SystemFile>("sim-print-config"),
];

/// Options of `memtint sim`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 every task ran to its end or to that of the simulation, 1 a task got no more frames (out of color, or out \
    of memory), an assumption of the bandwidth budgets did not hold, or with --check a command is not legal, 2 failure: a system that cannot be simulated, a trace that ends early, \
    Ctrl-C. Deadline misses are counted; they do not change the status. With --compare: 0 compared, 1 a task got no more frames or failed, so that \
    there is no comparison, 2 failure."
)]
pub(crate) struct SimArguments {
    /// System file with a table `[simulation]` (see examples/).
    #[arg(value_name = "SYSTEM")]
    system: PathBuf,
    /// Seed of everything random. Default: that of the file.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads, for simulations that do not depend on each other; results are the same with any number. Default: the
    /// CPUs of this machine.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Leave fields out of the file: without bandwidth, nothing is regulated.
    #[arg(long, value_name = "FIELDS", value_enum, value_delimiter = ',')]
    ignore: Vec<SimulatedField>,
    /// Directory for report.json, tasks.parquet, banks.parquet, ranks.parquet and, with budgets of bandwidth, regulators.parquet (and
    /// periods.parquet, with history); made when it is missing.
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Directory for the DRAM commands of each channel (channel-0.commands and so on, in the form of `memtint dram check`);
    /// made when it is missing. Of all tasks together, not of those that are simulated alone.
    #[arg(long, value_name = "DIR")]
    commands: Option<PathBuf>,
    /// Hold every DRAM command against the standard; ends with status 1 when one is not legal.
    #[arg(long)]
    check: bool,
    /// Compare with the same tasks on the undivided machine, and report gain and cost of the division.
    ///
    /// Undivided, each task may use all banks, ranks, sets, nodes and ways.
    ///
    /// Each task is simulated alone too, undivided and in its part. Slowdowns are against the task alone with all of the memory.
    #[arg(long, conflicts_with_all = ["out", "commands", "check", "print_config"])]
    compare: bool,
    /// Draw the comparison into this file.
    #[arg(long, value_name = "FILE", requires = "compare")]
    svg: Option<PathBuf>,
    /// Print the system file as it was understood instead of simulating it.
    #[arg(long)]
    print_config: bool,
}

/// Fields of a system file that a simulation can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SimulatedField {
    /// Budgets of memory bandwidth.
    Bandwidth,
}

/// The scenario of a file, and the fields that a simulation does not consider.
fn load(path: &Path) -> Result<(Scenario, Vec<String>), Failure> {
    let reading = Reading::new(path, Verb::Sim)?;
    Ok((Scenario::of_system(&reading.file, path)?, reading.not_considered))
}

pub(crate) fn main(arguments: &SimArguments, format: Format) -> Ending {
    let (mut scenario, not_considered) = load(&arguments.system)?;
    if let Some(seed) = arguments.seed {
        scenario = scenario.with_seed(seed);
    }
    let ignored = arguments.ignore.contains(&SimulatedField::Bandwidth);
    if ignored {
        if scenario.spec().groups.is_empty() {
            return Err(Failure::Sentence(format!(
                "{:?}: --ignore bandwidth is given, and no task or group has a bandwidth budget",
                scenario.origin()
            )));
        }
        scenario = scenario.unregulated()?;
    }
    if arguments.print_config {
        return print_config(&scenario, format);
    }
    // Not after minutes of work.
    for directory in [&arguments.out, &arguments.commands].into_iter().flatten() {
        let path = directory.clone();
        std::fs::create_dir_all(directory).map_err(|cause| Failure::File { path, done: "made", cause })?;
    }
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or_else(cpus, usize::from);
    if arguments.compare {
        return division::main(&scenario, not_considered, threads, arguments.svg.as_deref(), format);
    }
    let progress = Simulating::new()?;
    let (report, commands) =
        simulate_commands(&scenario, threads, &progress, arguments.commands.as_deref(), arguments.check)?;
    drop(progress);
    if !report.complete {
        note(&format!("stopped; the report is as of {:.3} ms", report.simulated_ns / 1e6));
    }
    if let Some(directory) = &arguments.out {
        keep(directory, &report)?;
    }
    let legal = commands.as_ref().is_none_or(|commands| commands.legal != Some(false));
    match format {
        Format::Json => print_json(&SystemReport::new(&report, not_considered, commands.as_ref()))?,
        Format::Text => print(
            &(first_line(&not_considered)
                + &text(&report)
                + &commands.as_ref().map_or_else(String::new, commands_text)),
        )?,
    }
    let failed = report.tasks.iter().find(|task| task.end == End::Failed);
    if let Some(task) = failed {
        return Err(Failure::Sentence(format!("task {}: {}", task.name, task.ending)));
    }
    if !report.complete {
        return Err(Failure::Sentence("stopped before the end of the simulation".to_owned()));
    }
    let placed = report.tasks.iter().all(|task| task.end != End::OutOfMemory);
    let broken = report.bandwidth.as_ref().and_then(BandwidthReport::broken);
    if let Some(broken) = &broken {
        warn(&format!("bandwidth is not guaranteed: {broken}"));
    }
    Ok(ExitCode::from(u8::from(!legal || !placed || broken.is_some())))
}

/// Writes the report, and its tables.
fn keep(directory: &Path, report: &Report) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report).map_err(|error| Failure::Output(error.into()))?;
    write_file(&directory.join("report.json"), &(json + "\n"))?;
    write_table(directory, "tasks", &report.tasks)?;
    write_table(directory, "banks", &report.banks)?;
    write_table(directory, "ranks", &report.ranks)?;
    let Some(bandwidth) = &report.bandwidth else { return Ok(()) };
    write_table(directory, "regulators", &bandwidth.regulators)?;
    if bandwidth.history.is_empty() { Ok(()) } else { write_table(directory, "periods", &bandwidth.history) }
}

fn write_table<T: Serialize>(directory: &Path, name: &str, records: &[T]) -> Result<(), Failure> {
    let path = directory.join(format!("{name}.parquet"));
    memtint_parquet::write(&path, records).map_err(|cause| Failure::File { path, done: "written", cause })
}

/// The commands of all channels, in words.
fn commands_text(sent: &ChannelCommands) -> String {
    let legal = match sent.legal {
        None => "",
        Some(true) if !sent.refresh_checked => {
            ", all legal between commands; whether rows are refreshed is not checked"
        }
        Some(true) => ", all legal",
        Some(false) => ", not all legal",
    };
    let mut text = format!("commands   {} on {} channels{legal}\n", sent.commands, sent.found.len());
    let each = || sent.found.iter().enumerate();
    for (channel, violation) in each().filter_map(|(channel, found)| Some((channel, found.violation?))) {
        let _ = writeln!(text, "           channel {channel}: {violation}");
    }
    for (channel, postponed) in each().filter_map(|(channel, found)| Some((channel, found.postponed()?))) {
        let _ = writeln!(
            text,
            "           channel {channel}: JEDEC limits how many REF commands are postponed or pulled in: {postponed}"
        );
    }
    text
}

fn print_config(scenario: &Scenario, format: Format) -> Ending {
    let system = scenario.to_system()?;
    match format {
        Format::Json => done_json(&system),
        Format::Text => done(&system.to_text()),
    }
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "system     {} (seed {})\nmachine    {}, {} on each channel, allocator {}\nsimulated  {:.3} ms\n",
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
    // A column with the same text in every row is redundant.
    let differ = report.tasks.iter().any(|task| task.allocator != report.allocator);
    let mut heads = vec![
        "task", "cores", "IPC", "LLC MPKI", "MB/s", "row hits", "ns mean", "ns p99", "ns max", "jobs", "late",
        "slowdown",
    ];
    let mut rows: Vec<Vec<String>> = report.tasks.iter().map(task_row).collect();
    if differ {
        heads.push("allocator");
        rows.iter_mut().zip(&report.tasks).for_each(|(row, task)| row.push(task.allocator.clone()));
    }
    let right: Vec<usize> = (1..heads.len()).collect();
    let _ = write!(text, "\n{}", table(&heads, &right, &rows));
    for task in report.tasks.iter().filter(|task| task.ending != "running" && task.ending != "completed") {
        let _ = writeln!(text, "task {}: {}", task.name, task.ending);
    }
    for task in report.tasks.iter().filter(|task| task.frames_out_of_color > 0) {
        let _ =
            writeln!(text, "task {}: {} of {} frames out of color", task.name, task.frames_out_of_color, task.frames);
    }
    if let (Some(speedup), Some(slowdown)) = (report.weighted_speedup, report.maximum_slowdown) {
        let _ = writeln!(text, "\nweighted speedup {speedup:.3}, maximum slowdown {slowdown:.3}");
    }
    if let Some(locks) = &report.locks {
        let unhidden: Vec<String> = locks.unhidden_ns.iter().map(|ns| format!("{:.3}", ns / 1e6)).collect();
        let _ = writeln!(
            text,
            "\nranks locked {:.3} ms; cores idle for that {} ms; {} requests met a refresh",
            locks.locked_ns / 1e6,
            unhidden.join(", "),
            report.requests_that_met_a_refresh
        );
    }
    if !report.servers.is_empty() {
        let heads = ["server", "core", "budgets", "ms used", "overrun ns", "ms held up", "ms unhidden"];
        let rows: Vec<Vec<String>> = report.servers.iter().map(server_row).collect();
        let _ = write!(text, "\n{}", table(&heads, &[1, 2, 3, 4, 5, 6], &rows));
    }
    if let Some(executive) = &report.table {
        let _ = writeln!(
            text,
            "\n{} slots, used to {:.1} % at most and {:.3} ns beyond their end; {} jobs not complete after their last slot",
            executive.slots,
            executive.longest_use * 100.0,
            executive.longest_overrun_ps as f64 / 1e3,
            executive.jobs_beyond_slots
        );
    }
    if let Some(bandwidth) = &report.bandwidth {
        text += &bandwidth_text(bandwidth);
    }
    let energy: Vec<f64> = report.ranks.iter().filter_map(|rank| Some(rank.energy_pj?.total)).collect();
    if !energy.is_empty() {
        let _ = writeln!(text, "DRAM energy {:.3} mJ", energy.iter().sum::<f64>() / 1e9);
    }
    text
}

fn server_row(server: &ServerReport) -> Vec<String> {
    let ms = |ns: f64| format!("{:.3}", ns / 1e6);
    vec![
        server.name.clone(),
        server.core.to_string(),
        server.replenishments.to_string(),
        ms(server.consumed_ns),
        format!("{:.3}", server.longest_overrun_ps as f64 / 1e3),
        ms(server.held_up_ns),
        ms(server.unhidden_ns),
    ]
}

fn bandwidth_text(bandwidth: &BandwidthReport) -> String {
    let mut text = format!(
        "\nbandwidth  {:.0} MB/s guaranteed, {} periods of {:.3} ms, {} interrupts of {:.3} ms in all\n",
        bandwidth.guaranteed_mb_per_s,
        bandwidth.periods,
        bandwidth.period_ns / 1e6,
        bandwidth.interrupts,
        bandwidth.overhead_ns / 1e6
    );
    if !bandwidth.unregulated.is_empty() {
        let names = bandwidth.unregulated.join(", ");
        let _ = writeln!(text, "           guaranteed only without {names}, which no budget regulates");
    }
    if let Some(uncounted) = bandwidth.uncounted {
        let _ = writeln!(text, "           guaranteed only without {uncounted}, which are not counted");
    }
    for counter in &bandwidth.counters {
        let banks = counter.banks.as_ref().map_or(String::new(), |banks| format!(" of bank classes {banks}"));
        let _ = writeln!(
            text,
            "           {}{banks}: at most {} in a period, of {} guaranteed",
            counter.counts, counter.most_in_a_period, counter.guaranteed
        );
    }
    let heads = [
        "regulated",
        "group",
        "counts",
        "banks",
        "budget",
        "MB/s",
        "most",
        "donated",
        "returned",
        "reclaimed",
        "underruns",
        "throttled",
        "ms",
        "skid",
    ];
    let rows: Vec<Vec<String>> = bandwidth.regulators.iter().map(regulator_row).collect();
    text + &table(&heads, &[4, 5, 6, 7, 8, 9, 10, 11, 12, 13], &rows)
}

fn regulator_row(regulator: &RegulatorReport) -> Vec<String> {
    vec![
        regulator.subject.clone(),
        regulator.group.clone(),
        regulator.counts.clone(),
        regulator.banks.clone().unwrap_or_else(|| "all".to_owned()),
        regulator.budget.to_string(),
        format!("{:.1}", regulator.bytes_per_second / 1e6),
        regulator.most_in_a_period.to_string(),
        regulator.donated.to_string(),
        regulator.returned.to_string(),
        regulator.reclaimed.to_string(),
        regulator.underruns.to_string(),
        regulator.throttled_periods.to_string(),
        format!("{:.3}", regulator.throttled_ns / 1e6),
        regulator.longest_skid.to_string(),
    ]
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
