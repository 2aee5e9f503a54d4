//! The figures of page-frame allocators as a report.

use memtint_bench::{Disturbance, Host, Spread};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, PAGES_PER_MIB, Results, Setting, State, System};
use crate::Benchmark;

/// PALLOC's Table I, as published.
const TABLE_1: &str = include_str!("palloc_table_1.json");

/// The report of the benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FramesReport {
    /// Schema version of this report.
    pub schema: u32,
    /// The benchmark.
    #[schemars(extend("const" = "frames"))]
    pub bench: Benchmark,
    /// The machine that measured.
    pub machine: Host,
    /// Other load on the machine during the benchmark; null where the kernel does not report it.
    pub disturbance: Option<Disturbance>,
    /// Platform whose memory and colors are simulated.
    pub platform: String,
    /// Frames of its memory.
    pub memory_frames: u64,
    /// Time in which every frame was colored, in milliseconds.
    pub memory_color_ms: f64,
    /// Bank classes of the platform.
    pub bank_classes: u32,
    /// Bank classes of the task, as a list of ranges.
    pub banks: String,
    /// Percentage of frames that the fragmented state frees.
    pub freed_percent_of_fragmented_state: usize,
    /// Seed of the fragmentation and of the order of runs.
    pub seed: u64,
    /// Runs of each allocator in each state.
    pub repeat: u16,
    /// Whether the benchmark ran with `--quick`.
    pub quick: bool,
    /// Time of the whole benchmark, in seconds.
    pub duration_s: f64,
    /// Cost of reading the clock, in nanoseconds; subtracted from the times of single pages.
    pub clock_ns_subtracted: u64,
    /// One system in one state each.
    pub systems: Vec<SystemRow>,
    /// One size of one system in one state each.
    pub rows: Vec<SizeRow>,
    /// PALLOC's Table I; not measured here.
    pub published: PublishedTable,
    /// Why systems were not measured.
    pub skipped: Vec<String>,
}

/// One system in one state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SystemRow {
    /// The allocator.
    pub system: System,
    /// Initial state of memory.
    pub state: State,
    /// Time to make the allocator, in milliseconds: the median of all runs.
    pub build_ms_median: f64,
    /// Time to free a page, in nanoseconds: the median of all runs.
    pub free_ns_median: f64,
    /// Average steps to free a page.
    pub free_steps_average: f64,
    /// Pages outside the task's colors, over all runs.
    pub pages_out_of_color: u64,
}

/// One size of one system in one state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SizeRow {
    /// The allocator.
    pub system: System,
    /// Initial state of memory.
    pub state: State,
    /// Size of all pages together, in MiB.
    pub size_mib: usize,
    /// Pages that are allocated, one by one.
    pub pages: usize,
    /// Average time of a page, in nanoseconds: the median of all runs.
    pub average_ns_median: f64,
    /// The fastest run.
    pub average_ns_min: f64,
    /// The slowest run.
    pub average_ns_max: f64,
    /// Average time divided by that of the buddy allocator in the same state, run by run: the median.
    pub ratio_to_buddy_median: f64,
    /// The smallest such ratio.
    pub ratio_to_buddy_min: f64,
    /// The largest such ratio.
    pub ratio_to_buddy_max: f64,
    /// Time that at least 999 of 1000 pages do not exceed, in nanoseconds; for each page, the minimum of all runs.
    pub p999_ns: u32,
    /// Time that no page exceeds, in nanoseconds; for each page, the minimum of all runs.
    pub max_ns: u32,
    /// Time that no page exceeds in any run, in nanoseconds.
    pub max_of_any_repeat_ns: u32,
    /// Steps of a page, on average.
    pub steps_average: f64,
    /// Steps that no page exceeds.
    pub steps_max: u32,
}

/// PALLOC's Table I.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedTable {
    /// Source of the table.
    pub source: String,
    /// One size each.
    pub rows: Vec<PublishedRow>,
}

/// A row of PALLOC's Table I.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// Size of all pages together, in MiB.
    pub size_mib: usize,
    /// Average time of a page with PALLOC, in nanoseconds.
    pub palloc_average_ns: u32,
    /// Average time of a page with the buddy allocator, in nanoseconds.
    pub buddy_average_ns: u32,
    /// The longest time of a page with PALLOC, in nanoseconds.
    pub palloc_max_ns: u32,
    /// The longest time of a page with the buddy allocator, in nanoseconds.
    pub buddy_max_ns: u32,
}

pub(super) fn published() -> PublishedTable {
    serde_json::from_str(TABLE_1).expect("the table is part of the program, and a test reads it")
}

/// The smallest value that at least 999 of 1000 values do not exceed.
fn percentile_999(values: &[u32]) -> u32 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * 999).div_ceil(1000) - 1]
}

/// The measurements of all systems, state by state.
pub(super) fn rows(setting: &Setting, systems: &[System], results: &Results) -> (Vec<SystemRow>, Vec<SizeRow>) {
    let figures = |system: System, state: State| {
        let found = results.0.iter().find(|(name, of, _)| *name == system && *of == state);
        &found.expect("every system was measured in every state").2
    };
    let (mut of_systems, mut of_sizes) = (Vec::new(), Vec::new());
    for state in State::EVERY {
        let buddy = figures(System::Buddy, state);
        for &system in systems {
            let own = figures(system, state);
            of_systems.push(system_row(system, state, own));
            let sizes = setting.sizes.iter().enumerate();
            of_sizes.extend(sizes.map(|(size, &pages)| size_row((system, state), (own, buddy), size, pages)));
        }
    }
    (of_systems, of_sizes)
}

fn spread(samples: &[f64]) -> Spread {
    Spread::of(samples).expect("there is a repeat")
}

fn system_row(system: System, state: State, figures: &Figures) -> SystemRow {
    SystemRow {
        system,
        state,
        build_ms_median: spread(&figures.build_ms).median,
        free_ns_median: spread(&figures.free_ns).median,
        free_steps_average: figures.free_steps,
        pages_out_of_color: figures.out_of_color,
    }
}

fn size_row(
    (system, state): (System, State),
    (figures, buddy): (&Figures, &Figures),
    size: usize,
    pages: usize,
) -> SizeRow {
    let (ns, steps) = (&figures.page_ns[..pages], &figures.page_steps[..pages]);
    let ratios: Vec<f64> =
        figures.average_ns[size].iter().zip(&buddy.average_ns[size]).map(|(own, buddy)| own / buddy).collect();
    let (average, ratio) = (spread(&figures.average_ns[size]), spread(&ratios));
    SizeRow {
        system,
        state,
        size_mib: pages / PAGES_PER_MIB,
        pages,
        average_ns_median: average.median,
        average_ns_min: average.min,
        average_ns_max: average.max,
        ratio_to_buddy_median: ratio.median,
        ratio_to_buddy_min: ratio.min,
        ratio_to_buddy_max: ratio.max,
        p999_ns: percentile_999(ns),
        max_ns: ns.iter().copied().max().unwrap_or(0),
        max_of_any_repeat_ns: figures.max_any_ns[size],
        steps_average: steps.iter().map(|&steps| f64::from(steps)).sum::<f64>() / pages as f64,
        steps_max: steps.iter().copied().max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_table_is_whole() {
        let rows = published().rows;
        let sizes: Vec<usize> = rows.iter().map(|row| row.size_mib).collect();
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert!(
            rows.iter().all(|row| row.palloc_average_ns > row.buddy_average_ns && row.palloc_max_ns > row.buddy_max_ns)
        );
        let last = rows.last().unwrap();
        assert_eq!((last.palloc_average_ns, last.palloc_max_ns, last.buddy_max_ns), (225, 572_935, 1024));
    }

    #[test]
    fn percentiles() {
        let values: Vec<u32> = (1..=1000).rev().collect();
        assert_eq!((percentile_999(&values), percentile_999(&[7])), (999, 7));
        assert_eq!(percentile_999(&values[..500]), 1000);
    }
}
