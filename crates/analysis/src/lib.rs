//! From a system file to what the analyses judge: tasks, what delays their core, and how their memory is refreshed.
//!
//! What it is for: analysis, refresh simulation and regenerated figures take [`TaskSystem`], checked once.
//!
//! What it deliberately does not do: it opens no files and answers nothing. What one analysis needs beyond a
//! valid file (servers, for instance) is checked where the system becomes its input.
//!
//! Types to know: [`TaskSystem`], which [`TaskSystem::problem`] and [`TaskSystem::system`] turn into what `sched` judges, and
//! `to_string` into a system file again, with what was found filled in.
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

mod banks;
mod cores;
mod problem;
mod refresh;
mod tasks;

pub use cores::on_core;
pub use refresh::{Color, Cyclic, Inside, Memory, ServerSpec};
pub use tasks::{TaskDetails, TaskSystem};
