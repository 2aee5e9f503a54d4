//! Schemes beside each other, at several densities.

use std::sync::{Mutex, PoisonError};

use memtint_hiding::crs::Density;

use crate::simulate::parallel;
use crate::{GoOn, Outcome, Prepared, RefreshError, Scheme};

/// The result of a scheme at a density: an outcome, or the reason why there is no schedule.
#[derive(Debug)]
pub struct Cell {
    /// The density.
    pub density: Density,
    /// The scheme.
    pub scheme: Scheme,
    /// The result; the error is always [`RefreshError::NoSchedule`].
    pub outcome: Result<Outcome, RefreshError>,
}

/// A table of schemes and densities.
#[derive(Debug)]
pub struct Comparison {
    /// Without refresh, by which others are measured.
    pub none: Outcome,
    /// Density by density, scheme by scheme, in the order asked for.
    pub cells: Vec<Cell>,
}

impl Comparison {
    /// Mean latency of memory in an outcome, by that without refresh.
    #[must_use]
    pub fn latency_over_none(&self, outcome: &Outcome) -> f64 {
        outcome.latency().0 as f64 / self.none.latency().0.max(1) as f64
    }
}

/// Simulates each scheme at each density, on up to `threads` threads; the result does not depend on their number.
///
/// # Errors
///
/// As [`Prepared::simulate`], but for [`RefreshError::NoSchedule`], which is a result.
pub fn compare(
    prepared: &Prepared,
    schemes: &[Scheme],
    densities: &[Density],
    threads: usize,
    go_on: GoOn<'_>,
) -> Result<Comparison, RefreshError> {
    let none = (Scheme::None, None);
    let asked = densities.iter().flat_map(|&density| schemes.iter().map(move |&scheme| (scheme, Some(density))));
    let all: Vec<(Scheme, Option<Density>)> = [none].into_iter().chain(asked).collect();
    let shares = Mutex::new(vec![0.0; all.len()]);
    let one = |index: usize| {
        let told = |share: f64| {
            let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
            shares[index] = share;
            go_on(shares.iter().sum::<f64>() / shares.len() as f64)
        };
        let (scheme, density) = all[index];
        let with = density.map(|density| prepared.with_density(density));
        let outcome = with.as_ref().unwrap_or(prepared).simulate(scheme, &told);
        told(1.0);
        outcome
    };
    let mut outcomes = parallel(all.len(), threads, one).into_iter();
    let none = outcomes.next().expect("there is one")?;
    let mut cells = Vec::new();
    for (&(scheme, density), outcome) in all[1..].iter().zip(outcomes) {
        match outcome {
            Err(error) if !matches!(error, RefreshError::NoSchedule { .. }) => return Err(error),
            outcome => cells.push(Cell { density: density.expect("all but the first have one"), scheme, outcome }),
        }
    }
    Ok(Comparison { none, cells })
}
