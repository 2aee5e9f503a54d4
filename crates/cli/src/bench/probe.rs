//! `memtint bench probe`: how many accesses it takes to find a mapping, beside DRAMA and DRAMDig.
//!
//! With `--ablation` memtint's own algorithm is compared with itself, without one of its steps at a time.

use std::fmt::Write as _;

use memtint_bench::Spread;
use memtint_benchmarks::probe::ablation::{self, AblationReport, AblationRow};
use memtint_benchmarks::probe::{self, Asked, Level, ProbeReport, ProbeRow, RunsReport, Worth};

use super::{failed, tell};
use crate::output::{Ending, Format, done, done_json, table};

/// Arguments of `memtint bench probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured (whether or not the target is met: see the last line), 2 failure.\n\
    Example: memtint bench probe --platforms haswell-e3-1230,zen2-ddr4-1r --noise quiet")]
pub(super) struct ProbeArguments {
    /// Platforms of the catalogue or files, separated by commas. Default: five that take two minutes; with --ablation five others.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    platforms: Vec<String>,
    /// Noise levels, separated by commas. Default: none, quiet and typical; with --ablation all others.
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    noise: Vec<Noise>,
    /// Runs of each, with seeds one after the other.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Seed of the first run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Accesses of one run of DRAMA or DRAMDig at most.
    #[arg(long, value_name = "N", default_value_t = 35_000_000)]
    accesses_max: u64,
    /// Let DRAMA and DRAMDig read each pair as often as published, and not as rarely as they can.
    #[arg(long)]
    published: bool,
    /// Leave out one step of memtint's own algorithm at a time, and compare it with the whole.
    #[arg(long, conflicts_with_all = ["published", "accesses_max"])]
    ablation: bool,
}

/// How noisy a simulated machine is.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Noise {
    /// Nothing disturbs.
    None,
    /// An idle machine.
    Quiet,
    /// A machine with something to do.
    Typical,
    /// A busy machine.
    Noisy,
    /// An idle machine on which each pair of addresses is slower or faster than others by about 25 ticks, always the same: a
    /// conflict is 90.
    Bias25,
    /// The same with 40 ticks.
    Bias40,
    /// An idle machine that closes rows at once, and another bank group takes nearly as long as a conflict would: it has nothing
    /// to be found.
    Closed,
}

impl From<Noise> for Level {
    fn from(noise: Noise) -> Level {
        match noise {
            Noise::None => Level::None,
            Noise::Quiet => Level::Quiet,
            Noise::Typical => Level::Typical,
            Noise::Noisy => Level::Noisy,
            Noise::Bias25 => Level::Bias25,
            Noise::Bias40 => Level::Bias40,
            Noise::Closed => Level::Closed,
        }
    }
}

pub(super) fn bench_probe(arguments: &ProbeArguments, format: Format) -> Ending {
    let (repeat, seed) = (arguments.repeat, arguments.seed);
    let (platforms, levels) = (arguments.platforms.clone(), arguments.noise.iter().copied().map(Level::from).collect());
    if arguments.ablation {
        let asked = ablation::Asked { platforms, levels, repeat, seed };
        let report = ablation::measure(&asked, tell).map_err(failed("bench probe"))?;
        return match format {
            Format::Json => done_json(&report),
            Format::Text => done(&ablation_text(&report)),
        };
    }
    let (accesses_max, published) = (arguments.accesses_max, arguments.published);
    let asked = Asked { platforms, levels, repeat, seed, accesses_max, published };
    let report = probe::measure(&asked, tell).map_err(failed("bench probe"))?;
    match format {
        Format::Json => done_json(&report),
        Format::Text => done(&text(&report)),
    }
}

fn text(report: &ProbeReport) -> String {
    let mut text = String::new();
    let cpu = report.machine.cpu.as_deref().unwrap_or("unknown CPU");
    let _ = writeln!(
        text,
        "timed accesses of simulated machines (median, least and most of {} runs, seeds from {}; {:.0} s on {cpu})\n\
         DRAMA and DRAMDig are given the number of banks, DRAMDig those of row and column bits too; reads: {}\n",
        report.repeat,
        report.seed,
        report.cpu_s,
        if report.published_reads {
            "as published"
        } else {
            "the fewest of 1, 4, 16, ... with which the first run is right, else the last that were tried"
        },
    );
    let heads = ["platform", "noise", "memtint", "", "reads", "DRAMA", "", "ratio", "reads", "DRAMDig", "", "ratio"];
    text.push_str(&table(&heads, &[2, 4, 5, 7, 8, 9, 11], &report.rows.iter().map(cells).collect::<Vec<_>>()));
    let _ = writeln!(
        text,
        "\nmemtint takes at most a quarter of their accesses in {} of {} cases in which both are always right; it is wrong on {} of {} rows",
        report.ratios_within_target,
        report.ratios,
        report.wrong_of_memtint,
        report.rows.len()
    );
    text
}

fn cells(row: &ProbeRow) -> Vec<String> {
    let accesses = |runs: &RunsReport| {
        let Spread { median, min, max } = runs.accesses;
        if min < max { format!("{median:.0} ({min:.0} to {max:.0})") } else { format!("{median:.0}") }
    };
    let mut cells = vec![row.platform.clone(), row.noise.name().to_owned()];
    cells.extend([accesses(&row.memtint), verdict(&row.memtint)]);
    for other in [&row.drama, &row.dramdig] {
        cells.push(other.reads.map_or("published".to_owned(), |reads| reads.to_string()));
        cells.extend([accesses(&other.runs), verdict(&other.runs)]);
        cells.push(other.memtint_by_this.map_or("-".to_owned(), |ratio| format!("{ratio:.5}")));
    }
    cells
}

/// For people: `2 right, 1 wrong`.
fn verdict(runs: &RunsReport) -> String {
    let mut counts: Vec<(Worth, u32)> = Vec::new();
    for &verdict in &runs.verdicts {
        match counts.iter_mut().find(|(known, _)| *known == verdict) {
            Some((_, count)) => *count += 1,
            None => counts.push((verdict, 1)),
        }
    }
    let part = |(verdict, count): &(Worth, u32)| {
        if counts.len() == 1 { verdict.name().to_owned() } else { format!("{count} {}", verdict.name()) }
    };
    counts.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn ablation_text(report: &AblationReport) -> String {
    let mut text = String::new();
    let cpu = report.machine.cpu.as_deref().unwrap_or("unknown CPU");
    let _ = writeln!(
        text,
        "answers without one step of the search, {} runs on each of {}\n\
         (simulated machines, seeds from {}; {:.0} s on {cpu})\n",
        report.repeat,
        report.platforms.join(", "),
        report.seed,
        report.cpu_s,
    );
    let heads = ["noise", "without", "right", "partial", "refused", "wrong", "accesses", "by the whole"];
    let cells = report.rows.iter().map(ablation_cells).collect::<Vec<_>>();
    text.push_str(&table(&heads, &[2, 3, 4, 5, 6], &cells));
    text.push_str(
        "\naccesses: of all runs; by the whole: accesses by those of the whole algorithm, median, least and most of \
         the runs with the same verdict\n",
    );
    text
}

fn ablation_cells(row: &AblationRow) -> Vec<String> {
    let mut cells =
        vec![row.noise.name().to_owned(), row.without.map_or("nothing", |without| without.name()).to_owned()];
    cells.extend([row.right, row.partial, row.refused, row.wrong].map(|count| count.to_string()));
    cells.push(row.accesses.iter().sum::<u64>().to_string());
    cells.push(match (row.without, row.by_whole) {
        (None, _) | (_, None) => "-".to_owned(),
        (_, Some(Spread { median, min, max })) => format!("{median:.2} ({min:.2} to {max:.2})"),
    });
    cells
}
