//! `memtint probe --self-test`: simulated machines whose mappings are known.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use memtint_map::{Platform, catalogue};
use memtint_probe::{Answer, Settings, Verdict, judge, probe};
use memtint_sim::Watch as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::noise::{self, Level};
use super::watched::Watched;
use super::{ProbeArguments, settings};
use crate::Ending;
use crate::output::{Failure, Format, print, print_json, table};
use crate::sim::Progress;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;
/// Ticks of a simulated machine's clock in a millisecond: 3 GHz, at which an access of 200 ticks takes 67 ns.
const TICKS_PER_MS: f64 = 3e6;

/// What came of the probes of one platform at one level of noise.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Row {
    platform: String,
    noise: &'static str,
    probes: usize,
    right: usize,
    partial: usize,
    refused: usize,
    wrong: usize,
    /// Timed accesses; the upper of two middle ones.
    accesses_median: u64,
    accesses_max: u64,
    /// Time of these accesses, of a clock of 3 GHz.
    simulated_ms_median: f64,
    /// What was said where a probe did not end with the whole mapping.
    reasons: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output<'a> {
    schema: u32,
    report: &'static str,
    confidence_wanted: f64,
    seed: u64,
    rows: &'a [Row],
    /// All platforms together, a row for each level of noise.
    totals: &'a [Row],
}

/// One probe's end.
#[derive(Clone)]
struct Probed {
    verdict: Verdict,
    accesses: u64,
    ticks: u64,
    reasons: Vec<String>,
}

pub(super) fn main(arguments: &ProbeArguments, format: Format) -> Ending {
    let platforms = platforms(arguments.platforms.as_deref())?;
    let levels = if arguments.noise.is_empty() { &Level::TESTED[..] } else { &arguments.noise };
    let seeds = arguments.seeds as usize;
    let cells: Vec<(&Platform, Level)> =
        platforms.iter().flat_map(|platform| levels.iter().map(move |&level| (platform, level))).collect();
    let probed = all(arguments, cells.len() * seeds, |index| {
        let (platform, level) = cells[index / seeds];
        one(platform, level, &Settings { seed: arguments.seed() + (index % seeds) as u64, ..settings(arguments) })
    })?;
    let rows: Vec<Row> = cells
        .iter()
        .zip(probed.chunks(seeds))
        .map(|(&(platform, level), probed)| row(platform.id().to_owned(), level.name(), probed.iter()))
        .collect();
    let total = |(at, level): (usize, &Level)| {
        let own = probed.chunks(seeds).skip(at).step_by(levels.len()).flatten();
        row("all".to_owned(), level.name(), own)
    };
    let totals: Vec<Row> = levels.iter().enumerate().map(total).collect();
    match format {
        Format::Json => {
            let (confidence_wanted, seed) = (arguments.confidence(), arguments.seed());
            print_json(&Output {
                schema: SCHEMA,
                report: "probe-self-test",
                confidence_wanted,
                seed,
                rows: &rows,
                totals: &totals,
            })?;
        }
        Format::Text => print(&text(&rows, &totals))?,
    }
    let wrong = totals.iter().any(|row| row.wrong > 0);
    Ok(ExitCode::from(u8::from(wrong)))
}

/// Those of the catalogue, or of a directory.
fn platforms(directory: Option<&Path>) -> Result<Vec<Platform>, Failure> {
    let Some(directory) = directory else {
        return Ok(catalogue::names().map(Platform::load).collect::<Result<_, _>>()?);
    };
    let entries = std::fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|cause| Failure::File { path: directory.to_owned(), done: "read", cause })?;
    let mut paths: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    if paths.is_empty() {
        return Err(Failure::Sentence(format!("{directory:?}: no platform files found; accepted are files *.toml")));
    }
    let load = |path: &PathBuf| match path.to_str() {
        Some(path) => Ok(Platform::load(path)?),
        None => Err(Failure::Sentence(format!("{path:?}: the name is no text; accepted are names in UTF-8"))),
    };
    paths.iter().map(load).collect()
}

fn one(platform: &Platform, level: Level, settings: &Settings) -> Result<Probed, Failure> {
    let mut machine = noise::machine(platform.clone(), level, settings.seed)?;
    let mut watched = Watched::new(&mut machine);
    let report = probe(&mut watched, settings, &mut |_| {})?;
    let ticks = watched.into_seen().ticks;
    let reasons = match &report.answer {
        Answer::Mapping(_) => Vec::new(),
        Answer::Partial(_, missing) => missing.iter().map(ToString::to_string).collect(),
        Answer::NoBankSignal(_) => {
            report.attempts.last().and_then(|attempt| attempt.failed).iter().map(ToString::to_string).collect()
        }
    };
    let verdict = judge(&machine, &report.answer);
    Ok(Probed { verdict, accesses: report.effort.accesses, ticks, reasons })
}

/// Does so many things on all threads, and gives what came of them in order.
fn all(
    arguments: &ProbeArguments,
    count: usize,
    work: impl Fn(usize) -> Result<Probed, Failure> + Sync,
) -> Result<Vec<Probed>, Failure> {
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or_else(cpus, usize::from);
    let progress = Progress::new()?;
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let worker = || -> Result<(), Failure> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count || !progress.go_on(index as f64 / count as f64) {
                return Ok(());
            }
            let probed = work(index)?;
            done.lock().expect("nobody panics with it").push((index, probed));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("probing does not panic"))
    })?;
    progress.end();
    let mut done = done.into_inner().expect("nobody panics with it");
    if done.len() < count {
        return Err(Failure::Sentence(format!("stopped; {} of {count} probes were done", done.len())));
    }
    done.sort_by_key(|&(index, _)| index);
    Ok(done.into_iter().map(|(_, probed)| probed).collect())
}

fn row<'a>(platform: String, noise: &'static str, probed: impl Iterator<Item = &'a Probed> + Clone) -> Row {
    let count = |verdict| probed.clone().filter(|probed| probed.verdict == verdict).count();
    let sorted = |of: fn(&Probed) -> u64| {
        let mut all: Vec<u64> = probed.clone().map(of).collect();
        all.sort_unstable();
        all
    };
    let (accesses, ticks) = (sorted(|probed| probed.accesses), sorted(|probed| probed.ticks));
    let mut reasons: Vec<String> = probed.clone().flat_map(|probed| probed.reasons.iter().cloned()).collect();
    reasons.sort();
    reasons.dedup();
    Row {
        platform,
        noise,
        probes: accesses.len(),
        right: count(Verdict::Right),
        partial: count(Verdict::Partial),
        refused: count(Verdict::Refused),
        wrong: count(Verdict::Wrong),
        accesses_median: accesses[accesses.len() / 2],
        accesses_max: accesses[accesses.len() - 1],
        simulated_ms_median: ticks[ticks.len() / 2] as f64 / TICKS_PER_MS,
        reasons,
    }
}

fn text(rows: &[Row], totals: &[Row]) -> String {
    let heads = ["platform", "noise", "right", "partial", "refused", "wrong", "accesses", "ms", "not right because"];
    let cells = |row: &Row| {
        vec![
            row.platform.clone(),
            row.noise.to_owned(),
            row.right.to_string(),
            row.partial.to_string(),
            row.refused.to_string(),
            row.wrong.to_string(),
            row.accesses_median.to_string(),
            format!("{:.1}", row.simulated_ms_median),
            if row.platform == "all" { String::new() } else { row.reasons.join("; ") },
        ]
    };
    let all: Vec<Vec<String>> = rows.iter().chain(totals).map(cells).collect();
    table(&heads, &[2, 3, 4, 5, 6, 7], &all)
}
