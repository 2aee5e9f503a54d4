//! The results for people and for programs, and whether the targets are met.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::groups::MemoryAsFound;
use super::machine::{Disturbance, Machine};
use super::programs::{PROGRAMS, STEADY};
use super::series::{Results, Series, Side, Spread};
use crate::output::table;

/// Number of the form of the JSON.
const SCHEMA: u32 = 1;

/// Everything a bench has to say.
pub(super) struct BenchReport<'a> {
    pub(super) machine: Machine,
    pub(super) platform: String,
    pub(super) granule_bytes: u64,
    /// In words.
    pub(super) colors: String,
    /// Share of all frames that are in these colors.
    pub(super) share_of_frames: f64,
    pub(super) seed: u64,
    pub(super) repeat: usize,
    pub(super) quick: bool,
    pub(super) duration_s: f64,
    pub(super) memory_as_found: Option<MemoryAsFound>,
    pub(super) disturbance: Option<Disturbance>,
    pub(super) results: &'a Results,
}

/// A figure that is to be reached.
struct Target {
    name: &'static str,
    /// What is to be reached, in words.
    text: &'static str,
    unit: &'static str,
    limit: f64,
    /// What was measured, part by part; empty = not measured.
    values: Vec<(String, f64)>,
    /// Parts that the target asks for.
    parts: usize,
    /// What it costs when it is not met.
    reason: &'static str,
}

impl Target {
    /// `None`: parts are missing and the others reach it.
    fn met(&self) -> Option<bool> {
        let reached = self.values.iter().all(|(_, value)| *value <= self.limit);
        (!reached || self.values.len() == self.parts).then_some(reached)
    }

    fn verdict(&self) -> &'static str {
        match self.met() {
            Some(true) => "met",
            Some(false) => "not met",
            None if self.values.is_empty() => "not measured",
            None => "not wholly measured",
        }
    }

    fn to_json(&self) -> Value {
        let parts = self.values.iter().map(
            |(name, value)| json!({ "part": name, format!("value_{}", self.unit): value, "met": *value <= self.limit }),
        );
        json!({
            "name": self.name,
            "text": self.text,
            format!("limit_{}", self.unit): self.limit,
            "parts_wanted": self.parts,
            "parts": parts.collect::<Vec<_>>(),
            "met": self.met(),
            "verdict": self.verdict(),
            "reason": (self.met() == Some(false)).then_some(self.reason),
        })
    }
}

fn targets(results: &Results) -> [Target; 3] {
    let ratio = |name: &str| Some((name.to_owned(), results.find("programs", name, STEADY)?.ratio()?));
    let colored = |subject: &str, measure: &str| {
        let median = Spread::of(&results.find("touch", subject, measure)?.colored)?.median;
        Some((format!("{subject}: {measure}"), median))
    };
    let warm = "map and touch, warm";
    let sequential = || Some((format!("sequential: {warm}"), results.find("touch", "sequential", warm)?.ratio()?));
    [
        Target {
            name: "steady_state",
            text: "steady part of each of five real programs within 2 % of native",
            unit: "ratio",
            limit: 1.02,
            values: PROGRAMS.iter().filter_map(|(name, _)| ratio(name)).collect(),
            parts: PROGRAMS.len(),
            reason: "beyond its frames a program pays for each mapping call, which the helper carries out (two changes of \
                     process), and for memory it gives up, which is moved to the pool and cleared; faults that it is \
                     spared weigh against that; whatever else runs on the machine counts as well",
        },
        Target {
            name: "bulk_prefault",
            text: "at most 250 ns a page when prefaulted in bulk (--prefault; MAP_POPULATE from a warm pool)",
            unit: "ns_per_page",
            limit: 250.0,
            values: [colored("prefault", "map and touch"), colored("populate", warm)].into_iter().flatten().collect(),
            parts: 2,
            reason: "each page is moved from the pool by the kernel, one page-table entry at a time; on a busy machine the \
                     helper waits for a processor",
        },
        Target {
            name: "sequential_first_touch",
            text: "sequential first touch no slower than native once the pool is warm",
            unit: "ratio",
            limit: 1.0,
            values: sequential().into_iter().collect(),
            parts: 1,
            reason: "the helper brings in up to 256 pages for a fault; on a busy machine it waits for a processor",
        },
    ]
}

impl BenchReport<'_> {
    pub(super) fn to_json(&self) -> Value {
        let results = self.results;
        let spread = |samples: &[f64]| {
            Spread::of(samples).map(|s| json!({ "median": s.median, "min": s.min, "max": s.max, "samples": samples }))
        };
        let outputs = results.outputs.iter().map(|(name, equal)| json!({ "program": name, "equal": equal }));
        json!({
            "schema": SCHEMA,
            "bench": "run",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": self.machine,
            "platform": self.platform,
            "granule_bytes": self.granule_bytes,
            "colors": self.colors,
            "share_of_frames": self.share_of_frames,
            "seed": self.seed,
            "repeat": self.repeat,
            "quick": self.quick,
            "duration_s": self.duration_s,
            "context": {
                "memory_as_found": self.memory_as_found,
                "disturbance": self.disturbance,
                "scramble_touch_ns_per_page": spread(&results.scramble_touch_ns_per_page),
                "native_share_in_color": spread(&results.native_share_in_color),
                "colored_share_in_color": spread(&results.colored_share_in_color),
                "pages_out_of_color": results.pages_out_of_color,
                "pages_refused": results.pages_refused,
                "problems": results.problems,
            },
            "series": results.series.iter().map(Series::to_json).collect::<Vec<_>>(),
            "steady_parts": PROGRAMS.map(|(name, what)| json!({ "program": name, "is": what })),
            "outputs": outputs.collect::<Vec<_>>(),
            "failures": results.failures,
            "skipped": results.skipped,
            "targets": targets(results).iter().map(Target::to_json).collect::<Vec<_>>(),
        })
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = self.head();
        text.push('\n');
        text.push_str(&series_table(&self.results.series));
        text.push_str(&self.steady_parts());
        text.push_str(&self.context());
        text.push_str(&self.mishaps());
        text.push_str(&target_lines(&targets(self.results)));
        text
    }

    fn head(&self) -> String {
        let unknown = || "unknown".to_owned();
        let machine = &self.machine;
        let gib = |bytes: Option<u64>| {
            bytes.map_or_else(unknown, |bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)))
        };
        let guest = if machine.virtual_machine { ", in a virtual machine" } else { "" };
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<10}{value}");
        };
        line(
            "machine",
            format!(
                "{}{guest}, {} CPUs, {}",
                machine.cpu.clone().unwrap_or_else(unknown),
                machine.cores,
                gib(machine.memory_bytes)
            ),
        );
        line(
            "kernel",
            format!(
                "{}, transparent huge pages {}, governor {}, load {}",
                machine.kernel.clone().unwrap_or_else(unknown),
                machine.thp.clone().unwrap_or_else(unknown),
                machine.governor.clone().unwrap_or_else(|| "none".to_owned()),
                machine.load_average.map_or_else(unknown, |load| load.to_string()),
            ),
        );
        line("platform", format!("{}, granule {} KiB", self.platform, self.granule_bytes / 1024));
        line("colors", format!("{} ({:.1} % of all frames)", self.colors, self.share_of_frames * 100.0));
        let quick = if self.quick { ", quick: small sizes, for a first impression only" } else { "" };
        line(
            "runs",
            format!(
                "{} of each kind on each side, interleaved; seed {}; {:.0} s{quick}",
                self.repeat, self.seed, self.duration_s
            ),
        );
        text
    }

    /// What the words of the table mean.
    fn steady_parts(&self) -> String {
        let measured = |name: &str| self.results.find("programs", name, STEADY).is_some();
        let lines =
            PROGRAMS.iter().filter(|(name, _)| measured(name)).map(|(name, what)| format!("  {name}: {what}\n"));
        let lines: String = lines.collect();
        if lines.is_empty() { lines } else { format!("\nsteady parts\n{lines}") }
    }

    fn context(&self) -> String {
        let mut text = "\ncontext\n".to_owned();
        if let Some(found) = &self.memory_as_found {
            let _ = writeln!(
                text,
                "  native touch of {} MiB as found {:.0} ns/page, again right after unmapping {:.0} ns/page",
                found.touched_pages >> 8,
                found.first_touch_ns_per_page,
                found.second_touch_ns_per_page
            );
        }
        if let Some(cost) = Spread::of(&self.results.scramble_touch_ns_per_page) {
            let _ = writeln!(
                text,
                "  before every run memory is touched and freed in random order: {} ns/page natively",
                spread_text(cost)
            );
        }
        if let Some(disturbance) = self.disturbance {
            let _ = writeln!(
                text,
                "  of the processors' time during the bench other programs used {:.0} %, the hypervisor took {:.0} %",
                disturbance.other_programs_share * 100.0,
                disturbance.stolen_share * 100.0
            );
        }
        let chance = self.share_of_frames * 100.0;
        for side in Side::BOTH {
            let samples = match side {
                Side::Native => &self.results.native_share_in_color,
                Side::Colored => &self.results.colored_share_in_color,
            };
            if let Some(share) = Spread::of(&samples.iter().map(|share| share * 100.0).collect::<Vec<_>>()) {
                let name = side.name();
                let _ = writeln!(
                    text,
                    "  touched pages in color, {name}: {} % (chance: {chance:.1} %)",
                    spread_text(share)
                );
            }
        }
        let Results { pages_out_of_color, pages_refused, .. } = self.results;
        let _ = writeln!(text, "  colored runs: {pages_out_of_color} pages out of color, {pages_refused} refused");
        text
    }

    fn mishaps(&self) -> String {
        let results = self.results;
        let mut text = String::new();
        if !results.outputs.is_empty() {
            let words = results
                .outputs
                .iter()
                .map(|(name, equal)| format!("{name} {}", if *equal { "equal" } else { "DIFFERENT" }));
            let _ = writeln!(text, "\noutputs of colored and native runs: {}", words.collect::<Vec<_>>().join(", "));
        }
        for (head, lines) in [("not measured", &results.skipped), ("what memtint run had to say", &results.problems)] {
            if !lines.is_empty() {
                let _ = writeln!(text, "\n{head}\n  {}", lines.join("\n  "));
            }
        }
        if !results.failures.is_empty() {
            text.push_str("\nfailed runs\n");
            for failure in &results.failures {
                let _ = writeln!(text, "  {} {}, {}: {}", failure.group, failure.subject, failure.side, failure.reason);
            }
        }
        text
    }
}

fn target_lines(targets: &[Target]) -> String {
    let mut text = "\ntargets\n".to_owned();
    for target in targets {
        let _ = writeln!(text, "  {:<19} {}", target.verdict(), target.text);
        for (name, value) in &target.values {
            let sign = if *value <= target.limit { "<=" } else { "> " };
            let _ = writeln!(text, "  {:<19}   {name}: {} {sign} {}", "", number(*value), number(target.limit));
        }
        if target.met() == Some(false) {
            let _ = writeln!(text, "  {:<19}   because {}", "", target.reason);
        }
    }
    text
}

fn series_table(series: &[Series]) -> String {
    let cell = |samples: &[f64]| Spread::of(samples).map_or_else(String::new, spread_text);
    let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
    let rows = series.iter().map(|s| {
        vec![
            s.group.to_owned(),
            s.subject.clone(),
            s.measure.to_owned(),
            s.unit.label().to_owned(),
            cell(&s.native),
            cell(&s.colored),
            ratio(s.ratio()),
            ratio(s.ratio_of_min()),
        ]
    });
    let heads = [
        "group",
        "program",
        "measure",
        "unit",
        "native: median (min..max)",
        "colored: median (min..max)",
        "ratio",
        "of min",
    ];
    table(&heads, &[4, 5, 6, 7], &rows.collect::<Vec<_>>())
}

fn spread_text(spread: Spread) -> String {
    format!("{} ({}..{})", number(spread.median), number(spread.min), number(spread.max))
}

/// Three digits that count, or all before the point.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::series::Unit;

    fn results(ratios: &[f64]) -> Results {
        let mut results = Results::default();
        for ((name, _), ratio) in PROGRAMS.iter().zip(ratios) {
            results.add("programs", name, (STEADY, Unit::Milliseconds), Side::Native, 100.0);
            results.add("programs", name, (STEADY, Unit::Milliseconds), Side::Colored, 100.0 * ratio);
        }
        results
    }

    #[test]
    fn a_target_is_met_only_when_all_parts_are_measured() {
        let verdict = |ratios: &[f64]| targets(&results(ratios))[0].verdict();
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.0]), "met");
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.03]), "not met");
        assert_eq!(verdict(&[1.0, 1.5]), "not met");
        assert_eq!(verdict(&[1.0, 1.0]), "not wholly measured");
        assert_eq!(verdict(&[]), "not measured");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.1234, 1.234, 12.34, 1234.5].map(number), ["0.123", "1.23", "12.3", "1234"]);
    }
}
