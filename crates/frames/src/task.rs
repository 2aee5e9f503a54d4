//! The requesting task, and the frames it may have.

use std::fmt;

use memtint_map::FrameColor;
use memtint_units::IndexSet;

use crate::error::FrameError;
use crate::memory::FrameMemory;

/// Identifies a task between [`enter`](crate::FrameAllocator::enter) and [`leave`](crate::FrameAllocator::leave). Numbers are reused, but
/// never in an equal `TaskId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    pub(crate) slot: u32,
    pub(crate) turn: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}.{}", self.slot, self.turn)
    }
}

/// The requesting task, and the CPU it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The task.
    pub task: TaskId,
    /// The CPU: its per-CPU lists are used, and its node comes first.
    pub cpu: u32,
}

/// The effect of exhausted colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The allocation fails.
    #[default]
    Strict,
    /// Any frame is given, and counted as out of color.
    Soft,
}

/// The colors a task may have: a frame is in color when all three lists contain its part. `None` means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Bank classes.
    pub banks: Option<IndexSet>,
    /// Set colors.
    pub sets: Option<IndexSet>,
    /// Nodes, as the color function numbers them.
    pub nodes: Option<IndexSet>,
    /// What to do without such frames.
    pub mode: Mode,
}

impl Policy {
    /// Allows everything.
    #[must_use]
    pub fn any() -> Policy {
        Policy::default()
    }

    /// Allows these bank classes only.
    #[must_use]
    pub fn banks(banks: IndexSet) -> Policy {
        Policy { banks: Some(banks), ..Policy::default() }
    }

    /// Returns whether every color is allowed.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.banks.is_none() && self.sets.is_none() && self.nodes.is_none()
    }

    /// Returns whether a frame of this color is allowed.
    #[must_use]
    pub fn allows(&self, color: FrameColor) -> bool {
        let holds = |list: &Option<IndexSet>, part| list.as_ref().is_none_or(|list| list.contains(part));
        holds(&self.banks, color.bank_class) && holds(&self.sets, color.set_color) && holds(&self.nodes, color.node)
    }

    /// Checks the policy against a memory and makes it a set of color numbers.
    pub(crate) fn wanted(&self, memory: &FrameMemory) -> Result<Wanted, FrameError> {
        if self.is_any() {
            return Ok(Wanted(None));
        }
        let nodes = memory.colors().iter().map(|color| color.node + 1).max().unwrap_or(0);
        let lists = [
            ("bank class", &self.banks, memory.bank_classes()),
            ("set color", &self.sets, memory.set_colors()),
            ("node", &self.nodes, nodes),
        ];
        for (what, list, count) in lists {
            if let Some(index) = list.as_ref().and_then(IndexSet::last).filter(|&last| last >= count) {
                return Err(FrameError::NoSuchColor { what, index, count });
            }
        }
        let mut words = vec![0u64; memory.colors().len().div_ceil(64)];
        for number in (0..memory.colors().len()).filter(|&number| self.allows(memory.colors()[number])) {
            words[number / 64] |= 1 << (number % 64);
        }
        if words.iter().all(|&word| word == 0) {
            return Err(FrameError::EmptyPolicy { colors: self.to_string() });
        }
        Ok(Wanted(Some(words)))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("bank classes", &self.banks), ("set colors", &self.sets), ("nodes", &self.nodes)];
        let named = parts.iter().filter_map(|(name, list)| list.as_ref().map(|list| format!("{name} {list}")));
        let text = named.collect::<Vec<_>>().join(", ");
        f.write_str(if text.is_empty() { "any" } else { &text })
    }
}

/// A set of color numbers; `None` holds all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted(pub(crate) Option<Vec<u64>>);

impl Wanted {
    #[inline]
    pub(crate) fn has(&self, color: u32) -> bool {
        match &self.0 {
            None => true,
            Some(words) => words[color as usize / 64] >> (color % 64) & 1 == 1,
        }
    }
}

/// A task's description of itself when it enters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The policy. CAMC chooses colors by itself and takes only their number from here.
    pub policy: Policy,
    /// CPU it starts on.
    pub cpu: u32,
    /// User it runs for; CAMC colors the tasks of registered users.
    pub user: u32,
    /// Path of its program; CAMC colors those that match a pattern.
    pub path: String,
}

impl Profile {
    /// A task with this policy on CPU 0, of user 0, without a path.
    #[must_use]
    pub fn of(policy: Policy) -> Profile {
        Profile { policy, ..Profile::default() }
    }
}

/// Frames given to a task since it entered; frees do not lower the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Frames in the task's colors.
    pub in_color: u64,
    /// Frames out of its colors.
    pub out_of_color: u64,
}
