//! `memtint bench probe`: how many accesses it takes to find a mapping, beside DRAMA and DRAMDig.
//!
//! All three ask the same simulated machine. What the others do is in proportion to how often they read a pair. Their published
//! repetition is for a real machine, so each is given the fewest reads with which it is right here: 1, 4, 16 and so on until it
//! is, or until a run would take more accesses than it may.
//!
//! With `--ablation` memtint's own algorithm is compared with itself, without one of its steps at a time.

mod ablation;

use memtint_bench::{Beside, Machine, Spread, cpu_seconds};
use std::fmt::Write as _;
use std::io;

use memtint_map::Platform;
use memtint_probe::baseline::{DramDig, Drama, Outcome, SetLimit};
use memtint_probe::{Noise, Oracle, OracleError, Pool, Settings, SimulatedMachine, Verdict, judge, probe};
use memtint_units::PhysAddr;
use serde_json::{Value, json};

use crate::Ending;
use crate::output::{Failure, Format, done, done_json, table};

/// Arguments of `memtint bench probe`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 measured (whether or not the target is met: the last line says so), 2 failure.\n\
    Example: memtint bench probe --platforms haswell-e3-1230,zen2-ddr4-1r --noise quiet"
)]
pub(super) struct ProbeArguments {
    /// Platforms of the catalogue or files, separated by commas. Default: five that take two minutes; with --ablation five others.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    platforms: Vec<String>,
    /// Noise levels, separated by commas. Default: none, quiet and typical; with --ablation all others.
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    noise: Vec<Level>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Level {
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

    fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Quiet => "quiet",
            Level::Typical => "typical",
            Level::Noisy => "noisy",
            Level::Bias25 => "bias25",
            Level::Bias40 => "bias40",
            Level::Closed => "closed",
        }
    }
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
    const ALL: [Baseline; 2] = [Baseline::Drama, Baseline::DramDig];

    fn name(self) -> &'static str {
        match self {
            Baseline::Drama => "DRAMA",
            Baseline::DramDig => "DRAMDig",
        }
    }

    /// What its program is told of a machine: the number of banks, and of the address bits.
    fn run(self, machine: &mut dyn Oracle, platform: &Platform, reads: Option<u32>, seed: u64) -> Asked {
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

type Asked = Result<Outcome, OracleError>;

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
            return Err(OracleError::Io { what: "--accesses-max".to_owned(), source: io::ErrorKind::Other.into() });
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
    /// One for each run; `None` for one that was not finished.
    verdicts: Vec<Option<Verdict>>,
}

impl Runs {
    fn add(&mut self, accesses: u64, verdict: Option<Verdict>) {
        self.accesses.push(accesses as f64);
        self.verdicts.push(verdict);
    }

    fn spread(&self) -> Spread {
        Spread::of(&self.accesses).expect("there is a run")
    }

    /// All of them.
    fn right(&self) -> bool {
        self.verdicts.iter().all(|&verdict| verdict == Some(Verdict::Right))
    }

    /// For people: `2 right, 1 wrong`.
    fn verdict(&self) -> String {
        let mut counts: Vec<(&str, u32)> = Vec::new();
        for name in self.verdicts.iter().map(|&verdict| name(verdict)) {
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        let part = |&(name, count): &(&str, u32)| {
            if counts.len() == 1 { name.to_owned() } else { format!("{count} {name}") }
        };
        counts.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    fn to_json(&self) -> Value {
        let spread = self.spread();
        json!({
            "accesses": {"median": spread.median, "min": spread.min, "max": spread.max},
            "verdicts": self.verdicts.iter().map(|&verdict| name(verdict)).collect::<Vec<_>>(),
        })
    }
}

fn name(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Right) => "right",
        Some(Verdict::Partial) => "partial",
        Some(Verdict::Refused) => "none",
        Some(Verdict::Wrong) => "wrong",
        None => "unfinished",
    }
}

/// One platform at one noise level.
struct Row {
    platform: String,
    level: Level,
    own: Runs,
    /// With the number of reads; `None` as published.
    others: [(Option<u32>, Runs); 2],
}

impl Row {
    fn measure(arguments: &ProbeArguments, platform: &Platform, level: Level) -> Result<Row, Failure> {
        let mut own = Runs::default();
        for seed in seeds(arguments) {
            let mut machine = machine(platform, level, seed)?;
            let report = probe(&mut machine, &Settings { seed, ..Settings::default() }, &mut |_| {}).map_err(failed)?;
            own.add(report.effort.accesses, Some(judge(&machine, &report.answer)));
        }
        let other = |baseline| fewest_reads(arguments, platform, level, baseline);
        let others = [other(Baseline::ALL[0])?, other(Baseline::ALL[1])?];
        Ok(Row { platform: platform.id().to_owned(), level, own, others })
    }

    /// Own accesses by those of another, where both are right.
    fn ratio(&self, other: &Runs) -> Option<f64> {
        (self.own.right() && other.right()).then(|| self.own.spread().median / other.spread().median)
    }

    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.others.iter().filter_map(|(_, runs)| self.ratio(runs))
    }

    fn to_json(&self) -> Value {
        let mut row = json!({"platform": self.platform, "noise": self.level.name(), "memtint": self.own.to_json()});
        for (baseline, (reads, runs)) in Baseline::ALL.iter().zip(&self.others) {
            let mut other = runs.to_json();
            other["reads"] = json!(reads);
            other["memtint_by_this"] = json!(self.ratio(runs));
            row[baseline.name()] = other;
        }
        row
    }

    fn cells(&self) -> Vec<String> {
        let accesses = |runs: &Runs| {
            let Spread { median, min, max } = runs.spread();
            if min < max { format!("{median:.0} ({min:.0} to {max:.0})") } else { format!("{median:.0}") }
        };
        let mut cells = vec![self.platform.clone(), self.level.name().to_owned()];
        cells.extend([accesses(&self.own), self.own.verdict()]);
        for (reads, runs) in &self.others {
            cells.push(reads.map_or("published".to_owned(), |reads| reads.to_string()));
            cells.extend([accesses(runs), runs.verdict()]);
            cells.push(self.ratio(runs).map_or("-".to_owned(), |ratio| format!("{ratio:.5}")));
        }
        cells
    }
}

fn seeds(arguments: &ProbeArguments) -> impl Iterator<Item = u64> + use<> {
    let first = arguments.seed;
    (0..u64::from(arguments.repeat)).map(move |run| first.wrapping_add(run))
}

fn failed(error: OracleError) -> Failure {
    Failure::Sentence(format!("bench probe: {error}"))
}

fn machine(platform: &Platform, level: Level, seed: u64) -> Result<SimulatedMachine, Failure> {
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64)
        .map_err(|error| Failure::Sentence(format!("bench probe: {}: {error}", platform.id())))?;
    SimulatedMachine::new(platform.clone(), pool, level.noise(), seed).map_err(failed)
}

/// Runs another detector with ever more reads until it is right, and with the other seeds then; one run where it never is.
fn fewest_reads(
    arguments: &ProbeArguments,
    platform: &Platform,
    level: Level,
    baseline: Baseline,
) -> Result<(Option<u32>, Runs), Failure> {
    let run = |reads, seed| -> Result<(u64, Option<Verdict>), Failure> {
        let machine = machine(platform, level, seed)?;
        let mut limited = Limited { machine, left: arguments.accesses_max, exhausted: false };
        let outcome = match baseline.run(&mut limited, platform, reads, seed) {
            Ok(outcome) => outcome,
            Err(_) if limited.exhausted => return Ok((arguments.accesses_max - limited.left, None)),
            Err(error) => return Err(failed(error)),
        };
        let verdict = match &outcome.result {
            Ok(found) if found.is_of(&limited.machine) => Verdict::Right,
            Ok(_) => Verdict::Wrong,
            Err(_) => Verdict::Refused,
        };
        Ok((outcome.accesses, Some(verdict)))
    };
    let mut seeds = seeds(arguments);
    let first = seeds.next().expect("there is a run");
    let mut reads = if arguments.published { None } else { Some(1) };
    let mut runs = Runs::default();
    loop {
        let (accesses, verdict) = run(reads, first)?;
        let more = reads.and_then(|reads| reads.checked_mul(4));
        if verdict == Some(Verdict::Right) {
            runs.add(accesses, verdict);
            break;
        }
        // Four times as many reads take about four times as many accesses, unless it stops before the reads matter.
        let hopeless = verdict.is_none() || accesses.saturating_mul(4) > arguments.accesses_max;
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

/// The platforms and levels that are asked for, or else these.
fn asked(
    arguments: &ProbeArguments,
    platforms: &[&str],
    levels: &[Level],
) -> Result<(Vec<Platform>, Vec<Level>), Failure> {
    let names: Vec<&str> = match &arguments.platforms[..] {
        [] => platforms.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let platforms = names.into_iter().map(Platform::load).collect::<Result<_, _>>()?;
    Ok((platforms, if arguments.noise.is_empty() { levels.to_vec() } else { arguments.noise.clone() }))
}

pub(super) fn bench_probe(arguments: &ProbeArguments, format: Format) -> Ending {
    if arguments.ablation {
        return ablation::main(arguments, format);
    }
    let (machine, beside) = (Machine::read(), Beside::since_now());
    let (platforms, levels) = asked(arguments, &PLATFORMS, &Level::COMPARED)?;
    let began = cpu_seconds();
    let mut rows = Vec::new();
    for platform in &platforms {
        for &level in &levels {
            eprintln!("memtint: bench: probe {}, noise {}", platform.id(), level.name());
            rows.push(Row::measure(arguments, platform, level)?);
        }
    }
    let own = std::time::Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let ratios: Vec<f64> = rows.iter().flat_map(Row::ratios).collect();
    let within = ratios.iter().filter(|&&ratio| ratio <= TARGET).count();
    let wrong = rows.iter().filter(|row| row.own.verdicts.contains(&Some(Verdict::Wrong))).count();
    match format {
        Format::Json => done_json(&json!({
            "schema": 1,
            "bench": "probe",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine,
            "disturbance": disturbance,
            "seed": arguments.seed,
            "repeat": arguments.repeat,
            "accesses_max": arguments.accesses_max,
            "published_reads": arguments.published,
            "cpu_s": own.as_secs_f64(),
            "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "target_ratio_max": TARGET,
            "ratios": ratios.len(),
            "ratios_within_target": within,
            "wrong_of_memtint": wrong,
            "target_met": within == ratios.len() && wrong == 0,
        })),
        Format::Text => {
            let mut text = String::new();
            let cpu = machine.cpu.as_deref().unwrap_or("unknown CPU");
            let _ = writeln!(
                text,
                "timed accesses of simulated machines (median, least and most of {} runs, seeds from {}; {:.0} s on {cpu})\n\
                 DRAMA and DRAMDig are told the number of banks, DRAMDig those of row and column bits too; reads: {}\n",
                arguments.repeat,
                arguments.seed,
                own.as_secs_f64(),
                if arguments.published {
                    "as published"
                } else {
                    "the fewest of 1, 4, 16, ... with which the first run is right, else the last that were tried"
                },
            );
            let heads =
                ["platform", "noise", "memtint", "", "reads", "DRAMA", "", "ratio", "reads", "DRAMDig", "", "ratio"];
            let cells = rows.iter().map(Row::cells).collect::<Vec<_>>();
            text.push_str(&table(&heads, &[2, 4, 5, 7, 8, 9, 11], &cells));
            let _ = writeln!(
                text,
                "\nmemtint takes at most a quarter of their accesses in {within} of {} cases in which both are always right; it is wrong on {wrong} of {} rows",
                ratios.len(),
                rows.len()
            );
            done(&text)
        }
    }
}
