//! Why a description of refresh, or of the schedule that hides it, is refused.

use memtint_sched::SchedError;
use memtint_units::Picoseconds;

/// Reasons why input is refused. Every message names the part, the field, the value found and the values accepted.
///
/// A system that is valid but in which a job can be late is no error: see [`Verdict`](memtint_sched::Verdict).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HidingError {
    /// Tasks, priorities or a resource are refused.
    #[error(transparent)]
    Tasks(#[from] SchedError),
    /// The checker refuses the timeline of a system that the analysis accepts: a defect of one of them.
    #[error("a defect of memtint: the analysis accepts the system, and the checker refuses its timeline: {0}")]
    Contradiction(Box<crate::crs::TimelineViolation>),
    /// A part of a Colored Refresh Server system is not accepted.
    #[error("{what}: {field} is {found}; accepted is {accepted}")]
    Server {
        /// Which part.
        what: String,
        /// The field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What would be accepted.
        accepted: String,
    },
    /// A property of memory, or a cost that comes from it, is out of its range.
    #[error("memory: {field} is {found}; accepted is {accepted}")]
    Memory {
        /// The field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What would be accepted.
        accepted: String,
    },
    /// A rule refuses the frames of a cyclic executive.
    #[error("frames of {size}, colored by {color}: {refused}")]
    Frames {
        /// The frame.
        size: Picoseconds,
        /// The colored frame.
        color: Picoseconds,
        /// The first refusal.
        refused: crate::cyclic::Refused,
    },
    /// Footprints are not one for each task, or one has no rank.
    #[error("footprints: ranks {ranks:?} found; accepted are {tasks} footprints of 1 rank or more")]
    Footprints {
        /// The ranks given.
        ranks: Vec<u32>,
        /// The number of tasks.
        tasks: usize,
    },
    /// A cyclic executive would have too many frames.
    #[error(
        "cyclic executive: {frames} frames and {pairs} frames in windows found; accepted are at most {frames_max} and {pairs_max}"
    )]
    Cycle {
        /// Frames in a cycle.
        frames: u64,
        /// The most accepted.
        frames_max: u64,
        /// Frames in all windows together, at most.
        pairs: u64,
        /// The most accepted.
        pairs_max: u64,
    },
}
