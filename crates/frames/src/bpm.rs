//! BPM: the buddy allocator with each order's free list divided by bank color.
//!
//! Source: Liu et al., A software memory partition approach for eliminating bank-level interference in multicore
//! systems, PACT 2012 (\[Liu12\]), section 4.1 and the implementation section: for each order, free blocks form one list for each
//! of the 32 values of the bank bits; a page fault picks one of the process's colors and searches the lists of that color.
//!
//! Readings where the paper is silent: a block above order 0 is filed under the bank class of its first frame, and is searched for a class
//! when blocks with such a first frame contain it; colors are picked in turn; halves go to the lists of their first frames; frees merge as
//! in the buddy allocator; there are no per-CPU lists. Requests above order 0 ignore colors. A search examines (colors of the task) ×
//! (orders) × (first frames that can lead to the color) lists at most.

use std::sync::Arc;

use crate::allocator::Promises;
use crate::base::{Base, System, refuse};
use crate::blocks::FreeLists;
use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::task::{Caller, Policy, Profile};

/// Free lists by the bank class of a block's first frame.
#[derive(Clone)]
pub struct ByFirstFrame {
    classes: u32,
    /// For each order and class of a first frame, one bit for each class in the block.
    holds: Vec<Vec<Vec<u64>>>,
    /// For each order and class, the classes of first frames whose blocks hold it.
    leads_to: Vec<Vec<Vec<u32>>>,
}

impl FreeLists for ByFirstFrame {
    fn free_lists(&self, _: u32) -> u32 {
        self.classes
    }

    fn free_list(&self, memory: &FrameMemory, _: u32, first: u32) -> u32 {
        memory.bank_of(first)
    }
}

impl ByFirstFrame {
    /// Computes the contents of blocks, order by order from their halves, and refuses memory in which the first frame's
    /// class does not determine them.
    fn new(memory: &FrameMemory) -> Result<ByFirstFrame, FrameError> {
        let classes = memory.bank_classes();
        let words = (classes as usize).div_ceil(64);
        let single = |class: u32| {
            let mut bits = vec![0u64; words];
            bits[class as usize / 64] |= 1 << (class % 64);
            bits
        };
        let mut holds: Vec<Vec<Vec<u64>>> = vec![(0..classes).map(single).collect()];
        let mut whole: Vec<bool> = (0..memory.indices()).map(|index| memory.exists(index)).collect();
        for order in 1..=ORDER_MAX {
            let (next, blocks) = Self::double(memory, order, &holds[order as usize - 1], &whole)?;
            holds.push(next);
            whole = blocks;
        }
        let leads_to =
            holds.iter().map(|of_order| (0..classes).map(|class| leads(of_order, class)).collect()).collect();
        Ok(ByFirstFrame { classes, holds, leads_to })
    }

    /// Contents of the blocks of an order, and which of them exist whole.
    fn double(
        memory: &FrameMemory,
        order: u32,
        half: &[Vec<u64>],
        whole: &[bool],
    ) -> Result<(Vec<Vec<u64>>, Vec<bool>), FrameError> {
        let mut holds: Vec<Vec<u64>> = vec![Vec::new(); half.len()];
        let mut upper_seen = vec![u32::MAX; half.len()];
        let mut blocks = vec![false; whole.len() / 2];
        for (block, there) in blocks.iter_mut().enumerate() {
            *there = whole[2 * block] && whole[2 * block + 1];
            if !*there {
                continue;
            }
            let first = (block as u32) << order;
            let (lower, upper) = (memory.bank_of(first), memory.bank_of(first + (1 << (order - 1))));
            if upper_seen[lower as usize] == upper {
                continue;
            }
            let both: Vec<u64> =
                half[lower as usize].iter().zip(&half[upper as usize]).map(|(lower, upper)| lower | upper).collect();
            let known = &mut holds[lower as usize];
            if known.is_empty() {
                *known = both;
            } else if *known != both {
                return Err(FrameError::NotLinear { order, class: lower, pfn: memory.pfn(first) });
            }
            upper_seen[lower as usize] = upper;
        }
        Ok((holds, blocks))
    }

    fn leading_to(&self, order: u32, class: u32) -> &[u32] {
        &self.leads_to[order as usize][class as usize]
    }

    fn holds(&self, order: u32, first_class: u32, class: u32) -> bool {
        self.holds[order as usize][first_class as usize][class as usize / 64] >> (class % 64) & 1 == 1
    }
}

fn leads(of_order: &[Vec<u64>], class: u32) -> Vec<u32> {
    let has = |bits: &Vec<u64>| bits.get(class as usize / 64).is_some_and(|word| word >> (class % 64) & 1 == 1);
    (0..of_order.len() as u32).filter(|&first| has(&of_order[first as usize])).collect()
}

/// Data that BPM keeps for a process: its colors, and the one to pick next.
#[derive(Clone, Debug, Default)]
pub struct OwnColors {
    /// `None`: all.
    colors: Option<Vec<u32>>,
    turn: usize,
}

/// BPM.
#[derive(Clone, Debug)]
pub struct Bpm {
    base: Base<ByFirstFrame, OwnColors>,
}

impl Bpm {
    /// Starts with all memory free.
    ///
    /// # Errors
    /// [`FrameError::NotLinear`] when blocks whose first frames are of one class hold different sets of classes.
    pub fn new(memory: &Arc<FrameMemory>) -> Result<Bpm, FrameError> {
        let free_lists = ByFirstFrame::new(memory)?;
        Ok(Bpm { base: Base::new(Arc::clone(memory), free_lists, ORDER_MAX) })
    }

    /// Takes a frame of a class from a zone.
    fn take_class(&mut self, zone: u8, class: u32) -> Option<u32> {
        let blocks = &mut self.base.blocks;
        let found = blocks.find_on(zone, 0, |free_lists, order| free_lists.leading_to(order, class))?;
        let lower = |blocks: &crate::blocks::Blocks<ByFirstFrame>, order, first| {
            blocks.free_lists.holds(order, blocks.memory.bank_of(first), class)
        };
        Some(blocks.carve(zone, found, 0, lower))
    }
}

impl System for Bpm {
    type Lists = ByFirstFrame;
    type Own = OwnColors;

    const NAME: &'static str = "bpm";
    const PROMISES: Promises = Promises { banks: true, merges: true, constant_time: true, ..Promises::NONE };

    fn base(&self) -> &Base<ByFirstFrame, OwnColors> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<ByFirstFrame, OwnColors> {
        &mut self.base
    }

    fn accept(&mut self, profile: &Profile) -> Result<(Policy, OwnColors), FrameError> {
        refuse(Self::NAME, &Self::PROMISES, &profile.policy, "a list of bank classes, strict")?;
        let colors = profile.policy.banks.as_ref().map(|banks| banks.iter().collect());
        Ok((profile.policy.clone(), OwnColors { colors, turn: 0 }))
    }

    fn take(&mut self, caller: Caller, order: u32) -> Option<u32> {
        let own = std::mem::take(&mut self.base.tasks.get_mut(caller.task).expect("the caller was checked").own);
        let mut turn = own.turn;
        let zones = self.base.memory().zone_list(caller.cpu).len();
        let found = (0..zones).find_map(|place| {
            let zone = self.base.memory().zone_list(caller.cpu)[place];
            let Some(colors) = own.colors.as_ref().filter(|_| order == 0) else {
                return self.base.blocks.take_any(zone, order);
            };
            (0..colors.len()).find_map(|step| {
                let pick = (own.turn + step) % colors.len();
                turn = pick + 1;
                self.take_class(zone, colors[pick])
            })
        });
        let place = &mut self.base.tasks.get_mut(caller.task).expect("the caller was checked").own;
        *place = OwnColors { turn, ..own };
        found
    }

    fn give(&mut self, _: Caller, first: u32, order: u32) {
        self.base.blocks.put(first, order);
    }
}
