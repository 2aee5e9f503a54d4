//! What `memtint dram` says, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use memtint_dram::replay::ReplayStats;
use memtint_dram::{
    ControllerConfig, Device, Energy, EnergyCounts, EnergyMeter, PagePolicy, QueueSharing, RankCounts, Retention,
    Scheduler, Standard, Timing,
};
use memtint_replay::Mapping;
use schemars::JsonSchema;
use serde::Serialize;

use super::bandwidth;
use super::options::ReplayArguments;
use crate::command_watch::{PostponedReport, ViolationReport, Violations};
use crate::output::table;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

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

/// What `memtint dram replay` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReplayJson<'a> {
    schema: u32,
    report: &'static str,
    /// The memory device.
    device: &'a str,
    /// Ranks of the channel.
    ranks: u32,
    /// Banks of the channel.
    banks: u32,
    clock_period_ps: f64,
    /// How addresses become banks, rows and columns.
    mapping: &'a str,
    /// What of it is assumed, in words.
    mapping_assumed: &'a [String],
    /// The trace file.
    trace: String,
    /// From one request to the next; 0: queues are kept full; null: at the times of the trace.
    period_cycles: Option<u64>,
    seed: u64,
    controller: ControllerJson,
    requests: u64,
    reads: u64,
    writes: u64,
    /// Requests of the trace that are left out.
    requests_of_other_channels: u64,
    /// Until the last request was done.
    cycles: u64,
    simulated_seconds: f64,
    bandwidth_bytes_per_second: f64,
    /// Of reads.
    latency_cycles: LatencyJson,
    row_hits: u64,
    row_misses: u64,
    row_conflicts: u64,
    /// Reads served from writes that waited.
    forwarded: u64,
    activates: u64,
    /// Refreshes of whole ranks.
    refreshes: u64,
    /// Refreshes of single banks.
    bank_refreshes: u64,
    /// Null where no currents are published for the device.
    energy_picojoules: Option<EnergyJson>,
    /// Null without `--check`.
    commands_checked: Option<u64>,
    /// The first command that is not legal.
    violation: Option<ViolationReport>,
    /// Refresh that is postponed or pulled in beyond the standard's limits.
    postponed_beyond_standard: Option<PostponedReport>,
    /// Of all that was counted: equal for equal results, in hexadecimal.
    result_hash: String,
}

/// The memory controller.
#[derive(Serialize, JsonSchema)]
struct ControllerJson {
    scheduler: String,
    page_policy: String,
    refresh: &'static str,
    read_queue_entries: u32,
    write_queue_entries: u32,
    queues_per_bank: bool,
    /// Writes are served from this many on ...
    drain_at_writes: u32,
    /// ... until this many are left.
    drain_to_writes: u32,
}

/// Where latencies lie.
#[derive(Serialize, JsonSchema)]
struct LatencyJson {
    mean: f64,
    min: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

/// Energy of the channel's devices.
#[derive(Serialize, JsonSchema)]
struct EnergyJson {
    activate: u64,
    read: u64,
    write: u64,
    refresh: u64,
    background: u64,
    total: u64,
}

impl EnergyJson {
    fn of(energy: Energy) -> EnergyJson {
        EnergyJson {
            activate: picojoules(energy.activate_pj),
            read: picojoules(energy.read_pj),
            write: picojoules(energy.write_pj),
            refresh: picojoules(energy.refresh_pj),
            background: picojoules(energy.background_pj),
            total: picojoules(energy.total_pj()),
        }
    }
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

    pub(super) fn to_json(&self) -> ReplayJson<'_> {
        let (stats, config) = (self.stats, self.config);
        ReplayJson {
            schema: SCHEMA,
            report: "dram replay",
            device: &self.device.name,
            ranks: self.device.geometry.ranks,
            banks: self.device.geometry.banks(),
            clock_period_ps: self.device.clock.period_ps(),
            mapping: &self.arguments.mapping.mapping,
            mapping_assumed: self.mapping.assumed(),
            trace: self.arguments.trace.display().to_string(),
            period_cycles: if self.timed { self.arguments.period } else { self.arguments.period.or(Some(0)) },
            seed: self.arguments.seed,
            controller: ControllerJson {
                scheduler: scheduler(config),
                page_policy: page_policy(config),
                refresh: self.engine,
                read_queue_entries: config.read_queue,
                write_queue_entries: config.write_queue,
                queues_per_bank: config.sharing == QueueSharing::PerBank,
                drain_at_writes: config.drain_at,
                drain_to_writes: config.drain_to,
            },
            requests: stats.requests,
            reads: stats.reads,
            writes: stats.requests - stats.reads,
            requests_of_other_channels: self.other_channels,
            cycles: stats.cycles,
            simulated_seconds: self.seconds(),
            bandwidth_bytes_per_second: bandwidth(stats, self.device),
            latency_cycles: LatencyJson {
                mean: stats.latency.mean(),
                min: stats.latency.min(),
                p50: stats.latency.quantile(0.5),
                p99: stats.latency.quantile(0.99),
                max: stats.latency.max(),
            },
            row_hits: stats.hits,
            row_misses: stats.misses,
            row_conflicts: stats.conflicts,
            forwarded: stats.forwarded,
            activates: self.sum(|rank| rank.activates),
            refreshes: self.sum(|rank| rank.refreshes),
            bank_refreshes: self.sum(|rank| rank.bank_refreshes),
            energy_picojoules: self.energy().map(EnergyJson::of),
            commands_checked: self.commands,
            violation: self.found.violation.map(|violation| ViolationReport::of(&violation)),
            postponed_beyond_standard: self.found.postponed_report(),
            result_hash: format!("{:016x}", stats.hash()),
        }
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

/// What `memtint dram check` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct CheckReport<'a> {
    schema: u32,
    report: &'static str,
    /// The file of commands.
    file: String,
    device: &'a str,
    /// Commands that are legal: all before a violation.
    legal_commands: u64,
    legal: bool,
    /// Where it is in the file.
    line: Option<u64>,
    violation: Option<ViolationReport>,
    /// Refresh that is postponed or pulled in beyond the standard's limits.
    postponed_beyond_standard: Option<PostponedReport>,
    /// For each rank; null where retention was not checked.
    longest_without_refresh_cycles: Option<&'a [u64]>,
    /// The first rows that lose their data, in words.
    lost_rows: Option<String>,
}

impl CheckReport<'_> {
    pub(super) fn of<'a>(
        path: &Path,
        device: &'a Device,
        commands: u64,
        (line, found): (Option<u64>, &Violations),
        retention: Option<&'a Retention>,
    ) -> CheckReport<'a> {
        CheckReport {
            schema: SCHEMA,
            report: "dram check",
            file: path.display().to_string(),
            device: &device.name,
            legal_commands: commands,
            legal: found.is_legal(),
            line,
            violation: found.violation.map(|violation| ViolationReport::of(&violation)),
            postponed_beyond_standard: found.postponed_report(),
            longest_without_refresh_cycles: retention.map(|retention| &retention.longest[..]),
            lost_rows: retention.and_then(|retention| retention.first).map(|loss| loss.to_string()),
        }
    }
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

/// What `memtint dram show` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct DeviceReport<'a> {
    schema: u32,
    report: &'static str,
    device: &'a str,
    clock_period_ps: f64,
    ranks: u32,
    bank_groups: u32,
    banks_per_group: u32,
    rows: u32,
    columns: u32,
    /// Width of the channel.
    bus_bits: u32,
    /// Width of a device.
    device_bits: u32,
    burst_length: u32,
    channel_bytes: u64,
    /// By JEDEC's names.
    timing_cycles: BTreeMap<&'static str, u32>,
    refresh_commands_per_window: u32,
    refresh_window_cycles: u64,
    sources: Vec<SourceJson<'a>>,
}

/// Where a fact comes from.
#[derive(Serialize, JsonSchema)]
struct SourceJson<'a> {
    field: &'a str,
    source: &'a str,
}

impl DeviceReport<'_> {
    pub(super) fn of(device: &Device) -> DeviceReport<'_> {
        let geometry = &device.geometry;
        DeviceReport {
            schema: SCHEMA,
            report: "dram device",
            device: &device.name,
            clock_period_ps: device.clock.period_ps(),
            ranks: geometry.ranks,
            bank_groups: geometry.bank_groups,
            banks_per_group: geometry.banks_per_group,
            rows: geometry.rows,
            columns: geometry.columns,
            bus_bits: geometry.bus_bits,
            device_bits: geometry.device_bits,
            burst_length: geometry.burst_length,
            channel_bytes: geometry.bytes(),
            timing_cycles: constraints(&device.timing).into_iter().collect(),
            refresh_commands_per_window: device.refresh.commands,
            refresh_window_cycles: device.refresh.window_cycles,
            sources: device.sources.iter().map(|(field, source)| SourceJson { field, source }).collect(),
        }
    }
}

/// What `memtint dram list` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct StandardsReport<'a> {
    schema: u32,
    report: &'static str,
    standards: Vec<StandardJson<'a>>,
}

/// A standard at a speed.
#[derive(Serialize, JsonSchema)]
struct StandardJson<'a> {
    standard: &'a str,
    family: &'a str,
    speed_bin: &'a str,
    devices: Vec<StandardDevice>,
}

/// A device that the standard has timings for.
#[derive(Serialize, JsonSchema)]
struct StandardDevice {
    density_gbit: u32,
    width_bits: u32,
}

impl StandardsReport<'_> {
    pub(super) fn of(standards: &[Standard]) -> StandardsReport<'_> {
        let devices = |standard: &Standard| {
            let device = |(density_gbit, width_bits)| StandardDevice { density_gbit, width_bits };
            standard.devices().map(device).collect()
        };
        let row = |standard| StandardJson {
            standard: Standard::name(standard),
            family: standard.family(),
            speed_bin: standard.speed_bin(),
            devices: devices(standard),
        };
        StandardsReport { schema: SCHEMA, report: "dram standards", standards: standards.iter().map(row).collect() }
    }
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
