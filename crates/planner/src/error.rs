//! Why there is no plan, or none can be looked for.

use memtint_analysis::AnalysisError;
use memtint_hiding::HidingError;
use memtint_sched::Unsupported;
use memtint_system::SystemError;
use memtint_units::Picoseconds;

/// Tells why no plan can be looked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The analysis refuses the file.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// The file has other than two colors.
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

/// Tells why no servers were found. There may be some that no search here knows.
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
    /// The refreshes of both colors take more than there is.
    #[error("colors locked for {} and {} do not both fit into {retention}", locked[0], locked[1])]
    Locked {
        /// How long each color is locked.
        locked: [Picoseconds; 2],
        /// The retention time.
        retention: Picoseconds,
    },
    /// A task that needs an instance in both servers has a deadline that no such task may have.
    #[error("task {task:?} needs a deadline within its period, to be a copy task")]
    Deadline {
        /// The task.
        task: String,
    },
    /// No phases of refresh leave copy tasks the time that they need.
    #[error("copy tasks need {needed} between the locks of both colors, which no phases leave")]
    Apart {
        /// From the end of one lock to the beginning of the other.
        needed: Picoseconds,
    },
    /// The search is not about such tasks.
    #[error("the search needs {needs}")]
    Precondition {
        /// What it asks for.
        needs: &'static str,
    },
    /// The search ended before it could say.
    #[error("the search for servers ended at its limit, see --steps: {}", limit(.0))]
    Limit(Unsupported),
    /// There are none in the spaces searched.
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

/// Which limit of a search it was.
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
