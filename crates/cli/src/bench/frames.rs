//! `memtint bench frames`: the cost of a page in each page-frame allocator, beside PALLOC's Table I.

use std::fmt::Write as _;

use memtint_benchmarks::frames::{self, Asked, FramesReport, PublishedRow, SizeRow, State, System, SystemRow};
use memtint_units::IndexList;

use super::{failed, tell};
use crate::output::{Ending, Format, done, done_json, table};

/// Arguments of `memtint bench frames`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured, 2 failure.\n\
    Example: memtint bench frames --banks 0-3 --repeat 9")]
pub(super) struct FramesArguments {
    /// Platform whose memory and colors are simulated: a name of the catalogue, or a file.
    #[arg(long, value_name = "PLATFORM", default_value = "xeon-w3530-palloc")]
    platform: String,
    /// Bank classes of the task; default: the first quarter of them.
    #[arg(long, value_name = "CLASSES")]
    banks: Option<IndexList>,
    /// Runs of each allocator in each state.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// The first 64 MiB and sizes up to 8 MiB only: for tests and a first impression.
    #[arg(long)]
    quick: bool,
    /// Seed of the fragmentation and of the order of runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What a table shows of a row.
type Cell = fn(&SizeRow) -> String;

pub(super) fn bench_frames(arguments: &FramesArguments, format: Format) -> Ending {
    let asked = Asked {
        platform: arguments.platform.clone(),
        banks: arguments.banks.clone(),
        repeat: arguments.repeat,
        quick: arguments.quick,
        seed: arguments.seed,
    };
    let report = frames::measure(&asked, tell).map_err(failed("bench frames"))?;
    match format {
        Format::Text => done(&text(&report)),
        Format::Json => done_json(&report),
    }
}

fn text(report: &FramesReport) -> String {
    let mut text = head(report);
    for state in State::EVERY {
        let name = state.name();
        let tables: [(String, bool, Cell); 5] = [
            (format!("{name}: average ns/page, median of repeats"), true, |row| {
                format!("{:.0}", row.average_ns_median)
            }),
            (format!("{name}: 99.9th percentile, ns/page"), false, |row| row.p999_ns.to_string()),
            (format!("{name}: maximum, ns/page"), true, |row| row.max_ns.to_string()),
            (format!("{name}: average steps/page"), false, |row| format!("{:.1}", row.steps_average)),
            (format!("{name}: maximum, steps/page"), false, |row| row.steps_max.to_string()),
        ];
        for (place, (title, beside, cell)) in tables.into_iter().enumerate() {
            let published: fn(&PublishedRow) -> (u32, u32) = match (beside && state == State::Fresh, place) {
                (false, _) => |_| (0, 0),
                (true, 0) => |row| (row.palloc_average_ns, row.buddy_average_ns),
                (true, _) => |row| (row.palloc_max_ns, row.buddy_max_ns),
            };
            let _ = write!(text, "\n{title}\n{}", by_size(report, state, cell, published));
        }
        let _ = write!(text, "\n{name}: at the largest size\n{}", summary(report, state));
    }
    for skipped in &report.skipped {
        let _ = writeln!(text, "\nnot measured: {skipped}");
    }
    text
}

fn head(report: &FramesReport) -> String {
    let unknown = || "unknown".to_owned();
    let machine = &report.machine;
    let guest = if machine.virtual_machine { ", in a virtual machine" } else { "" };
    let others = report.disturbance.map_or_else(unknown, |beside| {
        format!("{:.0} % others, {:.0} % stolen", beside.other_programs_share * 100.0, beside.stolen_share * 100.0)
    });
    format!(
        "machine    {}, {} cores{guest}, kernel {}, load {}, {others}\n\
         memory     {} ({} frames, colored in {:.0} ms), bank classes {} of {}\n\
         runs       {} of each, interleaved, seed {}, {:.0} s\n\
         average    whole sizes, the clock read at their ends\n\
         pages      least of {} runs for each page, {} ns of the clock subtracted\n\
         steps      list heads or bitmap words looked at, frames put on or taken off lists, splits, merges\n\
         fragmented memory filled, {} % of its frames freed in random order\n\
         adverse    the same frames freed, the task's colors before all others: searches come by the others first\n\
         camc       chooses colors by itself, the least used first, and so is not met by the adverse state\n\
         *          published: {}\n\
         simulated  data structures alone, in user space: no locks, no page clearing, no interrupts\n",
        machine.cpu.clone().unwrap_or_else(unknown),
        machine.cores,
        machine.kernel.clone().unwrap_or_else(unknown),
        machine.load_average.map_or_else(unknown, |load| load.to_string()),
        report.platform,
        report.memory_frames,
        report.memory_color_ms,
        report.banks,
        report.bank_classes,
        report.repeat,
        report.seed,
        report.duration_s,
        report.repeat,
        report.clock_ns_subtracted,
        report.freed_percent_of_fragmented_state,
        report.published.source,
    )
}

/// The systems in one state, in their order.
fn systems(report: &FramesReport, state: State) -> impl Iterator<Item = &SystemRow> {
    report.systems.iter().filter(move |row| row.state == state)
}

/// The sizes of one system in one state, ascending.
fn sizes(report: &FramesReport, system: System, state: State) -> impl Iterator<Item = &SizeRow> {
    report.rows.iter().filter(move |row| row.system == system && row.state == state)
}

/// One line for each size, one column for each system, and published columns where they are not zero.
fn by_size(report: &FramesReport, state: State, cell: Cell, beside: impl Fn(&PublishedRow) -> (u32, u32)) -> String {
    let published = &report.published.rows;
    let shown = published.iter().any(|row| beside(row) != (0, 0));
    let mut heads = vec!["MiB"];
    heads.extend(systems(report, state).map(|row| row.system.name()));
    if shown {
        heads.extend(["palloc*", "buddy*"]);
    }
    let line = |size: &SizeRow| {
        let mib = size.size_mib;
        let of = report.rows.iter().filter(|row| row.state == state && row.size_mib == mib);
        let mut cells = vec![mib.to_string()];
        cells.extend(of.map(cell));
        if shown {
            let (palloc, buddy) = published.iter().find(|row| row.size_mib == mib).map_or((0, 0), &beside);
            cells.extend([palloc.to_string(), buddy.to_string()]);
        }
        cells
    };
    let lines: Vec<Vec<String>> = sizes(report, System::Buddy, state).map(line).collect();
    table(&heads, &(0..heads.len()).collect::<Vec<_>>(), &lines)
}

fn summary(report: &FramesReport, state: State) -> String {
    let heads =
        ["system", "ns/page", "spread", "x buddy", "spread", "worst of any run", "free ns", "free steps", "build ms"];
    let line = |figures: &SystemRow| {
        let row = sizes(report, figures.system, state).last()?;
        Some(vec![
            figures.system.name().to_owned(),
            format!("{:.1}", row.average_ns_median),
            format!("{:.1}..{:.1}", row.average_ns_min, row.average_ns_max),
            format!("{:.2}", row.ratio_to_buddy_median),
            format!("{:.2}..{:.2}", row.ratio_to_buddy_min, row.ratio_to_buddy_max),
            row.max_of_any_repeat_ns.to_string(),
            format!("{:.1}", figures.free_ns_median),
            format!("{:.1}", figures.free_steps_average),
            format!("{:.1}", figures.build_ms_median),
        ])
    };
    let lines: Vec<Vec<String>> = systems(report, state).filter_map(line).collect();
    table(&heads, &[1, 2, 3, 4, 5, 6, 7, 8], &lines)
}
