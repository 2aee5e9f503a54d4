//! Bars in groups.

use std::fmt::{self, Write as _};

use crate::canvas::{self, BODY, HEADING, Paragraph, SMALL, Sheet, TICK, TITLE, escape, name, paragraphs, text};
use crate::plot::{LEFT, Limit, RIGHT, Series, WIDTH, key};
use crate::ticks::{Ticks, ValueAxis};

const PLOT: f64 = 220.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 30.0;
const BAR_MAX: f64 = 34.0;
const STEPS: u32 = 6;
/// The fill of a series' bars, distinguishable without color.
const FILLS: [&str; 3] = [r##"fill="url(#hatch)" class="edge""##, r#"class="solid edge""#, r#"class="ground edge""#];

/// Groups of bars beside each other, one group for each label, up to three bars in a group.
pub struct Bars {
    /// The conclusion.
    pub title: String,
    /// Subject of the picture.
    pub subtitle: String,
    /// Name of the values.
    pub name: &'static str,
    /// Below each group.
    pub labels: Vec<String>,
    /// A line across that the values are held against.
    pub limit: Limit,
    /// A bar for each label.
    pub series: Vec<Series>,
    /// Why a value is missing.
    pub missing: &'static str,
}

impl Bars {
    /// Draws the groups. The axis begins at zero.
    pub fn svg(&self) -> String {
        let wide = WIDTH - LEFT - 20.0;
        let head = [Paragraph::new(TITLE, &self.title, wide), Paragraph::new(SMALL, &self.subtitle, wide)];
        let note = self.note().map(|note| Paragraph::new(SMALL, &note, wide));
        let top = 12.0 + canvas::height(&head) + 6.0;
        let bottom = top + ABOVE + PLOT + BELOW;
        let height = bottom + canvas::height(note.as_slice()) + 12.0;
        let description = format!("{}. {} of {}", self.subtitle, self.name, self.labels.join(", "));
        let sheet = Sheet { width: WIDTH, height, title: &self.title, description: &description, hatch: Some("busy") };
        canvas::svg(&sheet, |out| {
            paragraphs(out, LEFT, 12.0, &head)?;
            self.groups(out, top)?;
            paragraphs(out, LEFT, bottom, note.as_slice())
        })
    }

    /// Values that have no bar.
    fn note(&self) -> Option<String> {
        let missing = self.series.iter().flat_map(|series| {
            let labels = self.labels.iter().zip(&series.values).filter(|(_, value)| value.is_none());
            labels.map(|(label, _)| format!("{} of {label}", series.name))
        });
        let missing: Vec<String> = missing.collect();
        (!missing.is_empty()).then(|| format!("not drawn ({}): {}", self.missing, missing.join("; ")))
    }

    fn groups(&self, out: &mut String, top: f64) -> fmt::Result {
        text(out, LEFT, top + 18.0, HEADING, self.name)?;
        let values = self.series.iter().flat_map(|series| series.values.iter().copied().flatten());
        let ticks = Ticks::covering(0.0, values.fold(self.limit.at, f64::max), STEPS);
        let (from, to) = (top + ABOVE, top + ABOVE + PLOT);
        let axis = ValueAxis { ticks, left: LEFT, right: WIDTH - RIGHT, top: from, bottom: to };
        axis.draw(out, "")?;
        let group = (WIDTH - LEFT - RIGHT) / self.labels.len().max(1) as f64;
        let bar = BAR_MAX.min(group * 0.8 / self.series.len().max(1) as f64);
        for (place, label) in self.labels.iter().enumerate() {
            let middle = LEFT + group * (place as f64 + 0.5);
            let shown = TICK.fit(label, group - 4.0);
            text(out, middle, to + 16.0, TICK.middle(), &shown)?;
            let first = middle - bar * self.series.len() as f64 / 2.0;
            for (index, series) in self.series.iter().enumerate() {
                let Some(value) = series.values.get(place).copied().flatten() else { continue };
                let what = format!("{}, {label}: {value:.3}", series.name);
                self.bar(out, &axis, (first + bar * index as f64, bar), index, (value, &what))?;
            }
        }
        for (index, series) in self.series.iter().enumerate() {
            let at = key(&axis, index);
            let fill = FILLS[index % FILLS.len()];
            writeln!(out, r#"<rect x="{}" y="{:.1}" width="36" height="10" {fill}/>"#, WIDTH - RIGHT + 16.0, at - 5.0)?;
            name(out, WIDTH - RIGHT + 60.0, at + 4.0, BODY, series.name, RIGHT - 64.0)?;
        }
        self.limit.draw(out, &axis, self.series.len())
    }

    fn bar(
        &self,
        out: &mut String,
        axis: &ValueAxis,
        (x, width): (f64, f64),
        index: usize,
        (value, what): (f64, &str),
    ) -> fmt::Result {
        let (y, fill) = (axis.y(value), FILLS[index % FILLS.len()]);
        let height = axis.bottom - y;
        writeln!(
            out,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" {fill}><title>{}</title></rect>"#,
            escape(what)
        )?;
        text(out, x + width / 2.0, y - 4.0, TICK.middle(), &format!("{value:.2}"))
    }
}
