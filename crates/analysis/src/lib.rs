//! From a system file to the answer whether its tasks meet their deadlines.
//!
//! What it is for: a file becomes a [`TaskSystem`], checked once, which refresh simulation and regenerated figures take too.
//! A [`Question`] about it has one driver, [`answer`], one set of limits, and a [`Report`]: the answer, by which theorem,
//! under which assumptions, with which numbers, and a schedule as its witness.
//!
//! What it deliberately does not do: it opens no files and prints nothing. What one analysis needs beyond a
//! valid file (servers, for instance) is checked where the system becomes its input.
//!
//! Types to know: [`TaskSystem`], which [`TaskSystem::problem`] and [`TaskSystem::system`] turn into what `hiding` judges, and
//! `to_string` into a system file again, with what was found filled in; [`Question`], [`Report`], and
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
