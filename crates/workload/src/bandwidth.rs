//! The Bandwidth benchmark: a big array, front to back.

use memtint_units::ByteSize;

use crate::{Kind, LINE_BYTES, Reference, Region, Source, WorkloadError};

/// Parameters of the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthParameters {
    /// The array.
    pub region: Region,
    /// Distance between two references in bytes; 64 touches each line once.
    pub step_bytes: u64,
    /// Reads or writes.
    pub kind: Kind,
    /// Instructions between two references that touch no memory.
    pub gap: u32,
}

impl BandwidthParameters {
    /// Reads an array twice as large as the last-level cache, a line at a time, without dependence (PALLOC, section
    /// V-C: "a big array", whose size is not given: that of its Latency benchmark is taken; the gap is fitted).
    #[must_use]
    pub const fn for_cache(llc: ByteSize) -> BandwidthParameters {
        let region = Region::of(ByteSize(llc.bytes() * 2));
        BandwidthParameters { region, step_bytes: LINE_BYTES, kind: Kind::Read, gap: 2 }
    }
}

/// Sequential independent references, over and over. Never ends.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    reference: Reference,
    begin: u64,
    end: u64,
    step: u64,
}

impl Bandwidth {
    /// Starts at the front. Refuses a step of zero, and an array that is no multiple of the step.
    pub fn new(parameters: &BandwidthParameters) -> Result<Bandwidth, WorkloadError> {
        if parameters.step_bytes == 0 {
            return Err(WorkloadError::parameter("bandwidth", "step_bytes", 0, "1 or more"));
        }
        parameters.region.steps("bandwidth", parameters.step_bytes)?;
        let begin = parameters.region.base;
        let bytes = parameters.step_bytes.min(8) as u8;
        let reference = Reference { kind: parameters.kind, ..Reference::read(begin, bytes, parameters.gap) };
        Ok(Bandwidth { reference, begin, end: begin + parameters.region.size.bytes(), step: parameters.step_bytes })
    }

    #[inline]
    fn step(&mut self) -> Reference {
        let reference = self.reference;
        self.reference.addr += self.step;
        if self.reference.addr == self.end {
            self.reference.addr = self.begin;
        }
        reference
    }
}

crate::endless!(Bandwidth);
