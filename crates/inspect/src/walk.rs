//! From a process to its pages: those in memory, their segments, their frames.

use std::fs::File;
use std::io;

use memtint_units::PAGE_SIZE;

use crate::error::InspectError;
use crate::maps::{self, Landmarks, Segment};
use crate::sys::{self, CHUNK_PAGES, PageRegion, ProcDir};

/// `MAX_SWAPFILES` of include/linux/swap.h with every special type configured; types from here on are no swap files.
const SWAP_FILES_MAX: u64 = 23;

/// One entry of `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageEntry(pub(crate) u64);

impl PageEntry {
    pub(crate) fn present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }
    /// In a swap file. The kernel sets the same bit for pages in migration, for guard regions and for userfaultfd marks of missing pages;
    /// those have a type that no swap file has.
    pub(crate) fn swapped(self) -> bool {
        self.0 >> 62 & 1 == 1 && self.0 & 0x1f < SWAP_FILES_MAX
    }
    /// Backs a file or shared memory: not private.
    pub(crate) fn file_or_shared(self) -> bool {
        self.0 >> 61 & 1 == 1
    }
    /// Frame number; valid only when [`PageEntry::present`].
    pub(crate) fn pfn(self) -> u64 {
        self.0 & ((1 << 55) - 1)
    }
}

/// A page that is in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) address: u64,
    pub(crate) entry: PageEntry,
    /// Index into [`AddressSpace::segments`].
    pub(crate) segment: u32,
}

/// The pages of one address space.
pub(crate) struct AddressSpace {
    pub(crate) segments: Vec<Segment>,
    /// Pages in memory, by ascending address.
    pub(crate) pages: Vec<Page>,
    /// Pages in swap, for each segment.
    pub(crate) swapped: Vec<u64>,
    /// Kept open: the second reading of a page that changed meanwhile must use the same address space.
    pub(crate) pagemap: File,
}

/// User addresses end here (five-level page tables); above it is only the vsyscall page, which has no pagemap.
pub(crate) const USER_END: u64 = 1 << 56;
/// A replaced address space (exec) is read anew this often before the inspection gives up.
const ATTEMPTS: usize = 5;

/// Reads all pages of a process.
///
/// Pages that come or go meanwhile may or may not be included. A process that replaces its address space (`exec`) is read anew.
pub(crate) fn read_address_space(process: &ProcDir) -> Result<AddressSpace, InspectError> {
    for _ in 0..ATTEMPTS {
        if let Some(space) = try_read(process)? {
            return Ok(space);
        }
        ensure_alive(process)?;
    }
    Err(InspectError::NoProcess { pid: process.pid, what: "replaced its program again and again while it was read" })
}

/// Converts the system's error about a process's file into the state of the process.
pub(crate) fn process_error(process: &ProcDir, file: &str, cause: io::Error) -> InspectError {
    match cause.raw_os_error() {
        // The kernel gives the same errors for a kernel thread's memory.
        Some(libc::ESRCH | libc::ENOENT) => {
            let what = if is_running(process) { NO_MEMORY } else { "ended while it was read" };
            InspectError::NoProcess { pid: process.pid, what }
        }
        Some(libc::EACCES | libc::EPERM) => {
            InspectError::Forbidden { pid: process.pid, path: format!("/proc/{}/{file}", process.pid), cause }
        }
        _ => InspectError::Read { path: format!("/proc/{}/{file}", process.pid), cause },
    }
}

const NO_MEMORY: &str = "has no user memory (a kernel thread, or just ending)";

/// Refuses processes that have ended and only wait to be reaped.
pub(crate) fn ensure_alive(process: &ProcDir) -> Result<(), InspectError> {
    if is_running(process) { Ok(()) } else { Err(InspectError::NoProcess { pid: process.pid, what: "has ended" }) }
}

fn is_running(process: &ProcDir) -> bool {
    let stat = process.read("stat").unwrap_or_default();
    !matches!(stat_fields(&stat).first(), None | Some(&"Z" | &"X" | &"x"))
}

/// `None`: the address space was replaced meanwhile.
fn try_read(process: &ProcDir) -> Result<Option<AddressSpace>, InspectError> {
    let fail = |file: &'static str| move |cause| process_error(process, file, cause);
    let pagemap = process.open_file("pagemap").map_err(fail("pagemap"))?;
    let text = process.read("maps").map_err(fail("maps"))?;
    let segments = maps::parse(&text, &read_landmarks(process));
    if segments.is_empty() {
        ensure_alive(process)?;
        return Err(InspectError::NoProcess { pid: process.pid, what: NO_MEMORY });
    }
    let mut space = AddressSpace { swapped: vec![0; segments.len()], pages: Vec::new(), segments, pagemap };
    let complete = read_pages(&mut space, process).map_err(fail("pagemap"))?;
    Ok(complete.then_some(space))
}

fn read_pages(space: &mut AddressSpace, process: &ProcDir) -> io::Result<bool> {
    let populated = Populated::find(space, process)?;
    let mut buffer = vec![0; CHUNK_PAGES as usize];
    for (index, run) in populated.runs {
        let (mut page, end) = (sys::page_of(run.start), sys::page_of(run.end));
        while page < end {
            let wanted = (end - page).min(CHUNK_PAGES) as usize;
            if sys::read_entries(&space.pagemap, page, &mut buffer[..wanted])? < wanted {
                return Ok(false);
            }
            for (offset, entry) in buffer[..wanted].iter().map(|&entry| PageEntry(entry)).enumerate() {
                if entry.present() {
                    let address = (page + offset as u64) * PAGE_SIZE;
                    space.pages.push(Page { address, entry, segment: index });
                } else if entry.swapped() {
                    space.swapped[index as usize] += 1;
                }
            }
            page += wanted as u64;
        }
    }
    Ok(true)
}

/// The parts of each segment that are worth reading.
struct Populated {
    runs: Vec<(u32, PageRegion)>,
}

impl Populated {
    /// Reserved address space can be terabytes without a page in it (Go, Java, sanitizers). Linux 6.7 and newer list the populated ranges;
    /// before that, `smaps` shows which segments are empty.
    fn find(space: &AddressSpace, process: &ProcDir) -> io::Result<Self> {
        let mut runs = Vec::new();
        let mut found = Vec::new();
        for (index, segment) in user_segments(&space.segments) {
            found.clear();
            if !sys::scan_populated(&space.pagemap, segment.start, segment.end, &mut found)? {
                return Self::from_smaps(space, process);
            }
            runs.extend(found.iter().map(|&run| (index, run)));
        }
        Ok(Self { runs })
    }

    fn from_smaps(space: &AddressSpace, process: &ProcDir) -> io::Result<Self> {
        let empty = empty_segments(&process.read("smaps")?);
        let runs = user_segments(&space.segments)
            .filter(|(_, segment)| empty.binary_search(&(segment.start, segment.end)).is_err())
            .map(|(index, segment)| (index, PageRegion { start: segment.start, end: segment.end, categories: 0 }))
            .collect();
        Ok(Self { runs })
    }
}

fn user_segments(segments: &[Segment]) -> impl Iterator<Item = (u32, &Segment)> {
    (0u32..).zip(segments).filter(|(_, segment)| segment.end <= USER_END)
}

/// Address ranges, ascending, without memory or swap according to `smaps`.
fn empty_segments(smaps: &str) -> Vec<(u64, u64)> {
    let mut empty = Vec::new();
    let (mut range, mut used_kib) = (None, 0u64);
    let mut close = |range: Option<(u64, u64)>, used_kib: u64| empty.extend(range.filter(|_| used_kib == 0));
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-').and_then(parse_range) {
            close(range.replace((start, end)), used_kib);
            used_kib = 0;
        } else if matches!(first, "Rss:" | "Swap:" | "Shared_Hugetlb:" | "Private_Hugetlb:") {
            used_kib += line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or(1);
        }
    }
    close(range, used_kib);
    empty
}

fn parse_range((start, end): (&str, &str)) -> Option<(u64, u64)> {
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

/// The fields of `/proc/PID/stat` after the command, which may contain blanks and brackets: the first is the state.
pub(crate) fn stat_fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default()
}

/// Best effort: on failure, thread stacks count as anonymous memory.
fn read_landmarks(process: &ProcDir) -> Landmarks {
    let threads = process.threads().unwrap_or_default();
    Landmarks {
        thread_stack_pointers: threads
            .iter()
            .filter(|&&tid| tid != process.pid)
            .filter_map(|&tid| stack_pointer(process, tid))
            .collect(),
        threads: threads.len(),
    }
}

/// `/proc/PID/task/TID/syscall` ends in stack pointer and program counter, unless the thread is running at the moment.
fn stack_pointer(process: &ProcDir, tid: u32) -> Option<u64> {
    let text = process.read(&format!("task/{tid}/syscall")).ok()?;
    let mut fields = text.split_whitespace().rev();
    let _program_counter = fields.next()?;
    u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_names_the_segments_with_nothing_in_them() {
        let smaps = "\
1000-2000 rw-p 00000000 00:00 0 \nSize: 4 kB\nRss:                   4 kB\nSwap:                  0 kB\n\
3000-4000 ---p 00000000 00:00 0 \nRss:                   0 kB\nSwap:                  0 kB\n\
5000-6000 rw-p 00000000 00:00 0 \nRss:                   0 kB\nSwap:                  8 kB\n\
7000-8000 rw-p 00000000 00:00 0 \nRss:                   0 kB\nVmFlags: rd wr\n";
        assert_eq!(empty_segments(smaps), [(0x3000, 0x4000), (0x7000, 0x8000)]);
    }

    #[test]
    fn only_swap_files_hold_swapped_pages() {
        let swap = |kind: u64| PageEntry(1 << 62 | 0x1234 << 5 | kind);
        assert!(swap(0).swapped() && swap(22).swapped());
        assert!(!swap(31).swapped() && !swap(27).swapped() && !PageEntry(1 << 63 | 7).swapped());
    }

    #[test]
    fn stat_survives_hostile_command_names() {
        assert_eq!(stat_fields("12 (a) Z 9 (b) c) S 1 2")[0], "S");
        assert!(stat_fields("").is_empty());
    }
}
