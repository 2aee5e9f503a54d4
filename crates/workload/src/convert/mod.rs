//! Traces of other simulators: read into references, and written from them.
//!
//! These formats carry less information than a memtint trace. Missing fields are filled in as each format's own simulator would assume
//! them, and lost information is counted in [`Losses`].

mod champsim;
mod dramsim3;
mod file;
mod ramulator2;

use std::io::{BufRead, Read as _, Write};

use schemars::JsonSchema;
use serde::Serialize;

pub use self::file::{ConversionReport, export, import};
use crate::{Kind, Reference, WorkloadError};

/// A format of another simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// DRAMsim3: lines `ADDRESS READ|WRITE CYCLE`, the address in hexadecimal. A cycle counts as an instruction:
    /// references in the same cycle share one. The words of its predecessor (`P_MEM_RD`, `P_MEM_WR`) are read too.
    Dramsim3,
    /// Ramulator 2, memory trace: lines `LD ADDRESS` or `ST ADDRESS`; addresses in decimal, or in hexadecimal after
    /// `0x`. It has no instructions in between.
    Ramulator2,
    /// Ramulator 2, processor trace: lines `BUBBLES LOAD [STORE]`, all decimal: the number of instructions without
    /// memory, a load, and a store (a line written back) beside it.
    Ramulator2Cpu,
    /// ChampSim: records of 64 bytes, one an instruction, with up to four addresses read and two written; 0 is none.
    /// Sizes are not recorded: 8 bytes are assumed. Can only be read.
    Champsim,
}

/// Information that a conversion could not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Losses {
    /// Instruction fetches, left out.
    pub fetches: u64,
    /// Stores without a load beside them, written as a load and a store of their address.
    pub lone_stores: u64,
    /// References that depend on the load before them, written as any other.
    pub dependences: u64,
    /// References of another size than a line of 64 bytes, written as a line.
    pub sizes: u64,
    /// Instructions that are not in the output.
    pub instructions: u64,
}

/// Reads a trace and calls `each` for each of its references, in constant memory. Returns the number of instructions
/// after the last one. `origin` stands for the file in messages.
///
/// Errors: [`WorkloadError::Foreign`] with the line or record; those of `each`.
pub fn read(
    format: Format,
    input: &mut dyn BufRead,
    origin: &str,
    each: &mut dyn FnMut(Reference) -> Result<(), WorkloadError>,
) -> Result<u64, WorkloadError> {
    match format {
        Format::Dramsim3 => dramsim3::read(input, origin, each),
        Format::Ramulator2 => ramulator2::read_memory(input, origin, each),
        Format::Ramulator2Cpu => ramulator2::read_processor(input, origin, each),
        Format::Champsim => champsim::read(input, origin, each),
    }
}

/// Writes references as a trace of another simulator.
pub struct Writer<'a> {
    format: Format,
    out: &'a mut dyn Write,
    position: u64,
    processor: ramulator2::Processor,
    losses: Losses,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("format", &self.format).field("losses", &self.losses).finish_non_exhaustive()
    }
}

impl<'a> Writer<'a> {
    /// Begins a trace. Refuses a format that can only be read.
    pub fn new(format: Format, out: &'a mut dyn Write) -> Result<Writer<'a>, WorkloadError> {
        if format == Format::Champsim {
            let accepted = "dramsim3, ramulator2, ramulator2-cpu: its records need registers and branches";
            return Err(WorkloadError::parameter("convert", "to", "champsim", accepted));
        }
        Ok(Writer { format, out, position: 0, processor: Default::default(), losses: Losses::default() })
    }

    /// Writes one reference.
    pub fn push(&mut self, reference: &Reference) -> std::io::Result<()> {
        let before = self.position + u64::from(reference.gap);
        self.position += reference.instructions();
        if reference.kind == Kind::Fetch {
            self.losses.fetches += 1;
            return Ok(());
        }
        self.losses.dependences += u64::from(reference.depends);
        self.losses.sizes += u64::from(reference.bytes != 64);
        match self.format {
            // A reference that shares its instruction is in the cycle of the previous one.
            Format::Dramsim3 => {
                let cycle = if reference.shares { before.saturating_sub(1) } else { before };
                dramsim3::write(self.out, reference, cycle)
            }
            Format::Ramulator2Cpu => self.processor.write(self.out, reference, &mut self.losses),
            _ => {
                self.losses.instructions += reference.instructions();
                ramulator2::write_memory(self.out, reference)
            }
        }
    }

    /// Writes the rest of the trace; `trailing_instructions` follow the last reference.
    pub fn finish(mut self, trailing_instructions: u64) -> std::io::Result<Losses> {
        self.processor.flush(self.out)?;
        self.losses.instructions += trailing_instructions;
        self.out.flush()?;
        Ok(self.losses)
    }
}

/// Lines of a text, without their ends; blank ones are left out.
struct Lines<'a> {
    input: &'a mut dyn BufRead,
    origin: &'a str,
    number: u64,
    line: Vec<u8>,
}

/// Longest line of these formats.
const LINE_MAX: u64 = 1024;

impl<'a> Lines<'a> {
    fn new(input: &'a mut dyn BufRead, origin: &'a str) -> Lines<'a> {
        Lines { input, origin, number: 0, line: Vec::new() }
    }

    /// Splits the next line into its words; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<&str>>, WorkloadError> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = (&mut *self.input).take(LINE_MAX + 1).read_until(b'\n', &mut self.line);
            let read = read.map_err(|cause| WorkloadError::Io { path: self.origin.into(), done: "read", cause })?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 > LINE_MAX {
                return Err(self.wrong(format!("is longer than {LINE_MAX} bytes; accepted are shorter lines")));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        match std::str::from_utf8(&self.line) {
            Ok(text) => Ok(Some(text.split_ascii_whitespace().collect())),
            Err(_) => Err(wrong(self.origin, self.number, "is no text: is the file compressed, or of another format?")),
        }
    }

    fn wrong(&self, problem: impl Into<String>) -> WorkloadError {
        wrong(self.origin, self.number, problem)
    }
}

fn wrong(origin: &str, number: u64, problem: impl Into<String>) -> WorkloadError {
    WorkloadError::Foreign { origin: origin.to_owned(), unit: "line", number, problem: problem.into() }
}

/// A number in decimal, or in hexadecimal after `0x`.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits),
        None => decimal(word),
    }
}

/// A number of digits alone: no sign.
fn decimal(word: &str) -> Option<u64> {
    word.parse().ok().filter(|_| !word.starts_with('+'))
}

/// A number of hexadecimal digits alone.
fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok().filter(|_| !word.starts_with('+'))
}
