//! A bandwidth regulator like MemGuard, as a term: the time for which the core stands still, and the most that other
//! cores move.

use crate::error::SchedError;
use crate::interference::in_range;
use crate::task::TIME_MAX;
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_rational::Ratio;

/// A bandwidth regulator like MemGuard (Yun et al., RTAS 2013): in each period a core may move as many lines as its
/// budget B allows, and stands still from the last of them to the end of the period.
///
/// It has the budget for itself, and begins each period on time. It moves at most B + q + s lines in a period: the
/// quantum q is the rest of the last grant of the previous period; the skid s is the number of lines moved after its
/// budget is used until it stands still, and is deducted from its next grants. So it is guaranteed B in each period,
/// less s once.
///
/// A core that reclaims ([`Regulator::reclaiming`]) donates the budget that it is not expected to need, and may not get
/// it back: a period in which it stands still before it has moved B lines is an underrun. After one it donates nothing
/// for a period (`memtint-guard`), so that B is its guarantee in one of two periods, and one line in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regulator {
    period: u64,
    lines: u64,
    line_min: u64,
    quantum: u64,
    skid: u64,
    overhead: u64,
    reclaims: bool,
    spare: bool,
}

impl Regulator {
    /// Makes a regulator with a period and a budget in lines, whose counter stops the core exactly and in no time. `line_min` is the
    /// shortest time from one line to the next, 0 if unknown: to use up the budget takes that long.
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] for a period outside of 1 ps to [`TIME_MAX`], no lines, or lines that do not fit the period.
    pub fn new(period: Picoseconds, lines: u64, line_min: Picoseconds) -> Result<Regulator, SchedError> {
        in_range("regulator", "period", period, Picoseconds(1), TIME_MAX)?;
        in_range("regulator", "lines", lines, 1, u64::MAX)?;
        in_range("regulator", "line_min", line_min, Picoseconds(0), Picoseconds(period.0 / lines))?;
        Ok(Regulator {
            period: period.0,
            lines,
            line_min: line_min.0,
            quantum: 0,
            skid: 0,
            overhead: 0,
            reclaims: false,
            spare: false,
        })
    }

    /// Counts in grants of at most `quantum` lines, after which up to `skid` lines are moved until the core stands still. A quantum of 0
    /// is one grant for all of the budget that ends with the period.
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] for more than 2^32 lines.
    pub fn counting(self, quantum: u64, skid: u64) -> Result<Regulator, SchedError> {
        in_range("regulator", "quantum", quantum, 0, 1 << 32)?;
        in_range("regulator", "skid", skid, 0, 1 << 32)?;
        Ok(Regulator { quantum, skid, ..self })
    }

    /// Sets the time that each interrupt takes of the core: the beginning of a period, and the end of a grant.
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] for more than the period.
    pub fn overhead(self, overhead: Picoseconds) -> Result<Regulator, SchedError> {
        in_range("regulator", "overhead", overhead, Picoseconds(0), Picoseconds(self.period))?;
        Ok(Regulator { overhead: overhead.0, ..self })
    }

    /// Donates and reclaims.
    #[must_use]
    pub fn reclaiming(self) -> Regulator {
        Regulator { reclaims: true, ..self }
    }

    /// Lets all cores run to the end of the period once all have used their budgets: best-effort sharing, in which nothing
    /// limits the lines of other cores.
    #[must_use]
    pub fn sharing_spare(self) -> Regulator {
        Regulator { spare: true, ..self }
    }

    /// Gives the lines that a bandwidth allows in a period: `floor(bandwidth period / 64 bytes)`, exact; MemGuard's own
    /// computation in 32 bits overflows from periods of 2048 us on.
    #[must_use]
    pub fn lines_of(bytes_per_second: u64, period: Picoseconds) -> u64 {
        const LINE_BYTES: u128 = 64;
        const PS_PER_SECOND: u128 = 1_000_000_000_000;
        let lines = u128::from(bytes_per_second) * u128::from(period.0) / (LINE_BYTES * PS_PER_SECOND);
        u64::try_from(lines).unwrap_or(u64::MAX)
    }

    /// Gives the budget in lines.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Gives the most lines in a period, B + q + s.
    #[must_use]
    pub fn most(&self) -> u128 {
        self.most_in(1)
    }

    /// The most lines in a number of consecutive periods: B + s in each, and q once, of a grant from before. Saturates.
    pub(crate) fn most_in(&self, periods: u128) -> u128 {
        periods.saturating_mul(self.each_period()).saturating_add(self.quantum.into())
    }

    /// Lines in each of many periods.
    pub(crate) fn each_period(&self) -> u128 {
        u128::from(self.lines) + u128::from(self.skid)
    }

    /// Whether the core donates and reclaims.
    #[must_use]
    pub fn reclaims(&self) -> bool {
        self.reclaims
    }

    /// Whether nothing limits the core when all have used their budgets.
    #[must_use]
    pub fn shares_spare(&self) -> bool {
        self.spare
    }

    /// Gives the time from one budget to the next.
    #[must_use]
    pub fn period(&self) -> Picoseconds {
        Picoseconds(self.period)
    }

    /// Gives the most lines of a grant.
    pub(crate) fn grant(&self) -> u64 {
        if self.quantum == 0 { self.lines } else { self.quantum }
    }

    pub(crate) fn overhead_of_interrupt(&self) -> Picoseconds {
        Picoseconds(self.overhead)
    }

    /// Gives the parameters assumed to be zero, by their names in system files.
    #[must_use]
    pub fn zeros(&self) -> Vec<&'static str> {
        let all = [("quantum", self.quantum), ("skid_events", self.skid), ("overhead", self.overhead)];
        all.iter().filter(|(_, value)| *value == 0).map(|(name, _)| *name).collect()
    }

    /// Periods that a window touches, at most.
    pub(crate) fn periods(&self, length: u64) -> u128 {
        u128::from(length.div_ceil(self.period)) + 1
    }

    /// The longest time for which the core stands still in a period whose budget it has used up: its lines but for the skid of before
    /// are in it, and the first of them can come at once.
    fn stall(&self) -> u64 {
        let distances = (self.lines - 1).saturating_sub(self.skid);
        self.period - distances * self.line_min
    }

    /// The core stalls once for lines moved before the window, once for each budget that is used up in it, and once in
    /// a period. Underruns need a line each and occur at most in every second period; the remaining lines use up
    /// budgets. Lines moved beyond a budget before the window count in it.
    pub(crate) fn delay(&self, length: u64, lines: u128) -> u128 {
        let (periods, lines) = (self.periods(length), lines.saturating_add(self.skid.into()));
        let underruns = if self.reclaims { periods.div_ceil(2).min(lines.saturating_add(1)) } else { 0 };
        let left = lines.saturating_sub(underruns.saturating_sub(1));
        let used_up = (left / u128::from(self.lines)).saturating_add(1).min(periods - underruns);
        let standing = underruns.saturating_mul(self.period.into());
        let standing = standing.saturating_add(used_up.saturating_mul(self.stall().into()));
        standing.saturating_add(self.interrupts(periods, lines).saturating_mul(self.overhead.into()))
    }

    /// Beginnings of periods and ends of grants, each of which takes a line. Without donations, grants are of a quantum but for the last
    /// of each budget, and the first can have been used before the window, all but a line. Calls of other cores come
    /// while this one stands still, which is counted to the end of the period.
    fn interrupts(&self, periods: u128, lines: u128) -> u128 {
        let ends = lines.saturating_add(1);
        let ends = if self.reclaims {
            ends
        } else {
            let by_grants = (lines / u128::from(self.grant())).saturating_add(periods).saturating_add(1);
            ends.min(by_grants).min(periods.saturating_mul(self.lines.div_ceil(self.grant()).into()))
        };
        periods.saturating_add(ends)
    }

    pub(crate) fn rate(&self, lines: &Ratio<BigUint>) -> Ratio<BigUint> {
        let whole = |number: u64| Ratio::from_integer(BigUint::from(number));
        let each_period = Ratio::new(BigUint::from(1u8), self.period.into());
        let underruns = if self.reclaims { (&each_period / BigUint::from(2u8)).min(lines.clone()) } else { whole(0) };
        let used_up = ((lines - &underruns) / BigUint::from(self.lines)).min(&each_period - &underruns);
        let ends = if self.reclaims {
            lines.clone()
        } else {
            let by_grants = lines / BigUint::from(self.grant()) + &each_period;
            lines.clone().min(by_grants).min(&each_period * BigUint::from(self.lines.div_ceil(self.grant())))
        };
        underruns * whole(self.period) + used_up * whole(self.stall()) + (ends + each_period) * whole(self.overhead)
    }
}

/// Gives the lines that are reserved in a period of this length, the sum of B + q + s over all regulated cores.
///
/// MemGuard's rule: it is at most r_min, the worst-case service of the memory; otherwise no regulator's budget is
/// guaranteed, and no WCET found with it is valid. The slides have the sum of B only.
#[must_use]
pub fn reserved(regulators: &[Regulator], period: Picoseconds) -> Ratio<BigUint> {
    let each = |own: &Regulator| Ratio::new(BigUint::from(own.most()) * period.0, own.period.into());
    regulators.iter().map(each).sum()
}

/// Returns whether all reservations together are within the lines that the memory always serves in a period; equality
/// is enough.
#[must_use]
pub fn reservations_fit(regulators: &[Regulator], lines_min: u64, period: Picoseconds) -> bool {
    period.0 > 0 && reserved(regulators, period) <= Ratio::from_integer(lines_min.into())
}
