//! Judges the pages of a process.

use std::collections::{BTreeMap, HashSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use memtint_map::{FrameColor, Matcher, Palette, Selection};
use memtint_units::{PAGE_SIZE, Pfn};

use crate::error::InspectError;
use crate::frames::{FrameFlags, FrameTables};
use crate::maps::SegmentKind;
use crate::others::{Others, Search};
use crate::report::*;
use crate::sharing;
use crate::sys::{self, ProcDir};
use crate::walk::{AddressSpace, Page, PageEntry, ensure_alive, process_error, read_address_space};

/// Inspects processes from outside and reports the location of their pages.
///
/// Between two inspections it keeps only the platform's colors and two open files, so one value serves any number of inspections.
pub struct Inspector {
    platform: PlatformSummary,
    palette: Palette,
    selection: Option<Selected>,
    tables: FrameTables,
    search_sharers: bool,
    addresses_per_mapping: usize,
    mappings_listed: usize,
}

/// The selection, ready to be applied.
struct Selected {
    selection: Selection,
    matcher: Matcher,
}

impl Inspector {
    /// Prepares to judge frames by a platform's palette and, for a verdict, by the colors they should have.
    ///
    /// # Errors
    ///
    /// A selection that does not fit the palette; a caller who may not read `/proc/kpageflags` and `/proc/kpagecount`.
    pub fn new(palette: Palette, selection: Option<Selection>) -> Result<Self, InspectError> {
        let selection = match selection {
            Some(selection) => Some(Selected { matcher: selection.compile(&palette)?, selection }),
            None => None,
        };
        let platform = palette.platform();
        let platform = PlatformSummary {
            id: platform.id().to_owned(),
            name: platform.name().to_owned(),
            granule_bytes: palette.granule().bytes(),
            bank_classes: palette.bank_classes(),
            set_colors: palette.set_colors(),
            caveat: caveat(platform.id()),
        };
        let tables = FrameTables::open()?;
        Ok(Self {
            platform,
            palette,
            selection,
            tables,
            search_sharers: true,
            addresses_per_mapping: 16,
            mappings_listed: 256,
        })
    }

    /// Sets whether other processes are searched for frames they share with the inspected one (default: yes).
    ///
    /// The search happens only when there are such frames, and then reads the page tables of every process; turn it off
    /// for quick sampling.
    #[must_use = "returns the changed inspector"]
    pub fn search_sharers(mut self, search: bool) -> Self {
        self.search_sharers = search;
        self
    }

    /// Sets how many addresses out of color are listed for each mapping (default 16) and for how many mappings (default 256).
    #[must_use = "returns the changed inspector"]
    pub fn list_at_most(mut self, addresses_per_mapping: usize, mappings: usize) -> Self {
        self.addresses_per_mapping = addresses_per_mapping;
        self.mappings_listed = mappings;
        self
    }

    /// Inspects one process: all pages of its address space.
    ///
    /// Pages that come or go meanwhile may or may not be counted. Takes less than a microsecond a page.
    ///
    /// # Errors
    ///
    /// [`InspectError::NoProcess`] if there is none, if it ends meanwhile, or if it has no user memory; [`InspectError::NotPrivileged`] if
    /// the caller may not read frame numbers; [`InspectError::Forbidden`] if it may not read the process.
    pub fn inspect_pid(&self, pid: u32) -> Result<Report, InspectError> {
        let started = Instant::now();
        let mut report = self.empty_report();
        let directory = ProcDir::open(pid).map_err(|_| InspectError::NoProcess { pid, what: "does not exist" })?;
        ensure_alive(&directory)?;
        let space = read_address_space(&directory)?;
        refuse_hidden_frames(&space)?;
        let mut pages = self.classify(&space)?;
        if self.tables.ksm_is_meaningless && !has_merged_pages(&directory) {
            pages.iter_mut().for_each(|page| page.flags = page.flags.without_ksm());
        }
        report.processes.push(describe(&directory)?);
        self.count(&mut report, pid, &space, &pages);
        report.not_colorable = not_colorable(&report.segments, &read_status(&directory));
        report.sharing = self.sharing(&directory, &space, &pages)?;
        report.elapsed_us = started.elapsed().as_micros() as u64;
        Ok(report)
    }

    /// Inspects several processes and sums up the results. Processes that share an address space count once; those that
    /// have ended and kernel threads are left out.
    ///
    /// A frame that two of them share after a fork counts for each.
    ///
    /// Returns `None` when none of them had memory.
    ///
    /// # Errors
    ///
    /// As [`Inspector::inspect_pid`], but not for processes that are gone.
    pub fn inspect_pids(&self, pids: &[u32]) -> Result<Option<Report>, InspectError> {
        let mut total: Option<Report> = None;
        let mut seen: Vec<u32> = Vec::new();
        for &pid in pids {
            if seen.iter().any(|&other| sys::same_address_space(pid, other) == Some(true)) {
                continue;
            }
            match self.inspect_pid(pid) {
                Ok(report) => {
                    seen.push(pid);
                    total = Some(match total {
                        Some(sum) => sum.merge(report),
                        None => report,
                    });
                }
                Err(InspectError::NoProcess { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// Lists the processes of the machine, except this one, that have pages in the selected colors.
    ///
    /// Takes about a microsecond per page of the machine, and memory independent of that number: pages are counted as they are read.
    /// Processes come and go meanwhile; each is reported as of the time it was read.
    ///
    /// # Errors
    ///
    /// [`InspectError::NoColors`] without a selection; otherwise as [`Inspector::inspect_pid`], but not for processes that
    /// are gone.
    pub fn others(&self) -> Result<Others, InspectError> {
        let selected = self.selection.as_ref().ok_or(InspectError::NoColors)?;
        let search = Search { palette: &self.palette, matcher: &selected.matcher, tables: &self.tables };
        let found = search.all()?;
        let selection = summary(&selected.selection);
        let (report, platform) = ("inspect_others".to_owned(), self.platform.clone());
        Ok(Others {
            schema: 1,
            report,
            platform,
            selection,
            processes: found.processes,
            processes_looked_at: found.looked_at,
            not_readable: found.not_readable,
        })
    }

    fn empty_report(&self) -> Report {
        let rows =
            |count: u32, allowed: &dyn Fn(u32) -> bool| (0..count).map(|i| ColorRow::new(i, allowed(i))).collect();
        let selection = self.selection.as_ref().map(|selected| &selected.selection);
        let banks = selection.and_then(|s| s.banks.as_ref());
        let sets = selection.and_then(|s| s.sets.as_ref());
        let nodes = selection.and_then(|s| s.node.as_ref());
        Report {
            schema: REPORT_SCHEMA,
            report: "inspect".to_owned(),
            taken_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            elapsed_us: 0,
            processes: Vec::new(),
            platform: self.platform.clone(),
            selection: selection.map(summary),
            verdict: None,
            private: PrivatePages::default(),
            segments: Vec::new(),
            bank_classes: rows(self.palette.bank_classes(), &|class| banks.is_none_or(|set| set.contains(class))),
            set_colors: rows(self.palette.set_colors(), &|color| sets.is_none_or(|set| set.contains(color))),
            color_pairs: BTreeMap::new(),
            nodes: nodes.into_iter().flat_map(|set| set.iter()).map(|node| ColorRow::new(node, true)).collect(),
            pool: Tally::default(),
            out_of_color: OutOfColor::default(),
            sharing: Sharing::default(),
            not_colorable: Vec::new(),
            not_judged: Vec::new(),
        }
    }

    /// Classifies every page.
    fn classify(&self, space: &AddressSpace) -> Result<Vec<Classified>, InspectError> {
        let mut pages: Vec<Classified> = self.look_up(&space.pages)?;
        self.look_again(space, &mut pages)?;
        self.count_mappings(&mut pages)?;
        Ok(pages)
    }

    fn look_up(&self, pages: &[Page]) -> Result<Vec<Classified>, InspectError> {
        let pfns = unique_pfns(pages.iter().map(|page| page.entry.pfn()));
        let flags = self.tables.flags(&pfns)?;
        let classified = pages.iter().map(|&page| {
            let flags = pfns.binary_search(&page.entry.pfn()).map_or_else(|_| FrameFlags::default(), |i| flags[i]);
            Classified { page, class: PageClass::of(page.entry, flags), flags, mapped: 1 }
        });
        Ok(classified.collect())
    }

    /// A page can be freed between the reading of its entry and of its frame's flags, which then belong to another user
    /// of the frame. A private page whose frame is not anonymous is therefore read again: gone, moved, or really a
    /// device's.
    fn look_again(&self, space: &AddressSpace, pages: &mut Vec<Classified>) -> Result<(), InspectError> {
        for classified in pages.iter_mut().filter(|classified| classified.class == PageClass::Special) {
            for _ in 0..3 {
                let mut entry = [0];
                let read =
                    sys::read_entries(&space.pagemap, sys::page_of(classified.page.address), &mut entry).unwrap_or(0);
                let entry = PageEntry(if read == 1 { entry[0] } else { 0 });
                if !entry.present() {
                    classified.class = PageClass::Vanished;
                    break;
                }
                let flags = self.tables.flags(&[entry.pfn()])?[0];
                let same = entry.pfn() == classified.page.entry.pfn();
                classified.page.entry = entry;
                classified.flags = flags;
                classified.class = PageClass::of(entry, flags);
                if same || classified.class != PageClass::Special {
                    break;
                }
            }
        }
        pages.retain(|classified| classified.class != PageClass::Vanished);
        Ok(())
    }

    fn count_mappings(&self, pages: &mut [Classified]) -> Result<(), InspectError> {
        let pfns = unique_pfns(pages.iter().filter(|page| page.class == PageClass::Private).map(Classified::pfn));
        let counts = self.tables.counts(&pfns)?;
        for page in pages.iter_mut().filter(|page| page.class == PageClass::Private) {
            page.mapped = pfns.binary_search(&page.pfn()).map_or(1, |index| counts[index]);
        }
        Ok(())
    }

    fn count(&self, report: &mut Report, pid: u32, space: &AddressSpace, pages: &[Classified]) {
        let mut kinds: BTreeMap<SegmentKind, SegmentRow> = BTreeMap::new();
        for (segment, swapped) in space.segments.iter().zip(&space.swapped) {
            let row = kinds.entry(segment.kind).or_insert_with(|| SegmentRow::new(segment.kind));
            row.mappings += 1;
            row.virtual_bytes += segment.end - segment.start;
            row.swapped_pages += swapped;
        }
        let mut out: BTreeMap<u32, OutMapping> = BTreeMap::new();
        for page in pages {
            let segment = &space.segments[page.page.segment as usize];
            let row = kinds.get_mut(&segment.kind).expect("every segment has got a row above");
            match page.class {
                PageClass::FileOrShared => row.file_or_shared_pages += 1,
                PageClass::Zero => row.zero_pages += 1,
                PageClass::HugeTlb => row.hugetlb_pages += 1,
                PageClass::Special | PageClass::Vanished => row.special_pages += 1,
                PageClass::Private => {
                    let judged = self.judge(page.pfn());
                    row.add(judged.in_color);
                    if segment.kind == SegmentKind::MemtintPool {
                        report.pool.add(judged.in_color);
                        continue;
                    }
                    report.add_private(page, &judged);
                    if !judged.in_color {
                        let mapping = out.entry(page.page.segment).or_insert_with(|| OutMapping {
                            pid,
                            start: segment.start,
                            end: segment.end,
                            kind: segment.kind,
                            name: segment.name.clone(),
                            pages: 0,
                            addresses: Vec::new(),
                        });
                        mapping.pages += 1;
                        if mapping.addresses.len() < self.addresses_per_mapping {
                            mapping.addresses.push(judged.at(page.page.address));
                        }
                    }
                }
            }
        }
        let swapped = kinds.values().filter(|row| row.kind != SegmentKind::MemtintPool).map(|row| row.swapped_pages);
        report.private.swapped_pages = swapped.sum();
        report.segments = kinds.into_values().collect();
        report.out_of_color.mappings = out.into_values().collect();
        report.out_of_color.shorten(self.mappings_listed);
        report.verdict = self.selection.as_ref().map(|_| report.private.verdict());
    }

    fn judge(&self, pfn: u64) -> Judged {
        let pfn = Pfn(pfn);
        Judged {
            color: self.palette.color_of_frame(pfn),
            in_color: self.selection.as_ref().is_none_or(|selected| selected.matcher.matches(pfn)),
        }
    }

    fn sharing(&self, process: &ProcDir, space: &AddressSpace, pages: &[Classified]) -> Result<Sharing, InspectError> {
        let mut wanted: HashSet<u64> = HashSet::new();
        let mut segments: HashSet<u32> = HashSet::new();
        let mut others = 0;
        for page in pages.iter().filter(|page| page.shared_after_fork()) {
            if space.segments[page.page.segment as usize].kind == SegmentKind::MemtintPool {
                continue;
            }
            if wanted.insert(page.pfn()) {
                others += page.mapped - 1;
            }
            segments.insert(page.page.segment);
        }
        let mut sharing = Sharing { pages: wanted.len() as u64, searched: self.search_sharers, ..Sharing::default() };
        if self.search_sharers && !wanted.is_empty() {
            let ranges = segments.iter().map(|&index| &space.segments[index as usize]);
            let ranges = ranges.map(|segment| (segment.start, segment.end)).collect();
            let found = sharing::find(process, &wanted, others, ranges)?;
            sharing.unexplained_pages = sharing.pages.saturating_sub(found.explained_frames);
            sharing.with = found.with;
        }
        Ok(sharing)
    }
}

fn summary(selection: &Selection) -> SelectionSummary {
    let text = |set: &Option<memtint_units::IndexSet>| set.as_ref().map(ToString::to_string);
    SelectionSummary { banks: text(&selection.banks), sets: text(&selection.sets), node: text(&selection.node) }
}

/// The kind of a present page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageClass {
    Private,
    FileOrShared,
    Zero,
    HugeTlb,
    /// Neither anonymous nor a file's: a device, a page of the kernel.
    Special,
    /// Present at the first reading only.
    Vanished,
}

impl PageClass {
    pub(crate) fn of(entry: PageEntry, flags: FrameFlags) -> Self {
        if flags.zero_page() {
            Self::Zero
        } else if flags.hugetlb() {
            Self::HugeTlb
        } else if entry.file_or_shared() {
            Self::FileOrShared
        } else if flags.anonymous() {
            Self::Private
        } else {
            Self::Special
        }
    }
}

struct Classified {
    page: Page,
    class: PageClass,
    flags: FrameFlags,
    /// Number of page tables that map the frame; 0 when the page was just unmapped.
    mapped: u64,
}

impl Classified {
    fn pfn(&self) -> u64 {
        self.page.entry.pfn()
    }

    fn shared_after_fork(&self) -> bool {
        self.class == PageClass::Private && self.mapped > 1 && !self.flags.ksm()
    }
}

/// A frame's color and whether it is allowed.
struct Judged {
    color: Option<FrameColor>,
    in_color: bool,
}

impl Judged {
    fn at(&self, address: u64) -> OutPage {
        OutPage {
            address,
            bank_class: self.color.map(|color| color.bank_class),
            set_color: self.color.map(|color| color.set_color),
            node: self.color.map(|color| color.node),
        }
    }
}

impl Report {
    fn add_private(&mut self, page: &Classified, judged: &Judged) {
        let private = &mut self.private;
        private.pages += 1;
        private.ksm_pages += u64::from(page.flags.ksm());
        private.thp_pages += u64::from(page.flags.thp());
        if judged.in_color {
            private.in_color_pages += 1;
        } else {
            private.out_of_color_pages += 1;
            self.out_of_color.add(page, judged);
        }
        match judged.color {
            None => private.outside_platform_pages += 1,
            Some(color) => {
                self.bank_classes[color.bank_class as usize].tally.add(judged.in_color);
                self.set_colors[color.set_color as usize].tally.add(judged.in_color);
                let pair = (color.bank_class, color.set_color);
                self.color_pairs.entry(pair).or_default().add(judged.in_color);
                row_of(&mut self.nodes, color.node, self.selection.is_none()).tally.add(judged.in_color);
            }
        }
    }
}

impl OutOfColor {
    fn add(&mut self, page: &Classified, judged: &Judged) {
        self.pages += 1;
        let causes = &mut self.causes;
        *if judged.color.is_none() {
            &mut causes.outside_platform_pages
        } else if page.flags.ksm() {
            &mut causes.ksm_pages
        } else if page.shared_after_fork() {
            &mut causes.shared_after_fork_pages
        } else if page.flags.thp() {
            &mut causes.thp_pages
        } else {
            &mut causes.unknown_pages
        } += 1;
    }
}

/// The row of a node. A node that occurs without being selected gets a row at the place of its number.
fn row_of(rows: &mut Vec<ColorRow>, index: u32, selected: bool) -> &mut ColorRow {
    let position = match rows.binary_search_by_key(&index, |row| row.index) {
        Ok(position) => position,
        Err(position) => {
            rows.insert(position, ColorRow::new(index, selected));
            position
        }
    };
    &mut rows[position]
}

pub(crate) fn unique_pfns(pfns: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut pfns: Vec<u64> = pfns.collect();
    pfns.sort_unstable();
    pfns.dedup();
    pfns
}

/// Without CAP_SYS_ADMIN the kernel writes zeroes for frame numbers. Frame 0 is never given to a program.
fn refuse_hidden_frames(space: &AddressSpace) -> Result<(), InspectError> {
    if space.pages.iter().any(|page| page.entry.pfn() == 0) {
        return Err(InspectError::NotPrivileged { what: "they read as zero".to_owned() });
    }
    Ok(())
}

/// Whether any page of a process has been merged with an equal one (Linux 5.19, CONFIG_KSM).
fn has_merged_pages(process: &ProcDir) -> bool {
    process.read("ksm_merging_pages").is_ok_and(|text| text.trim() != "0")
}

fn describe(process: &ProcDir) -> Result<Process, InspectError> {
    let comm = process.read("comm").map_err(|cause| process_error(process, "comm", cause))?;
    let threads = process.threads().map_err(|cause| process_error(process, "task", cause))?.len() as u32;
    Ok(Process { pid: process.pid, comm: comm.trim_end().to_owned(), threads })
}

/// A frame's color is as reliable as the platform file; in a virtual machine it refers to the guest's view of memory.
fn caveat(platform: &str) -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let virtual_machine = cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    if virtual_machine {
        format!(
            "colors follow platform {platform} applied to the frame numbers of this virtual machine; where its host keeps them \
             is not visible from here"
        )
    } else {
        format!("colors follow platform {platform} applied to the frame numbers of this machine")
    }
}

/// Data of `/proc/PID/status` beyond the pages.
struct Status {
    page_table_bytes: u64,
    threads: u64,
}

/// A process that has just ended reads as zero here; its pages were counted before.
fn read_status(process: &ProcDir) -> Status {
    let text = process.read("status").unwrap_or_default();
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    Status { page_table_bytes: (field("VmPTE") + field("VmPMD")) * 1024, threads: field("Threads") }
}

/// `THREAD_SIZE` of x86-64 without KASAN (arch/x86/include/asm/page_64_types.h).
const KERNEL_STACK_BYTES: u64 = 16 * 1024;

fn not_colorable(segments: &[SegmentRow], status: &Status) -> Vec<NotColorable> {
    let mut bytes: BTreeMap<Uncolored, u64> = BTreeMap::new();
    let mut add = |what, amount: u64| *bytes.entry(what).or_default() += amount;
    // The helper's code and control area belong to memtint, not to the program.
    for row in segments.iter().filter(|row| row.kind != SegmentKind::MemtintPool) {
        let file_or_shared = match row.kind {
            SegmentKind::SharedFile => Uncolored::SharedFile,
            SegmentKind::SharedMemory => Uncolored::SharedMemory,
            SegmentKind::Vdso => Uncolored::Vdso,
            SegmentKind::Device => Uncolored::Device,
            _ => Uncolored::PageCache,
        };
        let special = if row.kind == SegmentKind::Vdso { Uncolored::Vdso } else { Uncolored::Device };
        add(file_or_shared, row.file_or_shared_pages * PAGE_SIZE);
        add(special, row.special_pages * PAGE_SIZE);
        add(Uncolored::HugeTlb, row.hugetlb_pages * PAGE_SIZE);
        add(Uncolored::ZeroPage, row.zero_pages * PAGE_SIZE);
    }
    add(Uncolored::PageTables, status.page_table_bytes);
    add(Uncolored::KernelStacks, status.threads * KERNEL_STACK_BYTES);
    bytes.into_iter().filter(|&(_, bytes)| bytes > 0).map(|(what, bytes)| NotColorable { what, bytes }).collect()
}
