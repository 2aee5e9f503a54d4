//! The Latency benchmark: a pointer chase.

use std::sync::Arc;

use memtint_units::ByteSize;

use crate::{LINE_BYTES, Reference, Region, Source, WorkloadError};
use memtint_units::Random;

/// Parameters of the chase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyParameters {
    /// Place of the list; one entry a line of 64 bytes, at most 2^32 of them.
    pub region: Region,
    /// Instructions between two loads that touch no memory.
    pub gap: u32,
    /// Seed of the order.
    pub seed: u64,
}

impl LatencyParameters {
    /// As published: a randomly shuffled list twice as large as the last-level cache (PALLOC, section V-A; CAMC,
    /// section 2.4.6, uses the same). The gap is fitted: a loop that counts and branches.
    #[must_use]
    pub const fn for_cache(llc: ByteSize, seed: u64) -> LatencyParameters {
        LatencyParameters { region: Region::of(ByteSize(llc.bytes() * 2)), gap: 2, seed }
    }
}

/// A walk along a randomly shuffled list: each load needs the value of the previous one, so only one request at a time
/// is under way (PALLOC, section V-A). Visits each line once a round, in the same order every round. Never ends.
///
/// Keeps four bytes a line, shared between snapshots.
#[derive(Clone, Debug)]
pub struct Latency {
    order: Arc<[u32]>,
    at: usize,
    base: u64,
    gap: u32,
}

impl Latency {
    /// Shuffles the list. Refuses a region that is no multiple of a line, or of more than 2^32 lines.
    pub fn new(parameters: &LatencyParameters) -> Result<Latency, WorkloadError> {
        let lines = parameters.region.steps("latency", LINE_BYTES)?;
        let count = u32::try_from(lines).map_err(|_| {
            WorkloadError::parameter("latency", "size", parameters.region.size, "at most 2^32 - 1 lines of 64 bytes")
        })?;
        let mut order: Vec<u32> = (0..count).collect();
        let mut random = Random::new(parameters.seed);
        // Fisher and Yates: every order is as likely as any other, and walking an order is one cycle through all.
        for last in (1..order.len()).rev() {
            let other = random.below(last as u64 + 1) as usize;
            order.swap(last, other);
        }
        Ok(Latency { order: order.into(), at: 0, base: parameters.region.base, gap: parameters.gap })
    }

    /// Counts the references of one round.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.order.len() as u64
    }

    #[inline]
    fn step(&mut self) -> Reference {
        let line = self.order[self.at];
        self.at += 1;
        if self.at == self.order.len() {
            self.at = 0;
        }
        let addr = self.base + u64::from(line) * LINE_BYTES;
        Reference { depends: true, ..Reference::read(addr, 8, self.gap) }
    }
}

crate::endless!(Latency);
