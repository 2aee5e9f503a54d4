//! Words for what a probe found: functions, roles, counts.

use std::fmt::{self, Write as _};

use memtint_map::Role;
use memtint_probe::session::{bit_list, is_told, xor};
use memtint_probe::{Attempt, Compared, Level, Mapping, Rate, Roles};

use crate::output::table;

/// What functions select, and what that rests on.
pub(super) fn write_roles(out: &mut String, roles: &Roles) -> fmt::Result {
    if is_told(roles) {
        writeln!(out, "\nwhat they select, each up to sums with those above its kind")?;
        let row = |&(mask, role): &(u64, Role)| vec![format!("  {}", bit_list(mask)), selected(role).to_owned()];
        let rows: Vec<Vec<String>> = roles.functions.iter().map(row).collect();
        out.push_str(&table(&["  address bits", "selects"], &[], &rows));
        // Up, but not by what 1 - 0.999 is off in binary.
        let share = (roles.error * 1e6 - 1e-6).ceil().max(1.0) / 1e4;
        writeln!(out, "roles       probability of error at most {share} % (assuming independent measurement errors)")?;
    }
    if let Some(why) = roles.untold {
        writeln!(out, "roles       unknown: {why}")?;
    }
    for Level { ticks, error, changes, role } in &roles.levels {
        let (what, changes) = (apart(*role), count(changes.len(), "change"));
        writeln!(
            out,
            "together    four lines of two banks: {ticks:.1} +- {error:.1} ticks more than one line, {changes} of the bank: {what}"
        )?;
    }
    for Compared { function: mask, shares: [open, changing], channel } in &roles.compared {
        let is = match channel {
            Some(true) => "a channel",
            Some(false) => "no channel",
            None => "not clear",
        };
        writeln!(
            out,
            "half        banks of one value of {}: a read takes {open:.2} times as long as from all, {changing:.2} times where rows change: {is}",
            xor(*mask)
        )?;
    }
    Ok(())
}

fn selected(role: Role) -> &'static str {
    match role {
        Role::Channel => "channel",
        Role::Rank => "rank",
        Role::BankGroup => "bank group",
        Role::Bank => "bank",
        _ => "unknown",
    }
}

/// What two banks have apart.
pub(super) fn apart(role: Role) -> &'static str {
    match role {
        Role::Channel => "another channel",
        Role::Rank => "another rank",
        Role::BankGroup => "another bank group",
        Role::Bank => "the same bank group",
        _ => "unknown",
    }
}

pub(super) fn sure(mapping: &Mapping) -> String {
    // Never more than what was computed.
    let share = (mapping.confidence * 1e6).floor() / 1e4;
    format!("confidence at least {share:.4} % (assuming independent measurement errors)")
}

pub(super) fn hits(rate: &Rate) -> String {
    format!("{} of {}", rate.hits, rate.tried)
}

pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

pub(super) fn attempt_row(attempt: &Attempt) -> Vec<String> {
    vec![
        format!("  {}", attempt.assumption),
        attempt.separation.map_or("-".to_owned(), |separation| format!("{separation:.2}")),
        attempt.accesses.to_string(),
        attempt.failed.map_or("predicts what memory does".to_owned(), |failed| failed.to_string()),
    ]
}
