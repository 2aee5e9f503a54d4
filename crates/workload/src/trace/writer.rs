//! Writing a trace file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::block::{BlockHead, Context};
use super::{
    BLOCK_REFERENCES_MAX, END_MAGIC, FLAG_WINDOW, MAGIC, StreamSummary, TEXT_BYTES_MAX, TRAILER_BYTES, TraceEnding,
    TraceHeader,
};
use crate::{Reference, UnfinishedFile, WorkloadError};

/// Fast; higher levels hardly reduce the size of reference files.
const LEVEL: i32 = 1;

/// Writes a trace file.
///
/// Until [`TraceWriter::finish`] the file has another name, in the same directory and hidden; a writer that is dropped
/// before leaves nothing behind, and an existing file of the final name remains. Memory: one block (about 1 MiB at
/// most) for each stream that is being written, and 32 bytes for each 65536 references.
pub struct TraceWriter {
    out: UnfinishedFile,
    offset: u64,
    index: Vec<u8>,
    blocks: u64,
    streams: BTreeMap<u32, Stream>,
    compressor: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
}

/// The part of a stream that is not in the file yet, and its counts.
struct Stream {
    context: Context,
    raw: Vec<u8>,
    references: u32,
    first_instruction: u64,
    instructions: u64,
    begins_window: bool,
    total: StreamSummary,
}

impl Stream {
    fn new(stream: u32) -> Stream {
        Stream {
            context: Context::default(),
            raw: Vec::new(),
            references: 0,
            first_instruction: 0,
            instructions: 0,
            begins_window: true,
            total: StreamSummary { stream, references: 0, instructions: 0, executed_instructions: 0, windows: 0 },
        }
    }

    fn position(&self) -> u64 {
        self.first_instruction + self.instructions
    }
}

impl std::fmt::Debug for TraceWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter")
            .field("path", &self.out.path())
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl TraceWriter {
    /// Begins a file that gets this name when it is finished.
    pub fn create(path: &Path, header: &TraceHeader) -> Result<TraceWriter, WorkloadError> {
        let out = UnfinishedFile::create(path)?;
        let compressor = zstd::bulk::Compressor::new(LEVEL).map_err(|cause| refused(path, "compressed", cause))?;
        let mut writer = TraceWriter {
            out,
            offset: 0,
            index: Vec::new(),
            blocks: 0,
            streams: BTreeMap::new(),
            compressor,
            packed: Vec::new(),
        };
        let text = writer.text(header)?;
        let length = text.len() as u32;
        writer.write(&MAGIC)?;
        writer.write(&length.to_le_bytes())?;
        writer.write(&text)?;
        writer.write(&crc32fast::hash(&text).to_le_bytes())?;
        Ok(writer)
    }

    /// Begins a window of a stream: `first_instruction` instructions of the thread lie before it. A stream that is
    /// never given a window begins at instruction 0.
    pub fn window(&mut self, stream: u32, first_instruction: u64) -> Result<(), WorkloadError> {
        self.flush(stream)?;
        let state = self.stream(stream);
        state.begins_window = true;
        state.first_instruction = first_instruction;
        state.instructions = 0;
        Ok(())
    }

    /// Adds a reference to a stream.
    #[inline]
    pub fn push(&mut self, stream: u32, reference: &Reference) -> Result<(), WorkloadError> {
        let state = self.stream(stream);
        state.context.encode(reference, &mut state.raw);
        state.references += 1;
        state.instructions += reference.instructions();
        if state.references == BLOCK_REFERENCES_MAX { self.flush(stream) } else { Ok(()) }
    }

    /// Ends a window of a stream before `end_instruction`, which includes the instructions without memory after the
    /// last reference; a position that is not after that reference changes nothing.
    pub fn end_window(&mut self, stream: u32, end_instruction: u64) -> Result<(), WorkloadError> {
        let state = self.stream(stream);
        state.instructions = end_instruction.max(state.position()) - state.first_instruction;
        self.flush(stream)
    }

    /// Sets the number of instructions that the thread of a stream executed in total, recorded or not.
    pub fn executed(&mut self, stream: u32, instructions: u64) {
        self.stream(stream).total.executed_instructions = instructions;
    }

    /// Counts the references so far.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.streams.values().map(|stream| stream.total.references + u64::from(stream.references)).sum()
    }

    /// Counts the bytes in the file so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Writes the remaining blocks, the index and the ending, and gives the file its name once it is completely on the
    /// disk.
    pub fn finish(mut self, exit: Option<String>, notes: Vec<String>) -> Result<TraceEnding, WorkloadError> {
        let streams: Vec<u32> = self.streams.keys().copied().collect();
        for stream in streams {
            self.flush(stream)?;
        }
        let totals = self.streams.values().map(|stream| StreamSummary {
            executed_instructions: stream.total.executed_instructions.max(stream.position()),
            ..stream.total
        });
        let ending = TraceEnding { streams: totals.collect(), exit, notes };
        self.write_tail(&ending)?;
        self.out.finish()?;
        Ok(ending)
    }

    fn write_tail(&mut self, ending: &TraceEnding) -> Result<(), WorkloadError> {
        let text = self.text(ending)?;
        let index_offset = self.offset;
        let index = std::mem::take(&mut self.index);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&index);
        crc.update(&text);
        self.write(&index)?;
        self.write(&text)?;
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..8].copy_from_slice(&index_offset.to_le_bytes());
        trailer[8..16].copy_from_slice(&self.blocks.to_le_bytes());
        trailer[16..20].copy_from_slice(&(text.len() as u32).to_le_bytes());
        trailer[20..24].copy_from_slice(&crc.finalize().to_le_bytes());
        trailer[24..32].copy_from_slice(&(self.offset + TRAILER_BYTES as u64).to_le_bytes());
        trailer[32..].copy_from_slice(&END_MAGIC);
        self.write(&trailer)
    }

    fn text(&self, value: &impl serde::Serialize) -> Result<Vec<u8>, WorkloadError> {
        let text = serde_json::to_vec(value).map_err(|cause| refused(self.out.path(), "written", cause.into()))?;
        if text.len() > TEXT_BYTES_MAX as usize {
            let problem = format!("header or ending of {} bytes; accepted are {TEXT_BYTES_MAX}", text.len());
            return Err(WorkloadError::Damaged {
                origin: self.out.path().display().to_string(),
                offset: self.offset,
                problem,
            });
        }
        Ok(text)
    }

    #[inline]
    fn stream(&mut self, stream: u32) -> &mut Stream {
        self.streams.entry(stream).or_insert_with(|| Stream::new(stream))
    }

    fn flush(&mut self, stream: u32) -> Result<(), WorkloadError> {
        let Some(state) = self.streams.get_mut(&stream) else { return Ok(()) };
        if state.references == 0 && state.instructions == 0 {
            return Ok(());
        }
        let raw = std::mem::take(&mut state.raw);
        self.packed.clear();
        self.packed.reserve(super::block::packed_bytes_max(raw.len() as u32) as usize);
        let packing = self.compressor.compress_to_buffer(&raw, &mut self.packed);
        packing.map_err(|cause| refused(self.out.path(), "compressed", cause))?;
        let head = BlockHead {
            stream,
            references: state.references,
            raw_bytes: raw.len() as u32,
            packed_bytes: self.packed.len() as u32,
            flags: if state.begins_window { FLAG_WINDOW } else { 0 },
            first_instruction: state.first_instruction,
            instructions: state.instructions,
            packed_crc: crc32fast::hash(&self.packed),
        };
        state.total.references += u64::from(state.references);
        state.total.instructions += state.instructions;
        state.total.windows += u64::from(state.begins_window);
        state.first_instruction += state.instructions;
        (state.references, state.instructions, state.begins_window) = (0, 0, false);
        state.context = Context::default();
        state.raw = raw;
        state.raw.clear();
        self.index.extend_from_slice(&head.index_entry(self.offset));
        self.blocks += 1;
        self.write(&head.to_bytes())?;
        let packed = std::mem::take(&mut self.packed);
        let written = self.write(&packed);
        self.packed = packed;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WorkloadError> {
        self.out.put(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

fn refused(path: &Path, done: &'static str, cause: io::Error) -> WorkloadError {
    WorkloadError::Io { path: path.to_owned(), done, cause }
}
