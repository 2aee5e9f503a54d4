//! How long accesses took, and which address bits conflict: one file, no script, readable in black and white.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use memtint_inspect::escape_xml;
use memtint_probe::{Area, Decision, Target};

use super::asked::Asked;
use super::report::Banks;
use super::watched::middle;

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

/// Draws what was heard of a machine: a histogram of the time of pairs beside single addresses, and a square for each pair of address
/// bits.
pub(super) fn svg(banks: &Banks, asked: &Asked) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = draw(&mut out, banks, asked);
    out
}

fn draw(out: &mut String, banks: &Banks, asked: &Asked) -> fmt::Result {
    let matrix = Matrix::of(banks);
    let height = HEAD + HISTOGRAM + MATRIX_HEAD + matrix.height() + FOOT;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">"#
    )?;
    out.push_str(
        r##"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#ffffff"/><rect width="3" height="6" fill="#b5651d"/></pattern></defs>
"##,
    );
    writeln!(out, r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##)?;
    text(out, LEFT, 24.0, "font-size=\"17\" font-weight=\"bold\"", "What the timing shows")?;
    text(out, LEFT, 44.0, "", &banks.answer().1)?;
    text(out, LEFT, 60.0, "font-size=\"11\"", &format!("asked: {asked}"))?;
    histogram(out, banks, HEAD)?;
    matrix.draw(out, HEAD + HISTOGRAM)?;
    out.push_str("</svg>\n");
    Ok(())
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

fn histogram(out: &mut String, banks: &Banks, top: f64) -> fmt::Result {
    let seen = &banks.seen;
    let (from, to) = (top + ABOVE, top + HISTOGRAM - BELOW);
    text(
        out,
        LEFT,
        top + 16.0,
        "font-weight=\"bold\"",
        "How long an access took, by question (the middle of its readings)",
    )?;
    let mut both = seen.pairs.clone();
    seen.alone.iter().for_each(|(&ticks, &count)| *both.entry(ticks).or_default() += count);
    let area = banks.mapping().and_then(|mapping| mapping.areas.first());
    let conflicts_end = area.map_or(0.0, |area| banks.report.baseline + area.levels.conflict + 6.0 * area.levels.sigma);
    let Some(bars) = Bars::of(&both, conflicts_end as u32) else {
        return text(out, LEFT, from, "", "nothing was timed");
    };
    let ((pairs, beyond), (alone, _)) = (bars.shares(&seen.pairs), bars.shares(&seen.alone));
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
        text(out, bars.x(f64::from(ticks)), to + 16.0, "text-anchor=\"middle\" font-size=\"10\"", &ticks.to_string())?;
    }
    let foot = format!(
        "ticks of the clock; filled: pairs in turn ({}), {:.1} % of them beyond the right; line: one address alone ({})",
        seen.pairs.values().sum::<u64>(),
        beyond * 100.0,
        seen.alone.values().sum::<u64>()
    );
    text(out, LEFT, to + 32.0, "font-size=\"11\"", &foot)?;
    area.map_or(Ok(()), |area| levels(out, banks.report.baseline, area, &bars, from, to))
}

/// Where the mapping's levels are.
fn levels(out: &mut String, baseline: f64, area: &Area, bars: &Bars, from: f64, to: f64) -> fmt::Result {
    let lines = [(0.0, "alone"), (area.levels.hit, "slowest others"), (area.levels.conflict, "conflicts")];
    for (index, (above, name)) in lines.into_iter().enumerate() {
        let x = bars.x(baseline + above).clamp(LEFT, WIDTH - RIGHT);
        let top = from - 22.0 + 11.0 * index as f64;
        writeln!(out, r##"<path d="M{x:.1} {top:.1}V{to}" stroke="#b00020" stroke-dasharray="4 3"/>"##)?;
        text(out, x + 4.0, top + 8.0, "font-size=\"11\"", name)?;
    }
    Ok(())
}

/// What is known of a difference.
#[derive(Clone, Copy, Default)]
struct Square {
    decision: Option<Decision>,
    /// In the middle, of pairs with this difference.
    ticks: Option<u32>,
}

/// A square for each pair of address bits, and on the diagonal for each bit.
struct Matrix {
    lowest: u32,
    bits: u32,
    squares: BTreeMap<(u32, u32), Square>,
}

impl Matrix {
    fn of(banks: &Banks) -> Matrix {
        let mut squares: BTreeMap<(u32, u32), Square> = BTreeMap::new();
        let place = |difference: u64| (difference.trailing_zeros(), 63 - difference.leading_zeros());
        for (&difference, ticks) in &banks.seen.differences {
            squares.entry(place(difference)).or_default().ticks = middle(ticks);
        }
        for test in &banks.report.tests {
            match test.target {
                Target::Difference(difference) if (1..=2).contains(&difference.count_ones()) => {
                    squares.entry(place(difference)).or_default().decision = Some(test.decision);
                }
                Target::Difference(_) | Target::Pair(_) => {}
            }
        }
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
            ("some of both, or not decided", Some(Decision::Unknown)),
            ("timed only", None),
        ];
        for (index, (name, decision)) in legend.into_iter().enumerate() {
            let x = LEFT + [0.0, 100.0, 220.0, 430.0][index];
            square(out, x, y, decision, name)?;
            text(out, x + 20.0, y + 11.0, "", name)?;
        }
        let (left, top) = (LEFT, top + MATRIX_HEAD);
        for (&(low, high), known) in &self.squares {
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
        Some(Decision::Mixed | Decision::Unknown) => "url(#hatch)",
        None => "#dddddd",
    };
    let (size, name) = (CELL - 2.0, escape_xml(name));
    writeln!(
        out,
        r##"<rect x="{x:.1}" y="{y:.1}" width="{size}" height="{size}" fill="{fill}" stroke="#000000" stroke-width="0.6"><title>{name}</title></rect>"##
    )
}

fn text(out: &mut String, x: f64, y: f64, attributes: &str, content: &str) -> fmt::Result {
    writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#, escape_xml(content))
}
