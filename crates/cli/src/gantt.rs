//! Who runs when, and what is refreshed below: one file, no script, readable in black and white.

use std::fmt::{self, Write as _};

use crate::output::time;
use memtint_inspect::escape_xml;
use memtint_sched::Task;
use memtint_units::Picoseconds;

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
/// More runs than this cannot be told apart.
const RUNS_MAX: usize = 1500;
const TICKS: u64 = 10;

/// What is drawn.
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Up to when everything is known. Where there is too much to be drawn the picture ends earlier, and says so.
    pub(crate) end: Picoseconds,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) bands: Vec<Band>,
    /// What the dark bars of the bands are.
    pub(crate) bands_are: &'static str,
}

/// A lane of runs.
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) bars: Vec<Bar>,
}

/// When jobs arrive, and are due.
#[derive(Clone, Copy)]
pub(crate) struct Arrivals {
    pub(crate) phase: Picoseconds,
    pub(crate) period: Picoseconds,
    pub(crate) deadline: Picoseconds,
}

/// Something that runs.
pub(crate) struct Bar {
    pub(crate) start: Picoseconds,
    pub(crate) end: Picoseconds,
    pub(crate) what: String,
}

/// Times in which ranks are refreshed.
pub(crate) struct Band {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) spans: Vec<(Picoseconds, Picoseconds)>,
}

impl Picture {
    /// Draws a lane for each task, a bar for each run, an arrow up for each arrival, a thick mark for each deadline; below them a
    /// line for each band, with a dark bar for each refresh.
    pub(crate) fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.draw(&mut out);
        out
    }

    /// Where the picture ends.
    fn shown(&self) -> Axis {
        let mut starts: Vec<Picoseconds> =
            self.lanes.iter().flat_map(|lane| lane.bars.iter().map(|bar| bar.start)).collect();
        starts.sort_unstable();
        let end = starts.get(RUNS_MAX).copied().filter(|&end| end.0 > 0).map_or(self.end, |end| end.min(self.end));
        Axis { end: end.0.max(1) }
    }

    fn draw(&self, out: &mut String) -> fmt::Result {
        let axis = self.shown();
        let lanes = HEAD + LANE * self.lanes.len() as f64;
        let bands = if self.bands.is_empty() { 0.0 } else { BANDS_HEAD + BAND * self.bands.len() as f64 };
        let bottom = lanes + bands;
        let height = bottom + FOOT;
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">"#
        )?;
        writeln!(out, r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##)?;
        text(out, LEFT, 22.0, "font-size=\"16\" font-weight=\"bold\"", &self.title)?;
        let cut = match axis.end < self.end.0 {
            true => format!("; drawn to {}", time(Picoseconds(axis.end))),
            false => String::new(),
        };
        text(out, LEFT, 40.0, "font-size=\"11\"", &format!("{}{cut}", self.subtitle))?;
        for (index, lane) in self.lanes.iter().enumerate() {
            lane.draw(out, &axis, HEAD + LANE * (index + 1) as f64 - 6.0)?;
        }
        if !self.bands.is_empty() {
            text(out, 8.0, lanes + BANDS_HEAD - 7.0, "font-size=\"11\"", "what is refreshed:")?;
        }
        for (index, band) in self.bands.iter().enumerate() {
            band.draw(out, &axis, lanes + BANDS_HEAD + BAND * index as f64)?;
        }
        for tick in 0..=TICKS {
            let at = Picoseconds((u128::from(axis.end) * u128::from(tick) / u128::from(TICKS)) as u64);
            let x = axis.x(at);
            writeln!(
                out,
                r##"<line x1="{x:.2}" y1="{bottom}" x2="{x:.2}" y2="{:.2}" stroke="#000000"/>"##,
                bottom + 5.0
            )?;
            text(out, x, bottom + 18.0, "font-size=\"10\" text-anchor=\"middle\"", &time(at))?;
        }
        let mut legend = "bar: the job runs; arrow: a job arrives; thick mark above the bar: a deadline".to_owned();
        if !self.bands.is_empty() {
            let _ = write!(legend, "; dark bar below: {}", self.bands_are);
        }
        text(out, LEFT, bottom + 36.0, "font-size=\"11\"", &legend)?;
        out.push_str("</svg>\n");
        Ok(())
    }
}

/// Times become places.
struct Axis {
    end: u64,
}

impl Axis {
    fn x(&self, at: Picoseconds) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (at.0.min(self.end) as f64 / self.end as f64)
    }

    fn shows(&self, start: Picoseconds) -> bool {
        start.0 < self.end
    }
}

impl Lane {
    fn draw(&self, out: &mut String, axis: &Axis, base: f64) -> fmt::Result {
        text(out, 8.0, base - 5.0, "", &self.name)?;
        writeln!(out, r##"<line x1="{LEFT}" y1="{base}" x2="{}" y2="{base}" stroke="#888888"/>"##, WIDTH - RIGHT)?;
        for bar in self.bars.iter().filter(|bar| axis.shows(bar.start)) {
            let (from, to) = (axis.x(bar.start), axis.x(bar.end));
            writeln!(
                out,
                r##"<rect x="{from:.2}" y="{:.2}" width="{:.2}" height="{BAR}" fill="#9ec3ea" stroke="#000000" stroke-width="0.5"><title>{}: {} to {}</title></rect>"##,
                base - BAR,
                to - from,
                escape_xml(&bar.what),
                time(bar.start),
                time(bar.end)
            )?;
        }
        self.arrivals.map_or(Ok(()), |own| own.draw(out, axis, base))
    }
}

impl Arrivals {
    pub(crate) fn of(task: &Task) -> Option<Arrivals> {
        Some(Arrivals { phase: task.phase(), period: task.period(), deadline: task.deadline() })
    }

    fn draw(self, out: &mut String, axis: &Axis, base: f64) -> fmt::Result {
        // What could not be told apart is left out.
        if axis.x(self.period) - LEFT < 2.0 {
            return Ok(());
        }
        let top = base - BAR - 8.0;
        let mut arrival = self.phase;
        while axis.shows(arrival) {
            let at = axis.x(arrival);
            writeln!(
                out,
                r##"<path d="M{at:.2} {base:.2} V{top:.2} M{:.2} {:.2} L{at:.2} {top:.2} L{:.2} {:.2}" fill="none" stroke="#000000"/>"##,
                at - 3.0,
                top + 4.0,
                at + 3.0,
                top + 4.0
            )?;
            let due = arrival + self.deadline;
            if due.0 <= axis.end {
                let due = axis.x(due);
                writeln!(
                    out,
                    r##"<line x1="{due:.2}" y1="{top:.2}" x2="{due:.2}" y2="{:.2}" stroke="#b00020" stroke-width="3"/>"##,
                    base - BAR
                )?;
            }
            arrival += self.period;
        }
        Ok(())
    }
}

impl Band {
    fn draw(&self, out: &mut String, axis: &Axis, top: f64) -> fmt::Result {
        text(out, 8.0, top + BAND - 5.0, "font-size=\"11\"", &self.name)?;
        let base = top + BAND - 2.0;
        writeln!(out, r##"<line x1="{LEFT}" y1="{base}" x2="{}" y2="{base}" stroke="#cccccc"/>"##, WIDTH - RIGHT)?;
        for &(start, stop) in self.spans.iter().filter(|span| axis.shows(span.0)) {
            let (from, to) = (axis.x(start), axis.x(stop));
            writeln!(
                out,
                r##"<rect x="{from:.2}" y="{top:.2}" width="{:.2}" height="{:.2}" fill="#444444"><title>{}: {} to {}</title></rect>"##,
                to - from,
                BAND - 2.0,
                escape_xml(&self.what),
                time(start),
                time(stop)
            )?;
        }
        Ok(())
    }
}

fn text(out: &mut String, x: f64, y: f64, attributes: &str, content: &str) -> fmt::Result {
    writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#, escape_xml(content))
}
