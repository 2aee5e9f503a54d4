//! r_min: the bandwidth that a channel serves whatever is asked of it.

use memtint_dram::replay::replay;
use memtint_dram::{
    BankIndex, Controller, ControllerConfig, Device, DeviceChoice, DramError, RefreshPlan, Request, RowIndex, Standard,
    WorstCase, cycles_of_slides,
};
use memtint_map::Platform;
use memtint_units::Picoseconds;
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// Version of the form of the report.
const SCHEMA: u32 = 1;
/// Requests of a simulated pattern.
const REQUESTS: u64 = 200_000;
/// Bytes of a line where the platform does not say.
const LINE_BYTES: u64 = 64;

/// A channel whose bandwidth is calculated.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Name of a standard, or a file; `None`: of the standards of the platform's family, the one that serves least.
    pub device: Option<String>,
    /// Density of one device; `None`: the standard's.
    pub density_gbit: Option<u32>,
    /// Name of the refresh, as [`RefreshPlan::named`] takes it.
    pub refresh: String,
}

/// Why there is no bandwidth.
#[derive(Debug, Error)]
pub enum GuaranteeError {
    /// The standard, its device or its refresh.
    #[error(transparent)]
    Dram(#[from] DramError),
    /// No standard is of the platform's family.
    #[error(
        "platform {platform:?}: its memory is {family}, and the standards here are {}; accepted is one of these, or --device",
        known.join(", ")
    )]
    Family {
        /// The platform.
        platform: String,
        /// Its family.
        family: String,
        /// Families that there are standards of.
        known: Vec<String>,
    },
}

/// The bandwidth that memory guarantees.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GuaranteeReport {
    /// Version of the form of this report.
    pub schema: u32,
    /// `guard rmin`.
    #[schemars(extend("const" = "guard rmin"))]
    pub report: &'static str,
    /// The platform.
    pub platform: String,
    /// The device.
    pub device: String,
    /// The device was not named.
    pub assumed_device: bool,
    /// The refresh.
    pub refresh: String,
    /// Size of a line.
    pub line_bytes: u64,
    /// In megabytes a second, refresh included.
    pub r_min_mb_per_s: f64,
    /// Patterns of requests, of which the slowest counts.
    pub patterns: Vec<PatternReport>,
    /// What is guaranteed in a period.
    pub period: PeriodReport,
    /// The sum of the slides of MemGuard, to compare with.
    pub slides: SlidesReport,
}

/// A pattern of requests.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PatternReport {
    /// The pattern, in words.
    pub name: &'static str,
    /// A line, without refresh.
    pub line_ns: f64,
    /// Lower bound, refresh included.
    pub calculated_mb_per_s: f64,
    /// Service of a simulated channel.
    pub simulated_mb_per_s: f64,
}

/// What is guaranteed in a period.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PeriodReport {
    /// Length of the period.
    pub ns: f64,
    /// Lines that are served in each.
    pub lines: u64,
    /// The same as a bandwidth.
    pub mb_per_s: f64,
}

/// The sum of the slides of MemGuard, which is no worst case.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SlidesReport {
    /// A line.
    pub line_ns: f64,
    /// The same as a bandwidth.
    pub mb_per_s: f64,
}

impl GuaranteeReport {
    /// Returns whether the simulated channel serves at least the calculated bandwidth under each pattern.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.patterns.iter().all(|pattern| pattern.simulated_mb_per_s >= self.r_min_mb_per_s)
    }
}

/// Calculates the guaranteed bandwidth of a platform's channel, in general and in each `period`, above 0, and simulates
/// the underlying patterns.
///
/// # Errors
/// [`GuaranteeError`].
pub fn guarantee(
    platform: &Platform,
    channel: &Channel,
    period: Picoseconds,
) -> Result<GuaranteeReport, GuaranteeError> {
    let line_bytes = platform.llc().map_or(LINE_BYTES, |llc| llc.line.bytes());
    let (device, refresh) = match &channel.device {
        Some(name) => refreshed(channel, &Standard::load(name)?)?,
        None => slowest(channel, platform, line_bytes)?,
    };
    let worst = WorstCase::of(&device, refresh.kind, line_bytes);
    let mb = |cycles| worst.bytes_per_second(cycles) / 1e6;
    let ns = |cycles: u64| device.clock.period_ps() * cycles as f64 / 1e3;
    let all = [
        ("reads of one bank, each of another row", worst.read_cycles, Traffic::Reads),
        ("writes of one bank, each of another row", worst.write_cycles, Traffic::Writes),
        ("reads and writes of open rows by turns", worst.turnaround_cycles, Traffic::ByTurns),
    ];
    let mut patterns = Vec::new();
    for (name, cycles, traffic) in all {
        let simulated = simulate(&device, &refresh, line_bytes, traffic)?;
        let (line_ns, calculated_mb_per_s) = (ns(cycles), mb(cycles));
        patterns.push(PatternReport { name, line_ns, calculated_mb_per_s, simulated_mb_per_s: simulated / 1e6 });
    }
    let lines = worst.lines_in(period);
    let slides = cycles_of_slides(&device.timing);
    Ok(GuaranteeReport {
        schema: SCHEMA,
        report: "guard rmin",
        platform: platform.id().to_owned(),
        device: device.name.clone(),
        assumed_device: channel.device.is_none(),
        refresh: channel.refresh.clone(),
        line_bytes,
        r_min_mb_per_s: mb(worst.line_cycles()),
        patterns,
        period: PeriodReport {
            ns: period.as_ns(),
            lines,
            mb_per_s: memtint_guard::bandwidth(lines, line_bytes, period) as f64 / 1e6,
        },
        slides: SlidesReport { line_ns: ns(slides), mb_per_s: line_bytes as f64 / ns(slides) * 1e3 },
    })
}

/// A standard's device, with its refresh.
fn refreshed(channel: &Channel, standard: &Standard) -> Result<(Device, RefreshPlan), DramError> {
    let choice = DeviceChoice { density_gbit: channel.density_gbit, ..DeviceChoice::default() };
    let device = standard.device(choice)?;
    let refresh = RefreshPlan::named(&channel.refresh, &device)?;
    Ok((Device { timing: refresh.timing, ..device }, refresh))
}

/// Of the standards of the platform's family the device that serves least.
fn slowest(channel: &Channel, platform: &Platform, line_bytes: u64) -> Result<(Device, RefreshPlan), GuaranteeError> {
    let family = &platform.dram().standard;
    let mut found: Option<(f64, (Device, RefreshPlan))> = None;
    let mut known = Vec::new();
    for name in Standard::names() {
        let standard = Standard::load(name)?;
        if !standard.family().eq_ignore_ascii_case(family) {
            known.push(standard.family().to_owned());
            continue;
        }
        let (device, refresh) = refreshed(channel, &standard)?;
        let worst = WorstCase::of(&device, refresh.kind, line_bytes);
        let rate = worst.bytes_per_second(worst.line_cycles());
        if found.as_ref().is_none_or(|(least, _)| rate < *least) {
            found = Some((rate, (device, refresh)));
        }
    }
    known.dedup();
    let none = || GuaranteeError::Family { platform: platform.id().to_owned(), family: family.clone(), known };
    found.map(|(_, found)| found).ok_or_else(none)
}

/// The requests to a simulated channel.
#[derive(Clone, Copy)]
enum Traffic {
    Reads,
    Writes,
    ByTurns,
}

/// Bytes a second that the channel serves when requests wait all the time.
fn simulate(device: &Device, refresh: &RefreshPlan, line_bytes: u64, traffic: Traffic) -> Result<f64, DramError> {
    let config = ControllerConfig { refresh: refresh.kind, ..ControllerConfig::default() };
    let mut controller = Controller::new(device.geometry, device.timing, config)?;
    let burst_bytes = u64::from(device.geometry.burst_bytes());
    let bursts = line_bytes.div_ceil(burst_bytes);
    let (rows, columns) = (u64::from(device.geometry.rows), u64::from(device.geometry.bursts_per_row()));
    let request = |id: u64| {
        let line = id / bursts;
        // A bank for reads and one for writes, whose rows stay open.
        let (bank, row) = match traffic {
            Traffic::Reads | Traffic::Writes => (0, line % rows),
            Traffic::ByTurns => (line % 2, 0),
        };
        Request {
            id,
            source: 0,
            write: match traffic {
                Traffic::Reads => false,
                Traffic::Writes => true,
                Traffic::ByTurns => line % 2 == 1,
            },
            bank: BankIndex(bank as u32),
            row: RowIndex(row as u32),
            column: (id % columns) as u32,
        }
    };
    let stats = replay(&mut controller, (0..REQUESTS).map(request), 0);
    let seconds = device.clock.start(stats.cycles).as_seconds();
    Ok((REQUESTS * burst_bytes) as f64 / seconds)
}
