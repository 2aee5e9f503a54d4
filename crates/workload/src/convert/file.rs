//! Whole files, from and to memtint's traces.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Format, Losses, Writer, read};
use crate::{Source as _, TraceFile, TraceHeader, TraceWriter, UnfinishedFile, WorkloadError};

/// Version of the form of the report.
const SCHEMA: u32 = 1;

/// A conversion of a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConversionReport {
    /// Version of the form of this report.
    pub schema: u32,
    /// `trace conversion`.
    #[schemars(extend("const" = "trace conversion"))]
    pub report: &'static str,
    /// References that were converted.
    pub references: u64,
    /// Instructions that they represent.
    pub instructions: u64,
    /// Information that the output lacks.
    pub losses: Losses,
}

impl ConversionReport {
    fn new(references: u64, instructions: u64, losses: Losses) -> ConversionReport {
        ConversionReport { schema: SCHEMA, report: "trace conversion", references, instructions, losses }
    }
}

/// Makes a memtint trace from another simulator's. `origin` is the input's name, in messages and in the trace.
///
/// # Errors
/// [`WorkloadError::Foreign`] with the line or record; [`WorkloadError::Io`] for the output.
pub fn import(
    format: Format,
    input: &mut dyn BufRead,
    origin: &str,
    output: &Path,
) -> Result<ConversionReport, WorkloadError> {
    let mut header = TraceHeader::named(origin);
    header.notes.push(format!("converted from a {format:?} trace"));
    let mut writer = TraceWriter::create(output, &header)?;
    let mut instructions = 0;
    let trailing = read(format, input, origin, &mut |reference| {
        instructions += reference.instructions();
        writer.push(0, &reference)
    })?;
    writer.end_window(0, instructions + trailing)?;
    let ending = writer.finish(None, Vec::new())?;
    Ok(ConversionReport::new(ending.references(), ending.instructions(), Losses::default()))
}

/// Makes another simulator's trace from a stream of a memtint trace.
///
/// # Errors
/// [`WorkloadError`] for a format that can only be read, a damaged trace, and an output that cannot be written; nothing is left behind
/// then.
pub fn export(format: Format, file: &TraceFile, stream: u32, output: &Path) -> Result<ConversionReport, WorkloadError> {
    let mut source = file.source(stream);
    let mut out = UnfinishedFile::create(output)?;
    let unwritten = |cause| WorkloadError::Io { path: PathBuf::from(output), done: "written", cause };
    let mut writer = Writer::new(format, &mut out)?;
    let (mut references, mut instructions) = (0, 0);
    while let Some(reference) = source.next() {
        writer.push(&reference).map_err(unwritten)?;
        references += 1;
        instructions += reference.instructions();
    }
    if let Some(failure) = source.into_failure() {
        return Err(failure);
    }
    let total = file.streams().iter().find(|summary| summary.stream == stream).map_or(0, |s| s.instructions);
    let losses = writer.finish(total.saturating_sub(instructions)).map_err(unwritten)?;
    out.finish()?;
    Ok(ConversionReport::new(references, instructions, losses))
}
