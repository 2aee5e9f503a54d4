//! `memtint draw`: saved reports as one picture.

use std::path::{Path, PathBuf};

use memtint_inspect::{ColorRow, REPORT_SCHEMA, Report};
use memtint_picture::pages::{Pages, Panel, Row};

use crate::output::{Ending, Failure, done, read_document};

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

/// Draws reports below each other: private pages by bank class and, where there are several, by set color.
pub(crate) fn svg(reports: &[Report]) -> String {
    let foot = reports.first().map(|report| vec![report.platform.sentence(), report.platform.caveat.clone()]);
    Pages { panels: reports.iter().flat_map(panels).collect(), foot: foot.unwrap_or_default() }.svg()
}

fn panels(report: &Report) -> impl Iterator<Item = Panel> {
    let row = |row: &ColorRow| Row {
        color: row.index,
        allowed: row.selected,
        in_color: row.tally.in_color_pages,
        out_of_color: row.tally.out_of_color_pages,
    };
    let panel = move |headline, dimension, rows: &[ColorRow]| Panel {
        headline,
        dimension,
        judged: report.selection.is_some(),
        rows: rows.iter().map(row).collect(),
    };
    let sets = (report.set_colors.len() > 1).then(|| {
        // The first panel of a report says everything.
        panel(format!("{}: the same pages by set color", report.names()), "set color", &report.set_colors)
    });
    std::iter::once(panel(report.headline(), "bank class", &report.bank_classes)).chain(sets)
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
