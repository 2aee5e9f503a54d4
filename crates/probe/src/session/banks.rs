//! The result of a probe of banks.

use super::area::AreaReport;
use super::seen::{Quartiles, Seen};
use crate::pool::Pool;
use crate::report::{Answer, Attempt, Mapping, Report};
use schemars::JsonSchema;
use serde::Serialize;

/// The result of a probe of banks.
#[derive(Clone, Debug)]
pub struct Banks {
    /// The answer and its evidence.
    pub report: Report,
    /// Times of all accesses.
    pub seen: Seen,
    /// Probed memory.
    pub pool: PoolReport,
}

/// The kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BanksAnswer {
    /// The mapping of the whole pool.
    Mapping,
    /// An incomplete mapping.
    Partial,
    /// No mapping.
    NoBankSignal,
}

/// The report of banks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BanksReport {
    /// Whether there is a mapping.
    pub answer: BanksAnswer,
    /// Confidence in the mapping (a lower bound, assuming independent measurement errors); absent without a mapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Parts of memory with different functions, the largest first.
    pub areas: Vec<AreaReport>,
    /// Missing parts of an incomplete mapping.
    pub missing: Vec<String>,
    /// Largest separation of two levels, in deviations of one sample; absent when nothing stood out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separation: Option<f64>,
    /// All assumptions tried.
    pub attempts: Vec<AttemptReport>,
    /// Probed memory.
    pub pool: PoolReport,
    /// Cost of the probe.
    pub effort: EffortReport,
    /// Lower bounds for any method to find this mapping; absent without a mapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<LeastReport>,
    /// Time of an undisturbed access.
    pub baseline_ticks: f64,
    /// Times of all requests.
    pub readings: ReadingsReport,
}

/// One assumption tried.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AttemptReport {
    /// The assumption.
    pub assumption: String,
    /// Why it failed; absent when it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Separation of conflicts, in deviations of one sample; absent when nothing stood out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separation: Option<f64>,
    /// Timed accesses.
    pub accesses: u64,
}

/// Probed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolReport {
    /// Its size.
    pub bytes: u64,
    /// Contiguous pieces.
    pub pieces: usize,
    /// Number of known low address bits.
    pub known_bits: u32,
}

/// Cost of a probe of banks.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct EffortReport {
    /// Timed accesses.
    pub accesses: u64,
    /// Requests to the machine.
    pub calls: u64,
    /// Decided differences.
    pub decisions: u64,
    /// Time of all timed accesses.
    pub ticks: u64,
}

/// Times of requests; the time of a request is the median of its readings.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ReadingsReport {
    /// Two addresses in turn.
    pub pairs: Option<Quartiles>,
    /// A single address, without conflicts.
    pub alone: Option<Quartiles>,
}

/// Lower bounds for any method to find a mapping.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LeastReport {
    /// Information in the mapping.
    pub bits: f64,
    /// Random pairs that give this information.
    pub random_pairs: f64,
}

impl Banks {
    /// Combines an answer and the times of its accesses.
    #[must_use]
    pub fn new(report: Report, seen: Seen, pool: &Pool) -> Banks {
        Banks { report, seen, pool: PoolReport::of(pool) }
    }

    /// Gives the mapping, if there is one.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.report.answer {
            Answer::Mapping(mapping) | Answer::Partial(mapping, _) => Some(mapping),
            Answer::NoBankSignal(_) => None,
        }
    }

    /// Returns the missing parts of an incomplete mapping.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        match &self.report.answer {
            Answer::Partial(_, missing) => missing.iter().map(ToString::to_string).collect(),
            Answer::Mapping(_) | Answer::NoBankSignal(_) => Vec::new(),
        }
    }

    /// Gives the serializable form.
    #[must_use]
    pub fn report(&self) -> BanksReport {
        let (report, effort) = (&self.report, self.report.effort);
        BanksReport {
            answer: match &report.answer {
                Answer::Mapping(_) => BanksAnswer::Mapping,
                Answer::Partial(..) => BanksAnswer::Partial,
                Answer::NoBankSignal(_) => BanksAnswer::NoBankSignal,
            },
            confidence: self.mapping().map(|mapping| mapping.confidence),
            areas: self.mapping().map_or_else(Vec::new, |mapping| mapping.areas.iter().map(AreaReport::of).collect()),
            missing: self.missing(),
            separation: report.attempts.iter().filter_map(|attempt| attempt.separation).reduce(f64::max),
            attempts: report.attempts.iter().map(AttemptReport::of).collect(),
            pool: self.pool,
            effort: EffortReport {
                accesses: effort.accesses,
                calls: effort.calls,
                decisions: effort.decisions,
                ticks: self.seen.ticks,
            },
            least: report.least().map(|(bits, random_pairs)| LeastReport { bits, random_pairs }),
            baseline_ticks: report.baseline,
            readings: ReadingsReport { pairs: Quartiles::of(&self.seen.pairs), alone: Quartiles::of(&self.seen.alone) },
        }
    }
}

impl AttemptReport {
    fn of(attempt: &Attempt) -> AttemptReport {
        AttemptReport {
            assumption: attempt.assumption.clone(),
            failed: attempt.failed.map(|failed| failed.to_string()),
            separation: attempt.separation,
            accesses: attempt.accesses,
        }
    }
}

impl PoolReport {
    pub(super) fn of(pool: &Pool) -> PoolReport {
        PoolReport { bytes: pool.bytes(), pieces: pool.pieces().len(), known_bits: pool.known_bits() }
    }
}
