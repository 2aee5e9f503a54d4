//! Whether this machine can color, probe and regulate, what limits it, and how to remedy that.
//!
//! [`Facts::here`] reads files of `/proc`, `/sys` and `/boot`, opens what a run would open (a userfaultfd, counters, BPF programs), and
//! closes it again; nothing on the machine changes. [`Report::of`] draws the conclusions: pure rules, one function each, in the modules
//! below. A rule yields a [`Check`]: the finding, the purposes it prevents or limits, and the remedy.
//!
//! This crate measures nothing: the self-tests of `memtint guard` and `memtint probe` determine whether a limit holds.
//!
//! ```no_run
//! use memtint_doctor::{Answer, Facts, Report};
//!
//! let report = Report::of(&Facts::here(None));
//! for purpose in &report.purposes {
//!     println!("{:?}: {}", purpose.purpose, if purpose.answer == Answer::No { "no" } else { "yes" });
//! }
//! ```

mod facts;
mod kernel;
mod memory;
mod processor;
mod regulation;

use schemars::JsonSchema;
use serde::Serialize;

pub use facts::{Facts, Trials};

/// What memtint does with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Keep programs in bank classes and set colors (`memtint run`, `inspect`).
    Color,
    /// Find the address mapping by timing (`memtint probe`).
    Probe,
    /// Regulate memory bandwidth (`memtint guard`).
    Regulate,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 3] = [Purpose::Color, Purpose::Probe, Purpose::Regulate];

    /// Gives its name, as in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Color => "color",
            Purpose::Probe => "probe",
            Purpose::Regulate => "regulate",
        }
    }
}

/// Whether a machine can serve a purpose. Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Nothing that was checked stands in the way.
    Yes,
    /// It works in part, or shows less than it would elsewhere.
    Limited,
    /// It does not work.
    No,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// Its subject, a stable name for programs.
    pub id: &'static str,
    /// The finding, one sentence.
    pub found: String,
    /// Purposes that this prevents, ascending.
    pub prevents: Vec<Purpose>,
    /// Purposes that this limits, ascending; without those that it prevents.
    pub limits: Vec<Purpose>,
    /// What to do about it; absent where nothing can be done or need be done.
    pub remedy: Option<String>,
}

impl Check {
    /// A finding that stands in the way of nothing.
    fn fine(id: &'static str, found: impl Into<String>) -> Check {
        Check { id, found: found.into(), prevents: Vec::new(), limits: Vec::new(), remedy: None }
    }

    fn prevents(mut self, purposes: &[Purpose]) -> Check {
        self.prevents.extend(purposes);
        self
    }

    fn limits(mut self, purposes: &[Purpose]) -> Check {
        self.limits.extend(purposes);
        self
    }

    fn remedy(self, text: impl Into<String>) -> Check {
        Check { remedy: Some(text.into()), ..self }
    }

    /// Gives its effect on a purpose.
    #[must_use]
    pub fn effect(&self, purpose: Purpose) -> Answer {
        if self.prevents.contains(&purpose) {
            Answer::No
        } else if self.limits.contains(&purpose) {
            Answer::Limited
        } else {
            Answer::Yes
        }
    }

    /// Whether it stands in the way of no purpose.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.prevents.is_empty() && self.limits.is_empty()
    }
}

/// The answer for one purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PurposeReport {
    /// The purpose.
    pub purpose: Purpose,
    /// The worst effect of any check.
    pub answer: Answer,
    /// Names of the checks with that effect, in the order of the report; empty with [`Answer::Yes`].
    pub because: Vec<&'static str>,
}

/// All findings, and the answers that follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// Which report it is: `doctor`.
    pub report: &'static str,
    /// One answer for each purpose, in the order of [`Purpose::ALL`].
    pub purposes: Vec<PurposeReport>,
    /// All checks.
    pub checks: Vec<Check>,
}

/// A rule: what follows from the facts, or nothing where it does not apply to the machine.
type Rule = fn(&Facts) -> Option<Check>;

const RULES: [&[Rule]; 4] = [kernel::RULES, memory::RULES, processor::RULES, regulation::RULES];

impl Report {
    /// Draws the conclusions.
    #[must_use]
    pub fn of(facts: &Facts) -> Report {
        let checks: Vec<Check> = RULES.into_iter().flatten().filter_map(|rule| rule(facts)).collect();
        let purposes = Purpose::ALL.map(|purpose| {
            let answer = checks.iter().map(|check| check.effect(purpose)).max().unwrap_or(Answer::Yes);
            let worst = checks.iter().filter(|check| answer != Answer::Yes && check.effect(purpose) == answer);
            PurposeReport { purpose, answer, because: worst.map(|check| check.id).collect() }
        });
        Report { schema: 1, report: "doctor", purposes: purposes.to_vec(), checks }
    }

    /// Gives the answer for a purpose.
    #[must_use]
    pub fn answer(&self, purpose: Purpose) -> Answer {
        self.purposes.iter().find(|report| report.purpose == purpose).map_or(Answer::Yes, |report| report.answer)
    }
}
