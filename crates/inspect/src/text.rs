//! The report as text: a table for a terminal.

use std::fmt::{self, Write as _};

use memtint_units::PAGE_SIZE;

use crate::report::*;

/// A screenful; the JSON form has more.
const MAPPINGS_SHOWN: usize = 10;
const ROWS_SHOWN: usize = 32;

impl PlatformSummary {
    /// Describes in one line the platform that pages were judged against.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "platform {} ({}), granule {}, bank classes {}, set colors {}",
            self.id,
            self.name,
            bytes(self.granule_bytes),
            self.bank_classes,
            self.set_colors
        )
    }
}

impl Report {
    /// Writes the report as text: lines of at most some 100 columns, ending in the verdict if there is one.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = self.write_text(&mut text);
        text
    }

    /// Names the first of its processes, with their numbers.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<String> = self.processes.iter().map(|p| format!("{} ({})", p.comm, p.pid)).collect();
        let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
        format!("{}{more}", names[..names.len().min(3)].join(", "))
    }

    /// Gives in one line the amount of private memory, and, if it was judged, the share in color.
    #[must_use]
    pub fn headline(&self) -> String {
        let pages = self.private.pages;
        let who = format!("{}: {pages} private pages, {}", self.names(), bytes(pages * PAGE_SIZE));
        match self.verdict {
            None => who,
            Some(verdict) => {
                let share = percent_down(self.private.in_color_pages, pages);
                format!("{who}, {share} in color: {}", verdict.label())
            }
        }
    }

    fn write_text(&self, out: &mut String) -> fmt::Result {
        self.write_head(out)?;
        self.write_segments(out)?;
        write_colors(out, "bank class", &self.bank_classes)?;
        write_colors(out, "set color", &self.set_colors)?;
        if self.nodes.len() > 1 {
            write_colors(out, "node", &self.nodes)?;
        }
        self.write_not_colorable(out)?;
        self.write_sharing(out)?;
        self.write_out_of_color(out)?;
        self.write_verdict(out)
    }

    fn write_head(&self, out: &mut String) -> fmt::Result {
        for process in &self.processes {
            let plural = if process.threads == 1 { "" } else { "s" };
            writeln!(out, "process {} ({}), {} thread{plural}", process.pid, process.comm, process.threads)?;
        }
        let platform = &self.platform;
        writeln!(
            out,
            "platform {}, granule {}, bank classes {}, set colors {}",
            platform.id,
            bytes(platform.granule_bytes),
            platform.bank_classes,
            platform.set_colors
        )?;
        if let Some(selection) = &self.selection {
            let part = |list: &Option<String>| list.clone().unwrap_or_else(|| "any".to_owned());
            let (banks, sets, node) = (part(&selection.banks), part(&selection.sets), part(&selection.node));
            writeln!(out, "allowed: bank classes {banks}, set colors {sets}, nodes {node}")?;
        }
        writeln!(out)
    }

    fn write_segments(&self, out: &mut String) -> fmt::Result {
        let judged = self.selection.is_some();
        writeln!(
            out,
            "{:<16}{:>9}{:>15}{:>11}{:>14}{:>14}{:>9}",
            "segment", "mappings", "private pages", "in color", "out of color", "file, shared", "swapped"
        )?;
        for row in &self.segments {
            let mark = |pages: u64| if judged { pages.to_string() } else { "-".to_owned() };
            writeln!(
                out,
                "{:<16}{:>9}{:>15}{:>11}{:>14}{:>14}{:>9}",
                row.kind.label(),
                row.mappings,
                row.private_pages,
                mark(row.in_color_pages),
                mark(row.out_of_color_pages),
                row.file_or_shared_pages,
                row.swapped_pages
            )?;
        }
        writeln!(out)
    }

    fn write_not_colorable(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "not colorable")?;
        for entry in &self.not_colorable {
            writeln!(out, "  {:<50}{:>12}", entry.what.label(), bytes(entry.bytes))?;
        }
        writeln!(out)
    }

    fn write_sharing(&self, out: &mut String) -> fmt::Result {
        let sharing = &self.sharing;
        if sharing.pages == 0 {
            return Ok(());
        }
        writeln!(out, "private pages still shared after a fork: {}", sharing.pages)?;
        for with in &sharing.with {
            writeln!(out, "  {:>8} with process {} ({})", with.pages, with.pid, with.comm)?;
        }
        if sharing.searched && sharing.unexplained_pages > 0 {
            writeln!(out, "  {:>8} with processes that were not found", sharing.unexplained_pages)?;
        }
        writeln!(out)
    }

    fn write_out_of_color(&self, out: &mut String) -> fmt::Result {
        if self.out_of_color.pages == 0 {
            return Ok(());
        }
        writeln!(out, "out of color: {}", pages(self.out_of_color.pages))?;
        for (cause, pages) in self.out_of_color.causes.named() {
            writeln!(out, "  {pages:>8} {cause}")?;
        }
        for mapping in self.out_of_color.mappings.iter().take(MAPPINGS_SHOWN) {
            let name = if mapping.name.is_empty() { mapping.kind.label() } else { &mapping.name };
            writeln!(
                out,
                "  {:#x}-{:#x} {} (process {}): {}",
                mapping.start,
                mapping.end,
                name,
                mapping.pid,
                pages(mapping.pages)
            )?;
            let shown: Vec<String> = mapping.addresses.iter().take(4).map(OutPage::describe).collect();
            let more = if mapping.pages > shown.len() as u64 { ", ..." } else { "" };
            writeln!(out, "    {}{more}", shown.join(", "))?;
        }
        let hidden = self.out_of_color.mappings.len().saturating_sub(MAPPINGS_SHOWN) as u64;
        let more = hidden + self.out_of_color.omitted_mappings;
        if more > 0 {
            writeln!(out, "  and in {more} more mappings, which the JSON form lists up to its bound")?;
        }
        writeln!(out)
    }

    fn write_verdict(&self, out: &mut String) -> fmt::Result {
        let private = &self.private;
        if self.pool.pages > 0 {
            let Self { pool, .. } = self;
            writeln!(
                out,
                "memtint's own pages, not counted: {}, out of color {}",
                pool.pages, pool.out_of_color_pages
            )?;
        }
        if private.ksm_pages + private.thp_pages + private.swapped_pages > 0 {
            writeln!(
                out,
                "of the private pages, merged by KSM {}, in huge pages {}; besides them, in swap {}",
                private.ksm_pages, private.thp_pages, private.swapped_pages
            )?;
        }
        if private.outside_platform_pages > 0 {
            let outside = private.outside_platform_pages;
            writeln!(
                out,
                "{outside} private pages lie outside the memory that the platform describes: is it this machine's?"
            )?;
        }
        for what in &self.not_judged {
            writeln!(out, "not judged: {what}")?;
        }
        writeln!(out, "note: {}", self.platform.caveat)?;
        match self.verdict {
            None => writeln!(out, "{} private pages ({})", private.pages, bytes(private.pages * PAGE_SIZE)),
            Some(verdict) => writeln!(
                out,
                "verdict: {} ({} of {} private pages in color, {})",
                verdict.label(),
                private.in_color_pages,
                private.pages,
                percent_down(private.in_color_pages, private.pages)
            ),
        }
    }
}

fn write_colors(out: &mut String, name: &str, rows: &[ColorRow]) -> fmt::Result {
    if rows.len() <= 1 {
        return Ok(());
    }
    // Hundreds of colors would bury the rest.
    if rows.len() > ROWS_SHOWN {
        let (with_pages, last) = (rows.iter().filter(|row| row.tally.pages > 0).count(), rows.len() - 1);
        let elsewhere: u64 = rows.iter().filter(|row| !row.selected).map(|row| row.tally.pages).sum();
        return writeln!(
            out,
            "{name}s 0-{last}: pages in {with_pages} of them, {elsewhere} pages where they are not allowed; the JSON form lists all\n"
        );
    }
    let total: u64 = rows.iter().map(|row| row.tally.pages).sum();
    writeln!(out, "{name:<12}{:>9}{:>9}{:>12}{:>14}", "allowed", "pages", "share", "out of color")?;
    for row in rows {
        let allowed = if row.selected { "yes" } else { "no" };
        let share = row.tally.pages as f64 * 100.0 / total.max(1) as f64;
        let Tally { pages, out_of_color_pages, .. } = row.tally;
        writeln!(out, "{:<12}{allowed:>9}{pages:>9}{share:>8.1} %{out_of_color_pages:>13}", row.index)?;
    }
    writeln!(out)
}

impl Verdict {
    /// The word: "held" or "violated".
    pub fn label(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Violated => "violated",
        }
    }
}

impl Causes {
    /// The causes that occur, in words, with their pages.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("outside the platform's memory", self.outside_platform_pages),
            ("merged by KSM", self.ksm_pages),
            ("still shared after a fork", self.shared_after_fork_pages),
            ("in a huge page", self.thp_pages),
            ("cause unknown", self.unknown_pages),
        ];
        all.into_iter().filter(|&(_, pages)| pages > 0).collect()
    }
}

impl OutPage {
    fn describe(&self) -> String {
        let mut text = format!("{:#x}", self.address);
        match (self.bank_class, self.set_color) {
            (Some(bank), Some(set)) => {
                let _ = write!(text, " (bank class {bank}, set color {set})");
            }
            _ => text.push_str(" (outside)"),
        }
        text
    }
}

fn pages(count: u64) -> String {
    if count == 1 { "1 page".to_owned() } else { format!("{count} pages") }
}

/// Bytes with the largest unit of which there is at least one, to one digit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = count as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 || scaled.fract() == 0.0 {
        format!("{scaled:.0} {}", UNITS[unit])
    } else {
        format!("{scaled:.1} {}", UNITS[unit])
    }
}

/// A share in percent with two digits, rounded down: 100.00 % means all of them.
pub(crate) fn percent_down(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "100.00 %".to_owned();
    }
    let hundredths = (u128::from(part) * 10_000 / u128::from(whole)) as u64;
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_out_of_color_is_never_a_hundred_percent() {
        assert_eq!(percent_down(999_999, 1_000_000), "99.99 %");
        assert_eq!(percent_down(7, 7), "100.00 %");
        assert_eq!(percent_down(0, 0), "100.00 %");
    }

    #[test]
    fn byte_counts_are_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(1536 * 1024), "1.5 MiB");
    }
}
