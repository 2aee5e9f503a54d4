//! Constraints, and their violations.

use std::fmt;

use crate::command::Command;
use crate::index::Cycle;
use crate::refresh::NEVER;

/// A rule that a command can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// ACT to read or write.
    Rcd,
    /// PRE to ACT or refresh of the bank.
    Rp,
    /// PREA to ACT or refresh.
    RpAb,
    /// ACT to PRE.
    Ras,
    /// ACT to ACT or refresh of the bank.
    Rc,
    /// Read to read, other bank group.
    CcdS,
    /// Read to read, same bank group.
    CcdL,
    /// Write to write, other bank group.
    CcdSWr,
    /// Write to write, same bank group.
    CcdLWr,
    /// ACT to ACT, other bank group.
    RrdS,
    /// ACT to ACT, same bank group.
    RrdL,
    /// ACT to the fourth ACT after it.
    Faw,
    /// Write to PRE.
    Wr,
    /// Write to read, other bank group.
    WtrS,
    /// Write to read, same bank group.
    WtrL,
    /// Read to PRE.
    Rtp,
    /// Read or write with auto precharge to ACT or refresh: the precharge starts when tRTP or tWR, and tRAS, allow it.
    AutoPrecharge,
    /// Read to write of a rank.
    Rtw,
    /// Idle cycles of the data bus between ranks.
    Rtrs,
    /// PRE to PRE.
    Ppd,
    /// REF to anything.
    Rfc,
    /// REFpb or REFsb to a command to the same bank.
    RfcPb,
    /// REFpb or REFsb to another of the rank.
    Pbr2Pbr,
    /// REFpb or REFsb to ACT of another bank.
    Pbr2Act,
    /// Two bursts on the data bus at once.
    DataBus,
    /// Two commands in one cycle.
    CommandBus,
    /// A command of an earlier cycle after one of a later.
    Order,
    /// ACT or refresh of an open bank.
    BankOpen,
    /// Read or write of a closed bank.
    BankClosed,
    /// A rank, bank, row or column that does not exist, or one that the command does not take.
    Place,
    /// More refreshes postponed than allowed.
    Refi,
    /// Rows left without refresh for longer than the retention window.
    Retention,
}

impl Constraint {
    /// Gives the name, JEDEC's where there is one.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Constraint::Rcd => "tRCD",
            Constraint::Rp => "tRP",
            Constraint::RpAb => "tRPab",
            Constraint::Ras => "tRAS",
            Constraint::Rc => "tRC",
            Constraint::CcdS => "tCCD_S",
            Constraint::CcdL => "tCCD_L",
            Constraint::CcdSWr => "tCCD_S_WR",
            Constraint::CcdLWr => "tCCD_L_WR",
            Constraint::RrdS => "tRRD_S",
            Constraint::RrdL => "tRRD_L",
            Constraint::Faw => "tFAW",
            Constraint::Wr => "tWR",
            Constraint::WtrS => "tWTR_S",
            Constraint::WtrL => "tWTR_L",
            Constraint::Rtp => "tRTP",
            Constraint::AutoPrecharge => "auto precharge",
            Constraint::Rtw => "tRTW",
            Constraint::Rtrs => "tRTRS",
            Constraint::Ppd => "tPPD",
            Constraint::Rfc => "tRFC",
            Constraint::RfcPb => "tRFCpb",
            Constraint::Pbr2Pbr => "tpbR2pbR",
            Constraint::Pbr2Act => "tpbR2act",
            Constraint::DataBus => "data bus",
            Constraint::CommandBus => "command bus",
            Constraint::Order => "order",
            Constraint::BankOpen => "bank is open",
            Constraint::BankClosed => "bank is closed",
            Constraint::Place => "no such place",
            Constraint::Refi => "tREFI",
            Constraint::Retention => "retention",
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A command that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Violation {
    /// The rule.
    pub constraint: Constraint,
    /// The violating command; for a missing refresh, the first command after the latest time for it.
    pub command: Command,
    /// The earlier command that it is too close to; `None` if the rule concerns the bank's state, the place, or a
    /// missing refresh.
    pub earlier: Option<Command>,
    /// Cycles required since the earlier command (or, for a refresh, allowed since the start or the last one); 0 for
    /// rules without a time.
    pub needed: u64,
    /// Cycles found instead.
    pub found: u64,
}

impl Violation {
    fn text(&self) -> String {
        let Violation { constraint, command, earlier, needed, found } = self;
        match (constraint, earlier) {
            (Constraint::Refi | Constraint::Retention, _) => {
                format!(
                    "{constraint}: at command {command}, {found} cycles without a refresh; at most {needed} are allowed"
                )
            }
            (Constraint::Order, Some(earlier)) => {
                format!("{constraint}: command {command} stands after command {earlier}, which is of a later cycle")
            }
            (_, Some(earlier)) => format!(
                "{constraint}: command {command} comes {found} cycles after command {earlier}; at least {needed} are needed"
            ),
            (_, None) => format!("{constraint}: command {command}"),
        }
    }

    /// First cycle at which this rule would have allowed the command.
    pub(super) fn allowed_from(&self) -> Cycle {
        self.earlier.map_or(NEVER, |earlier| earlier.cycle.saturating_add(self.needed))
    }
}
