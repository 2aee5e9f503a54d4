//! How long it takes to refresh ranks of DRAM in full.

use memtint_units::Picoseconds;

/// Refresh commands that refresh a rank in full (JESD79-3; [Pan18, §4.2.2], and its tables 4.1 and 5.1: total rows by rows of a
/// bin).
pub const REF_COMMANDS: u64 = 8192;

/// Density of the DRAM chips of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Density {
    /// 1 Gb.
    Gb1,
    /// 2 Gb.
    Gb2,
    /// 4 Gb.
    Gb4,
    /// 8 Gb.
    Gb8,
    /// 16 Gb.
    Gb16,
    /// 32 Gb; the source gives a least time.
    Gb32,
    /// 64 Gb; the source gives a least time.
    Gb64,
}

impl Density {
    /// All densities of the table, the smallest first.
    pub const ALL: [Density; 7] =
        [Density::Gb1, Density::Gb2, Density::Gb4, Density::Gb8, Density::Gb16, Density::Gb32, Density::Gb64];

    /// Gives the density in Gbit.
    #[must_use]
    pub const fn gigabits(self) -> u32 {
        1 << self as u32
    }

    /// Gives the time of one refresh command tRFC ([Pan18, Table 4.1], which is table 5.1).
    #[must_use]
    pub const fn t_rfc(self) -> Picoseconds {
        Picoseconds::from_ns(match self {
            Density::Gb1 => 110,
            Density::Gb2 => 160,
            Density::Gb4 => 260,
            Density::Gb8 => 350,
            Density::Gb16 => 550,
            Density::Gb32 => 1000,
            Density::Gb64 => 2000,
        })
    }
}

/// How the ranks of a group, or color, are refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankOrder {
    /// All at the same time.
    Parallel,
    /// One after another.
    Serial,
}

impl RankOrder {
    /// Gives the consecutive refresh commands of a full refresh of `ranks` ranks.
    #[must_use]
    pub fn commands(self, ranks: u32) -> u64 {
        match self {
            RankOrder::Parallel => REF_COMMANDS,
            RankOrder::Serial => REF_COMMANDS * u64::from(ranks),
        }
    }
}
