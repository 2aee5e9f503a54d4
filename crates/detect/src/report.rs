//! Properties of a machine, in machine-readable form.

use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::Machine;
use crate::uarch::{Candidate, candidates, microarchitecture};

/// Output of `memtint platform detect`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DetectReport<'a> {
    schema: u32,
    report: &'static str,
    machine: &'a Machine,
    microarchitecture: Option<String>,
    /// Catalogue entries for relatives; to be confirmed by probing.
    candidates: Vec<Candidate>,
}

impl DetectReport<'_> {
    /// Makes the report of a machine.
    #[must_use]
    pub fn of(machine: &Machine) -> DetectReport<'_> {
        DetectReport {
            schema: 1,
            report: "machine",
            microarchitecture: machine.processor.as_ref().and_then(microarchitecture).map(|row| row.name),
            candidates: candidates(machine),
            machine,
        }
    }
}
