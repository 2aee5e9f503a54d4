//! Uniformly random references.

use crate::{LINE_BYTES, Reference, Region, Source, WorkloadError};
use memtint_units::random::{at, mix};

/// What the references are like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformParameters {
    /// The memory.
    pub region: Region,
    /// Of 1024 references, so many are writes on average, 0 to 1024.
    pub writes_per_1024: u32,
    /// Instructions between two references that touch no memory.
    pub gap: u32,
    /// Seed of addresses and kinds.
    pub seed: u64,
}

/// References to lines that are drawn anew each time and wait for nothing. Never ends.
///
/// Reference `i` touches line `at(seed, i) mod lines` ([`memtint_units::random::at`]): the same sequence that other simulators
/// are compared on.
#[derive(Clone, Debug)]
pub struct Uniform {
    seed: u64,
    index: u64,
    base: u64,
    lines: u64,
    /// Lines are a power of two, as they mostly are: then a mask does for a division.
    mask: Option<u64>,
    writes_per_1024: u64,
    gap: u32,
}

impl Uniform {
    /// Begins the sequence. Refused: memory that is no multiple of a line, more writes than references.
    pub fn new(parameters: &UniformParameters) -> Result<Uniform, WorkloadError> {
        let lines = parameters.region.steps("uniform", LINE_BYTES)?;
        if parameters.writes_per_1024 > 1024 {
            let found = parameters.writes_per_1024;
            return Err(WorkloadError::parameter("uniform", "writes_per_1024", found, "0 to 1024"));
        }
        Ok(Uniform {
            seed: parameters.seed,
            index: 0,
            base: parameters.region.base,
            lines,
            mask: lines.is_power_of_two().then(|| lines - 1),
            writes_per_1024: u64::from(parameters.writes_per_1024),
            gap: parameters.gap,
        })
    }

    #[inline]
    fn step(&mut self) -> Reference {
        let random = at(self.seed, self.index);
        self.index += 1;
        let line = match self.mask {
            Some(mask) => random & mask,
            None => random % self.lines,
        };
        let addr = self.base + line * LINE_BYTES;
        // Other bits than those of the address, so that no line is always written.
        if self.writes_per_1024 > 0 && mix(!random) & 1023 < self.writes_per_1024 {
            Reference::write(addr, 8, self.gap)
        } else {
            Reference::read(addr, 8, self.gap)
        }
    }
}

crate::endless!(Uniform);
