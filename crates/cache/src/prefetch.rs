//! Prefetchers, which predict the lines needed next.

use crate::config::{PrefetchConfig, StrideConfig};
use memtint_units::PAGE_SHIFT;

/// At most this many lines are proposed after an access: 3 by stride, 1 as next line.
pub(crate) const PROPOSALS_MAX: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Prefetcher {
    next_line: bool,
    stride: Option<StrideConfig>,
    /// Most recently trained first.
    streams: Vec<Stream>,
    lines_per_page_shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u64,
    line: u64,
    stride: i64,
    /// How many times in a row the stride occurred.
    seen: u32,
}

/// Lines to prefetch, best first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Proposals {
    pub(crate) lines: [u64; PROPOSALS_MAX],
    pub(crate) count: usize,
}

impl Proposals {
    fn push(&mut self, line: u64) {
        if self.count < PROPOSALS_MAX && !self.lines[..self.count].contains(&line) {
            self.lines[self.count] = line;
            self.count += 1;
        }
    }
}

impl Prefetcher {
    /// Makes a prefetcher; `None` when none is configured.
    pub(crate) fn new(config: PrefetchConfig, line_shift: u32) -> Option<Prefetcher> {
        if !config.next_line && config.stride.is_none() {
            return None;
        }
        let streams = Vec::with_capacity(config.stride.map_or(0, |stride| stride.streams as usize));
        let lines_per_page_shift = PAGE_SHIFT - line_shift;
        Some(Prefetcher { next_line: config.next_line, stride: config.stride, streams, lines_per_page_shift })
    }

    /// Trains on an access that missed the first level, and proposes lines of the same page.
    pub(crate) fn train(&mut self, line: u64, missed_l2: bool) -> Proposals {
        let mut proposals = Proposals::default();
        let shift = self.lines_per_page_shift;
        let page = line >> shift;
        let inside = |candidate: u64| candidate >> shift == page;
        if let Some(config) = self.stride {
            let stream = self.follow(page, line, config);
            if stream.seen >= config.confidence {
                let steps = (1..=i64::from(config.degree)).map(|step| line.wrapping_add_signed(step * stream.stride));
                steps.filter(|&candidate| inside(candidate)).for_each(|candidate| proposals.push(candidate));
            }
        }
        if self.next_line && missed_l2 && inside(line + 1) {
            proposals.push(line + 1);
        }
        proposals
    }

    /// Updates the page's stream and moves it to the front.
    fn follow(&mut self, page: u64, line: u64, config: StrideConfig) -> Stream {
        let Some(at) = self.streams.iter().position(|stream| stream.page == page) else {
            self.streams.truncate(config.streams as usize - 1);
            let stream = Stream { page, line, stride: 0, seen: 0 };
            self.streams.insert(0, stream);
            return stream;
        };
        self.streams[..=at].rotate_right(1);
        let stream = &mut self.streams[0];
        let stride = line.wrapping_sub(stream.line) as i64;
        if stride != 0 {
            stream.seen = if stride == stream.stride { stream.seen.saturating_add(1) } else { 1 };
            stream.stride = stride;
            stream.line = line;
        }
        *stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(proposals: Proposals) -> Vec<u64> {
        proposals.lines[..proposals.count].to_vec()
    }

    fn strides(streams: u32) -> Prefetcher {
        let stride = Some(StrideConfig { streams, confidence: 2, degree: 3 });
        Prefetcher::new(PrefetchConfig { next_line: false, stride }, 6).unwrap()
    }

    #[test]
    fn a_stride_is_believed_when_it_comes_again_and_stays_in_its_page() {
        let mut prefetcher = strides(4);
        assert_eq!(lines(prefetcher.train(0, true)), [] as [u64; 0]);
        assert_eq!(lines(prefetcher.train(5, true)), [] as [u64; 0]);
        assert_eq!(lines(prefetcher.train(10, true)), [15, 20, 25]);
        assert_eq!(lines(prefetcher.train(9, true)), [] as [u64; 0], "another stride");
        assert_eq!(lines(prefetcher.train(8, true)), [7, 6, 5]);
        assert_eq!(lines(prefetcher.train(7, true)), [6, 5, 4]);
        for line in [50, 55] {
            prefetcher.train(line, true);
        }
        assert_eq!(lines(prefetcher.train(60, true)), [] as [u64; 0], "65 is in the next page of 64 lines");
    }

    #[test]
    fn streams_of_several_pages_do_not_disturb_each_other_until_there_are_too_many() {
        let mut prefetcher = strides(2);
        for step in 0..3 {
            prefetcher.train(step, true);
            prefetcher.train(64 + 2 * step, true);
        }
        assert_eq!(lines(prefetcher.train(3, true)), [4, 5, 6]);
        assert_eq!(lines(prefetcher.train(64 + 6, true)), [72, 74, 76]);
        prefetcher.train(128, true);
        assert_eq!(lines(prefetcher.train(4, true)), [] as [u64; 0], "the oldest stream was given up");
    }

    #[test]
    fn the_next_line_is_proposed_on_a_second_level_miss_within_the_page() {
        let mut prefetcher = Prefetcher::new(PrefetchConfig { next_line: true, stride: None }, 6).unwrap();
        assert_eq!(lines(prefetcher.train(3, true)), [4]);
        assert_eq!(lines(prefetcher.train(3, false)), [] as [u64; 0]);
        assert_eq!(lines(prefetcher.train(63, true)), [] as [u64; 0]);
    }
}
