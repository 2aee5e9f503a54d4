//! What came of looking for the last-level cache's index.

use crate::cache::{CacheAnswer, CacheLevels, CacheReport, LastLevel, Slice};
use memtint_map::file::LlcSection;
use memtint_map::gf2;
use schemars::JsonSchema;
use serde::Serialize;

/// What came of looking for the last-level cache's index.
#[derive(Debug)]
pub enum Caches {
    /// The cache was probed.
    Probed(Box<CacheReport>),
    /// Why it cannot be probed.
    NotAsked(String),
}

/// The answer, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CachesAnswer {
    /// The whole index.
    Found,
    /// A part of it.
    Partial,
    /// Nothing.
    NoSignal,
    /// The cache cannot be probed.
    NotAsked,
}

/// The last-level cache, in a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CachesReport {
    /// Whether the index was found.
    pub answer: CachesAnswer,
    /// Why it is not the whole index; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Probability with which the answer is right at least, as far as readings err independently; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Ways; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
    /// Size of a line; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_bytes: Option<u64>,
    /// Address bits that index the set alone, or the slice alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_bits: Option<Vec<u32>>,
    /// Absent when the hash is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices: Option<u32>,
    /// Address bits of each function beyond the set bits; absent when the hash is not linear, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_functions: Option<Vec<Vec<u32>>>,
    /// Published hashes that fit; empty where the hash is linear.
    pub known_hashes: Vec<String>,
    /// Set colors of pages; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_colors: Option<u64>,
    /// Fresh pairs that were predicted to be of one set, and not to be; all predictions came true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<[u32; 2]>,
    /// Where readings lie, in ticks; absent where the cache was not probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<CacheLevels>,
    /// All accesses.
    pub accesses: u64,
    /// Those that were timed.
    pub timed: u64,
    /// Questions that were decided.
    pub decisions: u64,
}

impl Caches {
    /// Gives what was found, the whole index or a part of it.
    #[must_use]
    pub fn found(&self) -> Option<&LastLevel> {
        match self {
            Caches::Probed(report) => report.found(),
            Caches::NotAsked(_) => None,
        }
    }

    /// Gives why it is not the whole index; `None` if it is.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Caches::NotAsked(why) => Some(why.clone()),
            Caches::Probed(report) => match &report.answer {
                CacheAnswer::Found(_) => None,
                CacheAnswer::Partial(_, why) => Some(why.clone()),
                CacheAnswer::Nothing(why) => Some(why.to_string()),
            },
        }
    }

    fn answer(&self) -> CachesAnswer {
        match self {
            Caches::NotAsked(_) => CachesAnswer::NotAsked,
            Caches::Probed(report) => match report.answer {
                CacheAnswer::Found(_) => CachesAnswer::Found,
                CacheAnswer::Partial(..) => CachesAnswer::Partial,
                CacheAnswer::Nothing(_) => CachesAnswer::NoSignal,
            },
        }
    }

    /// A section of a platform file: what was found, with what the machine says beside it, or only that.
    pub(super) fn section(&self, said: Option<&LlcSection>, source: &str) -> Option<LlcSection> {
        let Some(last) = self.found() else { return said.map(|said| as_said(said, &self.why().unwrap_or_default())) };
        let mut section = last.section(source);
        if let Some(why) = self.why() {
            section.source = format!("{source}: a part of the index, since {why}");
        }
        if let Some(said) = said {
            section.instances = said.instances;
        }
        Some(section)
    }

    /// Gives the serializable form.
    #[must_use]
    pub fn report(&self) -> CachesReport {
        let report = match self {
            Caches::Probed(report) => Some(report),
            Caches::NotAsked(_) => None,
        };
        let last = self.found();
        let bits = |functions: &Vec<u64>| functions.iter().map(|&mask| gf2::bits(mask).collect()).collect();
        let effort = report.map(|report| report.effort).unwrap_or_default();
        CachesReport {
            answer: self.answer(),
            why: self.why(),
            confidence: report.filter(|report| report.found().is_some()).map(|report| report.confidence()),
            ways: last.map(|last| last.ways),
            line_bytes: last.map(|last| last.line),
            set_bits: last.map(|last| last.set_bits.clone()),
            slices: last.and_then(LastLevel::slices),
            slice_functions: last.and_then(|last| match &last.slice {
                Slice::Functions(functions) => Some(bits(functions)),
                Slice::Known(_) | Slice::Unknown => None,
            }),
            known_hashes: match last.map(|last| &last.slice) {
                Some(Slice::Known(hashes)) => hashes.iter().map(|hash| hash.id.clone()).collect(),
                _ => Vec::new(),
            },
            page_colors: last.map(LastLevel::page_colors),
            predicted: report.and_then(|report| Some(report.congruence.as_ref()?.as_ref().ok()?.verified)),
            levels: report.map(|report| report.levels),
            accesses: effort.accesses,
            timed: effort.timed,
            decisions: effort.decisions,
        }
    }
}

/// What the machine says, marked as not measured.
pub(super) fn as_said(said: &LlcSection, why: &str) -> LlcSection {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    LlcSection { source: format!("{}; not measured{why}", said.source), ..said.clone() }
}
