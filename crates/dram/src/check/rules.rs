//! The rules between two commands, from the timing.

use super::Constraint;
use crate::command::Kind;
use crate::timing::Timing;

/// A set of kinds, one bit each.
#[derive(Clone, Copy)]
pub(super) struct Kinds(pub(super) u16);

impl Kinds {
    const EVERY: Kinds = Kinds((1 << Kind::ALL.len()) - 1);

    pub(super) fn of(kinds: &[Kind]) -> Kinds {
        Kinds(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u16))
    }

    pub(super) fn contains(self, kind: Kind) -> bool {
        self.0 >> kind as u16 & 1 == 1
    }
}

/// The pairs of commands to which a rule applies.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// Both touch the same bank.
    Bank,
    /// Both touch the same bank group.
    Group,
    /// They touch different groups of a rank.
    OtherGroup,
    /// Both go to the same rank.
    Rank,
}

/// `before` must come at least `wait` cycles after `after`.
pub(super) struct Rule {
    pub(super) constraint: Constraint,
    pub(super) after: Kinds,
    pub(super) before: Kinds,
    pub(super) reach: Reach,
    pub(super) wait: u64,
}

/// JEDEC's command-to-command rules, without tFAW, auto precharge and the buses, which do not relate two commands.
pub(super) fn rules(t: &Timing) -> Vec<Rule> {
    use Kind::{
        Activate, Precharge, PrechargeAll, Read, ReadAuto, Refresh, RefreshBank, RefreshSameBank, Write, WriteAuto,
    };
    let act = Kinds::of(&[Activate]);
    let reads = Kinds::of(&[Read, ReadAuto]);
    let writes = Kinds::of(&[Write, WriteAuto]);
    let column = Kinds::of(&[Read, ReadAuto, Write, WriteAuto]);
    let pre = Kinds::of(&[Precharge]);
    let prea = Kinds::of(&[PrechargeAll]);
    let any_pre = Kinds::of(&[Precharge, PrechargeAll]);
    let refresh = Kinds::of(&[Refresh]);
    let single = Kinds::of(&[RefreshBank, RefreshSameBank]);
    // Commands that need a bank at rest: ACT, and every refresh.
    let fresh = Kinds::of(&[Activate, Refresh, RefreshBank, RefreshSameBank]);
    let data = t.cwl + t.burst;
    [
        (Constraint::Rcd, act, column, Reach::Bank, t.rcd),
        (Constraint::Ras, act, any_pre, Reach::Bank, t.ras),
        (Constraint::Rc, act, fresh, Reach::Bank, t.rc),
        (Constraint::Rp, pre, fresh, Reach::Bank, t.rp),
        (Constraint::RpAb, prea, fresh, Reach::Bank, t.rp_ab),
        (Constraint::Rtp, reads, any_pre, Reach::Bank, t.rtp),
        (Constraint::Wr, writes, any_pre, Reach::Bank, data + t.wr),
        (Constraint::CcdS, reads, reads, Reach::OtherGroup, t.ccd_s),
        (Constraint::CcdL, reads, reads, Reach::Group, t.ccd_l),
        (Constraint::CcdSWr, writes, writes, Reach::OtherGroup, t.ccd_s_wr),
        (Constraint::CcdLWr, writes, writes, Reach::Group, t.ccd_l_wr),
        (Constraint::Rtw, reads, writes, Reach::Rank, t.rtw),
        (Constraint::WtrS, writes, reads, Reach::OtherGroup, data + t.wtr_s),
        (Constraint::WtrL, writes, reads, Reach::Group, data + t.wtr_l),
        (Constraint::RrdS, act, act, Reach::OtherGroup, t.rrd_s),
        (Constraint::RrdL, act, act, Reach::Group, t.rrd_l),
        (Constraint::Ppd, any_pre, any_pre, Reach::Rank, t.ppd),
        (Constraint::Rfc, refresh, Kinds::EVERY, Reach::Rank, t.rfc),
        (Constraint::RfcPb, single, Kinds::EVERY, Reach::Bank, t.rfc_pb),
        (Constraint::Pbr2Pbr, single, single, Reach::Rank, t.pbr2pbr),
        (Constraint::Pbr2Act, single, act, Reach::Rank, t.pbr2act),
        // A refresh opens rows of its bank, so it keeps the distance of an ACT (JESD209-4 and JESD79-5, refresh
        // command scheduling separation).
        (Constraint::RrdS, act, single, Reach::OtherGroup, t.rrd_s),
        (Constraint::RrdL, act, single, Reach::Group, t.rrd_l),
    ]
    .into_iter()
    .map(|(constraint, after, before, reach, wait)| Rule { constraint, after, before, reach, wait: u64::from(wait) })
    .collect()
}

pub(super) fn rules_before(kind: Kind, timing: &Timing) -> Vec<Rule> {
    rules(timing).into_iter().filter(|rule| rule.before.contains(kind)).collect()
}
