//! Several systems in one memory, each with separate tasks.
//!
//! Free blocks that can merge belong to all of them. The published systems were built into Linux's buddy allocator and took their frames
//! from its free lists. So do these: the free blocks are the same for all systems, each system assigns them to its free lists, and a
//! system's change to a block is passed to the others before any of them continues. Frames that a system keeps for itself are out of reach
//! for the others until it returns them to the blocks:
//!
//! ```text
//!            free blocks, order 0 to 10            shared by all systems
//!          ↙ ↗           ↓ ↑           ↘ ↖
//!   color lists     per-CPU lists      (none)      private to each system
//!       palloc          buddy          tinted
//! ```
//!
//! A frame is therefore in one place: in a free block, or with one system. Systems whose color lists never return frames (CAMC, TintMalloc,
//! the hybrid one, PALLOC's bins) trap frames for the others just as they do for themselves.
//!
//! When a system finds nothing, the per-CPU lists of the others are drained and it searches once more, as the kernel
//! does before it fails.
//!
//! Simplified: systems ignore each other's tasks. That memtint's allocator avoids the colors of strict tasks, and that CAMC assigns no
//! color twice, holds among their own tasks only. The largest order of a block is the smallest among the systems.

use std::fmt;

use memtint_units::Pfn;

use crate::allocator::{Counts, FrameAllocator, Promises, Steps};
use crate::base::Tenant;
use crate::error::FrameError;
use crate::memory::FrameMemory;
use crate::task::{Caller, Policy, Profile, TaskId, Usage};

/// Systems that hand out the frames of one memory; at least one.
///
/// ```
/// use memtint_frames::{Buddy, Caller, FrameAllocator, FrameMemory, Policy, Profile, Shared, Tinted};
/// use memtint_map::{Granule, Palette, Platform};
/// use memtint_units::IndexSet;
///
/// let palette = Palette::new(&Platform::load("xeon-w3530-palloc")?, Granule::PAGE)?;
/// let memory = FrameMemory::of_palette(&palette, &[0])?;
/// let mut shared = Shared::new(vec![Box::new(Buddy::new(&memory, None)), Box::new(Tinted::new(&memory))])?;
///
/// let plain = Caller { task: shared.member(0).enter(&Profile::default())?, cpu: 0 };
/// let banks = Policy::banks(IndexSet::parse("3", palette.bank_classes())?);
/// let colored = Caller { task: shared.member(1).enter(&Profile::of(banks))?, cpu: 0 };
/// let (one, other) = (shared.member(0).allocate(plain)?, shared.member(1).allocate(colored)?);
/// assert!(one != other && palette.bank_class(other.addr()) == Some(3));
///
/// // What one system handed out, only that system takes back.
/// assert!(shared.member(0).free(plain, other).is_err());
/// shared.member(1).free(colored, other)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Shared {
    systems: Vec<Box<dyn Tenant>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.systems.iter().map(|system| system.name())).finish()
    }
}

impl Shared {
    /// Lets systems share the memory that all of them were made for.
    ///
    /// # Errors
    /// [`FrameError::Nothing`] without systems; [`FrameError::NotShared`] when one was made for another memory, or has
    /// handed out frames before.
    pub fn new(mut systems: Vec<Box<dyn Tenant>>) -> Result<Shared, FrameError> {
        let Some(order_max) = systems.iter().map(|system| system.order_max()).min() else {
            return Err(FrameError::Nothing { what: "allocators" });
        };
        for system in &systems {
            let refuse = |found| Err(FrameError::NotShared { system: system.name(), found });
            if !std::ptr::eq(system.memory(), systems[0].memory()) {
                return refuse("was made for another memory");
            }
            let counts = system.counts();
            if counts.in_blocks != counts.frames || system.steps() != Steps::default() {
                return refuse("was used before");
            }
        }
        if systems.len() > 1 {
            systems.iter_mut().for_each(|system| system.share(order_max));
        }
        Ok(Shared { systems })
    }

    /// Gives one of the systems to work with, by its place in the list.
    ///
    /// # Panics
    /// When there is no such place.
    #[must_use]
    pub fn member(&mut self, at: usize) -> Member<'_> {
        assert!(at < self.systems.len(), "system {at} of {}", self.systems.len());
        Member { shared: self, at }
    }

    /// Gives the systems for inspection, in order.
    pub fn systems(&self) -> impl Iterator<Item = &dyn FrameAllocator> {
        self.systems.iter().map(|system| system.as_allocator())
    }

    /// Counts contradictions in any system, or between two of them; 0 is right. For tests: linear in the memory.
    #[must_use]
    pub fn faults(&self) -> usize {
        let counts: Vec<Counts> = self.systems().map(FrameAllocator::counts).collect();
        let kept = |counts: &Counts| counts.held + counts.lost + counts.on_color_lists + counts.on_cpu_lists;
        let all: u64 = counts.iter().map(kept).sum();
        let wrong = |own: &&Counts| own.elsewhere + kept(own) != all || own.blocks != counts[0].blocks;
        self.systems().map(FrameAllocator::faults).sum::<usize>() + counts.iter().filter(wrong).count()
    }

    /// Passes a system's changes of the blocks to the others.
    #[inline]
    fn tell(&mut self, at: usize) {
        if self.systems.len() == 1 {
            return;
        }
        let changes = self.systems[at].changes();
        if !changes.is_empty() {
            let others = self.systems.iter_mut().enumerate().filter(|&(other, _)| other != at);
            others.for_each(|(_, other)| other.follow(&changes));
            debug_assert!(
                self.systems().all(|other| other.counts().blocks == self.systems[at].as_allocator().counts().blocks),
                "systems of one memory do not agree on its free blocks"
            );
        }
    }

    /// Drains the per-CPU lists of the others; returns whether there were any frames.
    fn flush_others(&mut self, at: usize) -> bool {
        let mut any = false;
        for other in (0..self.systems.len()).filter(|&other| other != at) {
            any |= self.systems[other].counts().on_cpu_lists > 0;
            self.systems[other].flush();
            self.tell(other);
        }
        any
    }
}

/// One system of a [`Shared`] memory.
#[derive(Debug)]
pub struct Member<'a> {
    shared: &'a mut Shared,
    at: usize,
}

impl Member<'_> {
    fn own(&self) -> &dyn FrameAllocator {
        self.shared.systems[self.at].as_allocator()
    }

    /// Lets the system act, and passes its changes to the others.
    #[inline]
    fn act<T>(&mut self, act: impl FnOnce(&mut dyn FrameAllocator) -> T) -> T {
        let done = act(self.shared.systems[self.at].as_allocator_mut());
        self.shared.tell(self.at);
        done
    }
}

impl FrameAllocator for Member<'_> {
    fn name(&self) -> &'static str {
        self.own().name()
    }

    fn promises(&self) -> Promises {
        self.own().promises()
    }

    fn memory(&self) -> &FrameMemory {
        self.own().memory()
    }

    fn enter(&mut self, profile: &Profile) -> Result<TaskId, FrameError> {
        self.act(|own| own.enter(profile))
    }

    fn leave(&mut self, task: TaskId) -> Result<(), FrameError> {
        self.act(|own| own.leave(task))
    }

    fn set_policy(&mut self, task: TaskId, policy: &Policy) -> Result<(), FrameError> {
        self.act(|own| own.set_policy(task, policy))
    }

    fn policy(&self, task: TaskId) -> Result<&Policy, FrameError> {
        self.own().policy(task)
    }

    fn allocate_block(&mut self, caller: Caller, order: u32) -> Result<Pfn, FrameError> {
        match self.act(|own| own.allocate_block(caller, order)) {
            Err(FrameError::OutOfMemory { .. } | FrameError::OutOfColor { .. })
                if self.shared.flush_others(self.at) =>
            {
                self.act(|own| own.allocate_block(caller, order))
            }
            found => found,
        }
    }

    fn free_block(&mut self, caller: Caller, pfn: Pfn, order: u32) -> Result<(), FrameError> {
        self.act(|own| own.free_block(caller, pfn, order))
    }

    fn flush(&mut self) {
        self.act(|own| own.flush());
    }

    fn counts(&self) -> Counts {
        self.own().counts()
    }

    fn free_in_color(&self, policy: &Policy) -> Result<u64, FrameError> {
        self.own().free_in_color(policy)
    }

    fn usage(&self, task: TaskId) -> Result<Usage, FrameError> {
        self.own().usage(task)
    }

    fn steps(&self) -> Steps {
        self.own().steps()
    }

    fn faults(&self) -> usize {
        self.shared.faults()
    }
}
