//! Simulated memory: its frames, their zones and their colors.

use std::fmt;
use std::sync::Arc;

use memtint_map::{FrameColor, Palette};
use memtint_units::{IndexSet, Pfn, PhysAddr};

use crate::error::FrameError;
use crate::task::Policy;

/// The largest order of a block: 2^10 frames, 4 MiB of 4 KiB pages, as in Linux (`MAX_ORDER` 11 counts from zero).
pub const ORDER_MAX: u32 = 10;

/// At most this many different colors (triples of bank class, set color and node that really occur).
pub const COLORS_MAX: usize = u16::MAX as usize;

/// Frames of the largest block. Tables are laid out in sections of this size, so that a block's buddy is always inside.
pub(crate) const SECTION: u32 = 1 << ORDER_MAX;

/// At most this many sections make a sketch: 256 MiB.
const SAMPLE_MAX: usize = 64;

/// In the table of colors: no such frame.
const HOLE: u16 = u16::MAX;

/// Kind of a zone, in the order of addresses; a request falls back to lower kinds, never to higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneKind {
    /// Below 16 MiB, for devices of 24 address bits.
    Dma,
    /// Below 4 GiB, for devices of 32 address bits.
    Dma32,
    /// The rest.
    Normal,
}

/// A range of frames. A zone is all ranges of one node and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRange {
    /// Kind of the zone it belongs to.
    pub zone: ZoneKind,
    /// NUMA node, as the operating system numbers them.
    pub node: u32,
    /// First frame.
    pub start: Pfn,
    /// End, excluded.
    pub end: Pfn,
}

/// Determines the color of a frame, for instance from a platform file or by a closure.
pub trait FrameColoring {
    /// Counts the bank classes; numbers are below.
    fn bank_classes(&self) -> u32;
    /// Counts the set colors; numbers are below.
    fn set_colors(&self) -> u32;
    /// Gives bank class, set color and node of a frame; `None` for a frame outside the function's domain.
    fn color(&self, pfn: Pfn) -> Option<FrameColor>;
}

impl FrameColoring for Palette {
    fn bank_classes(&self) -> u32 {
        Palette::bank_classes(self)
    }

    fn set_colors(&self) -> u32 {
        Palette::set_colors(self)
    }

    fn color(&self, pfn: Pfn) -> Option<FrameColor> {
        self.color_of_frame(pfn)
    }
}

/// A color function given as a closure, with the counts its results stay below.
#[derive(Clone, Debug)]
pub struct ColorBy<F> {
    /// Number of bank classes.
    pub bank_classes: u32,
    /// Number of set colors.
    pub set_colors: u32,
    /// The function.
    pub color: F,
}

impl<F: Fn(Pfn) -> Option<FrameColor>> FrameColoring for ColorBy<F> {
    fn bank_classes(&self) -> u32 {
        self.bank_classes
    }

    fn set_colors(&self) -> u32 {
        self.set_colors
    }

    fn color(&self, pfn: Pfn) -> Option<FrameColor> {
        (self.color)(pfn)
    }
}

/// Sections that follow each other, both as frame numbers and as table indices.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first_pfn: u64,
    frames: u64,
    first_index: u32,
}

/// Frames, zones, CPUs and colors: the immutable description of a memory. Shared by all allocators that run on it.
///
/// Inside the crate, a frame has a dense index; index and frame number agree in their low 10 bits, so that
/// `index ^ (1 << order)` is the buddy of an aligned block.
#[derive(Clone)]
pub struct FrameMemory {
    segments: Vec<Segment>,
    zones: Vec<(ZoneKind, u32)>,
    zone_of_section: Vec<u8>,
    /// Zones in the order in which a request from that CPU tries them.
    zone_lists: Vec<Vec<u8>>,
    cpu_nodes: Vec<u32>,
    color_of: Vec<u16>,
    colors: Vec<FrameColor>,
    frames_of_color: Vec<u32>,
    frames: u64,
    bank_classes: u32,
    set_colors: u32,
}

impl fmt::Debug for FrameMemory {
    /// Without the tables: they are as long as the memory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("frames", &self.frames).field("zones", &self.zones).finish_non_exhaustive()
    }
}

impl FrameMemory {
    /// Describes memory: its ranges in any order, the node of each CPU, and the color of each frame.
    ///
    /// A request from a CPU tries the zones of its node first, `Normal` before `Dma32` before `Dma`, then those of the
    /// next higher node and so on around (Linux's node order, with distances by number: no distance table is modelled).
    /// Watermarks, reserves and migrate types are not modelled either: every free frame is available to all tasks.
    ///
    /// Complexity: one call of the color function for each frame.
    ///
    /// # Errors
    /// [`FrameError`] when there is no range or CPU, a range is empty or overlaps another, two zones meet inside a block of
    /// the largest order, a frame has no color or one outside the function's own counts, or there are more frames
    /// (2^32 - 2) or colors ([`COLORS_MAX`]) than the tables hold.
    pub fn new(
        ranges: &[FrameRange],
        cpu_nodes: &[u32],
        coloring: &impl FrameColoring,
    ) -> Result<Arc<FrameMemory>, FrameError> {
        let ranges = in_order(ranges)?;
        let mut memory = FrameMemory::outline(&ranges, cpu_nodes, coloring)?;
        memory.paint(&ranges, coloring)?;
        Ok(Arc::new(memory))
    }

    /// Describes sorted ranges, without their frames.
    fn outline(
        ranges: &[FrameRange],
        cpu_nodes: &[u32],
        coloring: &impl FrameColoring,
    ) -> Result<FrameMemory, FrameError> {
        if cpu_nodes.is_empty() {
            return Err(FrameError::Nothing { what: "cpus" });
        }
        let mut zones: Vec<(ZoneKind, u32)> = ranges.iter().map(|range| (range.zone, range.node)).collect();
        zones.sort_unstable();
        zones.dedup();
        if zones.len() > u8::MAX as usize {
            let (found, accepted) = (zones.len() as u64, u64::from(u8::MAX));
            return Err(FrameError::TooLarge { what: "zones", found, accepted });
        }
        let segments = segments(ranges)?;
        let indices: u64 = segments.iter().map(|segment| segment.frames).sum();
        let mut memory = FrameMemory {
            zone_of_section: vec![u8::MAX; (indices / u64::from(SECTION)) as usize],
            zone_lists: cpu_nodes.iter().map(|&node| zone_list(&zones, node)).collect(),
            cpu_nodes: cpu_nodes.to_vec(),
            color_of: Vec::new(),
            colors: Vec::new(),
            frames_of_color: Vec::new(),
            frames: ranges.iter().map(|range| range.end.0 - range.start.0).sum(),
            bank_classes: coloring.bank_classes(),
            set_colors: coloring.set_colors(),
            segments,
            zones,
        };
        for range in ranges {
            memory.claim_sections(range)?;
        }
        Ok(memory)
    }

    /// Describes the memory of a platform: its regions, cut into zones at 16 MiB and 4 GiB as on x86-64.
    ///
    /// The node of a zone is that of the region. If the node is a function of address bits instead (nodes interleaved),
    /// the operating system sees one node, and so does this; the color still has the actual one.
    ///
    /// # Errors
    /// As [`FrameMemory::new`].
    pub fn of_palette(palette: &Palette, cpu_nodes: &[u32]) -> Result<Arc<FrameMemory>, FrameError> {
        FrameMemory::new(&ranges_of(palette), cpu_nodes, palette)
    }

    /// Describes a small part of a platform's memory that contains every color of the whole: allocators refuse for it the same requests and
    /// tasks as for [`FrameMemory::of_palette`], and it is refused when that is.
    ///
    /// If the mapping does not repeat block by block, or if there are too many colors for a small part, it is all of the memory.
    ///
    /// Complexity: one call of the color function for each frame of the part.
    ///
    /// # Errors
    /// As [`FrameMemory::of_palette`].
    pub fn sketch_of_palette(palette: &Palette, cpu_nodes: &[u32]) -> Result<Arc<FrameMemory>, FrameError> {
        let ranges = ranges_of(palette);
        match repeats(palette).then(|| sample(palette)).flatten() {
            None => FrameMemory::new(&ranges, cpu_nodes, palette),
            Some(sections) => {
                let ranges = in_order(&ranges)?;
                FrameMemory::outline(&ranges, cpu_nodes, palette)?;
                FrameMemory::new(&cut(&ranges, &sections), cpu_nodes, palette)
            }
        }
    }

    /// Counts the frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Counts the CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.cpu_nodes.len() as u32
    }

    /// Gives the node of a CPU; `None` at or above [`FrameMemory::cpus`].
    #[must_use]
    pub fn node_of_cpu(&self, cpu: u32) -> Option<u32> {
        self.cpu_nodes.get(cpu as usize).copied()
    }

    /// Gives kind and node of each zone, sorted by both.
    #[must_use]
    pub fn zones(&self) -> &[(ZoneKind, u32)] {
        &self.zones
    }

    /// Gives kind and node of the zone of a frame; `None` when there is no such frame.
    #[must_use]
    pub fn zone(&self, pfn: Pfn) -> Option<(ZoneKind, u32)> {
        self.index(pfn).map(|index| self.zones[self.zone_of(index) as usize])
    }

    /// Counts the bank classes of the color function, whether or not all occur.
    #[must_use]
    pub fn bank_classes(&self) -> u32 {
        self.bank_classes
    }

    /// Counts the set colors of the color function, whether or not all occur.
    #[must_use]
    pub fn set_colors(&self) -> u32 {
        self.set_colors
    }

    /// Gives the colors that occur, sorted. A color's place in this list is its number inside the crate.
    #[must_use]
    pub fn colors(&self) -> &[FrameColor] {
        &self.colors
    }

    /// Gives the color of a frame; `None` when there is no such frame.
    #[must_use]
    pub fn color(&self, pfn: Pfn) -> Option<FrameColor> {
        self.index(pfn).map(|index| self.colors[self.color_of(index) as usize])
    }

    /// Returns whether a policy allows this frame; false for a frame that does not exist.
    #[must_use]
    pub fn is_in_color(&self, policy: &Policy, pfn: Pfn) -> bool {
        self.color(pfn).is_some_and(|color| policy.allows(color))
    }

    /// Counts the frames whose color the policy allows.
    ///
    /// # Errors
    /// As for a policy that a task enters with.
    pub fn frames_in_color(&self, policy: &Policy) -> Result<u64, FrameError> {
        let wanted = policy.wanted(self)?;
        let frames = |color: usize| u64::from(self.frames_of_color[color]);
        Ok((0..self.colors.len()).filter(|&color| wanted.has(color as u32)).map(frames).sum())
    }

    /// Counts table entries, holes included.
    pub(crate) fn indices(&self) -> u32 {
        self.color_of.len() as u32
    }

    pub(crate) fn frames_of_color(&self) -> &[u32] {
        &self.frames_of_color
    }

    /// Gives the index of a frame that exists.
    #[inline]
    pub(crate) fn index(&self, pfn: Pfn) -> Option<u32> {
        // A handful of segments at most, and one on nearly every machine.
        let segment = self.segments.iter().rfind(|segment| segment.first_pfn <= pfn.0)?;
        let offset = pfn.0 - segment.first_pfn;
        let index = (offset < segment.frames).then(|| segment.first_index + offset as u32)?;
        self.exists(index).then_some(index)
    }

    #[inline]
    pub(crate) fn pfn(&self, index: u32) -> Pfn {
        let segment = self.segments.iter().rfind(|segment| segment.first_index <= index);
        let segment = segment.expect("the first segment starts at index 0");
        Pfn(segment.first_pfn + u64::from(index - segment.first_index))
    }

    #[inline]
    pub(crate) fn exists(&self, index: u32) -> bool {
        self.color_of[index as usize] != HOLE
    }

    #[inline]
    pub(crate) fn zone_of(&self, index: u32) -> u8 {
        self.zone_of_section[(index / SECTION) as usize]
    }

    #[inline]
    pub(crate) fn color_of(&self, index: u32) -> u16 {
        self.color_of[index as usize]
    }

    #[inline]
    pub(crate) fn bank_of(&self, index: u32) -> u32 {
        self.colors[self.color_of(index) as usize].bank_class
    }

    #[inline]
    pub(crate) fn set_of(&self, index: u32) -> u32 {
        self.colors[self.color_of(index) as usize].set_color
    }

    /// Zones in the order in which a request from this CPU tries them.
    #[inline]
    pub(crate) fn zone_list(&self, cpu: u32) -> &[u8] {
        &self.zone_lists[cpu as usize]
    }

    /// Gives the largest aligned blocks that hold existing frames only, none above `order_max`, ascending.
    pub(crate) fn whole_blocks(&self, order_max: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < self.indices() && !self.exists(at) {
                at += 1;
            }
            (at < self.indices()).then(|| {
                let whole = |order: u32| {
                    at.is_multiple_of(1 << order) && (at..at + (1 << order)).all(|frame| self.exists(frame))
                };
                let order = (0..=order_max).take_while(|&order| whole(order)).last().unwrap_or(0);
                let block = (at, order);
                at += 1 << order;
                block
            })
        })
    }

    fn claim_sections(&mut self, range: &FrameRange) -> Result<(), FrameError> {
        let place = self.zones.binary_search(&(range.zone, range.node)).expect("zones were made of the ranges");
        let size = u64::from(SECTION);
        for section in range.start.0 / size..=(range.end.0 - 1) / size {
            let segment = self.segments.iter().rfind(|segment| segment.first_pfn <= section * size);
            let segment = segment.expect("segments cover the ranges");
            let index = u64::from(segment.first_index) + section * size - segment.first_pfn;
            let owner = &mut self.zone_of_section[(index / size) as usize];
            if *owner != u8::MAX && *owner != place as u8 {
                return Err(FrameError::ZoneBoundary { pfn: Pfn(section * size) });
            }
            *owner = place as u8;
        }
        Ok(())
    }

    /// Numbers the occurring colors densely and in order, and stores one number for each frame.
    fn paint(&mut self, ranges: &[FrameRange], coloring: &impl FrameColoring) -> Result<(), FrameError> {
        let mut seen: Vec<FrameColor> = Vec::new();
        let mut numbers: std::collections::HashMap<FrameColor, u16> = std::collections::HashMap::new();
        let frames: u64 = self.segments.iter().map(|segment| segment.frames).sum();
        self.color_of = vec![HOLE; frames as usize];
        // Neighbours of equal bank class and set color are rare, but a table indexed by both needs no hashing.
        let mut table = vec![(u32::MAX, HOLE); Self::table_size(self.bank_classes, self.set_colors)?];
        for range in ranges {
            let first = self.index_of_any(range.start);
            for (index, pfn) in (first..).zip((range.start.0..range.end.0).map(Pfn)) {
                let color = coloring.color(pfn).ok_or(FrameError::Uncolored { pfn })?;
                let parts = [
                    ("bank class", color.bank_class, self.bank_classes),
                    ("set color", color.set_color, self.set_colors),
                ];
                for (what, found, count) in parts {
                    if found >= count {
                        return Err(FrameError::ColorOutOfRange { pfn, what, found, count });
                    }
                }
                let entry = &mut table[color.bank_class as usize * self.set_colors as usize + color.set_color as usize];
                if entry.0 != color.node || entry.1 == HOLE {
                    let next = seen.len();
                    if next >= COLORS_MAX && !numbers.contains_key(&color) {
                        return Err(FrameError::TooManyColors { found: next + 1 });
                    }
                    let number = *numbers.entry(color).or_insert_with(|| {
                        seen.push(color);
                        next as u16
                    });
                    *entry = (color.node, number);
                }
                self.color_of[index as usize] = entry.1;
            }
        }
        self.number_in_order(&seen);
        Ok(())
    }

    fn number_in_order(&mut self, seen: &[FrameColor]) {
        let mut order: Vec<u16> = (0..seen.len() as u16).collect();
        order.sort_unstable_by_key(|&number| seen[number as usize]);
        let mut place = vec![0u16; seen.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old as usize] = new as u16;
        }
        self.colors = order.iter().map(|&old| seen[old as usize]).collect();
        self.frames_of_color = vec![0; seen.len()];
        for entry in self.color_of.iter_mut().filter(|entry| **entry != HOLE) {
            *entry = place[*entry as usize];
            self.frames_of_color[*entry as usize] += 1;
        }
    }

    fn table_size(banks: u32, sets: u32) -> Result<usize, FrameError> {
        let found = u64::from(banks) * u64::from(sets);
        let accepted = 1 << 22;
        if found > accepted {
            return Err(FrameError::TooLarge { what: "pairs of bank class and set color", found, accepted });
        }
        Ok(found as usize)
    }

    fn index_of_any(&self, pfn: Pfn) -> u32 {
        let segment = self.segments.iter().rfind(|segment| segment.first_pfn <= pfn.0).expect("covers the ranges");
        segment.first_index + (pfn.0 - segment.first_pfn) as u32
    }
}

/// The regions of a platform, cut into zones.
fn ranges_of(palette: &Palette) -> Vec<FrameRange> {
    let limits = [(ZoneKind::Dma, 1 << 12), (ZoneKind::Dma32, 1 << 20), (ZoneKind::Normal, u64::MAX)];
    let mut ranges = Vec::new();
    for region in palette.platform().regions() {
        let node = region.node;
        let end = region.end().pfn().0;
        let mut start = PhysAddr(region.base.0.saturating_add(Pfn(1).addr().0 - 1)).pfn().0;
        for (zone, limit) in limits {
            let stop = end.min(limit);
            if start < stop {
                ranges.push(FrameRange { zone, node, start: Pfn(start), end: Pfn(stop) });
                start = stop;
            }
        }
    }
    ranges
}

/// Returns whether the color of a frame is a function of the color of its section's first frame and of its place in the section: no
/// modulus, and regions made of whole sections in memory and in DRAM. Blocks whose first frames are of one class then hold the same
/// classes, everywhere; and every color is that of a whole granule, all of which the palette covers.
fn repeats(palette: &Palette) -> bool {
    let size = Pfn(u64::from(SECTION)).addr().0.max(palette.granule().bytes());
    let aligned = |region: &memtint_map::Region| {
        [region.base.0, region.size_bytes, region.dram_base].iter().all(|at| at.is_multiple_of(size))
    };
    palette.node_is_honored()
        && palette.platform().regions().iter().all(|region| region.interleave.is_none() && aligned(region))
}

/// Finds sections that hold all colors together, ascending; `None` when they are too many.
fn sample(palette: &Palette) -> Option<Vec<u64>> {
    let only = |color: u32, count: u32| IndexSet::from_indices([color], count).ok();
    let end = palette.platform().regions().iter().map(memtint_map::Region::end).max()?;
    let mut seen = std::collections::HashSet::new();
    let mut sections = std::collections::BTreeSet::new();
    for pair in palette.pairs() {
        if seen.contains(&(pair.bank_class, pair.set_color)) {
            continue;
        }
        let banks = only(pair.bank_class, palette.bank_classes())?;
        let sets = only(pair.set_color, palette.set_colors())?;
        let mut granules = palette.enumerate(Some(&banks), Some(&sets), PhysAddr(0)..end).ok()?;
        let section = granules.next()?.pfn().0 / u64::from(SECTION);
        if sections.len() == SAMPLE_MAX || !sections.insert(section) {
            return None;
        }
        let frames = section * u64::from(SECTION)..(section + 1) * u64::from(SECTION);
        let colors = frames.filter_map(|frame| palette.color_of_frame(Pfn(frame)));
        seen.extend(colors.map(|color| (color.bank_class, color.set_color)));
    }
    Some(sections.into_iter().collect())
}

/// Cuts sorted ranges down to some sections.
fn cut(ranges: &[FrameRange], sections: &[u64]) -> Vec<FrameRange> {
    let size = u64::from(SECTION);
    let part = |range: &FrameRange, section: u64| {
        let (start, end) = (range.start.max(Pfn(section * size)), range.end.min(Pfn((section + 1) * size)));
        (start < end).then_some(FrameRange { start, end, ..*range })
    };
    sections.iter().flat_map(|&section| ranges.iter().filter_map(move |range| part(range, section))).collect()
}

fn in_order(ranges: &[FrameRange]) -> Result<Vec<FrameRange>, FrameError> {
    if ranges.is_empty() {
        return Err(FrameError::Nothing { what: "ranges" });
    }
    for (index, range) in ranges.iter().enumerate() {
        if range.end <= range.start {
            return Err(FrameError::EmptyRange { range: index, start: range.start, end: range.end });
        }
    }
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.start);
    match sorted.windows(2).find(|pair| pair[1].start < pair[0].end) {
        Some(pair) => Err(FrameError::Overlap { pfn: pair[1].start }),
        None => Ok(sorted),
    }
}

/// Joins the sections that the sorted ranges touch into runs.
fn segments(ranges: &[FrameRange]) -> Result<Vec<Segment>, FrameError> {
    let size = u64::from(SECTION);
    let mut segments: Vec<Segment> = Vec::new();
    let mut indices = 0u64;
    for range in ranges {
        let first = range.start.0 / size * size;
        let end = (range.end.0 - 1) / size * size + size;
        let from = match segments.last() {
            Some(open) if first <= open.first_pfn + open.frames => open.first_pfn + open.frames,
            _ => first,
        };
        let grown = end.saturating_sub(from);
        let accepted = u64::from(u32::MAX) - size;
        if indices + grown > accepted {
            return Err(FrameError::TooLarge { what: "frames", found: indices + grown, accepted });
        }
        match segments.last_mut() {
            Some(open) if from == open.first_pfn + open.frames => open.frames += grown,
            _ => segments.push(Segment { first_pfn: first, frames: grown, first_index: indices as u32 }),
        }
        indices += grown;
    }
    Ok(segments)
}

/// The zones of a node from the highest kind down, node after node, starting with `node`.
fn zone_list(zones: &[(ZoneKind, u32)], node: u32) -> Vec<u8> {
    let mut list: Vec<u8> = (0..zones.len() as u8).collect();
    list.sort_by_key(|&zone| {
        let (kind, of) = zones[zone as usize];
        (of.wrapping_sub(node), std::cmp::Reverse(kind))
    });
    list
}
