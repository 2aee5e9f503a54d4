//! Times accesses to this machine's memory: the oracle for a probe of the machine that it runs on.
//!
//! A [`Stopwatch`] takes some memory, in the largest pages that can be had, asks the kernel at which physical addresses it lies, and
//! times reads that no cache answers, on one CPU. It changes nothing but that, needs root for the physical addresses, and without them
//! knows only the bits within a huge page. It draws no conclusion from its readings. It also tells whether a line is still in a cache
//! after others were read ([`memtint_probe::cache::CacheOracle`]); a [`NodeMachine`] times reads of every node's memory.
//! [`this_machine()`] opens both for a whole probe, with what `memtint_detect` reads of the machine.
//!
//! x86-64 (`clflush`, `rdtscp`) and aarch64 (`dc civac`, `cntvct_el0`); elsewhere it refuses.
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
