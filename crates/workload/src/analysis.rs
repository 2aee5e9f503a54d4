//! Characteristics of a stream of references.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Kind, LINE_BYTES, Reference};
use memtint_units::random::mix;

const PAGE_SHIFT: u32 = 12;
/// One line of this many is watched for reuse.
const WATCHED: u64 = 64;
/// Strides that are counted at once; a stride that makes up more than a 32nd of all is never missed.
const STRIDES: usize = 32;

/// Analyzes references one by one. Memory: about 50 bytes for each page touched, and less than 1 for each line.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    counts: [u64; 3],
    dependent: u64,
    instructions: u64,
    /// Which of the 64 lines of each page were touched.
    pages: HashMap<u64, u64>,
    /// The latest page, kept out of `pages` meanwhile: most references stay in their page.
    page: Option<(u64, u64)>,
    last_line: HashMap<u64, u64>,
    reuse: Vec<u64>,
    first_uses: u64,
    last_addr: Option<u64>,
    strides: Vec<(i64, u64)>,
}

/// The result of an [`Analysis`]; units are in the names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnalysisReport {
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Instruction fetches.
    pub fetches: u64,
    /// References whose address needs the value of the previous load.
    pub dependent: u64,
    /// Instructions that the references represent.
    pub instructions: u64,
    /// Distinct lines of 64 bytes, by the first byte of each reference.
    pub footprint_lines: u64,
    /// The same in bytes.
    pub footprint_bytes: u64,
    /// Distinct pages of 4 KiB.
    pub footprint_pages: u64,
    /// Most frequent distances between the addresses of a data reference and the one before it, most frequent first;
    /// at most eight. Counts are lower bounds, too low by at most a 32nd of all.
    pub strides: Vec<Stride>,
    /// References between two to the same line, for one of 64 lines (chosen by address); shortest first.
    pub reuse: Vec<ReuseBucket>,
    /// References that are the first to their line, of the same lines.
    pub reuse_first: u64,
}

/// Frequency of a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stride {
    /// The distance.
    pub bytes: i64,
    /// Its number of occurrences, at least.
    pub count: u64,
}

/// Number of references at a reuse distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReuseBucket {
    /// Smallest reuse distance, in references since the last one to the line: a power of two.
    pub references_from: u64,
    /// First distance past the range: twice `references_from`.
    pub references_to: u64,
    /// Number of references.
    pub count: u64,
}

impl Analysis {
    /// Takes one reference into account.
    pub fn add(&mut self, reference: &Reference) {
        let index = self.counts.iter().sum::<u64>();
        self.counts[reference.kind as usize] += 1;
        self.dependent += u64::from(reference.depends);
        self.instructions += reference.instructions();
        self.touch(reference.addr);
        self.watch(reference.addr / LINE_BYTES, index);
        if reference.kind != Kind::Fetch
            && let Some(last) = self.last_addr.replace(reference.addr)
        {
            self.stride(reference.addr.wrapping_sub(last) as i64);
        }
    }

    /// Starts another stream: the next reference has no predecessor.
    pub fn begin_stream(&mut self) {
        self.last_addr = None;
    }

    fn touch(&mut self, addr: u64) {
        let (number, bit) = (addr >> PAGE_SHIFT, 1 << (addr / LINE_BYTES % 64));
        match &mut self.page {
            Some((page, lines)) if *page == number => *lines |= bit,
            other => {
                let known = self.pages.remove(&number).unwrap_or(0);
                if let Some((page, lines)) = other.replace((number, known | bit)) {
                    self.pages.insert(page, lines);
                }
            }
        }
    }

    fn watch(&mut self, line: u64, index: u64) {
        if !mix(line).is_multiple_of(WATCHED) {
            return;
        }
        match self.last_line.insert(line, index) {
            None => self.first_uses += 1,
            Some(last) => {
                let bucket = (index - last).ilog2() as usize;
                if self.reuse.len() <= bucket {
                    self.reuse.resize(bucket + 1, 0);
                }
                self.reuse[bucket] += 1;
            }
        }
    }

    /// Misra and Gries, Finding repeated elements, 1982: without room, every count is lowered by one.
    fn stride(&mut self, bytes: i64) {
        if let Some(known) = self.strides.iter_mut().find(|known| known.0 == bytes) {
            known.1 += 1;
        } else if self.strides.len() < STRIDES {
            self.strides.push((bytes, 1));
        } else {
            self.strides.iter_mut().for_each(|known| known.1 -= 1);
            self.strides.retain(|known| known.1 > 0);
        }
    }

    /// Gives the result so far.
    #[must_use]
    pub fn report(&self) -> AnalysisReport {
        let lines = self.pages.values().chain(self.page.as_ref().map(|page| &page.1));
        let footprint_lines = lines.map(|lines| u64::from(lines.count_ones())).sum();
        let mut strides = self.strides.clone();
        strides.sort_by_key(|&(bytes, count)| (std::cmp::Reverse(count), bytes.unsigned_abs(), bytes));
        let bucket = |(power, &count): (usize, &u64)| ReuseBucket {
            references_from: 1 << power,
            references_to: 2 << power,
            count,
        };
        AnalysisReport {
            reads: self.counts[0],
            writes: self.counts[1],
            fetches: self.counts[2],
            dependent: self.dependent,
            instructions: self.instructions,
            footprint_lines,
            footprint_bytes: footprint_lines * LINE_BYTES,
            footprint_pages: self.pages.len() as u64 + u64::from(self.page.is_some()),
            strides: strides.into_iter().take(8).map(|(bytes, count)| Stride { bytes, count }).collect(),
            reuse: self.reuse.iter().enumerate().map(bucket).filter(|bucket| bucket.count > 0).collect(),
            reuse_first: self.first_uses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_of_two_rounds() {
        let mut analysis = Analysis::default();
        for index in (0..1024).chain(0..1024) {
            analysis.add(&Reference::read(index * 64, 8, 3));
        }
        analysis.add(&Reference::write(0, 8, 0));
        let report = analysis.report();
        assert_eq!((report.reads, report.writes, report.instructions), (2048, 1, 2048 * 4 + 1));
        assert_eq!((report.footprint_lines, report.footprint_bytes, report.footprint_pages), (1024, 65536, 16));
        assert_eq!(report.strides[0], Stride { bytes: 64, count: 2046 });
        let reuse = ReuseBucket { references_from: 1024, references_to: 2048, count: report.reuse_first + 1 };
        // Line 0, which is touched once more, is a watched line.
        assert!(report.reuse.contains(&reuse), "{report:?}");
        assert!((8..30).contains(&report.reuse_first), "{report:?}");
    }

    #[test]
    fn a_frequent_stride_is_found_among_many() {
        let mut analysis = Analysis::default();
        let mut addr = 0u64;
        for index in 0..10_000u64 {
            addr = addr.wrapping_add(if index % 4 == 0 { 24 } else { mix(index) });
            analysis.add(&Reference::read(addr, 8, 0));
        }
        let first = analysis.report().strides[0];
        assert!(first.bytes == 24 && (2500 - 10_000 / 32..=2500).contains(&first.count), "{first:?}");
    }
}
