//! Miss status holding registers, which track lines in flight.

/// The response to a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MshrAnswer {
    /// The first miss of this line: forward it.
    Allocated,
    /// The line is in flight: wait for it.
    Merged,
    /// Every register is taken, or the line's register has no room for another waiter: stall, and retry after a
    /// completion.
    Full,
}

/// Counts the responses of a register file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MshrCounts {
    /// [`MshrAnswer::Allocated`].
    pub allocated: u64,
    /// [`MshrAnswer::Merged`].
    pub merged: u64,
    /// [`MshrAnswer::Full`].
    pub full: u64,
    /// Most registers taken at once.
    pub taken_max: usize,
}

/// The miss registers of one cache. It does not model time: the caller makes a request when a miss happens and reports
/// when a line arrives.
///
/// Identities: each line is in at most one register; allocated = completed + taken.
#[derive(Clone, Debug)]
pub struct MshrFile {
    entries: Vec<Entry>,
    capacity: usize,
    waiters_max: u32,
    counts: MshrCounts,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    line: u64,
    waiters: u32,
}

impl MshrFile {
    /// Makes `capacity` free registers (at least 1), each for up to `waiters_max` misses of its line, the first included
    /// (at least 1).
    ///
    /// # Panics
    /// When one of them is 0.
    #[must_use]
    pub fn new(capacity: usize, waiters_max: u32) -> MshrFile {
        assert!(capacity > 0, "at least one register");
        assert!(waiters_max > 0, "at least one waiter");
        let entries = Vec::with_capacity(capacity);
        MshrFile { entries, capacity, waiters_max, counts: MshrCounts::default() }
    }

    /// Requests a line, by number: address divided by line size. Linear in the registers taken.
    pub fn request(&mut self, line: u64) -> MshrAnswer {
        let answer = self.answer(line);
        match answer {
            MshrAnswer::Allocated => self.counts.allocated += 1,
            MshrAnswer::Merged => self.counts.merged += 1,
            MshrAnswer::Full => self.counts.full += 1,
        }
        answer
    }

    fn answer(&mut self, line: u64) -> MshrAnswer {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.line == line) {
            if entry.waiters == self.waiters_max {
                return MshrAnswer::Full;
            }
            entry.waiters += 1;
            return MshrAnswer::Merged;
        }
        if self.entries.len() == self.capacity {
            return MshrAnswer::Full;
        }
        self.entries.push(Entry { line, waiters: 1 });
        self.counts.taken_max = self.counts.taken_max.max(self.entries.len());
        MshrAnswer::Allocated
    }

    /// Records that a line has arrived, frees its register and returns how many misses waited for it; `None` when it
    /// was not in flight.
    pub fn complete(&mut self, line: u64) -> Option<u32> {
        let at = self.entries.iter().position(|entry| entry.line == line)?;
        Some(self.entries.swap_remove(at).waiters)
    }

    /// Returns whether a line is in flight.
    #[must_use]
    pub fn is_pending(&self, line: u64) -> bool {
        self.entries.iter().any(|entry| entry.line == line)
    }

    /// Counts the registers taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether a miss of another line would stall.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.entries.len() == self.capacity
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> MshrCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_allocate_merge_stall_and_complete() {
        let mut file = MshrFile::new(2, 3);
        assert_eq!(file.request(7), MshrAnswer::Allocated);
        assert_eq!(file.request(7), MshrAnswer::Merged);
        assert_eq!(file.request(8), MshrAnswer::Allocated);
        assert_eq!(file.request(9), MshrAnswer::Full);
        assert_eq!(file.request(7), MshrAnswer::Merged, "a full file still merges");
        assert_eq!(file.request(7), MshrAnswer::Full, "the register has its three waiters");
        assert!(file.is_full() && file.is_pending(7) && !file.is_pending(9));
        assert_eq!(file.complete(7), Some(3));
        assert_eq!(file.complete(7), None);
        assert_eq!(file.request(9), MshrAnswer::Allocated);
        assert_eq!(file.taken(), 2);
        assert_eq!(file.counts(), MshrCounts { allocated: 3, merged: 2, full: 2, taken_max: 2 });
    }
}
