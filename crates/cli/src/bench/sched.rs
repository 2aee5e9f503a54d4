//! `memtint bench sched`: how fast the analyses are.

use std::fmt::Write as _;

use memtint_benchmarks::sched::{
    self, Asked, LargeRow, ProvedRow, RefreshServers, SchedReport, SchedRow, SearchRow, SimulatedRow,
};

use super::{failed, tell};
use crate::output::{Ending, Format, done, done_json, table};

/// Arguments of `memtint bench sched`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured (whether or not targets are met: the last lines say so), 2 failure.\n\
    Example: memtint bench sched --format json > sched.json")]
pub(super) struct SchedArguments {
    /// Task sets of each size. Default: 300, with --quick 30.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    sets: Option<u32>,
    /// Runs of each kind. Default: 7, with --quick 2.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// Few sets: for tests and a first impression.
    #[arg(long)]
    quick: bool,
    /// Seed of the task sets.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(super) fn bench_sched(arguments: &SchedArguments, format: Format) -> Ending {
    let asked = Asked {
        sets: arguments.sets.unwrap_or(if arguments.quick { 30 } else { 300 }),
        repeat: arguments.repeat.map_or(if arguments.quick { 2 } else { 7 }, usize::from),
        quick: arguments.quick,
        seed: arguments.seed,
    };
    let report = sched::measure(&asked, tell).map_err(failed("bench sched"))?;
    match format {
        Format::Json => done_json(&report),
        Format::Text => done(&text(&report)),
    }
}

fn text(report: &SchedReport) -> String {
    let mut text = String::new();
    let cpu = report.machine.cpu.as_deref().unwrap_or("unknown CPU");
    let [shortest, longest] = report.periods_ns;
    let _ = writeln!(
        text,
        "microseconds of processor time for each answer ({cpu}; median of {} runs over {} sets, seed {}; \
         deadlines are periods, log-uniform in {shortest} to {longest} ns; resource period {} ns)\n",
        report.repeat, report.sets, report.seed, report.resource_period_ns
    );
    let heads = ["answer", "each", "tasks", "U", "median", "least", "most", "textbook", "ratio", "same", "target", ""];
    text.push_str(&table(&heads, &[2, 3, 4, 5, 6, 7, 8, 10], &report.rows.iter().map(cells).collect::<Vec<_>>()));
    text.push('\n');
    for row in &report.rows {
        if let Some(longest) = row.longest_set_cpu_us {
            let (name, load) = (row.answer.name(), row.utilization_percent);
            let _ = writeln!(
                text,
                "{name}, U = 0.{load}: of the median set; the longest took {longest:.0} us; without an answer {} of {} sets, \
                 of the textbook {}",
                row.without_answer, report.sets, row.textbook_without_answer
            );
        }
    }
    text.push_str("a schedule has its jobs a second as 1e6 by the microseconds for each\n\n");
    text.push_str(&simulated(&report.simulated_machine));
    text.push('\n');
    text.push_str(&servers(&report.refresh_servers));
    text
}

fn cells(row: &SchedRow) -> Vec<String> {
    let us = |value: f64| format!("{value:.2}");
    let mut cells = vec![row.answer.name().to_owned(), row.each.name().to_owned(), row.tasks.to_string()];
    cells.push(format!("0.{}", row.utilization_percent));
    cells.extend([row.cpu_us.median, row.cpu_us.min, row.cpu_us.max, row.textbook_cpu_us.median].map(us));
    cells.extend([format!("{:.1}", row.textbook_by_ours), same(row.same_answers).to_owned()]);
    cells.extend([us(row.target_us), met(row.target_met).to_owned()]);
    cells
}

fn same(agrees: bool) -> &'static str {
    if agrees { "yes" } else { "NO" }
}

fn met(reached: bool) -> &'static str {
    if reached { "met" } else { "not met" }
}

fn simulated(rows: &[SimulatedRow]) -> String {
    let cells = |row: &SimulatedRow| {
        let rate = |value: f64| format!("{value:.0}");
        let spread = row.jobs_per_cpu_second;
        let mut cells = vec![row.scheduling.name().to_owned(), row.reads_per_job.to_string(), row.jobs.to_string()];
        cells.extend([spread.median, spread.min, spread.max, row.target_jobs_per_cpu_second].map(rate));
        cells.push(met(row.target_met).to_owned());
        cells
    };
    let heads = ["simulated machine", "reads a job", "jobs", "jobs a second", "least", "most", "target", ""];
    table(&heads, &[1, 2, 3, 4, 5, 6], &rows.iter().map(cells).collect::<Vec<_>>())
}

fn servers(report: &RefreshServers) -> String {
    let mut text = format!(
        "refresh servers for Table 5.2 (Pan 2018), periods and budgets in steps of {} us up to {} us; processor time\n\n",
        report.unit_us, report.periods_us_max
    );
    let heads = ["density", "search, s", "with assignment, s", "algorithm 7, s", "ratio", "same cost", "target", ""];
    text.push_str(&table(&heads, &[1, 2, 3, 4, 6], &report.paper_set.iter().map(search_cells).collect::<Vec<_>>()));
    text.push('\n');
    text.push_str(
        "choices are admitted by the least supply there, whatever the refresh phases; by proof, phases included:\n",
    );
    for SearchRow { race, density_gbit, proved, .. } in &report.paper_set {
        let seconds = proved.spread_s;
        let _ = writeln!(
            text,
            "{density_gbit} Gb: {:.6} s ({:.6} to {:.6}), unhidden {}, by supply {}",
            seconds.median,
            seconds.min,
            seconds.max,
            proved.unhidden_part.as_deref().unwrap_or("none"),
            race.unhidden_part.as_deref().unwrap_or("none")
        );
    }
    text.push_str(&all_proved(&report.paper_set_proved));
    for LargeRow { tasks, utilization_percent, cpu_s, target_cpu_s, target_met, .. } in &report.large_sets {
        let _ = writeln!(
            text,
            "{tasks} tasks, U = 0.{utilization_percent}: {:.3} s ({:.3} to {:.3}), at most {target_cpu_s} s: {}",
            cpu_s.median,
            cpu_s.min,
            cpu_s.max,
            met(*target_met)
        );
    }
    text
}

fn search_cells(row: &SearchRow) -> Vec<String> {
    let race = &row.race;
    vec![
        format!("{} Gb", row.density_gbit),
        format!("{:.6}", race.cpu_s.median),
        format!("{:.6}", row.with_assignment_cpu_s),
        format!("{:.3}", race.algorithm_7_cpu_s),
        format!("{:.0}", race.algorithm_7_by_ours),
        same(race.same_cost).to_owned(),
        format!("{}", race.target_ratio),
        met(race.target_met).to_owned(),
    ]
}

fn all_proved(row: &ProvedRow) -> String {
    let race = &row.race;
    format!(
        "both by proof, 2 Gb, in steps of {} us: {:.6} s, algorithm 7 {:.3} s, ratio {:.0}, at least {}: {}; same cost: {}\n",
        row.unit_us,
        race.cpu_s.median,
        race.algorithm_7_cpu_s,
        race.algorithm_7_by_ours,
        race.target_ratio,
        met(race.target_met),
        same(race.same_cost)
    )
}
