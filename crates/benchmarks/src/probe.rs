//! Number of accesses to find a mapping, compared with DRAMA and DRAMDig.
//!
//! All three probe the same simulated machine. The accesses of the other two are proportional to their reads of each
//! pair. Their published repetition is for a real machine, so each gets the fewest reads with which it is right here:
//! 1, 4, 16 and so on, until it is right or a run would exceed the limit of accesses.
//!
//! [`ablation`] compares memtint's algorithm with variants that lack one of its steps.

pub mod ablation;

use std::io;
use std::time::Duration;

use memtint_bench::{Beside, Disturbance, Host, Spread, cpu_seconds};
use memtint_map::Platform;
use memtint_probe::baseline::{DramDig, Drama, Outcome, SetLimit};
use memtint_probe::{Noise, Oracle, OracleError, Pool, Settings, SimulatedMachine, Verdict, judge, probe};
use memtint_units::PhysAddr;
use schemars::JsonSchema;
use serde::Serialize;

use crate::words::words;
use crate::{Benchmark, BenchmarkError};

/// Schema version of the report.
const SCHEMA: u32 = 1;

/// Parameters of the benchmark.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Platforms of the catalogue, or files; empty: a default of five, which takes two minutes.
    pub platforms: Vec<String>,
    /// Noise levels; empty: none, quiet and typical.
    pub levels: Vec<Level>,
    /// Runs of each, at least one, with consecutive seeds.
    pub repeat: u16,
    /// Seed of the first run.
    pub seed: u64,
    /// The most accesses of one run of DRAMA or DRAMDig.
    pub accesses_max: u64,
    /// Whether DRAMA and DRAMDig read each pair as often as published, instead of as rarely as possible.
    pub published: bool,
}

words! {
    /// Noise level of a simulated machine.
    Level {
        /// No noise.
        None = "none",
        /// An idle machine.
        Quiet = "quiet",
        /// A machine under moderate load.
        Typical = "typical",
        /// A busy machine.
        Noisy = "noisy",
        /// An idle machine on which each pair of addresses has a constant bias of about 25 ticks; a conflict takes 90
        /// more.
        Bias25 = "bias25",
        /// The same with 40 ticks.
        Bias40 = "bias40",
        /// An idle machine that closes rows at once, and on which another bank group takes nearly as long as a conflict
        /// would: no mapping can be found.
        Closed = "closed",
    }
}

impl Level {
    const COMPARED: [Level; 3] = [Level::None, Level::Quiet, Level::Typical];

    fn noise(self) -> Noise {
        match self {
            Level::None => Noise::NONE,
            Level::Quiet => Noise::QUIET,
            Level::Typical => Noise::TYPICAL,
            Level::Noisy => Noise::NOISY,
            Level::Bias25 => Noise { bias: 25.0, ..Noise::QUIET },
            Level::Bias40 => Noise { bias: 40.0, ..Noise::QUIET },
            Level::Closed => Noise { gap: 0.0, level: 60.0, ..Noise::QUIET },
        }
    }
}

words! {
    /// Correctness of an answer.
    Worth {
        /// The machine's mapping.
        Right = "right",
        /// A correct part of the machine's mapping.
        Partial = "partial",
        /// No mapping.
        Refused = "none",
        /// A mapping that is not the machine's.
        Wrong = "wrong",
        /// No answer: the run reached the limit of accesses.
        Unfinished = "unfinished",
    }
}

impl From<Verdict> for Worth {
    fn from(verdict: Verdict) -> Worth {
        match verdict {
            Verdict::Right => Worth::Right,
            Verdict::Partial => Worth::Partial,
            Verdict::Refused => Worth::Refused,
            Verdict::Wrong => Worth::Wrong,
        }
    }
}

/// The report of the benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProbeReport {
    /// Schema version of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "probe"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine of the measurement.
    pub machine: Host,
    /// Other load on the machine during the benchmark; null where the kernel does not report it.
    pub disturbance: Option<Disturbance>,
    /// Seed of the first run.
    pub seed: u64,
    /// Runs of each.
    pub repeat: u16,
    /// The most accesses of one run of DRAMA or DRAMDig.
    pub accesses_max: u64,
    /// Whether DRAMA and DRAMDig read each pair as often as published.
    pub published_reads: bool,
    /// CPU time of the whole benchmark, in seconds.
    pub cpu_s: f64,
    /// One platform at one noise level each.
    pub rows: Vec<ProbeRow>,
    /// Target: the highest ratio of memtint's accesses to those of another detector.
    pub target_ratio_max: f64,
    /// Number of pairs of a row and another detector that have a ratio.
    pub ratios: usize,
    /// Number of these ratios within the target.
    pub ratios_within_target: usize,
    /// Rows in which memtint has given a wrong mapping.
    pub wrong_of_memtint: usize,
    /// Whether all ratios are within the target and no row is wrong.
    pub target_met: bool,
}

/// One platform at one noise level.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProbeRow {
    /// The platform.
    pub platform: String,
    /// Noise level of its simulated machine.
    pub noise: Level,
    /// memtint's runs.
    pub memtint: RunsReport,
    /// DRAMA's runs.
    #[serde(rename = "DRAMA")]
    pub drama: OtherReport,
    /// DRAMDig's runs.
    #[serde(rename = "DRAMDig")]
    pub dramdig: OtherReport,
}

/// The runs of one detector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunsReport {
    /// Timed accesses of a run.
    pub accesses: Spread,
    /// Correctness of each run's answer.
    pub verdicts: Vec<Worth>,
}

/// The runs of another detector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OtherReport {
    /// Its runs.
    #[serde(flatten)]
    pub runs: RunsReport,
    /// Reads of each pair; null where the number is as published.
    pub reads: Option<u32>,
    /// memtint's median of accesses divided by this detector's; null where one of them is not always right.
    pub memtint_by_this: Option<f64>,
}

/// 8, 16 and 32 banks with functions of two bits, one platform with a function of seven bits, and one with eleven bits,
/// which the other detectors cannot find.
const PLATFORMS: [&str; 5] =
    ["rpi4-2g", "haswell-e3-1230", "ramses-ivyhaswell-2ch1d1r", "skl-i5-6200u-xps13", "zen2-ddr4-1r"];
/// The highest ratio of memtint's accesses to another detector's.
const TARGET: f64 = 0.25;
/// Column bits where a platform does not give them; the simulated machine has the same number.
const COLUMN_BITS: u32 = 13;

/// Another detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Baseline {
    Drama,
    DramDig,
}

impl Baseline {
    /// Runs it. Besides the oracle, it receives the number of banks; DRAMDig also receives the numbers of row, column
    /// and address bits.
    fn run(self, machine: &mut dyn Oracle, platform: &Platform, reads: Option<u32>, seed: u64) -> Answered {
        let dram = platform.dram();
        match self {
            Baseline::Drama => {
                // Every line, and sets of any size: the published version ends too soon.
                let (step_bytes, limit) = (64, SetLimit::TwiceMeasured);
                let published = Drama { step_bytes, limit, ..Drama::published(platform.banks()) };
                Drama { reads: reads.unwrap_or(published.reads), ..published }.run(machine, seed)
            }
            Baseline::DramDig => {
                let columns = dram.column_bits.as_ref().map_or(COLUMN_BITS, |bits| bits.len() as u32);
                let rest = platform.address_bits().saturating_sub(columns + platform.banks().ilog2());
                let rows = dram.row_bits.as_ref().map_or(rest, |bits| bits.len() as u32);
                let published = DramDig::published(platform.banks(), rows, columns, platform.address_bits());
                DramDig { reads: reads.unwrap_or(published.reads), ..published }.run(machine, seed)
            }
        }
    }
}

type Answered = Result<Outcome, OracleError>;

/// A machine with a limit on accesses.
struct Limited {
    machine: SimulatedMachine,
    left: u64,
    exhausted: bool,
}

impl Oracle for Limited {
    fn pool(&self) -> &Pool {
        self.machine.pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let accesses = addresses.len() as u64 * u64::from(rounds);
        self.exhausted |= accesses > self.left;
        if self.exhausted {
            return Err(OracleError::Io {
                what: "the limit of accesses".to_owned(),
                source: io::ErrorKind::Other.into(),
            });
        }
        self.left -= accesses;
        self.machine.time(addresses, rounds)
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.machine.time_beside(addresses, others, rounds)
    }
}

/// Results of several runs.
#[derive(Debug, Default)]
struct Runs {
    accesses: Vec<f64>,
    verdicts: Vec<Worth>,
}

impl Runs {
    fn add(&mut self, accesses: u64, verdict: Worth) {
        self.accesses.push(accesses as f64);
        self.verdicts.push(verdict);
    }

    fn report(self) -> RunsReport {
        let accesses = Spread::of(&self.accesses).expect("there is a run");
        RunsReport { accesses, verdicts: self.verdicts }
    }
}

impl RunsReport {
    /// Returns whether all runs are right.
    fn right(&self) -> bool {
        self.verdicts.iter().all(|&verdict| verdict == Worth::Right)
    }
}

impl ProbeRow {
    fn measure(asked: &Asked, platform: &Platform, level: Level) -> Result<ProbeRow, BenchmarkError> {
        let mut own = Runs::default();
        for seed in seeds(asked.seed, asked.repeat) {
            let mut machine = machine(platform, level, seed)?;
            let report = probe(&mut machine, &Settings { seed, ..Settings::default() }, &mut |_| {})?;
            own.add(report.effort.accesses, judge(&machine, &report.answer).into());
        }
        let memtint = own.report();
        let other = |baseline| {
            let (reads, runs) = fewest_reads(asked, platform, level, baseline)?;
            let runs = runs.report();
            let both_right = memtint.right() && runs.right();
            let memtint_by_this = both_right.then(|| memtint.accesses.median / runs.accesses.median);
            Ok::<_, BenchmarkError>(OtherReport { runs, reads, memtint_by_this })
        };
        let (drama, dramdig) = (other(Baseline::Drama)?, other(Baseline::DramDig)?);
        Ok(ProbeRow { platform: platform.id().to_owned(), noise: level, memtint, drama, dramdig })
    }

    fn ratios(&self) -> impl Iterator<Item = f64> {
        [&self.drama, &self.dramdig].into_iter().filter_map(|other| other.memtint_by_this)
    }
}

fn seeds(first: u64, repeat: u16) -> impl Iterator<Item = u64> {
    (0..u64::from(repeat)).map(move |run| first.wrapping_add(run))
}

fn machine(platform: &Platform, level: Level, seed: u64) -> Result<SimulatedMachine, BenchmarkError> {
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64)
        .map_err(|cause| BenchmarkError::Pool { platform: platform.id().to_owned(), cause })?;
    Ok(SimulatedMachine::new(platform.clone(), pool, level.noise(), seed)?)
}

/// Runs another detector with increasing reads until it is right, then with the other seeds; returns a single run if it
/// is never right.
fn fewest_reads(
    asked: &Asked,
    platform: &Platform,
    level: Level,
    baseline: Baseline,
) -> Result<(Option<u32>, Runs), BenchmarkError> {
    let run = |reads, seed| -> Result<(u64, Worth), BenchmarkError> {
        let machine = machine(platform, level, seed)?;
        let mut limited = Limited { machine, left: asked.accesses_max, exhausted: false };
        let outcome = match baseline.run(&mut limited, platform, reads, seed) {
            Ok(outcome) => outcome,
            Err(_) if limited.exhausted => return Ok((asked.accesses_max - limited.left, Worth::Unfinished)),
            Err(error) => return Err(error.into()),
        };
        let verdict = match &outcome.result {
            Ok(found) if found.is_of(&limited.machine) => Worth::Right,
            Ok(_) => Worth::Wrong,
            Err(_) => Worth::Refused,
        };
        Ok((outcome.accesses, verdict))
    };
    let mut seeds = seeds(asked.seed, asked.repeat);
    let first = seeds.next().expect("there is a run");
    let mut reads = if asked.published { None } else { Some(1) };
    let mut runs = Runs::default();
    loop {
        let (accesses, verdict) = run(reads, first)?;
        let more = reads.and_then(|reads| reads.checked_mul(4));
        if verdict == Worth::Right {
            runs.add(accesses, verdict);
            break;
        }
        // Four times as many reads take about four times as many accesses, unless the detector stops before the reads
        // matter.
        let hopeless = verdict == Worth::Unfinished || accesses.saturating_mul(4) > asked.accesses_max;
        if hopeless || more.is_none() {
            runs.add(accesses, verdict);
            return Ok((reads, runs));
        }
        reads = more;
    }
    for seed in seeds {
        let (accesses, verdict) = run(reads, seed)?;
        runs.add(accesses, verdict);
    }
    Ok((reads, runs))
}

/// The requested platforms, or the default ones.
fn load(asked: &[String], otherwise: &[&str]) -> Result<Vec<Platform>, BenchmarkError> {
    let names: Vec<&str> = match asked {
        [] => otherwise.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    Ok(names.into_iter().map(Platform::load).collect::<Result<_, _>>()?)
}

/// The requested levels, or the default ones.
fn levels<'a>(asked: &'a [Level], otherwise: &'a [Level]) -> &'a [Level] {
    if asked.is_empty() { otherwise } else { asked }
}

/// Counts the accesses of each detector.
///
/// # Errors
///
/// When a platform cannot be read or simulated.
pub fn measure(asked: &Asked, tell: fn(&str)) -> Result<ProbeReport, BenchmarkError> {
    let (machine, beside) = (Host::read(), Beside::since_now());
    let platforms = load(&asked.platforms, &PLATFORMS)?;
    let began = cpu_seconds();
    let mut rows = Vec::new();
    for platform in &platforms {
        for &level in levels(&asked.levels, &Level::COMPARED) {
            tell(&format!("probe {}, noise {}", platform.id(), level.name()));
            rows.push(ProbeRow::measure(asked, platform, level)?);
        }
    }
    let own = Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let ratios: Vec<f64> = rows.iter().flat_map(ProbeRow::ratios).collect();
    let within = ratios.iter().filter(|&&ratio| ratio <= TARGET).count();
    let wrong = rows.iter().filter(|row| row.memtint.verdicts.contains(&Worth::Wrong)).count();
    Ok(ProbeReport {
        schema: SCHEMA,
        bench: Benchmark::Probe,
        version: env!("CARGO_PKG_VERSION"),
        machine,
        disturbance,
        seed: asked.seed,
        repeat: asked.repeat,
        accesses_max: asked.accesses_max,
        published_reads: asked.published,
        cpu_s: own.as_secs_f64(),
        rows,
        target_ratio_max: TARGET,
        ratios: ratios.len(),
        ratios_within_target: within,
        wrong_of_memtint: wrong,
        target_met: within == ratios.len() && wrong == 0,
    })
}
