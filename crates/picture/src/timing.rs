//! How long accesses took, and which address bits conflict.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::canvas::{self, Hatch, escape, text};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 74.0;
const HISTOGRAM: f64 = 240.0;
/// Of the histogram, what is above and below its axes.
const ABOVE: f64 = 44.0;
const BELOW: f64 = 40.0;
/// The most bars of the histogram.
const BARS_MAX: u32 = 160;
/// Of all questions, the share that is drawn: the slowest were disturbed by something.
const DRAWN: f64 = 0.98;
const CELL: f64 = 15.0;
const MATRIX_HEAD: f64 = 62.0;
const FOOT: f64 = 30.0;

/// What was heard of a machine.
pub struct Timing<'a> {
    /// The answer, in one line.
    pub answer: String,
    /// What was asked, in one line.
    pub asked: String,
    /// The number of pairs of addresses by their ticks, the middle of a question's readings.
    pub pairs: &'a BTreeMap<u32, u64>,
    /// The same of single addresses, which no conflict can slow.
    pub alone: &'a BTreeMap<u32, u64>,
    /// What was found, where something was.
    pub levels: Option<Levels>,
    /// What is known of pairs that differ in one address bit or two, by the lower and the higher of them, which may be one.
    pub squares: BTreeMap<(u32, u32), Square>,
}

/// Where the levels of a mapping are, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// A single address.
    pub alone: f64,
    /// The slowest pairs that do not conflict.
    pub hit: f64,
    /// Pairs that conflict.
    pub conflict: f64,
    /// Deviation of a sample.
    pub sigma: f64,
}

/// What is known of a difference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Square {
    /// What was decided, if a test decided.
    pub decision: Option<Decision>,
    /// In the middle, of pairs with this difference.
    pub ticks: Option<u32>,
}

/// What pairs of addresses with a difference do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All conflict.
    Conflict,
    /// None conflicts.
    None,
    /// Some of both, or not decided.
    Undecided,
}

impl Timing<'_> {
    /// Draws a histogram of the time of pairs beside single addresses, and a square for each pair of address bits.
    #[must_use]
    pub fn svg(&self) -> String {
        let matrix = Matrix::of(&self.squares);
        let height = HEAD + HISTOGRAM + MATRIX_HEAD + matrix.height() + FOOT;
        canvas::svg(WIDTH, height, Some(Hatch("#b5651d")), |out| {
            text(out, LEFT, 24.0, "font-size=\"17\" font-weight=\"bold\"", "What the timing shows")?;
            text(out, LEFT, 44.0, "", &self.answer)?;
            text(out, LEFT, 60.0, "font-size=\"11\"", &format!("asked: {}", self.asked))?;
            self.histogram(out, HEAD)?;
            matrix.draw(out, HEAD + HISTOGRAM)
        })
    }
}

/// Bars of equal width from `least` on.
struct Bars {
    least: u32,
    width: u32,
    count: u32,
}

impl Bars {
    /// Bars that hold nearly all of some times, and the conflicts, each as wide as the step between two times at least.
    fn of(times: &BTreeMap<u32, u64>, conflicts_end: u32) -> Option<Bars> {
        let (&least, &most) = (times.keys().next()?, times.keys().next_back()?);
        let all: u64 = times.values().sum();
        let mut before = 0;
        let last = times.iter().find(|&(_, &count)| {
            before += count;
            before as f64 >= DRAWN * all as f64
        });
        let last = last.map_or(most, |(&last, _)| last).max(conflicts_end.min(most));
        let step = times.keys().zip(times.keys().skip(1)).map(|(one, next)| next - one).min().unwrap_or(1);
        let width = ((last - least) / BARS_MAX + 1).next_multiple_of(step.max(1));
        Some(Bars { least, width, count: (last - least) / width + 1 })
    }

    /// Counts in each bar as shares of all, and the share beyond them.
    fn shares(&self, times: &BTreeMap<u32, u64>) -> (Vec<f64>, f64) {
        let all = times.values().sum::<u64>().max(1) as f64;
        let (mut shares, mut beyond) = (vec![0.0; self.count as usize], 0.0);
        for (&ticks, &count) in times {
            let bar = ticks.checked_sub(self.least).and_then(|above| shares.get_mut((above / self.width) as usize));
            *bar.unwrap_or(&mut beyond) += count as f64 / all;
        }
        (shares, beyond)
    }

    fn x(&self, ticks: f64) -> f64 {
        let range = f64::from(self.count * self.width);
        LEFT + (WIDTH - LEFT - RIGHT) * (ticks - f64::from(self.least)) / range
    }
}

impl Timing<'_> {
    fn histogram(&self, out: &mut String, top: f64) -> fmt::Result {
        let (from, to) = (top + ABOVE, top + HISTOGRAM - BELOW);
        text(
            out,
            LEFT,
            top + 16.0,
            "font-weight=\"bold\"",
            "How long an access took, by question (the middle of its readings)",
        )?;
        let mut both = self.pairs.clone();
        self.alone.iter().for_each(|(&ticks, &count)| *both.entry(ticks).or_default() += count);
        let conflicts_end = self.levels.map_or(0.0, |levels| levels.conflict + 6.0 * levels.sigma);
        let Some(bars) = Bars::of(&both, conflicts_end as u32) else {
            return text(out, LEFT, from, "", "nothing was timed");
        };
        let ((pairs, beyond), (alone, _)) = (bars.shares(self.pairs), bars.shares(self.alone));
        let most = pairs.iter().chain(&alone).copied().fold(1e-9, f64::max);
        let y = |share: f64| to - (to - from) * share / most;
        let mut outline = format!("M{LEFT} {to}");
        for (at, (&pair, &alone)) in pairs.iter().zip(&alone).enumerate() {
            let ticks = bars.least + at as u32 * bars.width;
            let (x, next) = (bars.x(f64::from(ticks)), bars.x(f64::from(ticks + bars.width)));
            let _ = write!(outline, " V{:.1} H{next:.1}", y(alone));
            if pair > 0.0 {
                writeln!(
                    out,
                    r##"<rect x="{x:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="#9dbde0"><title>{ticks} ticks: {:.2} % of pairs, {:.2} % of single addresses</title></rect>"##,
                    y(pair),
                    next - x,
                    to - y(pair),
                    pair * 100.0,
                    alone * 100.0
                )?;
            }
        }
        writeln!(out, r##"<path d="{outline} V{to}" fill="none" stroke="#000000" stroke-width="1.5"/>"##)?;
        writeln!(out, r##"<path d="M{LEFT} {from}V{to}H{}" fill="none" stroke="#000000"/>"##, WIDTH - RIGHT)?;
        text(out, LEFT - 6.0, from + 8.0, "text-anchor=\"end\"", &format!("{:.1} %", most * 100.0))?;
        for tick in 0..=8 {
            let ticks = bars.least + bars.count * bars.width / 8 * tick;
            text(
                out,
                bars.x(f64::from(ticks)),
                to + 16.0,
                "text-anchor=\"middle\" font-size=\"10\"",
                &ticks.to_string(),
            )?;
        }
        let foot = format!(
            "ticks of the clock; filled: pairs in turn ({}), {:.1} % of them beyond the right; line: one address alone ({})",
            self.pairs.values().sum::<u64>(),
            beyond * 100.0,
            self.alone.values().sum::<u64>()
        );
        text(out, LEFT, to + 32.0, "font-size=\"11\"", &foot)?;
        self.levels.map_or(Ok(()), |levels| levels.draw(out, &bars, from, to))
    }
}

impl Levels {
    fn draw(&self, out: &mut String, bars: &Bars, from: f64, to: f64) -> fmt::Result {
        let lines = [(self.alone, "alone"), (self.hit, "slowest others"), (self.conflict, "conflicts")];
        for (index, (ticks, name)) in lines.into_iter().enumerate() {
            let x = bars.x(ticks).clamp(LEFT, WIDTH - RIGHT);
            let top = from - 22.0 + 11.0 * index as f64;
            writeln!(out, r##"<path d="M{x:.1} {top:.1}V{to}" stroke="#b00020" stroke-dasharray="4 3"/>"##)?;
            text(out, x + 4.0, top + 8.0, "font-size=\"11\"", name)?;
        }
        Ok(())
    }
}

/// A square for each pair of address bits, and on the diagonal for each bit.
struct Matrix<'a> {
    lowest: u32,
    bits: u32,
    squares: &'a BTreeMap<(u32, u32), Square>,
}

impl Matrix<'_> {
    fn of(squares: &BTreeMap<(u32, u32), Square>) -> Matrix<'_> {
        let lowest = squares.keys().map(|&(low, _)| low).min().unwrap_or(0);
        let bits = squares.keys().map(|&(_, high)| high + 1).max().unwrap_or(0);
        Matrix { lowest, bits, squares }
    }

    fn height(&self) -> f64 {
        CELL * f64::from(self.bits - self.lowest) + 20.0
    }

    fn draw(&self, out: &mut String, top: f64) -> fmt::Result {
        let title = "Which bits conflict: pairs of addresses that differ in one bit (diagonal) or two";
        text(out, LEFT, top + 16.0, "font-weight=\"bold\"", title)?;
        let y = top + 28.0;
        let legend = [
            ("conflict", Some(Decision::Conflict)),
            ("no conflict", Some(Decision::None)),
            ("some of both, or not decided", Some(Decision::Undecided)),
            ("timed only", None),
        ];
        for (index, (name, decision)) in legend.into_iter().enumerate() {
            let x = LEFT + [0.0, 100.0, 220.0, 430.0][index];
            square(out, x, y, decision, name)?;
            text(out, x + 20.0, y + 11.0, "", name)?;
        }
        let (left, top) = (LEFT, top + MATRIX_HEAD);
        for (&(low, high), known) in self.squares {
            let x = left + CELL * f64::from(low - self.lowest);
            let y = top + CELL * f64::from(high - self.lowest);
            let ticks = known.ticks.map_or_else(String::new, |ticks| format!(", {ticks} ticks"));
            let name = if low == high { format!("bit {low}{ticks}") } else { format!("bits {low} and {high}{ticks}") };
            square(out, x, y, known.decision, &name)?;
        }
        for bit in self.lowest..self.bits {
            let at = CELL * f64::from(bit - self.lowest);
            text(out, left - 6.0, top + at + 11.0, "text-anchor=\"end\" font-size=\"10\"", &bit.to_string())?;
            let foot = top + CELL * f64::from(self.bits - self.lowest) + 12.0;
            text(out, left + at + 7.0, foot, "text-anchor=\"middle\" font-size=\"10\"", &bit.to_string())?;
        }
        Ok(())
    }
}

fn square(out: &mut String, x: f64, y: f64, decision: Option<Decision>, name: &str) -> fmt::Result {
    let fill = match decision {
        Some(Decision::Conflict) => "#1f5fa8",
        Some(Decision::None) => "#ffffff",
        Some(Decision::Undecided) => "url(#hatch)",
        None => "#dddddd",
    };
    let (size, name) = (CELL - 2.0, escape(name));
    writeln!(
        out,
        r##"<rect x="{x:.1}" y="{y:.1}" width="{size}" height="{size}" fill="{fill}" stroke="#000000" stroke-width="0.6"><title>{name}</title></rect>"##
    )
}
