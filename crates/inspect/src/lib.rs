//! An observer of the pages of a process, from outside.
//!
//! Reads `/proc/PID/{maps,pagemap,status}`, `/proc/kpageflags` and `/proc/kpagecount`, and judges each page's frame by the platform's
//! palette. It shares no code with the runtime that colors programs, relies on none of its reports, and changes nothing. It does not sample
//! over time (inspect again for that), and does not explain *why* a page is in a frame beyond the kernel's flags.
//!
//! The types to know: [`Inspector`] reads pages, [`Report`] has the result, [`Verdict`] is the short form.
//!
//! ```no_run
//! use memtint_inspect::Inspector;
//! use memtint_map::{Granule, Palette, Platform};
//!
//! let platform = Platform::load("nehalem-w3530")?;
//! let palette = Palette::new(&platform, Granule::PAGE)?;
//! let inspector = Inspector::new(palette, None)?;
//! let report = inspector.inspect_pid(1)?;
//! println!("{}", report.to_text());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cgroup;
mod error;
mod frames;
mod inspector;
mod maps;
mod merge;
mod others;
mod pool;
mod report;
mod sharing;
mod sys;
mod system;
mod text;
mod tree;
mod walk;

pub use cgroup::cgroup_pids;
pub use error::InspectError;
pub use inspector::Inspector;
pub use maps::SegmentKind;
pub use others::{OtherProcess, Others};
pub use pool::POOL_ADDRESSES;
pub use report::*;
pub use system::{SystemReport, TaskReport};
pub use tree::ProcessTree;
