//! From a system file to the answer whether its tasks meet their deadlines.
//!
//! A file becomes a [`TaskSystem`], checked once, which refresh simulation and regenerated figures use too. A
//! [`Question`] about it has one driver, [`answer`], one set of limits, and a [`Report`]: the answer, its theorem,
//! assumptions and numbers, and a schedule as its witness.
//!
//! This crate deliberately opens no files and prints nothing. Requirements of one analysis beyond a valid file
//! (servers, for instance) are checked where the system becomes its input.
//!
//! Types to know: [`TaskSystem`], which [`TaskSystem::problem`] and [`TaskSystem::system`] turn into the input of
//! `hiding`, and `to_string` into a system file again, completed with the results; [`Question`], [`Report`], and
//! [`AnalysisReport`] for programs.
//!
//! ```
//! use memtint_analysis::TaskSystem;
//!
//! let text = "[[task]]\nname = \"lms\"\nperiod = \"20 ms\"\nwcet = \"4.5 ms\"\nranks = 2\n";
//! let file = TaskSystem::parse("lms.toml", text)?;
//! assert_eq!(file.tasks[0].ranks, 2);
//! let error = TaskSystem::parse("lms.toml", &text.replace("4.5 ms", "4.5")).unwrap_err().to_string();
//! assert!(error.starts_with("lms.toml: task \"lms\": wcet is \"4.5\"; accepted is a text with a number and its unit"));
//! # Ok::<(), memtint_system::SystemError>(())
//! ```
#![forbid(unsafe_code)]

mod ask;
mod banks;
mod cores;
mod cyclic;
mod error;
pub mod output;
mod priority;
mod problem;
mod refresh;
mod report;
mod servers;
mod tasks;
mod words;

pub use ask::{Question, Scheduler, WITNESS_JOBS_MAX, answer};
pub use cores::{Analyzable, OneCore, analyzable, enter_neighbours, on_core, one_core};
pub use cyclic::{Tried, search_limits, try_frames, unanswered};
pub use error::AnalysisError;
pub use output::AnalysisReport;
pub use refresh::{Color, Cyclic, Inside, MemorySpec, ServerSpec};
pub use report::{Answer, Arrivals, Band, Chart, Findings, Lane, Line, Refusal, Report, Row, Run, Section};
pub use servers::without_servers;
pub use tasks::{TaskDetails, TaskSystem};
