//! The buddy allocator of Linux with its per-CPU lists: zones, orders 0 to 10, no colors.
//!
//! It accepts tasks with colors, serves them without regard to colors, and counts: the baseline of every comparison.
//!
//! Source: Knowlton, CACM 8(10), 1965; Linux 3.6 mm/page_alloc.c for per-CPU lists, fallback between zones and the
//! emptying of all lists before failure. Not modelled: migrate types, watermarks, reclaim, the tail insertion heuristic.

use std::sync::Arc;

use crate::allocator::Promises;
use crate::base::{Base, System};
use crate::blocks::OneFreeList;
use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::percpu::{CpuLists, PerCpu};
use crate::task::{Caller, Policy, Profile};

/// The buddy allocator.
#[derive(Clone, Debug)]
pub struct Buddy {
    base: Base<OneFreeList, ()>,
    cpu_lists: CpuLists,
}

impl Buddy {
    /// Starts with all memory free, and per-CPU lists of these sizes or none.
    #[must_use]
    pub fn new(memory: &Arc<FrameMemory>, per_cpu: Option<PerCpu>) -> Buddy {
        Buddy { base: Base::new(Arc::clone(memory), OneFreeList, ORDER_MAX), cpu_lists: CpuLists::new(memory, per_cpu) }
    }
}

impl System for Buddy {
    type Lists = OneFreeList;
    type Own = ();

    const NAME: &'static str = "buddy";
    const PROMISES: Promises = Promises { soft: true, merges: true, constant_time: true, ..Promises::NONE };

    fn base(&self) -> &Base<OneFreeList, ()> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<OneFreeList, ()> {
        &mut self.base
    }

    fn accept(&mut self, profile: &Profile) -> Result<(Policy, ()), FrameError> {
        Ok((profile.policy.clone(), ()))
    }

    #[inline]
    fn take(&mut self, caller: Caller, order: u32) -> Option<u32> {
        self.cpu_lists.take_normal(&mut self.base, caller.cpu, order)
    }

    #[inline]
    fn give(&mut self, caller: Caller, first: u32, order: u32) {
        self.cpu_lists.give(&mut self.base, caller.cpu, first, order);
    }

    fn drain(&mut self) {
        self.cpu_lists.drain(&mut self.base);
    }
}
