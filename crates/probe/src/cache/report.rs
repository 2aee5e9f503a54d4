//! What comes out: the last level, a part of it, or why there is nothing to see.

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

/// Probability that one question is answered wrongly.
const ERROR: f64 = 1e-6;
/// Address bits of a huge page, which a hypervisor leaves together if it leaves anything.
const HUGE_PAGE_BITS: u32 = 21;

/// A last-level cache, as far as timing shows it.
#[derive(Clone, Debug)]
pub struct LastLevel {
    /// Bytes of a line, as the machine says.
    pub line: u64,
    /// Ways: lines that fit a set.
    pub ways: u32,
    /// Address bits that select the set alone, or the slice alone: the two look the same. Of a part of the answer, those that
    /// are sure.
    pub set_bits: Vec<u32>,
    /// How the slice is selected, beyond these.
    pub slice: Slice,
}

/// How addresses select the slice.
#[derive(Clone, Debug)]
pub enum Slice {
    /// By functions. They are a basis of a span, and reduced by the set bits: whether a set bit takes part in the hardware's own
    /// function cannot be seen, since lines of one set have it in common, and does not matter for which lines meet. None: one slice.
    Functions(Vec<u64>),
    /// By a published hash; by each of these, if more than one fits, which then agree wherever they were compared.
    Known(Vec<KnownHash>),
    /// In a way that is not known.
    Unknown,
}

/// The answer.
#[derive(Clone, Debug)]
pub enum CacheAnswer {
    /// All of it, for all address bits that the pool has.
    Found(LastLevel),
    /// What holds for a part, and for which.
    Partial(LastLevel, String),
    /// Why nothing could be found.
    Nothing(CacheRefusal),
}

/// What the answer rests on.
#[derive(Clone, Debug)]
pub struct CacheReport {
    /// The answer.
    pub answer: CacheAnswer,
    /// Where readings lie.
    pub levels: CacheLevels,
    /// The functions of set and slice, with what they were verified by, or why there are none; `None` without an eviction set.
    pub congruence: Option<Result<Congruence, NotLinear>>,
    /// How published hashes compare, best first; empty where the hash is linear, or addresses are not known well enough.
    pub scores: Vec<Score>,
    /// What has been asked of the machine.
    pub effort: CacheEffort,
}

impl CacheReport {
    /// Gives the probability that the answer is right, at least, as far as readings err independently.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        (1.0 - self.effort.decisions as f64 * ERROR).max(0.0)
    }

    /// Gives what was found, all of it or a part.
    #[must_use]
    pub fn found(&self) -> Option<&LastLevel> {
        match &self.answer {
            CacheAnswer::Found(last) | CacheAnswer::Partial(last, _) => Some(last),
            CacheAnswer::Nothing(_) => None,
        }
    }
}

/// Finds out how a machine's last-level cache is indexed.
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
        // Where a hypervisor has put huge pages anywhere, addresses are what they seem within each.
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

/// Differences of lines of the pool, known or not: a basis of their span.
fn differences(prober: &CacheProber<'_>) -> Basis {
    let line = prober.facts().line;
    let mut span = Basis::default();
    let mut origin = None;
    for piece in prober.pool().pieces() {
        let mut at = piece.start.0;
        while at < piece.end.0 {
            // The largest aligned block that is left of the piece.
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
    // Functions of some bits may use others: only bits that never change among lines of a set are the set's for sure.
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
        format!("lines of the pool differ in {} ways, of which {looked} could be looked at", all.rank())
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
                write!(f, "lines evict, but what was found of them once was contradicted later")
            }
            CacheRefusal::Impure => {
                write!(
                    f,
                    "lines evict another that does not evict them: the private caches are not what the machine says"
                )
            }
            CacheRefusal::TooLong(accesses) => {
                write!(f, "lines evict now and then, but after {accesses} accesses nothing about them is certain")
            }
        }
    }
}

impl Congruence {
    /// Parts the functions into single bits and, reduced by these, the rest.
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
    /// Gives the number of slices, as far as functions beyond single bits show it; `None` when the hash is not known.
    #[must_use]
    pub fn slices(&self) -> Option<u32> {
        match &self.slice {
            Slice::Functions(functions) => Some(1 << functions.len()),
            Slice::Known(hashes) => hashes.first().map(|hash| hash.slices),
            Slice::Unknown => None,
        }
    }

    /// Gives the set bits that tell pages apart.
    pub fn color_bits(&self) -> impl Iterator<Item = u32> + '_ {
        self.set_bits.iter().copied().filter(|bit| 1 << bit >= PAGE_SIZE)
    }

    /// Counts the set colors of pages: classes of pages no two of which have a line in one set. Where the hash is not linear, those of
    /// the set bits.
    #[must_use]
    pub fn page_colors(&self) -> u64 {
        let mut functions: Vec<u64> = self.set_bits.iter().map(|bit| 1 << bit).collect();
        if let Slice::Functions(slice) = &self.slice {
            functions.extend(slice);
        }
        let inside = Basis::spanning(functions.iter().map(|function| function & (PAGE_SIZE - 1)));
        1 << (Basis::spanning(functions).rank() - inside.rank())
    }

    /// Gives it as a section of a platform file; `source` says how it was measured.
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
