//! Why a machine's memory cannot be timed.

use memtint_probe::PoolError;
use std::io;

/// The reason why this machine's memory cannot be timed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopwatchError {
    /// The processor has no instruction that flushes a line from its caches, or no clock.
    #[error("this processor lacks {lacking}; accepted are x86-64 with rdtscp, and aarch64")]
    Processor {
        /// The missing feature.
        lacking: &'static str,
    },
    /// The requested pool is too small.
    #[error("a pool of {found} bytes was asked for; accepted is {least} or more")]
    Size {
        /// Requested bytes.
        found: u64,
        /// The smallest accepted pool, in bytes.
        least: u64,
    },
    /// The kernel provides no memory.
    #[error("{bytes} bytes of memory cannot be had: {source}")]
    Memory {
        /// Requested bytes.
        bytes: u64,
        /// Its answer.
        source: io::Error,
    },
    /// Physical addresses are unknown.
    #[error(
        "the kernel hides physical addresses from this user, and gives no huge pages, within which some bits would be known; \
         accepted are CAP_SYS_ADMIN, for instance as root, or huge pages (vm.nr_hugepages)"
    )]
    Hidden,
    /// The frame numbers from the kernel are inconsistent.
    #[error("/proc/self/pagemap: {0}")]
    Pool(#[from] PoolError),
    /// Memory has moved to another physical address.
    #[error(
        "the page at {address:#x} has moved during the run: measurements there since belong to another address; accepted \
         are pages that stay (vm.compact_unevictable_allowed=0 and kernel.numa_balancing=0 keep the kernel from moving them)"
    )]
    Moved {
        /// Its physical address at the beginning.
        address: u64,
    },
    /// Reads of a flushed line are as fast as reads of a cached one.
    #[error(
        "flushing lines has no effect here: a quarter of the reads of flushed lines take {flushed} ticks or less, a quarter of \
         those of cached lines {cached} or more; accepted is a machine on which they differ"
    )]
    FlushIgnored {
        /// Lower quartile of reads after a flush.
        flushed: u32,
        /// Upper quartile of reads without.
        cached: u32,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl StopwatchError {
    pub(crate) fn io(what: &str, source: io::Error) -> StopwatchError {
        StopwatchError::Io { what: what.to_owned(), source }
    }
}
