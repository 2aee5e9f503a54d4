//! Eviction sets: lines that fill the set of another, how they are found, and what is asked with them.

use crate::cache::oracle::{CacheFacts, CacheOracle};
use crate::oracle::OracleError;
use crate::pool::Pool;
use memtint_map::gf2::{self, Basis};
use memtint_units::PhysAddr;
use memtint_units::Random;
use std::collections::{HashSet, VecDeque};

/// Readings of a hit and of memory that the threshold between them rests on.
const LEVELS: usize = 15;
/// Calls after which one of each is renewed.
const RENEWED: u64 = 32;
/// Share of these that may lie on the wrong side of the threshold.
const MISTAKEN_MAX: f64 = 0.15;
/// Timed reloads of one call; the sets are elsewhere in the next.
const ROUNDS: u32 = 2;
/// Calls of one decision.
const CALLS_MAX: u32 = 120;
/// Lines that are tried together to evict one, at most.
const CANDIDATES_MAX: usize = 1 << 14;
/// Ways at most.
const WAYS_MAX: usize = 160;
/// Targets that are tried before it is given up.
const ATTEMPTS: u32 = 4;
/// Draws of a place for a set in the pool.
const DRAWS: u32 = 200;
/// Candidates agree with their target in so many low bits: in the private sets and, on every machine that is known, in most of the
/// bits that index the last level.
pub(crate) const ALIKE: u32 = 17;
/// Lines of one set are accessed over and over until a set of a cache that replaces at random is full of them.
const PASSES: [usize; 4] = [1, 2, 8, 32];
/// More lines than this are not accessed over and over.
const REPEATED_MAX: usize = 2048;
/// By how much the share of evictions must rise with the last member; and at least, when nothing better comes.
const RISE: [f64; 2] = [0.7, 0.3];
/// Accesses after which nothing more is begun: some seconds of a machine's. Two thirds of it are enough for every cache of the tests.
const ACCESSES_MAX: u64 = 30_000_000;
/// Shares of evictions that decide with certainty are not believed.
const SHARE_MIN: f64 = 0.02;

/// What a question came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// At least one of the lines is in the target's set.
    Congruent,
    /// None is.
    Apart,
    /// It could not be told.
    Unknown,
}

/// What has been asked of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheEffort {
    /// Accesses, timed or not, without the round before the first of each call.
    pub accesses: u64,
    /// Accesses that were timed.
    pub timed: u64,
    /// Questions that were decided.
    pub decisions: u64,
}

/// Where readings lie, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct CacheLevels {
    /// A line that was just read: the median.
    pub near: f64,
    /// A line that was read before others of its private sets were, twice as many as these have ways, and that the last level
    /// should have then: the median.
    pub hit: f64,
    /// A line that no cache has: the median.
    pub memory: f64,
    /// What is above is taken to come from memory.
    pub threshold: f64,
    /// Share of the readings that these rest on which lie on the wrong side of the threshold, the larger of the two.
    pub mistaken: f64,
}

/// Why nothing can be said of a last level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRefusal {
    /// A line that was just used is as slow as one from memory.
    NoLevels,
    /// Many lines do not evict one.
    NothingEvicts {
        /// So many.
        lines: usize,
        /// Reloads that came from memory, after half as many lines or more.
        evicted: u32,
        /// All such reloads.
        reloads: u32,
    },
    /// Lines evict, but what was found of them once was contradicted later.
    Unstable,
    /// Lines evict a target that are not evicted by it: the private caches are not those that the machine names.
    Impure,
    /// Accesses came to so many, and nothing about the lines that evict was certain yet.
    TooLong(u64),
}

/// A target, and just as many lines of its set as evict it.
#[derive(Clone, Debug)]
pub(crate) struct EvictionSet {
    /// The line that is evicted.
    pub(crate) target: PhysAddr,
    /// Lines of the target's set and slice, as many as there are ways.
    pub(crate) members: Vec<PhysAddr>,
    /// Lines of the target's private sets, but of none of its last-level sets, which push it and the members out of the private
    /// caches.
    scrub: Vec<PhysAddr>,
    passes: usize,
    /// The last level gets lines from private caches only: one that was accessed is not there before it is pushed out.
    victims: bool,
    /// Share of readings that show an eviction, when all members are accessed, and when one is left out.
    with_all: f64,
    without_one: f64,
    /// Lines that had to be looked at for one of the set, about.
    pub(crate) drawn_per_member: usize,
}

impl EvictionSet {
    fn rise(&self) -> f64 {
        self.with_all - self.without_one
    }

    /// A set of other lines, asked in the same way.
    pub(crate) fn of_lines(&self, target: PhysAddr, members: Vec<PhysAddr>, scrub: Vec<PhysAddr>) -> EvictionSet {
        EvictionSet { target, members, scrub, ..self.clone() }
    }
}

/// What is asked of lines: do they replace a member?
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<'a> {
    /// These lines, with the set where it was found.
    Lines(&'a [PhysAddr]),
    /// Lines with these differences from the target, with the set moved anywhere; known differences of congruent lines may be
    /// added.
    Differences(&'a [u64], &'a Basis),
}

/// Asks an oracle, and keeps what is needed to make sense of its readings.
pub(crate) struct CacheProber<'a> {
    oracle: &'a mut dyn CacheOracle,
    /// Memory as far as its addresses are believed.
    pool: Pool,
    random: Random,
    near: VecDeque<f64>,
    hits: VecDeque<f64>,
    memory: VecDeque<f64>,
    calls: u64,
    effort: CacheEffort,
    /// Natural logarithm of the odds at which a question ends.
    odds: f64,
}

impl<'a> CacheProber<'a> {
    /// Starts asking. Each question errs with a probability of about `error` at most.
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

    /// Gives what has been asked.
    #[must_use]
    pub(crate) fn effort(&self) -> CacheEffort {
        self.effort
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Believes addresses below this bit only.
    pub(crate) fn believe(&mut self, bits: u32) {
        self.pool = self.pool.in_blocks(bits);
    }

    /// Tells whether it has gone on for long enough.
    pub(crate) fn is_too_long(&self) -> bool {
        self.effort.accesses > ACCESSES_MAX
    }

    pub(crate) fn facts(&self) -> &CacheFacts {
        self.oracle.caches()
    }

    /// Gives where readings lie at present.
    #[must_use]
    pub(crate) fn levels(&self) -> CacheLevels {
        let sorted = |readings: &VecDeque<f64>| {
            let mut sorted: Vec<f64> = readings.iter().copied().collect();
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        let (near, hits, memory) = (sorted(&self.near), sorted(&self.hits), sorted(&self.memory));
        // Memory has two levels of its own, and hits have stragglers.
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

    /// Takes one more reading of a line that was just read, one of a line that the last level should have, and one of a line that is in
    /// no cache.
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

    /// Lines that replace all that a target's private sets hold: some for each way. They differ from the target in the bit right
    /// above those that index the largest private cache, which on most machines is one of the last level's.
    pub(crate) fn scrub_of(&mut self, target: PhysAddr, per_way: u32) -> Vec<PhysAddr> {
        let bytes = self.private_bytes();
        let ways = self.oracle.caches().private.iter().map(|cache| cache.ways).max().unwrap_or(0);
        self.alike(target, bytes.trailing_zeros(), bytes, (per_way * ways) as usize)
    }

    /// Do these lines evict the target, at once and over and over?
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

    /// Counts evictions, and reloads, until there are clearly more of the ones than of the others.
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
            // The last of the shortest part that evicts is one that tips the scales.
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

    /// Lines that agree with the target in their low bits, more and more until they evict it.
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

    /// Takes lines of the target's set out of the scrub, looks how sure a reading is, and whether members evict each other.
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
        // Those that were found in the scrub were accessed last so far.
        set.scrub = scrub;
        if set.members.is_empty() {
            return Ok(Err(CacheRefusal::Unstable));
        }
        // Members that are accessed last stay in a private cache; do they evict all the same?
        let last = [&set.scrub[..], &set.members].concat();
        set.victims = !self.evicts(set.target, &last, 1, &[])?;
        let (mut with_all, mut without_one, mut without_one_elsewhere, mut readings) = (0, 0, 0, 0);
        for leave in 0..set.members.len().max(12) {
            let fewer = without(&set.members, leave % set.members.len());
            for (lines, count) in [(&set.members, &mut with_all), (&fewer, &mut without_one)] {
                let others = [&lines.repeat(set.passes)[..], &set.scrub].concat();
                *count += self.evictions(set.target, &others, ROUNDS)?;
            }
            // Elsewhere, lines of other programs may fill the sets.
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

    /// Decides whether one of some lines is in the target's set: together with all members but one it then evicts.
    ///
    /// What looks evicted is doubted: when the target is evicted without these lines too right after, another program is to blame.
    ///
    /// # Errors
    /// Those of the oracle.
    pub(crate) fn decide(&mut self, set: &EvictionSet, asked: Asked<'_>) -> Result<Answer, OracleError> {
        self.effort.decisions += 1;
        let (yes, no) = ((set.with_all / set.without_one).ln(), ((1.0 - set.with_all) / (1.0 - set.without_one)).ln());
        // No reading alone decides, and no call either.
        let most = self.odds / 3.0;
        let mut evidence = 0.0;
        for _ in 0..CALLS_MAX {
            if self.is_too_long() {
                break;
            }
            let Some((placed, lines)) = self.place(set, asked) else { return Ok(Answer::Unknown) };
            // A member that is asked for replaces itself.
            let itself = placed.members.iter().position(|member| lines.contains(member));
            let leave = itself.unwrap_or(self.random.below(placed.members.len() as u64) as usize);
            let rest = without(&placed.members, leave);
            // The target comes to the last level before the lines that are asked for do, so that it is the oldest there.
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

    /// Lines that push asked ones out of private sets that are not the target's, where that is needed. Some of them may be in the
    /// target's set of the last level; then it is evicted without the asked ones too, which does not count.
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

    /// Bytes of a way of the largest private cache: lines that many bytes apart are in the same private sets.
    fn private_bytes(&self) -> u64 {
        let CacheFacts { line, private } = self.oracle.caches();
        private.iter().map(|cache| u64::from(cache.sets) * line).max().unwrap_or(*line)
    }

    /// Where a question is put: the set, perhaps moved, and the lines.
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

    /// A line with a difference from another, or with one that is the same but for a known one of congruent lines: drawn at
    /// random, so that what a prefetcher does to neighbours is not done again.
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

    /// Does the pool have lines with this difference?
    pub(crate) fn has(&mut self, difference: u64) -> bool {
        (0..1000).any(|_| {
            let pool = &self.pool;
            let one = pool.any(&mut self.random);
            let other = PhysAddr(one.0 ^ difference);
            pool.contains(other) && pool.comparable(one, other)
        })
    }

    /// Draws lines that agree with an address in some low bits, but for those of a mask, which they have the other way round; as
    /// many as asked for, or as the pool has.
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

    /// The set somewhere else: under a linear map, lines of one set stay lines of one set when the same bits of all change.
    pub(crate) fn moved(&mut self, set: &EvictionSet) -> Option<EvictionSet> {
        let (line, bits) = (self.oracle.caches().line, self.pool.bits());
        let lowest = line.trailing_zeros();
        (0..DRAWS).find_map(|_| {
            // Any bits, or only lower ones, which a pool in pieces has more of.
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

    /// Counts how often the set evicts somewhere else, and how often where it was found, in turn. `None` when there is no elsewhere.
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

    /// Finds one of some differences that leaves the set as it is: halves, as long as one of them does.
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
        // The last half was only inferred.
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
