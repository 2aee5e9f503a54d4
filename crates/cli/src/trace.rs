//! `memtint trace`: recorded memory references of programs.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use memtint_recorder::{RecordError, RecordOptions, Recording, record};
use memtint_units::ByteSize;
use memtint_workload::convert::{self, ConversionReport};
use memtint_workload::trace::Sampling;
use memtint_workload::{TraceFile, TraceReport};

use crate::output::{Ending, Failure, Format, JsonForm, RUN_FAILED, done, done_json, note, open_log, table, warn};
use crate::progress::Progress;

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] =
    &[JsonForm::of::<TraceReport>("trace-info"), JsonForm::of::<ConversionReport>("trace-convert")];

/// Arguments of `memtint trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    verb: TraceVerb,
}

#[derive(Debug, clap::Subcommand)]
enum TraceVerb {
    /// Run a program and record its memory references.
    Record(RecordArguments),
    /// Summarize a trace: counts, footprint, strides, reuse.
    Info {
        /// The trace file.
        #[arg(value_name = "TRACE")]
        trace: PathBuf,
    },
    /// Convert a trace from or to another simulator's format.
    Convert(ConvertArguments),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: that of COMMAND; 125 memtint itself failed, 126 COMMAND cannot be recorded, \
    127 there is no COMMAND.\nChildren of COMMAND run, but are not recorded. Needs qemu-x86_64 (Debian: qemu-user).\n\
    Example: memtint trace record -o sort.trace --skip 1G --sample 10M --period 1G -- sort big.txt")]
struct RecordArguments {
    /// The trace file to write.
    #[arg(short, long = "out", alias = "output", value_name = "FILE")]
    output: PathBuf,
    /// Instructions of each thread before recording begins, for instance 500M (k, M and G are powers of 1000).
    #[arg(long, value_name = "N", value_parser = count, default_value = "0")]
    skip: u64,
    /// Instructions of each thread that are recorded after that; default: all.
    #[arg(long, value_name = "N", value_parser = count)]
    sample: Option<u64>,
    /// Instructions from the beginning of one sample to the beginning of the next; default: one sample only.
    #[arg(long, value_name = "N", value_parser = count, requires = "sample")]
    period: Option<u64>,
    /// References after which no more are recorded; the program runs on.
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<u64>,
    /// Record instruction fetches too, a line of 64 bytes at a time.
    #[arg(long)]
    fetches: bool,
    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("direction").required(true).args(["from", "to"]))]
struct ConvertArguments {
    /// Format of the input; the output is a memtint trace.
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Foreign>,
    /// Format of the output; the input is a memtint trace.
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Foreign>,
    /// The input; - is standard input, with --from only.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write.
    #[arg(short, long = "out", alias = "output", value_name = "FILE")]
    output: PathBuf,
    /// Stream (thread) to write, with --to; needed when the trace has several.
    #[arg(long, value_name = "N", conflicts_with = "from")]
    stream: Option<u32>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Foreign {
    /// Lines ADDRESS READ|WRITE CYCLE; a cycle is taken for an instruction.
    Dramsim3,
    /// Lines LD|ST ADDRESS.
    Ramulator2,
    /// Lines of a number of bubbles, an address to load, and perhaps one to store.
    Ramulator2Cpu,
    /// Records of 64 bytes an instruction, uncompressed; only read.
    Champsim,
}

impl Foreign {
    const fn format(self) -> convert::Format {
        match self {
            Foreign::Dramsim3 => convert::Format::Dramsim3,
            Foreign::Ramulator2 => convert::Format::Ramulator2,
            Foreign::Ramulator2Cpu => convert::Format::Ramulator2Cpu,
            Foreign::Champsim => convert::Format::Champsim,
        }
    }
}

/// A count with an optional k, M or G.
fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok().filter(|_| !digits.starts_with('+'));
    let number = number.and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| "accepted is a whole number below 2^64, for instance 500000, 500k, 10M or 1G".to_owned())
}

pub(crate) fn main(arguments: &TraceArguments, format: Format) -> Ending {
    match &arguments.verb {
        TraceVerb::Record(arguments) => Ok(record_verb(arguments)),
        TraceVerb::Info { trace } => info(trace, format),
        TraceVerb::Convert(arguments) => convert_verb(arguments, format),
    }
}

/// Ends as the program does; its standard output is its own, so words go to standard error.
fn record_verb(arguments: &RecordArguments) -> ExitCode {
    let sampled = arguments.skip > 0 || arguments.sample.is_some();
    let sampling = sampled.then(|| Sampling {
        skip_instructions: arguments.skip,
        sample_instructions: arguments.sample.unwrap_or(u64::MAX),
        period_instructions: arguments.period,
    });
    let options = RecordOptions {
        program: arguments.command[0].clone(),
        arguments: arguments.command[1..].to_vec(),
        output: arguments.output.clone(),
        sampling,
        limit: arguments.limit,
        fetches: arguments.fetches,
    };
    let progress = Progress::of_steps("recording");
    let outcome = record(&options, |at| progress.step(progress_text(at)));
    drop(progress);
    match outcome {
        Ok(recording) => {
            recorded(&recording, &arguments.output);
            end_like(recording.status)
        }
        Err(error) => {
            warn(&error.to_string());
            ExitCode::from(match error {
                RecordError::NoProgram { .. } => 127,
                RecordError::NotRecordable { .. } => 126,
                _ => RUN_FAILED,
            })
        }
    }
}

/// Ends as the program did: by the same signal, or with the same status.
fn end_like(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or(i32::from(RUN_FAILED));
    memtint_live::RunStatus { code, signal: status.signal(), core_dumped: false, report: None }.end_like()
}

fn progress_text(progress: &memtint_recorder::Progress) -> String {
    format!(
        "{} M instructions, {} M references, {} in the file, {} threads",
        progress.instructions / 1_000_000,
        progress.references / 1_000_000,
        size(progress.bytes),
        progress.threads
    )
}

/// Prints what is in the file.
fn recorded(recording: &Recording, output: &Path) {
    let ending = &recording.ending;
    let bytes = output.metadata().map_or(0, |data| data.len());
    note(&format!(
        "{} references, {} of {} instructions, {} streams, {} in {}",
        ending.references(),
        ending.instructions(),
        ending.streams.iter().map(|stream| stream.executed_instructions).sum::<u64>(),
        ending.streams.len(),
        size(bytes),
        output.display()
    ));
    ending.notes.iter().for_each(|line| warn(line));
}

/// A size for people: whole KiB or MiB, rounded down.
fn size(bytes: u64) -> String {
    let rounded = match bytes {
        0..1024 => bytes,
        1024..10_485_760 => bytes >> 10 << 10,
        _ => bytes >> 20 << 20,
    };
    ByteSize(rounded).to_string()
}

fn info(path: &Path, format: Format) -> Ending {
    let report = TraceFile::open(path)?.report()?;
    match format {
        Format::Json => done_json(&report),
        Format::Text => done(&info_text(&report)),
    }
}

fn info_text(report: &TraceReport) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = describe(report, &mut text);
    text
}

fn describe(report: &TraceReport, out: &mut String) -> std::fmt::Result {
    let (header, ending, analysis) = (&report.header, &report.ending, &report.analysis);
    let arguments: Vec<String> = header.arguments.iter().map(|argument| quoted(argument)).collect();
    writeln!(out, "program             {} {}", quoted(&header.program), arguments.join(" "))?;
    writeln!(out, "recorder            {}", header.recorder)?;
    if !header.machine.is_empty() {
        writeln!(out, "machine             {}", header.machine)?;
    }
    if let Some(exit) = &ending.exit {
        writeln!(out, "ended with          {exit}")?;
    }
    match header.sampling {
        None => writeln!(out, "sampling            none: everything was recorded")?,
        Some(sampling) => writeln!(out, "sampling            {}", sampling_text(sampling))?,
    }
    let of = |part: u64| percent(part, report.references);
    writeln!(out, "references          {}", report.references)?;
    writeln!(out, "  reads             {}{}", analysis.reads, of(analysis.reads))?;
    writeln!(out, "  writes            {}{}", analysis.writes, of(analysis.writes))?;
    if header.fetches {
        writeln!(out, "  fetches           {}{}", analysis.fetches, of(analysis.fetches))?;
    }
    writeln!(out, "  dependent         {}{}", analysis.dependent, of(analysis.dependent))?;
    writeln!(out, "instructions        {}", report.instructions)?;
    let (bytes, pages) = (size(analysis.footprint_bytes), analysis.footprint_pages);
    writeln!(out, "footprint           {bytes} in lines of 64 bytes, {pages} pages of 4 KiB")?;
    writeln!(out, "file                {}", size(report.file_bytes))?;
    for note in header.notes.iter().chain(&ending.notes) {
        writeln!(out, "note: {note}")?;
    }
    let rows: Vec<Vec<String>> = ending
        .streams
        .iter()
        .map(|stream| {
            [
                u64::from(stream.stream),
                stream.references,
                stream.instructions,
                stream.executed_instructions,
                stream.windows,
            ]
            .iter()
            .map(ToString::to_string)
            .collect()
        })
        .collect();
    writeln!(
        out,
        "\n{}",
        table(&["stream", "references", "instructions", "executed", "windows"], &[0, 1, 2, 3, 4], &rows)
    )?;
    let strides = analysis.strides.iter();
    let rows: Vec<Vec<String>> =
        strides.map(|stride| vec![stride.bytes.to_string(), stride.count.to_string()]).collect();
    writeln!(out, "{}", table(&["stride (bytes)", "at least"], &[0, 1], &rows))?;
    let buckets = analysis.reuse.iter();
    let mut rows: Vec<Vec<String>> = buckets
        .map(|b| vec![format!("{} to {}", b.references_from, b.references_to - 1), b.count.to_string()])
        .collect();
    rows.push(vec!["first use".to_owned(), analysis.reuse_first.to_string()]);
    write!(out, "{}", table(&["reuse of a line after references", "in 1 of 64 lines"], &[1], &rows))
}

/// A word as it is, or in quotes when it would not be seen as one.
fn quoted(word: &str) -> String {
    let plain = !word.is_empty() && word.chars().all(|c| !c.is_whitespace() && !c.is_control());
    if plain { word.to_owned() } else { format!("{word:?}") }
}

fn sampling_text(sampling: Sampling) -> String {
    let skip = sampling.skip_instructions;
    let sample = match sampling.sample_instructions {
        u64::MAX => "all after that".to_owned(),
        sample => format!("then {sample}"),
    };
    let period = sampling.period_instructions.map_or_else(String::new, |period| format!(" of every {period}"));
    format!("instructions of each thread: {skip} skipped, {sample}{period}")
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!(" ({:.1} %)", part as f64 * 100.0 / whole as f64) }
}

fn convert_verb(arguments: &ConvertArguments, format: Format) -> Ending {
    let report = match (arguments.from, arguments.to) {
        (Some(from), _) => {
            let (mut input, origin) = open(&arguments.input)?;
            convert::import(from.format(), input.as_mut(), &origin, &arguments.output)?
        }
        (None, Some(to)) => {
            let file = TraceFile::open(&arguments.input)?;
            let stream = chosen_stream(&file, arguments.stream)?;
            convert::export(to.format(), &file, stream, &arguments.output)?
        }
        (None, None) => return Err(Failure::Sentence("either --from or --to is needed".to_owned())),
    };
    match format {
        Format::Json => done_json(&report),
        Format::Text => {
            converted(&report);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints what was converted, and what the format cannot hold.
fn converted(report: &ConversionReport) {
    note(&format!("{} references, {} instructions", report.references, report.instructions));
    let losses = &report.losses;
    for (count, what) in [
        (losses.fetches, "instruction fetches left out"),
        (losses.lone_stores, "stores without a load beside them written as a load and a store"),
        (losses.dependences, "references no longer wait for the load before them"),
        (losses.sizes, "references of other sizes became lines of 64 bytes"),
        (losses.instructions, "instructions are not in the output: the format has none"),
    ] {
        if count > 0 {
            warn(&format!("{count} {what}"));
        }
    }
}

/// Opens an input, `-` being standard input.
fn open(path: &Path) -> Result<(Box<dyn BufRead>, String), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::new(io::stdin())), "standard input".to_owned()));
    }
    Ok((Box::new(open_log(path)?), path.display().to_string()))
}

fn chosen_stream(file: &TraceFile, asked: Option<u32>) -> Result<u32, Failure> {
    let streams: Vec<u32> = file.streams().iter().map(|summary| summary.stream).collect();
    match (asked, &streams[..]) {
        (None, [only]) => Ok(*only),
        (None, []) => Ok(0),
        (Some(stream), _) if streams.contains(&stream) => Ok(stream),
        (asked, _) => {
            let asked =
                asked.map_or_else(|| "no --stream was given".to_owned(), |stream| format!("--stream is {stream}"));
            Err(Failure::Sentence(format!(
                "{asked}; the trace has the streams {}",
                streams.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_decimal_suffixes() {
        for (text, number) in [("0", 0), ("77", 77), ("5k", 5000), ("10M", 10_000_000), ("3G", 3_000_000_000)] {
            assert_eq!(count(text), Ok(number));
        }
        for text in ["", "k", "-1", "+1", "1.5M", "1 M", "99999999999999999999", "99999999999999G", "5K", "é"] {
            assert!(count(text).unwrap_err().contains("500k"), "{text}");
        }
    }
}
