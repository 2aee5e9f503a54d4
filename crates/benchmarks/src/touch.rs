//! The measured program of the fault benchmarks, and the program that scrambles the kernel's free lists before each
//! run.
//!
//! The benchmarks run them as processes of memtint itself, so no compiler is needed on the machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use memtint_bench::ScrambleReport;
use memtint_units::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BenchmarkError;
use crate::words::words;

const PAGE: usize = 4096;

words! {
    /// Order in which memory is touched for the first time.
    Pattern {
        /// One mapping, page after page.
        Sequential = "sequential",
        /// One mapping, each page once, in random order.
        Random = "random",
        /// A fresh mapping for every page.
        Single = "single",
        /// One mapping that the kernel is asked to fill (MAP_POPULATE), then touched page after page.
        Populate = "populate",
    }
}

/// Parameters of the touching program.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    /// Order of the touches.
    pub pattern: Pattern,
    /// Pages of 4 KiB, at least one.
    pub pages: usize,
    /// How often memory is mapped, touched and unmapped.
    pub passes: usize,
    /// Seed of the random order.
    pub seed: u64,
    /// Whether the frames of the first pass are also reported (needs CAP_SYS_ADMIN).
    pub frames: bool,
}

/// Parameters of the scrambling program.
#[derive(Clone, Copy, Debug)]
pub struct Scramble {
    /// Pages of 4 KiB, on all CPUs together.
    pub pages: usize,
    /// Seed of the order in which they are freed.
    pub seed: u64,
}

/// Times of touching memory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TouchReport {
    /// Pages of a pass.
    pub pages: usize,
    /// Each pass.
    pub passes: Vec<Pass>,
    /// Frame numbers of the first pass; empty where not requested.
    #[serde(default)]
    pub frames: Vec<u64>,
}

/// Times of one pass over all pages.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Pass {
    /// Mapping, in nanoseconds; for `single`, included in the touching.
    pub map_ns: u64,
    /// Touching each page once, in nanoseconds.
    pub touch_ns: u64,
    /// Unmapping, in nanoseconds.
    pub unmap_ns: u64,
}

/// Touches memory and times it.
///
/// # Errors
///
/// When memory cannot be mapped, or its frames cannot be read.
pub fn touch(asked: &Touch) -> Result<TouchReport, BenchmarkError> {
    let mut order: Vec<u32> = (0..u32::try_from(asked.pages).unwrap_or(u32::MAX)).collect();
    if asked.pattern == Pattern::Random {
        Random::new(asked.seed).shuffle(&mut order);
    }
    let mut report = TouchReport { pages: asked.pages, passes: Vec::new(), frames: Vec::new() };
    for pass in 0..asked.passes {
        let wanted = asked.frames && pass == 0;
        let (times, frames) = one_pass(asked.pattern, &order, wanted).map_err(BenchmarkError::Memory)?;
        report.passes.push(times);
        if wanted {
            report.frames = frames;
        }
    }
    Ok(report)
}

fn one_pass(pattern: Pattern, order: &[u32], frames: bool) -> io::Result<(Pass, Vec<u64>)> {
    if pattern == Pattern::Single {
        return single_pages(order.len(), frames);
    }
    let mut pass = Pass::default();
    let populate = if pattern == Pattern::Populate { libc::MAP_POPULATE } else { 0 };
    let start = Instant::now();
    let memory = Mapping::new(order.len(), populate)?;
    pass.map_ns = nanoseconds(start);
    let start = Instant::now();
    for &page in order {
        memory.write(page as usize);
    }
    pass.touch_ns = nanoseconds(start);
    let numbers = if frames { frame_numbers(memory.start as usize, order.len())? } else { Vec::new() };
    let start = Instant::now();
    drop(memory);
    pass.unmap_ns = nanoseconds(start);
    Ok((pass, numbers))
}

fn single_pages(pages: usize, frames: bool) -> io::Result<(Pass, Vec<u64>)> {
    let mut pass = Pass::default();
    let mut mappings = Vec::with_capacity(pages);
    let start = Instant::now();
    for _ in 0..pages {
        let memory = Mapping::new(1, 0)?;
        memory.write(0);
        mappings.push(memory);
    }
    pass.touch_ns = nanoseconds(start);
    let mut numbers = Vec::new();
    for memory in mappings.iter().filter(|_| frames) {
        numbers.extend(frame_numbers(memory.start as usize, 1)?);
    }
    let start = Instant::now();
    mappings.clear();
    pass.unmap_ns = nanoseconds(start);
    Ok((pass, numbers))
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Numbers of the frames behind present pages.
fn frame_numbers(start: usize, pages: usize) -> io::Result<Vec<u64>> {
    const FRAME: u64 = (1 << 55) - 1;
    let mut bytes = vec![0; pages * 8];
    File::open("/proc/self/pagemap")?.read_exact_at(&mut bytes, (start / PAGE * 8) as u64)?;
    let entries = bytes.chunks_exact(8).map(|entry| u64::from_ne_bytes(entry.try_into().expect("eight bytes")));
    Ok(entries.map(|entry| entry & FRAME).collect())
}

/// Private anonymous memory, unmapped on drop.
struct Mapping {
    start: *mut u8,
    pages: usize,
}

impl Mapping {
    fn new(pages: usize, flags: i32) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // SAFETY: no address is requested, so no existing mapping is replaced.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Mapping { start: start.cast(), pages })
        }
    }

    /// Writes one word; the compiler may not omit it.
    fn write(&self, page: usize) {
        assert!(page < self.pages);
        // SAFETY: the page is inside the mapping, which is writable and private, and any byte values are valid.
        unsafe { self.start.add(page * PAGE).write_volatile(1) };
    }

    /// Frees the frame of one page.
    fn discard(&self, page: usize) {
        assert!(page < self.pages);
        // SAFETY: the page is inside the mapping, and no reference into its content exists.
        unsafe { libc::madvise(self.start.add(page * PAGE).cast(), PAGE, libc::MADV_DONTNEED) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into it exists.
        unsafe { libc::munmap(self.start.cast(), self.pages * PAGE) };
    }
}

/// Touches memory on each CPU and frees the frames in random order.
///
/// # Errors
///
/// When memory cannot be mapped.
pub fn scramble(asked: &Scramble) -> Result<ScrambleReport, BenchmarkError> {
    let cpus = allowed_cpus();
    let pages = (asked.pages / cpus.len().max(1)).max(1);
    let mut random = Random::new(asked.seed);
    let mut order: Vec<u32> = (0..u32::try_from(pages).unwrap_or(u32::MAX)).collect();
    let mut report = ScrambleReport { pages: 0, touch_ns: 0 };
    let mut memories = Vec::new();
    // All of it is touched before any is freed; otherwise the second CPU gets the frames that the first has scrambled.
    for &cpu in &cpus {
        pin(cpu);
        let memory = Mapping::new(pages, 0).map_err(BenchmarkError::Memory)?;
        // SAFETY: the range is the mapping just made; the advice does not change its content.
        unsafe { libc::madvise(memory.start.cast(), pages * PAGE, libc::MADV_NOHUGEPAGE) };
        let start = Instant::now();
        (0..pages).for_each(|page| memory.write(page));
        report.touch_ns += nanoseconds(start);
        report.pages += pages;
        memories.push(memory);
    }
    for (&cpu, memory) in cpus.iter().zip(&memories) {
        pin(cpu);
        random.shuffle(&mut order);
        order.iter().for_each(|&page| memory.discard(page as usize));
    }
    Ok(report)
}

/// CPUs this process may run on.
fn allowed_cpus() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain data; the call fills it in and receives its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    // SAFETY: every index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

fn pin(cpu: usize) {
    // SAFETY: cpu_set_t is plain data; the index comes from such a set; the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
