//! Standard output, and why a verb fails.

use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use memtint_input::Input;
use memtint_units::Picoseconds;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

use crate::progress::above_the_bar;

/// Form of what goes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people; may change with every version.
    Text,
    /// For programs; carries a schema number.
    Json,
}

/// A form of JSON that a verb prints.
pub(crate) struct JsonForm {
    /// The verb's words, with a dash between them; more where a verb has several forms.
    pub(crate) name: &'static str,
    /// Gives the schema of what is printed.
    pub(crate) schema: fn() -> Schema,
}

impl JsonForm {
    pub(crate) const fn of<T: JsonSchema>(name: &'static str) -> JsonForm {
        JsonForm {
            name,
            schema: || SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<T>(),
        }
    }
}

/// What every verb ends with.
pub(crate) type Ending = Result<ExitCode, Failure>;

/// Exit status where memtint has looked, and neither a yes nor a no is shown.
pub(crate) const CANNOT_SAY: u8 = 3;

/// Exit status of `run` when memtint itself fails, as of env(1) and timeout(1).
pub(crate) const RUN_FAILED: u8 = 125;

/// Why a verb could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Platform(#[from] memtint_map::PlatformError),
    #[error(transparent)]
    Palette(#[from] memtint_map::PaletteError),
    #[error(transparent)]
    KernelMap(#[from] memtint_map::KernelMapError),
    #[error(transparent)]
    Selection(#[from] memtint_map::SelectionError),
    #[error(transparent)]
    MapFile(#[from] memtint_map::MapFileError),
    #[error(transparent)]
    Dram(#[from] memtint_dram::DramError),
    #[error(transparent)]
    Sim(#[from] memtint_sim::SimError),
    #[error(transparent)]
    Reproduce(#[from] memtint_reproduce::ReproduceError),
    #[error(transparent)]
    System(#[from] memtint_system::SystemError),
    #[error(transparent)]
    Inspect(#[from] memtint_inspect::InspectError),
    #[error(transparent)]
    Run(#[from] memtint_live::RunError),
    #[error(transparent)]
    Probe(#[from] memtint_probe::session::SessionError),
    #[error(transparent)]
    Stopwatch(#[from] memtint_stopwatch::StopwatchError),
    #[error(transparent)]
    Borrow(#[from] memtint_detect::BorrowError),
    #[error(transparent)]
    Registers(#[from] memtint_registers::RegisterError),
    #[error(transparent)]
    Analysis(#[from] memtint_analysis::AnalysisError),
    #[error(transparent)]
    Plan(#[from] memtint_planner::PlanError),
    #[error(transparent)]
    Refresh(#[from] memtint_refresh::RefreshError),
    #[error(transparent)]
    Regulator(#[from] memtint_regulator::RegulatorError),
    #[error(transparent)]
    Service(#[from] memtint_service::ServiceError),
    #[error(transparent)]
    Budgets(#[from] memtint_service::BudgetsError),
    #[error(transparent)]
    Replay(#[from] memtint_replay::ReplayError),
    #[error(transparent)]
    Guarantee(#[from] memtint_bandwidth::GuaranteeError),
    #[error(transparent)]
    Workload(#[from] memtint_workload::WorkloadError),
    /// A file that was named on the command line.
    #[error("{path:?}: cannot be {done}: {cause}")]
    File { path: PathBuf, done: &'static str, cause: io::Error },
    #[error("standard output: {0}")]
    Output(io::Error),
    /// Anything that needs no more than a sentence.
    #[error("{0}")]
    Sentence(String),
    /// What was asked is neither shown nor refuted.
    #[error("{0}")]
    CannotSay(String),
}

impl Failure {
    /// Gives the exit status of verbs that run no program.
    pub(crate) fn status(&self) -> u8 {
        if matches!(self, Failure::CannotSay(_)) { CANNOT_SAY } else { 2 }
    }
}

/// What is printed as JSON in place of a report.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<ErrorReport>("error")];

/// Why there is no report.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorReport {
    /// Version of this form.
    schema: u32,
    /// Which report it is: `error`.
    report: &'static str,
    /// The exit status: 2 for a failure, 3 where memtint cannot say.
    status: u8,
    /// The sentence on standard error.
    message: String,
}

impl ErrorReport {
    pub(crate) fn new(status: u8, message: String) -> ErrorReport {
        ErrorReport { schema: 1, report: "error", status, message }
    }
}

/// How much goes to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Errors and warnings.
    Quiet,
    /// Notes and progress too.
    Normal,
    /// Details too.
    Verbose,
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Sets the verbosity of the whole program, once.
pub(crate) fn set_verbosity(verbosity: Verbosity) {
    VERBOSITY.get_or_init(|| verbosity);
}

fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or(Verbosity::Normal)
}

/// Whether notes and progress are unwanted.
pub(crate) fn is_quiet() -> bool {
    verbosity() == Verbosity::Quiet
}

fn write_line(line: &str) {
    // A reader that has gone away is no failure.
    above_the_bar(|| drop(io::stderr().write_all(format!("memtint: {line}\n").as_bytes())));
}

/// Writes to standard error what restricts or invalidates a result, `--quiet` or not.
pub(crate) fn warn(line: &str) {
    write_line(line);
}

/// Writes to standard error what is worth knowing, unless `--quiet`.
pub(crate) fn note(line: &str) {
    if verbosity() >= Verbosity::Normal {
        write_line(line);
    }
}

/// Writes to standard error how a result came about, with `--verbose`.
pub(crate) fn detail(line: impl FnOnce() -> String) {
    if verbosity() >= Verbosity::Verbose {
        write_line(&line());
    }
}

/// Whether anything was written to standard output.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether anything was written to standard output.
pub(crate) fn has_printed() -> bool {
    PRINTED.load(Ordering::Relaxed)
}

/// Sets for the whole program whether text is colored.
pub(crate) fn set_colors(choice: clap::ColorChoice) {
    match choice {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default().bold();

/// Verdicts at the beginning of a line; longer ones before their beginnings.
const FIRST: [(&str, Style); 4] =
    [("not schedulable", BAD), ("schedulable", GOOD), ("undecided", OPEN), ("unsupported", OPEN)];

/// Verdicts after `verdict: `.
const LABELED: [(&str, Style); 5] =
    [("held", GOOD), ("violated", BAD), ("kept", GOOD), ("broken", BAD), ("refused", BAD)];

/// Colors the verdicts in a report.
fn colored(text: &str) -> String {
    let color = |line: &str| {
        let (before, rest, words) = match line.strip_prefix("verdict: ") {
            Some(rest) => ("verdict: ", rest, &LABELED[..]),
            None => ("", line, &FIRST[..]),
        };
        let after = |word: &str| {
            rest.strip_prefix(word)
                .filter(|after| !after.starts_with(|next: char| next.is_alphanumeric() || next == '-'))
        };
        let found = words.iter().find_map(|(word, style)| Some((word, style, after(word)?)));
        found.map_or_else(|| line.to_owned(), |(word, style, after)| format!("{before}{style}{word}{style:#}{after}"))
    };
    text.split_inclusive('\n').map(color).collect()
}

/// Writes text to standard output, with its verdicts in color on a terminal. A reader that has gone away is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    if anstream::AutoStream::choice(&io::stdout()) == anstream::ColorChoice::Never {
        write_out(text)
    } else {
        write_out(&colored(text))
    }
}

fn write_out(text: &str) -> Result<(), Failure> {
    PRINTED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Writes a value as JSON to standard output, one line behind the last brace.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| Failure::Output(error.into()))?;
    text.push('\n');
    write_out(&text)
}

/// Writes a value as JSON to standard output, on one line.
pub(crate) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(value).map_err(|error| Failure::Output(error.into()))?;
    text.push('\n');
    write_out(&text)
}

/// Prints text and ends well.
pub(crate) fn done(text: &str) -> Result<ExitCode, Failure> {
    print(text).map(|()| ExitCode::SUCCESS)
}

/// Prints JSON and ends well.
pub(crate) fn done_json(value: &impl Serialize) -> Result<ExitCode, Failure> {
    print_json(value).map(|()| ExitCode::SUCCESS)
}

/// Writes a file that was named on the command line.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|cause| Failure::File { path: path.to_owned(), done: "written", cause })
}

/// A file that appears with all of its text or not at all: it is written beside its place, and moved there. Devices and
/// pipes are written in place.
pub(crate) struct WholeFile {
    path: PathBuf,
    beside: Option<PathBuf>,
}

impl WholeFile {
    /// Finds out whether the file can be written, before the work of which it will tell.
    pub(crate) fn new(path: &Path) -> Result<WholeFile, Failure> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let is_other = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        let file = WholeFile { path: path.to_owned(), beside: (!is_other).then(|| path.with_file_name(name)) };
        // A pipe is opened once, or its reader takes the first end for the last.
        if let Some(beside) = &file.beside {
            let tried = std::fs::File::create_new(beside).and_then(|_| std::fs::remove_file(beside));
            tried.map_err(|cause| file.failed(cause))?;
        }
        Ok(file)
    }

    /// Gives its name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it.
    pub(crate) fn finish(self, text: &str) -> Result<(), Failure> {
        let Some(beside) = &self.beside else { return write_file(&self.path, text) };
        let written = std::fs::write(beside, text).and_then(|()| std::fs::rename(beside, &self.path));
        written.map_err(|cause| {
            // It may not be there.
            let _ = std::fs::remove_file(beside);
            self.failed(cause)
        })
    }

    fn failed(&self, cause: io::Error) -> Failure {
        Failure::File { path: self.path.clone(), done: "written", cause }
    }
}

/// Reads a configuration file named on the command line.
pub(crate) fn read_configuration(path: &Path) -> Result<String, Failure> {
    let read = memtint_input::text(path, memtint_input::CONFIGURATION_BYTES_MAX);
    read.map_err(|cause| Failure::File { path: path.to_owned(), done: "read", cause })
}

/// Reads a document named on the command line: a report, a dump, a list of masks.
pub(crate) fn read_document(path: &Path) -> Result<String, Failure> {
    let read = memtint_input::text(path, memtint_input::DOCUMENT_BYTES_MAX);
    read.map_err(|cause| Failure::File { path: path.to_owned(), done: "read", cause })
}

/// Opens a log or trace named on the command line, of any length; its format limits its lines.
pub(crate) fn open_log(path: &Path) -> Result<BufReader<Input>, Failure> {
    let opened = Input::open(path).map_err(|cause| Failure::File { path: path.to_owned(), done: "read", cause })?;
    Ok(BufReader::with_capacity(1 << 18, opened))
}

/// A span as a cell.
pub(crate) fn time(span: Picoseconds) -> String {
    span.to_string()
}

/// Lays rows out in columns as wide as their widest cell, two blanks apart; `right` names the columns of numbers.
pub(crate) fn table(heads: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    let head: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if right.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_a_device_stays_one() {
        let folder = std::env::temp_dir().join(format!("memtint-whole-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = folder.join("report");
        let file = WholeFile::new(&place).ok().unwrap();
        assert!(!place.exists());
        file.finish("all of it").ok().unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "all of it");
        let device = folder.join("device");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        WholeFile::new(&device).ok().unwrap().finish("nothing").ok().unwrap();
        assert!(device.is_symlink());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        assert!(WholeFile::new(&folder.join("nowhere/report")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_verdicts_are_colored() {
        let text = "schedulable: yes\nschedulable-server 1\nverdict: held (1 of 1)\nno row is late\nheld  1\n";
        let expected = text.replace("schedulable:", &format!("{GOOD}schedulable{GOOD:#}:"));
        assert_eq!(colored(text), expected.replace("held (", &format!("{GOOD}held{GOOD:#} (")));
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "7".to_owned()], vec!["long".to_owned(), "1234".to_owned()]];
        assert_eq!(table(&["name", "n"], &[1], &rows), "name     n\na        7\nlong  1234\n");
    }
}
