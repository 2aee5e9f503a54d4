//! A memory reference, and sources of references.

use crate::WorkloadError;

/// Kind of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Kind {
    /// Loads data.
    Read = 0,
    /// Stores data.
    Write = 1,
    /// Fetches instructions.
    Fetch = 2,
}

/// One memory reference of one thread.
///
/// The instructions of a stream are the sum of [`Reference::instructions`] over its references, plus those after the
/// last one, which a trace file keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Address of the first byte, virtual.
    pub addr: u64,
    /// Instructions before this reference, and after the one before it, that touch no memory.
    pub gap: u32,
    /// Bytes touched, 1 to 255; an x86-64 access touches at most 64.
    pub bytes: u8,
    /// Its kind.
    pub kind: Kind,
    /// Its address needs the value of the previous load of the stream, so it cannot begin before that load ends.
    pub depends: bool,
    /// It belongs to the instruction of the previous reference (read-modify-write, string and vector instructions), or
    /// is a fetch: it adds no instruction.
    pub shares: bool,
}

impl Reference {
    /// A load without a dependence.
    #[must_use]
    pub const fn read(addr: u64, bytes: u8, gap: u32) -> Reference {
        Reference { addr, gap, bytes, kind: Kind::Read, depends: false, shares: false }
    }

    /// A store without a dependence.
    #[must_use]
    pub const fn write(addr: u64, bytes: u8, gap: u32) -> Reference {
        Reference { addr, gap, bytes, kind: Kind::Write, depends: false, shares: false }
    }

    /// Counts the instructions it represents: those before it without memory, and its own unless it shares one.
    #[inline]
    #[must_use]
    pub const fn instructions(&self) -> u64 {
        self.gap as u64 + !self.shares as u64
    }
}

impl Default for Reference {
    /// A load of one byte at address zero: the initial content of a buffer for [`Source::fill`].
    fn default() -> Self {
        Reference::read(0, 1, 0)
    }
}

/// Yields the references of one thread in program order.
///
/// Equal parameters and seed yield equal references, bit for bit. Sources of synthetic references never end; trace
/// files do.
pub trait Source: Send {
    /// Gives the next reference; `None` at the end, and for ever after it.
    fn next(&mut self) -> Option<Reference>;

    /// Fills a slice from its beginning and returns the number of references: fewer than the slice holds only at the
    /// end.
    ///
    /// Costs less than as many calls of [`Source::next`]: a caller of `dyn Source` pays one virtual call per slice.
    fn fill(&mut self, into: &mut [Reference]) -> usize {
        for (done, slot) in into.iter_mut().enumerate() {
            match self.next() {
                Some(reference) => *slot = reference,
                None => return done,
            }
        }
        into.len()
    }

    /// Gives an independent source that continues from the same point.
    fn snapshot(&self) -> Box<dyn Source>;

    /// Returns whether the source ends by itself.
    fn ends(&self) -> bool {
        false
    }

    /// Gives the error that ended the source early; `None` for a regular end. Check it whenever a source that reads a
    /// file has ended: the references up to there are correct, but incomplete.
    fn failure(&self) -> Option<&WorkloadError> {
        None
    }
}
