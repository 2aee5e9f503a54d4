//! Page tables with first-touch demand paging.

use memtint_frames::{Caller, FrameAllocator as _, FrameError, Shared};
use memtint_units::{PAGE_SHIFT, Pfn, PhysAddr};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Entries of the lookaside table that saves most lookups in the hash map.
const LOOKASIDE: usize = 1024;
/// Order of a huge page: 2 MiB.
pub(crate) const HUGE_ORDER: u32 = 9;

/// Virtual pages of one task and the frames behind them.
///
/// A miss of the translation caches costs no time in this model.
pub(crate) struct PageTable {
    pub(crate) caller: Caller,
    /// Which of the machine's allocators the frames come from.
    pub(crate) allocator: usize,
    /// 2 MiB pages where the allocator has blocks of that size; 4 KiB ones otherwise.
    huge: bool,
    pages: HashMap<u64, u64, BuildHasherDefault<PageHasher>>,
    lookaside: Box<[(u64, u64)]>,
    /// Frames mapped.
    pub(crate) frames: u64,
    /// First touches.
    pub(crate) faults: u64,
}

impl PageTable {
    pub(crate) fn new(caller: Caller, allocator: usize, huge: bool) -> PageTable {
        PageTable {
            caller,
            allocator,
            huge,
            pages: HashMap::default(),
            lookaside: vec![(u64::MAX, 0); LOOKASIDE].into_boxed_slice(),
            frames: 0,
            faults: 0,
        }
    }

    /// First touches are made from this core from now on.
    pub(crate) fn run_on(&mut self, cpu: u32) {
        self.caller.cpu = cpu;
    }

    /// The physical address behind a virtual one, and whether this was the first touch of its page.
    #[inline]
    pub(crate) fn translate(&mut self, addr: u64, allocators: &mut Shared) -> Result<(PhysAddr, bool), FrameError> {
        let page = addr >> PAGE_SHIFT;
        let slot = page as usize % LOOKASIDE;
        let (tag, frame) = self.lookaside[slot];
        let offset = addr & ((1 << PAGE_SHIFT) - 1);
        if tag == page {
            return Ok((PhysAddr(frame << PAGE_SHIFT | offset), false));
        }
        let (frame, first) = self.look_up(page, allocators)?;
        self.lookaside[slot] = (page, frame);
        Ok((PhysAddr(frame << PAGE_SHIFT | offset), first))
    }

    fn look_up(&mut self, page: u64, allocators: &mut Shared) -> Result<(u64, bool), FrameError> {
        if let Some(&frame) = self.pages.get(&page) {
            return Ok((frame, false));
        }
        self.faults += 1;
        let mut allocator = allocators.member(self.allocator);
        if self.huge
            && let Ok(Pfn(first)) = allocator.allocate_block(self.caller, HUGE_ORDER)
        {
            let base = page >> HUGE_ORDER << HUGE_ORDER;
            // Pages of the block that came one by one before keep their frames.
            for index in 0..1 << HUGE_ORDER {
                self.pages.entry(base + index).or_insert(first + index);
            }
            self.frames += 1 << HUGE_ORDER;
            return Ok((self.pages[&page], true));
        }
        let Pfn(frame) = allocator.allocate(self.caller)?;
        self.frames += 1;
        self.pages.insert(page, frame);
        Ok((frame, true))
    }
}

/// Page numbers are well spread once multiplied.
#[derive(Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 32;
    }
}
