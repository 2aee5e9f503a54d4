//! A single cache: tags, replacement state and a word of flags for each line, in flat arrays.
//!
//! ```text
//! stride = ways rounded up to 8
//! tags   [set 0: way 0 1 2 .. ways-1 | INVALID ..][set 1: ..]   u32, so that eight are compared at once
//! ranks  [set 0: 8 ways a word                   ][set 1: ..]   u8 each, LRU only: 0 is the most recent
//! facts  [set 0: way 0 1 2 ..                    ][set 1: ..]   u32: dirty, unique, prefetched, owner, holders
//! ```
//!
//! Identities: a tag other than [`INVALID`] occurs at most once in a set; ranks of a set are a permutation of `0..ways`
//! and those of invalid ways are above those of valid ways; fills = evictions + removals + resident lines.

use crate::config::Replacement;
use crate::index::SetIndex;
use crate::stats::CacheCounts;
use memtint_units::Random;

/// The tag of an empty way. No line has it, because addresses end below `HierarchyConfig::address_limit`.
const INVALID: u32 = u32::MAX;
/// Ways in a group: tags compared at once, ranks in a word.
const GROUP: usize = 8;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
/// Rank of the padding, above that of every way that has padding beside it.
const PAD_RANK: u64 = 0x7f;

/// The state of a line in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts(u32);

impl Facts {
    /// Must be written back on eviction.
    pub(crate) const DIRTY: Facts = Facts(1);
    /// No other core and no cache of another node has it: a write needs no snoop.
    pub(crate) const UNIQUE: Facts = Facts(2);
    /// Filled by a prefetch and not yet used.
    pub(crate) const PREFETCHED: Facts = Facts(4);

    /// Makes the state of a line filled by a class.
    pub(crate) fn owned_by(class: u8) -> Facts {
        Facts(u32::from(class) << 8)
    }

    #[inline(always)]
    pub(crate) fn has(self, flag: Facts) -> bool {
        self.0 & flag.0 != 0
    }

    #[inline(always)]
    pub(crate) fn with(self, flag: Facts) -> Facts {
        Facts(self.0 | flag.0)
    }

    pub(crate) fn with_if(self, condition: bool, flag: Facts) -> Facts {
        if condition { self.with(flag) } else { self }
    }

    pub(crate) fn without(self, flag: Facts) -> Facts {
        Facts(self.0 & !flag.0)
    }

    /// The class that filled the line.
    pub(crate) fn owner(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Cores, modulo 8, whose private caches may hold the line; for last-level caches.
    pub(crate) fn holders(self) -> u8 {
        (self.0 >> 16) as u8
    }

    pub(crate) fn with_holder(self, core: usize) -> Facts {
        Facts(self.0 | 1 << (16 + core % 8))
    }

    /// The owner alone, which is kept when a line moves to another level.
    pub(crate) fn only_owner(self) -> Facts {
        Facts(self.0 & 0xff00)
    }
}

/// The position of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    set: usize,
    way: usize,
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) line: u64,
    pub(crate) facts: Facts,
}

#[derive(Clone, Debug)]
pub(crate) struct TagArray {
    tags: Vec<u32>,
    facts: Vec<Facts>,
    order: Order,
    index: SetIndex,
    ways: usize,
    stride: usize,
    all: u128,
    pub(crate) counts: CacheCounts,
}

#[derive(Clone, Debug)]
enum Order {
    Lru(Vec<u64>),
    Plru(Plru),
    Random(Random),
}

/// Tree-PLRU: node 1 is the root, node `n` has the children `2n` and `2n+1`, bit `n` of a set's word selects the half
/// with the victim (0: the lower ways).
#[derive(Clone, Debug)]
struct Plru {
    trees: Vec<u64>,
    /// For each way: the nodes on its path, and their bits that point away from it.
    paths: Vec<(u64, u64)>,
    levels: u32,
}

impl TagArray {
    /// Makes an empty cache. Precondition: ways 1 to 128, for tree-PLRU a power of two up to 64.
    pub(crate) fn new(index: SetIndex, ways: u32, replacement: Replacement, seed: u64) -> TagArray {
        let ways = ways as usize;
        let stride = ways.next_multiple_of(GROUP);
        let sets = index.sets();
        let order = match replacement {
            Replacement::Lru => Order::Lru(initial_ranks(ways, stride).repeat(sets)),
            Replacement::TreePlru => Order::Plru(Plru::new(ways, sets)),
            Replacement::Random => Order::Random(Random::new(seed)),
        };
        TagArray {
            tags: vec![INVALID; sets * stride],
            facts: vec![Facts::default(); sets * stride],
            order,
            index,
            ways,
            stride,
            all: all_ways(ways),
            counts: CacheCounts::default(),
        }
    }

    pub(crate) fn all(&self) -> u128 {
        self.all
    }

    pub(crate) fn sets(&self) -> usize {
        self.index.sets()
    }

    #[inline(always)]
    pub(crate) fn set(&self, line: u64) -> usize {
        self.index.set(line)
    }

    #[inline(always)]
    fn tag(&self, line: u64) -> u32 {
        (line >> self.index.low_bits()) as u32
    }

    fn line(&self, set: usize, tag: u32) -> u64 {
        let low_bits = self.index.low_bits();
        u64::from(tag) << low_bits | set as u64 & ((1 << low_bits) - 1)
    }

    /// Finds a line without changing any state.
    #[inline(always)]
    pub(crate) fn find(&self, line: u64) -> Option<Slot> {
        self.find_in(self.set(line), line)
    }

    /// Finds a line in a given set.
    #[inline(always)]
    pub(crate) fn find_in(&self, set: usize, line: u64) -> Option<Slot> {
        self.way_of(set, self.tag(line)).map(|way| Slot { set, way })
    }

    #[inline(always)]
    fn way_of(&self, set: usize, tag: u32) -> Option<usize> {
        let groups = self.tags[set * self.stride..][..self.stride].as_chunks::<GROUP>().0;
        for (group, tags) in groups.iter().enumerate() {
            let equal = equal_ways(tags, tag);
            if equal != 0 {
                return Some(group * GROUP + equal.trailing_zeros() as usize / 8);
            }
        }
        None
    }

    #[inline(always)]
    pub(crate) fn facts(&mut self, slot: Slot) -> &mut Facts {
        &mut self.facts[slot.set * self.stride + slot.way]
    }

    /// Makes a line the most recently used of its set.
    #[inline(always)]
    pub(crate) fn touch(&mut self, slot: Slot) {
        match &mut self.order {
            Order::Lru(ranks) => {
                let words = self.stride / GROUP;
                promote(&mut ranks[slot.set * words..][..words], slot.way);
            }
            Order::Plru(plru) => plru.touch(slot.set, slot.way),
            Order::Random(_) => {}
        }
    }

    /// Inserts an absent line into one of the `allowed` ways (not empty) as the most recently used, and returns the
    /// replaced line. Invalid ways are filled first.
    #[inline]
    pub(crate) fn fill(&mut self, line: u64, facts: Facts, allowed: u128) -> Option<Gone> {
        self.fill_in(self.set(line), line, facts, allowed)
    }

    /// Inserts a line into a given set, which must be the line's; see [`TagArray::fill`].
    #[inline]
    pub(crate) fn fill_in(&mut self, set: usize, line: u64, facts: Facts, allowed: u128) -> Option<Gone> {
        debug_assert!(self.find(line).is_none() && self.set(line) == set);
        let way = self.victim(set, allowed);
        let at = set * self.stride + way;
        let old = std::mem::replace(&mut self.tags[at], (line >> self.index.low_bits()) as u32);
        let old_facts = std::mem::replace(&mut self.facts[at], facts);
        self.touch(Slot { set, way });
        self.counts.fills += 1;
        if old == INVALID {
            return None;
        }
        self.counts.evictions += 1;
        Some(Gone { line: self.line(set, old), facts: old_facts })
    }

    /// Removes a line.
    pub(crate) fn remove(&mut self, slot: Slot) -> Facts {
        let Slot { set, way } = slot;
        self.tags[set * self.stride + way] = INVALID;
        if let Order::Lru(ranks) = &mut self.order {
            let words = self.stride / GROUP;
            demote(&mut ranks[set * words..][..words], way, self.ways);
        }
        self.counts.removals += 1;
        std::mem::take(self.facts(slot))
    }

    #[inline(always)]
    fn victim(&mut self, set: usize, allowed: u128) -> usize {
        let words = self.stride / GROUP;
        if let Order::Lru(ranks) = &self.order {
            let ranks = &ranks[set * words..][..words];
            // Invalid ways have the highest ranks, so they need no separate search.
            return if allowed == self.all { with_rank(ranks, self.ways - 1) } else { oldest(ranks, allowed) };
        }
        if let Some(way) = self.invalid_way(set, allowed) {
            return way;
        }
        match &mut self.order {
            Order::Plru(plru) if allowed == self.all => plru.victim(set),
            Order::Plru(plru) => plru.victim_among(set, allowed),
            Order::Random(random) => {
                nth_way(allowed, random.below(allowed.count_ones().into()) as u32, allowed == self.all)
            }
            Order::Lru(_) => unreachable!("answered above"),
        }
    }

    fn invalid_way(&self, set: usize, allowed: u128) -> Option<usize> {
        let groups = self.tags[set * self.stride..][..self.stride].as_chunks::<GROUP>().0;
        for (group, tags) in groups.iter().enumerate() {
            let free = bit_of_each_byte(equal_ways(tags, INVALID)) & (allowed >> (group * GROUP)) as u64;
            if free != 0 {
                return Some(group * GROUP + free.trailing_zeros() as usize);
            }
        }
        None
    }

    /// Walks all resident lines, set by set.
    pub(crate) fn resident(&self) -> impl Iterator<Item = Gone> + '_ {
        let valid = self.tags.iter().enumerate().filter(|(_, tag)| **tag != INVALID);
        valid.map(|(at, &tag)| Gone { line: self.line(at / self.stride, tag), facts: self.facts[at] })
    }

    /// Empties the cache and counts all resident lines as removed.
    pub(crate) fn clear(&mut self) {
        self.counts.removals += self.resident().count() as u64;
        self.tags.fill(INVALID);
        self.facts.fill(Facts::default());
    }
}

/// Gives a mask with a bit for each way.
pub(crate) fn all_ways(ways: usize) -> u128 {
    u128::MAX >> (128 - ways)
}

/// Gives a byte of ones for each tag of the group that equals `tag`, from the lowest byte up. A plain loop that fills
/// bytes compiles to two vector compares and a few shuffles on x86-64; setting bits does not.
#[inline(always)]
fn equal_ways(tags: &[u32; GROUP], tag: u32) -> u64 {
    let mut equal = [0; GROUP];
    for way in 0..GROUP {
        equal[way] = if tags[way] == tag { u8::MAX } else { 0 };
    }
    u64::from_le_bytes(equal)
}

/// Gathers the lowest bit of each byte: bit `i` of the result is bit `8i`.
fn bit_of_each_byte(bytes: u64) -> u64 {
    (bytes & ONES).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

fn initial_ranks(ways: usize, stride: usize) -> Vec<u64> {
    let rank = |way: usize| if way < ways { way as u64 } else { PAD_RANK };
    let word = |first: usize| (0..GROUP).fold(0, |word, at| word | rank(first + at) << (8 * at));
    (0..stride).step_by(GROUP).map(word).collect()
}

#[inline(always)]
fn rank_of(ranks: &[u64], way: usize) -> u64 {
    ranks[way / GROUP] >> (way % GROUP * 8) & 0xff
}

/// Gives `way` rank 0, and increments the ranks that were below its own.
#[inline(always)]
fn promote(ranks: &mut [u64], way: usize) {
    let old = rank_of(ranks, way);
    if old == 0 {
        return;
    }
    for word in ranks.iter_mut() {
        // Subtracts byte by byte, without borrow because ranks are below 128: the high bit stays exactly where rank <=
        // old - 1.
        let younger = ((((old - 1) * ONES) | HIGHS) - *word) & HIGHS;
        *word += younger >> 7;
    }
    ranks[way / GROUP] &= !(0xff << (way % GROUP * 8));
}

/// Gives `way` the highest rank, and decrements the ranks that were above its own.
fn demote(ranks: &mut [u64], way: usize, ways: usize) {
    let old = rank_of(ranks, way);
    for other in 0..ways {
        if rank_of(ranks, other) > old {
            ranks[other / GROUP] -= 1 << (other % GROUP * 8);
        }
    }
    let shift = way % GROUP * 8;
    ranks[way / GROUP] = ranks[way / GROUP] & !(0xff << shift) | (ways as u64 - 1) << shift;
}

/// Finds the way with a given rank.
#[inline(always)]
fn with_rank(ranks: &[u64], rank: usize) -> usize {
    for (group, word) in ranks.iter().enumerate() {
        // Finds the lowest zero byte, which borrows cannot produce.
        let differs = *word ^ (rank as u64 * ONES);
        let zero = differs.wrapping_sub(ONES) & !differs & HIGHS;
        if zero != 0 {
            return group * GROUP + zero.trailing_zeros() as usize / 8;
        }
    }
    unreachable!("the ranks of a set are a permutation")
}

/// Finds the allowed way with the highest rank.
fn oldest(ranks: &[u64], mut allowed: u128) -> usize {
    let mut best = (0, 0);
    while allowed != 0 {
        let way = allowed.trailing_zeros() as usize;
        best = best.max((rank_of(ranks, way) + 1, way));
        allowed &= allowed - 1;
    }
    best.1
}

fn nth_way(mut allowed: u128, nth: u32, all: bool) -> usize {
    if all {
        return nth as usize;
    }
    for _ in 0..nth {
        allowed &= allowed - 1;
    }
    allowed.trailing_zeros() as usize
}

impl Plru {
    fn new(ways: usize, sets: usize) -> Plru {
        let levels = ways.trailing_zeros();
        let path = |way: usize| {
            let (mut nodes, mut away, mut node) = (0u64, 0u64, 1usize);
            for level in (0..levels).rev() {
                let half = way >> level & 1;
                nodes |= 1 << node;
                away |= (1 - half as u64) << node;
                node = 2 * node + half;
            }
            (nodes, away)
        };
        Plru { trees: vec![0; sets], paths: (0..ways).map(path).collect(), levels }
    }

    #[inline(always)]
    fn touch(&mut self, set: usize, way: usize) {
        let (nodes, away) = self.paths[way];
        let tree = &mut self.trees[set];
        *tree = *tree & !nodes | away;
    }

    fn victim(&self, set: usize) -> usize {
        let mut node = 1;
        for _ in 0..self.levels {
            node = 2 * node + (self.trees[set] >> node & 1) as usize;
        }
        node - (1 << self.levels)
    }

    /// Follows the tree, but takes the other half where the one it points to has no allowed way.
    fn victim_among(&self, set: usize, allowed: u128) -> usize {
        let (mut node, mut first) = (1, 0);
        for level in (0..self.levels).rev() {
            let size = 1 << level;
            let half = |half: usize| allowed >> (first + half * size) & all_ways(size);
            let pointed = (self.trees[set] >> node & 1) as usize;
            let taken = if half(pointed) != 0 { pointed } else { 1 - pointed };
            first += taken * size;
            node = 2 * node + taken;
        }
        first
    }
}
