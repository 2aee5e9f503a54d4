//! Counters.

use crate::config::TaskClass;

/// The level that served an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// First-level cache.
    L1,
    /// Private second-level cache.
    L2,
    /// The last-level cache of the core's node.
    Llc,
    /// A private cache of another core, or a last-level cache of another node; memory was not read.
    Peer,
    /// Memory.
    Memory,
}

impl Level {
    /// All levels, from the core outwards.
    pub const ALL: [Level; 5] = [Level::L1, Level::L2, Level::Llc, Level::Peer, Level::Memory];
}

/// Kind of access to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Load data.
    Read,
    /// Store data; a line that is absent is fetched first (write-allocate).
    Write,
    /// Fetch instructions.
    Fetch,
}

impl AccessKind {
    /// All kinds.
    pub const ALL: [AccessKind; 3] = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch];
}

/// Counts demand accesses by kind and by the level that served them. Prefetches are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    answered: [[u64; Level::ALL.len()]; AccessKind::ALL.len()],
    /// Writes that invalidated copies of other cores; these also count at the level of the hit.
    pub upgrades: u64,
}

impl AccessCounts {
    #[inline(always)]
    pub(crate) fn count(&mut self, kind: AccessKind, level: Level) {
        self.answered[kind as usize][level as usize] += 1;
    }

    /// Returns the accesses of a kind that a level served.
    #[must_use]
    pub fn answered(&self, kind: AccessKind, level: Level) -> u64 {
        self.answered[kind as usize][level as usize]
    }

    /// Gives the hits of a level, of all kinds.
    #[must_use]
    pub fn hits(&self, level: Level) -> u64 {
        AccessKind::ALL.iter().map(|&kind| self.answered(kind, level)).sum()
    }

    /// Returns the accesses that missed a level and were served further out.
    #[must_use]
    pub fn misses(&self, level: Level) -> u64 {
        Level::ALL.iter().filter(|&&further| further > level).map(|&further| self.hits(further)).sum()
    }

    /// Gives all accesses.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        Level::ALL.iter().map(|&level| self.hits(level)).sum()
    }

    pub(crate) fn add(&mut self, other: &AccessCounts) {
        for (mine, theirs) in self.answered.as_flattened_mut().iter_mut().zip(other.answered.as_flattened()) {
            *mine += theirs;
        }
        self.upgrades += other.upgrades;
    }
}

/// Counts events of the lines of one cache: fills = evictions + removals + resident lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Lines filled.
    pub fills: u64,
    /// Lines replaced by others.
    pub evictions: u64,
    /// Lines removed without a replacement: by an inclusive last level, by a write of another core, by a move towards
    /// the core (exclusive last level), by [`Hierarchy::drain`](crate::Hierarchy::drain).
    pub removals: u64,
}

/// Counts prefetches of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchCounts {
    /// Lines filled by [`Hierarchy::prefetch`](crate::Hierarchy::prefetch).
    pub filled: u64,
    /// Prefetches of lines that were already present.
    pub present: u64,
    /// Prefetched lines that were used before their eviction.
    pub useful: u64,
    /// Prefetched lines that were evicted unused.
    pub useless: u64,
}

/// Counts events in the last-level sets of one set color, including prefetches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColorCounts {
    /// Lookups that found the line.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Lines replaced by others.
    pub evictions: u64,
    /// Those of them that were replaced by a line of another class.
    pub evictions_by_others: u64,
}

/// Counts interference between classes in the last-level caches, all nodes together.
///
/// A line belongs to the class whose access or prefetch filled it, regardless of later users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlcCounts {
    classes: usize,
    evictions: Vec<u64>,
    pub(crate) resident: Vec<u64>,
    /// Lines of each class that were removed from private caches because an inclusive last level replaced them with a
    /// line of another class.
    pub(crate) back_invalidations_by_others: Vec<u64>,
    /// Lines removed from private caches because an inclusive last level replaced them.
    pub back_invalidations: u64,
}

impl LlcCounts {
    pub(crate) fn new(classes: usize) -> LlcCounts {
        LlcCounts {
            classes,
            evictions: vec![0; classes * classes],
            resident: vec![0; classes],
            back_invalidations_by_others: vec![0; classes],
            back_invalidations: 0,
        }
    }

    pub(crate) fn evicted(&mut self, victim: u8, by: u8) {
        self.evictions[usize::from(victim) * self.classes + usize::from(by)] += 1;
        self.resident[usize::from(victim)] -= 1;
    }

    /// Gives how many lines of `victim` were replaced by lines of `by`.
    ///
    /// # Panics
    /// When a class is not below the number of classes.
    #[must_use]
    pub fn evictions(&self, victim: TaskClass, by: TaskClass) -> u64 {
        let (victim, by) = (usize::from(victim.0), usize::from(by.0));
        assert!(victim < self.classes && by < self.classes, "classes are below {}", self.classes);
        self.evictions[victim * self.classes + by]
    }

    /// Gives how many lines of a class were replaced by lines of other classes.
    ///
    /// # Panics
    /// When the class is not below the number of classes.
    #[must_use]
    pub fn evictions_by_others(&self, victim: TaskClass) -> u64 {
        let others = (0..self.classes).filter(|&by| by != usize::from(victim.0));
        others.map(|by| self.evictions(victim, TaskClass(by as u8))).sum()
    }

    /// Gives how many private copies of lines of a class were lost because another class took the line's place in an
    /// inclusive last level.
    ///
    /// # Panics
    /// When the class is not below the number of classes.
    #[must_use]
    pub fn back_invalidations_by_others(&self, victim: TaskClass) -> u64 {
        self.back_invalidations_by_others[usize::from(victim.0)]
    }

    /// Returns how many lines of a class are resident.
    ///
    /// # Panics
    /// When the class is not below the number of classes.
    #[must_use]
    pub fn resident(&self, class: TaskClass) -> u64 {
        self.resident[usize::from(class.0)]
    }
}
