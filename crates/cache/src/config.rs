//! The configuration of a hierarchy, and the part of it from a platform file.

use crate::array::all_ways;
use crate::error::{CacheError, refuse};
use crate::index::SetIndex;
use crate::stats::Level;
use crate::uarch;
use memtint_map::file::{CacheKind, CacheSection};
use memtint_map::{Platform, SliceHash};
use memtint_units::{ByteSize, PhysAddr};
use serde::{Deserialize, Serialize};

/// At most this many ways.
pub const WAYS_MAX: u32 = 128;
/// At most this many ways with [`Replacement::TreePlru`].
pub const PLRU_WAYS_MAX: u32 = 64;
/// At most this many cores.
pub const CORES_MAX: u32 = 1024;
/// At most this many classes of tasks.
pub const CLASSES_MAX: u32 = 256;

/// The class of an access: the unit of way masks and of occupancy, like a class of service of Intel's CAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskClass(pub u8);

/// Ways of the last-level cache, as bits: bit 0 is way 0. Need not be contiguous, unlike Intel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WayMask(pub u128);

/// Which line of a set is replaced. Invalid ways are always filled first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The least recently used.
    #[default]
    Lru,
    /// The one that a binary tree of bits points to; ways must be a power of two up to [`PLRU_WAYS_MAX`].
    TreePlru,
    /// A random one, uniformly distributed, from the seed.
    Random,
}

/// Relation between the lines of the last level and those of private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inclusion {
    /// Every private line is in the last level too; an eviction from it also removes the line from private caches.
    Inclusive,
    /// Filled on a miss like an inclusive one, but lines that it evicts stay in private caches. Clean private victims
    /// are dropped; dirty ones are written to it (and allocated when absent).
    NonInclusive,
    /// A victim cache: a hit moves the line to the private caches, misses bypass it, and all victims of the outermost
    /// private cache, clean or dirty, are inserted into it. A line is never in it and in the same core's outermost
    /// private cache.
    Exclusive,
}

/// One cache. Its size is `2^(index bits) × ways × line`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Bytes, all slices together.
    pub size: ByteSize,
    /// Associativity, 1 to [`WAYS_MAX`].
    pub ways: u32,
    /// Physical address bits that index the set; empty: the bits right above the line.
    pub set_bits: Vec<u32>,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Miss registers, at least 1.
    pub mshrs: u32,
}

/// The last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlcConfig {
    /// Size and index of one instance, all slices together.
    pub cache: CacheConfig,
    /// XOR functions of physical address bits that select the slice; empty: one slice.
    pub slice_functions: Vec<Vec<u32>>,
    /// Number of instances; each serves `cores / instances` cores with consecutive numbers.
    pub instances: u32,
    /// Relation to the private caches.
    pub inclusion: Inclusion,
    /// Source of the inclusion, or `assumed`.
    pub inclusion_source: String,
    /// Ways that each class may fill, by class; classes beyond the list may use all. Hits are not restricted, as with
    /// Intel's CAT. Dirty or displaced private lines go into the ways of their owner's class.
    pub way_masks: Vec<WayMask>,
}

/// Cycles of the core clock from issue to use. The hierarchy itself does not model time: callers add these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// First-level hit.
    pub l1_cycles: u32,
    /// Second-level hit.
    pub l2_cycles: u32,
    /// Last-level hit.
    pub llc_cycles: u32,
    /// Response of another core's cache, without the hop between nodes.
    pub peer_cycles: u32,
    /// On-chip part of a memory read, without the time in controller and DRAM.
    pub memory_cycles: u32,
    /// Source of the numbers, or `assumed`; from a platform, also the source of the miss registers.
    pub source: String,
}

impl Latencies {
    /// Returns the cycles of a response from a level; for memory, the on-chip part.
    #[inline]
    #[must_use]
    pub fn cycles(&self, level: Level) -> u32 {
        match level {
            Level::L1 => self.l1_cycles,
            Level::L2 => self.l2_cycles,
            Level::Llc => self.llc_cycles,
            Level::Peer => self.peer_cycles,
            Level::Memory => self.memory_cycles,
        }
    }
}

/// Prefetchers of each core, trained by the accesses that miss its first level. They bring lines to the second level
/// (to the first data cache without one), and never leave the 4 KiB page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchConfig {
    /// Propose the next line after each access that also missed the second level.
    pub next_line: bool,
    /// Follow strides.
    pub stride: Option<StrideConfig>,
}

/// The stride prefetcher: no program counter, one stream for each of the most recently accessed pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrideConfig {
    /// Pages tracked at once, 1 to 64; the one without a miss for longest is replaced.
    pub streams: u32,
    /// How many times in a row the same stride must occur before it is used, 1 to 255.
    pub confidence: u32,
    /// Lines proposed on each trained access, 1 to 3.
    pub degree: u32,
}

/// A machine's caches.
///
/// All caches have one line size. Indexing is physical at every level: exact for caches whose set bits lie inside the
/// page or that are physically indexed; an approximation for virtually indexed first levels with larger ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HierarchyConfig {
    /// Bytes of a line, a power of two from 16 to 4096.
    pub line: ByteSize,
    /// Cores, 1 to [`CORES_MAX`].
    pub cores: u32,
    /// Classes of tasks, 1 to [`CLASSES_MAX`].
    pub classes: u32,
    /// First-level data cache of each core; it also serves fetches if there is no instruction cache.
    pub l1_data: CacheConfig,
    /// First-level instruction cache of each core.
    pub l1_instruction: Option<CacheConfig>,
    /// Second-level cache of each core.
    pub l2: Option<CacheConfig>,
    /// Last-level cache.
    pub llc: LlcConfig,
    /// Whether cores share lines. `true`: copies are snooped, and invalidated as writes require. `false`: each core is
    /// assumed to have its lines exclusively, which is faster, and wrong when two cores write to one line.
    pub coherent: bool,
    /// Prefetchers.
    pub prefetch: PrefetchConfig,
    /// Latencies, for the caller.
    pub latencies: Latencies,
    /// Addresses end here (excluded); unit: bytes.
    pub address_end: u64,
    /// Seed of random replacement.
    pub seed: u64,
}

impl HierarchyConfig {
    /// Builds the configuration from the caches in a platform file, for `cores` of its cores and one class of tasks.
    ///
    /// From the file: first and second levels (sections `cache`), last level with its set bits and slice functions
    /// (section `llc`), end of memory. From the table of processors in this crate (`uarch.toml`), by the file's `uarch`:
    /// inclusion, latencies, miss registers, each with its source or the word `assumed`. By default: LRU replacement,
    /// coherent, no prefetchers, seed 1; a cache without `line` has that of the last level. Inclusion is by kind of
    /// platform: inclusive for Intel's parts up to Skylake's clients, non-inclusive for Skylake-SP, exclusive (a victim
    /// cache) for AMD, and non-inclusive, assumed, for all others.
    ///
    /// # Errors
    /// [`CacheError::Platform`] with the field that is missing, or that this model cannot represent: a slice hash that
    /// is not linear, a shared or third private level, different line sizes.
    pub fn from_platform(platform: &Platform, cores: u32) -> Result<HierarchyConfig, CacheError> {
        let read = Reader { platform };
        let facts = uarch::facts(platform.file().uarch.as_deref().unwrap_or_default());
        let line = platform.llc().map_or(ByteSize(64), |llc| llc.line);
        let known = platform.cores().map_or(CORES_MAX, |section| section.count);
        if cores == 0 || cores > known {
            return read.refuse(
                "cores.count",
                known,
                format!("at least the {cores} cores asked for, which must not be 0"),
            );
        }
        let llc = LlcConfig::from_platform(platform)?;
        if !cores.is_multiple_of(llc.instances) {
            return read.refuse("llc.instances", llc.instances, format!("a divisor of the {cores} cores asked for"));
        }
        let private = read.private(line, &facts)?;
        Ok(HierarchyConfig {
            line,
            cores,
            classes: 1,
            l1_data: private.data,
            l1_instruction: private.instruction,
            l2: private.l2,
            llc,
            coherent: true,
            prefetch: PrefetchConfig::default(),
            latencies: facts.latencies,
            address_end: platform.regions().iter().map(|region| region.end().0).max().unwrap_or_default(),
            seed: 1,
        })
    }

    /// Gives the first address that no cache of this configuration can represent; tags have 32 bits.
    ///
    /// # Errors
    /// As [`Hierarchy::new`](crate::Hierarchy::new).
    pub fn address_limit(&self) -> Result<PhysAddr, CacheError> {
        let line_shift = self.line.bytes().trailing_zeros();
        let mut low_bits = self.llc.index(self.line)?.low_bits();
        let private = [
            ("l1_data", Some(&self.l1_data)),
            ("l1_instruction", self.l1_instruction.as_ref()),
            ("l2", self.l2.as_ref()),
        ];
        for (name, cache) in private {
            if let Some(cache) = cache {
                low_bits = low_bits.min(cache.index(name, self.line, &[])?.low_bits());
            }
        }
        Ok(PhysAddr(u64::from(u32::MAX) << (low_bits + line_shift).min(32)))
    }

    /// Refuses invalid settings, except those of the caches themselves.
    pub(crate) fn check(&self) -> Result<(), CacheError> {
        let line = self.line.bytes();
        if !line.is_power_of_two() || !(16..=4096).contains(&line) {
            return refuse("line", self.line, "a power of two from 16 B to 4 KiB");
        }
        for (field, value, max) in [("cores", self.cores, CORES_MAX), ("classes", self.classes, CLASSES_MAX)] {
            if value == 0 || value > max {
                return refuse(field, value, format!("1 to {max}"));
            }
        }
        let instances = self.llc.instances;
        if instances == 0 || !self.cores.is_multiple_of(instances) {
            return refuse("llc.instances", instances, format!("a divisor of the {} cores", self.cores));
        }
        if self.llc.way_masks.len() > self.classes as usize {
            let found = format!("a list of {}", self.llc.way_masks.len());
            return refuse("llc.way_masks", found, format!("at most one for each of the {} classes", self.classes));
        }
        for (class, &mask) in self.llc.way_masks.iter().enumerate() {
            self.llc.check_mask(class, mask)?;
        }
        if let Some(stride) = self.prefetch.stride {
            stride.check()?;
        }
        let limit = self.address_limit()?;
        if self.address_end == 0 || self.address_end > limit.0 {
            let accepted = format!("1 to {limit}, which is what the 32-bit tags of the smallest cache can tell apart");
            return refuse("address_end", PhysAddr(self.address_end), accepted);
        }
        Ok(())
    }
}

impl LlcConfig {
    /// Builds the last level from a platform file; see [`HierarchyConfig::from_platform`]. For machines whose file has
    /// no private caches.
    ///
    /// # Errors
    /// [`CacheError::Platform`] with the field that is missing or cannot be represented.
    pub fn from_platform(platform: &Platform) -> Result<LlcConfig, CacheError> {
        let read = Reader { platform };
        let Some(llc) = platform.llc() else {
            return read.refuse("llc", "missing", "a section with size, ways, line, set_bits and hash");
        };
        if !matches!(llc.hash, SliceHash::None | SliceHash::Linear) {
            return read.refuse("llc.hash", format!("{:?}", llc.hash).to_lowercase(), "none or linear");
        }
        if llc.set_bits.is_empty() {
            return read.refuse("llc.set_bits", "missing", "the physical address bits that index the set");
        }
        let sets = 1u64 << platform.set_masks().len();
        let bytes_per_way = sets * llc.line.bytes();
        let ways = match (llc.ways, llc.size) {
            (Some(ways), _) => ways,
            (None, Some(size)) if size.bytes().is_multiple_of(bytes_per_way) => (size.bytes() / bytes_per_way) as u32,
            (None, Some(size)) => {
                return read.refuse("llc.size", size, format!("a multiple of the way of {}", ByteSize(bytes_per_way)));
            }
            (None, None) => return read.refuse("llc.ways", "missing", "the associativity, or llc.size"),
        };
        let facts = uarch::facts(platform.file().uarch.as_deref().unwrap_or_default());
        Ok(LlcConfig {
            cache: CacheConfig {
                size: ByteSize(bytes_per_way * u64::from(ways)),
                ways,
                set_bits: llc.set_bits.clone(),
                replacement: Replacement::default(),
                mshrs: uarch::LLC_MSHRS_ASSUMED,
            },
            slice_functions: llc.slice_functions.clone(),
            instances: llc.instances.unwrap_or(1),
            inclusion: facts.inclusion,
            inclusion_source: facts.inclusion_source,
            way_masks: Vec::new(),
        })
    }

    pub(crate) fn index(&self, line: ByteSize) -> Result<SetIndex, CacheError> {
        self.cache.index("llc", line, &self.slice_functions)
    }

    pub(crate) fn check_mask(&self, class: usize, mask: WayMask) -> Result<(), CacheError> {
        let all = all_ways(self.cache.ways as usize);
        if mask.0 == 0 || mask.0 & !all != 0 {
            let accepted = format!("at least one way, all of them within {all:#x}");
            return refuse(format!("llc.way_masks[{class}]"), format!("{:#x}", mask.0), accepted);
        }
        Ok(())
    }
}

impl CacheConfig {
    /// Checks the geometry and makes the index; `name` is the field of the cache in messages.
    pub(crate) fn index(&self, name: &str, line: ByteSize, slices: &[Vec<u32>]) -> Result<SetIndex, CacheError> {
        let field = |key: &str| format!("{name}.{key}");
        if self.ways == 0 || self.ways > WAYS_MAX {
            return refuse(field("ways"), self.ways, format!("1 to {WAYS_MAX}"));
        }
        let plru = self.ways.is_power_of_two() && self.ways <= PLRU_WAYS_MAX;
        if self.replacement == Replacement::TreePlru && !plru {
            let accepted = format!("a power of two up to {PLRU_WAYS_MAX} with tree_plru, or another replacement");
            return refuse(field("ways"), self.ways, accepted);
        }
        if self.mshrs == 0 {
            return refuse(field("mshrs"), 0, "1 or more");
        }
        let line_shift = line.bytes().trailing_zeros();
        let bytes_per_set = (line.bytes() * u64::from(self.ways)) << slices.len().min(24);
        let sets = self.size.bytes() / bytes_per_set;
        if !self.size.bytes().is_multiple_of(bytes_per_set) || !sets.is_power_of_two() {
            let accepted = format!("a power of two times {} = line x ways x slices", ByteSize(bytes_per_set));
            return refuse(field("size"), self.size, accepted);
        }
        let index_bits = sets.trailing_zeros();
        let set_bits = match self.set_bits.as_slice() {
            [] => (line_shift..line_shift + index_bits).collect(),
            bits if bits.len() as u32 == index_bits => bits.to_vec(),
            bits => {
                return refuse(field("set_bits"), format!("a list of {}", bits.len()), format!("{index_bits} bits"));
            }
        };
        let mut masks = Vec::new();
        for bits in set_bits.iter().map(std::slice::from_ref).chain(slices.iter().map(Vec::as_slice)) {
            if let Some(bit) = bits.iter().find(|&&bit| bit < line_shift || bit > 63) {
                return refuse(field("set_bits"), format!("a list with bit {bit}"), format!("bits {line_shift} to 63"));
            }
            masks.push(bits.iter().fold(0, |mask, bit| mask ^ 1u64 << (bit - line_shift)));
        }
        SetIndex::new(&masks, &field("set_bits"))
    }
}

impl StrideConfig {
    fn check(self) -> Result<(), CacheError> {
        let fields = [("streams", self.streams, 64), ("confidence", self.confidence, 255), ("degree", self.degree, 3)];
        for (key, value, max) in fields {
            if value == 0 || value > max {
                return refuse(format!("prefetch.stride.{key}"), value, format!("1 to {max}"));
            }
        }
        Ok(())
    }
}

/// Reads the cache sections of one platform.
struct Reader<'a> {
    platform: &'a Platform,
}

#[derive(Default)]
struct PrivateSections<'a> {
    data: Option<(usize, &'a CacheSection)>,
    instruction: Option<(usize, &'a CacheSection)>,
    l2: Option<(usize, &'a CacheSection)>,
}

struct Private {
    data: CacheConfig,
    instruction: Option<CacheConfig>,
    l2: Option<CacheConfig>,
}

impl Reader<'_> {
    fn refuse<T>(
        &self,
        field: impl Into<String>,
        found: impl ToString,
        accepted: impl Into<String>,
    ) -> Result<T, CacheError> {
        Err(CacheError::Platform {
            platform: self.platform.id().to_owned(),
            field: field.into(),
            found: found.to_string(),
            accepted: accepted.into(),
        })
    }

    fn private(&self, line: ByteSize, facts: &uarch::Facts) -> Result<Private, CacheError> {
        let mut sections = PrivateSections::default();
        for (index, section) in self.platform.caches().iter().enumerate() {
            let place = match (section.level, section.kind) {
                (1, CacheKind::Data | CacheKind::Unified) => &mut sections.data,
                (1, CacheKind::Instruction) => &mut sections.instruction,
                (2, CacheKind::Unified) => &mut sections.l2,
                (level, kind) => {
                    let found = format!("level {level} {kind:?}").to_lowercase();
                    return self.refuse(
                        format!("cache[{index}]"),
                        found,
                        "level 1, level 2 unified; the last is in llc",
                    );
                }
            };
            if place.replace((index, section)).is_some() {
                return self.refuse(format!("cache[{index}]"), "a second cache of that kind", "one of each");
            }
        }
        let Some(data) = sections.data else {
            return self.refuse(
                "cache",
                "without a first-level data cache",
                "a [[cache]] with level = 1, kind = \"data\"",
            );
        };
        let optional = |section: Option<_>, mshrs| section.map(|section| self.cache(section, line, mshrs)).transpose();
        Ok(Private {
            data: self.cache(data, line, facts.l1_mshrs)?,
            instruction: optional(sections.instruction, facts.l1_mshrs)?,
            l2: optional(sections.l2, facts.l2_mshrs)?,
        })
    }

    fn cache(
        &self,
        (index, section): (usize, &CacheSection),
        line: ByteSize,
        mshrs: u32,
    ) -> Result<CacheConfig, CacheError> {
        let field = |key: &str| format!("cache[{index}].{key}");
        let Some(ways) = section.ways else {
            return self.refuse(field("ways"), "missing", "the associativity");
        };
        if let Some(own) = section.line.filter(|&own| own != line) {
            return self.refuse(field("line"), own, format!("{line}, the line of the last level"));
        }
        if let Some(shared_by) = section.shared_by.filter(|&shared_by| shared_by != 1) {
            return self.refuse(field("shared_by"), shared_by, "1: only the last level is shared");
        }
        let cache = CacheConfig {
            size: section.size,
            ways,
            set_bits: section.set_bits.clone(),
            replacement: Replacement::default(),
            mshrs,
        };
        match cache.index(&format!("cache[{index}]"), line, &[]) {
            Ok(_) => Ok(cache),
            Err(CacheError::Config { field, found, accepted }) => self.refuse(field, found, accepted),
            Err(other) => Err(other),
        }
    }
}
