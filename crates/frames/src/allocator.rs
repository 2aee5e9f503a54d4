//! The trait that all allocators implement.

use memtint_units::Pfn;

use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::task::{Caller, Policy, Profile, TaskId, Usage};

/// Guarantees of a system. The conformance suite verifies each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// Single frames are of the task's bank classes, or refused.
    pub banks: bool,
    /// Single frames are of the task's set colors, or refused.
    pub sets: bool,
    /// Single frames are of the task's nodes, or refused.
    pub nodes: bool,
    /// Soft mode is accepted, and frames out of color are counted.
    pub soft: bool,
    /// Larger blocks are in color as well.
    pub blocks_in_color: bool,
    /// When everything is freed and flushed, all blocks have merged again.
    pub merges: bool,
    /// The system chooses a task's colors by itself; the policy only sets their number.
    pub chooses: bool,
    /// The number of steps of an allocation has a bound that does not depend on the size of memory or of any list.
    pub constant_time: bool,
}

impl Promises {
    /// None of them; a system lists the exceptions.
    pub const NONE: Promises = Promises {
        banks: false,
        sets: false,
        nodes: false,
        soft: false,
        blocks_in_color: false,
        merges: false,
        chooses: false,
        constant_time: false,
    };
}

/// Where the frames are. `held + lost + elsewhere + free() = frames` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All frames.
    pub frames: u64,
    /// Handed out and not yet given back.
    pub held: u64,
    /// In blocks that can merge and be handed out in any size.
    pub in_blocks: u64,
    /// On color lists of single frames: free for their color only, out of reach for everything else.
    pub on_color_lists: u64,
    /// On per-CPU lists.
    pub on_cpu_lists: u64,
    /// Forgotten by an algorithm as printed.
    pub lost: u64,
    /// Held, kept or forgotten by other systems of a [`Shared`](crate::Shared) memory.
    pub elsewhere: u64,
    /// Free blocks of each order; the index is the order.
    pub blocks: [u64; ORDER_MAX as usize + 1],
    /// Frames handed out so far in the colors of the requesting task; requests without colors count here.
    pub given_in_color: u64,
    /// Frames handed out so far that the requesting task's policy does not allow.
    pub given_out_of_color: u64,
}

impl Counts {
    /// Counts frames that are not held, not lost, and not kept by another system.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.in_blocks + self.on_color_lists + self.on_cpu_lists
    }
}

/// Work done since the allocator was made, in units that are the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// List heads, or words of 64 of them, that were examined.
    pub lookups: u64,
    /// Frames and blocks put on a list or taken off one.
    pub moves: u64,
    /// Blocks halved.
    pub splits: u64,
    /// Blocks joined with their buddy.
    pub merges: u64,
}

impl Steps {
    /// Adds up all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lookups + self.moves + self.splits + self.merges
    }

    /// Gives the work since an earlier count.
    #[must_use]
    pub fn since(&self, earlier: &Steps) -> Steps {
        Steps {
            lookups: self.lookups - earlier.lookups,
            moves: self.moves - earlier.moves,
            splits: self.splits - earlier.splits,
            merges: self.merges - earlier.merges,
        }
    }
}

/// Hands out page frames to tasks.
///
/// A simulator lets each task [`enter`](FrameAllocator::enter) with its policy, requests a frame at each first touch, and frees frames when
/// a mapping ends. An allocator never loses count: a frame is held or free, never both.
///
/// Equal memory, configuration and calls give equal frames.
pub trait FrameAllocator {
    /// Gives the name of the system, lower case.
    fn name(&self) -> &'static str;

    /// Gives the guarantees of the system.
    fn promises(&self) -> Promises;

    /// Gives the memory.
    fn memory(&self) -> &FrameMemory;

    /// Admits a task.
    ///
    /// # Errors
    /// [`FrameError::UnknownCpu`]; [`FrameError::NoSuchColor`] or [`FrameError::EmptyPolicy`] when no frame can satisfy the
    /// policy; [`FrameError::Unsupported`] when the system cannot express it (the buddy allocator accepts every policy,
    /// honors none, and counts).
    fn enter(&mut self, profile: &Profile) -> Result<TaskId, FrameError>;

    /// Dismisses a task. Its frames stay held: the caller owns the page tables, and frees the frames they map.
    ///
    /// # Errors
    /// [`FrameError::UnknownTask`].
    fn leave(&mut self, task: TaskId) -> Result<(), FrameError>;

    /// Changes a task's policy, from the next allocation on.
    ///
    /// # Errors
    /// As [`FrameAllocator::enter`]; the task then keeps its policy.
    fn set_policy(&mut self, task: TaskId, policy: &Policy) -> Result<(), FrameError>;

    /// Gives the policy in effect for a task: with CAMC the assigned colors.
    ///
    /// # Errors
    /// [`FrameError::UnknownTask`].
    fn policy(&self, task: TaskId) -> Result<&Policy, FrameError>;

    /// Hands out one frame.
    ///
    /// # Errors
    /// [`FrameError::OutOfColor`] for a task with colors, else [`FrameError::OutOfMemory`], with numbers;
    /// [`FrameError::UnknownTask`], [`FrameError::UnknownCpu`].
    fn allocate(&mut self, caller: Caller) -> Result<Pfn, FrameError> {
        self.allocate_block(caller, 0)
    }

    /// Hands out `2^order` consecutive frames, the first aligned to their number.
    ///
    /// # Errors
    /// As [`FrameAllocator::allocate`], and [`FrameError::OrderTooLarge`].
    fn allocate_block(&mut self, caller: Caller, order: u32) -> Result<Pfn, FrameError>;

    /// Takes one frame back. The caller need not be the task that requested it.
    ///
    /// # Errors
    /// [`FrameError::NotAllocated`] for a frame that is not held (freed twice), [`FrameError::WrongOrder`],
    /// [`FrameError::NoSuchFrame`], [`FrameError::UnknownTask`], [`FrameError::UnknownCpu`]. Nothing changes then.
    fn free(&mut self, caller: Caller, pfn: Pfn) -> Result<(), FrameError> {
        self.free_block(caller, pfn, 0)
    }

    /// Takes a block back, whole.
    ///
    /// # Errors
    /// As [`FrameAllocator::free`].
    fn free_block(&mut self, caller: Caller, pfn: Pfn, order: u32) -> Result<(), FrameError>;

    /// Empties the per-CPU lists into the free blocks.
    fn flush(&mut self);

    /// Counts frames.
    fn counts(&self) -> Counts;

    /// Counts the free frames that a policy allows, wherever they are.
    ///
    /// # Errors
    /// As for the policy in [`FrameAllocator::enter`].
    fn free_in_color(&self, policy: &Policy) -> Result<u64, FrameError>;

    /// Counts the frames given to a task.
    ///
    /// # Errors
    /// [`FrameError::UnknownTask`].
    fn usage(&self, task: TaskId) -> Result<Usage, FrameError>;

    /// Counts the work done so far.
    fn steps(&self) -> Steps;

    /// Walks the whole structure and counts contradictions; 0 is right. For tests: linear in the memory.
    fn faults(&self) -> usize;
}
