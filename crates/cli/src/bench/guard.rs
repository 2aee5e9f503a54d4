//! `memtint bench guard`: how fast the state machine of bandwidth regulation is.

use std::fmt::Write as _;

use memtint_benchmarks::guard::{self, Asked, GuardReport, GuardRow};

use super::tell;
use crate::output::{Ending, Format, done, done_json, table};

/// Arguments of `memtint bench guard`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured (whether or not targets are met: the last lines say so), 2 failure.\n\
    Example: memtint bench guard --format json > guard.json")]
pub(super) struct GuardArguments {
    /// Events of each system. Default: 2000000, with --quick 50000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    events: Option<u32>,
    /// Runs of each kind. Default: 7, with --quick 2.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// Few events: for tests and a first impression.
    #[arg(long)]
    pub(super) quick: bool,
    /// Seed of the events.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Measure the regulator on this machine instead (as root): page faults of a load, unregulated, occupied and frozen.
    #[arg(long, conflicts_with_all = ["events", "repeat", "seed"])]
    live: bool,
    /// With --live: time of each run. Default: 10, with --quick 1.
    #[arg(long, value_name = "N", requires = "live", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) seconds: Option<u64>,
}

pub(super) fn bench_guard(arguments: &GuardArguments, format: Format) -> Ending {
    if arguments.live {
        return super::guard_live::bench_live(arguments, format);
    }
    let asked = Asked {
        events: arguments.events.unwrap_or(if arguments.quick { 50_000 } else { 2_000_000 }),
        repeat: arguments.repeat.map_or(if arguments.quick { 2 } else { 7 }, usize::from),
        quick: arguments.quick,
        seed: arguments.seed,
    };
    let report = guard::measure(&asked, tell);
    match format {
        Format::Json => done_json(&report),
        Format::Text => done(&text(&report, asked.events)),
    }
}

fn text(report: &GuardReport, events: u32) -> String {
    let mut text = String::new();
    let cpu = report.machine.cpu.as_deref().unwrap_or("unknown CPU");
    let _ = writeln!(
        text,
        "nanoseconds of processor time for each event ({cpu}; {} runs over {events} events, seed {}; textbook: budgets only, \
         nothing that others change)\n",
        report.repeat, report.seed
    );
    let heads = ["system", "cores", "median", "least", "most", "shared words", "textbook", "ratio", "target", ""];
    text.push_str(&table(&heads, &[1, 2, 3, 4, 5, 6, 7, 8], &report.rows.iter().map(cells).collect::<Vec<_>>()));
    let states = &report.states_per_second;
    let _ = writeln!(
        text,
        "\n{} distinct states of three cores, {:.0} a second ({:.0} to {:.0})\ntarget {}",
        states.states,
        states.rate.median,
        states.rate.min,
        states.rate.max,
        if report.target_met { "met" } else { "not met" }
    );
    text
}

fn cells(row: &GuardRow) -> Vec<String> {
    let ns = |value: f64| format!("{value:.1}");
    let sides = &row.cpu_ns;
    let guard = sides.guard.ns;
    let mut cells = vec![row.system.name().to_owned(), row.cores.to_string()];
    cells.extend([guard.median, guard.min, guard.max, sides.shared_words.ns.median, sides.textbook.ns.median].map(ns));
    cells.push(ns(row.guard_by_textbook));
    cells.extend([ns(row.target_ns), if row.target_met { "met" } else { "not met" }.to_owned()]);
    cells
}
