//! `memtint bench probe --ablation`: what each step of the search is worth.
//!
//! The whole algorithm and, one step at a time, the rest of it ask the same simulated machines with the same seeds. A step earns its
//! place when without it more answers are wrong or fewer are right, or when the same answers take more accesses.

use memtint_bench::{Beside, Machine, Spread, cpu_seconds};
use std::fmt::Write as _;
use std::time::Duration;

use memtint_map::Platform;
use memtint_probe::{Settings, Step, Verdict, judge, probe};
use serde_json::{Value, json};

use super::{Level, ProbeArguments, asked, failed, machine, seeds};
use crate::Ending;
use crate::output::{Failure, Format, done, done_json, table};

/// Pairs of bits, functions of seven and of eleven, of all row bits above a hole, and three channels in turn.
const PLATFORMS: [&str; 5] =
    ["haswell-e3-1230", "ramses-ivyhaswell-2ch1d1r", "zen2-ddr4-1r", "zen3-ddr4-2r-full", "skx-open-3ch1r"];
const LEVELS: [Level; 6] = [Level::Quiet, Level::Typical, Level::Noisy, Level::Bias25, Level::Bias40, Level::Closed];

/// Answers of one variant of the algorithm on all platforms at one level, and their accesses, in one order for all variants.
struct Row {
    without: Option<Step>,
    level: Level,
    verdicts: Vec<Verdict>,
    accesses: Vec<u64>,
}

impl Row {
    fn measure(
        arguments: &ProbeArguments,
        platforms: &[Platform],
        level: Level,
        without: Option<Step>,
    ) -> Result<Row, Failure> {
        let mut row = Row { without, level, verdicts: Vec::new(), accesses: Vec::new() };
        for platform in platforms {
            for seed in seeds(arguments) {
                let mut machine = machine(platform, level, seed)?;
                let settings = Settings { seed, without, ..Settings::default() };
                let report = probe(&mut machine, &settings, &mut |_| {}).map_err(failed)?;
                row.verdicts.push(judge(&machine, &report.answer));
                row.accesses.push(report.effort.accesses);
            }
        }
        Ok(row)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.verdicts.iter().filter(|&&one| one == verdict).count()
    }

    /// Accesses by those of the whole algorithm, in the probes in which both came to the same verdict; `None` if there is none.
    fn ratio(&self, whole: &Row) -> Option<Spread> {
        let same = (0..self.verdicts.len()).filter(|&at| self.verdicts[at] == whole.verdicts[at]);
        Spread::of(&same.map(|at| self.accesses[at] as f64 / whole.accesses[at] as f64).collect::<Vec<_>>())
    }

    fn to_json(&self, whole: &Row) -> Value {
        let ratio = self.ratio(whole);
        json!({
            "without": self.without.map(name),
            "noise": self.level.name(),
            "right": self.count(Verdict::Right),
            "partial": self.count(Verdict::Partial),
            "refused": self.count(Verdict::Refused),
            "wrong": self.count(Verdict::Wrong),
            "accesses": self.accesses,
            "by_whole": ratio.map(|Spread { median, min, max }| json!({"median": median, "min": min, "max": max})),
        })
    }

    fn cells(&self, whole: &Row) -> Vec<String> {
        let verdicts = [Verdict::Right, Verdict::Partial, Verdict::Refused, Verdict::Wrong];
        let mut cells = vec![self.level.name().to_owned(), self.without.map_or("nothing", name).to_owned()];
        cells.extend(verdicts.map(|verdict| self.count(verdict).to_string()));
        cells.push(self.accesses.iter().sum::<u64>().to_string());
        cells.push(match (self.without, self.ratio(whole)) {
            (None, _) | (_, None) => "-".to_owned(),
            (_, Some(Spread { median, min, max })) => format!("{median:.2} ({min:.2} to {max:.2})"),
        });
        cells
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Translations => "translations",
        Step::Baseline => "baseline",
        Step::Doubt => "doubt",
        Step::Contrary => "contrary",
        Step::Patience => "patience",
        Step::Retry => "retry",
        Step::Splits => "splits",
        Step::Sanity => "sanity",
        Step::Predictions => "predictions",
        Step::Everywhere => "everywhere",
        Step::Blocks => "blocks",
        Step::Turns => "turns",
    }
}

pub(super) fn main(arguments: &ProbeArguments, format: Format) -> Ending {
    let (machine, beside) = (Machine::read(), Beside::since_now());
    let (platforms, levels) = asked(arguments, &PLATFORMS, &LEVELS)?;
    let began = cpu_seconds();
    // For each level the whole algorithm first.
    let mut groups: Vec<Vec<Row>> = Vec::new();
    for &level in &levels {
        let variants = std::iter::once(None).chain(Step::ALL.map(Some));
        let measured = variants.map(|without| {
            eprintln!("memtint: bench: noise {}, without {}", level.name(), without.map_or("nothing", name));
            Row::measure(arguments, &platforms, level, without)
        });
        groups.push(measured.collect::<Result<_, _>>()?);
    }
    let own = Duration::from_secs_f64((cpu_seconds() - began).max(0.0));
    let disturbance = beside.until_now(own);
    let rows = || groups.iter().flat_map(|group| group.iter().map(|row| (row, &group[0])));
    match format {
        Format::Json => done_json(&json!({
            "schema": 1,
            "bench": "probe-ablation",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine,
            "disturbance": disturbance,
            "platforms": platforms.iter().map(Platform::id).collect::<Vec<_>>(),
            "seed": arguments.seed,
            "repeat": arguments.repeat,
            "cpu_s": own.as_secs_f64(),
            "rows": rows().map(|(row, whole)| row.to_json(whole)).collect::<Vec<_>>(),
        })),
        Format::Text => {
            let mut text = String::new();
            let ids = platforms.iter().map(Platform::id).collect::<Vec<_>>().join(", ");
            let cpu = machine.cpu.as_deref().unwrap_or("unknown CPU");
            let _ = writeln!(
                text,
                "answers without one step of the search, {} runs on each of {ids}\n\
                 (simulated machines, seeds from {}; {:.0} s on {cpu})\n",
                arguments.repeat,
                arguments.seed,
                own.as_secs_f64(),
            );
            let heads = ["noise", "without", "right", "partial", "refused", "wrong", "accesses", "by the whole"];
            let cells = rows().map(|(row, whole)| row.cells(whole)).collect::<Vec<_>>();
            text.push_str(&table(&heads, &[2, 3, 4, 5, 6], &cells));
            text.push_str(
                "\naccesses: of all runs; by the whole: accesses by those of the whole algorithm, median, least and most of \
                 the runs with the same verdict\n",
            );
            done(&text)
        }
    }
}
