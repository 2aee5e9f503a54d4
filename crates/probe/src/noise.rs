//! Noise in the readings of simulated machines.

use schemars::JsonSchema;
use serde::Serialize;

/// Noise of a reading, in ticks or as a share of accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Additional time of a row conflict. 0 is a machine that closes its rows at once.
    pub gap: f64,
    /// Standard deviation of each access.
    pub sigma: f64,
    /// Standard deviation of a constant shift for each pair of addresses; repeated measurements do not average it out.
    pub bias: f64,
    /// Shift of an access whose predecessor was to another bank group or channel: a second mode without a conflict.
    pub level: f64,
    /// Share of accesses that wait for a refresh: 500 to 1100 ticks more.
    pub refresh: f64,
    /// Share of accesses in bursts of another program, which slow accesses and close rows.
    pub burst: f64,
    /// Amplitude of a drift with a period of two hundred thousand accesses.
    pub drift: f64,
    /// Share of accesses that still hit a cache.
    pub leak: f64,
    /// Ticks by which the clock advances, 1 or more.
    pub quantum: u32,
}

impl Noise {
    /// No noise.
    pub const NONE: Noise = Noise {
        gap: 90.0,
        sigma: 0.0,
        bias: 0.0,
        level: 0.0,
        refresh: 0.0,
        burst: 0.0,
        drift: 0.0,
        leak: 0.0,
        quantum: 1,
    };
    /// An idle machine with a good clock.
    pub const QUIET: Noise = Noise { sigma: 4.0, bias: 2.0, level: 4.0, refresh: 0.04, drift: 2.0, ..Noise::NONE };
    /// A machine under moderate load.
    pub const TYPICAL: Noise = Noise {
        gap: 60.0,
        sigma: 12.0,
        bias: 6.0,
        level: 10.0,
        refresh: 0.06,
        burst: 0.05,
        drift: 10.0,
        ..Noise::NONE
    };
    /// A busy machine.
    pub const NOISY: Noise = Noise {
        gap: 45.0,
        sigma: 25.0,
        bias: 10.0,
        level: 15.0,
        refresh: 0.08,
        burst: 0.15,
        drift: 25.0,
        ..Noise::NONE
    };
    /// A machine on which a conflict is smaller than other disturbances of an access.
    pub const EXTREME: Noise = Noise {
        gap: 30.0,
        sigma: 40.0,
        bias: 15.0,
        level: 18.0,
        refresh: 0.08,
        burst: 0.25,
        drift: 40.0,
        ..Noise::NONE
    };
    /// An idle machine whose clock changes its speed continuously.
    pub const DRIFTING: Noise = Noise { drift: 80.0, ..Noise::QUIET };
    /// A machine under moderate load, with a constant shift for each pair of addresses.
    pub const BIASED: Noise = Noise { bias: 15.0, ..Noise::TYPICAL };
    /// A machine under moderate load, with a coarse clock.
    pub const COARSE: Noise = Noise { quantum: 24, ..Noise::TYPICAL };
    /// A machine under moderate load, with occasional cache hits.
    pub const LEAKY: Noise = Noise { leak: 0.05, ..Noise::TYPICAL };
}

/// A named setting of [`Noise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoiseLevel {
    /// No noise.
    None,
    /// An idle machine with a good clock.
    Quiet,
    /// A machine under load.
    Typical,
    /// A busy machine.
    Noisy,
    /// A machine on which a conflict is smaller than other disturbances of an access.
    Extreme,
    /// As quiet, with a drift of readings of 80 ticks.
    Drifting,
    /// As typical, with a constant shift for each pair of addresses of 15 ticks (standard deviation).
    Biased,
    /// As typical, with a clock of 24 ticks.
    Coarse,
    /// As typical, with one access in twenty hitting a cache.
    Leaky,
}

impl NoiseLevel {
    /// The default levels of a self-test.
    pub const TESTED: [NoiseLevel; 4] =
        [NoiseLevel::Quiet, NoiseLevel::Typical, NoiseLevel::Noisy, NoiseLevel::Extreme];

    /// Returns its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NoiseLevel::None => "none",
            NoiseLevel::Quiet => "quiet",
            NoiseLevel::Typical => "typical",
            NoiseLevel::Noisy => "noisy",
            NoiseLevel::Extreme => "extreme",
            NoiseLevel::Drifting => "drifting",
            NoiseLevel::Biased => "biased",
            NoiseLevel::Coarse => "coarse",
            NoiseLevel::Leaky => "leaky",
        }
    }

    /// Gives the noise.
    #[must_use]
    pub fn noise(self) -> Noise {
        match self {
            NoiseLevel::None => Noise::NONE,
            NoiseLevel::Quiet => Noise::QUIET,
            NoiseLevel::Typical => Noise::TYPICAL,
            NoiseLevel::Noisy => Noise::NOISY,
            NoiseLevel::Extreme => Noise::EXTREME,
            NoiseLevel::Drifting => Noise::DRIFTING,
            NoiseLevel::Biased => Noise::BIASED,
            NoiseLevel::Coarse => Noise::COARSE,
            NoiseLevel::Leaky => Noise::LEAKY,
        }
    }
}
