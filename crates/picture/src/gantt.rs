//! Who runs when, and what is refreshed below: one file, no script, readable in black and white.

use std::fmt::{self, Write as _};

use memtint_units::Picoseconds;

use crate::canvas::{self, escape, text};

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
pub struct Picture {
    /// At the top.
    pub title: String,
    /// Below it, smaller.
    pub subtitle: String,
    /// Up to when everything is known. Where there is too much to be drawn the picture ends earlier, and says so.
    pub end: Picoseconds,
    /// One below the other.
    pub lanes: Vec<Lane>,
    /// Below the lanes.
    pub bands: Vec<Band>,
    /// What the dark bars of the bands are.
    pub bands_are: &'static str,
}

/// A lane of runs.
pub struct Lane {
    /// Name on its left.
    pub name: String,
    /// Arrows and marks, where jobs arrive in it.
    pub arrivals: Option<Arrivals>,
    /// What runs.
    pub bars: Vec<Bar>,
}

/// When jobs arrive, and are due.
#[derive(Clone, Copy)]
pub struct Arrivals {
    /// When the first arrives.
    pub phase: Picoseconds,
    /// From one to the next.
    pub period: Picoseconds,
    /// From a job's arrival to when it is due.
    pub deadline: Picoseconds,
}

/// Something that runs.
pub struct Bar {
    /// When it begins.
    pub start: Picoseconds,
    /// When it ends.
    pub end: Picoseconds,
    /// Its name, to be read by pointing at it.
    pub what: String,
}

/// Times in which ranks are refreshed.
pub struct Band {
    /// Name on its left.
    pub name: String,
    /// What a bar is, to be read by pointing at it.
    pub what: String,
    /// When each bar begins and ends.
    pub spans: Vec<(Picoseconds, Picoseconds)>,
}

impl Picture {
    /// Draws a lane for each task, a bar for each run, an arrow up for each arrival, a thick mark for each deadline; below them a
    /// line for each band, with a dark bar for each refresh.
    pub fn svg(&self) -> String {
        let bands = if self.bands.is_empty() { 0.0 } else { BANDS_HEAD + BAND * self.bands.len() as f64 };
        let bottom = HEAD + LANE * self.lanes.len() as f64 + bands;
        canvas::svg(WIDTH, bottom + FOOT, None, |out| self.draw(out, bottom))
    }

    /// Where the picture ends.
    fn shown(&self) -> Axis {
        let mut starts: Vec<Picoseconds> =
            self.lanes.iter().flat_map(|lane| lane.bars.iter().map(|bar| bar.start)).collect();
        starts.sort_unstable();
        let end = starts.get(RUNS_MAX).copied().filter(|&end| end.0 > 0).map_or(self.end, |end| end.min(self.end));
        Axis { end: end.0.max(1) }
    }

    fn draw(&self, out: &mut String, bottom: f64) -> fmt::Result {
        let axis = self.shown();
        let lanes = HEAD + LANE * self.lanes.len() as f64;
        text(out, LEFT, 22.0, "font-size=\"16\" font-weight=\"bold\"", &self.title)?;
        let cut = match axis.end < self.end.0 {
            true => format!("; drawn to {}", Picoseconds(axis.end)),
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
            text(out, x, bottom + 18.0, "font-size=\"10\" text-anchor=\"middle\"", &at.to_string())?;
        }
        let mut legend = "bar: the job runs; arrow: a job arrives; thick mark above the bar: a deadline".to_owned();
        if !self.bands.is_empty() {
            let _ = write!(legend, "; dark bar below: {}", self.bands_are);
        }
        text(out, LEFT, bottom + 36.0, "font-size=\"11\"", &legend)
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
                escape(&bar.what),
                bar.start,
                bar.end
            )?;
        }
        self.arrivals.map_or(Ok(()), |own| own.draw(out, axis, base))
    }
}

impl Arrivals {
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
                escape(&self.what),
                start,
                stop
            )?;
        }
        Ok(())
    }
}
