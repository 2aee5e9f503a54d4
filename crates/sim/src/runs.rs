//! A log of runs with a limit, for pictures and for checks of schedules.

use memtint_units::Picoseconds;

/// The user of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ran {
    /// A job of a task.
    Job {
        /// Index of the task in the scenario.
        task: usize,
        /// The job, from 0.
        job: u64,
    },
    /// The refresh task that locks ranks.
    Lock {
        /// The ranks, one bit each.
        ranks: u64,
    },
    /// The refresh task that unlocks ranks.
    Unlock {
        /// The ranks, one bit each.
        ranks: u64,
    },
}

/// A stretch of time in which a core did one thing, including waits for memory, without the context switch to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The core.
    pub core: usize,
    /// Its activity.
    pub ran: Ran,
    /// When it began.
    pub start: Picoseconds,
    /// When it ended, excluded.
    pub end: Picoseconds,
}

/// The runs of all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// In the order in which they began; of one core none overlap.
    pub runs: Vec<Run>,
    /// Up to when all runs are kept; later ones were too many.
    pub until: Picoseconds,
}

/// Keeps runs until there are too many.
#[derive(Debug)]
pub(crate) struct RunLog {
    runs: Vec<Run>,
    /// The activity of each core, and its beginning.
    open: Vec<Option<(Ran, Picoseconds)>>,
    /// The latest run of each core.
    latest: Vec<Option<usize>>,
    runs_max: usize,
    /// The first that was not kept.
    dropped: Option<Picoseconds>,
}

impl RunLog {
    pub(crate) fn new(cores: usize, runs_max: usize) -> RunLog {
        RunLog { runs: Vec::new(), open: vec![None; cores], latest: vec![None; cores], runs_max, dropped: None }
    }

    pub(crate) fn begin(&mut self, core: usize, ran: Ran, at: Picoseconds) {
        self.open[core] = Some((ran, at));
    }

    /// Ends the core's activity; if it continues after a check, both parts are one run.
    pub(crate) fn end(&mut self, core: usize, at: Picoseconds) {
        let Some((ran, start)) = self.open[core].take().filter(|&(_, start)| start < at) else { return };
        let latest = self.latest[core].map(|latest| &mut self.runs[latest]);
        if let Some(latest) = latest.filter(|run| run.ran == ran && run.end == start) {
            latest.end = at;
        } else if self.runs.len() < self.runs_max {
            self.latest[core] = Some(self.runs.len());
            self.runs.push(Run { core, ran, start, end: at });
        } else {
            self.dropped = Some(self.dropped.map_or(start, |dropped| dropped.min(start)));
            self.latest[core] = None;
        }
    }

    /// All runs so far, including those under way.
    pub(crate) fn runs(&self, now: Picoseconds) -> Runs {
        let mut all = RunLog { open: self.open.clone(), latest: self.latest.clone(), runs: self.runs.clone(), ..*self };
        (0..all.open.len()).for_each(|core| all.end(core, now));
        all.runs.sort_by_key(|run| (run.start, run.core));
        Runs { until: all.dropped.map_or(now, |dropped| dropped.min(now)), runs: all.runs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Ran = Ran::Job { task: 0, job: 0 };

    /// Begins and ends the activity of a core.
    fn runs(log: &mut RunLog, core: usize, spans: &[(Ran, u64, u64)]) {
        for &(ran, start, end) in spans {
            log.begin(core, ran, Picoseconds(start));
            log.end(core, Picoseconds(end));
        }
    }

    #[test]
    fn what_goes_on_after_a_look_is_one_run() {
        let mut log = RunLog::new(2, 10);
        let next = Ran::Job { task: 0, job: 1 };
        runs(&mut log, 1, &[(JOB, 5, 7)]);
        runs(&mut log, 0, &[(JOB, 0, 4), (JOB, 4, 6), (JOB, 6, 6), (next, 6, 9), (JOB, 10, 11)]);
        log.begin(0, next, Picoseconds(12));
        let run = |core, ran, start, end| Run { core, ran, start: Picoseconds(start), end: Picoseconds(end) };
        let expected =
            [run(0, JOB, 0, 6), run(1, JOB, 5, 7), run(0, next, 6, 9), run(0, JOB, 10, 11), run(0, next, 12, 15)];
        assert_eq!(log.runs(Picoseconds(15)), Runs { runs: expected.to_vec(), until: Picoseconds(15) });
        assert_eq!(log.runs(Picoseconds(12)).runs.len(), 4, "what is under way is not ended for good");
    }

    #[test]
    fn a_full_log_says_up_to_when_it_is_whole() {
        let mut log = RunLog::new(1, 2);
        runs(&mut log, 0, &[(JOB, 0, 1), (JOB, 2, 3), (JOB, 3, 4), (JOB, 5, 6), (JOB, 6, 7)]);
        let found = log.runs(Picoseconds(8));
        assert_eq!((found.runs.len(), found.runs[1].end, found.until), (2, Picoseconds(4), Picoseconds(5)));
    }
}
