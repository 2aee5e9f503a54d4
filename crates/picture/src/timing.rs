//! How long accesses took, and which address bits conflict.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::canvas::{self, BODY, HEADING, Paragraph, SMALL, Sheet, TICK, TITLE, escape, paragraphs, text};
use crate::ticks::{Ticks, ValueAxis, broken};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const HISTOGRAM: f64 = 240.0;
/// Space above and below the axes of the histogram.
const ABOVE: f64 = 44.0;
const BELOW: f64 = 40.0;
/// The most bars of the histogram.
const BARS_MAX: u32 = 160;
/// Of all questions, the share that is drawn: the slowest were disturbed by something.
const DRAWN: f64 = 0.98;
const CELL: f64 = 15.0;
const MATRIX_HEAD: f64 = 62.0;
const FOOT: f64 = 30.0;
/// Steps of the axes of the histogram, across and up.
const STEPS: (u32, u32) = (10, 4);

/// The measurements of a machine's address mapping.
pub struct Timing<'a> {
    /// The conclusion.
    pub answer: String,
    /// The question.
    pub asked: String,
    /// The number of address pairs by their ticks, the median of a question's readings.
    pub pairs: &'a BTreeMap<u32, u64>,
    /// The same of single addresses, which no conflict can slow.
    pub alone: &'a BTreeMap<u32, u64>,
    /// The levels, if they were found.
    pub levels: Option<Levels>,
    /// Findings on pairs that differ in one or two address bits, by the lower and the higher bit; both are the same for
    /// one bit.
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

/// Findings on a difference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Square {
    /// The decision, if a test decided.
    pub decision: Option<Decision>,
    /// Median of the pairs with this difference.
    pub ticks: Option<u32>,
}

/// The behaviour of address pairs with a difference.
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
        let (matrix, wide, asked) = (Matrix::of(&self.squares), WIDTH - LEFT - RIGHT, format!("asked: {}", self.asked));
        let head = [Paragraph::new(TITLE, &self.answer, wide), Paragraph::new(SMALL, &asked, wide)];
        let top = 12.0 + canvas::height(&head) + 8.0;
        let height = top + HISTOGRAM + MATRIX_HEAD + matrix.height() + FOOT;
        let description = format!(
            "A histogram of how long accesses took, pairs of addresses beside single ones, and a square for each address bit and each \
             two of them: filled where pairs that differ in them conflict. {asked}"
        );
        let sheet = Sheet { width: WIDTH, height, title: &self.answer, description: &description, hatch: Some("f5") };
        canvas::svg(&sheet, |out| {
            paragraphs(out, LEFT, 12.0, &head)?;
            self.histogram(out, top)?;
            matrix.draw(out, top + HISTOGRAM)
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
        text(out, LEFT, top + 16.0, HEADING, "How long an access took, by question (the middle of its readings)")?;
        let mut both = self.pairs.clone();
        self.alone.iter().for_each(|(&ticks, &count)| *both.entry(ticks).or_default() += count);
        let conflicts_end = self.levels.map_or(0.0, |levels| levels.conflict + 6.0 * levels.sigma);
        let Some(bars) = Bars::of(&both, conflicts_end as u32) else {
            return text(out, LEFT, from, BODY, "nothing was timed");
        };
        let ((pairs, beyond), (alone, alone_beyond)) = (bars.shares(self.pairs), bars.shares(self.alone));
        let most = pairs.iter().chain(&alone).copied().fold(1e-9, f64::max);
        let ticks = Ticks::covering(0.0, most * 100.0, STEPS.1);
        let axis = ValueAxis { ticks, left: LEFT, right: WIDTH - RIGHT, top: from, bottom: to };
        axis.draw(out, " %")?;
        bars.draw(out, &axis, &pairs, &alone)?;
        bars.scale(out, to)?;
        let foot = format!(
            "ticks of the clock; filled: pairs in turn ({}); line: one address alone ({}); not drawn, beyond the right: {:.1} % and {:.1} %",
            self.pairs.values().sum::<u64>(),
            self.alone.values().sum::<u64>(),
            beyond * 100.0,
            alone_beyond * 100.0
        );
        text(out, LEFT, to + 32.0, SMALL, &foot)?;
        self.levels.map_or(Ok(()), |levels| levels.draw(out, &bars, from, to))
    }
}

impl Bars {
    /// Draws shares of pairs, filled, and of single addresses, as a line.
    fn draw(&self, out: &mut String, axis: &ValueAxis, pairs: &[f64], alone: &[f64]) -> fmt::Result {
        let mut outline = format!("M{LEFT} {}", axis.bottom);
        for (at, (&pair, &alone)) in pairs.iter().zip(alone).enumerate() {
            let ticks = self.least + at as u32 * self.width;
            let (x, next) = (self.x(f64::from(ticks)), self.x(f64::from(ticks + self.width)));
            let (pair, alone) = (pair * 100.0, alone * 100.0);
            write!(outline, " V{:.1} H{next:.1}", axis.y(alone))?;
            if pair > 0.0 {
                let (y, wide, high) = (axis.y(pair), next - x, axis.bottom - axis.y(pair));
                writeln!(
                    out,
                    r#"<rect x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{high:.1}" class="run"><title>{ticks} ticks: {pair:.2} % of pairs, {alone:.2} % of single addresses</title></rect>"#
                )?;
            }
        }
        writeln!(out, r#"<path d="{outline} V{}" fill="none" class="edge" stroke-width="1.5"/>"#, axis.bottom)
    }

    /// Draws the ticks below; an axis that does not begin at zero is marked as broken.
    fn scale(&self, out: &mut String, y: f64) -> fmt::Result {
        let (least, end) = (f64::from(self.least), f64::from(self.least + self.count * self.width));
        for (ticks, label) in
            Ticks::covering(least, end, STEPS.0).labeled().filter(|(at, _)| (least..=end).contains(at))
        {
            let x = self.x(ticks);
            writeln!(out, r#"<line x1="{x:.1}" y1="{y}" x2="{x:.1}" y2="{}" class="edge"/>"#, y + 4.0)?;
            text(out, x, y + 16.0, TICK.middle(), &label)?;
        }
        if self.least > 0 { broken(out, LEFT + 8.0, y, false) } else { Ok(()) }
    }
}

impl Levels {
    fn draw(&self, out: &mut String, bars: &Bars, from: f64, to: f64) -> fmt::Result {
        let lines = [(self.alone, "alone"), (self.hit, "slowest others"), (self.conflict, "conflicts")];
        for (index, (ticks, name)) in lines.into_iter().enumerate() {
            let x = bars.x(ticks).clamp(LEFT, WIDTH - RIGHT);
            let top = from - 22.0 + 11.0 * index as f64;
            writeln!(out, r#"<path d="M{x:.1} {top:.1}V{to}" fill="none" class="limit" stroke-dasharray="4 3"/>"#)?;
            // On its left where there is no room on its right.
            let fits = x + 4.0 + SMALL.width(name) <= WIDTH;
            let (x, kind) = if fits { (x + 4.0, SMALL) } else { (x - 4.0, SMALL.end()) };
            text(out, x, top + 8.0, kind, name)?;
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
        text(out, LEFT, top + 16.0, HEADING, title)?;
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
            text(out, x + 20.0, y + 11.0, BODY, name)?;
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
            text(out, left - 6.0, top + at + 11.0, TICK.end(), &bit.to_string())?;
            let foot = top + CELL * f64::from(self.bits - self.lowest) + 12.0;
            text(out, left + at + 7.0, foot, TICK.middle(), &bit.to_string())?;
        }
        Ok(())
    }
}

fn square(out: &mut String, x: f64, y: f64, decision: Option<Decision>, name: &str) -> fmt::Result {
    let fill = match decision {
        Some(Decision::Conflict) => r#"class="solid edge""#,
        Some(Decision::None) => r#"class="ground edge""#,
        Some(Decision::Undecided) => r#"fill="url(#hatch)" class="edge""#,
        None => r#"class="unknown edge""#,
    };
    let (size, name) = (CELL - 2.0, escape(name));
    writeln!(
        out,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{size}" height="{size}" {fill} stroke-width="0.6"><title>{name}</title></rect>"#
    )
}
