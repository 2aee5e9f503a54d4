//! Do independent roads agree? Random streams on the fast hierarchy and on one written for being obvious: vectors,
//! maps, a tree of boxes, and no flag that says whether a line is shared: it looks.

use crate::common::{bare, cache};
use memtint_cache::{
    AccessKind, CacheId, Hierarchy, HierarchyConfig, Inclusion, Level, Replacement, TaskClass, WayMask,
};
use memtint_units::PhysAddr;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Line {
    number: u64,
    dirty: bool,
    owner: u8,
}

#[derive(Clone, Debug)]
enum Tree {
    Way(usize),
    Fork { halves: Box<[Tree; 2]>, victim_in: usize },
}

impl Tree {
    fn new(ways: std::ops::Range<usize>) -> Tree {
        if ways.len() == 1 {
            return Tree::Way(ways.start);
        }
        let middle = usize::midpoint(ways.start, ways.end);
        Tree::Fork { halves: Box::new([Tree::new(ways.start..middle), Tree::new(middle..ways.end)]), victim_in: 0 }
    }

    fn contains(&self, ways: &[usize]) -> bool {
        match self {
            Tree::Way(way) => ways.contains(way),
            Tree::Fork { halves, .. } => halves.iter().any(|half| half.contains(ways)),
        }
    }

    fn touch(&mut self, way: usize) {
        if let Tree::Fork { halves, victim_in } = self {
            let half = usize::from(halves[1].contains(&[way]));
            *victim_in = 1 - half;
            halves[half].touch(way);
        }
    }

    fn victim(&self, allowed: &[usize]) -> usize {
        match self {
            Tree::Way(way) => *way,
            Tree::Fork { halves, victim_in } if halves[*victim_in].contains(allowed) => {
                halves[*victim_in].victim(allowed)
            }
            Tree::Fork { halves, victim_in } => halves[1 - victim_in].victim(allowed),
        }
    }
}

#[derive(Clone, Debug)]
struct Set {
    ways: Vec<Option<Line>>,
    /// Most recently used first; ways that lose their line go to the end.
    order: Vec<usize>,
    tree: Option<Tree>,
}

#[derive(Clone, Debug)]
struct Cache {
    sets: BTreeMap<Vec<u32>, Set>,
    functions: Vec<u64>,
    ways: usize,
    replacement: Replacement,
}

impl Cache {
    fn new(functions: Vec<u64>, ways: u32, replacement: Replacement) -> Cache {
        Cache { sets: BTreeMap::new(), functions, ways: ways as usize, replacement }
    }

    fn set(&mut self, number: u64) -> &mut Set {
        let index = self.functions.iter().map(|function| (function & number).count_ones() % 2).collect();
        let (ways, replacement) = (self.ways, self.replacement);
        self.sets.entry(index).or_insert_with(|| Set {
            ways: vec![None; ways],
            order: (0..ways).collect(),
            tree: (replacement == Replacement::TreePlru).then(|| Tree::new(0..ways)),
        })
    }

    fn get(&mut self, number: u64) -> Option<&mut Line> {
        self.set(number).ways.iter_mut().flatten().find(|line| line.number == number)
    }

    fn touch(&mut self, number: u64) {
        let set = self.set(number);
        let way = set.ways.iter().position(|line| line.as_ref().is_some_and(|line| line.number == number)).unwrap();
        set.order.retain(|&other| other != way);
        set.order.insert(0, way);
        if let Some(tree) = &mut set.tree {
            tree.touch(way);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Line> {
        let set = self.set(number);
        let way = set.ways.iter().position(|line| line.as_ref().is_some_and(|line| line.number == number))?;
        set.order.retain(|&other| other != way);
        set.order.push(way);
        set.ways[way].take()
    }

    fn fill(&mut self, line: Line, allowed: &[usize]) -> Option<Line> {
        let number = line.number;
        let set = self.set(number);
        let way = match &set.tree {
            None => *set.order.iter().rev().find(|way| allowed.contains(way)).unwrap(),
            Some(tree) => {
                let free = allowed.iter().copied().find(|&way| set.ways[way].is_none());
                free.unwrap_or_else(|| tree.victim(allowed))
            }
        };
        let gone = set.ways[way].replace(line);
        self.touch(number);
        gone
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.sets.values().flat_map(|set| set.ways.iter().flatten())
    }
}

/// The caches of a core, from the outermost: second level if any, first data, first instruction if any.
#[derive(Clone, Debug)]
struct Core {
    data: Cache,
    instruction: Option<Cache>,
    l2: Option<Cache>,
}

impl Core {
    fn all(&mut self) -> Vec<&mut Cache> {
        let mut all = vec![&mut self.data];
        all.extend(self.instruction.as_mut());
        all.extend(self.l2.as_mut());
        all
    }

    fn l1(&mut self, fetch: bool) -> &mut Cache {
        if fetch { self.instruction.as_mut().unwrap_or(&mut self.data) } else { &mut self.data }
    }
}

struct Model {
    cores: Vec<Core>,
    llc: Vec<Cache>,
    inclusion: Inclusion,
    coherent: bool,
    masks: Vec<Vec<usize>>,
    evictions: BTreeMap<(u8, u8), u64>,
    writebacks: Vec<u64>,
}

fn modulo(sets: u64) -> Vec<u64> {
    (0..sets.trailing_zeros()).map(|bit| 1 << bit).collect()
}

fn line_masks(config: &HierarchyConfig, cache: &memtint_cache::CacheConfig, slices: &[Vec<u32>]) -> Vec<u64> {
    let sets = (cache.size.bytes() / config.line.bytes() / u64::from(cache.ways)) >> slices.len();
    let own =
        if cache.set_bits.is_empty() { modulo(sets) } else { cache.set_bits.iter().map(|b| 1 << (b - 6)).collect() };
    own.into_iter().chain(slices.iter().map(|bits| bits.iter().map(|bit| 1u64 << (bit - 6)).sum())).collect()
}

impl Model {
    fn new(config: &HierarchyConfig) -> Model {
        let make = |cache: &memtint_cache::CacheConfig| {
            Cache::new(line_masks(config, cache, &[]), cache.ways, cache.replacement)
        };
        let core = || Core {
            data: make(&config.l1_data),
            instruction: config.l1_instruction.as_ref().map(make),
            l2: config.l2.as_ref().map(make),
        };
        let llc = &config.llc;
        let last =
            || Cache::new(line_masks(config, &llc.cache, &llc.slice_functions), llc.cache.ways, llc.cache.replacement);
        let mask = |class: usize| {
            let mask = llc.way_masks.get(class).map_or(u128::MAX, |mask| mask.0);
            (0..llc.cache.ways as usize).filter(|way| mask >> way & 1 == 1).collect()
        };
        Model {
            cores: (0..config.cores).map(|_| core()).collect(),
            llc: (0..llc.instances).map(|_| last()).collect(),
            inclusion: llc.inclusion,
            coherent: config.coherent,
            masks: (0..config.classes as usize).map(mask).collect(),
            evictions: BTreeMap::new(),
            writebacks: Vec::new(),
        }
    }

    fn home(&self, core: usize) -> usize {
        core / (self.cores.len() / self.llc.len())
    }

    fn access(&mut self, core: usize, class: u8, number: u64, kind: AccessKind) -> (Level, bool, Vec<u64>) {
        self.writebacks.clear();
        let (write, fetch) = (kind == AccessKind::Write, kind == AccessKind::Fetch);
        if self.cores[core].l1(fetch).get(number).is_some() {
            self.cores[core].l1(fetch).touch(number);
            let upgraded = write && self.others(core, number, true).0;
            if upgraded && self.inclusion == Inclusion::Exclusive {
                let home = self.home(core);
                self.llc[home].remove(number);
            }
            if write {
                self.cores[core].data.get(number).unwrap().dirty = true;
            }
            return (Level::L1, upgraded, Vec::new());
        }
        let in_l2 = self.cores[core].l2.as_mut().is_some_and(|l2| l2.get(number).is_some());
        let (level, upgraded);
        let mut dirty = write;
        if in_l2 {
            self.cores[core].l2.as_mut().unwrap().touch(number);
            level = Level::L2;
            upgraded = write && self.others(core, number, true).0;
            if upgraded && self.inclusion == Inclusion::Exclusive {
                let home = self.home(core);
                self.llc[home].remove(number);
            }
        } else {
            let (answered, found, inherited) = self.fetch(core, class, number, write);
            (level, upgraded) = (answered, found && write);
            if self.cores[core].l2.is_some() {
                self.fill_l2(core, Line { number, dirty: inherited, owner: class });
            } else {
                dirty |= inherited;
            }
        }
        self.fill_l1(core, Line { number, dirty, owner: class }, fetch);
        (level, upgraded, self.writebacks.clone())
    }

    fn prefetch(&mut self, core: usize, class: u8, number: u64) -> (Level, bool, Vec<u64>) {
        self.writebacks.clear();
        if self.cores[core].data.get(number).is_some() {
            return (Level::L1, false, Vec::new());
        }
        if self.cores[core].l2.as_mut().is_some_and(|l2| l2.get(number).is_some()) {
            return (Level::L2, false, Vec::new());
        }
        let (level, _, dirty) = self.fetch(core, class, number, false);
        let line = Line { number, dirty, owner: class };
        if self.cores[core].l2.is_some() {
            self.fill_l2(core, line);
        } else {
            self.fill_l1(core, line, false);
        }
        (level, false, self.writebacks.clone())
    }

    /// Looks at all other cores and nodes: whether one has the line, and whether it was dirty there.
    fn others(&mut self, core: usize, number: u64, write: bool) -> (bool, bool) {
        let (mut found, mut dirty) = (false, false);
        if !self.coherent {
            return (found, dirty);
        }
        let home = self.home(core);
        let private = self.cores.iter_mut().enumerate().filter(|(other, _)| *other != core);
        let mut caches: Vec<&mut Cache> = private.flat_map(|(_, other)| other.all()).collect();
        caches.extend(self.llc.iter_mut().enumerate().filter(|(instance, _)| *instance != home).map(|(_, llc)| llc));
        for cache in caches {
            if let Some(line) = cache.get(number) {
                found = true;
                dirty |= std::mem::take(&mut line.dirty);
                if write {
                    cache.remove(number);
                }
            }
        }
        (found, dirty)
    }

    fn fetch(&mut self, core: usize, class: u8, number: u64, write: bool) -> (Level, bool, bool) {
        let home = self.home(core);
        let hit = self.llc[home].get(number).is_some();
        let (found, mut dirty) = self.others(core, number, write);
        let level = match (hit, found, dirty) {
            (_, _, true) | (false, true, _) => Level::Peer,
            (true, ..) => Level::Llc,
            (false, false, false) => Level::Memory,
        };
        match (self.inclusion, hit) {
            (Inclusion::Exclusive, true) => dirty |= self.llc[home].remove(number).unwrap().dirty,
            (Inclusion::Exclusive, false) => {}
            (_, true) => self.llc[home].touch(number),
            (_, false) => self.fill_llc(home, Line { number, dirty: false, owner: class }),
        }
        (level, found, dirty)
    }

    fn fill_l1(&mut self, core: usize, line: Line, fetch: bool) {
        let l1 = self.cores[core].l1(fetch);
        let all: Vec<usize> = (0..l1.ways).collect();
        let Some(gone) = l1.fill(line, &all) else { return };
        match &mut self.cores[core].l2 {
            None => self.outermost_lost(core, gone),
            Some(_) if !gone.dirty => {}
            Some(l2) => match l2.get(gone.number) {
                Some(copy) => copy.dirty = true,
                None => {
                    if self.inclusion == Inclusion::Exclusive {
                        let home = self.home(core);
                        self.llc[home].remove(gone.number);
                    }
                    self.fill_l2(core, gone);
                }
            },
        }
    }

    fn fill_l2(&mut self, core: usize, line: Line) {
        let l2 = self.cores[core].l2.as_mut().unwrap();
        let all: Vec<usize> = (0..l2.ways).collect();
        if let Some(gone) = l2.fill(line, &all) {
            self.outermost_lost(core, gone);
        }
    }

    fn outermost_lost(&mut self, core: usize, gone: Line) {
        let home = self.home(core);
        if !gone.dirty && self.inclusion != Inclusion::Exclusive {
            return;
        }
        match self.llc[home].get(gone.number) {
            Some(copy) => copy.dirty |= gone.dirty,
            None => self.fill_llc(home, gone),
        }
    }

    fn fill_llc(&mut self, home: usize, line: Line) {
        let by = line.owner;
        let Some(gone) = self.llc[home].fill(line, &self.masks[usize::from(by)]) else { return };
        *self.evictions.entry((gone.owner, by)).or_default() += 1;
        let mut dirty = gone.dirty;
        if self.inclusion == Inclusion::Inclusive {
            let cores = self.cores.len() / self.llc.len();
            for core in &mut self.cores[home * cores..(home + 1) * cores] {
                for cache in core.all() {
                    dirty |= cache.remove(gone.number).is_some_and(|line| line.dirty);
                }
            }
        }
        if dirty {
            self.writebacks.push(gone.number);
        }
    }

    fn dirty(&self) -> Vec<u64> {
        let private = self.cores.iter().flat_map(|core| {
            core.data
                .lines()
                .chain(core.instruction.iter().flat_map(Cache::lines))
                .chain(core.l2.iter().flat_map(Cache::lines))
        });
        let lines = private.chain(self.llc.iter().flat_map(Cache::lines));
        lines.filter(|line| line.dirty).map(|line| line.number).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    core: usize,
    class: u8,
    line: u64,
    /// `None`: prefetch.
    kind: Option<AccessKind>,
}

fn steps(cores: usize, lines: u64) -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        5 => Just(Some(AccessKind::Read)),
        4 => Just(Some(AccessKind::Write)),
        2 => Just(Some(AccessKind::Fetch)),
        1 => Just(None),
    ];
    let step =
        (0..cores, 0u8..3, 0..lines, kind).prop_map(|(core, class, line, kind)| Step { core, class, line, kind });
    proptest::collection::vec(step, 1..600)
}

fn inclusions() -> impl Strategy<Value = Inclusion> {
    prop_oneof![Just(Inclusion::Inclusive), Just(Inclusion::NonInclusive), Just(Inclusion::Exclusive)]
}

/// A machine so small that everything is evicted soon: last level of 8 sets in 2 hashed slices.
fn machines() -> impl Strategy<Value = HierarchyConfig> {
    let policy = || prop_oneof![Just(Replacement::Lru), Just(Replacement::TreePlru)];
    let shape = (prop_oneof![Just(1u32), Just(2), Just(4), Just(10)], 1u32..3, any::<bool>(), any::<bool>());
    let ways = (1u32..4, 0u32..4, 1u32..14);
    (inclusions(), shape, ways, policy(), policy(), any::<bool>(), any::<bool>()).prop_map(
        |(
            inclusion,
            (cores, instances, instruction, l2),
            (l1_ways, l2_ways, llc_ways),
            inner,
            outer,
            masked,
            coherent,
        )| {
            let pow2 =
                |ways: u32, policy| if policy == Replacement::TreePlru { ways.next_power_of_two() } else { ways };
            let mut config = bare(8, pow2(llc_ways, outer), inclusion);
            config.cores = cores;
            config.classes = 3;
            config.l1_data = cache(2, pow2(l1_ways, inner));
            config.l1_instruction = instruction.then(|| cache(1, pow2(l1_ways, inner)));
            config.l2 = l2.then(|| cache(4, pow2(l2_ways + 1, inner)));
            let private = [Some(&mut config.l1_data), config.l1_instruction.as_mut(), config.l2.as_mut()];
            private.into_iter().flatten().for_each(|cache| cache.replacement = inner);
            config.llc.cache.replacement = outer;
            config.llc.cache.set_bits = vec![6, 8];
            config.llc.slice_functions = vec![vec![7, 9, 11]];
            config.llc.instances = if cores.is_multiple_of(instances) { instances } else { 1 };
            let all = (1u128 << config.llc.cache.ways) - 1;
            if masked {
                config.llc.way_masks = [1, 0b1101, 0b11_0110].map(|mask| WayMask((mask & all).max(1))).to_vec();
            }
            config.coherent = coherent;
            config
        },
    )
}

/// Lines a machine of 10 cores is tried with: about twice its last level.
const LINES: u64 = 96;

fn compare(config: &HierarchyConfig, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut fast = Hierarchy::new(config).unwrap();
    let mut model = Model::new(config);
    for (at, step) in steps.iter().enumerate() {
        let core = step.core % config.cores as usize;
        let (class, addr) = (TaskClass(step.class), PhysAddr(step.line * crate::common::LINE + at as u64 % 64));
        let outcome = match step.kind {
            Some(kind) => fast.access(core, class, addr, kind),
            None => fast.prefetch(core, class, addr),
        };
        let expected = match step.kind {
            Some(kind) => model.access(core, step.class, step.line, kind),
            None => model.prefetch(core, step.class, step.line),
        };
        let written: Vec<u64> = outcome.writebacks.as_slice().iter().map(|addr| addr.0 / crate::common::LINE).collect();
        let upgraded = outcome.upgraded && step.kind.is_some();
        prop_assert_eq!((outcome.level, upgraded, written), expected, "step {} of {:?}", at, step);
    }
    for victim in 0..3 {
        for by in 0..3 {
            let counted = fast.llc_counts().evictions(TaskClass(victim), TaskClass(by));
            prop_assert_eq!(counted, model.evictions.get(&(victim, by)).copied().unwrap_or(0));
        }
        let resident = model.llc.iter().flat_map(Cache::lines).filter(|line| line.owner == victim).count() as u64;
        prop_assert_eq!(fast.llc_counts().resident(TaskClass(victim)), resident);
    }
    conserve(&fast, config)?;
    let drained: Vec<u64> = fast.drain().iter().map(|addr| addr.0 / crate::common::LINE).collect();
    prop_assert_eq!(drained, model.dirty());
    conserve(&fast, config)
}

/// Fills = evictions + removals + resident, in every cache.
fn conserve(fast: &Hierarchy, config: &HierarchyConfig) -> Result<(), TestCaseError> {
    let cores = 0..config.cores as usize;
    let ids = cores.flat_map(|core| [CacheId::L1Data(core), CacheId::L1Instruction(core), CacheId::L2(core)]);
    for id in ids.chain((0..config.llc.instances as usize).map(CacheId::Llc)) {
        if let (Some(counts), Some(resident)) = (fast.cache_counts(id), fast.resident(id)) {
            prop_assert_eq!(counts.fills, counts.evictions + counts.removals + resident, "{:?}", id);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_machine_answers_as_the_obvious_one(config in machines(), steps in steps(10, LINES)) {
        compare(&config, &steps)?;
    }

    #[test]
    fn few_lines_that_everybody_wants(config in machines(), steps in steps(10, 6)) {
        compare(&config, &steps)?;
    }
}

#[test]
fn wide_sets_answer_as_the_obvious_ones() {
    for (ways, replacement) in
        [(96, Replacement::Lru), (128, Replacement::Lru), (20, Replacement::Lru), (64, Replacement::TreePlru)]
    {
        let mut config = bare(2, ways, Inclusion::NonInclusive);
        config.classes = 3;
        config.llc.cache.replacement = replacement;
        let mut state = 1u64;
        let mut draw = |end: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % end
        };
        let kinds = [Some(AccessKind::Read), Some(AccessKind::Write)];
        let step =
            |_| Step { core: 0, class: draw(3) as u8, line: draw(u64::from(ways) * 3), kind: kinds[draw(2) as usize] };
        let steps: Vec<Step> = (0..6000).map(step).collect();
        compare(&config, &steps).unwrap();
    }
}
