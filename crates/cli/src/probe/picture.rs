//! What the timing of a machine shows, as a picture.

use std::collections::BTreeMap;

use memtint_picture::timing::{Decision, Levels, Square, Timing};
use memtint_probe::session::{Banks, Subject, median};
use memtint_probe::{self as probe, Target};

use super::report::answer;

/// Draws the times of a machine.
pub(super) fn svg(banks: &Banks, subject: &Subject) -> String {
    let area = banks.mapping().and_then(|mapping| mapping.areas.first());
    let alone = banks.report.baseline;
    let levels = area.map(|area| Levels {
        alone,
        hit: alone + area.levels.hit,
        conflict: alone + area.levels.conflict,
        sigma: area.levels.sigma,
    });
    let (answer, asked) = (answer(banks), subject.to_string());
    let seen = &banks.seen;
    Timing { answer, asked, pairs: &seen.pairs, alone: &seen.alone, levels, squares: squares(banks) }.svg()
}

/// The results for differences of one address bit or two, by these bits.
fn squares(banks: &Banks) -> BTreeMap<(u32, u32), Square> {
    let mut squares: BTreeMap<(u32, u32), Square> = BTreeMap::new();
    let place = |difference: u64| (difference.trailing_zeros(), 63 - difference.leading_zeros());
    for (&difference, ticks) in &banks.seen.differences {
        squares.entry(place(difference)).or_default().ticks = median(ticks);
    }
    for test in &banks.report.tests {
        match test.target {
            Target::Difference(difference) if (1..=2).contains(&difference.count_ones()) => {
                squares.entry(place(difference)).or_default().decision = Some(match test.decision {
                    probe::Decision::Conflict => Decision::Conflict,
                    probe::Decision::None => Decision::None,
                    probe::Decision::Mixed | probe::Decision::Unknown => Decision::Undecided,
                });
            }
            Target::Difference(_) | Target::Pair(_) => {}
        }
    }
    squares
}
