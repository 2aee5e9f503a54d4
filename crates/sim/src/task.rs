//! Tasks: their work, their release times, and their counters.

use crate::histogram::Histogram;
use crate::page_table::PageTable;
use crate::refresh::RankMask;
use memtint_cache::TaskClass;
use memtint_units::Picoseconds;
use memtint_units::random::at;
use memtint_workload::{Reference, Source};

/// References pulled from a source at a time.
const PULL: usize = 256;

/// When jobs of a task are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Of the first job.
    pub phase: Picoseconds,
    /// Between two jobs.
    pub period: Picoseconds,
    /// From the release to the time by which the job must be done.
    pub deadline: Picoseconds,
    /// The work of a job.
    pub references_per_job: u64,
    /// Whether a job that is not done by its deadline is given up.
    pub gives_up: bool,
    /// Jobs at the beginning that are not counted.
    pub uncounted: u64,
    /// Largest random delay of a job's release after its arrival. Its deadline and response count from the arrival.
    pub jitter: Picoseconds,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Release {
    /// When a job is released, by its number.
    pub(crate) fn at(&self, job: u64) -> Picoseconds {
        let late = if self.jitter.0 == 0 { 0 } else { at(self.seed, job) % (self.jitter.0 + 1) };
        self.nominal(job) + Picoseconds(late)
    }

    /// When it should be.
    fn nominal(&self, job: u64) -> Picoseconds {
        self.phase + Picoseconds(self.period.0 * job)
    }
}

/// Where the data of a task begin that its instances copy: where those of most workloads do.
const GLOBALS: u64 = 1 << 32;
/// A line is read and written in words of 8 bytes: an instruction each.
const COPY_WORD_BYTES: u64 = 8;

/// A copy under way: line by line, a read of the one instance's memory and a write to the other's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    pub(crate) from: usize,
    pub(crate) to: usize,
    line_bytes: u64,
    /// References done.
    at: u64,
    end: u64,
}

impl Copying {
    /// A copy of `lines` lines, one or more.
    pub(crate) fn new(from: usize, to: usize, lines: u64, line_bytes: u64) -> Copying {
        Copying { from, to, line_bytes, at: 0, end: 2 * lines }
    }

    /// The next reference, and the instance that its address belongs to.
    fn reference(&self) -> (usize, Reference) {
        let addr = GLOBALS + self.at / 2 * self.line_bytes;
        let gap = (self.line_bytes / COPY_WORD_BYTES) as u32 - 1;
        match self.at % 2 {
            0 => (self.from, Reference::read(addr, COPY_WORD_BYTES as u8, gap)),
            _ => (self.to, Reference { depends: true, ..Reference::write(addr, COPY_WORD_BYTES as u8, gap) }),
        }
    }
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It wants the core.
    Ready,
    /// Its next job is released at this time.
    Waiting(Picoseconds),
    /// It waits for the other tasks of its group, since this time.
    AtBarrier(Picoseconds),
    /// It has no more to do.
    Finished,
}

/// How a task has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The simulation was over before the task was.
    Running,
    /// It executed all it had to.
    Completed,
    /// There was no frame for it; the allocator's words.
    OutOfMemory(String),
    /// Its trace file ended early; the reader's words.
    Failed(String),
}

/// Counts of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Instructions executed.
    pub instructions: u64,
    /// Memory references executed.
    pub references: u64,
    /// Core cycles it had a core for, times the issue width.
    pub slots: u64,
    /// Accesses answered by first level, second level, last level, another core's cache, memory.
    pub answered: [u64; 5],
    /// Lines read from memory, prefetches included.
    pub lines_read: u64,
    /// Lines written to memory on its behalf.
    pub lines_written: u64,
    /// Reads that met their row open, the bank closed, another row.
    pub rows: [u64; 3],
    /// Time from access to data of demand reads of memory, in picoseconds.
    pub latency_ps: Histogram,
    /// First touches of a page.
    pub page_faults: u64,
    /// Frames it has.
    pub frames: u64,
    /// Of these, frames that its policy does not allow, given by soft mode and by allocators without colors.
    pub frames_out_of_color: u64,
    /// Jobs finished.
    pub jobs: u64,
    /// Jobs that were not done by their deadline; those still running at the end that are late count as well.
    pub deadline_misses: u64,
    /// Under a table, jobs that were not complete when the last of their slots had ended that begins before their deadline.
    pub jobs_beyond_slots: u64,
    /// Jobs that were given up at their deadline; they count as misses, too.
    pub jobs_given_up: u64,
    /// From release to end of each finished job, in picoseconds.
    pub response_ps: Histogram,
    /// Core cycles that each finished job had, times the issue width.
    pub execution_slots: Histogram,
    /// Time waited at barriers, in picoseconds.
    pub barrier_ps: u64,
    /// Times it lost its core before it had to stop.
    pub preemptions: u64,
    /// Times it went on on another core.
    pub migrations: u64,
    /// Times a job of it took over from another instance of the task (copy tasks).
    pub taken_over: u64,
    /// When it completed, if it did.
    pub completed_at: Option<Picoseconds>,
}

/// State of one task.
pub(crate) struct Task {
    pub(crate) class: TaskClass,
    /// Those it may run on.
    pub(crate) cores: Vec<usize>,
    /// The one it runs on.
    pub(crate) running_on: Option<usize>,
    pub(crate) last_core: Option<usize>,
    /// Nothing of it runs before this time.
    pub(crate) ready_since: Picoseconds,
    /// Smaller is more urgent.
    pub(crate) priority: u32,
    /// Place in the queue of those that wait for a core.
    pub(crate) turn: u64,
    pub(crate) release: Option<Release>,
    /// The job that is running or comes next, from 0.
    pub(crate) job: u64,
    /// Ranks that it may have memory of, and those of its server: it does not run while one of them is locked.
    pub(crate) ranks: RankMask,
    /// The server it runs in.
    pub(crate) server: Option<usize>,
    /// The group of instances it is one of.
    pub(crate) copies: Option<usize>,
    /// The instance that has the data, which have to be copied before this one goes on.
    pub(crate) takes_over: Option<usize>,
    /// It copies, to go on or for the instance that has the next job.
    pub(crate) copying: Option<Copying>,
    /// The job has copied its data: it does not copy for the next as well.
    pub(crate) has_copied: bool,
    pub(crate) barrier: Option<Barrier>,
    /// Whether it ends by itself: the simulation may end when all such tasks have ended.
    pub(crate) is_finite: bool,
    /// References until it is done.
    pub(crate) left: u64,
    /// References until the job is done.
    pub(crate) job_left: u64,
    pub(crate) released: Picoseconds,
    /// Jobs at the beginning that are still to be left out of the counts.
    uncounted: u64,
    /// Slots it had before this job.
    slots_before: u64,
    pub(crate) deadline: Picoseconds,
    /// When its slots end that begin before the deadline; never without a table.
    pub(crate) slots_end: Picoseconds,
    pub(crate) state: State,
    pub(crate) ending: Ending,
    pub(crate) table: PageTable,
    pub(crate) counts: TaskCounts,
    source: Box<dyn Source>,
    buffer: Vec<Reference>,
    at: usize,
}

/// Tasks of a group wait for each other after every `every` references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Group.
    pub group: u32,
    /// References between two barriers.
    pub every: u64,
}

impl Task {
    #[allow(clippy::too_many_arguments, reason = "called once, with the fields of a scenario's task")]
    pub(crate) fn new(
        class: TaskClass,
        cores: Vec<usize>,
        priority: u32,
        turn: u64,
        release: Option<Release>,
        barrier: Option<Barrier>,
        references: Option<u64>,
        table: PageTable,
        source: Box<dyn Source>,
    ) -> Task {
        let mut task = Task {
            class,
            cores,
            running_on: None,
            last_core: None,
            ready_since: Picoseconds(0),
            priority,
            turn,
            release,
            job: 0,
            ranks: RankMask::MAX,
            server: None,
            copies: None,
            takes_over: None,
            copying: None,
            has_copied: false,
            barrier,
            is_finite: references.is_some() || source.ends(),
            left: references.unwrap_or(u64::MAX),
            job_left: u64::MAX,
            released: Picoseconds(0),
            uncounted: release.map_or(0, |release| release.uncounted),
            slots_before: 0,
            deadline: Picoseconds(u64::MAX),
            slots_end: Picoseconds(u64::MAX),
            state: State::Ready,
            ending: Ending::Running,
            table,
            counts: TaskCounts::default(),
            source,
            buffer: vec![Reference::default(); PULL],
            at: PULL,
        };
        if let Some(release) = release {
            task.state = State::Waiting(release.at(0));
        }
        task.begin_stretch();
        task
    }

    /// How far it may go until it has to stop for a job's end or a barrier.
    fn begin_stretch(&mut self) {
        let job = self.release.map_or(u64::MAX, |release| release.references_per_job);
        self.job_left = self.barrier.map_or(job, |barrier| barrier.every);
    }

    /// The next reference, without going past it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<Reference> {
        if self.at == self.buffer.len() {
            let got = if self.buffer.is_empty() { 0 } else { self.source.fill(&mut self.buffer) };
            self.buffer.truncate(got);
            self.at = 0;
            if got == 0 {
                return None;
            }
        }
        Some(self.buffer[self.at])
    }

    /// Its next reference, and the task whose memory it accesses; `None` when it must stop here. `own` is its own
    /// index.
    #[inline]
    pub(crate) fn next(&mut self, own: usize) -> Option<(usize, Reference)> {
        if let Some(copying) = &self.copying {
            return Some(copying.reference());
        }
        if self.left == 0 || self.job_left == 0 {
            return None;
        }
        Some((own, self.peek()?))
    }

    /// Goes past it; whether a line has been copied.
    #[inline]
    pub(crate) fn advance(&mut self) -> bool {
        if let Some(copying) = &mut self.copying {
            copying.at += 1;
            let copied = copying.at.is_multiple_of(2);
            if copying.at == copying.end {
                self.copying = None;
            }
            return copied;
        }
        self.at += 1;
        self.left -= 1;
        self.job_left -= 1;
        false
    }

    /// Why the source ended, when it ended before its time.
    pub(crate) fn failure(&self) -> Option<String> {
        self.source.failure().map(ToString::to_string)
    }

    /// A job begins.
    pub(crate) fn release_at(&mut self, at: Picoseconds) {
        self.released = self.release.map_or(at, |release| release.nominal(self.job));
        self.ready_since = at;
        self.slots_before = self.counts.slots;
        self.deadline = self.release.map_or(Picoseconds(u64::MAX), |release| self.released + release.deadline);
        self.state = State::Ready;
    }

    /// A job ends; the next is released when its time has come.
    pub(crate) fn end_job(&mut self, at: Picoseconds) {
        let Some(release) = self.release else { return };
        if self.counts_job() {
            self.counts.jobs += 1;
            self.counts.response_ps.add((at - self.released).0);
            self.counts.execution_slots.add(self.counts.slots - self.slots_before);
            self.counts.deadline_misses += u64::from(at > self.deadline);
            self.counts.jobs_beyond_slots += u64::from(at > self.slots_end);
        }
        self.begin_stretch();
        self.await_next(release);
    }

    /// The next job is released when its time has come.
    fn await_next(&mut self, release: Release) {
        self.has_copied = false;
        self.job += 1;
        self.state = State::Waiting(release.at(self.job));
    }

    /// Leaves a job to another instance of the task.
    pub(crate) fn leave_job(&mut self) {
        if let Some(release) = self.release {
            self.await_next(release);
        }
    }

    /// Whether the job that ends is one of those that count.
    fn counts_job(&mut self) -> bool {
        let counts = self.uncounted == 0;
        self.uncounted = self.uncounted.saturating_sub(1);
        counts
    }

    /// When the job will be given up, if it is not done by then.
    pub(crate) fn gives_up_at(&self) -> Option<Picoseconds> {
        (self.state == State::Ready && self.release?.gives_up).then_some(self.deadline)
    }

    /// Gives up the job; the next is released when its time has come.
    pub(crate) fn give_up_job(&mut self) {
        let Some(release) = self.release else { return };
        if self.counts_job() {
            self.counts.jobs_given_up += 1;
            self.counts.deadline_misses += 1;
            self.counts.jobs_beyond_slots += u64::from(self.slots_end.0 < u64::MAX);
        }
        self.begin_stretch();
        self.await_next(release);
    }

    /// Goes on after a barrier.
    pub(crate) fn pass_barrier(&mut self, arrived: Picoseconds, at: Picoseconds) {
        self.counts.barrier_ps += (at - arrived).0;
        self.ready_since = at;
        self.begin_stretch();
        self.state = State::Ready;
    }
}
