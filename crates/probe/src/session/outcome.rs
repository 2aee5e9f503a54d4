//! A completed probe.

use super::LogPart;
use super::advice::advice;
use super::banks::{Banks, BanksReport};
use super::caches::{Caches, CachesReport};
use super::nodes::{Nodes, NodesReport};
use super::request::Request;
use super::subject::{Facts, Subject, SubjectReport};
use schemars::JsonSchema;
use serde::Serialize;

/// Schema version of the report.
const SCHEMA: u32 = 1;

/// The results of a probe. Parts that were not requested are absent.
#[derive(Debug)]
pub struct Outcome {
    /// The probed machine.
    pub subject: Subject,
    /// The request.
    pub request: Request,
    /// The machine's properties.
    pub facts: Facts,
    /// Banks.
    pub banks: Option<Banks>,
    /// The last-level cache.
    pub caches: Option<Caches>,
    /// Nodes.
    pub nodes: Option<Nodes>,
}

/// The report of a probe.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionReport {
    /// Schema version of this report.
    pub schema: u32,
    /// `probe`.
    #[schemars(extend("const" = "probe"))]
    pub report: &'static str,
    /// Probed parts.
    pub parts: Vec<LogPart>,
    /// Banks; absent when not requested.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub banks: Option<BanksReport>,
    /// The last-level cache; absent when not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc: Option<CachesReport>,
    /// NUMA nodes; absent when not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesReport>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Required confidence in a mapping.
    pub confidence_wanted: f64,
    /// The probed machine.
    pub oracle: SubjectReport,
}

impl Outcome {
    /// Returns whether the first requested part was found, at least partially.
    #[must_use]
    pub fn is_found(&self) -> bool {
        match (&self.banks, &self.caches, &self.nodes) {
            (Some(banks), ..) => banks.mapping().is_some(),
            (None, Some(caches), _) => caches.found().is_some(),
            (None, None, Some(nodes)) => nodes.is_measured(),
            (None, None, None) => false,
        }
    }

    /// Returns advice to improve the answer.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        advice(&self.subject, self.banks.as_ref().map(|banks| &banks.report), self.caches.as_ref())
    }

    /// Gives the serializable form.
    #[must_use]
    pub fn report(&self) -> SessionReport {
        SessionReport {
            schema: SCHEMA,
            report: "probe",
            parts: self.request.parts.clone(),
            banks: self.banks.as_ref().map(Banks::report),
            llc: self.caches.as_ref().map(Caches::report),
            nodes: self.nodes.as_ref().map(Nodes::report),
            seed: self.request.seed,
            confidence_wanted: self.request.confidence,
            oracle: self.subject.report(self.advice()),
        }
    }
}
