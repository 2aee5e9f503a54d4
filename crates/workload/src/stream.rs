//! The Stream benchmark, which the papers use as memory attacker.

use memtint_units::ByteSize;

use crate::{Reference, Region, Source, WorkloadError};

/// The four loops over the arrays a, b and c (J. McCalpin: STREAM, <https://www.cs.virginia.edu/stream/>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamLoop {
    /// `c[i] = a[i]`
    Copy,
    /// `b[i] = s * c[i]`
    Scale,
    /// `c[i] = a[i] + b[i]`
    Add,
    /// `a[i] = b[i] + s * c[i]`
    Triad,
}

impl StreamLoop {
    /// All four, in the order in which the benchmark runs them.
    pub const ALL: [StreamLoop; 4] = [StreamLoop::Copy, StreamLoop::Scale, StreamLoop::Add, StreamLoop::Triad];

    /// The arrays (a = 0, b = 1, c = 2) that are read, and the one that is written at last.
    const fn arrays(self) -> ([u64; 3], usize) {
        match self {
            StreamLoop::Copy => ([0, 2, 0], 2),
            StreamLoop::Scale => ([2, 1, 0], 2),
            StreamLoop::Add => ([0, 1, 2], 3),
            StreamLoop::Triad => ([1, 2, 0], 3),
        }
    }
}

/// Parameters of the loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamParameters {
    /// The three arrays, one after the other, each a third of the region.
    pub region: Region,
    /// Bytes of an element, a divisor of an array; 64 makes one reference a line.
    pub element_bytes: u8,
    /// The loops, each once through the arrays, then from the first again; one or more.
    pub loops: Vec<StreamLoop>,
    /// Instructions before each reference that touch no memory.
    pub gap: u32,
}

impl StreamParameters {
    /// Arrays of four times the last-level cache each, the least that the benchmark's rules allow, of 8-byte elements.
    /// The papers name the benchmark, not its size (TintMalloc and CAMC: [Pan18, §2.4.4]; Hybrid: [Gow15, §6.2.2]). The
    /// gap is fitted.
    #[must_use]
    pub fn for_cache(llc: ByteSize) -> StreamParameters {
        let region = Region::of(ByteSize(llc.bytes() * 12));
        StreamParameters { region, element_bytes: 8, loops: StreamLoop::ALL.to_vec(), gap: 1 }
    }
}

/// Copy, scale, add and triad over three arrays. Never ends.
#[derive(Clone, Debug)]
pub struct Stream {
    loops: Vec<StreamLoop>,
    base: u64,
    array_bytes: u64,
    element_bytes: u8,
    gap: u32,
    current: usize,
    element: u64,
    part: usize,
}

impl Stream {
    /// Begins the first loop. Refuses an empty list of loops, an element of 0 bytes, and a region that is not three
    /// arrays of elements.
    pub fn new(parameters: &StreamParameters) -> Result<Stream, WorkloadError> {
        if parameters.element_bytes == 0 {
            return Err(WorkloadError::parameter("stream", "element_bytes", 0, "1 to 255"));
        }
        if parameters.loops.is_empty() {
            return Err(WorkloadError::parameter("stream", "loops", "empty", "one or more of copy, scale, add, triad"));
        }
        let elements = parameters.region.steps("stream", u64::from(parameters.element_bytes))?;
        if !elements.is_multiple_of(3) {
            let accepted = format!("three arrays of whole elements of {} bytes", parameters.element_bytes);
            return Err(WorkloadError::parameter("stream", "size", parameters.region.size, accepted));
        }
        Ok(Stream {
            loops: parameters.loops.clone(),
            base: parameters.region.base,
            array_bytes: parameters.region.size.bytes() / 3,
            element_bytes: parameters.element_bytes,
            gap: parameters.gap,
            current: 0,
            element: 0,
            part: 0,
        })
    }

    #[inline]
    fn step(&mut self) -> Reference {
        let (arrays, parts) = self.loops[self.current].arrays();
        let addr = self.base + arrays[self.part] * self.array_bytes + self.element;
        self.part += 1;
        if self.part < parts {
            return Reference::read(addr, self.element_bytes, self.gap);
        }
        self.part = 0;
        self.element += u64::from(self.element_bytes);
        if self.element == self.array_bytes {
            self.element = 0;
            self.current = (self.current + 1) % self.loops.len();
        }
        Reference::write(addr, self.element_bytes, self.gap)
    }
}

crate::endless!(Stream);
