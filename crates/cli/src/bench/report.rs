//! The results of `memtint bench run` for people.

use std::fmt::Write as _;

use memtint_bench::{SLICE, SeriesReport, Side, SideReport, Spread};
use memtint_benchmarks::run::{Context, MadeOf, RunReport, STEADY, SteadyPart, TargetReport};

use crate::output::table;

pub(super) fn text(report: &RunReport) -> String {
    let mut text = head(report);
    text.push('\n');
    text.push_str(&series_table(&report.series));
    text.push_str(&steady_parts(report));
    text.push_str(&context(report));
    text.push_str(&mishaps(report));
    text.push_str(&target_lines(&report.targets));
    text
}

fn head(report: &RunReport) -> String {
    let unknown = || "unknown".to_owned();
    let machine = &report.machine;
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
    line("platform", format!("{}, granule {} KiB", report.platform, report.granule_bytes / 1024));
    line("colors", format!("{} ({:.1} % of all frames)", report.colors, report.share_of_frames * 100.0));
    let quick = if report.quick { ", quick: small sizes, for a first impression only" } else { "" };
    line(
        "runs",
        format!(
            "{} of each kind on each side, interleaved; seed {}; {:.0} s{quick}",
            report.repeat, report.seed, report.duration_s
        ),
    );
    text
}

/// What the words of the table mean.
fn steady_parts(report: &RunReport) -> String {
    let measured = |part: &&SteadyPart| {
        report
            .series
            .iter()
            .any(|series| series.group == "programs" && series.subject == part.program && series.measure == STEADY)
    };
    let parts = report.steady_parts.iter().filter(measured);
    let lines = parts.map(|part| format!("  {}: {}\n", part.program, part.is));
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

fn context(report: &RunReport) -> String {
    let mut text = "\ncontext\n".to_owned();
    let context = &report.context;
    if let Some(found) = &context.memory_as_found {
        let _ = writeln!(
            text,
            "  native touch of {} MiB as found {:.0} ns/page, again right after unmapping {:.0} ns/page",
            found.touched_pages >> 8,
            found.first_touch_ns_per_page,
            found.second_touch_ns_per_page
        );
    }
    if let Some(cost) = &context.scramble_touch_ns_per_page {
        let _ = writeln!(
            text,
            "  before every run memory is touched and freed in random order: {} ns/page natively",
            spread_text(cost.spread)
        );
    }
    if let Some(disturbance) = context.disturbance {
        let _ = writeln!(
            text,
            "  of the processors' time during the bench other programs used {:.0} %, the hypervisor took {:.0} %",
            disturbance.other_programs_share * 100.0,
            disturbance.stolen_share * 100.0
        );
    }
    let chance = report.share_of_frames * 100.0;
    let shares = [&context.native_share_in_color, &context.colored_share_in_color];
    for (side, sampled) in Side::BOTH.into_iter().zip(shares) {
        let percent = sampled.iter().flat_map(|sampled| &sampled.samples).map(|share| share * 100.0);
        if let Some(share) = Spread::of(&percent.collect::<Vec<_>>()) {
            let name = side.name();
            let _ =
                writeln!(text, "  touched pages in color, {name}: {} % (chance: {chance:.1} %)", spread_text(share));
        }
    }
    let Context { pages_out_of_color, pages_refused, .. } = context;
    let _ = writeln!(text, "  colored runs: {pages_out_of_color} pages out of color, {pages_refused} refused");
    text
}

fn mishaps(report: &RunReport) -> String {
    let mut text = String::new();
    if !report.outputs.is_empty() {
        let words = report
            .outputs
            .iter()
            .map(|output| format!("{} {}", output.program, if output.equal { "equal" } else { "DIFFERENT" }));
        let _ = writeln!(text, "\noutputs of colored and native runs: {}", words.collect::<Vec<_>>().join(", "));
    }
    for (head, lines) in [("not measured", &report.skipped), ("what memtint run had to say", &report.context.problems)]
    {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{head}\n  {}", lines.join("\n  "));
        }
    }
    if !report.failures.is_empty() {
        text.push_str("\nfailed runs\n");
        for failure in &report.failures {
            let _ =
                writeln!(text, "  {} {}, {}: {}", failure.group, failure.subject, failure.side.name(), failure.reason);
        }
    }
    text
}

fn target_lines(targets: &[TargetReport]) -> String {
    let mut text = "\ntargets (in brackets: where the figure lies with 95 % confidence)\n".to_owned();
    for target in targets {
        let _ = writeln!(text, "  {}: {}", target.text, target.verdict.name());
        for part in &target.parts {
            let sign = if part.met { "<=" } else { "> " };
            let (value, interval) = part.value.numbers();
            let (value, interval, limit) = (number(value), bracket(interval), number(target.limit.number()));
            let _ = writeln!(text, "    {}: {value} {sign} {limit}{interval}", part.part);
            if let Some(made_of) = &part.made_of {
                let _ = writeln!(text, "      {}", made_of_text(made_of));
            }
        }
    }
    text
}

fn made_of_text(made_of: &MadeOf) -> String {
    let ratio = |value, interval| format!("{}{}", number(value), bracket(interval));
    format!(
        "native beside native {}; program's own CPU {}; not running {:.1} % -> {:.1} % of the time",
        ratio(made_of.control_ratio, made_of.control_ratio_95),
        ratio(made_of.cpu_ratio, made_of.cpu_ratio_95),
        made_of.native_waiting_share * 100.0,
        made_of.colored_waiting_share * 100.0
    )
}

fn bracket(interval: Option<[f64; 2]>) -> String {
    interval.map_or_else(
        || " (too few runs to tell from chance)".to_owned(),
        |[low, high]| format!(" [{}..{}]", number(low), number(high)),
    )
}

fn series_table(series: &[SeriesReport]) -> String {
    let cell = |side: &Option<SideReport>| side.as_ref().map_or_else(String::new, |side| spread_text(side.spread()));
    let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
    let rows = series.iter().map(|s| {
        vec![
            s.group.to_owned(),
            s.subject.clone(),
            s.measure.to_owned(),
            s.unit().map_or(String::new(), |unit| unit.label().to_owned()),
            cell(&s.native),
            cell(&s.colored),
            ratio(s.ratio),
            ratio(s.ratio_of_min),
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
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.1234, 1.234, 12.34, 1234.5].map(number), ["0.123", "1.23", "12.3", "1234"]);
    }
}
