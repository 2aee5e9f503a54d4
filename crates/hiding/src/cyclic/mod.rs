//! Cyclic executives in which no task runs while its rank is refreshed: Colored Refresh, chapter 4 of X. Pan, *Providing
//! DRAM Predictability for Real-Time Systems and Beyond*, North Carolina State University, 2018.
//!
//! Time is cut into frames of one length `f`; after a cycle `L`, the least common multiple of all periods and the
//! retention time `R`, everything repeats. Memory is cut into colors, here sets of DRAM ranks, as many as a stretch
//! `f'` of one or more frames fits into `R`; during such a stretch the ranks of one color are refreshed in a burst, and
//! tasks with data there do not run. Colors are counted from 0 here, from 1 in the dissertation.
//!
//! - [`judge_frame`], [`frame_candidates`], [`fuse`]: feasible frames (rules (1) to (5) of 4.3.2, Algorithm 6).
//! - [`place`]: jobs into frames by maximum flow, given which colors each task avoids; a no is a minimum cut.
//! - [`place_given`]: the same when tasks have several instances, each with given colors.
//! - [`Problem::textbook`]: no colors, for comparison and for memory that refreshes itself.
//! - [`place_then_avoid`]: the dissertation's order, first the jobs, then the colors that are left (4.3.2).
//! - [`color`]: both at once, with the fewest copy tasks, and then the fewest slices, and a proven bound for them.
//! - [`fewest_slices`]: the fewest slices when colors are given.
//! - [`check_executive`]: an independent checker of executives.
//! - [`class`], [`copy_time`], [`refresh_gain`]: huge, long and short tasks, and the cost of a copy (4.3.7, 4.3.8).

mod check;
mod costs;
mod flow;
mod frames;
mod given;
mod problem;
mod search;
mod slices;
mod table;

pub use check::{Checked, Fault, check_executive};
pub use costs::{Class, break_even_bytes, class, copy_pays, copy_time, long_task_bound, rank_need, refresh_gain};
pub use flow::{Cut, Placement, Portion, place};
pub use frames::{FrameReport, Frames, Note, RefreshedMemory, Refused, frame_candidates, fuse, judge_frame};
pub use given::place_given;
pub use memtint_sched::{Density, RankOrder};
pub use problem::{ColorSet, Footprint, JobId, Problem, Sharing, Slicing, Unanswered};
pub use search::{Answer, FewestSlices, Limits, Refutation, Refuted, Solution, color, fewest_slices};
pub use table::{Executive, Instance, Refresh, Slot, ThenAvoid, available_colors, place_then_avoid};
