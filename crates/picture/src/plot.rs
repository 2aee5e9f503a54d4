//! Lines over a row of labels.

use std::fmt::{self, Write as _};

use crate::canvas::{self, escape, text};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 70.0;
/// For the names of lines.
const RIGHT: f64 = 190.0;
const HEAD: f64 = 44.0;
const PANEL: f64 = 250.0;
/// Of a panel, what is above and below its axes.
const ABOVE: f64 = 30.0;
const BELOW: f64 = 30.0;
/// Dashes and colors of lines, in order.
const DASHES: [&str; 8] = ["none", "8 3", "2 2", "8 3 2 3", "12 4", "4 4", "1 4", "12 3 3 3"];
const COLORS: [&str; 8] = ["#000000", "#1f6fb4", "#b00020", "#2a8a3a", "#8a4bb0", "#b5651d", "#0b8a8a", "#777777"];
const TICKS: u32 = 4;

/// Lines with a name.
pub struct Panel {
    /// What the values are, with their unit.
    pub name: &'static str,
    /// The lines.
    pub series: Vec<Series>,
}

/// A line: a value for each label, or none.
pub struct Series {
    /// Name beside the line.
    pub name: &'static str,
    /// A value for each label.
    pub values: Vec<Option<f64>>,
}

/// Draws panels below each other, over the same labels.
pub fn svg(title: &str, labels: &[String], panels: &[Panel]) -> String {
    canvas::svg(WIDTH, HEAD + PANEL * panels.len() as f64, None, |out| draw(out, title, labels, panels))
}

fn draw(out: &mut String, title: &str, labels: &[String], panels: &[Panel]) -> fmt::Result {
    text(out, LEFT, 24.0, "font-size=\"16\" font-weight=\"bold\"", title)?;
    for (index, panel) in panels.iter().enumerate() {
        draw_panel(out, labels, panel, HEAD + PANEL * index as f64)?;
    }
    Ok(())
}

fn draw_panel(out: &mut String, labels: &[String], panel: &Panel, top: f64) -> fmt::Result {
    let (from, to) = (top + ABOVE, top + PANEL - BELOW);
    let values = || panel.series.iter().flat_map(|series| series.values.iter().copied().flatten());
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    text(out, LEFT, top + 18.0, "font-weight=\"bold\"", panel.name)?;
    if least > most {
        return text(out, LEFT, from + 20.0, "", "no values");
    }
    // Some room where all are the same.
    let (least, most) = if most - least < 1e-9 { (least - 0.5, most + 0.5) } else { (least, most) };
    let x = |place: usize| LEFT + (WIDTH - LEFT - RIGHT) * (place as f64 + 0.5) / labels.len().max(1) as f64;
    let y = |value: f64| to - (to - from) * (value - least) / (most - least);
    writeln!(out, r##"<path d="M{LEFT} {from} V{to} H{}" fill="none" stroke="#000000"/>"##, WIDTH - RIGHT)?;
    for tick in 0..=TICKS {
        let value = least + (most - least) * f64::from(tick) / f64::from(TICKS);
        let at = y(value);
        writeln!(out, r##"<path d="M{} {at:.1} H{LEFT}" stroke="#000000"/>"##, LEFT - 4.0)?;
        text(out, LEFT - 8.0, at + 4.0, "text-anchor=\"end\" font-size=\"10\"", &format!("{value:.3}"))?;
    }
    for (place, label) in labels.iter().enumerate() {
        text(out, x(place), to + 16.0, "text-anchor=\"middle\" font-size=\"10\"", label)?;
    }
    for (index, series) in panel.series.iter().enumerate() {
        let (dash, color) = (DASHES[index % DASHES.len()], COLORS[index % COLORS.len()]);
        let known = series.values.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?)));
        let mut line = String::new();
        let mut before = None;
        for (place, value) in known {
            // A line does not go on over what is not known.
            let step = if before.is_some_and(|before| before + 1 == place) { 'L' } else { 'M' };
            write!(line, "{step}{:.1} {:.1} ", x(place), y(value))?;
            before = Some(place);
            let name = escape(series.name);
            writeln!(
                out,
                r##"<circle cx="{:.1}" cy="{:.1}" r="3" fill="{color}"><title>{name}, {}: {value:.4}</title></circle>"##,
                x(place),
                y(value),
                escape(&labels[place])
            )?;
        }
        let style = format!("stroke=\"{color}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"");
        writeln!(out, r##"<path d="{}" fill="none" {style}/>"##, line.trim_end())?;
        let (key, at) = (WIDTH - RIGHT + 16.0, from + 18.0 * index as f64 + 8.0);
        writeln!(out, r##"<path d="M{key} {at} h36" fill="none" {style}/>"##)?;
        text(out, key + 44.0, at + 4.0, "", series.name)?;
    }
    Ok(())
}
