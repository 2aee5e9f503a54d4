//! Words for what a probe found: functions, roles, counts.

use std::fmt::{self, Write as _};

use memtint_map::{Role, gf2};
use memtint_probe::{Area, Attempt, Compared, Level, Mapping, Rate, Roles};

use crate::output::table;

/// What functions select, and what that rests on.
pub(super) fn write_roles(out: &mut String, roles: &Roles) -> fmt::Result {
    if is_told(roles) {
        writeln!(out, "\nwhat they select, each up to sums with those above its kind")?;
        let row = |&(mask, role): &(u64, Role)| vec![format!("  {}", list(mask)), selected(role).to_owned()];
        let rows: Vec<Vec<String>> = roles.functions.iter().map(row).collect();
        out.push_str(&table(&["  address bits", "selects"], &[], &rows));
        // Up, but not by what 1 - 0.999 is off in binary.
        let share = (roles.error * 1e6 - 1e-6).ceil().max(1.0) / 1e4;
        writeln!(
            out,
            "roles       wrong with a probability of {share} % at most, as far as readings err independently"
        )?;
    }
    if let Some(why) = roles.untold {
        writeln!(out, "roles       not told: {why}")?;
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
            function(*mask)
        )?;
    }
    Ok(())
}

fn is_told(roles: &Roles) -> bool {
    roles.functions.iter().any(|&(_, role)| role != Role::Unknown)
}

fn selected(role: Role) -> &'static str {
    match role {
        Role::Channel => "channel",
        Role::Rank => "rank",
        Role::BankGroup => "bank group",
        Role::Bank => "bank",
        _ => "not told",
    }
}

/// What two banks have apart.
pub(super) fn apart(role: Role) -> &'static str {
    match role {
        Role::Channel => "another channel",
        Role::Rank => "another rank",
        Role::BankGroup => "another bank group",
        Role::Bank => "the same bank group",
        _ => "not told",
    }
}

/// What timing says that a bank function selects. All functions of a basis are equal in conflicts; only a shift tells one from others,
/// and only if it is one of the basis, which is not the hardware's.
pub(super) fn role(area: &Area, mask: u64) -> &'static str {
    match area.shift {
        Some(shift) if shift.function == mask => SHIFTING,
        _ => "unknown",
    }
}

/// What is known of roles, in sentences, for a platform file.
pub(crate) fn roles(area: &Area) -> String {
    let told = area.roles.as_ref().is_some_and(is_told);
    let shift = match area.shift {
        None => String::new(),
        Some(shift) => {
            let (bits, which) = (function(shift.function), if told { "" } else { ", and timing does not say which" });
            format!(" {bits} shifts the time of pairs that do not conflict: a {SHIFTING}{which}.")
        }
    };
    let ways = area.view.cut(&area.pool.envelope()).into_iter().find_map(|part| part.interleave);
    let turns = match ways {
        None => String::new(),
        Some(interleave) => {
            format!(" That {} channels take turns is found too: they are channels, or nodes.", interleave.ways)
        }
    };
    let selects = if told {
        "what it selects too, as far as it has a role: up to sums with functions of channel, rank and bank group, in this order"
    } else {
        "what it selects (channel, rank, bank group, bank) is not"
    };
    format!(
        "Found by timing: which bank a function selects is known up to the names of banks, and {selects}.{shift}{turns}"
    )
}

pub(super) fn sure(mapping: &Mapping) -> String {
    // Never more than what was computed.
    let share = (mapping.confidence * 1e6).floor() / 1e4;
    format!("right with a probability of {share:.4} % at least, as far as readings err independently")
}

pub(super) fn hits(rate: &Rate) -> String {
    format!("{} of {}", rate.hits, rate.tried)
}

pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Bits as a list, runs shortened.
pub(crate) fn list(mask: u64) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for bit in gf2::bits(mask) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => runs.push((bit, bit)),
        }
    }
    let run = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first} {last}"),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(" ")
}

/// Bits that are XORed, as one word.
pub(crate) fn function(mask: u64) -> String {
    gf2::bits(mask).map(|bit| bit.to_string()).collect::<Vec<_>>().join("^")
}

pub(super) fn attempt_row(attempt: &Attempt) -> Vec<String> {
    vec![
        format!("  {}", attempt.assumption),
        attempt.separation.map_or("-".to_owned(), |separation| format!("{separation:.2}")),
        attempt.accesses.to_string(),
        attempt.failed.map_or("predicts what memory does".to_owned(), |failed| failed.to_string()),
    ]
}

/// What a function may select whose value shifts the time of pairs that do not conflict. Which of these, the time between two accesses
/// does not say: of all of them some make it longer, and some shorter, on one machine or another.
pub(crate) const SHIFTING: &str = "bank group, rank or channel";
