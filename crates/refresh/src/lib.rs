//! Task sets on a simulated machine whose memory is refreshed: analysis and simulation, side by side.
//!
//! `sched` analyzes, `sim` simulates, and neither depends on the other; this crate uses both. It turns a system file
//! and a [`Scheme`] into a schedule and a scenario, simulates it on the [machine](Hardware) of the dissertation, and
//! holds every response against the bound that the analysis of the same scheme gives.
//!
//! It deliberately decides no question of schedulability itself, and opens no files.
//!
//! ```
//! use memtint_refresh::{Options, Prepared, Scheme};
//! use memtint_analysis::TaskSystem;
//!
//! let text = "[memory]\nranks = 2\ndensity = 1\n\
//!             [[task]]\nname = \"control\"\nperiod = \"1 ms\"\nwcet = \"100 us\"\nlines = 500\n";
//! let file = TaskSystem::parse("control.toml", text)?;
//! let prepared = Prepared::new(&file, Options::default(), 1, &|_| true)?;
//! let outcome = prepared.simulate(Scheme::Auto, &|_| true)?;
//! assert!(outcome.holds() && outcome.tasks[0].within() == Some(true));
//! assert!(outcome.requests_met() > 0, "the controller does not ask");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bound;
mod colored;
mod compare;
mod considered;
mod error;
mod job;
mod machine;
mod outcome;
pub mod output;
mod scenario;
mod scheme;
mod simulate;
mod watch;

pub use bound::Bound;
pub use compare::{Cell, Comparison, compare};
pub use considered::unused;
pub use error::RefreshError;
pub use job::{Executed, Job};
pub use machine::{Caches, Hardware, gigabits, refresh_of};
pub use outcome::{Locked, Met, Outcome, Spread, TaskOutcome};
pub use output::{CompareReport, SimulateReport, short};
pub use scheme::Scheme;
pub use simulate::{GoOn, Options, Prepared};
pub use watch::Refreshed;
