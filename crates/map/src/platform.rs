//! The verified platform.

use crate::catalogue;
use crate::error::PlatformError;
use crate::file::{
    CacheSection, CoresSection, DramSection, FunctionSection, LlcSection, PlatformFile, RegionSection, Role, SCHEMA,
    SliceHash,
};
use crate::gf2;
use memtint_units::{ByteSize, PAGE_SIZE, PhysAddr};
use std::collections::BTreeSet;
use std::path::Path;

/// Addresses have fewer bits than this: the widest physical address of any architecture with 4 KiB pages.
pub const ADDRESS_BITS_MAX: u32 = 52;
/// At most this many bank functions, so that bank numbers of 64 domains still fit a `u32`.
pub const FUNCTIONS_MAX: usize = 20;
/// At most this many pairs of node and modulo channel.
pub const DOMAINS_MAX: usize = 64;
const INTERLEAVE_WAYS_MAX: u32 = 64;
/// Node numbers are below this, so that adding the value of node functions cannot overflow; Linux supports at most 1024
/// nodes.
const NODE_LIMIT: u32 = 1 << 30;

/// A platform whose file has been verified: the only type from which palettes are made.
///
/// Identities that hold: functions are independent over GF(2) and use bits below [`Platform::address_bits`]; regions
/// are sorted by base, overlap neither in physical nor (within a node) in DRAM addresses, and none crosses a multiple of
/// `2^address_bits` in DRAM addresses, above which the functions are not known; slice functions and set bits are
/// independent.
#[derive(Clone, Debug)]
pub struct Platform {
    file: PlatformFile,
    functions: Vec<BankFunction>,
    masks: Vec<u64>,
    regions: Vec<Region>,
    domains: Vec<Domain>,
    set_masks: Vec<u64>,
}

/// An XOR function of the bits of a DRAM address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankFunction {
    /// The coordinate that it selects.
    pub role: Role,
    /// Bit position in that role's number; 0 is the least significant.
    pub role_bit: u32,
    /// The address bits, as a mask.
    pub mask: u64,
    /// The bits are not published, but chosen by the file's author.
    pub assumed: bool,
}

/// A contiguous piece of physical memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address, a multiple of 4 KiB.
    pub base: PhysAddr,
    /// Length in bytes, a multiple of 4 KiB.
    pub size_bytes: u64,
    /// NUMA node.
    pub node: u32,
    /// DRAM address of the first byte.
    pub dram_base: u64,
    /// Interleave over a number of channels that is no power of two.
    pub interleave: Option<Interleave>,
    /// Base or size is not published.
    pub assumed: bool,
    /// Where the facts come from.
    pub source: String,
    /// Index of the first domain of this region in [`Platform::domains`]; the channels of an interleave follow it.
    pub(crate) first_domain: u32,
}

/// Interleave over `ways` channels in blocks of `2^shift` bytes; see [`crate::file::InterleaveSection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleave {
    /// Number of channels, no power of two.
    pub ways: u32,
    /// Base-two logarithm of the block.
    pub shift: u32,
}

/// A set of banks that no XOR function distinguishes from another set: a node, or a channel of a modulo interleave
/// within a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Domain {
    /// NUMA node as the regions name it.
    pub node: u32,
    /// Channel of the modulo interleave, 0 without one.
    pub channel: u32,
}

/// Where a byte lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Index in [`Platform::regions`].
    pub region: usize,
    /// Index in [`Platform::domains`].
    pub domain: u32,
    /// The address the functions apply to.
    pub dram_addr: u64,
}

impl Region {
    /// Gives the first address after the region.
    #[must_use]
    pub fn end(&self) -> PhysAddr {
        PhysAddr(self.base.0 + self.size_bytes)
    }

    /// Returns whether the address lies in the region.
    #[must_use]
    pub fn contains(&self, addr: PhysAddr) -> bool {
        addr.0.wrapping_sub(self.base.0) < self.size_bytes
    }
}

impl Platform {
    /// Loads a platform by its name in the catalogue, or from a file when `spec` contains a slash or ends in `.toml`.
    ///
    /// # Errors
    /// [`PlatformError::NotInCatalogue`], [`PlatformError::Read`], and whatever [`Platform::parse`] refuses.
    pub fn load(spec: &str) -> Result<Platform, PlatformError> {
        if spec.contains('/') || spec.ends_with(".toml") {
            return Self::parse(&read_file(Path::new(spec))?, spec);
        }
        let text = catalogue::text(spec).ok_or_else(|| PlatformError::NotInCatalogue {
            spec: spec.to_owned(),
            nearest: catalogue::nearest(spec),
        })?;
        Self::parse(text, spec)
    }

    /// Reads and verifies the text of a platform file; `origin` names it in messages.
    ///
    /// # Errors
    /// [`PlatformError`] with the first fault found.
    pub fn parse(text: &str, origin: &str) -> Result<Platform, PlatformError> {
        let file = toml::from_str(text).map_err(|source: toml::de::Error| {
            let end = source.span().map_or(text.len(), |span| span.start.min(text.len()));
            let line = text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count() + 1;
            PlatformError::Syntax { origin: origin.to_owned(), line, source: Box::new(source) }
        })?;
        Self::from_file(file, origin)
    }

    /// Verifies a platform file; `origin` names it in messages.
    ///
    /// # Errors
    /// [`PlatformError`] with the first fault found.
    pub fn from_file(file: PlatformFile, origin: &str) -> Result<Platform, PlatformError> {
        let check = Check { origin };
        check.head(&file)?;
        let functions = check.functions(&file.dram)?;
        let masks: Vec<u64> = functions.iter().map(|function| function.mask).collect();
        check.complete(&file.dram, &masks)?;
        let (regions, domains) = check.regions(&file)?;
        let set_masks = match &file.llc {
            Some(llc) => check.llc(llc)?,
            None => Vec::new(),
        };
        check.caches(&file.cache)?;
        check.cores(file.cores.as_ref())?;
        Ok(Platform { file, functions, masks, regions, domains, set_masks })
    }

    /// Gives the short name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// Returns the human-readable name of the machine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Gives the file this platform was verified from, with every source note.
    #[must_use]
    pub fn file(&self) -> &PlatformFile {
        &self.file
    }

    /// Gives the DRAM section: standard, geometry, row and column bits, source.
    #[must_use]
    pub fn dram(&self) -> &DramSection {
        &self.file.dram
    }

    /// Gives the last-level cache, `None` when unknown.
    #[must_use]
    pub fn llc(&self) -> Option<&LlcSection> {
        self.file.llc.as_ref()
    }

    /// Gives the other caches, from the core outwards.
    #[must_use]
    pub fn caches(&self) -> &[CacheSection] {
        &self.file.cache
    }

    /// Gives the cores, `None` when the file does not contain them.
    #[must_use]
    pub fn cores(&self) -> Option<&CoresSection> {
        self.file.cores.as_ref()
    }

    /// Gives the bank functions in file order: function `i` is bit `i` of the raw bank number.
    #[must_use]
    pub fn functions(&self) -> &[BankFunction] {
        &self.functions
    }

    /// Gives the masks of [`Platform::functions`].
    #[must_use]
    pub fn function_masks(&self) -> &[u64] {
        &self.masks
    }

    /// Gives the number of DRAM address bits on which the functions are known.
    #[must_use]
    pub fn address_bits(&self) -> u32 {
        self.file.dram.address_bits
    }

    /// Gives the regions, sorted by base.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Gives the domains, sorted: raw bank number = domain index × 2^functions + function values.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// Gives the XOR functions of physical address bits whose values are the (slice, set) of a line, as masks: slice
    /// functions first, then set bits. Empty without a known cache index.
    #[must_use]
    pub fn set_masks(&self) -> &[u64] {
        &self.set_masks
    }

    /// Counts the banks of the machine, unreachable ones included: domains × 2^functions.
    #[must_use]
    pub fn banks(&self) -> u32 {
        (self.domains.len() as u32) << self.masks.len()
    }

    /// Sums the sizes of all regions, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.size_bytes).sum()
    }

    /// Finds region, domain and DRAM address of a byte; `None` outside every region.
    #[must_use]
    pub fn locate(&self, addr: PhysAddr) -> Option<Location> {
        let after = self.regions.partition_point(|region| region.base <= addr);
        let index = after.checked_sub(1)?;
        let region = self.regions.get(index).filter(|region| region.contains(addr))?;
        let linear = addr.0 - region.base.0 + region.dram_base;
        let (channel, dram_addr) = match region.interleave {
            None => (0, linear),
            Some(interleave) => interleave.split(linear),
        };
        Some(Location { region: index, domain: region.first_domain + channel, dram_addr })
    }

    /// Evaluates the raw bank number of a byte, in `0..banks()`; `None` outside every region.
    ///
    /// A straightforward evaluation for single addresses; for millions of frames, use
    /// [`Palette::color_of_frame`](crate::Palette::color_of_frame).
    #[must_use]
    pub fn raw_bank(&self, addr: PhysAddr) -> Option<u32> {
        let location = self.locate(addr)?;
        let values = gf2::evaluate(&self.masks, location.dram_addr) as u32;
        Some((location.domain << self.masks.len()) + values)
    }

    /// Gives the number that the functions of one role form in a raw bank number: `None` when no function has the role.
    pub(crate) fn role_value(&self, role: Role, raw_bank: u32) -> Option<u32> {
        let mut of_role = self.functions.iter().enumerate().filter(|(_, function)| function.role == role).peekable();
        of_role.peek()?;
        Some(of_role.fold(0, |value, (index, function)| value | (raw_bank >> index & 1) << function.role_bit))
    }

    /// Gives the DRAM address bits of role `role`'s functions, as masks in role order.
    pub(crate) fn role_masks(&self, role: Role) -> Vec<u64> {
        let mut of_role: Vec<&BankFunction> = self.functions.iter().filter(|function| function.role == role).collect();
        of_role.sort_by_key(|function| function.role_bit);
        of_role.iter().map(|function| function.mask).collect()
    }
}

impl Interleave {
    /// Gives channel and channel address of an address before the interleave.
    #[inline]
    #[must_use]
    pub fn split(self, linear: u64) -> (u32, u64) {
        let block = linear >> self.shift;
        let ways = u64::from(self.ways);
        let inside = linear & ((1 << self.shift) - 1);
        ((block % ways) as u32, (block / ways) << self.shift | inside)
    }

    /// Gives the address before the interleave; the inverse of [`Interleave::split`].
    #[inline]
    #[must_use]
    pub fn join(self, channel: u32, channel_addr: u64) -> u64 {
        let block = (channel_addr >> self.shift) * u64::from(self.ways) + u64::from(channel);
        block << self.shift | channel_addr & ((1 << self.shift) - 1)
    }
}

fn read_file(path: &Path) -> Result<String, PlatformError> {
    let read = memtint_input::text(path, memtint_input::CONFIGURATION_BYTES_MAX);
    read.map_err(|source| PlatformError::Read { path: path.to_owned(), source })
}

/// Verification of one file, stage by stage.
struct Check<'a> {
    origin: &'a str,
}

type Checked<T> = Result<T, PlatformError>;

impl Check<'_> {
    fn refuse<T>(&self, field: impl Into<String>, found: impl ToString, accepted: impl Into<String>) -> Checked<T> {
        Err(PlatformError::Field {
            origin: self.origin.to_owned(),
            field: field.into(),
            found: found.to_string(),
            accepted: accepted.into(),
        })
    }

    fn not_empty(&self, field: &str, text: &str) -> Checked<()> {
        if text.trim().is_empty() {
            self.refuse(field, format!("{text:?}"), "a text that is not empty")
        } else {
            Ok(())
        }
    }

    fn head(&self, file: &PlatformFile) -> Checked<()> {
        if file.schema != SCHEMA {
            return self.refuse("schema", file.schema, format!("{SCHEMA}, the version this program reads"));
        }
        let well_formed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
        if file.id.is_empty() || !file.id.chars().all(well_formed) {
            return self.refuse("id", format!("{:?}", file.id), "letters, digits, dots, dashes and underscores");
        }
        self.not_empty("name", &file.name)?;
        self.not_empty("dram.standard", &file.dram.standard)?;
        self.not_empty("dram.source", &file.dram.source)?;
        let geometry = [
            ("channels", file.dram.channels),
            ("dimms", file.dram.dimms),
            ("ranks", file.dram.ranks),
            ("banks", file.dram.banks),
            ("bank_groups", file.dram.bank_groups),
        ];
        match geometry.into_iter().find(|&(_, count)| count == Some(0)) {
            Some((key, _)) => self.refuse(format!("dram.{key}"), 0, "a count of 1 or more, or no such key"),
            None => Ok(()),
        }
    }

    /// Reads a list of bit positions into a mask.
    fn mask(&self, field: impl Fn() -> String, bits: &[u32], limit: u32) -> Checked<u64> {
        if bits.is_empty() {
            return self.refuse(field(), "an empty list", "at least one address bit");
        }
        let mut mask = 0u64;
        for &bit in bits {
            if bit >= limit {
                return self.refuse(field(), format!("a list with bit {bit}"), format!("bits 0 to {}", limit - 1));
            }
            if mask >> bit & 1 == 1 {
                return self.refuse(field(), format!("a list with bit {bit} twice"), "each bit at most once");
            }
            mask |= 1 << bit;
        }
        Ok(mask)
    }

    fn functions(&self, dram: &DramSection) -> Checked<Vec<BankFunction>> {
        if !(13..=ADDRESS_BITS_MAX).contains(&dram.address_bits) {
            return self.refuse("dram.address_bits", dram.address_bits, format!("13 to {ADDRESS_BITS_MAX}"));
        }
        if dram.functions.len() > FUNCTIONS_MAX {
            let found = format!("a list of {}", dram.functions.len());
            return self.refuse("dram.functions", found, format!("at most {FUNCTIONS_MAX} functions"));
        }
        let mut functions = Vec::with_capacity(dram.functions.len());
        for (index, section) in dram.functions.iter().enumerate() {
            let field = || format!("dram.functions[{index}].bits");
            let mask = self.mask(field, &section.bits, dram.address_bits)?;
            let role_bit = self.role_bit(&dram.functions, index, section)?;
            functions.push(BankFunction { role: section.role, role_bit, mask, assumed: section.assumed });
        }
        let masks: Vec<u64> = functions.iter().map(|function| function.mask).collect();
        self.independent("bank function", &masks)?;
        Ok(functions)
    }

    fn role_bit(&self, all: &[FunctionSection], index: usize, section: &FunctionSection) -> Checked<u32> {
        let same = |other: &&FunctionSection| other.role == section.role;
        let count = all.iter().filter(same).count() as u32;
        let Some(bit) = section.bit else {
            return match all.iter().filter(same).find(|other| other.bit.is_some()) {
                Some(_) => self.refuse(
                    format!("dram.functions[{index}].bit"),
                    "missing",
                    format!("a number, because other functions of role {} have one", section.role),
                ),
                None => Ok(all[..index].iter().filter(same).count() as u32),
            };
        };
        let taken = all[..index].iter().filter(same).any(|other| other.bit == Some(bit));
        if bit >= count || taken {
            let role = section.role;
            let accepted = format!("each of 0 to {} once among the functions of role {role}", count - 1);
            return self.refuse(format!("dram.functions[{index}].bit"), bit, accepted);
        }
        Ok(bit)
    }

    fn independent(&self, field: &'static str, masks: &[u64]) -> Checked<()> {
        for function in 0..masks.len() {
            if let Some(on) = gf2::dependence(masks, function) {
                return Err(PlatformError::Dependent { origin: self.origin.to_owned(), field, function, on });
            }
        }
        Ok(())
    }

    fn complete(&self, dram: &DramSection, masks: &[u64]) -> Checked<()> {
        let single = |bits: &[u32]| bits.iter().map(|&bit| vec![bit]).collect::<Vec<_>>();
        let lists = [
            ("row_bits", dram.row_bits.as_deref().map(single)),
            ("row_functions", dram.row_functions.clone()),
            ("column_bits", dram.column_bits.as_deref().map(single)),
        ];
        // Where both are given, row functions refine row bits, which then only name the positions.
        let mut all = masks.to_vec();
        for (key, functions) in lists {
            let Some(functions) = functions else { continue };
            let mut list = Vec::with_capacity(functions.len());
            for (index, bits) in functions.iter().enumerate() {
                list.push(self.mask(|| format!("dram.{key}[{index}]"), bits, dram.address_bits)?);
            }
            self.independent(list_name(key), &list)?;
            if key != "row_bits" || dram.row_functions.is_none() {
                all.extend(list);
            }
        }
        if dram.complete { self.injective(dram.address_bits, &all) } else { Ok(()) }
    }

    fn injective(&self, address_bits: u32, functions: &[u64]) -> Checked<()> {
        let rank = gf2::Basis::spanning(functions.iter().copied()).rank();
        if rank == address_bits {
            return Ok(());
        }
        Err(PlatformError::NotInjective {
            origin: self.origin.to_owned(),
            rank,
            address_bits,
            collision: kernel_vector(functions, address_bits),
        })
    }

    fn regions(&self, file: &PlatformFile) -> Checked<(Vec<Region>, Vec<Domain>)> {
        if file.region.is_empty() {
            return self.refuse("region", "an empty list", "at least one [[region]] with base, size and source");
        }
        let mut regions = Vec::with_capacity(file.region.len());
        for (index, section) in file.region.iter().enumerate() {
            regions.push((index, self.region(index, section, file.dram.address_bits)?));
        }
        self.disjoint(&mut regions)?;
        let mut domains = BTreeSet::new();
        let node_functions = file.dram.functions.iter().filter(|function| function.role == Role::Node).count();
        for (index, region) in &regions {
            self.same_interleave(*index, region, &regions)?;
            if region.node % (1 << node_functions) != 0 {
                let accepted = format!(
                    "a multiple of {}, because {node_functions} node functions give the lower bits of the node",
                    1 << node_functions
                );
                return self.refuse(format!("region[{index}].node"), region.node, accepted);
            }
            let ways = region.interleave.map_or(1, |interleave| interleave.ways);
            domains.extend((0..ways).map(|channel| Domain { node: region.node, channel }));
        }
        let domains: Vec<Domain> = domains.into_iter().collect();
        if domains.len() > DOMAINS_MAX {
            let accepted = format!("at most {DOMAINS_MAX} pairs of node and interleave channel");
            return self.refuse("region", format!("a list with {} of them", domains.len()), accepted);
        }
        let mut regions: Vec<Region> = regions.into_iter().map(|(_, region)| region).collect();
        for region in &mut regions {
            region.first_domain = domains.partition_point(|domain| domain.node < region.node) as u32;
        }
        Ok((regions, domains))
    }

    fn region(&self, index: usize, section: &RegionSection, address_bits: u32) -> Checked<Region> {
        let field = |key: &str| format!("region[{index}].{key}");
        self.not_empty(&field("source"), &section.source)?;
        if section.node >= NODE_LIMIT {
            return self.refuse(field("node"), section.node, format!("0 to {}", NODE_LIMIT - 1));
        }
        let dram_base = section.dram_base.unwrap_or(section.base);
        for (key, value) in [("base", section.base), ("size", section.size), ("dram_base", dram_base)] {
            if value.bytes() % PAGE_SIZE != 0 {
                return self.refuse(field(key), value, "a multiple of 4 KiB");
            }
        }
        if section.size.bytes() == 0 {
            return self.refuse(field("size"), "0 B", "4 KiB or more");
        }
        for (key, first) in [("base", section.base), ("dram_base", dram_base)] {
            let end = first.bytes().checked_add(section.size.bytes());
            if end.is_none_or(|end| end > 1 << ADDRESS_BITS_MAX) {
                let accepted = format!("{key} + size up to 2^{ADDRESS_BITS_MAX}");
                return self.refuse(field("size"), section.size, accepted);
            }
        }
        let interleave = self.interleave(index, section)?;
        let region = Region {
            base: PhysAddr(section.base.bytes()),
            size_bytes: section.size.bytes(),
            node: section.node,
            dram_base: dram_base.bytes(),
            interleave,
            assumed: section.assumed,
            source: section.source.clone(),
            first_domain: 0,
        };
        let (first, last) = region.dram_span();
        if first >> address_bits != last >> address_bits {
            let accepted = format!(
                "a region whose DRAM addresses ({first:#x} to {last:#x}) do not cross a multiple of 2^{address_bits}, \
                 because the functions are known only below that (dram.address_bits)"
            );
            return self.refuse(field("size"), section.size, accepted);
        }
        Ok(region)
    }

    fn interleave(&self, index: usize, section: &RegionSection) -> Checked<Option<Interleave>> {
        let Some(rule) = &section.interleave else { return Ok(None) };
        let field = |key: &str| format!("region[{index}].interleave.{key}");
        if !(3..=INTERLEAVE_WAYS_MAX).contains(&rule.ways) || rule.ways.is_power_of_two() {
            let accepted = format!("3 to {INTERLEAVE_WAYS_MAX}, but no power of two: write those as bank functions");
            return self.refuse(field("ways"), rule.ways, accepted);
        }
        let granularity = rule.granularity.bytes();
        if !granularity.is_power_of_two() || !(64..=1 << 30).contains(&granularity) {
            return self.refuse(field("granularity"), rule.granularity, "a power of two from 64 B to 1 GiB");
        }
        Ok(Some(Interleave { ways: rule.ways, shift: granularity.trailing_zeros() }))
    }

    /// Sorts the regions by base and refuses overlaps.
    fn disjoint(&self, regions: &mut [(usize, Region)]) -> Checked<()> {
        // By node and DRAM address first, then by physical address, which is the order that stays.
        regions.sort_by_key(|(_, region)| (region.node, region.dram_base));
        self.no_overlap(regions, "the DRAM addresses of one node", "dram_base", |region| {
            (u64::from(region.node), region.dram_base)
        })?;
        regions.sort_by_key(|(_, region)| region.base);
        self.no_overlap(regions, "physical addresses", "base", |region| (0, region.base.0))
    }

    fn no_overlap(
        &self,
        sorted: &[(usize, Region)],
        space: &'static str,
        mend: &'static str,
        start: impl Fn(&Region) -> (u64, u64),
    ) -> Checked<()> {
        for pair in sorted.windows(2) {
            let ((first, a), (second, b)) = (&pair[0], &pair[1]);
            let ((a_space, a_start), (b_space, b_start)) = (start(a), start(b));
            if a_space == b_space && b_start - a_start < a.size_bytes {
                return Err(PlatformError::Overlap {
                    origin: self.origin.to_owned(),
                    first: *first,
                    second: *second,
                    space,
                    at: PhysAddr(b_start),
                    mend,
                });
            }
        }
        Ok(())
    }

    fn same_interleave(&self, index: usize, region: &Region, all: &[(usize, Region)]) -> Checked<()> {
        let ways = |region: &Region| region.interleave.map_or(1, |interleave| interleave.ways);
        let differs = |other: &&(usize, Region)| other.1.node == region.node && ways(&other.1) != ways(region);
        match all.iter().find(differs) {
            None => Ok(()),
            Some((other, _)) => {
                let accepted = format!(
                    "the same number of interleave ways as region {other}, which has the same node: \
                     which channel a region without the rule uses is not known"
                );
                self.refuse(format!("region[{index}].interleave"), format!("{}-way", ways(region)), accepted)
            }
        }
    }

    /// Gives slice functions and set bits as masks.
    fn llc(&self, llc: &LlcSection) -> Checked<Vec<u64>> {
        self.not_empty("llc.source", &llc.source)?;
        self.line(llc.line)?;
        let line_shift = llc.line.bytes().trailing_zeros();
        let mut masks = Vec::new();
        for (index, bits) in llc.slice_functions.iter().enumerate() {
            masks.push(self.mask(|| format!("llc.slice_functions[{index}]"), bits, ADDRESS_BITS_MAX)?);
        }
        if !llc.set_bits.is_empty() {
            let set_mask = self.mask(|| "llc.set_bits".to_owned(), &llc.set_bits, ADDRESS_BITS_MAX)?;
            if set_mask.trailing_zeros() < line_shift {
                let found = format!("a list with bit {}", set_mask.trailing_zeros());
                return self.refuse("llc.set_bits", found, format!("bits from {line_shift} up, above the line"));
            }
            masks.extend(llc.set_bits.iter().map(|&bit| 1u64 << bit));
        }
        let below_line = (1u64 << line_shift) - 1;
        if let Some(index) = masks.iter().position(|mask| mask & below_line != 0) {
            let accepted = format!("bits from {line_shift} up: a line lies in one slice");
            return self.refuse(format!("llc.slice_functions[{index}]"), "a list with a bit inside the line", accepted);
        }
        self.slice_count(llc)?;
        self.llc_geometry(llc)?;
        self.independent("llc function (slice functions, then set bits)", &masks)?;
        Ok(masks)
    }

    fn line(&self, line: ByteSize) -> Checked<()> {
        if line.bytes().is_power_of_two() && (16..=4096).contains(&line.bytes()) {
            return Ok(());
        }
        self.refuse("llc.line", line, "a power of two from 16 B to 4 KiB")
    }

    fn slice_count(&self, llc: &LlcSection) -> Checked<()> {
        let functions = llc.slice_functions.len() as u32;
        let counted = 1u64 << functions.min(ADDRESS_BITS_MAX);
        let slices = llc.slices.map(u64::from);
        match llc.hash {
            SliceHash::None if functions > 0 => {
                self.refuse("llc.hash", "\"none\" with slice_functions", "\"linear\", or no slice_functions")
            }
            SliceHash::None if slices.is_some_and(|slices| slices != 1) => {
                self.refuse("llc.slices", slices.unwrap_or(0), "1, or another hash than \"none\"")
            }
            SliceHash::Linear if functions == 0 || slices.is_some_and(|slices| slices != counted) => self.refuse(
                "llc.slices",
                slices.map_or("missing".to_owned(), |slices| slices.to_string()),
                format!("2^slice_functions = {counted}, and at least one function, because llc.hash is \"linear\""),
            ),
            SliceHash::Mixer | SliceHash::BaseSequence | SliceHash::Unknown if llc.not_modelled.is_none() => self
                .refuse("llc.not_modelled", "missing", "a text that names the parts of the slice hash the file omits"),
            _ if slices.is_some_and(|slices| slices < counted) => self.refuse(
                "llc.slices",
                slices.unwrap_or(0),
                format!("{counted} or more: one for each function value"),
            ),
            _ => Ok(()),
        }
    }

    fn llc_geometry(&self, llc: &LlcSection) -> Checked<()> {
        let slices = if llc.hash == SliceHash::None { Some(1) } else { llc.slices };
        for (key, count) in [("ways", llc.ways), ("slices", llc.slices), ("instances", llc.instances)] {
            if count == Some(0) {
                return self.refuse(format!("llc.{key}"), 0, "1 or more, or no such key");
            }
        }
        let (Some(size), Some(ways), Some(slices)) = (llc.size, llc.ways, slices) else { return Ok(()) };
        if llc.set_bits.is_empty() {
            return Ok(());
        }
        let product = 1u128 << llc.set_bits.len();
        let product = product * u128::from(llc.line.bytes()) * u128::from(ways) * u128::from(slices);
        if product == u128::from(size.bytes()) {
            return Ok(());
        }
        let accepted = format!(
            "{product} bytes = {slices} slices x 2^{} sets x {ways} ways x {} lines, or other set bits",
            llc.set_bits.len(),
            llc.line
        );
        self.refuse("llc.size", size, accepted)
    }

    fn caches(&self, caches: &[CacheSection]) -> Checked<()> {
        for (index, cache) in caches.iter().enumerate() {
            let field = |key: &str| format!("cache[{index}].{key}");
            self.not_empty(&field("source"), &cache.source)?;
            if cache.level == 0 {
                return self.refuse(field("level"), 0, "1 or more");
            }
            if cache.size.bytes() == 0 {
                return self.refuse(field("size"), "0 B", "1 B or more");
            }
            if !cache.set_bits.is_empty() {
                self.mask(|| field("set_bits"), &cache.set_bits, ADDRESS_BITS_MAX)?;
            }
            for (key, count) in [("ways", cache.ways), ("shared_by", cache.shared_by)] {
                if count == Some(0) {
                    return self.refuse(field(key), 0, "1 or more, or no such key");
                }
            }
        }
        Ok(())
    }

    fn cores(&self, cores: Option<&CoresSection>) -> Checked<()> {
        let Some(cores) = cores else { return Ok(()) };
        self.not_empty("cores.source", &cores.source)?;
        for (key, count) in
            [("count", Some(cores.count)), ("threads_per_core", cores.threads_per_core), ("sockets", cores.sockets)]
        {
            if count == Some(0) {
                return self.refuse(format!("cores.{key}"), 0, "1 or more");
            }
        }
        Ok(())
    }
}

impl Region {
    /// Gives the first and last address that the functions apply to.
    fn dram_span(&self) -> (u64, u64) {
        let last = self.dram_base + self.size_bytes - 1;
        match self.interleave {
            None => (self.dram_base, last),
            Some(interleave) => (interleave.split(self.dram_base).1, interleave.split(last).1),
        }
    }
}

fn list_name(key: &str) -> &'static str {
    match key {
        "row_bits" => "entry of dram.row_bits",
        "row_functions" => "row function",
        _ => "entry of dram.column_bits",
    }
}

/// Gives the bits of one non-zero address at which every function is zero; empty when there is none.
fn kernel_vector(functions: &[u64], address_bits: u32) -> Vec<u32> {
    let reduced = gf2::Basis::spanning(functions.iter().copied());
    let pivots = reduced.pivots();
    let Some(free) = (0..address_bits).find(|bit| pivots >> bit & 1 == 0) else { return Vec::new() };
    let mut bits = vec![free];
    for &row in reduced.vectors().iter().filter(|&&row| row >> free & 1 == 1) {
        bits.push(63 - row.leading_zeros());
    }
    bits.sort_unstable();
    bits
}
