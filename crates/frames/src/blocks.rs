//! Free blocks of every order, merged with their buddies: the base of every allocator here.
//!
//! Each order of each zone has several free lists, and the system assigns a block to one of them: the buddy allocator
//! has one, BPM one for each class of a block's first frame, memtint's allocator one for each pattern of colors. A
//! bitmap marks the free lists that are not empty.
//!
//! The state of a frame is one byte. Only the first frame of a block has one; frames inside a block are `INSIDE`, free
//! or not, so that handing out, splitting and merging take constant time, and freeing a frame that is not the first of
//! an allocated block is detected.

use std::fmt;
use std::sync::Arc;

use crate::allocator::Steps;
use crate::error::FrameError;
use crate::lists::{Links, List};
use crate::memory::{FrameMemory, ORDER_MAX};

/// Assigns each free block to a free list.
pub trait FreeLists {
    /// Counts the free lists of an order; at least 1.
    fn free_lists(&self, order: u32) -> u32;
    /// Gives the free list of the whole block of this order whose first frame has this index.
    fn free_list(&self, memory: &FrameMemory, order: u32, first: u32) -> u32;
}

/// One free list for each order: the buddy allocator's free lists.
#[derive(Clone, Copy, Debug)]
pub struct OneFreeList;

impl FreeLists for OneFreeList {
    fn free_lists(&self, _: u32) -> u32 {
        1
    }

    fn free_list(&self, _: &FrameMemory, _: u32, _: u32) -> u32 {
        0
    }
}

/// Frame inside a block, or none at all.
const INSIDE: u8 = 0;
/// First of a free block; the order is in the low bits.
const FREE: u8 = 0x80;
/// First of an allocated block; the order is in the low bits.
const HELD: u8 = 0x40;
/// On a color list.
const ON_COLOR_LIST: u8 = 0x20;
/// On a per-CPU list.
const ON_CPU_LIST: u8 = 0x21;
/// Forgotten by an algorithm as printed: neither free nor held.
const LOST: u8 = 0x22;
/// Owned by another system of a shared memory: on its lists, held by its tasks, or forgotten.
const ELSEWHERE: u8 = 0x23;

const ORDERS: usize = ORDER_MAX as usize + 1;

#[derive(Clone)]
struct ZoneFree {
    /// One list for each bit of `filled`.
    lists: Vec<List>,
    filled: Vec<u64>,
    blocks: [u32; ORDERS],
    /// Bit `n`: there are blocks of order `n`.
    orders: u32,
}

/// A block found on a free list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) order: u32,
    /// Position of the free list among all free lists of the zone.
    bit: u32,
}

/// A block that was filed on its free list, or taken off it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub(crate) first: u32,
    pub(crate) order: u32,
    pub(crate) filed: bool,
}

/// All free blocks of a memory.
#[derive(Clone)]
pub(crate) struct Blocks<S> {
    pub(crate) memory: Arc<FrameMemory>,
    pub(crate) free_lists: S,
    pub(crate) links: Links,
    pub(crate) steps: Steps,
    state: Vec<u8>,
    zones: Vec<ZoneFree>,
    /// First word of each order in `filled`, and the number of all words at the end.
    first_word: [usize; ORDERS + 1],
    order_max: u32,
    /// A system put blocks back without merging: buddies may be free side by side.
    unmerged: bool,
    /// Changes not yet passed to the other systems of a shared memory; `None` if there are none.
    journal: Option<Vec<Change>>,
}

impl<S> fmt::Debug for Blocks<S> {
    /// Without the tables: they are as long as the memory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("memory", &self.memory).field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl<S: FreeLists> Blocks<S> {
    /// Files all frames of the memory as blocks of at most `order_max`.
    pub(crate) fn new(memory: Arc<FrameMemory>, free_lists: S, order_max: u32) -> Blocks<S> {
        let mut first_word = [0; ORDERS + 1];
        for order in 0..ORDERS {
            first_word[order + 1] = first_word[order] + (free_lists.free_lists(order as u32) as usize).div_ceil(64);
        }
        let indices = memory.indices();
        let mut blocks = Blocks {
            links: Links::new(indices),
            steps: Steps::default(),
            state: vec![INSIDE; indices as usize],
            zones: Vec::new(),
            first_word,
            order_max,
            unmerged: false,
            journal: None,
            free_lists,
            memory,
        };
        blocks.file_all();
        blocks
    }

    fn file_all(&mut self) {
        let words = self.first_word[ORDERS];
        let empty =
            ZoneFree { lists: vec![List::EMPTY; words * 64], filled: vec![0; words], blocks: [0; ORDERS], orders: 0 };
        self.zones = vec![empty; self.memory.zones().len()];
        let memory = Arc::clone(&self.memory);
        for (first, order) in memory.whole_blocks(self.order_max) {
            self.file(first, order, true);
        }
        self.steps = Steps::default();
    }

    /// Marks the blocks, all free and whole, as those of a shared memory: from now on none is above this order, and changes are recorded.
    pub(crate) fn share(&mut self, order_max: u32) {
        if order_max < self.order_max {
            self.order_max = order_max;
            self.state.fill(INSIDE);
            self.file_all();
        }
        self.journal = Some(Vec::new());
    }

    /// Gives the changes since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Applies a change that another system made to the shared blocks. It does not count as work here.
    pub(crate) fn follow(&mut self, change: Change) {
        let Change { first, order, filed } = change;
        let (journal, steps) = (self.journal.take(), self.steps);
        let frames = first as usize..first as usize + (1 << order);
        if filed {
            self.state[frames].fill(INSIDE);
            self.file(first, order, false);
        } else {
            self.unfile(first, order);
            self.state[frames].fill(ELSEWHERE);
        }
        (self.journal, self.steps) = (journal, steps);
    }

    /// Gives the largest order of a block.
    pub(crate) fn order_max(&self) -> u32 {
        self.order_max
    }

    /// Counts the free blocks of each order, over all zones.
    pub(crate) fn by_order(&self) -> [u64; ORDERS] {
        let mut counts = [0; ORDERS];
        for zone in &self.zones {
            for (count, &blocks) in counts.iter_mut().zip(&zone.blocks) {
                *count += u64::from(blocks);
            }
        }
        counts
    }

    /// First words of the orders in masks over free lists, and the number of words after them.
    pub(crate) fn first_words(&self) -> &[usize; ORDERS + 1] {
        &self.first_word
    }

    /// Finds the smallest block of at least this order in a zone, on any free list.
    #[inline]
    pub(crate) fn find_any(&mut self, zone: u8, order: u32) -> Option<Found> {
        let orders = self.zones[zone as usize].orders >> order << order;
        let order = (orders != 0).then(|| orders.trailing_zeros())?;
        let words = self.first_word[order as usize]..self.first_word[order as usize + 1];
        for word in words {
            self.steps.lookups += 1;
            let filled = self.zones[zone as usize].filled[word];
            if filled != 0 {
                return Some(Found { order, bit: word as u32 * 64 + filled.trailing_zeros() });
            }
        }
        unreachable!("an order with blocks has a free_list with blocks")
    }

    /// Finds the smallest block of at least this order in a zone, on a free list of the mask; at order 0 on the first free list at or after
    /// `from`, else on the first of all.
    #[inline]
    pub(crate) fn find_in(&mut self, zone: u8, order: u32, mask: &[u64], from: u32) -> Option<Found> {
        let free = &self.zones[zone as usize];
        let mut orders = free.orders >> order << order;
        while orders != 0 {
            let order = orders.trailing_zeros();
            orders &= orders - 1;
            let start = self.first_word[order as usize];
            let words = self.first_word[order as usize + 1] - start;
            let (turn, keep) = if order == 0 { ((from / 64) as usize, !0 << (from % 64)) } else { (0, !0) };
            // The word of `from` is examined twice: its upper part first, its lower part last.
            for step in 0..words + usize::from(keep != !0) {
                let word = start + (turn + step) % words;
                self.steps.lookups += 1;
                let both = free.filled[word] & mask[word] & if step == 0 { keep } else { !0 };
                if both != 0 {
                    return Some(Found { order, bit: word as u32 * 64 + both.trailing_zeros() });
                }
            }
        }
        None
    }

    /// Finds the smallest block of at least this order in a zone, on one of the free lists that `free_lists_of` names for each
    /// order.
    pub(crate) fn find_on(&mut self, zone: u8, order: u32, free_lists_of: impl Fn(&S, u32) -> &[u32]) -> Option<Found> {
        for order in order..=self.order_max {
            for &free_list in free_lists_of(&self.free_lists, order) {
                self.steps.lookups += 1;
                let bit = self.first_word[order as usize] as u32 * 64 + free_list;
                if !self.zones[zone as usize].lists[bit as usize].is_empty() {
                    return Some(Found { order, bit });
                }
            }
        }
        None
    }

    /// Takes the first block off a free list and halves it down to an order. At each halving, the lower half, a block
    /// of that order at that index, is kept if `lower(order, first)` is true; the other half is filed.
    ///
    /// The remaining block has no state: the caller sets it.
    #[inline]
    pub(crate) fn carve(&mut self, zone: u8, found: Found, order: u32, lower: impl Fn(&Self, u32, u32) -> bool) -> u32 {
        let mut first = self.unfile_first(zone, found);
        for half in (order..found.order).rev() {
            let upper = first + (1 << half);
            self.steps.splits += 1;
            if lower(self, half, first) {
                self.file(upper, half, false);
            } else {
                self.file(first, half, false);
                first = upper;
            }
        }
        first
    }

    /// Takes the smallest sufficient block, as the buddy allocator does; upper halves are filed.
    #[inline]
    pub(crate) fn take_any(&mut self, zone: u8, order: u32) -> Option<u32> {
        let found = self.find_any(zone, order)?;
        Some(self.carve(zone, found, order, |_, _, _| true))
    }

    /// Takes the first block of exactly this order, whole.
    pub(crate) fn take_exact(&mut self, zone: u8, order: u32) -> Option<u32> {
        let has = self.zones[zone as usize].orders >> order & 1 == 1;
        self.steps.lookups += 1;
        has.then(|| self.take_any(zone, order)).flatten()
    }

    /// Returns a block and merges it with its free buddies, up to the largest order.
    #[inline]
    pub(crate) fn put(&mut self, mut first: u32, mut order: u32) {
        while order < self.order_max {
            let buddy = first ^ (1 << order);
            if self.state[buddy as usize] != FREE | order as u8 {
                break;
            }
            self.unfile(buddy, order);
            self.steps.merges += 1;
            first &= !(1 << order);
            order += 1;
        }
        self.file(first, order, false);
    }

    /// Files a block of order 0 without merging.
    pub(crate) fn put_unmerged(&mut self, first: u32) {
        self.unmerged = true;
        self.file(first, 0, false);
    }

    #[inline]
    fn bit_of(&self, first: u32, order: u32) -> usize {
        self.first_word[order as usize] * 64 + self.free_lists.free_list(&self.memory, order, first) as usize
    }

    #[inline]
    fn file(&mut self, first: u32, order: u32, at_back: bool) {
        let bit = self.bit_of(first, order);
        let zone = &mut self.zones[self.memory.zone_of(first) as usize];
        let list = &mut zone.lists[bit];
        if at_back {
            self.links.push_back(list, first);
        } else {
            self.links.push_front(list, first);
        }
        zone.filled[bit / 64] |= 1 << (bit % 64);
        zone.blocks[order as usize] += 1;
        zone.orders |= 1 << order;
        self.state[first as usize] = FREE | order as u8;
        self.steps.moves += 1;
        self.note(first, order, true);
    }

    #[inline]
    fn note(&mut self, first: u32, order: u32, filed: bool) {
        if let Some(journal) = &mut self.journal {
            journal.push(Change { first, order, filed });
        }
    }

    #[inline]
    fn unfile(&mut self, first: u32, order: u32) {
        let bit = self.bit_of(first, order);
        let zone = self.memory.zone_of(first);
        self.unlink(zone, bit, first, order);
    }

    #[inline]
    fn unfile_first(&mut self, zone: u8, found: Found) -> u32 {
        let first = self.zones[zone as usize].lists[found.bit as usize].first;
        self.unlink(zone, found.bit as usize, first, found.order);
        first
    }

    #[inline]
    fn unlink(&mut self, zone: u8, bit: usize, first: u32, order: u32) {
        let zone = &mut self.zones[zone as usize];
        let list = &mut zone.lists[bit];
        self.links.remove(list, first);
        zone.filled[bit / 64] &= !(u64::from(list.is_empty()) << (bit % 64));
        zone.blocks[order as usize] -= 1;
        zone.orders &= !(u32::from(zone.blocks[order as usize] == 0) << order);
        self.state[first as usize] = INSIDE;
        self.steps.moves += 1;
        self.note(first, order, false);
    }

    pub(crate) fn mark_held(&mut self, first: u32, order: u32) {
        assert!(first.is_multiple_of(1 << order), "a block of order {order} at {}, unaligned", self.memory.pfn(first));
        debug_assert!(
            (first..first + (1 << order)).all(|frame| self.state[frame as usize] & 0xf0 != HELD),
            "frames from {} on are handed out twice",
            self.memory.pfn(first)
        );
        assert_ne!(self.state[first as usize] & 0xf0, HELD, "{} is handed out twice", self.memory.pfn(first));
        self.state[first as usize] = HELD | order as u8;
    }

    pub(crate) fn mark_on_color_list(&mut self, frame: u32) {
        self.state[frame as usize] = ON_COLOR_LIST;
    }

    pub(crate) fn mark_on_cpu_list(&mut self, frame: u32) {
        self.state[frame as usize] = ON_CPU_LIST;
    }

    pub(crate) fn mark_lost(&mut self, frame: u32) {
        self.state[frame as usize] = LOST;
    }

    /// Ends a holding: the block no longer has a state.
    #[inline]
    pub(crate) fn release(&mut self, first: u32, order: u32) -> Result<(), FrameError> {
        let state = self.state[first as usize];
        if state == HELD | order as u8 {
            self.state[first as usize] = INSIDE;
            return Ok(());
        }
        let pfn = self.memory.pfn(first);
        if state & 0xf0 == HELD {
            return Err(FrameError::WrongOrder { pfn, order, allocated: u32::from(state & 0xf) });
        }
        let found = match state {
            INSIDE => "inside a larger block",
            ON_COLOR_LIST => "free on a color list",
            ON_CPU_LIST => "free on a per-cpu list",
            LOST => "lost",
            ELSEWHERE => "another allocator has it",
            _ => "free",
        };
        Err(FrameError::NotAllocated { pfn, found })
    }

    /// Walks the whole structure and counts faults: for tests. Zero: every block is on its free list, counted and marked once; bitmap and
    /// counters agree with the lists; no two buddies are free side by side.
    pub(crate) fn faults(&self) -> usize {
        let mut faults = 0;
        let mut seen = 0;
        for zone in 0..self.zones.len() {
            let free = &self.zones[zone];
            for order in 0..=self.order_max {
                let mut blocks = 0;
                let bits = self.first_word[order as usize] * 64..self.first_word[order as usize + 1] * 64;
                for bit in bits {
                    let list = &free.lists[bit];
                    faults += usize::from((free.filled[bit / 64] >> (bit % 64) & 1 == 1) == list.is_empty());
                    for first in self.links.walk(list) {
                        blocks += 1;
                        let right = self.bit_of(first, order) == bit
                            && usize::from(self.memory.zone_of(first)) == zone
                            && self.state[first as usize] == FREE | order as u8
                            && first.is_multiple_of(1 << order);
                        faults += usize::from(!right);
                        let merges = order < self.order_max && !self.unmerged;
                        let apart = !merges || self.state[(first ^ (1 << order)) as usize] != FREE | order as u8;
                        faults += usize::from(!apart);
                    }
                }
                faults += usize::from(blocks != free.blocks[order as usize]);
                faults += usize::from((free.orders >> order & 1 == 1) != (blocks > 0));
                seen += blocks as usize;
            }
        }
        let marked = self.state.iter().filter(|&&state| state & FREE != 0).count();
        faults + seen.abs_diff(marked)
    }
}
