//! The writes of a run outside of its program, in words, for a dry run.

use crate::compaction;
use crate::front::Floor;

/// Lists the writes to the machine that a run on this backend would make: each place and its new content. The list omits the memory and
/// registers of the program, and the files that the caller of [`run`](crate::run) writes.
#[must_use]
pub fn writes(floor: &Floor) -> Vec<String> {
    match floor {
        Floor::User { .. } => compaction::writes(),
        Floor::Kernel(asked) => asked.writes(),
    }
}
