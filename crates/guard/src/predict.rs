//! Prediction of a group's use in the next period, from its use so far.

/// Predicts the use of the next period.
pub trait Predictor {
    /// Takes note of the events used in the period that has ended.
    fn observe(&mut self, used: u64);
    /// Returns the events expected in the next period; `None` when nothing has been observed. Rounds up: donating too little
    /// wastes bandwidth, donating too much costs a guarantee.
    fn predict(&self) -> Option<u64>;
}

/// Predicts the latest use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LastValue(Option<u64>);

impl Predictor for LastValue {
    fn observe(&mut self, used: u64) {
        self.0 = Some(used);
    }

    fn predict(&self) -> Option<u64> {
        self.0
    }
}

/// Exponentially weighted moving average: each observation counts for 1 / 2^`shift` of the whole.
///
/// MemGuard predicts with `shift` 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ewma {
    shift: u32,
    /// In 1/65536 of an event.
    mean: Option<u64>,
}

impl Ewma {
    const SCALE: u32 = 16;

    /// Creates an average in which an observation counts for 1 / 2^`shift`; `shift` is 1 to 16.
    ///
    /// # Panics
    /// When `shift` is outside of that.
    pub fn new(shift: u32) -> Ewma {
        assert!((1..=Self::SCALE).contains(&shift), "shift is {shift}; accepted is 1 to {}", Self::SCALE);
        Ewma { shift, mean: None }
    }
}

impl Predictor for Ewma {
    fn observe(&mut self, used: u64) {
        let used = used << Self::SCALE;
        self.mean = Some(match self.mean {
            None => used,
            Some(mean) => mean - (mean >> self.shift) + (used >> self.shift),
        });
    }

    fn predict(&self) -> Option<u64> {
        self.mean.map(|mean| mean.div_ceil(1 << Self::SCALE))
    }
}

/// Extends the line of least squares through the last four observations; predicts the last one until there are four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Linear {
    /// The latest comes last.
    last: [u64; 4],
    seen: u8,
}

impl Predictor for Linear {
    fn observe(&mut self, used: u64) {
        self.last.rotate_left(1);
        self.last[3] = used;
        self.seen = (self.seen + 1).min(4);
    }

    fn predict(&self) -> Option<u64> {
        let [first, _, third, fourth] = self.last;
        match self.seen {
            0 => None,
            // The value at 4 of the line through (0, first) to (3, fourth): weights -1/2, 0, 1/2, 1.
            4 => Some((2 * fourth + third).saturating_sub(first).div_ceil(2)),
            _ => Some(fourth),
        }
    }
}

/// The predictors of this crate, chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prediction {
    /// See [`LastValue`].
    LastValue(LastValue),
    /// See [`Ewma`].
    Ewma(Ewma),
    /// See [`Linear`].
    Linear(Linear),
}

impl Predictor for Prediction {
    fn observe(&mut self, used: u64) {
        match self {
            Prediction::LastValue(predictor) => predictor.observe(used),
            Prediction::Ewma(predictor) => predictor.observe(used),
            Prediction::Linear(predictor) => predictor.observe(used),
        }
    }

    fn predict(&self) -> Option<u64> {
        match self {
            Prediction::LastValue(predictor) => predictor.predict(),
            Prediction::Ewma(predictor) => predictor.predict(),
            Prediction::Linear(predictor) => predictor.predict(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mut predictor: impl Predictor, used: &[u64]) -> Option<u64> {
        used.iter().for_each(|&used| predictor.observe(used));
        predictor.predict()
    }

    #[test]
    fn nothing_observed_predicts_nothing() {
        assert_eq!(after(LastValue::default(), &[]), None);
        assert_eq!(after(Ewma::new(1), &[]), None);
        assert_eq!(after(Linear::default(), &[]), None);
    }

    #[test]
    fn each_predictor_follows_its_rule() {
        assert_eq!(after(LastValue::default(), &[7, 3]), Some(3));
        // (0 + 3) / 2, rounded up.
        assert_eq!(after(Ewma::new(1), &[0, 3]), Some(2));
        assert_eq!(after(Ewma::new(2), &[8, 0]), Some(6));
        assert_eq!(after(Linear::default(), &[10, 20]), Some(20));
        assert_eq!(after(Linear::default(), &[99, 10, 20, 30, 40]), Some(50));
        assert_eq!(after(Linear::default(), &[300, 200, 100, 0]), Some(0));
        assert_eq!(after(Linear::default(), &[0, 0, 0, 1]), Some(1));
    }

    #[test]
    fn a_constant_is_predicted_exactly() {
        for used in [0, 1, 1000, u64::from(u32::MAX)] {
            assert_eq!(after(Ewma::new(1), &[used; 9]), Some(used));
            assert_eq!(after(Linear::default(), &[used; 9]), Some(used));
        }
    }
}
