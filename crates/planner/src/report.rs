//! The report of a plan.

use memtint_analysis::AnalysisReport;
use memtint_hiding::BEYOND_STANDARD;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Plan, Why};

/// Version of the form of the report.
const SCHEMA: u32 = 1;

/// The best plan for a file of tasks and memory, or why there is none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlanReport {
    /// Version of the form of this report.
    pub schema: u32,
    /// Which report it is.
    #[schemars(extend("const" = "refresh plan"))]
    pub report: &'static str,
    /// Fields of the system file that no plan considers.
    pub not_considered: Vec<String>,
    /// The system file with the plan in it, in TOML; null where there is no plan.
    pub plan: Option<String>,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The space searched, and whether the plan is proved best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Properties of memory that the plan requires and the standard does not guarantee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond_standard: Option<&'static str>,
    /// The plan as memtint analyze judges it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<AnalysisReport>,
}

impl PlanReport {
    /// Reports a plan that the analysis accepts.
    #[must_use]
    pub fn found(plan: &Plan, analysis: AnalysisReport, not_considered: Vec<String>) -> PlanReport {
        PlanReport {
            plan: Some(plan.file.to_string()),
            why: Some(plan.why.clone()),
            beyond_standard: Some(BEYOND_STANDARD),
            analysis: Some(analysis),
            ..PlanReport::empty(not_considered)
        }
    }

    /// Reports that there is no plan.
    #[must_use]
    pub fn none(because: String, not_considered: Vec<String>) -> PlanReport {
        PlanReport { because: Some(because), ..PlanReport::empty(not_considered) }
    }

    fn empty(not_considered: Vec<String>) -> PlanReport {
        PlanReport {
            schema: SCHEMA,
            report: "refresh plan",
            not_considered,
            plan: None,
            because: None,
            why: None,
            beyond_standard: None,
            analysis: None,
        }
    }
}
