//! Probes of simulated machines with known mappings, to measure the rate of wrong answers.

use super::error::SessionError;
use super::seen::Watched;
use crate::discover::probe;
use crate::judge::{Verdict, judge};
use crate::noise::NoiseLevel;
use crate::report::{Answer, Settings};
use crate::simulated::SimulatedMachine;
use memtint_map::Platform;
use schemars::JsonSchema;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Schema version of the report.
const SCHEMA: u32 = 1;
/// Ticks of a simulated machine's clock in a millisecond: 3 GHz, at which an access of 200 ticks takes 67 ns.
const TICKS_PER_MS: f64 = 3e6;

/// Platforms to probe as simulated machines.
#[derive(Clone, Debug)]
pub struct SelfTest {
    /// The platforms.
    pub platforms: Vec<Platform>,
    /// Noise levels; each platform is probed at each level.
    pub levels: Vec<NoiseLevel>,
    /// Probes of each platform at each level, with seeds from `seed` on.
    pub seeds: NonZeroUsize,
    /// The first seed.
    pub seed: u64,
    /// Required confidence in a mapping.
    pub confidence: f64,
    /// Threads; results are the same with any number.
    pub threads: NonZeroUsize,
}

/// Probes of one platform at one level of noise, or of all platforms.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SelfTestRow {
    /// The platform; `all` for all platforms.
    pub platform: String,
    /// Noise level.
    pub noise: NoiseLevel,
    /// All probes.
    pub probes: usize,
    /// Probes that gave the machine's mapping.
    pub right: usize,
    /// Probes that gave a correct part of the machine's mapping.
    pub partial: usize,
    /// Probes without a mapping.
    pub refused: usize,
    /// Probes that gave another mapping.
    pub wrong: usize,
    /// Median of timed accesses; the upper one of two.
    pub accesses_median: u64,
    /// Timed accesses of the longest probe.
    pub accesses_max: u64,
    /// Time of these accesses with a clock of 3 GHz.
    pub simulated_ms_median: f64,
    /// Reasons of probes without a complete mapping.
    pub reasons: Vec<String>,
}

/// The report of a self-test.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SelfTestReport {
    /// Schema version of this report.
    pub schema: u32,
    /// `probe-self-test`.
    #[schemars(extend("const" = "probe-self-test"))]
    pub report: &'static str,
    /// Required confidence in a mapping.
    pub confidence_wanted: f64,
    /// The first seed.
    pub seed: u64,
    /// A row for each platform and level of noise.
    pub rows: Vec<SelfTestRow>,
    /// All platforms together, a row for each level of noise.
    pub totals: Vec<SelfTestRow>,
}

impl SelfTestReport {
    /// Returns whether a probe gave a mapping that is not the machine's.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.totals.iter().any(|row| row.wrong > 0)
    }
}

/// The result of one probe.
#[derive(Clone)]
struct Probed {
    verdict: Verdict,
    accesses: u64,
    ticks: u64,
    reasons: Vec<String>,
}

impl SelfTest {
    /// Probes all machines. `go_on` receives the completed share; returning `false` stops the test.
    ///
    /// # Errors
    /// [`SessionError::Stopped`], and those of the simulated machines.
    pub fn run(&self, go_on: &(dyn Fn(f64) -> bool + Sync)) -> Result<SelfTestReport, SessionError> {
        let (levels, seeds) = (&self.levels, self.seeds.get());
        let with_levels = |platform| levels.iter().map(move |&level| (platform, level));
        let cells: Vec<(&Platform, NoiseLevel)> = self.platforms.iter().flat_map(with_levels).collect();
        let probed = self.all(cells.len() * seeds, go_on, |index| {
            let (platform, level) = cells[index / seeds];
            let seed = self.seed + (index % seeds) as u64;
            one(platform, level, &Settings { seed, confidence: self.confidence, ..Settings::default() })
        })?;
        let rows = cells
            .iter()
            .zip(probed.chunks(seeds))
            .map(|(&(platform, level), probed)| row(platform.id().to_owned(), level, probed.iter()))
            .collect();
        let total = |(at, &level): (usize, &NoiseLevel)| {
            let own = probed.chunks(seeds).skip(at).step_by(levels.len()).flatten();
            row("all".to_owned(), level, own)
        };
        Ok(SelfTestReport {
            schema: SCHEMA,
            report: "probe-self-test",
            confidence_wanted: self.confidence,
            seed: self.seed,
            rows,
            totals: levels.iter().enumerate().map(total).collect(),
        })
    }

    /// Runs `count` work items on all threads, and returns their results in order.
    fn all(
        &self,
        count: usize,
        go_on: &(dyn Fn(f64) -> bool + Sync),
        work: impl Fn(usize) -> Result<Probed, SessionError> + Sync,
    ) -> Result<Vec<Probed>, SessionError> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let worker = || -> Result<(), SessionError> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count || !go_on(index as f64 / count as f64) {
                    return Ok(());
                }
                let probed = work(index)?;
                done.lock().unwrap_or_else(PoisonError::into_inner).push((index, probed));
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads.get()).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("probing does not panic"))
        })?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if done.len() < count {
            return Err(SessionError::Stopped { done: done.len(), count });
        }
        done.sort_by_key(|&(index, _)| index);
        Ok(done.into_iter().map(|(_, probed)| probed).collect())
    }
}

fn one(platform: &Platform, level: NoiseLevel, settings: &Settings) -> Result<Probed, SessionError> {
    let mut machine = SimulatedMachine::of_platform(platform.clone(), level, settings.seed)?;
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

fn row<'a>(platform: String, noise: NoiseLevel, probed: impl Iterator<Item = &'a Probed> + Clone) -> SelfTestRow {
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
    SelfTestRow {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn test(levels: &[NoiseLevel]) -> SelfTest {
        SelfTest {
            platforms: vec![Platform::load("rpi4-2g").unwrap()],
            levels: levels.to_vec(),
            seeds: NonZeroUsize::MIN,
            seed: 1,
            confidence: 0.999,
            threads: NonZeroUsize::MIN,
        }
    }

    #[test]
    fn each_level_has_a_row_and_a_total() {
        let report = test(&[NoiseLevel::None, NoiseLevel::Quiet]).run(&|_| true).unwrap();
        let right = |rows: &[SelfTestRow]| rows.iter().map(|row| (row.noise, row.right)).collect::<Vec<_>>();
        assert_eq!(right(&report.rows), [(NoiseLevel::None, 1), (NoiseLevel::Quiet, 1)]);
        assert_eq!(right(&report.totals), right(&report.rows));
        assert!(!report.is_wrong());
    }

    #[test]
    fn a_test_that_is_stopped_has_no_report() {
        let stopped = test(&[NoiseLevel::None]).run(&|_| false).unwrap_err();
        assert_eq!(stopped.to_string(), "stopped; 0 of 1 probes were done");
    }
}
