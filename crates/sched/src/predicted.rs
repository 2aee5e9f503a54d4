//! How long a program probably takes under a budget of memory bandwidth: a prediction, and no bound.

use crate::regulator::Regulator;
use memtint_units::Picoseconds;

/// A stretch of a program's execution alone and unregulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// How long it took.
    pub time: Picoseconds,
    /// Lines that it moved, taken to come evenly.
    pub lines: u64,
}

/// Predicts how long a program takes under a hard budget, from its profile: E-WarP's question (Sohal et al., RTSS 2020), the method is
/// ours. The program begins with a period.
///
/// It goes on as it did alone, and stands still from the last line of its budget to the end of the period; interrupts
/// take their time. It excludes delays by other cores. `None` when interrupts leave no time at all.
#[must_use]
pub fn predicted_run_time(profile: &[Stretch], regulator: &Regulator) -> Option<Picoseconds> {
    if regulator.overhead_of_interrupt() >= regulator.period() {
        return None;
    }
    let mut clock = Clock { now: 0, period_end: 0, used: 0, regulator };
    profile.iter().for_each(|stretch| clock.execute(*stretch));
    Some(Picoseconds(u64::try_from(clock.now).unwrap_or(u64::MAX)))
}

struct Clock<'a> {
    /// In picoseconds, as is the end of the period.
    now: u128,
    period_end: u128,
    /// Lines of this period.
    used: u128,
    regulator: &'a Regulator,
}

impl Clock<'_> {
    fn execute(&mut self, stretch: Stretch) {
        let (time, lines) = (u128::from(stretch.time.0), u128::from(stretch.lines));
        let budget = u128::from(self.regulator.lines());
        let (mut elapsed, mut moved) = (0, 0);
        while elapsed < time {
            while self.used >= budget || self.now >= self.period_end {
                self.begin_period();
            }
            // Until the budget is used up, the period or the stretch is over.
            let target = moved + budget - self.used;
            let used_up = if target <= lines { (target * time).div_ceil(lines) - elapsed } else { u128::MAX };
            let step = used_up.min(self.period_end - self.now).min(time - elapsed);
            (elapsed, self.now) = (elapsed + step, self.now + step);
            let before = std::mem::replace(&mut moved, elapsed * lines / time);
            self.count(moved - before);
        }
    }

    /// Stands still until then, if it is not over.
    fn begin_period(&mut self) {
        self.now = self.now.max(self.period_end) + u128::from(self.regulator.overhead_of_interrupt().0);
        self.period_end += u128::from(self.regulator.period().0);
        self.used = 0;
    }

    /// Uses up lines, and the grants that end with them.
    fn count(&mut self, lines: u128) {
        let ends = |used: u128| used / u128::from(self.regulator.grant());
        let interrupts = ends(self.used + lines) - ends(self.used);
        self.now += interrupts * u128::from(self.regulator.overhead_of_interrupt().0);
        self.used += lines;
    }
}
