//! The figures of `bench frames` for people and for programs.

use memtint_bench::{Disturbance, Machine, Spread};
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{FREED_PERCENT, Figures, PAGES_PER_MIB, Results, Setting, State};
use crate::output::table;

/// Number of the form of the JSON.
const SCHEMA: u32 = 1;

/// PALLOC's Table I, as published.
const TABLE_1: &str = include_str!("palloc_table_1.json");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    source: String,
    rows: Vec<PublishedRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedRow {
    size_mib: usize,
    palloc_average_ns: u32,
    buddy_average_ns: u32,
    palloc_max_ns: u32,
    buddy_max_ns: u32,
}

fn published() -> Published {
    serde_json::from_str(TABLE_1).expect("the table is part of the program, and a test reads it")
}

/// Everything the bench has to say.
pub(super) struct FramesReport<'a> {
    pub(super) machine: Machine,
    pub(super) platform: String,
    pub(super) banks: String,
    pub(super) bank_classes: u32,
    pub(super) memory_frames: u64,
    pub(super) seed: u64,
    pub(super) repeat: u16,
    pub(super) quick: bool,
    pub(super) duration_s: f64,
    pub(super) disturbance: Option<Disturbance>,
    pub(super) setting: &'a Setting,
    pub(super) systems: &'a [&'static str],
    pub(super) results: &'a mut Results,
    pub(super) skipped: Vec<String>,
}

/// One size of one system in one state.
struct Row {
    average: Spread,
    ratio: Spread,
    p999_ns: u32,
    max_ns: u32,
    max_any_ns: u32,
    steps_average: f64,
    steps_max: u32,
}

/// What a table shows of a row.
type Cell = fn(&Row) -> String;

/// The smallest value that at least 999 of 1000 values do not exceed.
fn percentile_999(values: &[u32]) -> u32 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * 999).div_ceil(1000) - 1]
}

fn row(figures: &Figures, buddy: &Figures, size: usize, pages: usize) -> Row {
    let (ns, steps) = (&figures.page_ns[..pages], &figures.page_steps[..pages]);
    let ratios: Vec<f64> =
        figures.average_ns[size].iter().zip(&buddy.average_ns[size]).map(|(own, buddy)| own / buddy).collect();
    Row {
        average: Spread::of(&figures.average_ns[size]).expect("there is a repeat"),
        ratio: Spread::of(&ratios).expect("there is a repeat"),
        p999_ns: percentile_999(ns),
        max_ns: ns.iter().copied().max().unwrap_or(0),
        max_any_ns: figures.max_any_ns[size],
        steps_average: steps.iter().map(|&steps| f64::from(steps)).sum::<f64>() / pages as f64,
        steps_max: steps.iter().copied().max().unwrap_or(0),
    }
}

impl FramesReport<'_> {
    fn figures(&self, system: &str, state: State) -> &Figures {
        let found = self.results.0.iter().find(|(name, of, _)| *name == system && *of == state);
        &found.expect("every system was measured in every state").2
    }

    fn row(&self, system: &str, state: State, size: usize) -> Row {
        let buddy = self.figures("buddy", state);
        row(self.figures(system, state), buddy, size, self.setting.sizes[size])
    }

    pub(super) fn to_json(&self) -> Value {
        let published = published();
        let mut rows = Vec::new();
        for state in State::EVERY {
            for &system in self.systems {
                rows.extend((0..self.setting.sizes.len()).map(|size| self.json_row(system, state, size)));
            }
        }
        let systems: Vec<Value> = State::EVERY.iter().flat_map(|&state| self.json_systems(state)).collect();
        let table: Vec<Value> = published
            .rows
            .iter()
            .map(|row| {
                json!({
                    "size_mib": row.size_mib,
                    "palloc_average_ns": row.palloc_average_ns, "palloc_max_ns": row.palloc_max_ns,
                    "buddy_average_ns": row.buddy_average_ns, "buddy_max_ns": row.buddy_max_ns,
                })
            })
            .collect();
        json!({
            "schema": SCHEMA,
            "bench": "frames",
            "machine": self.machine,
            "disturbance": self.disturbance,
            "platform": self.platform,
            "memory_frames": self.memory_frames,
            "memory_color_ms": self.setting.color_ms,
            "bank_classes": self.bank_classes,
            "banks": self.banks,
            "freed_percent_of_fragmented_state": FREED_PERCENT,
            "seed": self.seed,
            "repeat": self.repeat,
            "quick": self.quick,
            "duration_s": self.duration_s,
            "clock_ns_subtracted": self.setting.clock_ns,
            "systems": systems,
            "rows": rows,
            "published": { "source": published.source, "rows": table },
            "skipped": self.skipped,
        })
    }

    fn json_systems(&self, state: State) -> Vec<Value> {
        let of = |&system: &&'static str| {
            let figures = self.figures(system, state);
            let median = |samples: &[f64]| Spread::of(samples).map(|spread| spread.median);
            json!({
                "system": system,
                "state": state.name(),
                "build_ms_median": median(&figures.build_ms),
                "free_ns_median": median(&figures.free_ns),
                "free_steps_average": figures.free_steps,
                "pages_out_of_color": figures.out_of_color,
            })
        };
        self.systems.iter().map(of).collect()
    }

    fn json_row(&self, system: &str, state: State, size: usize) -> Value {
        let row = self.row(system, state, size);
        json!({
            "system": system,
            "state": state.name(),
            "size_mib": self.setting.sizes[size] / PAGES_PER_MIB,
            "pages": self.setting.sizes[size],
            "average_ns_median": row.average.median,
            "average_ns_min": row.average.min,
            "average_ns_max": row.average.max,
            "ratio_to_buddy_median": row.ratio.median,
            "ratio_to_buddy_min": row.ratio.min,
            "ratio_to_buddy_max": row.ratio.max,
            "p999_ns": row.p999_ns,
            "max_ns": row.max_ns,
            "max_of_any_repeat_ns": row.max_any_ns,
            "steps_average": row.steps_average,
            "steps_max": row.steps_max,
        })
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = self.head();
        for state in State::EVERY {
            let name = state.name();
            let tables: [(String, bool, Cell); 5] = [
                (format!("{name}: average ns/page, median of repeats"), true, |row| {
                    format!("{:.0}", row.average.median)
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
                let _ = write!(text, "\n{title}\n{}", self.by_size(state, cell, published));
            }
            let _ = write!(text, "\n{name}: at the largest size\n{}", self.summary(state));
        }
        for skipped in &self.skipped {
            let _ = writeln!(text, "\nnot measured: {skipped}");
        }
        text
    }

    fn head(&self) -> String {
        let unknown = || "unknown".to_owned();
        let machine = &self.machine;
        let guest = if machine.virtual_machine { ", in a virtual machine" } else { "" };
        let others = self.disturbance.map_or_else(unknown, |beside| {
            format!("{:.0} % others, {:.0} % stolen", beside.other_programs_share * 100.0, beside.stolen_share * 100.0)
        });
        format!(
            "machine    {}, {} cores{guest}, kernel {}, load {}, {others}\n\
             memory     {} ({} frames, colored in {:.0} ms), bank classes {} of {}\n\
             runs       {} of each, interleaved, seed {}, {:.0} s\n\
             average    whole sizes, the clock read at their ends\n\
             pages      least of {} runs for each page, {} ns of the clock subtracted\n\
             steps      list heads or bitmap words looked at, frames put on or taken off lists, splits, merges\n\
             fragmented memory filled, {FREED_PERCENT} % of its frames freed in random order\n\
             adverse    the same frames freed, the task's colors before all others: searches come by the others first\n\
             camc       chooses colors by itself, the least used first, and so is not met by the adverse state\n\
             *          published: {}\n\
             simulated  data structures alone, in user space: no locks, no page clearing, no interrupts\n",
            machine.cpu.clone().unwrap_or_else(unknown),
            machine.cores,
            machine.kernel.clone().unwrap_or_else(unknown),
            machine.load_average.map_or_else(unknown, |load| load.to_string()),
            self.platform,
            self.memory_frames,
            self.setting.color_ms,
            self.banks,
            self.bank_classes,
            self.repeat,
            self.seed,
            self.duration_s,
            self.repeat,
            self.setting.clock_ns,
            published().source,
        )
    }

    /// One line for each size, one column for each system, and published columns where they are not zero.
    fn by_size(&self, state: State, cell: Cell, beside: impl Fn(&PublishedRow) -> (u32, u32)) -> String {
        let published = published().rows;
        let shown = published.iter().any(|row| beside(row) != (0, 0));
        let mut heads = vec!["MiB"];
        heads.extend(self.systems);
        if shown {
            heads.extend(["palloc*", "buddy*"]);
        }
        let line = |size: usize| {
            let mib = self.setting.sizes[size] / PAGES_PER_MIB;
            let mut cells = vec![mib.to_string()];
            cells.extend(self.systems.iter().map(|system| cell(&self.row(system, state, size))));
            if shown {
                let (palloc, buddy) = published.iter().find(|row| row.size_mib == mib).map_or((0, 0), &beside);
                cells.extend([palloc.to_string(), buddy.to_string()]);
            }
            cells
        };
        let lines: Vec<Vec<String>> = (0..self.setting.sizes.len()).map(line).collect();
        table(&heads, &(0..heads.len()).collect::<Vec<_>>(), &lines)
    }

    fn summary(&self, state: State) -> String {
        let heads = [
            "system",
            "ns/page",
            "spread",
            "x buddy",
            "spread",
            "worst of any run",
            "free ns",
            "free steps",
            "build ms",
        ];
        let last = self.setting.sizes.len() - 1;
        let line = |&system: &&'static str| {
            let (row, figures) = (self.row(system, state, last), self.figures(system, state));
            let median = |samples: &[f64]| Spread::of(samples).map_or(0.0, |spread| spread.median);
            vec![
                system.to_owned(),
                format!("{:.1}", row.average.median),
                format!("{:.1}..{:.1}", row.average.min, row.average.max),
                format!("{:.2}", row.ratio.median),
                format!("{:.2}..{:.2}", row.ratio.min, row.ratio.max),
                row.max_any_ns.to_string(),
                format!("{:.1}", median(&figures.free_ns)),
                format!("{:.1}", figures.free_steps),
                format!("{:.1}", median(&figures.build_ms)),
            ]
        };
        let lines: Vec<Vec<String>> = self.systems.iter().map(line).collect();
        table(&heads, &[1, 2, 3, 4, 5, 6, 7, 8], &lines)
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
