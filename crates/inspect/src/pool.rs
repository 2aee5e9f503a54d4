//! The only fact about the runtime that this crate uses: the addresses of its pages inside a program.

use std::ops::Range;

/// Addresses, inside every program that `memtint run` started, that belong to memtint and not to the program.
///
/// The runtime keeps its stock of ready frames, its helper's code and its tables in this range only, and places no
/// memory of the program there. This is a documented contract by address, so that the observer needs no code and no
/// report of the runtime it judges. Linux uses addresses this low (77 to 78 TiB) only for a program that requests them
/// by number, because `mmap` works downwards from the top of the address space.
pub const POOL_ADDRESSES: Range<u64> = 0x4d00_0000_0000..0x4e00_0000_0000;

/// Returns whether the whole of `start..end` lies in [`POOL_ADDRESSES`].
pub(crate) fn is_pool(start: u64, end: u64) -> bool {
    start >= POOL_ADDRESSES.start && end <= POOL_ADDRESSES.end
}
