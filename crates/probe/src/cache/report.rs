//! The result: the last level, a part of it, or the reason why it cannot be determined.

use crate::cache::hash::KnownHash;
use crate::cache::linear::{Congruence, NotLinear, congruence};
use crate::cache::oracle::CacheOracle;
use crate::cache::prober::{CacheEffort, CacheLevels, CacheProber, CacheRefusal, EvictionSet};
use crate::cache::recognise::{Score, recognise, set_bits};
use crate::oracle::OracleError;
use memtint_map::SliceHash;
use memtint_map::file::LlcSection;
use memtint_map::gf2::{self, Basis};
use memtint_units::{ByteSize, PAGE_SIZE};
use std::fmt;

/// Error probability of one test.
const ERROR: f64 = 1e-6;
/// Address bits of a huge page; a hypervisor may keep memory contiguous within huge pages, if at all.
const HUGE_PAGE_BITS: u32 = 21;

/// A last-level cache, as determined by timing.
#[derive(Clone, Debug)]
pub struct LastLevel {
    /// Bytes of a line, as reported by the machine.
    pub line: u64,
    /// Ways: lines that fit a set.
    pub ways: u32,
    /// Address bits that only select the set, or only the slice: timing cannot distinguish the two. In a partial
    /// answer, only the certain ones.
    pub set_bits: Vec<u32>,
    /// The selection of the slice beyond these bits.
    pub slice: Slice,
}

/// How addresses select the slice.
#[derive(Clone, Debug)]
pub enum Slice {
    /// By functions: a basis of their span, reduced by the set bits. Whether a set bit is part of the hardware's
    /// function is not observable, because lines of one set share it, and does not affect which lines collide. Empty:
    /// one slice.
    Functions(Vec<u64>),
    /// By a published hash. If several fit, they agree wherever they were compared.
    Known(Vec<KnownHash>),
    /// By an unknown function.
    Unknown,
}

/// The answer.
#[derive(Clone, Debug)]
pub enum CacheAnswer {
    /// The whole index, for all address bits of the pool.
    Found(LastLevel),
    /// A part of the index, and a description of that part.
    Partial(LastLevel, String),
    /// The reason why nothing was found.
    Nothing(CacheRefusal),
}

/// The answer and its evidence.
#[derive(Clone, Debug)]
pub struct CacheReport {
    /// The answer.
    pub answer: CacheAnswer,
    /// Levels of readings.
    pub levels: CacheLevels,
    /// The functions of set and slice with their verification, or the reason why there are none; `None` without an
    /// eviction set.
    pub congruence: Option<Result<Congruence, NotLinear>>,
    /// Scores of published hashes, best first; empty where the hash is linear, or too few address bits are known.
    pub scores: Vec<Score>,
    /// Cost of the tests.
    pub effort: CacheEffort,
}

impl CacheReport {
    /// Returns the confidence in the answer (a lower bound, assuming independent measurement errors).
    #[must_use]
    pub fn confidence(&self) -> f64 {
        (1.0 - self.effort.decisions as f64 * ERROR).max(0.0)
    }

    /// Returns the last level, whole or in part, if found.
    #[must_use]
    pub fn found(&self) -> Option<&LastLevel> {
        match &self.answer {
            CacheAnswer::Found(last) | CacheAnswer::Partial(last, _) => Some(last),
            CacheAnswer::Nothing(_) => None,
        }
    }
}

/// Determines the index of a machine's last-level cache.
///
/// # Errors
/// Those of the oracle.
pub fn probe_cache(oracle: &mut dyn CacheOracle, seed: u64) -> Result<CacheReport, OracleError> {
    let mut prober = CacheProber::new(oracle, seed, ERROR)?;
    let set = match prober.eviction_set()? {
        Ok(set) => set,
        Err(why) => return Ok(report(&prober, CacheAnswer::Nothing(why), None, Vec::new())),
    };
    let found = congruence(&mut prober, &set)?;
    let (answer, scores) = match &found {
        Ok(linear) => (of_linear(&mut prober, &set, linear)?, Vec::new()),
        Err(why) => of_other(&mut prober, &set, why)?,
    };
    if matches!(answer, CacheAnswer::Partial(..)) && matches!(found, Err(NotLinear::Moves { .. })) {
        // Where a hypervisor relocates huge pages, addresses are still correct within each.
        prober.believe(HUGE_PAGE_BITS);
        if let Ok(within) = congruence(&mut prober, &set)? {
            let answer = match of_linear(&mut prober, &set, &within)? {
                CacheAnswer::Partial(last, why) => CacheAnswer::Partial(
                    last,
                    format!("the index is linear only within blocks of {}: {why}", ByteSize(1 << HUGE_PAGE_BITS)),
                ),
                answer => answer,
            };
            return Ok(report(&prober, answer, Some(Ok(within)), scores));
        }
    }
    Ok(report(&prober, answer, Some(found), scores))
}

fn report(
    prober: &CacheProber<'_>,
    answer: CacheAnswer,
    congruence: Option<Result<Congruence, NotLinear>>,
    scores: Vec<Score>,
) -> CacheReport {
    let answer = match answer {
        CacheAnswer::Nothing(_) if prober.is_too_long() => {
            CacheAnswer::Nothing(CacheRefusal::TooLong(prober.effort().accesses))
        }
        answer => answer,
    };
    CacheReport { answer, levels: prober.levels(), congruence, scores, effort: prober.effort() }
}

/// A basis of the span of all differences of lines of the pool, including unknown bits.
fn differences(prober: &CacheProber<'_>) -> Basis {
    let line = prober.facts().line;
    let mut span = Basis::default();
    let mut origin = None;
    for piece in prober.pool().pieces() {
        let mut at = piece.start.0;
        while at < piece.end.0 {
            // The largest aligned block at the beginning of the rest of the piece.
            let size = (1u64 << at.trailing_zeros().min(63)).min(1 << (piece.end.0 - at).ilog2());
            span.insert((at ^ *origin.get_or_insert(at)) & !(line - 1));
            for bit in line.trailing_zeros()..size.trailing_zeros() {
                span.insert(1 << bit);
            }
            at += size;
        }
    }
    span
}

fn of_linear(prober: &mut CacheProber<'_>, set: &EvictionSet, linear: &Congruence) -> Result<CacheAnswer, OracleError> {
    let (line, all) = (prober.facts().line, differences(prober));
    let ways = set.members.len() as u32;
    if linear.covered.count_ones() == all.rank() {
        let (set_bits, functions) = linear.parted();
        let last = LastLevel { line, ways, set_bits, slice: Slice::Functions(functions) };
        let used = linear.functions.vectors().iter().fold(0, |used, function| used | function);
        if used & line != 0 {
            return Ok(CacheAnswer::Found(last));
        }
        let why = format!(
            "bit {} changes nothing, as if lines were twice as long: a prefetcher that brings neighbours looks the same, and should \
             be off",
            line.trailing_zeros()
        );
        return Ok(CacheAnswer::Partial(last, why));
    }
    // Functions of some bits may use others: only bits that never differ among lines of a set certainly index the set.
    let alone = set_bits(prober, set)?.unwrap_or_default();
    let single = linear.parted().0;
    if alone.iter().any(|bit| linear.covered >> bit & 1 == 1 && !single.contains(bit)) {
        return Ok(CacheAnswer::Nothing(CacheRefusal::Unstable));
    }
    let known = prober.pool().known_bits();
    let why = if !linear.undecided.is_empty() {
        format!("bits {:?} could not be decided", linear.undecided)
    } else if all.pivots().checked_shr(known).unwrap_or(0) != 0 {
        format!(
            "addresses are known below bit {known} only: {} functions of these bits decide, {} of them single bits",
            linear.functions.rank(),
            single.len()
        )
    } else {
        let looked = linear.covered.count_ones();
        format!("lines of the pool differ in {} ways, of which {looked} could be tested", all.rank())
    };
    Ok(CacheAnswer::Partial(LastLevel { line, ways, set_bits: alone, slice: Slice::Unknown }, why))
}

fn of_other(
    prober: &mut CacheProber<'_>,
    set: &EvictionSet,
    why: &NotLinear,
) -> Result<(CacheAnswer, Vec<Score>), OracleError> {
    let Some(set_bits) = set_bits(prober, set)? else {
        return Ok((CacheAnswer::Nothing(CacheRefusal::Unstable), Vec::new()));
    };
    let (line, ways) = (prober.facts().line, set.members.len() as u32);
    let last = LastLevel { line, ways, set_bits, slice: Slice::Unknown };
    let known = prober.pool().known_bits();
    let unknown_above = differences(prober).pivots().checked_shr(known).unwrap_or(0) != 0;
    let (fitting, scores) = if unknown_above { Default::default() } else { recognise(prober, set)? };
    if !fitting.is_empty() {
        return Ok((CacheAnswer::Found(LastLevel { slice: Slice::Known(fitting), ..last }), scores));
    }
    let NotLinear::Moves { .. } = why else {
        return Ok((CacheAnswer::Nothing(CacheRefusal::Unstable), scores));
    };
    let and = if unknown_above {
        format!("addresses are known below bit {known} only")
    } else {
        format!("none of {} published hashes that are not linear fits", scores.len())
    };
    Ok((CacheAnswer::Partial(last, format!("the slice hash does not look linear, and {and}")), scores))
}

impl fmt::Display for CacheRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheRefusal::NoLevels => write!(f, "a line that was just used is as slow as one from memory"),
            CacheRefusal::NothingEvicts { lines, evicted, reloads } => {
                write!(
                    f,
                    "no lines evict another: after up to {lines} others, {evicted} of {reloads} reloads came from memory"
                )
            }
            CacheRefusal::Unstable => {
                write!(f, "lines evict, but later measurements contradict earlier ones")
            }
            CacheRefusal::Impure => {
                write!(
                    f,
                    "lines evict another that does not evict them: the private caches are not those that the machine reports"
                )
            }
            CacheRefusal::TooLong(accesses) => {
                write!(f, "lines evict now and then, but after {accesses} accesses nothing about them is certain")
            }
        }
    }
}

impl Congruence {
    /// Splits the functions into single bits and the rest, reduced by these.
    #[must_use]
    pub fn parted(&self) -> (Vec<u32>, Vec<u64>) {
        let single = gf2::bits(self.covered).filter(|&bit| self.functions.contains(1 << bit));
        let single: Vec<u32> = single.collect();
        let mask = single.iter().fold(0, |mask, bit| mask | 1u64 << bit);
        let rest = Basis::spanning(self.functions.vectors().iter().map(|function| function & !mask));
        (single, rest.vectors().to_vec())
    }
}

impl LastLevel {
    /// Returns the number of slices that follows from functions beyond single bits; `None` when the hash is unknown.
    #[must_use]
    pub fn slices(&self) -> Option<u32> {
        match &self.slice {
            Slice::Functions(functions) => Some(1 << functions.len()),
            Slice::Known(hashes) => hashes.first().map(|hash| hash.slices),
            Slice::Unknown => None,
        }
    }

    /// Returns the set bits above the page offset.
    pub fn color_bits(&self) -> impl Iterator<Item = u32> + '_ {
        self.set_bits.iter().copied().filter(|bit| 1 << bit >= PAGE_SIZE)
    }

    /// Counts the set colors of pages: lines of pages in different classes never share a set. Where the hash is not
    /// linear, only set bits count.
    #[must_use]
    pub fn page_colors(&self) -> u64 {
        let mut functions: Vec<u64> = self.set_bits.iter().map(|bit| 1 << bit).collect();
        if let Slice::Functions(slice) = &self.slice {
            functions.extend(slice);
        }
        let inside = Basis::spanning(functions.iter().map(|function| function & (PAGE_SIZE - 1)));
        1 << (Basis::spanning(functions).rank() - inside.rank())
    }

    /// Returns it as a section of a platform file; `source` describes the measurement.
    #[must_use]
    pub fn section(&self, source: &str) -> LlcSection {
        let bits = |functions: &[u64]| functions.iter().map(|&function| gf2::bits(function).collect()).collect();
        let slices = self.slices();
        let size = slices
            .map(|slices| ByteSize((self.line * u64::from(self.ways) * u64::from(slices)) << self.set_bits.len()));
        let (hash, slice_functions, formula, not_modelled) = match &self.slice {
            Slice::Functions(functions) if functions.is_empty() => (SliceHash::None, Vec::new(), None, None),
            Slice::Functions(functions) => (SliceHash::Linear, bits(functions), None, None),
            Slice::Known(hashes) => {
                let hash = &hashes[0];
                let kind = if hash.formula.is_some() { SliceHash::Mixer } else { SliceHash::BaseSequence };
                let left = format!("the output bits of the slice hash {:?} that are not linear", hash.id);
                (kind, bits(&hash.linear), hash.formula.clone(), Some(left))
            }
            Slice::Unknown => (SliceHash::Unknown, Vec::new(), None, Some("the slice hash".to_owned())),
        };
        LlcSection {
            size,
            ways: Some(self.ways),
            line: ByteSize(self.line),
            slices,
            instances: None,
            set_bits: self.set_bits.clone(),
            slice_functions,
            hash,
            formula,
            not_modelled,
            assumed: false,
            source: source.to_owned(),
        }
    }
}
