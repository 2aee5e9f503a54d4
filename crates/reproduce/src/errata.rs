//! Published values that cannot be right: whether that is shown, and whether it explains the deviations.

use crate::answer::{Answers, Bound};
use crate::figure::{Erratum, Shown};
use schemars::JsonSchema;
use serde::Serialize;

/// A published value that cannot be right.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JudgedErratum {
    /// Its number in the list of errata, or where of it.
    pub number: String,
    /// Where it is printed.
    pub source: String,
    /// The printed value.
    pub printed: String,
    /// Why that cannot be right.
    pub why: String,
    /// The correct value.
    pub correct: String,
    /// Names of values and rows, and words of claims, that deviate because of it.
    pub explains: Vec<String>,
    /// The evidence.
    pub evidence: Vec<Evidence>,
    /// Whether all of the evidence holds, and everything that it explains deviates.
    pub shown: bool,
}

/// A result of an analysis, held against a bound.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The bound, in terms of the result.
    pub bound: String,
    /// The result.
    pub found: String,
    /// Whether it holds; not when there is no such result.
    pub holds: bool,
}

impl Shown {
    pub(crate) fn bound(&self) -> Bound {
        Bound {
            is: self.is,
            exactly: self.exactly.clone(),
            at_least: self.at_least,
            at_most: self.at_most,
            equals: self.equals.clone(),
        }
    }
}

/// Judges an erratum; `agrees` returns whether a value that it explains does not deviate, so that the explanation is
/// stale.
pub(crate) fn judge(erratum: &Erratum, answers: &Answers, agrees: &dyn Fn(&str) -> bool) -> JudgedErratum {
    let mut evidence: Vec<Evidence> = erratum.shown.iter().map(|shown| evidence(shown, answers)).collect();
    let stale = erratum.explains.iter().filter(|name| agrees(name));
    evidence.extend(stale.map(|name| Evidence {
        bound: format!("{name} deviates"),
        found: "it agrees".to_owned(),
        holds: false,
    }));
    JudgedErratum {
        number: erratum.number.clone(),
        source: erratum.source.clone(),
        printed: erratum.printed.clone(),
        why: erratum.why.clone(),
        correct: erratum.correct.clone(),
        explains: erratum.explains.clone(),
        shown: evidence.iter().all(|one| one.holds),
        evidence,
    }
}

fn evidence(shown: &Shown, answers: &Answers) -> Evidence {
    let (found, bound) = (answers.get(&shown.answer), shown.bound());
    Evidence {
        bound: bound.text(&format!("{}: {}", shown.answer.analysis, shown.answer.result)),
        found: found.map_or_else(|| "nothing".to_owned(), super::answer::Found::text),
        holds: found.is_some_and(|found| bound.holds(found)),
    }
}
