//! Alternating strides: the synthetic benchmark of CAMC and TintMalloc.

use memtint_units::ByteSize;

use crate::{Kind, Reference, Region, Source, WorkloadError};

/// Parameters of the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StridesParameters {
    /// The memory; one reference for each step in it.
    pub region: Region,
    /// Growth of each offset, at least a cache line.
    pub step_bytes: u64,
    /// Writes as published, or reads.
    pub kind: Kind,
    /// Instructions between two references that touch no memory.
    pub gap: u32,
}

impl StridesParameters {
    /// Writes between two timestamps of CAMC's benchmark ([Pan18, §2.4.2]: 512 x 1024).
    pub const WRITES_PER_SAMPLE: u64 = 524_288;

    /// CAMC's benchmark: writes in steps of 64 bytes [Pan18, §2.4.2]. The size of the memory is not published: here one
    /// sample of 524,288 writes goes through it once (32 MiB). The gap is fitted.
    #[must_use]
    pub const fn camc() -> StridesParameters {
        StridesParameters::with_step(64)
    }

    /// TintMalloc's benchmark: the same in steps of 128 bytes [Pan18, §3.5.1].
    #[must_use]
    pub const fn tintmalloc() -> StridesParameters {
        StridesParameters::with_step(128)
    }

    const fn with_step(step_bytes: u64) -> StridesParameters {
        let region = Region::of(ByteSize(step_bytes * StridesParameters::WRITES_PER_SAMPLE));
        StridesParameters { region, step_bytes, kind: Kind::Write, gap: 3 }
    }
}

/// References that leave the middle M of a memory in ever longer strides of alternating direction: M, M+S, M-S, M+2S,
/// M-2S and so on [Pan18, §2.4.2 and §3.5.1], which no prefetcher follows. Each step is touched once a round; then the
/// walk restarts in the middle. Never ends.
#[derive(Clone, Debug)]
pub struct Strides {
    middle: u64,
    steps: u64,
    at: u64,
    step_bytes: u64,
    kind: Kind,
    gap: u32,
}

impl Strides {
    /// Begins in the middle; of an even number of steps, at the lower of the two in the middle. Refuses a step of zero,
    /// and a memory that is no multiple of it.
    pub fn new(parameters: &StridesParameters) -> Result<Strides, WorkloadError> {
        if parameters.step_bytes == 0 {
            return Err(WorkloadError::parameter("strides", "step_bytes", 0, "1 or more"));
        }
        let steps = parameters.region.steps("strides", parameters.step_bytes)?;
        Ok(Strides {
            middle: parameters.region.base + (steps - 1) / 2 * parameters.step_bytes,
            steps,
            at: 0,
            step_bytes: parameters.step_bytes,
            kind: parameters.kind,
            gap: parameters.gap,
        })
    }

    /// Counts the references of one round.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.steps
    }

    #[inline]
    fn step(&mut self) -> Reference {
        let offset = self.at.div_ceil(2) * self.step_bytes;
        let addr = if self.at % 2 == 1 { self.middle + offset } else { self.middle - offset };
        self.at += 1;
        if self.at == self.steps {
            self.at = 0;
        }
        let bytes = self.step_bytes.min(4) as u8;
        Reference { kind: self.kind, ..Reference::read(addr, bytes, self.gap) }
    }
}

crate::endless!(Strides);
