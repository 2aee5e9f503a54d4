//! What disturbs the readings of simulated machines.

use schemars::JsonSchema;
use serde::Serialize;

/// What disturbs a reading. All of it in ticks or as a share of accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// By how much a row conflict is slower. 0 is a machine that closes its rows at once.
    pub gap: f64,
    /// Standard deviation of each access.
    pub sigma: f64,
    /// Standard deviation of a shift that belongs to a pair of addresses and stays: measuring it again does not help.
    pub bias: f64,
    /// Shift of an access whose predecessor was to another bank group or channel: a second mode that is no conflict.
    pub level: f64,
    /// Share of accesses that wait for a refresh: 500 to 1100 ticks more.
    pub refresh: f64,
    /// Share of accesses in bursts of another program, which slow accesses and close rows.
    pub burst: f64,
    /// Readings go up and down by so much in the course of two hundred thousand accesses.
    pub drift: f64,
    /// Share of accesses that a cache answers after all.
    pub leak: f64,
    /// Ticks by which the clock moves on, 1 or more.
    pub quantum: u32,
}

impl Noise {
    /// Nothing disturbs.
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
    /// A machine with something to do.
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
    /// A machine on which a conflict is smaller than what else happens to an access.
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
    /// An idle machine whose clock changes its speed all the time.
    pub const DRIFTING: Noise = Noise { drift: 80.0, ..Noise::QUIET };
    /// A machine with something to do, where the two addresses of a pair matter by themselves.
    pub const BIASED: Noise = Noise { bias: 15.0, ..Noise::TYPICAL };
    /// A machine with something to do, and with a coarse clock.
    pub const COARSE: Noise = Noise { quantum: 24, ..Noise::TYPICAL };
    /// A machine with something to do, one of whose caches answers now and then.
    pub const LEAKY: Noise = Noise { leak: 0.05, ..Noise::TYPICAL };
}

/// A named setting of [`Noise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoiseLevel {
    /// Nothing.
    None,
    /// An idle machine with a good clock.
    Quiet,
    /// A machine under load.
    Typical,
    /// A busy machine.
    Noisy,
    /// A machine on which a conflict is smaller than what else happens to an access.
    Extreme,
    /// As quiet, and readings go up and down by 80 ticks.
    Drifting,
    /// As typical, with a constant shift for each pair of addresses of 15 ticks (standard deviation).
    Biased,
    /// As typical, with a clock of 24 ticks.
    Coarse,
    /// As typical, and a cache answers one access in twenty.
    Leaky,
}

impl NoiseLevel {
    /// The levels of a self-test by default.
    pub const TESTED: [NoiseLevel; 4] =
        [NoiseLevel::Quiet, NoiseLevel::Typical, NoiseLevel::Noisy, NoiseLevel::Extreme];

    /// Gives its name, as in reports.
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
