//! `/proc/kpageflags` and `/proc/kpagecount`: the kernel's data about page frames.

use std::fs::File;
use std::io;

use crate::error::InspectError;
use crate::sys;
use crate::walk::PageEntry;

/// Flags of one page frame (include/uapi/linux/kernel-page-flags.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameFlags(pub(crate) u64);

impl FrameFlags {
    /// Backs anonymous memory, KSM included.
    pub(crate) fn anonymous(self) -> bool {
        self.bit(12)
    }
    pub(crate) fn hugetlb(self) -> bool {
        self.bit(17)
    }
    pub(crate) fn ksm(self) -> bool {
        self.bit(21)
    }
    /// Part of a large folio; the kernel flags all of them THP here.
    pub(crate) fn thp(self) -> bool {
        self.bit(22)
    }
    /// The page of zeroes that all programs share, small or huge.
    pub(crate) fn zero_page(self) -> bool {
        self.bit(24)
    }

    /// The same without [`FrameFlags::ksm`].
    pub(crate) fn without_ksm(self) -> Self {
        Self(self.0 & !(1 << 21))
    }

    fn bit(self, number: u32) -> bool {
        self.0 >> number & 1 == 1
    }
}

/// The two tables of frames, held open.
pub(crate) struct FrameTables {
    flags: File,
    counts: File,
    /// The kernel flags every anonymous frame as merged, as Linux 6.12 does.
    pub(crate) ksm_is_meaningless: bool,
}

/// Frames closer together than this are read with one call: an entry costs tens of nanoseconds, a call some hundreds.
const GAP_FRAMES_MAX: u64 = 64;
/// Longest run read with one call: bounds the buffer at 512 KiB.
const RUN_FRAMES_MAX: u64 = 64 * 1024;

impl FrameTables {
    pub(crate) fn open() -> Result<Self, InspectError> {
        let open = |path: &str| {
            File::open(path).map_err(|cause| match cause.kind() {
                io::ErrorKind::PermissionDenied => InspectError::NotPrivileged { what: path.to_owned() },
                _ => InspectError::Read { path: path.to_owned(), cause },
            })
        };
        let (flags, counts) = (open("/proc/kpageflags")?, open("/proc/kpagecount")?);
        let mut tables = Self { flags, counts, ksm_is_meaningless: false };
        tables.ksm_is_meaningless = tables.flags_of_own_page()?.ksm();
        Ok(tables)
    }

    /// Flags of a page of this process that has just been written: too recently to be merged.
    fn flags_of_own_page(&self) -> Result<FrameFlags, InspectError> {
        let path = "/proc/self/pagemap";
        let fail = |cause| InspectError::Read { path: path.to_owned(), cause };
        let written = std::hint::black_box(Box::new(1u8));
        let mut entry = [0];
        let page = sys::page_of(std::ptr::from_ref(&*written) as u64);
        sys::read_entries(&File::open(path).map_err(fail)?, page, &mut entry).map_err(fail)?;
        Ok(self.flags(&[PageEntry(entry[0]).pfn()])?[0])
    }

    /// Flags of each frame in `pfns`, which must ascend; frames beyond the end of memory have none set.
    pub(crate) fn flags(&self, pfns: &[u64]) -> Result<Vec<FrameFlags>, InspectError> {
        let values = lookup(&self.flags, pfns)
            .map_err(|cause| InspectError::Read { path: "/proc/kpageflags".to_owned(), cause })?;
        Ok(values.into_iter().map(FrameFlags).collect())
    }

    /// How often each frame in `pfns`, which must ascend, is mapped by page tables.
    pub(crate) fn counts(&self, pfns: &[u64]) -> Result<Vec<u64>, InspectError> {
        lookup(&self.counts, pfns).map_err(|cause| InspectError::Read { path: "/proc/kpagecount".to_owned(), cause })
    }
}

/// Reads the entries at the ascending `indices`, near ones together.
fn lookup(table: &File, indices: &[u64]) -> io::Result<Vec<u64>> {
    debug_assert!(indices.is_sorted());
    let mut values = Vec::with_capacity(indices.len());
    let mut buffer = Vec::new();
    let mut rest = indices;
    while let Some(&first) = rest.first() {
        let taken = run_length(rest);
        let last = rest[taken - 1];
        buffer.clear();
        buffer.resize((last - first + 1) as usize, 0);
        // Missing entries at the end stay zero: no such frame.
        sys::read_entries(table, first, &mut buffer)?;
        values.extend(rest[..taken].iter().map(|index| buffer[(index - first) as usize]));
        rest = &rest[taken..];
    }
    Ok(values)
}

/// Number of the ascending `indices` that one read covers.
fn run_length(indices: &[u64]) -> usize {
    let first = indices[0];
    let more =
        indices.windows(2).take_while(|pair| pair[1] - pair[0] <= GAP_FRAMES_MAX && pair[1] - first < RUN_FRAMES_MAX);
    1 + more.count()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lookup_returns_each_entry_whatever_the_gaps() {
        let mut path = std::env::temp_dir();
        path.push(format!("memtint-lookup-{}", std::process::id()));
        let entries: Vec<u8> = (0..200_000u64).flat_map(|i| (i * 3).to_ne_bytes()).collect();
        File::create(&path).and_then(|mut file| file.write_all(&entries)).expect("the temporary directory is writable");
        let table = File::open(&path).expect("just written");
        std::fs::remove_file(&path).expect("just written");
        let indices: Vec<u64> = vec![0, 0, 1, 5, 64, 65, 200, 70_000, 140_000, 199_999, 1 << 40];
        let values = lookup(&table, &indices).expect("a plain file can be read");
        let expected: Vec<u64> = indices.iter().map(|&i| if i < 200_000 { i * 3 } else { 0 }).collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn runs_end_at_wide_gaps_and_at_the_limit() {
        assert_eq!(run_length(&[7]), 1);
        assert_eq!(run_length(&[0, GAP_FRAMES_MAX, 2 * GAP_FRAMES_MAX + 1]), 2);
        let dense: Vec<u64> = (0..RUN_FRAMES_MAX + 10).collect();
        assert_eq!(run_length(&dense) as u64, RUN_FRAMES_MAX);
    }
}
