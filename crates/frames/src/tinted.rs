//! Tinted, memtint's allocator: free blocks stay whole in the buddy system, with an index of their colors.
//!
//! The free list of a free block is the *pattern* of its colors: at order 0 the color itself, above it the unordered pair of
//! its halves' patterns. On mappings that XOR address bits a pattern is a coset, and there are never more of them than
//! colors; on others (interleave by a modulus) there are a few times more. Patterns are counted once, when the allocator is
//! made.
//!
//! ```text
//! order 2   {0,1,2,3}                 want color 2: of the non-empty free lists whose pattern holds a 2, take the one of the
//! order 1   {0,1}  {2,3}              lowest order; halve towards the 2, and file the other halves where they belong
//! order 0   0   1   2   3
//! ```
//!
//! Consequences:
//! - **Constant time.** A request examines one bitmap word for each 64 patterns of each order (11 orders) and zone, halves at most 10
//!   times, and walks no list; a free merges at most 10 times. None of that depends on the size of memory or on the free blocks.
//! - **No trapped frames.** Every free frame is in a block; a freed one is back in its color at once, merges, and can be part of a block of
//!   any order.
//!   of a block of any order.
//! - **Failure is exact.** A strict request fails only when no free frame is in its colors, and it fails at once.
//! - **Strict and soft.** A soft task whose colors are exhausted is given other frames, and they are counted. Tasks without
//!   colors, and soft ones in need, keep out of the colors of strict tasks as long as others are free (single frames).
//! - **Spread.** A task's frames take turns among its colors wherever several are at hand, so that banks are used alike.
//! - **Larger blocks** in color are found as well, where the mapping has any: a block of order `n` inside the task's colors.
//!
//! There are no per-CPU lists: they exist to avoid a lock and to save splitting, and the one does not exist here while the
//! other costs little.
//!
//! The index over the buddy's own blocks was tried in a kernel prototype first (with cosets computed from bank functions);
//! patterns carry it over to any color function.

use std::collections::HashMap;
use std::sync::Arc;

use crate::allocator::Promises;
use crate::base::{Base, System, Task};
use crate::blocks::{Blocks, FreeLists};
use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::task::{Caller, Mode, Policy, Profile, Wanted};

/// Blocks are formed up to the largest order that has no more patterns than this.
const PATTERNS_MAX: usize = 4096;

/// In the table of patterns: the block does not exist whole.
const NO_BLOCK: u16 = u16::MAX;

/// The patterns of one order above 0.
#[derive(Clone)]
struct OrderPatterns {
    /// Pattern of each block, whole memory through.
    of_block: Vec<u16>,
    /// The halves' patterns of each pattern, the lower number first.
    halves: Vec<(u16, u16)>,
}

/// The colors of blocks.
#[derive(Clone)]
pub struct Patterns {
    colors: u32,
    /// Order `n` is at `n - 1`.
    orders: Vec<OrderPatterns>,
}

impl Patterns {
    /// Computes the patterns of a memory, order by order, until there are too many.
    fn new(memory: &FrameMemory) -> Patterns {
        let mut patterns = Patterns { colors: memory.colors().len() as u32, orders: Vec::new() };
        for order in 1..=ORDER_MAX {
            let Some(next) = patterns.double(memory, order) else { break };
            patterns.orders.push(next);
        }
        patterns
    }

    fn order_max(&self) -> u32 {
        self.orders.len() as u32
    }

    fn double(&self, memory: &FrameMemory, order: u32) -> Option<OrderPatterns> {
        let half = |block: u32| match order {
            1 if memory.exists(block) => memory.color_of(block),
            1 => NO_BLOCK,
            _ => self.orders[order as usize - 2].of_block[block as usize],
        };
        let below = self.free_lists(order - 1) as usize;
        let mut numbers = PairNumbers::new(below);
        let mut halves = Vec::new();
        let mut of_block = vec![NO_BLOCK; (memory.indices() >> order) as usize];
        for (block, pattern) in of_block.iter_mut().enumerate() {
            let (lower, upper) = (half(2 * block as u32), half(2 * block as u32 + 1));
            if lower == NO_BLOCK || upper == NO_BLOCK {
                continue;
            }
            let pair = (lower.min(upper), lower.max(upper));
            *pattern = numbers.number(pair, || {
                halves.push(pair);
                (halves.len() - 1) as u16
            });
            if halves.len() > PATTERNS_MAX {
                return None;
            }
        }
        Some(OrderPatterns { of_block, halves })
    }
}

impl FreeLists for Patterns {
    fn free_lists(&self, order: u32) -> u32 {
        match order {
            0 => self.colors,
            _ => self.orders.get(order as usize - 1).map_or(1, |patterns| patterns.halves.len().max(1) as u32),
        }
    }

    #[inline]
    fn free_list(&self, memory: &FrameMemory, order: u32, first: u32) -> u32 {
        u32::from(match order {
            0 => memory.color_of(first),
            _ => self.orders[order as usize - 1].of_block[(first >> order) as usize],
        })
    }
}

/// Numbers pairs as they come: by table while that is small, else by hashing.
enum PairNumbers {
    Table { numbers: Vec<u16>, width: usize },
    Hash(HashMap<(u16, u16), u16>),
}

impl PairNumbers {
    fn new(width: usize) -> PairNumbers {
        if width <= 1024 {
            PairNumbers::Table { numbers: vec![NO_BLOCK; width * width], width }
        } else {
            PairNumbers::Hash(HashMap::new())
        }
    }

    fn number(&mut self, (lower, upper): (u16, u16), next: impl FnOnce() -> u16) -> u16 {
        match self {
            PairNumbers::Table { numbers, width } => {
                let entry = &mut numbers[lower as usize * *width + upper as usize];
                if *entry == NO_BLOCK {
                    *entry = next();
                }
                *entry
            }
            PairNumbers::Hash(numbers) => *numbers.entry((lower, upper)).or_insert_with(next),
        }
    }
}

/// One bit for each free list, at the places of [`Blocks`]'s bitmap: set for free lists that lead to the wanted colors.
type Reach = Vec<u64>;

/// Marks the free lists from whose blocks a block of `target` frames' order inside the wanted colors can be carved.
fn reach(blocks: &Blocks<Patterns>, wanted: &Wanted, target: u32) -> Reach {
    let first_words = blocks.first_words();
    let mut mask = vec![0u64; first_words[first_words.len() - 1]];
    let mut below: Vec<bool> = (0..blocks.free_lists.colors).map(|color| wanted.has(color)).collect();
    for order in 0..=blocks.order_max() {
        if order > 0 {
            let halves = &blocks.free_lists.orders[order as usize - 1].halves;
            let both = |&(lower, upper): &(u16, u16)| (below[lower as usize], below[upper as usize]);
            // Up to the target the whole block must be inside, above it one half suffices.
            below = match order <= target {
                true => halves.iter().map(both).map(|(lower, upper)| lower && upper).collect(),
                false => halves.iter().map(both).map(|(lower, upper)| lower || upper).collect(),
            };
        }
        if order >= target {
            for free_list in (0..below.len()).filter(|&free_list| below[free_list]) {
                mask[first_words[order as usize] + free_list / 64] |= 1 << (free_list % 64);
            }
        }
    }
    mask
}

/// Data kept for a task.
#[derive(Clone, Debug)]
pub struct Tint {
    /// `None` for tasks without colors; else at index `n` for blocks of order `n`, made when first asked for.
    reach: Option<Vec<Option<Reach>>>,
    strict: bool,
    /// The color to search for first: the one after the previous color.
    turn: u32,
}

/// Memtint's own allocator.
#[derive(Clone, Debug)]
pub struct Tinted {
    base: Base<Patterns, Tint>,
    /// Strict tasks that may have each color.
    claims: Vec<u32>,
    /// Reach of the colors that no strict task may have; `None` while there are no strict tasks, or nothing else.
    unclaimed: Option<Reach>,
}

impl Tinted {
    /// Starts with all memory free.
    #[must_use]
    pub fn new(memory: &Arc<FrameMemory>) -> Tinted {
        let patterns = Patterns::new(memory);
        let order_max = patterns.order_max();
        Tinted {
            base: Base::new(Arc::clone(memory), patterns, order_max),
            claims: vec![0; memory.colors().len()],
            unclaimed: None,
        }
    }

    /// Gives the largest order of a block: 10, or less where the color function has too many patterns above.
    #[must_use]
    pub fn order_max(&self) -> u32 {
        self.base.blocks.order_max()
    }

    /// Gives the most lookups that a request can need: words of the bitmap over all zones, the word of the turn twice, for
    /// the task's colors, for unclaimed ones and for any.
    #[must_use]
    pub fn lookups_max(&self) -> u64 {
        let words = self.base.blocks.first_words();
        3 * (words[words.len() - 1] as u64 + 1) * self.base.memory().zones().len() as u64
    }

    fn claim(&mut self, wanted: &Wanted, by: i32) {
        for color in (0..self.claims.len()).filter(|&color| wanted.has(color as u32)) {
            self.claims[color] = self.claims[color].checked_add_signed(by).expect("claims are returned once");
        }
        let mut free = vec![0u64; self.claims.len().div_ceil(64)];
        for color in (0..self.claims.len()).filter(|&color| self.claims[color] == 0) {
            free[color / 64] |= 1 << (color % 64);
        }
        let some = self.claims.iter().any(|&tasks| tasks > 0) && self.claims.contains(&0);
        self.unclaimed = some.then(|| reach(&self.base.blocks, &Wanted(Some(free)), 0));
    }

    /// Takes a block out of a zone by the free lists of a mask, halving towards them.
    #[inline]
    fn take_within(blocks: &mut Blocks<Patterns>, zone: u8, order: u32, mask: &Reach, turn: u32) -> Option<u32> {
        let found = blocks.find_in(zone, order, mask, turn)?;
        let lower = |blocks: &Blocks<Patterns>, order: u32, first| {
            let free_list = blocks.free_lists.free_list(&blocks.memory, order, first) as usize;
            mask[blocks.first_words()[order as usize] + free_list / 64] >> (free_list % 64) & 1 == 1
        };
        Some(blocks.carve(zone, found, order, lower))
    }

    /// Ignores the task's colors, but not those of strict tasks.
    fn take_outside(&mut self, cpu: u32, order: u32, turn: u32) -> Option<u32> {
        let memory = Arc::clone(self.base.memory());
        let (zones, blocks) = (memory.zone_list(cpu), &mut self.base.blocks);
        if let Some(mask) = self.unclaimed.as_ref().filter(|_| order == 0) {
            let block = zones.iter().find_map(|&zone| Self::take_within(blocks, zone, order, mask, turn));
            if block.is_some() {
                return block;
            }
        }
        zones.iter().find_map(|&zone| blocks.take_any(zone, order))
    }
}

impl System for Tinted {
    type Lists = Patterns;
    type Own = Tint;

    const NAME: &'static str = "tinted";
    const PROMISES: Promises = Promises {
        banks: true,
        sets: true,
        nodes: true,
        soft: true,
        blocks_in_color: true,
        merges: true,
        constant_time: true,
        ..Promises::NONE
    };

    fn base(&self) -> &Base<Patterns, Tint> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<Patterns, Tint> {
        &mut self.base
    }

    fn accept(&mut self, profile: &Profile) -> Result<(Policy, Tint), FrameError> {
        let policy = &profile.policy;
        let wanted = policy.wanted(self.base.memory())?;
        let strict = policy.mode == Mode::Strict && !policy.is_any();
        let reach = (!policy.is_any()).then(|| {
            let mut reaches = vec![None; ORDER_MAX as usize + 1];
            reaches[0] = Some(reach(&self.base.blocks, &wanted, 0));
            reaches
        });
        if strict {
            self.claim(&wanted, 1);
        }
        Ok((policy.clone(), Tint { reach, strict, turn: 0 }))
    }

    fn dismiss(&mut self, task: Task<Tint>) {
        if task.own.strict {
            self.claim(&task.wanted, -1);
        }
    }

    #[inline]
    fn take(&mut self, caller: Caller, order: u32) -> Option<u32> {
        if order > self.base.blocks.order_max() {
            return None;
        }
        let Base { blocks, tasks, .. } = &mut self.base;
        let task = tasks.get_mut(caller.task).expect("the caller was checked");
        let soft = task.policy.mode == Mode::Soft;
        let turn = task.own.turn;
        let Some(reaches) = &mut task.own.reach else {
            let first = self.take_outside(caller.cpu, order, turn)?;
            self.turn_after(caller, first);
            return Some(first);
        };
        let mask = reaches[order as usize].get_or_insert_with(|| reach(blocks, &task.wanted, order));
        let mut found = None;
        for place in 0..blocks.memory.zone_list(caller.cpu).len() {
            let zone = blocks.memory.zone_list(caller.cpu)[place];
            found = Self::take_within(blocks, zone, order, mask, turn);
            if found.is_some() {
                break;
            }
        }
        if found.is_none() && soft {
            found = self.take_outside(caller.cpu, order, turn);
        }
        self.turn_after(caller, found?);
        found
    }

    #[inline]
    fn give(&mut self, _: Caller, first: u32, order: u32) {
        self.base.blocks.put(first, order);
    }
}

impl Tinted {
    #[inline]
    fn turn_after(&mut self, caller: Caller, first: u32) {
        let turn = u32::from(self.base.memory().color_of(first)) + 1;
        self.base.tasks.get_mut(caller.task).expect("the caller was checked").own.turn = turn;
    }
}
