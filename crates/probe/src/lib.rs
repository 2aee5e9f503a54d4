//! Discovery of a machine's DRAM mapping from the time that accesses take.
//!
//! What it is for: two addresses of one bank and different rows are slower, accessed in turn, than any others. From that alone,
//! and without a vendor's word, the functions of address bits that select a bank can be found, on machines that are noisy, and with
//! address ranges that are moved or dealt out over three channels. What is found is right, or the probe says why it cannot be.
//!
//! What it deliberately does not do: it touches no machine. Readings come from an [`Oracle`]: the machine (elsewhere), a
//! [`SimulatedMachine`] with the mapping of a platform file and [`Noise`], or a [log](Replay).
//!
//! So far: a [`Tester`] decides whether a difference of addresses conflicts, with a stated error probability and each time somewhere
//! else; [`survey`] finds the levels to tell conflicts by; [`solve()`] finds the functions under a [`View`] that is given, verifies them,
//! and refuses what no memory looks like. Finding the view (moved ranges, three channels), roles, and the real machine are to come.
//!
//! Types to know: [`Oracle`], [`Pool`], [`View`], [`Solution`].
//!
//! ```
//! use memtint_map::Platform;
//! use memtint_probe::{Noise, Pool, SimulatedMachine, Tester, View, solve, survey};
//!
//! let platform = Platform::load("haswell-e3-1230")?;
//! let pool = Pool::new(platform.regions().iter().map(|region| region.base..region.end()), 64)?;
//! let mut machine = SimulatedMachine::new(platform, pool, Noise::QUIET, 1)?;
//! let mut tester = Tester::new(&mut machine, 1, 1e-5)?;
//! let land = survey(&mut tester, &View::plain(), 32, 6)?;
//! let slow: Vec<u64> = land.above(&land.splits[0]).collect();
//! let solution = solve(&mut tester, &View::plain(), land.splits[0], &slow, 6, 32)?.expect("a quiet machine");
//! assert_eq!(solution.functions.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod levels;
mod log;
mod oracle;
mod pool;
mod random;
mod simulated;
mod solve;
mod tester;
mod view;

pub use levels::{Candidate, Landscape, survey};
pub use log::{Recorder, Replay};
pub use oracle::{Oracle, OracleError};
pub use pool::{LINE, Pool, PoolError};
pub use random::Random;
pub use simulated::{Noise, SimulatedMachine};
pub use solve::{Solution, Unsolved, solve};
pub use tester::{Decision, Effort, Levels, Tester};
pub use view::{Inside, Part, View};
