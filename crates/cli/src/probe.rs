//! `memtint probe`: which physical addresses are in one bank, found out by timing.

mod advice;
mod asked;
mod baseline;
mod noise;
mod picture;
mod report;
mod selftest;
mod watched;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use memtint_map::{Platform, mapfile};
use memtint_probe::{Oracle, Report, Settings, probe};
use memtint_units::ByteSize;

use self::baseline::Algorithm;
use self::noise::Level;
use self::report::Outcome;
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
    /// How the mapping is looked for: by memtint's own way, or, to compare, by a published one, which nobody checks the answer of.
    #[arg(long, value_enum, default_value_t = Algorithm::Own, conflicts_with = "self_test")]
    algorithm: Algorithm,
    /// Banks of the machine, a power of two, which palloc has to be told.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4096))]
    banks: Option<u32>,
    /// Accesses (palloc) or pairs of accesses (bpm) for each bit. Default: as published, nine and ten million.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Probability, below 1, with which a mapping that is given has to be right, as far as readings err independently.
    #[arg(long, value_name = "P", default_value = "0.999", value_parser = confidence)]
    confidence: f64,
    /// Looks for a function of address bits that shifts the time of pairs that do not conflict too: a bank group or a channel.
    #[arg(long, conflicts_with = "self_test")]
    shift: bool,
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
    if arguments.algorithm != Algorithm::Own {
        return baseline::main(arguments, format);
    }
    // All that can be wrong with what was asked for, before the work.
    Platform::from_file(mapfile::to_platform_file(&arguments.id, &[1 << 13], 1 << 20, "--id"), "--id")?;
    let out = arguments.out.as_deref().map(WholeFile::new).transpose()?;
    let svg = arguments.svg.as_deref().map(WholeFile::new).transpose()?;
    let outcome = Outcome::new(arguments, asked::ask(arguments, |oracle| own(oracle, arguments))?);
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

fn own(oracle: &mut dyn Oracle, arguments: &ProbeArguments) -> Result<(Report, Seen), Failure> {
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
    Settings { seed: arguments.seed, confidence: arguments.confidence, shift: arguments.shift, ..Settings::default() }
}
