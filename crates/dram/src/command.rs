//! The commands of a DRAM channel.

use std::fmt;

use crate::index::{BankInRank, Cycle, RankIndex};

/// Kind of a command. Names as in JEDEC's standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// ACT: open a row.
    Activate,
    /// PRE: close the row of one bank.
    Precharge,
    /// PREA: close the rows of all banks of a rank. Allowed with all of them closed.
    PrechargeAll,
    /// RD: read a burst from the open row.
    Read,
    /// WR: write a burst to the open row.
    Write,
    /// RDA: read, and close the row as soon as that is allowed.
    ReadAuto,
    /// WRA: write, and close the row as soon as that is allowed.
    WriteAuto,
    /// REF (REFab): refresh all banks of a rank.
    Refresh,
    /// REFpb: refresh one bank (LPDDR4).
    RefreshBank,
    /// REFsb: refresh the bank of this number in every bank group (DDR5).
    RefreshSameBank,
}

/// A command on the bus of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// Cycle of the channel's clock in which it is sent.
    pub cycle: Cycle,
    /// Its kind.
    pub kind: Kind,
    /// Rank it is sent to.
    pub rank: RankIndex,
    /// Bank inside the rank; 0 for commands to the whole rank. For [`Kind::RefreshSameBank`] the bank in group.
    pub bank: BankInRank,
    /// Row for [`Kind::Activate`], column (in bursts) for reads and writes, else 0.
    pub place: u32,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 10] = [
        Kind::Activate,
        Kind::Precharge,
        Kind::PrechargeAll,
        Kind::Read,
        Kind::Write,
        Kind::ReadAuto,
        Kind::WriteAuto,
        Kind::Refresh,
        Kind::RefreshBank,
        Kind::RefreshSameBank,
    ];

    /// Gives the name in JEDEC's standards.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Activate => "ACT",
            Kind::Precharge => "PRE",
            Kind::PrechargeAll => "PREA",
            Kind::Read => "RD",
            Kind::Write => "WR",
            Kind::ReadAuto => "RDA",
            Kind::WriteAuto => "WRA",
            Kind::Refresh => "REF",
            Kind::RefreshBank => "REFpb",
            Kind::RefreshSameBank => "REFsb",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Command {
    /// Writes the line of a command trace: cycle, command, rank, bank, row or column.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.cycle, self.kind, self.rank, self.bank, self.place)
    }
}
