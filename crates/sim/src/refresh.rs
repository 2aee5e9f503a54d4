//! Refresh by software: which ranks are locked when, and the tasks that lock and unlock them ([Pan18, §4.3.2
//! and 5.3.4]).
//!
//! ```text
//! start            + lock     + jitter                                end         + unlock
//! |  lock task     |  burst of REF to the locked ranks                |  unlock   |
//! |  no task of these ranks is dispatched                                         |
//! ```

use memtint_dram::Timetable;
use memtint_units::{Clock, Picoseconds};

/// Ranks as bits.
pub(crate) type RankMask = u64;

/// Time in which some ranks are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWindow {
    /// The ranks, one bit each, of every channel.
    pub ranks: u64,
    /// When the lock task is released, counted from the start of the period.
    pub start: Picoseconds,
    /// When the unlock task is released.
    pub end: Picoseconds,
}

/// Locks that repeat with a period, the tasks that set and lift them, and the activity of the channels' engines
/// meanwhile.
#[derive(Clone, Debug)]
pub struct SoftRefresh {
    /// Time after which all windows repeat.
    pub period: Picoseconds,
    /// The windows of a period, by their start; they end within it.
    pub windows: Vec<LockWindow>,
    /// Time of the lock task on each of its cores, longer only if there is more to write back. The burst begins this
    /// long after its release, whatever held it up.
    pub lock: Picoseconds,
    /// Time of the unlock task on each of its cores.
    pub unlock: Picoseconds,
    /// The cores that run all lock and unlock tasks, at the same time and before all others. Not empty; ascending.
    pub cores: Vec<usize>,
    /// Whether the lock task also writes back the dirty lines of the ranks that it locks (of several cores, the first
    /// that runs it writes back all of them, from any cache), and each other core writes back the lines that it wrote
    /// before it saw the lock. Otherwise a task of other ranks can displace them meanwhile, and they meet the refresh.
    pub clean: bool,
    /// Of each channel.
    pub timetable: Timetable,
}

/// Statistics of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Time in which some rank was locked, in picoseconds.
    pub locked_ps: u64,
    /// Of that, for each core: it was idle because tasks that were ready could not run for the locks.
    pub unhidden_ps: Vec<u64>,
    /// Total time of lock and unlock tasks on their cores, in picoseconds.
    pub tasks_ps: u64,
    /// Lock tasks that ran, each once for each of their cores.
    pub locks: u64,
    /// Lines that they wrote back.
    pub cleaned_lines: u64,
    /// Times that a job went on with another instance of its task (copy tasks).
    pub copies: u64,
    /// Lines that were read from one instance and written to another for that.
    pub copied_lines: u64,
}

/// A refresh task on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefreshTask {
    pub(crate) at: Picoseconds,
    pub(crate) locks: bool,
    pub(crate) ranks: RankMask,
}

impl SoftRefresh {
    /// Whether one of the ranks is locked.
    pub(crate) fn is_locked(&self, ranks: RankMask, at: Picoseconds) -> bool {
        let within = at.0 % self.period.0;
        self.windows.iter().any(|window| window.ranks & ranks != 0 && (window.start.0..window.end.0).contains(&within))
    }

    /// The ranks that are locked.
    pub(crate) fn locked(&self, at: Picoseconds) -> RankMask {
        let within = at.0 % self.period.0;
        let covers = |window: &&LockWindow| (window.start.0..window.end.0).contains(&within);
        self.windows.iter().filter(covers).fold(0, |ranks, window| ranks | window.ranks)
    }

    /// Whether one of the ranks is locked at any time from `from` to before `to`.
    pub(crate) fn is_locked_within(&self, ranks: RankMask, from: Picoseconds, to: Picoseconds) -> bool {
        self.is_locked(ranks, from) || self.next(from, |task| task.locks && task.ranks & ranks != 0).at < to
    }

    /// The first lock or unlock of one of the ranks after a time.
    pub(crate) fn next_change(&self, ranks: RankMask, after: Picoseconds) -> Picoseconds {
        self.next(after, |task| task.ranks & ranks != 0).at
    }

    /// The first lock or unlock task at or after a time.
    pub(crate) fn next_task(&self, from: Picoseconds) -> RefreshTask {
        match from.0 {
            0 => self.first_of_period(Picoseconds(0)).unwrap_or_else(|| self.next(from, |_| true)),
            after => self.next(Picoseconds(after - 1), |_| true),
        }
    }

    /// All tasks that are released at a time, unlocks first.
    pub(crate) fn tasks_at(&self, at: Picoseconds) -> impl Iterator<Item = RefreshTask> + '_ {
        let within = at.0 % self.period.0;
        // The end of a period is the start of the next; at the start of the first nothing ends.
        let ends = move |end: u64| end == within || end == self.period.0 && within == 0 && at.0 > 0;
        let unlocks = self.windows.iter().filter(move |window| ends(window.end.0)).map(|window| (false, window.ranks));
        let locks =
            self.windows.iter().filter(move |window| window.start.0 == within).map(|window| (true, window.ranks));
        unlocks.chain(locks).map(move |(locks, ranks)| RefreshTask { at, locks, ranks })
    }

    fn first_of_period(&self, at: Picoseconds) -> Option<RefreshTask> {
        let window = self.windows.first().filter(|window| window.start == at)?;
        Some(RefreshTask { at, locks: true, ranks: window.ranks })
    }

    /// The first task after a time that `wanted` accepts; at the same time unlocks come first, then the order of
    /// windows.
    fn next(&self, after: Picoseconds, wanted: impl Fn(&RefreshTask) -> bool) -> RefreshTask {
        let round = after.0 / self.period.0;
        let never = RefreshTask { at: Picoseconds(u64::MAX), locks: false, ranks: 0 };
        let of_round = |round: u64| {
            self.windows.iter().flat_map(move |window| {
                let start = Picoseconds(round * self.period.0);
                [(window.end, false), (window.start, true)].map(|(at, locks)| RefreshTask {
                    at: start + at,
                    locks,
                    ranks: window.ranks,
                })
            })
        };
        // An unlock at the very end of a period belongs to the one before.
        let rounds = round.saturating_sub(1)..=round + 1;
        let later = rounds.flat_map(of_round).filter(|task| task.at > after && wanted(task));
        later.min_by_key(|task| (task.at, task.locks)).unwrap_or(never)
    }

    /// Time up to `end` in which some rank is locked.
    pub(crate) fn locked_time(&self, end: Picoseconds) -> u64 {
        let (mut total, mut covered) = (0, 0);
        let (rounds, rest) = (end.0 / self.period.0, end.0 % self.period.0);
        let mut part = 0;
        for window in &self.windows {
            let from = window.start.0.max(covered);
            total += window.end.0.saturating_sub(from);
            part += window.end.0.min(rest).saturating_sub(from);
            covered = covered.max(window.end.0);
        }
        rounds * total + part
    }
}

/// A time in whole cycles; `None` when it is not.
pub(crate) fn whole_cycles(clock: Clock, time: Picoseconds) -> Option<u64> {
    let cycles = clock.cycles_covering(time);
    (clock.start(cycles) == time).then_some(cycles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtint_dram::{DeviceChoice, RankTimetable, RefreshWindow, Standard};

    /// Two windows of ten that touch at five, one of them at the period's end; a third upon the first.
    fn soft() -> SoftRefresh {
        let device = Standard::load("ddr3-1600").unwrap().device(DeviceChoice::default()).unwrap();
        let all = RefreshWindow { start: 0, end: device.refresh.window_cycles, commands: device.refresh.commands };
        let entry = RankTimetable { period: all.end, phase: 0, jitter: 0, windows: vec![all] };
        let window = |ranks, start, end| LockWindow { ranks, start: Picoseconds(start), end: Picoseconds(end) };
        SoftRefresh {
            period: Picoseconds(10),
            windows: vec![window(1, 0, 5), window(4, 2, 3), window(2, 5, 10)],
            lock: Picoseconds(0),
            unlock: Picoseconds(0),
            cores: vec![0],
            clean: false,
            timetable: Timetable::new(&[entry], &device, 1).unwrap(),
        }
    }

    #[test]
    fn lock_and_unlock_tasks_come_in_order_each_once() {
        let soft = soft();
        let (mut at, mut seen) = (Picoseconds(0), Vec::new());
        while at.0 < 21 {
            let next = soft.next_task(at).at;
            seen.extend(soft.tasks_at(next).map(|task| (task.at.0, task.locks, task.ranks)));
            at = next + Picoseconds(1);
        }
        let of_period = |start: u64| {
            [(2, true, 4), (3, false, 4), (5, false, 1), (5, true, 2), (10, false, 2), (10, true, 1)]
                .map(|(at, locks, ranks)| (start + at, locks, ranks))
        };
        let expected: Vec<_> = [(0, true, 1)].into_iter().chain(of_period(0)).chain(of_period(10)).collect();
        assert_eq!(seen[..expected.len()], expected);
    }

    #[test]
    fn windows_are_closed_at_their_start_and_open_at_their_end() {
        let soft = soft();
        let locked = |ranks, at| soft.is_locked(ranks, Picoseconds(at));
        assert!(locked(1, 0) && locked(1, 14) && !locked(1, 5) && !locked(1, 19) && locked(3, 19));
        assert_eq!(soft.next_change(1, Picoseconds(0)).0, 5);
        assert_eq!(soft.next_change(1, Picoseconds(5)).0, 10);
        assert_eq!(soft.next_change(4, Picoseconds(3)).0, 12);
        let within = |ranks, from, to| soft.is_locked_within(ranks, Picoseconds(from), Picoseconds(to));
        assert!(within(1, 4, 5) && !within(1, 5, 10) && within(1, 5, 11) && !within(4, 3, 12) && within(4, 3, 13));
    }

    #[test]
    fn locked_time_counts_no_moment_twice() {
        let mut soft = soft();
        assert_eq!(soft.locked_time(Picoseconds(37)), 37);
        soft.windows.pop();
        assert_eq!([0, 1, 4, 7, 10, 12, 25].map(|end| soft.locked_time(Picoseconds(end))), [0, 1, 4, 5, 5, 7, 15]);
    }
}
