//! Per-CPU lists of single frames before the free blocks, as in Linux.

use crate::base::Base;
use crate::blocks::FreeLists;
use crate::lists::List;
use crate::memory::FrameMemory;

/// Sizes of the per-CPU lists. Each CPU has one list for each zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerCpu {
    /// Frames fetched when a list is empty, and given back when it is full; at least 1.
    pub batch: u32,
    /// Frames at which a list is full; at least `batch`.
    pub high: u32,
}

impl PerCpu {
    /// The sizes that Linux 3.6, PALLOC's kernel, uses for zones of 512 MiB and more: batch 31, high six times that
    /// (`zone_batchsize` and `setup_pageset` in mm/page_alloc.c).
    pub const LINUX_3_6: PerCpu = PerCpu { batch: 31, high: 186 };
}

/// The lists of all CPUs.
#[derive(Clone, Debug)]
pub(crate) struct CpuLists {
    sizes: Option<PerCpu>,
    lists: Vec<List>,
    zones: usize,
}

impl CpuLists {
    /// `None`: no lists, every request goes to the blocks.
    pub(crate) fn new(memory: &FrameMemory, sizes: Option<PerCpu>) -> CpuLists {
        let zones = memory.zones().len();
        let sizes = sizes.map(|sizes| PerCpu { batch: sizes.batch.max(1), high: sizes.high.max(sizes.batch).max(1) });
        CpuLists { sizes, lists: vec![List::EMPTY; zones * memory.cpus() as usize], zones }
    }

    /// Takes a frame of a zone.
    #[inline]
    fn take<S: FreeLists, T>(&mut self, base: &mut Base<S, T>, cpu: u32, zone: u8) -> Option<u32> {
        let Some(sizes) = self.sizes else { return base.blocks.take_any(zone, 0) };
        let list = &mut self.lists[cpu as usize * self.zones + zone as usize];
        base.blocks.steps.lookups += 1;
        if list.is_empty() {
            for _ in 0..sizes.batch {
                let Some(frame) = base.blocks.take_any(zone, 0) else { break };
                base.blocks.mark_on_cpu_list(frame);
                base.blocks.links.push_back(list, frame);
                base.blocks.steps.moves += 1;
                base.on_cpu_lists += 1;
            }
        }
        let frame = base.blocks.links.pop_front(list)?;
        base.blocks.steps.moves += 1;
        base.on_cpu_lists -= 1;
        Some(frame)
    }

    /// Takes a block without regard to colors: from the first zone of the CPU's list that has one. If none has, drains
    /// the lists of all CPUs and tries once more, as the kernel does before it fails.
    #[inline]
    pub(crate) fn take_normal<S: FreeLists, T>(&mut self, base: &mut Base<S, T>, cpu: u32, order: u32) -> Option<u32> {
        loop {
            for place in 0..base.memory().zone_list(cpu).len() {
                let zone = base.memory().zone_list(cpu)[place];
                let block = if order == 0 { self.take(base, cpu, zone) } else { base.blocks.take_any(zone, order) };
                if block.is_some() {
                    return block;
                }
            }
            if !self.drain(base) {
                return None;
            }
        }
    }

    /// Returns a block: single frames go to the CPU's list first.
    #[inline]
    pub(crate) fn give<S: FreeLists, T>(&mut self, base: &mut Base<S, T>, cpu: u32, first: u32, order: u32) {
        let Some(sizes) = self.sizes.filter(|_| order == 0) else { return base.blocks.put(first, order) };
        let list = &mut self.lists[cpu as usize * self.zones + base.memory().zone_of(first) as usize];
        base.blocks.mark_on_cpu_list(first);
        base.blocks.links.push_front(list, first);
        base.blocks.steps.moves += 1;
        base.on_cpu_lists += 1;
        if list.len >= sizes.high {
            for _ in 0..sizes.batch {
                give_last(base, list);
            }
        }
    }

    /// Drains all lists into the blocks; returns whether there were any frames.
    pub(crate) fn drain<S: FreeLists, T>(&mut self, base: &mut Base<S, T>) -> bool {
        let any = base.on_cpu_lists > 0;
        for list in &mut self.lists {
            while !list.is_empty() {
                give_last(base, list);
            }
        }
        any
    }
}

fn give_last<S: FreeLists, T>(base: &mut Base<S, T>, list: &mut List) {
    if let Some(frame) = base.blocks.links.pop_back(list) {
        base.blocks.steps.moves += 1;
        base.on_cpu_lists -= 1;
        base.blocks.put(frame, 0);
    }
}
