//! The machine itself as an oracle.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memtint_probe::cache::{CacheFacts, CacheOracle};
use memtint_probe::session::MemoryFacts;
use memtint_probe::{Oracle, OracleError, Pool};
use memtint_units::{ByteSize, PhysAddr};

use crate::access;
use crate::cpus::{self, Pinned};
use crate::error::StopwatchError;
use crate::memory::{Line, TimedMemory, base_page_bytes, free_bytes};
use crate::pagemap;
use crate::places::Places;

/// The smallest pool.
const BYTES_LEAST: u64 = 2 << 20;
/// The largest default pool, and its share of free memory: one byte in this many.
const BYTES_MODEST: u64 = 4 << 30;
const SHARE_MODEST: u64 = 4;
/// Number of lines used to check that flushing works.
const TRIED: u64 = 1000;
/// Number of readings that determine the clock's quantum.
const CLOCK_READINGS: usize = 10_000;

/// Times accesses to this machine's memory.
///
/// The thread that opens it stays on one CPU until it is dropped. Each reading is one read, which begins after the
/// flush of its line and ends before anything else begins. A line is flushed right after its read.
pub struct Stopwatch {
    memory: TimedMemory,
    places: Places,
    pool: Pool,
    about: MemoryFacts,
    caches: CacheFacts,
    /// One CPU of each other core.
    other_cpus: Vec<u32>,
    _pinned: Pinned,
}

impl Stopwatch {
    /// Allocates a pool of at most `bytes`; by default, a quarter of free memory, at most 4 GiB.
    ///
    /// # Errors
    /// [`StopwatchError`] for less than 2 MiB, for more than the free memory, when the kernel hides physical addresses,
    /// and when lines cannot be flushed from the caches.
    pub fn open(bytes: Option<ByteSize>) -> Result<Stopwatch, StopwatchError> {
        if let Some(lacking) = access::missing() {
            return Err(StopwatchError::Processor { lacking });
        }
        let bytes = bytes.map_or_else(modest, |bytes| Ok(bytes.bytes()))?;
        if bytes < BYTES_LEAST {
            return Err(StopwatchError::Size { found: bytes, least: BYTES_LEAST });
        }
        let allowed = cpus::allowed().map_err(|source| StopwatchError::io("reading which CPUs may be used", source))?;
        // The first CPU has the most other work.
        let cpu = *allowed.last().expect("this thread runs somewhere");
        let pinned = Pinned::to(cpu).map_err(|source| StopwatchError::io("staying on one CPU", source))?;
        let memory = TimedMemory::take(bytes)?;
        let (places, known_bits) = match frames(&memory)? {
            Some(frames) => (Places::of_frames(&frames, base_page_bytes()), 64),
            None if memory.page_bytes() > base_page_bytes() => {
                (Places::unknown(memory.bytes()), memory.page_bytes().trailing_zeros())
            }
            None => return Err(StopwatchError::Hidden),
        };
        let pool = Pool::new(places.pieces(), known_bits)?;
        let (cached_ticks, flushed_ticks) = flushing_works(&memory)?;
        let other_cpus = cpus::of_other_cores(&allowed, cpu);
        let about = MemoryFacts {
            page_bytes: memory.page_bytes(),
            addresses_known: known_bits == 64,
            locked: memory.is_locked(),
            cpu,
            other_cpu: other_cpus.first().copied(),
            clock_quantum_ticks: quantum(),
            cached_ticks,
            flushed_ticks,
        };
        let caches = CacheFacts { line: memtint_probe::LINE, private: Vec::new() };
        Ok(Stopwatch { memory, places, pool, about, caches, other_cpus, _pinned: pinned })
    }

    /// Returns facts about the pool.
    #[must_use]
    pub fn about(&self) -> &MemoryFacts {
        &self.about
    }

    /// Checks that the whole pool is still at the physical addresses it had when opened. Call it after the last
    /// reading. Does nothing where addresses are unknown.
    ///
    /// # Errors
    /// [`StopwatchError::Moved`] for a page that has moved.
    pub fn check_places(&self) -> Result<(), StopwatchError> {
        if !self.about.addresses_known {
            return Ok(());
        }
        let page_bytes = base_page_bytes();
        let now = page_frames(&self.memory)?.unwrap_or_default();
        for page in 0..self.memory.bytes() / page_bytes {
            let frame = now.get(page as usize).copied().flatten();
            let offset = frame.and_then(|frame| self.places.offset(PhysAddr(frame * page_bytes)));
            if offset != Some(page * page_bytes) {
                let address = self.places.address(page * page_bytes).expect("a page of the pool has an address");
                return Err(StopwatchError::Moved { address });
            }
        }
        Ok(())
    }

    /// Sets the caches before the last level, which a reload must get past; default: none.
    #[must_use]
    pub fn with_caches(mut self, caches: CacheFacts) -> Stopwatch {
        self.caches = caches;
        self
    }

    fn lines(&self, addresses: &[PhysAddr]) -> Result<Vec<Line<'_>>, OracleError> {
        let line = |&addr: &PhysAddr| {
            let found = self.places.offset(addr).and_then(|offset| self.memory.line(offset));
            found.ok_or(OracleError::Outside { found: addr.0 })
        };
        addresses.iter().map(line).collect()
    }

    /// Runs `own` on this CPU while other CPUs repeatedly run `beside` on their share of the work.
    fn beside<S: Sync, T>(
        &self,
        shares: &[S],
        beside: impl Fn(&S) + Sync,
        own: impl FnOnce() -> T,
    ) -> Result<T, OracleError> {
        let (begun, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let others: Vec<_> = shares
                .iter()
                .zip(&self.other_cpus)
                .map(|(share, &cpu)| {
                    let (begun, enough, beside) = (&begun, &enough, &beside);
                    let other = scope.spawn(move || {
                        let pinned = Pinned::to(cpu);
                        let mut first = true;
                        while pinned.is_ok() && !enough.load(Ordering::Relaxed) {
                            beside(share);
                            begun.fetch_add(usize::from(first), Ordering::Relaxed);
                            first = false;
                        }
                        pinned.map(drop)
                    });
                    (cpu, other)
                })
                .collect();
            while begun.load(Ordering::Relaxed) < others.len() && !others.iter().any(|(_, other)| other.is_finished()) {
                std::thread::yield_now();
            }
            let found = own();
            enough.store(true, Ordering::Relaxed);
            for (cpu, other) in others {
                let refused = |source| OracleError::Io { what: format!("accessing memory from CPU {cpu}"), source };
                other.join().expect("accessing memory does not panic").map_err(refused)?;
            }
            Ok(found)
        })
    }
}

impl Oracle for Stopwatch {
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn time(&mut self, addresses: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        Ok(time(&self.lines(addresses)?, rounds))
    }

    fn time_beside(
        &mut self,
        addresses: &[PhysAddr],
        others: &[PhysAddr],
        rounds: u32,
    ) -> Result<Option<Vec<u32>>, OracleError> {
        let (lines, others) = (self.lines(addresses)?, self.lines(others)?);
        if self.other_cpus.is_empty() {
            return Ok(None);
        }
        let beside = |others: &Vec<Line<'_>>| drop(time(others, 1));
        self.beside(&[others], beside, || time(&lines, rounds)).map(Some)
    }

    /// One reader for each core that this thread may run on.
    fn readers(&self) -> u32 {
        1 + self.other_cpus.len() as u32
    }

    fn together(&mut self, addresses: &[PhysAddr], readers: u32, rounds: u32) -> Result<Option<Vec<u32>>, OracleError> {
        let lines = self.lines(addresses)?;
        if !(1..=self.readers()).contains(&readers) || lines.len() < readers as usize {
            return Ok(None);
        }
        let share = |first: usize| lines.iter().copied().skip(first).step_by(readers as usize).collect();
        let shares: Vec<Vec<Line<'_>>> = (0..readers as usize).map(share).collect();
        let (own, others) = shares.split_first().expect("one reader at least");
        let beside = |share: &Vec<Line<'_>>| {
            read_at_once(share);
        };
        // One extra round first, as in `time`.
        let own = || (0..=rounds).map(|_| read_at_once(own)).collect::<Vec<_>>().split_off(1);
        self.beside(others, beside, own).map(Some)
    }
}

impl CacheOracle for Stopwatch {
    fn caches(&self) -> &CacheFacts {
        &self.caches
    }

    fn reload(&mut self, target: PhysAddr, others: &[PhysAddr], rounds: u32) -> Result<Vec<u32>, OracleError> {
        let target = self.lines(&[target])?[0];
        Ok(reload(target, &self.lines(others)?, rounds))
    }
}

/// Reads a line, other lines, and the line again; returns the time of the last read. One extra round comes first, as in
/// [`time`].
///
/// Only the two reads of the target are ordered against the reads between them. Those may be reordered among each
/// other, as in any program, which makes them several times faster.
fn reload(target: Line<'_>, others: &[Line<'_>], rounds: u32) -> Vec<u32> {
    let flush = || {
        target.flush();
        others.iter().for_each(|line| line.flush());
    };
    flush();
    let readings = (0..=rounds).map(|_| {
        target.read();
        others.iter().for_each(|line| line.touch());
        let reading = target.read();
        flush();
        reading
    });
    readings.collect::<Vec<_>>().split_off(1)
}

/// Reads lines in turn, none of them from a cache. One extra round comes first, which loads the address translations.
pub(crate) fn time(lines: &[Line<'_>], rounds: u32) -> Vec<u32> {
    let mut readings = Vec::with_capacity(lines.len() * (rounds as usize + 1));
    lines.iter().for_each(|line| line.flush());
    for _ in 0..=rounds {
        for line in lines {
            readings.push(line.read());
            line.flush();
        }
    }
    readings.split_off(lines.len())
}

/// Flushes lines, reads them without waiting for one another, and returns the total time.
fn read_at_once(lines: &[Line<'_>]) -> u32 {
    lines.iter().for_each(|line| line.flush());
    access::settle();
    let begun = access::now();
    lines.iter().for_each(|line| line.touch());
    access::settle();
    let ticks = access::now() - begun;
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// A share of free memory.
fn modest() -> Result<u64, StopwatchError> {
    let free = free_bytes().map_err(|source| StopwatchError::io("reading /proc/meminfo", source))?;
    Ok((free / SHARE_MODEST).min(BYTES_MODEST))
}

fn page_frames(memory: &TimedMemory) -> Result<Option<Vec<Option<u64>>>, StopwatchError> {
    let page_bytes = base_page_bytes();
    pagemap::frames(memory.address() / page_bytes, (memory.bytes() / page_bytes) as usize)
        .map_err(|source| StopwatchError::io("reading /proc/self/pagemap", source))
}

/// The frame of each page, where the kernel shows it.
fn frames(memory: &TimedMemory) -> Result<Option<Vec<u64>>, StopwatchError> {
    let Some(frames) = page_frames(memory)? else { return Ok(None) };
    let all: Option<Vec<u64>> = frames.into_iter().collect();
    let missing = || io::Error::other("a page that was just written is not in memory");
    all.map(Some).ok_or_else(|| StopwatchError::io("reading /proc/self/pagemap", missing()))
}

/// Reads cached and flushed lines; returns the medians of both, in that order.
fn flushing_works(memory: &TimedMemory) -> Result<(u32, u32), StopwatchError> {
    let (mut cached, mut flushed) = (Vec::new(), Vec::new());
    let lines = memory.bytes() / memtint_probe::LINE;
    for at in 0..TRIED {
        let line = memory.line(at * lines / TRIED * memtint_probe::LINE).expect("within the memory");
        flushed.extend(time(&[line], 1));
        // The first read loads the line; the second hits.
        line.read();
        cached.push(line.read());
    }
    told_apart(cached, flushed)
}

/// Returns both medians if the upper quartile of `cached` is below the lower quartile of `flushed`.
fn told_apart(mut cached: Vec<u32>, mut flushed: Vec<u32>) -> Result<(u32, u32), StopwatchError> {
    cached.sort_unstable();
    flushed.sort_unstable();
    let (quarter, half) = (cached.len() / 4, cached.len() / 2);
    match (cached[3 * quarter], flushed[quarter]) {
        (cached, flushed) if flushed <= cached => Err(StopwatchError::FlushIgnored { flushed, cached }),
        _ => Ok((cached[half], flushed[half])),
    }
}

/// The greatest common divisor of the clock's steps.
fn quantum() -> u64 {
    let readings: Vec<u64> = (0..CLOCK_READINGS).map(|_| access::now()).collect();
    let steps = readings.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    steps.fold(0, greatest_common_divisor).max(1)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod live {
    use super::*;
    use memtint_testing::{alone, skip};

    fn machine() -> Stopwatch {
        Stopwatch::open(Some(ByteSize::mib(8))).expect("memory can be timed here")
    }

    #[test]
    fn a_page_that_has_moved_is_noticed() {
        let _alone = alone();
        let mut machine = machine();
        machine.check_places().expect("nothing has moved");
        let offset = machine.memory.bytes() - machine.memory.page_bytes();
        let address = machine.places.address(offset).unwrap();
        machine.memory.lose(offset);
        let lost = machine.check_places();
        if machine.about.addresses_known {
            assert!(matches!(lost, Err(StopwatchError::Moved { address: found }) if found == address), "{lost:?}");
        } else {
            assert!(lost.is_ok(), "{lost:?}");
        }
    }

    #[test]
    fn two_pages_that_were_exchanged_are_noticed() {
        let _alone = alone();
        let mut machine = machine();
        let Some(mut frames) = frames(&machine.memory).unwrap() else { return skip("physical addresses") };
        frames.swap(1, 2);
        machine.places = Places::of_frames(&frames, base_page_bytes());
        assert!(matches!(machine.check_places(), Err(StopwatchError::Moved { .. })));
    }

    #[test]
    fn flushing_that_does_nothing_is_noticed() {
        let (cached, flushed): (Vec<u32>, Vec<u32>) = ((40..140).collect(), (100..200).rev().collect());
        assert!(matches!(told_apart(cached.clone(), flushed), Ok((90, 150))));
        let error = told_apart(cached, (60..160).collect()).unwrap_err().to_string();
        assert!(error.contains("take 85 ticks or less") && error.contains("cached lines 115 or more"), "{error}");
    }

    #[test]
    fn common_divisors() {
        assert_eq!(
            [(0, 0), (12, 0), (0, 12), (12, 18), (7, 5)].map(|(a, b)| greatest_common_divisor(a, b)),
            [0, 12, 12, 6, 1]
        );
    }
}
