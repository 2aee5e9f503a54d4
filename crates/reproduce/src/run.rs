//! Runs the simulations of figures, each once.

use crate::allocation;
use crate::analysis;
use crate::compare::{Comparison, compare};
use crate::error::ReproduceError;
use crate::expand::{Prepared, prepare};
use crate::figure::{Figure, Measured};
use crate::measure;
use memtint_sim::{Report, Watch, simulate};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How figures are regenerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Simulations at the same time; results do not depend on it.
    pub threads: usize,
    /// A tenth of the work, and parts of long lists: a first look, which has a verdict only where nothing is simulated.
    pub short: bool,
    /// Seed of everything random instead of the scenarios' own.
    pub seed: Option<u64>,
}

/// A figure's scenarios and their results.
#[derive(Clone, Debug)]
pub struct Regenerated {
    /// The comparison.
    pub comparison: Comparison,
    /// Its scenarios.
    pub scenarios: Vec<Prepared>,
}

/// Regenerates figures. A simulation that several figures need is done once. Figures whose simulations were stopped by
/// the watch are left out of the answer.
///
/// # Errors
///
/// Errors of files, of the simulator or of allocators.
pub fn reproduce(figures: &[Figure], options: Options, watch: &dyn Watch) -> Result<Vec<Regenerated>, ReproduceError> {
    let mut prepared = Vec::new();
    let mut analyses = Vec::new();
    for figure in figures {
        prepared.push(prepare(figure, options.short, options.seed)?);
        analyses.push(analysis::prepare(figure, options.short)?);
    }
    let mut different: Vec<&Prepared> = Vec::new();
    let mut place: BTreeMap<&str, usize> = BTreeMap::new();
    for run in prepared.iter().flatten() {
        place.entry(&run.text).or_insert_with(|| {
            different.push(run);
            different.len() - 1
        });
    }
    let reports = simulate_all(&different, options.threads, watch)?;
    let mut regenerated = Vec::new();
    for ((figure, scenarios), analyses) in figures.iter().zip(&prepared).zip(&analyses) {
        let found = |run: &Prepared| place.get(run.text.as_str()).and_then(|&at| reports[at].as_ref());
        let done: Option<BTreeMap<&str, &Report>> =
            scenarios.iter().map(|run| Some((run.name.as_str(), found(run)?))).collect();
        let Some(done) = done else { continue };
        let steps = allocation::run(&figure.id, &figure.allocation)?;
        // A part of the work has numbers too, and they are not those of the whole.
        let unfinished = done.iter().find_map(|(run, report)| Some(format!("run {run:?}: {}", report.unfinished()?)));
        let take = |measured: &Measured| match (done.get(measured.run.as_str()), &measured.alone_in) {
            (Some(report), _) if report.unfinished().is_some() => None,
            (Some(report), None) => measure::of_report(report, measured.task.as_deref(), measured.measure),
            (Some(report), Some(alone_in)) => measure::beside(report, done.get(alone_in.as_str())?, measured.measure),
            (None, _) => measure::of_allocation(steps.get(measured.run.as_str())?, measured.measure),
        };
        let mut comparison = compare(figure, options.short, &take, &analysis::run(analyses)?)?;
        if let Some(reason) = unfinished {
            comparison.fail(reason);
        }
        comparison.seed = scenarios.first().map(|run| run.scenario.seed());
        comparison.assumed = done.values().flat_map(|report| report.assumed.iter().cloned()).collect();
        comparison.assumed.sort();
        comparison.assumed.dedup();
        regenerated.push(Regenerated { comparison, scenarios: scenarios.clone() });
    }
    Ok(regenerated)
}

/// Reports of all runs; `None` for those that were stopped.
fn simulate_all(runs: &[&Prepared], threads: usize, watch: &dyn Watch) -> Result<Vec<Option<Report>>, ReproduceError> {
    let shares: Mutex<Vec<f64>> = Mutex::new(vec![0.0; runs.len()]);
    let reports = runs.iter().map(|_| Mutex::new(None)).collect::<Vec<_>>();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(at) else { return };
            let told = |share: f64| {
                let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
                shares[at] = share;
                watch.go_on(shares.iter().sum::<f64>() / runs.len() as f64)
            };
            if !told(0.0) {
                return;
            }
            let report = simulate(&run.scenario, 1, &told);
            *reports[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, runs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let finish = |report: Mutex<Option<_>>| match report.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Ok(report)) => Ok(Some(report).filter(|report: &Report| report.complete)),
        Some(Err(error)) => Err(ReproduceError::from(error)),
        None => Ok(None),
    };
    reports.into_iter().map(finish).collect()
}
