//! Published algorithms for finding a mapping, for comparison.

use super::error::SessionError;
use super::request::{Algorithm, Request};
use super::source::Source;
use super::subject::{Subject, SubjectReport};
use crate::baseline::{Bpm, Outcome, Palloc, Stopped};
use crate::oracle::Oracle;
use memtint_map::gf2;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Schema version of the report.
const SCHEMA: u32 = 1;

/// The result of a published algorithm.
#[derive(Debug)]
pub struct Published {
    /// The algorithm, and its parameters.
    pub request: Request,
    /// The probed machine.
    pub subject: Subject,
    /// Its result, or the reason why it stopped.
    pub outcome: Outcome,
    /// Whether the functions are those of the machine; `None` where unknown.
    pub right: Option<bool>,
}

/// The report of a published algorithm.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PublishedReport {
    /// Schema version of this report.
    pub schema: u32,
    /// `probe-baseline`.
    #[schemars(extend("const" = "probe-baseline"))]
    pub report: &'static str,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Address bits of each bank function; empty when nothing was found.
    pub functions: Vec<Vec<u32>>,
    /// Address bits that select the row; absent when not searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_bits: Option<Vec<u32>>,
    /// Address bits that select the column; absent when not searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column_bits: Option<Vec<u32>>,
    /// Why nothing was found; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Whether the functions are those of the machine; absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
    /// Timed accesses.
    pub accesses: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The probed machine.
    pub oracle: SubjectReport,
}

impl Source {
    /// Runs the published algorithm of the request.
    ///
    /// # Errors
    /// [`SessionError::Banks`] for PALLOC without a number of banks that is a power of two; those of the oracle.
    pub fn run_published(mut self) -> Result<Published, SessionError> {
        let request = self.request().clone();
        let outcome = self.dram(|oracle| run(&request, oracle))?;
        let (subject, _) = self.finish()?;
        let right = match (&subject, &outcome.result) {
            (Subject::Simulated { machine, .. }, Ok(found)) => Some(found.is_of(machine)),
            _ => None,
        };
        Ok(Published { request, subject, outcome, right })
    }
}

fn run(request: &Request, oracle: &mut dyn Oracle) -> Result<Outcome, SessionError> {
    let &Request { algorithm, banks, repeats, seed, .. } = request;
    Ok(match algorithm {
        Algorithm::Palloc => {
            let banks = banks.filter(|banks| *banks > 1 && banks.is_power_of_two());
            let published = Palloc::published(banks.ok_or(SessionError::Banks { found: request.banks })?);
            Palloc { accesses: repeats.unwrap_or(published.accesses), ..published }.run(oracle, seed)?
        }
        Algorithm::Bpm | Algorithm::Own => {
            Bpm { repeats: repeats.unwrap_or(Bpm::published().repeats) }.run(oracle, seed)?
        }
    })
}

impl Published {
    /// Gives the serializable form.
    #[must_use]
    pub fn report(&self) -> PublishedReport {
        let bits = |mask: u64| gf2::bits(mask).collect::<Vec<u32>>();
        let found = self.outcome.result.as_ref().ok();
        PublishedReport {
            schema: SCHEMA,
            report: "probe-baseline",
            algorithm: self.request.algorithm,
            functions: found.map_or_else(Vec::new, |found| found.functions.iter().map(|&mask| bits(mask)).collect()),
            row_bits: found.and_then(|found| found.row_bits.map(bits)),
            column_bits: found.and_then(|found| found.column_bits.map(bits)),
            stopped: self.outcome.result.as_ref().err().map(ToString::to_string),
            right: self.right,
            accesses: self.outcome.accesses,
            seed: self.request.seed,
            oracle: self.subject.report(Vec::new()),
        }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::NoOtherCore => f.write_str("the machine has no other core"),
            Stopped::NoMemory => f.write_str("the pool does not have the addresses that are asked for"),
            Stopped::NoRowBit => f.write_str("flipping one bit never makes a row conflict"),
            Stopped::NoSet => f.write_str("no addresses stand out as slow"),
            Stopped::NoFunction => f.write_str("no function is left"),
            Stopped::Functions(found, needed) => write!(f, "{found} functions are found, {needed} are needed"),
            Stopped::RowBits(found, needed) => write!(f, "{found} row bits are found, {needed} are needed"),
            Stopped::Endless => f.write_str("the published program would go on for ages"),
        }
    }
}
