//! A probe that has come to its end.

use super::LogPart;
use super::advice::advice;
use super::banks::{Banks, BanksReport};
use super::caches::{Caches, CachesReport};
use super::nodes::{Nodes, NodesReport};
use super::request::Request;
use super::subject::{Facts, Subject, SubjectReport};
use schemars::JsonSchema;
use serde::Serialize;

/// Version of the form of the report.
const SCHEMA: u32 = 1;

/// What a probe found. Parts that were not looked for are absent.
#[derive(Debug)]
pub struct Outcome {
    /// The machine that answered.
    pub subject: Subject,
    /// What was wanted.
    pub request: Request,
    /// What the machine says of itself.
    pub facts: Facts,
    /// Banks.
    pub banks: Option<Banks>,
    /// The last-level cache.
    pub caches: Option<Caches>,
    /// Nodes.
    pub nodes: Option<Nodes>,
}

/// A probe, in a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionReport {
    /// Version of the form of this report.
    pub schema: u32,
    /// `probe`.
    #[schemars(extend("const" = "probe"))]
    pub report: &'static str,
    /// What was looked for.
    pub parts: Vec<LogPart>,
    /// About banks; absent when they were not looked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub banks: Option<BanksReport>,
    /// The last-level cache; absent when it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc: Option<CachesReport>,
    /// NUMA nodes; absent when they were not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesReport>,
    /// Seed of all that was drawn.
    pub seed: u64,
    /// Probability with which a mapping has to be right.
    pub confidence_wanted: f64,
    /// The machine that answered.
    pub oracle: SubjectReport,
}

impl Outcome {
    /// Tells whether the first of what was looked for was found, or a part of it.
    #[must_use]
    pub fn is_found(&self) -> bool {
        match (&self.banks, &self.caches, &self.nodes) {
            (Some(banks), ..) => banks.mapping().is_some(),
            (None, Some(caches), _) => caches.found().is_some(),
            (None, None, Some(nodes)) => nodes.is_measured(),
            (None, None, None) => false,
        }
    }

    /// Gives what would make the answer better.
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
