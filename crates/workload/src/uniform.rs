//! Uniformly random references.

use crate::{LINE_BYTES, Reference, Region, Source, WorkloadError};
use memtint_units::random::{at, mix};

/// Parameters of the references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformParameters {
    /// The memory.
    pub region: Region,
    /// Writes per 1024 references, on average: 0 to 1024.
    pub writes_per_1024: u32,
    /// Instructions between two references that touch no memory.
    pub gap: u32,
    /// Seed of addresses and kinds.
    pub seed: u64,
}

/// Independent references to lines that are drawn anew each time. Never ends.
///
/// Reference `i` touches line `at(seed, i) mod lines` ([`memtint_units::random::at`]): the sequence used in comparisons with other
/// simulators.
#[derive(Clone, Debug)]
pub struct Uniform {
    seed: u64,
    index: u64,
    base: u64,
    lines: u64,
    /// The number of lines is usually a power of two: then a mask replaces a division.
    mask: Option<u64>,
    writes_per_1024: u64,
    gap: u32,
}

impl Uniform {
    /// Begins the sequence. Refuses memory that is no multiple of a line, and more writes than references.
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
        // Not the bits of the address, so that no line is always written.
        if self.writes_per_1024 > 0 && mix(!random) & 1023 < self.writes_per_1024 {
            Reference::write(addr, 8, self.gap)
        } else {
            Reference::read(addr, 8, self.gap)
        }
    }
}

crate::endless!(Uniform);
