//! The caches of a machine: what is in them, and which accesses reach memory.
//!
//! What it is for: a simulator asks, for every reference of every core, who answers and what goes to memory. A
//! [`Hierarchy`] holds the tags of the private first and second levels and of the shared last level (sliced by a linear
//! hash, one for each node if need be), with way masks, prefetchers, and counts of who evicted whom. Miss registers
//! ([`MshrFile`]) stand beside it.
//!
//! What it deliberately does not do:
//! - It has no time and no data. Tags change at the moment of the access, before the line could have arrived; the caller
//!   adds [`Latencies`] and lets later misses of the line wait in the miss registers. Two accesses that would overlap on
//!   hardware are therefore ordered by the calls.
//! - Coherence is reduced to its effect on tags: a write takes the copies of others away; a read of a line that is dirty
//!   elsewhere takes the dirt along, and the former owner keeps a clean copy. No messages, no directory that could be
//!   full. A core's own instruction cache is not kept coherent with its data cache.
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
//! // Another core reads what the first one wrote: it comes from there, not from memory.
//! assert_eq!(caches.access(1, task, PhysAddr(0x1000), AccessKind::Read).level, Level::Peer);
//! assert_eq!(caches.class_counts(task).hits(Level::Memory), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Speed: an access is a few array reads; nothing is allocated, hashed or called through a pointer after
//! [`Hierarchy::new`]. `cargo bench -p memtint-cache` measures it.
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
