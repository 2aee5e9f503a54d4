//! Feasible lengths of a frame: rules (1) to (5) of section 4.3.2, and Algorithm 6.

use crate::error::HidingError;
use memtint_sched::{Form, REF_COMMANDS, RankOrder, TIME_MAX, Task, TaskIndex, TaskSet};
use memtint_units::Picoseconds;
use num_integer::Integer;

/// The ranks and their refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshedMemory {
    retention: Picoseconds,
    ranks: u32,
    t_rfc: Picoseconds,
    order: RankOrder,
}

impl RefreshedMemory {
    /// Describes memory of `ranks` ranks (`K` of the dissertation, at least 1), each of which has to be refreshed by
    /// [`REF_COMMANDS`] commands of `t_rfc` each within `retention` (`R`).
    ///
    /// # Errors
    ///
    /// [`HidingError::Memory`] when a value is zero or above [`TIME_MAX`], or the retention is not a multiple of the ranks.
    pub fn new(
        retention: Picoseconds,
        ranks: u32,
        t_rfc: Picoseconds,
        order: RankOrder,
    ) -> Result<RefreshedMemory, HidingError> {
        let refuse = |field, found: String, accepted: String| Err(HidingError::Memory { field, found, accepted });
        if ranks == 0 {
            return refuse("ranks", "0".to_owned(), "1 or more".to_owned());
        }
        if retention.0 == 0 || retention > TIME_MAX || !retention.0.is_multiple_of(u64::from(ranks)) {
            let accepted = format!("a multiple of {ranks} ps (one for each rank), {ranks} ps to {TIME_MAX}");
            return refuse("retention", retention.to_string(), accepted);
        }
        if t_rfc.0 == 0 || t_rfc.0 > TIME_MAX.0 / REF_COMMANDS / u64::from(ranks) {
            let most = TIME_MAX.0 / REF_COMMANDS / u64::from(ranks);
            return refuse("t_rfc", t_rfc.to_string(), format!("1 ps to {}", Picoseconds(most)));
        }
        Ok(RefreshedMemory { retention, ranks, t_rfc, order })
    }

    /// Gives the retention time `R`, in which each rank must be refreshed.
    #[must_use]
    pub fn retention(&self) -> Picoseconds {
        self.retention
    }

    /// Gives the number of ranks `K`.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Gives tRFC.
    #[must_use]
    pub fn t_rfc(&self) -> Picoseconds {
        self.t_rfc
    }

    /// Gives the time that each rank has when they are refreshed in turn, `R / K`; exact.
    #[must_use]
    pub fn grain(&self) -> Picoseconds {
        Picoseconds(self.retention.0 / u64::from(self.ranks))
    }

    /// Gives the time to refresh the ranks of one color, when a color has `ranks` ranks.
    #[must_use]
    pub fn burst(&self, ranks: u32) -> Picoseconds {
        Picoseconds(self.t_rfc.0 * self.order.commands(ranks))
    }
}

/// Lengths of frames: `size` is `f`, by which jobs are placed, and `color` is `f'`, by which memory is colored. They are equal
/// unless frames are fused (4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// `f`.
    pub size: Picoseconds,
    /// `f'`, a multiple of `size`.
    pub color: Picoseconds,
}

impl Frames {
    /// Gives frames that are not fused.
    #[must_use]
    pub fn plain(size: Picoseconds) -> Frames {
        Frames { size, color: size }
    }
}

/// Why a frame is refused, with the numbers of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Rule (1): the frame exceeds half of the task's period. Only as printed: it is copies that need it ([`Note::Copies`]).
    #[error("accepted is at most half of the period of task {task} (from 0), which is {period}")]
    Alternation {
        /// Index of the task, from 0.
        task: TaskIndex,
        /// Its period; the frame is longer than half of it.
        period: Picoseconds,
    },
    /// Rule (2): the colored frame does not divide the retention time.
    #[error("accepted is a colored frame that divides the retention time, of which {remainder} are left over")]
    Retention {
        /// The remainder of the retention time.
        remainder: Picoseconds,
    },
    /// Rule (3): as printed, `2 f - gcd(p, f)` exceeds the deadline. Corrected, which holds with phases and jitter: a job
    /// released so long after the beginning of a frame has no whole frame until its deadline,
    /// `floor((r + D) / f) - ceil(r / f) < 1`.
    #[error("accepted is what gives each job of task {task} (from 0) a whole frame before its deadline")]
    WholeFrame {
        /// Index of the task, from 0.
        task: TaskIndex,
        /// As printed, `2 f - gcd(p, f)`; corrected, the offset of the release in its frame.
        found: Picoseconds,
        /// As printed the deadline; corrected the time from latest release to deadline.
        window: Picoseconds,
    },
    /// Rule (4): the colored frame is not a multiple of `R / K` (as printed: the formula, which subtracts `K` from a time,
    /// is not zero; the time is taken in the chapter's milliseconds).
    #[error("accepted is a colored frame that is a multiple of {grain}, the retention time by the ranks")]
    Grain {
        /// `R / K`.
        grain: Picoseconds,
    },
    /// Rule (5): a job is longer than a frame. Only as printed: slices mend it ([`Note::Slices`]).
    #[error("accepted is at least the WCET of task {task} (from 0), which is {wcet}")]
    Unsliced {
        /// Index of the task, from 0.
        task: TaskIndex,
        /// Its WCET.
        wcet: Picoseconds,
    },
    /// The rule that the chapter lacks: the burst of a color does not fit into its frame.
    #[error("accepted is a colored frame as long as the burst of a color, which is {burst}")]
    Burst {
        /// How long the burst is.
        burst: Picoseconds,
    },
    /// The colored frame is no multiple of the frame, or one of them is zero.
    #[error("accepted is a colored frame that is a multiple of the frame, neither of them 0")]
    Fusion,
}

/// A requirement or cost of a frame that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Rule (1) does not hold: two instances of this task cannot be sure to alternate (case 2 of Theorem 2).
    Copies {
        /// Index of the task, from 0.
        task: TaskIndex,
    },
    /// Rule (5) does not hold: jobs of this task need slices.
    Slices {
        /// Index of the task, from 0.
        task: TaskIndex,
        /// The least slices of each job, `ceil(e / f)`.
        least: u64,
    },
    /// The frame does not divide the task's period, release and deadline, so that frames lie partly outside of windows, and
    /// capacity is lost. Theorem 1 overlooks it.
    Capacity {
        /// Index of the task, from 0.
        task: TaskIndex,
    },
}

/// A frame, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameReport {
    /// The frames.
    pub frames: Frames,
    /// Each reason to refuse them; empty if they are accepted.
    pub refused: Vec<Refused>,
    /// Their requirements; empty as printed.
    pub notes: Vec<Note>,
}

impl FrameReport {
    /// Returns whether every rule accepts the frames. Whether all jobs fit into them is decided by
    /// [`color`](crate::cyclic::color()).
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.refused.is_empty()
    }
}

/// Judges frames by rules (1) to (5) of 4.3.2.
///
/// Corrected: rule (2) and rule (4) in the intended form, `f' = j R / K`, for the colored frame; rule (3) for each
/// release with phase and jitter; the burst in its frame, which the chapter forgets; (1) and (5) as notes, because
/// copies and slices make up for their violations. As printed: all five, literally; the formula of (4) then refuses
/// nearly everything.
#[must_use]
pub fn judge_frame(set: &TaskSet, memory: &RefreshedMemory, frames: Frames, form: Form) -> FrameReport {
    let (mut refused, mut notes) = (Vec::new(), Vec::new());
    if frames.size.0 == 0 || frames.color.0 == 0 || !frames.color.0.is_multiple_of(frames.size.0) {
        refused.push(Refused::Fusion);
        return FrameReport { frames, refused, notes };
    }
    for (task, own) in set.indexed() {
        refused.extend(alternation(task, own, frames.size, form, &mut notes));
    }
    let remainder = Picoseconds(memory.retention.0 % frames.color.0);
    refused.extend((remainder.0 > 0).then_some(Refused::Retention { remainder }));
    for (task, own) in set.indexed() {
        refused.extend(match form {
            Form::AsPrinted => whole_frame_as_printed(task, own, frames.size),
            Form::Corrected => whole_frame(task, own, frames.size),
        });
    }
    refused.extend(grain(memory, frames.color, form));
    for (task, own) in set.indexed() {
        refused.extend(unsliced(task, own, frames.size, form, &mut notes));
    }
    if form == Form::Corrected {
        refused.extend(burst(memory, frames.color));
        let lost = |&(_, own): &(TaskIndex, &Task)| !divides(own, frames.size);
        notes.extend(set.indexed().filter(lost).map(|(task, _)| Note::Capacity { task }));
    }
    FrameReport { frames, refused, notes }
}

/// Rule (1).
fn alternation(task: TaskIndex, own: &Task, size: Picoseconds, form: Form, notes: &mut Vec<Note>) -> Option<Refused> {
    if size.0 <= own.period().0 / 2 {
        return None;
    }
    match form {
        Form::AsPrinted => Some(Refused::Alternation { task, period: own.period() }),
        Form::Corrected => {
            notes.push(Note::Copies { task });
            None
        }
    }
}

/// Rule (3), as printed.
fn whole_frame_as_printed(task: TaskIndex, own: &Task, size: Picoseconds) -> Option<Refused> {
    let found = Picoseconds(2 * size.0 - own.period().0.gcd(&size.0));
    (found > own.deadline()).then_some(Refused::WholeFrame { task, found, window: own.deadline() })
}

/// Rule (3), for each release.
///
/// How many whole frames a window has depends on the offset of its release in a frame, and offsets are those of the first
/// release plus multiples of `gcd(p, f)`. Offset 0 aside, the smallest has the fewest.
fn whole_frame(task: TaskIndex, own: &Task, size: Picoseconds) -> Option<Refused> {
    let window = own.deadline().saturating_sub(own.jitter());
    let step = own.period().0.gcd(&size.0);
    let first = (own.phase().0 + own.jitter().0) % step;
    let frames = |offset: u64| ((offset + window.0) / size.0).saturating_sub(u64::from(offset > 0));
    let offsets = [Some(first), (first == 0 && step < size.0).then_some(step)];
    let short = offsets.into_iter().flatten().find(|&offset| frames(offset) < 1)?;
    Some(Refused::WholeFrame { task, found: Picoseconds(short), window })
}

/// Rule (4).
fn grain(memory: &RefreshedMemory, color: Picoseconds, form: Form) -> Option<Refused> {
    let grain = memory.grain();
    let holds = match form {
        // floor((R/K)/f) - (R-K)/f = 0, with R in milliseconds.
        Form::AsPrinted => {
            let ranks = i128::from(memory.ranks) * 1_000_000_000;
            let floor = i128::from(grain.0 / color.0);
            floor * i128::from(color.0) == i128::from(memory.retention.0) - ranks
        }
        Form::Corrected => color.0.is_multiple_of(grain.0),
    };
    (!holds).then_some(Refused::Grain { grain })
}

/// Rule (5).
fn unsliced(task: TaskIndex, own: &Task, size: Picoseconds, form: Form, notes: &mut Vec<Note>) -> Option<Refused> {
    if own.wcet() <= size {
        return None;
    }
    match form {
        Form::AsPrinted => Some(Refused::Unsliced { task, wcet: own.wcet() }),
        Form::Corrected => {
            notes.push(Note::Slices { task, least: own.wcet().0.div_ceil(size.0) });
            None
        }
    }
}

/// The rule that is missing.
fn burst(memory: &RefreshedMemory, color: Picoseconds) -> Option<Refused> {
    let ranks = u32::try_from(color.0.div_ceil(memory.grain().0)).unwrap_or(u32::MAX).min(memory.ranks);
    let burst = memory.burst(ranks);
    (burst > color).then_some(Refused::Burst { burst })
}

/// Returns whether all windows of a task begin and end with a frame.
fn divides(own: &Task, size: Picoseconds) -> bool {
    let points = [own.period().0, own.phase().0 + own.jitter().0, own.phase().0 + own.deadline().0];
    points.iter().all(|&point| u64::is_multiple_of(point, size.0))
}

/// The most steps that a retention time may have when frames are enumerated.
const STEPS_MAX: u64 = 1 << 20;

fn steps(memory: &RefreshedMemory, step: Picoseconds) -> Result<u64, HidingError> {
    if step.0 == 0 || !memory.retention.0.is_multiple_of(step.0) || memory.retention.0 / step.0 > STEPS_MAX {
        let accepted = format!("a divisor of the retention {}, and at least 1/{STEPS_MAX} of it", memory.retention);
        return Err(HidingError::Memory { field: "step", found: step.to_string(), accepted });
    }
    Ok(memory.retention.0 / step.0)
}

/// Judges each frame that divides the retention time (rule (2)) and is a multiple of `step`, shortest first, none fused.
///
/// # Errors
///
/// [`HidingError::Memory`] when the step does not divide the retention time, or is less than 2^-20 of it.
pub fn frame_candidates(
    set: &TaskSet,
    memory: &RefreshedMemory,
    step: Picoseconds,
    form: Form,
) -> Result<Vec<FrameReport>, HidingError> {
    let steps = steps(memory, step)?;
    let sizes = (1..=steps).filter(|count| steps.is_multiple_of(*count)).map(|count| Picoseconds(count * step.0));
    Ok(sizes.map(|size| judge_frame(set, memory, Frames::plain(size), form)).collect())
}

/// Fuses frames: Algorithm 6, "task fusion". `None` when it finds nothing.
///
/// Corrected: the longest multiple of `step` that divides `R / K` and each period, release and deadline, so that no capacity is
/// lost, and the shortest colored frame `j R / K`, with `j` a divisor of `K`, that holds its burst. As printed: the first hit of
/// the loops over multiples of `step`, which is nearly always a single step, and whose colored frame need not divide `R`.
///
/// # Errors
///
/// [`HidingError::Memory`] for a step as in [`frame_candidates`].
pub fn fuse(
    set: &TaskSet,
    memory: &RefreshedMemory,
    step: Picoseconds,
    form: Form,
) -> Result<Option<Frames>, HidingError> {
    steps(memory, step)?;
    Ok(match form {
        Form::AsPrinted => fuse_as_printed(set, memory, step),
        Form::Corrected => fuse_corrected(set, memory, step),
    })
}

fn fuse_as_printed(set: &TaskSet, memory: &RefreshedMemory, step: Picoseconds) -> Option<Frames> {
    let shortest = set.tasks().iter().map(|task| task.deadline().0).min()?;
    let grain = memory.grain().0;
    for size in (1..).map(|count| count * step.0).take_while(|&size| size <= shortest / 2) {
        let (mut color, mut i) = (size, 1);
        while color <= memory.retention.0 {
            color += size;
            i += 1;
            if color.is_multiple_of(grain) && i % (color / grain) == 0 {
                return Some(Frames { size: Picoseconds(size), color: Picoseconds(color) });
            }
        }
    }
    None
}

fn fuse_corrected(set: &TaskSet, memory: &RefreshedMemory, step: Picoseconds) -> Option<Frames> {
    let grain = memory.grain().0;
    let points = |own: &Task| [own.period().0, own.phase().0 + own.jitter().0, own.phase().0 + own.deadline().0];
    let size = set.tasks().iter().flat_map(points).fold(grain, |size, point| size.gcd(&point));
    let fits = |&j: &u32| memory.ranks.is_multiple_of(j) && memory.burst(j).0 <= u64::from(j) * grain;
    let j = (1..=memory.ranks).find(fits)?;
    let frames = Frames { size: Picoseconds(size), color: Picoseconds(u64::from(j) * grain) };
    let windows = set.indexed().all(|(task, own)| whole_frame(task, own, frames.size).is_none());
    (size.is_multiple_of(step.0) && windows).then_some(frames)
}
