//! Interleaved channels whose number is not a power of two: the channel of each block of memory.
//!
//! With three interleaved channels, the difference of two addresses does not decide whether they conflict. But
//! conflicting pairs are in one channel, so a few of them suffice to judge an assumption on the number of channels, the
//! block size and the remapping of memory.

use crate::blocks;
use crate::pool::Pool;
use crate::view::View;
use memtint_map::Interleave;
use memtint_units::PhysAddr;

/// Odd numbers of channels. An even number is one of these times a power of two; functions select that factor.
const WAYS: [u32; 7] = [3, 5, 7, 9, 11, 13, 15];
/// Blocks of 64 B to 64 KiB.
const SHIFTS: std::ops::RangeInclusive<u32> = 6..=16;
/// Memory is remapped by multiples of 64 MiB.
const MOVED_BITS: u32 = 26;
/// The share of pairs that must be in one channel; a few pairs may not conflict at all.
const SAME_CHANNEL: f64 = 0.9;

/// Assumptions under which conflicting pairs are in one channel, the best first, as a description and a view.
pub(crate) fn assumptions(pool: &Pool, conflicting: &[[PhysAddr; 2]]) -> Vec<(String, View)> {
    let mut found: Vec<(usize, String, View)> = Vec::new();
    let moved = blocks::assumptions(pool, MOVED_BITS);
    for ways in WAYS {
        for shift in SHIFTS {
            for assumption in &moved {
                let interleave = Some(Interleave { ways, shift });
                let parts = assumption.view.parts().iter().cloned();
                let view = View::of_parts(parts.map(|part| crate::Part { interleave, ..part }).collect());
                let same = |&&[one, other]: &&[PhysAddr; 2]| match (view.inward(one), view.inward(other)) {
                    (Some(one), Some(other)) => one.channel == other.channel,
                    _ => false,
                };
                let count = conflicting.iter().filter(same).count();
                if count as f64 >= SAME_CHANNEL * conflicting.len() as f64 {
                    let words = format!("{ways} channels in turn every {} B, {}", 1 << shift, assumption.words);
                    found.push((count, words, view));
                }
            }
        }
    }
    found.sort_by_key(|&(count, ..)| std::cmp::Reverse(count));
    found.into_iter().map(|(_, words, view)| (words, view)).collect()
}
