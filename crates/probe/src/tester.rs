//! Tests whether a difference of addresses causes a row conflict: a sequential test, at a different place each time.

use crate::oracle::{Oracle, OracleError};
use crate::pool::Pool;
use crate::report::Step;
use crate::view::View;
use memtint_map::gf2;
use memtint_units::PhysAddr;
use memtint_units::Random;
use std::collections::VecDeque;

/// Number of controls for the baseline, and number of accesses between two controls.
const CONTROLS: usize = 15;
const RENEWED: u64 = 200;
/// Weight of the latest controls in their spread.
const SPREAD_SHARE: f64 = 0.1;
/// The fewest samples that decide a test where each sample has a control, so that a few disturbed samples do not
/// decide.
const CONTROLLED_SHARE: f64 = 16.0;
/// The most samples of one decision.
const SAMPLES_MAX: u32 = 2000;
/// Samples further than this many deviations outside the two levels are clamped.
const CLAMP: f64 = 3.0;
/// A sample contradicts the decision when it lies this many standard deviations past the midpoint. At most `CONTRARY_MAX` of them are
/// tested again, `CONTRARY_TESTS` times each, with `CONTRARY_PAUSE` controls in between.
const CONTRARY: f64 = 0.5;
const CONTRARY_MAX: usize = 2;
const CONTRARY_TESTS: u32 = 3;
const CONTRARY_PAUSE: u32 = 30;
/// Separations in deviations of a sample. From `CLEAR` on, contrary pairs are tested again in every test. From `SURE`
/// on, a single pair that stays contrary shows that the difference does not determine a conflict. Below it, the bias of
/// one pair in thousands is as large; so `OTHERS` other pairs are tested, of which at least `OTHERS_MIN` must also stay
/// contrary.
pub(crate) const CLEAR: f64 = 3.0;
const SURE: f64 = 8.0;
const OTHERS: u32 = 8;
const OTHERS_MIN: u32 = 2;
/// The most pairs drawn for one sample.
const DISTURBED_MAX: u32 = 50;
/// The most draws of a difference for which the pool has a pair.
const DRAWS: u32 = 200;
/// The most controls to wait for the end of another program's activity, and the number after which the baseline counts
/// as moved.
const CALM_MAX: u32 = 1000;
const CALM_RENEWED: u32 = 400;

/// Levels of readings, in ticks above the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// The slowest pairs that do not conflict.
    pub hit: f64,
    /// Pairs that conflict.
    pub conflict: f64,
    /// Deviation of one sample.
    pub sigma: f64,
    /// Another function that shifts non-conflicting pairs, where known; unshifted pairs are at `hit`.
    pub shifted: Option<Shifted>,
}

/// A function of address bits that shifts the time of non-conflicting pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shifted {
    /// Address bits of the function: a sum of bank functions.
    pub function: u64,
    /// Additional ticks of a pair that differs in the function; negative when it is faster.
    pub ticks: f64,
}

impl Levels {
    /// Returns whether a difference is known to lead to another bank.
    #[must_use]
    pub fn is_other_bank(&self, difference: u64) -> bool {
        self.shifted.is_some_and(|shifted| gf2::evaluate(&[shifted.function], difference) != 0)
    }

    /// Gives the levels of one difference.
    fn of(&self, difference: u64) -> Levels {
        let ticks = self.shifted.filter(|_| self.is_other_bank(difference)).map_or(0.0, |shifted| shifted.ticks);
        Levels { hit: self.hit + ticks, shifted: None, ..*self }
    }

    /// Returns the levels for differences whose value of the function is unknown: shifted pairs may be slower.
    #[must_use]
    pub(crate) fn anywhere(&self) -> Levels {
        let ticks = self.shifted.map_or(0.0, |shifted| shifted.ticks.max(0.0));
        Levels { hit: self.hit + ticks, shifted: None, ..*self }
    }

    /// The distance of the two levels in deviations of one sample.
    #[must_use]
    pub fn separation(&self) -> f64 {
        (self.conflict - self.hit) / self.sigma
    }
}

/// The target of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Pairs with this difference under a view, a different one each time.
    Difference(u64),
    /// This pair.
    Pair([PhysAddr; 2]),
}

impl Target {
    /// Gives the difference; of a pair, that of its physical addresses.
    #[must_use]
    pub fn difference(&self) -> u64 {
        match *self {
            Target::Difference(difference) => difference,
            Target::Pair([one, other]) => one.0 ^ other.0,
        }
    }
}

impl From<u64> for Target {
    fn from(difference: u64) -> Target {
        Target::Difference(difference)
    }
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Pairs with this difference conflict.
    Conflict,
    /// They do not.
    None,
    /// Some conflict and some do not.
    Mixed,
    /// The pool has no pair with this difference, or the limit of samples was reached.
    Unknown,
}

/// Cost of the measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Accesses that were timed.
    pub accesses: u64,
    /// Calls of the oracle.
    pub calls: u64,
    /// Tests that were decided.
    pub decisions: u64,
}

/// A test of a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// The target.
    pub target: Target,
    /// Mean of its samples, in ticks above the baseline.
    pub ticks: f64,
    /// Samples.
    pub samples: u32,
    /// The result.
    pub decision: Decision,
}

/// Uses an oracle, and keeps the state needed to interpret its readings.
pub struct Tester<'a> {
    oracle: &'a mut dyn Oracle,
    random: Random,
    /// The part of the pool for one address of each pair; `None`: the whole pool.
    part: Option<Pool>,
    /// Rounds of one sample.
    rounds: u32,
    /// Latest controls: a single address.
    controls: VecDeque<f64>,
    baseline: f64,
    /// Spread of controls.
    spread: f64,
    renewed_at: u64,
    with_controls: bool,
    effort: Effort,
    /// Samples, and the number of samples disturbed by another program.
    samples: u64,
    disturbed: u64,
    tests: Vec<Tested>,
    /// Natural logarithm of the odds at which a test ends.
    odds: f64,
    without: Option<Step>,
}

impl<'a> Tester<'a> {
    /// Makes a tester. Each test errs with a probability of at most about `error`.
    ///
    /// # Errors
    /// Those of the oracle.
    pub fn new(oracle: &'a mut dyn Oracle, seed: u64, error: f64) -> Result<Tester<'a>, OracleError> {
        let mut tester = Tester {
            oracle,
            random: Random::new(seed),
            part: None,
            rounds: 4,
            controls: VecDeque::new(),
            baseline: 0.0,
            spread: 1.0,
            renewed_at: 0,
            with_controls: false,
            effort: Effort::default(),
            samples: 0,
            disturbed: 0,
            tests: Vec::new(),
            odds: (1.0 / error).ln(),
            without: None,
        };
        for _ in 0..CONTROLS {
            tester.control()?;
        }
        Ok(tester)
    }

    /// Omits a step from now on.
    pub fn leave_out(&mut self, step: Option<Step>) {
        self.without = step;
    }

    /// Returns whether a step is omitted.
    #[must_use]
    pub fn is_without(&self, step: Step) -> bool {
        self.without == Some(step)
    }

    /// Returns the cost so far.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Gives the machine's memory.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.oracle.pool()
    }

    /// Gives the random numbers.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Switches controls for each sample on or off. The baseline has an error that is common to consecutive samples, so
    /// more samples do not reduce it. Drift and other programs affect a sample and its control alike.
    pub fn use_controls(&mut self, controls: bool) {
        self.with_controls = controls;
    }

    /// Returns whether each sample has a control.
    #[must_use]
    pub fn uses_controls(&self) -> bool {
        self.with_controls
    }

    /// Draws one address of each pair from this part of the pool from now on; `None` is the whole pool. Returns the
    /// previous part.
    pub fn draw_from(&mut self, part: Option<Pool>) -> Option<Pool> {
        std::mem::replace(&mut self.part, part)
    }

    /// Draws an address from the part of the pool for pairs.
    pub fn any(&mut self) -> PhysAddr {
        self.part.as_ref().unwrap_or(self.oracle.pool()).any(&mut self.random)
    }

    /// Draws a pair with a difference; `None` when there seems to be none.
    pub fn pair(&mut self, view: &View, target: impl Into<Target>) -> Option<[PhysAddr; 2]> {
        let difference = match target.into() {
            Target::Difference(difference) => difference,
            Target::Pair(pair) => return Some(pair),
        };
        let mut same = Random::new(difference);
        let random = if self.is_without(Step::Translations) { &mut same } else { &mut self.random };
        let pool = self.oracle.pool();
        view.pair(pool, self.part.as_ref().unwrap_or(pool), difference, random)
    }

    fn readings(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        self.effort.calls += 1;
        self.effort.accesses += addresses.len() as u64 * u64::from(rounds);
        self.oracle.time(addresses, rounds)
    }

    /// Gives the most readers that can read together; 0 when none can.
    #[must_use]
    pub fn readers(&self) -> u32 {
        self.oracle.readers()
    }

    /// Makes readers read addresses together; `None` when not supported (see [`Oracle::together`]).
    ///
    /// # Errors
    /// Those of the oracle.
    pub fn together(
        &mut self,
        addresses: &[PhysAddr],
        readers: u32,
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        self.effort.calls += 1;
        self.effort.accesses += addresses.len() as u64 * u64::from(rounds);
        self.oracle.together(addresses, readers, rounds)
    }

    /// Times a single address, which never conflicts.
    fn alone(&mut self) -> Result<f64, OracleError> {
        let addr = self.oracle.pool().any(&mut self.random);
        let rounds = 2 * self.rounds;
        let readings = self.readings(&[addr], rounds)?;
        Ok(center(readings, self.baseline))
    }

    /// Renews the baseline, the time of a single address: the faster third of the latest controls, because every
    /// disturbance makes them slower. Returns the new control.
    fn control(&mut self) -> Result<f64, OracleError> {
        let control = self.alone()?;
        while self.controls.len() >= CONTROLS {
            self.controls.pop_front();
        }
        self.controls.push_back(control);
        let mut sorted: Vec<f64> = self.controls.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        self.baseline = sorted[sorted.len() / 3];
        // Below the baseline there is only permanent noise. With so few controls, the estimate is sometimes much too
        // small.
        let spread = 1.5 * (self.baseline - sorted[sorted.len() / 12]);
        let share = if self.controls.len() < CONTROLS { 1.0 } else { SPREAD_SHARE };
        self.spread = (self.spread + share * (spread - self.spread)).max(1.0);
        self.renewed_at = self.effort.accesses;
        Ok(control)
    }

    /// Waits until a single address is as fast as usual, three times in a row; false when that does not happen.
    fn calm(&mut self) -> Result<bool, OracleError> {
        let mut calm = 0;
        for waited in 0..CALM_MAX {
            let (before, spread) = (self.baseline, self.spread);
            let alone = if waited < CALM_RENEWED { self.alone()? } else { self.control()? };
            calm = if alone - before < 2.0 * spread { calm + 1 } else { 0 };
            if calm == 3 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a difference with this highest bit for which the pool has a pair: the bit alone, or with one below it.
    pub(crate) fn of_bit(&mut self, view: &View, bit: u32, lowest: u32) -> Option<u64> {
        let beside = (lowest..bit).rev().map(|low| 1u64 << low);
        let mut both = std::iter::once(0).chain(beside).map(|low| 1 << bit | low);
        both.find(|&both| self.pair(view, both).is_some())
    }

    /// Draws any pair whose difference is known; `None` when there seems to be none.
    pub fn any_pair(&mut self) -> Option<[PhysAddr; 2]> {
        let pool = self.oracle.pool();
        let part = self.part.as_ref().unwrap_or(pool);
        let mut pairs = (0..1000).map(|_| [part.any(&mut self.random), pool.any(&mut self.random)]);
        pairs.find(|&[one, other]| one != other && pool.comparable(one, other))
    }

    /// Draws a wanted difference for which the pool has a pair: `difference` plus a random sum of others; `None` when
    /// there seems to be none.
    pub fn drawn(&mut self, view: &View, difference: u64, others: &[u64], wanted: impl Fn(u64) -> bool) -> Option<u64> {
        (0..DRAWS).find_map(|_| {
            let sum = difference ^ gf2::sum(others, self.random.bits());
            (wanted(sum) && self.pair(view, sum).is_some()).then_some(sum)
        })
    }

    /// Times one pair; returns its ticks above the baseline, or `None` when there is no such pair, or the machine never
    /// becomes calm.
    ///
    /// A slow sample is doubted: if a single address is slow too right after it, another program is the cause, and the
    /// sample is repeated, for a difference with another pair.
    pub(crate) fn sample(&mut self, view: &View, target: Target) -> Result<Option<([PhysAddr; 2], f64)>, OracleError> {
        self.samples += 1;
        if self.with_controls {
            let Some(pair) = self.pair(view, target) else { return Ok(None) };
            let control = if self.is_without(Step::Baseline) { self.baseline } else { self.control()? };
            let readings = self.readings(&pair, self.rounds)?;
            return Ok(Some((pair, center(readings, self.baseline) - control)));
        }
        for _ in 0..DISTURBED_MAX {
            if self.effort.accesses - self.renewed_at > RENEWED && !self.is_without(Step::Baseline) {
                self.control()?;
            }
            let Some(pair) = self.pair(view, target) else { return Ok(None) };
            let readings = self.readings(&pair, self.rounds)?;
            let found = center(readings, self.baseline) - self.baseline;
            let doubted = found >= 3.0 * self.spread && !self.is_without(Step::Doubt);
            if !doubted || self.alone()? - self.baseline < 2.0 * self.spread {
                return Ok(Some((pair, found)));
            }
            // Wait for the end of the other program's activity.
            self.disturbed += 1;
            if !self.calm()? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Decides whether pairs with a difference, or one pair, conflict, from at least `least` samples.
    ///
    /// Pairs that contradict the decision are tested again at their addresses. If one stays contrary, the difference
    /// does not determine a conflict, and the view is wrong.
    ///
    /// # Errors
    /// Those of the oracle.
    pub fn decide(
        &mut self,
        view: &View,
        target: impl Into<Target>,
        levels: &Levels,
        least: u32,
    ) -> Result<Decision, OracleError> {
        let target = target.into();
        let levels = &levels.of(target.difference());
        let (decision, contrary) = self.sequential(view, target, levels, least)?;
        let looked_at = levels.separation() >= CLEAR || (!self.with_controls && least > 1);
        let forgotten = !looked_at || self.is_without(Step::Contrary);
        if decision == Decision::Unknown || matches!(target, Target::Pair(_)) || forgotten {
            return Ok(decision);
        }
        let middle = f64::midpoint(levels.hit, levels.conflict);
        // Each pair has a bias, so only samples well beyond the middle count.
        let strict = match decision {
            Decision::Conflict => Levels { conflict: middle, ..*levels },
            _ => Levels { hit: middle, ..*levels },
        };
        for pair in contrary.into_iter().take(CONTRARY_MAX) {
            if self.stays_otherwise(pair, &strict, decision)?
                && (levels.separation() >= SURE || self.others_too(view, target, &strict, decision)?)
            {
                return Ok(Decision::Mixed);
            }
        }
        Ok(decision)
    }

    /// Where a bias can be as large as a conflict, a single pair is no evidence. Returns whether several pairs stay
    /// contrary.
    fn others_too(
        &mut self,
        view: &View,
        target: Target,
        levels: &Levels,
        decision: Decision,
    ) -> Result<bool, OracleError> {
        let mut found = 0;
        for _ in 0..OTHERS {
            let Some(pair) = self.pair(view, target) else { break };
            found += u32::from(self.stays_otherwise(pair, levels, decision)?);
        }
        Ok(found >= OTHERS_MIN)
    }

    /// Returns whether a pair repeatedly contradicts the decision on its difference.
    fn stays_otherwise(
        &mut self,
        pair: [PhysAddr; 2],
        levels: &Levels,
        decision: Decision,
    ) -> Result<bool, OracleError> {
        for _ in 0..CONTRARY_TESTS {
            let (again, _) = self.sequential(&View::plain(), Target::Pair(pair), levels, 1)?;
            if again == decision || again == Decision::Unknown {
                return Ok(false);
            }
            // Gives another program time to finish.
            for _ in 0..CONTRARY_PAUSE {
                self.alone()?;
            }
        }
        Ok(true)
    }

    /// Decides, and returns the contrary pairs, the clearest first.
    fn sequential(
        &mut self,
        view: &View,
        target: Target,
        levels: &Levels,
        least: u32,
    ) -> Result<(Decision, Vec<[PhysAddr; 2]>), OracleError> {
        self.effort.decisions += 1;
        let middle = f64::midpoint(levels.hit, levels.conflict);
        let weight = (levels.conflict - levels.hit) / (levels.sigma * levels.sigma);
        let (low, high) = (levels.hit - CLAMP * levels.sigma, levels.conflict + CLAMP * levels.sigma);
        // No single sample decides, however clear it is; on a machine with other programs, not even a few samples do.
        let disturbed = self.disturbed as f64 / (self.samples + 1) as f64;
        let most = self.odds / if self.with_controls { CONTROLLED_SHARE } else { (1.5 + 60.0 * disturbed).min(8.0) };
        let (mut evidence, mut sum, mut samples) = (0.0_f64, 0.0, 0);
        let mut decision = Decision::Unknown;
        let mut seen = Vec::new();
        while samples < SAMPLES_MAX && (decision == Decision::Unknown || samples < least) {
            let Some((pair, found)) = self.sample(view, target)? else { break };
            seen.push((pair, found - middle));
            (sum, samples) = (sum + found.clamp(low, high), samples + 1);
            // Samples slower than a conflict have another cause; with a control, they may occur by chance.
            let found = if found > high && !self.with_controls { middle } else { found.clamp(low, high) };
            evidence += (weight * (found - middle)).clamp(-most, most);
            decision = match evidence {
                _ if evidence >= self.odds => Decision::Conflict,
                _ if evidence <= -self.odds => Decision::None,
                _ => Decision::Unknown,
            };
        }
        if samples > 0 {
            self.tests.push(Tested { target, ticks: sum / f64::from(samples), samples, decision });
        }
        let slow = decision == Decision::Conflict;
        let beyond = levels.sigma * CONTRARY;
        let contrary = seen.into_iter().map(|(pair, away)| (pair, if slow { -away } else { away }));
        let mut contrary: Vec<_> = contrary.filter(|&(_, away)| away > beyond).collect();
        contrary.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok((decision, contrary.into_iter().map(|(pair, _)| pair).collect()))
    }

    /// Takes all tests that were decided or abandoned so far.
    pub fn take_tests(&mut self) -> Vec<Tested> {
        std::mem::take(&mut self.tests)
    }

    /// Returns the ticks of an undisturbed access.
    #[must_use]
    pub fn baseline(&self) -> f64 {
        self.baseline
    }

    /// Gives some samples; `None` when there is no such pair.
    ///
    /// # Errors
    /// Those of the oracle.
    pub fn samples(
        &mut self,
        view: &View,
        target: impl Into<Target>,
        count: u32,
    ) -> Result<Option<Vec<f64>>, OracleError> {
        let target = target.into();
        let mut found = Vec::new();
        for _ in 0..count {
            let Some((_, sample)) = self.sample(view, target)? else { return Ok(None) };
            found.push(sample);
        }
        Ok(Some(found))
    }
}

/// A robust center of readings: the mean of the lower three quarters, without cache hits.
pub(crate) fn center(mut readings: Vec<u32>, baseline: f64) -> f64 {
    readings.sort_unstable();
    let cached = readings.iter().take_while(|&&reading| f64::from(reading) < 0.5 * baseline).count();
    let real = if cached < readings.len() { &readings[cached..] } else { &readings[..] };
    let kept = &real[..(real.len() * 3).div_ceil(4)];
    kept.iter().map(|&reading| f64::from(reading)).sum::<f64>() / kept.len() as f64
}

/// Sorts the values and returns the median.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// The standard deviation of values, estimated from the middle half.
pub(crate) fn spread(values: &mut [f64]) -> f64 {
    let middle = median(values);
    let mut away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    1.4826 * median(&mut away)
}
