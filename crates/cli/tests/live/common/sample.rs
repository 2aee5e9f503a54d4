//! What an observer sees of a program while it runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use memtint_inspect::{InspectError, Inspector, Report, Verdict};
use memtint_map::{Granule, Palette, Platform, Selection};
use memtint_units::IndexSet;

use super::processes::alive_below;

/// Least share of private pages in color, in percent.
const SHARE: f64 = 99.9;
const PERIOD: Duration = Duration::from_millis(15);

/// The colors that pages are judged by.
pub(crate) struct Colors(Inspector);

impl Colors {
    pub(crate) fn new(platform: &Path, banks: &str) -> Colors {
        let platform = Platform::load(platform.to_str().expect("the path is text")).expect("a good platform file");
        let palette = Palette::new(&platform, Granule::default()).expect("a palette");
        let banks = IndexSet::parse(banks, palette.bank_classes()).expect("these classes exist");
        let selection = Selection { banks: Some(banks), ..Selection::default() };
        Colors(Inspector::new(palette, Some(selection)).expect("these colors exist").search_sharers(false))
    }

    /// All pages of a process, now.
    pub(crate) fn inspect(&self, pid: u32) -> Report {
        self.0.inspect_pid(pid).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Fails when more than one in a thousand private pages is out of color, and says which.
pub(crate) fn assert_held(report: &Report) {
    assert!(report.private.in_color_percent() >= SHARE, "{}", listing(report));
}

/// What is out of color, by kind and address.
pub(crate) fn listing(report: &Report) -> String {
    let private = &report.private;
    let mut text = format!("{} of {} private pages are out of color", private.out_of_color_pages, private.pages);
    for process in &report.processes {
        let _ = write!(text, ", process {} ({})", process.pid, process.comm);
    }
    let _ = write!(text, "; causes {:?}", report.out_of_color.causes);
    for mapping in &report.out_of_color.mappings {
        let (kind, pages) = (mapping.kind.label(), mapping.pages);
        let _ = write!(text, "\n  {pages} in {kind} {:#x}-{:#x} {}:", mapping.start, mapping.end, mapping.name);
        mapping.addresses.iter().for_each(|page| {
            let _ = write!(text, " {:#x}", page.address);
        });
    }
    text
}

/// Looks at all programs of a run again and again, until it is stopped.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Samples>>,
}

/// What a sampler has seen.
#[derive(Default)]
pub(crate) struct Samples {
    /// How many times a program was looked at.
    pub(crate) count: usize,
    /// Most private pages of one program.
    pub(crate) most_pages: u64,
    /// The first sample of each program that was below the share.
    pub(crate) violations: Vec<Report>,
}

impl Sampler {
    pub(crate) fn start(colors: Colors, front: u32) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicUsize::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&count));
        let thread = std::thread::spawn(move || {
            let (mut samples, mut images) = (Samples::default(), BTreeMap::new());
            while !stopped.load(Ordering::Relaxed) {
                images = samples.look(&colors, front, &images);
                counted.store(samples.count, Ordering::Relaxed);
                std::thread::sleep(PERIOD);
            }
            samples
        });
        Sampler { stop, count, thread: Some(thread) }
    }

    /// Samples so far.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(mut self) -> Samples {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("the sampler does not panic")
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Samples {
    /// Those of another run of the same program.
    pub(crate) fn add(&mut self, other: Samples) {
        self.count += other.count;
        self.most_pages = self.most_pages.max(other.most_pages);
        self.violations.extend(other.violations);
    }

    /// Looks once, and returns which programs there are.
    ///
    /// A program is looked at from the second time on that it is seen, and not while it is traced: before its first
    /// instruction, its pages are where the kernel has put them.
    fn look(&mut self, colors: &Colors, front: u32, before: &BTreeMap<u32, String>) -> BTreeMap<u32, String> {
        let mut images = BTreeMap::new();
        for process in alive_below(front).iter().filter(|process| !process.is_memtint()) {
            let Ok(image) = std::fs::read_link(format!("/proc/{}/exe", process.pid)) else { continue };
            let image = image.to_string_lossy().into_owned();
            let settled = before.get(&process.pid) == Some(&image);
            images.insert(process.pid, image);
            if settled {
                self.take(colors, process.pid);
            }
        }
        images
    }

    fn take(&mut self, colors: &Colors, pid: u32) {
        let traced_before = is_traced(pid);
        let report = match colors.0.inspect_pid(pid) {
            Ok(report) => report,
            Err(InspectError::NoProcess { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        if traced_before || is_traced(pid) {
            return;
        }
        self.count += 1;
        self.most_pages = self.most_pages.max(report.private.pages);
        let known = self.violations.iter().any(|other| other.processes[0].pid == pid);
        if report.verdict == Some(Verdict::Violated) && report.private.in_color_percent() < SHARE && !known {
            self.violations.push(report);
        }
    }
}

fn is_traced(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() == "0"))
}
