//! Devices and standards for programs: typed reports, whose JSON Schema follows from their types.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::standard::{Device, Standard};

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// What `memtint dram show` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeviceReport<'a> {
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

/// Source of a fact.
#[derive(Debug, Serialize, JsonSchema)]
struct SourceJson<'a> {
    field: &'a str,
    source: &'a str,
}

impl DeviceReport<'_> {
    /// Makes the report of a device.
    #[must_use]
    pub fn of(device: &Device) -> DeviceReport<'_> {
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
            timing_cycles: device.timing.named().into_iter().collect(),
            refresh_commands_per_window: device.refresh.commands,
            refresh_window_cycles: device.refresh.window_cycles,
            sources: device.sources.iter().map(|(field, source)| SourceJson { field, source }).collect(),
        }
    }
}

/// What `memtint dram list` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StandardsReport<'a> {
    schema: u32,
    report: &'static str,
    standards: Vec<StandardJson<'a>>,
}

/// A standard at a speed.
#[derive(Debug, Serialize, JsonSchema)]
struct StandardJson<'a> {
    standard: &'a str,
    family: &'a str,
    speed_bin: &'a str,
    devices: Vec<StandardDevice>,
}

/// A device that the standard has timings for.
#[derive(Debug, Serialize, JsonSchema)]
struct StandardDevice {
    density_gbit: u32,
    width_bits: u32,
}

impl StandardsReport<'_> {
    /// Makes the report of standards.
    #[must_use]
    pub fn of(standards: &[Standard]) -> StandardsReport<'_> {
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
