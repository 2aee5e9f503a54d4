//! The buddy allocator of Linux with its per-CPU lists: zones, orders 0 to 10, no colors.
//!
//! It accepts tasks with colors, gives them whatever comes, and counts: the baseline of every comparison.
//!
//! Source: Knowlton, CACM 8(10), 1965; Linux 3.6 mm/page_alloc.c for per-CPU lists, fallback between zones and the
//! emptying of all lists before failure. Not modelled: migrate types, watermarks, reclaim, the tail insertion heuristic.

use std::sync::Arc;

use crate::allocator::Promises;
use crate::blocks::OneShelf;
use crate::error::FrameError;
use crate::memory::{Memory, ORDER_MAX};
use crate::office::{Office, System};
use crate::percpu::{CpuLists, PerCpu};
use crate::task::{Caller, Policy, Profile};

/// The buddy allocator.
#[derive(Clone, Debug)]
pub struct Buddy {
    office: Office<OneShelf, ()>,
    cpu_lists: CpuLists,
}

impl Buddy {
    /// Starts with all memory free, and per-CPU lists of these sizes or none.
    #[must_use]
    pub fn new(memory: &Arc<Memory>, per_cpu: Option<PerCpu>) -> Buddy {
        Buddy {
            office: Office::new(Arc::clone(memory), OneShelf, ORDER_MAX),
            cpu_lists: CpuLists::new(memory, per_cpu),
        }
    }
}

impl System for Buddy {
    type Shelf = OneShelf;
    type Own = ();

    const NAME: &'static str = "buddy";
    const PROMISES: Promises = Promises { soft: true, merges: true, constant_time: true, ..Promises::NONE };

    fn office(&self) -> &Office<OneShelf, ()> {
        &self.office
    }

    fn office_mut(&mut self) -> &mut Office<OneShelf, ()> {
        &mut self.office
    }

    fn accept(&mut self, profile: &Profile) -> Result<(Policy, ()), FrameError> {
        Ok((profile.policy.clone(), ()))
    }

    #[inline]
    fn take(&mut self, caller: Caller, order: u32) -> Option<u32> {
        self.cpu_lists.take_normal(&mut self.office, caller.cpu, order)
    }

    #[inline]
    fn give(&mut self, caller: Caller, first: u32, order: u32) {
        self.cpu_lists.give(&mut self.office, caller.cpu, first, order);
    }

    fn drain(&mut self) {
        self.cpu_lists.drain(&mut self.office);
    }
}
