//! The bandwidth that memory guarantees, and the effect of a bandwidth budget on a program.
//!
//! [`guarantee()`] calculates r_min, the bandwidth of the worst pattern of requests, and simulates a channel under that pattern. A
//! [`Profile`] of a program that runs alone gives its run time under a budget: [`Profile::predict`].
//!
//! Not here: regulation itself, which is a state machine in `memtint_guard` and runs in `memtint_regulator`, and bounds for task sets,
//! which are in `memtint_analysis`.
//!
//! ```
//! use memtint_bandwidth::{Channel, guarantee};
//! use memtint_map::Platform;
//! use memtint_units::Picoseconds;
//!
//! let channel = Channel { device: Some("ddr2-800".to_owned()), density_gbit: None, refresh: "none".to_owned() };
//! let report = guarantee(&Platform::load("core2quad-8400")?, &channel, Picoseconds(1_000_000_000))?;
//! assert!(report.is_served());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod guarantee;
mod predict;

pub use guarantee::{Channel, GuaranteeError, GuaranteeReport, PatternReport, PeriodReport, SlidesReport, guarantee};
pub use predict::{Budgeted, PredictError, Prediction, Profile};
