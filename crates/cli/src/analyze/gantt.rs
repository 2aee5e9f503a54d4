//! The witness as a picture: one file, no script, readable in black and white.

use std::fmt::{self, Write as _};

use memtint_inspect::escape_xml;
use memtint_units::Picoseconds;

use super::outcome::{Band, Chart, Lane, Run, time};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 58.0;
const LANE: f64 = 40.0;
const BAR: f64 = 20.0;
const FOOT: f64 = 46.0;
const BAND: f64 = 16.0;
/// Above the bands, for what they are.
const BANDS_HEAD: f64 = 22.0;
/// More runs than this cannot be told apart; the picture then ends earlier than the witness, and says so.
const RUNS_MAX: usize = 1500;
const TICKS: u64 = 10;

/// Draws a witness: a lane for each task, a bar for each run, an arrow up for each arrival, a thick mark for each deadline;
/// below them a line for each color, with a bar for each refresh.
pub(super) fn svg(chart: &Chart, scheduler: &str) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = draw(&mut out, chart, scheduler);
    out
}

/// Where the picture ends: with the window, or where there is too much to be drawn.
fn shown(chart: &Chart) -> Picoseconds {
    let mut starts: Vec<Picoseconds> =
        chart.lanes.iter().flat_map(|lane| lane.runs.iter().map(|run| run.start)).collect();
    starts.sort_unstable();
    starts.get(RUNS_MAX).copied().filter(|&end| end.0 > 0).unwrap_or(chart.window)
}

fn draw(out: &mut String, chart: &Chart, scheduler: &str) -> fmt::Result {
    let end = shown(chart);
    let lanes = HEAD + LANE * chart.lanes.len() as f64;
    let bands = if chart.bands.is_empty() { 0.0 } else { BANDS_HEAD + BAND * chart.bands.len() as f64 };
    let bottom = lanes + bands;
    let height = bottom + FOOT;
    let x = |at: u64| LEFT + (WIDTH - LEFT - RIGHT) * (at as f64 / end.0 as f64);
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">"#
    )?;
    writeln!(out, r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##)?;
    text(out, LEFT, 22.0, "font-size=\"16\" font-weight=\"bold\"", &format!("Who runs when ({scheduler})"))?;
    let cut = if end < chart.window { format!("; drawn to {}", time(end)) } else { String::new() };
    text(out, LEFT, 40.0, "font-size=\"11\"", &format!("{}{cut}", chart.summary()))?;
    for (index, lane) in chart.lanes.iter().enumerate() {
        draw_lane(out, lane, HEAD + LANE * index as f64, end.0, &x)?;
    }
    if !chart.bands.is_empty() {
        text(out, 8.0, lanes + BANDS_HEAD - 7.0, "font-size=\"11\"", "what is refreshed:")?;
    }
    for (index, band) in chart.bands.iter().enumerate() {
        draw_band(out, band, lanes + BANDS_HEAD + BAND * index as f64, end.0, &x)?;
    }
    for tick in 0..=TICKS {
        let at = (u128::from(end.0) * u128::from(tick) / u128::from(TICKS)) as u64;
        let x = x(at);
        writeln!(out, r##"<line x1="{x:.2}" y1="{bottom}" x2="{x:.2}" y2="{:.2}" stroke="#000000"/>"##, bottom + 5.0)?;
        text(out, x, bottom + 18.0, "font-size=\"10\" text-anchor=\"middle\"", &time(Picoseconds(at)))?;
    }
    let mut legend = "bar: the job runs; arrow: a job arrives; thick mark above the bar: a deadline".to_owned();
    if !chart.bands.is_empty() {
        legend.push_str("; dark bar below: these ranks are refreshed");
    }
    text(out, LEFT, bottom + 36.0, "font-size=\"11\"", &legend)?;
    out.push_str("</svg>\n");
    Ok(())
}

fn draw_lane(out: &mut String, lane: &Lane, top: f64, end: u64, x: &impl Fn(u64) -> f64) -> fmt::Result {
    let base = top + LANE - 6.0;
    text(out, 8.0, base - 5.0, "", &lane.name)?;
    let right = WIDTH - RIGHT;
    writeln!(out, r##"<line x1="{LEFT}" y1="{base}" x2="{right}" y2="{base}" stroke="#888888"/>"##)?;
    for run in lane.runs.iter().filter(|run| run.start.0 < end) {
        let (from, to) = (x(run.start.0), x(run.end.0.min(end)));
        writeln!(
            out,
            r##"<rect x="{from:.2}" y="{:.2}" width="{:.2}" height="{BAR}" fill="#9ec3ea" stroke="#000000" stroke-width="0.5"><title>{}{}: {} to {}</title></rect>"##,
            base - BAR,
            to - from,
            escape_xml(&lane.name),
            if lane.arrivals.is_some() { which(run) } else { String::new() },
            time(run.start),
            time(run.end)
        )?;
    }
    let Some(own) = &lane.arrivals else { return Ok(()) };
    let mut arrival = own.phase.0;
    // Arrivals that could not be told apart are left out with their deadlines.
    if x(own.period.0.min(end)) - LEFT < 2.0 {
        return Ok(());
    }
    while arrival < end {
        let at = x(arrival);
        writeln!(
            out,
            r##"<path d="M{at:.2} {base:.2} V{:.2} M{:.2} {:.2} L{at:.2} {:.2} L{:.2} {:.2}" fill="none" stroke="#000000"/>"##,
            base - BAR - 8.0,
            at - 3.0,
            base - BAR - 4.0,
            base - BAR - 8.0,
            at + 3.0,
            base - BAR - 4.0
        )?;
        let due = arrival + own.deadline.0;
        if due <= end {
            let due = x(due);
            let (from, to) = (base - BAR - 8.0, base - BAR);
            writeln!(
                out,
                r##"<line x1="{due:.2}" y1="{from:.2}" x2="{due:.2}" y2="{to:.2}" stroke="#b00020" stroke-width="3"/>"##
            )?;
        }
        arrival += own.period.0;
    }
    Ok(())
}

/// The job of a run, and its part where it has several.
fn which(run: &Run) -> String {
    let part = run.part.map_or(String::new(), |(slice, instance)| format!(", slice {slice}, instance {instance}"));
    format!(" job {}{part}", run.job)
}

fn draw_band(out: &mut String, band: &Band, top: f64, end: u64, x: &impl Fn(u64) -> f64) -> fmt::Result {
    text(out, 8.0, top + BAND - 5.0, "font-size=\"11\"", &band.name)?;
    let (base, right) = (top + BAND - 2.0, WIDTH - RIGHT);
    writeln!(out, r##"<line x1="{LEFT}" y1="{base}" x2="{right}" y2="{base}" stroke="#cccccc"/>"##)?;
    for &(start, stop) in band.spans.iter().filter(|span| span.0.0 < end) {
        let (from, to) = (x(start.0), x(stop.0.min(end)));
        writeln!(
            out,
            r##"<rect x="{from:.2}" y="{top:.2}" width="{:.2}" height="{:.2}" fill="#444444"><title>ranks {:?} are refreshed: {} to {}</title></rect>"##,
            to - from,
            BAND - 2.0,
            band.ranks,
            time(start),
            time(stop)
        )?;
    }
    Ok(())
}

fn text(out: &mut String, x: f64, y: f64, attributes: &str, content: &str) -> fmt::Result {
    writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#, escape_xml(content))
}
