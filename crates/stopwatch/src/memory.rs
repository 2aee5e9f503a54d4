//! Memory of this process, in the largest available pages.

use std::fs::{read_dir, read_to_string};
use std::io;
use std::marker::PhantomData;

use crate::access;
use crate::error::StopwatchError;
use crate::nodes::bind;

/// Reserved huge pages are used only if they cover at least one in this many of the requested bytes.
const SHARE_LEAST: u64 = 4;
/// `MAP_HUGE_SHIFT` of include/uapi/linux/mman.h: where a mapping's flags hold the logarithm of its page size.
const HUGE_SHIFT: u32 = 26;

/// Memory that is written once, then only read, and unmapped on drop.
pub(crate) struct TimedMemory {
    mapped: *mut u8,
    mapped_bytes: usize,
    /// Offset in `mapped` of the first byte used.
    skipped: usize,
    bytes: usize,
    /// All of it consists of pages of this size, from the first byte on.
    page_bytes: u64,
    locked: bool,
}

/// A byte of a [`TimedMemory`], which stands for its cache line.
#[derive(Clone, Copy)]
pub(crate) struct Line<'m> {
    at: *const u8,
    of: PhantomData<&'m TimedMemory>,
}

// SAFETY: nothing writes to the memory while a line of it exists, because writing takes a mutable reference; any thread
// may read it.
unsafe impl Send for Line<'_> {}
// SAFETY: the same.
unsafe impl Sync for Line<'_> {}

impl Line<'_> {
    /// Times a read.
    pub(crate) fn read(self) -> u32 {
        // SAFETY: `TimedMemory::line` made it from a byte of memory that stays mapped while this lives.
        unsafe { access::read(self.at) }
    }

    /// Reads the line without waiting.
    pub(crate) fn touch(self) {
        // SAFETY: as above.
        unsafe { self.at.read_volatile() };
    }

    /// Flushes the line from all caches.
    pub(crate) fn flush(self) {
        // SAFETY: as above.
        unsafe { access::flush(self.at) }
    }
}

/// Size of the smallest pages, in bytes.
pub(crate) fn base_page_bytes() -> u64 {
    // SAFETY: takes a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).expect("every system has pages")
}

impl TimedMemory {
    /// Allocates `wanted` bytes, rounded down to whole pages: reserved huge pages, largest first, else transparent huge
    /// pages, else base pages.
    pub(crate) fn take(wanted: u64) -> Result<TimedMemory, StopwatchError> {
        for (page_bytes, free) in set_aside() {
            let bytes = wanted.min(page_bytes * free) / page_bytes * page_bytes;
            // Another program may take them first.
            if bytes > 0
                && bytes >= wanted / SHARE_LEAST
                && let Ok(memory) = TimedMemory::of_set_aside(bytes, page_bytes)
            {
                return Ok(memory);
            }
        }
        TimedMemory::of_any(wanted).map_err(|source| StopwatchError::Memory { bytes: wanted, source })
    }

    fn of_set_aside(bytes: u64, page_bytes: u64) -> io::Result<TimedMemory> {
        let kind = libc::MAP_HUGETLB | (page_bytes.trailing_zeros() as libc::c_int) << HUGE_SHIFT;
        let mut memory = TimedMemory::map(bytes as usize, 0, kind)?;
        memory.page_bytes = page_bytes;
        memory.fill()?;
        Ok(memory)
    }

    fn of_any(wanted: u64) -> io::Result<TimedMemory> {
        // For more than the free memory, the kernel would take memory from other programs, or kill them.
        let free = free_bytes()?;
        if wanted > free {
            return Err(io::Error::other(format!("{free} bytes are free")));
        }
        let transparent = transparent_page_bytes();
        let whole = if wanted >= transparent { transparent } else { base_page_bytes() };
        let mut memory = TimedMemory::map((wanted / whole * whole) as usize, transparent as usize, 0)?;
        // Fails on a kernel without transparent huge pages, or configured to provide none; checked below.
        let _ = memory.advise(libc::MADV_HUGEPAGE);
        memory.fill()?;
        if memory.is_transparent_huge() {
            memory.page_bytes = transparent;
        } else {
            // Keeps the kernel from collapsing them into huge pages during the measurement, which would move them.
            let _ = memory.advise(libc::MADV_NOHUGEPAGE);
        }
        Ok(memory)
    }

    /// Allocates memory, of one node if `node` is given, in pages of the kernel's choice.
    pub(crate) fn of_node(bytes: u64, node: Option<u32>) -> io::Result<TimedMemory> {
        let mut memory = TimedMemory::map(bytes as usize, 0, 0)?;
        if let Some(node) = node {
            bind(memory.start(), memory.bytes, node)?;
        }
        memory.fill()?;
        Ok(memory)
    }

    /// Maps memory and aligns the first byte used.
    fn map(bytes: usize, align: usize, kind: libc::c_int) -> io::Result<TimedMemory> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | kind);
        let mapped_bytes = bytes + align;
        // SAFETY: requests a new anonymous mapping at any address.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let skipped = if align == 0 { 0 } else { (mapped as usize).next_multiple_of(align) - mapped as usize };
        Ok(TimedMemory {
            mapped: mapped.cast(),
            mapped_bytes,
            skipped,
            bytes,
            page_bytes: base_page_bytes(),
            locked: false,
        })
    }

    fn start(&self) -> *mut u8 {
        self.mapped.wrapping_add(self.skipped)
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the memory is ours; none of the advice used here changes its content.
        let result = unsafe { libc::madvise(self.start().cast(), self.bytes, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Populates every page and locks it in memory.
    fn fill(&mut self) -> io::Result<()> {
        match self.advise(libc::MADV_POPULATE_WRITE) {
            // Before Linux 5.14.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.touch(),
            filled => filled?,
        }
        // SAFETY: the memory is ours; locking does not change its content.
        self.locked = unsafe { libc::mlock(self.start().cast(), self.bytes) } == 0;
        Ok(())
    }

    fn touch(&mut self) {
        for offset in (0..self.bytes).step_by(base_page_bytes() as usize) {
            // SAFETY: within memory that is ours, writable, and not borrowed elsewhere.
            unsafe { self.start().add(offset).write_volatile(1) };
        }
    }

    /// Returns whether all of it is in transparent huge pages, according to the kernel.
    fn is_transparent_huge(&self) -> bool {
        let smaps = read_to_string("/proc/self/smaps").unwrap_or_default();
        let range = format!("{:x}-{:x} ", self.start() as usize, self.start() as usize + self.bytes);
        let huge = smaps
            .lines()
            .skip_while(|line| !line.starts_with(&range))
            .find_map(|line| line.strip_prefix("AnonHugePages:")?.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        huge.is_some_and(|kib| kib << 10 == self.bytes)
    }

    /// Virtual address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.start() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Size of the pages that all of it consists of.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Returns whether the kernel keeps it from being swapped out.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// A byte of it; `None` beyond its end.
    pub(crate) fn line(&self, offset: u64) -> Option<Line<'_>> {
        (offset < self.bytes()).then(|| Line { at: self.start().wrapping_add(offset as usize), of: PhantomData })
    }
}

impl Drop for TimedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and lines of it do not outlive this.
        unsafe { libc::munmap(self.mapped.cast(), self.mapped_bytes) };
    }
}

/// Bytes that can be allocated without taking memory from another program.
pub(crate) fn free_bytes() -> io::Result<u64> {
    let text = read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let kib: Option<u64> = line.and_then(|kib| kib.parse().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| io::Error::other("/proc/meminfo has no line MemAvailable in kB"))
}

/// Sizes of reserved huge pages with the number of free ones, largest first.
fn set_aside() -> Vec<(u64, u64)> {
    let folder = read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let mut found: Vec<(u64, u64)> = folder
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let free: u64 = read_to_string(entry.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
            (free > 0).then_some((kib << 10, free))
        })
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// Size of transparent huge pages, or of base pages where there are none.
fn transparent_page_bytes() -> u64 {
    let size = read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").unwrap_or_default();
    size.trim().parse().unwrap_or_else(|_| base_page_bytes())
}

#[cfg(test)]
impl TimedMemory {
    /// Gives a page's frame back to the kernel.
    pub(crate) fn lose(&mut self, offset: u64) {
        let at = self.start().wrapping_add(offset as usize).cast();
        let bytes = self.page_bytes as usize;
        // SAFETY: the memory is ours; its content is not used.
        let lost = unsafe { libc::munlock(at, bytes) == 0 && libc::madvise(at, bytes, libc::MADV_DONTNEED) == 0 };
        assert!(lost, "{}", io::Error::last_os_error());
    }
}
