//! Lines over a row of labels.

use std::fmt::{self, Write as _};

use crate::canvas::{self, BODY, HEADING, Paragraph, SMALL, Sheet, TICK, TITLE, escape, name, paragraphs, text};
use crate::ticks::{Ticks, ValueAxis};

pub(crate) const WIDTH: f64 = 780.0;
pub(crate) const LEFT: f64 = 76.0;
/// For the names of lines.
pub(crate) const RIGHT: f64 = 190.0;
const PLOT: f64 = 190.0;
/// Above and below a plot: its name, and its labels.
const ABOVE: f64 = 30.0;
const BELOW: f64 = 26.0;
/// Dashes of lines, in order; colors go with them, as classes `f0` to `f7` and `l0` to `l7`.
const DASHES: [&str; 8] = ["none", "8 3", "2 2", "8 3 2 3", "12 4", "4 4", "1 4", "12 3 3 3"];
const STEPS: u32 = 5;
/// Where values differ by less than this part of the largest, an axis from zero would show a flat line.
const FLAT: f64 = 0.1;

/// Lines in panels below each other, over the same labels.
pub struct Plot {
    /// The conclusion.
    pub title: String,
    /// Its subject.
    pub subtitle: String,
    /// Below each panel, from left to right.
    pub labels: Vec<String>,
    /// Below each other.
    pub panels: Vec<Panel>,
    /// Why a value is missing, such as `no schedule`.
    pub missing: &'static str,
}

/// Lines with a name.
pub struct Panel {
    /// The quantity and its unit.
    pub name: &'static str,
    /// A line across that the values are held against.
    pub limit: Option<Limit>,
    /// The lines.
    pub series: Vec<Series>,
}

/// A value that others are held against.
#[derive(Clone, Copy)]
pub struct Limit {
    /// The value.
    pub at: f64,
    /// Its name.
    pub name: &'static str,
}

/// A line: a value for each label, or none.
pub struct Series {
    /// Name beside the line.
    pub name: &'static str,
    /// A value for each label.
    pub values: Vec<Option<f64>>,
}

impl Plot {
    /// Draws the panels: axes begin at zero, or are marked as broken.
    pub fn svg(&self) -> String {
        let wide = WIDTH - LEFT - 20.0;
        let head = [Paragraph::new(TITLE, &self.title, wide), Paragraph::new(SMALL, &self.subtitle, wide)];
        let notes: Vec<Vec<Paragraph>> = self.panels.iter().map(|panel| self.notes(panel)).collect();
        let all = || self.panels.iter().zip(&notes);
        let top = 12.0 + canvas::height(&head) + 6.0;
        let height = top + all().map(|(panel, notes)| panel.height() + canvas::height(notes) + 12.0).sum::<f64>();
        let description = self.description();
        let sheet = Sheet { width: WIDTH, height, title: &self.title, description: &description, hatch: None };
        canvas::svg(&sheet, |out| {
            paragraphs(out, LEFT, 12.0, &head)?;
            let mut top = top;
            for (panel, notes) in all() {
                self.panel(out, panel, top)?;
                paragraphs(out, LEFT, top + panel.height(), notes)?;
                top += panel.height() + canvas::height(notes) + 12.0;
            }
            Ok(())
        })
    }

    fn description(&self) -> String {
        let panels: Vec<&str> = self.panels.iter().map(|panel| panel.name).collect();
        let names = self.panels.first().map_or(Vec::new(), |panel| panel.series.iter().map(|own| own.name).collect());
        format!(
            "{}. Panels: {}. Lines over {}: {}",
            self.subtitle,
            panels.join("; "),
            self.labels.join(", "),
            names.join(", ")
        )
    }

    /// Notes on a panel.
    fn notes(&self, panel: &Panel) -> Vec<Paragraph> {
        let axis = panel.ticks().filter(|ticks| ticks.least() > 0.0);
        let broken = axis
            .and_then(|ticks| ticks.labeled().next())
            .map(|(_, least)| format!("the axis is broken: it begins at {least}, because the values differ little"));
        let missing: Vec<String> = panel.series.iter().filter_map(|series| self.missing_of(series)).collect();
        let missing = (!missing.is_empty()).then(|| format!("not drawn ({}): {}", self.missing, missing.join("; ")));
        let notes = broken.into_iter().chain(missing);
        notes.map(|note| Paragraph::new(SMALL, &note, WIDTH - LEFT - 20.0)).collect()
    }

    fn missing_of(&self, series: &Series) -> Option<String> {
        let labels = self.labels.iter().zip(&series.values).filter(|(_, value)| value.is_none());
        let labels: Vec<&str> = labels.map(|(label, _)| label.as_str()).collect();
        (!labels.is_empty()).then(|| format!("{} at {}", series.name, labels.join(", ")))
    }

    fn panel(&self, out: &mut String, panel: &Panel, top: f64) -> fmt::Result {
        text(out, LEFT, top + 18.0, HEADING, panel.name)?;
        let Some(ticks) = panel.ticks() else {
            return text(out, LEFT, top + ABOVE + 8.0, BODY, "no values");
        };
        let (from, to) = (top + ABOVE, top + ABOVE + PLOT);
        let axis = ValueAxis { ticks, left: LEFT, right: WIDTH - RIGHT, top: from, bottom: to };
        axis.draw(out, "")?;
        for (place, label) in self.labels.iter().enumerate() {
            text(out, self.x(place), to + 16.0, TICK.middle(), label)?;
        }
        for (index, series) in panel.series.iter().enumerate() {
            self.series(out, &axis, index, series)?;
        }
        panel.limit.map_or(Ok(()), |limit| limit.draw(out, &axis, panel.series.len()))
    }

    fn x(&self, place: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (place as f64 + 0.5) / self.labels.len().max(1) as f64
    }

    fn series(&self, out: &mut String, axis: &ValueAxis, index: usize, series: &Series) -> fmt::Result {
        let (class, shown) = (index % DASHES.len(), escape(series.name));
        let (mut line, mut before) = (String::new(), None);
        let known = series.values.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?)));
        for (place, value) in known {
            // A line is interrupted at a missing value.
            let step = if before.is_some_and(|before| before + 1 == place) { 'L' } else { 'M' };
            let (x, y, label) = (self.x(place), axis.y(value), escape(&self.labels[place]));
            write!(line, "{step}{x:.1} {y:.1} ")?;
            before = Some(place);
            let what = format!("<title>{shown}, {label}: {value:.4}</title>");
            writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" class="f{class}">{what}</circle>"#)?;
        }
        stroke(out, line.trim_end(), &format!("l{class}"), DASHES[class])?;
        let at = key(axis, index);
        writeln!(out, r#"<circle cx="{}" cy="{at:.1}" r="3" class="f{class}"/>"#, WIDTH - RIGHT + 34.0)?;
        stroke(out, &format!("M{} {at:.1} h36", WIDTH - RIGHT + 16.0), &format!("l{class}"), DASHES[class])?;
        name(out, WIDTH - RIGHT + 60.0, at + 4.0, BODY, series.name, RIGHT - 64.0)
    }
}

/// Where the key of a line is.
pub(crate) fn key(axis: &ValueAxis, index: usize) -> f64 {
    axis.top + 18.0 * index as f64 + 8.0
}

fn stroke(out: &mut String, d: &str, class: &str, dash: &str) -> fmt::Result {
    if d.is_empty() {
        return Ok(());
    }
    writeln!(out, r#"<path d="{d}" fill="none" class="{class}" stroke-width="2" stroke-dasharray="{dash}"/>"#)
}

impl Panel {
    /// How high it is, without notes.
    fn height(&self) -> f64 {
        ABOVE + if self.ticks().is_some() { PLOT + BELOW } else { BELOW }
    }

    /// Ticks that cover all values and the limit, from zero where that does not flatten the lines; `None` without values.
    fn ticks(&self) -> Option<Ticks> {
        let values = || self.series.iter().flat_map(|series| series.values.iter().copied().flatten());
        values().next()?;
        let all = || values().chain(self.limit.map(|limit| limit.at));
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let flat = least > 0.0 && least < most && most - least < FLAT * most;
        Some(Ticks::covering(if flat { least } else { least.min(0.0) }, most, STEPS))
    }
}

impl Limit {
    pub(crate) fn draw(self, out: &mut String, axis: &ValueAxis, index: usize) -> fmt::Result {
        let (y, end, at) = (axis.y(self.at), WIDTH - RIGHT, key(axis, index));
        // Thin, whole and without marks: no other line is.
        let style = r#"fill="none" class="limit""#;
        writeln!(out, r#"<path d="M{LEFT} {y:.1}H{end}" {style}/>"#)?;
        writeln!(out, r#"<path d="M{} {at:.1} h36" {style}/>"#, end + 16.0)?;
        name(out, end + 60.0, at + 4.0, BODY, self.name, RIGHT - 64.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(limit: Option<f64>, values: &[Option<f64>]) -> Panel {
        let limit = limit.map(|at| Limit { at, name: "deadline" });
        Panel { name: "v", limit, series: vec![Series { name: "crs", values: values.to_vec() }] }
    }

    fn range(panel: &Panel) -> (f64, f64) {
        panel.ticks().map(|ticks| (ticks.least(), ticks.most())).unwrap()
    }

    #[test]
    fn axes_begin_at_zero_and_hold_the_limit() {
        assert_eq!(range(&panel(Some(1.0), &[Some(0.197), Some(0.353)])), (0.0, 1.0));
        assert_eq!(range(&panel(None, &[Some(0.197), Some(0.353)])), (0.0, 0.4));
        assert_eq!(range(&panel(Some(1.0), &[Some(1.26)])), (0.0, 1.5));
        assert_eq!(range(&panel(None, &[Some(-1.0), Some(4.0)])), (-1.0, 4.0));
    }

    #[test]
    fn values_that_differ_little_get_a_broken_axis_that_says_so() {
        let little = panel(None, &[Some(0.97), Some(1.0)]);
        assert!(range(&little).0 > 0.9);
        let plot = |panel| Plot {
            title: String::new(),
            subtitle: String::new(),
            labels: vec!["1".into(), "2".into()],
            panels: vec![panel],
            missing: "no schedule",
        };
        assert!(plot(little).svg().contains("the axis is broken: it begins at 0.97"));
        assert!(!plot(panel(None, &[Some(0.5), Some(1.0)])).svg().contains("broken"));
    }

    #[test]
    fn a_missing_value_is_named() {
        let labels = vec!["2 Gb".to_owned(), "8 Gb".to_owned()];
        let (title, subtitle) = (String::new(), String::new());
        let svg =
            Plot { title, subtitle, labels, panels: vec![panel(None, &[None, Some(1.0)])], missing: "no schedule" }
                .svg();
        assert!(svg.contains("not drawn (no schedule): crs at 2 Gb"), "{svg}");
    }
}
