//! Reading a trace file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use super::block::{BlockHead, Context, long, packed_bytes_max, word};
use super::{
    BLOCK_HEAD_BYTES, END_MAGIC, FLAG_WINDOW, INDEX_ENTRY_BYTES, MAGIC, StreamSummary, TEXT_BYTES_MAX, TRAILER_BYTES,
    TraceEnding, TraceHeader,
};
use crate::{Reference, Source, WorkloadError};

/// A trace file whose beginning and end have been verified; blocks are verified as they are read.
#[derive(Clone, Debug)]
pub struct TraceFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    origin: String,
    data: Data,
    header: TraceHeader,
    ending: TraceEnding,
    blocks_begin: u64,
    index_begin: u64,
    blocks: u64,
}

#[derive(Debug)]
enum Data {
    File(File),
    Bytes(Vec<u8>),
}

impl Data {
    fn length(&self) -> io::Result<u64> {
        match self {
            Data::File(file) => file.metadata().map(|data| data.len()),
            Data::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Data::File(file) => file.read_exact_at(into, offset),
            Data::Bytes(bytes) => {
                let begin = usize::try_from(offset).ok();
                let found = begin.and_then(|begin| bytes.get(begin..begin.checked_add(into.len())?));
                into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// A position in a file that is being verified.
struct Cursor<'a> {
    origin: &'a str,
    data: &'a Data,
    length: u64,
}

impl Cursor<'_> {
    fn damaged(&self, offset: u64, problem: impl Into<String>) -> WorkloadError {
        WorkloadError::Damaged { origin: self.origin.to_owned(), offset, problem: problem.into() }
    }

    fn bytes(&self, into: &mut [u8], offset: u64) -> Result<(), WorkloadError> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.length) {
            let wanted = into.len();
            return Err(self.damaged(offset, format!("{wanted} bytes are missing: the file ends at {}", self.length)));
        }
        let read = self.data.read(into, offset);
        read.map_err(|cause| self.damaged(offset, format!("{} bytes cannot be read: {cause}", into.len())))
    }
}

impl TraceFile {
    /// Opens a file and verifies its header, index and ending. The file must not change while it is read.
    pub fn open(path: &Path) -> Result<TraceFile, WorkloadError> {
        let opened = memtint_input::regular(path);
        let file = opened.map_err(|cause| WorkloadError::Io { path: path.to_owned(), done: "opened", cause })?;
        TraceFile::of(Data::File(file), path.display().to_string())
    }

    /// Reads the bytes of a file; `origin` stands for its name in messages.
    pub fn from_bytes(bytes: Vec<u8>, origin: &str) -> Result<TraceFile, WorkloadError> {
        TraceFile::of(Data::Bytes(bytes), origin.to_owned())
    }

    fn of(data: Data, origin: String) -> Result<TraceFile, WorkloadError> {
        let length = data.length();
        let length = length.map_err(|cause| WorkloadError::Io { path: origin.clone().into(), done: "read", cause })?;
        let cursor = Cursor { origin: &origin, data: &data, length };
        let (header, blocks_begin) = read_header(&cursor)?;
        let (index_begin, blocks, ending) = read_tail(&cursor, blocks_begin)?;
        Ok(TraceFile { inner: Arc::new(Inner { origin, data, header, ending, blocks_begin, index_begin, blocks }) })
    }

    /// Gives the header of the file.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        &self.inner.header
    }

    /// Gives the ending of the file.
    #[must_use]
    pub fn ending(&self) -> &TraceEnding {
        &self.inner.ending
    }

    /// Gives the streams with their counts.
    #[must_use]
    pub fn streams(&self) -> &[StreamSummary] {
        &self.inner.ending.streams
    }

    /// Gives the length of the file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner.data.length().unwrap_or(0)
    }

    /// Gives the references of one stream; none for a number that the file does not have.
    #[must_use]
    pub fn source(&self, stream: u32) -> TraceSource {
        TraceSource::new(Arc::clone(&self.inner), stream, self.inner.blocks_begin)
    }

    /// Gives the references of one stream from the block that holds an instruction on; from the next recorded block if
    /// that instruction was not recorded. Reads the index, not the file.
    pub fn source_from(&self, stream: u32, instruction: u64) -> Result<TraceSource, WorkloadError> {
        let inner = &self.inner;
        let mut begin = inner.index_begin;
        for_each_entry(&inner.cursor(), inner.index_begin, inner.blocks, |entry| {
            let (first, count) = (long(entry, 16), long(entry, 24));
            let found = word(entry, 8) == stream && first.saturating_add(count) > instruction;
            if found {
                begin = long(entry, 0);
            }
            !found
        })?;
        Ok(TraceSource::new(Arc::clone(inner), stream, begin))
    }

    /// Reads every reference of every stream, and compares the counts with those of index and ending.
    pub fn verify(&self) -> Result<(), WorkloadError> {
        let inner = &self.inner;
        let mut offset = inner.blocks_begin;
        let mut block = TraceSource::new(Arc::clone(inner), 0, offset);
        let mut totals: std::collections::BTreeMap<u32, (u64, u64, u64)> = std::collections::BTreeMap::new();
        let mut index = Index::new(inner);
        while offset < inner.index_begin {
            let head = inner.head(offset)?;
            if index.next()? != Some(head.index_entry(offset)) {
                return Err(inner.damaged(offset, "the index does not say this of the block"));
            }
            let total = totals.entry(head.stream).or_default();
            total.0 += u64::from(head.references);
            total.1 = total.1.saturating_add(head.instructions);
            total.2 += u64::from(head.flags & FLAG_WINDOW);
            block.load(offset, &head)?;
            for _ in 0..head.references {
                block.decode()?;
            }
            block.check_block_end()?;
            offset += BLOCK_HEAD_BYTES as u64 + u64::from(head.packed_bytes);
        }
        if index.next()?.is_some() {
            return Err(inner.damaged(inner.index_begin, "the index names more blocks than there are"));
        }
        let empty = |stream: &&StreamSummary| stream.references > 0 || stream.instructions > 0;
        let said = inner.ending.streams.iter().filter(empty);
        if !said.map(|s| (s.stream, (s.references, s.instructions, s.windows))).eq(totals) {
            return Err(inner.damaged(inner.index_begin, "the ending counts other references than there are"));
        }
        Ok(())
    }
}

/// The index, entry by entry, in constant memory.
struct Index<'a> {
    inner: &'a Inner,
    at: u64,
}

impl Index<'_> {
    fn new(inner: &Inner) -> Index<'_> {
        Index { inner, at: 0 }
    }

    fn next(&mut self) -> Result<Option<[u8; INDEX_ENTRY_BYTES]>, WorkloadError> {
        if self.at == self.inner.blocks {
            return Ok(None);
        }
        let mut entry = [0; INDEX_ENTRY_BYTES];
        let offset = self.inner.index_begin + self.at * INDEX_ENTRY_BYTES as u64;
        self.inner.cursor().bytes(&mut entry, offset)?;
        self.at += 1;
        Ok(Some(entry))
    }
}

fn read_header(cursor: &Cursor<'_>) -> Result<(TraceHeader, u64), WorkloadError> {
    let mut head = [0; 12];
    cursor.bytes(&mut head, 0)?;
    if head[..8] != MAGIC {
        let found = String::from_utf8_lossy(&head[..8]).into_owned();
        return Err(cursor.damaged(0, format!("{found:?} is not the beginning of a memtint trace, \"MEMTRAC1\"")));
    }
    let length = word(&head, 8);
    if length > TEXT_BYTES_MAX {
        return Err(cursor.damaged(8, format!("a header of {length} bytes; accepted are 0 to {TEXT_BYTES_MAX}")));
    }
    let mut text = sized(cursor, length, 12)?;
    let mut crc = [0; 4];
    let crc_offset = 12 + u64::from(length);
    cursor.bytes(&mut crc, crc_offset)?;
    if u32::from_le_bytes(crc) != crc32fast::hash(&text) {
        return Err(cursor.damaged(crc_offset, "the checksum of the header is wrong"));
    }
    let header: TraceHeader = parse(cursor, &mut text, 12)?;
    if header.schema != 1 {
        return Err(cursor.damaged(12, format!("schema is {}; accepted is 1", header.schema)));
    }
    Ok((header, crc_offset + 4))
}

fn read_tail(cursor: &Cursor<'_>, blocks_begin: u64) -> Result<(u64, u64, TraceEnding), WorkloadError> {
    let truncated = || cursor.damaged(cursor.length, "the file is truncated: its end, \"MEMTEND1\", is missing");
    let trailer_at = cursor.length.checked_sub(TRAILER_BYTES as u64).filter(|&at| at >= blocks_begin);
    let trailer_at = trailer_at.ok_or_else(truncated)?;
    let mut trailer = [0; TRAILER_BYTES];
    cursor.bytes(&mut trailer, trailer_at)?;
    if trailer[32..] != END_MAGIC {
        return Err(truncated());
    }
    let (index_begin, blocks, length) = (long(&trailer, 0), long(&trailer, 8), long(&trailer, 24));
    if length != cursor.length {
        let problem = format!("the file should be {length} bytes long and is {}", cursor.length);
        return Err(cursor.damaged(trailer_at, problem));
    }
    let ending_bytes = word(&trailer, 16);
    let ending_at = trailer_at.checked_sub(u64::from(ending_bytes));
    let index_bytes = blocks.checked_mul(INDEX_ENTRY_BYTES as u64);
    let adds_up = ending_at.is_some_and(|at| index_bytes.and_then(|bytes| index_begin.checked_add(bytes)) == Some(at));
    if !adds_up || index_begin < blocks_begin || ending_bytes > TEXT_BYTES_MAX {
        return Err(cursor.damaged(trailer_at, "the places of index and ending do not add up"));
    }
    let ending_at = index_begin + index_bytes.unwrap_or(0);
    let mut crc = crc32fast::Hasher::new();
    for_each_entry(cursor, index_begin, blocks, |entry| {
        crc.update(entry);
        true
    })?;
    let mut text = sized(cursor, ending_bytes, ending_at)?;
    crc.update(&text);
    if crc.finalize() != word(&trailer, 20) {
        return Err(cursor.damaged(index_begin, "the checksum of index and ending is wrong"));
    }
    Ok((index_begin, blocks, parse(cursor, &mut text, ending_at)?))
}

/// Reads this many bytes if the file has them: a wrong length must not cost memory.
fn sized(cursor: &Cursor<'_>, length: u32, offset: u64) -> Result<Vec<u8>, WorkloadError> {
    if offset + u64::from(length) > cursor.length {
        return Err(cursor.damaged(offset, format!("{length} bytes are missing: the file ends at {}", cursor.length)));
    }
    let mut bytes = vec![0; length as usize];
    cursor.bytes(&mut bytes, offset)?;
    Ok(bytes)
}

fn parse<T: serde::de::DeserializeOwned>(
    cursor: &Cursor<'_>,
    text: &mut [u8],
    offset: u64,
) -> Result<T, WorkloadError> {
    serde_json::from_slice(text).map_err(|cause| cursor.damaged(offset, cause.to_string()))
}

/// Calls `each` for each entry of the index until it returns false.
fn for_each_entry(
    cursor: &Cursor<'_>,
    index_begin: u64,
    blocks: u64,
    mut each: impl FnMut(&[u8]) -> bool,
) -> Result<(), WorkloadError> {
    const PIECE: u64 = 2048;
    let mut piece = vec![0; PIECE as usize * INDEX_ENTRY_BYTES];
    let mut done = 0;
    while done < blocks {
        let count = PIECE.min(blocks - done);
        let bytes = &mut piece[..count as usize * INDEX_ENTRY_BYTES];
        cursor.bytes(bytes, index_begin + done * INDEX_ENTRY_BYTES as u64)?;
        for entry in bytes.chunks_exact(INDEX_ENTRY_BYTES) {
            if !each(entry) {
                return Ok(());
            }
        }
        done += count;
    }
    Ok(())
}

impl Inner {
    fn cursor(&self) -> Cursor<'_> {
        // Blocks end where the index begins; the index itself has been read once.
        Cursor { origin: &self.origin, data: &self.data, length: self.data.length().unwrap_or(0) }
    }

    fn damaged(&self, offset: u64, problem: impl Into<String>) -> WorkloadError {
        self.cursor().damaged(offset, problem)
    }

    fn head(&self, offset: u64) -> Result<BlockHead, WorkloadError> {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        self.cursor().bytes(&mut bytes, offset)?;
        let head = BlockHead::from_bytes(&bytes).map_err(|problem| self.damaged(offset, problem))?;
        let end = offset + BLOCK_HEAD_BYTES as u64 + u64::from(head.packed_bytes);
        if end > self.index_begin {
            return Err(self.damaged(offset, format!("the block ends at {end}, behind the blocks' end")));
        }
        Ok(head)
    }
}

/// The references of one stream of a trace file, in constant memory: one block at a time.
///
/// Windows follow each other without a mark; [`TraceSource::instruction`] gives the position in the thread. A source
/// whose file turns out to be damaged ends there, and [`Source::failure`] gives the error.
pub struct TraceSource {
    file: Arc<Inner>,
    stream: u32,
    /// Where the next block may begin.
    offset: u64,
    block: Block,
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
    packed: Vec<u8>,
    failure: Option<Arc<WorkloadError>>,
}

/// The block that is being read.
#[derive(Clone, Default)]
struct Block {
    offset: u64,
    raw: Vec<u8>,
    at: usize,
    left: u32,
    instruction: u64,
    end_instruction: u64,
    context: Context,
}

impl std::fmt::Debug for TraceSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceSource")
            .field("origin", &self.file.origin)
            .field("stream", &self.stream)
            .field("instruction", &self.block.instruction)
            .finish_non_exhaustive()
    }
}

impl Clone for TraceSource {
    fn clone(&self) -> Self {
        TraceSource {
            file: Arc::clone(&self.file),
            stream: self.stream,
            offset: self.offset,
            block: self.block.clone(),
            decompressor: None,
            packed: Vec::new(),
            failure: self.failure.clone(),
        }
    }
}

impl TraceSource {
    /// Gives the error that ended the source early.
    pub(crate) fn into_failure(self) -> Option<WorkloadError> {
        self.failure.map(WorkloadError::Ended)
    }

    fn new(file: Arc<Inner>, stream: u32, offset: u64) -> TraceSource {
        let (block, packed) = (Block::default(), Vec::new());
        TraceSource { file, stream, offset, block, decompressor: None, packed, failure: None }
    }

    /// Gives the number of instructions that the thread had executed, recorded or not, at the last reference.
    #[must_use]
    pub const fn instruction(&self) -> u64 {
        self.block.instruction
    }

    /// Advances to the next block of the stream; false at the end of the file.
    #[cold]
    fn advance(&mut self) -> Result<bool, WorkloadError> {
        self.check_block_end()?;
        while self.offset < self.file.index_begin {
            let (offset, head) = (self.offset, self.file.head(self.offset)?);
            self.offset += BLOCK_HEAD_BYTES as u64 + u64::from(head.packed_bytes);
            if head.stream == self.stream && head.references > 0 {
                return self.load(offset, &head).map(|()| true);
            }
        }
        Ok(false)
    }

    fn load(&mut self, offset: u64, head: &BlockHead) -> Result<(), WorkloadError> {
        debug_assert!(head.packed_bytes <= packed_bytes_max(head.raw_bytes));
        self.packed.resize(head.packed_bytes as usize, 0);
        self.file.cursor().bytes(&mut self.packed, offset + BLOCK_HEAD_BYTES as u64)?;
        let crc = crc32fast::hash(&self.packed);
        if crc != head.packed_crc {
            let expected = head.packed_crc;
            let problem = format!("the block has checksum {crc:#010x} and should have {expected:#010x}");
            return Err(self.file.damaged(offset, problem));
        }
        let unpacked = self.unpack(head.raw_bytes as usize);
        let length = unpacked.map_err(|cause| self.file.damaged(offset, format!("cannot be unpacked: {cause}")))?;
        if length != head.raw_bytes as usize {
            let problem = format!("the block unpacks to {length} bytes and should to {}", head.raw_bytes);
            return Err(self.file.damaged(offset, problem));
        }
        let block = &mut self.block;
        (block.offset, block.at, block.left) = (offset, 0, head.references);
        block.instruction = head.first_instruction;
        block.end_instruction = head.first_instruction + head.instructions;
        block.context = Context::default();
        Ok(())
    }

    fn unpack(&mut self, raw_bytes: usize) -> io::Result<usize> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            empty => empty.insert(zstd::bulk::Decompressor::new()?),
        };
        self.block.raw.clear();
        self.block.raw.reserve(raw_bytes);
        decompressor.decompress_to_buffer(&self.packed, &mut self.block.raw)
    }

    #[inline]
    fn decode(&mut self) -> Result<Reference, WorkloadError> {
        let block = &mut self.block;
        let mut rest = &block.raw[block.at..];
        let Some(reference) = block.context.decode(&mut rest) else {
            return Err(self
                .file
                .damaged(block.offset, format!("byte {} of the unpacked block is no reference", block.at)));
        };
        block.at = block.raw.len() - rest.len();
        block.left -= 1;
        block.instruction = block.instruction.saturating_add(reference.instructions());
        Ok(reference)
    }

    fn check_block_end(&self) -> Result<(), WorkloadError> {
        let block = &self.block;
        if block.at != block.raw.len() || block.instruction > block.end_instruction {
            return Err(self.file.damaged(block.offset, "the references of the block contradict its head"));
        }
        Ok(())
    }

    /// Decodes references of the loaded block until the slice is full or the block ends; returns their number.
    fn decode_into(&mut self, into: &mut [Reference]) -> Result<usize, WorkloadError> {
        let block = &mut self.block;
        let count = into.len().min(block.left as usize);
        let mut rest = &block.raw[block.at..];
        for (done, slot) in into[..count].iter_mut().enumerate() {
            let Some(reference) = block.context.decode(&mut rest) else {
                (block.at, block.left) = (block.raw.len() - rest.len(), block.left - done as u32);
                return self.decode().map(|_| done);
            };
            block.instruction = block.instruction.saturating_add(reference.instructions());
            *slot = reference;
        }
        block.at = block.raw.len() - rest.len();
        block.left -= count as u32;
        Ok(count)
    }

    fn try_fill(&mut self, into: &mut [Reference], done: &mut usize) -> Result<(), WorkloadError> {
        while *done < into.len() && (self.block.left > 0 || self.advance()?) {
            *done += self.decode_into(&mut into[*done..])?;
        }
        Ok(())
    }

    fn try_next(&mut self) -> Result<Option<Reference>, WorkloadError> {
        if self.block.left == 0 && !self.advance()? {
            return Ok(None);
        }
        self.decode().map(Some)
    }
}

impl Source for TraceSource {
    fn ends(&self) -> bool {
        true
    }

    #[inline]
    fn next(&mut self) -> Option<Reference> {
        if self.failure.is_some() {
            return None;
        }
        match self.try_next() {
            Ok(reference) => reference,
            Err(error) => {
                self.failure = Some(Arc::new(error));
                None
            }
        }
    }

    fn fill(&mut self, into: &mut [Reference]) -> usize {
        let mut done = 0;
        if self.failure.is_none()
            && let Err(error) = self.try_fill(into, &mut done)
        {
            self.failure = Some(Arc::new(error));
        }
        done
    }

    fn snapshot(&self) -> Box<dyn Source> {
        Box::new(self.clone())
    }

    fn failure(&self) -> Option<&WorkloadError> {
        self.failure.as_deref()
    }
}
