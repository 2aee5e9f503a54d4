//! Replays and checks for programs: typed reports, whose JSON Schema follows from their types.

use memtint_dram::{Energy, PostponedReport, QueueSharing, ViolationReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::check::Checked;
use crate::session::Replayed;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// What `memtint dram replay` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayReport<'a> {
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
#[derive(Debug, Serialize, JsonSchema)]
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
#[derive(Debug, Serialize, JsonSchema)]
struct LatencyJson {
    mean: f64,
    min: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

/// Energy of the channel's devices.
#[derive(Debug, Serialize, JsonSchema)]
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

impl Replayed {
    /// Makes the report.
    #[must_use]
    pub fn report(&self) -> ReplayReport<'_> {
        let (stats, config, request) = (&self.stats, &self.config, &self.request);
        ReplayReport {
            schema: SCHEMA,
            report: "dram replay",
            device: &self.device.name,
            ranks: self.device.geometry.ranks,
            banks: self.device.geometry.banks(),
            clock_period_ps: self.device.clock.period_ps(),
            mapping: &request.channel.mapping,
            mapping_assumed: self.mapping.assumed(),
            trace: request.trace.display().to_string(),
            period_cycles: if self.timed { request.period_cycles } else { request.period_cycles.or(Some(0)) },
            seed: request.seed,
            controller: ControllerJson {
                scheduler: config.scheduler.to_string(),
                page_policy: config.page_policy.to_string(),
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
            bandwidth_bytes_per_second: self.bytes_per_second(),
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
            commands_checked: self.commands_checked,
            violation: self.found.violation.map(|violation| ViolationReport::of(&violation)),
            postponed_beyond_standard: self.found.postponed_report(),
            result_hash: format!("{:016x}", stats.hash()),
        }
    }
}

/// JSON numbers end at 64 bits: twenty days of a rank.
fn picojoules(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// What `memtint dram check` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckReport<'a> {
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

impl Checked {
    /// Makes the report.
    #[must_use]
    pub fn report(&self) -> CheckReport<'_> {
        CheckReport {
            schema: SCHEMA,
            report: "dram check",
            file: self.path.display().to_string(),
            device: &self.device.name,
            legal_commands: self.commands,
            legal: self.found.is_legal(),
            line: self.line,
            violation: self.found.violation.map(|violation| ViolationReport::of(&violation)),
            postponed_beyond_standard: self.found.postponed_report(),
            longest_without_refresh_cycles: self.retention.as_ref().map(|retention| &retention.longest[..]),
            lost_rows: self.retention.as_ref().and_then(|retention| retention.first).map(|loss| loss.to_string()),
        }
    }
}
