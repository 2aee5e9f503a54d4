//! Runs scenarios.

use crate::error::SimError;
use crate::machine::{Machine, Outcome};
use crate::report::{Report, report};
use crate::scenario::Scenario;
use memtint_dram::CommandSink;
use memtint_units::Picoseconds;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The progress callback is called after at most this many steps ...
const STEPS: u64 = 500;
/// ... and after at most this simulated time, in picoseconds, which takes a fraction of a second.
const STEP_MAX: u64 = 1_000_000_000;

/// Receives the progress of simulations, from 0 to 1 of all work, and returns whether to continue.
pub trait Watch: Sync {
    /// Called now and then, from any thread.
    fn go_on(&self, share_done: f64) -> bool;
}

impl<F: Fn(f64) -> bool + Sync> Watch for F {
    fn go_on(&self, share_done: f64) -> bool {
        self(share_done)
    }
}

/// One simulation's result.
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    pub(crate) complete: bool,
    pub(crate) assumed: Vec<String>,
    pub(crate) allocator: String,
}

/// Simulates a scenario, and each of its tasks alone if it is set to, on up to `threads` threads. The result does not
/// depend on their number.
///
/// # Errors
///
/// Errors of the scenario's parts.
pub fn simulate(scenario: &Scenario, threads: usize, watch: &dyn Watch) -> Result<Report, SimError> {
    let sinks = vec![(); scenario.channels()?.count];
    Ok(simulate_watched(scenario, threads, watch, sinks)?.0)
}

/// As [`simulate`], with a sink for the commands of each channel of [`Scenario::channels`]; they see all tasks together, not
/// those that are simulated alone, and come back in order.
///
/// # Errors
///
/// As [`simulate`].
///
/// # Panics
///
/// When there is not one sink for each channel.
pub fn simulate_watched<S: CommandSink + Send>(
    scenario: &Scenario,
    threads: usize,
    watch: &dyn Watch,
    sinks: Vec<S>,
) -> Result<(Report, Vec<S>), SimError> {
    let alone = if scenario.spec().alone { scenario.spec().tasks.len() } else { 0 };
    let jobs = 1 + alone;
    let shares: Mutex<Vec<f64>> = Mutex::new(vec![0.0; jobs]);
    let runs: Vec<Mutex<Option<Result<Run, SimError>>>> = (0..jobs).map(|_| Mutex::new(None)).collect();
    let sinks = Mutex::new(sinks);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return;
            }
            let told = |share: f64| {
                let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
                shares[job] = share;
                watch.go_on(shares.iter().sum::<f64>() / jobs as f64)
            };
            let done = if job == 0 {
                let mut sinks = sinks.lock().unwrap_or_else(PoisonError::into_inner);
                let machine = scenario.watched_machine(std::mem::take(&mut *sinks));
                machine.map(|machine| run(scenario, machine, &told)).map(|(run, seen)| {
                    *sinks = seen;
                    run
                })
            } else {
                let scenario = scenario.alone(job - 1);
                scenario.machine().map(|machine| run(&scenario, machine, &told).0)
            };
            *runs[job].lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs) {
            scope.spawn(work);
        }
        work();
    });
    let mut runs = runs.into_iter().map(|run| {
        run.into_inner().unwrap_or_else(PoisonError::into_inner).expect("every job was done by some thread")
    });
    let together = runs.next().expect("there is one")?;
    let alone = runs.collect::<Result<Vec<Run>, SimError>>()?;
    Ok((report(scenario, &together, &alone), sinks.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

fn run<S: CommandSink>(scenario: &Scenario, mut machine: Machine<S>, go_on: &dyn Fn(f64) -> bool) -> (Run, Vec<S>) {
    let duration = scenario.spec().duration.0.0;
    let references: u64 = scenario.spec().tasks.iter().filter_map(|task| task.references).sum();
    let mut complete = true;
    let step = duration.div_ceil(STEPS).min(STEP_MAX);
    let mut end = 0;
    while end < duration {
        end = (end + step).min(duration);
        if !machine.run_until(Picoseconds(end)) {
            break;
        }
        let by_time = end as f64 / duration as f64;
        let by_work = if references == 0 { 0.0 } else { machine.references_done() as f64 / references as f64 };
        if !go_on(by_time.max(by_work)) && end < duration {
            complete = false;
            break;
        }
    }
    go_on(1.0);
    let run = Run {
        outcome: machine.outcome(),
        complete,
        assumed: machine.assumed().to_vec(),
        allocator: machine.allocators().systems().map(|system| system.name()).collect::<Vec<_>>().join(", "),
    };
    (run, machine.into_sinks())
}
