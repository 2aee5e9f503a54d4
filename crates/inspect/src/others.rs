//! Processes of the machine that have pages in given colors.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;

use memtint_map::Matcher;
use memtint_map::Palette;
use memtint_units::Pfn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::InspectError;
use crate::frames::FrameTables;
use crate::inspector::{PageClass, unique_pfns};
use crate::maps::{self, Landmarks, Segment};
use crate::report::{PlatformSummary, SelectionSummary};
use crate::sys::{self, CHUNK_PAGES, PageRegion, ProcDir};
use crate::walk::PageEntry;

/// Addresses whose populated runs are listed at a time: bounds the list, whatever the process maps.
const WINDOW: u64 = 4 << 30;

/// The processes that have pages in the selected colors. All counts are of 4 KiB pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Others {
    /// Version of the JSON form; 1.
    pub schema: u32,
    /// Always "inspect_others".
    pub report: String,
    /// The machine that frames were judged against.
    pub platform: PlatformSummary,
    /// The colors.
    pub selection: SelectionSummary,
    /// Processes with pages in them, most private pages first.
    pub processes: Vec<OtherProcess>,
    /// Inspected processes, without kernel threads and those that ended meanwhile.
    pub processes_looked_at: u64,
    /// Processes that the caller may not inspect, ascending: they may have pages there.
    pub not_readable: Vec<u32>,
}

/// A process with pages in the colors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherProcess {
    /// Process id.
    pub pid: u32,
    /// Command name as the kernel has it (at most 15 bytes).
    pub comm: String,
    /// The process that the user started as `memtint run`, when this one belongs to a run.
    pub run: Option<u32>,
    /// Private pages in the colors.
    pub private_pages: u64,
    /// Pages of files and shared memory in the colors, which other processes may map too.
    pub file_or_shared_pages: u64,
    /// Private pages by bank class, only classes that occur.
    pub bank_classes: BTreeMap<u32, u64>,
}

impl Others {
    /// Writes the report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let part = |list: &Option<String>| list.clone().unwrap_or_else(|| "any".to_owned());
        let SelectionSummary { banks, sets, node } = &self.selection;
        let mut text = format!(
            "platform {}: bank classes {}, set colors {}, nodes {}\n\n",
            self.platform.id,
            part(banks),
            part(sets),
            part(node)
        );
        // Writing to a String does not fail.
        let _ = writeln!(text, "{:>10} {:>16} {:>8}  command", "private", "file or shared", "process");
        for process in &self.processes {
            let run = process.run.map_or(String::new(), |front| format!(" (memtint run, process {front})"));
            let _ = writeln!(
                text,
                "{:>10} {:>16} {:>8}  {}{run}",
                process.private_pages, process.file_or_shared_pages, process.pid, process.comm
            );
        }
        let (found, all) = (self.processes.len(), self.processes_looked_at);
        let _ = writeln!(
            text,
            "\n{found} of {all} processes have pages there; pages of the kernel itself, and of files that no process maps, \
             are not listed"
        );
        if !self.not_readable.is_empty() {
            let pids: Vec<String> = self.not_readable.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "not readable, and may have pages there: process {}", pids.join(", "));
        }
        text
    }
}

/// Result of a search of the machine's processes.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) processes: Vec<OtherProcess>,
    pub(crate) looked_at: u64,
    pub(crate) not_readable: Vec<u32>,
}

/// Searches one process after the other.
pub(crate) struct Search<'a> {
    pub(crate) palette: &'a Palette,
    pub(crate) matcher: &'a Matcher,
    pub(crate) tables: &'a FrameTables,
}

impl Search<'_> {
    /// All processes but this one, each address space once.
    pub(crate) fn all(&self) -> Result<Found, InspectError> {
        let pids = sys::all_pids().map_err(|cause| InspectError::Read { path: "/proc".to_owned(), cause })?;
        let (mut found, mut before) = (Found::default(), None);
        for pid in pids.into_iter().filter(|&pid| pid != std::process::id()) {
            // vfork and CLONE_VM leave few address spaces with two processes: only consecutive ids are compared.
            if before.is_some_and(|before| sys::same_address_space(before, pid) == Some(true)) {
                continue;
            }
            let process = match self.one(pid) {
                Ok(Some(process)) => process,
                Ok(None) => continue,
                Err(InspectError::Forbidden { .. }) => {
                    found.not_readable.push(pid);
                    continue;
                }
                Err(error) => return Err(error),
            };
            found.looked_at += 1;
            before = Some(pid);
            if process.private_pages + process.file_or_shared_pages > 0 {
                found.processes.push(process);
            }
        }
        found.processes.sort_by_key(|process| (std::cmp::Reverse(process.private_pages), process.pid));
        Ok(found)
    }

    /// `None` for a process that has ended, or has no user memory.
    fn one(&self, pid: u32) -> Result<Option<OtherProcess>, InspectError> {
        let Ok(directory) = ProcDir::open(pid) else { return Ok(None) };
        let no_threads = Landmarks { threads: 1, thread_stack_pointers: Vec::new() };
        let read = directory.read("maps").and_then(|text| Ok((text, directory.open_file("pagemap")?)));
        let (text, pagemap) = match read {
            Ok(read) => read,
            Err(error) if ended(&error) => return Ok(None),
            Err(cause) => return Err(crate::walk::process_error(&directory, "maps", cause)),
        };
        let segments = maps::parse(&text, &no_threads);
        if segments.is_empty() {
            return Ok(None);
        }
        let mut process = OtherProcess {
            pid,
            comm: directory.read("comm").unwrap_or_default().trim_end().to_owned(),
            run: None,
            private_pages: 0,
            file_or_shared_pages: 0,
            bank_classes: BTreeMap::new(),
        };
        let mut buffer = vec![0; CHUNK_PAGES as usize];
        for segment in segments.iter().filter(|segment| segment.end <= crate::walk::USER_END) {
            match self.segment(segment, &pagemap, &mut buffer, &mut process) {
                Ok(()) => {}
                Err(InspectError::Read { cause, .. }) if ended(&cause) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(process))
    }

    fn segment(
        &self,
        segment: &Segment,
        pagemap: &File,
        buffer: &mut [u64],
        process: &mut OtherProcess,
    ) -> Result<(), InspectError> {
        let pid = process.pid;
        let fail = |cause| InspectError::Read { path: format!("/proc/{pid}/pagemap"), cause };
        let mut start = segment.start;
        let mut all = Vec::new();
        while start < segment.end {
            let end = segment.end.min(start.saturating_add(WINDOW));
            let mut runs = Vec::new();
            if !sys::scan_populated(pagemap, start, end, &mut runs).map_err(fail)? {
                // Before Linux 6.7, holes are read as well, at some tens of gigabytes a second.
                runs.push(PageRegion { start, end, categories: 0 });
            }
            for run in runs {
                let (mut page, end) = (sys::page_of(run.start), sys::page_of(run.end));
                while page < end {
                    let wanted = (end - page).min(CHUNK_PAGES) as usize;
                    let read = sys::read_entries(pagemap, page, &mut buffer[..wanted]).map_err(fail)?;
                    all.extend(buffer[..read].iter().map(|&entry| PageEntry(entry)).filter(|entry| entry.present()));
                    if all.len() >= CHUNK_PAGES as usize {
                        self.count(&all, process)?;
                        all.clear();
                    }
                    page += wanted as u64;
                }
            }
            start = end;
        }
        self.count(&all, process)
    }

    fn count(&self, entries: &[PageEntry], process: &mut OtherProcess) -> Result<(), InspectError> {
        let matching: Vec<PageEntry> =
            entries.iter().copied().filter(|entry| self.matcher.matches(Pfn(entry.pfn()))).collect();
        let pfns = unique_pfns(matching.iter().map(|entry| entry.pfn()));
        let flags = self.tables.flags(&pfns)?;
        for entry in matching {
            let flags = pfns.binary_search(&entry.pfn()).map(|index| flags[index]).unwrap_or_default();
            match PageClass::of(entry, flags) {
                PageClass::Private => {
                    process.private_pages += 1;
                    if let Some(color) = self.palette.color_of_frame(Pfn(entry.pfn())) {
                        *process.bank_classes.entry(color.bank_class).or_default() += 1;
                    }
                }
                PageClass::FileOrShared | PageClass::HugeTlb => process.file_or_shared_pages += 1,
                // A page shared by all programs, or one of the kernel or a device.
                PageClass::Zero | PageClass::Special | PageClass::Vanished => {}
            }
        }
        Ok(())
    }
}

/// Whether the error means that a process is gone, or is a kernel thread.
fn ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT))
}
