//! Refresh hidden behind task scheduling: no task runs while the memory that it uses is refreshed.
//!
//! What it is for: the mathematics of two published systems. In Colored Refresh ([`cyclic`]) a cyclic executive gives each
//! frame the refresh of one color of ranks, and runs tasks of the others in it. With Colored Refresh Servers ([`crs`]) each
//! group of ranks has a periodic server, and the lock of the group, which is a task too, goes before its tasks. Both are judged,
//! searched for and proved here, and each yes comes with a table or a timeline that a checker accepts.
//!
//! What it deliberately does not do: it never looks at a simulation; it reads no files and prints nothing.
//!
//! Types to know: [`crs::System`] and [`crs::judge`](crs::judge()); [`cyclic::Problem`] and [`cyclic::color`].
#![forbid(unsafe_code)]

pub mod crs;
pub mod cyclic;
mod error;

pub use error::HidingError;

/// What JEDEC says of refresh in bursts, for every verb that plans, simulates or analyzes it (JESD79-3F, refresh command: REF in 64 ms,
/// and REF that may be postponed).
pub const BEYOND_STANDARD: &str = "all 8192 REF commands of a retention time come in one burst, and JEDEC accepts at most 8 postponed (JESD79-3F); \
     a controller within the standard does not do this, and devices are not specified for it";
