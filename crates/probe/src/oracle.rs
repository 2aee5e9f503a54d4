//! What can be asked of a machine.

use crate::pool::{Pool, PoolError};
use memtint_units::PhysAddr;

/// Times accesses to memory. Everything a probe knows of a machine comes through here.
///
/// A reading is in *ticks*, whatever the clock counts: only their comparison with each other matters.
pub trait Oracle {
    /// Gives the memory that may be accessed.
    fn pool(&self) -> &Pool;

    /// Accesses some addresses in turn, over and over, none of them from a cache, and gives the time of each access: as
    /// many readings as addresses times rounds, round by round. The first readings of a call are as good as the last.
    ///
    /// # Errors
    /// [`OracleError`] when an address is not in the pool or the machine cannot do it.
    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError>;

    /// Gives the time of each access to some addresses in turn while another core accesses others in turn; `None` from a
    /// machine that has no other core to spare.
    ///
    /// # Errors
    /// As [`Oracle::time`].
    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError>;

    /// Gives the most readers that [`Oracle::together`] can have; 0 from a machine that cannot do it.
    fn readers(&self) -> u32 {
        0
    }

    /// Has readers, which are cores or work like them, read some addresses as fast as they can: as many at a time as a reader has
    /// under way, none of them from a cache, none of them waiting for another. Of `readers` readers the first reads the first address
    /// and each `readers`-th after it, the second those that follow them, and so on, all over and over. Gives the time that the first
    /// needs for its share, from the begin of its first read to the end of its last: `rounds` readings. `None` from a machine that
    /// cannot do it with so many.
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

/// Tells why an oracle does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OracleError {
    /// An address is not in the pool.
    #[error("address {found:#x} was to be timed; accepted are addresses of the pool")]
    Outside {
        /// The address.
        found: u64,
    },
    /// Its memory is no pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A log holds another question, or none.
    #[error("{log}: line {line}: {found}; the probe asked for {asked}")]
    Replay {
        /// Name of the log.
        log: String,
        /// Line, from 1.
        line: usize,
        /// What the log holds.
        found: String,
        /// What was asked.
        asked: String,
    },
    /// A log is none.
    #[error("{log}: line {line}: {found:?} found; accepted is {accepted}")]
    Log {
        /// Name of the log.
        log: String,
        /// Line, from 1.
        line: usize,
        /// What it holds.
        found: String,
        /// What it could hold.
        accepted: &'static str,
    },
    /// The machine or a file failed.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The machine cannot be timed, or no longer.
    #[error(transparent)]
    Machine(Box<dyn std::error::Error + Send + Sync>),
}
