//! How many accesses it takes to find a mapping, beside DRAMA and DRAMDig.
//!
//! All three ask the same simulated machine. What the others do is in proportion to how often they read a pair. Their published
//! repetition is for a real machine, so each is given the fewest reads with which it is right here: 1, 4, 16 and so on until it
//! is, or until a run would take more accesses than it may.
//!
//! [`ablation`] compares memtint's own algorithm with itself, without one of its steps at a time.

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

/// Number of the form of the report.
const SCHEMA: u32 = 1;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Platforms of the catalogue, or files; empty: five that take two minutes.
    pub platforms: Vec<String>,
    /// Noise levels; empty: none, quiet and typical.
    pub levels: Vec<Level>,
    /// Runs of each, at least one, with seeds one after the other.
    pub repeat: u16,
    /// Seed of the first run.
    pub seed: u64,
    /// Accesses of one run of DRAMA or DRAMDig at most.
    pub accesses_max: u64,
    /// Whether DRAMA and DRAMDig read each pair as often as published, and not as rarely as they can.
    pub published: bool,
}

words! {
    /// How noisy a simulated machine is.
    Level {
        /// Nothing disturbs.
        None = "none",
        /// An idle machine.
        Quiet = "quiet",
        /// A machine with something to do.
        Typical = "typical",
        /// A busy machine.
        Noisy = "noisy",
        /// An idle machine on which each pair of addresses is slower or faster than others by about 25 ticks, always the same: a
        /// conflict is 90.
        Bias25 = "bias25",
        /// The same with 40 ticks.
        Bias40 = "bias40",
        /// An idle machine that closes rows at once, and another bank group takes nearly as long as a conflict would: it has nothing
        /// to be found.
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
    /// What an answer is worth.
    Worth {
        /// A mapping, and it is the machine's.
        Right = "right",
        /// A partial one, and it is the machine's as far as it goes.
        Partial = "partial",
        /// No mapping.
        Refused = "none",
        /// A mapping that is not the machine's.
        Wrong = "wrong",
        /// None: the run has taken all accesses that it may.
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
    /// Number of the form of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "probe"))]
    pub bench: Benchmark,
    /// Version of memtint.
    pub version: &'static str,
    /// The machine that measured.
    pub machine: Host,
    /// What else ran on the machine meanwhile; null where the kernel does not say.
    pub disturbance: Option<Disturbance>,
    /// Seed of the first run.
    pub seed: u64,
    /// Runs of each.
    pub repeat: u16,
    /// Accesses of one run of DRAMA or DRAMDig at most.
    pub accesses_max: u64,
    /// Whether DRAMA and DRAMDig read each pair as often as published.
    pub published_reads: bool,
    /// Processor time of the whole benchmark, in seconds.
    pub cpu_s: f64,
    /// One platform at one noise level each.
    pub rows: Vec<ProbeRow>,
    /// Accesses of memtint by those of another detector at most.
    pub target_ratio_max: f64,
    /// How many pairs of a row and another detector have a ratio.
    pub ratios: usize,
    /// How many of them are at most the target's.
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
    /// How noisy its simulated machine is.
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
    /// What the answer of each run is worth.
    pub verdicts: Vec<Worth>,
}

/// The runs of another detector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OtherReport {
    /// Its runs.
    #[serde(flatten)]
    pub runs: RunsReport,
    /// How often it reads a pair; null where that is as published.
    pub reads: Option<u32>,
    /// memtint's median of accesses by that of this one; null where one of them is not always right.
    pub memtint_by_this: Option<f64>,
}

/// 8, 16 and 32 banks of pairs of bits, one with a function of seven bits, and one of eleven, which the others cannot find.
const PLATFORMS: [&str; 5] =
    ["rpi4-2g", "haswell-e3-1230", "ramses-ivyhaswell-2ch1d1r", "skl-i5-6200u-xps13", "zen2-ddr4-1r"];
/// Own accesses by those of another at most.
const TARGET: f64 = 0.25;
/// Bits within a row where a platform does not say which they are: what its simulated machine has.
const COLUMN_BITS: u32 = 13;

/// Another detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Baseline {
    Drama,
    DramDig,
}

impl Baseline {
    /// Runs it. Its input besides the oracle is the number of banks, and of the address bits.
    fn run(self, machine: &mut dyn Oracle, platform: &Platform, reads: Option<u32>, seed: u64) -> Answered {
        let dram = platform.dram();
        match self {
            Baseline::Drama => {
                // Every line, and sets as large as they come: as published it ends too soon.
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

/// A machine that may be asked so much and no more.
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

/// What came of some runs.
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
    /// All of them.
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

/// Runs another detector with ever more reads until it is right, and with the other seeds then; one run where it never is.
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
        // Four times as many reads take about four times as many accesses, unless it stops before the reads matter.
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

/// The platforms that are asked for, or else these.
fn load(asked: &[String], otherwise: &[&str]) -> Result<Vec<Platform>, BenchmarkError> {
    let names: Vec<&str> = match asked {
        [] => otherwise.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    Ok(names.into_iter().map(Platform::load).collect::<Result<_, _>>()?)
}

/// The levels that are asked for, or else these.
fn levels<'a>(asked: &'a [Level], otherwise: &'a [Level]) -> &'a [Level] {
    if asked.is_empty() { otherwise } else { asked }
}

/// Counts the accesses that each detector takes.
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
