//! Discovery of a machine's DRAM mapping from the time that accesses take.
//!
//! What it is for: two addresses of one bank and different rows are slower, accessed in turn, than any others. From that alone,
//! and without a vendor's word, the functions of address bits that select a bank can be found, on machines that are noisy, and with
//! address ranges that are moved or dealt out over three channels. What is found is right, or the probe says why it cannot be.
//!
//! What it deliberately does not do: it touches no machine. Readings come from an [`Oracle`]: the machine (elsewhere), a
//! [`SimulatedMachine`] with the mapping of a platform file and [`Noise`], or a [log](Log).
//!
//! [`probe()`] does the whole of it. A [`Tester`] decides whether a difference of addresses conflicts, with a stated error probability
//! and each time somewhere else; [`survey`] finds the levels to tell conflicts by; [`solve()`] finds the functions under a
//! [`View`]; [`verify()`] tries what they predict, everywhere in the pool. What no memory looks like is refused. [`roles()`] tells
//! what functions select, where cores that read together show it. [`session`] probes a whole machine, caches and nodes included, and has
//! the report.
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
