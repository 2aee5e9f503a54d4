//! The result of a probe of the last-level cache's index.

use crate::cache::{CacheAnswer, CacheLevels, CacheReport, LastLevel, Slice};
use memtint_map::file::LlcSection;
use memtint_map::gf2;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of a probe of the last-level cache's index.
#[derive(Debug)]
pub enum Caches {
    /// The cache was probed.
    Probed(Box<CacheReport>),
    /// The reason why it cannot be probed.
    NotAsked(String),
}

/// The kind of answer.
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

/// The report of the last-level cache.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CachesReport {
    /// Whether the index was found.
    pub answer: CachesAnswer,
    /// Why the index is incomplete; absent if it is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Confidence in the answer (a lower bound, assuming independent measurement errors); absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Ways; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
    /// Size of a line; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_bytes: Option<u64>,
    /// Address bits that only index the set, or only the slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_bits: Option<Vec<u32>>,
    /// Number of slices; absent when the hash is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices: Option<u32>,
    /// Address bits of each function beyond the set bits; absent when the hash is nonlinear or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_functions: Option<Vec<Vec<u32>>>,
    /// Published hashes that fit; empty where the hash is linear.
    pub known_hashes: Vec<String>,
    /// Set colors of pages; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_colors: Option<u64>,
    /// Number of fresh pairs predicted to share a set, and not to; all predictions were correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<[u32; 2]>,
    /// Levels of readings, in ticks; absent where the cache was not probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<CacheLevels>,
    /// All accesses.
    pub accesses: u64,
    /// Timed accesses.
    pub timed: u64,
    /// Decided tests.
    pub decisions: u64,
}

impl Caches {
    /// Returns the last level found, with the whole index or a part of it.
    #[must_use]
    pub fn found(&self) -> Option<&LastLevel> {
        match self {
            Caches::Probed(report) => report.found(),
            Caches::NotAsked(_) => None,
        }
    }

    /// Returns why the index is incomplete; `None` if it is complete.
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

    /// A section of a platform file: the last level found, supplemented by the machine's description, or only the
    /// latter.
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

/// The machine's description, marked as not measured.
pub(super) fn as_said(said: &LlcSection, why: &str) -> LlcSection {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    LlcSection { source: format!("{}; not measured{why}", said.source), ..said.clone() }
}
