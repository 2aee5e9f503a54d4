//! Where pages are, by color.

use std::fmt::{self, Write as _};

use crate::canvas::{self, Hatch, escape, text};

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

/// Private pages of programs, by bank class or set color.
pub struct Pages {
    /// Below each other, each with its scale.
    pub panels: Vec<Panel>,
    /// Below all, as paragraphs.
    pub foot: Vec<String>,
}

/// Bars of one program in one dimension.
pub struct Panel {
    /// In one line.
    pub headline: String,
    /// What the colors are: `bank class`, `set color`.
    pub dimension: &'static str,
    /// Whether some colors are allowed and others not.
    pub judged: bool,
    /// A row for each color, ascending.
    pub rows: Vec<Row>,
}

/// Pages of a color.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its index.
    pub color: u32,
    /// Whether pages may have it.
    pub allowed: bool,
    /// Pages that may be in it.
    pub in_color: u64,
    /// Pages that may not.
    pub out_of_color: u64,
}

struct Bar {
    label: String,
    allowed: bool,
    in_color: u64,
    out_of_color: u64,
}

impl Pages {
    /// Draws the panels.
    ///
    /// Pages in color are filled, pages out of color hatched, and allowed colors have a thick line below the axis: the picture
    /// needs no color to be read. No panels give an empty picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let height = HEAD_HEIGHT + PANEL_HEIGHT * self.panels.len() as f64 + FOOT_HEIGHT;
        canvas::svg(WIDTH, height, Some(Hatch("#b00020")), |out| self.draw(out, height))
    }

    fn draw(&self, out: &mut String, height: f64) -> fmt::Result {
        text(out, LEFT, 24.0, "font-size=\"17\" font-weight=\"bold\"", "Where private pages are")?;
        legend(out, self.panels.iter().any(|panel| panel.judged))?;
        for (index, panel) in self.panels.iter().enumerate() {
            panel.draw(out, HEAD_HEIGHT + PANEL_HEIGHT * index as f64)?;
        }
        let lines = self.foot.iter().flat_map(|paragraph| wrap(paragraph));
        for (index, line) in lines.take(FOOT_LINES).enumerate() {
            let y = height - FOOT_HEIGHT + 20.0;
            text(out, LEFT, y + 15.0 * index as f64, "font-size=\"11\"", &line)?;
        }
        Ok(())
    }
}

fn bars(rows: &[Row]) -> Vec<Bar> {
    let width = rows.len().div_ceil(BARS_MAX).max(1);
    rows.chunks(width)
        .map(|group| Bar {
            label: match group {
                [one] => one.color.to_string(),
                _ => format!("{}-{}", group[0].color, group[group.len() - 1].color),
            },
            allowed: group.iter().any(|row| row.allowed),
            in_color: group.iter().map(|row| row.in_color).sum(),
            out_of_color: group.iter().map(|row| row.out_of_color).sum(),
        })
        .collect()
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

impl Panel {
    fn draw(&self, out: &mut String, top: f64) -> fmt::Result {
        let bars = bars(&self.rows);
        text(out, LEFT, top + 18.0, "font-size=\"13\" font-weight=\"bold\"", &self.headline)?;
        let base = top + 36.0 + BARS_HEIGHT;
        let tallest = bars.iter().map(|bar| bar.in_color + bar.out_of_color).max().unwrap_or(0).max(1);
        let step = (WIDTH - LEFT - RIGHT) / bars.len() as f64;
        let unit = BARS_HEIGHT / tallest as f64;
        axis(out, base, tallest)?;
        // Numbers that would run into each other are left out at even distances.
        let longest = bars.iter().map(|bar| bar.label.len()).max().unwrap_or(1);
        let skip = ((longest as f64 * 7.5 + 8.0) / step).ceil().max(1.0) as usize;
        for (index, bar) in bars.iter().enumerate() {
            let x = LEFT + step * index as f64 + step * 0.12;
            draw_bar(out, bar, x, base, step * 0.76, unit, &format!("{} {}", self.dimension, bar.label))?;
            if bar.allowed && self.judged {
                allowed_mark(out, x, base + 2.0, step * 0.76)?;
            }
            if index % skip == 0 {
                text(out, x + step * 0.38, base + 19.0, "text-anchor=\"middle\"", &bar.label)?;
            }
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        text(out, middle, base + 35.0, "text-anchor=\"middle\"", self.dimension)
    }
}

fn allowed_mark(out: &mut String, x: f64, y: f64, width: f64) -> fmt::Result {
    writeln!(out, r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="4" fill="#000000"/>"##)
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
    writeln!(
        out,
        r#"<g><title>{}: {} pages in color, {} out of color</title>"#,
        escape(name),
        bar.in_color,
        bar.out_of_color
    )?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_colors_are_drawn_as_few_bars() {
        let rows: Vec<Row> = (0..200).map(|color| Row { color, allowed: true, in_color: 1, out_of_color: 0 }).collect();
        let drawn = bars(&rows);
        assert!(drawn.len() <= BARS_MAX);
        assert_eq!(drawn.iter().map(|bar| bar.in_color).sum::<u64>(), 200);
        assert_eq!(drawn[0].label, "0-3");
    }

    #[test]
    fn what_is_out_of_color_is_hatched_and_named() {
        let row = |color, in_color, out_of_color| Row { color, allowed: color == 0, in_color, out_of_color };
        let rows = vec![row(0, 5, 0), row(1, 0, 1)];
        let panel = Panel { headline: "<sort> (7)".to_owned(), dimension: "bank class", judged: true, rows };
        let svg = Pages { panels: vec![panel], foot: vec!["platform x".to_owned()] }.svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("&lt;sort&gt; (7)") && svg.contains("platform x"), "{svg}");
        assert!(svg.contains("bank class 1: 0 pages in color, 1 out of color"), "{svg}");
        // In the legend, and for the page.
        assert_eq!(svg.matches("url(#hatch)").count(), 2);
    }
}
