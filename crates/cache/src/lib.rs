//! The caches of a machine: their contents, and the accesses that reach memory.
//!
//! For every reference of every core, the model gives the level that serves it and the lines that go to memory. A
//! [`Hierarchy`] holds the tags of the private first and second levels and of the shared last level (sliced by a linear
//! hash, optionally one per node), with way masks, prefetchers, and counts of evictions between classes. Miss registers
//! ([`MshrFile`]) are separate.
//!
//! Limitations, by design:
//! - It models neither time nor data. Tags change at the moment of the access, before the line could have arrived; the
//!   caller adds [`Latencies`] and makes later misses of the line wait in the miss registers. Two accesses that would
//!   overlap on hardware are therefore ordered by the calls.
//! - Coherence is reduced to its effect on tags: a write invalidates the copies of others; a read of a line that is
//!   dirty elsewhere takes over the dirty state, and the former owner keeps a clean copy. There are no messages, and no
//!   directory that could be full. A core's instruction cache is not kept coherent with its data cache.
//! - Second levels are neither inclusive nor exclusive of the first: only dirty first-level victims reach them. A write
//!   back does not count as a use for replacement.
//! - Replacement is LRU, tree-PLRU or random at each level; the adaptive policies of recent last levels are not modelled.
//! - Every write miss fetches its line (write-allocate); there are no non-temporal stores and no write combining.
//!
//! ```
//! use memtint_cache::{AccessKind, Hierarchy, HierarchyConfig, Level, TaskClass};
//! use memtint_map::Platform;
//! use memtint_units::PhysAddr;
//!
//! let platform = Platform::load("p4080")?;
//! let mut caches = Hierarchy::new(&HierarchyConfig::from_platform(&platform, 4)?)?;
//! let task = TaskClass(0);
//! assert_eq!(caches.access(0, task, PhysAddr(0x1000), AccessKind::Read).level, Level::Memory);
//! assert_eq!(caches.access(0, task, PhysAddr(0x1008), AccessKind::Write).level, Level::L1);
//! // Another core reads data that the first one wrote: the line comes from there, not from memory.
//! assert_eq!(caches.access(1, task, PhysAddr(0x1000), AccessKind::Read).level, Level::Peer);
//! assert_eq!(caches.class_counts(task).hits(Level::Memory), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An access is a few array reads; after [`Hierarchy::new`], there are no allocations, hash tables or indirect calls.
//! `cargo bench -p memtint-cache` measures it.
#![forbid(unsafe_code)]

mod array;
mod config;
mod error;
mod hierarchy;
mod index;
mod mshr;
mod prefetch;
mod stats;
mod uarch;

pub use config::{
    CLASSES_MAX, CORES_MAX, CacheConfig, HierarchyConfig, Inclusion, Latencies, LlcConfig, PLRU_WAYS_MAX,
    PrefetchConfig, Replacement, StrideConfig, TaskClass, WAYS_MAX, WayMask,
};
pub use error::CacheError;
pub use hierarchy::{CacheId, Hierarchy, Lines, Outcome, WRITEBACKS_MAX};
pub use mshr::{MshrAnswer, MshrCounts, MshrFile};
pub use stats::{AccessCounts, AccessKind, CacheCounts, ColorCounts, Level, LlcCounts, PrefetchCounts};
