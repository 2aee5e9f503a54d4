//! Why there are no reports, no status and no metrics.

use std::io;
use std::path::PathBuf;

use memtint_regulator::RegulatorError;
use thiserror::Error;

/// Everything that goes wrong beside the regulation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The regulator, or the list of CPUs.
    #[error(transparent)]
    Regulator(#[from] RegulatorError),
    /// The status file.
    #[error("{path:?}: cannot be {done}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        done: &'static str,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// There are no files about processes.
    #[error("/proc is not mounted")]
    NoProc,
    /// A regulator that does not report.
    #[error("the running memtint guard (process {process}) has not reported for 10 s")]
    Silent {
        /// Its process.
        process: u32,
    },
    /// Numbers cannot be served.
    #[error("--metrics: {address}: {reason}")]
    Metrics {
        /// Where.
        address: String,
        /// Why.
        reason: String,
    },
}
