//! A platform file for this machine with bank functions borrowed from a relative.

use memtint_map::file::{
    CacheKind as FileCacheKind, CacheSection, CoresSection, LlcSection, PlatformFile, RegionSection, SCHEMA, SliceHash,
};
use memtint_map::{Platform, PlatformError};
use memtint_units::ByteSize;

use crate::machine::{Machine, MemoryRange};
use crate::sysfs::{Cache, CacheKind};

/// Why no platform file can be written.
#[derive(Debug)]
pub enum BorrowError {
    /// The caller may not read the addresses of memory.
    NoMemory,
    /// The assembled file is not a valid platform.
    Invalid(Box<PlatformError>),
}

impl std::fmt::Display for BorrowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoMemory => f.write_str(
                "/proc/iomem shows no addresses of memory: reading them needs CAP_SYS_ADMIN, for instance as root",
            ),
            Self::Invalid(cause) => cause.fmt(f),
        }
    }
}

impl std::error::Error for BorrowError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoMemory => None,
            Self::Invalid(cause) => Some(cause),
        }
    }
}

/// Assembles a platform file: memory, cores and caches from the machine, bank functions from `relative`, and, if
/// `cache_of` is given, the last-level cache of that platform in place of the machine's.
///
/// Each section names its source; borrowed and derived facts are marked "assumed". Physical addresses are taken as DRAM
/// addresses, because the machine does not report the offset it subtracts. The resulting file is a valid platform.
///
/// # Errors
///
/// [`BorrowError::NoMemory`] for an unprivileged caller.
pub fn assumed_platform(
    machine: &Machine,
    relative: &Platform,
    cache_of: Option<&Platform>,
) -> Result<PlatformFile, BorrowError> {
    if machine.memory.is_empty() {
        return Err(BorrowError::NoMemory);
    }
    let borrowed = relative.file();
    let mut dram = borrowed.dram.clone();
    dram.source = format!("assumed: borrowed from platform {}, not measured here ({})", relative.id(), dram.source);
    dram.source_kind = Some("assumed".to_owned());
    for function in &mut dram.functions {
        function.assumed = true;
    }
    let interleave = borrowed.region.first().and_then(|region| region.interleave.clone());
    let pieces = machine.memory.iter().flat_map(|range| pieces(range, relative.address_bits()));
    let regions = pieces.map(|range| RegionSection {
        base: ByteSize(range.start),
        size: ByteSize(range.end - range.start),
        node: range.node,
        dram_base: None,
        interleave: interleave.clone(),
        assumed: false,
        source: "/proc/iomem of this machine; that DRAM addresses equal physical addresses is assumed".to_owned(),
    });
    let file = PlatformFile {
        schema: SCHEMA,
        id: format!("this-machine-as-{}", relative.id()),
        name: format!("This machine ({}), with bank functions of {}", processor_name(machine), relative.id()),
        uarch: borrowed.uarch.clone(),
        notes: Some(format!(
            "Bank functions are assumed: borrowed from platform {} and not measured on this machine. Good for trying \
             memtint and for virtual machines; no isolation of banks follows from it until a probe has confirmed it.",
            relative.id()
        )),
        dram,
        region: regions.collect(),
        llc: match cache_of {
            Some(other) => other.llc().map(|llc| borrowed_cache(llc, other.id())),
            None => machine.last_level_section(),
        },
        cache: machine.cache_sections(),
        cores: machine.cores_section(),
    };
    Platform::from_file(file.clone(), "this machine").map_err(|cause| BorrowError::Invalid(Box::new(cause)))?;
    Ok(file)
}

/// Splits a range at multiples of `2^address_bits`: functions are known below it only, and each further piece of memory
/// repeats them.
fn pieces(range: &MemoryRange, address_bits: u32) -> Vec<MemoryRange> {
    let period = 1u64 << address_bits.min(63);
    let mut pieces = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min((start / period).saturating_add(1).saturating_mul(period));
        pieces.push(MemoryRange { start, end, node: range.node });
        start = end;
    }
    pieces
}

fn processor_name(machine: &Machine) -> String {
    let Some(processor) = &machine.processor else { return "unknown processor".to_owned() };
    if processor.brand.is_empty() { processor.vendor.clone() } else { processor.brand.clone() }
}

/// Properties of the machine, as sections of a platform file.
impl Machine {
    /// Returns its cores; `None` when unknown.
    #[must_use]
    pub fn cores_section(&self) -> Option<CoresSection> {
        let cores = &self.cores;
        (cores.cores > 0).then(|| CoresSection {
            count: cores.cores,
            threads_per_core: Some((cores.online_cpus / cores.cores).max(1)),
            sockets: Some(cores.sockets),
            source: "sysfs of this machine".to_owned(),
        })
    }

    /// Returns its caches except the last level.
    #[must_use]
    pub fn cache_sections(&self) -> Vec<CacheSection> {
        let last = self.last_level_cache().map(|cache| cache.level);
        let inner = self.caches.iter().filter(|cache| Some(cache.level) != last);
        inner
            .map(|cache| CacheSection {
                level: cache.level,
                kind: match cache.kind {
                    CacheKind::Data => FileCacheKind::Data,
                    CacheKind::Instruction => FileCacheKind::Instruction,
                    CacheKind::Unified => FileCacheKind::Unified,
                },
                size: ByteSize(cache.size_bytes),
                ways: cache.ways,
                line: cache.line_bytes.map(|bytes| ByteSize(u64::from(bytes))),
                set_bits: Vec::new(),
                shared_by: Some(cache.shared_by_cpus.max(1)),
                source: "sysfs of this machine; shared_by counts hardware threads".to_owned(),
            })
            .collect()
    }

    /// Returns the known properties of its last-level cache; `None` when there are none. Slices and set bits, where
    /// given, are assumed; see the section's source.
    #[must_use]
    pub fn last_level_section(&self) -> Option<LlcSection> {
        self.last_level_cache().and_then(|cache| last_level_cache(self, cache))
    }
}

fn borrowed_cache(llc: &LlcSection, id: &str) -> LlcSection {
    let source = format!("assumed: borrowed from platform {id}, not this machine's ({})", llc.source);
    LlcSection { assumed: true, source, ..llc.clone() }
}

/// Sets of a slice in Intel's sliced caches from Nehalem's successors on, where the index is the bits above the line.
const INTEL_SLICE_SETS: u32 = 2048;

/// The machine reports size, ways, line size and sets, but neither slices nor their hash. For Intel's sliced caches the
/// index within a slice is well established, so it is included as assumed; for other caches there are no set bits.
fn last_level_cache(machine: &Machine, cache: &Cache) -> Option<LlcSection> {
    let line = cache.line_bytes?;
    let intel =
        machine.processor.as_ref().is_some_and(|processor| processor.vendor == "GenuineIntel" && processor.family == 6);
    let slices = cache.sets.filter(|sets| intel && cache.level == 3 && line == 64 && sets % INTEL_SLICE_SETS == 0);
    let slices = slices.map(|sets| sets / INTEL_SLICE_SETS);
    let line_bits = line.trailing_zeros();
    let set_bits = match slices {
        Some(_) => (line_bits..line_bits + INTEL_SLICE_SETS.trailing_zeros()).collect(),
        None => Vec::new(),
    };
    let source = match slices {
        Some(slices) => format!(
            "size, ways and line: sysfs of this machine; {slices} slices of {INTEL_SLICE_SETS} sets, indexed by the bits above \
             the line: assumed, as in Intel's sliced caches"
        ),
        None => "size, ways and line: sysfs of this machine".to_owned(),
    };
    Some(LlcSection {
        size: Some(ByteSize(cache.size_bytes)),
        ways: cache.ways,
        line: ByteSize(u64::from(line)),
        slices,
        instances: Some(cache.instances),
        set_bits,
        slice_functions: Vec::new(),
        hash: SliceHash::Unknown,
        formula: None,
        assumed: slices.is_some(),
        not_modelled: Some("which slice an address is in: the machine does not say".to_owned()),
        source,
    })
}
