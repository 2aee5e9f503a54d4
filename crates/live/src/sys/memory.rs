//! Memory of this process: nodes, fresh pages, and its page map.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::sync::mpsc::{self, SendError};
use std::time::Duration;

use super::{affinity, check, ioctl, pin_to_cpu, set_affinity};
use crate::wire::{self, Nodes};

/// NUMA nodes that this process may take memory from: those left by its cpuset and a binding policy.
pub(crate) fn allowed_nodes() -> Nodes {
    const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 1 << 2;
    let (mode, bound) = memory_policy(0);
    if mode == MPOL_BIND { bound } else { memory_policy(MPOL_F_MEMS_ALLOWED).1 }
}

const MPOL_DEFAULT: i32 = 0;
const MPOL_BIND: i32 = 2;
/// Linux 5.15.
const MPOL_PREFERRED_MANY: i32 = 5;

fn memory_policy(flags: libc::c_ulong) -> (i32, Nodes) {
    let (mut mode, mut nodes) = (MPOL_DEFAULT, Nodes::default());
    let no_address = 0;
    // SAFETY: both structures are valid for the call, and the mask has the given number of bits. A kernel without NUMA
    // refuses, and leaves them unchanged.
    unsafe {
        let bits = 8 * size_of::<Nodes>();
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, nodes.as_mut_ptr(), bits, no_address, flags)
    };
    (mode, nodes)
}

fn set_memory_policy(mode: i32, nodes: &Nodes) {
    // The kernel takes the number of bits plus one.
    let bits = 8 * size_of::<Nodes>() + 1;
    // SAFETY: the mask is valid for the call and has the given number of bits. If the kernel refuses, frames come from
    // other nodes too, and turn out to be of the wrong color.
    unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, nodes.as_ptr(), bits) };
}

/// Takes this process's memory from one NUMA node only, as long as it has any that could be freed.
pub(crate) fn take_memory_only_from(node: u32) {
    set_memory_policy(MPOL_BIND, &wire::one_node(node));
}

/// Lets the kernel take this process's memory from these NUMA nodes while they have any, unless it has an explicit
/// policy. Any policy at all also keeps the kernel from moving pages to the node that uses them most.
pub(crate) fn take_memory_first_from(nodes: &Nodes) {
    if memory_policy(0).0 == MPOL_DEFAULT {
        set_memory_policy(MPOL_PREFERRED_MANY, nodes);
    }
}

/// Maps `length` bytes of new memory, all present, without huge pages.
pub(crate) fn fresh_pages(length: u64) -> io::Result<u64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length as usize, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: advice about the mapping just made.
    let populated = unsafe {
        libc::madvise(start, length as usize, libc::MADV_NOHUGEPAGE);
        libc::madvise(start, length as usize, libc::MADV_POPULATE_WRITE)
    };
    if populated < 0 {
        let error = io::Error::last_os_error();
        unmap(start as u64, length);
        return Err(error);
    }
    Ok(start as u64)
}

/// The same with the pages that `cpu` can serve; `None` if it has none, or does not let this process run within
/// `timeout`.
pub(crate) fn fresh_pages_on(cpu: u32, length: u64, timeout: Duration) -> Option<u64> {
    let everywhere = affinity(0);
    let (names, name) = mpsc::channel();
    let (maps, mapped) = mpsc::channel();
    let looks = move || {
        // SAFETY: takes nothing.
        let thread = unsafe { libc::gettid() };
        let _ = names.send(thread);
        pin_to_cpu(thread, cpu.into());
        // The receiver has given up: these pages are not needed.
        if let Err(SendError(Some(start))) = maps.send(fresh_pages(length).ok()) {
            unmap(start, length);
        }
    };
    std::thread::Builder::new().spawn(looks).ok()?;
    let thread = name.recv().ok()?;
    mapped.recv_timeout(timeout).unwrap_or_else(|_| {
        // Let the thread end on any CPU.
        set_affinity(thread, &everywhere);
        None
    })
}

/// Maps an aligned block of 2 MiB of new memory, in one piece if the kernel has one, and splits it into pages: each can
/// be released separately from then on.
pub(crate) fn fresh_block() -> io::Result<u64> {
    const BLOCK: u64 = 2 << 20;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * BLOCK as usize, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let (start, block) = (start as u64, (start as u64).next_multiple_of(BLOCK));
    if start < block {
        unmap(start, block - start);
    }
    if block < start + BLOCK {
        unmap(block + BLOCK, start + BLOCK - block);
    }
    // SAFETY: advice about the mapping just made.
    let advise = |advice| unsafe { libc::madvise(block as *mut libc::c_void, BLOCK as usize, advice) };
    advise(libc::MADV_HUGEPAGE);
    let populated = advise(libc::MADV_POPULATE_WRITE);
    // The rest of it must not become huge again.
    advise(libc::MADV_NOHUGEPAGE);
    if populated < 0 {
        let error = io::Error::last_os_error();
        unmap(block, BLOCK);
        return Err(error);
    }
    for page in (block..block + BLOCK).step_by(4096) {
        // The kernel would not keep pages of zeroes when it splits.
        // SAFETY: inside the mapping just made, which nothing else uses.
        unsafe { (page as *mut u64).write_volatile(1) };
    }
    // Advice about a part of a huge page splits it; a short-lived reference may prevent that.
    for _ in 0..3 {
        // SAFETY: as above.
        unsafe { libc::madvise(block as *mut libc::c_void, 4096, libc::MADV_COLD) };
    }
    Ok(block)
}

/// Unmaps memory that came from [`fresh_pages`].
fn unmap(start: u64, length: u64) {
    // SAFETY: the caller owns the range, and keeps no reference into it.
    unsafe { libc::munmap(start as *mut libc::c_void, length as usize) };
}

/// Returns the frames of memory from [`fresh_pages`] to the kernel, on this CPU. The addresses stay mapped, because
/// unmapping single pages would split the mapping beyond the number the kernel allows.
pub(crate) fn give_up(start: u64, length: u64) {
    // SAFETY: the caller owns the range, and keeps no reference into it.
    unsafe { libc::madvise(start as *mut libc::c_void, length as usize, libc::MADV_DONTNEED) };
}

/// Leaves the memory in place until the kernel needs it: it reclaims these pages before any others, and discards their contents.
pub(crate) fn lend(start: u64, length: u64) {
    // SAFETY: the caller owns the range, and keeps no reference into it.
    unsafe { libc::madvise(start as *mut libc::c_void, length as usize, libc::MADV_FREE) };
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ScanRegion {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    returned: u64,
}

/// Ranges of present private pages (no file, not the shared zero page) between two addresses of a page map's address
/// space, however much of it is empty. Linux 6.7.
pub(crate) fn scan_private(page_map: &std::fs::File, start: u64, end: u64) -> io::Result<Vec<(u64, u64)>> {
    const PAGEMAP_SCAN: u64 = 0xc060_6610;
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const ZERO: u64 = 1 << 5;
    let mut found = Vec::new();
    let mut regions = vec![ScanRegion::default(); 1024];
    let mut from = start;
    while from < end {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start: from,
            end,
            regions: regions.as_mut_ptr() as u64,
            regions_length: regions.len() as u64,
            inverted: FILE | ZERO,
            mask: FILE | PRESENT | ZERO,
            returned: PRESENT,
            ..ScanArgument::default()
        };
        let count = ioctl(page_map.as_raw_fd(), PAGEMAP_SCAN, (&raw mut argument).cast())?;
        found.extend(regions[..count as usize].iter().map(|region| (region.start, region.end)));
        if argument.walk_end <= from {
            break;
        }
        from = argument.walk_end;
    }
    Ok(found)
}

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// Opens a userfaultfd as helpers do, by the device or by the system call, and requests `UFFDIO_MOVE`.
pub(crate) fn try_userfaultfd() -> io::Result<()> {
    const USERFAULTFD_IOC_NEW: libc::c_ulong = 0xaa00;
    const UFFDIO_API: u64 = 0xc018_aa3f;
    const UFFD_FEATURE_MOVE: u64 = 1 << 16;
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/userfaultfd");
    let opened = match &device {
        // SAFETY: takes numbers.
        Ok(device) => unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW, flags) }.into(),
        // SAFETY: takes numbers.
        Err(_) => unsafe { libc::syscall(libc::SYS_userfaultfd, flags) },
    };
    // SAFETY: a new descriptor that nothing else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(check(opened)? as i32) };
    let mut api = UffdioApi { api: 0xaa, features: UFFD_FEATURE_MOVE, ioctls: 0 };
    ioctl(fd.as_raw_fd(), UFFDIO_API, (&raw mut api).cast()).map(drop)
}
