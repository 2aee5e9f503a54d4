//! A map of pages by two kinds of color: the more pages, the darker (on dark ground, the lighter).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::canvas::{BODY, HEADING, SMALL, TICK, escape, name, text};
use crate::pages::{LEFT, RIGHT, WIDTH, allowed_mark, every, label, together};
use crate::ticks::Ticks;

const ABOVE: f64 = 46.0;
const BELOW: f64 = 54.0;
const CELL_MAX: f64 = 16.0;
const LEVELS: u32 = 5;

/// Pages of one program by two kinds of color.
pub struct Heat {
    /// In one line.
    pub headline: String,
    /// Whether some colors are allowed and others not.
    pub judged: bool,
    /// From the top down.
    pub rows: Colors,
    /// From left to right.
    pub columns: Colors,
    /// Pages by row and column, of those that have some.
    pub cells: BTreeMap<(u32, u32), Cell>,
}

/// Colors of one kind.
pub struct Colors {
    /// Their kind: `bank class`, `set color`.
    pub dimension: &'static str,
    /// Of each, from 0, whether it is allowed.
    pub allowed: Vec<bool>,
}

/// Pages of a pair of colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Pages that may be there.
    pub in_color: u64,
    /// Pages that may not.
    pub out_of_color: u64,
}

impl Cell {
    fn pages(self) -> u64 {
        self.in_color + self.out_of_color
    }
}

/// Round limits of the levels of darkness: the first level ends at the first of them, included.
pub(crate) struct Levels(Vec<u64>);

impl Levels {
    pub(crate) fn up_to(most: u64) -> Levels {
        let steps = LEVELS.min(u32::try_from(most).unwrap_or(LEVELS)).max(1);
        let ticks = Ticks::covering(0.0, most.max(1) as f64, steps);
        Levels(ticks.labeled().skip(1).map(|(value, _)| value as u64).collect())
    }

    /// The level of a number of pages, from 1; the classes `h1` to `h5`.
    fn of(&self, pages: u64) -> usize {
        let level = self.0.iter().position(|&last| pages <= last).unwrap_or(self.0.len() - 1);
        // Few levels take the darkest classes: light ones are hard to see alone.
        level + 1 + LEVELS as usize - self.0.len()
    }

    /// The levels: their class, and the pages from and to.
    fn each(&self) -> impl Iterator<Item = (usize, String)> {
        let first = std::iter::once(1).chain(self.0.iter().map(|last| last + 1));
        first.zip(&self.0).map(|(first, &last)| {
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            (self.of(last), range)
        })
    }
}

/// Colors that are drawn as one.
struct Grid {
    rows: usize,
    columns: usize,
    cell: (f64, f64),
}

impl Colors {
    /// How many rows or columns there are.
    fn drawn(&self) -> usize {
        self.allowed.len().div_ceil(together(self.allowed.len())).max(1)
    }

    fn label(&self, place: usize) -> String {
        let together = together(self.allowed.len());
        let last = ((place + 1) * together).min(self.allowed.len()).max(1) - 1;
        label((place * together) as u32, last as u32)
    }

    fn allows(&self, place: usize) -> bool {
        self.allowed.chunks(together(self.allowed.len())).nth(place).is_some_and(|group| group.contains(&true))
    }

    fn place(&self, color: u32) -> usize {
        color as usize / together(self.allowed.len())
    }
}

impl Heat {
    fn grid(&self) -> Grid {
        let (rows, columns) = (self.rows.drawn(), self.columns.drawn());
        let wide = ((WIDTH - LEFT - RIGHT) / columns as f64).min(3.0 * CELL_MAX);
        Grid { rows, columns, cell: (wide, wide.min(CELL_MAX)) }
    }

    pub(crate) fn height(&self) -> f64 {
        let grid = self.grid();
        ABOVE + grid.cell.1 * grid.rows as f64 + BELOW
    }

    /// Cells as drawn, by row and column.
    fn drawn(&self) -> BTreeMap<(usize, usize), Cell> {
        let mut drawn: BTreeMap<(usize, usize), Cell> = BTreeMap::new();
        for (&(row, column), cell) in &self.cells {
            let sum = drawn.entry((self.rows.place(row), self.columns.place(column))).or_default();
            sum.in_color += cell.in_color;
            sum.out_of_color += cell.out_of_color;
        }
        drawn
    }

    /// The most pages of one cell as drawn.
    pub(crate) fn most(&self) -> u64 {
        self.drawn().values().map(|cell| cell.pages()).max().unwrap_or(0)
    }

    pub(crate) fn draw(&self, out: &mut String, top: f64, levels: &Levels) -> fmt::Result {
        name(out, LEFT, top + 16.0, HEADING, &self.headline, WIDTH - LEFT - RIGHT)?;
        self.legend(out, top + 24.0, levels)?;
        let (grid, top) = (self.grid(), top + ABOVE);
        let (wide, high) = grid.cell;
        let (right, bottom) = (LEFT + wide * grid.columns as f64, top + high * grid.rows as f64);
        for (&(row, column), cell) in &self.drawn() {
            let place = (LEFT + wide * column as f64, top + high * row as f64);
            self.cell(out, place, grid.cell, levels, (row, column), *cell)?;
        }
        writeln!(out, r#"<path d="M{LEFT} {top:.1}V{bottom:.1}H{right:.1}V{top:.1}Z" fill="none" class="base"/>"#)?;
        self.row_labels(out, top, high)?;
        self.column_labels(out, bottom, wide)?;
        let middle = (LEFT + right) / 2.0;
        let dimensions = format!("{} (across), {} (down)", self.columns.dimension, self.rows.dimension);
        text(out, middle.max(LEFT + BODY.width(&dimensions) / 2.0), bottom + 35.0, BODY.middle(), &dimensions)
    }

    fn legend(&self, out: &mut String, y: f64, levels: &Levels) -> fmt::Result {
        let mut x = LEFT;
        text(out, x, y + 10.0, SMALL, "4 KiB pages:")?;
        x += SMALL.width("4 KiB pages:") + 8.0;
        for (class, range) in levels.each() {
            writeln!(
                out,
                r#"<rect x="{x:.1}" y="{y:.1}" width="14" height="12" class="h{class} edge" stroke-width="0.5"/>"#
            )?;
            text(out, x + 18.0, y + 10.0, SMALL, &range)?;
            x += 18.0 + SMALL.width(&range) + 12.0;
        }
        Ok(())
    }

    /// A cell, darker with more pages; a hatched half, where some are out of color.
    fn cell(
        &self,
        out: &mut String,
        (x, y): (f64, f64),
        (wide, high): (f64, f64),
        levels: &Levels,
        (row, column): (usize, usize),
        cell: Cell,
    ) -> fmt::Result {
        let (rows, columns, class) = (&self.rows, &self.columns, levels.of(cell.pages()));
        let Cell { in_color, out_of_color } = cell;
        let what = escape(&format!(
            "{} {}, {} {}: {in_color} pages in color, {out_of_color} out of color",
            rows.dimension,
            rows.label(row),
            columns.dimension,
            columns.label(column)
        ));
        write!(
            out,
            r#"<g><title>{what}</title><rect x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{high:.1}" class="h{class}"/>"#
        )?;
        if out_of_color > 0 {
            let (right, bottom) = (x + wide, y + high);
            write!(
                out,
                r#"<path d="M{right:.1} {y:.1}V{bottom:.1}H{x:.1}Z" fill="url(#hatch)" class="edge" stroke-width="0.5"/>"#
            )?;
        }
        writeln!(out, "</g>")
    }

    fn row_labels(&self, out: &mut String, top: f64, high: f64) -> fmt::Result {
        let every = (TICK.width("0") * 2.0 / high).ceil().max(1.0) as usize;
        for row in 0..self.rows.drawn() {
            let y = top + high * row as f64;
            if self.judged && self.rows.allows(row) {
                allowed_mark(out, LEFT - 6.0, y + high * 0.1, 4.0, high * 0.8)?;
            }
            if row % every == 0 {
                text(out, LEFT - 10.0, y + high / 2.0 + 3.5, TICK.end(), &self.rows.label(row))?;
            }
        }
        Ok(())
    }

    fn column_labels(&self, out: &mut String, bottom: f64, wide: f64) -> fmt::Result {
        let columns = self.columns.drawn();
        let every = every((0..columns).map(|column| self.columns.label(column)), wide);
        for column in 0..columns {
            let x = LEFT + wide * column as f64;
            if self.judged && self.columns.allows(column) {
                allowed_mark(out, x + wide * 0.1, bottom + 2.0, wide * 0.8, 4.0)?;
            }
            if column % every == 0 {
                text(out, x + wide / 2.0, bottom + 19.0, TICK.middle(), &self.columns.label(column))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row and column, and pages in color and out of color.
    type Pages = ((u32, u32), (u64, u64));

    fn heat(rows: usize, columns: usize, cells: &[Pages]) -> Heat {
        let colors = |dimension, count| Colors { dimension, allowed: (0..count).map(|color| color == 0).collect() };
        let cell = |&(place, (in_color, out_of_color)): &Pages| (place, Cell { in_color, out_of_color });
        Heat {
            headline: "a".to_owned(),
            judged: true,
            rows: colors("bank class", rows),
            columns: colors("set color", columns),
            cells: cells.iter().map(cell).collect(),
        }
    }

    #[test]
    fn levels_are_round_and_each_number_of_pages_has_one() {
        let levels = Levels::up_to(870);
        assert_eq!(
            levels.each().map(|(_, range)| range).collect::<Vec<_>>(),
            ["1-200", "201-400", "401-600", "601-800", "801-1000"]
        );
        assert_eq!([1, 200, 201, 870].map(|pages| levels.of(pages)), [1, 1, 2, 5]);
        assert_eq!(Levels::up_to(1).each().collect::<Vec<_>>(), [(5, "1".to_owned())]);
        assert_eq!(Levels::up_to(3).each().map(|(class, _)| class).collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn many_colors_are_drawn_as_few_cells_and_no_page_is_lost() {
        let map = heat(16, 256, &[((3, 0), (1, 0)), ((3, 3), (2, 0)), ((3, 4), (4, 1))]);
        let drawn: Vec<_> = map.drawn().into_iter().collect();
        assert_eq!(
            drawn,
            [((3, 0), Cell { in_color: 3, out_of_color: 0 }), ((3, 1), Cell { in_color: 4, out_of_color: 1 })]
        );
        let mut svg = String::new();
        map.draw(&mut svg, 0.0, &Levels::up_to(map.most())).unwrap();
        assert!(svg.contains("bank class 3, set color 4-7: 4 pages in color, 1 out of color"), "{svg}");
        assert_eq!(svg.matches("url(#hatch)").count(), 1);
    }
}
