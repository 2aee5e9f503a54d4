//! `memtint inspect`: where the pages of a process are.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use memtint_inspect::{InspectError, Inspector, Report, Verdict, cgroup_pids, svg};

use crate::Ending;
use crate::choice::ChoiceArguments;
use crate::output::{Failure, Format, print, print_json, write_file};

/// Arguments of `memtint inspect`.
///
/// Exit status: 0 every private page is in color, or no colors were named; 1 some are not; 2 failure.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 held (or no colors named), 1 violated, 2 failure.\n\
    Example: memtint inspect --platform ./here.toml --banks 0-3 --svg pages.svg 4711")]
pub(crate) struct InspectArguments {
    /// Process id.
    #[arg(value_name = "PID", required_unless_present = "cgroup", conflicts_with = "cgroup")]
    pid: Option<u32>,
    /// All processes of this cgroup and those below it: a directory, or a name as in /proc/PID/cgroup; version 1 or 2.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Draws the pages by bank class and set color into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    choice: ChoiceArguments,
}

pub(crate) fn main(arguments: &InspectArguments, format: Format) -> Ending {
    let choice = arguments.choice.resolve()?;
    // Without privileges, that is the sentence to be said.
    let inspector = Inspector::new(choice.palette.clone(), choice.selection)?;
    arguments.choice.check_machine(choice.palette.platform())?;
    let report = match (&arguments.cgroup, arguments.pid) {
        (Some(path), _) => inspector
            .inspect_pids(&without_memtint(cgroup_pids(path)?))?
            .ok_or_else(|| InspectError::EmptyCgroup { path: path.display().to_string() })?,
        (None, Some(pid)) => inspector.inspect_pid(pid)?,
        (None, None) => return Err(Failure::Sentence("name a process or a cgroup".to_owned())),
    };
    if let Some(path) = &arguments.svg {
        write_file(path, &svg(std::slice::from_ref(&report)))?;
    }
    match format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&report.to_text())?,
    }
    Ok(status(&report))
}

/// Leaves out the processes of `memtint run` itself, which are in the cgroup that it was started in: they look for frames,
/// and are no part of the task.
fn without_memtint(pids: Vec<u32>) -> Vec<u32> {
    let file = |path: &str| std::fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let here = file("/proc/self/exe");
    let (memtint, others): (Vec<u32>, Vec<u32>) =
        pids.into_iter().partition(|pid| here.is_some() && file(&format!("/proc/{pid}/exe")) == here);
    if !memtint.is_empty() {
        let list: Vec<String> = memtint.iter().map(ToString::to_string).collect();
        eprintln!("memtint: not judged, being memtint itself: process {}", list.join(", "));
    }
    others
}

fn status(report: &Report) -> ExitCode {
    match report.verdict {
        Some(Verdict::Violated) => ExitCode::from(1),
        Some(Verdict::Held) | None => ExitCode::SUCCESS,
    }
}
