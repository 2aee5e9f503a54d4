//! Trace files: recorded references, compressed, streamed, checked.
//!
//! ```text
//! magic "MEMTRAC1" | u32 length | header, JSON | u32 CRC of the header
//! block | block | ...                       at most 65536 references of one stream each, decodable on its own
//! index: 32 bytes a block | ending, JSON | trailer, 40 bytes
//!
//! block:   "BLCK" | u32 stream | u32 references | u32 raw bytes | u32 packed bytes | u32 flags (1: begins a window)
//!          | u64 first instruction | u64 instructions | u32 CRC of the packed bytes | u32 CRC of the 44 bytes above
//!          | packed bytes (zstd)
//! index:   u64 offset of the block | u32 stream | u32 references | u64 first instruction | u64 instructions
//! trailer: u64 offset of the index | u64 blocks | u32 length of the ending | u32 CRC of index and ending
//!          | u64 length of the file | magic "MEMTEND1"
//! ```
//!
//! All numbers are little-endian. A raw block is a sequence of references: a control byte (bits 0-1 kind, 2 depends,
//! 3 shares, 4 a byte with a new size follows, 5-7 gap or 7), the size if new, the gap less 7 as a varint if it is 7 or
//! more, and the distance to the last address of the same kind as a zigzag varint. Addresses begin at 0 and sizes at 8
//! bytes in each block.
//!
//! Streams are threads. A file keeps no order between references of different streams.

mod block;
mod reader;
mod report;
mod writer;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use reader::{TraceFile, TraceSource};
pub use report::TraceReport;
pub use writer::TraceWriter;

const MAGIC: [u8; 8] = *b"MEMTRAC1";
const END_MAGIC: [u8; 8] = *b"MEMTEND1";
const BLOCK_MAGIC: [u8; 4] = *b"BLCK";
const BLOCK_HEAD_BYTES: usize = 48;
const INDEX_ENTRY_BYTES: usize = 32;
const TRAILER_BYTES: usize = 40;
const BLOCK_REFERENCES_MAX: u32 = 1 << 16;
/// Control, size, gap and address take at most 1 + 1 + 5 + 10 bytes.
const REFERENCE_BYTES_MAX: u32 = 17;
/// Header and ending: enough for long command lines and many threads, little enough to read without checks.
const TEXT_BYTES_MAX: u32 = 1 << 24;
/// The block begins a window: the instructions just before it were not recorded, or do not exist.
const FLAG_WINDOW: u32 = 1;

/// The header of a trace file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceHeader {
    /// Version of the format: 1.
    pub schema: u32,
    /// The program, or another origin of the references.
    pub program: String,
    /// Its arguments, without the program.
    pub arguments: Vec<String>,
    /// The machine it ran on: architecture and processor, if known.
    pub machine: String,
    /// The recorder or converter, with version.
    pub recorder: String,
    /// The recorded instructions; absent if all were recorded.
    pub sampling: Option<Sampling>,
    /// References of kind fetch are in the file.
    pub fetches: bool,
    /// Further remarks, a sentence each.
    pub notes: Vec<String>,
}

impl TraceHeader {
    /// A header for references without a program.
    #[must_use]
    pub fn named(program: &str) -> TraceHeader {
        TraceHeader {
            schema: 1,
            program: program.to_owned(),
            arguments: Vec::new(),
            machine: String::new(),
            recorder: concat!("memtint ", env!("CARGO_PKG_VERSION")).to_owned(),
            sampling: None,
            fetches: false,
            notes: Vec::new(),
        }
    }
}

/// Windows of a recording, counted in the instructions of each thread by itself: `skip`, then of each `period` the
/// first `sample`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Instructions before the first window.
    pub skip_instructions: u64,
    /// Instructions in a window, 1 or more.
    pub sample_instructions: u64,
    /// Instructions from the beginning of a window to the beginning of the next, `sample_instructions` or more; absent:
    /// one window only.
    pub period_instructions: Option<u64>,
}

/// The ending of a trace file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceEnding {
    /// The streams, in ascending order of their numbers.
    pub streams: Vec<StreamSummary>,
    /// How the program ended; absent for a trace that is not of a program.
    pub exit: Option<String>,
    /// Events during the recording that are not in the file, a sentence each.
    pub notes: Vec<String>,
}

impl TraceEnding {
    /// Counts the references of all streams.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.streams.iter().map(|stream| stream.references).sum()
    }

    /// Counts the recorded instructions of all streams.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.streams.iter().map(|stream| stream.instructions).sum()
    }
}

/// Counts of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSummary {
    /// Its number: threads in the order of their creation, from 0.
    pub stream: u32,
    /// References in the file.
    pub references: u64,
    /// Instructions in the recorded windows.
    pub instructions: u64,
    /// Instructions that the thread executed in total, recorded or not.
    pub executed_instructions: u64,
    /// Windows, 1 when everything was recorded.
    pub windows: u64,
}
