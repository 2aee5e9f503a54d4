//! Errors of memory descriptions, admissions, allocations and frees.

use memtint_units::Pfn;

use crate::memory::{COLORS_MAX, ORDER_MAX};
use crate::task::TaskId;

/// Errors of this crate. Every message names the object, the value found and the accepted values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// No block of the requested size is free.
    #[error(
        "out of memory: no free block of order {order} for {task}; {free} of {frames} frames are free in smaller \
             blocks, on color lists or in zones that the request may not use"
    )]
    OutOfMemory {
        /// The requesting task.
        task: TaskId,
        /// Order of the block.
        order: u32,
        /// Frames that are not held.
        free: u64,
        /// All frames.
        frames: u64,
    },
    /// Memory is free, but none that the task's colors allow.
    #[error(
        "out of color: no free block of order {order} in the colors of {task} ({colors}); {free_in_color} free frames \
             have these colors, {free} of {frames} frames are free in all"
    )]
    OutOfColor {
        /// The requesting task.
        task: TaskId,
        /// The task's colors, as text.
        colors: String,
        /// Order of the block.
        order: u32,
        /// Free frames in the task's colors: 0 if a single frame was requested and the allocator can reach them all.
        free_in_color: u64,
        /// Frames that are not held.
        free: u64,
        /// All frames.
        frames: u64,
    },
    /// The frame is not the start of an allocated block: freed twice, or never handed out.
    #[error("frame {pfn} is not the first of an allocated block ({found}); only what was allocated can be freed, once")]
    NotAllocated {
        /// The frame.
        pfn: Pfn,
        /// Its actual state.
        found: &'static str,
    },
    /// The block was allocated with another order.
    #[error(
        "the block at frame {pfn} was allocated with order {allocated}, not {order}; free it with order {allocated}"
    )]
    WrongOrder {
        /// The frame.
        pfn: Pfn,
        /// Order named when freeing.
        order: u32,
        /// Order named when allocating.
        allocated: u32,
    },
    /// The memory has no such frame.
    #[error("frame {pfn} does not exist in this memory")]
    NoSuchFrame {
        /// The frame.
        pfn: Pfn,
    },
    /// An order above the largest.
    #[error("order {order} is too large: accepted is 0-{ORDER_MAX}")]
    OrderTooLarge {
        /// The order asked for.
        order: u32,
    },
    /// A task that never entered, or has left.
    #[error("{task} is not known: it never entered, or it has left")]
    UnknownTask {
        /// The task.
        task: TaskId,
    },
    /// A CPU outside the description of the memory.
    #[error("cpu {cpu} does not exist: accepted is 0-{}", cpus.saturating_sub(1))]
    UnknownCpu {
        /// The CPU.
        cpu: u32,
        /// How many there are.
        cpus: u32,
    },
    /// A policy names a color that does not exist.
    #[error("{what} {index} does not exist: accepted is 0-{}", count.saturating_sub(1))]
    NoSuchColor {
        /// The kind of color.
        what: &'static str,
        /// The largest number named.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// No frame has the policy's colors together.
    #[error("no frame of this memory has the colors {colors} together; widen one of the lists")]
    EmptyPolicy {
        /// The colors.
        colors: String,
    },
    /// A system cannot express a part of the policy.
    #[error("{system} cannot honor {what}; accepted is {accepted}")]
    Unsupported {
        /// The system.
        system: &'static str,
        /// The unsupported part.
        what: &'static str,
        /// The supported alternative.
        accepted: &'static str,
    },
    /// Every color is taken and none may be shared.
    #[error("{system}: {wanted} colors wanted, {classes} exist; accepted is 1-{classes}")]
    TooManyColorsWanted {
        /// The system.
        system: &'static str,
        /// Colors wanted.
        wanted: u32,
        /// Colors there are.
        classes: u32,
    },
    /// A range without frames, or none at all.
    #[error(
        "memory range {range} has no frames: first {start}, end {end} (excluded); accepted is an end above the first"
    )]
    EmptyRange {
        /// Index of the range.
        range: usize,
        /// First frame.
        start: Pfn,
        /// End, excluded.
        end: Pfn,
    },
    /// No ranges, or no CPUs.
    #[error("memory without {what}; accepted is at least one")]
    Nothing {
        /// The missing part.
        what: &'static str,
    },
    /// Two ranges hold the same frame.
    #[error("memory ranges overlap at frame {pfn}; shorten one")]
    Overlap {
        /// The first frame that both hold.
        pfn: Pfn,
    },
    /// Blocks would reach across zones.
    #[error("two zones meet inside the block of {} frames at frame {pfn}; accepted are zone boundaries at multiples of that \
             size", 1u64 << ORDER_MAX)]
    ZoneBoundary {
        /// First frame of the block.
        pfn: Pfn,
    },
    /// More than fits the tables.
    #[error("memory of {found} {what}: accepted are up to {accepted}")]
    TooLarge {
        /// The counted quantity.
        what: &'static str,
        /// How many.
        found: u64,
        /// The limit.
        accepted: u64,
    },
    /// A frame without a color.
    #[error("frame {pfn} has no color; accepted are ranges that the color function covers")]
    Uncolored {
        /// The frame.
        pfn: Pfn,
    },
    /// A color function that contradicts its own counts.
    #[error("frame {pfn} has {what} {found}: accepted is 0-{}", count.saturating_sub(1))]
    ColorOutOfRange {
        /// The frame.
        pfn: Pfn,
        /// Bank class, or set color.
        what: &'static str,
        /// The number found.
        found: u32,
        /// How many there should be.
        count: u32,
    },
    /// More colors than the tables hold.
    #[error("{found} different colors, accepted are up to {COLORS_MAX}; color by fewer functions or a larger granule")]
    TooManyColors {
        /// Colors found.
        found: usize,
    },
    /// A system that cannot share memory with the others.
    #[error(
        "{system} cannot share this memory: it {found}; accepted are systems made for the same memory and not yet used"
    )]
    NotShared {
        /// The system.
        system: &'static str,
        /// The obstacle.
        found: &'static str,
    },
    /// BPM reads a block's colors from its first frame, and here that is not enough.
    #[error(
        "bpm: blocks of order {order} that start in bank class {class} hold different sets of classes, at frame {pfn} and \
             before; accepted are mappings whose bits alone decide (no interleave by a modulus, no offset inside a block)"
    )]
    NotLinear {
        /// Order of the blocks.
        order: u32,
        /// Bank class of their first frames.
        class: u32,
        /// The block that differs.
        pfn: Pfn,
    },
    /// A MEM_ID outside the matrix of color lists.
    #[error("tintmalloc: bank class {class} has MEM_ID {mem_id}, and the matrix has {lists} rows; accepted is 0-{}",
            lists.saturating_sub(1))]
    MemIdOutsideMatrix {
        /// The bank class.
        class: u32,
        /// Its number by the formula.
        mem_id: u32,
        /// Rows of the matrix.
        lists: u32,
    },
    /// Numbers of another count than there are classes.
    #[error("tintmalloc: {found} numbers for {classes} bank classes; accepted is one for each")]
    MemIdCount {
        /// Numbers given.
        found: usize,
        /// Bank classes of the memory.
        classes: u32,
    },
}
