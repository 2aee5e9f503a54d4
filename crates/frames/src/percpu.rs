//! Per-CPU lists of single frames before the free blocks, as in Linux.

use crate::blocks::Shelves;
use crate::lists::List;
use crate::memory::Memory;
use crate::office::Office;

/// Sizes of the per-CPU lists. Each CPU has one list for each zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerCpu {
    /// Frames fetched when a list is empty, and given back when it is full; at least 1.
    pub batch: u32,
    /// Frames at which a list is full; at least `batch`.
    pub high: u32,
}

impl PerCpu {
    /// What Linux 3.6, PALLOC's kernel, uses for zones of 512 MiB and more: batch 31, high six times that
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
    pub(crate) fn new(memory: &Memory, sizes: Option<PerCpu>) -> CpuLists {
        let zones = memory.zones().len();
        let sizes = sizes.map(|sizes| PerCpu { batch: sizes.batch.max(1), high: sizes.high.max(sizes.batch).max(1) });
        CpuLists { sizes, lists: vec![List::EMPTY; zones * memory.cpus() as usize], zones }
    }

    /// Takes a frame of a zone.
    #[inline]
    fn take<S: Shelves, T>(&mut self, office: &mut Office<S, T>, cpu: u32, zone: u8) -> Option<u32> {
        let Some(sizes) = self.sizes else { return office.blocks.take_any(zone, 0) };
        let list = &mut self.lists[cpu as usize * self.zones + zone as usize];
        office.blocks.steps.lookups += 1;
        if list.is_empty() {
            for _ in 0..sizes.batch {
                let Some(frame) = office.blocks.take_any(zone, 0) else { break };
                office.blocks.mark_on_cpu_list(frame);
                office.blocks.links.push_back(list, frame);
                office.blocks.steps.moves += 1;
                office.on_cpu_lists += 1;
            }
        }
        let frame = office.blocks.links.pop_front(list)?;
        office.blocks.steps.moves += 1;
        office.on_cpu_lists -= 1;
        Some(frame)
    }

    /// Takes a block without regard to colors: from the first zone of the CPU's list that has one. When none has, the
    /// lists of all CPUs are emptied and everything is tried once more, as the kernel does before it gives up.
    #[inline]
    pub(crate) fn take_normal<S: Shelves, T>(
        &mut self,
        office: &mut Office<S, T>,
        cpu: u32,
        order: u32,
    ) -> Option<u32> {
        loop {
            for place in 0..office.memory().zone_list(cpu).len() {
                let zone = office.memory().zone_list(cpu)[place];
                let block = if order == 0 { self.take(office, cpu, zone) } else { office.blocks.take_any(zone, order) };
                if block.is_some() {
                    return block;
                }
            }
            if !self.drain(office) {
                return None;
            }
        }
    }

    /// Puts a block away: single frames first on the CPU's list.
    #[inline]
    pub(crate) fn give<S: Shelves, T>(&mut self, office: &mut Office<S, T>, cpu: u32, first: u32, order: u32) {
        let Some(sizes) = self.sizes.filter(|_| order == 0) else { return office.blocks.put(first, order) };
        let list = &mut self.lists[cpu as usize * self.zones + office.memory().zone_of(first) as usize];
        office.blocks.mark_on_cpu_list(first);
        office.blocks.links.push_front(list, first);
        office.blocks.steps.moves += 1;
        office.on_cpu_lists += 1;
        if list.len >= sizes.high {
            for _ in 0..sizes.batch {
                give_last(office, list);
            }
        }
    }

    /// Empties all lists into the blocks; tells whether there was anything.
    pub(crate) fn drain<S: Shelves, T>(&mut self, office: &mut Office<S, T>) -> bool {
        let any = office.on_cpu_lists > 0;
        for list in &mut self.lists {
            while !list.is_empty() {
                give_last(office, list);
            }
        }
        any
    }
}

fn give_last<S: Shelves, T>(office: &mut Office<S, T>, list: &mut List) {
    if let Some(frame) = office.blocks.links.pop_back(list) {
        office.blocks.steps.moves += 1;
        office.on_cpu_lists -= 1;
        office.blocks.put(frame, 0);
    }
}
