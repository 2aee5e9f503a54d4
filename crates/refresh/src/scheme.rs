//! Ways to refresh.

use memtint_hiding::BEYOND_STANDARD;
use schemars::JsonSchema;
use serde::Serialize;

/// A way to refresh memory while tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Not at all: data would not survive; the baseline of the other schemes.
    None,
    /// By the controller, a REF to each rank each tREFI, one rank after the other.
    Auto,
    /// By the controller, a REF to all ranks at once each tREFI: the coarsest fine granularity refresh.
    Fgr1,
    /// As [`Scheme::Fgr1`], twice as often, with the shorter tRFC2 (DDR4).
    Fgr2,
    /// As [`Scheme::Fgr1`], four times as often, with tRFC4 (DDR4).
    Fgr4,
    /// All REF of a retention time in one burst, to all ranks at once (Bhat and Mueller, ECRTS 2010).
    Burst,
    /// Colored Refresh: a cyclic executive in which no task runs while its ranks are refreshed ([Pan18, chapter 4]).
    ColoredRefresh,
    /// The Colored Refresh Server ([Pan18, chapter 5]).
    Crs,
}

impl Scheme {
    /// Returns the scheme's requirement on memory beyond the standard; `None` for refresh within the standard.
    #[must_use]
    pub fn beyond_standard(self) -> Option<&'static str> {
        matches!(self, Scheme::Burst | Scheme::ColoredRefresh | Scheme::Crs).then_some(BEYOND_STANDARD)
    }

    /// All of them.
    pub const ALL: [Scheme; 8] = [
        Scheme::None,
        Scheme::Auto,
        Scheme::Fgr1,
        Scheme::Fgr2,
        Scheme::Fgr4,
        Scheme::Burst,
        Scheme::ColoredRefresh,
        Scheme::Crs,
    ];

    /// Gives the name, as on command lines and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheme::None => "none",
            Scheme::Auto => "auto",
            Scheme::Fgr1 => "fgr1",
            Scheme::Fgr2 => "fgr2",
            Scheme::Fgr4 => "fgr4",
            Scheme::Burst => "burst",
            Scheme::ColoredRefresh => "colored-refresh",
            Scheme::Crs => "crs",
        }
    }

    /// Finds a scheme by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Scheme> {
        Scheme::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// Returns whether software locks ranks, so that no request may ever meet a refresh.
    #[must_use]
    pub fn locks(self) -> bool {
        matches!(self, Scheme::ColoredRefresh | Scheme::Crs)
    }

    /// Gives the name of the controller's engine.
    pub(crate) fn engine(self) -> &'static str {
        match self {
            Scheme::None => "none",
            Scheme::Auto => "staggered",
            Scheme::Fgr1 => "all-bank",
            Scheme::Fgr2 => "fgr2",
            Scheme::Fgr4 => "fgr4",
            Scheme::Burst => "burst",
            Scheme::ColoredRefresh | Scheme::Crs => "timetable",
        }
    }
}
