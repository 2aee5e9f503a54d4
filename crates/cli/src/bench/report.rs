//! The results for people and for programs, and whether the targets are met.

use memtint_bench::{Disturbance, Interval, Machine, Results, SLICE, Series, Side, Spread};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::groups::MemoryAsFound;
use super::programs::{PROGRAMS, STEADY, STEADY_CPU};
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
    /// What was measured; empty = not measured.
    parts: Vec<Part>,
    /// Parts that the target asks for.
    wanted: usize,
}

/// One figure of a target.
struct Part {
    name: String,
    value: f64,
    interval: Option<Interval>,
    /// What it is made of; only the steady parts of real programs are asked.
    made_of: Option<MadeOf>,
}

/// Where the ratio of a steady part comes from.
struct MadeOf {
    /// The ratio of two native runs in the same slices of time.
    chance: (f64, Option<Interval>),
    /// Ratio of the processor time of the programs themselves.
    cpu: (f64, Option<Interval>),
    /// Share of its steady part for which the program did not run, native and colored: memtint served it, or others.
    waiting: [f64; 2],
}

impl MadeOf {
    fn of(results: &Results, program: &str) -> Option<MadeOf> {
        let (wall, cpu) = (results.find("programs", program, STEADY)?, results.find("programs", program, STEADY_CPU)?);
        let waiting = |wall: &[f64], cpu: &[f64]| {
            let shares: Vec<f64> = wall.iter().zip(cpu).map(|(wall, cpu)| 1.0 - cpu / wall).collect();
            Some(Spread::of(&shares)?.median)
        };
        Some(MadeOf {
            chance: wall.control_ratio()?,
            cpu: (cpu.ratio()?, cpu.ratio_interval()),
            waiting: [waiting(&wall.native, &cpu.native)?, waiting(&wall.colored, &cpu.colored)?],
        })
    }

    fn to_json(&self) -> Value {
        let at = |interval: Option<Interval>| interval.map(|interval| [interval.low, interval.high]);
        json!({
            "control_ratio": self.chance.0,
            "control_ratio_95": at(self.chance.1),
            "cpu_ratio": self.cpu.0,
            "cpu_ratio_95": at(self.cpu.1),
            "native_waiting_share": self.waiting[0],
            "colored_waiting_share": self.waiting[1],
        })
    }

    fn to_text(&self) -> String {
        let ratio = |(value, interval): (f64, Option<Interval>)| format!("{}{}", number(value), bracket(interval));
        format!(
            "native beside native {}; program's own CPU {}; not running {:.1} % -> {:.1} % of the time",
            ratio(self.chance),
            ratio(self.cpu),
            self.waiting[0] * 100.0,
            self.waiting[1] * 100.0
        )
    }
}

fn bracket(interval: Option<Interval>) -> String {
    interval.map_or_else(
        || " (too few runs to tell from chance)".to_owned(),
        |interval| format!(" [{}..{}]", number(interval.low), number(interval.high)),
    )
}

impl Part {
    fn within(&self, limit: f64) -> bool {
        self.value <= limit
    }

    /// Whether chance could have put the figure on the other side of the limit; so it is when too few runs were made.
    fn uncertain(&self, limit: f64) -> bool {
        self.interval.is_none_or(|interval| interval.low <= limit && limit < interval.high)
    }
}

impl Target {
    /// `None`: parts are missing and the others reach it.
    fn met(&self) -> Option<bool> {
        let reached = self.parts.iter().all(|part| part.within(self.limit));
        (!reached || self.parts.len() == self.wanted).then_some(reached)
    }

    fn verdict(&self) -> &'static str {
        let missed = |part: &&Part| !part.within(self.limit);
        match self.met() {
            Some(true) if self.parts.iter().any(|part| part.uncertain(self.limit)) => "met, by chance perhaps",
            Some(true) => "met",
            Some(false) if self.parts.iter().filter(missed).all(|part| part.uncertain(self.limit)) => {
                "not met, by chance perhaps"
            }
            Some(false) => "not met",
            None if self.parts.is_empty() => "not measured",
            None => "not wholly measured",
        }
    }

    fn to_json(&self) -> Value {
        let part = |part: &Part| {
            json!({
                "part": part.name,
                format!("value_{}", self.unit): part.value,
                format!("value_95_{}", self.unit): part.interval.map(|interval| [interval.low, interval.high]),
                "met": part.within(self.limit),
                "certain": !part.uncertain(self.limit),
                "made_of": part.made_of.as_ref().map(MadeOf::to_json),
            })
        };
        json!({
            "name": self.name,
            "text": self.text,
            format!("limit_{}", self.unit): self.limit,
            "parts_wanted": self.wanted,
            "parts": self.parts.iter().map(part).collect::<Vec<_>>(),
            "met": self.met(),
            "verdict": self.verdict(),
        })
    }
}

fn targets(results: &Results) -> [Target; 3] {
    let ratio = |group: &str, subject: &str, measure: &str| {
        let series = results.find(group, subject, measure)?;
        let (value, interval) = (series.ratio()?, series.ratio_interval());
        let name = if group == "programs" { subject.to_owned() } else { format!("{subject}: {measure}") };
        Some(Part { name, value, interval, made_of: MadeOf::of(results, subject) })
    };
    let colored = |subject: &str, measure: &str| {
        let samples = &results.find("touch", subject, measure)?.colored;
        let (value, interval) = (Spread::of(samples)?.median, Interval::of_median(samples));
        Some(Part { name: format!("{subject}: {measure}"), value, interval, made_of: None })
    };
    let warm = "map and touch, warm";
    [
        Target {
            name: "steady_state",
            text: "steady part of each of five real programs within 2 % of native",
            unit: "ratio",
            limit: 1.02,
            parts: PROGRAMS.iter().filter_map(|(name, _)| ratio("programs", name, STEADY)).collect(),
            wanted: PROGRAMS.len(),
        },
        Target {
            name: "bulk_prefault",
            text: "at most 250 ns a page when prefaulted in bulk (--prefault; MAP_POPULATE from a warm pool)",
            unit: "ns_per_page",
            limit: 250.0,
            parts: [colored("prefault", "map and touch"), colored("populate", warm)].into_iter().flatten().collect(),
            wanted: 2,
        },
        Target {
            name: "sequential_first_touch",
            text: "sequential first touch no slower than native once the pool is warm",
            unit: "ratio",
            limit: 1.0,
            parts: ratio("touch", "sequential", warm).into_iter().collect(),
            wanted: 1,
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
        if lines.is_empty() {
            return lines;
        }
        format!(
            "\nsteady parts: in color, natively, and natively once more (the control) at the same time, in turn, {} ms \
             each;\nwhat memtint's processes do while their program stands still is not in them, but in \"memtint's processes, CPU\"\n{lines}",
            SLICE.as_millis()
        )
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
        let shares = [&self.results.native_share_in_color, &self.results.colored_share_in_color];
        for (side, samples) in Side::BOTH.into_iter().zip(shares) {
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
    let mut text = "\ntargets (in brackets: where the figure lies with 95 % confidence)\n".to_owned();
    for target in targets {
        let _ = writeln!(text, "  {}: {}", target.text, target.verdict());
        for part in &target.parts {
            let sign = if part.within(target.limit) { "<=" } else { "> " };
            let interval = bracket(part.interval);
            let _ =
                writeln!(text, "    {}: {} {sign} {}{interval}", part.name, number(part.value), number(target.limit));
            if let Some(made_of) = &part.made_of {
                let _ = writeln!(text, "      {}", made_of.to_text());
            }
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
        "ratio by round",
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
    use memtint_bench::Unit;

    use super::*;

    /// Five rounds, of which the native side varies by `spread`.
    fn results(ratios: &[f64], spread: f64) -> Results {
        let mut results = Results::default();
        for ((name, _), ratio) in PROGRAMS.iter().zip(ratios) {
            for round in [0.0, 1.0, -1.0, 0.5, -0.5] {
                let native = 100.0 * (1.0 + spread * round);
                results.add("programs", name, (STEADY, Unit::Milliseconds), Side::Native, native);
                results.add("programs", name, (STEADY, Unit::Milliseconds), Side::Colored, 100.0 * ratio);
            }
        }
        results
    }

    #[test]
    fn a_target_is_met_only_when_all_parts_are_measured() {
        let verdict = |ratios: &[f64], spread| targets(&results(ratios, spread))[0].verdict();
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.0], 0.0), "met");
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.0], 0.1), "met, by chance perhaps");
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.03], 0.0), "not met");
        assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.0, 1.03], 0.1), "not met, by chance perhaps");
        assert_eq!(verdict(&[1.0, 1.5], 0.1), "not met");
        assert_eq!(verdict(&[1.0, 1.0], 0.0), "not wholly measured");
        assert_eq!(verdict(&[], 0.0), "not measured");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.1234, 1.234, 12.34, 1234.5].map(number), ["0.123", "1.23", "12.3", "1234"]);
    }
}
