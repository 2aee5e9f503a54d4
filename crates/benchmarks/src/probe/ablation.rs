//! The value of each step of the search.
//!
//! The whole algorithm, and variants that lack one step, probe the same simulated machines with the same seeds. A step
//! is justified if, without it, more answers are wrong, fewer are right, or the same answers take more accesses.

use std::time::Duration;

use memtint_bench::{Beside, Disturbance, Host, Spread, cpu_seconds};
use memtint_map::Platform;
use memtint_probe::{Settings, Step, Verdict, judge, probe};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Level, SCHEMA, levels, load, machine, seeds};
use crate::words::words;
use crate::{Benchmark, BenchmarkError};

/// Functions of two, seven and eleven bits, functions of all row bits above a hole, and three interleaved channels.
const PLATFORMS: [&str; 5] =
    ["haswell-e3-1230", "ramses-ivyhaswell-2ch1d1r", "zen2-ddr4-1r", "zen3-ddr4-2r-full", "skx-open-3ch1r"];
const LEVELS: [Level; 6] = [Level::Quiet, Level::Typical, Level::Noisy, Level::Bias25, Level::Bias40, Level::Closed];

/// Parameters of the benchmark.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Platforms of the catalogue, or files; empty: five of different kinds.
    pub platforms: Vec<String>,
    /// Noise levels; empty: all but none.
    pub levels: Vec<Level>,
    /// Runs of each, at least one, with consecutive seeds.
    pub repeat: u16,
    /// Seed of the first run.
    pub seed: u64,
}

words! {
    /// The omitted step: one of [`Step`].
    LeftOut {
        /// Each sample of a difference uses a different pair. Without: always the same pair.
        Translations = "translations",
        /// The baseline follows the machine. Without: it is measured once, at the beginning.
        Baseline = "baseline",
        /// A slow pair is doubted while a single address is slow too. Without: another program's accesses count as the
        /// pair's.
        Doubt = "doubt",
        /// Pairs that contradict the decision on their difference are measured again. Without: they are dropped.
        Contrary = "contrary",
        /// Where conflicts hardly stand out, each sample has a control. Without: only levels that stand out are used.
        Controls = "controls",
        /// A contradiction is tried again. Without: the first one refutes an assumption.
        Retry = "retry",
        /// All thresholds between conflicts and the rest are tried. Without: only the one that just the slowest pairs
        /// pass.
        Splits = "splits",
        /// Mappings that no memory has are refused. Without: any consistent result is a mapping.
        Sanity = "sanity",
        /// The mapping must predict fresh pairs. Without: nothing is predicted.
        Predictions = "predictions",
        /// It must do so in every part of the pool. Without: predictions are those of the solver.
        Everywhere = "everywhere",
        /// Memory may be relocated. Without: addresses are taken as they are, or interleaved over channels.
        Blocks = "blocks",
        /// Channels may be interleaved by a modulus. Without: only powers of two are tried.
        Turns = "turns",
    }
}

impl From<Step> for LeftOut {
    fn from(step: Step) -> LeftOut {
        match step {
            Step::Translations => LeftOut::Translations,
            Step::Baseline => LeftOut::Baseline,
            Step::Doubt => LeftOut::Doubt,
            Step::Contrary => LeftOut::Contrary,
            Step::Controls => LeftOut::Controls,
            Step::Retry => LeftOut::Retry,
            Step::Splits => LeftOut::Splits,
            Step::Sanity => LeftOut::Sanity,
            Step::Predictions => LeftOut::Predictions,
            Step::Everywhere => LeftOut::Everywhere,
            Step::Blocks => LeftOut::Blocks,
            Step::Turns => LeftOut::Turns,
        }
    }
}

/// The report of the benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AblationReport {
    /// Schema version of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "probe-ablation"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine of the measurement.
    pub machine: Host,
    /// Other load on the machine during the benchmark; null where the kernel does not report it.
    pub disturbance: Option<Disturbance>,
    /// Platforms that are simulated.
    pub platforms: Vec<String>,
    /// Seed of the first run.
    pub seed: u64,
    /// Runs of each.
    pub repeat: u16,
    /// CPU time of the whole benchmark, in seconds.
    pub cpu_s: f64,
    /// For each noise level the whole algorithm, then each variant without a step.
    pub rows: Vec<AblationRow>,
}

/// One variant of the algorithm on all platforms at one noise level.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AblationRow {
    /// The omitted step; null for the whole algorithm.
    pub without: Option<LeftOut>,
    /// Noise level of the simulated machines.
    pub noise: Level,
    /// Answers that are the machine's mapping.
    pub right: usize,
    /// Answers that are a correct part of the machine's mapping.
    pub partial: usize,
    /// Runs without an answer.
    pub refused: usize,
    /// Answers that are not the machine's mapping.
    pub wrong: usize,
    /// Timed accesses of each run, platform by platform.
    pub accesses: Vec<u64>,
    /// Accesses divided by those of the whole algorithm, over runs in which both have the same verdict; null without
    /// such runs.
    pub by_whole: Option<Spread>,
}

/// Answers of one variant of the algorithm on all platforms at one level, and their accesses, in one order for all variants.
struct Row {
    without: Option<Step>,
    level: Level,
    verdicts: Vec<Verdict>,
    accesses: Vec<u64>,
}

impl Row {
    fn measure(
        asked: &Asked,
        platforms: &[Platform],
        level: Level,
        without: Option<Step>,
    ) -> Result<Row, BenchmarkError> {
        let mut row = Row { without, level, verdicts: Vec::new(), accesses: Vec::new() };
        for platform in platforms {
            for seed in seeds(asked.seed, asked.repeat) {
                let mut machine = machine(platform, level, seed)?;
                let settings = Settings { seed, without, ..Settings::default() };
                let report = probe(&mut machine, &settings, &mut |_| {})?;
                row.verdicts.push(judge(&machine, &report.answer));
                row.accesses.push(report.effort.accesses);
            }
        }
        Ok(row)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.verdicts.iter().filter(|&&one| one == verdict).count()
    }

    /// Accesses divided by those of the whole algorithm, over probes in which both have the same verdict; `None`
    /// without such probes.
    fn ratio(&self, whole: &Row) -> Option<Spread> {
        let same = (0..self.verdicts.len()).filter(|&at| self.verdicts[at] == whole.verdicts[at]);
        Spread::of(&same.map(|at| self.accesses[at] as f64 / whole.accesses[at] as f64).collect::<Vec<_>>())
    }

    fn report(&self, whole: &Row) -> AblationRow {
        AblationRow {
            without: self.without.map(LeftOut::from),
            noise: self.level,
            right: self.count(Verdict::Right),
            partial: self.count(Verdict::Partial),
            refused: self.count(Verdict::Refused),
            wrong: self.count(Verdict::Wrong),
            accesses: self.accesses.clone(),
            by_whole: self.ratio(whole),
        }
    }
}

/// Compares the whole algorithm with variants that lack one step.
///
/// # Errors
///
/// When a platform cannot be read or simulated.
pub fn measure(asked: &Asked, tell: fn(&str)) -> Result<AblationReport, BenchmarkError> {
    let (machine, beside) = (Host::read(), Beside::since_now());
    let platforms = load(&asked.platforms, &PLATFORMS)?;
    let began = cpu_seconds();
    let mut rows = Vec::new();
    for &level in levels(&asked.levels, &LEVELS) {
        // The whole algorithm first.
        let mut group: Vec<Row> = Vec::new();
        for without in std::iter::once(None).chain(Step::ALL.map(Some)) {
            let name = without.map_or("nothing", |step| LeftOut::from(step).name());
            tell(&format!("noise {}, without {name}", level.name()));
            group.push(Row::measure(asked, &platforms, level, without)?);
        }
        rows.extend(group.iter().map(|row| row.report(&group[0])));
    }
    let own = Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    Ok(AblationReport {
        schema: SCHEMA,
        bench: Benchmark::ProbeAblation,
        version: env!("CARGO_PKG_VERSION"),
        machine,
        disturbance: beside.until_now(own),
        platforms: platforms.iter().map(|platform| platform.id().to_owned()).collect(),
        seed: asked.seed,
        repeat: asked.repeat,
        cpu_s: own.as_secs_f64(),
        rows,
    })
}
