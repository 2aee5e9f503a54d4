//! `memtint probe`: which physical addresses are in one bank, found out by timing.

mod advice;
mod noise;
mod picture;
mod report;
mod selftest;
mod watched;

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memtint_detect::Machine as Detected;
use memtint_map::{Platform, mapfile};
use memtint_probe::{Oracle, Recorder, Replay, Report, Settings, probe};
use memtint_stopwatch::Machine;
use memtint_units::{ByteSize, PhysAddr};

use self::noise::Level;
use self::report::{Asked, Outcome};
use self::watched::{Seen, Watched};
use crate::Ending;
use crate::output::{Failure, Format, WholeFile, print, print_json};

/// Arguments of `memtint probe`.
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArguments {
    /// File for the mapping that is found: a platform file, as palette, run and others take it. It is not written when no
    /// mapping is found.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Id of the platform in that file: letters, digits, dots and dashes.
    #[arg(long, value_name = "NAME", default_value = "probed")]
    id: String,
    /// File for a picture (SVG): how long accesses took, and which address bits conflict.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// File for all questions to the machine and its readings; large.
    #[arg(long, value_name = "LOG")]
    record: Option<PathBuf>,
    /// Takes the readings from such a file in place of this machine. With the seed and confidence of the recording, the report is
    /// the same.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["record", "simulate", "memory"])]
    replay: Option<PathBuf>,
    /// Probes a simulated machine with the mapping of this platform in place of this machine: a name of the catalogue, or a file.
    #[arg(long, value_name = "PLATFORM", conflicts_with = "memory")]
    simulate: Option<String>,
    /// What disturbs readings of simulated machines; with --self-test a list. Default: quiet; with --self-test all but none.
    #[arg(long, value_enum, value_name = "LEVEL", value_delimiter = ',', conflicts_with = "replay")]
    noise: Vec<Level>,
    /// Probability, below 1, with which a mapping that is given has to be right, as far as readings err independently.
    #[arg(long, value_name = "P", default_value = "0.999", value_parser = confidence)]
    confidence: f64,
    /// Seed of all that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Memory to probe, at most; 2M or more. Address bits in which no two addresses of it differ stay unknown. Default: a quarter of
    /// what is free, 4 GiB at most.
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Probes all platforms of the catalogue as simulated machines, and says how often the answer is right, partial, refused or
    /// wrong; ends with status 1 if one is wrong.
    #[arg(long, conflicts_with_all = ["out", "svg", "record", "replay", "simulate", "memory"])]
    self_test: bool,
    /// Takes the platform files of this directory in place of the catalogue.
    #[arg(long, value_name = "DIR", requires = "self_test")]
    platforms: Option<PathBuf>,
    /// Runs of each platform at each level of noise, with seeds from --seed on.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "self_test", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// Threads of the self-test; results are the same with any number. Default: the CPUs of this machine.
    #[arg(long, requires = "self_test", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

fn confidence(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|&p: &f64| (0.5..1.0).contains(&p));
    parsed.ok_or_else(|| "accepted are numbers from 0.5 to 1 (excluded), for instance 0.999".to_owned())
}

pub(crate) fn main(arguments: &ProbeArguments, format: Format) -> Ending {
    if arguments.self_test {
        return selftest::main(arguments, format);
    }
    // All that can be wrong with what was asked for, before the work.
    Platform::from_file(mapfile::to_platform_file(&arguments.id, &[1 << 13], 1 << 20, "--id"), "--id")?;
    let out = arguments.out.as_deref().map(WholeFile::new).transpose()?;
    let svg = arguments.svg.as_deref().map(WholeFile::new).transpose()?;
    let outcome = match (&arguments.replay, &arguments.simulate) {
        (Some(log), _) => of_log(arguments, log)?,
        (None, Some(platform)) => of_simulated(arguments, platform)?,
        (None, None) => of_this_machine(arguments)?,
    };
    if let Some(svg) = svg {
        svg.finish(&picture::svg(&outcome))?;
    }
    let mapping = outcome.mapping();
    match (out, mapping) {
        (Some(out), Some(mapping)) => out.finish(&outcome.platform_file(&arguments.id, mapping)?.to_toml())?,
        (Some(out), None) => eprintln!("memtint: there is no mapping to be written to {}", out.path().display()),
        (None, _) => {}
    }
    match format {
        Format::Json => print_json(&outcome.to_json())?,
        Format::Text => print(&outcome.to_text())?,
    }
    Ok(ExitCode::from(u8::from(mapping.is_none())))
}

fn of_log(arguments: &ProbeArguments, path: &Path) -> Result<Outcome, Failure> {
    let file = File::open(path).map_err(|cause| Failure::File { path: path.to_owned(), done: "read", cause })?;
    let name = path.display().to_string();
    let mut replay = Replay::new(&name, BufReader::new(file))?;
    let (report, seen) = ask(&mut replay, arguments)?;
    Ok(Outcome::new(Asked::Log(name), arguments, report, seen, replay.pool(), Vec::new()))
}

fn of_simulated(arguments: &ProbeArguments, spec: &str) -> Result<Outcome, Failure> {
    let level = match arguments.noise[..] {
        [] => Level::Quiet,
        [level] => level,
        _ => {
            return Err(Failure::Sentence("--noise: several levels found; accepted with --simulate is one".to_owned()));
        }
    };
    let platform = Platform::load(spec)?;
    let memory = platform.regions().iter().map(|region| region.base..region.end()).collect();
    let asked = Asked::Simulated { platform: platform.id().to_owned(), noise: level.name() };
    let machine = noise::machine(platform, level, arguments.seed)?;
    let (report, seen, machine) = ask_and_record(machine, arguments)?;
    Ok(Outcome::new(asked, arguments, report, seen, machine.pool(), memory))
}

fn of_this_machine(arguments: &ProbeArguments) -> Result<Outcome, Failure> {
    eprintln!("memtint: taking memory");
    let machine = Machine::open(arguments.memory)?;
    let (report, seen, machine) = ask_and_record(machine, arguments)?;
    machine.check_places()?;
    let detected = Detected::read();
    let range = |range: &memtint_detect::MemoryRange| PhysAddr(range.start)..PhysAddr(range.end);
    let memory = detected.memory.iter().map(range).collect();
    let asked = Asked::Machine { about: machine.about().clone(), processor: detected.processor };
    Ok(Outcome::new(asked, arguments, report, seen, machine.pool(), memory))
}

/// Probes, and writes down what is asked if that is wanted.
fn ask_and_record<O: Oracle>(mut oracle: O, arguments: &ProbeArguments) -> Result<(Report, Seen, O), Failure> {
    let Some(path) = &arguments.record else {
        let (report, seen) = ask(&mut oracle, arguments)?;
        return Ok((report, seen, oracle));
    };
    let log = File::create(path).map_err(|cause| Failure::File { path: path.clone(), done: "written", cause })?;
    let mut recorder = Recorder::new(oracle, BufWriter::new(log))?;
    let (report, seen) = ask(&mut recorder, arguments)?;
    Ok((report, seen, recorder.finish()?))
}

fn ask(oracle: &mut dyn Oracle, arguments: &ProbeArguments) -> Result<(Report, Seen), Failure> {
    let mut watched = Watched::new(oracle);
    let settings = settings(arguments);
    let terminal = std::io::stderr().is_terminal();
    let mut progress = |doing: &str| {
        let mut err = std::io::stderr().lock();
        // Progress that cannot be shown is no reason to stop.
        let _ = if terminal { write!(err, "\r{doing}\x1b[K") } else { writeln!(err, "memtint: {doing}") };
    };
    let report = probe(&mut watched, &settings, &mut progress)?;
    if terminal {
        eprint!("\r\x1b[K");
    }
    Ok((report, watched.into_seen()))
}

fn settings(arguments: &ProbeArguments) -> Settings {
    Settings { seed: arguments.seed, confidence: arguments.confidence, ..Settings::default() }
}
