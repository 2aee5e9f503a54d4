//! A piece of a program's memory.

use memtint_units::ByteSize;

use crate::WorkloadError;

/// Bytes of a cache line of every machine in the papers, except in TintMalloc's text (128).
pub const LINE_BYTES: u64 = 64;

/// A contiguous range of virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte; a multiple of the steps that a source takes in it.
    pub base: u64,
    /// Length.
    pub size: ByteSize,
}

impl Region {
    /// A region at 4 GiB, which other sources of this crate avoid by default.
    #[must_use]
    pub const fn of(size: ByteSize) -> Region {
        Region { base: 1 << 32, size }
    }

    /// Counts the steps of `bytes` that the region holds; refuses a region that is no whole number of them.
    pub(crate) fn steps(&self, of: &str, bytes: u64) -> Result<u64, WorkloadError> {
        let size = self.size.bytes();
        if size == 0 || !size.is_multiple_of(bytes) {
            return Err(WorkloadError::parameter(
                of,
                "size",
                self.size,
                format!("a multiple of {bytes} bytes above 0"),
            ));
        }
        if !self.base.is_multiple_of(bytes) || self.base.checked_add(size).is_none() {
            let accepted = format!("a multiple of {bytes} bytes, {size} bytes or more below 2^64");
            return Err(WorkloadError::parameter(of, "base", format!("{:#x}", self.base), accepted));
        }
        Ok(size / bytes)
    }
}
