//! The measured program of the fault benchmarks, and the one that stirs the kernel's free lists before each run.
//!
//! Both are hidden verbs of the program itself, so that no compiler is needed where the bench runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Ending;
use crate::output::{Failure, done_json};
use memtint_bench::ScrambleReport;
use memtint_units::Random;

const PAGE: usize = 4096;

/// Order in which memory is touched for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pattern {
    /// One mapping, page after page.
    Sequential,
    /// One mapping, each page once, in random order.
    Random,
    /// A fresh mapping for every page.
    Single,
    /// One mapping that the kernel is asked to fill (MAP_POPULATE), then touched page after page.
    Populate,
}

/// Arguments of `memtint bench touch`.
#[derive(Debug, clap::Args)]
pub(super) struct TouchArguments {
    /// Order of the touches.
    #[arg(long, value_enum, default_value_t = Pattern::Sequential)]
    pattern: Pattern,
    /// Pages of 4 KiB.
    #[arg(long, value_name = "N", default_value_t = 16384)]
    pages: usize,
    /// How often memory is mapped, touched and unmapped.
    #[arg(long, value_name = "N", default_value_t = 1)]
    passes: usize,
    /// Seed of the random order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints the frame numbers of the first pass too (needs CAP_SYS_ADMIN).
    #[arg(long)]
    frames: bool,
}

/// What [`touch`] prints.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TouchReport {
    pub(super) pages: usize,
    pub(super) passes: Vec<Pass>,
    /// Frame numbers of the first pass.
    #[serde(default)]
    pub(super) frames: Vec<u64>,
}

/// Times of one pass over all pages.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Pass {
    /// Mapping; for `single` contained in the touching.
    pub(super) map_ns: u64,
    pub(super) touch_ns: u64,
    pub(super) unmap_ns: u64,
}

/// Body of `memtint bench touch`.
pub(super) fn touch(arguments: &TouchArguments) -> Ending {
    if arguments.pages == 0 {
        return Err(Failure::Sentence("bench touch: --pages is 0, accepted is at least 1".to_owned()));
    }
    let mut order: Vec<u32> = (0..u32::try_from(arguments.pages).unwrap_or(u32::MAX)).collect();
    if arguments.pattern == Pattern::Random {
        Random::new(arguments.seed).shuffle(&mut order);
    }
    let mut report = TouchReport { pages: arguments.pages, passes: Vec::new(), frames: Vec::new() };
    for pass in 0..arguments.passes {
        let wanted = arguments.frames && pass == 0;
        let (times, frames) = one_pass(arguments.pattern, &order, wanted).map_err(system)?;
        report.passes.push(times);
        if wanted {
            report.frames = frames;
        }
    }
    done_json(&report)
}

fn system(error: io::Error) -> Failure {
    Failure::Sentence(format!("bench touch: {error}"))
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
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Mapping { start: start.cast(), pages })
        }
    }

    /// Writes one word; the compiler may not leave it out.
    fn write(&self, page: usize) {
        assert!(page < self.pages);
        // SAFETY: the page is inside the mapping, which is writable, private and as good as bytes.
        unsafe { self.start.add(page * PAGE).write_volatile(1) };
    }

    /// Gives the frame of one page back.
    fn discard(&self, page: usize) {
        assert!(page < self.pages);
        // SAFETY: the page is inside the mapping, to whose content nobody holds a reference.
        unsafe { libc::madvise(self.start.add(page * PAGE).cast(), PAGE, libc::MADV_DONTNEED) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it exists.
        unsafe { libc::munmap(self.start.cast(), self.pages * PAGE) };
    }
}

/// Arguments of `memtint bench scramble`.
#[derive(Debug, clap::Args)]
pub(super) struct ScrambleArguments {
    /// Pages of 4 KiB, on all CPUs together.
    #[arg(long, value_name = "N", default_value_t = 65536)]
    pages: usize,
    /// Seed of the order in which they are given back.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Body of `memtint bench scramble`: touches memory on each CPU and gives the frames back in random order.
pub(super) fn scramble(arguments: &ScrambleArguments) -> Ending {
    let cpus = allowed_cpus();
    let pages = (arguments.pages / cpus.len().max(1)).max(1);
    let mut random = Random::new(arguments.seed);
    let mut order: Vec<u32> = (0..u32::try_from(pages).unwrap_or(u32::MAX)).collect();
    let mut report = ScrambleReport { pages: 0, touch_ns: 0 };
    let mut memories = Vec::new();
    // All of it is touched before any is given back: otherwise the second CPU gets what the first has stirred.
    for &cpu in &cpus {
        pin(cpu);
        let memory = Mapping::new(pages, 0).map_err(system)?;
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
    done_json(&report)
}

/// CPUs this process may run on.
fn allowed_cpus() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain data; the call fills it in and its size is said.
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
