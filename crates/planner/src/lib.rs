//! Finds the best plan for tasks whose memory is refreshed by software: frames and colors of a table, or servers on
//! cores.
//!
//! A file describes tasks and memory; a search fills in the missing values. The plan names the space that was searched,
//! and states whether it is proved to be the best in that space.
//!
//! The crate opens no files, prints nothing, and does not judge plans. A plan is an ordinary system file, which
//! [`answer`](memtint_analysis::answer()) judges from scratch.
//!
//! Types to know: [`Plan`], with [`Why`]; [`best_frames`] for Colored Refresh, [`find_servers`] for Colored Refresh
//! Servers; and [`divide`], which gives even shares of CPUs and colors as a starting point, without a search.
//!
//! ```
//! use memtint_analysis::{Answer, Question, Scheduler, TaskSystem, answer};
//! use memtint_planner::{Wanted, find_servers};
//! use memtint_sched::AnalysisLimits;
//!
//! let text = "[memory]\nranks = 2\ndensity = 1\n\
//!             [[task]]\nname = \"control\"\nperiod = \"16 ms\"\nwcet = \"2 ms\"\n\
//!             [[task]]\nname = \"vision\"\nperiod = \"32 ms\"\nwcet = \"8 ms\"\n";
//! let file = TaskSystem::parse("tasks.toml", text)?;
//! let plan = find_servers(&file, &Wanted::default(), AnalysisLimits::default(), &|_| {})??;
//! assert_eq!(plan.file.servers.len(), 2);
//! let report = answer(&Question::new(&plan.file, Scheduler::Crs))?;
//! assert!(matches!(report.answer, Answer::Yes), "what was planned is proved again");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod copies;
mod error;
mod frames;
mod report;
mod servers;
mod share;
mod why;

use memtint_analysis::{Answer, Line, Question, Report, Scheduler, TaskSystem, without_servers};
use memtint_sched::Form;

pub use error::{NoServers, PlanError};
pub use frames::{FramePlan, FrameTried, Said, best_frames};
pub use report::PlanReport;
pub use servers::{Wanted, find_servers};
pub use share::{CPUS_MAX, Division, Share, ShareError, divide};
pub use why::{FramesWhy, ServersWhy, Why};

/// A plan: the completed file, and why it is the best.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The input file with the plan filled in.
    pub file: TaskSystem,
    /// The space searched, and whether the plan is proved best; machine-readable.
    pub why: Why,
    /// The same as text.
    pub lines: Vec<Line>,
}

/// Answers a question as [`memtint_analysis::answer`] does. When the question is about servers and the file has none,
/// it searches for the best servers and analyzes those.
///
/// # Errors
///
/// [`PlanError`] when the analysis refuses the file, or no search for servers is possible.
pub fn answer(question: &Question<'_>) -> Result<Report, PlanError> {
    let file = question.file;
    let searches = question.scheduler == Scheduler::Crs && question.form == Form::Corrected;
    if !searches || !file.servers.is_empty() || !file.terms.is_empty() {
        return Ok(memtint_analysis::answer(question)?);
    }
    match find_servers(file, &Wanted::default(), question.limits, question.at)? {
        Ok(found) => {
            (question.at)("the proof of each server".to_owned());
            let mut report = memtint_analysis::answer(&Question { file: &found.file, ..*question })?;
            assert!(!matches!(report.answer, Answer::No(_)), "servers were found that the analysis refuses");
            report.findings.lines.extend(found.lines);
            if let Why::Servers(why) = found.why {
                report.findings.facts.choice = Some(why.choice);
            }
            Ok(report)
        }
        Err(why) => Ok(without_servers(question, why.to_string())),
    }
}
