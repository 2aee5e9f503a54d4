//! What a probe found of the last-level cache, for people and for programs.

use std::fmt::{self, Write as _};

use memtint_map::file::LlcSection;
use memtint_map::gf2;
use memtint_probe::cache::{CacheAnswer, CacheLevels, CacheReport, LastLevel, NotLinear, Slice};
use schemars::JsonSchema;
use serde::Serialize;

use super::report::{function, list};

/// Published hashes that are shown beside the machine's, at most.
const SCORES_SHOWN: usize = 3;

/// What came of looking for the last-level cache's index.
pub(super) enum Caches {
    Probed(Box<CacheReport>),
    /// Why nobody could be asked.
    NotAsked(String),
}

#[derive(Serialize, JsonSchema)]
pub(super) struct CachesJson {
    answer: &'static str,
    /// Why it is not the whole index; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Probability with which the answer is right at least, as far as readings err independently; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ways: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_bytes: Option<u64>,
    /// Address bits that index the set alone, or the slice alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_bits: Option<Vec<u32>>,
    /// Absent when the hash is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    slices: Option<u32>,
    /// Address bits of each function beyond the set bits; absent when the hash is not linear, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    slice_functions: Option<Vec<Vec<u32>>>,
    /// Published hashes that fit; empty where the hash is linear.
    known_hashes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_colors: Option<u64>,
    /// Fresh pairs that were predicted to be of one set, and not to be; all predictions came true.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<[u32; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<LevelsJson>,
    accesses: u64,
    timed: u64,
    decisions: u64,
}

/// In ticks.
#[derive(Serialize, JsonSchema)]
struct LevelsJson {
    /// A line that was just read.
    near: f64,
    /// One that was pushed out of the private caches since.
    hit: f64,
    memory: f64,
    threshold: f64,
    /// Share of readings on the wrong side of the threshold.
    mistaken: f64,
}

impl Caches {
    pub(super) fn found(&self) -> Option<&LastLevel> {
        match self {
            Caches::Probed(report) => report.found(),
            Caches::NotAsked(_) => None,
        }
    }

    /// Why it is not the whole index.
    pub(super) fn why(&self) -> Option<String> {
        match self {
            Caches::NotAsked(why) => Some(why.clone()),
            Caches::Probed(report) => match &report.answer {
                CacheAnswer::Found(_) => None,
                CacheAnswer::Partial(_, why) => Some(why.clone()),
                CacheAnswer::Nothing(why) => Some(why.to_string()),
            },
        }
    }

    fn answer(&self) -> &'static str {
        match self {
            Caches::NotAsked(_) => "not_asked",
            Caches::Probed(report) => match report.answer {
                CacheAnswer::Found(_) => "found",
                CacheAnswer::Partial(..) => "partial",
                CacheAnswer::Nothing(_) => "no_signal",
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

    pub(super) fn to_json(&self) -> CachesJson {
        let report = match self {
            Caches::Probed(report) => Some(report),
            Caches::NotAsked(_) => None,
        };
        let last = self.found();
        let bits = |functions: &Vec<u64>| functions.iter().map(|&mask| gf2::bits(mask).collect()).collect();
        let effort = report.map(|report| report.effort).unwrap_or_default();
        CachesJson {
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
            levels: report.map(|report| {
                let CacheLevels { near, hit, memory, threshold, mistaken } = report.levels;
                LevelsJson { near, hit, memory, threshold, mistaken }
            }),
            accesses: effort.accesses,
            timed: effort.timed,
            decisions: effort.decisions,
        }
    }

    pub(super) fn write(&self, out: &mut String) -> fmt::Result {
        let report = match self {
            Caches::NotAsked(why) => return writeln!(out, "last level  not looked at: {why}"),
            Caches::Probed(report) => report,
        };
        match &report.answer {
            CacheAnswer::Found(_) => writeln!(out, "last level  found, {}", sure(report))?,
            CacheAnswer::Partial(_, why) => {
                writeln!(out, "last level  a part of it, {}", sure(report))?;
                writeln!(out, "not known   {why}")?;
            }
            CacheAnswer::Nothing(why) => writeln!(out, "last level  no signal here: {why}")?,
        }
        if let Some(last) = self.found() {
            write_last(out, last)?;
        }
        match &report.congruence {
            Some(Ok(linear)) => {
                let [congruent, apart] = linear.verified;
                writeln!(
                    out,
                    "predicted   {congruent} pairs of one set, {apart} of two: all came true; covers address bits {}",
                    list(linear.covered)
                )?;
            }
            Some(Err(NotLinear::Moves { elsewhere, at_home })) => {
                writeln!(
                    out,
                    "not linear  lines of one set evict {at_home} times where they were found, and {elsewhere} times elsewhere"
                )?;
            }
            Some(Err(_)) | None => {}
        }
        for score in report.scores.iter().take(SCORES_SHOWN) {
            writeln!(out, "published   {}: {} of {} pairs agree", score.id, score.agreeing, score.compared)?;
        }
        let CacheLevels { near, hit, memory, .. } = report.levels;
        writeln!(
            out,
            "levels      a line just read {near:.0} ticks, pushed out of private caches {hit:.0}, from memory {memory:.0}"
        )?;
        if hit <= near {
            writeln!(
                out,
                "            as many lines as twice the ways of the private caches, as the machine names them, do not push one out"
            )?;
        }
        let effort = report.effort;
        writeln!(
            out,
            "accesses    {}, {} of them timed, for {} decisions",
            effort.accesses, effort.timed, effort.decisions
        )
    }
}

fn write_last(out: &mut String, last: &LastLevel) -> fmt::Result {
    let set_mask = last.set_bits.iter().fold(0, |mask, bit| mask | 1u64 << bit);
    writeln!(out, "geometry    {} ways, lines of {} bytes", last.ways, last.line)?;
    writeln!(out, "set bits    {}", list(set_mask))?;
    match &last.slice {
        Slice::Functions(functions) if functions.is_empty() => writeln!(out, "slices      1")?,
        Slice::Functions(functions) => {
            let functions: Vec<String> = functions.iter().map(|&mask| function(mask)).collect();
            writeln!(out, "slices      {}: {}", 1u64 << functions.len(), functions.join(" "))?;
        }
        Slice::Known(hashes) => {
            let names: Vec<&str> = hashes.iter().map(|hash| hash.id.as_str()).collect();
            writeln!(out, "slices      {}, by the published hash {}", hashes[0].slices, names.join(", or "))?;
        }
        Slice::Unknown => writeln!(out, "slices      not known")?,
    }
    writeln!(out, "set colors  {} of pages", last.page_colors())
}

/// What the machine says, marked as not measured.
pub(super) fn as_said(said: &LlcSection, why: &str) -> LlcSection {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    LlcSection { source: format!("{}; not measured{why}", said.source), ..said.clone() }
}

fn sure(report: &CacheReport) -> String {
    // Never more than what was computed.
    let share = (report.confidence() * 1e6).floor() / 1e4;
    format!("right with a probability of {share:.4} % at least, as far as readings err independently")
}
