//! `memtint system`: checks of a system file, and its schema.

mod schema;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use memtint_system::{CheckReport, SystemFile, Verb as Reader, left_out, refused_because_of, used};

use crate::output::{Ending, Format, JsonForm, done, done_json};

/// What is printed as JSON.
pub(crate) const FORMS: &[JsonForm] = &[JsonForm::of::<CheckReport>("system-check")];

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

fn check(path: &Path, format: Format) -> Ending {
    let file = SystemFile::load(path)?;
    if format == Format::Json {
        return done_json(&CheckReport::of(path, &file));
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

/// The first line of a report: the fields of its system file that were not considered; nothing when all were.
pub(crate) fn first_line(not_considered: &[String]) -> String {
    match not_considered.is_empty() {
        true => String::new(),
        false => format!("not considered: {}\n", not_considered.join(", ")),
    }
}
