//! Searches for another function of address bits that affects the time between two non-conflicting accesses.
//!
//! Two reads of one bank group have a larger distance than two of different groups, and reads of different channels do
//! not wait for each other at all. Both effects depend on a single function of the banks: the time of a pair is shifted
//! if the function's value changes. Timing does not distinguish the two effects.

use crate::oracle::OracleError;
use crate::report::Area;
use crate::tester::{Tester, median};
use memtint_map::gf2;

/// Samples of each change of the banks.
const SAMPLES: u32 = 150;
/// Minimum size of a shift in standard errors, and the largest deviation of any change from its predicted time.
const FOUND: f64 = 6.0;
const AGREES: f64 = 5.0;
/// Standard errors of 99.9 %.
const CONFIDENT: f64 = 3.29;

/// A function of address bits that shifts the time of pairs that do not conflict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Address bits of the function, which is a sum of bank functions.
    pub function: u64,
    /// Additional ticks of a pair that differs in the function; negative when it is faster.
    pub ticks: f64,
    /// Error bound of `ticks` at 99.9 % confidence.
    pub error: f64,
}

/// Searches for the one function that shifts the time of non-conflicting pairs; `None` when there is none, when
/// readings are too noisy, or when there is more than one.
///
/// # Errors
/// Those of the oracle.
pub fn shift(tester: &mut Tester<'_>, area: &Area) -> Result<Option<Shift>, OracleError> {
    let (solution, view) = (&area.solution, &area.view);
    let changes = solution.changes();
    let singles = (0..changes.len()).map(|at| 1u64 << at);
    // Two shifts add up in some pair; a single one does not.
    let pairs = (0..changes.len()).flat_map(|high| (0..high).map(move |low| 1 << high | 1 << low));
    let values: Vec<u64> = std::iter::once(0).chain(singles).chain(pairs).collect();
    tester.draw_from(Some(area.pool.clone()));
    let mut samples = vec![Vec::new(); values.len()];
    // All in turn, so that drift affects all alike.
    for _ in 0..SAMPLES {
        for (&value, samples) in values.iter().zip(&mut samples) {
            let change = gf2::sum(&changes, value);
            let others = if value == 0 { &solution.same_row } else { &solution.same_bank };
            let Some(difference) = tester.drawn(view, change, others, |sum| sum != 0) else { return Ok(None) };
            let Some(sample) = tester.samples(view, difference, 1)? else { return Ok(None) };
            samples.extend(sample);
        }
    }
    let middles: Vec<f64> = samples.iter_mut().map(|samples| median(samples)).collect();
    let away = samples.iter().zip(&middles).flat_map(|(own, middle)| own.iter().map(move |one| (one - middle).abs()));
    let sigma = 1.4826 * median(&mut away.collect::<Vec<_>>());
    // Standard error of the median, limited by the resolution of samples, a fraction of a tick.
    let error = (1.2533 * sigma / f64::from(SAMPLES).sqrt()).max(0.05);
    let shifts: Vec<f64> = (1..=changes.len()).map(|at| middles[at] - middles[0]).collect();
    let most = shifts.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
    if most.abs() < FOUND * error * std::f64::consts::SQRT_2 {
        return Ok(None);
    }
    let shifted = (0..changes.len()).filter(|&at| shifts[at] / most > 0.5).fold(0_u64, |all, at| all | 1 << at);
    let differs = |value: u64| (value & shifted).count_ones() % 2 == 1;
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for (&value, &middle) in values.iter().zip(&middles) {
        if differs(value) { &mut there } else { &mut here }.push(middle);
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let near = |of: &[f64]| of.iter().all(|middle| (middle - mean(of)).abs() < AGREES * error);
    if !near(&there) || !near(&here) {
        return Ok(None);
    }
    let function = gf2::sum(&solution.functions, shifted);
    let share = (1.0 / there.len() as f64 + 1.0 / here.len() as f64).sqrt();
    Ok(Some(Shift { function, ticks: mean(&there) - mean(&here), error: CONFIDENT * error * share }))
}
