//! Simulated machines and what disturbs them.

use memtint_map::Platform;
use memtint_probe::{Noise, Pool, SimulatedMachine};

use crate::output::Failure;

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
}

impl Level {
    /// What a self-test takes.
    pub(super) const TESTED: [Level; 4] = [Level::Quiet, Level::Typical, Level::Noisy, Level::Extreme];

    pub(super) fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Quiet => "quiet",
            Level::Typical => "typical",
            Level::Noisy => "noisy",
            Level::Extreme => "extreme",
        }
    }

    fn noise(self) -> Noise {
        match self {
            Level::None => Noise::NONE,
            Level::Quiet => Noise::QUIET,
            Level::Typical => Noise::TYPICAL,
            Level::Noisy => Noise::NOISY,
            Level::Extreme => Noise::EXTREME,
        }
    }
}

/// A machine with the mapping of a platform, all of whose memory may be accessed.
pub(super) fn machine(platform: Platform, level: Level, seed: u64) -> Result<SimulatedMachine, Failure> {
    let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64)?;
    // Not the numbers that the probe draws.
    Ok(SimulatedMachine::new(platform, pool, level.noise(), !seed)?)
}
