//! Translation of physical addresses to offsets in our memory.

use std::ops::Range;

use memtint_units::PhysAddr;

/// A run of bytes, contiguous in physical memory and in ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    base: u64,
    bytes: u64,
    /// Offset of its first byte from the beginning of our memory.
    offset: u64,
}

/// The physical address of each byte of our memory: runs, sorted by physical address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places(Vec<Run>);

impl Places {
    /// Builds the runs from the frame of each page, in the order of our memory. Duplicate frames are kept.
    pub(crate) fn of_frames(frames: &[u64], page_bytes: u64) -> Places {
        let mut runs: Vec<Run> = Vec::new();
        for (page, &frame) in frames.iter().enumerate() {
            let (base, offset) = (frame * page_bytes, page as u64 * page_bytes);
            match runs.last_mut() {
                Some(last) if last.base + last.bytes == base => last.bytes += page_bytes,
                _ => runs.push(Run { base, bytes: page_bytes, offset }),
            }
        }
        runs.sort_by_key(|run| run.base);
        Places(runs)
    }

    /// Uses offsets as addresses, where physical addresses are unknown.
    pub(crate) fn unknown(bytes: u64) -> Places {
        Places(vec![Run { base: 0, bytes, offset: 0 }])
    }

    /// The offset of an address from the beginning of our memory.
    pub(crate) fn offset(&self, addr: PhysAddr) -> Option<u64> {
        let after = self.0.partition_point(|run| run.base <= addr.0);
        let run = self.0[..after].last()?;
        let within = addr.0 - run.base;
        (within < run.bytes).then_some(run.offset + within)
    }

    /// The physical address of an offset; slow.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        let run = self.0.iter().find(|run| (run.offset..run.offset + run.bytes).contains(&offset))?;
        Some(run.base + offset - run.offset)
    }

    /// Our physical memory: disjoint pieces, unless a frame occurs twice.
    pub(crate) fn pieces(&self) -> Vec<Range<PhysAddr>> {
        let mut pieces: Vec<Range<PhysAddr>> = Vec::new();
        for run in &self.0 {
            let end = PhysAddr(run.base + run.bytes);
            match pieces.last_mut() {
                Some(last) if last.end.0 == run.base => last.end = end,
                _ => pieces.push(PhysAddr(run.base)..end),
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    #[test]
    fn every_page_is_found_where_it_is_and_no_other() {
        let frames = [7, 8, 9, 3, 2, 10, 11, 40];
        let places = Places::of_frames(&frames, PAGE);
        for frame in 0..50 {
            let expected = frames.iter().position(|&own| own == frame).map(|page| page as u64 * PAGE + 70);
            let addr = frame * PAGE + 70;
            assert_eq!(places.offset(PhysAddr(addr)), expected, "{frame}");
            if let Some(offset) = expected {
                assert_eq!(places.address(offset), Some(addr));
            }
        }
        assert_eq!(places.address(frames.len() as u64 * PAGE), None);
        let pieces: Vec<(u64, u64)> =
            places.pieces().into_iter().map(|piece| (piece.start.0 / PAGE, piece.end.0 / PAGE)).collect();
        assert_eq!(pieces, [(2, 4), (7, 12), (40, 41)]);
    }

    #[test]
    fn frames_that_ascend_are_one_run() {
        let frames: Vec<u64> = (100..1000).collect();
        assert_eq!(Places::of_frames(&frames, PAGE).0, [Run { base: 100 * PAGE, bytes: 900 * PAGE, offset: 0 }]);
    }
}
