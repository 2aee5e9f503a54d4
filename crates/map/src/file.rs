//! The platform file as text: sections and keys, nothing verified yet.
//!
//! Unknown keys are refused while reading; everything else is checked by [`Platform::from_file`](crate::Platform::from_file),
//! the only way from here to the trusted type. Every address and size is a plain integer (also `0x...`) or a text such as
//! `"4 GiB"`. Bits are positions in an address, 0 is the least significant bit of the byte address.

use memtint_units::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the file format this crate reads and writes.
pub const SCHEMA: u32 = 1;

/// A platform file as read, before verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlatformFile {
    /// Version of the format, [`SCHEMA`].
    pub schema: u32,
    /// Short name: letters, digits, dots and dashes; in the catalogue equal to the file name.
    pub id: String,
    /// Human-readable name of the machine; not empty.
    pub name: String,
    /// Microarchitecture of the memory controller's processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uarch: Option<String>,
    /// Anything a reader must know before believing the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// DRAM functions and geometry.
    pub dram: DramSection,
    /// Physical memory, at least one region.
    pub region: Vec<RegionSection>,
    /// The last-level cache; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc: Option<LlcSection>,
    /// Other caches, from the core outwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache: Vec<CacheSection>,
    /// The cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<CoresSection>,
}

/// How DRAM addresses select node, channel, rank and bank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramSection {
    /// JEDEC standard as the source names it, such as `DDR4`.
    pub standard: String,
    /// Channels of the machine; unit: count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Modules of the machine; unit: count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimms: Option<u32>,
    /// Ranks of a module; unit: count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Banks of a rank, over all bank groups; unit: count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banks: Option<u32>,
    /// Bank groups of a rank, 1 where the standard has none; unit: count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_groups: Option<u32>,
    /// Functions are known on address bits `0..address_bits`; range 13 to 52.
    pub address_bits: u32,
    /// XOR functions; function `i` gives bit `i` of the raw bank number. Empty when nothing is known.
    pub functions: Vec<FunctionSection>,
    /// Bits whose values give the row, least significant first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_bits: Option<Vec<u32>>,
    /// Row bits as XOR functions, least significant first, where they are not plain bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_functions: Option<Vec<Vec<u32>>>,
    /// Bits whose values give the column and the byte in it, least significant first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column_bits: Option<Vec<u32>>,
    /// Functions, row and column together distinguish all addresses (checked); default false.
    #[serde(default)]
    pub complete: bool,
    /// How the source obtained the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_kind: Option<String>,
    /// Where the facts of this section come from; not empty.
    pub source: String,
}

/// One XOR function of address bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionSection {
    /// The coordinate that the function selects.
    pub role: Role,
    /// Bit position in that role's number; default: order of appearance within the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit: Option<u32>,
    /// The address bits that are XORed; not empty, no duplicates, each below `address_bits`.
    pub bits: Vec<u32>,
    /// The bits are not published, and were chosen by the author of the file; default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
}

/// The coordinate that a bank function selects, ordered from the outside of the memory system inwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// NUMA node, or memory controller of one.
    Node,
    /// Memory channel.
    Channel,
    /// Half of a DDR5 channel.
    Subchannel,
    /// Module on a channel.
    Dimm,
    /// Rank of a module.
    Rank,
    /// Bank group of a rank.
    BankGroup,
    /// Bank, within its group where there are groups.
    Bank,
    /// Unknown: the source only measured that different values never conflict.
    Unknown,
}

impl Role {
    /// Every role, outermost first.
    pub const EVERY: [Role; 8] = [
        Role::Node,
        Role::Channel,
        Role::Subchannel,
        Role::Dimm,
        Role::Rank,
        Role::BankGroup,
        Role::Bank,
        Role::Unknown,
    ];

    /// Returns its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Channel => "channel",
            Role::Subchannel => "subchannel",
            Role::Dimm => "dimm",
            Role::Rank => "rank",
            Role::BankGroup => "bank_group",
            Role::Bank => "bank",
            Role::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A contiguous piece of physical memory, to whose addresses the functions apply after one subtraction.
///
/// A byte at physical address `p` of the region has the DRAM address `p - base + dram_base`. Every published offset rule
/// is a list of such regions: *subtract above 4 GiB*, Intel's reclaim of the memory under the PCI hole, ZynqMP's high
/// window, a base that is not zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegionSection {
    /// First physical address; a multiple of 4 KiB.
    #[schemars(with = "String")]
    pub base: ByteSize,
    /// Length; a multiple of 4 KiB, not zero.
    #[schemars(with = "String")]
    pub size: ByteSize,
    /// NUMA node; default 0.
    #[serde(default)]
    pub node: u32,
    /// DRAM address of the first byte; a multiple of 4 KiB; default: `base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub dram_base: Option<ByteSize>,
    /// Channel interleave by a modulus that is no power of two; default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleave: Option<InterleaveSection>,
    /// Base or size is not published, and was chosen by the author of the file; default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    /// Where base, size and offset come from; not empty.
    pub source: String,
}

/// Channel interleave by a modulus: `channel = (address >> g) % ways`, and the functions apply to the channel address
/// `(address >> g) / ways << g | address % 2^g`, where `2^g` is the granularity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterleaveSection {
    /// Number of channels; from 3 to 64, no power of two (those are XOR functions).
    pub ways: u32,
    /// Bytes that stay in one channel; a power of two from 64 bytes to 1 GiB.
    #[schemars(with = "String")]
    pub granularity: ByteSize,
}

/// The last-level cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlcSection {
    /// Size of one cache, over all its slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub size: Option<ByteSize>,
    /// Associativity; unit: ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
    /// Line size; a power of two from 16 bytes to 4 KiB.
    #[schemars(with = "String")]
    pub line: ByteSize,
    /// Number of slices; unit: count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<u32>,
    /// Number of such caches in the machine, each in front of all memory; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// Physical address bits that index the set of a slice; empty when not known.
    #[serde(default)]
    pub set_bits: Vec<u32>,
    /// XOR functions of physical address bits, each a bit of the slice number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slice_functions: Vec<Vec<u32>>,
    /// How addresses select the slice.
    pub hash: SliceHash,
    /// The published formula of a hash that is not linear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Parts of the hash missing from this file; required unless the hash is `none` or `linear`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_modelled: Option<String>,
    /// Some of the section is not published, and was chosen by the author of the file; default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    /// Where the facts of this section come from; not empty.
    pub source: String,
}

/// How physical addresses select the slice of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SliceHash {
    /// One slice.
    None,
    /// `slice_functions` give every bit of the slice number.
    Linear,
    /// XOR chains that feed AND and OR gates; `slice_functions` hold the output bits that are linear.
    Mixer,
    /// A permuted table (McCalpin); `slice_functions` hold the output bits that are linear.
    BaseSequence,
    /// Not published; set bits, where given, are used alone.
    Unknown,
}

/// A cache other than the last level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSection {
    /// Level, from 1.
    pub level: u32,
    /// Kind of content.
    pub kind: CacheKind,
    /// Size of one cache.
    #[schemars(with = "String")]
    pub size: ByteSize,
    /// Associativity; unit: ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
    /// Line size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub line: Option<ByteSize>,
    /// Physical address bits that index the set, where known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_bits: Vec<u32>,
    /// Cores that share one such cache; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_by: Option<u32>,
    /// Where the facts of this section come from; not empty.
    pub source: String,
}

/// Kind of a cache's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// The cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoresSection {
    /// Cores of the machine; unit: count, not zero.
    pub count: u32,
    /// Hardware threads of a core; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads_per_core: Option<u32>,
    /// Sockets of the machine; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// Where the facts of this section come from; not empty.
    pub source: String,
}

impl PlatformFile {
    /// Writes the file as TOML that parses back to an equal value. Comments are not kept.
    ///
    /// # Panics
    /// Never: every field has a TOML form.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a platform file has only strings, numbers, lists and tables")
    }
}
