//! Words of the options of `memtint probe`.

use memtint_probe::NoiseLevel;
use memtint_probe::session::{Algorithm, LogPart};

/// What disturbs readings of a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Level {
    /// Nothing.
    None,
    /// An idle machine with a good clock.
    Quiet,
    /// A machine with something to do.
    Typical,
    /// A busy machine.
    Noisy,
    /// A machine on which a conflict is smaller than what else happens to an access.
    Extreme,
    /// As quiet, and readings go up and down by 80 ticks.
    Drifting,
    /// As typical, with a separate shift for each pair of addresses (standard deviation 15 ticks).
    Biased,
    /// As typical, with a clock that moves on by 24 ticks.
    Coarse,
    /// As typical, and a cache answers one access in twenty.
    Leaky,
}

impl From<Level> for NoiseLevel {
    fn from(level: Level) -> NoiseLevel {
        match level {
            Level::None => NoiseLevel::None,
            Level::Quiet => NoiseLevel::Quiet,
            Level::Typical => NoiseLevel::Typical,
            Level::Noisy => NoiseLevel::Noisy,
            Level::Extreme => NoiseLevel::Extreme,
            Level::Drifting => NoiseLevel::Drifting,
            Level::Biased => NoiseLevel::Biased,
            Level::Coarse => NoiseLevel::Coarse,
            Level::Leaky => NoiseLevel::Leaky,
        }
    }
}

/// The parts of a search, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    /// Which addresses share a bank.
    Dram,
    /// Which addresses share a set and slice of the last-level cache.
    Llc,
    /// How far each NUMA node's memory is from each node's cores.
    Nodes,
}

impl From<Part> for LogPart {
    fn from(part: Part) -> LogPart {
        match part {
            Part::Dram => LogPart::Dram,
            Part::Llc => LogPart::Caches,
            Part::Nodes => LogPart::Nodes,
        }
    }
}

/// How to search for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum AlgorithmName {
    /// memtint's own.
    Own,
    /// The detector of PALLOC (Yun et al., RTAS 2014): two cores, and one bit after the other, or pairs of bits.
    Palloc,
    /// Algorithm 1 of BPM (Liu et al., PACT 2012): row bits, column bits, then pairs of bits.
    Bpm,
}

impl From<AlgorithmName> for Algorithm {
    fn from(name: AlgorithmName) -> Algorithm {
        match name {
            AlgorithmName::Own => Algorithm::Own,
            AlgorithmName::Palloc => Algorithm::Palloc,
            AlgorithmName::Bpm => Algorithm::Bpm,
        }
    }
}
