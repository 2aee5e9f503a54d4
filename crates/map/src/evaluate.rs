//! The color of a frame in a few nanoseconds.
//!
//! A bank class has one bit per XOR of address bits above the granule. The value of such functions at an address is the
//! XOR of their values at its bytes, so five tables of 256 entries replace up to forty parities.

use crate::file::Role;
use crate::gf2::{self, Quotient};
use crate::granule::Granule;
use crate::palette::FrameColor;
use crate::platform::Platform;
use memtint_units::{PAGE_SHIFT, Pfn};

/// The tables are indexed by the bytes of a frame number; 40 bits of frame number are 52 bits of address.
const CHUNKS: usize = 5;
const CHUNK_BITS: usize = 8;

type Tables = [[u32; 1 << CHUNK_BITS]; CHUNKS];

/// The data needed to color frames at one granule.
#[derive(Debug)]
pub(crate) struct Evaluator {
    regions: Vec<FrameRegion>,
    class_tables: Box<Tables>,
    color_tables: Box<Tables>,
    class_bits: u32,
    /// Masks of the node functions on frame numbers of DRAM addresses; empty where nodes are address ranges only.
    node_masks: Vec<u64>,
    granule_pages: u64,
}

#[derive(Debug)]
struct FrameRegion {
    first_pfn: u64,
    pages: u64,
    /// Added (wrapping) to a frame number to get the frame number of its DRAM address.
    to_dram: u64,
    first_domain: u32,
    node: u32,
    /// Ways and base-two logarithm of the block in frames.
    interleave: Option<(u64, u32)>,
}

impl Evaluator {
    /// Prepares tables; an interleave block must be no smaller than the granule.
    pub(crate) fn new(platform: &Platform, granule: Granule, banks: &Quotient, sets: &Quotient) -> Evaluator {
        Evaluator {
            regions: platform.regions().iter().map(FrameRegion::new).collect(),
            class_tables: tables(platform.function_masks(), banks, granule),
            color_tables: tables(platform.set_masks(), sets, granule),
            class_bits: banks.index_bits(),
            node_masks: platform.role_masks(Role::Node).iter().map(|mask| mask >> PAGE_SHIFT).collect(),
            granule_pages: granule.pages(),
        }
    }

    /// Evaluates a frame's color; `None` outside every region.
    #[inline]
    pub(crate) fn color(&self, pfn: Pfn) -> Option<FrameColor> {
        // Regions are sorted, so the last that starts at or before the frame is the only candidate. Counting instead of
        // searching leaves no branch to mispredict; there are a handful of regions.
        let started: usize = self.regions.iter().map(|region| usize::from(region.first_pfn <= pfn.0)).sum();
        let region = self.regions.get(started.wrapping_sub(1))?;
        if pfn.0 - region.first_pfn >= region.pages {
            return None;
        }
        let linear = pfn.0.wrapping_add(region.to_dram);
        let (domain, dram_pfn) = match region.interleave {
            None => (region.first_domain, linear),
            Some((ways, shift)) => {
                let block = linear >> shift;
                let inside = linear & ((1 << shift) - 1);
                (region.first_domain + (block % ways) as u32, (block / ways) << shift | inside)
            }
        };
        Some(FrameColor {
            bank_class: domain << self.class_bits | lookup(&self.class_tables, dram_pfn),
            set_color: lookup(&self.color_tables, pfn.0),
            node: region.node + self.node_value(dram_pfn),
        })
    }

    #[inline]
    fn node_value(&self, dram_pfn: u64) -> u32 {
        if self.node_masks.is_empty() {
            return 0;
        }
        // Of the granule's base, so that all frames of a granule agree.
        gf2::evaluate(&self.node_masks, dram_pfn & !(self.granule_pages - 1)) as u32
    }
}

impl FrameRegion {
    fn new(region: &crate::platform::Region) -> FrameRegion {
        let first_pfn = region.base.pfn().0;
        FrameRegion {
            first_pfn,
            pages: region.size_bytes >> PAGE_SHIFT,
            to_dram: (region.dram_base >> PAGE_SHIFT).wrapping_sub(first_pfn),
            first_domain: region.first_domain,
            node: region.node,
            interleave: region.interleave.map(|rule| (u64::from(rule.ways), rule.shift.saturating_sub(PAGE_SHIFT))),
        }
    }
}

#[inline]
fn lookup(tables: &Tables, pfn: u64) -> u32 {
    let chunk = |number: usize| tables[number][(pfn >> (number * CHUNK_BITS)) as usize & 0xff];
    chunk(0) ^ chunk(1) ^ chunk(2) ^ chunk(3) ^ chunk(4)
}

fn tables(functions: &[u64], quotient: &Quotient, granule: Granule) -> Box<Tables> {
    let bits_total = PAGE_SHIFT + (CHUNKS * CHUNK_BITS) as u32;
    let columns = gf2::columns(functions, bits_total);
    let index = |bit: u32| {
        // Bits inside the granule lie in the subspace and give index zero by construction.
        let index = quotient.index(columns[bit as usize]) as u32;
        debug_assert!(bit >= granule.shift() || index == 0);
        index
    };
    let mut tables: Box<Tables> = Box::new([[0; 1 << CHUNK_BITS]; CHUNKS]);
    for (number, table) in tables.iter_mut().enumerate() {
        let first_bit = PAGE_SHIFT + (number * CHUNK_BITS) as u32;
        let chunk_columns: Vec<u32> = (0..CHUNK_BITS as u32).map(|bit| index(first_bit + bit)).collect();
        for (value, entry) in table.iter_mut().enumerate() {
            *entry = gf2::bits(value as u64).fold(0, |sum, bit| sum ^ chunk_columns[bit as usize]);
        }
    }
    tables
}
