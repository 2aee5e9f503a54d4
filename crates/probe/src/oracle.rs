//! Oracles, which time accesses to memory.

use crate::pool::{Pool, PoolError};
use memtint_units::PhysAddr;

/// Times accesses to memory; the only source of information of a probe.
///
/// Readings are in *ticks* of an arbitrary clock: only their comparison matters.
pub trait Oracle {
    /// Returns the memory that may be accessed.
    fn pool(&self) -> &Pool;

    /// Accesses some addresses in turn, repeatedly and uncached, and returns the time of each access: addresses times
    /// rounds readings, round by round. The first readings of a call are as valid as the last.
    ///
    /// # Errors
    /// [`OracleError`] when an address is not in the pool or the machine cannot do it.
    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError>;

    /// Returns the time of each access to some addresses in turn while another core accesses others in turn; `None`
    /// from a machine without another available core.
    ///
    /// # Errors
    /// As [`Oracle::time`].
    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError>;

    /// Returns the most readers of [`Oracle::together`]; 0 if the machine does not support it.
    fn readers(&self) -> u32 {
        0
    }

    /// Makes readers (cores, or a model of them) read some addresses as fast as possible: uncached, and with as many
    /// independent reads in flight as a reader supports. Of `readers` readers, the first repeatedly reads the first
    /// address and each `readers`-th after it, the second those that follow them, and so on. Returns the time of the
    /// first reader for its share, from the beginning of its first read to the end of its last: `rounds` readings.
    /// `None` if the machine does not support this number of readers.
    ///
    /// # Errors
    /// As [`Oracle::time`].
    fn together(&mut self, addresses: &[PhysAddr], readers: u32, rounds: u32) -> Result<Option<Vec<u32>>, OracleError> {
        let _ = (addresses, readers, rounds);
        Ok(None)
    }
}

impl<O: Oracle + ?Sized> Oracle for &mut O {
    fn pool(&self) -> &Pool {
        (**self).pool()
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        (**self).time(addresses, rounds)
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        (**self).time_beside(addresses, others, rounds)
    }

    fn readers(&self) -> u32 {
        (**self).readers()
    }

    fn together(&mut self, addresses: &[PhysAddr], readers: u32, rounds: u32) -> Result<Option<Vec<u32>>, OracleError> {
        (**self).together(addresses, readers, rounds)
    }
}

/// The reason why an oracle fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OracleError {
    /// An address is not in the pool.
    #[error("address {found:#x} was to be timed; accepted are addresses of the pool")]
    Outside {
        /// The address.
        found: u64,
    },
    /// Its memory does not form a pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A log contains another request, or none.
    #[error("{log}: line {line}: {found}; the probe asked for {asked}")]
    Replay {
        /// Name of the log.
        log: String,
        /// Line, from 1.
        line: usize,
        /// The request in the log.
        found: String,
        /// The request of the probe.
        asked: String,
    },
    /// A text that is not a valid log.
    #[error("{log}: line {line}: {found:?} found; accepted is {accepted}")]
    Log {
        /// Name of the log.
        log: String,
        /// Line, from 1.
        line: usize,
        /// The text found.
        found: String,
        /// The text accepted.
        accepted: &'static str,
    },
    /// The machine or a file failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The machine cannot be timed, or no longer.
    #[error(transparent)]
    Machine(Box<dyn std::error::Error + Send + Sync>),
}
