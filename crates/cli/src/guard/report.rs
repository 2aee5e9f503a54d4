//! What is regulated, and what each group has done, in words.

use std::fmt::Write as _;

use memtint_guard::bandwidth;
use memtint_regulator::{Backend, Sensor, Tested};
use memtint_service::{Regulated, Row, TrafficRow, WorkRow};
use memtint_units::Picoseconds;

use crate::output::table;

/// What is regulated.
pub(super) fn text_of_regulated(regulated: &Regulated) -> String {
    let mut text = String::new();
    let sensor = &regulated.sensor;
    // Writing into text cannot fail.
    let _ = writeln!(text, "not counted: {}", sensor.not_counted.join("; "));
    for what in &regulated.not_considered {
        let _ = writeln!(text, "not considered: {what}");
    }
    let period_us = regulated.period_ns as f64 / 1e3;
    let _ = writeln!(text, "event {}, period {period_us} us", sensor.name);
    for group in &regulated.groups {
        let kind = if group.soft { "soft" } else { "hard" };
        let rate = sensor.event_bytes.map_or(String::new(), |bytes| {
            let bytes = bandwidth(group.budget.into(), bytes.into(), Picoseconds(regulated.period_ns * 1000));
            format!(" ({:.1} MB/s)", bytes as f64 / 1e6)
        });
        let _ = writeln!(
            text,
            "{} on CPUs {:?}: {} events per period{rate}, {kind}, at most {}; stopped by {}",
            group.name, group.cpus, group.budget, group.bound, group.stopped_by
        );
    }
    text
}

/// Where it is decided.
pub(super) fn decided(backend: Backend) -> &'static str {
    match backend {
        Backend::Bpf => "in the kernel, by BPF programs",
        Backend::Kernel => "in the kernel, by the module memtint_guard",
        Backend::Auto | Backend::Threads => "in threads",
    }
}

/// What there is to count.
pub(super) fn text_of_sensors(sensors: &[Sensor]) -> String {
    let mut text = String::new();
    for sensor in sensors {
        let bytes = sensor.bytes.map_or("no transfer".to_owned(), |bytes| format!("{bytes} bytes each"));
        // Writing into text cannot fail.
        let _ = writeln!(text, "{}: {bytes}, skid at most {}", sensor.name, sensor.skid);
        let _ = writeln!(text, "  not counted: {}", sensor.blind.join("; "));
        let _ = writeln!(text, "  source: {}", sensor.source);
    }
    text
}

/// What regulation begins with.
pub(super) fn text_of_start(
    regulated: &Regulated,
    backend: Backend,
    not_in_kernel: Option<&str>,
    tested: &[Tested],
) -> String {
    let mut text = text_of_regulated(regulated);
    // Writing into text cannot fail.
    let _ = match not_in_kernel {
        Some(reason) => writeln!(text, "decided in threads: {reason}"),
        None => writeln!(text, "decided {}", decided(backend)),
    };
    for one in tested {
        let own = match one.own_budget.throttled_periods {
            0 => "its own was not reached".to_owned(),
            throttled => format!("with its own in {throttled} of {}", one.own_budget.periods),
        };
        let _ = writeln!(
            text,
            "self-test of {} on CPU {}: with a budget of {} throttled in {} of {} periods, {own}; no period beyond its bound",
            one.group,
            one.cpu,
            match one.least_budget.budget {
                1 => "one event".to_owned(),
                budget => format!("{budget} events"),
            },
            one.least_budget.throttled_periods,
            one.least_budget.periods
        );
    }
    text
}

/// What the regulators took.
pub(super) fn text_of_work(rows: &[WorkRow]) -> String {
    let line = |row: &WorkRow| {
        let WorkRow { cpu, busy_percent, occupied_percent } = row;
        format!("regulator of CPU {cpu}: {busy_percent:.1} % of its time, {occupied_percent:.1} % of it occupied\n")
    };
    rows.iter().map(line).collect()
}

/// A line for each.
pub(super) fn text_of_traffic(rows: &[TrafficRow], seconds: f64) -> String {
    let rate = |bytes: Option<u64>| {
        bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} MB/s", bytes as f64 / 1e6 / seconds.max(1e-9)))
    };
    let line = |row: &TrafficRow| {
        let (total, local) = (rate(row.total_bytes), rate(row.local_bytes));
        format!("resctrl, all tasks, L3 {}: {total} in all, {local} from local memory\n", row.l3)
    };
    rows.iter().map(line).collect()
}

pub(super) fn text_of(rows: &[Row]) -> String {
    let heads = [
        "group",
        "CPU",
        "periods",
        "events",
        "most so far",
        "throttled",
        "throttled ms",
        "donated",
        "taken back",
        "reclaimed",
        "underruns",
        "broken",
    ];
    let cells = |row: &Row| {
        let sums = &row.sums;
        let mut cells = vec![row.name.clone(), sums.cpu.to_string()];
        cells.extend([sums.periods, sums.used, sums.used_max, sums.throttled_periods].map(|number| number.to_string()));
        cells.push(format!("{:.1}", sums.throttled_ns as f64 / 1e6));
        let more = [sums.donated, sums.returned, sums.reclaimed, sums.underruns, sums.broken];
        cells.extend(more.map(|number| number.to_string()));
        cells
    };
    let right: Vec<usize> = (1..heads.len()).collect();
    table(&heads, &right, &rows.iter().map(cells).collect::<Vec<_>>())
}
