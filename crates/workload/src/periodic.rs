//! Periodic real-time tasks: PALLOC's HRT, and the ones of CAMC.

use memtint_units::{ByteSize, Picoseconds};

use crate::{Bandwidth, BandwidthParameters, Reference, Source, Strides, StridesParameters, WorkloadError};

/// A source cut into jobs: a job is released every period, runs through a number of references, and has to end before
/// its deadline. The source has no notion of time: its executor releases a job at k times the period, pulls
/// [`Periodic::references_per_job`] references, and compares with the deadline.
#[derive(Clone, Debug)]
pub struct Periodic<S> {
    inner: S,
    period: Picoseconds,
    deadline: Picoseconds,
    references_per_job: u64,
}

impl<S: Source + Clone + 'static> Periodic<S> {
    /// Cuts a source into jobs. Refuses a period, deadline or job of zero, and a deadline beyond the period.
    pub fn new(
        inner: S,
        period: Picoseconds,
        deadline: Picoseconds,
        references_per_job: u64,
    ) -> Result<Periodic<S>, WorkloadError> {
        let refuse = |field, found: &dyn ToString, accepted: &str| {
            Err(WorkloadError::parameter("periodic", field, found.to_string(), accepted))
        };
        if period.0 == 0 {
            return refuse("period", &period, "more than 0 ns");
        }
        if deadline.0 == 0 || deadline > period {
            return refuse("deadline", &deadline, "more than 0 ns and at most the period");
        }
        if references_per_job == 0 {
            return refuse("references_per_job", &0, "1 or more");
        }
        Ok(Periodic { inner, period, deadline, references_per_job })
    }

    /// Gives the time between two releases.
    #[must_use]
    pub const fn period(&self) -> Picoseconds {
        self.period
    }

    /// Gives the time from a job's release until it has to be done.
    #[must_use]
    pub const fn deadline(&self) -> Picoseconds {
        self.deadline
    }

    /// Counts the references of one job.
    #[must_use]
    pub const fn references_per_job(&self) -> u64 {
        self.references_per_job
    }
}

impl Periodic<Bandwidth> {
    /// PALLOC's HRT (section V-C): every 20 ms it reads a chunk of memory, with a deadline of 13 ms; all its requests
    /// miss the last-level cache (so it goes through memory twice that large). The size of the chunk is not published,
    /// only the time of a lone run, 10.0 ms on the Xeon (Table II): the caller fits the lines of a job to that.
    pub fn palloc_hrt(llc: ByteSize, lines_per_job: u64) -> Result<Periodic<Bandwidth>, WorkloadError> {
        let inner = Bandwidth::new(&BandwidthParameters::for_cache(llc))?;
        Periodic::new(inner, Picoseconds::from_ns(20_000_000), Picoseconds::from_ns(13_000_000), lines_per_job)
    }
}

impl Periodic<Strides> {
    /// CAMC's task 1 [Pan18, Table 2.3]: alternating strides, every 150 ms, deadline at the end of the period. Its time
    /// is published (Table 2.4: 60.7 ms alone), but not its number of writes: the caller fits it.
    pub fn camc_synthetic(writes_per_job: u64) -> Result<Periodic<Strides>, WorkloadError> {
        let period = Picoseconds::from_ns(150_000_000);
        Periodic::new(Strides::new(&StridesParameters::camc())?, period, period, writes_per_job)
    }
}

impl<S: Source + Clone + 'static> Source for Periodic<S> {
    #[inline]
    fn next(&mut self) -> Option<Reference> {
        self.inner.next()
    }

    fn fill(&mut self, into: &mut [Reference]) -> usize {
        self.inner.fill(into)
    }

    fn snapshot(&self) -> Box<dyn Source> {
        Box::new(self.clone())
    }

    fn failure(&self) -> Option<&WorkloadError> {
        self.inner.failure()
    }
}
