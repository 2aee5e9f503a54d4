//! The report as a picture: one file, no script, readable in black and white.

use std::fmt::{self, Write as _};

use memtint_units::PAGE_SIZE;

use crate::report::*;
use crate::text::{bytes, percent_down};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const BARS_HEIGHT: f64 = 130.0;
const PANEL_HEIGHT: f64 = BARS_HEIGHT + 84.0;
const HEAD_HEIGHT: f64 = 62.0;
const FOOT_LINES: usize = 5;
const FOOT_HEIGHT: f64 = 20.0 + 15.0 * FOOT_LINES as f64;
/// More bars than this cannot be told apart at this width; neighbours are then drawn as one.
const BARS_MAX: usize = 64;

/// Draws reports below each other, on one scale: private pages by bank class and, where there are several, by set color.
///
/// Pages in color are filled, pages out of color hatched, and allowed colors have a thick line below the axis: the picture
/// needs no color to be read. An empty list gives an empty picture.
pub fn svg(reports: &[Report]) -> String {
    let panels: Vec<Panel<'_>> = reports.iter().flat_map(Panel::of).collect();
    let height = HEAD_HEIGHT + PANEL_HEIGHT * panels.len() as f64 + FOOT_HEIGHT;
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = draw(&mut out, reports, &panels, height);
    out
}

/// Bars of one dimension of one report.
struct Panel<'a> {
    report: &'a Report,
    dimension: &'static str,
    first: bool,
    bars: Vec<Bar>,
}

struct Bar {
    label: String,
    allowed: bool,
    in_color: u64,
    out_of_color: u64,
}

impl<'a> Panel<'a> {
    fn of(report: &'a Report) -> Vec<Self> {
        let dimensions = [("bank class", &report.bank_classes), ("set color", &report.set_colors)];
        let several = dimensions.into_iter().filter(|(name, rows)| rows.len() > 1 || *name == "bank class");
        let panel = |(dimension, rows): (&'static str, &Vec<ColorRow>)| Self {
            report,
            dimension,
            first: dimension == "bank class",
            bars: bars(rows),
        };
        several.map(panel).collect()
    }
}

fn bars(rows: &[ColorRow]) -> Vec<Bar> {
    let width = rows.len().div_ceil(BARS_MAX).max(1);
    rows.chunks(width)
        .map(|group| Bar {
            label: match group {
                [one] => one.index.to_string(),
                _ => format!("{}-{}", group[0].index, group[group.len() - 1].index),
            },
            allowed: group.iter().any(|row| row.selected),
            in_color: group.iter().map(|row| row.tally.in_color_pages).sum(),
            out_of_color: group.iter().map(|row| row.tally.out_of_color_pages).sum(),
        })
        .collect()
}

fn draw(out: &mut String, reports: &[Report], panels: &[Panel<'_>], height: f64) -> fmt::Result {
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">"#
    )?;
    out.push_str(
        r##"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#ffffff"/><rect width="3" height="6" fill="#b00020"/></pattern></defs>
"##,
    );
    writeln!(out, r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##)?;
    text(out, LEFT, 24.0, "font-size=\"17\" font-weight=\"bold\"", "Where private pages are")?;
    legend(out, reports.iter().any(|report| report.selection.is_some()))?;
    for (index, panel) in panels.iter().enumerate() {
        draw_panel(out, panel, HEAD_HEIGHT + PANEL_HEIGHT * index as f64)?;
    }
    foot(out, reports, height)?;
    out.push_str("</svg>\n");
    Ok(())
}

fn legend(out: &mut String, judged: bool) -> fmt::Result {
    let y = 38.0;
    writeln!(out, r##"<rect x="{LEFT}" y="{y}" width="14" height="12" fill="#1f5fa8" stroke="#000000"/>"##)?;
    text(out, LEFT + 20.0, y + 10.0, "", if judged { "in color" } else { "private pages" })?;
    if judged {
        let x = LEFT + 92.0;
        writeln!(out, r##"<rect x="{x}" y="{y}" width="14" height="12" fill="url(#hatch)" stroke="#000000"/>"##)?;
        text(out, x + 20.0, y + 10.0, "", "out of color")?;
        allowed_mark(out, x + 116.0, y + 4.0, 20.0)?;
        text(out, x + 142.0, y + 10.0, "", "allowed")?;
    }
    Ok(())
}

fn draw_panel(out: &mut String, panel: &Panel<'_>, top: f64) -> fmt::Result {
    let report = panel.report;
    text(out, LEFT, top + 18.0, "font-size=\"13\" font-weight=\"bold\"", &panel.headline())?;
    let base = top + 36.0 + BARS_HEIGHT;
    let tallest = panel.bars.iter().map(|bar| bar.in_color + bar.out_of_color).max().unwrap_or(0).max(1);
    let step = (WIDTH - LEFT - RIGHT) / panel.bars.len() as f64;
    let unit = BARS_HEIGHT / tallest as f64;
    axis(out, base, tallest)?;
    // Numbers that would run into each other are left out at even distances.
    let longest = panel.bars.iter().map(|bar| bar.label.len()).max().unwrap_or(1);
    let skip = ((longest as f64 * 7.5 + 8.0) / step).ceil().max(1.0) as usize;
    for (index, bar) in panel.bars.iter().enumerate() {
        let x = LEFT + step * index as f64 + step * 0.12;
        draw_bar(out, bar, x, base, step * 0.76, unit, &format!("{} {}", panel.dimension, bar.label))?;
        if bar.allowed && report.selection.is_some() {
            allowed_mark(out, x, base + 2.0, step * 0.76)?;
        }
        if index % skip == 0 {
            text(out, x + step * 0.38, base + 19.0, "text-anchor=\"middle\"", &bar.label)?;
        }
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    text(out, middle, base + 35.0, "text-anchor=\"middle\"", panel.dimension)
}

fn allowed_mark(out: &mut String, x: f64, y: f64, width: f64) -> fmt::Result {
    writeln!(out, r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="4" fill="#000000"/>"##)
}

impl Panel<'_> {
    /// The first panel of a report says everything, the others only whose they are.
    fn headline(&self) -> String {
        if self.first {
            headline(self.report)
        } else {
            format!("{}: the same pages by {}", names(self.report), self.dimension)
        }
    }
}

fn names(report: &Report) -> String {
    let names: Vec<String> = report.processes.iter().map(|p| format!("{} ({})", p.comm, p.pid)).collect();
    let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
    format!("{}{more}", names[..names.len().min(3)].join(", "))
}

fn headline(report: &Report) -> String {
    let pages = report.private.pages;
    let who = format!("{}: {pages} private pages, {}", names(report), bytes(pages * PAGE_SIZE));
    match report.verdict {
        None => who,
        Some(verdict) => {
            let share = percent_down(report.private.in_color_pages, pages);
            format!("{who}, {share} in color: {}", verdict.label())
        }
    }
}

fn axis(out: &mut String, base: f64, tallest: u64) -> fmt::Result {
    let (end, top) = (WIDTH - RIGHT, base - BARS_HEIGHT);
    writeln!(out, r##"<path d="M{LEFT} {top}V{base}H{end}" fill="none" stroke="#000000"/>"##)?;
    text(out, LEFT - 6.0, base + 4.0, "text-anchor=\"end\"", "0")?;
    text(out, LEFT - 6.0, top + 10.0, "text-anchor=\"end\"", &tallest.to_string())?;
    text(out, LEFT - 6.0, top + 24.0, "text-anchor=\"end\"", "4 KiB pages")
}

fn draw_bar(out: &mut String, bar: &Bar, x: f64, base: f64, width: f64, unit: f64, name: &str) -> fmt::Result {
    let (solid, hatched) = (bar.in_color as f64 * unit, bar.out_of_color as f64 * unit);
    let y = base - solid;
    writeln!(out, r#"<g><title>{name}: {} pages in color, {} out of color</title>"#, bar.in_color, bar.out_of_color)?;
    if bar.in_color > 0 {
        writeln!(
            out,
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{solid:.1}" fill="#1f5fa8" stroke="#000000"/>"##
        )?;
    }
    if bar.out_of_color > 0 {
        // A single page among millions must still be seen.
        let visible = hatched.max(3.0);
        let y = y - visible;
        writeln!(
            out,
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{visible:.1}" fill="url(#hatch)" stroke="#000000"/>"##
        )?;
    }
    writeln!(out, "</g>")
}

fn foot(out: &mut String, reports: &[Report], height: f64) -> fmt::Result {
    let Some(report) = reports.first() else { return Ok(()) };
    let platform = &report.platform;
    let y = height - FOOT_HEIGHT + 20.0;
    let machine = format!(
        "platform {} ({}), granule {}, bank classes {}, set colors {}",
        platform.id,
        platform.name,
        bytes(platform.granule_bytes),
        platform.bank_classes,
        platform.set_colors
    );
    let lines = wrap(&machine).into_iter().chain(wrap(&platform.caveat));
    for (index, line) in lines.take(FOOT_LINES).enumerate() {
        text(out, LEFT, y + 15.0 * index as f64, "font-size=\"11\"", &line)?;
    }
    Ok(())
}

/// Breaks a text into lines that fit the picture at the foot's size.
fn wrap(content: &str) -> Vec<String> {
    const COLUMNS: usize = 130;
    let mut lines: Vec<String> = vec![String::new()];
    for word in content.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(word.to_owned());
        } else {
            let blank = if lines[last].is_empty() { "" } else { " " };
            lines[last] += &format!("{blank}{word}");
        }
    }
    lines
}

fn text(out: &mut String, x: f64, y: f64, attributes: &str, content: &str) -> fmt::Result {
    writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#, escape_xml(content))
}

/// Makes any text one that may stand in XML: names of commands, platforms and tasks are anybody's. Characters that XML
/// forbids become question marks.
#[must_use]
pub fn escape_xml(content: &str) -> String {
    let mut escaped = String::with_capacity(content.len());
    for character in content.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_safe_in_xml() {
        assert_eq!(escape_xml("a<b>&\"\u{1}\u{ffff}é"), "a&lt;b&gt;&amp;&quot;??é");
    }

    #[test]
    fn many_colors_are_drawn_as_few_bars() {
        let rows: Vec<ColorRow> = (0..200)
            .map(|i| ColorRow {
                tally: Tally { pages: 1, in_color_pages: 1, ..Tally::default() },
                ..ColorRow::new(i, true)
            })
            .collect();
        let drawn = bars(&rows);
        assert!(drawn.len() <= BARS_MAX);
        assert_eq!(drawn.iter().map(|bar| bar.in_color).sum::<u64>(), 200);
        assert_eq!(drawn[0].label, "0-3");
    }
}
