//! The input: tasks, frames, memory needs.

use crate::cyclic::frames::{Frames, RefreshedMemory};
use crate::cyclic::{Fault, judge_frame};
use crate::error::HidingError;
use memtint_sched::{Form, RankOrder, SchedError, TIME_MAX, TaskIndex, TaskSet};
use memtint_units::Picoseconds;
use num_integer::Integer;
use std::fmt;

/// A set of colors, numbered from 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColorSet(pub u64);

impl ColorSet {
    /// Makes the set of some colors.
    ///
    /// # Panics
    ///
    /// When a color exceeds 63.
    #[must_use]
    pub fn of(colors: &[u32]) -> ColorSet {
        ColorSet(colors.iter().fold(0, |set, &color| {
            assert!(color < 64, "color {color} found; accepted is 0 to 63");
            set | 1 << color
        }))
    }

    /// Returns whether a color is in it.
    #[must_use]
    pub fn has(self, color: u32) -> bool {
        color < 64 && self.0 >> color & 1 == 1
    }

    /// Counts its colors.
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns whether it has none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Lists its colors, ascending.
    #[must_use]
    pub fn colors(self) -> Vec<u32> {
        (0..64).filter(|&color| self.has(color)).collect()
    }
}

impl fmt::Display for ColorSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.colors().iter().map(u32::to_string).collect();
        out.write_str(&texts.join(","))
    }
}

/// Memory needs of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Ranks that hold its data, at least 1 (`rankReq` of 4.3.7); 0 in [`Problem::textbook`] only.
    pub ranks: u32,
    /// Time to bring its globals from one instance to another, zero when its jobs are independent; see
    /// [`copy_time`](crate::cyclic::copy_time). Added to the WCET of each job of a task that has copies, as section 4.3
    /// asks for.
    pub copy: Picoseconds,
}

impl Default for Footprint {
    /// One rank, independent jobs.
    fn default() -> Footprint {
        Footprint { ranks: 1, copy: Picoseconds(0) }
    }
}

/// Whether tasks may have data in one color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// No two instances have a color in common: a private memory space for each (4.3.1).
    #[default]
    Private,
    /// They may. It is not checked whether everything then fits into memory.
    Shared,
}

/// How a job may be cut into slices, each of which runs in a separate frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slicing {
    /// Anywhere.
    #[default]
    Free,
    /// By the rule of 4.3.3: all slices but the last are as long as the frame.
    WholeFrames,
}

/// Names a job: number `job`, from 0, of task `task`, from 0. Numbers count within one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Index of the task.
    pub task: TaskIndex,
    /// Number of the job.
    pub job: u64,
}

/// Why there is no answer; this implies nothing about the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unanswered {
    /// The method is not about such a task.
    Precondition {
        /// Index of the task, from 0.
        task: TaskIndex,
        /// The method's requirement.
        needs: &'static str,
    },
    /// The search ended at its limit of nodes.
    Nodes {
        /// The limit.
        nodes_max: u64,
    },
    /// There is no schedule with so few copy tasks, and more were not to be tried.
    Copies {
        /// The most copy tasks that were tried.
        copies_max: u32,
    },
    /// There are too many ways to give a task colors.
    Choices {
        /// Index of the task, from 0.
        task: TaskIndex,
        /// The most that are supported.
        most: usize,
    },
    /// Jobs fit, but in the placement that was found a job has no moment to copy its data ([`Fault::Copy`]), with any colors.
    NoMoment {
        /// The job.
        id: JobId,
    },
    /// The checker refuses the result of the search: a defect of one of them.
    Contradiction(Box<Fault>),
}

/// The most frames in a cycle.
const FRAMES_MAX: u64 = 1 << 16;
/// The most pairs of a job and a frame in its window.
const PAIRS_MAX: u64 = 1 << 22;

/// Tasks, memory and frames that go together: the input of [`place`](crate::cyclic::place()) and
/// [`color`](crate::cyclic::color()).
///
/// Tasks are periodic here: the job `k` arrives at `phase + k * period`, not earlier or later, is released up to its jitter
/// after that, and so may run in frames that begin at its latest release or later and end at its deadline or earlier.
/// After one cycle everything repeats, so a window at its end continues at its beginning. A job runs at most once in a frame.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) set: TaskSet,
    pub(crate) memory: RefreshedMemory,
    pub(crate) frames: Frames,
    pub(crate) footprints: Vec<Footprint>,
    pub(crate) slice: Picoseconds,
    pub(crate) sharing: Sharing,
    pub(crate) slicing: Slicing,
    pub(crate) cycle: u64,
    pub(crate) jobs: Vec<Window>,
}

/// The frames in which a job may run, numbered from time 0, `to` excluded; `to` is at most a cycle after `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) id: JobId,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Problem {
    /// Puts them together: private colors, slices anywhere and at no cost.
    ///
    /// # Errors
    ///
    /// [`HidingError::Frames`] when rules refuse the frames, with the first refusal ([`judge_frame`], corrected; of rule (3)
    /// nothing is asked here, because a window without a frame is a no and not a mistake);
    /// [`HidingError::Footprints`] when there is not one footprint for each task, or one of zero ranks;
    /// [`SchedError::Hyperperiod`] when the cycle does not fit; [`HidingError::Cycle`] when it has more than 65 536 frames or
    /// windows more than 4 194 304 together; [`HidingError::Memory`] for more than 64 colors.
    pub fn new(
        set: TaskSet,
        memory: RefreshedMemory,
        frames: Frames,
        footprints: Vec<Footprint>,
    ) -> Result<Problem, HidingError> {
        let report = judge_frame(&set, &memory, frames, Form::Corrected);
        let matters = |refused: &&super::Refused| !matches!(refused, super::Refused::WholeFrame { .. });
        if let Some(&refused) = report.refused.iter().find(matters) {
            return Err(HidingError::Frames { size: frames.size, color: frames.color, refused });
        }
        if footprints.len() != set.tasks().len() || footprints.iter().any(|own| own.ranks == 0) {
            let ranks = footprints.iter().map(|own| own.ranks).collect();
            return Err(HidingError::Footprints { ranks, tasks: set.tasks().len() });
        }
        let colors = memory.retention().0 / frames.color.0;
        if colors > 64 {
            let accepted = "64 or fewer".to_owned();
            return Err(HidingError::Memory { field: "colors", found: colors.to_string(), accepted });
        }
        let exact = set.hyperperiod().lcm(&memory.retention().0.into());
        let cycle = match u64::try_from(&exact) {
            Ok(fits) if fits <= TIME_MAX.0 => fits,
            _ => return Err(SchedError::Hyperperiod { found: exact.to_string(), most: TIME_MAX.0 }.into()),
        };
        let pairs =
            set.tasks().iter().map(|own| (cycle / own.period().0).saturating_mul(own.deadline().0 / frames.size.0 + 1));
        let pairs = pairs.fold(0, u64::saturating_add);
        if cycle / frames.size.0 > FRAMES_MAX || pairs > PAIRS_MAX {
            let (frames, frames_max, pairs_max) = (cycle / frames.size.0, FRAMES_MAX, PAIRS_MAX);
            return Err(HidingError::Cycle { frames, frames_max, pairs, pairs_max });
        }
        let slice = Picoseconds(0);
        let (sharing, slicing) = (Sharing::default(), Slicing::default());
        let jobs = windows(&set, cycle, frames.size.0);
        Ok(Problem { set, memory, frames, footprints, slice, sharing, slicing, cycle, jobs })
    }

    /// Puts tasks and frames together without colors: a textbook cyclic executive, whose cycle is the hyperperiod.
    ///
    /// Frames divide the hyperperiod; rules about refresh do not apply, and there are no copy tasks. So that everything else here
    /// can be asked of it, it has a memory of one rank in which no task has data, refreshed once in a cycle.
    ///
    /// ```
    /// use memtint_hiding::cyclic::{Answer, Limits, Problem, color};
    /// use memtint_sched::{TaskSet, TaskSpec};
    /// use memtint_units::Picoseconds;
    ///
    /// let ms = |value: u64| Picoseconds::from_ns(value * 1_000_000);
    /// let set = TaskSet::new([TaskSpec::new("a", ms(4), ms(1)), TaskSpec::new("b", ms(5), ms(2)), TaskSpec::new("c", ms(20), ms(1))])?;
    /// let problem = Problem::textbook(set, ms(2))?;
    /// assert!(color(&problem, Limits::default()).is_schedulable());
    /// # Ok::<(), memtint_hiding::HidingError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Problem::new`]; [`SchedError::Hyperperiod`] too.
    pub fn textbook(set: TaskSet, size: Picoseconds) -> Result<Problem, HidingError> {
        let cycle = set.hyperperiod_time()?;
        let memory = RefreshedMemory::new(cycle, 1, Picoseconds(1), RankOrder::Parallel)?;
        let footprints = vec![Footprint::default(); set.tasks().len()];
        let mut problem = Problem::new(set, memory, Frames { size, color: cycle }, footprints)?;
        problem.footprints.iter_mut().for_each(|own| own.ranks = 0);
        Ok(problem.sharing(Sharing::Shared))
    }

    /// Sets the additional time of each slice of a job after its first: the context switch and the cold caches (4.3.8).
    ///
    /// # Errors
    ///
    /// [`HidingError::Memory`] when it exceeds [`TIME_MAX`].
    pub fn slice_cost(mut self, cost: Picoseconds) -> Result<Problem, HidingError> {
        if cost > TIME_MAX {
            let accepted = format!("0 to {TIME_MAX}");
            return Err(HidingError::Memory { field: "slice cost", found: cost.to_string(), accepted });
        }
        self.slice = cost;
        Ok(self)
    }

    /// Sets whether instances may have colors in common.
    #[must_use]
    pub fn sharing(mut self, sharing: Sharing) -> Problem {
        self.sharing = sharing;
        self
    }

    /// Sets how jobs may be cut.
    #[must_use]
    pub fn slicing(mut self, slicing: Slicing) -> Problem {
        self.slicing = slicing;
        self
    }

    /// Gives the tasks.
    #[must_use]
    pub fn set(&self) -> &TaskSet {
        &self.set
    }

    /// Gives the memory.
    #[must_use]
    pub fn memory(&self) -> &RefreshedMemory {
        &self.memory
    }

    /// Gives the frames.
    #[must_use]
    pub fn frames(&self) -> Frames {
        self.frames
    }

    /// Gives the cycle `L`: the least common multiple of all periods and the retention time.
    #[must_use]
    pub fn cycle(&self) -> Picoseconds {
        Picoseconds(self.cycle)
    }

    /// Gives the number of frames in a cycle.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        self.cycle / self.frames.size.0
    }

    /// Gives the number of colors `C`.
    #[must_use]
    pub fn colors(&self) -> u32 {
        u32::try_from(self.memory.retention().0 / self.frames.color.0).expect("at most 64")
    }

    /// Gives the ranks of each color; color `c` has the ranks from `c` times this on.
    #[must_use]
    pub fn ranks_per_color(&self) -> u32 {
        self.memory.ranks() / self.colors()
    }

    /// Gives the color that is refreshed in a frame, numbered from time 0.
    #[must_use]
    pub fn color_of(&self, frame: u64) -> u32 {
        let color = frame / (self.frames.color.0 / self.frames.size.0) % u64::from(self.colors());
        u32::try_from(color).expect("at most 64")
    }

    /// Colors that an instance of a task has, as many as hold its ranks.
    pub(crate) fn colors_needed(&self, task: TaskIndex) -> u32 {
        self.footprints[task.index()].ranks.div_ceil(self.ranks_per_color())
    }

    /// Execution of a job of one slice; with copies each may have to bring the globals first.
    pub(crate) fn demand(&self, task: TaskIndex, instances: usize) -> u64 {
        let copy = if instances > 1 { self.footprints[task.index()].copy.0 } else { 0 };
        self.set[task].wcet().0 + copy
    }

    /// Why the methods here do not answer.
    pub(crate) fn unanswered(&self) -> Option<Unanswered> {
        let needs = |(task, own): (TaskIndex, &memtint_sched::Task)| {
            let late = (own.deadline() > own.period()).then_some("a deadline not after the next arrival");
            let blocked = (own.blocking().0 > 0).then_some("no blocking");
            let huge = (self.colors_needed(task) >= self.colors())
                .then_some("data in fewer ranks than all but those of one color (not a huge task)");
            late.or(blocked).or(huge).map(|needs| Unanswered::Precondition { task, needs })
        };
        self.set.indexed().find_map(needs)
    }
}

fn windows(set: &TaskSet, cycle: u64, size: u64) -> Vec<Window> {
    let mut jobs = Vec::new();
    for (task, own) in set.indexed() {
        for job in 0..cycle / own.period().0 {
            let arrival = own.phase().0 + job * own.period().0;
            let from = (arrival + own.jitter().0).div_ceil(size);
            let to = ((arrival + own.deadline().0) / size).max(from);
            jobs.push(Window { id: JobId { task, job }, from, to });
        }
    }
    jobs
}
