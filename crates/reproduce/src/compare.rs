//! Comparison of results with published values.

use crate::answer::{Answers, Bound, Found, alike, float};
use crate::catalogue;
use crate::errata::{JudgedErratum, judge as judge_erratum};
use crate::error::{ReproduceError, refuse};
use crate::expand::{items, named};
use crate::figure::{Claim, Expectation, Figure, FigureKind, Fitted, Measured, Point};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure, regenerated and compared.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The figure.
    pub id: String,
    /// Its paper.
    pub paper: String,
    /// Its subject.
    pub title: String,
    /// Where it stands.
    pub source: String,
    /// Whether the paper prints numbers.
    pub kind: FigureKind,
    /// Whether this is the short form: a tenth of the work, and parts of long lists.
    pub short: bool,
    /// Seed of everything random; `None` where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Values.
    pub values: Vec<ComparedValue>,
    /// Values that are lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<ComparedRow>,
    /// Claims.
    pub claims: Vec<JudgedClaim>,
    /// Published values that cannot be right.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errata: Vec<JudgedErratum>,
    /// The verdict.
    pub verdict: Verdict,
    /// The same in words.
    pub verdict_text: String,
    /// Largest distance from a published value, in percent of it, of those that are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_deviation_percent: Option<f64>,
    /// The verdict that its file expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expectation>,
    /// Why it differs, or why it failed; only when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Names that the file explains although they agree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<String>,
    /// Parts of the setup that the scenarios omit.
    pub simplified: Vec<String>,
    /// Parameters that no source gives.
    pub fitted: Vec<Fitted>,
    /// Values that platform files leave open and memtint has assumed.
    pub assumed: Vec<String>,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedValue {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The published value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// Where, beyond the figure's source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated: Option<f64>,
    /// The simulated value divided by the published one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Whether it takes part in the comparison within a tolerance.
    pub compared: bool,
    /// The result as an exact fraction, if an analysis found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// Numbers of the errata that explain why it deviates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errata: Vec<String>,
}

/// A value that is a list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedRow {
    /// Its name.
    pub name: String,
    /// The published value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Vec<String>>,
    /// Where, beyond the figure's source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The result of an analysis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<String>>,
    /// Whether the two hold the same, in whatever order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal: Option<bool>,
    /// Numbers of the errata that explain why it deviates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errata: Vec<String>,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JudgedClaim {
    /// In words.
    pub say: String,
    /// Where.
    pub source: String,
    /// The bound, in terms of values.
    pub bound: String,
    /// The result.
    pub found: String,
    /// Whether it holds; `None` when a value is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// Numbers of the errata that explain why it does not hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errata: Vec<String>,
}

/// The verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every compared value is within the tolerance of its published one, and every claim holds.
    Within,
    /// Every claim holds.
    SameOrderAndTrend,
    /// All deviations are explained by published values that cannot be right, which is shown; all other values are
    /// within the tolerance, or of the same order and trend.
    CannotBeRight,
    /// A claim does not hold, or a value that an analysis finds is not the published one; or an erratum is not shown.
    Differs,
    /// Nothing is regenerated.
    PublishedOnly,
    /// None: the short form simulates too little for one.
    FirstLook,
    /// None: a task of a simulation ended before its work was done.
    Failed,
}

impl Comparison {
    /// Whether it came out as its file expects, or better.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        match (self.verdict, self.expected) {
            (Verdict::PublishedOnly | Verdict::FirstLook, _) => true,
            (Verdict::Within, _) => self.stale.is_empty(),
            (Verdict::CannotBeRight, expected) => expected == Some(Expectation::Errata) && self.stale.is_empty(),
            (Verdict::SameOrderAndTrend, expected) => expected != Some(Expectation::Within) && self.stale.is_empty(),
            (Verdict::Differs | Verdict::Failed, _) => false,
        }
    }

    /// Takes the verdict back: a simulation did not do its work.
    pub(crate) fn fail(&mut self, reason: String) {
        self.verdict = Verdict::Failed;
        self.verdict_text = format!("failed: {reason}");
        self.reason = Some(reason);
        self.stale.clear();
    }
}

/// Takes a measure: run, task, measure.
pub(crate) type Take<'a> = dyn Fn(&Measured) -> Option<f64> + 'a;

/// Compares a figure's values with the results of runs and analyses.
pub(crate) fn compare(
    figure: &Figure,
    short: bool,
    take: &Take,
    answers: &Answers,
) -> Result<Comparison, ReproduceError> {
    let mut values: Vec<ComparedValue> = Vec::new();
    // Of a repeated point, by its name with {each}: places of its values.
    let mut repeated: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for point in &figure.point {
        for item in items(figure, point.each.as_ref(), short) {
            let exact = point.answer.as_ref().and_then(|own| answers.get(&own.of(item))?.number().cloned());
            let exact = exact.map(|exact| (exact.to_string(), (float(&exact) - point.less) * point.times));
            let simulated = match (&point.answer, &exact) {
                (None, _) => simulated(figure, point, item, take, &values, &repeated)?,
                (Some(_), exact) => exact.as_ref().map(|(_, value)| *value),
            };
            let published = point.published.or_else(|| point.published_each.get(item).copied());
            let ratio = simulated.zip(published).map(|(simulated, published)| simulated / published);
            repeated.entry(&point.name).or_default().push(values.len());
            values.push(ComparedValue {
                name: named(&point.name, item),
                unit: point.unit.clone(),
                published,
                source: point.source.clone(),
                simulated,
                ratio: ratio.filter(|ratio| ratio.is_finite()),
                compared: point.compared,
                exact: exact.map(|(text, _)| text),
                errata: Vec::new(),
            });
        }
    }
    let mut rows = rows(figure, short, answers);
    let judge = |claim: &Claim| judge(figure, claim, &values, &repeated, answers);
    let mut claims = figure.claim.iter().map(judge).collect::<Result<Vec<_>, _>>()?;
    let errata: Vec<JudgedErratum> = {
        let agrees = |name: &str| {
            let value = values.iter().filter(|value| value.name == name).map(|value| value.deviates(figure));
            let row = rows.iter().filter(|row| row.name == name).map(|row| row.equal == Some(false));
            let claim = claims.iter().filter(|claim| claim.say == name).map(|claim| claim.holds == Some(false));
            value.chain(row).chain(claim).any(|deviates| !deviates)
        };
        figure.erratum.iter().map(|erratum| judge_erratum(erratum, answers, &agrees)).collect()
    };
    let explaining = |name: &str| -> Vec<String> {
        let explains = |erratum: &&JudgedErratum| erratum.explains.iter().any(|own| own == name);
        errata.iter().filter(explains).map(|erratum| erratum.number.clone()).collect()
    };
    values.iter_mut().for_each(|value| value.errata = explaining(&value.name));
    rows.iter_mut().for_each(|row| row.errata = explaining(&row.name));
    claims.iter_mut().for_each(|claim| claim.errata = explaining(&claim.say));
    let compared = values.iter().filter(|value| value.compared && value.errata.is_empty());
    let deviations = compared.filter_map(|value| Some(100.0 * (value.ratio? - 1.0).abs()));
    let largest =
        deviations.fold(None, |most: Option<f64>, deviation| Some(most.map_or(deviation, |m| m.max(deviation))));
    // Rows agree or do not, there is no distance.
    let agreeing = rows.iter().any(|row| row.equal == Some(true) && row.errata.is_empty());
    let largest = largest.or(agreeing.then_some(0.0));
    let mut deviating = deviating(figure, &values, &rows, &claims, &errata);
    let whole = !short || figure.short_is_whole();
    let verdict = if whole { verdict(figure, &claims, largest, &deviating) } else { Verdict::FirstLook };
    if verdict == Verdict::Differs && deviating.is_empty() {
        let far = values.iter().filter(|value| value.deviates(figure));
        deviating = far.map(|value| Deviation::of(&value.name, "deviates")).collect();
    }
    let agrees = |name: &&String| !deviating.iter().any(|deviation| deviation.name == **name);
    let stale: Vec<String> = match whole && figure.is_regenerated() {
        true => figure.because_of.iter().filter(agrees).cloned().collect(),
        false => Vec::new(),
    };
    let reason = (verdict == Verdict::Differs).then(|| reason(figure, &deviating)).flatten();
    Ok(Comparison {
        id: figure.id.clone(),
        paper: figure.paper.clone(),
        title: figure.title.clone(),
        source: figure.source.clone(),
        kind: figure.kind,
        short,
        seed: None,
        verdict_text: text(figure, verdict, largest, reason.as_deref()),
        values,
        rows,
        claims,
        errata,
        verdict,
        largest_deviation_percent: largest,
        expected: figure.expects,
        reason,
        stale,
        simplified: figure.simplified.clone(),
        fitted: catalogue::fitted(figure)?,
        assumed: Vec::new(),
    })
}

impl ComparedValue {
    /// Whether it takes part in the comparison, and is not within the tolerance.
    fn deviates(&self, figure: &Figure) -> bool {
        let (Some(published), Some(simulated)) = (self.published, self.simulated) else { return false };
        let most = published.abs() * figure.tolerance_percent / 100.0;
        self.compared && (simulated - published).abs() > most
    }
}

fn rows(figure: &Figure, short: bool, answers: &Answers) -> Vec<ComparedRow> {
    let mut rows = Vec::new();
    for row in &figure.row {
        for item in items(figure, row.each.as_ref(), short) {
            let published = row.published.as_ref().or_else(|| row.published_each.get(item)).cloned();
            let found = answers.get(&row.answer.of(item)).and_then(|found| found.list());
            let equal = published.as_ref().map(|published| found.is_some_and(|found| alike(found, published)));
            let found = found.map(<[String]>::to_vec);
            let (name, source) = (named(&row.name, item), row.source.clone());
            rows.push(ComparedRow { name, published, source, found, equal, errata: Vec::new() });
        }
    }
    rows
}

/// Whether a value is one of a point.
fn is_of(point: &Point, value: &ComparedValue, figure: &Figure) -> bool {
    items(figure, point.each.as_ref(), false).iter().any(|item| named(&point.name, item) == value.name)
}

/// A deviation from the published result.
struct Deviation {
    /// Name of a value or row, words of a claim, number of an erratum.
    name: String,
    /// The same as a sentence.
    text: String,
}

impl Deviation {
    fn of(name: &str, what: &str) -> Deviation {
        Deviation { name: name.to_owned(), text: format!("{name} {what}") }
    }

    fn of_claim(say: &str, what: &str) -> Deviation {
        Deviation { name: say.to_owned(), text: format!("{say:?} {what}") }
    }
}

/// Why a figure differs: the explanation of its file, and the names that it does not explain.
fn reason(figure: &Figure, deviating: &[Deviation]) -> Option<String> {
    let (known, open): (Vec<&Deviation>, Vec<&Deviation>) =
        deviating.iter().partition(|deviation| figure.because_of.contains(&deviation.name));
    let texts =
        |all: Vec<&Deviation>| all.iter().map(|deviation| deviation.text.as_str()).collect::<Vec<_>>().join("; ");
    match (&figure.because, known.is_empty(), open.is_empty()) {
        (_, true, true) => None,
        (Some(because), false, true) => Some(because.clone()),
        (Some(because), false, false) => {
            Some(format!("{because}; and of something not understood yet: {}", texts(open)))
        }
        _ => Some(texts(open)),
    }
}

/// Deviations that no erratum explains, and errata that are not shown, in words. If only a simulation gives a value,
/// distance is no contradiction while the claims hold.
fn deviating(
    figure: &Figure,
    all: &[ComparedValue],
    rows: &[ComparedRow],
    claims: &[JudgedClaim],
    errata: &[JudgedErratum],
) -> Vec<Deviation> {
    let mut found = Vec::new();
    let exact = all.iter().filter(|value| value.exact.is_some() && value.errata.is_empty());
    found.extend(exact.filter(|value| value.deviates(figure)).map(|value| Deviation::of(&value.name, "deviates")));
    let rows = rows.iter().filter(|row| row.equal == Some(false) && row.errata.is_empty());
    found.extend(rows.map(|row| Deviation::of(&row.name, "deviates")));
    let failing = claims.iter().filter(|claim| claim.holds == Some(false) && claim.errata.is_empty());
    found.extend(failing.map(|claim| Deviation::of_claim(&claim.say, "does not hold")));
    let asked =
        figure.claim.iter().zip(claims).filter(|(claim, judged)| claim.answer.is_some() && judged.holds.is_none());
    found.extend(asked.map(|(claim, _)| Deviation::of_claim(&claim.say, "has no result")));
    found.extend(figure.point.iter().filter(|point| point.answer.is_some()).flat_map(|point| {
        let missing = |value: &&ComparedValue| value.exact.is_none() && is_of(point, value, figure);
        all.iter().filter(missing).map(|value| Deviation::of(&value.name, "has no result")).collect::<Vec<_>>()
    }));
    found.extend(
        errata
            .iter()
            .filter(|one| !one.shown)
            .map(|one| Deviation { name: one.number.clone(), text: format!("erratum {} is not shown", one.number) }),
    );
    found
}

fn simulated(
    figure: &Figure,
    point: &Point,
    item: &str,
    take: &Take,
    values: &[ComparedValue],
    repeated: &BTreeMap<&str, Vec<usize>>,
) -> Result<Option<f64>, ReproduceError> {
    let scale = |value: f64| (value - point.less) * point.times;
    let summaries =
        [("mean_of", &point.mean_of, mean as fn(&[f64]) -> f64), ("deviation_of", &point.deviation_of, deviation)];
    for (field, of, summary) in summaries {
        let Some(of) = of else { continue };
        let places = repeated.get(of.as_str()).ok_or_else(|| {
            refuse(&figure.id, format!("point {:?}: {field}", point.name), of, "the name of a point before it")
        })?;
        let known: Option<Vec<f64>> = places.iter().map(|&place| values[place].simulated).collect();
        return Ok(known.map(|known| scale(summary(&known))).filter(|value| value.is_finite()));
    }
    if let Some([one, other]) = &point.rank_correlation_of {
        let of = |name: &String| -> Result<Option<Vec<f64>>, ReproduceError> {
            let places = repeated.get(name.as_str()).ok_or_else(|| {
                let field = format!("point {:?}: rank_correlation_of", point.name);
                refuse(&figure.id, field, name, "the name of a point before it")
            })?;
            Ok(places.iter().map(|&place| values[place].simulated).collect())
        };
        let pairs = of(one)?.zip(of(other)?).filter(|(one, other)| one.len() == other.len());
        let pairs = pairs.map(|(one, other)| one.into_iter().zip(other).collect::<Vec<_>>());
        let pairs = pairs.map(|pairs| match point.groups {
            Some(groups) => grouped(pairs, groups as usize),
            None => pairs,
        });
        return Ok(pairs.and_then(|pairs| spearman(&pairs)).map(scale));
    }
    let take = |measured: &Measured| {
        let task = measured.task.as_ref().map(|task| named(task, item));
        let alone_in = measured.alone_in.as_ref().map(|run| named(run, item));
        take(&Measured { run: named(&measured.run, item), task, measure: measured.measure, alone_in })
    };
    let Some(of) = &point.of else { return Ok(None) };
    let value = match &point.over {
        None => take(of),
        Some(over) => take(of).zip(take(over)).map(|(of, over)| of / over).filter(|ratio| ratio.is_finite()),
    };
    Ok(value.map(scale))
}

fn judge(
    figure: &Figure,
    claim: &Claim,
    values: &[ComparedValue],
    repeated: &BTreeMap<&str, Vec<usize>>,
    answers: &Answers,
) -> Result<JudgedClaim, ReproduceError> {
    let value = |name: &str| {
        let unknown = || refuse(&figure.id, format!("claim {:?}", claim.say), name, "the name of a point");
        let found = values.iter().find(|value| value.name == name).map(|value| value.simulated);
        // Values that the short form omits are not checked.
        let is_left_out = |point: &Point| {
            items(figure, point.each.as_ref(), false).iter().any(|item| named(&point.name, item) == name)
        };
        found.or_else(|| figure.point.iter().any(is_left_out).then_some(None)).ok_or_else(unknown)
    };
    let judged = |bound: String, found: String, holds: Option<bool>| JudgedClaim {
        say: claim.say.clone(),
        source: claim.source.clone(),
        bound,
        found,
        holds,
        errata: Vec::new(),
    };
    if let Some(answer) = &claim.answer {
        let (found, bound) = (answers.get(answer), claim.bound());
        let text = bound.text(&answer.result);
        let holds = found.map(|found| bound.holds(found));
        return Ok(judged(text, found.map_or_else(|| "nothing".to_owned(), Found::text), holds));
    }
    let show = |value: Option<f64>| value.map_or_else(|| "nothing".to_owned(), round);
    if !claim.falling.is_empty() {
        let found = claim.falling.iter().map(|name| value(name)).collect::<Result<Vec<_>, _>>()?;
        let by = if claim.by == 1.0 { String::new() } else { format!(", each at least {} times the next", claim.by) };
        let bound = format!("{}{by}", claim.falling.join(" > "));
        let known: Option<Vec<f64>> = found.iter().copied().collect();
        let falls = |pair: &[f64]| pair[0] > pair[1] && pair[0] >= claim.by * pair[1];
        let holds = known.map(|known| known.windows(2).all(falls));
        let shown = found.into_iter().map(show).collect::<Vec<_>>().join(", ");
        return Ok(judged(bound, shown, holds));
    }
    let Some(name) = &claim.point else { return Ok(judged(String::new(), String::new(), None)) };
    if let Some(least) = claim.rank {
        let places = repeated.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let pairs: Option<Vec<(f64, f64)>> =
            places.iter().map(|&place| values[place].simulated.zip(values[place].published)).collect();
        let correlation = pairs.and_then(|pairs| spearman(&pairs));
        let bound = format!("rank correlation with the published values at least {least}");
        return Ok(judged(bound, show(correlation), correlation.map(|found| found >= least)));
    }
    let found = value(name)?;
    let bound = match (claim.at_least, claim.at_most) {
        (Some(least), Some(most)) => format!("{name} from {least} to {most}"),
        (Some(least), None) => format!("{name} at least {least}"),
        (None, Some(most)) => format!("{name} at most {most}"),
        (None, None) => String::new(),
    };
    let holds = found.map(|found| {
        claim.at_least.is_none_or(|least| found >= least) && claim.at_most.is_none_or(|most| found <= most)
    });
    Ok(judged(bound, show(found), holds))
}

impl Claim {
    /// The published value of a result of an analysis.
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

fn verdict(figure: &Figure, claims: &[JudgedClaim], largest: Option<f64>, deviating: &[Deviation]) -> Verdict {
    if !figure.is_regenerated() {
        return Verdict::PublishedOnly;
    }
    if !deviating.is_empty() {
        return Verdict::Differs;
    }
    if !figure.erratum.is_empty() {
        return Verdict::CannotBeRight;
    }
    match largest {
        Some(largest) if largest <= figure.tolerance_percent => Verdict::Within,
        // Without a claim there is nothing a trend could be seen by.
        _ if claims.iter().any(|claim| claim.holds == Some(true)) => Verdict::SameOrderAndTrend,
        _ => Verdict::Differs,
    }
}

fn text(figure: &Figure, verdict: Verdict, largest: Option<f64>, reason: Option<&str>) -> String {
    match verdict {
        Verdict::Within => format!("within {:.0} %", largest.unwrap_or_default().ceil()),
        Verdict::SameOrderAndTrend => "same order and trend".to_owned(),
        Verdict::CannotBeRight => {
            let numbers: Vec<&str> = figure.erratum.iter().map(|erratum| erratum.number.as_str()).collect();
            let rest = match largest {
                Some(largest) if largest <= figure.tolerance_percent => {
                    format!("; all else within {:.0} %", largest.ceil())
                }
                Some(_) => "; all else of the same order and trend".to_owned(),
                None => String::new(),
            };
            format!("published value cannot be right ({}){rest}", numbers.join("; "))
        }
        Verdict::Differs => format!("differs, because {}", reason.unwrap_or("of something not understood yet")),
        Verdict::PublishedOnly => "published values only, not regenerated yet".to_owned(),
        Verdict::FirstLook => "no verdict: the short form is a first look; without --short there is one".to_owned(),
        Verdict::Failed => format!("failed: {}", reason.unwrap_or("a simulation did not do its work")),
    }
}

/// Three significant digits, or all digits of larger whole parts.
fn round(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    format!("{value:.*}", (2 - magnitude).clamp(0, 6) as usize)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Means of groups of neighbours by the second value; where there are fewer pairs than groups, each is one.
fn grouped(mut pairs: Vec<(f64, f64)>, groups: usize) -> Vec<(f64, f64)> {
    pairs.sort_by(|one, other| one.1.total_cmp(&other.1));
    let groups = groups.min(pairs.len());
    let ends = (0..=groups).map(|group| group * pairs.len() / groups.max(1)).collect::<Vec<_>>();
    let of = |group: &[(f64, f64)]| {
        let (one, other): (Vec<f64>, Vec<f64>) = group.iter().copied().unzip();
        (mean(&one), mean(&other))
    };
    ends.windows(2).map(|bounds| of(&pairs[bounds[0]..bounds[1]])).collect()
}

/// As of a sample; not a number for fewer than two values.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

/// Spearman's rank correlation; `None` for fewer than two pairs, or when all of one side are equal.
fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let ranks = |values: Vec<f64>| -> Vec<f64> {
        let rank = |value: &f64| {
            let below = values.iter().filter(|other| *other < value).count() as f64;
            let equal = values.iter().filter(|other| *other == value).count() as f64;
            below + (equal - 1.0) / 2.0
        };
        values.iter().map(rank).collect()
    };
    let one = ranks(pairs.iter().map(|pair| pair.0).collect());
    let other = ranks(pairs.iter().map(|pair| pair.1).collect());
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let sum = |of: &[f64], with: &[f64]| of.iter().zip(with).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let spread = (sum(&one, &one) * sum(&other, &other)).sqrt();
    (pairs.len() > 1 && spread > 0.0).then(|| sum(&one, &other) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_summarised() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(deviation(&[1.0, 2.0, 6.0]), 7.0_f64.sqrt());
        assert!(!deviation(&[1.0]).is_finite());
    }

    #[test]
    fn neighbours_count_with_their_means() {
        let pairs = vec![(9.0, 4.0), (1.0, 1.0), (5.0, 2.0), (3.0, 3.0), (7.0, 5.0)];
        assert_eq!(grouped(pairs.clone(), 2), [(3.0, 1.5), (19.0 / 3.0, 4.0)]);
        assert_eq!(grouped(pairs, 9).len(), 5);
        assert!(grouped(Vec::new(), 3).is_empty());
    }

    #[test]
    fn ranks_correlate() {
        assert_eq!(spearman(&[(1.0, 10.0), (2.0, 100.0), (3.0, 1000.0)]), Some(1.0));
        assert_eq!(spearman(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        // Spearman by hand: ranks 1 2 3 4 against 2 1 4 3, 1 - 6 * 4 / (4 * 15).
        let found = spearman(&[(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0)]).unwrap();
        assert!((found - 0.6).abs() < 1e-12);
        assert_eq!(spearman(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([3.286, 0.0213, 12345.6, 0.0].map(round), ["3.29", "0.0213", "12346", "0.00"]);
    }
}
