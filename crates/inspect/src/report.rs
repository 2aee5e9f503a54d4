//! The result of an inspection, as data.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::maps::SegmentKind;

/// Version of the JSON form of [`Report`]. It changes when a field changes its meaning or is removed, not when one is added.
pub const REPORT_SCHEMA: u32 = 1;

/// Whether the pages are in the right frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every private page is in color.
    Held,
    /// At least one private page is out of color.
    Violated,
}

/// The result of an inspection. All counts are of 4 KiB pages.
///
/// Identities: `private.pages` is the sum of `private_pages` over `segments`, of `pages` over `bank_classes` plus
/// `private.outside_platform_pages`, of `pages` over `color_pairs` plus the same, and, with a selection, of
/// `in_color_pages` and `out_of_color_pages`. Pages in [`Report::pool`] are in none of the other counts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`REPORT_SCHEMA`].
    pub schema: u32,
    /// Always "inspect".
    pub report: String,
    /// When reading began.
    pub taken_unix_ms: u64,
    /// How long reading took.
    pub elapsed_us: u64,
    /// The processes whose pages were counted.
    pub processes: Vec<Process>,
    /// The machine that frames were judged against.
    pub platform: PlatformSummary,
    /// The colors that the pages should have, if given.
    pub selection: Option<SelectionSummary>,
    /// Absent without a selection.
    pub verdict: Option<Verdict>,
    /// The pages the verdict is about.
    pub private: PrivatePages,
    /// By kind of segment, only kinds that occur.
    pub segments: Vec<SegmentRow>,
    /// Private pages by bank class, every class of the platform, ascending.
    pub bank_classes: Vec<ColorRow>,
    /// Private pages by set color, every color of the platform, ascending.
    pub set_colors: Vec<ColorRow>,
    /// Private pages by bank class and set color, only pairs that occur. It is for pictures and no part of the JSON form.
    #[serde(skip)]
    pub color_pairs: BTreeMap<(u32, u32), Tally>,
    /// Private pages by NUMA node, only nodes that occur or are selected.
    pub nodes: Vec<ColorRow>,
    /// memtint's pages inside the program: its stock of frames, its helper. They do not affect the verdict on the program.
    pub pool: Tally,
    /// Private pages that are not in color, and where.
    pub out_of_color: OutOfColor,
    /// Private pages that other processes map too.
    pub sharing: Sharing,
    /// Memory of the program that no allocation policy for private pages can color, with its size.
    pub not_colorable: Vec<NotColorable>,
    /// Fields of the task that the verdict does not cover.
    #[serde(default)]
    pub not_judged: Vec<String>,
}

/// One inspected process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Command name as the kernel has it (at most 15 bytes).
    pub comm: String,
    /// Number of threads.
    pub threads: u32,
}

/// The machine the frames were judged against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlatformSummary {
    /// Catalogue id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// The block that is colored as a unit.
    pub granule_bytes: u64,
    /// Number of bank classes at that granule; 1 when banks cannot be isolated.
    pub bank_classes: u32,
    /// Number of set colors at that granule; 1 when cache sets cannot be isolated or the cache is unknown.
    pub set_colors: u32,
    /// The basis of the colors, in one sentence.
    pub caveat: String,
}

/// The colors asked for, in canonical list syntax; null does not restrict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectionSummary {
    /// Bank classes.
    pub banks: Option<String>,
    /// Set colors.
    pub sets: Option<String>,
    /// NUMA nodes.
    pub node: Option<String>,
}

/// The private pages of the program: in memory, anonymous, not the zero page, not hugetlb.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrivatePages {
    /// All of them.
    pub pages: u64,
    /// In a frame that the selection allows; all, without a selection.
    pub in_color_pages: u64,
    /// In a frame that it does not allow.
    pub out_of_color_pages: u64,
    /// In a frame outside every memory region of the platform file: the file does not describe this machine.
    pub outside_platform_pages: u64,
    /// Merged with equal pages by the kernel (KSM).
    pub ksm_pages: u64,
    /// In large folios (transparent huge pages and their smaller kin).
    pub thp_pages: u64,
    /// In swap: in no frame, so neither in nor out of color, and not among `pages`.
    pub swapped_pages: u64,
}

impl PrivatePages {
    /// Share of the pages that are in color, in percent; 100 when there are none.
    pub fn in_color_percent(&self) -> f64 {
        if self.pages == 0 { 100.0 } else { self.in_color_pages as f64 * 100.0 / self.pages as f64 }
    }
}

/// Content of the segments of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentRow {
    /// The kind.
    pub kind: SegmentKind,
    /// Number of mappings.
    pub mappings: u64,
    /// Address space, used or not.
    pub virtual_bytes: u64,
    /// Private pages.
    pub private_pages: u64,
    /// Of these, in color.
    pub in_color_pages: u64,
    /// Of these, out of color.
    pub out_of_color_pages: u64,
    /// Pages of files (page cache) and of shared memory.
    pub file_or_shared_pages: u64,
    /// Mappings of the page of zeroes that all processes share.
    pub zero_pages: u64,
    /// Pages of hugetlbfs.
    pub hugetlb_pages: u64,
    /// Pages of devices and of the kernel itself.
    pub special_pages: u64,
    /// Pages in swap.
    pub swapped_pages: u64,
}

/// Private pages of one bank class, set color or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ColorRow {
    /// Number of the class, color or node.
    pub index: u32,
    /// Whether the selection allows it in this dimension; true without a selection.
    pub selected: bool,
    /// Its private pages.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Pages, by whether they are in color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// All of them.
    pub pages: u64,
    /// In a frame that the selection allows in every dimension; all, without a selection.
    pub in_color_pages: u64,
    /// The others.
    pub out_of_color_pages: u64,
}

/// The private pages that are not in color.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutOfColor {
    /// All of them.
    pub pages: u64,
    /// Known causes; the counts add up to `pages`.
    pub causes: Causes,
    /// The mappings that hold them, most pages first; bounded, see `omitted_mappings`.
    pub mappings: Vec<OutMapping>,
    /// Mappings with such pages that are not listed.
    pub omitted_mappings: u64,
}

/// Causes of pages out of color that an observer can see. Each page is counted once, under the first that applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Causes {
    /// In no memory region of the platform file.
    pub outside_platform_pages: u64,
    /// Merged by KSM: the frame was chosen by the kernel.
    pub ksm_pages: u64,
    /// Still shared with another process after a fork.
    pub shared_after_fork_pages: u64,
    /// In a large folio, which the kernel allocates or collapses as one piece.
    pub thp_pages: u64,
    /// The cause is unknown.
    pub unknown_pages: u64,
}

/// One mapping with private pages out of color.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutMapping {
    /// Its process.
    pub pid: u32,
    /// First address.
    #[serde(with = "hexadecimal")]
    #[schemars(with = "String")]
    pub start: u64,
    /// Address past the end.
    #[serde(with = "hexadecimal")]
    #[schemars(with = "String")]
    pub end: u64,
    /// The kind of the mapping.
    pub kind: SegmentKind,
    /// File or other name; empty for unnamed memory.
    pub name: String,
    /// Number of its private pages out of color.
    pub pages: u64,
    /// The first of them; bounded.
    pub addresses: Vec<OutPage>,
}

/// One private page out of color.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutPage {
    /// Its address in the program.
    #[serde(with = "hexadecimal")]
    #[schemars(with = "String")]
    pub address: u64,
    /// Bank class of its frame; null outside the platform's regions.
    pub bank_class: Option<u32>,
    /// Set color of its frame; null outside the platform's regions.
    pub set_color: Option<u32>,
    /// Node of its frame; null outside the platform's regions.
    pub node: Option<u32>,
}

/// Private pages that more than one address space maps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sharing {
    /// Their number: each was shared by a fork and has not been written since.
    pub pages: u64,
    /// Whether other processes were searched for them.
    pub searched: bool,
    /// The other processes that map them.
    pub with: Vec<SharedWith>,
    /// Pages for which no other process was found: it ended meanwhile, or is in an invisible namespace.
    pub unexplained_pages: u64,
}

/// A process that maps the same frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedWith {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub comm: String,
    /// Frames in common.
    pub pages: u64,
    /// The cause, if known: "shared after fork".
    pub cause: String,
}

/// Memory outside the scope of coloring private pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotColorable {
    /// Its kind.
    pub what: Uncolored,
    /// The amount that the program maps or causes.
    pub bytes: u64,
}

/// Kinds of memory outside the scope of coloring private pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Uncolored {
    /// Pages of files, mapped privately and not written: they belong to the page cache and to every program that uses it.
    PageCache,
    /// Pages of files mapped shared.
    SharedFile,
    /// Shared memory.
    SharedMemory,
    /// Reserved huge pages.
    HugeTlb,
    /// The page of zeroes that every program shares.
    ZeroPage,
    /// vdso and vvar.
    Vdso,
    /// Devices, and pages of the kernel mapped into the program.
    Device,
    /// Page tables, which the kernel allocates for itself (`VmPTE`).
    PageTables,
    /// Kernel stacks of the threads (16 KiB each on this architecture).
    KernelStacks,
}

impl Uncolored {
    /// Name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::PageCache => "page cache (files mapped privately, not written)",
            Self::SharedFile => "shared file mappings",
            Self::SharedMemory => "shared memory",
            Self::HugeTlb => "hugetlb pages",
            Self::ZeroPage => "the shared page of zeroes",
            Self::Vdso => "vdso and vvar",
            Self::Device => "device and kernel pages",
            Self::PageTables => "page tables (kernel)",
            Self::KernelStacks => "kernel stacks",
        }
    }
}

/// Addresses in the notation of `/proc/PID/maps`; JSON numbers are not safe for 64 bits.
mod hexadecimal {
    use serde::de::Error as _;

    pub(super) fn serialize<S: serde::Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{address:#x}"))
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        u64::from_str_radix(digits, 16).map_err(|_| D::Error::custom(format!("{text:?} is no address such as 0x7f00")))
    }
}
