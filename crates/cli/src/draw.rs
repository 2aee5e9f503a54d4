//! `memtint draw`: saved reports as one picture.

use std::path::{Path, PathBuf};

use memtint_inspect::{ColorRow, REPORT_SCHEMA, Report};
use memtint_picture::heat::{Cell, Colors, Heat};
use memtint_picture::pages::{Pages, Panel, Part, Row};

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

/// Draws reports below each other: private pages by bank class and, where there are several, by set color, and by both.
pub(crate) fn svg(reports: &[Report]) -> String {
    Pages { title: conclusion(reports), parts: reports.iter().flat_map(parts).collect(), foot: foot(reports) }.svg()
}

/// What to conclude: whether pages are in color, where colors were named.
fn conclusion(reports: &[Report]) -> String {
    let judged = || reports.iter().filter(|report| report.verdict.is_some());
    let pages: u64 = judged().map(|report| report.private.pages).sum();
    let out: Vec<(String, u64)> = judged().map(|report| (report.names(), report.private.out_of_color_pages)).collect();
    let out_of_color: u64 = out.iter().map(|(_, pages)| pages).sum();
    let names = |all: Vec<String>| all.join(", ");
    if out.is_empty() {
        let pages: u64 = reports.iter().map(|report| report.private.pages).sum();
        return format!("{pages} private pages of {}", names(reports.iter().map(Report::names).collect()));
    }
    if out_of_color == 0 {
        return format!(
            "all {pages} private pages of {} are in color",
            names(out.into_iter().map(|own| own.0).collect())
        );
    }
    let each = out.into_iter().filter(|(_, pages)| *pages > 0).map(|(name, pages)| format!("{name}: {pages}"));
    format!("{out_of_color} of {pages} private pages are out of color ({})", names(each.collect()))
}

fn parts(report: &Report) -> impl Iterator<Item = Part> {
    let row = |row: &ColorRow| Row {
        color: row.index,
        allowed: row.selected,
        in_color: row.tally.in_color_pages,
        out_of_color: row.tally.out_of_color_pages,
    };
    let panel = move |headline, dimension, rows: &[ColorRow]| {
        let rows = rows.iter().map(row).collect();
        Part::Bars(Panel { headline, dimension, judged: report.selection.is_some(), rows })
    };
    let several = report.set_colors.len() > 1;
    let sets = several.then(|| {
        // The first panel of a report has the full title.
        panel(format!("{}: the same pages by set color", report.names()), "set color", &report.set_colors)
    });
    let both = (several && !report.color_pairs.is_empty()).then(|| Part::Heat(heat(report)));
    std::iter::once(panel(report.headline(), "bank class", &report.bank_classes)).chain(sets).chain(both)
}

/// Pages by bank class and set color.
fn heat(report: &Report) -> Heat {
    let colors =
        |dimension, rows: &[ColorRow]| Colors { dimension, allowed: rows.iter().map(|row| row.selected).collect() };
    let cells = report
        .color_pairs
        .iter()
        .map(|(&pair, tally)| (pair, Cell { in_color: tally.in_color_pages, out_of_color: tally.out_of_color_pages }));
    Heat {
        headline: format!("{}: the same pages by bank class and set color", report.names()),
        judged: report.selection.is_some(),
        rows: colors("bank class", &report.bank_classes),
        columns: colors("set color", &report.set_colors),
        cells: cells.collect(),
    }
}

/// The platforms, each once, and the omissions.
fn foot(reports: &[Report]) -> Vec<String> {
    let mut foot: Vec<String> = Vec::new();
    let platforms = reports.iter().flat_map(|report| [report.platform.sentence(), report.platform.caveat.clone()]);
    for sentence in platforms {
        if !foot.contains(&sentence) {
            foot.push(sentence);
        }
    }
    let hidden: Vec<String> = reports.iter().flat_map(hidden).collect();
    if !hidden.is_empty() {
        foot.push(format!("not drawn: {}", hidden.join("; ")));
    }
    foot
}

/// What of a report no bar and no cell shows.
fn hidden(report: &Report) -> Vec<String> {
    let (names, private, mut hidden) = (report.names(), &report.private, Vec::new());
    if private.outside_platform_pages > 0 {
        hidden.push(format!(
            "{} pages of {names} in frames that the platform gives no color",
            private.outside_platform_pages
        ));
    }
    if private.swapped_pages > 0 {
        hidden.push(format!("{} pages of {names} that are swapped out", private.swapped_pages));
    }
    let colored: u64 = report.bank_classes.iter().map(|row| row.tally.pages).sum();
    if report.set_colors.len() > 1 && report.color_pairs.is_empty() && colored > 0 {
        hidden.push(format!("pages of {names} by both kinds of color, which memtint inspect --svg draws"));
    }
    hidden
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
