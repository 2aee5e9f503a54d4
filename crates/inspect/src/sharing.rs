//! Finds other processes that map the same frames.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::File;
use std::io;

use crate::error::InspectError;
use crate::maps::{self, Landmarks, SegmentKind};
use crate::report::SharedWith;
use crate::sys::{self, CHUNK_PAGES, ProcDir};
use crate::walk::PageEntry;

/// The result of [`find`].
pub(crate) struct Found {
    /// Most pages first.
    pub(crate) with: Vec<SharedWith>,
    /// Number of frames for which another process was found.
    pub(crate) explained_frames: u64,
}

/// Searches all other address spaces for the frames in `wanted`, which `others` further page-table entries map.
///
/// A fork leaves pages at their addresses, so each process is first searched in `ranges` only; all private memory is
/// read only while mappings remain unexplained. Processes that end meanwhile are skipped.
pub(crate) fn find(
    process: &ProcDir,
    wanted: &HashSet<u64>,
    others: u64,
    mut ranges: Vec<(u64, u64)>,
) -> Result<Found, InspectError> {
    ranges.sort_unstable();
    let candidates =
        other_address_spaces(process.pid).map_err(|cause| InspectError::Read { path: "/proc".to_owned(), cause })?;
    let mut hits: Vec<HashSet<u64>> = Vec::with_capacity(candidates.len());
    for candidate in &candidates {
        hits.push(frames_in(candidate, wanted, Some(&ranges)).unwrap_or_default());
    }
    if hits.iter().map(|frames| frames.len() as u64).sum::<u64>() < others {
        for (candidate, hits) in candidates.iter().zip(&mut hits) {
            hits.extend(frames_in(candidate, wanted, None).unwrap_or_default());
        }
    }
    Ok(summarize(&candidates, &hits))
}

fn summarize(candidates: &[ProcDir], hits: &[HashSet<u64>]) -> Found {
    let explained: HashSet<u64> = hits.iter().flatten().copied().collect();
    let mut with: Vec<SharedWith> = candidates
        .iter()
        .zip(hits)
        .filter(|(_, frames)| !frames.is_empty())
        .map(|(candidate, frames)| SharedWith {
            pid: candidate.pid,
            comm: candidate.read("comm").unwrap_or_default().trim_end().to_owned(),
            pages: frames.len() as u64,
            cause: "shared after fork".to_owned(),
        })
        .collect();
    with.sort_by_key(|with| (Reverse(with.pages), with.pid));
    Found { with, explained_frames: explained.len() as u64 }
}

/// One process for each address space except that of `pid`.
fn other_address_spaces(pid: u32) -> io::Result<Vec<ProcDir>> {
    let mut others: Vec<ProcDir> = Vec::new();
    for candidate in sys::all_pids()? {
        // A helper that runs on the inspected address space maps all its frames, and shares none of them.
        if candidate == pid || sys::same_address_space(candidate, pid) == Some(true) {
            continue;
        }
        others.extend(ProcDir::open(candidate).ok());
    }
    // vfork and CLONE_VM leave few of these, and each pair costs a system call: only consecutive ids are compared.
    others.dedup_by(|later, earlier| sys::same_address_space(later.pid, earlier.pid) == Some(true));
    Ok(others)
}

/// The wanted frames that a process maps privately, in all its segments or only in `ranges` (ascending).
fn frames_in(process: &ProcDir, wanted: &HashSet<u64>, ranges: Option<&[(u64, u64)]>) -> io::Result<HashSet<u64>> {
    let mut frames = HashSet::new();
    let no_threads = Landmarks { threads: 1, thread_stack_pointers: Vec::new() };
    let segments = maps::parse(&process.read("maps")?, &no_threads);
    let pagemap = process.open_file("pagemap")?;
    let mut buffer = vec![0; CHUNK_PAGES as usize];
    for segment in segments.iter().filter(|segment| !segment.shared && segment.kind != SegmentKind::Vdso) {
        let overlaps = |&&(start, end): &&(u64, u64)| start < segment.end && end > segment.start;
        match ranges {
            None => collect(&pagemap, segment.start, segment.end, wanted, &mut buffer, &mut frames)?,
            Some(ranges) => {
                for (start, end) in ranges.iter().filter(overlaps) {
                    let (start, end) = (segment.start.max(*start), segment.end.min(*end));
                    collect(&pagemap, start, end, wanted, &mut buffer, &mut frames)?;
                }
            }
        }
    }
    Ok(frames)
}

fn collect(
    pagemap: &File,
    start: u64,
    end: u64,
    wanted: &HashSet<u64>,
    buffer: &mut [u64],
    frames: &mut HashSet<u64>,
) -> io::Result<()> {
    let mut runs = Vec::new();
    if !sys::scan_populated(pagemap, start, end, &mut runs)? {
        // Before Linux 6.7, holes are read as well, at some tens of gigabytes a second.
        runs.push(sys::PageRegion { start, end, categories: 0 });
    }
    for run in runs {
        let (mut page, end) = (sys::page_of(run.start), sys::page_of(run.end));
        while page < end {
            let count = (end - page).min(CHUNK_PAGES) as usize;
            let read = sys::read_entries(pagemap, page, &mut buffer[..count])?;
            let entries = buffer[..read].iter().map(|&entry| PageEntry(entry));
            let private = entries.filter(|entry| entry.present() && !entry.file_or_shared());
            frames.extend(private.map(PageEntry::pfn).filter(|pfn| wanted.contains(pfn)));
            page += count as u64;
        }
    }
    Ok(())
}
