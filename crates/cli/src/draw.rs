//! `memtint draw`: saved reports as one picture.

use std::path::{Path, PathBuf};

use memtint_inspect::{REPORT_SCHEMA, Report, svg};

use crate::Ending;
use crate::output::{Failure, done, read_document};

/// Arguments of `memtint draw`.
#[derive(Debug, clap::Args)]
pub(crate) struct DrawArguments {
    /// Files with what memtint inspect --format json has printed.
    #[arg(value_name = "REPORT", required = true)]
    reports: Vec<PathBuf>,
}

/// Prints the picture (SVG) to standard output.
pub(crate) fn main(arguments: &DrawArguments) -> Ending {
    let reports: Vec<Report> = arguments.reports.iter().map(|path| load(path)).collect::<Result<_, _>>()?;
    done(&svg(&reports))
}

fn load(path: &Path) -> Result<Report, Failure> {
    let refuse = |found: String| {
        let accepted = format!("a report of memtint inspect --format json with schema {REPORT_SCHEMA}");
        Failure::Sentence(format!("{path:?}: found {found}, accepted is {accepted}"))
    };
    let report: Report = serde_json::from_str(&read_document(path)?).map_err(|error| refuse(error.to_string()))?;
    if report.schema != REPORT_SCHEMA || report.report != "inspect" {
        return Err(refuse(format!("report {:?} with schema {}", report.report, report.schema)));
    }
    Ok(report)
}
