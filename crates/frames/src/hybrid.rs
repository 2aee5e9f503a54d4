//! The hybrid allocator: cache, bank and controller colors in one matrix of lists.
//!
//! Source: Gownivaripalli, Hybrid Cache, Bank, and Controller Aware Coloring, NC State 2015 (\[Gow15\]), chapters 3 and 4. No algorithm is
//! printed. By the text, the list of the wanted colors is searched; if it is empty, frames are moved from the buddy lists onto color lists
//! until one fits. With only cache or only bank colors the first list that fits is used, and of several colors the first with a frame.
//!
//! It differs from TintMalloc in the free path: a frame goes to its color list when the freeing task is in colored mode *then*,
//! and to the buddy allocator when the task has cleared its colors ([`set_policy`](crate::FrameAllocator::set_policy) with
//! [`Policy::any`]) or never had any. Regular tasks keep their per-CPU lists.
//!
//! The color formulas of the paper (eqs. 3.1 to 3.5) do not serve their purpose; [`bank_color_as_printed`] and
//! [`llc_color_as_printed`] show it. The allocator takes colors from the memory's color function.

use std::sync::Arc;

use crate::allocator::Promises;
use crate::base::{Base, System, refuse};
use crate::bins::{self, Bins, Form};
use crate::blocks::OneFreeList;
use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::percpu::{CpuLists, PerCpu};
use crate::task::{Caller, Policy, Profile};

/// Eq. 3.5 as printed: `channel*NC + rank*NR + bank*NB`, each digit with its own radix as weight. Different banks get one
/// number: with (NC, NR, NB) = (2, 2, 8), channel 1 of rank 0 and channel 0 of rank 1.
#[must_use]
pub fn bank_color_as_printed((channel, rank, bank): (u32, u32, u32), (nc, nr, nb): (u32, u32, u32)) -> u32 {
    channel * nc + rank * nr + bank * nb
}

/// Eq. 3.5 corrected: mixed radix, `(channel*NR + rank)*NB + bank`, in `0..NC*NR*NB`.
#[must_use]
pub fn bank_color_corrected((channel, rank, bank): (u32, u32, u32), (_, nr, nb): (u32, u32, u32)) -> u32 {
    (channel * nr + rank) * nb + bank
}

/// Eqs. 3.1 and 3.4 as printed: `PFN & 2^NLLC` with `NLLC = S / (W * L)`: one bit instead of a mask, and NLLC counts sets
/// (thousands) where page colors are meant. `None` when the bit lies outside of 64.
#[must_use]
pub fn llc_color_as_printed(pfn: u64, size_bytes: u64, ways: u64, line_bytes: u64) -> Option<u64> {
    let sets = size_bytes / (ways * line_bytes);
    u32::try_from(sets).ok().and_then(|bit| 1u64.checked_shl(bit)).map(|bit| pfn & bit)
}

/// Eq. 3.4 corrected: `PFN & (colors - 1)` with `S / (W * P)` page colors, at least 1, where the number of sets is a power
/// of two, as with the 32 colors of the paper's 12 MiB of 96 ways. `None` where it is not.
#[must_use]
pub fn llc_color_corrected(pfn: u64, size_bytes: u64, ways: u64, page_bytes: u64) -> Option<u64> {
    let colors = (size_bytes / (ways * page_bytes)).max(1);
    colors.is_power_of_two().then_some(pfn & (colors - 1))
}

/// Data that the hybrid allocator keeps for a task: the bank and cache colors it may use; `None` for a regular task.
pub type HybridColors = Option<(Vec<u32>, Vec<u32>)>;

/// The hybrid allocator.
#[derive(Clone, Debug)]
pub struct Hybrid {
    base: Base<OneFreeList, HybridColors>,
    cpu_lists: CpuLists,
    /// `color_list[bank][llc]`, row by row.
    color_list: Bins,
    llc_colors: u32,
}

impl Hybrid {
    /// Starts with all memory in free blocks and empty color lists.
    #[must_use]
    pub fn new(memory: &Arc<FrameMemory>, per_cpu: Option<PerCpu>) -> Hybrid {
        let llc_colors = memory.set_colors();
        Hybrid {
            base: Base::new(Arc::clone(memory), OneFreeList, ORDER_MAX),
            cpu_lists: CpuLists::new(memory, per_cpu),
            color_list: Bins::new(memory.bank_classes() as usize * llc_colors as usize),
            llc_colors,
        }
    }

    fn select(&mut self, cpu: u32, banks: &[u32], llcs: &[u32]) -> Option<u32> {
        let (bins, base, llc_colors) = (&mut self.color_list, &mut self.base, self.llc_colors);
        let find = |bins: &mut Bins, base: &mut Base<OneFreeList, HybridColors>| {
            banks
                .iter()
                .find_map(|&bank| llcs.iter().find_map(|&llc| bins.pop(base, (bank * llc_colors + llc) as usize)))
        };
        let bin_of = |memory: &FrameMemory, frame| (memory.bank_of(frame) * llc_colors + memory.set_of(frame)) as usize;
        (0..base.memory().zone_list(cpu).len()).find_map(|place| {
            let zone = base.memory().zone_list(cpu)[place];
            bins::select(bins, base, zone, Form::Corrected, find, bin_of)
        })
    }
}

impl System for Hybrid {
    type Lists = OneFreeList;
    type Own = HybridColors;

    const NAME: &'static str = "hybrid";
    const PROMISES: Promises = Promises { banks: true, sets: true, ..Promises::NONE };

    fn base(&self) -> &Base<OneFreeList, HybridColors> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<OneFreeList, HybridColors> {
        &mut self.base
    }

    fn accept(&mut self, profile: &Profile) -> Result<(Policy, HybridColors), FrameError> {
        let policy = &profile.policy;
        refuse(
            Self::NAME,
            &Self::PROMISES,
            policy,
            "lists of bank classes (each has its node) and set colors, strict",
        )?;
        let all = |count: u32| (0..count).collect();
        let banks =
            policy.banks.as_ref().map_or_else(|| all(self.base.memory().bank_classes()), |set| set.iter().collect());
        let llcs = policy.sets.as_ref().map_or_else(|| all(self.llc_colors), |set| set.iter().collect());
        Ok((policy.clone(), (!policy.is_any()).then_some((banks, llcs))))
    }

    fn take(&mut self, caller: Caller, order: u32) -> Option<u32> {
        let colors = self.base.tasks.get_mut(caller.task).expect("the caller was checked").own.take_if(|_| order == 0);
        let Some((banks, llcs)) = colors else {
            return self.cpu_lists.take_normal(&mut self.base, caller.cpu, order);
        };
        let mut page = self.select(caller.cpu, &banks, &llcs);
        if page.is_none() && self.cpu_lists.drain(&mut self.base) {
            page = self.select(caller.cpu, &banks, &llcs);
        }
        self.base.tasks.get_mut(caller.task).expect("the caller was checked").own = Some((banks, llcs));
        page
    }

    fn give(&mut self, caller: Caller, first: u32, order: u32) {
        if order > 0 || self.base.task(caller.task).own.is_none() {
            return self.cpu_lists.give(&mut self.base, caller.cpu, first, order);
        }
        let memory = self.base.memory();
        let bin = (memory.bank_of(first) * self.llc_colors + memory.set_of(first)) as usize;
        self.color_list.push(&mut self.base, bin, first);
    }

    fn drain(&mut self) {
        self.cpu_lists.drain(&mut self.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: (u32, u32, u32) = (2, 2, 8);

    type Triple = (u32, u32, u32);

    fn numbers(formula: fn(Triple, Triple) -> u32) -> Vec<u32> {
        let banks =
            (0..2).flat_map(|channel| (0..2).flat_map(move |rank| (0..8).map(move |bank| (channel, rank, bank))));
        let mut numbers: Vec<u32> = banks.map(|bank| formula(bank, COUNTS)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    #[test]
    fn the_printed_bank_color_confuses_banks_and_the_corrected_one_does_not() {
        assert_eq!(bank_color_as_printed((1, 0, 0), COUNTS), bank_color_as_printed((0, 1, 0), COUNTS));
        assert!(numbers(bank_color_as_printed).len() < 32);
        assert_eq!(numbers(bank_color_corrected), (0..32).collect::<Vec<_>>());
    }

    #[test]
    fn the_printed_llc_color_is_one_bit_far_away() {
        // 8 MiB, 16 ways: 8192 sets, so the bit is 2^8192; 128 page colors are meant.
        assert_eq!(llc_color_as_printed(0x1234, 8 << 20, 16, 64), None);
        assert_eq!(llc_color_corrected(0x1234, 8 << 20, 16, 4096), Some(0x34));
        // With 32 sets the printed form does give a number, but only ever one of two.
        let printed: Vec<u64> =
            (0..1u64 << 34).step_by(1 << 30).filter_map(|pfn| llc_color_as_printed(pfn, 4096, 2, 64)).collect();
        assert!(printed.iter().all(|&color| color == 0 || color == 1 << 32) && printed.contains(&(1 << 32)));
        assert_eq!(llc_color_corrected(0x1234, 12 << 20, 96, 4096), Some(0x14));
        assert_eq!(llc_color_corrected(0x1234, 12 << 20, 16, 4096), None);
    }
}
