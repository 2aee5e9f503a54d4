//! Eviction sets: lines that fill the set of another line, the search for them, and tests with them.

use crate::cache::oracle::{CacheFacts, CacheOracle};
use crate::oracle::OracleError;
use crate::pool::Pool;
use memtint_map::gf2::{self, Basis};
use memtint_units::PhysAddr;
use memtint_units::Random;
use std::collections::{HashSet, VecDeque};

/// Readings of hits and of memory that determine the threshold between them.
const LEVELS: usize = 15;
/// Number of calls after which one reading of each kind is renewed.
const RENEWED: u64 = 32;
/// The highest share of readings on the wrong side of the threshold.
const MISTAKEN_MAX: f64 = 0.15;
/// Timed reloads of one call; the next call uses other sets.
const ROUNDS: u32 = 2;
/// The most calls of one decision.
const CALLS_MAX: u32 = 120;
/// The most lines that are tried together to evict one.
const CANDIDATES_MAX: usize = 1 << 14;
/// The most ways.
const WAYS_MAX: usize = 160;
/// Number of targets tried before the search fails.
const ATTEMPTS: u32 = 4;
/// The most draws of a place for a set in the pool.
const DRAWS: u32 = 200;
/// Number of low bits in which candidates agree with their target: the index bits of private sets and, on all known
/// machines, most index bits of the last level.
pub(crate) const ALIKE: u32 = 17;
/// Numbers of repeated accesses to lines of one set; with random replacement, several are needed to fill the set.
const PASSES: [usize; 4] = [1, 2, 8, 32];
/// More lines than this are not accessed repeatedly.
const REPEATED_MAX: usize = 2048;
/// Required increase of the share of evictions by the last member, and the minimum when no better set is found.
const RISE: [f64; 2] = [0.7, 0.3];
/// Accesses after which no new step begins: a few seconds on a machine. Two thirds of it suffice for every cache in the
/// tests.
const ACCESSES_MAX: u64 = 30_000_000;
/// Shares of evictions are clamped to this distance from 0 and 1, because no reading is certain.
const SHARE_MIN: f64 = 0.02;

/// The answer to a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// At least one of the lines is in the target's set.
    Congruent,
    /// None of the lines is in the target's set.
    Apart,
    /// Undecided.
    Unknown,
}

/// Cost of the tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheEffort {
    /// Accesses, timed or not, without the round before the first of each call.
    pub accesses: u64,
    /// Accesses that were timed.
    pub timed: u64,
    /// Decided tests.
    pub decisions: u64,
}

/// Levels of readings, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct CacheLevels {
    /// Median reading of a line that was just read.
    pub near: f64,
    /// Median reading of a line that should be in the last level: after its read, twice as many lines of its private
    /// sets were read as these have ways.
    pub hit: f64,
    /// Median reading of a line that is in no cache.
    pub memory: f64,
    /// Readings above this count as memory.
    pub threshold: f64,
    /// Share of the underlying readings on the wrong side of the threshold; the larger of the two kinds.
    pub mistaken: f64,
}

/// The reason why a last level cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRefusal {
    /// A line that was just used is as slow as one from memory.
    NoLevels,
    /// Even many lines do not evict a target.
    NothingEvicts {
        /// The most lines tried.
        lines: usize,
        /// Reloads from memory, after at least half as many lines.
        evicted: u32,
        /// All such reloads.
        reloads: u32,
    },
    /// Lines evict, but later measurements contradict earlier ones.
    Unstable,
    /// Lines evict a target that does not evict them: the private caches are not those that the machine reports.
    Impure,
    /// The limit of accesses was reached without certainty about evicting lines; with the number of accesses.
    TooLong(u64),
}

/// A target, and a minimal set of lines that evict it.
#[derive(Clone, Debug)]
pub(crate) struct EvictionSet {
    /// The line that is evicted.
    pub(crate) target: PhysAddr,
    /// Lines of the target's set and slice, as many as there are ways.
    pub(crate) members: Vec<PhysAddr>,
    /// Lines in the target's private sets but outside its last-level set; they evict the target and the members from
    /// the private caches.
    scrub: Vec<PhysAddr>,
    passes: usize,
    /// The last level is a victim cache: an accessed line enters it only after eviction from the private caches.
    victims: bool,
    /// Share of readings that show an eviction, when all members are accessed, and when one is omitted.
    with_all: f64,
    without_one: f64,
    /// Approximate number of drawn lines per member of the set.
    pub(crate) drawn_per_member: usize,
}

impl EvictionSet {
    fn rise(&self) -> f64 {
        self.with_all - self.without_one
    }

    /// A set of other lines, for the same kind of tests.
    pub(crate) fn of_lines(&self, target: PhysAddr, members: Vec<PhysAddr>, scrub: Vec<PhysAddr>) -> EvictionSet {
        EvictionSet { target, members, scrub, ..self.clone() }
    }
}

/// Lines to test: can they replace a member?
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<'a> {
    /// These lines, with the original set.
    Lines(&'a [PhysAddr]),
    /// Lines with these differences from the target, with the set moved anywhere; known differences of congruent lines may be
    /// added.
    Differences(&'a [u64], &'a Basis),
}

/// Uses an oracle, and keeps the state needed to interpret its readings.
pub(crate) struct CacheProber<'a> {
    oracle: &'a mut dyn CacheOracle,
    /// Memory, with the address bits that are trusted.
    pool: Pool,
    random: Random,
    near: VecDeque<f64>,
    hits: VecDeque<f64>,
    memory: VecDeque<f64>,
    calls: u64,
    effort: CacheEffort,
    /// Natural logarithm of the odds at which a test ends.
    odds: f64,
}

impl<'a> CacheProber<'a> {
    /// Makes a prober. Each test errs with a probability of at most about `error`.
    ///
    /// # Errors
    /// Those of the oracle.
    pub(crate) fn new(oracle: &'a mut dyn CacheOracle, seed: u64, error: f64) -> Result<CacheProber<'a>, OracleError> {
        let mut prober = CacheProber {
            pool: oracle.pool().clone(),
            oracle,
            random: Random::new(seed),
            near: VecDeque::new(),
            hits: VecDeque::new(),
            memory: VecDeque::new(),
            calls: 0,
            effort: CacheEffort::default(),
            odds: (1.0 / error).ln(),
        };
        for _ in 0..LEVELS {
            prober.renew()?;
        }
        Ok(prober)
    }

    /// Returns the cost so far.
    #[must_use]
    pub(crate) fn effort(&self) -> CacheEffort {
        self.effort
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Trusts only address bits below this one.
    pub(crate) fn believe(&mut self, bits: u32) {
        self.pool = self.pool.in_blocks(bits);
    }

    /// Returns whether the limit of accesses is reached.
    pub(crate) fn is_too_long(&self) -> bool {
        self.effort.accesses > ACCESSES_MAX
    }

    pub(crate) fn facts(&self) -> &CacheFacts {
        self.oracle.caches()
    }

    /// Returns the current levels of readings.
    #[must_use]
    pub(crate) fn levels(&self) -> CacheLevels {
        let sorted = |readings: &VecDeque<f64>| {
            let mut sorted: Vec<f64> = readings.iter().copied().collect();
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        let (near, hits, memory) = (sorted(&self.near), sorted(&self.hits), sorted(&self.memory));
        // Memory itself has two levels, and hits have outliers.
        let threshold = f64::midpoint(hits[LEVELS * 3 / 4], memory[LEVELS / 4]);
        let above = hits.iter().filter(|&&hit| hit > threshold).count();
        let below = memory.iter().filter(|&&memory| memory <= threshold).count();
        let mistaken = above.max(below) as f64 / LEVELS as f64;
        CacheLevels { near: near[LEVELS / 2], hit: hits[LEVELS / 2], memory: memory[LEVELS / 2], threshold, mistaken }
    }

    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.calls += 1;
        self.effort.timed += u64::from(rounds);
        self.effort.accesses += (others.len() as u64 + 2) * u64::from(rounds);
        self.oracle.reload(target, others, rounds)
    }

    /// Takes one more reading of each kind: a line that was just read, a line that should be in the last level, and a
    /// line in no cache.
    fn renew(&mut self) -> Result<(), OracleError> {
        let target = self.pool.any(&mut self.random);
        let near = self.reload(target, &[], 1)?[0];
        let scrub = self.scrub_of(target, 2);
        let hit = self.reload(target, &scrub, 1)?[0];
        let other = self.pool.any(&mut self.random);
        self.effort.accesses += 1;
        self.effort.timed += 1;
        let memory = self.oracle.time(&[other], 1)?[0];
        for (readings, reading) in [(&mut self.near, near), (&mut self.hits, hit), (&mut self.memory, memory)] {
            if readings.len() == LEVELS {
                readings.pop_front();
            }
            readings.push_back(f64::from(reading));
        }
        Ok(())
    }

    /// Counts the reloads that went to memory.
    fn evictions(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<u32, OracleError> {
        if self.calls.is_multiple_of(RENEWED) {
            self.renew()?;
        }
        let threshold = self.levels().threshold;
        let readings = self.reload(target, others, rounds)?;
        Ok(readings.iter().filter(|&&reading| f64::from(reading) > threshold).count() as u32)
    }

    /// Lines that replace the content of a target's private sets: `per_way` for each way. They differ from the target
    /// in the bit right above the index of the largest private cache, which on most machines is an index bit of the
    /// last level.
    pub(crate) fn scrub_of(&mut self, target: PhysAddr, per_way: u32) -> Vec<PhysAddr> {
        let bytes = self.private_bytes();
        let ways = self.oracle.caches().private.iter().map(|cache| cache.ways).max().unwrap_or(0);
        self.alike(target, bytes.trailing_zeros(), bytes, (per_way * ways) as usize)
    }

    /// Returns whether these lines evict the target, in most reloads.
    fn evicts(
        &mut self,
        target: PhysAddr,
        lines: &[PhysAddr],
        passes: usize,
        scrub: &[PhysAddr],
    ) -> Result<bool, OracleError> {
        let [evicted, reloads] = self.evicted(target, lines, passes, scrub)?;
        Ok(2 * evicted > reloads)
    }

    /// Counts evictions and reloads, until evictions are a clear majority or minority.
    fn evicted(
        &mut self,
        target: PhysAddr,
        lines: &[PhysAddr],
        passes: usize,
        scrub: &[PhysAddr],
    ) -> Result<[u32; 2], OracleError> {
        let others = [&lines.repeat(passes), scrub].concat();
        let (mut evicted, mut reloads) = (0_u32, 0);
        while reloads < 20 * ROUNDS && (2 * evicted).abs_diff(reloads) < 6 {
            evicted += self.evictions(target, &others, ROUNDS)?;
            reloads += ROUNDS;
        }
        Ok([evicted, reloads])
    }

    /// Finds an eviction set of a line drawn at random.
    ///
    /// # Errors
    /// Those of the oracle.
    pub(crate) fn eviction_set(&mut self) -> Result<Result<EvictionSet, CacheRefusal>, OracleError> {
        if self.levels().mistaken > MISTAKEN_MAX {
            return Ok(Err(CacheRefusal::NoLevels));
        }
        let mut why = CacheRefusal::Unstable;
        let mut best: Option<EvictionSet> = None;
        for passes in PASSES {
            for _ in 0..ATTEMPTS {
                if self.is_too_long() {
                    return Ok(best.ok_or(why));
                }
                match self.attempt(passes)? {
                    Ok(set) if set.rise() >= RISE[0] => return Ok(Ok(set)),
                    Ok(set) => best = best.filter(|best| best.rise() >= set.rise()).or(Some(set)),
                    Err(nothing @ CacheRefusal::NothingEvicts { .. }) => return Ok(Err(nothing)),
                    Err(other) => why = other,
                }
            }
            if why == CacheRefusal::Impure {
                return Ok(Err(why));
            }
        }
        Ok(best.ok_or(why))
    }

    fn attempt(&mut self, passes: usize) -> Result<Result<EvictionSet, CacheRefusal>, OracleError> {
        let target = self.any();
        let scrub = self.scrub_of(target, 3);
        let mut rest = match self.candidates(target, &scrub)? {
            Ok(lines) => lines,
            Err(nothing) => return Ok(Err(nothing)),
        };
        let lines = rest.len();
        let mut members = Vec::new();
        while !self.evicts(target, &members, passes, &scrub)? {
            let with = |rest: &[PhysAddr]| [rest, &members].concat();
            if members.len() == WAYS_MAX || !self.evicts(target, &with(&rest), passes, &scrub)? {
                return Ok(Err(CacheRefusal::Unstable));
            }
            // The last line of the shortest evicting prefix is necessary for the eviction.
            let (mut short, mut long) = (0, rest.len());
            while long - short > 1 {
                let half = short.midpoint(long);
                let evicts = self.evicts(target, &with(&rest[..half]), passes, &scrub)?;
                if evicts { long = half } else { short = half }
            }
            if long == 0 {
                return Ok(Err(CacheRefusal::Unstable));
            }
            rest.truncate(long);
            members.extend(rest.pop());
        }
        let drawn_per_member = lines.div_ceil(members.len().max(1));
        for at in (0..members.len()).rev() {
            let mut fewer = members.clone();
            fewer.remove(at);
            if self.evicts(target, &fewer, passes, &scrub)? {
                members = fewer;
            }
        }
        let (victims, with_all, without_one) = (false, 0.0, 0.0);
        self.checked(EvictionSet { target, members, scrub, passes, victims, with_all, without_one, drawn_per_member })
    }

    /// Lines that agree with the target in their low bits, in increasing numbers until they evict it.
    fn candidates(
        &mut self,
        target: PhysAddr,
        scrub: &[PhysAddr],
    ) -> Result<Result<Vec<PhysAddr>, CacheRefusal>, OracleError> {
        let (line, pool) = (self.oracle.caches().line, self.pool.bytes());
        let mut tried: Vec<(usize, [u32; 2])> = Vec::new();
        for bits in [ALIKE, 12, line.trailing_zeros()] {
            let most = ((pool >> bits) as usize).min(CANDIDATES_MAX);
            let mut count = 64;
            while count / 2 < most {
                let lines = self.alike(target, bits, 0, count);
                let [evicted, reloads] = self.evicted(target, &lines, 1, scrub)?;
                if 2 * evicted > reloads {
                    return Ok(Ok(lines));
                }
                tried.push((lines.len(), [evicted, reloads]));
                count *= 2;
            }
        }
        let lines = tried.iter().map(|&(lines, _)| lines).max().unwrap_or(0);
        let most = tried.iter().filter(|(tried, _)| 2 * tried >= lines);
        let [evicted, reloads] =
            most.fold([0, 0], |[evicted, reloads], (_, more)| [evicted + more[0], reloads + more[1]]);
        Ok(Err(CacheRefusal::NothingEvicts { lines, evicted, reloads }))
    }

    /// Moves lines of the target's set from the scrub to the members, measures the reliability of a reading, and checks
    /// that members evict each other.
    fn checked(&mut self, mut set: EvictionSet) -> Result<Result<EvictionSet, CacheRefusal>, OracleError> {
        let mut scrub = Vec::new();
        for at in 0..set.scrub.len() {
            let mut fewer = set.scrub.clone();
            let own = fewer.remove(at);
            if self.evicts(set.target, &set.members, set.passes, &fewer)? {
                scrub.push(own);
            } else {
                set.members.push(own);
            }
        }
        // Members found in the scrub were accessed last until now.
        set.scrub = scrub;
        if set.members.is_empty() {
            return Ok(Err(CacheRefusal::Unstable));
        }
        // Members that are accessed last stay in a private cache. Do they still evict?
        let last = [&set.scrub[..], &set.members].concat();
        set.victims = !self.evicts(set.target, &last, 1, &[])?;
        let (mut with_all, mut without_one, mut without_one_elsewhere, mut readings) = (0, 0, 0, 0);
        for leave in 0..set.members.len().max(12) {
            let fewer = without(&set.members, leave % set.members.len());
            for (lines, count) in [(&set.members, &mut with_all), (&fewer, &mut without_one)] {
                let others = [&lines.repeat(set.passes)[..], &set.scrub].concat();
                *count += self.evictions(set.target, &others, ROUNDS)?;
            }
            // At other places, lines of other programs may fill the sets.
            let elsewhere = self.moved(&set).unwrap_or(set.clone());
            let fewer = without(&elsewhere.members, leave % set.members.len());
            let others = [&fewer.repeat(set.passes)[..], &elsewhere.scrub].concat();
            without_one_elsewhere += self.evictions(elsewhere.target, &others, ROUNDS)?;
            readings += ROUNDS;
        }
        let without_one = without_one.max(without_one_elsewhere);
        let share = |count: u32| (f64::from(count) / f64::from(readings)).clamp(SHARE_MIN, 1.0 - SHARE_MIN);
        (set.with_all, set.without_one) = (share(with_all), share(without_one));
        if set.rise() < RISE[1] {
            return Ok(Err(CacheRefusal::Unstable));
        }
        for at in 0..set.members.len() {
            let mut others = without(&set.members, at);
            others.push(set.target);
            let other = EvictionSet { target: set.members[at], members: others, ..set.clone() };
            if self.decide(&other, Asked::Lines(&[other.members[other.members.len() - 1]]))? != Answer::Congruent {
                return Ok(Err(CacheRefusal::Impure));
            }
        }
        Ok(Ok(set))
    }

    /// Decides whether one of some lines is in the target's set: if so, it evicts together with all members but one.
    ///
    /// An eviction is doubted: if the target is evicted right afterwards even without these lines, another program is
    /// the cause.
    ///
    /// # Errors
    /// Those of the oracle.
    pub(crate) fn decide(&mut self, set: &EvictionSet, asked: Asked<'_>) -> Result<Answer, OracleError> {
        self.effort.decisions += 1;
        let (yes, no) = ((set.with_all / set.without_one).ln(), ((1.0 - set.with_all) / (1.0 - set.without_one)).ln());
        // Neither a single reading nor a single call decides.
        let most = self.odds / 3.0;
        let mut evidence = 0.0;
        for _ in 0..CALLS_MAX {
            if self.is_too_long() {
                break;
            }
            let Some((placed, lines)) = self.place(set, asked) else { return Ok(Answer::Unknown) };
            // A tested member replaces itself.
            let itself = placed.members.iter().position(|member| lines.contains(member));
            let leave = itself.unwrap_or(self.random.below(placed.members.len() as u64) as usize);
            let rest = without(&placed.members, leave);
            // The target enters the last level before the tested lines, so that it is the oldest line there.
            let before = if set.victims { &placed.scrub[..] } else { &[] };
            let after = [&self.scrub_beside(&placed, &lines)[..], &placed.scrub].concat();
            let kept = [before, &rest.repeat(set.passes), &after].concat();
            let others = if lines.len() * set.passes <= REPEATED_MAX {
                [before, &[&lines[..], &rest].concat().repeat(set.passes), &after].concat()
            } else {
                [before, &lines, &rest.repeat(set.passes), &after].concat()
            };
            let evicted = self.evictions(placed.target, &others, ROUNDS)?;
            if evicted > 0 && self.evictions(placed.target, &kept, ROUNDS)? > 0 && set.without_one < 0.1 {
                continue;
            }
            let spared = ROUNDS - evicted;
            evidence += (f64::from(evicted) * yes + f64::from(spared) * no).clamp(-most, most);
            if evidence.abs() >= self.odds {
                return Ok(if evidence > 0.0 { Answer::Congruent } else { Answer::Apart });
            }
        }
        Ok(Answer::Unknown)
    }

    /// Lines that evict tested lines from private sets other than the target's, where needed. Some of them may be in
    /// the target's set of the last level; then the target is evicted even without the tested lines, which does not
    /// count.
    fn scrub_beside(&mut self, set: &EvictionSet, lines: &[PhysAddr]) -> Vec<PhysAddr> {
        let inside = self.private_bytes() - 1;
        let mut known = HashSet::from([set.target.0 & inside]);
        let mut scrub = Vec::new();
        for &line in lines {
            if set.victims && known.insert(line.0 & inside) {
                scrub.extend(self.scrub_of(line, 2));
            }
        }
        scrub
    }

    /// Bytes of a way of the largest private cache; lines at this distance are in the same private sets.
    fn private_bytes(&self) -> u64 {
        let CacheFacts { line, private } = self.oracle.caches();
        private.iter().map(|cache| u64::from(cache.sets) * line).max().unwrap_or(*line)
    }

    /// The place of a test: the set, perhaps moved, and the lines.
    fn place(&mut self, set: &EvictionSet, asked: Asked<'_>) -> Option<(EvictionSet, Vec<PhysAddr>)> {
        let (differences, nulls) = match asked {
            Asked::Lines(lines) => return Some((set.clone(), lines.to_vec())),
            Asked::Differences(differences, nulls) => (differences, nulls),
        };
        (0..DRAWS).find_map(|_| {
            let moved = self.moved(set)?;
            let lines: Option<Vec<PhysAddr>> =
                differences.iter().map(|&difference| self.partner(moved.target, difference, nulls)).collect();
            Some((moved, lines?))
        })
    }

    /// A line with a difference from another, up to known differences of congruent lines; drawn at random, so that a
    /// prefetcher's effect on neighbors does not repeat.
    fn partner(&mut self, addr: PhysAddr, difference: u64, nulls: &Basis) -> Option<PhysAddr> {
        (0..50).find_map(|_| {
            let other = PhysAddr(addr.0 ^ difference ^ gf2::sum(nulls.vectors(), self.random.bits()));
            let pool = &self.pool;
            (other != addr && pool.contains(other) && pool.comparable(addr, other)).then_some(other)
        })
    }

    /// Draws a line.
    pub(crate) fn any(&mut self) -> PhysAddr {
        PhysAddr(self.pool.any(&mut self.random).0 & !(self.oracle.caches().line - 1))
    }

    /// Returns whether the pool has lines with this difference.
    pub(crate) fn has(&mut self, difference: u64) -> bool {
        (0..1000).any(|_| {
            let pool = &self.pool;
            let one = pool.any(&mut self.random);
            let other = PhysAddr(one.0 ^ difference);
            pool.contains(other) && pool.comparable(one, other)
        })
    }

    /// Draws lines that agree with an address in some low bits, except for the flipped bits of a mask; `count` lines,
    /// or as many as the pool has.
    pub(crate) fn alike(&mut self, addr: PhysAddr, bits: u32, flipped: u64, count: usize) -> Vec<PhysAddr> {
        let fixed = ((1u64 << bits) - 1) | flipped;
        let mut known = HashSet::from([addr]);
        let mut lines = Vec::new();
        for _ in 0..20 * count {
            let any = self.pool.any(&mut self.random).0;
            let line = PhysAddr(any & !fixed | (addr.0 ^ flipped) & fixed);
            if self.pool.contains(line) && known.insert(line) {
                lines.push(line);
            }
            if lines.len() == count {
                break;
            }
        }
        lines
    }

    /// The set at another place: under a linear map, lines of one set stay in one set when the same bits of all change.
    pub(crate) fn moved(&mut self, set: &EvictionSet) -> Option<EvictionSet> {
        let (line, bits) = (self.oracle.caches().line, self.pool.bits());
        let lowest = line.trailing_zeros();
        (0..DRAWS).find_map(|_| {
            // Any bits, or only lower ones, which succeed more often in a fragmented pool.
            let width = lowest + 1 + self.random.below(u64::from(bits - lowest)) as u32;
            let width = if self.random.below(2) == 0 { bits } else { width };
            let by = self.random.below(1 << width) & !(line - 1);
            let pool = &self.pool;
            let all = |lines: &[PhysAddr]| -> Option<Vec<PhysAddr>> {
                lines.iter().map(|line| Some(PhysAddr(line.0 ^ by)).filter(|&addr| pool.contains(addr))).collect()
            };
            let target = all(&[set.target])?[0];
            Some(EvictionSet { target, members: all(&set.members)?, scrub: all(&set.scrub)?, ..set.clone() })
        })
    }

    /// Counts how often the set evicts at other places, and how often at the original place, in turn. `None` when there
    /// is no other place.
    pub(crate) fn moves(&mut self, set: &EvictionSet, times: u32) -> Result<Option<[u32; 2]>, OracleError> {
        let mut evicting = [0; 2];
        for _ in 0..times {
            let Some(moved) = self.moved(set) else { return Ok(None) };
            for (set, count) in [&moved, set].into_iter().zip(&mut evicting) {
                let others = [&set.members.repeat(set.passes)[..], &set.scrub].concat();
                *count += self.evictions(set.target, &others, ROUNDS)?;
            }
        }
        Ok(Some(evicting))
    }

    /// Finds one of some differences that preserves the set, by bisection.
    pub(crate) fn find(
        &mut self,
        set: &EvictionSet,
        differences: &[u64],
        nulls: &Basis,
    ) -> Result<Result<Option<u64>, ()>, OracleError> {
        let mut some = differences;
        match self.decide(set, Asked::Differences(some, nulls))? {
            Answer::Apart => return Ok(Ok(None)),
            Answer::Unknown => return Ok(Err(())),
            Answer::Congruent => {}
        }
        while some.len() > 1 {
            let (first, second) = some.split_at(some.len() / 2);
            some = match self.decide(set, Asked::Differences(first, nulls))? {
                Answer::Congruent => first,
                Answer::Apart => second,
                Answer::Unknown => return Ok(Err(())),
            };
        }
        // The last half was only inferred; confirm it.
        match self.decide(set, Asked::Differences(some, nulls))? {
            Answer::Congruent => Ok(Ok(Some(some[0]))),
            _ => Ok(Err(())),
        }
    }
}

fn without(lines: &[PhysAddr], leave: usize) -> Vec<PhysAddr> {
    let mut rest = lines.to_vec();
    rest.remove(leave);
    rest
}
