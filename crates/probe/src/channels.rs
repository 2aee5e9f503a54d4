//! Channels in turn whose number is no power of two: which block of memory is in which channel.
//!
//! With three channels in turn, no difference of addresses decides anything. But pairs that conflict are in one channel, so that an
//! assumption on the number of channels, the block and what is moved where can be judged by a few such pairs.

use crate::blocks;
use crate::pool::Pool;
use crate::view::View;
use memtint_map::Interleave;
use memtint_units::PhysAddr;

/// Odd numbers of channels; an even number is one of these times a power of two, which functions select.
const WAYS: [u32; 7] = [3, 5, 7, 9, 11, 13, 15];
/// Blocks of 64 B to 64 KiB.
const SHIFTS: std::ops::RangeInclusive<u32> = 6..=16;
/// What is moved is moved by a multiple of 64 MiB.
const MOVED_BITS: u32 = 26;
/// The share of pairs that must be in one channel: a few may not conflict at all.
const SAME_CHANNEL: f64 = 0.9;

/// Assumptions under which pairs that conflict are in one channel, the best first, in words and as a view.
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
