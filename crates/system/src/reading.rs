//! The fields of a system file that a verb uses, does not consider, and must not ignore.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::considered::{Verb, decisive, left_out, used};
use crate::error::SystemError;
use crate::file::{BandwidthEntry, SystemFile};

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// Bytes of a cache line, of which `[regulator]` counts.
const LINE: u64 = 64;

/// Gives the fields that a verb does not consider and must not ignore: it refuses the file because of them. Budgets of bandwidth are none
/// for an analysis whose `[regulator]` grants no more.
#[must_use]
pub fn refused_because_of(file: &SystemFile, verb: Verb) -> Vec<&'static str> {
    let mut fields = decisive(file, verb);
    fields.retain(|&field| field != "task.bandwidth" || verb != Verb::Analyze || !regulator_is_within_budgets(file));
    fields
}

/// Whether the core of `[regulator]` gets no more than each task with a bandwidth: then the analysis considers these budgets.
fn regulator_is_within_budgets(file: &SystemFile) -> bool {
    let Some((period, lines)) = file.regulator.as_ref().and_then(|own| own.period.zip(own.lines)) else { return false };
    let kind = file.regulator.as_ref().and_then(|own| own.kind).unwrap_or_default();
    let budgets = file.tasks.iter().filter_map(|task| task.bandwidth);
    let within = |budget: BandwidthEntry| {
        let bytes = lines.get().checked_mul(LINE);
        budget.period == period && budget.kind == kind && bytes.is_some_and(|bytes| bytes <= budget.budget.bytes())
    };
    budgets.into_iter().all(within)
}

/// A system file that a verb reads.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The file.
    pub file: SystemFile,
    /// Fields that the verb does not consider.
    pub not_considered: Vec<String>,
}

impl Reading {
    /// Loads a file for a verb.
    ///
    /// # Errors
    /// As [`SystemFile::load`]; [`SystemError::Decisive`] for a field without which the verb could say yes where the answer is no.
    pub fn new(path: &Path, verb: Verb) -> Result<Reading, SystemError> {
        let file = SystemFile::load(path)?;
        let refused = refused_because_of(&file, verb);
        if !refused.is_empty() {
            let or_regulator = verb == Verb::Analyze && refused.contains(&"task.bandwidth");
            let (path, verb, fields) = (path.to_owned(), verb.name(), refused.join(", "));
            return Err(SystemError::Decisive { path, verb, fields, or_regulator });
        }
        let not_considered = left_out(&file, verb).into_iter().map(str::to_owned).collect();
        Ok(Reading { file, not_considered })
    }
}

/// The output of `memtint system check`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckReport {
    schema: u32,
    report: &'static str,
    /// The system file.
    system: String,
    /// Its use by each verb.
    verbs: Vec<VerbReport>,
}

/// Use of a system file by a verb.
#[derive(Debug, Serialize, JsonSchema)]
struct VerbReport {
    verb: &'static str,
    /// Fields that it uses.
    used: Vec<&'static str>,
    /// Fields that it passes over.
    not_considered: Vec<&'static str>,
    /// Fields without which its answer could be yes where it is no: it refuses the file.
    refused_because_of: Vec<&'static str>,
}

impl CheckReport {
    /// Makes the report of a file.
    #[must_use]
    pub fn of(path: &Path, file: &SystemFile) -> CheckReport {
        let verbs = Verb::ALL.map(|verb| VerbReport {
            verb: verb.name(),
            used: used(file, verb),
            not_considered: left_out(file, verb),
            refused_because_of: refused_because_of(file, verb),
        });
        CheckReport { schema: SCHEMA, report: "system check", system: path.display().to_string(), verbs: verbs.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_considered_by_a_regulator_that_grants_no_more() {
        let refused = |lines: u64| {
            let text = format!(
                "[regulator]\nperiod = \"1 ms\"\nlines = {lines}\n[[task]]\nname = \"a\"\n\
                 bandwidth = {{ budget = \"64 KiB\", period = \"1 ms\" }}\n"
            );
            refused_because_of(&SystemFile::parse(&text, "f").unwrap(), Verb::Analyze)
        };
        assert!(!refused(1024).contains(&"task.bandwidth"));
        assert!(refused(1025).contains(&"task.bandwidth"));
    }
}
