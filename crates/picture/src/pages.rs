//! Where pages are, by color: bars for one kind of color, a map for two.

use std::fmt::{self, Write as _};

use crate::canvas::{self, BODY, HEADING, Paragraph, SMALL, Sheet, TICK, TITLE, escape, name, paragraphs, text};
use crate::heat::{Heat, Levels};
use crate::ticks::{Ticks, ValueAxis};

pub(crate) const WIDTH: f64 = 960.0;
pub(crate) const LEFT: f64 = 84.0;
pub(crate) const RIGHT: f64 = 24.0;
const BARS_HEIGHT: f64 = 130.0;
/// Above the bars, for the name of their panel, and below them, for labels.
const ABOVE: f64 = 36.0;
const BELOW: f64 = 48.0;
const LEGEND: f64 = 24.0;
/// More bars than this are indistinguishable at this width; neighbors are then drawn as one.
pub(crate) const BARS_MAX: usize = 64;
const STEPS: u32 = 5;
/// Least height of a bar in pixels: a single page among millions stays visible.
const PAGE_MIN: f64 = 3.0;

/// Private pages of programs, by bank class, set color, or both.
pub struct Pages {
    /// The conclusion.
    pub title: String,
    /// Below each other. All that show the same kind of color have one scale.
    pub parts: Vec<Part>,
    /// Below all, as paragraphs.
    pub foot: Vec<String>,
}

/// A part of a picture of pages.
pub enum Part {
    /// Bars, by one kind of color.
    Bars(Panel),
    /// A map, by two kinds of color.
    Heat(Heat),
}

/// Bars of one program in one dimension.
pub struct Panel {
    /// In one line.
    pub headline: String,
    /// The kind of color: `bank class`, `set color`.
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
    /// Draws the parts.
    ///
    /// Pages in color are filled, pages out of color hatched, and allowed colors have a thick line below the axis: the picture
    /// needs no color to be read. No parts give an empty picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let wide = WIDTH - LEFT - RIGHT;
        let head = [Paragraph::new(TITLE, &self.title, wide)];
        let notes = self.scale_note().into_iter().chain(self.foot.iter().cloned());
        let foot: Vec<Paragraph> = notes.map(|note| Paragraph::new(SMALL, &note, wide)).collect();
        let legend = 12.0 + canvas::height(&head) + 8.0;
        let top = legend + LEGEND;
        let bottom = top + self.parts.iter().map(Part::height).sum::<f64>();
        let height = bottom + canvas::height(&foot) + 14.0;
        let description = self.description();
        let sheet = Sheet { width: WIDTH, height, title: &self.title, description: &description, hatch: Some("due") };
        canvas::svg(&sheet, |out| {
            paragraphs(out, LEFT, 12.0, &head)?;
            draw_legend(out, legend, self.parts.iter().any(Part::is_judged))?;
            let mut top = top;
            for part in &self.parts {
                match part {
                    Part::Bars(panel) => panel.draw(out, top, self.scale(panel.dimension))?,
                    Part::Heat(heat) => heat.draw(out, top, &self.levels())?,
                }
                top += part.height();
            }
            paragraphs(out, LEFT, bottom, &foot)
        })
    }

    fn description(&self) -> String {
        let headlines: Vec<&str> = self.parts.iter().map(Part::headline).collect();
        format!(
            "Private pages by color: filled in color, hatched out of color, a thick line where a color is allowed. {}",
            headlines.join(". ")
        )
    }

    fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.parts.iter().filter_map(|part| match part {
            Part::Bars(panel) => Some(panel),
            Part::Heat(_) => None,
        })
    }

    /// The scale of all panels of a dimension.
    fn scale(&self, dimension: &str) -> Ticks {
        let panels = self.panels().filter(|panel| panel.dimension == dimension);
        let tallest = panels.flat_map(|panel| bars(&panel.rows)).map(|bar| bar.in_color + bar.out_of_color).max();
        // A part of a page is none.
        let tallest = tallest.unwrap_or(0).max(1);
        Ticks::covering(0.0, tallest as f64, STEPS.min(u32::try_from(tallest).unwrap_or(STEPS)))
    }

    /// The scale of all maps.
    fn levels(&self) -> Levels {
        let maps = self.parts.iter().filter_map(|part| match part {
            Part::Bars(_) => None,
            Part::Heat(heat) => Some(heat.most()),
        });
        Levels::up_to(maps.max().unwrap_or(0))
    }

    fn scale_note(&self) -> Option<String> {
        let mut dimensions: Vec<&str> = Vec::new();
        let mut shared: Vec<&str> = Vec::new();
        for panel in self.panels() {
            let list = if dimensions.contains(&panel.dimension) { &mut shared } else { &mut dimensions };
            if !list.contains(&panel.dimension) {
                list.push(panel.dimension);
            }
        }
        (!shared.is_empty()).then(|| format!("one scale for all panels by {}", shared.join(", and one for all by ")))
    }
}

impl Part {
    fn height(&self) -> f64 {
        match self {
            Part::Bars(_) => ABOVE + BARS_HEIGHT + BELOW,
            Part::Heat(heat) => heat.height(),
        }
    }

    fn headline(&self) -> &str {
        match self {
            Part::Bars(panel) => &panel.headline,
            Part::Heat(heat) => &heat.headline,
        }
    }

    fn is_judged(&self) -> bool {
        match self {
            Part::Bars(panel) => panel.judged,
            Part::Heat(heat) => heat.judged,
        }
    }
}

/// Number of neighboring colors that one bar stands for.
pub(crate) fn together(colors: usize) -> usize {
    colors.div_ceil(BARS_MAX).max(1)
}

/// The name of colors from a first to a last.
pub(crate) fn label(first: u32, last: u32) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

fn bars(rows: &[Row]) -> Vec<Bar> {
    rows.chunks(together(rows.len()))
        .map(|group| Bar {
            label: label(group[0].color, group[group.len() - 1].color),
            allowed: group.iter().any(|row| row.allowed),
            in_color: group.iter().map(|row| row.in_color).sum(),
            out_of_color: group.iter().map(|row| row.out_of_color).sum(),
        })
        .collect()
}

fn draw_legend(out: &mut String, y: f64, judged: bool) -> fmt::Result {
    writeln!(out, r#"<rect x="{LEFT}" y="{y}" width="14" height="12" class="solid edge"/>"#)?;
    text(out, LEFT + 20.0, y + 10.0, BODY, if judged { "in color" } else { "private pages" })?;
    if judged {
        let x = LEFT + 92.0;
        writeln!(out, r#"<rect x="{x}" y="{y}" width="14" height="12" fill="url(#hatch)" class="edge"/>"#)?;
        text(out, x + 20.0, y + 10.0, BODY, "out of color")?;
        allowed_mark(out, x + 116.0, y + 4.0, 20.0, 4.0)?;
        text(out, x + 142.0, y + 10.0, BODY, "allowed")?;
    }
    Ok(())
}

/// The smallest n such that every n-th label fits, at this distance between neighboring labels.
pub(crate) fn every(labels: impl Iterator<Item = String>, step: f64) -> usize {
    let longest = labels.map(|label| TICK.width(&label)).fold(0.0, f64::max);
    ((longest + 8.0) / step).ceil().max(1.0) as usize
}

impl Panel {
    fn draw(&self, out: &mut String, top: f64, ticks: Ticks) -> fmt::Result {
        let bars = bars(&self.rows);
        name(out, LEFT, top + 16.0, HEADING, &self.headline, WIDTH - LEFT - RIGHT)?;
        let axis =
            ValueAxis { ticks, left: LEFT, right: WIDTH - RIGHT, top: top + ABOVE, bottom: top + ABOVE + BARS_HEIGHT };
        axis.draw(out, "")?;
        text(out, LEFT - 8.0, top + ABOVE - 10.0, TICK.end(), "4 KiB pages")?;
        let step = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
        let every = every(bars.iter().map(|bar| bar.label.clone()), step);
        for (index, bar) in bars.iter().enumerate() {
            let (x, width) = (LEFT + step * (index as f64 + 0.12), step * 0.76);
            bar.draw(out, &axis, (x, width), self.dimension)?;
            if bar.allowed && self.judged {
                allowed_mark(out, x, axis.bottom + 2.0, width, 4.0)?;
            }
            if index % every == 0 {
                text(out, x + width / 2.0, axis.bottom + 18.0, TICK.middle(), &bar.label)?;
            }
        }
        text(out, (LEFT + WIDTH - RIGHT) / 2.0, axis.bottom + 33.0, BODY.middle(), self.dimension)
    }
}

pub(crate) fn allowed_mark(out: &mut String, x: f64, y: f64, width: f64, height: f64) -> fmt::Result {
    writeln!(out, r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="ink"/>"#)
}

impl Bar {
    fn draw(&self, out: &mut String, axis: &ValueAxis, (x, width): (f64, f64), dimension: &str) -> fmt::Result {
        let Bar { label, in_color, out_of_color, .. } = self;
        let what = escape(&format!("{dimension} {label}: {in_color} pages in color, {out_of_color} out of color"));
        writeln!(out, "<g><title>{what}</title>")?;
        let solid = axis.y(*in_color as f64);
        if *in_color > 0 {
            let high = axis.bottom - solid;
            writeln!(
                out,
                r#"<rect x="{x:.1}" y="{solid:.1}" width="{width:.1}" height="{high:.1}" class="solid edge"/>"#
            )?;
        }
        if *out_of_color > 0 {
            let high = (solid - axis.y((in_color + out_of_color) as f64)).max(PAGE_MIN);
            let y = solid - high;
            writeln!(
                out,
                r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{high:.1}" fill="url(#hatch)" class="edge"/>"#
            )?;
        }
        writeln!(out, "</g>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(panels: Vec<Panel>) -> Pages {
        let parts = panels.into_iter().map(Part::Bars).collect();
        Pages { title: "conclusion".to_owned(), parts, foot: vec!["platform x".to_owned()] }
    }

    fn panel(headline: &str, dimension: &'static str, rows: &[(u64, u64)]) -> Panel {
        let row = |(color, &(in_color, out_of_color)): (usize, &(u64, u64))| Row {
            color: color as u32,
            allowed: color == 0,
            in_color,
            out_of_color,
        };
        Panel {
            headline: headline.to_owned(),
            dimension,
            judged: true,
            rows: rows.iter().enumerate().map(row).collect(),
        }
    }

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
        let svg = pages(vec![panel("<sort> (7)", "bank class", &[(5, 0), (0, 1)])]).svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("&lt;sort&gt; (7)") && svg.contains("platform x"), "{svg}");
        assert!(svg.contains("bank class 1: 0 pages in color, 1 out of color"), "{svg}");
        // In the legend, and for the page.
        assert_eq!(svg.matches("url(#hatch)").count(), 2);
    }

    #[test]
    fn programs_share_the_scale_of_a_dimension() {
        let both = pages(vec![
            panel("a", "bank class", &[(5, 0), (0, 1)]),
            panel("a", "set color", &[(2, 0)]),
            panel("b", "bank class", &[(0, 900), (100, 0)]),
        ]);
        assert_eq!((both.scale("bank class").most(), both.scale("set color").most()), (1000.0, 2.0));
        let svg = both.svg();
        assert!(svg.contains("one scale for all panels by bank class"), "{svg}");
        assert_eq!(svg.matches(">1000</text>").count(), 2);
        assert!(!pages(vec![panel("a", "bank class", &[(5, 0)])]).svg().contains("one scale"));
    }

    #[test]
    fn ticks_of_few_pages_are_whole() {
        let one = pages(vec![panel("a", "bank class", &[(1, 0)])]);
        assert_eq!(one.scale("bank class").labeled().map(|(_, label)| label).collect::<Vec<_>>(), ["0", "1"]);
    }
}
