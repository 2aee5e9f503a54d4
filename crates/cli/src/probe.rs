//! `memtint probe`: which physical addresses are in one bank, and in one set of the last-level cache, and how far nodes are, found
//! out by timing.

mod baseline;
mod caches;
mod choices;
mod nodes;
mod picture;
mod platform;
mod report;
mod request;
mod selftest;

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use memtint_map::{Platform, mapfile};
use memtint_probe::NoiseLevel;
use memtint_probe::session::{Algorithm, LogPart, PublishedReport, Request, SelfTestReport, SessionReport, Source};
use memtint_units::ByteSize;

use self::choices::{AlgorithmName, Level, Part};
use crate::output::{Ending, Failure, Format, JsonForm, WholeFile, note, open_log, print, print_json};
use crate::progress::Progress;

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[
    JsonForm::of::<SessionReport>("probe"),
    JsonForm::of::<SelfTestReport>("probe-self-test"),
    JsonForm::of::<PublishedReport>("probe-palloc"),
    JsonForm::of::<PublishedReport>("probe-bpm"),
];

/// Arguments of `memtint probe`.
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArguments {
    /// File for the result: a platform file, as palette, run and others take it, with the caches and cores that the machine
    /// names. It is not written when no mapping is found, or, with --only llc, no cache index. Where parts of memory have separate
    /// functions, the largest is written, and the others beside it as FILE-2.toml and so on.
    #[arg(short, long, value_name = "FILE")]
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
    /// Take the readings from such a file in place of this machine, and all options that the report depends on: it is the same.
    /// An option that contradicts the file is an error.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["record", "simulate", "memory"])]
    replay: Option<PathBuf>,
    /// Probe a simulated machine with the mapping of this platform in place of this machine: a name of the catalogue, or a file.
    #[arg(long, value_name = "PLATFORM", conflicts_with = "memory")]
    simulate: Option<String>,
    /// What disturbs readings of simulated machines; with --self-test a list. Default: quiet; with --self-test quiet,
    /// typical, noisy and extreme.
    #[arg(long, value_enum, value_name = "LEVEL", value_delimiter = ',', conflicts_with = "replay")]
    noise: Vec<Level>,
    /// Look for these alone: banks, then the last-level cache's index, then how far nodes are. The first of them decides the exit
    /// status: 0 if it is found, or a part of it, 1 if not. Default: all.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',', conflicts_with = "self_test")]
    only: Vec<Part>,
    /// Algorithm of the search: memtint's own, or for comparison a published one, whose answer is not checked. Default: own.
    #[arg(long, value_enum, conflicts_with = "self_test")]
    algorithm: Option<AlgorithmName>,
    /// Banks of the machine, a power of two, which palloc requires.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4096))]
    banks: Option<u32>,
    /// Accesses (palloc) or pairs of accesses (bpm) for each bit. Default: as published, nine and ten million.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Confidence that a mapping must have, below 1, assuming independent measurement errors. Default: 0.999.
    #[arg(long, value_name = "P", value_parser = confidence)]
    confidence: Option<f64>,
    /// Look for a function of address bits that shifts the time of pairs that do not conflict too: a bank group, rank or channel.
    /// Which of them it is, and what the other functions select, is measured anyway where cores can read memory together. The
    /// report has the result, with the rate of reads behind it, and --out writes it as roles of functions.
    #[arg(long, conflicts_with = "self_test")]
    shift: bool,
    /// Seed of all that is drawn. Default: 1.
    #[arg(long)]
    seed: Option<u64>,
    /// Memory to probe, at most; 2M or more. Address bits in which no two addresses of it differ stay unknown. Default: a quarter of
    /// what is free, 4 GiB at most.
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Probe all platforms of the catalogue as simulated machines, and count how often the answer is right, partial, refused or
    /// wrong; ends with status 1 if one is wrong.
    #[arg(long, conflicts_with_all = ["out", "svg", "record", "replay", "simulate", "memory"])]
    self_test: bool,
    /// Take the platform files of this directory in place of the catalogue.
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
    let parsed = text.parse().ok().filter(|&share: &f64| memtint_probe::session::is_confidence(share));
    parsed.ok_or_else(|| "accepted are numbers from 0.5 to 1 (excluded), for instance 0.999".to_owned())
}

pub(crate) fn main(arguments: &ProbeArguments, format: Format) -> Ending {
    if arguments.self_test {
        return selftest::main(arguments, format);
    }
    // All that can be wrong with what was asked for, before the work.
    Platform::from_file(mapfile::to_platform_file(&arguments.id, &[1 << 13], 1 << 20, "--id"), "--id")?;
    let (source, files) = open(arguments)?;
    if source.request().algorithm != Algorithm::Own {
        let published = source.run_published()?;
        match format {
            Format::Json => print_json(&published.report())?,
            Format::Text => print(&baseline::text(&published))?,
        }
        return Ok(ExitCode::from(u8::from(published.outcome.result.is_err())));
    }
    let progress = Progress::of_steps("probing");
    let outcome = source.run(&mut |doing| progress.step(doing.to_owned()));
    drop(progress);
    let outcome = outcome?;
    if let (Some(svg), Some(banks)) = (files.svg, &outcome.banks) {
        svg.finish(&picture::svg(banks, &outcome.subject))?;
    }
    if let Some(out) = files.out {
        platform::write(&outcome, &arguments.id, out)?;
    }
    match format {
        Format::Json => print_json(&outcome.report())?,
        Format::Text => print(&report::text(&outcome))?,
    }
    Ok(ExitCode::from(u8::from(!outcome.is_found())))
}

/// Opens the source that the arguments name, and the log (if requested), after validating the request.
fn open(arguments: &ProbeArguments) -> Result<(Source, Files), Failure> {
    if let Some(path) = &arguments.replay {
        let name = path.display().to_string();
        let source = Source::of_log(&name, Box::new(open_log(path)?))?;
        request::agree(arguments, source.request(), &name)?;
        request::check(source.request())?;
        let files = Files::new(arguments, source.request())?;
        return Ok((source, files));
    }
    let request = request::of(arguments);
    request::check(&request)?;
    let files = Files::new(arguments, &request)?;
    let mut source = match &arguments.simulate {
        Some(spec) => Source::simulated(request, Platform::load(spec)?, noise(arguments)?)?,
        None => {
            if request.has(LogPart::Dram) || request.has(LogPart::Caches) {
                note("taking memory");
            }
            memtint_stopwatch::this_machine(request, arguments.memory)?
        }
    };
    if let Some(path) = &arguments.record {
        let failed = |cause| Failure::File { path: path.clone(), done: "written", cause };
        source.record(Box::new(BufWriter::new(File::create(path).map_err(failed)?)))?;
    }
    Ok((source, files))
}

fn noise(arguments: &ProbeArguments) -> Result<NoiseLevel, Failure> {
    match arguments.noise[..] {
        [] => Ok(NoiseLevel::Quiet),
        [level] => Ok(level.into()),
        _ => Err(Failure::Sentence("--noise: several levels found; accepted with --simulate is one".to_owned())),
    }
}

/// Files for the result and for a picture, checked to be writable.
struct Files {
    out: Option<WholeFile>,
    svg: Option<WholeFile>,
}

impl Files {
    fn new(arguments: &ProbeArguments, request: &Request) -> Result<Files, Failure> {
        let ProbeArguments { out, svg, .. } = arguments;
        if request.algorithm != Algorithm::Own && (out.is_some() || svg.is_some()) {
            let name = request.algorithm.name();
            return Err(Failure::Sentence(format!(
                "--out, --svg: found with --algorithm {name}, which does not check what it finds; accepted with own"
            )));
        }
        if svg.is_some() && !request.has(LogPart::Dram) {
            let found = LogPart::list(&request.parts);
            return Err(Failure::Sentence(format!("--svg: found with --only {found}; accepted is one with dram")));
        }
        if out.is_some() && request.parts == [LogPart::Nodes] {
            return Err(Failure::Sentence(
                "--out: found with --only nodes; accepted is one with dram or llc".to_owned(),
            ));
        }
        let file = |path: &Option<PathBuf>| path.as_deref().map(WholeFile::new).transpose();
        Ok(Files { out: file(out)?, svg: file(svg)? })
    }
}
