//! Priority for a bounded time: no action of a program may keep a CPU from others.

use crate::sys;
use std::time::{Duration, Instant};

/// How long a helper keeps its priority while it takes frames, unless it is done earlier.
pub(crate) const BOOST: Duration = Duration::from_millis(20);
/// Longest total time of priority in a burst of requests.
const CREDIT: Duration = Duration::from_secs(1);
/// Share of priority in the long run: 1 in this number.
const CREDIT_REGAINED: u32 = 4;

/// The time for which a thread may still have priority. Time spent beyond it is a debt, which is paid first.
pub(crate) struct Credit {
    left: Duration,
    debt: Duration,
    counted: Instant,
}

impl Credit {
    pub(crate) fn new() -> Credit {
        Credit { left: CREDIT, debt: Duration::ZERO, counted: Instant::now() }
    }

    pub(crate) fn has_some(&mut self, now: Instant) -> bool {
        let regained = now.saturating_duration_since(self.counted) / CREDIT_REGAINED;
        let paid = regained.min(self.debt);
        self.debt -= paid;
        (self.left, self.counted) = ((self.left + (regained - paid)).min(CREDIT), now);
        self.left > BOOST
    }

    pub(crate) fn spend(&mut self, time: Duration) {
        self.debt += time.saturating_sub(self.left);
        self.left = self.left.saturating_sub(time);
    }
}

/// Real-time priority of the calling thread while there is credit, counted by its processor time: waiting costs nothing.
pub(crate) struct Urgency {
    credit: Credit,
    /// Processor time at which priority began, while it lasts.
    since: Option<Duration>,
    /// The thread started with ordinary priority: neither raised nor lowered.
    may: bool,
}

impl Urgency {
    pub(crate) fn new() -> Urgency {
        Urgency { credit: Credit::new(), since: None, may: sys::scheduling(0).0 == libc::SCHED_OTHER }
    }

    /// Takes priority while there is credit, and gives it up otherwise. Call this before each short step.
    pub(crate) fn keep(&mut self) {
        let used = sys::processor_time();
        if let Some(since) = self.since {
            if used.saturating_sub(since) < BOOST {
                return;
            }
            self.credit.spend(used.saturating_sub(since));
        }
        let has_some = self.may && self.credit.has_some(Instant::now());
        if has_some != self.since.is_some() {
            sys::set_realtime(0, has_some);
        }
        self.since = has_some.then_some(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_ends_with_its_credit() {
        let begin = Instant::now();
        let mut credit = Credit { left: CREDIT, debt: Duration::ZERO, counted: begin };
        credit.spend(CREDIT);
        assert!(!credit.has_some(begin), "all is spent");
        assert!(!credit.has_some(begin + CREDIT_REGAINED * BOOST), "just what one request takes");
        assert!(credit.has_some(begin + 2 * CREDIT_REGAINED * BOOST), "a quarter of the time comes back");
        // A debt is paid before credit is regained.
        let later = begin + 2 * CREDIT_REGAINED * BOOST;
        credit.spend(10 * CREDIT);
        assert!(!credit.has_some(later + CREDIT_REGAINED * 9 * CREDIT));
        assert!(credit.has_some(later + CREDIT_REGAINED * 11 * CREDIT));
    }
}
