//! Gantt charts: which task runs when, with the refreshed ranks below. One file, no script, readable in black and
//! white.

use std::fmt::{self, Write as _};

use memtint_units::Picoseconds;

use crate::canvas::{self, BODY, Paragraph, SMALL, Sheet, TITLE, escape, name, paragraphs, text};
use crate::ticks::{TimeAxis, rounds_down_to};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 32.0;
const LANE: f64 = 46.0;
const BAR: f64 = 20.0;
/// Below the last band, for the axis.
const AXIS: f64 = 36.0;
const BAND: f64 = 16.0;
/// Above the bands, for their heading.
const BANDS_HEAD: f64 = 22.0;
/// More bars than this are hard to tell apart: unless a span was chosen, a shorter one is drawn.
const BARS_MAX: usize = 1500;
/// Arrivals at smaller distances, in pixels, are indistinguishable.
const ARRIVALS_APART: f64 = 3.0;
/// Bars below this width have no outline, which would hide them.
const OUTLINED: f64 = 3.0;
/// The style of bars that combine several jobs.
const HATCHED: &str = r#"fill="url(#hatch)" class=""#;

/// The content of a picture.
pub struct Picture {
    /// The conclusion, at the top.
    pub title: String,
    /// Below it, smaller: a description of the schedule.
    pub subtitle: String,
    /// The end of the schedule.
    pub end: Picoseconds,
    /// The time span to draw, end excluded, at most [`Picture::end`]. Without it, the whole schedule is drawn, or as
    /// much from its beginning as stays readable; the picture then states how much.
    pub span: Option<(Picoseconds, Picoseconds)>,
    /// One below the other.
    pub lanes: Vec<Lane>,
    /// Below the lanes.
    pub bands: Vec<Band>,
    /// The meaning of the bars of the bands.
    pub bands_are: &'static str,
}

/// A lane of runs.
pub struct Lane {
    /// Name on its left.
    pub name: String,
    /// Arrows and marks, if jobs arrive in this lane.
    pub arrivals: Option<Arrivals>,
    /// The runs, in order of time.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// When it begins.
    pub start: Picoseconds,
    /// When it ends.
    pub end: Picoseconds,
    /// Its name, to be read by pointing at it. Pieces of the same name are one bar where the pause between them is too short to
    /// be drawn.
    pub what: String,
}

/// Times in which ranks are refreshed.
pub struct Band {
    /// Name on its left.
    pub name: String,
    /// Description of the bar, shown when the pointer is on it.
    pub what: String,
    /// When each bar begins and ends, in the order of time.
    pub spans: Vec<(Picoseconds, Picoseconds)>,
}

impl Picture {
    /// Draws a lane for each task, a bar for each run, an arrow up for each arrival, a triangle down for each deadline; below them a
    /// line for each band, with a bar for each refresh.
    pub fn svg(&self) -> String {
        Drawing::of(self).svg()
    }

    /// The part that is drawn.
    fn axis(&self) -> TimeAxis {
        let axis = |from: u64, to: u64| TimeAxis { from, to: to.max(from + 1), left: LEFT, right: WIDTH - RIGHT };
        if let Some((from, to)) = self.span {
            return axis(from.0, to.0);
        }
        let mut end = self.end.0.max(1);
        while end > 1 && self.bars_of(&axis(0, end)) > BARS_MAX {
            end = rounds_down_to(end - 1);
        }
        axis(0, end)
    }

    fn bars_of(&self, axis: &TimeAxis) -> usize {
        self.lanes.iter().map(|lane| strips(lane.pieces(), axis).len()).sum()
    }
}

/// A piece of a lane: its beginning, its end, its description.
type Piece<'a> = (Picoseconds, Picoseconds, &'a str);

/// Pieces that are drawn as one.
#[derive(Debug, PartialEq)]
struct Strip<'a> {
    start: Picoseconds,
    end: Picoseconds,
    /// The first and the last of them.
    first: &'a str,
    last: &'a str,
    pieces: usize,
    /// The pauses between them, which are not drawn.
    pauses: u64,
    /// Whether each of them is shorter than a pixel.
    fine: bool,
}

impl<'a> Strip<'a> {
    fn of((start, end, what): Piece<'a>, pixel: u64) -> Strip<'a> {
        let fine = end.0.saturating_sub(start.0) < pixel;
        Strip { start, end, first: what, last: what, pieces: 1, pauses: 0, fine }
    }

    /// Whether it combines several jobs.
    fn is_mixed(&self) -> bool {
        self.first != self.last
    }

    /// Whether the next one is indistinguishable from it: the pause between them is below a pixel, and both are of the
    /// same job or both are shorter than a pixel.
    fn joins(&self, next: &Strip<'_>, pixel: u64) -> bool {
        let pause = next.start.0.saturating_sub(self.end.0);
        let same = !self.is_mixed() && self.last == next.first;
        (pause == 0 || pause < pixel) && (same || self.fine && next.fine)
    }

    fn join(&mut self, next: &Strip<'a>) {
        self.pauses += u64::from(next.start > self.end);
        self.pieces += 1;
        (self.end, self.last, self.fine) = (next.end, next.last, self.fine && next.fine);
    }

    /// Its description, shown when the pointer is on it.
    fn named(&self) -> String {
        let Strip { start, end, first, last, pieces, .. } = self;
        let what = if self.is_mixed() { format!("{first} to {last}") } else { (*first).to_owned() };
        let pieces = if *pieces > 1 { format!(", in {pieces} pieces") } else { String::new() };
        format!("{what}: {start} to {end}{pieces}")
    }
}

/// Joins the pieces that are indistinguishable on an axis.
fn strips<'a>(pieces: impl Iterator<Item = Piece<'a>>, axis: &TimeAxis) -> Vec<Strip<'a>> {
    let (mut strips, pixel): (Vec<Strip<'_>>, u64) = (Vec::new(), axis.pixel());
    for piece in pieces.filter(|&(start, end, _)| axis.shows(start, end)) {
        let next = Strip::of(piece, pixel);
        match strips.last_mut().filter(|last| last.joins(&next, pixel)) {
            Some(last) => last.join(&next),
            None => strips.push(next),
        }
    }
    strips
}

/// A picture with everything in its place.
struct Drawing<'a> {
    picture: &'a Picture,
    axis: TimeAxis,
    lanes: Vec<Vec<Strip<'a>>>,
    bands: Vec<Vec<Strip<'a>>>,
    head: [Paragraph; 2],
    foot: [Paragraph; 2],
    legend: String,
}

impl<'a> Drawing<'a> {
    fn of(picture: &'a Picture) -> Drawing<'a> {
        let axis = picture.axis();
        let lanes: Vec<_> = picture.lanes.iter().map(|lane| strips(lane.pieces(), &axis)).collect();
        let bands: Vec<_> = picture.bands.iter().map(|band| strips(band.pieces(), &axis)).collect();
        let wide = WIDTH - LEFT - RIGHT;
        let (legend, hidden) = (picture.legend(&lanes, &bands), picture.hidden(&axis, &lanes));
        let (title, subtitle) = (&picture.title, &picture.subtitle);
        let head = [Paragraph::new(TITLE, title, wide), Paragraph::new(SMALL, subtitle, wide)];
        let foot = [Paragraph::new(SMALL, &legend, wide), Paragraph::new(SMALL, &hidden, wide)];
        Drawing { picture, axis, lanes, bands, head, foot, legend }
    }

    fn svg(&self) -> String {
        let Picture { title, subtitle, lanes, bands, .. } = self.picture;
        let top = 12.0 + canvas::height(&self.head) + 8.0;
        let refresh = top + LANE * lanes.len() as f64;
        let bottom = refresh + if bands.is_empty() { 8.0 } else { BANDS_HEAD + BAND * bands.len() as f64 + 4.0 };
        let description = format!("A lane for each of {}, over time. {subtitle}. {}", list(lanes), self.legend);
        let height = bottom + AXIS + canvas::height(&self.foot) + 14.0;
        let sheet = Sheet { width: WIDTH, height, title, description: &description, hatch: Some("busy") };
        canvas::svg(&sheet, |out| {
            paragraphs(out, LEFT, 12.0, &self.head)?;
            self.axis.grid(out, top, bottom)?;
            self.lanes(out, top)?;
            self.bands(out, refresh)?;
            self.axis.draw(out, bottom)?;
            paragraphs(out, LEFT, bottom + AXIS, &self.foot)
        })
    }

    fn lanes(&self, out: &mut String, top: f64) -> fmt::Result {
        for (index, (lane, strips)) in self.picture.lanes.iter().zip(&self.lanes).enumerate() {
            let base = top + LANE * (index + 1) as f64 - 4.0;
            name(out, 8.0, base - 6.0, BODY, &lane.name, LEFT - 16.0)?;
            writeln!(out, r#"<line x1="{LEFT}" y1="{base}" x2="{}" y2="{base}" class="base"/>"#, WIDTH - RIGHT)?;
            for strip in strips {
                let style = if strip.is_mixed() { HATCHED } else { r#"class="run"# };
                strip.draw(out, &self.axis, (base - BAR, BAR), style)?;
            }
            lane.arrivals.map_or(Ok(()), |own| own.draw(out, &self.axis, base))?;
        }
        Ok(())
    }

    fn bands(&self, out: &mut String, top: f64) -> fmt::Result {
        if !self.bands.is_empty() {
            text(out, 8.0, top + BANDS_HEAD - 7.0, SMALL, "what is refreshed:")?;
        }
        for (index, (band, strips)) in self.picture.bands.iter().zip(&self.bands).enumerate() {
            let top = top + BANDS_HEAD + BAND * index as f64;
            let base = top + BAND - 2.0;
            name(out, 8.0, top + BAND - 5.0, SMALL, &band.name, LEFT - 16.0)?;
            writeln!(out, r#"<line x1="{LEFT}" y1="{base}" x2="{}" y2="{base}" class="grid"/>"#, WIDTH - RIGHT)?;
            for strip in strips {
                let style = if strip.pauses > 0 { HATCHED } else { r#"class="busy"# };
                strip.draw(out, &self.axis, (top, BAND - 2.0), style)?;
            }
        }
        Ok(())
    }
}

fn list(lanes: &[Lane]) -> String {
    lanes.iter().map(|lane| lane.name.as_str()).collect::<Vec<_>>().join(", ")
}

impl Picture {
    fn legend(&self, lanes: &[Vec<Strip<'_>>], bands: &[Vec<Strip<'_>>]) -> String {
        let mut legend = "bar: the job runs; arrow up: a job arrives; triangle down: a deadline".to_owned();
        if !self.bands.is_empty() {
            let _ = write!(legend, "; bar below: {}", self.bands_are);
        }
        if lanes.iter().flatten().any(Strip::is_mixed) {
            legend.push_str(
                "; hatched bar: several jobs too short to distinguish (--from and --to choose a shorter span)",
            );
        }
        if bands.iter().flatten().any(|strip| strip.pauses > 0) {
            legend.push_str("; hatched below: several refreshes with pauses that are too short to be drawn");
        }
        legend
    }

    /// A sentence on the parts that are not drawn; empty if everything is.
    fn hidden(&self, axis: &TimeAxis, lanes: &[Vec<Strip<'_>>]) -> String {
        let mut hidden = Vec::new();
        if axis.from > 0 || axis.to < self.end.0 {
            let from = if axis.from == 0 { "0".to_owned() } else { Picoseconds(axis.from).to_string() };
            let to = Picoseconds(axis.to);
            hidden.push(format!("all but {from} to {to} of {} (--from and --to choose what is)", self.end));
        }
        let pauses: u64 = lanes.iter().flatten().filter(|strip| !strip.is_mixed()).map(|strip| strip.pauses).sum();
        if pauses > 0 {
            let pixel = Picoseconds(axis.pixel());
            let plural = if pauses == 1 { "" } else { "s" };
            hidden.push(format!("{pauses} pause{plural} inside of bars, shorter than {pixel}, about a pixel"));
        }
        let dense = self.lanes.iter().filter(|lane| lane.arrivals.is_some_and(|own| own.are_dense(axis)));
        let dense: Vec<String> = dense.map(|lane| lane.name.clone()).collect();
        if !dense.is_empty() {
            hidden.push(format!("arrivals and deadlines of {}, which are too close to each other", dense.join(", ")));
        }
        if hidden.is_empty() { String::new() } else { format!("not drawn: {}", hidden.join("; ")) }
    }
}

impl Lane {
    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.bars.iter().map(|bar| (bar.start, bar.end, bar.what.as_str()))
    }
}

impl Band {
    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.spans.iter().map(|&(start, end)| (start, end, self.what.as_str()))
    }
}

impl Strip<'_> {
    /// Draws it at a height; `style` begins the attribute `class`, to which the outline is added.
    fn draw(&self, out: &mut String, axis: &TimeAxis, (top, high): (f64, f64), style: &str) -> fmt::Result {
        let (from, to) = (axis.x(self.start), axis.x(self.end));
        // Bars shorter than half a pixel stay visible.
        let (width, what) = ((to - from).max(0.5).min(axis.right - from + 0.5), escape(&self.named()));
        let edge = if width >= OUTLINED { r#" edge" stroke-width="0.5""# } else { r#"""# };
        writeln!(
            out,
            r#"<rect x="{from:.2}" y="{top:.2}" width="{width:.2}" height="{high}" {style}{edge}><title>{what}</title></rect>"#
        )
    }
}

impl Arrivals {
    fn are_dense(self, axis: &TimeAxis) -> bool {
        let range = (axis.to - axis.from) as f64;
        let apart = (axis.right - axis.left) * self.period.0 as f64 / range;
        apart < ARRIVALS_APART
    }

    fn draw(self, out: &mut String, axis: &TimeAxis, base: f64) -> fmt::Result {
        if self.are_dense(axis) {
            return Ok(());
        }
        // A job that arrived before the axis begins can be due on it.
        let before = axis.from.saturating_sub(self.phase.0 + self.deadline.0) / self.period.0;
        let first = self.phase.0 + before * self.period.0;
        for arrival in (first..=axis.to).step_by(usize::try_from(self.period.0).unwrap_or(usize::MAX)) {
            if axis.holds(Picoseconds(arrival)) && arrival < axis.to {
                arrow(out, axis.x(Picoseconds(arrival)), base)?;
            }
            let due = Picoseconds(arrival.saturating_add(self.deadline.0));
            if axis.holds(due) {
                triangle(out, axis.x(due), base)?;
            }
        }
        Ok(())
    }
}

fn arrow(out: &mut String, x: f64, base: f64) -> fmt::Result {
    let top = base - BAR - 8.0;
    let (left, right, barb) = (x - 3.0, x + 3.0, top + 4.0);
    writeln!(
        out,
        r#"<path d="M{x:.2} {base:.2} V{top:.2} M{left:.2} {barb:.2} L{x:.2} {top:.2} L{right:.2} {barb:.2}" fill="none" class="edge"/>"#
    )
}

/// Above the arrow of the next job, which often arrives at the same time.
fn triangle(out: &mut String, x: f64, base: f64) -> fmt::Result {
    let (top, tip) = (base - BAR - 16.0, base - BAR - 9.0);
    let (left, right) = (x - 4.0, x + 4.0);
    writeln!(out, r#"<path d="M{left:.2} {top:.2} L{right:.2} {top:.2} L{x:.2} {tip:.2} Z" class="due"/>"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;

    fn axis(to: u64) -> TimeAxis {
        TimeAxis { from: 0, to, left: 0.0, right: 100.0 }
    }

    fn pieces<'a>(all: &'a [(u64, u64, &'a str)]) -> impl Iterator<Item = Piece<'a>> {
        all.iter().map(|&(start, end, what)| (Picoseconds(start), Picoseconds(end), what))
    }

    #[test]
    fn pieces_of_a_job_without_a_visible_pause_are_one_bar() {
        // A pixel is 10.
        let all = [(0, 100, "a"), (100, 200, "a"), (205, 300, "a"), (320, 400, "a"), (400, 500, "b")];
        let found = strips(pieces(&all), &axis(1000));
        let ends: Vec<_> = found.iter().map(|strip| (strip.start.0, strip.end.0, strip.pieces, strip.pauses)).collect();
        assert_eq!(ends, [(0, 300, 3, 1), (320, 400, 1, 0), (400, 500, 1, 0)]);
        assert_eq!(found[0].named(), "a: 0 ps to 300 ps, in 3 pieces");
    }

    #[test]
    fn jobs_that_are_too_short_are_one_hatched_bar() {
        let all = [(0, 2, "a"), (3, 5, "b"), (6, 8, "c"), (30, 32, "d"), (33, 45, "e"), (45, 60, "f")];
        let found = strips(pieces(&all), &axis(1000));
        let named: Vec<String> = found.iter().map(Strip::named).collect();
        assert_eq!(
            named,
            ["a to c: 0 ps to 8 ps, in 3 pieces", "d: 30 ps to 32 ps", "e: 33 ps to 45 ps", "f: 45 ps to 60 ps"]
        );
        let mut short = picture(Some((0, 200_000)), 20);
        short.lanes.truncate(1);
        let svg = short.svg();
        assert!(svg.contains("hatched bar: several jobs") && !svg.contains(" pauses"), "{svg}");
        // The ground, two of the pattern, and one bar.
        assert_eq!(svg.matches("<rect").count(), 4);
    }

    fn picture(span: Option<(u64, u64)>, jobs: u64) -> Picture {
        let bar = |job: u64| Bar {
            start: Picoseconds(job * 10 * US),
            end: Picoseconds((job * 10 + 4) * US),
            what: format!("job {job}"),
        };
        let arrivals = Arrivals { phase: Picoseconds(0), period: Picoseconds(10 * US), deadline: Picoseconds(10 * US) };
        let lane = |index: u64| Lane {
            name: format!("t{index}"),
            arrivals: Some(arrivals),
            bars: (0..jobs).map(bar).collect(),
        };
        Picture {
            title: "conclusion".to_owned(),
            subtitle: "what it is".to_owned(),
            end: Picoseconds(jobs * 10 * US),
            span: span.map(|(from, to)| (Picoseconds(from * US), Picoseconds(to * US))),
            lanes: (0..8).map(lane).collect(),
            bands: Vec::new(),
            bands_are: "",
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_drawn_up_to_a_round_time_and_said() {
        let drawn = |picture: &Picture| (picture.axis().from, picture.axis().to / US, picture.svg());
        let (from, to, all) = drawn(&picture(None, 20));
        assert_eq!((from, to, all.contains("not drawn")), (0, 200, false));
        let (from, to, part) = drawn(&picture(None, 300));
        assert_eq!((from, to), (0, 1000));
        assert!(part.contains("not drawn: all but 0 to 1 ms of 3 ms (--from and --to choose what is)"), "{part}");
        let (.., chosen) = drawn(&picture(Some((0, 3000)), 300));
        assert!(chosen.matches("<rect").count() > BARS_MAX && !chosen.contains("all but"));
    }

    #[test]
    fn a_span_shows_the_deadlines_of_jobs_that_arrived_before_it() {
        let svg = picture(Some((15, 35)), 20).svg();
        let (jobs, arrows, deadlines) =
            (svg.matches("<title>job").count(), svg.matches(" V").count(), svg.matches("class=\"due\"").count());
        // Jobs 2 and 3, of eight tasks; both arrive and both predecessors are due.
        assert_eq!((jobs, arrows, deadlines), (16, 16, 16));
        assert!(!svg.contains("job 1:"));
    }

    #[test]
    fn arrivals_that_are_too_close_are_said() {
        let svg = picture(Some((0, 10_000)), 1000).svg();
        assert!(svg.contains("not drawn: arrivals and deadlines of t0, t1, t2, "), "{svg}");
        assert_eq!(svg.matches("class=\"due\"").count(), 0);
    }
}
