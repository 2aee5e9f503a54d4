//! `memtint probe --algorithm`: published ways to look for a mapping, to compare with.

use std::fmt::{self, Write as _};
use std::process::ExitCode;

use memtint_map::gf2;
use memtint_probe::baseline::{Bpm, Found, Outcome, Palloc, Stopped};
use schemars::JsonSchema;
use serde::Serialize;

use super::asked::{Asked, Source};
use super::report::{OracleJson, function, list};
use crate::Ending;
use crate::output::{Failure, Format, print, print_json};

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// How a mapping is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Algorithm {
    /// memtint's own.
    Own,
    /// The detector of PALLOC (Yun et al., RTAS 2014): two cores, and one bit after the other, or pairs of bits.
    Palloc,
    /// Algorithm 1 of BPM (Liu et al., PACT 2012): row bits, column bits, then pairs of bits.
    Bpm,
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Algorithm::Own => "own",
            Algorithm::Palloc => "palloc",
            Algorithm::Bpm => "bpm",
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Json<'a> {
    schema: u32,
    report: &'static str,
    algorithm: &'static str,
    /// Address bits of each bank function; empty when nothing was found.
    functions: Vec<Vec<u32>>,
    /// Absent when they were not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    row_bits: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column_bits: Option<Vec<u32>>,
    /// Why nothing was found; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    /// Whether the functions are those of the machine; absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    right: Option<bool>,
    accesses: u64,
    seed: u64,
    oracle: OracleJson<'a>,
}

pub(super) fn main(mut source: Source, format: Format) -> Ending {
    let wanted = source.wanted.clone();
    let algorithm = wanted.algorithm;
    let run = |oracle: &mut dyn memtint_probe::Oracle| -> Result<Outcome, Failure> {
        Ok(match algorithm {
            Algorithm::Palloc => {
                let banks = wanted.banks.filter(|banks| banks.is_power_of_two()).ok_or_else(|| {
                    let found = wanted.banks.map_or_else(|| "nothing".to_owned(), |banks| banks.to_string());
                    Failure::Sentence(format!(
                        "--banks: {found} found; accepted with palloc is a power of two from 2 on"
                    ))
                })?;
                let published = Palloc::published(banks);
                Palloc { accesses: wanted.repeats.unwrap_or(published.accesses), ..published }
                    .run(oracle, wanted.seed)?
            }
            Algorithm::Bpm | Algorithm::Own => {
                Bpm { repeats: wanted.repeats.unwrap_or(Bpm::published().repeats) }.run(oracle, wanted.seed)?
            }
        })
    };
    let outcome = source.dram(run)?;
    let (asked, _) = source.finish()?;
    let found = outcome.result.as_ref().ok();
    let right = match (&asked, found) {
        (Asked::Simulated { machine, .. }, Some(found)) => Some(found.is_of(machine)),
        _ => None,
    };
    match format {
        Format::Json => {
            let bits = |mask: u64| gf2::bits(mask).collect::<Vec<u32>>();
            print_json(&Json {
                schema: SCHEMA,
                report: "probe-baseline",
                algorithm: algorithm.name(),
                functions: found
                    .map_or_else(Vec::new, |found| found.functions.iter().map(|&mask| bits(mask)).collect()),
                row_bits: found.and_then(|found| found.row_bits.map(bits)),
                column_bits: found.and_then(|found| found.column_bits.map(bits)),
                stopped: outcome.result.as_ref().err().map(|&stopped| words(stopped)),
                right,
                accesses: outcome.accesses,
                seed: wanted.seed,
                oracle: asked.to_json(Vec::new()),
            })?;
        }
        Format::Text => print(&text(algorithm, &asked, &outcome, right))?,
    }
    Ok(ExitCode::from(u8::from(found.is_none())))
}

fn text(algorithm: Algorithm, asked: &Asked, outcome: &Outcome, right: Option<bool>) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write(&mut out, algorithm, asked, outcome, right);
    out
}

fn write(out: &mut String, algorithm: Algorithm, asked: &Asked, outcome: &Outcome, right: Option<bool>) -> fmt::Result {
    let name = algorithm.name();
    match &outcome.result {
        Ok(Found { functions, row_bits, column_bits }) => {
            let checked = match right {
                Some(true) => "it is the machine's",
                Some(false) => "it is not the machine's",
                None => "nobody has checked it",
            };
            writeln!(out, "answer      {name} says that this is the mapping; {checked}")?;
            let functions: Vec<String> = functions.iter().map(|&mask| function(mask)).collect();
            writeln!(out, "functions   {}", functions.join(" "))?;
            for (what, bits) in [("rows", row_bits), ("columns", column_bits)] {
                if let Some(bits) = bits {
                    writeln!(out, "{what:<12}{}", list(*bits))?;
                }
            }
        }
        Err(stopped) => writeln!(out, "answer      {name} gives none: {}", words(*stopped))?,
    }
    writeln!(out, "accesses    {}", outcome.accesses)?;
    writeln!(out, "asked       {}", asked)?;
    asked.write_details(out)
}

fn words(stopped: Stopped) -> String {
    match stopped {
        Stopped::NoOtherCore => "the machine has no other core".to_owned(),
        Stopped::NoMemory => "the pool does not have the addresses that are asked for".to_owned(),
        Stopped::NoRowBit => "flipping one bit never makes a row conflict".to_owned(),
        Stopped::NoSet => "no addresses stand out as slow".to_owned(),
        Stopped::NoFunction => "no function is left".to_owned(),
        Stopped::Functions(found, needed) => format!("{found} functions are found, {needed} are needed"),
        Stopped::RowBits(found, needed) => format!("{found} row bits are found, {needed} are needed"),
        Stopped::Endless => "the published program would go on for ages".to_owned(),
    }
}
