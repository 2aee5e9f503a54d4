//! All caches of a machine, and the movement of lines between them.
//!
//! ```text
//!            read                                    write-back
//! core -> L1 -> L2 -> LLC -> memory       L1 -> L2 -> LLC -> memory
//!         miss() |     |                  displaced_by_l1, displaced_by_l2, displaced_by_llc
//!                |  fetch(): LLC, then peers, then memory
//! ```

use crate::array::{Facts, Gone, Slot, TagArray};
use crate::config::{CacheConfig, HierarchyConfig, Inclusion, Latencies, LlcConfig, TaskClass, WayMask};
use crate::error::CacheError;
use crate::mshr::MshrFile;
use crate::prefetch::{PROPOSALS_MAX, Prefetcher, Proposals};
use crate::stats::{AccessCounts, AccessKind, CacheCounts, ColorCounts, Level, LlcCounts, PrefetchCounts};
use memtint_map::Palette;
use memtint_units::{PAGE_SIZE, PhysAddr};
use std::ops::Range;

/// Most lines that one access can send to memory: a chain of victims from the first, the second and the last level.
pub const WRITEBACKS_MAX: usize = 4;
/// Misses of one line that fit a register; assumed, since no figure is published.
const MSHR_WAITERS_ASSUMED: u32 = 16;
/// The color of sets that no frame of the palette's regions reaches.
const NO_COLOR: u32 = u32::MAX;

/// Up to four line addresses, without allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    items: [PhysAddr; 4],
    len: u8,
}

impl Lines {
    /// Gives the addresses of the first bytes of the lines.
    #[must_use]
    pub fn as_slice(&self) -> &[PhysAddr] {
        &self.items[..usize::from(self.len)]
    }

    fn push(&mut self, addr: PhysAddr) {
        self.items[usize::from(self.len)] = addr;
        self.len += 1;
    }
}

const _: () = assert!(WRITEBACKS_MAX <= 4 && PROPOSALS_MAX <= 4, "Lines holds four");

/// The effects of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "memory traffic that is not looked at is lost"]
pub struct Outcome {
    /// The level that had the line. [`Level::Memory`]: the line must be read from memory.
    pub level: Level,
    /// The access is a write that first had to invalidate the copies of other cores.
    pub upgraded: bool,
    /// Dirty lines that go to memory now, at most [`WRITEBACKS_MAX`].
    pub writebacks: Lines,
    /// Lines that the prefetchers propose and that this core's caches do not have. Nothing happens to them until the
    /// caller passes them to [`Hierarchy::prefetch`]; it may drop them.
    pub prefetches: Lines,
}

impl Outcome {
    #[inline(always)]
    fn at(level: Level) -> Outcome {
        Outcome { level, upgraded: false, writebacks: Lines::default(), prefetches: Lines::default() }
    }
}

/// Names one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheId {
    /// First-level data cache of a core.
    L1Data(usize),
    /// First-level instruction cache of a core.
    L1Instruction(usize),
    /// Second-level cache of a core.
    L2(usize),
    /// Last-level cache, by instance.
    Llc(usize),
}

/// The caches of a machine, with their contents; see the crate's documentation for what the model leaves out.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    config: HierarchyConfig,
    line_shift: u32,
    lines_end: u64,
    classes: usize,
    inclusion: Inclusion,
    coherent: bool,
    private: Vec<Private>,
    llc: Vec<Last>,
    way_masks: Vec<u128>,
    counts: Vec<AccessCounts>,
    llc_counts: LlcCounts,
    colors: Option<Colors>,
}

/// The private caches of a core.
#[derive(Clone, Debug)]
struct Private {
    data: TagArray,
    instruction: Option<TagArray>,
    l2: Option<TagArray>,
    home: usize,
    prefetcher: Option<Prefetcher>,
    prefetches: PrefetchCounts,
    mshrs: [Option<MshrFile>; 3],
}

#[derive(Clone, Debug)]
struct Last {
    tags: TagArray,
    cores: Range<usize>,
    mshrs: MshrFile,
}

#[derive(Clone, Debug)]
struct Colors {
    of_set: Vec<u32>,
    counts: Vec<ColorCounts>,
}

/// The result of a lookup beyond the private caches.
struct Fetched {
    level: Level,
    dirty: bool,
    unique: bool,
}

#[derive(Clone, Copy, Default)]
struct Snooped {
    found: bool,
    dirty: bool,
}

impl Private {
    fn arrays(&mut self) -> impl Iterator<Item = &mut TagArray> {
        std::iter::once(&mut self.data).chain(self.instruction.as_mut()).chain(self.l2.as_mut())
    }

    #[inline(always)]
    fn l1(&mut self, kind: AccessKind) -> &mut TagArray {
        match (kind, &mut self.instruction) {
            (AccessKind::Fetch, Some(instruction)) => instruction,
            _ => &mut self.data,
        }
    }

    /// Removes the line from every cache of the core.
    fn remove(&mut self, line: u64) -> Snooped {
        let mut snooped = Snooped::default();
        for array in self.arrays() {
            if let Some(slot) = array.find(line) {
                snooped = Snooped { found: true, dirty: snooped.dirty | array.remove(slot).has(Facts::DIRTY) };
            }
        }
        snooped
    }

    /// Makes the copies clean and not unique; the requester takes over dirty data, if any.
    fn share(&mut self, line: u64) -> Snooped {
        let mut snooped = Snooped::default();
        for array in self.arrays() {
            if let Some(slot) = array.find(line) {
                let facts = array.facts(slot);
                snooped = Snooped { found: true, dirty: snooped.dirty | facts.has(Facts::DIRTY) };
                *facts = facts.without(Facts::DIRTY).without(Facts::UNIQUE);
            }
        }
        snooped
    }
}

impl Hierarchy {
    /// Makes empty caches.
    ///
    /// # Errors
    /// [`CacheError::Config`] with the first field that is not accepted.
    pub fn new(config: &HierarchyConfig) -> Result<Hierarchy, CacheError> {
        config.check()?;
        let instances = config.llc.instances as usize;
        let cores_per_instance = config.cores as usize / instances;
        let private = (0..config.cores as usize).map(|core| Private::new(config, core, core / cores_per_instance));
        let last = |instance| Last::new(config, instance, cores_per_instance);
        let line_shift = config.line.bytes().trailing_zeros();
        let classes = config.classes as usize;
        let llc = (0..instances).map(last).collect::<Result<Vec<_>, _>>()?;
        let mut way_masks = vec![llc[0].tags.all(); classes];
        for (mask, given) in way_masks.iter_mut().zip(&config.llc.way_masks) {
            *mask = given.0;
        }
        Ok(Hierarchy {
            line_shift,
            lines_end: config.address_end.div_ceil(config.line.bytes()),
            classes,
            inclusion: config.llc.inclusion,
            coherent: config.coherent,
            private: private.collect::<Result<_, _>>()?,
            llc,
            way_masks,
            counts: vec![AccessCounts::default(); config.cores as usize * classes],
            llc_counts: LlcCounts::new(classes),
            colors: None,
            config: config.clone(),
        })
    }

    /// Performs an access of a core, by a task of a class: finds the line, fills it into the first level, and returns
    /// the effects on memory. All tags change at once; the caller models time.
    ///
    /// # Panics
    /// When the core or the class does not exist, or the address is not below `address_end`: a result for another
    /// machine would be worse.
    #[inline]
    pub fn access(&mut self, core: usize, class: TaskClass, addr: PhysAddr, kind: AccessKind) -> Outcome {
        let line = addr.0 >> self.line_shift;
        self.check(class, line);
        let l1 = self.private[core].l1(kind);
        let Some(slot) = l1.find(line) else { return self.miss(core, class, line, kind) };
        l1.touch(slot);
        if kind == AccessKind::Write {
            let facts = l1.facts(slot);
            if !facts.has(Facts::UNIQUE) {
                return self.write_shared(core, class, line);
            }
            *facts = facts.with(Facts::DIRTY);
        }
        self.counts[core * self.classes + usize::from(class.0)].count(kind, Level::L1);
        Outcome::at(Level::L1)
    }

    /// Fills a line into the core's second level (first data cache without one) ahead of its use. Does nothing if the
    /// core has the line. Counted separately from accesses; does not train the prefetchers.
    ///
    /// # Panics
    /// As [`Hierarchy::access`].
    pub fn prefetch(&mut self, core: usize, class: TaskClass, addr: PhysAddr) -> Outcome {
        let line = addr.0 >> self.line_shift;
        self.check(class, line);
        if let Some(level) = self.level_in_core(core, line) {
            self.private[core].prefetches.present += 1;
            return Outcome::at(level);
        }
        let mut outcome = Outcome::at(Level::Memory);
        let fetched = self.fetch(core, class, line, false, &mut outcome);
        outcome.level = fetched.level;
        let facts = Facts::owned_by(class.0).with(Facts::PREFETCHED);
        let facts = facts.with_if(fetched.unique, Facts::UNIQUE).with_if(fetched.dirty, Facts::DIRTY);
        self.private[core].prefetches.filled += 1;
        match self.private[core].l2 {
            Some(_) => self.fill_l2(core, line, facts, &mut outcome),
            None => self.fill_l1(core, line, facts, AccessKind::Read, &mut outcome),
        }
        outcome
    }

    #[inline(always)]
    fn check(&self, class: TaskClass, line: u64) {
        assert!(line < self.lines_end, "addresses end at {:#x}", self.config.address_end);
        assert!(usize::from(class.0) < self.classes, "classes are below {}", self.classes);
    }

    /// Removes the line of an address from every cache, as `clflush` and `dc civac` do. Returns whether it was dirty
    /// anywhere, and thus must be written to memory.
    ///
    /// # Panics
    /// When the address is not below `address_end`.
    pub fn flush(&mut self, addr: PhysAddr) -> bool {
        let line = addr.0 >> self.line_shift;
        assert!(line < self.lines_end, "addresses end at {:#x}", self.config.address_end);
        let mut dirty = false;
        for private in &mut self.private {
            dirty |= private.remove(line).dirty;
        }
        for last in &mut self.llc {
            if let Some(slot) = last.tags.find(line) {
                let facts = last.tags.remove(slot);
                self.llc_counts.resident[usize::from(facts.owner())] -= 1;
                dirty |= facts.has(Facts::DIRTY);
            }
        }
        dirty
    }

    fn level_in_core(&mut self, core: usize, line: u64) -> Option<Level> {
        let private = &mut self.private[core];
        let in_l1 = private.data.find(line).is_some();
        let in_l2 = || private.l2.as_ref().is_some_and(|l2| l2.find(line).is_some());
        if in_l1 { Some(Level::L1) } else { in_l2().then_some(Level::L2) }
    }

    /// Writes a line that is in the first level and may have copies elsewhere.
    #[cold]
    #[inline(never)]
    fn write_shared(&mut self, core: usize, class: TaskClass, line: u64) -> Outcome {
        let mut outcome = Outcome::at(Level::L1);
        outcome.upgraded = self.take_from_others(core, line).found;
        let private = &mut self.private[core];
        for array in private.arrays() {
            if let Some(slot) = array.find(line) {
                let facts = array.facts(slot);
                *facts = facts.with(Facts::UNIQUE);
            }
        }
        let slot = private.data.find(line).expect("the caller found it there");
        let facts = private.data.facts(slot);
        *facts = facts.with(Facts::DIRTY);
        self.count(core, class, AccessKind::Write, &outcome);
        outcome
    }

    fn count(&mut self, core: usize, class: TaskClass, kind: AccessKind, outcome: &Outcome) {
        let counts = &mut self.counts[core * self.classes + usize::from(class.0)];
        counts.count(kind, outcome.level);
        counts.upgrades += u64::from(outcome.upgraded);
    }

    /// The rest of an access that missed the first level.
    #[inline(never)]
    fn miss(&mut self, core: usize, class: TaskClass, line: u64, kind: AccessKind) -> Outcome {
        let write = kind == AccessKind::Write;
        let mut outcome = Outcome::at(Level::L2);
        let mut facts = Facts::owned_by(class.0);
        if let Some(unique) = self.hit_l2(core, line) {
            let taken = if write && !unique { self.take_from_others(core, line) } else { Snooped::default() };
            outcome.upgraded = taken.found;
            facts = facts.with_if(unique || write, Facts::UNIQUE).with_if(taken.dirty, Facts::DIRTY);
        } else {
            let fetched = self.fetch(core, class, line, write, &mut outcome);
            outcome.level = fetched.level;
            facts = facts.with_if(fetched.unique, Facts::UNIQUE);
            if self.private[core].l2.is_some() {
                self.fill_l2(core, line, facts.with_if(fetched.dirty, Facts::DIRTY), &mut outcome);
            } else {
                facts = facts.with_if(fetched.dirty, Facts::DIRTY);
            }
        }
        self.fill_l1(core, line, facts.with_if(write, Facts::DIRTY), kind, &mut outcome);
        if self.private[core].prefetcher.is_some() {
            self.propose(core, line, &mut outcome);
        }
        self.count(core, class, kind, &outcome);
        outcome
    }

    /// Uses a line of the second level; returns whether it is unique, `None` when it is absent.
    #[inline(always)]
    fn hit_l2(&mut self, core: usize, line: u64) -> Option<bool> {
        let private = &mut self.private[core];
        let l2 = private.l2.as_mut()?;
        let slot = l2.find(line)?;
        l2.touch(slot);
        let facts = l2.facts(slot);
        private.prefetches.useful += u64::from(facts.has(Facts::PREFETCHED));
        *facts = facts.without(Facts::PREFETCHED);
        Some(facts.has(Facts::UNIQUE))
    }

    /// Trains the prefetchers, and keeps their proposals of lines that the core does not have.
    fn propose(&mut self, core: usize, line: u64, outcome: &mut Outcome) {
        let prefetcher = self.private[core].prefetcher.as_mut().expect("asked by the caller");
        let Proposals { lines, count } = prefetcher.train(line, outcome.level > Level::L2);
        for &candidate in &lines[..count] {
            if candidate < self.lines_end && self.level_in_core(core, candidate).is_none() {
                outcome.prefetches.push(PhysAddr(candidate << self.line_shift));
            }
        }
    }

    /// Finds a line beyond the private caches: in the last level, in caches of other cores and nodes, or in memory.
    fn fetch(&mut self, core: usize, class: TaskClass, line: u64, write: bool, outcome: &mut Outcome) -> Fetched {
        let home = self.private[core].home;
        let set = self.llc[home].tags.set(line);
        let slot = self.llc[home].tags.find_in(set, line);
        self.count_color(set, |counts| match slot {
            Some(_) => counts.hits += 1,
            None => counts.misses += 1,
        });
        let snooped = self.snoop(core, line, write, slot);
        let mut fetched = Fetched {
            level: if slot.is_some() { Level::Llc } else { Level::Memory },
            dirty: snooped.dirty,
            unique: write || !snooped.found,
        };
        if snooped.dirty || slot.is_none() && snooped.found {
            fetched.level = Level::Peer;
        }
        outcome.upgraded |= write && snooped.found;
        match (self.inclusion, slot) {
            (Inclusion::Exclusive, None) => {}
            (Inclusion::Exclusive, Some(slot)) => {
                let facts = self.llc[home].tags.remove(slot);
                self.llc_counts.resident[usize::from(facts.owner())] -= 1;
                fetched.dirty |= facts.has(Facts::DIRTY);
            }
            (_, Some(slot)) => {
                let tags = &mut self.llc[home].tags;
                tags.touch(slot);
                let facts = tags.facts(slot);
                *facts = facts.with_holder(core);
            }
            (_, None) => self.fill_llc(home, set, line, Facts::owned_by(class.0).with_holder(core), outcome),
        }
        fetched
    }

    /// Snoops copies elsewhere. A read makes them clean and shared; a write invalidates them. `home_slot` is the line's
    /// position in the last level of the core's node.
    fn snoop(&mut self, core: usize, line: u64, write: bool, home_slot: Option<Slot>) -> Snooped {
        let mut snooped = Snooped::default();
        if !self.coherent || self.private.len() == 1 {
            return snooped;
        }
        let home = self.private[core].home;
        for instance in 0..self.llc.len() {
            let last = &mut self.llc[instance];
            let slot = if instance == home { home_slot } else { last.tags.find(line) };
            let holders = match (self.inclusion, slot) {
                (Inclusion::Inclusive, None) => continue,
                (Inclusion::Inclusive, Some(slot)) => last.tags.facts(slot).holders(),
                _ => u8::MAX,
            };
            if let Some(slot) = slot.filter(|_| instance != home) {
                let facts = *last.tags.facts(slot);
                snooped.found = true;
                snooped.dirty |= facts.has(Facts::DIRTY);
                *last.tags.facts(slot) = facts.without(Facts::DIRTY);
            }
            for other in last.cores.clone() {
                if other == core || holders >> (other % 8) & 1 == 0 {
                    continue;
                }
                let private = &mut self.private[other];
                let found = if write { private.remove(line) } else { private.share(line) };
                snooped.found |= found.found;
                snooped.dirty |= found.dirty;
            }
            // After the private copies, so that an inclusive last level never lacks a private line.
            if let Some(slot) = slot.filter(|_| write && instance != home) {
                let facts = self.llc[instance].tags.remove(slot);
                self.llc_counts.resident[usize::from(facts.owner())] -= 1;
            }
        }
        snooped
    }

    /// Invalidates all other copies of a line that the core has, before a write.
    fn take_from_others(&mut self, core: usize, line: u64) -> Snooped {
        let home = self.private[core].home;
        let slot = self.llc[home].tags.find(line);
        let mut snooped = self.snoop(core, line, true, slot);
        if let (Inclusion::Exclusive, Some(slot), true) = (self.inclusion, slot, snooped.found) {
            let facts = self.llc[home].tags.remove(slot);
            self.llc_counts.resident[usize::from(facts.owner())] -= 1;
            snooped.dirty |= facts.has(Facts::DIRTY);
        }
        snooped
    }

    #[inline]
    fn fill_l1(&mut self, core: usize, line: u64, facts: Facts, kind: AccessKind, outcome: &mut Outcome) {
        let l1 = self.private[core].l1(kind);
        let gone = l1.fill(line, facts, l1.all());
        if let Some(gone) = gone {
            self.displaced_by_l1(core, gone, outcome);
        }
    }

    /// Writes a dirty victim to the second level, and allocates it there when absent; drops a clean one.
    #[inline(always)]
    fn displaced_by_l1(&mut self, core: usize, gone: Gone, outcome: &mut Outcome) {
        let private = &mut self.private[core];
        let Some(l2) = &mut private.l2 else {
            private.prefetches.useless += u64::from(gone.facts.has(Facts::PREFETCHED));
            return self.displaced_private(core, gone, outcome);
        };
        if !gone.facts.has(Facts::DIRTY) {
            return;
        }
        match l2.find(gone.line) {
            Some(slot) => {
                let facts = l2.facts(slot);
                *facts = facts.with(Facts::DIRTY).with_if(gone.facts.has(Facts::UNIQUE), Facts::UNIQUE);
            }
            None => {
                if self.inclusion == Inclusion::Exclusive {
                    self.leave_llc(core, gone.line);
                }
                self.fill_l2(core, gone.line, gone.facts, outcome);
            }
        }
    }

    /// Drops the last level's copy of a line that moves to the second level, which has a newer one.
    fn leave_llc(&mut self, core: usize, line: u64) {
        let tags = &mut self.llc[self.private[core].home].tags;
        if let Some(slot) = tags.find(line) {
            let facts = tags.remove(slot);
            self.llc_counts.resident[usize::from(facts.owner())] -= 1;
        }
    }

    #[inline]
    fn fill_l2(&mut self, core: usize, line: u64, facts: Facts, outcome: &mut Outcome) {
        let private = &mut self.private[core];
        let l2 = private.l2.as_mut().expect("asked by the caller");
        if let Some(gone) = l2.fill(line, facts, l2.all()) {
            private.prefetches.useless += u64::from(gone.facts.has(Facts::PREFETCHED));
            self.displaced_private(core, gone, outcome);
        }
    }

    /// Moves the victim of an outermost private cache to the last level.
    #[inline(always)]
    fn displaced_private(&mut self, core: usize, gone: Gone, outcome: &mut Outcome) {
        let dirty = gone.facts.has(Facts::DIRTY);
        if !dirty && self.inclusion != Inclusion::Exclusive {
            return;
        }
        let home = self.private[core].home;
        let tags = &mut self.llc[home].tags;
        let set = tags.set(gone.line);
        match tags.find_in(set, gone.line) {
            Some(slot) => {
                let facts = tags.facts(slot);
                *facts = facts.with_if(dirty, Facts::DIRTY);
            }
            None => {
                assert!(self.inclusion != Inclusion::Inclusive, "an inclusive last level holds every private line");
                let facts = gone.facts.only_owner().with_if(dirty, Facts::DIRTY);
                self.fill_llc(home, set, gone.line, facts, outcome);
            }
        }
    }

    fn fill_llc(&mut self, home: usize, set: usize, line: u64, facts: Facts, outcome: &mut Outcome) {
        let by = facts.owner();
        self.llc_counts.resident[usize::from(by)] += 1;
        let allowed = self.way_masks[usize::from(by)];
        if let Some(gone) = self.llc[home].tags.fill_in(set, line, facts, allowed) {
            self.displaced_by_llc(home, set, gone, by, outcome);
        }
    }

    /// Evicts a line from the last level; an inclusive one also removes it from the private caches.
    fn displaced_by_llc(&mut self, home: usize, set: usize, gone: Gone, by: u8, outcome: &mut Outcome) {
        let owner = gone.facts.owner();
        let mut dirty = gone.facts.has(Facts::DIRTY);
        self.llc_counts.evicted(owner, by);
        self.count_color(set, |counts| {
            counts.evictions += 1;
            counts.evictions_by_others += u64::from(owner != by);
        });
        if self.inclusion == Inclusion::Inclusive {
            for core in self.llc[home].cores.clone() {
                if gone.facts.holders() >> (core % 8) & 1 == 0 {
                    continue;
                }
                let removed = self.private[core].remove(gone.line);
                dirty |= removed.dirty;
                self.llc_counts.back_invalidations += u64::from(removed.found);
                let others = &mut self.llc_counts.back_invalidations_by_others[usize::from(owner)];
                *others += u64::from(removed.found && owner != by);
            }
        }
        if dirty {
            outcome.writebacks.push(PhysAddr(gone.line << self.line_shift));
        }
    }

    #[inline(always)]
    fn count_color(&mut self, set: usize, change: impl FnOnce(&mut ColorCounts)) {
        let Some(colors) = &mut self.colors else { return };
        let color = colors.of_set[set];
        if let Some(counts) = colors.counts.get_mut(color as usize) {
            change(counts);
        }
    }
}

impl Private {
    fn new(config: &HierarchyConfig, core: usize, home: usize) -> Result<Private, CacheError> {
        let array = |name: &str, cache: &CacheConfig, which: u64| -> Result<TagArray, CacheError> {
            let seed = seed_of(config.seed, core as u64 * 4 + which);
            Ok(TagArray::new(cache.index(name, config.line, &[])?, cache.ways, cache.replacement, seed))
        };
        let optional =
            |name, cache: Option<&CacheConfig>, which| cache.map(|cache| array(name, cache, which)).transpose();
        let mshrs = [Some(&config.l1_data), config.l1_instruction.as_ref(), config.l2.as_ref()];
        Ok(Private {
            data: array("l1_data", &config.l1_data, 0)?,
            instruction: optional("l1_instruction", config.l1_instruction.as_ref(), 1)?,
            l2: optional("l2", config.l2.as_ref(), 2)?,
            home,
            prefetcher: Prefetcher::new(config.prefetch, config.line.bytes().trailing_zeros()),
            prefetches: PrefetchCounts::default(),
            mshrs: mshrs.map(|cache| cache.map(|cache| MshrFile::new(cache.mshrs as usize, MSHR_WAITERS_ASSUMED))),
        })
    }
}

impl Last {
    fn new(config: &HierarchyConfig, instance: usize, cores: usize) -> Result<Last, CacheError> {
        let LlcConfig { cache, .. } = &config.llc;
        let seed = seed_of(config.seed, 4 * u64::from(config.cores) + instance as u64);
        Ok(Last {
            tags: TagArray::new(config.llc.index(config.line)?, cache.ways, cache.replacement, seed),
            cores: instance * cores..(instance + 1) * cores,
            mshrs: MshrFile::new(cache.mshrs as usize, MSHR_WAITERS_ASSUMED),
        })
    }
}

/// Gives each cache a separate generator, so that draws of one cache do not affect those of another.
fn seed_of(seed: u64, cache: u64) -> u64 {
    memtint_units::random::at(seed ^ (cache + 1).wrapping_mul(0xd6e8_feb8_6659_fd93), 0)
}

/// Settings and results.
impl Hierarchy {
    /// Gives the configuration, with the way masks it started with.
    #[must_use]
    pub fn config(&self) -> &HierarchyConfig {
        &self.config
    }

    /// Gives the latencies, for the caller to add.
    #[must_use]
    pub fn latencies(&self) -> &Latencies {
        &self.config.latencies
    }

    /// Changes the ways into which a class may bring lines from now on. Lines in other ways stay and can be hit.
    ///
    /// # Errors
    /// [`CacheError::Config`] when the class does not exist, or the mask is empty or names ways that do not exist.
    pub fn set_way_mask(&mut self, class: TaskClass, mask: WayMask) -> Result<(), CacheError> {
        if usize::from(class.0) >= self.classes {
            return crate::error::refuse("class", class.0, format!("0 to {}", self.classes - 1));
        }
        self.config.llc.check_mask(usize::from(class.0), mask)?;
        self.way_masks[usize::from(class.0)] = mask.0;
        Ok(())
    }

    /// Starts counting by set color and resets the counts. Sets that no frame of the palette's regions reaches have no
    /// color and are not counted. Visits frames of each region in order until the color of every set is known: a few
    /// hundred where low address bits index the sets, at most all of them.
    pub fn count_set_colors(&mut self, palette: &Palette) {
        let tags = &self.llc[0].tags;
        let mut of_set = vec![NO_COLOR; tags.sets()];
        let mut unknown = tags.sets();
        for region in palette.platform().regions() {
            let (mut page, end) = (region.base.0, region.end().0);
            while page < end && unknown > 0 {
                let color = palette.set_color(PhysAddr(page)).unwrap_or(NO_COLOR);
                for addr in (page..page + PAGE_SIZE).step_by(1 << self.line_shift) {
                    let known = &mut of_set[tags.set(addr >> self.line_shift)];
                    unknown -= usize::from(*known == NO_COLOR && color != NO_COLOR);
                    *known = color;
                }
                page += PAGE_SIZE;
            }
        }
        let counts = vec![ColorCounts::default(); palette.set_colors() as usize];
        self.colors = Some(Colors { of_set, counts });
    }

    /// Returns the counts of each set color, by color; `None` before [`Hierarchy::count_set_colors`].
    #[must_use]
    pub fn color_counts(&self) -> Option<&[ColorCounts]> {
        self.colors.as_ref().map(|colors| colors.counts.as_slice())
    }

    /// Gives the accesses of one class on one core.
    ///
    /// # Panics
    /// When one of them does not exist.
    #[must_use]
    pub fn counts(&self, core: usize, class: TaskClass) -> AccessCounts {
        assert!(usize::from(class.0) < self.classes, "classes are below {}", self.classes);
        self.counts[core * self.classes + usize::from(class.0)]
    }

    /// Gives the accesses of a core, all classes together.
    ///
    /// # Panics
    /// When it does not exist.
    #[must_use]
    pub fn core_counts(&self, core: usize) -> AccessCounts {
        sum(&self.counts[core * self.classes..][..self.classes])
    }

    /// Gives the accesses of a class, all cores together.
    ///
    /// # Panics
    /// When it does not exist.
    #[must_use]
    pub fn class_counts(&self, class: TaskClass) -> AccessCounts {
        assert!(usize::from(class.0) < self.classes, "classes are below {}", self.classes);
        sum(self.counts.iter().skip(usize::from(class.0)).step_by(self.classes))
    }

    /// Returns the interference between classes in the last level.
    #[must_use]
    pub fn llc_counts(&self) -> &LlcCounts {
        &self.llc_counts
    }

    /// Gives the prefetches of a core.
    ///
    /// # Panics
    /// When it does not exist.
    #[must_use]
    pub fn prefetch_counts(&self, core: usize) -> PrefetchCounts {
        self.private[core].prefetches
    }

    /// Gives the fills, evictions and removals of a cache; `None` when there is no such cache.
    #[must_use]
    pub fn cache_counts(&self, cache: CacheId) -> Option<CacheCounts> {
        self.array(cache).map(|array| array.counts)
    }

    /// Counts the lines a cache holds; `None` when there is no such cache. Linear in its size.
    #[must_use]
    pub fn resident(&self, cache: CacheId) -> Option<u64> {
        self.array(cache).map(|array| array.resident().count() as u64)
    }

    /// Returns whether a cache holds the line of an address, without changing any state. `false` when there is no such
    /// cache.
    #[must_use]
    pub fn holds(&self, cache: CacheId, addr: PhysAddr) -> bool {
        let line = addr.0 >> self.line_shift;
        line < self.lines_end && self.array(cache).is_some_and(|array| array.find(line).is_some())
    }

    /// Returns the miss registers of a cache; `None` when there is no such cache. The hierarchy does not use them: the
    /// caller, which models time, requests a register before a miss proceeds.
    pub fn mshrs(&mut self, cache: CacheId) -> Option<&mut MshrFile> {
        match cache {
            CacheId::L1Data(core) => self.private.get_mut(core)?.mshrs[0].as_mut(),
            CacheId::L1Instruction(core) => self.private.get_mut(core)?.mshrs[1].as_mut(),
            CacheId::L2(core) => self.private.get_mut(core)?.mshrs[2].as_mut(),
            CacheId::Llc(instance) => Some(&mut self.llc.get_mut(instance)?.mshrs),
        }
    }

    fn array(&self, cache: CacheId) -> Option<&TagArray> {
        match cache {
            CacheId::L1Data(core) => Some(&self.private.get(core)?.data),
            CacheId::L1Instruction(core) => self.private.get(core)?.instruction.as_ref(),
            CacheId::L2(core) => self.private.get(core)?.l2.as_ref(),
            CacheId::Llc(instance) => Some(&self.llc.get(instance)?.tags),
        }
    }

    /// Writes back the dirty lines of the wanted addresses, in every cache, and returns them, each once, in ascending
    /// order. They stay in the caches, clean. Linear in the size of the caches.
    pub fn clean(&mut self, wanted: impl Fn(PhysAddr) -> bool) -> Vec<PhysAddr> {
        let shift = self.line_shift;
        let private = self.private.iter_mut().flat_map(Private::arrays);
        let mut written = Vec::new();
        for array in private.chain(self.llc.iter_mut().map(|last| &mut last.tags)) {
            let dirty = array.resident().filter(|line| line.facts.has(Facts::DIRTY)).map(|line| line.line);
            let dirty: Vec<u64> = dirty.filter(|line| wanted(PhysAddr(line << shift))).collect();
            for &line in &dirty {
                if let Some(slot) = array.find(line) {
                    let facts = array.facts(slot);
                    *facts = facts.without(Facts::DIRTY);
                }
            }
            written.extend(dirty);
        }
        written.sort_unstable();
        written.dedup();
        written.into_iter().map(|line| PhysAddr(line << shift)).collect()
    }

    /// Empties every cache and returns the lines that were dirty anywhere, each once, in ascending order: the writes of
    /// an orderly shutdown.
    pub fn drain(&mut self) -> Vec<PhysAddr> {
        let private = self.private.iter_mut().flat_map(Private::arrays);
        let arrays = private.chain(self.llc.iter_mut().map(|last| &mut last.tags));
        let mut dirty = Vec::new();
        for array in arrays {
            dirty.extend(array.resident().filter(|gone| gone.facts.has(Facts::DIRTY)).map(|gone| gone.line));
            array.clear();
        }
        self.llc_counts.resident.fill(0);
        dirty.sort_unstable();
        dirty.dedup();
        dirty.into_iter().map(|line| PhysAddr(line << self.line_shift)).collect()
    }
}

fn sum<'a>(counts: impl IntoIterator<Item = &'a AccessCounts>) -> AccessCounts {
    let mut total = AccessCounts::default();
    counts.into_iter().for_each(|counts| total.add(counts));
    total
}
