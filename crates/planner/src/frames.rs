//! The best frames and colors of a cyclic executive.

use std::cmp::Reverse;
use std::fmt;

use memtint_analysis::{Line, TaskSystem, Tried, search_limits, try_frames, unanswered};
use memtint_hiding::cyclic::{Answer, Frames, Solution, check_executive};
use memtint_units::Picoseconds;

use crate::{FramesWhy, Plan, PlanError, Why};

/// The result of a search for frames.
#[derive(Clone, Debug)]
pub enum FramePlan {
    /// The best of all frames tried.
    Found(Box<Plan>),
    /// For each of these frames, it is proved that jobs do not fit.
    Refuted(Vec<FrameTried>),
    /// None of these frames has a plan, and some search ended at its limit.
    Open(Vec<FrameTried>),
    /// The rules accept no frames.
    NoFrame,
}

/// Frames that were tried, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTried {
    /// The frames.
    pub frames: Frames,
    /// The result.
    pub said: Said,
}

/// The result for given frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A table.
    Table {
        /// Tasks with two instances.
        copies: u32,
        /// Slices beyond one for each job.
        slices: u64,
    },
    /// Jobs do not fit.
    Refuted,
    /// The search ended without an answer, for this reason.
    Open(String),
}

impl fmt::Display for FrameTried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frames.size == self.frames.color {
            true => write!(f, "{}: ", self.frames.size)?,
            false => write!(f, "{} colored by {}: ", self.frames.size, self.frames.color)?,
        }
        match &self.said {
            Said::Table { copies, slices } => write!(f, "{copies} copies, {slices} extra slices"),
            Said::Refuted => f.write_str("refuted"),
            Said::Open(why) => f.write_str(why),
        }
    }
}

/// How good a table is: fewest copies, then slices, then the longest frame, then the most colors.
fn badness(frames: Frames, solution: &Solution) -> (u32, u64, Reverse<u64>, u64) {
    let executive = &solution.executive;
    (executive.copies(), executive.extra_slices(), Reverse(frames.size.0), frames.color.0)
}

/// Finds the table with the fewest copy tasks, then the fewest slices, then the longest frames, among all
/// [frames](TaskSystem::frame_choices) of a file. Values in the file's table `[cyclic]` are kept.
///
/// It is proved best when no search ended at its limit and each table has the fewest copies and slices possible for its
/// frames. `at` receives the frames being tried.
///
/// # Errors
///
/// [`PlanError`] when the file has no memory, or is refused.
pub fn best_frames(file: &TaskSystem, nodes_max: u64, at: &dyn Fn(String)) -> Result<FramePlan, PlanError> {
    let choices = file.frame_choices()?;
    let mut tried: Vec<Tried> = Vec::new();
    for (index, &frames) in choices.iter().enumerate() {
        let Frames { size, color } = frames;
        at(format!("frames of {size} colored by {color}, {} of {}", index + 1, choices.len()));
        tried.extend(try_frames(&[frames], |frames| Ok(file.problem(frames)?), search_limits(file, nodes_max))?);
    }
    let all: Vec<FrameTried> = tried.iter().map(|one| told(file, one)).collect();
    let solved = tried.iter().filter_map(|one| match &one.found {
        Answer::Schedulable(solution) => Some((one.frames, &**solution)),
        _ => None,
    });
    let Some((frames, solution)) = solved.clone().min_by_key(|&(frames, solution)| badness(frames, solution)) else {
        let open = all.iter().any(|one| matches!(one.said, Said::Open(_)));
        return Ok(match all.is_empty() {
            true => FramePlan::NoFrame,
            false if open => FramePlan::Open(all),
            false => FramePlan::Refuted(all),
        });
    };
    let fewest = |solution: &Solution| {
        let executive = &solution.executive;
        executive.copies() == solution.copies_least && executive.extra_slices() == solution.extra_slices_least
    };
    let closed = !all.iter().any(|one| matches!(one.said, Said::Open(_)));
    let proved = closed && solved.clone().all(|(_, solution)| fewest(solution));
    let problem = file.problem(frames)?;
    assert!(check_executive(&problem, &solution.executive).is_ok(), "a table that the checker refuses");
    Ok(FramePlan::Found(Box::new(plan(file, frames, solution, proved, &all))))
}

fn told(file: &TaskSystem, one: &Tried) -> FrameTried {
    let said = match &one.found {
        Answer::Schedulable(solution) => {
            Said::Table { copies: solution.executive.copies(), slices: solution.executive.extra_slices() }
        }
        Answer::Unschedulable(_) => Said::Refuted,
        Answer::Unsupported(why) => Said::Open(unanswered(&file.set, why)),
    };
    FrameTried { frames: one.frames, said }
}

/// The file with these frames, and no more copies than their table has.
fn plan(file: &TaskSystem, frames: Frames, solution: &Solution, proved: bool, all: &[FrameTried]) -> Plan {
    let mut file = file.clone();
    file.cyclic.frame = Some(frames.size);
    file.cyclic.color_frame = Some(frames.color).filter(|&color: &Picoseconds| color != frames.size);
    file.cyclic.copies_max = Some(solution.executive.copies());
    let colors = solution.executive.instances.iter().enumerate().map(|(task, own)| {
        let texts: Vec<String> = own.iter().map(|one| one.colors.to_string()).collect();
        format!("{} {}", file.set.tasks()[task].name(), texts.join(" and "))
    });
    let colors = colors.collect::<Vec<_>>().join(", ");
    let why = match proved {
        true => {
            "no frame that was tried has fewer copy tasks, or as few and fewer slices: proved by exhaustive search with bounds"
        }
        false => "the best that was found; a search ended at its limit, so there may be a better one",
    };
    let said = all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let lines = vec![
        Line { label: "plan", text: format!("frames of {}, colored by {}", frames.size, frames.color) },
        Line { label: "task colors", text: format!("{colors} (from 0)") },
        Line { label: "proved best", text: why.to_owned() },
        Line { label: "frames tried", text: said.clone() },
    ];
    let why = FramesWhy { plan: "colored-refresh", task_colors: colors, proved_best: proved, frames_tried: said };
    Plan { file, why: Why::Frames(why), lines }
}
