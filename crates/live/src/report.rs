//! The report of a run.

use crate::wire::Counters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One address space of the run: one program image from its start to its end.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddressSpaceReport {
    /// Process id it began with.
    pub pid: i32,
    /// Program file.
    pub program: String,
    /// How it began: `exec` or `fork`.
    pub began: String,
    /// Page faults served.
    pub faults: u64,
    /// Pages given in color (first touches, fills, copies).
    pub pages_in_color: u64,
    /// Pages the kernel chose because the pool was dry (soft mode).
    pub pages_out_of_color: u64,
    /// Pages refused because the pool was dry (strict mode).
    pub pages_refused: u64,
    /// Fresh pages examined to build the pool.
    pub scanned_pages: u64,
    /// Pages kept of these.
    pub kept_pages: u64,
    /// Pages taken back from areas the program gave up.
    pub recycled_pages: u64,
    /// Pages that existed before the program got control and were put in color.
    pub recolored_pages: u64,
    /// Pages of text and data copied into color.
    pub copied_pages: u64,
    /// Mappings that the kernel did not let memtint watch.
    pub register_refused: u64,
    /// Pages that the kernel did not move.
    pub move_refused: u64,
    /// Error number of the last such refusal, 0 = none.
    pub last_move_error: u64,
    /// Pages that forks made shared: the first to write one gets a frame of the kernel's choice.
    pub pages_shared_by_fork: u64,
    /// Writable or executable private file mappings that were not copied into color: too large, or not part of a library.
    pub file_mappings_not_copied: u64,
    /// Their bytes.
    pub file_bytes_not_copied: u64,
    /// The program registered memory with its own userfaultfd: those pages are not kept in color.
    pub serves_itself: bool,
    /// Private pages in color at the end.
    pub pages_in_color_at_end: u64,
    /// Private pages out of color at the end.
    pub pages_out_of_color_at_end: u64,
    /// Known causes of pages out of color: `pool dry`, `copy-on-write after fork`, `private file mapping`,
    /// `moved by the kernel`.
    pub causes: Vec<String>,
    /// Nanoseconds spent building the pool.
    pub pool_build_ns: u64,
    /// Whether its program has run; false when a strict run ended it before its first instruction.
    #[serde(default)]
    pub ran: bool,
}

const MOVED: &str = "moved by the kernel";

/// Causes of pages out of color, in words.
///
/// A fork shares the pages of both sides: `shared_by_fork` counts those that the address space has shared with its
/// children, and `from_fork` is set if it began as a child itself.
pub(crate) fn causes(
    counters: &Counters,
    shared_by_fork: u64,
    of_files: bool,
    out_of_color: u64,
    from_fork: bool,
) -> Vec<String> {
    if out_of_color == 0 && counters.pages_out_of_color == 0 {
        return Vec::new();
    }
    let mut causes = Vec::new();
    if counters.pages_out_of_color > 0 {
        causes.push("pool dry".to_owned());
    }
    if shared_by_fork > 0 || from_fork {
        causes.push("copy-on-write after fork".to_owned());
    }
    if of_files {
        causes.push("private file mapping".to_owned());
    }
    if counters.register_refused > 0 || counters.move_refused > 0 {
        causes.push("not watched: the kernel refused".to_owned());
    }
    if causes.is_empty() {
        causes.push(MOVED.to_owned());
    }
    causes
}

/// The backend that enforced the colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FloorName {
    /// The runtime beside it.
    #[default]
    User,
    /// Linux itself.
    Kernel,
}

/// The judgment of the backend that gives the pages; `memtint inspect` judges from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunVerdict {
    /// Every page was in color, and none was refused.
    Held,
    /// Every page was in color; some were refused, because none in color was left.
    Refused,
    /// Some pages were out of color.
    Violated,
    /// No page was observed out of color, but some memory was not kept in color (private file mappings, ranges registered with the
    /// program's own userfaultfd), and memory that the program released before its end was not checked.
    Unproven,
}

/// Details of the kernel backend.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct KernelReport {
    /// How the program got its colors: by a `cgroup` of the run, or by a private `policy`.
    pub interface: String,
    /// The run has loaded the mapping.
    pub mapping_loaded: bool,
    /// It has unloaded it again.
    pub mapping_unloaded: bool,
    /// The kernel's counters, under its names (see `kernel/README.md`), for all processes of the run together.
    pub counters: BTreeMap<String, u64>,
}

/// Whether the kernel compacts memory by itself, which moves pages out of their colors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionReport {
    /// The value of `vm.compaction_proactiveness` before this run, and others beside it, set it to 0 for their duration. Absent if that was
    /// not needed.
    pub proactiveness: Option<u64>,
    /// Why it could not be set: the kernel continues to move pages. Absent if it could.
    pub goes_on: Option<String>,
}

/// A whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// The backend that enforced the colors.
    pub floor: FloorName,
    /// Absent if the counters are lost.
    pub verdict: Option<RunVerdict>,
    /// Pages given in color.
    pub pages_in_color: u64,
    /// Pages given out of color (soft mode), or found out of color at the end.
    pub pages_out_of_color: u64,
    /// Requests for pages refused (strict mode).
    pub pages_refused: u64,
    /// Every address space that has ended, in order, and those alive when the program ended. Empty for the kernel
    /// backend, which counts for all of them together.
    pub address_spaces: Vec<AddressSpaceReport>,
    /// Whether the kernel compacts memory by itself. Null for the kernel backend, where moved pages keep their colors.
    pub compaction: Option<CompactionReport>,
    /// Memory and processes that could not be colored, in words.
    pub problems: Vec<String>,
    /// Processes that could not be colored: a soft run goes on without colors in them, a strict one ends them.
    pub processes_not_colored: u64,
    /// Processes of the run that outlive the program; null where not all of them are known.
    pub still_running: Option<usize>,
    /// Null for the userspace runtime.
    pub kernel: Option<KernelReport>,
}

impl RunReport {
    /// Records a problem, and reports it to the user.
    pub(crate) fn problem(&mut self, text: String, tell: &mut impl FnMut(&str)) {
        tell(&text);
        self.problems.push(text);
    }

    /// Sums up the address spaces, and judges.
    pub(crate) fn sum_up(&mut self, strict: bool) {
        // The counters come from the helpers: any number is possible.
        let sum = |of: fn(&AddressSpaceReport) -> u64| self.address_spaces.iter().map(of).fold(0, u64::saturating_add);
        self.pages_in_color = sum(|space| space.pages_in_color);
        // Pages given out of color by a soft run may have been released since, and those at the end may have other causes.
        self.pages_out_of_color = sum(|space| space.pages_out_of_color.max(space.pages_out_of_color_at_end));
        self.pages_refused = sum(|space| space.pages_refused);
        let (uncolored, ended) = if strict { (0, self.processes_not_colored) } else { (self.processes_not_colored, 0) };
        let left = |space: &AddressSpaceReport| space.file_mappings_not_copied > 0 || space.serves_itself;
        self.verdict = Some(
            match judge(self.pages_out_of_color.saturating_add(uncolored), self.pages_refused.saturating_add(ended)) {
                RunVerdict::Held | RunVerdict::Refused if self.address_spaces.iter().any(left) => RunVerdict::Unproven,
                verdict => verdict,
            },
        );
    }

    /// Why the kernel has moved pages, if that could have been prevented.
    pub(crate) fn why_moved(&self) -> Option<String> {
        let compaction = self.compaction.as_ref()?;
        let reason = compaction.goes_on.as_ref()?;
        let moved = self.address_spaces.iter().any(|space| space.causes.iter().any(|cause| cause == MOVED));
        moved.then(|| {
            let value = compaction.proactiveness.map_or("not known".to_owned(), |value| value.to_string());
            format!(
                "the kernel has moved pages: vm.compaction_proactiveness, 0 for as long as a run lasts, is {value} and could \
                 not be set: {reason}"
            )
        })
    }

    /// Whether a process was ended before the first instruction of the first program that it was to run.
    pub(crate) fn never_began(&self, pid: i32) -> bool {
        let ran = |space: &AddressSpaceReport| space.pid == pid && space.ran;
        self.processes_not_colored > 0 && !self.address_spaces.iter().any(ran)
    }

    /// Judges by the sums.
    pub(crate) fn judge(&mut self) {
        self.verdict = Some(judge(self.pages_out_of_color, self.pages_refused));
    }
}

fn judge(out_of_color: u64, refused: u64) -> RunVerdict {
    match (out_of_color, refused) {
        (0, 0) => RunVerdict::Held,
        (0, _) => RunVerdict::Refused,
        _ => RunVerdict::Violated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(pages_out_of_color: u64, at_end: u64, pages_refused: u64) -> RunReport {
        let space = serde_json::json!({
            "pid": 1, "program": "p", "began": "exec", "faults": 9, "pages_in_color": 7,
            "pages_out_of_color": pages_out_of_color, "pages_refused": pages_refused, "scanned_pages": 0, "kept_pages": 0,
            "recycled_pages": 0, "recolored_pages": 0, "copied_pages": 0, "register_refused": 0, "move_refused": 0,
            "last_move_error": 0, "pages_shared_by_fork": 0, "file_mappings_not_copied": 0, "file_bytes_not_copied": 0,
            "serves_itself": false,
            "pages_in_color_at_end": 7, "pages_out_of_color_at_end": at_end, "causes": [], "pool_build_ns": 0
        });
        let space: AddressSpaceReport = serde_json::from_value(space).unwrap();
        RunReport { address_spaces: vec![space.clone(), space], ..RunReport::default() }
    }

    #[test]
    fn a_page_out_of_color_weighs_more_than_one_refused() {
        let verdict = |mut report: RunReport, strict| {
            report.sum_up(strict);
            report.verdict.unwrap()
        };
        assert_eq!(verdict(report(0, 0, 0), true), RunVerdict::Held);
        assert_eq!(verdict(report(0, 0, 1), true), RunVerdict::Refused);
        assert_eq!(verdict(report(1, 0, 1), false), RunVerdict::Violated);
        assert_eq!(verdict(report(0, 1, 0), true), RunVerdict::Violated);
        let mut left = report(0, 0, 0);
        left.address_spaces[1].file_mappings_not_copied = 1;
        assert_eq!(verdict(left.clone(), true), RunVerdict::Unproven);
        left.address_spaces[0].pages_out_of_color = 1;
        assert_eq!(verdict(left, true), RunVerdict::Violated);
        let mut served = report(0, 0, 1);
        served.address_spaces[0].serves_itself = true;
        assert_eq!(verdict(served, true), RunVerdict::Unproven);
        let uncolored = RunReport { processes_not_colored: 1, ..report(0, 0, 0) };
        assert_eq!(verdict(uncolored.clone(), true), RunVerdict::Refused);
        assert_eq!(verdict(uncolored, false), RunVerdict::Violated);
    }

    #[test]
    fn what_was_not_prevented_is_told_when_it_has_happened() {
        let mut report = report(0, 0, 0);
        let goes_on = Some("Read-only file system".to_owned());
        report.compaction = Some(CompactionReport { proactiveness: Some(20), goes_on });
        assert_eq!(report.why_moved(), None);
        report.address_spaces[1].causes.push(MOVED.to_owned());
        let told = report.why_moved().unwrap();
        assert!(told.contains("is 20") && told.contains("Read-only"), "{told}");
        report.compaction = Some(CompactionReport { proactiveness: Some(20), goes_on: None });
        assert_eq!(report.why_moved(), None, "the pause was in effect");
    }

    #[test]
    fn a_child_shares_pages_as_its_parent_does() {
        let (counters, fork) = (Counters::default(), ["copy-on-write after fork"]);
        assert_eq!(causes(&counters, 0, false, 49, true), fork);
        assert_eq!(causes(&counters, 7, false, 2, false), fork);
        assert_eq!(causes(&counters, 0, false, 2, false), [MOVED]);
        assert!(causes(&counters, 7, false, 0, true).is_empty(), "nothing is out of color");
    }

    #[test]
    fn a_program_began_if_one_of_its_address_spaces_ran() {
        let mut report = RunReport { processes_not_colored: 1, ..report(0, 0, 0) };
        assert!(report.never_began(1));
        report.address_spaces[1].ran = true;
        assert!(!report.never_began(1) && report.never_began(2));
    }

    #[test]
    fn sums_are_over_all_address_spaces() {
        let mut report = report(2, 3, 5);
        report.sum_up(false);
        assert_eq!((report.pages_in_color, report.pages_out_of_color, report.pages_refused), (14, 6, 10));
    }
}
