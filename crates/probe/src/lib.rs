//! Discovery of a machine's DRAM mapping from access times.
//!
//! Alternating accesses to two addresses in one bank and different rows are slower than any others. From that alone,
//! without vendor documentation, this crate finds the functions of address bits that select a bank, even on noisy
//! machines, and with address ranges that are remapped or interleaved over three channels. The result is a mapping with
//! a stated confidence, or the reason why there is none.
//!
//! The crate touches no machine. Readings come from an [`Oracle`]: the real machine (in another crate), a
//! [`SimulatedMachine`] with the mapping of a platform file and [`Noise`], or a [log](Log).
//!
//! [`probe()`] performs a complete probe. A [`Tester`] decides whether a difference of addresses conflicts, with a
//! stated error probability and at a different place each time. [`survey`] finds the levels that identify conflicts;
//! [`solve()`] finds the functions under a [`View`]; [`verify()`] tests their predictions everywhere in the pool.
//! Mappings that no memory has are refused. [`roles()`] determines what functions select, where concurrent reads of
//! several cores show it. [`session`] probes a whole machine, including caches and nodes, and contains the report.
//!
//! Types to know: [`Oracle`], [`Pool`], [`Report`], [`View`], [`Solution`].
//!
//! ```
//! use memtint_map::Platform;
//! use memtint_probe::{Answer, Noise, Pool, Settings, SimulatedMachine, probe};
//!
//! let platform = Platform::load("haswell-e3-1230")?;
//! let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64)?;
//! let mut machine = SimulatedMachine::new(platform, pool, Noise::QUIET, 1)?;
//! let report = probe(&mut machine, &Settings::default(), &mut |_| {})?;
//! let Answer::Mapping(mapping) = report.answer else { panic!("a quiet machine") };
//! assert_eq!(mapping.areas[0].solution.functions.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod baseline;
pub mod cache;
pub mod session;

mod blocks;
mod channels;
mod controller;
mod controls;
mod discover;
mod judge;
mod levels;
mod log;
mod noise;
mod oracle;
mod pool;
mod report;
mod roles;
mod shift;
mod simulated;
mod solve;
mod tester;
mod verify;
mod view;

pub use controller::{ControllerMachine, Surroundings};
pub use discover::probe;
pub use judge::{Verdict, judge};
pub use levels::{Candidate, Landscape, survey};
pub use log::{Log, LogPart, Recorder, Replay, begin_log};
pub use noise::{Noise, NoiseLevel};
pub use oracle::{Oracle, OracleError};
pub use pool::{LINE, Pool, PoolError};
pub use report::{Answer, Area, Attempt, Mapping, Missing, Refusal, Report, Settings, Step};
pub use roles::{Compared, Level, Roles, Untold, roles};
pub use shift::{Shift, shift};
pub use simulated::{ASSUMED_ROW_BIT, SimulatedMachine};
pub use solve::{Solution, Unsolved, solve};
pub use tester::{Decision, Effort, Levels, Shifted, Target, Tested, Tester};
pub use verify::{Rate, Verification, verify};
pub use view::{Inside, Part, View};
