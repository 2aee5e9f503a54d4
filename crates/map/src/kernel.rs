//! The mapping object of the kernel backend: a palette's functions and regions in the kernel's format.
//!
//! ```text
//! memtint-map 1
//! granule 4096
//! region 0x0-0xe0000000 node 0
//! bank 0x22000
//! bank 0x44000
//! set 0x1000
//! region 0x100000000-0x120000000 node 0
//! offset 0x20000000
//! bank 0x22000
//! bank 0x44000
//! set 0x1000
//! end
//! ```
//!
//! A region is half-open; an offset can be negative. Bank functions are XORs of the bits of physical address minus
//! offset, in the order of the platform file; set functions are XORs of the bits of the physical address itself, one
//! for each bit of the set color. The kernel derives isolation classes from them by the rule of [`Palette`], with the
//! distinct nodes in ascending order as domains, so classes and set colors have the same numbers in the kernel as here.

use crate::granule::Granule;
use crate::palette::Palette;
use crate::platform::Region;
use crate::select::Selection;
use memtint_units::IndexSet;
use std::fmt::Write as _;

/// The most colors that the kernel distinguishes: pairs of bank class and set color, whether they exist or not.
pub const COLORS_MAX: u64 = 1024;
/// The most regions that the kernel accepts.
pub const REGIONS_MAX: usize = 32;
/// The largest block that the kernel's allocator hands out; an offset shifts whole ones.
pub const BLOCK_BYTES_MAX: u64 = 4 << 20;

/// The reason why the kernel's format cannot express a palette.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelMapError {
    /// Channels are selected by a division.
    #[error(
        "platform {platform:?}: region {region} interleaves {ways} channels by a modulus, accepted by the kernel are XOR \
         functions only"
    )]
    Modulus {
        /// The platform's id.
        platform: String,
        /// Index of the region.
        region: usize,
        /// Number of channels.
        ways: u32,
    },
    /// A region's shift is not a multiple of the block.
    #[error(
        "platform {platform:?}: region {region} shifts addresses by {shift:#x} bytes, accepted by the kernel are multiples of \
         {BLOCK_BYTES_MAX:#x}"
    )]
    Offset {
        /// The platform's id.
        platform: String,
        /// Index of the region.
        region: usize,
        /// Difference between physical and DRAM address.
        shift: u64,
    },
    /// More regions than the kernel accepts.
    #[error("platform {platform:?}: {found} regions, accepted by the kernel are up to {REGIONS_MAX}")]
    TooManyRegions {
        /// The platform's id.
        platform: String,
        /// How many there are.
        found: usize,
    },
    /// More colors than the kernel accepts.
    #[error(
        "platform {platform:?}: {bank_classes} bank classes times {set_colors} set colors at granule {granule}, accepted by \
         the kernel are up to {COLORS_MAX}; use a larger granule, or banks alone"
    )]
    TooManyColors {
        /// The platform's id.
        platform: String,
        /// The granule.
        granule: Granule,
        /// Number of bank classes.
        bank_classes: u32,
        /// Number of set colors.
        set_colors: u32,
    },
    /// There is one color only.
    #[error("platform {platform:?}: one color at granule {granule}, accepted by the kernel are two or more")]
    OneColor {
        /// The platform's id.
        platform: String,
        /// The granule.
        granule: Granule,
    },
}

/// Writes the palette's mapping object. With `banks_only`, it omits the cache, and all frames have the same set color.
///
/// # Errors
/// [`KernelMapError`] with the first fact that the object cannot express.
pub fn print(palette: &Palette, banks_only: bool) -> Result<String, KernelMapError> {
    let platform = palette.platform();
    for (number, region) in platform.regions().iter().enumerate() {
        check_region(platform.id(), number, region)?;
    }
    let sets = if banks_only { Vec::new() } else { palette.set_functions() };
    check_size(palette, 1 << sets.len())?;
    let mut text = format!("memtint-map 1\ngranule {}\n", palette.granule().bytes());
    for region in platform.regions() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "region {:#x}-{:#x} node {}", region.base.0, region.end().0, region.node);
        match (region.base.0, region.dram_base) {
            (base, dram) if base > dram => drop(writeln!(text, "offset {:#x}", base - dram)),
            (base, dram) if base < dram => drop(writeln!(text, "offset -{:#x}", dram - base)),
            _ => {}
        }
        for mask in platform.function_masks() {
            let _ = writeln!(text, "bank {mask:#x}");
        }
        for mask in &sets {
            let _ = writeln!(text, "set {mask:#x}");
        }
    }
    text.push_str("end\n");
    Ok(text)
}

/// Colors in the format of the kernel's files: lists like `0-3,8`; `None` is any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelColors {
    /// Bank classes. The format has no nodes; since each class lies in one node, classes of other nodes are omitted.
    pub banks: Option<String>,
    /// Set colors.
    pub sets: Option<String>,
}

/// Writes a selection that [`Selection::compile`] accepts as lists for the kernel.
#[must_use]
pub fn colors(palette: &Palette, selection: &Selection) -> KernelColors {
    let in_set = |set: &Option<IndexSet>, index| set.as_ref().is_none_or(|set| set.contains(index));
    let wanted =
        |class: &u32| in_set(&selection.banks, *class) && in_set(&selection.node, palette.node_of_class(*class));
    let restricted = selection.banks.is_some() || selection.node.is_some();
    let classes = restricted.then(|| {
        let all = palette.bank_classes();
        IndexSet::from_indices((0..all).filter(wanted), all).expect("classes are below their number")
    });
    let list = |set: &Option<IndexSet>| set.as_ref().map(ToString::to_string);
    KernelColors { banks: list(&classes), sets: list(&selection.sets) }
}

fn check_size(palette: &Palette, set_colors: u32) -> Result<(), KernelMapError> {
    let platform = palette.platform().id().to_owned();
    let (granule, bank_classes) = (palette.granule(), palette.bank_classes());
    match u64::from(bank_classes) * u64::from(set_colors) {
        1 => return Err(KernelMapError::OneColor { platform, granule }),
        2..=COLORS_MAX => {}
        _ => return Err(KernelMapError::TooManyColors { platform, granule, bank_classes, set_colors }),
    }
    let found = palette.platform().regions().len();
    if found > REGIONS_MAX { Err(KernelMapError::TooManyRegions { platform, found }) } else { Ok(()) }
}

fn check_region(platform: &str, number: usize, region: &Region) -> Result<(), KernelMapError> {
    let platform = platform.to_owned();
    let shift = region.base.0.abs_diff(region.dram_base);
    match region.interleave {
        Some(interleave) => Err(KernelMapError::Modulus { platform, region: number, ways: interleave.ways }),
        None if !shift.is_multiple_of(BLOCK_BYTES_MAX) => {
            Err(KernelMapError::Offset { platform, region: number, shift })
        }
        None => Ok(()),
    }
}
