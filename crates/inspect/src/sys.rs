//! All contact with the kernel: `/proc`, and the one ioctl.
//!
//! Shared preconditions of the unsafe code here: file descriptors come from live [`File`] values, buffers are owned by
//! the caller for the length of the call, and their length is given to the kernel in the unit it expects.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use memtint_units::PAGE_SIZE;

/// Bytes of one entry of `pagemap`, `kpageflags` and `kpagecount` (Documentation/admin-guide/mm/pagemap.rst).
pub(crate) const ENTRY_BYTES: u64 = 8;

/// A process's directory in `/proc`, held open so that the number cannot refer to another process during the reading.
pub(crate) struct ProcDir {
    dir: File,
    /// The process id it was opened by.
    pub(crate) pid: u32,
}

impl ProcDir {
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        Ok(Self { dir: File::open(format!("/proc/{pid}"))?, pid })
    }

    /// The path of `name` inside the open directory, even if the process id has been reused.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.dir.as_raw_fd()))
    }

    pub(crate) fn read(&self, name: &str) -> io::Result<String> {
        // A mapped file's name or a command's may hold any byte.
        Ok(String::from_utf8_lossy(&std::fs::read(self.path(name))?).into_owned())
    }

    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        File::open(self.path(name))
    }

    /// The thread ids, ascending. Threads that end while reading are simply absent.
    pub(crate) fn threads(&self) -> io::Result<Vec<u32>> {
        let mut tids: Vec<u32> = std::fs::read_dir(self.path("task"))?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        tids.sort_unstable();
        Ok(tids)
    }
}

/// Process ids that exist now, ascending.
pub(crate) fn all_pids() -> io::Result<Vec<u32>> {
    let mut pids: Vec<u32> =
        std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// Reads entries `first..` of a table of 64-bit values into `entries`; returns how many there were.
///
/// Fewer than asked means the end of the table: for `pagemap`, that the address space is gone.
pub(crate) fn read_entries(table: &File, first: u64, entries: &mut [u64]) -> io::Result<usize> {
    let bytes_wanted = entries.len() * ENTRY_BYTES as usize;
    // SAFETY: the slice is `bytes_wanted` bytes of initialised memory that we hold mutably; u8 has no alignment and no
    // invalid values, and any bit pattern the kernel writes is a valid u64. The view ends before `entries` is used.
    let bytes = unsafe { std::slice::from_raw_parts_mut(entries.as_mut_ptr().cast::<u8>(), bytes_wanted) };
    let mut filled = 0;
    while filled < bytes.len() {
        match table.read_at(&mut bytes[filled..], first * ENTRY_BYTES + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled / ENTRY_BYTES as usize)
}

/// A run of pages as `PAGEMAP_SCAN` returns it (`struct page_region`, include/uapi/linux/fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PageRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) categories: u64,
}

/// `struct pm_scan_arg` of include/uapi/linux/fs.h, Linux 6.7.
#[repr(C)]
struct PmScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// `_IOWR('f', 16, struct pm_scan_arg)`
const PAGEMAP_SCAN: libc::Ioctl =
    ((3 << 30) | ((size_of::<PmScanArg>() as u64) << 16) | ((b'f' as u64) << 8) | 16) as libc::Ioctl;

/// Lists the runs of pages in `start..end` that are in memory or in swap, skipping holes at the speed of the page-table walk.
///
/// Appends to `runs`. Returns `Ok(false)` if the kernel does not support the request (before Linux 6.7).
pub(crate) fn scan_populated(pagemap: &File, start: u64, end: u64, runs: &mut Vec<PageRegion>) -> io::Result<bool> {
    let mut buffer = [PageRegion::default(); 512];
    let mut position = start;
    while position < end {
        let mut argument = PmScanArg {
            size: size_of::<PmScanArg>() as u64,
            flags: 0,
            start: position,
            end,
            walk_end: 0,
            vec: buffer.as_mut_ptr() as u64,
            vec_len: buffer.len() as u64,
            max_pages: 0,
            category_inverted: 0,
            category_mask: 0,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        };
        // SAFETY: the descriptor is open for the length of the call; `argument` has the layout and the size it states, and
        // `vec` points to `vec_len` writable regions that outlive the call. Flags 0 asks the kernel to change nothing.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
        if found < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::ENOTTY | libc::EINVAL) if position == start => Ok(false),
                _ => Err(error),
            };
        }
        runs.extend_from_slice(&buffer[..found as usize]);
        if argument.walk_end <= position {
            break;
        }
        position = argument.walk_end;
    }
    Ok(true)
}

/// Returns whether two processes share one address space (`vfork`, `CLONE_VM` without `CLONE_THREAD`).
///
/// `None` if the kernel cannot decide (built without `kcmp`, or one of the two has ended).
pub(crate) fn same_address_space(a: u32, b: u32) -> Option<bool> {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: kcmp takes five integers, of which KCMP_VM ignores the last two; it touches no memory of ours.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, a as libc::pid_t, b as libc::pid_t, KCMP_VM, 0usize, 0usize) };
    match order {
        0 => Some(true),
        1..=3 => Some(false),
        _ => None,
    }
}

/// Number of pages that one read of `pagemap` covers: 256 KiB of entries, 128 MiB of addresses.
pub(crate) const CHUNK_PAGES: u64 = 32 * 1024;

/// Page number of an address.
pub(crate) fn page_of(address: u64) -> u64 {
    address / PAGE_SIZE
}
