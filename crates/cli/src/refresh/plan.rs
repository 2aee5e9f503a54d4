//! `memtint refresh plan`: the best plan for a file that names tasks and memory.

use std::path::PathBuf;
use std::process::ExitCode;

use memtint_sched::cyclic::{Answer, Limits, color};
use memtint_taskset::{TaskFile, exact_time};
use serde_json::json;

use crate::Ending;
use crate::output::{Failure, Format, print, print_json, read_file, write_file};

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// Arguments of `memtint refresh plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 there is a plan, 1 there is none, 2 failure, or the search cannot say.")]
pub(crate) struct PlanArguments {
    /// File with the tasks and [memory].
    #[arg(value_name = "TASKSET")]
    tasks: PathBuf,
    /// How memory is to be refreshed.
    #[arg(long, value_enum)]
    scheme: Scheme,
    /// File for the task set with the plan in it, which `memtint analyze` takes.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// How memory is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scheme {
    /// A cyclic executive around the bursts of colors.
    ColoredRefresh,
}

pub(super) fn main(arguments: &PlanArguments, format: Format) -> Ending {
    let text = read_file(&arguments.tasks)?;
    let file = TaskFile::parse(&format!("{:?}", arguments.tasks), &text);
    let mut file = file.map_err(|error| Failure::Sentence(error.to_string()))?;
    let sentence = |error: memtint_taskset::TaskFileError| Failure::Sentence(error.to_string());
    let Scheme::ColoredRefresh = arguments.scheme;
    let mut open = false;
    for frames in file.frame_choices().map_err(sentence)? {
        match color(&file.problem(frames).map_err(sentence)?, Limits::default()) {
            Answer::Schedulable(solution) => {
                file.cyclic.frame = Some(frames.size);
                file.cyclic.color_frame = Some(frames.color);
                file.cyclic.copies_max = Some(solution.executive.copies());
                if let Some(path) = &arguments.out {
                    write_file(path, &file.to_string())?;
                }
                let (size, stretch) = (exact_time(frames.size), exact_time(frames.color));
                let copies = solution.executive.copies();
                match format {
                    Format::Json => print_json(&json!({
                        "schema": SCHEMA,
                        "report": "refresh plan",
                        "frame_ps": frames.size.0,
                        "color_frame_ps": frames.color.0,
                        "copies": copies,
                    }))?,
                    Format::Text => print(&format!("frames of {size}, colored by {stretch}; copy tasks: {copies}\n"))?,
                }
                return Ok(ExitCode::SUCCESS);
            }
            Answer::Unsupported(_) => open = true,
            Answer::Unschedulable(_) => {}
        }
    }
    match open {
        true => Err(Failure::Sentence("the search ended at its limit".to_owned())),
        false => Ok(ExitCode::from(1)),
    }
}
