//! Times accesses to this machine's memory: the oracle for a probe of the machine that it runs on.
//!
//! A [`Stopwatch`] allocates memory in the largest available pages, reads its physical addresses from the kernel, and
//! times uncached reads on one CPU. It changes nothing else and draws no conclusions from its readings. Physical
//! addresses need root; without them, only the address bits within a huge page are known. It also measures whether a
//! line is still in a cache after reads of other lines ([`memtint_probe::cache::CacheOracle`]); a [`NodeMachine`] times
//! reads of every node's memory. [`this_machine()`] opens both for a whole probe, with the machine's properties from
//! `memtint_detect`.
//!
//! Supports x86-64 (`clflush`, `rdtscp`) and aarch64 (`dc civac`, `cntvct_el0`); other processors are refused.
//!
//! ```no_run
//! use memtint_probe::Oracle as _;
//! use memtint_stopwatch::Stopwatch;
//! use memtint_units::ByteSize;
//!
//! let mut machine = Stopwatch::open(Some(ByteSize::mib(64)))?;
//! let line = machine.pool().pieces().next().expect("a pool is not empty").start;
//! println!("{:?}", machine.time(&[line], 10)?);
//! machine.check_places()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod cpus;
mod error;
mod machine;
mod memory;
mod nodes;
mod pagemap;
mod places;
mod this_machine;

pub use error::StopwatchError;
pub use machine::Stopwatch;
pub use nodes::NodeMachine;
pub use this_machine::this_machine;
