//! The data files that come with memtint, embedded at build time.

use crate::analysis;
use crate::answer::{Bound, exact};
use crate::error::{ReproduceError, refuse};
use crate::expand::{items, named};
use crate::figure::{Answered, Expectation, Figure, Fitted, MachineFile, Measure, SCHEMA, leaves};
use std::collections::BTreeSet;

static FIGURES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/figures.rs"));
static MACHINES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// The longest file, in bytes.
const FILE_MAX: usize = 1 << 20;

/// The most runs, points, rows and analyses, repeated ones counted each.
const REPEATED_MAX: usize = 1 << 16;

/// Reads all figures, by their ids.
///
/// # Errors
///
/// [`ReproduceError::Syntax`] and [`ReproduceError::Field`]: a file that comes with memtint is wrong.
pub fn figures() -> Result<Vec<Figure>, ReproduceError> {
    FIGURES.iter().map(|(name, text)| parse(text, name)).collect()
}

/// Finds a figure.
///
/// # Errors
///
/// [`ReproduceError::Unknown`] with those that may have been meant; and as [`figures`].
pub fn find(id: &str) -> Result<Figure, ReproduceError> {
    match FIGURES.iter().find(|(name, _)| *name == id) {
        Some((name, text)) => parse(text, name),
        None => Err(ReproduceError::Unknown { id: id.to_owned(), nearest: nearest(id).join(", ") }),
    }
}

/// Up to three ids with the least edit distance.
fn nearest(id: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = FIGURES.iter().map(|&(name, _)| name).collect();
    names.sort_by_key(|name| distance(&id.to_ascii_lowercase(), name));
    names.truncate(3);
    names
}

/// Insertions, deletions and replacements (Levenshtein) between two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, &opposite) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != opposite);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// Reads a figure from text. Unknown fields are refused.
///
/// # Errors
///
/// As [`figures`].
pub fn parse(text: &str, id: &str) -> Result<Figure, ReproduceError> {
    if text.len() > FILE_MAX {
        return Err(refuse(id, "length", format!("{} bytes", text.len()), format!("at most {FILE_MAX} bytes")));
    }
    let figure: Figure = toml::from_str(text)
        .map_err(|error| ReproduceError::Syntax { id: id.to_owned(), reason: error.to_string() })?;
    if figure.schema != SCHEMA {
        return Err(refuse(id, "schema", figure.schema, SCHEMA));
    }
    if figure.id != id {
        return Err(refuse(id, "id", &figure.id, "the name of the file"));
    }
    for (field, text) in [("source", &figure.source), ("paper", &figure.paper), ("title", &figure.title)] {
        if text.trim().is_empty() {
            return Err(refuse(id, field, "empty", "where the values are from"));
        }
    }
    if figure.point.is_empty() && figure.claim.is_empty() && figure.row.is_empty() {
        return Err(refuse(id, "point", "an empty list", "statements of the paper, as points or claims"));
    }
    if figure.is_regenerated() != figure.expects.is_some() {
        return Err(refuse(id, "expects", "given or absent", "given exactly where something is regenerated"));
    }
    let listed = |name: &Option<String>| name.as_ref().is_none_or(|name| figure.lists.contains_key(name));
    for (of, each, name) in figure
        .run
        .iter()
        .map(|run| ("run", &run.each, &run.name))
        .chain(figure.point.iter().map(|point| ("point", &point.each, &point.name)))
        .chain(figure.row.iter().map(|row| ("row", &row.each, &row.name)))
        .chain(figure.analysis.iter().map(|analysis| ("analysis", &analysis.each, &analysis.name)))
    {
        let field = format!("{of} {name:?}: each");
        if !listed(each) {
            return Err(refuse(id, field, format!("{each:?}"), "the name of a list"));
        }
        if each.is_some() != name.contains("{each}") {
            return Err(refuse(id, field, format!("{each:?}"), "a list, exactly where the name has {each}"));
        }
    }
    check_length(&figure)?;
    check_references(&figure)?;
    for point in &figure.point {
        if point.groups.is_some_and(|groups| groups < 2 || point.rank_correlation_of.is_none()) {
            let found = point.groups.unwrap_or_default();
            return Err(refuse(
                id,
                format!("point {:?}: groups", point.name),
                found,
                "2 or more, beside rank_correlation_of",
            ));
        }
    }
    for claim in &figure.claim {
        let forms = [
            !claim.falling.is_empty(),
            claim.point.is_some() && claim.rank.is_none() && (claim.at_least.is_some() || claim.at_most.is_some()),
            claim.point.is_some() && claim.rank.is_some(),
            claim.answer.is_some(),
        ];
        let judged = forms.iter().filter(|&&form| form).count();
        if judged > 1 || (judged == 0 && figure.is_regenerated()) {
            let accepted = "one of falling, point with bounds, point with rank, answer";
            return Err(refuse(id, format!("claim {:?}", claim.say), "none or several forms", accepted));
        }
    }
    check_answers(&figure)?;
    check_errata(&figure)?;
    Ok(figure)
}

/// Refuses more repetitions than a reader could use.
fn check_length(figure: &Figure) -> Result<(), ReproduceError> {
    let runs = figure.run.iter().map(|run| run.each.as_ref());
    let points = figure.point.iter().map(|point| point.each.as_ref());
    let rows = figure.row.iter().map(|row| row.each.as_ref());
    let analyses = figure.analysis.iter().map(|analysis| analysis.each.as_ref());
    let all = runs.chain(points).chain(rows).chain(analyses);
    let length = |each: Option<&String>| each.and_then(|list| figure.lists.get(list)).map_or(1, Vec::len);
    let found = all.map(length).fold(0, usize::saturating_add);
    if found > REPEATED_MAX {
        return Err(refuse(&figure.id, "runs, points, rows and analyses", found, format!("at most {REPEATED_MAX}")));
    }
    Ok(())
}

/// Refuses task sets and methods that cannot be read, references to analyses that do not exist, and bounds that are none.
fn check_answers(figure: &Figure) -> Result<(), ReproduceError> {
    let ready = analysis::prepare(figure, false)?;
    let known: BTreeSet<&str> = ready.iter().map(analysis::Ready::name).collect();
    let refers = |field: String, answered: &Answered| {
        if known.contains(answered.analysis.as_str()) {
            return Ok(());
        }
        Err(refuse(&figure.id, field, &answered.analysis, "the name of an analysis"))
    };
    for point in &figure.point {
        let Some(answer) = &point.answer else { continue };
        let field = format!("point {:?}: answer", point.name);
        let others = [point.mean_of.is_some(), point.deviation_of.is_some(), point.rank_correlation_of.is_some()];
        if point.of.is_some() || point.over.is_some() || others.contains(&true) {
            return Err(refuse(
                &figure.id,
                field,
                "beside others",
                "one of of, answer, mean_of, deviation_of, rank_correlation_of",
            ));
        }
        for item in items(figure, point.each.as_ref(), false) {
            refers(field.clone(), &answer.of(item))?;
        }
    }
    for row in &figure.row {
        let field = format!("row {:?}: answer", row.name);
        for item in items(figure, row.each.as_ref(), false) {
            refers(field.clone(), &row.answer.of(item))?;
        }
    }
    for claim in &figure.claim {
        let field = format!("claim {:?}: answer", claim.say);
        match &claim.answer {
            Some(answer) => {
                check_bound(figure, &field, &claim.bound())?;
                refers(field, answer)?;
            }
            None if claim.is.is_some() || claim.exactly.is_some() || claim.equals.is_some() => {
                return Err(refuse(&figure.id, field, "missing", "given where is, exactly or equals are"));
            }
            None => {}
        }
    }
    for erratum in &figure.erratum {
        let field = format!("erratum {:?}: shown", erratum.number);
        for shown in &erratum.shown {
            check_bound(figure, &field, &shown.bound())?;
            refers(field.clone(), &shown.answer)?;
        }
    }
    Ok(())
}

fn check_bound(figure: &Figure, field: &str, bound: &Bound) -> Result<(), ReproduceError> {
    if bound.forms() != 1 {
        return Err(refuse(
            &figure.id,
            field,
            "none or several bounds",
            "one of is, exactly, equals, at_least with at_most",
        ));
    }
    match &bound.exactly {
        Some(text) if exact(text).is_none() => {
            Err(refuse(&figure.id, field, format!("{text:?}"), "a whole number, a decimal number or a fraction"))
        }
        _ => Ok(()),
    }
}

/// Refuses an erratum without reason or evidence, and one that explains names missing in the file.
fn check_errata(figure: &Figure) -> Result<(), ReproduceError> {
    let id = &figure.id;
    if figure.erratum.is_empty() == (figure.expects == Some(Expectation::Errata)) {
        let accepted = "errata, exactly where there are some";
        return Err(refuse(id, "expects", format!("{:?}", figure.expects).to_lowercase(), accepted));
    }
    let mut known: BTreeSet<String> = figure.claim.iter().map(|claim| claim.say.clone()).collect();
    let points = figure.point.iter().map(|point| (&point.each, &point.name));
    for (each, name) in points.chain(figure.row.iter().map(|row| (&row.each, &row.name))) {
        known.extend(items(figure, each.as_ref(), false).into_iter().map(|item| named(name, item)));
    }
    if figure.because.is_some() == figure.because_of.is_empty() {
        let accepted = "names of the values that differ, exactly where because is given";
        return Err(refuse(id, "because_of", format!("{:?}", figure.because_of), accepted));
    }
    if let Some(unknown) = figure.because_of.iter().find(|name| !known.contains(*name)) {
        return Err(refuse(
            id,
            "because_of",
            format!("{unknown:?}"),
            "the name of a value or row, or the words of a claim",
        ));
    }
    for erratum in &figure.erratum {
        let field = |name: &str| format!("erratum {:?}: {name}", erratum.number);
        let texts = [
            ("number", &erratum.number),
            ("source", &erratum.source),
            ("printed", &erratum.printed),
            ("why", &erratum.why),
            ("correct", &erratum.correct),
        ];
        if let Some((name, _)) = texts.iter().find(|(_, text)| text.trim().is_empty()) {
            return Err(refuse(id, field(name), "empty", "a text"));
        }
        if erratum.shown.is_empty() {
            return Err(refuse(
                id,
                field("shown"),
                "an empty list",
                "what shows it, one result of an analysis or more",
            ));
        }
        if let Some(name) = erratum.explains.iter().find(|name| !known.contains(*name)) {
            return Err(refuse(id, field("explains"), name, "the name of a point or a row, or the words of a claim"));
        }
    }
    Ok(())
}

/// Refuses a reference for speeds alone that is no run, or stands beside another measure.
fn check_references(figure: &Figure) -> Result<(), ReproduceError> {
    let runs: Vec<String> = figure
        .run
        .iter()
        .flat_map(|run| items(figure, run.each.as_ref(), false).into_iter().map(|item| named(&run.name, item)))
        .collect();
    for point in &figure.point {
        for measured in [&point.of, &point.over].into_iter().flatten() {
            let Some(alone_in) = &measured.alone_in else { continue };
            let field = format!("point {:?}: alone_in", point.name);
            if !matches!(measured.measure, Measure::WeightedSpeedup | Measure::MaximumSlowdown) {
                return Err(refuse(
                    &figure.id,
                    field,
                    alone_in,
                    "given with weighted-speedup or maximum-slowdown only",
                ));
            }
            for item in items(figure, point.each.as_ref(), false) {
                let name = named(alone_in, item);
                if !runs.contains(&name) {
                    return Err(refuse(&figure.id, field, name, "the name of a run"));
                }
            }
        }
    }
    Ok(())
}

/// Finds a machine.
///
/// # Errors
///
/// [`ReproduceError::Field`] when there is none, or one of its parameters has no source.
pub fn machine(name: &str) -> Result<MachineFile, ReproduceError> {
    let Some((_, text)) = MACHINES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = MACHINES.iter().map(|&(known, _)| known).collect();
        return Err(refuse(name, "machine", name, known.join(", ")));
    };
    let file: MachineFile = toml::from_str(text)
        .map_err(|error| ReproduceError::Syntax { id: name.to_owned(), reason: error.to_string() })?;
    if file.schema != SCHEMA {
        return Err(refuse(name, "schema", file.schema, SCHEMA));
    }
    let fields = leaves(&file.system);
    for (field, _) in &fields {
        let known = file.parameter.iter().filter(|parameter| parameter.field == *field);
        let sourced = known.filter(|parameter| parameter.source.is_some() != parameter.fitted.is_some()).count();
        if sourced != 1 {
            let accepted = "one parameter with a source, or with what it was fitted to";
            return Err(refuse(name, format!("system.{field}"), "without origin", accepted));
        }
    }
    for parameter in &file.parameter {
        if !fields.iter().any(|(field, _)| *field == parameter.field) {
            return Err(refuse(name, "parameter", &parameter.field, "a field of its system"));
        }
    }
    Ok(file)
}

/// Names of all machines.
pub fn machines() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|&(name, _)| name)
}

/// Fitted parameters of a figure and its machine.
///
/// # Errors
///
/// As [`machine`].
pub fn fitted(figure: &Figure) -> Result<Vec<Fitted>, ReproduceError> {
    let mut all = Vec::new();
    if let Some(name) = &figure.machine {
        let file = machine(name)?;
        let values = leaves(&file.system);
        for parameter in &file.parameter {
            if let Some(how) = &parameter.fitted {
                let value = values.iter().find(|(field, _)| *field == parameter.field);
                let value = value.map_or_else(String::new, |(_, value)| value.to_string());
                all.push(Fitted { parameter: format!("{name}: {}", parameter.field), value, how: how.clone() });
            }
        }
    }
    all.extend(figure.fitted.iter().cloned());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!((distance("", "abc"), distance("abc", "abc")), (3, 0));
    }
}
