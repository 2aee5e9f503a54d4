//! `memtint run`: a program in colors of its own.

use std::ffi::OsString;
use std::path::PathBuf;

use memtint_units::{ByteSize, IndexList};

use crate::Ending;
use crate::choice::{Choice, ChoiceArguments};
use crate::output::Failure;

/// Arguments of `memtint run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: that of COMMAND; 125 memtint itself failed, 126 COMMAND cannot be executed, \
    127 there is no COMMAND.\nExample: memtint run --platform ./here.toml --banks 0-3 -- sqlite3 my.db")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) choice: ChoiceArguments,
    /// Refuses memory rather than give a page out of color (default, unless the plan says soft).
    #[arg(long, conflicts_with = "soft")]
    pub(crate) strict: bool,
    /// Gives a page out of color when no other is left, and counts it.
    #[arg(long)]
    pub(crate) soft: bool,
    /// Has this much memory in place before the program begins, for instance 64M.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub(crate) prefault: ByteSize,
    /// CPUs the program may run on, for instance 2,3; default: those of the caller, or the plan's.
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<IndexList>,
    /// User to run the program as; memtint keeps the privileges that the program then does not have.
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Writes what was colored, and what was not, to this file as JSON when the program has ended.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// The options, resolved.
#[derive(Debug)]
#[expect(dead_code, reason = "read by the runtime, which is not connected yet")]
struct Request {
    choice: Choice,
    strict: bool,
    /// CPU numbers, ascending; `None`: those of the caller.
    cores: Option<Vec<u32>>,
}

pub(crate) fn main(arguments: &RunArguments) -> Ending {
    let _request = resolve(arguments)?;
    Err(Failure::Sentence("run: the runtime is not connected in this build".to_owned()))
}

fn resolve(arguments: &RunArguments) -> Result<Request, Failure> {
    let choice = arguments.choice.resolve()?;
    if choice.selection.is_none() {
        let sentence = "run: no colors are named: say --banks, --sets or --node, or --plan and --task";
        return Err(Failure::Sentence(sentence.to_owned()));
    }
    let planned_soft = choice.task.as_ref().is_some_and(|task| task.mode() == memtint_plan::Mode::Soft);
    let strict = arguments.strict || !(arguments.soft || planned_soft);
    let planned_cores = choice.task.as_ref().and_then(|task| task.cores().map(<[u32]>::to_vec));
    let cores = match &arguments.cores {
        Some(list) => cpus(list)?,
        None => planned_cores,
    };
    Ok(Request { choice, strict, cores })
}

/// `all` and `!` are among the CPUs that are configured.
fn cpus(list: &IndexList) -> Result<Option<Vec<u32>>, Failure> {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    let limit = u32::try_from(configured).unwrap_or(1).max(1);
    let set = list.resolve(limit).map_err(|error| Failure::Sentence(format!("--cores: {error}")))?;
    if set.is_empty() {
        return Err(Failure::Sentence("--cores: the list is empty, accepted is at least one CPU".to_owned()));
    }
    Ok(Some(set.iter().collect()))
}
