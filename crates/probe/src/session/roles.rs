//! Descriptions of the roles of bank functions.

use crate::report::Area;
use crate::roles::Roles;
use memtint_map::{Role, gf2};

/// Possible roles of a function that shifts the time of non-conflicting pairs. The shift does not determine the role:
/// each of them slows pairs down on some machines, and speeds them up on others.
pub const SHIFTING: &str = "bank group, rank or channel";

/// Returns whether the role of at least one function is known.
#[must_use]
pub fn is_told(roles: &Roles) -> bool {
    roles.functions.iter().any(|&(_, role)| role != Role::Unknown)
}

/// Returns the possible roles of a bank function according to the time of pairs: [`SHIFTING`] or `unknown`. Conflicts
/// do not distinguish the functions of a basis. Only a shift distinguishes one from others, and only if it is in the
/// basis, which is not the hardware's.
#[must_use]
pub fn selects(area: &Area, mask: u64) -> &'static str {
    match area.shift {
        Some(shift) if shift.function == mask => SHIFTING,
        _ => "unknown",
    }
}

/// Gives the bits of a mask as a list, runs shortened: `6 13-15`.
#[must_use]
pub fn bit_list(mask: u64) -> String {
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

/// Gives a function as its bits with XOR between them: `6^13`.
#[must_use]
pub fn xor(mask: u64) -> String {
    gf2::bits(mask).map(|bit| bit.to_string()).collect::<Vec<_>>().join("^")
}

/// Describes the known roles in sentences, for a platform file.
pub(super) fn notes(area: &Area) -> String {
    let told = area.roles.as_ref().is_some_and(is_told);
    let shift = match area.shift {
        None => String::new(),
        Some(shift) => {
            let (bits, which) = (xor(shift.function), if told { "" } else { ", and timing does not say which" });
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
        "so is its role, where given, up to sums with functions of channel, rank and bank group, in this order"
    } else {
        "what it selects (channel, rank, bank group, bank) is not"
    };
    format!(
        "Found by timing: which bank a function selects is known up to the names of banks, and {selects}.{shift}{turns}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::roles::Untold;
    use crate::shift::Shift;
    use crate::solve::Solution;
    use crate::tester::Levels;
    use crate::verify::Verification;
    use crate::view::View;
    use memtint_units::PhysAddr;

    const CHANNEL: u64 = 1 << 8 | 1 << 13;
    const RANK: u64 = 1 << 14 | 1 << 18;

    fn area(roles: Option<Roles>) -> Area {
        Area {
            pool: Pool::new([PhysAddr(0)..PhysAddr(1 << 23)], 64).unwrap(),
            view: View::plain(),
            solution: Solution {
                covered: (1 << 23) - (1 << 6),
                tried: Vec::new(),
                functions: vec![RANK, CHANNEL],
                same_bank: Vec::new(),
                same_row: Vec::new(),
            },
            levels: Levels { hit: 200.0, conflict: 280.0, sigma: 8.0, shifted: None },
            verification: Verification::default(),
            shift: Some(Shift { function: RANK, ticks: 9.0, error: 1.0 }),
            roles,
        }
    }

    fn told(channel: Role, rank: Role, untold: Option<Untold>) -> Roles {
        Roles {
            functions: vec![(CHANNEL, channel), (RANK, rank)],
            levels: Vec::new(),
            compared: Vec::new(),
            saturated: None,
            error: 1.0 - 0.999,
            untold,
        }
    }

    #[test]
    fn notes_do_not_deny_what_is_told() {
        let denied = "timing does not say which";
        let unknown = told(Role::Unknown, Role::Unknown, Some(Untold::Noisy));
        assert!(notes(&area(None)).contains(denied) && notes(&area(Some(unknown))).contains(denied));
        let notes = notes(&area(Some(told(Role::Channel, Role::Rank, None))));
        assert!(!notes.contains(denied) && notes.contains("14^18 shifts") && notes.contains("up to sums"), "{notes}");
    }

    #[test]
    fn only_the_function_that_shifts_may_select_something() {
        let area = area(None);
        assert_eq!((selects(&area, RANK), selects(&area, CHANNEL)), (SHIFTING, "unknown"));
    }

    #[test]
    fn bits_are_lists_and_functions() {
        let mask = 1 << 6 | 0b1110_0000_0000_0000 | 1 << 20 | 1 << 21;
        assert_eq!(bit_list(mask), "6 13-15 20 21");
        assert_eq!(xor(CHANNEL), "8^13");
    }
}
