//! The colors of a platform at one granule.

use crate::enumerate::{self, Shape};
use crate::evaluate::Evaluator;
use crate::file::Role;
use crate::gf2::{self, Basis, Quotient};
use crate::granule::Granule;
use crate::platform::Platform;
use crate::select::{Selection, SelectionError};
use memtint_units::{ByteSize, IndexSet, Pfn, PhysAddr};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;
use std::sync::Arc;

/// At most 2^22 pairs of bank class and set color, so that pair tables stay below 100 MB.
pub(crate) const PAIR_BITS_MAX: u32 = 22;

/// At most this many pieces of a region are counted: 1 TiB of 4 KiB granules behind a modulo interleave.
const PIECES_MAX: u64 = 1 << 28;

/// All colors of a platform at one granule.
///
/// **Bank classes.** Bit `i` of the raw bank number is bank function `i`. Let S be the span over GF(2) of the raw bank
/// vectors that the address bits inside the granule produce: a granule touches exactly the banks `raw + S` of its
/// domain (node, or channel of a modulo interleave), and two granules are bank-disjoint exactly when these cosets
/// differ. There are `domains × 2^(functions - dim S)` classes.
///
/// **The dense class index** is `domain index × 2^(functions - dim S) + coset index`. The coset index is made from S's
/// reduced row echelon basis, pivot the *highest* function: subtract basis vectors until every pivot coordinate of the raw
/// vector is zero, then squeeze the pivot coordinates out. It depends on the order of the functions in the platform
/// file and on nothing else, so plans keep their meaning as long as that order is kept.
///
/// **Set colors** are the same construction on the vector (slice functions, set bits) of the last-level cache: granules
/// of different set color reach disjoint (slice, set) pairs. Where the slice hash is not linear, only the set bits and
/// its linear output bits are used; `llc().not_modelled` describes the rest.
#[derive(Clone, Debug)]
pub struct Palette {
    platform: Arc<Platform>,
    granule: Granule,
    banks: Quotient,
    sets: Quotient,
    evaluator: Arc<Evaluator>,
    shape: Arc<Shape>,
    pairs: Arc<Vec<Pair>>,
}

/// The color of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct FrameColor {
    /// Bank class, in `0..bank_classes()`.
    pub bank_class: u32,
    /// Set color, in `0..set_colors()`.
    pub set_color: u32,
    /// NUMA node.
    pub node: u32,
}

/// A bank class and a set color that some granules have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Pair {
    /// Bank class.
    pub bank_class: u32,
    /// Set color.
    pub set_color: u32,
    /// Number of whole granules of the platform's regions that have both; at least 1.
    pub granules: u64,
}

/// The reason why a platform has no palette at a granule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PaletteError {
    /// A granule is interleaved over channels by a modulus.
    #[error(
        "platform {platform:?}: region {region} interleaves {ways} channels in blocks of {block}, less than the granule \
         {granule}; memtint computes the classes of granules inside one block only, and not those that larger granules may have; \
         accepted is a granule of at most {block}{}", if *block < ByteSize(4096) { ", which is less than a page: memtint cannot \
         color this machine" } else { "" }
    )]
    ModuloInsideGranule {
        /// The platform's id.
        platform: String,
        /// Index of the region.
        region: usize,
        /// Number of channels.
        ways: u32,
        /// Interleave granularity.
        block: ByteSize,
        /// The granule asked for.
        granule: Granule,
    },
    /// A region's DRAM offset is not a multiple of the granule.
    #[error(
        "platform {platform:?}: region {region} shifts addresses by {shift:#x} bytes, which is no multiple of the granule \
         {granule}, so an aligned block of that size is not aligned in DRAM; use a granule of at most {accepted}"
    )]
    OffsetInsideGranule {
        /// The platform's id.
        platform: String,
        /// Index of the region.
        region: usize,
        /// Difference between physical and DRAM address.
        shift: u64,
        /// The granule asked for.
        granule: Granule,
        /// The largest granule that this region allows.
        accepted: ByteSize,
    },
    /// A region falls into too many pieces to count its colors.
    #[error(
        "platform {platform:?}: region {region} falls into {pieces} pieces at granule {granule} because of its {cause}, \
         accepted are up to {PIECES_MAX}; a smaller region or a rounder dram_base mends it"
    )]
    TooManyPieces {
        /// The platform's id.
        platform: String,
        /// Index of the region.
        region: usize,
        /// The granule asked for.
        granule: Granule,
        /// Number of pieces.
        pieces: u64,
        /// What cuts it into pieces.
        cause: &'static str,
    },
    /// More colors than supported.
    #[error(
        "platform {platform:?}: {pair_bits} bits of bank class and set color at granule {granule}, accepted are up to \
         {PAIR_BITS_MAX}; use a larger granule"
    )]
    TooManyColors {
        /// The platform's id.
        platform: String,
        /// The granule asked for.
        granule: Granule,
        /// Bits of the pair of class and color.
        pair_bits: u32,
    },
}

impl Palette {
    /// Computes the colors of a platform at a granule.
    ///
    /// Complexity: linear in the number of existing pairs and of aligned blocks into which region bounds and offsets cut
    /// the memory (a few hundred on real machines); with a modulo interleave linear in its granules.
    ///
    /// # Errors
    /// [`PaletteError`] when granules of this size form no classes, or too many colors.
    pub fn new(platform: &Platform, granule: Granule) -> Result<Palette, PaletteError> {
        check_regions(platform, granule)?;
        let banks = quotient(platform.function_masks(), granule);
        let sets = quotient(platform.set_masks(), granule);
        let domain_bits = (platform.domains().len() as u32).next_power_of_two().trailing_zeros();
        let pair_bits = domain_bits + banks.index_bits() + sets.index_bits();
        if pair_bits > PAIR_BITS_MAX {
            return Err(PaletteError::TooManyColors { platform: platform.id().to_owned(), granule, pair_bits });
        }
        let evaluator = Arc::new(Evaluator::new(platform, granule, &banks, &sets));
        let shape = Arc::new(Shape::new(platform, granule, &banks, &sets));
        let pairs = Arc::new(enumerate::count_pairs(&shape, &evaluator));
        Ok(Palette { platform: Arc::new(platform.clone()), granule, banks, sets, evaluator, shape, pairs })
    }

    /// Gives the platform.
    #[must_use]
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Gives the granule.
    #[must_use]
    pub fn granule(&self) -> Granule {
        self.granule
    }

    /// Counts the banks of the machine: domains × 2^functions.
    #[must_use]
    pub fn banks(&self) -> u32 {
        self.platform.banks()
    }

    /// Counts the banks that every granule touches: 2^(dim S).
    #[must_use]
    pub fn banks_per_granule(&self) -> u32 {
        1 << self.banks.subspace().rank()
    }

    /// Counts the numbers of bank classes, including those without memory (see [`Palette::occupied_bank_classes`]). 1
    /// means that no isolation is possible.
    #[must_use]
    pub fn bank_classes(&self) -> u32 {
        (self.platform.domains().len() as u32) << self.banks.index_bits()
    }

    /// Counts the bank classes with memory, which can be isolated. The others are numbers without memory, which only
    /// address bits above the platform's size would produce.
    #[must_use]
    pub fn occupied_bank_classes(&self) -> u32 {
        self.granules_of_bank_classes().into_iter().filter(|&granules| granules > 0).count() as u32
    }

    /// Counts the set colors; 1 when the cache index is unknown or a granule covers it.
    #[must_use]
    pub fn set_colors(&self) -> u32 {
        1 << self.sets.index_bits()
    }

    /// Gives the XOR functions of physical address bits above the granule whose values are the bits of the set color, as
    /// masks: bit `i` of the color is function `i`.
    #[must_use]
    pub fn set_functions(&self) -> Vec<u64> {
        let functions = self.platform.set_masks();
        let weights: Vec<u64> = (0..functions.len()).map(|function| self.sets.index(1 << function)).collect();
        let choice = |bit: u32| (0..).zip(&weights).fold(0, |all, (row, weight)| all | (weight >> bit & 1) << row);
        (0..self.sets.index_bits()).map(|bit| gf2::sum(functions, choice(bit))).collect()
    }

    /// Gives the bank class of the granule that holds the address; `None` outside every region.
    ///
    /// At a region's edge a granule can be cut; its part inside the region is colored as well, but is neither counted
    /// nor enumerated.
    #[must_use]
    pub fn bank_class(&self, addr: PhysAddr) -> Option<u32> {
        self.color_of_frame(addr.pfn()).map(|color| color.bank_class)
    }

    /// Gives the set color of the granule that holds the address; `None` outside every region.
    #[must_use]
    pub fn set_color(&self, addr: PhysAddr) -> Option<u32> {
        self.color_of_frame(addr.pfn()).map(|color| color.set_color)
    }

    /// Gives the node of the address's granule; `None` outside every region.
    ///
    /// Where node functions use bits inside the granule, it is the node of the granule's first byte; see
    /// [`Palette::node_is_honored`].
    #[must_use]
    pub fn node(&self, addr: PhysAddr) -> Option<u32> {
        self.color_of_frame(addr.pfn()).map(|color| color.node)
    }

    /// Evaluates bank class, set color and node of a frame; `None` outside every region.
    ///
    /// Takes a few nanoseconds: ten table look-ups, no allocation.
    #[inline]
    #[must_use]
    pub fn color_of_frame(&self, pfn: Pfn) -> Option<FrameColor> {
        self.evaluator.color(pfn)
    }

    /// Returns whether every granule lies in one node, so that a node can be selected.
    #[must_use]
    pub fn node_is_honored(&self) -> bool {
        let inside = self.granule.bytes() - 1;
        self.platform.role_masks(Role::Node).iter().all(|mask| mask & inside == 0)
    }

    /// Gives the pairs of bank class and set color that exist in the platform's regions, sorted, with their granules.
    ///
    /// The two share address bits on most machines, so that many pairs do not exist.
    #[must_use]
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Counts the whole granules of all regions.
    #[must_use]
    pub fn granules(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.granules).sum()
    }

    /// Counts the whole granules of each bank class; index is the class.
    #[must_use]
    pub fn granules_of_bank_classes(&self) -> Vec<u64> {
        let mut counts = vec![0; self.bank_classes() as usize];
        for pair in self.pairs.iter() {
            counts[pair.bank_class as usize] += pair.granules;
        }
        counts
    }

    /// Counts the whole granules of each set color; index is the color.
    #[must_use]
    pub fn granules_of_set_colors(&self) -> Vec<u64> {
        let mut counts = vec![0; self.set_colors() as usize];
        for pair in self.pairs.iter() {
            counts[pair.set_color as usize] += pair.granules;
        }
        counts
    }

    /// Gives the set colors that granules of each bank class can have, ascending; index is the class.
    #[must_use]
    pub fn set_colors_of_bank_classes(&self) -> Vec<Vec<u32>> {
        let mut colors = vec![Vec::new(); self.bank_classes() as usize];
        for pair in self.pairs.iter() {
            colors[pair.bank_class as usize].push(pair.set_color);
        }
        colors
    }

    /// Gives the raw bank numbers that granules of this class touch, ascending; `banks_per_granule()` of them.
    ///
    /// Empty for a class at or above `bank_classes()`.
    #[must_use]
    pub fn class_members(&self, class: u32) -> Vec<u32> {
        if class >= self.bank_classes() {
            return Vec::new();
        }
        let bits = self.banks.index_bits();
        let domain = class >> bits;
        let coset = u64::from(class) & ((1 << bits) - 1);
        let base = domain << self.platform.functions().len();
        let mut members: Vec<u32> = self.banks.members(coset).map(|vector| base + vector as u32).collect();
        members.sort_unstable();
        members
    }

    /// Gives the class of a raw bank number; `None` at or above `banks()`.
    #[must_use]
    pub fn class_of_raw_bank(&self, raw_bank: u32) -> Option<u32> {
        if raw_bank >= self.banks() {
            return None;
        }
        let functions = self.platform.functions().len();
        let coset = self.banks.index(u64::from(raw_bank) & ((1 << functions) - 1)) as u32;
        Some((raw_bank >> functions) << self.banks.index_bits() | coset)
    }

    /// Counts the raw bank numbers a granule's first byte can have: what allocators that color by the page's base address
    /// (PALLOC) call reachable bins.
    #[must_use]
    pub fn reachable_raw_banks(&self) -> u32 {
        (self.platform.domains().len() as u32) << self.base_vectors().rank()
    }

    /// Counts the banks shared by the lower and the upper half of the raw bank numbers: granules whose base address has
    /// a raw number in the lower half, against the others. Zero: splitting raw numbers in halves isolates.
    /// Anything else: it isolates nothing, silently, and only classes do.
    ///
    /// Exact on the functions; region bounds are ignored.
    #[must_use]
    pub fn raw_halves_shared(&self) -> u32 {
        let functions = self.platform.functions().len() as u32;
        let domains = self.platform.domains().len() as u32;
        if functions == 0 || domains.is_multiple_of(2) {
            return 0; // one bank, or the halves are made of whole domains
        }
        // A coset meets both halves where S holds a difference of two base vectors with the top coordinate set.
        let top = 1u64 << (functions - 1);
        let base = self.base_vectors();
        let both = self.banks.subspace().span().any(|vector| vector & top != 0 && base.contains(vector));
        if both { 1 << functions } else { 0 }
    }

    /// Spans the bank vectors of the address bits at and above the granule.
    fn base_vectors(&self) -> Basis {
        let columns = gf2::columns(self.platform.function_masks(), self.platform.address_bits());
        let above = (self.granule.shift() as usize).min(columns.len());
        Basis::spanning(columns[above..].iter().copied())
    }

    /// Walks, ascending, the base addresses of whole granules in `range` whose bank class is in `banks` and whose set color
    /// is in `sets` (`None`: any). Jumps from one to the next: granules of other colors are not visited.
    ///
    /// # Errors
    /// [`SelectionError`] when the selection names colors that do not exist or that no granule has together.
    pub fn enumerate(
        &self,
        banks: Option<&IndexSet>,
        sets: Option<&IndexSet>,
        range: Range<PhysAddr>,
    ) -> Result<enumerate::Granules, SelectionError> {
        let selection = Selection { banks: banks.cloned(), sets: sets.cloned(), node: None };
        Ok(selection.compile(self)?.enumerate(range))
    }

    /// Gives the node of each bank class, meaningful where [`Palette::node_is_honored`].
    pub(crate) fn node_of_class(&self, class: u32) -> u32 {
        let bits = self.banks.index_bits();
        let domain = self.platform.domains()[(class >> bits) as usize];
        let vector = self.banks.member(u64::from(class) & ((1 << bits) - 1));
        domain.node + self.platform.role_value(Role::Node, vector as u32).unwrap_or(0)
    }

    pub(crate) fn evaluator(&self) -> &Arc<Evaluator> {
        &self.evaluator
    }

    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }
}

/// Divides the function values by what the bits inside the granule add to them.
fn quotient(functions: &[u64], granule: Granule) -> Quotient {
    Quotient::new(functions.len() as u32, gf2::columns(functions, granule.shift()))
}

fn check_regions(platform: &Platform, granule: Granule) -> Result<(), PaletteError> {
    for (region, known) in platform.regions().iter().enumerate() {
        let id = || platform.id().to_owned();
        if let Some(rule) = known.interleave.filter(|rule| rule.shift < granule.shift()) {
            let block = ByteSize(1 << rule.shift);
            return Err(PaletteError::ModuloInsideGranule { platform: id(), region, ways: rule.ways, block, granule });
        }
        let shift = known.base.0.abs_diff(known.dram_base);
        if shift % granule.bytes() != 0 {
            let accepted = ByteSize(1 << shift.trailing_zeros());
            return Err(PaletteError::OffsetInsideGranule { platform: id(), region, shift, granule, accepted });
        }
        let (pieces, cause) = match known.interleave {
            Some(_) => (known.size_bytes >> granule.shift(), "modulo interleave"),
            None => (known.size_bytes.unbounded_shr(shift.trailing_zeros()), "offset"),
        };
        if pieces > PIECES_MAX {
            return Err(PaletteError::TooManyPieces { platform: id(), region, granule, pieces, cause });
        }
    }
    Ok(())
}
