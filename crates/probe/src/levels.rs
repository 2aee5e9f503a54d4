//! Levels of readings for pairs that conflict, and for pairs that do not.

use crate::controls::survey_with_controls;
use crate::oracle::OracleError;
use crate::report::Step;
use crate::tester::{CLEAR, Levels, Target, Tester, median};
use crate::view::View;

/// Samples of each difference in the first pass, and the most samples.
const FIRST: u32 = 6;
const SAMPLES_MAX: usize = 200;
/// The fewest differences that are refined to the end, and the number of others for comparison.
const KEPT_MIN: usize = 24;
const OTHERS: usize = 16;
/// A gap between two clusters of differences, in standard errors.
const GAP: f64 = 6.0;
/// Minimum separation of a split, in deviations of a sample; closer levels belong to one kind of pairs, or need
/// controls.
const SEPARATION_MIN: f64 = 1.2;
/// The most random differences, when simpler ones show nothing.
pub(crate) const RANDOM_MAX: usize = 2048;
/// Deviation of a sample, as a share of an access, that can hide a conflict, which takes about a third of an access more.
const NOISY_SHARE: f64 = 0.05;

/// A measured difference or pair, and its time.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// A difference or a pair.
    pub target: Target,
    pub(crate) samples: Vec<f64>,
    /// Median of its samples, in ticks above the baseline.
    pub middle: f64,
}

/// The result of a survey.
#[derive(Clone, Debug)]
pub struct Landscape {
    /// All measured differences and pairs, the slowest first.
    pub candidates: Vec<Candidate>,
    /// Deviation of one sample.
    pub sigma: f64,
    /// Possible thresholds between conflicts and the rest, the strictest first.
    pub splits: Vec<Levels>,
}

impl Landscape {
    /// Targets that are slower than a split.
    pub fn above<'a>(&'a self, levels: &Levels) -> impl Iterator<Item = Target> + use<'a> {
        let least = f64::midpoint(levels.hit, levels.conflict);
        self.candidates.iter().take_while(move |candidate| candidate.middle > least).map(|candidate| candidate.target)
    }
}

/// Measures single bits, pairs of high bits, and at most about `random_max` random differences, until some stand out as
/// slow.
///
/// # Errors
/// Those of the oracle.
pub fn survey(
    tester: &mut Tester<'_>,
    view: &View,
    bits: u32,
    lowest: u32,
    random_max: usize,
) -> Result<Landscape, OracleError> {
    let mut land = Landscape { candidates: Vec::new(), sigma: 1.0, splits: Vec::new() };
    tester.use_controls(false);
    add(&mut land, tester, view, (lowest..bits).map(|bit| Target::Difference(1 << bit)))?;
    refine(&mut land, tester, view, 2 * FIRST as usize)?;
    let unclear = land.splits.first().is_none_or(|split| split.separation() < CLEAR);
    if unclear && land.sigma > NOISY_SHARE * tester.baseline() && !tester.is_without(Step::Controls) {
        return survey_with_controls(tester, view, bits, lowest);
    }
    if land.splits.is_empty() {
        let top = bits.saturating_sub(14).max(lowest);
        let pairs = (top..bits).flat_map(|low| (low + 1..bits).map(move |high| 1u64 << low | 1 << high));
        add(&mut land, tester, view, pairs.map(Target::Difference))?;
        refine(&mut land, tester, view, FIRST as usize)?;
    }
    let mut drawn = 0;
    while land.splits.is_empty() && drawn < random_max {
        let random = tester.random();
        let any = |_| Target::Difference(random.below(1 << bits) & !((1 << lowest) - 1));
        let some: Vec<Target> = (0..256).map(any).collect();
        drawn += some.len();
        add(&mut land, tester, view, some)?;
        refine(&mut land, tester, view, FIRST as usize)?;
        if land.splits.is_empty() && drawn == 512 {
            refine(&mut land, tester, view, SAMPLES_MAX)?;
        }
    }
    Ok(land)
}

/// Measures random pairs at fixed addresses, until some stand out as slow.
///
/// # Errors
/// Those of the oracle.
pub(crate) fn survey_pairs(tester: &mut Tester<'_>) -> Result<Landscape, OracleError> {
    let mut land = Landscape { candidates: Vec::new(), sigma: 1.0, splits: Vec::new() };
    while land.splits.is_empty() && land.candidates.len() < RANDOM_MAX {
        let some: Vec<Target> = (0..512).filter_map(|_| tester.any_pair()).map(Target::Pair).collect();
        if some.is_empty() {
            break;
        }
        add(&mut land, tester, &View::plain(), some)?;
        refine(&mut land, tester, &View::plain(), 4 * FIRST as usize)?;
    }
    Ok(land)
}

fn add(
    land: &mut Landscape,
    tester: &mut Tester<'_>,
    view: &View,
    targets: impl IntoIterator<Item = Target>,
) -> Result<(), OracleError> {
    for target in targets.into_iter().filter(|target| target.difference() != 0) {
        if let Some(mut samples) = tester.samples(view, target, FIRST)? {
            let middle = median(&mut samples);
            land.candidates.push(Candidate { target, samples, middle });
        }
    }
    measure(land);
    Ok(())
}

/// Sorts candidates, and computes the deviation of samples of one difference.
fn measure(land: &mut Landscape) {
    land.candidates
        .sort_by(|a, b| b.middle.total_cmp(&a.middle).then(a.target.difference().cmp(&b.target.difference())));
    let away = land.candidates.iter().flat_map(|own| own.samples.iter().map(|sample| (sample - own.middle).abs()));
    let mut away: Vec<f64> = away.collect();
    if !away.is_empty() {
        // Deviations from the median of few samples are too small.
        land.sigma = (1.4826 * median(&mut away) * 1.15).max(0.5);
    }
}

/// Searches for gaps. While there is none, takes more samples of the slower half of the remaining candidates, and of
/// some others for comparison.
fn refine(land: &mut Landscape, tester: &mut Tester<'_>, view: &View, most: usize) -> Result<(), OracleError> {
    let (mut count, mut kept) = (FIRST as usize, land.candidates.len());
    loop {
        land.splits = splits(land, GAP);
        if let Some(&first) = land.splits.first() {
            let promising = land.above(&first).count();
            if confirm(land, tester, view, promising.min(4))? {
                return Ok(());
            }
        }
        if count >= most {
            land.splits.clear();
            return Ok(());
        }
        kept = (kept / 2).max(KEPT_MIN);
        let others = (land.candidates.len().saturating_sub(kept) / OTHERS).max(1);
        for (at, candidate) in land.candidates.iter_mut().enumerate() {
            if at >= kept && (at - kept) % others != 0 {
                continue;
            }
            let missing = (2 * count).saturating_sub(candidate.samples.len());
            if let Some(more) = tester.samples(view, candidate.target, missing as u32)? {
                candidate.samples.extend(more);
                candidate.middle = median(&mut candidate.samples.clone());
            }
        }
        count *= 2;
        measure(land);
    }
}

/// Measures the slowest candidates again; returns whether they stay slow.
fn confirm(land: &mut Landscape, tester: &mut Tester<'_>, view: &View, slowest: usize) -> Result<bool, OracleError> {
    let Some(&first) = land.splits.first() else { return Ok(false) };
    let least = f64::midpoint(first.hit, first.conflict);
    for at in 0..slowest {
        let count = land.candidates[at].samples.len().max(12) as u32;
        let Some(mut samples) = tester.samples(view, land.candidates[at].target, count)? else { return Ok(false) };
        let middle = median(&mut samples);
        land.candidates[at].samples = samples;
        land.candidates[at].middle = middle;
        if middle < least {
            measure(land);
            return Ok(false);
        }
    }
    measure(land);
    Ok(true)
}

/// Gaps between neighboring candidates that are far larger than their errors, from the top; only among the most
/// measured ones.
fn splits(land: &Landscape, least: f64) -> Vec<Levels> {
    let error = |own: &Candidate| land.sigma * 1.2533 / (own.samples.len() as f64).sqrt();
    let most = land.candidates.iter().map(|own| own.samples.len()).max().unwrap_or(0);
    let sure: Vec<&Candidate> = land.candidates.iter().filter(|own| 2 * own.samples.len() > most).collect();
    let mut found = Vec::new();
    for at in 1..sure.len() {
        let gap = sure[at - 1].middle - sure[at].middle;
        if gap > least * error(sure[at - 1]).hypot(error(sure[at])) {
            let middles = |of: &[&Candidate]| median(&mut of.iter().map(|own| own.middle).collect::<Vec<_>>());
            // The lower level is that of the slowest non-conflicting candidates: the median of those just below the
            // gap.
            let below = &sure[at..(at + 5).min(sure.len())];
            let (hit, conflict) = (middles(below), middles(&sure[..at]));
            let levels = Levels { hit, conflict, sigma: land.sigma.max(1.0), shifted: None };
            found.extend((levels.separation() > SEPARATION_MIN).then_some(levels));
        }
    }
    found
}
