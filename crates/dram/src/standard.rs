//! Standards: one data file per speed grade, and the devices that result from a choice of density, width and ranks.
//!
//! The files of the folder `standards` are embedded; a user's own file is read by its path. Each fact has its source
//! in the file. Times are picoseconds, never truncated to cycles by hand; the clock is an exact ratio, and a constraint
//! takes the cycles that cover its time (rounded up, as JEDEC's standards do), at least its least number of cycles
//! (`max(4 nCK, 7.5 ns)` is `ck = 4, ps = 7_500`). JESD79-4 lets 2.5 % of a cycle pass when it rounds, because its
//! clock periods are themselves rounded; with exact periods that is needed only for latencies that a speed bin names
//! in cycles, and those stand in cycles in the files. The refresh interval is a maximum and rounds down.
//!
//! Commands that take two or four cycles on the command bus (DDR5, LPDDR4) count as one.

use crate::error::DramError;
use crate::timing::{Geometry, Timing};
use memtint_units::{Clock, Picoseconds};
use serde::Deserialize;
use std::path::Path;

static STANDARDS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/standards.rs"));

/// The longest constraint in cycles: far above any real one, far below an overflow of a sum.
const CYCLES_MAX: u64 = 1 << 20;

/// A standard of one speed grade, verified: the content of its file, for every density and width.
///
/// ```
/// use memtint_dram::{DeviceChoice, Standard};
///
/// let device = Standard::load("ddr4-2400")?.device(DeviceChoice { ranks: 2, ..DeviceChoice::default() })?;
/// assert_eq!((device.timing.cl, device.timing.rfc, device.geometry.banks()), (17, 420, 32));
/// # Ok::<(), memtint_dram::DramError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Standard {
    file: File,
    clock: Clock,
    origin: String,
}

/// A choice among a standard's devices, with the number of ranks on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceChoice {
    /// Density of one device in gibibits; `None` for the default of the standard. LPDDR4: of one channel of a die.
    pub density_gbit: Option<u32>,
    /// Width of one device in bits; `None` for the default of the standard.
    pub device_bits: Option<u32>,
    /// Ranks on the channel, 1 to 16.
    pub ranks: u32,
}

impl Default for DeviceChoice {
    /// The standard's default density and width, one rank.
    fn default() -> DeviceChoice {
        DeviceChoice { density_gbit: None, device_bits: None, ranks: 1 }
    }
}

/// A channel's devices: the data for a controller, a checker and an energy meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Standard, density and width, such as `ddr4-2400 8Gb x8`.
    pub name: String,
    /// Clock in whose cycles the timing counts: half the data rate.
    pub clock: Clock,
    /// Organisation of the channel.
    pub geometry: Geometry,
    /// Every constraint, in cycles; `rfc` and `refi` are those of all-bank refresh at its ordinary granularity.
    pub timing: Timing,
    /// The refresh that the devices need.
    pub refresh: RefreshTimes,
    /// Supply currents; `None` where the standard's file has none for this density and width.
    pub currents: Option<Currents>,
    /// Field and source of every fact that went into this device.
    pub sources: Vec<(String, String)>,
}

/// The refresh that a device needs below 85 degrees Celsius.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshTimes {
    /// REF commands in a retention window that cover every row.
    pub commands: u32,
    /// Retention window.
    pub window: Picoseconds,
    /// Retention window in cycles (rounds down).
    pub window_cycles: u64,
    /// Average interval between two REF to a rank, in cycles (rounds down): tREFI.
    pub interval: u32,
    /// REF commands that may be postponed.
    pub postponed_max: u32,
    /// REF commands that may be sent early.
    pub pulled_in_max: u32,
    /// Finer granularities (FGR), coarsest first; the ordinary one (1x) is not among them.
    pub fine: Vec<FineRefresh>,
    /// Refresh of single banks; `None` where the standard has none.
    pub bank: Option<BankRefresh>,
}

/// A finer granularity of all-bank refresh: `factor` times as many commands, each shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FineRefresh {
    /// Multiple of the number of commands: 2 or 4.
    pub factor: u32,
    /// tRFC2 or tRFC4, in cycles.
    pub rfc: u32,
    /// Average interval in cycles (rounds down): tREFI / factor.
    pub interval: u32,
}

/// Refresh of one bank (REFpb), or of the bank of one number in every group (REFsb); its times are in [`Timing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankRefresh {
    /// REFsb instead of REFpb.
    pub same_bank: bool,
    /// Commands that each bank needs in a retention window.
    pub commands: u32,
    /// Average interval between two refreshes of the same bank, in cycles (rounds down). A rank gets a command each
    /// `interval / banks`, where same-bank refresh counts the banks of one group.
    pub interval: u32,
}

/// Supply currents of one device in microamperes, as in a data sheet, and the voltage.
///
/// Of DDR4 and later only VDD counts; VPP is left out. Names are JEDEC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Currents {
    /// VDD in millivolts.
    pub vdd_mv: u32,
    /// One bank opened and closed over and over, each tRC.
    pub idd0_ua: u32,
    /// All banks closed, clock running.
    pub idd2n_ua: u32,
    /// Banks open, clock running.
    pub idd3n_ua: u32,
    /// Gapless reads.
    pub idd4r_ua: u32,
    /// Gapless writes.
    pub idd4w_ua: u32,
    /// All-bank refresh over and over, each tRFC.
    pub idd5ab_ua: u32,
    /// Refresh of single banks over and over, each tRFCpb; `None` where it is not published.
    pub idd5pb_ua: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    family: String,
    speed_bin: String,
    default_density_gbit: u32,
    default_device_bits: u32,
    clock: ClockEntry,
    bus: BusEntry,
    timing: TimingEntry,
    page: Vec<PageEntry>,
    refresh: RefreshEntry,
    density: Vec<DensityEntry>,
    device: Vec<DeviceEntry>,
    #[serde(default)]
    currents: Vec<CurrentsEntry>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockEntry {
    period_ps: (u64, u64),
    source: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BusEntry {
    width_bits: u32,
    burst_length: u32,
    source: String,
}

/// A constraint: the greater of a time and a number of cycles, plus a fixed number of cycles.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    #[serde(default)]
    ps: u64,
    #[serde(default)]
    ck: u64,
    #[serde(default)]
    plus_ck: u64,
    source: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimingEntry {
    cl: Span,
    cwl: Span,
    rcd: Span,
    rp: Span,
    rp_ab: Span,
    ras: Span,
    rc: Span,
    ccd_s: Span,
    ccd_l: Span,
    ccd_s_wr: Span,
    ccd_l_wr: Span,
    wr: Span,
    wtr_s: Span,
    wtr_l: Span,
    rtp: Span,
    rtrs: Span,
    /// Idle cycles between read and write data: read to write is CL + BL/2 + this - CWL.
    turnaround: Span,
    ppd: Span,
}

/// Constraints that depend on the size of a device's row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageEntry {
    bytes: u64,
    rrd_s: Span,
    rrd_l: Span,
    faw: Span,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RefreshEntry {
    window_ps: u64,
    commands: u32,
    postponed_max: u32,
    pulled_in_max: u32,
    interval: Span,
    source: String,
    bank: Option<BankRefreshEntry>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BankRefreshEntry {
    same_bank: bool,
    commands: u32,
    interval: Span,
    pbr2act: Span,
    /// If it is missing, the next bank's refresh waits for this one's (tRFCpb).
    pbr2pbr: Option<Span>,
    source: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct DensityEntry {
    gbit: u32,
    rfc: Span,
    rfc2: Option<Span>,
    rfc4: Option<Span>,
    rfc_pb: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceEntry {
    density_gbit: u32,
    device_bits: u32,
    bank_groups: u32,
    banks_per_group: u32,
    rows: u32,
    columns: u32,
    source: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurrentsEntry {
    density_gbit: u32,
    device_bits: u32,
    vdd_mv: u32,
    idd0_ua: u32,
    idd2n_ua: u32,
    idd3n_ua: u32,
    idd4r_ua: u32,
    idd4w_ua: u32,
    idd5ab_ua: u32,
    #[serde(default)]
    idd5pb_ua: Option<u32>,
    source: String,
}

impl Standard {
    /// Walks the names of the standards that come with memtint, sorted.
    pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
        STANDARDS.iter().map(|&(name, _)| name)
    }

    /// Gives the text of a standard that comes with memtint, as a template for others.
    #[must_use]
    pub fn text(name: &str) -> Option<&'static str> {
        STANDARDS.iter().find(|&&(known, _)| known == name).map(|&(_, text)| text)
    }

    /// Loads a standard by its name, or a file by its path: one with a slash in it, or that ends in `.toml`.
    ///
    /// # Errors
    /// [`DramError`]: no such name, a file that cannot be read, or the first fault of its text.
    pub fn load(name_or_path: &str) -> Result<Standard, DramError> {
        if name_or_path.contains('/') || name_or_path.ends_with(".toml") {
            return Standard::parse(&read_file(Path::new(name_or_path))?, name_or_path);
        }
        let text = Standard::text(name_or_path).ok_or_else(|| DramError::UnknownStandard {
            spec: name_or_path.to_owned(),
            known: Standard::names().collect::<Vec<_>>().join(", "),
        })?;
        Standard::parse(text, name_or_path)
    }

    /// Reads and verifies the text of a standard's file; `origin` names it in messages.
    ///
    /// Builds every device of the file once, so that a later choice can fail only if the device is missing.
    ///
    /// # Errors
    /// [`DramError`] with the first fault found.
    pub fn parse(text: &str, origin: &str) -> Result<Standard, DramError> {
        let file: File = toml::from_str(text).map_err(|source: toml::de::Error| {
            let end = source.span().map_or(text.len(), |span| span.start.min(text.len()));
            let line = text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count() + 1;
            DramError::Syntax { origin: origin.to_owned(), line, message: source.message().to_owned() }
        })?;
        let refuse = |field: &str, found: String, accepted: &str| field_error(origin, field, found, accepted);
        let (numerator, denominator) = file.clock.period_ps;
        let in_range = (1..=1_000_000).contains(&numerator) && (1..=1_000_000).contains(&denominator);
        let clock = Clock::new(numerator, denominator).filter(|_| in_range).ok_or_else(|| {
            refuse("clock.period_ps", format!("[{numerator}, {denominator}]"), "two numbers from 1 to 1000000")
        })?;
        let standard = Standard { file, clock, origin: origin.to_owned() };
        standard.verify_tables()?;
        for entry in &standard.file.device {
            standard.assemble(entry, 1)?;
        }
        let (density, bits) = (standard.file.default_density_gbit, standard.file.default_device_bits);
        standard.entry(density, bits).map(|_| ()).ok_or_else(|| {
            refuse("default_density_gbit", format!("{density} with {bits} bits"), &standard.choices())
        })?;
        Ok(standard)
    }

    /// Gives the name, such as `ddr4-2400`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Gives the family, such as `DDR4`.
    #[must_use]
    pub fn family(&self) -> &str {
        &self.file.family
    }

    /// Gives the speed bin, such as `DDR4-2400T (17-17-17)`.
    #[must_use]
    pub fn speed_bin(&self) -> &str {
        &self.file.speed_bin
    }

    /// Walks density in gibibits and width in bits of every device of the standard, in the order of the file.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.file.device.iter().map(|entry| (entry.density_gbit, entry.device_bits))
    }

    /// Builds a device.
    ///
    /// # Errors
    /// [`DramError::NoDevice`] when the standard has no device of this density and width, [`DramError::Field`] when
    /// the number of ranks is not from 1 to 16.
    pub fn device(&self, choice: DeviceChoice) -> Result<Device, DramError> {
        let density = choice.density_gbit.unwrap_or(self.file.default_density_gbit);
        let bits = choice.device_bits.unwrap_or(self.file.default_device_bits);
        if !(1..=16).contains(&choice.ranks) {
            return Err(self.refuse("ranks", choice.ranks, "1 to 16"));
        }
        let entry = self.entry(density, bits).ok_or_else(|| DramError::NoDevice {
            standard: self.file.name.clone(),
            density_gbit: density,
            device_bits: bits,
            accepted: self.choices(),
        })?;
        self.assemble(entry, choice.ranks)
    }

    fn entry(&self, density_gbit: u32, device_bits: u32) -> Option<&DeviceEntry> {
        let wanted = |entry: &&DeviceEntry| (entry.density_gbit, entry.device_bits) == (density_gbit, device_bits);
        self.file.device.iter().find(wanted)
    }

    fn choices(&self) -> String {
        let names = self.devices().map(|(density, bits)| format!("{density}Gb x{bits}"));
        names.collect::<Vec<_>>().join(", ")
    }

    fn refuse(&self, field: &str, found: impl ToString, accepted: &str) -> DramError {
        field_error(&self.origin, field, found.to_string(), accepted)
    }

    /// Checks the parts that belong to no single device.
    fn verify_tables(&self) -> Result<(), DramError> {
        let file = &self.file;
        let plain = |text: &str| {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
            !text.is_empty() && text.len() <= 64 && text.chars().all(fits)
        };
        if !plain(&file.name) {
            return Err(self.refuse("name", format!("{:?}", file.name), "1 to 64 of a-z, 0-9, dash and dot"));
        }
        let bus = &file.bus;
        if !bus.burst_length.is_power_of_two() || !(2..=64).contains(&bus.burst_length) {
            return Err(self.refuse("bus.burst_length", bus.burst_length, "a power of two from 2 to 64"));
        }
        if !bus.width_bits.is_power_of_two() || !(8..=1024).contains(&bus.width_bits) {
            return Err(self.refuse("bus.width_bits", bus.width_bits, "a power of two from 8 to 1024"));
        }
        let refresh = &file.refresh;
        if !(1..=1 << 20).contains(&refresh.commands) {
            return Err(self.refuse("refresh.commands", refresh.commands, "1 to 1048576"));
        }
        if !(1_000_000..=10_000_000_000_000).contains(&refresh.window_ps) {
            return Err(self.refuse("refresh.window_ps", refresh.window_ps, "one microsecond to ten seconds"));
        }
        for (field, value) in
            [("refresh.postponed_max", refresh.postponed_max), ("refresh.pulled_in_max", refresh.pulled_in_max)]
        {
            if value > 64 {
                return Err(self.refuse(field, value, "0 to 64"));
            }
        }
        self.no_twins("device", file.device.iter().map(|entry| (entry.density_gbit, entry.device_bits)))?;
        self.no_twins("currents", file.currents.iter().map(|entry| (entry.density_gbit, entry.device_bits)))?;
        self.no_twins("density", file.density.iter().map(|entry| (entry.gbit, 0)))?;
        self.no_twins("page", file.page.iter().map(|entry| (entry.bytes, 0)))?;
        self.currents_belong_to_devices()
    }

    fn no_twins<T: PartialEq>(&self, table: &str, keys: impl Iterator<Item = T>) -> Result<(), DramError> {
        let mut seen = Vec::new();
        for (index, key) in keys.enumerate() {
            if let Some(first) = seen.iter().position(|known| *known == key) {
                let found = format!("the same as {table}[{first}]");
                return Err(self.refuse(&format!("{table}[{index}]"), found, "each of them once"));
            }
            seen.push(key);
        }
        Ok(())
    }

    fn currents_belong_to_devices(&self) -> Result<(), DramError> {
        for (index, entry) in self.file.currents.iter().enumerate() {
            if self.entry(entry.density_gbit, entry.device_bits).is_none() {
                let found = format!("{}Gb x{}", entry.density_gbit, entry.device_bits);
                return Err(self.refuse(&format!("currents[{index}]"), found, &self.choices()));
            }
        }
        Ok(())
    }

    fn assemble(&self, entry: &DeviceEntry, ranks: u32) -> Result<Device, DramError> {
        let mut build = Build { standard: self, sources: Vec::new() };
        build.note("clock", &self.file.clock.source);
        build.note("bus", &self.file.bus.source);
        build.note("device", &entry.source);
        let geometry = build.geometry(entry, ranks)?;
        let mut timing = build.timing(entry)?;
        let refresh = build.refresh(entry, &mut timing)?;
        build.consistent(&timing, &refresh)?;
        let currents = build.currents(entry, &timing)?;
        let name = format!("{} {}Gb x{}", self.file.name, entry.density_gbit, entry.device_bits);
        Ok(Device { name, clock: self.clock, geometry, timing, refresh, currents, sources: build.sources })
    }
}

/// Builds one device and records the sources of its facts.
struct Build<'a> {
    standard: &'a Standard,
    sources: Vec<(String, String)>,
}

impl Build<'_> {
    fn note(&mut self, field: &str, source: &str) {
        self.sources.push((field.to_owned(), source.to_owned()));
    }

    /// Cycles of a constraint; rounds up.
    fn cycles(&mut self, field: &str, span: &Span) -> Result<u32, DramError> {
        let covering = self.standard.clock.cycles_covering(Picoseconds(span.ps.min(1 << 40)));
        let cycles = covering.max(span.ck).saturating_add(span.plus_ck);
        self.bounded(field, cycles, span)
    }

    /// Whole cycles within a maximum; rounds down.
    fn cycles_within(&mut self, field: &str, span: &Span) -> Result<u32, DramError> {
        let within = self.standard.clock.cycles_within(Picoseconds(span.ps.min(1 << 40)));
        self.bounded(field, within.max(span.ck).saturating_add(span.plus_ck), span)
    }

    fn bounded(&mut self, field: &str, cycles: u64, span: &Span) -> Result<u32, DramError> {
        if !(1..=CYCLES_MAX).contains(&cycles) {
            let accepted = format!("1 to {CYCLES_MAX} cycles, from ps, ck and plus_ck");
            return Err(self.standard.refuse(field, format!("{cycles} cycles"), &accepted));
        }
        if span.source.is_empty() {
            return Err(self.standard.refuse(&format!("{field}.source"), "empty", "where the value comes from"));
        }
        self.note(field, &span.source);
        Ok(cycles as u32)
    }

    fn geometry(&self, entry: &DeviceEntry, ranks: u32) -> Result<Geometry, DramError> {
        let bus = &self.standard.file.bus;
        let device = |field: &str| format!("device {}Gb x{}: {field}", entry.density_gbit, entry.device_bits);
        let refuse =
            |field: &str, found: u64, accepted: &str| Err(self.standard.refuse(&device(field), found, accepted));
        if !(1..=1024).contains(&entry.density_gbit) {
            return refuse("density_gbit", u64::from(entry.density_gbit), "1 to 1024");
        }
        for (field, value, most) in [
            ("device_bits", entry.device_bits, bus.width_bits),
            ("bank_groups", entry.bank_groups, 64),
            ("banks_per_group", entry.banks_per_group, 64),
            ("columns", entry.columns, 1 << 20),
        ] {
            if !value.is_power_of_two() || value > most {
                return refuse(field, u64::from(value), &format!("a power of two up to {most}"));
            }
        }
        if entry.columns < bus.burst_length {
            return refuse("columns", u64::from(entry.columns), "at least a burst");
        }
        // JEDEC has densities of 6 and 12 Gb: rows need not be a power of two.
        if !(1..=1 << 26).contains(&entry.rows) {
            return refuse("rows", u64::from(entry.rows), "1 to 67108864");
        }
        let per_row = u64::from(entry.columns) * u64::from(entry.device_bits);
        let banks = u64::from(entry.bank_groups) * u64::from(entry.banks_per_group);
        let bits = u128::from(per_row) * u128::from(entry.rows) * u128::from(banks);
        if bits != u128::from(entry.density_gbit) << 30 {
            let found = format!("{bits} bits = groups x banks x rows x columns x width");
            let accepted = format!("{} bits", u128::from(entry.density_gbit) << 30);
            return Err(self.standard.refuse(&device("density_gbit"), found, &accepted));
        }
        Ok(Geometry {
            ranks,
            bank_groups: entry.bank_groups,
            banks_per_group: entry.banks_per_group,
            rows: entry.rows,
            columns: entry.columns,
            bus_bits: bus.width_bits,
            device_bits: entry.device_bits,
            burst_length: bus.burst_length,
        })
    }

    /// Everything except refresh, whose fields stay zero.
    fn timing(&mut self, entry: &DeviceEntry) -> Result<Timing, DramError> {
        let standard = self.standard;
        let t = &standard.file.timing;
        let bytes = u64::from(entry.columns) * u64::from(entry.device_bits) / 8;
        let page = standard.file.page.iter().find(|page| page.bytes == bytes).ok_or_else(|| {
            let accepted =
                format!("an entry for rows of {bytes} bytes, which the device of x{} has", entry.device_bits);
            standard.refuse("page", "without it", &accepted)
        })?;
        let burst = standard.file.bus.burst_length / 2;
        let cl = self.cycles("timing.cl", &t.cl)?;
        let cwl = self.cycles("timing.cwl", &t.cwl)?;
        let turnaround = self.cycles("timing.turnaround", &t.turnaround)?;
        let rtw = (cl + burst + turnaround).checked_sub(cwl).filter(|&rtw| rtw > 0).ok_or_else(|| {
            standard.refuse(
                "timing.cwl",
                cwl,
                &format!("less than cl + BL/2 + turnaround = {}", cl + burst + turnaround),
            )
        })?;
        Ok(Timing {
            cl,
            cwl,
            burst,
            rcd: self.cycles("timing.rcd", &t.rcd)?,
            rp: self.cycles("timing.rp", &t.rp)?,
            rp_ab: self.cycles("timing.rp_ab", &t.rp_ab)?,
            ras: self.cycles("timing.ras", &t.ras)?,
            rc: self.cycles("timing.rc", &t.rc)?,
            ccd_s: self.cycles("timing.ccd_s", &t.ccd_s)?,
            ccd_l: self.cycles("timing.ccd_l", &t.ccd_l)?,
            ccd_s_wr: self.cycles("timing.ccd_s_wr", &t.ccd_s_wr)?,
            ccd_l_wr: self.cycles("timing.ccd_l_wr", &t.ccd_l_wr)?,
            rrd_s: self.cycles("page.rrd_s", &page.rrd_s)?,
            rrd_l: self.cycles("page.rrd_l", &page.rrd_l)?,
            faw: self.cycles("page.faw", &page.faw)?,
            wr: self.cycles("timing.wr", &t.wr)?,
            wtr_s: self.cycles("timing.wtr_s", &t.wtr_s)?,
            wtr_l: self.cycles("timing.wtr_l", &t.wtr_l)?,
            rtp: self.cycles("timing.rtp", &t.rtp)?,
            rtrs: self.cycles("timing.rtrs", &t.rtrs)?,
            rtw,
            ppd: self.cycles("timing.ppd", &t.ppd)?,
            rfc: 0,
            rfc_pb: 0,
            pbr2pbr: 0,
            pbr2act: 0,
            refi: 0,
        })
    }

    fn refresh(&mut self, entry: &DeviceEntry, timing: &mut Timing) -> Result<RefreshTimes, DramError> {
        let standard = self.standard;
        let refresh = &standard.file.refresh;
        let gbit = entry.density_gbit;
        let density = standard.file.density.iter().find(|density| density.gbit == gbit).ok_or_else(|| {
            standard.refuse("density", "without it", &format!("an entry for {gbit} Gb, of which there is a device"))
        })?;
        self.note("refresh", &refresh.source);
        timing.rfc = self.cycles("density.rfc", &density.rfc)?;
        timing.refi = self.cycles_within("refresh.interval", &refresh.interval)?;
        let mut fine = Vec::new();
        for (factor, field, span) in [(2, "density.rfc2", &density.rfc2), (4, "density.rfc4", &density.rfc4)] {
            if let Some(span) = span {
                fine.push(FineRefresh { factor, rfc: self.cycles(field, span)?, interval: timing.refi / factor });
            }
        }
        Ok(RefreshTimes {
            commands: refresh.commands,
            window: Picoseconds(refresh.window_ps),
            window_cycles: standard.clock.cycles_within(Picoseconds(refresh.window_ps)),
            interval: timing.refi,
            postponed_max: refresh.postponed_max,
            pulled_in_max: refresh.pulled_in_max,
            fine,
            bank: self.bank_refresh(density, timing)?,
        })
    }

    fn bank_refresh(&mut self, density: &DensityEntry, timing: &mut Timing) -> Result<Option<BankRefresh>, DramError> {
        let (bank, rfc_pb) = match (&self.standard.file.refresh.bank, &density.rfc_pb) {
            (None, None) => return Ok(None),
            (Some(bank), Some(rfc_pb)) => (bank, rfc_pb),
            (None, Some(_)) => {
                let found = "given, without a section refresh.bank";
                return Err(self.standard.refuse("density.rfc_pb", found, "both or neither"));
            }
            (Some(_), None) => {
                let found = "missing, beside a section refresh.bank";
                return Err(self.standard.refuse("density.rfc_pb", found, "both or neither"));
            }
        };
        if !(1..=1 << 20).contains(&bank.commands) {
            return Err(self.standard.refuse("refresh.bank.commands", bank.commands, "1 to 1048576"));
        }
        self.note("refresh.bank", &bank.source);
        timing.rfc_pb = self.cycles("density.rfc_pb", rfc_pb)?;
        timing.pbr2act = self.cycles("refresh.bank.pbr2act", &bank.pbr2act)?;
        timing.pbr2pbr = match &bank.pbr2pbr {
            Some(span) => self.cycles("refresh.bank.pbr2pbr", span)?,
            None => timing.rfc_pb,
        };
        let interval = self.cycles_within("refresh.bank.interval", &bank.interval)?;
        Ok(Some(BankRefresh { same_bank: bank.same_bank, commands: bank.commands, interval }))
    }

    /// Relations that must hold between constraints; a violation is a typing error in the file.
    fn consistent(&self, timing: &Timing, refresh: &RefreshTimes) -> Result<(), DramError> {
        for (field, value, below, least) in [
            ("timing.ccd_l", timing.ccd_l, "ccd_s", timing.ccd_s),
            ("timing.ccd_l_wr", timing.ccd_l_wr, "ccd_s_wr", timing.ccd_s_wr),
            ("timing.wtr_l", timing.wtr_l, "wtr_s", timing.wtr_s),
            ("page.rrd_l", timing.rrd_l, "rrd_s", timing.rrd_s),
            ("page.faw", timing.faw, "rrd_s", timing.rrd_s),
            ("timing.rp_ab", timing.rp_ab, "rp", timing.rp),
            ("timing.rc", timing.rc, "ras", timing.ras),
            ("refresh.interval", timing.refi, "rfc", timing.rfc + 1),
        ] {
            if value < least {
                let accepted = format!("at least {least}, because of {below}");
                return Err(self.standard.refuse(field, format!("{value} cycles"), &accepted));
            }
        }
        for fine in &refresh.fine {
            if fine.interval <= fine.rfc {
                let field = format!("density.rfc{}", fine.factor);
                let accepted = format!("less than refresh.interval / {} = {}", fine.factor, fine.interval);
                return Err(self.standard.refuse(&field, format!("{} cycles", fine.rfc), &accepted));
            }
        }
        Ok(())
    }

    fn currents(&mut self, entry: &DeviceEntry, timing: &Timing) -> Result<Option<Currents>, DramError> {
        let wanted =
            |known: &&CurrentsEntry| (known.density_gbit, known.device_bits) == (entry.density_gbit, entry.device_bits);
        let Some(found) = self.standard.file.currents.iter().find(wanted) else { return Ok(None) };
        self.note("currents", &found.source);
        let currents = Currents {
            vdd_mv: found.vdd_mv,
            idd0_ua: found.idd0_ua,
            idd2n_ua: found.idd2n_ua,
            idd3n_ua: found.idd3n_ua,
            idd4r_ua: found.idd4r_ua,
            idd4w_ua: found.idd4w_ua,
            idd5ab_ua: found.idd5ab_ua,
            idd5pb_ua: found.idd5pb_ua,
        };
        currents.verify(timing).map_err(|(field, value, accepted)| {
            let field = format!("currents {}Gb x{}: {field}", entry.density_gbit, entry.device_bits);
            self.standard.refuse(&field, value, &accepted)
        })?;
        Ok(Some(currents))
    }
}

impl Currents {
    /// Checks ranges, and that no command yields energy; otherwise gives field, value and accepted values.
    pub(crate) fn verify(&self, timing: &Timing) -> Result<(), (&'static str, u32, String)> {
        if !(100..=10_000).contains(&self.vdd_mv) {
            return Err(("vdd_mv", self.vdd_mv, "100 to 10000".to_owned()));
        }
        let idd5pb = self.idd5pb_ua.unwrap_or(self.idd5ab_ua);
        let (rest, open) = (self.idd2n_ua, self.idd3n_ua);
        let weighted =
            u64::from(open) * u64::from(timing.ras) + u64::from(rest) * u64::from(timing.rc.saturating_sub(timing.ras));
        let average = weighted.div_ceil(u64::from(timing.rc.max(1))).min(u64::from(u32::MAX)) as u32;
        for (field, value, least) in [
            ("idd2n_ua", rest, 1),
            ("idd3n_ua", open, rest),
            ("idd0_ua", self.idd0_ua, average),
            ("idd4r_ua", self.idd4r_ua, open),
            ("idd4w_ua", self.idd4w_ua, open),
            ("idd5ab_ua", self.idd5ab_ua, open),
            ("idd5pb_ua", idd5pb, open),
        ] {
            if !(least..=10_000_000).contains(&value) {
                return Err((field, value, format!("{least} to 10000000: no less than the background it adds to")));
            }
        }
        Ok(())
    }
}

fn field_error(origin: &str, field: &str, found: String, accepted: &str) -> DramError {
    DramError::Field { origin: origin.to_owned(), field: field.to_owned(), found, accepted: accepted.to_owned() }
}

fn read_file(path: &Path) -> Result<String, DramError> {
    let read = memtint_input::text(path, memtint_input::CONFIGURATION_BYTES_MAX);
    read.map_err(|error| DramError::Read { path: path.display().to_string(), reason: error.to_string() })
}
