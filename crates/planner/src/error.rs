//! Reasons why there is no plan, or why no search is possible.

use memtint_analysis::AnalysisError;
use memtint_hiding::HidingError;
use memtint_sched::Unsupported;
use memtint_system::SystemError;
use memtint_units::Picoseconds;

/// The reason why no search for a plan is possible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The analysis refuses the file.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// The number of colors in the file is not two.
    #[error("{file}: tables [[color]] are {found}; accepted for a search of servers are 2, or none")]
    Colors {
        /// The file.
        file: String,
        /// How many it has.
        found: usize,
    },
    /// There are too few ranks for two colors.
    #[error("{file}: memory: ranks is {found}; accepted for two colors is 2 or more")]
    Ranks {
        /// The file.
        file: String,
        /// How many ranks it has.
        found: u32,
    },
    /// The space of servers is refused.
    #[error("{file}: {source}")]
    Space {
        /// The file.
        file: String,
        /// Why.
        source: HidingError,
    },
}

impl From<SystemError> for PlanError {
    fn from(error: SystemError) -> PlanError {
        PlanError::Analysis(error.into())
    }
}

impl From<HidingError> for PlanError {
    fn from(error: HidingError) -> PlanError {
        PlanError::Analysis(error.into())
    }
}

/// The reason why no servers were found. Servers outside the searched spaces may exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoServers {
    /// A task does not fit the ranks of a color.
    #[error("task {task:?} needs {ranks} ranks, and a color has {most}")]
    Ranks {
        /// The task.
        task: String,
        /// Ranks that it needs.
        ranks: u32,
        /// Ranks of the smaller color.
        most: usize,
    },
    /// The refreshes of both colors take more time than there is.
    #[error("colors locked for {} and {} do not both fit into {retention}", locked[0], locked[1])]
    Locked {
        /// How long each color is locked.
        locked: [Picoseconds; 2],
        /// The retention time.
        retention: Picoseconds,
    },
    /// A task that needs an instance in both servers has a deadline that copy tasks may not have.
    #[error("task {task:?} needs a deadline within its period, to be a copy task")]
    Deadline {
        /// The task.
        task: String,
    },
    /// No refresh phases leave copy tasks the time that they need.
    #[error("copy tasks need {needed} between the locks of both colors, which no phases leave")]
    Apart {
        /// From the end of one lock to the beginning of the other.
        needed: Picoseconds,
    },
    /// The search does not support such tasks.
    #[error("the search needs {needs}")]
    Precondition {
        /// The precondition of the search.
        needs: &'static str,
    },
    /// The search reached its limit before an answer.
    #[error("the search for servers ended at its limit, see --steps: {}", limit(.0))]
    Limit(Unsupported),
    /// The searched spaces contain none.
    #[error(
        "no two servers on {}, with periods and budgets in {}, have been found that are proved to hold all tasks; there may be others",
        cores_of(*cores),
        searched.join(", then ")
    )]
    Nowhere {
        /// The most cores.
        cores: usize,
        /// The spaces, in the order of the search.
        searched: Vec<String>,
    },
}

/// The limit that ended a search.
fn limit(why: &Unsupported) -> String {
    match why {
        Unsupported::Effort { steps_max, .. } => format!("more than {steps_max} steps would be needed"),
        Unsupported::Window { window_ps_max, .. } => {
            format!("a window of more than {} would be needed", Picoseconds(*window_ps_max))
        }
        other => format!("{other:?}"),
    }
}

/// One core, or as many as there may be.
pub(crate) fn cores_of(most: usize) -> String {
    if most == 1 { "one core".to_owned() } else { format!("each of up to {most} cores") }
}
