//! What `memtint dram` finds, in words.

use std::fmt::Write as _;

use memtint_dram::{Device, Energy, Violations};
use memtint_replay::{Checked, Replayed};

use crate::output::table;

/// A replay, in words.
pub(super) fn replay_text(replayed: &Replayed) -> String {
    let Replayed { request, device, stats, config, .. } = replayed;
    let period = device.clock.period_ps() / 1000.0;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    let (ranks, banks) = (device.geometry.ranks, device.geometry.banks());
    line("device", format!("{}, ranks {ranks}, banks {banks}, a cycle is {period:.3} ns", device.name));
    let scheduling = format!("{}, page {}, refresh {}", config.scheduler, config.page_policy, replayed.engine);
    line("controller", format!("{scheduling}, queues {}:{}", config.read_queue, config.write_queue));
    let pace = match request.period_cycles {
        Some(cycles) if cycles > 0 => format!("one each {cycles} cycles"),
        None if replayed.timed => "at the times of the trace".to_owned(),
        _ => "queues kept full".to_owned(),
    };
    line("trace", format!("{}, {pace}", request.trace.display()));
    for assumed in replayed.mapping.assumed() {
        line("assumed", assumed.clone());
    }
    line("requests", format!("{} ({} reads, {} writes)", stats.requests, stats.reads, stats.requests - stats.reads));
    if replayed.other_channels > 0 {
        line("left out", format!("{} requests of other channels", replayed.other_channels));
    }
    let rate = replayed.bytes_per_second() / 1e9;
    line("time", format!("{} cycles, {:.6} ms, {rate:.3} GB/s", stats.cycles, replayed.seconds() * 1e3));
    let latency = &stats.latency;
    line(
        "read latency",
        format!(
            "mean {:.2}, min {}, median {}, 99 % {}, max {} cycles",
            latency.mean(),
            latency.min(),
            latency.quantile(0.5),
            latency.quantile(0.99),
            latency.max()
        ),
    );
    let rows = format!("{} hits, {} misses, {} conflicts", stats.hits, stats.misses, stats.conflicts);
    line("rows", format!("{rows}, {} forwarded from waiting writes", stats.forwarded));
    let (refreshes, single) = (replayed.sum(|rank| rank.refreshes), replayed.sum(|rank| rank.bank_refreshes));
    line("refreshes", format!("{refreshes} of ranks, {single} of banks"));
    line(
        "energy",
        replayed.energy().map_or_else(|| "no currents are published".to_owned(), |energy| energy_text(&energy)),
    );
    if let Some(commands) = replayed.commands_checked {
        line("check", format!("{commands} commands, {}", legality(&replayed.found, replayed.engine != "none")));
    }
    text
}

fn energy_text(energy: &Energy) -> String {
    let microjoules = |picojoules: u128| picojoules as f64 / 1e6;
    format!(
        "{:.3} uJ (activate {:.3}, read {:.3}, write {:.3}, refresh {:.3}, background {:.3})",
        microjoules(energy.total_pj()),
        microjoules(energy.activate_pj),
        microjoules(energy.read_pj),
        microjoules(energy.write_pj),
        microjoules(energy.refresh_pj),
        microjoules(energy.background_pj)
    )
}

/// What commands violate, for the end of a line; `refresh_checked` is whether refresh that never comes would have been found.
fn legality(found: &Violations, refresh_checked: bool) -> String {
    match (found.violation, found.postponed()) {
        (None, None) if refresh_checked => "all legal".to_owned(),
        (None, None) => "all legal between commands; whether rows are refreshed is not checked".to_owned(),
        (None, Some(postponed)) => format!(
            "not all legal: timings are kept, but JEDEC limits how many REF commands are postponed or pulled in: {postponed}"
        ),
        _ => "not all legal".to_owned(),
    }
}

/// A check, in words.
pub(super) fn check_text(checked: &Checked) -> String {
    let Checked { device, commands, line, found, refresh_checked, retention, .. } = checked;
    match line.zip(found.violation) {
        None => {
            let rows = retention.as_ref().map(|retention| match retention.first {
                Some(loss) => format!("rows are lost: {loss}\n"),
                None => {
                    let longest = retention.longest.iter().max().copied().unwrap_or_default();
                    format!("no row goes longer than {longest} cycles without a refresh\n")
                }
            });
            let at = line.map_or_else(String::new, |line| format!("line {line}: "));
            format!(
                "{}: {at}{commands} commands, {}\n{}",
                device.name,
                legality(found, *refresh_checked),
                rows.unwrap_or_default()
            )
        }
        Some((line, violation)) => format!("{}: line {line}: {violation}\n", device.name),
    }
}

/// A device, in words.
pub(super) fn device_text(device: &Device) -> String {
    let geometry = &device.geometry;
    let mut text = format!("{}\n", device.name);
    let _ = writeln!(
        text,
        "ranks {}, bank groups {}, banks a group {}; a bank has {} rows of {} columns; bus {} bits, burst {}; {} on the channel\n",
        geometry.ranks,
        geometry.bank_groups,
        geometry.banks_per_group,
        geometry.rows,
        geometry.columns,
        geometry.bus_bits,
        geometry.burst_length,
        memtint_units::ByteSize(geometry.bytes())
    );
    let period_ns = device.clock.period_ps() / 1000.0;
    let row = |(name, cycles): (&str, u32)| {
        vec![name.to_owned(), cycles.to_string(), format!("{:.3}", f64::from(cycles) * period_ns)]
    };
    let rows: Vec<Vec<String>> = device.timing.named().into_iter().filter(|entry| entry.1 > 0).map(row).collect();
    text.push_str(&table(&["constraint", "cycles", "ns"], &[1, 2], &rows));
    text.push_str("\nsources\n");
    for (field, source) in &device.sources {
        let _ = writeln!(text, "  {field}: {source}");
    }
    text
}
