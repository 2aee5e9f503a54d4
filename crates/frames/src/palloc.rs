//! PALLOC: DRAM bank-aware allocation by bins of single frames.
//!
//! Source: Yun, Mancuso, Wu, Pellizzoni, PALLOC, RTAS 2014: Fig. 2 and section III; where the figure simplifies (one free list of single
//! frames), the authors' kernel patch: free blocks are taken from order 0 upwards, each is broken into single frames that go to the bins of
//! their banks, and after each block the bins are searched again.
//!
//! Modelled as published, with the consequences:
//! - frames of other banks that a search passes over stay in their bins. No later free merges them, and requests of order 1 and above fail
//!   while they are free: see [`Palloc::flush_bins`];
//! - frees go to the buddy allocator and its per-CPU lists, never to a bin;
//! - a search may break every block there is: no bound but the size of memory;
//! - a task without bins has all of them, and takes from bins first.
//!
//! Not modelled: migrate types, and with them the fallback that hands out a frame of any bank when the bins are exhausted
//! (here the request fails); reclaim; hierarchy of cgroups. Bins are bank classes of the color function, where PALLOC has
//! raw bank numbers: give it a color function of raw banks to see what those do not isolate.

use std::sync::Arc;

use memtint_units::IndexSet;

use crate::allocator::Promises;
use crate::base::{Base, System, refuse};
use crate::bins::{Bins, Form};
use crate::blocks::OneFreeList;
use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::percpu::{CpuLists, PerCpu};
use crate::task::{Caller, Policy, Profile, TaskId};

/// The choice among several bins with frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The first, as in Fig. 2 of the paper: bank after bank is filled up.
    InOrder,
    /// The bin after the previous one: the effect of the counter in the authors' patch, which spreads a task's frames over its banks.
    #[default]
    InTurn,
}

/// Data that PALLOC keeps for a task: its line of `palloc.bins`.
#[derive(Clone, Debug)]
pub struct Bankmap {
    bins: Vec<u32>,
    turn: usize,
}

/// PALLOC.
#[derive(Clone, Debug)]
pub struct Palloc {
    base: Base<OneFreeList, Bankmap>,
    cpu_lists: CpuLists,
    /// Bin `bank` of zone `z` has the number `z × banks + bank`.
    bank_bins: Bins,
    banks: usize,
    pick: Pick,
}

impl Palloc {
    /// Starts with all memory in free blocks and empty bins.
    #[must_use]
    pub fn new(memory: &Arc<FrameMemory>, per_cpu: Option<PerCpu>, pick: Pick) -> Palloc {
        let banks = memory.bank_classes() as usize;
        Palloc {
            base: Base::new(Arc::clone(memory), OneFreeList, ORDER_MAX),
            cpu_lists: CpuLists::new(memory, per_cpu),
            bank_bins: Bins::new(banks * memory.zones().len()),
            banks,
            pick,
        }
    }

    /// Writes a task's `palloc.bins`: a list such as `0-3,8`, from the next allocation on. An empty list means every bin.
    ///
    /// # Errors
    /// [`FrameError::NoSuchColor`], [`FrameError::EmptyPolicy`], [`FrameError::UnknownTask`].
    pub fn write_bins(&mut self, task: TaskId, bins: &IndexSet) -> Result<(), FrameError> {
        let policy = if bins.is_empty() { Policy::any() } else { Policy::banks(bins.clone()) };
        crate::allocator::FrameAllocator::set_policy(self, task, &policy)
    }

    /// Counts the frames in the bin of a bank class, over all zones.
    #[must_use]
    pub fn bin_frames(&self, bank: u32) -> u64 {
        let zones = 0..self.base.memory().zones().len();
        zones.map(|zone| u64::from(self.bank_bins.len(zone * self.banks + bank as usize))).sum()
    }

    /// Writes `flush` to the control file: bins go back as single frames, and, as published, unmerged.
    pub fn flush_bins(&mut self) {
        for bin in 0..self.banks * self.base.memory().zones().len() {
            while let Some(frame) = self.bank_bins.pop(&mut self.base, bin) {
                self.base.blocks.put_unmerged(frame);
            }
        }
    }

    /// `palloc_find_page` of Fig. 2.
    #[inline]
    fn find_page(&mut self, zone: u8, task: TaskId) -> Option<u32> {
        let (count, turn) = {
            let own = &self.base.task(task).own;
            (own.bins.len(), if self.pick == Pick::InTurn { own.turn } else { 0 })
        };
        for step in 0..count {
            let place = (turn + step) % count;
            let bank = self.base.task(task).own.bins[place] as usize;
            let page = self.bank_bins.pop(&mut self.base, zone as usize * self.banks + bank);
            if page.is_some() {
                self.base.tasks.get_mut(task).expect("the caller was checked").own.turn = (place + 1) % count;
                return page;
            }
        }
        None
    }

    /// `__rmqueue_smallest` of Fig. 2 on one zone.
    #[inline]
    fn smallest(&mut self, zone: u8, task: TaskId) -> Option<u32> {
        if let Some(page) = self.find_page(zone, task) {
            return Some(page);
        }
        let banks = self.banks;
        let bin_of = |memory: &FrameMemory, frame| zone as usize * banks + memory.bank_of(frame) as usize;
        for order in 0..=ORDER_MAX {
            while let Some(first) = self.base.blocks.take_exact(zone, order) {
                self.bank_bins.shatter(&mut self.base, first, order, Form::Corrected, bin_of);
                if let Some(page) = self.find_page(zone, task) {
                    return Some(page);
                }
            }
        }
        None
    }
}

impl System for Palloc {
    type Lists = OneFreeList;
    type Own = Bankmap;

    const NAME: &'static str = "palloc";
    const PROMISES: Promises = Promises { banks: true, ..Promises::NONE };

    fn base(&self) -> &Base<OneFreeList, Bankmap> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<OneFreeList, Bankmap> {
        &mut self.base
    }

    fn accept(&mut self, profile: &Profile) -> Result<(Policy, Bankmap), FrameError> {
        refuse(Self::NAME, &Self::PROMISES, &profile.policy, "a list of bank classes (palloc.bins), strict")?;
        let bins = match &profile.policy.banks {
            Some(banks) => banks.iter().collect(),
            None => (0..self.banks as u32).collect(),
        };
        Ok((profile.policy.clone(), Bankmap { bins, turn: 0 }))
    }

    #[inline]
    fn take(&mut self, caller: Caller, order: u32) -> Option<u32> {
        if order > 0 {
            return self.cpu_lists.take_normal(&mut self.base, caller.cpu, order);
        }
        loop {
            for place in 0..self.base.memory().zone_list(caller.cpu).len() {
                let zone = self.base.memory().zone_list(caller.cpu)[place];
                let page = self.smallest(zone, caller.task);
                if page.is_some() {
                    return page;
                }
            }
            // Freed frames wait on per-CPU lists, which an allocation ignores; the kernel drains them when memory runs
            // out.
            if !self.cpu_lists.drain(&mut self.base) {
                return None;
            }
        }
    }

    #[inline]
    fn give(&mut self, caller: Caller, first: u32, order: u32) {
        self.cpu_lists.give(&mut self.base, caller.cpu, first, order);
    }

    fn drain(&mut self) {
        self.cpu_lists.drain(&mut self.base);
    }
}
