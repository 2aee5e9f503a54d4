//! Analysis of a nonlinear slice hash: the bits that only index the set, and the matching published hash.

use crate::cache::hash::KnownHash;
use crate::cache::prober::{ALIKE, Answer, Asked, CacheProber, EvictionSet};
use crate::oracle::OracleError;
use memtint_units::PhysAddr;

/// Number of eviction sets for the comparison of hashes.
const ANCHORS: usize = 3;
/// Number of random lines for each.
const DRAWN: usize = 24;
/// Number of lines of other slices that are tested against a predicted set.
const PREDICTED: usize = 64;
/// Expected number of lines that are congruent by chance, in a group that tests whether a bit indexes the set.
const CHANCE: usize = 20;

/// Comparison of a published hash with the measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Score {
    /// The hash.
    pub id: String,
    /// Pairs of lines whose congruence it predicts correctly.
    pub agreeing: u32,
    /// All compared pairs.
    pub compared: u32,
    /// Correctly predicted sets of lines, one for each of its slices, up to the first wrong one; 0 for a hash that does
    /// not agree with all pairs.
    pub sets: u32,
}

/// A pair of lines with equal low bits, and whether they are congruent.
struct Pair {
    lines: [PhysAddr; 2],
    congruent: bool,
}

/// Returns the bits that only index the set, `None` when one could not be decided. Lines that differ in such a bit are
/// never congruent, whatever their other bits.
///
/// For each bit that is equal in all members, a group of lines is tested that differ from the target in this bit and
/// are random above. The group is large enough to contain some congruent lines by chance, unless the bit indexes the
/// set. Equally many lines that do not differ in the bit serve as controls, before and after: some of them must be
/// congruent.
///
/// # Errors
/// Those of the oracle.
pub(crate) fn set_bits(prober: &mut CacheProber<'_>, set: &EvictionSet) -> Result<Option<Vec<u32>>, OracleError> {
    let count = (CHANCE * set.drawn_per_member).clamp(64, 1 << 13);
    let differ = set.members.iter().fold(0, |differ, member| differ | member.0 ^ set.target.0);
    let (first, end) = (prober.facts().line.trailing_zeros(), prober.pool().bits());
    let mut found = Vec::new();
    for bit in (first..end).filter(|bit| differ >> bit & 1 == 0) {
        let lines = prober.alike(set.target, ALIKE, 1 << bit, count);
        let controls = [0, 1].map(|_| prober.alike(set.target, ALIKE, 0, count));
        if 2 * lines.len() < count || 2 * controls[0].len() < count {
            return Ok(None);
        }
        let before = prober.decide(set, Asked::Lines(&controls[0]))?;
        let answer = prober.decide(set, Asked::Lines(&lines))?;
        let after = prober.decide(set, Asked::Lines(&controls[1]))?;
        match (before, answer, after) {
            (Answer::Congruent, Answer::Apart, Answer::Congruent) => found.push(bit),
            (Answer::Congruent, Answer::Congruent, Answer::Congruent) => {}
            _ => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Compares all published hashes with measurements at some eviction sets; returns those that fit, and all scores.
///
/// A hash fits if it agrees with all pairs and is right about every slice: lines that it predicts to be in one set are,
/// and others are not.
///
/// # Errors
/// Those of the oracle.
pub(crate) fn recognise(
    prober: &mut CacheProber<'_>,
    set: &EvictionSet,
) -> Result<(Vec<KnownHash>, Vec<Score>), OracleError> {
    let mut pairs = Vec::new();
    for turn in 0..ANCHORS {
        let other = if turn == 0 { None } else { prober.eviction_set()?.ok() };
        let anchor = other.as_ref().unwrap_or(set);
        for &member in &anchor.members {
            pairs.push(Pair { lines: [anchor.target, member], congruent: true });
        }
        let drawn = prober.alike(anchor.target, ALIKE, 0, DRAWN);
        measure(prober, anchor, &drawn, &mut pairs)?;
    }
    let (mut fitting, mut scores) = (Vec::new(), Vec::new());
    for hash in KnownHash::all() {
        let mut score = score(&hash, &pairs);
        if score.agreeing == score.compared {
            while score.sets < hash.slices && predicts(prober, set, &hash, score.sets)? {
                score.sets += 1;
            }
            if score.sets == hash.slices {
                fitting.push(hash);
            }
        }
        scores.push(score);
    }
    scores.sort_by(|a, b| b.sets.cmp(&a.sets).then(b.agreeing.cmp(&a.agreeing)).then(a.id.cmp(&b.id)));
    Ok((fitting, scores))
}

/// Returns whether a hash is right about a newly drawn set of lines of a slice: as many lines as ways evict another
/// one, and lines that the hash puts into other slices cannot replace one of them.
fn predicts(
    prober: &mut CacheProber<'_>,
    like: &EvictionSet,
    hash: &KnownHash,
    slice: u32,
) -> Result<bool, OracleError> {
    let ways = like.members.len();
    let target = (0..1000 * hash.slices).map(|_| prober.any()).find(|line| hash.slice(line.0) == slice);
    let Some(target) = target else { return Ok(false) };
    let count = 4 * ways * hash.slices as usize;
    let is = |line: &PhysAddr| hash.slice(line.0) == slice;
    let (mut members, others): (Vec<_>, Vec<_>) = prober.alike(target, ALIKE, 0, count).into_iter().partition(is);
    members.truncate(ways);
    // Lines of the target's private sets that the hash puts elsewhere.
    let scrub = prober.scrub_of(target, 4).into_iter().filter(|line| !is(line)).collect();
    if members.len() < ways || others.len() < PREDICTED {
        return Ok(false);
    }
    let set = like.of_lines(target, members, scrub);
    let itself = prober.decide(&set, Asked::Lines(&set.members[..1]))?;
    let apart = prober.decide(&set, Asked::Lines(&others[..PREDICTED]))?;
    Ok((itself, apart) == (Answer::Congruent, Answer::Apart))
}

fn measure(
    prober: &mut CacheProber<'_>,
    anchor: &EvictionSet,
    lines: &[PhysAddr],
    pairs: &mut Vec<Pair>,
) -> Result<(), OracleError> {
    for &line in lines {
        let congruent = match prober.decide(anchor, Asked::Lines(&[line]))? {
            Answer::Congruent => true,
            Answer::Apart => false,
            Answer::Unknown => continue,
        };
        pairs.push(Pair { lines: [anchor.target, line], congruent });
    }
    Ok(())
}

fn score(hash: &KnownHash, pairs: &[Pair]) -> Score {
    let right = |pair: &&Pair| (hash.slice(pair.lines[0].0) == hash.slice(pair.lines[1].0)) == pair.congruent;
    Score {
        id: hash.id.clone(),
        agreeing: pairs.iter().filter(right).count() as u32,
        compared: pairs.len() as u32,
        sets: 0,
    }
}
