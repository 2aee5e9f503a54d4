//! The data files that come with memtint, embedded at build time.

use crate::error::{ReproduceError, refuse};
use crate::expand::{items, named};
use crate::figure::{Figure, Fitted, MachineFile, Measure, SCHEMA, leaves};

static FIGURES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/figures.rs"));
static MACHINES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/machines.rs"));

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
    if figure.point.is_empty() && figure.claim.is_empty() {
        return Err(refuse(id, "point", "an empty list", "what the paper says, as points or claims"));
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
    {
        let field = format!("{of} {name:?}: each");
        if !listed(each) {
            return Err(refuse(id, field, format!("{each:?}"), "the name of a list"));
        }
        if each.is_some() != name.contains("{each}") {
            return Err(refuse(id, field, format!("{each:?}"), "a list, exactly where the name has {each}"));
        }
    }
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
        ];
        let judged = forms.iter().filter(|&&form| form).count();
        if judged > 1 || (judged == 0 && figure.is_regenerated()) {
            let accepted = "one of falling, point with bounds, point with rank";
            return Err(refuse(id, format!("claim {:?}", claim.say), "none or several forms", accepted));
        }
    }
    Ok(figure)
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
    let fields = leaves(&file.scenario);
    for (field, _) in &fields {
        let known = file.parameter.iter().filter(|parameter| parameter.field == *field);
        let sourced = known.filter(|parameter| parameter.source.is_some() != parameter.fitted.is_some()).count();
        if sourced != 1 {
            let accepted = "one parameter with a source, or with what it was fitted to";
            return Err(refuse(name, format!("scenario.{field}"), "without origin", accepted));
        }
    }
    for parameter in &file.parameter {
        if !fields.iter().any(|(field, _)| *field == parameter.field) {
            return Err(refuse(name, "parameter", &parameter.field, "a field of its scenario"));
        }
    }
    Ok(file)
}

/// Names of all machines.
pub fn machines() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|&(name, _)| name)
}

/// What was fitted for a figure: of its machine, and its own.
///
/// # Errors
///
/// As [`machine`].
pub fn fitted(figure: &Figure) -> Result<Vec<Fitted>, ReproduceError> {
    let mut all = Vec::new();
    if let Some(name) = &figure.machine {
        let file = machine(name)?;
        let values = leaves(&file.scenario);
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
