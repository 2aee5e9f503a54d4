//! A complete probe of a machine: banks, then the last-level cache, then nodes, with one report.
//!
//! A [`Request`] lists the parts to probe and all other parameters of the measurements. A [`Source`] provides the
//! readings: this machine, a simulated one, or a recording. [`Source::run`] performs all measurements and returns an
//! [`Outcome`]; [`Outcome::report`] is its serializable form. A recording source writes the request and the facts of
//! the machine into the log, so that a repetition gives the same report and the same platform files.
//!
//! ```
//! use memtint_map::Platform;
//! use memtint_probe::NoiseLevel;
//! use memtint_probe::session::{LogPart, Request, Source};
//!
//! let request = Request { parts: vec![LogPart::Dram], ..Request::default() };
//! let outcome = Source::simulated(request, Platform::load("rpi4-2g")?, NoiseLevel::Quiet)?.run(&mut |_| {})?;
//! assert!(outcome.is_found());
//! assert_eq!(outcome.platform_files("my-board", "an example")?.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod area;
mod banks;
mod caches;
mod error;
mod files;
mod nodes;
mod outcome;
mod published;
mod request;
mod roles;
mod seen;
mod self_test;
mod source;
mod subject;

pub use crate::log::LogPart;
pub use area::{
    AreaReport, ComparedReport, FunctionReport, LevelReport, PartReport, RoleReport, RolesReport, ShiftReport,
};
pub use banks::{
    AttemptReport, Banks, BanksAnswer, BanksReport, EffortReport, LeastReport, PoolReport, ReadingsReport,
};
pub use caches::{Caches, CachesAnswer, CachesReport};
pub use error::SessionError;
pub use nodes::{LatencyReport, Nodes, NodesAnswer, NodesReport, OrderReport};
pub use outcome::{Outcome, SessionReport};
pub use published::{Published, PublishedReport};
pub use request::{Algorithm, Request, is_confidence};
pub use roles::{SHIFTING, bit_list, is_told, selects, xor};
pub use seen::{Quartiles, Seen, median};
pub use self_test::{SelfTest, SelfTestReport, SelfTestRow};
pub use source::{LocalMemory, Source, ThisMachine};
pub use subject::{Facts, MemoryFacts, ProcessorFacts, Subject, SubjectReport};
