//! The report on a trace file.

use schemars::JsonSchema;
use serde::Serialize;

use super::{TraceEnding, TraceFile, TraceHeader};
use crate::{Analysis, AnalysisReport, Reference, Source as _, WorkloadError};

/// Version of the form of the report.
const SCHEMA: u32 = 1;
/// References that are read at a time.
const BATCH: usize = 4096;

/// Content of a trace file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceReport {
    /// Version of the form of this report.
    pub schema: u32,
    /// `trace`.
    #[schemars(extend("const" = "trace"))]
    pub report: &'static str,
    /// Size of the file.
    pub file_bytes: u64,
    /// References of all streams.
    pub references: u64,
    /// Instructions of all streams that were recorded.
    pub instructions: u64,
    /// The beginning of the file.
    pub header: TraceHeader,
    /// The end of the file.
    pub ending: TraceEnding,
    /// Characteristics of the references.
    pub analysis: AnalysisReport,
}

impl TraceFile {
    /// Reads all streams, one after the other, so that each block is verified, and reports on them.
    ///
    /// # Errors
    /// [`WorkloadError`] for a file that is damaged or cannot be read.
    pub fn report(&self) -> Result<TraceReport, WorkloadError> {
        self.verify()?;
        let mut analysis = Analysis::default();
        let mut batch = vec![Reference::default(); BATCH];
        for stream in self.streams() {
            let mut source = self.source(stream.stream);
            analysis.begin_stream();
            loop {
                let count = source.fill(&mut batch);
                batch[..count].iter().for_each(|reference| analysis.add(reference));
                if count < batch.len() {
                    break;
                }
            }
        }
        Ok(TraceReport {
            schema: SCHEMA,
            report: "trace",
            file_bytes: self.bytes(),
            references: self.ending().references(),
            instructions: self.ending().instructions(),
            header: self.header().clone(),
            ending: self.ending().clone(),
            analysis: analysis.report(),
        })
    }
}
