//! Task sets on a simulated machine whose memory is refreshed: analysis and simulation, side by side.
//!
//! `sched` proves, `sim` shows, and neither sees the other; this room sees both. Its tests hold every simulated response
//! against its bound.
#![forbid(unsafe_code)]
