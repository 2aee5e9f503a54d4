//! A bandwidth regulator like MemGuard, as a term: for how long the core stands still, and what other cores move at most.

use crate::error::SchedError;
use crate::interference::in_range;
use crate::task::TIME_MAX;
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_rational::Ratio;

/// A bandwidth regulator like MemGuard (Yun et al., RTAS 2013): in each period a core may move so many lines, its budget B, and
/// stands still from the last of them to the end of the period.
///
/// A core moves at most B + q + s lines in a period: the quantum q is what the last grant of the period before has left, the
/// skid s what it moves after its budget is used until it stands still. A core's own guarantee is B.
///
/// A core that reclaims ([`Regulator::reclaiming`]) donates what it is not expected to need, and may not get it back: a period in which
/// it stands still before it has moved B lines is an underrun. After one it donates nothing for a period (`memtint-guard`), so
/// that B is its guarantee in one of two periods, and one line in the other. For a core by itself in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regulator {
    period: u64,
    lines: u64,
    line_min: u64,
    quantum: u64,
    skid: u64,
    overhead: u64,
    /// Lines of a grant from the pool of donations; `None` for a core that neither donates nor reclaims.
    reclaim_step: Option<u64>,
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
        in_range("regulator", "period", period.0, 1, TIME_MAX.0)?;
        in_range("regulator", "lines", lines, 1, u64::MAX)?;
        in_range("regulator", "line_min", line_min.0, 0, period.0 / lines)?;
        Ok(Regulator {
            period: period.0,
            lines,
            line_min: line_min.0,
            quantum: 0,
            skid: 0,
            overhead: 0,
            reclaim_step: None,
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

    /// Takes so much of the core's time for each interrupt: the beginning of a period, and the end of a grant.
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] for more than the period.
    pub fn overhead(self, overhead: Picoseconds) -> Result<Regulator, SchedError> {
        in_range("regulator", "overhead", overhead.0, 0, self.period)?;
        Ok(Regulator { overhead: overhead.0, ..self })
    }

    /// Donates and reclaims, so many lines of other cores' donations at a time.
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] for no lines, or more than the quantum (if there is one).
    pub fn reclaiming(self, step: u64) -> Result<Regulator, SchedError> {
        let most = if self.quantum == 0 { u64::MAX } else { self.quantum };
        in_range("regulator", "reclaim_step", step, 1, most)?;
        Ok(Regulator { reclaim_step: Some(step), ..self })
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

    /// The most lines in so many periods, one after the other: B + s in each, and q once, of a grant from before. Saturates.
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
        self.reclaim_step.is_some()
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

    /// Whether the counter is taken to stop the core at its budget exactly.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.quantum == 0 && self.skid == 0 && self.overhead == 0
    }

    /// Periods that a window touches, at most.
    pub(crate) fn periods(&self, length: u64) -> u128 {
        u128::from(length.div_ceil(self.period)) + 1
    }

    /// The longest time for which the core stands still in a period in which it has moved so many lines.
    fn stall(&self, lines: u64) -> u64 {
        self.period - lines * self.line_min
    }

    /// The core stands still once for what was moved before the window, once for each budget that is used up in it, and
    /// once in a period. Underruns need a line each and are in every second period at most; whatever they leave of the lines uses
    /// up budgets.
    pub(crate) fn delay(&self, length: u64, lines: u128) -> u128 {
        let periods = self.periods(length);
        let underruns = if self.reclaims() { periods.div_ceil(2).min(lines.saturating_add(1)) } else { 0 };
        let left = lines.saturating_sub(underruns.saturating_sub(1));
        let used_up = (left / u128::from(self.lines)).saturating_add(1).min(periods - underruns);
        let standing = underruns.saturating_mul(self.stall(1).into());
        let standing = standing.saturating_add(used_up.saturating_mul(self.stall(self.lines).into()));
        standing.saturating_add(self.interrupts(periods, lines).saturating_mul(self.overhead.into()))
    }

    /// Beginnings of periods and ends of grants. Grants are of a quantum but for the last of each budget; the first may have been used
    /// before the window, all but a line.
    fn interrupts(&self, periods: u128, lines: u128) -> u128 {
        if self.overhead == 0 {
            return 0;
        }
        let quantum = self.grant();
        let step = self.reclaim_step.map_or(quantum, |step| step.min(quantum));
        // With donations: the last of what was kept, of what was taken back, and of the pool.
        let odd = if self.reclaims() { 3 } else { 1 };
        let ends = (lines / u128::from(step)).saturating_add(odd * periods + 1);
        // A budget without donations has no more grants than these.
        let most =
            if self.reclaims() { u128::MAX } else { periods.saturating_mul(self.lines.div_ceil(quantum).into()) };
        periods.saturating_add(ends.min(most))
    }

    pub(crate) fn rate(&self, lines: &Ratio<BigUint>) -> Ratio<BigUint> {
        let whole = |number: u64| Ratio::from_integer(BigUint::from(number));
        let each_period = Ratio::new(BigUint::from(1u8), self.period.into());
        let standing = if self.reclaims() {
            let underruns = (&each_period / BigUint::from(2u8)).min(lines.clone());
            let used_up = ((lines - &underruns) / BigUint::from(self.lines)).min(&each_period - &underruns);
            underruns * whole(self.stall(1)) + used_up * whole(self.stall(self.lines))
        } else {
            (lines / BigUint::from(self.lines)).min(each_period.clone()) * whole(self.stall(self.lines))
        };
        standing + self.interrupt_rate(lines, each_period) * whole(self.overhead)
    }

    fn interrupt_rate(&self, lines: &Ratio<BigUint>, each_period: Ratio<BigUint>) -> Ratio<BigUint> {
        let quantum = self.grant();
        let step = self.reclaim_step.map_or(quantum, |step| step.min(quantum));
        let odd = if self.reclaims() { 3u8 } else { 1 };
        let ends = lines / BigUint::from(step) + &each_period * BigUint::from(odd);
        if self.reclaims() {
            return ends + each_period;
        }
        ends.min(&each_period * BigUint::from(self.lines.div_ceil(quantum))) + each_period
    }
}

/// Gives the lines that are reserved in a period of this length, the sum of B + q + s over all regulated cores.
///
/// MemGuard's rule: it is at most r_min, what the memory serves in the worst case; otherwise no regulator's budget is a promise, nor
/// a WCET that was found with it. The slides have the sum of B only.
#[must_use]
pub fn reserved(regulators: &[Regulator], period: Picoseconds) -> Ratio<BigUint> {
    let each = |own: &Regulator| Ratio::new(BigUint::from(own.most()) * period.0, own.period.into());
    regulators.iter().map(each).sum()
}

/// Tells whether all reservations together are within the lines that the memory always serves in a period; equality is enough.
#[must_use]
pub fn reservations_fit(regulators: &[Regulator], lines_min: u64, period: Picoseconds) -> bool {
    period.0 > 0 && reserved(regulators, period) <= Ratio::from_integer(lines_min.into())
}
