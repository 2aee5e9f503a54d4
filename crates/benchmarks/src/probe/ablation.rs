//! What each step of the search is worth.
//!
//! The whole algorithm and, one step at a time, the rest of it ask the same simulated machines with the same seeds. A step earns its
//! place when without it more answers are wrong or fewer are right, or when the same answers take more accesses.

use std::time::Duration;

use memtint_bench::{Beside, Disturbance, Host, Spread, cpu_seconds};
use memtint_map::Platform;
use memtint_probe::{Settings, Step, Verdict, judge, probe};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Level, SCHEMA, levels, load, machine, seeds};
use crate::words::words;
use crate::{Benchmark, BenchmarkError};

/// Pairs of bits, functions of seven and of eleven, of all row bits above a hole, and three channels in turn.
const PLATFORMS: [&str; 5] =
    ["haswell-e3-1230", "ramses-ivyhaswell-2ch1d1r", "zen2-ddr4-1r", "zen3-ddr4-2r-full", "skx-open-3ch1r"];
const LEVELS: [Level; 6] = [Level::Quiet, Level::Typical, Level::Noisy, Level::Bias25, Level::Bias40, Level::Closed];

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Platforms of the catalogue, or files; empty: five of different kinds.
    pub platforms: Vec<String>,
    /// Noise levels; empty: all but none.
    pub levels: Vec<Level>,
    /// Runs of each, at least one, with seeds one after the other.
    pub repeat: u16,
    /// Seed of the first run.
    pub seed: u64,
}

words! {
    /// The step that is left out: one of [`Step`].
    LeftOut {
        /// Each sample of a difference is taken somewhere else. Without: always of the same pair.
        Translations = "translations",
        /// The baseline follows the machine. Without: it is measured once, to begin with.
        Baseline = "baseline",
        /// What looks slow is doubted while an address alone is slow too. Without: another program's accesses count as the pair's.
        Doubt = "doubt",
        /// Pairs that look otherwise than their difference was decided are looked at again. Without: they are forgotten.
        Contrary = "contrary",
        /// Where conflicts hardly stand out, each sample has a control. Without: levels are those that stand out.
        Controls = "controls",
        /// A contradiction is tried again. Without: the first one refutes an assumption.
        Retry = "retry",
        /// All ways to tell conflicts from the rest are tried. Without: the one that only the slowest pairs pass.
        Splits = "splits",
        /// What no memory looks like is refused. Without: whatever is consistent is a mapping.
        Sanity = "sanity",
        /// What is found has to predict fresh pairs. Without: nothing is predicted.
        Predictions = "predictions",
        /// It has to do so in every part of the pool. Without: predictions are those of the solver.
        Everywhere = "everywhere",
        /// Memory may be moved. Without: addresses are taken as they are, or dealt out over channels.
        Blocks = "blocks",
        /// Channels may take turns. Without: no number of them but powers of two is tried.
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
    /// Number of the form of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "probe-ablation"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine that measured.
    pub machine: Host,
    /// What else ran on the machine meanwhile; null where the kernel does not say.
    pub disturbance: Option<Disturbance>,
    /// Platforms that are simulated.
    pub platforms: Vec<String>,
    /// Seed of the first run.
    pub seed: u64,
    /// Runs of each.
    pub repeat: u16,
    /// Processor time of the whole benchmark, in seconds.
    pub cpu_s: f64,
    /// For each noise level the whole algorithm, then each variant without a step.
    pub rows: Vec<AblationRow>,
}

/// One variant of the algorithm on all platforms at one noise level.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AblationRow {
    /// The step that is left out; null for the whole algorithm.
    pub without: Option<LeftOut>,
    /// How noisy the simulated machines are.
    pub noise: Level,
    /// Answers that are the machine's mapping.
    pub right: usize,
    /// Answers that are the machine's mapping as far as they go.
    pub partial: usize,
    /// Runs without an answer.
    pub refused: usize,
    /// Answers that are not the machine's mapping.
    pub wrong: usize,
    /// Timed accesses of each run, platform by platform.
    pub accesses: Vec<u64>,
    /// Accesses by those of the whole algorithm, in the runs in which both came to the same verdict; null if there is none.
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

    /// Accesses by those of the whole algorithm, in the probes in which both came to the same verdict; `None` if there is none.
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

/// Compares the whole algorithm with the rest of it, without one step at a time.
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
