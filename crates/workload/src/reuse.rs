//! Loads of a program between its misses: a chain that caches serve.

use memtint_units::ByteSize;

use crate::{LINE_BYTES, Reference, Region, Source, WorkloadError};
use memtint_units::Random;

const MILLION: u64 = 1_000_000;
/// Loads are put into gaps of at least this many instructions: misses of one group stay together.
const GAP_MIN: u32 = 8;
/// Lines of the near loads; they stay in any first-level cache.
const NEAR_LINES: u64 = 128;
/// Other sources of this crate avoid this address by default.
const BASE: u64 = 1 << 40;

/// Loads to add to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReuseParameters {
    /// Loads of a million instructions that stay in the first-level cache: 0 to 500,000.
    pub near_per_million_instructions: u32,
    /// Loads of a million instructions to random lines of a set intended for the last-level cache: 0 to 500,000.
    pub llc_per_million_instructions: u32,
    /// That set.
    pub llc_set: ByteSize,
    /// Seed of the lines.
    pub seed: u64,
}

/// A source with loads put into its gaps. Each takes the place of an instruction of the gap, and needs the value of the previous load. The
/// caches decide whether they hit: in a smaller cache, or one filled by others, more of them miss.
///
/// Rates are exact in the long run if the gaps have room.
#[derive(Clone, Debug)]
pub struct Reuse<S> {
    inner: S,
    parameters: ReuseParameters,
    random: Random,
    lines: u64,
    /// Millionths of loads that are due.
    near_due: u64,
    llc_due: u64,
    /// Still to be put before `next`.
    near_left: u64,
    llc_left: u64,
    gap: u32,
    next: Option<Reference>,
}

impl<S: Source> Reuse<S> {
    /// Begins with a source. Refuses values outside the ranges of [`ReuseParameters`].
    pub fn new(inner: S, parameters: &ReuseParameters) -> Result<Reuse<S>, WorkloadError> {
        for (field, value) in [
            ("near_per_million_instructions", parameters.near_per_million_instructions),
            ("llc_per_million_instructions", parameters.llc_per_million_instructions),
        ] {
            if value > 500_000 {
                return Err(WorkloadError::parameter("reuse", field, value, "0 to 500000"));
            }
        }
        let lines = Region::of(parameters.llc_set).steps("reuse", LINE_BYTES)?;
        let random = Random::new(parameters.seed ^ BASE);
        let parameters = parameters.clone();
        Ok(Reuse {
            inner,
            parameters,
            random,
            lines,
            near_due: 0,
            llc_due: 0,
            near_left: 0,
            llc_left: 0,
            gap: 0,
            next: None,
        })
    }

    fn pull(&mut self) -> Option<()> {
        let mut next = self.inner.next()?;
        self.near_due += next.instructions() * u64::from(self.parameters.near_per_million_instructions);
        self.llc_due += next.instructions() * u64::from(self.parameters.llc_per_million_instructions);
        if next.gap >= GAP_MIN {
            let room = u64::from(next.gap);
            self.llc_left = (self.llc_due / MILLION).min(room);
            self.near_left = (self.near_due / MILLION).min(room - self.llc_left);
            self.llc_due -= self.llc_left * MILLION;
            self.near_due -= self.near_left * MILLION;
            let loads = (self.llc_left + self.near_left) as u32;
            self.gap = (next.gap - loads) / (loads + 1);
            next.gap -= loads * (self.gap + 1);
        }
        self.next = Some(next);
        Some(())
    }

    fn load(&mut self) -> Reference {
        // Evenly mixed on average, regardless of their numbers.
        let llc = self.random.below(self.near_left + self.llc_left) < self.llc_left;
        let line = if llc {
            self.llc_left -= 1;
            NEAR_LINES + self.random.below(self.lines)
        } else {
            self.near_left -= 1;
            self.random.below(NEAR_LINES)
        };
        Reference { depends: true, ..Reference::read(BASE + line * LINE_BYTES, 8, self.gap) }
    }
}

impl<S: Source + Clone + 'static> Source for Reuse<S> {
    fn next(&mut self) -> Option<Reference> {
        if self.next.is_none() {
            self.pull()?;
        }
        if self.near_left + self.llc_left > 0 { Some(self.load()) } else { self.next.take() }
    }

    fn snapshot(&self) -> Box<dyn Source> {
        Box::new(self.clone())
    }

    fn failure(&self) -> Option<&WorkloadError> {
        self.inner.failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Uniform, UniformParameters};

    #[test]
    fn rates_are_those_asked_for_and_instructions_stay_the_same() {
        let region = Region::of(ByteSize::mib(64));
        let misses = Uniform::new(&UniformParameters { region, writes_per_1024: 0, gap: 99, seed: 1 }).unwrap();
        let parameters = ReuseParameters {
            near_per_million_instructions: 123_456,
            llc_per_million_instructions: 7_890,
            llc_set: ByteSize::mib(2),
            seed: 1,
        };
        let mut source = Reuse::new(misses, &parameters).unwrap();
        let (mut instructions, mut near, mut llc, mut own) = (0, 0, 0, 0);
        while own < 10_000 {
            let reference = source.next().unwrap();
            instructions += reference.instructions();
            match reference.addr.checked_sub(BASE).map(|offset| offset / LINE_BYTES) {
                None => own += 1,
                Some(line) if line < NEAR_LINES => near += 1,
                Some(line) => {
                    assert!(line < NEAR_LINES + (2 << 20) / 64);
                    llc += 1;
                }
            }
        }
        assert_eq!((instructions, near, llc), (1_000_000, 123_456, 7_890));
        let refused = Reuse::new(source, &ReuseParameters { llc_per_million_instructions: 500_001, ..parameters });
        assert!(refused.unwrap_err().to_string().contains("500001"));
    }
}
