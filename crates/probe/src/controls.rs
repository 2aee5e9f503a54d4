//! Levels where a conflict is smaller than other disturbances of an access. Each sample of a pair has a control, a
//! single address that is timed right before it; the difference of the two counts.
//!
//! In this case, the largest step in the time of pairs may come from a bank group or a channel, and a conflict may be a
//! smaller step beyond it. That step is a linear function of the difference, and conflicting pairs are in one bank,
//! where all such functions agree. So the function is found first, from single bits and from its predictions of random
//! differences. Conflicts are then sought among differences that do not change the function, where they stand out
//! against pairs without other shifts.

use crate::levels::{Candidate, Landscape};
use crate::oracle::OracleError;
use crate::tester::{Levels, Shifted, Target, Tester, spread};
use crate::view::View;

/// Samples of each single bit, all in turn.
const PASSES: u32 = 250;
/// Random differences that a shifting function must predict; one sample each.
const RANDOM: usize = 2500;
/// Required significance of the prediction, in standard errors: about ten thousand functions are tried.
const PREDICTS: f64 = 7.0;
/// Number of conflicts that determine the levels, and samples of each.
const CONFLICTS: usize = 4;
const CONFLICT_SAMPLES: u32 = 200;
/// Number of differences drawn to find them.
const DRAWS: usize = 600;
/// Assumed sizes of a conflict, in deviations of a sample; natural logarithms of the odds at which a difference is
/// taken for a conflict, or dropped.
const GAPS: [f64; 4] = [1.6, 1.0, 0.7, 0.45];
const SEEMS: f64 = 8.0;
const ASIDE: f64 = -2.0;

/// Searches for levels, each sample with a control.
///
/// # Errors
/// Those of the oracle.
pub(crate) fn survey_with_controls(
    tester: &mut Tester<'_>,
    view: &View,
    bits: u32,
    lowest: u32,
) -> Result<Landscape, OracleError> {
    tester.use_controls(true);
    let mut land = Landscape { candidates: Vec::new(), sigma: 1.0, splits: Vec::new() };
    let singles: Vec<u64> = (lowest..bits).filter_map(|bit| tester.of_bit(view, bit, lowest)).collect();
    let mut slowest = in_turn(tester, view, &singles)?;
    slowest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let random = random(tester, view, &singles)?;
    if random.is_empty() {
        return Ok(land);
    }
    let function = shifting(&singles, &slowest, &random);
    let of = |value| {
        let mut own: Vec<f64> = random
            .iter()
            .filter(|&&(difference, _)| parity(function & difference) == value)
            .map(|&(_, at)| at)
            .collect();
        midmean(&mut own)
    };
    let hit = of(0);
    let shifted = (function != 0).then(|| Shifted { function, ticks: of(1) - hit });
    let ticks = shifted.map_or(0.0, |own| own.ticks);
    let unshifted = |&(difference, at): &(u64, f64)| at - ticks * f64::from(parity(function & difference));
    land.sigma = spread(&mut random.iter().map(unshifted).collect::<Vec<_>>()).max(1.0);
    // Differences that do not change the function, the slowest bits first.
    let pivot = slowest.iter().map(|&(single, _)| single).find(|&single| parity(function & single) == 1);
    let same = |single: u64| if parity(function & single) == 0 { single } else { single ^ pivot.unwrap_or(0) };
    let kernel: Vec<u64> = slowest.iter().map(|&(single, _)| same(single)).filter(|&single| single != 0).collect();
    for gap in GAPS {
        let levels = Levels { hit, conflict: hit + gap * land.sigma, sigma: land.sigma, shifted };
        let mut candidates = kernel.clone();
        for _ in 0..DRAWS {
            candidates.extend(tester.drawn(view, 0, &kernel, |sum| sum != 0));
        }
        for difference in candidates {
            if !seems(tester, view, difference, &levels)? {
                continue;
            }
            let Some(mut samples) = tester.samples(view, difference, CONFLICT_SAMPLES)? else { continue };
            let middle = midmean(&mut samples);
            if middle > hit + gap * land.sigma / 2.0 {
                land.candidates.push(Candidate { target: Target::Difference(difference), samples, middle });
            }
            if land.candidates.len() == CONFLICTS {
                break;
            }
        }
        if !land.candidates.is_empty() {
            break;
        }
    }
    land.candidates.sort_by(|a, b| b.middle.total_cmp(&a.middle));
    if !land.candidates.is_empty() {
        let all = land.candidates.iter().map(|candidate| candidate.middle);
        let conflict = all.sum::<f64>() / land.candidates.len() as f64;
        land.splits = vec![Levels { hit, conflict, sigma: land.sigma, shifted }];
    }
    Ok(land)
}

/// Returns each difference with its level, measured in turn, so that drift affects all alike.
fn in_turn(tester: &mut Tester<'_>, view: &View, differences: &[u64]) -> Result<Vec<(u64, f64)>, OracleError> {
    let mut samples = vec![Vec::new(); differences.len()];
    for _ in 0..PASSES {
        for (&difference, samples) in differences.iter().zip(&mut samples) {
            samples.extend(tester.samples(view, difference, 1)?.unwrap_or_default());
        }
    }
    Ok(differences.iter().copied().zip(samples.iter_mut().map(|samples| midmean(samples))).collect())
}

/// Returns random sums of differences, with one sample each.
fn random(tester: &mut Tester<'_>, view: &View, singles: &[u64]) -> Result<Vec<(u64, f64)>, OracleError> {
    let mut found = Vec::new();
    for _ in 0..RANDOM {
        let Some(difference) = tester.drawn(view, 0, singles, |sum| sum != 0) else { continue };
        let sample = tester.samples(view, difference, 1)?.unwrap_or_default();
        found.extend(sample.into_iter().map(|sample| (difference, sample)));
    }
    Ok(found)
}

/// Returns the function that shifts random differences most, if significant, else 0.
///
/// It is 1 on single bits of similar level: on a run of them in the order of their levels, perhaps plus or minus one
/// bit. A function that is wrong in one bit predicts nothing at all.
fn shifting(singles: &[u64], slowest: &[(u64, f64)], random: &[(u64, f64)]) -> u64 {
    let mut levels: Vec<f64> = random.iter().map(|&(_, at)| at).collect();
    let middle = midmean(&mut levels);
    let sigma = spread(&mut levels);
    let pulls: Vec<(u64, f64)> =
        random.iter().map(|&(difference, at)| (difference, (at - middle).clamp(-1.5 * sigma, 1.5 * sigma))).collect();
    let error = pulls.iter().map(|(_, pull)| pull * pull).sum::<f64>().sqrt();
    let pull = |function: u64| {
        let signed = |&(difference, pull): &(u64, f64)| if parity(function & difference) == 1 { pull } else { -pull };
        pulls.iter().map(signed).sum::<f64>() / error
    };
    let mut best = (PREDICTS, 0);
    let mut all = vec![0];
    all.extend((0..slowest.len()).map(|at| 1u64 << at));
    for from in 0..slowest.len() {
        for to in from + 1..=slowest.len() {
            let run = (from..to).fold(0, |run, at| run | 1u64 << at);
            for change in &all {
                let on = |single: u64| {
                    let at = slowest.iter().position(|&(other, _)| other == single).expect("every bit has a level");
                    (run ^ change) >> at & 1
                };
                let function = singles.iter().fold(0, |function, &single| {
                    let bit = 63 - single.leading_zeros();
                    function | (on(single) ^ u64::from(parity(function & single))) << bit
                });
                let found = pull(function).abs();
                if function != 0 && found > best.0 {
                    best = (found, function);
                }
            }
        }
    }
    best.1
}

/// Returns whether a difference looks like a conflict, from as few samples as possible.
fn seems(tester: &mut Tester<'_>, view: &View, difference: u64, levels: &Levels) -> Result<bool, OracleError> {
    let middle = f64::midpoint(levels.hit, levels.conflict);
    let weight = (levels.conflict - levels.hit) / levels.sigma.powi(2);
    let mut evidence = 0.0;
    while (ASIDE..SEEMS).contains(&evidence) {
        let Some(samples) = tester.samples(view, difference, 1)? else { return Ok(false) };
        evidence += (weight * (samples[0] - middle)).clamp(-1.0, 1.0);
    }
    Ok(evidence >= SEEMS)
}

fn parity(bits: u64) -> u32 {
    bits.count_ones() & 1
}

/// The mean of the middle half: nearly as precise as a mean, and nearly as robust as a median.
fn midmean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let half = &values[quarter..values.len() - quarter];
    half.iter().sum::<f64>() / half.len() as f64
}
