//! `memtint system`: checks of a system file, and its schema. What other verbs need of a system file is here, too.

mod schema;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use memtint_system::{BandwidthEntry, SystemFile, Verb as Reader, decisive, left_out, used};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Ending, Failure, Format, JsonForm, done, done_json};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<CheckReport>("system-check")];

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// Arguments of `memtint system`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A system file describes tasks once, for every verb: the program of each, its timing, cores, colors and \
    bandwidth, what delays its core, and how memory is refreshed.\n\
    Example: memtint system check flight.toml"
)]
pub(crate) struct SystemArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Check a system file, and show what each verb would use of it.
    Check(CheckArguments),
    /// Print the JSON Schema of system files, or of what a verb prints as JSON.
    Schema(schema::SchemaArguments),
}

/// Arguments of `memtint system check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 the file is valid, 2 it is not. Each verb checks further what it needs.")]
struct CheckArguments {
    /// System file.
    #[arg(value_name = "SYSTEM")]
    file: PathBuf,
}

pub(crate) fn main(arguments: &SystemArguments, format: Format) -> Ending {
    match &arguments.verb {
        Verb::Check(check) => self::check(&check.file, format),
        Verb::Schema(schema) => schema::main(schema),
    }
}

/// What `memtint system check` prints.
#[derive(Serialize, JsonSchema)]
struct CheckReport {
    schema: u32,
    report: &'static str,
    /// The system file.
    system: String,
    /// What each verb would make of it.
    verbs: Vec<VerbReport>,
}

/// What a verb would make of a system file.
#[derive(Serialize, JsonSchema)]
struct VerbReport {
    verb: &'static str,
    /// Fields that it uses.
    used: Vec<&'static str>,
    /// Fields that it passes over.
    not_considered: Vec<&'static str>,
    /// Fields without which its answer could be yes where it is no: it refuses the file.
    refused_because_of: Vec<&'static str>,
}

fn check(path: &Path, format: Format) -> Ending {
    let file = SystemFile::load(path)?;
    if format == Format::Json {
        let verbs = Reader::ALL.map(|verb| VerbReport {
            verb: verb.name(),
            used: used(&file, verb),
            not_considered: left_out(&file, verb),
            refused_because_of: refused_because_of(&file, verb),
        });
        let (system, verbs) = (path.display().to_string(), verbs.into());
        return done_json(&CheckReport { schema: SCHEMA, report: "system check", system, verbs });
    }
    let tasks = if file.tasks.len() == 1 { "task" } else { "tasks" };
    let mut text = format!("{}: valid, {} {tasks}\n", path.display(), file.tasks.len());
    for verb in Reader::ALL {
        let _ = writeln!(text, "\n{}", verb.name());
        let lists = [
            ("uses", used(&file, verb)),
            ("does not consider", left_out(&file, verb)),
            ("refuses the file because of", refused_because_of(&file, verb)),
        ];
        for (head, fields) in lists.into_iter().filter(|(_, fields)| !fields.is_empty()) {
            let _ = writeln!(text, "  {head}: {}", fields.join(", "));
        }
    }
    done(&text)
}

/// Bytes of a cache line, of which `[regulator]` counts.
const LINE: u64 = 64;

/// Fields that a verb does not consider and must not ignore.
fn refused_because_of(file: &SystemFile, verb: Reader) -> Vec<&'static str> {
    let mut fields = decisive(file, verb);
    fields.retain(|&field| field != "task.bandwidth" || verb != Reader::Analyze || !regulator_is_within_budgets(file));
    fields
}

/// Whether the core of `[regulator]` gets no more than each task with a bandwidth: then the analysis considers these budgets.
fn regulator_is_within_budgets(file: &SystemFile) -> bool {
    let Some((period, lines)) = file.regulator.as_ref().and_then(|own| own.period.zip(own.lines)) else { return false };
    let kind = file.regulator.as_ref().and_then(|own| own.kind).unwrap_or_default();
    let budgets = file.tasks.iter().filter_map(|task| task.bandwidth);
    let within = |budget: BandwidthEntry| {
        let bytes = lines.get().checked_mul(LINE);
        budget.period == period && budget.kind == kind && bytes.is_some_and(|bytes| bytes <= budget.budget.bytes())
    };
    budgets.into_iter().all(within)
}

/// A system file that a verb reads, and the fields that it does not consider.
pub(crate) struct Reading {
    pub(crate) file: SystemFile,
    pub(crate) not_considered: Vec<String>,
}

impl Reading {
    /// Loads a file for a verb.
    ///
    /// # Errors
    /// A file that is wrong, or that has a field without which the verb could say yes where the answer is no.
    pub(crate) fn new(path: &Path, verb: Reader) -> Result<Reading, Failure> {
        let file = SystemFile::load(path)?;

        let refused = refused_because_of(&file, verb);
        if !refused.is_empty() {
            return Err(Failure::Sentence(format!(
                "{path:?}: {} does not consider {}, without which its answer could be yes where it is no; accepted is a system file \
                 without{}",
                verb.name(),
                refused.join(", "),
                match verb == Reader::Analyze && refused.contains(&"task.bandwidth") {
                    true =>
                        ", or with [regulator] of the same period and kind and no more lines (of 64 bytes) than task.bandwidth",
                    false => "",
                }
            )));
        }
        let not_considered = left_out(&file, verb).into_iter().map(str::to_owned).collect();
        Ok(Reading { file, not_considered })
    }
}

/// The first line of a report: the fields of its system file that were not considered; nothing when all were.
pub(crate) fn first_line(not_considered: &[String]) -> String {
    match not_considered.is_empty() {
        true => String::new(),
        false => format!("not considered: {}\n", not_considered.join(", ")),
    }
}
