//! The machine of the dissertation, with as many ranks and cores as a task set needs, and memory of any density.

use memtint_analysis::MemorySpec;
use memtint_dram::{Device, DeviceChoice, Standard};
use memtint_map::Platform;
use memtint_sched::{Density, RankOrder, Refresh};
use memtint_sim::scenario::{CacheSection, CacheSize, ControllerSection, Inclusion, LastLevelSize, PageName};
use memtint_units::{ByteSize, Picoseconds};
use toml::{Table, Value};

use crate::RefreshError;

/// Clock of the cores: one instruction a nanosecond. Nothing is published of the simulated core.
pub(crate) const MHZ: u32 = 1000;
/// The standard of the devices.
const STANDARD: &str = "ddr3-1600";
/// Devices that a memory without a density is made of.
const PLAIN_GBIT: u32 = 8;
/// tREFI and tRET of the standard.
const INTERVAL: u128 = 7_800_000;
const WINDOW: u128 = 64_000_000_000;
/// Address bit of the lowest rank bit ([Pan18, §4.4.2]: "the rank ID is determined by bits 15-17").
const RANK_BIT: u32 = 15;
/// Memory of a rank, at least.
pub(crate) const RANK_BYTES_MIN: u64 = 64 << 20;
/// The simulator's locks name ranks by the bits of a word.
const RANKS_MAX: u32 = 64;
/// Bank bits of a rank: 8 banks (JESD79-3).
const BANK_BITS: u32 = 3;

/// Which caches the simulated machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caches {
    /// 16 KiB, and 128 KiB behind it, 4 ways each, lines of 64 bytes ([Pan18, §4.5.1 and 5.5.1]; the ways are assumed).
    #[default]
    Dissertation,
    /// One line of 64 bytes: every reference but one to the line before goes to memory, and no task loses lines to another.
    None,
}

/// Memory and its caches.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Ranks of the only channel that hold memory. Address bits name a rank, so a channel has room for a power of two:
    /// ranks beyond this number are refreshed with the others and hold no data.
    pub ranks: u32,
    /// The devices.
    pub device: Device,
    /// Density of a device, where it is one of Table 4.1.
    pub density: Option<Density>,
    /// Retention time.
    pub retention: Picoseconds,
    /// The caches.
    pub caches: Caches,
    pub(crate) platform: Platform,
    pub(crate) standard: Standard,
    pub(crate) gbit: u32,
}

impl Hardware {
    /// Puts the machine together: DDR3-1600 with tRFC of the density, or with the values of the file.
    ///
    /// DDR3 has no fine granularity refresh: tRFC2 and tRFC4 are those of DDR4, which at 2 to 16 Gb are tRFC of a half and a
    /// quarter of the density, and are assumed to be that at 32 and 64 Gb too. A retention time other than 64 ms scales tREFI.
    ///
    /// # Errors
    ///
    /// [`RefreshError::Field`] for less than 2 ranks, or more than 64.
    pub fn new(file: &str, memory: &MemorySpec, caches: Caches, rank_bytes: u64) -> Result<Hardware, RefreshError> {
        let MemorySpec { ranks, density, t_rfc, retention, .. } = *memory;
        if !(2..=RANKS_MAX).contains(&ranks) {
            return Err(RefreshError::Field {
                file: file.to_owned(),
                field: "memory: ranks".to_owned(),
                found: ranks.to_string(),
                accepted: format!("2 to {RANKS_MAX} for a simulation"),
            });
        }
        let standard = standard(density, t_rfc, retention)?;
        let gbit = density.map_or(PLAIN_GBIT, gigabits);
        let choice = DeviceChoice { density_gbit: Some(gbit), ..DeviceChoice::default() };
        let device = standard.device(choice)?;
        let platform = platform(ranks.next_power_of_two(), rank_bytes)?;
        Ok(Hardware { ranks, device, density, retention, caches, platform, standard, gbit })
    }

    /// Gives the time to refresh this number of ranks by the timetable, in one burst or one after the other, after
    /// closing their rows. The analysis must allow for the excess over 8192 tRFC each.
    #[must_use]
    pub fn burst(&self, ranks: u32, order: RankOrder) -> Picoseconds {
        let commands = self.device.refresh.commands;
        let one = memtint_dram::Timetable::burst_cycles(&self.device, self.places(), commands, 0);
        self.device.clock.start(one * u64::from(turns(ranks, order)))
    }

    /// Ranks that the channel has room for.
    pub(crate) fn places(&self) -> u32 {
        self.ranks.next_power_of_two()
    }

    /// Gives the longest delay of a request by a due refresh, beyond tRFC: a row that has just been opened is closed
    /// (tRAS, tRP) and opened again (tRCD), and the REF of all ranks go over one bus.
    #[must_use]
    pub fn reopen(&self) -> Picoseconds {
        let timing = &self.device.timing;
        let cycles = u64::from(timing.ras + timing.rp + timing.rcd) + u64::from(self.places());
        self.device.clock.start(cycles)
    }

    /// Gives refresh by the controller, all ranks together, as a term of the analysis: tREFI, tRFC, and the longest reopening.
    ///
    /// # Errors
    ///
    /// [`RefreshError::Sched`] when tRFC leaves no time between two refreshes.
    pub fn refresh(&self) -> Result<Refresh, RefreshError> {
        let time = |cycles: u32| self.device.clock.start(cycles.into());
        let timing = &self.device.timing;
        Ok(Refresh::auto(time(timing.refi), time(timing.rfc), self.reopen())?)
    }

    /// Private caches for each core.
    pub(crate) fn cache_section(&self, cores: u32) -> CacheSection {
        let cache = |size: u64, ways| CacheSize { size: ByteSize(size), ways };
        let (first, last) = match self.caches {
            Caches::Dissertation => (cache(16 << 10, 4), cache(128 << 10, 4)),
            Caches::None => (cache(64, 1), cache(64, 1)),
        };
        CacheSection {
            // The second level is the last: the third has the latency of the second.
            latency_cycles: Some([1, 6, 6, 60, 20]),
            line: Some(ByteSize(64)),
            l1: Some(first),
            llc: Some(LastLevelSize {
                size: last.size,
                ways: last.ways,
                instances: cores,
                inclusion: Inclusion::NonInclusive,
            }),
            ..CacheSection::default()
        }
    }

    /// Rows are closed at once, so that the latency of a request does not depend on earlier requests, with or without
    /// refresh.
    pub(crate) fn controller(&self, engine: &str) -> ControllerSection {
        ControllerSection {
            page: Some(PageName::Closed),
            refresh: Some(engine.to_owned()),
            ..ControllerSection::default()
        }
    }
}

/// Gives the effect on a core of refresh by the controller, all ranks together, as a term of the analysis of
/// [`Scheme::Fgr1`]. A memory of one rank counts as one of two, which costs one more cycle of the command bus.
///
/// # Errors
///
/// As [`Hardware::new`] and [`Hardware::refresh`].
///
/// [`Scheme::Fgr1`]: crate::Scheme::Fgr1
pub fn refresh_of(file: &str, memory: &MemorySpec) -> Result<Refresh, RefreshError> {
    let memory = MemorySpec { ranks: memory.ranks.max(2), ..*memory };
    Hardware::new(file, &memory, Caches::None, RANK_BYTES_MIN)?.refresh()
}

/// Consecutive bursts that refresh this number of ranks.
pub(crate) fn turns(ranks: u32, order: RankOrder) -> u32 {
    match order {
        RankOrder::Parallel => 1,
        RankOrder::Serial => ranks,
    }
}

/// Gives the number of a density.
#[must_use]
pub fn gigabits(density: Density) -> u32 {
    match density {
        Density::Gb1 => 1,
        Density::Gb2 => 2,
        Density::Gb4 => 4,
        Density::Gb8 => 8,
        Density::Gb16 => 16,
        Density::Gb32 => 32,
        Density::Gb64 => 64,
    }
}

/// tRFC2 and tRFC4 in picoseconds: JESD79-4 for 2 to 16 Gb; below, tRFC of 512 Mb (JESD79-3F) and 256 Mb (JESD79-2).
fn fine(density: Density) -> (u64, u64) {
    match density {
        Density::Gb1 => (90_000, 75_000),
        Density::Gb2 => (110_000, 90_000),
        Density::Gb4 => (160_000, 110_000),
        Density::Gb8 => (260_000, 160_000),
        Density::Gb16 => (350_000, 260_000),
        Density::Gb32 => (550_000, 350_000),
        Density::Gb64 => (1_000_000, 550_000),
    }
}

/// The standard with tRFC, tREFI and tRET changed.
fn standard(
    density: Option<Density>,
    t_rfc: Picoseconds,
    retention: Picoseconds,
) -> Result<Standard, memtint_dram::DramError> {
    let text = Standard::text(STANDARD).expect("it comes with memtint");
    let mut table: Table = text.parse().expect("it is TOML");
    let time = |ps: u64| {
        let mut span = Table::new();
        span.insert("ps".to_owned(), Value::Integer(i64::try_from(ps).unwrap_or(i64::MAX)));
        span.insert("source".to_owned(), Value::String("the task set".to_owned()));
        Value::Table(span)
    };
    let gbit = i64::from(density.map_or(PLAIN_GBIT, gigabits));
    if let Some(Value::Array(entries)) = table.get_mut("density") {
        for entry in entries.iter_mut().filter_map(Value::as_table_mut) {
            if entry.get("gbit") == Some(&Value::Integer(gbit)) {
                entry.insert("rfc".to_owned(), time(t_rfc.0));
                if let Some((two, four)) = density.map(fine) {
                    entry.insert("rfc2".to_owned(), time(two));
                    entry.insert("rfc4".to_owned(), time(four));
                }
            }
        }
    }
    if let Some(Value::Table(refresh)) = table.get_mut("refresh") {
        let window = i64::try_from(retention.0).unwrap_or(i64::MAX);
        refresh.insert("window_ps".to_owned(), Value::Integer(window));
        let interval = u64::try_from(u128::from(retention.0) * INTERVAL / WINDOW).unwrap_or(u64::MAX);
        refresh.insert("interval".to_owned(), time(interval));
    }
    Standard::parse(&table.to_string(), &format!("{STANDARD}, as the task set has it"))
}

/// A channel with this number of ranks: the platform `simplescalar-rtmemcontroller` with other ranks, and banks in
/// them.
fn platform(ranks: u32, rank_bytes: u64) -> Result<Platform, memtint_map::PlatformError> {
    let rank_bits = ranks.ilog2();
    let functions: String = (0..rank_bits)
        .map(|bit| ("rank", RANK_BIT + bit))
        .chain((0..BANK_BITS).map(|bit| ("bank", RANK_BIT + rank_bits + bit)))
        .map(|(role, bit)| format!("{{ role = \"{role}\", bits = [{bit}] }},\n"))
        .collect();
    let bytes = rank_bytes.next_power_of_two() * u64::from(ranks);
    let source = "source = \"[Pan18, §4.4.2 and 4.5.1]; banks above the rank bits are assumed\"";
    let text = format!(
        "schema = 1\nid = \"dissertation-{ranks}-ranks\"\nname = \"the machine of [Pan18] with {ranks} ranks\"\n\
         [dram]\nstandard = \"DDR3\"\nchannels = 1\nranks = {ranks}\nbanks = 8\naddress_bits = {}\n\
         functions = [\n{functions}]\ncomplete = false\nsource_kind = \"paper\"\n{source}\n\
         [[region]]\nbase = 0\nsize = \"{} MiB\"\nassumed = true\n{source}\n",
        bytes.ilog2(),
        bytes >> 20
    );
    Platform::parse(&text, "the simulated machine")
}
