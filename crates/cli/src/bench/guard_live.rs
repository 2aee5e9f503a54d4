//! `memtint bench guard --live`: the regulator on this machine, beside a loaded machine and a storm of cgroups.

use std::fmt::Write as _;

use memtint_benchmarks::guard_live::{
    self, Asked, GuardLiveReport, Leaving, LiveRow, Reclaiming, Side, TargetReport, Thawed,
};

use super::guard::GuardArguments;
use super::{failed, tell};
use crate::guard::programs;
use crate::output::{Ending, Format, done, done_json, table};

pub(super) fn bench_live(arguments: &GuardArguments, format: Format) -> Ending {
    let quick = arguments.quick;
    let seconds = arguments.seconds.unwrap_or(if quick { 1 } else { 10 });
    let asked = Asked { seconds, quick, programs: programs()? };
    let report = guard_live::measure(&asked, tell).map_err(failed("bench guard"))?;
    match format {
        Format::Json => done_json(&report),
        Format::Text => done(&text(&report)),
    }
}

fn text(report: &GuardLiveReport) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} on CPU {} ({}), {} s each, beside {} busy threads and a storm of cgroups on other CPUs\n",
        report.event,
        report.cpu,
        report.machine.cpu.as_deref().unwrap_or("unknown CPU"),
        report.seconds,
        report.busy_threads_on_other_cpus
    );
    if let Some(reason) = &report.not_in_kernel {
        let _ = writeln!(text, "left out: {reason}\n");
    }
    let heads = [
        "side",
        "period us",
        "budget",
        "events/s",
        "allowed/s",
        "throttled",
        "beyond",
        "most",
        "regulator %",
        "programs %",
        "occupied %",
        "usable %",
        "freeze ms",
    ];
    text.push_str(&table(
        &heads,
        &(1..heads.len()).collect::<Vec<_>>(),
        &report.rows.iter().map(cells).collect::<Vec<_>>(),
    ));
    let _ = writeln!(
        text,
        "\n{} throttled periods of frozen groups, {} beyond their bound",
        report.throttled_periods, report.periods_beyond
    );
    for Reclaiming { backend, period_us, reclaims, woken } in &report.reclaiming {
        let _ = writeln!(
            text,
            "{}, {period_us} us: {reclaims} reclaims, the thread woke up at {woken} of them",
            backend.name()
        );
    }
    let Thawed { ms: thawed, kills } = report.thawed_after_kill_ms;
    let _ = writeln!(
        text,
        "after SIGKILL everything runs within {:.2} ms (median of {kills}; {:.2} to {:.2})",
        thawed.median, thawed.min, thawed.max
    );
    for Leaving { side, median_ms, min_ms, max_ms } in &report.left_reported_after {
        let _ = writeln!(
            text,
            "{}: a process that leaves its group is reported within {median_ms:.2} ms (median of {kills}; {min_ms:.2} to {max_ms:.2})",
            name(*side)
        );
    }
    for TargetReport { target, met } in &report.targets {
        let _ = writeln!(text, "target {}: {}", if *met { "met" } else { "not met" }, target.name());
    }
    text
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Unregulated => "unregulated",
        Side::Occupied => "occupied",
        Side::Frozen => "frozen",
        Side::FrozenBpf => "frozen, bpf",
    }
}

fn cells(row: &LiveRow) -> Vec<String> {
    let allowed = f64::from(row.budget) * 1e6 / row.period_us as f64;
    let one = |number: f64| format!("{number:.1}");
    let some = |number: Option<f64>| number.map_or("-".to_owned(), one);
    let mut cells = vec![name(row.side).to_owned(), row.period_us.to_string(), row.budget.to_string()];
    cells.extend([row.events_per_second, allowed].map(|number| format!("{number:.0}")));
    cells.extend([row.throttled_periods, row.periods_beyond, row.most_in_a_period].map(|number| number.to_string()));
    cells.extend([one(row.regulator_percent), some(row.programs_percent), one(row.occupied_percent)]);
    cells.extend([some(row.usable_percent), some(row.slowest_freeze_ms)]);
    cells
}
