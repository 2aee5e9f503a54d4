//! The memory that recorder and plugin share. Compiled into both.
//!
//! One page of [`Shared`], then [`SLOTS`] times a [`Slot`], each a page of counters and a ring of entries. A slot
//! belongs to one thread of the program at a time: only that thread writes entries and `head`, and only the recorder
//! writes `tail`. The recorder may read the entries between `tail` and `head`.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Marks that both sides were compiled from the same source.
pub const MAGIC: u64 = 0x6d65_6d74_696e_7402;
/// Threads alive at once whose references can be recorded.
pub const SLOTS: usize = 256;
/// Entries of a ring; a power of two.
pub const RING: usize = 1 << 14;
/// Bytes of the shared memory; most of them are never touched.
pub const SHARED_BYTES: usize = size_of::<Shared>() + SLOTS * size_of::<Slot>();

/// State shared by all threads.
#[repr(C, align(4096))]
pub struct Shared {
    /// [`MAGIC`], written by the recorder.
    pub magic: AtomicU64,
    /// Process id of the recorder: a thread that waits for the recorder checks whether it is still alive.
    pub recorder: AtomicU32,
    /// Record instruction fetches as well.
    pub fetches: AtomicU32,
    /// Instructions before the first window.
    pub skip: AtomicU64,
    /// Instructions of a window; `u64::MAX`: all.
    pub sample: AtomicU64,
    /// Instructions between the beginnings of two windows; `u64::MAX`: one window only.
    pub period: AtomicU64,
    /// The recorder accepts no more entries.
    pub stop: AtomicU32,
    /// The plugin is loaded and has checked [`MAGIC`].
    pub attached: AtomicU32,
    /// The program ended by itself, and the last entries of all threads are complete.
    pub exited: AtomicU32,
    /// Threads so far: the number of the next stream.
    pub threads: AtomicU32,
    /// Threads that found no free slot.
    pub lost_threads: AtomicU32,
    /// Calls of fork and vfork, and of clone without a thread.
    pub forks: AtomicU32,
    /// Calls of execve and execveat in the program itself.
    pub execs: AtomicU32,
}

/// The slot has no owner.
pub const FREE: u32 = 0;
/// A thread of the program writes to it.
pub const LIVE: u32 = 1;
/// The thread has ended; the recorder reads the remaining entries, then frees the slot.
pub const ENDED: u32 = 2;

/// State of one thread.
#[repr(C, align(4096))]
pub struct Slot {
    /// [`FREE`], [`LIVE`] or [`ENDED`].
    pub state: AtomicU32,
    /// Number of the thread's stream.
    pub stream: AtomicU32,
    /// Instructions that the thread has begun.
    pub position: AtomicU64,
    /// Entries written so far.
    pub head: Apart<AtomicU64>,
    /// Entries read so far.
    pub tail: Apart<AtomicU64>,
    /// The entries; number `i` is at `i` modulo [`RING`].
    pub ring: Ring,
}

/// Places a value on a separate cache line.
#[repr(C, align(128))]
pub struct Apart<T>(pub T);

/// The entries, page-aligned.
#[repr(C, align(4096))]
pub struct Ring(pub [[AtomicU64; 2]; RING]);

/// Second word of an entry, from bit 0: gap (32), bytes (8), kind (2), depends (1), shares (1). The first is the address.
pub const BYTES_SHIFT: u32 = 32;
/// Kind 3 is no reference: the first word is a position.
pub const KIND_SHIFT: u32 = 40;
/// The address needs the value of the previous load.
pub const DEPENDS: u64 = 1 << 42;
/// The entry belongs to the same instruction as the previous entry.
pub const SHARES: u64 = 1 << 43;
/// A window begins at the position in the first word.
pub const WINDOW_BEGINS: u64 = 3 << KIND_SHIFT;
/// A window ends before the position in the first word.
pub const WINDOW_ENDS: u64 = 3 << KIND_SHIFT | 1;
