//! `memtint bench sim`: how fast the simulated DRAM channel is.

use std::fmt::Write as _;

use memtint_benchmarks::sim::{self, Asked, SimReport};
use memtint_replay::SEED;

use super::{failed, tell};
use crate::output::{Ending, Format, done, done_json, table};

/// Arguments of `memtint bench sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured, 2 failure.\nExample: memtint bench sim --format json > sim.json")]
pub(super) struct SimArguments {
    /// Requests of each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    requests: Option<u64>,
    /// Runs of each kind. Default: 5, with --quick 2.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// A tenth of the requests: for tests and a first impression.
    #[arg(long)]
    quick: bool,
    /// Seed of the random addresses.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

pub(super) fn bench_sim(arguments: &SimArguments, format: Format) -> Ending {
    let scale = if arguments.quick { 10 } else { 1 };
    let asked = Asked {
        requests: arguments.requests.unwrap_or(2_000_000 / scale),
        repeat: arguments.repeat.map_or(if arguments.quick { 2 } else { 5 }, usize::from),
        quick: arguments.quick,
        seed: arguments.seed,
    };
    let report = sim::measure(&asked, tell).map_err(failed("bench sim"))?;
    match format {
        Format::Json => done_json(&report),
        Format::Text => done(&text(&report)),
    }
}

fn text(report: &SimReport) -> String {
    let millions = |rate: f64| format!("{:.3}", rate / 1e6);
    let mebibytes =
        |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1048576.0));
    let mut text = format!(
        "machine   {}, {} CPUs; one thread, {} runs of each kind, all in turn\n\nmillion requests a CPU second (median, least, most)\n",
        report.machine.cpu.as_deref().unwrap_or("unknown"),
        report.machine.cores,
        report.repeat
    );
    let row = |row: &sim::SimRow| {
        let baseline = row.baseline.as_ref();
        let slow = baseline.map_or("-".to_owned(), |slow| millions(slow.requests_per_cpu_second));
        let ratio = baseline.map_or("-".to_owned(), |slow| format!("{:.0}", slow.ratio));
        let agrees = baseline.map_or("-", |slow| if slow.same_result { "yes" } else { "NO" });
        let mut cells = vec![row.device.to_owned(), row.trace.name().to_owned(), row.requests.to_string()];
        cells.extend(rates(row).map(millions));
        cells.extend([slow, ratio, agrees.to_owned(), mebibytes(row.peak_resident_bytes), row.result_hash.clone()]);
        cells
    };
    let heads =
        ["device", "trace", "requests", "median", "least", "most", "tick by tick", "ratio", "same", "MiB", "result"];
    text.push_str(&table(&heads, &[2, 3, 4, 5, 6, 7, 9], &report.rows.iter().map(row).collect::<Vec<_>>()));
    text.push_str("\nhow it grows (ddr4-2400, random; with several sources par-bs)\n");
    let growing = report.scaling.iter().map(|growing| {
        let row = &growing.row;
        let mut cells = vec![growing.varied.name().to_owned(), growing.value.to_string(), row.requests.to_string()];
        cells.extend(rates(row).map(millions));
        cells.push(mebibytes(row.peak_resident_bytes));
        cells
    });
    let heads = ["varied", "value", "requests", "median", "least", "most", "MiB"];
    text.push_str(&table(&heads, &[1, 2, 3, 4, 5, 6], &growing.collect::<Vec<_>>()));
    let _ = writeln!(text, "\npublished, not measured here ({})", report.published.remark);
    let row = |rate: &sim::PublishedRate| {
        let figure = millions(rate.requests_per_cpu_second as f64);
        vec![rate.simulator.clone(), rate.device.clone(), rate.trace.name().to_owned(), figure]
    };
    let rows: Vec<Vec<String>> = report.published.rates.iter().map(row).collect();
    text.push_str(&table(&["simulator", "device", "trace", "million a CPU second"], &[3], &rows));
    let met = if report.target_met { "met" } else { "not met" };
    let _ = writeln!(
        text,
        "\ntarget: {} million a CPU second on each of the six: {met}",
        report.target_requests_per_cpu_second / 1e6
    );
    text
}

/// Median, least and most.
fn rates(row: &sim::SimRow) -> [f64; 3] {
    [row.requests_per_cpu_second, row.requests_per_cpu_second_min, row.requests_per_cpu_second_max]
}
