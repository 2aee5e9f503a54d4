//! Refresh hidden behind task scheduling: no task runs while the memory that it uses is refreshed.
//!
//! This crate has the mathematics of two published systems. In Colored Refresh ([`cyclic`]) a cyclic executive
//! refreshes one color of ranks in each frame, and runs tasks of the other colors in it. With Colored Refresh Servers
//! ([`crs`]) each group of ranks has a periodic server, and the lock of the group, which is a task too, precedes its
//! tasks. The crate analyzes both, searches for configurations, and proves them; each yes comes with a table or a
//! timeline that a checker accepts.
//!
//! It deliberately uses no simulation, reads no files and prints nothing.
//!
//! Types to know: [`crs::System`] and [`crs::judge`](crs::judge()); [`cyclic::Problem`] and [`cyclic::color`].
#![forbid(unsafe_code)]

pub mod crs;
pub mod cyclic;
mod error;

pub use error::HidingError;

/// The limit of JEDEC on refresh in bursts, for every verb that plans, simulates or analyzes it (JESD79-3F, refresh
/// command: REF in 64 ms, and REF that may be postponed).
pub const BEYOND_STANDARD: &str = "all 8192 REF commands of a retention time come in one burst, and JEDEC accepts at most 8 postponed (JESD79-3F); \
     a controller within the standard does not do this, and devices are not specified for it";
