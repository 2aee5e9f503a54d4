//! What `memtint dram` says, for people and for programs.

use std::fmt::Write as _;
use std::path::Path;

use memtint_dram::replay::ReplayStats;
use memtint_dram::{
    ControllerConfig, Device, Energy, EnergyCounts, EnergyMeter, PagePolicy, QueueSharing, RankCounts, Retention,
    Scheduler, Timing,
};
use serde_json::{Value, json};

use super::bandwidth;
use super::mapping::Mapping;
use super::options::ReplayArguments;
use crate::command_watch::{Violations, violation_json};
use crate::output::table;

/// Everything a replay has to say.
pub(super) struct ReplayReport<'a> {
    pub(super) arguments: &'a ReplayArguments,
    pub(super) device: &'a Device,
    pub(super) mapping: &'a Mapping,
    pub(super) config: &'a ControllerConfig,
    pub(super) engine: &'static str,
    pub(super) stats: &'a ReplayStats,
    pub(super) ranks: &'a [RankCounts],
    pub(super) other_channels: u64,
    /// The trace says when its requests come.
    pub(super) timed: bool,
    /// Commands that were checked.
    pub(super) commands: Option<u64>,
    pub(super) found: Violations,
}

impl ReplayReport<'_> {
    fn sum(&self, of: fn(&RankCounts) -> u64) -> u64 {
        self.ranks.iter().map(of).sum()
    }

    /// Of all ranks; `None` where no currents are published for the device.
    fn energy(&self) -> Option<Energy> {
        let meter = EnergyMeter::of(self.device)?;
        let counts = |rank| EnergyCounts::of(rank, self.stats.cycles, &self.device.timing);
        let each = self.ranks.iter().map(|rank| meter.energy(&counts(rank)));
        Some(each.fold(Energy::default(), |sum, one| Energy {
            activate_pj: sum.activate_pj + one.activate_pj,
            read_pj: sum.read_pj + one.read_pj,
            write_pj: sum.write_pj + one.write_pj,
            refresh_pj: sum.refresh_pj + one.refresh_pj,
            background_pj: sum.background_pj + one.background_pj,
        }))
    }

    fn seconds(&self) -> f64 {
        self.device.clock.start(self.stats.cycles).as_seconds()
    }

    pub(super) fn to_json(&self) -> Value {
        let (stats, config) = (self.stats, self.config);
        let energy = self.energy().map(|energy| {
            json!({
                "activate": picojoules(energy.activate_pj),
                "read": picojoules(energy.read_pj),
                "write": picojoules(energy.write_pj),
                "refresh": picojoules(energy.refresh_pj),
                "background": picojoules(energy.background_pj),
                "total": picojoules(energy.total_pj()),
            })
        });
        json!({
            "schema": 1,
            "report": "dram replay",
            "device": self.device.name,
            "ranks": self.device.geometry.ranks,
            "banks": self.device.geometry.banks(),
            "clock_period_ps": self.device.clock.period_ps(),
            "mapping": self.arguments.mapping.mapping,
            "mapping_assumed": self.mapping.assumed(),
            "trace": self.arguments.trace.display().to_string(),
            "period_cycles": if self.timed { self.arguments.period } else { self.arguments.period.or(Some(0)) },
            "seed": self.arguments.seed,
            "controller": {
                "scheduler": scheduler(config),
                "page_policy": page_policy(config),
                "refresh": self.engine,
                "read_queue_entries": config.read_queue,
                "write_queue_entries": config.write_queue,
                "queues_per_bank": config.sharing == QueueSharing::PerBank,
                "drain_at_writes": config.drain_at,
                "drain_to_writes": config.drain_to,
            },
            "requests": stats.requests,
            "reads": stats.reads,
            "writes": stats.requests - stats.reads,
            "requests_of_other_channels": self.other_channels,
            "cycles": stats.cycles,
            "simulated_seconds": self.seconds(),
            "bandwidth_bytes_per_second": bandwidth(stats, self.device),
            "latency_cycles": {
                "mean": stats.latency.mean(),
                "min": stats.latency.min(),
                "p50": stats.latency.quantile(0.5),
                "p99": stats.latency.quantile(0.99),
                "max": stats.latency.max(),
            },
            "row_hits": stats.hits,
            "row_misses": stats.misses,
            "row_conflicts": stats.conflicts,
            "forwarded": stats.forwarded,
            "activates": self.sum(|rank| rank.activates),
            "refreshes": self.sum(|rank| rank.refreshes),
            "bank_refreshes": self.sum(|rank| rank.bank_refreshes),
            "energy_picojoules": energy,
            "commands_checked": self.commands,
            "violation": self.found.violation.map(|violation| violation_json(&violation)),
            "postponed_beyond_standard": self.found.postponed_json(),
            "result_hash": format!("{:016x}", stats.hash()),
        })
    }

    pub(super) fn to_text(&self) -> String {
        let (stats, config) = (self.stats, self.config);
        let period = self.device.clock.period_ps() / 1000.0;
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<14}{value}");
        };
        let (ranks, banks) = (self.device.geometry.ranks, self.device.geometry.banks());
        line("device", format!("{}, ranks {ranks}, banks {banks}, a cycle is {period:.3} ns", self.device.name));
        let scheduling = format!("{}, page {}, refresh {}", scheduler(config), page_policy(config), self.engine);
        line("controller", format!("{scheduling}, queues {}:{}", config.read_queue, config.write_queue));
        let pace = match self.arguments.period {
            Some(cycles) if cycles > 0 => format!("one each {cycles} cycles"),
            None if self.timed => "at the times of the trace".to_owned(),
            _ => "queues kept full".to_owned(),
        };
        line("trace", format!("{}, {pace}", self.arguments.trace.display()));
        for assumed in self.mapping.assumed() {
            line("assumed", assumed.clone());
        }
        line(
            "requests",
            format!("{} ({} reads, {} writes)", stats.requests, stats.reads, stats.requests - stats.reads),
        );
        if self.other_channels > 0 {
            line("left out", format!("{} requests of other channels", self.other_channels));
        }
        let rate = bandwidth(stats, self.device) / 1e9;
        line("time", format!("{} cycles, {:.6} ms, {rate:.3} GB/s", stats.cycles, self.seconds() * 1e3));
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
        let (refreshes, single) = (self.sum(|rank| rank.refreshes), self.sum(|rank| rank.bank_refreshes));
        line("refreshes", format!("{refreshes} of ranks, {single} of banks"));
        line(
            "energy",
            self.energy().map_or_else(|| "no currents are published".to_owned(), |energy| energy_text(&energy)),
        );
        if let Some(commands) = self.commands {
            line("check", format!("{commands} commands, {}", self.found.text(self.engine != "none")));
        }
        text
    }
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

/// JSON numbers end at 64 bits: twenty days of a rank.
fn picojoules(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn scheduler(config: &ControllerConfig) -> String {
    match config.scheduler {
        Scheduler::Fcfs => "fcfs".to_owned(),
        Scheduler::FrFcfs { cap: Some(cap) } => format!("fr-fcfs, cap {cap}"),
        Scheduler::FrFcfs { cap: None } => "fr-fcfs, no cap".to_owned(),
        Scheduler::ParBs { marking_cap } => format!("par-bs, marking cap {marking_cap}"),
    }
}

fn page_policy(config: &ControllerConfig) -> String {
    match config.page_policy {
        PagePolicy::Open => "open".to_owned(),
        PagePolicy::Closed => "closed".to_owned(),
        PagePolicy::Timeout(cycles) => format!("timeout:{cycles}"),
    }
}

pub(super) fn check_json(
    path: &Path,
    device: &Device,
    commands: u64,
    (line, found): (Option<u64>, &Violations),
    retention: Option<&Retention>,
) -> Value {
    json!({
        "schema": 1,
        "report": "dram check",
        "file": path.display().to_string(),
        "device": device.name,
        "legal_commands": commands,
        "legal": found.is_legal(),
        "line": line,
        "violation": found.violation.map(|violation| violation_json(&violation)),
        "postponed_beyond_standard": found.postponed_json(),
        "longest_without_refresh_cycles": retention.map(|retention| &retention.longest),
        "lost_rows": retention.and_then(|retention| retention.first).map(|loss| loss.to_string()),
    })
}

pub(super) fn check_text(
    device: &Device,
    commands: u64,
    (line, found): (Option<u64>, &Violations),
    refresh_checked: bool,
    retention: Option<&Retention>,
) -> String {
    match line.zip(found.violation) {
        None => {
            let rows = retention.map(|retention| match retention.first {
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
                found.text(refresh_checked),
                rows.unwrap_or_default()
            )
        }
        Some((line, violation)) => format!("{}: line {line}: {violation}\n", device.name),
    }
}

// --- devices ---

/// JEDEC's names, with the cycles.
fn constraints(t: &Timing) -> Vec<(&'static str, u32)> {
    vec![
        ("CL", t.cl),
        ("CWL", t.cwl),
        ("BL/2", t.burst),
        ("tRCD", t.rcd),
        ("tRP", t.rp),
        ("tRPab", t.rp_ab),
        ("tRAS", t.ras),
        ("tRC", t.rc),
        ("tCCD_S", t.ccd_s),
        ("tCCD_L", t.ccd_l),
        ("tCCD_S_WR", t.ccd_s_wr),
        ("tCCD_L_WR", t.ccd_l_wr),
        ("tRRD_S", t.rrd_s),
        ("tRRD_L", t.rrd_l),
        ("tFAW", t.faw),
        ("tWR", t.wr),
        ("tWTR_S", t.wtr_s),
        ("tWTR_L", t.wtr_l),
        ("tRTP", t.rtp),
        ("tRTRS", t.rtrs),
        ("tRTW", t.rtw),
        ("tPPD", t.ppd),
        ("tRFC", t.rfc),
        ("tRFCpb", t.rfc_pb),
        ("tpbR2pbR", t.pbr2pbr),
        ("tpbR2act", t.pbr2act),
        ("tREFI", t.refi),
    ]
}

pub(super) fn device_json(device: &Device) -> Value {
    let geometry = &device.geometry;
    let timing: serde_json::Map<String, Value> =
        constraints(&device.timing).into_iter().map(|(name, cycles)| (name.to_owned(), cycles.into())).collect();
    let sources = device.sources.iter().map(|(field, source)| json!({ "field": field, "source": source }));
    json!({
        "schema": 1,
        "report": "dram device",
        "device": device.name,
        "clock_period_ps": device.clock.period_ps(),
        "ranks": geometry.ranks,
        "bank_groups": geometry.bank_groups,
        "banks_per_group": geometry.banks_per_group,
        "rows": geometry.rows,
        "columns": geometry.columns,
        "bus_bits": geometry.bus_bits,
        "device_bits": geometry.device_bits,
        "burst_length": geometry.burst_length,
        "channel_bytes": geometry.bytes(),
        "timing_cycles": timing,
        "refresh_commands_per_window": device.refresh.commands,
        "refresh_window_cycles": device.refresh.window_cycles,
        "sources": sources.collect::<Vec<_>>(),
    })
}

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
    let rows: Vec<Vec<String>> = constraints(&device.timing).into_iter().filter(|entry| entry.1 > 0).map(row).collect();
    text.push_str(&table(&["constraint", "cycles", "ns"], &[1, 2], &rows));
    text.push_str("\nsources\n");
    for (field, source) in &device.sources {
        let _ = writeln!(text, "  {field}: {source}");
    }
    text
}
