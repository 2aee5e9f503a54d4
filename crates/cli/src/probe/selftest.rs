//! `memtint probe --self-test`: simulated machines whose mappings are known.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_map::{Platform, catalogue};
use memtint_probe::NoiseLevel;
use memtint_probe::session::{SelfTest, SelfTestReport, SelfTestRow};
use memtint_sim::Watch as _;

use super::{ProbeArguments, request};
use crate::output::{Ending, Failure, Format, print, print_json, table};
use crate::progress::Simulating;

pub(super) fn main(arguments: &ProbeArguments, format: Format) -> Ending {
    let request = request::of(arguments);
    let levels = match arguments.noise[..] {
        [] => NoiseLevel::TESTED.to_vec(),
        _ => arguments.noise.iter().copied().map(NoiseLevel::from).collect(),
    };
    let cpus = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let test = SelfTest {
        platforms: platforms(arguments.platforms.as_deref())?,
        levels,
        seeds: NonZeroUsize::new(arguments.seeds as usize).unwrap_or(NonZeroUsize::MIN),
        seed: request.seed,
        confidence: request.confidence,
        threads: arguments.threads.and_then(|threads| NonZeroUsize::new(threads.into())).unwrap_or_else(cpus),
    };
    let progress = Simulating::new()?;
    let report = test.run(&|done| progress.go_on(done));
    drop(progress);
    let report = report?;
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&text(&report))?,
    }
    Ok(ExitCode::from(u8::from(report.is_wrong())))
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

fn text(report: &SelfTestReport) -> String {
    let heads = ["platform", "noise", "right", "partial", "refused", "wrong", "accesses", "ms", "not right because"];
    let cells = |row: &SelfTestRow| {
        vec![
            row.platform.clone(),
            row.noise.name().to_owned(),
            row.right.to_string(),
            row.partial.to_string(),
            row.refused.to_string(),
            row.wrong.to_string(),
            row.accesses_median.to_string(),
            format!("{:.1}", row.simulated_ms_median),
            if row.platform == "all" { String::new() } else { row.reasons.join("; ") },
        ]
    };
    let all: Vec<Vec<String>> = report.rows.iter().chain(&report.totals).map(cells).collect();
    table(&heads, &[2, 3, 4, 5, 6, 7], &all)
}
