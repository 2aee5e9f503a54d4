//! `/proc/self/pagemap`: the page frames of our memory (Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

const ENTRY_BYTES: usize = 8;
/// Entries of one read: half a MiB.
const READ_MAX: usize = 1 << 16;

/// The frame of each page, `None` for a page that is not in memory. The whole result is `None` where the kernel hides
/// frames.
pub(crate) fn frames(first_page: u64, pages: usize) -> io::Result<Option<Vec<Option<u64>>>> {
    let pagemap = match File::open("/proc/self/pagemap") {
        // Linux 4.0 and 4.1 hide the file from users; later kernels, and containers, hide the frames.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        opened => opened?,
    };
    let mut found = Vec::with_capacity(pages);
    let mut bytes = Vec::new();
    while found.len() < pages {
        bytes.resize(READ_MAX.min(pages - found.len()) * ENTRY_BYTES, 0);
        pagemap.read_exact_at(&mut bytes, (first_page + found.len() as u64) * ENTRY_BYTES as u64)?;
        let entries = bytes.chunks_exact(ENTRY_BYTES).map(|entry| entry.try_into().expect("eight bytes"));
        found.extend(entries.map(|entry| frame(u64::from_ne_bytes(entry))));
    }
    // Hidden frames read as 0, a frame that no program ever has.
    let hidden = found.iter().flatten().all(|&frame| frame == 0) && found.iter().any(Option::is_some);
    Ok((!hidden).then_some(found))
}

/// Bit 63: in memory; bits 0 to 54: its frame.
fn frame(entry: u64) -> Option<u64> {
    (entry >> 63 == 1).then_some(entry & ((1 << 55) - 1))
}
