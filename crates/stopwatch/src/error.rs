//! Why a machine's memory cannot be timed.

use memtint_probe::PoolError;
use std::io;

/// Everything that keeps this machine from being an oracle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopwatchError {
    /// The processor has no way to throw a line out of its caches, or no clock.
    #[error("this processor lacks {lacking}; accepted are x86-64 with rdtscp, and aarch64")]
    Processor {
        /// What it lacks.
        lacking: &'static str,
    },
    /// The pool that was asked for is too small.
    #[error("a pool of {found} bytes was asked for; accepted is {least} or more")]
    Size {
        /// What was asked for.
        found: u64,
        /// What would do.
        least: u64,
    },
    /// The kernel gives no memory.
    #[error("{bytes} bytes of memory cannot be had: {source}")]
    Memory {
        /// What was asked of the kernel.
        bytes: u64,
        /// Its answer.
        source: io::Error,
    },
    /// Nothing is known of where memory lies.
    #[error(
        "the kernel hides physical addresses from this user, and gives no huge pages, within which some bits would be known; \
         accepted are CAP_SYS_ADMIN, for instance as root, or huge pages (vm.nr_hugepages)"
    )]
    Hidden,
    /// What the kernel says of where memory lies makes no sense.
    #[error("/proc/self/pagemap: {0}")]
    Pool(#[from] PoolError),
    /// Memory does not lie any more where it lay.
    #[error(
        "the page at {address:#x} has moved during the run: what was measured there since belongs to another address; accepted \
         are pages that stay (vm.compact_unevictable_allowed=0 and kernel.numa_balancing=0 keep the kernel from moving them)"
    )]
    Moved {
        /// Its physical address at the beginning.
        address: u64,
    },
    /// A line that was thrown out of the caches is as fast as one that was not.
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
    /// The system refuses something.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
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
