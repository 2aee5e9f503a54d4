//! Counting and walking the granules of chosen colors without visiting the others.
//!
//! Region bounds and DRAM offsets are not linear over GF(2), but they are constant on aligned blocks: memory is cut into
//! blocks of `2^k` bytes that are aligned both as physical and as DRAM addresses. Inside a block the *joint color*
//! (bank class of the domain in the low bits, set color above them) of the granule at offset `x` is
//!
//! ```text
//! joint(x) = joint(block) ^ XOR of column[b] over the set bits b of x
//! ```
//!
//! Counting expands the image of the columns once per block. Walking descends the binary tree of offset bits, from high to
//! low, along branches from which a chosen joint color can still be reached; `reachable[j]` holds, as one bit per
//! joint color, the colors from which the bits below `j` can reach a chosen one.

use crate::evaluate::Evaluator;
use crate::gf2::{self, Quotient};
use crate::granule::Granule;
use crate::palette::Pair;
use crate::platform::{ADDRESS_BITS_MAX, Interleave, Platform, Region};
use crate::select::{Selected, test};
use memtint_units::PhysAddr;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The parts of a palette used for counting and walking.
#[derive(Debug)]
pub(crate) struct Shape {
    granule: Granule,
    regions: Vec<Stretch>,
    /// No walk meets an address bit at or above this one.
    top: u32,
    class_bits: u32,
    color_bits: u32,
    /// Bank class (within its domain) of each DRAM address bit alone.
    class_columns: Vec<u64>,
    /// Set color of each physical address bit alone.
    color_columns: Vec<u64>,
}

/// The parts of a region used for walking.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    base: u64,
    end: u64,
    dram_base: u64,
    first_domain: u32,
    interleave: Option<Interleave>,
}

impl Stretch {
    fn of(region: &Region) -> Stretch {
        Stretch {
            base: region.base.0,
            end: region.end().0,
            dram_base: region.dram_base,
            first_domain: region.first_domain,
            interleave: region.interleave,
        }
    }

    /// Gives the number of address bits in which a walk of this region branches.
    fn walk_bits(&self) -> u32 {
        let size = self.end - self.base;
        match self.interleave {
            // Offsets in a block.
            None => size.ilog2(),
            // Channel addresses. The last byte may lie low in its block, and the blocks of other channels are whole.
            Some(rule) => {
                let last = rule.split(self.dram_base + size - 1).1;
                last.checked_ilog2().map_or(0, |bit| bit + 1).max(rule.shift)
            }
        }
    }
}

impl Shape {
    pub(crate) fn new(platform: &Platform, granule: Granule, banks: &Quotient, sets: &Quotient) -> Shape {
        let indices = |functions: &[u64], quotient: &Quotient| {
            gf2::columns(functions, ADDRESS_BITS_MAX).iter().map(|&column| quotient.index(column)).collect()
        };
        let regions: Vec<Stretch> = platform.regions().iter().map(Stretch::of).collect();
        Shape {
            granule,
            top: regions.iter().map(Stretch::walk_bits).max().unwrap_or(0).max(granule.shift()),
            regions,
            class_bits: banks.index_bits(),
            color_bits: sets.index_bits(),
            class_columns: indices(platform.function_masks(), banks),
            color_columns: indices(platform.set_masks(), sets),
        }
    }

    fn class_at(&self, dram_addr: u64) -> u64 {
        gf2::bits(dram_addr).fold(0, |sum, bit| sum ^ self.class_columns[bit as usize])
    }

    fn color_at(&self, addr: u64) -> u64 {
        gf2::bits(addr).fold(0, |sum, bit| sum ^ self.color_columns[bit as usize])
    }

    fn joint_at(&self, phys: u64, dram: u64) -> u64 {
        self.class_at(dram) | self.color_at(phys) << self.class_bits
    }

    fn joint_column(&self, bit: u32) -> u64 {
        self.class_columns[bit as usize] | self.color_columns[bit as usize] << self.class_bits
    }
}

/// A stretch of `2^shift` bytes, aligned as physical and as DRAM address.
#[derive(Clone, Copy, Debug)]
struct Block {
    phys: u64,
    dram: u64,
    shift: u32,
}

/// Gives the largest block that starts at `phys` in the region, `None` behind its last whole granule.
fn block_at(region: &Stretch, phys: u64, granule: Granule) -> Option<Block> {
    let end = region.end & !(granule.bytes() - 1);
    if phys >= end {
        return None;
    }
    let dram = phys - region.base + region.dram_base;
    let room = 63 - (end - phys).leading_zeros();
    let shift = room.min(phys.trailing_zeros()).min(dram.trailing_zeros());
    debug_assert!(shift >= granule.shift());
    Some(Block { phys, dram, shift })
}

fn first_granule(region: &Stretch, granule: Granule) -> u64 {
    region.base.next_multiple_of(granule.bytes())
}

/// Counts the whole granules of each pair of bank class and set color, sorted; pairs without granules are left out.
pub(crate) fn count_pairs(shape: &Shape, evaluator: &Evaluator) -> Vec<Pair> {
    let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for region in &shape.regions {
        if region.interleave.is_some() {
            count_one_by_one(shape, region, evaluator, &mut counts);
        } else {
            count_by_block(shape, region, &mut counts);
        }
    }
    let pair = |((bank_class, set_color), granules)| Pair { bank_class, set_color, granules };
    counts.into_iter().map(pair).collect()
}

fn count_by_block(shape: &Shape, region: &Stretch, counts: &mut BTreeMap<(u32, u32), u64>) {
    // Blocks of one size and one coset of colors count alike: expand each such kind once.
    let mut kinds: HashMap<(u32, u64), u64> = HashMap::new();
    let mut images: Vec<Option<gf2::Basis>> = vec![None; 64];
    let mut phys = first_granule(region, shape.granule);
    while let Some(block) = block_at(region, phys, shape.granule) {
        let image = images[block.shift as usize].get_or_insert_with(|| {
            gf2::Basis::spanning((shape.granule.shift()..block.shift).map(|bit| shape.joint_column(bit)))
        });
        let coset = image.reduce(shape.joint_at(block.phys, block.dram));
        *kinds.entry((block.shift, coset)).or_default() += 1;
        phys += 1 << block.shift;
    }
    for ((shift, coset), blocks) in kinds {
        let image = images[shift as usize].as_ref().expect("computed with the block");
        let each = blocks << (shift - shape.granule.shift() - image.rank());
        for vector in image.span() {
            let joint = vector ^ coset;
            let class = joint & ((1 << shape.class_bits) - 1);
            let bank_class = region.first_domain << shape.class_bits | class as u32;
            *counts.entry((bank_class, (joint >> shape.class_bits) as u32)).or_default() += each;
        }
    }
}

fn count_one_by_one(shape: &Shape, region: &Stretch, evaluator: &Evaluator, counts: &mut BTreeMap<(u32, u32), u64>) {
    let ways = region.interleave.map_or(1, |rule| rule.ways);
    let first_class = region.first_domain << shape.class_bits;
    let classes = ways << shape.class_bits;
    let mut dense = vec![0u64; (classes as usize) << shape.color_bits];
    let mut phys = first_granule(region, shape.granule);
    let end = region.end & !(shape.granule.bytes() - 1);
    while phys < end {
        let color = evaluator.color(PhysAddr(phys).pfn()).expect("the granule lies in a region");
        dense[((color.bank_class - first_class) << shape.color_bits | color.set_color) as usize] += 1;
        phys += shape.granule.bytes();
    }
    for (index, granules) in dense.into_iter().enumerate().filter(|&(_, granules)| granules > 0) {
        let (class, color) = (index as u32 >> shape.color_bits, index as u32 & ((1 << shape.color_bits) - 1));
        *counts.entry((first_class + class, color)).or_default() += granules;
    }
}

/// One bit for each joint color; `levels[j - floor]` as described for `reachable[j]` in the module documentation.
#[derive(Debug)]
struct Reachable {
    floor: u32,
    levels: Vec<Vec<u64>>,
}

impl Reachable {
    /// Starts from the chosen colors at bit `floor` and adds one column after the other, up to bit `top` (excluded).
    fn new(chosen: Vec<u64>, floor: u32, top: u32, column: impl Fn(u32) -> u64) -> Reachable {
        let mut levels = vec![chosen];
        for bit in floor..top {
            let below = &levels[levels.len() - 1];
            let next = union_with_shifted(below, column(bit));
            levels.push(next);
        }
        Reachable { floor, levels }
    }

    fn holds(&self, level: u32, joint: u64) -> bool {
        test(&self.levels[(level - self.floor) as usize], joint as u32)
    }
}

/// Gives the set of `v` for which `v` or `v ^ column` is in the set.
fn union_with_shifted(set: &[u64], column: u64) -> Vec<u64> {
    let (words, inside) = ((column / 64) as usize, column % 64);
    (0..set.len()).map(|word| set[word] | set.get(word ^ words).map_or(0, |&other| swap_bits(other, inside))).collect()
}

/// Moves bit `i` to bit `i ^ distance`.
fn swap_bits(mut word: u64, distance: u64) -> u64 {
    const KEEP: [u64; 6] = [
        0x5555_5555_5555_5555,
        0x3333_3333_3333_3333,
        0x0f0f_0f0f_0f0f_0f0f,
        0x00ff_00ff_00ff_00ff,
        0x0000_ffff_0000_ffff,
        0x0000_0000_ffff_ffff,
    ];
    for (bit, keep) in KEEP.iter().enumerate().filter(|(bit, _)| distance >> bit & 1 == 1) {
        word = (word & keep) << (1 << bit) | (word >> (1 << bit)) & keep;
    }
    word
}

/// Finds the next offset at or after a given one whose joint color is chosen, in a block of `2^top` bytes.
struct Walk<'a, C: Fn(u32) -> u64> {
    reachable: &'a Reachable,
    column: C,
    top: u32,
}

impl<C: Fn(u32) -> u64> Walk<'_, C> {
    /// Gives the first chosen offset at or after `from`; `joint` is the color at offset zero.
    fn seek(&self, joint: u64, from: u64) -> Option<(u64, u64)> {
        if from == 0 {
            return self.reachable.holds(self.top, joint).then(|| self.descend(0, joint, self.top));
        }
        let joint = gf2::bits(from).fold(joint, |sum, bit| sum ^ (self.column)(bit));
        if self.reachable.holds(self.reachable.floor, joint) {
            return Some((from, joint));
        }
        self.next(from, joint)
    }

    /// Gives the first chosen offset after `offset`, whose color is `joint`, and its color.
    fn next(&self, mut offset: u64, mut joint: u64) -> Option<(u64, u64)> {
        for bit in self.reachable.floor..self.top {
            joint ^= (self.column)(bit);
            if offset >> bit & 1 == 1 {
                offset &= !(1 << bit);
            } else if self.reachable.holds(bit, joint) {
                return Some(self.descend(offset | 1 << bit, joint, bit));
            } else {
                joint ^= (self.column)(bit); // the bit stays clear
            }
        }
        None
    }

    /// Gives the first chosen offset below a node of the tree from which one can be reached.
    fn descend(&self, mut offset: u64, mut joint: u64, level: u32) -> (u64, u64) {
        for bit in (self.reachable.floor..level).rev() {
            if !self.reachable.holds(bit, joint) {
                offset |= 1 << bit;
                joint ^= (self.column)(bit);
            }
        }
        debug_assert!(self.reachable.holds(self.reachable.floor, joint));
        (offset, joint)
    }
}

/// Walks, ascending, the base addresses of chosen granules; made by [`Matcher::enumerate`](crate::Matcher::enumerate).
#[derive(Debug)]
pub struct Granules {
    shape: Arc<Shape>,
    selected: Arc<Selected>,
    /// Whole granules only: both are multiples of the granule.
    start: u64,
    end: u64,
    /// Index of the region the cursor is in.
    region: usize,
    cursor: Cursor,
    /// The tree of the current region's domain.
    tree: Option<Arc<Reachable>>,
    /// The trees built so far, by first domain.
    trees: HashMap<u32, Arc<Reachable>>,
}

#[derive(Debug)]
enum Cursor {
    /// The region has not been visited.
    Fresh,
    /// The last granule given, in a block, with its joint color.
    InBlock { block: Block, offset: u64, joint: u64 },
    /// The next position in a modulo interleave: round, channel, offset in the channel's block.
    InRound { round: u64, channel: u32, inside: u64 },
}

impl Granules {
    pub(crate) fn new(shape: Arc<Shape>, selected: Arc<Selected>, range: Range<PhysAddr>) -> Granules {
        let granule = shape.granule.bytes();
        // If no granule follows the start, the walk is empty.
        let start = range.start.0.checked_next_multiple_of(granule).unwrap_or(!(granule - 1));
        let end = range.end.0 & !(granule - 1);
        let (cursor, trees) = (Cursor::Fresh, HashMap::new());
        Granules { shape, selected, start, end, region: 0, cursor, tree: None, trees }
    }

    /// Makes the tree of the region's domain the current one, building it when the domain is new.
    fn plant(&mut self, region: &Stretch) {
        let (shape, selected) = (&self.shape, &self.selected);
        let tree = self.trees.entry(region.first_domain).or_insert_with(|| Arc::new(grow(shape, selected, region)));
        self.tree = Some(Arc::clone(tree));
    }

    fn next_by_block(&mut self, region: &Stretch) -> Option<u64> {
        let shape = &*self.shape;
        let reachable = self.tree.as_deref()?;
        let column = |bit| shape.joint_column(bit);
        let mut phys = match self.cursor {
            Cursor::InBlock { block, offset, joint } => {
                let walk = Walk { reachable, column, top: block.shift };
                if let Some((offset, joint)) = walk.next(offset, joint) {
                    self.cursor = Cursor::InBlock { block, offset, joint };
                    return Some(block.phys | offset);
                }
                block.phys + (1 << block.shift)
            }
            _ => first_granule(region, shape.granule),
        };
        while let Some(block) = block_at(region, phys, shape.granule).filter(|block| block.phys < self.end) {
            let walk = Walk { reachable, column, top: block.shift };
            let from = self.start.saturating_sub(block.phys);
            if from >> block.shift == 0
                && let Some((offset, joint)) = walk.seek(shape.joint_at(block.phys, block.dram), from)
            {
                self.cursor = Cursor::InBlock { block, offset, joint };
                return Some(block.phys | offset);
            }
            phys = block.phys + (1 << block.shift);
        }
        None
    }

    /// A round is one block in each channel; blocks of a round have the same channel address.
    fn next_by_round(&mut self, region: &Stretch, rule: Interleave) -> Option<u64> {
        let shape = &*self.shape;
        let walk = Walk {
            reachable: self.tree.as_deref()?,
            column: |bit: u32| shape.class_columns[bit as usize],
            top: shape.top,
        };
        let (mut round, mut channel, mut inside) = match self.cursor {
            Cursor::InRound { round, channel, inside } => (round, channel, inside),
            _ => {
                let first = first_granule(region, shape.granule).max(self.start).min(region.end);
                let linear = first - region.base + region.dram_base;
                (seek_round(&walk, rule, rule.split(linear).1 >> rule.shift)?, 0, 0)
            }
        };
        loop {
            if inside == 1 << rule.shift {
                (channel, inside) = (channel + 1, 0);
            }
            if channel == rule.ways {
                (round, channel, inside) = (seek_round(&walk, rule, round + 1)?, 0, 0);
            }
            let channel_addr = round << rule.shift | inside;
            let linear = rule.join(channel, channel_addr);
            inside += shape.granule.bytes();
            self.cursor = Cursor::InRound { round, channel, inside };
            let phys = linear.checked_sub(region.dram_base).map(|distance| distance + region.base);
            let Some(phys) = phys.filter(|&phys| phys >= self.start) else { continue };
            if phys >= self.end || phys + shape.granule.bytes() > region.end {
                return None;
            }
            let class = (region.first_domain + channel) << shape.class_bits | shape.class_at(channel_addr) as u32;
            if self.selected.holds(class, shape.color_at(phys) as u32) {
                return Some(phys);
            }
        }
    }
}

/// Finds the first round at or after the given one with a chosen class in some channel.
fn seek_round<C: Fn(u32) -> u64>(walk: &Walk<'_, C>, rule: Interleave, round: u64) -> Option<u64> {
    let from = round << rule.shift;
    if from >> walk.top != 0 {
        return None;
    }
    walk.seek(0, from).map(|(offset, _)| offset >> rule.shift)
}

fn grow(shape: &Shape, selected: &Selected, region: &Stretch) -> Reachable {
    let floor = shape.granule.shift();
    match region.interleave {
        None => {
            let chosen = chosen_joints(shape, selected, region.first_domain);
            Reachable::new(chosen, floor, shape.top, |bit| shape.joint_column(bit))
        }
        Some(rule) => {
            let chosen = chosen_classes(shape, selected, region.first_domain, rule);
            Reachable::new(chosen, floor, shape.top, |bit| shape.class_columns[bit as usize])
        }
    }
}

fn chosen_joints(shape: &Shape, selected: &Selected, domain: u32) -> Vec<u64> {
    let joints = 1u32 << (shape.class_bits + shape.color_bits);
    let mask = (1 << shape.class_bits) - 1;
    let first = domain << shape.class_bits;
    bit_set(joints, |joint| selected.holds(first | joint & mask, joint >> shape.class_bits))
}

/// Classes (within a domain) that are chosen in any channel of the interleave.
fn chosen_classes(shape: &Shape, selected: &Selected, first_domain: u32, rule: Interleave) -> Vec<u64> {
    let channels = first_domain..first_domain + rule.ways;
    bit_set(1 << shape.class_bits, |class| {
        channels.clone().any(|domain| test(&selected.classes, domain << shape.class_bits | class))
    })
}

fn bit_set(count: u32, wanted: impl Fn(u32) -> bool) -> Vec<u64> {
    let mut set = vec![0; count.div_ceil(64) as usize];
    for index in (0..count).filter(|&index| wanted(index)) {
        set[(index / 64) as usize] |= 1u64 << (index % 64);
    }
    set
}

impl Iterator for Granules {
    type Item = PhysAddr;

    fn next(&mut self) -> Option<PhysAddr> {
        while let Some(&region) = self.shape.regions.get(self.region) {
            if region.base >= self.end {
                return None;
            }
            if region.end > self.start {
                if matches!(self.cursor, Cursor::Fresh) {
                    self.plant(&region);
                }
                let found = match region.interleave {
                    None => self.next_by_block(&region),
                    Some(rule) => self.next_by_round(&region, rule),
                };
                if let Some(phys) = found {
                    return (phys < self.end).then_some(PhysAddr(phys));
                }
            }
            self.region += 1;
            self.cursor = Cursor::Fresh;
        }
        None
    }
}

impl std::iter::FusedIterator for Granules {}
