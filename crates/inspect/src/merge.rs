//! Sums: pages into rows, reports into reports.

use std::cmp::Reverse;

use crate::maps::SegmentKind;
use crate::report::*;

impl Report {
    /// Adds the report on other processes, as if all were one program.
    ///
    /// The verdict is [`Verdict::Held`] only if both are. Both must come from one [`crate::Inspector`].
    ///
    /// # Panics
    ///
    /// When the two were judged by different platforms or selections.
    #[must_use = "returns the sum"]
    pub fn merge(mut self, other: Self) -> Self {
        assert_eq!(self.platform, other.platform, "reports of different platforms do not add up");
        assert_eq!(self.selection, other.selection, "reports of different selections do not add up");
        self.taken_unix_ms = self.taken_unix_ms.min(other.taken_unix_ms);
        self.elapsed_us += other.elapsed_us;
        self.processes.extend(other.processes);
        self.private.merge(&other.private);
        merge_rows(&mut self.segments, other.segments, |row| row.kind, SegmentRow::merge);
        merge_rows(
            &mut self.bank_classes,
            other.bank_classes,
            |row| row.index,
            |row, more| row.tally.merge(&more.tally),
        );
        merge_rows(&mut self.set_colors, other.set_colors, |row| row.index, |row, more| row.tally.merge(&more.tally));
        for (pair, more) in &other.color_pairs {
            self.color_pairs.entry(*pair).or_default().merge(more);
        }
        merge_rows(&mut self.nodes, other.nodes, |row| row.index, |row, more| row.tally.merge(&more.tally));
        self.pool.merge(&other.pool);
        self.out_of_color.merge(other.out_of_color);
        self.sharing.merge(other.sharing);
        merge_rows(&mut self.not_colorable, other.not_colorable, |row| row.what, |row, more| row.bytes += more.bytes);
        self.verdict = self.verdict.map(|_| self.private.verdict());
        self
    }
}

/// Adds rows with equal keys, and inserts the others; both lists ascend by key, as does the result.
fn merge_rows<Row, Key: Ord>(
    rows: &mut Vec<Row>,
    more: Vec<Row>,
    key: impl Fn(&Row) -> Key,
    add: impl Fn(&mut Row, &Row),
) {
    for row in more {
        match rows.binary_search_by_key(&key(&row), &key) {
            Ok(position) => add(&mut rows[position], &row),
            Err(position) => rows.insert(position, row),
        }
    }
}

impl PrivatePages {
    pub(crate) fn verdict(&self) -> Verdict {
        if self.out_of_color_pages == 0 { Verdict::Held } else { Verdict::Violated }
    }

    fn merge(&mut self, other: &Self) {
        self.pages += other.pages;
        self.in_color_pages += other.in_color_pages;
        self.out_of_color_pages += other.out_of_color_pages;
        self.outside_platform_pages += other.outside_platform_pages;
        self.ksm_pages += other.ksm_pages;
        self.thp_pages += other.thp_pages;
        self.swapped_pages += other.swapped_pages;
    }
}

impl SegmentRow {
    pub(crate) fn new(kind: SegmentKind) -> Self {
        Self {
            kind,
            mappings: 0,
            virtual_bytes: 0,
            private_pages: 0,
            in_color_pages: 0,
            out_of_color_pages: 0,
            file_or_shared_pages: 0,
            zero_pages: 0,
            hugetlb_pages: 0,
            special_pages: 0,
            swapped_pages: 0,
        }
    }

    pub(crate) fn add(&mut self, in_color: bool) {
        self.private_pages += 1;
        *(if in_color { &mut self.in_color_pages } else { &mut self.out_of_color_pages }) += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.mappings += other.mappings;
        self.virtual_bytes += other.virtual_bytes;
        self.private_pages += other.private_pages;
        self.in_color_pages += other.in_color_pages;
        self.out_of_color_pages += other.out_of_color_pages;
        self.file_or_shared_pages += other.file_or_shared_pages;
        self.zero_pages += other.zero_pages;
        self.hugetlb_pages += other.hugetlb_pages;
        self.special_pages += other.special_pages;
        self.swapped_pages += other.swapped_pages;
    }
}

impl ColorRow {
    pub(crate) fn new(index: u32, selected: bool) -> Self {
        Self { index, selected, tally: Tally::default() }
    }
}

impl Tally {
    pub(crate) fn add(&mut self, in_color: bool) {
        self.pages += 1;
        *(if in_color { &mut self.in_color_pages } else { &mut self.out_of_color_pages }) += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.pages += other.pages;
        self.in_color_pages += other.in_color_pages;
        self.out_of_color_pages += other.out_of_color_pages;
    }
}

impl OutOfColor {
    /// Puts the mappings with most pages first and drops those beyond `limit`.
    pub(crate) fn shorten(&mut self, limit: usize) {
        self.mappings.sort_by_key(|mapping| (Reverse(mapping.pages), mapping.pid, mapping.start));
        self.omitted_mappings += self.mappings.len().saturating_sub(limit) as u64;
        self.mappings.truncate(limit);
    }

    fn merge(&mut self, other: Self) {
        self.pages += other.pages;
        self.causes.outside_platform_pages += other.causes.outside_platform_pages;
        self.causes.ksm_pages += other.causes.ksm_pages;
        self.causes.shared_after_fork_pages += other.causes.shared_after_fork_pages;
        self.causes.thp_pages += other.causes.thp_pages;
        self.causes.unknown_pages += other.causes.unknown_pages;
        let limit = self.mappings.len().max(other.mappings.len());
        self.mappings.extend(other.mappings);
        self.omitted_mappings += other.omitted_mappings;
        self.shorten(limit.max(MAPPINGS_LISTED_MIN));
    }
}

/// A sum lists at least this many mappings, however short the lists of its parts were.
const MAPPINGS_LISTED_MIN: usize = 256;

impl Sharing {
    fn merge(&mut self, other: Self) {
        self.pages += other.pages;
        self.searched &= other.searched;
        self.unexplained_pages += other.unexplained_pages;
        self.with.sort_by_key(|with| with.pid);
        let mut more = other.with;
        more.sort_by_key(|with| with.pid);
        merge_rows(&mut self.with, more, |with| with.pid, |with, more| with.pages += more.pages);
        self.with.sort_by_key(|with| (Reverse(with.pages), with.pid));
    }
}
