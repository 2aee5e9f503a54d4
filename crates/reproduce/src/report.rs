//! Figures and comparisons for programs: typed reports, whose JSON Schema follows from their types.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compare::Comparison;
use crate::figure::{Figure, FigureKind};
use crate::run::Regenerated;

/// Version of the form of JSON output.
const SCHEMA: u32 = 1;

/// The output of `memtint reproduce`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Comparisons<'a> {
    schema: u32,
    figures: Vec<&'a Comparison>,
}

impl Comparisons<'_> {
    /// Makes the report of regenerated figures.
    #[must_use]
    pub fn of(regenerated: &[Regenerated]) -> Comparisons<'_> {
        Comparisons { schema: SCHEMA, figures: regenerated.iter().map(|one| &one.comparison).collect() }
    }
}

/// A line of the list.
#[derive(Debug, Serialize, JsonSchema)]
struct Listed<'a> {
    id: &'a str,
    paper: &'a str,
    title: &'a str,
    source: &'a str,
    kind: FigureKind,
    regenerated: bool,
    cpu_seconds_estimated: u32,
}

/// The output of `memtint reproduce --list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FigureList<'a> {
    schema: u32,
    figures: Vec<Listed<'a>>,
}

impl FigureList<'_> {
    /// Makes the list of figures.
    #[must_use]
    pub fn of(figures: &[Figure]) -> FigureList<'_> {
        let listed = |figure| {
            let Figure { id, paper, title, source, kind, seconds, .. }: &Figure = figure;
            let regenerated = figure.is_regenerated();
            Listed { id, paper, title, source, kind: *kind, regenerated, cpu_seconds_estimated: *seconds }
        };
        FigureList { schema: SCHEMA, figures: figures.iter().map(listed).collect() }
    }
}
