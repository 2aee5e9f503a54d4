//! Simulated machines and what disturbs them.

use memtint_map::Platform;
use memtint_probe::cache::CacheMachine;
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
    /// As quiet, and readings go up and down by 80 ticks.
    Drifting,
    /// As typical, with a shift of its own for each pair of addresses of 15 ticks (standard deviation).
    Biased,
    /// As typical, with a clock that moves on by 24 ticks.
    Coarse,
    /// As typical, and a cache answers one access in twenty.
    Leaky,
}

impl Level {
    /// What a self-test takes if it is not told.
    pub(super) const TESTED: [Level; 4] = [Level::Quiet, Level::Typical, Level::Noisy, Level::Extreme];

    pub(super) fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Quiet => "quiet",
            Level::Typical => "typical",
            Level::Noisy => "noisy",
            Level::Extreme => "extreme",
            Level::Drifting => "drifting",
            Level::Biased => "biased",
            Level::Coarse => "coarse",
            Level::Leaky => "leaky",
        }
    }

    fn noise(self) -> Noise {
        match self {
            Level::None => Noise::NONE,
            Level::Quiet => Noise::QUIET,
            Level::Typical => Noise::TYPICAL,
            Level::Noisy => Noise::NOISY,
            Level::Extreme => Noise::EXTREME,
            Level::Drifting => Noise::DRIFTING,
            Level::Biased => Noise::BIASED,
            Level::Coarse => Noise::COARSE,
            Level::Leaky => Noise::LEAKY,
        }
    }
}

/// All memory of a platform.
fn pool(platform: &Platform) -> Result<Pool, Failure> {
    Ok(Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64)?)
}

/// A machine with the mapping of a platform, all of whose memory may be accessed.
pub(super) fn machine(platform: Platform, level: Level, seed: u64) -> Result<SimulatedMachine, Failure> {
    let pool = pool(&platform)?;
    // Not the numbers that the probe draws.
    Ok(SimulatedMachine::new(platform, pool, level.noise(), !seed)?)
}

/// A machine with the last-level cache of a platform, or why there can be none.
pub(super) fn caches(platform: &Platform, level: Level, seed: u64) -> Result<Result<CacheMachine, String>, Failure> {
    let machine = CacheMachine::of_platform(platform, pool(platform)?, level.noise(), !seed);
    Ok(machine.map_err(|error| error.to_string()))
}

/// A machine with the nodes of a platform, or why there can be none.
pub(super) fn nodes(platform: &Platform, level: Level, seed: u64) -> Result<Result<CacheMachine, String>, Failure> {
    let machine = CacheMachine::nodes_of_platform(platform, pool(platform)?, level.noise(), !seed);
    Ok(machine.map_err(|error| error.to_string()))
}
