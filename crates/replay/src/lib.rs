//! Requests of one DRAM channel, for [`memtint_dram::replay`]: where they come from, and where their addresses lie.
//!
//! A [`Trace`] is synthetic or a file; a [`Mapping`] takes its addresses apart; a [`Feed`] gives the requests of one channel, one at a
//! time. [`ReplayRequest::run`] does all of it for a channel that is described by names, and [`check()`] checks a file of commands;
//! both have a typed report.
//!
//! ```
//! use memtint_dram::{Controller, ControllerConfig, DeviceChoice, Standard, replay::replay_timed};
//! use memtint_replay::{Feed, MATCHED, Mapping, Pace, SEED, Shape, Trace};
//!
//! let device = Standard::load("ddr3-1600")?.device(DeviceChoice::default())?;
//! let (mapping, geometry) = Mapping::named(MATCHED, 0, None, &device)?;
//! let trace = Trace::synthetic(Shape::Stream, SEED, 0, &mapping, &geometry);
//! let mut feed = Feed::new(trace, &mapping, Pace { requests: Some(1000), period: None });
//! let mut controller = Controller::new(geometry, device.timing, ControllerConfig::default())?;
//! let stats = replay_timed(&mut controller, feed.by_ref());
//! assert_eq!((stats.requests, feed.failure().is_none()), (1000, true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod channel;
mod check;
mod error;
mod feed;
mod mapping;
mod report;
mod requests;
mod session;

pub use channel::{Channel, ChannelRequest};
pub use check::{Checked, check};
pub use error::ReplayError;
pub use feed::{Feed, Pace, Trace};
pub use mapping::{Found, MATCHED, Mapping, Matched, Spot};
pub use report::{CheckReport, ReplayReport};
pub use requests::{Access, SEED, Shape, Synthetic, TraceFile};
pub use session::{DEFAULT_REQUESTS, ReplayRequest, Replayed};
